//! The flash of a server, for all who write to it: volumes, their shards, and changes of its directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use thermocline_engine::driver::files::DeviceFile;
use thermocline_engine::driver::flash::FlashDevice;
use thermocline_engine::driver::joint::{JointFile, JointMember, JointSyncs};
use thermocline_engine::{Directory, MirrorStorage};

use super::config::{Config, Volumes};
use super::epoch::FlashFile;
use super::opening::{self, Opened};
use crate::note::NotedMirror;

/// Something of each device of the flash; the only one comes first.
pub(super) type PerDevice<T> = [Option<T>; 2];

/// Return what `make` makes of each device.
fn each<T, U>(
    [first, second]: PerDevice<&T>,
    make: impl Fn(&T) -> io::Result<U>,
) -> io::Result<PerDevice<U>> {
    Ok([first.map(&make).transpose()?, second.map(&make).transpose()?])
}

/// The flash that is open, and the syncs of all who write to it.
pub(crate) struct SharedFlash {
    file: Option<FlashDevice>,
    path: Option<PathBuf>,
    /// `true` if volumes share it.
    has_directory: bool,
    /// None if there is one writer.
    syncs: Option<PerDevice<JointSyncs>>,
    /// Notes of all volumes, which name the state of a mirrored flash.
    pub(super) notes: Option<NotedMirror>,
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
        let start = |file: &FlashDevice| each(file.members(), JointSyncs::start);
        let syncs = shared.map(start).transpose()?;
        Ok(Self { file, path, has_directory, syncs, notes: None, has_failed: Arc::default() })
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
    pub(super) fn file_for(&self, config: &Config) -> Result<Option<FlashDevice>> {
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
    pub(super) fn member_for(&self, has_flash: bool) -> Result<PerDevice<JointMember>> {
        let syncs = self.syncs.as_ref().filter(|_| has_flash);
        let joined =
            syncs.map(|[first, second]| each([first.as_ref(), second.as_ref()], JointSyncs::join));
        Ok(joined.transpose()?.unwrap_or_default())
    }

    /// Return this part of the flash for one more writer.
    ///
    /// # Errors
    /// If the system gives no descriptor.
    pub(super) fn storage(&self, file: FlashDevice) -> Result<FlashFile> {
        if self.syncs.is_none() {
            return Ok(FlashFile::Alone(file));
        }
        let [first, second] = self.member_for(true)?;
        let [one, other] = file.members();
        let join = |file: Option<&DeviceFile>, member: Option<JointMember>| {
            let joined = file.zip(member);
            joined.map(|(file, member)| Ok(JointFile::new(file.try_clone()?, member))).transpose()
        };
        let joined: io::Result<_> =
            join(one, first).and_then(|one| Ok([one, join(other, second)?]));
        let joined = joined?;
        Ok(match (file.mirror(), joined) {
            (Some(mirror), members) => {
                FlashFile::JointPair(MirrorStorage::new(members, Arc::clone(mirror)))
            }
            (None, [Some(file), _]) => FlashFile::Joint(file),
            (None, [None, _]) => FlashFile::Alone(file),
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
