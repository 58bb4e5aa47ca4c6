//! The log that fio writes with `--write_iolog`.
//!
//! * First line: `fio version 2 iolog` or `fio version 3 iolog`.
//! * Version 2: `FILE add|open|close`, and `FILE read|write|trim|sync|datasync|wait OFFSET LENGTH`. The
//!   clock is the sum of the waits, whose offset is in microseconds.
//! * Version 3: the same with a time in microseconds in front, and without waits.
//! * Source: fio's documentation, section "Trace file format".

use std::path::Path;

use thermocline_core::Op;
use thermocline_trace::text::{Fields, integer};
use thermocline_trace::{Position, Reason, TraceError, excerpt};

use super::collector::{Captured, Collector, IMPOSSIBLE_REQUEST};
use super::files::FilesByKey;
use super::options::CaptureOptions;
use super::progress::Progress;
use super::source::Recorded;
use super::spool::Spooled;
use crate::error::CaptureError;

/// Name of fio among the processes.
const COMMAND: &[u8] = b"fio";

/// A line that was understood.
enum Line<'a> {
    Request { file: &'a [u8], op: Op, offset: u64, length: u64 },
    Wait(u64),
    Sync,
    Opened,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

/// Converts the recording `source` to `output`.
pub(super) fn convert(
    source: &Recorded,
    output: &Path,
    options: &CaptureOptions,
    progress: &mut dyn Progress,
) -> Result<Captured, CaptureError> {
    let mut collector = Collector::new(options, output)?;
    let command = collector.command(COMMAND);
    let mut files = FilesByKey::default();
    let mut version = None;
    let mut clock_us = 0_u64;
    source.each_line(progress, |number, text| {
        let Some(version) = version else {
            version = Some(parse_version(source.path(), text)?);
            return Ok(());
        };
        if text.trim_ascii().is_empty() {
            return Ok(());
        }
        collector.counts.lines += 1;
        match parse(version, text, &mut clock_us) {
            Ok(Line::Request { file, op, offset, length }) => {
                collector.counts.io_calls += 1;
                let file = files.file(file, file, &mut collector);
                let at_ns = clock_us.saturating_mul(1000);
                let request = Spooled { at_ns, file, command, op, offset, length };
                if !collector.request(request, at_ns)? {
                    collector.not_understood(number, IMPOSSIBLE_REQUEST, text);
                }
            }
            Ok(Line::Wait(us)) => clock_us = clock_us.saturating_add(us),
            Ok(Line::Sync) => collector.counts.syncs += 1,
            Ok(Line::Opened) => collector.counts.opens += 1,
            Ok(Line::Other) => collector.counts.other_calls += 1,
            Err(reason) => collector.not_understood(number, &reason, text),
        }
        Ok(())
    })?;
    collector.finish(source.path(), "fio-iolog")
}

fn parse_version(path: &Path, text: &[u8]) -> Result<Version, TraceError> {
    match text.trim_ascii() {
        b"fio version 2 iolog" => Ok(Version::Two),
        b"fio version 3 iolog" => Ok(Version::Three),
        _ => Err(TraceError::Malformed {
            path: path.into(),
            position: Position::Line(1),
            reason: "the first line must be `fio version 2 iolog` or `fio version 3 iolog`".into(),
            text: excerpt(text),
        }),
    }
}

fn parse<'a>(version: Version, text: &'a [u8], clock_us: &mut u64) -> Result<Line<'a>, Reason> {
    let mut fields = Fields::new(text);
    if version == Version::Three {
        *clock_us = integer(fields.word("time")?, "time")?;
    }
    // File names may have blanks, so the line is read from its end.
    let last = fields.last_word("action")?;
    match last {
        b"open" => return Ok(Line::Opened),
        b"add" | b"close" | b"unlink" => return Ok(Line::Other),
        _ => {}
    }
    let length = integer(last, "length")?;
    let offset = integer(fields.last_word("offset")?, "offset")?;
    let action = fields.last_word("action")?;
    let file = fields.rest();
    if file.is_empty() {
        return Err("the file name is missing".into());
    }
    match action {
        b"read" => Ok(Line::Request { file, op: Op::Read, offset, length }),
        b"write" => Ok(Line::Request { file, op: Op::Write, offset, length }),
        b"wait" if version == Version::Two => Ok(Line::Wait(offset)),
        b"sync" | b"datasync" => Ok(Line::Sync),
        b"trim" => Ok(Line::Other),
        _ => Err("the action is not one of fio's".into()),
    }
}
