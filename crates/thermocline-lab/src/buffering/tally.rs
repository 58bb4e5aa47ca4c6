//! Sums over a buffer's actions.

use std::collections::BTreeMap;

use thermocline_core::{Action, Geometry, Op, PageId, Tier};

use super::FlushSize;

/// The buffer, the faster of the two tiers.
const BUFFER: Tier = Tier(0);

/// Hits and flushes so far.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) read_hits: u64,
    pub(super) write_hits: u64,
    pub(super) clean_write_hits: u64,
    pub(super) flushes: u64,
    pub(super) pages_flushed: u64,
    pub(super) pages_padded: u64,
    flush_sizes: BTreeMap<u32, u64>,
    /// Per page: whether the NAND lacks it.
    is_dirty: Vec<bool>,
    geometry: Geometry,
    pages_per_block: u64,
}

/// Operations that an access asks of the NAND.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) reads: Vec<PageId>,
    pub(super) writes: Vec<PageId>,
    /// `true` if the buffer served the access.
    pub(super) is_buffered: bool,
}

impl Tally {
    /// Create an empty tally. Pages that are written together to one block are one flush.
    pub(super) fn new(geometry: &Geometry, pages_per_block: u32) -> Self {
        Self {
            reads: 0,
            writes: 0,
            read_hits: 0,
            write_hits: 0,
            clean_write_hits: 0,
            flushes: 0,
            pages_flushed: 0,
            pages_padded: 0,
            flush_sizes: BTreeMap::new(),
            is_dirty: vec![false; geometry.pages() as usize],
            geometry: geometry.clone(),
            pages_per_block: u64::from(pages_per_block),
        }
    }

    /// Adds the actions of one access, and says what they ask of the NAND.
    pub(super) fn add(&mut self, actions: &[Action], traffic: &mut Traffic) {
        traffic.reads.clear();
        traffic.writes.clear();
        traffic.is_buffered = false;
        for action in actions {
            match *action {
                Action::Serve { page, op: Op::Read, found, tier } => {
                    self.reads += 1;
                    self.read_hits += u64::from(found == BUFFER);
                    if tier == BUFFER {
                        traffic.is_buffered = true;
                    } else {
                        traffic.reads.push(page);
                    }
                }
                Action::Serve { page, op: Op::Write, found, tier } => {
                    self.writes += 1;
                    self.write_hits += u64::from(found == BUFFER);
                    let was_dirty =
                        std::mem::replace(&mut self.is_dirty[page.index()], tier == BUFFER);
                    self.clean_write_hits += u64::from(found == BUFFER && !was_dirty);
                    if tier == BUFFER {
                        traffic.is_buffered = true;
                    } else {
                        self.pages_flushed += 1;
                        traffic.writes.push(page);
                    }
                }
                Action::Copy { page, target: BUFFER, .. } => traffic.reads.push(page),
                Action::Copy { page, .. } => {
                    let was_dirty = std::mem::take(&mut self.is_dirty[page.index()]);
                    self.pages_flushed += u64::from(was_dirty);
                    self.pages_padded += u64::from(!was_dirty);
                    traffic.writes.push(page);
                }
                Action::Drop { .. } => {}
            }
        }
        let block = |&page: &PageId| self.geometry.page_number(page) / self.pages_per_block;
        for flush in traffic.writes.chunk_by(|one, next| block(one) == block(next)) {
            self.flushes += 1;
            let pages = u32::try_from(flush.len()).expect("a flush has the pages of a block");
            *self.flush_sizes.entry(pages).or_default() += 1;
        }
    }

    /// Return the number of pages that the NAND lacks.
    pub(super) fn dirty_pages(&self) -> u64 {
        self.is_dirty.iter().filter(|&&is_dirty| is_dirty).count() as u64
    }

    /// Return the number of flushes by the number of pages that they wrote.
    pub(super) fn flush_sizes(&self) -> Vec<FlushSize> {
        let sizes = self.flush_sizes.iter();
        sizes.map(|(&pages, &flushes)| FlushSize { pages, flushes }).collect()
    }
}
