//! Executable specifications of the write buffers: small, slow, and written from the papers.
//!
//! Lists are vectors with the most recently used entry first, searches are scans. Readings that all
//! models share:
//!
//! 1. Time is the number of page writes so far, the current one included; reads do not count.
//! 2. Room is made before the page comes in, so that no buffer ever holds more than its capacity.
//! 3. A buffer of no pages flushes every write at once.
//! 4. A batch is what one eviction flushes: one page, or the pages of one block in ascending order,
//!    those that the block lists hold and no others.
//! 5. Where a buffer holds no read pages, a read changes nothing, not even on a hit.

mod blocks;
mod bpac;
mod hwb;
mod lists;

use std::collections::BTreeSet;

pub(crate) use blocks::{Bplru, Fab, LbClock};
pub(crate) use bpac::Bpac;
pub(crate) use hwb::{
    ActiveFlush, Adaptation, Counters, Hwb, Mean, Predictor, Record, Regions, Scale, Setup, Window,
};
pub(crate) use lists::{Cfdc, Cflru, Lru, LruWsr};

/// A specification that can be stepped.
pub(crate) trait BufferModel {
    /// Process one page access; return the batches flushed to NAND by it, each batch the ascending
    /// pages of one block (or one page), in the order of flushing.
    fn access(&mut self, page: u64, write: bool) -> Vec<Vec<u64>>;
    /// Return `true` if the page is in the buffer.
    fn contains(&self, page: u64) -> bool;
    /// Return the dirty pages in the buffer.
    fn dirty(&self) -> BTreeSet<u64>;
    /// Return a text of the state in the notation of the worked examples.
    fn state(&self) -> String;
}

/// No buffer: every write is flushed at once.
#[derive(Debug)]
pub(crate) struct Unbuffered;

impl BufferModel for Unbuffered {
    fn access(&mut self, page: u64, write: bool) -> Vec<Vec<u64>> {
        if write { vec![vec![page]] } else { vec![] }
    }

    fn contains(&self, _page: u64) -> bool {
        false
    }

    fn dirty(&self) -> BTreeSet<u64> {
        BTreeSet::new()
    }

    fn state(&self) -> String {
        String::new()
    }
}

/// Some of the pages of one NAND block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) number: u64,
    pub(crate) pages: BTreeSet<u64>,
}

impl Block {
    /// Return the pages in ascending order.
    pub(crate) fn batch(&self) -> Vec<u64> {
        self.pages.iter().copied().collect()
    }

    /// `number[pages]`
    pub(crate) fn text(&self) -> String {
        format!("{}[{}]", self.number, join(self.pages.iter().map(u64::to_string)))
    }
}

/// Blocks, the most recently used first; none is empty.
#[derive(Debug)]
pub(crate) struct BlockList {
    pages_per_block: u64,
    blocks: Vec<Block>,
}

impl BlockList {
    pub(crate) fn new(pages_per_block: u64) -> Self {
        Self { pages_per_block, blocks: vec![] }
    }

    pub(crate) fn number_of(&self, page: u64) -> u64 {
        page / self.pages_per_block
    }

    pub(crate) fn page_count(&self) -> usize {
        self.blocks.iter().map(|block| block.pages.len()).sum()
    }

    pub(crate) fn contains(&self, page: u64) -> bool {
        self.blocks.iter().any(|block| block.pages.contains(&page))
    }

    pub(crate) fn pages(&self) -> BTreeSet<u64> {
        self.blocks.iter().flat_map(|block| block.pages.iter().copied()).collect()
    }

    /// Return the blocks, the most recently used first.
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Adds a page to its block, which comes to the head; a page that is there stays.
    pub(crate) fn touch(&mut self, page: u64) {
        let number = self.number_of(page);
        let mut block = self.remove_block(number).unwrap_or(Block { number, pages: [].into() });
        block.pages.insert(page);
        self.blocks.insert(0, block);
    }

    /// Takes a page out of its block, which stays where it is, or goes if that was its last page.
    pub(crate) fn remove_page(&mut self, page: u64) {
        for block in &mut self.blocks {
            block.pages.remove(&page);
        }
        self.blocks.retain(|block| !block.pages.is_empty());
    }

    pub(crate) fn remove_block(&mut self, number: u64) -> Option<Block> {
        let place = self.blocks.iter().position(|block| block.number == number)?;
        Some(self.blocks.remove(place))
    }

    /// Makes a block that is there the least recently used one.
    pub(crate) fn move_to_tail(&mut self, number: u64) {
        let block = self.remove_block(number).expect("the block is there");
        self.blocks.push(block);
    }

    /// Return the least recently used block, but not the spared one unless it is the only one.
    pub(crate) fn tail_except(&self, spared: Option<u64>) -> Option<u64> {
        let others = self.blocks.iter().rev().find(|block| Some(block.number) != spared);
        others.or(self.blocks.last()).map(|block| block.number)
    }

    pub(crate) fn text(&self) -> String {
        join(self.blocks.iter().map(Block::text))
    }
}

/// Words with a space between them.
fn join(words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().collect::<Vec<_>>().join(" ")
}

/// Takes a page out of a list; whether it was there.
fn take(list: &mut Vec<u64>, page: u64) -> bool {
    let place = list.iter().position(|&listed| listed == page);
    if let Some(place) = place {
        list.remove(place);
    }
    place.is_some()
}
