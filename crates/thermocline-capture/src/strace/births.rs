//! Parents of processes, found in a first pass: the lines of a child may come before the one that
//! reports its birth to its parent.
//!
//! Process ids are reused, so each birth is identified by its place in the recording.

use std::collections::{HashMap, VecDeque};

use super::line::{Call, Event, Line, Outcome, has_flag};

/// A process or thread that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Birth {
    /// The line on which its parent asked for it.
    begin_line: u64,
    pub(super) parent: u32,
    /// `true` if it shares the descriptors of its parent and has no copies of them.
    pub(super) shares_files: bool,
    /// `true` if it shares the folder of its parent.
    pub(super) shares_folder: bool,
}

/// Every birth of a recording, in order for each process id.
#[derive(Debug, Default)]
pub(super) struct Births {
    of: HashMap<u32, VecDeque<Birth>>,
    /// First halves: where they are, and the flags they have.
    halves: HashMap<u32, Birth>,
}

impl Births {
    /// Looks at a line in the first pass. The second pass reports malformed lines.
    pub(super) fn look(&mut self, number: u64, line: &[u8]) {
        let Ok(line) = Line::parse(line) else { return };
        match line.event {
            Event::Call(body) if is_birth(body) => {
                let birth = birth(number, line.pid, body);
                self.end(birth, body, false);
            }
            Event::Unfinished(body) if is_birth(body) => {
                self.halves.insert(line.pid, birth(number, line.pid, body));
            }
            Event::Resumed(name, body) if is_birth_name(name) => {
                let Some(mut birth) = self.halves.remove(&line.pid) else { return };
                let Birth { shares_files, shares_folder, .. } = self::birth(number, line.pid, body);
                birth.shares_files |= shares_files;
                birth.shares_folder |= shares_folder;
                self.end(birth, body, true);
            }
            Event::Exited => {
                self.halves.remove(&line.pid);
            }
            Event::Call(_)
            | Event::Unfinished(_)
            | Event::Resumed(..)
            | Event::Superseded(_)
            | Event::Signal => {}
        }
    }

    fn end(&mut self, birth: Birth, body: &[u8], is_second_half: bool) {
        let result = if is_second_half { second_half_result(body) } else { whole_result(body) };
        if let Some(child) = result {
            self.of.entry(child).or_default().push_back(birth);
        }
    }

    /// Return the birth of the process whose lines begin at line `number`.
    pub(super) fn take(&mut self, pid: u32, number: u64) -> Option<Birth> {
        let births = self.of.get_mut(&pid)?;
        let mut latest = None;
        while births.front().is_some_and(|birth| birth.begin_line <= number) {
            latest = births.pop_front();
        }
        latest
    }

    /// Return `true` if a birth up to line `number` was not taken yet.
    pub(super) fn is_waiting(&self, pid: u32, number: u64) -> bool {
        let first = self.of.get(&pid).and_then(VecDeque::front);
        first.is_some_and(|birth| birth.begin_line <= number)
    }
}

fn is_birth(body: &[u8]) -> bool {
    let end = memchr::memchr(b'(', body).unwrap_or(body.len());
    is_birth_name(&body[..end])
}

/// Return `true` if this call begins a process or thread.
pub(super) fn is_birth_name(name: &[u8]) -> bool {
    matches!(name, b"clone" | b"clone3" | b"clone2" | b"fork" | b"vfork")
}

fn birth(begin_line: u64, parent: u32, body: &[u8]) -> Birth {
    Birth {
        begin_line,
        parent,
        shares_files: has_flag(body, b"CLONE_FILES"),
        shares_folder: has_flag(body, b"CLONE_FS"),
    }
}

fn whole_result(body: &[u8]) -> Option<u32> {
    match Call::parse(body, false).ok()?.result {
        Outcome::Value(child, _) => u32::try_from(child).ok().filter(|&child| child > 0),
        Outcome::Failed | Outcome::Nothing | Outcome::Pending => None,
    }
}

fn second_half_result(body: &[u8]) -> Option<u32> {
    let at = memchr::memmem::rfind(body, b" = ")?;
    let digits = &body[at + 3..];
    let end = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok().filter(|&child| child > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_id_that_is_used_again_has_several_parents() {
        let mut births = Births::default();
        let lines = [
            "1 1.0 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 9",
            "2 2.0 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_FS <unfinished ...>",
            "9 2.1 +++ exited with 0 +++",
            "2 2.2 <... clone3 resumed> => {parent_tid=[9]}, 88) = 9",
            "3 3.0 vfork( <unfinished ...>",
            "3 3.1 <... vfork resumed>) = ? ERESTARTNOINTR (To be restarted)",
            "3 3.2 fork() = -1 EAGAIN (Resource temporarily unavailable)",
            "3 3.3 vfork() = 8",
        ];
        for (number, line) in (1..).zip(lines) {
            births.look(number, line.as_bytes());
        }
        let birth = |begin_line, parent, shares| {
            Some(Birth { begin_line, parent, shares_files: shares, shares_folder: shares })
        };
        assert_eq!(births.take(9, 1), birth(1, 1, false));
        assert_eq!(births.take(9, 4), birth(2, 2, true));
        assert_eq!(births.take(9, 9), None);
        assert_eq!(births.take(8, 9), birth(8, 3, false));
        assert_eq!(births.take(7, 9), None);
    }
}
