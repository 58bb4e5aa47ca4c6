//! The two-tier LRU baselines: one order by last reference, cut twice.

use std::collections::{BTreeMap, BTreeSet};

use thermocline_core::{Access, Tier};

use super::{Counts, Model, Versions, join};

/// Two tiers over one order; where a page is follows from its place in the order.
pub(crate) struct TwoTier {
    is_inclusive: bool,
    /// The pages of both tiers, the newest first.
    order: Vec<u32>,
    /// Version in memory and on flash.
    memory: BTreeMap<u32, u64>,
    flash: BTreeMap<u32, u64>,
    memory_pages: usize,
    flash_pages: usize,
    versions: Versions,
    counts: Counts,
}

impl TwoTier {
    pub(crate) fn new(is_inclusive: bool, memory_pages: u32, flash_pages: u32) -> Self {
        Self {
            is_inclusive,
            order: vec![],
            memory: BTreeMap::new(),
            flash: BTreeMap::new(),
            memory_pages: memory_pages as usize,
            flash_pages: flash_pages as usize,
            versions: Versions::default(),
            counts: Counts::default(),
        }
    }

    fn write_flash(&mut self, page: u32, version: u64) {
        self.counts.flash_writes += 1;
        self.flash.insert(page, version);
    }

    fn destage(&mut self, page: u32, version: u64, is_from_flash: bool) {
        if version != self.versions.on_disk(page) {
            self.versions.write_to_disk(page, version);
            self.counts.disk_writes += 1;
            self.counts.flash_reads += u64::from(is_from_flash);
        }
    }

    /// Return the pages that memory, and flash, hold by the order.
    fn ranges(&self) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let flash = if self.is_inclusive {
            0..self.flash_pages
        } else {
            self.memory_pages..self.memory_pages + self.flash_pages
        };
        (0..self.memory_pages, flash)
    }
}

impl Model for TwoTier {
    fn access(&mut self, access: Access) {
        let page = access.page.0;
        let in_memory = self.memory.get(&page).copied();
        let on_flash = self.flash.get(&page).copied();
        let version = match (in_memory, on_flash) {
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
        if self.is_inclusive && self.flash_pages > 0 && on_flash.is_none() {
            self.write_flash(page, version);
        }
        let version = self.versions.serve(access, version);
        self.memory.insert(page, version);
        if !self.is_inclusive {
            self.flash.remove(&page);
        }
        self.order.retain(|known| *known != page);
        self.order.insert(0, page);
        let (memory_range, flash_range) = self.ranges();
        for place in (0..self.order.len()).rev() {
            let page = self.order[place];
            // Flash gives up first, so that a page that leaves both is written once.
            if !flash_range.contains(&place)
                && let Some(version) = self.flash.remove(&page)
                && !self.memory.contains_key(&page)
            {
                self.destage(page, version, true);
            }
            if !memory_range.contains(&place)
                && let Some(version) = self.memory.remove(&page)
            {
                match self.flash.get(&page) {
                    Some(&on_flash) if on_flash == version => {}
                    Some(_) => self.write_flash(page, version),
                    None if flash_range.contains(&place) => self.write_flash(page, version),
                    None => self.destage(page, version, false),
                }
            }
        }
        self.order.retain(|page| self.memory.contains_key(page) || self.flash.contains_key(page));
    }

    fn counts(&self) -> Counts {
        self.counts.clone()
    }

    fn held(&self, tier: Tier) -> BTreeSet<u32> {
        let copies = if tier == Tier::RAM { &self.memory } else { &self.flash };
        copies.keys().copied().collect()
    }

    /// Return the one order of both tiers, the newest page first.
    fn state(&self) -> String {
        join(self.order.iter().map(u32::to_string))
    }
}
