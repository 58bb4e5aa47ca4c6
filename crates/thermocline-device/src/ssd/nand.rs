//! The flash itself: which page holds what, what each block went through, and which are free.
//!
//! Pages of a block are programmed in ascending order, each once after an erase; skipping is
//! allowed, and skipped pages are lost until the next erase.
//!
//! * Source: the rules of ONFI and of data sheets; the greedy index of Agrawal et al., USENIX ATC
//!   '08, section 3.4.
//! * State: 8.1 bytes per page, 48 per block, 8 per plane and possible number of valid pages.
//! * Cost: O(1) per program and invalidation, O(log blocks of the plane) per erase.
//! * Deviations: (1) no read disturb, retention or uncorrectable errors; a block is retired when it
//!   reached its limit of erases.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thermocline_core::prefetch;

use super::config::SsdConfig;
use super::geometry::{Geometry, NONE};
use super::random::SplitMix64;

/// Valid bits in one word.
const WORD_BITS: u32 = u64::BITS;

/// State of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Erased, and in the pool.
    Free,
    /// Being filled.
    Open,
    /// May be collected.
    Closed,
    /// Out of use for good.
    Retired,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// Programs of the whole drive until it was closed.
    pub(crate) closed_at: u64,
    pub(crate) erases: u32,
    /// Pages that cannot be programmed any more until the next erase: they are the first ones.
    pub(crate) written: u32,
    pub(crate) valid: u32,
    /// Its neighbours among the closed blocks of equally many valid pages.
    older: u32,
    newer: u32,
    pub(crate) state: State,
}

const _: () = assert!(size_of::<Block>() == 32, "update the `State` line of the module header");

/// Closed blocks of a plane with equally many valid pages, in the order in which they came to it.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    oldest: u32,
    newest: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Plane {
    /// Free blocks; the least key is used first.
    free: BinaryHeap<Reverse<(u64, u32)>>,
    /// Pages that can be programmed.
    pub(crate) free_pages: u32,
    pub(crate) valid: u32,
    /// Blocks that are not retired.
    pub(crate) usable: u32,
    pub(crate) most_erases: u32,
    /// No closed block has fewer valid pages.
    least_valid: u32,
}

impl Plane {
    pub(crate) fn free_blocks(&self) -> u32 {
        u32::try_from(self.free.len()).expect("a plane has fewer blocks")
    }
}

/// The flash of a drive and the map of its pages.
#[derive(Clone, Debug)]
pub(crate) struct Nand {
    geometry: Geometry,
    erase_limit: u32,
    dynamic_wear: bool,
    words_per_block: u32,
    /// Flash page of each logical page; NONE if it has none.
    page_of: Vec<u32>,
    /// Logical page that each flash page held last.
    logical_of: Vec<u32>,
    /// Bits of the flash pages that `page_of` names.
    valid: Vec<u64>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) planes: Vec<Plane>,
    buckets: Vec<Bucket>,
    /// Programs since the drive was made.
    pub(crate) programs: u64,
    /// Erases since the drive was made.
    pub(crate) erases: u64,
    pub(crate) retired: u32,
}

