//! Two devices that lose what was not synced, and the operations in flight.
#![expect(unsafe_code, reason = "the devices fill frames that the shard owns")]

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use thermocline_core::random::SplitMix64;
use thermocline_engine::driver::Completion;
use thermocline_engine::driver::memory::transfer;
use thermocline_engine::{
    Device, DeviceError, Frames, Lane, Layout, Operation, OperationKind, ShardMap, SharedSyncs,
    Storage,
};

use crate::disk::Disk;
use crate::faults::{Faults, Outage};
use crate::mirror::Mirrored;
use crate::witness::Witness;

/// Greatest size of an annex.
const ANNEX_BYTES: u64 = 3 << 20;

/// Both devices, and the operations in flight.
#[derive(Clone, Debug)]
pub(crate) struct Devices {
    /// The parts of the flash, one per shard. A sync concerns all.
    pub(crate) regions: Vec<Region>,
    /// The end of the backing store; nothing is asked for before.
    pub(crate) backing: Disk,
    pub(crate) first_bytes: u64,
    pub(crate) in_flight: Vec<Flying>,
    pub(crate) shards: usize,
    /// The devices of a mirrored flash; the regions of each follow those of the one before.
    pub(crate) mirrored: Option<Rc<RefCell<Mirrored>>>,
    /// Syncs that several shards ask for, per device.
    joint: [Joint; 4],
    pub(crate) time: u64,
    /// The clock of the world, for operations that hang.
    pub(crate) now_ns: u64,
    /// Operations until the power fails.
    pub(crate) operations_left: u64,
    /// `true` if an outage failed an operation of a recovery.
    pub(crate) was_refused: bool,
    /// Operations of recoveries so far.
    pub(crate) recovery_operations: u64,
    pub(crate) faults: Faults,
    pub(crate) random: SplitMix64,
    /// `true` if the next process can read them again.
    pub(crate) is_unreadable_once: bool,
    pub(crate) outage: Option<Outage>,
    /// `true` if the server of the backing store ended since the last sync.
    pub(crate) next_sync_fails: bool,
    /// Pages of flash that were damaged so far.
    pub(crate) damages: u64,
    /// Bytes at the end of the flash that nothing uses.
    pub(crate) unused_bytes: u64,
    /// The size that the flash says it has, if that is not its real one.
    pub(crate) flash_bytes: Option<u64>,
}

/// The part of the flash that one shard has. Offsets count from its beginning.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) disk: Disk,
    pub(crate) witness: Witness,
    /// Blocks that cannot be read until they are written again.
    pub(crate) unreadable: BTreeSet<usize>,
    /// Writes of slots that did not happen.
    pub(crate) lost: Vec<(usize, Vec<u8>)>,
    /// Metadata blocks that are wrong, and what they should be.
    pub(crate) damaged_blocks: Vec<(usize, Vec<u8>)>,
    /// Ranges of annexes in bytes from the beginning of the region, modulo 2^64, and where they are in the
    /// simulated part.
    annexes: Vec<(Range<u64>, usize)>,
    /// Bytes that others have written where the region gave room back, and the parts that it uses.
    foreign: Vec<u8>,
    used: Vec<Range<usize>>,
}

impl Region {
    fn new(layout: &Layout) -> Self {
        Self {
            disk: Disk::new(layout.flash_bytes() as usize, 512),
            witness: Witness::new(layout),
            unreadable: BTreeSet::new(),
            lost: vec![],
            damaged_blocks: vec![],
            annexes: vec![],
            foreign: vec![],
            used: vec![],
        }
    }

    /// Return the place in the simulated part of an offset in an annex.
    pub(crate) fn in_annex(&self, offset_bytes: u64) -> Option<usize> {
        let is_there = self.annexes.iter().any(|(range, _)| range.contains(&offset_bytes));
        is_there.then(|| self.local(offset_bytes))
    }

