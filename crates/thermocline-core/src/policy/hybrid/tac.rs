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
//!   of a device; 20 bytes per page in memory (13), 17 per page of flash (22), 20 to 44 per extent.
//! * Cost: O(log e) per miss for e extents on flash; a halving costs O(e).
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
use core::cmp::Ordering;
use core::mem;

use crate::capabilities::{Capabilities, Depth, SparseMemory};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::blocks::Blocks;
use crate::queue::{IndexedHeap, Recency, Slots};
use crate::{
    Access, Actions, BoxedPolicy, Geometry, Op, PageCost, PageId, Policy, Setup, Survivor, Tier,
    WriteMiss,
};

/// The parameters of TAC.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("extent_pages", 1..=u32::MAX as u64, 32)
        .summary("pages per extent")
        .source("the paper"),
    Parameter::integer("aging_interval", 0..=u64::MAX, 0)
        .summary("accesses after which all temperatures are halved; 0 for never")
        .source("Lv et al. sweep it from 0.1 to 10 million and take the best"),
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
    /// The extents that have pages on flash, the coldest first.
    coldest: IndexedHeap<Coldness>,
    /// The slots of flash. A page may own one that does not hold its version.
    slots: Slots,
    /// Per slot: whether it holds the disk's version of its page.
    is_valid: Vec<bool>,
    /// Per slot: the slot of the same extent whose page was admitted next.
    next_in_extent: Vec<u32>,
    /// Per slot: when its page was admitted, in admissions.
    admission_of: Vec<u64>,
    admissions: u64,
    random_saving_ms: f64,
    sequential_saving_ms: f64,
    aging_interval: u64,
    accesses: u64,
    /// The page number that a sequential miss would have.
    next_in_sequence: Option<u64>,
    write_miss: WriteMiss,
}

/// One extent: its temperature, and its slots of flash in order of admission.
#[derive(Clone, Copy, Debug)]
struct Extent {
    temperature_ms: f64,
    first: u32,
    last: u32,
}

/// The order of victims: the coldest extent, then the page admitted longest ago.
#[derive(Clone, Copy, Debug)]
struct Coldness {
    temperature_ms: f64,
    admission: u64,
}

/// Its row in the registry.
pub const TAC: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("tac"),
    summary: "temperature per extent; warm extents are admitted to a write-through flash",
    source: "Canim et al.: SSD Bufferpool Extensions for Database Systems, PVLDB 3, 2010",
    module: module_path!(),
    capabilities: Capabilities {
        looks_at_neighbours: true,
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
    let slot_count = slots.count() as usize;
    let read_ms = |tier: Tier| setup.costs.get(tier.index()).map_or(0.0, |c: &PageCost| c.read_ms);
    let charged_ms = (read_ms(Tier::DISK) - read_ms(Tier::FLASH)).max(0.0);
    let saving_ms = |name| values.real_or_auto(name).unwrap_or(charged_ms);
    Box::new(Tac {
        memory: Recency::new(ids, memory_pages.saturating_add(1), [u8::MAX]),
        memory_pages,
        flash_pages,
        geometry: setup.geometry.clone(),
        homes,
        extents: vec![Extent { temperature_ms: 0.0, first: NONE, last: NONE }; extents as usize],
        coldest: IndexedHeap::new(extents),
        slots,
        is_valid: vec![false; slot_count],
        next_in_extent: vec![NONE; slot_count],
        admission_of: vec![0; slot_count],
        admissions: 0,
        random_saving_ms: saving_ms("random_saving_ms"),
        sequential_saving_ms: saving_ms("sequential_saving_ms"),
        aging_interval: values.integer("aging_interval"),
        accesses: 0,
        next_in_sequence: None,
        write_miss: setup.write_miss,
    })
}

impl Tac {
    /// Warms the extent of a page that memory does not hold.
    fn warm(&mut self, page: PageId) {
        let number = self.geometry.page_number(page);
        let saving_ms = if self.next_in_sequence == Some(number) {
            self.sequential_saving_ms
        } else {
            self.random_saving_ms
        };
        self.next_in_sequence = number.checked_add(1);
        let extent = self.homes.of(page);
        self.extents[extent as usize].temperature_ms += saving_ms;
        self.rank(extent);
    }

    /// Halves all temperatures when the interval has passed.
    fn age(&mut self) {
        self.accesses += 1;
        if self.aging_interval > 0 && self.accesses.is_multiple_of(self.aging_interval) {
            for extent in &mut self.extents {
                extent.temperature_ms *= 0.5;
            }
            let extents = &self.extents;
            self.coldest.update_keys(|key, extent| Coldness {
                temperature_ms: extents[extent as usize].temperature_ms,
                ..key
            });
        }
    }

    /// Puts an extent at its place in the order of victims.
    fn rank(&mut self, extent: u32) {
        let Extent { temperature_ms, first, .. } = self.extents[extent as usize];
        if first == NONE {
            self.coldest.remove(extent);
        } else {
            let admission = self.admission_of[first as usize];
            self.coldest.set(extent, Coldness { temperature_ms, admission });
        }
    }

    /// Writes a page of memory to flash if it owns a slot, a slot is free, or its extent is warmer
    /// than the coldest on flash.
    fn admit(&mut self, page: PageId, out: &mut Actions) {
        let slot = match self.slots.find(page) {
            Some(slot) => slot,
            None => {
                if self.slots.len() == self.flash_pages {
                    let extent = self.homes.of(page);
                    let temperature_ms = self.extents[extent as usize].temperature_ms;
                    match self.coldest.least() {
                        Some((victim, _)) if temperature_ms > victim.temperature_ms => {}
                        _ => return,
                    }
                    self.evict_from_flash(out);
                }
                self.take_slot(page)
            }
        };
        out.copy(page, Tier::RAM, Tier::FLASH);
        self.is_valid[slot as usize] = true;
    }

