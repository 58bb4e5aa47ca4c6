//! Compiled traces on disk, as Parquet with one row per access.
//!
//! | column | type | |
//! | --- | --- | --- |
//! | `page_id` | u32 | the dense id |
//! | `write` | bool | |
//! | `at_ns` | u64 | when the request came |
//! | `page_number` | u64 | the global page number of the id |
//! | `request` | u64 | the request's number, from 0 |
//! | `bytes` | u32 | how many bytes of the page are asked for; only of objects with sizes |
//!
//! The key `thermocline` of the file's metadata holds, as JSON, what the rows do not say.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use thermocline_core::Clients;

use crate::columns::{Column, ColumnReader, ColumnWriter, GROUP_ROWS};
use crate::compiled::{CompiledTrace, Summary};
use crate::error::TraceError;
use crate::id_map::WRITE_BIT;
use crate::request::PageSize;

const KEY: &str = "thermocline";

/// Changes when older programs could misunderstand a file.
const VERSION: u32 = 1;

const SCHEMA: &str = "message compiled_trace {
    required int32 page_id (INTEGER(32,false));
    required boolean write;
    required int64 at_ns (INTEGER(64,false));
    required int64 page_number (INTEGER(64,false));
    required int64 request (INTEGER(64,false));
}";

/// The same for objects with sizes.
const SIZED_SCHEMA: &str = "message compiled_trace {
    required int32 page_id (INTEGER(32,false));
    required boolean write;
    required int64 at_ns (INTEGER(64,false));
    required int64 page_number (INTEGER(64,false));
    required int64 request (INTEGER(64,false));
    required int32 bytes (INTEGER(32,false));
}";

/// Parts of a compiled trace that its columns do not hold.
#[derive(Deserialize, Serialize)]
pub(crate) struct Metadata {
    version: u32,
    pub(crate) source: PathBuf,
    pub(crate) page_size_bytes: u64,
    pub(crate) volume_names: Vec<String>,
    pub(crate) volume_bases: Vec<u64>,
    pub(crate) summary: Summary,
    /// Number of clients; not there if it is one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub(crate) clients: u8,
}

const fn one() -> u8 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_one(clients: &u8) -> bool {
    *clients == 1
}

impl Metadata {
    /// Return the metadata of a trace, for a form of some version.
    pub(crate) fn of(trace: &CompiledTrace, version: u32) -> Self {
        Self {
            version,
            source: trace.path.clone(),
            page_size_bytes: trace.page_size_bytes(),
            volume_names: trace.volume_names.clone(),
            volume_bases: trace.volume_bases.clone(),
            summary: trace.summary,
            clients: trace.clients.get(),
        }
    }

    /// Check that the volumes go together.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let bases = &self.volume_bases;
        let is_right = bases.first() == Some(&0)
            && bases.is_sorted()
            && bases.len() == self.volume_names.len().max(1);
        if is_right { Ok(()) } else { Err("the volumes contradict each other") }
    }
}

