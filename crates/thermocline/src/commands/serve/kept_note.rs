//! The note of the backing store while a server runs: it says which flash may have newer bytes.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::{Result, bail, ensure};
use thermocline_engine::driver::flash::FlashDevice;
use thermocline_engine::{
    End, Extension, FlashSet, Layout, Reduced, Reduction, Shard, SideFile, SideFileError, Uuid,
    WriteHold,
};
use thermocline_nbd::server::Handle;
use tracing::{Span, error, info, warn};

use super::start::BackingAtEnd;
use crate::note::{NotePlace, NotedMirror};

/// State in which an engine was left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    /// `true` if the journal is sealed: everything is durable, on disk or on flash.
    pub(crate) is_orderly: bool,
    /// `true` if the backing store has the newest bytes of every page.
    pub(crate) is_clean: bool,
    /// The number of the journal block that would have been next, summed over the shards.
    pub(crate) next_sequence: u64,
}

impl Left {
    /// Combine the states in which two shards were left.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            is_orderly: self.is_orderly && other.is_orderly,
            is_clean: self.is_clean && other.is_clean,
            next_sequence: self.next_sequence + other.next_sequence,
        }
    }
}

/// The note beside a backing store.
#[derive(Debug)]
pub(crate) struct Note {
    backing: BackingAtEnd,
    backing_bytes: AtomicU64,
    /// Per shard: held as long as the note should say something that it does not, or the shard uses a flash
    /// that failed another one.
    holds: Vec<WriteHold>,
    /// `true` once the flash failed a shard of this volume or of another one.
    has_failed: Arc<AtomicBool>,
    /// Names the volume in the log.
    span: Span,
    /// Wakes the shards, once they are served.
    server: OnceLock<Handle>,
    /// One thread at a time writes the note.
    known: Mutex<Known>,
}

/// The flash that the note names.
#[derive(Debug)]
struct Known {
    place: NotePlace,
    /// Content of the note while that flash works.
    running: SideFile,
    flash: KnownFlash,
    /// `true` if the epoch of the flash is durable. Until then the note stays as the start wrote it.
    has_begun: bool,
    /// `true` if the note says what it should.
    is_stored: bool,
    /// Which shards do not use the flash any more, because it failed.
    has_given_up: Vec<bool>,
}

#[derive(Debug)]
enum KnownFlash {
    /// The engine writes to it until the engine is left.
    Used(FlashDevice),
    /// It failed, and may have pages that the backing store lacks.
    Failed,
    /// The backing store has all its pages, and newer ones.
    Left,
}

impl Known {
    fn new(place: NotePlace, running: SideFile, flash: FlashDevice, shards: usize) -> Self {
        let flash = KnownFlash::Used(flash);
        let has_given_up = vec![false; shards];
        Self { place, running, flash, has_begun: false, is_stored: true, has_given_up }
    }

    /// Return the content that the note should have now.
    fn side_file(&self) -> SideFile {
        match self.flash {
            KnownFlash::Used(_) => self.running,
            KnownFlash::Failed => SideFile { has_dirty: true, ..self.running.without_flash() },
            KnownFlash::Left => self.running.without_flash(),
        }
    }
}

impl Note {
    /// Create a note that says `running` while the engine serves with that flash. This writes nothing yet.
    pub(super) fn new(
        place: &NotePlace,
        running: SideFile,
        flash: &FlashDevice,
        backing: BackingAtEnd,
        shards: &[Shard],
        has_failed: Arc<AtomicBool>,
    ) -> Result<Self> {
        Ok(Self {
            backing,
            backing_bytes: AtomicU64::new(shards[0].options().size_bytes()),
            holds: shards.iter().map(Shard::write_hold).collect(),
            has_failed,
            span: Span::current(),
            server: OnceLock::new(),
            known: Mutex::new(Known::new(place.clone(), running, flash.try_clone()?, shards.len())),
        })
    }

    /// Set the server that serves the shards.
    pub(super) fn is_served_by(&self, server: Handle) {
        drop(self.server.set(server));
    }

    fn release_all(&self) {
        self.holds.iter().for_each(WriteHold::release);
    }

