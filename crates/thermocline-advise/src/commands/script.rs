//! A list of commands for a person to read and run.

use std::fmt;

use serde::Serialize;

use super::shell::{comment, quoted};

/// The effect of commands on the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// None: the cache is set as recommended.
    None,
    /// Settings change, and the cache keeps its content.
    InPlace,
    /// The cache is flushed, removed and made again, so it starts empty.
    Rebuild,
    /// A cache is made where there is none.
    Create,
}

/// A step of the commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "step")]
pub enum Step {
    /// A shell line.
    Run {
        /// The line.
        command: String,
        /// Its purpose, in a sentence.
        comment: String,
    },
    /// A file to write.
    File {
        /// Its path.
        path: String,
        /// Its content.
        text: String,
        /// Its purpose, in a sentence.
        comment: String,
    },
    /// A note.
    Note {
        /// A sentence.
        text: String,
    },
    /// A warning about data or performance, before the step that puts them at stake.
    Warning {
        /// A sentence.
        text: String,
    },
}

/// Commands that set up a cache as recommended; they are text, and nothing here runs them.
///
/// [`Display`](fmt::Display) writes them as a shell script with comments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Commands {
    /// The kind of cache.
    pub kind: &'static str,
    /// The release whose manuals and sources the commands were checked against.
    pub checked_against: &'static str,
    /// Their effect on the cache.
    pub change: Change,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

impl Commands {
    pub(super) const fn new(kind: &'static str, checked_against: &'static str) -> Self {
        Self { kind, checked_against, change: Change::None, steps: vec![] }
    }

    /// Set the effect.
    pub(super) fn set_change(&mut self, change: Change) {
        self.change = change;
    }

    /// Add a program with its arguments.
    pub(super) fn run(&mut self, comment: impl Into<String>, words: &[&str]) {
        let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
        self.line(comment, words.join(" "));
    }

    /// Add a line that is right for a shell already.
    pub(super) fn line(&mut self, comment: impl Into<String>, command: String) {
        self.steps.push(Step::Run { command, comment: comment.into() });
    }

    /// Add a line that writes a value to a file of the kernel.
    pub(super) fn write(&mut self, comment: impl Into<String>, value: &str, path: &str) {
        self.line(comment, format!("echo {} > {}", quoted(value), quoted(path)));
    }

    pub(super) fn file(&mut self, comment: &str, path: &str, text: String) {
        let (path, comment) = (path.into(), comment.into());
        self.steps.push(Step::File { path, text, comment });
    }

    /// Add a note, in sentences.
    pub fn note(&mut self, text: impl Into<String>) {
        self.steps.push(Step::Note { text: text.into() });
    }

    pub(super) fn warning(&mut self, text: impl Into<String>) {
        self.steps.push(Step::Warning { text: text.into() });
    }

    /// Visit the shell lines.
    pub fn lines(&self) -> impl Iterator<Item = &str> + '_ {
        self.steps.iter().filter_map(|step| match step {
            Step::Run { command, .. } => Some(command.as_str()),
            Step::File { .. } | Step::Note { .. } | Step::Warning { .. } => None,
        })
    }
}

impl fmt::Display for Commands {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = format!("{}, checked against {}. Run as root.", self.kind, self.checked_against);
        formatter.write_str(&comment(&head))?;
        if self.lines().next().is_some() {
            // A step that fails must not be followed by one that counts on it.
            formatter.write_str("set -e\n")?;
        }
        if self.change == Change::None {
            formatter
                .write_str(&comment("The cache is set as recommended: there is nothing to do."))?;
        }
        for step in &self.steps {
            match step {
                Step::Run { command, comment: text } => {
                    writeln!(formatter, "{}{command}", comment(text))?;
                }
                Step::File { path, text, comment: what } => {
                    let end = end_mark(text);
                    let path = quoted(path);
                    let break_after = if text.ends_with('\n') { "" } else { "\n" };
                    let what = comment(what);
                    writeln!(formatter, "{what}cat > {path} <<'{end}'\n{text}{break_after}{end}")?;
                }
                Step::Note { text } => formatter.write_str(&comment(text))?,
                Step::Warning { text } => {
                    formatter.write_str(&comment(&format!("WARNING: {text}")))?;
                }
            }
        }
        Ok(())
    }
}

/// Find a line that is not in a text, to end it with.
fn end_mark(text: &str) -> String {
    let mut mark = "END".to_owned();
    while text.lines().any(|line| line == mark) {
        mark.push_str("_END");
    }
    mark
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_writes_the_file_of_a_script() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it's $a file");
        let text = "a = \"$HOME\"\nEND\nEND_END\n`b`\n";
        let mut commands = Commands::new("test", "nothing");
        commands.warning("two\nlines $(exit 3)");
        commands.file("A file.", path.to_str().unwrap(), text.into());
        commands.run("Says a word.", &["printf", "%s", "it's"]);
        let Ok(output) = Command::new("sh").arg("-c").arg(commands.to_string()).output() else {
            println!("skipped: there is no sh");
            return;
        };
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"it's"[..]));
        assert_eq!(std::fs::read_to_string(path).unwrap(), text);
    }
}
