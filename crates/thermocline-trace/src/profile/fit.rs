//! Fit of a profile to a trace.

use thermocline_core::random::SplitMix64;

use super::scale::{code, whole};
use super::tree::{Growing, KNOWN_MAX, Known, Observation, grow};
use super::{
    Counts, Draw, EXTENT_PAGES_MAX, FINE, NO_OP, ONLY_READS, ONLY_WRITES, PARTS, Profile,
    RATIO_MAX, RATIO_UNITS, SHAPES, Space, TIME_SHARES, WIDE, code_of_gap, code_of_part, gap_draw,
    known, ops_class, part_of, relative_code_of_gap,
};
use crate::compiled::CompiledTrace;

/// Accesses from one page of an extent to the next, at most.
const STEP_MAX: u64 = 16;
/// Draws of each tree that are looked at, about; of more, a random sample.
const OBSERVATIONS: u64 = 1 << 17;
/// Extents that are accessed at least so often are all looked at.
const OFTEN: u64 = 32;
/// Accesses by which an extent weighs, at most, when trees of extents grow.
const WEIGHT_MAX: u64 = 6;
/// Weight of a gap relative to that of an access of an extent that is born.
const GAP_WEIGHT: u64 = 2;
/// Pages of a block, of which the space says how many are accessed.
const BLOCK_PAGES: u64 = 64;

/// Times that trees grow.
const GROWTHS: usize = 4;

/// Options of a fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitOptions {
    /// The size of the profile, at most, in bytes; [`FitOptions::BYTES_MIN`] at least.
    pub bytes_max: u64,
}

impl FitOptions {
    /// The least size: room for counts, times and trees of one leaf each.
    pub const BYTES_MIN: u64 = 4096;
}

impl Default for FitOptions {
    fn default() -> Self {
        Self { bytes_max: 15 << 10 }
    }
}

/// Record of a page after one look at all accesses.
#[derive(Clone, Copy, Debug, Default)]
struct PageUse {
    accesses: u64,
    writes: u64,
    first: u64,
    last: u64,
    /// The sum of the places of all accesses.
    sum: u64,
    /// Pages of the extent that begins here; 0 inside one.
    extent_pages: u64,
}

impl PageUse {
    /// Return `true` if the next page is always accessed soon after this one.
    fn leads(&self, next: &Self) -> bool {
        let steps = 1..=STEP_MAX;
        let step = |one: u64, other: u64| other.checked_sub(one);
        self.accesses == next.accesses
            && self.writes == next.writes
            && step(self.first, next.first).is_some_and(|step| steps.contains(&step))
            && step(self.last, next.last).is_some_and(|step| steps.contains(&step))
            && step(self.sum, next.sum)
                .is_some_and(|sum| (self.accesses..=STEP_MAX * self.accesses).contains(&sum))
    }
}

impl PageUse {
    /// Return the weight of a gap of this extent when trees grow.
    fn gap_weight(&self) -> u32 {
        u32::try_from(GAP_WEIGHT * self.extent_pages).unwrap_or(u32::MAX)
    }
}

/// State of an extent during the pass over the trace.
#[derive(Clone, Copy, Debug)]
struct Progress {
    last: u64,
    seen: u64,
    op_before: u8,
    gap_before: u8,
}

impl Profile {
    /// Makes the profile of a trace: three looks at its accesses, and a search for the trees.
    pub fn fit(trace: &CompiledTrace, options: FitOptions) -> Self {
        let mut pages = uses(trace);
        find_extents(trace.page_numbers(), &mut pages);
        let len = trace.len() as u64;
        let mut born = vec![0_u64; PARTS];
        // Ids are in order of first appearance, so these are the births in order.
        for page in pages.iter().filter(|page| page.extent_pages > 0) {
            born[usize::from(part_of(page.first, len))] += 1;
        }
        let space = space(trace, &pages);
        let trees: Vec<Growing> = births(&pages, len)
            .into_iter()
            .chain(lives(trace, &pages))
            .chain([waits(trace)])
            .zip(&SHAPES)
            .map(|(observations, shape)| Growing::new(shape, observations))
            .collect();
        let durations = part_durations(trace);
        let duration_ns: u64 = durations.iter().sum();
        let share = |&ns: &u64| {
            let shares = u128::from(ns) * u128::from(TIME_SHARES) / u128::from(duration_ns.max(1));
            u32::try_from(shares).unwrap_or(TIME_SHARES)
        };
        let part_durations: Vec<u32> = durations.iter().map(share).collect();
        let mut profile = Self {
            page_size_bytes: trace.page_size_bytes(),
            counts: Counts {
                accesses: len,
                writes: trace.writes(),
                requests: trace.request_count() as u64,
                footprint_pages: u64::from(trace.footprint_pages()),
            },
            born,
            duration_ns,
            part_durations,
            space,
            trees: vec![],
        };
        profile.grow(trees, options.bytes_max as f64);
        profile
    }

