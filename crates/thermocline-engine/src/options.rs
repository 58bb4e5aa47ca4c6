//! Options of an engine.

use thermocline_core::config::{ConfigError, Values};
use thermocline_core::registry::PolicyEntry;
use thermocline_core::{
    Admission, BoxedPolicy, Choosing, Indexing, Nanos, PageCost, Setup, Tier, WriteMiss,
};
use thiserror::Error;

use crate::format::PAGES_MAX;
use crate::ids::IdSpace;
use crate::page_ranges::PageRanges;
use crate::shard_map::{ShardMap, Share};

/// Options of an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of a page, a multiple of 4096.
    pub page_bytes: u32,
    /// Pages of the backing store.
    pub backing_pages: u64,
    /// Pages that the policy may keep in RAM, at least 1.
    pub ram_pages: u32,
    /// Pages by which RAM may grow while the engine runs ([`Shard::set_ram_pages`](crate::Shard::set_ram_pages)).
    /// Until then they take addresses, and no memory.
    pub spare_ram_pages: u32,
    /// Pages that the policy may keep on flash; 0 for none.
    pub flash_pages: u32,
    /// Pages that may be pinned: they have room on flash for themselves, in RAM without a flash.
    pub pinned_pages: u32,
    /// Pages that are pinned from the beginning.
    pub pins: PageRanges,
    /// Policy that decides where pages are.
    pub policy: PolicyOptions,
    /// Choices that such a policy made before, if it lets one of several candidates decide. It goes on from there
    /// if the candidates are the same.
    pub choosing: Option<Choosing>,
    /// Treatment of writes.
    pub write_mode: WriteMode,
    /// The longest request in bytes; it bounds the frames that the engine keeps besides RAM.
    pub request_bytes_max: u64,
    /// Frames besides those of RAM and those for two requests of the greatest length: for pages on
    /// their way to a device.
    pub spare_frames: u32,
    /// Pages that may be newer in RAM than on any device before the engine logs the oldest; with a
    /// quarter more of them writes are not taken while any is on its way: bounds
    /// the work of a flush.
    pub undurable_pages_max: u32,
    /// Pages that may be written to the backing store and not synced before the engine syncs it; pages of
    /// more than 16 KiB may be fewer. Each keeps its frame until then: a sync that fails may have
    /// dropped it, and it is written again.
    pub unsynced_pages_max: u32,
    /// Reads or writes that continue one another for so long bypass the caches from there on, where
    /// these do not hold the pages.
    pub sequential_bypass_bytes: Option<u64>,
    /// Time at which dirty pages are written to disk besides those that the policy writes.
    pub cleaning: Cleaning,
    /// Bytes that may be written to flash per day, in GiB; `None` for no limit.
    pub flash_write_budget_gib_per_day: Option<f64>,
    /// Flash operations that may fail, in spite of further tries, before the engine stops using the
    /// flash. With 0 nothing is tried again, and the first failure ends the use of the flash.
    pub flash_error_budget: u32,
    /// Maximum time that a request may wait for the devices, above 0: after that it fails.
    pub backing_timeout: Nanos,
    /// Messages to the backing store about clean pages that leave RAM.
    pub leaving: Leaving,
    /// Share of the backing store that this shard serves. The sizes are those of this shard, but
    /// [`backing_pages`](Self::backing_pages), and it never gets requests for another shard's
    /// pages.
    pub share: Share,
}

/// Policy and its parameters.
#[derive(Clone, Debug)]
pub struct PolicyOptions {
    /// The policy.
    pub entry: PolicyEntry,
    /// Its parameters.
    pub values: Values,
    /// Treatment of write misses by the policy. The engine reads nothing that a write replaces as a
    /// whole.
    pub write_miss: WriteMiss,
    /// Pages that may enter flash.
    pub admission: Admission,
    /// The cost of RAM, flash and disk, for policies that weigh them.
    pub costs: Vec<PageCost>,
}

/// Messages to the backing store about clean pages that leave RAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Leaving {
    /// Nothing.
    #[default]
    Silent,
    /// Only their numbers.
    Told,
    /// Their numbers and their content.
    Offered,
}

/// Treatment of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WriteMode {
    /// The policy decides.
    #[default]
    Back,
    /// Writes are answered once the disk has them too.
    Through,
    /// As through; but pages that no cache holds are written to disk only.
    Around,
    /// Writes are refused.
    ReadOnly,
}

