//! Thesios, the synthesised I/O traces of Google's storage.
//!
//! * Header: names of columns in an order that differs; `filename`, `file_offset`,
//!   `request_io_size_bytes`, `op_type` and `start_time` are used.
//! * Units: bytes, seconds with decimals.
//! * Op: `READ` or `WRITE`.
//! * Each file is an object of its own, of which a request asks for a part.
//! * Source: Phothilimthana et al., *Thesios: Synthesizing Accurate Counterfactual I/O Traces from I/O
//!   Samples*, ASPLOS '24; github.com/google-research-datasets/thesios.

use super::{Described, Format, ReadOptions};
use crate::delimited::Delimited;
use crate::mapping::Mapping;

pub(crate) const FORMAT: Format = Format::described::<Thesios>("thesios");

struct Thesios;

impl Described for Thesios {
    fn lines(_: &ReadOptions) -> Delimited {
        let mapping = Mapping::built_in(
            "time=start_time:s,op=op_type,key=filename,offset=file_offset,length=request_io_size_bytes",
            "READ=read,WRITE=write",
        );
        Delimited::with_header(b',', vec![mapping])
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Thesios;
    use crate::format::test_support::{check_error, check_keys, object, read};
    use thermocline_core::Op::Write;

    #[test]
    fn lines_are_understood_by_the_names_of_columns() {
        let header = "filename,file_offset,application,c_time,io_zone,redundancy_type,op_type,service_class,from_flash_cache,cache_hit,request_io_size_bytes,disk_io_size_bytes,response_io_size_bytes,start_time\n";
        let line = "f7a1,1048576,appA,1700000000.5,WARM,REPLICATED,READ,LATENCY_SENSITIVE,0,0,65536,65536,65536,1705276800.125\n";
        let at = 1_705_276_800_125_000_000;
        check_keys(Thesios, &[header, line].concat(), &[read(at, 0, object(0, 1_048_576, 65_536))]);
        let other = "start_time,op_type,request_io_size_bytes,file_offset,filename\n1.5,WRITE,512,7,b\n2,READ,512,7,a\n2,READ,1,9,b\n";
        check_keys(
            Thesios,
            other,
            &[
                object(0, 7, 512).at(1_500_000_000, Write, 0),
                read(2_000_000_000, 0, object(1, 7, 512)),
                read(2_000_000_000, 0, object(0, 9, 1)),
            ],
        );
        check_error(Thesios, "filename,file_offset\n", "the header has no column `start_time`");
    }
}
