//! Pinned pages: the cache keeps them, whatever the policy decides.
//!
//! They have a part of the flash for themselves, or of RAM in an engine without flash. The capacities of the
//! policy leave it out, and the policy is not asked about these pages: to it, accesses to them are bypasses.
//! Pages that are pinned and missing are fetched in the background.
//!
//! A flash that failed, or is being replaced, has no place for them. The policy decides about them then, as
//! about all others.

use thermocline_core::{Op, Tier};

use super::request::{Building, Piece};
use super::{Event, Shard};
use crate::entry::EntryId;
use crate::options::{READ_FRAMES, RESERVED_FRAMES};
use crate::page_ranges::PageRanges;

/// Pages that are fetched at the same time because they are pinned.
const FILLED_AT_ONCE: usize = 64;

/// The pinned pages, and the search for those that are missing.
#[derive(Debug)]
pub(super) struct Pins {
    pub(super) pages: PageRanges,
    /// Tier that keeps them.
    tier: Tier,
    /// Page at which the search for missing ones goes on; `None` if all were looked at.
    sweep: Option<u64>,
}

impl Pins {
    /// Create pins for a tier.
    pub(super) fn new(pages: PageRanges, tier: Tier) -> Self {
        let mut pins = Self { pages, tier, sweep: None };
        pins.refill();
        pins
    }

    /// Look for missing pages from the first one on.
    pub(super) fn refill(&mut self) {
        self.sweep = self.pages.next_from(0);
    }
}

impl Shard {
    /// Return the pinned pages, those of other shards included.
    pub const fn pinned(&self) -> &PageRanges {
        &self.pins.pages
    }

    /// Return the number of pinned pages that this shard serves.
    pub fn pinned_pages(&self) -> u64 {
        let (share, page_bytes) = (&self.options.share, self.options.page_bytes);
        self.pins.pages.iter().map(|range| share.pages_of(&range, page_bytes)).sum()
    }

    /// Return `true` if the cache keeps the page, whatever the policy decides.
    #[inline]
    pub(super) fn is_pinned(&self, page: u64) -> bool {
        self.pins.pages.contains(page) && self.has_place_for_pins()
    }

    /// Return `true` if the tier of pinned pages is in use.
    pub(super) fn has_place_for_pins(&self) -> bool {
        self.pins.tier == Tier::RAM || self.may_use_slots()
    }

    /// Return `true` if pinned pages may be missing that nobody fetches yet.
    pub(super) fn is_filling_pins(&self) -> bool {
        self.pins.sweep.is_some() && self.has_place_for_pins()
    }

    /// Serves the part of a request that lies in a pinned page.
    pub(super) fn access_pinned(&mut self, piece: &Piece<'_>, building: &mut Building) {
        let (page, op) = (piece.page, piece.content.op());
        self.counters.bypasses[op as usize] += 1;
        if let Some(observer) = &mut self.observer {
            observer(&Event::Bypass { now: self.now, page, op, pages: 1 });
        }
        self.clock += 1;
        building.found_in(self.tier_of(page));
        let id = self.hold_pinned(page);
        let entry = &mut self.entries[id];
        entry.touched = self.clock;
        // A read of what is in its slot moves nothing.
        entry.wants.flash |= entry.on_flash && op == Op::Write;
        self.serve(id, piece, self.pins.tier, building);
        self.settle_page(page);
    }

    /// Want a pinned page in its tier. Returns its entry.
    fn hold_pinned(&mut self, page: u64) -> EntryId {
        let id = self.ensure_entry(page);
        let is_missing = self.current_slot(id).is_none();
        let entry = &mut self.entries[id];
        (entry.in_ram, entry.on_flash) = (self.pins.tier == Tier::RAM, self.pins.tier != Tier::RAM);
        entry.wants.flash |= entry.on_flash && is_missing && !entry.is_lost;
        id
    }

    /// Set the places of a page for a policy that starts again, if the page is pinned; `true` if it is.
    pub(super) fn view_pinned(&mut self, id: EntryId) -> bool {
        let is_pinned = self.is_pinned(self.entries[id].page);
        if is_pinned {
            let is_in_ram = self.pins.tier == Tier::RAM;
            let entry = &mut self.entries[id];
            (entry.in_ram, entry.on_flash) = (is_in_ram, !is_in_ram);
        }
        is_pinned
    }

    /// Fetches pinned pages that are missing, as long as there are frames that no request needs.
    pub(super) fn fill_pins(&mut self) {
        if self.awaits_epoch || !self.has_place_for_pins() {
            return;
        }
        while let Some(page) = self.pins.sweep.and_then(|from| self.pins.pages.next_from(from)) {
            let reserved =
                (RESERVED_FRAMES + READ_FRAMES) as usize + self.requests.claimed_frames();
            if self.fetches.len() >= FILLED_AT_ONCE || self.pool.free_frames() <= reserved {
                return;
            }
            let (share, page_bytes) = (&self.options.share, u64::from(self.options.page_bytes));
            if share.map.place(page * page_bytes).0 == usize::from(share.index) {
                self.pins.sweep = Some(page + 1);
                let id = self.hold_pinned(page);
                self.settle(id);
            } else {
                self.pins.sweep = Some(share.map.extent_end(page * page_bytes) / page_bytes);
            }
        }
        self.pins.sweep = None;
    }

    /// Check that each shard keeps to its part of what may be pinned.
    pub(super) fn assert_pins(&self) {
        assert!(
            self.pinned_pages() <= u64::from(self.options.pinned_pages),
            "no more is pinned than there is room for"
        );
    }
}
