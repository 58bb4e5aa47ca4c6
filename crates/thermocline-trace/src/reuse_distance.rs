//! Re-use distances: how many distinct pages were touched between two touches of a page.
//!
//! Touches are numbered, and a bit per touch marks the latest one of every page; the marks after a
//! page's own are the pages touched since (Bennett and Kruskal, *LRU stack processing*, IBM J. Res.
//! Dev. 19(4), 1975). A block of bits and their sums fills a cache line, and so does a node of the tree
//! of sums above the blocks, so a touch reads and writes few lines, most of which are in the processor's
//! cache. All sums are of what lies before: a rank is a number from each level, and a new mark, which is
//! always the last one, changes nothing above its block. The touches are renumbered when the bits are
//! used up, so that memory follows the pages, not the touches: 20.6 bytes per page.

use std::iter;

use thermocline_core::prefetch;

/// No touch yet.
const NEVER: u32 = u32::MAX;
/// Touches per page until they are renumbered.
const TOUCHES_PER_PAGE: usize = 4;
/// Words of bits in a block; the cache line's last word has their sums.
const BLOCK_WORDS: usize = 7;
/// Bits of a block.
const BLOCK_BITS: u32 = 64 * 7;
/// Bits of a sum within a block: there are at most 384 marks before a word.
const SUM_BITS: usize = 9;
/// One in each of a block's sums.
const ONE_IN_EACH: u64 = {
    let (mut ones, mut word) = (0, 0);
    while word < BLOCK_WORDS {
        ones |= 1 << (SUM_BITS * word);
        word += 1;
    }
    ones
};
/// Children of a node, as a power of two.
const NODE_SHIFT: u32 = 4;

/// For each child of a node, 1 for the children after it.
static ONE_BEHIND: [[u32; 1 << NODE_SHIFT]; 1 << NODE_SHIFT] = {
    let mut table = [[0; 1 << NODE_SHIFT]; 1 << NODE_SHIFT];
    let mut place = 0;
    while place < 1 << NODE_SHIFT {
        let mut behind = place + 1;
        while behind < 1 << NODE_SHIFT {
            table[place][behind] = 1;
            behind += 1;
        }
        place += 1;
    }
    table
};

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
}

/// A set of touches that knows how many there are after any of them. New touches are always behind all
/// others.
#[derive(Debug)]
struct Marks {
    count: u32,
    blocks: Vec<Block>,
    /// Levels from the bottom: sums over blocks, over nodes of blocks, and so on.
    levels: Vec<Vec<Node>>,
}

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Block {
    words: [u64; BLOCK_WORDS],
    /// For each word the marks in the block before it. The bit above these sums is undefined.
    before: u64,
}

/// For each child the marks in the node before it; entries of children after the last mark are
/// undefined.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Node([u32; 1 << NODE_SHIFT]);

impl ReuseDistance {
    /// Create a structure for page ids below `pages`, none of them touched.
    pub fn new(pages: u32) -> Self {
        let slots = (pages as usize).saturating_mul(TOUCHES_PER_PAGE).max(1024);
        // The number of a touch is below `NEVER`.
        let slots = slots.min(NEVER as usize);
        Self {
            latest: vec![NEVER; pages as usize],
            pages: vec![0; slots],
            marks: Marks::new(slots),
            touches: 0,
        }
    }

