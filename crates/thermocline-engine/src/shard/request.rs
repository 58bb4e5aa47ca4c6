//! Requests: taken whole or not at all, split into pages, answered when the last page is.

use std::ops::Range;
use std::sync::Arc;

use thermocline_core::{Nanos, Op, Tier};

use super::blank::{BlankParts, ZERO_BYTES_MAX};
use super::requests::Pending;
use super::{Cooperator, Event, Shard};
use crate::lent::{Lent, pieces};
use crate::memory::FrameId;
use crate::operation::{DeviceError, OperationKind};
use crate::options::{READ_FRAMES, RESERVED_FRAMES, WriteMode};
use crate::request::{Reply, Request, RequestError, RequestKind, Segment, Segments, SubmitError};

/// A request while its pages are being accessed.
#[derive(Debug)]
pub(super) struct Building {
    /// The number that it will have if it must wait.
    pub(super) key: usize,
    pub(super) segments: Segments,
    pub(super) waiting: u32,
    pub(super) found: Option<Tier>,
    pub(super) error: Option<RequestError>,
    /// The last version before those that it makes.
    pub(super) older: u64,
    pub(super) is_sequential: bool,
    /// The client that keeps the pages.
    pub(super) cooperator: Option<Cooperator>,
}

/// The part of a request that lies in one page.
#[derive(Clone, Debug)]
pub(super) struct Piece<'a> {
    pub(super) page: u64,
    /// Range of bytes of the page.
    pub(super) range: Range<usize>,
    pub(super) content: Content<'a>,
}

/// Content of a piece.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content<'a> {
    /// Its bytes are wanted.
    Read,
    /// The page is wanted in the cache.
    Prefetch,
    /// Its bytes are replaced by these.
    Write(&'a [u8]),
    /// Its bytes become zero.
    Zeroes,
    /// Its bytes are no longer needed: they may become zero, or stay.
    Trimmed,
}

impl Content<'_> {
    pub(super) const fn op(self) -> Op {
        match self {
            Self::Read | Self::Prefetch => Op::Read,
            Self::Write(_) | Self::Zeroes | Self::Trimmed => Op::Write,
        }
    }
}

impl Building {
    pub(super) fn found_in(&mut self, tier: Tier) {
        self.found = self.found.max(Some(tier));
    }

    pub(super) fn push(&mut self, frame: FrameId, range: &Range<usize>) {
        self.segments.push(segment(frame, range));
    }
}

impl Shard {
    /// Return the bytes of a read, piece by piece. No device writes them until the reply is
    /// released.
    ///
    /// # Panics
    /// If the reply is another shard's.
    pub fn pieces<'a>(&'a self, reply: &'a Reply) -> impl ExactSizeIterator<Item = &'a [u8]> {
        self.assert_own(reply);
        pieces(&reply.segments, self.pool.frames())
    }

    /// Lend a reply to another thread, which reads its bytes and sends it back to be released.
    ///
    /// # Panics
    /// If the reply is another shard's.
    pub fn lend(&self, reply: Reply) -> Lent {
        self.assert_own(&reply);
        Lent::new(reply, Arc::clone(self.pool.frames()))
    }

    /// Gives the frames of a reply back.
    ///
    /// # Panics
    /// If the reply is another shard's.
    pub fn release(&mut self, reply: Reply) {
        self.assert_own(&reply);
        for segment in reply.segments {
            self.pool.release(segment.frame);
        }
        self.is_stirred |=
            !self.queue.is_empty() || self.write_backs.is_busy() || self.is_filling_pins();
    }

    /// Frames are known by their position, which means another page in another shard.
    fn assert_own(&self, reply: &Reply) {
        assert_eq!(reply.allocation, self.pool.frames().number(), "the reply is this shard's");
    }

    /// Takes a request, or says why not. A write comes with its bytes; they are copied.
    ///
    /// # Errors
    /// [`SubmitError::Full`] if the request must be submitted again later; the others if it never
    /// can be served. In each case nothing happened.
    ///
    /// # Panics
    /// If the policy breaks its contract: an access is served once.
    pub fn submit(&mut self, request: Request, payload: &[u8]) -> Result<(), SubmitError> {
        self.take(request, payload, None)
    }

