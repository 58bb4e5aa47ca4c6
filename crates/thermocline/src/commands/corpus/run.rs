//! `thermocline corpus run`: a manifest's traces by policies by sizes, into a Parquet data set.

use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use thermocline_lab::corpus::{Outcome, Plan, Progress, Request, RunSettings};
use thermocline_lab::mrc::Rate;
use thermocline_lab::spec::{BufferSpec, DriveSpec, Selection, SsdSize};

use super::dask;
use super::traces::manifest;
use crate::arguments::CorpusRunOptions;
use crate::hierarchy::{in_hierarchy, spec};
use crate::{interrupt, output};

/// Runs the command.
pub(super) fn run(options: &CorpusRunOptions) -> Result<String> {
    let manifest = manifest(&options.manifest)?;
    let request = request(options)?;
    let plan = Plan::new(Arc::new(manifest), &request, &[])
        .map_err(|error| in_hierarchy(error, &options.hierarchy, &request.spec))?;
    let outcome = match &options.dask {
        Some(address) => dask::run(address, options, &request)?,
        None => here(&plan, options)?,
    };
    if options.json { output::json(&outcome) } else { Ok(sentence(&outcome, options)) }
}

/// Runs the points in threads of this process.
fn here(plan: &Plan, options: &CorpusRunOptions) -> Result<Outcome> {
    let settings = RunSettings {
        threads: options.threads.map_or_else(processors, |threads| threads as usize),
        memory_bytes: options.memory.0,
        compiled: options.compiled.clone(),
    };
    let bar = output::progress(plan.trace_count() * plan.points_per_trace(), "points")?;
    let outcome = interrupt::stopping(|watch| {
        plan.run(&options.output, &settings, watch, |progress| match progress {
            Progress::Reused(points) => {
                bar.set_position(points as u64);
                // The time that is left is estimated from what is run now.
                bar.reset_eta();
            }
            Progress::Finished(points) => bar.inc(points as u64),
        })
    })?;
    bar.finish_and_clear();
    Ok(outcome?)
}

/// Return the number of points that run at the same time by default.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Return the points that the options of the command ask for.
pub(crate) fn request(options: &CorpusRunOptions) -> Result<Request> {
    let over_time = options.hierarchy.over_time;
    ensure!(over_time.is_none(), "--over-time: results of a corpus have no figures over time");
    let spec = spec(&options.hierarchy)?;
    let sample =
        options.sample.as_deref().map(|text| rate(text, options.sample_seed)).transpose()?;
    Ok(Request {
        policies: Selection::new(&options.policy),
        buffers: (!options.buffer.is_empty()).then(|| buffers(options)),
        options: options.hierarchy.run_options(),
        spec,
        seeds: options.seeds,
        split: options.split,
        datasets: options.dataset.clone(),
        sample,
        shard: options.shard,
    })
}

fn rate(text: &str, seed: u64) -> Result<Rate> {
    if text == "auto" {
        return Ok(Rate::Auto { seed });
    }
    let wrong = || format!("--sample {text}: write a share of the pages, as in 0.01, or auto");
    let rate: f64 = text.parse().with_context(wrong)?;
    ensure!(rate > 0.0 && rate <= 1.0, wrong());
    Ok(Rate::Fixed { rate, seed })
}

fn buffers(options: &CorpusRunOptions) -> BufferSpec {
    let ssd = (options.ssd != "none").then(|| DriveSpec::from(options.ssd.as_str()));
    BufferSpec {
        policies: Selection::new(&options.buffer),
        sizes: options.buffer_size.clone(),
        ssd_size: ssd.is_some().then_some(SsdSize::Fit),
        ssd,
        precondition: None,
        placement: None,
        streams: None,
        flush_every: None,
        closed_loop: options.buffer_closed_loop,
        parameters: options.buffer_parameters.clone(),
        is_checked: options.hierarchy.check,
    }
}

fn sentence(outcome: &Outcome, options: &CorpusRunOptions) -> String {
    let Outcome { traces, ran_points, reused_points, left_out_points, dropped_results, rows } =
        *outcome;
    let count = |number: usize| output::count(number as u64);
    let mut text = format!(
        "{} traces: {} points run, {} found finished; {} results in `{}`\n",
        count(traces),
        count(ran_points),
        count(reused_points),
        count(rows),
        options.output.display()
    );
    if left_out_points > 0 {
        text += &format!(
            "{} points are left out, because a tier would have less than one page\n",
            count(left_out_points)
        );
    }
    if dropped_results > 0 {
        text += &format!(
            "{} earlier results are of traces that the manifest does not have, and were dropped\n",
            count(dropped_results)
        );
    }
    text
}
