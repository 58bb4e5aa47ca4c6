//! `thermocline cache`: a flash at rest, while no engine runs on it.

mod volume;

use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;
use thermocline_engine::driver::files::{Caching, DeviceFile, LOCK_PATIENCE};
use thermocline_engine::driver::flash::FlashDevice;
use thermocline_engine::{
    Asked, DrainOptions, DrainProgress, Drained, End, Fingerprint, FlashSet, Found, FoundFlash,
    FoundSet, Frames, Intent, Mark, Notice, Plan, SideFile, SideFileError, Step, Storage as _,
    Uuid,
};
use thermocline_nbd::backing::{Access, NbdBacking, NbdDriver, NbdStorage};
use thermocline_nbd::uri::NbdUri;

use crate::arguments::{CacheCommand, CacheOptions};
use crate::backing::BackingLocation;
use crate::bytes::ByteRange;
use crate::commands::serve::config::{IoEngine, Volumes};
use crate::commands::serve::control::{self, ReplaceOrder};
use crate::commands::serve::devices::{AnyDriver, drive_files, drive_nbd, with_others};
use crate::commands::serve::mirrored::{Pair, Wanted};
use crate::commands::serve::ranges::{RangeOrder, RangeWord};
use crate::note::NotePlace;
use crate::output;

/// Pages of a list that are shown to people; `--json` gives them all.
const SHOWN_PAGES: usize = 20;
/// Threads of a drain, each with memory for its pages, at most.
const DRAIN_WORKERS_MAX: NonZeroUsize = NonZeroUsize::new(4).unwrap();

/// Runs the command.
pub(crate) fn run(options: &CacheOptions) -> Result<String> {
    let state_dir = options.state_dir.as_deref();
    let volume = options.volume.as_deref();
    let at = |path| {
        let mirror = options.mirror.as_deref();
        Place { path, volume, mirror, allows_degraded: options.degraded }
    };
    match &options.command {
        CacheCommand::Inspect { flash, json } => inspect(at(flash), *json),
        CacheCommand::Check { flash, json } => check(at(flash), *json),
        CacheCommand::Drain { flash, backing, note, without_note, despite_changes, keep_clean } => {
            // The notes of several exports would be in one place beside their flash.
            let beside = Some(&**flash).filter(|_| volume.is_none());
            let note = place_of_note(backing, note.as_deref(), beside, state_dir)?;
            let options = DrainOptions {
                without_note: *without_note,
                despite_changes: *despite_changes,
                keep_clean: *keep_clean,
            };
            drain(at(flash), backing, note, options)
        }
        CacheCommand::RemoveVolume { flash, backing, note, yes } => {
            let write_back = backing.as_ref().map(|backing| {
                move || {
                    let note = place_of_note(backing, note.as_deref(), None, state_dir)?;
                    drain(at(flash), backing, note, DrainOptions::default())
                }
            });
            volume::remove(at(flash), write_back, *yes)
        }
        CacheCommand::Replace { config, flash, member, rate, size, force_init, yes } => {
            let order = ReplaceOrder {
                flash: std::path::absolute(flash)?,
                member: member.as_deref().map(std::path::absolute).transpose()?,
                mirror: options.mirror.as_deref().map(std::path::absolute).transpose()?,
                rate_bytes: *rate,
                size_bytes: *size,
                forces_init: *force_init,
                forgets_lost: *yes,
            };
            ensure!(
                rate.is_none() || order.member.is_some() || order.mirror.is_some(),
                "--rate is for a mirrored flash: name a device with --member or --mirror, or leave it out"
            );
            ensure!(volume.is_none(), "volumes share their flash: leave --volume out");
            control::send(Volumes::read(config)?.shared(), control::REPLACE, &order)
        }
        CacheCommand::Evict { config, range } => {
            command_range(config, volume, RangeWord::Evict, *range)
        }
        CacheCommand::Promote { config, range } => {
            command_range(config, volume, RangeWord::Promote, *range)
        }
        CacheCommand::Pin { config, range } => {
            command_range(config, volume, RangeWord::Pin, *range)
        }
        CacheCommand::Unpin { config, range } => {
            command_range(config, volume, RangeWord::Unpin, *range)
        }
        CacheCommand::Forget { flash, backing, note, yes } => {
            let flash = flash.as_deref();
            let beside = flash.filter(|_| volume.is_none());
            let note = backing
                .as_ref()
                .map(|place| place_of_note(place, note.as_deref(), beside, state_dir));
            forget(flash.map(at), backing.as_ref().zip(note.transpose()?), *yes)
        }
    }
}

