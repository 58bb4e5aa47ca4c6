//! LeCaR and CACHEUS: records of pages in lists, searched from end to end.

use thermocline_core::random::{Draws as _, SplitMix64};

use super::super::{join, value};
use super::{Outcome, Rule, share};

/// Record of a page.
#[derive(Clone, Copy)]
struct Page {
    number: u32,
    references: u32,
    time: u32,
    is_demoted: bool,
    is_new: bool,
}

/// A list of pages, the one longest there first.
#[derive(Default)]
struct List(Vec<Page>);

impl List {
    fn take(&mut self, number: u32) -> Option<Page> {
        let place = self.0.iter().position(|page| page.number == number)?;
        Some(self.0.remove(place))
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn state(&self) -> String {
        join(self.0.iter().map(|page| {
            let marks = [(page.is_demoted, "d"), (page.is_new, "n")];
            let marks: String = marks.iter().filter(|mark| mark.0).map(|mark| mark.1).collect();
            format!("{}:{}{marks}", page.number, page.references)
        }))
    }
}

/// The weights of the experts for recency and frequency, and the draws between them.
struct Choice {
    weights: [f64; 2],
    draws: SplitMix64,
    histories: [List; 2],
    history_capacity: usize,
}

impl Choice {
    fn new(given: &[(String, String)], capacity: usize) -> Self {
        Self {
            weights: [0.5, 0.5],
            draws: SplitMix64::new(value(given, "seed", 1)),
            histories: [List::default(), List::default()],
            history_capacity: share(capacity, value(given, "history_share", 0.5)),
        }
    }

    fn draw(&mut self) -> usize {
        usize::from(self.draws.unit() >= self.weights[0])
    }

    /// Return the expert whose history has the page, and what it knows.
    fn take(&mut self, number: u32) -> Option<(usize, Page)> {
        (0..2).find_map(|expert| Some((expert, self.histories[expert].take(number)?)))
    }

    fn regret(&mut self, expert: usize, amount: f64) {
        self.weights[expert] *= (-amount).exp();
        let sum: f64 = self.weights.iter().sum();
        self.weights = self.weights.map(|weight| (weight / sum).clamp(0.01, 0.99));
    }

    fn remember(&mut self, expert: usize, page: Page) {
        let history = &mut self.histories[expert];
        history.0.push(page);
        if history.len() > self.history_capacity {
            history.0.remove(0);
        }
    }

    fn state(&self) -> String {
        let [recency, frequency] = &self.histories;
        format!("{} | {} | {:.3}", recency.state(), frequency.state(), self.weights[0])
    }
}

pub(super) fn build(policy: &str, given: &[(String, String)], capacity: usize) -> Box<dyn Rule> {
    let mut choice = Choice::new(given, capacity);
    if policy == "lecar" {
        return Box::new(LeCaR {
            cache: List::default(),
            choice,
            capacity,
            learning_rate: value(given, "learning_rate", 0.45),
            discount: value(given, "discount", 0.005),
            is_oldest_first: value(given, "ties", "lowest-address".to_owned()) == "oldest",
            time: 0,
        });
    }
    let drawn = 0.001 + 0.999 * choice.draws.unit();
    let scan_limit = share(1, capacity as f64 * 0.01 + 0.5).max(1);
    Box::new(Cacheus {
        reused: List::default(),
        scanned: List::default(),
        choice,
        rates: [value(given, "learning_rate", drawn), 0.0],
        hit_ratio: 0.0,
        hits: 0,
        unlearned: 0,
        capacity,
        reused_limit: capacity - scan_limit,
        time: 0,
    })
}

struct LeCaR {
    /// Pages by last reference.
    cache: List,
    choice: Choice,
    capacity: usize,
    learning_rate: f64,
    discount: f64,
    /// `true` if, of equal counts, LFU evicts the page referenced longest ago, not the one with the
    /// lowest number.
    is_oldest_first: bool,
    time: u32,
}

impl LeCaR {
    fn evict(&mut self) -> u32 {
        let rank = |page: &&Page| {
            let tie = if self.is_oldest_first { page.time } else { page.number };
            (page.references, tie)
        };
        let least = self.cache.0.iter().min_by_key(rank).unwrap().number;
        let experts = [self.cache.0[0].number, least];
        let expert = self.choice.draw();
        let page = self.cache.take(experts[expert]).unwrap();
        if experts[0] != experts[1] {
            self.choice.remember(expert, Page { time: self.time, ..page });
        }
        page.number
    }
}

impl Rule for LeCaR {
    fn refer(&mut self, number: u32) -> Outcome {
        self.time += 1;
        let fresh = Page { number, references: 0, time: 0, is_demoted: false, is_new: false };
        let (mut page, outcome) = if let Some(page) = self.cache.take(number) {
            (page, Outcome::Hit)
        } else {
            let known = self.choice.take(number);
            if let Some((expert, page)) = known {
                let age = f64::from(self.time - page.time) / self.capacity as f64;
                self.choice.regret(expert, self.learning_rate * self.discount.powf(age));
            }
            let is_full = self.cache.len() == self.capacity;
            let victim = is_full.then(|| self.evict());
            (known.map_or(fresh, |(_, page)| page), Outcome::Admitted(victim))
        };
        page.references += 1;
        page.time = self.time;
        self.cache.0.push(page);
        outcome
    }

