//! Memory that a monitor hands over as a file.

use std::fs::File;
use std::io;

use vm_memory::{FileOffset, MmapRegion};

/// Maps a part of a file.
///
/// # Errors
/// A regular file that is shorter: memory behind its end would end the process that looks at it.
pub(crate) fn map(file: File, offset: u64, bytes: u64) -> io::Result<MmapRegion> {
    let about = file.metadata()?;
    let end = offset.checked_add(bytes);
    if about.is_file() && end.is_none_or(|end| end > about.len()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the file is shorter than that"));
    }
    let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
    MmapRegion::from_file(FileOffset::new(file, offset), bytes).map_err(io::Error::other)
}
