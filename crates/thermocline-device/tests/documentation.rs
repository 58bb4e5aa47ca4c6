//! The guide to drives says what the model takes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use thermocline_device::ssd::SsdConfig;

const GUIDE: &str = include_str!("../../../docs/drives.md");

/// Return the drive of the guide.
fn example() -> SsdConfig {
    let (_, rest) = GUIDE.split_once("```toml\n").unwrap();
    let (toml, _) = rest.split_once("```").unwrap();
    SsdConfig::from_toml(toml).unwrap()
}

#[test]
fn the_example_is_a_drive() {
    example().validate().unwrap();
}

#[test]
fn every_field_is_explained_with_its_default() {
    let fields = serde_json::to_value(example()).unwrap();
    for (name, value) in fields.as_object().unwrap() {
        let line = GUIDE.lines().find(|line| {
            line.starts_with(&format!("{name} =")) || line.contains(&format!("`{name}`"))
        });
        let line = line.unwrap_or_else(|| panic!("`{name}` is not in the guide"));
        if let Some(text) = value.as_str().filter(|text| !text.is_empty() && name != "name") {
            assert!(line.contains(&format!("`\"{text}\"`")), "{name}: {text} is its default");
        }
        if value.is_boolean() {
            assert!(line.contains(&format!("| {value} |")), "{name}: {value} is its default");
        }
    }
}
