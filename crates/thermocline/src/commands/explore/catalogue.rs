//! Choices that the page offers: policies, initial sizes, and devices.

use anyhow::Result;
use serde::Serialize;
use thermocline_core::registry::{self, Depth};
use thermocline_device::Device;
use thermocline_papers::{Camp, shipped_and_published};
use thermocline_trace::PageSize;

use super::traces::TraceJson;
use crate::arguments::ENDURANCE_CYCLES;

/// The policies that are chosen to begin with.
const POLICIES: [&str; 7] = ["hat", "lc", "tac", "face-gsc", "lru-exclusive", "arc", "lru"];
/// The sizes to begin with.
const RAM: [&str; 1] = ["2%"];
const FLASH: [&str; 5] = ["1x", "2x", "4x", "8x", "16x"];
/// Maximum time of a page read, in milliseconds, of memory; flash takes less than the next.
const MEMORY_MS: f64 = 0.01;
const FLASH_MS: f64 = 1.0;

/// Choices that the page offers.
#[derive(Debug, Serialize)]
pub(super) struct Catalogue {
    version: &'static str,
    policies: Vec<PolicyJson>,
    defaults: Defaults,
    devices: Devices,
    traces: Vec<TraceJson>,
    drop_limit_bytes: u64,
}

#[derive(Debug, Serialize)]
struct PolicyJson {
    name: &'static str,
    about: &'static str,
    tiers: u8,
    group: &'static str,
}

#[derive(Debug, Serialize)]
struct Defaults {
    policies: [&'static str; POLICIES.len()],
    ram: [&'static str; RAM.len()],
    flash: [&'static str; FLASH.len()],
    /// Number of times that the whole flash may be written.
    endurance_cycles: f64,
}

/// Devices, by what they can be.
#[derive(Debug, Serialize)]
struct Devices {
    ram: Vec<DeviceJson>,
    flash: Vec<DeviceJson>,
    disk: Vec<DeviceJson>,
}

#[derive(Debug, Serialize)]
struct DeviceJson {
    name: String,
    about: String,
}

/// Return all that the page offers, and the traces that are open.
///
/// # Errors
/// Never while the presets are valid.
pub(super) fn catalogue(traces: Vec<TraceJson>, drop_limit_bytes: u64) -> Result<Catalogue> {
    let known = shipped_and_published(PageSize::DEFAULT.bytes())?;
    let is_shipped =
        |name: &str| known.iter().any(|one| one.policy.name == name && one.camp != Camp::Published);
    let policies = registry::entries().filter(|entry| entry.capabilities.depth.allows(2));
    let policies = policies.map(|entry| {
        let is_of_memory = entry.capabilities.depth == Depth::Ram;
        let group = match &*entry.name {
            _ if is_of_memory => "one tier",
            name if is_shipped(name) => "shipped",
            _ => "published",
        };
        let tiers = if is_of_memory { 1 } else { 2 };
        PolicyJson { name: &entry.name, about: entry.summary, tiers, group }
    });
    Ok(Catalogue {
        version: env!("CARGO_PKG_VERSION"),
        policies: policies.collect(),
        defaults: Defaults {
            policies: POLICIES,
            ram: RAM,
            flash: FLASH,
            endurance_cycles: ENDURANCE_CYCLES,
        },
        devices: devices()?,
        traces,
        drop_limit_bytes,
    })
}

fn devices() -> Result<Devices> {
    let catalogue = thermocline_lab::catalogue(None)?;
    let named = |is_it: &dyn Fn(f64) -> bool| {
        let devices = catalogue.devices().iter().filter(|device| is_it(device.read_ms));
        devices.map(DeviceJson::of).collect()
    };
    Ok(Devices {
        ram: named(&|read_ms| read_ms <= MEMORY_MS),
        flash: named(&|read_ms| read_ms > MEMORY_MS && read_ms < FLASH_MS),
        disk: named(&|read_ms| read_ms >= FLASH_MS),
    })
}

impl DeviceJson {
    fn of(device: &Device) -> Self {
        Self { name: device.name.clone(), about: device.summary.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_can_be_chosen() {
        let Catalogue { policies, devices, .. } = catalogue(vec![], 1).unwrap();
        for name in POLICIES {
            assert!(policies.iter().any(|policy| policy.name == name), "{name}");
        }
        let group = |name: &str| policies.iter().find(|one| one.name == name).unwrap().group;
        assert_eq!(["hat", "bcache", "arc"].map(group), ["published", "shipped", "one tier"]);
        let Devices { ram, flash, disk } = devices;
        for (tier, device) in [(ram, "memory"), (flash, "samsung-470"), (disk, "st380011a")] {
            assert!(tier.iter().any(|one| one.name == device), "{device}: {tier:?}");
        }
    }
}
