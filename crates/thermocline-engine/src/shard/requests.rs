//! The requests that are not answered yet, and the replies that the caller has not taken yet.
//!
//! This is the state alone. It knows how many pages each request waits for and since when; the shard
//! decides what happens when a request waits for nothing any more.

use std::collections::{BTreeSet, VecDeque};

use slab::Slab;
use thermocline_core::{Nanos, Tier};

use super::disk_syncs::Written;
use crate::memory::FrameId;
use crate::request::{Reply, Request, RequestError, Segments};

/// Number of times per timeout that overdue requests are looked for.
const LOOKS_PER_TIMEOUT: u64 = 16;
/// The longest time between two looks, in nanoseconds.
const LOOK_INTERVAL_MAX: u64 = 250_000_000;

/// The frame of a segment whose bytes have not arrived.
pub(super) const NO_FRAME: FrameId = FrameId(u32::MAX);

/// A request that waits.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) request: Request,
    /// Time at which the shard took it.
    pub(super) since: Nanos,
    pub(super) segments: Segments,
    /// Number of pages that it waits for. A durable write then waits for a commit as well.
    pub(super) waiting: u32,
    pub(super) found: Option<Tier>,
    pub(super) error: Option<RequestError>,
    /// The last version before those that it made, and the newest of these.
    pub(super) older: u64,
    pub(super) version: u64,
}

/// The requests of a shard.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pending: Slab<Pending>,
    replies: VecDeque<Reply>,
    /// Those that wait until it is known whether they may be given.
    held_replies: Vec<(Request, Reply)>,
    /// Frames that the request being taken may still need.
    claimed_frames: usize,
    /// The last time that overdue requests were looked for.
    looked_for_overdue: Nanos,
}

impl Requests {
    /// Return the key of the request that is inserted next.
    pub(super) fn next_key(&self) -> usize {
        self.pending.vacant_key()
    }

    pub(super) fn insert(&mut self, pending: Pending) -> usize {
        self.pending.insert(pending)
    }

    /// Remove a request, which is about to be answered.
    pub(super) fn remove(&mut self, key: usize) -> Pending {
        self.pending.remove(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Make the request wait for more pages.
    pub(super) fn wait_for(&mut self, key: usize, pages: u32) {
        self.pending[key].waiting += pages;
    }

    /// Note that one page is done; returns whether the request waits for no further page.
    pub(super) fn page_done(&mut self, key: usize, result: Result<(), RequestError>) -> bool {
        if let Err(error) = result {
            self.fail(key, error);
        }
        let pending = &mut self.pending[key];
        pending.waiting -= 1;
        pending.waiting == 0
    }

    /// Note why the request fails; the first reason counts.
    pub(super) fn fail(&mut self, key: usize, error: RequestError) {
        self.pending[key].error.get_or_insert(error);
    }

    /// Note an error for the writes that made one of these versions, and return the keys of these writes.
    pub(super) fn fail_writes(
        &mut self,
        page_bytes: u64,
        lost: &[Written],
        error: RequestError,
    ) -> BTreeSet<usize> {
        let mut failed = BTreeSet::new();
        for (key, pending) in &mut self.pending {
            let Pending { request, older, version, .. } = *pending;
            let end_bytes = request.offset_bytes + request.length_bytes;
            let pages = request.offset_bytes / page_bytes..end_bytes.div_ceil(page_bytes);
            let made = |(page, lost): &Written| {
                pages.contains(page) && (older + 1..=version).contains(lost)
            };
            if request.kind.is_write() && lost.iter().any(made) {
                pending.error.get_or_insert(error);
                failed.insert(key);
            }
        }
        failed
    }

    /// Give a segment the frame that its bytes arrived in.
    pub(super) fn fill(&mut self, key: usize, segment: usize, frame: FrameId) {
        self.pending[key].segments[segment].frame = frame;
    }

    /// Give up the bytes of a segment, which has no frame.
    pub(super) fn give_up(&mut self, key: usize, segment: usize) {
        self.pending[key].segments[segment].length_bytes = 0;
    }

    /// End a request before its pages are done: it fails, and its missing bytes are given up.
    pub(super) fn end(&mut self, key: usize, error: RequestError) {
        let pending = &mut self.pending[key];
        pending.error = Some(error);
        for segment in pending.segments.iter_mut().filter(|it| it.frame == NO_FRAME) {
            segment.length_bytes = 0;
        }
    }

    /// Note a version that the request made.
    pub(super) fn note_version(&mut self, key: usize, version: u64) {
        let pending = &mut self.pending[key];
        pending.version = pending.version.max(version);
    }

    /// Return the request and its newest version, if it is a write that must be durable and has not
    /// failed.
    pub(super) fn durable_write(&self, key: usize) -> Option<(&Request, u64)> {
        let Pending { request, error, version, .. } = &self.pending[key];
        let must_wait = request.is_durable && !request.kind.only_reads() && error.is_none();
        must_wait.then_some((request, *version))
    }

    /// Return the time at which the shard took the request that waits longest.
    pub(super) fn first_since(&self) -> Option<Nanos> {
        self.pending.iter().map(|(_, pending)| pending.since).min()
    }

    /// Return the requests that have waited for at least `timeout`. It looks rarely enough to cost
    /// nothing, so it may return none a little while longer.
    pub(super) fn look_for_overdue(&mut self, now: Nanos, timeout: Nanos) -> BTreeSet<usize> {
        let interval = (timeout.0 / LOOKS_PER_TIMEOUT).min(LOOK_INTERVAL_MAX);
        if self.pending.is_empty() || now.0 < self.looked_for_overdue.0 + interval {
            return BTreeSet::new();
        }
        self.looked_for_overdue = now;
        let is_overdue = |pending: &Pending| now.0.saturating_sub(pending.since.0) >= timeout.0;
        let overdue = self.pending.iter().filter(|(_, pending)| is_overdue(pending));
        overdue.map(|(key, _)| key).collect()
    }

    /// Reserve frames for the request being taken; background work leaves them alone.
    pub(super) fn claim_frames(&mut self, frames: usize) {
        self.claimed_frames = frames;
    }

    /// Give back a part of the reservation.
    pub(super) fn unclaim_frames(&mut self, frames: usize) {
        self.claimed_frames -= frames;
    }

    pub(super) const fn claimed_frames(&self) -> usize {
        self.claimed_frames
    }

    pub(super) fn push_reply(&mut self, reply: Reply) {
        self.replies.push_back(reply);
    }

    /// Keep an answer back.
    pub(super) fn hold_reply(&mut self, request: Request, reply: Reply) {
        self.held_replies.push((request, reply));
    }

    /// Return `true` if answers were kept back.
    pub(super) const fn has_held_replies(&self) -> bool {
        !self.held_replies.is_empty()
    }

    /// Take the answers that were kept back, in their order.
    pub(super) fn take_held_replies(&mut self) -> Vec<(Request, Reply)> {
        std::mem::take(&mut self.held_replies)
    }

    pub(super) fn next_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }
}
