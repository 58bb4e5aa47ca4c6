//! FAB, BPLRU and LB-CLOCK: pages grouped by flash block, evicted a block at a time.
//!
//! FAB evicts the block with the most pages, BPLRU the block that was written longest ago, and
//! LB-CLOCK the block with the most pages among those that its clock found unused. BPLRU and LB-CLOCK
//! let a block go early that was written from its first page to its last.
//!
//! * Source: Jo, Kang, Park, Kim, Lee, *FAB: flash-aware buffer management policy for portable media
//!   players*, IEEE Trans. Consumer Electronics 52(2), 2006; Kim, Ahn, *BPLRU: a buffer management
//!   scheme for improving random writes in flash storage*, FAST 2008; Debnath, Subramanya, Du, Lilja,
//!   *Large block CLOCK (LB-CLOCK): a write caching algorithm for solid state disks*, MASCOTS 2009.
//! * State: 17 bytes per page that exists, 16 to 40 per block that exists.
//! * Cost: O(1) per access for FAB and BPLRU, O(log n) for LB-CLOCK in the blocks of the buffer, plus
//!   sorting the pages that are evicted.
//! * Deviations: (1) reads change nothing: these are write buffers. (2) FAB and BPLRU
//!   evict the block that is being written only if there is no other; LB-CLOCK goes by its bit. (3) LB-CLOCK's priority of sequential blocks is a
//!   recency bit that stays clear; the weights by which the paper varies recency against utilisation
//!   are not in its abstract. (4) Page padding of BPLRU is off by default: it pays for FTLs with log
//!   blocks and only adds programs under page mapping. It reaches the pages that the trace knows, as
//!   no others exist.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt::Debug;

use super::frames::Frames;
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::blocks::{Blocks, PAGES_PER_BLOCK};
use crate::queue::{IndexedHeap, Lists};
use crate::{Access, Actions, BoxedPolicy, Op, PageId, Policy, Setup, Survivor};

/// The parameters of FAB and LB-CLOCK.
pub const PARAMETERS: &[Parameter] = &[PAGES_PER_BLOCK];

/// The parameters of BPLRU.
pub const BPLRU_PARAMETERS: &[Parameter] = &[
    PAGES_PER_BLOCK,
    Parameter::switch("padding", false)
        .summary("write a block whole, with its missing pages read from the NAND")
        .source("the paper pads; off, as that is for FTLs with log blocks"),
    Parameter::switch("compensation", true)
        .summary("a block written from its first page to its last is the next to go")
        .source("the paper's LRU compensation"),
];

/// The order in which blocks are evicted.
trait Order: Debug {
    /// Notes that a page of a block was written.
    fn wrote(&mut self, block: u32, written: Written);

    /// Return the block to evict so that a page of the block `own` has room.
    fn victim(&mut self, own: u32) -> u32;

    /// Notes that a block left the buffer.
    fn evicted(&mut self, block: u32);

    fn memory_bytes(&self) -> usize;

    /// Checks that exactly the blocks with pages are in order.
    fn assert_invariants(&self, pages: &[u32]);
}

/// A page of a block was written.
#[derive(Clone, Copy, Debug)]
struct Written {
    /// Number of the block's pages that are in the buffer now.
    pages: u32,
    /// `true` if the block has just been written from its first page to its last.
    is_sequential: bool,
}

/// A buffer that evicts whole blocks.
#[derive(Debug)]
struct BlockList<O> {
    frames: Frames,
    blocks: Blocks,
    /// Each block's pages in the buffer.
    pages: Lists,
    order: O,
    /// Per block: the page that would go on with a sequential run from its first page.
    next_offset: Vec<u32>,
    /// The pages that are being evicted, by address.
    victims: Vec<PageId>,
    padding: Option<Padding>,
}

/// All pages by block.
#[derive(Debug)]
struct Padding {
    /// All pages, by address.
    pages: Vec<PageId>,
    /// Per block: its first page among them; and their end.
    starts: Vec<u32>,
}

/// The row of `fab` in the registry.
pub const FAB: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("fab"),
    summary: "evict the block with the most pages",
    source: "Jo et al.: FAB, IEEE Trans. Consumer Electronics 52(2), 2006",
    module: module_path!(),
    capabilities: Capabilities {
        whole_block: Some(&PAGES_PER_BLOCK),
        ..Capabilities::of(Depth::Buffer)
    },
    parameters: PARAMETERS,
    build: Build::Function(build_fab),
};

