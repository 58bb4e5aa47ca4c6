//! The flash that is to take the place of another: opened, locked and set up while that one is in use.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use thermocline_engine::driver::files::{Caching, DeviceFile};
use thermocline_engine::{Flash, FlashError, FlashSet, PolicyOptions, Uuid};

use super::config::Config;
use super::control::ReplaceOrder;
use super::devices::{initialise, lock_flash, options, set_bytes};
use crate::bytes::Bytes;

/// A flash that was set up, and holds nothing yet.
#[derive(Debug)]
pub(crate) struct NewFlash {
    pub(crate) path: PathBuf,
    pub(crate) file: DeviceFile,
    /// Capacity that the policy may use.
    pub(crate) pages: u32,
    pub(crate) policy: PolicyOptions,
    pub(crate) contents: Flash,
}

/// Open, lock and set up the flash that replaces another.
///
/// # Errors
/// A flash that cannot be used, or holds something.
pub(crate) fn new_flash(
    config: &Config,
    in_use: Option<&Path>,
    backing_bytes: u64,
    order: &ReplaceOrder,
) -> Result<NewFlash> {
    let mut config = config.clone();
    let flash = config.flash.as_mut().context("the configuration has no [flash]")?;
    let in_flash = || format!("`{}`", order.flash.display());
    ensure!(
        flash.mirror.is_none(),
        "the flash is mirrored: name the device that is to be replaced with --member"
    );
    ensure!(
        config.backing.note.is_some() || config.backing.path.is_some(),
        "`backing.note` is not set: the note of an export is beside its flash then, and a new flash \
         would not find it; set it, and restart once"
    );
    for (key, path) in [("flash.path", in_use), ("backing.path", config.backing.path.as_deref())] {
        let is_same = path.is_some_and(|path| is_same_device(path, &order.flash));
        ensure!(!is_same, "`{}`: this is `{key}`, which is in use", order.flash.display());
    }
    flash.path.clone_from(&order.flash);
    flash.size = order.size_bytes.map_or(flash.size, Bytes);
    let caching = if config.io.direct { Caching::Direct } else { Caching::Buffered };
    let options = options(&config, backing_bytes)?;
    let mut file = lock_flash(&order.flash, caching, [], || Ok(())).with_context(in_flash)?;
    let contents =
        if order.forces_init { Err(FlashError::Empty) } else { FlashSet::read(&mut file) };
    match contents {
        Err(FlashError::Empty) => {}
        // Such as one that an earlier try has set up.
        Ok(found) if found.contents().held_pages == 0 => {}
        Ok(found) => {
            let found = found.contents();
            bail!(
                "{}: it is the flash of cache {}, with {} pages; --force-init gives up what it holds",
                in_flash(),
                found.superblock.owner(),
                found.held_pages
            );
        }
        Err(error) => {
            let context = "nothing was changed; --force-init gives up what it holds";
            return Err(anyhow::Error::new(error).context(context).context(in_flash()));
        }
    }
    // An earlier try may have left an empty or blank file of another size.
    file.reserve(set_bytes(&options)).with_context(in_flash)?;
    let contents = initialise(&mut file, Uuid::new_v4(), &options).with_context(in_flash)?;
    let contents = contents.into_only().with_context(in_flash)?;
    Ok(NewFlash {
        path: order.flash.clone(),
        file,
        pages: options.flash_pages,
        policy: options.policy,
        contents,
    })
}

/// Return `true` if two paths lead to one file or device.
pub(super) fn is_same_device(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        let is_device = found.file_type().is_block_device();
        Some(if is_device { (true, 0, found.rdev()) } else { (false, found.dev(), found.ino()) })
    };
    identity(one).is_some_and(|found| identity(other) == Some(found))
}
