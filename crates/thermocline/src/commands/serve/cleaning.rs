//! When the engine writes dirty pages of flash back on its own, and how fast.

use anyhow::{Result, ensure};
use jiff::Zoned;
use jiff::civil::Time;
use serde::Deserialize;
use serde::de::{self, Deserializer};
use thermocline_core::Nanos;
use thermocline_engine::{Cleaning, Shard};

/// The longest time without requests after which everything is cleaned: a day, in seconds.
const IDLE_MAX_S: u64 = 86_400;

/// Cleaning besides the policy's.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CleaningSection {
    pub(super) dirty_ratio: Option<f64>,
    pub(super) pages_per_second: Option<u32>,
    pub(super) pages_in_flight: Option<u32>,
    idle: Option<u64>,
    window: Option<Window>,
    #[serde(default)]
    pub(crate) drain_at_exit: bool,
}

/// A part of each day, by this machine's clock; it may pass midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    from: Time,
    /// The first moment that is outside.
    to: Time,
}

impl Window {
    fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once('-')?;
        let time = |text: &str| Time::strptime("%H:%M", text.trim()).ok();
        let window = Self { from: time(from)?, to: time(to)? };
        (window.from != window.to).then_some(window)
    }

    fn contains(self, time: Time) -> bool {
        if self.from < self.to {
            (self.from..self.to).contains(&time)
        } else {
            time >= self.from || time < self.to
        }
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            let wanted = &"two different times of the day, as in \"01:00-05:30\"";
            de::Error::invalid_value(de::Unexpected::Str(&text), wanted)
        })
    }
}

impl CleaningSection {
    /// Refuses what cannot work.
    pub(super) fn check(&self) -> Result<()> {
        if let Some(ratio) = self.dirty_ratio {
            ensure!(
                (0.0..=1.0).contains(&ratio),
                "`cleaning.dirty_ratio` is {ratio}: it must be from 0 to 1"
            );
        }
        if let Some(seconds) = self.idle {
            ensure!(
                (1..=IDLE_MAX_S).contains(&seconds),
                "`cleaning.idle` is {seconds}: it must be from 1 to {IDLE_MAX_S} seconds"
            );
        }
        Ok(())
    }

    /// Return what the engine cleans at a time of the day: everything within the window.
    fn at(self, time: Time) -> Cleaning {
        let default = Cleaning::default();
        let ratio = self.dirty_ratio.unwrap_or(default.dirty_ratio_target);
        let is_within = self.window.is_some_and(|window| window.contains(time));
        Cleaning {
            dirty_ratio_target: if is_within { 0.0 } else { ratio },
            pages_per_second_max: self.pages_per_second.unwrap_or(default.pages_per_second_max),
            pages_in_flight_max: self.pages_in_flight.unwrap_or(default.pages_in_flight_max),
            idle_after: self.idle.map(|seconds| Nanos(seconds * 1_000_000_000)),
        }
    }

    /// Return what the engine cleans now.
    pub(crate) fn now(self) -> Cleaning {
        self.at(if self.window.is_some() { Zoned::now().time() } else { Time::midnight() })
    }

    /// Has a shard clean as it should now.
    pub(super) fn apply(self, shard: &mut Shard) {
        let shards = u32::from(shard.options().share.map.number().get());
        let wanted = self.now().part(shards);
        if shard.options().cleaning != wanted {
            shard.set_cleaning(wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::time;

    use super::*;

    fn window(text: &str) -> Window {
        Window::parse(text).unwrap()
    }

    #[test]
    fn a_window_begins_with_its_first_minute_and_ends_before_its_last() {
        let night = window("22:30-05:00");
        for (hour, minute, is_within) in [
            (22, 29, false),
            (22, 30, true),
            (23, 59, true),
            (0, 0, true),
            (4, 59, true),
            (5, 0, false),
            (12, 0, false),
        ] {
            assert_eq!(night.contains(time(hour, minute, 0, 0)), is_within, "{hour}:{minute}");
        }
        let noon = window("12:00 - 13:00");
        assert!(noon.contains(time(12, 0, 0, 0)) && !noon.contains(time(13, 0, 0, 0)));
        for wrong in ["", "12:00", "12:00-12:00", "25:00-01:00", "1-2", "12:00-13:00-14:00"] {
            assert_eq!(Window::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_cannot_work_is_refused() {
        for (text, said) in [
            ("window = \"night\"", "as in \"01:00-05:30\""),
            ("idle = -1", "-1"),
            ("idel = 1", "unknown field `idel`"),
        ] {
            let error = toml::from_str::<CleaningSection>(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        for (text, said) in [
            ("idle = 0", "`cleaning.idle` is 0"),
            ("idle = 86401", "from 1 to 86400 seconds"),
            ("dirty_ratio = 1.5", "from 0 to 1"),
        ] {
            let section: CleaningSection = toml::from_str(text).unwrap();
            let error = section.check().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn all_is_cleaned_within_the_window_alone() {
        let section: CleaningSection =
            toml::from_str("dirty_ratio = 0.4\nidle = 60\nwindow = \"01:00-05:00\"").unwrap();
        for (hour, ratio) in [(0, 0.4), (1, 0.0), (5, 0.4)] {
            let found = section.at(time(hour, 0, 0, 0)).dirty_ratio_target;
            assert!((found - ratio).abs() < 1e-9, "at {hour}: {found}");
        }
        assert_eq!(section.at(time(0, 0, 0, 0)).idle_after, Some(Nanos(60_000_000_000)));
        assert_eq!(CleaningSection::default().now(), Cleaning::default());
    }
}
