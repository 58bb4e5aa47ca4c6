//! A flash of two devices, of which one fails, disappears, or comes back as it was before; and a third device, which
//! joins while the engine runs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use thermocline_core::random::SplitMix64;
use thermocline_engine::driver::Completion;
use thermocline_engine::driver::mirror::Fan;
use thermocline_engine::{
    Asked, Begin, Flash, FlashError, FlashSet, FoundMember, Joining, Keeper, Label, Lane, Lanes,
    Left, Member, Mirror, MirrorError, MirrorStorage, Noted, Pairing, Shard, Storage, Uuid,
    content_bytes, reconcile,
};

use crate::devices::{Devices, Region};
use crate::plan::Plan;
use crate::world::World;

/// Number of operations of which one begins a failure.
const FAILURES: u64 = 400;

/// Operations between the failures of two devices: no operation shall see both.
const REST: u64 = 500;

/// Number of devices: the two of the configuration, and a spare one.
const UNITS: usize = 3;

/// Bytes of a block.
const BLOCK: usize = 4096;

/// Copies that were begun, and those that ended with a device in use.
pub(crate) static JOINS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// The labels of the devices, and the note.
#[derive(Debug)]
struct Labels {
    each: [Label; UNITS],
    /// The devices that are the members.
    members: [usize; 2],
    /// The devices that operations reach, by their lanes.
    lanes: BTreeMap<Lane, usize>,
    noted: Noted,
    /// `true` if the note can be written only now and then.
    is_note_stubborn: bool,
    /// Labels and notes that are written before the power fails.
    left: u64,
    /// A device that fails the write of its label, which may have come through.
    refuses: Option<usize>,
    random: SplitMix64,
}

impl Labels {
    /// Count what is written, unless the power failed.
    fn step(&mut self) -> io::Result<()> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 { Err(io::Error::other("the power failed")) } else { Ok(()) }
    }

    fn label(&mut self, member: Member, generation: u64, is_alone: bool) -> io::Result<()> {
        self.step()?;
        let unit = self.members[member as usize];
        let is_refused = self.refuses == Some(unit);
        if !is_refused || self.random.bits().is_multiple_of(2) {
            let label = &mut self.each[unit];
            (label.member, label.generation, label.is_alone) = (member, generation, is_alone);
        }
        if is_refused { Err(io::Error::other("the device fails")) } else { Ok(()) }
    }
}

/// Writes labels and the note.
struct LabelKeeper(Arc<Mutex<Labels>>);

impl LabelKeeper {
    fn lock(&self) -> MutexGuard<'_, Labels> {
        self.0.lock().unwrap()
    }
}

impl Keeper for LabelKeeper {
    fn label(&mut self, survivor: Member, generation: u64) -> io::Result<()> {
        self.lock().label(survivor, generation, true)
    }

    fn note(&mut self, survivor: Member, generation: u64) -> io::Result<()> {
        let mut labels = self.lock();
        if labels.is_note_stubborn && labels.random.bits().is_multiple_of(2) {
            return Err(io::Error::other("the note cannot be written now"));
        }
        labels.step()?;
        labels.noted = Noted { generation, alone: Some(survivor) };
        Ok(())
    }

    fn joins(&mut self, member: Member, lane: Lane) {
        let mut labels = self.lock();
        labels.members[member as usize] = labels.lanes[&lane];
    }

    fn label_both(&mut self, member: Member, generation: u64) -> io::Result<()> {
        self.lock().label(member, generation, false)
    }

    fn note_both(&mut self, generation: u64) {
        let mut labels = self.lock();
        if labels.step().is_ok() {
            labels.noted = Noted { generation, alone: None };
        }
    }
}

/// A copy under way.
struct Copying {
    joining: Joining,
    lane: Lane,
    unit: usize,
    has_read: bool,
}

/// The devices while an engine uses them.
pub(crate) struct Mirrored {
    mirror: Arc<Mirror>,
    labels: Arc<Mutex<Labels>>,
    pub(crate) fans: Vec<Fan>,
    /// Time until which each device fails everything.
    fails_until: [u64; UNITS],
    copying: Option<Copying>,
    /// The device that is to join.
    wants_join: Option<usize>,
    random: SplitMix64,
}

impl std::fmt::Debug for Mirrored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirrored").field("fans", &self.fans).finish_non_exhaustive()
    }
}

