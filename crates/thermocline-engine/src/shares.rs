//! Shares of RAM that several caches have, moved to where they save most.
//!
//! Each cache has a live curve: the I/O time that it would have needed with each of several sizes, as
//! [shadows](crate::shadow) of these sizes estimate it from a sample of its pages (SHARDS). From time to time,
//! [`Shares::look`] takes the curves and finds the split of all steps that would have needed least I/O time
//! lately. It adopts that split if it saves enough: more than filling the moved pages again costs, and more
//! than the least gain, so that noise moves nothing.
//!
//! * Source: the marginal use of a cache's size is that of Qureshi and Patt, *Utility-Based Cache
//!   Partitioning*, MICRO 2006, section 3; the curves come from Waldspurger et al., *Cache Modeling and
//!   Optimization using Miniature Simulations*, USENIX ATC 2017.
//! * State: two numbers per cache and size.
//! * Cost: O(caches * steps^2) per look.
//! * Deviations: (1) the best split is found by dynamic programming, because curves have cliffs and the
//!   greedy search of the paper stops before one; there are few caches and few steps. (2) Curves are in I/O
//!   time rather than misses, so stores of different cost compare. (3) What was needed before counts less and
//!   less, so the shares follow the load.

use thiserror::Error;

/// Limits of a cache's share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Pages that it has at least, above 0.
    pub floor_pages: u32,
    /// Pages that it has at most.
    pub ceiling_pages: u32,
    /// I/O time to fill a page that it gains, in milliseconds.
    pub fill_ms: f64,
}

/// Terms on which shares move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Pages that all have together.
    pub pages: u32,
    /// Steps into which these are divided; a share is a whole number of steps.
    pub steps: u32,
    /// Part of the I/O time that a move must save besides its cost, at least 0 and below 1.
    pub gain_min: f64,
    /// Weight of what was known at the last look, at least 0 and below 1.
    pub memory: f64,
}

impl Terms {
    /// Return the usual terms for that many pages: 16 steps, a gain of 2 %, half of the weight for what
    /// was before the last look.
    pub const fn of(pages: u32) -> Self {
        Self { pages, steps: 16, gain_min: 0.02, memory: 0.5 }
    }
}

/// A change of shares, with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// Pages of each cache before.
    pub former_pages: Vec<u32>,
    /// Pages of each cache from now on.
    pub pages: Vec<u32>,
    /// I/O time that the former shares needed lately, in milliseconds.
    pub needed_ms: f64,
    /// I/O time that the new shares would have saved of that.
    pub saved_ms: f64,
    /// I/O time to fill the moved pages.
    pub cost_ms: f64,
}

/// Reason why shares cannot be.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ShareError {
    /// There are fewer pages than steps, or no steps.
    #[error("{pages} pages cannot be divided into {steps} steps")]
    Steps {
        /// Pages of all.
        pages: u32,
        /// Steps wanted.
        steps: u32,
    },
    /// The floors of all exceed what there is.
    #[error("the floors need {floors} steps, and there are {steps}: lower them")]
    Floors {
        /// Steps of all floors.
        floors: u32,
        /// Steps that there are.
        steps: u32,
    },
    /// A ceiling below its floor.
    #[error("cache {cache}: its ceiling is below its floor, in whole steps of {step_pages} pages")]
    Ceiling {
        /// Number of the cache.
        cache: usize,
        /// Pages of a step.
        step_pages: u32,
    },
}

/// The shares of several caches.
#[derive(Clone, Debug)]
pub struct Shares {
    terms: Terms,
    step_pages: u32,
    holders: Vec<Holder>,
}

/// A cache with its share, in steps.
#[derive(Clone, Debug)]
struct Holder {
    floor: u32,
    ceiling: u32,
    steps: u32,
    fill_ms: f64,
    /// For each size from the floor on: the I/O time until the last look, and lately.
    totals_ms: Vec<f64>,
    recent_ms: Vec<f64>,
}

impl Holder {
    /// Return the I/O time that a number of steps would have needed lately.
    fn needed_ms(&self, steps: u32) -> f64 {
        self.recent_ms[(steps - self.floor) as usize]
    }

    /// Return the I/O time to fill what it gains if it gets that many steps.
    fn cost_ms(&self, steps: u32, step_pages: u32) -> f64 {
        f64::from(steps.saturating_sub(self.steps)) * f64::from(step_pages) * self.fill_ms
    }
}

