//! lcs, libCacheSim's binary format with a header, versions 1 to 8, and the one before late 2024.
//!
//! * Header, little-endian, 8,192 bytes: the magic number, the version as u64, statistics, which are not
//!   used, and at the end the magic number again.
//! * Record, packed: time u32, object id u64, size u32 (from version 3 on i64), from version 2 on op and
//!   tenant u32 (8 and 24 bits), from version 3 on time to live u32, next access i64, then in versions 4
//!   to 8 1, 2, 4, 8 or 16 features of u32.
//! * Units: seconds, bytes. Times to live, next accesses and features are ignored.
//! * Op: 0 to 2 and 12 read, 3 to 8, 10, 11, 13 and 14 write, 9 removes and is counted and not
//!   replayed. Version 1 has reads only.
//! * Volume: the tenant.
//! * The old header has 1,024 bytes: the magic number, the letters of the record's fields as in Python's
//!   `struct`, from byte 248 on the numbers of the fields with id, size, time, last and next access, op,
//!   time to live and tenant (0 if there is none), and the magic number again.
//! * Source: the readers and the writer of libCacheSim.

use thermocline_core::Op;

use super::oracle_general::read;
use super::vscsi::{u32_at, u64_at};
use super::{Format, Recognition};
use crate::decode::{Decoder, Line, RecordFormat, Records, Skip};
use crate::error::Reason;
use crate::layout::{LaidOut, Layout};
use crate::mapping::Mapping;
use crate::request::{Extent, Request};
use crate::text::object;
use crate::volumes::Volumes;

const MAGIC: u64 = 0x1234_5678_9abc_def0;
const HEADER_BYTES: usize = 8192;
const OLD_HEADER_BYTES: usize = 1024;

/// The size of the records of each version, from 1.
const RECORD_BYTES: [usize; 8] = [24, 28, 36, 40, 44, 52, 68, 100];

/// The codes of operations that read and that write, as bits.
const READS: u32 = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 12;
const WRITES: u32 = 0b0110_1101_1111_1000;

/// Number of tenants a reader remembers the volumes of.
const KNOWN_TENANTS: usize = 64;
/// No tenant has this number: they have 24 bits.
const NO_TENANT: u32 = u32::MAX;

/// The operations of libCacheSim by their codes.
pub(super) const OPS: &str = "0=read,1=read,2=read,3=write,4=write,5=write,6=write,7=write,8=write,\
    9=remove,10=write,11=write,12=read,13=write,14=write";

pub(crate) const FORMAT: Format = Format {
    extensions: &["lcs"],
    ..Format::new("lcs", Recognition::Records(fits), |sample, _| decoder(sample))
};

fn fits(sample: &[u8]) -> bool {
    sample.len() >= 16 && u64_at(sample, 0) == MAGIC
}

fn decoder(sample: &[u8]) -> Box<dyn Decoder> {
    if sample.get(8) == Some(&b'<') {
        return match old(sample) {
            Ok(records) => Box::new(Records(records)),
            Err(reason) => Box::new(Records(Refused(reason))),
        };
    }
    if !fits(sample) {
        return Box::new(Records(Refused("it does not begin with the magic number of lcs".into())));
    }
    match u64_at(sample, 8) {
        1 => Box::new(Records(Lcs::<24>::default())),
        2 => Box::new(Records(Lcs::<28>::default())),
        3 => Box::new(Records(Lcs::<36>::default())),
        4 => Box::new(Records(Lcs::<40>::default())),
        5 => Box::new(Records(Lcs::<44>::default())),
        6 => Box::new(Records(Lcs::<52>::default())),
        7 => Box::new(Records(Lcs::<68>::default())),
        8 => Box::new(Records(Lcs::<100>::default())),
        other => {
            Box::new(Records(Refused(format!("version {other} of lcs; 1 to 8 are known").into())))
        }
    }
}

/// Records of so many bytes behind the header.
#[derive(Debug)]
struct Lcs<const BYTES: usize> {
    /// Tenants and their volumes, by the low bits of the tenant.
    known: [(u32, u32); KNOWN_TENANTS],
}

impl<const BYTES: usize> Default for Lcs<BYTES> {
    fn default() -> Self {
        Self { known: [(NO_TENANT, 0); KNOWN_TENANTS] }
    }
}

impl<const BYTES: usize> Lcs<BYTES> {
    /// Return the op and the tenant of a record, packed.
    #[inline]
    fn op_and_tenant(record: &[u8]) -> u32 {
        match BYTES {
            24 => 0,
            28 => u32_at(record, 16),
            _ => u32_at(record, 20),
        }
    }
}

