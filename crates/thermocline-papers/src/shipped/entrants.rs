//! The caches that are compared, and how each is set.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thermocline_core::config::Values;
use thermocline_core::registry::{self, Depth, PolicyEntry};
use thermocline_lab::{LabError, TierSize};

/// Origin of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Camp {
    /// A cache that systems ship, as its tools set it.
    Shipped,
    /// The same, set otherwise.
    Tuned,
    /// A policy of RAM and flash that nobody ships.
    Published,
    /// RAM alone.
    Alone,
}

/// A cache as the file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StatedEntrant {
    label: String,
    /// The registered name of its policy.
    policy: String,
    camp: Camp,
    /// Version that the model of a shipped cache follows.
    version: Option<String>,
    /// Parameters that differ from the policy's defaults.
    #[serde(default)]
    parameters: BTreeMap<String, String>,
    /// Parameters that count pages, as sizes in bytes.
    #[serde(default)]
    bytes: BTreeMap<String, String>,
}

/// A cache of the comparison, set for pages of one size.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entrant {
    /// Its name in reports.
    pub label: String,
    /// Origin.
    pub camp: Camp,
    /// Its policy.
    pub policy: &'static PolicyEntry,
    /// The values of all its parameters.
    pub values: Values,
    /// Differences from the policy's defaults, as `name=value`, with sizes as the tools have them.
    pub settings: String,
    /// Version that its model follows, if its row names one.
    pub version: Option<String>,
}

impl Camp {
    /// Return a short description.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Shipped => "shipped",
            Self::Tuned => "shipped, set otherwise",
            Self::Published => "published",
            Self::Alone => "no flash",
        }
    }
}

/// Return the caches that the file names, and every registered policy of RAM and flash that it does
/// not name.
pub(super) fn entrants(
    stated: &[StatedEntrant],
    page_size_bytes: u64,
) -> Result<Vec<Entrant>, LabError> {
    let named = stated.iter().map(|one| one.entrant(page_size_bytes));
    let published = published(stated).map(|policy| {
        let label = policy.name.clone().into_owned();
        let values = policy.values(&[])?;
        let (camp, settings) = (Camp::Published, String::new());
        Ok(Entrant { label, camp, policy, values, settings, version: None })
    });
    named.chain(published).collect()
}

/// Count these.
pub(super) fn count(stated: &[StatedEntrant]) -> usize {
    stated.len() + published(stated).count()
}

fn published(stated: &[StatedEntrant]) -> impl Iterator<Item = &'static PolicyEntry> {
    registry::entries().filter(|entry| {
        entry.capabilities.depth == Depth::RamFlash
            && stated.iter().all(|one| one.policy != entry.name)
    })
}

impl StatedEntrant {
    fn entrant(&self, page_size_bytes: u64) -> Result<Entrant, LabError> {
        let policy = registry::find(&self.policy)?;
        let mut parameters: Vec<(String, String)> = self.parameters.clone().into_iter().collect();
        for (name, size) in &self.bytes {
            let bytes = size.parse::<TierSize>()?.whole_bytes();
            let bytes = bytes.ok_or_else(|| LabError::BadSize { text: size.clone() })?;
            parameters.push((name.clone(), (bytes / page_size_bytes).max(1).to_string()));
        }
        let settings = self.parameters.iter().chain(&self.bytes);
        let settings: Vec<String> =
            settings.map(|(name, value)| format!("{name}={value}")).collect();
        Ok(Entrant {
            label: self.label.clone(),
            camp: self.camp,
            policy,
            values: policy.values(&parameters)?,
            settings: settings.join(" "),
            version: self.version.clone(),
        })
    }
}