    /// Touches a page; returns how many other pages were touched since its previous touch, `None`
    /// if there was none. It takes the logarithm of the number of pages.
    ///
    /// # Panics
    /// If the page is not below the number of pages.
    #[inline]
    pub fn touch(&mut self, page: u32) -> Option<u32> {
        if self.touches as usize == self.pages.len() {
            self.renumber();
        }
        let previous = std::mem::replace(&mut self.latest[page as usize], self.touches);
        let distance = (previous != NEVER).then(|| self.marks.remove(previous));
        self.pages[self.touches as usize] = page;
        self.marks.append(self.touches);
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
    /// Create a structure without marks, for touches below `touches`.
    fn new(touches: usize) -> Self {
        let blocks = touches.div_ceil(BLOCK_BITS as usize);
        let mut levels = vec![];
        let mut children = blocks;
        while children > 1 {
            children = children.div_ceil(1 << NODE_SHIFT);
            levels.push(vec![Node([0; 1 << NODE_SHIFT]); children]);
        }
        let empty = Block { words: [0; BLOCK_WORDS], before: 0 };
        Self { count: 0, blocks: vec![empty; blocks], levels }
    }

    /// Adds a mark behind all that there are or were, with none left out since the last.
    #[inline]
    fn append(&mut self, touch: u32) {
        let (block, word, bit) = place(touch);
        if word == 0 && bit == 0 {
            self.open(block);
        }
        let block = &mut self.blocks[block];
        block.words[word] |= 1 << bit;
        block.before = block.before.wrapping_add(later_than(word));
        self.count += 1;
    }

    /// Notes how many marks lie before a block that will have its first.
    fn open(&mut self, block: usize) {
        let mut before = self.count;
        for (level, nodes) in self.levels.iter_mut().enumerate().rev() {
            let below = NODE_SHIFT * u32::try_from(level).expect("there are a few levels");
            let child = block >> below;
            let sum = &mut nodes[child >> NODE_SHIFT].0[child % (1 << NODE_SHIFT)];
            if child << below == block {
                *sum = before;
            }
            before -= *sum;
        }
    }

    /// Removes a mark that is there; returns how many there are after it.
    #[inline]
    fn remove(&mut self, touch: u32) -> u32 {
        let (mut child, word, bit) = place(touch);
        let block = &mut self.blocks[child];
        let in_word = (block.words[word] << (63 - bit)).count_ones();
        let mut rank = ((block.before >> (SUM_BITS * word)) % (1 << SUM_BITS)) as u32 + in_word;
        block.words[word] &= !(1 << bit);
        block.before = block.before.wrapping_sub(later_than(word));
        for nodes in &mut self.levels {
            let node = &mut nodes[child >> NODE_SHIFT].0;
            rank += node[child % (1 << NODE_SHIFT)];
            // All sums are changed, those up to the child by 0, as that takes no branch.
            for (before, less) in node.iter_mut().zip(ONE_BEHIND[child % (1 << NODE_SHIFT)]) {
                *before = before.wrapping_sub(less);
            }
            child >>= NODE_SHIFT;
        }
        let after = self.count - rank;
        self.count -= 1;
        after
    }

    /// Return all marks, in order.
    fn iter(&self) -> impl Iterator<Item = u32> {
        let words = self.blocks.iter().flat_map(|block| block.words);
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
        self.count = count;
        let mut left = count;
        for block in &mut self.blocks {
            block.before = 0;
            for (word, bits) in block.words.iter_mut().enumerate() {
                let marks = left.min(64);
                *bits = if marks == 64 { u64::MAX } else { (1 << marks) - 1 };
                let sums = u64::from(marks).wrapping_mul(later_than(word));
                block.before = block.before.wrapping_add(sums);
                left -= marks;
            }
        }
        let mut of_child = BLOCK_BITS;
        for nodes in &mut self.levels {
            for node in nodes.iter_mut() {
                for (sum, before) in node.0.iter_mut().zip(0_u32..) {
                    *sum = of_child.wrapping_mul(before);
                }
            }
            of_child = of_child.wrapping_shl(NODE_SHIFT);
        }
    }

    #[inline]
    fn prefetch(&self, touch: u32) {
        prefetch(&self.blocks, place(touch).0);
    }
}

/// Return one in each sum of the words of a block after this one.
#[inline]
const fn later_than(word: usize) -> u64 {
    ONE_IN_EACH << (SUM_BITS * (word + 1))
}

/// Return the block, the word in it and the bit in that of a touch.
#[inline]
const fn place(touch: u32) -> (usize, usize, u32) {
    let within = touch % BLOCK_BITS;
    ((touch / BLOCK_BITS) as usize, (within / 64) as usize, touch % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

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

    #[test]
    fn distances_are_right_where_the_tree_is_high() {
        // Slots for three levels of nodes, in which a few hot pages and others are touched until the
        // touches are renumbered several times.
        const PAGES: u32 = 40_000;
        const TOUCHES: u32 = 700_000;
        let page_of = |touch: u32| {
            let mixed = touch.wrapping_mul(0x9E37_79B1);
            (mixed ^ (mixed >> 15)) % if touch.is_multiple_of(3) { 100 } else { PAGES }
        };
        let mut distances = ReuseDistance::new(PAGES);
        assert_eq!(distances.marks.levels.len(), 3);
        let mut history: Vec<u32> = vec![];
        for touch in 0..TOUCHES {
            let page = page_of(touch);
            let found = distances.touch(page);
            if touch % 9973 == 0 {
                let previous = history.iter().rposition(|&other| other == page);
                let expected = previous.map(|at| {
                    let between: HashSet<u32> = history[at + 1..].iter().copied().collect();
                    u32::try_from(between.len()).unwrap()
                });
                assert_eq!(found, expected, "touch {touch}");
            }
            history.push(page);
        }
    }
}
