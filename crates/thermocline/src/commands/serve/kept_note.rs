//! The note of the backing store while a server runs: it says which flash may have newer bytes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use thermocline_engine::driver::files::DeviceFile;
use thermocline_engine::{End, Flash, Shard, SideFile, SideFileError, Uuid, WriteHold};
use tracing::{error, info, warn};

use super::start::BackingAtEnd;
use crate::note::NotePlace;

/// How an engine was left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    /// Whether the journal is sealed: everything is durable, on disk or on flash.
    pub(crate) is_orderly: bool,
    /// Whether the backing store has the newest bytes of every page.
    pub(crate) is_clean: bool,
    /// The number of the journal block that would have been next.
    pub(crate) next_sequence: u64,
}

/// The note beside a backing store.
#[derive(Debug)]
pub(crate) struct Note {
    place: NotePlace,
    backing: BackingAtEnd,
    backing_bytes: u64,
    /// Held as long as the note should say something that it does not.
    hold: WriteHold,
    /// One thread at a time writes the note.
    known: Mutex<Known>,
}

/// The flash that the note names.
#[derive(Debug)]
struct Known {
    /// What the note says while that flash works.
    running: SideFile,
    flash: KnownFlash,
    /// Whether the epoch of the flash is durable. Until then the note stays as the start wrote it.
    has_begun: bool,
}

#[derive(Debug)]
enum KnownFlash {
    /// The engine writes to it until the engine is left.
    Used(DeviceFile),
    /// It failed, and may have pages that the backing store lacks.
    Failed,
    /// The backing store has all its pages, and newer ones.
    Left,
}

impl Known {
    /// What the note should say now.
    fn side_file(&self) -> SideFile {
        match self.flash {
            KnownFlash::Used(_) => self.running,
            KnownFlash::Failed => SideFile { has_dirty: true, ..self.running.without_flash() },
            KnownFlash::Left => self.running.without_flash(),
        }
    }
}

impl Note {
    /// The note that says `running` while the engine serves with that flash. Nothing is written yet.
    pub(super) fn new(
        place: &NotePlace,
        running: SideFile,
        flash: &DeviceFile,
        backing: BackingAtEnd,
        shard: &Shard,
    ) -> Result<Self> {
        let flash = KnownFlash::Used(flash.try_clone()?);
        Ok(Self {
            place: place.clone(),
            backing,
            backing_bytes: shard.options().size_bytes(),
            hold: shard.write_hold(),
            known: Mutex::new(Known { running, flash, has_begun: false }),
        })
    }

    /// Says, before the first write, that the flash may have newer bytes than the backing store, or that
    /// it failed meanwhile.
    ///
    /// # Errors
    /// If the note cannot be written.
    pub(super) fn begin(&self) -> Result<()> {
        let mut known = self.lock();
        self.place.store(known.side_file())?;
        known.has_begun = true;
        self.hold.release();
        Ok(())
    }

    /// Says how the engine ended, on the flash that it used last and in the note:
    /// [`Step::TakeFingerprint`], [`Step::EndFlash`] and [`Step::EndNote`]. The engine is gone.
    ///
    /// [`Step::TakeFingerprint`]: thermocline_engine::Step::TakeFingerprint
    /// [`Step::EndFlash`]: thermocline_engine::Step::EndFlash
    /// [`Step::EndNote`]: thermocline_engine::Step::EndNote
    ///
    /// # Errors
    /// If the note cannot be written.
    pub(crate) fn end(&self, left: Left) -> Result<()> {
        let known = self.lock();
        let said = match &known.flash {
            KnownFlash::Failed if !left.is_clean => return Ok(()),
            KnownFlash::Failed => SideFile { has_dirty: false, ..known.side_file() },
            // What could not be acknowledged is nowhere.
            KnownFlash::Left => known.side_file(),
            KnownFlash::Used(_) if !left.is_orderly => return Ok(()),
            KnownFlash::Used(flash) => {
                let SideFile { cache, epoch, .. } = known.running;
                let end = self.end_flash(flash.try_clone()?, (cache, epoch), left.next_sequence);
                known.running.ended(epoch, !left.is_clean, end)
            }
        };
        self.place.store(said)?;
        self.hold.release();
        Ok(())
    }

    /// Writes the end to the flash. Returns it unless that fails.
    fn end_flash(
        &self,
        mut flash: DeviceFile,
        (cache, epoch): (Uuid, u64),
        next_sequence: u64,
    ) -> Option<End> {
        let backing = self.backing.fingerprint(cache, self.backing_bytes);
        let end = End { next_sequence, backing };
        match Flash::end(&mut flash, (cache, epoch), end) {
            Ok(()) => Some(end),
            Err(error) => {
                warn!(%error, "the flash cannot say that the engine ended in order");
                None
            }
        }
    }

    /// Says that the flash, which failed, must not be used again: what is acknowledged from now on
    /// is not there. Until that is durable, nothing is acknowledged.
    pub(crate) fn disown_flash(&self) {
        let mut known = self.lock();
        self.hold.hold();
        known.flash = KnownFlash::Failed;
        error!("the flash failed: pages are served from RAM and the backing store");
        if !known.has_begun {
            // Nothing was acknowledged in this epoch; if it never begins, the flash is as good as before.
            return;
        }
        match self.place.store(known.side_file()) {
            Ok(()) => self.hold.release(),
            Err(error) => error!(
                %error,
                "the note of the backing store cannot be written: writes and flushes fail until it can"
            ),
        }
    }

    /// Tries again to write what could not be written, if there is such a thing.
    pub(crate) fn retry(&self) {
        let known = self.lock();
        if self.hold.is_held() && known.has_begun && self.place.store(known.side_file()).is_ok() {
            self.hold.release();
            info!("the note of the backing store is written: writes are served again");
        }
    }

    /// Says that the flash, whose pages the backing store has, is not used any more.
    ///
    /// # Errors
    /// If the note cannot be written: the flash stays in use.
    pub(super) fn leave_flash(&self) -> Result<(), SideFileError> {
        let mut known = self.lock();
        let former = std::mem::replace(&mut known.flash, KnownFlash::Left);
        let stored = self.place.store(known.side_file());
        if stored.is_err() {
            known.flash = former;
        }
        stored
    }

    /// Says that a flash that was just set up may have what the backing store lacks:
    /// [`SideFile::running`].
    ///
    /// # Errors
    /// If the note cannot be written: the flash must not be used.
    pub(super) fn take_flash(&self, flash: DeviceFile, (cache, epoch): (Uuid, u64)) -> Result<()> {
        let mut known = self.lock();
        let running = SideFile::running(cache, epoch);
        self.place.store(running)?;
        *known = Known { running, flash: KnownFlash::Used(flash), has_begun: true };
        self.hold.release();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
