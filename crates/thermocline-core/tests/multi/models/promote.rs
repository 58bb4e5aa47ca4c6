//! PROMOTE over LRU.

use super::{Model, Outcome};

/// PROMOTE with scripted draws, which are repeated without end.
pub(crate) struct Promote {
    sizes: Vec<usize>,
    /// Per tier: pages and when they were last used, the oldest first.
    tiers: Vec<Vec<(u32, u64)>>,
    lower: Vec<Lower>,
    draws: Vec<f64>,
    drawn: usize,
    is_adaptive: bool,
    now: u64,
    moves: u64,
}

/// What a tier knows; the first one's is not used.
struct Lower {
    probability: f64,
    ceiling: f64,
    last_hint: u64,
    hints: u64,
    ratio: f64,
}

impl Promote {
    pub(crate) fn new(sizes: &[usize], fixed: Option<f64>, draws: &[f64]) -> Self {
        let lower = (0..sizes.len()).map(|tier| {
            let above: usize = sizes[..tier].iter().sum();
            let ceiling = above as f64 / (above + sizes[tier]) as f64;
            let probability = fixed.unwrap_or(ceiling);
            Lower { probability, ceiling, last_hint: 0, hints: 0, ratio: 0.5 }
        });
        Self {
            sizes: sizes.into(),
            tiers: vec![vec![]; sizes.len()],
            lower: lower.collect(),
            draws: draws.into(),
            drawn: 0,
            is_adaptive: fixed.is_none(),
            now: 0,
            moves: 0,
        }
    }

    fn life(&self, tier: usize) -> u64 {
        let times = || self.tiers[tier].iter().map(|entry| entry.1);
        times().max().unwrap_or(0) - times().min().unwrap_or(0)
    }

    /// A request reaches a lower tier.
    fn adapt(&mut self, tier: usize) {
        let [above, own] = [self.life(tier - 1), self.life(tier)].map(|life| life as f64);
        let size = self.sizes[tier] as f64;
        let lower = &mut self.lower[tier];
        if own <= size / 2.0 || (self.now - lower.last_hint) as f64 <= 0.05 * own {
            return;
        }
        lower.last_hint = self.now;
        lower.hints += 1;
        if lower.hints % 2 == 1 {
            return;
        }
        let ratio = above / (above + own);
        let [gap, last_gap] = [ratio, lower.ratio].map(|ratio| (ratio - 0.5).abs());
        lower.ratio = ratio;
        let is_closing = last_gap - gap > 0.05 * last_gap;
        if !is_closing {
            let pp = lower.probability;
            let step = pp + pp * (1.0 - pp) * (2.0 * ratio - 1.0);
            lower.probability = step.min(lower.ceiling);
        }
    }
}

impl Model for Promote {
    fn read(&mut self, page: u32) -> Outcome {
        self.now += 1;
        let holds = |tier: &Vec<(u32, u64)>| tier.iter().any(|entry| entry.0 == page);
        let found = self.tiers.iter().position(holds).unwrap_or(self.tiers.len());
        let lowest = found.min(self.tiers.len() - 1);
        if self.is_adaptive {
            (1..=lowest).rev().for_each(|tier| self.adapt(tier));
        }
        let mut keeper = lowest;
        while keeper > 0 {
            let draw = self.draws[self.drawn % self.draws.len()];
            self.drawn += 1;
            if draw >= self.lower[keeper].probability {
                break;
            }
            keeper -= 1;
        }
        self.tiers.iter_mut().for_each(|tier| tier.retain(|entry| entry.0 != page));
        self.tiers[keeper].push((page, self.now));
        if self.tiers[keeper].len() > self.sizes[keeper] {
            self.tiers[keeper].remove(0);
        }
        self.moves += u64::from(found < self.tiers.len() && keeper != found);
        Outcome { found, served: keeper }
    }

    fn held(&self) -> Vec<Vec<u32>> {
        self.tiers.iter().map(|tier| tier.iter().map(|entry| entry.0).collect()).collect()
    }

    fn moves(&self) -> u64 {
        self.moves
    }
}
