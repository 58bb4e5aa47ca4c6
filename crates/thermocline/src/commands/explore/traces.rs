//! The traces of the page: read in the background, and shared by all that look at them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use thermocline_lab::TraceSummary;
use thermocline_trace::{CompiledTrace, FileTable};

use super::changing::Changing;
use super::problem::sentence;
use crate::arguments::Reading;
use crate::output;
use crate::reading::{self, Onlooker};

/// The file of the trace that is built in, and the page size that it is read with.
const BUNDLED: (&str, &str) = ("pgbench.csv.zst", "8KiB");
/// While a trace is read, waiting requests are told that often.
const TELL: Duration = Duration::from_millis(100);

/// Origin of a trace.
#[derive(Debug)]
pub(super) enum Origin {
    /// A file of this machine.
    Path(PathBuf),
    /// A file that was dropped on the page; it has no name here.
    Dropped,
    /// The program itself.
    Bundled,
}

/// A trace.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) origin: Origin,
    pub(super) phase: Changing<Phase>,
    onlooker: Onlooker,
    /// Accesses that were compiled so far.
    accesses: AtomicU64,
}

/// Progress of a trace.
#[derive(Debug)]
pub(super) enum Phase {
    Reading,
    Ready(Arc<Opened>),
    /// Reason, in a sentence.
    Failed(String),
}

/// A trace that was read.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) compiled: CompiledTrace,
    /// The files of a recording.
    pub(super) files: Option<Arc<FileTable>>,
}

/// Description of a trace for the page.
#[derive(Debug, Serialize)]
pub(super) struct TraceJson {
    id: u64,
    name: String,
    version: u64,
    state: &'static str,
    read_bytes: u64,
    total_bytes: Option<u64>,
    accesses: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    summary: Option<ReadyJson>,
}

/// Description of a trace that was read.
#[derive(Debug, Serialize)]
struct ReadyJson {
    footprint_pages: u64,
    page_size_bytes: u64,
    reads: u64,
    writes: u64,
}

impl Trace {
    /// Return the trace of a file.
    pub(super) fn of_path(id: u64, path: &Path) -> Self {
        Self::new(id, reading::file_name(path), Origin::Path(path.to_owned()))
    }

    /// Create a trace that was dropped on the page.
    pub(super) fn dropped(id: u64, name: String) -> Self {
        Self::new(id, name, Origin::Dropped)
    }

    /// Return the trace that is built in.
    pub(super) fn bundled(id: u64) -> Self {
        Self::new(id, BUNDLED.0.into(), Origin::Bundled)
    }

    fn new(id: u64, name: String, origin: Origin) -> Self {
        Self {
            id,
            name,
            origin,
            phase: Changing::new(Phase::Reading),
            onlooker: Onlooker::new(),
            accesses: AtomicU64::new(0),
        }
    }

    /// Reads it on this thread, from `dropped` if it was dropped on the page.
    pub(super) fn read(&self, reading: &Reading, dropped: Option<File>) {
        let phase = match self.open(reading, dropped) {
            Ok((compiled, files)) => {
                self.accesses.store(compiled.len() as u64, Ordering::Relaxed);
                Phase::Ready(Arc::new(Opened { compiled, files }))
            }
            Err(error) => Phase::Failed(sentence(&error)),
        };
        self.phase.change(|now| *now = phase);
    }

    fn open(
        &self,
        reading: &Reading,
        dropped: Option<File>,
    ) -> Result<(CompiledTrace, Option<Arc<FileTable>>)> {
        let mut told_at = Instant::now();
        let tell = |more: usize| {
            self.accesses.fetch_add(more as u64, Ordering::Relaxed);
            if told_at.elapsed() > TELL {
                told_at = Instant::now();
                self.phase.change(|_| ());
            }
        };
        match (&self.origin, dropped) {
            (Origin::Path(path), _) => self.onlooker.open(path, reading, tell),
            (Origin::Dropped, Some(file)) => {
                self.onlooker.open_unnamed(&self.name, file, reading, tell)
            }
            (Origin::Dropped | Origin::Bundled, _) => Ok((thermocline_lab::bundled_trace()?, None)),
        }
    }

    /// Stops its reading.
    pub(super) fn stop(&self) {
        self.onlooker.watch.stop();
    }

    /// Return the trace.
    ///
    /// # Errors
    /// If it is not read yet or could not be, in a sentence.
    pub(super) fn opened(&self) -> Result<Arc<Opened>, String> {
        self.phase.look(|phase, _| match phase {
            Phase::Ready(opened) => Ok(Arc::clone(opened)),
            Phase::Reading => {
                Err(format!("trace {} is still being read: wait until it is ready", self.id))
            }
            Phase::Failed(_) => {
                Err(format!("trace {} could not be read: open another one", self.id))
            }
        })
    }

    /// Return the words of a command line that read it in the same way.
    pub(super) fn words(&self, reading: &Reading) -> Vec<String> {
        match &self.origin {
            Origin::Path(path) => [vec![path.display().to_string()], reading.words()].concat(),
            Origin::Dropped => [vec![self.name.clone()], reading.words()].concat(),
            Origin::Bundled => {
                let (name, page_size) = BUNDLED;
                [name, "--page-size", page_size].map(str::to_owned).into()
            }
        }
    }

    /// Return the description for the page.
    pub(super) fn json(&self) -> TraceJson {
        self.phase.look(|phase, version| {
            let (state, error, opened) = match phase {
                Phase::Reading => ("reading", None, None),
                Phase::Ready(opened) => ("ready", None, Some(opened)),
                Phase::Failed(error) => ("failed", Some(error.clone()), None),
            };
            TraceJson {
                id: self.id,
                name: self.name.clone(),
                version,
                state,
                read_bytes: self.onlooker.bytes.position(),
                total_bytes: self.onlooker.bytes.length(),
                accesses: self.accesses.load(Ordering::Relaxed),
                error,
                summary: opened.map(|opened| ReadyJson::of(&opened.compiled)),
            }
        })
    }

    /// Describe the trace in a line.
    pub(super) fn title(&self) -> String {
        match self.opened() {
            Ok(opened) => {
                format!("{} ({} accesses)", self.name, output::count(opened.compiled.len() as u64))
            }
            Err(_) => self.name.clone(),
        }
    }
}

impl ReadyJson {
    fn of(trace: &CompiledTrace) -> Self {
        let TraceSummary { footprint_pages, page_size_bytes, reads, writes, .. } =
            TraceSummary::of(trace);
        Self { footprint_pages, page_size_bytes, reads, writes }
    }
}
