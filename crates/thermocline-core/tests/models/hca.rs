//! HCA: three lists that no page is in twice; without buffer and flash, LFU.

use std::collections::{BTreeMap, BTreeSet};

use thermocline_core::{Access, Op, Tier};

use super::{Counts, Model, Versions, join};

pub(crate) struct Hca {
    level: BTreeSet<u32>,
    /// The order in which pages entered, and leave.
    buffer: Vec<u32>,
    /// Least recently used first.
    flash: Vec<u32>,
    /// Per cached page: its count, and when it was last used.
    uses: BTreeMap<u32, (u64, u64)>,
    now: u64,
    level_pages: usize,
    buffer_pages: usize,
    flash_pages: usize,
    pages_per_block: u32,
    /// `true` if counts outlive a page's stay in the first level.
    keeps_counts: bool,
    versions: Versions,
    counts: Counts,
}

impl Hca {
    pub(crate) fn new(
        [memory, flash]: [u32; 2],
        buffer: u32,
        pages_per_block: u32,
        keeps_counts: bool,
    ) -> Self {
        let buffer = buffer.min(memory - 1);
        Self {
            level: BTreeSet::new(),
            buffer: vec![],
            flash: vec![],
            uses: BTreeMap::new(),
            now: 0,
            level_pages: (memory - buffer) as usize,
            buffer_pages: buffer as usize,
            flash_pages: flash as usize,
            pages_per_block,
            keeps_counts,
            versions: Versions::default(),
            counts: Counts::default(),
        }
    }

    /// Return the pages of the largest group, and among those of the one whose page entered first.
    fn largest_group(&self) -> Vec<u32> {
        let block = |page: &u32| page / self.pages_per_block;
        let group = |first: &u32| -> Vec<u32> {
            self.buffer.iter().filter(|page| block(page) == block(first)).copied().collect()
        };
        let groups: Vec<Vec<u32>> = self.buffer.iter().map(group).collect();
        let largest = groups.iter().map(Vec::len).max().unwrap_or(0);
        groups.into_iter().find(|group| group.len() == largest).unwrap_or_default()
    }

    fn empty_buffer(&mut self) {
        for page in self.largest_group() {
            self.buffer.retain(|&known| known != page);
            if self.flash_pages == 0 {
                self.uses.remove(&page);
                continue;
            }
            self.counts.flash_writes += 1;
            self.flash.push(page);
            if self.flash.len() > self.flash_pages {
                self.uses.remove(&self.flash.remove(0));
            }
        }
    }
}

impl Model for Hca {
    fn access(&mut self, access: Access) {
        let page = access.page.0;
        self.now += 1;
        let is_in_level = self.level.contains(&page);
        let uses = self.uses.entry(page).or_default();
        let former_count = if is_in_level || self.keeps_counts { uses.0 } else { 0 };
        *uses = (former_count + 1, self.now);
        if is_in_level || self.buffer.contains(&page) {
            self.counts.memory_hits += 1;
        } else if self.flash.contains(&page) {
            self.counts.flash_hits += 1;
            self.counts.flash_reads += 1;
        } else {
            self.counts.disk_hits += 1;
            self.counts.disk_reads += 1;
        }
        let version = self.versions.on_disk(page);
        let version = self.versions.serve(access, version);
        if access.op == Op::Write {
            self.versions.write_to_disk(page, version);
            self.counts.disk_writes += 1;
        }
        self.buffer.retain(|&known| known != page);
        self.flash.retain(|&known| known != page);
        if !is_in_level && self.level.len() == self.level_pages {
            let victim = *self.level.iter().min_by_key(|&page| self.uses[page]).expect("is full");
            self.level.remove(&victim);
            self.buffer.push(victim);
        }
        self.level.insert(page);
        if self.buffer.len() > self.buffer_pages {
            self.empty_buffer();
        }
        assert!(self.buffer.len() <= self.buffer_pages, "a group was enough");
    }

    fn counts(&self) -> Counts {
        self.counts.clone()
    }

    fn held(&self, tier: Tier) -> BTreeSet<u32> {
        if tier == Tier::RAM {
            self.level.iter().chain(&self.buffer).copied().collect()
        } else {
            self.flash.iter().copied().collect()
        }
    }

    /// Return the first level with counts, the buffer, flash; both of these the oldest first.
    fn state(&self) -> String {
        let level = self.level.iter().map(|page| format!("{page}:{}", self.uses[page].0));
        let [buffer, flash] = [&self.buffer, &self.flash]
            .map(|pages| std::iter::once("|".to_owned()).chain(pages.iter().map(u32::to_string)));
        join(level.chain(buffer).chain(flash))
    }
}