    /// Grows the trees until the profile has its size. The length of the text is an estimate while they
    /// grow, so they grow again, less, if it is too long.
    fn grow(&mut self, mut trees: Vec<Growing>, bytes_max: f64) {
        let mut target = bytes_max;
        for _ in 0..GROWTHS {
            grow(&mut trees, target - self.bytes_without_trees());
            self.trees = trees.iter().map(Growing::finish).collect();
            let bytes = self.to_string().len() as f64;
            if bytes <= bytes_max {
                return;
            }
            target *= 0.98 * bytes_max / bytes;
            trees.iter_mut().for_each(Growing::cut);
        }
        self.trees = trees.iter().map(Growing::finish).collect();
    }

    /// About how long the text is without trees.
    fn bytes_without_trees(&self) -> f64 {
        600.0 + 5.0 * (self.born.len() + self.part_durations.len()) as f64
    }
}

fn uses(trace: &CompiledTrace) -> Vec<PageUse> {
    let mut pages = vec![PageUse::default(); trace.footprint_pages() as usize];
    for (place, &packed) in (0_u64..).zip(trace.packed()) {
        let page = &mut pages[(packed & (u32::MAX >> 1)) as usize];
        if page.accesses == 0 {
            page.first = place;
        }
        page.accesses += 1;
        page.writes += u64::from(packed >> 31);
        page.last = place;
        page.sum += place;
    }
    pages
}

/// Notes at the first page of each extent how many pages it has.
fn find_extents(numbers: &[u64], pages: &mut [PageUse]) {
    let mut order: Vec<u32> = (0_u32..).take(numbers.len()).collect();
    order.sort_unstable_by_key(|&id| numbers[id as usize]);
    let mut leader: Option<usize> = None;
    let mut before: Option<usize> = None;
    for id in order {
        let id = id as usize;
        let follows = match (leader, before) {
            (Some(leader), Some(before)) => {
                numbers[before].checked_add(1) == Some(numbers[id])
                    && pages[leader].extent_pages < EXTENT_PAGES_MAX
                    && pages[before].leads(&pages[id])
            }
            _ => false,
        };
        if !follows {
            leader = Some(id);
        }
        if let Some(leader) = leader {
            pages[leader].extent_pages += 1;
        }
        before = Some(id);
    }
}

/// Observations of what is drawn when extents are born.
fn births(pages: &[PageUse], len: u64) -> [Vec<Observation>; 4] {
    let extents = pages.iter().filter(|page| page.extent_pages > 0);
    let rare = extents.clone().filter(|page| page.accesses < OFTEN).count() as u64;
    let every = rare.div_ceil(OBSERVATIONS).max(1);
    let mut all: [Vec<Observation>; 4] = Default::default();
    let mut random = SplitMix64::new(len);
    for page in extents {
        let count = if page.accesses >= OFTEN { 1 } else { every };
        if count > 1 && !random.bits().is_multiple_of(count) {
            continue;
        }
        let PageUse { accesses, writes, first, last, extent_pages, .. } = *page;
        let ops = ops_class(writes, accesses);
        let (span, rest) = (last - first, len - first);
        let life = code_of_part::<FINE>(span, rest);
        let values = [part_of(first, len), known(extent_pages), known(accesses), ops];
        let outcomes = [code::<FINE>(extent_pages), code::<FINE>(accesses), u16::from(ops), life];
        let wide = [
            code::<WIDE>(extent_pages),
            code::<WIDE>(accesses),
            u16::from(ops),
            code_of_part::<WIDE>(span, rest),
        ];
        for (place, tree) in all.iter_mut().enumerate() {
            // A life of one access has no length.
            if place == 3 && accesses == 1 {
                continue;
            }
            let mut known: Known = [0; KNOWN_MAX];
            known[..=place].copy_from_slice(&values[..=place]);
            // All but the length count by pages, so that as many pages have each of them as in the trace
            // even where a leaf is for extents of several lengths.
            let pages = if place == 0 { 1 } else { extent_pages };
            let weight = (extent_pages / pages) * accesses.min(WEIGHT_MAX);
            tree.push(Observation {
                known,
                outcomes: [outcomes[place]; 2],
                wide: [wide[place]; 2],
                count: u32::try_from(count * pages).unwrap_or(u32::MAX),
                weight: u32::try_from(weight).unwrap_or(u32::MAX),
            });
        }
    }
    all
}

