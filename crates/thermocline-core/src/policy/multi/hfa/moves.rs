//! How pages move: hits, misses, demotions, promotions.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, Algorithms 1, 2 and
//!   4 to 6.
//! * State: none of its own.
//! * Cost: per page that moves, O(log n) for its queues and O(k) for its hints.
//! * Deviations: (1) Algorithm 2 promotes for a demotion, whose victim may do so again: once per
//!   access at most, or two tiers could exchange pages for ever. (2) "Cache miss in Q2" of
//!   Algorithm 5 is read as a miss in both queues, and pages of Q1 may be promoted, or hot pages
//!   would stay low. (3) A page that leaves the last tier is not hinted: there is no tier to take
//!   a hint.

use super::hint_table::Heads;
use super::history::Move;
use super::queues::{Merit, Place, Queue};
use super::settings::Strategy;
use super::{ABSENT, Frame, Hfa};
use crate::prefetch::prefetch;
use crate::random::Draws;
use crate::{Access, Actions, Op, PageId, Tier, WriteMiss};

/// Where a page comes from when a tier receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

impl Hfa {
    pub(super) fn hit(&mut self, access: Access, frame: u32, place: Place, out: &mut Actions) {
        let level = place.0;
        match self.settings.strategy {
            _ if level == 0 => {}
            Strategy::Demote => {
                let carried = self.leave(frame, Move::Promote);
                self.bring(access, frame, Some(level), 0, out);
                return self.receive(0, frame, carried, Way::Up, out);
            }
            Strategy::Promote => {
                if self.random.unit() < self.levels[level].promotion.probability() {
                    let carried = self.leave(frame, Move::Promote);
                    return self.settle(access, frame, Some(level), carried, out);
                }
            }
            Strategy::Hint => {
                if self.is_promoted(access.page, level) {
                    let carried = self.leave(frame, Move::Promote);
                    self.bring(access, frame, Some(level), level - 1, out);
                    return self.receive(level - 1, frame, carried, Way::Up, out);
                }
            }
        }
        self.bring(access, frame, Some(level), level, out);
        self.stay(frame, place, out);
    }

    pub(super) fn miss(&mut self, access: Access, out: &mut Actions) {
        let frame = self.free.pop().unwrap_or_else(|| {
            self.frames.push(Frame::default());
            u32::try_from(self.frames.len() - 1).expect("at most one frame per page")
        });
        self.frames[frame as usize] = Frame { page: access.page, ..Frame::default() };
        self.set_frame_of(access.page, frame);
        if self.settings.strategy == Strategy::Promote {
            self.settle(access, frame, None, 0.0, out);
        } else {
            self.bring(access, frame, None, 0, out);
            self.receive(0, frame, 0.0, Way::Up, out);
        }
    }

    /// Moves pages out of a level until it fits.
    pub(super) fn fit(&mut self, level: usize, out: &mut Actions) {
        loop {
            let [q1, q2] = [Queue::Q1, Queue::Q2].map(|queue| self.queues.len(level, queue));
            let is_strict = self.settings.is_strict;
            let is_q2_full = is_strict && q2 > self.levels[level].q2_capacity_pages();
            if q1 + q2 <= self.levels[level].capacity_pages && !is_q2_full {
                break;
            }
            let victim = self.queues.victim(level).expect("an over-full level has a page");
            self.demote(victim, out);
        }
    }

    /// Puts a frame into a queue, with its hotness as stored.
    pub(super) fn put(&mut self, place: Place, frame: u32) {
        let Frame { page, hits, is_hot, .. } = self.frames[frame as usize];
        let value = self.history.as_ref().map_or(0.0, |history| history.value(page));
        let hotness = self.queues.hotness(frame);
        self.queues.insert(place, frame, hotness, Merit { hits, value });
        if is_hot {
            self.levels[place.0].add_hot(place.1);
        }
    }

    /// Takes a frame out of its queue.
    pub(super) fn take(&mut self, frame: u32) -> Place {
        let place = self.queues.remove(frame);
        if self.frames[frame as usize].is_hot {
            self.levels[place.0].remove_hot(place.1);
        }
        place
    }

