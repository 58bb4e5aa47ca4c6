//! ULC: one stack of pages by last use, and a yardstick per tier that says how far it reaches.
//!
//! A tier's yardstick is its least recently used page. A page is worth the fastest tier whose
//! yardstick is older than the page's last use: it moves there when it is used again (RETRIEVE).
//! That tier hands its yardstick to the next one, and so on down to where there is room (DEMOTE).
//! Pages used longer ago than all yardsticks, or for the first time, are worth no tier once all are
//! full: the disk answers them. So a loop longer than the caches does not flush them.
//!
//! * Source: Jiang and Zhang, *ULC: A File Block Placement and Replacement Protocol to Effectively
//!   Exploit Hierarchical Locality in Multi-level Buffer Caches*, ICDCS 2004, single-client case.
//! * State: 13 bytes per page that exists, 4 more per tier and for the disk; 16 bytes per page of the
//!   stack. Sparse, all of it and 11 bytes more per page of the stack; their number depends on the
//!   accesses, unless `ghosts` bounds it.
//! * Cost: O(tiers * log n) per access; pruning the stack amortised O(log n).
//! * Deviations: (1) written from the protocol's idea, as no text of it could be read. (2) The
//!   stack is kept as times of last use, each tier as a heap of them. (3) The published client
//!   passes pages that are worth no tier through a few frames of their own; here they bypass all
//!   tiers, and a write of such a page goes to disk only. (4) The stack ends at the oldest
//!   yardstick; its uncached pages may be bounded further. (5) One client: for several, the authors
//!   rank the pages of the shared tier again (gLRU), which is another algorithm.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::hierarchy::Hierarchy;
use crate::capabilities::{Capabilities, Depth, SparseMemory};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::prefetch::prefetch;
use crate::queue::{IndexedHeap, Numbers, grow};
use crate::{Access, Actions, BoxedPolicy, PageId, Policy, Setup, Survivor, Tier};

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[Parameter::real_or_auto("ghosts", 0.0..=1000.0)
    .summary("uncached pages in the stack, as a multiple of all cached pages; auto does not bound")
    .source("the protocol bounds the stack by its yardsticks only")];

/// ULC.
#[derive(Clone, Debug)]
pub struct Ulc {
    hierarchy: Hierarchy,
    numbers: Numbers,
    /// Per tier: its pages' numbers by time of last use, the yardstick first; the disk's are those of the
    /// stack that no cache holds.
    tiers: Box<[IndexedHeap<u64>]>,
    /// Per number of a page: the tier that holds it, or the disk.
    tier_of: Vec<Tier>,
    /// Per number of a page of the stack: when it was last used.
    used_at: Vec<u64>,
    ghosts_max: usize,
    now: u64,
}

/// Its row in the registry.
pub const ULC: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("ulc"),
    summary: "one stack by last use, cut by a yardstick per tier; new pages bypass full tiers",
    source: "Jiang, Zhang: ULC, a File Block Placement and Replacement Protocol, ICDCS 2004",
    module: module_path!(),
    capabilities: Capabilities {
        takes_clients: false,
        sparse_memory: SparseMemory::of_accessed(
            42,
            "its stack is as long as it gets, unless `ghosts` bounds it",
        ),
        ..Capabilities::of(Depth::Tiers)
    },
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// Builds the policy for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    let (hierarchy, ids) = (Hierarchy::new(setup), setup.ids());
    let ghosts = values.real_or_auto("ghosts").map(|ratio| ratio * hierarchy.total_pages() as f64);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "no more pages of the stack than exist, and not less than none"
    )]
    let ghosts_max = ghosts.unwrap_or(f64::INFINITY).min(f64::from(ids.pages)) as usize;
    let numbers = Numbers::growing(ids);
    let count = numbers.taken();
    Box::new(Ulc {
        tiers: (0..=hierarchy.disk().0).map(|_| IndexedHeap::new(count)).collect(),
        tier_of: vec![hierarchy.disk(); count as usize],
        used_at: vec![0; count as usize],
        numbers,
        ghosts_max,
        hierarchy,
        now: 0,
    })
}

impl Ulc {
    /// Return the number of a page that is accessed.
    fn enter(&mut self, page: PageId) -> u32 {
        let Self { numbers, tiers, tier_of, used_at, .. } = self;
        let is_stacked = |number, _| tiers[tier_of[number as usize].index()].contains(number);
        let number = numbers.enter(page, is_stacked);
        if number as usize == tier_of.len() {
            tiers.iter_mut().for_each(|heap| heap.grow(number + 1));
            grow(tier_of, number + 1, self.hierarchy.disk());
            grow(used_at, number + 1, 0);
        }
        number
    }

    /// Return the tier that the page is worth.
    fn target(&self, page: u32) -> Tier {
        let tier = self.tier_of[page as usize];
        let is_stacked = self.tiers[tier.index()].contains(page);
        let used_at = self.used_at[page as usize];
        // A tier reaches down the stack to its yardstick, and without end while it has room.
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
        // DEMOTE hands the yardstick down, tier by tier, to the first one that has room.
        if below != self.hierarchy.disk() {
            self.make_room(below, out);
            out.copy(self.numbers.page(yardstick), cache, below);
        }
        // It keeps its time of last use, so it takes its place in the order of the tier below:
        // DEMOTE moves bytes, not the stack.
        self.tiers[below.index()].set(yardstick, used_at);
        self.tier_of[yardstick as usize] = below;
        out.drop_copy(self.numbers.page(yardstick), cache);
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
            // No yardstick is as old, so the next use of this page would find it worth no tier
            // either.
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
        let page = self.enter(access.page);
        self.now += 1;
        let (found, target) = (self.tier_of[page as usize], self.target(page));
        // Before any yardstick moves: the page's worth is judged by the stack as it was when the
        // access came.
        self.hierarchy.serve(access, found, target, out);
        self.tiers[found.index()].remove(page);
        if target != found {
            self.make_room(target, out);
        }
        self.used_at[page as usize] = self.now;
        self.tier_of[page as usize] = target;
        self.tiers[target.index()].set(page, self.now);
        self.prune();
    }

    fn flush(&mut self, _out: &mut Actions) {}

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        self.hierarchy.surrender(survivors, out);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        prefetch(&self.tier_of, page.index());
        prefetch(&self.used_at, page.index());
    }

    fn assert_invariants(&self) {
        self.numbers.assert_invariants();
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
        let tables = self.tier_of.capacity() + self.used_at.capacity() * size_of::<u64>();
        self.numbers.memory_bytes() + heaps + tables
    }

    /// Return the number and time per page of the stack that no cache holds.
    fn metadata_bytes(&self) -> usize {
        let uncached = self.tiers[self.hierarchy.disk().index()].len();
        uncached * (size_of::<PageId>() + size_of::<u64>())
    }
}
