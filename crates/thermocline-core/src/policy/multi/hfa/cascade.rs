//! D-HFA: a page enters a tier, and each tier that has no room left hands one on.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, Algorithms 1 and 4.
//! * State: none of its own.
//! * Cost: O(k) per tier, and what its queue takes.
//! * Deviations: none; a page that would leave a tier at once passes it without entering a queue.

use super::Hfa;
use super::queues::Queue;
use crate::action::Sink;

impl<const STRATEGY: u8> Hfa<STRATEGY> {
    /// Let a level receive a page; each level that has no room left hands one on.
    ///
    /// A page that would be its level's next victim at once enters no queue, and leaves no trace
    /// but its hint.
    #[inline]
    pub(super) fn cascade(
        &mut self,
        mut level: usize,
        mut frame: u32,
        mut carried: f64,
        out: &mut impl Sink,
    ) {
        loop {
            let page = self.queues.frame(frame).page;
            let newest = self.newest_hint(level, page);
            let (known, is_hot) = self.weigh_records(level, page, newest);
            let frequency = known.max(carried);
            let hotness = self.settings.hint_hotness(frequency);
            // Algorithm 4, line 2: what comes to the top tier enters Q2, whatever its frequency.
            // Algorithm 1 would look at F there, too (`miss_to_q1`).
            let may_enter_q1 = !self.is_top(level) || self.settings.miss_to_q1;
            let enters_q1 = may_enter_q1 && frequency > self.settings.f_min;
            let passes = !enters_q1 && self.passes_q2(level, hotness);
            let victim = if passes {
                self.queues.frame_mut(frame).is_hot = false;
                Some(frame)
            } else {
                if is_hot {
                    self.levels[level].hints.hold(newest, frame);
                }
                self.queues.frame_mut(frame).begin(hotness, frequency, is_hot, self.now);
                if enters_q1 { self.enter_q1(level, frame) } else { self.enter_q2(level, frame) }
            };
            let Some(victim) = victim else { return };
            let Some(next) = self.pass_down(level, victim, out) else { return };
            (level, frame, carried) = (self.below(level), victim, next);
        }
    }

    /// Put a page into the first queue; return the page that has to leave the level for it, taken
    /// out.
    #[inline]
    pub(super) fn enter_q1(&mut self, level: usize, frame: u32) -> Option<u32> {
        self.put((level, Queue::Q1), frame);
        if self.queues.len(level, Queue::Q1) > self.levels[level].q1_capacity_pages {
            let tail = self.queues.back_of_q1(level).expect("an over-full queue has a page");
            self.take(tail);
            // Deviation (5): Algorithm 4, line 7, demotes "the tail block" without saying of which
            // queue; section 3.2.2 says that Q1 evicts to Q2.
            if self.settings.overflow_demotes {
                return Some(tail);
            }
            return self.enter_q2(level, tail);
        }
        let has_room = self.has_room(level, 0);
        (!has_room).then(|| self.take_victim(level))
    }

    /// Put a page into the second queue; return the page that has to leave the level for it, taken
    /// out: that page itself if it is the coldest.
    #[inline]
    fn enter_q2(&mut self, level: usize, frame: u32) -> Option<u32> {
        if self.has_room(level, 1) {
            self.put((level, Queue::Q2), frame);
            return None;
        }
        // It would be the next victim at once, so it goes without entering.
        if self.is_last_in_q2(level, self.queues.frame(frame).hotness) {
            return Some(frame);
        }
        let victim = self.take_victim(level);
        self.put((level, Queue::Q2), frame);
        Some(victim)
    }

    /// Return `true` if a page of this hotness would be the next victim as soon as it entered the second
    /// queue.
    #[inline]
    fn passes_q2(&self, level: usize, hotness: f64) -> bool {
        self.is_last_in_q2(level, hotness) && !self.has_room(level, 1)
    }

    /// Return `true` if a page of this hotness would be the last one of the second queue.
    #[inline]
    fn is_last_in_q2(&self, level: usize, hotness: f64) -> bool {
        if self.settings.sorts_q2 {
            return self.queues.is_coldest(level, hotness);
        }
        // At the head, a page is the last one only if it is alone.
        self.queues.len(level, Queue::Q2) == 0
    }

