//! The per-page cost model: devices, their presets, and catalogues read from TOML.

use serde::{Deserialize, Serialize};
use thermocline_core::PageCost;
use thermocline_core::names::there_are;

use crate::presets::built_in;

/// A device as the cost model sees it: what reading and writing one page costs.
///
/// The constants hold for the page size that the source names; they are not scaled to others,
/// because for random accesses the transfer is the smallest part of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its name, by which users choose it.
    pub name: String,
    /// Description, in one line.
    pub summary: String,
    /// Reading a page, in milliseconds.
    pub read_ms: f64,
    /// Writing a page, in milliseconds.
    pub write_ms: f64,
    /// Source of the figures.
    pub source: String,
}

/// The devices that a run can name: the presets, and those of TOML files.
#[derive(Clone, Debug)]
pub struct Catalogue(Vec<Device>);

/// Reason why a device is unavailable.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// No device of this name is known.
    #[error("unknown device `{name}`; {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names that exist, separated by commas.
        known: String,
    },
    /// A cost is not a number of milliseconds.
    #[error(
        "`{text}` is not a cost of `{name}`: expected READ_MS/WRITE_MS, two numbers of at least 0 (as in 0.16/0.30)"
    )]
    BadCost {
        /// The device or tier.
        name: String,
        /// The text or value given.
        text: String,
    },
    /// A TOML file of devices could not be read.
    #[error(
        "the device file is invalid: {reason}; expected one table per device, as in\n[my-ssd]\nread_ms = 0.09\nwrite_ms = 0.03"
    )]
    BadFile {
        /// Fault, with line and column.
        reason: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    read_ms: f64,
    write_ms: f64,
    #[serde(default)]
    summary: String,
    #[serde(default)]
    source: String,
}

/// Return the presets of the cost model, in the order in which they are listed.
pub fn presets() -> &'static [Device] {
    &built_in().costs
}

impl Device {
    /// Return the device's costs, as policies and reports take them.
    pub fn page_cost(&self) -> PageCost {
        PageCost { read_ms: self.read_ms, write_ms: self.write_ms }
    }

    /// Create a device that is known by its costs alone; `name` is for messages.
    ///
    /// # Errors
    /// [`DeviceError::BadCost`] if a cost is below 0 or not a number.
    pub fn custom(name: &str, cost: PageCost) -> Result<Self, DeviceError> {
        let device = Self {
            name: "custom".into(),
            summary: "known by its costs alone".into(),
            read_ms: cost.read_ms,
            write_ms: cost.write_ms,
            source: String::new(),
        };
        let bad_cost = |_| {
            let text = format!("{}/{}", cost.read_ms, cost.write_ms);
            DeviceError::BadCost { name: name.into(), text }
        };
        device.check().map(|()| device).map_err(bad_cost)
    }

    /// Checks the costs.
    pub(crate) fn check(&self) -> Result<(), DeviceError> {
        if [self.read_ms, self.write_ms].iter().all(|cost| cost.is_finite() && *cost >= 0.0) {
            return Ok(());
        }
        let text = format!("{}/{}", self.read_ms, self.write_ms);
        Err(DeviceError::BadCost { name: self.name.clone(), text })
    }
}

impl Default for Catalogue {
    fn default() -> Self {
        Self(presets().to_vec())
    }
}

impl Catalogue {
    /// Return all devices, in the order in which they are listed.
    pub fn devices(&self) -> &[Device] {
        &self.0
    }

    /// Return the device of that name; of several, the one added last.
    ///
    /// # Errors
    /// [`DeviceError::Unknown`] if there is none.
    pub fn find(&self, name: &str) -> Result<&Device, DeviceError> {
        self.0.iter().rev().find(|device| device.name == name).ok_or_else(|| {
            let known = there_are(name, self.0.iter().map(|device| device.name.as_str()));
            DeviceError::Unknown { name: name.into(), known }
        })
    }

    /// Adds the devices of a TOML text: one table per device with `read_ms`, `write_ms` and, if you
    /// like, `summary` and `source`.
    ///
    /// # Errors
    /// [`DeviceError::BadFile`] with line and column, or [`DeviceError::BadCost`].
    pub fn add_toml(&mut self, text: &str) -> Result<(), DeviceError> {
        let table: toml::Table =
            text.parse().map_err(|error| DeviceError::BadFile { reason: format!("{error}") })?;
        for (name, value) in table {
            let entry: FileEntry = value.try_into().map_err(|error: toml::de::Error| {
                DeviceError::BadFile { reason: format!("[{name}]: {}", error.message()) }
            })?;
            let device = Device {
                name,
                summary: entry.summary,
                read_ms: entry.read_ms,
                write_ms: entry.write_ms,
                source: entry.source,
            };
            device.check()?;
            self.0.push(device);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_adds_devices_and_may_replace_presets() {
        let mut catalogue = Catalogue::default();
        catalogue
            .add_toml("[mine]\nread_ms = 1.5\nwrite_ms = 2\n[dram]\nread_ms = 0\nwrite_ms = 0")
            .unwrap();
        let mine = catalogue.find("mine").unwrap().page_cost();
        assert_eq!(mine, PageCost { read_ms: 1.5, write_ms: 2.0 });
        assert_eq!(catalogue.find("dram").unwrap().page_cost(), PageCost::default());
        assert!(catalogue.find("yours").unwrap_err().to_string().contains("mine"));
    }

    #[test]
    fn bad_costs_are_refused_with_what_would_be_right() {
        for [read_ms, write_ms] in [[-1.0, 2.0], [1.0, f64::INFINITY], [f64::NAN, 1.0]] {
            let error = Device::custom("flash", PageCost { read_ms, write_ms }).unwrap_err();
            assert!(error.to_string().contains("READ_MS/WRITE_MS"), "{error}");
        }
        for text in
            ["[a]", "[a]\nread_ms = 1", "[a]\nread_ms=1\nwrite_ms=1\ncolour=2", "x = 1", "["]
        {
            let error = Catalogue::default().add_toml(text).unwrap_err().to_string();
            assert!(error.contains("one table per device"), "{text}: {error}");
        }
        let negative = "[a]\nread_ms = -1\nwrite_ms = 1";
        assert!(matches!(
            Catalogue::default().add_toml(negative),
            Err(DeviceError::BadCost { .. })
        ));
    }
}
