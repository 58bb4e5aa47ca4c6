//! CACHEUS: LeCaR with experts that withstand scans and churn, and a learning rate that adapts.
//!
//! The expert for recency is SR-LRU: its list R holds pages that were referenced again, its list SR
//! new ones and those that R had no room for, and it evicts from SR only. A hit on a page that R had
//! no room for makes R longer; a miss on a page that left as a new one makes SR longer. The expert
//! for frequency is CR-LFU: of the pages referenced least often, it evicts the one referenced last,
//! so that under churn some pages stay long enough to be hit. Which is followed is drawn by weight,
//! as in LeCaR; how fast weights move is learned by hill climbing on the hit ratio.
//!
//! * Source: Rodriguez et al., *Learning Cache Replacement with CACHEUS*, FAST 2021, section 4.
//! * State: 20 bytes per page that exists, 56 to 96 bytes per cached page; sparse, none and 115.
//! * Cost: O(1) per hit, amortised O(log n) per miss.
//! * Deviations: where the paper leaves details open, as the authors' program: (1) SR begins with
//!   1 % of the cache; the first pages fill R; (2) a miss leaves R one page short of its length; (3)
//!   the history of SR-LRU is that of its evictions as an expert, half as long as the cache, as is
//!   the other; (4) a page keeps its mark as a new one until it comes back from a history; (5) a page
//!   both experts would evict goes to no history; (6) a page that comes back has its former count of
//!   references, without this one; (7) no weight falls below 0.01. The learning rate follows
//!   the paper's algorithm 2, which restarts at random; the program restarts where it began. Our own:
//!   (8) in a cache of one page R stays empty. Lots are drawn as in LeCaR, so miss counts differ from
//!   those of other programs.

use super::experts::{Expert, Frequencies, Ties, Weights};
use super::{Algorithm, Outcome, Registered, Replacement, Space, share_of};
use crate::config::{Parameter, Values};
use crate::queue::Recency;
use crate::random::SEED;
use crate::{Op, PageId};

/// Parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::real_or_auto("learning_rate", RATE_MIN..=RATE_MAX)
        .summary("the first learning rate; by default, drawn from its range")
        .source("section 4.1"),
    Parameter::real("history_share", 0.0..=4.0, 0.5)
        .summary("pages of each history, as a share of the cache")
        .source("the authors' program"),
    SEED,
];

/// The least learning rate.
const RATE_MIN: f64 = 0.001;
/// The greatest learning rate.
const RATE_MAX: f64 = 1.0;
/// Number of periods without a better hit ratio after which the learning rate is drawn again.
const UNLEARN_PERIODS: u32 = 10;
/// The first share of SR.
const SCAN_SHARE: f64 = 0.01;

/// Flag of pages in R: referenced again.
const REUSED: u8 = 1;
/// Flag of pages in SR: new, or no longer in R.
const SCANNED: u8 = 2;
/// Flag of pages in the history of SR-LRU.
const LEFT_BY_RECENCY: u8 = 4;
/// Flag of pages in the history of CR-LFU.
const LEFT_BY_FREQUENCY: u8 = 8;
/// Flag next to [`SCANNED`]: R had no room for the page.
const DEMOTED: u8 = 16;
/// Flag of pages that entered a full cache and were in no history.
const NEW: u8 = 32;

/// The class of R in the log; the others are in the order of the bits above.
const R: usize = 0;
const SR: usize = 1;
const RECENCY_HISTORY: usize = 2;
const FREQUENCY_HISTORY: usize = 3;

/// Bytes of a page of a history: its number, its links, its count and its marks.
const HISTORY_BYTES: usize = 20;

/// The learning rate: it climbs towards a better hit ratio.
#[derive(Clone, Debug)]
struct LearningRate {
    rate: f64,
    previous_rate: f64,
    previous_hit_ratio: f64,
    hits: u32,
    unlearn_periods: u32,
}

/// Its row in the registry.
pub const CACHEUS: Algorithm = Algorithm::new::<Cacheus>(
    "cacheus",
    "SR-LRU and CR-LFU by weights that regret moves, at a rate that is learned; no flash",
    "Rodriguez et al.: Learning Cache Replacement with CACHEUS, FAST 2021",
    module_path!(),
    PARAMETERS,
);

