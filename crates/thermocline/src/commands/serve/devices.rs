//! The devices of an engine: opened, set up or recovered, and driven.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use thermocline_core::Nanos;
use thermocline_engine::driver::files::{Caching, DeviceFile, LOCK_PATIENCE};
use thermocline_engine::driver::joint::{JointDriver, JointSyncs};
use thermocline_engine::driver::split::SplitDriver;
use thermocline_engine::driver::threads::ThreadDriver;
use thermocline_engine::driver::uring::UringDriver;
use thermocline_engine::driver::{Allocation, Completion, Driver};
use thermocline_engine::{
    Device, Engine, Fingerprint, Flash, FlashError, FlashSet, Frames, Layout, Operation, Options,
    Plan, Shard, SideFile, Step, Uuid,
};
use thermocline_nbd::backing::{Access, NbdBacking, NbdDriver};
use tracing::{info, warn};

use super::config::{Config, IoEngine, Mode};
use super::epoch::{Beginning, FirstNote, FoundFlash};
use super::kept_note::Note;
use super::start::{self, BackingAtEnd};
use crate::backing::BackingLocation;
use crate::note::NotePlace;

/// Threads that drive devices where `io_uring` does not.
const THREADS: usize = 32;

/// How long a device in use is waited for before that is said.
const QUIET_PATIENCE: Duration = Duration::from_secs(1);

/// The engines of all shards on their devices.
pub(crate) struct Opened {
    pub(crate) engines: Vec<Engine<AnyDriver>>,
    /// The note beside the backing store, as long as a flash may be newer.
    pub(crate) note: Option<Arc<Note>>,
    /// What comes before the first write.
    pub(crate) beginning: Beginning,
}

/// Whatever drives the devices.
#[derive(Debug)]
pub(crate) enum AnyDriver {
    Uring(Box<UringDriver>),
    Threads(ThreadDriver),
    Nbd(Box<NbdDriver>),
    Split(Box<SplitDriver<Self, NbdDriver>>),
    /// One of several shards on the same devices.
    Joint(Box<JointDriver<Self>>),
}

impl AnyDriver {
    /// Drives another flash from now on. No operation on the old one is in flight.
    pub(crate) fn set_flash(&mut self, flash: DeviceFile) -> Result<()> {
        match self {
            Self::Uring(driver) => driver.set_flash(flash),
            Self::Threads(driver) => driver.set_flash(flash),
            Self::Nbd(_) => bail!("the server was started without a flash"),
            Self::Split(driver) => return driver.flash_mut().set_flash(flash),
            Self::Joint(_) => bail!("several shards keep the flash that they began with"),
        }
        Ok(())
    }

    /// Return `true` if the backing store takes writes.
    pub(crate) fn may_write(&self) -> bool {
        match self {
            Self::Uring(_) | Self::Threads(_) | Self::Joint(_) => true,
            Self::Nbd(driver) => driver.may_write(),
            Self::Split(driver) => driver.backing().may_write(),
        }
    }
}

