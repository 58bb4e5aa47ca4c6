//! smq as lists of levels in which entries and sentinels stand, the oldest first.

use std::collections::BTreeSet;

use super::{Device, Store, second};
use crate::models::{join, value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    /// A cached block, or a region of uncached ones.
    Entry(u32),
    Older,
    Newer,
}

use Item::{Entry, Newer, Older};

/// The three kinds of queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Hotspot { top_entries: usize },
    Clean,
    Dirty,
}

#[derive(Debug)]
struct Queue {
    kind: Kind,
    levels: Vec<Vec<Item>>,
    targets: Vec<usize>,
    targets_of: Option<usize>,
}

impl Queue {
    fn new(kind: Kind, levels: usize) -> Self {
        let marks = if matches!(kind, Kind::Hotspot { .. }) { vec![] } else { vec![Older, Newer] };
        Self { kind, levels: vec![marks; levels], targets: vec![0; levels], targets_of: None }
    }

    fn entries(&self, level: usize) -> Vec<u32> {
        let entry = |item: &Item| if let Entry(id) = item { Some(*id) } else { None };
        self.levels[level].iter().filter_map(entry).collect()
    }

    fn all(&self) -> Vec<u32> {
        (0..self.levels.len()).flat_map(|level| self.entries(level)).collect()
    }

    fn level(&self, id: u32) -> Option<usize> {
        self.levels.iter().position(|level| level.contains(&Entry(id)))
    }

    fn remove(&mut self, id: u32) -> usize {
        let level = self.level(id).expect("what is removed is there");
        self.levels[level].retain(|&item| item != Entry(id));
        level
    }

    fn push(&mut self, level: usize, id: u32) {
        self.levels[level].push(Entry(id));
    }

    fn peek(&self, below: usize, crosses: bool) -> Option<u32> {
        for level in &self.levels[..below] {
            for item in level {
                match item {
                    Entry(id) => return Some(*id),
                    Older | Newer if crosses => {}
                    Older | Newer => break,
                }
            }
        }
        None
    }

    fn requeue(&mut self, id: u32, extra: usize) {
        let old = self.level(id).expect("what is hit is there");
        let top = self.levels.len() - 1;
        let target = (old + extra).min(top);
        if extra > 0
            && old < top
            && let Some(&displaced) = self.entries(target).first()
        {
            let level = &self.levels[target];
            let place = level.iter().position(|&item| item == Entry(displaced));
            let sentinels = place.expect("it is there");
            self.remove(displaced);
            let before = match (self.kind, sentinels) {
                (Kind::Dirty, 0) => Some(Older),
                (Kind::Dirty, 1) => Some(Newer),
                _ => None,
            };
            let level = &mut self.levels[old];
            let place = level.iter().position(|&item| Some(item) == before);
            level.insert(place.unwrap_or(level.len()), Entry(displaced));
        }
        self.remove(id);
        self.push(target, id);
    }

    fn age(&mut self) {
        for level in &mut self.levels {
            level.retain(|&item| item != Older);
            for item in level.iter_mut().filter(|item| **item == Newer) {
                *item = Older;
            }
            level.push(Newer);
        }
    }

    fn redistribute(&mut self) {
        let (count, levels) = (self.all().len(), self.levels.len());
        if self.targets_of != Some(count) {
            self.targets_of = Some(count);
            let (top_levels, quota) = match self.kind {
                Kind::Hotspot { top_entries } => (levels / 8, top_entries),
                Kind::Clean | Kind::Dirty => (0, 0),
            };
            let rest = count.saturating_sub(quota);
            for (first, end, sum) in
                [(0, levels - top_levels, rest), (levels - top_levels, levels, quota)]
            {
                for level in first..end {
                    let range = end - first;
                    self.targets[level] = sum / range + usize::from(level - first < sum % range);
                }
            }
        }
        for level in 0..levels - 1 {
            while self.entries(level).len() < self.targets[level] {
                let above =
                    (level + 1..levels).find_map(|above| self.entries(above).first().copied());
                let Some(id) = above else { break };
                self.remove(id);
                self.push(level, id);
            }
            while self.entries(level).len() > self.targets[level] {
                let id = *self.entries(level).last().expect("it has more than its target");
                self.remove(id);
                self.push(level + 1, id);
            }
        }
    }

