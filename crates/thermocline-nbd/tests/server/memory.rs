//! A service that holds its bytes in memory and answers at once, or later if told so.

use std::collections::VecDeque;
use std::time::Duration;

use thermocline_nbd::protocol::{
    BlockSizes, Command, Context, ErrorCode, ExportInfo, Extent, allocation, tier,
    transmission_flag as flag,
};
use thermocline_nbd::service::{ExtentRange, Piece, Reply, Service, Tag};

/// The bytes of an export.
pub(crate) struct Memory {
    bytes: Vec<u8>,
    /// Pieces that were submitted and not answered.
    waiting: VecDeque<(Tag, Piece)>,
    /// Pieces that were driven so often before they are answered.
    delay_drives: u32,
    drives: u32,
    /// Reads of these bytes fail.
    pub(crate) broken_bytes: std::ops::Range<u64>,
}

impl Memory {
    /// Create a disk of `size_bytes` zeroes.
    pub(crate) fn new(size_bytes: usize) -> Self {
        let waiting = VecDeque::new();
        Self { bytes: vec![0; size_bytes], waiting, delay_drives: 0, drives: 0, broken_bytes: 0..0 }
    }

    /// Sets a byte of the disk.
    pub(crate) fn holding(mut self, place: usize, byte: u8) -> Self {
        self.bytes[place] = byte;
        self
    }

    /// Answers only at every n-th drive.
    pub(crate) fn delayed(mut self, drives: u32) -> Self {
        self.delay_drives = drives;
        self
    }

    /// Return its information for clients.
    pub(crate) fn info(&self, name: &str) -> ExportInfo {
        ExportInfo {
            name: name.into(),
            description: "bytes in memory".into(),
            size_bytes: self.bytes.len() as u64,
            flags: flag::SEND_FLUSH
                | flag::SEND_FUA
                | flag::SEND_TRIM
                | flag::SEND_WRITE_ZEROES
                | flag::SEND_FAST_ZERO
                | flag::SEND_CACHE
                | flag::CAN_MULTI_CONN,
            block_sizes: BlockSizes::default(),
            takes_cooperation: false,
        }
    }

    fn range(&mut self, offset_bytes: u64, length_bytes: u32) -> &mut [u8] {
        let start = usize::try_from(offset_bytes).expect("in memory");
        &mut self.bytes[start..][..length_bytes as usize]
    }

    fn do_it(&mut self, piece: &Piece) -> Result<(), ErrorCode> {
        let end = piece.offset_bytes + u64::from(piece.length_bytes);
        match piece.command {
            Command::Read
                if piece.offset_bytes < self.broken_bytes.end && end > self.broken_bytes.start =>
            {
                Err(ErrorCode::Io)
            }
            Command::Trim | Command::WriteZeroes => {
                self.range(piece.offset_bytes, piece.length_bytes).fill(0);
                Ok(())
            }
            Command::Read
            | Command::Write
            | Command::Disconnect
            | Command::Flush
            | Command::Cache
            | Command::Attach
            | Command::Await
            | Command::Demote
            | Command::Release
            | Command::Tell
            | Command::BlockStatus => Ok(()),
        }
    }
}

impl Service for Memory {
    fn submit(&mut self, tag: Tag, piece: &Piece, payload: &[u8]) {
        if piece.command == Command::Write {
            self.range(piece.offset_bytes, piece.length_bytes).copy_from_slice(payload);
        }
        self.waiting.push_back((tag, *piece));
    }

    fn drive(&mut self) {
        self.drives += 1;
    }

    fn next_reply(&mut self) -> Option<Reply> {
        if self.delay_drives > 0 && !self.drives.is_multiple_of(self.delay_drives) {
            return None;
        }
        let (tag, piece) = self.waiting.front().copied()?;
        let outcome = self.do_it(&piece);
        if outcome.is_err() || piece.command != Command::Read {
            self.waiting.pop_front();
        }
        Some(Reply { tag, outcome })
    }

    fn take_data(&mut self, tag: Tag, target: &mut Vec<u8>) {
        let (front, piece) = self.waiting.pop_front().expect("the read that was announced");
        assert_eq!(front, tag);
        target.extend_from_slice(self.range(piece.offset_bytes, piece.length_bytes));
    }

    fn wait_limit(&self) -> Option<Duration> {
        (!self.waiting.is_empty()).then_some(Duration::from_micros(1))
    }

    fn extents(&mut self, context: Context, range: &ExtentRange, found: &mut Vec<Extent>) {
        // Every 64 KiB is one extent: in RAM if it holds anything, else a hole on the disk.
        let (mut offset, mut left) = (range.offset_bytes, range.length_bytes);
        while left > 0 && found.len() < range.count_max {
            let length_bytes = u32::try_from(65_536 - offset % 65_536).expect("short").min(left);
            let is_zero = self.range(offset, length_bytes).iter().all(|byte| *byte == 0);
            let status = match context {
                Context::Allocation if is_zero => allocation::HOLE | allocation::ZERO,
                Context::Tier if !is_zero => tier::RAM | tier::DIRTY,
                Context::Allocation | Context::Tier => 0,
            };
            found.push(Extent { length_bytes, status });
            offset += u64::from(length_bytes);
            left -= length_bytes;
        }
    }
}
