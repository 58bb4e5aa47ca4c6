//! LIRS: keep the pages whose last two references were close together.
//!
//! Pages are ranked by inter-reference recency, the distance between their last two references. Most
//! of the cache holds pages of low rank (LIR), a small rest those of high rank (HIR). A stack orders
//! pages by last reference, with HIR pages among them that have already left the cache; a HIR page
//! that is referenced while it is in the stack was away for less long than the last LIR page, and
//! takes its place. The first page of the queue of HIR pages leaves the cache.
//!
//! Stack and queue are one log: whatever enters the end of the queue is also the newest entry, so
//! the queue is the order of the log, restricted to HIR pages in the cache.
//!
//! * Source: Jiang and Zhang, *LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy
//!   to Improve Buffer Cache Performance*, SIGMETRICS 2002, section 3.2.
//! * State: 4 bytes per page that exists, 20 bytes per page of the stack.
//! * Cost: amortised O(1) per reference.
//! * Deviations: (1) The stack holds `stack_factor` times the cache at most, then the page longest
//!   out of the cache leaves it. The paper sets no limit. The default leaves room for two pages outside
//!   the cache for each page in it, as Caffeine's simulator does; with one, loops that are a little
//!   longer than the cache are no longer found. (2)
//!   Where the share of HIR pages leaves no room for a LIR page, the stack stays empty, and the
//!   queue is an LRU. (3) A hit on a page of the queue that is not in the stack moves that page only,
//!   as section 3.2 has it ("we leave its status in HIR and move it to the end of list Q").
//!   libCacheSim 0.3.5 also demotes the last LIR page then, which evicts a page at a hit; with that,
//!   the specification of the tests has its miss counts. (4) A second reference to the page that was
//!   referenced last counts like any other; Caffeine's simulator and the authors' program ignore it.

use super::{Algorithm, Outcome, Registered, Replacement, Space, share_of};
use crate::config::{Parameter, Values};
use crate::queue::Recency;
use crate::{Op, PageId};

/// Parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::real("hir_share", 0.0..=1.0, 0.01)
        .summary("share of the cache for HIR pages, one page at least")
        .source("section 4.3: 1 %"),
    Parameter::real("stack_factor", 1.0..=1e6, 3.0)
        .summary("most pages of the stack, as a multiple of the cache")
        .source("Caffeine's simulator; the paper has no limit"),
];

/// Flag of pages in the stack and the cache.
const LIR: u8 = 1;
/// Flag of pages in the stack, in the cache, and in the queue.
const STACKED_HIR: u8 = 2;
/// Flag of pages in the stack only.
const GHOST: u8 = 4;
/// Flag of pages in the cache and the queue only.
const QUEUED_HIR: u8 = 8;

/// The class of the pages with a low rank; the oldest of them is the bottom of the stack.
const LOW: usize = 0;
/// The class of the pages in the queue.
const QUEUE: usize = 1;
/// The class of the pages that have left the cache.
const GHOSTS: usize = 2;
/// The class of the pages that may not be the bottom of the stack.
const HIGH: usize = 3;

/// Bytes of a ghost: its page and its links.
const GHOST_BYTES: usize = 12;

/// Low inter-reference recency set.
#[derive(Clone, Debug)]
pub struct Lirs {
    /// Stack and queue.
    log: Recency<4>,
    lir_pages: u32,
    lir_capacity_pages: u32,
    hir_pages: u32,
    hir_capacity_pages: u32,
    stacked_pages: u32,
    stack_capacity_pages: u32,
}

/// Its row in the registry.
pub const LIRS: Algorithm = Algorithm::new::<Lirs>(
    "lirs",
    "pages whose last two references were close together, by a stack with ghosts; no flash",
    "Jiang, Zhang: LIRS, SIGMETRICS 2002",
    module_path!(),
    PARAMETERS,
);

