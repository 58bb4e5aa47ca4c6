//! The text that `blkparse` prints by default from a Linux block trace.
//!
//! * Line: `major,minor cpu sequence seconds pid action rwbs [sector [+ sectors]] [process]`.
//! * Units: seconds from the start, sectors of 512 B.
//! * Which events: those of one action, `Q` (queued) by default; `D` is what the driver saw. Lines
//!   of other actions, discards, flushes without an address and SCSI pass-through are counted as
//!   other events.
//! * Op: a `W` in `rwbs` is a write, else an `R` a read.
//! * Volume: `major:minor`.
//! * The summary that `blkparse` prints at the end is understood and counted.
//! * Source: blktrace's `blkparse` manual page, default output format.

use thermocline_core::{Nanos, Op};

use super::options::ReadOptions;
use super::{Format, Recognition};
use crate::decode::{Line, Lines, TextFormat};
use crate::error::Reason;
use crate::request::Request;
use crate::text::{Fields, Joined, integer, sectors, time};
use crate::volumes::Volumes;

/// Prefixes of the summary's lines.
const SUMMARY: [&[u8]; 20] = [
    b"CPU",
    b"Total (",
    b"Reads Queued:",
    b"Read Dispatches:",
    b"Reads Requeued:",
    b"Reads Completed:",
    b"Read Merges:",
    b"Read depth:",
    b"PC Reads Queued:",
    b"PC Read Disp.:",
    b"PC Reads Req.:",
    b"PC Reads Compl.:",
    b"IO unplugs:",
    b"Timer unplugs:",
    b"Throughput (R/W):",
    b"Events (",
    b"Skips:",
    b"Input file",
    b"Discards Queued:",
    b"Write depth:",
];

pub(crate) const FORMAT: Format = Format::new(
    "blkparse",
    Recognition::Lines(|_, options| Some(Box::new(Blkparse::new(options)))),
    |_, options| Box::new(Lines(Blkparse::new(options))),
);

#[derive(Debug)]
struct Blkparse {
    action: char,
}

impl Blkparse {
    const fn new(options: &ReadOptions) -> Self {
        Self { action: options.blkparse_action }
    }
}

impl TextFormat for Blkparse {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        let text = line.trim_ascii();
        if SUMMARY.iter().any(|prefix| text.starts_with(prefix)) {
            return Ok(Line::Summary);
        }
        let mut fields = Fields::new(line);
        let mut device = Fields::new(fields.word("device")?);
        let major = device.until(b',', "major device number")?;
        let minor = device.until(b',', "minor device number")?;
        integer(major, "major device number")?;
        integer(minor, "minor device number")?;
        integer(fields.word("CPU")?, "CPU")?;
        integer(fields.word("sequence number")?, "sequence number")?;
        let at = Nanos(time(fields.word("time")?, "time", 9)?);
        integer(fields.word("process id")?, "process id")?;
        let action = fields.word("action")?;
        if std::str::from_utf8(action).ok().and_then(|text| text.parse().ok()) != Some(self.action)
        {
            return Ok(Line::OtherEvent);
        }
        let flags = fields.word("RWBS field")?;
        let Some(op) = direction(flags) else { return Ok(Line::OtherEvent) };
        let Ok(first) = fields.word("sector") else { return Ok(Line::OtherEvent) };
        if first.starts_with(b"[") {
            return Ok(Line::OtherEvent);
        }
        let first = integer(first, "sector")?;
        let count = match fields.word("size") {
            Ok(b"+") => integer(fields.word("size")?, "size")?,
            Ok(process) if process.starts_with(b"[") => 0,
            _ => return Ok(Line::OtherEvent),
        };
        let volume = volumes.number(Joined::new(major, b':', minor)?.as_bytes());
        Ok(Line::Request(Request { at, op, volume, extent: sectors(first, count)? }))
    }
}

/// Return the direction of data, if any moves.
fn direction(flags: &[u8]) -> Option<Op> {
    if flags.contains(&b'D') {
        None
    } else if flags.contains(&b'W') {
        Some(Op::Write)
    } else if flags.contains(&b'R') {
        Some(Op::Read)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Blkparse;
    use crate::format::test_support::{bytes, check, check_error, counts, read};
    use crate::{ReadOptions, Reader, Requests};
    use std::io::Cursor;
    use thermocline_core::Op::Write;

    const LINES: &str = "
  8,0    3        1     0.000000000   697  Q   W 64 + 8 [kworker/3:1]
  8,0    3        2     0.000001000   697  G   W 64 + 8 [kworker/3:1]
  8,0    3        0     0.000002000     0  m   N cfq697 insert_request
  8,0    3        3     0.000003000   697  D   W 64 + 8 [kworker/3:1]
  8,16   1        1     1.000000001    42  Q  RA 128 + 16 [cp]
  8,0    1        2     1.500000000    42  Q   D 0 + 2048 [fstrim]
  8,0    1        3     1.600000000    42  Q FWS [jbd2/sda1-8]
  8,0    3        4     2.000000000     0  C   W 64 + 8 [0]
CPU0 (sda):
 Reads Queued:           1,        8KiB\t Writes Queued:           1,        4KiB

Total (sda):
Throughput (R/W): 8KiB/s / 4KiB/s
Events (sda): 8 entries
Skips: 0 forward (0 -   0.0%)
";

    #[test]
    fn queue_events_are_requests_and_all_else_is_counted() {
        check(
            Blkparse,
            LINES,
            &[bytes(32_768, 4096).at(0, Write, 0), read(1_000_000_001, 1, bytes(65_536, 8192))],
        );
        let counts = counts(Blkparse, LINES);
        assert_eq!(counts.other_events, 6);
        assert_eq!(counts.summary_lines, 6);
        assert_eq!(counts.blank_lines, 2);
    }

    #[test]
    fn another_action_can_be_chosen() {
        let options = ReadOptions { blkparse_action: 'C', ..ReadOptions::default() };
        let mut reader = Reader::from_read("t", Cursor::new(LINES), &options).unwrap();
        let mut batch = Vec::new();
        assert!(reader.read_batch(&mut batch).unwrap());
        assert_eq!(batch, [bytes(32_768, 4096).at(2_000_000_000, Write, 0)]);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_error(Blkparse, "8,0 1 1 0.5 7 Q W x + 8 [a]\n", "the sector is not");
        check_error(Blkparse, "8,0 1 1 0.5 7 Q W 8 +\n", "the size is missing");
        check_error(
            Blkparse,
            "sda 1 1 0.5 7 Q W 8 + 8 [a]\n",
            "the minor device number is missing",
        );
    }
}