impl Mirrored {
    fn new(run: &Run, mirror: &Arc<Mirror>, shards: usize, region_bytes: u64, seed: u64) -> Self {
        let fan = |shard| Fan::new(Arc::clone(mirror), shard * region_bytes);
        Self {
            mirror: Arc::clone(mirror),
            labels: Arc::clone(&run.labels),
            fans: (0..shards as u64).map(fan).collect(),
            fails_until: [0; UNITS],
            copying: None,
            wants_join: run.wants_join,
            random: SplitMix64::new(seed),
        }
    }

    pub(crate) fn has_held(&self) -> bool {
        self.fans.iter().any(Fan::has_held)
    }

    pub(crate) fn next_held(&mut self) -> Option<(usize, Completion)> {
        let mut fans = self.fans.iter_mut().enumerate();
        fans.find_map(|(shard, fan)| fan.next_held().map(|done| (shard, done)))
    }

    /// Return the device in a lane.
    pub(crate) fn unit_of(&self, lane: Lane) -> usize {
        self.labels.lock().unwrap().lanes[&lane]
    }

    /// Return the lane that a device had last.
    pub(crate) fn lane_of(&self, unit: usize) -> Lane {
        let labels = self.labels.lock().unwrap();
        let mut lanes = labels.lanes.iter().rev();
        *lanes.find(|(_, other)| **other == unit).expect("it has a lane").0
    }

    /// Return `true` if a device joins, or is about to.
    pub(crate) const fn is_joined(&self) -> bool {
        self.copying.is_some() || self.wants_join.is_some()
    }

    /// Return both members as one device.
    pub(crate) fn storage(&self, devices: &Rc<RefCell<Devices>>) -> impl Storage + use<> {
        let lanes = UnitLanes { devices: Rc::clone(devices), labels: Arc::clone(&self.labels) };
        MirrorStorage::new(lanes, Arc::clone(&self.mirror), 0)
    }

    pub(crate) const fn fails(&self, unit: usize, time: u64) -> bool {
        time < self.fails_until[unit]
    }

    /// Lets a device fail now and then, for some operations or for good; never both members.
    pub(crate) fn misbehave(&mut self, time: u64) {
        let used = self.units_in_use();
        let is_well = |unit: &usize| time >= self.fails_until[*unit].saturating_add(REST);
        // A device that joins fails more often, and mostly for a moment.
        let is_joining = self.mirror.in_use().joining().is_some();
        let (seldom, lengths) = if is_joining {
            (FAILURES / 4, [1, 1, 2, 5, u64::MAX])
        } else {
            (FAILURES, [1, 5, 50, u64::MAX, u64::MAX])
        };
        if !used.iter().all(is_well) || !self.random.bits().is_multiple_of(seldom) {
            return;
        }
        let length = lengths[(self.random.bits() % 5) as usize];
        // The only member does not fail.
        let has_others =
            self.mirror.has_both() && (!is_joining || self.random.bits().is_multiple_of(4));
        let first = if has_others { 0 } else { used.len() - usize::from(is_joining) };
        if let Some(candidates) = used.get(first..).filter(|candidates| !candidates.is_empty()) {
            let unit = candidates[(self.random.bits() % candidates.len() as u64) as usize];
            self.fails_until[unit] = time.saturating_add(length);
        }
    }

    /// Return the devices that are members, and the one that joins.
    fn units_in_use(&self) -> Vec<usize> {
        let now = self.mirror.in_use();
        let members = Member::EACH.into_iter().filter_map(|member| now.lane_of(member));
        members.chain(now.joining()).map(|lane| self.unit_of(lane)).collect()
    }

    /// Return a device that may join.
    fn spare(&mut self) -> Option<usize> {
        if let Some(wanted) = self.wants_join.take() {
            return Some(wanted);
        }
        // A missing member is replaced sooner than one that works.
        let seldom = if self.mirror.has_both() { 150 } else { 40 };
        let used = self.units_in_use();
        let spare = (0..UNITS).find(|unit| !used.contains(unit) && self.fails_until[*unit] == 0);
        spare.filter(|_| self.random.bits().is_multiple_of(seldom))
    }
}

