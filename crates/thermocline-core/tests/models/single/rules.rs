//! The classical algorithms, and the recent ones that are queues.

use std::collections::{BTreeMap, VecDeque};

use thermocline_core::random::SplitMix64;

use super::super::join;
use super::{Outcome, Rule, take};

fn words(pages: &[u32]) -> String {
    join(pages.iter().map(u32::to_string))
}

/// FIFO, LRU and MRU: one queue, the newest last.
pub(crate) struct OneQueue {
    pub(crate) capacity: usize,
    /// `true` if a hit makes a page the newest.
    pub(crate) is_renewed: bool,
    /// `true` if the newest page leaves, not the oldest.
    pub(crate) is_newest_evicted: bool,
    pub(crate) queue: Vec<u32>,
}

impl Rule for OneQueue {
    fn refer(&mut self, page: u32) -> Outcome {
        if self.queue.contains(&page) {
            if self.is_renewed {
                take(&mut self.queue, &page);
                self.queue.push(page);
            }
            return Outcome::Hit;
        }
        let mut evicted = None;
        if self.queue.len() == self.capacity {
            let victim = if self.is_newest_evicted { self.queue.len() - 1 } else { 0 };
            evicted = Some(self.queue.remove(victim));
        }
        self.queue.push(page);
        Outcome::Admitted(evicted)
    }

    fn state(&self) -> String {
        words(&self.queue)
    }
}

/// CLOCK as the queue that the hand cuts its ring to: the page under the hand first.
pub(crate) struct Clock {
    pub(crate) capacity: usize,
    pub(crate) counter_max: u32,
    pub(crate) ring: VecDeque<(u32, u32)>,
}

impl Rule for Clock {
    fn refer(&mut self, page: u32) -> Outcome {
        if let Some(entry) = self.ring.iter_mut().find(|entry| entry.0 == page) {
            entry.1 = (entry.1 + 1).min(self.counter_max);
            return Outcome::Hit;
        }
        let mut evicted = None;
        while self.ring.len() == self.capacity {
            let (first, counter) = self.ring.pop_front().expect("a full ring has a page");
            match counter.checked_sub(1) {
                Some(counter) => self.ring.push_back((first, counter)),
                None => evicted = Some(first),
            }
        }
        self.ring.push_back((page, 0));
        Outcome::Admitted(evicted)
    }

    fn state(&self) -> String {
        join(self.ring.iter().map(|(page, counter)| format!("{page}:{counter}")))
    }
}

/// LFU: page, references, key and time of the last reference.
pub(crate) struct Lfu {
    pub(crate) capacity: usize,
    pub(crate) is_aging: bool,
    pub(crate) pages: Vec<(u32, u64, u64, u64)>,
    pub(crate) age: u64,
    pub(crate) now: u64,
}

impl Rule for Lfu {
    fn refer(&mut self, page: u32) -> Outcome {
        self.now += 1;
        if let Some(place) = self.pages.iter().position(|entry| entry.0 == page) {
            let references = self.pages.remove(place).1 + 1;
            self.pages.push((page, references, self.age + references, self.now));
            return Outcome::Hit;
        }
        let mut evicted = None;
        if self.pages.len() == self.capacity {
            let rank = |place: &usize| (self.pages[*place].2, self.pages[*place].3);
            let victim = (0..self.pages.len()).min_by_key(rank).expect("it has a page");
            let (page, _, key, _) = self.pages.remove(victim);
            evicted = Some(page);
            if self.is_aging {
                self.age = key;
            }
        }
        self.pages.push((page, 1, self.age + 1, self.now));
        Outcome::Admitted(evicted)
    }

    fn state(&self) -> String {
        join(self.pages.iter().map(|(page, references, ..)| format!("{page}:{references}")))
    }
}

/// SLRU: the segments, the lowest first; in each the newest page last.
pub(crate) struct Slru {
    pub(crate) capacity: usize,
    /// Maximum size of the segments above the lowest; the lowest is filled to `lowest` first.
    pub(crate) upper: usize,
    pub(crate) lowest: Option<usize>,
    pub(crate) segments: Vec<Vec<u32>>,
}

impl Slru {
    fn cool(&mut self) {
        for segment in (1..self.segments.len()).rev() {
            while self.segments[segment].len() > self.upper {
                let page = self.segments[segment].remove(0);
                self.segments[segment - 1].push(page);
            }
        }
    }
}

