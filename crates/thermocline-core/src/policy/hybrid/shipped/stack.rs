//! A cache of the block layer, and the page cache above it.
//!
//! The caches of the kernel have no memory of their own: a request reaches them when the page cache
//! has missed, or evicts a dirty page. With a RAM tier, this page cache is LRU and writes back;
//! without one, every access is a request.
//!
//! * Source: none; what all caches of the block layer share.
//! * State: the page cache 20 bytes per page of RAM, and 4 per page that exists (14 and none where
//!   memory is saved).
//! * Cost: that of the cache below.
//! * Deviations: (1) The page cache is LRU over clean and dirty pages, and has no writeback by time. (2)
//!   A request is one page.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Debug;

use super::time::Time;
use crate::config::Values;
use crate::queue::Recency;
use crate::{
    Access, Actions, Nanos, Op, PageId, Policy, Run, RunLengths, Setup, Survivor, Tier, WriteMiss,
};

/// One page, asked of a block cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) page: PageId,
    pub(super) op: Op,
    /// `true` if the page cache evicts the page, which another task does than the one that reads.
    pub(super) is_eviction: bool,
    /// The sequential run that the request ends, if the driver says so, because the run has gaps in a
    /// sample.
    pub(super) run: Option<Run>,
    pub(super) now: Nanos,
}

/// Destination to which a block cache routes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Flash serves it.
    Flash,
    /// The disk serves it. A copy on flash that a write leaves behind is dropped.
    Disk,
    /// The disk serves a read, and the buffer of the read is written to flash; or a write goes to both.
    Both,
}

/// A cache on flash that gets what the page cache does not keep.
///
/// A request comes in two steps: [`request`](Self::request) decides, the stack moves the page, and
/// [`settle`](Self::settle) does what the cache does on its own account afterwards.
pub(super) trait BlockCache: Debug + Send + 'static {
    /// Return `true` if flash holds the page, in the newest version that the cache has seen.
    fn holds(&self, page: PageId) -> bool;

    /// Decides about a request, and makes room for it.
    fn request(&mut self, request: Request, out: &mut Actions) -> Route;

    /// Works on after a request.
    fn settle(&mut self, _request: Request, _out: &mut Actions) {}

    /// Works while no request came for a time.
    fn idle(&mut self, _idle: Nanos, _now: Nanos, _out: &mut Actions) {}

    /// Writes back all that is dirty.
    fn flush(&mut self, out: &mut Actions);

    /// Restore the survivors; see [`Policy`].
    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions);

    /// Prefetch the state of a page; see [`Policy`].
    fn prefetch(&self, _page: PageId) {}

    /// Assert the invariants; see [`Policy`].
    fn assert_invariants(&self);

    /// Return the size of the state in bytes; see [`Policy`].
    fn memory_bytes(&self) -> usize;
}

/// State bit of a page in memory: it is there.
const RESIDENT: u8 = 1;
/// State bit of a page in memory: newer than below.
const DIRTY: u8 = 1 << 1;

/// The only class of the memory's queue: every page of it.
const ANY: usize = 0;

/// A page cache above a block cache.
#[derive(Debug)]
pub(super) struct Stack<C> {
    memory: Recency<1>,
    memory_pages: u32,
    cache: C,
    time: Time,
    write_miss: WriteMiss,
    run_lengths: Option<Arc<RunLengths>>,
    /// Number of accesses so far.
    accesses: usize,
}

impl<C: BlockCache> Stack<C> {
    pub(super) fn new(setup: &Setup, values: &Values, cache: C) -> Self {
        let memory_pages = setup.capacity_pages[0];
        Self {
            memory: Recency::new(setup.ids(), memory_pages.saturating_add(1), [u8::MAX]),
            memory_pages,
            cache,
            time: Time::new(values),
            write_miss: setup.write_miss,
            run_lengths: setup.inputs.run_lengths.clone(),
            accesses: 0,
        }
    }

    /// Return the run that the current access ends, if the driver says so.
    fn run(&self) -> Option<Run> {
        self.run_lengths.as_ref().map(|lengths| lengths.of(self.accesses - 1))
    }

    fn found(&self, page: PageId) -> Tier {
        if self.cache.holds(page) { Tier::FLASH } else { Tier::DISK }
    }

