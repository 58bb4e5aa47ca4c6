//! 3L-Cache on lists that are searched. Its forest is the core's: that has a search of its own to
//! match.

use std::collections::BTreeMap;

use thermocline_core::learning::{Forest, Samples, Settings, log, power};
use thermocline_core::random::SplitMix64;

use super::super::{join, value};
use super::{Outcome, Rule, take};

/// Record of a page.
#[derive(Clone)]
struct Known {
    page: u32,
    /// The times of its references since it is known.
    times: Vec<u32>,
    marked: Option<u32>,
}

/// A page, at a place that random numbers choose by.
type Place = usize;

pub(super) struct ThreeLCache {
    capacity: usize,
    candidates_max: usize,
    batch: usize,
    settings: Settings,
    draws: SplitMix64,
    now: u32,
    places: Vec<Option<Known>>,
    /// Places that are free again, the last one first.
    free: Vec<Place>,
    /// The least recently referenced first.
    cached: Vec<Place>,
    /// The one that left the cache first is first.
    remembered: Vec<Place>,
    samples: Vec<([u8; 5], u32)>,
    model: Option<Forest<5>>,
    trained: u32,
    oldest: u32,
    oldest_then: u32,
    /// Expected time of each candidate.
    expected: BTreeMap<Place, u32>,
    evictions_left: usize,
    walk: Walk,
    newcomers: Vec<u32>,
    reserved: usize,
}

/// The walk through the cache.
struct Walk {
    next: Option<Place>,
    steps: usize,
    length: usize,
    near: usize,
    references_max: u64,
    last: u32,
    /// Evicted and candidates: in the near part, once it is past, and here.
    fared: [(usize, usize); 2],
    /// The references of those that were evicted.
    evicted: Vec<u64>,
}

impl ThreeLCache {
    pub(super) fn new(capacity: usize, given: &[(String, String)]) -> Self {
        let rate: f64 = value(given, "learning_rate", 0.1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 2^16")]
        let learning_rate = (rate * 65_536.0) as u32;
        Self {
            capacity,
            candidates_max: value(given, "candidates", 1024),
            batch: value(given, "batch", 16_384),
            settings: Settings {
                trees: value(given, "trees", 16),
                leaves: value(given, "leaves", 32),
                leaf_samples: value(given, "leaf_samples", 20),
                learning_rate,
            },
            draws: SplitMix64::new(value(given, "seed", 1)),
            now: 0,
            places: vec![],
            free: vec![],
            cached: vec![],
            remembered: vec![],
            samples: vec![],
            model: None,
            trained: 0,
            oldest: 0,
            oldest_then: 0,
            expected: BTreeMap::new(),
            evictions_left: 0,
            walk: Walk::new(),
            newcomers: vec![],
            reserved: 2,
        }
    }

    fn known(&self, place: Place) -> &Known {
        self.places[place].as_ref().expect("the place is taken")
    }

    fn last(&self, place: Place) -> u32 {
        *self.known(place).times.last().expect("it was referenced")
    }

    fn references(&self, place: Place) -> u64 {
        self.known(place).times.len() as u64
    }

    fn row(&self, place: Place, at: u32) -> [u8; 5] {
        let times = &self.known(place).times;
        let mut distances = times.windows(2).rev().map(|pair| pair[1] - pair[0]);
        let [first, second, third] = [(); 3].map(|()| distances.next().unwrap_or(0));
        let references = u32::try_from(times.len()).expect("there are few");
        Samples::row([at - self.last(place), first, second, third, references])
    }

    /// Return the mark of a page, if it has one, becomes a sample or not.
    fn learn(&mut self, place: Place, distance: impl Fn(&Self, u32) -> u32) -> bool {
        let Some(marked) = self.known(place).marked else { return false };
        let is_sample = self.model.is_none() || self.draws.below(4) == 0;
        if is_sample && self.samples.len() < self.batch {
            self.samples.push((self.row(place, marked), log(distance(self, marked))));
        }
        is_sample
    }

    /// Step over a page that is about to leave its list.
    fn step_over(&mut self, place: Place) {
        self.expected.remove(&place);
        if self.walk.next == Some(place) {
            self.walk.next = self.after(place);
        }
    }

    fn after(&self, place: Place) -> Option<Place> {
        let at = self.cached.iter().position(|&known| known == place)?;
        self.cached.get(at + 1).copied()
    }

    fn forget_oldest(&mut self) {
        if self.remembered.len() < self.cached.len() + 2 {
            return;
        }
        let place = self.remembered.remove(0);
        let age = self.now - self.last(place);
        if self.learn(place, |this, _| age + this.oldest_then) {
            self.oldest = self.oldest.max(age);
        }
        self.places[place] = None;
        self.free.push(place);
    }

    fn evict(&mut self) -> Place {
        if self.evictions_left == 0 || self.expected.is_empty() {
            if self.samples.len() >= self.batch {
                let mut samples = Samples::new();
                self.samples.drain(..).for_each(|(row, label)| samples.push(row, label));
                self.model = Some(Forest::grow(&samples, &self.settings));
                (self.trained, self.oldest_then) = (self.now, self.oldest);
                self.expected.clear();
            }
            if self.model.is_none() {
                return self.cached[0];
            }
            self.evictions_left = (self.find_candidates() / 2).max(1);
        }
        self.evictions_left -= 1;
        let latest = |a: &Place, b: &Place| {
            self.expected[a].cmp(&self.expected[b]).then(self.last(*b).cmp(&self.last(*a)))
        };
        let victim = self.expected.keys().copied().max_by(latest).expect("there are candidates");
        self.walk.evicted.push(self.references(victim));
        self.walk.fared[1].0 += usize::from(self.last(victim) <= self.walk.last);
        victim
    }

    fn find_candidates(&mut self) -> usize {
        let mut found = vec![];
        let limit = self.candidates(self.cached.len()) * 3 / 2;
        while self.newcomers.len() > self.cached.len() * self.reserved / 100 && found.len() < limit
        {
            let page = self.newcomers.remove(0);
            found.extend(self.cached.iter().copied().find(|&place| self.known(place).page == page));
        }
        if self.newcomers.len() < self.cached.len() * self.reserved / 10 || found.is_empty() {
            self.walk(&mut found);
        }
        let model = self.model.as_ref().expect("it predicts");
        found.sort_unstable();
        found.dedup();
        for &place in &found {
            let distance = power(model.predict(&self.row(place, self.now)));
            let expected = (self.now - self.trained).saturating_add(distance).max(1);
            self.expected.insert(place, expected);
        }
        found.len()
    }

    fn candidates(&self, pages: usize) -> usize {
        if pages > 2 { (2 + pages / 100).min(self.candidates_max) } else { 1 }
    }

    fn walk(&mut self, found: &mut Vec<Place>) {
        if self.walk.length == 0 {
            self.walk.length = self.cached.len();
        }
        let asked = self.candidates(self.walk.length);
        let mut wanted = asked;
        while wanted > 0 && found.len() < self.cached.len() {
            let place = self.walk.next.unwrap_or(self.cached[0]);
            let near = self.walk.length * self.walk.near / 100;
            if self.walk.fared[0].1 == 0 && self.walk.steps > near {
                self.walk.fared = [self.walk.fared[1], (0, 0)];
            }
            let is_unpopular = self.references(place) <= self.walk.references_max;
            if is_unpopular || self.walk.steps <= near + 2 {
                found.push(place);
                self.walk.last = self.last(place);
                wanted -= 1;
            }
            self.walk.steps += 1;
            self.walk.next = self.after(place);
            if self.walk.steps >= self.walk.length || self.walk.next.is_none() {
                self.expected.clear();
                let evicted = self.walk.begin(self.cached.len());
                let is_walk_busy = evicted > self.newcomers.len();
                let reserved = if is_walk_busy { self.reserved + 1 } else { self.reserved / 2 };
                self.reserved = reserved.clamp(1, 100);
                wanted = self.candidates(self.cached.len());
            }
        }
        self.walk.fared[1].1 += asked;
    }
}

impl Walk {
    fn new() -> Self {
        Self {
            next: None,
            steps: 0,
            length: 0,
            near: 1,
            references_max: 1,
            last: 0,
            fared: [(0, 0); 2],
            evicted: vec![],
        }
    }

