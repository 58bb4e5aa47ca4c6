//! A backing store behind another NBD server: the driver is the server's client.
//!
//! The sockets never block, and are served in the engine's thread: what the engine wants at one time
//! is sent in one call per connection, and what has come is read in one. A server that allows it is
//! given a few connections.
//!
//! A server that goes away takes its requests with it: they are kept for a moment, and asked for again
//! if it is back by then. After that they fail, as does every operation until it is
//! back; one that leaves a request unanswered for too long is given up at once. A thread connects again, with growing pauses. The engine keeps what it could not write, and
//! tries again. It may have lost writes that it had acknowledged and not flushed; so the next sync
//! fails, and the engine knows that those writes are not durable. All connections are given up with
//! the first that is lost: they lead to the same server, and none may vouch for what another lost.

mod connect;
mod cooperation;
mod link;
mod orders;
mod storage;
mod tls;

use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use thermocline_core::policy::multi::split::{Answer, Hint};
use thermocline_engine::driver::{Allocation, Completion, Driver, Recall, Sent};
use thermocline_engine::{Frames, Operation};

pub use self::connect::Access;
use self::connect::{Contact, Reconnecting, Terms, Wish};
pub use self::cooperation::Cooperation;
use self::cooperation::Talk;
use self::link::{Fault, Link};
use self::orders::Orders;
pub use self::storage::NbdStorage;
use crate::codec::ProtocolError;
use crate::protocol::{command_flag, transmission_flag as flag};
use crate::server::tls::TlsError;
use crate::uri::NbdUri;

/// Maximum time that a driver that ends waits for answers of a server that cooperates.
const FAREWELL_LIMIT: Duration = Duration::from_secs(1);

/// The reconnecting thread's token; those of links are their places.
const RECONNECTED: u64 = u64::MAX;
/// Maximum sleep before connections are checked for requests without answer.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Default time that the driver waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Default time that a server may be away before operations fail.
const GRACE: Duration = Duration::from_secs(5);
/// Events taken from the system at once.
const EVENTS_MAX: usize = 8;

/// Reason why a server cannot be a backing store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackingError {
    /// The server cannot be reached.
    #[error("cannot connect to `{server}`: {source}")]
    Connect {
        /// Address of the server.
        server: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The server does not agree.
    #[error("`{server}`: {source}")]
    Refused {
        /// Address of the server.
        server: String,
        /// Error of the server or of its protocol.
        source: ProtocolError,
    },
    /// Certificates cannot be used.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The server does not write.
    #[error("`{server}` serves the export read-only: use `write_mode = \"read-only\"`")]
    ReadOnly {
        /// Address of the server.
        server: String,
    },
    /// The server does not cooperate.
    #[error(
        "`{server}` does not cooperate: it needs a `[clients]` section, or leave `backing.cooperate` out"
    )]
    Uncooperative {
        /// Address or socket of the listener.
        server: String,
    },
    /// The server cooperates, and does not know the part of it that the policy needs.
    #[error(
        "`{server}` sends no pages that were not asked for, as this policy needs: the server's program is \
         older; use another policy on both hosts, or install the same version"
    )]
    SendsNothing {
        /// Address or socket of the listener.
        server: String,
    },
    /// The server does not cooperate with this cache.
    #[error("`{server}` does not cooperate with this cache: {reason}")]
    NotAttached {
        /// Address or socket of the listener.
        server: String,
        /// Why not.
        reason: &'static str,
    },
    /// Pages are no multiples of what the server takes.
    #[error(
        "`{server}` takes multiples of {minimum_bytes} bytes, pages have {page_bytes}: use a \
         `page_size` of {minimum_bytes} bytes or a multiple of that"
    )]
    BlockSize {
        /// Address of the server.
        server: String,
        /// Minimum size that it takes, in bytes.
        minimum_bytes: u32,
        /// Bytes of a page.
        page_bytes: usize,
    },
    /// After a lost connection the export has another size.
    #[error("`{server}` has {found_bytes} bytes now, it had {known_bytes}")]
    OtherSize {
        /// Address of the server.
        server: String,
        /// The size now.
        found_bytes: u64,
        /// The size that the engine counts on.
        known_bytes: u64,
    },
    /// The system refuses something to wait with.
    #[error("cannot wait for `{server}`: {source}")]
    Events {
        /// Address of the server.
        server: String,
        /// Error of the system.
        source: io::Error,
    },
}

/// A server that was reached, and is not driven yet.
#[derive(Debug)]
pub struct NbdBacking {
    wish: Wish,
    contact: Contact,
    timeout: Duration,
    grace: Duration,
}

impl NbdBacking {
    /// Connect. This blocks until the server answers, for a few seconds at most.
    ///
    /// # Errors
    /// If the server cannot be reached, does not know the export, or only reads.
    pub fn connect(uri: NbdUri, access: Access) -> Result<Self, BackingError> {
        Self::reach(Wish { uri, access, cooperation: None })
    }

