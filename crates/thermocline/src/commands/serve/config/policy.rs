//! `[policy]` and `write_mode`: who decides where pages are, and what happens to writes.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use thermocline_core::registry::{Depth, PolicyEntry};
use thermocline_core::{Geometry, Indexing, Setup, WriteMiss};
use thermocline_engine::{PolicyOptions, WriteMode};
use thermocline_lab::find_policy;

use super::Config;

/// Which policy decides.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Policy {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) write_miss: Miss,
    #[serde(default)]
    pub(crate) parameters: BTreeMap<String, toml::Value>,
}

/// Mode of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    #[default]
    Back,
    Through,
    Around,
    ReadOnly,
}

/// Effect of a write miss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Miss {
    #[default]
    Fetch,
    Allocate,
}

impl Config {
    /// Parse the policy with its parameters.
    pub(crate) fn policy_options(&self) -> Result<PolicyOptions> {
        let entry = find_policy(&self.policy.name)?;
        let given: Vec<(String, String)> = self
            .policy
            .parameters
            .iter()
            .map(|(name, value)| {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                (name.clone(), text)
            })
            .collect();
        let named = PolicyOptions::named(&entry.name)?;
        Ok(PolicyOptions {
            values: entry.values(&given).context("`policy.parameters`")?,
            write_miss: self.policy.write_miss.into_core(),
            entry: self.half()?.unwrap_or(named.entry),
            ..named
        })
    }

    /// Builds the policy once, as the start would: some parameters only fit some sizes.
    ///
    /// # Errors
    /// Why it cannot be built.
    pub(crate) fn try_policy(&self) -> Result<()> {
        let PolicyOptions { entry, values, write_miss, admission, costs } =
            self.policy_options()?;
        let [ram_pages, flash_pages] = self.tier_pages()?;
        let setup = Setup {
            costs,
            write_miss,
            admission,
            indexing: Indexing::Sparse,
            ..Setup::new(Geometry::linear(ram_pages), vec![ram_pages, flash_pages])
        };
        entry.build(&setup, &values).map(drop).context("`policy`")
    }
}

/// Check that a policy runs with the tiers that there are.
pub(crate) fn check_depth(entry: &PolicyEntry, has_flash: bool) -> Result<()> {
    match entry.capabilities.depth {
        Depth::Ram => Ok(()),
        Depth::RamFlash | Depth::Tiers if has_flash => Ok(()),
        Depth::RamFlash | Depth::Tiers => {
            bail!("`policy.name`: `{}` takes a [flash] section", entry.name)
        }
        Depth::Buffer => bail!("`policy.name`: `{}` is a write buffer inside an SSD", entry.name),
    }
}

impl Miss {
    const fn into_core(self) -> WriteMiss {
        match self {
            Self::Fetch => WriteMiss::Fetch,
            Self::Allocate => WriteMiss::Allocate,
        }
    }
}

impl Mode {
    pub(crate) const fn into_engine(self) -> WriteMode {
        match self {
            Self::Back => WriteMode::Back,
            Self::Through => WriteMode::Through,
            Self::Around => WriteMode::Around,
            Self::ReadOnly => WriteMode::ReadOnly,
        }
    }
}
