//! From the command line's options to configurations, and what a user should know of these.

use anyhow::Result;
use thermocline_core::Clients;
use thermocline_core::registry::{Depth, Entry};
use thermocline_lab::{Configuration, HierarchyWords, TimingWords, Watch};
use thermocline_trace::CompiledTrace;

use crate::arguments::{HierarchyOptions, TimingMode, WriteMiss};
use crate::output;

/// Every combination of policies and tier sizes, policies last, for so many clients.
pub(crate) fn configurations(
    options: &HierarchyOptions,
    policies: &[&'static Entry],
    clients: Clients,
) -> Result<Vec<Configuration>> {
    Ok(thermocline_lab::configurations(&words(options)?, policies, clients)?)
}

/// The options as the lab takes them.
fn words(options: &HierarchyOptions) -> Result<HierarchyWords> {
    let two_tier = options.two_tier.words()?;
    Ok(HierarchyWords {
        tiers: options.tiers.clone(),
        devices: options.devices.clone(),
        costs: options.costs.clone(),
        latencies: options.latencies.clone(),
        prices: options.prices.clone(),
        device_file: options.device_file.clone(),
        parameters: [two_tier.parameters, options.parameters.clone()].concat(),
        write_miss: options.write_miss.into_core(),
        admit: two_tier.admit.or_else(|| options.admit.clone()),
        timing: TimingWords {
            is_events: options.timing == TimingMode::Events,
            closed_loop: options.closed_loop,
            models: options.models.clone(),
        },
        watch: Watch::default(),
    })
}

/// Says which policies leave the flash that they are given empty.
pub(crate) fn note_unused_flash(configurations: &[Configuration]) {
    let mut unused: Vec<&str> = configurations
        .iter()
        .filter(|configuration| {
            configuration.policy.depth == Depth::Ram && configuration.tiers.len() > 1
        })
        .map(|configuration| configuration.policy.name)
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
    let deep = configurations.iter().filter(|one| one.policy.depth == Depth::Tiers);
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

impl WriteMiss {
    pub(crate) const fn into_core(self) -> thermocline_core::WriteMiss {
        match self {
            Self::Fetch => thermocline_core::WriteMiss::Fetch,
            Self::Allocate => thermocline_core::WriteMiss::Allocate,
        }
    }
}