    /// Connects to a server that cooperates. The engine's policy is the client's half of one that is cut at
    /// the network, and the server's policy is the other half.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), and a server that does not cooperate, or not with this cache.
    pub fn connect_to_partner(
        uri: NbdUri,
        access: Access,
        cooperation: Cooperation,
    ) -> Result<Self, BackingError> {
        Self::reach(Wish { uri, access, cooperation: Some(cooperation) })
    }

    fn reach(wish: Wish) -> Result<Self, BackingError> {
        let Wish { uri, access, .. } = &wish;
        let contact = Contact::make(&wish)?;
        let terms = &contact.terms;
        if !terms.has(flag::SEND_FLUSH | flag::SEND_FUA) && *access == Access::ReadWrite {
            tracing::warn!(
                server = %uri.server,
                "the server can neither flush nor write durably: what it acknowledges counts as durable"
            );
        }
        Ok(Self { wish, contact, timeout: TIMEOUT, grace: GRACE })
    }

    /// Connect to the same export once more, for another shard. Each shard has connections of its own: it writes to
    /// parts of the export that no other shard uses, so a flush on its connections covers all that it wrote.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), or an export that has another size by now.
    pub fn connect_again(&self) -> Result<Self, BackingError> {
        let Self { ref wish, timeout, grace, .. } = *self;
        let contact = Contact::make(wish)?;
        let (found_bytes, known_bytes) = (contact.terms.size_bytes, self.size_bytes());
        if found_bytes != known_bytes {
            let server = wish.uri.server.to_string();
            return Err(BackingError::OtherSize { server, found_bytes, known_bytes });
        }
        Ok(Self { wish: wish.clone(), contact, timeout, grace })
    }

    /// Limit the time that a request may stay without answer; then the driver closes the
    /// connections, and every request on them fails.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Limit the time that a server that closed its connections may be away before its requests
    /// fail.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Return the size of the export, in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.contact.terms.size_bytes
    }
}

/// Requirements of an export.
#[derive(Clone, Debug)]
struct Needs {
    server: String,
    size_bytes: u64,
    page_bytes: usize,
}

impl Needs {
    fn check(&self, terms: &Terms) -> Result<(), BackingError> {
        let Self { page_bytes, .. } = *self;
        let (server, minimum_bytes) = (self.server.clone(), terms.minimum_bytes);
        if !page_bytes.is_multiple_of(minimum_bytes as usize) {
            return Err(BackingError::BlockSize { server, minimum_bytes, page_bytes });
        }
        let (found_bytes, known_bytes) = (terms.size_bytes, self.size_bytes);
        if found_bytes != known_bytes {
            return Err(BackingError::OtherSize { server, found_bytes, known_bytes });
        }
        Ok(())
    }
}

/// Connections to a server that is there.
#[derive(Debug)]
struct Session {
    terms: Terms,
    links: Vec<Link>,
}

/// Performs the operations of a backing store by asking an NBD server.
#[derive(Debug)]
pub struct NbdDriver {
    wish: Wish,
    may_write: bool,
    needs: Needs,
    orders: Orders,
    session: Option<Session>,
    reconnecting: Option<Reconnecting>,
    timeout: Duration,
    grace: Duration,
    /// Since when the server is away, if what it is asked may be kept.
    missed_at: Option<Instant>,
    /// Time of the last check of the links for requests without answer.
    looked_at: Instant,
    /// Readable when a link or the reconnecting thread has something.
    poller: OwnedFd,
    reconnected: Arc<OwnedFd>,
    /// Tokens of the connections whose events were found last.
    found: Vec<u64>,
}

impl NbdDriver {
    /// Drives a server for the shard that these frames belong to, a page each.
    ///
    /// # Errors
    /// If the server takes only requests larger than pages.
    pub fn new(backing: NbdBacking, frames: &Arc<Frames>) -> Result<Self, BackingError> {
        let NbdBacking { wish, contact, timeout, grace } = backing;
        let needs = Needs {
            server: wish.uri.server.to_string(),
            size_bytes: contact.terms.size_bytes,
            page_bytes: frames.frame_bytes(),
        };
        needs.check(&contact.terms)?;
        let may_write = !contact.terms.has(flag::READ_ONLY);
        let at = |source: rustix::io::Errno| {
            let server = needs.server.clone();
            BackingError::Events { server, source: source.into() }
        };
        let poller = epoll::create(CreateFlags::CLOEXEC).map_err(at)?;
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let reconnected = Arc::new(eventfd(0, flags).map_err(at)?);
        let token = EventData::new_u64(RECONNECTED);
        epoll::add(&poller, &*reconnected, token, EventFlags::IN).map_err(at)?;
        let mut orders = Orders::new(frames);
        orders.cooperation = contact.talk();
        let session = Session::begin(contact, &poller).map_err(at)?;
        Ok(Self {
            wish,
            may_write,
            orders,
            needs,
            session: Some(session),
            reconnecting: None,
            timeout,
            grace,
            missed_at: None,
            looked_at: Instant::now(),
            poller,
            reconnected,
            found: vec![],
        })
    }

