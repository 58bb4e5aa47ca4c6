//! Generation of a trace from a profile.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

use thermocline_core::{Nanos, Op};

use super::draw::Drawer;
use super::scale::{self, numbers, whole};
use super::tree::Known;
use super::{
    DRAWS, Draw, FINE, NO_OP, ONLY_READS, ONLY_WRITES, PARTS, Profile, RATIO_UNITS, RELATIVE_REST,
    REST, gap_draw, known, part_of,
};
use crate::decode::BATCH_REQUESTS;
use crate::error::TraceError;
use crate::generate::random::{Scatter, SplitMix64};
use crate::request::{Extent, Request, Requests};

/// Ticks of the time of one access of the trace that the profile was made from.
const TICKS: u64 = 64;
/// Accesses of a slot, which are sorted together, at least.
const SLOT_ACCESSES: u64 = 512;
/// Slots, at most.
const SLOTS_MAX: u64 = 1 << 18;
/// Draws of a gap that must fit into the rest of a life; the mean is taken if none does.
const TRIES: usize = 4;

/// Length of the generated trace. Footprint and accesses grow together, so that a cache of a fixed
/// share of the footprint serves a constant share of the accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Scale {
    /// Length of the original trace.
    #[default]
    One,
    /// Times as much.
    Factor(f64),
    /// Approximate number of accesses.
    Accesses(u64),
    /// Approximate number of pages.
    Footprint(u64),
}

/// An extent that will be accessed again.
#[derive(Clone, Copy, Debug)]
struct Alive {
    /// Time of its last access, in ticks.
    end: u64,
    first_page: u64,
    /// Accesses that are still to come, the next one included.
    left: u64,
    pages: u64,
    accesses: u8,
    class: u8,
    op_before: u8,
    gap_before: u8,
}

/// A trace being generated from a profile.
#[derive(Clone, Debug)]
pub struct ProfileGenerator {
    profile: Profile,
    factor: f64,
    accesses_max: u64,
    random: SplitMix64,
    drawers: Vec<Drawer>,
    alive: Vec<Alive>,
    free: Vec<u32>,
    /// Extents that are due in later slots, by slot.
    slots: Vec<Vec<(u64, u32)>>,
    /// Extents that are due in this slot.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    slot: usize,
    slot_ticks: u64,
    /// Parts whose extents are born.
    parts_begun: usize,
    places: Places,
    clock: Clock,
    accesses: u64,
    volume_names: Vec<String>,
    name: PathBuf,
    /// Requests that are ready, the next one last.
    ready: Vec<Request>,
}

/// Locations of new extents.
#[derive(Clone, Debug)]
struct Places {
    slot_pages: u64,
    scatter: Scatter,
    /// Slots that are scattered, and all.
    scattered: u64,
    slots: u64,
    used_slots: u64,
    /// The next page of the chain, and pages that its slot still has.
    next: u64,
    room: u64,
}

/// Times of requests.
#[derive(Clone, Debug)]
struct Clock {
    at_ns: u64,
    part: u8,
    wait_before: u8,
    requests: u64,
}

