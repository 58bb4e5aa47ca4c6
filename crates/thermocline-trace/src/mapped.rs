//! Compiled traces on disk in the form that they have in memory, to be mapped.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..8 | `MAGIC` |
//! | 8..12 | `VERSION` |
//! | 12..16 | length of the header, H |
//! | 16..24 | length of the file |
//! | 24..28 | CRC-32C of the header, with zeros here |
//! | 28..32 | CRC-32C of all bytes after the header |
//! | 32..80 | lengths of the columns, in numbers |
//! | 80..H | what the columns do not say, as JSON |
//! | H.. | the columns, each at the next multiple of 64 bytes |
//!
//! The columns are the page number of each id (u64), the time of each request in ns (u64), the packed
//! accesses (u32), the accesses of each request (u32), the bytes of each access (u32) and its client
//! (u8). Those that say nothing are empty, as in memory. Numbers are little-endian.
//!
//! Opening checks the header, its checksum and all lengths, and reads no column: it takes the same time
//! for a trace of any length. [`CompiledTrace::verify`] reads all. A column that has rotted is found by
//! that only; it cannot make a program read beyond the mapping, but a replay may then stop with a panic.

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytemuck::Pod;
use thermocline_core::Clients;

use crate::atomic;
use crate::compile::FOOTPRINT_PAGES_MAX;
use crate::compiled::CompiledTrace;
use crate::error::TraceError;
use crate::id_map::WRITE_BIT;
use crate::numbers::{Map, Numbers, View};
use crate::request::PageSize;
use crate::saved::Metadata;

/// First bytes of a file. Tools that take it for text, or change line ends, damage them visibly.
const MAGIC: [u8; 8] = *b"\x89TCT\r\n\x1a\n";

/// Changes when programs could misunderstand a file of another version.
const VERSION: u32 = 1;

/// Offset of the metadata.
const METADATA_AT: usize = 80;

/// Alignment of columns, in bytes: a line of the processor's cache.
const ALIGN_BYTES: usize = 64;

/// Number of columns.
const COLUMNS: usize = 6;

/// The bytes of a number of each column.
const NUMBER_BYTES: [usize; COLUMNS] = [8, 8, 4, 4, 4, 1];

/// The file that the columns of a trace are in.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    map: Arc<Map>,
    path: PathBuf,
    header_bytes: usize,
    columns_crc: u32,
}

/// Header of a file, before its columns.
struct Header {
    /// Bytes until the columns.
    bytes: usize,
    file_bytes: u64,
    columns_crc: u32,
    lengths: [usize; COLUMNS],
    metadata: Metadata,
}

