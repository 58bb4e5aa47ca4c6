//! The configuration file of `thermocline serve`.

use serde::Serialize;

use crate::installed::InstalledCache;
use crate::size::exact;
use crate::words::words;

use super::script::{Change, Commands};
use super::shell::check_name;
use super::{CommandError, remove};

const CHECKED_AGAINST: &str = concat!("Thermocline ", env!("CARGO_PKG_VERSION"));

words! {
    /// The write mode of the engine.
    pub enum WriteMode {
        /// The policy decides.
        Back = "back",
        /// The backing store has them before they are answered.
        Through = "through",
        /// Likewise, and pages that are not cached stay so.
        Around = "around",
    }
}

/// An engine as it is recommended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheToml {
    /// The file to write, such as `/etc/thermocline/cache.toml`.
    pub file: String,
    /// The slow device.
    pub backing: String,
    /// The fast device.
    pub flash: String,
    /// Bytes that the policy may keep on the fast device.
    pub flash_bytes: u64,
    /// GiB per day that may be written to it, if it is to last.
    pub write_budget_gib_per_day: Option<f64>,
    /// Bytes of memory for pages.
    pub ram_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// The handling of writes.
    pub write_mode: WriteMode,
    /// The policy.
    pub policy: String,
    /// Its parameters that differ from the defaults, with values as TOML would have them.
    pub parameters: Vec<(String, Parameter)>,
    /// The Unix socket at which clients connect.
    pub socket: String,
}

/// The value of a policy's parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Parameter {
    /// A whole number.
    Integer(i64),
    /// A number.
    Real(f64),
    /// True or false.
    Switch(bool),
    /// A word.
    Word(String),
}

pub(super) fn commands(
    wanted: &CacheToml,
    installed: Option<&InstalledCache>,
) -> Result<Commands, CommandError> {
    for (what, name) in [
        ("configuration file", &wanted.file),
        ("slow device", &wanted.backing),
        ("fast device", &wanted.flash),
        ("socket", &wanted.socket),
    ] {
        check_name(what, name)?;
    }
    let page = wanted.page_bytes;
    if page == 0 || !page.is_multiple_of(4096) || page > 1 << 20 {
        let expected = "give a multiple of 4k up to 1m";
        return Err(CommandError::setting("a page size", &*exact(page), expected));
    }
    let mut commands = Commands::new("thermocline serve", CHECKED_AGAINST);
    commands.set_change(Change::Create);
    if let Some(installed) = installed {
        commands.set_change(Change::Rebuild);
        remove(&mut commands, installed);
    }
    commands.file("The configuration of the engine.", &wanted.file, text(wanted));
    commands.run("Serves the cached device over NBD.", &["thermocline", "serve", &wanted.file]);
    commands.note(
        "Use the served device in place of the slow one: docs/clients.md says how to attach it.",
    );
    Ok(commands)
}

/// Write the file.
fn text(wanted: &CacheToml) -> String {
    let mut text = String::new();
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!("page_size = {}", wanted.page_bytes));
    line(format!("write_mode = \"{}\"", wanted.write_mode.word()));
    line(format!("\n[backing]\npath = {}", quoted(&wanted.backing)));
    line(format!("\n[flash]\npath = {}\nsize = {}", quoted(&wanted.flash), wanted.flash_bytes));
    if let Some(budget) = wanted.write_budget_gib_per_day {
        line(format!("write_budget_gib_per_day = {}", real(budget)));
    }
    line(format!("\n[ram]\nsize = {}", wanted.ram_bytes));
    line(format!("\n[policy]\nname = {}", quoted(&wanted.policy)));
    if !wanted.parameters.is_empty() {
        line("\n[policy.parameters]".into());
        for (name, value) in &wanted.parameters {
            line(format!("{} = {}", quoted(name), value.toml()));
        }
    }
    line(format!("\n[nbd]\nsocket = {}", quoted(&wanted.socket)));
    text
}

impl Parameter {
    fn toml(&self) -> String {
        match self {
            Self::Integer(value) => value.to_string(),
            Self::Real(value) => real(*value),
            Self::Switch(value) => value.to_string(),
            Self::Word(word) => quoted(word),
        }
    }
}

/// Return a number that TOML does not take for a whole one.
fn real(value: f64) -> String {
    format!("{value:?}")
}

/// Return a string of TOML, on one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(control)));
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wanted(backing: String, name: String, word: String, budget: f64) -> CacheToml {
        CacheToml {
            file: "cache.toml".into(),
            backing,
            flash: "/dev/nvme0n1p3".into(),
            flash_bytes: 64 << 30,
            write_budget_gib_per_day: Some(budget),
            ram_bytes: 1 << 30,
            page_bytes: 4096,
            write_mode: WriteMode::Through,
            policy: "hat".into(),
            parameters: vec![
                (name, Parameter::Word(word)),
                ("nonhot_ratio".into(), Parameter::Real(1.0)),
                ("a".into(), Parameter::Integer(-3)),
                ("b".into(), Parameter::Switch(true)),
            ],
            socket: "/run/thermocline/thermocline.sock".into(),
        }
    }

    proptest! {
        #[test]
        fn toml_reads_the_file_back(
            backing in ".{1,20}|[\"\\\\\n\u{7f}\u{1}']{1,9}",
            name in "[c-z_]{1,9}|[c-z.\" \n]{1,9}",
            word in "[^a]{0,9}",
            budget in 0.0..1e9,
        ) {
            let file = text(&wanted(backing.clone(), name.clone(), word.clone(), budget));
            let table: toml::Table = file.parse().unwrap();
            prop_assert_eq!(table["backing"]["path"].as_str(), Some(backing.as_str()));
            prop_assert_eq!(table["flash"]["size"].as_integer(), Some(64 << 30));
            prop_assert_eq!(table["flash"]["write_budget_gib_per_day"].as_float(), Some(budget));
            prop_assert_eq!(table["write_mode"].as_str(), Some("through"));
            let parameters = &table["policy"]["parameters"];
            prop_assert_eq!(parameters["nonhot_ratio"].as_float(), Some(1.0));
            prop_assert_eq!(parameters["a"].as_integer(), Some(-3));
            prop_assert_eq!(parameters["b"].as_bool(), Some(true));
            if name != "nonhot_ratio" {
                prop_assert_eq!(parameters[name.as_str()].as_str(), Some(word.as_str()));
            }
        }
    }
}
