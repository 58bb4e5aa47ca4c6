//! The flash of a server, for all who write to it: volumes, their shards, and changes of its directory.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, ensure};
use thermocline_engine::driver::files::DeviceFile;
use thermocline_engine::driver::flash::{FileLanes, FlashDevice};
use thermocline_engine::driver::joint::{JointFile, JointMember, JointSyncs};
use thermocline_engine::{Directory, Lane, Lanes, Mirror, MirrorStorage};

use super::config::{Config, Volumes};
use super::epoch::FlashFile;
use super::joining::Members;
use super::opening::{self, Opened};

/// The syncs of the devices of a flash, by their lanes, for all who write to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneSyncs(Arc<Mutex<BTreeMap<Lane, JointSyncs>>>);

impl LaneSyncs {
    /// Sync a device from now on.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn add(&self, lane: Lane, file: &DeviceFile) -> io::Result<()> {
        let syncs = JointSyncs::start(file)?;
        self.lock().insert(lane, syncs);
        Ok(())
    }

    /// Forget the devices that are not used any more.
    pub(super) fn close_unused(&self, mirror: &Mirror) {
        let now = mirror.in_use();
        self.lock().retain(|&lane, _| now.has(lane));
    }

    /// Return the share of one more writer in the syncs of a device.
    ///
    /// # Errors
    /// If there is no such device, or the system gives no descriptor.
    pub(crate) fn join(&self, lane: Lane) -> io::Result<JointMember> {
        self.lock().get(&lane).ok_or(io::ErrorKind::NotConnected)?.join()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Lane, JointSyncs>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The devices of a mirrored flash, whose syncs are joined.
#[derive(Debug)]
pub(crate) struct JointLanes {
    files: FileLanes,
    syncs: LaneSyncs,
}

impl Lanes for JointLanes {
    type Device = JointFile;

    fn open(&self, lane: Lane) -> io::Result<JointFile> {
        Ok(JointFile::new(self.files.open(lane)?, self.syncs.join(lane)?))
    }
}

/// A flash that takes the place of another one.
pub(crate) struct OtherFlash {
    pub(super) file: FlashDevice,
    pub(super) path: PathBuf,
    /// Its syncs, if it has several writers.
    pub(super) syncs: Option<LaneSyncs>,
    pub(super) members: Option<Arc<Members>>,
}

/// The flash that is open, and the syncs of all who write to it.
pub(crate) struct SharedFlash {
    file: Option<FlashDevice>,
    path: Option<PathBuf>,
    /// `true` if volumes share it.
    has_directory: bool,
    /// None if there is one writer.
    syncs: Option<LaneSyncs>,
    /// The devices of a mirrored flash.
    pub(super) members: Option<Arc<Members>>,
    /// Set once the flash failed a volume: all give it up.
    has_failed: Arc<AtomicBool>,
}

impl SharedFlash {
    /// Share the flash that was opened and locked, if a volume uses one, among its writers. `is_shared` says
    /// whether it may have several, and `has_directory` whether volumes share it.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn start(
        file: Option<FlashDevice>,
        path: Option<PathBuf>,
        (is_shared, has_directory): (bool, bool),
    ) -> Result<Self> {
        let shared = file.as_ref().filter(|_| is_shared);
        let start = |file: &FlashDevice| -> io::Result<LaneSyncs> {
            let syncs = LaneSyncs::default();
            for (lane, file) in file.devices()? {
                syncs.add(lane, &file)?;
            }
            Ok(syncs)
        };
        let syncs = shared.map(start).transpose()?;
        Ok(Self { file, path, has_directory, syncs, members: None, has_failed: Arc::default() })
    }

    /// Return the flash, if the server has one that volumes share, or has just opened it.
    pub(super) const fn file(&self) -> Option<&FlashDevice> {
        self.file.as_ref()
    }

    /// Return `true` if the flash has a directory of volumes.
    pub(super) const fn has_directory(&self) -> bool {
        self.has_directory
    }

    /// Give up the flash, which those who use it already go on using.
    pub(super) fn let_go(&mut self) {
        (self.file, self.syncs) = (None, None);
    }

    /// Use another flash, which all who use it have taken. A flash that nobody comes to later is not kept.
    pub(super) fn replace(&mut self, flash: OtherFlash) {
        let OtherFlash { file, path, syncs, members } = flash;
        self.members = members;
        if self.file.is_some() {
            (self.file, self.path, self.syncs) = (Some(file), Some(path), syncs);
        }
    }

    /// Return the sign that the flash failed a volume; all volumes look at it.
    pub(super) fn has_failed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_failed)
    }

    /// Return the flash, if a volume uses it.
    ///
    /// # Errors
    /// If the server has none, or another one.
    pub(super) fn file_for(&self, config: &Config) -> Result<Option<FlashDevice>> {
        let Some(flash) = &config.flash else { return Ok(None) };
        let file = self.file.as_ref().context(
            "the server was started without a flash: restart it to use one, or leave [volume.flash] out",
        )?;
        let path = self.path.as_deref().unwrap_or(Path::new(""));
        let is_member =
            self.members.as_ref().is_some_and(|members| members.find(&flash.path).is_some());
        ensure!(
            path == flash.path || is_member,
            "the server uses `{}` until it is started again",
            path.display()
        );
        Ok(Some(file.try_clone()?))
    }

    /// Return the joint syncs of the flash, if a writer writes to it and others do, too.
    pub(super) fn syncs_for(&self, has_flash: bool) -> Option<&LaneSyncs> {
        self.syncs.as_ref().filter(|_| has_flash)
    }

    /// Return this part of the flash for one more writer.
    ///
    /// # Errors
    /// If the system gives no descriptor.
    pub(super) fn storage(&self, file: FlashDevice) -> Result<FlashFile> {
        let Some(syncs) = &self.syncs else { return Ok(FlashFile::Alone(file)) };
        Ok(match file {
            FlashDevice::One(file) => {
                FlashFile::Joint(JointFile::new(file, syncs.join(Lane::FIRST)?))
            }
            FlashDevice::Two(pair) => {
                let lanes = JointLanes { files: pair.lanes().clone(), syncs: syncs.clone() };
                let mirror = Arc::clone(pair.mirror());
                FlashFile::JointPair(MirrorStorage::new(lanes, mirror, pair.start_bytes()))
            }
        })
    }

    /// Open the devices of one more volume while others are served.
    ///
    /// # Errors
    /// A device that cannot be opened or must not be used; the error names the remedy.
    pub(super) fn add(&self, configs: &Volumes, config: &Config) -> Result<Opened> {
        ensure!(
            config.flash.is_none() || !self.has_failed.load(Ordering::Acquire),
            "the flash failed: replace it and restart the server, or leave [volume.flash] out"
        );
        configs.within(config, opening::open_one(self, config))
    }

    /// Remove the region of a volume that needs no flash any more, durably.
    ///
    /// # Errors
    /// If the flash fails.
    pub(super) fn remove(&self, name: &str) -> Result<()> {
        let file = self.file.as_ref().context("there is no flash")?;
        let mut storage = self.storage(file.try_clone()?)?;
        let storage = storage.as_storage();
        // Read again: volumes may have come, gone or grown since the start.
        let mut directory = Directory::read(storage)?.context("the flash has no directory")?;
        Ok(directory.remove(storage, name)?)
    }
}
