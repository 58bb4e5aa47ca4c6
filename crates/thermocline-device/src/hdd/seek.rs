//! The seek curve: how long the arm takes over a distance, from three figures of a data sheet.
//!
//! Short seeks are spent accelerating, so they take `a + b * sqrt(d)`; long ones coast, so they take
//! `c + e * d`. The pieces meet at a third of the stroke. The curve passes through the single-track
//! and the full-stroke time, and its height where the pieces meet is the one that makes the mean
//! over all pairs of different cylinders the average of the data sheet.
//!
//! * Source: Ruemmler and Wilkes, *An introduction to disk drive modeling*, IEEE Computer 27(3),
//!   1994, for the two pieces; the mean over all pairs is how drive makers define their average
//!   (Hitachi Deskstar and Travelstar specifications, section "Mechanical positioning").
//! * State: 48 bytes.
//! * Cost: O(1) per seek, one square root; fitting is O(cylinders), once per disk.
//! * Deviations: (1) the same curve inward and outward, since data sheets give one figure.

use super::units::round_ns;

/// Nanoseconds that the arm takes over a number of cylinders.
#[derive(Clone, Debug)]
pub(crate) struct SeekCurve {
    /// The distance in cylinders at which the pieces meet.
    knee: u64,
    /// `a`, `b` of the short piece and `c`, `e` of the long one, in nanoseconds.
    short: (f64, f64),
    long: (f64, f64),
}

/// Figures of a data sheet about the arm, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeekFigures {
    pub(crate) cylinders: u64,
    pub(crate) single_ns: f64,
    pub(crate) average_ns: f64,
    pub(crate) full_ns: f64,
}

impl SeekCurve {
    /// Fits the curve; `cylinders` must be at least 4, and `single_ns <= full_ns`.
    ///
    /// # Errors
    /// If no rising curve can have `average_ns`; the error is the lowest and highest value that one
    /// through the other figures can have.
    pub(crate) fn fit(figures: SeekFigures) -> Result<Self, (f64, f64)> {
        let SeekFigures { cylinders, single_ns, average_ns, full_ns } = figures;
        assert!(cylinders >= 4, "both pieces need room");
        let stroke = cylinders - 1;
        let knee = (cylinders / 3).max(2);
        let knee_root = libm::sqrt(knee as f64);
        // The mean is `fixed + slope * height`, where height is the time at the knee: collect both
        // over all distances, each weighted with the share of pairs that are that far apart.
        let pairs = cylinders as f64 * stroke as f64;
        let (mut fixed, mut slope) = (0.0, 0.0);
        for distance in 1..=stroke {
            // Of all ordered pairs of different cylinders, 2 (C - d) are d apart.
            let weight = 2.0 * (cylinders - distance) as f64 / pairs;
            if distance <= knee {
                let share = (libm::sqrt(distance as f64) - 1.0) / (knee_root - 1.0);
                fixed += weight * single_ns * (1.0 - share);
                slope += weight * share;
            } else {
                let share = (distance - knee) as f64 / (stroke - knee) as f64;
                fixed += weight * full_ns * share;
                slope += weight * (1.0 - share);
            }
        }
        let height = (average_ns - fixed) / slope;
        // Rounding of the sums must not refuse a curve that is flat.
        let slack_ns = 1.0;
        if !(height >= single_ns - slack_ns && height <= full_ns + slack_ns) {
            return Err((fixed + slope * single_ns, fixed + slope * full_ns));
        }
        // Both pieces go through the height at the knee; this one also through the single-track
        // time at d = 1.
        let b = (height - single_ns) / (knee_root - 1.0);
        let e = (full_ns - height) / (stroke - knee) as f64;
        Ok(Self { knee, short: (single_ns - b, b), long: (height - e * knee as f64, e) })
    }

    /// Return the time over `distance` cylinders, in nanoseconds; none for no distance.
    pub(crate) fn seek_ns(&self, distance: u64) -> u64 {
        if distance == 0 {
            return 0;
        }
        let far = distance as f64;
        if distance <= self.knee {
            round_ns(self.short.0 + self.short.1 * libm::sqrt(far))
        } else {
            round_ns(self.long.0 + self.long.1 * far)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(cylinders: u64, single: f64, average: f64, full: f64) -> SeekFigures {
        let [single_ns, average_ns, full_ns] = [single, average, full].map(|ms| ms * 1e6);
        SeekFigures { cylinders, single_ns, average_ns, full_ns }
    }

    /// Return the mean over every ordered pair of different cylinders, pair by pair.
    fn mean_of_all_pairs_ms(curve: &SeekCurve, cylinders: u64) -> f64 {
        let mut total_ns = 0_u128;
        for from in 0..cylinders {
            for to in 0..cylinders {
                total_ns += u128::from(curve.seek_ns(from.abs_diff(to)));
            }
        }
        total_ns as f64 / (cylinders * (cylinders - 1)) as f64 / 1e6
    }

    #[test]
    fn the_curve_keeps_all_three_figures_of_the_data_sheet() {
        for (cylinders, single, average, full) in
            [(4, 1.0, 1.5, 2.0), (37, 0.5, 3.0, 6.0), (1500, 1.0, 8.5, 15.5), (900, 0.8, 5.5, 10.6)]
        {
            let curve = SeekCurve::fit(figures(cylinders, single, average, full)).unwrap();
            let close = |ns: u64, ms: f64| (ns as f64 / 1e6 - ms).abs() < 1e-5;
            assert!(close(curve.seek_ns(1), single) && close(curve.seek_ns(cylinders - 1), full));
            let mean = mean_of_all_pairs_ms(&curve, cylinders);
            assert!((mean - average).abs() < 1e-5, "{cylinders} cylinders: {mean} not {average}");
        }
    }

    #[test]
    fn farther_never_takes_less_and_the_pieces_meet() {
        let curve = SeekCurve::fit(figures(74_752, 1.0, 8.5, 15.5)).unwrap();
        let times: Vec<u64> = (0..74_752).map(|distance| curve.seek_ns(distance)).collect();
        assert!(times.is_sorted());
        let longest_step = times.windows(2).skip(1).map(|pair| pair[1] - pair[0]).max();
        assert!(longest_step < Some(50_000), "{longest_step:?}");
    }

    #[test]
    fn an_average_out_of_reach_is_refused_with_the_reach() {
        for average in [0.9, 16.0] {
            let (least, most) = SeekCurve::fit(figures(1000, 1.0, average, 15.5)).unwrap_err();
            assert!(least > 1e6 && most < 15.5e6 && least < most);
            for reachable in [least, most] {
                let figures =
                    SeekFigures { average_ns: reachable, ..figures(1000, 1.0, 0.0, 15.5) };
                assert!(SeekCurve::fit(figures).is_ok());
            }
        }
        assert!(SeekCurve::fit(figures(1000, 2.0, 2.0, 2.0)).is_ok(), "a flat curve is a curve");
    }
}
