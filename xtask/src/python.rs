//! Builds the Python package, and runs its lints, type checks, tests, doctests and notebooks.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use xtask::{run, target, tested_program};

/// The least version of Python, as in `pyproject.toml`.
const LEAST: (u32, u32) = (3, 10);

/// Requirement of the program that builds the package, as in `pyproject.toml`.
const MATURIN: &str = "maturin>=1.9.4,<2";

/// Folders of Python sources, which its tools are given.
const SOURCES: [&str; 3] = ["python", "examples", "xtask"];

/// Makes an environment below the target folder, installs the package with all that its tests need,
/// and checks it. The extension is built as the tests of Rust are, and shares what they built.
pub(crate) fn check(root: &Path) -> Result<()> {
    let (python, version) = interpreter()?;
    let environment = target(root).join(format!("python-{version}"));
    let folder = environment.to_str().context("the target folder's name is not UTF-8")?;
    if !program(&environment, "python").exists() {
        run(root, &python, &["-m", "venv", folder], &[])?;
    }
    let tool = |name: &str, arguments: &[&str]| {
        run(root, program(&environment, name), arguments, &[("VIRTUAL_ENV", folder)])
    };
    let quiet = "--disable-pip-version-check";
    tool("python", &["-m", "pip", "install", "--quiet", quiet, MATURIN])?;
    tool("maturin", &["develop", "--quiet", "--extras", "plot,chart,cluster,compiled,tune,test"])?;
    tool("ruff", &[&["format", "--check"], &SOURCES[..]].concat())?;
    tool("ruff", &[&["check"], &SOURCES[..]].concat())?;
    tool("mypy", &[])?;
    tool("stubtest", &["thermocline._thermocline"])?;
    // Tests compare the package with the command line, which it does not contain.
    let command_line = tested_program(root)?;
    let command_line = command_line.to_str().context("the target folder's name is not UTF-8")?;
    run(
        root,
        program(&environment, "pytest"),
        &["--quiet", "--doctest-modules", "python"],
        &[("VIRTUAL_ENV", folder), ("THERMOCLINE_PROGRAM", command_line)],
    )
}

/// Return the interpreter that `PYTHON` names, or `python3`, and its version.
pub(crate) fn interpreter() -> Result<(OsString, String)> {
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let name = python.to_string_lossy().into_owned();
    let (major, minor) = LEAST;
    let remedy = || {
        format!(
            "the Python package needs Python {major}.{minor} or newer with `venv`, and `{name}` is none: install it (on Debian: python3, python3-venv), or name one with PYTHON=/path/to/python"
        )
    };
    let script = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])";
    let found = Command::new(&python).args(["-c", script]).output().with_context(remedy)?;
    ensure!(found.status.success(), remedy());
    let version = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    let numbers = version
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)));
    ensure!(numbers.is_some_and(|numbers| numbers >= LEAST), remedy());
    Ok((python, version))
}

/// Return a program of an environment.
fn program(environment: &Path, name: &str) -> PathBuf {
    environment.join(if cfg!(windows) { "Scripts" } else { "bin" }).join(name)
}
