//! One run: an engine on devices that fail, and an oracle that watches.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use thermocline_core::WriteMiss;
use thermocline_core::random::SplitMix64;
use thermocline_engine::{
    FlashSet, OperationKind, Request, RequestError, RequestKind, Shard, SubmitError, Uuid,
    WriteMode,
};

use crate::devices::{Devices, FlashStorage};
use crate::exchange::Exchange;
use crate::faults::Faults;
use crate::growth::owner;
use crate::oracle::{Oracle, Promise, SECTORS};
use crate::plan::{PAGES, Plan};
use crate::policies::{entries, policy};
use crate::ranges::Ranging;
use crate::set::{Answer, Shards};

/// Maximum delay of the answer to an overdue request: the engine checks times only now and then.
const OVERDUE_SLACK_NS: u64 = 250_000_000;

/// A request that was taken and not answered.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: Request,
    /// Time of submission.
    since: u64,
    /// Per page: what was promised when it was submitted.
    promises: Vec<(usize, Promise)>,
}

/// The run.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) random: SplitMix64,
    pub(crate) devices: Rc<RefCell<Devices>>,
    pub(crate) oracle: Oracle,
    pub(crate) shards: Shards,
    pub(crate) asked: BTreeMap<u64, Asked>,
    pub(crate) next_tag: u64,
    pub(crate) now: u64,
    /// Pages not read since the crash.
    pub(crate) unverified: Vec<usize>,
    /// Pages that were lost when they were first read after the crash.
    pub(crate) lost: BTreeSet<usize>,
    /// `true` if the last restart followed a kill: the devices lost nothing.
    pub(crate) was_killed: bool,
    /// `true` if the last end left nothing that only the flash has.
    pub(crate) is_clean: bool,
    /// `true` if the shard was opened before the epoch of the flash began.
    pub(crate) is_early: bool,
    /// Ends of the engine so far, those of recoveries included.
    pub(crate) crashes: u64,
    /// Flashes that replaced others.
    pub(crate) caches: u128,
    /// The exchange of the flash under way.
    pub(crate) exchange: Exchange,
    /// The command about a range under way.
    pub(crate) ranging: Option<Ranging>,
    /// Pages that were evicted, and that no request has accessed since.
    pub(crate) evicted: BTreeSet<usize>,
    /// The cache whose flash is used, and its epoch.
    pub(crate) owner: (Uuid, u64),
}

impl World {
    /// Runs a plan to its end. Returns how many times the engine ended on the way.
    pub(crate) fn run(plan: Plan) -> Result<u64, String> {
        let mut world = Self::new(plan);
        for _ in 0..world.plan.crashes {
            world.live_until_power_fails()?;
            world.crash()?;
        }
        world.live(300)?;
        world.devices.borrow_mut().faults.flash_gone = world.plan.loses_flash;
        world.live(300)?;
        if world.plan.loses_flash && world.below(2) == 0 {
            world.crash()?;
            world.live(300)?;
        }
        let crashes = world.crashes;
        world.end()?;
        Ok(crashes)
    }

    /// Lives for a random number of operations.
    pub(crate) fn live_until_power_fails(&mut self) -> Result<(), String> {
        let operations = 1 + self.below(self.below_any(600));
        self.devices.borrow_mut().operations_left = operations;
        self.live(u64::MAX)
    }

    pub(crate) fn new(plan: Plan) -> Self {
        let options = plan.options.clone();
        let (layout, page_bytes) = (plan.layout(), plan.page_bytes());
        let atom = if plan.is_disk_atomic { page_bytes } else { plan.sector_bytes() };
        let map = plan.map();
        let devices = Devices::new((layout, map), PAGES * page_bytes, atom, plan.seed ^ 0xD15C);
        let devices = Rc::new(RefCell::new(devices));
        devices.borrow_mut().faults = plan.faults;
        devices.borrow_mut().first_bytes = plan.first_bytes();
        let cache = Uuid::from_u128(u128::from(plan.seed) + 1);
        let mut storage = FlashStorage(Rc::clone(&devices));
        let flash =
            FlashSet::initialise(&mut storage, cache, layout, map, options.size_bytes()).unwrap();
        let shards = Shards::open(plan.first_bytes(), &options, &flash, Shard::open);
        let shards = shards.unwrap();
        Self {
            random: SplitMix64::new(plan.seed),
            oracle: Oracle::new(PAGES, &plan),
            plan,
            devices,
            shards,
            asked: BTreeMap::new(),
            next_tag: 1,
            now: 0,
            unverified: vec![],
            lost: BTreeSet::new(),
            was_killed: false,
            is_clean: false,
            is_early: false,
            crashes: 0,
            caches: 0,
            exchange: Exchange::Idle,
            ranging: None,
            evicted: BTreeSet::new(),
            owner: owner(&flash),
        }
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.random.bits() % bound.max(1)
    }

