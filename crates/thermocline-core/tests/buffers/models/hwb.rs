//! HWB: hot and warm pages one by one, cold ones by blocks.
//!
//! Readings:
//!
//! 1. A third of the capacity, rounded down, is hot, as much is warm, the rest is cold. A region
//!    that has no room at all (fewer than three pages) never takes a page.
//! 2. Metadata is updated before anything is decided, and a ghost leaves the ghost list then.
//! 3. `F_avg` counts every page ever written in its window once, also one whose metadata was
//!    forgotten; a forgotten page that comes back starts with no distances and `F_self` 1.
//! 4. A page without a distance has the first term of Eq. 1 only.
//! 5. `D_avg` is updated as `D_avg + (D - D_avg) / n`; Eq. 1 is evaluated from left to right.
//! 6. The stored prediction is at least 1; beta is the distance minus the stored prediction.
//! 7. Temperatures are evaluated when they are compared, with the `F_avg` of that time. A tie
//!    leaves the page where it is; a hot tail that is no hotter than the warm tail becomes cold.
//! 8. A page that comes back from the ghost list into the warm region is no promotion: it counts no
//!    move. Displacements count wherever they happen, in trimming too.
//! 9. Counters are looked at once, at the end of a write, in the order of `MOVES`; then hot, warm
//!    and cold are trimmed. A counter above the threshold is reset even if its region cannot
//!    shrink.
//! 10. Warm makes room for a displaced hot page before that page comes in.
//! 11. The pages of a flushed block become ghosts in ascending order; the oldest ghosts go first.
//! 12. A block's distances are between writes to any of its pages, wherever these are, from the
//!     beginning; ED uses the same prediction as a page, not below 1. At most one block per write.
//! 13. Periods are counted from the first write. A forgotten page loses its counts.
//! 14. Soft regions: the buffer evicts when it is full, not when cold is; without cold blocks the
//!     warm tail goes, then the hot tail. Cold is never trimmed.
//! 15. Sigma moves a step after each period in which both a known page was written and a page was
//!     flushed, to the term of Eq. 1 whose mean over the former has the greater share of the sum of
//!     both means; it stays within 0.1 to 0.9. A page's terms are those before it is written.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{BlockList, BufferModel, Unbuffered, join, take};

/// Rule by which lambda scales the last distance in Eq. 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// 2^lambda: the reading of this model.
    Power,
    /// 2 * lambda, what is printed.
    Product,
}

/// Eq. 2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Predictor {
    pub(crate) scale: Scale,
    pub(crate) lambda_cap: f64,
    pub(crate) has_beta: bool,
}

impl Predictor {
    pub(crate) fn predict(self, last: f64, last_but_one: Option<f64>, beta: f64) -> f64 {
        let lambda = match last_but_one {
            Some(earlier) if earlier < last => (last / earlier).min(self.lambda_cap),
            _ => 0.0,
        };
        let factor = match self.scale {
            Scale::Power => libm::exp2(lambda),
            Scale::Product => 2.0 * lambda,
        };
        let beta = if self.has_beta { beta } else { 0.0 };
        (factor * last + beta).max(1.0)
    }
}

/// Record of a page, or of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) written_at: u64,
    /// Writes in the current period and in the one before.
    pub(crate) writes: f64,
    pub(crate) earlier_writes: f64,
    pub(crate) distances: u64,
    pub(crate) last: Option<f64>,
    pub(crate) last_but_one: Option<f64>,
    pub(crate) average: f64,
    pub(crate) prediction: Option<f64>,
}

impl Record {
    fn write(&mut self, now: u64, is_known: bool, predictor: Predictor) {
        if is_known {
            let distance = (now - self.written_at) as f64;
            let beta = self.prediction.map_or(0.0, |prediction| distance - prediction);
            self.last_but_one = self.last;
            self.last = Some(distance);
            self.distances += 1;
            self.average += (distance - self.average) / self.distances as f64;
            self.prediction = Some(predictor.predict(distance, self.last_but_one, beta));
        }
        self.written_at = now;
        self.writes += 1.0;
    }

    fn frequency(&self) -> f64 {
        self.writes + self.earlier_writes
    }
}

/// Writes that count for `F_self` and `F_avg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Forever,
    /// The current period of so many writes and the one before.
    Periods(u64),
    /// All, but every so many writes all counts are halved.
    Halving(u64),
}

/// Set over which `F_avg` is the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mean {
    /// All pages written in the window.
    Written,
    /// The pages in the buffer.
    Resident,
}

