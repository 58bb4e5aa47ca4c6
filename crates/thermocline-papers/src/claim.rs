//! Claims: what a study's file says, what we measure, and how far that bears it out.

use std::fmt;

use serde::{Deserialize, Serialize};
use thermocline_lab::report::{Cell, Table};

use crate::TextTable;

/// One claim of a study, and what we measure.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// Claim, in our words; where a paper makes it, with the paper's number.
    pub claim: String,
    /// Measured value.
    pub measured: String,
    /// Degree to which the measurement confirms the claim.
    pub verdict: Verdict,
}

/// Degree to which a measurement confirms a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// It holds at 95 % of the points at least, or at the only point.
    Holds,
    /// It holds at 75 % of the points at least.
    Mostly,
    /// It holds at 25 % of the points at least.
    Mixed,
    /// It holds at fewer.
    Fails,
    /// The run cannot decide: it is not the trace that is meant, or shows no difference at all.
    CannotBeJudged,
    /// No trace of the claim was there.
    NotRun,
}

/// A claim as the file of a study has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stated<Judge> {
    /// Claim, in our words. `{name}` stands for a value that the judge fills in.
    pub(crate) says: String,
    /// Rule by which it is judged.
    pub(crate) judge: Judge,
}

/// Measurement for a claim, in words, and the degree to which it confirms the claim.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    words: String,
    verdict: Verdict,
}

impl Verdict {
    /// Create the measurement of a claim that holds at `right` of `points` points.
    fn of_points(right: usize, points: usize) -> Self {
        let percent = right * 100;
        match points {
            0 => Self::CannotBeJudged,
            _ if percent >= 95 * points => Self::Holds,
            _ if percent >= 75 * points => Self::Mostly,
            _ if percent >= 25 * points => Self::Mixed,
            _ => Self::Fails,
        }
    }

    /// Return the verdict in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Mostly => "mostly",
            Self::Mixed => "mixed",
            Self::Fails => "fails",
            Self::CannotBeJudged => "cannot be judged",
            Self::NotRun => "not run",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

impl Measured {
    /// Measure one number, which is right or not.
    pub(crate) fn one(words: impl Into<String>, is_right: bool) -> Self {
        Self::points(words, usize::from(is_right), 1)
    }

    /// Create the measurement of a property that holds at `right` of `points` points.
    pub(crate) fn points(words: impl Into<String>, right: usize, points: usize) -> Self {
        Self { words: words.into(), verdict: Verdict::of_points(right, points) }
    }

