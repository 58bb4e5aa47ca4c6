//! LeCaR: LRU and LFU as experts, followed with weights that regret moves.
//!
//! An eviction follows one of the two, drawn by weight, and notes the page in that expert's history.
//! A miss on a page of a history was that expert's mistake: the weight of the other grows, the more,
//! the more recent the mistake is.
//!
//! * Source: Vietri et al., *Driving Cache Replacement with ML-based LeCaR*, HotStorage 2018,
//!   algorithms 1 and 2.
//! * State: 20 bytes per page that exists, 56 to 96 bytes per cached page; sparse, none and 115.
//! * Cost: O(1) per hit, amortised O(log n) per miss.
//! * Deviations: where the paper is silent, as the authors' program: (1) each history holds half as
//!   many pages as the cache; (2) a page both experts would evict goes to no history; (3) a page that
//!   comes back from a history has its former count of references, and this one; (4) no weight
//!   falls below 0.01; (5) a mistake lowers the weight of its expert, instead of raising that of the
//!   other, which is the same once they add up to one; (6) of equal counts, the page with the lowest
//!   address leaves, or, with `ties = oldest`, the page referenced longest ago. Each program draws lots
//!   of its own, so no two have the same miss counts.

use super::experts::{Expert, Frequencies, Ties, Weights};
use super::{Algorithm, Outcome, Registered, Replacement, Space, share_of};
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::queue::Recency;
use crate::random::SEED;
use crate::{Op, PageId};

/// Parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::real("learning_rate", 0.0..=1.0, 0.45)
        .summary("how much a mistake costs the expert that made it")
        .source("section 3: 0.45"),
    Parameter::real("discount", 1e-9..=1.0, 0.005)
        .summary("what is left of that for a mistake as many references ago as the cache has pages")
        .source("section 3: 0.005"),
    Parameter::real("history_share", 0.0..=4.0, 0.5)
        .summary("pages of each history, as a share of the cache")
        .source("the authors' program"),
    Parameter::choice("ties", &[LOWEST_ADDRESS, "oldest"], LOWEST_ADDRESS)
        .summary("of the pages referenced least often, LFU evicts the lowest address or the oldest reference")
        .source("the authors' program: the lowest address"),
    SEED,
];

/// LFU evicts, of equal counts, the page with the lowest address.
const LOWEST_ADDRESS: &str = "lowest-address";

/// Flag of pages in the cache.
const CACHED: u8 = 1;
/// Flag of pages in the history of LRU.
const LEFT_BY_RECENCY: u8 = 2;
/// Flag of pages in the history of LFU.
const LEFT_BY_FREQUENCY: u8 = 4;

/// The class of the pages in the cache.
const CACHE: usize = 0;
/// The class of the history of LRU.
const RECENCY_HISTORY: usize = 1;
/// The class of the history of LFU.
const FREQUENCY_HISTORY: usize = 2;

/// Bytes of a page of a history: its number, its links, its count and its time.
const HISTORY_BYTES: usize = 24;

/// Learning cache replacement.
#[derive(Clone, Debug)]
pub struct LeCaR {
    /// The cache by last reference, and both histories by eviction.
    log: Recency<3>,
    frequencies: Frequencies,
    weights: Weights,
    capacity_pages: u32,
    history_pages: [u32; 2],
    history_capacity_pages: u32,
    learning_rate: f64,
    /// The logarithm of the factor by which a mistake weighs less per reference.
    log_discount: f64,
    /// References so far.
    time: u64,
}

/// Its row in the registry.
pub const LE_CAR: Algorithm = Algorithm::new::<LeCaR>(
    "lecar",
    "LRU and LFU by weights that regret moves; no flash",
    "Vietri et al.: Driving Cache Replacement with ML-based LeCaR, HotStorage 2018",
    module_path!(),
    PARAMETERS,
)
.with(Capabilities { looks_at_neighbours: true, ..Capabilities::of(Depth::Ram) });

impl Registered for LeCaR {
    fn new(space: Space<'_>, values: &Values) -> Self {
        let Space { ids, capacity_pages, .. } = space;
        let history_capacity_pages = share_of(capacity_pages, values.real("history_share"));
        let is_by_address = values.choice("ties") == LOWEST_ADDRESS;
        let ties = if is_by_address { Ties::LowestAddress } else { Ties::OldestFirst };
        let log_pages = history_capacity_pages
            .saturating_mul(2)
            .saturating_add(capacity_pages)
            .saturating_add(1);
        Self {
            log: Recency::new(ids, log_pages, [CACHED, LEFT_BY_RECENCY, LEFT_BY_FREQUENCY]),
            frequencies: Frequencies::new(space, log_pages, ties),
            weights: Weights::new(values.integer(SEED.name)),
            capacity_pages,
            history_pages: [0; 2],
            history_capacity_pages,
            learning_rate: values.real("learning_rate"),
            // The paper's d = 0.005^(1/N), kept as a logarithm: one exponential per regret instead
            // of a power.
            log_discount: libm::log(values.real("discount")) / f64::from(capacity_pages),
            time: 0,
        }
    }
}