/// Limit of the regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Regions {
    /// Each its size.
    Strict,
    /// All together the capacity; sizes are targets.
    Soft,
}

/// Events that count towards a change of the sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counters {
    /// Moves from each region to each other.
    Pairs,
    /// Moves over a boundary: a hot page displaced to the cold region counts as hot to warm.
    Boundaries,
}

/// Rule by which the sizes follow the moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Adaptation {
    /// A: a size changes when a counter exceeds it.
    pub(crate) threshold: u64,
    pub(crate) counters: Counters,
    pub(crate) minimum: usize,
}

/// Active flush of the cold tail, before its room is needed, with its effective distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActiveFlush {
    Off,
    /// Eq. 3 on the distances of the block.
    Block,
    /// The largest of its pages' last writes and predictions; the capacity if there is none.
    Pages,
}

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) pages_per_block: u64,
    /// Hot, warm and cold; thirds if not given.
    pub(crate) sizes: Option<[usize; 3]>,
    pub(crate) sigma: f64,
    /// Step of sigma after a period, and the number of writes of a period; sigma is fixed if
    /// `None`.
    pub(crate) sigma_step: Option<(f64, u64)>,
    /// Without, the temperature is `F_self / F_avg`.
    pub(crate) predictor: Option<Predictor>,
    /// `true` if a page cools down while it is not written.
    pub(crate) has_ageing: bool,
    pub(crate) window: Window,
    pub(crate) mean: Mean,
    /// Number of ghosts; four times the capacity if not given.
    pub(crate) ghosts: Option<usize>,
    pub(crate) adaptation: Option<Adaptation>,
    pub(crate) regions: Regions,
    /// `true` if the block that a page comes into is flushed only if there is no other.
    pub(crate) spares_own_block: bool,
    pub(crate) active_flush: ActiveFlush,
}

impl Default for Setup {
    /// Return the documented defaults.
    fn default() -> Self {
        Self {
            pages_per_block: 64,
            sizes: None,
            sigma: 0.5,
            sigma_step: None,
            predictor: Some(Predictor { scale: Scale::Power, lambda_cap: 8.0, has_beta: true }),
            has_ageing: false,
            window: Window::Forever,
            mean: Mean::Written,
            ghosts: None,
            adaptation: Some(Adaptation { threshold: 16, counters: Counters::Pairs, minimum: 1 }),
            regions: Regions::Strict,
            spares_own_block: false,
            active_flush: ActiveFlush::Off,
        }
    }
}

/// The regions, hottest first, as indices of `sizes` and `moves`.
const HOT: usize = 0;
const WARM: usize = 1;
const COLD: usize = 2;

/// The moves that are counted, in the order in which the counters are looked at.
const MOVES: [(usize, usize); 5] =
    [(COLD, WARM), (WARM, HOT), (WARM, COLD), (HOT, WARM), (HOT, COLD)];

/// The writes of the window, for `F_avg`.
#[derive(Debug, Default)]
struct Totals {
    writes: f64,
    earlier_writes: f64,
    pages: BTreeSet<u64>,
    earlier_pages: BTreeSet<u64>,
}

#[derive(Debug)]
pub(crate) struct Hwb {
    capacity: usize,
    setup: Setup,
    sizes: [usize; 3],
    hot: Vec<u64>,
    warm: Vec<u64>,
    cold: BlockList,
    /// Pages whose metadata outlived them, the oldest first.
    ghosts: VecDeque<u64>,
    /// The metadata of the pages in the buffer and of the ghosts.
    records: BTreeMap<u64, Record>,
    block_records: BTreeMap<u64, Record>,
    totals: Totals,
    /// Number of pages that moved from one region to another.
    moves: [[u64; 3]; 3],
    now: u64,
    sigma: f64,
    /// The terms of the pages that were written again in this period, and of those flushed.
    observed: [Vec<(f64, f64)>; 2],
    flushed: Vec<Vec<u64>>,
}

impl Hwb {
    pub(crate) fn new(capacity: usize, setup: Setup) -> Self {
        let third = capacity / 3;
        let sigma = setup.sigma;
        let sizes = setup.sizes.unwrap_or([third, third, capacity - 2 * third]);
        assert_eq!(sizes.iter().sum::<usize>(), capacity, "the regions share the buffer");
        assert!(capacity == 0 || sizes[COLD] > 0, "pages come in through the cold region");
        Self {
            capacity,
            cold: BlockList::new(setup.pages_per_block),
            setup,
            sizes,
            hot: vec![],
            warm: vec![],
            ghosts: VecDeque::new(),
            records: BTreeMap::new(),
            block_records: BTreeMap::new(),
            totals: Totals::default(),
            moves: [[0; 3]; 3],
            now: 0,
            sigma,
            observed: [vec![], vec![]],
            flushed: vec![],
        }
    }

