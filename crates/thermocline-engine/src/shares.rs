//! Shares of RAM, or of flash, that several caches have, moved to where they save most.
//!
//! Each cache has a live curve: the I/O time that it would have needed with each of several sizes, as
//! [shadows](crate::shadow) of these sizes estimate it from a sample of its pages (SHARDS). From time to time,
//! [`Shares::look`] takes the curves. For each split of all steps, it adds up what the split would have saved
//! beyond the least gain, from the moment when it was last no better than the present one. It adopts a split
//! once this sum is large enough beside the cost to fill what moves.
//!
//! Such a sum needs no window of time. A small saving that lasts adds up, one that comes and goes does not, and
//! as soon as the load changes, what was good before it counts no more.
//!
//! * Source: the marginal use of a cache's size is that of Qureshi and Patt, *Utility-Based Cache
//!   Partitioning*, MICRO 2006, section 3; the curves come from Waldspurger et al., *Cache Modeling and
//!   Optimization using Miniature Simulations*, USENIX ATC 2017. The sums are those of Page, *Continuous
//!   Inspection Schemes*, Biometrika 41, 1954; to move when a sum reaches a part of the cost is how one decides
//!   whether to rent or to buy (Karlin et al., *Competitive Snoopy Caching*, Algorithmica 3, 1988).
//! * State: a number per cache and size, and two per split. There are at most 6435 splits of 16 steps.
//! * Cost: O(caches * splits) per look.
//! * Deviations: (1) all splits are compared, because curves have cliffs and the greedy search of the paper
//!   stops before one; there are few caches and few steps. (2) Curves are in I/O time rather than misses, so
//!   stores of different cost compare. (3) A move waits for a third of its cost. The whole cost is that of pages
//!   that are all needed again, and a load that was seen usually lasts for longer than it has.

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
    /// Part of the cost of a move that it must have saved before it is made, at least 0.
    pub caution: f64,
}

impl Terms {
    /// Return the usual terms for that many pages: 16 steps, a gain of 2 %, a third of the cost.
    pub const fn of(pages: u32) -> Self {
        Self { pages, steps: 16, gain_min: 0.02, caution: 1.0 / 3.0 }
    }

    /// Return the usual number of accesses to all caches between two looks: one for each page, and at least
    /// enough for curves to tell more than chance.
    pub fn look_accesses(&self) -> u64 {
        u64::from(self.pages).max(LOOK_ACCESSES_MIN)
    }
}

/// Fewest accesses between two looks.
const LOOK_ACCESSES_MIN: u64 = 1000;

/// Accesses to all caches, for each page, after which a curve that began empty is like that of a cache that was
/// full.
const WARM_ACCESSES_PER_PAGE: u64 = 4;

/// A cache as it is at a look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// I/O time in milliseconds since the curve began, for each size.
    pub needed_ms: Vec<f64>,
    /// I/O time to give up a page in milliseconds: some are dirty and have to be written elsewhere.
    pub release_ms: f64,
}

/// A change of shares, with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// Pages of each cache before.
    pub former_pages: Vec<u32>,
    /// Pages of each cache from now on.
    pub pages: Vec<u32>,
    /// I/O time that the former shares needed since the new ones were last no better, in milliseconds.
    pub needed_ms: f64,
    /// I/O time that the new shares would have saved of that.
    pub saved_ms: f64,
    /// I/O time to give up and to fill the moved pages.
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
    splits: Vec<Split>,
    /// Looks until the curves are warm.
    cold_looks: u64,
}

/// A cache with its share, in steps.
#[derive(Clone, Debug)]
struct Holder {
    floor: u32,
    ceiling: u32,
    /// Pages now; whole steps, except after [`Shares::keep`].
    pages: u32,
    fill_ms: f64,
    release_ms: f64,
    /// For each size from the floor on: the I/O time until the last look, and since the one before.
    totals_ms: Vec<f64>,
    recent_ms: Vec<f64>,
}

/// A way to divide all steps, beside the present one.
#[derive(Clone, Debug)]
struct Split {
    /// Steps of each cache.
    steps: Vec<u32>,
    /// I/O time that the present shares needed since this split was last no better.
    needed_ms: f64,
    /// I/O time that this split would have saved of that, beyond the least gain.
    gained_ms: f64,
}