/// The row of `bplru` in the registry.
pub const BPLRU: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("bplru"),
    summary: "evict the block that was written longest ago",
    source: "Kim, Ahn: BPLRU, FAST 2008",
    module: module_path!(),
    capabilities: Capabilities {
        whole_block: Some(&PAGES_PER_BLOCK),
        ..Capabilities::of(Depth::Buffer)
    },
    parameters: BPLRU_PARAMETERS,
    build: Build::Function(build_bplru),
};

/// The row of `lb-clock` in the registry.
pub const LB_CLOCK: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("lb-clock"),
    summary: "evict the block with the most pages among those that a clock found unused",
    source: "Debnath et al.: LB-CLOCK, MASCOTS 2009",
    module: module_path!(),
    capabilities: Capabilities {
        whole_block: Some(&PAGES_PER_BLOCK),
        ..Capabilities::of(Depth::Buffer)
    },
    parameters: PARAMETERS,
    build: Build::Function(build_lb_clock),
};

/// Builds FAB for the registry.
fn build_fab(setup: &Setup, values: &Values) -> BoxedPolicy {
    let blocks = Blocks::new(&setup.geometry, values.integer_u32("pages_per_block"));
    let order =
        MostPages { by_pages: Lists::new(blocks.count(), blocks.pages_per_block() + 1), most: 0 };
    Box::new(BlockList::new(setup, blocks, order, false))
}

/// Builds BPLRU for the registry.
fn build_bplru(setup: &Setup, values: &Values) -> BoxedPolicy {
    let blocks = Blocks::new(&setup.geometry, values.integer_u32("pages_per_block"));
    let is_compensated = values.switch("compensation");
    let order = OldestWrite { blocks: Lists::new(blocks.count(), 1), is_compensated };
    Box::new(BlockList::new(setup, blocks, order, values.switch("padding")))
}

/// Builds LB-CLOCK for the registry.
fn build_lb_clock(setup: &Setup, values: &Values) -> BoxedPolicy {
    let blocks = Blocks::new(&setup.geometry, values.integer_u32("pages_per_block"));
    let order = Clock {
        ring: Lists::new(blocks.count(), 1),
        unused: IndexedHeap::new(blocks.count()),
        states: vec![ClockState::default(); blocks.count() as usize],
        placed: 0,
    };
    Box::new(BlockList::new(setup, blocks, order, false))
}

impl<O: Order> BlockList<O> {
    fn new(setup: &Setup, blocks: Blocks, order: O, is_padded: bool) -> Self {
        Self {
            frames: Frames::new(setup),
            pages: Lists::new(setup.geometry.pages(), blocks.count()),
            order,
            next_offset: vec![0; blocks.count() as usize],
            victims: Vec::with_capacity(blocks.pages_per_block() as usize),
            padding: is_padded.then(|| Padding::new(&blocks)),
            blocks,
        }
    }

    /// Evicts a block, so that a page of the block `own` has room.
    fn make_room(&mut self, own: u32, out: &mut Actions) {
        let block = self.order.victim(own);
        // BPLRU reads the block's missing pages and writes the whole block, so that a switch merge
        // suffices.
        if let Some(padding) = &self.padding {
            for &page in padding.pages_of(block) {
                if self.frames.hold(page) {
                    self.pages.remove(page.0);
                    self.frames.evict(page, out);
                } else {
                    self.frames.pad(page, out);
                }
            }
        } else {
            self.victims.clear();
            self.victims.extend(self.pages.iter(block).map(PageId));
            self.blocks.sort(&mut self.victims);
            for &page in &self.victims {
                self.pages.remove(page.0);
                self.frames.evict(page, out);
            }
        }
        // A block that comes back starts a new run: what was written before it left does not make
        // the next run sequential.
        self.next_offset[block as usize] = 0;
        self.order.evicted(block);
    }

    /// Return `true` if a write of this page ends a run over the whole block.
    fn ends_run(&mut self, page: PageId, block: u32) -> bool {
        let offset = self.blocks.offset(page);
        let next = &mut self.next_offset[block as usize];
        // A write of the first page starts a run even in the middle of another; any other page out
        // of order ends it.
        *next = if offset == *next { *next + 1 } else { u32::from(offset == 0) };
        *next == self.blocks.pages_per_block()
    }
}

