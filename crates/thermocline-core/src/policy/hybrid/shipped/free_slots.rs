//! Free slots of a device, taken in the order of their numbers.
//!
//! * Source: none.
//! * State: a bit per slot, and a bit per 64 slots, and so on.
//! * Cost: O(log) per change.
//! * Deviations: none.

use alloc::vec;
use alloc::vec::Vec;

const BITS: usize = 64;

/// A set of slots, in which the next one from a place on is found.
#[derive(Clone, Debug)]
pub(super) struct FreeSlots {
    /// A bit per slot, then a bit per word of the level below that has one.
    levels: Vec<Vec<u64>>,
    len: u32,
}

impl FreeSlots {
    /// Return all slots below `slots`.
    pub(super) fn all(slots: u32) -> Self {
        let mut levels = vec![];
        let mut bits = slots as usize;
        loop {
            let mut words = vec![u64::MAX; bits / BITS];
            if !bits.is_multiple_of(BITS) {
                words.push((1 << (bits % BITS)) - 1);
            }
            bits = words.len();
            levels.push(words);
            if bits <= 1 {
                return Self { levels, len: slots };
            }
        }
    }

    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes a slot out that is there.
    pub(super) fn remove(&mut self, slot: u32) {
        self.len -= 1;
        let mut bit = slot as usize;
        for words in &mut self.levels {
            let word = &mut words[bit / BITS];
            debug_assert!(*word >> (bit % BITS) & 1 == 1, "the slot is free");
            *word &= !(1 << (bit % BITS));
            if *word != 0 {
                return;
            }
            bit /= BITS;
        }
    }

    /// Puts a slot in that is not there.
    pub(super) fn insert(&mut self, slot: u32) {
        self.len += 1;
        let mut bit = slot as usize;
        for words in &mut self.levels {
            words[bit / BITS] |= 1 << (bit % BITS);
            bit /= BITS;
        }
    }

    /// Return the first slot from this one on; the first of all if there is none.
    pub(super) fn next(&self, from: u32) -> Option<u32> {
        self.first_from(from as usize).or_else(|| self.first_from(0))
    }

    fn first_from(&self, from: usize) -> Option<u32> {
        let (mut level, mut bit) = (0, from);
        // Up to where a word has a bit behind the place, then down to the first slot below it.
        loop {
            let word = self.levels.get(level)?.get(bit / BITS).copied().unwrap_or(0);
            let rest = word >> (bit % BITS);
            if rest != 0 {
                bit += rest.trailing_zeros() as usize;
                break;
            }
            (level, bit) = (level + 1, bit / BITS + 1);
        }
        for words in self.levels[..level].iter().rev() {
            bit = bit * BITS + words[bit].trailing_zeros() as usize;
        }
        u32::try_from(bit).ok()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.levels.iter().map(|words| words.capacity() * size_of::<u64>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_next_free_slot_is_found(
            slots in prop_oneof![1_u32..70, 4090_u32..4100, 9000_u32..9001],
            steps in prop::collection::vec((any::<u32>(), any::<bool>()), 0..300),
        ) {
            let mut free = FreeSlots::all(slots);
            let mut model: BTreeSet<u32> = (0..slots).collect();
            for (number, takes_next) in steps {
                let slot = number % slots;
                let next = model.range(slot..).next().or_else(|| model.first()).copied();
                prop_assert_eq!(free.next(slot), next);
                match next {
                    Some(next) if takes_next => {
                        free.remove(next);
                        model.remove(&next);
                    }
                    _ if model.insert(slot) => free.insert(slot),
                    _ => {
                        free.remove(slot);
                        model.remove(&slot);
                    }
                }
                prop_assert_eq!(free.len() as usize, model.len());
            }
            for slot in core::mem::take(&mut model) {
                free.remove(slot);
            }
            prop_assert!(free.is_empty() && free.next(0).is_none());
            prop_assert_eq!(FreeSlots::all(0).next(0), None);
        }
    }
}
