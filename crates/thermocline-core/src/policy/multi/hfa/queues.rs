//! The two queues of every tier, and who leaves them next.
//!
//! Frames are places for pages; each is in at most one queue. D-HFA keeps Q1 by recency and Q2 by
//! arrival or by hotness, P-HFA and H-HFA keep Q1 by hotness, with places that a hit moves forward, and Q2 by
//! recency. A frame and its links are one cache line.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, section 3.2.2.
//! * State: 64 bytes per frame; for a Q2 by hotness 4 more, and 44 per hotness in it; for P-HFA and H-HFA 32
//!   more, and for H-HFA another 20, and 44 per hint value in Q2.
//! * Cost: O(1) per change of a Q2, O(log n) where a hotness or hint value is new or its last page leaves;
//!   O(1) for Q1 of D-HFA, O(log n) for the others.
//! * Deviations: none.

use alloc::vec::Vec;

use super::bubble::Bubble;
use super::hit_counts::HitCounts;
use super::runs::{self, Runs};
use super::settings::Strategy;
use crate::PageId;
use crate::queue::{CacheLine, Lists};

/// One of the queues of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// The protected one.
    Q1 = 0,
    /// The other one.
    Q2 = 1,
}

/// Place of a frame: its level, and the queue there.
pub(super) type Place = (usize, Queue);

/// A page, and its history at the tier that it is in.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
pub(super) struct Frame {
    pub(super) page: PageId,
    /// Its run, in a Q2 of D-HFA.
    run: u32,
    /// Hits since it arrived.
    pub(super) hits: u32,
    /// `true` if it counts as hot.
    pub(super) is_hot: bool,
    /// `true` if the disk's copy is older.
    pub(super) is_dirty: bool,
    /// Hotness, as last computed. Never change it in a queue that is ordered by it.
    pub(super) hotness: f64,
    /// Its weighted hints (F), as last looked up.
    pub(super) frequency: f64,
    /// Time of the last hit; 0 before the first hit.
    pub(super) last_hit: u64,
    pub(super) loaded: u64,
    /// Number of accesses from its arrival to the last lookup of its hints; the greatest number
    /// stands for any that is greater.
    pub(super) looked_up_after: u32,
}

const _: () = assert!(size_of::<Frame>() == 52, "update the `State` line of the module header");

impl Frame {
    /// Create the frame of a page that just arrived.
    pub(super) const fn new(page: PageId) -> Self {
        Self {
            page,
            run: runs::NONE,
            hits: 0,
            is_hot: false,
            is_dirty: false,
            hotness: 0.0,
            frequency: 0.0,
            last_hit: 0,
            loaded: 0,
            looked_up_after: 0,
        }
    }

    /// Begins the stay of its page at a tier.
    #[inline]
    pub(super) const fn begin(&mut self, hotness: f64, frequency: f64, is_hot: bool, now: u64) {
        self.hits = 0;
        self.is_hot = is_hot;
        self.hotness = hotness;
        self.frequency = frequency;
        self.last_hit = 0;
        self.loaded = now;
        self.looked_up_after = 0;
    }
}

/// All queues of the HFA that has this number among the strategies.
#[derive(Clone, Debug)]
pub(super) struct Queues<const STRATEGY: u8> {
    lists: Lists<Frame, CacheLine>,
    /// `true` if Q2 is kept by hotness; D-HFA only.
    sorts_q2: bool,
    /// Per level: the runs of a Q2 by hotness; with H-HFA, by hint value.
    runs: Vec<Runs>,
    /// Per level: the pages of Q2 by hint value, and the run of each; H-HFA only.
    by_value: Lists<u32>,
    /// The places of Q1; P-HFA and H-HFA only.
    bubble: Bubble,
    /// Per level: the hits of the pages of Q2; P-HFA and H-HFA only.
    q2_hits: Vec<HitCounts>,
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a hierarchy has few tiers")]
const fn list(place: Place) -> u32 {
    place.0 as u32 * 2 + place.1 as u32
}

impl<const STRATEGY: u8> Queues<STRATEGY> {
    const STRATEGY: Strategy = Strategy::of(STRATEGY);

