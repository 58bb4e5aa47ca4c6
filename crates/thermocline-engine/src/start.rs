//! Decision of a start: use a flash and a backing store together or not, and in which steps.
//!
//! Nothing here reads or writes. A caller that starts an engine, or drains a flash, locks both
//! devices, reads the note and the flash, takes the fingerprint of the backing store, asks for a
//! [`Plan`], and carries its steps out in their order. A crash after any step, or between two,
//! leaves a state that the next start handles correctly.
//!
//! * The note names a start of the cache (an *epoch*) before anything is served in it. It first says that
//!   the start begins: until then it still says how the start before ended.
//! * An orderly stop writes its [`End`] to the flash, then to the note. The next start begins an epoch on
//!   the flash, which takes the end away. So a copy of the flash that was made while an engine ran, or
//!   before an older stop, differs from the note.
//! * An end has the [`Fingerprint`] of the backing store. If something else wrote to that since, the
//!   flash's clean pages are dropped, and dirty ones are refused.
//!
//! It enforces rule 10 of durability (`ARCHITECTURE.md`): both devices are synced before the first answer.

use uuid::Uuid;

use crate::epoch::{Begin, End, Keep};
use crate::fingerprint::{Fingerprint, Likeness};
use crate::offline::Contents;
use crate::side_file::{SideFile, SideFileError};

/// State that a start finds.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Note of the backing store.
    pub note: Option<SideFile>,
    /// The flash.
    pub flash: FoundFlash,
    /// Bytes of the whole pages of the backing store.
    pub backing_bytes: u64,
    /// The backing store, as [`Found::sample`] wants it; `None` if it does not, or if it cannot be
    /// read.
    pub backing: Option<Fingerprint>,
    /// The identity of the cache that is set up if there is none.
    pub new_cache: Uuid,
}

/// State that a start finds in place of the flash.
#[expect(clippy::large_enum_variant, reason = "a start makes few of them")]
#[derive(Clone, Copy, Debug)]
pub enum FoundFlash {
    /// No flash is configured.
    None,
    /// A flash that was never used, or a file that is not there yet.
    Blank,
    /// Something else, or a cache that cannot be read.
    Foreign,
    /// A cache.
    Cache(Contents),
}

/// Purpose for which a flash and a backing store are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Serve the backing store.
    Serve,
    /// Give up what the flash holds, and serve the backing store with an empty one.
    ForceInit,
    /// Write all dirty pages to the backing store.
    Drain(DrainOptions),
}

/// Options of a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainOptions {
    /// Although no note says that the flash belongs to the backing store.
    pub without_note: bool,
    /// Although something else wrote to the backing store.
    pub despite_changes: bool,
    /// Clean pages stay on flash.
    pub keep_clean: bool,
}

/// One step. Each is durable before the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write the note.
    WriteNote(SideFile),
    /// Make the device an empty flash of this cache.
    SetUpFlash(Uuid),
    /// Sync the flash: what recovery found there may be in its cache only.
    SyncFlash,
    /// Serve reads from now on, and write nothing to either device for them: a crash must find both, and
    /// the note, as this start found them. Writes and flushes wait for [`Step::Serve`].
    ServeReads,
    /// Begin an epoch on the flash.
    BeginEpoch(Begin),
    /// Write the dirty pages to the backing store, sync it, call them clean on flash, and begin an epoch
    /// there.
    WriteBack(Begin),
    /// Drop the clean pages that are left, unless dirty ones are lost, and begin another epoch.
    Clear,
    /// Sync the backing store.
    SyncBacking,
    /// Serve requests, until the engine is to stop.
    Serve,
    /// Write what is only in RAM to flash or the backing store, sync that, and seal the journal. If that
    /// fails, the stop is not orderly, and the steps after it are left out.
    Seal,
    /// Take the fingerprint of the backing store.
    TakeFingerprint,
    /// Write the [`End`] to the flash.
    EndFlash,
    /// Write the end to the note: [`SideFile::ended`].
    EndNote,
}

/// Notice that the caller should show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Something else may have written to the backing store: clean pages are dropped.
    ClearsClean(Likeness),
    /// The note is not there, and the flash's own record of the backing store fits.
    NoteIsMissing,
}

/// The steps of a start, and of the end that follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Steps in order.
    pub steps: Vec<Step>,
    /// Notice to show before.
    pub notice: Option<Notice>,
}

impl Plan {
    /// Return the steps that come before the devices are driven, and the backing store is synced.
    pub fn before_driver(&self) -> &[Step] {
        let end = self.steps.iter().position(|step| *step == Step::SyncBacking);
        &self.steps[..end.unwrap_or(self.steps.len())]
    }

    /// Return the note that is valid from the first write on.
    pub fn note_before_serving(&self) -> Option<SideFile> {
        let mut steps = self.steps[self.before_driver().len()..].iter();
        steps.find_map(|step| if let Step::WriteNote(note) = step { Some(*note) } else { None })
    }

