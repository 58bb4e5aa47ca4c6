//! The devices of an engine: opened, set up or recovered, and driven.

use std::fs::OpenOptions;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use thermocline_engine::driver::files::{Caching, DeviceFile};
use thermocline_engine::driver::threads::ThreadDriver;
use thermocline_engine::driver::uring::UringDriver;
use thermocline_engine::driver::{Completion, Driver};
use thermocline_engine::{
    Engine, Flash, FlashError, Frames, Layout, Operation, Options, Shard, SideFile, Uuid,
};
use tracing::{error, info, warn};

use super::config::{Config, IoEngine};

/// Threads that drive devices where `io_uring` does not.
const THREADS: usize = 32;

/// An engine on its devices.
pub(crate) struct Opened {
    pub(crate) engine: Engine<AnyDriver>,
    /// The note beside the backing store, as long as a flash may be newer.
    pub(crate) note: Option<Arc<Note>>,
}

/// The note beside a backing store.
#[derive(Debug)]
pub(crate) struct Note {
    backing: PathBuf,
    side_file: SideFile,
    is_flash_disowned: AtomicBool,
}

impl Note {
    /// Says that the backing store lacks nothing.
    ///
    /// # Errors
    /// If the note cannot be written.
    pub(crate) fn release(&self) -> Result<()> {
        Ok(SideFile { has_dirty: false, ..self.side_file() }.write(&self.backing)?)
    }

    /// Says that the flash, which failed, must not be used again: what is acknowledged from now on
    /// is not there.
    pub(crate) fn disown_flash(&self) {
        self.is_flash_disowned.store(true, Ordering::Release);
        error!("the flash failed: pages are served from RAM and the backing store");
        if let Err(error) = self.side_file().write(&self.backing) {
            error!(%error, "the note beside the backing store cannot be written: do not use the flash again");
        }
    }

    fn side_file(&self) -> SideFile {
        if self.is_flash_disowned.load(Ordering::Acquire) {
            SideFile { has_dirty: true, ..self.side_file.without_flash() }
        } else {
            self.side_file
        }
    }
}

/// Whatever drives the devices.
#[derive(Debug)]
pub(crate) enum AnyDriver {
    Uring(Box<UringDriver>),
    Threads(ThreadDriver),
}

