//! TAC: flash holds the pages of the warmest extents, written through.
//!
//! The address space is divided into extents; each miss in memory warms its extent by the time that
//! a flash copy would have saved. A page read from disk is admitted to flash at once, in place of a
//! page of the coldest extent if its own is warmer. A write makes the flash copy invalid but keeps
//! its slot, which is rewritten when the page leaves memory. Temperatures may be halved at regular
//! intervals, so that the cache follows a changing workload.
//!
//! * Source: Canim, Mihaila, Bhattacharjee, Ross, Lang, *SSD Bufferpool Extensions for Database
//!   Systems*, PVLDB 3, 2010; ageing as in Lv et al., CIKM 2013, section 2.
//! * State: 8 bytes per page that exists (none where memory is saved), and 4 more unless pages are those
//!   of a device; 20 bytes per page in memory (14), 20 per page of flash (26), 16 per extent, and up to
//!   40 (25) more per extent on flash.
//! * Cost: O(1) per miss, amortised O(log e) for e extents on flash where it changes flash; a halving
//!   costs O(e).
//! * Deviations: (1) flash hits warm an extent too: they measure what the cache saves. (2) A miss is
//!   sequential if its page number follows that of the previous miss. (3) Ties between coldest
//!   extents fall to the page admitted longest ago. (4) A write miss that fetches its page admits it
//!   and invalidates it at once. (5) What a miss would have saved follows from the costs that are
//!   charged, which are the same for sequential and random reads: by default both warm alike. Where
//!   sequential reads from disk cost less, `sequential_saving_ms` says so.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use crate::action::Sink;
use crate::capabilities::{Capabilities, Depth, SparseMemory};
use crate::config::{Parameter, Scaling, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::blocks::Blocks;
use crate::policy::for_each;
use crate::policy::sequence::Sequence;
use crate::prefetch::prefetch;
use crate::queue::{LazyHeap, Recency, Slots, Stamp};
use crate::{
    Access, Actions, BoxedPolicy, Counts, Geometry, Op, PageCost, PageId, Policy, Setup, Survivor,
    Tier, WriteMiss,
};

/// The parameters of TAC.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("extent_pages", 1..=u32::MAX as u64, 32)
        .summary("pages per extent")
        .source("the paper"),
    Parameter::integer("aging_interval", 0..=u64::MAX, 0)
        .summary("accesses after which all temperatures are halved; 0 for never")
        .source("Lv et al. sweep it from 0.1 to 10 million and take the best")
        .scaling(Scaling::Proportional),
    Parameter::real_or_auto("random_saving_ms", 0.0..=f64::MAX)
        .summary(
            "what a random miss adds to its extent; auto: disk read minus flash read, at least 0",
        )
        .source("the paper"),
    Parameter::real_or_auto("sequential_saving_ms", 0.0..=f64::MAX)
        .summary(
            "what a sequential miss adds to its extent; auto: as a random one, which costs as much",
        )
        .source("the paper subtracts a sequential flash read from a sequential disk read"),
];

/// State bit of a page in memory: it is there.
const RESIDENT: u8 = 1;
/// State bit of a page in memory: newer than the disk's copy.
const DIRTY: u8 = 1 << 1;
/// State bit of a page in memory: written since it was fetched, so that flash does not hold its version.
const WRITTEN: u8 = 1 << 2;

/// The only class of the memory's queue: every page of it.
const ANY: usize = 0;
/// The end of an extent's list of slots.
const NONE: u32 = u32::MAX;

/// Temperature-aware caching.
#[derive(Clone, Debug)]
pub struct Tac {
    memory: Recency<1>,
    memory_pages: u32,
    flash_pages: u32,
    geometry: Geometry,
    /// The extent of each page.
    homes: Blocks,
    extents: Vec<Extent>,
    /// The extents that have pages on flash, the coldest first: while none is halved, they only warm.
    coldest: LazyHeap<Coldness>,
    /// Number of extents that have pages on flash.
    extents_on_flash: usize,
    /// The slots of flash. A page may own one that does not hold its version.
    slots: Slots,
    /// Per slot: what is known of its page.
    copies: Vec<FlashCopy>,
    admissions: u64,
    random_saving_ms: f64,
    sequential_saving_ms: f64,
    aging_interval: u64,
    accesses: u64,
    sequence: Sequence,
    write_miss: WriteMiss,
}

/// One extent: its temperature, and its slots of flash in order of admission.
#[derive(Clone, Copy, Debug)]
struct Extent {
    temperature_ms: f64,
    first: u32,
    last: u32,
}

