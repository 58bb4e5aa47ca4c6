//! 3L-Cache: evict, of some candidates, the page that a learned model expects back last.
//!
//! Trees predict the time to a page's next reference from its age, its last distances between
//! references, and how often it was referenced. Their training samples come from the cache itself: a
//! reference marks a random page, and that page's next reference, or its end as a remembered page,
//! labels the sample. Two sorts of pages are candidates: new ones that were not referenced soon, and
//! those that a pointer passes on its way from the least to the most recently referenced page. Half of
//! the candidates are evicted before there are new ones.
//!
//! * Source: Zhou et al., *3L-Cache: Low Overhead and Precise Learning-based Eviction Policy for
//!   Caches*, FAST '25; all rules and constants by the authors' program for it.
//! * State: 4 bytes per page that exists, 48 bytes per cached or remembered page, of which there are
//!   twice to 6 times as many as cached ones; 9 bytes per training sample.
//! * Cost: a hit O(1), a miss O(trees), amortised; a training, every `batch` samples,
//!   O(batch trees log leaves).
//! * Deviations: (1) The model's numbers are whole (the module `learning`), so features fall
//!   into 256 classes of 12.5 %; the authors' LightGBM finds classes in the samples, and grows each
//!   tree on a random 80 % of samples and features, ours on all. (2) Pages have one size, which is no
//!   feature, and the authors' two aims, misses and bytes, are one. (3) A training waits until an
//!   eviction needs new candidates, and samples that come meanwhile are left out. (4) A page that
//!   returns leaves no hole in the queue of remembered pages. (5) The queue of new pages has at most
//!   as many entries as the cache. (6) A page is a candidate once per round. (7) Shares that adapt
//!   stay between 1 and 100 %; the authors' overflow. (8) Of pages that are expected back at the same
//!   time, the least recently referenced leaves.

use alloc::vec::Vec;

use super::candidates::{CANDIDATES_PER_EVICTION, Newcomers, Pointer};
use super::learner::{Learner, Record, UNMARKED, UNPREDICTED, Window, age, features};
use super::{Algorithm, Outcome, Registered, Replacement, Space};
use crate::capabilities::{Capabilities, Depth, SparseMemory};
use crate::config::{Parameter, Values};
use crate::learning::{Forest, power};
use crate::queue::{Frames, LazyHeap, Lists, Rank, Stamp};
use crate::random::{SEED, SplitMix64};
use crate::{Ids, Op, PageId};

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("batch", 1..=1 << 17, 1 << 14)
        .summary("training samples from which a model is made")
        .source("measured on traces of 0.3 to 4 million references; the authors' program: 65,536"),
    Parameter::integer("trees", 1..=256, 16)
        .summary("trees of the model")
        .source("the authors' program"),
    Parameter::integer("leaves", 2..=256, 32)
        .summary("leaves of a tree at most")
        .source("the authors' program"),
    Parameter::integer("leaf_samples", 1..=1 << 16, 20)
        .summary("training samples of a leaf at least")
        .source("LightGBM's default"),
    Parameter::real("learning_rate", 0.0..=1.0, 0.1)
        .summary("share of the error that each tree corrects")
        .source("the authors' program"),
    Parameter::integer("candidates", 1..=1 << 16, 1024)
        .summary(
            "pages that a round compares at most, of the pointer's; at most 1 % of the cache and 2",
        )
        .source("the authors' program"),
    SEED,
];

/// The list of cached pages, the least recently referenced at the front.
const CACHED: u32 = 0;
/// The list of remembered pages, the first to be forgotten at the front.
const REMEMBERED: u32 = 1;
/// The list of frames without a page.
const FREE: u32 = 2;
const LISTS: u32 = 3;

/// 3L-Cache.
#[derive(Clone, Debug)]
pub struct ThreeLCache {
    ids: Ids,
    capacity_pages: u32,
    frames: Frames,
    lists: Lists<Record>,
    /// Frames below this one have had a page; few of them are free.
    frames_used: u32,
    /// References so far.
    now: u64,
    draws: SplitMix64,
    learner: Learner,
    window: Window,
    /// Frames of cached pages with a prediction, the one that is expected last at the top.
    predictions: LazyHeap<Rank>,
    predicted_pages: u32,
    /// Evictions until there are new candidates.
    evictions_left: u32,
    pointer: Pointer,
    newcomers: Newcomers,
    /// The frames of a round, while it looks for them.
    found: Vec<u32>,
}

