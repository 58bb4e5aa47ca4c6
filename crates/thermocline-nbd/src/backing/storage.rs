//! The same one call at a time, for work on a cache at rest.
#![expect(unsafe_code, reason = "every call goes through a frame that the driver fills or sends")]

use std::io;
use std::sync::Arc;

use thermocline_engine::driver::Driver as _;
use thermocline_engine::{
    Copies, Device, FrameId, Frames, Operation, OperationId, OperationKind, OperationParts, Storage,
};

use super::{BackingError, NbdBacking, NbdDriver};

/// A server's export, read and written one call at a time.
#[derive(Debug)]
pub struct NbdStorage {
    driver: NbdDriver,
    /// One frame, which every call goes through.
    frames: Arc<Frames>,
    size_bytes: u64,
}

impl NbdStorage {
    /// Read and write in pieces of `page_bytes`, a multiple of 4096; offsets are multiples of it.
    ///
    /// # Errors
    /// If the server takes only larger pieces.
    ///
    /// # Panics
    /// If `page_bytes` is not a multiple of 4096.
    pub fn new(backing: NbdBacking, page_bytes: usize) -> Result<Self, BackingError> {
        let frames = Frames::new(1, page_bytes);
        let size_bytes = backing.size_bytes();
        Ok(Self { driver: NbdDriver::new(backing, &frames)?, frames, size_bytes })
    }

    /// Performs an operation, and gives it back.
    fn perform(&mut self, operation: Operation) -> io::Result<Operation> {
        self.driver.start(operation);
        let mut done = vec![];
        self.driver.wait(&mut done);
        let (operation, result) = done.pop().expect("an operation in flight is completed");
        result
            .map(|()| operation)
            .map_err(|error| io::Error::new(error.0, "the NBD server failed, or has gone"))
    }
}

/// Return an operation on the frame.
///
/// # Safety
/// Nothing else is in flight.
unsafe fn operation(
    frames: &Frames,
    kind: OperationKind,
    offset_bytes: u64,
    length: usize,
) -> Operation {
    let parts = OperationParts {
        id: OperationId(0),
        device: Device::Backing,
        kind,
        offset_bytes,
        length_bytes: length as u64,
        frames: [FrameId(0)].into_iter().collect(),
        copies: Copies::Both,
        is_final: false,
    };
    // SAFETY: no shard has the frame, and the caller says that no operation uses it.
    unsafe { Operation::new(parts, frames) }
}

impl Storage for NbdStorage {
    fn size_bytes(&mut self) -> io::Result<u64> {
        Ok(self.size_bytes)
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut read = vec![];
        let page_bytes = self.frames.frame_bytes();
        for (start, piece) in (offset_bytes..).step_by(page_bytes).zip(bytes.chunks_mut(page_bytes))
        {
            // SAFETY: each call waits for its operation.
            let read_piece =
                unsafe { operation(&self.frames, OperationKind::Read, start, piece.len()) };
            let operation = self.perform(read_piece)?;
            read.clear();
            // SAFETY: the driver has completed the read, and nothing else uses the frame.
            unsafe { operation.gather(&self.frames, 0..piece.len() as u64, &mut read) };
            piece.copy_from_slice(&read);
        }
        Ok(())
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let page_bytes = self.frames.frame_bytes();
        for (start, piece) in (offset_bytes..).step_by(page_bytes).zip(bytes.chunks(page_bytes)) {
            // SAFETY: each call waits for its operation.
            let operation =
                unsafe { operation(&self.frames, OperationKind::Write, start, piece.len()) };
            // SAFETY: the driver has nothing in flight, and nothing else uses the frame.
            unsafe { operation.scatter(&self.frames, 0, piece) };
            self.perform(operation)?;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.perform(Operation::sync(Device::Backing)).map(drop)
    }
}