/// State of the page that owns a slot of flash.
#[derive(Clone, Copy, Debug)]
struct FlashCopy {
    /// Time of the page's admission, counted in admissions.
    admission: u64,
    /// The slot of the same extent whose page was admitted next.
    next_in_extent: u32,
    /// `true` if it holds the disk's version of the page.
    is_valid: bool,
}

/// State of a slot that no page owns.
const NO_COPY: FlashCopy = FlashCopy { admission: 0, next_in_extent: NONE, is_valid: false };

/// The order of victims: the coldest extent, by the bits of its temperature, which is not negative;
/// then the page admitted longest ago.
type Coldness = (Stamp, Stamp);

/// Its row in the registry.
pub const TAC: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("tac"),
    summary: "temperature per extent; warm extents are admitted to a write-through flash",
    source: "Canim et al.: SSD Bufferpool Extensions for Database Systems, PVLDB 3, 2010",
    module: module_path!(),
    capabilities: Capabilities {
        looks_at_neighbours: true,
        decides_by_extents: true,
        asks_for_miss_order: true,
        sparse_memory: SparseMemory::of_disk(
            1,
            "it keeps a temperature of each extent of the disk",
        ),
        ..Capabilities::of(Depth::RamFlash)
    },
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// Builds the policy for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    let ids = setup.ids();
    let [memory_pages, flash_pages] = [setup.capacity_pages[0], setup.capacity_pages[1]];
    let homes = Blocks::new(&setup.geometry, values.integer_u32("extent_pages"));
    let extents = homes.count();
    let slots = Slots::new(ids, flash_pages);
    let read_ms = |tier: Tier| setup.costs.get(tier.index()).map_or(0.0, |c: &PageCost| c.read_ms);
    // The saving of a flash hit is the difference of the read times of disk and flash.
    let charged_ms = (read_ms(Tier::DISK) - read_ms(Tier::FLASH)).max(0.0);
    let saving_ms = |name| values.real_or_auto(name).unwrap_or(charged_ms);
    Box::new(Tac {
        memory: Recency::new(ids, memory_pages.saturating_add(1), [u8::MAX]),
        memory_pages,
        flash_pages,
        geometry: setup.geometry.clone(),
        homes,
        extents: vec![Extent { temperature_ms: 0.0, first: NONE, last: NONE }; extents as usize],
        coldest: LazyHeap::new(ids.indexing),
        extents_on_flash: 0,
        copies: vec![NO_COPY; slots.count() as usize],
        slots,
        admissions: 0,
        random_saving_ms: saving_ms("random_saving_ms"),
        sequential_saving_ms: saving_ms("sequential_saving_ms"),
        aging_interval: values.integer("aging_interval"),
        accesses: 0,
        sequence: Sequence::new(setup),
        write_miss: setup.write_miss,
    })
}

impl Tac {
    /// Process one page reference.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "replays spend their time here")]
    fn step(&mut self, Access { page, op, .. }: Access, out: &mut impl Sink) {
        self.age();
        self.sequence.access();
        let is_write = op == Op::Write;
        // Logical invalidation: the slot stays with the page, and the eviction of the dirty page
        // writes it again.
        let written = if is_write { DIRTY | WRITTEN } else { 0 };
        let former = self.memory.touch_with(page, |state, _| state | RESIDENT | written);
        if former != 0 {
            out.serve(page, op, Tier::RAM, Tier::RAM);
            // Later writes find nothing to give up.
            if written & !former & WRITTEN != 0 {
                self.invalidate_copy(page, out);
            }
        } else {
            // A hit on flash warms the extent as well: temperature measures the time that caching
            // saves, whether or not the page is cached now.
            self.warm(page);
            let slot = self.slots.find(page);
            // A slot alone is no hit: logical invalidation leaves its old bytes there until the
            // page is written again.
            let is_on_flash = slot.is_some_and(|slot| self.copies[slot as usize].is_valid);
            let found = if is_on_flash { Tier::FLASH } else { Tier::DISK };
            if is_on_flash {
                out.copy(page, Tier::FLASH, Tier::RAM);
            } else if self.write_miss.fetches(op) {
                out.copy(page, Tier::DISK, Tier::RAM);
                // TAC admits at the time of the read, not of the eviction, so flash may get a page
                // that memory is about to change.
                self.admit(page, slot, out);
            }
            out.serve(page, op, found, Tier::RAM);
            // Deviation (4): an admission above stays counted. TAC pays for it on workloads that
            // update.
            if is_write {
                self.invalidate_copy(page, out);
            }
            if self.memory.len() > self.memory_pages {
                self.evict_from_memory(out);
            }
        }
    }