/// Time at which dirty pages on flash are written to disk besides those that the policy writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cleaning {
    /// The share of flash slots that may be dirty, from 0 to 1; above it the engine cleans.
    pub dirty_ratio_target: f64,
    /// Pages cleaned per second at most.
    pub pages_per_second_max: u32,
    /// Pages being written back at one time at most.
    pub pages_in_flight_max: u32,
    /// Time without requests after which no slot is to be dirty; without it, idle time does not
    /// matter.
    pub idle_after: Option<Nanos>,
}

/// Reason why an engine could not be set up.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The page size is wrong.
    #[error("`page_bytes` is {page_bytes}: it must be a multiple of 4096, up to 1 MiB")]
    PageSize {
        /// Given value.
        page_bytes: u32,
    },
    /// The backing store has no page.
    #[error("the backing store has no page: it must be at least one page long")]
    NoPages,
    /// The backing store has more pages than the engine can number.
    #[error(
        "the backing store has {pages} pages, more than the engine can number: expected 2^48 pages, \
         and 8 EiB; use larger pages, or a part of the store"
    )]
    TooManyPages {
        /// Number of it has.
        pages: u64,
    },
    /// The backing store of an engine that runs cannot have that size.
    #[error(
        "the backing store has {pages} pages, and the engine serves {former_pages}: while it runs, a store \
         may only grow, and a smaller one not beyond 2^32 - 1 pages; restart the engine"
    )]
    Growth {
        /// Pages that it had.
        former_pages: u64,
        /// Pages that it has.
        pages: u64,
    },
    /// The flash of an engine that runs cannot have another size now.
    #[error(
        "the flash is not in use: it failed, or is being replaced, or the server has just started; try again \
         after that"
    )]
    FlashNotInUse,
    /// The engine leaves slots of the flash.
    #[error("the flash gives room back: try again after that")]
    FlashShrinks,
    /// The longest request is wrong.
    #[error("`request_bytes_max` is {bytes}: it must be at least a page and at most 64 MiB")]
    RequestSize {
        /// Given value.
        bytes: u64,
    },
    /// The cleaning target is no ratio.
    #[error("`dirty_ratio_target` is {ratio}: it must be from 0 to 1")]
    DirtyRatio {
        /// Given value.
        ratio: f64,
    },
    /// The write budget is no amount.
    #[error("`flash_write_budget_gib_per_day` is {gib}: it must be above 0")]
    Budget {
        /// Given value.
        gib: f64,
    },
    /// The number of shards exceeds the capacity for them.
    #[error(
        "{shards} shards are too many: each needs a page of RAM, one of flash if there is any, and an \
         extent of the backing store, which are {extent_bytes} bytes; use fewer"
    )]
    TooManyShards {
        /// Requested number.
        shards: u32,
        /// Bytes of an extent.
        extent_bytes: u64,
    },
    /// More pages are pinned than there is room for.
    #[error(
        "more pages are pinned than a shard has room for ({wanted_pages}, at most {room_pages}): reserve more, or \
         unpin a range"
    )]
    TooManyPins {
        /// Pinned pages of the shard.
        wanted_pages: u64,
        /// Pages that it has room for.
        room_pages: u64,
    },
    /// A pinned range ends beyond the backing store.
    #[error("a pinned range ends at page {end_page}, beyond the backing store: unpin it")]
    PinBeyondEnd {
        /// End of the range.
        end_page: u64,
    },
    /// Requests may not wait at all.
    #[error("`backing_timeout` is 0: it must be above 0")]
    Timeout,
    /// Memory cannot hold the pages, and what is known of them.
    #[error(
        "there is no memory for {bytes} bytes of pages and of what is known of them: use less RAM or flash"
    )]
    Memory {
        /// Size needed, approximately.
        bytes: u64,
    },
    /// The policy could not be built.
    #[error("the policy: {0}")]
    Policy(ConfigError),
}

/// Return the number of slots for pages on their way, of a policy with that many pages on flash.
fn moving_slots(flash_pages: u32) -> u32 {
    (flash_pages / 32).clamp(MOVING_SLOTS_MIN, 1 << 16)
}