/// Its row in the registry.
pub const THREE_L_CACHE: Algorithm = Algorithm::new::<ThreeLCache>(
    "3l-cache",
    "learns distances between references by boosted trees, and evicts what they expect last; no flash",
    "Zhou et al.: 3L-Cache, FAST 2025",
    module_path!(),
    PARAMETERS,
)
.with(Capabilities {
    sparse_memory: SparseMemory::of_cached(
        256,
        "it remembers as many pages as it caches, or more, and keeps samples to learn from",
    ),
    ..Capabilities::of(Depth::Ram)
});

impl Registered for ThreeLCache {
    fn new(Space { ids, capacity_pages, .. }: Space<'_>, values: &Values) -> Self {
        let capacity_pages = capacity_pages.min(ids.pages).max(1);
        let window = Window::new();
        let frames = Frames::new(ids, window.pages(capacity_pages));
        let mut lists = Lists::with_values(frames.count(), LISTS, Record::NEW);
        (0..frames.count()).for_each(|frame| lists.push_back(FREE, frame));
        Self {
            ids,
            capacity_pages,
            frames,
            lists,
            frames_used: 0,
            now: 0,
            draws: SplitMix64::new(values.integer(SEED.name)),
            learner: Learner::new(values),
            window,
            predictions: LazyHeap::new(ids.indexing),
            predicted_pages: 0,
            evictions_left: 0,
            pointer: Pointer::new(values.integer_u32("candidates")),
            newcomers: Newcomers::new(),
            found: Vec::new(),
        }
    }
}

impl Replacement for ThreeLCache {
    #[inline]
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        self.now += 1;
        let frame = self.frames.find(page);
        let list = frame.and_then(|frame| self.lists.list_of(frame));
        self.window.count(list.is_some(), list == Some(CACHED));
        if let Some(frame) = frame {
            self.meet_again(frame, list == Some(CACHED));
        }
        self.mark();
        self.forget_oldest();
        if list == Some(CACHED) {
            return Outcome::Hit;
        }
        let is_full = self.lists.len(CACHED) == self.capacity_pages;
        let evicted = is_full.then(|| self.evict());
        let frame = frame.unwrap_or_else(|| self.take_free(page));
        self.lists.push_back(CACHED, frame);
        if self.learner.model.is_some() {
            self.newcomers.push(page, self.capacity_pages);
        }
        Outcome::Admitted { evicted }
    }

    fn contains(&self, page: PageId) -> bool {
        let frame = self.frames.find(page);
        frame.is_some_and(|frame| self.lists.list_of(frame) == Some(CACHED))
    }

    fn forget(&mut self, page: PageId) {
        if let Some(frame) = self.frames.take(page) {
            self.unpredict(frame);
            self.step_over(frame);
            self.lists.remove(frame);
            self.lists.push_front(FREE, frame);
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.frames.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.frames.assert_invariants();
        self.lists.assert_invariants();
        assert!(self.lists.len(CACHED) <= self.capacity_pages, "the cache holds its capacity");
        for frame in 0..self.frames.count() {
            let list = self.lists.list_of(frame).expect("a frame is in a list");
            assert_eq!(self.frames.page(frame).is_none(), list == FREE, "free frames are empty");
            let is_predicted = self.lists.value(frame).urgency != UNPREDICTED;
            assert!(!is_predicted || list == CACHED, "predictions are of cached pages");
        }
        let predictions = || {
            let cached = self.lists.iter(CACHED);
            cached.filter_map(|frame| Some((frame, prediction(&self.lists, frame)?)))
        };
        assert_eq!(predictions().count(), self.predicted_pages as usize, "they are counted");
        self.predictions.assert_invariants(predictions());
        let times = |list| self.lists.iter(list).map(|frame| self.lists.value(frame).referred_at.0);
        assert!(times(CACHED).is_sorted(), "the least recently referenced page is first");
        let next = self.pointer.next.and_then(|frame| self.lists.list_of(frame));
        assert!(next.is_none_or(|list| list == CACHED), "the pointer is at a cached page");
        assert!(self.learner.samples.len() <= self.learner.batch, "a batch is no larger");
    }

    fn memory_bytes(&self) -> usize {
        self.frames.memory_bytes()
            + self.lists.memory_bytes()
            + self.learner.memory_bytes()
            + self.predictions.memory_bytes()
            + self.newcomers.memory_bytes()
            + self.found.capacity() * size_of::<u32>()
    }

    /// Returns the size of the records of pages, the samples and the model.
    fn metadata_bytes(&self) -> usize {
        let known_pages = self.lists.len(CACHED) + self.lists.len(REMEMBERED);
        known_pages as usize * size_of::<Record>() + self.learner.memory_bytes()
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, f64)) {
        let trees = self.learner.model.as_ref().map_or(0, Forest::trees);
        report("remembered_pages", f64::from(self.lists.len(REMEMBERED)));
        report("trees", trees as f64);
        report("near_percent", self.pointer.near_share as f64);
        report("reserved_percent", self.newcomers.reserved_percent() as f64);
    }
}