impl Nand {
    /// Create the flash of a configuration that was checked; everything is erased.
    pub(crate) fn new(config: &SsdConfig) -> Self {
        let geometry = Geometry::new(config);
        let pages_per_block = geometry.pages_per_block;
        let blocks = geometry.blocks() as usize;
        let words_per_block = pages_per_block.div_ceil(WORD_BITS);
        let block = Block {
            closed_at: 0,
            erases: 0,
            written: 0,
            valid: 0,
            older: NONE,
            newer: NONE,
            state: State::Free,
        };
        let plane = Plane {
            free: BinaryHeap::with_capacity(geometry.blocks_per_plane as usize),
            free_pages: geometry.blocks_per_plane * pages_per_block,
            valid: 0,
            usable: geometry.blocks_per_plane,
            most_erases: 0,
            least_valid: 0,
        };
        let logical_pages = usize::try_from(config.logical_pages()).unwrap_or(usize::MAX);
        let buckets = geometry.planes as usize * (pages_per_block as usize + 1);
        let mut nand = Self {
            erase_limit: config.erase_limit,
            dynamic_wear: config.dynamic_wear,
            words_per_block,
            page_of: vec![NONE; logical_pages],
            logical_of: vec![NONE; blocks * pages_per_block as usize],
            valid: vec![0; blocks * words_per_block as usize],
            blocks: vec![block; blocks],
            planes: vec![plane; geometry.planes as usize],
            buckets: vec![Bucket { oldest: NONE, newest: NONE }; buckets],
            programs: 0,
            erases: 0,
            retired: 0,
            geometry,
        };
        nand.retire_bad_blocks(config);
        for block in 0..nand.geometry.blocks() {
            if nand.blocks[block as usize].state == State::Free {
                nand.release(block);
            }
        }
        nand
    }

    /// Equally many of each plane, at random places.
    fn retire_bad_blocks(&mut self, config: &SsdConfig) {
        let mut random = SplitMix64::new(config.seed);
        let per_plane = self.geometry.blocks_per_plane;
        for plane in 0..self.geometry.planes {
            let mut bad = 0;
            // The same number in each plane: with static allocation a plane with fewer blocks would
            // end the drive early.
            while bad < config.bad_units_per_plane() {
                let block = plane * per_plane + random.below(per_plane);
                if self.blocks[block as usize].state != State::Retired {
                    self.retire(block);
                    bad += 1;
                }
            }
        }
    }

