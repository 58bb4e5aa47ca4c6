//! Re-use distances: how many distinct pages were touched between two touches of a page.
//!
//! Touches are numbered, and a bit per touch marks the latest one of every page; the marks after a
//! page's own are the pages touched since (Bennett and Kruskal, *LRU stack processing*, IBM J. Res.
//! Dev. 19(4), 1975). A block of bits fills a cache line, and so does a node of the tree of sums above
//! the blocks, so a touch reads and writes few lines, most of which are in the processor's cache. The
//! touches are renumbered when the bits are used up, so that memory follows the pages, not the touches:
//! 20.6 bytes per page.

use std::iter;

use thermocline_core::prefetch;

/// No touch yet.
const NEVER: u32 = u32::MAX;
/// Touches per page until they are renumbered.
const TOUCHES_PER_PAGE: usize = 4;
/// Bits of a block, as a power of two.
const BLOCK_SHIFT: u32 = 9;
/// Children of a node, as a power of two.
const NODE_SHIFT: u32 = 4;

/// The latest touch of every page, in order.
#[derive(Debug)]
pub struct ReuseDistance {
    /// Per page: the number of its latest touch.
    latest: Vec<u32>,
    /// Per touch: its page.
    pages: Vec<u32>,
    /// The touches that are the latest of their pages.
    marks: Marks,
    touches: u32,
    distinct_pages: u32,
}

/// A set of touches that knows how many there are up to any of them.
#[derive(Debug)]
struct Marks {
    blocks: Vec<Block>,
    /// From the bottom: how many marks each block has, each node of blocks, and so on.
    levels: Vec<Vec<Node>>,
}

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Block([u64; 8]);

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Node([u32; 1 << NODE_SHIFT]);

impl ReuseDistance {
    /// For page ids below `pages`, none of them touched.
    pub fn new(pages: u32) -> Self {
        let slots = (pages as usize).saturating_mul(TOUCHES_PER_PAGE).max(1024);
        // The number of a touch is below `NEVER`.
        let slots = slots.min(NEVER as usize);
        Self {
            latest: vec![NEVER; pages as usize],
            pages: vec![0; slots],
            marks: Marks::new(slots),
            touches: 0,
            distinct_pages: 0,
        }
    }

    /// Touches a page; returns how many other pages were touched since its previous touch, none if
    /// there was none. It takes the logarithm of the number of pages.
    ///
    /// # Panics
    /// If the page is not below the number of pages.
    #[inline]
    pub fn touch(&mut self, page: u32) -> Option<u32> {
        if self.touches as usize == self.pages.len() {
            self.renumber();
        }
        let previous = std::mem::replace(&mut self.latest[page as usize], self.touches);
        let distance =
            (previous != NEVER).then(|| self.distinct_pages - self.marks.remove(previous));
        self.pages[self.touches as usize] = page;
        self.marks.insert(self.touches);
        self.distinct_pages += u32::from(distance.is_none());
        self.touches += 1;
        distance
    }

    /// Forgets a page, as if it had never been touched; it is no longer a page between two others.
    ///
    /// # Panics
    /// If the page is not below the number of pages.
    pub fn forget(&mut self, page: u32) {
        let latest = std::mem::replace(&mut self.latest[page as usize], NEVER);
        if latest != NEVER {
            self.marks.remove(latest);
            self.distinct_pages -= 1;
        }
    }

    /// Asks the processor for the state of a page that will be touched soon.
    #[inline]
    pub fn prefetch(&self, page: u32) {
        prefetch(&self.latest, page as usize);
    }

    /// Asks for the rest of that state, once the processor has what [`prefetch`](Self::prefetch) asked
    /// for.
    #[inline]
    pub fn prefetch_marks(&self, page: u32) {
        if let Some(&latest) = self.latest.get(page as usize) {
            self.marks.prefetch(latest);
        }
    }

    /// Numbers the latest touches from 0 on, in their order.
    fn renumber(&mut self) {
        let mut next = 0;
        for touch in self.marks.iter() {
            let page = self.pages[touch as usize];
            self.pages[next as usize] = page;
            self.latest[page as usize] = next;
            next += 1;
        }
        self.marks.set_first(next);
        self.touches = next;
    }
}

