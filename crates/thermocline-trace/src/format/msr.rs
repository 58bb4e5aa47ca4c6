//! MSR Cambridge CSV.
//!
//! * Line: `timestamp,hostname,disk,type,offset,size,response`.
//! * Units: `timestamp` in ticks of 100 ns since 1601-01-01 (Windows file time), kept absolute;
//!   `offset` and `size` in bytes; the response time is ignored.
//! * Op: `Read` or `Write`.
//! * Volume: `hostname_disk`, as the trace files are named.
//! * Source: Narayanan, Donnelly and Rowstron, *Write Off-Loading*, FAST '08; SNIA IOTTA.

use thermocline_core::Nanos;

use super::Format;
use crate::decode::{Line, TextFormat};
use crate::error::Reason;
use crate::request::Request;
use crate::text::{Fields, Joined, bytes, integer, word_op};
use crate::volumes::Volumes;

/// One tick of a Windows file time.
const TICK_NS: u64 = 100;

pub(crate) const FORMAT: Format = Format::text::<Msr>("msr");

#[derive(Debug, Default)]
struct Msr;

impl TextFormat for Msr {
    #[inline]
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        let mut fields = Fields::new(line);
        let ticks = integer(fields.until(b',', "timestamp")?, "timestamp")?;
        let host = fields.until(b',', "hostname")?;
        let disk = fields.until(b',', "disk")?;
        integer(disk, "disk")?;
        let op = word_op(fields.until(b',', "type")?)?;
        let offset = integer(fields.until(b',', "offset")?, "offset")?;
        let length = integer(fields.until(b',', "size")?, "size")?;
        integer(fields.until(b',', "response time")?, "response time")?;
        fields.end()?;
        let at = Nanos(ticks.checked_mul(TICK_NS).ok_or("the timestamp is too large")?);
        let volume = volumes.number(Joined::new(host, b'_', disk)?.as_bytes());
        Ok(Line::Request(Request { at, op, volume, extent: bytes(offset, length)? }))
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Msr;
    use crate::format::test_support::{bytes, check, check_error, read, volume_names};
    use thermocline_core::Op::Write;

    #[test]
    fn lines_are_understood() {
        let lines = "128166372003061629,web,1,Read,4096,512,77\n12,usr,0,Write,0,1,0\r\n";
        check(
            Msr,
            lines,
            &[
                read(12_816_637_200_306_162_900, 0, bytes(4096, 512)),
                bytes(0, 1).at(1200, Write, 1),
            ],
        );
        assert_eq!(volume_names(Msr, lines), ["web_1", "usr_0"]);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_error(Msr, "1,web,1,Erase,4096,512,77\n", "neither Read nor Write");
        check_error(Msr, "1,web,1,Read,4096,512,77,8\n", "too many fields");
        check_error(Msr, "1,web,1,Read,4096,512\n", "the response time is missing");
        check_error(Msr, "18446744073709551615,a,1,Read,0,1,0\n", "the timestamp is too large");
    }
}
