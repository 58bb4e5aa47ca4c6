//! The report of a comparison: which policy serves the trace best, and why.

use super::by_size::add_by_size;
use super::over_time::add_over_time;
use super::{Cell, Report, Table};
use crate::metric::{Metric, by_sizes, byte_size, capacities, columns, flash, grouped, is_hybrid};
use crate::verdict::verdict;
use crate::{Summary, TierSummary};

/// Text of a comparison's report besides its figures.
#[derive(Clone, Debug)]
pub struct Options {
    /// The title.
    pub title: String,
    /// The command that makes the report again.
    pub command: String,
    /// The program and its version.
    pub version: String,
}

/// Builds the report of a comparison over one trace.
pub fn comparison(summaries: &[Summary], options: &Options) -> Report {
    let mut report = Report::new(&options.title);
    report.answer(&verdict(summaries));
    if let Some(first) = summaries.first() {
        report.paragraph(&about_trace(first));
    }
    report.heading("By size");
    add_by_size(&mut report, summaries);
    add_over_time(&mut report, &by_sizes(summaries));
    add_figures(&mut report, summaries, &[]);
    add_origin(&mut report, summaries, options);
    report
}

/// Column of a table besides the figures of each run.
pub(super) struct Column {
    pub(super) title: String,
    pub(super) meaning: &'static str,
    /// A cell for each run.
    pub(super) cells: Vec<Cell>,
}

/// Adds all figures of all runs as tables; `more` are the last columns.
pub(super) fn add_figures(report: &mut Report, summaries: &[Summary], more: &[Column]) {
    report.heading("All figures");
    report
        .paragraph("A star marks the best of its column among the configurations of equal sizes.");
    for metric in columns(summaries) {
        report.define(format!("{} ({})", metric.title, metric.unit), metric.definition());
    }
    let mut table = figures(summaries);
    for Column { title, meaning, cells } in more {
        report.define(title.as_str(), *meaning);
        table.header.push(title.clone());
        table.rows.iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell.clone()));
    }
    report.table(table);
    if let Some(table) = traffic(summaries) {
        report.heading("Traffic between the caches");
        report.table(table);
    }
}

/// Adds what the figures were found with, what they mean, and how to find them again.
pub(super) fn add_origin(report: &mut Report, summaries: &[Summary], options: &Options) {
    report.heading("Parameters and devices");
    report.table(parameters(summaries));
    add_definitions(report, summaries);
    report.heading("How to make this report again");
    report.code(&options.command);
    report.paragraph(&options.version);
}

pub(super) fn about_trace(summary: &Summary) -> String {
    let trace = &summary.trace;
    let writes = trace.writes as f64 / trace.accesses.max(1) as f64 * 100.0;
    let mut text = format!(
        "{}: {} requests, {} page accesses, of which {writes:.1} % write, to {} pages of {} bytes.",
        trace.path,
        grouped(trace.requests),
        grouped(trace.accesses),
        grouped(trace.footprint_pages),
        grouped(trace.page_size_bytes),
    );
    if summary.warm_up_accesses > 0 {
        text +=
            &format!(" The first {} accesses are not counted.", grouped(summary.warm_up_accesses));
    }
    text
}

/// Tabulate one row per configuration.
fn figures(summaries: &[Summary]) -> Table {
    let metrics = columns(summaries);
    let mut header = vec!["policy".to_owned()];
    if let Some(first) = summaries.first() {
        header.extend(
            caches(first).flat_map(|tier| [tier.name.clone(), format!("{} pages", tier.name)]),
        );
    }
    header.extend(metrics.iter().map(|metric| format!("{} ({})", metric.title, metric.unit)));
    let mut rows = vec![];
    for summary in summaries {
        let rivals: Vec<&Summary> =
            summaries.iter().filter(|other| capacities(other) == capacities(summary)).collect();
        let mut row = vec![Cell::text(&summary.policy.name)];
        for pages in capacities(summary) {
            let bytes = pages * summary.trace.page_size_bytes;
            row.push(Cell::number(byte_size(bytes)).with_value(bytes as f64));
            row.push(Cell::number(grouped(pages)).with_value(pages as f64));
        }
        for metric in &metrics {
            row.push(figure(summary, &rivals, metric));
        }
        rows.push(row);
    }
    Table { header, rows }
}

