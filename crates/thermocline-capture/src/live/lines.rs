//! Output of bpftrace for a block device or for processes, line by line.
//!
//! * `# thermocline 1`: the first line.
//! * `B NS RWBS SECTOR SECTORS`: a request to the block device, when it was queued. RWBS is the kernel's
//!   own word: R or W, with F before it if a flush comes first, and others that move no data.
//! * The lines of [`BPFTRACE_SCRIPT`](crate::BPFTRACE_SCRIPT), of which requests to files count alone:
//!   each file is a volume.
//! * `Lost N events`: bpftrace's own, when it could not keep pace.

use std::collections::HashMap;

use thermocline_core::{Nanos, Op};
use thermocline_trace::text::{Fields, SECTOR_BYTES, integer};
use thermocline_trace::{Reason, Request, excerpt};

use super::{Heard, NotARequest, extent};
use crate::source::LINE_BYTES_MAX;

/// Understands the lines of one recording.
#[derive(Debug, Default)]
pub(super) struct Lines {
    files: HashMap<Vec<u8>, u32>,
    names: Vec<String>,
}

impl Lines {
    /// Return the names of the volumes so far.
    pub(super) fn volume_names(&self) -> &[String] {
        &self.names
    }

    /// Understands the whole lines, and returns their length.
    ///
    /// # Errors
    /// If a line of a request cannot be parsed; the first such line ends the reading.
    pub(super) fn hear(
        &mut self,
        bytes: &[u8],
        each: &mut impl FnMut(Heard),
    ) -> Result<usize, NotARequest> {
        let mut begin = 0;
        while let Some(length) = memchr::memchr(b'\n', &bytes[begin..]) {
            let line = &bytes[begin..begin + length];
            each(self.line(line).map_err(|reason| NotARequest { reason, text: excerpt(line) })?);
            begin += length + 1;
        }
        if bytes.len() - begin > LINE_BYTES_MAX {
            let reason = "the line is longer than 1 MiB".into();
            return Err(NotARequest { reason, text: excerpt(&bytes[begin..]) });
        }
        Ok(begin)
    }

    /// Understands a line, which has no line end.
    ///
    /// # Errors
    /// If a line of a request cannot be parsed.
    fn line(&mut self, line: &[u8]) -> Result<Heard, Reason> {
        match line {
            b"# thermocline 1" => Ok(Heard::Ready),
            [b'B', b' ', rest @ ..] => self.of_device(rest),
            [letter @ (b'R' | b'W'), b' ', rest @ ..] => {
                self.of_file(if *letter == b'R' { Op::Read } else { Op::Write }, rest)
            }
            _ => Ok(lost(line).map_or(Heard::Other, Heard::Lost)),
        }
    }

    fn of_device(&mut self, line: &[u8]) -> Result<Heard, Reason> {
        let mut fields = Fields::new(line);
        let at = Nanos(integer(fields.word("time")?, "time")?);
        let op = match fields.word("op")? {
            [b'R', ..] => Op::Read,
            [b'W', ..] | [b'F', b'W', ..] => Op::Write,
            // Discards, zeroes that are written by the device, flushes.
            [b'A'..=b'Z', ..] => return Ok(Heard::Other),
            _ => return Err("unknown operation".into()),
        };
        let sector = integer(fields.word("sector")?, "sector")?;
        let sectors = integer(fields.word("size")?, "size")?;
        fields.end()?;
        let extent = extent(sector.checked_mul(SECTOR_BYTES), sectors.checked_mul(SECTOR_BYTES))?;
        let volume = self.volume(b"device");
        Ok(Heard::Request(Request { at, op, volume, extent }))
    }

    fn of_file(&mut self, op: Op, line: &[u8]) -> Result<Heard, Reason> {
        let mut fields = Fields::new(line);
        let at = Nanos(integer(fields.word("time")?, "time")?);
        integer(fields.word("process")?, "process")?;
        let file = fields.word("file")?;
        let offset = fields.word("offset")?;
        let length = integer(fields.word("length")?, "length")?;
        if offset.starts_with(b"-") {
            // Another thread moved the position meanwhile: nobody knows where it was.
            return Ok(Heard::Lost(1));
        }
        let extent = extent(Some(integer(offset, "offset")?), Some(length))?;
        let volume = self.volume(file);
        Ok(Heard::Request(Request { at, op, volume, extent }))
    }

    fn volume(&mut self, name: &[u8]) -> u32 {
        if let Some(&volume) = self.files.get(name) {
            return volume;
        }
        let volume = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(String::from_utf8_lossy(name).into_owned());
        self.files.insert(name.to_owned(), volume);
        volume
    }
}

/// Return the number of events bpftrace says it lost.
fn lost(line: &[u8]) -> Option<u64> {
    let number = line.strip_prefix(b"Lost ")?.strip_suffix(b" events")?;
    integer(number, "number").ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thermocline_trace::Extent;

    use super::*;

    #[test]
    fn requests_of_devices_and_files_are_heard() {
        let mut lines = Lines::default();
        let mut hear = |line: &str| lines.line(line.as_bytes());
        let request = |at, op, volume, offset, length| {
            let extent = Extent::Bytes { offset, length };
            Ok(Heard::Request(Request { at: Nanos(at), op, volume, extent }))
        };
        assert_eq!(hear("# thermocline 1"), Ok(Heard::Ready));
        assert_eq!(hear("B 15 R 8 16"), request(15, Op::Read, 0, 4096, 8192));
        assert_eq!(hear("B 16 WS 0 8"), request(16, Op::Write, 0, 0, 4096));
        assert_eq!(hear("B 17 FWFSM 0 8"), request(17, Op::Write, 0, 0, 4096));
        assert_eq!(hear("B 18 RA 0 8"), request(18, Op::Read, 0, 0, 4096));
        assert_eq!(hear("B 19 DS 0 8"), Ok(Heard::Other));
        assert_eq!(hear("W 20 7 1:2:3 512 10 x"), request(20, Op::Write, 1, 512, 10));
        assert_eq!(hear("R 21 7 1:2:3 0 10 a name"), request(21, Op::Read, 1, 0, 10));
        assert_eq!(hear("R 22 7 1:2:3 -5 10 x"), Ok(Heard::Lost(1)));
        assert_eq!(hear("Lost 12 events"), Ok(Heard::Lost(12)));
        assert_eq!(hear("Attaching 2 probes..."), Ok(Heard::Other));
        assert_eq!(hear("S 1:2:3 0 1 x"), Ok(Heard::Other));
        for bad in ["B 1 R 8", "B 1 x 8 8", "B x R 8 8", "B 1 R 18446744073709551615 8", "R 1 7"] {
            assert!(hear(bad).is_err(), "{bad}");
        }
        assert_eq!(lines.volume_names(), ["device", "1:2:3"]);
    }

    proptest! {
        #[test]
        fn any_line_is_heard_or_refused(line in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut lines = Lines::default();
            // Never a panic, and a line of a request is one or an error.
            drop(lines.line(&line));
            let known = [b"B ", &line[..]].concat();
            prop_assert!(!matches!(lines.line(&known), Ok(Heard::Ready | Heard::Lost(_))));
        }
    }
}
