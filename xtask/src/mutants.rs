//! Breaks the engine's rules of durability and the decisions of a start one at a time, to see that the
//! crash simulation, or the test that is named, notices.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

/// The crate whose rules are broken, and the list of them in it.
const CRATE: &str = "crates/thermocline-engine";
const LIST: &str = "tests/mutants.toml";
/// The test file whose tests catch a mutant unless its entry names another.
const SIMULATION: &str = "crash";
/// Time after which a test will never end: a broken engine may run in circles for ever.
const PATIENCE_SECONDS: &str = "1200";
/// Name in an entry, in place of a file, for the tests beside the code.
const UNITS: &str = "lib";
/// Seeds of the simulation that run before anything is broken, to see that its tests work.
const SEEDS_BEFORE: u64 = 100;
/// Seeds that the simulation runs with a rule broken: twice as many as in the tests.
const SEEDS: u64 = 1000;

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
    /// The file of tests in `tests`, or `lib` for those beside the code; the crash simulation if there
    /// is none.
    test: Option<String>,
    /// The part of a test's name there.
    caught_by: String,
    /// Seeds that the simulation needs; [`SEEDS`] if there is none.
    seeds: Option<u64>,
}

/// Return the mutants whose find is not in its file just once.
pub(crate) fn misplaced(root: &Path) -> Result<Vec<String>> {
    let mut misplaced = vec![];
    for mutant in read(root)?.mutant {
        let text = std::fs::read_to_string(root.join(CRATE).join(&mutant.file));
        let places = text.map_or(0, |text| text.matches(&mutant.find).count());
        if places != 1 {
            let Mutant { file, rule, .. } = mutant;
            misplaced
                .push(format!("{CRATE}/{LIST}: `{file}` has {places} places to break: {rule}"));
        }
    }
    Ok(misplaced)
}

fn read(root: &Path) -> Result<List> {
    let text = std::fs::read_to_string(root.join(CRATE).join(LIST))?;
    toml::from_str(&text).with_context(|| format!("in `{CRATE}/{LIST}`"))
}

/// Runs every mutant whose rule contains `filter` in a copy of the project; fails if one survives.
pub(crate) fn check(root: &Path, filter: &str) -> Result<()> {
    let list = read(root)?;
    let misplaced = misplaced(root)?;
    ensure!(misplaced.is_empty(), "{}", misplaced.join("\n"));
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("project");
    clone(root, &copy)?;
    let mutants = || list.mutant.iter().filter(|mutant| mutant.rule.contains(filter));
    let tests: BTreeSet<_> = mutants().map(|mutant| (mutant.test(), &*mutant.caught_by)).collect();
    for (test, caught_by) in tests {
        let passes = passes(root, &copy, test, &[caught_by], Some(SEEDS_BEFORE))?;
        ensure!(passes, "`{caught_by}` of `{test}` fails before anything is broken");
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
    fn test(&self) -> &str {
        self.test.as_deref().unwrap_or(SIMULATION)
    }

    /// Return `true` if its test fails.
    fn run(&self, root: &Path, copy: &Path) -> Result<bool> {
        let path = copy.join(CRATE).join(&self.file);
        let text = std::fs::read_to_string(&path)?;
        std::fs::write(&path, text.replace(&self.find, &self.replace))?;
        if !passes(root, copy, self.test(), &["--no-run"], None)? {
            bail!("the change does not compile: {}", self.rule);
        }
        let is_caught =
            !passes(root, copy, self.test(), &[&self.caught_by], self.seeds.or(Some(SEEDS)))?;
        std::fs::write(&path, text)?;
        Ok(is_caught)
    }
}

/// Runs tests of one file in the copy.
fn passes(
    root: &Path,
    copy: &Path,
    test: &str,
    words: &[&str],
    seeds: Option<u64>,
) -> Result<bool> {
    let mut command = Command::new("timeout");
    command
        .args([PATIENCE_SECONDS, "cargo", "test", "--quiet", "--package", "thermocline-engine"])
        .args(if test == UNITS { vec!["--lib"] } else { vec!["--test", test] })
        .args(words)
        .env("CARGO_TARGET_DIR", root.join("target/mutants"))
        .env("RUST_BACKTRACE", "0")
        .current_dir(copy)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(seeds) = seeds {
        command.env("THERMOCLINE_SEEDS", seeds.to_string());
    }
    Ok(command.status().context("cannot start `timeout`")?.success())
}

/// Copies what is committed.
fn clone(root: &Path, copy: &Path) -> Result<()> {
    let mut command = Command::new("git");
    command.args(["clone", "--quiet"]).arg(root).arg(copy);
    ensure!(command.status()?.success(), "the project cannot be cloned");
    Ok(())
}