    /// Pass an access to the block cache directly, because there is no page cache.
    fn pass(&mut self, Access { page, op, .. }: Access, now: Nanos, out: &mut Actions) {
        let found = self.found(page);
        let run = self.run();
        let request = Request { page, op, is_eviction: false, run, now };
        match self.cache.request(request, out) {
            Route::Flash => out.serve(page, op, found, Tier::FLASH),
            Route::Disk => {
                out.serve(page, op, found, Tier::DISK);
                if op == Op::Write && found == Tier::FLASH {
                    out.drop_copy(page, Tier::FLASH);
                }
            }
            Route::Both => {
                if op == Op::Read {
                    out.copy(page, Tier::DISK, Tier::RAM);
                }
                out.serve(page, op, found, Tier::RAM);
                out.copy(page, Tier::RAM, Tier::FLASH);
                if op == Op::Write {
                    out.copy(page, Tier::RAM, Tier::DISK);
                }
                out.drop_copy(page, Tier::RAM);
            }
        }
        self.cache.settle(request, out);
    }

    /// Reads a page that memory lacks into it.
    fn fetch(&mut self, page: PageId, now: Nanos, out: &mut Actions) {
        let run = self.run();
        let request = Request { page, op: Op::Read, is_eviction: false, run, now };
        match self.cache.request(request, out) {
            Route::Flash => out.copy(page, Tier::FLASH, Tier::RAM),
            Route::Disk => out.copy(page, Tier::DISK, Tier::RAM),
            Route::Both => {
                out.copy(page, Tier::DISK, Tier::RAM);
                out.copy(page, Tier::RAM, Tier::FLASH);
            }
        }
        self.cache.settle(request, out);
    }

    /// Sends a dirty page of memory to the block cache.
    fn write_down(&mut self, page: PageId, now: Nanos, out: &mut Actions) {
        let found = self.found(page);
        let request = Request { page, op: Op::Write, is_eviction: true, run: None, now };
        let route = self.cache.request(request, out);
        if route != Route::Disk {
            out.copy(page, Tier::RAM, Tier::FLASH);
        }
        if route != Route::Flash {
            out.copy(page, Tier::RAM, Tier::DISK);
        }
        if route == Route::Disk && found == Tier::FLASH {
            out.drop_copy(page, Tier::FLASH);
        }
        self.cache.settle(request, out);
    }
}

impl<C: BlockCache> Policy for Stack<C> {
    fn access(&mut self, access: Access, out: &mut Actions) {
        let Access { page, op, .. } = access;
        let now = self.time.access();
        self.accesses += 1;
        if self.memory_pages == 0 {
            return self.pass(access, now, out);
        }
        let dirty = if op == Op::Write { DIRTY } else { 0 };
        if self.memory.touch_with(page, |state, _| state | RESIDENT | dirty) != 0 {
            out.serve(page, op, Tier::RAM, Tier::RAM);
            return;
        }
        let found = self.found(page);
        if self.write_miss.fetches(op) {
            self.fetch(page, now, out);
        }
        out.serve(page, op, found, Tier::RAM);
        if self.memory.len() > self.memory_pages {
            let (position, state) =
                self.memory.oldest(ANY).expect("an over-full memory has a page");
            let victim = self.memory.page(position);
            self.memory.set_state(position, 0);
            if state & DIRTY != 0 {
                self.write_down(victim, now, out);
            }
            out.drop_copy(victim, Tier::RAM);
        }
    }

    fn background(&mut self, now: Nanos, out: &mut Actions) {
        let last = self.time.now();
        let now = self.time.reach(now);
        self.cache.idle(Nanos(now.0.saturating_sub(last.0)), now, out);
    }

    fn flush(&mut self, out: &mut Actions) {
        let mut dirty = Vec::new();
        self.memory.update_states(|page, state| {
            if state & DIRTY != 0 {
                dirty.push(page);
            }
            state & !DIRTY
        });
        let now = self.time.now();
        for page in dirty {
            self.write_down(page, now, out);
        }
        self.cache.flush(out);
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        self.cache.restore(survivors, out);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.memory.prefetch(page);
        self.cache.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.memory.assert_invariants();
        assert!(self.memory.len() <= self.memory_pages, "pages in memory fit it");
        self.cache.assert_invariants();
    }

    fn memory_bytes(&self) -> usize {
        self.memory.memory_bytes() + self.cache.memory_bytes()
    }
}
