//! Calls that open files and change their names; which file a descriptor leads to.

use std::rc::Rc;

use super::calls::{Begun, Kind, too_large};
use super::descriptors::{Description, Node};
use super::line::{Annotation, Call, Descriptor, Outcome, has_flag, quoted, unescape};
use super::names::{Opening, append_path};
use super::{Fault, Tracer};
use crate::options::Identity;

/// Folders that hold no files to record.
const NO_FILES: [&[u8]; 3] = [b"/dev", b"/proc", b"/sys"];

/// A memory file, which has a path of its own.
const MEMORY: [&[u8]; 4] = [b"/memfd:", b"/SYSV", b"/[", b"/anon_hugepage"];

/// Return `true` if the file of this name is on no storage.
fn is_no_file(path: &[u8]) -> bool {
    let is_below = |folder: &&[u8]| {
        path.strip_prefix(*folder).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
    };
    path.first() == Some(&b'/')
        && (NO_FILES.iter().any(is_below) || MEMORY.iter().any(|head| path.starts_with(head)))
}

impl Tracer<'_> {
    /// Return the description that a descriptor leads to, by the table and by the path that `-y`
    /// gives.
    pub(super) fn description(
        &mut self,
        pid: u32,
        descriptor: Descriptor<'_>,
    ) -> Option<Rc<Description>> {
        let number = descriptor.number?;
        let known = self.task(pid).files.borrow().get(number).cloned();
        let Some(annotation) = descriptor.annotation else { return known };
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        unescape(annotation.path, &mut path);
        let found = if path.first() != Some(&b'/') || is_no_file(&path) {
            match known {
                Some(known) if known.node == Node::Other => Some(known),
                _ => {
                    self.set_other(pid, number);
                    self.task(pid).files.borrow().get(number).cloned()
                }
            }
        } else {
            Some(self.named(pid, number, known, &mut path, annotation.is_deleted))
        };
        self.path = path;
        found
    }

    /// Return the description that a descriptor with this path leads to.
    fn named(
        &mut self,
        pid: u32,
        number: u32,
        known: Option<Rc<Description>>,
        path: &mut Vec<u8>,
        is_deleted: bool,
    ) -> Rc<Description> {
        if let Some(known) = known {
            let is_it = match known.file() {
                None => false,
                // Between a rename and its line, the path is ahead of what is known.
                Some(file) => {
                    is_deleted
                        || self.collector.path_of(file) == path.as_slice()
                        || self.options.identity == Identity::Path
                        || self.names.known(path).is_none_or(|other| other == file)
                }
            };
            if is_it {
                return known;
            }
            self.collector.counts.rebound += 1;
        } else {
            self.collector.counts.adopted += 1;
        }
        if is_deleted {
            path.extend_from_slice(b" (deleted)");
        }
        let file = self.names.adopt(path, &mut self.collector);
        let description = Description::found(Node::File(file));
        self.task(pid).files.borrow_mut().set(number, Rc::clone(&description), false);
        description
    }

    /// Open a file as descriptor `value`.
    pub(super) fn open(
        &mut self,
        pid: u32,
        call: &Call<'_>,
        folder: Option<usize>,
        path: usize,
        flags: Option<usize>,
        value: u64,
    ) -> Result<(), Fault> {
        let number = u32::try_from(value).map_err(|_| too_large())?;
        let flags = flags.map_or(&b"O_CREAT|O_TRUNC|O_WRONLY"[..], |index| call.argument(index));
        let has = |flag: &[u8]| has_flag(flags, flag);
        self.collector.counts.opens += 1;
        let mut asked = std::mem::take(&mut self.other_path);
        let resolved = self.resolve(pid, call, folder, path, &mut asked);
        self.other_path = asked;
        resolved?;
        let Outcome::Value(_, annotation) = call.result else { return Ok(()) };
        let mut path = std::mem::take(&mut self.path);
        self.opened_path(annotation, &mut path);
        let node = if path.first() != Some(&b'/') && annotation.is_some() || is_no_file(&path) {
            Node::Other
        } else {
            let opening = Opening {
                is_new: has(b"O_CREAT") && has(b"O_EXCL"),
                is_emptied: has(b"O_TRUNC"),
                is_nameless: has(b"O_TMPFILE"),
                is_deleted: annotation.is_some_and(|annotation| annotation.is_deleted),
            };
            if opening.is_nameless {
                append_path(&mut path, b"nameless.tmp");
            }
            Node::File(self.names.open(&path, opening, &mut self.collector))
        };
        self.path = path;
        let description = Description::opened(node, has(b"O_APPEND"));
        let closes_on_exec = has(b"O_CLOEXEC");
        self.task(pid).files.borrow_mut().set(number, description, closes_on_exec);
        Ok(())
    }

    /// Note the path of a file that was opened as `self.other_path`.
    fn opened_path(&mut self, annotation: Option<Annotation<'_>>, path: &mut Vec<u8>) {
        path.clear();
        if let Some(annotation) = annotation {
            unescape(annotation.path, path);
            if path.first() == Some(&b'/') && !annotation.is_deleted {
                self.names.learn(&self.other_path, path);
            }
        } else {
            path.extend_from_slice(&self.other_path);
            self.names.follow(path);
        }
    }

    /// Calls that change which file a path names, or by a path how large a file is.
    pub(super) fn change_names(
        &mut self,
        pid: u32,
        kind: Kind,
        call: &Call<'_>,
    ) -> Result<(), Fault> {
        let (mut one, mut other) =
            (std::mem::take(&mut self.path), std::mem::take(&mut self.other_path));
        let done = self.change_names_with(pid, kind, call, &mut one, &mut other);
        (self.path, self.other_path) = (one, other);
        done
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other kinds of calls come elsewhere")]
    fn change_names_with(
        &mut self,
        pid: u32,
        kind: Kind,
        call: &Call<'_>,
        one: &mut Vec<u8>,
        other: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        match kind {
            Kind::Rename { folders, paths } => {
                self.resolve_final(pid, call, folders[0], paths[0], one)?;
                self.resolve_final(pid, call, folders[1], paths[1], other)?;
                self.collector.counts.renames += 1;
                if call.has_flag(4, b"RENAME_EXCHANGE") {
                    self.names.exchange(one, other, &mut self.collector);
                } else {
                    self.names.rename(one, other, &mut self.collector);
                }
            }
            Kind::Link { folders, paths } => {
                self.resolve_final(pid, call, folders[1], paths[1], other)?;
                self.collector.counts.links += 1;
                if let Some(file) = self.nameless(pid, call, paths[0])? {
                    self.names.name(file, other, &mut self.collector);
                } else {
                    self.resolve_final(pid, call, folders[0], paths[0], one)?;
                    self.names.link(one, other, &mut self.collector);
                }
            }
            Kind::Unlink { folder, path } => {
                if folder.is_some() && call.has_flag(2, b"AT_REMOVEDIR") {
                    return Ok(());
                }
                self.resolve_final(pid, call, folder, path, one)?;
                self.collector.counts.unlinks += 1;
                self.names.unlink(one, &mut self.collector);
            }
            _ => {
                self.resolve_final(pid, call, None, 0, one)?;
                self.collector.counts.truncates += 1;
                if let Some(file) = self.names.known(one) {
                    self.names.set_size(file, call.number(1)?);
                }
            }
        }
        Ok(())
    }

    /// Return the file that is linked by its descriptor: `/proc/self/fd/7`, or an empty path.
    fn nameless(&mut self, pid: u32, call: &Call<'_>, path: usize) -> Result<Option<u32>, Fault> {
        let text = quoted(call.argument(path))?;
        let descriptor = match text.strip_prefix(b"/proc/self/fd/") {
            Some(digits) => super::line::number(digits).ok().and_then(|it| u32::try_from(it).ok()),
            None if text.is_empty() && path > 0 => call.descriptor(path - 1)?.number,
            None => None,
        };
        let Some(descriptor) = descriptor else { return Ok(None) };
        let description = self.task(pid).files.borrow().get(descriptor).cloned();
        Ok(description.and_then(|description| description.file()))
    }

    /// Return the path that a call names, links between folders followed.
    fn resolve_final(
        &mut self,
        pid: u32,
        call: &Call<'_>,
        folder: Option<usize>,
        path: usize,
        target: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        self.resolve(pid, call, folder, path, target)?;
        self.names.follow(target);
        Ok(())
    }

    /// Return the path that a call names, from the folder from which it goes.
    fn resolve(
        &mut self,
        pid: u32,
        call: &Call<'_>,
        folder: Option<usize>,
        path: usize,
        target: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let text = quoted(call.argument(path))?;
        target.clear();
        let descriptor = folder.map(|index| call.descriptor(index)).transpose()?;
        self.begin_path(pid, descriptor, target);
        if memchr::memchr(b'\\', text).is_none() {
            append_path(target, text);
        } else {
            let mut unescaped = vec![];
            unescape(text, &mut unescaped);
            append_path(target, &unescaped);
        }
        Ok(())
    }

    /// Return the folder from which a path starts, and use its annotation.
    fn begin_path(&mut self, pid: u32, descriptor: Option<Descriptor<'_>>, target: &mut Vec<u8>) {
        let annotation = descriptor.and_then(|descriptor| descriptor.annotation);
        if let Some(annotation) = annotation {
            unescape(annotation.path, target);
        }
        let task = &self.tasks[&pid];
        match descriptor.and_then(|descriptor| descriptor.number) {
            None if annotation.is_some() => {
                let mut folder = task.folder.borrow_mut();
                if folder.as_deref() != Some(target) {
                    *folder = Some(target.clone());
                }
            }
            None => target.extend_from_slice(task.folder.borrow().as_deref().unwrap_or_default()),
            Some(_) if annotation.is_some() => {}
            Some(number) => {
                let file = task.files.borrow().get(number).and_then(|found| found.file());
                if let Some(file) = file {
                    target.extend_from_slice(self.collector.path_of(file));
                }
            }
        }
    }

    pub(super) fn change_folder(
        &mut self,
        pid: u32,
        call: &Call<'_>,
        begun: &Begun,
    ) -> Result<(), Fault> {
        let mut path = vec![];
        if call.name == b"chdir" {
            self.resolve(pid, call, None, 0, &mut path)?;
        } else if let Some(annotation) = call.descriptor(0)?.annotation {
            unescape(annotation.path, &mut path);
        } else if let Some(file) = begun.first.as_ref().and_then(|found| found.file()) {
            path.extend_from_slice(self.collector.path_of(file));
        } else {
            return Ok(());
        }
        *self.task(pid).folder.borrow_mut() = Some(path);
        Ok(())
    }
}
