//! Runs the commands of the README in a clean copy of the project, as a newcomer would.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Commands that are this very check, or install the project for good.
const NOT_RUN: [&str; 2] = ["cargo xtask test", "cargo install"];

/// Copies what git tracks, or would, to an empty folder and runs every command there.
///
/// Commands are the lines that begin with `$ ` in blocks marked `console`, in order. The copy builds
/// into the same target folder, so that only what differs is built again.
pub(crate) fn check(root: &Path) -> Result<()> {
    let readme =
        std::fs::read_to_string(root.join("README.md")).context("cannot read README.md")?;
    let copy = tempfile::tempdir().context("cannot make a folder for the copy")?;
    copy_project(root, copy.path())?;
    let commands = commands(&readme);
    ensure!(!commands.is_empty(), "README.md shows no command");
    for command in commands {
        if NOT_RUN.iter().any(|skipped| command.starts_with(skipped)) {
            eprintln!("README: not run here: {command}");
            continue;
        }
        eprintln!("README: {command}");
        let output = Command::new("sh")
            .args(["-e", "-c", command])
            .current_dir(copy.path())
            .env("CARGO_TARGET_DIR", root.join("target"))
            .output()
            .context("cannot start sh")?;
        ensure!(
            output.status.success(),
            "README.md: `{command}` failed:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

fn commands(readme: &str) -> Vec<&str> {
    let mut commands = vec![];
    let mut is_console = false;
    for line in readme.lines() {
        if let Some(language) = line.strip_prefix("```") {
            is_console = !is_console && language == "console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| is_console) {
            commands.push(command);
        }
    }
    commands
}

fn copy_project(root: &Path, copy: &Path) -> Result<()> {
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot start git")?;
    ensure!(listing.status.success(), "git cannot list the project's files");
    for name in listing.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = Path::new(std::str::from_utf8(name).context("a file name is not UTF-8")?);
        let source = root.join(name);
        if !source.is_file() {
            continue;
        }
        let target = copy.join(name);
        let folder = target.parent().context("a file lies in a folder")?;
        std::fs::create_dir_all(folder).context("cannot make a folder in the copy")?;
        std::fs::copy(&source, &target)
            .with_context(|| format!("cannot copy `{}`", source.display()))?;
    }
    Ok(())
}