impl CompiledTrace {
    /// Saves the trace as a Parquet file, which appears whole or not at all.
    ///
    /// # Errors
    /// If the file cannot be written, or the accesses are those of several clients.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TraceError> {
        let path = path.as_ref();
        if self.clients() != Clients::ONE {
            return Err(TraceError::Content {
                path: path.to_owned(),
                reason: "whose access is whose is not saved: split the trace when it is open"
                    .to_owned(),
            });
        }
        let metadata = serde_json::to_string(&Metadata::of(self, VERSION)).map_err(|error| {
            TraceError::Content { path: path.to_owned(), reason: error.to_string() }
        })?;
        let ascending = ["at_ns", "request"];
        let schema = if self.access_bytes.is_empty() { SCHEMA } else { SIZED_SCHEMA };
        let mut writer = ColumnWriter::create(path, schema, &ascending, (KEY, metadata))?;
        let mut rows = self.rows();
        for (number, chunk) in self.packed.chunks(GROUP_ROWS).enumerate() {
            let (mut at_ns, mut requests) = (Vec::new(), Vec::new());
            for (request, at) in rows.by_ref().take(chunk.len()) {
                requests.push(request.cast_signed());
                at_ns.push(at.cast_signed());
            }
            let ids = chunk.iter().map(|packed| packed & !WRITE_BIT);
            let numbers = ids.clone().map(|id| self.page_numbers[id as usize].cast_signed());
            let mut group = vec![
                Column::U32(ids.map(u32::cast_signed).collect()),
                Column::Bool(chunk.iter().map(|packed| packed & WRITE_BIT != 0).collect()),
                Column::U64(at_ns),
                Column::U64(numbers.collect()),
                Column::U64(requests),
            ];
            if let Some(bytes) = self.access_bytes() {
                let begin = number * GROUP_ROWS;
                let bytes = bytes[begin..begin + chunk.len()].iter().copied();
                group.push(Column::U32(bytes.map(u32::cast_signed).collect()));
            }
            writer.group(&group)?;
        }
        writer.finish()
    }

    /// Return `true` if a file is one that [`save`](Self::save) or
    /// [`save_mapped`](Self::save_mapped) wrote; `false` if it cannot be read, or is not a regular
    /// file, in which case nothing of it is read.
    pub fn is_saved(path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        if !path.is_file() {
            return false;
        }
        if Self::is_mappable(path) {
            return true;
        }
        let has_magic = || {
            let mut magic = [0; 4];
            std::fs::File::open(path)?.read_exact(&mut magic)?;
            std::io::Result::Ok(&magic == b"PAR1")
        };
        has_magic().is_ok_and(|is_parquet| is_parquet)
            && ColumnReader::open(path).is_ok_and(|reader| reader.metadata(KEY).is_some())
    }

    /// Opens a saved trace. A file of [`save`](Self::save) is read into memory; one of
    /// [`save_mapped`](Self::save_mapped) is mapped, and must not be changed or cut while it is open
    /// (replacing or removing it does no harm).
    ///
    /// # Errors
    /// If the file cannot be read, or was written by neither.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref();
        if Self::is_mappable(path) {
            return Self::map(path);
        }
        let reader = ColumnReader::open(path)?;
        let wrong = |reason: String| TraceError::Content { path: path.to_owned(), reason };
        let metadata = reader
            .metadata(KEY)
            .ok_or_else(|| wrong("a Parquet file, but not a compiled trace".to_owned()))?;
        let metadata: Metadata =
            serde_json::from_str(&metadata).map_err(|error| wrong(error.to_string()))?;
        if metadata.version != VERSION {
            let version = metadata.version;
            return Err(wrong(format!("version {version}; this program reads {VERSION}")));
        }
        metadata.check().map_err(|reason| wrong(reason.to_owned()))?;
        let mut columns = Columns::default();
        for group in 0..reader.groups() {
            let group = Group {
                page_ids: reader.u32(group, "page_id")?,
                writes: reader.bool(group, "write")?,
                at_ns: reader.u64(group, "at_ns")?,
                page_numbers: reader.u64(group, "page_number")?,
                requests: reader.u64(group, "request")?,
                bytes: reader.u32(group, "bytes")?,
            };
            columns.add(group).map_err(|reason| wrong(reason.to_owned()))?;
        }
        if ![0, columns.packed.len()].contains(&columns.access_bytes.len()) {
            return Err(wrong("the columns have different lengths".to_owned()));
        }
        if columns.packed.is_empty() || columns.requests != metadata.summary.requests {
            return Err(wrong("the rows are not those of the metadata".to_owned()));
        }
        Ok(Self {
            path: metadata.source,
            page_size: PageSize::new(metadata.page_size_bytes)?,
            packed: columns.packed.into(),
            at_ns: columns.at_ns.into(),
            counts: columns.counts.into(),
            access_clients: Vec::new().into(),
            access_bytes: columns.access_bytes.into(),
            clients: Clients::ONE,
            page_numbers: columns.page_numbers.into(),
            volume_bases: metadata.volume_bases,
            volume_names: metadata.volume_names,
            summary: metadata.summary,
            foresight: OnceLock::new(),
            mapping: None,
        })
    }

    /// Return the request number and the time of every access.
    fn rows(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (0..).zip(self.requests()).flat_map(|(number, request)| {
            std::iter::repeat_n((number, request.at.0), request.accesses.len())
        })
    }
}

