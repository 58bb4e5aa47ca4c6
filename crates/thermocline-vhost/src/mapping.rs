//! Memory that a monitor hands over as a file.

use std::fs::File;
use std::io;

use vm_memory::{FileOffset, MmapRegion};

/// Maps a part of a file.
///
/// # Errors
/// If the regular file is shorter: memory beyond its end would kill the process that reads it.
pub(crate) fn map(file: File, offset: u64, bytes: u64) -> io::Result<MmapRegion> {
    let about = file.metadata()?;
    let end = offset.checked_add(bytes);
    if about.is_file() && end.is_none_or(|end| end > about.len()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the file is shorter than that"));
    }
    let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
    MmapRegion::from_file(FileOffset::new(file, offset), bytes).map_err(io::Error::other)
}
