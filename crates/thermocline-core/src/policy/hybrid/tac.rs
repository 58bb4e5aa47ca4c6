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
//! * State: 13 bytes per page that exists, 20 per page in memory, 16 to 36 per extent.
//! * Cost: O(log e) per miss for e extents on flash; a halving costs O(e).
//! * Deviations: (1) flash hits warm an extent too: they measure what the cache saves. (2) A miss is
//!   sequential if its page number follows that of the previous miss. (3) Ties between coldest
//!   extents fall to the page admitted longest ago. (4) A write miss that fetches its page admits it
//!   and invalidates it at once. (5) With the default costs a sequential read from disk is faster
//!   than flash, so sequential misses cool their extent.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::config::{Kind, Parameter, Value, Values};
use crate::queue::{IndexedHeap, Recency};
use crate::{
    Access, Actions, BoxedPolicy, Geometry, Op, PageCost, PageId, Policy, Setup, Survivor, Tier,
    WriteMiss,
};

/// The parameters of TAC.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "extent_pages",
        kind: Kind::Integer { min: 1, max: u64::MAX },
        default: Value::Integer(32),
        summary: "pages per extent",
        source: "the paper",
    },
    Parameter {
        name: "aging_interval",
        kind: Kind::Integer { min: 0, max: u64::MAX },
        default: Value::Integer(0),
        summary: "accesses after which all temperatures are halved; 0 for never",
        source: "Lv et al. sweep it from 0.1 to 10 million and take the best",
    },
    Parameter {
        name: "random_saving_ms",
        kind: Kind::Real { min: f64::MIN, max: f64::MAX },
        default: Value::Auto,
        summary: "what a random miss adds to its extent; auto: disk read minus flash read",
        source: "the paper",
    },
    Parameter {
        name: "sequential_saving_ms",
        kind: Kind::Real { min: f64::MIN, max: f64::MAX },
        default: Value::Auto,
        summary: "what a sequential miss adds; auto: a sequential disk read minus a flash read",
        source: "the paper",
    },
];

/// What a page of a sequential read from disk costs, for the saving of a sequential miss.
const SEQUENTIAL_READ_MS: f64 = 0.04;

/// State bit of a page in memory: it is there.
const RESIDENT: u8 = 1;
/// State bit of a page in memory: newer than the disk's copy.
const DIRTY: u8 = 1 << 1;

/// Flag of a page on flash: it owns a slot.
const OWNS_SLOT: u8 = 1;
/// Flag of a page on flash: its slot holds the disk's version.
const VALID: u8 = 1 << 1;

/// The only class of the memory's queue: every page of it.
const ANY: usize = 0;
/// The end of an extent's list of pages.
const NONE: u32 = u32::MAX;

/// Temperature-aware caching.
#[derive(Clone, Debug)]
pub struct Tac {
    memory: Recency<1>,
    memory_pages: u32,
    flash_pages: u32,
    geometry: Geometry,
    /// Per page: its extent, renumbered densely.
    extent_of: Vec<u32>,
    extents: Vec<Extent>,
    /// The extents that have pages on flash, the coldest first.
    coldest: IndexedHeap<Coldness>,
    /// Per page: its flags on flash.
    flags: Vec<u8>,
    /// Per page on flash: the page of the same extent that was admitted next.
    next_in_extent: Vec<u32>,
    /// Per page on flash: when it was admitted, in admissions.
    admission_of: Vec<u64>,
    admissions: u64,
    held_flash_pages: u32,
    random_saving_ms: f64,
    sequential_saving_ms: f64,
    aging_interval: u64,
    accesses: u64,
    /// The page number that a sequential miss would have.
    next_in_sequence: Option<u64>,
    write_miss: WriteMiss,
}

/// One extent: its temperature, and its pages on flash in order of admission.
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

/// Builds the policy for the registry.
pub fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    let pages = setup.geometry.pages();
    let [memory_pages, flash_pages] = [setup.capacity_pages[0], setup.capacity_pages[1]];
    let extent_of = extents(&setup.geometry, values.integer("extent_pages"));
    let extents = extent_of.iter().max().map_or(0, |last| last + 1);
    let read_ms = |tier: Tier| setup.costs.get(tier.index()).map_or(0.0, |c: &PageCost| c.read_ms);
    let random_saving_ms = read_ms(Tier::DISK) - read_ms(Tier::FLASH);
    let sequential_saving_ms = SEQUENTIAL_READ_MS - read_ms(Tier::FLASH);
    Box::new(Tac {
        memory: Recency::new(pages, memory_pages.saturating_add(1), [u8::MAX]),
        memory_pages,
        flash_pages,
        geometry: setup.geometry.clone(),
        extent_of,
        extents: vec![Extent { temperature_ms: 0.0, first: NONE, last: NONE }; extents as usize],
        coldest: IndexedHeap::new(extents),
        flags: vec![0; pages as usize],
        next_in_extent: vec![NONE; pages as usize],
        admission_of: vec![0; pages as usize],
        admissions: 0,
        held_flash_pages: 0,
        random_saving_ms: values.real_or_auto("random_saving_ms").unwrap_or(random_saving_ms),
        sequential_saving_ms: values
            .real_or_auto("sequential_saving_ms")
            .unwrap_or(sequential_saving_ms),
        aging_interval: values.integer("aging_interval"),
        accesses: 0,
        next_in_sequence: None,
        write_miss: setup.write_miss,
    })
}

