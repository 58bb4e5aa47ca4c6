//! Conversions from the units of data sheets to integer nanoseconds.

/// Milliseconds as nanoseconds.
pub(crate) fn ms_to_ns(ms: f64) -> u64 {
    round_ns(ms * 1e6)
}

/// To the nearest nanosecond; below 0 counts as 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and settings are bounded far below"
)]
pub(crate) fn round_ns(ns: f64) -> u64 {
    libm::round(ns) as u64
}
