//! One run: an engine on devices that fail, and an oracle that watches.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use thermocline_core::random::SplitMix64;
use thermocline_core::{Nanos, WriteMiss};
use thermocline_engine::{
    Device, Flash, Layout, Options, Reply, Request, RequestError, RequestKind, Shard, SubmitError,
    Uuid, WriteMode,
};

use crate::devices::{Devices, Faults, FlashStorage};
use crate::oracle::{Oracle, Promise, SECTOR, SECTORS};
use crate::policies::{entries, policy};

/// Pages of the backing store.
const PAGES: usize = 48;
const PAGE: usize = SECTOR * SECTORS;

/// What a run is made of.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Crashes before the last, orderly end.
    pub(crate) crashes: u32,
    /// Whether the disk writes pages as a whole.
    pub(crate) is_disk_atomic: bool,
    /// What goes wrong besides.
    pub(crate) faults: Faults,
    /// Whether the flash goes away for good in the middle.
    pub(crate) loses_flash: bool,
    /// Whether some restarts follow a kill or an orderly stop in place of a power failure.
    pub(crate) kills: bool,
    /// Blocks of the journal's region.
    pub(crate) journal_blocks: u32,
    pub(crate) options: Options,
}

/// A request that was taken and not answered.
#[derive(Debug)]
struct Asked {
    request: Request,
    /// Per page: what was promised when it was submitted.
    promises: Vec<(usize, Promise)>,
}

/// The run.
pub(crate) struct World {
    plan: Plan,
    random: SplitMix64,
    devices: Rc<RefCell<Devices>>,
    oracle: Oracle,
    shard: Shard,
    asked: BTreeMap<u64, Asked>,
    next_tag: u64,
    now: u64,
    /// Pages not read since the crash.
    unverified: Vec<usize>,
    /// Whether the last restart followed a kill: the devices lost nothing.
    was_killed: bool,
}

impl Plan {
    /// Some crashes, nothing else that goes wrong.
    pub(crate) fn crashes(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed.wrapping_mul(77));
        let mut below = |bound: u64| random.bits() % bound;
        let entries = entries();
        let entry = entries[(seed % entries.len() as u64) as usize];
        let write_miss = if below(2) == 0 { WriteMiss::Fetch } else { WriteMiss::Allocate };
        let (ram, flash) = (1 + below(10) as u32, 1 + below(24) as u32);
        let mut options =
            Options::new(PAGES as u32, ram, flash, policy(entry, PAGES as u32, write_miss));
        options.request_bytes_max = 4 * PAGE as u64;
        options.undurable_pages_max = [2, 6, 1000][below(3) as usize];
        options.write_mode = match below(8) {
            0 => WriteMode::Through,
            1 => WriteMode::Around,
            _ => WriteMode::Back,
        };
        options.cleaning.dirty_ratio_target = [0.1, 0.5, 1.0][below(3) as usize];
        options.sequential_bypass_bytes = (below(4) == 0).then_some(3 * PAGE as u64);
        let is_disk_atomic = below(2) == 0;
        options.unsynced_pages_max = [2, 16, 1000][below(3) as usize];
        let faults = Faults::default();
        let journal_blocks = [8, 32][below(2) as usize];
        let (loses_flash, kills) = (false, false);
        Self {
            seed,
            crashes: 4,
            is_disk_atomic,
            faults,
            loses_flash,
            kills,
            journal_blocks,
            options,
        }
    }

    /// Besides power failures, the engine is killed and stopped.
    pub(crate) fn kills(seed: u64) -> Self {
        Self { kills: true, crashes: 6, ..Self::crashes(seed) }
    }

    /// Syncs of the backing store fail, and drop what was written.
    pub(crate) fn failed_syncs(seed: u64) -> Self {
        let faults = Faults { sync_errors: 2 + seed % 9, ..Faults::default() };
        Self { faults, kills: seed.is_multiple_of(2), ..Self::crashes(seed) }
    }

    /// Each restart finds a block of metadata damaged.
    pub(crate) fn rotten_metadata(seed: u64) -> Self {
        let faults = Faults { rots: true, ..Faults::default() };
        Self { faults, kills: true, crashes: 6, ..Self::crashes(seed) }
    }

    /// Besides crashes, the backing store fails now and then.
    pub(crate) fn backing_errors(seed: u64) -> Self {
        let faults = Faults { backing_errors: 5 + seed % 40, ..Faults::default() };
        Self { crashes: 2, faults, ..Self::crashes(seed) }
    }

    /// Besides crashes, slots have wrong bytes now and then.
    pub(crate) fn flash_errors(seed: u64) -> Self {
        let faults = Faults { flash_errors: 5 + seed % 40, ..Faults::default() };
        Self { crashes: 2, faults, ..Self::crashes(seed) }
    }

    /// Whether requests may fail.
    fn has_faults(&self) -> bool {
        self.loses_flash
            || self.faults.backing_errors > 0
            || self.faults.sync_errors > 0
            || self.faults.flash_errors > 0
    }

    /// The flash goes away.
    pub(crate) fn flash_gone(seed: u64) -> Self {
        Self { crashes: 0, loses_flash: true, ..Self::crashes(seed) }
    }
}

