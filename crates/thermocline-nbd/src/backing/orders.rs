//! Operations on their way: cut into requests that the server takes, complete when the last of these is.
#![expect(unsafe_code, reason = "replies fill frames of the operations that are in flight")]

use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thermocline_core::policy::multi::split::Hint;
use thermocline_engine::driver::{Allocation, Completion, Sent};
use thermocline_engine::{Device, DeviceError, Frames, Operation, OperationId, OperationKind};

use super::connect::Terms;
use super::cooperation::{Taken, Talk};
use crate::protocol::{Command, ErrorCode, allocation, command_flag, transmission_flag as flag};

/// A stretch of zeroes, to be copied from.
const ZEROES: [u8; 4096] = [0; 4096];

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    owner: Owner,
    pub(super) command: Command,
    pub(super) flags: u16,
    pub(super) offset_bytes: u64,
    pub(super) length_bytes: u32,
}

/// Operation that a request is a part of.
#[derive(Clone, Copy, Debug)]
enum Owner {
    Operation(OperationId),
    /// A question about allocation, by its tag.
    Question(u64),
    /// A message about a page that has left RAM.
    Leaving {
        offset_bytes: u64,
    },
    /// A hint about the cache.
    Told,
    /// The question which pages are to be given up.
    Recalls,
}

/// An operation whose requests are not all answered.
#[derive(Debug)]
struct Flying {
    operation: Operation,
    /// None if the operation waits for a server: it is kept to be asked for when one is there.
    parts_left: u32,
    error: Option<DeviceError>,
    /// Time at which a server that the operation needs was first missed.
    missed_at: Option<Instant>,
}

/// A question about allocation that is not answered.
#[derive(Debug)]
struct Question {
    range: Range<u64>,
    /// Extents that the server reported, from the beginning of the range on.
    told: Vec<Allocation>,
}

/// All that the driver was asked for.
#[derive(Debug)]
pub(super) struct Orders {
    frames: Arc<Frames>,
    /// Operations by their number.
    operations: Vec<Option<Flying>>,
    operations_left: usize,
    questions: BTreeMap<u64, Question>,
    /// Requests that were not sent.
    pub(super) waiting: VecDeque<Part>,
    pub(super) done: Vec<Completion>,
    pub(super) answers: VecDeque<(u64, Vec<Allocation>)>,
    /// The conversation with a server that cooperates.
    pub(super) cooperation: Option<Talk>,
    /// `true` if the server has acknowledged a change since a sync was started last.
    has_unsynced: bool,
    /// `true` if such changes were acknowledged by a server that has gone since: it may have had them in
    /// memory only, and the next sync must not say that they are durable.
    is_doubtful: bool,
}

impl Orders {
    pub(super) fn new(frames: &Arc<Frames>) -> Self {
        Self {
            frames: Arc::clone(frames),
            operations: vec![],
            operations_left: 0,
            questions: BTreeMap::new(),
            waiting: VecDeque::new(),
            done: vec![],
            answers: VecDeque::new(),
            cooperation: None,
            has_unsynced: false,
            is_doubtful: false,
        }
    }

    /// Return the frames of the shard whose operations are taken.
    pub(super) fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Return `true` if no operation is left to be completed.
    pub(super) fn is_idle(&self) -> bool {
        self.operations_left == 0
    }

    /// Takes an operation; there are terms unless no server is there. If there is none since a moment
    /// ago, the operation is kept until one is.
    pub(super) fn take(
        &mut self,
        operation: Operation,
        terms: Option<&Terms>,
        missed_at: Option<Instant>,
    ) {
        let id = operation.id;
        let is_in_vain = self.is_doubtful && operation.kind == OperationKind::Sync
            || operation.device == Device::Flash;
        if terms.is_none() && missed_at.is_some() && !is_in_vain {
            return self.insert(Flying { operation, parts_left: 0, error: None, missed_at });
        }
        let request = match terms {
            _ if operation.device == Device::Flash => Err(DeviceError(ErrorKind::NotFound)),
            terms => self.request(operation.kind, terms),
        };
        let (terms, command, flags) = match request {
            Ok(Some(request)) => request,
            Ok(None) => return self.done.push((operation, Ok(()))),
            Err(error) => return self.done.push((operation, Err(error))),
        };
        let owner = Owner::Operation(id);
        let end_bytes = operation.offset_bytes + operation.length_bytes;
        let (mut offset_bytes, mut parts_left) = (operation.offset_bytes, 0);
        while offset_bytes < end_bytes || parts_left == 0 {
            let mut length_bytes = length(terms, end_bytes - offset_bytes);
            let mut flags = flags;
            if let Some(talk) = &mut self.cooperation {
                (length_bytes, flags) = talk.cut(command, flags, offset_bytes, length_bytes);
            }
            self.waiting.push_back(Part { owner, command, flags, offset_bytes, length_bytes });
            offset_bytes += u64::from(length_bytes);
            parts_left += 1;
        }
        self.insert(Flying { operation, parts_left, error: None, missed_at });
    }

