//! `thermocline mrc`: how often caches of many sizes miss.

use anyhow::{Result, bail, ensure};
use indicatif::ProgressBar;
use thermocline_core::registry::{self, Entry};
use thermocline_lab::mrc::{
    Curve, CurveOptions, Distribution, MissRatios, Point, Rate, Sample, curve_configurations,
    is_one_pass, miss_ratios,
};
use thermocline_lab::report::{Options, miss_ratios as report_of};
use thermocline_lab::{Configuration, Given, HierarchyWords, Owner, Watch};
use thermocline_trace::CompiledTrace;

use crate::arguments::MrcOptions;
use crate::brought::{self, Brought};
use crate::commands::compare::{VERSION, command_line};
use crate::{output, reading};

/// Runs the command.
pub(crate) fn run(options: &MrcOptions) -> Result<String> {
    let policies = policies(&options.two_tier.policies(&options.policy), &[])?;
    let asked = curve_options(options)?;
    check_flash(options, &policies)?;
    let trace = reading::open(&options.trace, &options.reading)?;
    let curves = all_configurations(options, &policies, &trace, &Watch::default())?;
    let bar = output::progress(simulated_sizes(options, &curves), "sizes")?;
    let found = miss_ratios(&trace, &curves, asked, || bar.inc(1));
    ProgressBar::finish_and_clear(&bar);
    let found = found?;
    if let Some(path) = &options.csv {
        output::write_file(path, &found.to_csv())?;
        output::note(&format!("points: {}", path.display()));
    }
    if let Some(path) = &options.report {
        let title = format!("Miss ratios of {}", reading::file_name(&options.trace));
        let report = Options { title, command: command_line(), version: VERSION.into() };
        output::write_file(path, &report_of(&found, &report)?.to_html())?;
        output::note(&format!("report: {}", path.display()));
    }
    if options.json { output::json(&found) } else { Ok(tables(&found)) }
}

/// The policies asked for: all that run on RAM and flash, or those of these names.
pub(crate) fn policies(names: &[String], brought: &[Brought]) -> Result<Vec<&'static Entry>> {
    match names {
        [all] if all == "all" => {
            Ok(registry::entries().iter().filter(|entry| entry.depth.allows(2)).collect())
        }
        names => names.iter().map(|name| Ok(brought::find(name, brought)?)).collect(),
    }
}

