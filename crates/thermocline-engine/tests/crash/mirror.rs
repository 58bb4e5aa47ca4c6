//! A flash of two devices, of which one fails, disappears, or comes back as it was before.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};

use thermocline_core::random::SplitMix64;
use thermocline_engine::driver::Completion;
use thermocline_engine::driver::mirror::Fan;
use thermocline_engine::{
    Asked, Begin, Flash, FlashError, FlashSet, FoundMember, Keeper, Label, Member, Mirror,
    MirrorError, MirrorStorage, Noted, Pairing, Shard, Storage, Uuid, reconcile, resilver,
};

use crate::devices::{Devices, Region};
use crate::plan::Plan;
use crate::world::World;

/// Number of operations of which one begins a failure.
const FAILURES: u64 = 400;

/// Operations between the failures of two members: no operation shall see both.
const REST: u64 = 500;

/// The labels of the members, and the note.
#[derive(Debug)]
struct Labels {
    each: [Label; 2],
    noted: Noted,
    /// `true` if the note can be written only now and then.
    is_note_stubborn: bool,
    random: SplitMix64,
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
        let mut labels = self.lock();
        let label = &mut labels.each[survivor as usize];
        (label.generation, label.is_alone) = (generation, true);
        Ok(())
    }

    fn note(&mut self, survivor: Member, generation: u64) -> io::Result<()> {
        let mut labels = self.lock();
        if labels.is_note_stubborn && labels.random.bits().is_multiple_of(2) {
            return Err(io::Error::other("the note cannot be written now"));
        }
        labels.noted = Noted { generation, alone: Some(survivor) };
        Ok(())
    }
}

/// The members while an engine uses them.
#[derive(Debug)]
pub(crate) struct Mirrored {
    mirror: Arc<Mirror>,
    pub(crate) fans: Vec<Fan>,
    /// Time until which each member fails everything.
    fails_until: [u64; 2],
    random: SplitMix64,
}

impl Mirrored {
    fn new(mirror: &Arc<Mirror>, shards: usize, seed: u64) -> Self {
        let fans = (0..shards).map(|_| Fan::new(Arc::clone(mirror))).collect();
        let (mirror, random) = (Arc::clone(mirror), SplitMix64::new(seed));
        Self { mirror, fans, fails_until: [0; 2], random }
    }

    pub(crate) fn has_held(&self) -> bool {
        self.fans.iter().any(Fan::has_held)
    }

    pub(crate) fn next_held(&mut self) -> Option<(usize, Completion)> {
        let mut fans = self.fans.iter_mut().enumerate();
        fans.find_map(|(shard, fan)| fan.next_held().map(|done| (shard, done)))
    }

    pub(crate) const fn fails(&self, member: Member, time: u64) -> bool {
        time < self.fails_until[member as usize]
    }

    /// Lets a member fail now and then, for some operations or for good; never both.
    pub(crate) fn misbehave(&mut self, time: u64) {
        let is_well = self.fails_until.iter().all(|until| time >= until.saturating_add(REST));
        if !is_well || !self.mirror.has_both() || !self.random.bits().is_multiple_of(FAILURES) {
            return;
        }
        let lengths = [1, 5, 50, u64::MAX, u64::MAX];
        let length = lengths[(self.random.bits() % 5) as usize];
        let member = (self.random.bits() % 2) as usize;
        self.fails_until[member] = time.saturating_add(length);
    }
}

/// The content of one member, for recovery.
struct MemberStorage {
    devices: Rc<RefCell<Devices>>,
    member: Member,
}

impl MemberStorage {
    fn place(&self, offset_bytes: u64) -> (usize, usize) {
        let devices = self.devices.borrow();
        let region_bytes = devices.region_bytes();
        let region = (offset_bytes / region_bytes) as usize;
        let first = self.member as usize * devices.shards;
        (first + region, (offset_bytes % region_bytes) as usize)
    }

    fn step(&self) -> io::Result<()> {
        let mut devices = self.devices.borrow_mut();
        devices.time += 1;
        devices.recovery_operations += 1;
        devices.operations_left = devices.operations_left.saturating_sub(1);
        if devices.operations_left == 0 {
            return Err(io::Error::other("the power failed"));
        }
        Ok(())
    }
}

