//! CloudPhysics `vscsi` binary traces, versions 1 and 2.
//!
//! * Record, little-endian. Version 1, 32 bytes: serial number u32, length u32, scatter-gather
//!   count u32, command u16, version u16, block u64, time u64. Version 2, 40 bytes: command u16,
//!   version u16, serial number u32, length u32, scatter-gather count u32, block u64, time u64,
//!   response time u64.
//! * Units: `length` in bytes, `block` in sectors of 512 B, `time` in microseconds. The high byte
//!   of `version` is the version.
//! * Op: the SCSI commands READ and WRITE of 6, 10, 12 and 16 bytes; other commands are counted as
//!   other events.
//! * One volume.
//! * Source: Waldspurger et al., *Efficient MRC Construction with SHARDS*, FAST '15 (the traces).

use thermocline_core::{Nanos, Op};

use super::{Format, Recognition};
use crate::decode::{Line, RecordFormat, Records};
use crate::error::Reason;
use crate::request::{Extent, Request};
use crate::text::{ONLY_VOLUME, bytes, sector_offset};
use crate::volumes::Volumes;

const V1_BYTES: usize = 32;
const V2_BYTES: usize = 40;

/// The upper three bits of the commands of 6, 10, 16 and 12 bytes, as bits.
const LENGTHS: u16 = 1 << 0 | 1 << 1 | 1 << 4 | 1 << 5;
/// Sectors and microseconds below this one have addresses and times.
const PLAIN_MAX: u64 = 1 << 48;

/// Number of records that are looked at to recognise a version.
const SAMPLE_RECORDS: usize = 1000;

pub(crate) const FORMAT: Format =
    Format::new("vscsi", Recognition::Records(|sample| version(sample).is_some()), |sample, _| {
        match version(sample) {
            Some(2) => Box::new(Records(Vscsi::<V2_BYTES>::default())),
            _ => Box::new(Records(Vscsi::<V1_BYTES>::default())),
        }
    });

/// Reader of records of `BYTES` bytes.
#[derive(Debug, Default)]
struct Vscsi<const BYTES: usize> {
    /// The only volume, once there was a request.
    volume: Option<u32>,
}

/// The fields of a record.
struct Fields {
    command: u16,
    version: u16,
    length_bytes: u32,
    sector: u64,
    time_us: u64,
}

impl<const BYTES: usize> Vscsi<BYTES> {
    /// Version of records of `BYTES` bytes.
    const VERSION: u16 = if BYTES == V1_BYTES { 1 } else { 2 };

    #[inline]
    fn fields(record: &[u8]) -> Fields {
        let (command_at, version_at, length_at) = match BYTES {
            V1_BYTES => (12, 14, 4),
            _ => (0, 2, 8),
        };
        Fields {
            command: u16_at(record, command_at),
            version: u16_at(record, version_at) >> 8,
            length_bytes: u32_at(record, length_at),
            sector: u64_at(record, 16),
            time_us: u64_at(record, 24),
        }
    }
}

impl<const BYTES: usize> RecordFormat for Vscsi<BYTES> {
    #[inline]
    fn record_bytes(&self) -> usize {
        BYTES
    }

    fn record(&mut self, record: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        let Fields { command, version, length_bytes, sector, time_us } = Self::fields(record);
        if version != Self::VERSION {
            return Err(format!("the version is {version}, not {}", Self::VERSION).into());
        }
        let op = match command {
            0x08 | 0x28 | 0x88 | 0xa8 => Op::Read,
            0x0a | 0x2a | 0x8a | 0xaa => Op::Write,
            0x100.. => return Err("the command is not a SCSI command".into()),
            _ => return Ok(Line::OtherEvent),
        };
        let at = Nanos(time_us.checked_mul(1000).ok_or("the time is too large")?);
        let extent = bytes(sector_offset(sector)?, u64::from(length_bytes))?;
        let volume = *self.volume.insert(volumes.number(ONLY_VOLUME));
        Ok(Line::Request(Request { at, op, volume, extent }))
    }

    const HAS_PLAIN: bool = true;

