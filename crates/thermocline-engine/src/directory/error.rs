//! Errors of the directory of volumes.

use std::io;

use thiserror::Error;

use super::{FORMAT_OF_SCATTERED, VOLUME_NAME_BYTES_MAX, VOLUMES_MAX};

/// Reason why a directory cannot be read or changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The device fails.
    #[error("cannot access the flash: {0}")]
    Io(#[from] io::Error),
    /// Neither copy is intact.
    #[error(
        "both copies of the flash's directory of volumes are damaged: the places of the volumes are \
         lost; restore the backing stores from backups, or initialise the flash by force"
    )]
    Damaged,
    /// A later version made it.
    #[error(
        "the flash's directory of volumes has format {found}, this program reads formats up to \
         {FORMAT_OF_SCATTERED}: use the version that wrote it"
    )]
    Format {
        /// Format of the directory.
        found: u32,
    },
    /// A volume would be in too many places.
    #[error(
        "volume `{name}` would lie in more places of the flash than its directory can list: remove the volume and \
         add it with its new size"
    )]
    Scattered {
        /// Name of the volume.
        name: String,
    },
    /// A name is empty, too long or has control characters.
    #[error(
        "invalid volume name `{name}`: use 1 to {VOLUME_NAME_BYTES_MAX} bytes without control characters"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// Two volumes have one name.
    #[error("the flash has a volume `{name}` already: choose another name")]
    Duplicate {
        /// Name of the volume.
        name: String,
    },
    /// No volume has that name.
    #[error("the flash has no volume `{name}`; its volumes are: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Names of the volumes.
        known: String,
    },
    /// The directory is full.
    #[error("a flash holds at most {VOLUMES_MAX} volumes: remove one first")]
    TooMany,
    /// The flash has no free range of that size.
    #[error(
        "the flash has no room for volume `{name}`: it needs {wanted_bytes} bytes in one piece, and the \
         largest free piece has {free_bytes}; use a larger flash, or smaller volumes"
    )]
    NoRoom {
        /// Name of the volume.
        name: String,
        /// Size of the region, in bytes.
        wanted_bytes: u64,
        /// Size of the largest free piece, in bytes.
        free_bytes: u64,
    },
}
