//! `thermocline identifiers`: what there is, and what can be set.

use anyhow::Result;
use thermocline_core::hotness::registry;
use thermocline_lab::listing;

use crate::arguments::IdentifiersOptions;
use crate::commands::listing::{describe, table};
use crate::output;

/// Runs the command.
pub(crate) fn run(options: &IdentifiersOptions) -> Result<String> {
    if let Some(name) = &options.name {
        let identifier = listing::identifier(registry::find(name)?);
        return if options.json { output::json(&identifier) } else { Ok(describe(&identifier)) };
    }
    let all = listing::identifiers();
    let rows = || table("identifier", "identifiers", &all);
    if options.json { output::json(&all) } else { Ok(rows()) }
}