impl World {
    /// Takes a step of the copy for a device that joins, or begins one by a draw.
    pub(crate) fn join_device(&mut self) {
        let mirrored = self.devices.borrow().mirrored.clone();
        let Some(mirrored) = mirrored else { return };
        let copying = mirrored.borrow_mut().copying.take();
        let Some(mut copying) = copying else {
            let unit = mirrored.borrow_mut().spare();
            let mut storage = mirrored.borrow().storage(&self.devices);
            if let Some(unit) = unit {
                match content_bytes(&mut storage) {
                    Ok(end) => self.begin_join(&mut mirrored.borrow_mut(), unit, end),
                    Err(_) => mirrored.borrow_mut().wants_join = Some(unit),
                }
            }
            return;
        };
        if self.below(4) > 0 {
            mirrored.borrow_mut().copying = Some(copying);
            return;
        }
        let (mirror, labels) = {
            let mirrored = mirrored.borrow();
            (Arc::clone(&mirrored.mirror), Arc::clone(&mirrored.labels))
        };
        let ended = self.copy_step(&mirror, &labels, &mut copying);
        let is_over = match ended {
            Ok(is_over) => is_over,
            // It failed, or the power did.
            Err(_) => {
                mirror.end_join(copying.lane);
                true
            }
        };
        if labels.lock().unwrap().left == 0 {
            self.devices.borrow_mut().operations_left = 0;
        }
        if !is_over {
            mirrored.borrow_mut().copying = Some(copying);
        }
    }

    fn begin_join(&mut self, mirrored: &mut Mirrored, unit: usize, end: u64) {
        if !self.devices.borrow().is_unit_idle(unit) {
            mirrored.wants_join = Some(unit);
            return;
        }
        let Some(lane) = mirrored.mirror.next_lane() else { return };
        let replaced = Member::EACH[self.below(2) as usize];
        let mut devices = self.devices.borrow_mut();
        {
            let mut labels = mirrored.labels.lock().unwrap();
            // It counts as blank from here on.
            labels.each[unit].generation = 0;
            labels.lanes.insert(lane, unit);
        }
        let shards = devices.shards;
        if mirrored.random.bits().is_multiple_of(2) {
            let rubbish = mirrored.random.bits() as u8;
            for region in &mut devices.regions[unit * shards..(unit + 1) * shards] {
                let length = region.disk.now.len();
                region.disk.spoil(0..length, |byte| *byte = rubbish);
            }
        }
        assert!(mirrored.mirror.begin_join(lane, replaced), "no other one joins");
        JOINS[0].fetch_add(1, Ordering::Relaxed);
        let piece_bytes = [4096, 16384, 65536][(mirrored.random.bits() % 3) as usize];
        let joining = Joining::new(&mirrored.mirror, lane, end, piece_bytes);
        mirrored.copying = Some(Copying { joining, lane, unit, has_read: false });
    }

    /// Takes a step. Returns `true` if it was the last one.
    fn copy_step(
        &mut self,
        mirror: &Arc<Mirror>,
        labels: &Arc<Mutex<Labels>>,
        copying: &mut Copying,
    ) -> io::Result<bool> {
        let devices = &self.devices;
        let mut target = MemberStorage { devices: Rc::clone(devices), unit: copying.unit };
        if std::mem::take(&mut copying.has_read) {
            copying.joining.write(&mut target)?;
            return Ok(false);
        }
        if copying.joining.left() != Left::Nothing {
            let lanes = UnitLanes { devices: Rc::clone(devices), labels: Arc::clone(labels) };
            let mut source = MirrorStorage::new(lanes, Arc::clone(mirror), 0);
            copying.joining.read(&mut source)?;
            copying.has_read = true;
            return Ok(false);
        }
        let may_end = devices.borrow().operations_left < u64::MAX / 2;
        if may_end && self.random.bits().is_multiple_of(4) {
            labels.lock().unwrap().left = 1 + self.random.bits() % 6;
        }
        if self.random.bits().is_multiple_of(8) {
            labels.lock().unwrap().refuses = Some(copying.unit);
        }
        let is_over = copying.joining.finish(&mut target);
        let mut labels = labels.lock().unwrap();
        if let Some(unit) = labels.refuses.take()
            && let Some(mirrored) = &devices.borrow().mirrored
        {
            mirrored.borrow_mut().fails_until[unit] = u64::MAX;
        }
        if labels.left > 0 {
            labels.left = u64::MAX;
        }
        let is_over = is_over?;
        JOINS[1].fetch_add(is_over.into(), Ordering::Relaxed);
        Ok(is_over)
    }
}

/// Opens devices by their lanes.
struct UnitLanes {
    devices: Rc<RefCell<Devices>>,
    labels: Arc<Mutex<Labels>>,
}

