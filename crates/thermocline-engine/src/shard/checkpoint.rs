//! Checkpoints: the slot table catches up with the journal, so that the ring can go on.
//!
//! A checkpoint writes the blocks that changed twice, with a sync in between: first to one of their two
//! places, then to the other, so that a torn write or a damaged copy leaves one that is right. A block
//! says what is durable: what the log can undo leaves out records that are not. After the second sync the
//! tail moves to where the journal was durable when the checkpoint began.

use std::collections::{BTreeSet, VecDeque};

use super::durability::Block;
use super::{InFlight, Shard};
use crate::format::BLOCK_BYTES;
use crate::format::table::{self, SLOTS_PER_BLOCK};
use crate::operation::DeviceError;
use crate::slots::SlotId;

/// Table blocks in flight at most.
const BLOCKS_IN_FLIGHT_MAX: u32 = 4;

/// Which table blocks changed, and the checkpoint under way.
#[derive(Debug)]
pub(super) struct Checkpoints {
    /// Per block of the table: how often it was written.
    generations: Vec<u64>,
    /// Blocks that say less than the journal.
    changed: BTreeSet<u32>,
    current: Option<Checkpoint>,
}

#[derive(Debug)]
struct Checkpoint {
    /// The tail will be here.
    through: u64,
    left: VecDeque<u32>,
    /// Blocks whose first copy was written; empty while their second copies are.
    first_copies: VecDeque<u32>,
    is_second_pass: bool,
    in_flight: u32,
    /// Whether a sync that covers all blocks was started.
    is_syncing: bool,
}

impl Checkpoints {
    pub(super) const fn new(generations: Vec<u64>) -> Self {
        Self { generations, changed: BTreeSet::new(), current: None }
    }

    /// A record about the slot is durable.
    pub(super) fn mark(&mut self, slot: u32) {
        let per_block = u32::try_from(SLOTS_PER_BLOCK).expect("a block holds few slots");
        self.changed.insert(slot / per_block);
    }

    /// Begins, unless one is under way, to write all that is durable before block `through`.
    pub(super) fn start(&mut self, through: u64) {
        if self.current.is_none() {
            let left = std::mem::take(&mut self.changed).into_iter().collect();
            self.current = Some(Checkpoint {
                through,
                left,
                first_copies: VecDeque::new(),
                is_second_pass: false,
                in_flight: 0,
                is_syncing: false,
            });
        }
    }

    pub(super) const fn is_under_way(&self) -> bool {
        self.current.is_some()
    }

    /// Whether blocks are being written.
    pub(super) fn is_writing(&self) -> bool {
        self.current.as_ref().is_some_and(|checkpoint| checkpoint.in_flight > 0)
    }

    /// Whether all blocks are written and no sync covers them yet.
    pub(super) fn needs_sync(&self) -> bool {
        self.current.as_ref().is_some_and(|checkpoint| {
            checkpoint.left.is_empty() && checkpoint.in_flight == 0 && !checkpoint.is_syncing
        })
    }

    /// A sync begins.
    pub(super) fn sync_started(&mut self) {
        if self.needs_sync()
            && let Some(checkpoint) = &mut self.current
        {
            checkpoint.is_syncing = true;
        }
    }

    /// A sync is done: the new tail, if it completes the checkpoint. If it made the first copies
    /// durable, the second ones are next.
    pub(super) fn sync_done(&mut self) -> Option<u64> {
        let checkpoint = self.current.as_mut().filter(|checkpoint| checkpoint.is_syncing)?;
        if checkpoint.is_second_pass {
            return self.current.take().map(|done| done.through);
        }
        checkpoint.left = std::mem::take(&mut checkpoint.first_copies);
        checkpoint.is_second_pass = true;
        checkpoint.is_syncing = false;
        None
    }

    /// There is no flash any more.
    pub(super) fn forget(&mut self) {
        self.changed.clear();
        self.current = None;
    }

    /// Heap memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.generations.capacity() * size_of::<u64>() + self.changed.len() * 2 * size_of::<u32>()
    }
}

impl Shard {
    /// Writes the next table blocks of a checkpoint.
    pub(super) fn advance_checkpoint(&mut self) {
        loop {
            let Some(checkpoint) = &mut self.log.checkpoints.current else { return };
            if checkpoint.in_flight >= BLOCKS_IN_FLIGHT_MAX || self.meta_frames.len() < 2 {
                return;
            }
            let Some(block) = checkpoint.left.pop_front() else { return };
            checkpoint.in_flight += 1;
            let is_second_copy = checkpoint.is_second_pass;
            if !is_second_copy {
                checkpoint.first_copies.push_back(block);
            }
            self.write_table_block(block, u64::from(is_second_copy));
        }
    }

    /// Writes the first copy (0) of a block's next generation, or the second copy (1) of that.
    fn write_table_block(&mut self, block: u32, copy: u64) {
        let generation = &mut self.log.checkpoints.generations[block as usize];
        *generation += 1 - copy;
        let generation = *generation;
        let cache = self.log.superblock.cache;
        let header = table::Header { cache, generation, block };
        let frame = self.meta_frames.pop().expect("the caller saw a frame");
        let per_block = u32::try_from(SLOTS_PER_BLOCK).expect("a block holds few slots");
        let first = block * per_block;
        let slots = u32::try_from(self.slots.len()).expect("slots have 32-bit numbers");
        let rows = (first..slots.min(first + per_block)).map(|slot| {
            let undo = self.log.undo.get(&slot);
            undo.map_or_else(|| self.slots.slot(SlotId(slot)).row(), |undo| undo.row)
        });
        table::encode(&mut self.pool.frames().bytes_mut(frame)[..BLOCK_BYTES], &header, rows);
        let offset = self.log.superblock.layout.table_offset_bytes(block, generation + copy);
        self.push_block(InFlight::Table(Block::new(frame, offset)));
    }

    pub(super) fn table_done(&mut self, block: Block, result: Result<(), DeviceError>) {
        if self.tries_block_again(InFlight::Table, block, result) {
            return;
        }
        self.meta_frames.push(block.frame);
        if result.is_err() {
            self.flash_failed();
        }
        if let Some(checkpoint) = &mut self.log.checkpoints.current {
            checkpoint.in_flight -= 1;
        }
    }
}
