//! Character of a trace's workload, for a page that shows a trace before it is replayed.

use thermocline_trace::Popularity;

use super::information::{add_over_time, add_owners, add_values};
use super::miss_ratios::add_reuse;
use super::{Axis, Information, LineChart, Report, Series};
use crate::mrc::ReuseStats;

/// Return the report of one trace's character: over time, how its accesses are spread over its
/// pages, when pages are used again, and whose accesses a recording's are.
pub fn character(
    title: &str,
    found: &Information<'_>,
    popularity: &Popularity,
    reuse: &ReuseStats,
) -> Report {
    let mut report = Report::new(title);
    add_over_time(&mut report, found.footprint);
    report.heading("How popular pages are");
    report.chart(&popularity_chart(popularity));
    add_reuse(&mut report, reuse);
    if reuse.rate < 1.0 {
        report.paragraph(&format!(
            "Distances and times are those of {:.1} % of the pages.",
            reuse.rate * 100.0
        ));
    }
    add_owners(&mut report, found);
    add_values(&mut report, found.figures);
    report
}

fn popularity_chart(popularity: &Popularity) -> LineChart {
    let ranks: Vec<u64> = popularity.points.iter().map(|point| point.pages).collect();
    let shares = popularity.points.iter().map(|point| Some(point.access_share * 100.0));
    LineChart {
        title: "Accesses to the hottest pages".into(),
        x: Axis::counts("the hottest pages", &ranks),
        y_title: "of the accesses, %".into(),
        series: vec![Series { name: "share".into(), values: shares.collect() }],
        emphasised: vec![],
    }
}
