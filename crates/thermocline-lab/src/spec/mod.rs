//! Questions of a caller to the lab, as plain types: tiers, devices, parameters, timing.
//!
//! Every surface (the command line, sweeps, Python) builds a [`HierarchySpec`] and hands it to
//! [`configurations`](crate::configurations), which checks it. An error names the wrong part by its
//! [`SpecPath`], so that the surface can show the user's own words for it.

mod buffer;
mod columns;
mod hierarchy;
mod hot;
mod kv;
mod mrc;
mod option;
mod path;
pub(crate) mod text;
mod wire;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thermocline_core::PageCost;
use thermocline_core::config::Given;

use crate::{LabError, TierSize};
pub use buffer::{BufferSpec, Buffers, SsdSize, find_buffer};
pub use columns::ColumnsSpec;
pub use hierarchy::{HIERARCHY_OPTIONS, HierarchySpec, TimingMode, TimingSpec};
pub use hot::{Candidates, HotSpec};
pub use kv::{KvSpec, TierDrive, TierNumber};
pub(crate) use kv::{bandwidths_known, stated_bytes_per_s};
pub use mrc::MrcSpec;
pub use option::{HierarchyOption, OptionKind, OptionWord, hierarchy_option};
pub use path::{SpecPath, Step};

/// The name of the tier below all caches.
pub(crate) const DISK: &str = "disk";

/// A cache tier.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct TierSpec {
    /// Its name.
    pub name: String,
    /// Its sizes, one configuration for each; at least one.
    pub sizes: Vec<TierSize>,
    /// Its device.
    pub device: DeviceSpec,
}

/// The device of a tier. Absent keys have the defaults of the tier.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct DeviceSpec {
    /// Its name in the catalogue of devices.
    pub name: Option<String>,
    /// Its costs per page in milliseconds, each at least 0, in place of those in the catalogue.
    #[serde(with = "wire::cost")]
    pub cost: Option<PageCost>,
    /// The access time of the tier in milliseconds, at least 0, for the average response.
    pub latency_ms: Option<f64>,
    /// The price of the tier per GiB, at least 0. Without any price, no costs are reported; with
    /// one, the other tiers cost nothing.
    pub price: Option<f64>,
    /// The device that queues, for [`TimingMode::Events`].
    pub model: Option<ModelSpec>,
}

/// A device that queues.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum ModelSpec {
    /// The costs of the device per page, with a number of servers.
    Server {
        /// Number of servers, at least 1.
        servers: u32,
    },
    /// A hard disk or a solid-state drive.
    Drive(DriveSpec),
}

/// A drive.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum DriveSpec {
    /// A preset.
    Named(String),
    /// A TOML file of a solid-state drive.
    File(PathBuf),
}

/// Selection by name: policies, write buffers or identifiers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Selection {
    /// All that suit.
    All,
    /// The items of these names.
    Named(Vec<String>),
}

/// A parameter of a policy or an identifier.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct ParameterSpec {
    /// The policy or identifier; every one that has the parameter if absent.
    pub owner: Option<String>,
    /// The name of the parameter.
    pub name: String,
    /// Its value.
    #[serde(with = "wire::Value")]
    pub value: Given,
}

/// A setting of one tier's device, as texts give them: `flash=nvme-ssd`.
#[derive(Clone, Debug, PartialEq)]
pub struct TierSetting {
    /// The tier, or `disk`.
    pub tier: String,
    /// The setting.
    pub setting: Setting,
}

/// A setting of a [`DeviceSpec`].
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// [`DeviceSpec::name`].
    Name(String),
    /// [`DeviceSpec::cost`].
    Cost(PageCost),
    /// [`DeviceSpec::latency_ms`].
    LatencyMs(f64),
    /// [`DeviceSpec::price`].
    Price(f64),
    /// [`DeviceSpec::model`].
    Model(ModelSpec),
}

impl Selection {
    /// Select the items of these names; all if the only name is `all`.
    pub fn new(names: &[String]) -> Self {
        match names {
            [all] if all == "all" => Self::All,
            names => Self::Named(names.to_vec()),
        }
    }

    /// Return all of a registry's entries, or those that `find` knows by name.
    pub(crate) fn resolve<T>(
        &self,
        all: impl FnOnce() -> Vec<T>,
        find: impl Fn(&str) -> Result<T, LabError>,
    ) -> Result<Vec<T>, LabError> {
        match self {
            Self::All => Ok(all()),
            Self::Named(names) => names.iter().map(|name| find(name)).collect(),
        }
    }
}

impl DeviceSpec {
    /// Resolve the file of its model, if it is relative, in a folder.
    fn resolve_in(&mut self, folder: &Path) {
        if let Some(ModelSpec::Drive(DriveSpec::File(path))) = &mut self.model {
            *path = folder.join(&path);
        }
    }
}

impl TierSpec {
    /// Create a tier of these sizes with the default device.
    pub fn new(name: &str, sizes: &[TierSize]) -> Self {
        Self { name: name.into(), sizes: sizes.to_vec(), device: DeviceSpec::default() }
    }
}

impl ParameterSpec {
    /// Create a parameter by its name, or by its owner's and its own, as in `hat.nonhot_ratio`.
    pub fn new(name: &str, value: Given) -> Self {
        let (owner, name) = match name.split_once('.') {
            Some((owner, name)) => (Some(owner.to_owned()), name),
            None => (None, name),
        };
        Self { owner, name: name.into(), value }
    }
}

impl LabError {
    /// Create a part of a specification that cannot be; `reason` says why, and what would be right.
    pub(crate) fn at(steps: &[Step], reason: impl fmt::Display) -> Self {
        Self::Spec { path: SpecPath::new(steps), reason: reason.to_string() }
    }
}

impl fmt::Display for ParameterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(owner) = &self.owner {
            write!(f, "{owner}.")?;
        }
        write!(f, "{}={}", self.name, self.value)
    }
}
