//! The tests of the workspace. Some of them wait most of the time, for servers that begin and devices that
//! hang; so several programs of tests run at one time, where `cargo test` runs one after the other.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use xtask::artifacts::{self, Artifact};
use xtask::{cargo, forget_package};

/// Programs that run at one time. On two processors, two would leave half of the time unused.
const AT_ONE_TIME: usize = 4;

/// Programs that take longest. They start first, so that short ones fill the end.
const LONGEST: [&str; 3] = ["cli", "crash", "serve"];

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
    let built = artifacts::built(root, &["test", "--workspace", "--no-run"], &[])?;
    run_all(programs(built)?)?;
    cargo(root, &["test", "--workspace", "--doc"], &[])
}

/// Return the programs of tests among what was built, the first to start last.
fn programs(built: Vec<Artifact>) -> Result<Vec<Program>> {
    let mut programs = vec![];
    for Artifact { manifest_path, target, profile, executable, .. } in built {
        let (true, Some(executable)) = (profile.test, executable) else { continue };
        let folder = manifest_path.parent().context("a manifest lies in a folder")?.to_owned();
        programs.push(Program { folder, name: target.name, executable });
    }
    ensure!(!programs.is_empty(), "cargo built no tests");
    let is_long = |program: &Program| LONGEST.contains(&&*program.name);
    programs.sort_by(|one, other| (is_long(one), one).cmp(&(is_long(other), other)));
    Ok(programs)
}

/// Runs programs, the last first, and prints what each says when it has ended. All are run, whatever
/// fails.
fn run_all(programs: Vec<Program>) -> Result<()> {
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
    fn programs_of_tests_are_found_among_all_artifacts() {
        let artifact = |name: &str, test: bool, executable: Option<&str>| Artifact {
            manifest_path: format!("/w/{name}/Cargo.toml").into(),
            target: artifacts::Target { name: name.into() },
            profile: artifacts::Profile { test },
            filenames: vec![],
            executable: executable.map(Into::into),
        };
        let built = vec![
            artifact("cli", true, Some("/t/cli-1")),
            artifact("xtask", true, Some("/t/xtask-1")),
            artifact("b", true, Some("/t/b-1")),
            artifact("b", false, None),
            artifact("tool", false, Some("/t/tool")),
            artifact("a", true, Some("/t/a-1")),
        ];
        let program = |name: &str| Program {
            folder: format!("/w/{name}").into(),
            name: name.into(),
            executable: format!("/t/{name}-1").into(),
        };
        let expected = ["a", "b", "xtask", "cli"].map(program);
        assert_eq!(programs(built).unwrap(), expected);
        assert!(programs(vec![artifact("b", false, None)]).is_err(), "nothing is not all");
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
