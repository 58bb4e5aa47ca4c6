//! Files of the kernel, each with one value or one table.

use std::fs;
use std::io;
use std::path::Path;

use super::error::InstalledError;

/// Read a file without the blanks around its value.
pub(super) fn read_text(path: &Path) -> Result<String, InstalledError> {
    let bytes = fs::read(path).map_err(|error| failure(path, error))?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// List the names in a folder, in order.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, InstalledError> {
    let mut names = vec![];
    for entry in fs::read_dir(folder).map_err(|error| failure(folder, error))? {
        let entry = entry.map_err(|error| failure(folder, error))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// Check if a path exists.
pub(super) fn exists(path: &Path) -> Result<bool, InstalledError> {
    path.try_exists().map_err(|error| failure(path, error))
}

/// Make an error of a path.
pub(super) fn failure(path: &Path, error: io::Error) -> InstalledError {
    if error.kind() == io::ErrorKind::PermissionDenied {
        InstalledError::Denied { place: path.display().to_string() }
    } else {
        InstalledError::Unreadable { path: path.to_owned(), source: error }
    }
}
