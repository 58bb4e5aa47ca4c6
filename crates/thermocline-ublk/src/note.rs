//! Note in a file for the next server: answers that no flush covered.
//!
//! The device lives as long as the kernel, so the file belongs to a file system in memory, such as `/run`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use thermocline_nbd::durability::Note;

const FLUSHED: u8 = b'0';
const UNFLUSHED: u8 = b'1';

/// The file of a device.
#[derive(Debug)]
pub(crate) struct NoteFile(File);

impl NoteFile {
    /// Opens the file, and says what it says of a device that a killed server left. Of a file that says
    /// nothing, that writes may be lost.
    pub(crate) fn open(path: &Path, is_new_device: bool) -> io::Result<(Self, bool)> {
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        let mut byte = [UNFLUSHED];
        let length = file.read_at(&mut byte, 0)?;
        let is_unflushed = !is_new_device && (length == 0 || byte != [FLUSHED]);
        file.write_all_at(&[if is_unflushed { UNFLUSHED } else { FLUSHED }], 0)?;
        Ok((Self(file), is_unflushed))
    }
}

impl Note for NoteFile {
    fn set_unflushed(&self, is_unflushed: bool) {
        let byte = if is_unflushed { UNFLUSHED } else { FLUSHED };
        if let Err(error) = self.0.write_all_at(&[byte], 0) {
            tracing::error!(%error, "cannot write the note of the ublk device");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_says_nothing_means_doubt() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("note");
        let is_unflushed = |is_new| NoteFile::open(&path, is_new).unwrap().1;
        assert!(is_unflushed(false), "the file was missing");
        assert!(is_unflushed(false), "and nobody flushed since");
        assert!(!is_unflushed(true));
        assert!(!is_unflushed(false));
        NoteFile::open(&path, false).unwrap().0.set_unflushed(true);
        assert!(is_unflushed(false));
        NoteFile::open(&path, false).unwrap().0.set_unflushed(false);
        assert!(!is_unflushed(false));
    }
}
