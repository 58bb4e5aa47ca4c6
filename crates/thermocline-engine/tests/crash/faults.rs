//! Faults of devices while an engine uses them, and at rest.

use std::ops::Range;

use thermocline_core::random::SplitMix64;
use thermocline_engine::{Device, OperationKind};

use crate::devices::{Devices, Flying, Region, is_write};

const BLOCK: usize = 4096;
/// Times that an operation hangs, in nanoseconds; the last one never ends by itself.
const HANGS_NS: [u64; 4] = [100_000_000, 1_000_000_000, 4_000_000_000, u64::MAX];

/// Faults to inject. A number `n` means once in `n` operations; 0 means never.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// An operation on the backing store fails.
    pub(crate) backing_errors: u64,
    /// A read of a slot gives wrong bytes.
    pub(crate) flash_errors: u64,
    /// The flash is gone.
    pub(crate) flash_gone: bool,
    /// A sync of the backing store fails and drops data.
    pub(crate) sync_errors: u64,
    /// Each restart finds one block of the flash's metadata damaged.
    pub(crate) rots: bool,
    /// A device fails everything for some time.
    pub(crate) backing_outages: u64,
    pub(crate) flash_outages: u64,
    /// The backing store takes no writes for some time.
    pub(crate) full: u64,
    /// The connection to the backing store is lost.
    pub(crate) disconnects: u64,
    /// A write of a page to flash is lost, or goes to another place.
    pub(crate) lost_pages: u64,
    /// A write of a metadata block is lost, or goes to another place.
    pub(crate) lost_blocks: u64,
    /// A slot rots, whatever the engine is doing.
    pub(crate) rotten_slots: u64,
    /// An operation takes very long, or never ends.
    pub(crate) hangs: u64,
}

impl Faults {
    /// Return `true` if a page may be lost: only flash had its newest bytes.
    pub(crate) fn lose_pages(&self) -> bool {
        self.flash_gone
            || self.flash_errors + self.flash_outages + self.lost_pages + self.rotten_slots > 0
    }

    /// Return `true` if requests may fail although no page is lost.
    pub(crate) fn fail_requests(&self) -> bool {
        self.backing_errors
            + self.sync_errors
            + self.backing_outages
            + self.full
            + self.disconnects
            + self.hangs
            > 0
    }
}

/// Device that succeeds for some operations and then fails for some.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    device: Device,
    starts_in: u64,
    operations_left: u64,
    is_only_full: bool,
    part: Part,
}

/// Part of the flash that fails.
#[derive(Clone, Copy, Debug)]
enum Part {
    All,
    Metadata,
    Slots,
}

