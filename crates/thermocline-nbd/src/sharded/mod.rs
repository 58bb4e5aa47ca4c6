//! An export that several shards serve, each in a thread of its own.
//!
//! Every shard's thread has its own clients. A request that lies within one extent goes to the shard of
//! that extent as it is; any other is cut where shards change ([`Spanning`]). The parts of the thread's own
//! shard are served there, the others go to the threads of the other shards and come back over queues that nobody
//! waits for. A flush goes to all shards, so it covers what was acknowledged on any connection.
//!
//! Another shard lends the bytes of a whole read: the client's thread copies them from that shard's frames
//! to the client's output, and gives the frames back. The bytes of a part are copied out of the frames by
//! the shard that has them, because the request may wait for other parts.
//!
//! With one shard there is nothing to cut, and requests go straight to the engine.

mod extents;
mod link;

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use slab::Slab;
use thermocline_engine::driver::Driver;
use thermocline_engine::{Engine, Lent, Request, RequestError, RequestKind, ShardMap, Spanning};

use self::link::{Batch, Bell, Given, Link, Order, Place, Served};
use crate::cached::{Answer, Cached, ClientTerms, Meter, Pieces, kind};
use crate::protocol::{Command, Context, ErrorCode, ExportInfo, Extent};
use crate::service::{Cooperator, Departure, ExtentRange, Piece, Pushed, Reply, Service, Tag};

/// Buffers that a shard keeps for later parts, and bytes that such a buffer may have.
const SPARES_MAX: usize = 256;
const SPARE_BYTES_MAX: usize = 64 << 10;

/// Tags of parts that other shards ordered.
const GUEST: u64 = 1 << 63;

/// A request of a client of this shard that one shard serves, perhaps another one.
#[derive(Clone, Copy, Debug)]
struct Single {
    tag: Tag,
    command: Command,
    since: Instant,
}

/// A request of a client of this shard that several shards serve.
#[derive(Debug)]
struct Whole {
    tag: Tag,
    piece: Piece,
    since: Instant,
    spanning: Spanning<(u32, Given)>,
    error: Option<ErrorCode>,
}

impl Whole {
    /// Return the start of a part's bytes, and their number.
    fn range(&self, part: u32) -> (u64, u32) {
        let (offset_bytes, length_bytes) = self.spanning.range(part);
        (offset_bytes, u32::try_from(length_bytes).expect("a part of a piece"))
    }
}

/// A part that another shard ordered.
#[derive(Debug)]
struct Guest {
    shard: usize,
    place: Place,
    piece: Piece,
    buffer: Vec<u8>,
}

/// Announcement of the next question.
#[derive(Debug)]
enum Announced {
    /// A read that this shard served.
    Own(Tag),
    /// A read that another shard served.
    Lent(usize, Lent),
    /// Results of the parts, with the number of bytes of each, in order.
    Parts(Vec<(u32, Given)>),
}

/// One shard of an export, which knows the others.
#[derive(Debug)]
pub struct Sharded<D> {
    own: Cached<D>,
    map: ShardMap,
    /// Links by the numbers of the shards; `None` for this one, and empty if it is the only one.
    links: Vec<Option<Link>>,
    bell: Option<Arc<Bell>>,
    meter: Option<Box<dyn Meter>>,
    singles: Slab<Single>,
    wholes: Slab<Whole>,
    guests: Slab<Guest>,
    /// Requests of several parts that are over and not announced.
    over: VecDeque<usize>,
    /// Requests that another shard has served and that are not announced, by the number of that shard.
    served: VecDeque<(usize, Served)>,
    announced: Option<Announced>,
    spares: Vec<Vec<u8>>,
    /// Shards whose clients may still order something, and whether this is one of them.
    busy: Arc<AtomicUsize>,
    is_busy: bool,
}

