//! Starts as `serve` carries them out, with the note of the backing store: they crash between and within
//! their steps, old copies of the flash come back, and the backing store is used alone or served without
//! the flash. A start is refused, or serves the newest bytes; and it is refused only with a reason.
//!
//! A copy of the flash that was made in an epoch and comes back after a crash of the same epoch looks
//! like the flash itself. The simulation leaves that out.
#![expect(clippy::wildcard_enum_match_arm, reason = "other steps than those expected are faults")]

use std::rc::Rc;

use thermocline_engine::{
    Contents, End, Fingerprint, Flash, FlashError, FlashSet, Found, FoundFlash, FoundSet, Intent,
    Mark, Options, Shard, SideFile, Step, Storage as _, Uuid,
};

use crate::devices::{BackingStorage, Devices, FlashStorage, Region};
use crate::disk::Disk;
use crate::oracle::Oracle;
use crate::plan::{PAGES, Plan};
use crate::policies::policy;
use crate::set::Shards;
use crate::witness::Witness;
use crate::world::World;

/// Engines that serve, per run.
const SESSIONS: u32 = 6;
/// Starts that are tried until one serves.
const TRIES_MAX: u32 = 100;

/// A flash that somebody copied.
#[derive(Clone)]
struct Copied {
    regions: Vec<Region>,
    epoch: u64,
}

/// Change made outside the cache, and the state that undoes it.
enum Tampered {
    /// No change.
    Not,
    /// An old copy of the flash is in its place.
    OldFlash(Copied),
    /// Another program wrote to the backing store.
    WrittenAlone { backing: Disk, oracle: Oracle, next_tag: u64 },
    /// The note was removed.
    NoteRemoved(Option<SideFile>),
    /// The backing store was served without the flash: only a new one helps.
    ServedAlone,
    /// A crash left half a new flash.
    HalfSetUp,
}

/// Outcome of a try to start.
enum Tried {
    Serves,
    Crashed,
    Refused(String),
}

struct Starts {
    world: World,
    note: Option<SideFile>,
    copies: Vec<Copied>,
    tampered: Tampered,
    /// `true` if the last end was orderly, and nothing served since.
    is_ended: bool,
    epoch: u64,
    cache: Uuid,
}

/// Runs a plan whose starts follow the note. Returns the number of ends.
pub(crate) fn run(plan: Plan) -> Result<u64, String> {
    let world = World::new(plan);
    let (cache, epoch) = identity(&world.devices.borrow())?;
    let note = Some(SideFile::running(cache, epoch));
    let (copies, tampered) = (vec![], Tampered::Not);
    let mut starts = Starts { world, note, copies, tampered, is_ended: false, epoch, cache };
    for _ in 0..SESSIONS {
        starts.serve()?;
        starts.end()?;
        starts.tamper()?;
        starts.start_at_last()?;
    }
    let crashes = starts.world.crashes;
    starts.world.live(300)?;
    starts.world.end()?;
    Ok(crashes)
}

/// Return the owner of the flash, and its epoch.
fn identity(devices: &Devices) -> Result<(Uuid, u64), String> {
    let devices = Rc::new(std::cell::RefCell::new(devices.clone()));
    let flash = FlashSet::read(&mut FlashStorage(devices)).map_err(|error| error.to_string())?;
    Ok((flash.superblock().owner(), flash.superblock().epoch))
}

impl Starts {
    fn serve(&mut self) -> Result<(), String> {
        if self.world.below(3) == 0 {
            let copied = self.copy();
            self.copies.push(copied);
        }
        self.is_ended = false;
        self.world.live_until_power_fails()
    }

    fn copy(&self) -> Copied {
        let devices = self.world.devices.borrow();
        Copied { regions: devices.regions.clone(), epoch: self.epoch }
    }

    fn bring(&self, copied: Copied) {
        self.world.devices.borrow_mut().regions = copied.regions;
    }

