//! Traces generated from profiles, and from a Zipf fit, beside the traces that both were made of.
//!
//! Every policy replays the beginning of each trace, the trace that its profile generates, and a Zipf
//! trace of the same length, footprint, skew and share of writes. Tiers have the same number of pages in
//! all three, so one configuration has three results, and the error of a figure is its difference from
//! the original's, divided by the original's. Shares below [`FLOOR`] count as that when errors are
//! divided by them. A figure that is 0 in the original and in the generated trace is left out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use thermocline_core::Clients;
use thermocline_core::registry::{self, Depth, Future, PolicyEntry};
use thermocline_lab::corpus::statistics::percentile;
use thermocline_lab::spec::{HierarchySpec, TierSpec};
use thermocline_lab::{RunOptions, Summary, TierSize, Watch, compare, configurations};
use thermocline_trace::generate::{self, Generator, Pattern};
use thermocline_trace::profile::{FitOptions, Profile, ProfileGenerator, Scale};
use thermocline_trace::{
    Character, CompiledTrace, PageSize, Part, PartOptions, ReadOptions, Reader,
};

/// Use of a trace while the model was designed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    /// Choices were made by its errors.
    Tuning,
    /// The trace was first looked at when all choices were made.
    HeldOut,
}

const TRACES: [(Set, &str); 17] = [
    (Set::Tuning, "captured/tpcb.csv.zst"),
    (Set::Tuning, "captured/tpch.csv.zst"),
    (Set::Tuning, "public/arc-OLTP.lis.zst"),
    (Set::Tuning, "public/cloudphysics-head114k.vscsi.xz"),
    (Set::Tuning, "public/lirs-multi1.txt.gz"),
    (Set::Tuning, "public/msn-sfs-head150k.disksim-ms.xz"),
    (Set::Tuning, "public/pc-mayun2.diskmon.xz"),
    (Set::HeldOut, "captured/mlk.csv.zst"),
    (Set::HeldOut, "captured/tatp.csv.zst"),
    (Set::HeldOut, "captured/tpcb_logical.csv.zst"),
    (Set::HeldOut, "public/arc-P3.lis.zst"),
    (Set::HeldOut, "public/lirs-2_pools.txt.gz"),
    (Set::HeldOut, "public/lirs-multi2.txt.gz"),
    (Set::HeldOut, "public/lirs-sprite.txt.gz"),
    (Set::HeldOut, "public/mobibench-twitter.mobibench.xz"),
    (Set::HeldOut, "public/pc-mayun4.diskmon.xz"),
    (Set::HeldOut, "public/pcmark.disksim-ms.xz"),
];

/// Hierarchies of two tiers: RAM in percent of the footprint, and flash as a multiple of it.
const HYBRIDS: [(f64, f64); 3] = [(1.0, 4.0), (5.0, 4.0), (2.0, 15.0)];
/// RAM of policies of one tier, in percent of the footprint.
const MEMORIES: [f64; 3] = [1.0, 5.0, 20.0];
/// Shares of accesses below this one are as good as this one.
const FLOOR: f64 = 0.01;

/// The figures that errors are of, the last one that of policies of one tier.
const FIGURES: [&str; 5] = ["I/O time", "flash writes", "hits in RAM", "hits on flash", "misses"];
/// Number of figures that are of hybrids, the first ones.
const HYBRID_FIGURES: usize = 4;

/// Arguments of the benchmark.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The folder with the traces, in `captured` and `public`
    traces: PathBuf,
    /// Requests that are taken from the beginning of each trace
    #[arg(long, default_value_t = 200_000)]
    requests: u64,
    /// The size of a profile, at most, in bytes
    #[arg(long, default_value_t = FitOptions::default().bytes_max)]
    bytes: u64,
    /// Seed of generated traces
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only traces whose names contain this text
    #[arg(long, default_value = "")]
    only: String,
    /// Print every figure of every policy, too
    #[arg(long)]
    all_figures: bool,
}