impl ThreeLCache {
    /// Process a reference to a known page: learn from it, and update the record of the page. A
    /// remembered page is in no list afterwards.
    fn meet_again(&mut self, frame: u32, is_cached: bool) {
        let record = *self.lists.value(frame);
        let distance = age(self.now, &record);
        if record.marked_age != UNMARKED {
            let is_sample = self.learner.chooses(&mut self.draws);
            // The features are those at the mark, and the label is the time from there to this
            // reference.
            self.learner.add(is_sample, &record, distance.saturating_sub(record.marked_age));
        }
        self.unpredict(frame);
        self.step_over(frame);
        self.lists.remove(frame);
        let record = self.lists.value_mut(frame);
        record.referred_at = Stamp(self.now);
        record.distances.rotate_right(1);
        record.distances[0] = distance;
        record.references = record.references.saturating_add(1);
        record.marked_age = UNMARKED;
        if is_cached {
            self.lists.push_back(CACHED, frame);
        }
    }

    /// Marks a random page that is known, unless it has a mark.
    fn mark(&mut self) {
        if self.lists.is_empty(REMEMBERED) {
            return;
        }
        let frame = self.draws.below(self.frames_used);
        if self.frames.page(frame).is_some() {
            let now = self.now;
            let record = self.lists.value_mut(frame);
            if record.marked_age == UNMARKED {
                record.marked_age = age(now, record).min(UNMARKED - 1);
            }
        }
    }

    /// Forgets a remembered page if there are too many.
    fn forget_oldest(&mut self) {
        let [cached, remembered] = [CACHED, REMEMBERED].map(|list| self.lists.len(list));
        if !self.window.fills(cached, remembered) {
            return;
        }
        let Some(frame) = self.lists.front(REMEMBERED) else { return };
        let record = *self.lists.value(frame);
        if record.marked_age != UNMARKED {
            let is_sample = self.learner.chooses(&mut self.draws);
            let age = age(self.now, &record);
            let distance = age.saturating_add(self.learner.oldest_age[1]);
            self.learner.add(is_sample, &record, distance);
            if is_sample {
                self.learner.oldest_age[0] = self.learner.oldest_age[0].max(age);
            }
        }
        let page = self.frames.page(frame).expect("a remembered page has a frame");
        self.frames.take(page);
        self.lists.remove(frame);
        self.lists.push_front(FREE, frame);
    }

    /// Evict a page and remember it.
    fn evict(&mut self) -> PageId {
        let frame = self.victim();
        self.unpredict(frame);
        self.step_over(frame);
        self.lists.remove(frame);
        self.lists.push_back(REMEMBERED, frame);
        self.frames.page(frame).expect("a cached page has a frame")
    }

    /// Return the frame of the page to evict.
    fn victim(&mut self) -> u32 {
        let oldest = self.lists.front(CACHED).expect("the cache is full");
        if self.evictions_left == 0 || self.predicted_pages == 0 {
            // Deviation 3: training waits until predictions are needed.
            if self.learner.samples.len() >= self.learner.batch {
                self.train();
            }
            if self.learner.model.is_none() {
                // LRU, until there is a model.
                return oldest;
            }
            self.evictions_left = (self.find_candidates() / CANDIDATES_PER_EVICTION).max(1);
        }
        self.evictions_left -= 1;
        let lists = &self.lists;
        let least = self.predictions.least(|frame| prediction(lists, frame));
        let (_, frame) = least.expect("a round has candidates");
        let record = self.lists.value(frame);
        let is_of_pointer = record.referred_at.0 <= self.pointer.referred_at;
        self.pointer.count_eviction(record.references, is_of_pointer);
        frame
    }

    /// Makes a new model, and looks whether the window is large enough.
    fn train(&mut self) {
        self.learner.train(self.now);
        // Times that two models predict do not compare.
        self.clear_predictions();
        if self.window.grows() {
            self.enlarge();
        }
    }