impl LearningRate {
    /// End a period of `period` references: algorithm 2.
    fn update(&mut self, period: u32, unit: impl FnOnce() -> f64) {
        let hit_ratio = f64::from(self.hits) / f64::from(period);
        // Algorithm 2: the gradient is the change of the hit ratio per change of the rate.
        let gain = hit_ratio - self.previous_hit_ratio;
        let step = self.rate - self.previous_rate;
        self.previous_rate = self.rate;
        self.previous_hit_ratio = hit_ratio;
        self.hits = 0;
        if step != 0.0 {
            let change = libm::fabs(self.rate * step);
            // The rate goes on in its direction as long as the hit ratio improves, and turns back
            // otherwise.
            let next = if gain / step > 0.0 { self.rate + change } else { self.rate - change };
            self.rate = next.clamp(RATE_MIN, RATE_MAX);
            self.unlearn_periods = 0;
            return;
        }
        // The rate has settled. If hits do not improve for several periods, it is drawn again to
        // leave a local optimum.
        if hit_ratio == 0.0 || gain <= 0.0 {
            self.unlearn_periods += 1;
        }
        if self.unlearn_periods >= UNLEARN_PERIODS {
            self.unlearn_periods = 0;
            self.rate = random_rate(unit());
        }
    }
}

/// Return a number from 0 to below 1 as a learning rate.
fn random_rate(unit: f64) -> f64 {
    RATE_MIN + (RATE_MAX - RATE_MIN) * unit
}

/// Learning with scan-resistant LRU and churn-resistant LFU.
#[derive(Clone, Debug)]
pub struct Cacheus {
    /// All four lists: a page enters each at its newest end.
    log: Recency<4>,
    len: [u32; 4],
    frequencies: Frequencies,
    weights: Weights,
    rate: LearningRate,
    capacity_pages: u32,
    /// The length that R should have; SR should have the rest.
    reused_target_pages: u32,
    history_capacity_pages: u32,
    /// Pages of SR that R had no room for, the paper's `C_demoted`.
    demoted_pages: u32,
    /// Pages of the history of SR-LRU that left as new ones, the paper's `C_new`.
    new_pages: u32,
    /// References so far.
    time: u64,
}

impl Registered for Cacheus {
    fn new(space: Space<'_>, values: &Values) -> Self {
        let Space { ids, capacity_pages, .. } = space;
        let history_capacity_pages = share_of(capacity_pages, values.real("history_share"));
        let log_pages = history_capacity_pages
            .saturating_mul(2)
            .saturating_add(capacity_pages)
            .saturating_add(1);
        let mut weights = Weights::new(values.integer(SEED.name));
        let drawn = random_rate(weights.unit());
        Self {
            log: Recency::new(
                ids,
                log_pages,
                [REUSED, SCANNED, LEFT_BY_RECENCY, LEFT_BY_FREQUENCY],
            ),
            len: [0; 4],
            frequencies: Frequencies::new(space, log_pages, Ties::NewestFirst),
            weights,
            rate: LearningRate {
                rate: values.real_or_auto("learning_rate").unwrap_or(drawn),
                previous_rate: 0.0,
                previous_hit_ratio: 0.0,
                hits: 0,
                unlearn_periods: 0,
            },
            capacity_pages,
            reused_target_pages: capacity_pages - rounded(capacity_pages, SCAN_SHARE).max(1),
            history_capacity_pages,
            demoted_pages: 0,
            new_pages: 0,
            time: 0,
        }
    }
}