impl<const BYTES: usize> RecordFormat for Lcs<BYTES> {
    const IS_OF_OBJECTS: bool = true;

    #[inline]
    fn record_bytes(&self) -> usize {
        BYTES
    }

    fn header_bytes(&self) -> usize {
        HEADER_BYTES
    }

    #[inline]
    fn record(&mut self, record: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        let word = Self::op_and_tenant(record);
        let op = match word & 0xff {
            9 => return Ok(Line::Skipped(Skip::Removal)),
            code if READS >> code.min(31) & 1 == 1 => Op::Read,
            code if WRITES >> code.min(31) & 1 == 1 => Op::Write,
            other => return Err(format!("the op {other} is none of libCacheSim's").into()),
        };
        let volume = volume(word >> 8, volumes);
        self.known[(word >> 8) as usize % KNOWN_TENANTS] = (word >> 8, volume);
        let request = Request { op, ..read(record, volume) };
        if BYTES <= RECORD_BYTES[1] {
            return Ok(Line::Request(request));
        }
        let length = u64_at(record, 12);
        if length.cast_signed() < 0 {
            return Err("the size is negative".into());
        }
        let extent = object(u64_at(record, 4), 0, length)?;
        Ok(Line::Request(Request { extent, ..request }))
    }

    const HAS_PLAIN: bool = true;

    #[inline]
    fn plain(&self, record: &[u8]) -> (Request, bool) {
        let word = Self::op_and_tenant(record);
        let (code, tenant) = ((word & 0xff).min(31), word >> 8);
        let (known, volume) = self.known[tenant as usize % KNOWN_TENANTS];
        let op = if WRITES >> code & 1 == 1 { Op::Write } else { Op::Read };
        let mut request = Request { op, ..read(record, volume) };
        let mut is_plain = known == tenant && (READS | WRITES) >> code & 1 == 1;
        if BYTES > RECORD_BYTES[1] {
            let length = u64_at(record, 12);
            request.extent = Extent::Object { id: u64_at(record, 4), offset: 0, length };
            is_plain &= u32::try_from(length).is_ok();
        }
        (request, is_plain)
    }
}

/// Return the volume of a tenant, whose name are its digits.
#[inline]
fn volume(tenant: u32, volumes: &mut Volumes) -> u32 {
    let mut digits = [0; 10];
    let mut begin = digits.len();
    let mut rest = tenant;
    loop {
        begin -= 1;
        digits[begin] = b'0' + u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
        if rest == 0 {
            return volumes.number(&digits[begin..]);
        }
    }
}

/// Return the records that an old header describes.
fn old(sample: &[u8]) -> Result<LaidOut, Reason> {
    let Some(header) = sample.get(..OLD_HEADER_BYTES) else {
        return Err(format!("the header has {} of {OLD_HEADER_BYTES} bytes", sample.len()).into());
    };
    if u64_at(header, OLD_HEADER_BYTES - 8) != MAGIC {
        return Err("the header does not end with the magic number of lcs".into());
    }
    let letters = header[8..248].split(|&byte| byte == 0).next().unwrap_or_default();
    let letters = std::str::from_utf8(letters).map_err(|_| "the record's letters are not text")?;
    let layout = Layout::parse(letters)?;
    let record_bytes = u32_at(header, 1004) as usize;
    if record_bytes != layout.record_bytes() {
        let found = layout.record_bytes();
        return Err(format!("records of {record_bytes} bytes whose letters make {found}").into());
    }
    let field = |at: usize| Some(header[at]).filter(|&number| number > 0);
    let (Some(id), Some(size)) = (field(248), field(249)) else {
        return Err("the records have no id or no size".into());
    };
    let optional = |at: usize, text: &str| {
        field(at).map_or(String::new(), |number| text.replace('#', &number.to_string()))
    };
    let (time, op) = (optional(250, ",time=#:s"), optional(253, ",op=#"));
    let volume = optional(255, ",volume=#");
    let columns = format!("key={id},length={size}{time}{op}{volume}");
    LaidOut::new(letters, &Mapping::built_in(&columns, OPS), OLD_HEADER_BYTES).map_err(Reason::from)
}

/// A file that is not read, and why.
#[derive(Debug)]
struct Refused(Reason);

impl RecordFormat for Refused {
    fn record_bytes(&self) -> usize {
        16
    }

