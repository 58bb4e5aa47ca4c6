//! The conversation of a cache with a server that cooperates.
//!
//! All of it goes through one connection, in order: the server decides by what it was told before.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::time::Instant;

use thermocline_core::policy::multi::split::Answer;
use thermocline_engine::driver::{Recall, Sent};

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
    /// `true` if its policy takes pages that it did not ask for; then the server must know that.
    pub takes_pushes: bool,
}

/// Result of a page that the server sends unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The engine gets it.
    Kept,
    /// The cache has asked for the page itself: what comes of that counts.
    Known,
    /// The client answers that it does not hold the page.
    Refused,
}

/// The conversation of a cache with its server.
#[derive(Debug)]
pub(super) struct Talk {
    page_bytes: u32,
    takes_pushes: bool,
    /// Pages that the server counts as held here.
    known: HashSet<u64>,
    /// The contents of pages that are offered and not sent.
    contents: VecDeque<Vec<u8>>,
    /// Messages about pages that left, which the server has not confirmed: how many of each.
    leaving: HashMap<u64, u32>,
    /// Pages that the server has sent.
    pushes: VecDeque<Sent>,
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
            takes_pushes: cooperation.takes_pushes,
            known: HashSet::new(),
            contents: VecDeque::new(),
            leaving: HashMap::new(),
            pushes: VecDeque::new(),
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
        self.note_leaving(offset_bytes);
        let Some(content) = content else { return Some((Command::Release, self.page_bytes)) };
        self.contents.push_back(content.to_vec());
        Some((Command::Demote, self.page_bytes))
    }

    /// Return the content of the next page that is offered, in the order of the requests.
    pub(super) fn next_content(&mut self) -> Option<Vec<u8>> {
        self.contents.pop_front()
    }

    fn note_leaving(&mut self, offset_bytes: u64) {
        *self.leaving.entry(offset_bytes).or_default() += 1;
    }

    /// Note that the server knows that a page has left.
    pub(super) fn has_left(&mut self, offset_bytes: u64) {
        if let Some(messages) = self.leaving.get_mut(&offset_bytes) {
            *messages -= 1;
            if *messages == 0 {
                self.leaving.remove(&offset_bytes);
            }
        }
    }

    /// Return `true` if the server has heard of every page that left.
    pub(super) fn is_settled(&self) -> bool {
        self.leaving.is_empty()
    }

    pub(super) const fn takes_pushes(&self) -> bool {
        self.takes_pushes
    }

    /// Takes a page that the server sends for one that left. The server may have sent it before it heard what this
    /// cache has asked or said of the page since.
    pub(super) fn take_push(&mut self, page: Sent) -> Taken {
        let offset_bytes = page.offset_bytes;
        if self.known.contains(&offset_bytes) {
            return Taken::Known;
        }
        if self.leaving.contains_key(&offset_bytes) {
            self.note_leaving(offset_bytes);
            return Taken::Refused;
        }
        self.known.insert(offset_bytes);
        self.pushes.push_back(page);
        Taken::Kept
    }

    /// Return the next page that the server has sent.
    pub(super) fn next_push(&mut self) -> Option<Sent> {
        self.pushes.pop_front()
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
            // The server waits from its answer on, which is later than the question: so it waits for
            // longer than this cache relies on it.
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
        self.pushes.clear();
        self.leaving.clear();
        self.recalls.clear();
        // The server may let others write without asking this cache: any of its pages may be old soon.
        self.recalls.push_back(Recall::All);
        self.is_refused = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk() -> Talk {
        let cooperation = Cooperation { identity: 1, pages: 4, page_bytes: 8, takes_pushes: true };
        Talk::new(cooperation, Instant::now())
    }

    fn sent(offset_bytes: u64) -> Sent {
        Sent { offset_bytes, number: 7, content: vec![1; 8] }
    }

    #[test]
    fn a_page_that_is_sent_is_held_until_it_leaves() {
        let mut talk = talk();
        assert_eq!(talk.take_push(sent(16)), Taken::Kept);
        assert_eq!(talk.next_push(), Some(sent(16)));
        assert_eq!(talk.cut(Command::Write, 0, 16, 8), (8, command_flag::HELD));
        assert_eq!(talk.leave(16, Some(&[1; 8])), Some((Command::Demote, 8)));
    }

    #[test]
    fn what_this_cache_asks_for_counts_more_than_what_is_sent() {
        let mut talk = talk();
        talk.cut(Command::Read, 0, 16, 8);
        assert_eq!(talk.take_push(sent(16)), Taken::Known);
        assert_eq!(talk.next_push(), None);
    }

    /// The server may count the page as given up, and would not report a write of it.
    #[test]
    fn a_page_that_left_meanwhile_is_refused() {
        let mut talk = talk();
        talk.cut(Command::Read, 0, 16, 8);
        talk.leave(16, None);
        assert_eq!(talk.take_push(sent(16)), Taken::Refused);
        assert_eq!(talk.next_push(), None);
        for is_settled in [false, true] {
            talk.has_left(16);
            assert_eq!(talk.is_settled(), is_settled, "the refusal is a message as well");
        }
        assert_eq!(talk.take_push(sent(16)), Taken::Kept);
    }

    #[test]
    fn a_server_that_is_gone_has_sent_nothing() {
        let mut talk = talk();
        talk.take_push(sent(16));
        talk.forget_server();
        assert_eq!(talk.next_push(), None);
    }
}