    /// Return the place in the simulated part.
    fn local(&self, offset_bytes: u64) -> usize {
        let annex = self.annexes.iter().find(|(range, _)| range.contains(&offset_bytes));
        let place =
            |(range, local): &(Range<u64>, usize)| local + (offset_bytes - range.start) as usize;
        annex.map_or(offset_bytes as usize, place)
    }

    /// Add room for what a layout uses. New annexes hold the bytes of something else.
    pub(crate) fn use_layout(&mut self, layout: &Layout, random: &mut SplitMix64) {
        for range in layout.annex_ranges() {
            self.add_annex(&range, random);
        }
        self.set_used(layout);
    }

    /// Let others write wherever a layout uses nothing.
    pub(crate) fn give_back(&mut self, layout: &Layout, random: &mut SplitMix64) {
        self.set_used(layout);
        let drawn = random.bits() as u8;
        let mut start = 0;
        let end = self.disk.now.len();
        let mut used = self.used.clone();
        used.sort_unstable_by_key(|range| range.start);
        for range in used.into_iter().chain(std::iter::once(end..end)) {
            self.disk.spoil(start..range.start, |byte| *byte = drawn);
            start = range.end;
        }
        self.foreign.clone_from(&self.disk.now);
    }

    /// Return `true` if what others have written is still there.
    fn keeps_foreign(&self) -> bool {
        let is_used = |place: &usize| self.used.iter().any(|range| range.contains(place));
        let pairs = self.foreign.iter().zip(&self.disk.now).enumerate();
        let mut wrong = pairs.filter(|(_, (expected, found))| expected != found);
        wrong.all(|(place, _)| is_used(&place))
    }

    fn set_used(&mut self, layout: &Layout) {
        let first = 0..layout.first_bytes() as usize;
        let local = |range: Range<u64>| {
            let start = self.local(range.start);
            start..start + (range.end - range.start) as usize
        };
        self.used = std::iter::once(first).chain(layout.annex_ranges().map(local)).collect();
    }

    /// Have the room that another copy of the region had, which a device of the same size has, too.
    pub(crate) fn have_room_of(&mut self, other: &Self, random: &mut SplitMix64) {
        for (range, _) in &other.annexes {
            self.add_annex(range, random);
        }
    }

    /// Add room for an annex, which holds the bytes of something else.
    fn add_annex(&mut self, range: &Range<u64>, random: &mut SplitMix64) {
        assert!(range.end - range.start <= ANNEX_BYTES, "annexes are small");
        // Room that a growth did not get to use is used by the next one.
        if let Some((known, _)) = self.annexes.iter_mut().find(|it| it.0.start == range.start) {
            known.end = known.end.max(range.end);
            return;
        }
        let (local, bytes) = (self.disk.now.len(), ANNEX_BYTES as usize);
        self.disk.grow(bytes);
        self.annexes.push((range.clone(), local));
        let drawn = random.bits() as u8;
        self.disk.spoil(local..local + bytes, |byte| *byte = drawn);
    }

    /// Make blocks readable again that a write covers.
    fn make_readable(&mut self, range: &Range<usize>) {
        self.unreadable.retain(|block| !range.contains(block));
    }
}

/// The syncs of one device that several shards have, as `JointDriver` performs them.
#[derive(Clone, Debug)]
struct Joint {
    syncs: SharedSyncs,
    /// Per shard: what waits for syncs.
    waiting: Vec<VecDeque<Rc<Operation>>>,
    /// Operations that are done and not reported yet.
    ready: VecDeque<(usize, Rc<Operation>, Result<(), DeviceError>)>,
}

impl Joint {
    fn new(shards: usize) -> Self {
        let waiting = vec![VecDeque::new(); shards];
        Self { syncs: SharedSyncs::new(shards), waiting, ready: VecDeque::new() }
    }