    /// Gives up the copy that flash holds of a page, if it does.
    #[inline]
    fn invalidate_copy(&mut self, page: PageId, out: &mut impl Sink) {
        if let Some(slot) = self.slots.find(page) {
            self.invalidate(slot, out);
        }
    }

    /// Warms the extent of a page that memory does not hold.
    #[inline]
    fn warm(&mut self, page: PageId) {
        let mut saving_ms = self.random_saving_ms;
        // Where both save as much, nothing need be known of neighbours.
        if saving_ms.to_bits() != self.sequential_saving_ms.to_bits()
            && self.sequence.misses(page, &self.geometry)
        {
            saving_ms = self.sequential_saving_ms;
        }
        self.extents[self.homes.of(page) as usize].temperature_ms += saving_ms;
    }

    /// Halves all temperatures when the interval has passed.
    #[inline]
    fn age(&mut self) {
        self.accesses += 1;
        if self.aging_interval > 0 && self.accesses.is_multiple_of(self.aging_interval) {
            for extent in &mut self.extents {
                // Ageing as HAT, Section 2, describes it: all temperatures are halved, whether or
                // not an extent was just accessed.
                extent.temperature_ms *= 0.5;
            }
            // Halving keeps the order of all temperatures, so the stamps are halved in place and
            // nothing is sorted again.
            self.coldest.lower(|(Stamp(bits), admission)| {
                (Stamp((f64::from_bits(bits) * 0.5).to_bits()), admission)
            });
        }
    }

    /// Writes a page of memory to flash if it owns a slot, a slot is free, or its extent is warmer
    /// than the coldest on flash.
    fn admit(&mut self, page: PageId, slot: Option<u32>, out: &mut impl Sink) {
        // A page that owns a slot needs no comparison: the slot is its own until a warmer extent
        // takes it.
        let slot = match slot {
            Some(slot) => slot,
            None => {
                if self.slots.len() == self.flash_pages {
                    let extent = self.homes.of(page);
                    let temperature = Stamp(self.extents[extent as usize].temperature_ms.to_bits());
                    // The bound is not above the coldest extent's temperature, so most refusals
                    // need no search.
                    if self.coldest.bound().is_none_or(|(bound, _)| temperature <= bound) {
                        return;
                    }
                    let Self { extents, copies, .. } = self;
                    match self.coldest.least(|extent| coldness(extents, copies, extent)) {
                        // A tie keeps the page on flash: replacing it would cost a write and
                        // save nothing.
                        Some(((victim, _), coldest)) if temperature > victim => {
                            self.evict_from_flash(coldest, out);
                        }
                        _ => return,
                    }
                }
                self.take_slot(page)
            }
        };
        out.copy(page, Tier::RAM, Tier::FLASH);
        self.copies[slot as usize].is_valid = true;
    }

    fn take_slot(&mut self, page: PageId) -> u32 {
        let slot = self.slots.enter(page);
        let copy = &mut self.copies[slot as usize];
        *copy = FlashCopy { admission: self.admissions, ..NO_COPY };
        self.admissions += 1;
        let extent = self.homes.of(page);
        let list = &mut self.extents[extent as usize];
        let newest = mem::replace(&mut list.last, slot);
        if newest != NONE {
            self.copies[newest as usize].next_in_extent = slot;
            return slot;
        }
        list.first = slot;
        self.extents_on_flash += 1;
        let Self { extents, copies, extents_on_flash, .. } = self;
        let current = |extent| coldness(extents, copies, extent);
        let coldness = current(extent).expect("an extent with a slot has pages on flash");
        self.coldest.push(extent, coldness, *extents_on_flash, current);
        slot
    }

    /// Takes the slot of the coldest extent's oldest page away.
    fn evict_from_flash(&mut self, coldest: u32, out: &mut impl Sink) {
        let list = &mut self.extents[coldest as usize];
        let victim = list.first;
        list.first = self.copies[victim as usize].next_in_extent;
        if list.first == NONE {
            list.last = NONE;
            self.extents_on_flash -= 1;
        }
        // No write to disk: flash is written through, so the disk has every version that a slot
        // holds.
        self.invalidate(victim, out);
        self.slots.leave(victim);
    }

    /// Gives up what a slot holds; its page keeps the slot.
    fn invalidate(&mut self, slot: u32, out: &mut impl Sink) {
        if mem::take(&mut self.copies[slot as usize].is_valid) {
            out.drop_copy(self.slots.page(slot), Tier::FLASH);
        }
    }