    /// Takes a request, of a client that keeps the pages if `cooperator` says which.
    pub(super) fn take(
        &mut self,
        request: Request,
        payload: &[u8],
        cooperator: Option<Cooperator>,
    ) -> Result<(), SubmitError> {
        self.check(&request, payload)?;
        if self.must_wait(request.kind) {
            return Err(SubmitError::Full);
        }
        if let Err(error) = self.held_back(request.kind) {
            self.announce(&request);
            self.reply(request, Err(error), None, Segments::new());
            return Ok(());
        }
        if request.kind == RequestKind::Flush {
            self.announce(&request);
            self.submit_flush(request);
            return Ok(());
        }
        let is_blank = matches!(request.kind, RequestKind::Trim | RequestKind::WriteZeroes);
        if is_blank {
            // It may fetch pages of the range, so it comes before they are counted.
            self.policy_background();
        }
        let page_bytes = u64::from(self.options.page_bytes);
        let end_bytes = request.offset_bytes + request.length_bytes;
        let pages = request.offset_bytes / page_bytes..end_bytes.div_ceil(page_bytes);
        let parts = is_blank.then(|| self.blank_parts(&(request.offset_bytes..end_bytes)));
        let touched_pages =
            parts.as_ref().map_or(pages.end - pages.start, |parts| parts.pages.len() as u64);
        // A write of a part of a page needs two: one for its bytes, one for the page that is fetched.
        let needed = 2 * touched_pages + u64::from(RESERVED_FRAMES);
        let is_write = !request.kind.only_reads();
        match self.obstacle(needed, &pages, is_write, is_blank) {
            None => {}
            // Requests that hold some frames and wait for others could wait for each other, so this one
            // gets none.
            Some(Ok(())) => return Err(SubmitError::Full),
            Some(Err(error)) => {
                self.announce(&request);
                self.reply(request, Err(error), None, Segments::new());
                return Ok(());
            }
        }
        self.announce(&request);
        if is_write && self.options.write_mode == WriteMode::ReadOnly {
            self.reply(request, Err(RequestError::ReadOnly), None, Segments::new());
            return Ok(());
        }
        if !is_blank {
            self.policy_background();
        }
        let stream_bytes = self.note_stream(&request);
        let is_sequential =
            self.options.sequential_bypass_bytes.is_some_and(|bytes| stream_bytes > bytes);
        let mut building = Building { is_sequential, cooperator, ..self.building() };
        let frames = usize::try_from(needed).expect("there are as many frames");
        self.requests.claim_frames(frames);
        if let Some(BlankParts { pages, gaps }) = parts {
            let is_trim = request.kind == RequestKind::Trim;
            let kind = if is_trim { OperationKind::Discard } else { OperationKind::Zero };
            // Ranges first: what the policy does with held pages may concern others.
            for gap in gaps {
                self.blank(gap, kind, &mut building);
            }
            for page in pages {
                self.access_page(&request, payload, page, &mut building);
            }
        } else {
            self.access_run(&request, payload, pages, &mut building);
        }
        self.requests.claim_frames(0);
        self.finish_building(request, building);
        Ok(())
    }

    /// Return what a request is before its first page is accessed.
    pub(super) fn building(&self) -> Building {
        Building {
            key: self.requests.next_key(),
            segments: Segments::new(),
            waiting: 0,
            found: None,
            error: None,
            older: self.version,
            is_sequential: false,
            cooperator: None,
        }
    }

    /// Return the reason why a request that needs that many frames is not taken now: it has to
    /// wait, or fails because what it would wait for fails.
    pub(super) fn obstacle(
        &mut self,
        needed_frames: u64,
        pages: &Range<u64>,
        is_write: bool,
        is_blank: bool,
    ) -> Option<Result<(), RequestError>> {
        // Writes may wait for the disk for long. Reads must find frames meanwhile.
        let left = if is_write { u64::from(READ_FRAMES) } else { 0 };
        let has_frames = self.pool.free_frames() as u64 >= needed_frames + left;
        if !has_frames && is_write && self.is_sync_resting() {
            // Frames come back when the backing store is synced, and that fails.
            return Some(Err(RequestError::Io));
        }
        let is_full = !has_frames || (is_write && self.is_overfull());
        let obstacle = if is_full { Some(Ok(())) } else { self.blank_obstacle(pages, is_blank) };
        if obstacle == Some(Ok(())) {
            self.is_stirred |= self.disk_syncs.is_busy();
        }
        obstacle
    }

    /// Accesses pages for a request that no client has made, and that nobody waits for.
    pub(super) fn access_unasked(&mut self, request: &Request, pages: Range<u64>) {
        self.announce(request);
        self.policy_background();
        let mut building = self.building();
        let frames = usize::try_from(2 * (pages.end - pages.start)).expect("a part of a request");
        self.requests.claim_frames(frames);
        self.access_run(request, &[], pages, &mut building);
        self.requests.claim_frames(0);
    }

    /// Serves the parts of a request in these pages, one after the other.
    fn access_run(
        &mut self,
        request: &Request,
        payload: &[u8],
        pages: Range<u64>,
        building: &mut Building,
    ) {
        let last = pages.end.saturating_sub(1);
        if pages.end - pages.start > 1 {
            self.look_ahead_first(pages.start, last);
        }
        for page in pages {
            self.look_ahead(page, last);
            self.access_page(request, payload, page, building);
        }
    }

