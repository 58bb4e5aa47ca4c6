//! Moves of pages: hits, misses, demotions, promotions.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, Algorithms 1, 2 and
//!   4 to 6.
//! * State: none of its own.
//! * Cost: per page that moves, O(log n) for its queues and O(k) for its hints.
//! * Deviations: (1) "Cache miss in Q2" of Algorithm 5 is read as a miss in both queues, and pages of Q1 may
//!   be promoted, or hot pages would stay low. (2) A page that leaves the last tier is not hinted: there is
//!   no tier to take a hint.

use super::by_value::carried;
use super::history::Move;
use super::queues::{Frame, Place, Queue};
use super::settings::Strategy;
use super::{ABSENT, Hfa, Part};
use crate::action::Sink;
use crate::random::Draws;
use crate::{Access, Clients, Op, PageId, Tier};

/// Origin of a page that a tier receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Up,
    Down,
}

impl<const STRATEGY: u8> Hfa<STRATEGY> {
    #[inline]
    pub(super) fn hit(&mut self, access: Access, frame: u32, place: Place, out: &mut impl Sink) {
        let level = place.0;
        match Self::STRATEGY {
            _ if self.is_top(level) => {}
            Strategy::Demote => {
                // Algorithm 4, lines 1 and 2: for the top tier this is a miss that a lower cache
                // serves, so the page enters Q2 there. Lines 5 to 8 are for hits in the top tier.
                let carried = self.leave(frame, Move::Promote);
                let top = self.client.into();
                self.bring(access, frame, Some(level), top, out);
                return self.receive(top, frame, carried, Way::Up, out);
            }
            Strategy::Promote => {
                // P-HFA, Algorithm 5: the page rises with a probability, else it stays. Pages of Q1
                // may rise too: deviation (1).
                if self.random.unit() < self.levels[self.above(level)].promotion.probability() {
                    let carried = self.leave(frame, Move::Promote);
                    // The hint is given before the page passes further tiers: each tier that it
                    // leaves or passes has one (Algorithm 5, "update T_out").
                    return self.settle(access, frame, Some(level), carried, out);
                }
            }
            Strategy::Hint => {
                // H-HFA, Algorithm 6: the page rises by one level if it is worth more than the
                // least page of Q2 there.
                if self.is_promoted(access.page, level) {
                    let carried = self.leave(frame, Move::Promote);
                    let above = self.above(level);
                    self.bring(access, frame, Some(level), above, out);
                    return self.receive(above, frame, carried, Way::Up, out);
                }
            }
        }
        self.bring(access, frame, Some(level), level, out);
        self.stay(frame, place, out);
    }

    #[inline]
    pub(super) fn miss(&mut self, access: Access, out: &mut impl Sink) {
        let frame = self.enter(access.page);
        if Self::STRATEGY == Strategy::Promote {
            // From the disk, a page meets the lowest tier first, as a block that Promote sends up.
            self.settle(access, frame, None, 0.0, out);
        } else {
            let top = self.client.into();
            self.bring(access, frame, None, top, out);
            self.receive(top, frame, 0.0, Way::Up, out);
        }
    }

    /// Give a page a frame that is cached nowhere here.
    #[inline]
    pub(super) fn enter(&mut self, page: PageId) -> u32 {
        let frame = self.free.pop().unwrap_or_else(|| {
            self.used_frames += 1;
            self.used_frames - 1
        });
        let levels = &self.levels;
        self.cells.enter(page, |level, page, newest| levels[level].hints.is_live(page, newest));
        *self.queues.frame_mut(frame) = Frame::new(page);
        self.set_frame_of(page, frame);
        if Self::STRATEGY == Strategy::Hint
            && let Some(history) = &mut self.history
        {
            // The moves of a page outlive its stay in the caches, as a ghost: Hint-K knows a page
            // that returns.
            history.enter(page);
        }
        frame
    }

    /// Moves pages out of a level until it fits.
    #[inline]
    pub(super) fn fit(&mut self, level: usize, out: &mut impl Sink) {
        while !self.has_room(level, 0) {
            let victim = self.queues.victim(level).expect("an over-full level has a page");
            self.demote(victim, out);
        }
    }

    /// Puts a frame into a queue, with its hotness as stored.
    #[inline]
    pub(super) fn put(&mut self, place: Place, frame: u32) {
        let Frame { page, is_hot, .. } = *self.queues.frame(frame);
        self.queues.insert(place, frame, self.value(page));
        self.set_frame_at(place.0, page, frame);
        self.levels[place.0].add_hot(place.1, u32::from(is_hot));
    }

