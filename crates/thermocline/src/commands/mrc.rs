//! `thermocline mrc`: how often caches of many sizes miss.

use anyhow::Result;
use indicatif::ProgressBar;
use thermocline_lab::Watch;
use thermocline_lab::mrc::{
    Curve, Distribution, MissRatios, Point, miss_ratios, only_sample, sampled_miss_ratios,
};
use thermocline_lab::report::{Options, miss_ratios as report_of};
use thermocline_lab::spec::{MrcSpec, Selection, SpecPath, Step};

use crate::arguments::{MrcOptions, TwoTierSpec};
use crate::commands::compare::VERSION;
use crate::hierarchy::{flag, in_options};
use crate::{output, reading};

/// Runs the command; `command` is the command line, for the report.
pub(crate) fn run(options: &MrcOptions, command: &str) -> Result<String> {
    let (spec, two_tier) = spec(options)?;
    let named = |error| in_options(error, |path| option(path, options, &spec, &two_tier));
    let policies = spec.policies(&[]).map_err(named)?;
    let asked = spec.options().map_err(named)?;
    let sampling = only_sample(&policies, asked)?;
    let sampled = sampling
        .map(|sampling| reading::sample(&options.trace, &options.reading, sampling))
        .transpose()?
        .flatten();
    let found = if let Some(sampled) = sampled {
        let curves = spec.curves(&policies, &sampled).map_err(named)?;
        sampled_miss_ratios(&sampled, &curves, asked.sample, &Watch::default())?
    } else {
        let trace = reading::open(&options.trace, &options.reading)?;
        let curves = spec.curves(&policies, &trace).map_err(named)?;
        let bar = output::progress(spec.simulated_sizes(&curves), "sizes")?;
        let found = miss_ratios(&trace, &curves, asked, &Watch::default(), || bar.inc(1));
        ProgressBar::finish_and_clear(&bar);
        found?
    };
    if let Some(path) = &options.csv {
        output::write_file(path, &found.to_csv())?;
        output::note(&format!("points: {}", path.display()));
    }
    if let Some(path) = &options.report {
        let title = format!("Miss ratios of {}", reading::file_name(&options.trace));
        let report = Options { title, command: command.into(), version: VERSION.into() };
        output::write_report(path, &report_of(&found, &report))?;
        output::note(&format!("report: {}", path.display()));
    }
    if options.json { output::json(&found) } else { Ok(tables(&found)) }
}

/// Return the specification from the options, and that of `two-tier`.
fn spec(options: &MrcOptions) -> Result<(MrcSpec, TwoTierSpec)> {
    let two_tier = options.two_tier.spec()?;
    let spec = MrcSpec {
        policies: Selection::new(&options.two_tier.policies(&options.policy)),
        sizes: options.sizes.clone(),
        flash_sizes: options.flash_sizes.clone(),
        shards: options.shards,
        shards_size: options.shards_size,
        shards_by: options.shards_by,
        rate: options.rate,
        seed: options.seed,
        is_checked: options.check,
        parameters: [two_tier.parameters.clone(), options.parameters.clone()].concat(),
        write_miss: options.write_miss,
        admit: two_tier.admit.clone().or_else(|| options.admit.clone()),
    };
    Ok((spec, two_tier))
}

/// Return the option, with its value, that a part of the specification comes from.
fn option(path: &SpecPath, options: &MrcOptions, spec: &MrcSpec, two_tier: &TwoTierSpec) -> String {
    match (path.steps(), options.shards) {
        ([Step::Key("parameters"), Step::At(place)], _) => {
            two_tier.option(&spec.parameters, *place)
        }
        ([Step::Key("shards")], Some(rate)) => format!("--shards {rate}"),
        _ => flag(path),
    }
}

/// Return a table per curve, and one of the figures of re-use.
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
