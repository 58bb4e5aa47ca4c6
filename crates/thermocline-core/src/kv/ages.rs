//! Ages of blocks' copies, for tiers that keep a copy for a limited time.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec;
use core::cmp::Reverse;

use crate::{Nanos, PageId};

/// Time of last use of each block's copies.
#[derive(Clone, Debug)]
pub(super) struct Ages {
    /// Per place and block; of use while the place holds the block.
    last_uses: Box<[Nanos]>,
    pages: usize,
    places: Box<[Queue]>,
    /// Per place and block: the earliest time with which it is in the heap, or [`NOT_QUEUED`].
    noted: Box<[Nanos]>,
}

/// The copies of a place.
#[derive(Clone, Debug)]
struct Queue {
    /// Time that the tier keeps a copy after its last use.
    ttl: Option<Nanos>,
    /// The copy first that may be oldest.
    oldest: BinaryHeap<Reverse<(Nanos, PageId)>>,
}

/// A time for blocks that are in no heap.
const NOT_QUEUED: Nanos = Nanos(u64::MAX);

impl Ages {
    pub(super) fn new(pages: u32, ttls: impl Iterator<Item = Option<Nanos>>) -> Self {
        let places: Box<[_]> = ttls.map(|ttl| Queue { ttl, oldest: BinaryHeap::new() }).collect();
        let pages = pages as usize;
        let copies = pages * places.len();
        Self {
            last_uses: vec![Nanos(0); copies].into_boxed_slice(),
            pages,
            places,
            noted: vec![NOT_QUEUED; copies].into_boxed_slice(),
        }
    }

    pub(super) fn last_use(&self, place: usize, page: PageId) -> Nanos {
        self.last_uses[place * self.pages + page.index()]
    }

    /// Note that a copy was made or used; `at` is its last use so far.
    pub(super) fn set(&mut self, place: usize, page: PageId, at: Nanos) {
        let copy = place * self.pages + page.index();
        self.last_uses[copy] = at;
        let Queue { ttl, oldest } = &mut self.places[place];
        // A copy that another engine hands down may have been used earlier than the one before it.
        if ttl.is_some() && at < self.noted[copy] {
            self.noted[copy] = at;
            oldest.push(Reverse((at, page)));
        }
    }

    /// Return the next copy of a place that is too old at `now`. The caller drops it.
    pub(super) fn next_expired(
        &mut self,
        place: usize,
        now: Nanos,
        is_held: impl Fn(PageId) -> bool,
    ) -> Option<PageId> {
        let ttl = self.places[place].ttl?;
        let is_old = |last: Nanos| now.0.saturating_sub(last.0) > ttl.0;
        loop {
            let oldest = &mut self.places[place].oldest;
            let &Reverse((noted, page)) = oldest.peek()?;
            if !is_old(noted) {
                return None;
            }
            oldest.pop();
            let copy = place * self.pages + page.index();
            if self.noted[copy] != noted {
                continue;
            }
            self.noted[copy] = NOT_QUEUED;
            if !is_held(page) {
                continue;
            }
            let last = self.last_use(place, page);
            if is_old(last) {
                return Some(page);
            }
            self.set(place, page, last);
        }
    }
}