    /// "level:entries" of the levels that have some.
    fn words(&self) -> String {
        let words = (0..self.levels.len()).filter(|&level| !self.entries(level).is_empty());
        join(words.map(|level| {
            let entries: Vec<String> = self.entries(level).iter().map(u32::to_string).collect();
            format!("{level}:{}", entries.join(","))
        }))
    }
}

pub(crate) struct DmCache {
    block_pages: u32,
    region_pages: u32,
    pages: u32,
    mode: String,
    /// The block of each slot.
    slots: Vec<Option<u32>>,
    free: Vec<usize>,
    is_hit: Vec<bool>,
    clean: Queue,
    dirty: Queue,
    hotspot: Queue,
    hotspots_max: usize,
    hits: u64,
    misses: u64,
    promote_level: usize,
    jump: usize,
    periods: [u64; 4],
    next: [u64; 4],
    demotes: bool,
    idle_every: u64,
    requests: u64,
}

impl DmCache {
    pub(crate) fn new(given: &[(String, String)], flash: u32, pages: u32) -> Self {
        let block_pages = value(given, "block_pages", 16);
        let slots = flash / block_pages;
        let levels: usize = value(given, "levels", 64);
        let hotspots_max = (slots / 4).max(value(given, "hotspot_min", 1024)) as usize;
        let mut blocks = value(given, "hotspot_blocks", 16);
        while blocks > 1 && (blocks * block_pages) as usize * hotspots_max > pages as usize {
            blocks /= 2;
        }
        let top_entries = (hotspots_max / levels).min((slots / blocks) as usize);
        let period = |name, default| value(given, name, default) * second(given);
        let periods = [
            period("writeback_s", 10),
            period("demote_s", 60),
            period("hotspot_s", 1),
            period("cache_s", 60),
        ];
        Self {
            block_pages,
            region_pages: block_pages * blocks,
            pages,
            mode: value(given, "mode", "writethrough".to_owned()),
            slots: vec![None; slots as usize],
            free: (0..slots as usize).collect(),
            is_hit: vec![false; slots as usize],
            clean: Queue::new(Kind::Clean, levels),
            dirty: Queue::new(Kind::Dirty, levels),
            hotspot: Queue::new(Kind::Hotspot { top_entries }, levels),
            hotspots_max,
            hits: 0,
            misses: 0,
            promote_level: levels - 1,
            jump: 1,
            periods,
            next: [periods[0], periods[1], 0, 0],
            demotes: slots * value(given, "free_target", 25) / 100 > 0,
            idle_every: value(given, "idle_every", 0),
            requests: 0,
        }
    }

    fn pages_of(&self, block: u32) -> std::ops::Range<u32> {
        block * self.block_pages..((block + 1) * self.block_pages).min(self.pages)
    }

    fn slot(&self, block: u32) -> Option<usize> {
        self.slots.iter().position(|&known| known == Some(block))
    }

    fn note_hit(&mut self, block: u32, slot: usize) {
        if !self.is_hit[slot] {
            self.is_hit[slot] = true;
            let is_dirty = self.dirty.level(block).is_some();
            let queue = if is_dirty { &mut self.dirty } else { &mut self.clean };
            queue.requeue(block, 1);
        }
    }

    /// Return `true` if the block of a page that is not cached should be.
    fn is_hot(&mut self, page: u32) -> bool {
        let (region, levels) = (page / self.region_pages, self.hotspot.levels.len());
        match self.hotspot.level(region) {
            Some(level) => {
                if level >= 3 * levels / 4 {
                    self.hits += 1;
                } else {
                    self.misses += 1;
                }
                self.hotspot.requeue(region, self.jump);
            }
            None => {
                self.misses += 1;
                let mut level = 0;
                if self.hotspot.all().len() == self.hotspots_max {
                    let oldest = self.hotspot.all()[0];
                    level = self.hotspot.remove(oldest);
                }
                self.hotspot.push(level, region);
            }
        }
        self.hotspot.level(region).expect("it was just put there") >= self.promote_level
    }

    fn enter(&mut self, block: u32) {
        let slot = self.free.remove(0);
        self.slots[slot] = Some(block);
    }

    fn make_room(&mut self, store: &mut Store) {
        if !self.demotes {
            return;
        }
        let levels = self.clean.levels.len();
        if let Some(block) = self.clean.peek(levels / 2, true) {
            self.clean.remove(block);
            let slot = self.slot(block).expect("a cached block has a slot");
            self.slots[slot] = None;
            self.free.push(slot);
            for page in self.pages_of(block) {
                store.forget(page);
            }
        } else if let Some(block) = self.dirty.peek(levels, false) {
            self.write_back(block, store);
        }
    }

