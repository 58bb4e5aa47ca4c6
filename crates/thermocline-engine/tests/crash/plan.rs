//! Parts of a run, for each kind of fault.

use std::num::NonZeroU16;

use thermocline_core::random::SplitMix64;
use thermocline_core::{Nanos, WriteMiss};
use thermocline_engine::{Layout, Options, ShardMap, WriteMode};

use crate::faults::Faults;
use crate::oracle::SECTORS;
use crate::policies::{entries, policy};

/// Pages of the backing store, of a large one those at its end.
pub(crate) const PAGES: usize = 48;

/// Parts of a run.
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Crashes before the last, orderly end.
    pub(crate) crashes: u32,
    /// `true` if the disk writes pages as a whole.
    pub(crate) is_disk_atomic: bool,
    /// Additional faults.
    pub(crate) faults: Faults,
    /// `true` if the flash goes away for good in the middle.
    pub(crate) loses_flash: bool,
    /// `true` if some restarts follow a kill or an orderly end in place of a power failure.
    pub(crate) kills: bool,
    /// `true` if some restarts find devices of other sizes first.
    pub(crate) resizes: bool,
    /// `true` if other flashes take the place of the one in use while the engine serves.
    pub(crate) exchanges: bool,
    /// `true` if ranges are evicted, promoted, pinned and unpinned while the engine serves.
    pub(crate) ranges: bool,
    /// `true` if the backing store begins smaller, and grows while the engine serves.
    pub(crate) grows: bool,
    /// `true` if the flash grows while the engine serves, and when it starts.
    pub(crate) grows_flash: bool,
    /// `true` if the flash has two devices.
    pub(crate) is_mirrored: bool,
    /// Blocks of the journal's region.
    pub(crate) journal_blocks: u32,
    /// Shards, and pages of their extents.
    pub(crate) shards: NonZeroU16,
    pub(crate) extent_pages: u64,
    /// Pages of the backing store before those that are used.
    pub(crate) first_page: u64,
    /// Options of all shards together.
    pub(crate) options: Options,
}

/// Pages of a large backing store before them.
const FAR_PAGES: u64 = 1 << 38;

