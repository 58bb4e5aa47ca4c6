//! The log of YCSB with its basic binding, which prints operations in place of doing them.
//!
//! * Line: `READ table key [ fields ]`, `UPDATE`, `INSERT`, `DELETE` alike, `SCAN table key count [...]`.
//!   Before them are properties, `"name"="value"` between lines of asterisks, behind them lines that
//!   begin with `[`. Values may hold line breaks: other lines belong to a value that is not closed.
//! * Times and sizes are not known, so each key of a table is a page.
//! * Op: `READ` reads, `UPDATE` and `INSERT` write, `SCAN` reads its first key (the others are not in
//!   the log), `DELETE` removes and is counted and not replayed.
//! * Source: Cooper et al., *Benchmarking Cloud Serving Systems with YCSB*, `SoCC` '10, and the code of
//!   its basic binding.

use thermocline_core::{Nanos, Op};

use super::Format;
use crate::decode::{Line, Skip, TextFormat};
use crate::error::Reason;
use crate::keys::{Hash, Keys};
use crate::request::Request;
use crate::text::{Fields, ONLY_VOLUME, integer, page_of_object};
use crate::volumes::Volumes;

pub(crate) const FORMAT: Format = Format { is_page_numbered: true, ..Format::text::<Ycsb>("ycsb") };

#[derive(Debug, Default)]
struct Ycsb {
    keys: Keys,
    /// `true` if the value of the last operation was not closed in its line.
    is_open: bool,
}

impl TextFormat for Ycsb {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        let mut fields = Fields::new(line);
        let op = match fields.word("operation")? {
            b"READ" | b"SCAN" => Some(Op::Read),
            b"UPDATE" | b"INSERT" => Some(Op::Write),
            b"DELETE" => None,
            word => return self.other(word, line),
        };
        let table = fields.word("table")?;
        let key = fields.word("key")?;
        if line.starts_with(b"SCAN") {
            integer(fields.word("number of records")?, "number of records")?;
        }
        self.is_open = !fields.rest().is_empty() && !line.trim_ascii_end().ends_with(b"]");
        let Some(op) = op else { return Ok(Line::Skipped(Skip::Removal)) };
        let mut hash = Hash::new();
        hash.add(table);
        hash.add(key);
        let extent = page_of_object(self.keys.id(hash, || key.to_vec())?)?;
        let volume = volumes.number(ONLY_VOLUME);
        Ok(Line::Request(Request { at: Nanos(0), op, volume, extent }))
    }
}

impl Ycsb {
    /// Parse a line that is not an operation.
    fn other(&mut self, word: &[u8], line: &[u8]) -> Result<Line, Reason> {
        match word[0] {
            b'[' => {
                self.is_open = false;
                Ok(Line::Summary)
            }
            _ if self.is_open => {
                self.is_open = !line.trim_ascii_end().ends_with(b"]");
                Ok(Line::OtherEvent)
            }
            b'*' => Ok(Line::Header),
            b'"' if line.windows(3).any(|bytes| bytes == b"\"=\"") => Ok(Line::Header),
            _ => Err("not an operation of YCSB, and no value is open".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Ycsb;
    use crate::format::test_support::{check_error, check_keys, counts, pages, read};
    use thermocline_core::Op::Write;

    #[test]
    fn lines_are_understood() {
        let lines = "***************** properties *****************\n\"workload\"=\"site.ycsb\"\n\
            **********************************************\nREAD usertable user101 [ <all fields>]\n\
            UPDATE usertable user102 [ field1=a b\nREADY ] x\nand more ]\n\
            SCAN usertable user103 12 [ <all fields>]\nREAD other user101 [ f1 f2 ]\n\
            DELETE usertable user101\nREAD usertable user101 [ <all fields>]\n[READ], Operations, 3\n";
        check_keys(
            Ycsb,
            lines,
            &[
                read(0, 0, pages(0, 1)),
                pages(1, 1).at(0, Write, 0),
                read(0, 0, pages(2, 1)),
                read(0, 0, pages(3, 1)),
                read(0, 0, pages(0, 1)),
            ],
        );
        let counts = counts(Ycsb, lines);
        assert_eq!((counts.removals, counts.header_lines, counts.summary_lines), (1, 3, 1));
        assert_eq!(counts.other_events, 2);
        check_error(Ycsb, "READ usertable user1 [ ]\nwhat\n", "line 2: not an operation of YCSB");
        check_error(Ycsb, "READ usertable\n", "the key is missing");
    }
}
