//! BAST: block mapping, with log blocks for pages that are written again.
//!
//! A page written again goes to the log block of its block, in the order of writing. When the log
//! block is full, or a log block is needed for another block and all are taken, log block and data
//! block are merged. If the log block holds the whole block in order, it takes the place of the data
//! block (switch); if it holds the first pages in order, the rest is copied to it (partial); else
//! the current copies of all pages go to a third block (full).
//!
//! * Source: Kim et al., *A space-efficient flash translation layer for `CompactFlash` systems*, IEEE
//!   Trans. Consumer Electronics 48(2), 2002.
//! * State: 8 bytes per logical block, 4 per log block, besides the flash's.
//! * Cost: O(pages per block) per merge, O(log blocks of the plane) to end one.
//! * Deviations: (1) the page map of the flash stays, for reading and checking; (2) blocks go to
//!   planes in turn, and each plane has its own log blocks; (3) the log block that was taken first
//!   gives way; (4) no static wear levelling.

use std::collections::VecDeque;

use super::super::config::SsdConfig;
use super::super::error::Exhausted;
use super::super::geometry::NONE;
use super::super::nand::{Nand, Wanted};
use super::block_map::{logical_blocks, plane_of, split};
use super::{Cause, Tally, Work, relocate};

#[derive(Clone, Debug)]
pub(crate) struct Bast {
    pub(crate) tally: Tally,
    /// Per logical block its data block; NONE if it was never written.
    data_of: Vec<u32>,
    /// Per logical block its log block; NONE if it has none.
    log_of: Vec<u32>,
    /// Per plane the logical blocks that have log blocks, in the order of getting them.
    logged: Vec<VecDeque<u32>>,
    logs_most: usize,
}

impl Bast {
    pub(crate) fn new(config: &SsdConfig, nand: &Nand) -> Self {
        let logs_most = config.log_blocks_per_plane as usize;
        Self {
            tally: Tally::default(),
            data_of: vec![NONE; logical_blocks(nand)],
            log_of: vec![NONE; logical_blocks(nand)],
            logged: vec![VecDeque::with_capacity(logs_most); nand.geometry().planes as usize],
            logs_most,
        }
    }

    pub(crate) fn write(
        &mut self,
        nand: &mut Nand,
        logical: u32,
        work: &mut impl Work,
    ) -> Result<(), Exhausted> {
        let (logical_block, within) = split(nand, logical);
        let log = self.log_of[logical_block as usize];
        // Merging first may make room in the data block, so the question below is asked again.
        if !self.suits_data(nand, logical_block, within) && log != NONE && nand.is_full(log) {
            self.merge(nand, logical_block, work)?;
        }
        let block = if self.suits_data(nand, logical_block, within) {
            self.data_block(nand, logical_block, within)?
        } else {
            self.log_block(nand, logical_block, work)?
        };
        let page = nand.program(block, logical);
        self.tally.host_programs += 1;
        let within = page - nand.first_page(block);
        work.program(nand.geometry().plane_of_block(block), page, within);
        Ok(())
    }

    /// Return `true` if the page can be programmed at its place in the data block.
    fn suits_data(&self, nand: &Nand, logical_block: u32, within: u32) -> bool {
        let data = self.data_of[logical_block as usize];
        // Pages of a block are programmed in ascending order only, so a place that was passed takes
        // no page any more.
        data == NONE || within >= nand.block(data).written
    }

    fn data_block(
        &mut self,
        nand: &mut Nand,
        logical_block: u32,
        within: u32,
    ) -> Result<u32, Exhausted> {
        let entry = &mut self.data_of[logical_block as usize];
        if *entry == NONE {
            let plane = plane_of(nand, logical_block);
            *entry = nand.open(plane, Wanted::Next).ok_or(Exhausted)?;
        }
        nand.skip_to(*entry, within);
        Ok(*entry)
    }

