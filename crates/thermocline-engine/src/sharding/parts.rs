//! A request that several shards serve: cut into parts, and answered when they are.

use thermocline_core::Tier;

use crate::request::{Request, RequestError, RequestKind};
use crate::shard_map::ShardMap;

/// Parts of one request that may be in flight. A read or a write has fewer; a trim of a whole disk goes
/// from one extent to the next.
const IN_FLIGHT_MAX: u32 = 256;

/// Part of a request that one shard carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of the part, from 0.
    pub number: u32,
    /// The shard.
    pub shard: usize,
    /// Request to the shard. Its tag is that of the whole.
    pub request: Request,
}

impl Part {
    /// Return the range of the whole's payload that belongs to this part; empty unless it is a
    /// write.
    ///
    /// # Panics
    /// If `whole` is another request.
    pub fn payload<'a>(&self, whole: &Request, payload: &'a [u8]) -> &'a [u8] {
        if payload.is_empty() {
            return payload;
        }
        let place = |bytes: u64| usize::try_from(bytes).expect("a payload fits memory");
        let start = place(self.request.offset_bytes - whole.offset_bytes);
        &payload[start..start + place(self.request.length_bytes)]
    }
}

/// A request while shards serve its parts. `T` is what a part of a read, or of a flush, gives.
#[derive(Debug)]
pub struct Spanning<T> {
    map: ShardMap,
    whole: Request,
    /// The next byte that was not handed out.
    next: u64,
    handed_out: u32,
    in_flight: u32,
    result: Result<(), RequestError>,
    found: Option<Tier>,
    /// Results of the parts of a read or a flush, by their numbers.
    given: Vec<Option<T>>,
}

impl<T> Spanning<T> {
    /// Create the parts of a request, none of which is handed out yet.
    pub const fn new(map: ShardMap, whole: Request) -> Self {
        Self {
            map,
            whole,
            next: whole.offset_bytes,
            handed_out: 0,
            in_flight: 0,
            result: Ok(()),
            found: None,
            given: vec![],
        }
    }

    /// Return the request.
    pub const fn whole(&self) -> &Request {
        &self.whole
    }

    /// Return where the bytes of a part begin, and how many it has. Each part of a flush is the whole.
    pub fn range(&self, number: u32) -> (u64, u64) {
        let Request { offset_bytes, length_bytes, .. } = self.whole;
        // Of one shard there is one part.
        if self.map.shards() == 1 || self.whole.kind == RequestKind::Flush {
            return (offset_bytes, length_bytes);
        }
        let start = match number {
            0 => offset_bytes,
            _ => {
                let extents = u64::from(number - 1) * self.map.extent_bytes();
                self.map.extent_end(offset_bytes) + extents
            }
        };
        (start, self.map.extent_end(start).min(self.end_bytes()) - start)
    }

    /// Return the next part to hand out, if there is one at this time. After an error there is
    /// none.
    pub fn next_part(&mut self) -> Option<Part> {
        if self.in_flight == IN_FLIGHT_MAX || !self.has_more() {
            return None;
        }
        let (shard, request) = if self.whole.kind == RequestKind::Flush {
            (self.handed_out as usize, self.whole)
        } else {
            let (offset_bytes, length_bytes) = self.range(self.handed_out);
            let (shard, _) = self.map.place(offset_bytes);
            self.next = offset_bytes + length_bytes;
            (shard, Request { offset_bytes, length_bytes, ..self.whole })
        };
        let number = self.handed_out;
        self.handed_out += 1;
        self.in_flight += 1;
        if matches!(self.whole.kind, RequestKind::Read | RequestKind::Flush) {
            self.given.push(None);
        }
        Some(Part { number, shard, request })
    }

    /// Note that a shard answered a part, and found it in that tier. A read that succeeded gives
    /// its bytes, and a flush what each shard has to say.
    ///
    /// # Panics
    /// If that part is not in flight.
    pub fn answered(
        &mut self,
        number: u32,
        result: Result<(), RequestError>,
        found: Option<Tier>,
        given: Option<T>,
    ) {
        assert!(self.in_flight > 0 && number < self.handed_out, "the part is in flight");
        self.in_flight -= 1;
        self.result = self.result.and(result);
        self.found = self.found.max(found);
        if let Some(place) = self.given.get_mut(number as usize) {
            *place = given;
        }
    }

    /// Return `true` if every part is answered, and none is left.
    pub fn is_over(&self) -> bool {
        self.in_flight == 0 && !self.has_more()
    }

    /// Return the answer, once the request is over: the first error if there was one, the slowest
    /// tier that a page was found in, and what the parts of a read or a flush gave, in the order of their
    /// bytes or of the shards. After an error, some are missing.
    ///
    /// # Panics
    /// If the request is not over.
    pub fn into_answer(self) -> (Result<(), RequestError>, Option<Tier>, impl Iterator<Item = T>) {
        assert!(self.is_over(), "every part is answered");
        (self.result, self.found, self.given.into_iter().flatten())
    }

