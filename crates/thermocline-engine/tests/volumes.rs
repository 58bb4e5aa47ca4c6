//! Volumes on one flash whose power is cut, and whose syncs fail: each volume has what was promised to its
//! clients, whatever the others did. Two are there all the time, grow and give room back, and a third one comes and
//! goes while they work.
//!
//! Operations are done when they are asked for, but for syncs of the flash, which the volumes share as
//! `JointDriver` performs them. Writes that were not synced when the power is cut are there, torn or gone.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::cast_possible_truncation, reason = "all numbers are small")]
#![expect(unsafe_code, reason = "the devices fill frames that the shard owns")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use thermocline_core::Nanos;
use thermocline_core::random::SplitMix64;
use thermocline_engine::driver::memory::transfer;
use thermocline_engine::{
    Device, DeviceError, Directory, DirectoryError, Extension, FlashError, FlashSet, Layout,
    Operation, OperationKind, Options, PolicyOptions, Reduction, Request, RequestKind, Section,
    Shard, ShardMap, Share, SharedSyncs, Storage, SubmitError, Uuid,
};

const PAGE: usize = 4096;
const PAGES: u64 = 40;
const MIB: u64 = 1 << 20;
const NAMES: [&str; 3] = ["a", "b", "guest"];
/// The number of the volume that comes and goes.
const GUEST: usize = 2;
const POLICIES: [&str; 4] = ["lru-inclusive", "hat", "lru-exclusive", "face-gsc"];

/// A disk, and what was written to it since its last good sync.
struct Disk {
    /// The bytes that a read gives.
    bytes: Vec<u8>,
    durable: Vec<u8>,
    written: Vec<Range<usize>>,
    /// Bytes that are written as a whole.
    atom: usize,
}

impl Disk {
    fn new(bytes: u64, atom: usize) -> Self {
        let bytes = vec![0; bytes as usize];
        Self { durable: bytes.clone(), bytes, written: vec![], atom }
    }

    fn sync(&mut self) {
        for range in self.written.drain(..) {
            self.durable[range.clone()].copy_from_slice(&self.bytes[range]);
        }
    }

    /// Power is cut, or a sync fails: some of what was written comes through. After a failed sync, reads
    /// still show the rest.
    fn lose(&mut self, random: &mut SplitMix64) {
        for range in std::mem::take(&mut self.written) {
            for start in range.step_by(self.atom) {
                if random.bits().is_multiple_of(2) {
                    let block = start..start + self.atom;
                    self.durable[block.clone()].copy_from_slice(&self.bytes[block]);
                }
            }
        }
    }
}

/// All devices, and the power.
struct Devices {
    flash: Disk,
    /// The flash that is being replaced, until nobody may need it.
    former: Option<Disk>,
    backing: [Disk; 3],
    syncs: SharedSyncs,
    /// Writes and syncs until the power is cut.
    steps_left: u64,
    random: SplitMix64,
}

impl Devices {
    fn step(&mut self) -> io::Result<()> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(())
    }

    /// Power returns.
    fn restart(&mut self) {
        let Self { flash, former, backing, random, .. } = self;
        for disk in backing.iter_mut().chain([flash]).chain(former) {
            disk.lose(random);
            disk.bytes.clone_from(&disk.durable);
        }
        self.syncs = SharedSyncs::new(2);
    }
}

/// The flash for what a start does.
struct Flash(Rc<RefCell<Devices>>);

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

/// Return the stamp of a write in a volume.
const fn stamp(tag: u64, volume: usize) -> u64 {
    tag * 4 + volume as u64
}

/// Stamps of a page that its clients may find.
#[derive(Clone, Copy, Default)]
struct Page {
    /// The newest write that was flushed, answered and submitted; 0 is none.
    flushed: u64,
    answered: u64,
    submitted: u64,
}

/// A volume, and what its clients know.
struct Volume {
    number: usize,
    shard: Shard,
    region: Range<u64>,
    /// Ranges of the flash that its region has got since.
    annexes: Vec<Range<u64>>,
    pages: Vec<Page>,
    /// `true` while pages are read for the first time after a crash: what is found stays.
    is_recovering: bool,
    /// Syncs of the flash that are not done.
    waiting: VecDeque<Operation>,
    /// Requests that are not answered, with what was known of the pages when they were submitted.
    asked: Vec<(u64, RequestKind, u64, Vec<Page>)>,
}

