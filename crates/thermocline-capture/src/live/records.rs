//! Output of blktrace for one block device, record by record.
//!
//! blktrace empties the buffers of the processors in turn, several times a second, so records stand a
//! little behind later ones of another processor. Requests wait until none that is earlier can come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thermocline_core::{Nanos, Op};
use thermocline_trace::{Extent, Request, hexadecimal};

use super::{Heard, NotARequest, extent};
use crate::blktrace::{DISORDER_NS, MAGIC_REASON, RECORD_BYTES, Record};

/// Requests that wait at most.
const WAITING_MAX: usize = 1 << 18;

/// Understands the records of one device.
#[derive(Debug)]
pub(super) struct Records {
    names: [String; 1],
    is_ready: bool,
    newest_ns: u64,
    waiting: BinaryHeap<Reverse<Waiting>>,
    number: u64,
}

/// A request that an earlier one may still precede; ordered by time, and then as they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    at_ns: u64,
    number: u64,
    is_write: bool,
    offset: u64,
    length: u64,
}

impl Default for Records {
    fn default() -> Self {
        Self {
            // The name that bpftrace's lines give a device, so that samples of both can be joined.
            names: ["device".to_owned()],
            is_ready: false,
            newest_ns: 0,
            waiting: BinaryHeap::new(),
            number: 0,
        }
    }
}

impl Records {
    pub(super) fn volume_names(&self) -> &[String] {
        &self.names
    }

    /// Understands the whole records, and returns their length.
    ///
    /// # Errors
    /// If bytes are not a record; the first such bytes end the reading.
    pub(super) fn hear(
        &mut self,
        bytes: &[u8],
        each: &mut impl FnMut(Heard),
    ) -> Result<usize, NotARequest> {
        let mut rest = bytes;
        while let Some((head, following)) = rest.split_first_chunk::<RECORD_BYTES>() {
            let not_a_request = |reason| NotARequest { reason, text: hexadecimal(head) };
            let record = Record::parse(head).ok_or_else(|| not_a_request(MAGIC_REASON.into()))?;
            let Some((_, next)) = following.split_at_checked(record.following_bytes) else { break };
            rest = next;
            if !self.is_ready {
                self.is_ready = true;
                each(Heard::Ready);
            }
            let Some(op) = record.op() else {
                each(Heard::Other);
                continue;
            };
            let (offset, length) = record.extent_bytes();
            extent(Some(offset), Some(length)).map_err(not_a_request)?;
            let (at_ns, is_write) = (record.at_ns, op == Op::Write);
            let waiting = Waiting { at_ns, number: self.number, is_write, offset, length };
            self.waiting.push(Reverse(waiting));
            self.number += 1;
            self.newest_ns = self.newest_ns.max(at_ns);
            self.release(self.newest_ns.saturating_sub(DISORDER_NS), WAITING_MAX, each);
        }
        Ok(bytes.len() - rest.len())
    }

    pub(super) fn finish(&mut self, each: &mut impl FnMut(Heard)) {
        self.release(u64::MAX, 0, each);
    }

