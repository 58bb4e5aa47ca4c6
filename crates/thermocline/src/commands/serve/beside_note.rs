//! Files beside a volume's note: they outlive the server.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::note::NotePlace;

/// Return the path of the file with this ending beside a note.
pub(super) fn path(note: &NotePlace, ending: &str) -> PathBuf {
    let mut path = note.path().as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// Writes a file in place of the former one, durably: a crash leaves one of the two, whole.
///
/// # Errors
/// If the operating system reports one; the former file stays then.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