impl Volume {
    fn options(number: usize, seed: u64) -> Options {
        let name = POLICIES[(seed as usize + number) % POLICIES.len()];
        let policy = PolicyOptions::named(name).unwrap();
        let mut options = Options::new(PAGES, 4 + number as u32 * 3, 12, policy);
        options.cleaning.dirty_ratio_target = 0.8;
        options
    }

    /// Submits a request; `false` if there is no room for it.
    fn submit(&mut self, tag: u64, kind: RequestKind, page: u64) -> bool {
        let offset = page * PAGE as u64;
        let stamp = stamp(tag, self.number);
        let (request, payload) = match kind {
            RequestKind::Flush => (Request::flush(tag), vec![]),
            RequestKind::Write => {
                let payload = stamp.to_le_bytes().repeat(PAGE / 8);
                (Request::write(tag, offset, PAGE as u64), payload)
            }
            RequestKind::Read
            | RequestKind::Trim
            | RequestKind::WriteZeroes
            | RequestKind::Cache => (Request::read(tag, offset, PAGE as u64), vec![]),
        };
        match self.shard.submit(request, &payload) {
            Ok(()) => {}
            Err(SubmitError::Full) => return false,
            Err(error) => panic!("{error}"),
        }
        if kind == RequestKind::Write {
            self.pages[page as usize].submitted = stamp;
        }
        self.asked.push((tag, kind, page, self.pages.clone()));
        true
    }

    /// Has the devices do what the shard wants; `false` if the power is cut.
    fn work(&mut self, devices: &mut Devices) -> bool {
        while let Some(operation) = self.shard.next_operation() {
            if operation.kind != OperationKind::Read && devices.step().is_err() {
                return false;
            }
            if operation.kind == OperationKind::Sync {
                if operation.device == Device::Flash {
                    devices.syncs.ask(self.number);
                    self.waiting.push_back(operation);
                } else {
                    devices.backing[self.number].sync();
                    self.shard.complete(operation, Ok(()));
                }
                continue;
            }
            let (disk, start) = match operation.device {
                Device::Flash => (&mut devices.flash, self.region.start),
                Device::Backing => (&mut devices.backing[self.number], 0),
            };
            let start = start.wrapping_add(operation.offset_bytes);
            let end = start + operation.length_bytes;
            let own = self.annexes.iter().chain([&self.region]);
            let is_own = |own: &Range<u64>| own.start <= start && end <= own.end;
            assert!(
                operation.device == Device::Backing || own.into_iter().any(is_own),
                "{operation:?} leaves the region"
            );
            let range = start as usize..end as usize;
            let frames = self.shard.frames();
            // SAFETY: the shard has just given the operation away, and gets it back below.
            unsafe { transfer(frames, &operation, &mut disk.bytes[range.clone()]) };
            if matches!(operation.kind, OperationKind::Write | OperationKind::Zero) {
                disk.written.push(range);
            }
            self.shard.complete(operation, Ok(()));
        }
        true
    }

    fn take_replies(&mut self) {
        while let Some(reply) = self.shard.next_reply() {
            let at = self.asked.iter().position(|(tag, ..)| *tag == reply.tag).unwrap();
            let (tag, kind, page, before) = self.asked.swap_remove(at);
            let bytes = self.shard.pieces(&reply).flatten().copied().collect::<Vec<u8>>();
            let result = reply.result;
            self.shard.release(reply);
            // A flush fails while the flash fails; nothing is promised then.
            if result.is_err() {
                assert_eq!(kind, RequestKind::Flush, "{result:?}");
                continue;
            }
            match kind {
                RequestKind::Write => {
                    let known = &mut self.pages[page as usize].answered;
                    *known = (*known).max(stamp(tag, self.number));
                }
                RequestKind::Flush => {
                    for (known, before) in self.pages.iter_mut().zip(before) {
                        known.flushed = known.flushed.max(before.answered);
                    }
                }
                RequestKind::Read
                | RequestKind::Trim
                | RequestKind::WriteZeroes
                | RequestKind::Cache => {
                    let found = self.check(page, before[page as usize].flushed, &bytes);
                    if self.is_recovering {
                        let found = Page { flushed: found, answered: found, submitted: found };
                        self.pages[page as usize] = found;
                    }
                }
            }
        }
    }

    fn check(&self, page: u64, flushed: u64, bytes: &[u8]) -> u64 {
        self.pages[page as usize].check((page, self.number), flushed, bytes)
    }
}

