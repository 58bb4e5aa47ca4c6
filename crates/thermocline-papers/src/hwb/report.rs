//! The report of the HWB paper's experiments.

use thermocline_trace::classes::{Class, ClassSummary};

use super::claims::{Comparison, Figure};
use super::{Experiment, Run, WorkloadResult};
use crate::study::{TextTable, header, in_order};
use thermocline_lab::BufferSummary;
use thermocline_lab::metric::{Metric, buffer_columns, grouped, of_buffers};
use thermocline_lab::report::{Axis, Cell, LineChart, Pair, PairChart, Report, Series, Table};

/// Write hits, erases and response times at the size of the paper's text, for a terminal.
pub(super) fn overview(experiment: &Experiment, results: &[WorkloadResult]) -> TextTable {
    let shown = experiment.contenders.iter().filter(|contender| contender.in_figures);
    let contenders: Vec<&str> = shown.map(|contender| contender.label.as_str()).collect();
    let row = |result: &WorkloadResult| {
        let cells = contenders.iter().map(|&label| {
            let run = result
                .used_drive
                .iter()
                .find(|run| run.label == label && run.size == experiment.text_size);
            let figure = |metric: &Metric<BufferSummary>| {
                run.and_then(|run| metric.value(&run.summary))
                    .map_or_else(|| "-".into(), metric.show)
            };
            let [hits, erases, response] = ["write_hit_ratio", "erase_count", "write_mean_us"]
                .map(|key| figure(&of_buffers(key)));
            format!("{hits} / {erases} / {response}")
        });
        (result.workload.clone(), cells.collect())
    };
    let title = &format!(
        "Write hits in % / erases / mean write response in us, with {} of buffer on a drive in use",
        experiment.text_size
    );
    TextTable::of_traces(title, &contenders, results.iter().map(row))
}

/// Adds the traces, the ablation, then the figures of each workload.
pub(super) fn add(report: &mut Report, experiment: &Experiment, results: &[WorkloadResult]) {
    report.paragraph("A point is one workload with one size of the buffer, on a drive in use; percentages are of the second buffer's figure.");
    report.heading("The traces really used");
    report.table(traces(results));
    report.heading("Classes of written pages (Figure 1)");
    report.paragraph(&format!(
        "F: written at least {} times. S: mean re-use distance of at most {} of distinct pages.",
        experiment.frequent_writes, experiment.short_distance
    ));
    report.table(classes(results));
    report.heading("What each part of HWB earns");
    report.paragraph(&format!(
        "With {} of buffer on a drive in use. Write hits in %, then erases; both as they differ from HWB with every part, if that erases at all.",
        experiment.text_size
    ));
    report.table(ablation(experiment, results));
    report.heading("Readings of the paper and its statements");
    report.paragraph(&format!(
        "With {} of buffer on a drive in use: workloads at which HWB is better / equal / worse, and the median difference.",
        experiment.text_size
    ));
    report.table(sensitivity(experiment, results).into_table());
    for result in results {
        workload(report, experiment, result);
    }
}

