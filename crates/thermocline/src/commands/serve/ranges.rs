//! Orders about ranges of a volume: the shards carry them out between the requests of clients.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, mpsc};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use thermocline_engine::{Options, RangeCommand, RangeDone, RangeError, RangeWork, Shard};
use thermocline_nbd::server::Handle;
use tracing::{info, warn};

use super::pins::PinFile;
use crate::bytes::ByteRange;

/// Pause between two steps of an order, in which the shards serve their clients.
const STEP: Duration = Duration::from_millis(1);

/// Command about a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RangeWord {
    Evict,
    Promote,
    Pin,
    Unpin,
}

impl RangeWord {
    const fn command(self) -> RangeCommand {
        match self {
            Self::Evict => RangeCommand::Evict,
            Self::Promote => RangeCommand::Promote,
            Self::Pin => RangeCommand::Pin,
            Self::Unpin => RangeCommand::Unpin,
        }
    }

    /// Say how an order ended.
    fn said(self, done: RangeDone) -> String {
        let RangeDone { pages, all_pages } = done;
        match self {
            Self::Evict => format!(
                "{pages} pages left the cache: the backing store has all {all_pages} pages of the range\n"
            ),
            Self::Promote => {
                format!("{pages} of the {all_pages} pages of the range are in the cache\n")
            }
            Self::Pin => {
                format!("the range is pinned: {pages} of its {all_pages} pages are in the cache\n")
            }
            Self::Unpin => format!("the range is no longer pinned: {pages} pages left the cache\n"),
        }
    }
}

/// An order about a range, as the control socket takes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RangeOrder {
    /// The volume; the only one if there is no name.
    pub(crate) volume: Option<String>,
    pub(crate) word: RangeWord,
    pub(crate) range: ByteRange,
}

/// The part of an order that one shard has.
#[derive(Debug)]
struct Part {
    word: RangeWord,
    pages: Range<u64>,
    done: mpsc::Sender<Result<RangeDone, RangeError>>,
}

/// The orders that the shards of a volume have not begun.
#[derive(Debug)]
pub(super) struct Ranges {
    page_bytes: u64,
    /// Options of the shards, and what is pinned.
    shards: Mutex<Vec<Options>>,
    pins: PinFile,
    parts: Vec<Mutex<VecDeque<Part>>>,
}

impl Ranges {
    /// Create an empty list of orders.
    pub(super) fn new(page_bytes: u64, shards: Vec<Options>, pins: PinFile) -> Self {
        let parts = shards.iter().map(|_| Mutex::default()).collect();
        Self { page_bytes, shards: Mutex::new(shards), pins, parts }
    }

    /// Note that the backing store has that many pages now.
    pub(super) fn grow(&self, backing_pages: u64) {
        for options in &mut *self.shards() {
            options.backing_pages = backing_pages;
        }
    }

    fn shards(&self) -> MutexGuard<'_, Vec<Options>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an order to all shards. The returned value waits for their results.
    ///
    /// # Errors
    /// If there is no room for a range that is to be pinned, or nobody could know of it later.
    pub(super) fn order(&self, order: &RangeOrder) -> Result<RangeResults> {
        // All shards have room, or none pins anything. A crash from here on leaves the range pinned.
        self.pins.change(order.word, order.range, &self.shards())?;
        let (results, word) = (mpsc::channel(), order.word);
        let pages = order.range.pages(self.page_bytes);
        for parts in &self.parts {
            let (pages, done) = (pages.clone(), results.0.clone());
            let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.push_back(Part { word, pages, done });
        }
        let (results, missing) = (results.1, self.parts.len());
        Ok(RangeResults { word, range: order.range, results, missing })
    }

