//! Contents of memory and flash, and their handover from one policy to another.
//!
//! * Source: this project; a restart hands over its survivors in the same way.
//! * State: 14 bytes per cached page, sparse.
//! * Cost: O(1) per action; a handover takes time in proportion to the cached pages.
//! * Deviations: none.

use alloc::vec::Vec;

use crate::queue::Recency;
use crate::{Access, Action, Actions, Ids, Op, PageId, Policy, Survivor, Tier};

/// State bit: in memory.
const MEMORY: u8 = 1;
/// State bit: on flash.
const FLASH: u8 = 1 << 1;
/// State bit: the copy in memory is not the newest.
const MEMORY_OLD: u8 = 1 << 2;
/// State bit: the copy on flash is not the newest.
const FLASH_OLD: u8 = 1 << 3;
/// State bit: the copy on disk is not the newest.
const DISK_OLD: u8 = 1 << 4;
/// State bit, during a handover: the new policy believes the page in memory.
const TOLD_MEMORY: u8 = 1 << 5;
/// State bit, during a handover: the new policy believes the page on flash.
const TOLD_FLASH: u8 = 1 << 6;

const CACHED: u8 = MEMORY | FLASH;
const TOLD: u8 = TOLD_MEMORY | TOLD_FLASH;
/// Pages that a policy may hold beyond its capacities in the midst of an access.
const MIDST_PAGES: u32 = 64;

/// The cached pages by last reference, each with what its copies are.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    queue: Recency<1>,
    memory_pages: u32,
    flash_pages: u32,
}

/// Return the bits of a tier: there is a copy (the disk always has one), and it is not the newest.
const fn bits(tier: Tier) -> (u8, u8) {
    match tier {
        Tier::RAM => (MEMORY, MEMORY_OLD),
        Tier::FLASH => (FLASH, FLASH_OLD),
        _ => (0, DISK_OLD),
    }
}

/// Return the fastest tier that has the newest copy.
const fn newest(state: u8) -> Tier {
    match state {
        _ if state & (MEMORY | MEMORY_OLD) == MEMORY => Tier::RAM,
        _ if state & (FLASH | FLASH_OLD) == FLASH => Tier::FLASH,
        _ => Tier::DISK,
    }
}

/// Return the state after an action on a page; zero if no cache has it any more.
fn after(state: u8, action: Action) -> u8 {
    let next = match action {
        Action::Serve { op: Op::Read, .. } => state,
        Action::Serve { op: Op::Write, tier, .. } => {
            let (here, old) = bits(tier);
            // A copy that is not there is not old either: the bits of copies are two places below.
            (state | here | (state & CACHED) << 2 | DISK_OLD) & !old
        }
        Action::Copy { source, target, .. } => {
            let ((_, source_old), (here, old)) = (bits(source), bits(target));
            let is_old = state & source_old != 0;
            (state | here) & !old | if is_old { old } else { 0 }
        }
        Action::Drop { tier, .. } => {
            let (here, old) = bits(tier);
            let rest = state & !(here | old);
            assert!(rest & CACHED != 0 || rest & DISK_OLD == 0, "the newest version is kept");
            rest
        }
    };
    if next & CACHED == 0 { 0 } else { next }
}

impl Contents {
    pub(super) fn new(ids: Ids, memory_pages: u32, flash_pages: u32) -> Self {
        let pages = memory_pages.saturating_add(flash_pages).saturating_add(MIDST_PAGES);
        Self { queue: Recency::new(ids, pages, [CACHED]), memory_pages, flash_pages }
    }

    /// Notes the actions of an access.
    #[inline]
    pub(super) fn access(&mut self, page: PageId, actions: &[Action]) {
        self.apply_all(actions);
        let state = self.queue.state(page);
        if state != 0 {
            self.queue.touch(page, state);
        }
    }

    /// Notes actions that no access caused.
    pub(super) fn apply_all(&mut self, actions: &[Action]) {
        for &action in actions {
            self.apply(action);
        }
    }

    /// Notes what flash holds after a restart.
    pub(super) fn restore(&mut self, survivors: &[Survivor]) {
        for survivor in survivors {
            let dirty = if survivor.is_dirty { DISK_OLD } else { 0 };
            self.queue.touch(survivor.page, FLASH | dirty);
        }
    }

