//! TinyLFU's histogram: approximate counts of recent references to pages.
//!
//! A count-min sketch of small counters estimates how often each page was referenced in a sample.
//! When the sample is full, the sample and all counters are halved. A page can therefore be compared
//! with another one, whether they are in a cache or not. An optional doorkeeper, a bloom filter, keeps
//! pages that are referenced once in a sample out of the counters.
//!
//! The four counters of a page lie in one block of 64 bytes, one in each quarter, and the bits of
//! its doorkeeper in one word, so a reference touches one place, or two with a doorkeeper.
//!
//! * Source: Einziger, Friedman and Manes, *TinyLFU: A Highly Efficient Cache Admission Policy*, ACM
//!   Trans. Storage 13(4), 2017, section 3.
//! * State: 8 to 16 bytes of counters per cached page, 2 KiB at least; with a doorkeeper, a byte per
//!   reference of the sample.
//! * Cost: O(1) per reference, amortised over the halvings.
//! * Deviations: (1) The paper leaves the number of counters open. Here, as in Caffeine, there
//!   are 16 for each page of the cache, with the cache's size raised to 256 pages and to a power
//!   of two. The sample follows the cache's size itself: a longer one keeps what was counted
//!   long ago. (2) Counters of a page share a block, as in Caffeine; the paper draws each from
//!   its whole row. (3) By default there is no doorkeeper, and a reference raises all four
//!   counters, as in Caffeine; both of the paper's choices are parameters. (4) Halving rounds
//!   odd counters down, and the sample shrinks by what they lose, as in Caffeine. A reference
//!   counts in the sample even if its counters are full, as in the paper; Caffeine leaves it
//!   out.

use alloc::vec;
use alloc::vec::Vec;

use super::{Lanes, PageHash};
use crate::PageId;
use crate::config::{Parameter, Values};
use crate::prefetch::prefetch;

/// References of a sample, as a multiple of the pages in the cache.
pub const SAMPLE_FACTOR: Parameter = Parameter::integer("sample_factor", 1..=64, 10)
    .summary("references after which counts are halved, per page of the cache")
    .source("Caffeine");

/// Switch for the doorkeeper.
pub const DOORKEEPER: Parameter = Parameter::switch("doorkeeper", false)
    .summary(
        "whether a page's first reference in a sample goes to a bloom filter, not to the counters",
    )
    .source("Caffeine: no; the paper, section 3.4.2: yes");

/// Switch for references that raise only the smallest of a page's counters.
pub const MINIMAL_INCREMENT: Parameter = Parameter::switch("minimal_increment", false)
    .summary("whether a reference raises only the least of a page's four counters")
    .source("Caffeine: no; the paper, section 3.1: yes");

/// Rows of counters.
const ROWS: u32 = 4;
/// Bits of a counter.
const COUNTER_BITS: u32 = 4;
/// The greatest number of a counter.
const COUNTER_MAX: u64 = (1 << COUNTER_BITS) - 1;
/// Words of a block.
const WORDS: usize = 8;
/// Counters of a row in a block, as an exponent of 2: a quarter of 512 bits.
const ROW_BITS: u32 = 5;
/// Counters per page of the cache.
const COUNTERS_PER_PAGE: u64 = 16;
/// A smaller cache has the counters of one of this size.
const PAGES_MIN: u32 = 256;
/// Counters of a block.
const BLOCK_COUNTERS: u64 = (ROWS as u64) << ROW_BITS;
/// The three lower bits of each counter of a word.
const HALVES: u64 = 0x7777_7777_7777_7777;
/// The lowest bit of each counter of a word.
const ODD: u64 = 0x1111_1111_1111_1111;
/// Bits of the doorkeeper that a page sets, in one word.
const DOOR_BITS: u32 = 3;
/// Bits of the doorkeeper per reference of a sample.
const DOOR_BITS_PER_REFERENCE: u64 = 8;

/// A block of counters, which is one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Block([u64; WORDS]);

/// Estimates how often pages were referenced lately.
#[derive(Clone, Debug)]
pub struct TinyLfu {
    blocks: Vec<Block>,
    /// Words of the doorkeeper, if there is one.
    doorkeeper: Option<Lanes>,
    is_minimal: bool,
    /// References since the last halving, and half of those before.
    references: u64,
    sample_references: u64,
}

impl TinyLfu {
    /// Create an empty histogram for a cache of `capacity_pages`, with [`SAMPLE_FACTOR`],
    /// [`DOORKEEPER`] and [`MINIMAL_INCREMENT`].
    ///
    /// # Panics
    /// If the values have no such parameters.
    pub fn new(capacity_pages: u32, values: &Values) -> Self {
        let counted_pages = u64::from(capacity_pages.max(PAGES_MIN)).next_power_of_two();
        let blocks = (counted_pages * COUNTERS_PER_PAGE).div_ceil(BLOCK_COUNTERS);
        let sample_references =
            u64::from(capacity_pages.max(1)) * values.integer(SAMPLE_FACTOR.name);
        let doorkeeper = values.switch(DOORKEEPER.name).then(|| {
            let words = (sample_references * DOOR_BITS_PER_REFERENCE).div_ceil(u64::BITS.into());
            Lanes::new(u32::try_from(words).unwrap_or(u32::MAX), u64::BITS)
        });
        let blocks = usize::try_from(blocks).expect("memory can hold the counters");
        Self {
            blocks: vec![Block([0; WORDS]); blocks],
            doorkeeper,
            is_minimal: values.switch(MINIMAL_INCREMENT.name),
            references: 0,
            sample_references,
        }
    }