impl Holder {
    /// Return the I/O time that a number of pages would have needed since the last look but one: that of the
    /// largest size that fits in them.
    fn recent_ms(&self, pages: u32, step_pages: u32) -> f64 {
        let size = (pages / step_pages).clamp(self.floor, self.ceiling) - self.floor;
        self.recent_ms[size as usize]
    }

    /// Return the I/O time to give up or to fill what it loses or gains if it gets that many pages.
    fn cost_ms(&self, pages: u32) -> f64 {
        f64::from(pages.saturating_sub(self.pages)) * self.fill_ms
            + f64::from(self.pages.saturating_sub(pages)) * self.release_ms
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
            holders.push(Holder {
                floor,
                ceiling,
                pages: floor * step_pages,
                fill_ms: limits.fill_ms,
                release_ms: 0.0,
                totals_ms: vec![0.0; sizes],
                recent_ms: vec![0.0; sizes],
            });
        }
        let floors: u32 = holders.iter().map(|holder| holder.floor).sum();
        if floors > steps {
            return Err(ShareError::Floors { floors, steps });
        }
        let splits = splits(&holders, steps);
        let mut shares = Self { terms, step_pages, holders, splits, cold_looks: 0 };
        shares.begin(&vec![0; limits.len()]);
        Ok(shares)
    }

    /// Begin with shares that hold these pages of each cache, as far as limits allow that; the rest is divided as
    /// equally as possible.
    ///
    /// # Panics
    /// If a cache is missing.
    pub fn begin(&mut self, held_pages: &[u32]) {
        assert_eq!(held_pages.len(), self.holders.len(), "each cache has a number of pages");
        let steps = |holder: &Holder, pages: u32| {
            pages.div_ceil(self.step_pages).clamp(holder.floor, holder.ceiling)
        };
        let held = self.holders.iter().zip(held_pages);
        let mut held: Vec<u32> = held.map(|(holder, &pages)| steps(holder, pages)).collect();
        let mut left =
            i64::from(self.terms.steps) - held.iter().copied().map(i64::from).sum::<i64>();
        let holders = &self.holders;
        while left != 0 {
            let places = 0..holders.len();
            let place = if left > 0 {
                let may_grow = places.filter(|&place| held[place] < holders[place].ceiling);
                may_grow.min_by_key(|&place| held[place])
            } else {
                // The first of the largest.
                let may_shrink = places.filter(|&place| held[place] > holders[place].floor).rev();
                may_shrink.max_by_key(|&place| held[place])
            };
            let Some(place) = place else { break };
            if left > 0 {
                held[place] += 1;
            } else {
                held[place] -= 1;
            }
            left -= left.signum();
        }
        for (holder, steps) in self.holders.iter_mut().zip(held) {
            holder.pages = steps * self.step_pages;
        }
        self.forget_gains();
    }

    /// Count a cache with the pages that it has from now on, because it could not get those that it was to have.
    pub fn keep(&mut self, cache: usize, pages: u32) {
        self.holders[cache].pages = pages;
        self.forget_gains();
    }

    /// Forget what was seen, because the curve of a cache begins again.
    ///
    /// A curve begins empty. If its cache is not empty, too, they compare only when the curve is warm: small sizes
    /// are full first, and would seem to need more than large ones as early as that. Until then nothing moves.
    /// `warm_pages` are those of all caches and tiers that are not empty.
    pub fn forget(&mut self, cache: usize, warm_pages: u64) {
        self.holders[cache].totals_ms.fill(0.0);
        self.forget_gains();
        let accesses = warm_pages.saturating_mul(WARM_ACCESSES_PER_PAGE);
        self.cold_looks = self.cold_looks.max(accesses.div_ceil(self.terms.look_accesses()));
    }

    fn forget_gains(&mut self) {
        for split in &mut self.splits {
            (split.needed_ms, split.gained_ms) = (0.0, 0.0);
        }
    }

    /// Return the sizes of a cache's curve in pages, the smallest first.
    pub fn sizes_pages(&self, cache: usize) -> Vec<u32> {
        let Holder { floor, ceiling, .. } = self.holders[cache];
        (floor..=ceiling).map(|steps| steps * self.step_pages).collect()
    }

    /// Return the pages of each cache now.
    pub fn pages(&self) -> Vec<u32> {
        self.holders.iter().map(|holder| holder.pages).collect()
    }

    /// Return the pages of a step.
    pub const fn step_pages(&self) -> u32 {
        self.step_pages
    }

    /// Return the terms.
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Take the curves of all caches. Returns the new shares if they are to change.
    ///
    /// # Panics
    /// If curves are missing, or have other sizes.
    pub fn look(&mut self, curves: &[Curve]) -> Option<Moved> {
        assert_eq!(curves.len(), self.holders.len(), "each cache has a curve");
        for (holder, curve) in self.holders.iter_mut().zip(curves) {
            assert_eq!(curve.needed_ms.len(), holder.totals_ms.len(), "a curve has all sizes");
            holder.release_ms = curve.release_ms;
            let recent = holder.recent_ms.iter_mut().zip(&mut holder.totals_ms);
            for ((recent_ms, former_ms), now_ms) in recent.zip(&curve.needed_ms) {
                *recent_ms = (now_ms - std::mem::replace(former_ms, *now_ms)).max(0.0);
            }
        }
        if self.cold_looks > 0 {
            self.cold_looks -= 1;
            return None;
        }
        self.add_gains();
        // Karlin et al.: move once the savings reach a part of the cost. Deviation (3): a third by
        // default, not all of it.
        let waits_ms = |split: &Split| self.terms.caution * self.cost_ms(split) - split.gained_ms;
        // Of equal ones the first, which gives the first caches least.
        let best =
            self.splits.iter().min_by(|one, other| waits_ms(one).total_cmp(&waits_ms(other)))?;
        if waits_ms(best) >= 0.0 {
            return None;
        }
        let (needed_ms, cost_ms) = (best.needed_ms, self.cost_ms(best));
        // The sum leaves out the least gain, which is saved as well.
        let saved_ms = best.gained_ms + self.terms.gain_min * needed_ms;
        let (former_pages, steps) = (self.pages(), best.steps.clone());
        for (holder, steps) in self.holders.iter_mut().zip(steps) {
            holder.pages = steps * self.step_pages;
        }
        self.forget_gains();
        Some(Moved { former_pages, pages: self.pages(), needed_ms, saved_ms, cost_ms })
    }

    /// Add to each split what it would have saved since the last look.
    fn add_gains(&mut self) {
        let step_pages = self.step_pages;
        let now = self.holders.iter().map(|holder| holder.recent_ms(holder.pages, step_pages));
        let needed_ms: f64 = now.sum();
        let bound_ms = needed_ms * (1.0 - self.terms.gain_min);
        for split in &mut self.splits {
            let each = self.holders.iter().zip(&split.steps);
            let would_need_ms: f64 =
                each.map(|(holder, steps)| holder.recent_ms(steps * step_pages, step_pages)).sum();
            split.gained_ms += bound_ms - would_need_ms;
            split.needed_ms += needed_ms;
            // Page: a sum that falls to 0 begins again, so that an earlier load does not weigh on what
            // the present one would save.
            if split.gained_ms <= 0.0 {
                (split.needed_ms, split.gained_ms) = (0.0, 0.0);
            }
        }
    }

    /// Return the I/O time to give up and to fill what moves to a split.
    fn cost_ms(&self, split: &Split) -> f64 {
        let each = self.holders.iter().zip(&split.steps);
        each.map(|(holder, steps)| holder.cost_ms(steps * self.step_pages)).sum()
    }
}