    fn end_bytes(&self) -> u64 {
        self.whole.offset_bytes + self.whole.length_bytes
    }

    fn has_more(&self) -> bool {
        let is_left = if self.whole.kind == RequestKind::Flush {
            (self.handed_out as usize) < self.map.shards()
        } else {
            // A request without bytes is a part, too: a shard answers it.
            self.next < self.end_bytes() || self.handed_out == 0
        };
        is_left && self.result.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use proptest::prelude::*;

    use super::*;

    fn map(shards: u16, extent_bytes: u64) -> ShardMap {
        ShardMap::with_extents(NonZeroU16::new(shards).unwrap(), extent_bytes)
    }

    /// Return all parts, each answered at once.
    fn parts(map: ShardMap, whole: Request) -> Vec<Part> {
        let mut spanning = Spanning::<()>::new(map, whole);
        let mut parts = vec![];
        while let Some(part) = spanning.next_part() {
            assert!(!spanning.is_over());
            spanning.answered(part.number, Ok(()), None, None);
            parts.push(part);
        }
        assert!(spanning.is_over());
        parts
    }

    proptest! {
        #[test]
        fn parts_make_up_the_whole(
            shards in 1_u16..6,
            extent in 1_u64..9,
            offset_bytes in 0_u64..500,
            length_bytes in 1_u64..300,
        ) {
            let map = map(shards, extent);
            let whole = Request::write(7, offset_bytes, length_bytes);
            let payload: Vec<u8> = (0..=255).cycle().take(usize::try_from(length_bytes).unwrap()).collect();
            let mut joined: Vec<u8> = vec![];
            for (number, part) in (0..).zip(parts(map, whole)) {
                prop_assert_eq!(part.number, number);
                let range = (part.request.offset_bytes, part.request.length_bytes);
                prop_assert_eq!(Spanning::<()>::new(map, whole).range(number), range);
                prop_assert_eq!(part.request.offset_bytes, offset_bytes + joined.len() as u64);
                let bytes = part.payload(&whole, &payload);
                prop_assert_eq!(bytes.len() as u64, part.request.length_bytes);
                for at in 0..part.request.length_bytes {
                    prop_assert_eq!(map.place(part.request.offset_bytes + at).0, part.shard);
                }
                joined.extend(bytes);
            }
            prop_assert_eq!(joined, payload);
        }
    }

    #[test]
    fn a_flush_reaches_all_shards() {
        let parts = parts(map(4, 4096), Request::flush(3));
        let shards: Vec<usize> = parts.iter().map(|part| part.shard).collect();
        assert_eq!(shards, [0, 1, 2, 3]);
        assert!(parts.iter().all(|part| part.request == Request::flush(3)));
    }

    #[test]
    fn what_a_read_gives_is_joined_in_order_whatever_comes_first() {
        let mut spanning = Spanning::new(map(3, 10), Request::read(1, 5, 30));
        let parts: Vec<Part> = std::iter::from_fn(|| spanning.next_part()).collect();
        assert_eq!(parts.len(), 4);
        for part in parts.iter().rev() {
            assert!(!spanning.is_over());
            let found = if part.number == 2 { Tier::FLASH } else { Tier::RAM };
            spanning.answered(part.number, Ok(()), Some(found), Some(part.request.offset_bytes));
        }
        let (result, found, given) = spanning.into_answer();
        assert_eq!((result, found), (Ok(()), Some(Tier::FLASH)));
        assert_eq!(given.collect::<Vec<_>>(), [5, 10, 20, 30]);
    }

    #[test]
    fn the_first_error_wins_and_ends_the_rest() {
        let whole = Request { kind: RequestKind::Trim, ..Request::write(1, 0, 1 << 20) };
        let mut spanning = Spanning::<()>::new(map(2, 10), whole);
        let mut parts: Vec<Part> = std::iter::from_fn(|| spanning.next_part()).collect();
        assert_eq!(parts.len(), IN_FLIGHT_MAX as usize);
        spanning.answered(parts[0].number, Ok(()), None, None);
        parts.extend(spanning.next_part());
        spanning.answered(parts[1].number, Err(RequestError::Io), None, None);
        assert_eq!(spanning.next_part(), None);
        for part in &parts[2..] {
            assert!(!spanning.is_over());
            spanning.answered(part.number, Err(RequestError::Lost), None, None);
        }
        assert_eq!(spanning.into_answer().0, Err(RequestError::Io));
    }

    #[test]
    fn an_empty_request_is_answered_by_a_shard() {
        assert_eq!(parts(map(2, 10), Request::read(1, 20, 0)).len(), 1);
    }

    #[test]
    fn one_shard_has_one_part() {
        let whole = Request { kind: RequestKind::Trim, ..Request::write(1, 5, 1 << 50) };
        let parts = parts(map(1, 10), whole);
        assert_eq!(parts, [Part { number: 0, shard: 0, request: whole }]);
    }
}
