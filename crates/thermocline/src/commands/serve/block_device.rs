//! The export as a block device of this machine's kernel.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use rapidhash::v3::rapidhash_v3;
use thermocline_nbd::doors::Door;
use thermocline_nbd::protocol::{ExportInfo, transmission_flag as flag};
use thermocline_nbd::server::Handle;
use thermocline_ublk::{Options, Ublk, UblkRun};

use super::config::UblkSection;
use super::virtual_machines::Doors;
use crate::backing::BackingLocation;

impl UblkSection {
    /// Prepare the device, and spread its queues over the shards.
    pub(super) fn prepare(
        &self,
        backing: &BackingLocation,
        export: &ExportInfo,
        shards: usize,
    ) -> Result<(Ublk, Doors)> {
        let note = || PathBuf::from(format!("/run/thermocline-ublk{}.note", self.id));
        let options = Options {
            id: self.id,
            depth: self.queue_depth,
            size_bytes: export.size_bytes,
            preferred_bytes: export.block_sizes.preferred_bytes,
            may_write: export.flags & flag::READ_ONLY == 0,
            owner: owner(backing)?,
            note: self.note.clone().unwrap_or_else(note),
            keeps_at_exit: self.keep_at_exit,
        };
        let (device, doors) = Ublk::prepare(&options, shards)?;
        let doors = doors.into_iter().map(|door| vec![Box::new(door) as Box<dyn Door>]);
        Ok((device, doors.collect()))
    }
}

/// Return the path or address by which the next server recognises the device of its backing store.
fn owner(backing: &BackingLocation) -> Result<u64> {
    let place = match backing {
        BackingLocation::File(path) => std::path::absolute(path)?.into_os_string(),
        BackingLocation::Nbd(uri) => format!("nbd://{}/{}", uri.server, uri.export).into(),
    };
    Ok(rapidhash_v3(place.as_encoded_bytes()))
}

/// Starts a device, once the shards are about to serve.
pub(super) fn begin(device: Ublk, all: &Handle) -> Result<UblkRun> {
    let (wakes, stops) = (all.clone(), all.clone());
    let run = device.begin(move || wakes.wake(), move || stops.stop());
    run.context("cannot start the thread of the block device")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_knows_its_backing_store_by_the_place() {
        let owner = |path: &str| owner(&BackingLocation::File(path.into())).unwrap();
        assert_eq!(owner("/a/disk"), owner("/a/./disk"));
        assert_ne!(owner("/a/disk"), owner("/b/disk"));
        assert_eq!(owner("/a/disk"), owner("/a/disk"), "it is the same in every process");
    }
}
