//! Recordings of real programs: page requests to files, beside a table of the files.
//!
//! * `NAME.csv`: first line `timestamp_us,op,file_id,page_no,pages,flags`, then one request a line:
//!   `pages` consecutive pages from `page_no` of a file. Flags (`l` log file, `t` temporary, `x`
//!   other, `p` part of a page, `h` hit in the program's own cache) are ignored.
//! * `NAME.files.csv`: first line `file_id,base_page,extent_pages,class,read_pages,write_pages,path`,
//!   then one file a line, with consecutive ids from 0. The page number of a request is its file's
//!   `base_page` + `page_no`: one volume, in which the pages of a file are adjacent.
//! * `NAME.stats.json`: its `page_size` is the page size in bytes.
//! * Each may be compressed, with the usual extension behind the name.

use std::fs::File;
use std::path::{Path, PathBuf};

use thermocline_core::Nanos;

use crate::decode::{Line, TextFormat};
use crate::error::{Position, Reason, TraceError, excerpt};
use crate::input::Input;
use crate::request::{PageSize, Request};
use crate::text::{Fields, ONLY_VOLUME, integer, letter_op, pages, time};
use crate::volumes::Volumes;

pub(crate) const HEADER: &[u8] = b"timestamp_us,op,file_id,page_no,pages,flags";
pub(crate) const TABLE_HEADER: &[u8] =
    b"file_id,base_page,extent_pages,class,read_pages,write_pages,path";

/// What compressed variants of a file are called.
const EXTENSIONS: [&str; 5] = ["", ".zst", ".xz", ".gz", ".bz2"];

/// One file of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileEntry {
    /// The number of its first page in the trace.
    pub base_page: u64,
    /// How many page numbers belong to it.
    pub extent_pages: u64,
    /// What kind of file it is: "data", "log", ...
    pub class: String,
    /// Page reads in the whole recording.
    pub read_pages: u64,
    /// Page writes in the whole recording.
    pub write_pages: u64,
    /// Its name.
    pub path: String,
}

/// The files of a recording, in the order of their ids and of their pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTable {
    files: Vec<FileEntry>,
}

impl FileTable {
    /// Understands a file table; `name` stands for it in messages.
    ///
    /// # Errors
    /// If a line is malformed, or if files overlap.
    pub fn parse(name: impl Into<PathBuf>, text: &[u8]) -> Result<Self, TraceError> {
        let path = name.into();
        let mut table = Self::default();
        let lines = text.strip_suffix(b"\n").unwrap_or(text).split(|&byte| byte == b'\n');
        for (number, line) in (1..).zip(lines) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let understood = if number > 1 {
                table.add(line)
            } else if line == TABLE_HEADER {
                Ok(())
            } else {
                Err("a file table begins with file_id,base_page,extent_pages,...".into())
            };
            understood.map_err(|reason| TraceError::Malformed {
                path: path.clone(),
                position: Position::Line(number),
                reason,
                text: excerpt(line),
            })?;
        }
        Ok(table)
    }

    /// All files; a file's id is its index.
    pub fn files(&self) -> &[FileEntry] {
        &self.files
    }

    /// The file to which a page number of the trace belongs.
    pub fn file_of(&self, page_number: u64) -> Option<&FileEntry> {
        let after = self.files.partition_point(|file| file.base_page <= page_number);
        let file = self.files[..after].iter().rev().find(|file| file.extent_pages > 0)?;
        (page_number - file.base_page < file.extent_pages).then_some(file)
    }

    fn add(&mut self, line: &[u8]) -> Result<(), Reason> {
        let mut fields = Fields::new(line);
        let file_id = integer(fields.until(b',', "file_id")?, "file_id")?;
        if file_id != self.files.len() as u64 {
            return Err("file ids are not consecutive from 0".into());
        }
        let base_page = integer(fields.until(b',', "base_page")?, "base_page")?;
        let extent_pages = integer(fields.until(b',', "extent_pages")?, "extent_pages")?;
        let class = String::from_utf8_lossy(fields.until(b',', "class")?).into_owned();
        let read_pages = integer(fields.until(b',', "read_pages")?, "read_pages")?;
        let write_pages = integer(fields.until(b',', "write_pages")?, "write_pages")?;
        let end_page = self.files.last().map_or(0, |file| file.base_page + file.extent_pages);
        if base_page < end_page {
            return Err("the file overlaps the one before".into());
        }
        if base_page.checked_add(extent_pages).is_none() {
            return Err("the extent_pages are too large".into());
        }
        let path = unquoted(fields.rest())?;
        self.files.push(FileEntry {
            base_page,
            extent_pages,
            class,
            read_pages,
            write_pages,
            path,
        });
        Ok(())
    }
}

