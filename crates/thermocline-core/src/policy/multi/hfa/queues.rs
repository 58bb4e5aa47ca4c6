//! The two queues of every tier, and who leaves them next.
//!
//! Frames are places for pages; each is in at most one queue. D-HFA keeps Q1 by recency and Q2 by
//! hotness, P-HFA and H-HFA keep Q1 by hotness, with places that a hit moves forward, and Q2 by
//! recency.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, section 3.2.2.
//! * State: 20 bytes per frame; 32 more for P-HFA and H-HFA, and heaps of 8 to 28 per page in Q2.
//! * Cost: O(log n) per change.
//! * Deviations: none.

use alloc::vec;
use alloc::vec::Vec;

use super::bubble::Bubble;
use super::runs::Runs;
use super::settings::Strategy;
use crate::prefetch::prefetch;
use crate::queue::{IndexedHeap, Lists};

/// One of the queues of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// The protected one.
    Q1 = 0,
    /// The other one.
    Q2 = 1,
}

/// Where a frame is: its level, and the queue there.
pub(super) type Place = (usize, Queue);

/// What decides about a page of Q2 besides its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merit {
    /// Hits since it was loaded.
    pub(super) hits: u32,
    /// Its K-step hint value.
    pub(super) value: f64,
}

/// All queues.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    strategy: Strategy,
    lists: Lists,
    /// Per frame: its stored hotness.
    hotness: Vec<f64>,
    /// Per level: the runs of Q2; D-HFA only.
    runs: Vec<Runs>,
    /// The places of Q1; P-HFA and H-HFA only.
    bubble: Bubble,
    /// Per level: the pages of Q2 by hits; P-HFA and H-HFA only.
    by_hits: Vec<IndexedHeap<u32>>,
    /// Per level: the pages of Q2 by hint value, then by age; H-HFA only.
    by_value: Vec<IndexedHeap<(u64, u64)>>,
    /// How many pages ever entered a Q2.
    entries: u64,
}

fn list(place: Place) -> u32 {
    u32::try_from(place.0).expect("a hierarchy has few tiers") * 2 + place.1 as u32
}

impl Queues {
    pub(super) fn new(strategy: Strategy, frames: u32, levels: usize) -> Self {
        let frames_if = |is_needed: bool| if is_needed { frames } else { 0 };
        let moves_in_place = strategy != Strategy::Demote;
        let lists = u32::try_from(levels).expect("a hierarchy has few tiers") * 2;
        let heap_frames = frames_if(moves_in_place);
        let value_frames = frames_if(strategy == Strategy::Hint);
        Self {
            strategy,
            lists: Lists::new(frames, lists),
            hotness: vec![0.0; frames as usize],
            runs: vec![Runs::default(); levels],
            bubble: Bubble::new(frames_if(moves_in_place), levels),
            by_hits: (0..levels).map(|_| IndexedHeap::new(heap_frames)).collect(),
            by_value: (0..levels).map(|_| IndexedHeap::new(value_frames)).collect(),
            entries: 0,
        }
    }

    /// Puts a frame that is in no queue where its queue's order wants it.
    pub(super) fn insert(&mut self, place: Place, frame: u32, hotness: f64, merit: Merit) {
        self.hotness[frame as usize] = hotness;
        let (level, list) = (place.0, list(place));
        match (self.strategy, place.1) {
            (Strategy::Demote, Queue::Q2) => {
                let hotness = &self.hotness;
                self.runs[level]
                    .insert(&mut self.lists, list, frame, |frame| hotness[frame as usize]);
            }
            (Strategy::Promote | Strategy::Hint, Queue::Q1) => {
                let ahead = self.bubble.last_hotter(level, hotness);
                self.insert_behind(level, ahead, frame, hotness);
            }
            (Strategy::Demote, Queue::Q1) => self.lists.push_front(list, frame),
            (Strategy::Promote | Strategy::Hint, Queue::Q2) => {
                self.lists.push_front(list, frame);
                self.by_hits[level].set(frame, merit.hits);
                if self.strategy == Strategy::Hint {
                    self.entries += 1;
                    self.by_value[level].set(frame, (merit.value.to_bits(), self.entries));
                }
            }
        }
    }

    /// Takes a frame out of its queue.
    pub(super) fn remove(&mut self, frame: u32) -> Place {
        let place = self.place_of(frame).expect("the frame is in a queue");
        match (self.strategy, place.1) {
            (Strategy::Demote, Queue::Q2) => {
                let hotness = &self.hotness;
                let hotness_of = |frame: u32| hotness[frame as usize];
                self.runs[place.0].remove(&mut self.lists, frame, hotness_of);
                return place;
            }
            (Strategy::Promote | Strategy::Hint, Queue::Q1) => self.bubble.remove(place.0, frame),
            (Strategy::Demote, Queue::Q1) => {}
            (Strategy::Promote | Strategy::Hint, Queue::Q2) => {
                self.by_hits[place.0].remove(frame);
                if self.strategy == Strategy::Hint {
                    self.by_value[place.0].remove(frame);
                }
            }
        }
        self.lists.remove(frame);
        place
    }

