//! Claims: what a paper says, what we measure, and whether that confirms it.

use serde::{Deserialize, Serialize};
use thermocline_lab::report::{Cell, Table};

use crate::TextTable;

/// One claim of a paper, and what we measure.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// What the paper claims, in our words.
    pub claim: String,
    /// What we measure.
    pub measured: String,
    /// Whether that confirms it; none if the workload was not run.
    pub is_confirmed: Option<bool>,
}

/// A claim as the file of a paper has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stated<Judge> {
    /// What the paper says, in our words. `{name}` stands for a value that the judge fills in.
    pub(crate) says: String,
    /// How it is judged.
    pub(crate) judge: Judge,
}

/// What was measured for a claim, in words, and whether that confirms it.
pub(crate) type Measured = (String, bool);

impl Claim {
    /// A claim with what was measured, if its workload was run.
    pub(crate) fn new(claim: impl Into<String>, measured: Option<Measured>) -> Self {
        let (measured, is_confirmed) = match measured {
            Some((measured, is_confirmed)) => (measured, Some(is_confirmed)),
            None => ("not run: the trace was not found".into(), None),
        };
        Self { claim: claim.into(), measured, is_confirmed }
    }

    /// The verdict in words.
    pub fn verdict(&self) -> &'static str {
        match self.is_confirmed {
            Some(true) => "confirmed",
            Some(false) => "not confirmed",
            None => "not run",
        }
    }
}

impl<Judge> Stated<Judge> {
    /// What the paper says, with values in place of their names in braces.
    pub(crate) fn says(&self, values: &[(&str, &str)]) -> String {
        values.iter().fold(self.says.clone(), |says, (name, value)| {
            says.replace(&format!("{{{name}}}"), value)
        })
    }
}

/// That all of some points are so; none if there are no points. `words` makes words of how many are
/// so, and how many there are.
pub(crate) fn all(
    points: impl IntoIterator<Item = bool>,
    words: impl FnOnce(usize, usize) -> String,
) -> Option<Measured> {
    let (so, count) =
        points.into_iter().fold((0, 0), |(so, count), is_so| (so + usize::from(is_so), count + 1));
    (count > 0).then(|| (words(so, count), so == count))
}

/// Whether a value comes as near to another one as is allowed.
pub(crate) fn is_near(ours: f64, paper: f64, tolerance: f64) -> bool {
    (ours - paper).abs() <= tolerance
}

/// The middle one of some values, the upper one of two; none if there are none.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The mean of some values; none if there are none.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The claims, what was measured, and the verdicts, for a report.
pub(crate) fn table(claims: &[Claim]) -> Table {
    let row = |claim: &Claim| {
        let verdict = claim.is_confirmed.map_or_else(
            || Cell::text(claim.verdict()),
            |is_confirmed| Cell::verdict(is_confirmed, claim.verdict()),
        );
        vec![Cell::text(&claim.claim), Cell::text(&claim.measured), verdict]
    };
    Table {
        header: ["the paper claims", "we measure", "verdict"].map(String::from).to_vec(),
        rows: claims.iter().map(row).collect(),
    }
}

/// The same for a terminal.
pub(crate) fn text_table(claims: &[Claim]) -> TextTable {
    let row = |claim: &Claim| {
        vec![claim.claim.clone(), claim.measured.clone(), claim.verdict().to_owned()]
    };
    TextTable {
        title: None,
        header: ["the paper's claim", "what we measure", "verdict"].map(String::from).to_vec(),
        rows: claims.iter().map(row).collect(),
        numbers_from: 3,
    }
}
