//! LC, DW and CW: flash extends the buffer pool, and dirty pages take one of three ways.
//!
//! A page enters flash when memory evicts it, if it was fetched by a random access (or regardless,
//! while flash fills). A page changed in memory loses its flash frame at once. Dirty pages go to
//! disk only (clean write, CW), to flash and disk (dual write, DW), or to flash now and to disk
//! later (lazy cleaning, LC), when too many have gathered, in groups of adjacent pages. The flash
//! victim is the clean page whose second-to-last flash access is oldest.
//!
//! * Source: Do, Zhang, Patel, `DeWitt`, Naughton, Halverson, *Turbocharging DBMS Buffer Pool Using
//!   SSDs*, SIGMOD 2011.
//! * State: 28 bytes per page that exists (4 more for LC), 20 bytes per page in memory, 24 per page
//!   on flash.
//! * Cost: O(log n) per flash access or eviction; cleaning O(log n) per page cleaned.
//! * Deviations: (1) an access is random unless its page number follows that of the previous miss
//!   in memory. (2) Cleaning starts with the dirty page that would be the next victim and takes the
//!   dirty pages that follow it in address order into the same disk write, which is not cut short.
//!   (3) It stops at 0.99 times the threshold. (4) The history of a frame ends with the frame: a
//!   page seen once on flash goes before all pages seen twice. (5) The bound on outstanding flash
//!   requests needs a model of time, so it is left to drivers.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::config::{Kind, Parameter, Value, Values};
use crate::queue::{IndexedHeap, Recency};
use crate::{
    Access, Actions, BoxedPolicy, Gate, Geometry, Op, PageId, Policy, Setup, Survivor, Tier,
    WriteMiss,
};

const FILLING_THRESHOLD: Parameter = Parameter {
    name: "filling_threshold",
    kind: Kind::Real { min: 0.0, max: 1.0 },
    default: Value::Real(0.95),
    summary: "share of flash up to which every page that leaves memory is admitted",
    source: "the paper (tau)",
};

/// The parameters of CW and DW.
pub const PARAMETERS: &[Parameter] = &[FILLING_THRESHOLD];

/// The parameters of LC.
pub const LC_PARAMETERS: &[Parameter] = &[
    FILLING_THRESHOLD,
    Parameter {
        name: "dirty_threshold",
        kind: Kind::Real { min: 0.0, max: 1.0 },
        default: Value::Real(0.5),
        summary: "share of flash that may be dirty before cleaning starts",
        source: "the paper (lambda), as for TPC-C; 0.01 for TPC-E and TPC-H",
    },
    Parameter {
        name: "low_mark",
        kind: Kind::Real { min: 0.0, max: 1.0 },
        default: Value::Real(0.99),
        summary: "share of the dirty threshold at which cleaning stops",
        source: "reconstruction",
    },
    Parameter {
        name: "group_pages",
        kind: Kind::Integer { min: 1, max: 1 << 20 },
        default: Value::Integer(32),
        summary: "adjacent pages that one disk write cleans at most",
        source: "the paper (alpha)",
    },
];

/// State bit of a page in memory: it is there.
const RESIDENT: u8 = 1;
/// State bit of a page in memory: changed since it was fetched.
const DIRTY: u8 = 1 << 1;
/// State bit of a page in memory: fetched by a random access.
const RANDOM: u8 = 1 << 2;

/// The only class of the queues: every page of them.
const ANY: usize = 0;
/// The successor of a page that has none.
const NONE: u32 = u32::MAX;

/// Where dirty pages go when memory evicts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Design {
    CleanWrite,
    DualWrite,
    LazyCleaning,
}

/// When a frame was accessed, in flash accesses; 0 is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct History {
    second_to_last: u64,
    last: u64,
}

/// The buffer pool extension, in any of its three designs.
#[derive(Debug)]
pub struct LazyCleaning {
    design: Design,
    memory: Recency<1>,
    memory_pages: u32,
    flash_pages: u32,
    geometry: Geometry,
    /// Frames whose page equals the disk's, by history.
    clean: IndexedHeap<History>,
    /// Frames whose page is newer than the disk's, by history.
    dirty: IndexedHeap<History>,
    /// Per page: its frame's history.
    histories: Vec<History>,
    flash_accesses: u64,
    /// Per page: the page that follows it in the address space, for cleaning in groups.
    successor_of: Vec<u32>,
    /// Flash below this many pages admits every page.
    filling_pages: f64,
    /// More dirty pages than this start the cleaner.
    dirty_pages_max: f64,
    /// The cleaner stops at this many dirty pages.
    dirty_pages_low: f64,
    group_pages: u32,
    /// The page number that a sequential miss would have.
    next_in_sequence: Option<u64>,
    write_miss: WriteMiss,
    gate: Gate,
}

