//! The block traces of Alibaba Cloud.
//!
//! * Line: `device_id,opcode,offset,length,timestamp`, without a header.
//! * Units: bytes, microseconds since 1970.
//! * Op: `R` or `W`.
//! * Volume: the device.
//! * Source: Li et al., *An In-Depth Analysis of Cloud Block Storage Workloads in Large-Scale
//!   Production*, IISWC '20; github.com/alibaba/block-traces.

use super::{Described, Format, ReadOptions};
use crate::delimited::Delimited;
use crate::mapping::Mapping;

pub(crate) const FORMAT: Format = Format::described::<Alibaba>("alibaba");

struct Alibaba;

impl Described for Alibaba {
    fn lines(_: &ReadOptions) -> Delimited {
        let mapping =
            Mapping::built_in("volume=1,op=2,offset=3,length=4,time=5:us", "R=read,W=write");
        Delimited::commas(vec![mapping], 5..=5, |cells, line| {
            // 2001 to 2286: other traces have five columns, too.
            if matches!(cells.get(line, 4).len(), 15 | 16) {
                return Ok(());
            }
            Err("the time is not one of 15 or 16 digits, in microseconds since 1970".into())
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Alibaba;
    use crate::format::test_support::{bytes, check, check_error, read, volume_names};
    use thermocline_core::Op::Write;

    const LINES: &str = "0,R,8388608,4096,1577808000000123\n17,W,1073745920,12288,1577808000000170\n\
        17,R,1073741824,4096,1577808000000171\n";

    #[test]
    fn lines_are_understood() {
        check(
            Alibaba,
            LINES,
            &[
                read(1_577_808_000_000_123_000, 0, bytes(8_388_608, 4096)),
                bytes(1_073_745_920, 12_288).at(1_577_808_000_000_170_000, Write, 1),
                read(1_577_808_000_000_171_000, 1, bytes(1_073_741_824, 4096)),
            ],
        );
        assert_eq!(volume_names(Alibaba, LINES), ["0", "17"]);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_error(Alibaba, "0,R,1,2,3\n", "line 1: the time is not one of 15 or 16 digits");
        check_error(Alibaba, "0,X,1,2,1577808000000123\n", "the op 'X' is none of R, W");
        check_error(Alibaba, "0,R,1,2\n", "4 columns in place of 5");
        check_error(Alibaba, "0,R,-1,2,1577808000000123\n", "the offset is not");
    }
}