    /// Return a bound that is itself drawn, so that small numbers are as frequent as large ones.
    fn below_any(&self, bound: u64) -> u64 {
        let mut random = self.random.clone();
        1 + random.bits() % bound
    }

    /// Live until the power fails, or for `steps` steps.
    pub(crate) fn live(&mut self, steps: u64) -> Result<(), String> {
        let mut step = 0;
        while step < steps {
            step += 1;
            match self.below(12) {
                0..=4 => self.submit_any(),
                5 if self.below(4) == 0 => self.tick(),
                6 if self.below(60) == 0 => self.change_policy(),
                7 if self.below(60) == 0 => self.change_mode(),
                8 if self.below(200) == 0 => self.shards.assert_invariants(),
                _ => {
                    if !self.complete_one() {
                        return Ok(());
                    }
                }
            }
            if self.plan.exchanges && !self.shards.each().any(|shard| shard.is_shrinking()) {
                self.exchange()?;
            }
            if self.plan.ranges {
                self.command_range()?;
            }
            if self.plan.grows {
                self.grow()?;
            }
            if self.plan.grows_flash {
                self.grow_flash()?;
            }
            self.join_device();
            self.start_operations();
            self.take_replies()?;
            if self.devices.borrow().is_idle() && self.below(8) == 0 {
                self.shards.assert_invariants();
            }
        }
        Ok(())
    }

    /// Return the identity of a flash that replaces another.
    pub(crate) fn new_cache(&mut self) -> Uuid {
        self.caches += 1;
        Uuid::from_u128(u128::from(self.plan.seed) + 1 + (self.caches << 64))
    }

    pub(crate) fn start_operations(&mut self) {
        while let Some((shard, operation)) = self.shards.next_operation() {
            let may_write = !self.shards.awaits_epoch();
            assert!(may_write || operation.kind == OperationKind::Read, "{operation:?} too early");
            let frames = self.shards.frames(shard);
            self.devices.borrow_mut().start(shard, &frames, operation);
        }
    }

    /// Return `true` if the power is still on.
    pub(crate) fn complete_one(&mut self) -> bool {
        let frames = |shard| self.shards.frames(shard);
        let completed = self.devices.borrow_mut().complete_one(frames);
        if let Some((shard, completion)) = completed {
            self.shards.complete(shard, completion);
        }
        self.devices.borrow().operations_left > 0
    }

    fn tick(&mut self) {
        // Of more shards, each comes to its turn as often as the only one; so does each device.
        let units = if self.devices.borrow().mirrored.is_some() { 3 } else { 1 };
        let slower = self.plan.map().shards() as u64 * units;
        self.now += self.random.bits() % 400_000_000 / slower;
        self.devices.borrow_mut().now_ns = self.now;
        self.shards.tick(self.now);
    }

    fn change_policy(&mut self) {
        let entries = entries();
        let entry = entries[self.below(entries.len() as u64) as usize];
        for shard in self.shards.each() {
            shard.set_policy(policy(entry, WriteMiss::Fetch)).unwrap();
        }
    }

    fn change_mode(&mut self) {
        let modes = [WriteMode::Back, WriteMode::Through, WriteMode::Around];
        let mode = modes[self.below(3) as usize];
        self.shards.each().for_each(|shard| shard.set_write_mode(mode));
    }