impl Lanes for UnitLanes {
    type Device = MemberStorage;

    fn open(&self, lane: Lane) -> io::Result<MemberStorage> {
        let unit = self.labels.lock().unwrap().lanes[&lane];
        Ok(MemberStorage { devices: Rc::clone(&self.devices), unit })
    }
}

/// The content of one device, one call at a time.
struct MemberStorage {
    devices: Rc<RefCell<Devices>>,
    unit: usize,
}

impl MemberStorage {
    /// Splits a range into parts of regions: the region, where the part begins in it and in the range, and how much
    /// of it is there. Between two regions there may be room that neither uses.
    fn parts(&self, offset_bytes: u64, length: usize) -> Vec<(usize, usize, usize, usize)> {
        let devices = self.devices.borrow();
        let region_bytes = devices.region_bytes();
        let first_bytes = devices.layout().flash_bytes();
        let mut parts = vec![];
        for at in (0..length).step_by(BLOCK) {
            let place = offset_bytes + at as u64;
            let found = (0..devices.shards).find_map(|shard| {
                let region = self.unit * devices.shards + shard;
                let offset_bytes = place.wrapping_sub(shard as u64 * region_bytes);
                let is_first = offset_bytes < first_bytes;
                let local = devices.regions[region].in_annex(offset_bytes);
                Some((region, local.or(is_first.then_some(offset_bytes as usize))?))
            });
            if let Some((region, start)) = found {
                let there = devices.regions[region].disk.now.len().saturating_sub(start);
                parts.push((region, start, at, there.min(BLOCK).min(length - at)));
            }
        }
        parts
    }

    fn step(&self) -> io::Result<()> {
        let mut devices = self.devices.borrow_mut();
        devices.time += 1;
        devices.recovery_operations += 1;
        devices.operations_left = devices.operations_left.saturating_sub(1);
        if devices.operations_left == 0 {
            return Err(io::Error::other("the power failed"));
        }
        let time = devices.time;
        let fails = |mirrored: &Rc<RefCell<Mirrored>>| mirrored.borrow().fails(self.unit, time);
        if devices.mirrored.as_ref().is_some_and(fails) {
            return Err(io::Error::other("the device fails"));
        }
        Ok(())
    }
}

impl Storage for MemberStorage {
    fn size_bytes(&mut self) -> io::Result<u64> {
        Ok(self.devices.borrow().whole_flash_bytes())
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.step()?;
        bytes.fill(0);
        let parts = self.parts(offset_bytes, bytes.len());
        let devices = self.devices.borrow();
        for (region, start, at, there) in parts {
            let here = &devices.regions[region].disk.now[start..][..there];
            bytes[at..at + there].copy_from_slice(here);
        }
        Ok(())
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        self.step()?;
        let parts = self.parts(offset_bytes, bytes.len());
        let mut devices = self.devices.borrow_mut();
        let time = devices.time;
        for (region, start, at, there) in parts {
            devices.regions[region].disk.write(time, start, &bytes[at..at + there]);
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.step()?;
        let mut devices = self.devices.borrow_mut();
        let time = devices.time;
        devices.sync_unit(self.unit, time);
        Ok(())
    }
}

/// A device as it was once: its regions, and its label.
#[derive(Clone)]
struct Copied {
    regions: Vec<Region>,
    label: Label,
    epoch: u64,
}

/// Loss of a member while the engine is down, by its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Nothing,
    /// It is gone, or replaced by a blank one.
    Gone(usize),
    /// It is replaced by a copy of what it was.
    Old(usize),
}

/// A run with a mirrored flash.
struct Run {
    world: World,
    labels: Arc<Mutex<Labels>>,
    /// Devices of the configuration.
    places: [usize; 2],
    /// Devices that the configuration should have since the last device joined.
    newer_places: [usize; 2],
    /// Copies of devices, of earlier epochs.
    copies: [Option<Copied>; UNITS],
    /// `true` if a member was replaced by a copy since the last start.
    has_old: bool,
    /// A device that is to join when the engine serves.
    wants_join: Option<usize>,
    /// The place whose device is lost next, so that one which joined serves alone.
    loses_next: Option<usize>,
}

