//! Decision of a start for all regions of a flash: they have one note, one epoch and one fate.
//!
//! Each region is judged alone, as the flash of one shard. A reason to refuse one region refuses
//! all, and pages that one loses all lose: a clean page that is dropped for no reason is read
//! again. The steps are then taken for all regions before the next one begins, with the epoch that
//! is new to each. The note is one file that is replaced as a whole, so it says of all regions the
//! same.
//!
//! A crash may leave regions of two epochs, the note's and the one that it says begins; or some that say
//! how they ended, and some that do not. The note says only what all of them say.

use uuid::Uuid;

use crate::epoch::{Begin, Keep};
use crate::offline::Contents;
use crate::side_file::{SideFile, SideFileError};
use crate::start::{Found, FoundFlash, Intent, Plan, Step};

/// State that a start finds, on a flash of one or more regions.
#[derive(Clone, Debug)]
pub struct FoundSet {
    /// State of the cache, with the first region.
    pub found: Found,
    /// Contents of each region; empty unless there is a cache.
    pub regions: Vec<Contents>,
}

impl FoundSet {
    /// Return the size and the cache for which a fingerprint of the backing store is wanted. It
    /// goes to [`Found::backing`].
    pub fn sample(&self) -> Option<(Uuid, u64)> {
        self.each().find_map(|found| found.sample())
    }

    /// Return the steps to take, or the reason why they must not be taken.
    ///
    /// # Errors
    /// If the flash and the backing store must not be used together, or not for that intent.
    pub fn plan(&self, intent: Intent) -> Result<Plan, SideFileError> {
        let mut plans = self.each().map(|found| found.plan(intent));
        let first = plans.next().unwrap_or_else(|| self.found.plan(intent))?;
        plans.try_fold(first, |joined, plan| Ok(join(joined, plan?)))
    }

    /// Return the state that a start would find if a region were the whole flash, for each.
    fn each(&self) -> impl Iterator<Item = Found> {
        let of = |&contents| Found { flash: FoundFlash::Cache(contents), ..self.found };
        self.regions.iter().map(of)
    }
}

/// Join two plans for two regions to one.
fn join(mut one: Plan, other: Plan) -> Plan {
    debug_assert_eq!(one.steps.len(), other.steps.len(), "regions go the same way");
    one.notice = one.notice.or(other.notice);
    for (step, other) in one.steps.iter_mut().zip(other.steps) {
        *step = match (*step, other) {
            (Step::WriteNote(note), Step::WriteNote(other)) => {
                Step::WriteNote(join_notes(note, other))
            }
            (Step::BeginEpoch(begin), Step::BeginEpoch(other)) => {
                Step::BeginEpoch(join_begins(begin, other))
            }
            (Step::WriteBack(begin), Step::WriteBack(other)) => {
                Step::WriteBack(join_begins(begin, other))
            }
            (step, _) => step,
        };
    }
    one
}

fn join_notes(one: SideFile, other: SideFile) -> SideFile {
    // A note that says which epoch begins names the oldest that a region may be in; another one names
    // the epoch in which all are.
    let is_beginning = one.begins.is_some();
    let epoch = if is_beginning { one.epoch.min(other.epoch) } else { one.epoch.max(other.epoch) };
    SideFile {
        cache: one.cache,
        epoch,
        has_dirty: one.has_dirty || other.has_dirty,
        begins: one.begins.max(other.begins),
        end: one.end.filter(|_| one.end == other.end),
    }
}

fn join_begins(one: Begin, other: Begin) -> Begin {
    let keeps_all = (one.keep, other.keep) == (Keep::All, Keep::All);
    Begin {
        keep: if keeps_all { Keep::All } else { Keep::Dirty },
        backing_bytes: one.backing_bytes.or(other.backing_bytes),
        epoch: one.epoch.max(other.epoch),
    }
}
