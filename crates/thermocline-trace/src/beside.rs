//! Files beside a recording: its file table and its statistics.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::TraceError;
use crate::file_table::FileTable;
use crate::input::Input;
use crate::remote;
use crate::request::PageSize;

/// Suffixes of a file's compressed variants.
const EXTENSIONS: [&str; 5] = ["", ".zst", ".xz", ".gz", ".bz2"];

/// Return the name of a file beside a recording, and the recording's own compression extension.
fn sibling(path: &Path, ending: &str) -> (PathBuf, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let extension =
        EXTENSIONS.iter().rev().find(|extension| name.ends_with(**extension)).unwrap_or(&"");
    let stem = name.strip_suffix(extension).unwrap_or(&name);
    let stem = stem.strip_suffix(".csv").unwrap_or(stem);
    (path.with_file_name(format!("{stem}{ending}")), (*extension).to_owned())
}

fn with_extension(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(extension);
    PathBuf::from(name)
}

/// Return the path of the file table of the recording `path`: beside it, compressed like it.
pub fn table_path(path: &Path) -> PathBuf {
    let (plain, extension) = sibling(path, ".files.csv");
    with_extension(&plain, &extension)
}

/// Return the path of the statistics of the recording `path`: beside it, never compressed.
pub fn stats_path(path: &Path) -> PathBuf {
    sibling(path, ".stats.json").0
}

/// Return a trace's file, and if it is a recording, its file table and statistics, as far as they
/// are there.
///
/// ```
/// # use std::path::Path;
/// # use thermocline_trace::recording_files;
/// assert_eq!(recording_files(Path::new("alone.csv")), [Path::new("alone.csv")]);
/// ```
pub fn recording_files(path: &Path) -> Vec<PathBuf> {
    let beside = table_beside(path).into_iter().chain([stats_path(path)]);
    [path.to_owned()].into_iter().chain(beside.filter(|path| path.is_file())).collect()
}

/// Return the file table beside a recording, compressed or not, if there is one.
fn table_beside(path: &Path) -> Option<PathBuf> {
    let (plain, _) = sibling(path, ".files.csv");
    let candidates = EXTENSIONS.iter().map(|extension| with_extension(&plain, extension));
    candidates.into_iter().find(|candidate| candidate.is_file())
}

/// Return the file table beside a recording. `beside` is where the recording is, if it is a file.
pub(crate) fn table_of(path: &Path, beside: Option<&Path>) -> Result<FileTable, TraceError> {
    let missing = || {
        let expected = table_path(path);
        TraceError::MissingFileTable { path: path.to_owned(), expected }
    };
    let mut input = match (beside, remote::address(path)) {
        (None, _) => return Err(missing()),
        (Some(_), Some(_)) => table_at_address(path)?.ok_or_else(missing)?,
        (Some(_), None) => Input::open(&table_beside(path).ok_or_else(missing)?)?,
    };
    while input.fill()? {}
    FileTable::parse(input.path().to_owned(), input.available())
}

/// Opens the file table beside a recording that lies elsewhere, if there is one: compressed like it,
/// or else in any other way.
fn table_at_address(path: &Path) -> Result<Option<Input>, TraceError> {
    let (plain, _) = sibling(path, ".files.csv");
    let others = EXTENSIONS.iter().map(|extension| with_extension(&plain, extension));
    let expected = table_path(path);
    for candidate in [expected.clone()].into_iter().chain(others.filter(|other| *other != expected))
    {
        if let Some(input) = open_if_there(&candidate)? {
            return Ok(Some(input));
        }
    }
    Ok(None)
}

/// Opens a file or an object, if there is one.
fn open_if_there(path: &Path) -> Result<Option<Input>, TraceError> {
    match Input::open(path) {
        Ok(input) => Ok(Some(input)),
        Err(TraceError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Read the statistics beside a recording, with their path; `None` if there is no such file.
pub(crate) fn stats_of(path: &Path) -> Result<Option<(PathBuf, serde_json::Value)>, TraceError> {
    let stats = stats_path(path);
    if remote::address(path).is_none() && !stats.is_file() {
        return Ok(None);
    }
    let Some(mut input) = open_if_there(&stats)? else { return Ok(None) };
    while input.fill()? {}
    match serde_json::from_slice(input.available()) {
        Ok(value) => Ok(Some((stats, value))),
        Err(error) => Err(TraceError::Content { path: stats, reason: error.to_string() }),
    }
}

/// Return the page size stated beside a recording.
pub(crate) fn page_size_of(path: &Path) -> Result<Option<PageSize>, TraceError> {
    let Some((path, stats)) = stats_of(path)? else { return Ok(None) };
    match stats.get("page_size").map(|size| (size, size.as_u64())) {
        None => Ok(None),
        Some((_, Some(page_size_bytes))) => PageSize::new(page_size_bytes).map(Some),
        Some((size, None)) => {
            let reason = format!("page_size is {size}, not a number of bytes");
            Err(TraceError::Content { path, reason })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_recording_has_a_table_compressed_like_it() {
        let (expected, extension) = sibling(Path::new("d/NAME.csv.zst"), ".files.csv");
        assert_eq!((expected.to_str(), extension.as_str()), (Some("d/NAME.files.csv"), ".zst"));
    }
}
