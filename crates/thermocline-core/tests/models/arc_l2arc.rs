//! ARC as four lists, the least recently used first, and a ring of slots that a feed fills.

use std::collections::{BTreeMap, BTreeSet};

use thermocline_core::{Access, Op, Tier};

use super::{Counts, Model, Versions, join};

const T1: usize = 0;
const T2: usize = 1;
const B1: usize = 2;
const B2: usize = 3;

/// Rule by which flash is fed.
pub(crate) struct Feed {
    pub(crate) every: usize,
    pub(crate) write_max: usize,
    pub(crate) write_boost: usize,
    pub(crate) headroom: usize,
    pub(crate) warm_up: bool,
    pub(crate) reuse_holes: bool,
    pub(crate) swept: Option<Swept>,
}

/// A device that is cleared ahead, with markers if it is large enough.
#[derive(Clone, Debug)]
pub(crate) struct Swept {
    /// Percent of a feed's pages that are scanned.
    pub(crate) headroom: usize,
    pub(crate) depth: usize,
    pub(crate) dwpd_limit: usize,
    pub(crate) reset: usize,
    pub(crate) burst: usize,
    pub(crate) day: usize,
    pub(crate) hand: usize,
    pub(crate) has_swept_once: bool,
    /// Markers of the lists T2 and T1: the number of the last reference of the page handled last,
    /// and pages scanned.
    pub(crate) markers: [(u64, usize); 2],
    pub(crate) written: usize,
    pub(crate) feeds: usize,
    pub(crate) written_today: usize,
    pub(crate) left_over: usize,
}

pub(crate) struct ArcL2arc {
    lists: [Vec<u32>; 4],
    target: f64,
    capacity: usize,
    /// Version of each page in memory.
    memory: BTreeMap<u32, u64>,
    /// Page and version of each slot, the one that the rotor writes next first.
    slots: Vec<Option<(u32, u64)>>,
    feed: Option<Feed>,
    accesses: usize,
    /// Number of each page's last reference.
    references: BTreeMap<u32, u64>,
    has_evicted: bool,
    versions: Versions,
    counts: Counts,
}

impl ArcL2arc {
    pub(crate) fn new(memory: u32, flash: u32, feed: Option<Feed>) -> Self {
        Self {
            lists: [const { vec![] }; 4],
            target: 0.0,
            capacity: memory as usize,
            memory: BTreeMap::new(),
            slots: vec![None; flash as usize],
            feed: feed.filter(|_| flash > 0),
            accesses: 0,
            references: BTreeMap::new(),
            has_evicted: false,
            versions: Versions::default(),
            counts: Counts::default(),
        }
    }

    fn len(&self, list: usize) -> usize {
        self.lists[list].len()
    }

    fn on_flash(&self, page: u32) -> Option<u64> {
        self.slots.iter().flatten().find(|slot| slot.0 == page).map(|slot| slot.1)
    }

    fn evict(&mut self, page: u32) {
        self.has_evicted = true;
        let version = self.memory.remove(&page).expect("what is evicted is in memory");
        if version != self.versions.on_disk(page) {
            self.versions.write_to_disk(page, version);
            self.counts.disk_writes += 1;
        }
    }

    /// REPLACE of the paper.
    fn replace(&mut self, page: u32) {
        let recent = self.len(T1) as f64;
        let is_from_b2 = self.lists[B2].contains(&page);
        let at_target = (recent - self.target).abs() == 0.0;
        let from = if self.len(T1) >= 1 && ((is_from_b2 && at_target) || recent > self.target) {
            T1
        } else {
            T2
        };
        let victim = self.lists[from].remove(0);
        self.lists[from + 2].push(victim);
        self.evict(victim);
    }

    /// Process a reference by the paper's four cases.
    fn refer(&mut self, page: u32) {
        let home = self.lists.iter().position(|list| list.contains(&page));
        let ghosts = [self.len(B1) as f64, self.len(B2) as f64];
        match home {
            Some(B1) => {
                let step = if ghosts[0] >= ghosts[1] { 1.0 } else { ghosts[1] / ghosts[0] };
                self.target = f64::min(self.target + step, self.capacity as f64);
                self.replace(page);
            }
            Some(B2) => {
                let step = if ghosts[1] >= ghosts[0] { 1.0 } else { ghosts[0] / ghosts[1] };
                self.target = f64::max(self.target - step, 0.0);
                self.replace(page);
            }
            Some(_) => {}
            None => {
                let first = self.len(T1) + self.len(B1);
                let both = first + self.len(T2) + self.len(B2);
                if first == self.capacity {
                    if self.len(T1) < self.capacity {
                        self.lists[B1].remove(0);
                        self.replace(page);
                    } else {
                        let victim = self.lists[T1].remove(0);
                        self.evict(victim);
                    }
                } else if both >= self.capacity {
                    if both == 2 * self.capacity {
                        self.lists[B2].remove(0);
                    }
                    self.replace(page);
                }
            }
        }
        if let Some(home) = home {
            self.lists[home].retain(|&known| known != page);
        }
        self.lists[if home.is_some() { T2 } else { T1 }].push(page);
    }