    fn write_back(&mut self, block: u32, store: &mut Store) {
        let level = self.dirty.remove(block);
        self.clean.push(level, block);
        for page in self.pages_of(block) {
            store.clean(page);
        }
    }

    fn promote(&mut self, block: u32, store: &mut Store) {
        self.enter(block);
        let top = self.clean.levels.len() - 1;
        self.clean.push(top, block);
        for page in self.pages_of(block) {
            let version = store.read_disk(page);
            store.write_flash(page, version);
        }
    }

    fn tick(&mut self, store: &mut Store) {
        let mut has_passed = |period: usize| {
            let has_passed = store.now > self.next[period];
            if has_passed {
                self.next[period] = store.now + self.periods[period];
            }
            has_passed
        };
        let passed = [0, 1, 2, 3].map(&mut has_passed);
        let levels = self.hotspot.levels.len();
        if passed[0] {
            self.dirty.age();
        }
        if passed[1] {
            self.clean.age();
        }
        let share = (256 * self.hits).checked_div(self.hits + self.misses).unwrap_or(0);
        let (promote_level, jump) = match share {
            0..16 => (levels - levels / 4, 4),
            16..32 => (levels - levels / 2, 2),
            _ => (0, 1),
        };
        self.promote_level = promote_level;
        if passed[2] {
            self.jump = jump;
            self.hotspot.redistribute();
            (self.hits, self.misses) = (0, 0);
        }
        if passed[3] {
            self.is_hit.fill(false);
            self.dirty.redistribute();
            self.clean.redistribute();
        }
        self.requests += 1;
        if self.idle_every > 0 && self.requests.is_multiple_of(self.idle_every) {
            while let Some(block) = self.dirty.peek(levels, true) {
                self.write_back(block, store);
            }
        }
    }
}

impl Device for DmCache {
    fn read(&mut self, page: u32, store: &mut Store) -> u64 {
        let block = page / self.block_pages;
        let version = if let Some(slot) = self.slot(block) {
            self.note_hit(block, slot);
            store.read_flash(page)
        } else {
            let version = store.read_disk(page);
            if self.is_hot(page) && self.mode != "passthrough" {
                if self.free.is_empty() {
                    self.make_room(store);
                } else {
                    self.promote(block, store);
                }
            }
            version
        };
        self.tick(store);
        version
    }

    fn write(&mut self, page: u32, version: u64, _is_eviction: bool, store: &mut Store) {
        let block = page / self.block_pages;
        if let Some(slot) = self.slot(block) {
            self.note_hit(block, slot);
            store.write_flash(page, version);
            if self.mode != "writeback" {
                store.write_disk(page, version);
            } else if self.clean.level(block).is_some() {
                let level = self.clean.remove(block);
                self.dirty.push(level, block);
            }
        } else {
            let is_hot = self.is_hot(page);
            let is_whole = self.mode == "writeback" && self.block_pages == 1;
            if is_whole && !self.free.is_empty() {
                self.enter(block);
                let top = self.dirty.levels.len() - 1;
                self.dirty.push(top, block);
                store.write_flash(page, version);
            } else {
                store.write_disk(page, version);
                if is_hot && self.mode != "passthrough" {
                    if self.free.is_empty() {
                        self.make_room(store);
                    } else {
                        self.promote(block, store);
                    }
                }
            }
        }
        self.tick(store);
    }

    fn dirty(&self) -> BTreeSet<u32> {
        self.dirty.all().into_iter().flat_map(|block| self.pages_of(block)).collect()
    }

    /// Return the clean and the dirty queue, the hotspots with their levels, the level of
    /// promotion, the jump.
    fn state(&self) -> String {
        let mut hotspots = self.hotspot.all();
        hotspots.sort_unstable();
        let level = |id: &u32| self.hotspot.level(*id).expect("each is in a level");
        let hotspots = join(hotspots.iter().map(|id| format!("{id}:{}", level(id))));
        let [clean, dirty] = [&self.clean, &self.dirty].map(Queue::words);
        format!("{clean} | {dirty} | {hotspots} | {} {}", self.promote_level, self.jump)
    }
}