fn figure(summary: &Summary, rivals: &[&Summary], metric: &Metric) -> Cell {
    match metric.value(summary).filter(|value| value.is_finite()) {
        None => Cell::number("-"),
        Some(value) if metric.is_best(summary, rivals) => {
            Cell::best((metric.show)(value)).with_value(value)
        }
        Some(value) => Cell::number((metric.show)(value)).with_value(value),
    }
}

/// Tabulate one row per configuration and pair of neighbouring caches; `None` for hybrids, whose
/// transfers are among all figures, and where there is one cache.
fn traffic(summaries: &[Summary]) -> Option<Table> {
    let first = summaries.first().filter(|first| !is_hybrid(&first.tiers))?;
    let names: Vec<&str> = caches(first).map(|tier| tier.name.as_str()).collect();
    if names.len() < 2 {
        return None;
    }
    let told = if by_sizes(summaries).len() > 1 { names.as_slice() } else { &[] };
    let mut header = vec!["policy".to_owned(), "between".to_owned()];
    header.extend(told.iter().map(|name| format!("{name} pages")));
    let titles = ["pages demoted", "bytes", "pages promoted", "bytes"];
    header.extend(titles.map(String::from));
    let mut rows = vec![];
    for summary in summaries {
        let sizes = capacities(summary).into_iter().take(told.len());
        let sizes: Vec<Cell> = sizes.map(|pages| Cell::number(grouped(pages))).collect();
        for (index, pair) in names.windows(2).enumerate() {
            let mut row = vec![Cell::text(&summary.policy.name)];
            row.push(Cell::text(format!("{} and {}", pair[0], pair[1])));
            row.extend(sizes.iter().cloned());
            let moved = [
                &summary.demotions,
                &summary.demoted_bytes,
                &summary.promotions,
                &summary.promoted_bytes,
            ];
            row.extend(moved.map(|moved| Cell::number(grouped(moved[index]))));
            rows.push(row);
        }
    }
    Some(Table { header, rows })
}

/// Return the parameters of each policy and the devices of the tiers.
fn parameters(summaries: &[Summary]) -> Table {
    let mut rows: Vec<Vec<Cell>> = vec![];
    let mut known: Vec<&str> = vec![];
    for summary in summaries {
        if known.contains(&summary.policy.name.as_str()) {
            continue;
        }
        known.push(&summary.policy.name);
        let settings: Vec<String> = summary
            .policy
            .parameters
            .iter()
            .map(|(name, value)| format!("{name}={value}").replace('"', ""))
            .collect();
        let settings = if settings.is_empty() { "none".into() } else { settings.join(", ") };
        let mut settings = format!("{settings}; a write miss: {}", summary.policy.write_miss);
        if let Some(admission) = &summary.policy.admission {
            let parameters = admission.parameters.iter();
            let parameters: Vec<String> = parameters
                .map(|(name, value)| format!("{name}={value}").replace('"', ""))
                .collect();
            let identifier = &admission.identifier;
            settings += &format!(
                "; admitted to flash: what {identifier} finds hot ({})",
                parameters.join(", ")
            );
        }
        rows.push(vec![Cell::text(&summary.policy.name), Cell::text(settings)]);
    }
    for tier in summaries.first().map_or(&[][..], |summary| &summary.tiers) {
        let costs = format!(
            "{}: {} ms per read, {} ms per write; access time {} ms",
            tier.device, tier.read_ms, tier.write_ms, tier.latency_ms
        );
        rows.push(vec![Cell::text(format!("tier {}", tier.name)), Cell::text(costs)]);
    }
    let timing = summaries.first().and_then(|summary| summary.timing.as_ref());
    for device in timing.map_or(&[][..], |timing| &timing.devices) {
        let place = format!("tier {}, in time", device.tier);
        let placement = device.ssd.as_ref().and_then(|ssd| ssd.placement.as_ref());
        let placement = placement.map_or_else(String::new, |placement| {
            format!("; {} placement handles by {}", placement.handles, placement.streams)
        });
        rows.push(vec![Cell::text(place), Cell::text(format!("{}{placement}", device.model))]);
    }
    Table { header: vec!["policy or tier".into(), "parameters or costs per page".into()], rows }
}

