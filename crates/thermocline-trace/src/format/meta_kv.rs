//! The key-value traces of Meta, as CacheLib replays them.
//!
//! * Header: names of columns in an order that differs; `key`, `op`, `size`, `key_size` and
//!   `op_count` are used, and `op_time`, which traces of 2022 do not have.
//! * Units: seconds, bytes.
//! * Op: `GET` and `GET_LEASE` read, `SET` and `SET_LEASE` write, `DELETE` removes and is counted and
//!   not replayed.
//! * Each key is an object of the size of key and value. A read of size 0 missed, so that the size is
//!   unknown; it is counted and not replayed. A line stands for `op_count` requests.
//! * Source: CacheLib's documentation of its traces.

use super::{Described, Format, ReadOptions};
use crate::delimited::Delimited;
use crate::mapping::Mapping;

pub(crate) const FORMAT: Format = Format::described::<MetaKv>("meta-kv");

struct MetaKv;

impl Described for MetaKv {
    fn lines(_: &ReadOptions) -> Delimited {
        let mapping = Mapping::built_in(
            "time=op_time?:s,op=op,key=key,length=size,extra=key_size?,repeat=op_count?",
            "GET=read,GET_LEASE=read,SET=write,SET_LEASE=write,DELETE=remove",
        );
        Delimited::with_header(b',', vec![mapping.with_unknown_zeroes()])
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::MetaKv;
    use crate::format::test_support::{check_error, check_keys, counts, object, read};
    use thermocline_core::Op::Write;

    #[test]
    fn lines_are_understood() {
        let lines = "op_time,key,key_size,op,op_count,size,cache_hits,ttl,usecase,sub_usecase\n\
            604000001,00aa11bb22cc33dd,48,GET,2,87,2,0,5,6\n\
            604000001,00aa11bb22cc33de,24,GET_LEASE,1,0,0,0,5,6\n\
            604000002,00aa11bb22cc33de,24,SET,1,300,0,86400,5,6\n";
        let first = read(604_000_001_000_000_000, 0, object(0, 0, 135));
        let last = object(1, 0, 324).at(604_000_002_000_000_000, Write, 0);
        check_keys(MetaKv, lines, &[first, first, last]);
        assert_eq!(counts(MetaKv, lines).unknown_sizes, 1);
        let old = "key,op,size,op_count,key_size\na,GET,5,1,3\nb,DELETE,0,1,3\n";
        check_keys(MetaKv, old, &[read(0, 0, object(0, 0, 8))]);
        assert_eq!(counts(MetaKv, old).removals, 1);
        let line = "key,op,size,op_count,key_size\na,TAKE,5,1,3\n";
        check_error(MetaKv, line, "line 2: the op 'TAKE' is none of GET");
    }
}
