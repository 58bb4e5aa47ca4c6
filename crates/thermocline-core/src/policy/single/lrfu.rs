//! LRFU: every reference counts, and counts for less the longer ago it was.
//!
//! A reference that is `x` references old weighs `2^(-lambda x)`; the cache keeps the pages with the
//! greatest sums of weights. With lambda 0 that is LFU, with 1 it is LRU.
//!
//! All weights fade alike, so the order of two pages changes only by references. What is kept per
//! page is the logarithm of its sum as of time 0, which stays as it is while the page is not
//! referenced and grows when it is. The heap may therefore know less than the truth: a page is put
//! where it belongs when it comes up for eviction, and a hit leaves the heap alone.
//!
//! * Source: Lee et al., *LRFU: A Spectrum of Policies that Subsumes the Least Recently Used and
//!   Least Frequently Used Policies*, IEEE Trans. Computers 50(12), 2001, section 3.
//! * State: 16 bytes per page that exists, 24 to 48 bytes per cached page.
//! * Cost: O(1) per hit, amortised O(log n) per eviction.
//! * Deviations: (1) One heap with lazy keys stands for the paper's heap and list; the victims are
//!   the same. (2) Of equal sums, the one referenced longer ago leaves; the paper does not say. (3)
//!   No correlated period: each reference counts. (4) What leaves the cache is forgotten.

use alloc::vec;
use alloc::vec::Vec;

use super::{Outcome, Replacement, Space};
use crate::config::{Kind, Parameter, Value, Values};
use crate::prefetch::prefetch;
use crate::queue::LazyHeap;
use crate::{Op, PageId};

/// What can be set.
pub const PARAMETERS: &[Parameter] = &[Parameter {
    name: "lambda",
    kind: Kind::Real { min: 0.0, max: 1.0 },
    default: Value::Real(0.001),
    summary: "how fast a reference fades: its weight halves in 1 / lambda references; 0 is LFU, 1 LRU",
    source: "section 4: near the best for the file and database traces",
}];

/// What is known of a page.
#[derive(Clone, Copy, Debug)]
struct Combined {
    /// The logarithm to base 2 of its combined recency and frequency as of time 0; not negative.
    log_crf: f64,
    /// The time of its last reference, or 0 if it is not in the cache.
    last: u64,
}

/// The order of eviction: the bits of a logarithm that is not negative, then the last reference.
type Key = (u64, u64);

/// Least recently and frequently used.
#[derive(Clone, Debug)]
pub struct Lrfu {
    pages: Vec<Combined>,
    /// The pages of the cache by what they were worth when they were last looked at.
    heap: LazyHeap<Key>,
    held_pages: u32,
    capacity_pages: u32,
    lambda: f64,
    /// References so far.
    time: u64,
}

impl Combined {
    const ABSENT: Self = Self { log_crf: 0.0, last: 0 };

    /// Its key, if it is in the cache.
    fn key(self) -> Option<Key> {
        (self.last != 0).then(|| (self.log_crf.to_bits(), self.last))
    }
}

impl Replacement for Lrfu {
    fn new(space: Space, values: &Values) -> Self {
        let Space { pages, capacity_pages } = space;
        Self {
            pages: vec![Combined::ABSENT; pages as usize],
            heap: LazyHeap::new(),
            held_pages: 0,
            capacity_pages,
            lambda: values.real("lambda"),
            time: 0,
        }
    }

    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        self.time += 1;
        // The logarithm of F(0) as of time 0.
        let log_weight = self.lambda * self.time as f64;
        let known = &mut self.pages[page.index()];
        if known.last != 0 {
            // Equation 2: C = F(0) + F(t - last) C(last).
            known.log_crf = log_weight + log2_1p_exp2(known.log_crf - log_weight);
            known.last = self.time;
            return Outcome::Hit;
        }
        let evicted = (self.held_pages == self.capacity_pages).then(|| self.evict());
        self.admit(page, log_weight);
        Outcome::Admitted { evicted }
    }

    fn contains(&self, page: PageId) -> bool {
        self.pages[page.index()].last != 0
    }

    fn forget(&mut self, page: PageId) {
        let known = core::mem::replace(&mut self.pages[page.index()], Combined::ABSENT);
        self.held_pages -= u32::from(known.last != 0);
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        prefetch(&self.pages, page.index());
    }

    fn assert_invariants(&self) {
        let members = (0..).zip(&self.pages).filter_map(|(page, known)| Some((page, known.key()?)));
        assert_eq!(members.clone().count(), self.held_pages as usize, "pages are counted");
        assert!(self.held_pages <= self.capacity_pages, "the cache holds its capacity");
        self.heap.assert_invariants(members);
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&*self.pages) + self.heap.memory_bytes()
    }
}

impl Lrfu {
    /// Evicts the page with the least sum.
    fn evict(&mut self) -> PageId {
        let pages = &self.pages;
        let least = self.heap.least(|page| pages[page as usize].key());
        let (_, page) = least.expect("a full cache has a page");
        self.forget(PageId(page));
        PageId(page)
    }

    /// Brings in a page with one reference, now.
    fn admit(&mut self, page: PageId, log_crf: f64) {
        let known = Combined { log_crf, last: self.time };
        self.pages[page.index()] = known;
        self.held_pages += 1;
        let key = known.key().expect("time is not zero");
        let (pages, members) = (&self.pages, self.held_pages as usize);
        self.heap.push(page.0, key, members, |page| pages[page as usize].key());
    }
}

/// The logarithm to base 2 of 1 + 2^x.
fn log2_1p_exp2(x: f64) -> f64 {
    libm::log1p(libm::exp2(x)) * core::f64::consts::LOG2_E
}
