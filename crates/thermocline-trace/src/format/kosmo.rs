//! The records of Kosmo. Nothing tells them from others, so they must be named.
//!
//! * Record, little-endian, 25 bytes: time u64, op u8, key u64, size u32, time to live u32.
//! * Units: that of times is not stated and taken for milliseconds; bytes.
//! * Op: 0 reads, 1 writes.
//! * Each key is an object; a read of size 0 is one of unknown size, which is counted and not replayed.
//! * Source: Shakiba et al., *Kosmo: Efficient Online Miss Ratio Curve Generation for Eviction Policy
//!   Evaluation*, FAST '24, and its published code.

use super::{Format, Recognition};
use crate::decode::Records;
use crate::layout::LaidOut;
use crate::mapping::Mapping;

pub(crate) const FORMAT: Format = Format::new("kosmo", Recognition::Named, |_, _| {
    let mapping = Mapping::built_in("time=1:ms,op=2,key=3,length=4", "0=read,1=write");
    Box::new(Records(LaidOut::built_in("<QBQII", &mapping.with_unknown_zeroes(), 0)))
});

#[cfg(test)]
mod tests {
    use crate::FormatName::Kosmo;
    use crate::format::test_support::{drain, object, read};

    #[test]
    fn records_are_understood() {
        let trace = [1, 0, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0];
        let (requests, _) = drain(Kosmo, &trace).unwrap();
        assert_eq!(requests, [read(1_000_000, 0, object(11, 0, 4096))]);
        let mut other = trace;
        other[8] = 2;
        let error = drain(Kosmo, &other).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("record 1 at byte 0: the op '2' is none of 0, 1"), "{error}");
    }
}
