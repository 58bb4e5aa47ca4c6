//! Location of a backing store: a file or block device, or an export of another NBD server.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Result;
use thermocline_nbd::uri::{NbdUri, UriError};

use crate::note::NotePlace;

/// Location of a backing store.
#[derive(Clone, Debug)]
pub(crate) enum BackingLocation {
    /// A file or block device.
    File(PathBuf),
    /// An export.
    Nbd(NbdUri),
}

impl BackingLocation {
    /// Return the location of its note: the given one, that of the file or block device, or else
    /// the flash; an export without a flash has none.
    ///
    /// # Errors
    /// If the device does not exist, or a block device has no state directory.
    pub(crate) fn note(
        &self,
        said: Option<&Path>,
        flash: Option<&Path>,
        state_dir: Option<&Path>,
    ) -> Result<Option<NotePlace>> {
        let device = match (said, self) {
            (Some(said), _) => return Ok(Some(NotePlace::at(said))),
            (None, Self::File(path)) => Some(path.as_path()),
            (None, Self::Nbd(_)) => flash,
        };
        device.map(|device| NotePlace::of(device, state_dir)).transpose()
    }

    /// Return the key of a configuration that says so.
    pub(crate) const fn key(&self) -> &'static str {
        match self {
            Self::File(_) => "backing.path",
            Self::Nbd(_) => "backing.nbd",
        }
    }
}

/// Parses a word of a command line: with a scheme it is an address.
impl FromStr for BackingLocation {
    type Err = UriError;

    fn from_str(text: &str) -> std::result::Result<Self, UriError> {
        if text.contains("://") { text.parse().map(Self::Nbd) } else { Ok(Self::File(text.into())) }
    }
}

impl fmt::Display for BackingLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Nbd(uri) => uri.server.fmt(f),
        }
    }
}
