//! The note beside a backing store: which cache has, or may have, newer bytes of it.
//!
//! A backing store whose newest bytes are on a flash must not be served alone, or with another cache.
//! The note is a small text file `<backing>.thermocline`. It is written, durably, before a cache may
//! hold dirty pages, and says so until they have been written back. The note of a block device is in a
//! directory that survives a restart of the machine; a backing store that is reached over a network
//! has its note on this machine, by the flash.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;
use uuid::Uuid;

use crate::driver::files::sync_folder_of;
use crate::epoch::End;
use crate::fingerprint::{Fingerprint, Mark};
use crate::format::EPOCH_LIMIT;
use crate::mirror::Noted;
use crate::offline::Contents;
use crate::operation::Member;

/// Contents of the note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SideFile {
    /// The cache.
    pub cache: Uuid,
    /// Number of starts of the cache.
    pub epoch: u64,
    /// `true` if its flash may have bytes that the backing store lacks.
    pub has_dirty: bool,
    /// The epoch of a later start that has begun, and has not served anything: the flash may be in it
    /// already. The notes of version 0.1 allow for any. Where the backing store was served without the
    /// flash, the last epoch before that.
    pub begins: Option<u64>,
    /// End of this start; `None` if it runs, or crashed, or if the backing store was served without
    /// the flash.
    pub end: Option<End>,
}

/// Reason why a backing store must not be served, or its note cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SideFileError {
    /// The file cannot be read or written.
    #[error("`{}`: {source}", path.display())]
    Io {
        /// The note.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file says something else.
    #[error(
        "`{}` is not a note of thermocline; if no cache belongs to the backing store, remove it",
        path.display()
    )]
    Unreadable {
        /// The note.
        path: PathBuf,
    },
    /// Another cache has newer bytes, or none was given.
    #[error(
        "cache {cache} has newer bytes of this backing store: serve it with its flash, drain that, or \
         give it up"
    )]
    Dirty {
        /// The cache.
        cache: Uuid,
    },
    /// The flash has pages, and nothing says that they are of this backing store.
    #[error(
        "the flash holds pages of another backing store: the note beside this one does not name \
         cache {cache}, or was removed; if they belong together, drain the flash without the note"
    )]
    OtherBacking {
        /// The cache.
        cache: Uuid,
    },
    /// The flash is older than the note: it was copied or restored, or was not there once.
    #[error(
        "this is an old copy of the flash, of start {found_epoch}, or the backing store was served \
         without it since: its bytes are not the newest; name the right flash, or give up what this \
         one holds"
    )]
    OldFlash {
        /// Epoch that the flash names.
        found_epoch: u64,
    },
    /// The note is older than the flash: it was copied or restored, with the backing store or alone.
    #[error(
        "this is an old copy of the backing store or of its note: the flash was started {found_epoch} \
         times, the note knows of {noted_epoch}; use the newest copy, or give up what the flash holds"
    )]
    OldBacking {
        /// Epoch that the flash names.
        found_epoch: u64,
        /// Epoch that the note names.
        noted_epoch: u64,
    },
    /// Another cache has newer bytes, so that this flash must not be set up by force.
    #[error(
        "the flash cannot be set up: it is not that of cache {cache}, which has newer bytes of the \
         backing store; give these up first, or name the right flash"
    )]
    DirtyElsewhere {
        /// The cache.
        cache: Uuid,
    },
    /// Something else wrote to the backing store since the last stop, and the flash has dirty
    /// pages.
    #[error(
        "something else wrote to the backing store after the last stop, and the flash holds \
         {dirty_pages} pages that are newer than what was there then: put the backing store back as it \
         was, write these pages over it, or give them up"
    )]
    ChangedBacking {
        /// Pages that only flash has.
        dirty_pages: u64,
    },
    /// The backing store is shorter than it was, and the flash has dirty pages.
    #[error(
        "the flash belongs to a backing store of {found_bytes} bytes, this one has {given_bytes}, and \
         pages up to byte {dirty_end_bytes} are newer on flash: write them back if they lie within; \
         otherwise make the backing store longer, or give them up"
    )]
    ShrunkBacking {
        /// Size that the flash names.
        found_bytes: u64,
        /// Size that was given.
        given_bytes: u64,
        /// End of the last dirty page.
        dirty_end_bytes: u64,
    },
    /// The device that should be the flash holds something else, or cannot be read.
    #[error(
        "this is not a flash of thermocline, or it cannot be read: check the path, or set it up as new"
    )]
    ForeignFlash,
}