    /// Complete a sync for each shard that waited for it.
    fn done(&mut self, result: Result<(), DeviceError>) {
        let Self { syncs, waiting, ready } = self;
        syncs.done(result.is_ok(), |shard, count, is_durable| {
            let told = if is_durable { Ok(()) } else { Err(DeviceError(io::ErrorKind::Other)) };
            for operation in waiting[shard].drain(..count) {
                ready.push_back((shard, operation, told));
            }
        });
    }
}

/// An operation in flight.
#[derive(Clone, Debug)]
pub(crate) struct Flying {
    /// Shard that asked for it; `None` if it is a sync for several shards.
    pub(crate) shard: Option<usize>,
    /// Device of the flash, of several.
    pub(crate) unit: usize,
    /// Copies of the devices share it; only the original completes it.
    pub(crate) operation: Rc<Operation>,
    started: u64,
    /// Bytes of a write's frames when it was started: they must not change.
    pub(crate) bytes: Vec<u8>,
    /// `true` if a failed sync dropped it on its way: it will be complete and never durable.
    pub(crate) is_dropped: bool,
    /// `true` if it fails: its connection was lost.
    pub(crate) is_refused: bool,
    /// Earliest time at which it completes.
    held_until: u64,
}

impl Devices {
    pub(crate) fn new(
        (layout, map): (Layout, ShardMap),
        backing: usize,
        backing_atom: usize,
        seed: u64,
    ) -> Self {
        Self {
            regions: (0..map.shards()).map(|_| Region::new(&layout)).collect(),
            backing: Disk::new(backing, backing_atom),
            first_bytes: 0,
            in_flight: vec![],
            shards: map.shards(),
            mirrored: None,
            joint: [(); 4].map(|()| Joint::new(map.shards())),
            time: 0,
            now_ns: 0,
            operations_left: u64::MAX,
            was_refused: false,
            recovery_operations: 0,
            faults: Faults::default(),
            random: SplitMix64::new(seed),
            is_unreadable_once: false,
            outage: None,
            next_sync_fails: false,
            damages: 0,
            unused_bytes: 0,
            flash_bytes: None,
        }
    }

    /// Return the position at which an operation begins in the simulated part of its device.
    pub(crate) fn start_of(&self, region: Option<usize>, operation: &Operation) -> usize {
        match (operation.device, operation.kind) {
            (_, OperationKind::Sync) => 0,
            (Device::Backing, _) => (operation.offset_bytes - self.first_bytes) as usize,
            (Device::Flash, _) => {
                let region = region.expect("only syncs are nobody's");
                self.regions[region].local(operation.offset_bytes)
            }
        }
    }

    /// Return the layout with which the flash was set up.
    pub(crate) fn layout(&self) -> Layout {
        self.regions[0].witness.layout()
    }

    /// Return the disk that an operation of a shard is on.
    fn disk(&mut self, shard: Option<usize>, device: Device) -> &mut Disk {
        match device {
            Device::Flash => &mut self.region(shard).disk,
            Device::Backing => &mut self.backing,
        }
    }

    /// Return the region of a shard.
    pub(crate) fn region(&mut self, shard: Option<usize>) -> &mut Region {
        &mut self.regions[shard.expect("only syncs are nobody's")]
    }

    /// Return every disk of a device.
    pub(crate) fn disks(&mut self, device: Device) -> Vec<&mut Disk> {
        match device {
            Device::Flash => self.regions.iter_mut().map(|region| &mut region.disk).collect(),
            Device::Backing => vec![&mut self.backing],
        }
    }

    pub(crate) fn start(&mut self, shard: usize, frames: &Frames, operation: Operation) {
        let mirrored = self.mirrored.clone().filter(|_| operation.device == Device::Flash);
        let Some(mirrored) = mirrored else {
            return self.start_on(0, shard, frames, operation);
        };
        let parts = mirrored.borrow_mut().fans[shard].split(operation);
        for (lane, part) in parts {
            let unit = mirrored.borrow().unit_of(lane);
            self.start_on(unit, shard, frames, part);
        }
    }

