//! `thermocline identifiers`: what there is, and what can be set.

use anyhow::Result;
use thermocline_core::hotness::registry::{self, Entry};

use crate::arguments::IdentifiersOptions;
use crate::commands::listing::{self, Listed};
use crate::output;

/// Runs the command.
pub(crate) fn run(options: &IdentifiersOptions) -> Result<String> {
    if let Some(name) = &options.name {
        let identifier = listed(registry::find(name)?);
        return if options.json { output::json(&identifier) } else { Ok(identifier.describe()) };
    }
    let all: Vec<Listed> = registry::entries().iter().map(listed).collect();
    let table = || listing::table("identifier", "identifiers", &all);
    if options.json { output::json(&all) } else { Ok(table()) }
}

fn listed(entry: &Entry) -> Listed {
    Listed::new(entry.name, entry.summary, entry.source, entry.parameters)
}
