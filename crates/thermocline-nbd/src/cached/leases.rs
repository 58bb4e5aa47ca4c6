//! Leases of pages: which cooperating client holds which page, and must give it up before a write.
//!
//! A client holds a lease of each page that it may have a copy of: from when its read or write is made,
//! until it gives the page up. Before a page is written, every other client that holds a lease is told to
//! give the page up, and the write waits until it has. So the content that a client hands back is that of
//! the newest version, and no client reads what somebody else has replaced.
//!
//! Both sides stop counting on the other if it is silent. A client uses its copies no longer than
//! [`CLIENT_LIMIT`] after it has sent a question that was answered. The server takes leases away
//! [`SERVER_LIMIT`] after it has answered, which is later. So a client that is cut off delays the
//! writes of others by a few seconds, and reads nothing old.
//!
//! Time is an argument of every call.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::protocol::ErrorCode;
use crate::protocol::cooperation::RECALLS_MAX;
use crate::service::{Cooperator, Departure, Tag};

/// A client uses its copies for this long after it has sent a question that was answered.
pub(crate) const CLIENT_LIMIT: Duration = Duration::from_secs(5);
/// Its leases last for this long after the server has answered; clocks may differ a little.
const SERVER_LIMIT: Duration = Duration::from_secs(6);
/// A question is answered after so long, if there is nothing to give up.
const ANSWER_INTERVAL: Duration = Duration::from_secs(1);
/// Leases beyond twice the pages of its cache that a client may hold: pages on their way.
const LEASES_BESIDE: usize = 1 << 16;

/// The clients that a server counts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientTerms {
    /// The greatest number of attached clients, from 1 to
    /// [`COOPERATING_MAX`](thermocline_core::policy::multi::split::COOPERATING_MAX).
    pub clients: u8,
    /// The pages that the cache of each holds.
    pub pages: u32,
    /// `true` if the policy sends clients pages that they did not ask for: they must take these.
    pub pushes: bool,
}

/// Introduction of a client that attaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Introduction {
    /// A number that it has chosen, and keeps when it comes back.
    pub(crate) identity: u32,
    /// The pages that its cache holds.
    pub(crate) pages: u32,
    /// `true` if it takes pages that it did not ask for.
    pub(crate) takes_pushes: bool,
}

/// The answer to a client that waits for pages to give up.
pub(super) type Answer = (Tag, Result<Vec<u64>, ErrorCode>);

/// One client.
#[derive(Debug)]
struct Session {
    identity: u32,
    /// Its connection, until that is lost.
    connection: Option<Cooperator>,
    /// Its question that was not answered, and when that came.
    question: Option<(Tag, Instant)>,
    /// When it was answered last.
    answered_at: Instant,
    /// Pages that it has to give up, and that no answer has named.
    untold: Vec<u64>,
    /// Pages that it was told to give up, and has not confirmed.
    told: Vec<u64>,
    leases: usize,
}

/// All clients and their leases.
#[derive(Debug)]
pub(super) struct Leases {
    terms: ClientTerms,
    /// By the number of the client.
    sessions: Vec<Option<Session>>,
    /// The clients that hold each page, a bit for each.
    holders: BTreeMap<u64, u16>,
    /// The clients that each page is recalled from, a bit for each.
    recalled: BTreeMap<u64, u16>,
    answers: VecDeque<Answer>,
    /// Clients that hold nothing any more.
    ended: Vec<u8>,
}

const fn bit(client: u8) -> u16 {
    1 << client
}

impl Leases {
    pub(super) fn new(terms: ClientTerms) -> Self {
        let sessions = (0..terms.clients).map(|_| None).collect();
        let (holders, recalled) = (BTreeMap::new(), BTreeMap::new());
        Self { terms, sessions, holders, recalled, answers: VecDeque::new(), ended: vec![] }
    }

    /// Return the number of a client that is attached.
    pub(super) fn client(&self, connection: Cooperator) -> Option<u8> {
        let is_its = |session: &Option<Session>| {
            session.as_ref().is_some_and(|session| session.connection == Some(connection))
        };
        let place = self.sessions.iter().position(is_its)?;
        u8::try_from(place).ok()
    }