    /// End the engine: kill it, cut the power, or stop it in order.
    fn end(&mut self) -> Result<(), String> {
        let world = &mut self.world;
        world.crashes += 1;
        let is_orderly = world.below(2) == 0;
        if is_orderly {
            world.devices.borrow_mut().operations_left = u64::MAX;
            world.until_idle()?;
            match world.below(2) {
                0 => world.shards.each().for_each(Shard::drain),
                _ => world.shards.each().for_each(Shard::stop),
            }
            world.until_idle()?;
        }
        let is_verified = world.unverified.is_empty();
        if is_orderly && is_verified {
            for page in 0..PAGES {
                let promise = world.oracle.promise(page);
                world.oracle.flushed(page, promise);
            }
        }
        let (dirty, sequence) = (world.shards.dirty_pages(), world.shards.next_sequence());
        let has_flash = world.shards.has_flash();
        world.asked.clear();
        world.was_killed = is_verified && (is_orderly || world.below(2) == 0);
        world.unverified = (0..PAGES).collect();
        if world.was_killed {
            world.devices.borrow_mut().kill();
        } else {
            world.devices.borrow_mut().crash();
        }
        if is_orderly && is_verified && has_flash {
            self.say_end(dirty > 0, sequence)?;
        }
        Ok(())
    }

    /// Take the steps after the last request. The machine may crash between two of them.
    fn say_end(&mut self, has_dirty: bool, next_sequence: u64) -> Result<(), String> {
        let size_bytes = self.backing_bytes();
        let backing = Some(self.fingerprint(self.cache, size_bytes)?);
        let end = End { next_sequence, backing };
        if self.world.below(6) == 0 {
            let operations = 1 + self.world.below(5);
            self.world.devices.borrow_mut().operations_left = operations;
        }
        let mut storage = FlashStorage(Rc::clone(&self.world.devices));
        match FlashSet::end(&mut storage, (self.cache, self.epoch), end) {
            Ok(()) => {}
            Err(_) if self.has_no_power() => {
                self.power_fails();
                return Ok(());
            }
            Err(error) => return Err(format!("the end of the flash: {error}")),
        }
        self.world.devices.borrow_mut().operations_left = u64::MAX;
        let note = SideFile::running(self.cache, self.epoch);
        if self.write_note(note.ended(self.epoch, has_dirty, Some(end))) {
            self.is_ended = true;
        }
        Ok(())
    }

    /// Act as other programs do while no engine runs.
    fn tamper(&mut self) -> Result<(), String> {
        self.tampered = Tampered::Not;
        match self.world.below(8) {
            0 | 1 => self.bring_old_flash(),
            2 if self.is_ended => self.write_alone(),
            3 if self.is_ended => {
                self.tampered = Tampered::NoteRemoved(self.note.take());
            }
            4 => self.serve_alone()?,
            _ => {}
        }
        Ok(())
    }

    fn bring_old_flash(&mut self) {
        let (epoch, is_ended) = (self.epoch, self.is_ended);
        self.copies.retain(|copied| copied.epoch < epoch || is_ended);
        let count = self.copies.len() as u64;
        if count > 0 {
            let chosen = self.world.below(count) as usize;
            let newest = self.copy();
            let mut copied = self.copies[chosen].clone();
            // Perhaps of some regions only.
            if copied.regions.len() > 1 && self.world.below(2) == 0 {
                let kept = self.world.below(copied.regions.len() as u64) as usize;
                copied.regions[kept] = newest.regions[kept].clone();
            }
            self.bring(copied);
            self.tampered = Tampered::OldFlash(newest);
        }
    }

    fn write_alone(&mut self) {
        let page = self.world.below(PAGES as u64) as usize;
        let page_bytes = self.world.plan.page_bytes();
        let (oracle, next_tag) = (self.world.oracle.clone(), self.world.next_tag);
        let backing = self.world.devices.borrow().backing.clone();
        self.world.oracle.write_alone(page, next_tag);
        self.world.next_tag += 1;
        let mut devices = self.world.devices.borrow_mut();
        devices
            .backing
            .write_alone(page * page_bytes, &next_tag.to_le_bytes().repeat(page_bytes / 8));
        drop(devices);
        self.tampered = Tampered::WrittenAlone { backing, oracle, next_tag };
    }

