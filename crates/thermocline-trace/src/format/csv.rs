//! Our own CSV, for traces from anywhere else.
//!
//! * First line: `timestamp_us,op,volume,offset,length`, then one request a line.
//! * Units: `timestamp_us` in microseconds, fractional if need be; `offset` and `length` in bytes.
//! * Op: `R` or `W`.
//! * Volume: any text without commas.
//! * A comment `# gap: N page accesses are missing here` says that a recording lost some.

use thermocline_core::Nanos;

use super::Format;
use crate::decode::{Line, TextFormat};
use crate::error::Reason;
use crate::request::Request;
use crate::text::{Fields, bytes, integer, letter_op, time};
use crate::volumes::Volumes;

/// The first line.
pub(crate) const HEADER: &[u8] = b"timestamp_us,op,volume,offset,length";

/// Text before and after the number of a gap's accesses.
pub(crate) const GAP: [&str; 2] = ["# gap: ", " page accesses are missing here"];

pub(crate) const FORMAT: Format = Format::text::<Csv>("csv");

#[derive(Debug, Default)]
struct Csv {
    has_header: bool,
}

impl TextFormat for Csv {
    #[inline]
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        if !self.has_header {
            return if line == HEADER {
                self.has_header = true;
                Ok(Line::Header)
            } else {
                Err("the first line must be timestamp_us,op,volume,offset,length".into())
            };
        }
        let mut fields = Fields::new(line);
        let at = Nanos(time(fields.until(b',', "timestamp_us")?, "timestamp_us", 3)?);
        let op = letter_op(fields.until(b',', "op")?)?;
        let volume = fields.until(b',', "volume")?;
        let offset = integer(fields.until(b',', "offset")?, "offset")?;
        let length = integer(fields.until(b',', "length")?, "length")?;
        fields.end()?;
        let extent = bytes(offset, length)?;
        Ok(Line::Request(Request { at, op, volume: volumes.number(volume), extent }))
    }

    fn comment(&mut self, comment: &[u8]) -> u64 {
        let [before, behind] = GAP;
        let digits = comment
            .strip_prefix(before.as_bytes())
            .and_then(|rest| rest.trim_ascii_end().strip_suffix(behind.as_bytes()));
        digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Csv;
    use crate::format::test_support::{bytes, check, check_error, counts, read, volume_names};
    use thermocline_core::Op::Write;

    #[test]
    fn lines_are_understood() {
        let lines = "# made by hand\ntimestamp_us,op,volume,offset,length\n1.5,R,a b,4096,512\n\
            2,w,,0,0\n";
        check(Csv, lines, &[read(1500, 0, bytes(4096, 512)), bytes(0, 0).at(2000, Write, 1)]);
        assert_eq!(volume_names(Csv, lines), ["a b", ""]);
    }

    #[test]
    fn gaps_are_counted_and_are_comments() {
        let lines = "timestamp_us,op,volume,offset,length\n1,R,a,0,512\n\
            # gap: 12 page accesses are missing here\n2,R,a,0,512\n\
            # gap: 5 page accesses are missing here\r\n\
            # gap: many page accesses are missing here\n";
        let counts = counts(Csv, lines);
        assert_eq!((counts.requests, counts.comment_lines), (2, 3));
        assert_eq!(counts.missing_accesses, 17);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_error(Csv, "1,R,a,0,512\n", "line 1: the first line must be timestamp_us");
        check_error(
            Csv,
            "timestamp_us,op,volume,offset,length\n1,R,a,0\n",
            "the length is missing",
        );
    }
}
