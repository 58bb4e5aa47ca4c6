//! Display while listening.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressStyle};
use thermocline_lab::Watch;
use thermocline_lab::advising::{Asked, Hardware, Workload};
use thermocline_trace::RunningSample;

use crate::output;

/// Forecasts while listening take no more than this part of the time.
const FORECASTS_PART: u32 = 100;
/// Number of accesses before the first forecast.
const FORECAST_FIRST_ACCESSES: u64 = 100_000;

/// A line that is written again and again.
pub(super) struct Live {
    bar: ProgressBar,
    hits: String,
    next_forecast: Option<Instant>,
}

impl Live {
    pub(super) fn new(name: String, duration: Option<Duration>) -> Result<Self> {
        let bar =
            duration.map_or_else(ProgressBar::no_length, |most| ProgressBar::new(most.as_secs()));
        let template = match duration {
            Some(_) => "{prefix} {elapsed} of {len} s: {msg}",
            None => "{prefix} {elapsed}: {msg} (Ctrl-C ends it)",
        };
        bar.set_style(
            ProgressStyle::with_template(template).context("the template is well-formed")?,
        );
        bar.set_prefix(name);
        Ok(Self { bar, hits: String::new(), next_forecast: None })
    }

    pub(super) fn show(
        &mut self,
        sample: &RunningSample,
        elapsed: Duration,
        asked: &Asked,
        hardware: &Hardware,
    ) {
        let totals = sample.totals();
        let is_due = self.next_forecast.is_none_or(|next| Instant::now() >= next);
        // Nobody looks on without a terminal.
        if !self.bar.is_hidden() && is_due && totals.accesses >= FORECAST_FIRST_ACCESSES {
            let begun = Instant::now();
            self.hits = hits(sample, asked, hardware).unwrap_or_default();
            self.next_forecast = Some(Instant::now() + begun.elapsed() * FORECASTS_PART);
        }
        let rate = totals.requests as f64 / elapsed.as_secs_f64().max(1e-3);
        self.bar.set_message(format!(
            "{} requests, {rate:.0}/s, {} of the pages written, 1 in {:.0} kept{}",
            output::count(totals.requests),
            output::percent(totals.writes as f64 / totals.accesses.max(1) as f64),
            1.0 / sample.rate(),
            self.hits
        ));
        self.bar.tick();
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Describe the present cache's hit ratio so far.
fn hits(sample: &RunningSample, asked: &Asked, hardware: &Hardware) -> Option<String> {
    let today = asked.today.as_ref()?;
    let workload = Workload::new(sample, Path::new("live")).ok()?;
    let forecast = workload.forecast(today, hardware, &Watch::default()).ok()?;
    Some(format!(", {} hits {}", today.name, output::percent(forecast.hit_ratio.estimate)))
}
