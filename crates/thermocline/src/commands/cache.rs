//! `thermocline cache`: a flash at rest, while no engine runs on it.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use thermocline_engine::driver::files::{Caching, DeviceFile};
use thermocline_engine::{Flash, SideFile, Storage};
use thermocline_nbd::backing::{Access, NbdBacking, NbdStorage};

use crate::arguments::{CacheCommand, CacheOptions};
use crate::backing::Place;
use crate::note::NotePlace;
use crate::output;

/// Pages of a list that are shown to people; `--json` gives them all.
const SHOWN_PAGES: usize = 20;

/// Runs the command.
pub(crate) fn run(options: &CacheOptions) -> Result<String> {
    let state_dir = options.state_dir.as_deref();
    match &options.command {
        CacheCommand::Inspect { flash, json } => inspect(flash, *json),
        CacheCommand::Check { flash, json } => check(flash, *json),
        CacheCommand::Drain { flash, backing, note, without_note, keep_clean } => {
            let note = place_of_note(backing, note.as_deref(), Some(flash), state_dir)?;
            drain(
                flash,
                backing,
                &note,
                &DrainOptions { without_note: *without_note, keep_clean: *keep_clean },
            )
        }
        CacheCommand::Forget { flash, backing, note, yes } => {
            let flash = flash.as_deref();
            let note = backing
                .as_ref()
                .map(|place| place_of_note(place, note.as_deref(), flash, state_dir));
            forget(flash, backing.as_ref().zip(note.transpose()?.as_ref()), *yes)
        }
    }
}

/// What a flash is and holds.
#[derive(Serialize)]
struct Inspected {
    cache: String,
    starts: u64,
    page_bytes: u32,
    backing_bytes: u64,
    slots: u32,
    held_pages: u64,
    dirty_pages: u64,
    damaged_metadata_blocks: u64,
    lifetime_written_bytes: u64,
}

fn inspect(path: &Path, as_json: bool) -> Result<String> {
    let (_, flash) = open(path)?;
    let contents = flash.contents();
    let superblock = contents.superblock;
    let found = Inspected {
        cache: superblock.cache.to_string(),
        starts: superblock.epoch,
        page_bytes: superblock.layout.page_bytes,
        backing_bytes: superblock.backing_bytes,
        slots: superblock.layout.slots,
        held_pages: contents.held_pages,
        dirty_pages: contents.dirty_pages,
        damaged_metadata_blocks: contents.damaged_blocks,
        lifetime_written_bytes: superblock.written_bytes,
    };
    if as_json {
        return output::json(&found);
    }
    let rows: Vec<Vec<String>> = [
        ("cache", found.cache),
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

/// What a check found.
#[derive(Serialize)]
struct Checked {
    intact_pages: u64,
    /// Their other copies are intact.
    damaged_metadata_blocks: u64,
    damaged_clean_pages: Vec<u32>,
    lost_pages: Vec<u32>,
}

fn check(path: &Path, as_json: bool) -> Result<String> {
    let (mut file, flash) = open(path)?;
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
        path.display()
    );
    Ok(text)
}

/// How a flash is drained.
struct DrainOptions {
    without_note: bool,
    keep_clean: bool,
}

fn drain(path: &Path, backing: &Place, note: &NotePlace, options: &DrainOptions) -> Result<String> {
    let (mut file, mut flash) = open(path)?;
    let superblock = *flash.superblock();
    let in_backing = || format!("`{backing}`");
    let mut store = storage(backing, superblock.layout.page_bytes).with_context(in_backing)?;
    let found = note.load()?;
    if found.is_some() || !options.without_note {
        check_note(note.path(), found, &flash)?;
    }
    let found_bytes = store.size_bytes().with_context(in_backing)?;
    ensure!(
        found_bytes / u64::from(superblock.layout.page_bytes)
            == superblock.backing_bytes / u64::from(superblock.layout.page_bytes),
        "`{}` caches a backing store of {} bytes, `{backing}` has {found_bytes}",
        path.display(),
        superblock.backing_bytes,
    );
    let drained = flash.drain(&mut file, &mut *store).with_context(|| in_flash(path))?;
    let has_dirty = !drained.lost_pages.is_empty();
    // What stays on flash is old once the backing store was used alone. The note still says dirty: if
    // this stops half way, the flash is wanted, and drained again.
    if !has_dirty && !options.keep_clean {
        flash.forget(&mut file).with_context(|| in_flash(path))?;
    }
    // Draining begins an epoch.
    let epoch = flash.superblock().epoch;
    note.store(SideFile { cache: superblock.cache, epoch, has_dirty })?;
    let written = format!("{} pages were written to `{backing}`\n", drained.written_pages);
    ensure!(
        !has_dirty,
        "{written}{} pages are lost: their only bytes are damaged{}; `thermocline cache forget` gives them up",
        drained.lost_pages.len(),
        listed(&drained.lost_pages)
    );
    Ok(written)
}

/// `backing` is a backing store with the place of its note.
fn forget(
    flash: Option<&Path>,
    backing: Option<(&Place, &NotePlace)>,
    is_sure: bool,
) -> Result<String> {
    let note = backing.map(|(_, note)| note.load()).transpose()?.flatten();
    let mut said = String::new();
    if let Some(path) = flash {
        let (mut file, mut flash) = open(path)?;
        if let Some((_, place)) = backing {
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
        if let Place::File(path) = backing {
            DeviceFile::open(path, Caching::Direct).with_context(|| in_flash(path))?;
        }
        if let Some(note) = note {
            place.store(note.without_flash())?;
        }
        said += &format!("`{backing}` can be served without a flash\n");
    }
    Ok(said)
}

/// Where the note of a backing store is.
fn place_of_note(
    backing: &Place,
    said: Option<&Path>,
    flash: Option<&Path>,
    state_dir: Option<&Path>,
) -> Result<NotePlace> {
    ensure!(
        said.is_none() || matches!(backing, Place::Nbd(_)),
        "--note is for NBD exports: the note of a file or block device has its place"
    );
    backing.note(said, flash, state_dir)?.context("say with --note where the note of the export is")
}

/// A backing store to be read and written one call at a time.
fn storage(place: &Place, page_bytes: u32) -> Result<Box<dyn Storage>> {
    Ok(match place {
        Place::File(path) => Box::new(DeviceFile::open(path, Caching::Direct)?),
        Place::Nbd(uri) => {
            let backing = NbdBacking::connect(uri.clone(), Access::ReadWrite)?;
            Box::new(NbdStorage::new(backing, page_bytes as usize)?)
        }
    })
}

/// Whether a flash belongs to the backing store with this note.
fn check_note(path: &Path, note: Option<SideFile>, flash: &Flash) -> Result<()> {
    SideFile::check(note, Some(&flash.contents()))
        .with_context(|| format!("`{}` is the note of the backing store", path.display()))
}

fn open(path: &Path) -> Result<(DeviceFile, Flash)> {
    let context = || in_flash(path);
    let mut file = DeviceFile::open(path, Caching::Direct).with_context(context)?;
    let flash = Flash::read(&mut file).with_context(context)?;
    Ok((file, flash))
}

fn in_flash(path: &Path) -> String {
    format!("`{}`", path.display())
}

/// The first pages of a list, in brackets.
fn listed(pages: &[u32]) -> String {
    if pages.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = pages.iter().take(SHOWN_PAGES).map(ToString::to_string).collect();
    let more = if pages.len() > SHOWN_PAGES { ", ..." } else { "" };
    format!(" (pages {}{more})", shown.join(", "))
}