    fn begin(&mut self, cached: usize) -> usize {
        let [near, here] = self.fared;
        let near_share =
            if near.0 * here.1 > here.0 * near.1 { self.near + 1 } else { self.near - 1 };
        *self = Self {
            length: cached,
            near: near_share.clamp(1, 100),
            references_max: limit(&self.evicted),
            last: self.last,
            ..Self::new()
        };
        near.0 + here.0
    }
}

/// Return the references that 99 % had at most, interpolated.
fn limit(evicted: &[u64]) -> u64 {
    let of_class =
        |class: u32| evicted.iter().filter(|n| n.ilog2().min(15) == class).count() as u64;
    let wanted = evicted.len() as u64 * 99;
    let up_to = |class: u32| (0..=class).map(of_class).sum::<u64>() * 100;
    let class = (0..16).find(|&class| up_to(class) >= wanted).expect("all are counted");
    if class == 0 {
        return 1;
    }
    let (half, inside) = (1 << (class - 1), of_class(class) * 100);
    half + (half * (wanted + inside - up_to(class))).div_ceil(inside)
}

impl Rule for ThreeLCache {
    fn refer(&mut self, page: u32) -> Outcome {
        self.now += 1;
        let is_page =
            |known: &Option<Known>| known.as_ref().is_some_and(|known| known.page == page);
        let place = self.places.iter().position(is_page);
        let mut is_hit = false;
        if let Some(place) = place {
            self.learn(place, |this, marked| this.now - marked);
            self.step_over(place);
            is_hit = take(&mut self.cached, &place);
            take(&mut self.remembered, &place);
            let now = self.now;
            let known = self.places[place].as_mut().expect("it is known");
            known.times.push(now);
            known.marked = None;
            if is_hit {
                self.cached.push(place);
            }
        }
        if !self.remembered.is_empty() {
            let count = u32::try_from(self.places.len()).expect("there are few");
            let (drawn, now) = (self.draws.below(count) as usize, self.now);
            if let Some(known) = &mut self.places[drawn] {
                known.marked.get_or_insert(now);
            }
        }
        self.forget_oldest();
        if is_hit {
            return Outcome::Hit;
        }
        let victim = (self.cached.len() == self.capacity).then(|| self.evict());
        if let Some(victim) = victim {
            self.step_over(victim);
            take(&mut self.cached, &victim);
            self.remembered.push(victim);
        }
        let place = place.or_else(|| self.free.pop()).unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        let new = Known { page, times: vec![self.now], marked: None };
        self.places[place].get_or_insert(new);
        self.cached.push(place);
        if self.model.is_some() {
            if self.newcomers.len() == self.capacity {
                self.newcomers.remove(0);
            }
            self.newcomers.push(page);
        }
        Outcome::Admitted(victim.map(|victim| self.known(victim).page))
    }

    fn state(&self) -> String {
        let pages = |list: &[Place]| -> String {
            join(list.iter().map(|&place| self.known(place).page.to_string()))
        };
        format!("{} | {}", pages(&self.cached), pages(&self.remembered))
    }
}
