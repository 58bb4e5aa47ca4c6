//! Figures that a shard reports while it runs; each takes constant time to read.

use thermocline_core::{Choosing, Nanos, Tier};

use super::{InFlight, Place, Shard};
use crate::figure::Figure;
use crate::operation::Device;
use crate::options::Cleaning;

/// State of a page's newest bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageStatus {
    /// The fastest tier that has them; of a lost page, one that had.
    pub tier: Tier,
    /// `true` if the disk may not have them durably.
    pub is_dirty: bool,
    /// `true` if they are gone: reads fail until the page is written as a whole.
    pub is_lost: bool,
}

/// The figures of the engine that a shard knows without counting.
pub const SHARD_FIGURES: &[Figure<Shard>] = &[
    Figure::gauge("dirty_pages", "Pages that are newer than the disk's", |shard: &Shard| {
        u64::from(shard.dirty_slots()).into()
    })
    .details("These are slots of the flash."),
    Figure::gauge("undurable_pages", "Pages whose newest bytes no device has", |shard: &Shard| {
        (shard.undurable_pages() as u64).into()
    })
    .details("The next flush has to write them."),
    Figure::gauge("lost_pages", "Pages whose newest bytes are lost", |shard: &Shard| {
        (shard.lost_pages().len() as u64).into()
    })
    .details("See [faults](#faults); `lost` in `/status` lists where they are."),
    Figure::counter(
        "flash_failures",
        "Flash operations that failed after all retries",
        |shard: &Shard| shard.flash_failures().into(),
    )
    .metric("flash_errors")
    .details("Includes wrong checksums; see [faults](#faults)."),
    Figure::gauge(
        "flash_retired_slots",
        "Slots of the flash that failed and are out of use",
        |shard: &Shard| u64::from(shard.retired_slots()).into(),
    )
    .details("The next start tries them again; see [faults](#faults)."),
    Figure::counter(
        "flash_lifetime_written_bytes",
        "Bytes written to the flash since it was set up",
        |shard: &Shard| shard.flash_lifetime_written_bytes().into(),
    )
    .details("Continues over restarts."),
    Figure::gauge(
        "write_budget_left_bytes",
        "Bytes that may be written to flash now",
        |shard: &Shard| shard.flash_budget_bytes().into(),
    )
    .metric("flash_write_budget_left_bytes")
    .details("Negative if overdrawn; absent without a budget."),
    Figure::gauge("pinned_pages", "Pages that are pinned", |shard: &Shard| {
        shard.pinned_pages().into()
    })
    .details(
        "The cache keeps them whatever the policy decides; accesses to them count as bypasses.",
    ),
    Figure::gauge("requests_in_flight", "Requests accepted and not answered", |shard: &Shard| {
        (shard.requests_in_flight() as u64).into()
    }),
    Figure::gauge(
        "metadata_bytes",
        "Memory for metadata of pages, without their content",
        |shard: &Shard| (shard.memory_bytes() as u64).into(),
    )
    .details("Includes the memory of the policy."),
];

impl Shard {
    /// Return the tier that serves a page now: the fastest that has its newest bytes.
    pub fn tier_of(&self, page: u64) -> Tier {
        match self.place(page) {
            None => Tier::DISK,
            Some(Place::Slot(_)) => Tier::FLASH,
            Some(Place::Entry(id)) => {
                let entry = &self.entries[id];
                // Zeroes that the disk has stay only until it is synced.
                let is_disks = !entry.in_ram
                    && entry.frame == Some(self.zero_frame)
                    && entry.disk_written == entry.newest;
                if entry.frame.is_some() && !is_disks {
                    Tier::RAM
                } else if entry
                    .slot
                    .is_some_and(|slot| self.slots.slot(slot).version() == entry.newest)
                {
                    Tier::FLASH
                } else {
                    Tier::DISK
                }
            }
        }
    }

