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

use std::sync::Arc;

use thermocline_core::Nanos;

use super::options::{ReadOptions, VolumeOf};
use super::{Format, Recognition};
use crate::decode::{Line, Lines, TextFormat};
use crate::error::Reason;
use crate::file_table::FileTable;
use crate::request::Request;
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
#[derive(Debug)]
struct Recording {
    has_header: bool,
    table: Option<Arc<FileTable>>,
    volume_of: VolumeOf,
    /// The number of each file's volume, once it has one.
    volumes: Vec<Option<u32>>,
    /// `true` if each file is of a class that is wanted; empty if all are.
    is_wanted: Vec<bool>,
}

/// Location of a file's pages.
struct FileLocation {
    volume: u32,
    base_page: u64,
}

impl Recording {
    /// Create a parser of requests to the files of the options' table that are of the wanted
    /// classes.
    fn new(options: &ReadOptions) -> Self {
        let table = options.file_table.clone().unwrap_or_default();
        let (only, volume_of) = (&options.only_classes, options.volume_of);
        let is_wanted = if only.is_empty() {
            vec![]
        } else {
            table.files().iter().map(|file| only.contains(&file.class)).collect()
        };
        let volumes = match volume_of {
            VolumeOf::All => vec![],
            VolumeOf::File => vec![None; table.files().len()],
        };
        Self { has_header: false, table: Some(table), volume_of, volumes, is_wanted }
    }

    /// Create a parser that takes every file for known: for recognising the format.
    const fn without_table() -> Self {
        Self {
            has_header: false,
            table: None,
            volume_of: VolumeOf::All,
            volumes: vec![],
            is_wanted: vec![],
        }
    }

    /// Return the location of a file; `None` if it is not wanted.
    #[inline]
    fn place(
        &mut self,
        file_id: u64,
        end_page: u64,
        volumes: &mut Volumes,
    ) -> Result<Option<FileLocation>, Reason> {
        let Some(table) = &self.table else {
            return Ok(Some(FileLocation { volume: volumes.number(ONLY_VOLUME), base_page: 0 }));
        };
        let id = usize::try_from(file_id).ok().filter(|&id| id < table.files().len());
        let Some(id) = id else { return Err("the file is not in the file table".into()) };
        let file = &table.files()[id];
        if end_page > file.extent_pages {
            let extent_pages = file.extent_pages;
            return Err(format!("the file has {extent_pages} pages in the file table").into());
        }
        if self.is_wanted.get(id) == Some(&false) {
            return Ok(None);
        }
        if self.volume_of == VolumeOf::All {
            let volume = volumes.number(ONLY_VOLUME);
            return Ok(Some(FileLocation { volume, base_page: file.base_page }));
        }
        let volume = *self.volumes[id]
            .get_or_insert_with(|| volumes.number(format!("{}#{id}", file.path).as_bytes()));
        Ok(Some(FileLocation { volume, base_page: 0 }))
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
        let Some(FileLocation { volume, base_page }) = self.place(file_id, end_page, volumes)?
        else {
            return Ok(Line::OtherEvent);
        };
        let extent = pages(base_page.saturating_add(page_number), count)?;
        Ok(Line::Request(Request { at, op, volume, extent }))
    }
}

#[cfg(test)]
mod tests;
