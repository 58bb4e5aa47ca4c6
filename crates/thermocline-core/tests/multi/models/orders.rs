//! Tiers that keep orders of their own: DEMOTE, chained queues, inclusive LRU, MQ under LRU.

use std::collections::BTreeMap;

use super::{Model, Outcome, find, find_on, path, repeated, take, tier_at};

/// DEMOTE in its three modes.
pub(crate) struct Demote {
    sizes: Vec<usize>,
    clients: usize,
    mode: &'static str,
    tiers: Vec<Vec<u32>>,
    moves: u64,
}

impl Demote {
    pub(crate) fn new(sizes: &[usize], clients: usize, mode: &'static str) -> Self {
        let sizes = repeated(sizes, clients);
        Self { tiers: vec![vec![]; sizes.len()], sizes, clients, mode, moves: 0 }
    }

    /// Puts a page that the tier does not hold behind its newest, or before its oldest.
    fn insert(&mut self, path: &[usize], page: u32, is_newest: bool, served: u32) {
        let tier = path[0];
        if self.tiers[tier].len() == self.sizes[tier] {
            let victim = self.tiers[tier].remove(0);
            let holders = match self.mode {
                "remove" => 0..tier.max(self.clients),
                _ if tier < self.clients => 0..0,
                _ => 0..tier,
            };
            let is_above = victim == served
                || self.tiers[holders].iter().any(|holder| holder.contains(&victim));
            if let Some(&below) = path.get(1)
                && !is_above
            {
                if self.tiers[below].contains(&victim) {
                    take(&mut self.tiers[below], victim);
                    self.tiers[below].push(victim);
                } else {
                    self.moves += 1;
                    self.insert(&path[1..], victim, true, served);
                }
            }
        }
        let place = if is_newest { self.tiers[tier].len() } else { 0 };
        self.tiers[tier].insert(place, page);
    }
}

impl Model for Demote {
    fn read(&mut self, client: usize, page: u32) -> Outcome {
        let path = path(client, self.clients, self.tiers.len());
        let found = find_on(&path, &self.tiers, page);
        let last = path.len() - 1;
        if self.mode == "remove" {
            self.moves += u64::from((1..=last).contains(&found));
            for &tier in &path {
                take(&mut self.tiers[tier], page);
            }
        } else {
            for place in (1..=found.min(last)).rev() {
                take(&mut self.tiers[path[place]], page);
                self.insert(&path[place..], page, self.mode == "lru", page);
            }
            // Read from disk into the slowest tier, then from each tier into the next.
            self.moves += found.min(last) as u64;
            take(&mut self.tiers[client], page);
        }
        self.insert(&path, page, true, page);
        Outcome { found: tier_at(&path, found, self.tiers.len()), served: client }
    }

    fn forget(&mut self, client: usize, page: u32) {
        take(&mut self.tiers[client], page);
    }

    fn held(&self) -> Vec<Vec<u32>> {
        self.tiers.clone()
    }

    fn moves(&self) -> u64 {
        self.moves
    }
}

/// Queues chained by demotion.
pub(crate) struct Chain {
    clients: usize,
    tiers: Vec<Queue>,
    moves: u64,
}

/// Pages with the oldest first; a page that leaves a FIFO from the middle leaves a hole.
struct Queue {
    /// lru, fifo or mru.
    rule: &'static str,
    size: usize,
    pages: Vec<Option<u32>>,
}

impl Queue {
    fn holds(&self, page: u32) -> bool {
        self.pages.contains(&Some(page))
    }

    fn take(&mut self, page: u32) {
        let Some(place) = self.pages.iter().position(|&held| held == Some(page)) else { return };
        if self.rule == "fifo" {
            self.pages[place] = None;
        } else {
            self.pages.remove(place);
        }
    }

    /// Handle a hit, which does not move a page of a FIFO.
    fn hit(&mut self, page: u32) {
        if self.rule != "fifo" {
            self.take(page);
            self.pages.push(Some(page));
        }
    }

    /// Adds a page; the one that leaves for it.
    fn push(&mut self, page: u32) -> Option<u32> {
        let victim = if self.rule == "mru" { self.pages.len().saturating_sub(1) } else { 0 };
        let is_full = self.pages.len() == self.size;
        let evicted = if is_full { self.pages.remove(victim) } else { None };
        self.pages.push(Some(page));
        evicted
    }
}

impl Chain {
    /// Rules of the tiers that a client sees.
    pub(crate) fn new(sizes: &[usize], clients: usize, rules: &[&'static str]) -> Self {
        let rules = std::iter::repeat_n(rules[0], clients).chain(rules[1..].iter().copied());
        let queue = |(rule, size)| Queue { rule, size, pages: vec![] };
        let tiers = rules.zip(repeated(sizes, clients)).map(queue).collect();
        Self { clients, tiers, moves: 0 }
    }

    fn demote(&mut self, path: &[usize], victim: u32) {
        let is_elsewhere = path[0] < self.clients
            && self.tiers[..self.clients].iter().any(|top| top.holds(victim));
        if let Some(&below) = path.get(1)
            && !is_elsewhere
        {
            self.moves += 1;
            if let Some(next) = self.tiers[below].push(victim) {
                self.demote(&path[1..], next);
            }
        }
    }
}

impl Model for Chain {
    fn read(&mut self, client: usize, page: u32) -> Outcome {
        let path = path(client, self.clients, self.tiers.len());
        let found = path.iter().position(|&tier| self.tiers[tier].holds(page));
        let found = found.unwrap_or(path.len());
        if found == 0 {
            self.tiers[client].hit(page);
        } else {
            if let Some(&tier) = path.get(found) {
                self.tiers[tier].take(page);
                self.moves += 1;
            }
            if let Some(victim) = self.tiers[client].push(page) {
                self.demote(&path, victim);
            }
        }
        Outcome { found: tier_at(&path, found, self.tiers.len()), served: client }
    }