impl Page {
    /// Checks that a page of a volume has what some write gave it, and nothing older than what was flushed.
    fn check(&self, (page, volume): (u64, usize), flushed: u64, bytes: &[u8]) -> u64 {
        let stamp = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes.chunks(8).all(|word| word == &bytes[..8]), "page {page} is torn");
        let is_own = stamp == 0 || stamp % 4 == volume as u64;
        assert!(
            is_own && (flushed..=self.submitted).contains(&stamp),
            "page {page} of volume {volume} has {stamp}, not {flushed} to {}",
            self.submitted
        );
        stamp
    }
}

/// Return the layout of a volume's region.
fn layout(number: usize, seed: u64) -> Layout {
    let options = Volume::options(number, seed);
    // In half of the runs the two have room that they can give back.
    let more = if number < GUEST && seed % 2 == 1 { 300 * (number as u32 + 1) } else { 0 };
    Layout { journal_blocks: 8, ..Layout::new(options.slots() + more, options.page_bytes) }
}

/// Return the ranges of the flash that a region which begins there has besides.
fn annexes(start: u64, layout: &Layout) -> Vec<Range<u64>> {
    let of_flash = |offset: u64| start.wrapping_add(offset);
    layout.annex_ranges().map(|range| of_flash(range.start)..of_flash(range.end)).collect()
}

/// Set up the region of a volume: the `times`th one that it has.
fn set_up(
    flash: &mut Flash,
    directory: &Directory,
    (number, seed): (usize, u64),
    times: u64,
) -> Result<FlashSet, FlashError> {
    let cache = Uuid::from_u128(u128::from(times) * 4 + number as u128);
    let mut region = Section::new(flash, directory.region(NAMES[number]).unwrap());
    let map: ShardMap = Share::WHOLE.map;
    let bytes = PAGES * PAGE as u64;
    FlashSet::initialise(&mut region, cache, layout(number, seed), map, bytes)
}

/// The volumes of a run.
struct World {
    devices: Rc<RefCell<Devices>>,
    /// Those that are served: the guest is the last one.
    volumes: Vec<Volume>,
    /// Pages of the guest as clients know them, while it is away.
    guest: Vec<Page>,
    /// The guest's note, which is durable as soon as it is written: `true` if the flash may have newer bytes.
    guest_needs_flash: bool,
    guest_leaves: bool,
    /// The notes of the other two: `true` if the flash may have newer bytes.
    need_flash: [bool; 2],
    exchange: Exchange,
    /// Times that a volume gave room back.
    shrunk: u64,
    /// `true` if the flash is replaced now and then.
    replaces: bool,
    /// Replacements that came to their end.
    replaced: u64,
    next_tag: u64,
    seed: u64,
}

/// Step of a replacement of the flash, which all volumes take before any takes the next one.
#[derive(Debug)]
enum Exchange {
    Idle,
    Leaving,
    Releasing,
    /// The new flash is set up: its regions, and which volumes use it.
    Taking(Vec<(Range<u64>, FlashSet)>, [bool; 2]),
}

impl World {
    fn new(seed: u64) -> Self {
        let devices = Devices {
            flash: Disk::new(16 * MIB, 512),
            former: None,
            backing: [(); 3].map(|()| Disk::new(PAGES * PAGE as u64, PAGE)),
            syncs: SharedSyncs::new(2),
            steps_left: u64::MAX,
            random: SplitMix64::new(seed),
        };
        let devices = Rc::new(RefCell::new(devices));
        let mut flash = Flash(Rc::clone(&devices));
        let sizes = [0, 1].map(|number| (NAMES[number], layout(number, seed).flash_bytes()));
        let directory = Directory::set_up(&mut flash, &sizes).unwrap();
        for number in 0..2 {
            set_up(&mut flash, &directory, (number, seed), 1).unwrap();
        }
        let mut world = Self {
            devices,
            volumes: vec![],
            guest: vec![],
            guest_needs_flash: false,
            guest_leaves: false,
            need_flash: [true; 2],
            exchange: Exchange::Idle,
            shrunk: 0,
            replaces: false,
            replaced: 0,
            next_tag: 1,
            seed,
        };
        let pages = vec![vec![Page::default(); PAGES as usize]; 3];
        assert!(world.start(pages).is_ok());
        world.read_all();
        world
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.devices.borrow_mut().random.bits() % bound
    }

