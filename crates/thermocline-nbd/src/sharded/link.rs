//! Link between two shards: batches in both directions, and a bell that wakes the receiver.
//!
//! A shard collects what it has for another one during a turn of its loop, and sends all of it in one
//! message at the end. Nobody waits for a queue, and none grows without bound: a shard has at most
//! [`ORDERS_MAX`] orders with another one that are not answered, each order has one answer, and each
//! answer lends at most one reply.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{EventfdFlags, eventfd};
use thermocline_core::Tier;
use thermocline_engine::Lent;

use crate::protocol::{ErrorCode, Extent};
use crate::service::{Piece, Tag};

/// Orders of one shard to another that are not answered, at most.
const ORDERS_MAX: usize = 1024;

/// Request of a shard that an order is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A request that one shard serves.
    Single(u32),
    /// A part of a request that several shards serve.
    Part {
        /// The request.
        whole: u32,
        /// The part of it.
        number: u32,
    },
}

impl Place {
    /// The number of the part of a request that is one part.
    const SINGLE: u32 = u32::MAX;

    pub(super) fn to_tag(self) -> Tag {
        let (request, part) = match self {
            Self::Single(request) => (request, Self::SINGLE),
            Self::Part { whole, number } => (whole, number),
        };
        debug_assert!(request < 1 << 31, "the highest bit is for guests");
        Tag(u64::from(request) << 32 | u64::from(part))
    }

    pub(super) fn from_tag(Tag(tag): Tag) -> Self {
        let half = |bits: u64| u32::try_from(bits & 0xffff_ffff).expect("32 bits");
        match (half(tag >> 32), half(tag)) {
            (request, Self::SINGLE) => Self::Single(request),
            (whole, number) => Self::Part { whole, number },
        }
    }
}

/// A part that another shard serves.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) place: Place,
    pub(super) piece: Piece,
    /// The bytes of a write; room for those of a part of a read.
    pub(super) buffer: Vec<u8>,
}

/// Result of a part besides its outcome.
#[derive(Debug, Default)]
pub(super) enum Given {
    #[default]
    Nothing,
    /// The bytes of a part of a read. They are copied, because they wait for the other parts: a frame that
    /// waited for frames of other shards could keep those from being free.
    Bytes(Vec<u8>),
    /// The bytes of a whole read. They go to the client's output at once, and the frames back.
    Lent(Lent),
    /// The status of its extents in the contexts of [`Context::ALL`](crate::protocol::Context::ALL).
    Extents([Vec<Extent>; 2]),
}

/// A part that was served.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) place: Place,
    pub(super) outcome: Result<(), ErrorCode>,
    pub(super) found: Option<Tier>,
    pub(super) given: Given,
    /// The buffer of a write goes back.
    pub(super) spare: Vec<u8>,
}

/// Wakes a shard.
#[derive(Debug)]
pub(super) struct Bell {
    is_asleep: AtomicBool,
    event: OwnedFd,
}

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { is_asleep: AtomicBool::new(false), event })
    }

    /// Note that its shard is about to sleep; messages that were sent before this it must look for
    /// itself.
    pub(super) fn lie_down(&self) {
        self.is_asleep.store(true, Ordering::Relaxed);
        // Either the sender sees that the shard sleeps, or the shard sees what was sent.
        fence(Ordering::SeqCst);
    }

    pub(super) fn get_up(&self) {
        self.is_asleep.store(false, Ordering::Relaxed);
    }

    /// Wakes the shard if it sleeps, after something was sent to it.
    pub(super) fn ring(&self) {
        // Pairs with the fence of `lie_down`: what was sent is visible before it is looked whether the
        // shard sleeps.
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) && self.is_asleep.swap(false, Ordering::Relaxed) {
            // A full counter is readable as well.
            let _full = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    #[cfg(test)]
    pub(super) fn event(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.event)
    }
}

/// Messages of a shard to another one after a turn of its loop.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Orders that the other one is to serve.
    pub(super) orders: Vec<Order>,
    /// Orders that this one has served for it.
    pub(super) served: Vec<Served>,
    /// Replies of the other one that are not read any more.
    pub(super) returned: Vec<Lent>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.orders.is_empty() && self.served.is_empty() && self.returned.is_empty()
    }
}

/// A shard's end of what it shares with another one.
#[derive(Debug)]
pub(super) struct Link {
    sender: Sender<Batch>,
    receiver: Receiver<Batch>,
    /// Batch to send at the end of this turn.
    outgoing: Batch,
    /// A batch that was taken out of, kept for its memory.
    spare: Option<Batch>,
    /// The other one's.
    bell: Arc<Bell>,
    unanswered: usize,
    /// Orders beyond [`ORDERS_MAX`].
    waiting: VecDeque<Order>,
}

