//! Backing stores as a start finds them, and the drivers of the shards that use one.

use anyhow::{Context as _, Result};
use thermocline_engine::driver::Driver as _;
use thermocline_engine::driver::files::{Caching, DeviceFile};
use thermocline_engine::driver::flash::FlashDevice;
use thermocline_engine::driver::joint::JointSyncs;
use thermocline_engine::{Device, Fingerprint, FlashSet, Operation, Shard, Uuid};
use thermocline_nbd::backing::{Access, NbdBacking, NbdDriver};

use super::config::{Config, IoEngine, Mode};
use super::devices::{AnyDriver, drive_files, drive_nbd, lock, with_others};
use super::shared_flash::SharedFlash;
use super::start;
use crate::backing::BackingLocation;

/// A backing store that was found. A file is locked from now on.
pub(super) enum Backing {
    File(DeviceFile),
    Nbd(Box<NbdBacking>),
}

impl Backing {
    pub(super) const fn file(&self) -> Option<&DeviceFile> {
        match self {
            Self::File(disk) => Some(disk),
            Self::Nbd(_) => None,
        }
    }
}

/// Finds the backing store, and its size in bytes.
pub(super) fn find(
    place: &BackingLocation,
    config: &Config,
    caching: Caching,
) -> Result<(Backing, u64)> {
    match place {
        BackingLocation::File(path) => {
            let file = lock(path, DeviceFile::open_within, caching).context("cannot open it")?;
            let size_bytes = file.size_bytes()?;
            Ok((Backing::File(file), size_bytes))
        }
        BackingLocation::Nbd(uri) => {
            let access = match config.write_mode {
                Mode::ReadOnly => Access::ReadOnly,
                Mode::Back | Mode::Through | Mode::Around => Access::ReadWrite,
            };
            let uri = uri.clone();
            let backing = match config.introduction()? {
                None => NbdBacking::connect(uri, access)?,
                Some(cooperation) => NbdBacking::connect_to_partner(uri, access, cooperation)?,
            };
            let backing =
                backing.with_timeout(config.backing.timeout()).with_grace(config.backing.grace());
            let size_bytes = backing.size_bytes();
            Ok((Backing::Nbd(Box::new(backing)), size_bytes))
        }
    }
}

/// Read the fingerprint of a backing store, if one is wanted. For an export this makes a connection of its
/// own, because its server may take one client at a time.
pub(super) fn sample(
    backing: Backing,
    wanted: Option<(Uuid, u64)>,
    place: &BackingLocation,
    config: &Config,
) -> Result<(Backing, Option<Fingerprint>)> {
    let Some((cache, size_bytes)) = wanted else { return Ok((backing, None)) };
    match backing {
        Backing::File(disk) => {
            let fingerprint = start::fingerprint_of_file(&disk, cache, size_bytes);
            Ok((Backing::File(disk), fingerprint))
        }
        Backing::Nbd(backing) => {
            let fingerprint = start::fingerprint_of_export(*backing, cache, size_bytes);
            let (backing, _) = find(place, config, Caching::Direct)?;
            Ok((backing, fingerprint))
        }
    }
}

/// Connect to an export for each of that many shards.
fn connect_each(first: NbdBacking, shards: usize) -> Result<Vec<NbdBacking>> {
    let others = (2..=shards).map(|number| {
        first.connect_again().with_context(|| {
            format!(
                "connection {number} of {shards}, one for each shard: the server must take that many clients \
                 (qemu-nbd: --shared={shards}), or set `shards = 1`"
            )
        })
    });
    let others = others.collect::<Result<Vec<_>>>()?;
    Ok(std::iter::once(first).chain(others).collect())
}

/// Create the drivers of all shards of a volume. Drivers that write to the same device share its syncs.
pub(super) fn drive(
    engine: IoEngine,
    shards: &[Shard],
    flash: Option<(&FlashDevice, &FlashSet)>,
    backing: Backing,
    all: &SharedFlash,
) -> Result<Vec<AnyDriver>> {
    let (disk, exports) = match backing {
        Backing::File(disk) => (Some(disk), vec![]),
        Backing::Nbd(first) => (None, connect_each(*first, shards.len())?),
    };
    let is_joint = disk.as_ref().filter(|_| shards.len() > 1);
    let disk_syncs = is_joint.map(JointSyncs::start).transpose()?;
    let mut exports = exports.into_iter();
    let each = shards.iter().enumerate().map(|(number, shard)| {
        let region = flash.map(|(file, set)| file.region(set.range(number))).transpose()?;
        let first = region.as_ref().map(FlashDevice::first).transpose()?.flatten();
        let frames = shard.frames();
        let driver = match &disk {
            Some(disk) => drive_files(engine, frames, first.as_ref(), disk)?,
            None => {
                let export = exports.next().context("each shard has a connection")?;
                drive_nbd(engine, frames, NbdDriver::new(export, frames)?, first.as_ref())?
            }
        };
        let of_disk = disk_syncs.as_ref().map(JointSyncs::join).transpose()?;
        let syncs = all.syncs_for(flash.is_some());
        with_others(engine, frames, driver, region.as_ref(), (syncs, of_disk))
    });
    each.collect()
}

/// Syncs the backing store: a process that was killed may have left what it wrote in its cache, and the
/// engine counts all that it finds there as durable.
pub(super) fn sync_backing(driver: &mut AnyDriver) -> Result<()> {
    driver.start(Operation::sync(Device::Backing));
    let mut done = vec![];
    while done.is_empty() {
        driver.wait(&mut done);
    }
    let (_, result) = done.swap_remove(0);
    result.context("it cannot be synced: what an earlier process wrote there may be lost")
}