/// One group of rows as found.
struct Group {
    page_ids: Option<Vec<i32>>,
    writes: Option<Vec<bool>>,
    at_ns: Option<Vec<i64>>,
    page_numbers: Option<Vec<i64>>,
    requests: Option<Vec<i64>>,
    bytes: Option<Vec<i32>>,
}

/// The columns of a compiled trace, from the rows so far.
#[derive(Default)]
struct Columns {
    packed: Vec<u32>,
    at_ns: Vec<u64>,
    counts: Vec<u32>,
    page_numbers: Vec<u64>,
    requests: u64,
    last_at_ns: u64,
    last_count: u32,
    access_bytes: Vec<u32>,
}

impl Columns {
    fn add(&mut self, group: Group) -> Result<(), &'static str> {
        let Group {
            page_ids: Some(page_ids),
            writes: Some(writes),
            at_ns: Some(at_ns),
            page_numbers: Some(page_numbers),
            requests: Some(requests),
            bytes,
        } = group
        else {
            return Err("a column is missing or has another type");
        };
        let rows = page_ids.len();
        if [writes.len(), at_ns.len(), page_numbers.len(), requests.len()] != [rows; 4] {
            return Err("the columns have different lengths");
        }
        self.access_bytes.extend(bytes.into_iter().flatten().map(i32::cast_unsigned));
        for row in 0..rows {
            let number = page_numbers[row].cast_unsigned();
            let id = self.page(page_ids[row].cast_unsigned(), number)?;
            self.packed.push(id | if writes[row] { WRITE_BIT } else { 0 });
            self.request(requests[row].cast_unsigned(), at_ns[row].cast_unsigned())?;
        }
        Ok(())
    }

    fn page(&mut self, id: u32, number: u64) -> Result<u32, &'static str> {
        if number == u64::MAX {
            return Err("a page number is 2^64 - 1");
        }
        match self.page_numbers.get(id as usize) {
            Some(&known) if known == number => Ok(id),
            None if id as usize == self.page_numbers.len() && id < WRITE_BIT => {
                self.page_numbers.push(number);
                Ok(id)
            }
            _ => Err("the page ids are not in order of first appearance"),
        }
    }

    fn request(&mut self, request: u64, at_ns: u64) -> Result<(), &'static str> {
        if self.requests > 0 && request == self.requests - 1 && at_ns == self.last_at_ns {
            self.last_count += 1;
            // Until now every request had one access.
            self.counts.resize(self.index_of_last() + 1, 1);
            let last = self.index_of_last();
            self.counts[last] = self.last_count;
            return Ok(());
        }
        if request != self.requests {
            return Err("the requests are not in order");
        }
        let index = self.packed_requests();
        if at_ns != 0 || !self.at_ns.is_empty() {
            self.at_ns.resize(index, 0);
            self.at_ns.push(at_ns);
        }
        if !self.counts.is_empty() {
            self.counts.push(1);
        }
        self.requests += 1;
        self.last_at_ns = at_ns;
        self.last_count = 1;
        Ok(())
    }

    fn packed_requests(&self) -> usize {
        usize::try_from(self.requests).expect("requests have accesses in memory")
    }

    fn index_of_last(&self) -> usize {
        self.packed_requests() - 1
    }
}