    /// Hot, warm and cold, in pages.
    pub(crate) fn sizes(&self) -> [usize; 3] {
        self.sizes
    }

    /// Return the record of a page.
    pub(crate) fn record(&self, page: u64) -> Option<&Record> {
        self.records.get(&page)
    }

    /// Eq. 1.
    ///
    /// # Panics
    /// If nothing is known of the page.
    pub(crate) fn temperature(&self, page: u64) -> f64 {
        let record = &self.records[&page];
        let mean = self.mean_frequency();
        let Some(_) = self.setup.predictor else { return record.frequency() / mean };
        let (long_term, short_term) = self.terms(page);
        self.sigma * long_term + (1.0 - self.sigma) * short_term
    }

    /// Return the two terms of Eq. 1, without their weights.
    fn terms(&self, page: u64) -> (f64, f64) {
        let record = &self.records[&page];
        let long_term = record.frequency() / self.mean_frequency();
        let Some(mut prediction) = record.prediction else { return (long_term, 0.0) };
        if self.setup.has_ageing {
            prediction = prediction.max((self.now - record.written_at) as f64);
        }
        (long_term, record.average / prediction)
    }

    /// Move sigma at the end of a period.
    fn adjust_sigma(&mut self, step: f64) {
        let [rewritten, flushed] = std::mem::take(&mut self.observed);
        if rewritten.is_empty() || flushed.is_empty() {
            return;
        }
        let mean = |pages: &[(f64, f64)], term: fn(&(f64, f64)) -> f64| {
            pages.iter().map(term).fold(0.0, |sum, one| sum + one) / pages.len() as f64
        };
        let separation = |term| {
            let (high, low) = (mean(&rewritten, term), mean(&flushed, term));
            if high + low > 0.0 { high / (high + low) } else { 0.5 }
        };
        let (frequency, distance) = (separation(|one| one.0), separation(|one| one.1));
        let moved = match frequency.total_cmp(&distance) {
            std::cmp::Ordering::Greater => self.sigma + step,
            std::cmp::Ordering::Less => self.sigma - step,
            std::cmp::Ordering::Equal => return,
        };
        self.sigma = moved.clamp(0.1, 0.9);
    }

    /// `F_avg`.
    fn mean_frequency(&self) -> f64 {
        if self.setup.mean == Mean::Written {
            let writes = self.totals.writes + self.totals.earlier_writes;
            let Totals { pages, earlier_pages, .. } = &self.totals;
            let distinct = pages.len() + earlier_pages.difference(pages).count();
            return writes / distinct as f64;
        }
        let resident = self.dirty();
        let writes: f64 = resident.iter().map(|page| self.records[page].frequency()).sum();
        writes / resident.len() as f64
    }

    fn start_period(&mut self) {
        for record in self.records.values_mut() {
            record.earlier_writes = record.writes;
            record.writes = 0.0;
        }
        self.totals.earlier_writes = self.totals.writes;
        self.totals.writes = 0.0;
        self.totals.earlier_pages = std::mem::take(&mut self.totals.pages);
    }

    fn halve(&mut self) {
        for record in self.records.values_mut() {
            record.writes /= 2.0;
        }
        self.totals.writes /= 2.0;
    }

    /// Update the history before any decision; return `true` if the page was a ghost, which it is
    /// no longer.
    fn note_write(&mut self, page: u64) -> bool {
        if let Some((step, period)) = self.setup.sigma_step {
            if self.records.contains_key(&page) {
                let terms = self.terms(page);
                self.observed[0].push(terms);
            }
            if self.now > 0 && self.now.is_multiple_of(period) {
                self.adjust_sigma(step);
            }
        }
        self.now += 1;
        let earlier = self.now - 1;
        match self.setup.window {
            Window::Periods(writes) if earlier > 0 && earlier.is_multiple_of(writes) => {
                self.start_period();
            }
            Window::Halving(writes) if earlier > 0 && earlier.is_multiple_of(writes) => {
                self.halve();
            }
            Window::Forever | Window::Periods(_) | Window::Halving(_) => {}
        }
        let plain = Predictor { scale: Scale::Power, lambda_cap: 8.0, has_beta: true };
        let predictor = self.setup.predictor.unwrap_or(plain);
        let block = self.cold.number_of(page);
        for (records, number) in [(&mut self.records, page), (&mut self.block_records, block)] {
            let is_known = records.contains_key(&number);
            records.entry(number).or_default().write(self.now, is_known, predictor);
        }
        self.totals.writes += 1.0;
        self.totals.pages.insert(page);
        let place = self.ghosts.iter().position(|&ghost| ghost == page);
        place.and_then(|place| self.ghosts.remove(place)).is_some()
    }

