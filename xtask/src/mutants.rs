//! Breaks the engine's rules of durability one at a time, to see that the crash simulation notices.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

/// The crate whose rules are broken, and the list of them in it.
const CRATE: &str = "crates/thermocline-engine";
const LIST: &str = "tests/mutants.toml";

#[derive(Deserialize)]
struct List {
    mutant: Vec<Mutant>,
}

/// One rule, and how to break it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutant {
    rule: String,
    /// Relative to the crate.
    file: String,
    find: String,
    replace: String,
    /// The part of a test's name in `tests/crash`.
    caught_by: String,
}

/// Runs every mutant whose rule contains `filter` in a copy of the project; fails if one survives.
pub(crate) fn check(root: &Path, filter: &str) -> Result<()> {
    let text = std::fs::read_to_string(root.join(CRATE).join(LIST))?;
    let list: List = toml::from_str(&text).with_context(|| format!("in `{CRATE}/{LIST}`"))?;
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("project");
    clone(root, &copy)?;
    let mutants = || list.mutant.iter().filter(|mutant| mutant.rule.contains(filter));
    let tests: BTreeSet<&str> = mutants().map(|mutant| mutant.caught_by.as_str()).collect();
    for test in tests {
        ensure!(passes(root, &copy, &[test])?, "`{test}` fails before anything is broken");
    }
    let mut survivors = vec![];
    for mutant in mutants() {
        let is_caught = mutant.run(root, &copy)?;
        eprintln!("{}: {}", if is_caught { "caught" } else { "SURVIVED" }, mutant.rule);
        if !is_caught {
            survivors.push(mutant.rule.as_str());
        }
    }
    ensure!(survivors.is_empty(), "no test notices that these are broken: {survivors:#?}");
    Ok(())
}

impl Mutant {
    /// Whether its test fails.
    fn run(&self, root: &Path, copy: &Path) -> Result<bool> {
        let path = copy.join(CRATE).join(&self.file);
        let text = std::fs::read_to_string(&path)?;
        let places = text.matches(&self.find).count();
        ensure!(places == 1, "`{}` has {places} places to break: {}", self.file, self.rule);
        std::fs::write(&path, text.replace(&self.find, &self.replace))?;
        if !passes(root, copy, &["--no-run"])? {
            bail!("the change does not compile: {}", self.rule);
        }
        let is_caught = !passes(root, copy, &[&self.caught_by])?;
        std::fs::write(&path, text)?;
        Ok(is_caught)
    }
}

/// Runs tests of the crash simulation in the copy.
fn passes(root: &Path, copy: &Path, words: &[&str]) -> Result<bool> {
    let status = Command::new("cargo")
        .args(["test", "--quiet", "--package", "thermocline-engine", "--test", "crash"])
        .args(words)
        .env("CARGO_TARGET_DIR", root.join("target/mutants"))
        .env("RUST_BACKTRACE", "0")
        .current_dir(copy)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot start `cargo`")?;
    Ok(status.success())
}

/// Copies what is committed.
fn clone(root: &Path, copy: &Path) -> Result<()> {
    let mut command = Command::new("git");
    command.args(["clone", "--quiet"]).arg(root).arg(copy);
    ensure!(command.status()?.success(), "the project cannot be cloned");
    Ok(())
}
