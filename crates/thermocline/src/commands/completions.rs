//! `thermocline completions`: what shells and `man` know of the program.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Command;
use clap_complete::Shell;

use crate::arguments::{self, CompletionsOptions};
use crate::output;

/// The name of the program.
const NAME: &str = "thermocline";

/// Where shells look for completions, below a prefix such as `/usr`.
const PLACES: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions/thermocline"),
    (Shell::Zsh, "share/zsh/site-functions/_thermocline"),
    (Shell::Fish, "share/fish/vendor_completions.d/thermocline.fish"),
];

/// Where `man` looks for pages.
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

/// Every file that a package installs, with its place below the prefix.
fn files() -> Result<Vec<(PathBuf, String)>> {
    let mut files = vec![];
    for (shell, place) in PLACES {
        files.push((place.into(), completions(shell)?));
    }
    let mut command = arguments::command();
    command.build();
    add_pages(&command, &mut files)?;
    Ok(files)
}

/// The script for a shell.
fn completions(shell: Shell) -> Result<String> {
    let mut text = vec![];
    clap_complete::generate(shell, &mut arguments::command(), NAME, &mut text);
    String::from_utf8(text).context("a script is text")
}

/// The man pages of a command and of all below it.
fn add_pages(command: &Command, files: &mut Vec<(PathBuf, String)>) -> Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let mut text = vec![];
    clap_mangen::Man::new(command.clone())
        .render(&mut text)
        .context("a page is written to memory")?;
    let text = String::from_utf8(text).context("a page is text")?;
    files.push((Path::new(PAGES).join(format!("{name}.1")), text));
    let is_page = |below: &&Command| below.get_name() != "help";
    command.get_subcommands().filter(is_page).try_for_each(|below| add_pages(below, files))
}

/// Writes a file and the folders above it.
fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
    }
    Ok(output::write_file(path, text)?)
}