impl<D: Driver> Sharded<D> {
    /// Return the shards of an export, in the order of their numbers.
    ///
    /// # Errors
    /// If the system gives no more file descriptors.
    ///
    /// # Panics
    /// If the map is of another number of shards.
    pub fn all(engines: Vec<Engine<D>>, map: ShardMap) -> io::Result<Vec<Self>> {
        assert_eq!(engines.len(), map.shards(), "each shard has an engine");
        let count = engines.len();
        let busy = Arc::new(AtomicUsize::new(count));
        let bells =
            (0..count).map(|_| Bell::new().map(Arc::new)).collect::<io::Result<Vec<_>>>()?;
        let mut links: Vec<Vec<Option<Link>>> =
            (0..count).map(|_| (0..count).map(|_| None).collect()).collect();
        for one in 0..count {
            for other in 0..one {
                let (first, second) = Link::pair(&bells[one], &bells[other]);
                links[one][other] = Some(first);
                links[other][one] = Some(second);
            }
        }
        let parts = engines.into_iter().zip(links).zip(bells);
        let all = parts.map(|((engine, links), bell)| Self {
            own: Cached::new(engine),
            map,
            links: if count > 1 { links } else { vec![] },
            bell: (count > 1).then_some(bell),
            meter: None,
            singles: Slab::new(),
            wholes: Slab::new(),
            guests: Slab::new(),
            over: VecDeque::new(),
            served: VecDeque::new(),
            announced: None,
            spares: vec![],
            busy: Arc::clone(&busy),
            is_busy: true,
        });
        Ok(all.collect())
    }

    /// Report every answer to a client of this shard to `meter` from now on.
    #[must_use]
    pub fn with_meter(mut self, meter: Box<dyn Meter>) -> Self {
        if self.is_alone() {
            self.own = self.own.with_meter(meter);
        } else {
            self.meter = Some(meter);
        }
        self
    }

    /// Has clients cooperate; see [`Cached::with_clients`].
    ///
    /// # Panics
    /// If there are several shards.
    #[must_use]
    pub fn with_clients(mut self, terms: ClientTerms) -> Self {
        assert!(self.is_alone(), "one shard knows all that a client holds");
        self.own = self.own.with_clients(terms);
        self
    }

    /// Return the information about the export for clients.
    pub fn info(&self, name: &str, description: &str) -> ExportInfo {
        self.own.info(name, description)
    }

    /// Return the engine of this shard, for what is no client's business.
    pub fn engine_mut(&mut self) -> &mut Engine<D> {
        self.own.engine_mut()
    }

    /// Return the engine of this shard.
    pub fn into_engine(self) -> Engine<D> {
        self.own.into_engine()
    }

    fn is_alone(&self) -> bool {
        self.links.is_empty()
    }

    /// Return the shard that serves all of a request, if one does.
    fn only_shard(&self, piece: &Piece) -> Option<usize> {
        let end_bytes = piece.offset_bytes + u64::from(piece.length_bytes);
        let is_within = end_bytes <= self.map.extent_end(piece.offset_bytes);
        let is_of_all = matches!(piece.command, Command::Flush | Command::BlockStatus);
        (is_within && !is_of_all).then(|| self.map.place(piece.offset_bytes).0)
    }

    /// Submit a request to one shard.
    fn submit_single(&mut self, tag: Tag, piece: &Piece, payload: &[u8], shard: usize) {
        let single = Single { tag, command: piece.command, since: Instant::now() };
        let number = self.singles.insert(single);
        let place = Place::Single(u32::try_from(number).expect("bounded by the clients' memory"));
        self.have_served(shard, place, piece, payload);
    }

    /// Submit a piece to a shard, this one or another.
    fn have_served(&mut self, shard: usize, place: Place, piece: &Piece, bytes: &[u8]) {
        let Some(link) = &mut self.links[shard] else {
            return self.own.submit(place.to_tag(), piece, bytes);
        };
        let mut buffer =
            if is_lent(place, piece) { vec![] } else { spare_for(piece, &mut self.spares) };
        buffer.extend_from_slice(bytes);
        link.order(Order { place, piece: *piece, buffer });
    }

    /// End a request that one shard served.
    fn end_single(&mut self, number: u32, answer: Answer) -> (Reply, Single) {
        let single = self.singles.remove(number as usize);
        let Single { tag, command, since } = single;
        if let (Some(meter), Some(kind)) = (&mut self.meter, kind(command)) {
            meter.answered(kind, answer.found, since.elapsed());
        }
        (Reply { tag, outcome: answer.outcome }, single)
    }

    /// Announces a request that another shard has served.
    fn announce_served(&mut self, shard: usize, served: Served) -> Reply {
        let Served { place, outcome, found, given, spare } = served;
        let Place::Single(number) = place else { panic!("parts are joined when they come") };
        self.keep(spare);
        if let Given::Lent(lent) = given {
            self.announced = Some(Announced::Lent(shard, lent));
        }
        self.end_single(number, Answer { tag: Tag(0), outcome, found }).0
    }