impl Devices {
    fn happens(&mut self, once_in: u64) -> bool {
        once_in > 0 && self.random.bits().is_multiple_of(once_in)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.random.bits() % bound.max(1) as u64) as usize
    }

    /// Begins what happens on its own.
    pub(crate) fn misbehave(&mut self) {
        let faults = self.faults;
        self.advance_outage();
        if let Some(mirrored) = &self.mirrored {
            mirrored.borrow_mut().misbehave(self.time);
        }
        if self.happens(faults.backing_outages) {
            self.begin_outage(Device::Backing, false);
        }
        if self.happens(faults.flash_outages) {
            self.begin_outage(Device::Flash, false);
        }
        if self.happens(faults.full) {
            self.begin_outage(Device::Backing, true);
        }
        if self.happens(faults.disconnects) {
            self.disconnect();
        }
        if self.happens(faults.rotten_slots) {
            self.rot_slot();
        }
    }

    fn begin_outage(&mut self, device: Device, is_only_full: bool) {
        // The last one is for good: until the machine starts again, or the run ends.
        let operations_left = [3, 20, 100, u64::MAX][self.below(4)];
        let part = [Part::All, Part::Metadata, Part::Slots][self.below(3)];
        self.outage = Some(Outage { device, starts_in: 0, operations_left, is_only_full, part });
    }

    /// Let the flash fail for some operations of a recovery.
    pub(crate) fn begin_short_outage(&mut self) {
        let (starts_in, operations_left) = (self.below(12) as u64, 1 + self.below(40) as u64);
        let (device, is_only_full, part) = (Device::Flash, false, Part::All);
        self.outage = Some(Outage { device, starts_in, operations_left, is_only_full, part });
    }

    /// Count an operation.
    pub(crate) fn advance_outage(&mut self) {
        if let Some(outage) = &mut self.outage {
            match &mut outage.starts_in {
                0 => outage.operations_left -= 1,
                starts_in => *starts_in -= 1,
            }
            if outage.operations_left == 0 {
                self.outage = None;
            }
        }
    }

    /// Ends the outage under way.
    pub(crate) fn end_outage(&mut self) {
        self.outage = None;
    }

    /// Return the earliest time at which an operation that begins now may complete.
    pub(crate) fn held_until(&mut self) -> u64 {
        if self.happens(self.faults.hangs) {
            let length = HANGS_NS[self.below(HANGS_NS.len())];
            return self.now_ns.saturating_add(length);
        }
        0
    }

    /// Return `true` if a device that is out of order fails an operation at that place.
    pub(crate) fn is_out(&self, device: Device, kind: OperationKind, start: usize) -> bool {
        let Some(outage) = self.outage else { return false };
        // The regions are laid out alike.
        let is_metadata = start < self.regions[0].witness.slots_start();
        let is_part = match outage.part {
            Part::Metadata if device == Device::Flash => is_metadata,
            Part::Slots if device == Device::Flash => !is_metadata,
            Part::All | Part::Metadata | Part::Slots => true,
        };
        let concerns = is_write(kind) || !outage.is_only_full;
        outage.device == device && outage.starts_in == 0 && concerns && is_part
    }

    pub(crate) fn fails(&mut self, flying: &Flying) -> bool {
        let operation = &flying.operation;
        let start = self.start_of(self.region_of(flying), operation);
        if self.is_out(operation.device, operation.kind, start) {
            return true;
        }
        if operation.device == Device::Flash
            && let Some(mirrored) = &self.mirrored
        {
            return mirrored.borrow().fails(flying.unit, self.time);
        }
        let is_sync = operation.kind == OperationKind::Sync;
        match operation.device {
            Device::Flash => self.faults.flash_gone || self.is_unreadable(flying),
            Device::Backing if is_sync && std::mem::take(&mut self.next_sync_fails) => true,
            Device::Backing if is_sync && self.faults.sync_errors > 0 => {
                self.happens(self.faults.sync_errors)
            }
            Device::Backing => self.happens(self.faults.backing_errors),
        }
    }

    fn is_unreadable(&mut self, flying: &Flying) -> bool {
        let operation = &flying.operation;
        let start = self.start_of(self.region_of(flying), operation);
        let end = start + operation.length_bytes as usize;
        operation.kind == OperationKind::Read
            && self.region(flying.shard).unreadable.range(start..end).next().is_some()
    }

    /// Fail a sync, which may drop writes that are still in flight, too.
    pub(crate) fn fail_sync(&mut self, device: Device) {
        let mut random = SplitMix64::new(self.random.bits());
        let still_shows = random.bits().is_multiple_of(2);
        for disk in self.disks(device) {
            disk.fail_sync(&mut random, still_shows);
        }
        for flying in &mut self.in_flight {
            flying.is_dropped |=
                flying.operation.device == device && random.bits().is_multiple_of(4);
        }
    }

    /// End the server of the backing store: everything in flight fails, writes that were not synced
    /// may be gone, and so does the next sync fail. For some time nothing answers.
    fn disconnect(&mut self) {
        let time = self.time;
        let mut is_syncing = false;
        for flying in &mut self.in_flight {
            let operation = &flying.operation;
            if operation.device != Device::Backing {
                continue;
            }
            is_syncing |= operation.kind == OperationKind::Sync;
            if is_write(operation.kind)
                && !flying.is_refused
                && self.random.bits().is_multiple_of(2)
            {
                let start = (operation.offset_bytes - self.first_bytes) as usize;
                self.backing.write(time, start, &flying.bytes);
            }
            flying.is_refused = true;
        }
        let mut random = SplitMix64::new(self.random.bits());
        self.backing.fail_sync(&mut random, false);
        // A sync that was under way already says that something may be gone.
        self.next_sync_fails |= !is_syncing;
        if self.random.bits().is_multiple_of(2) {
            self.begin_outage(Device::Backing, false);
        }
    }

    /// Writes to the flash, unless the write is lost or goes elsewhere.
    pub(crate) fn write_flash(&mut self, at: usize, start: usize, bytes: &[u8]) {
        let end = start + bytes.len();
        let (time, faults) = (self.time, self.faults);
        if self.mirrored.is_some() {
            return self.regions[at].disk.write(time, start, bytes);
        }
        let region = &mut self.regions[at];
        region.unreadable.retain(|block| !(start..end).contains(block));
        if start < region.witness.slots_start() {
            region.damaged_blocks.retain(|(place, _)| !(start..end).contains(place));
            // One of two copies may be wrong, so nothing happens while another block is.
            let may_lose = bytes.len() == BLOCK && region.damaged_blocks.is_empty();
            if may_lose && self.happens(faults.lost_blocks) {
                return self.lose_block(at, start, bytes);
            }
            self.regions[at].witness.completed(time, bytes);
        } else {
            region.lost.retain(|(place, _)| !(start..end).contains(place));
            if self.happens(faults.lost_pages) {
                return self.lose_page(at, start, bytes);
            }
        }
        self.regions[at].disk.write(time, start, bytes);
    }

    /// Draw one of the regions of the flash.
    fn any_region(&mut self) -> usize {
        match self.regions.len() {
            1 => 0,
            regions => self.below(regions),
        }
    }

    /// Lose one page of a write; perhaps another slot has it.
    fn lose_page(&mut self, at: usize, start: usize, bytes: &[u8]) {
        let page_bytes = self.regions[at].witness.page_bytes();
        let lost = self.below(bytes.len() / page_bytes);
        for (index, page) in bytes.chunks(page_bytes).enumerate() {
            let place = start + index * page_bytes;
            if index != lost {
                self.regions[at].disk.write(self.time, place, page);
                continue;
            }
            self.damages += 1;
            self.regions[at].lost.push((place, page.to_vec()));
            if let Some((other, victim)) = self.certain_slot()
                && self.random.bits().is_multiple_of(2)
                && (other, victim.start) != (at, place)
            {
                self.damages += 1;
                self.regions[other].disk.write(self.time, victim.start, page);
            }
        }
    }

    /// Lose a write of a metadata block; perhaps another block has it.
    fn lose_block(&mut self, at: usize, start: usize, bytes: &[u8]) {
        self.regions[at].damaged_blocks.push((start, bytes.to_vec()));
        let victim = self.below(self.regions[at].witness.slots_start() / BLOCK) * BLOCK;
        let twin = self.regions[at].witness.twin(start);
        let other = self.any_region();
        let is_busy = self.is_writing_flash(other, victim..victim + BLOCK);
        let is_elsewhere = if other == at {
            victim != start && victim != twin
        } else {
            self.regions[other].damaged_blocks.is_empty()
        };
        if self.random.bits().is_multiple_of(2) && is_elsewhere && !is_busy {
            let region = &mut self.regions[other];
            let former = region.disk.now[victim..victim + BLOCK].to_vec();
            region.damaged_blocks.push((victim, former));
            region.disk.put(victim, bytes);
        }
    }

    /// Choose a slot that the journal durably and certainly names and that is not being written.
    fn certain_slot(&mut self) -> Option<(usize, Range<usize>)> {
        let at = self.any_region();
        let slot = self.below(self.regions[at].witness.slots());
        let Region { witness, disk, .. } = &self.regions[at];
        let page_bytes = witness.page_bytes();
        let start = witness.slots_start() + slot * page_bytes;
        let range = start..start + page_bytes;
        let is_certain = witness.is_certain(slot, &disk.now[range.clone()]);
        (is_certain && !self.is_writing_flash(at, range.clone())).then_some((at, range))
    }

    /// Rot a slot that the engine relies on: a byte changes, or it cannot be read.
    pub(crate) fn rot_slot(&mut self) {
        let Some((at, slot)) = self.certain_slot() else { return };
        self.damages += 1;
        let place = slot.start + self.below(slot.len());
        // A free slot that cannot be read looks like a lost page if a crash cuts off its next write.
        let may_lose = self.faults.rotten_slots > 0;
        let drawn = self.below(3);
        let region = &mut self.regions[at];
        match drawn {
            0 if may_lose => drop(region.unreadable.insert(slot.start)),
            1 => region.disk.spoil(slot, |byte| *byte = 0x5A),
            _ => region.disk.spoil(place..place + 1, |byte| *byte ^= 4),
        }
    }

    /// Damage one block of the flash's metadata, the first bytes of the flash, at rest: a byte of
    /// it changes, a sector becomes zero, a former write of it turns out to be lost, or it cannot
    /// be read.
    pub(crate) fn rot(&mut self, metadata_bytes: usize) {
        if self.regions.iter().any(|region| !region.damaged_blocks.is_empty()) {
            return;
        }
        let at = self.any_region();
        let block = self.below(metadata_bytes / BLOCK) * BLOCK;
        let place = block + self.below(BLOCK);
        let drawn = self.below(4);
        let region = &mut self.regions[at];
        match drawn {
            0 => {
                let sector = place / 512 * 512;
                region.disk.spoil(sector..sector + 512, |byte| *byte = 0);
            }
            1 => {
                // One block at a time: its twin may be one that was not written since.
                region.unreadable.clear();
                region.unreadable.insert(block);
                self.is_unreadable_once = self.random.bits().is_multiple_of(2);
            }
            2 => region.disk.spoil(block..block + BLOCK, |byte| *byte = 0xA5),
            _ => region.disk.spoil(place..place + 1, |byte| *byte ^= 0x40),
        }
    }

    /// Undoes what would be two faults at once: damage to a slot that the journal does not yet call
    /// certain, and damage to one copy of a block while the power failure tears the other.
    pub(crate) fn undo_double_faults(&mut self) {
        for at in 0..self.regions.len() {
            let region = &mut self.regions[at];
            let Region { witness, disk, lost, .. } = region;
            let (page_bytes, slots_start) = (witness.page_bytes(), witness.slots_start());
            for (place, bytes) in std::mem::take(lost) {
                let slot = (place - slots_start) / page_bytes;
                if witness.is_certain(slot, &bytes) {
                    lost.push((place, bytes));
                } else {
                    disk.put(place, &bytes);
                }
            }
            for (place, bytes) in std::mem::take(&mut region.damaged_blocks) {
                let twin = self.regions[at].witness.twin(place);
                if self.is_writing_flash(at, twin..twin + BLOCK) {
                    self.regions[at].disk.put(place, &bytes);
                } else {
                    self.regions[at].damaged_blocks.push((place, bytes));
                }
            }
        }
    }

    /// Note that a recovery succeeded: it does not rely on the old journal, and knows all slots.
    pub(crate) fn recovered(&mut self) {
        for region in &mut self.regions {
            region.witness.recovered();
            region.lost.clear();
            let journal = region.witness.journal();
            region.damaged_blocks.retain(|(place, _)| !journal.contains(place));
        }
    }
}
