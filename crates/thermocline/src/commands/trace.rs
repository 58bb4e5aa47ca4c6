//! `thermocline trace`: look at, convert and make traces.

mod capture;
pub(crate) mod information;
pub(crate) mod record;

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;
use thermocline_core::Nanos;
use thermocline_lab::report::{self, Options};
use thermocline_lab::{TierSize, round_interval};
use thermocline_trace::classes::{ClassOptions, ClassSummary, Classes};
use thermocline_trace::convert::{OutputFormat, convert};
use thermocline_trace::generate::{self, Generator, Pattern};
use thermocline_trace::profile::{FitOptions, Profile, ProfileGenerator, Scale};
use thermocline_trace::prompts::Conversations;
use thermocline_trace::{PageSize, TraceError};

use crate::arguments::{
    self, ClassesOptions, ConvertOptions, GenerateOptions, TraceCommand, TraceOptions, Workload,
};
use crate::commands::compare::VERSION;
use crate::{output, reading};

/// Runs the command; a recorded one's status goes to `status`.
pub(crate) fn run(options: &TraceOptions, command: &str, status: &mut u8) -> Result<String> {
    match &options.command {
        TraceCommand::Info(options) => information::info(options, command),
        TraceCommand::Classes(options) => classes(options, command),
        TraceCommand::Convert(options) => convert_trace(options),
        TraceCommand::Record(options) => {
            let (text, code) = record::record(options)?;
            *status = code;
            Ok(text)
        }
        TraceCommand::Fit(options) => fit(options),
        TraceCommand::Generate(options) => generate_trace(options),
    }
}

/// JSON form of `trace classes`.
#[derive(Serialize)]
struct ClassesJson {
    path: String,
    #[serde(flatten)]
    classes: Classes,
}

fn classes(options: &ClassesOptions, command: &str) -> Result<String> {
    let short: TierSize = options.short_distance.parse()?;
    let trace = reading::open(&options.trace, &options.reading)?;
    ensure!(trace.writes() > 0, "`{}` has no writes to class", options.trace.display());
    let short_distance_pages =
        short.pages("distance", trace.page_size_bytes(), trace.footprint_pages(), None)?;
    let interval_writes = options.interval.unwrap_or_else(|| round_interval(trace.writes()));
    let class_options = ClassOptions {
        frequent_writes: options.frequent_writes,
        short_distance_pages: u64::from(short_distance_pages),
        interval_writes,
    };
    let classes = Classes::of(&trace, class_options);
    if let Some(path) = &options.report {
        let title =
            format!("Classes of the written pages of {}", reading::file_name(&options.trace));
        let report = Options { title, command: command.into(), version: VERSION.into() };
        output::write_report(path, &report::classes(&classes, &report))?;
        output::note(&format!("report: {}", path.display()));
    }
    let path = options.trace.display().to_string();
    if options.json {
        return output::json(&ClassesJson { path, classes });
    }
    let row = |one: &ClassSummary| {
        vec![
            one.class.name().to_owned(),
            output::count(one.pages),
            output::percent(one.page_share),
            output::count(one.writes),
            output::percent(one.write_share),
            format!("{:.2}", one.mean_writes_per_page),
            one.mean_distance_pages.map_or_else(|| "-".into(), |mean| format!("{mean:.0}")),
        ]
    };
    let rows: Vec<Vec<String>> = classes.classes.iter().map(row).collect();
    let header = [
        "class",
        "pages",
        "of pages",
        "writes",
        "of writes",
        "writes per page",
        "re-use distance, pages",
    ];
    Ok(format!(
        "{path}: {} writes of {} pages; F: at least {} writes, S: re-use distance of at most {} pages\n{}",
        output::count(classes.writes),
        output::count(classes.pages),
        output::count(classes.frequent_writes),
        output::count(classes.short_distance_pages),
        output::table(&header, &rows, 1)
    ))
}

/// Default format of written traces.
const CSV: &str = "csv";
const MOONCAKE: &str = "mooncake";
/// The names of the compiled forms, which are no formats of requests.
const COMPILED: &str = "compiled";
const MAPPED: &str = "mapped";

fn convert_trace(options: &ConvertOptions) -> Result<String> {
    if let Some(source) = &options.from {
        return capture::convert_recording(source, options);
    }
    capture::refuse(&options.capture)?;
    let to = options.to.as_deref().unwrap_or_default();
    let written = if to == COMPILED || to == MAPPED {
        let trace = reading::open(&options.trace, &options.reading)?;
        if to == MAPPED {
            trace.save_mapped(&options.output)?;
        } else {
            trace.save(&options.output)?;
        }
        trace.len() as u64
    } else {
        let format = output_format(to)?;
        let reader = reading::open_reader(&options.trace, &options.reading)?;
        let page_size = reading::page_size(&options.reading, &reader)?;
        let reader = reading::WithProgress::new(reader)?;
        let mut part = reading::part(reader, &options.reading);
        let written = convert(&mut part, &options.output, format, page_size)?;
        part.into_source().finish();
        written
    };
    written_to(&options.output, to, written, options.json)
}