    /// Recovers all volumes; gives back what clients know if the power is cut meanwhile.
    fn start(&mut self, pages: Vec<Vec<Page>>) -> Result<(), Vec<Vec<Page>>> {
        self.volumes.clear();
        let mut flash = Flash(Rc::clone(&self.devices));
        self.choose_flash(&mut flash);
        let mut directory = Directory::read(&mut flash).unwrap().expect("it never goes away");
        // Another volume comes and goes.
        let changed = if directory.region("other").is_ok() {
            directory.remove(&mut flash, "other")
        } else {
            directory.add(&mut flash, "other", 2 * MIB)
        };
        if changed.is_err() || self.forget_guest(&mut flash, &mut directory).is_err() {
            return Err(pages);
        }
        if self.remake_regions(&mut flash, &mut directory).is_err() {
            return Err(pages);
        }
        self.guest_leaves = false;
        let mut started = vec![];
        let number = if self.guest_needs_flash { 3 } else { 2 };
        for (number, name) in NAMES.into_iter().enumerate().take(number) {
            let region = directory.region(name).unwrap();
            let mut section = Section::new(&mut flash, directory.window(name).unwrap());
            let mut found = FlashSet::read(&mut section).unwrap();
            if section.sync().is_err() || found.take_over(&mut section).is_err() {
                return Err(pages);
            }
            let options = Volume::options(number, self.seed);
            let shard = Shard::open(options, &found.flashes()[0]).unwrap();
            let annexes = annexes(region.start, &found.superblock().layout);
            started.push((number, shard, region, annexes));
        }
        let mut pages = pages.into_iter();
        let started = started.into_iter().map(|(number, shard, region, annexes)| {
            let (waiting, asked) = (VecDeque::new(), vec![]);
            let pages = pages.next().expect("all volumes have pages");
            Volume { number, shard, region, annexes, pages, is_recovering: true, waiting, asked }
        });
        self.volumes = started.collect();
        self.guest = pages.next().unwrap_or_default();
        self.devices.borrow_mut().syncs = SharedSyncs::new(self.volumes.len());
        Ok(())
    }

    /// Choose the flash that the notes name. If they name none, the one that was replaced is as good, and better if
    /// the new one was not set up.
    fn choose_flash(&mut self, flash: &mut Flash) {
        self.exchange = Exchange::Idle;
        let is_set_up = matches!(Directory::read(flash), Ok(Some(_)));
        let drawn = self.below(2) == 0;
        let mut devices = self.devices.borrow_mut();
        let former = devices.former.take();
        if let Some(former) = former.filter(|_| self.need_flash == [false; 2])
            && (drawn || !is_set_up)
        {
            devices.flash = former;
        }
    }

    /// Make the regions of volumes again whose notes need no flash, as a start does.
    fn remake_regions(
        &mut self,
        flash: &mut Flash,
        directory: &mut Directory,
    ) -> Result<(), FlashError> {
        for (number, name) in NAMES.into_iter().enumerate().take(GUEST) {
            if self.need_flash[number] {
                continue;
            }
            let failed = |error: DirectoryError| FlashError::Directory(Box::new(error));
            if let Ok(window) = directory.window(name) {
                if !directory.is_new(flash, name).map_err(failed)? {
                    let found = FlashSet::read(&mut Section::new(flash, window))?;
                    assert_eq!(found.contents().dirty_pages, 0, "it would have to be kept");
                }
                directory.remove(flash, name).map_err(failed)?;
            }
            let bytes = layout(number, self.seed).flash_bytes();
            directory.add(flash, name, bytes).map_err(failed)?;
            set_up(flash, directory, (number, self.seed), self.next_tag)?;
            self.next_tag += 1;
            self.need_flash[number] = true;
        }
        Ok(())
    }

