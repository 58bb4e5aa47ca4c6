//! Runs the commands that a document shows, as its reader would: in order, in one shell, in a clean
//! copy of the project.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// Commands that are this very check, or install something for good.
const NOT_RUN: [&str; 3] = ["cargo xtask", "cargo install", "pip install"];
/// Programs of others that a machine may lack: what comes after one builds upon it, and is left out.
const FOREIGN: [&str; 3] = ["nbdinfo", "nbdcopy", "fio"];
/// Builds releases without what makes them slow to build: the commands are tested, not their speed.
const QUICK_RELEASE: [(&str, &str); 3] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
];
/// Prefix by which commands build and run the program.
const RUN_RELEASE: &str = "cargo run --release -- ";
/// Output of the shell before each command.
const MARK: &str = "==> ";
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A document, and how its commands are run.
pub(crate) struct Session<'a> {
    /// Name in errors.
    pub(crate) name: &'a str,
    /// Its Markdown.
    pub(crate) text: &'a str,
    /// Folder in which its commands run.
    pub(crate) folder: &'a Path,
    /// Folder in which programs are looked for first.
    pub(crate) programs: Option<&'a Path>,
    /// The `thermocline` that commands get where they would build and run a release; they build it
    /// themselves without.
    pub(crate) built: Option<&'a Path>,
    /// Folder in which cargo builds.
    pub(crate) target: &'a Path,
    /// Maximum time of all of it.
    pub(crate) patience: Duration,
}

impl Session<'_> {
    /// Runs all commands, up to the first that fails, and compares their output with what is shown.
    pub(crate) fn run(&self) -> Result<()> {
        let name = self.name;
        let commands = self.commands()?;
        let script = self.script(&commands);
        let outside = tempfile::tempdir().context("cannot make a folder for the output")?;
        let (script_path, output_path) =
            (outside.path().join("script"), outside.path().join("output"));
        std::fs::write(&script_path, script).context("cannot write the commands to a file")?;
        let output = File::create(&output_path).context("cannot make a file for the output")?;
        let mut shell = Command::new("sh");
        xtask::forget_package(&mut shell);
        let mut shell = shell
            .arg("-e")
            .arg(&script_path)
            .current_dir(self.folder)
            .env("PATH", self.path()?)
            .env("CARGO_TARGET_DIR", self.target)
            .envs(QUICK_RELEASE)
            .stdin(Stdio::null())
            .stdout(output)
            .spawn()
            .context("cannot start sh")?;
        let deadline = Instant::now() + self.patience;
        let status = loop {
            if let Some(status) = shell.try_wait().context("cannot wait for sh")? {
                break Some(status);
            }
            if Instant::now() >= deadline {
                shell.kill().context("cannot end sh")?;
                shell.wait().context("cannot wait for sh")?;
                break None;
            }
            thread::sleep(POLL_INTERVAL);
        };
        let output = std::fs::read(&output_path).context("cannot read the output")?;
        let output = String::from_utf8_lossy(&output);
        if status.is_some_and(|status| status.success()) {
            return self.check_shown(&commands, &output);
        }
        let last = output.rfind(MARK).map_or(&*output, |place| &output[place + MARK.len()..]);
        let why = match status {
            Some(status) => status.to_string(),
            None => format!("not done within {} s", self.patience.as_secs()),
        };
        bail!("{name}: this failed ({why}):\n{last}")
    }

    /// Check that the output shown in the document is in that of its command, line by line, in
    /// order.
    fn check_shown(&self, commands: &[Shown], output: &str) -> Result<()> {
        let mut rest = output;
        for Shown { command, output } in commands {
            let mark = format!("{MARK}{command}\n");
            let (_, after) =
                rest.split_once(&mark).context("each command is named in the output")?;
            rest = after;
            let mut lines = after.split(MARK).next().unwrap_or_default().lines();
            for line in output {
                ensure!(
                    lines.any(|printed| printed.contains(line.trim())),
                    "{}: `{command}` does not print this, or not there:\n{line}",
                    self.name
                );
            }
        }
        Ok(())
    }

    /// Return all commands as a script, in which each is named before it runs, for the reader of
    /// the output and for who waits.
    fn script(&self, commands: &[Shown]) -> String {
        // Programs that were started in the background end with the document.
        let mut script = format!(
            "trap 'kill $! 2>/dev/null || :' EXIT
exec 3>&2 2>&1
show() {{
  shown_command=$(cat)
  printf '%s\\n' '{}: '\"$shown_command\" >&3
  printf '%s\\n' '{MARK}'\"$shown_command\"
}}
",
            self.name
        );
        for Shown { command, .. } in commands {
            let run = match self.built {
                Some(built) => command.replace(RUN_RELEASE, &format!("'{}' ", built.display())),
                None => command.clone(),
            };
            script += &format!("show <<'END OF COMMAND'\n{command}\nEND OF COMMAND\n{run}\n");
        }
        script
    }

    /// Return the commands that are run here.
    fn commands(&self) -> Result<Vec<Shown>> {
        let all = commands(self.text);
        ensure!(!all.is_empty(), "{} shows no command", self.name);
        let mut kept = vec![];
        for shown in all {
            let command = &shown.command;
            if let Some(skipped) = NOT_RUN.iter().find(|&&skipped| command.starts_with(skipped)) {
                eprintln!("{}: `{skipped}` is for the reader: {command}", self.name);
                continue;
            }
            if let Some(program) = self.missing(command)? {
                eprintln!(
                    "{}: `{program}` is not installed, so this ends at: {command}",
                    self.name
                );
                break;
            }
            kept.push(shown);
        }
        Ok(kept)
    }

    /// Return the program of a command, if it is one that a machine may lack, and this one does.
    fn missing<'a>(&self, command: &'a str) -> Result<Option<&'a str>> {
        let program = command.split_whitespace().next().unwrap_or_default();
        if !FOREIGN.contains(&program) {
            return Ok(None);
        }
        let path = self.path()?;
        let is_there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
        Ok((!is_there).then_some(program))
    }

    fn path(&self) -> Result<std::ffi::OsString> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = self.programs.map(PathBuf::from);
        std::env::join_paths(own.into_iter().chain(std::env::split_paths(&path)))
            .context("the folder of the program cannot be part of PATH")
    }
}

