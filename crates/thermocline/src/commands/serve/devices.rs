//! The devices of an engine: locked, set up, and driven.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use thermocline_core::Nanos;
use thermocline_core::policy::multi::split::{Answer, Hint};
use thermocline_engine::driver::files::{Caching, DeviceFile, LOCK_PATIENCE};
use thermocline_engine::driver::flash::FlashDevice;
use thermocline_engine::driver::identity::have_same_bytes;
use thermocline_engine::driver::joint::{JointDriver, JointMember};
use thermocline_engine::driver::mirror::MirrorDriver;
use thermocline_engine::driver::split::SplitDriver;
use thermocline_engine::driver::threads::ThreadDriver;
use thermocline_engine::driver::uring::UringDriver;
use thermocline_engine::driver::{Allocation, Completion, Driver, Recall, Sent};
use thermocline_engine::{
    FlashError, FlashSet, Frames, Lane, Lanes as _, Layout, Operation, Options, Storage, Uuid,
};
use thermocline_nbd::backing::NbdDriver;
use tracing::{info, warn};

use super::config::{Config, IoEngine};
use super::shared_flash::LaneSyncs;

/// Threads that drive devices where `io_uring` does not.
const THREADS: usize = 32;

/// Time after which the log reports that the server waits for a device in use.
const QUIET_PATIENCE: Duration = Duration::from_secs(1);

/// Whatever drives the devices.
#[derive(Debug)]
pub(crate) enum AnyDriver {
    Uring(Box<UringDriver>),
    Threads(ThreadDriver),
    Nbd(Box<NbdDriver>),
    Split(Box<SplitDriver<Self, NbdDriver>>),
    /// One of several shards on the same devices.
    Joint(Box<JointDriver<Self>>),
    /// A flash of two devices.
    Mirror(Box<MirrorDriver<Self>>),
}

impl AnyDriver {
    /// Drives another flash from now on, whose syncs others share. No operation on the old one is in flight.
    pub(crate) fn set_flash(
        &mut self,
        flash: DeviceFile,
        syncs: Option<JointMember>,
    ) -> Result<()> {
        match self {
            Self::Uring(driver) => driver.set_flash(flash),
            Self::Threads(driver) => driver.set_flash(flash),
            Self::Nbd(_) => bail!("the server was started without a flash"),
            Self::Split(driver) => return driver.flash_mut().set_flash(flash, syncs),
            Self::Joint(driver) => {
                driver.set_flash_syncs(syncs.context("the syncs of a shared flash are joined")?)?;
                return driver.inner_mut().set_flash(flash, None);
            }
            Self::Mirror(_) => bail!("the devices of a mirrored flash join it"),
        }
        Ok(())
    }

    /// Drive a mirrored flash from now on. No operation on the old flash is in flight, and that many on the backing
    /// store.
    pub(crate) fn set_pair(
        &mut self,
        (engine, frames): (IoEngine, &Arc<Frames>),
        flash: &FlashDevice,
        syncs: Option<&LaneSyncs>,
        in_flight: usize,
    ) -> Result<()> {
        let first = flash.first()?.context("the first device failed")?;
        // It holds the place of this driver until all is there that can fail.
        let place = drive_flash(engine, frames, &first)?;
        let mut pair = with_others(engine, frames, place, Some(flash), (syncs, None))?;
        let Self::Mirror(mirror) = &mut pair else { bail!("it is mirrored") };
        self.set_flash(first, syncs.map(|syncs| syncs.join(Lane::FIRST)).transpose()?)?;
        mirror.swap_main(self, in_flight)?;
        *self = pair;
        Ok(())
    }

