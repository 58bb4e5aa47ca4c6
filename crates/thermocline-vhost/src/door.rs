//! The rings of a shard, as a door to what it serves.

use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use thermocline_nbd::doors::{Asked, Door};
use thermocline_nbd::protocol::ErrorCode;
use vm_memory::GuestMemoryMmap;

use crate::block::Device;
use crate::ring::Ring;

/// Changes by the conversation with the monitor, and their waiters.
#[derive(Debug)]
pub(crate) enum Order {
    /// A ring begins.
    Start { queue: usize, ring: Box<Ring>, done: SyncSender<bool> },
    /// A ring takes no more requests, and is given up when all are answered; returns where it stopped.
    Stop { queue: usize, done: SyncSender<Option<u16>> },
    /// The guest's memory is another one.
    Memory { memory: Arc<GuestMemoryMmap>, done: SyncSender<bool> },
    /// Descriptor that signals a ring's answers from now on.
    Call { queue: usize, call: Option<std::fs::File>, done: SyncSender<bool> },
    /// A ring is looked at, or is not.
    Enable { queue: usize, is_enabled: bool, done: SyncSender<bool> },
}

/// Sends orders to the thread of a shard.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    orders: Sender<Order>,
    bell: Arc<OwnedFd>,
}

impl Mailbox {
    /// Returns `true` if the thread is still there.
    pub(crate) fn send(&self, order: Order) -> bool {
        let is_there = self.orders.send(order).is_ok();
        // A full counter is readable as well.
        let _full = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        is_there
    }
}

/// A ring at its place.
#[derive(Debug)]
struct Place {
    ring: Ring,
    /// Waiter for it to come to rest.
    stopping: Option<SyncSender<Option<u16>>>,
}

/// The rings of virtual machines that a shard serves.
#[derive(Debug)]
pub struct VhostDoor {
    device: Arc<Device>,
    orders: Receiver<Order>,
    bell: Arc<OwnedFd>,
    poller: OwnedFd,
    /// Places by the numbers of the rings.
    rings: Vec<Option<Place>>,
    /// Index of the next ring to serve.
    next: usize,
    is_closed: bool,
}

impl VhostDoor {
    pub(crate) fn new(device: &Arc<Device>) -> std::io::Result<(Self, Mailbox)> {
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let poller = epoll::create(CreateFlags::CLOEXEC)?;
        // Nothing is read from what it watches: an event comes with each write.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&poller, &*bell, EventData::new_u64(0), flags)?;
        let (sender, orders) = channel();
        let mailbox = Mailbox { orders: sender, bell: Arc::clone(&bell) };
        let (rings, device) = (vec![], Arc::clone(device));
        Ok((Self { device, orders, bell, poller, rings, next: 0, is_closed: false }, mailbox))
    }

    fn place(&mut self, queue: usize) -> Option<&mut Place> {
        self.rings.get_mut(queue)?.as_mut()
    }

    /// Carry out the orders.
    fn obey(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Start { queue, ring, done } => {
                    let flags = EventFlags::IN | EventFlags::ET;
                    let token = EventData::new_u64(queue as u64);
                    let is_watched = epoll::add(&self.poller, &ring.kick, token, flags).is_ok();
                    if is_watched {
                        if self.rings.len() <= queue {
                            self.rings.resize_with(queue + 1, || None);
                        }
                        self.rings[queue] = Some(Place { ring: *ring, stopping: None });
                    }
                    tell(&done, is_watched);
                }
                Order::Stop { queue, done } => match self.place(queue) {
                    Some(place) => place.stopping = Some(done),
                    None => tell(&done, None),
                },
                Order::Memory { memory, done } => {
                    for place in self.rings.iter_mut().flatten() {
                        place.ring.set_memory(&memory);
                    }
                    tell(&done, true);
                }
                Order::Call { queue, call, done } => {
                    let is_there = self.place(queue).map(|place| place.ring.call = call).is_some();
                    tell(&done, is_there);
                }
                Order::Enable { queue, is_enabled, done } => {
                    let place = self.place(queue);
                    let is_there = place.map(|place| place.ring.enable(is_enabled)).is_some();
                    tell(&done, is_there);
                }
            }
            self.let_go();
        }
    }

    /// Gives up rings that are to stop and have come to rest.
    fn let_go(&mut self) {
        for place in &mut self.rings {
            let is_over =
                place.as_ref().is_some_and(|it| it.stopping.is_some() && it.ring.is_idle());
            if let Some(Place { mut ring, stopping }) = place.take_if(|_| is_over) {
                // All answers are signalled before the monitor hears that the ring has stopped.
                ring.tell();
                // The monitor has the descriptor as well: closing ours would not end the watch.
                let _gone = epoll::delete(&self.poller, &ring.kick);
                if let Some(done) = stopping {
                    tell(&done, Some(ring.next_available()));
                }
            }
        }
    }

    fn ring_of(&mut self, ticket: u64) -> (&mut Ring, u32) {
        let queue = usize::try_from(ticket >> 32).expect("the number of a ring");
        let number = u32::try_from(ticket & u64::from(u32::MAX)).expect("32 bits");
        let place = self.place(queue).expect("a ring with requests in flight stays");
        (&mut place.ring, number)
    }
}

/// Says what became of an order; who waits for that may have gone.
fn tell<T>(done: &SyncSender<T>, what: T) {
    if done.send(what).is_err() {
        tracing::debug!("the command that ordered a change no longer waits for the result");
    }
}

impl Door for VhostDoor {
    fn descriptor(&self) -> RawFd {
        self.poller.as_raw_fd()
    }

    fn next_request(&mut self, payload: &mut Vec<u8>) -> Option<Asked> {
        self.obey();
        if self.is_closed {
            return None;
        }
        for _ in 0..self.rings.len() {
            let queue = self.next % self.rings.len();
            self.next = queue + 1;
            let Some(Place { ring, stopping: None }) = &mut self.rings[queue] else { continue };
            if let Some((number, piece)) = ring.next(&self.device, payload) {
                let ticket = (queue as u64) << 32 | u64::from(number);
                return Some(Asked { ticket, piece });
            }
        }
        None
    }

    fn give(&mut self, ticket: u64, start_bytes: u32, bytes: &[u8]) {
        let (ring, number) = self.ring_of(ticket);
        ring.give(number, start_bytes, bytes);
    }

    fn answer(&mut self, ticket: u64, outcome: Result<(), ErrorCode>) {
        let (ring, number) = self.ring_of(ticket);
        ring.answer(number, outcome);
    }

    fn end_turn(&mut self) {
        self.rings.iter_mut().flatten().for_each(|place| place.ring.tell());
        self.let_go();
    }

    fn may_sleep(&mut self) -> bool {
        // Events until now are seen by looking at the rings.
        let mut events = [const { std::mem::MaybeUninit::<Event>::uninit() }; 16];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _interrupted = epoll::wait(&self.poller, &mut events[..], Some(&now)).is_err();
        // Emptied before orders are taken: one that comes later makes the descriptor readable again.
        let mut counter = [0; 8];
        let _empty = rustix::io::read(&*self.bell, &mut counter);
        self.obey();
        let places = self.rings.iter_mut().flatten().filter(|place| place.stopping.is_none());
        let is_closed = self.is_closed;
        places.fold(true, |one, place| one & (is_closed || place.ring.wait()))
    }

    fn close(&mut self) {
        self.is_closed = true;
    }
}
