//! The flash that is to take the place of another: opened, locked and set up while that one is in use.

use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use thermocline_engine::driver::files::{Caching, DeviceFile};
use thermocline_engine::driver::flash::FlashDevice;
use thermocline_engine::driver::identity::have_same_bytes;
use thermocline_engine::{
    Directory, FlashError, FlashSet, FoundMember, MEMBER_HEAD_BYTES, Options, Uuid,
};

use super::config::{Config, IoEngine, Volumes};
use super::control::ReplaceOrder;
use super::devices::{caching, initialise, lock_flash, options, set_bytes};
use super::joining::Members;
use super::mirrored::{Pair, content};
use super::shared_flash::LaneSyncs;
use crate::bytes::Bytes;

/// A flash that was set up, and holds nothing yet.
pub(crate) struct NewFlash {
    pub(crate) path: PathBuf,
    /// Path of the second device, if it is mirrored.
    pub(crate) mirror: Option<PathBuf>,
    pub(crate) file: FlashDevice,
    /// Its syncs, if it has several writers.
    pub(crate) syncs: Option<LaneSyncs>,
    /// The devices, if it is mirrored.
    pub(crate) members: Option<Arc<Members>>,
    /// The old flash, if it becomes the second device once the server has left it.
    pub(crate) joins: Option<PathBuf>,
    /// Bytes per second that are copied to it at most.
    pub(crate) rate_bytes: Option<u64>,
    pub(crate) parts: Vec<Arc<NewPart>>,
}

/// The part of a volume, or all of it.
pub(crate) struct NewPart {
    pub(crate) name: String,
    pub(crate) file: FlashDevice,
    pub(crate) io: IoEngine,
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
    let sizes: Vec<(&str, u64)> =
        each.iter().map(|(name, options)| (name.as_str(), set_bytes(&options[0]))).collect();
    let bytes = if configs.are_named() {
        Directory::flash_bytes(sizes.iter().map(|(_, bytes)| *bytes))
    } else {
        sizes.iter().map(|(_, bytes)| bytes).sum()
    };
    let joins =
        order.mirror.clone().filter(|mirror| in_use.is_some_and(|old| is_same(old, mirror)));
    let pair = order.mirror.as_deref().map(|mirror| {
        let paths = [&*order.flash, mirror];
        open_pair(paths, joins.is_some(), caching(config), bytes, order.forces_init)
    });
    let pair = pair.transpose()?;
    let mut file = match &pair {
        Some(pair) => pair.device.try_clone()?,
        None => FlashDevice::One(open_single(order, caching(config)).with_context(in_flash)?),
    };
    let is_shared = configs.are_named() || config.shards.get() > 1;
    let syncs = is_shared.then(LaneSyncs::default);
    if let Some(syncs) = &syncs {
        for (lane, file) in file.devices()? {
            syncs.add(lane, &file)?;
        }
    }
    let members = pair.map(|pair| pair.into_members(syncs.as_ref())).transpose()?;
    // An earlier try may have left an empty or blank file of another size.
    file.reserve(bytes).with_context(in_flash)?;
    let directory = if configs.are_named() {
        Some(Directory::set_up(&mut file, &sizes).with_context(in_flash)?)
    } else {
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
        let io = config.io.engine;
        parts.push(Arc::new(NewPart { name, file: part, io, syncs, options, contents }));
    }
    let has_failed = file.mirror().is_some_and(|mirror| !mirror.has_both()) && joins.is_none();
    ensure!(!has_failed, "a device of the new flash failed while it was set up: use another one");
    let (path, mirror) = (order.flash.clone(), order.mirror.clone());
    let rate_bytes = order.rate_bytes;
    Ok(NewFlash { path, mirror, file, syncs, members, joins, rate_bytes, parts })
}

/// Open and lock one device, which holds nothing anybody wants.
fn open_single(order: &ReplaceOrder, caching: Caching) -> Result<DeviceFile> {
    let mut file = lock_flash(&order.flash, caching, [], || Ok(()))?;
    // It is locked already: nobody else puts anything there after this look.
    if !order.forces_init {
        check_empty(&mut file)?;
    }
    Ok(file)
}

/// Open, lock and set up two devices that mirror each other, with room for the content. If the second one `joins`
/// later, only the first one is set up.
fn open_pair(
    paths: [&Path; 2],
    joins: bool,
    caching: Caching,
    content_bytes: u64,
    forces_init: bool,
) -> Result<Pair> {
    let [first, second] = paths;
    ensure!(
        !is_same(first, second),
        "`{}`: --flash and --mirror name the same device: name two",
        second.display()
    );
    let wanted_bytes = MEMBER_HEAD_BYTES + content_bytes;
    if joins {
        let mut old = File::open(second).with_context(|| format!("`{}`", second.display()))?;
        let found_bytes = old.seek(SeekFrom::End(0))?;
        check_room(second, old.metadata()?.is_file(), found_bytes, wanted_bytes)?;
    }
    let mut whole = [None, None];
    // One that is there may be refused; then the other one is not made.
    let order = if second.exists() { [1, 0] } else { [0, 1] };
    for place in order.into_iter().filter(|&place| place == 0 || !joins) {
        let path = paths[place];
        let in_path = || format!("`{}`", path.display());
        let mut file = lock_flash(path, caching, [], || Ok(())).with_context(in_path)?;
        if !forces_init {
            check_unused(&mut file).with_context(in_path)?;
        }
        check_room(path, file.is_extensible()?, file.size_bytes()?, wanted_bytes)?;
        whole[place] = Some(file);
    }
    for (file, path) in whole.iter().zip(paths) {
        let Some(file) = file else { continue };
        file.reserve(wanted_bytes).with_context(|| format!("`{}`", path.display()))?;
    }
    Pair::set_up(whole, paths, caching)
}

/// Refuse a device that is too small to be one of two.
fn check_room(path: &Path, is_file: bool, found_bytes: u64, wanted_bytes: u64) -> Result<()> {
    ensure!(
        is_file || found_bytes >= wanted_bytes,
        "`{}`: it has {found_bytes} bytes, and a device of the mirrored flash needs {wanted_bytes}: use a larger \
         device, or a smaller --size",
        path.display()
    );
    Ok(())
}

/// Refuse a device that holds something. An earlier try may have set it up.
fn check_unused(file: &mut DeviceFile) -> Result<()> {
    match FoundMember::look(file) {
        FoundMember::Absent(error) => Err(error).context("it cannot be read"),
        found if found.is_unused() => Ok(()),
        FoundMember::Labelled(_) => check_empty(&mut content(file)?),
        FoundMember::Blank
        | FoundMember::Foreign
        | FoundMember::Damaged
        | FoundMember::Format(_) => {
            bail!("it holds something else: check its path; --force-init gives up what it holds")
        }
    }
}

/// Return `true` if two paths are those of one device.
fn is_same(one: &Path, other: &Path) -> bool {
    one == other || have_same_bytes(one, other)
}

/// Refuse a volume that cannot have another flash.
fn check(config: &Config, in_use: Option<&Path>, order: &ReplaceOrder) -> Result<()> {
    config.flash.as_ref().context("the configuration has no [flash]")?;
    ensure!(
        config.backing.note.is_some() || config.backing.path.is_some(),
        "`backing.note` is not set: the note of an export is beside its flash then, and a new flash \
         would not find it; set it, and restart once"
    );
    check_apart("flash.path", in_use, &order.flash)?;
    for new in [Some(&order.flash), order.mirror.as_ref()].into_iter().flatten() {
        check_apart("backing.path", config.backing.path.as_deref(), new)?;
    }
    Ok(())
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
