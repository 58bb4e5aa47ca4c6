//! Flash translation layers: where the host's pages go, and what is moved and erased for it.
//!
//! A layer changes the [`Nand`] at once and tells the [`Work`] that this is on the flash, in an order
//! in which it can be done: what is read was programmed, and what is programmed was erased.

mod bast;
mod block_map;
mod page_map;
mod victim;

use super::config::{Mapping, SsdConfig};
use super::error::Exhausted;
use super::nand::Nand;
use bast::Bast;
use block_map::BlockMap;
use page_map::PageMap;

/// Cause for which the drive moves pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Garbage collection, and the merges of block mappings.
    Gc,
    /// Static wear levelling.
    Wear,
}

/// Takes note of what the flash has to do.
pub(crate) trait Work {
    /// Flash page `page` of a plane is programmed for the host; `within` is its place in the block.
    fn program(&mut self, plane: u32, page: u32, within: u32);

    /// Account for a page that moves inside a plane, from and to these places in their blocks.
    fn copy(&mut self, plane: u32, source_within: u32, target_within: u32, cause: Cause);

    /// Account for the erase of a block of a plane.
    fn erase(&mut self, plane: u32, cause: Cause);
}

/// Work that takes no time.
#[derive(Debug)]
pub(crate) struct Untimed;

impl Work for Untimed {
    fn program(&mut self, _: u32, _: u32, _: u32) {}

    fn copy(&mut self, _: u32, _: u32, _: u32, _: Cause) {}

    fn erase(&mut self, _: u32, _: Cause) {}
}

/// Counts of a layer's operations since they were taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) host_programs: u64,
    pub(crate) gc_copies: u64,
    pub(crate) wear_copies: u64,
    pub(crate) switch_merges: u64,
    pub(crate) partial_merges: u64,
    pub(crate) full_merges: u64,
}

/// A translation layer of one of the kinds.
#[derive(Clone, Debug)]
pub(crate) enum Ftl {
    Page(PageMap),
    Block(BlockMap),
    Bast(Bast),
}

impl Ftl {
    pub(crate) fn new(config: &SsdConfig, nand: &Nand) -> Self {
        match config.mapping {
            Mapping::Page => Self::Page(PageMap::new(config, nand)),
            Mapping::Block => Self::Block(BlockMap::new(nand)),
            Mapping::Bast => Self::Bast(Bast::new(config, nand)),
        }
    }

    /// Writes a page to an open block of the stream, with all that it takes.
    pub(crate) fn write(
        &mut self,
        nand: &mut Nand,
        logical: u32,
        stream: usize,
        work: &mut impl Work,
    ) -> Result<(), Exhausted> {
        match self {
            Self::Page(map) => map.write(nand, logical, stream, work),
            Self::Block(map) => map.write(nand, logical, work),
            Self::Bast(map) => map.write(nand, logical, work),
        }
    }

    /// Programs the physical page that a stream has begun to fill, with nothing in the rest of it.
    pub(crate) fn pad(&mut self, nand: &mut Nand, stream: usize, work: &mut impl Work) {
        match self {
            Self::Page(map) => map.pad(nand, stream, work),
            // Their physical pages hold one page, which is never partly filled.
            Self::Block(_) | Self::Bast(_) => {}
        }
    }

    pub(crate) const fn tally(&self) -> Tally {
        match self {
            Self::Page(map) => map.tally,
            Self::Block(map) => map.tally,
            Self::Bast(map) => map.tally,
        }
    }

    pub(crate) fn reset_tally(&mut self) {
        let tally = match self {
            Self::Page(map) => &mut map.tally,
            Self::Block(map) => &mut map.tally,
            Self::Bast(map) => &mut map.tally,
        };
        *tally = Tally::default();
    }

    /// Memory that grows with the drive, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Page(map) => map.memory_bytes(),
            Self::Block(map) => map.memory_bytes(),
            Self::Bast(map) => map.memory_bytes(),
        }
    }

    pub(crate) fn assert_invariants(&self, nand: &Nand) {
        match self {
            Self::Page(map) => map.assert_invariants(nand),
            Self::Block(map) => map.assert_invariants(nand),
            Self::Bast(map) => map.assert_invariants(nand),
        }
    }
}

/// Moves a valid page to the next page of an open block of the same plane.
pub(crate) fn relocate(
    nand: &mut Nand,
    page: u32,
    target: u32,
    cause: Cause,
    work: &mut impl Work,
) {
    let source = nand.geometry().block_of_page(page);
    let plane = nand.geometry().plane_of_block(source);
    // Programming the copy makes the source invalid, so a page is never lost and never valid twice.
    let moved = nand.program(target, nand.logical_of(page));
    let (source_first, target_first) = (nand.first_page(source), nand.first_page(target));
    work.copy(plane, page - source_first, moved - target_first, cause);
}
