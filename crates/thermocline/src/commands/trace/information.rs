//! `thermocline trace info`: what a trace holds, and of a recording, whose accesses those are.

use anyhow::Result;
use serde::Serialize;
use thermocline_lab::report::{self, Information, Options};
use thermocline_trace::{
    AccessShare, Character, FileShares, Footprint, ProcessShare, Stats, processes_of,
};

use crate::arguments::InfoOptions;
use crate::commands::compare::VERSION;
use crate::{output, reading};

/// Maximum number of files that are named.
pub(crate) const HOTTEST: usize = 10;

/// The points of a chart over time.
pub(crate) const POINTS: usize = 100;

/// JSON form of `trace info`.
#[derive(Serialize)]
struct InfoJson<'a> {
    path: String,
    #[serde(flatten)]
    stats: &'a Stats,
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<RecordingJson<'a>>,
}

/// JSON form of a recording.
#[derive(Serialize)]
struct RecordingJson<'a> {
    #[serde(flatten)]
    files: &'a FileShares,
    /// Shares of the whole recording, independent of `--only`.
    processes: &'a [ProcessShare],
}

/// Runs the command.
pub(super) fn info(options: &InfoOptions, command: &str) -> Result<String> {
    let (trace, table) = reading::open_with_files(&options.trace, &options.reading)?;
    trace.verify()?;
    let stats = Stats::of(&trace);
    let files = table.map(|table| FileShares::of(&trace, &table, HOTTEST));
    let processes = match files {
        Some(_) => processes_of(&options.trace)?,
        None => vec![],
    };
    let mut figures = describe(&stats);
    if let Some(mapping) = reading::mapping(&options.reading.columns)? {
        figures.insert(0, vec!["columns".to_owned(), mapping.to_string()]);
    }
    if let Some(objects) = stats.objects {
        figures.insert(5, vec!["objects".to_owned(), output::count(objects)]);
    }
    if let Some(path) = &options.report {
        let footprint = Footprint::of(&trace, POINTS);
        let files = files.as_ref();
        let found =
            Information { figures: &figures, footprint: &footprint, files, processes: &processes };
        let title = format!("What {} holds", reading::file_name(&options.trace));
        let report = Options { title, command: command.into(), version: VERSION.into() };
        output::write_report(path, &report::information(&found, &report))?;
        output::note(&format!("report: {}", path.display()));
    }
    let path = options.trace.display().to_string();
    if options.json {
        let recording = files.as_ref().map(|files| RecordingJson { files, processes: &processes });
        return output::json(&InfoJson { path, stats: &stats, recording });
    }
    let mut text = format!("{path}\n{}", output::table(&["", "value"], &figures, 1));
    if let Some(files) = &files {
        text += &describe_files(files, &processes);
    }
    Ok(text)
}

/// Return the tables of a recording.
fn describe_files(files: &FileShares, processes: &[ProcessShare]) -> String {
    let with_share = |mut row: Vec<String>, share: &AccessShare| {
        row.extend([
            output::count(share.reads),
            output::count(share.writes),
            output::percent(share.access_share),
        ]);
        row
    };
    let hottest: Vec<Vec<String>> = files
        .hottest_files
        .iter()
        .map(|one| {
            let row = vec![one.path.clone(), one.class.clone(), output::count(one.footprint_pages)];
            with_share(row, &one.share)
        })
        .collect();
    let classes: Vec<Vec<String>> = files
        .classes
        .iter()
        .map(|one| {
            let counts = [output::count(one.files), output::count(one.footprint_pages)];
            let [count, pages] = counts;
            with_share(vec![one.class.clone(), count, pages], &one.share)
        })
        .collect();
    let header = ["class", "files", "pages", "reads", "writes", "of accesses"];
    let mut text = format!("\n{}", output::table(&header, &classes, 1));
    let header = ["hottest files", "class", "pages", "reads", "writes", "of accesses"];
    text += &format!("\n{}", output::table(&header, &hottest, 2));
    if !processes.is_empty() {
        let rows: Vec<Vec<String>> =
            processes.iter().map(|one| with_share(vec![one.process.clone()], &one.share)).collect();
        let header = ["process", "reads", "writes", "of the whole recording"];
        text += &format!("\n{}", output::table(&header, &rows, 1));
    }
    text
}