impl Storage for MemberStorage {
    fn size_bytes(&mut self) -> io::Result<u64> {
        let devices = self.devices.borrow();
        Ok(devices.region_bytes() * devices.shards as u64)
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.step()?;
        let (region, start) = self.place(offset_bytes);
        bytes.fill(0);
        let devices = self.devices.borrow();
        let here = devices.regions[region].disk.now.get(start..).unwrap_or_default();
        let here = &here[..here.len().min(bytes.len())];
        bytes[..here.len()].copy_from_slice(here);
        Ok(())
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        self.step()?;
        let (region, start) = self.place(offset_bytes);
        let mut devices = self.devices.borrow_mut();
        let time = devices.time;
        devices.regions[region].disk.write(time, start, bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.step()?;
        let mut devices = self.devices.borrow_mut();
        let time = devices.time;
        devices.sync_member(self.member, time);
        Ok(())
    }
}

/// A member as it was once: its regions, and its label.
#[derive(Clone)]
struct Copied {
    regions: Vec<Region>,
    label: Label,
    epoch: u64,
}

/// Loss of a member while the engine is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Nothing,
    /// It is gone, or replaced by a blank one.
    Gone(Member),
    /// It is replaced by a copy of what it was.
    Old(Member),
}

/// A run with a mirrored flash.
struct Run {
    world: World,
    labels: Arc<Mutex<Labels>>,
    /// Copies of members, of earlier epochs.
    copies: [Option<Copied>; 2],
    /// `true` if a member was replaced by a copy since the last start.
    has_old: bool,
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
        mirrored.borrow_mut().fails_until = [0; 2];
    }
    let count = run.world.crashes;
    run.world.end()?;
    Ok(count)
}