impl Replacement for LeCaR {
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        self.time += 1;
        let found = self.log.state(page);
        if found == CACHED {
            self.log.touch(page, CACHED);
            self.frequencies.refer(page, self.time);
            return Outcome::Hit;
        }
        self.admit(page, found)
    }

    fn contains(&self, page: PageId) -> bool {
        self.frequencies.contains(page)
    }

    fn forget(&mut self, page: PageId) {
        if let Some((position, state)) = self.log.find(page) {
            self.log.set_state(position, 0);
            self.frequencies.forget(page);
            self.history_pages[0] -= u32::from(state == LEFT_BY_RECENCY);
            self.history_pages[1] -= u32::from(state == LEFT_BY_FREQUENCY);
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.log.prefetch(page);
        self.frequencies.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.log.assert_invariants();
        self.frequencies.assert_invariants();
        let count = |kind: u8| self.log.iter().filter(|(_, _, state)| *state == kind).count();
        assert_eq!(count(CACHED), self.frequencies.len(), "LFU has the pages of the cache");
        assert!(self.frequencies.len() <= self.capacity_pages as usize, "the cache has a limit");
        let histories = [LEFT_BY_RECENCY, LEFT_BY_FREQUENCY];
        for (pages, history) in self.history_pages.into_iter().zip(histories) {
            assert_eq!(pages as usize, count(history), "histories are counted");
            assert!(pages <= self.history_capacity_pages, "histories have a limit");
        }
    }

    fn memory_bytes(&self) -> usize {
        self.log.memory_bytes() + self.frequencies.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        self.history_pages.iter().sum::<u32>() as usize * HISTORY_BYTES
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("recency_weight", self.weights.recency());
    }
}

impl LeCaR {
    /// Brings in a page that is in a history, or in none.
    fn admit(&mut self, page: PageId, found: u8) -> Outcome {
        let known = self.frequencies.known(page);
        let mut references = 1;
        if found != 0 {
            let expert = if found == LEFT_BY_RECENCY { Expert::Recency } else { Expert::Frequency };
            let age = (self.time - known.time) as f64;
            // The paper's regret: r = d^t, where t is the time since the eviction, and d is the
            // discount to the power of 1 / N for a cache of N pages.
            let discount = libm::exp(age * self.log_discount);
            self.weights.regret(expert, self.learning_rate * discount);
            // The history keeps a page's frequency, so LFU knows it again.
            references = known.references.saturating_add(1);
            // Before the eviction below: a page of a history counts in its length until it is taken
            // out.
            self.forget(page);
        }
        let is_full = self.frequencies.len() == self.capacity_pages as usize;
        let evicted = is_full.then(|| self.evict());
        self.log.touch(page, CACHED);
        self.frequencies.admit(page, references, self.time);
        Outcome::Admitted { evicted }
    }

    /// Evicts what the expert says whose turn it is.
    fn evict(&mut self) -> PageId {
        let (position, _) = self.log.oldest(CACHE).expect("a full cache has a page");
        let oldest = self.log.page(position);
        let least = self.frequencies.least();
        // Drawn before the comparison, also where both agree, so that the sequence of draws depends
        // on evictions only.
        let expert = self.weights.draw();
        // If both experts would evict the page, neither is to blame, and no history notes it.
        if oldest == least {
            self.forget(oldest);
            return oldest;
        }
        let (page, kind, class) = match expert {
            Expert::Recency => (oldest, LEFT_BY_RECENCY, RECENCY_HISTORY),
            Expert::Frequency => (least, LEFT_BY_FREQUENCY, FREQUENCY_HISTORY),
        };
        if self.history_capacity_pages == 0 {
            self.forget(page);
            return page;
        }
        let history = class - RECENCY_HISTORY;
        if self.history_pages[history] == self.history_capacity_pages {
            let (position, _) = self.log.oldest(class).expect("a full history has a page");
            self.forget(self.log.page(position));
        }
        self.frequencies.evict(page, self.time);
        self.log.touch(page, kind);
        self.history_pages[history] += 1;
        page
    }
}
