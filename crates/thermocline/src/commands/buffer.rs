//! `thermocline buffer`: write buffers in front of an SSD.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use thermocline_core::hotness;
use thermocline_core::registry::{self, Entry};
use thermocline_device::ssd::Precondition;
use thermocline_lab::metric::buffer_columns;
use thermocline_lab::report::{Options, buffers as buffer_report};
use thermocline_lab::{
    Arrivals, BufferConfiguration, BufferSummary, BufferedSsd, Given, Owner, TierSize, Watch,
    find_ssd, run_buffers,
};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::arguments::{BufferOptions, Reading};
use crate::commands::buffers;
use crate::commands::compare::{VERSION, command_line};
use crate::{output, reading};

/// Runs the command.
pub(crate) fn run(options: &BufferOptions) -> Result<String> {
    let asked = Asked::new(options)?;
    let trace = open(&options.trace, &options.reading, asked.ssd.as_ref())?;
    let configurations = asked.configurations(&trace)?;
    let summaries = run_all(&trace, &configurations, options.check)?;
    if let Some(path) = &options.report {
        let title = format!("Write buffers on {}", reading::file_name(&options.trace));
        let report = Options { title, command: command_line(), version: VERSION.into() };
        output::write_file(path, &buffer_report(&summaries, &report)?.to_html())?;
        output::note(&format!("report: {}", path.display()));
    }
    if options.json { output::json(&summaries) } else { Ok(table(&summaries)) }
}

/// The options, understood as far as they can be without the trace.
pub(crate) struct Asked<'a> {
    options: &'a BufferOptions,
    policies: Vec<&'static Entry>,
    sizes: Vec<TierSize>,
    ssd: Option<BufferedSsd>,
    streams: Option<&'static hotness::registry::Entry>,
    parameters: Given<'a>,
}

impl<'a> Asked<'a> {
    pub(crate) fn new(options: &'a BufferOptions) -> Result<Self> {
        let policies: Vec<&'static Entry> = match options.policy.as_slice() {
            [all] if all == "all" => registry::BUFFERS.iter().collect(),
            names => names.iter().map(|name| buffers::find(name)).collect::<Result<_>>()?,
        };
        let size = |size: &String| size.parse().with_context(|| format!("--size {size}"));
        let sizes: Vec<TierSize> = options.size.iter().map(size).collect::<Result<_>>()?;
        let ssd = ssd(options)?;
        let streams = options.streams.as_deref().map(hotness::registry::find).transpose()?;
        let mut owners: Vec<Owner> = policies.iter().map(|&policy| policy.into()).collect();
        owners.extend(streams.map(Owner::from));
        let parameters = Given::parse(&options.parameters, &owners)?;
        Ok(Self { options, policies, sizes, ssd, streams, parameters })
    }

    /// One for each size and policy, policies last.
    pub(crate) fn configurations(&self, trace: &CompiledTrace) -> Result<Vec<BufferConfiguration>> {
        let Self { options, parameters, .. } = self;
        let ssd = match self.ssd.clone() {
            Some(mut ssd) => {
                if let Some(identifier) = self.streams {
                    ssd.config.streams = 2;
                    let values = identifier.values(&parameters.of(identifier.into()))?;
                    ssd.streams = Some((identifier, values));
                }
                // Two streams keep more blocks open, which a drive of the size asked for must have.
                Some(sized(ssd, options.ssd_size.as_deref(), trace)?)
            }
            None => None,
        };
        let arrivals =
            options.closed_loop.map_or(Arrivals::Trace, |requests| Arrivals::Closed { requests });
        let mut configurations = vec![];
        for &size in &self.sizes {
            for &policy in &self.policies {
                let parameters = parameters.of(policy.into());
                let (ssd, watch) = (ssd.clone(), Watch::default());
                configurations.push(BufferConfiguration {
                    policy,
                    parameters,
                    size,
                    ssd,
                    arrivals,
                    watch,
                });
            }
        }
        Ok(configurations)
    }
}

/// Runs all configurations in parallel, with a progress bar on a terminal.
pub(crate) fn run_all(
    trace: &CompiledTrace,
    configurations: &[BufferConfiguration],
    is_checked: bool,
) -> Result<Vec<BufferSummary>> {
    let bar = output::progress(configurations.len(), "buffers")?;
    let summaries = run_buffers(trace, configurations, is_checked, || bar.inc(1));
    bar.finish_and_clear();
    Ok(summaries?)
}

/// The drive asked for, at its own size.
fn ssd(options: &BufferOptions) -> Result<Option<BufferedSsd>> {
    if options.ssd == "none" {
        let without = [
            ("--ssd-size", options.ssd_size.is_some()),
            ("--precondition", options.precondition.is_some()),
            ("--streams", options.streams.is_some()),
            ("--closed-loop", options.closed_loop.is_some()),
        ];
        if let Some((flag, _)) = without.iter().find(|(_, is_given)| *is_given) {
            bail!("{flag} needs a drive: give one with --ssd, as in --ssd ssdsim");
        }
        return Ok(None);
    }
    let config = find_ssd(&options.ssd)?;
    let precondition = options.precondition.as_deref().map(precondition).transpose()?;
    Ok(Some(BufferedSsd { precondition, ..BufferedSsd::new(config) }))
}

/// The drive at the size asked for.
fn sized(ssd: BufferedSsd, size: Option<&str>, trace: &CompiledTrace) -> Result<BufferedSsd> {
    match size {
        None => Ok(ssd),
        Some("fit") => Ok(ssd.fitted(trace, 1.0)?),
        Some(text) => {
            let context =
                || format!("--ssd-size {text}: write a number of bytes, as in 4GiB, or fit");
            let TierSize::Bytes(bytes) = text.parse().with_context(context)? else {
                bail!(context());
            };
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "sizes are not negative, and saturate"
            )]
            let pages = (bytes / f64::from(ssd.config.page_bytes)) as u64;
            let config = ssd.config.sized_for(pages)?;
            Ok(BufferedSsd { config, ..ssd })
        }
    }
}

/// `fill=0.9,overwrite=2,seed=7`: all of it written once if not said otherwise, and nothing twice.
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
    precondition.validate()?;
    Ok(precondition)
}

/// Opens the trace; with pages that the drive can hold, unless the user asks for others.
fn open(path: &Path, options: &Reading, ssd: Option<&BufferedSsd>) -> Result<CompiledTrace> {
    let Some(ssd) = ssd.filter(|_| options.page_size.is_none() && !CompiledTrace::is_saved(path))
    else {
        return reading::open(path, options);
    };
    let drive_bytes = u64::from(ssd.config.page_bytes);
    let own_bytes = reading::open_reader(path, options)?.page_size().map(PageSize::bytes);
    let page_bytes = own_bytes.filter(|own| own.is_multiple_of(drive_bytes)).unwrap_or(drive_bytes);
    let options = Reading { page_size: Some(page_bytes.to_string()), ..options.clone() };
    reading::open(path, &options)
}

/// One row per run; the best of each column among equal sizes is marked.
fn table(summaries: &[BufferSummary]) -> String {
    let header = ["policy", "buffer pages"].map(String::from).to_vec();
    let names =
        |run: &BufferSummary| vec![run.policy.name.clone(), output::count(run.buffer_pages.into())];
    let are_rivals =
        |one: &BufferSummary, other: &BufferSummary| one.buffer_pages == other.buffer_pages;
    let table = output::figures(header, names, &buffer_columns(summaries), summaries, are_rivals);
    format!("{table}* best of its column among the buffers of equal size\n")
}
