//! A machine that was recorded in a text file: outputs of commands, files and links.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use tempfile::TempDir;

/// A recorded machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// What commands print.
    pub(crate) commands: BTreeMap<String, String>,
    /// What files hold.
    pub(crate) files: BTreeMap<String, String>,
    /// Where links lead.
    links: BTreeMap<String, String>,
    /// The commands that were run.
    pub(crate) ran: Vec<String>,
}

impl Machine {
    /// Read a recording.
    pub(crate) fn recorded(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
        let text = std::fs::read_to_string(path).unwrap();
        let mut machine = Self::default();
        let mut content = &mut String::new();
        for line in text.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                content = machine.commands.entry(command.into()).or_default();
            } else if let Some(file) = line.strip_prefix("== ") {
                content = machine.files.entry(file.into()).or_default();
            } else if let Some(link) = line.strip_prefix("-> ") {
                let (link, target) = link.split_once(' ').unwrap();
                machine.links.insert(link.into(), target.into());
            } else {
                content.push_str(line);
                content.push('\n');
            }
        }
        machine
    }

    /// Run a command of the recording; one that is not in it is not installed.
    pub(crate) fn run(&mut self, program: &str, arguments: &[&str]) -> io::Result<String> {
        let command = format!("{program} {}", arguments.join(" "));
        self.ran.push(command.clone());
        self.commands.get(&command).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Make a folder that has the recorded files.
    pub(crate) fn root(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let place = |path: &str| {
            let place = folder.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            place
        };
        for (path, content) in &self.files {
            std::fs::write(place(path), content).unwrap();
        }
        for (path, target) in &self.links {
            std::os::unix::fs::symlink(target, place(path)).unwrap();
        }
        folder
    }
}