    /// Takes a frame out of its queue.
    #[inline]
    pub(super) fn take(&mut self, frame: u32) -> Place {
        let place = self.queues.remove(frame);
        let Frame { page, is_hot, .. } = *self.queues.frame(frame);
        self.set_frame_at(place.0, page, ABSENT);
        self.levels[place.0].remove_hot(place.1, u32::from(is_hot));
        place
    }

    /// Return the hints of a page at a level that count, weighted (Eq. 2), and whether there is
    /// one.
    #[inline]
    pub(super) fn look_up(&self, index: usize, page: PageId) -> (f64, bool) {
        match &self.future {
            Some(log) if Self::STRATEGY == Strategy::Hint => {
                let hints = log.of(self.levels[index].tier, page, self.horizon());
                // Deviation (10): the oracle weighs hints of the k periods to come as Eq. 2 weighs
                // those of the k periods past.
                let weigh = |(sum, _), (period, times)| {
                    (
                        sum + self.settings.weights[self.periods_ahead(period)] * f64::from(times),
                        true,
                    )
                };
                hints.fold((0.0, false), weigh)
            }
            _ => self.weigh_records(index, page, self.newest_hint(index, page)),
        }
    }

    /// Return `true` if a page has a hint at a level that counts.
    pub(super) fn is_live(&self, index: usize, page: PageId) -> bool {
        self.look_up(index, page).1
    }

    /// Update the record of a page's hotness: hot or cold at present.
    pub(super) fn review(&mut self, level: usize, frame: u32) {
        let (_, queue) = self.queues.place_of(frame).expect("a page that is known is in a queue");
        let entry = *self.queues.frame(frame);
        // Section 3.4 calls H = 0 cold. Eq. 3 is 0 only without hints that count and without hits.
        let is_hot = self.is_recent(&entry) || self.is_live(level, entry.page);
        self.queues.frame_mut(frame).is_hot = is_hot;
        match (entry.is_hot, is_hot) {
            (false, true) => self.levels[level].add_hot(queue, 1),
            (true, false) => self.levels[level].remove_hot(queue, 1),
            (true, true) | (false, false) => {}
        }
    }

    /// Return the hints of a page with this newest record.
    #[inline]
    pub(super) fn weigh_records(&self, level: usize, page: PageId, newest: u32) -> (f64, bool) {
        self.levels[level].hints.weigh(page, newest, &self.settings.weights)
    }

    /// Return the periods whose hints an oracle counts.
    fn horizon(&self) -> core::ops::Range<u64> {
        self.period..self.period.saturating_add(u64::from(self.settings.k))
    }

    /// Return the newest record of a page in the table of a level.
    #[inline]
    pub(super) fn newest_hint(&self, level: usize, page: PageId) -> u32 {
        self.cells.newest_hint(level, page)
    }

    /// Return how many periods ahead a period is that an oracle counts.
    fn periods_ahead(&self, period: u64) -> usize {
        usize::try_from(period - self.period).expect("less than k")
    }

    /// Brings the accessed page to the level that it is served from, and serves it.
    #[inline]
    fn bring(
        &mut self,
        Access { page, op, .. }: Access,
        frame: u32,
        found: Option<usize>,
        target: usize,
        out: &mut impl Sink,
    ) {
        let source = found.map_or(self.disk, |level| self.levels[level].tier);
        let tier = self.levels[target].tier;
        if source != tier {
            let is_fetched = self.write_miss.fetches(op);
            out.copy_if(found.is_some() || is_fetched, page, source, tier);
            if found.is_some() {
                out.drop_copy(page, source);
            }
        }
        out.serve(page, op, source, tier);
        // No branch depends on the operation, which cannot be predicted.
        let is_write = op == Op::Write;
        self.queues.frame_mut(frame).is_dirty |= is_write & self.settings.writes_back;
        out.copy_if(is_write && !self.settings.writes_back, page, tier, self.disk);
        if self.clients != Clients::ONE && is_write && self.is_top(target) {
            // P-HFA: what came to the shared tiers on another path is renewed on the way to disk.
            let shared = self.frame_at(self.levels.len(), page);
            if shared != ABSENT {
                out.copy(page, tier, self.tier_of(shared));
            }
        }
    }