/// Observations of gaps and operations.
fn lives(trace: &CompiledTrace, pages: &[PageUse]) -> [Vec<Observation>; 3] {
    let len = trace.len() as u64;
    let leaders = pages.iter().filter(|page| page.extent_pages > 0);
    let (mut gap_draws, mut op_draws) = (0, 0);
    for page in leaders {
        gap_draws += page.accesses.saturating_sub(2);
        if !matches!(ops_class(page.writes, page.accesses), ONLY_READS | ONLY_WRITES) {
            op_draws += page.accesses;
        }
    }
    let every = |draws: u64| u32::try_from(draws.div_ceil(OBSERVATIONS).max(1)).unwrap_or(u32::MAX);
    let (every_gap, every_op) = (every(gap_draws), every(op_draws));
    let mut random = SplitMix64::new(len ^ 1);
    let (mut gaps, mut late_gaps, mut ops) = (vec![], vec![], vec![]);
    let start = Progress { last: 0, seen: 0, op_before: NO_OP, gap_before: 0 };
    let mut progress = vec![start; pages.len()];
    for (place, &packed) in (0_u64..).zip(trace.packed()) {
        let id = (packed & (u32::MAX >> 1)) as usize;
        let page = &pages[id];
        if page.extent_pages == 0 {
            continue;
        }
        let op = u8::from(packed >> 31 == 1);
        let progress = &mut progress[id];
        let class = ops_class(page.writes, page.accesses);
        let mut gap_code = 0;
        if progress.seen > 0 {
            let gap = place - progress.last;
            gap_code = known(gap);
            let left = page.accesses - progress.seen;
            if left >= 2 && random.below(every_gap) == 0 {
                let gaps = if gap_draw(left) == Draw::LateGap { &mut late_gaps } else { &mut gaps };
                gaps.push(observed_gap(page, progress, gap, len, every_gap));
            }
        }
        if !matches!(class, ONLY_READS | ONLY_WRITES) && random.below(every_op) == 0 {
            let left = known(page.accesses - progress.seen - 1);
            ops.push(Observation {
                known: [
                    part_of(place, len),
                    gap_code,
                    left,
                    known(page.accesses),
                    class,
                    progress.op_before,
                    known(page.extent_pages),
                    0,
                ],
                outcomes: [u16::from(op); 2],
                wide: [u16::from(op); 2],
                count: every_op,
                weight: page.gap_weight(),
            });
        }
        let seen = progress.seen + 1;
        *progress = Progress { last: place, seen, op_before: op, gap_before: gap_code };
    }
    [gaps, late_gaps, ops]
}

/// Return the gap that follows what is known of an extent.
fn observed_gap(page: &PageUse, before: &Progress, gap: u64, len: u64, count: u32) -> Observation {
    let left = page.accesses - before.seen;
    let rest = page.last - before.last;
    let mean = rest as f64 / left as f64;
    let draw = gap_draw(left);
    Observation {
        known: [
            part_of(before.last, len),
            known(whole(mean)),
            known(left),
            known(page.accesses),
            ops_class(page.writes, page.accesses),
            before.op_before,
            before.gap_before,
            known(page.extent_pages),
        ],
        outcomes: [
            code_of_gap::<FINE>(gap, rest, draw),
            relative_code_of_gap::<FINE>(gap, rest, mean, draw),
        ],
        wide: [
            code_of_gap::<WIDE>(gap, rest, draw),
            relative_code_of_gap::<WIDE>(gap, rest, mean, draw),
        ],
        count,
        weight: page.gap_weight(),
    }
}