impl World {
    /// Runs a plan to its end.
    pub(crate) fn run(plan: Plan) -> Result<(), String> {
        let mut world = Self::new(plan);
        for _ in 0..world.plan.crashes {
            let operations = 1 + world.below(world.below_any(600));
            world.devices.borrow_mut().operations_left = operations;
            world.live(u64::MAX)?;
            world.crash()?;
        }
        world.live(300)?;
        world.devices.borrow_mut().faults.flash_gone = world.plan.loses_flash;
        world.live(300)?;
        world.end()
    }

    fn new(plan: Plan) -> Self {
        let mut options = plan.options.clone();
        options.policy = plan.options.policy.clone();
        let layout = layout(&plan);
        let atom = if plan.is_disk_atomic { PAGE } else { SECTOR };
        let devices =
            Devices::new(layout.flash_bytes() as usize, PAGES * PAGE, atom, plan.seed ^ 0xD15C);
        let devices = Rc::new(RefCell::new(devices));
        devices.borrow_mut().faults = plan.faults;
        let cache = Uuid::from_u128(u128::from(plan.seed) + 1);
        let mut storage = FlashStorage(Rc::clone(&devices));
        let flash = Flash::initialise(&mut storage, cache, layout, options.size_bytes()).unwrap();
        let shard = Shard::open(options, &flash).unwrap();
        Self {
            random: SplitMix64::new(plan.seed),
            oracle: Oracle::new(PAGES, plan.is_disk_atomic, plan.has_faults()),
            plan,
            devices,
            shard,
            asked: BTreeMap::new(),
            next_tag: 1,
            now: 0,
            unverified: vec![],
            was_killed: false,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.bits() % bound.max(1)
    }

    /// A bound that is itself drawn, so that small numbers are as frequent as large ones.
    fn below_any(&self, bound: u64) -> u64 {
        let mut random = self.random.clone();
        1 + random.bits() % bound
    }

    /// Lives until the power fails, or for so many steps.
    fn live(&mut self, steps: u64) -> Result<(), String> {
        let mut step = 0;
        while step < steps {
            step += 1;
            match self.below(12) {
                0..=4 => self.submit_any(),
                5 if self.below(4) == 0 => self.tick(),
                6 if self.below(60) == 0 => self.change_policy(),
                7 if self.below(60) == 0 => self.change_mode(),
                8 if self.below(200) == 0 => self.shard.assert_invariants(),
                _ => {
                    if !self.complete_one() {
                        return Ok(());
                    }
                }
            }
            self.start_operations();
            self.take_replies()?;
        }
        Ok(())
    }

    fn start_operations(&mut self) {
        while let Some(operation) = self.shard.next_operation() {
            self.devices.borrow_mut().start(self.shard.frames(), operation);
        }
    }

    /// Whether the power is still on.
    fn complete_one(&mut self) -> bool {
        let completed = self.devices.borrow_mut().complete_one(self.shard.frames());
        if let Some((operation, result)) = completed {
            self.shard.complete(operation, result);
        }
        self.devices.borrow().operations_left > 0
    }

    fn tick(&mut self) {
        self.now += self.random.bits() % 400_000_000;
        self.shard.tick(Nanos(self.now));
    }

    fn change_policy(&mut self) {
        let entries = entries();
        let entry = entries[self.below(entries.len() as u64) as usize];
        self.shard.set_policy(policy(entry, PAGES as u32, WriteMiss::Fetch)).unwrap();
    }

    fn change_mode(&mut self) {
        let modes = [WriteMode::Back, WriteMode::Through, WriteMode::Around];
        let mode = modes[self.below(3) as usize];
        self.shard.set_write_mode(mode);
    }

    fn submit_any(&mut self) {
        // First of all, every page is read once.
        let is_asked = |page: &&usize| {
            let offset_bytes = (**page * PAGE) as u64;
            self.asked.values().any(|asked| asked.request.offset_bytes == offset_bytes)
        };
        if let Some(&page) = self.unverified.iter().find(|page| !is_asked(page)) {
            let request = Request::read(self.next_tag, (page * PAGE) as u64, PAGE as u64);
            self.submit(request);
        }
        if !self.unverified.is_empty() {
            return;
        }
        let kind = match self.below(32) {
            0..=12 => RequestKind::Read,
            26..=27 => RequestKind::Flush,
            28 => RequestKind::WriteZeroes,
            29..=30 => RequestKind::Trim,
            31 => RequestKind::Cache,
            _ => RequestKind::Write,
        };
        let is_durable = self.below(10) == 0;
        if matches!(kind, RequestKind::WriteZeroes | RequestKind::Trim) && self.below(2) == 0 {
            // Whole pages, most of which no tier holds.
            let offset_bytes = self.below(PAGES as u64) * PAGE as u64;
            let length_bytes = (1 + self.below(4)) * PAGE as u64;
            let length_bytes = length_bytes.min((PAGES * PAGE) as u64 - offset_bytes);
            let tag = self.next_tag;
            return self.submit(Request { tag, kind, offset_bytes, length_bytes, is_durable });
        }
        let hot = [PAGES as u64, 12, 4][self.below(3) as usize];
        let first = match self.below(3) {
            0 => self.below(hot) * SECTORS as u64,
            _ => self.below(hot * SECTORS as u64),
        };
        let sectors = match self.below(3) {
            0 => 1 + self.below(4),
            1 => SECTORS as u64,
            _ => 1 + self.below(3 * SECTORS as u64),
        };
        let sectors = sectors.min((PAGES * SECTORS) as u64 - first);
        let (offset_bytes, length_bytes) = if kind == RequestKind::Flush {
            (0, 0)
        } else {
            (first * SECTOR as u64, sectors * SECTOR as u64)
        };
        self.submit(Request { tag: self.next_tag, kind, offset_bytes, length_bytes, is_durable });
    }

    fn submit(&mut self, request: Request) {
        let tag = request.tag;
        let payload = match request.kind {
            RequestKind::Write => sector(tag).repeat(request.length_bytes as usize / SECTOR),
            RequestKind::Read
            | RequestKind::Flush
            | RequestKind::Trim
            | RequestKind::WriteZeroes
            | RequestKind::Cache => vec![],
        };
        match self.shard.submit(request, &payload) {
            Ok(()) => self.next_tag += 1,
            Err(SubmitError::Full) => return,
            Err(error) => panic!("{request:?}: {error}"),
        }
        let stamp = match request.kind {
            RequestKind::Write => Some(Some(tag)),
            RequestKind::WriteZeroes => Some(Some(0)),
            RequestKind::Trim => Some(None),
            RequestKind::Read | RequestKind::Flush | RequestKind::Cache => None,
        };
        let mut promises = vec![];
        if request.kind == RequestKind::Flush {
            promises = (0..PAGES).map(|page| (page, self.oracle.promise(page))).collect();
        }
        for (page, first, end) in pieces(&request) {
            promises.push((page, self.oracle.promise(page)));
            if let Some(stamp) = stamp {
                self.oracle.write(page, tag, stamp, first..end);
            }
        }
        self.asked.insert(tag, Asked { request, promises });
    }

    fn take_replies(&mut self) -> Result<(), String> {
        while let Some(reply) = self.shard.next_reply() {
            let asked = self.asked.remove(&reply.tag).ok_or("a reply without a request")?;
            let fault = match reply.result {
                Ok(()) => self.answered(&asked, &reply),
                Err(error) if self.may_fail(error) => {
                    for (page, _, _) in pieces(&asked.request) {
                        self.oracle.failed(page, asked.request.tag);
                    }
                    Ok(())
                }
                Err(error) => Err(format!("{:?}: {error}", asked.request)),
            };
            self.shard.release(reply);
            fault?;
        }
        Ok(())
    }

    /// Whether the faults of the plan explain that a request fails.
    fn may_fail(&self, error: RequestError) -> bool {
        let loses = self.plan.faults.flash_errors > 0 || self.plan.loses_flash;
        let faults = self.plan.faults;
        (error == RequestError::Io && faults.backing_errors + faults.sync_errors > 0)
            || (error == RequestError::Lost && loses)
    }

    fn answered(&mut self, asked: &Asked, reply: &Reply) -> Result<(), String> {
        match asked.request.kind {
            RequestKind::Read => self.check_read(asked, reply),
            RequestKind::Flush => {
                for &(page, promise) in &asked.promises {
                    self.oracle.flushed(page, promise);
                }
                Ok(())
            }
            RequestKind::Write | RequestKind::WriteZeroes | RequestKind::Trim => {
                for (page, _, _) in pieces(&asked.request) {
                    self.oracle.answered(page, asked.request.tag, asked.request.is_durable);
                }
                Ok(())
            }
            RequestKind::Cache => Ok(()),
        }
    }

    fn check_read(&mut self, asked: &Asked, reply: &Reply) -> Result<(), String> {
        let mut bytes = vec![];
        for piece in self.shard.pieces(reply) {
            bytes.extend_from_slice(piece);
        }
        if bytes.len() as u64 != asked.request.length_bytes {
            return Err(format!("{:?} gave {} bytes", asked.request, bytes.len()));
        }
        let mut stamps = bytes.chunks(SECTOR).map(stamp).collect::<Result<Vec<u64>, _>>()?;
        for ((page, first, end), &(_, promise)) in pieces(&asked.request).zip(&asked.promises) {
            let rest = stamps.split_off(end - first);
            if self.unverified.contains(&page) {
                self.unverified.retain(|&unverified| unverified != page);
                let stamps = stamps.clone().try_into().unwrap();
                if self.was_killed {
                    self.oracle.check_killed(page, stamps)?;
                } else {
                    self.oracle.check_recovered(page, stamps)?;
                }
            } else {
                self.oracle.check_read(page, first, &stamps, promise)?;
            }
            stamps = rest;
        }
        Ok(())
    }

    /// The power fails; on the way back it may fail again.
    fn crash(&mut self) -> Result<(), String> {
        // An orderly stop, perhaps, whose end the power failure or the kill may or may not wait for.
        if self.plan.kills && self.below(3) == 0 {
            self.devices.borrow_mut().operations_left = u64::MAX;
            self.shard.stop();
            self.until_idle()?;
        }
        self.asked.clear();
        // What was not read since the last restart is what the devices had before that.
        self.was_killed = self.plan.kills && self.unverified.is_empty() && self.below(2) == 0;
        self.unverified = (0..PAGES).collect();
        let layout = layout(&self.plan);
        let table = layout.table_range();
        // A power failure that tears one copy and damage to the other would be two faults at once.
        let is_table_whole = !self.devices.borrow().is_writing_flash(table.clone());
        let end = if is_table_whole { layout.metadata_bytes() } else { table.start } as usize;
        let (mut is_killed, mut rots) = (self.was_killed, self.plan.faults.rots);
        let flash = loop {
            if std::mem::take(&mut is_killed) {
                self.devices.borrow_mut().kill();
            } else {
                self.was_killed = false;
                self.devices.borrow_mut().crash();
            }
            if std::mem::take(&mut rots) {
                self.devices.borrow_mut().rot(end);
            }
            if self.below(4) == 0 {
                let operations = 1 + self.below(120);
                self.devices.borrow_mut().operations_left = operations;
            }
            match Flash::recover(&mut FlashStorage(Rc::clone(&self.devices))) {
                Ok(flash) if self.devices.borrow_mut().sync_backing() => break flash,
                // The start is refused, and tried again.
                Ok(_) => is_killed = true,
                Err(_) if self.devices.borrow().operations_left == 0 => {}
                Err(error) => return Err(format!("recovery: {error}")),
            }
        };
        self.devices.borrow_mut().operations_left = u64::MAX;
        let mut options = self.plan.options.clone();
        options.write_mode = self.shard.options().write_mode;
        options.policy = self.shard.options().policy.clone();
        self.shard = Shard::open(options, &flash).map_err(|error| error.to_string())?;
        self.shard.tick(Nanos(self.now));
        self.shard.assert_invariants();
        Ok(())
    }

    /// An orderly end: everything is answered, the disk has all newest bytes, the flash none that the
    /// disk lacks.
    fn end(mut self) -> Result<(), String> {
        self.until_idle()?;
        self.shard.assert_invariants();
        self.devices.borrow_mut().faults.backing_errors = 0;
        self.devices.borrow_mut().faults.flash_errors = 0;
        self.devices.borrow_mut().faults.sync_errors = 0;
        self.shard.drain();
        self.until_idle()?;
        if !self.asked.is_empty() {
            return Err(format!("never answered: {:?}", self.asked));
        }
        self.shard.assert_invariants();
        let dirty = self.shard.dirty_pages();
        if dirty > 0 {
            return Err(format!("{dirty} pages are dirty after draining"));
        }
        self.devices.borrow_mut().crash();
        let lost = self.shard.lost_pages();
        if !lost.is_empty() && !self.may_fail(RequestError::Lost) {
            return Err(format!("lost {lost:?} for no reason"));
        }
        for page in (0..PAGES).filter(|&page| !lost.contains(&(page as u32))) {
            let bytes =
                self.devices.borrow_mut().bytes(Device::Backing)[page * PAGE..][..PAGE].to_vec();
            let stamps = bytes.chunks(SECTOR).map(stamp).collect::<Result<Vec<u64>, _>>()?;
            let promise = self.oracle.promise(page);
            if self.unverified.contains(&page) && !self.was_killed {
                self.oracle.check_recovered(page, stamps.try_into().unwrap())?;
            } else if self.unverified.contains(&page) {
                self.oracle.check_killed(page, stamps.try_into().unwrap())?;
            } else {
                self.oracle.check_read(page, 0, &stamps, promise)?;
            }
        }
        Ok(())
    }

    fn until_idle(&mut self) -> Result<(), String> {
        let (mut idle_steps, mut steps) = (0, 0);
        while !self.shard.is_idle() {
            self.start_operations();
            idle_steps = if self.devices.borrow().is_idle() { idle_steps + 1 } else { 0 };
            steps += 1;
            if idle_steps > 50 || steps > 20_000 {
                return Err(format!("stuck: {:?}", self.shard));
            }
            self.complete_one();
            self.tick();
            self.start_operations();
            self.take_replies()?;
        }
        self.take_replies()
    }
}

fn layout(plan: &Plan) -> Layout {
    let layout = Layout::new(plan.options.slots(), PAGE as u32);
    Layout { journal_blocks: plan.journal_blocks, ..layout }
}

/// The pages of a request, each with its sectors.
fn pieces(request: &Request) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
    let start = request.offset_bytes as usize / SECTOR;
    let end = start + request.length_bytes as usize / SECTOR;
    (start / SECTORS..end.div_ceil(SECTORS)).map(move |page| {
        let first = page * SECTORS;
        (page, start.max(first) - first, end.min(first + SECTORS) - first)
    })
}

/// The bytes of a sector with that stamp.
fn sector(stamp: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat(SECTOR / 8)
}

/// The stamp of a sector.
fn stamp(sector: &[u8]) -> Result<u64, String> {
    let stamp = u64::from_le_bytes(sector[..8].try_into().unwrap());
    if sector.chunks(8).all(|word| word == stamp.to_le_bytes()) {
        Ok(stamp)
    } else {
        Err(format!("a mixed sector: {sector:?}"))
    }
}
