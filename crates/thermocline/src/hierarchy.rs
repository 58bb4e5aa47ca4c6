//! Mapping of the command line's options to configurations, and notes on these for users.

use anyhow::{Error, Result, anyhow};
use thermocline_core::Clients;
use thermocline_core::registry::{Depth, PolicyEntry};
use thermocline_lab::spec::{HierarchySpec, ParameterSpec, SpecPath, Step, TierSetting, TierSpec};
use thermocline_lab::{Configuration, LabError};
use thermocline_trace::CompiledTrace;

use crate::arguments::{HierarchyOptions, TwoTierSpec, flag_of};
use crate::output;

/// Return every combination of policies and tier sizes, policies last, for `clients` clients.
pub(crate) fn configurations(
    options: &HierarchyOptions,
    policies: &[PolicyEntry],
    clients: Clients,
) -> Result<Vec<Configuration>> {
    let spec = spec(options)?;
    thermocline_lab::configurations(&spec, policies, clients)
        .map_err(|error| in_hierarchy(error, options, &spec))
}

/// Return an error about a part of the hierarchy, which names the option that it comes from.
pub(crate) fn in_hierarchy(
    error: LabError,
    options: &HierarchyOptions,
    spec: &HierarchySpec,
) -> Error {
    match options.two_tier.spec() {
        Ok(two_tier) => in_options(error, |path| option(path, options, spec, &two_tier)),
        Err(error) => error,
    }
}

/// Return the specification from the options.
pub(crate) fn spec(options: &HierarchyOptions) -> Result<HierarchySpec> {
    let two_tier = options.two_tier.spec()?;
    let mut spec = HierarchySpec {
        tiers: options.tiers.clone(),
        device_file: options.device_file.clone(),
        parameters: [two_tier.parameters, options.parameters.clone()].concat(),
        ..options.shared.0.clone()
    };
    if two_tier.admit.is_some() {
        spec.admit = two_tier.admit;
    }
    for (flag, settings) in settings(options) {
        for setting in settings {
            spec.set(setting.clone())
                .map_err(|reason| anyhow!("{}: {reason}", described(flag, setting)))?;
        }
    }
    Ok(spec)
}

/// Return the options about the devices of tiers.
fn settings(options: &HierarchyOptions) -> [(&'static str, &[TierSetting]); 5] {
    [
        ("--device", &options.devices),
        ("--cost", &options.costs),
        ("--latency", &options.latencies),
        ("--price", &options.prices),
        ("--model", &options.models),
    ]
}

fn described(flag: &str, setting: &TierSetting) -> String {
    format!("{flag} {}={}", setting.tier, setting.setting)
}

/// Return an error that names the option which a part of a specification comes from.
pub(crate) fn in_options(error: LabError, option: impl FnOnce(&SpecPath) -> String) -> Error {
    if let LabError::Spec { path, reason } = error {
        anyhow!("{}: {reason}", option(&path))
    } else {
        error.into()
    }
}

/// Return the option, with its value, that a part of the hierarchy comes from.
fn option(
    path: &SpecPath,
    options: &HierarchyOptions,
    spec: &HierarchySpec,
    two_tier: &TwoTierSpec,
) -> String {
    match *path.steps() {
        [Step::Key("tiers"), Step::At(tier), Step::Key("name" | "sizes"), ..] => {
            let TierSpec { name, sizes, .. } = &spec.tiers[tier];
            let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            format!("--tier {name}={}", sizes.join(","))
        }
        [Step::Key("tiers"), Step::At(tier), _, Step::Key(field)] => {
            setting(options, &spec.tiers[tier].name, field)
        }
        [Step::Key("disk"), Step::Key(field)] => setting(options, "disk", field),
        [Step::Key("parameters"), Step::At(place)] => two_tier.option(&spec.parameters, place),
        [Step::Key("admit")] => format!("--admit {}", spec.admit.as_deref().unwrap_or_default()),
        _ => flag(path),
    }
}

/// Return the last option that sets a field of a tier's device.
fn setting(options: &HierarchyOptions, tier: &str, field: &str) -> String {
    let flag = match field {
        "name" => "--device",
        "latency_ms" => "--latency",
        "cost" => "--cost",
        "price" => "--price",
        _ => "--model",
    };
    let all = settings(options).into_iter().filter(|(known, _)| *known == flag);
    let of_tier = all.flat_map(|(_, settings)| settings).rfind(|one| one.tier == tier);
    of_tier.map_or_else(|| flag.to_owned(), |setting| described(flag, setting))
}

/// Return the option that a path comes from, where parameters are those of `--param`.
pub(crate) fn with_parameters(path: &SpecPath, parameters: &[ParameterSpec]) -> String {
    match *path.steps() {
        [Step::Key("parameters"), Step::At(place)] => format!("--param {}", parameters[place]),
        _ => flag(path),
    }
}

/// Return the option that is called like the last field on a path.
pub(crate) fn flag(path: &SpecPath) -> String {
    flag_of(path.keys().last().unwrap_or_default())
}

/// Says which policies leave the flash that they are given empty.
pub(crate) fn note_unused_flash(configurations: &[Configuration]) {
    let mut unused: Vec<&str> = configurations
        .iter()
        .filter(|configuration| {
            configuration.policy.capabilities.depth == Depth::Ram && configuration.tiers.len() > 1
        })
        .map(|configuration| &*configuration.policy.name)
        .collect();
    unused.dedup();
    for policy in unused {
        output::note(&format!("note: `{policy}` leaves the flash tier empty"));
    }
}

/// Says where a tier is smaller than the one above it, for policies that want it larger.
pub(crate) fn note_shrinking_tiers(
    configurations: &[Configuration],
    trace: &CompiledTrace,
) -> Result<()> {
    let deep = configurations.iter().filter(|one| one.policy.capabilities.depth == Depth::Tiers);
    let mut noted: Vec<Vec<u32>> = vec![];
    for configuration in deep {
        let pages = configuration.capacity_pages(trace)?;
        let shrinks = pages.windows(2).position(|pair| pair[1] < pair[0]);
        if let Some(tier) = shrinks.filter(|_| !noted.contains(&pages)) {
            let [above, below] = [tier, tier + 1].map(|tier| &configuration.tiers[tier].name);
            output::note(&format!(
                "note: tier `{below}` is smaller than `{above}` above it; these policies expect it larger"
            ));
            noted.push(pages);
        }
    }
    Ok(())
}
