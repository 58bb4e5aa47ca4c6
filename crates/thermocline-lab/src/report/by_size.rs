//! The charts of a comparison: figures over sizes, I/O time against flash writes, and RAM by flash.

use super::chart::{share_colours, share_y};
use super::{
    Axis, BarChart, Chart, Drawn as _, Figure, HeatMap, LineChart, Point, Report, ScatterChart,
    Series,
};
use crate::metric::{
    Metric, by_sizes, byte_size, capacities, columns, flash, leading, sizes_in_bytes,
};
use crate::{Summary, TierSummary};

/// Number of policies that are emphasised: those that are best at the greatest sizes.
const EMPHASISED: usize = 5;

/// Adds the charts that the runs have figures for.
pub(super) fn add_by_size(report: &mut Report, summaries: &[Summary]) {
    let ladders = ladders(summaries);
    let emphasised = best(summaries);
    let choices = columns(summaries).into_iter().filter_map(|metric| {
        let charts = ladders.iter().filter_map(|ladder| ladder.chart(&metric, &emphasised));
        let mut charts: Vec<Chart> = charts.collect();
        share_y(&mut charts);
        (!charts.is_empty()).then(|| (format!("{} ({})", metric.title, metric.unit), charts))
    });
    let of = ladders.first().map_or("size", |ladder| &ladder.of);
    let title = format!("Figures over {of}");
    report.figure(Figure { title, choices: choices.collect() });
    add_trade_off(report, summaries);
    add_maps(report, summaries, &emphasised);
}

/// Return the policies that are best at the greatest sizes, the best first; none if all may stand
/// out.
fn best(summaries: &[Summary]) -> Vec<String> {
    let groups = by_sizes(summaries);
    let total = |group: &&Vec<&Summary>| capacities(group[0]).iter().sum::<u64>();
    let Some(mut runs) = groups.iter().max_by_key(total).cloned() else { return vec![] };
    if runs.len() <= EMPHASISED + 1 {
        return vec![];
    }
    let metric = leading(&runs[0].tiers);
    let figure = |run: &Summary| metric.value(run).unwrap_or(f64::INFINITY);
    runs.sort_by(|one, other| figure(one).total_cmp(&figure(other)));
    runs.into_iter().take(EMPHASISED).map(|run| run.policy.name.clone()).collect()
}

/// Adds the policies by what they need and what they write to flash, for each pair of sizes.
fn add_trade_off(report: &mut Report, summaries: &[Summary]) {
    let choices = by_sizes(summaries).into_iter().filter_map(|group| {
        let metric = leading(&group[0].tiers);
        let point = |run: &&Summary| {
            let written = flash(run)?.page_writes * run.trace.page_size_bytes;
            let mib = written as f64 / f64::from(1 << 20);
            Some(Point { name: run.policy.name.clone(), x: metric.value(run)?, y: mib })
        };
        let points: Vec<Point> = group.iter().filter_map(point).collect();
        let is_trade_off = points.len() > 1 && points.iter().any(|point| point.y > 0.0);
        let chart = ScatterChart {
            title: format!("{} against flash writes: {}", metric.title, sizes_in_bytes(group[0])),
            x_title: format!("{} ({})", metric.title, metric.unit),
            y_title: "written to flash (MiB)".into(),
            points,
        };
        is_trade_off.then(|| (sizes_in_bytes(group[0]), vec![chart.chart()]))
    });
    let title =
        "I/O time and flash writes; a line joins the policies that no other one beats in both";
    report.figure(Figure { title: title.into(), choices: choices.collect() });
}

