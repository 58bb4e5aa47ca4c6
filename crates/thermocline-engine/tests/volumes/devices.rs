//! The flash and the backing stores of a run, and the power.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use thermocline_core::random::SplitMix64;
use thermocline_engine::{SharedSyncs, Storage};

use crate::PAGE;
use crate::plan::{self, backing_bytes};

/// A disk, and what was written to it since its last good sync.
pub(crate) struct Disk {
    /// The bytes that a read gives.
    pub(crate) bytes: Vec<u8>,
    pub(crate) durable: Vec<u8>,
    pub(crate) written: Vec<Range<usize>>,
    /// Ranges of which a failed sync, or the power, may have dropped something.
    doubtful: Vec<Range<usize>>,
    /// Bytes that are written as a whole.
    atom: usize,
}

impl Disk {
    pub(crate) fn new(bytes: u64, atom: usize) -> Self {
        let zeroes = || vec![0; bytes as usize];
        Self { bytes: zeroes(), durable: zeroes(), written: vec![], doubtful: vec![], atom }
    }

    /// Make it longer if it is shorter.
    pub(crate) fn reserve(&mut self, bytes: u64) {
        let bytes = self.bytes.len().max(bytes as usize);
        self.bytes.resize(bytes, 0);
        self.durable.resize(bytes, 0);
    }

    pub(crate) fn sync(&mut self) {
        for range in self.written.drain(..) {
            self.durable[range.clone()].copy_from_slice(&self.bytes[range]);
        }
    }

    /// Power is cut, or a sync fails: some of what was written comes through. After a failed sync, reads
    /// still show the rest.
    pub(crate) fn lose(&mut self, random: &mut SplitMix64) {
        for range in std::mem::take(&mut self.written) {
            for start in range.clone().step_by(self.atom) {
                if random.bits().is_multiple_of(2) {
                    let block = start..start + self.atom;
                    self.durable[block.clone()].copy_from_slice(&self.bytes[block]);
                }
            }
            self.doubtful.push(range);
        }
    }

    fn restart(&mut self, random: &mut SplitMix64) {
        self.lose(random);
        for range in self.doubtful.drain(..) {
            self.bytes[range.clone()].copy_from_slice(&self.durable[range]);
        }
    }
}

/// All devices, and the power.
pub(crate) struct Devices {
    pub(crate) flash: Disk,
    /// The flash that is being replaced, until nobody may need it.
    pub(crate) former: Option<Disk>,
    pub(crate) backing: [Disk; 3],
    /// Syncs of the flash; each shard of each volume is a member.
    pub(crate) syncs: SharedSyncs,
    /// Writes, syncs and notes until the power is cut.
    pub(crate) steps_left: u64,
    pub(crate) random: SplitMix64,
}

impl Devices {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            flash: Self::new_flash(seed),
            former: None,
            backing: [(); 3].map(|()| Disk::new(backing_bytes(), PAGE)),
            syncs: SharedSyncs::default(),
            steps_left: u64::MAX,
            random: SplitMix64::new(seed),
        }
    }

    fn new_flash(seed: u64) -> Disk {
        Disk::new(plan::flash_bytes(seed), 512)
    }

    /// Puts a blank flash in the place of the one in use, which nobody writes to any more.
    pub(crate) fn replace_flash(&mut self, seed: u64) {
        self.former = Some(std::mem::replace(&mut self.flash, Self::new_flash(seed)));
        self.syncs = SharedSyncs::default();
    }

    pub(crate) fn step(&mut self) -> io::Result<()> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(())
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.random.bits() % bound
    }

    /// Power returns.
    pub(crate) fn restart(&mut self) {
        let Self { flash, former, backing, random, .. } = self;
        for disk in backing.iter_mut().chain([flash]).chain(former) {
            disk.restart(random);
        }
        self.syncs = SharedSyncs::default();
    }
}

/// The flash for starts and changes, which write beside the shards.
pub(crate) struct Flash(pub(crate) Rc<RefCell<Devices>>);

impl Storage for Flash {
    fn size_bytes(&mut self) -> io::Result<u64> {
        Ok(self.0.borrow().flash.bytes.len() as u64)
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        let found = &self.0.borrow().flash.bytes[offset_bytes as usize..][..bytes.len()];
        bytes.copy_from_slice(found);
        Ok(())
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let mut devices = self.0.borrow_mut();
        devices.step()?;
        let range = offset_bytes as usize..offset_bytes as usize + bytes.len();
        devices.flash.bytes[range.clone()].copy_from_slice(bytes);
        devices.flash.written.push(range);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut devices = self.0.borrow_mut();
        devices.step()?;
        devices.flash.sync();
        Ok(())
    }
}
