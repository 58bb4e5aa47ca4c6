//! Lists of everything that can be chosen by name: policies, identifiers, write buffers, drives and
//! options.

use serde::Serialize;
use serde_json::Number;
use thermocline_core::config::{Kind, Parameter};
use thermocline_core::hotness;
use thermocline_core::registry::{self, BUFFERS, PolicyEntry};
use thermocline_device::hdd::HddConfig;
use thermocline_device::ssd::SsdConfig;

use crate::spec::{HIERARCHY_OPTIONS, HierarchyOption, OptionKind};

/// A policy, an identifier or a write buffer. Its JSON form has a stable schema.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// Its name.
    pub name: &'static str,
    /// Purpose, in one line.
    pub summary: &'static str,
    /// Authors, venue and year of the publication.
    pub source: &'static str,
    /// The hierarchies that it runs on, for a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiers: Option<&'static str>,
    /// Number of clients that may share its lower tiers, for a policy: `one` or `several`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<&'static str>,
    /// Its parameters.
    pub parameters: Vec<ListedParameter>,
}

/// A parameter of something listed.
#[derive(Clone, Debug, Serialize)]
pub struct ListedParameter {
    /// Its name.
    pub name: &'static str,
    /// Its default, as text.
    pub default: String,
    /// The values that it takes, in words.
    pub range: String,
    /// Type of a value: `integer`, `real`, `switch` or `choice`.
    pub kind: &'static str,
    /// The least value, of a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Number>,
    /// The greatest value, of a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Number>,
    /// The words to choose from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<&'static [&'static str]>,
    /// Purpose, in one sentence.
    pub summary: &'static str,
    /// Origin of the default.
    pub source: &'static str,
}

/// The presets of drives, each with every field as in a TOML file. The JSON form is a contract.
#[derive(Clone, Debug, Serialize)]
pub struct Drives {
    /// Solid-state drives.
    pub ssd: &'static [SsdConfig],
    /// Hard disks.
    pub hdd: &'static [HddConfig],
}

/// An option that all tiers of a hierarchy share. Its JSON form has a stable schema.
#[derive(Clone, Debug, Serialize)]
pub struct ListedOption {
    /// Its key in a sweep, and its name in Python.
    pub name: &'static str,
    /// Purpose, in one line.
    pub summary: &'static str,
    /// The words that it takes, its default first; none if it takes a name or a number.
    pub words: Vec<&'static str>,
}

/// Return all registered policies.
pub fn policies() -> Vec<Listed> {
    registry::entries().map(policy).collect()
}

/// Return a policy with the hierarchies and clients that it takes.
pub fn policy(entry: &'static PolicyEntry) -> Listed {
    Listed {
        tiers: Some(entry.capabilities.depth.describe()),
        clients: Some(if entry.capabilities.takes_clients { "several" } else { "one" }),
        ..buffer(entry)
    }
}

/// Return all registered identifiers.
pub fn identifiers() -> Vec<Listed> {
    hotness::registry::entries().iter().map(identifier).collect()
}

/// Return an identifier.
pub fn identifier(entry: &hotness::registry::IdentifierEntry) -> Listed {
    Listed::new(entry.name, entry.summary, entry.source, entry.parameters)
}

/// Return all registered write buffers.
pub fn buffers() -> Vec<Listed> {
    BUFFERS.iter().map(buffer).collect()
}

/// Return a write buffer.
pub fn buffer(entry: &'static PolicyEntry) -> Listed {
    Listed::new(&entry.name, entry.summary, entry.source, entry.parameters)
}

/// Return all drives that are built in.
pub fn drives() -> Drives {
    Drives { ssd: SsdConfig::presets(), hdd: HddConfig::presets() }
}

/// Return the options that all tiers of a hierarchy share.
pub fn hierarchy_options() -> Vec<ListedOption> {
    let listed = |option: &HierarchyOption| {
        let words = if let OptionKind::Words(words) = option.kind { words } else { &[] };
        let words = words.iter().map(|word| word.word).collect();
        ListedOption { name: option.key, summary: option.summary, words }
    };
    HIERARCHY_OPTIONS.iter().map(listed).collect()
}

impl ListedParameter {
    fn of(parameter: &Parameter) -> Self {
        let (kind, min, max, words) = match parameter.kind {
            Kind::Integer { min, max } => {
                ("integer", Some(Number::from(min)), Some(Number::from(max)), None)
            }
            Kind::Real { min, max } => ("real", Number::from_f64(min), Number::from_f64(max), None),
            Kind::Switch => ("switch", None, None, None),
            Kind::Choice(words) => ("choice", None, None, Some(words)),
            Kind::Words(words) => ("words", None, None, Some(words)),
        };
        Self {
            name: parameter.name,
            default: parameter.default.to_string(),
            range: parameter.range(),
            kind,
            min,
            max,
            words,
            summary: parameter.summary,
            source: parameter.source,
        }
    }
}

impl Listed {
    fn new(
        name: &'static str,
        summary: &'static str,
        source: &'static str,
        parameters: &[Parameter],
    ) -> Self {
        let parameters = parameters.iter().map(ListedParameter::of);
        Self { name, summary, source, tiers: None, clients: None, parameters: parameters.collect() }
    }
}
