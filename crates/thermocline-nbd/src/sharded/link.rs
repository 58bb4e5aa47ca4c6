//! What two shards send each other: bounded queues in both directions, and a bell for who sleeps.
//!
//! Nobody waits for a queue: a shard has at most [`ORDERS_MAX`] orders with another one that are not
//! answered, so orders and answers always find room.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rustix::event::{EventfdFlags, eventfd};
use thermocline_core::Tier;

use crate::protocol::{ErrorCode, Extent};
use crate::service::Piece;

/// Orders of one shard to another that are not answered, at most.
const ORDERS_MAX: usize = 1024;

/// Which part of which request of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) whole: u32,
    pub(super) part: u32,
}

/// A part that another shard serves.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) place: Place,
    pub(super) piece: Piece,
    /// The bytes of a write; room for those of a read.
    pub(super) buffer: Vec<u8>,
}

/// What a part gives besides its outcome.
#[derive(Debug, Default)]
pub(super) enum Given {
    #[default]
    Nothing,
    /// The bytes of a read.
    Bytes(Vec<u8>),
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

    /// Its shard is about to sleep; what was sent before this it must look for itself.
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

/// A shard's end of what it shares with another one.
#[derive(Debug)]
pub(super) struct Link {
    to_serve: SyncSender<Order>,
    served: Receiver<Served>,
    orders: Receiver<Order>,
    answers: SyncSender<Served>,
    /// The other one's.
    bell: Arc<Bell>,
    /// Something was sent since it was rung.
    must_ring: bool,
    unanswered: usize,
    /// Orders beyond [`ORDERS_MAX`].
    waiting: VecDeque<Order>,
}

impl Link {
    /// Both ends, for two shards with these bells.
    pub(super) fn pair(one: &Arc<Bell>, other: &Arc<Bell>) -> (Self, Self) {
        let (asks_of_one, taken_by_other) = sync_channel(ORDERS_MAX);
        let (asks_of_other, taken_by_one) = sync_channel(ORDERS_MAX);
        let (given_by_one, back_at_other) = sync_channel(ORDERS_MAX);
        let (given_by_other, back_at_one) = sync_channel(ORDERS_MAX);
        let end = |to_serve, served, orders, answers, bell: &Arc<Bell>| Self {
            to_serve,
            served,
            orders,
            answers,
            bell: Arc::clone(bell),
            must_ring: false,
            unanswered: 0,
            waiting: VecDeque::new(),
        };
        let first = end(asks_of_one, back_at_one, taken_by_one, given_by_one, other);
        let second = end(asks_of_other, back_at_other, taken_by_other, given_by_other, one);
        (first, second)
    }

    /// Has the other shard serve a part.
    pub(super) fn order(&mut self, order: Order) {
        if self.unanswered == ORDERS_MAX {
            self.waiting.push_back(order);
            return;
        }
        self.unanswered += 1;
        self.must_ring = true;
        // Whoever has ended serves nothing, and nobody waits for it.
        let _ended = self.to_serve.try_send(order);
    }

    /// Answers an order of the other shard.
    pub(super) fn answer(&mut self, served: Served) {
        self.must_ring = true;
        let _ended = self.answers.try_send(served);
    }

    /// The next order of the other shard.
    pub(super) fn next_order(&self) -> Option<Order> {
        self.orders.try_recv().ok()
    }

    /// The next part that the other shard has served.
    pub(super) fn next_served(&mut self) -> Option<Served> {
        let served = self.served.try_recv().ok()?;
        self.unanswered -= 1;
        if let Some(order) = self.waiting.pop_front() {
            self.order(order);
        }
        Some(served)
    }

    /// Wakes the other shard if it sleeps and something was sent.
    pub(super) fn ring(&mut self) {
        if std::mem::take(&mut self.must_ring) {
            self.bell.ring();
        }
    }

    /// Wakes the other shard if it sleeps.
    pub(super) fn wake(&mut self) {
        self.must_ring = true;
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Command;

    fn order(whole: u32) -> Order {
        let piece = Piece { command: Command::Flush, flags: 0, offset_bytes: 0, length_bytes: 0 };
        Order { place: Place { whole, part: 0 }, piece, buffer: vec![] }
    }

    #[test]
    fn orders_beyond_the_bound_wait_and_keep_their_order() {
        let bells = [(); 2].map(|()| Arc::new(Bell::new().unwrap()));
        let (mut one, mut other) = Link::pair(&bells[0], &bells[1]);
        let count = u32::try_from(ORDERS_MAX).unwrap() + 10;
        (0..count).for_each(|whole| one.order(order(whole)));
        let mut seen = 0;
        while let Some(Order { place, .. }) = other.next_order() {
            assert_eq!(place.whole, seen);
            seen += 1;
            let (outcome, given, spare) = (Ok(()), Given::Nothing, vec![]);
            other.answer(Served { place, outcome, found: None, given, spare });
            assert_eq!(one.next_served().map(|served| served.place), Some(place));
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
