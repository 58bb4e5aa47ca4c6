//! Number of times that requests used a block, for tiers that admit only blocks of several uses.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::policy::multi::Stack;
use crate::queue::Use;
use crate::{Ids, PageId};

/// Number of times that requests used each block since a tier or the ghosts have held it.
#[derive(Clone, Debug)]
pub(super) struct Uses {
    counts: Box<[u32]>,
    /// Blocks that left all tiers and keep their counts, the last to leave first.
    ghosts: Stack,
    ghosts_max: u32,
    /// Blocks that may have left all tiers during this request.
    leaving: Vec<PageId>,
}

impl Uses {
    pub(super) fn new(pages: u32, ghosts_max: u32) -> Self {
        let ghosts_max = ghosts_max.min(pages);
        Self {
            counts: vec![0; pages as usize].into_boxed_slice(),
            ghosts: Stack::new(Ids::dense(pages), ghosts_max.saturating_add(1), Use::Leaky),
            ghosts_max,
            leaving: Vec::new(),
        }
    }

    /// Counts a request.
    pub(super) fn count(&mut self, chain: &[PageId]) {
        for page in chain {
            let count = &mut self.counts[page.index()];
            *count = count.saturating_add(1);
        }
        self.leaving.extend_from_slice(chain);
    }

    pub(super) fn of(&self, page: PageId) -> u32 {
        self.counts[page.index()]
    }

    /// Note that a place gave a block up.
    pub(super) fn note_departure(&mut self, page: PageId) {
        self.leaving.push(page);
    }

    /// End a request: blocks that are nowhere become ghosts, and the oldest ghosts
    /// are forgotten.
    pub(super) fn settle(&mut self, is_held: impl Fn(PageId) -> bool) {
        self.leaving.sort_unstable();
        self.leaving.dedup();
        for &page in &self.leaving {
            if self.ghosts.contains(page) {
                self.ghosts.remove(page);
            }
        }
        for page in self.leaving.drain(..).filter(|&page| !is_held(page)) {
            self.ghosts.make_newest(page);
            if self.ghosts.len() > self.ghosts_max {
                let forgotten = self.ghosts.take_oldest().expect("an over-full list has a block");
                self.counts[forgotten.index()] = 0;
            }
        }
    }

    pub(super) fn assert_invariants(&self, is_held: impl Fn(PageId) -> bool) {
        self.ghosts.assert_invariants();
        assert!(self.ghosts.len() <= self.ghosts_max, "ghosts are as many as are kept");
        for (id, &count) in (0..).zip(&self.counts) {
            let is_known = is_held(PageId(id)) || self.ghosts.contains(PageId(id));
            assert_eq!(count > 0, is_known, "a use is counted while a tier or the ghosts know it");
        }
    }
}
