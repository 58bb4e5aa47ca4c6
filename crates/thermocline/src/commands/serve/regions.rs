//! The regions of the volumes on the flash that they share: compared with the configuration, and made.

use std::ops::Range;

use anyhow::{Context as _, Result, bail, ensure};
use thermocline_engine::driver::files::DeviceFile;
use thermocline_engine::{Directory, DirectoryError, FlashError, FlashSet};
use tracing::info;

/// The regions that the volumes of a configuration have or get.
pub(super) struct Regions {
    /// None if the flash is to be set up for volumes.
    directory: Option<Directory>,
    regions: Vec<Region>,
}

/// The region of a volume.
#[derive(Debug)]
pub(super) struct Region {
    name: String,
    wanted_bytes: u64,
    /// Where it is, if there is one.
    range: Option<Range<u64>>,
    is_new: bool,
    /// `true` if it is to be made, in the place of one that is there, or of none.
    is_to_be_made: bool,
}

impl Region {
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
        flash: &mut DeviceFile,
        wanted: Vec<(&str, u64)>,
        force_init: bool,
    ) -> Result<Self> {
        let directory = directory(flash, force_init)?;
        if let Some(directory) = &directory {
            for (name, range) in directory.volumes() {
                if !wanted.iter().any(|(wanted, _)| *wanted == name) {
                    return Err(left_over(flash, name, range));
                }
            }
        }
        let mut regions = vec![];
        for (name, wanted_bytes) in wanted {
            let found = directory.as_ref().and_then(|directory| {
                let range = directory.region(name).ok()?;
                Some(directory.is_new(flash, name).map(|is_new| (range, is_new)))
            });
            let found = found.transpose()?;
            let is_new = found.as_ref().is_none_or(|(_, is_new)| *is_new);
            let fits = found.as_ref().is_some_and(|(range, _)| {
                // What is there already may have been made for more RAM than there is now.
                range.end - range.start >= wanted_bytes
            });
            regions.push(Region {
                name: name.to_owned(),
                wanted_bytes,
                range: found.map(|(range, _)| range),
                is_new,
                is_to_be_made: !fits && (is_new || force_init),
            });
        }
        Ok(Self { directory, regions })
    }

    /// Return the region that a volume has or gets, if any.
    pub(super) fn of(&self, name: &str) -> Option<&Region> {
        self.regions.iter().find(|region| region.name == name)
    }

    /// Make the regions that are missing.
    ///
    /// # Errors
    /// A flash that is too small, or fails.
    pub(super) fn apply(&mut self, flash: &mut DeviceFile) -> Result<()> {
        let mut directory = match self.directory.take() {
            Some(directory) => directory,
            None => {
                let bytes = Directory::flash_bytes(self.regions.iter().map(|it| it.wanted_bytes));
                flash.reserve(bytes)?;
                Directory::set_up(flash, &[])?
            }
        };
        for region in self.regions.iter_mut().filter(|region| region.is_to_be_made) {
            if region.range.is_some() {
                directory.remove(flash, &region.name)?;
            }
            add(&mut directory, flash, &region.name, region.wanted_bytes)?;
            let range = directory.region(&region.name)?;
            info!(
                volume = region.name,
                bytes = range.end - range.start,
                "the volume has a region on the flash"
            );
            region.range = Some(range);
        }
        self.directory = Some(directory);
        Ok(())
    }
}

/// Add a volume; a file becomes longer if that needs it.
fn add(directory: &mut Directory, flash: &mut DeviceFile, name: &str, bytes: u64) -> Result<()> {
    match directory.add(flash, name, bytes) {
        Err(DirectoryError::NoRoom { .. }) => {
            let used = directory.volumes().map(|(_, range)| range.end).max();
            let used = used.unwrap_or_else(|| Directory::flash_bytes([]));
            let chunks = Directory::flash_bytes([bytes]) - Directory::flash_bytes([]);
            flash.reserve(used + chunks)?;
            Ok(directory.add(flash, name, bytes)?)
        }
        added => Ok(added?),
    }
}

/// Read the directory of a flash; `None` if the flash is blank or is to be given up.
fn directory(flash: &mut DeviceFile, force_init: bool) -> Result<Option<Directory>> {
    match Directory::read(flash) {
        Ok(Some(directory)) => return Ok(Some(directory)),
        Ok(None) => {}
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

/// Return the error of a volume that is on the flash and not in the configuration.
fn left_over(flash: &DeviceFile, name: &str, range: Range<u64>) -> anyhow::Error {
    let found = flash.region(range).map_err(FlashError::from);
    let found = found.and_then(|mut region| FlashSet::read(&mut region));
    let dirty_pages = found.map_or(0, |found| found.contents().dirty_pages);
    let holds = if dirty_pages > 0 {
        format!(", with {dirty_pages} pages that its backing store lacks")
    } else {
        String::new()
    };
    anyhow::anyhow!(
        "it has a volume `{name}`{holds}, and the configuration has none with a [volume.flash]: add that, \
         or write its pages back and remove it with {}",
        removal(name)
    )
}

/// Refuse to give up a flash of volumes where the configuration has none.
///
/// # Errors
/// The volumes that are there, and how to remove them.
pub(super) fn check_single(flash: &mut DeviceFile) -> Result<()> {
    // What cannot be read as a directory is judged as any other flash is.
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
