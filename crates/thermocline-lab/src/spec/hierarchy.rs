//! A hierarchy, and the options that all its tiers share.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thermocline_core::WriteMiss;
use thermocline_device::ssd::Placement;

use super::{
    DISK, DeviceSpec, HierarchyOption, OptionKind, OptionWord, ParameterSpec, Setting, TierSetting,
    TierSpec, wire,
};

/// A hierarchy, and what is the same for all policies that run on it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct HierarchySpec {
    /// The cache tiers, fastest first: `ram` and `flash`, or `l1` to `l8`.
    pub tiers: Vec<TierSpec>,
    /// The disk below them.
    pub disk: DeviceSpec,
    /// A TOML file of more devices.
    pub device_file: Option<PathBuf>,
    /// Parameters of the policies and of the identifier; of two for one name the last one counts.
    pub parameters: Vec<ParameterSpec>,
    /// Treatment of write misses.
    #[serde(with = "wire::WriteMissWord")]
    pub write_miss: WriteMiss,
    /// The identifier that decides which pages enter flash; all enter without one.
    pub admit: Option<String>,
    /// Model of time.
    pub timing: TimingSpec,
    /// Placement handles of the cache tiers whose models are solid-state drives; those of the models
    /// themselves if absent.
    pub placement: Option<Placement>,
    /// Chooser of the handle of each write to these tiers; every write has handle 0 if absent.
    pub streams: Option<String>,
}

/// Model of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct TimingSpec {
    /// Costs or events.
    pub mode: TimingMode,
    /// Requests kept outstanding instead of arrivals at the trace's times, at least 1; for
    /// [`TimingMode::Events`].
    pub closed_loop: Option<u32>,
}

/// Basis of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum TimingMode {
    /// A constant cost per page transfer.
    #[default]
    Cost,
    /// Requests that arrive and wait, and devices that queue.
    Events,
}

/// The options that all tiers of a hierarchy share, in the order in which help lists them. The command
/// line, sweeps and Python make theirs of these rows.
pub const HIERARCHY_OPTIONS: &[HierarchyOption] = &[
    HierarchyOption {
        key: "write_miss",
        summary: "Whether a write miss reads the page from disk first; the published policies do",
        only_with: None,
        kind: OptionKind::Words(&[
            OptionWord {
                word: "fetch",
                summary: "Read the page from disk first",
                set: |spec| spec.write_miss = WriteMiss::Fetch,
            },
            OptionWord {
                word: "allocate",
                summary: "The write covers the page: no read",
                set: |spec| spec.write_miss = WriteMiss::Allocate,
            },
        ]),
    },
    HierarchyOption {
        key: "admit",
        summary: "Let an identifier decide which pages enter flash",
        only_with: None,
        kind: OptionKind::Name {
            of: "identifier",
            example: "mbf",
            set: |spec, name| spec.admit = Some(name),
        },
    },
    HierarchyOption {
        key: "timing",
        summary: "How time is counted: a constant cost per page transfer, or devices with queues",
        only_with: None,
        kind: OptionKind::Words(&[
            OptionWord {
                word: "cost",
                summary: "A constant per page transfer, summed up",
                set: |spec| spec.timing.mode = TimingMode::Cost,
            },
            OptionWord {
                word: "events",
                summary: "Requests that arrive and wait, devices that queue; response times",
                set: |spec| spec.timing.mode = TimingMode::Events,
            },
        ]),
    },
    HierarchyOption {
        key: "closed_loop",
        summary: "Keep N requests outstanding instead of taking the trace's times",
        only_with: Some(("timing", "events")),
        kind: OptionKind::Count {
            of: "request",
            example: 8,
            set: |spec, requests| spec.timing.closed_loop = Some(requests),
        },
    },
    HierarchyOption {
        key: "placement",
        summary: "Give the solid-state drives of cache tiers placement handles",
        only_with: Some(("timing", "events")),
        kind: OptionKind::Text {
            example: "handles=4,isolation=persistent",
            set: |spec, text| {
                spec.placement = Some(text.parse()?);
                Ok(())
            },
        },
    },
    HierarchyOption {
        key: "streams",
        summary: "Choose the placement handle of each write: by an identifier, or by `tier`, `client`, `volume`, `class`, `oracle` or `none`",
        only_with: Some(("timing", "events")),
        kind: OptionKind::Name {
            of: "identifier",
            example: "mbf",
            set: |spec, name| spec.streams = Some(name),
        },
    },
];

impl HierarchySpec {
    /// Apply a setting to the device of its tier, in place of an earlier one.
    ///
    /// # Errors
    /// If the hierarchy does not have the tier; the text names those that it has.
    pub fn set(&mut self, setting: TierSetting) -> Result<(), String> {
        let TierSetting { tier, setting } = setting;
        let device = match self.tiers.iter_mut().position(|known| known.name == tier) {
            Some(place) => &mut self.tiers[place].device,
            None if tier == DISK => &mut self.disk,
            None => {
                let names = self.tiers.iter().map(|known| known.name.as_str());
                let known: Vec<&str> = names.chain([DISK]).collect();
                return Err(format!("no tier `{tier}`; there are: {}", known.join(", ")));
            }
        };
        match setting {
            Setting::Name(name) => device.name = Some(name),
            Setting::Cost(cost) => device.cost = Some(cost),
            Setting::LatencyMs(latency_ms) => device.latency_ms = Some(latency_ms),
            Setting::Price(price) => device.price = Some(price),
            Setting::Model(model) => device.model = Some(model),
        }
        Ok(())
    }

    /// Return the same with the fastest cache tiers only, at most `count` of them, over the same
    /// disk.
    #[must_use]
    pub fn with_first_tiers(&self, count: usize) -> Self {
        let tiers = self.tiers.iter().take(count).cloned().collect();
        Self { tiers, ..self.clone() }
    }

    /// Resolve relative paths of devices and models in a folder.
    pub(crate) fn resolve_in(&mut self, folder: &Path) {
        if let Some(path) = &mut self.device_file {
            *path = folder.join(&path);
        }
        let devices = self.tiers.iter_mut().map(|tier| &mut tier.device);
        devices.chain([&mut self.disk]).for_each(|device| device.resolve_in(folder));
    }
}
