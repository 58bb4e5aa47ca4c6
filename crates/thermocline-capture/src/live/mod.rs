//! Requests as they happen, from what a recorder prints: bpftrace's lines or blktrace's records.

mod lines;
mod records;

use thermocline_trace::{ADDRESS_BYTES_MAX, Extent, Reason, Request};

use self::lines::Lines;
use self::records::Records;

/// The script for bpftrace that prints the requests to a block device; `DEVICE` stands for its number
/// in the kernel, the major number times 2^20 and the minor one.
pub const BLOCK_SCRIPT: &str = include_str!("../block.bt");

/// Item of a recording's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The recorder has begun.
    Ready,
    /// A request.
    Request(Request),
    /// The number of requests that were lost.
    Lost(u64),
    /// Nothing that moves data.
    Other,
}

/// A recorder printed something that should be a request, and is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {text}")]
pub struct NotARequest {
    /// Reason why it is not a request.
    pub reason: Reason,
    /// Its beginning.
    pub text: String,
}

/// Understands what one recorder prints, in pieces that end anywhere.
#[derive(Debug)]
pub struct Listener {
    stream: Stream,
    /// The beginning of a line or record whose end has not come.
    begun: Vec<u8>,
}

#[derive(Debug)]
enum Stream {
    Lines(Lines),
    Records(Records),
}

impl Listener {
    /// Listens to bpftrace, which runs [`BLOCK_SCRIPT`] or
    /// [`BPFTRACE_SCRIPT`](crate::BPFTRACE_SCRIPT).
    pub fn bpftrace() -> Self {
        Self { stream: Stream::Lines(Lines::default()), begun: vec![] }
    }

    /// Listens to `blktrace -d DEVICE -o -`.
    pub fn blktrace() -> Self {
        Self { stream: Stream::Records(Records::default()), begun: vec![] }
    }

    /// Return the names of the volumes so far.
    pub fn volume_names(&self) -> &[String] {
        match &self.stream {
            Stream::Lines(lines) => lines.volume_names(),
            Stream::Records(records) => records.volume_names(),
        }
    }

    /// Understands the next bytes, and gives `each` what was heard.
    ///
    /// # Errors
    /// If a line or record should be a request and cannot be parsed; the first one ends the
    /// reading.
    pub fn hear(&mut self, bytes: &[u8], mut each: impl FnMut(Heard)) -> Result<(), NotARequest> {
        let mut joined = std::mem::take(&mut self.begun);
        let bytes = if joined.is_empty() {
            bytes
        } else {
            joined.extend_from_slice(bytes);
            &joined
        };
        let length = match &mut self.stream {
            Stream::Lines(lines) => lines.hear(bytes, &mut each)?,
            Stream::Records(records) => records.hear(bytes, &mut each)?,
        };
        self.begun = bytes[length..].to_vec();
        Ok(())
    }

    /// Gives `each` what is left when the recorder has ended.
    pub fn finish(&mut self, mut each: impl FnMut(Heard)) {
        if let Stream::Records(records) = &mut self.stream {
            records.finish(&mut each);
        }
        if !self.begun.is_empty() {
            self.begun.clear();
            each(Heard::Lost(1));
        }
    }
}

fn extent(offset: Option<u64>, length: Option<u64>) -> Result<Extent, Reason> {
    let end = offset.zip(length).and_then(|(offset, length)| offset.checked_add(length));
    match (offset, length, end) {
        (Some(offset), Some(length), Some(end)) if end <= ADDRESS_BYTES_MAX => {
            Ok(Extent::Bytes { offset, length })
        }
        _ => Err("the address is beyond 2^63 bytes".into()),
    }
}
