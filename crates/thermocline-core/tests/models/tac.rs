//! TAC: a temperature per extent, slots in order of admission, invalid slots kept.

use std::collections::{BTreeMap, BTreeSet};

use thermocline_core::{Access, Op, Tier};

use super::{Counts, LruMemory, Model, Versions, join};

pub(crate) struct Tac {
    memory: LruMemory,
    /// Slots in order of admission: page, and the version if the slot is valid.
    slots: Vec<(u32, Option<u64>)>,
    temperatures: BTreeMap<u64, f64>,
    memory_pages: usize,
    flash_pages: usize,
    extent_pages: u64,
    aging_interval: u64,
    /// Savings of a random and of a sequential miss, in milliseconds.
    savings: [f64; 2],
    requests: u64,
    previous_miss: Option<u64>,
    versions: Versions,
    counts: Counts,
}

impl Tac {
    pub(crate) fn new(
        memory_pages: u32,
        flash_pages: u32,
        extent_pages: u64,
        aging_interval: u64,
        savings: [f64; 2],
    ) -> Self {
        Self {
            memory: LruMemory::default(),
            slots: vec![],
            temperatures: BTreeMap::new(),
            memory_pages: memory_pages as usize,
            flash_pages: flash_pages as usize,
            extent_pages,
            aging_interval,
            savings,
            requests: 0,
            previous_miss: None,
            versions: Versions::default(),
            counts: Counts::default(),
        }
    }

    fn temperature(&self, page: u32) -> f64 {
        self.temperatures.get(&(u64::from(page) / self.extent_pages)).copied().unwrap_or(0.0)
    }

    fn slot(&mut self, page: u32) -> Option<&mut (u32, Option<u64>)> {
        self.slots.iter_mut().find(|slot| slot.0 == page)
    }

    fn warm(&mut self, page: u32) {
        let number = u64::from(page);
        let is_sequential = self.previous_miss.is_some_and(|previous| previous + 1 == number);
        self.previous_miss = Some(number);
        let saving = self.savings[usize::from(is_sequential)];
        *self.temperatures.entry(number / self.extent_pages).or_insert(0.0) += saving;
    }

    fn admit(&mut self, page: u32, version: u64) {
        if self.slot(page).is_none() {
            if self.slots.len() == self.flash_pages {
                let mut coldest: Option<usize> = None;
                for (place, slot) in self.slots.iter().enumerate() {
                    let colder = |best: usize| {
                        self.temperature(slot.0) < self.temperature(self.slots[best].0)
                    };
                    if coldest.is_none_or(colder) {
                        coldest = Some(place);
                    }
                }
                let Some(victim) = coldest else { return };
                if self.temperature(page) <= self.temperature(self.slots[victim].0) {
                    return;
                }
                self.slots.remove(victim);
            }
            self.slots.push((page, None));
        }
        self.counts.flash_writes += 1;
        self.slot(page).expect("it has a slot now").1 = Some(version);
    }
}

impl Model for Tac {
    fn access(&mut self, access: Access) {
        self.requests += 1;
        if self.aging_interval > 0 && self.requests.is_multiple_of(self.aging_interval) {
            for temperature in self.temperatures.values_mut() {
                *temperature /= 2.0;
            }
        }
        let page = access.page.0;
        let version = if let Some(version) = self.memory.remove(page) {
            self.counts.memory_hits += 1;
            version
        } else {
            self.warm(page);
            if let Some(version) = self.slot(page).and_then(|slot| slot.1) {
                self.counts.flash_hits += 1;
                self.counts.flash_reads += 1;
                version
            } else {
                self.counts.disk_hits += 1;
                self.counts.disk_reads += 1;
                let version = self.versions.on_disk(page);
                self.admit(page, version);
                version
            }
        };
        let version = self.versions.serve(access, version);
        if access.op == Op::Write
            && let Some(slot) = self.slot(page)
        {
            slot.1 = None;
        }
        self.memory.push(page, version);
        if let Some((victim, version)) = self.memory.overflow(self.memory_pages)
            && version != self.versions.on_disk(victim)
        {
            self.versions.write_to_disk(victim, version);
            self.counts.disk_writes += 1;
            if let Some(slot) = self.slot(victim) {
                slot.1 = Some(version);
                self.counts.flash_writes += 1;
            }
        }
    }

    fn counts(&self) -> Counts {
        self.counts.clone()
    }

    fn held(&self, tier: Tier) -> BTreeSet<u32> {
        if tier == Tier::RAM {
            return self.memory.pages();
        }
        self.slots.iter().filter(|slot| slot.1.is_some()).map(|slot| slot.0).collect()
    }

    /// Return the slots in order of admission, `x` after an invalid one, and the temperatures by
    /// extent.
    fn state(&self) -> String {
        let slots = self.slots.iter().map(|(page, version)| {
            let hole = if version.is_some() { "" } else { "x" };
            format!("{page}{hole}")
        });
        let temperatures = self.temperatures.iter().map(|(extent, ms)| format!("{extent}:{ms}"));
        format!("{} | {}", join(slots), join(temperatures))
    }
}
