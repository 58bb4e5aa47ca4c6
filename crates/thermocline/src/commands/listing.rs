//! Lists of everything that can be chosen by name, as tables.

use std::fmt::Write as _;

use thermocline_lab::listing::{Listed, ListedParameter};

use crate::output;

/// Return all of it in words, with a table of its parameters.
pub(crate) fn describe(listed: &Listed) -> String {
    let mut text = format!("{}: {}\n  source: {}\n", listed.name, listed.summary, listed.source);
    if let Some(tiers) = listed.tiers {
        let _infallible = writeln!(text, "  runs on: {tiers}");
    }
    if let Some(clients) = listed.clients {
        let _infallible = writeln!(text, "  clients: {clients}");
    }
    let Some(example) = listed.parameters.first() else {
        text.push_str("  parameters: none\n");
        return text;
    };
    let row = |parameter: &ListedParameter| {
        let ListedParameter { name, default, range, summary, source, .. } = parameter;
        vec![(*name).into(), default.clone(), range.clone(), (*summary).into(), (*source).into()]
    };
    let rows: Vec<Vec<String>> = listed.parameters.iter().map(row).collect();
    let header = ["parameter", "default", "range", "what it does", "source of the default"];
    text.push_str(&output::table(&header, &rows, 5));
    let _infallible = writeln!(text, "Set one with --param {}={}.", example.name, example.default);
    text
}

/// Return all of them in a table; `command` lists one.
pub(crate) fn table(kind: &str, command: &str, all: &[Listed]) -> String {
    let row = |one: &Listed| vec![one.name.into(), one.summary.into(), one.source.into()];
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let table = output::table(&[kind, "what it does", "source"], &rows, 3);
    format!("{table}`thermocline {command} NAME` lists the parameters of one.\n")
}
