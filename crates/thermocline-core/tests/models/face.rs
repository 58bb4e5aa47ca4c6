//! FaCE: a list of entries (page, version, valid, referenced), and rules about both of its ends.

use std::collections::BTreeSet;

use thermocline_core::{Access, Tier};

use super::{Counts, LruMemory, Model, Versions, join};

#[derive(Clone, Copy, Debug)]
struct Entry {
    page: u32,
    version: u64,
    is_valid: bool,
    is_referenced: bool,
}

pub(crate) struct Face {
    memory: LruMemory,
    /// Front first.
    fifo: Vec<Entry>,
    memory_pages: usize,
    flash_pages: usize,
    group: usize,
    has_second_chance: bool,
    cache_clean: bool,
    versions: Versions,
    counts: Counts,
}

impl Face {
    pub(crate) fn new(
        memory_pages: u32,
        flash_pages: u32,
        group: usize,
        has_second_chance: bool,
        cache_clean: bool,
    ) -> Self {
        Self {
            memory: LruMemory::default(),
            fifo: vec![],
            memory_pages: memory_pages as usize,
            flash_pages: flash_pages as usize,
            group,
            has_second_chance,
            cache_clean,
            versions: Versions::default(),
            counts: Counts::default(),
        }
    }

    fn valid(&mut self, page: u32) -> Option<&mut Entry> {
        self.fifo.iter_mut().find(|entry| entry.page == page && entry.is_valid)
    }

    fn evict(&mut self, page: u32, version: u64) {
        let is_dirty = version != self.versions.on_disk(page);
        if self.valid(page).is_some_and(|entry| entry.version == version) {
            return;
        }
        if self.flash_pages == 0 || !(is_dirty || self.cache_clean) {
            if is_dirty {
                self.versions.write_to_disk(page, version);
                self.counts.disk_writes += 1;
            }
            return;
        }
        if let Some(older) = self.valid(page) {
            older.is_valid = false;
        }
        if self.fifo.len() == self.flash_pages {
            self.dequeue();
        }
        self.counts.flash_writes += 1;
        self.fifo.push(Entry { page, version, is_valid: true, is_referenced: false });
    }

    fn dequeue(&mut self) {
        let group: Vec<Entry> = self.fifo.drain(..self.group.min(self.fifo.len())).collect();
        let survives =
            |entry: &Entry| self.has_second_chance && entry.is_valid && entry.is_referenced;
        let all_survive = group.iter().all(survives);
        let (survivors, leavers): (Vec<Entry>, Vec<Entry>) = if all_survive {
            (group[1..].to_vec(), group[..1].to_vec())
        } else {
            group.iter().partition(|entry| survives(entry))
        };
        for leaver in leavers.iter().filter(|entry| entry.is_valid) {
            if leaver.version != self.versions.on_disk(leaver.page) {
                self.versions.write_to_disk(leaver.page, leaver.version);
                self.counts.flash_reads += 1;
                self.counts.disk_writes += 1;
            }
        }
        for survivor in survivors {
            self.counts.flash_writes += 1;
            self.fifo.push(Entry { is_referenced: false, ..survivor });
        }
    }
}

impl Model for Face {
    fn access(&mut self, access: Access) {
        let page = access.page.0;
        let version = if let Some(version) = self.memory.remove(page) {
            self.counts.memory_hits += 1;
            version
        } else if let Some(entry) = self.valid(page) {
            entry.is_referenced = true;
            let version = entry.version;
            self.counts.flash_hits += 1;
            self.counts.flash_reads += 1;
            version
        } else {
            self.counts.disk_hits += 1;
            self.counts.disk_reads += 1;
            self.versions.on_disk(page)
        };
        let version = self.versions.serve(access, version);
        self.memory.push(page, version);
        if let Some((victim, version)) = self.memory.overflow(self.memory_pages) {
            self.evict(victim, version);
        }
    }

    fn counts(&self) -> Counts {
        self.counts.clone()
    }

    fn held(&self, tier: Tier) -> BTreeSet<u32> {
        if tier == Tier::RAM {
            return self.memory.pages();
        }
        self.fifo.iter().filter(|entry| entry.is_valid).map(|entry| entry.page).collect()
    }

    /// Return the FIFO from front to rear: page, `v` and version, `x` if invalid, `r` if
    /// referenced.
    fn state(&self) -> String {
        join(self.fifo.iter().map(|entry| {
            let hole = if entry.is_valid { "" } else { "x" };
            let mark = if entry.is_referenced { "r" } else { "" };
            format!("{}v{}{hole}{mark}", entry.page, entry.version)
        }))
    }
}
