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
//! * State: 8 bytes per page that exists (none where memory is saved), and 4 to 10 more for LC unless
//!   pages are those of a device; 20 bytes per page in memory (14), 52 per page of flash (33).
//! * Cost: amortised O(1) per access, and per page cleaned.
//! * Deviations: (1) an access is random unless its page number follows that of the previous miss
//!   in memory. (2) Cleaning starts with the dirty page that would be the next victim and takes the
//!   dirty pages that follow it in address order into the same disk write, which is not cut short.
//!   (3) It stops at 0.99 times the threshold. (4) The history of a frame ends with the frame: a
//!   page seen once on flash goes before all pages seen twice. (5) The bound on outstanding flash
//!   requests needs a model of time, so it is left to drivers.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use crate::action::Sink;
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::blocks::Successors;
use crate::policy::for_each;
use crate::policy::sequence::Sequence;
use crate::queue::{LastButOne, Recency, Side, Slots};
use crate::{
    Access, Actions, BoxedPolicy, Counts, Gate, Geometry, Op, PageId, Policy, Setup, Survivor,
    Tier, WriteMiss,
};

const FILLING_THRESHOLD: Parameter = Parameter::real("filling_threshold", 0.0..=1.0, 0.95)
    .summary("share of flash up to which every page that leaves memory is admitted")
    .source("the paper (tau)");

/// The parameters of CW and DW.
pub const PARAMETERS: &[Parameter] = &[FILLING_THRESHOLD];

/// The parameters of LC.
pub const LC_PARAMETERS: &[Parameter] = &[
    FILLING_THRESHOLD,
    Parameter::real("dirty_threshold", 0.0..=1.0, 0.5)
        .summary("share of flash that may be dirty before cleaning starts")
        .source("the paper (lambda), as for TPC-C; 0.01 for TPC-E and TPC-H"),
    Parameter::real("low_mark", 0.0..=1.0, 0.99)
        .summary("share of the dirty threshold at which cleaning stops")
        .source("reconstruction"),
    Parameter::integer("group_pages", 1..=1 << 20, 32)
        .summary("adjacent pages that one disk write cleans at most")
        .source("the paper (alpha)"),
];

/// State bit of a page in memory: it is there.
const RESIDENT: u8 = 1;
/// State bit of a page in memory: changed since it was fetched.
const DIRTY: u8 = 1 << 1;
/// State bit of a page in memory: fetched by a random access.
const RANDOM: u8 = 1 << 2;

/// The only class of the queues: every page of them.
const ANY: usize = 0;
/// Destination of dirty pages that memory evicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Design {
    CleanWrite,
    DualWrite,
    LazyCleaning,
}

/// The frames whose page equals the disk's.
const CLEAN: Side = Side::Front;
/// The frames whose page is newer than the disk's.
const DIRTY_FRAMES: Side = Side::Back;

/// The buffer pool extension, in any of its three designs.
#[derive(Debug)]
pub struct LazyCleaning {
    design: Design,
    memory: Recency<1>,
    memory_pages: u32,
    flash_pages: u32,
    geometry: Geometry,
    frames: Slots,
    /// The frames with a page by their second-to-last access, those that are clean on one side, those
    /// that are dirty on the other.
    order: LastButOne,
    /// Successors of pages, for cleaning in groups, which only one of the designs does.
    successors: Option<Successors>,
    /// Flash below this many pages admits every page.
    filling_pages: f64,
    /// More dirty pages than this start the cleaner.
    dirty_pages_max: f64,
    /// The cleaner stops at this many dirty pages.
    dirty_pages_low: f64,
    group_pages: u32,
    sequence: Sequence,
    write_miss: WriteMiss,
    gate: Gate,
}

/// Publication of the three designs.
const SOURCE: &str = "Do et al.: Turbocharging DBMS Buffer Pool Using SSDs, SIGMOD 2011";
/// Capabilities of the three designs.
const CAPABILITIES: Capabilities = Capabilities {
    takes_admission: true,
    looks_at_neighbours: true,
    asks_for_miss_order: true,
    ..Capabilities::of(Depth::RamFlash)
};

/// The row of `lc` in the registry.
pub const LC: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("lc"),
    summary: "lazy cleaning: dirty pages go to flash and are cleaned to disk in groups, later",
    source: SOURCE,
    module: module_path!(),
    capabilities: CAPABILITIES,
    parameters: LC_PARAMETERS,
    build: Build::Function(build_lc),
};

/// The row of `cw` in the registry.
pub const CW: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("cw"),
    summary: "clean write: dirty pages go to disk only, flash holds clean pages",
    source: SOURCE,
    module: module_path!(),
    capabilities: CAPABILITIES,
    parameters: PARAMETERS,
    build: Build::Function(build_cw),
};

/// The row of `dw` in the registry.
pub const DW: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("dw"),
    summary: "dual write: dirty pages go to flash and to disk",
    source: SOURCE,
    module: module_path!(),
    capabilities: CAPABILITIES,
    parameters: PARAMETERS,
    build: Build::Function(build_dw),
};

