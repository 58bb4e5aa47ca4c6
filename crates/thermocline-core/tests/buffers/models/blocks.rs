//! Buffers of whole blocks: FAB, BPLRU and LB-CLOCK. Reads change nothing.
//!
//! Readings:
//!
//! 1. FAB and BPLRU never flush the block that is being written, unless it is the only one.
//!    For LB-CLOCK the paper is silent; there it is a parameter, and the hand then
//!    passes over that block, too.
//! 2. A block is written in sequence when its offsets 0, 1, ... follow each other in the writes to
//!    this block, hits included; any other offset starts again. Other blocks may be written in
//!    between. The history of a block is forgotten when it leaves.
//! 3. LB-CLOCK chooses among blocks without recency bit first, and moves its hand after flushing:
//!    from where it is, it clears bits and advances until it meets a block without one. If no block
//!    is without, the same pass is done before the choice; it clears the bits of the whole ring.
//! 4. A new block of LB-CLOCK comes in just behind the hand, so that the hand reaches it last.

use std::collections::{BTreeMap, BTreeSet};

use super::{Block, BlockList, BufferModel, Unbuffered, join};

/// Flushes the block with the most pages; of those the least recently written.
#[derive(Debug)]
pub(crate) struct Fab {
    capacity: usize,
    list: BlockList,
}

impl Fab {
    pub(crate) fn new(capacity: usize, pages_per_block: u64) -> Self {
        Self { capacity, list: BlockList::new(pages_per_block) }
    }

    fn victim(&self, own: u64) -> u64 {
        let others = self.list.blocks().iter().filter(|block| block.number != own);
        // Of equal ones the last is taken, which is the least recently written.
        others.max_by_key(|block| block.pages.len()).map_or(own, |block| block.number)
    }
}

impl BufferModel for Fab {
    fn access(&mut self, page: u64, write: bool) -> Vec<Vec<u64>> {
        if self.capacity == 0 {
            return Unbuffered.access(page, write);
        }
        let mut flushed = vec![];
        if write {
            if !self.list.contains(page) && self.list.page_count() == self.capacity {
                let victim = self.victim(self.list.number_of(page));
                flushed.extend(self.list.remove_block(victim).map(|block| block.batch()));
            }
            self.list.touch(page);
        }
        flushed
    }

    fn contains(&self, page: u64) -> bool {
        self.list.contains(page)
    }

    fn dirty(&self) -> BTreeSet<u64> {
        self.list.pages()
    }

    fn state(&self) -> String {
        self.list.text()
    }
}

/// Number of first offsets of each block that were written in sequence.
#[derive(Debug)]
struct Sequences {
    pages_per_block: u64,
    written: BTreeMap<u64, u64>,
}

impl Sequences {
    fn new(pages_per_block: u64) -> Self {
        Self { pages_per_block, written: BTreeMap::new() }
    }

    /// Return `true` if this write is the last one of a block that was written in sequence.
    fn completes(&mut self, page: u64) -> bool {
        let offset = page % self.pages_per_block;
        let written = self.written.entry(page / self.pages_per_block).or_insert(0);
        *written = match offset {
            0 => 1,
            _ if offset == *written => offset + 1,
            _ => 0,
        };
        *written == self.pages_per_block
    }

    fn forget(&mut self, block: u64) {
        self.written.remove(&block);
    }
}

/// Block padding LRU, without the padding: least recently written blocks.
#[derive(Debug)]
pub(crate) struct Bplru {
    capacity: usize,
    /// `true` if a block written in sequence becomes the least recently used one.
    has_compensation: bool,
    list: BlockList,
    sequences: Sequences,
}

impl Bplru {
    pub(crate) fn new(capacity: usize, pages_per_block: u64, has_compensation: bool) -> Self {
        Self {
            capacity,
            has_compensation,
            list: BlockList::new(pages_per_block),
            sequences: Sequences::new(pages_per_block),
        }
    }
}

impl BufferModel for Bplru {
    fn access(&mut self, page: u64, write: bool) -> Vec<Vec<u64>> {
        if self.capacity == 0 {
            return Unbuffered.access(page, write);
        }
        if !write {
            return vec![];
        }
        let own = self.list.number_of(page);
        let mut flushed = vec![];
        if !self.list.contains(page) && self.list.page_count() == self.capacity {
            let victim = self.list.tail_except(Some(own)).expect("a full buffer has a block");
            flushed.extend(self.list.remove_block(victim).map(|block| block.batch()));
            self.sequences.forget(victim);
        }
        self.list.touch(page);
        if self.sequences.completes(page) && self.has_compensation {
            self.list.move_to_tail(own);
        }
        flushed
    }