    fn next(&self, shard: usize) -> Option<Part> {
        self.parts[shard].lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// The orders about ranges of all volumes, which may come and go.
#[derive(Clone, Debug, Default)]
pub(super) struct VolumeRanges(Arc<RwLock<Vec<NamedRanges>>>);

/// The name of a volume, and its orders.
type NamedRanges = (String, Arc<Ranges>);

impl VolumeRanges {
    /// Take orders for one more volume.
    pub(super) fn add(&self, name: &str, ranges: &Arc<Ranges>) {
        let mut each = self.0.write().unwrap_or_else(PoisonError::into_inner);
        each.push((name.to_owned(), Arc::clone(ranges)));
    }

    /// Take no more orders for a volume.
    pub(super) fn remove(&self, name: &str) {
        let mut each = self.0.write().unwrap_or_else(PoisonError::into_inner);
        each.retain(|(other, _)| other != name);
    }

    /// Find the volume of that name, or the only one.
    ///
    /// # Errors
    /// If there is none of that name, or the name is missing.
    pub(super) fn find(&self, wanted: Option<&str>) -> Result<Arc<Ranges>> {
        let each = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let names = || each.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(", ");
        let found = match (wanted, &**each) {
            (None, [(_, only)]) => only,
            (None, _) => bail!("name a volume with --volume, of: {}", names()),
            (Some(wanted), each) => {
                let found = each.iter().find(|(name, _)| name == wanted);
                let unknown = || format!("unknown volume `{wanted}`: the server has {}", names());
                &found.with_context(unknown)?.1
            }
        };
        Ok(Arc::clone(found))
    }
}

/// The results of an order that are still to come.
#[derive(Debug)]
pub(super) struct RangeResults {
    word: RangeWord,
    range: ByteRange,
    results: mpsc::Receiver<Result<RangeDone, RangeError>>,
    missing: usize,
}

impl RangeResults {
    /// Waits for all shards, which `server` reaches, and returns what to tell the user.
    ///
    /// # Errors
    /// If a shard cannot do it, or the server ends.
    pub(super) fn wait(self, server: &Handle) -> Result<String> {
        let (mut all, mut failed) = (RangeDone::default(), None);
        for _ in 0..self.missing {
            let result = loop {
                match self.results.recv_timeout(STEP) {
                    // A thread takes a step when it wakes. Without clients only the clock wakes it,
                    // and seldom.
                    Err(mpsc::RecvTimeoutError::Timeout) => server.wake(),
                    result => break result,
                }
            };
            match result.context("the server or the volume ended before it was done")? {
                Ok(done) => {
                    all.pages += done.pages;
                    all.all_pages += done.all_pages;
                }
                // The other shards still work on the range: the answer comes when all have ended.
                Err(error) => failed = Some(error),
            }
        }
        let Self { word, range, .. } = self;
        match failed {
            Some(error) => {
                warn!(?word, %range, %error, "an order about a range failed");
                Err(error.into())
            }
            None => {
                info!(?word, %range, pages = all.pages, "carried out an order about a range");
                Ok(word.said(all))
            }
        }
    }
}

/// The order that a shard works on, if there is one.
#[derive(Debug, Default)]
pub(super) struct Ranging {
    current: Option<(RangeWork, Part)>,
}

impl Ranging {
    /// Takes the next step of an order.
    pub(super) fn advance(&mut self, ranges: &Ranges, shard: &mut Shard) {
        let (mut work, part) = match self.current.take() {
            Some(current) => current,
            None => {
                let Some(part) = ranges.next(shard.options().share.index.into()) else { return };
                match shard.begin_range(part.word.command(), part.pages.clone()) {
                    Ok(work) => (work, part),
                    Err(error) => return part.finish(Err(error)),
                }
            }
        };
        match shard.advance_range(&mut work) {
            Ok(None) => self.current = Some((work, part)),
            Ok(Some(done)) => part.finish(Ok(done)),
            Err(error) => part.finish(Err(error)),
        }
    }
}

impl Part {
    /// Answers who waits.
    fn finish(self, result: Result<RangeDone, RangeError>) {
        // Nobody waits if the server is about to end.
        drop(self.done.send(result));
    }
}
