//! `thermocline buffers`: what write buffers there are, and their parameters.

use anyhow::Result;
use thermocline_core::registry::{self, BUFFERS, Entry};

use crate::arguments::BuffersOptions;
use crate::commands::listing::{self, Listed};
use crate::output;

/// Runs the command.
pub(crate) fn run(options: &BuffersOptions) -> Result<String> {
    if let Some(name) = &options.name {
        let buffer = listed(find(name)?);
        return if options.json { output::json(&buffer) } else { Ok(buffer.describe()) };
    }
    let all: Vec<Listed> = BUFFERS.iter().map(listed).collect();
    let table = || listing::table("buffer", "buffers", &all);
    if options.json { output::json(&all) } else { Ok(table()) }
}

/// The write buffer of that name, or an error that names those that there are.
pub(crate) fn find(name: &str) -> Result<&'static Entry> {
    registry::find_buffer(name).map_err(|_| {
        let known: Vec<&str> = BUFFERS.iter().map(|entry| entry.name).collect();
        anyhow::anyhow!("no write buffer is called `{name}`; there are: {}", known.join(", "))
    })
}

fn listed(entry: &Entry) -> Listed {
    Listed::new(entry.name, entry.summary, entry.source, entry.parameters)
}