    fn start_on(&mut self, unit: usize, shard: usize, frames: &Frames, operation: Operation) {
        if operation.kind == OperationKind::Sync && self.shards > 1 {
            let joint = &mut self.joint[joint_of(operation.device, unit)];
            joint.syncs.ask(shard);
            joint.waiting[shard].push_back(Rc::new(operation));
            self.begin_joint_syncs();
        } else {
            self.fly(Some(shard), unit, frames, operation);
        }
    }

    /// Begins the syncs for several shards that may begin.
    fn begin_joint_syncs(&mut self) {
        for (device, unit) in JOINT {
            if self.joint[joint_of(device, unit)].syncs.begin() {
                self.fly(None, unit, &Frames::new(1, 4096), Operation::sync(device));
            }
        }
    }

    fn fly(&mut self, shard: Option<usize>, unit: usize, frames: &Frames, operation: Operation) {
        self.time += 1;
        let mut bytes = vec![];
        if is_write(operation.kind) {
            // SAFETY: the world passes the frames of the shard that gave it the operation.
            unsafe { operation.gather(frames, 0..operation.length_bytes, &mut bytes) };
        }
        let is_watched = self.mirrored.is_none();
        if operation.device == Device::Flash && is_write(operation.kind) && is_watched {
            self.region(shard).witness.started(&bytes);
        }
        let held_until = self.held_until();
        let (started, is_dropped, is_refused) = (self.time, false, false);
        self.in_flight.push(Flying {
            shard,
            unit,
            operation: Rc::new(operation),
            started,
            bytes,
            is_dropped,
            is_refused,
            held_until,
        });
    }

    pub(crate) fn is_idle(&self) -> bool {
        let has_held = |mirrored: &Rc<RefCell<Mirrored>>| mirrored.borrow().has_held();
        self.in_flight.is_empty()
            && self.joint.iter().all(|joint| joint.ready.is_empty())
            && !self.mirrored.as_ref().is_some_and(has_held)
    }

    /// Return `true` if operations are in flight and none of them may complete yet.
    pub(crate) fn hangs(&self) -> bool {
        let is_held = |flying: &Flying| self.is_held(flying);
        let tells = self.joint.iter().any(|joint| !joint.ready.is_empty());
        !self.in_flight.is_empty() && !tells && self.in_flight.iter().all(is_held)
    }

    /// Let operations that hang for ever end soon.
    pub(crate) fn end_hangs(&mut self) {
        for flying in &mut self.in_flight {
            flying.held_until = flying.held_until.min(self.now_ns);
        }
    }

    const fn is_held(&self, flying: &Flying) -> bool {
        flying.held_until > self.now_ns
    }

    /// Complete one of the operations in flight, and return the shard that asked for it; `None` if
    /// the power failed, or if all of them hang, or if several shards are still to be informed of
    /// it. `frames` are those of a shard.
    pub(crate) fn complete_one(
        &mut self,
        frames: impl Fn(usize) -> Arc<Frames>,
    ) -> Option<(usize, Completion)> {
        self.operations_left = self.operations_left.saturating_sub(1);
        if self.operations_left == 0 || self.is_idle() {
            return None;
        }
        self.misbehave();
        if let Some(told) = self.mirrored.as_ref().and_then(|it| it.borrow_mut().next_held()) {
            return Some(told);
        }
        if let Some((shard, unit, operation, result)) = self.tell() {
            return self.joined(shard, unit, operation, result);
        }
        let flying = self.choose()?;
        self.time += 1;
        let (shard, operation) = (flying.shard, Rc::clone(&flying.operation));
        let unit = flying.unit;
        let result = if flying.is_refused || self.fails(&flying) {
            let drops = operation.device == Device::Backing || self.mirrored.is_none();
            if operation.kind == OperationKind::Sync && !flying.is_refused && drops {
                self.fail_sync(operation.device);
            }
            drop(flying);
            Err(DeviceError(io::ErrorKind::Other))
        } else {
            self.perform(frames, flying);
            Ok(())
        };
        if let Some(shard) = shard {
            return self.joined(shard, unit, given_back(operation), result);
        }
        self.joint[joint_of(operation.device, unit)].done(result);
        self.begin_joint_syncs();
        None
    }

