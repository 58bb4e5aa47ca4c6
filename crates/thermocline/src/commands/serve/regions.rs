//! The regions of the volumes on the flash that they share: compared with the configuration, and made.

use std::ops::Range;

use anyhow::{Context as _, Result, bail, ensure};
use thermocline_engine::driver::flash::FlashDevice;
use thermocline_engine::{Directory, DirectoryError, FlashError, FlashSet, SideFile, Storage};
use tracing::info;

/// The regions that the volumes of a configuration have or get.
pub(super) struct Regions {
    /// None if the flash is to be set up for volumes.
    directory: Option<Directory>,
    each: Vec<Region>,
    /// Volumes that the configuration does not have, and of which the backing stores have everything.
    left_over: Vec<String>,
}

/// The region of a volume.
#[derive(Debug)]
pub(super) struct Region {
    name: String,
    wanted_bytes: u64,
    /// Where its addresses are, if there is one: it begins there, and annexes may be anywhere.
    range: Option<Range<u64>>,
    is_new: bool,
    /// `true` if it is to be made, in the place of one that is there, or of none.
    is_to_be_made: bool,
}

impl Region {
    /// Find the region of a volume.
    fn find(
        flash: &mut FlashDevice,
        directory: Option<&Directory>,
        (name, wanted_bytes): (&str, u64),
        force_init: bool,
    ) -> Result<Self> {
        let found = directory.and_then(|directory| {
            let range = directory.window(name).ok()?;
            Some(directory.is_new(flash, name).map(|is_new| (range, is_new)))
        });
        let found = found.transpose()?;
        let is_new = found.as_ref().is_none_or(|(_, is_new)| *is_new);
        let fits =
            directory.and_then(|directory| directory.region(name).ok()).is_some_and(|range| {
                // An existing region may have been made for more RAM than there is now.
                range.end - range.start >= wanted_bytes
            });
        Ok(Self {
            name: name.to_owned(),
            wanted_bytes,
            range: found.map(|(range, _)| range),
            is_new,
            is_to_be_made: !fits && (is_new || force_init),
        })
    }

    /// Return `true` if nothing was set up there.
    pub(super) const fn is_new(&self) -> bool {
        self.is_new
    }

    /// Return the region's range in bytes of the flash, or `None` if the region is still to be made.
    pub(super) fn range(&self) -> Option<Range<u64>> {
        self.range.clone()
    }

    /// Return the command that removes the volume.
    pub(super) fn removal(&self) -> String {
        removal(&self.name)
    }
}

/// Return the command that removes the volume.
fn removal(name: &str) -> String {
    format!("`thermocline cache remove-volume FLASH --volume {name} --backing BACKING`")
}

impl Regions {
    /// Find the regions of volumes, of which the names and sizes in bytes are given. Nothing is changed.
    ///
    /// # Errors
    /// A flash that holds something else, or volumes that the configuration does not have.
    pub(super) fn read(
        flash: &mut FlashDevice,
        wanted: Vec<(&str, u64)>,
        force_init: bool,
    ) -> Result<Self> {
        let directory = directory(flash, force_init)?;
        let mut left_over = vec![];
        if let Some(directory) = &directory {
            for (name, range) in directory.volumes() {
                if !wanted.iter().any(|(wanted, _)| *wanted == name) {
                    check_left_over(flash, directory, name, range.start..u64::MAX)?;
                    left_over.push(name.to_owned());
                }
            }
        }
        let regions = wanted.into_iter().map(|(name, wanted_bytes)| {
            Region::find(flash, directory.as_ref(), (name, wanted_bytes), force_init)
        });
        Ok(Self { each: regions.collect::<Result<_>>()?, directory, left_over })
    }

    /// Find the region of one volume, of which the name and the size in bytes are given, on the flash of others
    /// that are served. Nothing is changed.
    ///
    /// # Errors
    /// A flash that fails.
    pub(super) fn read_one(flash: &mut FlashDevice, wanted: (&str, u64)) -> Result<Self> {
        let directory =
            Directory::read(flash)?.context("it has no directory of volumes any more")?;
        let region = Region::find(flash, Some(&directory), wanted, false)?;
        Ok(Self { directory: Some(directory), each: vec![region], left_over: vec![] })
    }

    /// Replace the region of a volume if its note says that it needs none, and its backing store has all that
    /// the region holds: the server was killed before it could remove the region.
    ///
    /// # Errors
    /// A flash that fails.
    pub(super) fn give_up_left(
        &mut self,
        flash: &FlashDevice,
        name: &str,
        note: Option<SideFile>,
    ) -> Result<()> {
        let has_left = note.is_some_and(|note| note.has_left_flash());
        let region = self.each.iter_mut().find(|region| region.name == name && !region.is_new);
        if let Some(region) = region.filter(|_| has_left)
            && let Some(range) = &region.range
            && let Ok(found) = FlashSet::read(&mut flash.region(range.clone())?)
            && found.contents().dirty_pages == 0
        {
            (region.is_new, region.is_to_be_made) = (true, true);
        }
        Ok(())
    }