    /// Create empty queues of levels with `capacities` pages, over `frames` frames.
    pub(super) fn new(frames: u32, capacities: &[u32], sorts_q2: bool) -> Self {
        let frames_if = |is_needed: bool| if is_needed { frames } else { 0 };
        let moves_in_place = Self::STRATEGY != Strategy::Demote;
        let levels = capacities.len();
        let lists = u32::try_from(levels).expect("a hierarchy has few tiers") * 2;
        let is_by_value = Self::STRATEGY == Strategy::Hint;
        let value_lists = if is_by_value { lists / 2 } else { 0 };
        // A page enters before another one leaves.
        let of_level = |&pages: &u32| Runs::new(frames_if(sorts_q2 || is_by_value).min(pages + 1));
        Self {
            lists: Lists::with_values(frames, lists, Frame::new(PageId(0))),
            sorts_q2,
            runs: capacities.iter().map(of_level).collect(),
            by_value: Lists::with_values(frames_if(is_by_value), value_lists, runs::NONE),
            bubble: Bubble::new(frames_if(moves_in_place), levels),
            q2_hits: (0..levels).map(|_| HitCounts::new()).collect(),
        }
    }

    #[inline]
    pub(super) fn frame(&self, frame: u32) -> &Frame {
        self.lists.value(frame)
    }

    #[inline]
    pub(super) fn frame_mut(&mut self, frame: u32) -> &mut Frame {
        self.lists.value_mut(frame)
    }

    /// Puts a frame that is in no queue where its queue's order wants it; `value` is the K-step
    /// hint value of its page.
    #[inline]
    pub(super) fn insert(&mut self, place: Place, frame: u32, value: f64) {
        let (level, list) = (place.0, list(place));
        let Frame { hits, hotness, .. } = *self.frame(frame);
        match (Self::STRATEGY, place.1) {
            (Strategy::Demote, Queue::Q2) if self.sorts_q2 => {
                let entry = self.runs[level].insert(frame, hotness);
                self.frame_mut(frame).run = entry.run;
                match entry.behind {
                    Some(newest) => self.lists.insert_before(newest, frame),
                    None => self.lists.push_front(list, frame),
                }
            }
            (Strategy::Promote | Strategy::Hint, Queue::Q1) => {
                let ahead = self.bubble.last_hotter(level, hotness);
                self.insert_behind(level, ahead, frame, hotness);
            }
            // Section 3.2.2, line 10 of Algorithm 1: a block without records goes to the head of
            // Q2.
            (Strategy::Demote, Queue::Q1 | Queue::Q2) => self.lists.push_front(list, frame),
            (Strategy::Promote | Strategy::Hint, Queue::Q2) => {
                self.lists.push_front(list, frame);
                self.q2_hits[level].add(hits);
                if Self::STRATEGY == Strategy::Hint {
                    let entry = self.runs[level].insert(frame, value);
                    *self.by_value.value_mut(frame) = entry.run;
                    match entry.behind {
                        Some(newest) => self.by_value.insert_before(newest, frame),
                        None => self.by_value.push_front(list / 2, frame),
                    }
                }
            }
        }
    }

    /// Takes a frame out of its queue.
    #[inline]
    pub(super) fn remove(&mut self, frame: u32) -> Place {
        let place = self.place_of(frame).expect("the frame is in a queue");
        match (Self::STRATEGY, place.1) {
            (Strategy::Demote, Queue::Q2) if self.sorts_q2 => {
                let run = self.frame(frame).run;
                let [newer, older] = [self.lists.before(frame), self.lists.after(frame)]
                    .map(|other| other.filter(|&other| self.frame(other).run == run));
                self.runs[place.0].remove(run, newer, older);
            }
            (Strategy::Promote | Strategy::Hint, Queue::Q1) => self.bubble.remove(place.0, frame),
            (Strategy::Demote, Queue::Q1 | Queue::Q2) => {}
            (Strategy::Promote | Strategy::Hint, Queue::Q2) => {
                let hits = self.frame(frame).hits;
                self.q2_hits[place.0].remove(hits);
                if Self::STRATEGY == Strategy::Hint {
                    let lists = &mut self.by_value;
                    let run = *lists.value(frame);
                    let [newer, older] = [lists.before(frame), lists.after(frame)]
                        .map(|other| other.filter(|&other| *lists.value(other) == run));
                    self.runs[place.0].remove(run, newer, older);
                    lists.remove(frame);
                }
            }
        }
        self.lists.remove(frame);
        place
    }

