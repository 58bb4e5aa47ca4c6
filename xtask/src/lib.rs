//! Running of programs at the root of the project.

pub mod artifacts;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Runs cargo at the root of the project.
///
/// # Errors
/// If cargo cannot be started, or fails.
pub fn cargo(root: &Path, words: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    // A toolchain is chosen by the `cargo` of the path, not by the one that runs this program.
    let program = if words[0].starts_with('+') { "cargo".into() } else { cargo_program() };
    run(root, program, words, variables)
}

/// Runs a program at the root of the project.
///
/// # Errors
/// If the program cannot be started, or fails.
pub fn run(
    root: &Path,
    program: impl AsRef<OsStr>,
    words: &[&str],
    variables: &[(&str, &str)],
) -> Result<()> {
    let name = program.as_ref().to_string_lossy().into_owned();
    let mut command = Command::new(program);
    forget_package(&mut command);
    let status = command
        .args(words)
        .envs(variables.iter().copied())
        .current_dir(root)
        .status()
        .with_context(|| format!("cannot start `{name}`"))?;
    ensure!(status.success(), "`{name} {}` failed", words.join(" "));
    Ok(())
}

/// Takes out of a command's environment what cargo says of the package that runs. Build scripts of
/// dependencies look at some of it, and would be run again, with all that depends on them.
pub fn forget_package(command: &mut Command) {
    let of_package = |name: &str| {
        name == "OUT_DIR" || ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|it| name.starts_with(it))
    };
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(of_package) {
            command.env_remove(name);
        }
    }
}

/// Builds the command line as `cargo test --workspace` does, with the features that all members want
/// together, so that nothing is built twice.
///
/// # Errors
/// If it does not compile.
pub fn tested_program(root: &Path) -> Result<PathBuf> {
    // A test that starts the program has cargo build it.
    cargo(root, &["test", "--workspace", "--no-run", "--test", "serve"], &[])?;
    let program = target(root).join("debug").join("thermocline");
    Ok(program.with_extension(std::env::consts::EXE_EXTENSION))
}

/// Return the folder that cargo builds into.
pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Return the cargo that runs this program, or the one of the path.
pub fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Return the root of the project: the folder above this package.
///
/// # Errors
/// If this package was moved to the root of a file system.
pub fn root() -> Result<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(package.parent().context("the package lies in the project")?.to_owned())
}
