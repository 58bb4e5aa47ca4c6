//! `thermocline buffers`: what write buffers there are, and their parameters.

use anyhow::Result;
use thermocline_core::registry::{BUFFERS, Entry};

use crate::arguments::BuffersOptions;
use crate::commands::listing::{self, Listed};
use crate::output;

/// Runs the command.
pub(crate) fn run(options: &BuffersOptions) -> Result<String> {
    if let Some(name) = &options.name {
        let buffer = listed(thermocline_lab::spec::find_buffer(name)?);
        return if options.json { output::json(&buffer) } else { Ok(buffer.describe()) };
    }
    let all: Vec<Listed> = BUFFERS.iter().map(listed).collect();
    let table = || listing::table("buffer", "buffers", &all);
    if options.json { output::json(&all) } else { Ok(table()) }
}

fn listed(entry: &Entry) -> Listed {
    Listed::new(entry.name, entry.summary, entry.source, entry.parameters)
}
