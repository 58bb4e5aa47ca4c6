//! Writing traces in other formats: streaming, and each file whole or not at all.

use std::fmt;
use std::io::Write as _;
use std::path::Path;
use std::str::FromStr;

use parquet::data_type::ByteArray;
use thermocline_core::Op;

use crate::atomic::{AtomicFile, Unfinished, persist};
use crate::columns::{Column, ColumnWriter, GROUP_ROWS};
use crate::compiled::CompiledTrace;
use crate::error::TraceError;
use crate::format::{csv, oracle_general};
use crate::request::{Extent, PageSize, Request, Requests};
use crate::text::SECTOR_BYTES;

const PARQUET_SCHEMA: &str = "message trace {
    required int64 at_ns (INTEGER(64,false));
    required binary op (STRING);
    required binary volume (STRING);
    required int64 offset (INTEGER(64,false));
    required int64 length (INTEGER(64,false));
}";

/// A format that traces can be converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputFormat {
    /// Our CSV, which keeps everything.
    Csv,
    /// Parquet with the columns `at_ns`, `op`, `volume`, `offset`, `length`, which keeps everything.
    Parquet,
    /// SPC ASCII, which keeps all but the volumes' names.
    Spc,
    /// libCacheSim's oracleGeneral, one record per page access, which keeps neither directions nor
    /// volumes nor fractions of a second.
    OracleGeneral,
}

impl OutputFormat {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Csv, Self::Parquet, Self::Spc, Self::OracleGeneral];

    /// Return its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Parquet => "parquet",
            Self::Spc => "spc",
            Self::OracleGeneral => "oracle-general",
        }
    }
}

impl fmt::Display for OutputFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for OutputFormat {
    type Err = TraceError;

    fn from_str(name: &str) -> Result<Self, TraceError> {
        let wanted = name.to_ascii_lowercase().replace('_', "-");
        Self::ALL.into_iter().find(|format| format.name() == wanted).ok_or_else(|| {
            TraceError::NoSuchValue {
                option: "output format",
                value: name.to_owned(),
                expected: "csv, parquet, spc, oracle-general",
            }
        })
    }
}

/// Writes all requests of `source` to the file `target`; returns how many requests, or for
/// oracleGeneral accesses, were written.
///
/// Page-numbered requests are written as bytes, with pages of `page_size`.
///
/// # Errors
/// If the source fails, the target cannot be written, or a request has no place in the format.
pub fn convert<R: Requests + ?Sized>(
    source: &mut R,
    target: impl AsRef<Path>,
    format: OutputFormat,
    page_size: PageSize,
) -> Result<u64, TraceError> {
    let target = target.as_ref();
    match format {
        OutputFormat::Csv => {
            let (written, file) = write_lines(source, target, page_size, csv_line, csv::HEADER)?;
            persist(file, target)?;
            Ok(written)
        }
        OutputFormat::Spc => {
            let (written, file) = write_lines(source, target, page_size, spc_line, b"")?;
            persist(file, target)?;
            Ok(written)
        }
        OutputFormat::Parquet => write_parquet(source, target, page_size),
        OutputFormat::OracleGeneral => {
            write_oracle_general(&CompiledTrace::compile(source, page_size)?, target)
        }
    }
}

/// Writes all requests of `source` as our CSV to a file that is not yet at `target`: `persist` of
/// [`atomic`](crate::atomic) puts it there.
///
/// # Errors
/// As for [`convert`].
pub fn convert_unfinished<R: Requests + ?Sized>(
    source: &mut R,
    target: &Path,
    page_size: PageSize,
) -> Result<Unfinished, TraceError> {
    Ok(write_lines(source, target, page_size, csv_line, csv::HEADER)?.1)
}

/// A request with its place in bytes.
pub(crate) struct Placed<'a> {
    pub(crate) request: &'a Request,
    pub(crate) volume_name: &'a str,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Return the page of an object that is one page, whose number is the object's id; any other extent as