    pub(crate) fn submit_any(&mut self) {
        let (page_bytes, sector_bytes) = (self.plan.page_bytes(), self.plan.sector_bytes());
        let pages = self.shards.pages();
        // First of all, every page is read once.
        let is_asked = |page: &&usize| {
            let offset_bytes = (**page * page_bytes) as u64;
            self.asked.values().any(|asked| asked.request.offset_bytes == offset_bytes)
        };
        if let Some(&page) = self.unverified.iter().find(|page| !is_asked(page)) {
            let request =
                Request::read(self.next_tag, (page * page_bytes) as u64, page_bytes as u64);
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
            let offset_bytes = self.below(pages as u64) * page_bytes as u64;
            let pages_max = [4, pages as u64][self.below(2) as usize];
            let length_bytes = (1 + self.below(pages_max)) * page_bytes as u64;
            let length_bytes = length_bytes.min((pages * page_bytes) as u64 - offset_bytes);
            let tag = self.next_tag;
            let request = Request { tag, kind, offset_bytes, length_bytes, is_durable };
            let length_bytes = self.shards.part_bytes(&request);
            return self.submit(Request { length_bytes, ..request });
        }
        let hot = [pages, 12, 4][self.below(3) as usize].min(pages) as u64;
        let first = match self.below(3) {
            0 => self.below(hot) * SECTORS as u64,
            _ => self.below(hot * SECTORS as u64),
        };
        let sectors = match self.below(3) {
            0 => 1 + self.below(4),
            1 => SECTORS as u64,
            _ => 1 + self.below(3 * SECTORS as u64),
        };
        let sectors = sectors.min((pages * SECTORS) as u64 - first);
        let (offset_bytes, length_bytes) = if kind == RequestKind::Flush {
            (0, 0)
        } else {
            (first * sector_bytes as u64, sectors * sector_bytes as u64)
        };
        self.submit(Request { tag: self.next_tag, kind, offset_bytes, length_bytes, is_durable });
    }

    pub(crate) fn submit(&mut self, request: Request) {
        let (tag, sector_bytes) = (request.tag, self.plan.sector_bytes());
        let payload = match request.kind {
            RequestKind::Write => tag.to_le_bytes().repeat(request.length_bytes as usize / 8),
            RequestKind::Read
            | RequestKind::Flush
            | RequestKind::Trim
            | RequestKind::WriteZeroes
            | RequestKind::Cache => vec![],
        };
        match self.shards.submit(request, &payload) {
            Ok(()) => self.next_tag += 1,
            Err(SubmitError::Full) => return,
            Err(error) => panic!("{request:?}: {error}"),
        }
        self.touch(&request);
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
        for (page, first, end) in pieces(&request, sector_bytes) {
            promises.push((page, self.oracle.promise(page)));
            if let Some(stamp) = stamp {
                self.oracle.write(page, tag, stamp, first..end);
            }
        }
        self.asked.insert(tag, Asked { request, since: self.now, promises });
    }

    pub(crate) fn take_replies(&mut self) -> Result<(), String> {
        while let Some(answer) = self.shards.next_answer() {
            let asked = self.asked.remove(&answer.tag).ok_or("an answer without a request")?;
            let fault = match answer.result {
                Ok(()) => self.answered(&asked, &answer),
                Err(error) if self.may_fail(error) => {
                    self.failed(&asked, error);
                    Ok(())
                }
                Err(error) => Err(format!("{:?}: {error}", asked.request)),
            };
            fault?;
        }
        // Of several shards, a part may wait for its turn as long as for the devices then.
        let timeouts = if self.plan.map().shards() == 1 { 1 } else { 2 };
        let latest = timeouts * self.plan.options.backing_timeout.0 + OVERDUE_SLACK_NS;
        match self.asked.values().find(|asked| self.now - asked.since > latest) {
            Some(asked) => Err(format!("waits for too long: {:?}", asked.request)),
            None => Ok(()),
        }
    }

    fn failed(&mut self, asked: &Asked, error: RequestError) {
        for (page, _, _) in pieces(&asked.request, self.plan.sector_bytes()) {
            self.oracle.failed(page, asked.request.tag);
            let is_first = self.unverified.contains(&page);
            if is_first && error == RequestError::Lost {
                self.unverified.retain(|&unverified| unverified != page);
                self.lost.insert(page);
                self.oracle.lost(page);
            }
        }
    }

