//! FaCE: flash as a FIFO of page versions, so that it is only ever written in sequence.
//!
//! A page that leaves memory is appended to the FIFO unless flash still holds it unchanged. A newer
//! version leaves the older one behind as a hole that is reclaimed when it reaches the front. With
//! group replacement, pages leave the front in batches; with group second chance, those of a batch
//! that were read on flash since they were appended are appended again.
//!
//! * Source: Kang, Lee, Moon, *Flash-Based Extended Cache for Higher Throughput and Faster
//!   Recovery*, PVLDB 5(11), 2012: multi-version FIFO, GR and GSC.
//! * State: 8 bytes per page that exists, 20 bytes per page in memory, 8 bytes per flash slot; where
//!   memory is saved, none, 13 and 13.
//! * Cost: amortised O(1) per access.
//! * Deviations: (1) a second chance costs a flash write and no flash read: the batch is read in
//!   one sequential transfer, which the published counts leave out. (2) A batch of which every page
//!   would survive loses its front page, or nothing would be freed. (3) A version superseded by the
//!   page being appended becomes a hole before the batch leaves, so it is never destaged; one
//!   superseded in memory only still is. (4) Topping up a batch from the old end of memory is
//!   optional (`pull`): with it, memory is no longer an LRU of its own. As many pages leave memory as
//!   slots are free, those too that flash holds unchanged and that take no slot, so that one batch
//!   never empties memory. (5) The paper's batch is a
//!   flash block of 64 to 128 pages; the default suits small caches.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::action::Sink;
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::for_each;
use crate::queue::{Recency, Ring};
use crate::{
    Access, Actions, BoxedPolicy, Counts, Gate, Op, PageId, Policy, Setup, Survivor, Tier,
    WriteMiss,
};

const CACHE_CLEAN: Parameter = Parameter::switch("cache_clean", true)
    .summary("append clean pages too, not only dirty ones")
    .source("the paper; its MySQL port caches dirty pages only");

/// The parameters of plain FaCE.
pub const PARAMETERS: &[Parameter] = &[CACHE_CLEAN];

/// The parameters of FaCE with group replacement.
pub const GROUP_PARAMETERS: &[Parameter] = &[
    Parameter::integer("group_pages", 1..=1 << 20, 16)
        .summary("pages that leave the front of the FIFO together")
        .source("small caches; the paper uses a flash block, 64 to 128 pages"),
    CACHE_CLEAN,
    Parameter::switch("pull", false)
        .summary("fill the slots that a batch leaves with pages from the old end of memory")
        .source("the paper's group replacement; off, as memory is then a plain LRU"),
];

/// State bit of a page in memory: it is there.
const RESIDENT: u8 = 1;
/// State bit of a page in memory: newer than the disk's copy.
const DIRTY: u8 = 1 << 1;
/// State bit of a page in memory: changed since it was read.
const CHANGED: u8 = 1 << 2;

/// Flag of a slot: its page was read there since it was appended.
const REFERENCED: u8 = 1;
/// Flag of a slot: newer than the disk's copy. It is the bit that says so in memory, so that what moves
/// keeps it without a branch.
const FLASH_DIRTY: u8 = DIRTY;

/// The only class of the memory's queue: every page of it.
const ANY: usize = 0;

/// The flash-based extended cache.
#[derive(Debug)]
pub struct Face {
    memory: Recency<1>,
    memory_pages: u32,
    flash_pages: u32,
    /// The versions on flash, each with its flags.
    fifo: Ring<u8>,
    /// Pages that return from the batch that is leaving the front, in order, with their flags.
    batch: Vec<(PageId, u8)>,
    group_pages: usize,
    has_second_chance: bool,
    cache_clean: bool,
    pull: bool,
    write_miss: WriteMiss,
    gate: Gate,
}

/// The row of `face` in the registry.
pub const FACE: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("face"),
    summary: "flash as a multi-version FIFO, so that flash writes are sequential",
    source: "Kang, Lee, Moon: Flash-Based Extended Cache (FaCE), PVLDB 5(11), 2012",
    module: module_path!(),
    capabilities: Capabilities { takes_admission: true, ..Capabilities::of(Depth::RamFlash) },
    parameters: PARAMETERS,
    build: Build::Function(build_fifo),
};

/// The row of `face-gr` in the registry.
pub const FACE_GR: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("face-gr"),
    summary: "FaCE with group replacement: pages leave the FIFO in batches",
    source: "Kang, Lee, Moon: Flash-Based Extended Cache (FaCE), PVLDB 5(11), 2012",
    module: module_path!(),
    capabilities: Capabilities { takes_admission: true, ..Capabilities::of(Depth::RamFlash) },
    parameters: GROUP_PARAMETERS,
    build: Build::Function(build_group),
};

