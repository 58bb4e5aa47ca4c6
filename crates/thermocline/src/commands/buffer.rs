//! `thermocline buffer`: write buffers in front of an SSD.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use thermocline_device::ssd::Precondition;
use thermocline_lab::metric::buffer_columns;
use thermocline_lab::report::{Options, buffers as buffer_report};
use thermocline_lab::spec::{BufferSpec, DriveSpec, Selection, SsdSize};
use thermocline_lab::{BufferConfiguration, BufferSummary, TierSize, Watch, run_buffers};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::arguments::{BufferOptions, Reading};
use crate::commands::compare::VERSION;
use crate::hierarchy::{in_options, with_parameters};
use crate::{output, reading};

/// Runs the command; `command` is the command line, for the report.
pub(crate) fn run(options: &BufferOptions, command: &str) -> Result<String> {
    let spec = spec(options)?;
    let named = |error| in_options(error, |path| with_parameters(path, &spec.parameters));
    let buffers = spec.buffers().map_err(named)?;
    let trace = open(&options.trace, &options.reading, buffers.drive_page_bytes())?;
    let configurations = buffers.configurations(&trace).map_err(named)?;
    let summaries = run_all(&trace, &configurations, options.check)?;
    if let Some(path) = &options.report {
        let title = format!("Write buffers on {}", reading::file_name(&options.trace));
        let report = Options { title, command: command.into(), version: VERSION.into() };
        output::write_report(path, &buffer_report(&summaries, &report))?;
        output::note(&format!("report: {}", path.display()));
    }
    if options.json { output::json(&summaries) } else { Ok(table(&summaries)) }
}

/// Return the specification from the options.
fn spec(options: &BufferOptions) -> Result<BufferSpec> {
    Ok(BufferSpec {
        policies: Selection::new(&options.policy),
        sizes: options.size.clone(),
        ssd: (options.ssd != "none").then(|| DriveSpec::from(options.ssd.as_str())),
        ssd_size: options.ssd_size.as_deref().map(ssd_size).transpose()?,
        precondition: options.precondition.as_deref().map(precondition).transpose()?,
        placement: options.placement,
        streams: options.streams.clone(),
        flush_every: options.flush_every,
        closed_loop: options.closed_loop,
        parameters: options.parameters.clone(),
        is_checked: options.check,
    })
}

/// Runs all configurations in parallel, with a progress bar on a terminal.
pub(crate) fn run_all(
    trace: &CompiledTrace,
    configurations: &[BufferConfiguration],
    is_checked: bool,
) -> Result<Vec<BufferSummary>> {
    let bar = output::progress(configurations.len(), "buffers")?;
    let summaries =
        run_buffers(trace, configurations, is_checked, &Watch::default(), || bar.inc(1));
    bar.finish_and_clear();
    Ok(summaries?)
}

fn ssd_size(text: &str) -> Result<SsdSize> {
    if text == "fit" {
        return Ok(SsdSize::Fit);
    }
    let context = || format!("--ssd-size {text}: write a number of bytes, as in 4GiB, or fit");
    let size: TierSize = text.parse().with_context(context)?;
    Ok(SsdSize::Bytes(size.whole_bytes().with_context(context)?))
}

/// Parse `fill=0.9,overwrite=2,seed=7`. By default, the host writes all of the drive once, and overwrites
/// nothing.
fn precondition(text: &str) -> Result<Precondition> {
    let mut precondition = Precondition { fill: 1.0, overwrite: 0.0, seed: 1 };
    for part in text.split(',') {
        let context =
            || format!("--precondition {text}: write it as in fill=0.9,overwrite=2,seed=7");
        let (name, value) = part.split_once('=').with_context(context)?;
        match name {
            "fill" => precondition.fill = value.parse().with_context(context)?,
            "overwrite" => precondition.overwrite = value.parse().with_context(context)?,
            "seed" => precondition.seed = value.parse().with_context(context)?,
            _ => bail!(context()),
        }
    }
    Ok(precondition)
}

/// Opens the trace; with pages that the drive can hold, unless the user asks for others.
fn open(path: &Path, options: &Reading, drive_bytes: Option<u64>) -> Result<CompiledTrace> {
    let Some(drive_bytes) =
        drive_bytes.filter(|_| options.page_size.is_none() && !CompiledTrace::is_saved(path))
    else {
        return reading::open(path, options);
    };
    // Only a file can be opened twice.
    let reader = path.is_file().then(|| reading::open_reader(path, options)).transpose()?;
    let own_bytes = reader.and_then(|reader| reader.page_size()).map(PageSize::bytes);
    let page_bytes = own_bytes.filter(|own| own.is_multiple_of(drive_bytes)).unwrap_or(drive_bytes);
    let options = Reading { page_size: Some(page_bytes.to_string()), ..options.clone() };
    reading::open(path, &options)
}

/// Tabulate one row per run; the best of each column among equal sizes is marked.
fn table(summaries: &[BufferSummary]) -> String {
    let header = ["policy", "buffer pages"].map(String::from).to_vec();
    let names =
        |run: &BufferSummary| vec![run.policy.name.clone(), output::count(run.buffer_pages.into())];
    let are_rivals =
        |one: &BufferSummary, other: &BufferSummary| one.buffer_pages == other.buffer_pages;
    let table = output::figures(header, names, &buffer_columns(summaries), summaries, are_rivals);
    format!("{table}* best of its column among the buffers of equal size\n")
}