impl Driver for AnyDriver {
    fn start(&mut self, operation: Operation) {
        match self {
            Self::Uring(driver) => driver.start(operation),
            Self::Threads(driver) => driver.start(operation),
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        match self {
            Self::Uring(driver) => driver.poll(done),
            Self::Threads(driver) => driver.poll(done),
        }
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        match self {
            Self::Uring(driver) => driver.wait(done),
            Self::Threads(driver) => driver.wait(done),
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Uring(driver) => driver.wake_fd(),
            Self::Threads(driver) => driver.wake_fd(),
        }
    }
}

/// Opens the devices of a configuration, and recovers what the flash holds.
///
/// # Errors
/// What cannot be opened, or must not be used, and what to do about it.
pub(crate) fn open(config: &Config, force_init: bool) -> Result<Opened> {
    let caching = if config.io.direct { Caching::Direct } else { Caching::Buffered };
    let path = &config.backing.path;
    let open_backing = || {
        DeviceFile::open(path, caching)
            .with_context(|| format!("`backing.path`: cannot open `{}`", path.display()))
    };
    let in_backing = || format!("`backing.path`: `{}`", path.display());
    let options = options(config, open_backing()?.size_bytes()?)?;
    let flash_path = config.flash.as_ref().map(|flash| flash.path.as_path());
    let in_flash = || format!("`flash.path`: `{}`", flash_path.unwrap_or(Path::new("")).display());
    let known = SideFile::read(path)?;
    let (shard, note) = match flash_path {
        Some(flash_path) => {
            let flash = open_flash(flash_path, caching, &options, known, force_init)
                .with_context(in_flash)?;
            let superblock = flash.contents().superblock;
            let (cache, epoch) = (superblock.cache, superblock.epoch);
            let shard = Shard::open(options, &flash).with_context(in_flash)?;
            // From now on the flash may have what the backing store lacks.
            let side_file = SideFile { cache, epoch, has_dirty: true };
            side_file.write(path)?;
            let is_flash_disowned = AtomicBool::new(false);
            let note = Note { backing: path.clone(), side_file, is_flash_disowned };
            (shard, Some(Arc::new(note)))
        }
        None => {
            SideFile::check(known, None).with_context(in_backing)?;
            let shard = Shard::new(options)?;
            if let Some(known) = known {
                known.without_flash().write(path)?;
            }
            (shard, None)
        }
    };
    let dirty_pages = shard.dirty_slots();
    if dirty_pages > 0 {
        info!(dirty_pages, "the flash holds pages that are newer than the disk's");
    }
    let files = || {
        let flash = flash_path.map(|path| DeviceFile::open(path, caching).with_context(in_flash));
        Ok((flash.transpose()?, open_backing()?))
    };
    let driver = driver(config.io.engine, shard.frames(), files)?;
    Ok(Opened { engine: Engine::new(shard, driver), note })
}

fn options(config: &Config, backing_bytes: u64) -> Result<Options> {
    let page_bytes = config.page_size.0;
    let pages = u32::try_from(backing_bytes / page_bytes).context(
        "`backing`: it has more pages than the engine can number; use a larger `page_size`",
    )?;
    ensure!(pages > 0, "`backing`: it has {backing_bytes} bytes, not even a page");
    let rest = backing_bytes % page_bytes;
    if rest > 0 {
        warn!(bytes = rest, "the end of the backing store is no whole page, and is not exported");
    }
    let ram_pages = config.pages("ram.size", config.ram.size)?;
    let flash = config.flash.as_ref();
    let flash_pages = flash.map(|flash| config.pages("flash.size", flash.size)).transpose()?;
    let mut options =
        Options::new(pages, ram_pages, flash_pages.unwrap_or(0), config.policy_options()?);
    options.page_bytes = u32::try_from(page_bytes).expect("pages were checked");
    options.write_mode = config.write_mode.into_engine();
    options.cleaning = config.cleaning();
    options.flash_write_budget_gib_per_day = flash.and_then(|flash| flash.write_budget_gib_per_day);
    if let Some(bytes) = config.limits.undurable {
        options.undurable_pages_max =
            u32::try_from(bytes.0 / page_bytes).unwrap_or(u32::MAX).max(1);
    }
    options.sequential_bypass_bytes = config.limits.sequential_bypass.map(|bytes| bytes.0);
    Ok(options)
}

/// The flash of a cache: recovered, or set up if there is none yet.
fn open_flash(
    path: &Path,
    caching: Caching,
    options: &Options,
    known: Option<SideFile>,
    force_init: bool,
) -> Result<Flash> {
    let layout = Layout::new(options.slots(), options.page_bytes);
    let is_new = !path.exists();
    if is_new {
        if !force_init {
            SideFile::check(known, None)?;
        }
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.set_len(layout.flash_bytes())?;
    }
    let mut file = DeviceFile::open(path, caching)?;
    if file.size_bytes()? == 0 {
        file.file().set_len(layout.flash_bytes())?;
    }
    let initialise = |file: &mut DeviceFile| {
        let flash = Flash::initialise(file, Uuid::new_v4(), layout, options.size_bytes())?;
        info!(bytes = layout.flash_bytes(), "the flash is set up");
        Ok(flash)
    };
    let flash = if force_init {
        initialise(&mut file)
    } else {
        // Nothing is changed before it is known that this flash and this backing store belong together.
        match Flash::read(&mut file) {
            Err(FlashError::Empty) => {
                SideFile::check(known, None)?;
                initialise(&mut file)
            }
            Ok(found) => {
                SideFile::check(known, Some(&found.contents()))?;
                Shard::check_open(options, &found)?;
                Flash::recover(&mut file)
            }
            Err(error) => Err(error),
        }
    };
    flash.map_err(|error| {
        let can_force =
            matches!(error, FlashError::Foreign | FlashError::Damaged | FlashError::Format { .. });
        let error = anyhow::Error::new(error);
        if can_force {
            error.context("nothing was changed; --force-init gives up what it holds")
        } else {
            error
        }
    })
}

fn driver(
    engine: IoEngine,
    frames: &Arc<Frames>,
    files: impl Fn() -> Result<(Option<DeviceFile>, DeviceFile)>,
) -> Result<AnyDriver> {
    if engine != IoEngine::Threads {
        let (flash, backing) = files()?;
        match UringDriver::new(frames, flash, backing) {
            Ok(driver) => return Ok(AnyDriver::Uring(Box::new(driver))),
            Err(error) if engine == IoEngine::Auto => {
                info!(%error, "there is no io_uring: threads do its work");
            }
            Err(error) => {
                let context =
                    "`io.engine`: the kernel gives no io_uring; use \"threads\" or \"auto\"";
                return Err(error).context(context);
            }
        }
    }
    let (flash, backing) = files()?;
    let driver = ThreadDriver::new(frames, flash, backing, THREADS);
    Ok(AnyDriver::Threads(driver.context("cannot start the devices' threads")?))
}