impl Replacement for Cacheus {
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        self.time += 1;
        // Section 4.1: the learning rate is updated once per N requests, N being the cache's size.
        if self.time.is_multiple_of(u64::from(self.capacity_pages)) {
            let weights = &mut self.weights;
            self.rate.update(self.capacity_pages, || weights.unit());
        }
        let state = self.log.state(page);
        if state & (REUSED | SCANNED) == 0 {
            return self.admit(page, state);
        }
        self.frequencies.refer(page, self.time);
        self.rate.hits += 1;
        if state & REUSED != 0 {
            self.log.touch(page, state);
        } else {
            self.reuse(page, state);
        }
        Outcome::Hit
    }

    fn contains(&self, page: PageId) -> bool {
        self.frequencies.contains(page)
    }

    fn forget(&mut self, page: PageId) {
        if self.log.find(page).is_some() {
            self.take(page);
            self.frequencies.forget(page);
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
        let count = |holds: &dyn Fn(u8) -> bool| {
            self.log.iter().filter(|&(_, _, state)| holds(state)).count()
        };
        let lists = [REUSED, SCANNED, LEFT_BY_RECENCY, LEFT_BY_FREQUENCY];
        for (len, list) in self.len.into_iter().zip(lists) {
            assert_eq!(len as usize, count(&|state| state & list != 0), "lists are counted");
        }
        let is_demoted = |state| state & DEMOTED != 0;
        let has_left_new = |state| state & LEFT_BY_RECENCY != 0 && state & NEW != 0;
        assert_eq!(self.demoted_pages as usize, count(&is_demoted), "demoted pages are counted");
        assert_eq!(self.new_pages as usize, count(&has_left_new), "new pages are counted");
        let cached = self.len[R] + self.len[SR];
        assert_eq!(cached as usize, self.frequencies.len(), "CR-LFU has the pages of the cache");
        assert!(cached <= self.capacity_pages, "the cache has a limit");
        for history in [RECENCY_HISTORY, FREQUENCY_HISTORY] {
            assert!(self.len[history] <= self.history_capacity_pages, "histories have a limit");
        }
        assert!(self.reused_target_pages < self.capacity_pages, "SR has a page at least");
    }

    fn memory_bytes(&self) -> usize {
        self.log.memory_bytes() + self.frequencies.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        (self.len[RECENCY_HISTORY] + self.len[FREQUENCY_HISTORY]) as usize * HISTORY_BYTES
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("recency_weight", self.weights.recency());
        report("learning_rate", self.rate.rate);
        report("reused_target_pages", f64::from(self.reused_target_pages));
    }
}

impl Cacheus {
    /// Handle a hit in SR: the page moves to R.
    fn reuse(&mut self, page: PageId, state: u8) {
        // R would have no room.
        if self.capacity_pages == 1 {
            self.log.touch(page, state);
            return;
        }
        if state & DEMOTED != 0 {
            // R was too short for it.
            let step = ratio(self.new_pages, self.demoted_pages);
            let most = self.capacity_pages - 1;
            self.reused_target_pages = self.reused_target_pages.saturating_add(step).min(most);
        }
        self.take(page);
        // A page moves up before another is demoted only if R has room, so R never exceeds its
        // target.
        if self.len[R] >= self.reused_target_pages {
            self.demote();
        }
        self.put(page, REUSED | state & NEW, R);
    }

    /// Brings in a page that is in a history, or in none.
    fn admit(&mut self, page: PageId, state: u8) -> Outcome {
        if state == 0 {
            return self.admit_unknown(page);
        }
        let references = self.frequencies.known(page).references;
        self.take(page);
        let expert = if state & LEFT_BY_RECENCY != 0 { Expert::Recency } else { Expert::Frequency };
        if expert == Expert::Recency && state & NEW != 0 {
            // SR was too short for it.
            let step = ratio(self.demoted_pages, self.new_pages);
            // R keeps a page, or no hit in SR could ever reach it; deviation (8) is the cache of
            // one page.
            let least = 1.min(self.capacity_pages - 1);
            self.reused_target_pages = self.reused_target_pages.saturating_sub(step).max(least);
        }
        // The expert that evicted this page was wrong.
        self.weights.regret(expert, self.rate.rate);
        let evicted = self.make_room();
        // A page of a history was referenced before: it belongs to R, without the mark of a new
        // page.
        self.put(page, REUSED, R);
        self.frequencies.admit(page, references, self.time);
        self.shorten_reused();
        Outcome::Admitted { evicted }
    }

