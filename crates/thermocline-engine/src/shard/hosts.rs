//! An engine behind another one, over a network: what clients give up, what leaves for the server, and
//! what another client makes old.
//!
//! The server's engine is given pages that a client had, with their content. Whoever hands one over
//! vouches for it: no write of anybody else has reached the engine since the client got it.
//!
//! The client's engine keeps the content of a page that leaves RAM until the driver has been told. A page
//! that another client writes is outdated: its content is not used again, unless a write of this
//! client comes after the other one.

use thermocline_core::policy::News;
use thermocline_core::policy::multi::split::{Answer, Held, Hint, Message, Push};
use thermocline_core::{Access, Action, Op, Tier};

use super::Shard;
use super::disk_syncs::Written;
use crate::entry::{Entry, EntryId};
use crate::options::Leaving;
use crate::request::{Request, RequestError, SubmitError};

/// A client that keeps what it reads and writes, and says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cooperator {
    /// The number by which the policy knows it.
    pub client: u8,
    /// `true` if it held what it writes.
    pub held: Held,
}

/// A clean page that a client gives up.
#[derive(Clone, Copy, Debug)]
pub struct Demoted<'a> {
    /// The client.
    pub client: u8,
    /// The page.
    pub page: u64,
    /// The number that the client told before, if there is one.
    pub carried: Option<u64>,
    /// The content: that of the newest version, or what this client has written itself.
    pub content: &'a [u8],
}

/// A page that goes to a client because of one that the client gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The page.
    pub page: u64,
    /// Number for the client's policy.
    pub number: u64,
}

impl Cooperator {
    /// Return the message of an access for the policy.
    pub(super) const fn says(self, access: Access) -> News {
        let Access { page, op, .. } = access;
        let message = match op {
            Op::Read => Message::Read { page },
            Op::Write => Message::Write { page, held: self.held },
        };
        News::Message { client: self.client, message }
    }
}

impl Shard {
    /// Takes a read or a write of a client that keeps the pages from now on; see
    /// [`submit`](Self::submit).
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    ///
    /// # Panics
    /// As [`submit`](Self::submit).
    pub fn submit_of(
        &mut self,
        cooperator: Cooperator,
        request: Request,
        payload: &[u8],
    ) -> Result<(), SubmitError> {
        self.take(request, payload, Some(cooperator))
    }

    /// Takes a clean page that a client gives up: RAM gets it, if the policy wants it there, and otherwise
    /// nobody. Returns the page, if there is one, that the policy sends to the client for it: there will be the
    /// reply to a read of it, with this tag.
    ///
    /// # Panics
    /// If the content does not have the length of a page, or the page does not exist.
    pub fn take_demoted(&mut self, demoted: Demoted<'_>, tag: u64) -> Option<Pushed> {
        let Demoted { client, page, carried, content } = demoted;
        assert_eq!(content.len(), self.options.page_bytes as usize, "a whole page is given up");
        assert!(page < self.options.backing_pages, "the page exists");
        self.actions.clear();
        let id = self.places.enter(page, &self.slots, &self.entries);
        let message = Message::Demote { page: id, carried };
        self.policy.hear(News::Message { client, message }, &mut self.actions);
        let is_wanted = self.actions.as_slice().iter().any(|action| {
            matches!(action, Action::Copy { page, target, .. } if *page == id && *target != Tier::DISK)
        });
        if is_wanted {
            self.counters.demotions_taken += u64::from(self.put_content(page, content));
        } else {
            self.counters.demotions_refused += 1;
        }
        // Flash may lack what the policy believes there, and what is pinned stays.
        let pushed = self.policy.take_push().and_then(|Push { page, number }| {
            let page = self.page_of(page).filter(|&page| !self.is_pinned(page))?;
            Some(Pushed { page, number })
        });
        let is_sent = self.perform_and_send(pushed.map(|pushed| (pushed.page, tag)));
        self.counters.pushes += u64::from(is_sent);
        pushed.filter(|_| is_sent)
    }

