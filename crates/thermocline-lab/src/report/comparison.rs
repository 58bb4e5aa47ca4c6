//! The report of a comparison: which policy serves the trace best, and why.

use super::{BarChart, Cell, LineChart, Report, Series, Table};
use crate::metric::{Metric, byte_size, capacities, columns, flash, grouped};
use crate::{LabError, Summary, TierSummary};

/// What a comparison's report says besides its figures.
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
///
/// # Errors
/// [`LabError::Chart`] if a chart cannot be drawn.
pub fn comparison(summaries: &[Summary], options: &Options) -> Result<Report, LabError> {
    let mut report = Report::new(&options.title);
    if let Some(first) = summaries.first() {
        report.paragraph(&about_trace(first));
    }
    for verdict in verdicts(summaries) {
        report.paragraph(&verdict);
    }
    for (ram_pages, group) in by_ram(summaries) {
        if let Some(ram_pages) = ram_pages {
            report.heading(&format!("With {} pages of RAM", grouped(ram_pages)));
        }
        for metric in &columns(summaries) {
            add_chart(&mut report, &group, metric)?;
        }
    }
    report.heading("All figures");
    report
        .paragraph("A star marks the best of its column among the configurations of equal sizes.");
    report.table(figures(summaries));
    report.heading("Parameters and devices");
    report.table(parameters(summaries));
    add_definitions(&mut report, summaries);
    report.heading("How to make this report again");
    report.code(&options.command);
    report.paragraph(&options.version);
    Ok(report)
}