/// Adds the figure that ranks policies by the sizes of both caches, for those that stand out.
fn add_maps(report: &mut Report, summaries: &[Summary], emphasised: &[String]) {
    let Some(first) = summaries.first() else { return };
    let names: Vec<&str> = caches(first).map(|tier| tier.name.as_str()).collect();
    let [across, down] = [1, 0].map(|tier| {
        let mut pages: Vec<u64> =
            summaries.iter().filter_map(|run| capacities(run).get(tier).copied()).collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    });
    let sizes = by_sizes(summaries).len();
    if names.len() != 2 || across.len() < 2 || down.len() < 2 || sizes < across.len() * 2 {
        return;
    }
    let metric = leading(&first.tiers);
    let bytes = |pages: &u64| byte_size(pages * first.trace.page_size_bytes);
    let map = |policy: &&str| {
        let value = |row: u64, column: u64| {
            let is_it =
                |run: &&Summary| run.policy.name == *policy && capacities(run) == [row, column];
            summaries.iter().find(is_it).and_then(|run| metric.value(run))
        };
        let chart = HeatMap {
            title: format!("{} of {policy} ({})", metric.title, metric.unit),
            x_title: names[1].into(),
            x_labels: across.iter().map(bytes).collect(),
            y_title: names[0].into(),
            y_labels: down.iter().map(bytes).collect(),
            values: down
                .iter()
                .map(|&row| across.iter().map(|&column| value(row, column)).collect())
                .collect(),
        };
        ((*policy).to_owned(), vec![chart.chart()])
    };
    let all = policies(summaries.iter());
    let shown = all
        .iter()
        .filter(|policy| emphasised.is_empty() || emphasised.iter().any(|best| best == *policy));
    let mut choices: Vec<(String, Vec<Chart>)> = shown.map(map).collect();
    share_colours(choices.iter_mut().flat_map(|(_, charts)| charts));
    report.figure(Figure { title: format!("{} by both sizes", metric.title), choices });
}

/// Runs over sizes that a chart can show side by side.
struct Ladder<'a> {
    /// The size that they have in common, if others have another.
    common: Option<String>,
    /// Item whose sizes these are.
    of: String,
    /// The runs, each with the sizes of these tiers.
    runs: Vec<(Vec<u64>, &'a Summary)>,
}

impl Ladder<'_> {
    /// Return a chart of one metric: lines over sizes, or bars if there is one size; `None` if no
    /// run has it.
    fn chart(&self, metric: &Metric, emphasised: &[String]) -> Option<Chart> {
        let mut sizes: Vec<&[u64]> = self.runs.iter().map(|(size, _)| size.as_slice()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let total = |size: &[u64]| size.iter().sum::<u64>();
        sizes.sort_by_key(|size| total(size));
        let policies = policies(self.runs.iter().map(|(_, summary)| *summary));
        let value = |policy: &str, size: &[u64]| {
            let mut runs = self.runs.iter();
            let run = runs.find(|(own, summary)| own == size && summary.policy.name == policy);
            run.and_then(|(_, summary)| metric.value(summary)).filter(|value| value.is_finite())
        };
        let unit = format!("{} ({})", metric.title, metric.unit);
        let common = self.common.as_deref();
        let title = |title: String| common.map_or(title.clone(), |size| format!("{title}, {size}"));
        let name = common.unwrap_or(&metric.title).to_owned();
        if let [] | [_] = sizes[..] {
            let size = sizes.first().copied().unwrap_or_default();
            let bar = |policy: &&str| Some(((*policy).to_owned(), value(policy, size)?));
            let mut bars: Vec<_> = policies.iter().filter_map(bar).collect();
            bars.sort_by(|(_, one), (_, other)| {
                let order = one.total_cmp(other);
                if metric.is_more_better { order.reverse() } else { order }
            });
            let chart = BarChart { title: title(metric.title.to_string()), x_title: unit, bars };
            return (!chart.bars.is_empty()).then(|| chart.chart().named(name));
        }
        let page_size_bytes = self.runs.first().map_or(0, |(_, one)| one.trace.page_size_bytes);
        let bytes: Vec<u64> = sizes.iter().map(|size| total(size) * page_size_bytes).collect();
        let series = policies.iter().map(|policy| Series {
            name: (*policy).into(),
            values: sizes.iter().map(|size| value(policy, size)).collect(),
        });
        let chart = LineChart {
            title: title(format!("{} over {} size", metric.title, self.of)),
            x: Axis::sizes(&self.of, &bytes),
            y_title: unit,
            series: series.collect(),
            emphasised: emphasised.to_vec(),
        };
        let has_value = chart.series.iter().flat_map(|series| &series.values).any(Option::is_some);
        has_value.then(|| chart.chart().named(name))
    }
}

/// Return the policies in the order in which they come.
fn policies<'a>(runs: impl Iterator<Item = &'a Summary>) -> Vec<&'a str> {
    let mut policies: Vec<&str> = vec![];
    for run in runs {
        if !policies.contains(&run.policy.name.as_str()) {
            policies.push(&run.policy.name);
        }
    }
    policies
}

