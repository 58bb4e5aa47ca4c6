//! Looking on while traces are replayed, from another thread: how far they are, and a way to stop.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thermocline_trace::{CompiledTrace, PageSize, Request, Requests, TraceError};

use crate::LabError;

/// Accesses that are replayed between two looks at a watch: at ten million a second, many looks in the
/// time that people notice.
pub(crate) const CHUNK_ACCESSES: usize = 1 << 14;

/// Progress and cancellation of replays. Clones are the same watch.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<State>);

#[derive(Debug, Default)]
struct State {
    accesses: AtomicU64,
    is_stopped: AtomicBool,
}

impl Watch {
    /// Return the number of accesses that were replayed so far, by all that this watch looks at.
    pub fn accesses(&self) -> u64 {
        self.0.accesses.load(Ordering::Relaxed)
    }

    /// Stop all replays soon; each then returns [`LabError::Stopped`].
    pub fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Return `true` if they are to stop.
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped.load(Ordering::Relaxed)
    }

    /// Compiles what a source has, unless it is stopped; of more than one thread, another reads ahead.
    ///
    /// # Errors
    /// As for [`CompiledTrace::compile`], or [`LabError::Stopped`].
    pub fn compile(
        &self,
        source: impl Requests + Send,
        page_size: PageSize,
        threads: usize,
    ) -> Result<CompiledTrace, LabError> {
        if threads > 1 {
            return self.compile_telling(source, page_size, |_| ());
        }
        let mut source = Watched { source, watch: self };
        let compiled = CompiledTrace::compile(&mut source, page_size);
        self.check()?;
        Ok(compiled?)
    }

    /// Compile what a source has while another thread reads ahead. `tell` is called with the number of
    /// accesses in each part that is compiled.
    ///
    /// # Errors
    /// As for [`compile`](Self::compile).
    pub fn compile_telling(
        &self,
        source: impl Requests + Send,
        page_size: PageSize,
        mut tell: impl FnMut(usize),
    ) -> Result<CompiledTrace, LabError> {
        let mut source = Watched { source, watch: self };
        let tell = |packed: &[u32]| tell(packed.len());
        let compiled = CompiledTrace::compile_telling(&mut source, page_size, tell);
        self.check()?;
        Ok(compiled?)
    }

    /// Report that `accesses` more accesses are replayed.
    pub(crate) fn advance(&self, accesses: usize) {
        self.0.accesses.fetch_add(accesses as u64, Ordering::Relaxed);
    }

    /// Check that work may go on.
    ///
    /// # Errors
    /// [`LabError::Stopped`] if not.
    pub fn check(&self) -> Result<(), LabError> {
        if self.is_stopped() { Err(LabError::Stopped) } else { Ok(()) }
    }
}

/// A source that ends when it is stopped.
struct Watched<'a, R> {
    source: R,
    watch: &'a Watch,
}

impl<R: Requests> Requests for Watched<'_, R> {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        if self.watch.is_stopped() {
            batch.clear();
            return Ok(false);
        }
        self.source.read_batch(batch)
    }

    fn volume_names(&self) -> &[String] {
        self.source.volume_names()
    }

    fn path(&self) -> &Path {
        self.source.path()
    }
}
