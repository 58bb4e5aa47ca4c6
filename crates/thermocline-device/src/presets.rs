//! The presets of all devices: one row each in `presets.toml`, which is built in.

use std::sync::LazyLock;

use serde::de::DeserializeOwned;
use thermocline_core::names::there_are;
use toml::{Table, Value};

use crate::cost::Device;
use crate::hdd::{HddConfig, HddError};
use crate::ssd::{SsdConfig, SsdError};

/// The presets by kind, each kind in the order of its rows.
#[derive(Debug)]
pub(crate) struct Presets {
    /// The rows `[[cost]]`.
    pub(crate) costs: Vec<Device>,
    /// The rows `[[ssd]]`.
    pub(crate) ssds: Vec<SsdConfig>,
    /// The rows `[[hdd]]`.
    pub(crate) hdds: Vec<HddConfig>,
}

/// Reason why the file is refused: the row, and the key with a description of valid values.
#[derive(Debug, thiserror::Error)]
#[error("presets.toml: {place}: {reason}")]
struct BadPreset {
    place: String,
    reason: String,
}

/// Return the presets that are built in.
pub(crate) fn built_in() -> &'static Presets {
    static BUILT_IN: LazyLock<Presets> = LazyLock::new(|| {
        let parsed = Presets::parse(include_str!("presets.toml"));
        parsed.unwrap_or_else(|error| panic!("the tests parse this file, too: {error}"))
    });
    &BUILT_IN
}

impl HddConfig {
    /// Return the preset of that name.
    ///
    /// # Errors
    /// [`HddError::UnknownPreset`] with the names that exist.
    pub fn preset(name: &str) -> Result<Self, HddError> {
        let presets = Self::presets();
        presets.iter().find(|preset| preset.name == name).cloned().ok_or_else(|| {
            let known = there_are(name, presets.iter().map(|preset| preset.name.as_str()));
            HddError::UnknownPreset { name: name.into(), known }
        })
    }

    /// Return the presets, in the order in which they are listed.
    pub fn presets() -> &'static [Self] {
        &built_in().hdds
    }
}

impl SsdConfig {
    /// Return the preset of that name.
    ///
    /// # Errors
    /// [`SsdError::UnknownPreset`] with the names that exist.
    pub fn preset(name: &str) -> Result<Self, SsdError> {
        let presets = Self::presets();
        presets.iter().find(|preset| preset.name == name).cloned().ok_or_else(|| {
            let known = there_are(name, presets.iter().map(|preset| preset.name.as_str()));
            SsdError::UnknownPreset { name: name.into(), known }
        })
    }

    /// Return the presets, in the order in which they are listed.
    pub fn presets() -> &'static [Self] {
        &built_in().ssds
    }
}

impl Presets {
    /// Parses the rows. Their ranges are checked where a device is made, and by the tests.
    fn parse(text: &str) -> Result<Self, BadPreset> {
        let mut tables: Table = text.parse().map_err(|error: toml::de::Error| {
            let reason = error.to_string().trim_end().to_owned();
            BadPreset { place: "TOML".into(), reason }
        })?;
        let presets = Self {
            costs: rows(&mut tables, "cost")?,
            ssds: rows(&mut tables, "ssd")?,
            hdds: rows(&mut tables, "hdd")?,
        };
        match tables.keys().next() {
            None => Ok(presets),
            Some(kind) => Err(BadPreset {
                place: format!("`{kind}`"),
                reason: "rows are of the kinds [[cost]], [[ssd]] and [[hdd]]".into(),
            }),
        }
    }
}