    /// Return the cache, the histories of LRU and LFU, with counts, and the weight of LRU.
    fn state(&self) -> String {
        format!("{} | {}", self.cache.state(), self.choice.state())
    }
}

struct Cacheus {
    /// The lists R and SR of SR-LRU.
    reused: List,
    scanned: List,
    choice: Choice,
    /// The learning rate, and the one before.
    rates: [f64; 2],
    hit_ratio: f64,
    hits: u32,
    unlearned: u32,
    capacity: usize,
    reused_limit: usize,
    time: u32,
}

/// Return the share of two counts, rounded, at least one.
fn step(more: usize, less: usize) -> usize {
    share(1, more as f64 / less.max(1) as f64 + 0.5).max(1)
}

impl Cacheus {
    fn demoted(&self) -> usize {
        self.scanned.0.iter().filter(|page| page.is_demoted).count()
    }

    fn new_in_history(&self) -> usize {
        self.choice.histories[0].0.iter().filter(|page| page.is_new).count()
    }

    fn learn(&mut self) {
        let hit_ratio = f64::from(self.hits) / self.capacity as f64;
        let [rate, previous] = self.rates;
        let (gain, delta) = (hit_ratio - self.hit_ratio, rate - previous);
        let mut next = rate;
        if delta == 0.0 {
            self.unlearned += u32::from(hit_ratio == 0.0 || gain <= 0.0);
            if self.unlearned >= 10 {
                self.unlearned = 0;
                next = 0.001 + 0.999 * self.choice.draws.unit();
            }
        } else {
            let sign = if gain / delta > 0.0 { 1.0 } else { -1.0 };
            next = (rate + sign * (rate * delta).abs()).clamp(0.001, 1.0);
            self.unlearned = 0;
        }
        (self.rates, self.hit_ratio, self.hits) = ([next, rate], hit_ratio, 0);
    }

    fn demote(&mut self) {
        let page = self.reused.0.remove(0);
        self.scanned.0.push(Page { is_demoted: true, ..page });
    }

    fn shorten(&mut self) {
        while self.reused.len() > 0 && self.reused.len() >= self.reused_limit {
            self.demote();
        }
    }

    fn make_room(&mut self) -> Option<u32> {
        if self.reused.len() + self.scanned.len() < self.capacity {
            return None;
        }
        let cached = self.reused.0.iter().chain(&self.scanned.0);
        let churned = cached.min_by_key(|page| (page.references, u32::MAX - page.time)).unwrap();
        let experts = [self.scanned.0[0].number, churned.number];
        let expert = self.choice.draw();
        let number = experts[expert];
        let page = self.scanned.take(number).or_else(|| self.reused.take(number)).unwrap();
        if experts[0] != experts[1] {
            self.choice.remember(expert, Page { is_demoted: false, ..page });
        }
        Some(number)
    }

    fn hit(&mut self, number: u32) -> bool {
        if let Some(page) = self.reused.take(number) {
            let references = page.references + 1;
            self.reused.0.push(Page { references, time: self.time, ..page });
            return true;
        }
        let [demoted, new] = [self.demoted(), self.new_in_history()];
        let Some(page) = self.scanned.take(number) else { return false };
        let page = Page { references: page.references + 1, time: self.time, ..page };
        if self.capacity == 1 {
            self.scanned.0.push(page);
            return true;
        }
        if page.is_demoted {
            self.reused_limit = (self.reused_limit + step(new, demoted)).min(self.capacity - 1);
        }
        if self.reused.len() >= self.reused_limit {
            self.demote();
        }
        self.reused.0.push(Page { is_demoted: false, ..page });
        true
    }

    fn miss(&mut self, number: u32) -> Option<u32> {
        let page =
            Page { number, references: 1, time: self.time, is_demoted: false, is_new: false };
        if let Some((expert, known)) = self.choice.take(number) {
            if expert == 0 && known.is_new {
                let step = step(self.demoted(), self.new_in_history());
                let least = 1.min(self.capacity - 1);
                self.reused_limit = self.reused_limit.saturating_sub(step).max(least);
            }
            self.choice.regret(expert, self.rates[0]);
            let victim = self.make_room();
            self.reused.0.push(Page { references: known.references, ..page });
            self.shorten();
            return victim;
        }
        let [reused, scanned] = [self.reused.len(), self.scanned.len()];
        if reused < self.reused_limit && scanned == 0 {
            self.reused.0.push(page);
        } else if reused + scanned < self.capacity && scanned < self.capacity - self.reused_limit {
            self.scanned.0.push(page);
        } else {
            let victim = self.make_room();
            self.scanned.0.push(Page { is_new: true, ..page });
            self.shorten();
            return victim;
        }
        None
    }
}

impl Rule for Cacheus {
    fn refer(&mut self, number: u32) -> Outcome {
        self.time += 1;
        if (self.time as usize).is_multiple_of(self.capacity) {
            self.learn();
        }
        if self.hit(number) {
            self.hits += 1;
            return Outcome::Hit;
        }
        Outcome::Admitted(self.miss(number))
    }

    /// R, SR, the histories of SR-LRU and CR-LFU, with counts, `d` demoted and `n` new, the weight
    /// of SR-LRU.
    fn state(&self) -> String {
        format!("{} | {} | {}", self.reused.state(), self.scanned.state(), self.choice.state())
    }
}
