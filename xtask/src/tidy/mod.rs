//! The rules that no lint knows.

mod circles;
mod prose;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};

use circles::Crate;
use prose::Prose;

/// Lines of a source file, its tests not counted.
const SOURCE_LINES_MAX: usize = 600;

/// Maximum number of bytes that two paragraphs of a document may have in common at their beginning.
const SAME_BYTES_MAX: usize = 120;

/// Fields in the header of every policy, in this order.
const HEADER_FIELDS: [&str; 4] = ["* Source:", "* State:", "* Cost:", "* Deviations:"];

/// Crates of the project on which each crate may depend.
const DEPENDENCIES: [(&str, &[&str]); 12] = [
    ("core", &[]),
    ("trace", &["core"]),
    ("capture", &["core", "trace"]),
    ("device", &["core"]),
    ("advise", &["core"]),
    ("lab", &["core", "trace", "device"]),
    ("engine", &["core"]),
    ("nbd", &["core", "engine"]),
    ("vhost", &["engine", "nbd"]),
    ("papers", &["core", "trace", "device", "lab", "engine"]),
    ("python", &["core", "trace", "device", "lab", "papers"]),
    ("bench", &["core", "device", "trace", "capture", "lab", "engine", "nbd"]),
];

/// Checks every file that git tracks, or would.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut faults = vec![];
    let mut crates: BTreeMap<String, Crate> = BTreeMap::new();
    let mut prose = Prose::new()?;
    let package = std::fs::read_to_string(root.join("pyproject.toml"))?;
    for name in crate::files(root)? {
        let path = root.join(&name);
        let extension = path.extension().and_then(|extension| extension.to_str());
        let (Some("rs" | "md" | "toml" | "py" | "sh"), Ok(text)) =
            (extension, std::fs::read_to_string(&path))
        else {
            continue;
        };
        let mut fault = |text: String| faults.push(format!("{name}: {text}"));
        if text.trim().is_empty() {
            fault("is empty".into());
        }
        prose.add(&name, &text)?;
        match extension {
            Some("rs") => {
                check_source(&name, &text, &mut fault);
                check_built_in(&name, &text, &package, &mut fault);
                if let Some((folder, file)) = name.split_once("/src/")
                    && folder.starts_with("crates/")
                {
                    crates.entry(folder.to_owned()).or_default().add(file, &text)?;
                }
            }
            Some("md") => {
                check_titles(&text, &mut fault);
                check_repetition(&text, &mut fault);
            }
            Some("toml") => {
                check_dependencies(&name, &text, &mut fault);
                check_versions(&name, &text, &mut fault);
            }
            _ => {}
        }
    }
    for (name, sources) in crates {
        let circles = sources.circles();
        faults.extend(circles.iter().map(|circle| {
            format!("{name}: a circle of imports through more than one folder: {circle}")
        }));
    }
    faults.extend(prose.faults());
    for (rule, found) in prose.slack() {
        eprintln!("tidy: rule `{rule}` of xtask/prose.toml has {found} matches: lower `allowed`");
    }
    faults.extend(crate::mutants::misplaced(root)?);
    faults.extend(crate::papers::outdated(root)?);
    if !faults.is_empty() {
        bail!("not tidy:\n{}", faults.join("\n"));
    }
    Ok(())
}

fn check_source(name: &str, text: &str, fault: &mut impl FnMut(String)) {
    let source = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let lines = source.lines().count();
    if lines > SOURCE_LINES_MAX && !name.contains("/tests/") {
        fault(format!("has {lines} lines before its tests; at most {SOURCE_LINES_MAX}"));
    }
    if !text.starts_with("//!") && !text.starts_with("#!") {
        fault("does not begin with a module comment".into());
    }
    let has_no_policy = name.ends_with("/mod.rs") || name.ends_with("/tests.rs");
    if name.contains("core/src/policy/") && !has_no_policy {
        let header: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        let places: Vec<_> = HEADER_FIELDS.iter().map(|field| header.find(field)).collect();
        if places.contains(&None) || !places.is_sorted() {
            fault(format!("its header must have, in order: {}", HEADER_FIELDS.join(" ")));
        }
    }
    for (number, line) in (1..).zip(text.lines()) {
        if !line.is_ascii() {
            fault(format!("line {number} is not ASCII"));
        }
        for word in [concat!("TO", "DO"), concat!("FIX", "ME")] {
            if line.contains(word) {
                fault(format!("line {number}: {word} without an issue"));
            }
        }
    }
}