/// Takes the rows of a kind from `tables`.
fn rows<T: DeserializeOwned>(tables: &mut Table, kind: &str) -> Result<Vec<T>, BadPreset> {
    let Some(Value::Array(rows)) = tables.remove(kind) else {
        let reason = format!("expected rows, each headed [[{kind}]]");
        return Err(BadPreset { place: format!("`{kind}`"), reason });
    };
    let mut names: Vec<String> = vec![];
    let mut parsed = vec![];
    for (number, row) in (1..).zip(rows) {
        let name = row.get("name").and_then(Value::as_str).map(str::to_owned);
        let place = match &name {
            Some(name) => format!("[[{kind}]] `{name}`"),
            None => format!("[[{kind}]] number {number}"),
        };
        if let Some(name) = name {
            if names.contains(&name) {
                let reason = "`name` is that of an earlier row; take another one".into();
                return Err(BadPreset { place, reason });
            }
            names.push(name);
        }
        parsed.push(row.try_into().map_err(|error: toml::de::Error| {
            let reason = error.to_string().trim_end().replace('\n', " ");
            BadPreset { place, reason }
        })?);
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("presets.toml");

    /// Check the parser's message about the file after a change to a row.
    #[track_caller]
    fn check(row: &str, from: &str, to: &str, expected: &[&str]) {
        let start = TEXT.find(&format!("name = \"{row}\"\n")).unwrap();
        let (before, row) = TEXT.split_at(start);
        assert!(row.contains(from), "{from}");
        check_text(&format!("{before}{}", row.replacen(from, to, 1)), expected);
    }

    #[track_caller]
    fn check_text(text: &str, expected: &[&str]) {
        let error = Presets::parse(text).unwrap_err().to_string();
        for part in expected {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    /// Panic unless a row is within its ranges and names its source.
    fn check_row(kind: &str, name: &str, words: [&str; 2], checked: Result<(), impl ToString>) {
        let error = checked.map_err(|error| error.to_string()).err();
        assert_eq!(error, None, "[[{kind}]] `{name}`");
        assert!(words.iter().all(|word| !word.is_empty()), "[[{kind}]] `{name}`");
    }

    #[test]
    fn every_row_is_in_its_ranges_and_has_a_source() {
        let Presets { costs, ssds, hdds } = Presets::parse(TEXT).unwrap();
        for row in costs {
            check_row("cost", &row.name, [&row.summary, &row.source], row.check());
        }
        for row in ssds {
            check_row("ssd", &row.name, [&row.summary, &row.source], row.validate());
        }
        for row in hdds {
            check_row("hdd", &row.name, [&row.summary, &row.source], row.check());
        }
    }

    #[test]
    fn damage_is_reported_with_the_row_and_the_key() {
        check(
            "samsung-470",
            "read_ms = 0.16\n",
            "",
            &["[[cost]] `samsung-470`", "missing field `read_ms`"],
        );
        check(
            "samsung-470",
            "read_ms = 0.16",
            "read_ms = \"fast\"",
            &["[[cost]] `samsung-470`", "`read_ms`"],
        );
        check(
            "samsung-470",
            "read_ms = 0.16",
            "raed_ms = 0.16",
            &["[[cost]] `samsung-470`", "`raed_ms`", "`read_ms`"],
        );
        check("dram", "name = \"dram\"\n", "", &["[[cost]] number ", "missing field `name`"]);
        check("dram", "name = \"dram\"", "name = 3", &["[[cost]] number ", "`name`"]);
        check("ssdsim", "channels = 2", "channels = -2", &["[[ssd]] `ssdsim`", "`channels`"]);
        check(
            "ssdsim",
            "gc_unit = \"pages\"",
            "gc_unit = \"page\"",
            &["[[ssd]] `ssdsim`", "`gc_unit`", "`pages`"],
        );
        check("st380011a", "heads = 2\n", "", &["[[hdd]] `st380011a`", "missing field `heads`"]);
        check(
            "exos-x18",
            "{ cylinders = 23400, s",
            "{ cilinders = 23400, s",
            &["[[hdd]] `exos-x18`", "`zones`", "`cilinders`"],
        );
        check(
            "qlc-nvme",
            "name = \"qlc-nvme\"",
            "name = \"tlc-nvme\"",
            &["[[ssd]] `tlc-nvme`", "`name`", "earlier row"],
        );
        check_text(
            &TEXT.replacen("[[ssd]]\n", "[[sdd]]\n", 1),
            &["`sdd`", "[[cost]], [[ssd]] and [[hdd]]"],
        );
        check_text(&TEXT.replacen("[[hdd]]\n", "[hdd\n", 1), &["TOML", "line "]);
        check_text("", &["`cost`", "[[cost]]"]);
    }
}
