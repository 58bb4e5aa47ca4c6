//! RAM over the disk, for any rule of what it keeps.

use std::collections::{BTreeMap, BTreeSet};

use thermocline_core::{Access, Op, Tier};

use super::super::{Counts, Model, Versions};
use super::{Outcome, Rule};

pub(super) struct OneTier {
    rule: Box<dyn Rule>,
    writes_through: bool,
    /// The version of each page in memory.
    memory: BTreeMap<u32, u64>,
    versions: Versions,
    counts: Counts,
}

impl OneTier {
    pub(super) fn new(rule: Box<dyn Rule>) -> Self {
        Self {
            rule,
            writes_through: false,
            memory: BTreeMap::new(),
            versions: Versions::default(),
            counts: Counts::default(),
        }
    }

    pub(super) fn writing_through(self, writes_through: bool) -> Self {
        Self { writes_through, ..self }
    }

    fn write_to_disk(&mut self, page: u32, version: u64) {
        if version != self.versions.on_disk(page) {
            self.versions.write_to_disk(page, version);
            self.counts.disk_writes += 1;
        }
    }
}

impl Model for OneTier {
    fn access(&mut self, access: Access) {
        let page = access.page.0;
        let outcome = self.rule.refer(page);
        let held = self.memory.get(&page).copied();
        assert_eq!(held.is_some(), matches!(outcome, Outcome::Hit), "a hit is in memory");
        match held {
            Some(_) => self.counts.memory_hits += 1,
            None => self.counts.disk_hits += 1,
        }
        let version = held.unwrap_or_else(|| self.versions.on_disk(page));
        let version = self.versions.serve(access, version);
        if let Outcome::Refused = outcome {
            match access.op {
                Op::Read => self.counts.disk_reads += 1,
                Op::Write => self.write_to_disk(page, version),
            }
            return;
        }
        self.memory.insert(page, version);
        if access.op == Op::Write && self.writes_through {
            self.write_to_disk(page, version);
        }
        if let Outcome::Admitted(victim) = outcome {
            self.counts.disk_reads += 1;
            if let Some(victim) = victim {
                assert_ne!(victim, page, "what comes stays, or is refused");
                let version = self.memory.remove(&victim).expect("what leaves was there");
                self.write_to_disk(victim, version);
            }
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
