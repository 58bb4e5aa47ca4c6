//! Lifetime of flash at the pace of a trace.

use thermocline_trace::CompiledTrace;

use crate::metric::flash;
use crate::numbers::DAYS_PER_YEAR;
use crate::{SECONDS_PER_DAY, Summary};

/// Return the time that the trace was recorded, in seconds; 0 if it has no times.
pub(crate) fn recorded_s(trace: &CompiledTrace) -> f64 {
    let summary = trace.summary();
    if !trace.is_timed() {
        return 0.0;
    }
    summary.last_at.0.saturating_sub(summary.first_at.0) as f64 / 1e9
}

/// Return the years that flash lasts: it takes `endured` in all, and `written`, in the same unit, in this
/// many seconds. Infinite if nothing is written.
pub(crate) fn lifetime_years(endured: f64, written: f64, seconds: f64) -> f64 {
    if written <= 0.0 {
        return f64::INFINITY;
    }
    endured / written * seconds / SECONDS_PER_DAY / DAYS_PER_YEAR
}

impl Summary {
    /// Years that flash lasts if all of it may be written `endurance_cycles` times, and a drive writes
    /// nothing twice. `trace` is that of the run. None without flash or writes to it, or if the trace has
    /// no times.
    ///
    /// The writes take as long as the trace was recorded, or as all transfers one after the other if the
    /// devices do not keep pace with it.
    pub fn flash_lifetime_years(
        &self,
        trace: &CompiledTrace,
        endurance_cycles: f64,
    ) -> Option<f64> {
        let flash = flash(self)?;
        let endured = flash.capacity_pages? as f64 * endurance_cycles;
        let seconds = recorded_s(trace);
        if seconds <= 0.0 || flash.page_writes == 0 {
            return None;
        }
        let seconds = seconds.max(self.io_time_ms / 1000.0);
        Some(lifetime_years(endured, flash.page_writes as f64, seconds))
    }
}