/// Builds lazy cleaning for the registry.
pub fn build_lc(setup: &Setup, values: &Values) -> BoxedPolicy {
    let plain = LazyCleaning::new(setup, values, Design::LazyCleaning);
    let dirty_pages_max = values.real("dirty_threshold") * f64::from(setup.capacity_pages[1]);
    Box::new(LazyCleaning {
        successor_of: successors(&setup.geometry),
        dirty_pages_max,
        dirty_pages_low: values.real("low_mark") * dirty_pages_max,
        group_pages: values.integer_u32("group_pages"),
        ..plain
    })
}

/// Builds clean write for the registry.
pub fn build_cw(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(LazyCleaning::new(setup, values, Design::CleanWrite))
}

/// Builds dual write for the registry.
pub fn build_dw(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(LazyCleaning::new(setup, values, Design::DualWrite))
}

/// The page that follows each page in the address space, or [`NONE`].
fn successors(geometry: &Geometry) -> Vec<u32> {
    let mut successor_of = vec![NONE; geometry.pages() as usize];
    for pair in geometry.ids_by_page_number().windows(2) {
        if geometry.page_number(pair[0]).checked_add(1) == Some(geometry.page_number(pair[1])) {
            successor_of[pair[0].index()] = pair[1].0;
        }
    }
    successor_of
}

impl LazyCleaning {
    fn new(setup: &Setup, values: &Values, design: Design) -> Self {
        let pages = setup.geometry.pages();
        let [memory_pages, flash_pages] = [setup.capacity_pages[0], setup.capacity_pages[1]];
        Self {
            design,
            memory: Recency::new(pages, memory_pages.saturating_add(1), [u8::MAX]),
            memory_pages,
            flash_pages,
            geometry: setup.geometry.clone(),
            clean: IndexedHeap::new(pages),
            dirty: IndexedHeap::new(pages),
            histories: vec![History::default(); pages as usize],
            flash_accesses: 0,
            successor_of: vec![],
            filling_pages: values.real("filling_threshold") * f64::from(flash_pages),
            dirty_pages_max: 0.0,
            dirty_pages_low: 0.0,
            group_pages: 1,
            next_in_sequence: None,
            write_miss: setup.write_miss,
            gate: setup.admission.gate(pages),
        }
    }

    fn is_on_flash(&self, page: PageId) -> bool {
        self.clean.contains(page.0) || self.dirty.contains(page.0)
    }

    fn held_flash_pages(&self) -> usize {
        self.clean.len() + self.dirty.len()
    }

    /// Notes an access of a frame.
    fn touch_frame(&mut self, page: PageId) {
        self.flash_accesses += 1;
        let history = &mut self.histories[page.index()];
        *history = History { second_to_last: history.last, last: self.flash_accesses };
        let heap = if self.dirty.contains(page.0) { &mut self.dirty } else { &mut self.clean };
        heap.set(page.0, *history);
    }

    /// Gives up the frame of a page, whose bytes are elsewhere.
    fn drop_frame(&mut self, page: PageId, out: &mut Actions) {
        let had_frame = self.dirty.remove(page.0) || self.clean.remove(page.0);
        debug_assert!(had_frame, "only a page with a frame loses it");
        self.histories[page.index()] = History::default();
        out.drop_copy(page, Tier::FLASH);
    }

    /// Writes the page of a dirty frame to disk; the frame stays.
    fn clean_frame(&mut self, page: PageId, out: &mut Actions) {
        out.copy(page, Tier::FLASH, Tier::DISK);
        self.dirty.remove(page.0);
        self.clean.set(page.0, self.histories[page.index()]);
    }

    /// Gives a page a frame, in place of the victim if flash is full.
    fn admit(&mut self, page: PageId, is_dirty: bool, out: &mut Actions) {
        if self.held_flash_pages() == self.flash_pages as usize {
            let victim = match (self.clean.least(), self.dirty.least()) {
                (Some((_, clean)), _) => PageId(clean),
                (None, Some((_, dirty))) => {
                    self.clean_frame(PageId(dirty), out);
                    PageId(dirty)
                }
                (None, None) => unreachable!("a full flash of at least one page has a frame"),
            };
            self.drop_frame(victim, out);
        }
        out.copy(page, Tier::RAM, Tier::FLASH);
        self.take_frame(page, is_dirty);
    }

    fn take_frame(&mut self, page: PageId, is_dirty: bool) {
        if is_dirty {
            self.dirty.set(page.0, History::default());
        }
        self.touch_frame(page);
    }

