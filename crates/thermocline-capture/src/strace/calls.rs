//! Effects of the calls.

use std::rc::Rc;

use thermocline_core::Op;
use thermocline_trace::Reason;

use super::births::is_birth_name;
use super::descriptors::{Description, Node, unshared};
use super::line::{Call, Outcome, number, quoted, unescape};
use super::{Fault, Moment, Tracer};
use crate::class::split;

/// Position of a read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// Position of the description.
    Current,
    /// Position that this argument gives.
    Argument(usize),
}

/// Kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Reading or writing, and which argument asks for how many bytes.
    Io(Op, Position, Option<usize>),
    /// Bytes from one file to another: source, its offset, target, its offset.
    Transfer {
        source: usize,
        source_offset: usize,
        target: usize,
        target_offset: Option<usize>,
    },
    /// Opening: the arguments of folder, path and flags.
    Open {
        folder: Option<usize>,
        path: usize,
        flags: Option<usize>,
    },
    Close,
    CloseRange,
    Dup,
    Fcntl,
    Ioctl,
    Seek,
    Truncate,
    FileTruncate,
    Allocate,
    Stat,
    /// Renaming: the arguments of both folders, and both paths.
    Rename {
        folders: [Option<usize>; 2],
        paths: [usize; 2],
    },
    Unlink {
        folder: Option<usize>,
        path: usize,
    },
    Link {
        folders: [Option<usize>; 2],
        paths: [usize; 2],
    },
    Sync,
    Map,
    Birth,
    Exec {
        path: usize,
    },
    ChangeFolder,
    ChangeFolderTo,
    Unshare,
    Exit,
    Advise,
    IoUring,
    Libaio,
    /// Descriptor that is not a file's.
    OtherDescriptor,
    Other,
}

impl Kind {
    /// Return the kind of the call of this name.
    pub(super) fn of(name: &[u8]) -> Self {
        use Position::{Argument, Current};
        match name {
            b"read" => Self::Io(Op::Read, Current, Some(2)),
            b"write" => Self::Io(Op::Write, Current, Some(2)),
            b"pread64" | b"pread" => Self::Io(Op::Read, Argument(3), Some(2)),
            b"pwrite64" | b"pwrite" => Self::Io(Op::Write, Argument(3), Some(2)),
            b"readv" => Self::Io(Op::Read, Current, None),
            b"writev" => Self::Io(Op::Write, Current, None),
            b"preadv" | b"preadv2" => Self::Io(Op::Read, Argument(3), None),
            b"pwritev" | b"pwritev2" => Self::Io(Op::Write, Argument(3), None),
            b"openat" | b"openat2" => Self::Open { folder: Some(0), path: 1, flags: Some(2) },
            b"open" => Self::Open { folder: None, path: 0, flags: Some(1) },
            b"creat" => Self::Open { folder: None, path: 0, flags: None },
            b"close" => Self::Close,
            b"close_range" => Self::CloseRange,
            b"lseek" | b"_llseek" => Self::Seek,
            b"dup" | b"dup2" | b"dup3" => Self::Dup,
            b"fcntl" | b"fcntl64" => Self::Fcntl,
            b"ioctl" => Self::Ioctl,
            b"mmap" | b"mmap2" => Self::Map,
            b"fstat" | b"fstat64" => Self::Stat,
            b"exit" | b"exit_group" => Self::Exit,
            b"execve" => Self::Exec { path: 0 },
            b"execveat" => Self::Exec { path: 1 },
            name if is_birth_name(name) => Self::Birth,
            name => Self::of_rarer(name),
        }
    }