impl ProfileGenerator {
    /// Begins a trace.
    ///
    /// # Errors
    /// If it would have no accesses, or more than can be generated.
    ///
    /// # Panics
    /// Never: the tables of a generator are of bounded size.
    pub fn new(profile: Profile, scale: Scale, seed: u64) -> Result<Self, TraceError> {
        let counts = profile.counts;
        let factor = match scale {
            Scale::One => 1.0,
            Scale::Factor(factor) => factor,
            Scale::Accesses(accesses) => accesses as f64 / counts.accesses as f64,
            Scale::Footprint(pages) => pages as f64 / counts.footprint_pages as f64,
        };
        let pages = counts.footprint_pages as f64 * factor;
        let accesses = counts.accesses as f64 * factor;
        if !(pages >= 1.0 && accesses >= 1.0 && accesses < scale::GREATEST as f64 && pages < 2e9) {
            return Err(TraceError::Generator {
                reason: format!(
                    "{pages:.0} pages and {accesses:.0} accesses are not from 1 to 2,000,000,000 and to 2^40"
                ),
            });
        }
        let slot_ticks = TICKS * SLOT_ACCESSES.max(counts.accesses.div_ceil(SLOTS_MAX));
        let slots = counts.accesses * TICKS / slot_ticks + 1;
        let mut generator = Self {
            factor,
            accesses_max: whole(accesses + 0.5),
            random: SplitMix64::new(seed),
            drawers: DRAWS.iter().map(|&draw| Drawer::new(profile.tree(draw))).collect(),
            alive: vec![],
            free: vec![],
            slots: vec![vec![]; usize::try_from(slots).expect("few slots")],
            due: BinaryHeap::new(),
            slot: 0,
            slot_ticks,
            parts_begun: 0,
            places: Places::new(&profile, factor, seed),
            clock: Clock { at_ns: 0, part: 0, wait_before: 0, requests: 0 },
            accesses: 0,
            volume_names: vec!["0".to_owned()],
            name: PathBuf::from("profile"),
            ready: vec![],
            profile,
        };
        generator.enter_slot(0);
        Ok(generator)
    }

    /// Return the duration of the profile's trace, in ticks.
    const fn end(&self) -> u64 {
        self.profile.counts.accesses * TICKS
    }

    fn part_begin(&self, part: usize) -> u64 {
        let begin = u128::from(self.end()) * part as u128 / PARTS as u128;
        u64::try_from(begin).unwrap_or(u64::MAX)
    }

    /// Gives birth to the extents whose parts begin in a slot, and takes what is due in it.
    fn enter_slot(&mut self, slot: usize) {
        self.slot = slot;
        let end = (slot as u64 + 1) * self.slot_ticks;
        while self.parts_begun < PARTS && self.part_begin(self.parts_begun) < end {
            self.give_birth(self.parts_begun);
            self.parts_begun += 1;
        }
        self.due.extend(std::mem::take(&mut self.slots[slot]).into_iter().map(Reverse));
    }

    /// Draws the extents that are born in a part.
    fn give_birth(&mut self, part: usize) {
        let (begin, end) = (self.part_begin(part), self.part_begin(part + 1));
        let before: u64 = self.profile.born[..part].iter().sum();
        let scaled = |count: u64| whole(count as f64 * self.factor + 0.5);
        let births = scaled(before + self.profile.born[part]) - scaled(before);
        let number = u8::try_from(part).expect("a few parts");
        for birth in 0..births {
            // One in each of as many equal steps.
            let step = (end - begin) as f64 / births as f64;
            let at = begin + whole((birth as f64 + self.random.real()) * step);
            self.give_birth_at(number, at);
        }
    }

    fn give_birth_at(&mut self, part: u8, at: u64) {
        let mut values = [part, 0, 0, 0, 0, 0, 0, 0];
        let random = &mut self.random;
        let mut draw = |draw: Draw, values: Known, random: &mut SplitMix64| {
            self.drawers[draw as usize].draw(values, random).map_or(0, |(code, _)| code)
        };
        let pages = within::<FINE>(draw(Draw::Pages, values, random), random).max(1);
        values[1] = known(pages);
        let accesses = within::<FINE>(draw(Draw::Accesses, values, random), random).max(1);
        values[2] = known(accesses);
        let class = u8::try_from(draw(Draw::Ops, values, random)).unwrap_or(ONLY_WRITES);
        values[3] = class;
        let total = self.profile.counts.accesses * TICKS;
        let end = if accesses == 1 {
            at
        } else {
            let life = draw(Draw::Life, values, random);
            let end = if life < REST {
                at.saturating_add(ticks_within(life, random))
            } else {
                total.saturating_sub(ticks_within(life - REST, random))
            };
            // A life has room for its accesses.
            end.min(total - 1).max(at + (accesses - 1) * shortest_gap(pages))
        };
        let first_page = self.places.place(pages, &self.profile, &mut self.random);
        let alive = Alive {
            end,
            first_page,
            left: accesses,
            pages,
            accesses: values[2],
            class,
            op_before: NO_OP,
            gap_before: 0,
        };
        let id = if let Some(id) = self.free.pop() {
            self.alive[id as usize] = alive;
            id
        } else {
            self.alive.push(alive);
            u32::try_from(self.alive.len() - 1).expect("pages have 31 bits")
        };
        self.schedule(at, id);
    }

