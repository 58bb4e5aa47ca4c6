//! Profiles: a trace in a few KB, from which traces like it are generated.
//!
//! Neighbouring pages that are always accessed one after the other form an extent. The model is that of a
//! life of each extent: it is born at its first access, ends at its last one, and is accessed a drawn number
//! of times in between. At each access but the last two, the gap to the next one is drawn from what is
//! known: the time, how long and how often the extent will still be accessed, its operation and its gap
//! before. Lives of all extents merge in the order of time, each access being one unit of it. So a profile
//! keeps how often pages are accessed, for how long, at which distances, and when, all together.
//!
//! Distributions are decision trees, which ask for those of the known numbers that matter in this
//! trace. The profile holds no page number and no order of pages of the trace.

mod draw;
mod file;
mod fit;
mod generator;
mod scale;
mod tree;

use scale::codes;
use tree::{CARD_BITS, Node, Shape};

pub use file::ProfileError;
pub use fit::FitOptions;
pub use generator::{ProfileGenerator, Scale};

/// Buckets per octave, as a power of two, of what trees draw and of what they ask for.
const FINE: u32 = 4;
const WIDE: u32 = 2;
/// Number of parts of a trace, of equally many accesses each, that describe its times.
const PARTS: usize = 64;
/// Pages of an extent, at most.
const EXTENT_PAGES_MAX: u64 = 16;
/// Codes of this and above tell what is left of a time instead of what is taken of it. They are used if
/// that is less than a half: the last gap of a life is as exact as the others.
const REST: scale::Code = rest_code::<FINE>();

const fn rest_code<const BITS: u32>() -> scale::Code {
    codes::<BITS>()
}

/// Number of accesses left at which a gap may depend on that number.
const FEW: u64 = 8;
/// Value of `op_before` at the first access.
const NO_OP: u8 = 2;
/// A gap of once the mean is this many units of the relative code.
const RATIO_UNITS: f64 = 16384.0;
/// Relative gaps are at most this many units.
const RATIO_MAX: u64 = 1 << 36;
/// Code of the rest, as [`REST`], for relative gaps.
const RELATIVE_REST: scale::Code = relative_rest_code::<FINE>();

const fn relative_rest_code<const BITS: u32>() -> scale::Code {
    scale::code::<BITS>(RATIO_MAX) + 1
}

/// The unit of the times of parts, as a share of the whole.
const TIME_SHARES: u32 = 100_000;
/// Classes of the share of writes: none, quarters, all.
const ONLY_READS: u8 = 0;
const ONLY_WRITES: u8 = 5;

/// The distributions of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Draw {
    /// Number of pages an extent has.
    Pages,
    /// Number of its accesses.
    Accesses,
    /// Its class by the share of writes.
    Ops,
    /// Time from its first access to its last one.
    Life,
    /// Distance from one access to the next, if more than [`FEW`] are left.
    Gap,
    /// The same if fewer are left, and not only one.
    LateGap,
    /// Operation of an access.
    Op,
    /// Time from one request to the next.
    Wait,
}

const DRAWS: [Draw; 8] = [
    Draw::Pages,
    Draw::Accesses,
    Draw::Ops,
    Draw::Life,
    Draw::Gap,
    Draw::LateGap,
    Draw::Op,
    Draw::Wait,
];

/// Known values when a gap is drawn.
const GAP_KNOWN: [&str; 8] =
    ["now", "mean", "left", "accesses", "ops", "op-before", "gap-before", "pages"];

const SHAPES: [Shape; 8] = [
    Shape {
        name: "pages",
        known: &["born"],
        outcomes: scale::code::<FINE>(EXTENT_PAGES_MAX) + 1,
        relative: None,
        is_relative: false,
        has_rest: false,
        merge_bits: 0.0,
        is_exact: true,
    },
    Shape {
        name: "accesses",
        known: &["born", "pages"],
        outcomes: codes::<FINE>(),
        relative: None,
        is_relative: false,
        has_rest: false,
        merge_bits: 1.0,
        is_exact: true,
    },
    Shape {
        name: "ops",
        known: &["born", "pages", "accesses"],
        outcomes: ONLY_WRITES as u16 + 1,
        relative: None,
        is_relative: false,
        has_rest: false,
        merge_bits: 0.0,
        is_exact: true,
    },
    Shape {
        name: "life",
        known: &["born", "pages", "accesses", "ops"],
        outcomes: 2 * REST,
        relative: None,
        is_relative: false,
        has_rest: true,
        merge_bits: CARD_BITS,
        is_exact: true,
    },
    Shape {
        name: "gap",
        known: &GAP_KNOWN,
        outcomes: codes::<FINE>(),
        relative: Some(RELATIVE_REST),
        is_relative: true,
        has_rest: false,
        merge_bits: CARD_BITS,
        is_exact: false,
    },
    Shape {
        name: "late-gap",
        known: &GAP_KNOWN,
        outcomes: 2 * REST,
        relative: Some(2 * RELATIVE_REST),
        is_relative: false,
        has_rest: true,
        merge_bits: CARD_BITS,
        is_exact: false,
    },
    Shape {
        name: "op",
        known: &["now", "gap", "left", "accesses", "ops", "op-before", "pages"],
        outcomes: 2,
        relative: None,
        is_relative: false,
        has_rest: false,
        merge_bits: 0.0,
        is_exact: false,
    },
    Shape {
        name: "wait",
        known: &["now", "wait-before"],
        outcomes: RELATIVE_REST,
        relative: None,
        is_relative: false,
        has_rest: false,
        merge_bits: CARD_BITS,
        is_exact: false,
    },
];