/// One figure of one policy at one size.
#[derive(Clone, Debug, PartialEq)]
struct Measured {
    policy: String,
    /// The capacities of its tiers, in pages.
    pages: Vec<Option<u64>>,
    /// Its place in [`FIGURES`].
    figure: usize,
    value: f64,
}

/// The error of a figure in a generated trace.
#[derive(Clone, Debug)]
struct Deviation {
    set: Set,
    policy: String,
    figure: usize,
    of_profile: Option<f64>,
    of_zipf: Option<f64>,
}

/// Runs the benchmark.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    println!(
        "Median and P90 of the errors in percent; those of traces from a Zipf fit in parentheses."
    );
    println!(
        "\n| trace | set | accesses | profile, bytes | {} | all of hybrids | misses |",
        FIGURES[..HYBRID_FIGURES].join(" | ")
    );
    println!("|{}", " --- |".repeat(HYBRID_FIGURES + 6));
    let mut deviations = vec![];
    for (set, name) in TRACES.iter().filter(|(_, name)| name.contains(&arguments.only)) {
        let path = arguments.traces.join(name);
        if path.is_file() {
            let found = one(arguments, &path, *set).with_context(|| path.display().to_string())?;
            deviations.extend(found);
        } else {
            println!("| {name} | skipped: no such file in the folder |");
        }
    }
    ensure!(!deviations.is_empty(), "no trace was found in {}", arguments.traces.display());
    print_figures(&deviations);
    print_policies(&deviations);
    Ok(())
}

/// Prints the row of a trace, and returns its errors.
fn one(arguments: &Arguments, path: &Path, set: Set) -> Result<Vec<Deviation>> {
    let original = beginning(path, arguments.requests)?;
    let profile = Profile::fit(&original, FitOptions { bytes_max: arguments.bytes });
    let bytes = profile.to_string().len();
    let mut generator = ProfileGenerator::new(profile, Scale::One, arguments.seed)?;
    let generated = CompiledTrace::compile(&mut generator, page_size(&original)?)?;
    let zipf = zipf_like(&original, arguments.seed)?;
    let pages = original.footprint_pages();
    let [truth, generated, zipf] =
        [&original, &generated, &zipf].map(|trace| measured(trace, pages));
    let (truth, generated, zipf) = (truth?, generated?, zipf?);
    let mut deviations = vec![];
    for ((truth, generated), zipf) in truth.into_iter().zip(generated).zip(zipf) {
        if arguments.all_figures {
            println!(
                "{} {:?} {}: {:.4}, {:.4}, {:.4}",
                truth.policy,
                truth.pages,
                FIGURES[truth.figure],
                truth.value,
                generated.value,
                zipf.value
            );
        }
        deviations.push(Deviation {
            set,
            figure: truth.figure,
            of_profile: error(&truth, &generated),
            of_zipf: error(&truth, &zipf),
            policy: truth.policy,
        });
    }
    let name = path.file_name().context("a trace is a file")?.to_string_lossy();
    let name = name.split('.').next().unwrap_or_default();
    print!("| {name} | {} | {} | {bytes}", set.describe(), original.len());
    for figures in [0..1, 1..2, 2..3, 3..4, 0..HYBRID_FIGURES, HYBRID_FIGURES..FIGURES.len()] {
        print!(" | {}", both(deviations.iter().filter(|one| figures.contains(&one.figure))));
    }
    println!(" |");
    Ok(deviations)
}

impl Set {
    const fn describe(self) -> &'static str {
        match self {
            Self::Tuning => "tuning",
            Self::HeldOut => "held out",
        }
    }
}

/// Return the first requests of a trace.
fn beginning(path: &Path, limit: u64) -> Result<CompiledTrace> {
    let reader = Reader::open(path, &ReadOptions::default())?;
    let page_size = reader.page_size().unwrap_or_default();
    let mut part = Part::new(reader, PartOptions { limit, ..PartOptions::default() });
    Ok(CompiledTrace::compile(&mut part, page_size)?)
}