    /// Handle a hit that moves the page to no other tier.
    #[inline]
    fn stay(&mut self, frame: u32, (level, queue): Place, out: &mut impl Sink) {
        let hotness = self.refresh(frame, (level, queue));
        match queue {
            // D-HFA moves it to the head (Algorithm 4, line 5), the others past all pages that are
            // not hotter (Algorithm 1, lines 12 to 14).
            Queue::Q1 => self.queues.hit_in_q1(level, frame, hotness),
            Queue::Q2 => {
                self.take(frame);
                self.queues.frame_mut(frame).hotness = hotness;
                if Self::STRATEGY == Strategy::Demote {
                    if let Some(victim) = self.enter_q1(level, frame) {
                        self.hand_down(level, victim, out);
                    }
                } else {
                    self.put((level, Queue::Q1), frame);
                    self.overflow_q1(level, out);
                    self.fit(level, out);
                }
            }
        }
    }

    /// Counts a hit and says how hot the page is now (Eq. 3), with its hints as last looked up if
    /// that was within T (lazy update, section 3.2.3). A hit alone does not renew them, or a page that is
    /// hit often would keep its first hints for ever.
    #[inline]
    fn refresh(&mut self, frame: u32, (level, queue): Place) -> f64 {
        let now = self.now;
        let entry = *self.queues.frame(frame);
        let looked_up = entry.loaded + u64::from(entry.looked_up_after);
        // "Expired" as section 3.2.3 defines it: the last update is longer than T ago.
        if now - looked_up.max(self.resorted) > self.settings.period {
            let frequency = self.look_up(level, entry.page).0;
            let frame = self.queues.frame_mut(frame);
            frame.frequency = frequency;
            frame.looked_up_after = u32::try_from(now - entry.loaded).unwrap_or(u32::MAX);
        }
        self.queues.add_hit((level, queue), frame);
        let entry = self.queues.frame_mut(frame);
        entry.last_hit = now;
        let was_hot = core::mem::replace(&mut entry.is_hot, true);
        self.levels[level].add_hot(queue, u32::from(!was_hot));
        self.note_hit(frame);
        if Self::STRATEGY == Strategy::Promote
            && let Some(ages) = &mut self.ages
        {
            ages.move_to_front(frame);
        }
        self.hotness_of(frame)
    }

    /// Return Eq. 3 for the fields of a frame.
    #[inline]
    pub(super) fn hotness_of(&self, frame: u32) -> f64 {
        let Frame { hits, loaded, frequency, .. } = *self.queues.frame(frame);
        let resident = (self.now - loaded).max(1);
        // t2 is at least one access: a page may be hit in the access that brings it.
        self.settings.hint_hotness(frequency) + f64::from(hits) / resident as f64
    }

    /// Move, for P-HFA and H-HFA, the tail of Q1 elsewhere if Q1 has too many pages (Algorithm 1).
    #[inline]
    fn overflow_q1(&mut self, level: usize, out: &mut impl Sink) {
        let q1_pages = self.queues.len(level, Queue::Q1);
        if q1_pages <= self.levels[level].q1_capacity_pages {
            return;
        }
        let tail = self.queues.back_of_q1(level).expect("an over-full queue has a page");
        let q2_pages = self.queues.len(level, Queue::Q2);
        let has_room = if self.settings.is_strict {
            q2_pages < self.levels[level].q2_capacity_pages()
        } else {
            q1_pages + q2_pages <= self.levels[level].capacity_pages
        };
        let hits = self.queues.frame(tail).hits;
        let least_hits = self.queues.least_hits(level);
        // Algorithm 1, line 20: hits(x') > hits_min. Deviation (5): with room in Q2 nothing has to
        // leave the tier for it.
        let is_kept = has_room || least_hits.is_some_and(|least| hits > least);
        if is_kept {
            self.take(tail);
            self.put((level, Queue::Q2), tail);
        } else {
            self.demote(tail, out);
        }
    }

    /// Moves a page one tier down, or discards it.
    #[inline]
    fn demote(&mut self, frame: u32, out: &mut impl Sink) {
        self.foresee(frame);
        let (level, _) = self.detach(frame);
        self.hand_down(level, frame, out);
    }

    /// Moves a page one tier down, or discards it, that is in no queue of its level any more.
    #[inline]
    fn hand_down(&mut self, level: usize, frame: u32, out: &mut impl Sink) {
        if let Some(carried) = self.pass_down(level, frame, out) {
            self.receive(self.below(level), frame, carried, Way::Down, out);
        }
    }