    /// Counts a hit of a frame that is at this place.
    #[inline]
    pub(super) fn add_hit(&mut self, place: Place, frame: u32) {
        let entry = self.frame_mut(frame);
        let before = entry.hits;
        entry.hits = before.saturating_add(1);
        if Self::STRATEGY != Strategy::Demote && place.1 == Queue::Q2 {
            let counts = &mut self.q2_hits[place.0];
            counts.remove(before);
            counts.add(before.saturating_add(1));
        }
    }

    /// Gives a page of Q1 that was hit its new hotness and place.
    #[inline]
    pub(super) fn hit_in_q1(&mut self, level: usize, frame: u32, hotness: f64) {
        self.frame_mut(frame).hotness = hotness;
        if Self::STRATEGY == Strategy::Demote {
            self.lists.move_to_front(frame);
            return;
        }
        let ahead = self.bubble.last_hotter_ahead(frame, hotness);
        // The page stays where it is, which most hits near the head find: no list changes.
        if ahead == self.lists.before(frame) {
            return self.bubble.set_hotness(frame, hotness);
        }
        self.bubble.remove(level, frame);
        self.lists.remove(frame);
        self.insert_behind(level, ahead, frame, hotness);
    }

    /// Puts a frame at the tail of a queue that is kept by recency.
    pub(super) fn push_to_tail_of_q1(&mut self, level: usize, frame: u32) {
        debug_assert_eq!(Self::STRATEGY, Strategy::Demote, "its first queue is kept by recency");
        self.lists.push_back(list((level, Queue::Q1)), frame);
    }

    #[inline]
    pub(super) fn place_of(&self, frame: u32) -> Option<Place> {
        let list = self.lists.list_of(frame)?;
        Some(((list / 2) as usize, if list.is_multiple_of(2) { Queue::Q1 } else { Queue::Q2 }))
    }

    #[inline]
    pub(super) fn len(&self, level: usize, queue: Queue) -> u32 {
        self.lists.len(list((level, queue)))
    }

    /// Return the first frame of Q1.
    #[inline]
    pub(super) fn front_of_q1(&self, level: usize) -> Option<u32> {
        self.lists.front(list((level, Queue::Q1)))
    }

    /// Return the last frame of Q1.
    #[inline]
    pub(super) fn back_of_q1(&self, level: usize) -> Option<u32> {
        self.lists.back(list((level, Queue::Q1)))
    }

    /// Return the frame that is likely to be the victim after another one.
    #[inline]
    pub(super) fn before(&self, frame: u32) -> Option<u32> {
        self.lists.before(frame)
    }

    /// Asks the processor for the fields of a frame.
    #[inline]
    pub(super) fn prefetch_frame(&self, frame: u32) {
        self.lists.prefetch(frame);
    }

    /// Asks the processor for a frame and what the queues know of it.
    #[inline]
    pub(super) fn prefetch(&self, frame: u32) {
        self.prefetch_frame(frame);
        match Self::STRATEGY {
            Strategy::Demote => {}
            Strategy::Promote => self.bubble.prefetch(frame),
            Strategy::Hint => {
                self.bubble.prefetch(frame);
                self.by_value.prefetch(frame);
            }
        }
    }

    /// Return the frames of a queue, head first.
    pub(super) fn frames(&self, level: usize, queue: Queue) -> Vec<u32> {
        if self.sorts_q2 && queue == Queue::Q2 {
            let run = |&frame: &u32| self.frame(frame).run;
            let of_run = |newest: u32| {
                let next = |&frame: &u32| self.lists.after(frame);
                let rest = core::iter::successors(Some(newest), next);
                rest.take_while(move |frame| run(frame) == run(&newest))
            };
            return self.runs[level].newest().flat_map(of_run).collect();
        }
        self.lists.iter(list((level, queue))).collect()
    }

