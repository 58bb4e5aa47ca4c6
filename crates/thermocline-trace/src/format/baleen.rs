//! The traces of Baleen's simulator: parts of blocks of Meta's Tectonic file system.
//!
//! * Line: `block offset size time op namespace user host repeat`, separated by blanks; columns may be
//!   missing at the end. A comment may name the columns; with `pipeline` in it, the pipeline follows
//!   the op. Without that comment it is recognised by 7 to 9 columns.
//! * Units: bytes, seconds with decimals. Blocks are of up to 8 MiB, so pages are of 128 KiB unless
//!   told otherwise.
//! * Op: 1, 2, 5 and 100 read, 3, 4 and 6 write; without an op, reads.
//! * A block and its host are an object of its own, of which a request asks for a part. A line stands
//!   for `repeat` requests within a second.
//! * Source: Wong et al., *Baleen: ML Admission & Prefetching for Flash Caches*, FAST '24, and the
//!   trace reader of its published code.

use thermocline_core::{Nanos, Op};

use super::{Format, Recognition};
use crate::decode::{Line, Lines, TextFormat};
use crate::delimited::Cells;
use crate::error::Reason;
use crate::keys::{Hash, Keys};
use crate::mapping::Delimiter;
use crate::request::{PageSize, Request};
use crate::text::{ONLY_VOLUME, integer, object, time};
use crate::volumes::Volumes;

const SECOND_NS: u64 = 1_000_000_000;

/// Few of its lines could be of another format from this many columns on.
const TELLING_COLUMNS: usize = 7;

pub(crate) const FORMAT: Format = Format {
    page_size: Some(PageSize::LARGE),
    ..Format::new(
        "baleen",
        Recognition::Lines(|_, _| Some(Box::new(Baleen::new(TELLING_COLUMNS)))),
        |_, _| Box::new(Lines(Baleen::new(4))),
    )
};

#[derive(Debug)]
struct Baleen {
    columns_min: usize,
    has_pipeline: bool,
    cells: Cells,
    keys: Keys,
}

impl Baleen {
    fn new(columns_min: usize) -> Self {
        Self { columns_min, has_pipeline: false, cells: Cells::default(), keys: Keys::default() }
    }
}

impl TextFormat for Baleen {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        self.cells.cut(line, Delimiter::Blanks, false, usize::MAX)?;
        let columns = self.cells.len();
        let most = 9 + usize::from(self.has_pipeline);
        if !(self.columns_min..=most).contains(&columns) {
            return Err(
                format!("{columns} columns in place of {} to {most}", self.columns_min).into()
            );
        }
        let cell = |column: usize| {
            // The pipeline is after the op.
            let column = column + usize::from(self.has_pipeline && column > 4);
            (column < columns).then(|| self.cells.get(line, column))
        };
        let number = |column, name| integer(cell(column).unwrap_or_default(), name);
        let (offset, length) = (number(1, "offset")?, number(2, "size")?);
        if length == 0 {
            return Err("the size is 0".into());
        }
        let at = Nanos(time(cell(3).unwrap_or_default(), "time", 9)?);
        let op = match cell(4) {
            None | Some(b"1" | b"2" | b"5" | b"100") => Op::Read,
            Some(b"3" | b"4" | b"6") => Op::Write,
            Some(_) => return Err("the op is none of 1 to 6 and 100".into()),
        };
        let mut hash = Hash::new();
        let block = cell(0).unwrap_or_default();
        hash.add(block);
        hash.add(cell(7).unwrap_or_default());
        let id = self.keys.id(hash, || block.to_vec())?;
        let times = cell(8).map_or(Ok(1), |digits| integer(digits, "repeat count"))?;
        let extent = object(id, offset, length)?;
        let request = Request { at, op, volume: volumes.number(ONLY_VOLUME), extent };
        if times == 1 {
            return Ok(Line::Request(request));
        }
        Ok(Line::Repeated { request, times, apart_ns: SECOND_NS / times.saturating_sub(1).max(1) })
    }

    fn comment(&mut self, comment: &[u8]) -> u64 {
        let names = comment[1..].split(u8::is_ascii_whitespace).filter(|name| !name.is_empty());
        if names.clone().next() == Some(b"block") {
            self.columns_min = 4;
            self.has_pipeline = names.clone().any(|name| name == b"pipeline");
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Baleen;
    use crate::format::test_support::{check_error, check_keys, drain, object, read};
    use thermocline_core::Op::Write;

    #[test]
    fn lines_are_understood() {
        let lines = "# block offset size time op namespace user host repeat\n\
            90071 262144 131072 12.25 2 3 4 77 1\n90071 0 131072 13 3 3 4 78 3\n";
        let write = |at| object(1, 0, 131_072).at(at, Write, 0);
        check_keys(
            Baleen,
            lines,
            &[
                read(12_250_000_000, 0, object(0, 262_144, 131_072)),
                write(13_000_000_000),
                write(13_500_000_000),
                write(14_000_000_000),
            ],
        );
    }

    #[test]
    fn columns_may_be_missing_or_one_more() {
        let short = "90071 0 4096 1 2 3 4\n90071 4096 4096 1.5 6 3 4\n";
        let first = read(1_000_000_000, 0, object(0, 0, 4096));
        check_keys(Baleen, short, &[first, object(0, 4096, 4096).at(1_500_000_000, Write, 0)]);
        let more = "# block offset size time op pipeline namespace user host repeat\n\
            90071 0 4096 1 2 9 3 4 77 2\n";
        let again = read(2_000_000_000, 0, object(0, 0, 4096));
        check_keys(Baleen, more, &[first, again]);
        // Other formats have four numbers, so this one must be named.
        let (requests, _) = drain(Baleen, b"1 0 4096 1\n").unwrap();
        assert_eq!((requests.len(), requests[0].at.0), (1, 1_000_000_000));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_error(Baleen, "1 0 0 1 2 3 4\n", "line 1: the size is 0");
        check_error(Baleen, "1 0 1 1 7 3 4\n", "the op is none of 1 to 6 and 100");
        check_error(Baleen, "1 0 1 1 1 3 4 7 0\n", "the number of requests is not from 1");
        check_error(Baleen, "1 0 1\n", "3 columns in place of 4 to 9");
    }
}