/// A CSV field that may be quoted; quotes inside are doubled.
fn unquoted(field: &[u8]) -> Result<String, Reason> {
    let text = String::from_utf8_lossy(field);
    let Some(rest) = text.strip_prefix('"') else { return Ok(text.into_owned()) };
    let inner = rest.strip_suffix('"').ok_or("the path's closing quote is missing")?;
    Ok(inner.replace("\"\"", "\""))
}

#[derive(Debug)]
pub(crate) struct Recording {
    has_header: bool,
    table: Option<std::sync::Arc<FileTable>>,
}

impl Recording {
    pub(crate) const fn new(table: std::sync::Arc<FileTable>) -> Self {
        Self { has_header: false, table: Some(table) }
    }

    /// A parser that takes every file for known: for recognising the format.
    pub(crate) const fn without_table() -> Self {
        Self { has_header: false, table: None }
    }

    fn base_page(&self, file_id: u64, end_page: u64) -> Result<u64, Reason> {
        let Some(table) = &self.table else { return Ok(0) };
        let Some(file) = usize::try_from(file_id).ok().and_then(|id| table.files.get(id)) else {
            return Err("the file is not in the file table".into());
        };
        if end_page > file.extent_pages {
            let extent_pages = file.extent_pages;
            return Err(format!("the file has {extent_pages} pages in the file table").into());
        }
        Ok(file.base_page)
    }
}

impl TextFormat for Recording {
    #[inline]
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        if !self.has_header {
            return if line == HEADER {
                self.has_header = true;
                Ok(Line::Header)
            } else {
                Err("the first line must be timestamp_us,op,file_id,page_no,pages,flags".into())
            };
        }
        let mut fields = Fields::new(line);
        let at = Nanos(time(fields.until(b',', "timestamp_us")?, "timestamp_us", 3)?);
        let op = letter_op(fields.until(b',', "op")?)?;
        let file_id = integer(fields.until(b',', "file_id")?, "file_id")?;
        let page_number = integer(fields.until(b',', "page_no")?, "page_no")?;
        let count = integer(fields.until(b',', "pages")?, "pages")?;
        let flags = fields.until(b',', "flags")?;
        if !flags.iter().all(u8::is_ascii_alphabetic) {
            return Err("the flags are not letters".into());
        }
        fields.end()?;
        let base_page = self.base_page(file_id, page_number.saturating_add(count))?;
        let extent = pages(base_page.saturating_add(page_number), count)?;
        Ok(Line::Request(Request { at, op, volume: volumes.number(ONLY_VOLUME), extent }))
    }
}

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

/// Where the file table of a recording belongs, compressed like the recording.
pub(crate) fn table_path(path: &Path) -> PathBuf {
    let (plain, extension) = sibling(path, ".files.csv");
    with_extension(&plain, &extension)
}

/// Where the statistics of a recording belong.
pub(crate) fn stats_path(path: &Path) -> PathBuf {
    sibling(path, ".stats.json").0
}

/// The file table beside a recording. `beside` is where the recording is, if it is a file.
pub(crate) fn table_of(path: &Path, beside: Option<&Path>) -> Result<FileTable, TraceError> {
    let (plain, _) = sibling(path, ".files.csv");
    let found = EXTENSIONS
        .iter()
        .map(|extension| with_extension(&plain, extension))
        .find(|candidate| beside.is_some() && candidate.is_file());
    let Some(found) = found else {
        let expected = table_path(path);
        return Err(TraceError::MissingFileTable { path: path.to_owned(), expected });
    };
    let mut input = Input::open(&found, false)?;
    while input.fill()? {}
    FileTable::parse(found, input.available())
}

/// The page size stated beside a recording.
pub(crate) fn page_size_of(path: &Path) -> Result<Option<PageSize>, TraceError> {
    let stats = stats_path(path);
    if !stats.is_file() {
        return Ok(None);
    }
    let file = File::open(&stats).map_err(|source| TraceError::Io {
        path: stats.clone(),
        action: "open",
        source,
    })?;
    let malformed = |reason: String| TraceError::Content { path: stats.clone(), reason };
    let value: serde_json::Value = serde_json::from_reader(std::io::BufReader::new(file))
        .map_err(|error| malformed(error.to_string()))?;
    match value.get("page_size").map(|size| (size, size.as_u64())) {
        None => Ok(None),
        Some((_, Some(page_size_bytes))) => PageSize::new(page_size_bytes).map(Some),
        Some((size, None)) => Err(malformed(format!("page_size is {size}, not a number of bytes"))),
    }
}

#[cfg(test)]
mod tests;