    /// Return the region that an operation of a shard is on.
    pub(crate) fn region_of(&self, flying: &Flying) -> Option<usize> {
        flying.shard.map(|shard| flying.unit * self.shards + shard)
    }

    /// Make durable what a device of the flash completed before that time.
    pub(crate) fn sync_unit(&mut self, unit: usize, time: u64) {
        let first = unit * self.shards;
        for region in &mut self.regions[first..first + self.shards] {
            region.disk.sync(time);
        }
    }

    /// Inform a shard that a sync for several is done, now or later.
    fn tell(&mut self) -> Option<(usize, usize, Operation, Result<(), DeviceError>)> {
        for (device, unit) in JOINT {
            let joint = joint_of(device, unit);
            if self.joint[joint].ready.is_empty() || self.random.bits().is_multiple_of(2) {
                continue;
            }
            let (shard, operation, result) = self.joint[joint].ready.pop_front()?;
            return Some((shard, unit, given_back(operation), result));
        }
        None
    }

    /// Return `true` if a device of the flash has nothing to do.
    pub(crate) fn is_unit_idle(&self, unit: usize) -> bool {
        let joint = &self.joint[joint_of(Device::Flash, unit)];
        let is_elsewhere =
            |flying: &Flying| flying.unit != unit || flying.operation.device != Device::Flash;
        self.in_flight.iter().all(is_elsewhere)
            && joint.ready.is_empty()
            && joint.waiting.iter().all(VecDeque::is_empty)
    }

    /// Return the result that a shard gets when a device has done its part.
    fn joined(
        &mut self,
        shard: usize,
        unit: usize,
        operation: Operation,
        result: Result<(), DeviceError>,
    ) -> Option<(usize, Completion)> {
        let mirrored = self.mirrored.clone().filter(|_| operation.device == Device::Flash);
        let Some(mirrored) = mirrored else { return Some((shard, (operation, result))) };
        let lane: Lane = mirrored.borrow().lane_of(unit);
        let joined = mirrored.borrow_mut().fans[shard].join(lane, operation, result);
        joined.map(|completion| (shard, completion))
    }

    /// Takes out the operation that completes next: the oldest one rather often, or some would wait for
    /// ever.
    fn choose(&mut self) -> Option<Flying> {
        let is_oldest = self.random.bits().is_multiple_of(4);
        let ready = self.in_flight.iter().enumerate().filter(|(_, flying)| !self.is_held(flying));
        let ready: Vec<usize> = ready.map(|(index, _)| index).collect();
        let drawn = (self.random.bits() % ready.len().max(1) as u64) as usize;
        let chosen = *ready.get(if is_oldest { 0 } else { drawn })?;
        Some(self.in_flight.remove(chosen))
    }