impl Options {
    /// Create options with everything but the sizes and the policy at its default.
    pub fn new(
        backing_pages: u64,
        ram_pages: u32,
        flash_pages: u32,
        policy: PolicyOptions,
    ) -> Self {
        Self {
            page_bytes: 4096,
            backing_pages,
            ram_pages,
            spare_ram_pages: 0,
            flash_pages,
            pinned_pages: 0,
            pins: PageRanges::default(),
            choosing: None,
            policy,
            write_mode: WriteMode::Back,
            request_bytes_max: 1 << 20,
            spare_frames: 256,
            undurable_pages_max: 2048,
            unsynced_pages_max: 1024,
            sequential_bypass_bytes: None,
            cleaning: Cleaning::default(),
            flash_write_budget_gib_per_day: None,
            flash_error_budget: 64,
            backing_timeout: Nanos(30_000_000_000),
            leaving: Leaving::Silent,
            share: Share::WHOLE,
        }
    }

    /// Return the options of each of the shards that serve the same as one with these options: what
    /// is shared out is divided by their number.
    ///
    /// # Errors
    /// [`OptionsError::TooManyShards`] if a shard would have nothing to serve or to hold.
    pub fn of_shards(&self, map: ShardMap) -> Result<Vec<Self>, OptionsError> {
        let shards = u32::from(map.number().get());
        if shards == 1 {
            return Ok(vec![Self { share: Share::WHOLE, ..self.clone() }]);
        }
        let serves_nothing =
            (0..map.shards()).any(|shard| map.bytes_of(shard, self.size_bytes()) == 0);
        let is_short = |pages: u32| pages > 0 && pages < shards;
        if serves_nothing || self.ram_pages < shards || is_short(self.flash_pages) {
            return Err(OptionsError::TooManyShards { shards, extent_bytes: map.extent_bytes() });
        }
        // Rounding up keeps 0 at 0, and every other number above it.
        let part = |number: u32| number.div_ceil(shards);
        let of = |share| Self {
            ram_pages: self.ram_pages / shards,
            spare_ram_pages: self.spare_ram_pages / shards,
            flash_pages: self.flash_pages / shards,
            pinned_pages: self.pinned_pages / shards,
            spare_frames: part(self.spare_frames),
            undurable_pages_max: part(self.undurable_pages_max),
            unsynced_pages_max: part(self.unsynced_pages_max),
            // A shard sees its part of a stream.
            sequential_bypass_bytes: self
                .sequential_bypass_bytes
                .map(|bytes| bytes.div_ceil(shards.into())),
            cleaning: self.cleaning.part(shards),
            flash_write_budget_gib_per_day: self
                .flash_write_budget_gib_per_day
                .map(|gib| gib / f64::from(shards)),
            flash_error_budget: part(self.flash_error_budget),
            share,
            ..self.clone()
        };
        Ok(Share::all(map).map(of).collect())
    }

    /// Return the number of slots that a flash of this setup has: those of the policy and of pinned pages,
    /// as many as RAM has pages for the pages that flushes log, and some for pages on their way.
    pub fn slots(&self) -> u32 {
        if self.flash_pages == 0 {
            return 0;
        }
        let moving = moving_slots(self.flash_pages);
        self.kept_slots().saturating_add(self.ram_pages_max()).saturating_add(moving)
    }

    /// Return the largest number of pages on flash that need no more slots than these, if RAM may have that many
    /// pages and none is pinned; 0 if there are too few for any.
    pub fn flash_pages_for(slots: u32, ram_pages_max: u32) -> u32 {
        let slots = slots.saturating_sub(ram_pages_max);
        let (mut fits, mut exceeds) = (0, slots);
        while fits + 1 < exceeds {
            let pages = fits.midpoint(exceeds);
            let needed = pages.saturating_add(moving_slots(pages));
            *(if needed <= slots { &mut fits } else { &mut exceeds }) = pages;
        }
        fits
    }

    /// Return the same with fewer pages on flash, if these need no more slots than that; `None` if there is no room for
    /// any page.
    pub fn fitting(&self, slots: u32) -> Option<Self> {
        let with = |flash_pages| Self { flash_pages, ..self.clone() };
        let (mut fits, mut exceeds) = (0, self.flash_pages.saturating_add(1));
        while fits + 1 < exceeds {
            let pages = fits.midpoint(exceeds);
            *(if with(pages).slots() <= slots { &mut fits } else { &mut exceeds }) = pages;
        }
        (fits > 0).then(|| with(fits))
    }