    /// Return the region that a volume has or gets, if any.
    pub(super) fn of(&self, name: &str) -> Option<&Region> {
        self.each.iter().find(|region| region.name == name)
    }

    /// Make the regions that are missing, and remove those that nobody needs. `storage` writes to the flash, and
    /// syncs it for all who do.
    ///
    /// # Errors
    /// A flash that is too small, or fails.
    pub(super) fn apply(&mut self, flash: &FlashDevice, storage: &mut dyn Storage) -> Result<()> {
        let mut directory = match self.directory.take() {
            Some(directory) => directory,
            None => {
                let bytes = Directory::flash_bytes(self.each.iter().map(|it| it.wanted_bytes));
                flash.reserve(bytes)?;
                Directory::set_up(storage, &[])?
            }
        };
        // First: others may have their room.
        for name in self.left_over.drain(..) {
            directory.remove(storage, &name)?;
            info!(volume = name, "removed a volume that left the configuration from the flash");
        }
        for region in self.each.iter_mut().filter(|region| region.is_to_be_made) {
            if region.range.is_some() {
                directory.remove(storage, &region.name)?;
            }
            add(&mut directory, flash, storage, region)?;
            let range = directory.region(&region.name)?;
            info!(
                volume = region.name,
                bytes = range.end - range.start,
                "the volume has a region on the flash"
            );
            region.range = Some(range.start..u64::MAX);
        }
        self.directory = Some(directory);
        Ok(())
    }
}

/// Add a volume; a file becomes longer if that needs it.
fn add(
    directory: &mut Directory,
    flash: &FlashDevice,
    storage: &mut dyn Storage,
    region: &Region,
) -> Result<()> {
    let (name, bytes) = (&*region.name, region.wanted_bytes);
    match directory.add(storage, name, bytes) {
        Err(DirectoryError::NoRoom { .. }) => {
            let used = directory.end_bytes();
            let chunks = Directory::flash_bytes([bytes]) - Directory::flash_bytes([]);
            flash.reserve(used + chunks)?;
            Ok(directory.add(storage, name, bytes)?)
        }
        added => Ok(added?),
    }
}

/// Read the directory of a flash; `None` if the flash is blank or is to be given up.
fn directory(flash: &mut FlashDevice, force_init: bool) -> Result<Option<Directory>> {
    match Directory::read(flash) {
        Ok(Some(directory)) => return Ok(Some(directory)),
        Ok(None) => {}
        // A device that cannot be read may have volumes all the same: it is not given up.
        Err(error @ DirectoryError::Io(_)) => return Err(error.into()),
        Err(_) if force_init => return Ok(None),
        Err(error) => {
            let context = "nothing was changed; --force-init gives up what all volumes have on it";
            return Err(anyhow::Error::new(error).context(context));
        }
    }
    match FlashSet::read(flash) {
        // A set-up that was cut off before the first volume was there.
        Err(FlashError::Empty | FlashError::HasVolumes) => Ok(None),
        Err(error @ FlashError::Io(_)) => Err(error.into()),
        _ if force_init => Ok(None),
        Ok(_) => bail!(
            "it is the flash of a single backing store, and the configuration has [[volume]]: write its \
             pages back with `thermocline cache drain`, then start once with --force-init"
        ),
        Err(error) => Err(super::start::explained(error)),
    }
}

/// Refuse a volume that the configuration does not have, unless its region holds nothing that its backing
/// store lacks: then the power was cut, or the server killed, while the volume was added or removed.
fn check_left_over(
    flash: &mut FlashDevice,
    directory: &Directory,
    name: &str,
    range: Range<u64>,
) -> Result<()> {
    if directory.is_new(flash, name)? {
        return Ok(());
    }
    let holds = match FlashSet::read(&mut flash.region(range)?) {
        Ok(found) if found.contents().dirty_pages == 0 => return Ok(()),
        Ok(found) => {
            let dirty_pages = found.contents().dirty_pages;
            format!(", with {dirty_pages} pages that its backing store lacks")
        }
        // It may hold anything.
        Err(error) => format!(", which cannot be read ({error})"),
    };
    bail!(
        "it has a volume `{name}`{holds}, and the configuration has none with a [volume.flash]: add that, \
         or write its pages back and remove it with {}",
        removal(name)
    )
}

/// Refuse to give up a flash of volumes where the configuration has none.
///
/// # Errors
/// The volumes that are there, and how to remove them.
pub(super) fn check_single(flash: &mut FlashDevice) -> Result<()> {
    // A directory that cannot be read is judged as any other flash is.
    let Ok(Some(directory)) = Directory::read(flash) else { return Ok(()) };
    let names: Vec<&str> = directory.volumes().map(|(name, _)| name).collect();
    ensure!(
        names.is_empty(),
        "it has volumes ({}), and the configuration has no [[volume]]: name them there, or write the pages of \
         each back and remove it, as with {}",
        names.join(", "),
        removal(names.first().context("there is a volume")?)
    );
    Ok(())
}
