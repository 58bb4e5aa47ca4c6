//! Two devices that lose what was not synced, in the ways that devices do.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use thermocline_core::random::SplitMix64;
use thermocline_engine::driver::memory::transfer;
use thermocline_engine::{
    Device, DeviceError, Frames, Operation, OperationId, OperationKind, Storage,
};

/// One device: what it says now, what would be there after a power loss, and what is in between.
#[derive(Debug)]
struct Disk {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// Writes that are complete and not synced: when, where, what.
    unsynced: Vec<(u64, usize, Vec<u8>)>,
    /// What is written as a whole or not at all, in bytes.
    atom: usize,
}

impl Disk {
    fn new(bytes: usize, atom: usize) -> Self {
        Self { now: vec![0; bytes], durable: vec![0; bytes], unsynced: vec![], atom }
    }

    fn write(&mut self, time: u64, offset: usize, bytes: &[u8]) {
        self.now[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.unsynced.push((time, offset, bytes.to_vec()));
    }

    /// Makes durable what was complete before that time.
    fn sync(&mut self, time: u64) {
        let durable = &mut self.durable;
        self.unsynced.retain(|(written, offset, bytes)| {
            let is_covered = *written < time;
            if is_covered {
                durable[*offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            !is_covered
        });
    }

    /// The power fails: of what is not durable, some atoms survive.
    fn crash(&mut self, random: &mut SplitMix64) {
        let share = [0, 50, 90, 100][(random.bits() % 4) as usize];
        for (_, offset, bytes) in std::mem::take(&mut self.unsynced) {
            for (index, atom) in bytes.chunks(self.atom).enumerate() {
                if random.bits() % 100 < share {
                    let start = offset + index * self.atom;
                    self.durable[start..start + atom.len()].copy_from_slice(atom);
                }
            }
        }
        self.now.copy_from_slice(&self.durable);
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// Of so many operations on the backing store, one fails; 0 for none.
    pub(crate) backing_errors: u64,
    /// Of so many reads of a slot, one gives wrong bytes; 0 for none.
    pub(crate) flash_errors: u64,
    /// The flash is gone.
    pub(crate) flash_gone: bool,
}

/// Both devices, and the operations in flight.
#[derive(Debug)]
pub(crate) struct Devices {
    flash: Disk,
    backing: Disk,
    in_flight: Vec<Flying>,
    time: u64,
    /// Operations until the power fails.
    pub(crate) operations_left: u64,
    pub(crate) faults: Faults,
    random: SplitMix64,
}

#[derive(Debug)]
struct Flying {
    operation: Operation,
    started: u64,
    /// What a write's frames held when it was started: they must not change.
    bytes: Vec<u8>,
}

impl Devices {
    pub(crate) fn new(flash: usize, backing: usize, backing_atom: usize, seed: u64) -> Self {
        Self {
            flash: Disk::new(flash, 512),
            backing: Disk::new(backing, backing_atom),
            in_flight: vec![],
            time: 0,
            operations_left: u64::MAX,
            faults: Faults::default(),
            random: SplitMix64::new(seed),
        }
    }

    fn disk(&mut self, device: Device) -> &mut Disk {
        match device {
            Device::Flash => &mut self.flash,
            Device::Backing => &mut self.backing,
        }
    }

    pub(crate) fn start(&mut self, frames: &Frames, operation: Operation) {
        self.time += 1;
        let mut bytes = vec![];
        if matches!(operation.kind, OperationKind::Write | OperationKind::Zero) {
            operation.gather(frames, 0..operation.length_bytes, &mut bytes);
        }
        self.in_flight.push(Flying { operation, started: self.time, bytes });
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Completes one of the operations in flight; none if the power failed.
    pub(crate) fn complete_one(
        &mut self,
        frames: &Arc<Frames>,
    ) -> Option<(OperationId, Result<(), DeviceError>)> {
        self.operations_left = self.operations_left.saturating_sub(1);
        if self.operations_left == 0 || self.in_flight.is_empty() {
            return None;
        }
        // The oldest one rather often, or some would wait for ever.
        let chosen = match self.random.bits() % 4 {
            0 => 0,
            _ => (self.random.bits() % self.in_flight.len() as u64) as usize,
        };
        let Flying { operation, started, bytes } = self.in_flight.remove(chosen);
        self.time += 1;
        let time = self.time;
        if self.fails(&operation) {
            return Some((operation.id, Err(DeviceError(io::ErrorKind::Other))));
        }
        let start = operation.offset_bytes as usize;
        let end = start + operation.length_bytes as usize;
        let spoil = self.faults.flash_errors > 0
            && operation.device == Device::Flash
            && self.random.bits().is_multiple_of(self.faults.flash_errors);
        let disk = self.disk(operation.device);
        match operation.kind {
            OperationKind::Write => {
                let mut again = vec![];
                operation.gather(frames, 0..operation.length_bytes, &mut again);
                assert!(again == bytes, "the bytes of a write in flight do not change");
                disk.write(time, start, &bytes);
            }
            OperationKind::Zero => {
                assert!(bytes.iter().all(|&byte| byte == 0), "a zero's frames hold zeroes");
                disk.write(time, start, &bytes);
            }
            OperationKind::Sync => disk.sync(started),
            OperationKind::Read if spoil => {
                let mut wrong = disk.now[start..end].to_vec();
                wrong[700] ^= 0x10;
                transfer(frames, &operation, &mut wrong);
            }
            OperationKind::Read => transfer(frames, &operation, &mut disk.now[start..end]),
            OperationKind::Discard => self.discard(start..end),
        }
        Some((operation.id, Ok(())))
    }

    /// Of what nobody needs, some sectors become zero: all, none, or any of them.
    fn discard(&mut self, range: std::ops::Range<usize>) {
        let share = [0, 50, 100][(self.random.bits() % 3) as usize];
        let atom = self.backing.atom;
        for start in range.step_by(atom) {
            if self.random.bits() % 100 < share {
                self.backing.write(self.time, start, &vec![0; atom]);
            }
        }
    }

    fn fails(&mut self, operation: &Operation) -> bool {
        match operation.device {
            Device::Flash => self.faults.flash_gone,
            Device::Backing => {
                let errors = self.faults.backing_errors;
                errors > 0 && self.random.bits().is_multiple_of(errors)
            }
        }
    }

    /// The power fails. Writes in flight may have come through in part.
    pub(crate) fn crash(&mut self) {
        for flying in std::mem::take(&mut self.in_flight) {
            let start = flying.operation.offset_bytes as usize;
            let time = self.time;
            if flying.operation.kind == OperationKind::Discard {
                let end = start + flying.operation.length_bytes as usize;
                self.discard(start..end);
            }
            if matches!(flying.operation.kind, OperationKind::Write | OperationKind::Zero) {
                let disk = self.disk(flying.operation.device);
                disk.unsynced.push((time, start, flying.bytes));
            }
        }
        let mut random = SplitMix64::new(self.random.bits());
        self.flash.crash(&mut random);
        self.backing.crash(&mut random);
        self.operations_left = u64::MAX;
    }

    /// What a device says now.
    pub(crate) fn bytes(&mut self, device: Device) -> &mut [u8] {
        &mut self.disk(device).now
    }
}

/// The flash, for recovery; it may lose power on the way.
pub(crate) struct FlashStorage(pub(crate) Rc<RefCell<Devices>>);

impl FlashStorage {
    fn step(&self) -> io::Result<std::cell::RefMut<'_, Devices>> {
        let mut devices = self.0.borrow_mut();
        devices.time += 1;
        devices.operations_left = devices.operations_left.saturating_sub(1);
        if devices.operations_left == 0 {
            return Err(io::Error::other("the power failed"));
        }
        Ok(devices)
    }
}

impl Storage for FlashStorage {
    fn size_bytes(&mut self) -> io::Result<u64> {
        Ok(self.0.borrow().flash.now.len() as u64)
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        let start = offset_bytes as usize;
        bytes.copy_from_slice(&self.step()?.flash.now[start..start + bytes.len()]);
        Ok(())
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let mut devices = self.step()?;
        let time = devices.time;
        devices.flash.write(time, offset_bytes as usize, bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut devices = self.step()?;
        let time = devices.time;
        devices.flash.sync(time);
        Ok(())
    }
}