    fn answered(&mut self, asked: &Asked, answer: &Answer) -> Result<(), String> {
        match asked.request.kind {
            RequestKind::Read => self.check_read(asked, &answer.bytes),
            RequestKind::Flush => {
                for &(page, promise) in &asked.promises {
                    self.oracle.flushed(page, promise);
                }
                Ok(())
            }
            RequestKind::Write | RequestKind::WriteZeroes | RequestKind::Trim => {
                for (page, _, _) in pieces(&asked.request, self.plan.sector_bytes()) {
                    self.oracle.answered(page, asked.request.tag, asked.request.is_durable);
                }
                Ok(())
            }
            RequestKind::Cache => Ok(()),
        }
    }

    fn check_read(&mut self, asked: &Asked, bytes: &[u8]) -> Result<(), String> {
        if bytes.len() as u64 != asked.request.length_bytes {
            return Err(format!("{:?} gave {} bytes", asked.request, bytes.len()));
        }
        let mut stamps =
            bytes.chunks(self.plan.sector_bytes()).map(stamp).collect::<Result<Vec<u64>, _>>()?;
        for ((page, first, end), &(_, promise)) in
            pieces(&asked.request, self.plan.sector_bytes()).zip(&asked.promises)
        {
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

    /// End in order: everything is answered, the disk has all newest bytes, the flash none
    /// that the disk lacks.
    pub(crate) fn end(mut self) -> Result<(), String> {
        self.until_idle()?;
        self.shards.assert_invariants();
        let flash_gone = self.devices.borrow().faults.flash_gone;
        self.devices.borrow_mut().faults = Faults { flash_gone, ..Faults::default() };
        self.devices.borrow_mut().end_outage();
        self.shards.each().for_each(Shard::drain);
        self.until_idle()?;
        if !self.asked.is_empty() {
            return Err(format!("never answered: {:?}", self.asked));
        }
        self.shards.assert_invariants();
        let dirty = self.shards.dirty_pages();
        if dirty > 0 {
            return Err(format!("{dirty} pages are dirty after draining"));
        }
        self.devices.borrow_mut().crash();
        let lost = self.shards.lost_pages();
        if !lost.is_empty() && !self.may_fail(RequestError::Lost) {
            return Err(format!("lost {lost:?} for no reason"));
        }
        let is_counted = !self.plan.loses_flash && self.plan.faults.flash_outages == 0;
        if is_counted && lost.len() as u64 > self.devices.borrow().damages {
            return Err(format!("lost {lost:?}, more than was damaged"));
        }
        let page_bytes = self.plan.page_bytes();
        for page in (0..PAGES).filter(|&page| !lost.contains(&(page as u64))) {
            let bytes =
                self.devices.borrow().backing.now[page * page_bytes..][..page_bytes].to_vec();
            let stamps = bytes
                .chunks(self.plan.sector_bytes())
                .map(stamp)
                .collect::<Result<Vec<u64>, _>>()?;
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

    pub(crate) fn until_idle(&mut self) -> Result<(), String> {
        let (mut idle_steps, mut steps) = (0, 0);
        while !self.shards.is_idle() {
            self.start_operations();
            idle_steps = if self.devices.borrow().is_idle() { idle_steps + 1 } else { 0 };
            steps += 1;
            if idle_steps > 50 || steps > 20_000 {
                return Err(format!("stuck: {:?}", self.shards));
            }
            self.complete_one();
            if self.devices.borrow().hangs() {
                self.devices.borrow_mut().end_hangs();
            }
            self.tick();
            self.start_operations();
            self.take_replies()?;
        }
        self.take_replies()
    }
}

/// Return the pages of a request, each with its sectors.
pub(crate) fn pieces(
    request: &Request,
    sector_bytes: usize,
) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
    let start = request.offset_bytes as usize / sector_bytes;
    let end = start + request.length_bytes as usize / sector_bytes;
    (start / SECTORS..end.div_ceil(SECTORS)).map(move |page| {
        let first = page * SECTORS;
        (page, start.max(first) - first, end.min(first + SECTORS) - first)
    })
}

/// Return the stamp of a sector.
fn stamp(sector: &[u8]) -> Result<u64, String> {
    let stamp = u64::from_le_bytes(sector[..8].try_into().unwrap());
    if sector.chunks(8).all(|word| word == stamp.to_le_bytes()) {
        Ok(stamp)
    } else {
        Err(format!("a mixed sector: {sector:?}"))
    }
}