/// The row of `face-gsc` in the registry.
pub const FACE_GSC: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("face-gsc"),
    summary: "FaCE with group second chance: referenced pages of a batch are enqueued again",
    source: "Kang, Lee, Moon: Flash-Based Extended Cache (FaCE), PVLDB 5(11), 2012",
    module: module_path!(),
    capabilities: Capabilities { takes_admission: true, ..Capabilities::of(Depth::RamFlash) },
    parameters: GROUP_PARAMETERS,
    build: Build::Function(build_second_chance),
};

/// Builds plain FaCE (multi-version FIFO) for the registry.
fn build_fifo(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(Face::new(setup, 1, values.switch("cache_clean")))
}

/// Builds FaCE with group replacement for the registry.
fn build_group(setup: &Setup, values: &Values) -> BoxedPolicy {
    let group_pages = values.integer_u32("group_pages") as usize;
    let plain = Face::new(setup, group_pages, values.switch("cache_clean"));
    Box::new(Face { pull: values.switch("pull"), ..plain })
}

/// Builds FaCE with group second chance for the registry.
fn build_second_chance(setup: &Setup, values: &Values) -> BoxedPolicy {
    let group_pages = values.integer_u32("group_pages") as usize;
    let plain = Face::new(setup, group_pages, values.switch("cache_clean"));
    Box::new(Face { pull: values.switch("pull"), has_second_chance: true, ..plain })
}

impl Face {
    fn new(setup: &Setup, group_pages: usize, cache_clean: bool) -> Self {
        let ids = setup.ids();
        let [memory_pages, flash_pages] = [setup.capacity_pages[0], setup.capacity_pages[1]];
        Self {
            memory: Recency::new(ids, memory_pages.saturating_add(1), [u8::MAX]),
            memory_pages,
            flash_pages,
            fifo: Ring::new(ids, flash_pages.min(ids.pages)),
            batch: Vec::with_capacity(group_pages.min(flash_pages as usize)),
            group_pages,
            has_second_chance: false,
            cache_clean,
            pull: false,
            write_miss: setup.write_miss,
            gate: setup.admission.gate(ids.pages),
        }
    }

    /// Process one page reference.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "replays spend their time here")]
    fn step(&mut self, Access { page, op, .. }: Access, out: &mut impl Sink) {
        let changed = if op == Op::Write { DIRTY | CHANGED } else { 0 };
        let Self { memory, fifo, write_miss, .. } = self;
        let former = memory.touch_with(page, |state, _| {
            if state != 0 {
                out.serve(page, op, Tier::RAM, Tier::RAM);
                return state | changed;
            }
            let (found, dirty) = match fifo.find(page) {
                Some(slot) => {
                    let flags = fifo.value_mut(slot);
                    // Only a hit on flash sets the bit: references in memory say nothing about what
                    // flash serves.
                    *flags |= REFERENCED;
                    // Memory holds the same version now, so both are marked; whichever reaches the disk
                    // first clears the other.
                    (Tier::FLASH, *flags & FLASH_DIRTY)
                }
                None => (Tier::DISK, 0),
            };
            let is_fetched = write_miss.fetches(op);
            out.copy_if(found == Tier::FLASH || is_fetched, page, found, Tier::RAM);
            out.serve(page, op, found, Tier::RAM);
            RESIDENT | dirty | changed
        });
        if former != 0 {
            return;
        }
        if self.memory.len() > self.memory_pages && self.evict_from_memory(out) && self.pull {
            // Deviation (4): memory's oldest pages fill the slots that the batch left, so that
            // flash is written by the batch too.
            let free = self.flash_pages as usize - self.fifo.slots();
            for _ in 0..free.min(self.memory.len() as usize - 1) {
                if self.fifo.slots() < self.flash_pages as usize {
                    self.evict_from_memory(out);
                }
            }
        }
    }

    /// Evicts the page of memory referenced longest ago; returns `true` if a batch left flash for
    /// it.
    fn evict_from_memory(&mut self, out: &mut impl Sink) -> bool {
        let (position, state) = self.memory.oldest(ANY).expect("the memory holds a page");
        let page = self.memory.page(position);
        self.memory.look_ahead(ANY, |coming| self.fifo.prefetch(coming));
        let is_on_flash = self.fifo.find(page).is_some();
        let mut has_room_been_made = false;
        if is_on_flash && state & CHANGED == 0 {
            // Flash holds the page as it is.
        } else if self.flash_pages > 0
            && (self.cache_clean || state & DIRTY != 0)
            && (is_on_flash || self.gate.admits(page))
        {
            // Deviation (3): the older version keeps its slot as a hole until it reaches the front.
            // It is invalid before the batch leaves, so it is never destaged.
            if is_on_flash {
                self.invalidate(page, out);
            }
            if self.fifo.slots() == self.flash_pages as usize {
                self.dequeue_batch(out);
                has_room_been_made = true;
            }
            out.copy(page, Tier::RAM, Tier::FLASH);
            // A new entry starts without the reference bit: GSC counts only what flash served since
            // the page was appended.
            self.fifo.push(page, state & DIRTY);
        // Not admitted and dirty: the disk is the only place left for the newest version.
        } else if state & DIRTY != 0 {
            out.copy(page, Tier::RAM, Tier::DISK);
        } else {
            self.invalidate(page, out);
        }
        out.drop_copy(page, Tier::RAM);
        // A batch may have cleaned pages of memory in place, but it moved none.
        self.memory.set_state(position, 0);
        has_room_been_made
    }