impl Shares {
    /// Divide pages among caches: at first as equally as their limits allow.
    ///
    /// # Errors
    /// If limits contradict one another, or there are too few pages.
    pub fn new(terms: Terms, limits: &[Limits]) -> Result<Self, ShareError> {
        let Terms { pages, steps, .. } = terms;
        let step_pages = pages.checked_div(steps).unwrap_or(0);
        if step_pages == 0 {
            return Err(ShareError::Steps { pages, steps });
        }
        let mut holders = vec![];
        for (cache, limits) in limits.iter().enumerate() {
            let floor = limits.floor_pages.div_ceil(step_pages).max(1);
            let ceiling = (limits.ceiling_pages / step_pages).min(steps);
            if ceiling < floor {
                return Err(ShareError::Ceiling { cache, step_pages });
            }
            let sizes = (ceiling - floor + 1) as usize;
            let (totals_ms, recent_ms) = (vec![0.0; sizes], vec![0.0; sizes]);
            let fill_ms = limits.fill_ms;
            holders.push(Holder { floor, ceiling, steps: floor, fill_ms, totals_ms, recent_ms });
        }
        let floors: u32 = holders.iter().map(|holder| holder.floor).sum();
        if floors > steps {
            return Err(ShareError::Floors { floors, steps });
        }
        for _ in floors..steps {
            let may_grow = holders.iter_mut().filter(|holder| holder.steps < holder.ceiling);
            let Some(smallest) = may_grow.min_by_key(|holder| holder.steps) else { break };
            smallest.steps += 1;
        }
        Ok(Self { terms, step_pages, holders })
    }

    /// Return the sizes of a cache's curve in pages, the smallest first.
    pub fn sizes_pages(&self, cache: usize) -> Vec<u32> {
        let Holder { floor, ceiling, .. } = self.holders[cache];
        (floor..=ceiling).map(|steps| steps * self.step_pages).collect()
    }

    /// Return the pages of each cache now.
    pub fn pages(&self) -> Vec<u32> {
        self.holders.iter().map(|holder| holder.steps * self.step_pages).collect()
    }

    /// Take the curves: for each cache and each of its sizes, the I/O time in milliseconds since it
    /// began. Returns the new shares if they are to change.
    ///
    /// # Panics
    /// If curves are missing, or have other sizes.
    pub fn look(&mut self, curves_ms: &[Vec<f64>]) -> Option<Moved> {
        assert_eq!(curves_ms.len(), self.holders.len(), "each cache has a curve");
        for (holder, curve_ms) in self.holders.iter_mut().zip(curves_ms) {
            assert_eq!(curve_ms.len(), holder.totals_ms.len(), "a curve has all sizes");
            let recent = holder.recent_ms.iter_mut().zip(&mut holder.totals_ms);
            for ((recent_ms, former_ms), now_ms) in recent.zip(curve_ms) {
                let since_ms = (now_ms - std::mem::replace(former_ms, *now_ms)).max(0.0);
                *recent_ms = *recent_ms * self.terms.memory + since_ms;
            }
        }
        let best = self.best_split();
        let sum = |of: &dyn Fn(&Holder, u32) -> f64, split: &[u32]| -> f64 {
            self.holders.iter().zip(split).map(|(holder, &steps)| of(holder, steps)).sum()
        };
        let now: Vec<u32> = self.holders.iter().map(|holder| holder.steps).collect();
        let needed_ms = sum(&Holder::needed_ms, &now);
        let saved_ms = needed_ms - sum(&Holder::needed_ms, &best);
        let cost_ms = sum(&|holder, steps| holder.cost_ms(steps, self.step_pages), &best);
        if saved_ms - cost_ms <= self.terms.gain_min * needed_ms {
            return None;
        }
        let former_pages = self.pages();
        for (holder, steps) in self.holders.iter_mut().zip(best) {
            holder.steps = steps;
        }
        Some(Moved { former_pages, pages: self.pages(), needed_ms, saved_ms, cost_ms })
    }