impl Plan {
    /// Plan some crashes, and devices that have another size now and then.
    pub(crate) fn crashes(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed.wrapping_mul(77));
        let mut below = |bound: u64| random.bits() % bound;
        let entries = entries();
        let entry = entries[(seed % entries.len() as u64) as usize];
        let write_miss = if below(2) == 0 { WriteMiss::Fetch } else { WriteMiss::Allocate };
        let (ram, flash) = (1 + below(10) as u32, 1 + below(24) as u32);
        let mut options = Options::new(PAGES as u64, ram, flash, policy(entry, write_miss));
        options.undurable_pages_max = [2, 6, 1000][below(3) as usize];
        options.write_mode = match below(8) {
            0 => WriteMode::Through,
            1 => WriteMode::Around,
            _ => WriteMode::Back,
        };
        options.page_bytes = [4096, 4096, 4096, 4096, 4096, 4096, 8192, 16384][below(8) as usize];
        let page_bytes = u64::from(options.page_bytes);
        options.request_bytes_max = 4 * page_bytes;
        options.cleaning.dirty_ratio_target = [0.1, 0.5, 1.0][below(3) as usize];
        options.sequential_bypass_bytes = (below(4) == 0).then_some(3 * page_bytes);
        // In a quarter of the runs page numbers around 2^32, or far above.
        let first_page = [0, FAR_PAGES, 0, 0, 0, (1 << 32) - 24, 0, 0][(seed / 3 % 8) as usize];
        options.backing_pages += first_page;
        let is_disk_atomic = below(2) == 0;
        options.unsynced_pages_max = [2, 16, 1000][below(3) as usize];
        let faults = Faults::default();
        let journal_blocks = [8, 32][below(2) as usize];
        // Half of the runs have one shard, as most engines do.
        let shards = [1, 2, 1, 3, 1, 4][(seed / entries.len() as u64 % 6) as usize];
        options.ram_pages = options.ram_pages.max(shards.into());
        options.flash_pages = options.flash_pages.max(shards.into());
        let shards = NonZeroU16::new(shards).unwrap();
        let extent_pages = 1 + seed % 4;
        // A share of a day's budget may be written at once: some pages, or none.
        options.flash_write_budget_gib_per_day =
            [None, None, None, Some(0.000_01), Some(0.0005), Some(0.005)][below(6) as usize];
        let (loses_flash, kills, resizes) = (false, false, true);
        let (exchanges, ranges, grows, grows_flash) = (false, false, false, false);
        Self {
            seed,
            crashes: 4,
            is_disk_atomic,
            faults,
            loses_flash,
            kills,
            resizes,
            exchanges,
            ranges,
            grows,
            grows_flash,
            is_mirrored: false,
            journal_blocks,
            shards,
            extent_pages,
            first_page,
            options,
        }
    }

    /// Besides power failures, the engine is killed and stopped.
    pub(crate) fn kills(seed: u64) -> Self {
        Self { kills: true, crashes: 6, ..Self::crashes(seed) }
    }

    /// Plan a flash of two devices, of which one fails now and then.
    pub(crate) fn mirrored(seed: u64) -> Self {
        Self { crashes: 6, resizes: false, is_mirrored: true, ..Self::crashes(seed) }
    }

    /// Plan a flash of two devices that grows and gives room back, while one of them fails now and then.
    pub(crate) fn mirrored_growth(seed: u64) -> Self {
        let mut plan = Self { grows_flash: true, ..Self::mirrored(seed) };
        plan.begin_small();
        plan
    }

    /// Plan syncs of the backing store that fail, and drop writes; or a server whose connection is
    /// lost, with everything that it had not synced.
    pub(crate) fn failed_syncs(seed: u64) -> Self {
        let mut faults = Faults { sync_errors: 2 + seed % 9, ..Faults::default() };
        if seed % 4 == 1 {
            faults = Faults { disconnects: 20 + seed % 200, ..Faults::default() };
        }
        Self { faults, kills: seed.is_multiple_of(2), ..Self::crashes(seed) }
    }

    /// Return each restart finds a block of metadata damaged; or writes of such blocks are lost, or
    /// go elsewhere.
    pub(crate) fn rotten_metadata(seed: u64) -> Self {
        let mut faults = Faults { rots: true, ..Faults::default() };
        if seed % 3 == 1 {
            faults = Faults { lost_blocks: 1 + seed % 7, ..Faults::default() };
        }
        Self { faults, kills: true, crashes: 6, ..Self::crashes(seed) }
    }

    /// Besides crashes, the backing store fails now and then, or for some time, or is full.
    pub(crate) fn backing_errors(seed: u64) -> Self {
        let mut faults = Faults::default();
        match seed % 4 {
            0 | 1 => faults.backing_errors = 5 + seed % 40,
            2 => faults.backing_outages = 50 + seed % 200,
            _ => faults.full = 50 + seed % 200,
        }
        let kills = seed % 8 < 4;
        Self { crashes: 2, faults, kills, ..Self::crashes(seed) }
    }

    /// Besides crashes, slots have wrong bytes: for one read, or because a write was lost or went
    /// elsewhere, or because they rot.
    pub(crate) fn flash_errors(seed: u64) -> Self {
        let mut faults = Faults::default();
        match seed % 4 {
            0 => faults.flash_errors = 5 + seed % 40,
            1 | 2 => faults.lost_pages = 5 + seed % 40,
            _ => faults.rotten_slots = 5 + seed % 40,
        }
        Self { crashes: 3, faults, kills: seed.is_multiple_of(3), ..Self::crashes(seed) }
    }

    /// Plan a flash that goes away, or fails for some time.
    pub(crate) fn flash_gone(seed: u64) -> Self {
        if seed % 2 == 1 {
            let faults = Faults { flash_outages: 50 + seed % 200, ..Faults::default() };
            return Self { faults, kills: true, crashes: 2, ..Self::crashes(seed) };
        }
        Self { crashes: 0, loses_flash: true, ..Self::crashes(seed) }
    }

    /// Flashes are replaced while the engine serves, with each kind of fault.
    pub(crate) fn exchanges(seed: u64) -> Self {
        let mut faults = Faults::default();
        let often = 20 + seed % 200;
        match seed % 8 {
            1 => faults.backing_errors = often,
            2 => faults.sync_errors = 2 + seed % 9,
            3 => faults.flash_outages = often,
            4 => faults.disconnects = often,
            5 => faults.hangs = often,
            6 => faults.rots = true,
            7 => faults.full = often,
            _ => {}
        }
        let kills = seed % 16 < 8;
        let mut plan = Self { faults, exchanges: true, kills, ..Self::crashes(seed) };
        if faults.hangs > 0 {
            plan.options.backing_timeout = Nanos(500_000_000);
        }
        plan
    }

    /// Ranges are evicted, promoted, pinned and unpinned while the engine serves, with each kind of fault.
    pub(crate) fn ranges(seed: u64) -> Self {
        let mut plan = Self { exchanges: seed % 3 == 2, ranges: true, ..Self::exchanges(seed) };
        // Of more shards, each has room for all, because they would have to agree.
        let shards = u32::from(plan.shards.get());
        plan.options.pinned_pages = if shards == 1 { 6 } else { shards * PAGES as u32 };
        plan
    }

    /// Let the backing store grow while the engine serves, with each kind of fault.
    pub(crate) fn grows(seed: u64) -> Self {
        let mut plan = Self { exchanges: seed % 3 == 2, grows: true, ..Self::exchanges(seed) };
        // Growth to more than 2^32 pages needs a restart.
        plan.first_page = plan.first_page / FAR_PAGES * FAR_PAGES;
        // Each shard has an extent at least.
        plan.options.backing_pages = plan.first_page + 16 + seed % 20;
        plan
    }

    /// Let the flash grow while the engine serves and when it starts, with each kind of fault.
    pub(crate) fn grows_flash(seed: u64) -> Self {
        let exchanges = seed % 3 == 2;
        let mut plan = Self { exchanges, grows_flash: true, ..Self::exchanges(seed) };
        plan.begin_small();
        plan
    }

    /// Let the flash be small at first, so that most slots are new ones.
    fn begin_small(&mut self) {
        self.options.flash_pages = u32::from(self.shards.get()).max(1 + (self.seed % 8) as u32);
    }

    /// Return the number of pages that the backing store has and that are used.
    pub(crate) const fn pages(&self) -> usize {
        (self.options.backing_pages - self.first_page) as usize
    }

    /// Return the start of the pages that are used, in bytes.
    pub(crate) fn first_bytes(&self) -> u64 {
        self.first_page * u64::from(self.options.page_bytes)
    }

    /// Operations take very long, or never end.
    pub(crate) fn hangs(seed: u64) -> Self {
        let faults = Faults { hangs: 10 + seed % 50, ..Faults::default() };
        let mut plan = Self { faults, crashes: 2, kills: true, ..Self::crashes(seed) };
        plan.options.backing_timeout = Nanos(500_000_000);
        plan
    }

    pub(crate) fn map(&self) -> ShardMap {
        ShardMap::with_extents(self.shards, self.extent_pages * u64::from(self.options.page_bytes))
    }

    /// Return `true` if requests may fail.
    pub(crate) fn has_faults(&self) -> bool {
        self.loses_flash || self.faults.fail_requests() || self.faults.lose_pages()
    }

    pub(crate) const fn page_bytes(&self) -> usize {
        self.options.page_bytes as usize
    }

    pub(crate) const fn sector_bytes(&self) -> usize {
        self.page_bytes() / SECTORS
    }

    pub(crate) fn layout(&self) -> Layout {
        let each = self.options.of_shards(self.map()).unwrap();
        let layout = Layout::new(each[0].slots(), self.options.page_bytes);
        Layout { journal_blocks: self.journal_blocks, ..layout }
    }
}