    /// Hands a page that is in no queue of its level any more to the tier below, and returns the
    /// frequency that it carries; or discards it: below the last tier, and where nothing is demoted.
    #[inline]
    pub(super) fn pass_down(
        &mut self,
        level: usize,
        frame: u32,
        out: &mut impl Sink,
    ) -> Option<f64> {
        let page = self.queues.frame(frame).page;
        let (source, below) = (self.levels[level].tier, self.below(level));
        // The server decides where the page goes, since only it knows who else holds the page
        // (deviation 14).
        if self.part == Part::Client && Self::STRATEGY != Strategy::Promote {
            let carried = self.depart(level, page, Move::Demote);
            self.departed.push((page, carried));
            self.vacate(frame);
            // The server records the move.
            self.note_held(page, false);
            return None;
        }
        if below >= self.levels.len()
            || Self::STRATEGY == Strategy::Promote
            || self.is_in_another_top(level, page)
        {
            self.discard(level, frame, out);
            return None;
        }
        let carried = self.depart(level, page, Move::Demote);
        out.copy(page, source, self.levels[below].tier);
        out.drop_copy(page, source);
        Some(carried)
    }

    /// Return `true` if the page of a first level is also in that of another client, who will demote it.
    #[inline]
    fn is_in_another_top(&self, level: usize, page: PageId) -> bool {
        let mut others = (0..usize::from(self.clients.get())).filter(|&top| top != level);
        self.clients != Clients::ONE
            && self.is_top(level)
            && others.any(|top| self.frame_at(top, page) != ABSENT)
    }

    /// Gives a page up that is in no queue of its level any more, without a hint.
    pub(super) fn discard(&mut self, level: usize, frame: u32, out: &mut impl Sink) {
        let Frame { page, is_hot, is_dirty, .. } = *self.queues.frame(frame);
        let source = self.levels[level].tier;
        // A page that is given up here reaches no lower tier, so the disk must get its newest
        // version.
        if is_dirty {
            out.copy(page, source, self.disk);
        }
        out.drop_copy(page, source);
        if is_hot {
            let newest = self.newest_hint(level, page);
            // The record must not point to a frame that another page may take next.
            self.levels[level].hints.release(page, newest);
        }
        self.vacate(frame);
        if Self::STRATEGY == Strategy::Hint
            && !self.is_cached(page)
            && let Some(history) = &mut self.history
        {
            history.leave(page);
        }
    }

    /// Free the frame of a page that is cached nowhere here any more.
    #[inline]
    pub(super) fn vacate(&mut self, frame: u32) {
        let page = self.queues.frame(frame).page;
        self.queues.frame_mut(frame).last_hit = 0;
        self.set_frame_of(page, ABSENT);
        self.free.push(frame);
    }

    /// Prefetches the data that the next victims will need: each is a page of long ago.
    #[inline]
    pub(super) fn foresee(&self, victim: u32) {
        let Some(next) = self.queues.before(victim) else { return };
        self.cells.prefetch(self.queues.frame(next).page);
        if let Some(then) = self.queues.before(next) {
            self.queues.prefetch(then);
        }
    }

    /// Takes a frame out of its level, with a hint, and returns the frequency that it carries.
    #[inline]
    pub(super) fn leave(&mut self, frame: u32, way: Move) -> f64 {
        let (level, _) = self.detach(frame);
        self.depart(level, self.queues.frame(frame).page, way)
    }

    /// Takes a frame out of its level.
    #[inline]
    pub(super) fn detach(&mut self, frame: u32) -> Place {
        let place = self.take(frame);
        if Self::STRATEGY == Strategy::Promote
            && let Some(ages) = &mut self.ages
        {
            ages.remove(frame);
        }
        place
    }

    /// Gives the hint that a page leaves a level, and returns the frequency that it carries.
    #[inline]
    fn depart(&mut self, level: usize, page: PageId, way: Move) -> f64 {
        if Self::STRATEGY == Strategy::Hint
            && self.part != Part::Client
            && let Some(history) = &mut self.history
        {
            history.add(page, way);
        }
        // After the record: the page carries a frequency that counts this departure (Algorithm 2,
        // lines 1 and 2).
        let frequency = self.hint(level, page);
        if Self::STRATEGY == Strategy::Hint { carried(frequency) } else { frequency }
    }

    /// Records that a page leaves, or passes, a level, and returns its frequency there.
    #[inline]
    fn hint(&mut self, level: usize, page: PageId) -> f64 {
        if Self::STRATEGY == Strategy::Hint {
            if let Some(log) = &mut self.log {
                log.add(self.levels[level].tier, page, self.period, 1);
            }
            // An oracle never reads the table, so nothing is recorded there.
            if self.future.is_some() {
                return self.look_up(level, page).0;
            }
        }
        let mut forgotten = ABSENT;
        let cell = self.cells.newest_hint_mut(level, page);
        let (newest, frequency) =
            self.levels[level]
                .hints
                .record(page, *cell, &self.settings.weights, |frame| forgotten = frame);
        *cell = newest;
        if forgotten != ABSENT {
            // A full table forgets a record whose page is still cached: without its hint the page
            // may be cold.
            self.review(level, forgotten);
        }
        frequency
    }

