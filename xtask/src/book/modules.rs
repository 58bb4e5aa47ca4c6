//! The source file of everything that is registered, and what its header says.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::markdown::capital;

/// Folder of the core's sources.
pub(crate) const SOURCES: &str = "crates/thermocline-core/src";

/// Header of a module.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The first paragraph.
    pub(crate) title: String,
    /// The paragraphs up to the fields, and those behind them.
    pub(crate) idea: String,
    /// Source, state, cost and deviations.
    pub(crate) fields: Vec<(String, String)>,
}

/// Return the source file of a module of the core, as `module_path!()` names it.
pub(crate) fn file(root: &Path, module: &str) -> Result<String> {
    let inner = module.split_once("::").map_or("", |(_, inner)| inner).replace("::", "/");
    let places = [format!("{SOURCES}/{inner}.rs"), format!("{SOURCES}/{inner}/mod.rs")];
    let file = places.into_iter().find(|file| root.join(file).is_file());
    file.with_context(|| format!("`{module}` has no file in `{SOURCES}`"))
}

/// Return the header of every file, by path.
pub(crate) fn headers(
    root: &Path,
    files: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Header>> {
    let mut headers = BTreeMap::new();
    for path in files.values() {
        let text = std::fs::read_to_string(root.join(path))
            .with_context(|| format!("cannot read `{path}`"))?;
        headers.insert(path.clone(), header(&text).with_context(|| format!("`{path}`"))?);
    }
    Ok(headers)
}

/// Reads a header.
pub(crate) fn header(source: &str) -> Result<Header> {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let lines: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let mut fields: Vec<(String, String)> = vec![];
    let mut paragraphs = vec![String::new()];
    let mut is_field = false;
    for line in lines {
        if let Some((name, text)) = line.strip_prefix("* ").and_then(|line| line.split_once(": ")) {
            fields.push((name.to_owned(), text.to_owned()));
            is_field = true;
        } else if line.is_empty() {
            is_field = false;
            paragraphs.push(String::new());
        } else if let Some((_, text)) = fields.last_mut().filter(|_| is_field) {
            *text += &format!(" {}", line.trim());
        } else {
            let paragraph = paragraphs.last_mut().expect("there is one");
            *paragraph += if paragraph.is_empty() { "" } else { " " };
            *paragraph += line;
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    ensure!(!paragraphs.is_empty(), "it has no header");
    let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    ensure!(
        names == ["Source", "State", "Cost", "Deviations"],
        "its header must have the fields Source, State, Cost and Deviations, not: {}",
        names.join(", ")
    );
    let title = paragraphs.remove(0);
    Ok(Header { title, idea: paragraphs.join("\n\n"), fields })
}

/// Return a text with items `(1)`, `(2)` and so on as a list; as it is if it has none.
pub(crate) fn enumerated(text: &str) -> String {
    let text = format!(" {text}");
    let mut rest = text.as_str();
    let mut list = String::new();
    for number in 1.. {
        let Some((before, after)) = rest.split_once(&format!(" ({number}) ")) else { break };
        list += &capital(before.trim());
        list += if number == 1 { "\n\n" } else { "\n" };
        list += &format!("{number}. ");
        rest = after;
    }
    list += &capital(rest.trim());
    list.trim().to_owned()
}

/// Turn Rust's links to items into Markdown: links to modules lead where `lead` says for the module's file;
/// of other links only the text stays.
pub(crate) fn without_item_links(text: &str, lead: impl Fn(&str) -> String) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, bracket)) = rest.split_once('[') {
        plain += before;
        rest = bracket;
        let Some((words, after)) = bracket.split_once(']') else {
            plain.push('[');
            continue;
        };
        let item = after.strip_prefix("(crate::").and_then(|item| item.split_once(')'));
        if let Some((item, after)) = item {
            let module = item.replace("::", "/");
            plain += &if module.chars().any(char::is_uppercase) {
                words.to_owned()
            } else {
                format!("[{words}]({})", lead(&format!("{SOURCES}/{module}.rs")))
            };
            rest = after;
        } else if words.starts_with('`') && !after.starts_with('(') {
            plain += words;
            rest = after;
        } else {
            plain.push('[');
        }
    }
    plain + rest
}