    /// Serve the backing store without its flash, if the note allows that.
    fn serve_alone(&mut self) -> Result<(), String> {
        let found = self.found(&FoundFlash::None, vec![]);
        let Ok(plan) = found.plan(Intent::Serve) else { return Ok(()) };
        // From here on the note may say that the flash is too old.
        self.tampered = Tampered::ServedAlone;
        for step in plan.steps {
            let goes_on = match step {
                Step::WriteNote(note) => self.write_note(note),
                Step::SyncBacking => self.world.devices.borrow_mut().sync_backing(),
                Step::Serve => break,
                other => return Err(format!("{other:?} without a flash")),
            };
            if !goes_on {
                return Ok(());
            }
        }
        let mut options = self.world.plan.options.clone();
        options.flash_pages = 0;
        let lru = thermocline_core::registry::find("lru").expect("it is registered");
        options.policy = policy(lru, options.policy.write_miss);
        let shards =
            Shards::without_flash(self.world.plan.first_bytes(), &options, self.world.plan.map());
        self.world.shards = shards.map_err(|error| error.to_string())?;
        self.world.shards.tick(self.world.now);
        self.serve()?;
        self.end()
    }

    /// Starts until the engine serves; what stands in the way is undone once it was refused.
    fn start_at_last(&mut self) -> Result<(), String> {
        let mut intent = Intent::Serve;
        for _ in 0..TRIES_MAX {
            match self.start(intent)? {
                Tried::Serves => return Ok(()),
                Tried::Crashed => {}
                Tried::Refused(reason) => intent = self.undo(&reason)?,
            }
        }
        Err("no start serves".to_owned())
    }

    /// Puts right what a start was refused for.
    fn undo(&mut self, reason: &str) -> Result<Intent, String> {
        match std::mem::replace(&mut self.tampered, Tampered::Not) {
            Tampered::Not => return Err(format!("refused for no reason: {reason}")),
            Tampered::OldFlash(newest) => self.bring(newest),
            Tampered::WrittenAlone { backing, oracle, next_tag } => {
                self.world.devices.borrow_mut().backing = backing;
                (self.world.oracle, self.world.next_tag) = (oracle, next_tag);
            }
            Tampered::NoteRemoved(note) => self.note = note,
            // The note says that nothing is lost with what the flash holds.
            tampered @ (Tampered::ServedAlone | Tampered::HalfSetUp) => {
                self.tampered = tampered;
                return Ok(Intent::ForceInit);
            }
        }
        Ok(Intent::Serve)
    }

    /// Try to start: look, plan, and carry the steps out. The power may fail at any time.
    fn start(&mut self, intent: Intent) -> Result<Tried, String> {
        let mut storage = FlashStorage(Rc::clone(&self.world.devices));
        let (flash, regions, mut known) = match FlashSet::read(&mut storage) {
            Ok(flash) => {
                let regions = flash.each_contents();
                (FoundFlash::Cache(regions[0]), regions, Some(flash))
            }
            Err(FlashError::Empty) => (FoundFlash::Blank, vec![], None),
            Err(_) if intent == Intent::ForceInit => (FoundFlash::Foreign, vec![], None),
            Err(error) => return Ok(Tried::Refused(error.to_string())),
        };
        let mut found = self.found(&flash, regions);
        if let Some((cache, size_bytes)) = found.sample() {
            found.found.backing = Some(self.fingerprint(cache, size_bytes)?);
        }
        let plan = match found.plan(intent) {
            Ok(plan) => plan,
            Err(error) => return Ok(Tried::Refused(error.to_string())),
        };
        if self.world.below(3) == 0 {
            let operations = 1 + self.world.below(40);
            self.world.devices.borrow_mut().operations_left = operations;
        }
        if let (Some(known), Some(begin)) = (&mut known, plan.begin()) {
            known.adapt(&begin);
        }
        let mut opened = None;
        for step in plan.steps {
            let done = match step {
                Step::WriteNote(note) => self.write_note(note),
                Step::SetUpFlash(cache) => {
                    self.tampered = Tampered::HalfSetUp;
                    opened = self.set_up(cache)?;
                    opened.is_some()
                }
                Step::SyncFlash => self.survived(Flash::make_durable(&mut storage))?.is_some(),
                Step::ServeReads => {
                    let known =
                        known.as_ref().ok_or("reads are served from a flash that was found")?;
                    self.serve_reads(known)?
                }
                Step::BeginEpoch(_) => {
                    let mut found = known.take().ok_or("an epoch of a flash that was found")?;
                    let begun = found.take_over(&mut storage).map(|()| found);
                    opened = self.survived(begun)?;
                    opened.is_some()
                }
                Step::SyncBacking => self.world.devices.borrow_mut().sync_backing(),
                Step::Serve => break,
                other => return Err(format!("{other:?} in a start")),
            };
            if !done {
                return Ok(Tried::Crashed);
            }
        }
        let flash = opened.ok_or("a start without a flash")?;
        self.open(&flash)?;
        Ok(Tried::Serves)
    }