    /// Take the next step of a replacement of the flash, or begin one by a draw; `None` if the power is cut.
    fn replace_flash(&mut self) -> Option<()> {
        let later = |shard: &mut Shard| shard.tick(Nanos(shard.now().0 + 60_000_000));
        match &mut self.exchange {
            Exchange::Idle => {
                let begins = self.volumes.len() == GUEST
                    && !self.volumes.iter().any(|volume| volume.shard.is_shrinking())
                    && self.below(10) == 0;
                if begins {
                    self.exchange = Exchange::Leaving;
                }
            }
            Exchange::Leaving => {
                for volume in &mut self.volumes {
                    later(&mut volume.shard);
                    volume.shard.leave_flash();
                }
                let have_left = self.volumes.iter().all(|volume| volume.shard.has_left_flash());
                let next = self.need_flash.iter_mut().find(|needs| **needs);
                match next.filter(|_| have_left) {
                    Some(needs) => {
                        // A note is durable as soon as it is written.
                        self.devices.borrow_mut().step().ok()?;
                        *needs = false;
                    }
                    None if have_left => self.exchange = Exchange::Releasing,
                    None => {}
                }
            }
            Exchange::Releasing => {
                for volume in &mut self.volumes {
                    later(&mut volume.shard);
                    if volume.shard.has_left_flash() {
                        volume.shard.release_flash();
                    }
                    volume.shard.leave_flash();
                }
                if self.volumes.iter().all(|volume| volume.shard.is_flash_released()) {
                    self.set_up_new_flash()?;
                }
            }
            Exchange::Taking(..) => self.take_new_flash()?,
        }
        Some(())
    }

    fn set_up_new_flash(&mut self) -> Option<()> {
        let new = Disk::new(16 * MIB, 512);
        {
            let mut devices = self.devices.borrow_mut();
            let former = std::mem::replace(&mut devices.flash, new);
            devices.former = Some(former);
            devices.syncs = SharedSyncs::new(2);
        }
        let mut flash = Flash(Rc::clone(&self.devices));
        let sizes = [0, 1].map(|number| (NAMES[number], layout(number, self.seed).flash_bytes()));
        let directory = Directory::set_up(&mut flash, &sizes).ok()?;
        let mut parts = vec![];
        for (number, name) in NAMES.into_iter().enumerate().take(GUEST) {
            let set = set_up(&mut flash, &directory, (number, self.seed), self.next_tag).ok()?;
            parts.push((directory.region(name).unwrap(), set));
        }
        self.next_tag += 1;
        self.exchange = Exchange::Taking(parts, [false; 2]);
        Some(())
    }

    fn take_new_flash(&mut self) -> Option<()> {
        let Exchange::Taking(parts, taken) = &mut self.exchange else { return Some(()) };
        if let Some(needs) = self.need_flash.iter_mut().find(|needs| !**needs) {
            self.devices.borrow_mut().step().ok()?;
            *needs = true;
            return Some(());
        }
        // From the first note on that names the new flash, no start takes the former one.
        self.devices.borrow_mut().former = None;
        let number = taken.iter().position(|is_taken| !is_taken).unwrap();
        let (region, set) = &parts[number];
        let Options { policy, flash_pages, .. } = Volume::options(number, self.seed);
        let volume = &mut self.volumes[number];
        volume.shard.take_flash(flash_pages, policy, &set.flashes()[0]).unwrap();
        (volume.region, volume.annexes) = (region.clone(), vec![]);
        taken[number] = true;
        if *taken == [true; 2] {
            self.replaced += 1;
            self.exchange = Exchange::Idle;
        }
        Some(())
    }

    /// Remove the region of a guest that needs none: it was added or removed when the power was cut.
    fn forget_guest(
        &self,
        flash: &mut Flash,
        directory: &mut Directory,
    ) -> Result<(), DirectoryError> {
        let Ok(region) = directory.region(NAMES[GUEST]) else { return Ok(()) };
        if self.guest_needs_flash {
            return Ok(());
        }
        if !directory.is_new(flash, NAMES[GUEST])? {
            let found = FlashSet::read(&mut Section::new(flash, region)).unwrap();
            assert_eq!(found.contents().dirty_pages, 0, "it would have to be kept");
        }
        directory.remove(flash, NAMES[GUEST])
    }

    /// Take the guest's next step, if it can be taken; `None` if the power is cut.
    fn change_guest(&mut self) -> Option<()> {
        let mut flash = Flash(Rc::clone(&self.devices));
        if self.volumes.len() <= GUEST {
            return self.welcome_guest(&mut flash);
        }
        self.guest_leaves = true;
        let guest = &mut self.volumes[GUEST];
        let shard = &mut guest.shard;
        shard.tick(Nanos(shard.now().0 + 60_000_000));
        if !guest.asked.is_empty() {
            return Some(());
        }
        shard.leave_flash();
        if shard.is_idle() && shard.dirty_pages() > 0 {
            shard.drain();
        }
        if shard.has_left_flash() && shard.undurable_pages() == 0 {
            self.guest_needs_flash = false;
            shard.release_flash();
        }
        if self.guest_needs_flash || !shard.is_flash_released() {
            return Some(());
        }
        self.guest = self.volumes.pop()?.pages;
        self.devices.borrow_mut().syncs.leave(GUEST);
        self.check_guest();
        let mut directory = Directory::read(&mut flash).ok()??;
        directory.remove(&mut flash, NAMES[GUEST]).ok()
    }

