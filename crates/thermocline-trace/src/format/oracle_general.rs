//! oracleGeneral, libCacheSim's binary format.
//!
//! * Record, little-endian, 24 bytes: time u32, object id u64, size u32, next access i64.
//! * Units: `time` in seconds; the next access is the number of the next record of the same object,
//!   -1 if there is none.
//! * Each record is a read of an object of `size` bytes. Next accesses are ignored. One volume.
//! * Source: libCacheSim's documentation of its trace formats.

use thermocline_core::{Nanos, Op};

use super::Format;
use super::vscsi::{u32_at, u64_at};
use crate::decode::{Line, RecordFormat};
use crate::error::Reason;
use crate::request::{Extent, Request};
use crate::text::ONLY_VOLUME;
use crate::volumes::Volumes;

pub(crate) const RECORD_BYTES: usize = 24;

const SECOND_NS: u64 = 1_000_000_000;

pub(crate) const FORMAT: Format = Format {
    extensions: &["oraclegeneral", "bin"],
    ..Format::binary::<OracleGeneral>("oracle-general", fits)
};

#[derive(Debug, Default)]
struct OracleGeneral {
    /// The only volume, once there was a record.
    volume: Option<u32>,
}

impl RecordFormat for OracleGeneral {
    const IS_OF_OBJECTS: bool = true;

    #[inline]
    fn record_bytes(&self) -> usize {
        RECORD_BYTES
    }

    #[inline]
    fn record(&mut self, record: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        let volume = *self.volume.insert(volumes.number(ONLY_VOLUME));
        Ok(Line::Request(read(record, volume)))
    }

    const HAS_PLAIN: bool = true;

    #[inline]
    fn plain(&self, record: &[u8]) -> (Request, bool) {
        (read(record, self.volume.unwrap_or_default()), self.volume.is_some())
    }
}

/// Read the first 24 bytes of a record of libCacheSim.
#[inline]
pub(super) fn read(record: &[u8], volume: u32) -> Request {
    let at = Nanos(u64::from(u32_at(record, 0)) * SECOND_NS);
    let length = u64::from(u32_at(record, 12));
    let extent = Extent::Object { id: u64_at(record, 4), offset: 0, length };
    Request { at, op: Op::Read, volume, extent }
}

/// Return `true` if `sample` can be the beginning of a trace: among its records at most one in a hundred
/// goes back in time, has no size, or has a next access that does not lie ahead; and where the next
/// access is in the sample, at most one in ten is to another object (cut or merged traces).
fn fits(sample: &[u8]) -> bool {
    let records: Vec<&[u8]> = sample.chunks_exact(RECORD_BYTES).collect();
    let (mut odd, mut links, mut false_links) = (0, 0, 0);
    let mut previous_s = 0;
    for (number, record) in (0_i64..).zip(&records) {
        let at_s = u32_at(record, 0);
        let next = u64_at(record, 16).cast_signed();
        let is_last = next == -1 || next == i64::MAX;
        let is_plausible =
            at_s >= previous_s && u32_at(record, 12) > 0 && (is_last || next > number);
        odd += usize::from(!is_plausible);
        previous_s = at_s;
        if let Ok(next) = usize::try_from(next)
            && next > 0
            && next < records.len()
        {
            // Some writers count records from 1.
            let candidates = [records[next], records[next - 1]];
            let is_same = candidates.iter().any(|other| other[4..12] == record[4..12]);
            links += 1;
            false_links += usize::from(!is_same);
        }
    }
    !records.is_empty() && odd * 100 <= records.len() && false_links * 10 <= links
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FormatName::OracleGeneral;
    use crate::format::test_support::{check_bytes, check_bytes_error, check_plain, object, read};

    fn record(time: u32, object: u64, size: u32, next: i64) -> Vec<u8> {
        let mut record = time.to_le_bytes().to_vec();
        record.extend(object.to_le_bytes());
        record.extend(size.to_le_bytes());
        record.extend(next.to_le_bytes());
        record
    }

    #[test]
    fn records_are_understood() {
        let trace =
            [record(1, 1 << 63, 4096, 2), record(1, 5, 1, -1), record(2, 1 << 63, 4096, -1)];
        let expected = [(1, 1 << 63, 4096), (1, 5, 1), (2, 1 << 63, 4096)]
            .map(|(at, id, size)| read(at * SECOND_NS, 0, object(id, 0, size)));
        check_bytes(OracleGeneral, &trace.concat(), &expected);
    }

    #[test]
    fn plain_records_are_understood_as_one_by_one() {
        let records = [record(1, u64::MAX, 4096, 2), record(1, 5, 0, -1), record(2, 9, 1, -1)];
        check_plain(super::OracleGeneral::default, &records);
        check_plain(super::OracleGeneral::default, &records[1..]);
    }

    #[test]
    fn a_torn_record_is_an_error() {
        let trace = [record(1, 7, 1, -1), record(1, 8, 1, -1)].concat();
        check_bytes_error(OracleGeneral, &trace[..47], "the last record has 23 of 24 bytes");
    }

    #[test]
    fn implausible_records_do_not_fit() {
        assert!(fits(&[record(1, 7, 1, 2), record(1, 8, 1, -1), record(3, 7, 1, -1)].concat()));
        assert!(!fits(&[record(2, 7, 1, -1), record(1, 8, 1, -1)].concat()), "time goes back");
        assert!(!fits(&record(1, 7, 0, -1)), "no size");
        assert!(!fits(&[record(1, 7, 1, 5), record(1, 7, 1, 1)].concat()), "next is not ahead");
        assert!(!fits(&[record(1, 7, 1, 2), record(1, 8, 1, -1), record(1, 9, 1, -1)].concat()));
        assert!(!fits(&[0; 23]));
    }
}