fn workload(report: &mut Report, experiment: &Experiment, result: &WorkloadResult) {
    report.heading(&result.workload);
    let distances = result.classes.classes.iter().map(|class| Series {
        name: class.class.name().into(),
        values: class.distance_over_time.clone(),
    });
    let intervals = result.classes.classes.first().map_or(0, |one| one.distance_over_time.len());
    let end =
        |interval: u64| (interval * result.classes.interval_writes).min(result.classes.writes);
    report.chart(&LineChart {
        title: "Re-use distance over time (Figure 2)".into(),
        x: Axis::time(
            &format!("writes, {} per point", grouped(result.classes.interval_writes)),
            (1..=intervals as u64).map(end),
        ),
        y_title: "distinct pages, mean".into(),
        series: distances.collect(),
        emphasised: vec![],
    });
    let figures = |runs: &[Run]| {
        let is_shown = |run: &&Run| {
            experiment.contenders.iter().any(|one| one.in_figures && one.label == run.label)
        };
        runs.iter().filter(is_shown).cloned().collect::<Vec<Run>>()
    };
    if let Some(shares) = result.paper.and_then(|paper| paper.classes_percent) {
        let classes = result.classes.classes.iter().zip(shares);
        let pair = |(class, paper): (&ClassSummary, f64)| Pair {
            name: class.class.name().into(),
            measured: class.page_share * 100.0,
            paper,
        };
        report.chart(&PairChart {
            title: "Classes of written pages, beside the paper's (Figure 1)".into(),
            x_title: "share of the pages, %".into(),
            pairs: classes.map(pair).collect(),
        });
    }
    // The paper's values are those of its drive.
    for (drive, runs, paper) in [
        (&experiment.used_drive.name, &result.used_drive, None),
        (&experiment.paper_drive.name, &result.paper_drive, result.paper.as_ref()),
    ] {
        if runs.is_empty() {
            continue;
        }
        report.paragraph(&format!("Drive: {drive}."));
        let shown = figures(runs);
        for (figure, number) in [
            (Figure::WriteHits, "Figure 5"),
            (Figure::Erases, "Figure 6"),
            (Figure::WriteResponse, "Figure 7"),
        ] {
            let mut chart = chart(experiment, &shown, &figure.metric(), number);
            if let Some(paper) = paper {
                chart.series.extend(of_paper(experiment, figure.of_paper(paper)));
            }
            report.chart(&chart);
        }
        report.table(runs_table(runs));
    }
}

/// Return the paper's values, those of LRU and HWB, as points at the one size that its text has
/// them for.
fn of_paper(experiment: &Experiment, values: [f64; 2]) -> impl Iterator<Item = Series> {
    let is_text_size = |size: &String| *size == experiment.text_size;
    ["LRU", "HWB"].into_iter().zip(values).map(move |(name, value)| Series {
        name: format!("{name}, the paper's"),
        values: experiment.sizes.iter().map(|size| is_text_size(size).then_some(value)).collect(),
    })
}

fn chart(
    experiment: &Experiment,
    runs: &[Run],
    metric: &Metric<BufferSummary>,
    figure: &str,
) -> LineChart {
    let labels = in_order(runs.iter().map(|run| run.label.as_str()));
    let value = |label: &str, size: &String| {
        let run = runs.iter().find(|run| run.label == label && run.size == *size)?;
        metric.value(&run.summary)
    };
    let series = labels.iter().map(|&label| Series {
        name: label.into(),
        values: experiment.sizes.iter().map(|size| value(label, size)).collect(),
    });
    let pages = |size: &String| {
        let run = runs.iter().find(|run| run.size == *size);
        run.map_or(0.0, |run| f64::from(run.summary.buffer_pages))
    };
    let places = experiment.sizes.iter().map(|size| (pages(size), size.clone()));
    LineChart {
        title: format!("{} ({figure})", metric.title),
        x: Axis::numbers("buffer", places.collect()),
        y_title: format!("{} ({})", metric.title, metric.unit),
        series: series.collect(),
        emphasised: vec![],
    }
}

/// Tabulate one row per run; the best of each size is marked.
fn runs_table(runs: &[Run]) -> Table {
    let columns = buffer_columns(runs.iter().map(|run| &run.summary));
    let mut header = vec!["buffer".to_owned(), "size".to_owned()];
    header.extend(columns.iter().map(|metric| format!("{} ({})", metric.title, metric.unit)));
    let row = |run: &Run| {
        let rivals: Vec<&BufferSummary> =
            runs.iter().filter(|other| other.size == run.size).map(|one| &one.summary).collect();
        let mut row = vec![Cell::text(&run.label), Cell::text(&run.size)];
        row.extend(columns.iter().map(|metric| match metric.value(&run.summary) {
            None => Cell::number("-"),
            Some(value) if metric.is_best(&run.summary, &rivals) => {
                Cell::best((metric.show)(value))
            }
            Some(value) => Cell::number((metric.show)(value)),
        }));
        row
    };
    Table { header, rows: runs.iter().map(row).collect() }
}

