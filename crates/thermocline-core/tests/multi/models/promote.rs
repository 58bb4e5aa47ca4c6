//! PROMOTE over LRU.

use super::{Model, Outcome, path, repeated, tier_at};

/// PROMOTE with scripted draws, which are repeated without end.
pub(crate) struct Promote {
    sizes: Vec<usize>,
    clients: usize,
    /// Per tier: pages and when they were last used, the oldest first.
    tiers: Vec<Vec<(u32, u64)>>,
    /// Per tier: what the next one below knows of it; the last one's is not used.
    known_below: Vec<Known>,
    draws: Vec<f64>,
    drawn: usize,
    is_adaptive: bool,
    /// Accesses of which the shared tiers have heard.
    now: u64,
    /// Per client: its time, and its hits of which the shared tiers have not heard.
    own: Vec<(u64, u64)>,
    moves: u64,
}

/// Knowledge of a tier about one above it.
struct Known {
    probability: f64,
    ceiling: f64,
    last_hint: u64,
    hints: u64,
    ratio: f64,
}

impl Promote {
    pub(crate) fn new(sizes: &[usize], clients: usize, fixed: Option<f64>, draws: &[f64]) -> Self {
        let sizes = repeated(sizes, clients);
        let known_below = (0..sizes.len()).map(|tier| {
            let below = (tier + 1).max(clients);
            let above: usize = sizes[..below].iter().sum();
            let own = sizes.get(below).copied().unwrap_or(0);
            let ceiling = above as f64 / (above + own) as f64;
            let probability = fixed.unwrap_or(ceiling);
            Known { probability, ceiling, last_hint: 0, hints: 0, ratio: 0.5 }
        });
        Self {
            known_below: known_below.collect(),
            tiers: vec![vec![]; sizes.len()],
            sizes,
            clients,
            draws: draws.into(),
            drawn: 0,
            is_adaptive: fixed.is_none(),
            now: 0,
            own: vec![(0, 0); clients],
            moves: 0,
        }
    }

    fn life(&self, tier: usize) -> u64 {
        let times = || self.tiers[tier].iter().map(|entry| entry.1);
        times().max().unwrap_or(0) - times().min().unwrap_or(0)
    }

    /// Adapt to a request that reaches a lower tier from the one above.
    fn adapt(&mut self, above: usize, tier: usize) {
        let [higher, own] = [self.life(above), self.life(tier)].map(|life| life as f64);
        let size = self.sizes[tier] as f64;
        let known = &mut self.known_below[above];
        if own <= size / 2.0 || (self.now - known.last_hint) as f64 <= 0.05 * own {
            return;
        }
        known.last_hint = self.now;
        known.hints += 1;
        if known.hints % 2 == 1 {
            return;
        }
        let ratio = higher / (higher + own);
        let [gap, last_gap] = [ratio, known.ratio].map(|ratio| (ratio - 0.5).abs());
        known.ratio = ratio;
        let is_closing = last_gap - gap > 0.05 * last_gap;
        if !is_closing {
            let pp = known.probability;
            let step = pp + pp * (1.0 - pp) * (2.0 * ratio - 1.0);
            known.probability = step.min(known.ceiling);
        }
    }
}

impl Model for Promote {
    fn read(&mut self, client: usize, page: u32) -> Outcome {
        self.own[client].0 += 1;
        let path = path(client, self.clients, self.tiers.len());
        let holds = |&tier: &usize| self.tiers[tier].iter().any(|entry| entry.0 == page);
        let found = path.iter().position(holds).unwrap_or(path.len());
        if found == 0 {
            self.own[client].1 += 1;
        } else {
            self.now += 1 + std::mem::take(&mut self.own[client].1);
        }
        let lowest = found.min(path.len() - 1);
        if self.is_adaptive {
            (1..=lowest).rev().for_each(|place| self.adapt(path[place - 1], path[place]));
        }
        let mut keeper = lowest;
        while keeper > 0 {
            let draw = self.draws[self.drawn % self.draws.len()];
            self.drawn += 1;
            if draw >= self.known_below[path[keeper - 1]].probability {
                break;
            }
            keeper -= 1;
        }
        if found < path.len() {
            self.tiers[path[found]].retain(|entry| entry.0 != page);
        }
        let kept = path[keeper];
        if keeper == 0 && found > 0 {
            self.own[client].0 = self.own[client].0.max(self.now);
        }
        let now = if keeper == 0 { self.own[client].0 } else { self.now };
        self.tiers[kept].push((page, now));
        if self.tiers[kept].len() > self.sizes[kept] {
            self.tiers[kept].remove(0);
        }
        self.moves += u64::from(found < path.len() && keeper != found);
        Outcome { found: tier_at(&path, found, self.tiers.len()), served: kept }
    }

    fn forget(&mut self, client: usize, page: u32) {
        self.tiers[client].retain(|entry| entry.0 != page);
    }

    fn held(&self) -> Vec<Vec<u32>> {
        self.tiers.iter().map(|tier| tier.iter().map(|entry| entry.0).collect()).collect()
    }

    fn moves(&self) -> u64 {
        self.moves
    }
}
