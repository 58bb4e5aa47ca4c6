//! The CDN traces of Meta, as CacheLib replays them.
//!
//! * Line: `timestamp,cacheKey,OpType,objectSize,responseSize,responseHeaderSize,rangeStart,rangeEnd,
//!   TTL,SamplingRate,cacheHit,itemValue,RequestHandler,cdn_content_type_id,vip_type`, with or without
//!   these names as the first line.
//! * Units: seconds, bytes. `rangeEnd` is the last byte of the range; -1 and -1 are no range.
//! * Op: `GET` reads, others are counted as other events.
//! * Each key is an object, of which a request asks for the range that was answered: cut to the object
//!   and to what the response holds besides its header; without a range from the beginning.
//! * As in CacheLib, lines without a key, and such whose response, header or time to live is 0 or
//!   whose response is shorter than its header, are invalid; they are counted and not replayed.
//! * Source: CacheLib's documentation and replay of its traces.

use thermocline_core::{Nanos, Op};

use super::Format;
use crate::decode::{Line, Skip, TextFormat};
use crate::delimited::Cells;
use crate::error::Reason;
use crate::keys::{Hash, Keys};
use crate::mapping::Delimiter;
use crate::request::Request;
use crate::text::{ONLY_VOLUME, integer, object, time};
use crate::volumes::Volumes;

const COLUMNS: usize = 15;

pub(crate) const FORMAT: Format = Format::text::<MetaCdn>("meta-cdn");

#[derive(Debug, Default)]
struct MetaCdn {
    cells: Cells,
    keys: Keys,
}

impl TextFormat for MetaCdn {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        self.cells.cut(line, Delimiter::Byte(b','), false, usize::MAX)?;
        if self.cells.len() != COLUMNS {
            return Err(format!("{} columns in place of {COLUMNS}", self.cells.len()).into());
        }
        let cell = |column| self.cells.get(line, column);
        if cell(0) == b"timestamp" {
            return Ok(Line::Header);
        }
        let at = Nanos(time(cell(0), "timestamp", 9)?);
        let (key, op) = (cell(1), cell(2));
        if op.is_empty() || !op.iter().all(u8::is_ascii_alphabetic) {
            return Err("the operation is not a word".into());
        }
        let object_bytes = integer(cell(3), "objectSize")?;
        let response_bytes = integer(cell(4), "responseSize")?;
        let header_bytes = integer(cell(5), "responseHeaderSize")?;
        let (start, end) = (bound(cell(6), "rangeStart")?, bound(cell(7), "rangeEnd")?);
        let ttl = integer(cell(8), "TTL")?;
        let is_invalid = matches!(key, b"" | b"-")
            || [object_bytes, response_bytes, header_bytes, ttl].contains(&0)
            || response_bytes < header_bytes;
        if is_invalid {
            return Ok(Line::Skipped(Skip::Invalid));
        }
        if op != b"GET" {
            return Ok(Line::OtherEvent);
        }
        let (start, end) = match (start, end) {
            (Some(start), Some(end)) => (start, end.min(object_bytes - 1)),
            (None, None) => (0, object_bytes - 1),
            _ => return Ok(Line::Skipped(Skip::Invalid)),
        };
        if start > end {
            return Ok(Line::Skipped(Skip::Invalid));
        }
        let length = (end - start + 1).min(response_bytes - header_bytes);
        let mut hash = Hash::new();
        hash.add(key);
        let extent = object(self.keys.id(hash, || key.to_vec())?, start, length)?;
        Ok(Line::Request(Request { at, op: Op::Read, volume: volumes.number(ONLY_VOLUME), extent }))
    }
}

/// Return a bound of a range; -1 is none.
fn bound(text: &[u8], name: &'static str) -> Result<Option<u64>, Reason> {
    if text == b"-1" { Ok(None) } else { integer(text, name).map(Some) }
}

#[cfg(test)]
mod tests {
    use crate::FormatName::MetaCdn;
    use crate::format::test_support::{check_error, check_keys, counts, object, read};

    #[test]
    fn the_bytes_are_those_that_were_answered() {
        let lines = "1700000000,k1,GET,1000000,300200,200,0,299999,3600,0.15,1,-,h,2,a\n\
            1700000001,k1,GET,1000000,200200,200,-1,-1,3600,0.15,0,-,h,2,a\n\
            1700000002,-,GET,10,20,10,-1,-1,60,0.15,0,-,h,2,a\n\
            1700000003,k2,GET,1000,1300,300,900,5000,60,0.15,0,-,h,2,a\n\
            1700000003,k2,PURGE,1000,1300,300,900,5000,60,0.15,0,-,h,2,a\n";
        let at = |second: u64| (1_700_000_000 + second) * 1_000_000_000;
        let expected = [
            read(at(0), 0, object(0, 0, 300_000)),
            read(at(1), 0, object(0, 0, 200_000)),
            read(at(3), 0, object(1, 900, 100)),
        ];
        check_keys(MetaCdn, lines, &expected);
        let header = "timestamp,cacheKey,OpType,objectSize,responseSize,responseHeaderSize,rangeStart,rangeEnd,TTL,SamplingRate,cacheHit,itemValue,RequestHandler,cdn_content_type_id,vip_type\n";
        check_keys(MetaCdn, &[header, lines].concat(), &expected);
        let counts = counts(MetaCdn, lines);
        assert_eq!((counts.requests, counts.invalid_requests, counts.other_events), (3, 1, 1));
        check_error(MetaCdn, "1,k,GET\n", "line 1: 3 columns in place of 15");
    }
}