    /// The hints of a page at a level that count, weighted (Eq. 2).
    pub(super) fn frequency(&self, index: usize, page: PageId) -> f64 {
        let level = &self.levels[index];
        let weights = &self.settings.weights;
        // A sum of nothing would be -0, whose bits are not those of the least hotness.
        let add =
            |sum: f64, (distance, times): (usize, u32)| sum + weights[distance] * f64::from(times);
        match &self.future {
            Some(log) => {
                let hints = log.of(level.tier, page, self.horizon());
                hints.map(|(period, times)| (self.periods_ahead(period), times)).fold(0.0, add)
            }
            None => level.hints.hints(self.newest_hint(index, page)).fold(0.0, add),
        }
    }

    /// Whether a page has a hint at a level that counts.
    pub(super) fn is_live(&self, index: usize, page: PageId) -> bool {
        let level = &self.levels[index];
        match &self.future {
            Some(log) => log.of(level.tier, page, self.horizon()).next().is_some(),
            None => level.hints.is_live(self.newest_hint(index, page)),
        }
    }

    /// Says whether a page of a level is hot, as it stands.
    pub(super) fn review(&mut self, level: usize, page: PageId) {
        let frame = self.frame_of(page);
        if frame == ABSENT {
            return;
        }
        if let Some((at, queue)) = self.queues.place_of(frame)
            && at == level
        {
            let is_recent = self.is_recent(&self.frames[frame as usize]);
            let is_hot = is_recent || self.is_live(level, page);
            let was_hot = core::mem::replace(&mut self.frames[frame as usize].is_hot, is_hot);
            match (was_hot, is_hot) {
                (false, true) => self.levels[level].add_hot(queue),
                (true, false) => self.levels[level].remove_hot(queue),
                (true, true) | (false, false) => {}
            }
        }
    }

    /// The periods whose hints an oracle counts.
    fn horizon(&self) -> core::ops::Range<u64> {
        self.period..self.period.saturating_add(u64::from(self.settings.k))
    }

    /// The newest record of a page in the table of a level.
    fn newest_hint(&self, level: usize, page: PageId) -> u32 {
        self.cells[self.row_of(page) + level + 1]
    }

    /// How many periods ahead a period is that an oracle counts.
    fn periods_ahead(&self, period: u64) -> usize {
        usize::try_from(period - self.period).expect("less than k")
    }

    /// Brings the accessed page to the level that it is served from, and serves it.
    fn bring(
        &mut self,
        Access { page, op }: Access,
        frame: u32,
        found: Option<usize>,
        target: usize,
        out: &mut Actions,
    ) {
        let source = found.map_or(self.disk, |level| self.levels[level].tier);
        let tier = self.levels[target].tier;
        if source != tier {
            if found.is_some() || op == Op::Read || self.write_miss == WriteMiss::Fetch {
                out.copy(page, source, tier);
            }
            if found.is_some() {
                out.drop_copy(page, source);
            }
        }
        out.serve(page, op, source, tier);
        if op == Op::Write {
            self.frames[frame as usize].is_dirty = self.settings.writes_back;
            if !self.settings.writes_back {
                out.copy(page, tier, self.disk);
            }
        }
    }

    /// A hit that moves the page to no other tier.
    fn stay(&mut self, frame: u32, (level, queue): Place, out: &mut Actions) {
        let hotness = self.refresh(frame, level);
        match queue {
            Queue::Q1 => self.queues.hit_in_q1(level, frame, hotness),
            Queue::Q2 => {
                self.take(frame);
                self.queues.set_hotness(frame, hotness);
                self.put((level, Queue::Q1), frame);
                self.overflow_q1(level, out);
                self.fit(level, out);
            }
        }
    }

    /// Counts a hit and says how hot the page is now (Eq. 3), with its hints as last looked up if
    /// that was within T (lazy update).
    fn refresh(&mut self, frame: u32, level: usize) -> f64 {
        let now = self.now;
        let entry = self.frames[frame as usize];
        let (page, updated, was_recent) = (entry.page, entry.updated, self.is_recent(&entry));
        if now - updated > self.settings.period {
            self.frames[frame as usize].frequency = self.frequency(level, page);
        }
        let entry = &mut self.frames[frame as usize];
        entry.hits = entry.hits.saturating_add(1);
        (entry.updated, entry.last_hit) = (now, now);
        if was_recent {
            self.recent.move_to_front(frame);
        } else {
            self.recent.push_front(0, frame);
        }
        if let Some(ages) = &mut self.ages {
            ages.move_to_front(frame);
        }
        self.review(level, page);
        self.hotness_of(frame)
    }