    /// Finds the candidates of a round and predicts when they come back; returns how many there are.
    fn find_candidates(&mut self) -> u32 {
        let mut found = core::mem::take(&mut self.found);
        found.clear();
        self.find_newcomers(&mut found);
        if self.newcomers.are_few(self.lists.len(CACHED)) || found.is_empty() {
            self.walk(&mut found);
        }
        // Deviation 6: the pointer may pass a page that is a newcomer as well.
        found.sort_unstable();
        found.dedup();
        for &frame in &found {
            self.predict(frame);
        }
        self.found = found;
        u32::try_from(self.found.len()).expect("frames are counted with u32")
    }

    /// Find the oldest newcomers that are still cached, if there are more than the share reserved
    /// for them.
    fn find_newcomers(&mut self, found: &mut Vec<u32>) {
        let cached = self.lists.len(CACHED);
        let candidates_max = self.pointer.candidates(u64::from(cached)) * 3 / 2;
        while (found.len() as u64) < candidates_max
            && let Some(page) = self.newcomers.pop_surplus(cached)
        {
            let frame = self.frames.find(page);
            found.extend(frame.filter(|&frame| self.lists.list_of(frame) == Some(CACHED)));
        }
    }

    /// Moves the pointer until it has found its candidates.
    fn walk(&mut self, found: &mut Vec<u32>) {
        let cached = u64::from(self.lists.len(CACHED));
        if self.pointer.length == 0 {
            self.pointer.length = cached;
        }
        let mut wanted = self.pointer.candidates(self.pointer.length);
        let asked = wanted;
        while wanted > 0 && (found.len() as u64) < cached {
            let first = self.lists.front(CACHED).expect("the cache is full");
            let frame = self.pointer.next.unwrap_or(first);
            let record = *self.lists.value(frame);
            if self.pointer.takes(record.references) {
                found.push(frame);
                self.pointer.referred_at = record.referred_at.0;
                wanted -= 1;
            }
            self.pointer.next = self.lists.after(frame);
            if self.pointer.steps >= self.pointer.length || self.pointer.next.is_none() {
                self.clear_predictions();
                let walk_evicted = self.pointer.begin(cached);
                self.newcomers.adapt(walk_evicted);
                wanted = self.pointer.candidates(cached);
            }
        }
        self.pointer.here.candidates += asked;
    }

    /// Predicts when the page of a frame comes back, and files it as a candidate.
    fn predict(&mut self, frame: u32) {
        let Some(model) = &self.learner.model else { return };
        let record = *self.lists.value(frame);
        let row = features(age(self.now, &record), &record);
        let distance = u64::from(power(model.predict(&row)));
        let expected_at = self.now - self.learner.trained_at + distance;
        let lateness = u32::try_from(expected_at).unwrap_or(u32::MAX);
        if record.urgency == UNPREDICTED {
            self.predicted_pages += 1;
        }
        self.lists.value_mut(frame).urgency = (u32::MAX - lateness).min(UNPREDICTED - 1);
        let lists = &self.lists;
        let key = prediction(lists, frame).expect("it was predicted");
        let members = self.predicted_pages as usize;
        self.predictions.push(frame, key, members, |frame| prediction(lists, frame));
    }

    /// Remove the page of a frame from the candidates.
    fn unpredict(&mut self, frame: u32) {
        let urgency = &mut self.lists.value_mut(frame).urgency;
        if core::mem::replace(urgency, UNPREDICTED) != UNPREDICTED {
            self.predicted_pages -= 1;
        }
    }

    fn clear_predictions(&mut self) {
        self.predictions = LazyHeap::new(self.ids.indexing);
        self.predicted_pages = 0;
        let mut next = self.lists.front(CACHED);
        while let Some(frame) = next {
            self.lists.value_mut(frame).urgency = UNPREDICTED;
            next = self.lists.after(frame);
        }
    }

    /// Moves the pointer on before the page of a frame changes its place.
    fn step_over(&mut self, frame: u32) {
        if self.pointer.next == Some(frame) {
            self.pointer.next = self.lists.after(frame);
        }
    }

    /// Gives a page that is not known a frame.
    fn take_free(&mut self, page: PageId) -> u32 {
        let frame = self.lists.front(FREE).expect("the window has room");
        self.lists.remove(frame);
        self.frames.put(frame, page);
        self.frames_used = self.frames_used.max(frame + 1);
        *self.lists.value_mut(frame) = Record { referred_at: Stamp(self.now), ..Record::NEW };
        frame
    }