/// Builds lazy cleaning for the registry.
fn build_lc(setup: &Setup, values: &Values) -> BoxedPolicy {
    let plain = LazyCleaning::new(setup, values, Design::LazyCleaning);
    let dirty_pages_max = values.real("dirty_threshold") * f64::from(setup.capacity_pages[1]);
    Box::new(LazyCleaning {
        successors: Some(Successors::new(&setup.geometry)),
        dirty_pages_max,
        dirty_pages_low: values.real("low_mark") * dirty_pages_max,
        group_pages: values.integer_u32("group_pages"),
        ..plain
    })
}

/// Builds clean write for the registry.
fn build_cw(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(LazyCleaning::new(setup, values, Design::CleanWrite))
}

/// Builds dual write for the registry.
fn build_dw(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(LazyCleaning::new(setup, values, Design::DualWrite))
}

impl LazyCleaning {
    fn new(setup: &Setup, values: &Values, design: Design) -> Self {
        let ids = setup.ids();
        let [memory_pages, flash_pages] = [setup.capacity_pages[0], setup.capacity_pages[1]];
        let frames = Slots::new(ids, flash_pages);
        Self {
            design,
            memory: Recency::new(ids, memory_pages.saturating_add(1), [u8::MAX]),
            memory_pages,
            flash_pages,
            geometry: setup.geometry.clone(),
            order: LastButOne::new(frames.count(), ids.indexing),
            frames,
            successors: None,
            filling_pages: values.real("filling_threshold") * f64::from(flash_pages),
            dirty_pages_max: 0.0,
            dirty_pages_low: 0.0,
            group_pages: 1,
            sequence: Sequence::new(setup),
            write_miss: setup.write_miss,
            gate: setup.admission.gate(ids.pages),
        }
    }

    /// Process one page reference.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "replays spend their time here")]
    fn step(&mut self, Access { page, op, .. }: Access, out: &mut impl Sink) {
        let dirty = if op == Op::Write { DIRTY } else { 0 };
        self.sequence.access();
        let Self { memory, geometry, sequence, frames, order, write_miss, .. } = self;
        let former = memory.touch_with(page, |state, _| {
            if state != 0 {
                out.serve(page, op, Tier::RAM, Tier::RAM);
                return state | dirty;
            }
            // The paper admits pages that are accessed randomly: a disk reads sequential ones fast
            // enough.
            let random = if sequence.misses(page, geometry) { 0 } else { RANDOM };
            let mut found = Tier::DISK;
            if let Some(frame) = frames.find(page) {
                found = Tier::FLASH;
                // A hit keeps the frame: memory and flash may hold the same page, so that a clean
                // eviction writes nothing.
                order.renew(frame);
            }
            let is_fetched = write_miss.fetches(op);
            out.copy_if(found == Tier::FLASH || is_fetched, page, found, Tier::RAM);
            out.serve(page, op, found, Tier::RAM);
            RESIDENT | random | dirty
        });
        // Physical invalidation: a page that memory changes loses its frame at once, so no frame is
        // ever out of date.
        if let Some(frame) = self.frames.find_if(op == Op::Write, page) {
            self.drop_frame(frame, out);
        }
        if former == 0 && self.memory.len() > self.memory_pages {
            self.evict_from_memory(out);
            // Only an eviction can make a frame dirty, so only now can the dirty frames exceed the
            // threshold.
            self.clean_in_groups(out);
        }
    }

    /// Gives up the frame of a page, whose bytes are elsewhere.
    fn drop_frame(&mut self, frame: u32, out: &mut impl Sink) {
        self.order.remove(frame);
        let page = self.frames.leave(frame);
        out.drop_copy(page, Tier::FLASH);
    }

    /// Writes the page of a dirty frame to disk; the frame stays.
    fn clean_frame(&mut self, frame: u32, out: &mut impl Sink) {
        out.copy(self.frames.page(frame), Tier::FLASH, Tier::DISK);
        // The frame keeps its history: cleaning is no access, and must not save the page from
        // LRU-2.
        self.order.put(CLEAN, frame);
    }

    /// Gives a page a frame, in place of the victim if flash is full.
    fn admit(&mut self, page: PageId, is_dirty: bool, out: &mut impl Sink) {
        if self.frames.len() == self.flash_pages {
            // Clean pages leave first, since a dirty one costs a disk write: the one with the
            // oldest second-to-last access, as in LRU-2.
            let victim = self.order.pop_first(CLEAN).unwrap_or_else(|| {
                let dirty = self.order.pop_first(DIRTY_FRAMES).expect("a full flash has a frame");
                out.copy(self.frames.page(dirty), Tier::FLASH, Tier::DISK);
                dirty
            });
            let Self { order, frames, .. } = self;
            order.look_ahead(CLEAN, |coming| frames.prefetch(frames.page(coming)));
            out.drop_copy(frames.leave(victim), Tier::FLASH);
        }
        out.copy(page, Tier::RAM, Tier::FLASH);
        self.take_frame(page, is_dirty);
    }