    /// Serves the part of a request that lies in one page, for which frames are claimed.
    fn access_page(
        &mut self,
        request: &Request,
        payload: &[u8],
        page: u64,
        building: &mut Building,
    ) {
        let page_bytes = u64::from(self.options.page_bytes);
        let end_bytes = request.offset_bytes + request.length_bytes;
        let start = request.offset_bytes.max(page * page_bytes);
        let end = end_bytes.min((page + 1) * page_bytes);
        let piece = piece(request, payload, page, page_bytes, start..end);
        self.access_piece(&piece, building);
        self.requests.unclaim_frames(2);
    }

    /// Return the length of the first part of a request that one request may cover now, in bytes. A
    /// trim or a zeroing may have any length where no tier holds pages: only pages that a tier
    /// holds, and pages that it covers in part, count towards
    /// [`request_bytes_max`](crate::Options::request_bytes_max).
    pub fn part_bytes(&self, request: &Request) -> u64 {
        let Request { kind, offset_bytes, length_bytes, .. } = *request;
        let bytes_max = self.options.request_bytes_max;
        let longest = match kind {
            RequestKind::Trim => length_bytes,
            RequestKind::WriteZeroes => length_bytes.min(ZERO_BYTES_MAX.max(bytes_max)),
            RequestKind::Read | RequestKind::Write | RequestKind::Cache | RequestKind::Flush => {
                return length_bytes.min(bytes_max);
            }
        };
        let end_bytes = offset_bytes.saturating_add(longest).min(self.options.size_bytes());
        if longest <= bytes_max || end_bytes <= offset_bytes {
            return longest;
        }
        let page_bytes = u64::from(self.options.page_bytes);
        let whole = offset_bytes.div_ceil(page_bytes)..end_bytes / page_bytes;
        // Two for the edges.
        let pages_max = (bytes_max / page_bytes).saturating_sub(2);
        let pages_max = usize::try_from(pages_max).unwrap_or(usize::MAX);
        let first_beyond = self.held_pages(whole).nth(pages_max);
        let end_bytes = first_beyond.map_or(end_bytes, |page| page * page_bytes);
        end_bytes.saturating_sub(offset_bytes).max(longest.min(bytes_max))
    }

    /// Reply to a request that has nothing to wait for.
    pub(super) fn reply(
        &mut self,
        request: Request,
        result: Result<(), RequestError>,
        found: Option<Tier>,
        segments: Segments,
    ) {
        let (tag, kind) = (request.tag, request.kind);
        // The flash may have failed since the request was taken, so the hold is looked at again.
        let result = result.and_then(|()| self.held_back(kind));
        let allocation = self.pool.frames().number();
        let mut reply = Reply { tag, kind, result, found, segments, allocation };
        if result.is_err() {
            for segment in reply.segments.drain(..).filter(|segment| segment.length_bytes > 0) {
                self.pool.release(segment.frame);
            }
        }
        // A write's answer has no segments, so it holds no frame while it waits.
        if reply.result.is_ok() && self.must_wait(kind) {
            self.requests.hold_reply(request, reply);
        } else {
            self.requests.push_reply(reply);
        }
    }

    /// Return the length of the run of bytes that ends with this request, of those that the
    /// shard serves.
    fn note_stream(&mut self, request: &Request) -> u64 {
        let (_, position) = self.options.share.map.place(request.offset_bytes);
        self.streams.note(position, request.length_bytes)
    }

    /// Insert a request that waits for a flush.
    pub(super) fn insert_waiting(&mut self, request: Request) -> usize {
        self.requests.insert(Pending {
            request,
            since: self.now,
            segments: Segments::new(),
            waiting: 1,
            found: None,
            error: None,
            older: 0,
            version: 0,
        })
    }

    /// Add pages to the number that the request waits for.
    pub(super) fn add_waiting(&mut self, key: usize, pages: u32) {
        self.requests.wait_for(key, pages);
    }

    /// Count one page of the request as done.
    pub(super) fn page_done(&mut self, key: usize, result: Result<(), RequestError>) {
        if self.requests.page_done(key, result) {
            self.pages_done(key);
        }
    }

    /// Fills in the bytes of a page that a read waited for; the frame has a user for it.
    pub(super) fn read_done(&mut self, key: usize, index: usize, frame: FrameId) {
        self.requests.fill(key, index, frame);
        self.page_done(key, Ok(()));
    }

    /// Fail a read, because the bytes of a page cannot be had.
    pub(super) fn read_failed(&mut self, key: usize, index: usize, error: RequestError) {
        self.requests.give_up(key, index);
        self.page_done(key, Err(error));
    }

    /// Note that the newest version that the request made is at least this one.
    pub(super) fn note_version(&mut self, key: usize, version: u64) {
        self.requests.note_version(key, version);
    }

