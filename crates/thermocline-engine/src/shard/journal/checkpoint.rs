//! Checkpoints: the slot table catches up with the journal, so that the ring can go on.
//!
//! A checkpoint writes the blocks that changed twice, with a sync in between: first to one of their two
//! places, then to the other, so that a torn write or a damaged copy leaves one that is right. A block
//! says what is durable: what the log can undo leaves out records that are not. After the second sync the
//! tail moves to where the journal was durable when the checkpoint began.
//!
//! It enforces rule 7 of durability (`ARCHITECTURE.md`) for the table.

use std::collections::{BTreeSet, VecDeque};

use crate::format::table::SLOTS_PER_BLOCK;
use crate::slots::{SlotId, Slots};

/// Table blocks in flight at most.
const BLOCKS_IN_FLIGHT_MAX: u32 = 4;

/// Table blocks that changed, and the checkpoint under way.
#[derive(Debug)]
pub(super) struct Checkpoints {
    /// Per block of the table: how often it was written.
    generations: Vec<u64>,
    /// Blocks that say less than the journal.
    changed: BTreeSet<u32>,
    current: Option<Checkpoint>,
}

/// A block of the slot table that is to be written.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) struct TableBlock {
    pub(super) number: u32,
    pub(super) generation: u64,
    /// The first copy (0) of this generation, or the second one (1).
    pub(super) copy: u64,
}

impl TableBlock {
    /// Return the slots that it covers.
    pub(super) fn slots(self, slots: &Slots) -> impl Iterator<Item = SlotId> + use<> {
        let first = self.number * slots_per_block();
        let slots = u32::try_from(slots.len()).expect("slots have 32-bit numbers");
        (first..slots.min(first + slots_per_block())).map(SlotId)
    }
}

fn slots_per_block() -> u32 {
    u32::try_from(SLOTS_PER_BLOCK).expect("a block holds few slots")
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
    /// `true` if a sync that covers all blocks was started.
    is_syncing: bool,
}

impl Checkpoints {
    pub(super) const fn new(generations: Vec<u64>) -> Self {
        Self { generations, changed: BTreeSet::new(), current: None }
    }

    /// Take over a table of that many blocks, of which the new ones were never written.
    pub(super) fn resize(&mut self, table_blocks: u32) {
        // Both places of a new block were erased, so no former generation there is newer than the first
        // one.
        self.generations.resize(table_blocks as usize, 0);
        let next = self.changed.range(table_blocks..).next();
        assert!(next.is_none(), "blocks that go are written");
    }

    /// Note that a record about the slot is durable.
    pub(super) fn mark(&mut self, slot: u32) {
        self.changed.insert(slot / slots_per_block());
    }

    /// Begin to write all that is durable before block `through`, unless a checkpoint is under way.
    pub(super) fn start(&mut self, through: u64) {
        if self.current.is_none() {
            // Blocks that change from now on belong to the next checkpoint.
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

    /// Return `true` if blocks are being written.
    pub(super) fn is_writing(&self) -> bool {
        self.current.as_ref().is_some_and(|checkpoint| checkpoint.in_flight > 0)
    }

    /// Return `true` if all blocks are written and no sync covers them yet.
    pub(super) fn needs_sync(&self) -> bool {
        self.current.as_ref().is_some_and(|checkpoint| {
            checkpoint.left.is_empty() && checkpoint.in_flight == 0 && !checkpoint.is_syncing
        })
    }

    /// Note that a sync begins.
    pub(super) fn sync_started(&mut self) {
        if self.needs_sync()
            && let Some(checkpoint) = &mut self.current
        {
            // A sync that began while a block was in flight would not cover that block.
            checkpoint.is_syncing = true;
        }
    }

    /// Note the end of a sync; return the new tail if it completes the checkpoint. If it made the
    /// first copies durable, the second ones are next.
    pub(super) fn sync_done(&mut self) -> Option<u64> {
        let checkpoint = self.current.as_mut().filter(|checkpoint| checkpoint.is_syncing)?;
        // Both copies are durable now.
        if checkpoint.is_second_pass {
            return self.current.take().map(|done| done.through);
        }
        // The first copies are durable, so a torn write of a second copy cannot lose a block.
        checkpoint.left = std::mem::take(&mut checkpoint.first_copies);
        checkpoint.is_second_pass = true;
        checkpoint.is_syncing = false;
        None
    }

    /// Return the next block, unless enough are in flight: the first copy of its next generation,
    /// or the second copy of that.
    pub(super) fn next_block(&mut self) -> Option<TableBlock> {
        let checkpoint = self.current.as_mut()?;
        if checkpoint.in_flight >= BLOCKS_IN_FLIGHT_MAX {
            return None;
        }
        let number = checkpoint.left.pop_front()?;
        checkpoint.in_flight += 1;
        let copy = u64::from(checkpoint.is_second_pass);
        if !checkpoint.is_second_pass {
            checkpoint.first_copies.push_back(number);
        }
        let generation = &mut self.generations[number as usize];
        // The second copy is the same generation; its place is the one that the generation's parity
        // does not choose.
        *generation += 1 - copy;
        Some(TableBlock { number, generation: *generation, copy })
    }

    /// Note that a block was written, or failed for good.
    pub(super) const fn block_done(&mut self) {
        if let Some(checkpoint) = &mut self.current {
            checkpoint.in_flight -= 1;
        }
    }

    /// Forget the flash, which is gone.
    pub(super) fn forget(&mut self) {
        self.changed.clear();
        self.current = None;
    }

    /// Return the size of the heap memory, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.generations.capacity() * size_of::<u64>() + self.changed.len() * 2 * size_of::<u32>()
    }
}
