//! Requests on their way to a recording: in order of time, on disk, in records of one size.
//!
//! The place and the class of a file are known only at the end of a recording, so the requests wait in a file
//! without a name.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};

use thermocline_core::Op;

/// Maximum number of requests that wait in memory for an earlier one.
const WAITING_MAX: usize = 1 << 18;

const RECORD_BYTES: usize = 40;

/// A request to a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spooled {
    pub(crate) at_ns: u64,
    pub(crate) file: u32,
    pub(crate) command: u32,
    pub(crate) op: Op,
    /// Offset in bytes, within the file.
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Spooled {
    fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&self.at_ns.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.file.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.command.to_le_bytes());
        bytes[32] = u8::from(self.op == Op::Write);
        bytes
    }

    fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Self {
        let word = |at: usize| {
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a slice of eight bytes"))
        };
        let half = |at: usize| {
            u32::from_le_bytes(bytes[at..at + 4].try_into().expect("a slice of four bytes"))
        };
        Self {
            at_ns: word(0),
            offset: word(8),
            length: word(16),
            file: half(24),
            command: half(28),
            op: if bytes[32] == 0 { Op::Read } else { Op::Write },
        }
    }
}

/// A request that waits for earlier ones.
#[derive(Debug)]
struct Waiting {
    /// Start time, and the number of the request as a tie-break.
    key: (u64, u64),
    request: Spooled,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

/// The requests so far.
#[derive(Debug)]
pub(crate) struct Spool {
    file: BufWriter<File>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    requests: u64,
    latest_ns: u64,
    /// Requests that came too late to be put in order.
    late: u64,
}

impl Spool {
    pub(crate) fn new(file: File) -> Self {
        let file = BufWriter::with_capacity(1 << 18, file);
        Self { file, waiting: BinaryHeap::new(), requests: 0, latest_ns: 0, late: 0 }
    }

    /// Takes a request; nothing earlier than `horizon_ns` can follow.
    pub(crate) fn push(&mut self, request: Spooled, horizon_ns: u64) -> io::Result<()> {
        self.requests += 1;
        if self.waiting.is_empty() && request.at_ns <= horizon_ns {
            return self.write(&request);
        }
        let key = (request.at_ns, self.requests);
        self.waiting.push(Reverse(Waiting { key, request }));
        while let Some(Reverse(first)) = self.waiting.peek()
            && (first.key.0 <= horizon_ns || self.waiting.len() > WAITING_MAX)
        {
            let Some(Reverse(first)) = self.waiting.pop() else { break };
            self.write(&first.request)?;
        }
        Ok(())
    }

    /// Return the number of requests that stand behind later ones.
    pub(crate) const fn late(&self) -> u64 {
        self.late
    }

    /// Writes what waits; requests may follow.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        while let Some(Reverse(first)) = self.waiting.pop() {
            self.write(&first.request)?;
        }
        self.file.flush()
    }

    /// Gives the requests to `each`, in order; [`Self::settle`] came before.
    pub(crate) fn read(
        &mut self,
        mut each: impl FnMut(Spooled) -> io::Result<()>,
    ) -> io::Result<()> {
        let file = self.file.get_mut();
        file.rewind()?;
        let mut reader = BufReader::with_capacity(1 << 18, file);
        let mut record = [0; RECORD_BYTES];
        for _ in 0..self.requests {
            reader.read_exact(&mut record)?;
            each(Spooled::from_bytes(&record))?;
        }
        Ok(())
    }

    fn write(&mut self, request: &Spooled) -> io::Result<()> {
        self.late += u64::from(request.at_ns < self.latest_ns);
        self.latest_ns = self.latest_ns.max(request.at_ns);
        self.file.write_all(&request.to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(at_ns: u64) -> Spooled {
        Spooled { at_ns, file: 3, command: 7, op: Op::Write, offset: 1 << 40, length: at_ns * 3 }
    }

    fn times(pushed: &[(u64, u64)]) -> (Vec<u64>, u64) {
        let mut spool = Spool::new(tempfile::tempfile().unwrap());
        for &(at_ns, horizon_ns) in pushed {
            spool.push(request(at_ns), horizon_ns).unwrap();
        }
        spool.settle().unwrap();
        let mut times = vec![];
        spool
            .read(|found| {
                assert_eq!(found, request(found.at_ns));
                times.push(found.at_ns);
                Ok(())
            })
            .unwrap();
        (times, spool.late())
    }

    #[test]
    fn requests_come_in_order_of_time() {
        assert_eq!(times(&[(1, 9), (2, 9), (5, 5)]), (vec![1, 2, 5], 0));
        assert_eq!(times(&[(5, 2), (7, 2), (2, 8), (9, 9)]), (vec![2, 5, 7, 9], 0));
        assert_eq!(times(&[(5, 5), (4, 4), (6, 6)]), (vec![5, 4, 6], 1));
    }

    #[test]
    fn what_waits_is_bounded() {
        let pushed: Vec<(u64, u64)> = (1..=WAITING_MAX as u64 + 10).map(|at| (at, 0)).collect();
        let mut spool = Spool::new(tempfile::tempfile().unwrap());
        for &(at_ns, horizon_ns) in &pushed {
            spool.push(request(at_ns), horizon_ns).unwrap();
            assert!(spool.waiting.len() <= WAITING_MAX);
        }
        assert_eq!(spool.latest_ns, 10);
    }
}
