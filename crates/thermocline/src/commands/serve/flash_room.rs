//! Room on the flash: for a flash that is set up or found at a start, and for one that grows.

use std::ops::Range;

use anyhow::{Context as _, Result, bail, ensure};
use thermocline_engine::driver::flash::FlashDevice;
use thermocline_engine::{
    Directory, Extension, Flash, FlashError, FlashSet, Options, Plan, Reduced, Reduction, Step,
    Storage,
};
use tracing::info;

use super::devices::{initialise, set_bytes};
use super::shared_flash::SharedFlash;
use crate::note::NotePlace;

/// A flash that is to be set up, or whose contents are to be made durable.
pub(super) struct Coming<'a> {
    /// Name of the volume whose region it is, if several share the flash.
    pub(super) volume: Option<&'a str>,
    pub(super) each: &'a [Options],
    pub(super) note: &'a NotePlace,
    pub(super) plan: &'a Plan,
    /// `true` if it has too few slots, and gets more.
    pub(super) is_to_grow: bool,
    /// `true` if it may go on with these if there is no room, because other volumes give room back later.
    pub(super) may_wait: bool,
}

impl Coming<'_> {
    /// Take the steps that come before the driver. Returns the flash, and whether it was found.
    ///
    /// # Errors
    /// If the flash fails, or has no room.
    pub(super) fn open(
        &self,
        shared: &SharedFlash,
        file: &FlashDevice,
        found: Option<FlashSet>,
    ) -> Result<(FlashSet, bool)> {
        if self.volume.is_none() && !self.is_to_grow {
            // A start of a single store may make the file longer.
            file.reserve(set_bytes(&self.each[0]))?;
        }
        let mut storage = shared.storage(file.try_clone()?)?;
        let storage = storage.as_storage();
        let (mut flash, is_found) = open_flash(storage, self.note, self.each, found, self.plan)?;
        if self.is_to_grow && is_found {
            let options = &self.each[0];
            let slots = options.fewest_slots()..=options.slots();
            let mut extension = Extension::plan(storage, slots, None)?;
            if extension.bytes() > 0 {
                let placed = place(shared, self.volume, &mut file.try_clone()?, &mut extension);
                if let Err(error) = &placed
                    && self.may_wait
                {
                    let error = format!("{error:#}");
                    info!(
                        error,
                        "the volume gets its share of the flash when others have given room back"
                    );
                    return Ok((flash, is_found));
                }
                placed?;
            }
            extension.apply(storage)?;
            info!(bytes = extension.bytes(), "the flash has grown");
            flash.grow(&extension.layouts());
        }
        Ok((flash, is_found))
    }
}

/// Find room for the annexes of a flash, or of a volume's region. Only the directory of volumes changes, which
/// gives the volume that room.
///
/// # Errors
/// If there is no room, or a device fails.
pub(super) fn place(
    all: &SharedFlash,
    volume: Option<&str>,
    flash: &mut FlashDevice,
    extension: &mut Extension,
) -> Result<()> {
    if let Some(volume) = volume
        && all.has_directory()
    {
        return all.extend(volume, extension);
    }
    make_room(flash, extension.flash_bytes())?;
    let size_bytes = flash.size_bytes()?;
    Ok(extension.place_behind(size_bytes)?)
}

/// Makes each device of a flash at least this long if it is a file. Of a mirrored flash, the error names the device,
/// and nothing is changed if a block device is too small.
fn make_room(flash: &FlashDevice, bytes: u64) -> Result<()> {
    let FlashDevice::Two(_) = flash else { return Ok(flash.reserve(bytes)?) };
    let devices = flash.devices()?;
    for (_, file) in &devices {
        let found_bytes = file.size_bytes()?;
        ensure!(
            file.is_extensible()? || found_bytes >= bytes,
            "`{}`: it has {found_bytes} bytes for the flash, which needs {bytes} on each of its devices: make it larger",
            file.name()
        );
    }
    devices.iter().try_for_each(|(_, file)| {
        file.reserve(bytes).with_context(|| format!("`{}`: no room for the flash", file.name()))
    })
}

/// Return ranges that are moved by that many bytes, modulo 2^64.
fn moved(ranges: &[Range<u64>], by: u64) -> Vec<Range<u64>> {
    ranges.iter().map(|it| it.start.wrapping_add(by)..it.end.wrapping_add(by)).collect()
}

impl SharedFlash {
    /// Give a volume room for annexes, durably.
    fn extend(&self, name: &str, extension: &mut Extension) -> Result<()> {
        let Some(file) = self.file() else { bail!("there is no flash") };
        let mut storage = self.storage(file.try_clone()?)?;
        let storage = storage.as_storage();
        let mut directory = Directory::read(storage)?.context("the flash has no directory")?;
        let start_bytes = directory.region(name)?.start;
        let used = moved(&extension.used(), start_bytes);
        let mut free = directory.free_for(storage, name, &used)?;
        let before = |free: &[Range<u64>]| moved(free, start_bytes.wrapping_neg());
        let taken = match extension.place(&before(&free)) {
            Err(FlashError::NoRoom { .. }) => {
                // A file becomes longer.
                make_room(file, directory.end_bytes() + extension.bytes())?;
                free = directory.free_for(storage, name, &used)?;
                extension.place(&before(&free))?
            }
            taken => taken?,
        };
        // Before a superblock names the room: a crash in between leaves room that nobody uses, never
        // room of two volumes.
        Ok(directory.take(storage, name, &moved(&taken, start_bytes))?)
    }

    /// Return `true` if a volume has room that its region would not use.
    ///
    /// # Errors
    /// If the flash fails.
    pub(super) fn leaves_room(&self, name: &str, reduction: &Reduction) -> Result<bool> {
        let Some(file) = self.file() else { bail!("there is no flash") };
        let directory = Directory::read(&mut file.try_clone()?)?;
        let directory = directory.context("the flash has no directory")?;
        Ok(reduction.leaves_room(&directory, name)?)
    }

    /// Take from a volume the room that its region does not use, durably.
    ///
    /// # Errors
    /// If the flash fails.
    pub(super) fn give_back(&self, name: &str, reduced: &Reduced) -> Result<()> {
        let Some(file) = self.file() else { bail!("there is no flash") };
        let mut storage = self.storage(file.try_clone()?)?;
        let storage = storage.as_storage();
        let mut directory = Directory::read(storage)?.context("the flash has no directory")?;
        let former_bytes = directory.volume_bytes(name)?;
        reduced.give_back(&mut directory, storage, name)?;
        let bytes = former_bytes - directory.volume_bytes(name)?;
        info!(bytes, "room of the flash is free for other volumes");
        Ok(())
    }
}

/// Takes the steps of a plan that come before the driver: sets the flash up, or makes durable what was
/// found there. Returns whether it was found: then its epoch has still to begin.
fn open_flash(
    storage: &mut dyn Storage,
    note: &NotePlace,
    each: &[Options],
    found: Option<FlashSet>,
    plan: &Plan,
) -> Result<(FlashSet, bool)> {
    let (mut known, mut flash) = (found, None);
    for step in plan.before_driver() {
        match *step {
            Step::WriteNote(said) => note.store(said)?,
            Step::SetUpFlash(cache) => flash = Some((initialise(storage, cache, &each[0])?, false)),
            Step::SyncFlash => {
                let found = known.take().context("a flash that was found is synced")?;
                // Rule 10: a killed server may have left in the cache of the flash what recovery has
                // read.
                Flash::make_durable(storage)?;
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
