//! The memory of several bloom filters: side by side by position, or one filter after the other.
//!
//! Both hold the same bits, so that an identifier decides alike with either.

use core::fmt::Debug;

use alloc::boxed::Box;
use alloc::vec;

use super::hash::PageHash;
use super::lanes::{Lanes, Place};

/// Bloom filters that share their hash functions. Sets of filters have a bit per filter.
pub trait Filters: Clone + Debug + Send {
    /// `true` if the weight of a set of filters comes from a table, `false` if the weights of its
    /// filters are added up one by one.
    const HAS_WEIGHT_TABLE: bool;

    /// Location where the filters keep one position.
    type Spot: Copy + Debug;

    /// Create `filters` clear filters, at most 64, of at least `filter_bits` bits each.
    fn new(filter_bits: u32, filters: u32) -> Self;

    /// Return the position that the `index`-th value of a hash selects.
    fn spot(&self, hash: PageHash, index: u32) -> Self::Spot;

    /// Return the filters that have this position set; bits above the last filter may be anything.
    fn seen(&self, spot: Self::Spot) -> u64;

    /// Sets a position in one filter, given as the set of it alone; the empty set changes nothing.
    fn set(&mut self, spot: Self::Spot, filter: u64);

    /// Clears one filter.
    fn erase(&mut self, filter: u32);

    /// Clears every filter.
    fn clear(&mut self);

    /// Return the size in bits, as stored.
    fn memory_bits(&self) -> u64;

    /// Checks that no bit is set which belongs to no filter.
    ///
    /// # Panics
    /// If one is.
    fn assert_invariants(&self);
}

/// The bits of all filters at one position lie side by side: one load looks at all filters, and a
/// reset clears one bit of every position.
#[derive(Clone, Debug)]
pub struct Packed {
    positions: Lanes,
    filters: u32,
}

/// Each filter is an array of its own, as the paper has it: every filter is looked at, and a reset
/// clears one array.
#[derive(Clone, Debug)]
pub struct Separate {
    filters: Box<[Box<[u64]>]>,
    /// Positions of a filter.
    positions: u32,
}

impl Filters for Packed {
    const HAS_WEIGHT_TABLE: bool = true;

    type Spot = Place;

    fn new(filter_bits: u32, filters: u32) -> Self {
        Self { positions: Lanes::new(filter_bits, filters), filters }
    }

    #[inline]
    fn spot(&self, hash: PageHash, index: u32) -> Place {
        self.positions.place(hash, index)
    }

    #[inline]
    fn seen(&self, spot: Place) -> u64 {
        self.positions.get_with_neighbours(spot)
    }

    #[inline]
    fn set(&mut self, spot: Place, filter: u64) {
        self.positions.set(spot, filter);
    }

    fn erase(&mut self, filter: u32) {
        let all = u64::MAX >> (u64::BITS - self.filters);
        self.positions.keep(all & !(1 << filter));
    }

    fn clear(&mut self) {
        self.positions.clear();
    }

    fn memory_bits(&self) -> u64 {
        self.positions.memory_bits()
    }

    fn assert_invariants(&self) {
        let all = u64::MAX >> (u64::BITS - self.filters);
        assert!(self.positions.iter().all(|lane| lane <= all), "bits belong to filters");
    }
}

impl Filters for Separate {
    const HAS_WEIGHT_TABLE: bool = false;

    /// The word and the bit.
    type Spot = (usize, u32);

    fn new(filter_bits: u32, filters: u32) -> Self {
        // As many positions as packed filters have, which fill whole words.
        let per_word = u64::BITS / filters;
        let positions = filter_bits.div_ceil(per_word) * per_word;
        let words = vec![0; positions.div_ceil(u64::BITS) as usize].into_boxed_slice();
        Self { filters: vec![words; filters as usize].into_boxed_slice(), positions }
    }

    #[inline]
    fn spot(&self, hash: PageHash, index: u32) -> (usize, u32) {
        let position = (u64::from(hash.value(index)) * u64::from(self.positions)) >> 32;
        ((position / 64) as usize, (position % 64) as u32)
    }

    #[inline]
    fn seen(&self, (word, bit): (usize, u32)) -> u64 {
        let filters = self.filters.iter().enumerate();
        filters.fold(0, |seen, (filter, words)| seen | (words[word] >> bit & 1) << filter)
    }

    #[inline]
    fn set(&mut self, (word, bit): (usize, u32), filter: u64) {
        if let Some(words) = self.filters.get_mut(filter.trailing_zeros() as usize) {
            words[word] |= 1 << bit;
        }
    }

    fn erase(&mut self, filter: u32) {
        self.filters[filter as usize].fill(0);
    }

    fn clear(&mut self) {
        self.filters.iter_mut().for_each(|words| words.fill(0));
    }

    fn memory_bits(&self) -> u64 {
        self.filters.iter().map(|words| words.len() as u64 * u64::from(u64::BITS)).sum()
    }

    fn assert_invariants(&self) {
        let rest = self.positions % u64::BITS;
        let last = self.filters.iter().filter_map(|words| words.last());
        assert!(
            rest == 0 || last.into_iter().all(|word| word >> rest == 0),
            "bits have a position"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageId;

    /// Both layouts have the same positions, also where these do not fill the words of a filter.
    #[test]
    fn layouts_hold_the_same_bits() {
        for (filter_bits, filters) in [(2048, 4), (100, 3), (1, 1), (65, 16), (700, 7)] {
            let mut packed = Packed::new(filter_bits, filters);
            let mut separate = Separate::new(filter_bits, filters);
            let all = u64::MAX >> (u64::BITS - filters);
            for page in 0..600 {
                let hash = PageHash::of(PageId(page));
                let (one, other) = (packed.spot(hash, page % 3), separate.spot(hash, page % 3));
                assert_eq!(packed.seen(one) & all, separate.seen(other), "{filters} filters");
                packed.set(one, 1 << (page % filters));
                separate.set(other, 1 << (page % filters));
                if page % 41 == 0 {
                    packed.erase(page % filters);
                    separate.erase(page % filters);
                }
            }
            packed.assert_invariants();
            separate.assert_invariants();
        }
        assert_eq!(Packed::new(2048, 4).memory_bits(), Separate::new(2048, 4).memory_bits());
    }
}