    fn write(&mut self, page: u64) {
        let is_ghost = self.note_write(page);
        if take(&mut self.hot, page) {
            self.hot.insert(0, page);
        } else if self.warm.contains(&page) {
            let is_promoted = self.is_hot_enough(page, &self.hot, HOT);
            take(&mut self.warm, page);
            if is_promoted {
                self.count(WARM, HOT);
                self.insert_hot(page);
            } else {
                self.warm.insert(0, page);
            }
        } else if self.cold.contains(page) {
            if self.is_hot_enough(page, &self.warm, WARM) {
                self.cold.remove_page(page);
                self.count(COLD, WARM);
                self.insert_warm(page);
            } else {
                self.cold.touch(page);
            }
        } else if is_ghost && self.is_hot_enough(page, &self.warm, WARM) {
            if self.setup.regions == Regions::Soft {
                self.make_room(page);
            }
            self.insert_warm(page);
        } else {
            self.make_room(page);
            self.cold.touch(page);
        }
        self.adapt();
        self.flush_actively();
        self.assert_invariants();
    }

    /// Return `true` if a page may enter a page region: it has room, or its tail is colder.
    fn is_hot_enough(&self, page: u64, list: &[u64], region: usize) -> bool {
        if list.len() < self.sizes[region] {
            return true;
        }
        let is_hotter = |&tail: &u64| self.temperature(page) > self.temperature(tail);
        self.sizes[region] > 0 && list.last().is_some_and(is_hotter)
    }

    fn insert_hot(&mut self, page: u64) {
        while self.hot.len() >= self.sizes[HOT] {
            self.displace_hot();
        }
        self.hot.insert(0, page);
    }

    fn insert_warm(&mut self, page: u64) {
        while self.warm.len() >= self.sizes[WARM] {
            self.displace_warm();
        }
        self.warm.insert(0, page);
    }

    fn displace_hot(&mut self) {
        let page = self.hot.pop().expect("a hot page is displaced");
        let is_hotter = |&tail: &u64| self.temperature(page) > self.temperature(tail);
        if self.warm.last().is_none_or(is_hotter) {
            self.count(HOT, WARM);
            self.insert_warm(page);
        } else {
            self.count(HOT, COLD);
            self.insert_cold(page);
        }
    }

    fn displace_warm(&mut self) {
        let page = self.warm.pop().expect("a warm page is displaced");
        self.count(WARM, COLD);
        self.insert_cold(page);
    }

    /// Put a displaced page into its block; soft regions hold as many pages as before.
    fn insert_cold(&mut self, page: u64) {
        if self.setup.regions == Regions::Strict {
            self.make_room(page);
        }
        self.cold.touch(page);
    }

    /// Flushes until a page can come in: to the cold region, or, with soft regions, anywhere.
    fn make_room(&mut self, page: u64) {
        let own = self.cold.number_of(page);
        let spared = self.setup.spares_own_block.then_some(own);
        match self.setup.regions {
            Regions::Strict => {
                while self.cold.page_count() >= self.sizes[COLD] {
                    self.flush_tail(spared);
                }
            }
            Regions::Soft => {
                while self.dirty().len() >= self.capacity {
                    if !self.cold.blocks().is_empty() {
                        self.flush_tail(spared);
                    } else if let Some(tail) = self.warm.pop().or_else(|| self.hot.pop()) {
                        self.flush(vec![tail]);
                    }
                }
            }
        }
    }

    fn flush_tail(&mut self, spared: Option<u64>) {
        let tail = self.cold.tail_except(spared).expect("the cold region has a block");
        let block = self.cold.remove_block(tail).expect("the tail is a block");
        self.flush(block.batch());
    }

    fn flush(&mut self, batch: Vec<u64>) {
        for &page in &batch {
            if self.setup.sigma_step.is_some() {
                let terms = self.terms(page);
                self.observed[1].push(terms);
            }
            self.ghosts.push_back(page);
        }
        while self.ghosts.len() > self.setup.ghosts.unwrap_or(4 * self.capacity) {
            let forgotten = self.ghosts.pop_front().expect("there are too many ghosts");
            self.records.remove(&forgotten);
        }
        self.flushed.push(batch);
    }