    /// Gives away what came until a time, and what is too much.
    fn release(&mut self, until_ns: u64, most: usize, each: &mut impl FnMut(Heard)) {
        while let Some(&Reverse(Waiting { at_ns, is_write, offset, length, .. })) =
            self.waiting.peek()
        {
            if at_ns > until_ns && self.waiting.len() <= most {
                break;
            }
            self.waiting.pop();
            let op = if is_write { Op::Write } else { Op::Read };
            let extent = Extent::Bytes { offset, length };
            each(Heard::Request(Request { at: Nanos(at_ns), op, volume: 0, extent }));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::live::Listener;

    const QUEUED: u32 = 1;
    const ISSUED: u32 = 7;
    const READ: u32 = 1 << 16;
    const WRITE: u32 = 1 << 17;
    const NOTE: u32 = 1 << 26;

    fn record(at_ns: u64, sector: u64, action: u32, following: &[u8]) -> Vec<u8> {
        let mut bytes = 0x6561_7407_u32.to_le_bytes().to_vec();
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(at_ns.to_le_bytes());
        bytes.extend(sector.to_le_bytes());
        for word in [8192, action, 42, 8 << 20 | 16, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([0, 0]);
        bytes.extend(u16::try_from(following.len()).expect("it is short").to_le_bytes());
        bytes.extend(following);
        bytes
    }

    /// Parse bytes in pieces of a length.
    fn heard(bytes: &[u8], piece: usize) -> Result<Vec<Heard>, NotARequest> {
        let mut listener = Listener::blktrace();
        let mut all = vec![];
        for piece in bytes.chunks(piece) {
            listener.hear(piece, |one| all.push(one))?;
        }
        listener.finish(|one| all.push(one));
        Ok(all)
    }

    fn request(at_ns: u64, op: Op, offset: u64) -> Heard {
        let extent = Extent::Bytes { offset, length: 8192 };
        Heard::Request(Request { at: Nanos(at_ns), op, volume: 0, extent })
    }

    #[test]
    fn requests_are_heard_in_their_order_however_the_bytes_are_cut() {
        let bytes = [
            record(5, 0, NOTE, b"fsync\0\0\0"),
            record(30, 8, QUEUED | WRITE, b""),
            record(40, 8, ISSUED | WRITE, b""),
            record(20, 16, QUEUED | READ, b"xyz"),
            record(25 + DISORDER_NS, 24, QUEUED | READ, b""),
        ]
        .concat();
        let expected = [
            Heard::Ready,
            Heard::Other,
            Heard::Other,
            request(20, Op::Read, 8192),
            request(30, Op::Write, 4096),
            request(25 + DISORDER_NS, Op::Read, 12_288),
        ];
        for piece in [1, 7, 48, 50, 1000] {
            assert_eq!(heard(&bytes, piece).as_deref(), Ok(&expected[..]), "pieces of {piece}");
        }
        let cut = heard(&bytes[..bytes.len() - 1], 1000).expect("the others are whole");
        assert_eq!(cut.last(), Some(&Heard::Lost(1)));
    }

    /// Parses the output of blktrace 2.0.0 on Linux 6.1 while 50 pages of a RAM disk were written
    /// and 20 reads of 8 KiB came from its sector 48 on.
    #[test]
    fn a_kernels_stream_is_heard() {
        let all = heard(include_bytes!("ram.blktrace"), 100).expect("it is whole");
        assert_eq!(all[0], Heard::Ready);
        let requests: Vec<Request> = all
            .iter()
            .filter_map(|one| if let Heard::Request(request) = one { Some(*request) } else { None })
            .collect();
        let written = (0..50).map(|page| (Op::Write, page * 4096, 4096));
        let read = (3..23).map(|block| (Op::Read, block * 8192, 8192));
        let expected: Vec<_> = written.chain(read).collect();
        let found = requests.iter().map(|request| {
            let Extent::Bytes { offset, length } = request.extent else { panic!("it has bytes") };
            (request.op, offset, length)
        });
        assert_eq!(found.collect::<Vec<_>>(), expected);
        let last = requests.last().expect("there are some").at.0;
        assert!((1_000_000_000..2_000_000_000).contains(&(last - requests[0].at.0)));
        assert!(!all.iter().any(|one| matches!(one, Heard::Lost(_))));
    }

    #[test]
    fn requests_wait_for_earlier_ones_but_not_all_of_them() {
        let mut listener = Listener::blktrace();
        let mut heard = 0;
        for number in 0..WAITING_MAX as u64 + 10 {
            let bytes = record(number, number, QUEUED | READ, b"");
            listener.hear(&bytes, |one| heard += u64::from(matches!(one, Heard::Request(_)))).ok();
        }
        assert_eq!(heard, 10);
    }

    #[test]
    fn other_bytes_and_addresses_beyond_the_last_are_refused() {
        let far = record(1, u64::MAX, QUEUED | READ, b"");
        assert!(heard(&far, 100).is_err_and(|error| error.to_string().contains("2^63")));
        let other = heard(&[7; 100], 100);
        assert!(other.is_err_and(|error| error.to_string().contains("0x65617407")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_heard_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..200,
        ) {
            let mut bytes = [record(1, 0, QUEUED | READ, &[]), bytes].concat();
            drop(heard(&bytes, 1000));
            let at = at % bytes.len();
            bytes[at] ^= 1;
            // Never a panic.
            drop(heard(&bytes, 13));
        }
    }
}
