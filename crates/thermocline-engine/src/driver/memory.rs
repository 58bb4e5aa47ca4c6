//! Devices in memory, for tests, examples and measurements of the engine alone.
#![expect(unsafe_code, reason = "the devices fill frames that the shard owns")]

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::{Completion, Driver};
use crate::memory::Frames;
use crate::operation::{Device, DeviceError, Operation, OperationKind};

/// Two devices in memory that do each operation when they are polled, in order.
#[derive(Debug)]
pub struct MemoryDriver {
    frames: Arc<Frames>,
    flash: Vec<u8>,
    backing: Vec<u8>,
    taken: VecDeque<Operation>,
}

impl MemoryDriver {
    /// Devices of zeroes, for the shard that these frames belong to.
    pub fn new(frames: &Arc<Frames>, flash_bytes: usize, backing_bytes: usize) -> Self {
        Self {
            frames: Arc::clone(frames),
            flash: vec![0; flash_bytes],
            backing: vec![0; backing_bytes],
            taken: VecDeque::new(),
        }
    }

    /// Return the bytes of a device.
    pub fn bytes(&mut self, device: Device) -> &mut [u8] {
        match device {
            Device::Flash => &mut self.flash,
            Device::Backing => &mut self.backing,
        }
    }

    fn perform(&mut self, operation: &Operation) -> Result<(), DeviceError> {
        let frames = Arc::clone(&self.frames);
        let bytes = self.bytes(operation.device);
        let start = usize::try_from(operation.offset_bytes).unwrap_or(usize::MAX);
        let length = usize::try_from(operation.length_bytes).unwrap_or(usize::MAX);
        let range = bytes
            .get_mut(start..start.saturating_add(length))
            .ok_or(DeviceError(io::ErrorKind::UnexpectedEof))?;
        // SAFETY: the shard whose frames these are has started the operation, and nobody completed it;
        // until then the frames of a read are this driver's, and nobody changes those of a write.
        unsafe { transfer(&frames, operation, range) };
        Ok(())
    }
}

/// Performs an operation on the bytes of the device that it concerns.
///
/// # Panics
/// If the frames are another shard's.
///
/// # Safety
/// During the call nobody else accesses
/// the frames of a read, and nobody writes the frames of a write. A driver may call it from when it was
/// given the operation until it reports the completion.
///
/// ```compile_fail,E0133
/// # fn main() {}
/// use thermocline_engine::{Frames, Operation, driver::memory::transfer};
///
/// fn safe(frames: &Frames, operation: &Operation, range: &mut [u8]) {
///     transfer(frames, operation, range);
/// }
/// ```
pub unsafe fn transfer(frames: &Frames, operation: &Operation, range: &mut [u8]) {
    operation.assert_for(frames);
    match operation.kind {
        OperationKind::Read => {
            for (&frame, bytes) in operation.frames.iter().zip(range.chunks(frames.frame_bytes())) {
                frames.bytes_mut(frame)[..bytes.len()].copy_from_slice(bytes);
            }
        }
        OperationKind::Write => {
            let chunks = range.chunks_mut(frames.frame_bytes());
            for (&frame, bytes) in operation.frames.iter().zip(chunks) {
                let length = bytes.len();
                bytes.copy_from_slice(&frames.bytes(frame)[..length]);
            }
        }
        OperationKind::Zero => range.fill(0),
        OperationKind::Sync | OperationKind::Discard => {}
    }
}

impl Driver for MemoryDriver {
    fn start(&mut self, operation: Operation) {
        operation.assert_for(&self.frames);
        self.taken.push_back(operation);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        while let Some(operation) = self.taken.pop_front() {
            let result = self.perform(&operation);
            done.push((operation, result));
        }
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        self.poll(done);
    }
}