    fn forget(&mut self, client: usize, page: u32) {
        self.tiers[client].take(page);
    }

    fn held(&self) -> Vec<Vec<u32>> {
        self.tiers.iter().map(|tier| tier.pages.iter().copied().flatten().collect()).collect()
    }

    fn moves(&self) -> u64 {
        self.moves
    }
}

/// Inclusive LRU with back-invalidation.
pub(crate) struct Inclusive {
    sizes: Vec<usize>,
    clients: usize,
    tiers: Vec<Vec<u32>>,
    moves: u64,
}

impl Inclusive {
    pub(crate) fn new(sizes: &[usize], clients: usize) -> Self {
        let sizes = repeated(sizes, clients);
        Self { tiers: vec![vec![]; sizes.len()], sizes, clients, moves: 0 }
    }
}

impl Model for Inclusive {
    fn read(&mut self, client: usize, page: u32) -> Outcome {
        let path = path(client, self.clients, self.tiers.len());
        let found = find_on(&path, &self.tiers, page);
        let passed = found.min(path.len() - 1);
        self.moves += passed as u64;
        for &tier in path[..=passed].iter().rev() {
            take(&mut self.tiers[tier], page);
            if self.tiers[tier].len() == self.sizes[tier] {
                let victim = self.tiers[tier][0];
                let first = if tier < self.clients { tier } else { 0 };
                self.tiers[first..=tier].iter_mut().for_each(|tier| take(tier, victim));
            }
            self.tiers[tier].push(page);
        }
        Outcome { found: tier_at(&path, found, self.tiers.len()), served: client }
    }

    fn forget(&mut self, client: usize, page: u32) {
        take(&mut self.tiers[client], page);
    }

    fn held(&self) -> Vec<Vec<u32>> {
        self.tiers.clone()
    }

    fn moves(&self) -> u64 {
        self.moves
    }
}

/// LRU over tiers under MQ with a fixed life time.
pub(crate) struct MqN {
    size: usize,
    tops: Vec<Vec<u32>>,
    lower: Vec<Mq>,
    moves: u64,
}

struct Mq {
    size: usize,
    ghosts_max: usize,
    life_time: u64,
    queues: Vec<Vec<u32>>,
    ghosts: Vec<u32>,
    frequency: BTreeMap<u32, u32>,
    expires: BTreeMap<u32, u64>,
    now: u64,
}

impl MqN {
    pub(crate) fn new(
        sizes: &[usize],
        clients: usize,
        queues: usize,
        ghosts: usize,
        life_time: u64,
    ) -> Self {
        let lower = sizes[1..].iter().map(|&size| Mq {
            size,
            ghosts_max: ghosts * size,
            life_time,
            queues: vec![vec![]; queues],
            ghosts: vec![],
            frequency: BTreeMap::new(),
            expires: BTreeMap::new(),
            now: 0,
        });
        Self { size: sizes[0], tops: vec![vec![]; clients], lower: lower.collect(), moves: 0 }
    }
}

impl Mq {
    fn refer(&mut self, page: u32) {
        let is_hit = find(&self.queues, page) < self.queues.len();
        if !is_hit && self.queues.iter().map(Vec::len).sum::<usize>() == self.size {
            let lowest = self.queues.iter_mut().find(|queue| !queue.is_empty()).unwrap();
            self.ghosts.push(lowest.remove(0));
            if self.ghosts.len() > self.ghosts_max {
                let forgotten = self.ghosts.remove(0);
                self.frequency.remove(&forgotten);
            }
        }
        self.queues.iter_mut().for_each(|queue| take(queue, page));
        take(&mut self.ghosts, page);
        let frequency = self.frequency.entry(page).or_insert(0);
        *frequency += 1;
        let queue = (0..self.queues.len()).rev().find(|&queue| *frequency >> queue > 0).unwrap();
        self.queues[queue].push(page);
        self.expires.insert(page, self.now + self.life_time);
        self.now += 1;
        for queue in 1..self.queues.len() {
            let Some(&oldest) = self.queues[queue].first() else { continue };
            if self.expires[&oldest] < self.now {
                take(&mut self.queues[queue], oldest);
                self.queues[queue - 1].push(oldest);
                self.expires.insert(oldest, self.now + self.life_time);
            }
        }
    }
}

impl Model for MqN {
    fn read(&mut self, client: usize, page: u32) -> Outcome {
        let tiers = self.held();
        let path = path(client, self.tops.len(), tiers.len());
        let found = find_on(&path, &tiers, page);
        let passed = found.min(self.lower.len());
        self.moves += passed as u64;
        for tier in self.lower[..passed].iter_mut().rev() {
            tier.refer(page);
        }
        let top = &mut self.tops[client];
        take(top, page);
        top.push(page);
        if top.len() > self.size {
            top.remove(0);
        }
        Outcome { found: tier_at(&path, found, tiers.len()), served: client }
    }

    fn forget(&mut self, client: usize, page: u32) {
        take(&mut self.tops[client], page);
    }

    fn held(&self) -> Vec<Vec<u32>> {
        let lower = self.lower.iter().map(|tier| tier.queues.concat());
        self.tops.iter().cloned().chain(lower).collect()
    }

    fn moves(&self) -> u64 {
        self.moves
    }
}