    /// Gives a page of Q1 that was hit its new hotness and place.
    pub(super) fn hit_in_q1(&mut self, level: usize, frame: u32, hotness: f64) {
        self.hotness[frame as usize] = hotness;
        if self.strategy == Strategy::Demote {
            self.lists.move_to_front(frame);
            return;
        }
        let ahead = self.bubble.last_hotter_ahead(frame, hotness);
        self.bubble.remove(level, frame);
        self.lists.remove(frame);
        self.insert_behind(level, ahead, frame, hotness);
    }

    /// Puts a frame at the tail of a queue that is kept by recency.
    pub(super) fn push_to_tail_of_q1(&mut self, level: usize, frame: u32) {
        debug_assert_eq!(self.strategy, Strategy::Demote, "its first queue is kept by recency");
        self.lists.push_back(list((level, Queue::Q1)), frame);
    }

    pub(super) fn place_of(&self, frame: u32) -> Option<Place> {
        let list = self.lists.list_of(frame)?;
        Some(((list / 2) as usize, if list.is_multiple_of(2) { Queue::Q1 } else { Queue::Q2 }))
    }

    pub(super) fn hotness(&self, frame: u32) -> f64 {
        self.hotness[frame as usize]
    }

    /// Gives a frame that is in no queue, or in one that is not kept by hotness, its hotness.
    pub(super) fn set_hotness(&mut self, frame: u32, hotness: f64) {
        self.hotness[frame as usize] = hotness;
    }

    pub(super) fn len(&self, level: usize, queue: Queue) -> u32 {
        self.lists.len(list((level, queue)))
    }

    pub(super) fn front(&self, level: usize, queue: Queue) -> Option<u32> {
        self.lists.front(list((level, queue)))
    }

    pub(super) fn back(&self, level: usize, queue: Queue) -> Option<u32> {
        self.lists.back(list((level, queue)))
    }

    /// The frame ahead of another one in its queue.
    pub(super) fn before(&self, frame: u32) -> Option<u32> {
        self.lists.before(frame)
    }

    /// Asks the processor for the links and the hotness of a frame.
    pub(super) fn prefetch(&self, frame: u32) {
        self.lists.prefetch(frame);
        prefetch(&self.hotness, frame as usize);
    }

    /// The frames of a queue, head first.
    pub(super) fn iter(&self, level: usize, queue: Queue) -> impl Iterator<Item = u32> + '_ {
        self.lists.iter(list((level, queue)))
    }

    /// The next page to leave a level: Q2's, unless that is empty.
    pub(super) fn victim(&self, level: usize) -> Option<u32> {
        let of_q2 = match self.strategy {
            Strategy::Demote | Strategy::Promote => self.back(level, Queue::Q2),
            Strategy::Hint => self.by_value[level].least().map(|(_, frame)| frame),
        };
        of_q2.or_else(|| self.back(level, Queue::Q1))
    }

    /// The fewest hits of a page in Q2, if it has a page.
    pub(super) fn least_hits(&self, level: usize) -> Option<u32> {
        self.by_hits[level].least().map(|(hits, _)| hits)
    }

    /// The lowest hint value of a page in Q2, if it has a page.
    pub(super) fn least_value(&self, level: usize) -> Option<f64> {
        self.by_value[level].least().map(|((bits, _), _)| f64::from_bits(bits))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let runs: usize = self.runs.iter().map(|runs| runs.len() * 16).sum();
        let heaps: usize = self.by_hits.iter().map(IndexedHeap::memory_bytes).sum();
        let values: usize = self.by_value.iter().map(IndexedHeap::memory_bytes).sum();
        let bubble = self.bubble.memory_bytes();
        self.lists.memory_bytes() + size_of_val(&*self.hotness) + runs + bubble + heaps + values
    }

    pub(super) fn assert_invariants(&self) {
        self.lists.assert_invariants();
        for level in 0..self.runs.len() {
            let hotness_of = |frame| self.hotness(frame);
            let q2_pages = self.len(level, Queue::Q2) as usize;
            if self.strategy == Strategy::Demote {
                self.runs[level].assert_invariants(
                    &self.lists,
                    list((level, Queue::Q2)),
                    hotness_of,
                );
                continue;
            }
            self.bubble.assert_invariants(level, self.iter(level, Queue::Q1), hotness_of);
            assert_eq!(self.by_hits[level].len(), q2_pages, "the second queue is known by hits");
            self.by_hits[level].assert_invariants();
            if self.strategy == Strategy::Hint {
                assert_eq!(self.by_value[level].len(), q2_pages, "and by hint values");
                self.by_value[level].assert_invariants();
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