    /// Eq. 3 with the frame's fields.
    pub(super) fn hotness_of(&self, frame: u32) -> f64 {
        let Frame { hits, loaded, frequency, .. } = self.frames[frame as usize];
        let resident = (self.now - loaded).max(1);
        self.settings.hint_hotness(frequency) + f64::from(hits) / resident as f64
    }

    /// Moves the tail of Q1 elsewhere if Q1 has too many pages (Algorithm 1).
    fn overflow_q1(&mut self, level: usize, out: &mut Actions) {
        let q1_pages = self.queues.len(level, Queue::Q1);
        if q1_pages <= self.levels[level].q1_capacity_pages {
            return;
        }
        let tail = self.queues.back(level, Queue::Q1).expect("an over-full queue has a page");
        let is_kept = match self.settings.strategy {
            Strategy::Demote => !self.settings.overflow_demotes,
            Strategy::Promote | Strategy::Hint => {
                let q2_pages = self.queues.len(level, Queue::Q2);
                let has_room = if self.settings.is_strict {
                    q2_pages < self.levels[level].q2_capacity_pages()
                } else {
                    q1_pages + q2_pages <= self.levels[level].capacity_pages
                };
                let hits = self.frames[tail as usize].hits;
                has_room || self.queues.least_hits(level).is_some_and(|least| hits > least)
            }
        };
        if is_kept {
            self.take(tail);
            self.put((level, Queue::Q2), tail);
        } else {
            self.demote(tail, out);
        }
    }

    /// Moves a page one tier down, or discards it: below the last tier, and where nothing is
    /// demoted.
    fn demote(&mut self, frame: u32, out: &mut Actions) {
        let (level, _) = self.queues.place_of(frame).expect("a victim is in a queue");
        self.foresee(frame);
        let page = self.frames[frame as usize].page;
        let source = self.levels[level].tier;
        if level + 1 == self.levels.len() || self.settings.strategy == Strategy::Promote {
            self.detach(frame);
            if self.frames[frame as usize].is_dirty {
                out.copy(page, source, self.disk);
            }
            out.drop_copy(page, source);
            self.set_frame_of(page, ABSENT);
            self.free.push(frame);
            return;
        }
        let carried = self.leave(frame, Move::Demote);
        out.copy(page, source, self.levels[level + 1].tier);
        out.drop_copy(page, source);
        self.receive(level + 1, frame, carried, Way::Down, out);
    }

    /// Asks the processor for what the next victims will need: each is a page of long ago.
    fn foresee(&self, victim: u32) {
        let Some(next) = self.queues.before(victim) else { return };
        prefetch(&self.cells, self.row_of(self.frames[next as usize].page));
        if let Some(then) = self.queues.before(next) {
            prefetch(&self.frames, then as usize);
            self.queues.prefetch(then);
        }
    }

    /// Takes a frame out of its level, with a hint, and returns the frequency that it carries.
    fn leave(&mut self, frame: u32, way: Move) -> f64 {
        let page = self.frames[frame as usize].page;
        let (level, _) = self.detach(frame);
        if let Some(history) = &mut self.history {
            history.add(page, way);
        }
        self.hint(level, page);
        self.frequency(level, page)
    }

    /// Takes a frame out of its level.
    fn detach(&mut self, frame: u32) -> Place {
        let place = self.take(frame);
        self.frames[frame as usize].is_hot = false;
        if self.is_recent(&self.frames[frame as usize]) {
            self.recent.remove(frame);
        }
        if let Some(ages) = &mut self.ages {
            ages.remove(frame);
        }
        place
    }

    /// Records that a page leaves, or passes, a level.
    fn hint(&mut self, level: usize, page: PageId) {
        if let Some(log) = &mut self.log {
            log.add(self.levels[level].tier, page, self.period, 1);
        }
        if self.future.is_some() {
            return;
        }
        let mut forgotten = None;
        let stride = self.levels.len() + 1;
        let mut heads = Heads { cells: &mut self.cells, stride, column: level + 1 };
        self.levels[level].hints.record(&mut heads, page, |page| forgotten = Some(page));
        if let Some(page) = forgotten {
            self.review(level, page);
            if let Some(next) = self.levels[level].hints.next_forgotten() {
                prefetch(&self.cells, self.row_of(next));
            }
        }
    }

