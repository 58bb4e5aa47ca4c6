//! The conversation of a cache with a server that cooperates.
//!
//! All of it goes through one connection, in order: the server decides by what it was told before.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::time::Instant;

use thermocline_core::policy::multi::split::Answer;
use thermocline_engine::driver::Recall;

use crate::cached::leases::CLIENT_LIMIT;
use crate::protocol::{Command, ErrorCode, command_flag};

/// Introduction of a cache to a server that cooperates with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cooperation {
    /// A number that tells it from the server's other clients, and stays the same while it runs.
    pub identity: u32,
    /// The pages that its RAM holds.
    pub pages: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
}

/// The conversation of a cache with its server.
#[derive(Debug)]
pub(super) struct Talk {
    page_bytes: u32,
    /// Pages that the server counts as held here.
    known: HashSet<u64>,
    /// The contents of pages that are offered and not sent.
    contents: VecDeque<Vec<u8>>,
    /// Number of messages about pages that left, which the server has not confirmed.
    leaving: usize,
    /// When the question was sent that is not answered.
    asked_at: Option<Instant>,
    /// When the last question was sent that was answered.
    answered_of: Instant,
    recalls: VecDeque<Recall>,
    /// Answers about pages that are read or written, by where these begin.
    answers: VecDeque<(u64, Answer)>,
    /// `true` if the server counts on this cache no more.
    is_refused: bool,
}

impl Talk {
    /// Begins with a server to which the cache was attached no earlier than `attached_at`.
    pub(super) fn new(cooperation: Cooperation, attached_at: Instant) -> Self {
        Self {
            page_bytes: cooperation.page_bytes,
            known: HashSet::new(),
            contents: VecDeque::new(),
            leaving: 0,
            asked_at: None,
            answered_of: attached_at,
            recalls: VecDeque::new(),
            answers: VecDeque::new(),
            is_refused: false,
        }
    }

    /// Takes over what is yet to be given up of an earlier conversation.
    pub(super) fn follow(&mut self, former: Self) {
        self.recalls = former.recalls;
    }

    pub(super) const fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Cuts a request where the server counts pages as held, or no longer, if it is a write. Returns its
    /// length and its flags; its pages count as held from now on.
    pub(super) fn cut(
        &mut self,
        command: Command,
        flags: u16,
        offset_bytes: u64,
        length_bytes: u32,
    ) -> (u32, u16) {
        let end_bytes = offset_bytes + u64::from(length_bytes);
        let pages = (offset_bytes..end_bytes).step_by(self.page_bytes as usize);
        match command {
            Command::Read => {
                self.known.extend(pages);
                (length_bytes, flags)
            }
            Command::Write => {
                let is_held = self.known.contains(&offset_bytes);
                let run = pages.take_while(|page| self.known.contains(page) == is_held);
                let run: Vec<u64> = run.collect();
                let run_bytes = u32::try_from(run.len()).expect("part of a request");
                self.known.extend(run);
                let held = if is_held { command_flag::HELD } else { 0 };
                (length_bytes.min(run_bytes * self.page_bytes), flags | held)
            }
            Command::Flush
            | Command::Disconnect
            | Command::Trim
            | Command::Cache
            | Command::WriteZeroes
            | Command::BlockStatus
            | Command::Attach
            | Command::Await
            | Command::Demote
            | Command::Release
            | Command::Tell => (length_bytes, flags),
        }
    }

    /// Return the message about a page that leaves, if the server counts the page as held.
    pub(super) fn leave(
        &mut self,
        offset_bytes: u64,
        content: Option<&[u8]>,
    ) -> Option<(Command, u32)> {
        if !self.known.remove(&offset_bytes) {
            return None;
        }
        self.leaving += 1;
        let Some(content) = content else { return Some((Command::Release, self.page_bytes)) };
        self.contents.push_back(content.to_vec());
        Some((Command::Demote, self.page_bytes))
    }

    /// Return the content of the next page that is offered, in the order of the requests.
    pub(super) fn next_content(&mut self) -> Option<Vec<u8>> {
        self.contents.pop_front()
    }

    /// Note that the server knows that a page has left.
    pub(super) const fn has_left(&mut self) {
        self.leaving -= 1;
    }

    /// Return `true` if the server has heard of every page that left.
    pub(super) const fn is_settled(&self) -> bool {
        self.leaving == 0
    }

    /// Return `true` if it is time to ask which pages are to be given up: those that were named have
    /// been, and no question is under way.
    pub(super) fn asks(&mut self, now: Instant) -> bool {
        let asks = self.asked_at.is_none() && self.recalls.is_empty() && !self.is_refused;
        if asks {
            self.asked_at = Some(now);
        }
        asks
    }

    /// Takes what the server answers: where the pages begin, 64 bits each.
    pub(super) fn take_recalls(&mut self, bytes: &[u8]) {
        let places = bytes.as_chunks().0;
        self.recalls.extend(places.iter().map(|&place| Recall::Page(u64::from_be_bytes(place))));
    }

    /// Take the server's answers about the pages of a read or a write: where the first one begins, and a
    /// number for each; those outside the request do not count.
    pub(super) fn take_answers(&mut self, request: &Range<u64>, bytes: &[u8]) {
        let mut numbers = bytes.as_chunks().0.iter().map(|&number| u64::from_be_bytes(number));
        let Some(first_bytes) = numbers.next().filter(|first| request.start <= *first) else {
            return;
        };
        let pages = (first_bytes..request.end).step_by(self.page_bytes as usize);
        self.answers.extend(pages.zip(numbers.map(Answer::from_wire)));
    }

    /// Return the next answer about a page.
    pub(super) fn next_answer(&mut self) -> Option<(u64, Answer)> {
        self.answers.pop_front()
    }

    /// Note that the answer is complete.
    pub(super) fn answered(&mut self, result: Result<(), ErrorCode>) {
        let asked_at = self.asked_at.take();
        match result {
            Ok(()) => self.answered_of = asked_at.unwrap_or(self.answered_of),
            Err(_) => self.is_refused = true,
        }
    }

    /// Return `true` if the server counts on this cache no more.
    pub(super) const fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Return the next page to be given up.
    pub(super) fn next_recall(&mut self) -> Option<Recall> {
        self.recalls.pop_front()
    }

    /// Return `true` if the server waits until this cache has given up what others write.
    pub(super) fn is_counted_on(&self) -> bool {
        !self.is_refused && self.answered_of.elapsed() < CLIENT_LIMIT
    }

    /// Forget a server that is gone. It no longer counts on this cache.
    pub(super) fn forget_server(&mut self) {
        self.known.clear();
        self.contents.clear();
        self.answers.clear();
        self.leaving = 0;
        self.recalls.clear();
        self.recalls.push_back(Recall::All);
        self.is_refused = true;
    }
}
