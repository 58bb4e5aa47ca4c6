//! Two-tier LRU, inclusive or exclusive: one order by last reference, cut twice.
//!
//! Memory holds the newest pages of the order. Exclusive: flash holds the next ones, a flash hit
//! moves up and frees its slot, every memory victim is written to flash. Inclusive: flash holds the
//! newest pages too, as many as it can, so that a page read from disk is written to both, and a
//! memory victim costs a flash write only if it was changed. Both are write-back.
//!
//! * Source: baselines. Inclusion schemes of Koltsidas and Viglas, *Designing a Flash-Aware
//!   Two-Level Cache*, ADBIS 2011.
//! * State: 4 bytes per page that exists (none where memory is saved), 20 bytes (14) per cached page.
//! * Cost: amortised O(1) per access.
//! * Deviations: (1) the published schemes leave the replacement open; here both tiers follow one
//!   order, so that memory hits are those of an LRU of memory's size, and all hits those of an LRU
//!   of flash's size (inclusive) or of both together (exclusive). (2) An inclusive flash smaller
//!   than memory cannot include it and holds memory's newest pages. (3) If an identifier decides
//!   which pages enter flash, an inclusive flash offers it every access to a page that flash does
//!   not hold, an exclusive one every page that leaves memory.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use crate::capabilities::{Capabilities, Depth};
use crate::config::Values;
use crate::entry::{Build, PolicyEntry};
use crate::queue::Recency;
use crate::{
    Access, Actions, BoxedPolicy, Gate, Op, PageId, Policy, Setup, Survivor, Tier, WriteMiss,
};

/// State bit: in memory.
const MEMORY: u8 = 1;
/// State bit: on flash.
const FLASH: u8 = 1 << 1;
/// State bit: the newest copy is newer than the disk's.
const DIRTY: u8 = 1 << 2;
/// State bit: the copy on flash is older than the one in memory.
const FLASH_STALE: u8 = 1 << 3;

/// Classes of the queue, as indices into its masks.
const MEMORY_PAGES: usize = 0;
const FLASH_PAGES: usize = 1;

/// Relation of flash to memory: flash also holds what memory holds, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inclusion {
    Inclusive,
    Exclusive,
}

/// Two-tier LRU.
#[derive(Debug)]
pub struct LruTwoTier {
    queue: Recency<2>,
    inclusion: Inclusion,
    memory_pages: u32,
    flash_pages: u32,
    held_memory_pages: u32,
    held_flash_pages: u32,
    write_miss: WriteMiss,
    gate: Gate,
}

/// The row of `lru-inclusive` in the registry.
pub const LRU_INCLUSIVE: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("lru-inclusive"),
    summary: "one LRU order: flash holds its newest pages, RAM the newest of those",
    source: "baseline; inclusive scheme of Koltsidas and Viglas, ADBIS 2011",
    module: module_path!(),
    capabilities: Capabilities { takes_admission: true, ..Capabilities::of(Depth::RamFlash) },
    parameters: &[],
    build: Build::Function(build_inclusive),
};

/// The row of `lru-exclusive` in the registry.
pub const LRU_EXCLUSIVE: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("lru-exclusive"),
    summary: "one LRU order: RAM holds its newest pages, flash the next ones",
    source: "baseline; exclusive scheme of Koltsidas and Viglas, ADBIS 2011",
    module: module_path!(),
    capabilities: Capabilities { takes_admission: true, ..Capabilities::of(Depth::RamFlash) },
    parameters: &[],
    build: Build::Function(build_exclusive),
};

/// Builds the inclusive policy for the registry.
fn build_inclusive(setup: &Setup, _values: &Values) -> BoxedPolicy {
    Box::new(LruTwoTier::new(setup, Inclusion::Inclusive))
}

/// Builds the exclusive policy for the registry.
fn build_exclusive(setup: &Setup, _values: &Values) -> BoxedPolicy {
    Box::new(LruTwoTier::new(setup, Inclusion::Exclusive))
}

impl LruTwoTier {
    fn new(setup: &Setup, inclusion: Inclusion) -> Self {
        let [memory_pages, flash_pages] = [setup.capacity_pages[0], setup.capacity_pages[1]];
        let capacity_pages = memory_pages.saturating_add(flash_pages).saturating_add(1);
        Self {
            queue: Recency::new(setup.ids(), capacity_pages, [MEMORY, FLASH]),
            inclusion,
            memory_pages,
            flash_pages,
            held_memory_pages: 0,
            held_flash_pages: 0,
            write_miss: setup.write_miss,
            gate: setup.admission.gate(setup.geometry.pages()),
        }
    }