    /// Copies what is next to leave T2 and T1 to flash.
    fn feed(&mut self) {
        let Some(feed) = &self.feed else { return };
        if let Some(swept) = feed.swept.clone() {
            return self.feed_swept(swept);
        }
        let is_cold = feed.warm_up && !self.has_evicted;
        let write_max = feed.write_max + if is_cold { feed.write_boost } else { 0 };
        let reuse_holes = feed.reuse_holes;
        let depth = feed.headroom * write_max;
        let mut left = write_max;
        for list in [T2, T1] {
            let mut pages = self.lists[list].clone();
            if is_cold {
                pages.reverse();
            }
            for page in pages.into_iter().take(depth) {
                let version = self.memory[&page];
                let is_clean = version == self.versions.on_disk(page);
                // A page that this feed has overwritten is no longer on flash.
                if left > 0 && is_clean && self.on_flash(page).is_none() {
                    let hole = self.slots.iter().position(Option::is_none);
                    self.slots.remove(hole.filter(|_| reuse_holes).unwrap_or(0));
                    self.slots.push(Some((page, version)));
                    self.counts.flash_writes += 1;
                    left -= 1;
                }
            }
        }
    }
}

impl ArcL2arc {
    /// Run the feed of 2026.
    fn feed_swept(&mut self, mut swept: Swept) {
        let (slots, feed) = (self.slots.len(), self.feed.as_ref().expect("it is fed"));
        let is_cold = feed.warm_up && !self.has_evicted;
        let has_markers = slots >= 2 * self.capacity;
        let mut size = feed.write_max;
        swept.feeds += 1;
        let per_day = slots * swept.dwpd_limit / 100;
        if swept.feeds == swept.day {
            swept.left_over = per_day.saturating_sub(swept.written_today);
            (swept.feeds, swept.written_today) = (0, 0);
        }
        if has_markers && swept.dwpd_limit > 0 && swept.has_swept_once {
            let budget =
                (per_day + swept.left_over + swept.burst).saturating_sub(swept.written_today);
            size = size.min(budget / (swept.day - swept.feeds));
        }
        size = size.min((slots / 4).max(1));
        if swept.hand + size > slots {
            self.slots[swept.hand..].fill(None);
            (swept.hand, swept.has_swept_once) = (0, true);
        }
        if swept.has_swept_once {
            self.slots[swept.hand..swept.hand + size].fill(None);
        }
        if swept.written >= slots.div_ceil(swept.reset) {
            swept.written = 0;
            swept.markers = [(0, 0); 2];
        }
        let (mut written, mut is_over) = (0, false);
        for (marker, list) in [T2, T1].into_iter().enumerate() {
            if is_over {
                break;
            }
            let mut pages = self.lists[list].clone();
            if has_markers {
                pages.retain(|page| self.references[page] > swept.markers[marker].0);
            } else if is_cold {
                pages.reverse();
            }
            for page in pages.into_iter().take(size * swept.headroom / 100) {
                swept.markers[marker].1 += 1;
                let version = self.memory[&page];
                let is_clean = version == self.versions.on_disk(page);
                if is_clean && self.on_flash(page).is_none() {
                    if written == size {
                        is_over = true;
                        break;
                    }
                    self.slots[swept.hand] = Some((page, version));
                    swept.hand += 1;
                    written += 1;
                    self.counts.flash_writes += 1;
                }
                swept.markers[marker].0 = self.references[&page];
            }
            let depth = self.lists[list].len() * swept.depth / 100;
            if depth > 0 && swept.markers[marker].1 >= depth {
                swept.markers[marker] = (0, 0);
            }
        }
        swept.written += written;
        swept.written_today += written;
        self.feed.as_mut().expect("it is fed").swept = Some(swept);
    }
}

impl Model for ArcL2arc {
    fn access(&mut self, access: Access) {
        let page = access.page.0;
        self.references.insert(page, self.accesses as u64 + 1);
        let in_memory = self.memory.get(&page).copied();
        let version = if let Some(version) = in_memory {
            self.counts.memory_hits += 1;
            version
        } else if let Some(version) = self.on_flash(page) {
            self.counts.flash_hits += 1;
            self.counts.flash_reads += 1;
            version
        } else {
            self.counts.disk_hits += 1;
            self.counts.disk_reads += 1;
            self.versions.on_disk(page)
        };
        self.refer(page);
        let version = self.versions.serve(access, version);
        self.memory.insert(page, version);
        assert!(self.memory.len() <= self.capacity, "the cache fits");
        if access.op == Op::Write {
            for slot in &mut self.slots {
                *slot = slot.filter(|slot| slot.0 != page);
            }
        }
        self.accesses += 1;
        if self.feed.as_ref().is_some_and(|feed| self.accesses.is_multiple_of(feed.every)) {
            self.feed();
        }
    }

    fn counts(&self) -> Counts {
        self.counts.clone()
    }

    fn held(&self, tier: Tier) -> BTreeSet<u32> {
        if tier == Tier::RAM {
            self.memory.keys().copied().collect()
        } else {
            self.slots.iter().flatten().map(|slot| slot.0).collect()
        }
    }

    /// T1, T2, B1 and B2, the least recently used first, then flash, the oldest first, or by slots.
    fn state(&self) -> String {
        let mut words = vec![];
        for list in &self.lists {
            words.extend(list.iter().map(u32::to_string));
            words.push("|".to_owned());
        }
        if let Some(swept) = self.feed.as_ref().and_then(|feed| feed.swept.as_ref()) {
            let word =
                |slot: &Option<(u32, u64)>| slot.map_or("-".to_owned(), |slot| slot.0.to_string());
            words.extend(self.slots.iter().map(word));
            words.push(format!("hand {}", swept.hand));
        } else {
            words.extend(self.slots.iter().flatten().map(|slot| slot.0.to_string()));
        }
        join(words)
    }
}