    /// Brings in a page of which nothing is known. The first ones fill R, then SR.
    fn admit_unknown(&mut self, page: PageId) -> Outcome {
        let scan_target_pages = self.capacity_pages - self.reused_target_pages;
        let is_room = self.len[R] + self.len[SR] < self.capacity_pages;
        let mut evicted = None;
        if self.len[SR] == 0 && self.len[R] < self.reused_target_pages {
            self.put(page, REUSED, R);
        } else if is_room && self.len[SR] < scan_target_pages {
            self.put(page, SCANNED, SR);
        } else {
            evicted = self.make_room();
            self.put(page, SCANNED | NEW, SR);
            self.shorten_reused();
        }
        self.frequencies.admit(page, 1, self.time);
        Outcome::Admitted { evicted }
    }

    /// Evicts what the expert says whose turn it is, if the cache is full.
    fn make_room(&mut self) -> Option<PageId> {
        if self.len[R] + self.len[SR] < self.capacity_pages {
            return None;
        }
        // SR is never empty in a full cache, since R is shortened below its target, which leaves SR
        // a page.
        let (position, _) = self.log.oldest(SR).expect("a full cache has a page in SR");
        let oldest = self.log.page(position);
        let least = self.frequencies.least();
        let expert = self.weights.draw();
        let (page, list, mark) = match expert {
            Expert::Recency => (oldest, RECENCY_HISTORY, LEFT_BY_RECENCY),
            Expert::Frequency => (least, FREQUENCY_HISTORY, LEFT_BY_FREQUENCY),
        };
        let state = self.take(page);
        // If both experts would evict the page, neither is to blame, and no history notes it.
        if oldest == least || self.history_capacity_pages == 0 {
            self.frequencies.forget(page);
            return Some(page);
        }
        if self.len[list] == self.history_capacity_pages {
            let (position, _) = self.log.oldest(list).expect("a full history has a page");
            self.forget(self.log.page(position));
        }
        self.frequencies.evict(page, self.time);
        self.put(page, mark | state & NEW, list);
        Some(page)
    }

    /// Demotes pages of R to SR until one has room there.
    fn shorten_reused(&mut self) {
        while self.len[R] > 0 && self.len[R] >= self.reused_target_pages {
            self.demote();
        }
    }

    /// Moves the oldest page of R to SR.
    fn demote(&mut self) {
        let (position, _) = self.log.oldest(R).expect("a list with a page has an oldest one");
        let page = self.log.page(position);
        let state = self.take(page);
        self.put(page, SCANNED | DEMOTED | state & NEW, SR);
    }

    /// Puts a page at the newest end of a list.
    fn put(&mut self, page: PageId, state: u8, list: usize) {
        self.log.touch(page, state);
        self.len[list] += 1;
        self.demoted_pages += u32::from(state & DEMOTED != 0);
        self.new_pages += u32::from(state & LEFT_BY_RECENCY != 0 && state & NEW != 0);
    }

    /// Takes a page out of its list, and returns its marks.
    fn take(&mut self, page: PageId) -> u8 {
        let (position, state) = self.log.find(page).expect("the page is in a list");
        self.log.set_state(position, 0);
        let lists = REUSED | SCANNED | LEFT_BY_RECENCY | LEFT_BY_FREQUENCY;
        self.len[(state & lists).trailing_zeros() as usize] -= 1;
        self.demoted_pages -= u32::from(state & DEMOTED != 0);
        self.new_pages -= u32::from(state & LEFT_BY_RECENCY != 0 && state & NEW != 0);
        state
    }
}

/// Return the ratio of one count to another, in whole pages, at least one: halves round up.
fn ratio(more: u32, less: u32) -> u32 {
    let less = u64::from(less.max(1));
    let rounded = (2 * u64::from(more) + less) / (2 * less);
    u32::try_from(rounded.max(1)).unwrap_or(u32::MAX)
}

/// Return a share of a cache in whole pages, halves rounded up.
fn rounded(capacity_pages: u32, share: f64) -> u32 {
    share_of(capacity_pages.saturating_mul(2), share).div_ceil(2)
}