/// Runs a plan to its end. Returns how many times the engine ended on the way.
pub(crate) fn run(plan: Plan) -> Result<u64, String> {
    let crashes = plan.crashes;
    let mut run = Run::new(plan);
    for _ in 0..crashes {
        run.world.live_until_power_fails()?;
        run.check()?;
        run.crash()?;
    }
    run.world.live(300)?;
    run.check()?;
    run.world.devices.borrow_mut().operations_left = u64::MAX;
    // The end comes fast, and nobody waits for a device that fails.
    let mirrored = run.world.devices.borrow().mirrored.clone();
    if let Some(mirrored) = mirrored {
        mirrored.borrow_mut().fails_until = [0; UNITS];
    }
    let count = run.world.crashes;
    run.world.end()?;
    Ok(count)
}

impl Run {
    fn new(plan: Plan) -> Self {
        let seed = plan.seed;
        let world = World::new(plan);
        let label = |member| Label {
            pair: Uuid::from_u128(9),
            member,
            generation: 1,
            is_alone: false,
            content_bytes: 0,
        };
        let blank = Label { generation: 0, ..label(Member::First) };
        let labels = Labels {
            each: [label(Member::First), label(Member::Second), blank],
            members: [0, 1],
            lanes: [(Lane(0), 0), (Lane(1), 1)].into(),
            noted: Noted { generation: 1, alone: None },
            is_note_stubborn: seed.is_multiple_of(3),
            left: u64::MAX,
            refuses: None,
            random: SplitMix64::new(seed ^ 0x1ABE),
        };
        let labels = Arc::new(Mutex::new(labels));
        {
            let mut devices = world.devices.borrow_mut();
            let first = devices.regions.clone();
            (1..UNITS).for_each(|_| devices.regions.extend(first.clone()));
        }
        let mirror = Mirror::new(None, 1, Box::new(LabelKeeper(Arc::clone(&labels))));
        let copies = [const { None }; UNITS];
        let mut run = Self {
            world,
            labels,
            places: [0, 1],
            newer_places: [0, 1],
            copies,
            has_old: false,
            wants_join: None,
            loses_next: None,
        };
        run.attach(&Arc::new(mirror));
        run
    }

    fn check(&self) -> Result<(), String> {
        if self.world.shards.has_failed() {
            return Err("the flash failed, and one of its devices works".to_owned());
        }
        Ok(())
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.world.below(bound)
    }

    fn content(&self, place: usize) -> MemberStorage {
        MemberStorage { devices: Rc::clone(&self.world.devices), unit: self.places[place] }
    }

    fn regions_of(&self, unit: usize) -> std::ops::Range<usize> {
        let shards = self.world.devices.borrow().shards;
        unit * shards..(unit + 1) * shards
    }

    fn copy(&self, unit: usize, epoch: u64) -> Copied {
        let regions = self.world.devices.borrow().regions[self.regions_of(unit)].to_vec();
        Copied { regions, label: self.labels.lock().unwrap().each[unit], epoch }
    }

    /// End the copy under way, and change the configuration by a draw, if other devices are members now.
    fn end_joins(&mut self) {
        self.labels.lock().unwrap().left = u64::MAX;
        let mirrored = self.world.devices.borrow().mirrored.clone();
        let Some(mirrored) = mirrored else { return };
        let mut mirrored = mirrored.borrow_mut();
        (mirrored.copying, mirrored.wants_join) = (None, None);
        mirrored.fails_until = [0; UNITS];
        let now = mirrored.mirror.in_use();
        let used = Member::EACH.into_iter().filter_map(|member| now.lane_of(member));
        let used: Vec<usize> = used.map(|lane| mirrored.unit_of(lane)).collect();
        let joined = used.iter().find(|unit| !self.places.contains(unit));
        let left = self.places.iter().position(|unit| !used.contains(unit));
        if let (Some(&joined), Some(left)) = (joined, left) {
            self.newer_places = self.places;
            self.newer_places[left] = joined;
            // Or the operator notices when the start is refused.
            if self.world.below(4) > 0 {
                self.places = self.newer_places;
                self.loses_next = Some(1 - left);
            }
        }
    }

    /// Has the shards and the devices use the members.
    fn attach(&mut self, mirror: &Arc<Mirror>) {
        let seed = self.world.random.bits();
        for shard in self.world.shards.each() {
            Shard::mirror_with(shard, Arc::clone(mirror));
        }
        let (shards, region_bytes) = {
            let devices = self.world.devices.borrow();
            (devices.shards, devices.region_bytes())
        };
        let mirrored = Mirrored::new(self, mirror, shards, region_bytes, seed);
        self.world.devices.borrow_mut().mirrored = Some(Rc::new(RefCell::new(mirrored)));
    }