    #[inline]
    fn plain(&self, record: &[u8]) -> (Request, bool) {
        let Fields { command, version, length_bytes, sector, time_us } = Self::fields(record);
        // Reads and writes differ in a bit, and those of one length from those of another in the upper
        // three bits.
        let is_known = command & !0xe2 == 0x08 && LENGTHS >> (command >> 5 & 7) & 1 == 1;
        let is_plain = is_known
            && version == Self::VERSION
            && sector < PLAIN_MAX
            && time_us < PLAIN_MAX
            && self.volume.is_some();
        let op = if command & 2 == 0 { Op::Read } else { Op::Write };
        let request = Request {
            at: Nanos(time_us.wrapping_mul(1000)),
            op,
            volume: self.volume.unwrap_or_default(),
            extent: Extent::Bytes { offset: sector << 9, length: u64::from(length_bytes) },
        };
        (request, is_plain)
    }
}

/// Return the version of the records that `sample` begins with: all carry it, and SCSI commands.
fn version(sample: &[u8]) -> Option<u8> {
    let is = |record_bytes: usize, version_at: usize, command_at: usize, expected: u8| {
        let mut records = sample.chunks_exact(record_bytes).take(SAMPLE_RECORDS);
        records.len() > 0
            && records
                .all(|record| record[version_at + 1] == expected && record[command_at + 1] == 0)
    };
    if is(V1_BYTES, 14, 12, 1) {
        Some(1)
    } else if is(V2_BYTES, 2, 0, 2) {
        Some(2)
    } else {
        None
    }
}

pub(super) fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

pub(super) fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FormatName;
    use crate::format::test_support::{
        bytes as extent, check_bytes, check_bytes_error, check_plain, read,
    };

    fn v1(command: u16, length: u32, sector: u64, time: u64) -> Vec<u8> {
        let mut record = [1_u32, length, 1].map(u32::to_le_bytes).concat();
        record.extend([command, 0x100].map(u16::to_le_bytes).concat());
        record.extend([sector, time].map(u64::to_le_bytes).concat());
        record
    }

    fn v2(command: u16, length: u32, sector: u64, time: u64) -> Vec<u8> {
        let mut record = [command, 0x200].map(u16::to_le_bytes).concat();
        record.extend([1_u32, length, 1].map(u32::to_le_bytes).concat());
        record.extend([sector, time, 9].map(u64::to_le_bytes).concat());
        record
    }

    #[test]
    fn both_versions_are_understood() {
        for make in [v1, v2] {
            let trace =
                [make(0x2a, 4096, 8, 5), make(0x35, 0, 0, 6), make(0x88, 512, 1, 7)].concat();
            let expected =
                [extent(4096, 4096).at(5_000, Op::Write, 0), read(7_000, 0, extent(512, 512))];
            check_bytes(FormatName::Vscsi, &trace, &expected);
        }
    }

    #[test]
    fn plain_records_are_understood_as_one_by_one() {
        let records = |make: fn(u16, u32, u64, u64) -> Vec<u8>| -> Vec<Vec<u8>> {
            let commands = [0x08, 0x28, 0x88, 0xa8, 0x0a, 0x2a, 0x8a, 0xaa, 0x35, 0x48];
            commands.map(|command| make(command, u32::from(command), 1 << 40, 7)).into()
        };
        check_plain(Vscsi::<V1_BYTES>::default, &records(v1));
        check_plain(Vscsi::<V2_BYTES>::default, &records(v2));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let good = v1(0x28, 512, 1, 0);
        let torn = [&good[..], &good[..31]].concat();
        check_bytes_error(
            FormatName::Vscsi,
            &torn,
            "truncated: the last record has 31 of 32 bytes (record 2 at byte 32)",
        );
        let other = [good, v2(0x28, 512, 1, 0)].concat();
        check_bytes_error(
            FormatName::Vscsi,
            &other,
            "record 2 at byte 32: the version is 0, not 1",
        );
        check_bytes_error(FormatName::Vscsi, &v1(0x28, 1, u64::MAX, 0), "beyond 2^63");
    }
}
