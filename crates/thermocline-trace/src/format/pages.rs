//! One page number per line, as in the traces of the LIRS paper.
//!
//! * Line: a page number; a line `*`, which ends a part of some LIRS traces, is counted as another
//!   event.
//! * All are reads of one page, without times; one volume.
//! * Source: Jiang and Zhang, *LIRS*, SIGMETRICS '02, and its published traces.

use thermocline_core::{Nanos, Op};

use super::Format;
use crate::decode::{Line, TextFormat};
use crate::error::Reason;
use crate::request::Request;
use crate::text::{ONLY_VOLUME, integer, pages};
use crate::volumes::Volumes;

pub(crate) const FORMAT: Format =
    Format { is_page_numbered: true, ..Format::text::<Pages>("pages") };

#[derive(Debug, Default)]
struct Pages;

impl TextFormat for Pages {
    #[inline]
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        let text = line.trim_ascii();
        if text == b"*" {
            return Ok(Line::OtherEvent);
        }
        let extent = pages(integer(text, "page number")?, 1)?;
        let volume = volumes.number(ONLY_VOLUME);
        Ok(Line::Request(Request { at: Nanos(0), op: Op::Read, volume, extent }))
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Pages;
    use crate::format::test_support::{check, check_error, counts, pages, read};

    #[test]
    fn lines_are_understood() {
        let lines = "7\n*\n\n 9 \r\n8";
        check(Pages, lines, &[7, 9, 8].map(|page| read(0, 0, pages(page, 1))));
        let counts = counts(Pages, lines);
        assert_eq!((counts.other_events, counts.blank_lines, counts.requests), (1, 1, 3));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_error(Pages, "7\n8 9\n", "line 2: the page number is not");
        check_error(Pages, "18446744073709551615\n", "beyond 2^63");
    }
}