    /// Return the tiers that serve a range of pages: runs of pages, each with its tier.
    ///
    /// # Panics
    /// If the range ends beyond the device.
    pub fn extents(&self, pages: std::ops::Range<u64>) -> Vec<(u32, Tier)> {
        assert!(pages.end <= self.options.backing_pages, "the pages exist");
        let mut extents: Vec<(u32, Tier)> = vec![];
        for tier in pages.map(|page| self.tier_of(page)) {
            match extents.last_mut() {
                Some((length, last)) if *last == tier => *length += 1,
                _ => extents.push((1, tier)),
            }
        }
        extents
    }

    /// Return the time that it was last told.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Report the values that the policy adapts; see
    /// [`Policy::gauges`](thermocline_core::Policy::gauges).
    pub fn policy_gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        self.policy.gauges(report);
    }

    /// Report the policy's choices, if it lets one of several decide.
    pub fn choosing(&self) -> Option<Choosing> {
        self.policy.choosing()
    }

    /// Return the number of slots of the flash that have a page.
    pub fn live_slots(&self) -> u32 {
        let [live, _] = self.slots.live_and_dirty();
        live
    }

    /// Return the number of slots of the flash whose page the disk may not have.
    pub fn dirty_slots(&self) -> u32 {
        let [_, dirty] = self.slots.live_and_dirty();
        dirty
    }

    /// Return the number of pages that are newer in RAM than on any device.
    pub fn undurable_pages(&self) -> usize {
        self.entries.undurable_pages()
    }

    /// Return the I/O time, by the costs that the policy weighs, in milliseconds to give up a page that the policy
    /// has in RAM or on flash: the pages that are dirty there now are written to the next tier.
    pub fn release_ms(&self, tier: Tier) -> f64 {
        let costs = &self.options.policy.costs;
        let cost = |tier: Tier| costs.get(tier.index()).copied().unwrap_or_default();
        let part = |dirty: f64, pages: u32| (dirty / f64::from(pages.max(1))).min(1.0);
        let options = &self.options;
        if tier == Tier::FLASH {
            let move_ms = cost(Tier::FLASH).read_ms + cost(Tier::DISK).write_ms;
            return part(f64::from(self.dirty_slots()), options.flash_pages) * move_ms;
        }
        let next = if self.has_flash() { Tier::FLASH } else { Tier::DISK };
        part(self.undurable_pages() as f64, options.ram_pages) * cost(next).write_ms
    }

    /// Operations that a device was given and has not completed.
    pub fn operations_in_flight(&self, device: Device) -> usize {
        let device_of = |operation: &InFlight| match operation {
            InFlight::Run(run) => run[0].device,
            InFlight::Own(operation) => operation.device(),
            InFlight::Blanks(_) => Device::Backing,
        };
        self.in_flight.iter().filter(|(_, operation)| device_of(operation) == device).count()
    }

    /// Return the number of bytes written to the flash since it was set up, as far as is known.
    pub fn flash_lifetime_written_bytes(&self) -> u64 {
        self.journal.lifetime_written_bytes(self.counters.flash.all_written_bytes())
    }

    /// Return the state of a page's newest bytes.
    pub fn page_status(&self, page: u64) -> PageStatus {
        let tier = self.tier_of(page);
        let (is_dirty, is_lost) = match self.place(page) {
            None => (self.blanks.contains(page), false),
            Some(Place::Slot(slot)) => (self.slots.slot(slot).is_dirty(), false),
            Some(Place::Entry(id)) => {
                let entry = &self.entries[id];
                (entry.disk_synced != entry.newest, entry.is_lost)
            }
        };
        PageStatus { tier, is_dirty: is_dirty && !is_lost, is_lost }
    }

    /// Cleans otherwise from now on.
    pub fn set_cleaning(&mut self, cleaning: Cleaning) {
        self.options.cleaning = cleaning;
    }
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shard")
            .field("policy", &self.options.policy.entry.name)
            .field("journal", &self.journal)
            .field("disk_syncs", &self.disk_syncs)
            .field("waiters", &self.waiters)
            .field("queue", &self.queue)
            .field("write_backs", &self.write_backs)
            .field("is_stirred", &self.is_stirred)
            .field("counters", &self.counters)
            .field("entries", &self.entries.len())
            .field("requests", &self.requests.len())
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}
