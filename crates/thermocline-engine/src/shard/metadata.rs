//! The engine's own blocks and syncs, on their way to the driver, and the frames for the blocks.

use std::collections::VecDeque;

use smallvec::smallvec;

use crate::counters::Purpose;
use crate::format::BLOCK_BYTES;
use crate::memory::FrameId;
use crate::operation::{Copies, Device, OperationId, OperationKind, OperationParts};

/// A block of the journal or the table that is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) kind: BlockKind,
    pub(super) frame: FrameId,
    offset_bytes: u64,
    /// Number of times that the write failed.
    pub(super) failures: u8,
    /// `true` if it is not tried again.
    pub(super) is_final: bool,
}

/// Kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    Journal,
    Table,
}

impl BlockKind {
    /// Return the purpose for which its bytes are counted.
    pub(super) const fn purpose(self) -> Purpose {
        match self {
            Self::Journal => Purpose::Journal,
            Self::Table => Purpose::Table,
        }
    }
}

/// An operation that moves no page.
#[derive(Clone, Copy, Debug)]
pub(super) enum OwnOperation {
    /// A block is written.
    Block(Block),
    /// A device is synced.
    Sync(Device),
}

impl OwnOperation {
    pub(super) const fn device(self) -> Device {
        match self {
            Self::Block(_) => Device::Flash,
            Self::Sync(device) => device,
        }
    }
}

/// Blocks that wait for the driver.
#[derive(Debug)]
pub(super) struct Metadata {
    /// Frames that no block uses.
    frames: Vec<FrameId>,
    operations: VecDeque<OwnOperation>,
}

impl Metadata {
    /// Create an empty queue; blocks have these frames.
    pub(super) const fn new(frames: Vec<FrameId>) -> Self {
        Self { frames, operations: VecDeque::new() }
    }

    /// Return the number of blocks that can be made now.
    pub(super) const fn free_frames(&self) -> usize {
        self.frames.len()
    }

    /// Create a block whose bytes the caller fills in.
    ///
    /// # Panics
    /// If no frame is free.
    pub(super) fn new_block(&mut self, kind: BlockKind, offset_bytes: u64) -> Block {
        let frame = self.frames.pop().expect("blocks are bounded by the frames for them");
        Block { kind, frame, offset_bytes, failures: 0, is_final: false }
    }

    /// Note that the block is written, or given up.
    pub(super) fn end_block(&mut self, block: Block) {
        self.frames.push(block.frame);
    }

    /// Queue the block to be written.
    pub(super) fn push_block(&mut self, block: Block) {
        self.operations.push_back(OwnOperation::Block(block));
    }

    /// Queue a sync of the device, after everything pushed before.
    pub(super) fn push_sync(&mut self, device: Device) {
        self.operations.push_back(OwnOperation::Sync(device));
    }

    /// Return `true` if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Return the next operation, without its number.
    pub(super) fn pop(&mut self) -> Option<(OwnOperation, OperationParts)> {
        let operation = self.operations.pop_front()?;
        let (kind, offset_bytes, length_bytes, frames) = match operation {
            OwnOperation::Block(Block { frame, offset_bytes, .. }) => {
                (OperationKind::Write, offset_bytes, BLOCK_BYTES as u64, smallvec![frame])
            }
            OwnOperation::Sync(_) => (OperationKind::Sync, 0, 0, smallvec![]),
        };
        let parts = OperationParts {
            id: OperationId(0),
            device: operation.device(),
            kind,
            offset_bytes,
            length_bytes,
            frames,
            copies: Copies::Both,
            is_final: matches!(operation, OwnOperation::Block(Block { is_final: true, .. })),
        };
        Some((operation, parts))
    }

    /// Forget the flash, which is gone: nothing more is written to it, nor is it synced.
    pub(super) fn forget_flash(&mut self) {
        self.operations.retain(|operation| {
            if let OwnOperation::Block(block) = operation {
                self.frames.push(block.frame);
            }
            operation.device() != Device::Flash
        });
    }
}
