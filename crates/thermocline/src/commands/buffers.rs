//! `thermocline buffers`: what write buffers there are, and their parameters.

use anyhow::Result;
use thermocline_lab::listing;
use thermocline_lab::spec::find_buffer;

use crate::arguments::BuffersOptions;
use crate::commands::listing::{describe, table};
use crate::output;

/// Runs the command.
pub(crate) fn run(options: &BuffersOptions) -> Result<String> {
    if let Some(name) = &options.name {
        let buffer = listing::buffer(find_buffer(name)?);
        return if options.json { output::json(&buffer) } else { Ok(describe(&buffer)) };
    }
    let all = listing::buffers();
    let rows = || table("buffer", "buffers", &all);
    if options.json { output::json(&all) } else { Ok(rows()) }
}
