//! The flash that is to take the place of another: opened, locked and set up while that one is in use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use thermocline_engine::driver::files::DeviceFile;
use thermocline_engine::driver::identity::have_same_bytes;
use thermocline_engine::{Directory, FlashError, FlashSet, Lane, Options, Uuid};

use super::config::{Config, Volumes};
use super::control::ReplaceOrder;
use super::devices::{caching, initialise, lock_flash, options, set_bytes};
use super::shared_flash::LaneSyncs;
use crate::bytes::Bytes;

/// A flash that was set up, and holds nothing yet.
#[derive(Debug)]
pub(crate) struct NewFlash {
    pub(crate) path: PathBuf,
    pub(crate) file: DeviceFile,
    /// Its syncs, if it has several writers.
    pub(crate) syncs: Option<LaneSyncs>,
    pub(crate) parts: Vec<Arc<NewPart>>,
}

/// The part of a volume, or all of it.
#[derive(Debug)]
pub(crate) struct NewPart {
    pub(crate) name: String,
    pub(crate) file: DeviceFile,
    pub(crate) syncs: Option<LaneSyncs>,
    /// Options of each shard.
    pub(crate) options: Vec<Options>,
    pub(crate) contents: FlashSet,
}

/// The volumes that a new flash is for: those of a configuration that use the flash, with the sizes of their backing
/// stores.
pub(super) struct Wanted<'a> {
    pub(super) configs: &'a Volumes,
    pub(super) backing_bytes: Vec<(String, u64)>,
    /// The flash in use.
    pub(super) in_use: Option<&'a Path>,
}

/// Open, lock and set up the flash that replaces another.
///
/// # Errors
/// A flash that cannot be used, or holds something.
pub(super) fn new_flash(wanted: &Wanted<'_>, order: &ReplaceOrder) -> Result<NewFlash> {
    let Wanted { configs, backing_bytes, in_use } = wanted;
    let in_flash = || format!("`{}`", order.flash.display());
    ensure!(
        order.size_bytes.is_none() || !configs.are_named(),
        "the shares of the volumes stay as they are: leave --size out"
    );
    let mut each = vec![];
    for (name, bytes) in backing_bytes {
        let config = configs.of(name).with_context(|| {
            format!("volume `{name}` is not in the configuration: read it again first")
        })?;
        let _span = configs.span(config).entered();
        check(config, *in_use, order)?;
        each.push((name, part_options(config, *bytes, order)?));
    }
    let config = configs.shared();
    let file = lock_flash(&order.flash, caching(config), [], || Ok(()));
    let mut file = file.with_context(in_flash)?;
    // It is locked already: nobody else puts anything there after this look.
    if !order.forces_init {
        check_empty(&mut file).with_context(in_flash)?;
    }
    let sizes: Vec<(&str, u64)> =
        each.iter().map(|(name, options)| (name.as_str(), set_bytes(&options[0]))).collect();
    let is_shared = configs.are_named() || config.shards.get() > 1;
    let syncs = is_shared.then(LaneSyncs::default);
    if let Some(syncs) = &syncs {
        syncs.add(Lane::FIRST, &file)?;
    }
    // An earlier try may have left an empty or blank file of another size.
    let directory = if configs.are_named() {
        let bytes = Directory::flash_bytes(sizes.iter().map(|(_, bytes)| *bytes));
        file.reserve(bytes).with_context(in_flash)?;
        Some(Directory::set_up(&mut file, &sizes).with_context(in_flash)?)
    } else {
        file.reserve(sizes.iter().map(|(_, bytes)| bytes).sum()).with_context(in_flash)?;
        None
    };
    let mut parts = vec![];
    for (name, options) in each {
        let mut part = match &directory {
            // The region may grow beyond its end later.
            Some(directory) => file.region(directory.window(name)?)?,
            None => file.try_clone()?,
        };
        let contents = initialise(&mut part, Uuid::new_v4(), &options[0]).with_context(in_flash)?;
        let (name, syncs) = (name.clone(), syncs.clone());
        parts.push(Arc::new(NewPart { name, file: part, syncs, options, contents }));
    }
    Ok(NewFlash { path: order.flash.clone(), file, syncs, parts })
}

/// Refuse a volume that cannot have another flash.
fn check(config: &Config, in_use: Option<&Path>, order: &ReplaceOrder) -> Result<()> {
    let flash = config.flash.as_ref().context("the configuration has no [flash]")?;
    ensure!(
        flash.mirror.is_none(),
        "the flash is mirrored: name the device that is to be replaced with --member"
    );
    ensure!(
        config.backing.note.is_some() || config.backing.path.is_some(),
        "`backing.note` is not set: the note of an export is beside its flash then, and a new flash \
         would not find it; set it, and restart once"
    );
    check_apart("flash.path", in_use, &order.flash)?;
    check_apart("backing.path", config.backing.path.as_deref(), &order.flash)
}

/// Refuse a new device that the server uses already.
pub(super) fn check_apart(key: &str, in_use: Option<&Path>, new: &Path) -> Result<()> {
    let is_same = in_use.is_some_and(|path| have_same_bytes(path, new));
    ensure!(!is_same, "`{}`: this is `{key}`, which is in use", new.display());
    Ok(())
}

/// Return the options of the shards of a volume with the new flash.
fn part_options(config: &Config, backing_bytes: u64, order: &ReplaceOrder) -> Result<Vec<Options>> {
    let mut config = config.clone();
    if let (Some(flash), Some(bytes)) = (&mut config.flash, order.size_bytes) {
        flash.size = Bytes(bytes);
    }
    let options = options(&config, backing_bytes)?;
    options.of_shards(config.shard_map()).context("`shards`")
}

/// Refuse a flash that holds something. An earlier try may have set it up.
fn check_empty(file: &mut DeviceFile) -> Result<()> {
    let refused = "nothing was changed; --force-init gives up what it holds";
    let mut parts = vec![];
    if let Some(directory) = Directory::read(file).context(refused)? {
        for (name, _) in directory.volumes() {
            if !directory.is_new(file, name)? {
                parts.push(file.region(directory.window(name)?)?);
            }
        }
    } else {
        parts.push(file.try_clone()?);
    }
    for mut part in parts {
        match FlashSet::read(&mut part) {
            Err(FlashError::Empty) => {}
            Ok(found) if found.contents().held_pages == 0 => {}
            Ok(found) => {
                let found = found.contents();
                bail!(
                    "it is the flash of cache {}, with {} pages; --force-init gives up what it holds",
                    found.superblock.owner(),
                    found.held_pages
                );
            }
            Err(error) => return Err(anyhow::Error::new(error).context(refused)),
        }
    }
    Ok(())
}
