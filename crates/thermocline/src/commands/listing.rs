//! What can be chosen by name, as tables and as JSON: policies and identifiers.

use std::fmt::Write as _;

use serde::Serialize;
use thermocline_core::config::Parameter;

use crate::output;

/// One thing that can be chosen by name.
#[derive(Serialize)]
pub(crate) struct Listed {
    /// Its name.
    name: &'static str,
    /// What it does, in one line.
    summary: &'static str,
    /// Who published it, where.
    source: &'static str,
    /// The hierarchies that it runs on, for a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tiers: Option<&'static str>,
    /// How many clients may share its lower tiers, for a policy: one or several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) clients: Option<&'static str>,
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

impl Listed {
    /// Something without a hierarchy.
    pub(crate) fn new(
        name: &'static str,
        summary: &'static str,
        source: &'static str,
        parameters: &[Parameter],
    ) -> Self {
        let parameters = parameters.iter().map(|parameter| ParameterJson {
            name: parameter.name,
            default: parameter.default.to_string(),
            range: parameter.range(),
            summary: parameter.summary,
            source: parameter.source,
        });
        Self { name, summary, source, tiers: None, clients: None, parameters: parameters.collect() }
    }

    /// All of it in words, with a table of its parameters.
    pub(crate) fn describe(&self) -> String {
        let mut text = format!("{}: {}\n  source: {}\n", self.name, self.summary, self.source);
        if let Some(tiers) = self.tiers {
            let _infallible = writeln!(text, "  runs on: {tiers}");
        }
        if let Some(clients) = self.clients {
            let _infallible = writeln!(text, "  clients: {clients}");
        }
        let Some(example) = self.parameters.first() else {
            text.push_str("  parameters: none\n");
            return text;
        };
        let row = |parameter: &ParameterJson| {
            let ParameterJson { name, default, range, summary, source } = parameter;
            vec![
                (*name).into(),
                default.clone(),
                range.clone(),
                (*summary).into(),
                (*source).into(),
            ]
        };
        let rows: Vec<Vec<String>> = self.parameters.iter().map(row).collect();
        let header = ["parameter", "default", "range", "what it does", "source of the default"];
        text.push_str(&output::table(&header, &rows, 5));
        let _infallible =
            writeln!(text, "Set one with --param {}={}.", example.name, example.default);
        text
    }
}

/// All of them in a table; `command` lists one.
pub(crate) fn table(kind: &str, command: &str, all: &[Listed]) -> String {
    let row = |one: &Listed| vec![one.name.into(), one.summary.into(), one.source.into()];
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let table = output::table(&[kind, "what it does", "source"], &rows, 3);
    format!("{table}`thermocline {command} NAME` lists the parameters of one.\n")
}