/// A trace in a few KB.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Bytes per page.
    page_size_bytes: u64,
    /// Counts of the trace.
    counts: Counts,
    /// Extents whose first access lies in each part.
    born: Vec<u64>,
    /// Duration of the trace.
    duration_ns: u64,
    /// Duration of each part, in shares of 1 / [`TIME_SHARES`]; empty if there are no times.
    part_durations: Vec<u32>,
    /// Locations of pages.
    space: Space,
    /// One tree for each draw.
    trees: Vec<Node>,
}

/// Counts of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    accesses: u64,
    writes: u64,
    requests: u64,
    footprint_pages: u64,
}

/// Locations of pages, and the pages that one request accesses.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
struct Space {
    /// Extents that begin where the extent born before ends / extents.
    continues: f64,
    /// Pages of blocks of 64 pages that are accessed / pages of these blocks.
    filled: f64,
    /// Mean pages of extents of which each continues the one before.
    chain_pages: f64,
    /// Reads of an extent's next page in the same request / all of them.
    joined_reads: f64,
    /// The same for writes.
    joined_writes: f64,
}

impl Profile {
    /// Return the number of accesses of the trace that it was made from.
    pub const fn accesses(&self) -> u64 {
        self.counts.accesses
    }

    /// Return the number of pages that these were to.
    pub const fn footprint_pages(&self) -> u64 {
        self.counts.footprint_pages
    }

    /// Return the number of accesses that wrote.
    pub const fn writes(&self) -> u64 {
        self.counts.writes
    }

    /// Return the number of requests of the trace.
    pub const fn requests(&self) -> u64 {
        self.counts.requests
    }

    /// Return the number of bytes per page.
    pub const fn page_size_bytes(&self) -> u64 {
        self.page_size_bytes
    }

    /// Return the begin and duration of a part, in nanoseconds; `None` if there are no times.
    fn part_time(&self, part: usize) -> Option<(u64, u64)> {
        let share = |shares: u64| {
            let ns = u128::from(self.duration_ns) * u128::from(shares) / u128::from(TIME_SHARES);
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        let before = self.part_durations.get(..part)?.iter().map(|&share| u64::from(share)).sum();
        Some((share(before), share(u64::from(*self.part_durations.get(part)?))))
    }

    fn tree(&self, draw: Draw) -> &Node {
        &self.trees[draw as usize]
    }
}

/// Return the class of an extent by the share of its accesses that write.
fn ops_class(writes: u64, accesses: u64) -> u8 {
    match writes {
        0 => ONLY_READS,
        all if all == accesses => ONLY_WRITES,
        some => u8::try_from(4 * some / accesses).unwrap_or(3).min(3) + 1,
    }
}

/// Return the code of a part of some time: of what is taken, or of what is left if that is less.
fn code_of_part<const BITS: u32>(taken: u64, whole: u64) -> scale::Code {
    let left = whole.saturating_sub(taken);
    if taken <= left {
        scale::code::<BITS>(taken)
    } else {
        rest_code::<BITS>() + scale::code::<BITS>(left)
    }
}

/// Return the code of a gap, whose draw a tree of one of these shapes makes.
fn code_of_gap<const BITS: u32>(gap: u64, rest: u64, draw: Draw) -> scale::Code {
    if draw == Draw::LateGap { code_of_part::<BITS>(gap, rest) } else { scale::code::<BITS>(gap) }
}

/// Return the same in multiples of a mean.
fn relative_code_of_gap<const BITS: u32>(
    gap: u64,
    rest: u64,
    mean: f64,
    draw: Draw,
) -> scale::Code {
    let left = rest.saturating_sub(gap);
    let relative = |time: u64| {
        let units = scale::whole(time as f64 / mean * RATIO_UNITS);
        scale::code::<BITS>(units.min(RATIO_MAX))
    };
    if draw != Draw::LateGap || gap <= left {
        relative(gap)
    } else {
        relative_rest_code::<BITS>() + relative(left)
    }
}

/// Return the tree that draws a gap when `left` accesses are left.
const fn gap_draw(left: u64) -> Draw {
    if left > FEW { Draw::Gap } else { Draw::LateGap }
}

/// Return a number as one that trees may ask for.
fn known(number: u64) -> u8 {
    u8::try_from(scale::code::<WIDE>(number)).unwrap_or(u8::MAX)
}

/// Return the part of a time in which a place of it lies.
fn part_of(place: u64, whole: u64) -> u8 {
    let part = u128::from(place) * PARTS as u128 / u128::from(whole.max(1));
    u8::try_from(part.min(PARTS as u128 - 1)).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests;
