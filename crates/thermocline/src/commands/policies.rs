//! `thermocline policies`: what there is, and what can be set.

use anyhow::Result;
use thermocline_lab::listing;

use crate::arguments::PoliciesOptions;
use crate::commands::listing::{describe, table};
use crate::output;

/// Runs the command.
pub(crate) fn run(options: &PoliciesOptions) -> Result<String> {
    if let Some(name) = &options.name {
        let policy = listing::policy(thermocline_lab::find_policy(name)?);
        return if options.json { output::json(&policy) } else { Ok(describe(&policy)) };
    }
    let all = listing::policies();
    if options.json { output::json(&all) } else { Ok(table("policy", "policies", &all)) }
}
