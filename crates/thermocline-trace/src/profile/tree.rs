//! Conditional distributions as decision trees, and how they are learnt.
//!
//! A tree draws a number (the bucket of a gap, an operation) from what is known before (the time, the mean
//! gap, the operation before). Each inner node asks whether one known number is at most a bound; each leaf
//! is a histogram. Several trees grow together: of all leaves, the one is split that saves most bits of the
//! observations per byte of the profile, until no split saves more than it costs or the profile is full
//! (Rissanen, *Modeling by shortest data description*, Automatica 14, 1978).

use std::ops::Range;

use super::scale::{Code, whole};

/// Known numbers that a tree may ask for, at most.
pub(super) const KNOWN_MAX: usize = 8;
/// The values of what is known before a draw.
pub(super) type Known = [u8; KNOWN_MAX];

/// Groups of values of a known number, between which a split is looked for.
const GROUPS: usize = 16;
/// Bytes of the text of a split and of an outcome, about.
const SPLIT_BYTES: f64 = 22.0;
const OUTCOME_BYTES: f64 = 4.0;
/// Bits that a split saves per byte of the profile, at least.
const WORTH_MIN: f64 = 1.0;
/// Bits that a card of a leaf must save: the bytes of its text.
pub(super) const CARD_BITS: f64 = 24.0;
/// Bits that merged cards may cost, one pass after the other.
const MERGE_BITS: [f64; 4] = [1.0, 4.0, 10.0, CARD_BITS];
/// Counts of a leaf that has no exact ones sum up to about so many.
const SHARES: f64 = 2000.0;

/// Values that a tree draws, and its inputs.
#[derive(Debug)]
pub(super) struct Shape {
    /// Its name in the file.
    pub(super) name: &'static str,
    /// The names of what is known.
    pub(super) known: &'static [&'static str],
    /// Outcomes are below this.
    pub(super) outcomes: Code,
    /// Outcomes of a leaf may be multiples of the mean gap, and are then below this.
    pub(super) relative: Option<Code>,
    /// All leaves have relative outcomes.
    pub(super) is_relative: bool,
    /// The upper half of the outcomes tells what is left of a time.
    pub(super) has_rest: bool,
    /// Bits that merged outcomes may cost; 0 if outcomes are not to be merged.
    pub(super) merge_bits: f64,
    /// Leaves keep how many observations there were, so that rare ones come as often as they did.
    pub(super) is_exact: bool,
}

/// A part of a tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// Draw from this histogram.
    Leaf(Leaf),
    /// Go to `low` if the known number is at most `bound`, else to `high`.
    Split { known: usize, bound: u8, low: Box<Self>, high: Box<Self> },
}

/// A histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Leaf {
    /// Outcomes are multiples of the mean gap.
    pub(super) is_relative: bool,
    /// Ascending.
    pub(super) cards: Vec<Card>,
}

/// Outcomes that are equally likely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Card {
    pub(super) first: Code,
    pub(super) last: Code,
    /// Number of times that they came; not 0.
    pub(super) count: u32,
}

/// One draw that the trace shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    pub(super) known: Known,
    /// The outcome, and the same as a multiple of the mean gap if leaves may have those.
    pub(super) outcomes: [Code; 2],
    /// The same in wider buckets, by which trees grow.
    pub(super) wide: [Code; 2],
    /// Number of draws this one stands for.
    pub(super) count: u32,
    /// Number of accesses that depend on it, for each of these draws.
    pub(super) weight: u32,
}

/// A tree that grows.
#[derive(Debug)]
pub(super) struct Growing {
    shape: &'static Shape,
    observations: Vec<Observation>,
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Leaf { range: Range<usize>, is_relative: bool, best: Option<Candidate> },
    Split { known: usize, bound: u8, low: usize, high: usize },
}

/// A split that might be made.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    known: usize,
    bound: u8,
    /// Bits saved per byte of the profile.
    worth: f64,
    bytes: f64,
}