/// it is.
const fn alone_in_page(extent: Extent, page_size: PageSize) -> Extent {
    match extent {
        Extent::Object { id, offset, length }
            if offset < page_size.bytes() && length <= page_size.bytes() - offset =>
        {
            Extent::Pages { first: id, count: 1 }
        }
        Extent::Object { .. } | Extent::Bytes { .. } | Extent::Pages { .. } => extent,
    }
}

/// Calls `write` for every request.
fn for_each<R: Requests + ?Sized>(
    source: &mut R,
    page_size: PageSize,
    mut write: impl FnMut(&Placed<'_>) -> Result<Result<(), String>, TraceError>,
) -> Result<u64, TraceError> {
    let mut batch = Vec::new();
    let mut written = 0;
    while source.read_batch(&mut batch)? {
        for request in &batch {
            let outcome = match page_size.byte_range(alone_in_page(request.extent, page_size)) {
                None if matches!(request.extent, Extent::Object { .. }) => {
                    Err("an object of several pages has no address; `--objects one` writes each object as one page".to_owned())
                }
                None => Err("the address is beyond 2^63 bytes".to_owned()),
                Some((offset, length)) => {
                    let volume_name = &source.volume_names()[request.volume as usize];
                    write(&Placed { request, volume_name, offset, length })?
                }
            };
            written += 1;
            outcome.map_err(|reason| TraceError::Request {
                path: source.path().to_owned(),
                request: written,
                reason,
            })?;
        }
    }
    Ok(written)
}

fn write_lines<R: Requests + ?Sized>(
    source: &mut R,
    target: &Path,
    page_size: PageSize,
    line: fn(&Placed<'_>, &mut Vec<u8>) -> Result<(), String>,
    header: &[u8],
) -> Result<(u64, Unfinished), TraceError> {
    let mut file = AtomicFile::create(target)?;
    if !header.is_empty() {
        file.buffer().extend_from_slice(header);
        file.buffer().push(b'\n');
    }
    let written = for_each(source, page_size, |placed| {
        let outcome = line(placed, file.buffer());
        file.drain().map(|()| outcome)
    })?;
    Ok((written, file.complete()?))
}

/// Appends a request as a line of our CSV.
pub(crate) fn csv_line(placed: &Placed<'_>, buffer: &mut Vec<u8>) -> Result<(), String> {
    let name = placed.volume_name;
    if name.contains([',', '\n', '\r']) {
        return Err(format!("the volume name {name:?} cannot be written as CSV"));
    }
    let at_ns = placed.request.at.0;
    append(buffer, format_args!("{}", at_ns / 1000));
    if !at_ns.is_multiple_of(1000) {
        append(buffer, format_args!(".{:03}", at_ns % 1000));
    }
    let op = letter(placed.request.op);
    append(buffer, format_args!(",{op},{name},{},{}\n", placed.offset, placed.length));
    Ok(())
}

fn spc_line(placed: &Placed<'_>, buffer: &mut Vec<u8>) -> Result<(), String> {
    let Placed { request, offset, length, .. } = placed;
    if !offset.is_multiple_of(SECTOR_BYTES) {
        return Err(format!("SPC has addresses in sectors of 512 B, and the offset is {offset}"));
    }
    let (seconds, ns) = (request.at.0 / 1_000_000_000, request.at.0 % 1_000_000_000);
    let (volume, op) = (request.volume, letter(request.op));
    let sector = offset / SECTOR_BYTES;
    append(buffer, format_args!("{volume},{sector},{length},{op},{seconds}.{ns:09}\n"));
    Ok(())
}

const fn letter(op: Op) -> &'static str {
    match op {
        Op::Read => "R",
        Op::Write => "W",
    }
}

fn append(buffer: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    buffer.write_fmt(text).expect("writing to memory cannot fail");
}

/// One group of rows.
#[derive(Default)]
struct Rows {
    at_ns: Vec<i64>,
    op: Vec<ByteArray>,
    volume: Vec<ByteArray>,
    offset: Vec<i64>,
    length: Vec<i64>,
}

impl Rows {
    fn into_columns(self) -> [Column; 5] {
        [
            Column::U64(self.at_ns),
            Column::Text(self.op),
            Column::Text(self.volume),
            Column::U64(self.offset),
            Column::U64(self.length),
        ]
    }
}

fn write_parquet<R: Requests + ?Sized>(
    source: &mut R,
    target: &Path,
    page_size: PageSize,
) -> Result<u64, TraceError> {
    let metadata = ("thermocline-page-size-bytes", page_size.bytes().to_string());
    let mut writer = ColumnWriter::create(target, PARQUET_SCHEMA, &["at_ns"], metadata)?;
    let ops = [Op::Read, Op::Write].map(|op| ByteArray::from(letter(op)));
    let mut names: Vec<ByteArray> = Vec::new();
    let mut rows = Rows::default();
    let written = for_each(source, page_size, |placed| {
        let volume = placed.request.volume as usize;
        if volume == names.len() {
            names.push(ByteArray::from(placed.volume_name));
        }
        rows.at_ns.push(placed.request.at.0.cast_signed());
        rows.op.push(ops[placed.request.op as usize].clone());
        // Volumes are numbered in order of appearance, so the name is there or was just added.
        rows.volume.push(names.get(volume).cloned().unwrap_or_else(|| placed.volume_name.into()));
        rows.offset.push(placed.offset.cast_signed());
        rows.length.push(placed.length.cast_signed());
        if rows.at_ns.len() == GROUP_ROWS {
            writer.group(&std::mem::take(&mut rows).into_columns())?;
        }
        Ok(Ok(()))
    })?;
    if !rows.at_ns.is_empty() {
        writer.group(&rows.into_columns())?;
    }
    writer.finish()?;
    Ok(written)
}

/// Writes the accesses of a compiled trace as oracleGeneral; returns how many.
///
/// Times are counted from the earliest request and cut to seconds, which must fit 32 bits; the
/// object id is the global page number, the size the page size.
///
/// # Errors
/// If the target cannot be written, or the trace lasts longer than 136 years.
///
/// # Panics
/// Never: page sizes are at most 16 MiB.
pub fn write_oracle_general(
    trace: &CompiledTrace,
    target: impl AsRef<Path>,
) -> Result<u64, TraceError> {
    let mut file = AtomicFile::create(target.as_ref())?;
    let next = next_accesses(trace);
    let size_bytes = u32::try_from(trace.page_size_bytes()).expect("at most 16 MiB");
    let first_at_ns = trace.summary().first_at.0;
    for (number, request) in (1..).zip(trace.requests()) {
        let seconds = (request.at.0 - first_at_ns) / 1_000_000_000;
        let seconds = u32::try_from(seconds).map_err(|_| TraceError::Request {
            path: trace.path().to_owned(),
            request: number,
            reason: format!("{seconds} s after the first, and oracleGeneral has 32 bits for it"),
        })?;
        for index in request.accesses {
            let page_number = trace.page_numbers()[trace.access(index).page.index()];
            let mut record = [0; oracle_general::RECORD_BYTES];
            record[..4].copy_from_slice(&seconds.to_le_bytes());
            record[4..12].copy_from_slice(&page_number.to_le_bytes());
            record[12..16].copy_from_slice(&size_bytes.to_le_bytes());
            record[16..].copy_from_slice(&next[index].to_le_bytes());
            file.buffer().extend_from_slice(&record);
        }
        file.drain()?;
    }
    file.finish()?;
    Ok(trace.len() as u64)
}

/// Return for every access the index of the next access to the same page, -1 if there is none.
fn next_accesses(trace: &CompiledTrace) -> Vec<i64> {
    let mut seen = vec![-1; trace.footprint_pages() as usize];
    let mut next = vec![-1; trace.len()];
    for index in (0..trace.len()).rev() {
        let page = trace.access(index).page.index();
        let index_signed = i64::try_from(index).expect("accesses are in memory");
        next[index] = std::mem::replace(&mut seen[page], index_signed);
    }
    next
}