/// The extent of each page, renumbered densely in the order of addresses.
fn extents(geometry: &Geometry, extent_pages: u64) -> Vec<u32> {
    let mut extent_of = vec![0; geometry.pages() as usize];
    let mut previous = None;
    let mut extent = 0;
    for page in geometry.ids_by_page_number() {
        let number = geometry.page_number(page) / extent_pages;
        extent += u32::from(previous.is_some_and(|previous| previous != number));
        previous = Some(number);
        extent_of[page.index()] = extent;
    }
    extent_of
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
        let extent = self.extent_of[page.index()];
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
        if self.flags[page.index()] & OWNS_SLOT == 0 {
            if self.held_flash_pages == self.flash_pages {
                let extent = self.extent_of[page.index()];
                let temperature_ms = self.extents[extent as usize].temperature_ms;
                match self.coldest.least() {
                    Some((victim, _)) if temperature_ms > victim.temperature_ms => {}
                    _ => return,
                }
                self.evict_from_flash(out);
            }
            self.take_slot(page);
        }
        out.copy(page, Tier::RAM, Tier::FLASH);
        self.flags[page.index()] |= VALID;
    }

    fn take_slot(&mut self, page: PageId) {
        self.flags[page.index()] |= OWNS_SLOT;
        self.held_flash_pages += 1;
        self.admission_of[page.index()] = self.admissions;
        self.admissions += 1;
        let extent = self.extent_of[page.index()];
        let list = &mut self.extents[extent as usize];
        match list.last {
            NONE => list.first = page.0,
            newest => self.next_in_extent[newest as usize] = page.0,
        }
        list.last = page.0;
        self.next_in_extent[page.index()] = NONE;
        self.rank(extent);
    }

    /// Takes the slot of the victim away.
    fn evict_from_flash(&mut self, out: &mut Actions) {
        let (_, extent) = self.coldest.least().expect("a full flash has a coldest extent");
        let list = &mut self.extents[extent as usize];
        let victim = PageId(list.first);
        list.first = self.next_in_extent[victim.index()];
        if list.first == NONE {
            list.last = NONE;
        }
        self.rank(extent);
        self.invalidate(victim, out);
        self.flags[victim.index()] = 0;
        self.held_flash_pages -= 1;
    }

    /// Gives up what the slot of a page holds; the page keeps the slot.
    fn invalidate(&mut self, page: PageId, out: &mut Actions) {
        if self.flags[page.index()] & VALID != 0 {
            self.flags[page.index()] &= !VALID;
            out.drop_copy(page, Tier::FLASH);
        }
    }

    fn evict_from_memory(&mut self, out: &mut Actions) {
        let (position, state) = self.memory.oldest(ANY).expect("an over-full memory has a page");
        let page = self.memory.page(position);
        if state & DIRTY != 0 {
            out.copy(page, Tier::RAM, Tier::DISK);
            if self.flags[page.index()] & OWNS_SLOT != 0 {
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
            let is_on_flash = self.flags[page.index()] & VALID != 0;
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
        if op == Op::Write {
            self.invalidate(page, out);
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
                self.take_slot(survivor.page);
                self.flags[survivor.page.index()] |= VALID;
            }
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.memory.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.memory.assert_invariants();
        self.coldest.assert_invariants();
        assert!(self.memory.len() <= self.memory_pages, "pages in memory fit it");
        assert!(self.held_flash_pages <= self.flash_pages, "slots fit flash");
        let mut slots = 0;
        for (extent, list) in (0_u32..).zip(&self.extents) {
            assert_eq!(self.coldest.contains(extent), list.first != NONE, "ranked: has pages");
            let (mut page, mut last) = (list.first, NONE);
            while page != NONE {
                slots += 1;
                assert_eq!(self.extent_of[page as usize], extent, "a page is of its extent");
                assert_ne!(self.flags[page as usize] & OWNS_SLOT, 0, "a listed page owns a slot");
                (last, page) = (page, self.next_in_extent[page as usize]);
            }
            assert_eq!(last, list.last, "the list ends at its last page");
        }
        assert_eq!(slots, self.held_flash_pages, "each slot is in one list");
        for (key, extent) in self.coldest.iter() {
            let list = &self.extents[extent as usize];
            assert_eq!(key.temperature_ms.to_bits(), list.temperature_ms.to_bits(), "ranked right");
        }
        for (page, flags) in (0_u32..).zip(&self.flags) {
            let state = self.memory.state(PageId(page));
            assert!(flags & VALID == 0 || flags & OWNS_SLOT != 0, "what is valid owns a slot");
            assert!(flags & VALID == 0 || state & DIRTY == 0, "a valid copy equals the disk's");
        }
    }

    fn memory_bytes(&self) -> usize {
        self.memory.memory_bytes()
            + self.coldest.memory_bytes()
            + size_of_val(&*self.extents)
            + size_of_val(&*self.extent_of)
            + size_of_val(&*self.next_in_extent)
            + size_of_val(&*self.admission_of)
            + self.flags.len()
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
