//! MQ: pages in queues by the logarithm of their frequency, where unused pages sink.
//!
//! A page lies in queue `log2(frequency)`, each queue an LRU. The victim is the least recently
//! used page of the lowest queue that has one; its frequency is remembered for a while, and it
//! goes on from there if it returns. A page that is not used for a life time sinks by one queue.
//!
//! * Source: Zhou, Philbin, Li, *The Multi-Queue Replacement Algorithm for Second Level Buffer
//!   Caches*, USENIX 2001.
//! * State: 32 bytes per page that exists; sparse, 45 per page of the cache and the histories.
//! * Cost: O(queues) per reference.
//! * Deviations: (1) The life time is the paper's peak temporal distance: of the distances between
//!   two uses that are greater than the cache, the most frequent one. The paper does not say how to
//!   find it. Here, distances fall into four classes per power of two, and the life time is the
//!   start of the fullest class. Until such a distance occurs, the life time is the number of pages
//!   in the tier and its histories. (2) The history of a page that returns is dropped if room for the victim's is needed, as
//!   in the paper's listing; libCacheSim removes it first.

use alloc::boxed::Box;
use alloc::vec;

use super::{Algorithm, Outcome, Registered, Replacement, Space, share_of};
use crate::config::{Parameter, Scaling, Values};
use crate::queue::{Lists, Numbers};
use crate::{Op, PageId};

/// The most queues.
const QUEUES_MAX: u32 = 32;

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("queues", 1..=QUEUES_MAX as u64, 8)
        .summary("the number of queues of a cache")
        .source("the paper's experiments, as recalled"),
    Parameter::integer_or_auto("life_time", 0..=u64::MAX)
        .summary("accesses of the cache without a use after which a page sinks; auto adapts it")
        .source("the paper: the most frequent distance between two uses above the cache's pages")
        .scaling(Scaling::Proportional),
    Parameter::real("ghosts", 0.0..=1000.0, 4.0)
        .summary("histories kept of evicted pages, as a multiple of the cache's pages")
        .source("the paper's experiments, as recalled"),
];

/// Bits of a distance, below its highest one, that choose its class: four classes per power of two.
const CLASS_BITS: u32 = 2;
/// Number of classes of distances.
const CLASSES: usize = (u64::BITS << CLASS_BITS) as usize;

/// One cache under MQ.
#[derive(Clone, Debug)]
pub struct Mq {
    numbers: Numbers,
    /// The queues, then the histories, each newest first, of the pages' numbers.
    orders: Lists,
    queues: u32,
    capacity_pages: u32,
    ghosts_max: u32,
    /// Per number of a page: how often it was used, 0 if it is forgotten.
    frequency: Box<[u32]>,
    used_at: Box<[u64]>,
    expires_at: Box<[u64]>,
    /// If none is given, it is adapted.
    life_time: Option<u64>,
    /// Number of distances in each class. Distances that a cache of this size can bridge by recency
    /// alone do not count.
    distances: [u64; CLASSES],
    /// The fullest class.
    peak: usize,
    /// Accesses of this cache.
    now: u64,
}

/// Its row in the registry.
pub const MQ: Algorithm = Algorithm::new::<Mq>(
    "mq",
    "queues by the logarithm of a page's frequency, where unused pages sink; no flash",
    "Zhou, Philbin, Li: Multi-Queue (MQ), USENIX 2001",
    module_path!(),
    PARAMETERS,
);

impl Mq {
    fn with_settings(
        Space { ids, capacity_pages, .. }: Space<'_>,
        queues: u32,
        ghosts_max: u32,
        life_time: Option<u64>,
    ) -> Self {
        assert!((1..=QUEUES_MAX).contains(&queues), "there are a few queues");
        // A victim becomes a history before another one is forgotten.
        let tracked = capacity_pages.saturating_add(ghosts_max).saturating_add(1);
        let numbers = Numbers::new(ids, tracked);
        let count = numbers.count() as usize;
        Self {
            orders: Lists::new(numbers.count(), queues + 1),
            numbers,
            queues,
            capacity_pages,
            ghosts_max,
            frequency: vec![0; count].into_boxed_slice(),
            used_at: vec![0; count].into_boxed_slice(),
            expires_at: vec![0; count].into_boxed_slice(),
            life_time,
            distances: [0; CLASSES],
            peak: 0,
            now: 0,
        }
    }

    /// Return the time without a use after which a page sinks.
    fn life_time(&self) -> u64 {
        let initial = u64::from(self.capacity_pages) + u64::from(self.ghosts_max);
        self.life_time.unwrap_or(match self.distances[self.peak] {
            0 => initial,
            _ => class_start(self.peak).max(u64::from(self.capacity_pages) + 1),
        })
    }

    /// Return the number of histories that are kept of pages that were evicted.
    fn ghosts(&self) -> u32 {
        self.orders.len(self.queues)
    }