fn traces(results: &[WorkloadResult]) -> Table {
    let row = |result: &WorkloadResult| {
        let first = result.used_drive.first().map(|run| &run.summary);
        let trace = first.map(|summary| &summary.trace);
        let number = |value: Option<u64>| Cell::number(value.map_or_else(|| "-".into(), grouped));
        vec![
            Cell::text(&result.workload),
            Cell::text(&result.trace),
            number(Some(result.requests)),
            number(trace.map(|trace| trace.writes)),
            number(trace.map(|trace| trace.footprint_pages)),
            number(trace.map(|trace| trace.page_size_bytes)),
            Cell::text(first.and_then(|one| one.ssd.as_ref()).map_or("", |ssd| ssd.addresses)),
            Cell::text(if result.paper.is_some() { "the paper's by name" } else { "ours" }),
        ]
    };
    let header = [
        "workload",
        "trace",
        "requests",
        "page writes",
        "pages",
        "bytes per page",
        "pages lie",
        "whose",
    ];
    Table { header: header.map(String::from).to_vec(), rows: results.iter().map(row).collect() }
}

/// Shares and update frequency of each class.
fn classes(results: &[WorkloadResult]) -> Table {
    let mut header = vec!["workload".to_owned()];
    for class in Class::ALL {
        header.push(format!("{} pages (%)", class.name()));
    }
    for class in Class::ALL {
        header.push(format!("{} writes per page", class.name()));
    }
    let row = |result: &WorkloadResult| {
        let classes = &result.classes.classes;
        let shares = classes.iter().map(|class| format!("{:.1}", class.page_share * 100.0));
        let updates = classes.iter().map(|class| format!("{:.1}", class.mean_writes_per_page));
        let cells = shares.chain(updates).map(Cell::number);
        [Cell::text(&result.workload)].into_iter().chain(cells).collect()
    };
    Table { header, rows: results.iter().map(row).collect() }
}

/// Return each reading of the paper beside its statements about HWB: at how many workloads HWB is
/// better, equal and worse, and the median difference.
pub(super) fn sensitivity(experiment: &Experiment, results: &[WorkloadResult]) -> TextTable {
    let statements = [
        ("hits more than LRU", Figure::WriteHits, "LRU"),
        ("hits more than BPAC", Figure::WriteHits, "BPAC"),
        ("erases less than LRU", Figure::Erases, "LRU"),
        ("erases less than BPAC", Figure::Erases, "BPAC"),
        ("answers faster than BPAC", Figure::WriteResponse, "BPAC"),
    ];
    let row = |label: &str| {
        let cells = statements.iter().map(|(_, figure, other)| {
            let pairs = results.iter().filter_map(|result| {
                let run = result.variants.iter().find(|run| run.label == label)?;
                Some((run, run.rival(&result.used_drive, other)?))
            });
            Comparison::of(pairs, &figure.metric()).cell()
        });
        [label.to_owned()].into_iter().chain(cells).collect()
    };
    let titles: Vec<&str> =
        ["HWB"].into_iter().chain(statements.iter().map(|statement| statement.0)).collect();
    TextTable {
        title: Some("Readings of the paper".into()),
        header: header(&titles),
        rows: experiment.variants.iter().map(|variant| row(&variant.label)).collect(),
        numbers_from: 1,
    }
}

/// Tabulate one row per variant, two columns per workload.
fn ablation(experiment: &Experiment, results: &[WorkloadResult]) -> Table {
    let mut header = vec!["HWB".to_owned()];
    header.extend(results.iter().map(|result| result.workload.clone()));
    let row = |index: usize, label: &str| {
        let cells = results.iter().map(|result| {
            let [whole, one] = [0, index].map(|index| &result.variants[index].summary);
            let erases = |summary: &BufferSummary| summary.erase_count().unwrap_or(0);
            let hits = |summary: &BufferSummary| summary.write_hit_ratio() * 100.0;
            if index == 0 {
                return Cell::number(format!("{:.2}; {}", hits(one), grouped(erases(one))));
            }
            let hits = hits(one) - hits(whole);
            if erases(whole) == 0 {
                return Cell::number(format!("{hits:+.2}; {}", grouped(erases(one))));
            }
            let change = (erases(one) as f64 / erases(whole) as f64 - 1.0) * 100.0;
            Cell::number(format!("{hits:+.2}; {change:+.1} %"))
        });
        [Cell::text(label)].into_iter().chain(cells).collect()
    };
    let rows = experiment.variants.iter().enumerate();
    Table { header, rows: rows.map(|(index, variant)| row(index, &variant.label)).collect() }
}
