//! Files of text that appear whole or not at all.

use std::io::Write as _;
use std::path::Path;

use crate::LabError;

/// Write a text to a file, in place of one that is there.
///
/// # Errors
/// [`LabError::File`] if the file cannot be written; nothing has changed then.
pub fn write_file(path: &Path, text: &str) -> Result<(), LabError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let failed =
        |error: std::io::Error| LabError::file(path, format!("it cannot be written: {error}"));
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // The mask of the process takes its share, as for any other file.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}
