//! A table of small numbers of equal width, packed into words: counters, or the bits that several
//! bloom filters hold at one position.
//!
//! A word holds as many lanes as fit whole; the number of lanes is rounded up to fill the words.

use alloc::boxed::Box;
use alloc::vec;

use super::hash::PageHash;
use crate::prefetch::prefetch;

/// The greatest width of a lane in bits.
pub const WIDTH_BITS_MAX: u32 = 64;

/// Packed lanes.
#[derive(Clone, Debug)]
pub struct Lanes {
    words: Box<[u64]>,
    width_bits: u32,
    per_word: u32,
    /// The greatest number of a lane.
    mask: u64,
}

/// Location of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    word: usize,
    shift: u32,
}

impl Lanes {
    /// Create at least `lanes` lanes, all 0.
    ///
    /// # Panics
    /// If there is no lane, or the width is not from 1 to [`WIDTH_BITS_MAX`].
    pub fn new(lanes: u32, width_bits: u32) -> Self {
        assert!(lanes > 0, "a table has lanes");
        assert!((1..=WIDTH_BITS_MAX).contains(&width_bits), "a lane fits a word");
        let per_word = u64::BITS / width_bits;
        let words = vec![0; lanes.div_ceil(per_word) as usize].into_boxed_slice();
        let mask = u64::MAX >> (u64::BITS - width_bits);
        Self { words, width_bits, per_word, mask }
    }

    /// Return the lane that the `index`-th value of a hash selects: `value / 2^32` of the way
    /// along.
    #[inline]
    pub fn place(&self, hash: PageHash, index: u32) -> Place {
        // Whole words first, then whole lanes of what is left: one scaling of the value in two
        // steps, without a division.
        let scaled = u64::from(hash.value(index)) * self.words.len() as u64;
        let rest = scaled & u64::from(u32::MAX);
        let lane = (rest * u64::from(self.per_word)) >> 32;
        Place { word: (scaled >> 32) as usize, shift: lane as u32 * self.width_bits }
    }

    /// Return the lane's number.
    #[inline]
    pub fn get(&self, place: Place) -> u64 {
        self.get_with_neighbours(place) & self.mask
    }

    /// Return the lane's number in the low bits, and whatever else is in the word above them.
    #[inline]
    pub fn get_with_neighbours(&self, place: Place) -> u64 {
        self.words[place.word] >> place.shift
    }

    /// Sets bits of a lane.
    #[inline]
    pub fn set(&mut self, place: Place, bits: u64) {
        debug_assert!(bits <= self.mask(), "the bits fit the lane");
        self.words[place.word] |= bits << place.shift;
    }

    /// Adds to a lane's number; the caller knows that the sum fits.
    #[inline]
    pub fn add(&mut self, place: Place, amount: u64) {
        debug_assert!(self.get(place) <= self.mask() - amount, "the sum fits the lane");
        self.words[place.word] += amount << place.shift;
    }

    /// Asks the processor for the lane that the `index`-th value of a hash selects.
    #[inline]
    pub fn prefetch(&self, hash: PageHash, index: u32) {
        prefetch(&self.words, self.place(hash, index).word);
    }

    /// Keeps only those bits of every lane that `bits` has.
    pub fn keep(&mut self, bits: u64) {
        let kept = self.repeat(bits);
        self.update(|word| word & kept);
    }

    /// Halves the number of every lane, rounding down.
    pub fn halve(&mut self) {
        let kept = self.repeat(self.mask() >> 1);
        self.update(|word| (word >> 1) & kept);
    }

    /// Sets every lane to 0.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Return all lanes in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let (width_bits, mask) = (self.width_bits, self.mask);
        let lanes = move |word: u64| {
            (0..u64::BITS / width_bits).map(move |lane| (word >> (lane * width_bits)) & mask)
        };
        self.words.iter().flat_map(move |&word| lanes(word))
    }

    /// Return the number of lanes.
    pub const fn len(&self) -> usize {
        self.words.len() * self.per_word as usize
    }

    /// Return `true` if there is no lane: never.
    pub const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Return the words in bits.
    pub const fn memory_bits(&self) -> u64 {
        self.words.len() as u64 * u64::BITS as u64
    }

    /// Return the greatest number of a lane.
    #[inline]
    pub const fn mask(&self) -> u64 {
        self.mask
    }

    /// Return a word that holds the same number in every lane.
    fn repeat(&self, lane: u64) -> u64 {
        (0..self.per_word).fold(0, |word, index| word | lane << (index * self.width_bits))
    }

    /// Replaces every word. In runs of fixed length, so that the compiler makes them wide.
    #[inline]
    fn update(&mut self, change: impl Fn(u64) -> u64) {
        let (runs, rest) = self.words.as_chunks_mut::<16>();
        for run in runs {
            *run = run.map(&change);
        }
        for word in rest {
            *word = change(*word);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::PageId;

    #[test]
    fn a_value_selects_the_lane_at_its_share_of_the_table() {
        for (lanes, width_bits) in [(2048, 4), (2048, 5), (100, 3), (1, 1), (7, 64), (33, 32)] {
            let table = Lanes::new(lanes, width_bits);
            for page in 0..2000 {
                let hash = PageHash::of(PageId(page));
                let place = table.place(hash, page % 5);
                let lane =
                    place.word * table.per_word as usize + (place.shift / width_bits) as usize;
                let share = (u64::from(hash.value(page % 5)) * table.len() as u64) >> 32;
                assert_eq!(lane as u64, share, "{lanes} lanes of {width_bits} bits");
            }
        }
    }

    #[test]
    fn lanes_are_independent() {
        let mut table = Lanes::new(10, 5);
        assert_eq!(table.len(), 12);
        assert_eq!(table.memory_bits(), 64);
        let place = |lane: u32| Place { word: 0, shift: lane * 5 };
        table.add(place(3), 30);
        table.add(place(3), 1);
        table.set(place(4), 0b10001);
        table.add(place(11), 7);
        let lanes = |table: &Lanes| table.iter().collect::<Vec<u64>>();
        assert_eq!(lanes(&table), [0, 0, 0, 31, 17, 0, 0, 0, 0, 0, 0, 7]);
        table.halve();
        assert_eq!(lanes(&table), [0, 0, 0, 15, 8, 0, 0, 0, 0, 0, 0, 3]);
        table.keep(0b00110);
        assert_eq!(lanes(&table), [0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 2]);
        table.clear();
        assert!(table.iter().all(|lane| lane == 0));
    }
}