    /// Records a reference.
    #[inline]
    pub fn record(&mut self, page: PageId) {
        let hash = PageHash::quick(page);
        // The doorkeeper takes the first reference of a sample, so pages referenced once use no
        // counters.
        if !self.enters(hash) {
            self.raise(hash);
        }
        self.references += 1;
        // The reset: halving after a sample of W references ages all counts alike.
        if self.references >= self.sample_references {
            self.halve();
        }
    }

    /// Estimate how often the page was referenced recently: from 0 to 16.
    #[inline]
    pub fn estimate(&self, page: PageId) -> u64 {
        let hash = PageHash::quick(page);
        let block = &self.blocks[self.block_of(hash)];
        least(block.counts(places(hash))) + u64::from(self.is_known(hash))
    }

    /// Prefetches the data that the next reference to a page will read.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        let hash = PageHash::quick(page);
        prefetch(&self.blocks, self.block_of(hash));
        if let Some(doorkeeper) = &self.doorkeeper {
            doorkeeper.prefetch(hash, 2);
        }
    }

    /// Counters and doorkeeper, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let doorkeeper = self.doorkeeper.as_ref().map_or(0, Lanes::memory_bits) / 8;
        size_of_val(&*self.blocks) + usize::try_from(doorkeeper).unwrap_or(usize::MAX)
    }

    /// Checks every invariant of the sample.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        assert!(self.references < self.sample_references, "a full sample is halved");
    }

    /// Return `true` if the doorkeeper knows a page.
    #[inline]
    fn is_known(&self, hash: PageHash) -> bool {
        let bits = door_bits(hash);
        self.doorkeeper
            .as_ref()
            .is_some_and(|doorkeeper| doorkeeper.get(doorkeeper.place(hash, 2)) & bits == bits)
    }

    /// Return `true` if the reference is the first that the doorkeeper sees of a page.
    #[inline]
    fn enters(&mut self, hash: PageHash) -> bool {
        let Some(doorkeeper) = &mut self.doorkeeper else { return false };
        let (place, bits) = (doorkeeper.place(hash, 2), door_bits(hash));
        let is_new = doorkeeper.get(place) & bits != bits;
        doorkeeper.set(place, bits);
        is_new
    }

    /// Raises the counters of a page that are not full: all of them, or those that are the least.
    #[inline]
    fn raise(&mut self, hash: PageHash) {
        let index = self.block_of(hash);
        let block = &mut self.blocks[index];
        let places = places(hash);
        // No counter is above the greatest number.
        let most = if self.is_minimal { least(block.counts(places)) } else { COUNTER_MAX };
        for place in places {
            let count = block.get(place);
            // The minimal increment raises only the least counters: larger ones owe their count to
            // collisions.
            let is_raised = count <= most && count < COUNTER_MAX;
            block.0[place.word % WORDS] += u64::from(is_raised) << place.shift;
        }
    }

    /// Halves the sample and all counters; the doorkeeper forgets.
    #[cold]
    fn halve(&mut self) {
        let mut odd = 0;
        for word in self.blocks.iter_mut().flat_map(|block| &mut block.0) {
            odd += u64::from((*word & ODD).count_ones());
            *word = (*word >> 1) & HALVES;
        }
        if let Some(doorkeeper) = &mut self.doorkeeper {
            doorkeeper.clear();
        }
        // Halving odd counters loses a half each. The sample shrinks by that as well, so that it
        // agrees with the counters.
        self.references = self.references.saturating_sub(odd / u64::from(ROWS)) / 2;
    }

    #[inline]
    fn block_of(&self, hash: PageHash) -> usize {
        ((u64::from(hash.value(0)) * self.blocks.len() as u64) >> u32::BITS) as usize
    }
}

/// Location of a counter in its block.
#[derive(Clone, Copy, Debug)]
struct CounterPlace {
    word: usize,
    shift: u32,
}

impl Block {
    #[inline]
    fn get(&self, place: CounterPlace) -> u64 {
        (self.0[place.word % WORDS] >> place.shift) & COUNTER_MAX
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs as much as the work")]
    fn counts(&self, [first, second, third, fourth]: [CounterPlace; ROWS as usize]) -> [u64; 4] {
        [self.get(first), self.get(second), self.get(third), self.get(fourth)]
    }
}

/// Return the counter of a page in each row of its block: five bits of its second hash value each.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call costs as much as the work")]
fn places(hash: PageHash) -> [CounterPlace; ROWS as usize] {
    let value = hash.value(1);
    let place = |row: u32| {
        let counter = (value >> (u32::BITS - ROW_BITS * (row + 1))) & ((1 << ROW_BITS) - 1);
        let bit = ((row << ROW_BITS) + counter) * COUNTER_BITS;
        CounterPlace { word: (bit / u64::BITS) as usize, shift: bit % u64::BITS }
    };
    [place(0), place(1), place(2), place(3)]
}

/// Return the least of a page's counters.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call costs as much as the work")]
fn least([first, second, third, fourth]: [u64; ROWS as usize]) -> u64 {
    first.min(second).min(third.min(fourth))
}

/// Return the bits that a page sets in its word of the doorkeeper: six bits of its fourth hash
/// value each.
#[inline]
fn door_bits(hash: PageHash) -> u64 {
    let value = hash.value(3);
    (1..=DOOR_BITS).fold(0, |bits, index| bits | 1 << ((value >> (u32::BITS - 6 * index)) & 63))
}
