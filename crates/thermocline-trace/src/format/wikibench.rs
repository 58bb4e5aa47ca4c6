//! The traces of Wikibench, of 2007.
//!
//! * Line: `counter time url save`, separated by blanks.
//! * Units: seconds since 1970 with decimals.
//! * Op: `-` reads, `save` writes.
//! * Sizes are not known, so each URL is a page.
//! * Source: Urdaneta et al., *Wikipedia Workload Analysis for Decentralized Hosting*, Computer
//!   Networks 53 (2009).

use super::{Described, Format, ReadOptions};
use crate::delimited::Delimited;
use crate::mapping::Mapping;

pub(crate) const FORMAT: Format =
    Format { is_page_numbered: true, ..Format::described::<Wikibench>("wikibench") };

struct Wikibench;

impl Described for Wikibench {
    fn lines(_: &ReadOptions) -> Delimited {
        let mapping = Mapping::built_in("time=2:s,key=3,op=4", "-=read,save=write");
        Delimited::blanks(vec![mapping], 4..=4, |_, _| Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Wikibench;
    use crate::format::test_support::{check_error, check_keys, pages, read};
    use thermocline_core::Op::Write;

    #[test]
    fn lines_are_understood() {
        let lines = "929840891 1190146243.326 http://en.wikipedia.org/a -\n\
            929840892 1190146243.341 http://de.wikipedia.org/b save\n\
            929840893 1190146243.341 http://en.wikipedia.org/a -\n";
        check_keys(
            Wikibench,
            lines,
            &[
                read(1_190_146_243_326_000_000, 0, pages(0, 1)),
                pages(1, 1).at(1_190_146_243_341_000_000, Write, 0),
                read(1_190_146_243_341_000_000, 0, pages(0, 1)),
            ],
        );
        check_error(Wikibench, "1 2 u x\n", "line 1: the op 'x' is none of -, save");
    }
}