    fn perform(&mut self, frames: impl Fn(usize) -> Arc<Frames>, flying: Flying) {
        let region = self.region_of(&flying);
        let Flying { shard, operation, started, bytes, is_dropped, unit, .. } = flying;
        let frames = || frames(shard.expect("only syncs are nobody's"));
        let (time, device) = (self.time, operation.device);
        let start = self.start_of(region, &operation);
        let end = start + operation.length_bytes as usize;
        match operation.kind {
            OperationKind::Write | OperationKind::Zero => {
                if operation.kind == OperationKind::Write {
                    let mut again = vec![];
                    // SAFETY: the operation is in flight; the frames are those of its shard.
                    unsafe { operation.gather(&frames(), 0..operation.length_bytes, &mut again) };
                    assert!(again == bytes, "the bytes of a write in flight do not change");
                } else {
                    assert!(bytes.iter().all(|&byte| byte == 0), "a zero's frames hold zeroes");
                }
                match device {
                    _ if is_dropped => {}
                    Device::Flash => self.write_flash(region.unwrap_or(0), start, &bytes),
                    Device::Backing => self.backing.write(time, start, &bytes),
                }
            }
            OperationKind::Sync if self.mirrored.is_some() && device == Device::Flash => {
                self.sync_unit(unit, started);
            }
            OperationKind::Sync => {
                for disk in self.disks(device) {
                    disk.sync(started);
                }
                if device == Device::Flash {
                    self.regions.iter_mut().for_each(|region| region.witness.synced(started));
                }
            }
            OperationKind::Read => {
                let mut read = self.disk(region, device).now[start..end].to_vec();
                let errors = self.faults.flash_errors;
                let spoil = errors > 0
                    && device == Device::Flash
                    && self.random.bits().is_multiple_of(errors);
                if spoil {
                    self.damages += 1;
                    read[700] ^= 0x10;
                }
                // SAFETY: the operation is in flight; the frames are those of its shard.
                unsafe { transfer(&frames(), &operation, &mut read) };
            }
            OperationKind::Discard => self.discard(start..end),
        }
    }

    /// Zero some sectors of a discarded range: all, none, or any of them.
    fn discard(&mut self, range: Range<usize>) {
        let share = [0, 50, 100][(self.random.bits() % 3) as usize];
        let atom = self.backing.atom;
        for start in range.step_by(atom) {
            if self.random.bits() % 100 < share {
                self.backing.write(self.time, start, &vec![0; atom]);
            }
        }
    }

    /// Kill the engine's process while the machine goes on: nothing that was written is lost, and
    /// of the operations in flight some came through. The next start reads past the page cache.
    pub(crate) fn kill(&mut self) {
        self.undo_double_faults();
        self.backing.show_what_it_has();
        for flying in std::mem::take(&mut self.in_flight) {
            let region = self.region_of(&flying);
            let Flying { shard, operation, bytes, is_refused, .. } = flying;
            let start = self.start_of(region, &operation);
            if operation.kind == OperationKind::Discard {
                let end = start + operation.length_bytes as usize;
                self.discard(start..end);
            }
            let comes_through = is_write(operation.kind) && !is_refused;
            if comes_through && self.random.bits().is_multiple_of(2) {
                let time = self.time;
                self.make_readable(shard, &operation);
                self.disk(shard, operation.device).write(time, start, &bytes);
            }
        }
        self.restarted();
    }

    /// Sync the backing store before a start. Returns `true` if that succeeds.
    pub(crate) fn sync_backing(&mut self) -> bool {
        self.time += 1;
        let errors = self.faults.sync_errors.max(self.faults.backing_errors);
        let is_unlucky = errors > 0 && self.random.bits().is_multiple_of(errors);
        if is_unlucky || self.is_out(Device::Backing, OperationKind::Sync, 0) {
            self.end_outage();
            // The next start would take the page cache's remains of it for content.
            let mut random = SplitMix64::new(self.random.bits());
            self.backing.fail_sync(&mut random, false);
            return false;
        }
        let time = self.time;
        self.backing.sync(time);
        true
    }

    /// Return `true` if a part of a region was written and not synced, or is being written.
    pub(crate) fn is_writing_flash(&self, region: usize, range: Range<usize>) -> bool {
        self.regions[region].disk.is_unsynced(&range)
            || self.in_flight.iter().any(|flying| {
                let operation = &flying.operation;
                if operation.device != Device::Flash || flying.shard != Some(region) {
                    return false;
                }
                let start = self.start_of(Some(region), operation);
                is_write(operation.kind)
                    && start < range.end
                    && range.start < start + operation.length_bytes as usize
            })
    }