fn add_definitions(report: &mut Report, summaries: &[Summary]) {
    report.heading("What the figures mean");
    let has_flash = summaries.first().is_some_and(|first| flash(first).is_some());
    report.paragraph(&format!(
        "An access counts as a hit of the fastest tier that held the page's newest version when it \
         arrived. Page reads and writes are the transfers that a tier's device performs: serving an \
         access costs one, copying a page costs a read at its source and a write at its target{}.",
        if has_flash { ", and a page appended again within flash costs one write" } else { "" }
    ));
    let tiers = summaries.first().map_or(&[][..], |summary| &summary.tiers);
    let shown = columns(summaries);
    let is_shown = |key: &str| shown.iter().any(|metric| metric.shows(key));
    if is_shown("io_time_ms") {
        let terms = tiers.iter().filter(|tier| tier.read_ms > 0.0 || tier.write_ms > 0.0);
        let terms: Vec<String> = terms
            .map(|tier| {
                format!(
                    "{0} reads x {1} ms + {0} writes x {2} ms",
                    tier.name, tier.read_ms, tier.write_ms
                )
            })
            .collect();
        let sum = if terms.is_empty() {
            "zero, as no tier costs anything".into()
        } else {
            terms.join(" + ")
        };
        report.paragraph(&format!("Total I/O time is {sum}."));
    }
    if is_shown("average_response_ms") {
        let terms = tiers.iter().map(|tier| format!("{} hits x {} ms", tier.name, tier.latency_ms));
        let terms = terms.collect::<Vec<_>>().join(" + ");
        report.paragraph(&format!("Average response is ({terms}) / accesses."));
    }
    if is_shown("cost_per_io") {
        report.paragraph(
            "Cost per I/O is the price of all tiers, the disk of the size of the footprint, divided \
             by the I/Os per second that the average response time allows, one after the other.",
        );
    }
    if is_shown("pages_demoted") {
        report.paragraph(
            "A demotion is a page that goes down from one cache to the next, a promotion one that \
             goes up; a page that passes over a cache counts with each pair that it crosses. Metadata \
             is what the policy keeps besides the pages and their order, at the end.",
        );
    }
    report.paragraph("Nothing is flushed at the end: what is dirty then stays so.");
    if summaries.iter().any(|summary| summary.timing.is_some()) {
        report.paragraph(
            "A response time is that of a request, from its arrival to the answer of its last page. \
             What a policy does for an access before it serves it, the access waits for; what it does \
             after that goes on behind it, and occupies the devices.",
        );
    }
}

