//! The flash of a server, for all who write to it: volumes, their shards, and changes of its directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use thermocline_engine::Directory;
use thermocline_engine::driver::files::DeviceFile;
use thermocline_engine::driver::joint::{JointFile, JointMember, JointSyncs};

use super::config::{Config, Volumes};
use super::epoch::FlashFile;
use super::opening::{self, Opened};

/// The flash that is open, and the syncs of all who write to it.
pub(crate) struct SharedFlash {
    file: Option<DeviceFile>,
    path: Option<PathBuf>,
    /// None if there is one writer.
    syncs: Option<JointSyncs>,
    /// Set once the flash failed a volume: all give it up.
    has_failed: Arc<AtomicBool>,
}

impl SharedFlash {
    /// Share the flash that was opened and locked, if a volume uses one, among its writers. `is_shared` says
    /// whether it may have several.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn start(
        file: Option<DeviceFile>,
        path: Option<PathBuf>,
        is_shared: bool,
    ) -> Result<Self> {
        let syncs = file.as_ref().filter(|_| is_shared).map(JointSyncs::start).transpose()?;
        Ok(Self { file, path, syncs, has_failed: Arc::default() })
    }

    /// Give up the flash, which those who use it already go on using.
    pub(super) fn let_go(&mut self) {
        self.file = None;
    }

    /// Return the sign that the flash failed a volume; all volumes look at it.
    pub(super) fn has_failed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_failed)
    }

    /// Return the flash, if a volume uses it.
    ///
    /// # Errors
    /// If the server has none, or another one.
    pub(super) fn file_for(&self, config: &Config) -> Result<Option<DeviceFile>> {
        let Some(flash) = &config.flash else { return Ok(None) };
        let file = self.file.as_ref().context(
            "the server was started without a flash: restart it to use one, or leave [volume.flash] out",
        )?;
        let path = self.path.as_deref().unwrap_or(Path::new(""));
        ensure!(
            path == flash.path,
            "the server uses `{}` until it is started again",
            path.display()
        );
        Ok(Some(file.try_clone()?))
    }

    /// Return the share in the syncs that a writer needs, if it writes to the flash and others do, too.
    ///
    /// # Errors
    /// If the system gives no descriptor.
    pub(super) fn member_for(&self, has_flash: bool) -> Result<Option<JointMember>> {
        let syncs = self.syncs.as_ref().filter(|_| has_flash);
        Ok(syncs.map(JointSyncs::join).transpose()?)
    }

    /// Return this part of the flash for one more writer.
    ///
    /// # Errors
    /// If the system gives no descriptor.
    pub(super) fn storage(&self, file: DeviceFile) -> Result<FlashFile> {
        Ok(match self.member_for(true)? {
            Some(member) => FlashFile::Joint(JointFile::new(file, member)),
            None => FlashFile::Alone(file),
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
        let mut directory = Directory::read(storage)?.context("the flash has no directory")?;
        Ok(directory.remove(storage, name)?)
    }
}