/// Check files that a crate of the Python extension includes from outside its folder: they must be
/// in Python's source distribution, which has these crates and the files that `pyproject.toml`
/// names. The command line is not there.
fn check_built_in(name: &str, text: &str, package: &str, fault: &mut impl FnMut(String)) {
    let is_shipped = name.starts_with("crates/") && !name.starts_with("crates/thermocline/");
    if !is_shipped || name.contains("/tests/") {
        return;
    }
    for macro_name in ["include_str!(", "include_bytes!("] {
        for rest in text.split(macro_name).skip(1) {
            let Some(rest) = rest.trim_start().strip_prefix('"') else { continue };
            let built_in = rest.split('"').next().unwrap_or(rest);
            let ups = built_in.matches("../").count();
            let folders: Vec<&str> = name.split('/').collect();
            // Its folder is the first `folders.len() - 1`; that of its crate is the first two.
            let kept = folders.len().saturating_sub(1 + ups);
            if kept >= 2 {
                continue;
            }
            let path = [&folders[..kept], &[&built_in[3 * ups..]]].concat().join("/");
            let is_shipped = package.split("path = \"").skip(1).any(|rest| {
                let pattern = rest.split('"').next().unwrap_or(rest);
                let (begin, end) = pattern.split_once('*').unwrap_or((pattern, ""));
                path.starts_with(begin) && path.ends_with(end)
            });
            if !is_shipped {
                fault(format!("has {path} built in, which `include` in pyproject.toml lacks"));
            }
        }
    }
}

/// Check that a document has one title.
fn check_titles(text: &str, fault: &mut impl FnMut(String)) {
    let mut is_code = false;
    let mut titles = 0;
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        titles += usize::from(!is_code && line.starts_with("# "));
    }
    if titles != 1 {
        fault(format!("has {titles} titles; a document has one"));
    }
}

/// Check for two versions of a paragraph, or the marks between them, which merges may leave.
fn check_repetition(text: &str, fault: &mut impl FnMut(String)) {
    let mut is_code = false;
    let mut first_lines = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        is_code ^= line.starts_with("```");
        if line.contains("<<<<<<< ") {
            fault(format!("line {number}: a conflict that was not resolved"));
        }
        // The rows of two tables may well be the same.
        let is_paragraph = !is_code && !line.starts_with('|');
        let beginning = line.get(..SAME_BYTES_MAX).filter(|_| is_paragraph);
        let Some(beginning) = beginning else { continue };
        if let Some(first) = first_lines.insert(beginning, number) {
            fault(format!("line {number} begins as line {first} does: keep one of them"));
        }
    }
}

/// Dependencies point one way.
fn check_dependencies(name: &str, text: &str, fault: &mut impl FnMut(String)) {
    for (package, allowed) in DEPENDENCIES {
        if !text.contains(&format!("name = \"thermocline-{package}\"")) || !name.contains('/') {
            continue;
        }
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("thermocline") else { continue };
            let used: String = rest
                .chars()
                .take_while(|letter| letter.is_alphanumeric() || *letter == '-')
                .collect();
            if !allowed.contains(&used.trim_start_matches('-')) {
                fault(format!("thermocline-{package} must not depend on thermocline{used}"));
            }
        }
    }
}

/// Check that a member takes every dependency from the workspace's table. `fuzz` is a workspace of
/// its own.
fn check_versions(name: &str, text: &str, fault: &mut impl FnMut(String)) {
    if !name.ends_with("/Cargo.toml") || name.starts_with("fuzz/") {
        return;
    }
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return fault(error.to_string()),
    };
    let of_targets = manifest.get("target").and_then(toml::Value::as_table);
    let of_targets = of_targets.into_iter().flat_map(toml::Table::values);
    let tables = std::iter::once(&manifest).chain(of_targets.filter_map(toml::Value::as_table));
    for table in tables {
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let section = table.get(section).and_then(toml::Value::as_table);
            for (dependency, from) in section.into_iter().flatten() {
                if from.get("workspace").is_none() {
                    fault(format!("{dependency}: give its version in the workspace's table"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(text: &str) -> Vec<String> {
        let mut faults = vec![];
        check_repetition(text, &mut |fault| faults.push(fault));
        faults
    }

    #[test]
    fn a_paragraph_stands_once() {
        let long = "a paragraph of many words ".repeat(6);
        assert!(faults_of(&format!("# Title\n\n{long}one\n\nanother\nanother\n")).is_empty());
        assert!(faults_of(&format!("```\n{long}\n{long}\n```\n")).is_empty());
        let twice = faults_of(&format!("{long}one\n\n{long}two\n"));
        assert_eq!(twice, ["line 3 begins as line 1 does: keep one of them"]);
    }

    #[test]
    fn a_merge_leaves_no_marks() {
        let marks = ["<".repeat(7), "=".repeat(7)];
        let text = format!("{} ours\nthis\n{}\nthat\n", marks[0], marks[1]);
        assert_eq!(faults_of(&text), ["line 1: a conflict that was not resolved"]);
    }
}
