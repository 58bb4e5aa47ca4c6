//! The licences of the packages that are linked into the program: most of them ask to be passed on with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::run_at;

/// The output of `cargo metadata`, as far as it matters here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    manifest_path: PathBuf,
}

/// Begins of the names of files that hold a licence or a notice.
const NAMES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

/// Collects the licences of the dependencies of a package, built for a target. Each text is there once, below
/// the names of the packages that have it.
pub(super) fn collect(root: &Path, package: &str, target: &str) -> Result<String> {
    let used = run_at(
        root,
        "cargo",
        &[
            &["tree", "--locked", "--package", package, "--target", target][..],
            &["--edges", "normal", "--prefix", "none", "--no-dedupe", "--format", "{p}"],
        ]
        .concat(),
    )?;
    let used: BTreeSet<(&str, &str)> = used
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.next()?.strip_prefix('v')?))
        })
        .collect();
    let words = ["metadata", "--locked", "--format-version", "1", "--filter-platform", target];
    let metadata: Metadata = serde_json::from_str(&run_at(root, "cargo", &words)?)
        .context("cannot understand the output of `cargo metadata`")?;
    let mut list = String::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for found in metadata.packages {
        let of_others = !found.name.starts_with("thermocline");
        if !of_others || !used.contains(&(found.name.as_str(), found.version.as_str())) {
            continue;
        }
        let name = format!("{} {}", found.name, found.version);
        let licence = found.license.as_deref().unwrap_or("see its text");
        list += &format!("{name}: {licence}\n");
        let folder = found.manifest_path.parent().context("a manifest lies in a folder")?;
        for text in licences(folder)? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    ensure!(!list.is_empty(), "cargo names no dependency of {package}");
    Ok(document(package, &list, &texts))
}

/// Read the texts of the licences in a folder.
fn licences(folder: &Path) -> Result<Vec<String>> {
    let mut texts = vec![];
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot list `{}`: run `cargo fetch`", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot list `{}`", folder.display()))?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if entry.path().is_file() && NAMES.iter().any(|begin| name.starts_with(begin)) {
            // One of another encoding is still a licence.
            let bytes = std::fs::read(entry.path()).context("cannot read a licence")?;
            let text = String::from_utf8_lossy(&bytes).replace('\r', "");
            texts.push(text.trim().to_owned());
        }
    }
    texts.sort();
    texts.dedup();
    Ok(texts)
}

fn document(package: &str, list: &str, texts: &BTreeMap<String, Vec<String>>) -> String {
    let mut document =
        format!("`{package}` contains these packages by others, under these licences:\n\n{list}");
    for (text, names) in texts {
        let line = "-".repeat(72);
        document += &format!("\n{line}\n{}\n{line}\n\n{text}\n", names.join("\n"));
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_stand_once_and_other_files_are_no_licences() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("LICENSE-MIT", "one\r\n"), ("COPYING", "one"), ("lib.rs", "code")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        assert_eq!(licences(folder.path()).unwrap(), ["one"]);
        let texts = BTreeMap::from([("one".to_owned(), vec!["a 1".to_owned(), "b 2".to_owned()])]);
        let document = document("it", "a 1: MIT\nb 2: MIT\n", &texts);
        assert!(document.contains("a 1\nb 2\n---"), "{document}");
        assert_eq!(document.matches("\none\n").count(), 1, "{document}");
    }
}
