//! Budget of writes to flash per day.

use thermocline_core::Nanos;

/// A day.
const DAY_NS: f64 = 86_400e9;
/// The budget of this time may be spent at once.
const BURST_DAYS: f64 = 1.0 / 24.0;

/// Remainder of a budget that grows with time.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlashBudget {
    bytes_per_day: f64,
    /// Bytes that could be written when that was reckoned last, and the bytes written until then.
    left_bytes: f64,
    reckoned_at: Nanos,
    written_bytes: u64,
}

impl FlashBudget {
    /// Create a budget that begins now, when so many bytes were written already.
    pub(super) fn new(gib_per_day: f64, now: Nanos, written_bytes: u64) -> Self {
        let bytes_per_day = gib_per_day * (1_u64 << 30) as f64;
        let left_bytes = bytes_per_day * BURST_DAYS;
        Self { bytes_per_day, left_bytes, reckoned_at: now, written_bytes }
    }

    /// Set another rate from now on: amounts earned and spent before still count.
    pub(super) fn set_rate(&mut self, gib_per_day: f64, now: Nanos, written_bytes: u64) {
        self.reckon(now, written_bytes);
        self.bytes_per_day = gib_per_day * (1_u64 << 30) as f64;
    }

    /// Return the number of bytes that may be written now, when so many were written; below zero if
    /// it is overdrawn.
    pub(super) fn left_bytes(&self, now: Nanos, written_bytes: u64) -> f64 {
        let earned = (now.0 - self.reckoned_at.0) as f64 / DAY_NS * self.bytes_per_day;
        let spent = (written_bytes - self.written_bytes) as f64;
        (self.left_bytes + earned - spent).min(self.bytes_per_day * BURST_DAYS)
    }

    /// Return the same; goes on from there.
    pub(super) fn reckon(&mut self, now: Nanos, written_bytes: u64) -> f64 {
        self.left_bytes = self.left_bytes(now, written_bytes);
        (self.reckoned_at, self.written_bytes) = (now, written_bytes);
        self.left_bytes
    }
}