    /// Give the guest a region, and serve it from then on.
    fn welcome_guest(&mut self, flash: &mut Flash) -> Option<()> {
        let mut directory = Directory::read(flash).ok()??;
        self.forget_guest(flash, &mut directory).ok()?;
        let bytes = layout(GUEST, self.seed).flash_bytes();
        directory.add(flash, NAMES[GUEST], bytes).ok()?;
        let set = set_up(flash, &directory, (GUEST, self.seed), self.next_tag).ok()?;
        let shard = Shard::open(Volume::options(GUEST, self.seed), &set.flashes()[0]).unwrap();
        self.guest_needs_flash = true;
        self.guest_leaves = false;
        assert_eq!(self.devices.borrow_mut().syncs.join(), GUEST);
        self.volumes.push(Volume {
            number: GUEST,
            shard,
            region: directory.region(NAMES[GUEST]).unwrap(),
            annexes: vec![],
            pages: std::mem::take(&mut self.guest),
            is_recovering: false,
            waiting: VecDeque::new(),
            asked: vec![],
        });
        Some(())
    }

    /// Give a volume that stays more slots, if there is room for them; `None` if the power is cut.
    fn grow(&mut self) -> Option<()> {
        let number = self.below(2) as usize;
        if self.volumes[number].shard.is_shrinking() {
            return Some(());
        }
        let (name, more) = (NAMES[number], 1 + self.below(200) as u32);
        let mut flash = Flash(Rc::clone(&self.devices));
        let mut directory = Directory::read(&mut flash).ok()??;
        let window = directory.window(name).unwrap();
        let volume = &mut self.volumes[number];
        let mut section = Section::new(&mut flash, window.clone());
        let known = Extension::plan(&mut section, 0..=0, None).unwrap().layouts()[0];
        // The volumes that come and go find room, too.
        if known.annexes.len() == 3 {
            return Some(());
        }
        let slots = known.slots + more;
        let mut extension = Extension::plan(&mut section, slots..=slots, None).unwrap();
        let of_flash = |offset: u64| window.start.wrapping_add(offset);
        let used = extension.used().into_iter();
        let used: Vec<_> = used.map(|range| of_flash(range.start)..of_flash(range.end)).collect();
        let free = directory.free_for(&mut flash, name, &used).ok()?;
        let to_region = |range: &Range<u64>| {
            range.start.wrapping_sub(window.start)..range.end.wrapping_sub(window.start)
        };
        let free: Vec<_> = free.iter().map(to_region).collect();
        let taken = match extension.place(&free) {
            Err(FlashError::NoRoom { .. } | FlashError::CannotGrow) => return Some(()),
            placed => placed.unwrap(),
        };
        let taken: Vec<_> =
            taken.iter().map(|range| of_flash(range.start)..of_flash(range.end)).collect();
        directory.take(&mut flash, name, &taken).ok()?;
        extension.apply(&mut Section::new(&mut flash, window.clone())).ok()?;
        let layout = extension.layouts()[0];
        let pages = volume.shard.options().flash_pages + more / 20;
        volume.annexes = annexes(window.start, &layout);
        volume.region = directory.region(name).unwrap();
        volume.shard.grow_flash(pages, &layout).unwrap();
        Some(())
    }

    /// Have a volume that stays begin to leave slots, or look whether it has room that it does not use; `None` if
    /// the power is cut.
    fn shrink(&mut self) -> Option<()> {
        let number = self.below(2) as usize;
        let pages = Volume::options(number, self.seed).flash_pages;
        let shard = &mut self.volumes[number].shard;
        match shard.fewer_slots_for(pages) {
            Ok(Some(_)) => shard.leave_slots(pages).unwrap(),
            Ok(None) => self.give_back(number, None)?,
            Err(_) => {}
        }
        Some(())
    }

