//! The FIU traces (homes, mail, web): block traces with the content hash of every request.
//!
//! * Line: `ts_ns pid process lba sectors op major minor hash`, separated by blanks; the process
//!   name may contain blanks, because the fields behind it are counted from the end.
//! * Units: `ts_ns` in nanoseconds, `lba` and `sectors` in sectors of 512 B. The hash is ignored.
//! * Op: `R` or `W`.
//! * Volume: `major:minor`.
//! * Source: Koller and Rangaswami, *I/O Deduplication*, FAST '10; SNIA IOTTA.

use thermocline_core::Nanos;

use super::Format;
use crate::decode::{Line, TextFormat};
use crate::error::Reason;
use crate::request::Request;
use crate::text::{Fields, Joined, integer, letter_op, sectors};
use crate::volumes::Volumes;

pub(crate) const FORMAT: Format = Format::text::<Fiu>("fiu");

#[derive(Debug, Default)]
struct Fiu;

impl TextFormat for Fiu {
    #[inline]
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        let mut fields = Fields::new(line);
        let at = Nanos(integer(fields.word("time")?, "time")?);
        integer(fields.word("process id")?, "process id")?;
        let hash = fields.last_word("hash")?;
        if !hash.iter().all(u8::is_ascii_hexdigit) {
            return Err("the hash is not hexadecimal".into());
        }
        let minor = fields.last_word("minor device number")?;
        let major = fields.last_word("major device number")?;
        integer(minor, "minor device number")?;
        integer(major, "major device number")?;
        let op = letter_op(fields.last_word("op")?)?;
        let count = integer(fields.last_word("size")?, "size")?;
        let first = integer(fields.last_word("LBA")?, "LBA")?;
        if fields.rest().is_empty() {
            return Err("the process is missing".into());
        }
        let volume = volumes.number(Joined::new(major, b':', minor)?.as_bytes());
        Ok(Line::Request(Request { at, op, volume, extent: sectors(first, count)? }))
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Fiu;
    use crate::format::test_support::{bytes, check, check_error, read, volume_names};
    use thermocline_core::Op::Write;

    #[test]
    fn lines_are_understood() {
        let lines = "500 7 sh 64 8 W 6 0 00ff\n900 8 two words 8 1 R 8 1 a0\n";
        check(Fiu, lines, &[bytes(32_768, 4096).at(500, Write, 0), read(900, 1, bytes(4096, 512))]);
        assert_eq!(volume_names(Fiu, lines), ["6:0", "8:1"]);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_error(Fiu, "500 7 64 8 W 6 0 00ff\n", "the process is missing");
        check_error(Fiu, "500 7 sh 64 8 D 6 0 00ff\n", "neither R nor W");
        check_error(Fiu, "500 7 sh 64 8 W 6 0 xyz\n", "the hash is not hexadecimal");
        check_error(Fiu, "0.5 7 sh 64 8 W 6 0 00ff\n", "the time is not");
    }
}