/// Grow all trees until their text has about `bytes_max` bytes.
pub(super) fn grow(trees: &mut [Growing], bytes_max: f64) {
    let mut bytes: f64 = trees.iter().map(Growing::bytes).sum();
    loop {
        let mut best: Option<(usize, usize, Candidate)> = None;
        for (tree, growing) in trees.iter().enumerate() {
            for (place, part) in growing.parts.iter().enumerate() {
                let Part::Leaf { best: Some(candidate), .. } = part else { continue };
                let fits = bytes + candidate.bytes <= bytes_max;
                if fits && best.is_none_or(|(_, _, other)| candidate.worth > other.worth) {
                    best = Some((tree, place, *candidate));
                }
            }
        }
        let Some((tree, place, candidate)) = best else { return };
        bytes += candidate.bytes;
        trees[tree].split(place, candidate);
    }
}

impl Growing {
    /// Create a tree of one leaf.
    pub(super) fn new(shape: &'static Shape, observations: Vec<Observation>) -> Self {
        let mut growing = Self { shape, observations, parts: vec![] };
        growing.cut();
        growing
    }

    /// Cuts the tree back to one leaf.
    pub(super) fn cut(&mut self) {
        let range = 0..self.observations.len();
        self.parts = vec![self.part(range)];
    }

    /// Return a leaf.
    fn part(&self, range: Range<usize>) -> Part {
        let mut histograms = Histograms::new(self.shape);
        for one in &self.observations[range.clone()] {
            histograms.add(0, one);
        }
        let is_relative = histograms.cheapest(0).1;
        let best = self.best_split(range.clone());
        Part::Leaf { range, is_relative, best }
    }

    /// About how long the text of the first leaf is.
    fn bytes(&self) -> f64 {
        let mut histograms = Histograms::new(self.shape);
        for one in &self.observations {
            histograms.add(0, one);
        }
        SPLIT_BYTES + OUTCOME_BYTES * histograms.outcomes(0) as f64
    }

    /// Makes two leaves of one.
    fn split(&mut self, place: usize, candidate: Candidate) {
        let Part::Leaf { range, .. } = &self.parts[place] else { return };
        let range = range.clone();
        let Candidate { known, bound, .. } = candidate;
        // Stable, so that the order is that of the trace on every platform.
        self.observations[range.clone()].sort_by_key(|one| one.known[known] > bound);
        let low = self.observations[range.clone()].partition_point(|one| one.known[known] <= bound);
        let middle = range.start + low;
        let first = self.parts.len();
        for range in [range.start..middle, middle..range.end] {
            self.parts.push(self.part(range));
        }
        self.parts[place] = Part::Split { known, bound, low: first, high: first + 1 };
    }

    /// Return the split of a leaf that saves most bits per byte, if any saves more than it costs.
    fn best_split(&self, range: Range<usize>) -> Option<Candidate> {
        let observations = &self.observations[range];
        let mut whole = Histograms::new(self.shape);
        for one in observations {
            whole.add(0, one);
        }
        let (before_bits, _) = whole.cheapest(0);
        if before_bits <= 0.0 {
            return None;
        }
        let before_outcomes = whole.outcomes(0);
        let mut best: Option<Candidate> = None;
        let mut groups = Histograms::new(self.shape);
        for known in 0..self.shape.known.len() {
            let bounds = bounds(observations, known);
            if bounds.is_empty() {
                continue;
            }
            groups.clear();
            let group_of = groups_of(&bounds);
            for one in observations {
                groups.add(group_of[usize::from(one.known[known])], one);
            }
            groups.accumulate(bounds.len() + 1);
            for (place, &bound) in bounds.iter().enumerate() {
                groups.subtract(&whole, place);
                let (low_bits, _) = groups.cheapest(place);
                let (high_bits, _) = groups.cheapest(REST);
                let saved = before_bits - low_bits - high_bits;
                let outcomes = groups.outcomes(place) + groups.outcomes(REST);
                let more = outcomes as f64 - before_outcomes as f64;
                let bytes = (SPLIT_BYTES + OUTCOME_BYTES * more).max(SPLIT_BYTES);
                let worth = saved / bytes;
                if worth > WORTH_MIN && best.is_none_or(|other| worth > other.worth) {
                    best = Some(Candidate { known, bound, worth, bytes });
                }
            }
        }
        best
    }

