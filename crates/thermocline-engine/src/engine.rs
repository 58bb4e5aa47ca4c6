//! A shard with its driver.

use std::os::fd::BorrowedFd;

use thermocline_core::policy::multi::split::Hint;

use crate::driver::memory::MemoryDriver;
use crate::driver::{Completion, Driver, Recall, Sent};
use crate::lent::Lent;
use crate::options::{Leaving, Options, OptionsError};
use crate::request::{Reply, Request, SubmitError};
use crate::shard::{Cooperator, Pushed, Shard};

/// A shard with its driver: requests in, replies out.
///
/// After requests were submitted, [`poll`](Self::poll) or [`wait`](Self::wait) moves operations and
/// completions between the two; [`next_reply`](Self::next_reply) then gives what is answered. What RAM
/// answers is there at once.
#[derive(Debug)]
pub struct Engine<D> {
    shard: Shard,
    driver: D,
    done: Vec<Completion>,
}

impl Engine<MemoryDriver> {
    /// Create an empty cache whose flash and backing store are in memory, to try policies and to
    /// test with.
    ///
    /// # Errors
    /// As for [`Shard::new`].
    ///
    /// # Panics
    /// If the backing store is larger than the address space.
    pub fn in_memory(options: Options) -> Result<Self, OptionsError> {
        let size_bytes = usize::try_from(options.size_bytes()).expect("it fits memory");
        let shard = Shard::new(options)?;
        let driver = MemoryDriver::new(shard.frames(), shard.flash_bytes(), size_bytes);
        Ok(Self::new(shard, driver))
    }
}

impl<D: Driver> Engine<D> {
    /// Puts the two together. The driver performs the operations of no other shard.
    pub fn new(shard: Shard, driver: D) -> Self {
        Self { shard, driver, done: vec![] }
    }

    /// Return the shard.
    pub const fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Return the shard, to be told the time, other policies or modes.
    pub const fn shard_mut(&mut self) -> &mut Shard {
        &mut self.shard
    }

    /// Return the driver.
    pub const fn driver(&mut self) -> &mut D {
        &mut self.driver
    }

    /// Return the descriptor of the driver; see [`Driver::wake_fd`].
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.driver.wake_fd()
    }

    /// Return the shard and the driver.
    pub fn into_parts(self) -> (Shard, D) {
        (self.shard, self.driver)
    }

    /// Takes a request; see [`Shard::submit`].
    ///
    /// # Errors
    /// As for [`Shard::submit`].
    #[inline]
    pub fn submit(&mut self, request: Request, payload: &[u8]) -> Result<(), SubmitError> {
        self.keep_current();
        self.shard.submit(request, payload)
    }

    /// Takes a request of a client that keeps the pages; see [`Shard::submit_of`].
    ///
    /// # Errors
    /// As [`Shard::submit_of`].
    pub fn submit_of(
        &mut self,
        cooperator: Cooperator,
        request: Request,
        payload: &[u8],
    ) -> Result<(), SubmitError> {
        self.shard.submit_of(cooperator, request, payload)
    }

    /// Return the next reply, if there is one; to be given back with [`release`](Self::release).
    #[inline]
    pub fn next_reply(&mut self) -> Option<Reply> {
        self.shard.next_reply()
    }

    /// Return the bytes of a read, piece by piece.
    ///
    /// # Panics
    /// If the reply is another engine's.
    #[inline]
    pub fn pieces<'a>(&'a self, reply: &'a Reply) -> impl ExactSizeIterator<Item = &'a [u8]> {
        self.shard.pieces(reply)
    }

    /// Lend a reply to another thread; see [`Shard::lend`].
    ///
    /// # Panics
    /// If the reply is another engine's.
    #[inline]
    pub fn lend(&self, reply: Reply) -> Lent {
        self.shard.lend(reply)
    }

    /// Gives the frames of a reply back.
    ///
    /// # Panics
    /// If the reply is another engine's.
    #[inline]
    pub fn release(&mut self, reply: Reply) {
        self.shard.release(reply);
    }

    /// Hands operations to the driver and completions to the shard, until neither has more at this
    /// time. Returns `true` if anything happened.
    pub fn poll(&mut self) -> bool {
        let mut has_moved = false;
        loop {
            while let Some(operation) = self.shard.next_operation() {
                if let Some(hint) = self.shard.take_hint() {
                    self.driver.tell(hint);
                }
                self.driver.start(operation);
                has_moved = true;
            }
            let driver = &mut self.driver;
            let mut leave = |hint: Option<Hint>, offset, content: Option<&[u8]>| {
                if let Some(hint) = hint {
                    driver.tell_with_leaving(hint);
                }
                driver.leave(offset, content);
            };
            while self.shard.next_leaving(&mut leave) {
                has_moved = true;
            }
            self.driver.poll(&mut self.done);
            let is_any = self.take_completions() | self.take_pushes();
            if !self.take_recalls() && !is_any {
                return has_moved;
            }
            has_moved = true;
        }
    }

    /// Work as `turn` does, but wait for a completion if operations are in flight and none is
    /// complete.
    pub fn wait(&mut self) {
        if self.poll() {
            return;
        }
        self.driver.wait(&mut self.done);
        self.take_completions();
        self.poll();
    }

    /// Wait until nothing is in flight or wanted.
    pub fn wait_until_idle(&mut self) {
        while !self.shard.is_idle() {
            self.wait();
        }
    }

    /// Gives up what may be older than what the backing store has.
    #[inline]
    fn keep_current(&mut self) {
        let may_be_older = self.shard.options().leaving != Leaving::Silent;
        if may_be_older && !self.driver.is_current() {
            self.shard.give_up_all();
        }
    }

    /// Takes the pages that the driver was sent. Returns whether there were any.
    fn take_pushes(&mut self) -> bool {
        let mut is_any = false;
        while let Some(Sent { offset_bytes, number, content }) = self.driver.next_push() {
            is_any = true;
            let page = offset_bytes / u64::from(self.shard.options().page_bytes);
            if !self.shard.take_pushed(Pushed { page, number }, &content) {
                self.driver.leave(offset_bytes, None);
            }
        }
        is_any
    }

    /// Gives up the pages that the driver was told to recall. Returns whether there were any.
    fn take_recalls(&mut self) -> bool {
        let mut is_any = false;
        while let Some(recall) = self.driver.next_recall() {
            is_any = true;
            match recall {
                Recall::All => self.shard.give_up_all(),
                Recall::Page(offset_bytes) => {
                    let page = offset_bytes / u64::from(self.shard.options().page_bytes);
                    self.shard.give_up(page);
                }
            }
        }
        is_any
    }

    fn take_completions(&mut self) -> bool {
        // Answers before completions: if the page is to stay, RAM must keep the bytes that the
        // completion brings.
        while let Some((offset_bytes, answer)) = self.driver.next_answer() {
            let page = offset_bytes / u64::from(self.shard.options().page_bytes);
            self.shard.take_answer(page, answer);
        }
        let is_any = !self.done.is_empty();
        for (operation, result) in self.done.drain(..) {
            self.shard.complete(operation, result);
        }
        is_any
    }
}