    /// Return `true` if the flash failed a shard of any volume: all give it up. The shards of one volume
    /// have one note, which speaks for all; other volumes would write to a device that fails.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Write to the note, before the first write, that the flash may have newer bytes than the backing store,
    /// or that it failed meanwhile.
    ///
    /// # Errors
    /// If the note cannot be written.
    pub(super) fn begin(&self) -> Result<()> {
        let mut known = self.lock();
        // Rule 11: the epoch is durable by now, and no write is served before this is.
        known.place.store(known.side_file())?;
        known.has_begun = true;
        self.has_stored(&mut known);
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
        let _span = self.span.enter();
        let known = self.lock();
        let said = match &known.flash {
            KnownFlash::Failed if !left.is_clean => return Ok(()),
            KnownFlash::Failed => SideFile { has_dirty: false, ..known.side_file() },
            // Writes that could not be acknowledged are nowhere.
            KnownFlash::Left => known.side_file(),
            // Without an orderly end the note stays that of a server that runs: the next start finds
            // the flash as after a crash.
            KnownFlash::Used(_) if !left.is_orderly => return Ok(()),
            KnownFlash::Used(flash) => {
                let SideFile { cache, epoch, .. } = known.running;
                let end = self.end_flash(flash.try_clone()?, (cache, epoch), left.next_sequence);
                known.running.ended(epoch, !left.is_clean, end)
            }
        };
        known.place.store(said)?;
        self.release_all();
        Ok(())
    }

    /// Writes the end to the flash. Returns it unless that fails.
    fn end_flash(
        &self,
        mut flash: FlashDevice,
        (cache, epoch): (Uuid, u64),
        next_sequence: u64,
    ) -> Option<End> {
        let backing_bytes = self.backing_bytes.load(Ordering::Acquire);
        let backing = self.backing.fingerprint(cache, backing_bytes);
        let end = End { next_sequence, backing };
        match FlashSet::end(&mut flash, (cache, epoch), end) {
            Ok(()) => Some(end),
            Err(error) => {
                warn!(%error, "cannot record the orderly end on the flash");
                None
            }
        }
    }

    /// Says that the flash, which failed that shard, must not be used again: what is acknowledged from now on
    /// is not there. Until that is durable, nothing is acknowledged; another shard acknowledges nothing
    /// before it has given the flash up, too.
    pub(crate) fn disown_flash(&self, shard: usize) {
        let _span = self.span.enter();
        let mut known = self.lock();
        if matches!(known.flash, KnownFlash::Failed) {
            if known.is_stored {
                self.holds[shard].release();
            }
            known.has_given_up[shard] = true;
            return;
        }
        // Before the note is written: what is acknowledged from here on is on no flash that a start may
        // use. To fail requests would have file systems give up for a delay of milliseconds.
        self.holds.iter().for_each(WriteHold::wait);
        known.flash = KnownFlash::Failed;
        self.has_failed.store(true, Ordering::Release);
        known.has_given_up[shard] = true;
        known.is_stored = false;
        if let Some(server) = self.server.get() {
            server.wake();
        }
        error!("the flash failed: serving from RAM and the backing store");
        if !known.has_begun {
            // Nothing was acknowledged in this epoch; if it never begins, the flash is as good as before.
            self.holds.iter().for_each(WriteHold::hold);
            return;
        }
        match known.place.store(known.side_file()) {
            Ok(()) => self.has_stored(&mut known),
            Err(error) => {
                self.holds.iter().for_each(WriteHold::hold);
                error!(
                    %error,
                    "the note of the backing store cannot be written: writes and flushes fail until it can"
                );
            }
        }
    }

    /// Record that the note has the content that it should have.
    fn has_stored(&self, known: &mut Known) {
        known.is_stored = true;
        let is_failed = matches!(known.flash, KnownFlash::Failed);
        for (hold, has_given_up) in self.holds.iter().zip(&known.has_given_up) {
            if !is_failed || *has_given_up {
                hold.release();
            }
        }
    }

    /// Tries again to write what could not be written, if there is such a thing.
    pub(crate) fn retry(&self) {
        let _span = self.span.enter();
        let mut known = self.lock();
        if !known.is_stored && known.has_begun && known.place.store(known.side_file()).is_ok() {
            self.has_stored(&mut known);
            info!("wrote the note of the backing store: serving writes again");
        }
    }

    /// Says that the flash, whose pages the backing store has, is not used any more.
    ///
    /// # Errors
    /// If the note cannot be written: the flash stays in use.
    pub(super) fn leave_flash(&self) -> Result<(), SideFileError> {
        let mut known = self.lock();
        if matches!(known.flash, KnownFlash::Failed) {
            // It says already that the flash is not to be used.
            return Ok(());
        }
        let former = std::mem::replace(&mut known.flash, KnownFlash::Left);
        let stored = known.place.store(known.side_file());
        if stored.is_err() {
            // The note still asks for the flash, so that must stay in use.
            known.flash = former;
        }
        stored
    }

