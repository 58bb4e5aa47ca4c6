//! `thermocline completions`: what shells and `man` know of the program.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Command;
use clap::builder::Resettable;
use clap_complete::Shell;

use crate::arguments::{self, CompletionsOptions};
use crate::output;

/// The name of the program.
const NAME: &str = "thermocline";

/// Folders in which shells look for completions, below a prefix such as `/usr`.
const PLACES: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions/thermocline"),
    (Shell::Zsh, "share/zsh/site-functions/_thermocline"),
    (Shell::Fish, "share/fish/vendor_completions.d/thermocline.fish"),
];

/// Folder in which `man` looks for pages.
const PAGES: &str = "share/man/man1";

/// Runs the command.
pub(crate) fn run(options: &CompletionsOptions) -> Result<String> {
    if let Some(prefix) = &options.install {
        let files = files()?;
        for (place, text) in &files {
            write(&prefix.join(place), text)?;
        }
        return Ok(format!(
            "{} files below {}: completions for bash, zsh and fish, and man pages\n",
            files.len(),
            prefix.display()
        ));
    }
    completions(options.shell.context("clap asks for a shell")?)
}

/// Return every file that a package installs, with its place below the prefix.
fn files() -> Result<Vec<(PathBuf, String)>> {
    let mut files = vec![];
    for (shell, place) in PLACES {
        files.push((place.into(), completions(shell)?));
    }
    let mut command = arguments::command().disable_help_subcommand(true);
    command.build();
    add_pages(&command, &mut files)?;
    Ok(files)
}

/// Return the script for a shell.
fn completions(shell: Shell) -> Result<String> {
    let mut text = vec![];
    clap_complete::generate(shell, &mut arguments::command(), NAME, &mut text);
    String::from_utf8(text).context("a script is text")
}

/// Add the man pages of a command and of all below it.
fn add_pages(command: &Command, files: &mut Vec<(PathBuf, String)>) -> Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let mut page = vec![];
    // Its text would be filled like any other; examples keep their lines.
    let plain = command.clone().after_help(Resettable::Reset);
    clap_mangen::Man::new(plain).render(&mut page).context("a page is written to memory")?;
    let mut text = String::from_utf8(page).context("a page is text")?;
    if let Some(example) = command.get_after_help() {
        let lines = example.to_string();
        let lines: Vec<&str> = lines.lines().skip(1).collect();
        let escaped = lines.join("\n").replace('\\', r"\(rs").replace('-', r"\-");
        text += &format!(".SH EXAMPLES\n.nf\n{escaped}\n.fi\n");
    }
    files.push((Path::new(PAGES).join(format!("{name}.1")), text));
    command.get_subcommands().try_for_each(|below| add_pages(below, files))
}

/// Writes a file and the folders above it.
fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
    }
    Ok(output::write_file(path, text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_of_all_commands_and_examples_keep_their_lines() {
        let files = files().unwrap();
        let page = |name: &str| {
            let found = files.iter().find(|(place, _)| place.ends_with(name));
            &found.unwrap_or_else(|| panic!("there is no {name}")).1
        };
        let plan = page("man1/thermocline-plan.1");
        assert!(plan.contains(".nf\n  $ thermocline plan db.csv.zst"), "{plan}");
        assert!(plan.contains(" \\(rs\n      \\-\\-currency EUR"), "{plan}");
        assert!(!page("man1/thermocline-trace-info.1").contains("SH EXTRA"));
        assert!(!files.iter().any(|(place, _)| place.to_string_lossy().contains("help")));
        for script in ["completions/thermocline", "_thermocline", "thermocline.fish"] {
            assert!(page(script).contains("min-lifetime-years"), "{script}");
        }
    }
}
