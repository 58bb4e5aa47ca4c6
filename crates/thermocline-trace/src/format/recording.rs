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

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_core::Nanos;

use super::{Format, Recognition};
use crate::decode::{Line, Lines, TextFormat};
use crate::error::{Position, Reason, TraceError, excerpt};
use crate::file_shares::{ProcessShare, share};
use crate::input::Input;
use crate::reader::ReadOptions;
use crate::request::{PageSize, Request};
use crate::text::{Fields, ONLY_VOLUME, integer, letter_op, pages, time};
use crate::volumes::Volumes;

pub(crate) const FORMAT: Format = Format {
    is_page_numbered: true,
    ..Format::new(
        "recording",
        Recognition::Lines(|_, _| Some(Box::new(Recording::without_table()))),
        |_, options| Box::new(Lines(Recording::new(options))),
    )
};

/// The first line of `NAME.csv`.
pub const HEADER: &[u8] = b"timestamp_us,op,file_id,page_no,pages,flags";
/// The first line of `NAME.files.csv`.
pub const TABLE_HEADER: &[u8] = b"file_id,base_page,extent_pages,class,read_pages,write_pages,path";

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
        self.index_of(page_number).map(|index| &self.files[index])
    }

    /// The id of that file.
    pub(crate) fn index_of(&self, page_number: u64) -> Option<usize> {
        let after = self.files.partition_point(|file| file.base_page <= page_number);
        let index = self.files[..after].iter().rposition(|file| file.extent_pages > 0)?;
        let file = &self.files[index];
        (page_number - file.base_page < file.extent_pages).then_some(index)
    }

    /// The id of the file that has a volume of this name.
    pub(crate) fn named(&self, volume: &str) -> Option<usize> {
        let id = volume.rsplit_once('#').and_then(|(_, id)| id.parse::<usize>().ok())?;
        (id < self.files.len()).then_some(id)
    }

    /// The classes that there are.
    fn classes(&self) -> BTreeSet<&str> {
        self.files.iter().map(|file| file.class.as_str()).collect()
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

/// What a recording's volumes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumeOf {
    /// All files together are one volume.
    #[default]
    All,
    /// Each file is a volume, called by its path and its id.
    File,
}

#[derive(Debug)]
struct Recording {
    has_header: bool,
    table: Option<Arc<FileTable>>,
    volume_of: VolumeOf,
    /// The number of each file's volume, once it has one.
    volumes: Vec<Option<u32>>,
    /// Whether each file is of a class that is wanted; empty if all are.
    is_wanted: Vec<bool>,
}

/// Where a file's pages are.
struct Place {
    volume: u32,
    base_page: u64,
}

impl Recording {
    /// A parser of requests to the files of the options' table that are of the wanted classes.
    fn new(options: &ReadOptions) -> Self {
        let table = options.file_table.clone().unwrap_or_default();
        let (only, volume_of) = (&options.only_classes, options.volume_of);
        let is_wanted = if only.is_empty() {
            vec![]
        } else {
            table.files.iter().map(|file| only.contains(&file.class)).collect()
        };
        let volumes = match volume_of {
            VolumeOf::All => vec![],
            VolumeOf::File => vec![None; table.files.len()],
        };
        Self { has_header: false, table: Some(table), volume_of, volumes, is_wanted }
    }

    /// A parser that takes every file for known: for recognising the format.
    const fn without_table() -> Self {
        Self {
            has_header: false,
            table: None,
            volume_of: VolumeOf::All,
            volumes: vec![],
            is_wanted: vec![],
        }
    }

    /// Where a file is; none if it is not wanted.
    #[inline]
    fn place(
        &mut self,
        file_id: u64,
        end_page: u64,
        volumes: &mut Volumes,
    ) -> Result<Option<Place>, Reason> {
        let Some(table) = &self.table else {
            return Ok(Some(Place { volume: volumes.number(ONLY_VOLUME), base_page: 0 }));
        };
        let id = usize::try_from(file_id).ok().filter(|&id| id < table.files.len());
        let Some(id) = id else { return Err("the file is not in the file table".into()) };
        let file = &table.files[id];
        if end_page > file.extent_pages {
            let extent_pages = file.extent_pages;
            return Err(format!("the file has {extent_pages} pages in the file table").into());
        }
        if self.is_wanted.get(id) == Some(&false) {
            return Ok(None);
        }
        if self.volume_of == VolumeOf::All {
            let volume = volumes.number(ONLY_VOLUME);
            return Ok(Some(Place { volume, base_page: file.base_page }));
        }
        let volume = *self.volumes[id]
            .get_or_insert_with(|| volumes.number(format!("{}#{id}", file.path).as_bytes()));
        Ok(Some(Place { volume, base_page: 0 }))
    }
}

/// Refuses classes that no file of the table has.
pub(crate) fn check_classes(
    path: &Path,
    table: &FileTable,
    only: &[String],
) -> Result<(), TraceError> {
    let classes = table.classes();
    match only.iter().find(|class| !classes.contains(class.as_str())) {
        None => Ok(()),
        Some(class) => {
            let classes: Vec<&str> = classes.into_iter().collect();
            let reason =
                format!("no file is of class '{class}'; there are: {}", classes.join(", "));
            Err(TraceError::Content { path: path.into(), reason })
        }
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
        let end_page = page_number.saturating_add(count);
        let Some(Place { volume, base_page }) = self.place(file_id, end_page, volumes)? else {
            return Ok(Line::OtherEvent);
        };
        let extent = pages(base_page.saturating_add(page_number), count)?;
        Ok(Line::Request(Request { at, op, volume, extent }))
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
fn stats_of(path: &Path) -> Result<Option<(PathBuf, serde_json::Value)>, TraceError> {
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

/// The shares of the processes of a recording, the largest first; none if they are not stated beside
/// it.
///
/// # Errors
/// If what is beside it cannot be read.
pub fn processes_of(path: &Path) -> Result<Vec<ProcessShare>, TraceError> {
    let Some((path, stats)) = stats_of(path)? else { return Ok(vec![]) };
    let Some(processes) = stats.get("processes").and_then(serde_json::Value::as_object) else {
        return Ok(vec![]);
    };
    let mut counts = vec![];
    for (process, count) in processes {
        let pages = |name: &str| count.get(name).and_then(serde_json::Value::as_u64);
        let (Some(reads), Some(writes)) = (pages("read_pages"), pages("write_pages")) else {
            let reason = format!("process '{process}' lacks read_pages or write_pages");
            return Err(TraceError::Content { path, reason });
        };
        counts.push((process, reads, writes));
    }
    let all = counts
        .iter()
        .fold(0_u64, |all, (_, reads, writes)| all.saturating_add(*reads).saturating_add(*writes));
    counts.sort_by_key(|(_, reads, writes)| std::cmp::Reverse(reads.saturating_add(*writes)));
    let share_of = |(process, reads, writes): (&String, u64, u64)| ProcessShare {
        process: process.clone(),
        share: share(reads, writes, all),
    };
    Ok(counts.into_iter().map(share_of).collect())
}

#[cfg(test)]
mod tests;