/// Return the runs by the size of their first tier, over the sizes of the others; or all of them
/// over all sizes, if the first tier's size tells the others'.
fn ladders(summaries: &[Summary]) -> Vec<Ladder<'_>> {
    let Some(first) = summaries.first() else { return vec![] };
    let names: Vec<&str> = caches(first).map(|tier| tier.name.as_str()).collect();
    let mut first_pages: Vec<u64> = vec![];
    for summary in summaries {
        let pages = capacities(summary).first().copied().unwrap_or(0);
        if !first_pages.contains(&pages) {
            first_pages.push(pages);
        }
    }
    if first_pages.len() == by_sizes(summaries).len() {
        let of = if let [only] = names.as_slice() { (*only).into() } else { "cache".into() };
        let runs = summaries.iter().map(|summary| (capacities(summary), summary)).collect();
        return vec![Ladder { common: None, of, runs }];
    }
    let of = match &names[1..] {
        [only] => (*only).to_owned(),
        [second, .., last] => format!("{second} to {last}"),
        [] => String::new(),
    };
    let several = first_pages.len() > 1;
    let ladder = |pages: u64| {
        let in_first = if names[0] == "ram" { "of RAM".into() } else { format!("in {}", names[0]) };
        let bytes = byte_size(pages * first.trace.page_size_bytes);
        let with_sizes = summaries.iter().map(|summary| (capacities(summary), summary));
        let runs = with_sizes.filter(|(sizes, _)| sizes.first() == Some(&pages));
        Ladder {
            common: several.then(|| format!("{bytes} {in_first}")),
            of: of.clone(),
            runs: runs.map(|(sizes, summary)| (sizes[1..].to_vec(), summary)).collect(),
        }
    };
    first_pages.into_iter().map(ladder).collect()
}

fn caches(summary: &Summary) -> impl Iterator<Item = &TierSummary> {
    summary.tiers.iter().filter(|tier| tier.capacity_pages.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::summary;

    fn charts(summaries: &[Summary]) -> Vec<String> {
        let mut report = Report::new("t");
        add_by_size(&mut report, summaries);
        report.charts().into_iter().map(|(_, chart)| chart.title().to_owned()).collect()
    }

    fn large(mut run: Summary) -> Summary {
        run.tiers[0].capacity_pages = Some(1000);
        run
    }

    #[test]
    fn of_many_policies_the_best_stand_out() {
        let run = |(place, policy): (usize, &&str)| summary(policy, 20, 100.0 - place as f64);
        let few = ["lru", "hat", "lc"];
        assert!(best(&few.iter().enumerate().map(run).collect::<Vec<_>>()).is_empty());
        let many = ["lru", "hat", "lc", "tac", "arc", "lfu", "clock"];
        let runs: Vec<Summary> = many.iter().enumerate().map(run).collect();
        assert_eq!(best(&runs), ["clock", "lfu", "arc", "tac", "lc"]);
    }

    #[test]
    fn sizes_of_ram_stand_side_by_side_on_one_scale_and_make_a_map() {
        let at = |flash: u64, ms: f64| {
            [summary("hat", flash, ms), large(summary("hat", flash, ms / 9.0))]
        };
        let runs = [at(20, 9000.0), at(40, 5000.0)].concat();
        let mut report = Report::new("t");
        add_by_size(&mut report, &runs);
        let titles = charts(&runs);
        for title in [
            "Total I/O time over flash size, 40 KiB of RAM",
            "Total I/O time over flash size, 3.9 MiB of RAM",
            "Total I/O time of hat (s)",
        ] {
            assert!(titles.iter().any(|it| it == title), "{titles:?}");
        }
        let charts = report.charts();
        let domain = |title: &str| {
            let (_, chart) = charts.iter().find(|(_, chart)| chart.title() == title).unwrap();
            chart.vega_lite()["layer"][0]["encoding"]["y"]["scale"]["domain"].clone()
        };
        assert_eq!(domain(&titles[0]), domain(&titles[1]));
    }

    #[test]
    fn what_is_written_to_flash_is_set_against_time() {
        let written = |policy: &str, ms: f64, pages: u64| {
            let mut run = summary(policy, 20, ms);
            run.tiers[1].page_writes = pages;
            run
        };
        let titles = charts(&[written("hat", 100.0, 300), written("lc", 200.0, 100)]);
        let title = "Total I/O time against flash writes: RAM 40 KiB, flash 80 KiB";
        assert!(titles.iter().any(|it| it == title), "{titles:?}");
        let titles = charts(&[written("lru", 100.0, 0), written("arc", 200.0, 0)]);
        assert!(!titles.iter().any(|it| it.contains("against")), "{titles:?}");
    }
}
