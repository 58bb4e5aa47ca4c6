//! What lies beside a recording: its file table and its statistics.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::TraceError;
use crate::file_table::FileTable;
use crate::input::Input;
use crate::request::PageSize;

/// What compressed variants of a file are called.
const EXTENSIONS: [&str; 5] = ["", ".zst", ".xz", ".gz", ".bz2"];

/// The name of a file beside a recording, and the recording's own compression extension.
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

/// The path of the file table of the recording `path`: beside it, compressed like it.
pub fn table_path(path: &Path) -> PathBuf {
    let (plain, extension) = sibling(path, ".files.csv");
    with_extension(&plain, &extension)
}

/// The path of the statistics of the recording `path`: beside it, never compressed.
pub fn stats_path(path: &Path) -> PathBuf {
    sibling(path, ".stats.json").0
}

/// A trace's file, and if it is a recording, its file table and statistics, as far as they are there.
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

/// The file table beside a recording, compressed or not, if there is one.
fn table_beside(path: &Path) -> Option<PathBuf> {
    let (plain, _) = sibling(path, ".files.csv");
    let candidates = EXTENSIONS.iter().map(|extension| with_extension(&plain, extension));
    candidates.into_iter().find(|candidate| candidate.is_file())
}

/// The file table beside a recording. `beside` is where the recording is, if it is a file.
pub(crate) fn table_of(path: &Path, beside: Option<&Path>) -> Result<FileTable, TraceError> {
    let Some(found) = beside.and_then(|_| table_beside(path)) else {
        let expected = table_path(path);
        return Err(TraceError::MissingFileTable { path: path.to_owned(), expected });
    };
    let mut input = Input::open(&found)?;
    while input.fill()? {}
    FileTable::parse(found, input.available())
}

/// What is stated beside a recording, and where; none if there is no such file.
pub(crate) fn stats_of(path: &Path) -> Result<Option<(PathBuf, serde_json::Value)>, TraceError> {
    let stats = stats_path(path);
    if !stats.is_file() {
        return Ok(None);
    }
    let file = File::open(&stats).map_err(|source| TraceError::Io {
        path: stats.clone(),
        action: "open",
        source,
    })?;
    match serde_json::from_reader(std::io::BufReader::new(file)) {
        Ok(value) => Ok(Some((stats, value))),
        Err(error) => Err(TraceError::Content { path: stats, reason: error.to_string() }),
    }
}

/// The page size stated beside a recording.
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