    /// Says that a flash that was just set up may have what the backing store lacks:
    /// [`SideFile::running`]. Of a mirrored flash, the note also names the state of its devices from now on.
    ///
    /// # Errors
    /// If the note cannot be written: the flash must not be used.
    pub(super) fn take_flash(
        &self,
        flash: FlashDevice,
        (cache, epoch): (Uuid, u64),
        mirror: Option<&NotedMirror>,
    ) -> Result<()> {
        let mut known = self.lock();
        let mut place = known.place.clone();
        if let Some(mirror) = mirror {
            mirror.add(&mut place);
        }
        let running = SideFile::running(cache, epoch);
        // Durable before a shard uses the flash: from the first write on it may have what the backing
        // store lacks.
        place.store(running)?;
        *known = Known { has_begun: true, ..Known::new(place, running, flash, self.holds.len()) };
        self.has_failed.store(false, Ordering::Release);
        self.release_all();
        Ok(())
    }

    /// Says on the flash that the backing store has grown, before a shard serves what is new:
    /// [`FlashSet::grow_backing`].
    ///
    /// # Errors
    /// If the flash fails, or its epoch has not begun.
    pub(super) fn grow_backing(&self, backing_bytes: u64) -> Result<()> {
        let known = self.lock();
        // No start uses a flash that failed or was left.
        if let KnownFlash::Used(flash) = &known.flash {
            ensure!(known.has_begun, "the server has just started: read the configuration again");
            let owner = (known.running.cache, known.running.epoch);
            // Opened once more: the system reports a failed write-back once per handle, and the engine
            // must hear of it on its own.
            FlashSet::grow_backing(&mut flash.reopen()?, owner, backing_bytes)?;
        }
        self.backing_bytes.store(backing_bytes, Ordering::Release);
        Ok(())
    }

    /// Gives each region of the flash a number of slots in this range, durably, before a shard uses one. `place` finds room for
    /// them. Returns the layout of each region.
    ///
    /// # Errors
    /// If the flash fails, or has no room, or its epoch has not begun.
    pub(super) fn extend_flash(
        &self,
        slots: RangeInclusive<u32>,
        place: impl FnOnce(&mut FlashDevice, &mut Extension) -> Result<()>,
    ) -> Result<Vec<Layout>> {
        let known = self.lock();
        let KnownFlash::Used(flash) = &known.flash else { bail!("the flash is not in use") };
        ensure!(known.has_begun, "the server has just started: read the configuration again");
        let owner = (known.running.cache, known.running.epoch);
        let mut flash = flash.reopen()?;
        let mut extension = Extension::plan(&mut flash, slots, Some(owner))?;
        if extension.bytes() > 0 {
            place(&mut flash, &mut extension)?;
        }
        extension.apply(&mut flash)?;
        Ok(extension.layouts())
    }

    /// Return `true` once the epoch of the flash has begun, and the note says so.
    pub(super) fn has_begun(&self) -> bool {
        self.lock().has_begun
    }

    /// Makes durable which slots the regions of the flash keep, where shards have left some, and has `give_back` take
    /// the rest of the room. Without slots that were left, this happens only if `leaves_room` says that there is such
    /// a rest. Returns the layout of each region, if that has happened.
    ///
    /// # Errors
    /// If the flash fails, or its epoch has not begun.
    pub(super) fn reduce_flash(
        &self,
        left: &[Option<u32>],
        leaves_room: impl FnOnce(&Reduction) -> Result<bool>,
        give_back: impl FnOnce(&Reduced) -> Result<()>,
    ) -> Result<Option<Vec<Layout>>> {
        let known = self.lock();
        let KnownFlash::Used(flash) = &known.flash else { bail!("the flash is not in use") };
        ensure!(known.has_begun, "the server has just started: read the configuration again");
        let owner = (known.running.cache, known.running.epoch);
        let mut flash = flash.reopen()?;
        let reduction = Reduction::plan(&mut flash, left, Some(owner))?;
        if left.iter().all(Option::is_none) && !leaves_room(&reduction)? {
            return Ok(None);
        }
        let reduced = reduction.apply(&mut flash)?;
        if let Err(error) = give_back(&reduced) {
            let error = format!("{error:#}");
            error!(error, "room that the volume does not use stays with it until its next start");
        }
        Ok(Some(reduced.layouts()))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
