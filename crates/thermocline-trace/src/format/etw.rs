//! The text that Microsoft's xperf makes of an ETW trace (Exchange, MSN storage, TPC-C, TPC-E).
//!
//! * Header: `BeginHeader`, the columns of each kind of event, `EndHeader`. Then a line that says
//!   `Trace Start`, if the recorder wrote one.
//! * Line: `DiskRead` or `DiskWrite`, `TimeStamp, Process Name ( PID), ThreadID, IrpPtr,
//!   ByteOffset, IOSize, ElapsedTime, DiskNum`, and further columns, which are ignored. Columns are
//!   padded with blanks; a process name may be in quotes and contain commas.
//! * Units: `TimeStamp` in microseconds from the start of the trace; `Trace Start` is a Windows file
//!   time, and makes times absolute. `ByteOffset` and `IOSize` are hexadecimal, in bytes.
//! * Time: that of the event, which Windows writes when the request has completed; so lines are in
//!   the order of completion. `ElapsedTime` is ignored.
//! * Volume: `DiskNum`.
//! * Other events, such as `DiskReadInit`, `FileIoRead` and `CSwitch`, are counted as other events.
//! * Source: Kavalanekar et al., *Characterization of Storage Workload Traces from Production
//!   Windows Servers*, IISWC '08; SNIA IOTTA.

use thermocline_core::{Nanos, Op};

use super::Format;
use crate::decode::{Line, TextFormat};
use crate::error::Reason;
use crate::request::Request;
use crate::text::{Fields, bytes, hexadecimal_integer, integer};
use crate::volumes::Volumes;

/// One tick of a Windows file time.
const TICK_NS: u64 = 100;
/// One tick of a time stamp.
const STAMP_NS: u64 = 1000;

/// The columns of a request up to the last one that is used, after the kind of the event.
const COLUMNS: [&str; 8] = [
    "TimeStamp",
    "Process Name ( PID)",
    "ThreadID",
    "IrpPtr",
    "ByteOffset",
    "IOSize",
    "ElapsedTime",
    "DiskNum",
];

pub(crate) const FORMAT: Format = Format::text::<Etw>("etw");

#[derive(Debug, Default)]
struct Etw {
    /// Start of the trace, in nanoseconds of Windows file time; 0 if the trace does not state it.
    start_ns: u64,
}

impl TextFormat for Etw {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        let text = line.trim_ascii();
        if matches!(text, b"BeginHeader" | b"EndHeader") {
            return Ok(Line::Header);
        }
        if text.starts_with(b"OS Version:") {
            self.start_ns = start_ns(text)?;
            return Ok(Line::Header);
        }
        let mut fields = Fields::new(text);
        let event = fields.until(b',', "event")?.trim_ascii();
        if !is_event_name(event) || fields.rest().is_empty() {
            return Err("the line does not begin with the name of an event".into());
        }
        let op = match event {
            b"DiskRead" => Op::Read,
            b"DiskWrite" => Op::Write,
            _ if fields.rest().starts_with(COLUMNS[0].as_bytes()) => return Ok(Line::Header),
            _ => return Ok(Line::OtherEvent),
        };
        if fields.rest().starts_with(COLUMNS[0].as_bytes()) {
            check_columns(fields)?;
            return Ok(Line::Header);
        }
        self.request(op, fields, volumes).map(Line::Request)
    }
}

impl Etw {
    /// Parse the columns of a request.
    fn request(
        &self,
        op: Op,
        mut fields: Fields<'_>,
        volumes: &mut Volumes,
    ) -> Result<Request, Reason> {
        let stamp = integer(fields.until(b',', "time stamp")?.trim_ascii(), "time stamp")?;
        process(&mut fields)?;
        fields.until(b',', "thread")?;
        fields.until(b',', "IRP")?;
        let offset = fields.until(b',', "byte offset")?.trim_ascii();
        let offset = hexadecimal_integer(offset, "byte offset")?;
        let length = fields.until(b',', "size")?.trim_ascii();
        let length = hexadecimal_integer(length, "size")?;
        fields.until(b',', "elapsed time")?;
        let disk = fields.until(b',', "disk")?.trim_ascii();
        integer(disk, "disk")?;
        let at = stamp.checked_mul(STAMP_NS).and_then(|ns| ns.checked_add(self.start_ns));
        let at = Nanos(at.ok_or("the time stamp is too large")?);
        Ok(Request { at, op, volume: volumes.number(disk), extent: bytes(offset, length)? })
    }
}

/// Skip the process, which ends with its number in parentheses and may contain commas before that.
fn process(fields: &mut Fields<'_>) -> Result<(), Reason> {
    while !fields.until(b',', "process")?.trim_ascii_end().ends_with(b")") {}
    Ok(())
}

/// Check that a request has the columns that are read by their places.
fn check_columns(mut fields: Fields<'_>) -> Result<(), Reason> {
    for column in COLUMNS {
        if fields.until(b',', column)?.trim_ascii() != column.as_bytes() {
            return Err(format!("the column {column} is not where it is expected").into());
        }
    }
    Ok(())
}

/// Return `true` if an event may be called so, as `P-DCStart` and `UnknownEvent/Classic` are.
fn is_event_name(name: &[u8]) -> bool {
    name.first().is_some_and(u8::is_ascii_alphabetic)
        && name.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"-_/".contains(&byte))
}

