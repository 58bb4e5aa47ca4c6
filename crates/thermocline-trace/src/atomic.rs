//! Files that appear whole or not at all: a temporary file in the target's folder, renamed when it is
//! complete.

use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

use crate::error::TraceError;

/// How much is gathered before it is written.
const WRITE_BYTES: usize = 256 << 10;

/// A file in the folder of its target, which it replaces when it is complete.
#[derive(Debug)]
pub(crate) struct AtomicFile<'a> {
    target: &'a Path,
    file: NamedTempFile,
    buffer: Vec<u8>,
}

impl<'a> AtomicFile<'a> {
    pub(crate) fn create(target: &'a Path) -> Result<Self, TraceError> {
        let file = temporary(target)?;
        Ok(Self { target, file, buffer: Vec::with_capacity(WRITE_BYTES) })
    }

    /// Where to append; [`Self::drain`] must follow now and then.
    pub(crate) const fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Writes what was gathered, if it is enough.
    pub(crate) fn drain(&mut self) -> Result<(), TraceError> {
        if self.buffer.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    /// Writes everything and puts the file in its place.
    pub(crate) fn finish(mut self) -> Result<(), TraceError> {
        self.write()?;
        persist(self.file, self.target)
    }

    fn write(&mut self) -> Result<(), TraceError> {
        let written = self.file.write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(|source| cannot_write(self.target, source))
    }
}

/// Creates a file in the folder of `target` that vanishes unless [`persist`] renames it.
///
/// # Errors
/// [`TraceError::Io`] if `target` is a folder or a device, or if the file cannot be created.
pub fn temporary(target: &Path) -> Result<NamedTempFile, TraceError> {
    if target.exists() && !target.is_file() {
        let source = io::Error::other("it is no plain file: name a file to be written");
        return Err(cannot_write(target, source));
    }
    let folder = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".thermocline-");
    // As for any other new file, the umask decides.
    #[cfg(unix)]
    let builder = builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder).map_err(|source| cannot_write(target, source))
}

/// Makes a temporary file durable and renames it to `target`, which it replaces.
///
/// # Errors
/// [`TraceError::Io`] if the file cannot be synced or renamed.
pub fn persist(file: NamedTempFile, target: &Path) -> Result<(), TraceError> {
    file.as_file().sync_all().map_err(|source| cannot_write(target, source))?;
    file.persist(target).map_err(|error| cannot_write(target, error.error))?;
    Ok(())
}

fn cannot_write(target: &Path, source: io::Error) -> TraceError {
    TraceError::Io { path: target.to_owned(), action: "write", source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_takes_the_place_of_a_folder_or_a_device() {
        let folder = tempfile::tempdir().unwrap();
        for target in [folder.path(), Path::new("/dev/null")] {
            if target.exists() {
                let error = AtomicFile::create(target).unwrap_err();
                let reason = std::error::Error::source(&error).unwrap().to_string();
                assert!(reason.contains("no plain file"), "{error}: {reason}");
            }
        }
    }
}
