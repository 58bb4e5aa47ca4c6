//! Reader of the output of [`BPFTRACE_SCRIPT`].
//!
//! * `# thermocline 1`: the first line.
//! * `S ID LEVEL BYTES NAME`: a step of a file's path, its own name at level 0, the folder's at 1,
//!   ... A name with line breaks continues in the next lines, until it has BYTES bytes.
//! * `N ID LEVEL NAME`: the same in older recordings; the name goes on in lines that are none of these.
//! * `R|W NS PID ID OFFSET BYTES COMMAND`: a request; NS is when it was entered. OFFSET is below 0 if
//!   another thread moved the position of the file meanwhile: nobody knows it then.
//! * `M NS PID ID BYTES`: a mapping into memory.
//! * `Attaching ...`, `Lost N events`, `@MAP[KEYS]: VALUE`: bpftrace's own.
//!
//! The kernel itself tells offset and file, so nothing has to be followed.

use std::collections::HashMap;
use std::path::Path;

use thermocline_core::Op;
use thermocline_trace::text::{Fields, integer};
use thermocline_trace::{Position, Reason, TraceError, excerpt};

use super::collector::{Captured, Collector, IMPOSSIBLE_REQUEST};
use super::files::FilesByKey;
use super::options::{CaptureOptions, Identity, Mmap};
use super::progress::Progress;
use super::source::Recorded;
use super::spool::Spooled;
use crate::error::CaptureError;

/// The script for bpftrace that records processes; `WANTED` stands for statements that name them in
/// `@wanted`, and the process that adds others and that it ends with in `@recorder`.
pub const BPFTRACE_SCRIPT: &str = include_str!("bpftrace.bt");

const FIRST_LINE: &[u8] = b"# thermocline 1";

/// The most that a step of a path has.
const NAME_BYTES_MAX: u64 = 255;

/// Lines come when a call ends, and so up to this much behind those of calls that began later.
const DISORDER_NS: u64 = 1_000_000_000;

/// A line that was understood.
enum Line<'a> {
    Name {
        id: &'a [u8],
        level: u64,
        name: &'a [u8],
        rest: NameRest,
    },
    /// Without an offset, it is not known.
    Request {
        at_ns: u64,
        id: &'a [u8],
        op: Op,
        offset: Option<u64>,
        length: u64,
        command: &'a [u8],
    },
    Map {
        at_ns: u64,
        id: &'a [u8],
        length: u64,
    },
    Lost(u64),
    Other,
}

/// Continuation of a name in the next lines.
#[derive(Clone, Copy, Debug, Default)]
enum NameRest {
    /// None.
    #[default]
    None,
    /// Number of further bytes, including line breaks.
    Bytes(u64),
    /// All lines that are not the script's.
    Untold,
}

impl NameRest {
    /// Split off the beginning of a name of `bytes` bytes, and return its rest.
    fn split(text: &[u8], bytes: u64) -> (&[u8], Self) {
        let left = bytes.saturating_sub(text.len() as u64);
        // Newer versions of bpftrace mark what they cut off.
        let name = &text[..text.len().min(usize::try_from(bytes).unwrap_or(usize::MAX))];
        (name, if left == 0 { Self::None } else { Self::Bytes(left) })
    }

    /// Return the part of the next line that belongs to the name; `None` if the line does not.
    fn take<'a>(&mut self, text: &'a [u8]) -> Option<&'a [u8]> {
        let (taken, rest) = match *self {
            // A line break comes before the text.
            Self::Bytes(left) if left > text.len() as u64 => Self::split(text, left - 1),
            Self::Untold if parse(text).is_err() => (text, Self::Untold),
            Self::None | Self::Bytes(_) | Self::Untold => {
                *self = Self::None;
                return None;
            }
        };
        *self = rest;
        Some(taken)
    }
}