impl Padding {
    fn new(blocks: &Blocks) -> Self {
        let pages = blocks.pages_by_address();
        let mut starts = vec![0; blocks.count() as usize + 1];
        for &page in &pages {
            starts[blocks.of(page) as usize + 1] += 1;
        }
        for block in 1..starts.len() {
            starts[block] += starts[block - 1];
        }
        Self { pages, starts }
    }

    fn pages_of(&self, block: u32) -> &[PageId] {
        let [start, end] = [block, block + 1].map(|block| self.starts[block as usize] as usize);
        &self.pages[start..end]
    }
}

impl<O: Order> Policy for BlockList<O> {
    fn access(&mut self, Access { page, op, .. }: Access, out: &mut Actions) {
        if op == Op::Read {
            return self.frames.read(page, out);
        }
        let block = self.blocks.of(page);
        if !self.frames.hold(page) {
            if self.frames.are_full() {
                self.make_room(block, out);
            }
            self.pages.push_front(block, page.0);
        }
        self.frames.write(page, out);
        let is_sequential = self.ends_run(page, block);
        self.order.wrote(block, Written { pages: self.pages.len(block), is_sequential });
    }

    fn flush(&mut self, out: &mut Actions) {
        self.frames.clean(out);
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        self.frames.surrender(survivors, out);
    }

    fn prefetch(&self, page: PageId) {
        self.frames.prefetch(page);
        self.blocks.prefetch(page);
        self.pages.prefetch(page.0);
    }

    fn assert_invariants(&self) {
        self.frames.assert_invariants();
        self.pages.assert_invariants();
        let pages: Vec<u32> = (0..self.blocks.count()).map(|block| self.pages.len(block)).collect();
        assert_eq!(pages.iter().sum::<u32>(), self.frames.held(), "every page is in its block");
        self.order.assert_invariants(&pages);
    }

    fn memory_bytes(&self) -> usize {
        let padding = self
            .padding
            .as_ref()
            .map_or(0, |padding| size_of_val(&*padding.pages) + size_of_val(&*padding.starts));
        self.frames.memory_bytes()
            + self.blocks.memory_bytes()
            + self.pages.memory_bytes()
            + self.order.memory_bytes()
            + size_of_val(&*self.next_offset)
            + self.victims.capacity() * size_of::<PageId>()
            + padding
    }
}

/// FAB: the most pages; of several, the oldest write.
#[derive(Debug)]
struct MostPages {
    /// The blocks by how many pages they have, the newest write first.
    by_pages: Lists,
    /// No block has more pages.
    most: u32,
}

impl Order for MostPages {
    fn wrote(&mut self, block: u32, written: Written) {
        if self.by_pages.contains(block) {
            self.by_pages.remove(block);
        }
        self.by_pages.push_front(written.pages, block);
        self.most = self.most.max(written.pages);
    }

    fn victim(&mut self, own: u32) -> u32 {
        // `most` only rises by a page per write, so this costs O(1) per write in all.
        while self.most > 0 && self.by_pages.is_empty(self.most) {
            self.most -= 1;
        }
        let fullest = (1..=self.most).rev().find_map(|pages| {
            let oldest = self.by_pages.back(pages)?;
            // The page to be written would reopen its own block at once, so another block leaves.
            if oldest == own { self.by_pages.before(oldest) } else { Some(oldest) }
        });
        fullest.unwrap_or(own)
    }

    fn evicted(&mut self, block: u32) {
        self.by_pages.remove(block);
    }

    fn memory_bytes(&self) -> usize {
        self.by_pages.memory_bytes()
    }

    fn assert_invariants(&self, pages: &[u32]) {
        self.by_pages.assert_invariants();
        for (block, &pages) in (0_u32..).zip(pages) {
            let list = (pages > 0).then_some(pages);
            assert_eq!(self.by_pages.list_of(block), list, "blocks are listed by their pages");
            assert!(pages <= self.most, "no block has more than the most pages");
        }
    }
}

/// BPLRU: the oldest write.
#[derive(Debug)]
struct OldestWrite {
    /// The blocks, the newest write first.
    blocks: Lists,
    is_compensated: bool,
}

