//! Where a backing store is: a file or block device, or an export of another NBD server.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thermocline_engine::SideFile;
use thermocline_nbd::uri::{NbdUri, UriError};

/// Where a backing store is.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A file or block device.
    File(PathBuf),
    /// An export.
    Nbd(NbdUri),
}

impl Place {
    /// Where its note is: where it is said to be, beside a file, or else beside the flash; an export
    /// without a flash has none.
    pub(crate) fn note(&self, said: Option<&Path>, flash: Option<&Path>) -> Option<PathBuf> {
        match (said, self) {
            (Some(said), _) => Some(said.to_owned()),
            (None, Self::File(path)) => Some(SideFile::path(path)),
            (None, Self::Nbd(_)) => flash.map(SideFile::path),
        }
    }

    /// The key of a configuration that says so.
    pub(crate) const fn key(&self) -> &'static str {
        match self {
            Self::File(_) => "backing.path",
            Self::Nbd(_) => "backing.nbd",
        }
    }
}

/// On a command line, what has a scheme is an address.
impl FromStr for Place {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        if text.contains("://") { text.parse().map(Self::Nbd) } else { Ok(Self::File(text.into())) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Nbd(uri) => uri.server.fmt(f),
        }
    }
}
