//! Placement by what is known of pages beyond their tier: Hint-K and ULC.

use std::collections::BTreeMap;

use super::{Model, Outcome, find, find_on, path, repeated, take, tier_at};

/// Hint-K, reconstructed.
pub(crate) struct HintK {
    sizes: Vec<usize>,
    clients: usize,
    k: usize,
    decay: f64,
    /// Weights of a promotion and of a demotion.
    weights: [f64; 2],
    ghosts_max: usize,
    tiers: Vec<Vec<u32>>,
    /// Weights of the last moves, the newest first.
    histories: BTreeMap<u32, Vec<f64>>,
    ghosts: Vec<u32>,
    moves: u64,
}

impl HintK {
    pub(crate) fn new(
        sizes: &[usize],
        clients: usize,
        k: usize,
        decay: f64,
        weights: [f64; 2],
        ghost_ratio: f64,
    ) -> Self {
        let sizes = repeated(sizes, clients);
        let cached: usize = sizes.iter().sum();
        let ghosts_max = (0..=cached * 16).rev().find(|&n| n as f64 <= ghost_ratio * cached as f64);
        Self {
            tiers: vec![vec![]; sizes.len()],
            sizes,
            clients,
            k,
            decay,
            weights,
            ghosts_max: ghosts_max.unwrap(),
            histories: BTreeMap::new(),
            ghosts: vec![],
            moves: 0,
        }
    }

    fn value(&self, page: u32) -> f64 {
        let Some(moves) = self.histories.get(&page) else { return 0.0 };
        (0..).zip(moves).map(|(age, weight)| self.decay.powi(age) * weight).sum()
    }

    fn record(&mut self, page: u32, weight: f64) {
        let history = self.histories.entry(page).or_default();
        history.insert(0, weight);
        history.truncate(self.k);
        self.moves += 1;
    }

    fn least(&self, tier: usize) -> f64 {
        self.tiers[tier].iter().map(|&page| self.value(page)).fold(f64::INFINITY, f64::min)
    }

    fn insert(&mut self, path: &[usize], page: u32) {
        let tier = path[0];
        if self.tiers[tier].len() == self.sizes[tier] {
            let least = self.least(tier);
            let is_victim = |page: &&u32| self.value(**page) <= least;
            let victim = *self.tiers[tier].iter().find(is_victim).unwrap();
            take(&mut self.tiers[tier], victim);
            // A client that still has it will demote it.
            let is_shared = find(&self.tiers[..self.clients], victim) < self.clients;
            if let Some(lower) = path.get(1..).filter(|lower| !lower.is_empty() && !is_shared) {
                self.record(victim, self.weights[1]);
                self.insert(lower, victim);
            } else if !is_shared && self.histories.contains_key(&victim) {
                self.ghosts.push(victim);
                if self.ghosts.len() > self.ghosts_max {
                    let forgotten = self.ghosts.remove(0);
                    self.histories.remove(&forgotten);
                }
            }
        }
        self.tiers[tier].push(page);
    }
}

impl Model for HintK {
    fn read(&mut self, client: usize, page: u32) -> Outcome {
        let path = path(client, self.clients, self.tiers.len());
        let found = find_on(&path, &self.tiers, page);
        if found == path.len() {
            take(&mut self.ghosts, page);
            self.insert(&path, page);
            return Outcome { found: self.tiers.len(), served: client };
        }
        let tier = path[found];
        let may_rise = found > 0 && {
            let above = path[found - 1];
            self.tiers[above].len() < self.sizes[above] || self.value(page) > self.least(above)
        };
        take(&mut self.tiers[tier], page);
        if may_rise {
            self.record(page, self.weights[0]);
            self.insert(&path[found - 1..], page);
        } else {
            self.tiers[tier].push(page);
        }
        let served = tier_at(&path, found - usize::from(may_rise), self.tiers.len());
        Outcome { found: tier, served }
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

    /// Show the state with each page's value.
    fn state(&self) -> String {
        let tiers = self.tiers.iter().map(|tier| {
            let pages = tier.iter().map(|&page| format!("{page}:{}", self.value(page)));
            pages.collect::<Vec<_>>().join(" ")
        });
        tiers.collect::<Vec<_>>().join(" | ")
    }
}

/// ULC with its stack as such.
pub(crate) struct Ulc {
    sizes: Vec<usize>,
    ghosts_max: usize,
    /// Pages with the tier that holds them, the most recently used first.
    stack: Vec<(u32, usize)>,
    moves: u64,
}

impl Ulc {
    pub(crate) fn new(sizes: &[usize], ghosts: Option<f64>) -> Self {
        let cached: usize = sizes.iter().sum();
        let bound = ghosts.map(|ratio| ratio * cached as f64);
        let ghosts_max = (0..1000).rev().find(|&n| bound.is_none_or(|bound| f64::from(n) <= bound));
        let ghosts_max = usize::try_from(ghosts_max.unwrap()).unwrap();
        Self { sizes: sizes.into(), ghosts_max, stack: vec![], moves: 0 }
    }

    /// Return the place in the stack of a tier's least recently used page.
    fn yardstick(&self, tier: usize) -> Option<usize> {
        self.stack.iter().rposition(|entry| entry.1 == tier)
    }

    fn is_full(&self, tier: usize) -> bool {
        self.stack.iter().filter(|entry| entry.1 == tier).count() == self.sizes[tier]
    }
}

impl Model for Ulc {
    fn read(&mut self, _client: usize, page: u32) -> Outcome {
        let disk = self.sizes.len();
        let place = self.stack.iter().position(|entry| entry.0 == page);
        let found = place.map_or(disk, |place| self.stack[place].1);
        let reaches = |tier: &usize| {
            let yardstick = self.yardstick(*tier);
            !self.is_full(*tier) || place.is_some_and(|place| Some(place) <= yardstick)
        };
        let target = (0..disk).find(reaches).unwrap_or(disk);
        if let Some(place) = place {
            self.stack.remove(place);
        }
        // Each tier down to the first with room hands its yardstick on.
        let last = (target..disk).find(|&tier| !self.is_full(tier)).unwrap_or(disk);
        let handed: Vec<usize> = (target..last).filter_map(|tier| self.yardstick(tier)).collect();
        for place in handed {
            self.stack[place].1 += 1;
            self.moves += u64::from(self.stack[place].1 < disk);
        }
        self.moves += u64::from(found < disk && target != found);
        self.stack.insert(0, (page, target));
        while self.stack.last().is_some_and(|entry| entry.1 == disk) {
            self.stack.pop();
        }
        while self.stack.iter().filter(|entry| entry.1 == disk).count() > self.ghosts_max {
            let oldest = self.yardstick(disk).unwrap();
            self.stack.remove(oldest);
        }
        Outcome { found, served: target }
    }

    fn forget(&mut self, _client: usize, _page: u32) {
        panic!("ULC has one client");
    }

    fn held(&self) -> Vec<Vec<u32>> {
        let pages = |tier| {
            let held = self.stack.iter().rev().filter(move |entry| entry.1 == tier);
            held.map(|entry| entry.0).collect()
        };
        (0..self.sizes.len()).map(pages).collect()
    }

    fn moves(&self) -> u64 {
        self.moves
    }
}