/// Return all ways to divide steps among caches that leave none unused, as far as ceilings allow that; the first
/// ones give the first caches least.
fn splits(holders: &[Holder], steps: u32) -> Vec<Split> {
    // Deviation (1): all splits, because a greedy search stops before a cliff of a curve.
    let ceilings: u32 = holders.iter().map(|holder| holder.ceiling).sum();
    let mut begun: Vec<(Vec<u32>, u32)> = vec![(vec![], steps.min(ceilings))];
    for (place, holder) in holders.iter().enumerate() {
        let rest = &holders[place + 1..];
        let floors: u32 = rest.iter().map(|holder| holder.floor).sum();
        let ceilings: u32 = rest.iter().map(|holder| holder.ceiling).sum();
        let mut next = vec![];
        for (split, left) in begun {
            let least = left.saturating_sub(ceilings).max(holder.floor);
            let most = left.saturating_sub(floors).min(holder.ceiling);
            for share in least..=most {
                next.push((split.iter().copied().chain([share]).collect(), left - share));
            }
        }
        begun = next;
    }
    let split = |(steps, _)| Split { steps, needed_ms: 0.0, gained_ms: 0.0 };
    begun.into_iter().map(split).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(floor_pages: u32, ceiling_pages: u32) -> Limits {
        Limits { floor_pages, ceiling_pages, fill_ms: 0.01 }
    }

    fn curve(needed_ms: impl IntoIterator<Item = f64>) -> Curve {
        Curve { needed_ms: needed_ms.into_iter().collect(), release_ms: 0.0 }
    }

    /// Return a curve of a cache with that many sizes, which needs nothing from a size on.
    fn cliff(sizes: usize, from: usize, height_ms: f64) -> Curve {
        curve((0..sizes).map(|size| if size < from { height_ms } else { 0.0 }))
    }

    /// Add to curves what was needed since the last look.
    fn add(curves: &mut [Curve], more: [&Curve; 2]) {
        for (curve, more) in curves.iter_mut().zip(more) {
            curve.needed_ms.iter_mut().zip(&more.needed_ms).for_each(|(sum, more)| *sum += more);
        }
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
    fn shares_begin_with_what_is_held() {
        let mut shares =
            Shares::new(Terms::of(1600), &[limits(1, 1600), limits(300, 1000)]).unwrap();
        let mut of = |held: [u32; 2]| {
            shares.begin(&held);
            shares.pages()
        };
        assert_eq!(of([350, 0]), [800, 800], "equal parts hold it, too");
        assert_eq!(of([1150, 100]), [1200, 400]);
        assert_eq!(of([100, 1600]), [600, 1000], "the ceiling counts");
        assert_eq!(of([1550, 0]), [1300, 300], "and so does the floor");
        assert_eq!(of([1001, 801]), [800, 800], "there is less than is held");
    }

    #[test]
    fn every_way_to_divide_the_steps_is_there_once() {
        let number = |limits: &[Limits]| Shares::new(Terms::of(1600), limits).unwrap().splits.len();
        assert_eq!(number(&[limits(1, 1600); 2]), 15);
        assert_eq!(number(&[limits(1, 1600); 8]), 6435, "the most that there are");
        assert_eq!(number(&[limits(1, 1600); 16]), 1);
        assert_eq!(number(&[limits(1, 300), limits(1, 400)]), 1, "ceilings leave steps unused");
        assert_eq!(number(&[limits(900, 1600), limits(1, 300)]), 3);
    }

    #[test]
    fn a_cliff_behind_a_plateau_is_found() {
        let all = [limits(1, 1600), limits(1, 1600)];
        let mut shares = Shares::new(Terms::of(1600), &all).unwrap();
        // One more step gives the second cache nothing; six give it everything.
        let curves = [cliff(16, 2, 500.0), cliff(16, 13, 900.0)];
        let curves = curves.map(|curve| Curve { release_ms: 0.02, ..curve });
        let moved = shares.look(&curves).unwrap();
        assert_eq!((moved.former_pages, &*moved.pages), (vec![800, 800], &[200, 1400][..]));
        assert!((moved.needed_ms - 900.0).abs() < 1e-9 && (moved.saved_ms - 400.0).abs() < 1e-9);
        assert!((moved.cost_ms - 600.0 * (0.01 + 0.02)).abs() < 1e-9, "both sides have a cost");
    }

    #[test]
    fn what_does_not_pay_stays_until_it_does() {
        let all = [limits(1, 1600), limits(1, 1600)];
        let looks = |terms, gain: f64| {
            let mut shares = Shares::new(terms, &all).unwrap();
            let falling = |size: u32| 1000.0 - gain * f64::from(size);
            let load = [curve([1000.0; 16]), curve((0..16).map(falling))];
            let mut seen = [curve([0.0; 16]), curve([0.0; 16])];
            (1..50).find_map(|look| {
                add(&mut seen, [&load[0], &load[1]]);
                Some((look, shares.look(&seen)?))
            })
        };
        let usual = Terms::of(1600);
        assert_eq!(looks(usual, 5.0), None, "2 % of the I/O time are never saved");
        let (look, moved) = looks(usual, 6.0).unwrap();
        assert_eq!(moved.pages, [100, 1500]);
        // Seven steps cost 7 ms to fill, and each look saves 42 ms of 1958 ms.
        assert!(look == 1 && (moved.cost_ms - 7.0).abs() < 1e-9, "{look} {moved:?}");
        let (careful, _) = looks(Terms { caution: 4.0, ..usual }, 6.0).unwrap();
        assert!(careful > 8, "it waits until it has saved the cost four times: {careful}");
        assert!(looks(Terms { gain_min: 0.0, ..usual }, 0.1).is_some(), "little adds up");
    }

    #[test]
    fn shares_follow_the_load_and_then_rest() {
        let all = [limits(1, 1600), limits(1, 1600)];
        let mut shares = Shares::new(Terms::of(1600), &all).unwrap();
        let (needs, rests) = (cliff(16, 12, 900.0), cliff(16, 0, 0.0));
        let mut totals = [curve([0.0; 16]), curve([0.0; 16])];
        let mut moves = vec![];
        for look in 0..200 {
            let load = if look < 100 { [&needs, &rests] } else { [&rests, &needs] };
            add(&mut totals, load);
            moves.extend(shares.look(&totals).map(|moved| (look, moved.pages)));
        }
        assert!(moves.len() == 2 && moves[0].0 == 0 && moves[0].1[0] >= 1300, "{moves:?}");
        assert!(moves[1].0 == 100 && moves[1].1[1] >= 1300, "however long it was: {moves:?}");
    }

    #[test]
    fn a_curve_that_begins_again_says_nothing_of_before() {
        let all = [Limits { fill_ms: 1.0, ..limits(1, 1600) }; 2];
        let load = [cliff(16, 12, 300.0), cliff(16, 0, 0.0)];
        for begins_again in [false, true] {
            let mut shares = Shares::new(Terms::of(1600), &all).unwrap();
            let mut seen = [curve([0.0; 16]), curve([0.0; 16])];
            add(&mut seen, [&load[0], &load[1]]);
            // Five steps cost 500 ms.
            let near = Terms { caution: 1.0, ..Terms::of(1600) };
            shares.terms = near;
            assert_eq!(shares.look(&seen), None);
            if begins_again {
                shares.forget(0, 0);
                seen[0] = curve([0.0; 16]);
            }
            add(&mut seen, [&load[0], &load[1]]);
            assert_eq!(shares.look(&seen).is_some(), !begins_again);
        }
    }

    #[test]
    fn curves_of_full_caches_count_when_they_are_warm() {
        let load = [cliff(16, 12, 900.0), cliff(16, 0, 0.0)];
        for (warm_pages, looks) in [(0, 1), (1600, 5), (4000, 11)] {
            let mut shares = Shares::new(Terms::of(1600), &[limits(1, 1600); 2]).unwrap();
            let mut seen = [curve([0.0; 16]), curve([0.0; 16])];
            shares.forget(0, warm_pages);
            shares.forget(1, 0);
            let moved = (1..50).find_map(|look| {
                add(&mut seen, [&load[0], &load[1]]);
                shares.look(&seen).map(|moved| (look, moved.needed_ms))
            });
            assert_eq!(moved, Some((looks, 900.0)), "what was before is not counted");
        }
    }

    #[test]
    fn a_cache_that_could_not_grow_is_given_more_later() {
        let mut shares = Shares::new(Terms::of(1600), &[limits(1, 1600); 2]).unwrap();
        let (needs, rests) = (cliff(16, 12, 900.0), cliff(16, 0, 0.0));
        let mut totals = [needs.clone(), rests.clone()];
        assert_eq!(shares.look(&totals).unwrap().pages, [1300, 300]);
        shares.keep(0, 850);
        assert_eq!(shares.pages(), [850, 300]);
        add(&mut totals, [&needs, &rests]);
        let moved = shares.look(&totals).unwrap();
        assert_eq!((moved.former_pages, moved.pages), (vec![850, 300], vec![1300, 300]));
    }
}