    /// Return `true` if the server took writes when it was first connected to.
    pub fn may_write(&self) -> bool {
        self.may_write
    }

    /// Return `true` if a server that cooperates has heard of every page that left.
    pub fn is_settled(&self) -> bool {
        self.orders.cooperation.as_ref().is_none_or(Talk::is_settled)
    }

    /// Return `true` if the server is there, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.session.is_some()
    }

    /// Return `true` if the server is there, and has yet to hear something before a farewell.
    fn is_being_told(&self) -> bool {
        let has_blocked = |session: &Session| {
            session.links.iter().any(|link| !self.is_settled() || link.is_blocked())
        };
        self.session.as_ref().is_some_and(has_blocked)
    }

    /// Sends and receives what can be, without waiting.
    fn turn(&mut self) {
        let is_told = self.look(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        if is_told {
            self.meet();
        }
        if let Err(fault) = self.exchange() {
            tracing::warn!(server = %self.wish.uri.server, %fault, "lost the connection to the backing store");
            self.part(&fault);
        }
        if let Some(missed_at) = self.missed_at {
            let now = Instant::now();
            self.orders.expire(now, self.grace);
            self.missed_at = (now.duration_since(missed_at) < self.grace).then_some(missed_at);
        }
        if self.session.is_none() && self.reconnecting.is_none() {
            self.reconnect();
        }
    }

    /// Wait for events. Returns `true` if the reconnecting thread has one; those of the links stay.
    fn look(&mut self, limit: Option<&Timespec>) -> bool {
        self.found.clear();
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS_MAX];
        // A signal is one more reason to look.
        if let Ok((events, _)) = epoll::wait(&self.poller, &mut events[..], limit) {
            self.found.extend(events.iter().map(|event| event.data.u64()));
        }
        self.found.contains(&RECONNECTED)
    }

    /// Receives from the links that events name, and sends what waits, until neither goes on.
    fn exchange(&mut self) -> Result<(), Fault> {
        let Some(session) = &mut self.session else { return Ok(()) };
        for &token in &self.found {
            let place = usize::try_from(token).unwrap_or(usize::MAX);
            if let Some(link) = session.links.get_mut(place) {
                link.receive(&mut self.orders)?;
            }
        }
        let now = Instant::now();
        self.orders.ask_for_recalls(now);
        session.send(&mut self.orders, now)?;
        if now.duration_since(self.looked_at) >= LOOK_INTERVAL.min(self.timeout) {
            self.looked_at = now;
            session.links.iter().try_for_each(|link| link.check(now, self.timeout))?;
        }
        if self.orders.cooperation.as_ref().is_some_and(Talk::is_refused) {
            return Err(Fault::Refused);
        }
        Ok(session.watch(&self.poller).map_err(io::Error::from)?)
    }

    /// Takes over the connections of a server that is there again.
    fn meet(&mut self) {
        let mut counter = [0; 8];
        let _empty = rustix::io::read(&*self.reconnected, &mut counter);
        let Some(contact) = self.reconnecting.as_ref().and_then(Reconnecting::take) else { return };
        self.reconnecting = None;
        let talk = contact.talk();
        match Session::begin(contact, &self.poller) {
            Ok(session) => {
                tracing::info!(server = %self.wish.uri.server, "the backing store is reachable again");
                let former = std::mem::replace(&mut self.orders.cooperation, talk);
                if let (Some(talk), Some(former)) = (&mut self.orders.cooperation, former) {
                    // Pages that the engine was to give up, and has not yet, are still to be given up.
                    talk.follow(former);
                }
                self.orders.resume(&session.terms);
                self.session = Some(session);
                self.missed_at = None;
            }
            Err(error) => tracing::warn!(%error, "cannot wait for the backing store"),
        }
    }

    /// Gives the server up. The requests to a silent one have waited for long enough.
    fn part(&mut self, fault: &Fault) {
        self.session = None;
        // Tokens of these connections would be taken for those of the next ones.
        self.found.clear();
        if matches!(fault, Fault::Silent(_)) || self.grace.is_zero() {
            self.orders.abandon();
        } else {
            let now = Instant::now();
            self.missed_at = Some(now);
            self.orders.suspend(now, self.grace);
        }
    }

    fn reconnect(&mut self) {
        let (reconnected, needs) = (Arc::clone(&self.reconnected), self.needs.clone());
        let notify = move || {
            // A full counter is readable as well.
            let _full = rustix::io::write(&*reconnected, &1_u64.to_ne_bytes());
        };
        let fits = move |terms: &Terms| needs.check(terms);
        match Reconnecting::start(self.wish.clone(), fits, notify) {
            Ok(reconnecting) => self.reconnecting = Some(reconnecting),
            Err(error) => tracing::warn!(%error, "cannot start a thread to connect again"),
        }
    }
}