    /// Attaches a client. One that comes back has nothing of what it held before.
    ///
    /// # Errors
    /// If it is attached already, its cache has another size, its policy is another one as far as can be seen, or
    /// there are as many clients as may be.
    pub(super) fn attach(
        &mut self,
        connection: Cooperator,
        introduction: Introduction,
        now: Instant,
    ) -> Result<(), ErrorCode> {
        let Introduction { identity, pages, takes_pushes } = introduction;
        if self.client(connection).is_some() {
            return Err(ErrorCode::Invalid);
        }
        if pages != self.terms.pages {
            return Err(ErrorCode::Overflow);
        }
        if takes_pushes != self.terms.pushes {
            return Err(ErrorCode::NotSupported);
        }
        for client in 0..self.terms.clients {
            let session = self.sessions[usize::from(client)].as_ref();
            if session.is_some_and(|session| session.identity == identity) {
                self.end(client);
            }
        }
        let free = self.sessions.iter_mut().find(|session| session.is_none());
        let place = free.ok_or(ErrorCode::NoSpace)?;
        *place = Some(Session {
            identity,
            connection: Some(connection),
            question: None,
            answered_at: now,
            untold: vec![],
            told: vec![],
            leases: 0,
        });
        Ok(())
    }

    /// Note that a client has given up what it was told to, and waits for more.
    pub(super) fn ask(&mut self, client: u8, tag: Tag, now: Instant) {
        let Some(session) = &mut self.sessions[usize::from(client)] else { return };
        if session.question.is_some() {
            self.answers.push_back((tag, Err(ErrorCode::Invalid)));
            return;
        }
        session.question = Some((tag, now));
        // A question confirms the pages of the answer before it.
        for page in std::mem::take(&mut session.told) {
            self.take_back(client, page);
        }
        self.tell(client, now);
    }

    /// Record that a client gives up a page by itself; `true` if its copy is of the newest version.
    pub(super) fn give_up(&mut self, client: u8, page: u64) -> bool {
        let is_newest = self.is_kept(client, page);
        self.take_back(client, page);
        // It will confirm this recall, and not a lease that it gets meanwhile.
        if let Some(session) = &mut self.sessions[usize::from(client)] {
            session.told.retain(|&other| other != page);
        }
        is_newest
    }

    /// Return `true` if the policy sends clients pages that they did not ask for.
    pub(super) const fn are_pushing(&self) -> bool {
        self.terms.pushes
    }

    /// Return `true` if a client holds a page that nobody waits for.
    pub(super) fn is_kept(&self, client: u8, page: u64) -> bool {
        let has = |bits: &BTreeMap<u64, u16>| {
            bits.get(&page).is_some_and(|clients| clients & bit(client) != 0)
        };
        has(&self.holders) && !has(&self.recalled)
    }

    /// Return `true` if pages may be written, by a client or by somebody who holds nothing. If not,
    /// this asks the clients in the way to give them up.
    pub(super) fn may_write(
        &mut self,
        writer: Option<u8>,
        pages: Range<u64>,
        now: Instant,
    ) -> bool {
        let own = writer.map_or(0, bit);
        let held = self.holders.range(pages).map(|(&page, &holders)| (page, holders & !own));
        let held: Vec<(u64, u16)> = held.filter(|(_, others)| *others != 0).collect();
        if held.is_empty() {
            return true;
        }
        for (page, others) in held {
            let recalled = self.recalled.entry(page).or_default();
            // Those that were told already are not told again.
            let fresh = others & !*recalled;
            *recalled |= others;
            for (client, session) in (0..).zip(&mut self.sessions) {
                if let Some(session) = session.as_mut().filter(|_| fresh & bit(client) != 0) {
                    session.untold.push(page);
                }
            }
        }
        (0..self.terms.clients).for_each(|client| self.tell(client, now));
        false
    }