    fn evict_from_memory(&mut self, out: &mut Actions) {
        let (position, state) = self.memory.oldest(ANY).expect("an over-full memory has a page");
        let page = self.memory.page(position);
        let is_dirty = state & DIRTY != 0;
        if !self.is_on_flash(page) {
            let is_admitted = self.flash_pages > 0
                && (state & RANDOM != 0 || (self.held_flash_pages() as f64) < self.filling_pages)
                && !(is_dirty && self.design == Design::CleanWrite)
                && self.gate.admits(page);
            let is_lazy = self.design == Design::LazyCleaning && is_admitted;
            if is_dirty && !is_lazy {
                out.copy(page, Tier::RAM, Tier::DISK);
            }
            if is_admitted {
                self.admit(page, is_dirty && is_lazy, out);
            }
        }
        out.drop_copy(page, Tier::RAM);
        self.memory.set_state(position, 0);
    }

    /// Cleans dirty frames in the order of their histories, in groups, down to the low mark.
    fn clean_in_groups(&mut self, out: &mut Actions) {
        if self.dirty.len() as f64 <= self.dirty_pages_max {
            return;
        }
        while self.dirty.len() as f64 > self.dirty_pages_low {
            let (_, least) = self.dirty.least().expect("more dirty frames than none are left");
            let mut page = PageId(least);
            for _ in 0..self.group_pages {
                self.clean_frame(page, out);
                match self.successor_of[page.index()] {
                    next if next != NONE && self.dirty.contains(next) => page = PageId(next),
                    _ => break,
                }
            }
        }
    }
}

impl Policy for LazyCleaning {
    fn access(&mut self, Access { page, op, .. }: Access, out: &mut Actions) {
        let dirty = if op == Op::Write { DIRTY } else { 0 };
        if let Some((_, state)) = self.memory.find(page) {
            self.memory.touch(page, state | dirty);
            out.serve(page, op, Tier::RAM, Tier::RAM);
        } else {
            let number = self.geometry.page_number(page);
            let random = if self.next_in_sequence == Some(number) { 0 } else { RANDOM };
            self.next_in_sequence = number.checked_add(1);
            let mut found = Tier::DISK;
            if self.is_on_flash(page) {
                found = Tier::FLASH;
                self.touch_frame(page);
            }
            if found == Tier::FLASH || op == Op::Read || self.write_miss == WriteMiss::Fetch {
                out.copy(page, found, Tier::RAM);
            }
            out.serve(page, op, found, Tier::RAM);
            self.memory.touch(page, RESIDENT | random | dirty);
        }
        if op == Op::Write && self.is_on_flash(page) {
            self.drop_frame(page, out);
        }
        if self.memory.len() > self.memory_pages {
            self.evict_from_memory(out);
            self.clean_in_groups(out);
        }
    }

    fn flush(&mut self, out: &mut Actions) {
        self.memory.update_states(|page, state| {
            if state & DIRTY != 0 {
                out.copy(page, Tier::RAM, Tier::DISK);
            }
            state & !DIRTY
        });
        while let Some((_, least)) = self.dirty.least() {
            self.clean_frame(PageId(least), out);
        }
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        let surplus = survivors.len().saturating_sub(self.flash_pages as usize);
        for (index, survivor) in survivors.iter().enumerate() {
            let is_lazy = self.design == Design::LazyCleaning && index >= surplus;
            if survivor.is_dirty && !is_lazy {
                out.copy(survivor.page, Tier::FLASH, Tier::DISK);
            }
            if index < surplus {
                out.drop_copy(survivor.page, Tier::FLASH);
            } else {
                self.take_frame(survivor.page, survivor.is_dirty && is_lazy);
            }
        }
        self.clean_in_groups(out);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.memory.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.memory.assert_invariants();
        self.gate.assert_invariants();
        self.clean.assert_invariants();
        self.dirty.assert_invariants();
        assert!(self.memory.len() <= self.memory_pages, "pages in memory fit it");
        assert!(self.held_flash_pages() <= self.flash_pages as usize, "frames fit flash");
        assert!(self.dirty.len() as f64 <= self.dirty_pages_max, "dirty frames are bounded");
        for (history, page) in self.clean.iter().chain(self.dirty.iter()) {
            let is_both = self.clean.contains(page) && self.dirty.contains(page);
            assert!(!is_both, "a frame is clean or dirty");
            assert_eq!(history, self.histories[page as usize], "a frame is ordered by its history");
            let state = self.memory.state(PageId(page));
            assert_eq!(state & DIRTY, 0, "a frame holds the newest version");
        }
    }

    fn memory_bytes(&self) -> usize {
        self.memory.memory_bytes()
            + self.clean.memory_bytes()
            + self.dirty.memory_bytes()
            + size_of_val(&*self.histories)
            + size_of_val(&*self.successor_of)
            + self.gate.memory_bytes()
    }
}
