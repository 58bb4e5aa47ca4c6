//! When the copies of blocks were used last, for tiers that keep them for a time.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec;
use core::cmp::Reverse;

use crate::{Nanos, PageId};

/// When the copies of blocks were used last.
#[derive(Clone, Debug)]
pub(super) struct Ages {
    /// Per place and block; of use while the place holds the block.
    last_uses: Box<[Nanos]>,
    pages: usize,
    /// Per place: how long it keeps a copy, and its copies, the one first that may be oldest.
    places: Box<[(Option<Nanos>, BinaryHeap<Reverse<(Nanos, PageId)>>)]>,
    /// Per block, a bit for each place in whose heap it is.
    queued: Box<[u64]>,
}

impl Ages {
    pub(super) fn new(pages: u32, ttls: impl Iterator<Item = Option<Nanos>>) -> Self {
        let places: Box<[_]> = ttls.map(|ttl| (ttl, BinaryHeap::new())).collect();
        let pages = pages as usize;
        Self {
            last_uses: vec![Nanos(0); pages * places.len()].into_boxed_slice(),
            pages,
            places,
            queued: vec![0; pages].into_boxed_slice(),
        }
    }

    pub(super) fn last_use(&self, place: usize, page: PageId) -> Nanos {
        self.last_uses[place * self.pages + page.index()]
    }

    /// A copy was made or used, `at` being its last use so far.
    pub(super) fn set(&mut self, place: usize, page: PageId, at: Nanos) {
        self.last_uses[place * self.pages + page.index()] = at;
        let (ttl, heap) = &mut self.places[place];
        let queued = &mut self.queued[page.index()];
        if ttl.is_some() && *queued & 1 << place == 0 {
            *queued |= 1 << place;
            heap.push(Reverse((at, page)));
        }
    }

    /// The next copy of a place that is too old at `now`. The caller drops it.
    pub(super) fn next_expired(
        &mut self,
        place: usize,
        now: Nanos,
        is_held: impl Fn(PageId) -> bool,
    ) -> Option<PageId> {
        let ttl = self.places[place].0?;
        let is_old = |last: Nanos| now.0.saturating_sub(last.0) > ttl.0;
        loop {
            let heap = &mut self.places[place].1;
            let &Reverse((noted, page)) = heap.peek()?;
            if !is_old(noted) {
                return None;
            }
            heap.pop();
            self.queued[page.index()] &= !(1 << place);
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