    /// Create a measurement that says nothing about the claim.
    pub(crate) fn beside_the_point(words: impl Into<String>) -> Self {
        Self { words: words.into(), verdict: Verdict::CannotBeJudged }
    }
}

impl Claim {
    /// Create a claim with what was measured, if its workload was run.
    pub(crate) fn new(claim: impl Into<String>, measured: Option<Measured>) -> Self {
        let Measured { words, verdict } = measured.unwrap_or_else(|| Measured {
            words: "not run: the trace was not found".into(),
            verdict: Verdict::NotRun,
        });
        Self { claim: claim.into(), measured: words, verdict }
    }
}

impl<Judge> Stated<Judge> {
    /// Return the claim, with values in place of their names in braces.
    pub(crate) fn says(&self, values: &[(&str, &str)]) -> String {
        values.iter().fold(self.says.clone(), |says, (name, value)| {
            says.replace(&format!("{{{name}}}"), value)
        })
    }
}

/// Measure at how many of some points a property holds; `None` if there are no points. `words`
/// formats the number of such points and the number of all.
pub(crate) fn all(
    points: impl IntoIterator<Item = bool>,
    words: impl FnOnce(usize, usize) -> String,
) -> Option<Measured> {
    let (so, count) =
        points.into_iter().fold((0, 0), |(so, count), is_so| (so + usize::from(is_so), count + 1));
    (count > 0).then(|| Measured::points(words(so, count), so, count))
}

/// Return the median, the least and the greatest of some values; `None` if there are none.
pub(crate) fn spread(values: &mut [f64], unit: &str) -> Option<String> {
    let median = median(values)?;
    let [least, most] = [values[0], values[values.len() - 1]];
    Some(format!("median {median:+.1}{unit}, {least:+.1} to {most:+.1}{unit}"))
}

/// Return `true` if a value comes as near to another one as is allowed.
pub(crate) fn is_near(ours: f64, paper: f64, tolerance: f64) -> bool {
    (ours - paper).abs() <= tolerance
}

/// Return the middle one of some values, the upper one of two; `None` if there are none.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Return the mean of some values; `None` if there are none.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Summarise how many of the claims hold, in sentences of which the first is the answer.
pub(crate) fn verdict(claims: &[Claim]) -> Vec<String> {
    let of = |verdict: Verdict| claims.iter().filter(|claim| claim.verdict == verdict).count();
    let told = [Verdict::Holds, Verdict::Mostly, Verdict::Mixed, Verdict::Fails];
    let judged: usize = told.into_iter().map(of).sum();
    let mut sentences = vec![if judged == 0 {
        "No claim could be judged.".to_owned()
    } else {
        let counts = told.map(|verdict| format!("{}: {}", verdict.words(), of(verdict)));
        format!("{judged} claims could be judged ({}).", counts.join(", "))
    }];
    let left = [
        (of(Verdict::CannotBeJudged), "What was run cannot tell of"),
        (of(Verdict::NotRun), "For want of their traces, not run:"),
    ];
    let left = left.into_iter().filter(|(count, _)| *count > 0);
    sentences.extend(left.map(|(count, words)| format!("{words} {count}.")));
    sentences
}

/// Return the claims, what was measured, and the verdicts, for a report.
pub(crate) fn table(claims: &[Claim]) -> Table {
    let row = |claim: &Claim| {
        let words = claim.verdict.words();
        let verdict = match claim.verdict {
            Verdict::Holds | Verdict::Mostly => Cell::verdict(true, words),
            Verdict::Fails => Cell::verdict(false, words),
            Verdict::Mixed | Verdict::CannotBeJudged | Verdict::NotRun => Cell::text(words),
        };
        vec![Cell::text(&claim.claim), Cell::text(&claim.measured), verdict]
    };
    Table {
        header: ["claim", "we measure", "verdict"].map(String::from).to_vec(),
        rows: claims.iter().map(row).collect(),
    }
}

/// Return the same for a terminal.
pub(crate) fn text_table(claims: &[Claim]) -> TextTable {
    let row = |claim: &Claim| {
        vec![claim.claim.clone(), claim.measured.clone(), claim.verdict.to_string()]
    };
    TextTable {
        title: None,
        header: ["claim", "we measure", "verdict"].map(String::from).to_vec(),
        rows: claims.iter().map(row).collect(),
        numbers_from: 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_have_degrees() {
        let of = |right: usize, points: usize| Verdict::of_points(right, points).words();
        assert_eq!([of(1, 1), of(19, 20), of(20, 20)], ["holds"; 3]);
        assert_eq!([of(18, 20), of(3, 4)], ["mostly"; 2]);
        assert_eq!([of(2, 3), of(1, 4)], ["mixed"; 2]);
        assert_eq!([of(0, 1), of(1, 5)], ["fails"; 2]);
        assert_eq!(of(0, 0), "cannot be judged");
        assert_eq!(Claim::new("", None).verdict, Verdict::NotRun);
    }

    #[test]
    fn claims_are_counted_by_their_verdicts() {
        let claim = |verdict| Claim { claim: String::new(), measured: String::new(), verdict };
        let claims = [Verdict::Holds, Verdict::Fails, Verdict::Holds, Verdict::NotRun].map(claim);
        assert_eq!(
            verdict(&claims),
            [
                "3 claims could be judged (holds: 2, mostly: 0, mixed: 0, fails: 1).",
                "For want of their traces, not run: 1.",
            ]
        );
        assert_eq!(verdict(&claims[3..])[0], "No claim could be judged.");
    }

    #[test]
    fn a_spread_has_the_middle_and_both_ends() {
        let words = spread(&mut [3.0, -1.0, 2.0], " %").unwrap();
        assert_eq!(words, "median +2.0 %, -1.0 to +3.0 %");
        assert_eq!(spread(&mut [], ""), None);
    }
}
