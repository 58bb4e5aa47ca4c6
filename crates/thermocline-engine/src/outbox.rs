//! Page transfers on their way to the driver: neighbours become one operation.

use std::cmp::Reverse;

use smallvec::SmallVec;

use crate::counters::Purpose;
use crate::memory::FrameId;
use crate::operation::{Device, OperationKind};

/// One page between a frame and a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) device: Device,
    /// Anything but a sync; zeroes and discards are of the backing store only.
    pub(crate) kind: OperationKind,
    /// The page of the backing store, or the slot of the flash.
    pub(crate) position: u32,
    pub(crate) frame: FrameId,
    pub(crate) purpose: Purpose,
    /// What it is for.
    pub(crate) task: Task,
    /// Whether it failed before, together with its neighbours.
    pub(crate) is_retry: bool,
}

/// What a transfer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// A fetch, by its number.
    Fetch(usize),
    /// A page goes to its slot.
    SlotWrite { page: u32 },
    /// A page goes to disk.
    DiskWrite { page: u32 },
}

/// Transfers of neighbouring pages.
pub(crate) type Run = SmallVec<[Transfer; 1]>;

/// The longest operation that moves bytes, in pages.
const RUN_PAGES_MAX: usize = 64;
/// The longest operation that moves none, in pages.
const BLANK_RUN_PAGES_MAX: usize = 1024;

/// Transfers not yet given to the driver.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Since the last call of `next_run`, in the order of their coming.
    fresh: Vec<Transfer>,
    /// Sorted, the next one last.
    sorted: Vec<Transfer>,
}

impl Outbox {
    pub(crate) fn push(&mut self, transfer: Transfer) {
        self.fresh.push(transfer);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.sorted.is_empty()
    }

    /// The next transfers that are neighbours on their device.
    pub(crate) fn next_run(&mut self) -> Option<Run> {
        if self.sorted.is_empty() {
            std::mem::swap(&mut self.fresh, &mut self.sorted);
            let key =
                |transfer: &Transfer| (transfer.device, transfer.kind as u8, transfer.position);
            self.sorted.sort_by_key(|transfer| Reverse(key(transfer)));
        }
        let first = self.sorted.pop()?;
        let pages_max = match first.kind {
            OperationKind::Discard | OperationKind::Zero => BLANK_RUN_PAGES_MAX,
            OperationKind::Read | OperationKind::Write | OperationKind::Sync => RUN_PAGES_MAX,
        };
        let mut run = Run::from_slice(&[first]);
        while run.len() < pages_max
            && let (Some(last), Some(next)) = (run.last(), self.sorted.last())
            && (next.device, next.kind) == (last.device, last.kind)
            && next.position == last.position + 1
            && !(next.is_retry || last.is_retry)
        {
            run.extend(self.sorted.pop());
        }
        Some(run)
    }
}