    fn evict_from_memory(&mut self, out: &mut impl Sink) {
        let (position, state) = self.memory.oldest(ANY).expect("an over-full memory has a page");
        let page = self.memory.page(position);
        self.memory.look_ahead(ANY, |coming| self.slots.prefetch(coming));
        let is_dirty = state & DIRTY != 0;
        out.copy_if(is_dirty, page, Tier::RAM, Tier::DISK);
        // A clean page is not written again: its slot equals it, or stays invalid until the next read
        // from disk, if a flush wrote the page to disk.
        let slot = self.slots.find_if(is_dirty, page);
        // Write-through: a dirty page that leaves goes to disk, and to flash only if it owns a
        // slot.
        if slot.is_some() {
            self.admit(page, slot, out);
        }
        out.drop_copy(page, Tier::RAM);
        self.memory.set_state(position, 0);
    }
}

impl Policy for Tac {
    fn access(&mut self, access: Access, out: &mut Actions) {
        self.step(access, out);
    }

    fn access_all(
        &mut self,
        accesses: &[Access],
        coming: &[Access],
        _actions: &mut Actions,
        counts: &mut Counts,
    ) {
        for_each(self, accesses, coming, |policy, access| policy.step(access, counts));
    }

    fn flush(&mut self, out: &mut Actions) {
        self.memory.update_states(|page, state| {
            if state & DIRTY != 0 {
                out.copy(page, Tier::RAM, Tier::DISK);
            }
            state & !DIRTY
        });
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        let surplus = survivors.len().saturating_sub(self.flash_pages as usize);
        for (index, survivor) in survivors.iter().enumerate() {
            // TAC has no dirty flash pages: those that another policy left go to disk now, or their
            // eviction would lose them.
            if survivor.is_dirty {
                out.copy(survivor.page, Tier::FLASH, Tier::DISK);
            }
            if index < surplus {
                out.drop_copy(survivor.page, Tier::FLASH);
            } else {
                let slot = self.take_slot(survivor.page);
                self.copies[slot as usize].is_valid = true;
            }
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.memory.prefetch(page);
        self.slots.prefetch(page);
        self.homes.prefetch(page);
    }

    #[inline]
    fn prefetch_next(&self, page: PageId) {
        self.memory.prefetch_state(page);
        prefetch(&self.extents, self.homes.of(page) as usize);
        prefetch(&self.copies, self.slots.find_or_last(page) as usize);
    }

    fn assert_invariants(&self) {
        self.memory.assert_invariants();
        self.slots.assert_invariants();
        assert!(self.memory.len() <= self.memory_pages, "pages in memory fit it");
        assert!(self.slots.len() <= self.flash_pages, "slots fit flash");
        let (mut listed, mut extents_on_flash) = (0, 0);
        for (extent, list) in (0_u32..).zip(&self.extents) {
            extents_on_flash += usize::from(list.first != NONE);
            let (mut slot, mut last) = (list.first, NONE);
            while slot != NONE {
                listed += 1;
                let page = self.slots.page(slot);
                assert_eq!(self.slots.find(page), Some(slot), "a listed slot is owned");
                assert_eq!(self.homes.of(page), extent, "a page is of its extent");
                let state = self.memory.state(page);
                let is_valid = self.copies[slot as usize].is_valid;
                assert!(!is_valid || state & DIRTY == 0, "a valid copy equals the disk's");
                assert!(!is_valid || state & WRITTEN == 0, "it was not written in memory");
                (last, slot) = (slot, self.copies[slot as usize].next_in_extent);
            }
            assert_eq!(last, list.last, "the list ends at its last slot");
        }
        assert_eq!(listed, self.slots.len(), "each slot is in one list");
        assert_eq!(extents_on_flash, self.extents_on_flash, "extents with pages are counted");
        let extents = (0..).zip(&self.extents).map(|(extent, _)| extent);
        self.coldest.assert_invariants(
            extents.filter_map(|extent| {
                Some((extent, coldness(&self.extents, &self.copies, extent)?))
            }),
        );
    }

    fn memory_bytes(&self) -> usize {
        self.memory.memory_bytes()
            + self.coldest.memory_bytes()
            + size_of_val(&*self.extents)
            + self.homes.memory_bytes()
            + self.slots.memory_bytes()
            + size_of_val(&*self.copies)
    }
}

/// Return the extent's position in the order of victims; `None` if it has no pages on flash.
#[inline]
fn coldness(extents: &[Extent], copies: &[FlashCopy], extent: u32) -> Option<Coldness> {
    let Extent { temperature_ms, first, .. } = extents[extent as usize];
    // `NONE` is past the end of `copies`: an extent with no slots has no victim to offer.
    let oldest = copies.get(first as usize)?;
    Some((Stamp(temperature_ms.to_bits()), Stamp(oldest.admission)))
}