    /// Return the number of pages the cache holds.
    fn len(&self) -> u32 {
        (0..self.queues).map(|queue| self.orders.len(queue)).sum()
    }

    /// Evicts a page of a full cache.
    fn make_room(&mut self) -> Option<PageId> {
        if self.len() < self.capacity_pages {
            return None;
        }
        // The least recently used page of the lowest queue that is not empty.
        let victim = (0..self.queues).find_map(|queue| self.orders.back(queue));
        let victim = victim.expect("a full cache holds a page");
        self.orders.remove(victim);
        self.orders.push_front(self.queues, victim);
        // Qout is a FIFO: its oldest history leaves.
        if self.ghosts() > self.ghosts_max {
            let oldest = self.orders.back(self.queues).expect("one was added just now");
            self.orders.remove(oldest);
            self.frequency[oldest as usize] = 0;
        }
        Some(self.numbers.page(victim))
    }

    fn enter(&mut self, queue: u32, number: u32) {
        self.orders.push_front(queue, number);
        // The life time of now: what is in a queue already keeps the one that it entered with.
        self.expires_at[number as usize] = self.now.saturating_add(self.life_time());
    }

    /// Move the least recently used page of each queue one down if its time has come: the paper's
    /// `Adjust`.
    fn sink(&mut self) {
        self.now += 1;
        for queue in 1..self.queues {
            let Some(oldest) = self.orders.back(queue) else { continue };
            // A page sinks queue by queue, with a new lifetime in each, so a page that was once hot
            // can leave.
            if self.expires_at[oldest as usize] < self.now {
                self.orders.remove(oldest);
                self.enter(queue - 1, oldest);
            }
        }
    }

    /// Counts the distance between two uses of a page.
    fn learn(&mut self, distance: u64) {
        // An LRU cache of this size would hit it without any lifetime.
        if distance <= u64::from(self.capacity_pages) {
            return;
        }
        let class = class_of(distance);
        self.distances[class] += 1;
        // Strictly: of equally full classes the first keeps the peak, so the life time does not
        // waver.
        if self.distances[class] > self.distances[self.peak] {
            self.peak = class;
        }
    }
}

/// Return the class of a distance, which is not 0.
fn class_of(distance: u64) -> usize {
    let octave = distance.ilog2();
    let below = distance ^ (1 << octave);
    let quarter = if octave < CLASS_BITS {
        below << (CLASS_BITS - octave)
    } else {
        below >> (octave - CLASS_BITS)
    };
    #[expect(clippy::cast_possible_truncation, reason = "there are four quarters")]
    let quarter = quarter as usize;
    (octave << CLASS_BITS) as usize + quarter
}

/// Return the least distance of a class, rounded down.
const fn class_start(class: usize) -> u64 {
    let octave = class >> CLASS_BITS;
    let quarter = class as u64 & ((1 << CLASS_BITS) - 1);
    let bits = CLASS_BITS as usize;
    let below =
        if octave < bits { (quarter << octave) >> bits } else { quarter << (octave - bits) };
    (1 << octave) + below
}

impl Registered for Mq {
    fn new(space: Space<'_>, values: &Values) -> Self {
        let ghosts_max = share_of(space.capacity_pages, values.real("ghosts"));
        let life_time = values.integer_or_auto("life_time");
        Self::with_settings(space, values.integer_u32("queues"), ghosts_max, life_time)
    }
}

impl Replacement for Mq {
    fn refer(&mut self, page: PageId, _op: Op) -> Outcome {
        let outcome = if self.contains(page) {
            Outcome::Hit
        } else {
            // Deviation (2): before the page's own history is taken up, so that the victim's may
            // push it out.
            Outcome::Admitted { evicted: self.make_room() }
        };
        let orders = &self.orders;
        let number = self.numbers.enter(page, |number, _| orders.contains(number));
        let is_known = self.orders.contains(number);
        if is_known {
            self.orders.remove(number);
            self.learn(self.now - self.used_at[number as usize]);
        }
        let frequency = &mut self.frequency[number as usize];
        *frequency = if is_known { frequency.saturating_add(1) } else { 1 };
        // The paper: queue log2(f), the last one for all greater frequencies.
        let queue = frequency.ilog2().min(self.queues - 1);
        self.used_at[number as usize] = self.now;
        self.enter(queue, number);
        // After the use, as in the paper's listing, where `Adjust` is the last step of an access.
        self.sink();
        outcome
    }

    fn contains(&self, page: PageId) -> bool {
        let list = self.numbers.find(page).and_then(|number| self.orders.list_of(number));
        list.is_some_and(|list| list < self.queues)
    }