fn about_trace(summary: &Summary) -> String {
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

/// For each hierarchy: the policy with the least I/O time, and how far the others are.
fn verdicts(summaries: &[Summary]) -> Vec<String> {
    let mut verdicts = vec![];
    for group in by_sizes(summaries) {
        let mut ranking = group.clone();
        ranking.sort_by(|one, other| one.io_time_ms.total_cmp(&other.io_time_ms));
        let [best, second, ..] = ranking.as_slice() else { continue };
        let mut text = format!(
            "{}: {} takes the least I/O time, {:.1} s",
            sizes_in_words(best),
            best.policy.name,
            best.io_time_ms / 1000.0
        );
        let less = |other: &Summary| (1.0 - best.io_time_ms / other.io_time_ms) * 100.0;
        if second.io_time_ms > 0.0 {
            text += &format!(", {:.1} % less than {}", less(second), second.policy.name);
        }
        let baseline = ranking.iter().find(|summary| summary.policy.name == "lru");
        if let Some(lru) = baseline.filter(|lru| lru.io_time_ms > 0.0 && best.policy.name != "lru")
            && second.policy.name != "lru"
        {
            text += &format!(" and {:.1} % less than LRU without flash", less(lru));
        }
        verdicts.push(text + ".");
    }
    verdicts
}

fn sizes_in_words(summary: &Summary) -> String {
    let sizes: Vec<String> = caches(summary)
        .map(|tier| format!("{} {} pages", tier.name, grouped(tier.capacity_pages.unwrap_or(0))))
        .collect();
    sizes.join(", ")
}

/// A chart of one metric: lines over flash sizes, or bars if there is one size.
fn add_chart(report: &mut Report, group: &[&Summary], metric: &Metric) -> Result<(), LabError> {
    let mut sizes: Vec<Option<u64>> =
        group.iter().map(|summary| flash(summary).and_then(|tier| tier.capacity_pages)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut policies: Vec<&str> = vec![];
    for summary in group {
        if !policies.contains(&summary.policy.name.as_str()) {
            policies.push(&summary.policy.name);
        }
    }
    let value = |policy: &str, size: &Option<u64>| {
        group
            .iter()
            .find(|summary| {
                summary.policy.name == policy
                    && flash(summary).and_then(|tier| tier.capacity_pages) == *size
            })
            .and_then(|summary| (metric.value)(summary))
            .filter(|value| value.is_finite())
    };
    let title = format!("{} ({})", metric.title, metric.unit);
    if sizes.len() < 2 {
        let size = sizes.first().copied().flatten();
        let bar = |policy: &&str| Some(((*policy).to_owned(), value(policy, &size)?));
        let bars: Vec<_> = policies.iter().filter_map(bar).collect();
        if bars.is_empty() {
            return Ok(());
        }
        return report.bars(&BarChart { title: metric.title.into(), x_title: title, bars });
    }
    let page_size_bytes = group.first().map_or(0, |summary| summary.trace.page_size_bytes);
    report.lines(&LineChart {
        title: format!("{} over flash size", metric.title),
        x_title: "flash".into(),
        x_labels: sizes.iter().map(|size| byte_size(size.unwrap_or(0) * page_size_bytes)).collect(),
        y_title: title,
        series: policies
            .iter()
            .map(|policy| Series {
                name: (*policy).into(),
                values: sizes.iter().map(|size| value(policy, size)).collect(),
            })
            .collect(),
    })
}

/// One row per configuration.
fn figures(summaries: &[Summary]) -> Table {
    let metrics = columns(summaries);
    let mut header = vec!["policy".to_owned()];
    if let Some(first) = summaries.first() {
        header.extend(caches(first).map(|tier| format!("{} pages", tier.name)));
    }
    header.extend(metrics.iter().map(|metric| format!("{} ({})", metric.title, metric.unit)));
    let mut rows = vec![];
    for summary in summaries {
        let rivals: Vec<&Summary> =
            summaries.iter().filter(|other| capacities(other) == capacities(summary)).collect();
        let mut row = vec![Cell::text(&summary.policy.name)];
        row.extend(capacities(summary).into_iter().map(|pages| Cell::number(grouped(pages))));
        for metric in &metrics {
            row.push(figure(summary, &rivals, metric));
        }
        rows.push(row);
    }
    Table { header, rows }
}

fn figure(summary: &Summary, rivals: &[&Summary], metric: &Metric) -> Cell {
    let Some(value) = (metric.value)(summary).filter(|value| value.is_finite()) else {
        return Cell::number("-");
    };
    let is_beaten = rivals
        .iter()
        .filter_map(|other| (metric.value)(other))
        .any(|other| if metric.is_more_better { other > value } else { other < value });
    let text = (metric.show)(value);
    if is_beaten || rivals.len() < 2 { Cell::number(text) } else { Cell::best(text) }
}

/// The parameters of each policy and the devices of the tiers.
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
            "{}: {} ms per read, {} ms per write",
            tier.device, tier.read_ms, tier.write_ms
        );
        rows.push(vec![Cell::text(format!("tier {}", tier.name)), Cell::text(costs)]);
    }
    let timing = summaries.first().and_then(|summary| summary.timing.as_ref());
    for device in timing.map_or(&[][..], |timing| &timing.devices) {
        let place = format!("tier {}, in time", device.tier);
        rows.push(vec![Cell::text(place), Cell::text(&device.model)]);
    }
    Table { header: vec!["policy or tier".into(), "parameters or costs per page".into()], rows }
}

fn add_definitions(report: &mut Report, summaries: &[Summary]) {
    report.heading("What the figures mean");
    report.paragraph(
        "An access counts as a hit of the fastest tier that held the page's newest version when it \
         arrived. Page reads and writes are the transfers that a tier's device performs: serving an \
         access costs one, copying a page costs a read at its source and a write at its target, and \
         a page appended again within flash costs one write.",
    );
    let terms: Vec<String> = summaries
        .first()
        .map_or(&[][..], |summary| &summary.tiers)
        .iter()
        .filter(|tier| tier.read_ms > 0.0 || tier.write_ms > 0.0)
        .map(|tier| {
            format!(
                "{0} reads x {1} ms + {0} writes x {2} ms",
                tier.name, tier.read_ms, tier.write_ms
            )
        })
        .collect();
    report.paragraph(&format!(
        "Total I/O time is {}. Nothing is flushed at the end: what is dirty then stays so.",
        if terms.is_empty() { "zero, as no tier costs anything".into() } else { terms.join(" + ") }
    ));
    if summaries.iter().any(|summary| summary.timing.is_some()) {
        report.paragraph(
            "A response time is that of a request, from its arrival to the answer of its last page. \
             What a policy does for an access before it serves it, the access waits for; what it does \
             after that goes on behind it, and occupies the devices.",
        );
    }
}

