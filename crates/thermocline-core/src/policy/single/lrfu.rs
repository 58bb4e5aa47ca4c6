//! LRFU: every reference counts, and counts for less the longer ago it was.
//!
//! A reference that is `x` references old weighs `2^(-lambda x)`; the cache keeps the pages with the
//! greatest sums of weights. With lambda 0 that is LFU, with 1 it is LRU.
//!
//! All weights fade alike, so the order of two pages changes only by references. Each page has
//! the logarithm of its sum as of time 0, which stays as it is while the page is not
//! referenced and grows when it is. The heap may therefore know less than the truth: a page is put
//! where it belongs when it comes up for eviction, and a hit leaves the heap alone.
//!
//! * Source: Lee et al., *LRFU: A Spectrum of Policies that Subsumes the Least Recently Used and
//!   Least Frequently Used Policies*, IEEE Trans. Computers 50(12), 2001, section 3.
//! * State: 16 bytes per page that exists, 20 to 40 bytes per cached page; sparse, none and 53.
//! * Cost: O(1) per hit, amortised O(log n) per eviction.
//! * Deviations: (1) One heap with lazy keys stands for the paper's heap and list; the victims are
//!   the same. (2) Of equal sums, the one referenced longer ago leaves; the paper does not say. (3)
//!   No correlated period: each reference counts. (4) What leaves the cache is forgotten.

use alloc::vec;
use alloc::vec::Vec;

use super::{Algorithm, Outcome, Registered, Replacement, Space};
use crate::config::{Parameter, Values};
use crate::prefetch::prefetch;
use crate::queue::{LazyHeap, Numbers, Stamp};
use crate::{Op, PageId};

/// Parameters.
pub const PARAMETERS: &[Parameter] = &[Parameter::real("lambda", 0.0..=1.0, 0.001)
    .summary(
        "how fast a reference fades: its weight halves in 1 / lambda references; 0 is LFU, 1 LRU",
    )
    .source("section 4: near the best for the file and database traces")];

/// Record of a page.
#[derive(Clone, Copy, Debug)]
// Values are kept as of time 0. F(x) = 2^(-lambda x) multiplies all of them alike as time goes by,
// so their order needs no updates. Logarithms of them do not overflow.
struct Combined {
    /// The logarithm to base 2 of its combined recency and frequency as of time 0; not negative.
    log_crf: f64,
    /// The time of its last reference, or 0 if it is not in the cache.
    last: u64,
}

/// The order of eviction: the bits of a logarithm that is not negative, then the last reference.
type Key = (Stamp, Stamp);

/// Least recently and frequently used.
#[derive(Clone, Debug)]
pub struct Lrfu {
    numbers: Numbers,
    /// Per number of a page.
    pages: Vec<Combined>,
    /// The pages of the cache by what they were worth when they were last looked at.
    heap: LazyHeap<Key>,
    held_pages: u32,
    capacity_pages: u32,
    lambda: f64,
    /// References so far.
    time: u64,
}

/// Its row in the registry.
pub const LRFU: Algorithm = Algorithm::new::<Lrfu>(
    "lrfu",
    "every reference counts, the less the older it is: between LFU and LRU; no flash",
    "Lee et al.: LRFU, IEEE Trans. Computers 50(12), 2001",
    module_path!(),
    PARAMETERS,
);

impl Combined {
    const ABSENT: Self = Self { log_crf: 0.0, last: 0 };

    /// Return its key, if it is in the cache.
    fn key(self) -> Option<Key> {
        (self.last != 0).then(|| (Stamp(self.log_crf.to_bits()), Stamp(self.last)))
    }
}

impl Registered for Lrfu {
    fn new(space: Space<'_>, values: &Values) -> Self {
        let Space { ids, capacity_pages, .. } = space;
        let numbers = Numbers::new(ids, capacity_pages);
        Self {
            pages: vec![Combined::ABSENT; numbers.count() as usize],
            numbers,
            heap: LazyHeap::new(ids.indexing),
            held_pages: 0,
            capacity_pages,
            lambda: values.real("lambda"),
            time: 0,
        }
    }
}

impl Replacement for Lrfu {
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        self.time += 1;
        // The logarithm of F(0) as of time 0.
        let log_weight = self.lambda * self.time as f64;
        if let Some(number) = self.held(page) {
            let known = &mut self.pages[number as usize];
            // Equation 2: C = F(0) + F(t - last) C(last).
            known.log_crf = log_weight + log2_1p_exp2(known.log_crf - log_weight);
            known.last = self.time;
            return Outcome::Hit;
        }
        // Deviation (4): nothing is kept of a page that left, so it comes back with one reference.
        let evicted = (self.held_pages == self.capacity_pages).then(|| self.evict());
        self.admit(page, log_weight);
        Outcome::Admitted { evicted }
    }

    fn contains(&self, page: PageId) -> bool {
        self.held(page).is_some()
    }

    fn forget(&mut self, page: PageId) {
        if let Some(number) = self.held(page) {
            self.take(number);
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        prefetch(&self.pages, page.index());
    }

    fn assert_invariants(&self) {
        let members =
            (0..).zip(&self.pages).filter_map(|(number, known)| Some((number, known.key()?)));
        assert_eq!(members.clone().count(), self.held_pages as usize, "pages are counted");
        assert!(self.held_pages <= self.capacity_pages, "the cache holds its capacity");
        self.heap.assert_invariants(members);
        self.numbers.assert_invariants();
    }

    fn memory_bytes(&self) -> usize {
        self.numbers.memory_bytes() + size_of_val(&*self.pages) + self.heap.memory_bytes()
    }
}

impl Lrfu {
    /// Evicts the page with the least sum.
    fn evict(&mut self) -> PageId {
        let pages = &self.pages;
        let least = self.heap.least(|number| pages[number as usize].key());
        let (_, number) = least.expect("a full cache has a page");
        self.take(number);
        self.numbers.page(number)
    }

    /// Return the number of a page of the cache.
    #[inline]
    fn held(&self, page: PageId) -> Option<u32> {
        self.numbers.find(page).filter(|&number| self.pages[number as usize].last != 0)
    }

    /// Takes a page out of the cache.
    fn take(&mut self, number: u32) {
        self.pages[number as usize] = Combined::ABSENT;
        self.held_pages -= 1;
    }

    /// Brings in a page with one reference, now.
    fn admit(&mut self, page: PageId, log_crf: f64) {
        let known = Combined { log_crf, last: self.time };
        let pages = &self.pages;
        let number = self.numbers.enter(page, |number, _| pages[number as usize].last != 0);
        self.pages[number as usize] = known;
        self.held_pages += 1;
        let key = known.key().expect("time is not zero");
        let (pages, members) = (&self.pages, self.held_pages as usize);
        self.heap.push(number, key, members, |number| pages[number as usize].key());
    }
}

/// Return the logarithm to base 2 of 1 + 2^x.
fn log2_1p_exp2(x: f64) -> f64 {
    libm::log1p(libm::exp2(x)) * core::f64::consts::LOG2_E
}
