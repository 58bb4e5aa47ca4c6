//! Location of sectors, and the times at which they pass the head: zones, skews and rotation.
//!
//! Sectors are numbered cylinder by cylinder from the outermost, in a cylinder head by head. Each
//! track starts later by the skew, which is the time that reaching it from the former track takes.
//! A read of the whole disk therefore never waits, and the time at which it begins a sector, counted
//! from sector 0, says all there is to know: its remainder modulo a turn is the sector's angle, and
//! differences are transfer times.
//!
//! * Source: Ruemmler and Wilkes, *An introduction to disk drive modeling*, IEEE Computer 27(3),
//!   1994.
//! * State: 40 bytes per zone.
//! * Cost: O(log zones) per question.
//! * Deviations: (1) cylinder order, where current drives run along one surface for many tracks
//!   before they switch heads, as their order is not published; (2) no spare or remapped sectors, as
//!   a new disk has next to none.

use super::config::{HddConfig, Zone};
use super::units::ms_to_ns;

const MINUTE_NS: u64 = 60_000_000_000;

/// Consecutive sectors, `start` included, `end` not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// A track: its cylinder, counted from the outermost, and its head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Track {
    pub(crate) cylinder: u64,
    pub(crate) head: u64,
}

/// The recorded surface.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    zones: Vec<ZoneStart>,
    /// The addressable ones.
    sectors: u64,
    heads: u64,
    turn_ns: u64,
    /// The skew from one head to the next.
    head_skew_ns: u64,
    /// The skew from the last head of a cylinder to the first of the next.
    cylinder_skew_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct ZoneStart {
    sector: u64,
    cylinder: u64,
    sectors_per_track: u64,
}

impl Extent {
    pub(crate) const fn sectors(self) -> u64 {
        self.end - self.start
    }

    pub(crate) const fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    pub(crate) const fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

impl Layout {
    /// Return the layout of a configuration that was checked, whose arm takes `next_cylinder_ns` to
    /// the next cylinder.
    pub(crate) fn new(config: &HddConfig, next_cylinder_ns: u64) -> Self {
        let heads = u64::from(config.heads);
        let mut zones = Vec::with_capacity(config.zones.len());
        let (mut sector, mut cylinder) = (0, 0);
        for &Zone { cylinders, sectors_per_track } in &config.zones {
            let sectors_per_track = u64::from(sectors_per_track);
            zones.push(ZoneStart { sector, cylinder, sectors_per_track });
            sector += u64::from(cylinders) * heads * sectors_per_track;
            cylinder += u64::from(cylinders);
        }
        let head_skew_ns = ms_to_ns(config.head_switch_ms);
        Self {
            zones,
            sectors: config.capacity_bytes / u64::from(config.sector_bytes),
            heads,
            turn_ns: turn_ns(config),
            head_skew_ns,
            // Less would make a sequential read miss the first sector of each cylinder, and wait a
            // turn for it.
            cylinder_skew_ns: next_cylinder_ns.max(head_skew_ns),
        }
    }

    /// Nanoseconds from the start of sector 0 to the start of `sector` in a read of the whole disk.
    fn stream_ns(&self, sector: u64) -> u64 {
        let (track, offset, sectors_per_track) = self.locate(sector);
        let Track { cylinder, head } = track;
        let tracks = cylinder * self.heads + head;
        let head_switches = tracks - cylinder;
        // Whole numbers of nanoseconds throughout: sums over millions of tracks must not drift.
        tracks * self.turn_ns
            + head_switches * self.head_skew_ns
            + cylinder * self.cylinder_skew_ns
            + offset * self.turn_ns / sectors_per_track
    }

    /// Return the same to the end of `sector`, before the arm moves on if it is the last of its
    /// track.
    fn stream_end_ns(&self, sector: u64) -> u64 {
        let (_, offset, sectors_per_track) = self.locate(sector);
        self.stream_ns(sector) + (offset + 1) * self.turn_ns / sectors_per_track
            - offset * self.turn_ns / sectors_per_track
    }

    /// Return the time that the head waits at `at_ns` until `sector` begins to pass; less than a
    /// turn.
    pub(crate) fn rotation_ns(&self, sector: u64, at_ns: u64) -> u64 {
        let angle_ns = self.stream_ns(sector) % self.turn_ns;
        (angle_ns + self.turn_ns - at_ns % self.turn_ns) % self.turn_ns
    }

    /// Return the time that the extent, which is not empty, takes to pass, from its first sector
    /// on, with the switches of tracks in it.
    pub(crate) fn transfer_ns(&self, extent: Extent) -> u64 {
        self.stream_end_ns(extent.end - 1) - self.stream_ns(extent.start)
    }