impl Session {
    fn begin(contact: Contact, poller: &OwnedFd) -> rustix::io::Result<Self> {
        let links: Vec<Link> = contact.connections.into_iter().map(Link::new).collect();
        for (place, link) in (0..).zip(&links) {
            epoll::add(poller, link, EventData::new_u64(place), EventFlags::IN)?;
        }
        Ok(Self { terms: contact.terms, links })
    }

    /// Hands requests to the links that have room, and sends.
    fn send(&mut self, orders: &mut Orders, now: Instant) -> Result<(), Fault> {
        loop {
            while let Some(&part) = orders.waiting.front() {
                let open = self.links.iter_mut().filter(|link| link.has_room());
                let Some(link) = open.min_by_key(|link| link.crowds()) else { break };
                orders.waiting.pop_front();
                link.push(part, orders, now);
            }
            for link in self.links.iter_mut().filter(|link| link.is_blocked()) {
                link.send()?;
            }
            if orders.waiting.is_empty() || !self.links.iter().any(Link::has_room) {
                return Ok(());
            }
        }
    }

    /// Asks the system to tell when a socket has room again, for those that lack it.
    fn watch(&mut self, poller: &OwnedFd) -> rustix::io::Result<()> {
        for (place, link) in (0..).zip(&mut self.links) {
            // Most turns change nothing, and need no system call.
            if link.is_blocked() != link.is_watched {
                link.is_watched = link.is_blocked();
                let room = if link.is_watched { EventFlags::OUT } else { EventFlags::empty() };
                epoll::modify(poller, &*link, EventData::new_u64(place), EventFlags::IN | room)?;
            }
        }
        Ok(())
    }
}

impl Driver for NbdDriver {
    fn start(&mut self, operation: Operation) {
        operation.assert_for(self.orders.frames());
        let terms = self.session.as_ref().map(|session| &session.terms);
        self.orders.take(operation, terms, self.missed_at);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.turn();
        done.append(&mut self.orders.done);
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        let before = done.len();
        loop {
            self.poll(done);
            if done.len() > before || self.orders.is_idle() {
                return;
            }
            self.look(Some(&LOOK));
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.poller.as_fd())
    }

    fn leave(&mut self, offset_bytes: u64, content: Option<&[u8]>) {
        if self.session.is_some() {
            self.orders.leave(offset_bytes, content);
        }
    }

    fn tell(&mut self, hint: Hint) {
        if self.session.is_some() {
            self.orders.tell(hint, 0);
        }
    }

    fn tell_with_leaving(&mut self, hint: Hint) {
        if self.session.is_some() {
            // Without pushes, what a client tells is not a measure of its cache as well.
            let flags = if self.orders.takes_pushes() { command_flag::CARRIED } else { 0 };
            self.orders.tell(hint, flags);
        }
    }

    fn next_push(&mut self) -> Option<Sent> {
        self.orders.cooperation.as_mut()?.next_push()
    }

    fn next_answer(&mut self) -> Option<(u64, Answer)> {
        self.orders.cooperation.as_mut()?.next_answer()
    }

    fn next_recall(&mut self) -> Option<Recall> {
        self.orders.cooperation.as_mut()?.next_recall()
    }

    fn is_current(&mut self) -> bool {
        let talk = self.orders.cooperation.as_ref();
        talk.is_none_or(|talk| self.session.is_some() && talk.is_counted_on())
    }

    fn ask_allocation(&mut self, tag: u64, range: Range<u64>) -> bool {
        let terms = self.session.as_ref().map(|session| &session.terms);
        self.orders.ask(tag, range, terms)
    }

    fn next_allocation(&mut self) -> Option<(u64, Vec<Allocation>)> {
        self.orders.answers.pop_front()
    }
}

impl Drop for NbdDriver {
    /// Says farewell, as far as the sockets take it at once.
    fn drop(&mut self) {
        let start = Instant::now();
        // A server that cannot send an answer does not read the farewell, and keeps the client's place.
        while self.is_being_told() && start.elapsed() < FAREWELL_LIMIT {
            if self.exchange().is_err() {
                break;
            }
            self.look(Some(&LOOK));
        }
        for link in self.session.iter_mut().flat_map(|session| &mut session.links) {
            link.push_disconnect();
            // A server that is gone needs none.
            drop(link.send());
        }
    }
}
