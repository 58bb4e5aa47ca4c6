//! The hierarchy that several papers are run on.

use thermocline_core::config::Values;
use thermocline_core::registry::PolicyEntry;
use thermocline_device::Catalogue;
use thermocline_lab::{Configuration, LabError, TierConfiguration, TierSize};

/// The disk of all experiments.
pub(crate) const DISK: &str = "st380011a";
/// The flash of the HAT paper.
pub(crate) const FLASH: &str = "samsung-470";

/// Memory and flash over the devices of the HAT paper, every page admitted.
pub(crate) fn memory_and_flash(
    policy: &PolicyEntry,
    values: Values,
    memory: &str,
    flash_ratio: f64,
) -> Result<Configuration, LabError> {
    let catalogue = Catalogue::default();
    let tier = |name: &str, size, device: &str| {
        Ok::<_, LabError>(TierConfiguration {
            name: name.into(),
            size,
            device: catalogue.find(device)?.clone(),
        })
    };
    let tiers = vec![
        tier("ram", memory.parse()?, "memory")?,
        tier("flash", TierSize::TimesAbove(flash_ratio), FLASH)?,
    ];
    Ok(Configuration::new(policy.clone(), values, tiers, catalogue.find(DISK)?.clone()))
}
