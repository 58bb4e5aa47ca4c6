//! Two devices that lose what was not synced, in the ways that devices do.
#![expect(unsafe_code, reason = "the devices fill frames that the shard owns")]

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

    /// Changes bytes behind the engine's back.
    fn spoil(&mut self, range: std::ops::Range<usize>, change: impl Fn(&mut u8)) {
        for place in range {
            change(&mut self.now[place]);
            self.durable[place] = self.now[place];
        }
    }

    /// A sync fails. What was written since the last good one may be gone for good, whether or not the
    /// page cache still shows it.
    fn fail_sync(&mut self, random: &mut SplitMix64, still_shows: bool) {
        self.unsynced.retain(|_| random.bits().is_multiple_of(2));
        if !still_shows {
            self.show_what_it_has();
        }
    }

    /// The page cache no longer shows what a failed sync has dropped.
    fn show_what_it_has(&mut self) {
        self.now.copy_from_slice(&self.durable);
        for (_, offset, bytes) in &self.unsynced {
            self.now[*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
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
    /// One of this many syncs of the backing store fails and drops data; 0 for none.
    pub(crate) sync_errors: u64,
    /// Each restart finds one block of the flash's metadata damaged.
    pub(crate) rots: bool,
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
    /// Where the flash cannot be read until it is written again.
    unreadable: Option<usize>,
}

#[derive(Debug)]
struct Flying {
    operation: Operation,
    started: u64,
    /// What a write's frames held when it was started: they must not change.
    bytes: Vec<u8>,
    /// Whether a failed sync dropped it on its way: it will be complete and never durable.
    is_dropped: bool,
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
            unreadable: None,
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
            // SAFETY: the world passes the frames of the shard that gave it the operation.
            unsafe { operation.gather(frames, 0..operation.length_bytes, &mut bytes) };
        }
        let started = self.time;
        self.in_flight.push(Flying { operation, started, bytes, is_dropped: false });
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
        let Flying { operation, started, bytes, is_dropped } = self.in_flight.remove(chosen);
        self.time += 1;
        let time = self.time;
        if self.fails(&operation) {
            if operation.kind == OperationKind::Sync {
                self.fail_sync(operation.device);
            }
            return Some((operation.id, Err(DeviceError(io::ErrorKind::Other))));
        }
        let start = operation.offset_bytes as usize;
        let end = start + operation.length_bytes as usize;
        let spoil = self.faults.flash_errors > 0
            && operation.device == Device::Flash
            && self.random.bits().is_multiple_of(self.faults.flash_errors);
        let is_rewritten = |&block: &usize| {
            operation.kind == OperationKind::Write && (start..end).contains(&block)
        };
        if operation.device == Device::Flash && self.unreadable.as_ref().is_some_and(is_rewritten) {
            self.unreadable = None;
        }
        let disk = self.disk(operation.device);
        match operation.kind {
            OperationKind::Write => {
                let mut again = vec![];
                // SAFETY: the operation is in flight; the frames are those of its shard.
                unsafe { operation.gather(frames, 0..operation.length_bytes, &mut again) };
                assert!(again == bytes, "the bytes of a write in flight do not change");
                if !is_dropped {
                    disk.write(time, start, &bytes);
                }
            }
            OperationKind::Zero => {
                assert!(bytes.iter().all(|&byte| byte == 0), "a zero's frames hold zeroes");
                if !is_dropped {
                    disk.write(time, start, &bytes);
                }
            }
            OperationKind::Sync => disk.sync(started),
            OperationKind::Read if spoil => {
                let mut wrong = disk.now[start..end].to_vec();
                wrong[700] ^= 0x10;
                // SAFETY: the operation is in flight; the frames are those of its shard.
                unsafe { transfer(frames, &operation, &mut wrong) };
            }
            OperationKind::Read => {
                // SAFETY: the operation is in flight; the frames are those of its shard.
                unsafe { transfer(frames, &operation, &mut disk.now[start..end]) };
            }
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
                let errors = match operation.kind {
                    OperationKind::Sync if self.faults.sync_errors > 0 => self.faults.sync_errors,
                    OperationKind::Sync
                    | OperationKind::Read
                    | OperationKind::Write
                    | OperationKind::Discard
                    | OperationKind::Zero => self.faults.backing_errors,
                };
                errors > 0 && self.random.bits().is_multiple_of(errors)
            }
        }
    }

    /// What a failed sync drops may include writes that are still on their way.
    fn fail_sync(&mut self, device: Device) {
        let mut random = SplitMix64::new(self.random.bits());
        let still_shows = random.bits().is_multiple_of(2);
        self.disk(device).fail_sync(&mut random, still_shows);
        for flying in &mut self.in_flight {
            flying.is_dropped |=
                flying.operation.device == device && random.bits().is_multiple_of(4);
        }
    }

    /// The engine's process dies and the machine goes on: nothing that was written is lost, and of
    /// what was in flight some came through. The next start reads past the page cache.
    pub(crate) fn kill(&mut self) {
        self.backing.show_what_it_has();
        for flying in std::mem::take(&mut self.in_flight) {
            let Flying { operation, bytes, .. } = flying;
            let start = operation.offset_bytes as usize;
            if operation.kind == OperationKind::Discard {
                let end = start + operation.length_bytes as usize;
                self.discard(start..end);
            }
            let is_write = matches!(operation.kind, OperationKind::Write | OperationKind::Zero);
            if is_write && self.random.bits().is_multiple_of(2) {
                let time = self.time;
                self.disk(operation.device).write(time, start, &bytes);
            }
        }
        self.operations_left = u64::MAX;
    }

    /// Syncs the backing store before a start. Returns whether that succeeds.
    pub(crate) fn sync_backing(&mut self) -> bool {
        self.time += 1;
        let errors = self.faults.sync_errors.max(self.faults.backing_errors);
        if errors > 0 && self.random.bits().is_multiple_of(errors) {
            // What the page cache still showed of it would count as found at the next start.
            let mut random = SplitMix64::new(self.random.bits());
            self.backing.fail_sync(&mut random, false);
            return false;
        }
        let time = self.time;
        self.backing.sync(time);
        true
    }

    /// Whether a part of the flash was written and not synced, or is being written.
    pub(crate) fn is_writing_flash(&self, range: std::ops::Range<u64>) -> bool {
        let contains = |start: usize| range.contains(&(start as u64));
        self.flash.unsynced.iter().any(|&(_, start, _)| contains(start))
            || self.in_flight.iter().any(|flying| {
                flying.operation.device == Device::Flash
                    && contains(flying.operation.offset_bytes as usize)
            })
    }

    /// One block of the flash's metadata, the first bytes of the flash, is damaged at rest: a byte of
    /// it changes, a sector becomes zero, a former write of it turns out to be lost, or it cannot be read.
    pub(crate) fn rot(&mut self, metadata_bytes: usize) {
        let block = (self.random.bits() as usize % (metadata_bytes / 4096)) * 4096;
        let place = block + self.random.bits() as usize % 4096;
        match self.random.bits() % 4 {
            0 => {
                let sector = place / 512 * 512;
                self.flash.spoil(sector..sector + 512, |byte| *byte = 0);
            }
            1 => self.unreadable = Some(block),
            2 => self.flash.spoil(block..block + 4096, |byte| *byte = 0xA5),
            _ => self.flash.spoil(place..place + 1, |byte| *byte ^= 0x40),
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
        let devices = self.step()?;
        if devices.unreadable.is_some_and(|block| (start..start + bytes.len()).contains(&block)) {
            return Err(io::Error::other("a bad sector"));
        }
        bytes.copy_from_slice(&devices.flash.now[start..start + bytes.len()]);
        Ok(())
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let mut devices = self.step()?;
        let time = devices.time;
        let start = offset_bytes as usize;
        devices.flash.write(time, start, bytes);
        if devices.unreadable.is_some_and(|block| (start..start + bytes.len()).contains(&block)) {
            devices.unreadable = None;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut devices = self.step()?;
        let time = devices.time;
        devices.flash.sync(time);
        Ok(())
    }
}