    /// Brings the page to memory (and to flash, if that includes memory) and serves the access.
    fn refer(&mut self, Access { page, op, .. }: Access, out: &mut Actions) {
        let mut state = self.queue.state(page);
        let found = match state {
            _ if state & MEMORY != 0 => Tier::RAM,
            _ if state & FLASH != 0 => Tier::FLASH,
            _ => Tier::DISK,
        };
        let is_fetched = self.write_miss.fetches(op);
        let is_to_be_included = self.inclusion == Inclusion::Inclusive
            && self.flash_pages > 0
            && state & FLASH == 0
            && self.gate.admits(page);
        let mut include = |state: &mut u8, out: &mut Actions| {
            if is_to_be_included && *state & FLASH == 0 {
                out.copy(page, Tier::RAM, Tier::FLASH);
                *state |= FLASH;
                self.held_flash_pages += 1;
            }
        };
        if found != Tier::RAM {
            self.held_memory_pages += 1;
            if found == Tier::FLASH || is_fetched {
                out.copy(page, found, Tier::RAM);
            }
        }
        state |= MEMORY;
        if found == Tier::RAM || is_fetched {
            include(&mut state, out);
        }
        out.serve(page, op, found, Tier::RAM);
        if op == Op::Write {
            state |= DIRTY | if state & FLASH == 0 { 0 } else { FLASH_STALE };
        }
        include(&mut state, out);
        if self.inclusion == Inclusion::Exclusive && state & FLASH != 0 {
            out.drop_copy(page, Tier::FLASH);
            self.held_flash_pages -= 1;
            state &= !(FLASH | FLASH_STALE);
        }
        self.queue.touch(page, state);
    }

    fn evict_from_memory(&mut self, out: &mut Actions) {
        let oldest = self.queue.oldest(MEMORY_PAGES);
        let (position, mut state) = oldest.expect("an over-full memory has a page");
        let page = self.queue.page(position);
        let moves_to_flash = self.inclusion == Inclusion::Exclusive
            && self.flash_pages > 0
            && self.gate.admits(page);
        if moves_to_flash {
            if self.held_flash_pages == self.flash_pages {
                self.evict_from_flash(out);
            }
            out.copy(page, Tier::RAM, Tier::FLASH);
            state |= FLASH;
            self.held_flash_pages += 1;
        } else if state & FLASH_STALE != 0 {
            out.copy(page, Tier::RAM, Tier::FLASH);
        } else if state & (FLASH | DIRTY) == DIRTY {
            out.copy(page, Tier::RAM, Tier::DISK);
        }
        out.drop_copy(page, Tier::RAM);
        self.held_memory_pages -= 1;
        let next = if state & FLASH == 0 { 0 } else { state & !(MEMORY | FLASH_STALE) };
        self.queue.set_state(position, next);
    }

    fn evict_from_flash(&mut self, out: &mut Actions) {
        let (position, state) =
            self.queue.oldest(FLASH_PAGES).expect("an over-full flash has a page");
        let page = self.queue.page(position);
        if state & (MEMORY | DIRTY) == DIRTY {
            out.copy(page, Tier::FLASH, Tier::DISK);
        }
        out.drop_copy(page, Tier::FLASH);
        self.held_flash_pages -= 1;
        let next = if state & MEMORY == 0 { 0 } else { state & !(FLASH | FLASH_STALE) };
        self.queue.set_state(position, next);
    }
}

impl Policy for LruTwoTier {
    fn access(&mut self, access: Access, out: &mut Actions) {
        self.refer(access, out);
        if self.held_flash_pages > self.flash_pages {
            self.evict_from_flash(out);
        }
        if self.held_memory_pages > self.memory_pages {
            self.evict_from_memory(out);
        }
    }

    fn flush(&mut self, out: &mut Actions) {
        self.queue.update_states(|page, state| {
            if state & DIRTY != 0 {
                let newest = if state & MEMORY == 0 { Tier::FLASH } else { Tier::RAM };
                out.copy(page, newest, Tier::DISK);
            }
            state & !DIRTY
        });
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        for survivor in survivors {
            let dirty = if survivor.is_dirty { DIRTY } else { 0 };
            self.queue.touch(survivor.page, FLASH | dirty);
            self.held_flash_pages += 1;
            if self.held_flash_pages > self.flash_pages {
                self.evict_from_flash(out);
            }
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.queue.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.queue.assert_invariants();
        self.gate.assert_invariants();
        let count = |mask: u8| self.queue.iter().filter(|entry| entry.2 & mask == mask).count();
        assert_eq!(count(MEMORY), self.held_memory_pages as usize, "pages in memory are counted");
        assert_eq!(count(FLASH), self.held_flash_pages as usize, "pages on flash are counted");
        assert!(self.held_memory_pages <= self.memory_pages, "pages in memory fit it");
        assert!(self.held_flash_pages <= self.flash_pages, "pages on flash fit it");
        for (_, _, state) in self.queue.iter() {
            assert_ne!(state & (MEMORY | FLASH), 0, "every page of the order is cached");
            assert!(
                state & FLASH_STALE == 0 || state & MEMORY != 0,
                "a stale copy has a newer one"
            );
        }
        let both = count(MEMORY | FLASH);
        match self.inclusion {
            Inclusion::Exclusive => assert_eq!(both, 0, "no page is in both tiers"),
            Inclusion::Inclusive if !self.gate.is_open() => {}
            Inclusion::Inclusive => {
                let least = count(MEMORY).min(self.flash_pages as usize);
                assert_eq!(both, least, "flash includes memory as far as it can");
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        self.queue.memory_bytes() + self.gate.memory_bytes()
    }
}