    pub(crate) const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) const fn pages_per_block(&self) -> u32 {
        self.geometry.pages_per_block
    }

    pub(crate) const fn logical_pages(&self) -> u64 {
        self.page_of.len() as u64
    }

    pub(crate) fn block(&self, block: u32) -> &Block {
        &self.blocks[block as usize]
    }

    pub(crate) fn plane(&self, plane: u32) -> &Plane {
        &self.planes[plane as usize]
    }

    /// Return the flash page of a logical page; NONE if it was not written or is trimmed.
    pub(crate) fn page_of(&self, logical: u32) -> u32 {
        self.page_of[logical as usize]
    }

    pub(crate) fn logical_of(&self, page: u32) -> u32 {
        self.logical_of[page as usize]
    }

    pub(crate) fn prefetch(&self, logical: u32) {
        prefetch(&self.page_of, logical as usize);
    }

    /// Return the first page of a block; that of the next block is the end of this one.
    pub(crate) const fn first_page(&self, block: u32) -> u32 {
        block * self.geometry.pages_per_block
    }

    fn bit_of(&self, page: u32) -> (usize, u64) {
        let block = self.geometry.block_of_page(page);
        let within = page - self.first_page(block);
        let word = block as usize * self.words_per_block as usize + (within / WORD_BITS) as usize;
        (word, 1 << (within % WORD_BITS))
    }

    pub(crate) fn is_valid(&self, page: u32) -> bool {
        let (word, bit) = self.bit_of(page);
        self.valid[word] & bit != 0
    }

    /// Takes a free block into use: the least worn or longest free one, or the most worn one.
    pub(crate) fn open(&mut self, plane: u32, wanted: Wanted) -> Option<u32> {
        let free = &mut self.planes[plane as usize].free;
        let block = match wanted {
            Wanted::Next => free.pop()?.0.1,
            Wanted::MostWorn => {
                let blocks = &self.blocks;
                let erases = |block: u32| (blocks[block as usize].erases, Reverse(block));
                let block = free.iter().map(|entry| entry.0.1).max_by_key(|&one| erases(one))?;
                // O(free blocks), but only static wear levelling asks for the most worn one, once
                // per block that it moves.
                free.retain(|entry| entry.0.1 != block);
                block
            }
        };
        self.blocks[block as usize].state = State::Open;
        Some(block)
    }

    /// Programs the next page of an open block with a logical page, whose former copy, if any,
    /// becomes invalid.
    pub(crate) fn program(&mut self, block: u32, logical: u32) -> u32 {
        let entry = &mut self.blocks[block as usize];
        assert_eq!(entry.state, State::Open, "only open blocks are programmed");
        assert!(entry.written < self.geometry.pages_per_block, "a page is programmed once");
        let page = block * self.geometry.pages_per_block + entry.written;
        entry.written += 1;
        entry.valid += 1;
        let plane = &mut self.planes[self.geometry.plane_of_block(block) as usize];
        plane.free_pages -= 1;
        plane.valid += 1;
        self.programs += 1;
        self.logical_of[page as usize] = logical;
        let (word, bit) = self.bit_of(page);
        self.valid[word] |= bit;
        // Out-of-place update: the old copy stays on the flash, invalid, until its block is erased.
        let former = std::mem::replace(&mut self.page_of[logical as usize], page);
        if former != NONE {
            self.invalidate(former);
        }
        page
    }

    /// Gives up pages of an open block so that `within` is the next one.
    pub(crate) fn skip_to(&mut self, block: u32, within: u32) {
        let entry = &mut self.blocks[block as usize];
        assert!(entry.written <= within, "pages are programmed in ascending order");
        let skipped = within - entry.written;
        entry.written = within;
        // A skipped page cannot be programmed before the next erase, so it is not free.
        self.planes[self.geometry.plane_of_block(block) as usize].free_pages -= skipped;
    }

    /// Forgets a logical page.
    pub(crate) fn trim(&mut self, logical: u32) {
        let former = std::mem::replace(&mut self.page_of[logical as usize], NONE);
        if former != NONE {
            self.invalidate(former);
        }
    }

    fn invalidate(&mut self, page: u32) {
        let (word, bit) = self.bit_of(page);
        debug_assert!(self.valid[word] & bit != 0, "only a valid page becomes invalid");
        self.valid[word] &= !bit;
        let block = self.geometry.block_of_page(page);
        self.planes[self.geometry.plane_of_block(block) as usize].valid -= 1;
        // Only closed blocks stand in buckets: an open one gets its bucket when it is closed.
        if self.blocks[block as usize].state == State::Closed {
            self.unlink(block);
            self.blocks[block as usize].valid -= 1;
            self.link(block);
        } else {
            self.blocks[block as usize].valid -= 1;
        }
    }

    pub(crate) fn is_full(&self, block: u32) -> bool {
        self.blocks[block as usize].written == self.geometry.pages_per_block
    }

    /// Makes an open block one that may be collected.
    pub(crate) fn close(&mut self, block: u32) {
        let entry = &mut self.blocks[block as usize];
        assert_eq!(entry.state, State::Open, "only open blocks are closed");
        entry.state = State::Closed;
        // The clock of the age in cost-benefit and of static wear levelling: programs, as a drive
        // without writes ages nothing.
        entry.closed_at = self.programs;
        self.link(block);
    }

    /// Makes a closed block one that is being emptied or, if it has room, filled.
    pub(crate) fn reopen(&mut self, block: u32) {
        assert_eq!(self.block(block).state, State::Closed, "only closed blocks are reopened");
        self.unlink(block);
        self.blocks[block as usize].state = State::Open;
    }

    /// Erases an open block without valid pages; it is free then, or retired.
    pub(crate) fn erase(&mut self, block: u32) {
        let pages_per_block = self.geometry.pages_per_block;
        let entry = &mut self.blocks[block as usize];
        // The one check that stands between a mistake of a translation layer and lost data.
        assert_eq!((entry.valid, entry.state), (0, State::Open), "nothing is lost by an erase");
        let plane = &mut self.planes[self.geometry.plane_of_block(block) as usize];
        plane.free_pages += entry.written;
        debug_assert!(entry.written <= pages_per_block);
        entry.written = 0;
        entry.erases += 1;
        plane.most_erases = plane.most_erases.max(entry.erases);
        self.erases += 1;
        // Retired after its last erase: it holds no data, so nothing has to be moved.
        if entry.erases >= self.erase_limit {
            self.retire(block);
        } else {
            entry.state = State::Free;
            self.release(block);
        }
    }

    /// Adds a free block to the pool.
    fn release(&mut self, block: u32) {
        let worn = u64::from(self.blocks[block as usize].erases);
        // Dynamic wear levelling uses the least worn free block first; without it, blocks come back
        // in the order of their erases.
        let key = if self.dynamic_wear { worn } else { self.erases };
        let plane = self.geometry.plane_of_block(block);
        self.planes[plane as usize].free.push(Reverse((key, block)));
    }

    fn retire(&mut self, block: u32) {
        self.blocks[block as usize].state = State::Retired;
        let plane = &mut self.planes[self.geometry.plane_of_block(block) as usize];
        plane.usable -= 1;
        plane.free_pages -= self.geometry.pages_per_block;
        self.retired += 1;
    }

    /// Collects the valid pages of a block in ascending order, and prefetches their map entries.
    pub(crate) fn valid_pages(&self, block: u32, pages: &mut Vec<u32>) {
        pages.clear();
        let first = self.first_page(block);
        let start = block as usize * self.words_per_block as usize;
        let words = &self.valid[start..start + self.words_per_block as usize];
        for (index, &word) in (0..).zip(words) {
            let mut rest = word;
            while rest != 0 {
                let page = first + index * WORD_BITS + rest.trailing_zeros();
                // Clears the lowest set bit, so the loop takes a step per valid page and not per
                // page.
                rest &= rest - 1;
                prefetch(&self.page_of, self.logical_of[page as usize] as usize);
                pages.push(page);
            }
        }
    }

    /// Return the closed block of a plane with the fewest valid pages; of several, the one that
    /// came to it first.
    pub(crate) fn emptiest(&mut self, plane: u32) -> Option<u32> {
        let most = self.geometry.pages_per_block;
        // A bound that `link` lowers and this search raises: amortised O(1), as pages become
        // invalid one at a time.
        let mut valid = self.planes[plane as usize].least_valid;
        loop {
            let block = self.buckets[self.bucket(plane, valid)].oldest;
            if block != NONE || valid == most {
                self.planes[plane as usize].least_valid = valid;
                return Some(block).filter(|&block| block != NONE);
            }
            valid += 1;
        }
    }

    fn bucket(&self, plane: u32, valid: u32) -> usize {
        plane as usize * (self.geometry.pages_per_block as usize + 1) + valid as usize
    }

    fn link(&mut self, block: u32) {
        let plane = self.geometry.plane_of_block(block);
        let valid = self.blocks[block as usize].valid;
        let bucket = self.bucket(plane, valid);
        let older = std::mem::replace(&mut self.buckets[bucket].newest, block);
        match older {
            NONE => self.buckets[bucket].oldest = block,
            older => self.blocks[older as usize].newer = block,
        }
        let entry = &mut self.blocks[block as usize];
        (entry.older, entry.newer) = (older, NONE);
        let least_valid = &mut self.planes[plane as usize].least_valid;
        *least_valid = valid.min(*least_valid);
    }

    fn unlink(&mut self, block: u32) {
        let Block { older, newer, valid, .. } = self.blocks[block as usize];
        let bucket = self.bucket(self.geometry.plane_of_block(block), valid);
        match older {
            NONE => self.buckets[bucket].oldest = newer,
            older => self.blocks[older as usize].newer = newer,
        }
        match newer {
            NONE => self.buckets[bucket].newest = older,
            newer => self.blocks[newer as usize].older = older,
        }
    }

    /// Memory that grows with the drive, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let entries = self.planes.iter().map(|plane| plane.free.capacity()).sum::<usize>();
        size_of_val(&*self.page_of)
            + size_of_val(&*self.logical_of)
            + size_of_val(&*self.valid)
            + size_of_val(&*self.blocks)
            + size_of_val(&*self.buckets)
            + size_of_val(&*self.planes)
            + entries * size_of::<Reverse<(u64, u32)>>()
    }

    /// Checks the map against the blocks, and the blocks against the planes.
    pub(crate) fn assert_invariants(&self) {
        for (logical, &page) in (0..).zip(&self.page_of) {
            if page != NONE {
                assert_eq!(
                    self.logical_of[page as usize], logical,
                    "the flash page knows its page"
                );
                assert!(self.is_valid(page), "a mapped page is valid");
            }
        }
        let mapped = self.page_of.iter().filter(|&&page| page != NONE).count();
        let valid: u32 = self.valid.iter().map(|word| word.count_ones()).sum();
        assert_eq!(valid as usize, mapped, "every valid page is mapped");
        let pages_per_block = self.geometry.pages_per_block;
        for block in 0..self.geometry.blocks() {
            let entry = self.block(block);
            let start = block as usize * self.words_per_block as usize;
            let words = &self.valid[start..start + self.words_per_block as usize];
            let valid: u32 = words.iter().map(|word| word.count_ones()).sum();
            assert_eq!(entry.valid, valid, "a block counts its valid pages");
            let first = self.first_page(block);
            for page in first + entry.written..first + pages_per_block {
                assert!(!self.is_valid(page), "a page that is not programmed holds nothing");
            }
            match entry.state {
                State::Free | State::Retired => assert_eq!(entry.written, 0, "it is erased"),
                State::Open | State::Closed => {}
            }
        }
        (0..self.geometry.planes).for_each(|plane| self.assert_plane(plane));
        let erases: u64 = self.blocks.iter().map(|block| u64::from(block.erases)).sum();
        assert_eq!(erases, self.erases, "every erase is of one block");
    }

    fn assert_plane(&self, plane: u32) {
        let entry = self.plane(plane);
        let per_plane = self.geometry.blocks_per_plane;
        let blocks = &self.blocks[(plane * per_plane) as usize..][..per_plane as usize];
        let valid: u32 = blocks.iter().map(|block| block.valid).sum();
        assert_eq!(entry.valid, valid, "a plane counts its valid pages");
        let of = |state| blocks.iter().filter(move |block| block.state == state);
        assert_eq!(of(State::Free).count(), entry.free.len(), "free blocks are in the pool");
        let usable = blocks.iter().filter(|block| block.state != State::Retired);
        let free: u32 = usable.clone().map(|block| self.pages_per_block() - block.written).sum();
        assert_eq!(free, entry.free_pages, "a plane counts its free pages");
        assert_eq!(usable.count(), entry.usable as usize, "a plane counts its blocks");
        let mut listed = 0;
        for valid in 0..=self.pages_per_block() {
            let Bucket { oldest, newest } = self.buckets[self.bucket(plane, valid)];
            let (mut older, mut cursor) = (NONE, oldest);
            while cursor != NONE {
                let block = self.block(cursor);
                assert_eq!(block.older, older, "links are symmetric");
                assert_eq!((block.valid, block.state), (valid, State::Closed), "it belongs there");
                assert!(valid >= entry.least_valid, "no block has fewer valid pages");
                listed += 1;
                assert!(listed <= blocks.len(), "the list has no cycle");
                (older, cursor) = (cursor, block.newer);
            }
            assert_eq!(older, newest, "the walk ends at the newest block");
        }
        assert_eq!(listed, of(State::Closed).count(), "every closed block is listed");
    }
}

/// Choice of a free block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The next one by the drive's wear levelling.
    Next,
    /// The most worn one; of several, the first.
    MostWorn,
}