    /// Cut the power. Writes in flight may have come through in part.
    pub(crate) fn crash(&mut self) {
        self.undo_double_faults();
        for flying in std::mem::take(&mut self.in_flight) {
            let start = self.start_of(self.region_of(&flying), &flying.operation);
            let time = self.time;
            if flying.operation.kind == OperationKind::Discard {
                let end = start + flying.operation.length_bytes as usize;
                self.discard(start..end);
            }
            if is_write(flying.operation.kind) && !flying.is_refused {
                let region = self.region_of(&flying);
                self.make_readable(region, &flying.operation);
                self.disk(region, flying.operation.device).cut_off(time, start, flying.bytes);
            }
        }
        let mut random = SplitMix64::new(self.random.bits());
        for region in &mut self.regions {
            region.disk.crash(&mut random);
            region.witness.power_failed();
        }
        self.backing.crash(&mut random);
        self.restarted();
    }

    /// Return the distance from one region of the flash to the next, in bytes.
    pub(crate) fn region_bytes(&self) -> u64 {
        let bytes = self.layout().flash_bytes();
        if self.shards == 1 { bytes } else { bytes.next_multiple_of(1 << 20) }
    }

    /// Return the number of bytes of a device of the flash.
    pub(crate) fn whole_flash_bytes(&self) -> u64 {
        // Each device of a mirrored flash has the same room.
        let regions = (0..).zip(&self.regions[..self.shards]);
        let ends = regions.flat_map(|(number, region)| {
            let start = number * self.region_bytes();
            region.annexes.iter().map(move |(range, _)| start.wrapping_add(range.end))
        });
        // Those that lie before the first region need no room behind it.
        let behind = ends.filter(|end| *end < 1 << 63).max().unwrap_or(0);
        behind.max(self.region_bytes() * self.shards as u64) + self.unused_bytes
    }

    /// Add room for what each region uses with its layout, on each device.
    pub(crate) fn use_layouts(&mut self, layouts: &[Layout]) {
        let mut random = SplitMix64::new(self.random.bits());
        for (region, layout) in self.regions.iter_mut().zip(layouts.iter().cycle()) {
            region.use_layout(layout, &mut random);
        }
    }

    /// Let others write wherever the regions use nothing with their layouts, on each device.
    pub(crate) fn give_back(&mut self, layouts: &[Layout]) {
        let mut random = SplitMix64::new(self.random.bits());
        for (region, layout) in self.regions.iter_mut().zip(layouts.iter().cycle()) {
            region.give_back(layout, &mut random);
        }
    }

    /// Return `true` if what others have written where regions gave room back is still there.
    pub(crate) fn keep_foreign(&self) -> bool {
        self.regions.iter().all(Region::keeps_foreign)
    }

    /// Replace the flash that failed by another.
    pub(crate) fn replace_flash(&mut self, layout: &Layout) {
        self.regions.fill_with(|| Region::new(layout));
        self.outage = None;
        self.faults.flash_gone = false;
    }

    /// Return `true` if the power failed, or an outage explains that a flash could not be set up.
    pub(crate) const fn is_excused(&self) -> bool {
        self.operations_left == 0 || self.was_refused
    }

    /// Make blocks of the flash readable again that a write covers.
    fn make_readable(&mut self, shard: Option<usize>, operation: &Operation) {
        if operation.device == Device::Flash {
            let start = self.start_of(shard, operation);
            self.region(shard).make_readable(&(start..start + operation.length_bytes as usize));
        }
    }

    fn restarted(&mut self) {
        if std::mem::take(&mut self.is_unreadable_once) {
            self.regions.iter_mut().for_each(|region| region.unreadable.clear());
        }
        self.joint = [(); 4].map(|()| Joint::new(self.shards));
        self.operations_left = u64::MAX;
        self.was_refused = false;
        // The next process has a connection of its own.
        self.next_sync_fails = false;
    }
}

/// Devices whose syncs several shards share.
const JOINT: [(Device, usize); 4] =
    [(Device::Flash, 0), (Device::Backing, 0), (Device::Flash, 1), (Device::Flash, 2)];

