//! A machine that was recorded in a text file: it answers in the place of a real one.
//!
//! A line `$ COMMAND` begins what the command printed, `== PATH` what a file held, and `-> PATH TARGET` is
//! a symbolic link.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A recorded machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedMachine {
    /// The output of each command.
    pub commands: BTreeMap<String, String>,
    /// The content of each file.
    pub files: BTreeMap<String, String>,
    /// The target of each symbolic link.
    pub links: BTreeMap<String, String>,
    /// The commands that were run.
    pub ran: Vec<String>,
}

impl RecordedMachine {
    /// Read a recording.
    ///
    /// # Errors
    /// If a link has no target.
    pub fn parse(text: &str) -> io::Result<Self> {
        let mut machine = Self::default();
        let mut content = &mut String::new();
        for line in text.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                content = machine.commands.entry(command.into()).or_default();
            } else if let Some(file) = line.strip_prefix("== ") {
                content = machine.files.entry(file.into()).or_default();
            } else if let Some(link) = line.strip_prefix("-> ") {
                let (link, target) = link
                    .split_once(' ')
                    .ok_or_else(|| io::Error::other(format!("the link {link:?} has no target")))?;
                machine.links.insert(link.into(), target.into());
            } else {
                content.push_str(line);
                content.push('\n');
            }
        }
        Ok(machine)
    }

    /// Run a command of the recording.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the recording does not have it: it is then not installed.
    pub fn run(&mut self, program: &str, arguments: &[&str]) -> io::Result<String> {
        let command = format!("{program} {}", arguments.join(" "));
        self.ran.push(command.clone());
        self.commands.get(&command).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Write the files and links of the recording below a folder.
    ///
    /// # Errors
    /// If one of them cannot be written.
    pub fn write_files(&self, root: &Path) -> io::Result<()> {
        let place = |path: &str| -> io::Result<PathBuf> {
            let place = root.join(path.trim_start_matches('/'));
            fs::create_dir_all(place.parent().unwrap_or(root))?;
            Ok(place)
        };
        for (path, content) in &self.files {
            fs::write(place(path)?, content)?;
        }
        for (path, target) in &self.links {
            link(target, &place(path)?)?;
        }
        Ok(())
    }
}

#[cfg(unix)]
fn link(target: &str, place: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, place)
}

#[cfg(not(unix))]
fn link(_target: &str, _place: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_needs_a_target() {
        let error = RecordedMachine::parse("-> /sys/cache\n").unwrap_err().to_string();
        assert_eq!(error, "the link \"/sys/cache\" has no target");
    }
}
