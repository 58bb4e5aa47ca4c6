//! CAR: ARC with two clocks in place of its lists, so that a hit only sets a bit.
//!
//! One clock, T1, holds pages that were referenced once lately, the other, T2, those referenced
//! again; each has a list of ghosts, B1 and B2. A hand that finds a page referenced moves it to the
//! tail of T2, and evicts it otherwise. A hit on a ghost moves the target length of T1, as in ARC.
//!
//! * Source: Bansal and Modha, *CAR: Clock with Adaptive Replacement*, FAST 2004, figure 2.
//! * State: 4 bytes per page that exists, 40 bytes per cached page.
//! * Cost: amortised O(1) per reference.
//! * Deviations: none. The target is a number that need not be whole, as its steps are ratios.

use super::{Algorithm, Outcome, Registered, Replacement, Space};
use crate::config::Values;
use crate::queue::{Position, Recency};
use crate::{Op, PageId};

/// T1: pages referenced once lately. The head of each list is the oldest of its class in the log.
const RECENT: u8 = 1;
/// T2: pages referenced again.
const FREQUENT: u8 = 2;
/// B1: pages that left T1.
const RECENT_GHOST: u8 = 4;
/// B2: pages that left T2.
const FREQUENT_GHOST: u8 = 8;
/// The reference bit of a page in T1 or T2.
const REFERENCED: u8 = 16;

/// The class of T1 in the log; the others are in the order of the bits above.
const T1: usize = 0;
const T2: usize = 1;
const B1: usize = 2;
const B2: usize = 3;

/// Bytes of a ghost: its page and its links.
const GHOST_BYTES: usize = 12;

/// Clock with adaptive replacement.
#[derive(Clone, Debug)]
pub struct Car {
    /// All four lists: a page enters each at its tail, the newest end.
    log: Recency<4>,
    len: [u32; 4],
    capacity_pages: u32,
    /// The target length of T1, the paper's p.
    target_pages: f64,
}

/// Its row in the registry.
pub const CAR: Algorithm = Algorithm::new::<Car>(
    "car",
    "ARC with two clocks: a hit only sets a bit; no flash",
    "Bansal, Modha: CAR, Clock with Adaptive Replacement, FAST 2004",
    module_path!(),
    &[],
);

impl Registered for Car {
    fn new(space: Space<'_>, _values: &Values) -> Self {
        let Space { ids, capacity_pages, .. } = space;
        let log_pages = capacity_pages.saturating_mul(2).saturating_add(1);
        Self {
            log: Recency::new(ids, log_pages, [RECENT, FREQUENT, RECENT_GHOST, FREQUENT_GHOST]),
            len: [0; 4],
            capacity_pages,
            target_pages: 0.0,
        }
    }
}

impl Replacement for Car {
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        let found = self.log.find(page);
        if let Some((position, state)) = found
            && state & (RECENT | FREQUENT) != 0
        {
            if state & REFERENCED == 0 {
                // Figure 2, lines 1 and 2: a hit sets the bit and moves nothing.
                self.log.set_state(position, state | REFERENCED);
            }
            return Outcome::Hit;
        }
        self.admit(page, found.map(|(_, state)| state))
    }

    fn contains(&self, page: PageId) -> bool {
        self.log.state(page) & (RECENT | FREQUENT) != 0
    }

    fn forget(&mut self, page: PageId) {
        if let Some((position, state)) = self.log.find(page) {
            self.discard(position, state);
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.log.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.log.assert_invariants();
        let lists = [RECENT, FREQUENT, RECENT_GHOST, FREQUENT_GHOST];
        for (len, list) in self.len.iter().zip(lists) {
            let counted = self.log.iter().filter(|(_, _, state)| state & list != 0).count();
            assert_eq!(*len as usize, counted, "each list is counted");
        }
        let [t1, t2, b1, b2] = self.len.map(u64::from);
        let capacity = u64::from(self.capacity_pages);
        assert!(t1 + t2 <= capacity, "I1: the cache holds its capacity");
        assert!(t1 + b1 <= capacity, "I2: T1 and B1 together are no longer than the cache");
        assert!(t1 + t2 + b1 + b2 <= 2 * capacity, "I4: the directory has a limit");
        let most = f64::from(self.capacity_pages);
        assert!((0.0..=most).contains(&self.target_pages), "the target is a length of T1");
    }

    fn memory_bytes(&self) -> usize {
        self.log.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        (self.len[B1] + self.len[B2]) as usize * GHOST_BYTES
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("target_pages", self.target_pages);
    }
}

impl Car {
    /// Brings in a page that is a ghost in this state, or unknown.
    fn admit(&mut self, page: PageId, ghost: Option<u8>) -> Outcome {
        let mut evicted = None;
        // Figure 2, line 4: only a full cache replaces.
        if self.len[T1] + self.len[T2] == self.capacity_pages {
            evicted = Some(self.replace());
        }
        // There is nothing to trim before the cache was full; but it may have given up pages since.
        if ghost.is_none() {
            self.trim_ghosts();
        }
        let ratio = |more: usize, less: usize| {
            (f64::from(self.len[more]) / f64::from(self.len[less])).max(1.0)
        };
        match ghost {
            None => {
                self.log.touch(page, RECENT);
                self.len[T1] += 1;
            }
            Some(state) => {
                if state == RECENT_GHOST {
                    let most = f64::from(self.capacity_pages);
                    // Before the ghost leaves its list: the ratio counts it, so no list is empty
                    // where it divides.
                    self.target_pages = (self.target_pages + ratio(B2, B1)).min(most);
                    self.len[B1] -= 1;
                } else {
                    self.target_pages = (self.target_pages - ratio(B1, B2)).max(0.0);
                    self.len[B2] -= 1;
                }
                self.log.touch(page, FREQUENT);
                self.len[T2] += 1;
            }
        }
        Outcome::Admitted { evicted }
    }

    /// Moves the hands until one finds a page that was not referenced, and makes a ghost of it.
    fn replace(&mut self) -> PageId {
        loop {
            // T2 can be empty at its turn only where pages were taken out of it.
            let is_recent =
                f64::from(self.len[T1]) >= self.target_pages.max(1.0) || self.len[T2] == 0;
            let [clock, ghosts] = if is_recent { [T1, B1] } else { [T2, B2] };
            let (position, state) = self.log.oldest(clock).expect("a full cache has such a page");
            let page = self.log.page(position);
            self.len[clock] -= 1;
            if state & REFERENCED == 0 {
                self.log.touch(page, if is_recent { RECENT_GHOST } else { FREQUENT_GHOST });
                self.len[ghosts] += 1;
                return page;
            }
            // A page that was referenced in T1 goes to T2, one in T2 gets another round; both lose
            // the bit.
            self.log.touch(page, FREQUENT);
            self.len[T2] += 1;
        }
    }

    /// Makes room in the directory for an unknown page: lines 6 to 10.
    fn trim_ghosts(&mut self) {
        let list = if self.len[T1] + self.len[B1] == self.capacity_pages {
            B1
        } else if self.len.iter().map(|&len| u64::from(len)).sum::<u64>()
            == 2 * u64::from(self.capacity_pages)
        {
            B2
        } else {
            return;
        };
        if let Some((position, state)) = self.log.oldest(list) {
            self.discard(position, state);
        }
    }

    /// Takes a page out of its list.
    fn discard(&mut self, position: Position, state: u8) {
        self.log.set_state(position, 0);
        self.len[(state & !REFERENCED).trailing_zeros() as usize] -= 1;
    }
}
