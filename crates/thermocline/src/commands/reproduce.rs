//! `thermocline reproduce`: a paper's experiments, its claims beside our figures.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use thermocline_papers::{Reproduction, Source, Take, TextTable, Wanted, Zipf};
use thermocline_trace::CompiledTrace;

use crate::arguments::{Reading, ReproduceOptions};
use crate::commands::compare::VERSION;
use crate::{output, reading};

/// Names the folder of traces that is used if the command line names none.
const TRACES_VARIABLE: &str = "THERMOCLINE_TRACES";
/// Parts of a folder of traces that are looked into as well.
const PARTS: [&str; 2] = ["captured", "public"];

/// Where the trace of a workload is.
enum Found {
    File(PathBuf),
    Bundled,
    Made(Zipf),
}

/// Runs the command: on the traces found, on the bundled one, and on those made on the spot.
pub(crate) fn run(options: &ReproduceOptions) -> Result<String> {
    let paper = options.paper;
    let mut reproduction = paper.reproduction()?;
    if options.list {
        return list(&*reproduction, &folders(options));
    }
    let found = find_workloads(&*reproduction, &folders(options))?;
    let places: Vec<usize> = found.iter().map(|(place, _)| *place).collect();
    let bar = progress(reproduction.runs(&places))?;
    reproduction.run_alone(&|| bar.inc(1))?;
    let mut left_out = 0;
    for (place, found) in found {
        let Wanted { name, take, .. } = reproduction.workloads()[place];
        let (name, take) = (name.to_owned(), take.clone());
        bar.set_message(name.clone());
        match open(&*reproduction, found, &take) {
            Ok(trace) => reproduction.run(place, &trace, &|| bar.inc(1)).context(name)?,
            Err(error) => {
                bar.suspend(|| output::note(&format!("note: left out {name}: {error:#}")));
                bar.inc(reproduction.runs(&[place]) as u64 - reproduction.runs(&[]) as u64);
                left_out += 1;
            }
        }
    }
    ensure!(
        left_out < places.len(),
        "none of the traces that were found can be read: the notes above say why"
    );
    bar.finish_and_clear();
    let report = reproduction.report(VERSION)?;
    let path = options.report.clone();
    let path = path.unwrap_or_else(|| format!("reproduce-{}.html", paper.name).into());
    output::write_file(&path, &report.to_html())?;
    output::note(&format!("report: {}", path.display()));
    if options.json {
        let json = reproduction.json().context("cannot write JSON")?;
        return Ok(format!("{json}\n"));
    }
    Ok(reproduction.tables().iter().map(text).collect())
}

/// The folders to look for traces in: the one named and its parts; none if none is named.
fn folders(options: &ReproduceOptions) -> Vec<PathBuf> {
    let named = options.traces.clone();
    let Some(folder) = named.or_else(|| std::env::var_os(TRACES_VARIABLE).map(PathBuf::from))
    else {
        return vec![];
    };
    let parts = PARTS.map(|part| folder.join(part)).into_iter().filter(|part| part.is_dir());
    let parts: Vec<PathBuf> = parts.collect();
    [folder].into_iter().chain(parts).collect()
}

/// The places of the workloads whose traces are there, in their order; says which are left out.
fn find_workloads(
    reproduction: &dyn Reproduction,
    folders: &[PathBuf],
) -> Result<Vec<(usize, Found)>> {
    let workloads = reproduction.workloads();
    let mut found = vec![];
    let mut wanted: Vec<&str> = vec![];
    for (place, &Wanted { name, source, .. }) in workloads.iter().enumerate() {
        match source {
            Source::Files(files) => {
                wanted.extend(files.iter().map(String::as_str));
                match find_first(folders, files)? {
                    Some(path) => found.push((place, Found::File(path))),
                    None => note_skipped(name, files, folders),
                }
            }
            Source::Bundled => found.push((place, Found::Bundled)),
            Source::Zipf(zipf) => found.push((place, Found::Made(*zipf))),
        }
    }
    let place = folders.first().map_or_else(
        || format!("give the folder of the traces with --traces DIR (or in the variable {TRACES_VARIABLE})"),
        |folder| format!("`{}` holds none of the traces", folder.display()),
    );
    ensure!(
        !found.is_empty(),
        "{place}; it or its parts {} hold traces named {}, such as recordings (tpcb.csv.zst beside tpcb.files.csv.zst), in any format",
        PARTS.map(|part| format!("`{part}`")).join(" and "),
        wanted.join(", ")
    );
    Ok(found)
}