/// Return the figures of a trace, as names and values.
pub(crate) fn describe(stats: &Stats) -> Vec<Vec<String>> {
    let share = |share: f64| output::percent(share);
    let reads = 1.0 - stats.write_share;
    let mut rows = vec![
        ("requests", output::count(stats.requests)),
        ("  that write", share(stats.write_request_share)),
        ("  of length 0", output::count(stats.zero_length_requests)),
        ("bytes read", output::bytes(stats.read_bytes)),
        ("bytes written", output::bytes(stats.write_bytes)),
        ("page size", output::bytes(stats.page_size_bytes)),
        ("page accesses", output::count(stats.accesses)),
        ("  that read", format!("{} ({})", output::count(stats.reads), share(reads))),
        ("  that write", format!("{} ({})", output::count(stats.writes), share(stats.write_share))),
        ("volumes", output::count(stats.volumes as u64)),
        ("footprint", pages(u64::from(stats.footprint_pages), stats.page_size_bytes)),
        ("span", pages(stats.span_pages, stats.page_size_bytes)),
        ("requests that continue the previous one", share(stats.sequential_request_share)),
        ("accesses to the page after the previous one", share(stats.sequential_access_share)),
        ("pages touched once", share(stats.touched_once_share)),
        ("references per page", format!("{:.2}", stats.mean_references_per_page)),
    ];
    if stats.is_timed {
        let seconds = stats.duration().0 as f64 / 1e9;
        rows.push(("duration", format!("{seconds:.3} s")));
        rows.push(("requests earlier than the one before", output::count(stats.time_reversals)));
    }
    let mut rows: Vec<Vec<String>> =
        rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    for lru in &stats.lru {
        let name = format!(
            "LRU hit ratio at {} % of the footprint ({} pages)",
            lru.footprint_percent,
            output::count(u64::from(lru.capacity_pages))
        );
        rows.push(vec![name, share(lru.hit_ratio)]);
    }
    rows.extend(character(&stats.character));
    rows
}

/// Describe the character of the workload, row by row.
fn character(found: &Character) -> Vec<Vec<String>> {
    let share = |share: f64| output::percent(share);
    let mut rows = vec![
        ("Zipf exponent of the popularity", format!("{:.3}", found.zipf_skew)),
        ("  greatest error of that fit", share(found.zipf_error)),
        ("reads of a page that was written last", share(found.read_after_write_share)),
        ("writes of a page that was written last", share(found.write_after_write_share)),
        ("accesses in sequential runs of 16 pages and more", share(found.long_run_share)),
        ("mean sequential run", format!("{:.1} pages", found.mean_run_pages)),
        ("pages in a hundredth of the accesses, of all", share(found.working_set_1_percent)),
        ("pages in a tenth of the accesses, of all", share(found.working_set_10_percent)),
    ];
    if let Some(dispersion) = found.dispersion {
        rows.push(("variance / mean of the requests per second", format!("{dispersion:.1}")));
    }
    if let Some(drift) = found.popularity_drift {
        rows.push(("accesses that hot pages lose from one sixteenth to the next", share(drift)));
    }
    if let Some(p) = found.stationarity_p {
        let verdict = if p < 0.05 { "it grows or shrinks" } else { "no trend found" };
        rows.push(("trend of new pages in the second half", format!("{verdict} (p = {p:.3})")));
    }
    rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect()
}

fn pages(pages: u64, page_size_bytes: u64) -> String {
    let size = pages.saturating_mul(page_size_bytes);
    format!("{} pages ({})", output::count(pages), output::bytes(size))
}