impl SideFile {
    /// Return the path of the note beside a file. A backing store elsewhere, or a block device, has
    /// its note where the server's configuration says.
    pub fn path(backing: &Path) -> PathBuf {
        let mut name = backing.as_os_str().to_owned();
        name.push(".thermocline");
        name.into()
    }

    /// Read the note at a path, if there is one.
    ///
    /// # Errors
    /// If the file cannot be read or is not a note.
    pub fn load(note: &Path) -> Result<Option<Self>, SideFileError> {
        let path = note.to_owned();
        match fs::read_to_string(note) {
            Ok(text) => Self::parse(&text).map(Some).ok_or(SideFileError::Unreadable { path }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(SideFileError::Unreadable { path })
            }
            Err(source) => Err(SideFileError::Io { path, source }),
        }
    }

    /// Read what the note at a path says of a mirrored flash; `None` if there is no note, or it says nothing.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn noted(note: &Path) -> Result<Option<Noted>, SideFileError> {
        match fs::read_to_string(note) {
            Ok(text) => Ok(split_mirror(&text).1),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(SideFileError::Io { path: note.to_owned(), source }),
        }
    }

    /// Writes the note at a path, durably and at once.
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn store(&self, note: &Path) -> Result<(), SideFileError> {
        self.store_with(note, None)
    }

    /// Writes the note with what it says of a mirrored flash.
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub fn store_with(&self, note: &Path, noted: Option<Noted>) -> Result<(), SideFileError> {
        let path = note.to_owned();
        let mut new = path.clone().into_os_string();
        new.push(".new");
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&new)?;
            file.write_all((self.text() + &mirror_line(noted)).as_bytes())?;
            // The content before the name, and the folder before the caller goes on: a crash leaves one
            // note or the other, whole.
            file.sync_all()?;
            fs::rename(&new, &path)?;
            sync_folder_of(&path)
        };
        write().map_err(|source| SideFileError::Io { path: path.clone(), source })
    }

    /// Return the note for the time in which an engine serves the backing store with the flash.
    pub const fn running(cache: Uuid, epoch: u64) -> Self {
        Self { cache, epoch, has_dirty: true, begins: None, end: None }
    }

    /// Return the note after an orderly stop in that epoch.
    #[must_use]
    pub const fn ended(self, epoch: u64, has_dirty: bool, end: Option<End>) -> Self {
        Self { epoch, has_dirty, begins: None, end, ..self }
    }

    /// Return the note after the backing store was served without the flash, whose contents are
    /// outdated from then on.
    #[must_use]
    pub const fn without_flash(self) -> Self {
        let begins = Some(self.last_epoch());
        // No flash has an epoch as late as this, so none that holds pages is used again.
        Self { epoch: u64::MAX, has_dirty: false, begins, end: None, ..self }
    }

    /// Return `true` if the backing store needs no flash: it left the one that it had, and has everything.
    pub const fn has_left_flash(&self) -> bool {
        self.epoch == u64::MAX && !self.has_dirty
    }

    /// Return the last epoch that the note knows of: no later start takes the same.
    pub(crate) const fn last_epoch(&self) -> u64 {
        let noted = if self.epoch < EPOCH_LIMIT / 2 { self.epoch } else { 0 };
        match self.begins {
            Some(begun) if begun > noted && begun < EPOCH_LIMIT / 2 => begun,
            _ => noted,
        }
    }

    /// Check that a backing store with this note may be served: with a flash of these contents, or
    /// without any if there are none.
    ///
    /// # Errors
    /// If a flash has newer bytes, and it is not this one; if this one has pages of another backing
    /// store, or old ones, or newer ones than the note knows of.
    pub fn check(note: Option<Self>, flash: Option<&Contents>) -> Result<(), SideFileError> {
        let holds_pages = flash.is_some_and(|flash| flash.held_pages > 0);
        match (note, flash) {
            (Some(note), Some(flash)) if note.cache == flash.superblock.owner() => {
                note.check_epoch(flash)
            }
            (Some(Self { cache, has_dirty: true, .. }), _) => Err(SideFileError::Dirty { cache }),
            (_, Some(flash)) if holds_pages => {
                Err(SideFileError::OtherBacking { cache: flash.superblock.owner() })
            }
            _ => Ok(()),
        }
    }

    /// Check that the note and its flash come from the same time.
    fn check_epoch(self, flash: &Contents) -> Result<(), SideFileError> {
        let superblock = &flash.superblock;
        let holds_pages = flash.held_pages > 0;
        let (found_epoch, noted_epoch) = (superblock.epoch, self.epoch);
        // A copy that was made while the start ran has the same epoch. Only the end tells the two
        // apart.
        let is_another_end =
            found_epoch == noted_epoch && self.end.is_some() && self.end != superblock.end;
        if (found_epoch < noted_epoch || is_another_end) && (holds_pages || self.has_dirty) {
            return Err(SideFileError::OldFlash { found_epoch });
        }
        // The note need not name epochs that the flash gave up.
        let is_harmless = !holds_pages && (superblock.is_given_up || !self.has_dirty);
        if found_epoch > self.begins.unwrap_or(noted_epoch) && !is_harmless {
            return Err(SideFileError::OldBacking { found_epoch, noted_epoch });
        }
        Ok(())
    }

    fn text(&self) -> String {
        let state = if self.has_dirty { "dirty" } else { "clean" };
        let mut text =
            format!("thermocline 2\ncache {}\nepoch {}\n{state}\n", self.cache, self.epoch);
        if let Some(epoch) = self.begins {
            text += &format!("begins {epoch}\n");
        }
        if let Some(end) = self.end {
            text += &format!("end {}\n", end.next_sequence);
            if let Some(backing) = end.backing {
                text += &format!("backing {} {:08x}\n", backing.size_bytes, backing.sample);
                text += &match backing.mark {
                    Mark::None => String::new(),
                    Mark::File { inode, modified_ns } => format!("file {inode} {modified_ns}\n"),
                    Mark::Device { session, written_sectors } => {
                        format!("device {session:016x} {written_sectors}\n")
                    }
                };
            }
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let (text, _) = split_mirror(text);
        let mut lines = text.lines().peekable();
        let is_former = match lines.next()? {
            "thermocline 1" => true,
            "thermocline 2" => false,
            _ => return None,
        };
        let cache = lines.next()?.strip_prefix("cache ")?.parse().ok()?;
        let epoch = lines.next()?.strip_prefix("epoch ")?.parse().ok()?;
        let has_dirty = match lines.next()? {
            "dirty" => true,
            "clean" => false,
            _ => return None,
        };
        // Version 0.1 wrote the note after the flash had begun an epoch.
        let begins = match lines.next_if(|line| line.starts_with("begins ")) {
            Some(line) => Some(line.strip_prefix("begins ")?.parse().ok()?),
            None => is_former.then_some(u64::MAX),
        };
        let end = match lines.next() {
            Some(line) => Some(End {
                next_sequence: line.strip_prefix("end ")?.parse().ok()?,
                backing: match lines.next() {
                    Some(line) => Some(parse_backing(line, lines.next())?),
                    None => None,
                },
            }),
            None => None,
        };
        let is_former_whole = end.is_none() && begins == Some(u64::MAX);
        let is_whole = lines.next().is_none() && (!is_former || is_former_whole);
        is_whole.then_some(Self { cache, epoch, has_dirty, begins, end })
    }
}