/// What the paper wants, and what is there.
fn list(reproduction: &dyn Reproduction, folders: &[PathBuf]) -> Result<String> {
    let row = |&Wanted { name, source, is_original, .. }: &Wanted<'_>| {
        let (wanted, found) = match source {
            Source::Files(files) => {
                let wanted: Vec<String> = files.iter().map(|file| format!("{file}.*")).collect();
                let found = find_first(folders, files)?;
                let found = found.map_or("missing".into(), |path| path.display().to_string());
                (wanted.join(" or "), found)
            }
            Source::Bundled => ("-".into(), "comes with the program".into()),
            Source::Zipf(_) => ("-".into(), "made on the spot".into()),
        };
        let role = if is_original { "the paper's" } else { "stands in" };
        Ok(vec![name.to_owned(), role.into(), wanted, found])
    };
    let workloads = reproduction.workloads();
    let rows: Vec<Vec<String>> = workloads.iter().map(row).collect::<Result<_>>()?;
    Ok(output::table(&["workload", "trace", "file", "found"], &rows, 4))
}

/// The first of some traces that is there.
fn find_first(folders: &[PathBuf], names: &[String]) -> Result<Option<PathBuf>> {
    let paths = names.iter().map(|name| find_trace(folders, name));
    Ok(paths.collect::<Result<Vec<_>>>()?.into_iter().flatten().next())
}

/// The trace whose file name begins with `name.`, in any case; of several, the first by name.
fn find_trace(folders: &[PathBuf], name: &str) -> Result<Option<PathBuf>> {
    let begin = format!("{}.", name.to_lowercase());
    for folder in folders {
        let context = || format!("cannot list `{}`", folder.display());
        let mut found: Vec<PathBuf> = vec![];
        for entry in std::fs::read_dir(folder).with_context(context)? {
            let path = entry.with_context(context)?.path();
            if is_trace(&path, &begin) {
                found.push(path);
            }
        }
        found.sort();
        if let Some(first) = found.into_iter().next() {
            return Ok(Some(first));
        }
    }
    Ok(None)
}

/// Whether the name begins so, and is not that of a file that stands beside a recording.
fn is_trace(path: &Path, begin: &str) -> bool {
    let name = reading::file_name(path).to_lowercase();
    let rest = name.strip_prefix(begin);
    rest.is_some_and(|rest| !rest.starts_with("files.") && !rest.starts_with("stats."))
}

/// Says that a workload is left out, and why.
fn note_skipped(workload: &str, files: &[String], folders: &[PathBuf]) {
    let files: Vec<String> = files.iter().map(|file| format!("`{file}.*`")).collect();
    let files = files.join(" or ");
    let places: Vec<String> = folders.iter().map(|place| place.display().to_string()).collect();
    let reason = if places.is_empty() {
        format!("it needs a trace {files}: give its folder with --traces DIR")
    } else {
        format!("no trace {files} in {}", places.join(", "))
    };
    output::note(&format!("note: skipped {workload}: {reason}"));
}

/// Reads or makes a trace, in pages as the paper's experiments want them.
fn open(reproduction: &dyn Reproduction, found: Found, take: &Take) -> Result<CompiledTrace> {
    match found {
        Found::File(path) => {
            let only = take.only.clone();
            let mut reading = Reading { only, ..Reading::default() };
            if !CompiledTrace::is_saved(&path) {
                let stated = reading::open_reader(&path, &reading)?.page_size();
                reading.page_size = Some(reproduction.page_size(stated)?.bytes().to_string());
            }
            reading::open_head(&path, &reading, take.first_requests)
        }
        Found::Bundled => reading::open_bundled(),
        Found::Made(zipf) => Ok(zipf.trace(reproduction.page_size(None)?)?),
    }
}

/// A bar over runs, with a message.
fn progress(runs: usize) -> Result<ProgressBar> {
    let bar = ProgressBar::new(runs as u64);
    let style = "{bar:30} {pos}/{len} runs, {eta} left: {msg}";
    bar.set_style(ProgressStyle::with_template(style).context("the template is well-formed")?);
    Ok(bar)
}

fn text(table: &TextTable) -> String {
    let header: Vec<&str> = table.header.iter().map(String::as_str).collect();
    let title = table.title.as_ref().map_or_else(String::new, |title| format!("{title}\n"));
    title + &output::table(&header, &table.rows, table.numbers_from)
}