    #[inline]
    fn schedule(&mut self, at: u64, id: u32) {
        let slot = usize::try_from(at / self.slot_ticks).unwrap_or(usize::MAX);
        if slot <= self.slot {
            self.due.push(Reverse((at, id)));
        } else {
            // Requests after the end come in the last slot.
            let slot = slot.min(self.slots.len() - 1);
            self.slots[slot].push((at, id));
        }
    }

    /// Generates the requests of the next access to an extent; `false` at the end.
    fn advance(&mut self) -> bool {
        let (at, id) = loop {
            if let Some(Reverse(next)) = self.due.pop() {
                break next;
            }
            if self.slot + 1 == self.slots.len() {
                return false;
            }
            self.enter_slot(self.slot + 1);
        };
        let mut extent = self.alive[id as usize];
        extent.left -= 1;
        let part = part_of(at, self.end());
        let op = self.op(&extent, part);
        self.request(&extent, op, part);
        if extent.left == 0 {
            self.free.push(id);
            return true;
        }
        let gap = self.gap(&extent, at, part);
        extent.op_before = op;
        extent.gap_before = known(gap / TICKS + 1);
        self.alive[id as usize] = extent;
        self.schedule(at + gap, id);
        true
    }

    /// Return the operation of the next access of an extent.
    fn op(&mut self, extent: &Alive, part: u8) -> u8 {
        match extent.class {
            ONLY_READS => return 0,
            ONLY_WRITES => return 1,
            _ => {}
        }
        let values = [
            part,
            extent.gap_before,
            known(extent.left),
            extent.accesses,
            extent.class,
            extent.op_before,
            known(extent.pages),
            0,
        ];
        let drawn = self.drawers[Draw::Op as usize].draw(values, &mut self.random);
        drawn.map_or(0, |(code, _)| u8::from(code == 1))
    }

    /// Return the ticks to the next access of an extent.
    fn gap(&mut self, extent: &Alive, at: u64, part: u8) -> u64 {
        let rest = extent.end.saturating_sub(at).max(1);
        if extent.left == 1 {
            return rest;
        }
        // As in a trace, where accesses are one unit apart or more.
        let mean = rest as f64 / extent.left as f64;
        let values = [
            part,
            known(whole(mean / TICKS as f64)),
            known(extent.left),
            extent.accesses,
            extent.class,
            extent.op_before,
            extent.gap_before,
            known(extent.pages),
        ];
        let (draw, shortest) = (gap_draw(extent.left), shortest_gap(extent.pages));
        for _ in 0..TRIES {
            let drawn = self.drawers[draw as usize].draw(values, &mut self.random);
            let Some((code, is_relative)) = drawn else { break };
            let limit = if is_relative { RELATIVE_REST } else { REST };
            let part = code % limit;
            let time = if is_relative {
                let range = numbers::<FINE>(part);
                let width = (range.end() - range.start() + 1) as f64;
                let units = *range.start() as f64 + self.random.real() * width;
                whole(units / RATIO_UNITS * mean)
            } else {
                ticks_within(part, &mut self.random)
            };
            let gap = if code < limit { time } else { rest.saturating_sub(time.max(1)) };
            // The accesses that follow need room, too.
            let gap = gap.max(shortest);
            if gap + (extent.left - 1) * shortest <= rest {
                return gap;
            }
        }
        whole(mean).clamp(1, rest)
    }

    /// Appends the requests of an access to an extent to those that are ready.
    fn request(&mut self, extent: &Alive, op: u8, part: u8) {
        let space = self.profile.space;
        let joined = if op == 1 { space.joined_writes } else { space.joined_reads };
        let op = if op == 1 { Op::Write } else { Op::Read };
        let end = extent.first_page + extent.pages;
        let mut first = extent.first_page;
        while first < end && self.accesses < self.accesses_max {
            let mut count = 1;
            while first + count < end && self.random.real() < joined {
                count += 1;
            }
            count = count.min(self.accesses_max - self.accesses);
            self.accesses += count;
            let at = self.next_time(part);
            let extent = Extent::Pages { first, count };
            self.ready.push(Request { at, op, volume: 0, extent });
            first += count;
        }
    }

