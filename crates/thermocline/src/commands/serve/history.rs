//! History of the figures: snapshots of the last hour, and the shadows and the wear of the last day.
//!
//! One snapshot a minute is kept, so that all of it is bounded: about 60 snapshots of 8 KiB, and 1442
//! points of a few words for each shadow. Readers share them; nobody who reads keeps the engine waiting.

use std::collections::VecDeque;
use std::sync::Arc;

use super::status::Status;

/// Seconds between two snapshots.
const STEP_S: f64 = 60.0;
const HOUR_S: f64 = 3600.0;
/// Seconds of a day.
pub(super) const DAY_S: f64 = 86_400.0;
/// Enough for a window whose beginning lies between two of them.
const HOUR_POINTS: usize = 62;
const DAY_POINTS: usize = 24 * 60 + 2;

/// Snapshots, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    hour: VecDeque<Arc<Status>>,
    day: VecDeque<Arc<DayPoint>>,
}

/// Point of the history of a day.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DayPoint {
    pub(super) uptime_s: f64,
    /// Bytes written to the flash in its life.
    pub(super) flash_written_bytes: u64,
    /// When the shadows began. Points of other shadows cannot be compared.
    pub(super) shadow_start_s: f64,
    /// Figures of each shadow.
    pub(super) shadows: Vec<ShadowTotals>,
}

/// Figures of a shadow since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ShadowTotals {
    /// Time of all transfers by the cost model, in milliseconds.
    pub(super) io_ms: f64,
    /// Page writes to flash.
    pub(super) flash_writes: f64,
    /// Page accesses of the engine.
    pub(super) accesses: f64,
    /// Accesses that the shadow saw.
    pub(super) sampled: f64,
}

impl DayPoint {
    /// Keep the figures of a snapshot that the history needs.
    pub(super) fn of(status: &Status) -> Self {
        let totals = status.shadows.iter().map(|shadow| {
            let accesses = shadow.accesses as f64;
            ShadowTotals {
                io_ms: shadow.io_ms_per_access * accesses,
                flash_writes: shadow.flash_writes_per_access * accesses,
                accesses,
                sampled: shadow.sampled_accesses as f64,
            }
        });
        Self {
            uptime_s: status.uptime_s,
            flash_written_bytes: status.figures.count("flash_lifetime_written_bytes"),
            shadow_start_s: status.shadow_start_s,
            shadows: totals.collect(),
        }
    }
}

impl History {
    /// Return `true` if a snapshot is to be kept.
    pub(super) fn is_due(&self, status: &Status) -> bool {
        self.day.back().is_none_or(|last| status.uptime_s - last.uptime_s >= STEP_S)
    }

    /// Keeps a snapshot, and drops what is too old.
    pub(super) fn keep(&mut self, status: &Arc<Status>) {
        self.hour.push_back(Arc::clone(status));
        self.day.push_back(Arc::new(DayPoint::of(status)));
        while self.hour.len() > HOUR_POINTS {
            self.hour.pop_front();
        }
        while self.day.len() > DAY_POINTS {
            self.day.pop_front();
        }
    }

    /// Return the newest snapshot that is at least an hour older than this one, or else the first.
    pub(super) fn hour_before(&self, now: &Status) -> Option<&Arc<Status>> {
        let beginning = now.uptime_s - HOUR_S;
        self.hour.iter().rev().find(|one| one.uptime_s <= beginning).or(self.hour.front())
    }

    /// Return the points of the last day, oldest first.
    pub(super) fn day(&self, now: &Status) -> impl DoubleEndedIterator<Item = &DayPoint> {
        let beginning = now.uptime_s - DAY_S - STEP_S;
        self.day.iter().map(Arc::as_ref).filter(move |point| point.uptime_s > beginning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(uptime_s: f64) -> Arc<Status> {
        Arc::new(Status { uptime_s, ..Status::default() })
    }

    /// Return a history of snapshots four times a second.
    fn after(seconds: u32) -> History {
        let mut history = History::default();
        for quarter in 1..=4 * seconds {
            let status = at(f64::from(quarter) / 4.0);
            if history.is_due(&status) {
                history.keep(&status);
            }
        }
        history
    }

    #[test]
    fn the_last_hour_begins_at_most_a_minute_early() {
        for seconds in [3661, 5000, 7300, 90_000] {
            let history = after(seconds);
            let now = at(f64::from(seconds));
            let before = history.hour_before(&now).unwrap();
            let window_s = now.uptime_s - before.uptime_s;
            assert!((3600.0..3660.5).contains(&window_s), "{seconds}: {window_s}");
        }
    }

    #[test]
    fn a_young_engine_has_its_whole_life() {
        assert!(History::default().hour_before(&at(0.0)).is_none());
        let before = after(500);
        assert!((before.hour_before(&at(500.0)).unwrap().uptime_s - 0.25).abs() < 1e-9);
        assert_eq!(before.day(&at(500.0)).count(), 9);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let history = after(100_000);
        assert_eq!([history.hour.len(), history.day.len()], [HOUR_POINTS, DAY_POINTS]);
        let oldest = history.day(&at(100_000.0)).next().unwrap();
        let age_s = 100_000.0 - oldest.uptime_s;
        assert!((DAY_S..DAY_S + STEP_S).contains(&age_s), "{age_s}");
    }
}