const fn joint_of(device: Device, unit: usize) -> usize {
    match (device, unit) {
        (Device::Flash, 0) => 0,
        (Device::Backing, _) => 1,
        (Device::Flash, unit) => unit + 1,
    }
}

pub(crate) const fn is_write(kind: OperationKind) -> bool {
    matches!(kind, OperationKind::Write | OperationKind::Zero)
}

/// The flash, for recovery; it may lose power on the way.
pub(crate) struct FlashStorage(pub(crate) Rc<RefCell<Devices>>);

impl FlashStorage {
    /// Return the region of a place on the flash, and the place in it. Regions begin at multiples
    /// of 1 MiB.
    fn place(&self, offset_bytes: u64) -> (usize, usize) {
        let devices = self.0.borrow();
        let region_bytes = devices.region_bytes();
        for (number, region) in (0..).zip(&devices.regions) {
            let offset_bytes = offset_bytes.wrapping_sub(number * region_bytes);
            if let Some(local) = region.in_annex(offset_bytes) {
                return (number as usize, local);
            }
        }
        let region = (offset_bytes / region_bytes).min(devices.shards as u64 - 1);
        (region as usize, (offset_bytes - region * region_bytes) as usize)
    }

    fn step(&self, kind: OperationKind, start: usize) -> io::Result<RefMut<'_, Devices>> {
        let mut devices = self.0.borrow_mut();
        devices.time += 1;
        devices.recovery_operations += 1;
        devices.advance_outage();
        devices.operations_left = devices.operations_left.saturating_sub(1);
        if devices.operations_left == 0 {
            return Err(io::Error::other("the power failed"));
        }
        if devices.is_out(Device::Flash, kind, start) {
            devices.was_refused = true;
            return Err(io::Error::other("the flash fails for now"));
        }
        Ok(devices)
    }
}

impl Storage for FlashStorage {
    fn size_bytes(&mut self) -> io::Result<u64> {
        let devices = self.0.borrow();
        Ok(devices.flash_bytes.unwrap_or_else(|| devices.whole_flash_bytes()))
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        let (region, start) = self.place(offset_bytes);
        let devices = self.step(OperationKind::Read, start)?;
        let region = &devices.regions[region];
        if region.unreadable.range(start..start + bytes.len()).next().is_some() {
            return Err(io::Error::other("a bad sector"));
        }
        // Between two regions there may be room that neither uses.
        bytes.fill(0);
        let here = region.disk.now.get(start..).unwrap_or_default();
        let here = &here[..here.len().min(bytes.len())];
        bytes[..here.len()].copy_from_slice(here);
        Ok(())
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let (region, start) = self.place(offset_bytes);
        let mut devices = self.step(OperationKind::Write, start)?;
        devices.write_flash(region, start, bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut devices = self.step(OperationKind::Sync, 0)?;
        let time = devices.time;
        for region in &mut devices.regions {
            region.disk.sync(time);
            region.witness.synced(time);
        }
        Ok(())
    }
}

/// The backing store, to be looked at while no engine runs.
pub(crate) struct BackingStorage(pub(crate) Rc<RefCell<Devices>>);

impl Storage for BackingStorage {
    fn size_bytes(&mut self) -> io::Result<u64> {
        let devices = self.0.borrow();
        Ok(devices.first_bytes + devices.backing.now.len() as u64)
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        let devices = self.0.borrow();
        for (offset, sector) in (offset_bytes..).step_by(512).zip(bytes.chunks_mut(512)) {
            match offset.checked_sub(devices.first_bytes) {
                Some(start) => {
                    sector.copy_from_slice(&devices.backing.now[start as usize..][..512]);
                }
                None => sector.fill(0),
            }
        }
        Ok(())
    }

    fn write_at(&mut self, _offset_bytes: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn given_back(operation: Rc<Operation>) -> Operation {
    Rc::into_inner(operation).expect("copies of the devices give up what is in flight")
}