impl CompiledTrace {
    /// Saves the trace as a file that [`open`](Self::open) maps, which appears whole or not at all.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save_mapped(&self, path: impl AsRef<Path>) -> Result<(), TraceError> {
        let path = path.as_ref();
        let (header, _) = self.header(path)?;
        atomic::refuse_compression(path, "a mapped trace")?;
        let mut file = atomic::temporary(path)?;
        let mut write = || -> io::Result<()> {
            let mut writer = BufWriter::with_capacity(1 << 20, &mut file);
            writer.write_all(&header)?;
            pieces(header.len(), self.columns(), |piece| writer.write_all(piece))?;
            writer.flush()
        };
        write().map_err(|source| cannot("write", path, source))?;
        // Renamed into place when complete: a program that is killed leaves no half file under this
        // name.
        atomic::persist(file, path)
    }

    /// Return the number of bytes that [`save_mapped`](Self::save_mapped) writes.
    ///
    /// # Errors
    /// As for [`save_mapped`](Self::save_mapped).
    pub fn mapped_bytes(&self) -> Result<u64, TraceError> {
        Ok(self.header(&self.path)?.1)
    }

    /// Return `true` if the columns are those of a mapped file.
    pub const fn is_mapped(&self) -> bool {
        self.mapping.is_some()
    }

    /// Reads all columns of a mapped file and compares them with their checksum and with each other; of
    /// a trace in memory there is nothing to check.
    ///
    /// # Errors
    /// If they are not as they were written.
    pub fn verify(&self) -> Result<(), TraceError> {
        let Some(Mapping { map, path, header_bytes, columns_crc }) = &self.mapping else {
            return Ok(());
        };
        let columns = map.bytes().get(*header_bytes..).unwrap_or_default();
        if crc32c::crc32c(columns) != *columns_crc {
            return Err(wrong(path, DAMAGED));
        }
        let pages = self.footprint_pages();
        let counted: u64 = self.counts.iter().map(|&count| u64::from(count)).sum();
        let is_right = self.packed.iter().all(|packed| packed & !WRITE_BIT < pages)
            && self.page_numbers.iter().all(|&number| number != u64::MAX)
            && (self.counts.is_empty() || counted == self.len() as u64)
            && self.counts.iter().all(|&count| count > 0)
            && self.access_clients.iter().all(|&client| client < self.clients.get());
        if is_right { Ok(()) } else { Err(wrong(path, CONTRADICTS)) }
    }

    /// Return the header of a file, and how long the file is.
    fn header(&self, path: &Path) -> Result<(Vec<u8>, u64), TraceError> {
        if cfg!(target_endian = "big") {
            return Err(wrong(path, BIG_ENDIAN));
        }
        let metadata = serde_json::to_vec(&Metadata::of(self, VERSION))
            .map_err(|error| wrong(path, &error.to_string()))?;
        let columns = self.columns();
        let header_bytes = METADATA_AT + metadata.len();
        let (mut file_bytes, mut columns_crc) = (header_bytes, 0);
        pieces(header_bytes, columns, |piece| {
            file_bytes += piece.len();
            columns_crc = crc32c::crc32c_append(columns_crc, piece);
            Ok(())
        })
        .map_err(|source| cannot("write", path, source))?;
        let mut header = Vec::with_capacity(header_bytes);
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        let length = u32::try_from(header_bytes);
        header.extend(length.map_err(|_| wrong(path, "it has too many volumes"))?.to_le_bytes());
        header.extend((file_bytes as u64).to_le_bytes());
        // The checksum's own place counts as zeros, when it is computed and when it is checked.
        header.extend([0; 4]);
        header.extend(columns_crc.to_le_bytes());
        for (column, bytes) in columns.iter().zip(NUMBER_BYTES) {
            header.extend(((column.len() / bytes) as u64).to_le_bytes());
        }
        header.extend(metadata);
        let header_crc = crc32c::crc32c(&header);
        header[24..28].copy_from_slice(&header_crc.to_le_bytes());
        Ok((header, file_bytes as u64))
    }

    /// Return the columns in the order of the file, as bytes.
    fn columns(&self) -> [&[u8]; COLUMNS] {
        [
            bytemuck::cast_slice(&self.page_numbers),
            bytemuck::cast_slice(&self.at_ns),
            bytemuck::cast_slice(&self.packed),
            bytemuck::cast_slice(&self.counts),
            bytemuck::cast_slice(&self.access_bytes),
            &self.access_clients,
        ]
    }

    /// Return `true` if a file begins as one that [`save_mapped`](Self::save_mapped) wrote; `false`
    /// if it cannot be read, or is not a regular file, in which case nothing of it is read.
    pub(crate) fn is_mappable(path: &Path) -> bool {
        let mut magic = [0; MAGIC.len()];
        let read = |magic: &mut [u8]| File::open(path)?.read_exact(magic);
        path.is_file() && read(&mut magic).is_ok() && magic == MAGIC
    }

    /// Maps a file that [`save_mapped`](Self::save_mapped) wrote.
    pub(crate) fn map(path: &Path) -> Result<Self, TraceError> {
        if cfg!(target_endian = "big") {
            return Err(wrong(path, BIG_ENDIAN));
        }
        let file = File::open(path).map_err(|source| cannot("open", path, source))?;
        let map = Map::new(file).map_err(|source| cannot("map", path, source))?;
        let map = Arc::new(map);
        let header = Header::read(map.bytes()).map_err(|reason| wrong(path, &reason))?;
        let places = header.places().ok_or_else(|| wrong(path, CONTRADICTS))?;
        let [page_numbers, at_ns, packed, counts, access_bytes, access_clients] = places;
        let Header { bytes, columns_crc, metadata, .. } = header;
        let clients = Clients::new(metadata.clients.into());
        Ok(Self {
            page_size: PageSize::new(metadata.page_size_bytes)?,
            page_numbers: column(&map, page_numbers, path)?,
            at_ns: column(&map, at_ns, path)?,
            packed: column(&map, packed, path)?,
            counts: column(&map, counts, path)?,
            access_bytes: column(&map, access_bytes, path)?,
            access_clients: column(&map, access_clients, path)?,
            clients: clients.ok_or_else(|| wrong(path, CONTRADICTS))?,
            path: metadata.source,
            volume_bases: metadata.volume_bases,
            volume_names: metadata.volume_names,
            summary: metadata.summary,
            foresight: OnceLock::new(),
            mapping: Some(Mapping { map, path: path.to_owned(), header_bytes: bytes, columns_crc }),
        })
    }
}

const BIG_ENDIAN: &str = "compiled traces are mapped on little-endian machines only: use the Parquet form, `trace convert --to compiled`";
const DAMAGED: &str =
    "damaged: its columns do not have their checksum; remove the file and compile the trace again";
const CONTRADICTS: &str =
    "damaged: its columns contradict each other; remove the file and compile the trace again";
const HEADER_DAMAGED: &str =
    "damaged: its header does not have its checksum; remove the file and compile the trace again";
const TOO_SHORT: &str = "truncated: it ends before its header does";

