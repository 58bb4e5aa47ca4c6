//! `CacheLib` and foyer: an LRU list above regions of places, each of which holds a page or what is left of
//! one.

use std::collections::{BTreeMap, BTreeSet};

use thermocline_core::{Access, Op, Tier};

use super::Store;
use crate::models::{Counts, Model, value};

#[derive(Debug)]
struct Region {
    number: usize,
    /// Pages in the order in which they were written, with hits; `None` where a page is dead.
    pages: Vec<Option<(u32, u32)>>,
}

/// Record of a page in RAM.
#[derive(Clone, Copy, Debug, Default)]
struct Resident {
    is_hit: bool,
    is_from_flash: bool,
}

pub(crate) struct LogCache {
    is_foyer: bool,
    /// The least recently used first.
    memory: Vec<u32>,
    residents: BTreeMap<u32, Resident>,
    capacity: usize,
    region_pages: usize,
    regions: usize,
    /// The region that leaves first in front, without the open one.
    full: Vec<Region>,
    open: Option<Region>,
    clean: Vec<usize>,
    probation: BTreeSet<usize>,
    on_probation: usize,
    is_lru: bool,
    reinsertion: u32,
    /// Pages per set, and the sets, the newest last.
    refused: Option<(usize, usize, Vec<Vec<u32>>)>,
    store: Store,
}

impl LogCache {
    pub(crate) fn new(policy: &str, given: &[(String, String)], sizes: [u32; 2]) -> Self {
        let region_pages = value(given, "region_pages", super::region_pages(sizes[1]));
        let regions = (sizes[1] / region_pages) as usize;
        let is_rejecting = value(given, "admission", "all".to_owned()) == "reject-first";
        let (entries, sets) =
            (value(given, "reject_entries", 2 * sizes[1] as usize), value(given, "reject_sets", 2));
        Self {
            is_foyer: policy == "foyer",
            memory: vec![],
            residents: BTreeMap::new(),
            capacity: sizes[0] as usize,
            region_pages: region_pages as usize,
            regions,
            full: vec![],
            open: None,
            clean: (0..regions).collect(),
            probation: BTreeSet::new(),
            on_probation: regions * value::<usize>(given, "probation_percent", 10) / 100,
            is_lru: policy == "cachelib" && value(given, "eviction", "lru".to_owned()) == "lru",
            reinsertion: value(given, "reinsertion_hits", 0),
            refused: is_rejecting.then(|| ((entries / sets).max(1), sets, vec![])),
            store: Store::default(),
        }
    }

    fn region_of(&mut self, page: u32) -> Option<(usize, &mut Region)> {
        let holds =
            |region: &&mut Region| region.pages.iter().flatten().any(|known| known.0 == page);
        let all = self.full.iter_mut().chain(self.open.as_mut());
        all.enumerate().find(|(_, region)| holds(region))
    }

    fn kill(&mut self, page: u32) {
        if let Some((_, region)) = self.region_of(page) {
            for place in &mut region.pages {
                *place = place.filter(|known| known.0 != page);
            }
        }
        self.store.forget(page);
    }

    /// Notes a hit on flash, and returns whether the page is about to leave.
    fn hit(&mut self, page: u32) -> bool {
        let is_lru = self.is_lru;
        let (place, region) = self.region_of(page).expect("it is on flash");
        for known in region.pages.iter_mut().flatten().filter(|known| known.0 == page) {
            known.1 += 1;
        }
        let number = region.number;
        if is_lru && place < self.full.len() {
            let region = self.full.remove(place);
            self.full.push(region);
        }
        self.probation.contains(&number)
    }

    fn reclaim(&mut self) {
        let mut place = 0;
        if self.is_foyer {
            let marked = self.on_probation.saturating_sub(self.clean.len());
            self.probation.extend(self.full.iter().take(marked).map(|region| region.number));
            let dead = |region: &Region| region.pages.iter().filter(|page| page.is_none()).count();
            let most = self.full.iter().map(dead).max().unwrap_or(0);
            if most * 5 >= self.region_pages * 4 {
                place = self.full.iter().position(|region| dead(region) == most).unwrap_or(0);
            }
        }
        let region = self.full.remove(place);
        self.probation.remove(&region.number);
        let live: Vec<(u32, u32)> = region.pages.iter().rev().flatten().copied().collect();
        if !live.is_empty() {
            self.store.counts.flash_reads += self.region_pages as u64;
        }
        for (page, hits) in live {
            let is_kept = self.reinsertion > 0 && hits >= self.reinsertion;
            match &mut self.open {
                Some(open) if is_kept && open.pages.len() < self.region_pages => {
                    open.pages.push(Some((page, 0)));
                    self.store.counts.flash_writes += 1;
                }
                _ => self.store.forget(page),
            }
        }
        self.clean.push(region.number);
    }