    /// Hands out as many parts of a request as may be in flight.
    fn hand_out(&mut self, number: usize, payload: &[u8]) {
        let whole_number = u32::try_from(number).expect("requests are bounded by their memory");
        loop {
            let whole = &mut self.wholes[number];
            let Some(part) = whole.spanning.next_part() else { return };
            let length_bytes = u32::try_from(part.request.length_bytes).expect("a part of a piece");
            let piece =
                Piece { offset_bytes: part.request.offset_bytes, length_bytes, ..whole.piece };
            let bytes = part.payload(whole.spanning.whole(), payload);
            let place = Place::Part { whole: whole_number, number: part.number };
            self.have_served(part.shard, place, &piece, bytes);
        }
    }

    /// Takes what the other shards have sent. Returns `true` if there was anything.
    fn take(&mut self) -> bool {
        let mut is_any = false;
        for shard in 0..self.links.len() {
            while let Some(batch) = self.links[shard].as_mut().and_then(Link::next_batch) {
                is_any = true;
                self.take_batch(shard, batch);
            }
        }
        is_any
    }

    fn take_batch(&mut self, shard: usize, mut batch: Batch) {
        for lent in batch.returned.drain(..) {
            self.own.take_back(lent);
        }
        for Order { place, piece, buffer } in batch.orders.drain(..) {
            let entry = self.guests.vacant_entry();
            let tag = Tag(GUEST | entry.key() as u64);
            let guest = entry.insert(Guest { shard, place, piece, buffer });
            let is_write = piece.command == Command::Write;
            self.own.submit(tag, &piece, if is_write { &guest.buffer } else { &[] });
        }
        for served in batch.served.drain(..) {
            match served.place {
                Place::Single(_) => self.served.push_back((shard, served)),
                Place::Part { whole, number } => {
                    let Served { outcome, found, given, spare, .. } = served;
                    self.keep(spare);
                    let answer = Answer { tag: Tag(0), outcome, found };
                    self.part_answered(whole, number, answer, given);
                }
            }
        }
        if let Some(link) = &mut self.links[shard] {
            link.keep(batch);
        }
    }

    /// Note that a part of a request was answered.
    fn part_answered(&mut self, whole: u32, number: u32, answer: Answer, given: Given) {
        let key = whole as usize;
        let whole = &mut self.wholes[key];
        let Answer { outcome, found, .. } = answer;
        whole.error = whole.error.or(outcome.err());
        let outcome = outcome.map_err(|_| RequestError::Io);
        let (_, length_bytes) = whole.range(number);
        whole.spanning.answered(number, outcome, found, Some((length_bytes, given)));
        if whole.spanning.is_over() {
            self.over.push_back(key);
        } else {
            self.hand_out(key, &[]);
        }
    }

    /// Return the shard's engine answered something. Returns the reply if that was a whole request
    /// of a client of this shard.
    fn own_answered(&mut self, answer: Answer) -> Option<Reply> {
        if answer.tag.0 & GUEST != 0 {
            self.guest_answered(answer);
            return None;
        }
        match Place::from_tag(answer.tag) {
            Place::Single(number) => {
                let (reply, single) = self.end_single(number, answer);
                if single.command == Command::Read && answer.outcome.is_ok() {
                    // Its bytes go from the frames to the client's output.
                    self.announced = Some(Announced::Own(answer.tag));
                }
                Some(reply)
            }
            Place::Part { whole, number } => {
                let asked = &self.wholes[whole as usize];
                let (offset_bytes, length_bytes) = asked.range(number);
                let piece = Piece { offset_bytes, length_bytes, ..asked.piece };
                let buffer = spare_for(&piece, &mut self.spares);
                let (given, spare) = self.given(&piece, &answer, buffer);
                self.keep(spare);
                self.part_answered(whole, number, answer, given);
                None
            }
        }
    }