    /// Return the position of a read of `extent`, `elapsed_ns` after its first sector began to
    /// pass: the end of the last sector that passed as a whole.
    pub(crate) fn reached(&self, extent: Extent, elapsed_ns: u64) -> u64 {
        // Invariant: sectors below `low` have passed, those from `high` on have not.
        let (mut low, mut high) = (extent.start, extent.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.transfer_ns(Extent { start: extent.start, end: middle + 1 }) <= elapsed_ns {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Return the number of sectors that can be addressed.
    pub(crate) const fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Return the track of `sector`.
    pub(crate) fn track(&self, sector: u64) -> Track {
        self.locate(sector).0
    }

    /// Return the time from one track to the next of the same cylinder.
    pub(crate) const fn head_switch_ns(&self) -> u64 {
        self.head_skew_ns
    }

    /// Return the track of `sector`, its number in it, and how many sectors that track has.
    fn locate(&self, sector: u64) -> (Track, u64, u64) {
        let after = self.zones.partition_point(|zone| zone.sector <= sector);
        let zone = self.zones[after - 1];
        let (tracks, offset) = {
            let inside = sector - zone.sector;
            (inside / zone.sectors_per_track, inside % zone.sectors_per_track)
        };
        let track =
            Track { cylinder: zone.cylinder + tracks / self.heads, head: tracks % self.heads };
        (track, offset, zone.sectors_per_track)
    }
}

/// Return a turn of the platters, to the nearest nanosecond.
pub(crate) fn turn_ns(config: &HddConfig) -> u64 {
    let rotations_per_minute = u64::from(config.rotations_per_minute);
    (MINUTE_NS + rotations_per_minute / 2) / rotations_per_minute
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return a layout with two heads, zones of 3 cylinders x 10 sectors and 5 cylinders x 7 sectors, and a
    /// turn of 10 ms.
    fn layout() -> Layout {
        let config = HddConfig {
            rotations_per_minute: 6000,
            heads: 2,
            zones: vec![
                Zone { cylinders: 3, sectors_per_track: 10 },
                Zone { cylinders: 5, sectors_per_track: 7 },
            ],
            head_switch_ms: 0.5,
            ..HddConfig::preset("st380011a").unwrap()
        };
        Layout::new(&config, 1_250_000)
    }

    #[test]
    fn sectors_fill_head_after_head_then_cylinder_after_cylinder() {
        let places = [
            (0, 0, 0),
            (9, 0, 0),
            (10, 0, 1),
            (20, 1, 0),
            (59, 2, 1),
            (60, 3, 0),
            (67, 3, 1),
            (129, 7, 1),
        ];
        for (sector, cylinder, head) in places {
            assert_eq!(layout().track(sector), Track { cylinder, head }, "sector {sector}");
        }
    }

    #[test]
    fn transfers_cross_tracks_with_the_switch_that_the_skew_allows_for() {
        let ms = |start, end| layout().transfer_ns(Extent { start, end }) as f64 / 1e6;
        for (start, end, expected) in [
            (0, 1, 1.0),
            (0, 10, 10.0),
            (9, 11, 1.0 + 0.5 + 1.0),
            (19, 21, 1.0 + 1.25 + 1.0),
            (0, 20, 20.5),
            (59, 60, 1.0),
            (60, 67, 10.0),
            (0, 60, 60.0 + 3.0 * 0.5 + 2.0 * 1.25),
        ] {
            assert!((ms(start, end) - expected).abs() < 1e-5, "{start}..{end}: {}", ms(start, end));
        }
    }

    #[test]
    fn a_sector_passes_once_per_turn_and_the_next_one_without_waiting() {
        let layout = layout();
        assert_eq!(layout.rotation_ns(0, 0), 0);
        assert_eq!(layout.rotation_ns(3, 1_000_000), 2_000_000);
        assert_eq!(layout.rotation_ns(0, 1), 9_999_999);
        for sector in 0..129 {
            let begins_ns = 123_456_789 + layout.rotation_ns(sector, 123_456_789);
            let extent = Extent { start: sector, end: sector + 2 };
            let both_ns = layout.transfer_ns(extent);
            let second_ns = layout.transfer_ns(Extent { start: sector + 1, ..extent });
            assert_eq!(layout.rotation_ns(sector + 1, begins_ns + both_ns - second_ns), 0);
        }
    }

    #[test]
    fn what_was_reached_is_what_passed() {
        let layout = layout();
        let extent = Extent { start: 5, end: 80 };
        assert_eq!(layout.reached(extent, 0), 5);
        assert_eq!(layout.reached(extent, u64::MAX), 80);
        for end in 6..=80 {
            let passed_ns = layout.transfer_ns(Extent { end, ..extent });
            assert_eq!(layout.reached(extent, passed_ns), end);
            assert_eq!(layout.reached(extent, passed_ns - 1), end - 1);
        }
    }
}
