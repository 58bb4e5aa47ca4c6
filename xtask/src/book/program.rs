//! A `thermocline` that is asked for its help, its registry, and figures.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The program.
pub(crate) struct Program {
    path: PathBuf,
    /// Folder in which it runs: the root of the project.
    root: PathBuf,
}

/// One policy, identifier or write buffer, as the program lists it.
#[derive(Deserialize)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) summary: String,
    pub(crate) source: String,
    pub(crate) tiers: Option<String>,
    pub(crate) clients: Option<String>,
    pub(crate) parameters: Vec<Parameter>,
}

/// Parameter that can be set.
#[derive(Deserialize)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) default: String,
    pub(crate) range: String,
    pub(crate) summary: String,
    pub(crate) source: String,
}

/// One line of cargo's messages.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
}

impl Program {
    /// Return the one that was built, or else one that is built now.
    pub(crate) fn new(root: &Path, built: Option<&Path>) -> Result<Self> {
        let path = match built {
            Some(path) => path.to_owned(),
            None => build(root)?,
        };
        let path = path
            .canonicalize()
            .with_context(|| format!("there is no program `{}`", path.display()))?;
        Ok(Self { path, root: root.to_owned() })
    }

    /// Return the folder that it lies in.
    pub(crate) fn folder(&self) -> Result<&Path> {
        self.path.parent().context("a program lies in a folder")
    }

    /// Run a command and return its output.
    pub(crate) fn ask(&self, words: &[&str]) -> Result<String> {
        let output = Command::new(&self.path)
            .args(words)
            .current_dir(&self.root)
            .output()
            .with_context(|| format!("cannot start `{}`", self.path.display()))?;
        ensure!(
            output.status.success(),
            "`thermocline {}` failed:\n{}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout)
            .with_context(|| format!("`thermocline {}` prints bytes", words.join(" ")))
    }

    /// Run a command and parse its JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self, command: &str) -> Result<T> {
        let words: Vec<&str> = command.split_whitespace().chain(["--json"]).collect();
        serde_json::from_str(&self.ask(&words)?)
            .with_context(|| format!("`thermocline {command} --json` prints something else"))
    }
}

/// Builds it as cargo does for development, and says where it is.
fn build(root: &Path) -> Result<PathBuf> {
    let words = ["build", "--package", "thermocline", "--bin", "thermocline"];
    let output = Command::new(xtask::cargo_program())
        .args(words)
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "`cargo {}` failed", words.join(" "));
    let messages = String::from_utf8(output.stdout).context("cargo's messages are not UTF-8")?;
    let executable = |line: &str| serde_json::from_str::<Message>(line).ok()?.executable;
    messages.lines().filter_map(executable).next_back().context("cargo names no program")
}
