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
use crate::offline::Contents;

/// What the note says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SideFile {
    /// The cache.
    pub cache: Uuid,
    /// How often the cache had been started.
    pub epoch: u64,
    /// Whether its flash may have bytes that the backing store lacks.
    pub has_dirty: bool,
}

/// Why a backing store must not be served, or its note cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SideFileError {
    /// The file cannot be read or written.
    #[error("`{}`: {source}", path.display())]
    Io {
        /// The note.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file says something else.
    #[error(
        "`{}` is no note of thermocline; if no cache belongs to the backing store, remove it",
        path.display()
    )]
    Unreadable {
        /// The note.
        path: PathBuf,
    },
    /// Another cache has newer bytes, or none was given.
    #[error(
        "cache {cache} has newer bytes of this backing store: serve it with its flash, drain that, or \
         give it up with `thermocline cache forget --backing`"
    )]
    Dirty {
        /// The cache.
        cache: Uuid,
    },
    /// The flash has pages, and nothing says that they are of this backing store.
    #[error(
        "the flash holds pages of another backing store: the note beside this one does not name \
         cache {cache}, or was removed; if they belong together, drain it with \
         `thermocline cache drain --without-note`"
    )]
    OtherBacking {
        /// The cache.
        cache: Uuid,
    },
    /// The flash is older than the note: it was copied or restored, or was not there once.
    #[error(
        "this is an old copy of the flash, of start {found_epoch}, or the backing store was served \
         without it since: its bytes are not the newest; --force-init gives up what it holds"
    )]
    OldFlash {
        /// What the flash says.
        found_epoch: u64,
    },
}

impl SideFile {
    /// The note beside a file. A backing store elsewhere, or a block device, has its note where
    /// whoever serves it says.
    pub fn path(backing: &Path) -> PathBuf {
        let mut name = backing.as_os_str().to_owned();
        name.push(".thermocline");
        name.into()
    }

    /// What the note at a path says, if there is one.
    ///
    /// # Errors
    /// A file that cannot be read, or that is no note.
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

    /// Writes the note at a path, durably and at once.
    ///
    /// # Errors
    /// What the system says.
    pub fn store(&self, note: &Path) -> Result<(), SideFileError> {
        let path = note.to_owned();
        let mut new = path.clone().into_os_string();
        new.push(".new");
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&new)?;
            file.write_all(self.text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            sync_folder_of(&path)
        };
        write().map_err(|source| SideFileError::Io { path: path.clone(), source })
    }

    /// What the note says when the backing store was served without the flash: whatever that holds
    /// is too old from then on.
    #[must_use]
    pub const fn without_flash(self) -> Self {
        Self { epoch: u64::MAX, has_dirty: false, ..self }
    }

    /// Whether a backing store with this note may be served: with a flash of these contents, or
    /// without any if there are none.
    ///
    /// # Errors
    /// If a flash has newer bytes, and it is not this one; if this one has pages of another backing
    /// store, or old ones.
    pub fn check(note: Option<Self>, flash: Option<&Contents>) -> Result<(), SideFileError> {
        let found = flash.map(|flash| (flash.superblock.cache, flash.superblock.epoch));
        let holds_pages = flash.is_some_and(|flash| flash.held_pages > 0);
        match (note, found) {
            (Some(note), Some((cache, found_epoch))) if note.cache == cache => {
                if found_epoch < note.epoch && (holds_pages || note.has_dirty) {
                    return Err(SideFileError::OldFlash { found_epoch });
                }
                Ok(())
            }
            (Some(Self { cache, has_dirty: true, .. }), _) => Err(SideFileError::Dirty { cache }),
            (_, Some((cache, _))) if holds_pages => Err(SideFileError::OtherBacking { cache }),
            _ => Ok(()),
        }
    }

    fn text(&self) -> String {
        let state = if self.has_dirty { "dirty" } else { "clean" };
        format!("thermocline 1\ncache {}\nepoch {}\n{state}\n", self.cache, self.epoch)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        (lines.next()? == "thermocline 1").then_some(())?;
        let cache = lines.next()?.strip_prefix("cache ")?.parse().ok()?;
        let epoch = lines.next()?.strip_prefix("epoch ")?.parse().ok()?;
        let has_dirty = match lines.next()? {
            "dirty" => true,
            "clean" => false,
            _ => return None,
        };
        lines.next().is_none().then_some(Self { cache, epoch, has_dirty })
    }
}