    fn record(&mut self, _: &[u8], _: &mut Volumes) -> Result<Line, Reason> {
        Err(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FormatName;
    use crate::format::test_support::{check_bytes, check_bytes_error, check_plain, object, read};
    use thermocline_core::Op::Write;

    /// Return two requests and a removal.
    fn trace(version: usize) -> Vec<u8> {
        let mut trace = vec![0; HEADER_BYTES];
        trace[..8].copy_from_slice(&MAGIC.to_le_bytes());
        trace[8..16].copy_from_slice(&(version as u64).to_le_bytes());
        trace[HEADER_BYTES - 8..].copy_from_slice(&MAGIC.to_le_bytes());
        for (time, id, size, op, tenant) in
            [(0_u32, 11_u64, 4096_u32, 12_u32, 1_u32), (2, 12, 512, 13, 70_000), (3, 11, 1, 9, 1)]
        {
            let begin = trace.len();
            trace.extend(time.to_le_bytes());
            trace.extend(id.to_le_bytes());
            trace.extend(size.to_le_bytes());
            if version > 2 {
                trace.extend([0; 4]);
            }
            if version > 1 {
                trace.extend((op | tenant << 8).to_le_bytes());
            }
            trace.resize(begin + RECORD_BYTES[version - 1], 0xff);
        }
        trace
    }

    #[test]
    fn all_versions_are_understood() {
        for version in 1..=8 {
            let reads = [(0, 11, 4096), (2, 12, 512), (3, 11, 1)];
            let mut expected: Vec<Request> =
                reads.map(|(at, id, size)| read(at * 1_000_000_000, 0, object(id, 0, size))).into();
            if version > 1 {
                expected.pop();
                (expected[1].op, expected[1].volume) = (Write, 1);
            }
            check_bytes(FormatName::Lcs, &trace(version), &expected);
            let torn = &trace(version)[..HEADER_BYTES + RECORD_BYTES[version - 1] + 7];
            check_bytes_error(FormatName::Lcs, torn, "the last record has 7 of");
        }
    }

    #[test]
    fn plain_records_are_understood_as_one_by_one() {
        let records = |version: usize| -> Vec<Vec<u8>> {
            let records = &trace(version)[HEADER_BYTES..];
            records.chunks(RECORD_BYTES[version - 1]).map(<[u8]>::to_vec).collect()
        };
        check_plain(Lcs::<24>::default, &records(1));
        check_plain(Lcs::<28>::default, &records(2));
        check_plain(Lcs::<36>::default, &records(3));
        check_plain(Lcs::<100>::default, &records(8));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let mut other = trace(3);
        other[8] = 9;
        check_bytes_error(FormatName::Lcs, &other, "version 9 of lcs; 1 to 8 are known");
        check_bytes_error(FormatName::Lcs, &trace(1)[..100], "the header has 100 of 8192 bytes");
        let mut other = trace(3);
        other[HEADER_BYTES + 20] = 15;
        check_bytes_error(
            FormatName::Lcs,
            &other,
            "record 1 at byte 8192: the op 15 is none of libCacheSim's",
        );
        let mut other = trace(3);
        other[HEADER_BYTES + 19] = 0x80;
        check_bytes_error(FormatName::Lcs, &other, "the size is negative");
        check_bytes_error(FormatName::Lcs, &[7; 32], "it does not begin with the magic number");
    }

    #[test]
    fn an_old_header_describes_its_records() {
        let mut trace = vec![0; OLD_HEADER_BYTES];
        trace[..8].copy_from_slice(&MAGIC.to_le_bytes());
        trace[8..13].copy_from_slice(b"<QIIB");
        trace[248..251].copy_from_slice(&[1, 3, 2]);
        trace[253] = 4;
        trace[1004] = 17;
        trace[OLD_HEADER_BYTES - 8..].copy_from_slice(&MAGIC.to_le_bytes());
        trace.extend(7_u64.to_le_bytes());
        trace.extend(5_u32.to_le_bytes());
        trace.extend(100_u32.to_le_bytes());
        trace.push(3);
        let expected = [object(7, 0, 100).at(5_000_000_000, Write, 0)];
        check_bytes(FormatName::Lcs, &trace, &expected);
        trace[1004] = 18;
        check_bytes_error(FormatName::Lcs, &trace, "records of 18 bytes whose letters make 17");
        trace[248] = 9;
        trace[1004] = 17;
        check_bytes_error(FormatName::Lcs, &trace, "field 9 of 4");
    }
}