    fn insert(&mut self, flying: Flying) {
        let number = flying.operation.id.0 as usize;
        if self.operations.len() <= number {
            self.operations.resize_with(number + 1, || None);
        }
        self.operations[number] = Some(flying);
        self.operations_left += 1;
    }

    /// Return the request to send to the server; `None` if the operation needs none.
    fn request<'a>(
        &mut self,
        kind: OperationKind,
        terms: Option<&'a Terms>,
    ) -> Result<Option<(&'a Terms, Command, u16)>, DeviceError> {
        if kind == OperationKind::Sync {
            // Before the flush is sent: changes that are acknowledged from now on may miss it.
            self.has_unsynced = false;
            // Rule 9 of *Durability* in ARCHITECTURE.md: a failed sync has the engine write everything
            // again that the former server may have lost.
            if std::mem::take(&mut self.is_doubtful) {
                return Err(DeviceError(ErrorKind::ConnectionReset));
            }
        }
        let terms = terms.ok_or(DeviceError(ErrorKind::NotConnected))?;
        let fua = if terms.writes_durably() { command_flag::FUA } else { 0 };
        let request = match kind {
            OperationKind::Read => Some((Command::Read, 0)),
            // Without flushes each write is durable by itself (FUA), as far as the server can do that.
            OperationKind::Sync => terms.has(flag::SEND_FLUSH).then_some((Command::Flush, 0)),
            OperationKind::Discard => terms.has(flag::SEND_TRIM).then_some((Command::Trim, 0)),
            OperationKind::Zero if terms.has(flag::SEND_WRITE_ZEROES) => {
                Some((Command::WriteZeroes, fua | command_flag::NO_HOLE))
            }
            OperationKind::Write | OperationKind::Zero => Some((Command::Write, fua)),
        };
        Ok(request.map(|(command, flags)| (terms, command, flags)))
    }

    /// Asks which parts of a range are holes. Returns `true` if the server can tell.
    pub(super) fn ask(&mut self, tag: u64, range: Range<u64>, terms: Option<&Terms>) -> bool {
        let Some(terms) = terms.filter(|terms| terms.allocation.is_some()) else { return false };
        let minimum = u64::from(terms.minimum_bytes);
        let offset_bytes = range.start - range.start % minimum;
        let wanted = range.end.next_multiple_of(minimum).min(terms.size_bytes) - offset_bytes;
        let longest = u64::from(u32::MAX - terms.minimum_bytes + 1);
        let length_bytes = u32::try_from(wanted.min(longest)).expect("as much as fits 32 bits");
        let (owner, command) = (Owner::Question(tag), Command::BlockStatus);
        self.waiting.push_back(Part { owner, command, flags: 0, offset_bytes, length_bytes });
        self.questions.insert(tag, Question { range, told: vec![] });
        true
    }

    /// Tells the server that a page has left RAM.
    pub(super) fn leave(&mut self, offset_bytes: u64, content: Option<&[u8]>) {
        let Some(talk) = &mut self.cooperation else { return };
        if let Some((command, length_bytes)) = talk.leave(offset_bytes, content) {
            let owner = Owner::Leaving { offset_bytes };
            self.waiting.push_back(Part { owner, command, flags: 0, offset_bytes, length_bytes });
        }
    }

    /// Tells the server of the cache, for the requests behind; or of the page that leaves next, if `flags` say so.
    pub(super) fn tell(&mut self, hint: Hint, flags: u16) {
        if self.cooperation.is_some() {
            let (owner, command) = (Owner::Told, Command::Tell);
            let (offset_bytes, length_bytes) = (hint.value, hint.hits);
            self.waiting.push_back(Part { owner, command, flags, offset_bytes, length_bytes });
        }
    }

    /// Return `true` if the server may send pages that nobody asked for.
    pub(super) fn takes_pushes(&self) -> bool {
        self.cooperation.as_ref().is_some_and(Talk::takes_pushes)
    }

    /// Takes a page that the server sends for one that left. Refuses it if the client sent something about this page since.
    pub(super) fn take_push(&mut self, page: Sent) {
        let Some(talk) = &mut self.cooperation else { return };
        let offset_bytes = page.offset_bytes;
        if talk.take_push(page) == Taken::Refused {
            let (owner, command) = (Owner::Leaving { offset_bytes }, Command::Release);
            let length_bytes = talk.page_bytes();
            self.waiting.push_back(Part { owner, command, flags: 0, offset_bytes, length_bytes });
        }
    }

    /// Asks which pages are to be given up, once those that were named have been.
    pub(super) fn ask_for_recalls(&mut self, now: Instant) {
        if self.cooperation.as_mut().is_some_and(|talk| talk.asks(now)) {
            let (owner, command) = (Owner::Recalls, Command::Await);
            let (flags, offset_bytes, length_bytes) = (0, 0, 0);
            self.waiting.push_back(Part { owner, command, flags, offset_bytes, length_bytes });
        }
    }

    /// Appends the bytes that a request sends.
    pub(super) fn gather(&mut self, part: &Part, target: &mut Vec<u8>) {
        if matches!(part.owner, Owner::Leaving { .. }) {
            let content = self.cooperation.as_mut().and_then(Talk::next_content);
            return target.extend(content.expect("a page is offered with its content"));
        }
        let (operation, start) = self.place(part, part.offset_bytes);
        let range = start..start + u64::from(part.length_bytes);
        // SAFETY: the operation is in flight, and the frames are those of its shard: nobody changes them.
        unsafe { operation.gather(&self.frames, range, target) };
    }

    /// Takes bytes that a request has brought.
    pub(super) fn scatter(&self, part: &Part, offset_bytes: u64, bytes: &[u8]) {
        let (operation, start) = self.place(part, offset_bytes);
        // SAFETY: the read is in flight, and the frames are those of its shard: they are the driver's.
        unsafe { operation.scatter(&self.frames, start, bytes) };
    }

    /// Scatter zeroes that were not sent, as `scatter` does for bytes.
    pub(super) fn scatter_zeroes(&self, part: &Part, offset_bytes: u64, length_bytes: u64) {
        let (operation, mut start) = self.place(part, offset_bytes);
        let end = start + length_bytes;
        while start < end {
            let length = (end - start).min(ZEROES.len() as u64);
            let zeroes = &ZEROES[..usize::try_from(length).expect("a page at most")];
            // SAFETY: the same as in `scatter`.
            unsafe { operation.scatter(&self.frames, start, zeroes) };
            start += length;
        }
    }

    /// Return the operation of a request that moves bytes, and where in it an offset lies.
    fn place(&self, part: &Part, offset_bytes: u64) -> (&Operation, u64) {
        let Owner::Operation(id) = part.owner else { unreachable!("nothing else has frames") };
        let flying = self.operations[id.0 as usize].as_ref().expect("its parts are in flight");
        (&flying.operation, offset_bytes - flying.operation.offset_bytes)
    }

    /// Take the extents that a server reports: pairs of length and status from the part's beginning
    /// on.
    pub(super) fn take_extents(&mut self, part: &Part, descriptors: &[u8]) {
        if let (Owner::Recalls, Some(talk)) = (part.owner, &mut self.cooperation) {
            return talk.take_recalls(descriptors);
        }
        if let (Owner::Operation(_), Some(talk)) = (part.owner, &mut self.cooperation) {
            let end_bytes = part.offset_bytes + u64::from(part.length_bytes);
            return talk.take_answers(&(part.offset_bytes..end_bytes), descriptors);
        }
        let Owner::Question(tag) = part.owner else { return };
        let Some(question) = self.questions.get_mut(&tag) else { return };
        let (mut offset, wanted) = (part.offset_bytes, question.range.clone());
        question.told.clear();
        for descriptor in descriptors.chunks_exact(8) {
            let number = |place: usize| {
                u32::from_be_bytes(descriptor[place..place + 4].try_into().expect("four bytes"))
            };
            let (end, status) = (offset + u64::from(number(0)), number(4));
            let length_bytes = end.min(wanted.end).saturating_sub(offset.max(wanted.start));
            if length_bytes > 0 {
                question.told.push(Allocation {
                    length_bytes,
                    is_hole: status & allocation::HOLE != 0,
                    is_zero: status & allocation::ZERO != 0,
                });
            }
            offset = end;
        }
    }

    /// Note that a request was answered.
    pub(super) fn part_done(&mut self, part: &Part, result: Result<(), ErrorCode>) {
        let id = match part.owner {
            Owner::Operation(id) => id,
            Owner::Question(tag) => return self.answer(tag),
            Owner::Leaving { offset_bytes } => {
                return self.talked(|talk| talk.has_left(offset_bytes));
            }
            Owner::Told => return,
            Owner::Recalls => return self.talked(|talk| talk.answered(result)),
        };
        if part.command == Command::Read && result.is_err() {
            // The server counts it as held.
            self.leave_all(part);
        }
        let is_volatile = part.command.is_write() && part.flags & command_flag::FUA == 0;
        self.has_unsynced |= is_volatile && result.is_ok();
        let place = &mut self.operations[id.0 as usize];
        let flying = place.as_mut().expect("its parts are in flight");
        flying.parts_left -= 1;
        if let Err(error) = result {
            flying.error.get_or_insert(DeviceError(kind(error)));
        }
        if flying.parts_left == 0 {
            let result = flying.error.map_or(Ok(()), Err);
            self.operations_left -= 1;
            self.done.extend(place.take().map(|flying| (flying.operation, result)));
        }
    }

    /// Abandon all requests to a server that has gone: they will never be answered.
    pub(super) fn abandon(&mut self) {
        self.forget_server();
        self.fail(|_| true);
    }

    /// Suspend requests to a server that has gone, and may be back soon: they are kept. Only a sync
    /// fails, since the server may have lost what that was for, and so does what missed a server
    /// for longer before.
    pub(super) fn suspend(&mut self, now: Instant, grace: Duration) {
        self.forget_server();
        let is_asked =
            |flying: &Flying| flying.operation.kind == OperationKind::Sync && flying.parts_left > 0;
        // A sync that fails now speaks for all changes so far, and the next one need not.
        self.is_doubtful &= !self.operations.iter().flatten().any(is_asked);
        self.fail(is_asked);
        for flying in self.operations.iter_mut().flatten() {
            flying.parts_left = 0;
            flying.error = None;
            flying.missed_at.get_or_insert(now);
        }
        self.expire(now, grace);
    }

    /// Fails what has missed a server for so long.
    pub(super) fn expire(&mut self, now: Instant, grace: Duration) {
        self.fail(|flying| {
            let missed_for = flying.missed_at.map(|at| now.duration_since(at));
            flying.parts_left == 0 && missed_for.is_some_and(|time| time >= grace)
        });
    }

    /// Send the requests that were kept, because a server is there again.
    pub(super) fn resume(&mut self, terms: &Terms) {
        let kept: Vec<Flying> = self.operations.iter_mut().filter_map(Option::take).collect();
        self.operations_left = 0;
        for Flying { operation, missed_at, .. } in kept {
            self.take(operation, Some(terms), missed_at);
        }
    }

    fn fail(&mut self, is_failed: impl Fn(&Flying) -> bool) {
        for place in &mut self.operations {
            if let Some(flying) = place.take_if(|flying| is_failed(flying)) {
                self.operations_left -= 1;
                self.done.push((flying.operation, Err(DeviceError(ErrorKind::ConnectionReset))));
            }
        }
    }

    fn talked(&mut self, said: impl FnOnce(&mut Talk)) {
        if let Some(talk) = &mut self.cooperation {
            said(talk);
        }
    }

    fn leave_all(&mut self, part: &Part) {
        let Some(page_bytes) = self.cooperation.as_ref().map(Talk::page_bytes) else { return };
        let end_bytes = part.offset_bytes + u64::from(part.length_bytes);
        for offset_bytes in (part.offset_bytes..end_bytes).step_by(page_bytes as usize) {
            self.leave(offset_bytes, None);
        }
    }

    fn forget_server(&mut self) {
        self.talked(Talk::forget_server);
        self.is_doubtful |= std::mem::take(&mut self.has_unsynced);
        self.waiting.clear();
        while let Some(&tag) = self.questions.keys().next() {
            self.answer(tag);
        }
    }

    /// Answers a question; what was not told counts as allocated.
    fn answer(&mut self, tag: u64) {
        let Some(Question { range, mut told }) = self.questions.remove(&tag) else { return };
        if told.is_empty() {
            let length_bytes = range.end - range.start;
            told.push(Allocation { length_bytes, is_hole: false, is_zero: false });
        }
        self.answers.push_back((tag, told));
    }
}

/// Return the length of the next request of an operation that has `bytes` left.
fn length(terms: &Terms, bytes: u64) -> u32 {
    u32::try_from(bytes).map_or(terms.maximum_bytes, |bytes| bytes.min(terms.maximum_bytes))
}

fn kind(error: ErrorCode) -> ErrorKind {
    match error {
        ErrorCode::NotPermitted => ErrorKind::PermissionDenied,
        ErrorCode::NoMemory => ErrorKind::OutOfMemory,
        ErrorCode::Invalid | ErrorCode::Overflow => ErrorKind::InvalidInput,
        ErrorCode::NoSpace => ErrorKind::StorageFull,
        ErrorCode::NotSupported => ErrorKind::Unsupported,
        ErrorCode::ShuttingDown => ErrorKind::ConnectionAborted,
        ErrorCode::Io => ErrorKind::Other,
    }
}
