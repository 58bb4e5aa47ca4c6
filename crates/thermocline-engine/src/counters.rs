//! Counters of the engine.

use thermocline_core::{Counts, Op, Tier};

use crate::figure::Figure;
use crate::operation::OperationKind;

/// Purpose of a transfer of pages or blocks between RAM and a device.
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

/// Number of purposes.
pub const PURPOSES: usize = 6;

/// Names of the purposes, in their order.
pub const PURPOSE_NAMES: [&str; PURPOSES] =
    ["policy", "durability", "cleaning", "journal", "table", "bypass"];

/// Declares a struct of counters together with the table of its figures.
macro_rules! counters {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident { $($(#[$described:meta])* $plain:ident: $type:ty,)* }
        $(#[$table_attribute:meta])*
        pub const $table:ident, labels $labels:expr, metrics $prefix:literal {
            $($field:ident $(as $metric:literal)?: $help:literal $(+ $details:literal)?,)*
        }
    ) => {
        $(#[$attribute])*
        #[non_exhaustive]
        pub struct $name {
            $($(#[$described])* pub $plain: $type,)*
            $(#[doc = concat!($help, ".")] pub $field: u64,)*
        }

        $(#[$table_attribute])*
        pub const $table: &[Figure<$name>] = &[$(
            Figure::counter(stringify!($field), $help, |counted: &$name| counted.$field.into())
                .metric(counters!(@metric $prefix $field $($metric)?))
                $(.details($details))?
                .labels($labels),
        )*];
    };
    (@metric $prefix:literal $field:ident) => { concat!($prefix, stringify!($field)) };
    (@metric $prefix:literal $field:ident $metric:literal) => { concat!($prefix, $metric) };
}

counters! {
    /// Transfers of one device.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Transfers {
        /// Bytes read, by [`Purpose`].
        read_bytes: [u64; PURPOSES],
        /// Bytes written, by [`Purpose`].
        written_bytes: [u64; PURPOSES],
    }

    /// The figures of a device. A counter of a device is one row.
    pub const TRANSFER_FIGURES, labels &["device"], metrics "device_" {
        reads: "Read operations sent to a device",
        writes: "Write operations sent to a device",
        zeroed_bytes: "Bytes that became zero without being written"
            + "Trimmed or zeroed ranges that no cache holds go to the backing store like that.",
        discarded_bytes: "Bytes that a device was told are no longer needed",
        syncs: "Syncs sent to a device"
            + "Flushes share them.",
        errors: "Operations of a device that failed",
    }
}

counters! {
    /// Counts of the engine since it was started.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Counters {
        /// The policy's view: hits per tier, and copies. Hits in RAM, hits on flash, misses and
        /// bypasses add up to the page accesses of all requests.
        policy: Counts,
        /// Page accesses of all requests, by operation (`Op as usize`).
        accesses: [u64; 2],
        /// Page accesses that no policy was asked about, by operation (`Op as usize`).
        bypasses: [u64; 2],
        /// Transfers of the flash.
        flash: Transfers,
        /// Transfers of the backing store.
        backing: Transfers,
    }

    /// The figures of the engine that are counters. A counter is one row.
    pub const COUNTER_FIGURES, labels &[], metrics "" {
        checksum_errors: "Pages whose checksum did not match"
            + "They came from flash, and were not served.",
        page_losses: "Pages lost so far"
            + "Pages that a later write healed count, too: see [faults](#faults).",
        flushes: "Flushes and durable writes answered"
            + "Writes with FUA are durable writes. Each shard that has to do with one counts it.",
        commits as "journal_commits": "Commits of the journal"
            + "Each is one sync of flash and journal; flushes over commits say how many flushes share \
               one.",
        checkpoints: "Checkpoints of the slot table",
        budget_refusals: "Copies to flash that the write budget did not allow",
        flash_absent: "Pages that the policy has on flash, read from disk instead"
            + "The write budget refused them, or the flash could not give them.",
        copies_saved_flash: "Copies to flash that the policy asked for, of pages that a slot already had",
        copies_saved_disk: "Copies to disk that the policy asked for, of pages that the disk already had",
        demotions: "Clean pages offered to the server when they left RAM"
            + "See [policies on two hosts](two-hosts.md), also for the next five.",
        demotions_taken: "Clean pages of clients that RAM accepted",
        demotions_refused: "Clean pages of clients that the policy did not accept",
        pushes: "Pages sent to a client because of one that it gave up",
        pushes_taken: "Pages that the server sent because of one that left RAM, and that RAM accepted",
        pages_outdated: "Pages that left RAM because another client wrote them",
        fetches_saved: "Reads avoided because a write covered the whole page",
        partial_fetches: "Pages read only because a write replaced a part of them"
            + "A high count means that clients write less than `page_size` at a time.",
    }
}

impl Counters {
    /// Return `true` if every page access is a hit, a miss or a bypass.
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
    /// Count an operation and its pages, each with its purpose, of `bytes` each.
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

    /// Return the number of bytes written for any purpose.
    pub fn all_written_bytes(&self) -> u64 {
        self.written_bytes.iter().sum()
    }

    /// Return the number of bytes read for any purpose.
    pub fn all_read_bytes(&self) -> u64 {
        self.read_bytes.iter().sum()
    }
}