    /// Return `true` if the backing store takes writes.
    pub(crate) fn may_write(&self) -> bool {
        match self {
            Self::Uring(_) | Self::Threads(_) => true,
            Self::Joint(driver) => driver.inner().may_write(),
            Self::Mirror(driver) => driver.main().may_write(),
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
            Self::Mirror(driver) => driver.start(operation),
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        match self {
            Self::Uring(driver) => driver.poll(done),
            Self::Threads(driver) => driver.poll(done),
            Self::Nbd(driver) => driver.poll(done),
            Self::Split(driver) => driver.poll(done),
            Self::Joint(driver) => driver.poll(done),
            Self::Mirror(driver) => driver.poll(done),
        }
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        match self {
            Self::Uring(driver) => driver.wait(done),
            Self::Threads(driver) => driver.wait(done),
            Self::Nbd(driver) => driver.wait(done),
            Self::Split(driver) => driver.wait(done),
            Self::Joint(driver) => driver.wait(done),
            Self::Mirror(driver) => driver.wait(done),
        }
    }

    fn ask_allocation(&mut self, tag: u64, range: Range<u64>) -> bool {
        match self {
            Self::Uring(driver) => driver.ask_allocation(tag, range),
            Self::Threads(driver) => driver.ask_allocation(tag, range),
            Self::Nbd(driver) => driver.ask_allocation(tag, range),
            Self::Split(driver) => driver.ask_allocation(tag, range),
            Self::Joint(driver) => driver.ask_allocation(tag, range),
            Self::Mirror(driver) => driver.ask_allocation(tag, range),
        }
    }

    fn leave(&mut self, offset_bytes: u64, content: Option<&[u8]>) {
        match self {
            Self::Nbd(driver) => driver.leave(offset_bytes, content),
            Self::Uring(_)
            | Self::Threads(_)
            | Self::Split(_)
            | Self::Joint(_)
            | Self::Mirror(_) => {}
        }
    }

    fn tell(&mut self, hint: Hint) {
        match self {
            Self::Nbd(driver) => driver.tell(hint),
            Self::Uring(_)
            | Self::Threads(_)
            | Self::Split(_)
            | Self::Joint(_)
            | Self::Mirror(_) => {}
        }
    }

    fn tell_with_leaving(&mut self, hint: Hint) {
        match self {
            Self::Nbd(driver) => driver.tell_with_leaving(hint),
            Self::Uring(_)
            | Self::Threads(_)
            | Self::Split(_)
            | Self::Joint(_)
            | Self::Mirror(_) => {}
        }
    }

    fn next_push(&mut self) -> Option<Sent> {
        match self {
            Self::Nbd(driver) => driver.next_push(),
            Self::Uring(_)
            | Self::Threads(_)
            | Self::Split(_)
            | Self::Joint(_)
            | Self::Mirror(_) => None,
        }
    }

    fn next_answer(&mut self) -> Option<(u64, Answer)> {
        match self {
            Self::Nbd(driver) => driver.next_answer(),
            Self::Uring(_)
            | Self::Threads(_)
            | Self::Split(_)
            | Self::Joint(_)
            | Self::Mirror(_) => None,
        }
    }

    fn next_recall(&mut self) -> Option<Recall> {
        match self {
            Self::Nbd(driver) => driver.next_recall(),
            Self::Uring(_)
            | Self::Threads(_)
            | Self::Split(_)
            | Self::Joint(_)
            | Self::Mirror(_) => None,
        }
    }

    fn is_current(&mut self) -> bool {
        match self {
            Self::Nbd(driver) => driver.is_current(),
            Self::Uring(_)
            | Self::Threads(_)
            | Self::Split(_)
            | Self::Joint(_)
            | Self::Mirror(_) => true,
        }
    }

    fn next_allocation(&mut self) -> Option<(u64, Vec<Allocation>)> {
        match self {
            Self::Uring(driver) => driver.next_allocation(),
            Self::Threads(driver) => driver.next_allocation(),
            Self::Nbd(driver) => driver.next_allocation(),
            Self::Split(driver) => driver.next_allocation(),
            Self::Joint(driver) => driver.next_allocation(),
            Self::Mirror(driver) => driver.next_allocation(),
        }
    }

    fn close_flash(&mut self) {
        match self {
            Self::Uring(driver) => driver.close_flash(),
            Self::Threads(driver) => driver.close_flash(),
            Self::Split(driver) => driver.close_flash(),
            Self::Joint(driver) => driver.close_flash(),
            Self::Nbd(_) | Self::Mirror(_) => {}
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Uring(driver) => driver.wake_fd(),
            Self::Threads(driver) => driver.wake_fd(),
            Self::Nbd(driver) => driver.wake_fd(),
            Self::Split(driver) => driver.wake_fd(),
            Self::Joint(driver) => driver.wake_fd(),
            Self::Mirror(driver) => driver.wake_fd(),
        }
    }
}

/// Opens and locks a device, and says so if that takes long.
pub(super) fn lock(
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

/// Check that a configuration names no device twice.
///
/// # Errors
/// Two keys that lead to one file or device.
pub(super) fn check_distinct(config: &Config) -> Result<()> {
    let flash = config.flash.as_ref();
    let given = [
        ("backing.path", config.backing.path.as_deref()),
        ("flash.path", flash.map(|flash| &*flash.path)),
        ("flash.mirror", flash.and_then(|flash| flash.mirror.as_deref())),
    ];
    let given = given.into_iter().filter_map(|(key, path)| Some((key, path?)));
    let given: Vec<(&str, &Path)> = given.collect();
    for (place, &(key, path)) in given.iter().enumerate() {
        let is_it = |other: &Path| path == other || have_same_bytes(path, other);
        if let Some((other_key, _)) = given[..place].iter().find(|(_, other)| is_it(other)) {
            bail!(
                "`{other_key}` and `{key}`: `{}` was given twice: name another device",
                path.display()
            );
        }
    }
    Ok(())
}

/// Return how a configuration wants devices to be read and written.
pub(super) const fn caching(config: &Config) -> Caching {
    if config.io.direct { Caching::Direct } else { Caching::Buffered }
}

/// Opens and locks the flash; a file is made if there is none, and `may_be_new` agrees.
pub(super) fn lock_flash<'a>(
    path: &Path,
    caching: Caching,
    backings: impl IntoIterator<Item = &'a DeviceFile>,
    may_be_new: impl FnOnce() -> Result<()>,
) -> Result<DeviceFile> {
    for backing in backings {
        ensure!(!backing.is_at(path)?, "it is the backing store too: it was given twice");
    }
    if path.exists() {
        return Ok(lock(path, DeviceFile::open_within, caching)?);
    }
    // A file that is made below /dev is gone after a restart of the machine.
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
    config.check_numbers(pages)?;
    let rest = backing_bytes % page_bytes;
    if rest > 0 {
        warn!(
            bytes = rest,
            "the backing store ends within a page; the last bytes are not exported"
        );
    }
    let flash = config.flash.as_ref();
    let [ram_pages, flash_pages] = config.tier_pages()?;
    let mut options = Options::new(pages, ram_pages, flash_pages, config.policy_options()?);
    options.pinned_pages = config.pinned_pages()?;
    options.page_bytes = u32::try_from(page_bytes).expect("pages were checked");
    options.spare_ram_pages = config.ram.spare_pages;
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
    options.leaving = config.leaving()?;
    options.sequential_bypass_bytes = config.sequential_bypass_bytes();
    Ok(options)
}

/// Sets up a flash that holds nothing anybody wants, by the options of any of its shards, which are alike:
/// [`Step::SetUpFlash`](thermocline_engine::Step::SetUpFlash).
pub(super) fn initialise(
    storage: &mut dyn Storage,
    cache: Uuid,
    options: &Options,
) -> Result<FlashSet, FlashError> {
    let layout = Layout::new(options.slots(), options.page_bytes);
    let map = options.share.map;
    let flash = FlashSet::initialise(storage, cache, layout, map, options.size_bytes())?;
    info!(bytes = set_bytes(options), "set up the flash");
    Ok(flash)
}

/// Return the bytes that all shards need on the flash, by the options of any of them.
pub(super) fn set_bytes(options: &Options) -> u64 {
    let layout = Layout::new(options.slots(), options.page_bytes);
    FlashSet::bytes(&layout, &options.share.map)
}

/// Create one driver for the flash, if there is one, and a backing store that is a file. It takes the locked
/// files, which stay locked until it ends.
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

/// Create a driver for a device of a mirrored flash alone.
pub(crate) fn drive_flash(
    engine: IoEngine,
    frames: &Arc<Frames>,
    flash: &DeviceFile,
) -> Result<AnyDriver> {
    let file = || Ok(flash.try_clone()?);
    ring_or_threads(
        engine,
        || file().map(|flash| UringDriver::of_flash(frames, flash)),
        || file().map(|flash| ThreadDriver::of_flash(frames, flash, THREADS)),
    )
}

/// Create a driver for the flash, if there is one, beside that of an export.
pub(crate) fn drive_nbd(
    engine: IoEngine,
    frames: &Arc<Frames>,
    backing: NbdDriver,
    flash: Option<&DeviceFile>,
) -> Result<AnyDriver> {
    let Some(flash) = flash else {
        return Ok(AnyDriver::Nbd(Box::new(backing)));
    };
    let flash = drive_flash(engine, frames, flash)?;
    let split = SplitDriver::new(flash, backing).context("cannot wait for two devices")?;
    Ok(AnyDriver::Split(Box::new(split)))
}

/// Join a driver with those of the other devices of a mirrored flash, if it is one, and its syncs with those of
/// others.
pub(crate) fn with_others(
    engine: IoEngine,
    frames: &Arc<Frames>,
    driver: AnyDriver,
    flash: Option<&FlashDevice>,
    (syncs, of_disk): (Option<&LaneSyncs>, Option<JointMember>),
) -> Result<AnyDriver> {
    let of_flash = |lane: Lane| syncs.map(|syncs| syncs.join(lane)).transpose();
    let Some(FlashDevice::Two(pair)) = flash else {
        return joint(driver, of_flash(Lane::FIRST)?, of_disk);
    };
    // The lane of a device that is not used has no syncs to join.
    let is_first_used = pair.mirror().in_use().has(Lane::FIRST);
    let of_first = if is_first_used { of_flash(Lane::FIRST)? } else { None };
    let driver = joint(driver, of_first, of_disk)?;
    let (lanes, syncs, frames) = (pair.lanes().clone(), syncs.cloned(), Arc::clone(frames));
    let open = move |lane: Lane| {
        let file = lanes.open(lane)?;
        let driver = drive_flash(engine, &frames, &file).map_err(io::Error::other)?;
        let syncs = syncs.as_ref().map(|syncs| syncs.join(lane)).transpose()?;
        joint(driver, syncs, None).map_err(io::Error::other)
    };
    let (mirror, start_bytes) = (Arc::clone(pair.mirror()), pair.start_bytes());
    let driver = MirrorDriver::new(driver, Box::new(open), mirror, start_bytes);
    Ok(AnyDriver::Mirror(Box::new(driver.context("cannot use two devices")?)))
}

/// Join the syncs of a driver with those of others, if there are any.
fn joint(
    driver: AnyDriver,
    flash: Option<JointMember>,
    backing: Option<JointMember>,
) -> Result<AnyDriver> {
    if flash.is_none() && backing.is_none() {
        return Ok(driver);
    }
    Ok(AnyDriver::Joint(Box::new(JointDriver::new(driver, flash, backing)?)))
}

/// Create a ring if the configuration asks for one or the system has one, and threads otherwise.
fn ring_or_threads(
    engine: IoEngine,
    uring: impl Fn() -> Result<io::Result<UringDriver>>,
    threads: impl Fn() -> Result<io::Result<ThreadDriver>>,
) -> Result<AnyDriver> {
    if engine != IoEngine::Threads {
        match uring()? {
            Ok(driver) => return Ok(AnyDriver::Uring(Box::new(driver))),
            Err(error) if engine == IoEngine::Auto => {
                info!(%error, "io_uring is not available: using worker threads");
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