fn caches(summary: &Summary) -> impl Iterator<Item = &TierSummary> {
    summary.tiers.iter().filter(|tier| tier.capacity_pages.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::summary;
    use crate::{Cost, Gauge, IntervalSummary, OverTime};

    fn html(summaries: &[Summary]) -> String {
        let options = Options {
            title: "T".into(),
            command: "thermocline compare t.csv".into(),
            version: "thermocline 0".into(),
        };
        let html = comparison(summaries, &options).to_html();
        // The part before the script is of this report.
        html.split("\n<script>\n").next().unwrap().to_owned()
    }

    #[test]
    fn names_the_best_and_how_far_the_others_are() {
        let html = html(&[
            summary("hat", 20, 600.0),
            summary("tac", 20, 800.0),
            summary("lru", 20, 1200.0),
        ]);
        let verdict = "<strong>hat needs the least I/O time with RAM 40 KiB and flash 80 KiB: 0.6 s, 25 % less than tac.</strong>";
        assert!(html.contains(verdict), "{html}");
        assert!(html.contains("thermocline compare t.csv"));
        assert!(!html.contains("NaN"));
    }

    #[test]
    fn several_sizes_are_lines_and_one_size_is_bars() {
        let one = html(&[summary("hat", 20, 1.0), summary("tac", 20, 2.0)]);
        assert!(one.contains("<rect") && !one.contains("over flash size"));
        let two = html(&[summary("hat", 20, 1.0), summary("hat", 40, 0.5)]);
        assert!(two.contains("Total I/O time over flash size"));
        assert_eq!(two, html(&[summary("hat", 20, 1.0), summary("hat", 40, 0.5)]));
    }

    /// Return the same on levels of these sizes, with what moves between them.
    fn levels(policy: &str, pages: &[u64], average_response_ms: f64) -> Summary {
        let hybrid = summary(policy, 20, 1.0);
        let [cache, _, disk] = hybrid.tiers.as_slice() else { unreachable!() };
        let level = |(index, &pages): (usize, &u64)| TierSummary {
            name: format!("l{}", index + 1),
            capacity_pages: Some(pages),
            ..cache.clone()
        };
        let levels = pages.iter().enumerate().map(level);
        let moved = |first: u64| (1..pages.len() as u64).map(|pair| first * pair).collect();
        Summary {
            tiers: levels.chain([disk.clone()]).collect(),
            average_response_ms,
            demotions: moved(11),
            demoted_bytes: moved(11 * 4096),
            promotions: moved(7),
            promoted_bytes: moved(7 * 4096),
            metadata_bytes: 2048,
            metadata_share: 0.05,
            ..hybrid
        }
    }

    fn over_time(intervals: usize, gauges: &[(&'static str, f64)], tiers: usize) -> OverTime {
        let interval = |number: usize| IntervalSummary {
            end_accesses: 50 * (number as u64 + 1),
            end_s: None,
            accesses: 50,
            hits: vec![10; tiers],
            page_writes: vec![5; tiers],
            average_response_ms: 3.0,
            demotions: vec![1; tiers - 2],
            promotions: vec![1; tiers - 2],
            metadata_bytes: 7,
            gauges: gauges
                .iter()
                .map(|&(name, value)| Gauge { name, tier: "l1".into(), value })
                .collect(),
        };
        OverTime { intervals: (0..intervals).map(interval).collect() }
    }

    #[test]
    fn levels_are_told_by_their_names() {
        let html = html(&[levels("demote", &[10, 20, 40], 2.0), levels("ulc", &[10, 20, 40], 4.0)]);
        let verdict = "demote answers soonest on average with l1 40 KiB, l2 80 KiB and l3 160 KiB: 2.000 ms, 50 % less than ulc.";
        assert!(html.contains(verdict), "{html}");
        for title in ["Hits in l1", "Hits in l2", "Hits in l3", "Hits in any cache"] {
            assert!(html.contains(&format!(">{title} (%)</abbr></th>")), "{title}: {html}");
        }
        for strange in ["Flash", "flash", "RAM", "I/O time", "Cost per I/O"] {
            assert!(!html.contains(strange), "{strange}");
        }
        // Demotions and promotions in all, then those of the lower pair and their bytes.
        let cell = |text: &str| format!("<td class=\"number\">{text}</td>");
        let most = "<td class=\"number best\" data-value=\"33\">33</td>";
        assert!(html.contains(most), "11 and 22 demotions: {html}");
        assert!(html.contains(&format!("<td>l2 and l3</td>{}{}", cell("22"), cell("90,112"))));
        assert!(html.contains(&format!("{}{}</tr>", cell("14"), cell("57,344"))));
        assert!(html.contains("5.000") && html.contains("Metadata share (% of the caches)"));
        assert!(html.contains("(l1 hits x 1 ms + l2 hits x 1 ms"), "{html}");
    }

    #[test]
    fn prices_and_access_times_of_ones_own_show_what_they_make() {
        let with = |cost: Option<Cost>, latency_ms: f64| {
            let mut one = summary("hat", 20, 600.0);
            for (tier, default) in one.tiers.iter_mut().zip([0.2, latency_ms, 10.0]) {
                tier.latency_ms = default;
            }
            html(&[Summary { cost, ..one }])
        };
        let plain = with(None, 2.0);
        assert!(!plain.contains("Average response") && !plain.contains("Cost per I/O"));
        assert!(with(None, 3.0).contains("Average response (ms)"));
        let priced = with(Some(Cost { total: 10.0, iops: 500.0, per_io: 0.02 }), 2.0);
        assert!(priced.contains("Average response (ms)") && priced.contains(">0.02000<"));
    }

    #[test]
    fn sizes_that_grow_together_are_one_chart() {
        let [small, large] = [[10, 20], [20, 40]].map(|sizes| levels("demote", &sizes, 2.0));
        let together = html(&[small.clone(), large]);
        assert!(together.contains("Average response over cache size"), "{together}");
        assert!(together.contains("120 KiB") && together.contains("240 KiB"), "30 and 60 pages");
        let apart = html(&[small, levels("demote", &[10, 40], 2.0)]);
        assert!(apart.contains("Average response over l2 size") && !apart.contains("in l1</h2>"));
    }

    #[test]
    fn curves_are_there_if_asked_for() {
        let queues = [("q1_pages", 1.0), ("q2_pages", 3.0), ("promote_probability", 0.0)];
        let hfa = |sizes: &[u64]| Summary {
            over_time: Some(over_time(4, &queues, sizes.len() + 1)),
            warm_up_accesses: 100,
            ..levels("p-hfa", sizes, 2.0)
        };
        let demote =
            Summary { over_time: Some(over_time(4, &[], 3)), ..levels("demote", &[10, 20], 3.0) };
        let html_of = html(&[hfa(&[10, 20]), demote]);
        assert!(
            html_of.contains("The trace in 4 equal intervals. The accesses that are not counted")
        );
        for title in [
            "Hits in any cache over time",
            "Hits in l1 over time",
            "Hits in l2 over time",
            "Average response over time",
            "Share of Q1 (l1) over time",
        ] {
            assert!(html_of.contains(&format!("data-name=\"{title}\"")), "{title}");
        }
        let q1 = html_of.split("aria-label=\"Share of Q1 (l1) over time: ").nth(1).unwrap();
        assert!(q1.starts_with("p-hfa\""), "the one that has it: {q1}");
        assert!(!html_of.contains("Share of Q1 (l2)") && !html_of.contains("Promote probability"));
        assert!(!html(&[levels("demote", &[10, 20], 3.0)]).contains("over time"));
        let deep = html(&[hfa(&[10; 6])]);
        assert!(deep.contains("Of 6 caches, the first 4 have charts") && !deep.contains("l5 over"));
        let several = html(&[hfa(&[10, 20]), hfa(&[10, 40])]);
        for sizes in ["l1 40 KiB, l2 80 KiB", "l1 40 KiB, l2 160 KiB"] {
            let caption = format!("<p class=\"caption\">{sizes}</p>");
            assert!(several.contains(&caption), "{sizes}: {several}");
        }
    }

    #[test]
    fn a_comparison_of_nothing_is_still_a_document() {
        assert!(html(&[]).contains("</main>"));
        assert!(html(&[summary("hat", 0, 0.0)]).contains("hat"));
    }
}
