//! What the engine counts.

use thermocline_core::{Counts, Op, Tier};

use crate::operation::OperationKind;

/// Why pages or blocks move between RAM and a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// The policy said so, or a request needs the bytes.
    Policy = 0,
    /// A flush must find nothing that only RAM has.
    Durability = 1,
    /// Dirty pages of flash are written to disk.
    Cleaning = 2,
    /// The journal of the flash.
    Journal = 3,
    /// The slot table and the superblock of the flash.
    Table = 4,
    /// Requests that bypass the caches.
    Bypass = 5,
}

/// How many purposes there are.
pub const PURPOSES: usize = 6;

/// What they are called, in their order.
pub const PURPOSE_NAMES: [&str; PURPOSES] =
    ["policy", "durability", "cleaning", "journal", "table", "bypass"];

/// Transfers of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Bytes read, by [`Purpose`].
    pub read_bytes: [u64; PURPOSES],
    /// Bytes written, by [`Purpose`].
    pub written_bytes: [u64; PURPOSES],
    /// Read operations.
    pub reads: u64,
    /// Write operations.
    pub writes: u64,
    /// Bytes that became zero without being written.
    pub zeroed_bytes: u64,
    /// Bytes that were said to be no longer needed.
    pub discarded_bytes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Operations that failed.
    pub errors: u64,
}

/// What the engine counted since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The policy's view: hits per tier, and copies. Hits in RAM, hits on flash, misses and
    /// bypasses add up to the page accesses of all requests.
    pub policy: Counts,
    /// Page accesses of all requests, by operation (`Op as usize`).
    pub accesses: [u64; 2],
    /// Page accesses that no policy was asked about, by operation (`Op as usize`).
    pub bypasses: [u64; 2],
    /// What the flash transferred.
    pub flash: Transfers,
    /// What the backing store transferred.
    pub backing: Transfers,
    /// Copies to disk that the policy asked for, of pages that the disk already had.
    pub copies_saved_disk: u64,
    /// Copies to flash that the policy asked for, of pages that a slot already had.
    pub copies_saved_flash: u64,
    /// Reads that whole-page writes made needless.
    pub fetches_saved: u64,
    /// Pages that the policy believed on flash, and that came from disk.
    pub flash_absent: u64,
    /// Copies to flash that the write budget did not allow.
    pub budget_refusals: u64,
    /// Pages read only because a write replaced a part of them.
    pub partial_fetches: u64,
    /// Pages whose checksum did not match.
    pub checksum_errors: u64,
    /// Flushes and durable writes answered.
    pub flushes: u64,
    /// Commits of the journal.
    pub commits: u64,
    /// Checkpoints of the slot table.
    pub checkpoints: u64,
    /// Pages that came to be lost.
    pub lost_pages: u64,
}

impl Counters {
    /// Whether every page access is a hit, a miss or a bypass.
    pub fn balance(&self) -> bool {
        [Op::Read, Op::Write].into_iter().all(|op| {
            let hits = |tier| match op {
                Op::Read => self.policy.read_hits(tier),
                Op::Write => self.policy.write_hits(tier),
            };
            let known: u64 = [Tier::RAM, Tier::FLASH, Tier::DISK].into_iter().map(hits).sum();
            known + self.bypasses[op as usize] == self.accesses[op as usize]
        })
    }
}

impl Transfers {
    /// Counts an operation with its pages, each for a purpose and of so many bytes.
    pub(crate) fn count(
        &mut self,
        kind: OperationKind,
        pages: impl Iterator<Item = (Purpose, u64)>,
    ) {
        let by_purpose = match kind {
            OperationKind::Read => {
                self.reads += 1;
                &mut self.read_bytes
            }
            OperationKind::Write => {
                self.writes += 1;
                &mut self.written_bytes
            }
            OperationKind::Zero => {
                self.zeroed_bytes += pages.map(|(_, bytes)| bytes).sum::<u64>();
                return;
            }
            OperationKind::Discard => {
                self.discarded_bytes += pages.map(|(_, bytes)| bytes).sum::<u64>();
                return;
            }
            OperationKind::Sync => {
                self.syncs += 1;
                return;
            }
        };
        for (purpose, bytes) in pages {
            by_purpose[purpose as usize] += bytes;
        }
    }

    /// Bytes written for any purpose.
    pub fn all_written_bytes(&self) -> u64 {
        self.written_bytes.iter().sum()
    }

    /// Bytes read for any purpose.
    pub fn all_read_bytes(&self) -> u64 {
        self.read_bytes.iter().sum()
    }
}