/// Return the last line of the note of a mirrored flash.
fn mirror_line(noted: Option<Noted>) -> String {
    noted.map_or_else(String::new, |Noted { generation, alone }| match alone {
        None => format!("mirror {generation}\n"),
        Some(Member::First) => format!("mirror {generation} first\n"),
        Some(Member::Second) => format!("mirror {generation} second\n"),
    })
}

/// Return a note without that line, and what the line says.
fn split_mirror(text: &str) -> (&str, Option<Noted>) {
    let parse = || {
        let before = text.strip_suffix('\n')?;
        let start = before.rfind('\n')? + 1;
        let said = before[start..].strip_prefix("mirror ")?;
        let (generation, alone) = match said.split_once(' ') {
            None => (said, None),
            Some((generation, "first")) => (generation, Some(Member::First)),
            Some((generation, "second")) => (generation, Some(Member::Second)),
            Some(_) => return None,
        };
        Some((start, Noted { generation: generation.parse().ok()?, alone }))
    };
    parse().map_or((text, None), |(start, noted)| (&text[..start], Some(noted)))
}

/// Return a fingerprint from its line, and the line of its mark if there is one.
fn parse_backing(line: &str, mark: Option<&str>) -> Option<Fingerprint> {
    let (size, sample) = line.strip_prefix("backing ")?.split_once(' ')?;
    let mark = match mark.map(|line| line.split(' ').collect::<Vec<_>>()).as_deref() {
        None => Mark::None,
        Some(["file", inode, modified]) => {
            Mark::File { inode: inode.parse().ok()?, modified_ns: modified.parse().ok()? }
        }
        Some(["device", session, written]) => Mark::Device {
            session: u64::from_str_radix(session, 16).ok()?,
            written_sectors: written.parse().ok()?,
        },
        Some(_) => return None,
    };
    let sample = u32::from_str_radix(sample, 16).ok()?;
    Some(Fingerprint { size_bytes: size.parse().ok()?, sample, mark })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_what_was_written() {
        let cache = Uuid::from_u128(5);
        let marks = [
            Mark::None,
            Mark::File { inode: 3, modified_ns: u64::MAX },
            Mark::Device { session: u64::MAX - 1, written_sectors: 0 },
        ];
        let backings = marks.map(|mark| Fingerprint { size_bytes: 4096, sample: 0xab, mark });
        let ends = backings
            .map(|backing| Some(End { next_sequence: 9, backing: Some(backing) }))
            .into_iter()
            .chain([None, Some(End { next_sequence: 9, backing: None })]);
        for end in ends {
            for (has_dirty, begins) in [(false, None), (false, Some(8)), (true, Some(9))] {
                let note = SideFile { cache, epoch: 7, has_dirty, begins, end };
                assert_eq!(SideFile::parse(&note.text()), Some(note), "{}", note.text());
                for alone in [None, Some(Member::First), Some(Member::Second)] {
                    let noted = Noted { generation: 12, alone };
                    let text = note.text() + &mirror_line(Some(noted));
                    assert_eq!(SideFile::parse(&text), Some(note), "{text}");
                    assert_eq!(split_mirror(&text).1, Some(noted), "{text}");
                }
                // A part of a note is none, or says less; more than a note is none.
                assert_eq!(SideFile::parse(&(note.text() + "more\n")), None);
            }
        }
    }

    #[test]
    fn the_notes_of_version_0_1_are_read() {
        let cache = Uuid::from_u128(5);
        let text = |rest: &str| format!("thermocline 1\ncache {cache}\nepoch 7\n{rest}");
        let expected =
            SideFile { cache, epoch: 7, has_dirty: true, begins: Some(u64::MAX), end: None };
        assert_eq!(SideFile::parse(&text("dirty\n")), Some(expected));
        let clean = SideFile { has_dirty: false, ..expected };
        assert_eq!(SideFile::parse(&text("clean\n")), Some(clean));
        for rest in ["", "dirty\nend 1\n", "dirty\nbegins 8\n", "tidy\n"] {
            assert_eq!(SideFile::parse(&text(rest)), None, "{rest}");
        }
    }
}
