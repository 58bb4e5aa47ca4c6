//! Histories of starts that crash after any step, copies that come back, and other writers: what is
//! served is always the newest, and nothing is refused without a reason.
//!
//! The devices have one page. Steps are carried out as `serve` and `cache` do it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use thermocline_engine::{
    Begin, Contents, DrainOptions, End, Fingerprint, Found, FoundFlash, Intent, Keep, Layout, Mark,
    SideFile, Step, Superblock, Uuid,
};

const PAGE: u64 = 4096;
const HISTORIES: u64 = 20_000;
const EVENTS: u64 = 40;

/// A flash and what it holds of the page.
#[derive(Clone, Copy, Debug)]
struct Flash {
    superblock: Superblock,
    /// The bytes, and whether they are dirty.
    held: Option<(u64, bool)>,
}

/// A backing store with its note.
#[derive(Clone, Copy, Debug)]
struct Disk {
    bytes: u64,
    inode: u64,
    modified_ns: u64,
    note: Option<SideFile>,
    /// Version that a read through the server must return.
    newest: u64,
}

#[derive(Debug)]
struct World {
    random: u64,
    clock: u64,
    flash: Option<Flash>,
    disk: Disk,
    /// Events that led here, for a failure.
    history: Vec<String>,
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = Disk { bytes: 0, inode: u64::MAX, modified_ns: 0, note: None, newest: 0 };
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { random, clock: 0, flash: None, disk, history: vec![] }
    }

    /// Draw a number below `limit`.
    fn draw(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 20) % limit
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn write_disk(&mut self, bytes: u64) {
        self.disk.bytes = bytes;
        self.disk.modified_ns = self.tick();
    }

    fn fingerprint(&self) -> Fingerprint {
        let Disk { bytes, inode, modified_ns, .. } = self.disk;
        let mark = Mark::File { inode, modified_ns };
        Fingerprint { size_bytes: PAGE, sample: u32::try_from(bytes).unwrap(), mark }
    }

    fn found(&mut self, has_flash: bool) -> Found {
        let flash = match self.flash {
            _ if !has_flash => FoundFlash::None,
            None => FoundFlash::Blank,
            Some(Flash { superblock, held }) => {
                let dirty = u64::from(held.is_some_and(|(_, is_dirty)| is_dirty));
                FoundFlash::Cache(Contents {
                    superblock,
                    held_pages: u64::from(held.is_some()),
                    dirty_pages: dirty,
                    dirty_end_bytes: dirty * PAGE,
                    damaged_blocks: 0,
                })
            }
        };
        let new_cache = Uuid::from_u128(self.tick().into());
        let mut found =
            Found { note: self.disk.note, flash, backing_bytes: PAGE, backing: None, new_cache };
        found.backing = found.sample().map(|_| self.fingerprint());
        found
    }

    /// Carries a plan out, or some of its first steps; `None` if it is refused.
    fn run(&mut self, intent: Intent, has_flash: bool, steps_max: u64) -> Option<()> {
        let found = self.found(has_flash);
        let plan = found.plan(intent);
        self.history.push(format!("{intent:?} {has_flash} {steps_max}: {plan:?}"));
        let plan = plan.ok()?;
        if intent == Intent::ForceInit && steps_max > 0 {
            self.disk.newest = self.disk.bytes;
        }
        let (mut fingerprint, mut end, begin) = (None, None, plan.begin());
        for step in plan.steps.into_iter().take(usize::try_from(steps_max).unwrap()) {
            match step {
                Step::WriteNote(note) => self.disk.note = Some(note),
                Step::SetUpFlash(cache) => self.flash = Some(set_up(cache)),
                Step::BeginEpoch(begin) => self.begin_epoch(begin),
                Step::WriteBack(begin) => {
                    if let Some((bytes, true)) = self.flash.unwrap().held {
                        self.write_disk(bytes);
                    }
                    // A crash between the two devices.
                    if self.draw(4) == 0 {
                        return Some(());
                    }
                    self.begin_epoch(begin);
                    let flash = self.flash.as_mut().unwrap();
                    flash.held = flash.held.map(|(bytes, _)| (bytes, false));
                }
                Step::Clear => {
                    self.begin_epoch(Begin::default());
                    self.flash.as_mut().unwrap().held = None;
                }
                Step::Serve => self.serve(has_flash),
                Step::ServeReads => self.serve_reads(begin),
                Step::SyncFlash | Step::SyncBacking | Step::Seal => {}
                Step::TakeFingerprint => fingerprint = Some(self.fingerprint()),
                Step::EndFlash => {
                    end = Some(End { next_sequence: self.tick(), backing: fingerprint });
                    self.flash.as_mut().unwrap().superblock.end = end;
                }
                Step::EndNote => {
                    let Flash { superblock, held } = self.flash.unwrap();
                    let note = SideFile::running(superblock.cache, superblock.epoch);
                    let has_dirty = held.is_some_and(|(_, is_dirty)| is_dirty);
                    self.disk.note = Some(note.ended(superblock.epoch, has_dirty, end));
                }
            }
        }
        Some(())
    }

    fn begin_epoch(&mut self, begin: Begin) {
        let flash = self.flash.as_mut().unwrap();
        flash.superblock.epoch = begin.epoch.unwrap_or(flash.superblock.epoch + 1);
        flash.superblock.end = None;
        flash.superblock.is_given_up = false;
        if begin.keep == Keep::Dirty {
            flash.held = flash.held.filter(|(_, is_dirty)| *is_dirty);
        }
    }

    /// Reads what the flash holds before its epoch begins, without the pages that this drops.
    fn serve_reads(&self, begin: Option<Begin>) {
        let keeps_all = begin.is_some_and(|begin| begin.keep == Keep::All);
        let held = self.flash.and_then(|flash| flash.held);
        let held = held.filter(|(_, is_dirty)| *is_dirty || keeps_all);
        let read = held.map_or(self.disk.bytes, |(bytes, _)| bytes);
        assert_eq!(read, self.disk.newest, "{}", self.history.join("\n"));
    }

    fn serve(&mut self, has_flash: bool) {
        let held = self.flash.filter(|_| has_flash).and_then(|flash| flash.held);
        let read = held.map_or(self.disk.bytes, |(bytes, _)| bytes);
        assert_eq!(read, self.disk.newest, "{}", self.history.join("\n"));
        self.history.push("serves".to_owned());
        for _ in 0..self.draw(4) {
            let held = self.flash.filter(|_| has_flash).and_then(|flash| flash.held);
            let newest = self.tick();
            let (held, is_write) = match (self.draw(5), held) {
                (0, _) if has_flash => (Some((newest, true)), true),
                (1, _) => {
                    self.write_disk(newest);
                    (Some((newest, false)).filter(|_| has_flash), true)
                }
                (2, Some((bytes, true))) => {
                    self.write_disk(bytes);
                    (Some((bytes, false)), false)
                }
                (3, None | Some((_, false))) => (None, false),
                (4, None) if has_flash => (Some((self.disk.bytes, false)), false),
                (_, held) => (held, false),
            };
            if is_write {
                self.disk.newest = newest;
            }
            if let Some(flash) = self.flash.as_mut().filter(|_| has_flash) {
                flash.held = held;
            }
        }
    }

    /// Somebody writes to the backing store alone, as the note allows.
    fn write_alone(&mut self) {
        let is_allowed = match self.disk.note {
            Some(note) => !note.has_dirty,
            None => self.flash.is_none(),
        };
        if is_allowed {
            let newest = self.tick();
            self.write_disk(newest);
            self.disk.newest = newest;
            self.history.push("written to alone".to_owned());
        }
    }

    /// Any number of steps, or all.
    fn some_steps(&mut self) -> u64 {
        if self.draw(2) == 0 { u64::MAX } else { self.draw(10) }
    }

    /// Start with everything where it belongs, which is never refused.
    fn start(&mut self) {
        let steps = self.some_steps();
        let started = self.run(Intent::Serve, true, steps);
        assert!(started.is_some(), "refused:\n{}", self.history.join("\n"));
    }
}