/// Sizes of flash are for policies that use it.
pub(crate) fn check_flash(options: &MrcOptions, policies: &[&'static Entry]) -> Result<()> {
    let is_one_tier = policies.iter().all(|policy| policy.depth.allows(1));
    ensure!(
        options.flash_sizes.is_empty() || !is_one_tier,
        "--flash-sizes: none of these policies uses flash; take one that does, as in --policy face"
    );
    Ok(())
}

/// How many sizes are simulated.
pub(crate) fn simulated_sizes(options: &MrcOptions, curves: &[Vec<Configuration>]) -> usize {
    let simulated = curves.iter().map(|curve| {
        let passes = usize::from(!is_one_pass(curve)) + usize::from(options.check);
        curve.len() * passes
    });
    simulated.sum()
}

/// How the curves are to be found.
pub(crate) fn curve_options(options: &MrcOptions) -> Result<CurveOptions> {
    for (flag, rate) in [("--shards", options.shards), ("--rate", options.rate)] {
        if let Some(rate) = rate.filter(|rate| !(*rate > 0.0 && *rate <= 1.0)) {
            bail!("{flag} {rate}: it takes a share of the pages, above 0 and at most 1");
        }
    }
    let seed = options.seed;
    let sample = match (options.shards, options.shards_size) {
        (Some(rate), _) => Sample::Rate { rate, seed },
        (None, Some(pages)) => Sample::Size { pages, seed },
        (None, None) => Sample::All,
    };
    let rate = options.rate.map_or(Rate::Auto { seed }, |rate| Rate::Fixed { rate, seed });
    Ok(CurveOptions { sample, rate, is_checked: options.check })
}

/// The configurations of each policy's curve.
pub(crate) fn all_configurations(
    options: &MrcOptions,
    policies: &[&'static Entry],
    trace: &CompiledTrace,
    watch: &Watch,
) -> Result<Vec<Vec<Configuration>>> {
    let owners: Vec<Owner> = policies.iter().map(|&policy| policy.into()).collect();
    let two_tier = options.two_tier.words()?;
    let admit = two_tier.admit.or_else(|| options.admit.clone());
    let identifier = admit.as_deref().map(thermocline_core::hotness::registry::find);
    let identifier = identifier.transpose()?.map(Owner::from);
    let given: Vec<Owner> = owners.iter().copied().chain(identifier).collect();
    let parameters = [two_tier.parameters, options.parameters.clone()].concat();
    let given = Given::parse(&parameters, &given)?;
    let sizes = [options.sizes.as_slice(), options.flash_sizes.as_slice()];
    let of_policy = |&policy: &&'static Entry| {
        let named = |owner: Owner| {
            given.of(owner).into_iter().map(|(name, value)| format!("{name}={value}"))
        };
        let parameters = named(policy.into()).chain(identifier.into_iter().flat_map(named));
        let words = HierarchyWords {
            parameters: parameters.collect(),
            write_miss: options.write_miss.into_core(),
            admit: admit.clone(),
            watch: watch.clone(),
            ..HierarchyWords::default()
        };
        Ok(curve_configurations(trace, policy, &words, sizes)?)
    };
    policies.iter().map(of_policy).collect()
}

/// A table per curve, and one of the figures of re-use.
fn tables(found: &MissRatios) -> String {
    let curves: Vec<String> = found.curves.iter().map(curve_table).collect();
    format!("{}\n{}", curves.join("\n"), reuse_table(found))
}

fn curve_table(curve: &Curve) -> String {
    let is_checked = curve.mean_absolute_error.is_some();
    let is_sampled = curve.points.iter().any(|point| point.rate < 1.0);
    let mut header: Vec<String> = curve.tiers.iter().map(|tier| format!("{tier} pages")).collect();
    header.push("miss ratio".into());
    header.extend(curve.tiers.iter().skip(1).map(|tier| format!("hits in {tier}")));
    header.extend(is_sampled.then(|| "rate".into()));
    header.extend(is_checked.then(|| "simulated in full".into()));
    let row = |point: &Point| {
        let mut row: Vec<String> =
            point.capacity_pages.iter().copied().map(output::count).collect();
        row.push(output::percent(point.miss_ratio));
        row.extend(point.hit_ratios.iter().skip(1).copied().map(output::percent));
        row.extend(is_sampled.then(|| format!("{:.6}", point.rate)));
        row.extend(point.simulated_miss_ratio.map(output::percent));
        row
    };
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let rows: Vec<Vec<String>> = curve.points.iter().map(row).collect();
    let mut text = format!(
        "{}: {}\n{}",
        curve.policy,
        curve.method.describe(),
        output::table(&header, &rows, 0)
    );
    if let (Some(mean), Some(max)) = (curve.mean_absolute_error, curve.max_absolute_error) {
        text += &format!(
            "mean absolute error {:.4} %, at most {:.4} % of accesses\n",
            mean * 100.0,
            max * 100.0
        );
    }
    text
}

fn reuse_table(found: &MissRatios) -> String {
    let reuse = &found.reuse;
    let row = |(title, one): (&str, &Distribution)| {
        let mut row = vec![title.to_owned(), output::count(one.count), one.mean_in_words()];
        row.extend([one.p10, one.p50, one.p90, one.p99, one.max].map(output::count));
        row
    };
    let mut rows = vec![
        ("re-use distance, pages", &reuse.distance_pages),
        ("inter-reference, accesses", &reuse.inter_reference_accesses),
    ];
    rows.extend(reuse.inter_reference_ns.as_ref().map(|one| ("inter-reference, ns", one)));
    let rows: Vec<Vec<String>> = rows.into_iter().map(row).collect();
    let header =
        ["pages used again", "how many", "mean", "p10", "median", "p90", "p99", "greatest"];
    let sample = if reuse.rate < 1.0 {
        format!(" (of a sample of rate {:.6})", reuse.rate)
    } else {
        String::new()
    };
    format!(
        "{} accesses, {} first uses{sample}\n{}",
        output::count(reuse.accesses),
        output::count(reuse.first_uses),
        output::table(&header, &rows, 1)
    )
}
