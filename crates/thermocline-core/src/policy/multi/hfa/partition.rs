//! What happens at set times: hints and hits expire, queues are resized and sorted.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, section 3.4,
//!   Algorithm 3.
//! * State: none of its own.
//! * Cost: amortised O(1) per access; O(n log n) per period if the queues are sorted anew, and
//!   O(n log h) for an oracle with h hints.
//! * Deviations: (1) "cold" is read as: no hit for T accesses and no hint that counts. Eq. 3 alone
//!   never returns to 0 after a hit, so the first queue could never shrink, but the paper's does.
//!   (2) Where the second queue borrows, nothing is moved to a first queue that grew: it may fill
//!   by itself.

use alloc::vec::Vec;

use super::queues::Queue;
use super::settings::Strategy;
use super::{Frame, Hfa};
use crate::Actions;

impl Hfa {
    /// Begins an access: time passes.
    pub(super) fn begin(&mut self) {
        self.now += 1;
        self.has_promoted = false;
        if self.now == self.period_end {
            self.begin_period();
        }
        while let Some(oldest) = self.recent.back(0) {
            let entry = self.frames[oldest as usize];
            if self.is_recent(&entry) {
                break;
            }
            self.recent.remove(oldest);
            let (level, _) = self.queues.place_of(oldest).expect("a recent hit is in a queue");
            self.review(level, entry.page);
        }
    }

    /// Ends an access: counts, and at the end of a period resizes and sorts.
    pub(super) fn end(&mut self, out: &mut Actions) {
        if self.now == self.next_sample {
            self.next_sample = self.now.saturating_add(self.settings.sample_interval);
            for (level, entry) in self.levels.iter_mut().enumerate() {
                entry.sample(self.queues.len(level, Queue::Q1));
            }
        }
        if self.now == self.period_end {
            self.period_end = self.now.saturating_add(self.settings.period);
            for level in 0..self.levels.len() {
                if self.settings.resorts {
                    self.resort(level);
                }
                if self.settings.is_dynamic {
                    self.levels[level].move_boundary();
                    self.move_surplus(level);
                    self.fit(level, out);
                }
            }
        }
    }

    /// Whether a page was hit within T accesses.
    #[inline]
    pub(super) fn is_recent(&self, entry: &Frame) -> bool {
        entry.last_hit > 0 && self.now - entry.last_hit <= self.settings.period
    }

    fn begin_period(&mut self) {
        self.period += 1;
        if self.future.is_some() {
            for frame in 0..self.frames.len() {
                let page = self.frames[frame].page;
                for level in 0..self.levels.len() {
                    self.review(level, page);
                }
            }
            return;
        }
        let mut expired = core::mem::take(&mut self.expired);
        for level in 0..self.levels.len() {
            expired.clear();
            self.levels[level].hints.begin_period(self.period, |page| expired.push(page));
            for &page in &expired {
                self.review(level, page);
            }
        }
        self.expired = expired;
    }

    /// Moves pages between the queues of a level until both keep to their sizes, if they must.
    fn move_surplus(&mut self, level: usize) {
        let q1_capacity_pages = self.levels[level].q1_capacity_pages;
        while self.queues.len(level, Queue::Q1) > q1_capacity_pages {
            let tail = self.queues.back(level, Queue::Q1).expect("it has too many pages");
            self.take(tail);
            self.put((level, Queue::Q2), tail);
        }
        let room = q1_capacity_pages - self.queues.len(level, Queue::Q1);
        let q2_capacity_pages = self.levels[level].q2_capacity_pages();
        let surplus = self.queues.len(level, Queue::Q2).saturating_sub(q2_capacity_pages);
        let moved = if self.settings.is_strict { surplus.min(room) } else { 0 };
        if moved == 0 {
            return;
        }
        for frame in self.hottest_first(level, Queue::Q2).into_iter().take(moved as usize) {
            if self.settings.strategy == Strategy::Demote {
                self.take(frame);
                self.queues.push_to_tail_of_q1(level, frame);
                if self.frames[frame as usize].is_hot {
                    self.levels[level].add_hot(Queue::Q1);
                }
            } else {
                self.take(frame);
                self.put((level, Queue::Q1), frame);
            }
        }
    }

    /// Looks up the hotness of every page of a level anew, and sorts the queue that is kept by it.
    fn resort(&mut self, level: usize) {
        for queue in [Queue::Q1, Queue::Q2] {
            let frames: Vec<u32> = self.queues.iter(level, queue).collect();
            for &frame in frames.iter().rev() {
                let page = self.frames[frame as usize].page;
                self.frames[frame as usize].frequency = self.frequency(level, page);
                self.frames[frame as usize].updated = self.now;
            }
            let is_sorted = (self.settings.strategy == Strategy::Demote) == (queue == Queue::Q2);
            if !is_sorted {
                for frame in frames {
                    self.queues.set_hotness(frame, self.hotness_of(frame));
                }
                continue;
            }
            for &frame in &frames {
                self.take(frame);
                self.queues.set_hotness(frame, self.hotness_of(frame));
            }
            for frame in
                sorted_by_hotness(frames, |frame| self.queues.hotness(frame)).into_iter().rev()
            {
                self.put((level, queue), frame);
            }
        }
    }

    fn hottest_first(&self, level: usize, queue: Queue) -> Vec<u32> {
        let frames = self.queues.iter(level, queue).collect();
        sorted_by_hotness(frames, |frame| self.queues.hotness(frame))
    }
}

/// The hottest first; those that are equally hot keep their order.
fn sorted_by_hotness(mut frames: Vec<u32>, hotness_of: impl Fn(u32) -> f64) -> Vec<u32> {
    frames.sort_by(|&one, &other| hotness_of(other).total_cmp(&hotness_of(one)));
    frames
}