fn set_up(cache: Uuid) -> Flash {
    let superblock = Superblock::first(cache, Layout::new(64, 4096), PAGE);
    Flash { superblock, held: None }
}

/// Drains, gives up, or serves without the flash.
fn without_flash(world: &mut World, flashes: &mut Vec<Flash>, disks: &mut Vec<Disk>) {
    match world.draw(5) {
        0 => {
            let options =
                DrainOptions { keep_clean: world.draw(2) == 0, ..DrainOptions::default() };
            if world.flash.is_some() {
                let steps = world.some_steps();
                world.run(Intent::Drain(options), true, steps).unwrap();
            }
        }
        1 => {
            // `cache forget FLASH`: the note is not there. Every copy of the backing store loses what the
            // flash had, and a copy of the flash has it still.
            disks.clear();
            flashes.clear();
            world.disk.newest = world.disk.bytes;
            world.history.push("forgotten".to_owned());
            if let Some(flash) = &mut world.flash {
                flash.held = None;
                flash.superblock.epoch += 1;
                flash.superblock.end = None;
                flash.superblock.is_given_up = true;
            }
        }
        2 => {
            let steps = world.some_steps();
            let is_dirty = world.disk.note.is_some_and(|note| note.has_dirty);
            let run = world.run(Intent::Serve, false, steps);
            assert_eq!(run.is_none(), is_dirty);
            // The flash is old now: force gives it up, or the next start refuses it.
            let is_alone = world.disk.note.is_some_and(|note| note.epoch == u64::MAX);
            if is_alone {
                let steps = world.some_steps();
                world.run(Intent::ForceInit, true, steps.max(2)).unwrap();
            }
        }
        3 => {
            let steps = world.some_steps();
            // Another cache may have newer bytes, if this one was set up and has no note yet.
            let _started = world.run(Intent::ForceInit, true, steps.max(3));
        }
        _ => world.write_alone(),
    }
}