    /// Return the next page to leave a level: Q2's, unless that is empty.
    #[inline]
    pub(super) fn victim(&self, level: usize) -> Option<u32> {
        let of_q2 = match Self::STRATEGY {
            Strategy::Demote if self.sorts_q2 => self.runs[level].coldest().map(|(_, frame)| frame),
            Strategy::Demote | Strategy::Promote => self.lists.back(list((level, Queue::Q2))),
            Strategy::Hint => self.runs[level].coldest().map(|(_, frame)| frame),
        };
        of_q2.or_else(|| self.back_of_q1(level))
    }

    /// Return `true` if a page of this hotness would be the last one of a Q2 that is kept by hotness.
    #[inline]
    pub(super) fn is_coldest(&self, level: usize, hotness: f64) -> bool {
        self.runs[level].coldest().is_none_or(|(coldest, _)| hotness < coldest)
    }

    /// Return the fewest hits of a page in Q2, if it has a page.
    #[inline]
    pub(super) fn least_hits(&self, level: usize) -> Option<u32> {
        self.q2_hits[level].least()
    }

    /// Return the lowest hint value of a page in Q2, if it has a page.
    #[inline]
    pub(super) fn least_value(&self, level: usize) -> Option<f64> {
        self.runs[level].coldest().map(|(value, _)| value)
    }

    /// Return the number of steps spent so far on the order of each Q2 of D-HFA, for tests of the
    /// cost.
    #[cfg(test)]
    pub(super) fn steps(&self) -> u64 {
        self.runs.iter().map(Runs::steps).sum()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let runs: usize = self.runs.iter().map(Runs::memory_bytes).sum();
        let lists = self.lists.memory_bytes() + self.by_value.memory_bytes();
        let counts = self.q2_hits.iter().map(|hits| size_of_val(hits) + hits.memory_bytes());
        lists + runs + self.bubble.memory_bytes() + counts.sum::<usize>()
    }

    pub(super) fn assert_invariants(&self) {
        self.lists.assert_invariants();
        for level in 0..self.runs.len() {
            let q2_pages = self.len(level, Queue::Q2) as usize;
            if Self::STRATEGY == Strategy::Demote {
                if !self.sorts_q2 {
                    continue;
                }
                let frames = self.frames(level, Queue::Q2);
                assert_eq!(frames.len(), q2_pages, "each page of the second queue is in a run");
                let of_run = |frame| (frame, self.frame(frame).run, self.frame(frame).hotness);
                self.runs[level].assert_invariants(frames.into_iter().map(of_run));
                continue;
            }
            let q1 = self.frames(level, Queue::Q1).into_iter();
            self.bubble.assert_invariants(level, q1, |frame| self.frame(frame).hotness);
            let q2 = self.frames(level, Queue::Q2);
            self.q2_hits[level].assert_invariants(q2.iter().map(|&frame| self.frame(frame).hits));
            if Self::STRATEGY == Strategy::Hint {
                let newest = self.runs[level].newest();
                let of_run = |newest: u32| {
                    let next = |&frame: &u32| self.by_value.after(frame);
                    let run = *self.by_value.value(newest);
                    core::iter::successors(Some(newest), next)
                        .take_while(move |&frame| *self.by_value.value(frame) == run)
                        .map(move |frame| (frame, run))
                };
                let frames: Vec<(u32, u32)> = newest.flat_map(of_run).collect();
                assert_eq!(frames.len(), q2_pages, "each page of the second queue is in a run");
                let runs = &self.runs[level];
                runs.assert_invariants(
                    frames.into_iter().map(|(frame, run)| (frame, run, runs.value_of(run))),
                );
            }
        }
    }

    fn insert_behind(&mut self, level: usize, ahead: Option<u32>, frame: u32, hotness: f64) {
        self.bubble.insert(level, ahead, frame, hotness);
        match ahead {
            Some(ahead) => self.lists.insert_after(ahead, frame),
            None => self.lists.push_front(list((level, Queue::Q1)), frame),
        }
    }
}
