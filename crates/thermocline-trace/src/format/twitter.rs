//! The cache traces of Twitter.
//!
//! * Line: `timestamp,key,key size,value size,client id,operation,ttl`, without a header.
//! * Units: seconds, bytes.
//! * Op: `get` and `gets` read, others write, `delete` removes and is counted and not replayed.
//! * Each key is an object of the size of key and value. A read of value size 0 missed, so that the
//!   size is unknown; it is counted and not replayed.
//! * Source: Yang et al., *A Large Scale Analysis of Hundreds of In-memory Cache Clusters at
//!   Twitter*, OSDI '20; github.com/twitter/cache-trace.

use super::{Described, Format, ReadOptions};
use crate::delimited::Delimited;
use crate::mapping::Mapping;

pub(crate) const FORMAT: Format = Format::described::<Twitter>("twitter");

struct Twitter;

impl Described for Twitter {
    fn lines(_: &ReadOptions) -> Delimited {
        let mapping = Mapping::built_in(
            "time=1:s,key=2,extra=3,length=4,op=6",
            "get=read,gets=read,set=write,add=write,replace=write,cas=write,append=write,prepend=write,\
             incr=write,decr=write,delete=remove",
        );
        Delimited::commas(vec![mapping.with_unknown_zeroes()], 7..=7, |_, _| Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::Twitter;
    use crate::format::test_support::{check_error, check_keys, counts, object, read};
    use thermocline_core::Op::Write;

    #[test]
    fn lines_are_understood() {
        let lines = "0,ab:k:Qw7,8,304,40,get,0\n1,zz9Plural,9,0,9,get,0\n\
            1,zz9Plural,9,512,9,set,3600\n2,zz9Plural,9,512,9,delete,0\n2,ab:k:Qw7,8,304,40,gets,0\n";
        check_keys(
            Twitter,
            lines,
            &[
                read(0, 0, object(0, 0, 312)),
                object(1, 0, 521).at(1_000_000_000, Write, 0),
                read(2_000_000_000, 0, object(0, 0, 312)),
            ],
        );
        let counts = counts(Twitter, lines);
        assert_eq!((counts.requests, counts.unknown_sizes, counts.removals), (3, 1, 1));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        check_error(Twitter, "0,a,1,2,3,take,0\n", "line 1: the op 'take' is none of get, gets");
        check_error(Twitter, "0,,1,2,3,get,0\n", "the key is missing");
        check_error(Twitter, "0,a,1,2,3,get\n", "6 columns in place of 7");
    }
}