    /// Return the tree as it has grown.
    pub(super) fn finish(&self) -> Node {
        self.node(0)
    }

    fn node(&self, place: usize) -> Node {
        match &self.parts[place] {
            Part::Leaf { range, is_relative, .. } => {
                Node::Leaf(self.leaf(&self.observations[range.clone()], *is_relative))
            }
            &Part::Split { known, bound, low, high } => Node::Split {
                known,
                bound,
                low: Box::new(self.node(low)),
                high: Box::new(self.node(high)),
            },
        }
    }

    fn leaf(&self, observations: &[Observation], is_relative: bool) -> Leaf {
        let limit = self.shape.outcomes.max(self.shape.relative.unwrap_or(0));
        let mut counts = vec![0_u64; usize::from(limit)];
        for one in observations {
            counts[usize::from(one.outcomes[usize::from(is_relative)])] += u64::from(one.count);
        }
        let total: u64 = counts.iter().sum();
        let divisor = if self.shape.is_exact { 1.0 } else { (total as f64 / SHARES).max(1.0) };
        let limit = self.shape.rest(is_relative);
        let cards = merged(&counts, limit, self.shape.merge_bits).into_iter().filter_map(|bin| {
            let count = rounded(whole(bin.count as f64 / divisor + 0.5));
            (count > 0).then_some(Card { first: bin.first, last: bin.last, count })
        });
        Leaf { is_relative, cards: cards.collect() }
    }
}

impl Shape {
    /// Return the outcomes from which on they tell what is left, if there are any.
    const fn rest(&self, is_relative: bool) -> Option<Code> {
        match (self.has_rest, is_relative, self.relative) {
            (false, ..) => None,
            (true, true, Some(outcomes)) => Some(outcomes / 2),
            (true, ..) => Some(self.outcomes / 2),
        }
    }
}

/// Return a count with three digits that matter.
fn rounded(count: u64) -> u32 {
    let unit = 10_u64.pow(count.max(1).ilog10().saturating_sub(2));
    u32::try_from((count + unit / 2) / unit * unit).unwrap_or(u32::MAX)
}

/// Neighbouring outcomes and how often they came.
#[derive(Clone, Copy, Debug)]
struct Bin {
    first: Code,
    last: Code,
    count: u64,
}

impl Bin {
    /// Return the bits of the outcomes, but for those by which all bins differ from others.
    fn bits(&self) -> f64 {
        let width = f64::from(self.last - self.first + 1);
        self.count as f64 * libm::log2(width / self.count as f64)
    }

    fn with(&self, next: &Self) -> Self {
        Self { first: self.first, last: next.last, count: self.count + next.count }
    }
}

/// Merge bins of a histogram as far as possible: two become one if that costs fewer bits of the
/// outcomes than the text of a bin has. A bin of the rest is never merged with another.
fn merged(counts: &[u64], rest: Option<Code>, most: f64) -> Vec<Bin> {
    let outcomes = (0..).zip(counts).filter(|(_, count)| **count > 0);
    let mut bins: Vec<Bin> =
        outcomes.map(|(code, &count)| Bin { first: code, last: code, count }).collect();
    for bits_max in MERGE_BITS.into_iter().filter(|&bits| bits <= most) {
        let mut wider: Vec<Bin> = Vec::with_capacity(bins.len());
        for bin in bins {
            if let Some(before) = wider.last_mut() {
                let both = before.with(&bin);
                let is_same = rest.is_none_or(|rest| (before.first < rest) == (bin.first < rest));
                if is_same && both.bits() - before.bits() - bin.bits() <= bits_max {
                    *before = both;
                    continue;
                }
            }
            wider.push(bin);
        }
        bins = wider;
    }
    bins
}

