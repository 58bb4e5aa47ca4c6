//! The report of a corpus: distributions, ranks and intervals over traces.

use super::{BoxChart, Cell, Distribution, Options, RankDiagram, Report, Table};
use crate::corpus::statistics::Estimate;
use crate::corpus::{DatasetStatistics, Filtered, Filters, PolicyStatistics, Section, Study};

/// Return the report of a study.
pub fn corpus(study: &Study, options: &Options) -> Report {
    let mut report = Report::new(&options.title);
    report.paragraph(&introduction(study));
    for section in &study.sections {
        let Section { size, metric_words, baseline, kind, .. } = section;
        let kind = if kind == "buffer" { ", write buffers" } else { "" };
        report.heading(&format!("Reduction of {metric_words} against {baseline}, {size}{kind}"));
        report.paragraph(&left_out(&section.filtered, section.is_sampled));
        let Some(last) = section.datasets.last() else { continue };
        charts(&mut report, section, last);
        for dataset in section.datasets.iter().rev() {
            report.paragraph(&heading_of(dataset));
            report.table(table(dataset));
        }
    }
    report.heading("How to make this report again");
    report.code(&options.command);
    report.paragraph(&options.version);
    report
}

fn introduction(study: &Study) -> String {
    let Filters { min_entries, distinct_sizes, saturated } = study.filters;
    let mut left_out = vec![];
    if distinct_sizes {
        left_out.push("traces of which two sizes have the same number of pages".to_owned());
    }
    if min_entries > 0 {
        left_out.push(format!("traces with a tier of fewer than {min_entries} pages"));
    }
    if saturated {
        left_out.push(
            "traces on which the baseline misses only first uses, everything or nothing".to_owned(),
        );
    }
    left_out.push("traces that lack the result of a policy".to_owned());
    let split = study.split.as_ref().map_or_else(String::new, |split| {
        format!(" Only traces of the side `{split}` of the split are taken.")
    });
    format!(
        "The reduction on one trace is (f - m) / f if a policy has less than the baseline, and -(m - f) / m if it has more; in percent. Left out, in this order: {}.{split} Policies tie if their reductions differ by at most {} %. Intervals are 95 %, of {} resamples of the traces within each data set, seed {}; fewer than five traces have none.",
        left_out.join("; "),
        study.tie * 100.0,
        study.resamples,
        study.seed
    )
}

fn left_out(filtered: &Filtered, is_sampled: bool) -> String {
    let Filtered { traces, same_sizes, too_small, saturated, incomplete, left } = *filtered;
    let sampled = if is_sampled {
        " Some results are of samples: run without --sample for exact ones."
    } else {
        ""
    };
    format!(
        "{left} of {traces} traces; left out: {same_sizes} with equal sizes, {too_small} too small, {saturated} saturated, {incomplete} incomplete.{sampled}"
    )
}

fn heading_of(dataset: &DatasetStatistics) -> String {
    let DatasetStatistics { dataset, traces, friedman, critical_difference, .. } = dataset;
    let name =
        if dataset == "all" { "All data sets".into() } else { format!("Data set {dataset}") };
    let ranks = friedman.as_ref().zip(*critical_difference).map(|(friedman, difference)| {
        format!(
            "; Friedman p = {:.2e}, critical difference of mean ranks {difference:.2}",
            friedman.p_value
        )
    });
    format!("{name}: {traces} traces{}.", ranks.unwrap_or_default())
}

fn charts(report: &mut Report, section: &Section, dataset: &DatasetStatistics) {
    let percent = |share: f64| share * 100.0;
    let one = |policy: &PolicyStatistics| Distribution {
        name: policy.policy.clone(),
        percentiles: [policy.p10, policy.p25, policy.p50, policy.p75, policy.p90].map(percent),
        mean: percent(policy.mean),
    };
    report.chart(&BoxChart {
        title: format!("P10 to P90 over {} traces", dataset.traces),
        x_title: format!("{} fewer than {}, %", section.metric_words, section.baseline),
        boxes: dataset.policies.iter().map(one).collect(),
    });
    let Some(critical_difference) = dataset.critical_difference else { return };
    report.chart(&RankDiagram {
        title: "Mean ranks; bars join policies that do not differ (Nemenyi, 5 %)".into(),
        ranks: dataset.policies.iter().map(|one| (one.policy.clone(), one.mean_rank)).collect(),
        critical_difference,
    });
}

fn table(dataset: &DatasetStatistics) -> Table {
    let header = [
        "policy",
        "P10, %",
        "P25, %",
        "P50, %",
        "P75, %",
        "P90, %",
        "mean, %",
        "interval, %",
        "worst, %",
        "worst trace",
        "worse on, %",
        "win/tie/loss",
        "mean rank",
        "best minus this, %",
        "p (Holm)",
    ];
    let percent = |share: f64| format!("{:.2}", share * 100.0);
    let interval = |estimate: Option<Estimate>| {
        estimate.map_or_else(
            || "-".to_owned(),
            |one| format!("{:.2} to {:.2}", one.low * 100.0, one.high * 100.0),
        )
    };
    let row = |(place, policy): (usize, &PolicyStatistics)| {
        let PolicyStatistics { p10, p25, p50, p75, p90, mean, min, .. } = policy;
        let pair = place.checked_sub(1).and_then(|place| dataset.pairs.get(place));
        let mut cells = vec![Cell::text(&policy.policy)];
        cells.extend([p10, p25, p50, p75, p90].map(|share| Cell::number(percent(*share))));
        let mean = percent(*mean);
        cells.push(if place == 0 { Cell::best(mean) } else { Cell::number(mean) });
        cells.push(Cell::number(interval(policy.interval)));
        cells.push(Cell::number(percent(*min)));
        cells.push(Cell::text(&policy.worst_trace));
        cells.push(Cell::number(percent(policy.share_worse)));
        let PolicyStatistics { wins, ties, losses, .. } = policy;
        cells.push(Cell::number(format!("{wins}/{ties}/{losses}")));
        cells.push(Cell::number(format!("{:.2}", policy.mean_rank)));
        cells.push(Cell::number(interval(pair.and_then(|pair| pair.difference))));
        cells.push(Cell::number(
            pair.map_or_else(|| "-".into(), |pair| format!("{:.1e}", pair.p_value)),
        ));
        cells
    };
    Table {
        header: header.map(String::from).to_vec(),
        rows: dataset.policies.iter().enumerate().map(row).collect(),
    }
}