impl Run {
    fn new(plan: Plan) -> Self {
        let seed = plan.seed;
        let mut world = World::new(plan);
        let label = |member| Label {
            pair: Uuid::from_u128(9),
            member,
            generation: 1,
            is_alone: false,
            content_bytes: 0,
        };
        let labels = Labels {
            each: Member::EACH.map(label),
            noted: Noted { generation: 1, alone: None },
            is_note_stubborn: seed.is_multiple_of(3),
            random: SplitMix64::new(seed ^ 0x1ABE),
        };
        let labels = Arc::new(Mutex::new(labels));
        {
            let mut devices = world.devices.borrow_mut();
            let second = devices.regions.clone();
            devices.regions.extend(second);
        }
        let mirror = Mirror::new(None, 1, Box::new(LabelKeeper(Arc::clone(&labels))));
        attach(&mut world, &Arc::new(mirror));
        Self { world, labels, copies: [None, None], has_old: false }
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

    fn content(&self, member: Member) -> MemberStorage {
        MemberStorage { devices: Rc::clone(&self.world.devices), member }
    }

    fn regions_of(&self, member: Member) -> std::ops::Range<usize> {
        let shards = self.world.devices.borrow().shards;
        member as usize * shards..(member as usize + 1) * shards
    }

    fn copy(&self, member: Member, epoch: u64) -> Copied {
        let regions = self.world.devices.borrow().regions[self.regions_of(member)].to_vec();
        Copied { regions, label: self.labels.lock().unwrap().each[member as usize], epoch }
    }

    /// Cut the power, lose a member or not, and start again.
    fn crash(&mut self) -> Result<(), String> {
        self.world.crashes += 1;
        let mut options = self.world.plan.options.clone();
        options.write_mode = self.world.shards.write_mode();
        options.policy = self.world.shards.policy().clone();
        self.world.forget_session();
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
        attach(&mut self.world, &mirror);
        for member in Member::EACH {
            if mirror.uses(member) && self.below(2) == 0 {
                self.copies[member as usize] = Some(self.copy(member, self.world.owner.1));
            }
        }
        Ok(())
    }

    /// Loses a member by a draw.
    fn lose(&mut self) -> Loss {
        let member = Member::EACH[self.below(2) as usize];
        match self.below(4) {
            // The other one would be all that is left.
            _ if self.has_old => Loss::Nothing,
            0 => Loss::Gone(member),
            1 => {
                let now = self.world.owner.1;
                let labels = self.labels.lock().unwrap().each;
                let [own, other] =
                    [member, member.other()].map(|it| labels[it as usize].generation);
                // Of two members, one has the newest pages.
                let copied = self.copies[member as usize].clone().filter(|_| other >= own);
                let Some(copied) = copied.filter(|copied| copied.epoch < now) else {
                    return Loss::Nothing;
                };
                let regions = self.regions_of(member);
                self.world.devices.borrow_mut().regions.splice(regions, copied.regions);
                self.labels.lock().unwrap().each[member as usize] = copied.label;
                self.has_old = true;
                Loss::Old(member)
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
        let gone = if let Loss::Gone(member) = loss { Some(member) } else { None };
        let choose = |gone: Option<Member>, asked: Asked| {
            let found = Member::EACH.map(|member| match gone == Some(member) {
                true if asked.resilvers => FoundMember::Blank,
                true => FoundMember::Absent(io::ErrorKind::NotFound.into()),
                // A copy was cut off.
                false if labels[member as usize].generation == 0 => FoundMember::Blank,
                false => FoundMember::Labelled(labels[member as usize]),
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
            Ok(Pairing::SetUp) if gone.is_some() => {
                choose(None, helped).map_err(|error| format!("without a loss: {error}"))
            }
            Ok(pairing) => Ok(pairing),
            // The one that is left is outdated: the other one is found again.
            Err(MirrorError::AllOutdated { .. } | MirrorError::Absent { .. }) if gone.is_some() => {
                choose(None, helped).map_err(|error| format!("without a loss: {error}"))
            }
            Err(error) => Err(format!("{loss:?}: {error}, {labels:?}, {noted:?}")),
        }
    }

    /// Start on what is there. The outer error is a fault of the engine, the inner one of the devices.
    fn start(&mut self, loss: Loss) -> Result<Result<(FlashSet, Arc<Mirror>), FlashError>, String> {
        let mut pairing = self.pair(loss)?;
        if let Pairing::Both { .. } = pairing {
            let [mut one, mut other] = Member::EACH.map(|member| self.content(member));
            match reconcile([&mut one, &mut other]) {
                Ok(()) => {}
                Err(MirrorError::Io(error)) => return Ok(Err(error.into())),
                Err(_) if self.world.devices.borrow().operations_left == 0 => {
                    return Ok(Err(io::Error::other("the power failed").into()));
                }
                Err(error) => {
                    let place = error.place().filter(|_| self.has_old);
                    let place = place.ok_or_else(|| format!("{loss:?}: {error}"))?;
                    let label = self.labels.lock().unwrap().each[1 - place];
                    pairing = Pairing::Alone { place: 1 - place, label };
                }
            }
        }
        Ok(self.begin(pairing))
    }

    fn begin(&mut self, pairing: Pairing) -> Result<(FlashSet, Arc<Mirror>), FlashError> {
        let keeper = Box::new(LabelKeeper(Arc::clone(&self.labels)));
        let only = match pairing {
            Pairing::Both { .. } | Pairing::SetUp => None,
            Pairing::Alone { label, .. } => Some(label),
            Pairing::Resilver { place, label } => {
                self.resilver(Member::EACH[1 - place], label)?;
                None
            }
        };
        let generation = only.map_or_else(
            || self.labels.lock().unwrap().each[0].generation,
            |label| label.generation,
        );
        let mirror = Mirror::new(None, generation, keeper);
        if let Some(label) = only
            && mirror.fail(label.member.other()).is_err()
        {
            // It is tried again by the next start.
            self.world.devices.borrow_mut().operations_left = 0;
            return Err(io::Error::other("the note").into());
        }
        let mirror = Arc::new(mirror);
        let members = Member::EACH.map(|member| Some(self.content(member)));
        let mut storage = MirrorStorage::new(members, Arc::clone(&mirror));
        let mut flash = FlashSet::read(&mut storage)?;
        Flash::make_durable(&mut storage)?;
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

    /// Copies the other member to one, whose content is lost.
    fn resilver(&mut self, member: Member, label: Label) -> Result<(), FlashError> {
        // It counts as blank from here on.
        self.labels.lock().unwrap().each[member as usize].generation = 0;
        let (mut source, mut target) = (self.content(member.other()), self.content(member));
        let mut random = SplitMix64::new(self.world.random.bits());
        let regions = self.regions_of(member);
        for region in &mut self.world.devices.borrow_mut().regions[regions] {
            let length = region.disk.now.len();
            let rubbish = random.bits() as u8;
            region.disk.spoil(0..length, |byte| *byte = rubbish);
        }
        let flash = FlashSet::read(&mut source)?;
        resilver(&mut source, &mut target, member, 0..0, &[(0, &flash)], |_, _| {})?;
        let mut labels = self.labels.lock().unwrap();
        labels.each[member as usize] = Label { member, is_alone: false, ..label };
        labels.each[member.other() as usize].is_alone = false;
        Ok(())
    }
}

/// Has the shards and the devices use the members.
fn attach(world: &mut World, mirror: &Arc<Mirror>) {
    let seed = world.random.bits();
    for shard in world.shards.each() {
        Shard::mirror_with(shard, Arc::clone(mirror));
    }
    let mut devices = world.devices.borrow_mut();
    let mirrored = Mirrored::new(mirror, devices.shards, seed);
    devices.mirrored = Some(Rc::new(RefCell::new(mirrored)));
}
