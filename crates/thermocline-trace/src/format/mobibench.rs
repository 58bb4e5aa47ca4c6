//! `MobiBench` text: file-level traces of Android applications.
//!
//! * Line: `number seconds op file size [offset length state]`, separated by blanks; the last three
//!   for `READ` and `WRITE` only. `state` (`HIT`, `MISS`, `APPEND`) and the file's size are ignored.
//! * Units: `offset` and `length` in bytes; times are seconds since 1970, kept absolute.
//! * `OPEN`, `CLOSE`, `FSYNC` and the like are counted as other events, and so are failed calls,
//!   whose length is -1 as an unsigned number.
//! * Volume: the file, by its inode number: file offsets of different files do not mix.
//! * Source: Jeong et al., *`AndroStep`: Android Storage Performance Analysis Tool*, ME '13.

use thermocline_core::{Nanos, Op};

use super::Format;
use crate::decode::{Line, TextFormat};
use crate::error::Reason;
use crate::request::Request;
use crate::text::{Fields, bytes, integer, time};
use crate::volumes::Volumes;

pub(crate) const FORMAT: Format = Format::text::<Mobibench>("mobibench");

#[derive(Debug, Default)]
struct Mobibench;

impl TextFormat for Mobibench {
    #[inline]
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        let mut fields = Fields::new(line);
        integer(fields.word("number")?, "number")?;
        let at = Nanos(time(fields.word("time")?, "time", 9)?);
        let op = fields.word("op")?;
        if !op.iter().all(u8::is_ascii_uppercase) {
            return Err("the op is not a word in capitals".into());
        }
        let file = fields.word("file")?;
        integer(file, "file")?;
        let op = match op {
            b"READ" => Op::Read,
            b"WRITE" => Op::Write,
            _ => return Ok(Line::OtherEvent),
        };
        integer(fields.word("file size")?, "file size")?;
        let offset = integer(fields.word("offset")?, "offset")?;
        let length = integer(fields.word("length")?, "length")?;
        fields.word("state")?;
        fields.end()?;
        if length == u64::MAX {
            return Ok(Line::OtherEvent);
        }
        let extent = bytes(offset, length)?;
        Ok(Line::Request(Request { at, op, volume: volumes.number(file), extent }))
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Mobibench;
    use crate::format::test_support::{bytes, check, check_error, counts, read};
    use thermocline_core::Op::Write;

    #[test]
    fn lines_are_understood() {
        let lines = "1 0.5 OPEN  16410 900\n2 0.5 READ  16410 900  0 128 HIT\n\
            3 1.25 WRITE 7 0 0 1 APPEND\n4 1.5 READ 7 9 0 18446744073709551615 HIT\n";
        check(
            Mobibench,
            lines,
            &[read(500_000_000, 0, bytes(0, 128)), bytes(0, 1).at(1_250_000_000, Write, 1)],
        );
        assert_eq!(counts(Mobibench, lines).other_events, 2);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_error(Mobibench, "1 0.5 read 7 9 0 1 HIT\n", "not a word in capitals");
        check_error(Mobibench, "1 0.5 READ 7 9 0 1\n", "the state is missing");
    }
}
