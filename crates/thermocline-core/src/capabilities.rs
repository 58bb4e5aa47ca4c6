//! Capabilities and needs of policies, one record per policy.

use crate::CACHE_TIERS_MAX;
use crate::config::Parameter;

/// Capabilities and needs of a policy. Drivers, checks and lists of policies read this record and
/// nothing else.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a policy")]
pub struct Capabilities {
    /// The hierarchies that it runs on.
    pub depth: Depth,
    /// `true` if drivers must call [`Policy::background`](crate::Policy::background).
    pub needs_clock: bool,
    /// `true` if its first tier may have no page.
    pub runs_without_memory: bool,
    /// `true` if several clients may share its lower tiers.
    pub takes_clients: bool,
    /// `true` if an identifier may decide which pages enter flash.
    pub takes_admission: bool,
    /// `true` if its decisions depend on where pages lie on disk: on which are neighbours, or which has
    /// the lower address.
    pub looks_at_neighbours: bool,
    /// `true` if it decides by extents, so that a sample of the pages must consist of whole ones.
    pub decides_by_extents: bool,
    /// `true` if it asks which misses follow one another on disk. Its memory is then LRU, and a driver
    /// that leaves accesses out must say so in [`Inputs::miss_order`](crate::Inputs::miss_order).
    pub asks_for_miss_order: bool,
    /// `true` if it sends long sequential runs past the cache. A driver that leaves accesses out must say
    /// how long they are in [`Inputs::run_lengths`](crate::Inputs::run_lengths).
    pub asks_for_run_lengths: bool,
    /// `true` if the tests of this crate cover it. A driver checks the actions of any other policy with
    /// a [`Ledger`](crate::Ledger).
    pub is_tested: bool,
    /// Knowledge of future accesses that the policy needs.
    pub future: Future,
    /// The parameter that lets it keep writes back, which several clients exclude.
    pub write_back: Option<&'static Parameter>,
    /// The parameter that says how many pages it evicts at once, for which its first tier needs room.
    pub whole_block: Option<&'static Parameter>,
    /// The most heap that it holds with a sparse index and its default parameters. Write buffers and
    /// policies that need [`Future::Accesses`] always use tables, and ignore it.
    pub sparse_memory: SparseMemory,
}

/// The hierarchies that a policy runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// RAM over disk; a flash tier may be there and stays empty.
    Ram,
    /// RAM and flash over disk.
    RamFlash,
    /// Two to eight tiers of caches over disk.
    Tiers,
    /// A write buffer over NAND.
    Buffer,
}

/// Knowledge of future accesses that a policy needs; the [inputs](crate::Inputs) of its setup hold
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Future {
    /// None: any driver can run the policy.
    Unknown,
    /// The hints that `h-hfa` gave in an earlier run on the same accesses.
    Hints,
    /// The accesses themselves, along which the policy is then driven.
    Accesses,
}

/// The heap that a policy holds at most with a [sparse index](crate::Indexing::Sparse) and its default
/// parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SparseMemory {
    /// Bytes per page that it caches, or keeps a ghost of.
    pub bytes_per_page: u32,
    /// Bytes beyond these per page of the disk, cached or not.
    pub bytes_per_disk_page: u32,
    /// `true` if only pages of the disk count that were accessed since the policy was built.
    pub is_of_accessed_pages: bool,
    /// Reason why the definition asks for more than 64 bytes per page, if it does.
    pub reason: Option<&'static str>,
}

impl Capabilities {
    /// Create a policy of this project that uses no more than accesses, and needs no more.
    pub(crate) const fn of(depth: Depth) -> Self {
        Self {
            depth,
            needs_clock: false,
            runs_without_memory: false,
            takes_clients: matches!(depth, Depth::Tiers),
            takes_admission: false,
            looks_at_neighbours: false,
            decides_by_extents: false,
            asks_for_miss_order: false,
            asks_for_run_lengths: false,
            is_tested: true,
            future: Future::Unknown,
            write_back: None,
            whole_block: None,
            sparse_memory: SparseMemory::SMALL,
        }
    }

    /// Create a policy from elsewhere, for one client.
    pub const fn untested(depth: Depth) -> Self {
        Self { is_tested: false, takes_clients: false, ..Self::of(depth) }
    }
}

impl SparseMemory {
    /// 64 bytes per page, and nothing besides.
    pub const SMALL: Self = Self {
        bytes_per_page: 64,
        bytes_per_disk_page: 0,
        is_of_accessed_pages: false,
        reason: None,
    };

    pub(crate) const fn of_cached(bytes_per_page: u32, reason: &'static str) -> Self {
        Self { bytes_per_page, reason: Some(reason), ..Self::SMALL }
    }

    pub(crate) const fn of_disk(bytes_per_disk_page: u32, reason: &'static str) -> Self {
        Self { bytes_per_disk_page, reason: Some(reason), ..Self::SMALL }
    }

    pub(crate) const fn of_accessed(bytes_per_disk_page: u32, reason: &'static str) -> Self {
        Self { is_of_accessed_pages: true, ..Self::of_disk(bytes_per_disk_page, reason) }
    }
}

impl Depth {
    /// Return the cache tiers in words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Ram => "one cache tier, `ram` (a `flash` below it stays empty)",
            Self::RamFlash => "two cache tiers, `ram` and `flash`",
            Self::Tiers => "two to eight cache tiers",
            Self::Buffer => "one cache tier, the buffer of an SSD",
        }
    }

    /// Return `true` if a hierarchy of that many cache tiers suits.
    pub const fn allows(self, cache_tiers: usize) -> bool {
        match self {
            Self::Ram => cache_tiers == 1 || cache_tiers == 2,
            Self::RamFlash => cache_tiers == 2,
            Self::Tiers => cache_tiers >= 2 && cache_tiers <= CACHE_TIERS_MAX,
            Self::Buffer => cache_tiers == 1,
        }
    }
}