impl Rule for Slru {
    fn refer(&mut self, page: u32) -> Outcome {
        let last = self.segments.len() - 1;
        for segment in 0..=last {
            if take(&mut self.segments[segment], &page) {
                self.segments[last.min(segment + 1)].push(page);
                self.cool();
                return Outcome::Hit;
            }
        }
        let mut evicted = None;
        if self.segments.iter().map(Vec::len).sum::<usize>() == self.capacity {
            let segment = self.segments.iter_mut().find(|segment| !segment.is_empty());
            evicted = segment.map(|segment| segment.remove(0));
        }
        let mut entrance = 0;
        if let Some(lowest) = self.lowest {
            let has_room = |segment: &usize| {
                let most = if *segment == 0 { lowest } else { self.upper };
                self.segments[*segment].len() < most
            };
            entrance = (0..=last).find(has_room).unwrap_or(0);
        }
        self.segments[entrance].push(page);
        Outcome::Admitted(evicted)
    }

    fn state(&self) -> String {
        join(self.segments.iter().map(|segment| format!("[{}]", words(segment))))
    }
}

/// 2Q, the full version: A1in, A1out and Am, each the newest last.
pub(crate) struct TwoQ {
    pub(crate) capacity: usize,
    pub(crate) k_in: usize,
    pub(crate) k_out: usize,
    pub(crate) a1_in: Vec<u32>,
    pub(crate) a1_out: Vec<u32>,
    pub(crate) a_m: Vec<u32>,
}

impl TwoQ {
    fn reclaim(&mut self) -> Option<u32> {
        if self.a1_in.len() + self.a_m.len() < self.capacity {
            return None;
        }
        if self.a1_in.len() > self.k_in || self.a_m.is_empty() {
            let page = self.a1_in.remove(0);
            self.a1_out.push(page);
            if self.a1_out.len() > self.k_out {
                self.a1_out.remove(0);
            }
            return Some(page);
        }
        Some(self.a_m.remove(0))
    }
}

impl Rule for TwoQ {
    fn refer(&mut self, page: u32) -> Outcome {
        if take(&mut self.a_m, &page) {
            self.a_m.push(page);
            return Outcome::Hit;
        }
        if take(&mut self.a1_out, &page) {
            let evicted = self.reclaim();
            self.a_m.push(page);
            return Outcome::Admitted(evicted);
        }
        if self.a1_in.contains(&page) {
            return Outcome::Hit;
        }
        let evicted = self.reclaim();
        self.a1_in.push(page);
        Outcome::Admitted(evicted)
    }

    fn state(&self) -> String {
        let queues = [&self.a1_in, &self.a1_out, &self.a_m];
        join(queues.map(|queue| format!("[{}]", words(queue))))
    }
}

/// LRU-2 as its figure 2.1: HIST(p, 1), HIST(p, 2) and LAST(p) of every page known.
pub(crate) struct Lru2 {
    pub(crate) capacity: usize,
    pub(crate) correlated: u64,
    pub(crate) retained: u64,
    pub(crate) buffer: Vec<u32>,
    pub(crate) known: BTreeMap<u32, [u64; 3]>,
    pub(crate) now: u64,
}

impl Rule for Lru2 {
    fn refer(&mut self, page: u32) -> Outcome {
        self.now += 1;
        let now = self.now;
        if self.buffer.contains(&page) {
            let [first, second, last] = self.known.get_mut(&page).expect("its history is kept");
            if now - *last > self.correlated {
                let correlation_period = *last - *first;
                *second = *first + correlation_period;
                *first = now;
            }
            *last = now;
            return Outcome::Hit;
        }
        let mut evicted = None;
        if self.buffer.len() == self.capacity {
            let mut pages = self.buffer.clone();
            // LRU among pages that are alike.
            pages.sort_by_key(|page| self.known[page][2]);
            let eligible = pages.iter().filter(|page| now - self.known[page][2] > self.correlated);
            let victim = eligible.min_by_key(|page| self.known[page][1]).copied();
            let victim = victim.unwrap_or(pages[0]);
            take(&mut self.buffer, &victim);
            evicted = Some(victim);
        }
        let retained = self.retained;
        self.known
            .retain(|known, history| self.buffer.contains(known) || now - history[2] <= retained);
        let second = self.known.get(&page).map_or(0, |history| history[0]);
        self.known.insert(page, [now, second, now]);
        self.buffer.push(page);
        Outcome::Admitted(evicted)
    }

    fn state(&self) -> String {
        let held = self.buffer.iter().map(|page| (page, self.known[page]));
        join(held.map(|(page, [first, second, _])| format!("{page}:{first},{second}")))
    }
}