    /// Take the room from volumes that have left slots; `None` if the power is cut.
    fn advance_shrinking(&mut self) -> Option<()> {
        for number in 0..GUEST {
            let shard = &mut self.volumes[number].shard;
            if shard.is_shrinking() {
                shard.tick(Nanos(shard.now().0 + 60_000_000));
            }
            if let Some(left) = shard.has_left_slots() {
                self.give_back(number, Some(left))?;
            }
        }
        Some(())
    }

    /// Make durable that a volume has only the slots that its shard keeps, and let others have the rest of its room;
    /// `None` if the power is cut.
    fn give_back(&mut self, number: usize, left: Option<u32>) -> Option<()> {
        let name = NAMES[number];
        let mut flash = Flash(Rc::clone(&self.devices));
        let mut directory = Directory::read(&mut flash).ok()??;
        let window = directory.window(name).unwrap();
        let mut section = Section::new(&mut flash, window.clone());
        let reduction = Reduction::plan(&mut section, &[left], None).ok()?;
        let reduced = reduction.apply(&mut section).ok()?;
        reduced.give_back(&mut directory, &mut flash, name).ok()?;
        let layout = reduced.layouts()[0];
        let volume = &mut self.volumes[number];
        volume.annexes = annexes(window.start, &layout);
        volume.region = directory.region(name).unwrap();
        if left.is_some() {
            volume.shard.give_up_slots(&layout);
            self.shrunk += 1;
        }
        Some(())
    }

    /// Check that the backing store of a guest that is away has everything, which stays as it is found.
    fn check_guest(&mut self) {
        let devices = self.devices.borrow();
        let pages = self.guest.iter_mut().zip(devices.backing[GUEST].durable.chunks(PAGE));
        for (page, (known, bytes)) in pages.enumerate() {
            let found = known.check((page as u64, GUEST), known.flushed, bytes);
            *known = Page { flushed: found, answered: found, submitted: found };
        }
    }

    /// Has the devices work for all volumes, and performs a sync of the flash if one is wanted; `false` if
    /// the power is cut.
    fn turn(&mut self, sync_fails: bool) -> bool {
        let mut devices = self.devices.borrow_mut();
        for volume in &mut self.volumes {
            if !volume.work(&mut devices) {
                return false;
            }
            volume.take_replies();
        }
        if devices.syncs.begin() {
            let Devices { flash, random, syncs, .. } = &mut *devices;
            if sync_fails {
                flash.lose(random);
            } else {
                flash.sync();
            }
            let mut told = vec![];
            syncs.done(!sync_fails, |volume, count, is_good| told.push((volume, count, is_good)));
            for (number, count, is_good) in told {
                let volume = &mut self.volumes[number];
                for _ in 0..count {
                    let operation = volume.waiting.pop_front().unwrap();
                    let failed = DeviceError(io::ErrorKind::Other);
                    volume.shard.complete(operation, if is_good { Ok(()) } else { Err(failed) });
                }
            }
        }
        true
    }

    /// Clients of both volumes work until the power is cut.
    fn live(&mut self, steps: u64) {
        self.devices.borrow_mut().steps_left = steps;
        loop {
            let volumes = self.volumes.len() - usize::from(self.guest_leaves);
            let number = self.below(volumes as u64) as usize;
            let kind =
                [RequestKind::Write, RequestKind::Write, RequestKind::Read, RequestKind::Flush]
                    [self.below(4) as usize];
            let page = self.below(PAGES);
            if self.volumes[number].submit(self.next_tag, kind, page) {
                self.next_tag += 1;
            }
            if self.below(3) == 0 && !self.turn(false) {
                return;
            }
            if self.replaces && self.below(2) == 0 && self.replace_flash().is_none() {
                return;
            }
            let may_change = matches!(self.exchange, Exchange::Idle);
            if self.below(30) == 0 && may_change && self.grow().is_none() {
                return;
            }
            if self.below(30) == 0 && may_change && self.shrink().is_none() {
                return;
            }
            if may_change && self.advance_shrinking().is_none() {
                return;
            }
            let is_due = self.below(if self.guest_leaves { 2 } else { 30 }) == 0;
            if is_due && may_change && self.change_guest().is_none() {
                return;
            }
        }
    }

