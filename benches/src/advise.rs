//! Compares the forecast of `advise` from the first half of a trace with the second half.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use thermocline_lab::Watch;
use thermocline_lab::advising::{Cache, Forecast, Hardware, Kind, Range, Workload, settings_of};
use thermocline_lab::spec::DeviceSpec;
use thermocline_trace::{PageSize, ReadOptions, Reader, Request, Requests as _, RunningSample};

/// Sizes of flash, as shares of all pages that a trace accesses.
const SHARES: [f64; 2] = [0.05, 0.2];
/// Memory of caches that have it, as a share of flash.
const RAM_SHARE: f64 = 0.1;
/// The sampled forecast keeps the requests of the half divided by this number.
const FEWER: usize = 4;
/// Minimum number of requests that it keeps.
const LEAST_REQUESTS: usize = 250_000;

/// Arguments of the benchmark.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The traces
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// Samples that are taken of each trace, each of other extents
    #[arg(long, default_value_t = 1)]
    seeds: u64,
}

/// Counts of intervals that cover the second half, and errors of the estimates.
#[derive(Default)]
struct Tally {
    cases: usize,
    covered_hits: usize,
    covered_writes: usize,
    /// Errors of the hit ratio from the first half to the second.
    errors: Vec<f64>,
    /// Errors of the sampled hit ratio of the same requests, of each trace and policy.
    sampled_errors: BTreeMap<(String, String), Vec<f64>>,
}

/// Runs the benchmark.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let device = |name: &str| DeviceSpec { name: Some(name.into()), ..DeviceSpec::default() };
    let hardware =
        Hardware { flash: device("sata-ssd"), disk: device("hdd-7200"), endurance_cycles: 1825.0 };
    println!(
        "| trace | cache | flash, pages | first half | interval | second half | flash writes, covered |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let mut tally = Tally::default();
    for path in &arguments.traces {
        one(path, arguments.seeds, &hardware, &mut tally)
            .with_context(|| path.display().to_string())?;
    }
    let share = |count: usize| 100.0 * count as f64 / tally.cases.max(1) as f64;
    let mean = |errors: &[f64]| {
        100.0 * errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len().max(1) as f64
    };
    let mut by_word: [BTreeMap<&str, Vec<f64>>; 2] = Default::default();
    for ((trace, policy), errors) in &tally.sampled_errors {
        for (by_word, word) in by_word.iter_mut().zip([policy, trace]) {
            by_word.entry(word).or_default().extend(errors);
        }
    }
    for (title, by_word) in ["policy", "trace"].into_iter().zip(&by_word) {
        println!(
            "\n| {title} | sampled beside all requests, mean error | the same with its sign | cases |"
        );
        println!("| --- | --- | --- | --- |");
        for (word, errors) in by_word {
            let bias = 100.0 * errors.iter().sum::<f64>() / errors.len() as f64;
            println!("| {word} | {:.2} points | {bias:+.2} | {} |", mean(errors), errors.len());
        }
    }
    let sampled: Vec<f64> = tally.sampled_errors.into_values().flatten().collect();
    println!(
        "\n{} cases: intervals cover the second half's hit ratio in {:.0} % and its flash writes in {:.0} %; mean error {:.2} points; sampled beside all requests: mean error {:.2} points of {} cases",
        tally.cases,
        share(tally.covered_hits),
        share(tally.covered_writes),
        mean(&tally.errors),
        mean(&sampled),
        sampled.len(),
    );
    Ok(())
}

fn one(path: &PathBuf, seeds: u64, hardware: &Hardware, tally: &mut Tally) -> Result<()> {
    let mut reader = Reader::open(path, &ReadOptions::default())?;
    let page_size = reader.page_size().unwrap_or(PageSize::DEFAULT);
    let (mut requests, mut batch): (Vec<Request>, Vec<Request>) = (vec![], vec![]);
    while reader.read_batch(&mut batch)? {
        requests.extend_from_slice(&batch);
    }
    let names = reader.volume_names().to_vec();
    let sample = |requests: &[Request], most: usize, seed: u64| {
        let mut sample = RunningSample::new(page_size, seed).with_most_requests(most);
        sample.name_volumes(&names);
        for request in requests {
            sample.add(request);
        }
        Workload::new(&sample, path)
    };
    let half = requests.len() / 2;
    let first = sample(&requests[..half], usize::MAX / 8, 1)?;
    let whole = sample(&requests, usize::MAX / 8, 1)?;
    let most = (half / FEWER).max(LEAST_REQUESTS);
    let seeded = (1..=seeds).map(|seed| sample(&requests[..half], most, seed));
    let mut seeded: Vec<Workload> = seeded.collect::<Result<_, _>>()?;
    // A half that fits is no sample.
    seeded.retain(|workload| workload.rate() < 1.0);
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    for kind in Kind::ALL {
        for share in SHARES {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
            let flash_bytes = (first.footprint_bytes() * share) as u64;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
            let ram_bytes = match kind {
                Kind::Zfs | Kind::Thermocline => (flash_bytes as f64 * RAM_SHARE) as u64,
                Kind::Lvmcache | Kind::Writecache | Kind::Bcache | Kind::OpenCas => 0,
            };
            for cache in settings_of(kind, &first.place(ram_bytes, flash_bytes)) {
                let forecast =
                    |workload: &Workload| workload.forecast(&cache, hardware, &Watch::default());
                let Ok(told) = forecast(&first) else { continue };
                // The parts of the whole trace that a forecast is made from are its second half.
                let truth = forecast(&whole)?;
                let pages = flash_bytes / page_size.bytes();
                tally.add(&name, &cache, pages, &told, &truth);
                for sampled in seeded.iter().filter_map(|workload| forecast(workload).ok()) {
                    let error = sampled.hit_ratio.estimate - told.hit_ratio.estimate;
                    let words = (name.to_string(), cache.policy.clone());
                    tally.sampled_errors.entry(words).or_default().push(error);
                }
            }
        }
    }
    Ok(())
}

impl Tally {
    fn add(&mut self, name: &str, cache: &Cache, pages: u64, told: &Forecast, truth: &Forecast) {
        let covers = |told: Range, truth: f64| told.low <= truth && truth <= told.high;
        let hits = truth.hit_ratio.estimate;
        let is_hit = covers(told.hit_ratio, hits);
        // Times differ between the halves: per access, writes are comparable.
        let writes = covers(told.flash_writes_per_access, truth.flash_writes_per_access.estimate);
        self.cases += 1;
        self.covered_hits += usize::from(is_hit);
        self.covered_writes += usize::from(writes);
        self.errors.push(told.hit_ratio.estimate - hits);
        let settings: Vec<String> =
            cache.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        println!(
            "| {name} | {} {} | {pages} | {:.1} % | {:.1} to {:.1} % | {:.1} %{} | {} |",
            cache.policy,
            settings.join(" "),
            100.0 * told.hit_ratio.estimate,
            100.0 * told.hit_ratio.low,
            100.0 * told.hit_ratio.high,
            100.0 * hits,
            if is_hit { "" } else { " (not covered)" },
            if writes { "yes" } else { "no" },
        );
    }
}
