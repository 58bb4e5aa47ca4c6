//! A queue in memory over one on flash, and what they have to do with each other.

use std::collections::BTreeSet;

use thermocline_core::{Access, Op, Tier};

use super::{Counts, Model, Versions, join};

/// A place in a FIFO whose page was taken out: it is free when its turn comes.
const HOLE: (u32, u64) = (u32::MAX, 0);

/// Pages with their versions, the newest last.
struct Queue {
    /// lru, fifo or mru.
    rule: String,
    capacity: usize,
    pages: Vec<(u32, u64)>,
}

pub(crate) struct TwoTier {
    inclusion: String,
    writes: String,
    memory: Queue,
    flash: Queue,
    /// Pages that were offered to flash once, the newest last, if that is not enough.
    offered: Option<Vec<u32>>,
    versions: Versions,
    counts: Counts,
}

impl Queue {
    fn version(&self, page: u32) -> Option<u64> {
        self.pages.iter().find(|entry| entry.0 == page).map(|entry| entry.1)
    }

    fn refer(&mut self, page: u32) {
        if let Some(version) = self.version(page).filter(|_| self.rule != "fifo") {
            self.remove(page);
            self.pages.push((page, version));
        }
    }

    fn remove(&mut self, page: u32) -> Option<u64> {
        let place = self.pages.iter().position(|entry| entry.0 == page)?;
        let (_, version) = if self.rule == "fifo" {
            std::mem::replace(&mut self.pages[place], HOLE)
        } else {
            self.pages.remove(place)
        };
        Some(version)
    }

    /// Adds a page; returns the one that had to leave for it.
    fn insert(&mut self, page: u32, version: u64) -> Option<(u32, u64)> {
        let is_full = self.pages.len() == self.capacity;
        let victim = if self.rule == "mru" { self.pages.len().saturating_sub(1) } else { 0 };
        let evicted = is_full.then(|| self.pages.remove(victim));
        self.pages.push((page, version));
        evicted.filter(|&left| left != HOLE)
    }

    fn renew(&mut self, page: u32, version: u64) {
        let entry = self.pages.iter_mut().find(|entry| entry.0 == page);
        entry.expect("it is there").1 = version;
    }
}

impl TwoTier {
    /// `words`: the rules of memory and flash, the inclusion, the writes, the admission.
    pub(crate) fn new(words: [String; 5], sizes: [u32; 2]) -> Self {
        let [ram, flash, inclusion, writes, admission] = words;
        let queue = |rule, capacity| Queue { rule, capacity: capacity as usize, pages: vec![] };
        Self {
            inclusion,
            writes,
            memory: queue(ram, sizes[0]),
            flash: queue(flash, sizes[1]),
            offered: (admission == "second-access").then(Vec::new),
            versions: Versions::default(),
            counts: Counts::default(),
        }
    }

    fn destage(&mut self, page: u32, version: u64, is_from_flash: bool) {
        if version != self.versions.on_disk(page) {
            self.versions.write_to_disk(page, version);
            self.counts.disk_writes += 1;
            self.counts.flash_reads += u64::from(is_from_flash);
        }
    }

    /// Return `true` if flash takes a page now.
    fn is_admitted(&mut self, page: u32) -> bool {
        let Some(offered) = &mut self.offered else { return true };
        if let Some(place) = offered.iter().position(|&known| known == page) {
            offered.remove(place);
            return true;
        }
        offered.push(page);
        if offered.len() > self.flash.capacity {
            offered.remove(0);
        }
        false
    }

    fn insert_into_flash(&mut self, page: u32, version: u64) {
        self.counts.flash_writes += 1;
        let Some((victim, version)) = self.flash.insert(page, version) else { return };
        let in_memory = self.memory.version(victim);
        match in_memory {
            Some(newest) if self.inclusion == "inclusive" => {
                self.memory.remove(victim);
                self.destage(victim, newest, false);
            }
            Some(_) => {}
            None => self.destage(victim, version, true),
        }
    }

    fn leave_memory(&mut self, page: u32, version: u64) {
        match self.flash.version(page) {
            Some(same) if same == version => {}
            Some(_) => {
                self.flash.renew(page, version);
                self.counts.flash_writes += 1;
            }
            None if self.inclusion != "inclusive"
                && self.flash.capacity > 0
                && self.is_admitted(page) =>
            {
                self.insert_into_flash(page, version);
            }
            None => self.destage(page, version, false),
        }
    }
}

impl Model for TwoTier {
    fn access(&mut self, access: Access) {
        let page = access.page.0;
        let is_write = access.op == Op::Write;
        if is_write && self.writes == "around" {
            let [in_memory, on_flash] =
                [&mut self.memory, &mut self.flash].map(|queue| queue.remove(page).is_some());
            let hits = match (in_memory, on_flash) {
                (true, _) => &mut self.counts.memory_hits,
                (false, true) => &mut self.counts.flash_hits,
                (false, false) => &mut self.counts.disk_hits,
            };
            *hits += 1;
            let version = self.versions.serve(access, self.versions.on_disk(page));
            self.destage(page, version, false);
            return;
        }
        let (in_memory, on_flash) = (self.memory.version(page), self.flash.version(page));
        if in_memory.is_none() || self.inclusion == "inclusive" {
            self.flash.refer(page);
        }
        let held = match (in_memory, on_flash) {
            (Some(version), _) => {
                self.counts.memory_hits += 1;
                version
            }
            (None, Some(version)) => {
                self.counts.flash_hits += 1;
                self.counts.flash_reads += 1;
                version
            }
            (None, None) => {
                self.counts.disk_hits += 1;
                self.counts.disk_reads += 1;
                self.versions.on_disk(page)
            }
        };
        let version = self.versions.serve(access, held);
        if is_write && self.writes == "through" {
            self.destage(page, version, false);
        }
        if in_memory.is_some() {
            self.memory.refer(page);
            self.memory.renew(page, version);
            return;
        }
        if self.inclusion == "exclusive" {
            self.flash.remove(page);
        }
        if let Some((victim, version)) = self.memory.insert(page, version) {
            self.leave_memory(victim, version);
        }
        if self.inclusion == "inclusive"
            && on_flash.is_none()
            && self.flash.capacity > 0
            && self.is_admitted(page)
        {
            self.insert_into_flash(page, version);
        }
    }

    fn counts(&self) -> Counts {
        self.counts.clone()
    }

    fn held(&self, tier: Tier) -> BTreeSet<u32> {
        let queue = if tier == Tier::RAM { &self.memory } else { &self.flash };
        queue.pages.iter().filter(|&&entry| entry != HOLE).map(|entry| entry.0).collect()
    }

    /// Return the pages of memory, then those of flash, the newest last.
    fn state(&self) -> String {
        let words = |queue: &Queue| join(queue.pages.iter().map(|entry| entry.0.to_string()));
        format!("{} | {}", words(&self.memory), words(&self.flash))
    }
}
