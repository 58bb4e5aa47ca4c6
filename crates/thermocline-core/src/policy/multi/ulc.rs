//! ULC: one stack of pages by last use, and a yardstick per tier that says how far it reaches.
//!
//! A tier's yardstick is its least recently used page. A page is worth the fastest tier whose
//! yardstick is older than the page's last use: there it moves when it is used again (RETRIEVE).
//! That tier hands its yardstick to the next one, and so on down to where there is room (DEMOTE).
//! Pages used longer ago than all yardsticks, or for the first time, are worth no tier once all
//! are full: they are answered by the disk. So a loop longer than the caches does not flush them.
//!
//! * Source: Jiang and Zhang, *ULC: A File Block Placement and Replacement Protocol to Effectively
//!   Exploit Hierarchical Locality in Multi-level Buffer Caches*, ICDCS 2004, single-client case.
//! * State: 13 bytes per page that exists, 4 more per tier; 16 bytes per page of the stack.
//! * Cost: O(tiers * log n) per access; pruning the stack amortised O(log n).
//! * Deviations: (1) written from the protocol's idea, as no text of it could be read. (2) The
//!   stack is kept as times of last use, each tier as a heap of them. (3) The published client
//!   passes pages that are worth no tier through a few frames of their own; here they bypass all
//!   tiers, and a write of such a page goes to disk only. (4) The stack ends at the oldest
//!   yardstick; its uncached pages may be bounded further. (5) One client: for several, the authors
//!   rank the pages of the shared tier anew (gLRU), which is another algorithm.

use alloc::boxed::Box;
use alloc::vec;

use super::hierarchy::Hierarchy;
use crate::config::{Kind, Parameter, Value, Values};
use crate::queue::IndexedHeap;
use crate::{Access, Actions, BoxedPolicy, PageId, Policy, Setup, Survivor, Tier};

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[Parameter {
    name: "ghosts",
    kind: Kind::Real { min: 0.0, max: 1000.0 },
    default: Value::Auto,
    summary: "uncached pages in the stack, as a multiple of all cached pages; auto does not bound",
    source: "the protocol bounds the stack by its yardsticks only",
}];

/// ULC.
#[derive(Clone, Debug)]
pub struct Ulc {
    hierarchy: Hierarchy,
    /// Per tier: its pages by time of last use, the yardstick first; the disk's are those of the
    /// stack that no cache holds.
    tiers: Box<[IndexedHeap<u64>]>,
    /// Per page: the tier that holds it, or the disk.
    tier_of: Box<[Tier]>,
    /// Per page of the stack: when it was last used.
    used_at: Box<[u64]>,
    ghosts_max: usize,
    now: u64,
}

/// Builds the policy for the registry.
pub fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    let (hierarchy, pages) = (Hierarchy::new(setup), setup.geometry.pages());
    let ghosts = values.real_or_auto("ghosts").map(|ratio| ratio * hierarchy.total_pages() as f64);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "no more pages of the stack than exist, and not less than none"
    )]
    let ghosts_max = ghosts.unwrap_or(f64::INFINITY).min(f64::from(pages)) as usize;
    Box::new(Ulc {
        tiers: (0..=hierarchy.disk().0).map(|_| IndexedHeap::new(pages)).collect(),
        tier_of: vec![hierarchy.disk(); pages as usize].into_boxed_slice(),
        used_at: vec![0; pages as usize].into_boxed_slice(),
        ghosts_max,
        hierarchy,
        now: 0,
    })
}

impl Ulc {
    /// The tier that the page is worth.
    fn target(&self, page: PageId) -> Tier {
        let tier = self.tier_of[page.index()];
        let is_stacked = self.tiers[tier.index()].contains(page.0);
        let used_at = self.used_at[page.index()];
        let reaches = |&cache: &Tier| {
            let yardstick = self.tiers[cache.index()].least();
            !self.is_full(cache)
                || yardstick.is_some_and(|(oldest, _)| is_stacked && used_at >= oldest)
        };
        self.hierarchy.all_caches().find(reaches).unwrap_or(self.hierarchy.disk())
    }