fn output_format(name: &str) -> Result<OutputFormat> {
    name.parse().map_err(|error: TraceError| anyhow::anyhow!("{error}, {COMPILED}, {MAPPED}"))
}

/// JSON form of `trace fit`.
#[derive(Serialize)]
struct Fitted {
    path: String,
    bytes: usize,
    accesses: u64,
    writes: u64,
    requests: u64,
    footprint_pages: u64,
}

fn fit(options: &arguments::FitOptions) -> Result<String> {
    let trace = reading::open(&options.trace, &options.reading)?;
    let profile = Profile::fit(&trace, FitOptions::default());
    let text = profile.to_string();
    output::write_file(&options.output, &text)?;
    let fitted = Fitted {
        path: options.output.display().to_string(),
        bytes: text.len(),
        accesses: profile.accesses(),
        writes: profile.writes(),
        requests: profile.requests(),
        footprint_pages: profile.footprint_pages(),
    };
    if options.json {
        return output::json(&fitted);
    }
    let Fitted { path, bytes, accesses, footprint_pages, .. } = fitted;
    Ok(format!(
        "{path}: {} bytes for {} accesses to {} pages\n",
        output::count(bytes as u64),
        output::count(accesses),
        output::count(footprint_pages)
    ))
}

/// Generates a trace like the one that a profile was fitted to.
fn generate_like(profile: &Path, options: &GenerateOptions) -> Result<String> {
    let to = options.to.as_deref().unwrap_or(CSV);
    let format: OutputFormat = to.parse()?;
    let profile = Profile::read(profile)?;
    let page_size = PageSize::new(profile.page_size_bytes())?;
    let scale = match (options.accesses, options.footprint) {
        (Some(accesses), _) => Scale::Accesses(accesses),
        (None, Some(pages)) => Scale::Footprint(pages),
        (None, None) => Scale::One,
    };
    let mut generator = ProfileGenerator::new(profile, scale, options.seed)?;
    let written = convert(&mut generator, &options.output, format, page_size)?;
    written_to(&options.output, to, written, options.json)
}

fn generate_trace(options: &GenerateOptions) -> Result<String> {
    if let Some(profile) = &options.profile {
        return generate_like(profile, options);
    }
    let to = options.to.as_deref().unwrap_or(CSV);
    let pattern = match options.kind {
        Workload::Zipf => Pattern::Zipf { alpha: options.alpha },
        Workload::Uniform => Pattern::Uniform,
        Workload::Sequential => Pattern::Sequential,
        Workload::Loop => Pattern::Loop,
        Workload::Oltp => Pattern::OLTP,
        Workload::Conversations => return generate_conversations(options),
    };
    let format: OutputFormat = to.parse()?;
    let mut generator = Generator::new(generate::Options {
        pattern,
        requests: options.requests,
        pages: options.pages,
        write_share: options.write_share,
        interarrival: Nanos(options.interval_us.unwrap_or(100).saturating_mul(1000)),
        scatter: options.scatter,
        shift: options.shift_every.map(|every_requests| generate::Shift {
            every_requests,
            pages: options.shift_pages.unwrap_or((options.pages / 10).max(1)),
        }),
        seed: options.seed,
    })?;
    let page_size = options.page_size.parse()?;
    let written = convert(&mut generator, &options.output, format, page_size)?;
    written_to(&options.output, to, written, options.json)
}

/// Makes prompts up, as lines of Mooncake's format with sessions.
fn generate_conversations(options: &GenerateOptions) -> Result<String> {
    let to = options.to.as_deref().unwrap_or(MOONCAKE);
    if to != MOONCAKE {
        bail!("--to {to}: conversations are written as {MOONCAKE}");
    }
    let own = options.conversations;
    let defaults = Conversations::default();
    let interval = options.interval_us.map(|us| Nanos(us.saturating_mul(1000)));
    let conversations = Conversations {
        prompts: u32::try_from(options.requests)
            .with_context(|| format!("--requests {}: up to {}", options.requests, u32::MAX))?,
        block_tokens: own.block_tokens,
        concurrent: own.concurrent,
        system_prompts: own.system_prompts,
        system_tokens: own.system_tokens,
        next_turn: own.next_turn,
        branch: own.branch,
        agents: own.agents,
        user_tokens: own.user_tokens,
        answer_tokens: own.answer_tokens,
        tool_tokens: own.tool_tokens,
        interarrival: interval.unwrap_or(defaults.interarrival),
        seed: options.seed,
    };
    let mut lines = String::new();
    for row in conversations.rows()? {
        lines += &row.to_string();
        lines.push('\n');
    }
    output::write_file(&options.output, &lines)?;
    written_to(&options.output, to, options.requests, options.json)
}

/// Report of a written file, for people or tools.
#[derive(Serialize)]
struct Written<'a> {
    path: String,
    format: &'a str,
    records: u64,
}

fn written_to(path: &Path, format: &str, records: u64, is_json: bool) -> Result<String> {
    let path = path.display().to_string();
    if is_json {
        return output::json(&Written { path, format, records });
    }
    Ok(format!("{path}: {} records of {format}\n", output::count(records)))
}
