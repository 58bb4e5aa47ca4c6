//! Checks of settings, and conversions of their units.

use super::error::SsdError;

/// Refuses a value outside of a range, naming it.
pub(crate) fn within<T: Copy + PartialOrd + std::fmt::Display>(
    name: &'static str,
    value: T,
    least: T,
    most: T,
) -> Result<(), SsdError> {
    // Not a number fails both comparisons.
    if value >= least && value <= most {
        return Ok(());
    }
    Err(bad(name, value, format!("{least} to {most}")))
}

pub(crate) fn bad(
    name: &'static str,
    value: impl std::fmt::Display,
    permitted: impl Into<String>,
) -> SsdError {
    SsdError::BadSetting { name, value: value.to_string(), permitted: permitted.into() }
}

/// Microseconds as nanoseconds.
pub(crate) fn us_to_ns(us: f64) -> u64 {
    round_ns(us * 1e3)
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