/// The summaries grouped by all their sizes, in order of first appearance.
fn by_sizes(summaries: &[Summary]) -> Vec<Vec<&Summary>> {
    let mut groups: Vec<Vec<&Summary>> = vec![];
    for summary in summaries {
        match groups.iter_mut().find(|group| capacities(group[0]) == capacities(summary)) {
            Some(group) => group.push(summary),
            None => groups.push(vec![summary]),
        }
    }
    groups
}

/// The summaries grouped by the size of their first tier; no size is given if there is one only.
fn by_ram(summaries: &[Summary]) -> Vec<(Option<u64>, Vec<&Summary>)> {
    let ram = |summary: &Summary| capacities(summary).first().copied();
    let mut groups: Vec<(Option<u64>, Vec<&Summary>)> = vec![];
    for summary in summaries {
        match groups.iter_mut().find(|group| group.0 == ram(summary)) {
            Some(group) => group.1.push(summary),
            None => groups.push((ram(summary), vec![summary])),
        }
    }
    if let [only] = groups.as_mut_slice() {
        only.0 = None;
    }
    groups
}

fn caches(summary: &Summary) -> impl Iterator<Item = &TierSummary> {
    summary.tiers.iter().filter(|tier| tier.capacity_pages.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PolicySummary, TraceSummary};

    fn summary(policy: &str, flash_pages: u64, io_time_ms: f64) -> Summary {
        let tier = |name: &str, capacity_pages, hits: u64| TierSummary {
            name: name.into(),
            capacity_pages,
            hits,
            read_hits: hits,
            write_hits: 0,
            hit_ratio: hits as f64 / 100.0,
            page_reads: hits,
            page_writes: 0,
            device: "d".into(),
            read_ms: 1.0,
            write_ms: 2.0,
        };
        Summary {
            trace: TraceSummary {
                path: "t.csv".into(),
                page_size_bytes: 4096,
                requests: 100,
                accesses: 100,
                reads: 100,
                writes: 0,
                footprint_pages: 50,
            },
            policy: PolicySummary {
                name: policy.into(),
                parameters: serde_json::Map::new(),
                write_miss: "fetch",
                admission: None,
            },
            tiers: vec![
                tier("ram", Some(10), 20),
                tier("flash", Some(flash_pages), 30),
                tier("disk", None, 50),
            ],
            warm_up_accesses: 0,
            io_time_ms,
            average_response_ms: 1.0,
            demotions: vec![0],
            promotions: vec![0],
            metadata_bytes: 0,
            gauges: vec![],
            hca: None,
            cost: None,
            over_time: None,
            replay_seconds: 0.1,
            accesses_per_second: 1000.0,
            timing: None,
        }
    }

    fn html(summaries: &[Summary]) -> String {
        let options = Options {
            title: "T".into(),
            command: "thermocline compare t.csv".into(),
            version: "thermocline 0".into(),
        };
        comparison(summaries, &options).unwrap().to_html()
    }

    #[test]
    fn names_the_best_and_how_far_the_others_are() {
        let html = html(&[
            summary("hat", 20, 600.0),
            summary("tac", 20, 800.0),
            summary("lru", 20, 1200.0),
        ]);
        let verdict = "hat takes the least I/O time, 0.6 s, 25.0 % less than tac and 50.0 % less than LRU without flash.";
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

    #[test]
    fn a_comparison_of_nothing_is_still_a_document() {
        assert!(html(&[]).contains("</html>"));
        assert!(html(&[summary("hat", 0, 0.0)]).contains("hat"));
    }
}