/// Has a running server carry out an order about a range of one of its volumes.
fn command_range(
    config: &Path,
    volume: Option<&str>,
    word: RangeWord,
    range: ByteRange,
) -> Result<String> {
    let order = RangeOrder { volume: volume.map(str::to_owned), word, range };
    control::send(Volumes::read(config)?.shared(), control::RANGE, &order)
}

/// Identity and contents of a flash.
#[derive(Serialize)]
struct Inspected {
    cache: String,
    shards: usize,
    starts: u64,
    page_bytes: u32,
    backing_bytes: u64,
    slots: u64,
    held_pages: u64,
    dirty_pages: u64,
    damaged_metadata_blocks: u64,
    lifetime_written_bytes: u64,
}

/// A flash, and what was said of it.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a Path,
    /// Name of a volume, if one was given.
    volume: Option<&'a str>,
    /// Second device, if it is mirrored.
    mirror: Option<&'a Path>,
    allows_degraded: bool,
}

fn inspect(place: Place<'_>, as_json: bool) -> Result<String> {
    let (_, flash) = open(place, None)?;
    let contents = flash.contents();
    let superblock = contents.superblock;
    let shards = flash.flashes().len();
    let found = Inspected {
        cache: superblock.owner().to_string(),
        shards,
        starts: superblock.epoch,
        page_bytes: superblock.layout.page_bytes,
        backing_bytes: superblock.backing_bytes,
        slots: u64::from(superblock.layout.slots) * shards as u64,
        held_pages: contents.held_pages,
        dirty_pages: contents.dirty_pages,
        damaged_metadata_blocks: contents.damaged_blocks,
        lifetime_written_bytes: flash.written_bytes(),
    };
    if as_json {
        return output::json(&found);
    }
    let rows: Vec<Vec<String>> = [
        ("cache", found.cache),
        ("shards", found.shards.to_string()),
        ("starts", found.starts.to_string()),
        ("bytes per page", found.page_bytes.to_string()),
        ("bytes of the backing store", found.backing_bytes.to_string()),
        ("slots", found.slots.to_string()),
        ("pages held", found.held_pages.to_string()),
        ("pages that the backing store lacks", found.dirty_pages.to_string()),
        ("damaged blocks of metadata", found.damaged_metadata_blocks.to_string()),
        ("bytes written to it before the last start", found.lifetime_written_bytes.to_string()),
    ]
    .map(|(name, value)| vec![name.to_owned(), value])
    .to_vec();
    Ok(output::table(&["", ""], &rows, 1))
}

/// Findings of a check.
#[derive(Serialize)]
struct Checked {
    intact_pages: u64,
    /// Their other copies are intact.
    damaged_metadata_blocks: u64,
    damaged_clean_pages: Vec<u64>,
    lost_pages: Vec<u64>,
}

fn check(place: Place<'_>, as_json: bool) -> Result<String> {
    let (mut file, flash) = open(place, None)?;
    let found = flash.check(&mut file);
    let found = Checked {
        intact_pages: found.intact_pages,
        damaged_metadata_blocks: flash.contents().damaged_blocks,
        damaged_clean_pages: found.damaged_clean_pages,
        lost_pages: found.lost_pages,
    };
    if as_json {
        return output::json(&found);
    }
    let text = format!(
        "{} pages are intact\n{} damaged blocks of metadata: the next start repairs them from their copies\n{} damaged pages that the backing store has too{}\n{} damaged pages that it lacks: they are lost{}\n",
        found.intact_pages,
        found.damaged_metadata_blocks,
        found.damaged_clean_pages.len(),
        listed(&found.damaged_clean_pages),
        found.lost_pages.len(),
        listed(&found.lost_pages)
    );
    ensure!(
        found.damaged_clean_pages.is_empty()
            && found.lost_pages.is_empty()
            && found.damaged_metadata_blocks == 0,
        "{text}`{}` is damaged",
        place.path.display()
    );
    Ok(text)
}