/// S3-FIFO, S4-FIFO and Clock2Q+: S and M with counters, and G with those of S, each the newest last.
pub(crate) struct ThreeQueues {
    pub(crate) capacity: usize,
    pub(crate) small_size: usize,
    pub(crate) ghost_size: usize,
    /// The last pages of S, whose hits do not count.
    pub(crate) window_size: usize,
    pub(crate) promote_at: u32,
    pub(crate) return_at: u32,
    pub(crate) count_max: u32,
    pub(crate) fills_main: bool,
    pub(crate) small: Vec<(u32, u32)>,
    pub(crate) main: Vec<(u32, u32)>,
    pub(crate) ghosts: Vec<(u32, u32)>,
}

impl ThreeQueues {
    fn evict_small(&mut self) -> Option<u32> {
        while !self.small.is_empty() {
            let (page, count) = self.small.remove(0);
            if count < self.promote_at {
                self.ghosts.push((page, count));
                if self.ghosts.len() > self.ghost_size {
                    self.ghosts.remove(0);
                }
                return Some(page);
            }
            self.main.push((page, 0));
        }
        None
    }

    fn evict_main(&mut self) -> Option<u32> {
        while !self.main.is_empty() {
            let (page, count) = self.main.remove(0);
            if count == 0 {
                return Some(page);
            }
            self.main.push((page, count - 1));
        }
        None
    }
}

impl Rule for ThreeQueues {
    fn refer(&mut self, page: u32) -> Outcome {
        let window_start = self.small.len().saturating_sub(self.window_size);
        if self.small[window_start..].iter().any(|entry| entry.0 == page) {
            return Outcome::Hit;
        }
        let mut held = self.small.iter_mut().chain(&mut self.main);
        if let Some(entry) = held.find(|entry| entry.0 == page) {
            entry.1 = (entry.1 + 1).min(self.count_max);
            return Outcome::Hit;
        }
        let ghost = self.ghosts.iter().position(|ghost| ghost.0 == page);
        let ghost = ghost.map(|place| self.ghosts.remove(place));
        let mut evicted = None;
        while self.small.len() + self.main.len() == self.capacity {
            self.fills_main = false;
            evicted = if self.small.len() >= self.small_size {
                self.evict_small()
            } else if self.main.is_empty() {
                // The small queue is all there is, though it has less than its share.
                self.evict_small()
            } else {
                self.evict_main()
            };
        }
        let returns = ghost.is_some_and(|(_, count)| count >= self.return_at);
        let is_filled = self.fills_main && self.small.len() >= self.small_size;
        if returns || is_filled {
            self.main.push((page, 0));
        } else {
            self.small.push((page, 0));
        }
        Outcome::Admitted(evicted)
    }

    fn state(&self) -> String {
        let counted = |queue: &[(u32, u32)]| {
            join(queue.iter().map(|(page, count)| format!("{page}:{count}")))
        };
        let [small, main, ghosts] = [&self.small, &self.main, &self.ghosts];
        format!("[{}] [{}] [{}]", counted(small), counted(main), counted(ghosts))
    }
}

/// SIEVE: the queue with marks, the newest last, and the place of the hand.
pub(crate) struct Sieve {
    pub(crate) capacity: usize,
    pub(crate) queue: Vec<(u32, bool)>,
    pub(crate) hand: usize,
}

impl Rule for Sieve {
    fn refer(&mut self, page: u32) -> Outcome {
        if let Some(entry) = self.queue.iter_mut().find(|entry| entry.0 == page) {
            entry.1 = true;
            return Outcome::Hit;
        }
        let mut evicted = None;
        if self.queue.len() == self.capacity {
            self.hand %= self.queue.len();
            while self.queue[self.hand].1 {
                self.queue[self.hand].1 = false;
                self.hand = (self.hand + 1) % self.queue.len();
            }
            evicted = Some(self.queue.remove(self.hand).0);
            if self.hand == self.queue.len() {
                // It was the newest: the hand begins anew, whatever comes next.
                self.hand = 0;
            }
        }
        self.queue.push((page, false));
        Outcome::Admitted(evicted)
    }

    fn state(&self) -> String {
        let marked = |&(page, is_visited): &(u32, bool)| {
            if is_visited { format!("{page}v") } else { page.to_string() }
        };
        format!("{} hand {}", join(self.queue.iter().map(marked)), self.hand)
    }
}

/// RANDOM and Hyperbolic: frames with their page, when it came, and its references; the worst of a
/// sample leaves.
pub(crate) struct Sampled {
    pub(crate) capacity: usize,
    /// None: all pages are alike, and one is drawn.
    pub(crate) sample: Option<u32>,
    pub(crate) frames: Vec<(u32, u64, u64)>,
    pub(crate) now: u64,
    pub(crate) draws: SplitMix64,
}