/// A command that a document shows, and what it shows of its output.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Command for a shell, maybe of several lines.
    command: String,
    output: Vec<String>,
}

/// Return the commands and outputs of blocks marked `console`. A command begins with `$ `, and goes
/// on after a line that ends with a backslash; other lines are output, but for `...`, which stands
/// for more of it.
fn commands(text: &str) -> Vec<Shown> {
    let mut commands: Vec<Shown> = vec![];
    let mut is_console = false;
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            is_console = !is_console && language == "console";
            continue;
        }
        if !is_console {
            continue;
        }
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push(Shown { command: command.to_owned(), output: vec![] });
        } else if let Some(shown) = commands.last_mut() {
            if shown.command.ends_with('\\') {
                shown.command += &format!("\n{line}");
            } else if !matches!(line.trim(), "" | "...") {
                shown.output.push(line.to_owned());
            }
        }
    }
    commands
}

/// Copies what git tracks, or would, to an empty folder.
pub(crate) fn copy_project(root: &Path, copy: &Path) -> Result<()> {
    for name in crate::files(root)? {
        let (source, target) = (root.join(&name), copy.join(&name));
        let folder = target.parent().context("a file lies in a folder")?;
        std::fs::create_dir_all(folder).context("cannot make a folder in the copy")?;
        std::fs::copy(&source, &target)
            .with_context(|| format!("cannot copy `{}`", source.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str, patience_s: u64) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let patience = Duration::from_secs(patience_s);
        let target = folder.path();
        Session {
            name: "a.md",
            text,
            folder: target,
            programs: None,
            built: None,
            target,
            patience,
        }
        .run()
    }

    #[test]
    fn commands_share_a_shell_and_a_folder() {
        run(
            "```console\n$ x=1\n$ echo $x > a\n```\ntext\n```console\n$ test $(cat a) = 1\n```\n",
            60,
        )
        .unwrap();
    }

    #[test]
    fn the_command_that_fails_is_told_with_its_output() {
        let text = "```console\n$ echo first\n$ echo bad; false\n$ echo third\n```\n";
        let error = run(text, 60).unwrap_err().to_string();
        assert!(error.starts_with("a.md: this failed"), "{error}");
        assert!(error.contains("echo bad; false\nbad\n"), "{error}");
        assert!(!error.contains("first") && !error.contains("third"), "{error}");
    }

    #[test]
    fn a_command_may_have_several_lines_and_show_some_of_its_output() {
        let text = "```console\n$ printf '%s\\n' a \\\n  b c\na\n...\n  c\n\n$ true\n```\n";
        let shown = commands(text);
        assert_eq!(shown[0].command, "printf '%s\\n' a \\\n  b c");
        assert_eq!(shown[0].output, ["a", "  c"]);
        assert_eq!(shown[1], Shown { command: "true".into(), output: vec![] });
        run(text, 60).unwrap();
    }

    #[test]
    fn shown_output_that_is_not_printed_is_told() {
        let text = "```console\n$ echo a; echo b\nb\na\n$ echo a\na\n```\n";
        let error = run(text, 60).unwrap_err().to_string();
        assert_eq!(error, "a.md: `echo a; echo b` does not print this, or not there:\na");
    }

    #[test]
    fn only_console_blocks_are_run_and_one_is_needed() {
        let error = run("```sh\n$ true\n```\n$ true\n", 60).unwrap_err();
        assert_eq!(error.to_string(), "a.md shows no command");
    }

    #[test]
    fn a_program_that_was_built_is_run_in_place_of_a_release() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path();
        let text = "```console\n$ x=1 cargo run --release -- demo 'a b'\nrun: demo a b\n```\n";
        let built = target.join("built program");
        std::fs::write(&built, "#!/bin/sh\necho run: $*\n").unwrap();
        let run = Command::new("chmod").arg("+x").arg(&built).status().unwrap();
        assert!(run.success());
        let (name, patience) = ("a.md", Duration::from_mins(1));
        let (programs, built) = (None, Some(built.as_path()));
        Session { name, text, folder: target, programs, built, target, patience }.run().unwrap();
    }

    #[test]
    fn what_takes_too_long_is_ended() {
        let error = run("```console\n$ while :; do sleep 0.1; done\n```\n", 1).unwrap_err();
        assert!(error.to_string().contains("not done within 1 s"), "{error}");
    }

    #[test]
    fn what_runs_in_the_background_is_ended() {
        let begin = Instant::now();
        run("```console\n$ sleep 50 &\n$ true\n```\n", 60).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(40));
    }
}