    /// Return the begin of an epoch, if one begins.
    pub fn begin(&self) -> Option<Begin> {
        self.steps.iter().find_map(|step| {
            if let Step::BeginEpoch(begin) | Step::WriteBack(begin) = step {
                Some(*begin)
            } else {
                None
            }
        })
    }
}

/// Steps that follow [`Step::Serve`] if there is a flash.
const END: [Step; 4] = [Step::Seal, Step::TakeFingerprint, Step::EndFlash, Step::EndNote];

impl Found {
    /// Return the size and the cache for which a fingerprint of the backing store is wanted.
    pub fn sample(&self) -> Option<(Uuid, u64)> {
        let contents = self.contents().filter(|contents| contents.held_pages > 0)?;
        let before = self.recorded(contents)?.backing?;
        (before.size_bytes <= self.backing_bytes)
            .then_some((contents.superblock.owner(), before.size_bytes))
    }

    /// Return the steps to take, or the reason why they must not be taken.
    ///
    /// # Errors
    /// If the flash and the backing store must not be used together, or not for that intent.
    pub fn plan(&self, intent: Intent) -> Result<Plan, SideFileError> {
        match (&self.flash, intent) {
            (FoundFlash::None, _) => {
                SideFile::check(self.note, None)?;
                let note = self.note.map(|note| Step::WriteNote(note.without_flash()));
                // The note comes before the first request: once the store is served without its flash,
                // the flash is too old.
                let mut steps = vec![Step::SyncBacking];
                steps.extend(note.into_iter().chain([Step::Serve, Step::Seal]));
                Ok(Plan { steps, notice: None })
            }
            (_, Intent::ForceInit) => {
                self.check_force()?;
                // The note gives the dirty pages up first: a crash must not leave it with a cache that
                // is nowhere.
                let note = self.note.filter(|note| note.has_dirty);
                Ok(self.set_up(note.map(|note| Step::WriteNote(note.without_flash()))))
            }
            (FoundFlash::Blank, _) => {
                SideFile::check(self.note, None)?;
                Ok(self.set_up(None))
            }
            (FoundFlash::Foreign, _) => Err(SideFileError::ForeignFlash),
            (FoundFlash::Cache(contents), intent) => self.go_on(contents, intent),
        }
    }

    fn contents(&self) -> Option<&Contents> {
        match &self.flash {
            FoundFlash::Cache(contents) => Some(contents),
            FoundFlash::None | FoundFlash::Blank | FoundFlash::Foreign => None,
        }
    }

    /// Return the end that the flash or its note has, if the backing store is still to be as it was
    /// then.
    fn recorded(&self, contents: &Contents) -> Option<End> {
        let superblock = &contents.superblock;
        match self.note.filter(|note| note.cache == superblock.owner()) {
            // A drain that began, and may have written to the backing store, took the end away.
            Some(note) if note.begins.is_some() && note.epoch == superblock.epoch => note.end,
            note => superblock.end.or_else(|| note.and_then(|note| note.end)),
        }
    }

    fn set_up(&self, first: Option<Step>) -> Plan {
        let note = SideFile::running(self.new_cache, 1);
        let rest = [
            // The flash comes before the note: a note whose cache is nowhere would have every later
            // start refused.
            Step::SetUpFlash(self.new_cache),
            Step::SyncBacking,
            Step::WriteNote(note),
            Step::Serve,
        ];
        Plan { steps: first.into_iter().chain(rest).chain(END).collect(), notice: None }
    }

    /// Check that a flash may be given up: it must not be if another one has the newest bytes of
    /// the backing store, as that one would be given up with it.
    fn check_force(&self) -> Result<(), SideFileError> {
        let found = self.contents().map(|contents| contents.superblock.owner());
        match self.note.filter(|note| note.has_dirty) {
            Some(SideFile { cache, .. }) if found != Some(cache) => {
                Err(SideFileError::DirtyElsewhere { cache })
            }
            _ => Ok(()),
        }
    }