    /// Makes a hole of the version on flash, if there is one.
    fn invalidate(&mut self, page: PageId, out: &mut impl Sink) {
        if self.fifo.remove(page) {
            out.drop_copy(page, Tier::FLASH);
        }
    }

    /// Takes a batch from the front; what was referenced comes back at the rear.
    fn dequeue_batch(&mut self, out: &mut impl Sink) {
        let group_pages = self.group_pages.min(self.fifo.slots());
        let mut batch = core::mem::take(&mut self.batch);
        for _ in 0..group_pages {
            if let Some(coming) = self.fifo.coming() {
                self.fifo.prefetch(coming);
                self.memory.prefetch(coming);
            }
            // A hole counts as one of the batch: its slot is free now, and its version is
            // superseded.
            let Some((page, flags)) = self.fifo.pop() else { continue };
            // Group second chance: a page that was hit on flash returns to the rear with its bit
            // cleared. That is a flash write.
            if self.has_second_chance && flags & REFERENCED != 0 {
                batch.push((page, flags & FLASH_DIRTY));
            } else {
                self.destage(page, flags, out);
            }
        }
        let is_nothing_freed = batch.len() == group_pages;
        // Deviation (2): if the whole batch were to return, no slot would be free: its front page
        // leaves anyway.
        if is_nothing_freed {
            let (page, flags) = batch[0];
            self.destage(page, flags, out);
        }
        for &(page, flags) in &batch[usize::from(is_nothing_freed)..] {
            // Deviation (1): charged as one flash write. The read is part of the batch's one
            // sequential transfer.
            out.copy(page, Tier::FLASH, Tier::FLASH);
            self.fifo.push(page, flags);
        }
        batch.clear();
        self.batch = batch;
    }

    /// Removes a page that has left the FIFO from flash, to disk if it is dirty.
    fn destage(&mut self, page: PageId, flags: u8, out: &mut impl Sink) {
        let is_dirty = flags & FLASH_DIRTY != 0;
        out.copy_if(is_dirty, page, Tier::FLASH, Tier::DISK);
        // Few pages at the front are in memory: a processor guesses that, but not which are dirty.
        if let Some((position, state)) = self.memory.find(page)
            && is_dirty
            && state & CHANGED == 0
        {
            // Memory holds the version that the disk just got, so its eviction owes no second
            // write. A changed page stays dirty: the disk got an older version.
            self.memory.set_state(position, state & !DIRTY);
        }
        out.drop_copy(page, Tier::FLASH);
    }
}

impl Policy for Face {
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
        let fifo = &mut self.fifo;
        self.memory.update_states(|page, state| {
            if state & DIRTY != 0 {
                out.copy(page, Tier::RAM, Tier::DISK);
                if let Some(slot) = fifo.find(page) {
                    *fifo.value_mut(slot) &= !FLASH_DIRTY;
                }
            }
            state & !DIRTY
        });
        for (page, flags) in fifo.iter_mut() {
            if *flags & FLASH_DIRTY != 0 {
                out.copy(page, Tier::FLASH, Tier::DISK);
                *flags &= !FLASH_DIRTY;
            }
        }
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        let surplus = survivors.len().saturating_sub(self.flash_pages as usize);
        for (index, survivor) in survivors.iter().enumerate() {
            let dirty = if survivor.is_dirty { FLASH_DIRTY } else { 0 };
            // The survivors come oldest first, as the FIFO would have let them go.
            if index < surplus {
                self.destage(survivor.page, dirty, out);
            } else {
                self.fifo.push(survivor.page, dirty);
            }
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.memory.prefetch(page);
    }

    #[inline]
    fn prefetch_next(&self, page: PageId) {
        let is_in_memory = self.memory.prefetch_state(page);
        // Page 0 stands for a page that need not be fetched: the processor could not guess a branch.
        self.fifo.prefetch(if is_in_memory { PageId(0) } else { page });
    }

    fn assert_invariants(&self) {
        self.memory.assert_invariants();
        self.gate.assert_invariants();
        assert!(self.memory.len() <= self.memory_pages, "pages in memory fit it");
        assert!(self.fifo.slots() <= self.flash_pages as usize, "versions on flash fit it");
        self.fifo.assert_invariants();
    }

    fn memory_bytes(&self) -> usize {
        self.memory.memory_bytes() + self.fifo.memory_bytes() + self.gate.memory_bytes()
    }
}