impl Marks {
    /// No marks, for touches below `touches`.
    fn new(touches: usize) -> Self {
        let blocks = touches.div_ceil(1 << BLOCK_SHIFT);
        let mut levels = vec![];
        let mut children = blocks;
        while children > 1 {
            children = children.div_ceil(1 << NODE_SHIFT);
            levels.push(vec![Node([0; 1 << NODE_SHIFT]); children]);
        }
        Self { blocks: vec![Block([0; 8]); blocks], levels }
    }

    /// Adds a mark that is not there.
    #[inline]
    fn insert(&mut self, touch: u32) {
        let (mut child, word, bit) = place(touch);
        self.blocks[child].0[word] |= 1 << bit;
        for nodes in &mut self.levels {
            nodes[child >> NODE_SHIFT].0[child % (1 << NODE_SHIFT)] += 1;
            child >>= NODE_SHIFT;
        }
    }

    /// Removes a mark that is there; returns how many there were up to it, itself included.
    #[inline]
    fn remove(&mut self, touch: u32) -> u32 {
        let (mut child, word, bit) = place(touch);
        let block = &mut self.blocks[child].0;
        let mut rank = (block[word] << (63 - bit)).count_ones();
        block[word] &= !(1 << bit);
        // All words are looked at, as that takes no branch.
        for (index, word_of_block) in block.iter().enumerate() {
            rank += if index < word { word_of_block.count_ones() } else { 0 };
        }
        for nodes in &mut self.levels {
            let node = &mut nodes[child >> NODE_SHIFT].0;
            let place = child % (1 << NODE_SHIFT);
            for (index, &marks) in node.iter().enumerate() {
                rank += if index < place { marks } else { 0 };
            }
            node[place] -= 1;
            child >>= NODE_SHIFT;
        }
        rank
    }

    /// All marks, in order.
    fn iter(&self) -> impl Iterator<Item = u32> {
        let words = self.blocks.iter().flat_map(|block| block.0);
        words.zip((0_u32..).step_by(64)).flat_map(|(word, first)| {
            let mut rest = word;
            iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(first + bit)
            })
        })
    }

    /// Marks the touches below `count`, and no others.
    fn set_first(&mut self, count: u32) {
        let mut left = count;
        for word in self.blocks.iter_mut().flat_map(|block| &mut block.0) {
            *word = if left >= 64 { u64::MAX } else { (1 << left) - 1 };
            left = left.saturating_sub(64);
        }
        let mut of_child = 1 << BLOCK_SHIFT;
        for nodes in &mut self.levels {
            let mut left = u64::from(count);
            for marks in nodes.iter_mut().flat_map(|node| &mut node.0) {
                *marks = u32::try_from(left.min(of_child)).expect("at most all marks");
                left -= u64::from(*marks);
            }
            of_child <<= NODE_SHIFT;
        }
    }

    #[inline]
    fn prefetch(&self, touch: u32) {
        prefetch(&self.blocks, place(touch).0);
    }
}

/// The block, the word in it and the bit in that of a touch.
#[inline]
const fn place(touch: u32) -> (usize, usize, u32) {
    ((touch >> BLOCK_SHIFT) as usize, (touch as usize >> 6) % 8, touch % 64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn distances_are_those_of_a_list(
            pages in prop::collection::vec((0_u32..40, prop::bool::weighted(0.1)), 0..3000),
        ) {
            let mut distances = ReuseDistance::new(40);
            let mut list: Vec<u32> = vec![];
            for (page, is_forgotten) in pages {
                if is_forgotten {
                    distances.forget(page);
                    list.retain(|&other| other != page);
                    continue;
                }
                let place = list.iter().position(|&other| other == page);
                let expected = place.map(|place| u32::try_from(place).unwrap());
                prop_assert_eq!(distances.touch(page), expected);
                list.retain(|&other| other != page);
                list.insert(0, page);
            }
        }
    }
}