    fn append(&mut self, page: u32, version: u64) {
        self.kill(page);
        while self.open.as_ref().is_none_or(|open| open.pages.len() == self.region_pages) {
            self.full.extend(self.open.take());
            if self.clean.is_empty() {
                self.reclaim();
            }
            self.open = Some(Region { number: self.clean.remove(0), pages: vec![] });
            if self.clean.is_empty() && !self.full.is_empty() {
                self.reclaim();
            }
        }
        self.open.as_mut().expect("one is open").pages.push(Some((page, 0)));
        self.store.write_flash(page, version);
    }

    fn is_admitted(&mut self, page: u32, is_hit: bool) -> bool {
        let Some((set_pages, most, sets)) = &mut self.refused else { return true };
        if sets.iter().any(|set| set.contains(&page)) {
            return true;
        }
        if sets.last().is_none_or(|last| last.len() == *set_pages) {
            if sets.len() == *most {
                sets.remove(0);
            }
            sets.push(vec![]);
        }
        sets.last_mut().expect("there is a set").push(page);
        is_hit
    }

    fn evict(&mut self, page: u32) {
        let resident = self.residents.remove(&page).expect("it was in memory");
        let is_there = self.store.flash.contains_key(&page);
        let is_kept = resident.is_from_flash && (is_there || self.is_foyer);
        if !is_kept && self.regions > 0 && self.is_admitted(page, resident.is_hit) {
            let version = self.store.newest(page);
            self.append(page, version);
        }
    }
}

impl Model for LogCache {
    fn access(&mut self, Access { page, op, .. }: Access) {
        let page = page.0;
        if let Some(resident) = self.residents.get_mut(&page) {
            resident.is_hit = true;
            self.store.counts.memory_hits += 1;
            self.memory.retain(|&known| known != page);
        } else {
            let mut resident = Resident::default();
            let version = if self.store.flash.contains_key(&page) {
                self.store.counts.flash_hits += 1;
                if op == Op::Read {
                    resident.is_from_flash = !self.hit(page) || !self.is_foyer;
                }
                self.store.read_flash(page)
            } else {
                self.store.counts.disk_hits += 1;
                self.store.read_disk(page)
            };
            assert_eq!(version, self.store.newest(page), "the newest version is read");
            self.residents.insert(page, resident);
        }
        self.memory.push(page);
        if op == Op::Write {
            let version = self.store.newest(page) + 1;
            self.store.newest.insert(page, version);
            self.store.write_disk(page, version);
            self.kill(page);
            self.residents.get_mut(&page).expect("it is in memory").is_from_flash = false;
        }
        if self.memory.len() > self.capacity {
            let victim = self.memory.remove(0);
            self.evict(victim);
        }
        for (&page, &version) in &self.store.flash {
            assert_eq!(version, self.store.on_disk(page), "all copies equal the disk's");
        }
    }

    fn counts(&self) -> Counts {
        self.store.counts.clone()
    }

    fn held(&self, tier: Tier) -> BTreeSet<u32> {
        if tier == Tier::RAM {
            self.memory.iter().copied().collect()
        } else {
            self.store.flash.keys().copied().collect()
        }
    }

    /// Return the pages of each region in quotes, `.` for a dead one; the regions on probation; the
    /// refused sets.
    fn state(&self) -> String {
        let mut regions = vec![String::new(); self.regions];
        for region in self.full.iter().chain(&self.open) {
            let word =
                |page: &Option<(u32, u32)>| page.map_or(".".into(), |page| page.0.to_string());
            regions[region.number] = region.pages.iter().map(word).collect::<Vec<_>>().join(" ");
        }
        let regions: Vec<String> = regions.iter().map(|region| format!("'{region}'")).collect();
        let probation: Vec<String> = self.probation.iter().map(usize::to_string).collect();
        let sets = self.refused.iter().flat_map(|refused| &refused.2);
        let sets: Vec<String> = sets.map(|set| format!("{set:?}")).collect();
        format!("{} | {} | {}", regions.join(" "), probation.join(" "), sets.join(" "))
    }
}