    /// Cut the power, lose a member or not, and start again.
    fn crash(&mut self) -> Result<(), String> {
        self.world.crashes += 1;
        let mut options = self.world.plan.options.clone();
        options.write_mode = self.world.shards.write_mode();
        options.policy = self.world.shards.policy().clone();
        self.world.forget_session();
        self.end_joins();
        let flash = loop {
            // Handles of the engine that is gone are of no use.
            self.world.devices.borrow_mut().crash();
            let loss = self.lose();
            if self.below(3) == 0 {
                let operations = 1 + self.below(150);
                self.world.devices.borrow_mut().operations_left = operations;
            }
            match self.start(loss)? {
                Ok(flash) => break flash,
                Err(_) if self.world.devices.borrow().operations_left == 0 => {
                    self.world.crashes += 1;
                    self.world.forget_session();
                }
                Err(error) => return Err(format!("recovery after {loss:?}: {error}")),
            }
        };
        self.world.devices.borrow_mut().operations_left = u64::MAX;
        self.has_old = false;
        let mirror = Arc::clone(&flash.1);
        self.world.open(&options, &flash.0)?;
        self.attach(&mirror);
        for member in Member::EACH {
            if mirror.uses(member) && self.below(2) == 0 {
                let unit = self.labels.lock().unwrap().members[member as usize];
                self.copies[unit] = Some(self.copy(unit, self.world.owner.1));
            }
        }
        Ok(())
    }

    /// Loses a member by a draw.
    fn lose(&mut self) -> Loss {
        if let Some(place) = self.loses_next.take()
            && !self.has_old
            && self.below(4) > 0
        {
            return Loss::Gone(place);
        }
        let place = self.below(2) as usize;
        let unit = self.places[place];
        match self.below(4) {
            // The other one would be all that is left.
            _ if self.has_old => Loss::Nothing,
            0 => Loss::Gone(place),
            1 => {
                let now = self.world.owner.1;
                let (labels, noted) = {
                    let labels = self.labels.lock().unwrap();
                    (labels.each, labels.noted)
                };
                let other = labels[self.places[1 - place]].generation;
                // Of two members, one has the newest pages.
                let copied = self.copies[unit].clone();
                // The note may say that this one has them, while the label of the other one was raised for a moment.
                let is_noted = noted.alone == Some(labels[unit].member);
                let copied = copied.filter(|_| other >= labels[unit].generation && !is_noted);
                let Some(copied) = copied.filter(|copied| copied.epoch < now) else {
                    return Loss::Nothing;
                };
                let Copied { regions: mut copied_regions, .. } = copied;
                let mut devices = self.world.devices.borrow_mut();
                let mut random = SplitMix64::new(devices.random.bits());
                let places = unit * devices.shards..(unit + 1) * devices.shards;
                for (region, now) in copied_regions.iter_mut().zip(&devices.regions[places.clone()])
                {
                    region.have_room_of(now, &mut random);
                }
                devices.regions.splice(places, copied_regions);
                drop(devices);
                self.labels.lock().unwrap().each[unit] = copied.label;
                self.has_old = true;
                Loss::Old(place)
            }
            _ => Loss::Nothing,
        }
    }

    /// Choose what is used, as an operator would.
    fn pair(&mut self, loss: Loss) -> Result<Pairing, String> {
        let (labels, noted) = {
            let labels = self.labels.lock().unwrap();
            (labels.each, labels.noted)
        };
        let gone = if let Loss::Gone(place) = loss { Some(place) } else { None };
        let labels = self.places.map(|unit| labels[unit]);
        let choose = |gone: Option<usize>, asked: Asked| {
            let found = [0, 1].map(|place: usize| match gone == Some(place) {
                true if asked.resilvers => FoundMember::Blank,
                true => FoundMember::Absent(io::ErrorKind::NotFound.into()),
                // A copy was cut off.
                false if labels[place].generation == 0 => FoundMember::Blank,
                false => FoundMember::Labelled(labels[place]),
            });
            Pairing::choose(found, asked)
        };
        let asked = Asked { noted: Some(noted), ..Asked::default() };
        let resilvers = self.below(2) == 0;
        let helped = Asked { allows_degraded: true, resilvers, ..asked };
        let plain = choose(gone, asked);
        if gone.is_some() && plain.is_ok() {
            return Err("a start without a member needs no leave".to_owned());
        }
        match plain.or_else(|_| choose(gone, helped)) {
            // The note would refuse that: the other one is found again.
            Ok(Pairing::SetUp) if gone.is_some() => self.pair(Loss::Nothing),
            Ok(pairing) => Ok(pairing),
            // The one that is left is outdated: the other one is found again.
            Err(MirrorError::AllOutdated { .. } | MirrorError::Absent { .. }) if gone.is_some() => {
                self.pair(Loss::Nothing)
            }
            Err(MirrorError::AllOutdated { .. }) if self.places != self.newer_places => {
                self.places = self.newer_places;
                self.pair(loss)
            }
            Err(error) => Err(format!("{loss:?}: {error}, {labels:?}, {noted:?}")),
        }
    }