    /// Return the number of slots that are enough where there is no room for [`slots`](Self::slots): with fewer that
    /// are free, pages wait for one another more often.
    pub fn fewest_slots(&self) -> u32 {
        let kept = self.kept_slots().saturating_add(self.ram_pages_max());
        kept.saturating_add(MOVING_SLOTS_MIN).min(self.slots())
    }

    /// Return the number of slots for pages that the policy keeps on flash, and for pinned ones.
    pub(crate) const fn kept_slots(&self) -> u32 {
        self.flash_pages.saturating_add(self.pinned_pages)
    }

    /// Return the number of pages that RAM may have while the engine runs.
    pub const fn ram_pages_max(&self) -> u32 {
        self.ram_pages.saturating_add(self.spare_ram_pages)
    }

    /// Return the number of bytes of the exported device.
    pub fn size_bytes(&self) -> u64 {
        self.backing_pages.saturating_mul(self.page_bytes.into())
    }

    /// Return the number of pages that one request may touch at most.
    pub(crate) fn request_pages_max(&self) -> u32 {
        let pages = self.request_bytes_max / u64::from(self.page_bytes) + 2;
        u32::try_from(pages).unwrap_or(u32::MAX)
    }

    /// Frames for pages that were written to the backing store and not synced; large pages have fewer.
    pub(crate) fn unsynced_frames(&self) -> u32 {
        let most = (UNSYNCED_BYTES_MAX / self.page_bytes).max(UNSYNCED_FRAMES_MIN);
        self.unsynced_pages_max.clamp(1, most)
    }

    /// Free frames that requests need to go on.
    pub(crate) fn frames_for_requests(&self) -> u32 {
        let requests = self.request_pages_max().saturating_mul(2);
        requests.saturating_add(RESERVED_FRAMES).saturating_add(READ_FRAMES)
    }

    /// Frames of the pool.
    pub(crate) fn frames(&self) -> u32 {
        let pinned_in_ram = if self.flash_pages == 0 { self.pinned_pages } else { 0 };
        self.ram_pages_max()
            .saturating_add(pinned_in_ram)
            .saturating_add(self.request_pages_max().saturating_mul(2))
            .saturating_add(self.spare_frames.max(RESERVED_FRAMES * 2))
            .saturating_add(READ_FRAMES)
            .saturating_add(self.unsynced_frames())
            .saturating_add(META_FRAMES + 1)
    }

    /// Build the policy for a flash of `slots` slots; return it with the ids by which it knows
    /// pages.
    pub(crate) fn build_policy(&self, slots: u32) -> Result<(BoxedPolicy, IdSpace), OptionsError> {
        let space = IdSpace::of(self, slots as usize + self.frames() as usize);
        let setup = Setup {
            costs: self.policy.costs.clone(),
            write_miss: self.policy.write_miss,
            admission: self.policy.admission.clone(),
            // Devices take far longer than any policy, and memory is better spent on pages.
            indexing: Indexing::Sparse,
            ..Setup::hybrid(space.count(), self.ram_pages, self.flash_pages)
        };
        let policy = self.policy.entry.build(&setup, &self.policy.values);
        let mut policy = policy.map_err(OptionsError::Policy)?;
        if let Some(choosing) = &self.choosing {
            policy.resume(choosing);
        }
        Ok((policy, space))
    }