fn drain(
    at: Place<'_>,
    backing: &BackingLocation,
    mut note: NotePlace,
    options: DrainOptions,
) -> Result<String> {
    let (file, flash) = open(at, Some(&mut note))?;
    let (path, place) = (at.path, &note);
    let page_bytes = flash.superblock().layout.page_bytes;
    let disk = Disk::open(backing).with_context(|| format!("`{backing}`"))?;
    let mut draining = Draining { path, backing, place, page_bytes, file, flash, disk };
    let plan = draining.plan(options)?;
    let mut said = String::new();
    if let Some(Notice::ClearsClean(_)) = plan.notice {
        said += "clean pages on flash may be older than the backing store: they are dropped\n";
    }
    let (mut drained, mut fingerprint, mut end) = (Drained::default(), None, None);
    for step in &plan.steps {
        match *step {
            Step::WriteNote(note) => place.store(note)?,
            Step::WriteBack(begin) => {
                draining.flash.adapt(&begin);
                drained = draining.write_back()?;
            }
            // Pages that stay on flash are old once the backing store was used alone. The note still says
            // dirty: if this stops half way, the flash is wanted, and drained again.
            Step::Clear if drained.lost_pages.is_empty() => {
                let Draining { flash, file, .. } = &mut draining;
                flash.clear(file).with_context(|| in_flash(path))?;
            }
            Step::Clear => {}
            Step::TakeFingerprint => fingerprint = draining.fingerprint()?,
            Step::EndFlash => end = Some(draining.end(fingerprint)?),
            Step::EndNote => {
                let superblock = draining.flash.superblock();
                let (cache, epoch) = (superblock.owner(), superblock.epoch);
                let has_dirty = !drained.lost_pages.is_empty();
                place.store(SideFile::running(cache, epoch).ended(epoch, has_dirty, end))?;
            }
            Step::SetUpFlash(_)
            | Step::SyncFlash
            | Step::BeginEpoch(_)
            | Step::SyncBacking
            | Step::ServeReads
            | Step::Serve
            | Step::Seal => bail!("{step:?} is no step of a drain"),
        }
    }
    said += &format!("{} pages were written to `{backing}`\n", drained.written_pages);
    ensure!(
        drained.lost_pages.is_empty(),
        "{said}{} pages are lost: their only bytes are damaged{}; `thermocline cache forget` gives them up",
        drained.lost_pages.len(),
        listed(&drained.lost_pages)
    );
    Ok(said)
}

/// A flash and the backing store that it is drained to.
struct Draining<'a> {
    path: &'a Path,
    backing: &'a BackingLocation,
    place: &'a NotePlace,
    page_bytes: u32,
    file: FlashDevice,
    flash: FlashSet,
    disk: Disk,
}

impl Draining<'_> {
    /// Return the steps to take, or the reason why they must not be taken.
    fn plan(&mut self, options: DrainOptions) -> Result<Plan> {
        let size_bytes = self.disk.size_bytes();
        let size_bytes = size_bytes.with_context(|| format!("`{}`", self.backing))?;
        let found = Found {
            note: self.place.load()?,
            flash: FoundFlash::Cache(self.flash.contents()),
            backing_bytes: size_bytes / u64::from(self.page_bytes) * u64::from(self.page_bytes),
            backing: None,
            new_cache: Uuid::nil(),
        };
        let mut found = FoundSet { found, regions: self.flash.each_contents() };
        if let Some((cache, size_bytes)) = found.sample() {
            found.found.backing = Some(self.take(cache, size_bytes)?);
        }
        let plan = found.plan(Intent::Drain(options));
        plan.map_err(|error| {
            let mut pages = vec![];
            if let SideFileError::ShrunkBacking { given_bytes, .. } = error {
                let first = given_bytes / u64::from(self.page_bytes);
                pages = self.flash.dirty_pages();
                pages.retain(|page| *page >= first);
            }
            let note = self.place.path().display();
            let error = anyhow::Error::new(error);
            if pages.is_empty() {
                error.context(format!("`{note}` is the note of the backing store"))
            } else {
                let count = pages.len();
                error.context(format!(
                    "{count} newer pages lie beyond the end of `{}`{}",
                    self.backing,
                    listed(&pages)
                ))
            }
        })
    }

    /// Writes the dirty pages to the backing store, and shows on a terminal how far it is.
    fn write_back(&mut self) -> Result<Drained> {
        let Self { flash, file, disk, .. } = self;
        let driven = file.try_clone()?;
        let backing_bytes = disk.size_bytes()?;
        let dirty_pages = usize::try_from(flash.contents().dirty_pages)?;
        let bar = output::progress(dirty_pages, "pages")?;
        let workers = disk.drain_workers();
        let open =
            |region: Range<u64>, frames: &Arc<Frames>| disk.drive(frames, &driven.region(region)?);
        let watch = |progress: DrainProgress| bar.set_position(progress.done_pages);
        let drained = flash.drain(file, backing_bytes, workers, open, watch);
        bar.finish_and_clear();
        drained.with_context(|| in_flash(self.path))
    }

    /// Return the fingerprint of the backing store that the next start compares, if pages stay on
    /// flash.
    fn fingerprint(&mut self) -> Result<Option<Fingerprint>> {
        let contents = self.flash.contents();
        if contents.held_pages == 0 {
            return Ok(None);
        }
        let superblock = contents.superblock;
        self.take(superblock.owner(), superblock.backing_bytes).map(Some)
    }

    fn take(&mut self, cache: Uuid, size_bytes: u64) -> Result<Fingerprint> {
        self.disk
            .fingerprint(cache, size_bytes, self.page_bytes)
            .with_context(|| format!("`{}`", self.backing))
    }

    fn end(&mut self, backing: Option<Fingerprint>) -> Result<End> {
        let superblock = self.flash.superblock();
        let start = (superblock.owner(), superblock.epoch);
        let end = End { next_sequence: superblock.first_sequence, backing };
        FlashSet::end(&mut self.file, start, end).with_context(|| in_flash(self.path))?;
        Ok(end)
    }
}

