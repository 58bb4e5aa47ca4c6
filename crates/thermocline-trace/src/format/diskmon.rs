//! Windows DiskMon text.
//!
//! * Line: `number time duration disk request sector length`, separated by tabs, ended by CR LF.
//! * Units: `time` and `duration` in seconds from the start, sectors of 512 B. The duration is
//!   ignored.
//! * Op: `Read` or `Write`; other requests, such as IOCTLs, are counted as other events.
//! * Volume: the disk number.
//! * Source: Microsoft Sysinternals, *DiskMon for Windows*.

use thermocline_core::Nanos;

use super::Format;
use crate::decode::{Line, TextFormat};
use crate::error::Reason;
use crate::request::Request;
use crate::text::{Fields, integer, sectors, time, word_op};
use crate::volumes::Volumes;

pub(crate) const FORMAT: Format = Format::text::<Diskmon>("diskmon");

#[derive(Debug, Default)]
struct Diskmon;

impl TextFormat for Diskmon {
    #[inline]
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        let mut fields = Fields::new(line);
        integer(fields.word("number")?, "number")?;
        let at = Nanos(time(fields.word("time")?, "time", 9)?);
        time(fields.word("duration")?, "duration", 9)?;
        let disk = fields.word("disk")?;
        integer(disk, "disk")?;
        let request = fields.word("request")?;
        if !request.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
            return Err("the request is not a word".into());
        }
        let Ok(op) = word_op(request) else { return Ok(Line::OtherEvent) };
        let first = integer(fields.word("sector")?, "sector")?;
        let count = integer(fields.word("length")?, "length")?;
        fields.end()?;
        let volume = volumes.number(disk);
        Ok(Line::Request(Request { at, op, volume, extent: sectors(first, count)? }))
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Diskmon;
    use crate::format::test_support::{bytes, check, check_error, counts, read};
    use thermocline_core::Op::Write;

    #[test]
    fn lines_are_understood() {
        let lines = "0\t0.5\t0.00038147\t1\tRead\t64\t8\r\n1\t0.75\t0\t1\tIOCTL_DISK\r\n\
            2\t1.5\t0.1\t0\tWrite\t8\t1\r\n";
        check(
            Diskmon,
            lines,
            &[
                read(500_000_000, 0, bytes(32_768, 4096)),
                bytes(4096, 512).at(1_500_000_000, Write, 1),
            ],
        );
        assert_eq!(counts(Diskmon, lines).other_events, 1);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_error(Diskmon, "0\t0.5\t0.1\t1\tRead\t64\n", "the length is missing");
        check_error(Diskmon, "0\t0.5\t0.1\t1\t-\t64\t8\n", "the request is not a word");
    }
}
