//! A queue that is sorted by hotness, hottest first, newest first among equals.
//!
//! A page that enters at the tail and passes all that are not hotter comes to stand before the
//! pages of its own hotness, or of the next lower one. So it is enough to know where each run of
//! equally hot pages begins; the pages within a run are never looked at.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, section 3.2.3.
//! * State: 12 bytes per run, in an ordered map.
//! * Cost: O(log runs) to insert, O(1) to remove, or O(log runs) if the page begins a run.
//! * Deviations: none; the paper's bubble sort finds the same place in O(n).

use alloc::collections::BTreeMap;

use crate::queue::Lists;

/// Where each run of a list begins.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    /// By hotness, as the bits of a number that is not negative: the first page of that hotness.
    fronts: BTreeMap<u64, u32>,
}

impl Runs {
    /// Puts a frame that is in no list into the sorted `list`.
    pub(super) fn insert(
        &mut self,
        lists: &mut Lists,
        list: u32,
        frame: u32,
        hotness_of: impl Fn(u32) -> f64,
    ) {
        let bits = hotness_of(frame).to_bits();
        match self.fronts.range_mut(..=bits).next_back() {
            Some((&found, front)) => {
                lists.insert_before(*front, frame);
                if found == bits {
                    *front = frame;
                    return;
                }
            }
            None => lists.push_back(list, frame),
        }
        self.fronts.insert(bits, frame);
    }

    /// Takes a frame out of its list.
    pub(super) fn remove(
        &mut self,
        lists: &mut Lists,
        frame: u32,
        hotness_of: impl Fn(u32) -> f64,
    ) {
        let bits = hotness_of(frame).to_bits();
        let is_equal = |other: &u32| hotness_of(*other).to_bits() == bits;
        if !lists.before(frame).is_some_and(|before| is_equal(&before)) {
            match lists.after(frame).filter(is_equal) {
                Some(next) => drop(self.fronts.insert(bits, next)),
                None => drop(self.fronts.remove(&bits)),
            }
        }
        lists.remove(frame);
    }

    /// How many runs there are.
    pub(super) fn len(&self) -> usize {
        self.fronts.len()
    }

    /// Checks that the list is sorted and that each run is known.
    pub(super) fn assert_invariants(
        &self,
        lists: &Lists,
        list: u32,
        hotness_of: impl Fn(u32) -> f64,
    ) {
        let mut runs = 0;
        let mut before = f64::INFINITY;
        for frame in lists.iter(list) {
            let hotness = hotness_of(frame);
            assert!(hotness <= before, "the queue is sorted");
            if hotness < before {
                let front = self.fronts.get(&hotness.to_bits());
                assert_eq!(front, Some(&frame), "a run begins with its first page");
                runs += 1;
            }
            before = hotness;
        }
        assert_eq!(runs, self.len(), "each run has a page");
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pages_stand_where_the_bubble_sort_puts_them(
            steps in prop::collection::vec((0_u32..8, 0_u8..4), 0..200),
        ) {
            let (mut runs, mut lists) = (Runs::default(), Lists::new(8, 1));
            let mut hotness = [0.0_f64; 8];
            let mut model: Vec<u32> = vec![];
            for (frame, hot) in steps {
                if let Some(place) = model.iter().position(|&other| other == frame) {
                    model.remove(place);
                    runs.remove(&mut lists, frame, |frame| hotness[frame as usize]);
                } else {
                    hotness[frame as usize] = f64::from(hot);
                    runs.insert(&mut lists, 0, frame, |frame| hotness[frame as usize]);
                    let is_hotter = |&other: &u32| hotness[other as usize] > f64::from(hot);
                    let place = model.iter().rposition(is_hotter).map_or(0, |place| place + 1);
                    model.insert(place, frame);
                }
                runs.assert_invariants(&lists, 0, |frame| hotness[frame as usize]);
                prop_assert!(lists.iter(0).eq(model.iter().copied()));
            }
        }
    }
}
