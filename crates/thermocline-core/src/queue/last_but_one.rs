//! Slots in the order of their last use but one, on two sides.
//!
//! Slots that were used once come before all others, in the order of that use. A slot may change its
//! side and keeps its place.
//!
//! Both of the last two uses are entries of one log, so that no key is kept and nothing is sorted. A
//! slot has two names in the log, which take turns: a use makes the name of the last but one the
//! newest, and the other name, which stood for the last use, stands for the last but one.
//!
//! * State: 48 bytes per slot; sparse, 24.
//! * Cost: amortised O(1) per change.

use super::Recency;
use super::recency::Position;
use crate::{Indexing, PageId};

/// One of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one side.
    Front,
    /// The other side.
    Back,
}

/// State of the newest name of a slot that was used once, by its side.
const ONCE: [u8; 2] = [1, 1 << 1];
/// State of the name that stands for the last use but one, by the side of its slot.
const OFTEN: [u8; 2] = [1 << 2, 1 << 3];
/// State of the newest name of a slot that was used more than once.
const NEWEST: u8 = 1 << 4;
/// The states of a side.
const ON_SIDE: [u8; 2] = [ONCE[0] | OFTEN[0], ONCE[1] | OFTEN[1]];

/// Classes of the log: those of a side that were used once, then the others.
const CLASSES: [u8; 4] = [ONCE[0], ONCE[1], OFTEN[0], OFTEN[1]];

/// Slots by their last use but one.
#[derive(Clone, Debug)]
pub struct LastButOne {
    log: Recency<4>,
    slots: u32,
    len: [u32; 2],
}

/// Names of a slot in the log.
#[derive(Clone, Copy, Debug)]
struct Names {
    /// The place that decides the order, and its state.
    place: Position,
    state: u8,
    /// The place of the last use, if it is another one.
    newest: Option<Position>,
    /// The name that the next use takes.
    next: PageId,
}

impl LastButOne {
    /// Create an empty order of slots below `slots`.
    ///
    /// # Panics
    /// If they are so many that half of them cannot have two names.
    pub fn new(slots: u32, indexing: Indexing) -> Self {
        let names = slots.checked_mul(2).expect("each slot has two names");
        Self { log: Recency::of_slots(names, indexing, CLASSES), slots, len: [0; 2] }
    }

    /// Return the side that a slot is on, if it was used.
    #[inline]
    pub fn side(&self, slot: u32) -> Option<Side> {
        self.names(slot).map(|names| side_of(names.state))
    }

    /// Notes the first use of a slot.
    #[inline]
    pub fn insert(&mut self, side: Side, slot: u32) {
        debug_assert_eq!(self.side(slot), None, "it is the slot's first use");
        self.log.touch(PageId(2 * slot), ONCE[side as usize]);
        self.len[side as usize] += 1;
    }

    /// Notes another use of a slot, which stays on its side.
    ///
    /// # Panics
    /// If there was none before.
    #[inline]
    pub fn renew(&mut self, slot: u32) {
        let names = self.names(slot).expect("the slot was used before");
        let last = names.newest.unwrap_or(names.place);
        self.log.set_state(last, OFTEN[side_of(names.state) as usize]);
        // The name of the last use keeps its place and now stands for the last use but one.
        self.log.touch(names.next, NEWEST);
    }

    /// Puts a slot that was used on a side.
    ///
    /// # Panics
    /// If it was not used.
    pub fn put(&mut self, side: Side, slot: u32) {
        let Names { place, state, .. } = self.names(slot).expect("the slot was used before");
        let of = if state & (ONCE[0] | ONCE[1]) == 0 { OFTEN } else { ONCE };
        self.log.set_state(place, of[side as usize]);
        self.len[side_of(state) as usize] -= 1;
        self.len[side as usize] += 1;
    }

    /// Forgets the uses of a slot, if there are any.
    #[inline]
    pub fn remove(&mut self, slot: u32) {
        if let Some(Names { place, state, newest, .. }) = self.names(slot) {
            self.log.set_state(place, 0);
            if let Some(newest) = newest {
                self.log.set_state(newest, 0);
            }
            self.len[side_of(state) as usize] -= 1;
        }
    }

    /// Return the first slot of a side.
    #[inline]
    pub fn first(&mut self, side: Side) -> Option<u32> {
        if self.len[side as usize] == 0 {
            return None;
        }
        // A slot used once has no last use but one: it counts as infinitely long ago, as in LRU-2.
        let once = self.log.oldest(side as usize);
        let first = once.or_else(|| self.log.oldest(ONCE.len() + side as usize));
        first.map(|(place, _)| self.log.page(place).0 / 2)
    }