/// Fit the locations of pages.
fn space(trace: &CompiledTrace, pages: &[PageUse]) -> Space {
    let numbers = trace.page_numbers();
    let (mut extents, mut continues, mut next) = (0_u64, 0_u64, None);
    for (page, &number) in pages.iter().zip(numbers) {
        if page.extent_pages > 0 {
            extents += 1;
            continues += u64::from(next == Some(number));
            next = number.checked_add(page.extent_pages);
        }
    }
    let mut blocks: Vec<u64> = numbers.iter().map(|number| number / BLOCK_PAGES).collect();
    blocks.sort_unstable();
    blocks.dedup();
    // Joined: requests of several pages whose pages follow each other in an extent.
    let (mut joined, mut all) = ([0_u64; 2], [0_u64; 2]);
    let mut is_inside = vec![false; pages.len()];
    for (page, inside) in pages.iter().zip(&mut is_inside) {
        *inside = page.extent_pages == 0;
    }
    let packed = trace.packed();
    for request in trace.requests() {
        for place in request.accesses.clone() {
            let id = (packed[place] & (u32::MAX >> 1)) as usize;
            if is_inside[id] {
                let op = usize::from(packed[place] >> 31 == 1);
                all[op] += 1;
                joined[op] += u64::from(place > request.accesses.start);
            }
        }
    }
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let short = |number: f64| (number * 1e4).round() / 1e4;
    Space {
        continues: short(share(continues, extents)),
        filled: short(share(numbers.len() as u64, blocks.len() as u64 * BLOCK_PAGES)),
        chain_pages: short(numbers.len() as f64 / (extents - continues).max(1) as f64),
        joined_reads: short(share(joined[0], all[0])),
        joined_writes: short(share(joined[1], all[1])),
    }
}

/// Return the duration of each part.
fn part_durations(trace: &CompiledTrace) -> Vec<u64> {
    if !trace.is_timed() {
        return vec![];
    }
    let len = trace.len() as u64;
    let mut begins = vec![None; PARTS];
    let mut latest = 0;
    for request in trace.requests() {
        latest = latest.max(request.at.0);
        let part = usize::from(part_of(request.accesses.start as u64, len));
        begins[part].get_or_insert(latest);
    }
    let mut durations = vec![0; PARTS];
    let mut end = latest;
    for part in (0..PARTS).rev() {
        if let Some(begin) = begins[part] {
            durations[part] = end - begin;
            end = begin;
        }
    }
    durations
}

/// Observations of the times between requests.
fn waits(trace: &CompiledTrace) -> Vec<Observation> {
    let durations = part_durations(trace);
    if durations.is_empty() {
        return vec![];
    }
    let len = trace.len() as u64;
    let mut requests = vec![0_u64; PARTS];
    for request in trace.requests() {
        requests[usize::from(part_of(request.accesses.start as u64, len))] += 1;
    }
    let every = (trace.request_count() as u64).div_ceil(OBSERVATIONS).max(1);
    let mut random = SplitMix64::new(len ^ 2);
    let (mut latest, mut wait_before, mut observations) = (None, 0, vec![]);
    for request in trace.requests() {
        let at = latest.unwrap_or(0).max(request.at.0);
        if let Some(before) = latest {
            let part = usize::from(part_of(request.accesses.start as u64, len));
            let mean = durations[part] as f64 / requests[part].max(1) as f64;
            let ratio = if mean > 0.0 { (at - before) as f64 / mean * RATIO_UNITS } else { 0.0 };
            let ratio = whole(ratio).min(RATIO_MAX);
            if random.bits().is_multiple_of(every) {
                observations.push(Observation {
                    known: [
                        part_of(request.accesses.start as u64, len),
                        wait_before,
                        0,
                        0,
                        0,
                        0,
                        0,
                        0,
                    ],
                    outcomes: [code::<FINE>(ratio); 2],
                    wide: [code::<WIDE>(ratio); 2],
                    count: 1,
                    weight: 1,
                });
            }
            wait_before = known(ratio);
        }
        latest = Some(at);
    }
    observations
}

const _: () = assert!(Draw::Wait as usize + 1 == SHAPES.len(), "a shape for each draw");