fn page_size(trace: &CompiledTrace) -> Result<PageSize> {
    Ok(PageSize::new(trace.page_size_bytes())?)
}

/// Return a Zipf trace with the accesses, pages, skew and share of writes of another trace.
fn zipf_like(trace: &CompiledTrace, seed: u64) -> Result<CompiledTrace> {
    let accesses = trace.len() as u64;
    let options = generate::Options {
        pattern: Pattern::Zipf { alpha: Character::of(trace).zipf_skew },
        requests: accesses,
        pages: u64::from(trace.footprint_pages()),
        write_share: trace.writes() as f64 / accesses as f64,
        seed,
        ..generate::Options::default()
    };
    Ok(CompiledTrace::compile(&mut Generator::new(options)?, page_size(trace)?)?)
}

/// Measure all policies on a trace, with tiers that are shares of `footprint_pages`.
fn measured(trace: &CompiledTrace, footprint_pages: u32) -> Result<Vec<Measured>> {
    let policies_of = |is_wanted: fn(Depth) -> bool| -> Vec<PolicyEntry> {
        let known = registry::entries().filter(|entry| {
            entry.capabilities.future == Future::Unknown && is_wanted(entry.capabilities.depth)
        });
        known.cloned().collect()
    };
    let hybrids = policies_of(|depth| depth != Depth::Ram && depth.allows(2));
    let singles = policies_of(|depth| depth == Depth::Ram);
    let share =
        |percent: f64| TierSize::Pages((f64::from(footprint_pages) * percent / 100.0).floor());
    let mut found = vec![];
    for (ram, times) in HYBRIDS {
        let tiers = [("ram", share(ram)), ("flash", share(ram * times))];
        found.extend(replayed(trace, &tiers, &hybrids)?.iter().flat_map(hybrid_figures));
    }
    for ram in MEMORIES {
        found.extend(replayed(trace, &[("ram", share(ram))], &singles)?.iter().map(misses));
    }
    Ok(found)
}

fn replayed(
    trace: &CompiledTrace,
    tiers: &[(&str, TierSize)],
    policies: &[PolicyEntry],
) -> Result<Vec<Summary>> {
    let tiers = tiers.iter().map(|&(name, size)| TierSpec::new(name, &[size])).collect();
    let hierarchy = HierarchySpec { tiers, ..HierarchySpec::default() };
    let configurations = configurations(&hierarchy, policies, Clients::ONE)?;
    Ok(compare(trace, &configurations, RunOptions::default(), &Watch::default(), || {})?)
}

fn hybrid_figures(summary: &Summary) -> [Measured; HYBRID_FIGURES] {
    let accesses = summary.trace.accesses as f64;
    let values = [
        summary.io_time_ms / accesses,
        summary.tiers[1].page_writes as f64 / accesses,
        summary.tiers[0].hit_ratio,
        summary.tiers[1].hit_ratio,
    ];
    std::array::from_fn(|figure| named(summary, figure, values[figure]))
}

fn misses(summary: &Summary) -> Measured {
    named(summary, HYBRID_FIGURES, 1.0 - summary.tiers[0].hit_ratio)
}

fn named(summary: &Summary, figure: usize, value: f64) -> Measured {
    let caches = &summary.tiers[..summary.tiers.len() - 1];
    let pages = caches.iter().map(|tier| tier.capacity_pages).collect();
    Measured { policy: summary.policy.name.clone(), pages, figure, value }
}

