//! Files that cargo builds, from its messages.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::{cargo_program, forget_package};

/// Target that was built.
#[derive(Debug, Deserialize)]
pub struct Artifact {
    /// The manifest of its package.
    pub manifest_path: PathBuf,
    /// Library, program or test.
    pub target: Target,
    /// Profile that it was built with.
    pub profile: Profile,
    /// The files of it.
    pub filenames: Vec<PathBuf>,
    /// The one that can be run, if it is a program.
    pub executable: Option<PathBuf>,
}

/// Name of a library, a program or a test.
#[derive(Debug, Deserialize)]
pub struct Target {
    /// Its name, underscores where the name of a package has hyphens.
    pub name: String,
}

/// Options of the compiler, as far as they matter here.
#[derive(Debug, Deserialize)]
pub struct Profile {
    /// `true` if it holds the tests of the target.
    pub test: bool,
}

/// Builds what cargo is asked for, with further variables of the environment, and return all that belongs
/// to it, built now or earlier.
///
/// # Errors
/// If it does not compile.
pub fn built(root: &Path, words: &[&str], variables: &[(&str, &str)]) -> Result<Vec<Artifact>> {
    let mut command = Command::new(cargo_program());
    forget_package(&mut command);
    let ended = command
        .args(words)
        .arg("--message-format=json-render-diagnostics")
        .envs(variables.iter().copied())
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(ended.status.success(), "`cargo {}` failed", words.join(" "));
    artifacts(&String::from_utf8_lossy(&ended.stdout))
}

/// Return the artifacts in cargo's messages, in their order.
fn artifacts(messages: &str) -> Result<Vec<Artifact>> {
    #[derive(Deserialize)]
    struct Message {
        reason: String,
    }
    let mut artifacts = vec![];
    for line in messages.lines() {
        let Message { reason } =
            serde_json::from_str(line).context("cargo prints what is not JSON")?;
        if reason == "compiler-artifact" {
            artifacts.push(serde_json::from_str(line).context("cargo's message lacks a field")?);
        }
    }
    Ok(artifacts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_are_found_among_all_messages() {
        let artifact = |name: &str, executable: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/w/{name}/Cargo.toml\",\"target\":{{\"name\":\"{name}\",\"kind\":[\"lib\"]}},\"profile\":{{\"test\":true,\"opt_level\":\"1\"}},\"filenames\":[\"/t/{name}.so\"],\"executable\":{executable}}}\n"
            )
        };
        let messages = [
            artifact("b", "\"/t/b-1\""),
            "{\"reason\":\"build-script-executed\",\"package_id\":\"x\"}\n".into(),
            artifact("a", "null"),
            "{\"reason\":\"build-finished\",\"success\":true}\n".into(),
        ];
        let found = artifacts(&messages.concat()).unwrap();
        let found: Vec<_> =
            found.into_iter().map(|it| (it.target.name, it.filenames, it.executable)).collect();
        let expected = |name: &str, executable: Option<PathBuf>| {
            (name.to_owned(), vec![PathBuf::from(format!("/t/{name}.so"))], executable)
        };
        assert_eq!(found, [expected("b", Some("/t/b-1".into())), expected("a", None)]);
        assert!(artifacts("warning: no JSON\n").is_err());
    }
}