    /// Record that a client holds these pages. A client that claims more pages than fit in its RAM is no
    /// longer counted on.
    pub(super) fn hold(&mut self, client: u8, pages: Range<u64>) {
        let Some(session) = &mut self.sessions[usize::from(client)] else { return };
        for page in pages {
            let holders = self.holders.entry(page).or_default();
            session.leases += usize::from(*holders & bit(client) == 0);
            *holders |= bit(client);
        }
        let most = 2 * self.terms.pages as usize + LEASES_BESIDE;
        // Otherwise a client could have the server use any amount of memory.
        if session.leases > most {
            tracing::warn!(client, "a client holds more pages than its RAM has room for");
            self.end(client);
        }
    }

    /// Release what a client held that has gone.
    pub(super) fn left(&mut self, connection: Cooperator, departure: Departure) {
        let Some(client) = self.client(connection) else { return };
        let Some(session) = &mut self.sessions[usize::from(client)] else { return };
        session.connection = None;
        if let Some((tag, _)) = session.question.take() {
            self.answers.push_back((tag, Err(ErrorCode::ShuttingDown)));
        }
        if departure == Departure::Orderly {
            self.end(client);
        }
    }

    /// Answers questions that have waited for long, and stops counting on clients that are silent.
    pub(super) fn tick(&mut self, now: Instant) {
        for client in 0..self.terms.clients {
            let Some(session) = &mut self.sessions[usize::from(client)] else { continue };
            if let Some((tag, since)) = session.question {
                if now.saturating_duration_since(since) >= ANSWER_INTERVAL {
                    session.question = None;
                    session.answered_at = now;
                    self.answers.push_back((tag, Ok(vec![])));
                }
                continue;
            }
            // A client may be silent as long as nobody waits for it.
            let is_in_the_way = session.connection.is_none()
                || !session.told.is_empty()
                || !session.untold.is_empty();
            let silence = now.saturating_duration_since(session.answered_at);
            if is_in_the_way && silence >= SERVER_LIMIT {
                tracing::warn!(client, "a client is silent: its leases have ended");
                self.end(client);
            }
        }
    }

    /// Return the next answer to a client that waits.
    pub(super) fn next_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// Return the next client that holds nothing any more.
    pub(super) fn next_ended(&mut self) -> Option<u8> {
        self.ended.pop()
    }

    /// Tells a client what it is to give up, if it waits for that.
    fn tell(&mut self, client: u8, now: Instant) {
        let Some(session) = &mut self.sessions[usize::from(client)] else { return };
        if session.untold.is_empty() {
            return;
        }
        if let Some((tag, _)) = session.question.take() {
            let most = session.untold.len().min(RECALLS_MAX);
            session.told = session.untold.drain(..most).collect();
            session.answered_at = now;
            self.answers.push_back((tag, Ok(session.told.clone())));
        }
    }

    /// Record that a client no longer holds a page.
    fn take_back(&mut self, client: u8, page: u64) {
        if clear(&mut self.holders, page, client)
            && let Some(session) = &mut self.sessions[usize::from(client)]
        {
            session.leases -= 1;
        }
        clear(&mut self.recalled, page, client);
    }

    /// Counts on a client no more.
    fn end(&mut self, client: u8) {
        let Some(session) = self.sessions[usize::from(client)].take() else { return };
        if let Some((tag, _)) = session.question {
            self.answers.push_back((tag, Err(ErrorCode::ShuttingDown)));
        }
        for bits in [&mut self.holders, &mut self.recalled] {
            bits.retain(|_, clients| {
                *clients &= !bit(client);
                *clients != 0
            });
        }
        self.ended.push(client);
    }
}

/// Clears the bit of a client. Returns whether it was set.
fn clear(bits: &mut BTreeMap<u64, u16>, page: u64, client: u8) -> bool {
    let Some(clients) = bits.get_mut(&page) else { return false };
    let was_set = *clients & bit(client) != 0;
    *clients &= !bit(client);
    if *clients == 0 {
        bits.remove(&page);
    }
    was_set
}

#[cfg(test)]
mod tests;
