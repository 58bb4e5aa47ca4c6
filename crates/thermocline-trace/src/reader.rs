//! Reading a trace file of any format, in batches.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::beside;
use crate::decode::{Decoder, ReadCounts, State};
use crate::detect;
use crate::error::TraceError;
use crate::file_table::FileTable;
use crate::format::{FormatName, ReadOptions, VolumeOf};
use crate::input::{Compression, Input};
use crate::objects::Objects;
use crate::parquet_rows::{self, ParquetRows};
use crate::request::{PageSize, Request, Requests};

/// A trace file being read.
pub struct Reader {
    input: Input,
    decoder: Box<dyn Decoder>,
    state: State,
    format: FormatName,
    page_size: Option<PageSize>,
    file_table: Option<Arc<FileTable>>,
    ended: bool,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("input", &self.input)
            .field("format", &self.format)
            .field("counts", &self.state.counts)
            .finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be read, is empty, has no recognisable format, or is a recording without its
    /// file table.
    pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let input = Input::open(path)?.allow_truncated(options.allow_truncated);
        Self::start(input, options, Some(path))
    }

    /// Reads from anything; `name` stands for the file in messages.
    ///
    /// # Errors
    /// As for [`Reader::open`]; a recording needs [`ReadOptions::file_table`].
    pub fn from_read(
        name: impl Into<PathBuf>,
        source: impl Read + Send + 'static,
        options: &ReadOptions,
    ) -> Result<Self, TraceError> {
        let input = Input::new(&name.into(), source)?.allow_truncated(options.allow_truncated);
        Self::start(input, options, None)
    }

    fn start(
        mut input: Input,
        options: &ReadOptions,
        beside: Option<&Path>,
    ) -> Result<Self, TraceError> {
        input.fill_to(detect::SAMPLE_BYTES)?;
        if input.available().is_empty() {
            return Err(TraceError::Empty { path: input.path().to_owned() });
        }
        let sample = detect::sample(&input);
        let parquet = match beside {
            Some(path) if sample.starts_with(b"PAR1") && path.is_file() => {
                Some(parquet(path, options)?)
            }
            _ => None,
        };
        let format = match (&parquet, options.format) {
            (Some((format, _)), _) => *format,
            (None, _) if options.columns.is_some() => FormatName::Columns,
            (None, Some(format)) => format,
            (None, None) if sample.starts_with(b"PAR1") => {
                let reason = "Parquet, which is read from a file, and this is none".to_owned();
                return Err(TraceError::Content { path: input.path().to_owned(), reason });
            }
            (None, None) => detect::detect(&input, sample, options)?,
        };
        if format == FormatName::Columns && options.columns.is_none() {
            let reason = "the format `columns` needs a description of the columns".to_owned();
            return Err(TraceError::Content { path: input.path().to_owned(), reason });
        }
        let mut options = options.clone();
        let mut page_size = None;
        if format == FormatName::Recording {
            if options.file_table.is_none() {
                options.file_table = Some(Arc::new(beside::table_of(input.path(), beside)?));
            }
            page_size = beside.map(beside::page_size_of).transpose()?.flatten();
            if let Some(table) = &options.file_table {
                table.check_classes(input.path(), &options.only_classes)?;
            }
        } else if !options.only_classes.is_empty() || options.volume_of != VolumeOf::All {
            let reason = format!(
                "classes and files are those of recordings, and this is a trace of format {format}: leave `only` and `volumes` out"
            );
            return Err(TraceError::Content { path: input.path().to_owned(), reason });
        }
        let decoder = match parquet {
            Some((_, rows)) => Box::new(rows),
            None => (format.format().decoder)(sample, &options),
        };
        let page_size = page_size.or(format.format().page_size);
        let file_table = options.file_table.filter(|_| format == FormatName::Recording);
        let state = State::at_record(0, options.objects);
        Ok(Self { input, decoder, state, format, page_size, file_table, ended: false })
    }

    /// Return the format, as given or as recognised.
    pub const fn format(&self) -> FormatName {
        self.format
    }

    /// Return the compression of the file.
    pub const fn compression(&self) -> Compression {
        self.input.compression()
    }

    /// Return the size of its records, if a file can be read from the middle once it is
    /// decompressed.
    pub(crate) fn record_bytes(&self) -> Option<usize> {
        self.decoder.record_bytes()
    }

    /// Return the most page accesses that it can have, if its size tells: that of a file which is
    /// not compressed and has records of one size, each of an object that is one page.
    pub fn accesses_max(&self) -> Option<u64> {
        let size_bytes =
            self.input.size_bytes().filter(|_| self.compression() == Compression::None)?;
        let is_known = self.decoder.is_of_objects() && self.state.objects() == Objects::One;
        let records = size_bytes / self.record_bytes()? as u64;
        is_known.then_some(records)
    }

    /// Return the rule by which objects get pages.
    pub const fn objects(&self) -> Objects {
        self.state.objects()
    }

    /// Return `true` if there was a request to an object with a size; known at the end.
    pub const fn has_objects(&self) -> bool {
        self.state.has_objects()
    }

    /// Return the page size that the trace itself states, if it does.
    pub const fn page_size(&self) -> Option<PageSize> {
        self.page_size
    }

    /// Return the counts so far.
    pub const fn counts(&self) -> ReadCounts {
        self.state.counts
    }

    /// Return the file table of a recording.
    pub const fn file_table(&self) -> Option<&Arc<FileTable>> {
        self.file_table.as_ref()
    }

    /// Return `true` if the file was cut off, which [`ReadOptions::allow_truncated`] allowed; known at the
    /// end.
    pub const fn is_truncated(&self) -> bool {
        self.input.is_truncated() || self.state.counts.torn_bytes > 0
    }

    /// Return the number of bytes of the file on disk fetched so far, and its size if that is
    /// known: for progress bars.
    pub fn progress_bytes(&self) -> (u64, Option<u64>) {
        (self.input.fetched_bytes(), self.input.size_bytes())
    }
}

/// Return the format and the rows of a Parquet file.
fn parquet(path: &Path, options: &ReadOptions) -> Result<(FormatName, ParquetRows), TraceError> {
    let (format, mapping) = match &options.columns {
        Some(mapping) => (FormatName::Columns, mapping.as_ref().clone()),
        None => detect::detect_parquet(path, &parquet_rows::names(path)?)?,
    };
    Ok((format, ParquetRows::open(path, &mapping)?))
}

impl Requests for Reader {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        batch.clear();
        if self.ended {
            return Ok(false);
        }
        self.decoder.decode(&mut self.input, &mut self.state, batch)?;
        if !batch.is_empty() {
            return Ok(true);
        }
        self.ended = true;
        if self.state.counts.requests == 0 {
            return Err(TraceError::Empty { path: self.input.path().to_owned() });
        }
        Ok(false)
    }

    fn volume_names(&self) -> &[String] {
        self.state.volumes.names()
    }

    fn path(&self) -> &Path {
        self.input.path()
    }
}
