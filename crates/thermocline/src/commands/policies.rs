//! `thermocline policies`: what there is, and what can be set.

use anyhow::Result;
use thermocline_core::registry::{self, Entry};

use crate::arguments::PoliciesOptions;
use crate::commands::listing::{self, Listed};
use crate::output;

/// Runs the command.
pub(crate) fn run(options: &PoliciesOptions) -> Result<String> {
    if let Some(name) = &options.name {
        let policy = listed(thermocline_lab::find_policy(name)?);
        return if options.json { output::json(&policy) } else { Ok(policy.describe()) };
    }
    let all: Vec<Listed> = registry::entries().iter().map(listed).collect();
    if options.json { output::json(&all) } else { Ok(listing::table("policy", "policies", &all)) }
}

fn listed(entry: &Entry) -> Listed {
    let mut policy = Listed::new(entry.name, entry.summary, entry.source, entry.parameters);
    policy.tiers = Some(entry.depth.describe());
    policy.clients = Some(if entry.takes_clients() { "several" } else { "one" });
    policy
}
