//! `thermocline policies`: what there is, and what can be set.

use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;
use thermocline_core::registry::{self, Entry};

use crate::arguments::PoliciesOptions;
use crate::{hierarchy, output};

/// A policy as JSON.
#[derive(Serialize)]
struct PolicyJson {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    tiers: &'static str,
    parameters: Vec<ParameterJson>,
}

/// A parameter as JSON.
#[derive(Serialize)]
struct ParameterJson {
    name: &'static str,
    default: String,
    range: String,
    summary: &'static str,
    source: &'static str,
}

/// Runs the command.
pub(crate) fn run(options: &PoliciesOptions) -> Result<String> {
    match &options.name {
        Some(name) => {
            let entry = hierarchy::find_policy(name)?;
            if options.json { output::json(&PolicyJson::from(entry)) } else { Ok(describe(entry)) }
        }
        None if options.json => {
            let all: Vec<PolicyJson> = registry::entries().iter().map(PolicyJson::from).collect();
            output::json(&all)
        }
        None => Ok(list()),
    }
}

fn list() -> String {
    let rows: Vec<Vec<String>> = registry::entries()
        .iter()
        .map(|entry| vec![entry.name.into(), entry.summary.into(), entry.source.into()])
        .collect();
    let table = output::table(&["policy", "what it does", "source"], &rows, 3);
    format!("{table}`thermocline policies NAME` lists the parameters of one.\n")
}

fn describe(entry: &Entry) -> String {
    let mut text = format!(
        "{}: {}\n  source: {}\n  runs on: {}\n",
        entry.name,
        entry.summary,
        entry.source,
        entry.depth.describe()
    );
    if entry.parameters.is_empty() {
        text.push_str("  parameters: none\n");
        return text;
    }
    let rows: Vec<Vec<String>> = entry
        .parameters
        .iter()
        .map(|parameter| {
            vec![
                parameter.name.into(),
                parameter.default.to_string(),
                parameter.kind.to_string(),
                parameter.summary.into(),
                parameter.source.into(),
            ]
        })
        .collect();
    text.push_str(&output::table(
        &["parameter", "default", "range", "what it does", "source of the default"],
        &rows,
        5,
    ));
    let example = entry.parameters[0];
    let _infallible = writeln!(text, "Set one with --param {}={}.", example.name, example.default);
    text
}

impl From<&Entry> for PolicyJson {
    fn from(entry: &Entry) -> Self {
        let parameters = entry.parameters.iter().map(|parameter| ParameterJson {
            name: parameter.name,
            default: parameter.default.to_string(),
            range: parameter.kind.to_string(),
            summary: parameter.summary,
            source: parameter.source,
        });
        Self {
            name: entry.name,
            summary: entry.summary,
            source: entry.source,
            tiers: entry.depth.describe(),
            parameters: parameters.collect(),
        }
    }
}
