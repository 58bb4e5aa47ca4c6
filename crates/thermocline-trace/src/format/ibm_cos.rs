//! The traces of IBM Cloud Object Storage.
//!
//! * Line: `time operation id [size [start end]]`, separated by blanks.
//! * Units: milliseconds since the trace began, bytes. `end` is the last byte of a range.
//! * Op: `REST.GET.OBJECT` reads, `PUT` and `COPY` write; `HEAD` asks for no data and is counted as
//!   another event; `DELETE` removes and is counted and not replayed.
//! * Each id, 16 hexadecimal digits, is an object, of which a request may ask for a part.
//! * Source: Eytan et al., *It's Time to Revisit LRU vs. FIFO*, HotStorage '20; SNIA IOTTA.

use super::{Described, Format, ReadOptions};
use crate::delimited::Delimited;
use crate::mapping::Mapping;

pub(crate) const FORMAT: Format = Format::described::<IbmCos>("ibm-cos");

struct IbmCos;

impl Described for IbmCos {
    fn lines(_: &ReadOptions) -> Delimited {
        let mapping = Mapping::built_in(
            "time=1:ms,op=2,key=3:hex,length=4?,offset=5?,end=6?",
            "REST.GET.OBJECT=read,REST.PUT.OBJECT=write,REST.COPY.OBJECT=write,REST.HEAD.OBJECT=ignore,\
             REST.DELETE.OBJECT=remove",
        );
        Delimited::blanks(vec![mapping], 3..=6, |_, _| Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::IbmCos;
    use crate::format::test_support::{check, check_error, counts, object, read};
    use thermocline_core::Op::Write;

    #[test]
    fn lines_are_understood() {
        let lines = "15 REST.PUT.OBJECT 00112233445566aa 4096\n\
            2101 REST.HEAD.OBJECT 00112233445566ab 700\n\
            2200 REST.GET.OBJECT 00112233445566aa 4096 1024 2047\n\
            3000 REST.DELETE.OBJECT 00112233445566aa\n";
        let id = 0x0011_2233_4455_66aa;
        let expected = [
            object(id, 0, 4096).at(15_000_000, Write, 0),
            read(2_200_000_000, 0, object(id, 1024, 1024)),
        ];
        check(IbmCos, lines, &expected);
        let counts = counts(IbmCos, lines);
        assert_eq!((counts.other_events, counts.removals), (1, 1));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_error(IbmCos, "15 REST.GET.OBJECT xyz 4096\n", "the key is not hexadecimal");
        check_error(
            IbmCos,
            "15 GET 00112233445566aa 4096\n",
            "the op 'GET' is none of REST.GET.OBJECT",
        );
        check_error(IbmCos, "1 REST.GET.OBJECT aa 9 5 3\n", "the range ends before it begins");
    }
}