/// Return the error of a figure; `None` if both are 0.
fn error(truth: &Measured, generated: &Measured) -> Option<f64> {
    let of = |one: &Measured| (one.policy.clone(), one.pages.clone(), one.figure);
    assert_eq!(of(truth), of(generated), "all traces run the same configurations");
    // The I/O time of an access is no share, and never 0.
    let floor = if truth.figure == 0 { 0.0 } else { FLOOR };
    let is_zero = truth.value == 0.0 && generated.value == 0.0;
    (!is_zero).then(|| (generated.value - truth.value).abs() / truth.value.max(floor))
}

fn print_figures(deviations: &[Deviation]) {
    println!("\n| figure | tuning | held out |");
    println!("| --- | --- | --- |");
    let row = |name: &str, figures: std::ops::Range<usize>| {
        let of = |set: Set| {
            let wanted = deviations.iter().filter(|one| one.set == set);
            both(wanted.filter(|one| figures.contains(&one.figure)))
        };
        println!("| {name} | {} | {} |", of(Set::Tuning), of(Set::HeldOut));
    };
    for (figure, name) in FIGURES.iter().enumerate() {
        row(name, figure..figure + 1);
    }
    row("all of hybrids", 0..HYBRID_FIGURES);
}

fn print_policies(deviations: &[Deviation]) {
    let mut policies: BTreeMap<(bool, &str), Vec<&Deviation>> = BTreeMap::new();
    for one in deviations {
        policies.entry((one.figure >= HYBRID_FIGURES, &*one.policy)).or_default().push(one);
    }
    println!("\n| policy | tuning | held out |");
    println!("| --- | --- | --- |");
    for ((is_single, policy), found) in policies {
        let of = |set: Set| both(found.iter().copied().filter(|one| one.set == set));
        let kind = if is_single { ", misses" } else { "" };
        println!("| {policy}{kind} | {} | {} |", of(Set::Tuning), of(Set::HeldOut));
    }
}

/// Return the errors of profiles and, in parentheses, of Zipf fits.
fn both<'a>(deviations: impl Iterator<Item = &'a Deviation> + Clone) -> String {
    let profile = percentiles(deviations.clone().filter_map(|one| one.of_profile));
    let zipf = percentiles(deviations.filter_map(|one| one.of_zipf));
    match (profile, zipf) {
        (Some(profile), Some(zipf)) => format!("{profile} ({zipf})"),
        _ => "none".to_owned(),
    }
}

/// Return the median and the P90, in percent.
fn percentiles(errors: impl Iterator<Item = f64>) -> Option<String> {
    let mut errors: Vec<f64> = errors.collect();
    errors.sort_by(f64::total_cmp);
    let [median, high] = [0.5, 0.9].map(|p| percentile(&errors, p).map(|error| 100.0 * error));
    Some(format!("{:.1} / {:.1}", median?, high?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(figure: usize, value: f64) -> Measured {
        Measured { policy: "lru".into(), pages: vec![Some(10)], figure, value }
    }

    #[test]
    fn an_error_is_relative_but_to_shares_that_are_very_small() {
        assert_eq!(error(&value(0, 0.004), &value(0, 0.006)), Some(0.5));
        assert_eq!(error(&value(1, 0.5), &value(1, 0.25)), Some(0.5));
        assert_eq!(error(&value(1, 0.0), &value(1, 0.005)), Some(0.5));
        assert_eq!(error(&value(1, 0.0), &value(1, 0.0)), None);
    }

    #[test]
    fn a_trace_has_no_errors_beside_itself() {
        let options = generate::Options { requests: 3000, pages: 500, ..Default::default() };
        let mut generator = Generator::new(options).unwrap();
        let trace = CompiledTrace::compile(&mut generator, PageSize::DEFAULT).unwrap();
        let figures = measured(&trace, trace.footprint_pages()).unwrap();
        for (figure, name) in FIGURES.iter().enumerate() {
            assert!(figures.iter().any(|one| one.figure == figure), "{name}");
        }
        let errors = figures.iter().filter_map(|one| error(one, one));
        assert_eq!(percentiles(errors).as_deref(), Some("0.0 / 0.0"));
    }
}
