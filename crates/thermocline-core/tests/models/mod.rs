//! Executable specifications: small, slow, and written from the papers, not from the policies.
//!
//! Every copy holds a version number, a write makes a new one, and each model asserts that what it
//! serves is the newest. Orders are vectors, searches are scans.

mod arc_l2arc;
mod face;
mod hat;
mod hca;
mod lazy_cleaning;
mod lru;
pub(crate) mod pair;
mod shipped;
pub(crate) mod single;
mod tac;
mod two_tier;

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use thermocline_core::{Access, Op, Tier};

use arc_l2arc::{ArcL2arc, Feed, Swept};
use face::Face;
use hat::Hat;
use hca::Hca;
use lazy_cleaning::{Design, LazyCleaning};
use lru::TwoTier as LruTwoTier;
use tac::Tac;
use two_tier::TwoTier;

/// Return the specification of a registered policy, with the documented defaults for what is not
/// given.
///
/// Specifications look at page numbers: where ids differ from them, the driver translates.
pub(crate) fn build(
    policy: &str,
    given: &[(String, String)],
    sizes: [u32; 2],
    pages: u32,
) -> Box<dyn Model> {
    if let Some(model) = shipped::build(policy, given, sizes, pages) {
        return model;
    }
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
            let [nonhot, queue] =
                [value(given, "nonhot_ratio", 0.1), value(given, "queue_ratio", 2.0)];
            let zone: String = value(given, "nonhot_zone", "borrows".into());
            let switches = [value(given, "early_brush", false), zone == "fixed"];
            Box::new(Hat::new(memory, flash, nonhot, queue, switches))
        }
        "tac" => {
            let savings = [
                value(given, "random_saving_ms", 12.7 - 0.16),
                value(given, "sequential_saving_ms", 12.7 - 0.16),
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
            let keeps_counts = value(given, "counts", "forgotten".to_owned()) == "kept";
            Box::new(Hca::new(sizes, buffer, value(given, "pages_per_block", 64), keeps_counts))
        }
        "arc-l2arc" => Box::new(ArcL2arc::new(memory, flash, Some(feed(given)))),
        "arc" => Box::new(ArcL2arc::new(memory, 0, None)),
        "lru-inclusive" => Box::new(LruTwoTier::new(true, memory, flash)),
        "lru-exclusive" => Box::new(LruTwoTier::new(false, memory, flash)),
        "two-tier" => {
            let words = [
                ("ram", "lru"),
                ("flash", "lru"),
                ("inclusion", "lazy"),
                ("writes", "back"),
                ("admission", "all"),
            ];
            let words = words.map(|(name, default)| value(given, name, default.to_owned()));
            Box::new(TwoTier::new(words, sizes))
        }
        _ => single::build(policy, given, memory as usize),
    }
}

fn feed(given: &[(String, String)]) -> Feed {
    let is_swept = value(given, "feed", 2008) == 2026;
    let swept = Swept {
        headroom: value(given, "headroom", 8) * value::<usize>(given, "headroom_boost", 200),
        depth: value(given, "ext_headroom_pct", 25),
        dwpd_limit: value(given, "dwpd_limit", 100),
        reset: value(given, "marker_reset", 8),
        burst: (64 << 20) / value::<usize>(given, "page_bytes", 4096),
        day: 86_400,
        hand: 0,
        has_swept_once: false,
        markers: [(0, 0); 2],
        written: 0,
        feeds: 0,
        written_today: 0,
        left_over: 0,
    };
    Feed {
        swept: is_swept.then_some(swept),
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

/// Counts in the worked examples.
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
    /// Return the pages that memory, or flash, holds a copy of that can still be read.
    fn held(&self, tier: Tier) -> BTreeSet<u32>;
    /// Show the state that only the worked examples' notation can express: orders, status letters,
    /// holes.
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

    /// Return the version after an access to a copy of `version`, which must be the newest.
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