impl Link {
    /// Create both ends, for two shards with these bells.
    pub(super) fn pair(one: &Arc<Bell>, other: &Arc<Bell>) -> (Self, Self) {
        let (to_one, at_one) = channel();
        let (to_other, at_other) = channel();
        let end = |sender, receiver, bell: &Arc<Bell>| Self {
            sender,
            receiver,
            outgoing: Batch::default(),
            spare: None,
            bell: Arc::clone(bell),
            unanswered: 0,
            waiting: VecDeque::new(),
        };
        (end(to_other, at_one, other), end(to_one, at_other, one))
    }

    /// Order the other shard to serve a request or a part of one.
    pub(super) fn order(&mut self, order: Order) {
        if self.unanswered == ORDERS_MAX {
            self.waiting.push_back(order);
            return;
        }
        self.unanswered += 1;
        self.outgoing.orders.push(order);
    }

    /// Answers an order of the other shard.
    pub(super) fn answer(&mut self, served: Served) {
        self.outgoing.served.push(served);
    }

    /// Gives a reply of the other shard back.
    pub(super) fn give_back(&mut self, lent: Lent) {
        self.outgoing.returned.push(lent);
    }

    /// Take the next batch of the other shard; its orders that waited for answers follow.
    pub(super) fn next_batch(&mut self) -> Option<Batch> {
        let batch = self.receiver.try_recv().ok()?;
        self.unanswered -= batch.served.len();
        while self.unanswered < ORDERS_MAX
            && let Some(order) = self.waiting.pop_front()
        {
            self.order(order);
        }
        Some(batch)
    }

    /// Keep the memory of a batch that everything was taken out of.
    pub(super) fn keep(&mut self, batch: Batch) {
        debug_assert!(batch.is_empty(), "nothing is thrown away");
        self.spare = Some(batch);
    }

    /// Sends what was collected, and wakes the other shard if it sleeps.
    pub(super) fn send(&mut self) {
        if self.outgoing.is_empty() {
            return;
        }
        let next = self.spare.take().unwrap_or_default();
        // Whoever has ended serves nothing, and nobody waits for it.
        let _ended = self.sender.send(std::mem::replace(&mut self.outgoing, next));
        self.bell.ring();
    }

    /// Wakes the other shard if it sleeps.
    pub(super) fn wake(&self) {
        self.bell.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Command;

    fn order(whole: u32) -> Order {
        let piece = Piece {
            command: Command::Flush,
            flags: 0,
            offset_bytes: 0,
            length_bytes: 0,
            cooperator: None,
        };
        Order { place: Place::Single(whole), piece, buffer: vec![] }
    }

    #[test]
    fn orders_beyond_the_bound_wait_and_keep_their_order() {
        let bells = [(); 2].map(|()| Arc::new(Bell::new().unwrap()));
        let (mut one, mut other) = Link::pair(&bells[0], &bells[1]);
        let count = u32::try_from(ORDERS_MAX).unwrap() + 10;
        (0..count).for_each(|whole| one.order(order(whole)));
        let mut seen = 0;
        loop {
            one.send();
            let Some(mut batch) = other.next_batch() else { break };
            assert!(batch.orders.len() <= ORDERS_MAX);
            for Order { place, .. } in batch.orders.drain(..) {
                assert_eq!(place, Place::Single(seen));
                seen += 1;
                let (outcome, given, spare) = (Ok(()), Given::Nothing, vec![]);
                other.answer(Served { place, outcome, found: None, given, spare });
            }
            other.keep(batch);
            other.send();
            let mut answers = one.next_batch().expect("every order is answered");
            answers.served.clear();
            one.keep(answers);
        }
        assert_eq!(seen, count);
        assert_eq!(one.unanswered, 0);
    }

    #[test]
    fn only_who_sleeps_is_woken() {
        let bell = Bell::new().unwrap();
        let mut counter = [0; 8];
        bell.ring();
        assert!(rustix::io::read(&bell.event, &mut counter).is_err(), "it is awake");
        bell.lie_down();
        bell.ring();
        bell.ring();
        assert_eq!(rustix::io::read(&bell.event, &mut counter), Ok(8));
        assert_eq!(u64::from_ne_bytes(counter), 1, "once is enough");
        bell.lie_down();
        bell.get_up();
        bell.ring();
        assert!(rustix::io::read(&bell.event, &mut counter).is_err());
    }
}