    /// Power is cut and returns, perhaps several times before both volumes are there.
    fn crash(&mut self) {
        let mut pages: Vec<Vec<Page>> =
            self.volumes.iter_mut().map(|volume| std::mem::take(&mut volume.pages)).collect();
        if pages.len() == GUEST {
            pages.push(std::mem::take(&mut self.guest));
        }
        loop {
            self.devices.borrow_mut().restart();
            let steps = self.below(60);
            self.devices.borrow_mut().steps_left = if steps < 30 { steps } else { u64::MAX };
            match self.start(pages) {
                Ok(()) => break,
                Err(before) => pages = before,
            }
        }
        self.devices.borrow_mut().steps_left = u64::MAX;
        self.read_all();
    }

    /// Reads every page, which stays from then on as it was found.
    fn read_all(&mut self) {
        if self.volumes.len() == GUEST {
            self.check_guest();
        }
        for number in 0..self.volumes.len() {
            for page in 0..PAGES {
                let volume = &mut self.volumes[number];
                while !volume.submit(self.next_tag, RequestKind::Read, page) {
                    assert!(volume.work(&mut self.devices.borrow_mut()));
                }
                self.next_tag += 1;
                while !self.volumes[number].asked.is_empty() {
                    assert!(self.turn(false));
                }
            }
            self.volumes[number].is_recovering = false;
        }
    }
}

#[test]
fn what_was_flushed_survives_every_power_cut_while_volumes_come_and_go() {
    let mut shrunk = 0;
    for seed in 0..60 {
        let mut world = World::new(seed);
        for _ in 0..5 {
            let steps = 1 + world.below(400);
            world.live(steps);
            world.crash();
        }
        shrunk += world.shrunk;
    }
    assert!(shrunk > 30, "{shrunk}");
}

#[test]
fn what_was_flushed_survives_every_power_cut_while_the_flash_is_replaced() {
    let mut replaced = 0;
    for seed in 0..60 {
        let mut world = World::new(seed);
        world.replaces = true;
        for _ in 0..5 {
            let steps = 1 + world.below(600);
            world.live(steps);
            world.crash();
        }
        replaced += world.replaced;
    }
    assert!(replaced > 50, "{replaced}");
}

#[test]
fn a_failed_sync_that_one_volume_asked_for_is_told_to_the_other() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        for _ in 0..60 {
            let number = world.below(2) as usize;
            let page = world.below(PAGES);
            if world.volumes[number].submit(world.next_tag, RequestKind::Write, page) {
                world.next_tag += 1;
            }
            world.turn(false);
        }
        // One volume flushes, and the sync fails; then the other does, before anybody tells it.
        for (number, fails) in [(0, true), (1, false)] {
            if world.volumes[number].submit(world.next_tag, RequestKind::Flush, 0) {
                world.next_tag += 1;
            }
            for _ in 0..4 {
                world.turn(fails);
            }
        }
        assert!(world.volumes.iter().all(|volume| !volume.shard.has_flash()), "seed {seed}");
    }
}

#[test]
fn a_sync_of_the_flash_that_fails_promises_nothing_to_any_volume() {
    for seed in 0..40 {
        let mut world = World::new(seed);
        world.devices.borrow_mut().steps_left = u64::MAX;
        for step in 0..400 {
            let number = world.below(2) as usize;
            let kind = [RequestKind::Write, RequestKind::Flush][usize::from(world.below(5) == 0)];
            let page = world.below(PAGES);
            if world.volumes[number].submit(world.next_tag, kind, page) {
                world.next_tag += 1;
            }
            let fails = step > 100 && world.below(6) == 0;
            world.turn(fails);
            // The server tells all volumes, and their notes, before anything else is acknowledged.
            if world.volumes.iter().any(|volume| !volume.shard.has_flash()) {
                world.volumes.iter_mut().for_each(|volume| volume.shard.give_up_flash());
            }
        }
        assert!(world.volumes.iter().all(|volume| !volume.shard.has_flash()), "seed {seed}");
        // Pages that only the flash has go to the backing stores, which then have everything that was flushed.
        for number in 0..2 {
            while !world.volumes[number].submit(world.next_tag, RequestKind::Flush, 0) {
                world.turn(false);
            }
            world.next_tag += 1;
            while !world.volumes[number].asked.is_empty() {
                world.turn(false);
            }
            let volume = &world.volumes[number];
            assert!(volume.shard.lost_pages().is_empty());
            let devices = world.devices.borrow();
            for (page, bytes) in devices.backing[number].durable.chunks(PAGE).enumerate() {
                volume.check(page as u64, volume.pages[page].flushed, bytes);
            }
        }
    }
}