    fn guest_answered(&mut self, answer: Answer) {
        let key = usize::try_from(answer.tag.0 & !GUEST).expect("a place in memory");
        let Guest { shard, place, piece, buffer } = self.guests.remove(key);
        let (given, spare) = if is_lent(place, &piece) && answer.outcome.is_ok() {
            (Given::Lent(self.own.lend(answer.tag)), buffer)
        } else {
            self.given(&piece, &answer, buffer)
        };
        let Answer { outcome, found, .. } = answer;
        if let Some(link) = &mut self.links[shard] {
            link.answer(Served { place, outcome, found, given, spare });
        }
    }

    /// Returns what the engine's answer to a part gives, and the buffer unless that holds the bytes of a
    /// read now.
    fn given(&mut self, piece: &Piece, answer: &Answer, mut buffer: Vec<u8>) -> (Given, Vec<u8>) {
        if answer.outcome.is_ok() && piece.command == Command::Read {
            self.own.take_data(answer.tag, &mut buffer);
            return (Given::Bytes(buffer), vec![]);
        }
        if answer.outcome.is_ok() && piece.command == Command::BlockStatus {
            return (self.extents_of(piece), buffer);
        }
        (Given::Nothing, buffer)
    }

    /// Return the extents of a piece that the engine has just found out about.
    fn extents_of(&mut self, piece: &Piece) -> Given {
        let Piece { offset_bytes, length_bytes, .. } = *piece;
        let range = ExtentRange { offset_bytes, length_bytes, count_max: usize::MAX };
        Given::Extents(Context::ALL.map(|context| {
            let mut found = vec![];
            self.own.extents(context, &range, &mut found);
            found
        }))
    }

    /// Announces a request of several parts that is over.
    fn end(&mut self, key: usize) -> Reply {
        let Whole { tag, piece, since, spanning, error } = self.wholes.remove(key);
        let (_, found, given) = spanning.into_answer();
        if let (Some(meter), Some(kind)) = (&mut self.meter, kind(piece.command)) {
            meter.answered(kind, found, since.elapsed());
        }
        let given: Vec<(u32, Given)> = given.collect();
        let has_given = matches!(piece.command, Command::Read | Command::BlockStatus);
        if has_given && error.is_none() {
            self.announced = Some(Announced::Parts(given));
        } else {
            for (_, given) in given {
                if let Given::Bytes(bytes) = given {
                    self.keep(bytes);
                }
            }
        }
        Reply { tag, outcome: error.map_or(Ok(()), Err) }
    }

    /// Keeps a buffer for a later part, unless there are enough.
    fn keep(&mut self, buffer: Vec<u8>) {
        if (1..=SPARE_BYTES_MAX).contains(&buffer.capacity()) && self.spares.len() < SPARES_MAX {
            self.spares.push(buffer);
        }
    }

    fn each_link(&mut self, work: impl FnMut(&mut Link)) {
        self.links.iter_mut().flatten().for_each(work);
    }
}

/// Return `true` if another shard lends the bytes of what it serves: those of a whole read.
fn is_lent(place: Place, piece: &Piece) -> bool {
    piece.command == Command::Read && matches!(place, Place::Single(_))
}

/// Returns an empty buffer for the bytes of a piece: one of the spares, if it has bytes and there is one.
fn spare_for(piece: &Piece, spares: &mut Vec<Vec<u8>>) -> Vec<u8> {
    let has_bytes = matches!(piece.command, Command::Read | Command::Write);
    let mut buffer = if has_bytes { spares.pop().unwrap_or_default() } else { vec![] };
    buffer.clear();
    buffer
}

impl<D: Driver> Service for Sharded<D> {
    fn submit(&mut self, tag: Tag, piece: &Piece, payload: &[u8]) {
        if self.is_alone() {
            return self.own.submit(tag, piece, payload);
        }
        let piece = *piece;
        if let Some(shard) = self.only_shard(&piece) {
            return self.submit_single(tag, &piece, payload, shard);
        }
        // Each shard tells what it knows of the whole range: to ask it for each of its extents would take long.
        let kind = if piece.command == Command::BlockStatus {
            RequestKind::Flush
        } else {
            kind(piece.command).unwrap_or(RequestKind::Cache)
        };
        let request = Request {
            tag: 0,
            kind,
            offset_bytes: piece.offset_bytes,
            length_bytes: piece.length_bytes.into(),
            is_durable: piece.is_fua(),
        };
        let spanning = Spanning::new(self.map, request);
        let whole = Whole { tag, piece, since: Instant::now(), spanning, error: None };
        let number = self.wholes.insert(whole);
        self.hand_out(number, payload);
    }