/// Empty a cache. `backing` is the backing store with the place of its note.
fn forget(
    flash: Option<Place<'_>>,
    mut backing: Option<(&BackingLocation, NotePlace)>,
    is_sure: bool,
) -> Result<String> {
    let note = backing.as_ref().map(|(_, note)| note.load()).transpose()?.flatten();
    let mut said = String::new();
    if let Some(at) = flash {
        let place = backing.as_mut().map(|(_, place)| place);
        let (mut file, mut flash) = open(at, place)?;
        let path = at.path;
        if let Some((_, place)) = &backing {
            check_note(place.path(), note, &flash)?;
        }
        let dirty_pages = flash.contents().dirty_pages;
        ensure!(
            dirty_pages == 0 || is_sure,
            "`{}` holds {dirty_pages} pages that the backing store lacks: drain it, or give them up with --yes",
            path.display()
        );
        flash.forget(&mut file).with_context(|| in_flash(path))?;
        said += &format!("`{}` holds nothing any more\n", path.display());
    }
    if let Some((backing, place)) = backing {
        let has_dirty = flash.is_none() && note.is_some_and(|note| note.has_dirty);
        ensure!(
            !has_dirty || is_sure,
            "a cache has newer bytes of `{backing}`: serve it with its flash, or give them up with --yes"
        );
        // Locked, so that no engine has it, or learns of this too late.
        if let BackingLocation::File(path) = backing {
            lock(path).with_context(|| in_flash(path))?;
        }
        if let Some(note) = note {
            place.store(note.without_flash())?;
        }
        said += &format!("`{backing}` can be served without a flash\n");
    }
    Ok(said)
}

/// Return the location of a backing store's note.
fn place_of_note(
    backing: &BackingLocation,
    said: Option<&Path>,
    flash: Option<&Path>,
    state_dir: Option<&Path>,
) -> Result<NotePlace> {
    ensure!(
        said.is_none() || matches!(backing, BackingLocation::Nbd(_)),
        "--note is for NBD exports: the note of a file or block device has its place"
    );
    backing.note(said, flash, state_dir)?.context("say with --note where the note of the export is")
}

/// A backing store that pages are drained to. A file is locked as long as it is open; an export is
/// connected to for each use, as its server may take one client at a time.
enum Disk {
    File(DeviceFile),
    Nbd(NbdUri),
}

impl Disk {
    fn open(place: &BackingLocation) -> Result<Self> {
        Ok(match place {
            BackingLocation::File(path) => Self::File(lock(path)?),
            BackingLocation::Nbd(uri) => Self::Nbd(uri.clone()),
        })
    }

    fn size_bytes(&mut self) -> Result<u64> {
        Ok(match self {
            Self::File(file) => file.size_bytes()?,
            Self::Nbd(uri) => connect(uri)?.size_bytes(),
        })
    }

