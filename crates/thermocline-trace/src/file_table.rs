//! The table of the files of a recording.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::{Position, Reason, TraceError, excerpt};
use crate::text::{Fields, integer};

/// The first line of `NAME.files.csv`.
pub const TABLE_HEADER: &[u8] = b"file_id,base_page,extent_pages,class,read_pages,write_pages,path";

/// One file of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileEntry {
    /// The number of its first page in the trace.
    pub base_page: u64,
    /// Number of page numbers that belong to it.
    pub extent_pages: u64,
    /// Class of the file: "data", "log", ...
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

    /// Return all files; a file's id is its index.
    pub fn files(&self) -> &[FileEntry] {
        &self.files
    }

    /// Return the file to which a page number of the trace belongs.
    pub fn file_of(&self, page_number: u64) -> Option<&FileEntry> {
        self.index_of(page_number).map(|index| &self.files[index])
    }

    /// Return the id of that file.
    pub(crate) fn index_of(&self, page_number: u64) -> Option<usize> {
        let after = self.files.partition_point(|file| file.base_page <= page_number);
        let index = self.files[..after].iter().rposition(|file| file.extent_pages > 0)?;
        let file = &self.files[index];
        (page_number - file.base_page < file.extent_pages).then_some(index)
    }

    /// Return the id of the file that has a volume of this name.
    pub(crate) fn named(&self, volume: &str) -> Option<usize> {
        let id = volume.rsplit_once('#').and_then(|(_, id)| id.parse::<usize>().ok())?;
        (id < self.files.len()).then_some(id)
    }

    /// Refuses classes that none of its files has; `path` is the recording, for messages.
    pub(crate) fn check_classes(&self, path: &Path, only: &[String]) -> Result<(), TraceError> {
        let classes = self.classes();
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

    /// Return the classes that there are.
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

/// Return a CSV field that may be quoted; quotes inside are doubled.
fn unquoted(field: &[u8]) -> Result<String, Reason> {
    let text = String::from_utf8_lossy(field);
    let Some(rest) = text.strip_prefix('"') else { return Ok(text.into_owned()) };
    let inner = rest.strip_suffix('"').ok_or("the path's closing quote is missing")?;
    Ok(inner.replace("\"\"", "\""))
}
