//! The block traces of Tencent's cloud block storage.
//!
//! * Line: `time,offset,size,type,volume`, without a header.
//! * Units: seconds since 1970; sectors of 512 B, unless [`ReadOptions::tencent_unit`] says otherwise
//!   (a later release has offsets in bytes).
//! * Op: 0 reads, 1 writes.
//! * Source: Zhang et al., *OSCA: An Online-Model Based Cache Allocation Scheme in Cloud Block Storage
//!   Systems*, ATC '20; SNIA IOTTA.

use super::{Described, Format, ReadOptions, TencentUnit};
use crate::delimited::Delimited;
use crate::mapping::Mapping;

pub(crate) const FORMAT: Format = Format::described::<TencentCbs>("tencent-cbs");

struct TencentCbs;

impl Described for TencentCbs {
    fn lines(options: &ReadOptions) -> Delimited {
        let [offset, length] = match options.tencent_unit {
            TencentUnit::Sectors => ["sectors", "sectors"],
            TencentUnit::Bytes => ["bytes", "bytes"],
            TencentUnit::Mixed => ["bytes", "sectors"],
        };
        let columns = format!("time=1:s,offset=2:{offset},length=3:{length},op=4,volume=5");
        let mapping = Mapping::built_in(&columns, "0=read,1=write");
        Delimited::commas(vec![mapping], 5..=5, |cells, line| {
            let is_number = |column| cells.get(line, column).iter().all(u8::is_ascii_digit);
            // 2017 to 2033, as lines of five numbers are common.
            let time = cells.get(line, 0);
            let is_date = time.len() == 10
                && (*b"1500000000"..*b"2000000000")
                    .contains(<&[u8; 10]>::try_from(time).expect("ten digits"));
            if is_date && is_number(0) && is_number(4) {
                return Ok(());
            }
            Err("not a time from 2017 to 2033 in seconds, and the number of a volume".into())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use crate::FormatName::TencentCbs;
    use crate::format::test_support::{bytes, check, check_error, read, volume_names};
    use crate::{CompiledTrace, PageSize, ReadOptions, Reader, TencentUnit};
    use thermocline_core::Op::Write;

    const LINES: &str =
        "1538323300,4096008,8,1,21\n1538323301,2048,64,0,7\n1538323301,2112,64,0,7\n";

    #[test]
    fn lines_are_understood() {
        let at = |second: u64| (1_538_323_300 + second) * 1_000_000_000;
        check(
            TencentCbs,
            LINES,
            &[
                bytes(4_096_008 * 512, 4096).at(at(0), Write, 0),
                read(at(1), 1, bytes(2048 * 512, 32_768)),
                read(at(1), 1, bytes(2112 * 512, 32_768)),
            ],
        );
        assert_eq!(volume_names(TencentCbs, LINES), ["21", "7"]);
    }

    #[test]
    fn the_other_release_has_other_units() {
        let lines = "1538323300,4096000,8,1,21\n1538323301,8192,16,0,21\n";
        let read_bytes = |tencent_unit| {
            let options = ReadOptions { tencent_unit, ..ReadOptions::default() };
            let mut reader = Reader::from_read("t", Cursor::new(lines), &options).unwrap();
            let trace = CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap();
            (trace.page_numbers()[0], trace.summary().read_bytes)
        };
        assert_eq!(read_bytes(TencentUnit::Mixed), (1000, 8192));
        assert_eq!(read_bytes(TencentUnit::Sectors), (512_000, 8192));
        assert_eq!(read_bytes(TencentUnit::Bytes), (1000, 16));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_error(TencentCbs, "7,1,2,0,5\n", "line 1: not a time from 2017 to 2033");
        check_error(TencentCbs, "1538323300,1,2,2,5\n", "the op '2' is none of 0, 1");
    }
}