    fn of_rarer(name: &[u8]) -> Self {
        match name {
            b"sendfile" | b"sendfile64" => {
                Self::Transfer { source: 1, source_offset: 2, target: 0, target_offset: None }
            }
            b"copy_file_range" | b"splice" => {
                Self::Transfer { source: 0, source_offset: 1, target: 2, target_offset: Some(3) }
            }
            b"truncate" | b"truncate64" => Self::Truncate,
            b"ftruncate" | b"ftruncate64" => Self::FileTruncate,
            b"fallocate" => Self::Allocate,
            b"rename" => Self::Rename { folders: [None; 2], paths: [0, 1] },
            b"renameat" | b"renameat2" => {
                Self::Rename { folders: [Some(0), Some(2)], paths: [1, 3] }
            }
            b"unlink" => Self::Unlink { folder: None, path: 0 },
            b"unlinkat" => Self::Unlink { folder: Some(0), path: 1 },
            b"link" => Self::Link { folders: [None; 2], paths: [0, 1] },
            b"linkat" => Self::Link { folders: [Some(0), Some(2)], paths: [1, 3] },
            b"fsync" | b"fdatasync" | b"sync_file_range" | b"msync" | b"sync" | b"syncfs" => {
                Self::Sync
            }
            b"chdir" => Self::ChangeFolder,
            b"fchdir" => Self::ChangeFolderTo,
            b"unshare" => Self::Unshare,
            b"fadvise64" | b"readahead" | b"madvise" => Self::Advise,
            b"io_uring_setup" | b"io_uring_enter" | b"io_uring_register" => Self::IoUring,
            b"io_setup" | b"io_submit" | b"io_getevents" | b"io_pgetevents" | b"io_destroy" => {
                Self::Libaio
            }
            b"memfd_create" | b"socket" | b"accept" | b"accept4" | b"eventfd" | b"eventfd2"
            | b"epoll_create" | b"epoll_create1" | b"timerfd_create" | b"signalfd"
            | b"signalfd4" | b"inotify_init" | b"inotify_init1" | b"pidfd_open"
            | b"perf_event_open" | b"userfaultfd" => Self::OtherDescriptor,
            _ => Self::Other,
        }
    }

    /// Return the arguments whose descriptors count as they are when the call is entered.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other kinds of calls come elsewhere")]
    pub(super) const fn descriptors(self) -> [Option<usize>; 2] {
        match self {
            Self::Io(..)
            | Self::Dup
            | Self::Fcntl
            | Self::Seek
            | Self::FileTruncate
            | Self::Allocate
            | Self::Stat
            | Self::ChangeFolderTo => [Some(0), None],
            Self::Map => [Some(4), None],
            Self::Transfer { source, target, .. } => [Some(source), Some(target)],
            _ => [None; 2],
        }
    }

    const fn moves_bytes(self) -> bool {
        matches!(self, Self::Io(..) | Self::Transfer { .. })
    }
}

/// State that a call found at its entry.
#[derive(Debug, Default)]
pub(super) struct Begun {
    pub(super) first: Option<Rc<Description>>,
    pub(super) second: Option<Rc<Description>>,
}

impl Begun {
    /// Return `true` if a file may be read or written by it.
    pub(super) fn is_request(&self) -> bool {
        [&self.first, &self.second]
            .iter()
            .any(|found| found.as_ref().is_some_and(|description| description.file().is_some()))
    }

    /// Return the file that the first descriptor leads to.
    fn file(&self) -> Option<u32> {
        self.first.as_ref().and_then(|description| description.file())
    }
}