/// Puts an old copy in the place of the flash, or of the backing store and its note, and starts; then
/// what was there before comes back, unless the copy was used.
fn bring_back(world: &mut World, flashes: &mut Vec<Flash>, disks: &mut Vec<Disk>) {
    let (flash, disk) = (world.flash, world.disk);
    match world.draw(3) {
        0 => {
            let Some(copy) = flashes.pop() else { return };
            // Of the start that crashed last: nothing can say which of the two is newer.
            let is_of_crash = disk.note.is_some_and(|note| {
                note.cache == copy.superblock.cache
                    && note.end.is_none()
                    && copy.superblock.epoch >= note.epoch
            });
            if is_of_crash {
                return;
            }
            world.flash = Some(copy);
        }
        1 => {
            let Some(copy) = disks.pop() else { return };
            world.disk = copy;
        }
        _ => {
            // One thing goes wrong at a time: a note that is lost does not meet its copies again.
            disks.clear();
            world.disk.note = None;
        }
    }
    world.history.push(format!("copy: {:?} {:?}", world.flash, world.disk));
    let steps = world.some_steps();
    if world.run(Intent::Serve, true, steps).is_none() {
        (world.flash, world.disk) = (flash, disk);
        world.history.push("copy removed".to_owned());
    } else if steps < 10 || world.disk.note.is_none() {
        // A start of a copy that stopped half way: no more is claimed here.
        (world.flash, world.disk) = (flash, disk);
    }
}

#[test]
fn what_is_served_is_the_newest() {
    for seed in 1..=HISTORIES {
        let mut world = World::new(seed);
        let (mut flashes, mut disks) = (vec![], vec![]);
        for _ in 0..EVENTS {
            match world.draw(10) {
                0..=3 => world.start(),
                4..=5 => without_flash(&mut world, &mut flashes, &mut disks),
                6 => flashes.extend(world.flash),
                7 => {
                    let (inode, modified_ns) = (world.tick(), world.tick());
                    // With its time, or as a new file.
                    let is_exact = world.draw(2) == 0;
                    let modified_ns = if is_exact { world.disk.modified_ns } else { modified_ns };
                    disks.push(Disk { inode, modified_ns, ..world.disk });
                }
                _ => bring_back(&mut world, &mut flashes, &mut disks),
            }
        }
    }
}

#[test]
fn a_disk_that_was_written_to_under_dirty_pages_is_refused() {
    for seed in 1..=HISTORIES / 10 {
        let mut world = World::new(seed);
        for _ in 0..EVENTS {
            world.run(Intent::Serve, true, u64::MAX).unwrap();
            if world.flash.unwrap().held.is_some_and(|(_, is_dirty)| is_dirty) {
                break;
            }
        }
        let bytes = world.tick();
        world.write_disk(bytes);
        for has_flash in [true, false] {
            assert!(world.run(Intent::Serve, has_flash, 0).is_none(), "{:?}", world.history);
        }
        assert!(world.run(Intent::Drain(DrainOptions::default()), true, 0).is_none());
        let options = DrainOptions { despite_changes: true, ..DrainOptions::default() };
        while world.flash.unwrap().held.is_some() {
            world.run(Intent::Drain(options), true, u64::MAX).unwrap();
        }
        assert_eq!(world.disk.bytes, world.disk.newest);
    }
}