    /// Return the time of the next request.
    fn next_time(&mut self, part: u8) -> Nanos {
        let Some((begin_ns, duration_ns)) = self.profile.part_time(usize::from(part)) else {
            return Nanos(0);
        };
        let clock = &mut self.clock;
        if part != clock.part {
            clock.part = part;
            // A part does not begin before its time.
            clock.at_ns = clock.at_ns.max(begin_ns);
        } else if clock.requests > 0 {
            let accesses = self.profile.counts.accesses as f64 * self.factor / PARTS as f64;
            let pages = self.accesses as f64 / clock.requests as f64;
            let mean = duration_ns as f64 * pages / accesses;
            let values = [part, clock.wait_before, 0, 0, 0, 0, 0, 0];
            let drawn = self.drawers[Draw::Wait as usize].draw(values, &mut self.random);
            let code = drawn.map_or(0, |(code, _)| code);
            let units = within::<FINE>(code, &mut self.random);
            let wait = whole(units as f64 / RATIO_UNITS * mean);
            clock.wait_before = known(units);
            // Nor does it last longer than it did.
            clock.at_ns = (clock.at_ns + wait).min((begin_ns + duration_ns).max(clock.at_ns));
        }
        clock.requests += 1;
        Nanos(clock.at_ns)
    }
}

/// Return the ticks from one access of an extent to the next, at least: each page takes one access.
const fn shortest_gap(pages: u64) -> u64 {
    (pages - 1) * TICKS + 1
}

/// Return a whole number of a bucket.
#[inline]
fn within<const BITS: u32>(code: scale::Code, random: &mut SplitMix64) -> u64 {
    let range = numbers::<BITS>(code);
    range.start() + random.below(range.end() - range.start() + 1)
}

/// Ticks to an access that is a number of accesses of a bucket away: the next one is right behind.
#[inline]
fn ticks_within(code: scale::Code, random: &mut SplitMix64) -> u64 {
    (within::<FINE>(code, random).max(1) - 1) * TICKS + 1
}

impl Places {
    fn new(profile: &Profile, factor: f64, seed: u64) -> Self {
        let space = profile.space;
        let slot_pages = whole(space.chain_pages.max(1.0)).next_power_of_two();
        let pages = profile.counts.footprint_pages as f64 * factor / space.filled;
        let slots = whole(pages).div_ceil(slot_pages).max(1);
        let scatter = Scatter::new(slots, seed);
        Self { slot_pages, scatter, scattered: slots, slots, used_slots: 0, next: 0, room: 0 }
    }

    /// Allocate a place for an extent.
    fn place(&mut self, pages: u64, profile: &Profile, random: &mut SplitMix64) -> u64 {
        let continues = random.real() < profile.space.continues;
        if !continues || self.room < pages {
            let slots = pages.div_ceil(self.slot_pages);
            let slot = self.used_slots;
            // An extent longer than a slot, and what does not fit into the space, lies behind it.
            let place = if slots == 1 && slot < self.scattered {
                self.used_slots += 1;
                self.scatter.page(slot)
            } else {
                let place = self.slots;
                self.slots += slots;
                place
            };
            self.next = place * self.slot_pages;
            self.room = slots * self.slot_pages;
        }
        let place = self.next;
        self.next += pages;
        self.room -= pages;
        place
    }
}

impl Requests for ProfileGenerator {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        batch.clear();
        while self.ready.len() < BATCH_REQUESTS && self.accesses < self.accesses_max {
            if !self.advance() {
                break;
            }
        }
        batch.append(&mut self.ready);
        Ok(!batch.is_empty())
    }

    fn volume_names(&self) -> &[String] {
        &self.volume_names
    }

    fn path(&self) -> &Path {
        &self.name
    }
}