fn parse(text: &[u8]) -> Result<Line<'_>, Reason> {
    let mut fields = Fields::new(text);
    let first = fields.word("kind of line")?;
    match first {
        b"S" => {
            let id = fields.word("file")?;
            let level = integer(fields.word("level")?, "level")?;
            let bytes = integer(fields.word("length of the name")?, "length of the name")?;
            if bytes > NAME_BYTES_MAX {
                return Err("no file has so long a name".into());
            }
            // Exactly one blank is not the name's.
            fields.until(b' ', "name")?;
            let name = fields.until(b'\n', "name")?;
            let (name, rest) = NameRest::split(name, bytes);
            Ok(Line::Name { id, level, name, rest })
        }
        b"N" => {
            let id = fields.word("file")?;
            let level = integer(fields.word("level")?, "level")?;
            Ok(Line::Name { id, level, name: fields.rest(), rest: NameRest::Untold })
        }
        b"R" | b"W" => {
            let at_ns = integer(fields.word("time")?, "time")?;
            integer(fields.word("process id")?, "process id")?;
            let id = fields.word("file")?;
            let offset = fields.word("offset")?;
            let offset = match offset.strip_prefix(b"-") {
                Some(below) => integer(below, "offset").map(|_: u64| None),
                None => integer(offset, "offset").map(Some),
            }?;
            let length = integer(fields.word("length")?, "length")?;
            let op = if first == b"R" { Op::Read } else { Op::Write };
            Ok(Line::Request { at_ns, id, op, offset, length, command: fields.rest() })
        }
        b"M" => {
            let at_ns = integer(fields.word("time")?, "time")?;
            integer(fields.word("process id")?, "process id")?;
            let id = fields.word("file")?;
            Ok(Line::Map { at_ns, id, length: integer(fields.word("length")?, "length")? })
        }
        b"Lost" => Ok(Line::Lost(integer(fields.word("number of events")?, "number of events")?)),
        b"Attaching" | b"#" => Ok(Line::Other),
        // At its end bpftrace prints the maps that the script did not clear. Clearing is an event like
        // others, which a busy machine loses.
        map if map.starts_with(b"@") && text.windows(2).any(|two| two == b": ") => Ok(Line::Other),
        _ => Err("not a line that the script prints".into()),
    }
}

/// Converts the recording `source` to `output`.
pub(super) fn convert(
    source: &Recorded,
    output: &Path,
    options: &CaptureOptions,
    progress: &mut dyn Progress,
) -> Result<Captured, CaptureError> {
    let mut collector = Collector::new(options, output)?;
    let paths = paths(source, progress)?;
    let mut files = FilesByKey::default();
    let mut rest = NameRest::None;
    source.each_line(progress, |number, text| {
        if rest.take(text).is_some() {
            collector.counts.lines += 1;
            return Ok(());
        }
        if text.trim_ascii().is_empty() {
            return Ok(());
        }
        collector.counts.lines += 1;
        let (at_ns, id, op, offset, length, command) = match parse(text) {
            Ok(Line::Request { at_ns, id, op, offset, length, command }) => {
                collector.counts.io_calls += 1;
                collector.counts.position_assumed += u64::from(offset.is_none());
                (at_ns, id, op, offset.unwrap_or(0), length, command)
            }
            Ok(Line::Map { at_ns, id, length }) => {
                collector.counts.mmaps += 1;
                let bytes = collector.counts.mmap_bytes.saturating_add(length);
                collector.counts.mmap_bytes = bytes;
                if options.mmap == Mmap::Ignore {
                    return Ok(());
                }
                (at_ns, id, Op::Read, 0, length, &b"mmap"[..])
            }
            Ok(Line::Lost(events)) => {
                collector.counts.lost = collector.counts.lost.saturating_add(events);
                return Ok(());
            }
            Ok(Line::Name { rest: more, .. }) => {
                rest = more;
                return Ok(());
            }
            Ok(Line::Other) => return Ok(()),
            Err(reason) => {
                collector.not_understood(number, &reason, text);
                return Ok(());
            }
        };
        let path = paths.path(id);
        let key = if options.identity == Identity::Path { path } else { id };
        let file = match files.known(key) {
            Some(file) => file,
            None => files.file(key, path, &mut collector),
        };
        let command = collector.command(command);
        let request = Spooled { at_ns, file, command, op, offset, length };
        if !collector.request(request, at_ns.saturating_sub(DISORDER_NS))? {
            collector.not_understood(number, IMPOSSIBLE_REQUEST, text);
        }
        Ok(())
    })?;
    collector.finish(source.path(), "bpftrace")
}