impl Order for OldestWrite {
    fn wrote(&mut self, block: u32, written: Written) {
        if self.blocks.contains(block) {
            self.blocks.remove(block);
        }
        // BPLRU's LRU compensation: a block that was written in full order is not expected to be
        // written again.
        if written.is_sequential && self.is_compensated {
            self.blocks.push_back(0, block);
        } else {
            self.blocks.push_front(0, block);
        }
    }

    fn victim(&mut self, own: u32) -> u32 {
        let oldest = self.blocks.back(0).unwrap_or(own);
        // Deviation (2): the own block would be opened again at once by the page that waits.
        if oldest == own { self.blocks.before(oldest).unwrap_or(own) } else { oldest }
    }

    fn evicted(&mut self, block: u32) {
        self.blocks.remove(block);
    }

    fn memory_bytes(&self) -> usize {
        self.blocks.memory_bytes()
    }

    fn assert_invariants(&self, pages: &[u32]) {
        self.blocks.assert_invariants();
        for (block, &pages) in (0_u32..).zip(pages) {
            assert_eq!(self.blocks.contains(block), pages > 0, "blocks with pages are in order");
        }
    }
}

/// LB-CLOCK: the most pages among the blocks whose recency bit is clear.
#[derive(Debug)]
struct Clock {
    /// The blocks, from the hand on.
    ring: Lists,
    /// The blocks whose bit is clear: the fullest first, of several the one nearest to the hand.
    unused: IndexedHeap<(Reverse<u32>, u64)>,
    states: Vec<ClockState>,
    /// Number of times that a block was put at the end of the ring.
    placed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct ClockState {
    /// Value of the counter when the block was put at the end of the ring: the lower, the nearer to
    /// the hand.
    place: u64,
    pages: u32,
}

impl Clock {
    /// Puts a block at the end of the ring, just behind the hand.
    fn place_last(&mut self, block: u32) {
        self.ring.push_back(0, block);
        self.placed += 1;
        self.states[block as usize].place = self.placed;
    }

    /// Clears the bit of a block.
    fn clear(&mut self, block: u32) {
        let ClockState { place, pages } = self.states[block as usize];
        self.unused.set(block, (Reverse(pages), place));
    }

    /// Moves the hand on to a block whose bit is clear, and clears the bits that it passes.
    fn sweep(&mut self) {
        while let Some(block) = self.ring.front(0)
            && !self.unused.contains(block)
        {
            self.ring.remove(block);
            self.place_last(block);
            self.clear(block);
        }
    }
}

impl Order for Clock {
    fn wrote(&mut self, block: u32, written: Written) {
        let is_new = !self.ring.contains(block);
        if is_new {
            self.place_last(block);
        }
        self.states[block as usize].pages = written.pages;
        // LB-CLOCK: the bit of a new block is clear, and so is that of a block written in full
        // order.
        if is_new || written.is_sequential {
            self.clear(block);
        } else {
            self.unused.remove(block);
        }
    }

    fn victim(&mut self, own: u32) -> u32 {
        if self.unused.is_empty() {
            self.sweep();
        }
        self.unused.least().map_or(own, |(_, block)| block)
    }

    fn evicted(&mut self, block: u32) {
        self.ring.remove(block);
        self.unused.remove(block);
        self.sweep();
    }

    fn memory_bytes(&self) -> usize {
        self.ring.memory_bytes() + self.unused.memory_bytes() + size_of_val(&*self.states)
    }

    fn assert_invariants(&self, pages: &[u32]) {
        self.ring.assert_invariants();
        self.unused.assert_invariants();
        let mut last = 0;
        for block in self.ring.iter(0) {
            let state = self.states[block as usize];
            assert!(state.place > last, "places grow along the ring");
            assert_eq!(state.pages, pages[block as usize], "blocks are counted");
            last = state.place;
        }
        for (block, &pages) in (0_u32..).zip(pages) {
            assert_eq!(self.ring.contains(block), pages > 0, "blocks with pages are on the ring");
        }
        for ((Reverse(pages), place), block) in self.unused.iter() {
            let state = self.states[block as usize];
            assert_eq!((pages, place), (state.pages, state.place), "the heap is up to date");
        }
    }
}