    fn go_on(&self, contents: &Contents, intent: Intent) -> Result<Plan, SideFileError> {
        let mut notice = self.check_pair(contents, intent)?;
        let (keep, likeness) = self.keep(contents, intent)?;
        if keep == Keep::Dirty && contents.held_pages > contents.dirty_pages {
            notice = Some(Notice::ClearsClean(likeness));
        }
        let superblock = &contents.superblock;
        let is_resized = superblock.backing_bytes != self.backing_bytes;
        let known = self.note.filter(|note| note.cache == superblock.owner());
        // A start that crashed early may have named an epoch in the note that the flash never reached.
        let last = known.map_or(0, |note| note.last_epoch()).max(superblock.epoch);
        let epoch = last + 1;
        let begin = Begin {
            keep,
            backing_bytes: is_resized.then_some(self.backing_bytes),
            epoch: Some(epoch),
        };
        let is_cleared = matches!(intent, Intent::Drain(DrainOptions { keep_clean: false, .. }));
        // A drain changes the backing store: from then on the end says nothing about it.
        let is_written = matches!(intent, Intent::Drain(_)) && contents.dirty_pages > 0;
        // An end that only the note has is of the epoch that the note names.
        let former = known.filter(|note| {
            let is_later = superblock.epoch >= note.epoch;
            is_later && superblock.end.is_none() && (note.begins.is_some() || note.end.is_some())
        });
        let starting = SideFile {
            cache: superblock.owner(),
            epoch: former.map_or(superblock.epoch, |note| note.epoch),
            has_dirty: contents.dirty_pages > 0 || known.is_some_and(|note| note.has_dirty),
            // `Step::Clear` begins another epoch, and the note must allow that one, too.
            begins: Some(epoch + u64::from(is_cleared)),
            end: self.recorded(contents).filter(|_| !is_written),
        };
        // It names the epoch first: after a crash, a flash newer than any epoch in the note would be
        // refused.
        let mut steps = vec![Step::WriteNote(starting)];
        if matches!(intent, Intent::Drain(_)) {
            steps.push(Step::WriteBack(begin));
            steps.extend(is_cleared.then_some(Step::Clear));
            steps.extend(&END[1..]);
        } else {
            let running = SideFile::running(superblock.owner(), epoch);
            // Rule 10: recovery may have read bytes that are only in caches. A power cut would take
            // them back after a client saw them.
            steps.extend([Step::SyncFlash, Step::SyncBacking, Step::ServeReads]);
            // Rule 11: the epoch, then the note. A note that runs ahead of the flash makes the flash
            // look like an old copy.
            steps.extend([Step::BeginEpoch(begin), Step::WriteNote(running), Step::Serve]);
            steps.extend(END);
        }
        Ok(Plan { steps, notice })
    }

    /// Check that the flash belongs to the backing store, by the note, or by what the flash says
    /// alone.
    fn check_pair(
        &self,
        contents: &Contents,
        intent: Intent,
    ) -> Result<Option<Notice>, SideFileError> {
        let refused = match SideFile::check(self.note, Some(contents)) {
            Ok(()) => return Ok(None),
            Err(error) => error,
        };
        if self.note.is_some() {
            return Err(refused);
        }
        if matches!(intent, Intent::Drain(DrainOptions { without_note: true, .. })) {
            return Ok(None);
        }
        // Nothing wrote to it since, neither alone nor with another cache.
        let is_untouched = self.likeness(contents) == Likeness::Same;
        if is_untouched { Ok(Some(Notice::NoteIsMissing)) } else { Err(refused) }
    }

    fn likeness(&self, contents: &Contents) -> Likeness {
        let (before_bytes, now_bytes) = (contents.superblock.backing_bytes, self.backing_bytes);
        if now_bytes < before_bytes {
            return Likeness::Shrunk;
        }
        let before = self.recorded(contents).and_then(|end| end.backing);
        match (before, self.backing) {
            (Some(before), Some(now)) => now.likeness(&before, now_bytes),
            _ if now_bytes > before_bytes => Likeness::Grown,
            _ => Likeness::Unknown,
        }
    }

    /// Return the pages of the flash that are kept, and the reason.
    fn keep(&self, contents: &Contents, intent: Intent) -> Result<(Keep, Likeness), SideFileError> {
        let likeness = self.likeness(contents);
        let has_dirty = contents.dirty_pages > 0;
        // An empty flash fits everything.
        if contents.held_pages == 0 {
            return Ok((Keep::All, likeness));
        }
        let draining = match intent {
            Intent::Drain(options) => Some(options),
            Intent::Serve | Intent::ForceInit => None,
        };
        let keep = match likeness {
            Likeness::Same | Likeness::Similar => Keep::All,
            Likeness::Copied | Likeness::Grown => Keep::Dirty,
            Likeness::Changed => {
                let is_accepted = draining.is_some_and(|options| options.despite_changes);
                if has_dirty && !is_accepted {
                    let dirty_pages = contents.dirty_pages;
                    return Err(SideFileError::ChangedBacking { dirty_pages });
                }
                Keep::Dirty
            }
            Likeness::Shrunk => {
                let fits = contents.dirty_end_bytes <= self.backing_bytes;
                if has_dirty && !(draining.is_some() && fits) {
                    return Err(SideFileError::ShrunkBacking {
                        found_bytes: contents.superblock.backing_bytes,
                        given_bytes: self.backing_bytes,
                        dirty_end_bytes: contents.dirty_end_bytes,
                    });
                }
                Keep::Dirty
            }
            // After a crash nothing is known, but the note says that the backing store must not be used
            // alone. Where it does not say so, that may have happened.
            Likeness::Unknown => {
                let is_noted_dirty = self.note.is_some_and(|note| note.has_dirty);
                if has_dirty || is_noted_dirty { Keep::All } else { Keep::Dirty }
            }
        };
        Ok((keep, likeness))
    }
}
