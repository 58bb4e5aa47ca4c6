//! `.lis`, the format of the ARC paper's traces.
//!
//! * Line: `start count ignored index`, separated by blanks.
//! * Units: `start` is a page number and `count` a number of pages, whose size the file does not
//!   state. The third field differs between traces and is ignored.
//! * All are reads, without times; one volume.
//! * Source: Megiddo and Modha, *ARC: A Self-Tuning, Low Overhead Replacement Cache*, FAST '03.

use thermocline_core::{Nanos, Op};

use super::Format;
use crate::decode::{Line, TextFormat};
use crate::error::Reason;
use crate::request::Request;
use crate::text::{Fields, ONLY_VOLUME, integer, pages};
use crate::volumes::Volumes;

pub(crate) const FORMAT: Format = Format { is_page_numbered: true, ..Format::text::<Lis>("lis") };

#[derive(Debug, Default)]
struct Lis;

impl TextFormat for Lis {
    #[inline]
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        let mut fields = Fields::new(line);
        let first = integer(fields.word("start")?, "start")?;
        let count = integer(fields.word("count")?, "count")?;
        integer(fields.word("third field")?, "third field")?;
        integer(fields.word("index")?, "index")?;
        fields.end()?;
        let volume = volumes.number(ONLY_VOLUME);
        let extent = pages(first, count)?;
        Ok(Line::Request(Request { at: Nanos(0), op: Op::Read, volume, extent }))
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Lis;
    use crate::format::test_support::{check, check_error, pages, read};

    #[test]
    fn lines_are_understood() {
        check(Lis, "7 3 0 0\n100 1 0 1\n", &[read(0, 0, pages(7, 3)), read(0, 0, pages(100, 1))]);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_error(Lis, "7 3 0\n", "the index is missing");
        check_error(Lis, "7 16777217 0 0\n", "longer than 2^24 pages");
        check_error(Lis, "9223372036854775808 1 0 0\n", "beyond 2^63");
    }
}