    fn fingerprint(
        &mut self,
        cache: Uuid,
        size_bytes: u64,
        page_bytes: u32,
    ) -> Result<Fingerprint> {
        Ok(match self {
            Self::File(file) => {
                let mark = Mark::of(&file.file().metadata()?);
                Fingerprint::take(file, cache, size_bytes, mark)?
            }
            Self::Nbd(uri) => {
                let mut storage = NbdStorage::new(connect(uri)?, page_bytes as usize)?;
                Fingerprint::take(&mut storage, cache, size_bytes, Mark::None)?
            }
        })
    }

    /// Return the number of threads that drain to this.
    fn drain_workers(&self) -> NonZeroUsize {
        match self {
            Self::File(_) => thread::available_parallelism()
                .map_or(NonZeroUsize::MIN, |processors| processors.min(DRAIN_WORKERS_MAX)),
            Self::Nbd(_) => NonZeroUsize::MIN,
        }
    }

    /// Return a driver of this and of a flash.
    fn drive(&self, frames: &Arc<Frames>, flash: &FlashDevice) -> Result<AnyDriver> {
        let first = flash.first()?;
        let driver = match self {
            Self::File(disk) => drive_files(IoEngine::Auto, frames, first.as_ref(), disk)?,
            Self::Nbd(uri) => {
                let backing = NbdDriver::new(connect(uri)?, frames)?;
                drive_nbd(IoEngine::Auto, frames, backing, first.as_ref())?
            }
        };
        with_others(IoEngine::Auto, frames, driver, Some(flash), (None, None))
    }
}

fn connect(uri: &NbdUri) -> Result<NbdBacking> {
    Ok(NbdBacking::connect(uri.clone(), Access::ReadWrite)?)
}

/// Check that a flash belongs to the backing store with this note.
fn check_note(path: &Path, note: Option<SideFile>, flash: &FlashSet) -> Result<()> {
    let mut regions = flash.each_contents().into_iter();
    regions
        .try_for_each(|region| SideFile::check(note, Some(&region)))
        .with_context(|| format!("`{}` is the note of the backing store", path.display()))
}

/// Opens and locks a device, and says so if it has to wait.
fn lock(path: &Path) -> io::Result<DeviceFile> {
    DeviceFile::open_within(path, Caching::Direct, Duration::ZERO).or_else(|error| {
        if error.kind() != io::ErrorKind::ResourceBusy {
            return Err(error);
        }
        output::note(&format!(
            "`{}`: {error}; waiting up to {} seconds",
            path.display(),
            LOCK_PATIENCE.as_secs()
        ));
        DeviceFile::open(path, Caching::Direct)
    })
}

/// Opens and locks a flash, and reads it or a volume of it. `note` is that of its backing store, if it may be
/// written.
fn open(at: Place<'_>, note: Option<&mut NotePlace>) -> Result<(FlashDevice, FlashSet)> {
    let context = || in_flash(at.path);
    let file = whole(at, note)?;
    let mut file = volume::part(file, at.volume).with_context(context)?;
    let flash = FlashSet::read(&mut file).with_context(context)?;
    Ok((file, flash))
}

/// Opens and locks a flash of one device or two.
fn whole(at: Place<'_>, note: Option<&mut NotePlace>) -> Result<FlashDevice> {
    let Some(mirror) = at.mirror else {
        return Ok(FlashDevice::One(lock(at.path).with_context(|| in_flash(at.path))?));
    };
    let noted = note.as_ref().map(|note| note.noted()).transpose()?.flatten();
    let asked = Asked { noted, allows_degraded: at.allows_degraded, ..Asked::default() };
    let wanted = Wanted { paths: [at.path, mirror], caching: Caching::Direct, asked };
    let never_new = || bail!("there is no such device");
    let mut pair = Pair::open(&wanted, &[], &never_new)?;
    if let Some(note) = note {
        pair.notes.add(note);
        pair.prepare()?;
    }
    Ok(pair.device)
}

fn in_flash(path: &Path) -> String {
    format!("`{}`", path.display())
}

/// Return the first pages of a list, in brackets.
fn listed(pages: &[u64]) -> String {
    if pages.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = pages.iter().take(SHOWN_PAGES).map(ToString::to_string).collect();
    let more = if pages.len() > SHOWN_PAGES { ", ..." } else { "" };
    format!(" (pages {}{more})", shown.join(", "))
}
