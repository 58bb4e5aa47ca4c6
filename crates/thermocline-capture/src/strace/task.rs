//! Processes and threads: what each has, and what it shares.

use std::cell::RefCell;
use std::rc::Rc;

use super::calls::Begun;
use super::descriptors::{SharedTable, Table, unshared};
use super::{Moment, Tracer};

/// The folder from which relative paths go, if it is known; threads share it.
pub(super) type Folder = Rc<RefCell<Option<Vec<u8>>>>;

/// A call of which the first half was seen.
#[derive(Debug)]
pub(super) struct Half {
    pub(super) at_ns: u64,
    /// The length of its name, with which its text begins.
    pub(super) name_bytes: usize,
    pub(super) begun: Begun,
}

/// A process or thread.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) files: SharedTable,
    pub(super) folder: Folder,
    /// Program that it runs.
    pub(super) command: u32,
    pub(super) half: Option<Half>,
    /// The text of the first half.
    pub(super) text: Vec<u8>,
    /// `true` if it has asked to exit; a further line belongs to another process of the same
    /// number.
    pub(super) has_ended: bool,
}

/// The program of processes that were there before the recording, if that does not say it.
const UNKNOWN_COMMAND: &[u8] = b"unknown";

impl Task {
    /// Create a process of which nothing is known.
    fn root(folder: Option<Vec<u8>>, command: u32) -> Self {
        Self {
            files: Rc::new(RefCell::new(Table::default())),
            folder: Rc::new(RefCell::new(folder)),
            command,
            half: None,
            text: vec![],
            has_ended: false,
        }
    }

    fn child(&self, shares_files: bool, shares_folder: bool) -> Self {
        let folder = if shares_folder {
            Rc::clone(&self.folder)
        } else {
            Rc::new(RefCell::new(self.folder.borrow().clone()))
        };
        let files = if shares_files { Rc::clone(&self.files) } else { unshared(&self.files) };
        Self { files, folder, command: self.command, half: None, text: vec![], has_ended: false }
    }
}

impl Tracer<'_> {
    /// Return the process that a line speaks of, which [`Self::attend`] has made.
    pub(super) fn task(&mut self, pid: u32) -> &mut Task {
        self.tasks.get_mut(&pid).expect("the process was made when its line was met")
    }

    /// Makes the process of a line if it is new; `true` if it is.
    pub(super) fn attend(&mut self, moment: Moment, replaces_ended: bool) -> bool {
        match self.tasks.get(&moment.pid) {
            Some(task) if !task.has_ended || !replaces_ended => false,
            _ => {
                self.make(moment);
                true
            }
        }
    }

    /// Makes a process from what was found in the first pass.
    fn make(&mut self, moment: Moment) {
        self.drop_half(moment.pid);
        let birth = self.births.take(moment.pid, moment.line);
        let parent = birth.and_then(|birth| Some((self.tasks.get(&birth.parent)?, birth)));
        let task = match parent {
            Some((parent, birth)) => parent.child(birth.shares_files, birth.shares_folder),
            None => {
                let attached = self.attached.remove(&moment.pid);
                let (program, folder) = attached.map(|it| (it.program, it.folder)).unzip();
                let program = program.as_deref().unwrap_or(UNKNOWN_COMMAND);
                let folder = folder.flatten().or_else(|| self.options.folder.clone());
                Task::root(folder, self.collector.command(program))
            }
        };
        self.collector.counts.tasks += 1;
        self.tasks.insert(moment.pid, task);
    }

    /// Add a child that was reported to its parent: it exists, unless it has shown no line yet.
    pub(super) fn born(&mut self, moment: Moment, child: u32) {
        if child == moment.pid {
            return;
        }
        let child = Moment { pid: child, ..moment };
        if self.births.is_waiting(child.pid, child.line) || !self.tasks.contains_key(&child.pid) {
            self.make(child);
        }
    }

    /// Let the thread `by` take over the number of its process, because it starts a program.
    pub(super) fn supersede(&mut self, pid: u32, by: u32) {
        self.drop_half(pid);
        let Some(task) = self.tasks.remove(&by) else { return };
        if let Some(half) = &task.half
            && self.begun.remove(&(half.at_ns, by))
        {
            self.begun.insert((half.at_ns, pid));
        }
        self.tasks.insert(pid, task);
    }

    /// Start a new program: it has its own descriptors, without those that were to be closed.
    pub(super) fn exec(&mut self, pid: u32, program: Option<&[u8]>) {
        self.collector.counts.execs += 1;
        let command = program.map(|name| self.collector.command(name));
        let task = self.task(pid);
        task.files = unshared(&task.files);
        task.files.borrow_mut().exec();
        let folder = task.folder.borrow().clone();
        task.folder = Rc::new(RefCell::new(folder));
        if let Some(command) = command {
            task.command = command;
        }
    }
}