/// Return the paths of the files, which may come behind their requests, from another processor.
fn paths(source: &Recorded, progress: &mut dyn Progress) -> Result<Paths, TraceError> {
    let mut paths = Paths::default();
    let mut has_first_line = false;
    let mut step = Step::default();
    source.each_line(progress, |number, text| {
        if let Some(text) = step.rest.take(text) {
            step.name.push(b'\n');
            step.name.extend_from_slice(text);
        } else if let Ok(Line::Name { id, level, name, rest }) = parse(text) {
            let next = Step { id: id.into(), level, name: name.into(), rest };
            paths.add(&std::mem::replace(&mut step, next));
        }
        has_first_line |= number <= 8 && text.ends_with(FIRST_LINE);
        Ok(())
    })?;
    paths.add(&step);
    if !has_first_line {
        let reason = "the first lines lack `# thermocline 1`: record with the script that \
            `thermocline trace record --with bpftrace` uses";
        return Err(TraceError::Malformed {
            path: source.path().into(),
            position: Position::Line(1),
            reason: reason.into(),
            text: excerpt(b""),
        });
    }
    Ok(paths)
}

/// A step of a path.
#[derive(Default)]
struct Step {
    id: Vec<u8>,
    level: u64,
    name: Vec<u8>,
    rest: NameRest,
}

/// The paths of files, by their ids.
#[derive(Default)]
struct Paths {
    of: HashMap<Box<[u8]>, Vec<u8>>,
}

impl Paths {
    /// Adds a step: they come from the file's own name upwards, up to the root, which is called `/`.
    fn add(&mut self, step: &Step) {
        let Step { id, level, name, .. } = step;
        if id.is_empty() {
            return;
        }
        let path = self.of.entry(id.as_slice().into()).or_default();
        if *level == 0 {
            path.clear();
        }
        if path.first() == Some(&b'/') || name.is_empty() {
            return;
        }
        let mut above = name.clone();
        if !path.is_empty() && name != b"/" {
            above.push(b'/');
        }
        path.splice(..0, above);
    }

    /// Return the path of a file; its id if it is not known.
    fn path<'a>(&'a self, id: &'a [u8]) -> &'a [u8] {
        self.of.get(id).map_or(id, Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{Source, convert_text};
    use super::*;

    /// Check the paths of the files in a recording, and the number of lines that were not
    /// understood.
    fn check(lines: &str, paths: &[&str], unknown: u64) {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("x.csv");
        let text = format!("# thermocline 1\n{lines}");
        let options = CaptureOptions { max_unknown: u64::MAX, ..CaptureOptions::default() };
        let captured = convert_text(Source::Bpftrace, "x.bt", text, &output, &options).unwrap();
        let table = fs::read_to_string(folder.path().join("x.files.csv")).unwrap();
        let found: Vec<_> = table.lines().skip(1).map(|line| line.rsplit(',').next()).collect();
        let paths: Vec<_> = paths.iter().map(|path| format!("\"{path}\"")).collect();
        assert_eq!(found, paths.iter().map(|path| Some(path.as_str())).collect::<Vec<_>>());
        assert_eq!(captured.counts.unknown, unknown, "{lines}");
    }

    #[test]
    fn names_end_where_their_lengths_say() {
        let request = "R 1 7 8:5:1 0 1 app\n";
        check(&format!("S 8:5:1 0 4 x.db\nwhat\nS 8:5:1 1 1 /\n{request}"), &["/x.db"], 1);
        let broken = format!("S 8:5:1 0 13 \n R 1 7\n\n x \nS 8:5:1 1 1 /\n{request}");
        check(&broken, &[r"/\n R 1 7\n\n x "], 0);
        // One that was cut off, with a mark or without, and one that is empty.
        check(&format!("S 8:5:1 0 3 abc..\nS 8:5:1 1 1 /\n{request}"), &["/abc"], 0);
        check(&format!("S 8:5:1 0 20 abc\n{request}"), &["abc"], 0);
        check(&format!("S 8:5:1 0 256 abc\n{request}"), &["8:5:1"], 1);
        check(&format!("S 8:5:1 0 0 \nS 8:5:1 1 1 /\n{request}"), &["/"], 0);
    }

    #[test]
    fn names_of_older_recordings_end_at_a_line_of_the_scripts() {
        let lines = "N 8:5:1 0 x\ny\n\nz\nN 8:5:1 1 /\nR 1 7 8:5:1 0 1 app\nwhat\n";
        check(lines, &[r"/x\ny\n\nz"], 1);
    }
}