    fn is_full(&self, cache: Tier) -> bool {
        self.tiers[cache.index()].len() >= self.hierarchy.capacity(cache) as usize
    }

    /// Demotes the yardstick of a full tier.
    fn make_room(&mut self, cache: Tier, out: &mut Actions) {
        if !self.is_full(cache) {
            return;
        }
        let least = self.tiers[cache.index()].least();
        let (used_at, yardstick) = least.expect("a full tier has a yardstick");
        let below = self.hierarchy.below(cache);
        self.tiers[cache.index()].remove(yardstick);
        if below != self.hierarchy.disk() {
            self.make_room(below, out);
            out.copy(PageId(yardstick), cache, below);
        }
        self.tiers[below.index()].set(yardstick, used_at);
        self.tier_of[yardstick as usize] = below;
        out.drop_copy(PageId(yardstick), cache);
    }

    /// Ends the stack at the oldest yardstick.
    fn prune(&mut self) {
        let oldest = self.oldest_yardstick();
        let uncached = &mut self.tiers[self.hierarchy.disk().index()];
        while let Some((used_at, page)) = uncached.least() {
            let is_below = oldest.is_none_or(|oldest| used_at < oldest);
            if !is_below && uncached.len() <= self.ghosts_max {
                return;
            }
            uncached.remove(page);
        }
    }

    fn oldest_yardstick(&self) -> Option<u64> {
        let yardsticks =
            self.hierarchy.all_caches().filter_map(|cache| self.tiers[cache.index()].least());
        yardsticks.map(|(used_at, _)| used_at).min()
    }
}

impl Policy for Ulc {
    fn access(&mut self, access: Access, out: &mut Actions) {
        let page = access.page;
        self.now += 1;
        let (found, target) = (self.tier_of[page.index()], self.target(page));
        self.hierarchy.serve(access, found, target, out);
        self.tiers[found.index()].remove(page.0);
        if target != found {
            self.make_room(target, out);
        }
        self.used_at[page.index()] = self.now;
        self.tier_of[page.index()] = target;
        self.tiers[target.index()].set(page.0, self.now);
        self.prune();
    }

    fn flush(&mut self, _out: &mut Actions) {}

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        self.hierarchy.surrender(survivors, out);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        crate::prefetch::prefetch(&self.tier_of, page.index());
        crate::prefetch::prefetch(&self.used_at, page.index());
    }

    fn assert_invariants(&self) {
        let disk = self.hierarchy.disk();
        let mut held = 0;
        for (tier, heap) in (0..).map(Tier).zip(&self.tiers) {
            heap.assert_invariants();
            for (used_at, page) in heap.iter() {
                assert_eq!(self.tier_of[page as usize], tier, "a page knows its only tier");
                assert_eq!(self.used_at[page as usize], used_at, "the stack is in order of use");
            }
            if tier != disk {
                assert!(heap.len() <= self.hierarchy.capacity(tier) as usize, "a tier has room");
                held += heap.len();
            }
        }
        let cached = self.tier_of.iter().filter(|&&tier| tier != disk).count();
        assert_eq!(held, cached, "every cached page is in its tier");
        let uncached = &self.tiers[disk.index()];
        assert!(uncached.len() <= self.ghosts_max, "uncached pages are bounded");
        if let Some((used_at, _)) = uncached.least() {
            assert!(Some(used_at) > self.oldest_yardstick(), "the stack ends at a cached page");
        }
    }

    fn memory_bytes(&self) -> usize {
        let heaps: usize = self.tiers.iter().map(IndexedHeap::memory_bytes).sum();
        heaps + size_of_val(&*self.tier_of) + size_of_val(&*self.used_at)
    }

    /// Number and time per page of the stack that no cache holds.
    fn metadata_bytes(&self) -> usize {
        let uncached = self.tiers[self.hierarchy.disk().index()].len();
        uncached * (size_of::<PageId>() + size_of::<u64>())
    }
}
