//! Judges of the statements about shipped and published caches.

use serde::Deserialize;

use super::cases::{Case, Standing, cases, simulated, standings};
use super::{Camp, Point, WorkloadResult};
use crate::claim::{Claim, Measured, Stated, spread};

/// Rule by which a claim is judged.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Judge {
    /// Compare, in each case, the fastest of some camps with the fastest of others.
    Fastest {
        of: Vec<Camp>,
        than: Vec<Camp>,
        /// `true` if time is that of simulated devices.
        #[serde(default)]
        simulated: bool,
        #[serde(default)]
        by: By,
    },
    /// The one cache of some camps that is fastest in the mean over all cases, against that of others.
    Steady { of: Vec<Camp>, than: Vec<Camp> },
    /// Each cache of some camps against one cache, in every case.
    Each { of: Vec<Camp>, than: String },
    /// One cache against another in every case. It must save more than this share.
    Pair {
        of: String,
        than: String,
        #[serde(default)]
        by: By,
        #[serde(default)]
        more_than_percent: f64,
    },
}

/// Figure that is compared; less is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    #[default]
    Time,
    FlashWrites,
}

pub(super) fn judge(stated: &Stated<Judge>, results: &[WorkloadResult]) -> Claim {
    let is_simulated = matches!(stated.judge, Judge::Fastest { simulated: true, .. });
    let cases = if is_simulated { simulated(results) } else { cases(results) };
    let measured = match &stated.judge {
        Judge::Fastest { of, than, by, .. } => saves(
            *by,
            0.0,
            cases.iter().filter_map(|case| Some([case.fastest(of)?, case.fastest(than)?])),
        ),
        Judge::Steady { of, than } => steady(&cases, of, than),
        Judge::Each { of, than } => {
            let pairs = cases.iter().flat_map(|&case| {
                let rival = case.of(than);
                case.camps(of).filter_map(move |point| Some([point, rival?]))
            });
            saves(By::Time, 0.0, pairs)
        }
        Judge::Pair { of, than, by, more_than_percent } => {
            let pairs = cases.iter().filter_map(|case| Some([case.of(of)?, case.of(than)?]));
            saves(*by, *more_than_percent, pairs)
        }
    };
    Claim::new(stated.says(&[]), measured)
}

impl By {
    fn figure(self, point: &Point) -> f64 {
        match self {
            Self::Time => point.seconds(),
            Self::FlashWrites => point.flash_bytes() as f64,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Time => "less time",
            Self::FlashWrites => "fewer flash writes",
        }
    }
}

/// Measure in how many pairs the first point saves more than a share against the second, and the
/// amount. A pair whose second point has nothing to save is left out.
fn saves<'a>(
    by: By,
    more_than_percent: f64,
    pairs: impl Iterator<Item = [&'a Point; 2]>,
) -> Option<Measured> {
    let figures: Vec<[f64; 2]> = pairs.map(|pair| pair.map(|point| by.figure(point))).collect();
    if figures.is_empty() {
        return None;
    }
    let of_something = figures.iter().filter(|[_, than]| *than > 0.0);
    let mut savings: Vec<f64> = of_something.map(|[of, than]| (1.0 - of / than) * 100.0).collect();
    let Some(spread) = spread(&mut savings, " %") else {
        return Some(Measured::beside_the_point("there is nothing to save in any case"));
    };
    let right = savings.iter().filter(|&&saving| saving > more_than_percent).count();
    let words = match more_than_percent {
        0.0 => by.words().to_owned(),
        percent => format!("{} by more than {percent} %", by.words()),
    };
    let points = savings.len();
    Some(Measured::points(
        format!("{words} in {right} of {points} cases; saves {spread}"),
        right,
        points,
    ))
}

/// Return the means of the steadiest caches of both sides.
fn steady(cases: &[Case<'_>], of: &[Camp], than: &[Camp]) -> Option<Measured> {
    let standings = standings(cases);
    let steadiest = |camps: &[Camp]| {
        let own = standings.iter().filter(|standing| camps.contains(&standing.camp));
        own.min_by(|one, other| one.mean().total_cmp(&other.mean()))
    };
    let words = |standing: &Standing<'_>| {
        let (mean, (case, worst)) = (standing.mean(), standing.worst());
        format!("{} {mean:.2}, at worst {worst:.2} ({})", standing.label, case.words())
    };
    let (of, than) = (steadiest(of)?, steadiest(than)?);
    let words = format!("times the least I/O time of each case: {}; {}", words(of), words(than));
    Some(Measured::one(words, of.mean() < than.mean()))
}
