//! Block mapping: a page keeps its place in its block, so that writing it again moves the block.
//!
//! The first page written again goes to a new block, behind copies of those before it. Pages that
//! follow are added there; the rest of the old block is copied, and the old block erased, as soon as
//! another block of the plane, or a page before, is written. Writing a block again in order thus
//! copies nothing.
//!
//! * Source: the in-place block mapping of Ban, US patent 5,404,485, 1995, and of Chung et al., *A
//!   survey of flash translation layer*, Journal of Systems Architecture 55, 2009.
//! * State: 4 bytes per logical block, 12 per plane, besides the flash's.
//! * Cost: O(pages per block) per block moved.
//! * Deviations: (1) the page map of the flash stays, for reading and checking; a drive would have
//!   4 bytes per block. (2) Blocks go to planes in turn, in the order of striping. (3) Pages skipped
//!   in a block wait for the next move of the block. (4) No static wear levelling.

use super::super::error::Exhausted;
use super::super::geometry::NONE;
use super::super::nand::{Nand, Wanted};
use super::{Cause, Tally, Work, relocate};

/// A block on its way to a new place.
#[derive(Clone, Copy, Debug)]
struct Move {
    logical_block: u32,
    target: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct BlockMap {
    pub(crate) tally: Tally,
    /// Per logical block its flash block; NONE if it was never written.
    block_of: Vec<u32>,
    /// Per plane.
    moves: Vec<Option<Move>>,
}

impl BlockMap {
    pub(crate) fn new(nand: &Nand) -> Self {
        Self {
            tally: Tally::default(),
            block_of: vec![NONE; logical_blocks(nand)],
            moves: vec![None; nand.geometry().planes as usize],
        }
    }

    pub(crate) fn write(
        &mut self,
        nand: &mut Nand,
        logical: u32,
        work: &mut impl Work,
    ) -> Result<(), Exhausted> {
        let (logical_block, within) = split(nand, logical);
        let plane = plane_of(nand, logical_block);
        let block = self.block_of[logical_block as usize];
        if let Some(moving) = self.moves[plane as usize] {
            let next = nand.block(moving.target).written;
            // Writing on in order costs no copies: the move is finished by the host itself.
            if moving.logical_block == logical_block && within >= next {
                copy_up_to(nand, moving, within, &mut self.tally, work);
                self.place(nand, moving.target, logical, within, work);
                self.finish_if_full(nand, plane, work);
                return Ok(());
            }
            self.finish(nand, plane, work);
        }
        // Finishing may have given the block a new place.
        let block = if block == NONE { NONE } else { self.block_of[logical_block as usize] };
        if block != NONE && within >= nand.block(block).written {
            nand.skip_to(block, within);
            self.place(nand, block, logical, within, work);
            return Ok(());
        }
        let target = nand.open(plane, Wanted::Next).ok_or(Exhausted)?;
        if block == NONE {
            self.block_of[logical_block as usize] = target;
            nand.skip_to(target, within);
            self.place(nand, target, logical, within, work);
            return Ok(());
        }
        let moving = Move { logical_block, target };
        // The old block stays mapped until the move ends, as it holds the pages that are not yet
        // copied.
        self.moves[plane as usize] = Some(moving);
        copy_up_to(nand, moving, within, &mut self.tally, work);
        self.place(nand, target, logical, within, work);
        self.finish_if_full(nand, plane, work);
        Ok(())
    }

    fn place(
        &mut self,
        nand: &mut Nand,
        block: u32,
        logical: u32,
        within: u32,
        work: &mut impl Work,
    ) {
        nand.skip_to(block, within);
        let page = nand.program(block, logical);
        self.tally.host_programs += 1;
        work.program(nand.geometry().plane_of_block(block), page, within);
    }

    fn finish_if_full(&mut self, nand: &mut Nand, plane: u32, work: &mut impl Work) {
        if self.moves[plane as usize].is_some_and(|moving| nand.is_full(moving.target)) {
            self.finish(nand, plane, work);
        }
    }

    /// Copies what is left, erases the old block, and maps the new one.
    fn finish(&mut self, nand: &mut Nand, plane: u32, work: &mut impl Work) {
        let Some(moving) = self.moves[plane as usize].take() else { return };
        copy_up_to(nand, moving, nand.pages_per_block(), &mut self.tally, work);
        let entry = &mut self.block_of[moving.logical_block as usize];
        let old = std::mem::replace(entry, moving.target);
        // After the last copy: an earlier erase would lose the pages behind the one that was
        // written.
        nand.erase(old);
        work.erase(plane, Cause::Gc);
        self.tally.full_merges += 1;
    }

    /// Memory that grows with the drive, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.block_of) + size_of_val(&*self.moves)
    }

    pub(crate) fn assert_invariants(&self, nand: &Nand) {
        for logical in 0..nand.logical_pages() {
            let logical = u32::try_from(logical).expect("page numbers have 32 bits");
            let page = nand.page_of(logical);
            if page != NONE {
                let (logical_block, within) = split(nand, logical);
                let block = nand.geometry().block_of_page(page);
                assert_eq!(page - nand.first_page(block), within, "a page keeps its place");
                let moving = self.moves[plane_of(nand, logical_block) as usize];
                let is_moved = moving.is_some_and(|moving| moving.target == block);
                let is_home = self.block_of[logical_block as usize] == block;
                assert!(is_moved || is_home, "a page is in its block, or on its way");
            }
        }
    }
}

/// Copies the pages of the block that stand before `end` and are not yet in the new place.
fn copy_up_to(nand: &mut Nand, moving: Move, end: u32, tally: &mut Tally, work: &mut impl Work) {
    for within in nand.block(moving.target).written..end {
        let page = nand.page_of(moving.logical_block * nand.pages_per_block() + within);
        if page != NONE {
            nand.skip_to(moving.target, within);
            relocate(nand, page, moving.target, Cause::Gc, work);
            tally.gc_copies += 1;
        }
    }
}

pub(super) fn logical_blocks(nand: &Nand) -> usize {
    usize::try_from(nand.logical_pages()).unwrap_or(usize::MAX) / nand.pages_per_block() as usize
}

/// Return the logical block of a page, and its place there.
pub(super) const fn split(nand: &Nand, logical: u32) -> (u32, u32) {
    (logical / nand.pages_per_block(), logical % nand.pages_per_block())
}

pub(super) fn plane_of(nand: &Nand, logical_block: u32) -> u32 {
    nand.geometry().order[(logical_block % nand.geometry().planes) as usize]
}