    /// Start on what is there. The outer error is a fault of the engine, the inner one of the devices.
    fn start(&mut self, loss: Loss) -> Result<Result<(FlashSet, Arc<Mirror>), FlashError>, String> {
        let mut pairing = self.pair(loss)?;
        if let Pairing::Both { .. } = pairing {
            let [mut one, mut other] = [0, 1].map(|place| self.content(place));
            match reconcile([&mut one, &mut other]) {
                Ok(()) => {}
                Err(MirrorError::Io(error)) => return Ok(Err(error.into())),
                Err(_) if self.world.devices.borrow().operations_left == 0 => {
                    return Ok(Err(io::Error::other("the power failed").into()));
                }
                Err(error) => {
                    let place = error.place().filter(|_| self.has_old);
                    let place =
                        place.ok_or_else(|| format!("{loss:?}: {error}, {:?}", self.labels))?;
                    let label = self.labels.lock().unwrap().each[self.places[1 - place]];
                    pairing = Pairing::Alone { place: 1 - place, label };
                }
            }
        }
        Ok(self.begin(pairing))
    }

    fn begin(&mut self, pairing: Pairing) -> Result<(FlashSet, Arc<Mirror>), FlashError> {
        let keeper = Box::new(LabelKeeper(Arc::clone(&self.labels)));
        self.wants_join = None;
        let mut members = self.places;
        let mut only = None;
        let mut generation = self.labels.lock().unwrap().each[self.places[0]].generation;
        match pairing {
            Pairing::SetUp => {}
            Pairing::Both { labels } => {
                for (place, label) in labels.iter().enumerate() {
                    members[label.member as usize] = self.places[place];
                }
            }
            Pairing::Alone { place, label } | Pairing::Resilver { place, label } => {
                members[label.member as usize] = self.places[place];
                members[label.member.other() as usize] = self.places[1 - place];
                (only, generation) = (Some(label.member), label.generation);
            }
        }
        if let Pairing::Resilver { place, .. } = pairing {
            self.wants_join = Some(self.places[1 - place]);
        }
        {
            let mut labels = self.labels.lock().unwrap();
            labels.members = members;
            labels.lanes = (0..).map(Lane).zip(members).collect();
        }
        let mirror = Mirror::new(only, generation, keeper);
        if only.is_some() && mirror.go_alone().is_err() {
            // It is tried again by the next start.
            self.world.devices.borrow_mut().operations_left = 0;
            return Err(io::Error::other("the note").into());
        }
        let mirror = Arc::new(mirror);
        let lanes =
            UnitLanes { devices: Rc::clone(&self.world.devices), labels: Arc::clone(&self.labels) };
        let mut storage = MirrorStorage::new(lanes, Arc::clone(&mirror), 0);
        let mut flash = FlashSet::read(&mut storage)?;
        Flash::make_durable(&mut storage)?;
        let options = self.world.plan.options.clone();
        if self.world.plan.grows_flash {
            let is_on = self.world.grow_flash_at_rest(&mut storage, &options, &mut flash);
            if !is_on.map_err(io::Error::other)? {
                return Err(io::Error::other("the flash keeps its size").into());
            }
        }
        let epoch = flash.flashes().iter().map(|flash| flash.superblock().epoch).max();
        let epoch = epoch.map(|newest| newest + 1);
        flash.adapt(&Begin { epoch, ..Begin::default() });
        self.world.devices.borrow_mut().sync_backing();
        flash.take_over(&mut storage)?;
        if mirror.has_both() {
            let mut labels = self.labels.lock().unwrap();
            labels.noted = Noted { generation, alone: None };
        }
        Ok((flash, mirror))
    }
}
