//! Files of text that appear whole or not at all.

use std::path::Path;

use thermocline_trace::atomic;

use crate::LabError;

/// Write a text to a file, in place of one that is there, compressed if its name ends in `.gz` or `.zst`.
///
/// # Errors
/// If the file cannot be written; nothing has changed then.
pub fn write_file(path: &Path, text: &str) -> Result<(), LabError> {
    Ok(atomic::write_text(path, text)?)
}