    /// Handle the end of a durable write's or a flush's wait: its pages are durable, or cannot be
    /// made so.
    pub(super) fn page_done_durably(&mut self, key: usize, result: Result<(), RequestError>) {
        if let Err(error) = result {
            self.requests.fail(key, error);
        }
        self.answer(key);
    }

    /// Return the time at which the first of the waiting requests is overdue.
    pub(super) fn first_deadline(&self) -> Option<Nanos> {
        let since = self.requests.first_since()?;
        Some(Nanos(since.0.saturating_add(self.options.backing_timeout.0)))
    }

    /// Fail the request now; it must be in no list of those that wait. Bytes that a read waits for
    /// have no frame.
    pub(super) fn end(&mut self, key: usize, error: RequestError) {
        self.requests.end(key, error);
        self.answer(key);
    }

    /// Answer the request.
    fn answer(&mut self, key: usize) {
        let pending = self.requests.remove(key);
        let result = pending.error.map_or(Ok(()), Err);
        self.reply(pending.request, result, pending.found, pending.segments);
    }

    pub(super) fn finish_building(&mut self, request: Request, building: Building) {
        let Building { key, segments, waiting, found, error, older, .. } = building;
        let is_waiting = waiting > 0 || (request.is_durable && error.is_none());
        if !is_waiting {
            let result = error.map_or(Ok(()), Err);
            self.reply(request, result, found, segments);
            return;
        }
        let (since, version) = (self.now, self.version);
        let pending = Pending { request, since, segments, waiting, found, error, older, version };
        let given = self.requests.insert(pending);
        debug_assert_eq!(given, key, "nothing else was inserted since");
        if waiting == 0 {
            self.pages_done(key);
        }
    }

    /// Note that all pages of a request are served; a durable write now waits for a commit.
    fn pages_done(&mut self, key: usize) {
        if let Some((request, version)) = self.requests.durable_write(key) {
            let page_bytes = u64::from(self.options.page_bytes);
            let end_bytes = request.offset_bytes + request.length_bytes;
            let pages = request.offset_bytes / page_bytes..end_bytes.div_ceil(page_bytes);
            self.wait_until_durable(key, pages, version);
        } else {
            self.answer(key);
        }
    }

    /// Tell the observers that a request was taken.
    fn announce(&mut self, request: &Request) {
        let now = self.now;
        self.cleaner.asked(now);
        if let Some(observer) = &mut self.observer {
            observer(&Event::Request { now, request });
        }
    }

    fn check(&self, request: &Request, payload: &[u8]) -> Result<(), SubmitError> {
        let size_bytes = self.options.size_bytes();
        let end = request.offset_bytes.checked_add(request.length_bytes);
        if end.is_none_or(|end| end > size_bytes) {
            return Err(SubmitError::OutOfRange { size_bytes });
        }
        let max_bytes = self.part_bytes(request);
        if request.length_bytes > max_bytes {
            return Err(SubmitError::TooLong { max_bytes });
        }
        let is_write = request.kind == RequestKind::Write;
        let wanted_bytes = if is_write { request.length_bytes } else { 0 };
        let given_bytes = payload.len() as u64;
        if given_bytes != wanted_bytes {
            return Err(SubmitError::WrongPayload { given_bytes, wanted_bytes });
        }
        let is_read = request.kind.only_reads();
        // Rule 11: before the epoch a write could neither be made durable nor go to the disk.
        if self.awaits_epoch && !is_read { Err(SubmitError::Full) } else { Ok(()) }
    }
}

/// Return the part of a request within one page.
fn piece<'a>(
    request: &Request,
    payload: &'a [u8],
    page: u64,
    page_bytes: u64,
    bytes: Range<u64>,
) -> Piece<'a> {
    let index = |bytes: u64| usize::try_from(bytes).expect("requests and pages fit memory");
    let first = page * page_bytes;
    let given = index(bytes.start - request.offset_bytes)..index(bytes.end - request.offset_bytes);
    let content = match request.kind {
        RequestKind::Read => Content::Read,
        RequestKind::Write => Content::Write(&payload[given]),
        RequestKind::WriteZeroes => Content::Zeroes,
        RequestKind::Trim => Content::Trimmed,
        RequestKind::Cache | RequestKind::Flush => Content::Prefetch,
    };
    Piece { page, range: index(bytes.start - first)..index(bytes.end - first), content }
}

fn segment(frame: FrameId, range: &Range<usize>) -> Segment {
    let bytes = |bytes: usize| u32::try_from(bytes).expect("pages are at most 1 MiB");
    Segment { frame, offset_bytes: bytes(range.start), length_bytes: bytes(range.len()) }
}

impl From<DeviceError> for RequestError {
    fn from(_: DeviceError) -> Self {
        Self::Io
    }
}