    /// Takes a page that the server sends because of one that left RAM. Returns `true` if RAM has it now, or has
    /// given it up already; `false` if it is not wanted, because a request for it is under way or there is no
    /// room.
    pub(crate) fn take_pushed(&mut self, pushed: Pushed, content: &[u8]) -> bool {
        let Pushed { page, number } = pushed;
        if content.len() != self.options.page_bytes as usize || page >= self.options.backing_pages {
            return false;
        }
        let is_busy = |entry: &Entry| {
            entry.in_ram
                || entry.is_leaving
                || entry.frame.is_some()
                || entry.fetch.is_some()
                || entry.disk_write.is_some()
        };
        if self.entry(page).is_some_and(|id| is_busy(&self.entries[id]))
            || self.is_pinned(page)
            || !self.put_content(page, content)
        {
            return false;
        }
        self.actions.clear();
        let id = self.places.enter(page, &self.slots, &self.entries);
        let push = Push { page: id, number };
        self.policy.hear(News::Pushed { push }, &mut self.actions);
        self.counters.pushes_taken += 1;
        self.perform_actions();
        self.settle_page(page);
        true
    }

    /// Forgets which pages a client holds.
    pub fn forget_client(&mut self, client: u8) {
        self.actions.clear();
        self.policy.hear(News::Left { client }, &mut self.actions);
        self.perform_actions();
    }

    /// Take a client's report about its cache.
    pub fn take_hint_of(&mut self, client: u8, hint: Hint) {
        self.actions.clear();
        let message = Message::Tell(hint);
        self.policy.hear(News::Message { client, message }, &mut self.actions);
        self.perform_actions();
    }

    /// Return the policy's answers to the clients whose reads or writes were taken since the last call, one
    /// for each page, if the clients wait for answers.
    pub fn take_answers(&mut self) -> Vec<Answer> {
        self.policy.take_answers()
    }

    /// Return the message for the server with the next operation.
    pub(crate) fn take_hint(&mut self) -> Option<Hint> {
        if self.others_write() { self.policy.take_hint() } else { None }
    }

    /// Takes the server's answer about a page that is read or written. It comes before the operation is
    /// complete, so that RAM keeps the bytes if the page stays.
    pub(crate) fn take_answer(&mut self, page: u64, answer: Answer) {
        self.actions.clear();
        let id = self.places.enter(page, &self.slots, &self.entries);
        self.policy.hear(News::Answered { page: id, answer }, &mut self.actions);
        self.perform_actions();
    }

    /// Gives up a page that another client writes.
    pub fn give_up(&mut self, page: u64) {
        self.actions.clear();
        let id = self.places.enter(page, &self.slots, &self.entries);
        self.policy.hear(News::Outdated { page: id }, &mut self.actions);
        self.counters.pages_outdated += u64::from(!self.actions.as_slice().is_empty());
        if let Some(id) = self.entry(page) {
            self.outdate(id);
        }
        self.perform_actions();
        self.settle_page(page);
    }

    /// Gives up all pages: others may have written any of them.
    pub fn give_up_all(&mut self) {
        let places = self.places.iter();
        let pages: Vec<u64> = places.map(|place| place.page(&self.slots, &self.entries)).collect();
        for page in pages {
            self.give_up(page);
        }
    }

    /// Hand over the next page that has left RAM: its offset on the backing store, and its content if
    /// that is [wanted](crate::Options::leaving), and the message of the policy that goes before it. Returns
    /// whether there was one.
    pub fn next_leaving(&mut self, tell: impl FnOnce(Option<Hint>, u64, Option<&[u8]>)) -> bool {
        while let Some(page) = self.leaving.pop_front() {
            let offset_bytes = page * u64::from(self.options.page_bytes);
            let Some(id) = self.entry(page) else {
                // Its content was older than the backing store's.
                tell(None, offset_bytes, None);
                return true;
            };
            self.entries[id].is_leaving = false;
            let entry = &self.entries[id];
            // It came back, or was written, before anybody was told: the frame is needed.
            if entry.in_ram || entry.disk_synced != entry.newest || entry.disk_write.is_some() {
                self.settle(id);
                continue;
            }
            let Some(frame) = self.entries[id].frame.take() else { continue };
            let is_offered =
                self.options.leaving == Leaving::Offered && self.entries[id].is_offered;
            let page_id = self.places.enter(page, &self.slots, &self.entries);
            let hint = self.policy.take_hint_with(page_id).filter(|_| is_offered);
            tell(hint, offset_bytes, is_offered.then(|| self.pool.bytes(frame)));
            self.counters.demotions += u64::from(is_offered);
            self.pool.release(frame);
            self.compact(id);
            self.is_stirred = true;
            return true;
        }
        false
    }