    /// Makes room for a larger window.
    #[cold]
    fn enlarge(&mut self) {
        let mut frames = Frames::new(self.ids, self.window.pages(self.capacity_pages));
        let mut lists = Lists::with_values(frames.count(), LISTS, Record::NEW);
        for list in [CACHED, REMEMBERED] {
            self.lists.iter(list).for_each(|frame| lists.push_back(list, frame));
        }
        let former = self.frames.count();
        for frame in 0..frames.count() {
            let page = (frame < former).then(|| self.frames.page(frame)).flatten();
            if let Some(page) = page {
                frames.put(frame, page);
                *lists.value_mut(frame) = *self.lists.value(frame);
            } else {
                lists.push_back(FREE, frame);
            }
        }
        (self.frames, self.lists) = (frames, lists);
    }
}

/// Return the key of a candidate: how soon it is expected, and its last reference.
#[inline]
fn prediction(lists: &Lists<Record>, frame: u32) -> Option<Rank> {
    let Record { urgency, referred_at, .. } = *lists.value(frame);
    (urgency != UNPREDICTED).then_some(Rank { count: urgency, stamp: referred_at })
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::Geometry;
    use crate::policy::single::lru::LRU;

    /// Count the misses of an algorithm.
    fn misses(
        algorithm: &Algorithm,
        given: &[(&str, u32)],
        pages: u32,
        capacity_pages: u32,
        trace: &[u32],
    ) -> u32 {
        let mut cache = build(algorithm, given, pages, capacity_pages);
        let is_miss = |&&page: &&u32| cache.refer(PageId(page), Op::Read) != Outcome::Hit;
        u32::try_from(trace.iter().filter(is_miss).count()).unwrap()
    }

    fn build(
        algorithm: &Algorithm,
        given: &[(&str, u32)],
        pages: u32,
        capacity_pages: u32,
    ) -> alloc::boxed::Box<dyn Replacement + Send> {
        use alloc::string::ToString as _;
        let given: Vec<_> =
            given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let values = Values::resolve("3l-cache", algorithm.parameters, &given).unwrap();
        let space = Space {
            ids: Ids::dense(pages),
            capacity_pages,
            geometry: &Geometry::linear(pages),
            inputs: &crate::Inputs::default(),
        };
        (algorithm.build)(space, &values)
    }

    /// Generate one page of the small loop, then `stride` of the large one, and so on.
    fn two_loops(small: u32, large: u32, stride: u32, references: u32) -> Vec<u32> {
        let mut large_page = (0..large).cycle();
        let mut small_page = (large..large + small).cycle();
        let turns = 0..references / (1 + stride);
        let turn = |_| {
            let mut turn: Vec<u32> = small_page.next().into_iter().collect();
            turn.extend(large_page.by_ref().take(stride as usize));
            turn
        };
        turns.flat_map(turn).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4))]

        /// Pages with a short period and pages with a long one. The cache would hold all of the first, but
        /// between two references to one of these there are half as many pages again as it holds.
        #[test]
        fn pages_with_the_shorter_period_stay(
            small in 50_u32..300, stride in 2_u32..8, seed in any::<u32>(),
        ) {
            let capacity_pages = small * (1 + stride) * 2 / 3;
            let large = small * stride * 10;
            let trace = two_loops(small, large, stride, 100_000);
            let given = [("batch", 2000), ("seed", seed)];
            let learned = misses(&THREE_L_CACHE, &given, small + large, capacity_pages, &trace);
            let recent = misses(&LRU, &[], small + large, capacity_pages, &trace);
            let all = u32::try_from(trace.len()).unwrap();
            let hits_wanted = all / (1 + stride) / 2;
            prop_assert!(recent == all, "recency misleads");
            prop_assert!(learned < all - hits_wanted, "{learned} of {all}, {hits_wanted}");
        }
    }

    /// Half of the references are to pages that return once they have been out of the cache for long.
    #[test]
    fn the_window_grows_where_remembered_pages_return() {
        let (pages, capacity_pages) = (4000, 1000);
        let mut draws = SplitMix64::new(3);
        let mut cache = build(&THREE_L_CACHE, &[("batch", 5000)], pages, capacity_pages);
        let mut remembered_pages = 0.0;
        for step in 0..2_500_000 {
            cache.refer(PageId(draws.below(pages)), Op::Read);
            if step % 250_000 == 0 {
                cache.assert_invariants();
            }
            cache.gauges(&mut |name, value| {
                if name == "remembered_pages" {
                    remembered_pages = value;
                }
            });
        }
        assert!(remembered_pages > 1900.0, "{remembered_pages}: at first there are 1002");
    }
}