    fn count(&mut self, source: usize, target: usize) {
        let Some(adaptation) = self.setup.adaptation else { return };
        let is_boundary = adaptation.counters == Counters::Boundaries;
        let target = if is_boundary && source == HOT { WARM } else { target };
        self.moves[source][target] += 1;
    }

    /// Moves a page frame for every counter above the threshold, and trims what is too large then.
    fn adapt(&mut self) {
        let Some(adaptation) = self.setup.adaptation else { return };
        for (source, target) in MOVES {
            if self.moves[source][target] > adaptation.threshold {
                self.moves[source][target] = 0;
                if self.sizes[source] > adaptation.minimum {
                    self.sizes[source] -= 1;
                    self.sizes[target] += 1;
                }
            }
        }
        while self.hot.len() > self.sizes[HOT] {
            self.displace_hot();
        }
        while self.warm.len() > self.sizes[WARM] {
            self.displace_warm();
        }
        while self.setup.regions == Regions::Strict && self.cold.page_count() > self.sizes[COLD] {
            self.flush_tail(None);
        }
    }

    /// Flushes the cold tail if its effective distance has passed.
    fn flush_actively(&mut self) {
        let Some(tail) = self.cold.blocks().last() else { return };
        let effective = |record: &Record, unknown: Option<f64>| {
            record.prediction.or(unknown).map(|distance| record.written_at as f64 + distance)
        };
        let distance = match self.setup.active_flush {
            ActiveFlush::Off => None,
            ActiveFlush::Block => effective(&self.block_records[&tail.number], None),
            ActiveFlush::Pages => tail
                .pages
                .iter()
                .filter_map(|page| effective(&self.records[page], Some(self.capacity as f64)))
                .max_by(f64::total_cmp),
        };
        if distance.is_some_and(|distance| distance < self.now as f64) {
            self.flush_tail(None);
        }
    }

    /// Assert the invariants of HWB's regions; the driver checks the conservation of pages.
    fn assert_invariants(&self) {
        let resident = self.dirty();
        let counts = [self.hot.len(), self.warm.len(), self.cold.page_count()];
        assert_eq!(resident.len(), counts.iter().sum::<usize>(), "regions are disjoint");
        assert!(resident.len() <= self.capacity, "the buffer holds its capacity");
        assert_eq!(self.sizes.iter().sum::<usize>(), self.capacity, "sizes sum to the capacity");
        for region in [HOT, WARM, COLD] {
            let is_soft = region == COLD && self.setup.regions == Regions::Soft;
            assert!(counts[region] <= self.sizes[region] || is_soft, "a region is within its size");
        }
        let ghosts: BTreeSet<u64> = self.ghosts.iter().copied().collect();
        assert!(ghosts.is_disjoint(&resident), "a ghost is not in the buffer");
        assert!(
            ghosts.len() <= self.setup.ghosts.unwrap_or(4 * self.capacity),
            "ghosts are bounded"
        );
        let known: BTreeSet<u64> = self.records.keys().copied().collect();
        assert_eq!(known, &resident | &ghosts, "metadata is of pages in the buffer and of ghosts");
        let predictions = self.records.values().filter_map(|record| record.prediction);
        assert!(predictions.min_by(f64::total_cmp).is_none_or(|least| least >= 1.0));
    }
}

impl BufferModel for Hwb {
    fn access(&mut self, page: u64, write: bool) -> Vec<Vec<u64>> {
        if self.capacity == 0 {
            return Unbuffered.access(page, write);
        }
        if write {
            self.write(page);
        }
        std::mem::take(&mut self.flushed)
    }

    fn contains(&self, page: u64) -> bool {
        self.hot.contains(&page) || self.warm.contains(&page) || self.cold.contains(page)
    }

    fn dirty(&self) -> BTreeSet<u64> {
        let pages = self.hot.iter().chain(&self.warm).copied();
        pages.chain(self.cold.pages()).collect()
    }

    /// Return the regions that are not empty, each with the most recently used first.
    fn state(&self) -> String {
        let list = |pages: &[u64]| join(pages.iter().map(u64::to_string));
        [("hot", list(&self.hot)), ("warm", list(&self.warm)), ("cold", self.cold.text())]
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(region, text)| format!("{region} {text}"))
            .collect::<Vec<_>>()
            .join(", ")
    }
}
