//! FIFO: evict the page that came first.
//!
//! * Source: the classical algorithm.
//! * State: 4 bytes per page that exists, 4 bytes per cached page.
//! * Cost: O(1) per reference.
//! * Deviations: none.

use alloc::vec;
use alloc::vec::Vec;

use super::{Outcome, Replacement, Space};
use crate::config::Values;
use crate::prefetch::prefetch;
use crate::{Op, PageId};

/// The frame of a page that is not in the cache; the page of a frame that is empty.
const NONE: u32 = u32::MAX;

/// First in, first out.
#[derive(Clone, Debug)]
pub struct Fifo {
    /// Per page: its frame, or [`NONE`].
    frame_of: Vec<u32>,
    /// Per frame: its page, or [`NONE`].
    pages: Vec<u32>,
    /// The frame that is filled next: the oldest, once all are full.
    hand: u32,
}

impl Replacement for Fifo {
    fn new(space: Space, _values: &Values) -> Self {
        // Frames beyond the pages that exist would stay empty.
        let frames = space.capacity_pages.min(space.pages.max(1));
        Self {
            frame_of: vec![NONE; space.pages as usize],
            pages: vec![NONE; frames as usize],
            hand: 0,
        }
    }

    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        if self.frame_of[page.index()] != NONE {
            return Outcome::Hit;
        }
        self.frame_of[page.index()] = self.hand;
        let former = core::mem::replace(&mut self.pages[self.hand as usize], page.0);
        self.hand += 1;
        if self.hand as usize == self.pages.len() {
            self.hand = 0;
        }
        // The next to leave will be looked up soon.
        let coming = self.pages[self.hand as usize];
        prefetch(&self.frame_of, coming as usize);
        if former == NONE {
            return Outcome::Admitted { evicted: None };
        }
        self.frame_of[former as usize] = NONE;
        Outcome::Admitted { evicted: Some(PageId(former)) }
    }

    fn contains(&self, page: PageId) -> bool {
        self.frame_of[page.index()] != NONE
    }

    /// Its frame stays empty until the hand comes by.
    fn forget(&mut self, page: PageId) {
        let frame = core::mem::replace(&mut self.frame_of[page.index()], NONE);
        if let Some(former) = self.pages.get_mut(frame as usize) {
            *former = NONE;
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        prefetch(&self.frame_of, page.index());
    }

    fn assert_invariants(&self) {
        let mut held = 0;
        for (frame, &page) in (0_u32..).zip(&self.pages).filter(|&(_, &page)| page != NONE) {
            assert_eq!(self.frame_of[page as usize], frame, "the index points back");
            held += 1;
        }
        let indexed = self.frame_of.iter().filter(|&&frame| frame != NONE).count();
        assert_eq!(held, indexed, "every page of the index has a frame");
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&*self.frame_of) + size_of_val(&*self.pages)
    }
}