    fn take_slot(&mut self, page: PageId) -> u32 {
        let slot = self.slots.enter(page);
        self.admission_of[slot as usize] = self.admissions;
        self.admissions += 1;
        let extent = self.homes.of(page);
        let list = &mut self.extents[extent as usize];
        match list.last {
            NONE => list.first = slot,
            newest => self.next_in_extent[newest as usize] = slot,
        }
        list.last = slot;
        self.next_in_extent[slot as usize] = NONE;
        self.rank(extent);
        slot
    }

    /// Takes the slot of the victim away.
    fn evict_from_flash(&mut self, out: &mut Actions) {
        let (_, extent) = self.coldest.least().expect("a full flash has a coldest extent");
        let list = &mut self.extents[extent as usize];
        let victim = list.first;
        list.first = self.next_in_extent[victim as usize];
        if list.first == NONE {
            list.last = NONE;
        }
        self.rank(extent);
        self.invalidate(victim, out);
        self.slots.leave(victim);
    }

    /// Gives up what a slot holds; its page keeps the slot.
    fn invalidate(&mut self, slot: u32, out: &mut Actions) {
        if mem::take(&mut self.is_valid[slot as usize]) {
            out.drop_copy(self.slots.page(slot), Tier::FLASH);
        }
    }

    fn evict_from_memory(&mut self, out: &mut Actions) {
        let (position, state) = self.memory.oldest(ANY).expect("an over-full memory has a page");
        let page = self.memory.page(position);
        if state & DIRTY != 0 {
            out.copy(page, Tier::RAM, Tier::DISK);
            if self.slots.find(page).is_some() {
                self.admit(page, out);
            }
        }
        out.drop_copy(page, Tier::RAM);
        self.memory.set_state(position, 0);
    }
}

impl Policy for Tac {
    fn access(&mut self, Access { page, op, .. }: Access, out: &mut Actions) {
        self.age();
        let dirty = if op == Op::Write { DIRTY } else { 0 };
        if let Some((_, state)) = self.memory.find(page) {
            self.memory.touch(page, state | dirty);
            out.serve(page, op, Tier::RAM, Tier::RAM);
        } else {
            self.warm(page);
            let slot = self.slots.find(page);
            let is_on_flash = slot.is_some_and(|slot| self.is_valid[slot as usize]);
            let found = if is_on_flash { Tier::FLASH } else { Tier::DISK };
            if is_on_flash {
                out.copy(page, Tier::FLASH, Tier::RAM);
            } else if op == Op::Read || self.write_miss == WriteMiss::Fetch {
                out.copy(page, Tier::DISK, Tier::RAM);
                self.admit(page, out);
            }
            out.serve(page, op, found, Tier::RAM);
            self.memory.touch(page, RESIDENT | dirty);
        }
        if op == Op::Write
            && let Some(slot) = self.slots.find(page)
        {
            self.invalidate(slot, out);
        }
        if self.memory.len() > self.memory_pages {
            self.evict_from_memory(out);
        }
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
            if survivor.is_dirty {
                out.copy(survivor.page, Tier::FLASH, Tier::DISK);
            }
            if index < surplus {
                out.drop_copy(survivor.page, Tier::FLASH);
            } else {
                let slot = self.take_slot(survivor.page);
                self.is_valid[slot as usize] = true;
            }
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.memory.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.memory.assert_invariants();
        self.slots.assert_invariants();
        self.coldest.assert_invariants();
        assert!(self.memory.len() <= self.memory_pages, "pages in memory fit it");
        assert!(self.slots.len() <= self.flash_pages, "slots fit flash");
        let mut listed = 0;
        for (extent, list) in (0_u32..).zip(&self.extents) {
            assert_eq!(self.coldest.contains(extent), list.first != NONE, "ranked: has pages");
            let (mut slot, mut last) = (list.first, NONE);
            while slot != NONE {
                listed += 1;
                let page = self.slots.page(slot);
                assert_eq!(self.slots.find(page), Some(slot), "a listed slot is owned");
                assert_eq!(self.homes.of(page), extent, "a page is of its extent");
                let state = self.memory.state(page);
                let is_valid = self.is_valid[slot as usize];
                assert!(!is_valid || state & DIRTY == 0, "a valid copy equals the disk's");
                (last, slot) = (slot, self.next_in_extent[slot as usize]);
            }
            assert_eq!(last, list.last, "the list ends at its last slot");
        }
        assert_eq!(listed, self.slots.len(), "each slot is in one list");
        for (key, extent) in self.coldest.iter() {
            let list = &self.extents[extent as usize];
            assert_eq!(key.temperature_ms.to_bits(), list.temperature_ms.to_bits(), "ranked right");
        }
    }

    fn memory_bytes(&self) -> usize {
        self.memory.memory_bytes()
            + self.coldest.memory_bytes()
            + size_of_val(&*self.extents)
            + self.homes.memory_bytes()
            + self.slots.memory_bytes()
            + size_of_val(&*self.next_in_extent)
            + size_of_val(&*self.admission_of)
            + self.is_valid.len()
    }
}

impl PartialEq for Coldness {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Coldness {}

impl PartialOrd for Coldness {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Coldness {
    fn cmp(&self, other: &Self) -> Ordering {
        self.temperature_ms
            .total_cmp(&other.temperature_ms)
            .then(self.admission.cmp(&other.admission))
    }
}