    /// Hands all pages over to a policy that knows of none, as a driver does that lets another policy
    /// decide: what flash holds survives, the page used longest ago first, then memory is filled by
    /// accesses in the same order. The actual moves are appended to `out`: copies that the policy
    /// asks for and that are not there, and drops of what it does not want.
    pub(super) fn hand_over(&mut self, policy: &mut dyn Policy, out: &mut Actions) {
        for (old, tier) in [(MEMORY_OLD, Tier::RAM), (FLASH_OLD, Tier::FLASH)] {
            for page in self.pages_with(old, 0) {
                self.drop_copy(page, tier, out);
            }
        }
        let survivor = |page| {
            let state = self.queue.state(page);
            Survivor { page, is_dirty: state & DISK_OLD != 0 }
        };
        let survivors: Vec<_> = self.pages_with(FLASH, 0).into_iter().map(survivor).collect();
        for survivor in &survivors {
            self.update(survivor.page, |state| state | TOLD_FLASH);
        }
        let mut actions = Actions::new();
        policy.restore(&survivors, &mut actions);
        self.follow(actions.as_slice(), out);
        for page in self.pages_with(MEMORY, 0) {
            // The copy on flash is as new, and the policy knows whether the disk has it.
            let is_only_here = self.queue.state(page) & (FLASH | DISK_OLD) == DISK_OLD;
            let op = if is_only_here { Op::Write } else { Op::Read };
            actions.clear();
            policy.access(Access { page, op, client: 0 }, &mut actions);
            self.follow(actions.as_slice(), out);
        }
        let tiers = [(MEMORY, TOLD_MEMORY, Tier::RAM), (FLASH, TOLD_FLASH, Tier::FLASH)];
        for (here, told, tier) in tiers {
            for page in self.pages_with(here, told) {
                self.drop_copy(page, tier, out);
            }
        }
        self.queue.update_states(|_, state| state & !TOLD);
    }

    /// Asks the processor for the state of a page.
    #[inline]
    pub(super) fn prefetch(&self, page: PageId) {
        self.queue.prefetch(page);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.queue.memory_bytes()
    }

    /// Checks every invariant.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub(super) fn assert_invariants(&self) {
        self.queue.assert_invariants();
        let count = |here| self.queue.iter().filter(|entry| entry.2 & here != 0).count();
        assert!(count(MEMORY) <= self.memory_pages as usize, "pages in memory fit it");
        assert!(count(FLASH) <= self.flash_pages as usize, "pages on flash fit it");
        for (_, _, state) in self.queue.iter() {
            assert_ne!(state & CACHED, 0, "every page is cached");
            assert_eq!(state & TOLD, 0, "the policy in force knows all of them");
            let (_, old) = bits(newest(state));
            assert_eq!(state & old, 0, "some copy is the newest");
        }
    }

    fn apply(&mut self, action: Action) {
        let (Action::Serve { page, .. } | Action::Copy { page, .. } | Action::Drop { page, .. }) =
            action;
        self.update(page, |state| after(state, action));
    }

    fn update(&mut self, page: PageId, next: impl FnOnce(u8) -> u8) {
        match self.queue.find(page) {
            Some((position, state)) => self.queue.set_state(position, next(state)),
            None => match next(0) {
                0 => {}
                state => drop(self.queue.touch(page, state)),
            },
        }
    }

    /// Return the pages that have the first bit and lack the second one, the one used longest ago
    /// first.
    fn pages_with(&self, has: u8, lacks: u8) -> Vec<PageId> {
        let is_one = |state: u8| state & has != 0 && state & lacks == 0;
        self.queue.iter().filter(|entry| is_one(entry.2)).map(|(_, page, _)| page).collect()
    }

    /// Carry out the actions of the new policy while it learns of the pages, one at a time. A copy
    /// that is already where the policy wants it is not made again.
    fn follow(&mut self, actions: &[Action], out: &mut Actions) {
        for &action in actions {
            match action {
                Action::Serve { op: Op::Read, .. } => {}
                Action::Serve { page, op: Op::Write, tier, .. } => self.bring(page, tier, out),
                // A second chance: the page is written again where it is.
                Action::Copy { page, source, target } if source == target => {
                    out.copy(page, source, target);
                }
                Action::Copy { page, target, .. } => self.bring(page, target, out),
                Action::Drop { page, tier } => self.drop_copy(page, tier, out),
            }
        }
    }

    /// Ensures that a tier has the newest copy, as the policy believes it to have.
    fn bring(&mut self, page: PageId, tier: Tier, out: &mut Actions) {
        let state = self.queue.state(page);
        let (here, old) = bits(tier);
        if state & here != here || state & old != 0 {
            let source = newest(state);
            out.copy(page, source, tier);
            self.apply(Action::Copy { page, source, target: tier });
        }
        let told = match tier {
            Tier::RAM => TOLD_MEMORY,
            Tier::FLASH => TOLD_FLASH,
            _ => 0,
        };
        self.update(page, |state| if state == 0 { 0 } else { state | told });
    }

    fn drop_copy(&mut self, page: PageId, tier: Tier, out: &mut Actions) {
        let told = if tier == Tier::RAM { TOLD_MEMORY } else { TOLD_FLASH };
        out.drop_copy(page, tier);
        self.update(page, |state| state & !told);
        self.apply(Action::Drop { page, tier });
    }
}