    /// Reads for a while before the epoch begins, or not at all. Returns `true` if the power is
    /// still on.
    fn serve_reads(&mut self, flash: &FlashSet) -> Result<bool, String> {
        let options = self.world.plan.options.clone();
        let has_power = self.world.read_early(&options, flash)?;
        if !has_power {
            self.power_fails();
        }
        Ok(has_power)
    }

    fn open(&mut self, flash: &FlashSet) -> Result<(), String> {
        let world = &mut self.world;
        world.devices.borrow_mut().operations_left = u64::MAX;
        world.devices.borrow_mut().recovered();
        if std::mem::take(&mut world.is_early) {
            world.shards.epoch_has_begun(flash);
        } else {
            let options: Options = world.plan.options.clone();
            let shards = Shards::open(world.plan.first_bytes(), &options, flash, Shard::open);
            world.shards = shards.map_err(|error| error.to_string())?;
            world.shards.tick(world.now);
        }
        (self.cache, self.epoch) = (flash.superblock().owner(), flash.superblock().epoch);
        self.tampered = Tampered::Not;
        Ok(())
    }

    fn set_up(&mut self, cache: Uuid) -> Result<Option<FlashSet>, String> {
        let (layout, map) = (self.world.plan.layout(), self.world.plan.map());
        for region in &mut self.world.devices.borrow_mut().regions {
            region.witness = Witness::new(&layout);
        }
        let size_bytes = self.backing_bytes();
        let mut storage = FlashStorage(Rc::clone(&self.world.devices));
        let flash = FlashSet::initialise(&mut storage, cache, layout, map, size_bytes);
        self.survived(flash)
    }

    /// `None` if the power failed; another error is a fault.
    fn survived<T>(&mut self, flash: Result<T, FlashError>) -> Result<Option<T>, String> {
        match flash {
            Ok(done) => Ok(Some(done)),
            Err(_) if self.has_no_power() => {
                self.power_fails();
                Ok(None)
            }
            Err(error) => Err(format!("a step of a start: {error}")),
        }
    }

    /// Replaces the note as a whole. The power may fail just before or just after; returns whether it
    /// did not.
    fn write_note(&mut self, note: SideFile) -> bool {
        let fails = self.world.below(12) == 0;
        if !fails || self.world.below(2) == 0 {
            self.note = Some(note);
        }
        if fails {
            self.power_fails();
        }
        !fails
    }

    fn has_no_power(&self) -> bool {
        self.world.devices.borrow().operations_left == 0
    }

    fn power_fails(&mut self) {
        self.world.crashes += 1;
        self.world.was_killed = false;
        self.world.forget_session();
        self.world.is_early = false;
        self.world.devices.borrow_mut().crash();
    }

    fn found(&mut self, flash: &FoundFlash, regions: Vec<Contents>) -> FoundSet {
        self.world.caches += 1;
        let seed = u128::from(self.world.plan.seed) + 1;
        let new_cache = Uuid::from_u128(seed + (self.world.caches << 64));
        let backing_bytes = self.backing_bytes();
        let (note, flash) = (self.note, *flash);
        let found = Found { note, flash, backing_bytes, backing: None, new_cache };
        FoundSet { found, regions }
    }

    fn backing_bytes(&self) -> u64 {
        self.world.plan.options.size_bytes()
    }

    fn fingerprint(&self, cache: Uuid, size_bytes: u64) -> Result<Fingerprint, String> {
        let mut storage = BackingStorage(Rc::clone(&self.world.devices));
        let writes = self.world.devices.borrow().backing.writes;
        let mark = Mark::File { inode: 1, modified_ns: writes };
        debug_assert!(storage.size_bytes().is_ok_and(|bytes| bytes == size_bytes));
        Fingerprint::take(&mut storage, cache, size_bytes, mark).map_err(|error| error.to_string())
    }
}