    fn take_frame(&mut self, page: PageId, is_dirty: bool) {
        let frame = self.frames.enter(page);
        self.order.insert(if is_dirty { DIRTY_FRAMES } else { CLEAN }, frame);
    }

    fn dirty_frames(&self) -> f64 {
        f64::from(self.order.len(DIRTY_FRAMES))
    }

    fn evict_from_memory(&mut self, out: &mut impl Sink) {
        let (position, state) = self.memory.oldest(ANY).expect("an over-full memory has a page");
        let page = self.memory.page(position);
        self.memory.look_ahead(ANY, |coming| self.frames.prefetch(coming));
        let is_dirty = state & DIRTY != 0;
        // A page whose frame is still there is unchanged, or the write would have dropped the
        // frame. It needs no copy at all.
        if self.frames.find(page).is_none() {
            let is_admitted = self.flash_pages > 0
                // Aggressive filling: below the threshold tau any page enters.
                && (state & RANDOM != 0 || f64::from(self.frames.len()) < self.filling_pages)
                // CW writes dirty pages to disk only, DW to both, LC to flash now and to disk
                // later.
                && !(is_dirty && self.design == Design::CleanWrite)
                && self.gate.admits(page);
            let is_lazy = self.design == Design::LazyCleaning && is_admitted;
            out.copy_if(is_dirty && !is_lazy, page, Tier::RAM, Tier::DISK);
            if is_admitted {
                self.admit(page, is_dirty & is_lazy, out);
            }
        }
        out.drop_copy(page, Tier::RAM);
        self.memory.set_state(position, 0);
    }

    /// Cleans dirty frames in the order of their histories, in groups, down to the low mark.
    fn clean_in_groups(&mut self, out: &mut impl Sink) {
        // Deviation (3): the cleaner starts above lambda and goes on to a lower mark, so that it
        // does not run for each page.
        if self.dirty_frames() <= self.dirty_pages_max {
            return;
        }
        while self.dirty_frames() > self.dirty_pages_low {
            let first = self.order.first(DIRTY_FRAMES);
            let mut frame = first.expect("more dirty frames than none are left");
            let Self { order, frames, geometry, .. } = self;
            order.look_ahead(DIRTY_FRAMES, |coming| geometry.prefetch(frames.page(coming)));
            // Up to alpha dirty pages that follow one another on disk are one disk write.
            for _ in 0..self.group_pages {
                self.clean_frame(frame, out);
                let page = self.frames.page(frame);
                let next = self.successors.as_ref().and_then(|successors| successors.after(page));
                match next.and_then(|next| self.frames.find(next)) {
                    Some(next) if self.order.side(next) == Some(DIRTY_FRAMES) => frame = next,
                    _ => break,
                }
            }
        }
    }
}

impl Policy for LazyCleaning {
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
        while let Some(frame) = self.order.first(DIRTY_FRAMES) {
            self.clean_frame(frame, out);
        }
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        let surplus = survivors.len().saturating_sub(self.flash_pages as usize);
        for (index, survivor) in survivors.iter().enumerate() {
            let is_lazy = self.design == Design::LazyCleaning && index >= surplus;
            // CW and DW know no dirty frames: a dirty survivor of another policy goes to disk, or a
            // victim would lose it.
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
        self.frames.prefetch(page);
    }

    #[inline]
    fn prefetch_next(&self, page: PageId) {
        let is_in_memory = self.memory.prefetch_state(page);
        self.geometry.prefetch(if is_in_memory { PageId(0) } else { page });
        self.order.prefetch(self.frames.find_or_last(page));
    }

    fn assert_invariants(&self) {
        self.memory.assert_invariants();
        self.gate.assert_invariants();
        self.frames.assert_invariants();
        self.order.assert_invariants();
        assert!(self.memory.len() <= self.memory_pages, "pages in memory fit it");
        assert!(self.frames.len() <= self.flash_pages, "frames fit flash");
        assert!(self.dirty_frames() <= self.dirty_pages_max, "dirty frames are bounded");
        let mut held = 0;
        for frame in (0..self.frames.count()).filter(|&frame| self.order.side(frame).is_some()) {
            held += 1;
            let page = self.frames.page(frame);
            assert_eq!(self.frames.find(page), Some(frame), "a frame that was accessed has a page");
            let state = self.memory.state(page);
            assert_eq!(state & DIRTY, 0, "a frame holds the newest version");
        }
        assert_eq!(held, self.frames.len(), "a frame with a page was accessed");
    }

    fn memory_bytes(&self) -> usize {
        self.memory.memory_bytes()
            + self.frames.memory_bytes()
            + self.order.memory_bytes()
            + self.successors.as_ref().map_or(0, Successors::memory_bytes)
            + self.gate.memory_bytes()
    }
}
