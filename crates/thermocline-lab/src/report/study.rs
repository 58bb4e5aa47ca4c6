//! A study that goes on: what is known of many configurations so far, some of it from samples.

use super::by_size::add_by_size;
use super::comparison::{Column, about_trace, add_figures, add_origin};
use super::{Cell, Options, Report};
use crate::verdict::verdict;
use crate::{Found, Summary};

/// Difference between the hit ratios of estimates and those of the whole trace, where both are
/// known.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Difference {
    /// The greatest difference, in percentage points.
    pub max: f64,
    /// The mean difference, in percentage points.
    pub mean: f64,
    /// Number of configurations that were compared.
    pub points: usize,
}

/// Results of a study so far.
#[derive(Clone, Copy, Debug)]
pub struct Study<'a> {
    /// The runs that there are, by size and then by policy.
    pub summaries: &'a [Summary],
    /// Method by which each of them was computed.
    pub found: &'a [Found],
    /// Lifetime of flash at each of them, in years; empty if none is known.
    pub lifetimes_years: &'a [Option<f64>],
    /// Number of configurations in all.
    pub points: usize,
    /// Error of the samples.
    pub difference: Option<Difference>,
}

impl Difference {
    /// Return the differences of pairs of hit ratios, each from 0 to 1: of a sample, and of the
    /// whole trace. `None` without a pair.
    pub fn of(pairs: impl IntoIterator<Item = [f64; 2]>) -> Option<Self> {
        let differences = pairs.into_iter().map(|[sampled, exact]| (sampled - exact).abs() * 100.0);
        let (mut points, mut sum, mut max) = (0, 0.0, 0.0_f64);
        for difference in differences {
            points += 1;
            sum += difference;
            max = max.max(difference);
        }
        (points > 0).then(|| Self { max, mean: sum / points as f64, points })
    }
}

/// Builds the report of a study: that of a comparison, which says what is still missing and what is from
/// samples.
pub fn study(study: &Study<'_>, options: &Options) -> Report {
    let summaries = study.summaries;
    let mut report = Report::new(&options.title);
    report.answer(&verdict(summaries));
    if let Some(progress) = progress(study) {
        report.paragraph(&progress);
    }
    let Some(first) = summaries.first() else { return report };
    report.paragraph(&about_trace(first));
    report.heading("By size");
    add_by_size(&mut report, summaries);
    add_figures(&mut report, summaries, &columns(study));
    add_origin(&mut report, summaries, options);
    report
}

/// Describe the replayed part of the trace.
fn in_words(found: Found) -> String {
    match found {
        Found::Exact => "all accesses".into(),
        Found::Sampled { rate } => format!("1 in {:.0} pages", 1.0 / rate),
        Found::Beginning { share } => format!("the first {:.1} % of accesses", share * 100.0),
    }
}

/// Describe the missing results and those from samples, in sentences; `None` if all is exact.
fn progress(study: &Study<'_>) -> Option<String> {
    let exact = study.found.iter().filter(|found| **found == Found::Exact).count();
    let mut sentences = vec![];
    let (known, points) = (study.found.len(), study.points);
    if exact < points {
        sentences.push(format!(
            "Of {points} configurations, {exact} are exact, {} are estimates from {}, and {} are missing.",
            known - exact,
            origins(study.found),
            points - known
        ));
    }
    if let Some(Difference { max, mean, points }) = study.difference {
        sentences.push(format!(
            "Where both are known ({points}), hit ratios of estimates differ from exact ones by {mean:.2} percentage points in the mean and {max:.2} at most."
        ));
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// Return the basis of the estimates, in words.
fn origins(found: &[Found]) -> &'static str {
    let has = |is_such: fn(&Found) -> bool| found.iter().any(is_such);
    match [
        has(|found| matches!(found, Found::Sampled { .. })),
        has(|found| matches!(found, Found::Beginning { .. })),
    ] {
        [true, true] => "samples of the pages or the beginning of the trace",
        [false, true] => "the beginning of the trace",
        [_, false] => "samples of the pages",
    }
}

/// Return the columns that a comparison does not have.
fn columns(study: &Study<'_>) -> Vec<Column> {
    let mut columns = vec![];
    if study.lifetimes_years.iter().any(Option::is_some) {
        let cell = |years: &Option<f64>| match years {
            Some(years) => Cell::number(format!("{years:.1}")).with_value(*years),
            None => Cell::number("-"),
        };
        columns.push(Column {
            title: "Flash lasts (years)".into(),
            meaning: "the writes that flash endures, divided by those of the run in the time of the trace",
            cells: study.lifetimes_years.iter().map(cell).collect(),
        });
    }
    if study.found.iter().any(|found| *found != Found::Exact) {
        columns.push(Column {
            title: "from".into(),
            meaning: "what was replayed: the whole trace, a sample of its pages through a cache that is smaller by the same rate, or its first accesses, of which a quarter is not counted",
            cells: study.found.iter().map(|found| Cell::text(in_words(*found))).collect(),
        });
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::summary;

    fn html(found: &[Found], points: usize, difference: Option<Difference>) -> String {
        let summaries = [summary("hat", 20, 600.0), summary("tac", 20, 800.0)];
        let summaries = &summaries[..found.len()];
        let lifetimes_years = &[Some(2.25), None][..found.len()];
        let study_of = Study { summaries, found, lifetimes_years, points, difference };
        let options = Options { title: "T".into(), command: "c".into(), version: "v".into() };
        study(&study_of, &options).to_fragment()
    }

    #[test]
    fn what_is_missing_and_what_is_from_samples_is_said() {
        let sampled = Found::Sampled { rate: 0.0625 };
        let difference = Difference::of([[0.5, 0.52], [0.75, 0.75]]);
        let all = html(&[sampled, Found::Exact], 3, difference);
        let said = "Of 3 configurations, 1 are exact, 1 are estimates from samples of the pages, and 1 are missing. Where both are known (2), hit ratios of estimates differ from exact ones by 1.00 percentage points in the mean and 2.00 at most.";
        assert!(all.contains(said), "{all}");
        for part in ["<td>1 in 16 pages</td>", "<td>all accesses</td>", "data-value=\"2.25\">2.2<"]
        {
            assert!(all.contains(part), "{part}: {all}");
        }
        let beginning = html(&[Found::Beginning { share: 0.0524 }, Found::Exact], 2, None);
        for part in ["1 are estimates from the beginning of the trace", "first 5.2 % of accesses<"]
        {
            assert!(beginning.contains(part), "{part}: {beginning}");
        }
        let exact = html(&[Found::Exact, Found::Exact], 2, None);
        assert!(!exact.contains("Of 2") && !exact.contains(">from<"), "{exact}");
        let nothing = html(&[], 4, None);
        assert!(nothing.contains("0 are exact") && !nothing.contains("<figure"), "{nothing}");
        assert_eq!(Difference::of([]), None);
    }
}