/// Return the start of the trace in nanoseconds, from the line about the machine; 0 if it does not
/// say.
fn start_ns(line: &[u8]) -> Result<u64, Reason> {
    const LABEL: &[u8] = b"Trace Start:";
    let mut parts = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let Some(start) = parts.find_map(|part| part.strip_prefix(LABEL)) else { return Ok(0) };
    let ticks = integer(start.trim_ascii(), "start of the trace")?;
    ticks.checked_mul(TICK_NS).ok_or_else(|| "the start of the trace is too large".into())
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Etw;
    use crate::format::test_support::{bytes, check, check_error, counts, read, volume_names};
    use thermocline_core::Op::Write;

    const HEADER: &str = "BeginHeader\r
              DiskRead,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr,   ByteOffset,     IOSize, ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, I/O Pri,  VolSnap,         FileObject, FileName\r
             DiskWrite,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr,   ByteOffset,     IOSize, ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, I/O Pri,  VolSnap,         FileObject, FileName\r
          DiskReadInit,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr\r
             DiskFlush,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr,                           ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, I/O Pri\r
             P-DCStart,  TimeStamp,     Process Name ( PID),  ParentPID,  SessionID,  UniqueKey, UserSid, Command Line\r
EndHeader\r
";
    const MACHINE: &str = "OS Version: 6.0.6001, Trace Size: 51200KB, Events Lost: 0, Buffers lost: 0, Trace Start: 128497110000000000, Trace Length: 612 sec, PointerSize: 8, Trace Name: sample.trace\r\n";
    const EVENTS: &str = "             P-DCStart,          0,            Idle (   0),          0,          0, 0x00000000, , \r
          DiskReadInit,     260100,    System (   4),       1220, 0xfffffa8001020010\r
              DiskRead,     260959,    System (   4),       1220, 0xfffffa8001020010, 0x01f40e00, 0x00002000,         859,        4, 0x060043,         859,       0,  Unknown, 0xfffffa8002000020, \"D:\\a, b\\pages.dat\"\r
             DiskWrite,     261233, \"a, tool.exe\" (1408),       1412, 0xfffffa8001030010, 0x4e5ec22e00, 0x00010000,        1200,        5, 0x060a01,         640,       2,  Unknown, 0xfffffa8002000040, \"Unknown\"\r
             DiskFlush,     261300, \"a, tool.exe\" (1408),       1412, 0xfffffa8001030010,                                 67,        5, 0x000000,          67,       2\r
             DiskWrite,     263262,   two words.exe (22012),      12260, 0xfffffa8001040010, 0x00000000, 0x00000200,          90,        4, 0x060a01,          90,       0,  Unknown, 0x0000000000000000, \"Unknown\"\r
              FileIoRead,   263300,   two words.exe (22012),      12260,   1, 0xfffffa8001040010, 0x0, 0x200
";

    #[test]
    fn requests_are_read_and_other_events_are_counted() {
        let lines = [HEADER, EVENTS].concat();
        check(
            Etw,
            &lines,
            &[
                read(260_959_000, 0, bytes(0x01f4_0e00, 8192)),
                bytes(0x004e_5ec2_2e00, 65_536).at(261_233_000, Write, 1),
                bytes(0, 512).at(263_262_000, Write, 0),
            ],
        );
        let counts = counts(Etw, &lines);
        assert_eq!((counts.header_lines, counts.other_events, counts.requests), (7, 4, 3));
        assert_eq!(volume_names(Etw, &lines), ["4", "5"]);
    }

    #[test]
    fn times_are_absolute_if_the_trace_says_when_it_began() {
        let line =
            "DiskRead, 7, p0 (11008), 1, 0x0, 0x200, 0x200, 9, 0, 0x0, 9, 0, Unknown, 0x0, \"\"\n";
        let lines = [HEADER, MACHINE, line].concat();
        check(Etw, &lines, &[read(12_849_711_000_000_007_000, 0, bytes(512, 512))]);
        check(Etw, line, &[read(7000, 0, bytes(512, 512))]);
    }

    #[test]
    fn a_long_run_of_other_events_does_not_hide_the_format() {
        let events = "CSwitch, 5, Idle (   0), 0, 1\n".repeat(10_000);
        let line = "DiskRead, 7, p0 (11008), 1, 0x0, 0x200, 0x200, 9, 0, 0x0, 9, 0\n";
        check(Etw, &[HEADER, &events, line].concat(), &[read(7000, 0, bytes(512, 512))]);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let error = |line: &str, reason| check_error(Etw, &[HEADER, line].concat(), reason);
        error(
            "DiskRead, 7, p (1), 1, 0x0, 512, 0x200, 9, 0\n",
            "the byte offset is not hexadecimal",
        );
        error("DiskRead, 7, p (1), 1, 0x0, 0x200, 0x, 9, 0\n", "the size is not hexadecimal");
        error("DiskRead, x, p (1), 1, 0x0, 0x200, 0x200, 9, 0\n", "the time stamp is not");
        error("DiskRead, 7, p (1), 1, 0x0, 0x200, 0x200, 9\n", "the disk is missing");
        error("DiskRead, 7, p, 1, 0x0, 0x200, 0x200, 9, 0\n", "the process is missing");
        error(
            "DiskRead, 18446744073709551615, p (1), 1, 0x0, 0x0, 0x1, 9, 0\n",
            "stamp is too large",
        );
        error(
            "DiskRead, 7, p (1), 1, 0x0, 0x10000000000000000, 0x1, 9, 0\n",
            "offset is too large",
        );
        error("12, 7\n", "does not begin with the name of an event");
        error("OS Version: 6, Trace Start: soon\n", "the start of the trace is not");
        error("DiskRead, TimeStamp, ThreadID\n", "the column Process Name ( PID) is not where");
    }
}
