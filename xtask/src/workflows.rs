//! The definitions of hosted CI, which run the tasks of this program.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use clap::Parser as _;

/// The folder of the definitions.
const FOLDER: &str = ".github/workflows";

/// Words by which a definition runs a task.
const TASK: &str = "cargo xtask ";

/// Fails if a definition is not valid, or runs a task that does not exist. The first check skips, and says
/// so, where actionlint is not installed.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut faults = vec![];
    for name in crate::files(root)?.iter().filter(|name| name.starts_with(FOLDER)) {
        let text = std::fs::read_to_string(root.join(name))
            .with_context(|| format!("cannot read `{name}`"))?;
        faults.extend(unknown_tasks(&text).into_iter().map(|fault| format!("{name}: {fault}")));
    }
    if !faults.is_empty() {
        bail!("definitions of hosted CI run tasks that do not exist:\n{}", faults.join("\n"));
    }
    let asked = Command::new("actionlint").arg("-version").stdout(Stdio::null()).status();
    if !asked.is_ok_and(|status| status.success()) {
        eprintln!(
            "skipped: the syntax of {FOLDER}; install the check by: go install github.com/rhysd/actionlint/cmd/actionlint@latest"
        );
        return Ok(());
    }
    xtask::run(root, "actionlint", &[], &[])
}

/// Return the lines that run a task with a name or options that this program does not take.
fn unknown_tasks(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let lines = lines.filter_map(|line| Some((line, line.split_once(TASK)?.1)));
    let unknown = lines.filter(|(_, words)| {
        let words = ["xtask"].into_iter().chain(words.split_whitespace());
        crate::Arguments::try_parse_from(words).is_err()
    });
    unknown.map(|(line, _)| line.trim().to_owned()).collect()
}

/// Compiles all targets with the version of Rust in `rust-version`.
pub(crate) fn check_oldest_rust(root: &Path) -> Result<()> {
    let text =
        std::fs::read_to_string(root.join("Cargo.toml")).context("cannot read Cargo.toml")?;
    let manifest: toml::Table = text.parse().context("Cargo.toml is not TOML")?;
    let version = manifest.get("workspace").and_then(|workspace| workspace.get("package"));
    let version = version.and_then(|package| package.get("rust-version")?.as_str());
    let version = version.context("`workspace.package` of Cargo.toml has no `rust-version`")?;
    let toolchain = format!("+{version}");
    xtask::cargo(root, &[&toolchain, "check", "--locked", "--workspace", "--all-targets"], &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_do_not_exist_are_found_with_their_line() {
        let text = "# by `cargo xtask none`\nrun: cargo xtask tidy\nrun: cargo xtask tidyy\n- run: cargo xtask fuzz --seconds 9\n  cargo xtask fuzz --second 9\n";
        assert_eq!(unknown_tasks(text), ["run: cargo xtask tidyy", "cargo xtask fuzz --second 9"]);
    }
}
