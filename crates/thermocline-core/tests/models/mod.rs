//! Executable specifications: small, slow, and written from the sheets, not from the policies.
//!
//! Every copy holds a version number, a write makes a new one, and each model asserts that what it
//! serves is the newest. Orders are vectors, searches are scans.

mod arc_l2arc;
mod face;
mod hat;
mod hca;
mod lazy_cleaning;
mod lru;
mod one_tier;
pub(crate) mod pair;
mod rules;
mod tac;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::str::FromStr;

use thermocline_core::random::SplitMix64;
use thermocline_core::{Access, Op, Tier};

use arc_l2arc::{ArcL2arc, Feed};
use face::Face;
use hat::Hat;
use hca::Hca;
use lazy_cleaning::{Design, LazyCleaning};
use lru::TwoTier;
use one_tier::{OneTier, Rule};
use rules::{Clock, Lfu, Lru2, Mq, OneQueue, S3Fifo, Sampled, Sieve, Slru, TwoQ};
use tac::Tac;

/// The specification of a registered policy, with the sheets' defaults for what is not given.
///
/// Specifications look at page numbers: where ids differ from them, the driver translates.
pub(crate) fn build(policy: &str, given: &[(String, String)], sizes: [u32; 2]) -> Box<dyn Model> {
    let [memory, flash] = sizes;
    let lazy_cleaning = |design| {
        let shares = [
            value(given, "filling_threshold", 0.95),
            value(given, "dirty_threshold", 0.5),
            value(given, "low_mark", 0.99),
        ];
        LazyCleaning::new(design, memory, flash, shares, value(given, "group_pages", 32))
    };
    let face = |group, has_second_chance| {
        Face::new(memory, flash, group, has_second_chance, value(given, "cache_clean", true))
    };
    match policy {
        "hat" => {
            let is_early = value(given, "early_brush", false);
            Box::new(Hat::new(memory, flash, value(given, "nonhot_ratio", 0.1), is_early))
        }
        "tac" => {
            let savings = [
                value(given, "random_saving_ms", 12.7 - 0.16),
                value(given, "sequential_saving_ms", 0.04 - 0.16),
            ];
            let aging_interval = value(given, "aging_interval", 0);
            Box::new(Tac::new(
                memory,
                flash,
                value(given, "extent_pages", 32),
                aging_interval,
                savings,
            ))
        }
        "lc" => Box::new(lazy_cleaning(Design::Lazy)),
        "dw" => Box::new(lazy_cleaning(Design::Dual)),
        "cw" => Box::new(lazy_cleaning(Design::Clean)),
        "face" => Box::new(face(1, false)),
        "face-gr" => Box::new(face(value(given, "group_pages", 16), false)),
        "face-gsc" => Box::new(face(value(given, "group_pages", 16), true)),
        "hca" => {
            let buffer = value(given, "buffer_pages", 16);
            Box::new(Hca::new(memory, buffer, flash, value(given, "pages_per_block", 64)))
        }
        "arc-l2arc" => Box::new(ArcL2arc::new(memory, flash, Some(feed(given)))),
        "arc" => Box::new(ArcL2arc::new(memory, 0, None)),
        "lru-inclusive" => Box::new(TwoTier::new(true, memory, flash)),
        "lru-exclusive" => Box::new(TwoTier::new(false, memory, flash)),
        _ => build_one_tier(policy, given, memory as usize),
    }
}

/// The specification of a policy of RAM over the disk.
fn build_one_tier(policy: &str, given: &[(String, String)], capacity: usize) -> Box<dyn Model> {
    match policy {
        "lfu" => {
            let is_aging = value(given, "aging", "none".to_owned()) == "dynamic";
            let writes_through = value(given, "writes", "through".to_owned()) == "through";
            let lfu = Lfu { capacity, is_aging, pages: vec![], age: 0, now: 0 };
            Box::new(OneTier::new(lfu).writing_through(writes_through))
        }
        "fifo" | "lru" | "mru" => {
            let (is_renewed, is_newest_evicted) = (policy != "fifo", policy == "mru");
            boxed(OneQueue { capacity, is_renewed, is_newest_evicted, queue: vec![] })
        }
        "clock" => {
            let counter_max = (1 << value(given, "bits", 1)) - 1;
            boxed(Clock { capacity, counter_max, ring: VecDeque::new() })
        }
        "random" | "hyperbolic" => {
            let sample = (policy == "hyperbolic").then(|| value(given, "sample", 64));
            let draws = SplitMix64::new(value(given, "seed", 1));
            boxed(Sampled { capacity, sample, frames: vec![], now: 0, draws })
        }
        "sieve" => boxed(Sieve { capacity, queue: vec![], hand: 0 }),
        "lru-2" => boxed(Lru2 {
            capacity,
            correlated: value(given, "correlated", 0),
            retained: value(given, "retained", u64::MAX),
            buffer: vec![],
            known: BTreeMap::new(),
            now: 0,
        }),
        "slru" => {
            let segments: usize = value(given, "segments", 2);
            let protected_share: f64 = value(given, "protected_share", 0.8);
            let lowest = part(capacity, 1.0 - protected_share);
            boxed(Slru {
                capacity,
                upper: part(capacity, protected_share / (segments - 1) as f64),
                lowest: value(given, "fill_upwards", false).then_some(lowest),
                segments: vec![vec![]; segments],
            })
        }
        _ => build_with_ghosts(policy, given, capacity),
    }
}

