//! The block traces of Systor '17, of virtual desktops.
//!
//! * Header: `Timestamp,Response,IOType,LUN,Offset,Size`.
//! * Units: seconds since 1970 with decimals, bytes.
//! * Op: `R` or `W`; a line without one is a request to which no answer was seen. It is counted and not
//!   replayed.
//! * Volume: the LUN.
//! * Source: Lee et al., *Understanding Storage Traffic Characteristics on Enterprise Virtual Desktop
//!   Infrastructure*, SYSTOR '17; SNIA IOTTA.

use super::{Described, Format, ReadOptions};
use crate::delimited::Delimited;
use crate::mapping::Mapping;

pub(crate) const FORMAT: Format = Format::described::<Systor>("systor17");

struct Systor;

impl Described for Systor {
    fn lines(_: &ReadOptions) -> Delimited {
        let mapping = Mapping::built_in(
            "time=Timestamp:s,op=IOType,volume=LUN,offset=Offset,length=Size",
            "R=read,W=write,=unanswered",
        );
        Delimited::with_header(b',', vec![mapping])
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Systor;
    use crate::format::test_support::{bytes, check, check_error, counts, read};
    use thermocline_core::Op::Write;

    const LINES: &str = "Timestamp,Response,IOType,LUN,Offset,Size\n\
        1455555600.000123000,0.000567,R,2,1073741824,8192\n\
        1455555600.000345000,,W,2,1073750016,4096\n1455555600.000400000,,,2,0,0\n";

    #[test]
    fn lines_are_understood() {
        check(
            Systor,
            LINES,
            &[
                read(1_455_555_600_000_123_000, 0, bytes(1_073_741_824, 8192)),
                bytes(1_073_750_016, 4096).at(1_455_555_600_000_345_000, Write, 0),
            ],
        );
        let counts = counts(Systor, LINES);
        assert_eq!((counts.requests, counts.unanswered_requests, counts.header_lines), (2, 1, 1));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_error(
            Systor,
            "Timestamp,Response,LUN\n",
            "the header has no column `IOType`; it has: ",
        );
        let line = "Timestamp,Response,IOType,LUN,Offset,Size\n1,0,R,2\n";
        check_error(Systor, line, "line 2: the offset is missing");
    }
}