/// Values of a known number at which a split is tried: at most 15, with about as many observations between
/// two of them.
fn bounds(observations: &[Observation], known: usize) -> Vec<u8> {
    let mut counts = [0_u64; 256];
    for one in observations {
        counts[usize::from(one.known[known])] += u64::from(one.weight);
    }
    let total: u64 = counts.iter().sum();
    let (mut bounds, mut sum, mut next) = (vec![], 0, 1);
    for (value, &count) in (0..=u8::MAX).zip(&counts) {
        sum += count;
        if sum == total || bounds.len() + 1 == GROUPS {
            break;
        }
        if count > 0 && sum * GROUPS as u64 >= next * total {
            bounds.push(value);
            next = sum * GROUPS as u64 / total + 1;
        }
    }
    bounds
}

/// Return the group of each value.
fn groups_of(bounds: &[u8]) -> [usize; 256] {
    std::array::from_fn(|value| bounds.partition_point(|&bound| usize::from(bound) < value))
}

/// Histograms of a few groups of observations, of both kinds of outcomes.
struct Histograms {
    is_relative: bool,
    /// Kinds of outcomes.
    kinds: usize,
    limit: usize,
    /// Weights by group, kind and outcome.
    weights: Vec<f64>,
}

/// The group of what is behind a bound.
const REST: usize = GROUPS;

impl Histograms {
    fn new(shape: &Shape) -> Self {
        let kinds = 1 + usize::from(shape.relative.is_some());
        let limit = usize::from(shape.outcomes.max(shape.relative.unwrap_or(0)));
        Self {
            is_relative: shape.is_relative,
            kinds,
            limit,
            weights: vec![0.0; (GROUPS + 1) * kinds * limit],
        }
    }

    fn clear(&mut self) {
        self.weights.fill(0.0);
    }

    fn of_group(&self, group: usize) -> Range<usize> {
        let size = self.kinds * self.limit;
        group * size..(group + 1) * size
    }

    #[inline]
    fn add(&mut self, group: usize, one: &Observation) {
        let begin = group * self.kinds * self.limit;
        let weight = f64::from(one.weight) * f64::from(one.count);
        for kind in 0..self.kinds {
            self.weights[begin + kind * self.limit + usize::from(one.wide[kind])] += weight;
        }
    }

    /// Adds to each group those before.
    fn accumulate(&mut self, groups: usize) {
        let size = self.kinds * self.limit;
        for place in size..groups * size {
            self.weights[place] += self.weights[place - size];
        }
    }

    /// Makes the rest that of a group in the whole.
    fn subtract(&mut self, whole: &Self, group: usize) {
        let (first, rest) = (self.of_group(group), self.of_group(REST));
        for (place, rest) in rest.enumerate() {
            self.weights[rest] = whole.weights[place] - self.weights[first.start + place];
        }
    }

    /// Return the bits that the outcomes of a group take in the cheaper of its kinds, and whether
    /// that is the relative one.
    fn cheapest(&self, group: usize) -> (f64, bool) {
        let all = &self.weights[self.of_group(group)];
        let mut kinds = all.chunks(self.limit).map(bits);
        let absolute = kinds.next().unwrap_or(0.0);
        match kinds.next() {
            Some(relative) if relative < absolute || self.is_relative => (relative, true),
            _ => (absolute, false),
        }
    }

    /// Return the number of outcomes a group has, of the kind that has fewer.
    fn outcomes(&self, group: usize) -> usize {
        let all = &self.weights[self.of_group(group)];
        let count = |kind: &[f64]| kind.iter().filter(|weight| **weight > 0.0).count();
        all.chunks(self.limit).map(count).min().unwrap_or(0)
    }
}

/// Return the bits that a histogram's outcomes take, if each is coded by its share.
fn bits(weights: &[f64]) -> f64 {
    let (mut total, mut sum) = (0.0, 0.0);
    for &weight in weights.iter().filter(|weight| **weight > 0.0) {
        total += weight;
        sum += weight * libm::log2(weight);
    }
    if total > 0.0 { total * libm::log2(total) - sum } else { 0.0 }
}