impl Tracer<'_> {
    /// Apply the effects of a call.
    pub(super) fn complete(
        &mut self,
        moment: Moment,
        kind: Kind,
        call: &Call<'_>,
        mut begun: Begun,
    ) -> Result<(), Fault> {
        let value = match call.result {
            Outcome::Value(value, _) => value,
            Outcome::Failed => {
                self.collector.counts.failed_calls += 1;
                return Ok(());
            }
            Outcome::Nothing => {
                self.without_result(moment, kind);
                return Ok(());
            }
            Outcome::Pending => return Err(Reason::from("the call has no result").into()),
        };
        for (index, slot) in
            kind.descriptors().into_iter().zip([&mut begun.first, &mut begun.second])
        {
            // The first half may have ended before it.
            if let (Some(index), None) = (index, &slot) {
                *slot = self.description(moment.pid, call.descriptor(index)?);
            }
        }
        match kind {
            Kind::Io(op, position, asked) => {
                self.transfer(moment, call, &begun, op, position, asked, value)
            }
            Kind::Transfer { .. } => self.transfer_between(moment, kind, call, &begun, value),
            Kind::Open { folder, path, flags } => {
                self.open(moment.pid, call, folder, path, flags, value)
            }
            Kind::Dup => self.dup(moment.pid, call, begun, value),
            Kind::Fcntl => self.fcntl(moment.pid, call, begun, value),
            Kind::Ioctl => self.ioctl(moment.pid, call),
            Kind::Seek => self.seek(call, &begun, value),
            Kind::Map => self.map(moment, call, &begun),
            Kind::Birth => {
                self.born(moment, u32::try_from(value).map_err(|_| too_large())?);
                Ok(())
            }
            Kind::Exec { path } => self.exec_path(moment.pid, call, path),
            Kind::Rename { .. } | Kind::Link { .. } | Kind::Unlink { .. } | Kind::Truncate => {
                self.change_names(moment.pid, kind, call)
            }
            Kind::FileTruncate | Kind::Allocate | Kind::Stat => self.resize(kind, call, &begun),
            Kind::ChangeFolder | Kind::ChangeFolderTo => {
                self.change_folder(moment.pid, call, &begun)
            }
            Kind::OtherDescriptor => {
                let number = u32::try_from(value).map_err(|_| too_large())?;
                self.set_other(moment.pid, number);
                Ok(())
            }
            Kind::Close
            | Kind::CloseRange
            | Kind::Unshare
            | Kind::Exit
            | Kind::Sync
            | Kind::Advise
            | Kind::IoUring
            | Kind::Libaio
            | Kind::Other => {
                self.count(moment.pid, kind, call);
                Ok(())
            }
        }
    }

    /// Handle a call that has not returned: it had no effect, or the process has ended.
    fn without_result(&mut self, moment: Moment, kind: Kind) {
        if kind == Kind::Exit {
            self.task(moment.pid).has_ended = true;
        } else if kind.moves_bytes() {
            self.collector.counts.no_result += 1;
        }
    }

    /// Calls that are only counted, or nearly.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other kinds of calls come elsewhere")]
    fn count(&mut self, pid: u32, kind: Kind, call: &Call<'_>) {
        let counts = &mut self.collector.counts;
        match kind {
            Kind::Sync => counts.syncs += 1,
            Kind::Advise => counts.advises += 1,
            Kind::IoUring => counts.io_uring_calls += 1,
            Kind::Libaio => counts.libaio_calls += 1,
            Kind::Other => counts.other_calls += 1,
            Kind::Exit => self.task(pid).has_ended = true,
            Kind::Unshare if call.has_flag(0, b"CLONE_FILES") => {
                let task = self.task(pid);
                task.files = unshared(&task.files);
            }
            _ => {}
        }
    }

    fn dup(&mut self, pid: u32, call: &Call<'_>, begun: Begun, value: u64) -> Result<(), Fault> {
        let number = u32::try_from(value).map_err(|_| too_large())?;
        if call.descriptor(0)?.number == Some(number) {
            return Ok(());
        }
        let closes_on_exec = call.has_flag(2, b"O_CLOEXEC");
        self.set(pid, number, begun.first, closes_on_exec);
        Ok(())
    }

    fn fcntl(&mut self, pid: u32, call: &Call<'_>, begun: Begun, value: u64) -> Result<(), Fault> {
        match call.argument(1) {
            command @ (b"F_DUPFD" | b"F_DUPFD_CLOEXEC") => {
                let number = u32::try_from(value).map_err(|_| too_large())?;
                self.set(pid, number, begun.first, command == b"F_DUPFD_CLOEXEC");
            }
            b"F_SETFL" => {
                if let Some(description) = begun.first {
                    description.appends.set(call.has_flag(2, b"O_APPEND"));
                }
            }
            b"F_SETFD" => {
                let closes = call.has_flag(2, b"FD_CLOEXEC");
                self.set_closes_on_exec(pid, call, closes)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn ioctl(&mut self, pid: u32, call: &Call<'_>) -> Result<(), Fault> {
        match call.argument(1) {
            b"FIOCLEX" => self.set_closes_on_exec(pid, call, true),
            b"FIONCLEX" => self.set_closes_on_exec(pid, call, false),
            _ => Ok(()),
        }
    }

    fn set_closes_on_exec(&mut self, pid: u32, call: &Call<'_>, closes: bool) -> Result<(), Fault> {
        if let Some(number) = call.descriptor(0)?.number {
            self.task(pid).files.borrow_mut().set_closes_on_exec(number, closes);
        }
        Ok(())
    }

    /// Make a descriptor lead to a description, or to an unknown file.
    fn set(&mut self, pid: u32, number: u32, to: Option<Rc<Description>>, closes_on_exec: bool) {
        let mut table = self.task(pid).files.borrow_mut();
        match to {
            Some(description) => table.set(number, description, closes_on_exec),
            None => table.close(number),
        }
    }

    pub(super) fn set_other(&mut self, pid: u32, number: u32) {
        self.set(pid, number, Some(Description::found(Node::Other)), false);
    }

    pub(super) fn close_range(&mut self, pid: u32, call: &Call<'_>) -> Result<(), Fault> {
        let bound =
            |index| call.number(index).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        let (first, last) = (bound(0)?, bound(1)?);
        let on_exec_only = call.has_flag(2, b"CLOSE_RANGE_CLOEXEC");
        let task = self.task(pid);
        if call.has_flag(2, b"CLOSE_RANGE_UNSHARE") {
            task.files = unshared(&task.files);
        }
        task.files.borrow_mut().close_range(first, last, on_exec_only);
        Ok(())
    }

    fn seek(&mut self, call: &Call<'_>, begun: &Begun, value: u64) -> Result<(), Fault> {
        // The old call of 32-bit programs writes its result into memory.
        let position = if call.name == b"_llseek" { number(call.argument(2))? } else { value };
        if let Some(description) = &begun.first {
            description.position.set(Some(position));
            if let Some(file) = description.file()
                && (call.argument(1), call.argument(2)) == (b"0", b"SEEK_END")
            {
                self.names.set_size(file, position);
            }
        }
        Ok(())
    }

    fn exec_path(&mut self, pid: u32, call: &Call<'_>, path: usize) -> Result<(), Fault> {
        let mut program = vec![];
        unescape(quoted(call.argument(path))?, &mut program);
        let (_, name) = split(&program);
        self.exec(pid, Some(name).filter(|name| !name.is_empty()));
        Ok(())
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other kinds of calls come elsewhere")]
    fn resize(&mut self, kind: Kind, call: &Call<'_>, begun: &Begun) -> Result<(), Fault> {
        let file = begun.file();
        match kind {
            Kind::FileTruncate => {
                self.collector.counts.truncates += 1;
                let bytes = call.number(1)?;
                if let Some(file) = file {
                    self.names.set_size(file, bytes);
                }
            }
            Kind::Allocate => {
                self.collector.counts.allocations += 1;
                let end = call.number(2)?.checked_add(call.number(3)?).ok_or_else(too_large)?;
                if let (Some(file), b"0") = (file, call.argument(1)) {
                    self.names.grow(file, end);
                }
            }
            _ => {
                let size = memchr::memmem::find(call.text, b"st_size=").map(|at| {
                    let digits = &call.text[at + b"st_size=".len()..];
                    let end = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    number(&digits[..end])
                });
                let is_regular = memchr::memmem::find(call.text, b"S_IFREG").is_some();
                if let (Some(file), Some(size), true) = (file, size, is_regular) {
                    self.names.set_size(file, size?);
                }
            }
        }
        Ok(())
    }
}

pub(super) fn too_large() -> Reason {
    "a number is too large".into()
}
