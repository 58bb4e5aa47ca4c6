//! The volumes of a flash at rest: one is chosen, or removed.

use anyhow::{Context as _, Result, bail, ensure};
use thermocline_engine::driver::flash::FlashDevice;
use thermocline_engine::{Directory, FlashSet};

use super::{Place, in_flash, whole};

/// Return the part of a flash that a command is about: a volume, or all of it without volumes.
///
/// # Errors
/// A volume that is not there, or that must be named.
pub(super) fn part(mut file: FlashDevice, volume: Option<&str>) -> Result<FlashDevice> {
    let Some(directory) = Directory::read(&mut file)? else {
        ensure!(volume.is_none(), "it has no volumes: leave --volume out");
        return Ok(file);
    };
    let names: Vec<&str> = directory.volumes().map(|(name, _)| name).collect();
    let name = match (volume, &*names) {
        (Some(name), _) => name,
        (None, [only]) => only,
        (None, []) => bail!("all its volumes are removed"),
        (None, _) => {
            bail!("it has several volumes: name one with --volume, of: {}", names.join(", "))
        }
    };
    let range = directory.window(name)?;
    ensure!(!directory.is_new(&mut file, name)?, "volume `{name}` holds nothing yet");
    Ok(file.region(range)?)
}

/// Removes a volume from a flash. `write_back` writes its pages to the backing store before, if that is
/// wanted.
///
/// # Errors
/// A volume that is not there, or has pages that the backing store lacks.
pub(super) fn remove(
    at: Place<'_>,
    write_back: Option<impl FnOnce() -> Result<String>>,
    is_sure: bool,
) -> Result<String> {
    let path = at.path;
    let name = at.volume.context("name the volume with --volume")?;
    let mut said = String::new();
    if let Some(write_back) = write_back {
        let is_new = directory_of(at, name)?.2;
        said = if is_new { String::new() } else { write_back()? };
    }
    // Whoever had the flash in between may have written to it.
    let (mut file, mut directory, is_new) = directory_of(at, name)?;
    if !is_new && !is_sure {
        let mut region = file.region(directory.window(name)?)?;
        let found = FlashSet::read(&mut region).with_context(|| {
            format!("volume `{name}` cannot be read; --yes gives up what it holds")
        })?;
        let dirty_pages = found.contents().dirty_pages;
        ensure!(
            dirty_pages == 0,
            "volume `{name}` holds {dirty_pages} pages that its backing store lacks: --backing writes them \
             there, --yes gives them up"
        );
    }
    directory.remove(&mut file, name).with_context(|| in_flash(path))?;
    said += &format!("volume `{name}` is removed from {}\n", in_flash(path));
    Ok(said)
}

/// Return the flash with its directory, and `true` if the volume was never set up.
fn directory_of(at: Place<'_>, name: &str) -> Result<(FlashDevice, Directory, bool)> {
    let read = || -> Result<_> {
        let mut file = whole(at, None)?;
        let directory = Directory::read(&mut file)?;
        let directory = directory.context(
            "it is not a flash with volumes: `thermocline cache inspect` shows its contents",
        )?;
        let is_new = directory.is_new(&mut file, name)?;
        Ok((file, directory, is_new))
    };
    read().with_context(|| in_flash(at.path))
}