    /// Forgets the uses of the first slot of a side, and returns the slot.
    #[inline]
    pub fn pop_first(&mut self, side: Side) -> Option<u32> {
        if self.len[side as usize] > 0
            && let Some((place, _)) = self.log.oldest(side as usize)
        {
            // A slot that was used once has one name.
            let slot = self.log.page(place).0 / 2;
            self.log.set_state(place, 0);
            self.len[side as usize] -= 1;
            return Some(slot);
        }
        let slot = self.first(side)?;
        self.remove(slot);
        Some(slot)
    }

    /// Pass `ask` slots that will soon be the first ones of a side, among others.
    #[inline]
    pub fn look_ahead(&mut self, side: Side, mut ask: impl FnMut(u32)) {
        self.log.look_ahead(side as usize, |name| ask(name.0 / 2));
    }

    /// Prefetches what a use of a slot will read first.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        self.log.prefetch(PageId(2 * slot));
    }

    /// Return the number of slots that are on a side.
    #[inline]
    pub const fn len(&self, side: Side) -> u32 {
        self.len[side as usize]
    }

    /// Return the size of the heap memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.log.memory_bytes()
    }

    /// Checks every invariant.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        self.log.assert_invariants();
        let mut len = [0; 2];
        for slot in 0..self.slots {
            if let Some(Names { place, state, newest, .. }) = self.names(slot) {
                len[side_of(state) as usize] += 1;
                let is_often = state & (OFTEN[0] | OFTEN[1]) != 0;
                assert_eq!(newest.is_some(), is_often, "two names are two uses");
                assert!(newest.is_none_or(|newest| newest > place), "the last use is the newest");
            }
        }
        assert_eq!(len, self.len, "each slot is counted once");
    }

    #[inline]
    fn names(&self, slot: u32) -> Option<Names> {
        let [even, odd] = [2 * slot, 2 * slot + 1].map(PageId);
        let [of_even, of_odd] = [even, odd].map(|name| self.log.find_or_zero(name));
        let is_on_side = |state: u8| state & (ON_SIDE[0] | ON_SIDE[1]) != 0;
        let is_even = is_on_side(of_even.1);
        let ((place, state), other) = if is_even { (of_even, of_odd) } else { (of_odd, of_even) };
        let newest = (other.1 != 0).then_some(other.0);
        // The name of the last use stays; if there is one use, the other name is free.
        let takes_odd = is_even != newest.is_some();
        let next = if takes_odd { odd } else { even };
        is_on_side(state).then_some(Names { place, state, newest, next })
    }
}

/// Return the side of a slot whose order this state decides.
#[inline]
const fn side_of(state: u8) -> Side {
    if state & ON_SIDE[0] != 0 { Side::Front } else { Side::Back }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const SLOTS: u32 = 16;

    proptest! {
        #[test]
        fn each_side_is_in_the_order_of_the_last_use_but_one(
            steps in prop::collection::vec((0..SLOTS, 0_u8..10), 0..900),
            indexing in prop_oneof![Just(Indexing::Dense), Just(Indexing::Sparse)],
        ) {
            let mut order = LastButOne::new(SLOTS, indexing);
            // Per slot its side, its last use but one, its last use.
            let mut model: BTreeMap<u32, (Side, usize, usize)> = BTreeMap::new();
            for (time, (slot, action)) in (1..).zip(steps) {
                let side = if action % 2 == 0 { Side::Front } else { Side::Back };
                match (model.get_mut(&slot), action) {
                    (_, 0) => {
                        order.remove(slot);
                        model.remove(&slot);
                    }
                    (_, 8 | 9) => {
                        let on_side = model.iter().filter(|(_, known)| known.0 == side);
                        let first = on_side.min_by_key(|(_, known)| (known.1, known.2));
                        let first = first.map(|(&slot, _)| slot);
                        prop_assert_eq!(order.pop_first(side), first);
                        first.and_then(|slot| model.remove(&slot));
                    }
                    (None, _) => {
                        order.insert(side, slot);
                        model.insert(slot, (side, 0, time));
                    }
                    (Some(known), 1 | 2) => {
                        order.put(side, slot);
                        known.0 = side;
                    }
                    (Some((_, before, last)), _) => {
                        order.renew(slot);
                        (*before, *last) = (*last, time);
                    }
                }
                order.assert_invariants();
                prop_assert_eq!(order.side(slot), model.get(&slot).map(|known| known.0));
                for side in [Side::Front, Side::Back] {
                    let on_side = model.iter().filter(|(_, known)| known.0 == side);
                    prop_assert_eq!(order.len(side) as usize, on_side.clone().count());
                    let first = on_side.min_by_key(|(_, known)| (known.1, known.2));
                    prop_assert_eq!(order.first(side), first.map(|(&slot, _)| slot));
                }
            }
        }
    }
}
