//! The cache that the machine has.

use anyhow::Result;
use serde::Serialize;
use thermocline_lab::advising::{Advice, Cache};

use crate::arguments::Have;

/// A cache that is installed.
pub(super) struct Installed;

/// What to type.
#[derive(Debug, Default, Serialize)]
pub(super) struct Commands {
    /// Shell lines, each with a comment.
    pub(super) text: String,
}

pub(super) fn read(_have: &Have) -> Result<Installed> {
    Ok(Installed)
}

impl Installed {
    pub(super) fn today(&self, _page_bytes: u64) -> Result<Cache> {
        anyhow::bail!("not yet")
    }
}

pub(super) fn commands(_advice: &Advice, _have: Option<&Installed>, _page_bytes: u64) -> Commands {
    Commands::default()
}
