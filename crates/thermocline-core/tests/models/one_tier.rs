//! RAM over the disk, for any rule of what it keeps.

use std::collections::{BTreeMap, BTreeSet};

use thermocline_core::{Access, Op, Tier};

use super::{Counts, Model, Versions};

/// A rule of which pages a cache keeps.
pub(crate) trait Rule {
    /// A reference to a page, which the cache holds afterwards; the page that left it, if one did.
    fn refer(&mut self, page: u32) -> Option<u32>;

    /// What there is to see, in the rule's own notation.
    fn state(&self) -> String;
}

pub(crate) struct OneTier<R> {
    rule: R,
    writes_through: bool,
    /// The version of each page in memory.
    memory: BTreeMap<u32, u64>,
    versions: Versions,
    counts: Counts,
}

impl<R: Rule> OneTier<R> {
    pub(crate) fn new(rule: R) -> Self {
        Self {
            rule,
            writes_through: false,
            memory: BTreeMap::new(),
            versions: Versions::default(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn writing_through(self, writes_through: bool) -> Self {
        Self { writes_through, ..self }
    }

    fn write_to_disk(&mut self, page: u32, version: u64) {
        if version != self.versions.on_disk(page) {
            self.versions.write_to_disk(page, version);
            self.counts.disk_writes += 1;
        }
    }
}

impl<R: Rule> Model for OneTier<R> {
    fn access(&mut self, access: Access) {
        let page = access.page.0;
        let evicted = self.rule.refer(page);
        let held = self.memory.get(&page).copied();
        if held.is_some() {
            self.counts.memory_hits += 1;
            assert_eq!(evicted, None, "a hit evicts nothing");
        } else {
            self.counts.disk_hits += 1;
            self.counts.disk_reads += 1;
        }
        let version = held.unwrap_or_else(|| self.versions.on_disk(page));
        let version = self.versions.serve(access, version);
        self.memory.insert(page, version);
        if access.op == Op::Write && self.writes_through {
            self.write_to_disk(page, version);
        }
        if let Some(evicted) = evicted {
            let version = self.memory.remove(&evicted).expect("what leaves was there");
            self.write_to_disk(evicted, version);
        }
    }

    fn counts(&self) -> Counts {
        self.counts.clone()
    }

    fn held(&self, tier: Tier) -> BTreeSet<u32> {
        if tier == Tier::RAM { self.memory.keys().copied().collect() } else { BTreeSet::new() }
    }

    fn state(&self) -> String {
        self.rule.state()
    }
}