impl Header {
    /// Reads and checks a header. The columns must fit the file, but are not read.
    fn read(file: &[u8]) -> Result<Self, String> {
        let fixed = file.get(..METADATA_AT).ok_or(TOO_SHORT)?;
        let u32_at = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(fixed[at..at + 8].try_into().expect("8 bytes"));
        if fixed[..8] != MAGIC {
            return Err("not a compiled trace to be mapped".into());
        }
        // Before the checksum: a file of another version may have another header, and deserves a
        // better sentence than "damaged".
        let version = u32_at(8);
        if version != VERSION {
            let reason = format!(
                "its form has version {version}, and this program maps version {VERSION}: compile the trace again"
            );
            return Err(reason);
        }
        let bytes = u32_at(12) as usize;
        if bytes < METADATA_AT {
            return Err(HEADER_DAMAGED.into());
        }
        let mut header = file.get(..bytes).ok_or(TOO_SHORT)?.to_vec();
        header[24..28].fill(0);
        // Before any length is used: a rotten length could ask for a huge allocation or a place
        // beyond the file.
        if crc32c::crc32c(&header) != u32_at(24) {
            return Err(HEADER_DAMAGED.into());
        }
        let (file_bytes, found_bytes) = (u64_at(16), file.len() as u64);
        // A column that the file no longer has would end the program when it is touched, not when
        // it is opened.
        if file_bytes != found_bytes {
            let reason = format!(
                "truncated or extended: it has {found_bytes} bytes, and its header says {file_bytes}; compile the trace again"
            );
            return Err(reason);
        }
        let metadata = serde_json::from_slice(&header[METADATA_AT..]);
        let metadata: Metadata = metadata.map_err(|error| format!("its metadata: {error}"))?;
        metadata.check()?;
        let mut lengths = [0; COLUMNS];
        for (place, length) in lengths.iter_mut().enumerate() {
            *length = usize::try_from(u64_at(32 + 8 * place)).map_err(|_| CONTRADICTS)?;
        }
        let header = Self { bytes, file_bytes, columns_crc: u32_at(28), lengths, metadata };
        if header.is_consistent() { Ok(header) } else { Err(CONTRADICTS.into()) }
    }

    /// Return `true` if the lengths go together.
    fn is_consistent(&self) -> bool {
        let [pages, times, accesses, counts, bytes, clients] = self.lengths;
        let requests = usize::try_from(self.metadata.summary.requests).ok();
        let Some(requests) = requests else { return false };
        let is_of_requests = |length: usize| length == 0 || length == requests;
        let is_of_accesses = |length: usize| length == 0 || length == accesses;
        accesses > 0
            && (1..=accesses).contains(&requests)
            && (1..=accesses.min(FOOTPRINT_PAGES_MAX as usize)).contains(&pages)
            && is_of_requests(times)
            && is_of_requests(counts)
            && (counts > 0 || requests == accesses)
            && is_of_accesses(bytes)
            && is_of_accesses(clients)
    }

    /// Return the ranges of the columns in the file; `None` if the file does not end where the last
    /// one does.
    fn places(&self) -> Option<[Range<usize>; COLUMNS]> {
        let mut end = self.bytes;
        let mut places = [const { 0..0 }; COLUMNS];
        for ((place, length), bytes) in places.iter_mut().zip(self.lengths).zip(NUMBER_BYTES) {
            let begin = end.checked_next_multiple_of(ALIGN_BYTES)?;
            end = begin.checked_add(length.checked_mul(bytes)?)?;
            *place = begin..end;
        }
        (end as u64 == self.file_bytes).then_some(places)
    }
}

/// Return a column in its place.
fn column<T: Pod, O>(
    map: &Arc<Map>,
    bytes: Range<usize>,
    path: &Path,
) -> Result<Numbers<T, O>, TraceError> {
    View::new(map, bytes).map(Numbers::Mapped).ok_or_else(|| wrong(path, CONTRADICTS))
}

/// Gives all bytes after a header: the columns, and zeros up to the place of each.
fn pieces(
    header_bytes: usize,
    columns: [&[u8]; COLUMNS],
    mut give: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut end = header_bytes;
    for column in columns {
        let begin = end.next_multiple_of(ALIGN_BYTES);
        // Columns are mapped as numbers, which must be aligned in the file as in memory.
        give(&[0; ALIGN_BYTES][..begin - end])?;
        give(column)?;
        end = begin + column.len();
    }
    Ok(())
}

#[cold]
fn wrong(path: &Path, reason: &str) -> TraceError {
    TraceError::Content { path: path.to_owned(), reason: reason.to_owned() }
}

#[cold]
fn cannot(action: &'static str, path: &Path, source: io::Error) -> TraceError {
    TraceError::Io { path: path.to_owned(), action, source }
}

#[cfg(test)]
mod tests;
