//! The records that blktrace writes, and what of them moves data.
//!
//! A record has 48 bytes, in the byte order of the machine that wrote it: magic `0x65617407`, sequence,
//! time in ns, sector, bytes, action, process, device, cpu, error, and the length of what follows the
//! record.
//!
//! * Source: `blktrace_api.h` and `blktrace.h` of Linux.

use thermocline_core::Op;
use thermocline_trace::text::SECTOR_BYTES;

/// The processors' buffers are written in turn, so events stand up to this much behind later ones.
pub(crate) const DISORDER_NS: u64 = 1_000_000_000;

/// The length of a record, without what follows it.
pub(crate) const RECORD_BYTES: usize = 48;

/// Reason for refusing a record without the magic number.
pub(crate) const MAGIC_REASON: &str = "its magic number is not 0x65617407 in either byte order";

/// The event: a request was queued.
const QUEUED: u32 = 1;

/// Categories of events, in the upper half of the action.
const WRITE: u32 = 1 << (16 + 1);
const READ: u32 = 1 << 16;
const NOTIFY: u32 = 1 << (16 + 10);
const DISCARD: u32 = 1 << (16 + 13);

/// The note: the name of a process follows.
const PROCESS_NAME: u32 = 0;

/// A record of blktrace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) at_ns: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pub(crate) pid: u32,
    device: u32,
    pub(crate) following_bytes: usize,
}

impl Record {
    /// Decode a record. The magic number of version 7 reveals the byte order; without it, this is no record,
    /// and the result is `None`.
    pub(crate) fn parse(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let is_little = match bytes[..4] {
            [0x07, 0x74, 0x61, 0x65] => true,
            [0x65, 0x61, 0x74, 0x07] => false,
            _ => return None,
        };
        let number = |at: usize, length: usize| {
            let mut value = 0_u64;
            for index in 0..length {
                let byte = bytes[if is_little { at + length - 1 - index } else { at + index }];
                value = value << 8 | u64::from(byte);
            }
            value
        };
        let half = |at: usize| u32::try_from(number(at, 4)).expect("four bytes");
        Some(Self {
            at_ns: number(8, 8),
            sector: number(16, 8),
            bytes: half(24),
            action: half(28),
            pid: half(32),
            device: half(36),
            following_bytes: usize::try_from(number(46, 2)).expect("two bytes"),
        })
    }

    /// Return the direction of data, if any moves to or from a sector.
    pub(crate) const fn op(&self) -> Option<Op> {
        if self.action & 0xffff != QUEUED || self.action & (NOTIFY | DISCARD) != 0 {
            None
        } else if self.action & WRITE != 0 {
            Some(Op::Write)
        } else if self.action & READ != 0 {
            Some(Op::Read)
        } else {
            None
        }
    }

    pub(crate) const fn is_process_name(&self) -> bool {
        self.action & NOTIFY != 0 && self.action & 0xffff == PROCESS_NAME
    }

    /// Return the start and the length of the data.
    pub(crate) fn extent_bytes(&self) -> (u64, u64) {
        (self.sector.saturating_mul(SECTOR_BYTES), self.bytes.into())
    }

    /// Return the device as `major:minor`.
    pub(crate) fn device_name(&self) -> String {
        format!("{}:{}", self.device >> 20, self.device & 0xf_ffff)
    }
}