/// The same, of those that remember pages.
fn build_with_ghosts(policy: &str, given: &[(String, String)], capacity: usize) -> Box<dyn Model> {
    match policy {
        "2q" => boxed(TwoQ {
            capacity,
            k_in: part(capacity, value(given, "in_share", 0.25)),
            k_out: part(capacity, value(given, "out_share", 0.5)),
            a1_in: vec![],
            a1_out: vec![],
            a_m: vec![],
        }),
        "s3-fifo" => boxed(S3Fifo {
            capacity,
            small_size: part(capacity, value(given, "small_share", 0.1)).max(1),
            ghost_size: part(capacity, value(given, "ghost_share", 0.9)),
            promote_at: value(given, "promote_at", 2),
            fills_main: value(given, "fill_main", false),
            small: vec![],
            main: vec![],
            ghosts: vec![],
        }),
        "mq" => boxed(Mq {
            capacity,
            ghosts_max: part(capacity, value(given, "ghosts", 4.0)),
            life_time: given
                .iter()
                .any(|(name, _)| name == "life_time")
                .then(|| value(given, "life_time", 0)),
            queues: vec![vec![]; value(given, "queues", 8)],
            ghosts: vec![],
            known: BTreeMap::new(),
            distances: vec![0; 64],
            peak: 0,
            now: 0,
        }),
        _ => panic!("{policy} has no executable specification"),
    }
}

fn boxed(rule: impl Rule + 'static) -> Box<dyn Model> {
    Box::new(OneTier::new(rule))
}

/// A share of some pages, rounded down.
fn part(pages: usize, share: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few pages")]
    let part = (pages as f64 * share) as usize;
    part
}

fn feed(given: &[(String, String)]) -> Feed {
    Feed {
        every: value(given, "feed_every", 20),
        write_max: value(given, "write_max", 8),
        write_boost: value(given, "write_boost", 8),
        headroom: value(given, "headroom", 2),
        warm_up: value(given, "warm_up", true),
        reuse_holes: value(given, "reuse_holes", false),
    }
}

fn value<T: FromStr>(given: &[(String, String)], name: &str, default: T) -> T {
    let Some((_, text)) = given.iter().find(|(known, _)| known == name) else { return default };
    text.parse().unwrap_or_else(|_| panic!("`{text}` is no value of `{name}`"))
}

/// What the sheets count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) memory_hits: u64,
    pub(crate) flash_hits: u64,
    pub(crate) disk_hits: u64,
    pub(crate) flash_reads: u64,
    pub(crate) flash_writes: u64,
    pub(crate) disk_reads: u64,
    pub(crate) disk_writes: u64,
}

/// A specification that can be stepped.
pub(crate) trait Model {
    fn access(&mut self, access: Access);
    fn counts(&self) -> Counts;
    /// The pages that memory, or flash, holds a copy of that can still be read.
    fn held(&self, tier: Tier) -> BTreeSet<u32>;
    /// What only the sheet's own notation can say: orders, status letters, holes.
    fn state(&self) -> String;
}

/// The newest version of each page, and the disk's.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    newest: BTreeMap<u32, u64>,
    disk: BTreeMap<u32, u64>,
}

impl Versions {
    pub(crate) fn newest(&self, page: u32) -> u64 {
        self.newest.get(&page).copied().unwrap_or(0)
    }

    pub(crate) fn on_disk(&self, page: u32) -> u64 {
        self.disk.get(&page).copied().unwrap_or(0)
    }

    pub(crate) fn write_to_disk(&mut self, page: u32, version: u64) {
        assert!(version > self.on_disk(page), "only what is dirty is written to disk");
        self.disk.insert(page, version);
    }

    /// The version after an access to a copy of `version`, which must be the newest.
    pub(crate) fn serve(&mut self, access: Access, version: u64) -> u64 {
        let page = access.page.0;
        assert_eq!(version, self.newest(page), "the newest version is served");
        if access.op == Op::Write {
            self.newest.insert(page, version + 1);
        }
        self.newest(page)
    }
}

/// Words with a space between them.
fn join(words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().collect::<Vec<_>>().join(" ")
}

/// Pages with their versions, the least recently used first.
#[derive(Debug, Default)]
pub(crate) struct LruMemory(Vec<(u32, u64)>);

impl LruMemory {
    pub(crate) fn remove(&mut self, page: u32) -> Option<u64> {
        let place = self.0.iter().position(|entry| entry.0 == page)?;
        Some(self.0.remove(place).1)
    }

    pub(crate) fn push(&mut self, page: u32, version: u64) {
        self.0.push((page, version));
    }

    pub(crate) fn pages(&self) -> BTreeSet<u32> {
        self.0.iter().map(|entry| entry.0).collect()
    }

    /// Takes the least recently used page out if there are more than `capacity`.
    pub(crate) fn overflow(&mut self, capacity: usize) -> Option<(u32, u64)> {
        (self.0.len() > capacity).then(|| self.0.remove(0))
    }
}