    /// Return the log block of a block, which has room.
    fn log_block(
        &mut self,
        nand: &mut Nand,
        logical_block: u32,
        work: &mut impl Work,
    ) -> Result<u32, Exhausted> {
        if self.log_of[logical_block as usize] == NONE {
            let plane = plane_of(nand, logical_block);
            if self.logged[plane as usize].len() == self.logs_most {
                // Deviation (3): the paper does not say which log block gives way.
                let oldest = self.logged[plane as usize][0];
                self.merge(nand, oldest, work)?;
            }
            let log = nand.open(plane, Wanted::Next).ok_or(Exhausted)?;
            self.log_of[logical_block as usize] = log;
            self.logged[plane as usize].push_back(logical_block);
        }
        Ok(self.log_of[logical_block as usize])
    }

    /// Ends the log block of a block.
    fn merge(
        &mut self,
        nand: &mut Nand,
        logical_block: u32,
        work: &mut impl Work,
    ) -> Result<(), Exhausted> {
        let plane = plane_of(nand, logical_block);
        let (data, log) =
            (self.data_of[logical_block as usize], self.log_of[logical_block as usize]);
        let first_logical = logical_block * nand.pages_per_block();
        let first_page = nand.first_page(log);
        // Valid and in its own place, each page of it: then the log block itself can be the data
        // block, and only the rest is copied.
        let is_in_order = (0..nand.block(log).written)
            .all(|within| nand.page_of(first_logical + within) == first_page + within);
        let target = if is_in_order {
            let is_whole = nand.is_full(log);
            self.tally.switch_merges += u64::from(is_whole);
            self.tally.partial_merges += u64::from(!is_whole);
            log
        } else {
            self.tally.full_merges += 1;
            nand.open(plane, Wanted::Next).ok_or(Exhausted)?
        };
        // The map names the newest copy, in the log or in the data block, so one loop serves
        // partial and full merges.
        for within in nand.block(target).written..nand.pages_per_block() {
            let page = nand.page_of(first_logical + within);
            if page != NONE {
                nand.skip_to(target, within);
                relocate(nand, page, target, Cause::Gc, work);
                self.tally.gc_copies += 1;
            }
        }
        // Only now: until every valid page is copied, both blocks hold data.
        for old in [data, log] {
            if old != target {
                nand.erase(old);
                work.erase(plane, Cause::Gc);
            }
        }
        self.data_of[logical_block as usize] = target;
        self.log_of[logical_block as usize] = NONE;
        self.logged[plane as usize].retain(|&logged| logged != logical_block);
        Ok(())
    }

    /// Memory that grows with the drive, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let logged = self.logged.iter().map(VecDeque::capacity).sum::<usize>() * size_of::<u32>();
        size_of_val(&*self.data_of) + size_of_val(&*self.log_of) + logged
    }

    pub(crate) fn assert_invariants(&self, nand: &Nand) {
        for (plane, logged) in (0..).zip(&self.logged) {
            assert!(logged.len() <= self.logs_most, "a plane has so many log blocks at most");
            for &logical_block in logged {
                assert_eq!(plane_of(nand, logical_block), plane, "logs stay with their plane");
                assert_ne!(self.log_of[logical_block as usize], NONE, "a logged block has a log");
            }
        }
        let logs = self.log_of.iter().filter(|&&log| log != NONE).count();
        assert_eq!(logs, self.logged.iter().map(VecDeque::len).sum::<usize>(), "logs are listed");
        for logical in 0..nand.logical_pages() {
            let logical = u32::try_from(logical).expect("page numbers have 32 bits");
            let page = nand.page_of(logical);
            if page != NONE {
                let (logical_block, within) = split(nand, logical);
                let block = nand.geometry().block_of_page(page);
                if block == self.data_of[logical_block as usize] {
                    assert_eq!(page - nand.first_page(block), within, "data keep their place");
                } else {
                    assert_eq!(block, self.log_of[logical_block as usize], "or are in the log");
                }
            }
        }
    }
}
