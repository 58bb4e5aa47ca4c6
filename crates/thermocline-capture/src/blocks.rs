//! Recordings of block devices: blktrace's binary records, and the text that blkparse prints.
//!
//! Each device is a file of the table, called `major:minor`. The requests are the queue events.
//!
//! * Binary: the module `blktrace` has the records.
//! * Source: the format of blkparse's text is that of the trace format `blkparse`.

use std::collections::HashMap;
use std::path::Path;

use thermocline_trace::{
    Extent, FormatName, Position, ReadOptions, Reader, Requests as _, TraceError, hexadecimal,
};

use super::blktrace::{DISORDER_NS, MAGIC_REASON, RECORD_BYTES, Record};
use super::collector::{Captured, Collector, IMPOSSIBLE_REQUEST};
use super::files::FilesByKey;
use super::options::CaptureOptions;
use super::progress::Progress;
use super::source::Recorded;
use super::spool::Spooled;
use crate::error::CaptureError;

/// A process that no record names.
const UNKNOWN_COMMAND: &[u8] = b"unknown";

/// Converts what blkparse printed.
pub(super) fn convert_text(
    source: &Recorded,
    output: &Path,
    options: &CaptureOptions,
    progress: &mut dyn Progress,
) -> Result<Captured, CaptureError> {
    let reading = ReadOptions { format: Some(FormatName::Blkparse), ..ReadOptions::default() };
    let mut reader = match source {
        Recorded::File(path) => Reader::open(path, &reading)?,
        Recorded::Text(name, text) => {
            Reader::from_read(name, std::io::Cursor::new(text.clone()), &reading)?
        }
    };
    let mut collector = Collector::new(options, output)?;
    let command = collector.command(UNKNOWN_COMMAND);
    let mut files: Vec<u32> = vec![];
    let mut batch = vec![];
    while reader.read_batch(&mut batch)? {
        let (bytes, of_bytes) = reader.progress_bytes();
        progress.at(bytes, of_bytes);
        for name in &reader.volume_names()[files.len()..] {
            files.push(collector.add_file(name.as_bytes()));
        }
        for request in &batch {
            let Extent::Bytes { offset, length } = request.extent else { continue };
            let (at_ns, file) = (request.at.0, files[request.volume as usize]);
            collector.counts.io_calls += 1;
            let request = Spooled { at_ns, file, command, op: request.op, offset, length };
            // The reader has refused what is beyond the last address.
            collector.request(request, at_ns.saturating_sub(DISORDER_NS))?;
        }
    }
    let counts = reader.counts();
    collector.counts.lines = counts.requests + counts.other_events + counts.summary_lines;
    collector.counts.other_calls = counts.other_events;
    collector.finish(source.path(), "blkparse")
}

/// Converts what blktrace wrote.
pub(super) fn convert_binary(
    source: &Recorded,
    output: &Path,
    options: &CaptureOptions,
    progress: &mut dyn Progress,
) -> Result<Captured, CaptureError> {
    let mut input = source.open()?;
    let mut collector = Collector::new(options, output)?;
    let mut files = FilesByKey::default();
    let mut commands: HashMap<u32, u32> = HashMap::new();
    let unknown = collector.command(UNKNOWN_COMMAND);
    let (mut number, mut offset_bytes) = (0_u64, 0_u64);
    loop {
        input.fill_to(RECORD_BYTES)?;
        let Some((head, _)) = input.available().split_first_chunk::<RECORD_BYTES>() else { break };
        let head = *head;
        number += 1;
        let position = Position::Record { number, offset_bytes };
        let Some(record) = Record::parse(&head) else {
            return Err(not_a_record(source.path(), position, &head));
        };
        let record_bytes = RECORD_BYTES + record.following_bytes;
        input.fill_to(record_bytes)?;
        let Some(following) = input.available().get(RECORD_BYTES..record_bytes) else {
            return Err(truncated(source.path(), position));
        };
        collector.counts.lines += 1;
        if record.is_process_name() {
            let end = memchr::memchr(0, following).unwrap_or(following.len());
            let name = following[..end].to_vec();
            commands.insert(record.pid, collector.command(&name));
        } else if let Some(op) = record.op() {
            collector.counts.io_calls += 1;
            let name = record.device_name();
            let file = files.file(name.as_bytes(), name.as_bytes(), &mut collector);
            let command = *commands.get(&record.pid).unwrap_or(&unknown);
            let (offset, length) = record.extent_bytes();
            let request = Spooled { at_ns: record.at_ns, file, command, op, offset, length };
            if !collector.request(request, record.at_ns.saturating_sub(DISORDER_NS))? {
                collector.not_understood(number, IMPOSSIBLE_REQUEST, &head);
            }
        } else {
            collector.counts.other_calls += 1;
        }
        input.consume(record_bytes);
        offset_bytes += record_bytes as u64;
        if number.is_multiple_of(1024) {
            progress.at(input.fetched_bytes(), input.size_bytes());
        }
    }
    if !input.available().is_empty() {
        return Err(truncated(
            source.path(),
            Position::Record { number: number + 1, offset_bytes },
        ));
    }
    collector.finish(source.path(), "blktrace")
}

fn not_a_record(path: &Path, position: Position, head: &[u8]) -> CaptureError {
    let reason = MAGIC_REASON.into();
    let text = hexadecimal(head);
    TraceError::Malformed { path: path.into(), position, reason, text }.into()
}

fn truncated(path: &Path, position: Position) -> CaptureError {
    let reason = "the file ends within a record".into();
    TraceError::Truncated { path: path.into(), position, reason }.into()
}