    /// Takes the next page to leave out of a level.
    #[inline]
    fn take_victim(&mut self, level: usize) -> u32 {
        let victim = self.queues.victim(level).expect("an over-full level has a page");
        self.foresee(victim);
        self.detach(victim);
        victim
    }
}

/// Counts the steps of the paper's bubble sort in the worst case.
#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::super::settings::Strategy;
    use super::super::{D_PARAMETERS, Hfa};
    use super::*;
    use crate::config::Values;
    use crate::random::SplitMix64;
    use crate::{Access, Actions, Geometry, PageCost, Policy as _, Setup};

    type DHfa = Hfa<{ Strategy::Demote as u8 }>;

    /// Pages of the fastest tier.
    const FAST_PAGES: u32 = 1 << 12;
    /// Accesses between two at which places are counted: counting looks at each of them.
    const SPACING: u32 = 101;

    /// Counts over a trace.
    #[derive(Debug)]
    struct Found {
        /// Exchanges in heaps, runs begun and places of rings passed, per access.
        steps: f64,
        /// Places that the paper's bubble sort would pass in the fastest tier's Q2, per access.
        places: f64,
    }

    fn count(accesses: impl Iterator<Item = u32>) -> Found {
        let setup = Setup {
            costs: vec![PageCost::default(); 4],
            ..Setup::new(
                Geometry::linear(4 * FAST_PAGES),
                vec![FAST_PAGES, FAST_PAGES / 2, FAST_PAGES / 2],
            )
        };
        let by_hotness = [("q2_insertion".into(), "hotness".into())];
        let values = Values::resolve("d-hfa", D_PARAMETERS, &by_hotness).unwrap();
        let mut hfa = DHfa::new(&setup, &values);
        let mut actions = Actions::new();
        let (mut places, mut counted, mut number) = (0, 0_u32, 0_u32);
        for page in accesses {
            number += 1;
            let is_counted = number.is_multiple_of(SPACING);
            let before = if is_counted { hfa.queues.frames(0, Queue::Q2) } else { vec![] };
            actions.clear();
            hfa.access(Access::read(page), &mut actions);
            if is_counted {
                places += passed(before, &hfa.queues.frames(0, Queue::Q2));
                counted += 1;
            }
        }
        hfa.assert_invariants();
        let hints: u64 = hfa.levels.iter().map(|level| level.hints.steps()).sum();
        Found {
            steps: (hfa.queues.steps() + hints) as f64 / f64::from(number),
            places: places as f64 / f64::from(counted),
        }
    }

    /// Return the places behind the page that entered a queue, if one did.
    fn passed(mut before: Vec<u32>, after: &[u32]) -> usize {
        before.sort_unstable();
        let entered = after.iter().position(|frame| before.binary_search(frame).is_err());
        entered.map_or(0, |place| after.len() - 1 - place)
    }

    /// Each hit takes the coldest page and makes it the hottest, or as hot as all others.
    #[test]
    fn a_loop_passes_all_places_in_few_steps() {
        let found = count((0..40 * FAST_PAGES).map(|number| number % FAST_PAGES));
        assert!(found.places > f64::from(FAST_PAGES) / 4.0, "{found:?}");
        assert!(found.steps < 2.0 * f64::from(FAST_PAGES.ilog2()), "{found:?}");
    }

    /// Forth and back: each page has a hotness of its own, and enters at either end by turns.
    #[test]
    fn a_sweep_to_and_fro_passes_many_places_in_few_steps() {
        let sweep = (0..40 * FAST_PAGES).map(|number| {
            let place = number % (2 * FAST_PAGES);
            if place < FAST_PAGES { place } else { 2 * FAST_PAGES - 1 - place }
        });
        let found = count(sweep);
        assert!(found.places > f64::from(FAST_PAGES) / 8.0, "{found:?}");
        assert!(found.steps < 2.0 * f64::from(FAST_PAGES.ilog2()), "{found:?}");
    }

    /// More pages than there is room for, at any distance: every tier hands pages on.
    #[test]
    fn pages_at_random_take_few_steps() {
        let mut random = SplitMix64::new(1);
        let pages = core::iter::repeat_with(|| random.bits());
        let pages = pages.map(|bits| u32::try_from(bits % u64::from(4 * FAST_PAGES)).unwrap());
        let found = count(pages.take(40 * FAST_PAGES as usize));
        assert!(found.steps < 6.0 * f64::from(FAST_PAGES.ilog2()), "{found:?}");
    }
}