    /// Return `true` if the frame of a page that nobody wants stays until the backing store has been told.
    pub(super) fn is_told_first(&mut self, id: EntryId) -> bool {
        let entry = &mut self.entries[id];
        if self.options.leaving == Leaving::Silent || entry.frame.is_none() {
            return false;
        }
        if !entry.is_leaving {
            entry.is_leaving = true;
            self.leaving.push_back(entry.page);
        }
        true
    }

    /// Note that a version of the page is on the backing store, and that another client may have written the
    /// page since.
    pub(super) fn note_outdated(&mut self, id: EntryId, version: u64) {
        if std::mem::take(&mut self.entries[id].is_outdated) && self.entries[id].newest == version {
            self.forget_content(id);
        }
    }

    /// Sees to it that no content is used that is older than a write of another client.
    fn outdate(&mut self, id: EntryId) {
        let entry = &mut self.entries[id];
        if let Some(fetch) = entry.fetch {
            self.fetches[fetch.0 as usize].is_outdated = true;
        } else if entry.disk_write.is_some() {
            // The other write may come before this one, or after it.
            entry.is_outdated = true;
        } else if entry.disk_written == entry.newest {
            self.forget_content(id);
        }
        // Writes to come follow the other host's write.
    }

    /// Return `true` if other clients write to the backing store as well.
    pub(super) fn others_write(&self) -> bool {
        self.options.leaving != Leaving::Silent
    }

    /// Record that these versions may be gone from the backing store and are not written again: requests that
    /// would say that they are durable fail. If no flush among those covers all of them, the next flush
    /// fails.
    pub(super) fn lose(&mut self, lost: &[Written]) {
        let Some(newest) = lost.iter().map(|&(_, version)| version).max() else { return };
        let page_bytes = u64::from(self.options.page_bytes);
        let writes = self.requests.fail_writes(page_bytes, lost, RequestError::Io);
        let oldest = lost.iter().map(|&(_, version)| version).min().unwrap_or(newest);
        let mut has_failed_flush = false;
        for waiter in self.waiters.take_lost(oldest, &writes) {
            has_failed_flush |= waiter.pages().is_none() && waiter.version() >= newest;
            self.page_done_durably(waiter.request(), Err(RequestError::Io));
        }
        if !has_failed_flush {
            self.disk_syncs.owe_loss();
        }
    }

    /// Give up the newest version after its write failed. It is not tried again, because another client may
    /// write the page meanwhile. A version before it that was answered may be gone as well.
    pub(super) fn abandon_write(&mut self, id: EntryId, version: u64) {
        let Entry { page, undurable, .. } = self.entries[id];
        if undurable != 0 && undurable < version {
            self.lose(&[(page, undurable)]);
        }
        self.entries[id].wants.log = false;
        self.forget_content(id);
        self.give_up(page);
    }

    /// Forget the page's bytes in RAM, because the backing store has newer ones. Versions that were written
    /// and not synced stay in the list of unsynced versions: if the next sync fails, they are lost.
    fn forget_content(&mut self, id: EntryId) {
        // A number of its own: no slot, and no write under way, has these bytes as the newest any more.
        let version = self.next_version();
        let entry = &mut self.entries[id];
        let frame = entry.frame.take();
        entry.newest = version;
        entry.disk_started = version;
        entry.disk_written = version;
        entry.disk_synced = version;
        if !std::mem::replace(&mut entry.is_leaving, true) {
            self.leaving.push_back(entry.page);
        }
        self.entries.set_undurable(id, 0);
        if let Some(frame) = frame {
            self.pool.release(frame);
        }
    }

    /// Puts the content of the newest version into RAM, if that lacks it and has room. Returns whether it did.
    fn put_content(&mut self, page: u64, content: &[u8]) -> bool {
        let id = self.ensure_entry(page);
        let entry = &self.entries[id];
        let is_lacking = entry.frame.is_none()
            && entry.fetch.is_none()
            && !entry.is_lost
            && entry.disk_written == entry.newest;
        if !is_lacking || !self.has_spare_frame() {
            return false;
        }
        let Some(frame) = self.pool.take() else { return false };
        self.pool.bytes_mut(frame).copy_from_slice(content);
        self.entries[id].frame = Some(frame);
        true
    }
}
