//! oracleGeneralOpNS, a binary format of libCacheSim. Nothing tells it from other records, so it must be
//! named.
//!
//! * Record, little-endian, 27 bytes: time u32, object id u64, size u32, op u8, namespace u16, next
//!   access i64.
//! * Units: seconds, bytes. Next accesses are ignored.
//! * Op: libCacheSim's codes, as in [`lcs`](super::lcs).
//! * Volume: the namespace.
//! * Source: libCacheSim's documentation of its trace formats.

use super::{Format, Recognition};
use crate::decode::Records;
use crate::layout::LaidOut;
use crate::mapping::Mapping;

pub(crate) const FORMAT: Format =
    Format::new("oracle-general-op-ns", Recognition::Named, |_, _| {
        let mapping = Mapping::built_in("time=1:s,key=2,length=3,op=4,volume=5", super::lcs::OPS);
        Box::new(Records(LaidOut::built_in("<IQIBHq", &mapping, 0)))
    });

#[cfg(test)]
mod tests {
    use crate::FormatName::OracleGeneralOpNs;
    use crate::format::test_support::{drain, object, read};
    use thermocline_core::Op::Write;

    #[test]
    fn records_are_understood() {
        let mut trace = vec![];
        for (time, id, op, namespace) in [(1_u32, 7_u64, 1_u8, 3_u16), (2, 8, 3, 4), (3, 7, 9, 3)] {
            trace.extend(time.to_le_bytes());
            trace.extend(id.to_le_bytes());
            trace.extend(512_u32.to_le_bytes());
            trace.push(op);
            trace.extend(namespace.to_le_bytes());
            trace.extend((-1_i64).to_le_bytes());
        }
        let second = 1_000_000_000;
        let (requests, reader) = drain(OracleGeneralOpNs, &trace).unwrap();
        let expected =
            [read(second, 0, object(7, 0, 512)), object(8, 0, 512).at(2 * second, Write, 1)];
        assert_eq!(requests, expected);
        assert_eq!(reader.counts().removals, 1);
        let error = drain(OracleGeneralOpNs, &trace[..26]).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("the last record has 26 of 27 bytes"), "{error}");
    }
}