    fn forget(&mut self, page: PageId) {
        let known = self.numbers.find(page).filter(|&number| self.orders.contains(number));
        if let Some(number) = known {
            self.orders.remove(number);
            self.frequency[number as usize] = 0;
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.orders.prefetch(page.0);
    }

    fn assert_invariants(&self) {
        self.orders.assert_invariants();
        self.numbers.assert_invariants();
        assert!(self.len() <= self.capacity_pages, "the cache holds its capacity");
        assert!(self.ghosts() <= self.ghosts_max, "the histories are bounded");
        for (number, &frequency) in (0..).zip(&self.frequency) {
            assert_eq!(frequency > 0, self.orders.contains(number), "a known page has been used");
        }
        for queue in 0..self.queues {
            let highest =
                |number: u32| self.frequency[number as usize].ilog2().min(self.queues - 1);
            let mut numbers = self.orders.iter(queue);
            assert!(
                numbers.all(|number| queue <= highest(number)),
                "a page is no higher than it earned"
            );
        }
    }

    fn memory_bytes(&self) -> usize {
        self.numbers.memory_bytes()
            + self.orders.memory_bytes()
            + size_of_val(&*self.frequency)
            + size_of_val(&*self.used_at)
            + size_of_val(&*self.expires_at)
    }

    /// Frequency and time per page held, number and frequency per history.
    fn metadata_bytes(&self) -> usize {
        let held_bytes = size_of::<u32>() + size_of::<u64>();
        let ghost_bytes = size_of::<PageId>() + size_of::<u32>();
        self.len() as usize * held_bytes + self.ghosts() as usize * ghost_bytes
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, f64)) {
        report("life_time", self.life_time() as f64);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::{Geometry, Ids, Inputs};

    fn mq(capacity_pages: u32, ghosts_max: u32, life_time: Option<u64>) -> Mq {
        let (ids, inputs) = (Ids::sparse(8), &Inputs::NONE);
        let geometry = &Geometry::linear(ids.pages);
        let space = Space { ids, capacity_pages, geometry, inputs };
        Mq::with_settings(space, 4, ghosts_max, life_time)
    }

    fn refer(mq: &mut Mq, pages: &[u32]) -> Vec<u32> {
        let victims = pages.iter().filter_map(|&page| match mq.refer(PageId(page), Op::Read) {
            Outcome::Admitted { evicted } => evicted,
            Outcome::Hit | Outcome::Refused => None,
        });
        let victims = victims.map(|page| page.0).collect();
        mq.assert_invariants();
        victims
    }

    #[test]
    fn frequent_pages_outlive_recent_ones() {
        let mut mq = mq(2, 8, Some(100));
        assert_eq!(refer(&mut mq, &[0, 0, 1, 2, 3]), [1, 2]);
        assert!(mq.contains(PageId(0)) && mq.contains(PageId(3)));
    }

    #[test]
    fn a_returning_page_goes_on_where_it_was() {
        let mut mq = mq(1, 2, Some(100));
        assert_eq!(refer(&mut mq, &[0, 0, 0, 1, 0]), [0, 1]);
        assert_eq!(mq.frequency[0], 4);
        assert_eq!(mq.orders.list_of(0), Some(2));
        assert_eq!(refer(&mut mq, &[2, 3, 4]), [0, 2, 3]);
        assert_eq!(mq.frequency[0], 0, "of three histories, two are kept");
    }

    #[test]
    fn an_unused_page_sinks() {
        let mut mq = mq(4, 2, Some(2));
        refer(&mut mq, &[0, 0, 0, 0]);
        assert_eq!(mq.orders.list_of(0), Some(2));
        let queues = [1, 2, 3, 1, 2, 3].map(|page| {
            refer(&mut mq, &[page]);
            mq.orders.list_of(0)
        });
        let [upper, middle, lower] = [2, 1, 0].map(Some);
        // It expires at 5, and then at 8; time goes on at the end of a reference.
        assert_eq!(queues, [upper, middle, middle, middle, lower, lower]);
    }

    #[test]
    fn the_life_time_is_the_most_frequent_distance_above_the_cache() {
        let mut mq = mq(2, 6, None);
        assert_eq!(mq.life_time(), 8);
        refer(&mut mq, &[0, 0, 0, 0]);
        assert_eq!(mq.life_time(), 8, "the cache bridges distances of 1 in any case");
        refer(&mut mq, &[1, 2, 3, 4, 0, 1, 2]);
        assert_eq!(mq.life_time(), 5, "distances of 5 are alone in their class");
    }

    #[test]
    fn a_distance_is_in_the_class_that_starts_at_or_below_it() {
        let far = [1, 1 << 20, (1 << 20) + 1, u64::MAX];
        for distance in (1..200).chain(far) {
            let class = class_of(distance);
            assert!(class_start(class) <= distance, "{distance}");
            let next =
                (class + 1..CLASSES).map(class_start).find(|&start| start > class_start(class));
            assert!(next.is_none_or(|next| distance < next), "{distance}");
        }
    }
}
