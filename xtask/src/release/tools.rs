//! The programs that build a release, and how they are called so that builds repeat.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use xtask::run;

/// Packages from `PyPI`: a linker and C compiler for every target, and the programs that call them. Other
/// versions make other bytes.
const PYTHON_TOOLS: [&str; 4] =
    ["maturin==1.16.0", "ziglang==0.17.1", "cargo-zigbuild==0.24.1", "auditwheel==6.8.2"];

/// The programs of a release.
pub(super) struct Tools {
    /// The environment of Python that has `PYTHON_TOOLS`.
    environment: PathBuf,
    /// The search path, with the environment first.
    path: String,
    /// The time of the commit, in seconds since 1970: files in archives get it.
    pub(super) epoch: String,
}

impl Tools {
    /// Installs what comes from `PyPI` into a folder below the target folder.
    pub(super) fn install(root: &Path) -> Result<Self> {
        let environment = root.join("target/release-tools");
        let (python, _) = crate::python::interpreter()?;
        let bin = environment.join("bin");
        if !bin.join("python").exists() {
            run(root, &python, &["-m", "venv", super::word(&environment)?], &[])?;
        }
        let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(root, bin.join("python"), &[&quiet[..], &PYTHON_TOOLS].concat(), &[])?;
        let before = std::env::var("PATH").context("PATH is not set")?;
        let path = format!("{}:{before}", super::word(&bin)?);
        let epoch = super::run_at(root, "git", &["log", "-1", "--format=%ct"])?;
        Ok(Self { environment, path, epoch: epoch.trim().to_owned() })
    }

    /// Fails if cargo lacks a subcommand.
    pub(super) fn demand(&self, subcommand: &str, package: &str) -> Result<()> {
        let asked = Command::new("cargo")
            .args([subcommand, "--version"])
            .env("PATH", &self.path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        ensure!(
            asked.is_ok_and(|status| status.success()),
            "`cargo {subcommand}` is not installed: run `cargo install --locked {package}`"
        );
        Ok(())
    }

    /// Runs cargo in a folder, with the variables of a release.
    pub(super) fn cargo(&self, folder: &Path, words: &[&str]) -> Result<()> {
        self.run(folder, Path::new("cargo"), words, &[])
    }

    /// Runs one of the programs from `PyPI` in a folder.
    pub(super) fn python_tool(&self, folder: &Path, name: &str, words: &[&str]) -> Result<()> {
        self.run(folder, &self.environment.join("bin").join(name), words, &[])
    }

    /// Runs maturin, or cargo, so that it builds into a target folder.
    pub(super) fn build(
        &self,
        folder: &Path,
        words: &[&str],
        target: &Path,
        variables: &[(&str, &str)],
    ) -> Result<()> {
        let program = if words[0] == "maturin" {
            self.environment.join("bin/maturin")
        } else {
            PathBuf::from(words[0])
        };
        let target = [("CARGO_TARGET_DIR", super::word(target)?)];
        self.run(folder, &program, &words[1..], &[&target[..], variables].concat())
    }

    fn run(
        &self,
        folder: &Path,
        program: &Path,
        words: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<()> {
        let flags = rust_flags(folder)?;
        let of_release = [
            ("PATH", self.path.as_str()),
            ("VIRTUAL_ENV", super::word(&self.environment)?),
            ("SOURCE_DATE_EPOCH", &self.epoch),
            ("CARGO_ENCODED_RUSTFLAGS", &flags),
            ("CARGO_INCREMENTAL", "0"),
            ("CARGO_PROFILE_RELEASE_STRIP", "symbols"),
        ];
        run(folder, program, words, &[&of_release[..], variables].concat())
    }
}

/// Return the options of rustc that remove the machine's folders from the output: panics name the place of
/// their source.
fn rust_flags(folder: &Path) -> Result<String> {
    let home = cargo_home()?;
    Ok(remapping(super::word(folder)?, super::word(&home)?))
}

/// Return the folder in which cargo keeps what it downloads.
///
/// # Errors
/// If the environment has no home folder.
pub(super) fn cargo_home() -> Result<PathBuf> {
    if let Some(home) = std::env::var_os("CARGO_HOME") {
        return Ok(home.into());
    }
    let home = std::env::var_os("HOME").context("HOME is not set")?;
    Ok(Path::new(&home).join(".cargo"))
}

fn remapping(folder: &str, home: &str) -> String {
    // Cargo takes the unit separator between options, so that paths may have spaces.
    [(folder, "/build/thermocline"), (home, "/build/cargo")]
        .map(|(from, to)| format!("--remap-path-prefix={from}={to}"))
        .join("\u{1f}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_with_spaces_are_one_option() {
        let flags = remapping("/a b/c", "/home/me/.cargo");
        let options: Vec<&str> = flags.split('\u{1f}').collect();
        assert_eq!(
            options,
            [
                "--remap-path-prefix=/a b/c=/build/thermocline",
                "--remap-path-prefix=/home/me/.cargo=/build/cargo"
            ]
        );
    }
}
