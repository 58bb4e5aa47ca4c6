//! The tests of the workspace. Some of them wait most of the time, for servers that begin and devices that
//! hang; so two programs of tests run at one time, where `cargo test` runs one after the other.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use xtask::{cargo, cargo_program, forget_package};

/// Programs that run at one time.
const AT_ONE_TIME: usize = 2;

/// Message of cargo about something that it built, as far as it matters here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// A program of tests.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Program {
    /// The folder of its package, where it runs.
    folder: PathBuf,
    name: String,
    executable: PathBuf,
}

/// Builds and runs all tests, those of the documentation last.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut command = Command::new(cargo_program());
    forget_package(&mut command);
    let format = "--message-format=json-render-diagnostics";
    let built = command
        .args(["test", "--workspace", "--no-run", format])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(built.status.success(), "the tests cannot be built");
    run_all(programs(&String::from_utf8_lossy(&built.stdout))?)?;
    cargo(root, &["test", "--workspace", "--doc"], &[])
}

/// Return the programs in cargo's messages, in the order of their names.
fn programs(messages: &str) -> Result<Vec<Program>> {
    let mut programs = vec![];
    for line in messages.lines() {
        let Message { reason, manifest_path, target, profile, executable } =
            serde_json::from_str(line).context("cargo says what is no JSON")?;
        let is_test = profile.is_some_and(|profile| profile.test);
        let found = (manifest_path, target, executable);
        let ("compiler-artifact", true, (Some(manifest), Some(target), Some(executable))) =
            (reason.as_str(), is_test, found)
        else {
            continue;
        };
        let folder = manifest.parent().context("a manifest lies in a folder")?.to_owned();
        programs.push(Program { folder, name: target.name, executable });
    }
    ensure!(!programs.is_empty(), "cargo built no tests");
    programs.sort();
    Ok(programs)
}

/// Runs programs, the last first, and prints what each says when it has ended. All are run, whatever
/// fails.
fn run_all(programs: Vec<Program>) -> Result<()> {
    // Those of the command line, which take longest and come first, share the end.
    let left = Mutex::new(programs);
    let failed = Mutex::new(vec![]);
    let work = || {
        loop {
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(program) = next else { break };
            if let Err(error) = program.run() {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.push(format!("{}: {error:#}", program.name));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONE_TIME {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    ensure!(failed.is_empty(), "these tests failed:\n{}", failed.join("\n"));
    Ok(())
}

impl Program {
    /// Runs the tests.
    fn run(&self) -> Result<()> {
        let mut command = Command::new(&self.executable);
        forget_package(&mut command);
        let ended = command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .stdin(Stdio::null())
            .output()
            .context("cannot be started")?;
        let mut said = std::io::stdout().lock();
        writeln!(said, "\ntests `{}` of {}:", self.name, self.folder.display())
            .and_then(|()| said.write_all(&ended.stdout))
            .and_then(|()| said.write_all(&ended.stderr))
            .context("cannot print what the tests say")?;
        ensure!(ended.status.success(), "{}", ended.status);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_tests_are_found_among_all_messages() {
        let artifact = |name: &str, is_test: bool, executable: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/w/{name}/Cargo.toml\",\"target\":{{\"name\":\"{name}\",\"kind\":[\"lib\"]}},\"profile\":{{\"test\":{is_test},\"opt_level\":\"1\"}},\"executable\":{executable}}}\n"
            )
        };
        let messages = [
            artifact("b", true, "\"/t/b-1\""),
            artifact("b", false, "null"),
            artifact("tool", false, "\"/t/tool\""),
            artifact("a", true, "\"/t/a-1\""),
            "{\"reason\":\"build-script-executed\",\"package_id\":\"x\"}\n".into(),
            "{\"reason\":\"build-finished\",\"success\":true}\n".into(),
        ];
        let found = programs(&messages.concat()).unwrap();
        let program = |name: &str| Program {
            folder: format!("/w/{name}").into(),
            name: name.into(),
            executable: format!("/t/{name}-1").into(),
        };
        assert_eq!(found, [program("a"), program("b")]);
        assert!(programs(&messages[4]).is_err(), "nothing is not all");
    }

    #[test]
    fn all_are_run_and_what_fails_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let program = |name: &str| Program {
            folder: folder.path().to_owned(),
            name: name.into(),
            executable: name.into(),
        };
        run_all(vec![program("true"), program("true")]).unwrap();
        let error = run_all(vec![program("false"), program("true"), program("no-such-program")]);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("false: exit status: 1"), "{error}");
        assert!(error.contains("no-such-program: cannot be started"), "{error}");
    }
}