impl Rule for Sampled {
    fn refer(&mut self, page: u32) -> Outcome {
        self.now += 1;
        if let Some(frame) = self.frames.iter_mut().find(|frame| frame.0 == page) {
            frame.2 += 1;
            return Outcome::Hit;
        }
        if self.frames.len() < self.capacity {
            self.frames.push((page, self.now, 1));
            return Outcome::Admitted(None);
        }
        let frames = u32::try_from(self.frames.len()).expect("there are few");
        let mut drawn: Vec<usize> = vec![];
        for _ in 0..self.sample.unwrap_or(1) {
            drawn.push(self.draws.below(frames) as usize);
        }
        let priority = |&frame: &usize| {
            let (_, came, references) = self.frames[frame];
            references as f64 / (self.now - came) as f64
        };
        let by_priority = |a: &usize, b: &usize| priority(a).total_cmp(&priority(b));
        let victim = drawn.iter().copied().min_by(by_priority).expect("one is drawn");
        let (evicted, ..) = std::mem::replace(&mut self.frames[victim], (page, self.now, 1));
        Outcome::Admitted(Some(evicted))
    }

    fn state(&self) -> String {
        join(self.frames.iter().map(|(page, _, references)| format!("{page}:{references}")))
    }
}

/// MQ as its listing: queues and histories, each the newest last, and what is known of pages.
pub(crate) struct Mq {
    pub(crate) capacity: usize,
    pub(crate) ghosts_max: usize,
    pub(crate) life_time: Option<u64>,
    pub(crate) queues: Vec<Vec<u32>>,
    pub(crate) ghosts: Vec<u32>,
    /// References, time of the last one, and when the page expires.
    pub(crate) known: BTreeMap<u32, [u64; 3]>,
    /// Number of distances between two references that are greater than the cache, each rounded down
    /// to a quarter of its power of two.
    pub(crate) distances: BTreeMap<u64, u64>,
    /// The rounded distance that was the first with the greatest number.
    pub(crate) peak: Option<u64>,
    pub(crate) now: u64,
}

impl Mq {
    fn life_time(&self) -> u64 {
        self.life_time.unwrap_or_else(|| match self.peak {
            None => (self.capacity + self.ghosts_max) as u64,
            Some(distance) => distance.max(self.capacity as u64 + 1),
        })
    }

    fn learn(&mut self, distance: u64) {
        if distance <= self.capacity as u64 {
            return;
        }
        let power = 1_u64 << distance.ilog2();
        let quarters = 4 * (distance - power) / power;
        let rounded = power + quarters * power / 4;
        *self.distances.entry(rounded).or_default() += 1;
        let count = |distance: u64| self.distances[&distance];
        if self.peak.is_none_or(|peak| count(rounded) > count(peak)) {
            self.peak = Some(rounded);
        }
    }

    fn evict(&mut self) -> Option<u32> {
        if self.queues.iter().map(Vec::len).sum::<usize>() < self.capacity {
            return None;
        }
        let queue = self.queues.iter_mut().find(|queue| !queue.is_empty());
        let victim = queue.expect("a full cache has a page").remove(0);
        self.ghosts.push(victim);
        if self.ghosts.len() > self.ghosts_max {
            let forgotten = self.ghosts.remove(0);
            self.known.remove(&forgotten);
        }
        Some(victim)
    }

    fn adjust(&mut self) {
        self.now += 1;
        for queue in 1..self.queues.len() {
            let Some(&oldest) = self.queues[queue].first() else { continue };
            if self.known[&oldest][2] < self.now {
                self.queues[queue].remove(0);
                self.queues[queue - 1].push(oldest);
                let expires = self.now.saturating_add(self.life_time());
                self.known.get_mut(&oldest).expect("it is in a queue")[2] = expires;
            }
        }
    }
}

impl Rule for Mq {
    fn refer(&mut self, page: u32) -> Outcome {
        let is_held = self.queues.iter().any(|queue| queue.contains(&page));
        let evicted = if is_held { None } else { self.evict() };
        for queue in &mut self.queues {
            take(queue, &page);
        }
        take(&mut self.ghosts, &page);
        let mut references = 1;
        if let Some([before, last, _]) = self.known.get(&page).copied() {
            references = before + 1;
            self.learn(self.now - last);
        }
        let queue = (references.ilog2() as usize).min(self.queues.len() - 1);
        self.queues[queue].push(page);
        let expires = self.now.saturating_add(self.life_time());
        self.known.insert(page, [references, self.now, expires]);
        self.adjust();
        if is_held { Outcome::Hit } else { Outcome::Admitted(evicted) }
    }

    fn state(&self) -> String {
        join(self.queues.iter().map(|queue| format!("[{}]", words(queue))))
    }
}