    /// A level receives a page that no queue holds, and hands on what it has no room for.
    fn receive(&mut self, level: usize, frame: u32, carried: f64, way: Way, out: &mut Actions) {
        let frequency = self.arrive(level, frame, carried);
        let page = self.frames[frame as usize].page;
        let enters_q1 = match self.settings.strategy {
            Strategy::Demote if level == 0 && !self.settings.miss_to_q1 => false,
            Strategy::Demote | Strategy::Promote => frequency > self.settings.f_min,
            Strategy::Hint => self.is_live(level, page),
        };
        if enters_q1 {
            self.put((level, Queue::Q1), frame);
            self.overflow_q1(level, out);
        } else {
            self.put((level, Queue::Q2), frame);
        }
        self.fit(level, out);
        if self.settings.strategy == Strategy::Hint && way == Way::Down {
            self.promote_head(level, frame, out);
        }
    }

    /// Algorithm 2: a page that was demoted into Q1 wakes the promotion of a hotter one there.
    fn promote_head(&mut self, level: usize, frame: u32, out: &mut Actions) {
        if self.has_promoted || self.queues.place_of(frame) != Some((level, Queue::Q1)) {
            return;
        }
        let head = self.queues.front(level, Queue::Q1).expect("the frame is in this queue");
        if self.queues.hotness(head) <= self.queues.hotness(frame) {
            return;
        }
        self.has_promoted = true;
        let page = self.frames[head as usize].page;
        let carried = self.leave(head, Move::Promote);
        out.copy(page, self.levels[level].tier, self.levels[level - 1].tier);
        out.drop_copy(page, self.levels[level].tier);
        self.receive(level - 1, head, carried, Way::Up, out);
    }

    /// Begins a page's stay at a level, and returns its hint frequency there.
    fn arrive(&mut self, level: usize, frame: u32, carried: f64) -> f64 {
        let Frame { page, is_dirty, .. } = self.frames[frame as usize];
        let frequency = self.frequency(level, page).max(carried);
        self.frames[frame as usize] = Frame {
            page,
            is_dirty,
            frequency,
            hits: 0,
            loaded: self.now,
            updated: self.now,
            last_hit: 0,
            is_hot: self.is_live(level, page),
        };
        if let Some(ages) = &mut self.ages {
            ages.push_front(u32::try_from(level).expect("few levels"), frame);
        }
        self.queues.set_hotness(frame, self.settings.hint_hotness(frequency));
        frequency
    }

    /// P-HFA: lets a page rise until a tier keeps it (Algorithm 5), and serves it there.
    fn settle(
        &mut self,
        access: Access,
        frame: u32,
        found: Option<usize>,
        mut carried: f64,
        out: &mut Actions,
    ) {
        let mut level = found.unwrap_or(self.levels.len()) - 1;
        while level > 0
            && self.frequency(level, access.page).max(carried) <= self.settings.f_min
            && self.random.unit() < self.levels[level].promotion.probability()
        {
            self.hint(level, access.page);
            carried = self.frequency(level, access.page);
            level -= 1;
        }
        self.bring(access, frame, found, level, out);
        self.receive(level, frame, carried, Way::Up, out);
    }

    /// H-HFA: whether a page that was hit moves up (Algorithm 6).
    fn is_promoted(&self, page: PageId, level: usize) -> bool {
        let above = level - 1;
        let [q1, q2] = [Queue::Q1, Queue::Q2].map(|queue| self.queues.len(above, queue));
        if q1 + q2 < self.levels[above].capacity_pages {
            return true;
        }
        let value = self.history.as_ref().map_or(0.0, |history| history.value(page));
        self.queues.least_value(above).is_some_and(|least| value > least)
    }

    pub(super) fn tier_of(&self, frame: u32) -> Tier {
        let (level, _) = self.queues.place_of(frame).expect("the frame holds a page");
        self.levels[level].tier
    }
}