impl Registered for Lirs {
    fn new(space: Space<'_>, values: &Values) -> Self {
        let Space { ids, capacity_pages, .. } = space;
        // L_hirs, the part for resident HIR pages, is a small share of the cache. LIR pages have
        // the rest.
        let hir_capacity_pages = share_of(capacity_pages, values.real("hir_share")).max(1);
        let stack_capacity_pages = share_of(capacity_pages, values.real("stack_factor"));
        let log_capacity_pages =
            stack_capacity_pages.saturating_add(hir_capacity_pages).saturating_add(1);
        Self {
            log: Recency::new(
                ids,
                log_capacity_pages,
                [LIR, STACKED_HIR | QUEUED_HIR, GHOST, STACKED_HIR | GHOST],
            ),
            lir_pages: 0,
            lir_capacity_pages: capacity_pages - hir_capacity_pages,
            hir_pages: 0,
            hir_capacity_pages,
            stacked_pages: 0,
            stack_capacity_pages,
        }
    }
}

impl Replacement for Lirs {
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        let Some((position, state)) = self.log.find(page) else {
            return self.refer_to_unknown(page);
        };
        match state {
            LIR => {
                // Case 1 of the paper: a hit on a LIR page moves it to the top of the stack.
                // Pruning is only needed if the page was the bottom, since the stack is pruned
                // before.
                let is_bottom = self.log.oldest(LOW).is_some_and(|(bottom, _)| bottom == position);
                self.log.touch(page, LIR);
                if is_bottom {
                    self.prune();
                }
                Outcome::Hit
            }
            STACKED_HIR => {
                // Case 2 of the paper: a resident HIR page that is hit while in the stack has a
                // recency below that of the bottom LIR page, so the two change roles.
                self.hir_pages -= 1;
                self.log.touch(page, LIR);
                self.welcome_lir();
                Outcome::Hit
            }
            GHOST => {
                // Case 3 of the paper: a ghost that returns was last referenced more recently than
                // the bottom LIR page.
                let evicted = self.make_room_for_lir();
                self.log.touch(page, LIR);
                self.welcome_lir();
                Outcome::Admitted { evicted }
            }
            _ => {
                // A HIR page that is no longer in the stack has a recency above all LIR pages, so
                // it stays HIR: it goes to the top of the stack and to the end of the queue.
                self.touch_hir(page);
                Outcome::Hit
            }
        }
    }

    fn contains(&self, page: PageId) -> bool {
        self.log.state(page) & (LIR | STACKED_HIR | QUEUED_HIR) != 0
    }

    fn forget(&mut self, page: PageId) {
        let Some((position, state)) = self.log.find(page) else { return };
        self.log.set_state(position, 0);
        self.lir_pages -= u32::from(state == LIR);
        self.hir_pages -= u32::from(state & (STACKED_HIR | QUEUED_HIR) != 0);
        self.stacked_pages -= u32::from(state != QUEUED_HIR);
        self.prune();
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.log.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.log.assert_invariants();
        let count = |mask: u8| -> u32 {
            self.log.iter().map(|(_, _, state)| u32::from(state & mask != 0)).sum()
        };
        assert_eq!(self.lir_pages, count(LIR), "LIR pages are counted");
        assert_eq!(self.hir_pages, count(STACKED_HIR | QUEUED_HIR), "HIR pages are counted");
        assert_eq!(self.stacked_pages, count(LIR | STACKED_HIR | GHOST), "the stack is counted");
        assert!(self.lir_pages <= self.lir_capacity_pages, "LIR pages have their share");
        assert!(self.hir_pages <= self.hir_capacity_pages, "HIR pages have their share");
        assert!(self.stacked_pages <= self.stack_capacity_pages, "the stack has a limit");
        let bottom = self.log.iter().find(|(_, _, state)| state & !QUEUED_HIR != 0);
        assert!(bottom.is_none_or(|(_, _, state)| state == LIR), "the stack is pruned");
    }

    fn memory_bytes(&self) -> usize {
        self.log.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        (self.log.len() - self.lir_pages - self.hir_pages) as usize * GHOST_BYTES
    }
}

