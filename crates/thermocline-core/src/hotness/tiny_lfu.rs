//! TinyLFU's histogram: how often pages were referenced lately, approximately.
//!
//! A count-min sketch of small counters estimates the references of each page in a sample; when the
//! sample is full, it and all counters are halved. A doorkeeper, a bloom filter, stands before it and
//! keeps pages that are referenced once in a sample out of the counters. Two pages can so be
//! compared, whether they are in a cache or not.
//!
//! The four counters of a page lie in one block of 64 bytes, one in each quarter, and the bits of
//! its doorkeeper in one word, so that a reference touches two places.
//!
//! * Source: Einziger, Friedman and Manes, *TinyLFU: A Highly Efficient Cache Admission Policy*, ACM
//!   Trans. Storage 13(4), 2017, section 3; conservative update ("minimal increment") of section 3.1.
//! * State: 8 bytes of counters per cached page, and a byte per reference of the sample.
//! * Cost: O(1) per reference, amortised over the halvings.
//! * Deviations: (1) The paper leaves open how many counters and bits there are: 16 counters per
//!   cached page, as Caffeine has, and 8 bits per reference of a sample. (2) Counters of a page share
//!   a block, as in Caffeine; the paper draws each from its whole row.

use alloc::vec;
use alloc::vec::Vec;

use super::{Lanes, PageHash};
use crate::PageId;
use crate::config::{Parameter, Values};
use crate::prefetch::prefetch;

/// References of a sample, as a multiple of the pages in the cache.
pub const SAMPLE_FACTOR: Parameter = Parameter::integer("sample_factor", 1..=64, 10)
    .summary("references after which all counts are halved, per page of the cache")
    .source("Caffeine");

/// Whether there is a doorkeeper.
pub const DOORKEEPER: Parameter = Parameter::switch("doorkeeper", true)
    .summary(
        "whether a page's first reference in a sample goes to a bloom filter, not to the counters",
    )
    .source("section 3.4.2");

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
/// Counters of a block.
const BLOCK_COUNTERS: u64 = (ROWS as u64) << ROW_BITS;
/// The three lower bits of each counter of a word.
const HALVES: u64 = 0x7777_7777_7777_7777;
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
    /// References since the last halving, and half of those before.
    references: u64,
    sample_references: u64,
}

impl TinyLfu {
    /// Knows of no reference yet; for a cache of so many pages, with [`SAMPLE_FACTOR`] and
    /// [`DOORKEEPER`].
    ///
    /// # Panics
    /// If the values have no such parameters.
    pub fn new(capacity_pages: u32, values: &Values) -> Self {
        let capacity = u64::from(capacity_pages.max(1));
        let blocks = (capacity * COUNTERS_PER_PAGE).div_ceil(BLOCK_COUNTERS);
        let sample_references = capacity * values.integer(SAMPLE_FACTOR.name);
        let doorkeeper = values.switch(DOORKEEPER.name).then(|| {
            let words = (sample_references * DOOR_BITS_PER_REFERENCE).div_ceil(u64::BITS.into());
            Lanes::new(u32::try_from(words).unwrap_or(u32::MAX), u64::BITS)
        });
        let blocks = usize::try_from(blocks).expect("memory can hold the counters");
        Self {
            blocks: vec![Block([0; WORDS]); blocks],
            doorkeeper,
            references: 0,
            sample_references,
        }
    }

    /// Records a reference.
    #[inline]
    pub fn record(&mut self, page: PageId) {
        let hash = PageHash::of(page);
        if !self.enters(hash) {
            self.raise(hash);
        }
        self.references += 1;
        if self.references >= self.sample_references {
            self.halve();
        }
    }

    /// How often the page was referenced lately: from 0 to 16.
    #[inline]
    pub fn estimate(&self, page: PageId) -> u64 {
        let hash = PageHash::of(page);
        let block = &self.blocks[self.block_of(hash)];
        least(places(hash).map(|place| block.get(place))) + u64::from(self.is_known(hash))
    }

    /// Asks the processor for what the next reference to a page will read.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        let hash = PageHash::of(page);
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

    /// Whether the doorkeeper knows a page.
    #[inline]
    fn is_known(&self, hash: PageHash) -> bool {
        let bits = door_bits(hash);
        self.doorkeeper
            .as_ref()
            .is_some_and(|doorkeeper| doorkeeper.get(doorkeeper.place(hash, 2)) & bits == bits)
    }

    /// Whether the reference is the first that the doorkeeper sees of a page.
    #[inline]
    fn enters(&mut self, hash: PageHash) -> bool {
        let Some(doorkeeper) = &mut self.doorkeeper else { return false };
        let (place, bits) = (doorkeeper.place(hash, 2), door_bits(hash));
        let is_new = doorkeeper.get(place) & bits != bits;
        doorkeeper.set(place, bits);
        is_new
    }

    /// Raises the counters of a page that are no greater than the least of them.
    #[inline]
    fn raise(&mut self, hash: PageHash) {
        let index = self.block_of(hash);
        let block = &mut self.blocks[index];
        let places = places(hash);
        let counts = places.map(|place| block.get(place));
        let least = least(counts);
        if least == COUNTER_MAX {
            return;
        }
        for (place, count) in places.into_iter().zip(counts) {
            block.0[place.word] += u64::from(count == least) << place.shift;
        }
    }

    /// Halves the sample and all counters; the doorkeeper forgets.
    #[cold]
    fn halve(&mut self) {
        for word in self.blocks.iter_mut().flat_map(|block| &mut block.0) {
            *word = (*word >> 1) & HALVES;
        }
        if let Some(doorkeeper) = &mut self.doorkeeper {
            doorkeeper.clear();
        }
        self.references /= 2;
    }

    #[inline]
    fn block_of(&self, hash: PageHash) -> usize {
        ((u64::from(hash.value(0)) * self.blocks.len() as u64) >> u32::BITS) as usize
    }
}

/// Where a counter lies in its block.
#[derive(Clone, Copy, Debug)]
struct CounterPlace {
    word: usize,
    shift: u32,
}

impl Block {
    #[inline]
    fn get(&self, place: CounterPlace) -> u64 {
        (self.0[place.word] >> place.shift) & COUNTER_MAX
    }
}

/// The counter of a page in each row of its block: five bits of its second hash value each.
#[inline]
fn places(hash: PageHash) -> [CounterPlace; ROWS as usize] {
    let value = hash.value(1);
    [0, 1, 2, 3].map(|row| {
        let counter = (value >> (u32::BITS - ROW_BITS * (row + 1))) & ((1 << ROW_BITS) - 1);
        let bit = ((row << ROW_BITS) + counter) * COUNTER_BITS;
        CounterPlace { word: (bit / u64::BITS) as usize, shift: bit % u64::BITS }
    })
}

/// The least of a page's counters.
#[inline]
fn least([first, rest @ ..]: [u64; ROWS as usize]) -> u64 {
    rest.into_iter().fold(first, u64::min)
}

/// The bits that a page sets in its word of the doorkeeper: six bits of its fourth hash value each.
#[inline]
fn door_bits(hash: PageHash) -> u64 {
    let value = hash.value(3);
    (1..=DOOR_BITS).fold(0, |bits, index| bits | 1 << ((value >> (u32::BITS - 6 * index)) & 63))
}