    /// Let a level receive a page that no queue holds; the level hands on pages that it has no room
    /// for.
    #[inline]
    pub(super) fn receive(
        &mut self,
        level: usize,
        frame: u32,
        carried: f64,
        way: Way,
        out: &mut impl Sink,
    ) {
        if self.part == Part::Server && self.is_top(level) {
            self.risen = Some(carried);
            return self.vacate(frame);
        }
        if Self::STRATEGY == Strategy::Demote {
            return self.cascade(level, frame, carried, out);
        }
        let page = self.queues.frame(frame).page;
        let (known, is_live) = self.look_up(level, page);
        // Deviation (3): own records and the carried hint describe the same trips, so their sum
        // would count them twice.
        let frequency = known.max(carried);
        let enters_q1 = match Self::STRATEGY {
            // Algorithm 1, line 4, and the test of Algorithm 5.
            Strategy::Demote | Strategy::Promote => frequency > self.settings.f_min,
            // Algorithm 6 asks for `x in T_out` only, whatever the frequency (deviation 8).
            Strategy::Hint => is_live,
        };
        if !enters_q1 && self.passes_q2_by_value(level, page) {
            self.queues.frame_mut(frame).is_hot = false;
            return self.hand_down(level, frame, out);
        }
        self.arrive(level, frame, frequency, is_live);
        if enters_q1 {
            self.put((level, Queue::Q1), frame);
            self.overflow_q1(level, out);
        } else {
            self.put((level, Queue::Q2), frame);
        }
        self.fit(level, out);
        // Section 3.3: a demoted page that Q1 receives awakes the promotion; one that comes from
        // below does not.
        if Self::STRATEGY == Strategy::Hint && way == Way::Down {
            self.promote_head(level, frame, out);
        }
    }

    /// Return `true` if a level has room for `more` pages in its second queue.
    #[inline]
    pub(super) fn has_room(&self, level: usize, more: u32) -> bool {
        let [q1, q2] = [Queue::Q1, Queue::Q2].map(|queue| self.queues.len(level, queue));
        let entry = &self.levels[level];
        q1 + q2 + more <= entry.capacity_pages
            && (!self.settings.is_strict || q2 + more <= entry.q2_capacity_pages())
    }

    /// Begins a page's stay at a level with this hint frequency; it is hot there if it has a hint that
    /// counts.
    #[inline]
    fn arrive(&mut self, level: usize, frame: u32, frequency: f64, is_hot: bool) {
        let page = self.queues.frame(frame).page;
        if is_hot && (Self::STRATEGY != Strategy::Hint || self.future.is_none()) {
            let newest = self.newest_hint(level, page);
            self.levels[level].hints.hold(newest, frame);
        }
        let hotness = self.settings.hint_hotness(frequency);
        self.queues.frame_mut(frame).begin(hotness, frequency, is_hot, self.now);
        if Self::STRATEGY == Strategy::Promote
            && let Some(ages) = &mut self.ages
        {
            ages.push_front(u32::try_from(level).expect("few levels"), frame);
        }
    }

    /// Let a page rise, for P-HFA, until a tier keeps it (Algorithm 5), and serve it there.
    fn settle(
        &mut self,
        access: Access,
        frame: u32,
        found: Option<usize>,
        mut carried: f64,
        out: &mut impl Sink,
    ) {
        let mut level = found.map_or_else(|| self.lowest(), |level| self.above(level));
        // Algorithm 5, "receiving a block": a page of F <= F_min goes on up with the probability,
        // one above F_min stays in Q1.
        while !self.is_top(level)
            && self.look_up(level, access.page).0.max(carried) <= self.settings.f_min
            && self.random.unit() < self.levels[self.above(level)].promotion.probability()
        {
            carried = self.hint(level, access.page);
            level = self.above(level);
        }
        self.bring(access, frame, found, level, out);
        self.receive(level, frame, carried, Way::Up, out);
    }

    #[inline]
    pub(super) fn tier_of(&self, frame: u32) -> Tier {
        let (level, _) = self.queues.place_of(frame).expect("the frame holds a page");
        self.levels[level].tier
    }
}