    fn drive(&mut self) {
        self.take();
        self.own.drive();
    }

    fn next_reply(&mut self) -> Option<Reply> {
        if self.is_alone() {
            return self.own.next_reply();
        }
        loop {
            if let Some((shard, served)) = self.served.pop_front() {
                return Some(self.announce_served(shard, served));
            }
            if let Some(key) = self.over.pop_front() {
                return Some(self.end(key));
            }
            let Some(answer) = self.own.next_answer() else {
                self.each_link(Link::send);
                return None;
            };
            if let Some(reply) = self.own_answered(answer) {
                return Some(reply);
            }
        }
    }

    fn take_data(&mut self, tag: Tag, target: &mut Vec<u8>) {
        if self.is_alone() {
            return self.own.take_data(tag, target);
        }
        self.take_pieces(tag, &mut |pieces| {
            for piece in pieces {
                target.extend_from_slice(piece);
            }
        });
    }

    fn take_pieces(&mut self, tag: Tag, take: &mut dyn FnMut(&[&[u8]])) {
        if self.is_alone() {
            return self.own.take_pieces(tag, take);
        }
        match self.announced.take().expect("a read was announced") {
            Announced::Own(tag) => self.own.take_pieces(tag, take),
            Announced::Lent(shard, lent) => {
                take(&lent.pieces().collect::<Pieces<'_>>());
                if let Some(link) = &mut self.links[shard] {
                    link.give_back(lent);
                }
            }
            Announced::Parts(parts) => {
                let bytes = parts.iter().filter_map(|(_, given)| match given {
                    Given::Bytes(bytes) => Some(&bytes[..]),
                    Given::Nothing | Given::Lent(_) | Given::Extents(_) => None,
                });
                take(&bytes.collect::<Pieces<'_>>());
                for (_, given) in parts {
                    if let Given::Bytes(bytes) = given {
                        self.keep(bytes);
                    }
                }
            }
        }
    }

    fn take_recalls(&mut self, tag: Tag) -> Vec<u64> {
        self.own.take_recalls(tag)
    }

    fn take_answers(&mut self, tag: Tag) -> Vec<u64> {
        self.own.take_answers(tag)
    }

    fn take_push(&mut self, tag: Tag) -> Option<Pushed> {
        self.own.take_push(tag)
    }

    fn has_left(&mut self, cooperator: Cooperator, departure: Departure) {
        self.own.has_left(cooperator, departure);
    }

    fn must_ask(&self, context: Context) -> bool {
        !self.is_alone() || self.own.must_ask(context)
    }

    fn extents(&mut self, context: Context, range: &ExtentRange, found: &mut Vec<Extent>) {
        if self.is_alone() {
            return self.own.extents(context, range, found);
        }
        let Some(Announced::Parts(parts)) = &self.announced else {
            panic!("the service was asked about the range")
        };
        let at = Context::ALL.iter().position(|one| *one == context).expect("one of all");
        let of_shard = parts.iter().map(|(_, given)| match given {
            Given::Extents(contexts) => contexts[at].as_slice(),
            Given::Nothing | Given::Bytes(_) | Given::Lent(_) => &[],
        });
        let shards = of_shard.collect();
        extents::join(self.map, range, shards, found);
    }

    fn descriptors(&self) -> Vec<RawFd> {
        let bell = self.bell.iter().map(|bell| bell.descriptor());
        self.own.descriptors().into_iter().chain(bell).collect()
    }

    fn wait_limit(&self) -> Option<Duration> {
        self.own.wait_limit()
    }

    fn may_sleep(&mut self) -> bool {
        let Some(bell) = self.bell.clone() else { return true };
        bell.lie_down();
        !self.take()
    }

    fn has_woken(&mut self) {
        if let Some(bell) = &self.bell {
            bell.get_up();
        }
    }

    fn is_needed(&mut self, has_clients: bool) -> bool {
        if self.is_alone() {
            return false;
        }
        if self.is_busy && !has_clients && self.wholes.is_empty() && self.singles.is_empty() {
            self.is_busy = false;
            if self.busy.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.each_link(|link| link.wake());
            }
        }
        self.busy.load(Ordering::Acquire) > 0
    }
}

#[cfg(test)]
mod tests;