    /// Find the split that needs least I/O time, the filling of moved pages counted; of equal ones, the one
    /// that gives the first caches least.
    fn best_split(&self) -> Vec<u32> {
        let steps = self.terms.steps as usize;
        // Per number of steps for the caches so far: the least time, and the split that needs it.
        let mut best: Vec<Option<(f64, Vec<u32>)>> = vec![None; steps + 1];
        best[0] = Some((0.0, vec![]));
        for holder in &self.holders {
            let mut next: Vec<Option<(f64, Vec<u32>)>> = vec![None; steps + 1];
            for (used, known) in best.iter().enumerate() {
                let Some((time_ms, split)) = known else { continue };
                for share in holder.floor..=holder.ceiling {
                    let Some(place) = next.get_mut(used + share as usize) else { break };
                    let time_ms =
                        time_ms + holder.needed_ms(share) + holder.cost_ms(share, self.step_pages);
                    if place.as_ref().is_none_or(|(least_ms, _)| time_ms < *least_ms) {
                        let split = split.iter().copied().chain([share]).collect();
                        *place = Some((time_ms, split));
                    }
                }
            }
            best = next;
        }
        // Of equal ones, the first: the one that leaves least unused.
        let all = best.into_iter().rev().flatten();
        let least = all.min_by(|(one, _), (other, _)| one.total_cmp(other));
        least.expect("the floors fit").1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(floor_pages: u32, ceiling_pages: u32) -> Limits {
        Limits { floor_pages, ceiling_pages, fill_ms: 0.01 }
    }

    /// Return a curve of a cache with that many sizes, which needs nothing from a size on.
    fn cliff(sizes: usize, from: usize, height_ms: f64) -> Vec<f64> {
        (0..sizes).map(|size| if size < from { height_ms } else { 0.0 }).collect()
    }

    #[test]
    fn shares_begin_equal_within_their_limits() {
        let of = |limits: &[Limits]| Shares::new(Terms::of(1600), limits).map(|it| it.pages());
        assert_eq!(of(&[limits(1, 1600), limits(1, 1600)]), Ok(vec![800, 800]));
        assert_eq!(of(&[limits(1, 300), limits(1, 1600)]), Ok(vec![300, 1300]));
        assert_eq!(of(&[limits(1200, 1600), limits(1, 1600)]), Ok(vec![1200, 400]));
        assert_eq!(of(&[limits(1, 100), limits(1, 100)]), Ok(vec![100, 100]));
        let shares = Shares::new(Terms::of(1600), &[limits(150, 400)]).unwrap();
        assert_eq!(shares.sizes_pages(0), [200, 300, 400]);
    }

    #[test]
    fn limits_that_cannot_be_are_refused() {
        let of = |terms, limits: &[Limits]| Shares::new(terms, limits).unwrap_err();
        let terms = Terms::of(1600);
        assert_eq!(of(Terms::of(15), &[]), ShareError::Steps { pages: 15, steps: 16 });
        assert_eq!(
            of(Terms { steps: 0, ..terms }, &[]),
            ShareError::Steps { pages: 1600, steps: 0 }
        );
        let floors = [limits(900, 1600), limits(701, 1600)];
        assert_eq!(of(terms, &floors), ShareError::Floors { floors: 17, steps: 16 });
        let ceiling = [limits(1, 1600), limits(150, 199)];
        assert_eq!(of(terms, &ceiling), ShareError::Ceiling { cache: 1, step_pages: 100 });
    }

    #[test]
    fn a_cliff_behind_a_plateau_is_found() {
        let all = [limits(1, 1600), limits(1, 1600)];
        let mut shares = Shares::new(Terms::of(1600), &all).unwrap();
        // One more step gives the second cache nothing; six give it everything.
        let curves = [cliff(16, 2, 500.0), cliff(16, 13, 900.0)];
        let moved = shares.look(&curves).unwrap();
        assert_eq!((moved.former_pages, &*moved.pages), (vec![800, 800], &[200, 1400][..]));
        assert!((moved.needed_ms - 900.0).abs() < 1e-9 && (moved.saved_ms - 400.0).abs() < 1e-9);
    }

    #[test]
    fn what_does_not_pay_stays() {
        let all = [limits(1, 1600), limits(1, 1600)];
        let curves = |gain: f64| {
            let falling = |size: u32| 1000.0 - gain * f64::from(size);
            [vec![1000.0; 16], (0..16).map(falling).collect::<Vec<f64>>()]
        };
        let look = |terms, gain| Shares::new(terms, &all).unwrap().look(&curves(gain));
        // Seven steps cost 7 ms to fill.
        assert_eq!(look(Terms::of(1600), 0.9), None, "it costs more than it saves");
        assert_eq!(look(Terms::of(1600), 6.0), None, "the gain is noise");
        let moved = look(Terms::of(1600), 8.0).unwrap();
        assert_eq!(moved.pages, [100, 1500]);
        assert!((moved.cost_ms - 7.0).abs() < 1e-9);
        assert!(look(Terms { gain_min: 0.0, ..Terms::of(1600) }, 6.0).is_some());
    }

    #[test]
    fn shares_follow_the_load_and_then_rest() {
        let all = [limits(1, 1600), limits(1, 1600)];
        let mut shares = Shares::new(Terms::of(1600), &all).unwrap();
        let (needs, rests) = (cliff(16, 12, 900.0), cliff(16, 0, 0.0));
        let mut totals = [vec![0.0; 16], vec![0.0; 16]];
        let mut moves = vec![];
        for look in 0..20 {
            let load = if look < 10 { [&needs, &rests] } else { [&rests, &needs] };
            for (total, load) in totals.iter_mut().zip(load) {
                total.iter_mut().zip(load).for_each(|(total, load)| *total += load);
            }
            moves.extend(shares.look(&totals).map(|moved| (look, moved.pages)));
        }
        assert!(moves.len() == 2 && moves[0].0 == 0 && moves[0].1[0] >= 1300, "{moves:?}");
        assert!((10..14).contains(&moves[1].0) && moves[1].1[1] >= 1300, "{moves:?}");
    }
}
