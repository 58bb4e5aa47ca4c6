//! A set of positions of which the greatest is wanted.
//!
//! A bit per position; above them a bit per word of 64, whether any of its bits is set, and so on up
//! to a single word.
//!
//! * State: about 1/8 byte per position that exists.
//! * Cost: each operation touches one word per level: four levels for 16 million positions.

use alloc::vec;
use alloc::vec::Vec;

use crate::prefetch::prefetch;

/// Positions from 0 to below a limit.
#[derive(Clone, Debug)]
pub struct Positions {
    /// The bits, the positions' own first.
    levels: Vec<Vec<u64>>,
}

impl Positions {
    /// Create an empty set of positions below `limit`.
    pub fn new(limit: usize) -> Self {
        let mut levels = vec![vec![0; limit.div_ceil(64).max(1)]];
        while levels[levels.len() - 1].len() > 1 {
            levels.push(vec![0; levels[levels.len() - 1].len().div_ceil(64)]);
        }
        Self { levels }
    }

    /// Adds a position.
    #[inline]
    pub fn insert(&mut self, mut position: usize) {
        for level in &mut self.levels {
            let word = &mut level[position / 64];
            let was_empty = *word == 0;
            *word |= 1 << (position % 64);
            if !was_empty {
                break;
            }
            position /= 64;
        }
    }

    /// Takes a position out.
    #[inline]
    pub fn remove(&mut self, mut position: usize) {
        for level in &mut self.levels {
            let word = &mut level[position / 64];
            *word &= !(1 << (position % 64));
            if *word != 0 {
                break;
            }
            position /= 64;
        }
    }

    /// Return `true` if a position is in the set.
    #[inline]
    pub fn contains(&self, position: usize) -> bool {
        self.levels[0][position / 64] >> (position % 64) & 1 != 0
    }

    /// Prefetches what the insertion of a position changes first.
    #[inline]
    pub fn prefetch(&self, position: usize) {
        prefetch(&self.levels[0], position / 64);
    }

    /// Return the greatest position.
    #[inline]
    pub fn greatest(&self) -> Option<usize> {
        let mut position = 0;
        for level in self.levels.iter().rev() {
            position = position * 64 + level[position].checked_ilog2()? as usize;
        }
        Some(position)
    }

    /// Return the size of the heap memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.levels.iter().map(|level| size_of_val(&**level)).sum()
    }

    /// Checks every invariant.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        for levels in self.levels.windows(2) {
            for (index, &word) in levels[0].iter().enumerate() {
                let is_noted = levels[1][index / 64] >> (index % 64) & 1 != 0;
                assert_eq!(is_noted, word != 0, "a level notes which words below are not empty");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn positions_are_a_set(
            limit in prop_oneof![1_usize..70, 4000_usize..5000, Just(64 * 64 * 64 + 1)],
            steps in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..200),
        ) {
            let mut positions = Positions::new(limit);
            let mut model = BTreeSet::new();
            for (index, is_inserted) in steps {
                let position = index.index(limit);
                if is_inserted {
                    positions.insert(position);
                    model.insert(position);
                } else {
                    let position = model.range(position..).next().copied().unwrap_or(position);
                    positions.remove(position);
                    model.remove(&position);
                }
                prop_assert_eq!(positions.greatest(), model.last().copied());
                prop_assert_eq!(positions.contains(position), model.contains(&position));
            }
            positions.assert_invariants();
        }
    }
}