    fn contains(&self, page: u64) -> bool {
        self.list.contains(page)
    }

    fn dirty(&self) -> BTreeSet<u64> {
        self.list.pages()
    }

    fn state(&self) -> String {
        self.list.text()
    }
}

/// A ring of blocks with recency bits; of the blocks without, the largest goes.
#[derive(Debug)]
pub(crate) struct LbClock {
    capacity: usize,
    pages_per_block: u64,
    spares_own_block: bool,
    /// Blocks and their recency bits, in the order in which the hand meets them from place 0 on.
    ring: Vec<(Block, bool)>,
    hand: usize,
    sequences: Sequences,
}

impl LbClock {
    pub(crate) fn new(capacity: usize, pages_per_block: u64, spares_own_block: bool) -> Self {
        Self {
            capacity,
            pages_per_block,
            spares_own_block,
            ring: vec![],
            hand: 0,
            sequences: Sequences::new(pages_per_block),
        }
    }

    fn page_count(&self) -> usize {
        self.ring.iter().map(|(block, _)| block.pages.len()).sum()
    }

    /// Places in the order in which the hand meets them.
    fn places_from_hand(&self) -> impl Iterator<Item = usize> {
        let count = self.ring.len();
        let hand = self.hand;
        (0..count).map(move |step| (hand + step) % count)
    }

    /// Clears bits up to the first block without one; passes over the spared block.
    fn advance(&mut self, spared: Option<u64>) {
        let is_passed = |(block, is_recent): &(Block, bool), count| {
            *is_recent || (Some(block.number) == spared && count > 1)
        };
        while !self.ring.is_empty() && is_passed(&self.ring[self.hand], self.ring.len()) {
            self.ring[self.hand].1 = false;
            self.hand = (self.hand + 1) % self.ring.len();
        }
    }

    fn largest_without_bit(&self, spared: Option<u64>) -> Option<usize> {
        let mut largest: Option<usize> = None;
        for place in self.places_from_hand() {
            let (block, is_recent) = &self.ring[place];
            let is_larger =
                largest.is_none_or(|known| block.pages.len() > self.ring[known].0.pages.len());
            if !is_recent && Some(block.number) != spared && is_larger {
                largest = Some(place);
            }
        }
        largest
    }

    fn flush(&mut self, own: u64) -> Vec<u64> {
        let spared = self.spares_own_block.then_some(own);
        let place = self.largest_without_bit(spared).unwrap_or_else(|| {
            self.advance(spared);
            let cleared = self.largest_without_bit(spared);
            cleared.or(self.largest_without_bit(None)).expect("the pass clears a bit")
        });
        let (block, _) = self.ring.remove(place);
        self.sequences.forget(block.number);
        if place < self.hand {
            self.hand -= 1;
        }
        if self.hand == self.ring.len() {
            self.hand = 0;
        }
        self.advance(None);
        block.batch()
    }

    fn add(&mut self, page: u64) {
        let number = page / self.pages_per_block;
        if let Some((block, is_recent)) =
            self.ring.iter_mut().find(|(block, _)| block.number == number)
        {
            block.pages.insert(page);
            *is_recent = true;
            return;
        }
        self.ring.insert(self.hand, (Block { number, pages: [page].into() }, false));
        self.hand = (self.hand + 1) % self.ring.len();
    }
}

impl BufferModel for LbClock {
    fn access(&mut self, page: u64, write: bool) -> Vec<Vec<u64>> {
        if self.capacity == 0 {
            return Unbuffered.access(page, write);
        }
        if !write {
            return vec![];
        }
        let own = page / self.pages_per_block;
        let mut flushed = vec![];
        if !self.contains(page) && self.page_count() == self.capacity {
            flushed.push(self.flush(own));
        }
        self.add(page);
        if self.sequences.completes(page) {
            for (block, is_recent) in &mut self.ring {
                *is_recent &= block.number != own;
            }
        }
        flushed
    }

    fn contains(&self, page: u64) -> bool {
        self.ring.iter().any(|(block, _)| block.pages.contains(&page))
    }

    fn dirty(&self) -> BTreeSet<u64> {
        self.ring.iter().flat_map(|(block, _)| block.pages.iter().copied()).collect()
    }

    /// Return the ring from the hand on, `*` after blocks with the recency bit.
    fn state(&self) -> String {
        join(self.places_from_hand().map(|place| {
            let (block, is_recent) = &self.ring[place];
            format!("{}{}", block.text(), if *is_recent { "*" } else { "" })
        }))
    }
}