impl Driver for AnyDriver {
    fn start(&mut self, operation: Operation) {
        match self {
            Self::Uring(driver) => driver.start(operation),
            Self::Threads(driver) => driver.start(operation),
            Self::Nbd(driver) => driver.start(operation),
            Self::Split(driver) => driver.start(operation),
            Self::Joint(driver) => driver.start(operation),
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        match self {
            Self::Uring(driver) => driver.poll(done),
            Self::Threads(driver) => driver.poll(done),
            Self::Nbd(driver) => driver.poll(done),
            Self::Split(driver) => driver.poll(done),
            Self::Joint(driver) => driver.poll(done),
        }
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        match self {
            Self::Uring(driver) => driver.wait(done),
            Self::Threads(driver) => driver.wait(done),
            Self::Nbd(driver) => driver.wait(done),
            Self::Split(driver) => driver.wait(done),
            Self::Joint(driver) => driver.wait(done),
        }
    }

    fn ask_allocation(&mut self, tag: u64, range: Range<u64>) -> bool {
        match self {
            Self::Uring(driver) => driver.ask_allocation(tag, range),
            Self::Threads(driver) => driver.ask_allocation(tag, range),
            Self::Nbd(driver) => driver.ask_allocation(tag, range),
            Self::Split(driver) => driver.ask_allocation(tag, range),
            Self::Joint(driver) => driver.ask_allocation(tag, range),
        }
    }

    fn next_allocation(&mut self) -> Option<(u64, Vec<Allocation>)> {
        match self {
            Self::Uring(driver) => driver.next_allocation(),
            Self::Threads(driver) => driver.next_allocation(),
            Self::Nbd(driver) => driver.next_allocation(),
            Self::Split(driver) => driver.next_allocation(),
            Self::Joint(driver) => driver.next_allocation(),
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Uring(driver) => driver.wake_fd(),
            Self::Threads(driver) => driver.wake_fd(),
            Self::Nbd(driver) => driver.wake_fd(),
            Self::Split(driver) => driver.wake_fd(),
            Self::Joint(driver) => driver.wake_fd(),
        }
    }
}

/// A backing store that was found. A file is locked from now on.
enum Backing {
    File(DeviceFile),
    Nbd(NbdBacking),
}

impl Backing {
    const fn file(&self) -> Option<&DeviceFile> {
        match self {
            Self::File(disk) => Some(disk),
            Self::Nbd(_) => None,
        }
    }
}

/// Opens the devices of a configuration, and recovers what the flash holds.
///
/// # Errors
/// What cannot be opened, or must not be used, and what to do about it.
pub(crate) fn open(config: &Config, force_init: bool) -> Result<Opened> {
    let caching = if config.io.direct { Caching::Direct } else { Caching::Buffered };
    let place = config.backing.place();
    let in_backing = || format!("`{}`: `{place}`", place.key());
    let (backing, size_bytes) = find(&place, config, caching).with_context(in_backing)?;
    let options = options(config, size_bytes)?;
    let map = config.shard_map();
    let each = options.of_shards(map).context("`shards`")?;
    let flash_path = config.flash.as_ref().map(|flash| flash.path.as_path());
    let in_flash = || format!("`flash.path`: `{}`", flash_path.unwrap_or(Path::new("")).display());
    let said = config.backing.note.as_deref();
    let note_place = place.note(said, flash_path, config.state_dir.as_deref())?;
    let load = || note_place.as_ref().map(NotePlace::load).transpose().map(Option::flatten);
    // Nothing is changed before both devices are locked.
    let mut flash_file = flash_path
        .map(|path| {
            lock_flash(path, caching, backing.file(), || Ok(SideFile::check(load()?, None)?))
        })
        .transpose()
        .with_context(in_flash)?;
    let looked = start::look(flash_file.as_mut(), load()?, options.size_bytes(), map, force_init)
        .with_context(in_flash)?;
    let mut found = looked.found;
    let (backing, fingerprint) = sample(backing, found.sample(), &place, config)?;
    found.found.backing = fingerprint;
    let has_flash = flash_file.is_some();
    let plan = start::plan(&found, force_init)
        .with_context(|| if has_flash { in_flash() } else { in_backing() })?;
    let flash = flash_file
        .as_mut()
        .zip(note_place.as_ref())
        .map(|(file, note)| {
            open_flash(file, note, &each, looked.flash, &plan).with_context(in_flash)
        })
        .transpose()?;
    let shards = open_shards(each, flash.as_ref()).with_context(|| {
        if has_flash { in_flash() } else { "the engine cannot be set up".to_owned() }
    })?;
    let first_note = FirstNote(note_place.zip(plan.note_before_serving()));
    let note = match (&flash_file, &first_note.0) {
        (Some(flash), Some((note_place, side_file))) => {
            let backing = BackingAtEnd::of(backing.file(), &place, config)?;
            Some(Arc::new(Note::new(note_place, *side_file, flash, backing, &shards)?))
        }
        _ => None,
    };
    let dirty_pages: u32 = shards.iter().map(Shard::dirty_slots).sum();
    if dirty_pages > 0 {
        info!(dirty_pages, "the flash holds pages that are newer than the disk's");
    }
    let flash_and_file = flash_file.as_ref().zip(flash.as_ref().map(|(flash, _)| flash));
    let mut drivers =
        drive(config.io.engine, &shards, flash_and_file, backing).with_context(in_backing)?;
    sync_backing(&mut drivers[0]).with_context(in_backing)?;
    let found = flash
        .zip(flash_file)
        .and_then(|((flash, is_found), file)| is_found.then_some((flash, file)));
    let beginning = match (found, note.clone()) {
        (Some((flash, file)), Some(note)) => {
            Beginning::Flash(Box::new(FoundFlash { flash, file, note, place: in_flash() }))
        }
        (_, Some(note)) => Beginning::Note(note),
        (_, None) => Beginning::Alone(first_note),
    };
    let engines = shards.into_iter().zip(drivers).map(|(shard, driver)| Engine::new(shard, driver));
    Ok(Opened { engines: engines.collect(), note, beginning })
}

/// The shards, on a flash that was found or set up, or without one.
fn open_shards(each: Vec<Options>, flash: Option<&(FlashSet, bool)>) -> Result<Vec<Shard>> {
    let Some((flash, is_found)) = flash else {
        return each.into_iter().map(|options| Ok(Shard::new(options)?)).collect();
    };
    let open = if *is_found { Shard::open_early } else { Shard::open };
    let regions = each.into_iter().zip(flash.flashes());
    regions.map(|(options, flash)| Ok(open(options, flash)?)).collect()
}

/// The drivers of all shards. Several share the syncs of a device.
fn drive(
    engine: IoEngine,
    shards: &[Shard],
    flash: Option<(&DeviceFile, &FlashSet)>,
    backing: Backing,
) -> Result<Vec<AnyDriver>> {
    let whole_flash = flash.map(|(file, _)| file);
    match (backing, shards) {
        (Backing::File(disk), [shard]) => {
            Ok(vec![drive_files(engine, shard.frames(), whole_flash, &disk)?])
        }
        (Backing::File(disk), _) => {
            let syncs = |file| JointSyncs::start(file, shards.len());
            let flash_syncs = whole_flash.map(syncs).transpose()?;
            let disk_syncs = syncs(&disk)?;
            let joint = |(number, shard): (usize, &Shard)| {
                let region = flash.map(|(file, set)| file.region(set.range(number))).transpose()?;
                let inner = drive_files(engine, shard.frames(), region.as_ref(), &disk)?;
                let of_flash = flash_syncs.as_ref().map(|syncs| syncs.member(number));
                let joint = JointDriver::new(inner, of_flash, Some(disk_syncs.member(number)))?;
                Ok(AnyDriver::Joint(Box::new(joint)))
            };
            shards.iter().enumerate().map(joint).collect()
        }
        (Backing::Nbd(backing), [shard]) => {
            let backing = NbdDriver::new(backing, shard.frames())?;
            Ok(vec![drive_nbd(engine, shard.frames(), backing, whole_flash)?])
        }
        (Backing::Nbd(_), _) => bail!("an export is cached by one shard"),
    }
}

/// Syncs the backing store: a process that was killed may have left what it wrote in its cache, and the
/// engine counts all that it finds there as durable.
fn sync_backing(driver: &mut AnyDriver) -> Result<()> {
    driver.start(Operation::sync(Device::Backing));
    let mut done = vec![];
    while done.is_empty() {
        driver.wait(&mut done);
    }
    let (_, result) = done.swap_remove(0);
    result.context("it cannot be synced: what an earlier process wrote there may be lost")
}

/// Finds the backing store, and its size in bytes.
fn find(place: &BackingLocation, config: &Config, caching: Caching) -> Result<(Backing, u64)> {
    match place {
        BackingLocation::File(path) => {
            let file = lock(path, DeviceFile::open_within, caching).context("cannot open it")?;
            let size_bytes = file.size_bytes()?;
            Ok((Backing::File(file), size_bytes))
        }
        BackingLocation::Nbd(uri) => {
            let access = match config.write_mode {
                Mode::ReadOnly => Access::ReadOnly,
                Mode::Back | Mode::Through | Mode::Around => Access::ReadWrite,
            };
            let backing = NbdBacking::connect(uri.clone(), access)?
                .with_timeout(config.backing.timeout())
                .with_grace(config.backing.grace());
            let size_bytes = backing.size_bytes();
            Ok((Backing::Nbd(backing), size_bytes))
        }
    }
}

/// The fingerprint of a backing store, if one is wanted. An export is connected to again for the
/// engine, because its server may take one client at a time.
fn sample(
    backing: Backing,
    wanted: Option<(Uuid, u64)>,
    place: &BackingLocation,
    config: &Config,
) -> Result<(Backing, Option<Fingerprint>)> {
    let Some((cache, size_bytes)) = wanted else { return Ok((backing, None)) };
    match backing {
        Backing::File(disk) => {
            let fingerprint = start::fingerprint_of_file(&disk, cache, size_bytes);
            Ok((Backing::File(disk), fingerprint))
        }
        Backing::Nbd(backing) => {
            let fingerprint = start::fingerprint_of_export(backing, cache, size_bytes);
            let (backing, _) = find(place, config, Caching::Direct)?;
            Ok((backing, fingerprint))
        }
    }
}

/// Opens and locks a device, and says so if that takes long.
fn lock(
    path: &Path,
    open: fn(&Path, Caching, Duration) -> io::Result<DeviceFile>,
    caching: Caching,
) -> io::Result<DeviceFile> {
    open(path, caching, QUIET_PATIENCE).or_else(|error| {
        if error.kind() != io::ErrorKind::ResourceBusy {
            return Err(error);
        }
        warn!(device = %path.display(), %error, "waiting for a device that is in use");
        open(path, caching, LOCK_PATIENCE.saturating_sub(QUIET_PATIENCE))
    })
}

/// Opens and locks the flash; a file is made if there is none, and `may_be_new` agrees.
pub(super) fn lock_flash(
    path: &Path,
    caching: Caching,
    backing: Option<&DeviceFile>,
    may_be_new: impl FnOnce() -> Result<()>,
) -> Result<DeviceFile> {
    if let Some(backing) = backing {
        ensure!(!backing.is_at(path)?, "it is the backing store too: it was given twice");
    }
    if path.exists() {
        return Ok(lock(path, DeviceFile::open_within, caching)?);
    }
    // What is made below /dev is gone after a restart of the machine.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize().context("its folder")?;
    ensure!(
        !folder.starts_with("/dev") || folder.starts_with("/dev/shm"),
        "there is no such device: check its name, and that the drive is there; no file is made \
         below /dev"
    );
    may_be_new()?;
    Ok(lock(path, DeviceFile::create_within, caching)?)
}

pub(super) fn options(config: &Config, backing_bytes: u64) -> Result<Options> {
    let page_bytes = config.page_size.0;
    let pages = backing_bytes / page_bytes;
    ensure!(pages > 0, "`backing`: it has {backing_bytes} bytes, not even a page");
    let rest = backing_bytes % page_bytes;
    if rest > 0 {
        warn!(
            bytes = rest,
            "the backing store ends within a page; the last bytes are not exported"
        );
    }
    let ram_pages = config.pages("ram.size", config.ram.size)?;
    let flash = config.flash.as_ref();
    let flash_pages = flash.map(|flash| config.pages("flash.size", flash.size)).transpose()?;
    let mut options =
        Options::new(pages, ram_pages, flash_pages.unwrap_or(0), config.policy_options()?);
    options.page_bytes = u32::try_from(page_bytes).expect("pages were checked");
    options.write_mode = config.write_mode.into_engine();
    options.cleaning = config.cleaning.now();
    let timeout_ns = config.backing.timeout().as_nanos();
    options.backing_timeout = Nanos(u64::try_from(timeout_ns).unwrap_or(u64::MAX));
    options.flash_write_budget_gib_per_day = flash.and_then(|flash| flash.write_budget_gib_per_day);
    if let Some(errors) = flash.and_then(|flash| flash.error_budget) {
        options.flash_error_budget = errors;
    }
    if let Some(bytes) = config.limits.undurable {
        options.undurable_pages_max =
            u32::try_from(bytes.0 / page_bytes).unwrap_or(u32::MAX).max(1);
    }
    options.sequential_bypass_bytes = config.limits.sequential_bypass.map(|bytes| bytes.0);
    Ok(options)
}

/// Sets up a flash that holds nothing anybody wants, by the options of any of its shards, which are alike:
/// [`Step::SetUpFlash`].
pub(super) fn initialise(
    file: &mut DeviceFile,
    cache: Uuid,
    options: &Options,
) -> Result<FlashSet, FlashError> {
    let layout = Layout::new(options.slots(), options.page_bytes);
    let map = options.share.map;
    let bytes = FlashSet::bytes(&layout, &map);
    // A start that was killed may have left an empty or blank file of another size.
    file.reserve(bytes)?;
    let flash = FlashSet::initialise(file, cache, layout, map, options.size_bytes())?;
    info!(bytes, "the flash is set up");
    Ok(flash)
}

/// Takes the steps of a plan that come before the driver: sets the flash up, or makes durable what was
/// found there. Returns whether it was found: then its epoch has still to begin.
fn open_flash(
    file: &mut DeviceFile,
    note: &NotePlace,
    each: &[Options],
    found: Option<FlashSet>,
    plan: &Plan,
) -> Result<(FlashSet, bool)> {
    // Nothing is changed before it is known that the options fit the flash.
    let mut known = found;
    if let (Some(found), Some(begin)) = (&mut known, plan.begin()) {
        found.adapt(&begin);
        let mut regions = each.iter().zip(found.flashes());
        regions.try_for_each(|(options, flash)| Shard::check_open(options, flash))?;
    }
    let mut flash = None;
    for step in plan.before_driver() {
        match *step {
            Step::WriteNote(said) => note.store(said)?,
            Step::SetUpFlash(cache) => flash = Some((initialise(file, cache, &each[0])?, false)),
            Step::SyncFlash => {
                let found = known.take().context("a flash that was found is synced")?;
                Flash::make_durable(file)?;
                flash = Some((found, true));
            }
            Step::BeginEpoch(_)
            | Step::ServeReads
            | Step::WriteBack(_)
            | Step::Clear
            | Step::SyncBacking
            | Step::Serve
            | Step::Seal
            | Step::TakeFingerprint
            | Step::EndFlash
            | Step::EndNote => bail!("{step:?} does not come before the driver"),
        }
    }
    flash.context("a start with a flash sets it up, or recovers it")
}

/// One driver for the flash, if there is one, and a backing store that is a file. It has the files
/// that were locked: they stay so until it ends.
pub(crate) fn drive_files(
    engine: IoEngine,
    frames: &Arc<Frames>,
    flash: Option<&DeviceFile>,
    disk: &DeviceFile,
) -> Result<AnyDriver> {
    let files = || -> Result<_> {
        let flash = flash.map(DeviceFile::try_clone).transpose()?;
        Ok((flash, disk.try_clone()?))
    };
    ring_or_threads(
        engine,
        || files().map(|(flash, disk)| UringDriver::new(frames, flash, disk)),
        || files().map(|(flash, disk)| ThreadDriver::new(frames, flash, disk, THREADS)),
    )
}

/// A driver for the flash, if there is one, beside that of an export.
pub(crate) fn drive_nbd(
    engine: IoEngine,
    frames: &Arc<Frames>,
    backing: NbdDriver,
    flash: Option<&DeviceFile>,
) -> Result<AnyDriver> {
    let Some(flash) = flash else {
        return Ok(AnyDriver::Nbd(Box::new(backing)));
    };
    let file = || Ok(flash.try_clone()?);
    let flash = ring_or_threads(
        engine,
        || file().map(|flash| UringDriver::of_flash(frames, flash)),
        || file().map(|flash| ThreadDriver::of_flash(frames, flash, THREADS)),
    )?;
    let split = SplitDriver::new(flash, backing).context("cannot wait for two devices")?;
    Ok(AnyDriver::Split(Box::new(split)))
}

/// A ring if the configuration wants one or the system has one, threads otherwise.
fn ring_or_threads(
    engine: IoEngine,
    uring: impl Fn() -> Result<io::Result<UringDriver>>,
    threads: impl Fn() -> Result<io::Result<ThreadDriver>>,
) -> Result<AnyDriver> {
    if engine != IoEngine::Threads {
        match uring()? {
            Ok(driver) => return Ok(AnyDriver::Uring(Box::new(driver))),
            Err(error) if engine == IoEngine::Auto => {
                info!(%error, "io_uring is not available: worker threads do its work");
            }
            Err(error) => {
                let context =
                    "`io.engine`: the kernel gives no io_uring; use \"threads\" or \"auto\"";
                return Err(error).context(context);
            }
        }
    }
    Ok(AnyDriver::Threads(threads()?.context("cannot start the devices' threads")?))
}
