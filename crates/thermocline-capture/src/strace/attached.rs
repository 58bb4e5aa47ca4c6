//! State of processes at the time when strace was attached to them. No call reports it, so the
//! program that attaches adds a line for each, anywhere in the recording.
//!
//! `# task ID "PROGRAM" "FOLDER"`, escaped as strace escapes paths. The folder may be missing.

use std::fmt;

use thermocline_trace::Reason;
use thermocline_trace::text::integer;

use super::line::{quoted, unescape};

/// A process or thread that was there before the recording; shown as its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedTask {
    /// Its id.
    pub id: u32,
    /// The name of its program.
    pub program: Vec<u8>,
    /// The folder in which it was.
    pub folder: Option<Vec<u8>>,
}

/// First bytes of these lines.
const START: &[u8] = b"# task ";

impl AttachedTask {
    /// Return `true` if a line is one of these.
    pub(super) fn is_line(line: &[u8]) -> bool {
        line.starts_with(START)
    }

    pub(super) fn parse(line: &[u8]) -> Result<Self, Reason> {
        let rest = line.strip_prefix(START).ok_or("it is not the line of a task")?;
        let end = memchr::memchr(b' ', rest).ok_or("the task's program is missing")?;
        let id = u32::try_from(integer(&rest[..end], "process id")?);
        let id = id.map_err(|_| "the process id is too large")?;
        let rest = &rest[end + 1..];
        let (program, folder) = match memchr::memmem::find(rest, b"\" \"") {
            Some(at) => (&rest[..=at], Some(text(&rest[at + 2..])?)),
            None => (rest, None),
        };
        Ok(Self { id, program: text(program)?, folder })
    }
}

fn text(argument: &[u8]) -> Result<Vec<u8>, Reason> {
    let mut text = vec![];
    unescape(quoted(argument)?, &mut text);
    Ok(text)
}

impl fmt::Display for AttachedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "# task {} \"{}\"", self.id, self.program.escape_ascii())?;
        match &self.folder {
            Some(folder) => write!(f, " \"{}\"", folder.escape_ascii()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_read_as_they_are_shown() {
        for (program, folder) in [
            (&b"sh"[..], Some(&b"/srv/a b"[..])),
            (b"odd \" \"\n\\\xff", None),
            (b"\\", Some(b"/\" \"")),
            (b"", Some(b"")),
        ] {
            let task =
                AttachedTask { id: 7, program: program.into(), folder: folder.map(Into::into) };
            let line = task.to_string();
            assert!(AttachedTask::is_line(line.as_bytes()) && !line.contains('\n'), "{line}");
            assert_eq!(AttachedTask::parse(line.as_bytes()).unwrap(), task);
        }
        for line in
            ["# task", "# task 7", "# task x \"a\"", "# task 7 a", "# task 4294967296 \"a\""]
        {
            assert!(AttachedTask::parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}