impl Lirs {
    /// Process an unknown page: it is LIR while there is room for such, and HIR then.
    fn refer_to_unknown(&mut self, page: PageId) -> Outcome {
        if self.lir_pages < self.lir_capacity_pages {
            self.log.touch(page, LIR);
            self.stacked_pages += 1;
            self.welcome_lir();
            return Outcome::Admitted { evicted: None };
        }
        // From now on a page without a reference in the stack has an infinite inter-reference
        // recency: it is HIR.
        let evicted = self.make_room_in_queue();
        self.touch_hir(page);
        self.hir_pages += 1;
        Outcome::Admitted { evicted }
    }

    /// Puts a HIR page that is not in the stack on top of it, and at the end of the queue.
    fn touch_hir(&mut self, page: PageId) {
        // Without LIR pages the pruned stack is empty, so the page has no place in it.
        if self.lir_pages == 0 {
            self.log.touch(page, QUEUED_HIR);
            return;
        }
        self.log.touch(page, STACKED_HIR);
        self.stacked_pages += 1;
        self.limit_stack();
    }

    /// Counts a page that became LIR, and demotes the bottom of the stack if there is one too many.
    fn welcome_lir(&mut self) {
        self.lir_pages += 1;
        if self.lir_pages > self.lir_capacity_pages {
            let (bottom, _) = self.log.oldest(LOW).expect("there is a LIR page");
            // `touch` makes it the newest of the log, which is the end of the queue.
            self.log.touch(self.log.page(bottom), QUEUED_HIR);
            self.stacked_pages -= 1;
            // The bottom LIR page has the greatest recency of all LIR pages: it becomes HIR and
            // goes to the end of the queue.
            self.lir_pages -= 1;
            self.hir_pages += 1;
        }
        self.prune();
        self.limit_stack();
    }

    /// Evicts what must leave before a page from outside may become LIR.
    fn make_room_for_lir(&mut self) -> Option<PageId> {
        if self.lir_pages < self.lir_capacity_pages {
            return None;
        }
        self.make_room_in_queue()
    }

    /// Evicts the front of the queue if that is full. It stays in the stack if it is there.
    fn make_room_in_queue(&mut self) -> Option<PageId> {
        if self.hir_pages < self.hir_capacity_pages {
            return None;
        }
        let (front, state) = self.log.oldest(QUEUE).expect("a full queue has a page");
        let page = self.log.page(front);
        // An evicted page stays in the stack as a ghost. If it is referenced before it reaches the
        // bottom, it becomes LIR.
        self.log.set_state(front, if state == STACKED_HIR { GHOST } else { 0 });
        self.hir_pages -= 1;
        Some(page)
    }

    /// Takes pages off the bottom of the stack until that is LIR.
    fn prune(&mut self) {
        let bottom = self.log.oldest(LOW).map(|(position, _)| position);
        while let Some((position, state)) = self.log.oldest(HIGH)
            && bottom.is_none_or(|bottom| position < bottom)
        {
            // A HIR page below the bottom LIR page cannot become LIR by its next reference, so the
            // stack forgets it. If it is resident, it stays in the queue.
            self.log.set_state(position, if state == STACKED_HIR { QUEUED_HIR } else { 0 });
            self.stacked_pages -= 1;
        }
    }

    /// Takes the page longest out of the cache off the stack, if that is too high.
    fn limit_stack(&mut self) {
        // Deviation: the paper does not bound the stack. Only ghosts leave it early; the oldest
        // ghost is the least likely to become LIR.
        while self.stacked_pages > self.stack_capacity_pages
            && let Some((position, _)) = self.log.oldest(GHOSTS)
        {
            self.log.set_state(position, 0);
            self.stacked_pages -= 1;
        }
    }
}
