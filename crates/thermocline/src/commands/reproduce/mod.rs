//! `thermocline reproduce`: a study's experiments, its claims beside our figures.

mod folder;

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use thermocline_papers::{Named, Reproduction, Source, Take, TextTable, Wanted, Zipf};
use thermocline_trace::CompiledTrace;

use crate::arguments::ReproduceOptions;
use crate::commands::compare::VERSION;
use crate::{output, reading};
use folder::{Files, Folder};

/// Names the folder of traces that is used if the command line names none.
const TRACES_VARIABLE: &str = "THERMOCLINE_TRACES";

/// Location of a workload's trace.
enum Found {
    Files(Files),
    Bundled,
    Made(Zipf),
}

/// Runs the command: on the traces found, on the bundled one, and on those made on the spot.
pub(crate) fn run(options: &ReproduceOptions) -> Result<String> {
    let study = options.study;
    let mut reproduction = study.reproduction()?;
    if let Some(number) = options.figure {
        reproduction.check_figure(number)?;
    }
    let folder = folder(options)?;
    if options.list {
        return Ok(list(&*reproduction, &folder));
    }
    if options.engine {
        let bar = progress(reproduction.runs(&[]))?;
        reproduction.run_on_engine(options.scale, &|| bar.inc(1))?;
        bar.finish_and_clear();
    } else {
        run_on_traces(&mut *reproduction, &folder)?;
    }
    let report = reproduction.report(VERSION, options.figure);
    let path = options.report.clone();
    let path = path.unwrap_or_else(|| format!("reproduce-{}.html", study.name).into());
    output::write_report(&path, &report)?;
    output::note(&format!("report: {}", path.display()));
    if options.json {
        let json = reproduction.json().context("cannot write JSON")?;
        return Ok(format!("{json}\n"));
    }
    Ok(reproduction.tables().iter().map(text).collect())
}

/// Makes all runs, on the traces that are there.
fn run_on_traces(reproduction: &mut dyn Reproduction, folder: &Folder) -> Result<()> {
    let found = find_workloads(reproduction, folder)?;
    let places: Vec<usize> = found.iter().map(|(place, _)| *place).collect();
    let runs = reproduction.runs(&places);
    let bar = progress(runs)?;
    reproduction.run_alone(&|| bar.inc(1))?;
    let mut left_out = 0;
    for (place, found) in found {
        let Wanted { name, take, .. } = reproduction.workloads()[place];
        let (name, take) = (name.to_owned(), take.clone());
        bar.set_message(name.clone());
        if bar.is_hidden() {
            output::note(&format!("{} of {} runs; next: {name}", bar.position(), runs));
        }
        match open(reproduction, found, &take) {
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
    Ok(())
}

/// Return the folder to look for traces in; without files if none is named.
fn folder(options: &ReproduceOptions) -> Result<Folder> {
    let named = options.traces.clone();
    let root = named.or_else(|| std::env::var_os(TRACES_VARIABLE).map(PathBuf::from));
    root.map_or_else(|| Ok(Folder::default()), Folder::read)
}

/// Return the places of the workloads whose traces are there, in their order; says which are left
/// out.
fn find_workloads(reproduction: &dyn Reproduction, folder: &Folder) -> Result<Vec<(usize, Found)>> {
    let workloads = reproduction.workloads();
    let mut found = vec![];
    let mut wanted = vec![];
    for (place, &Wanted { name, source, .. }) in workloads.iter().enumerate() {
        match source {
            Source::Files(names) => {
                wanted.extend(names.iter().map(Named::pattern));
                match folder.find(names) {
                    Some(files) => {
                        if files.wanted.is_some() {
                            output::note(&format!("note: {name}: {} are there", files.words()));
                        }
                        found.push((place, Found::Files(files)));
                    }
                    None => note_skipped(name, names, folder),
                }
            }
            Source::Bundled => found.push((place, Found::Bundled)),
            Source::Zipf(zipf) => found.push((place, Found::Made(*zipf))),
        }
    }
    let place = folder.root().map_or_else(
        || format!("give the folder of the traces with --traces DIR (or in the variable {TRACES_VARIABLE})"),
        |root| format!("`{}` holds none of the traces", root.display()),
    );
    ensure!(
        !found.is_empty(),
        "{place}; it or the folders in it hold traces named {}, such as recordings (tpcb.csv.zst beside tpcb.files.csv.zst), in any format",
        wanted.join(", ")
    );
    Ok(found)
}

/// List the traces that the study needs, and those that exist.
fn list(reproduction: &dyn Reproduction, folder: &Folder) -> String {
    let row = |&Wanted { name, source, is_original, .. }: &Wanted<'_>| {
        let (wanted, found) = match source {
            Source::Files(names) => {
                let wanted: Vec<String> = names.iter().map(Named::pattern).collect();
                let missing = || match source.origin() {
                    Some(origin) => format!("missing: {origin}"),
                    None => "missing".into(),
                };
                let found = folder.find(names).map_or_else(missing, |files| files.words());
                (wanted.join(" or "), found)
            }
            Source::Bundled => ("-".into(), "comes with the program".into()),
            Source::Zipf(_) => ("-".into(), "made on the spot".into()),
        };
        let role = if is_original { "original" } else { "stand-in" };
        vec![name.to_owned(), role.into(), wanted, found]
    };
    let rows: Vec<Vec<String>> = reproduction.workloads().iter().map(row).collect();
    let table = output::table(&["workload", "trace", "file", "found"], &rows, 4);
    let figures: Vec<String> = reproduction.figures().iter().map(ToString::to_string).collect();
    if figures.is_empty() {
        return table;
    }
    let figures = figures.join(", ");
    format!(
        "{table}\nFigures of the paper that the report makes again, each alone with --figure N: {figures}. Nothing is run for its other figures.\n"
    )
}

/// Says that a workload is left out, and why.
fn note_skipped(workload: &str, names: &[Named], folder: &Folder) {
    let files: Vec<String> = names.iter().map(|named| format!("`{}`", named.pattern())).collect();
    let files = files.join(" or ");
    let reason = folder.root().map_or_else(
        || format!("it needs a trace {files}: give its folder with --traces DIR"),
        |root| format!("no trace {files} in {}", root.display()),
    );
    output::note(&format!("note: skipped {workload}: {reason}"));
}

/// Reads or makes a trace, in pages as the study wants them.
fn open(reproduction: &dyn Reproduction, found: Found, take: &Take) -> Result<CompiledTrace> {
    match found {
        Found::Files(Files { paths, .. }) => {
            let page_size = |stated| reproduction.page_size(stated);
            reading::open_taken(paths, take, page_size)
        }
        Found::Bundled => Ok(thermocline_lab::bundled_trace()?),
        Found::Made(zipf) => Ok(zipf.trace(reproduction.page_size(None)?)?),
    }
}

/// Return a bar over runs, with a message.
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