    /// Refuses what cannot work.
    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        let page_bytes = self.page_bytes;
        if page_bytes == 0 || !page_bytes.is_multiple_of(4096) || page_bytes > 1 << 20 {
            return Err(OptionsError::PageSize { page_bytes });
        }
        if self.backing_pages == 0 {
            return Err(OptionsError::NoPages);
        }
        if self.backing_pages > PAGES_MAX || self.size_bytes() > SIZE_BYTES_MAX {
            return Err(OptionsError::TooManyPages { pages: self.backing_pages });
        }
        if self.ram_pages == 0 {
            let policy = self.policy.entry.name.clone().into_owned();
            return Err(OptionsError::Policy(ConfigError::EmptyTier { policy, tier: Tier::RAM }));
        }
        let bytes = self.request_bytes_max;
        if bytes < u64::from(page_bytes) || bytes > 64 << 20 {
            return Err(OptionsError::RequestSize { bytes });
        }
        let ratio = self.cleaning.dirty_ratio_target;
        if !(0.0..=1.0).contains(&ratio) {
            return Err(OptionsError::DirtyRatio { ratio });
        }
        if let Some(gib) = self.flash_write_budget_gib_per_day
            && (gib.is_nan() || gib <= 0.0)
        {
            return Err(OptionsError::Budget { gib });
        }
        if self.backing_timeout == Nanos(0) {
            return Err(OptionsError::Timeout);
        }
        self.check_pins()?;
        self.check_memory()
    }

    /// Check that the shard has room for the pinned pages.
    ///
    /// # Errors
    /// If it has not, or a page is beyond the end of the backing store.
    pub fn check_pins(&self) -> Result<(), OptionsError> {
        let pages = |range| self.share.pages_of(&range, self.page_bytes);
        let wanted_pages: u64 = self.pins.iter().map(pages).sum();
        let room_pages = u64::from(self.pinned_pages);
        if wanted_pages > room_pages {
            return Err(OptionsError::TooManyPins { wanted_pages, room_pages });
        }
        let end_page = self.pins.iter().last().map_or(0, |range| range.end);
        if end_page > self.backing_pages {
            return Err(OptionsError::PinBeyondEnd { end_page });
        }
        Ok(())
    }

    /// Refuses sizes that the system has no memory for, before an allocation ends the program.
    fn check_memory(&self) -> Result<(), OptionsError> {
        let frames_bytes = u64::from(self.frames()) * u64::from(self.page_bytes);
        let known_bytes = u64::from(self.slots()) * SLOT_MEMORY_BYTES;
        let bytes = frames_bytes + known_bytes;
        let has_room = usize::try_from(bytes)
            .is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok());
        if has_room { Ok(()) } else { Err(OptionsError::Memory { bytes }) }
    }
}

/// The largest backing store: what file offsets reach.
const SIZE_BYTES_MAX: u64 = 1 << 63;
/// Slots for pages on their way, of the smallest flash.
const MOVING_SLOTS_MIN: u32 = 16;
/// Frames that requests leave to background work.
pub(crate) const RESERVED_FRAMES: u32 = 32;
/// Frames that writes leave to reads, which therefore do not wait while writes wait for the disk.
pub(crate) const READ_FRAMES: u32 = 64;
/// Limit of the bytes of written pages that wait for a sync of the backing store, and the number of frames
/// that they may take in any case.
const UNSYNCED_BYTES_MAX: u32 = 16 << 20;
const UNSYNCED_FRAMES_MIN: u32 = 64;
/// Memory for what is known of a slot and of the page in it, roughly.
const SLOT_MEMORY_BYTES: u64 = 64;
/// Frames for the engine's own blocks.
pub(crate) const META_FRAMES: u32 = 16;

impl PolicyOptions {
    /// Create a policy with its default parameters, every page admitted to flash.
    ///
    /// # Errors
    /// If no policy has that name.
    pub fn named(name: &str) -> Result<Self, ConfigError> {
        let entry = thermocline_core::registry::find(name)?;
        Ok(Self {
            entry: entry.clone(),
            values: entry.values(&[])?,
            write_miss: WriteMiss::Fetch,
            admission: Admission::ALL,
            costs: vec![
                PageCost::default(),
                PageCost { read_ms: 0.16, write_ms: 0.30 },
                PageCost { read_ms: 12.7, write_ms: 13.7 },
            ],
        })
    }
}

impl Cleaning {
    /// Returns the share of one shard of `shards`: the limits divided by their number, rounded up.
    #[must_use]
    pub fn part(self, shards: u32) -> Self {
        Self {
            pages_per_second_max: self.pages_per_second_max.div_ceil(shards),
            pages_in_flight_max: self.pages_in_flight_max.div_ceil(shards),
            ..self
        }
    }
}

impl Default for Cleaning {
    /// Permit most of flash to be dirty; what exceeds that is cleaned without haste.
    fn default() -> Self {
        Self {
            dirty_ratio_target: 0.7,
            pages_per_second_max: 4096,
            pages_in_flight_max: 64,
            idle_after: None,
        }
    }
}
