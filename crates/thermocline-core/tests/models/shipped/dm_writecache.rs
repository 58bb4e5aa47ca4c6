//! dm-writecache as a list of entries, the one inserted first in front.

use std::collections::BTreeSet;

use super::{Device, Store, second};
use crate::models::{join, value};

#[derive(Clone, Copy, Debug)]
struct Entry {
    page: u32,
    slot: u32,
    born: u64,
    is_committed: bool,
}

pub(crate) struct WriteCache {
    entries: Vec<Entry>,
    slots: u32,
    next: u32,
    uncommitted: u64,
    uncommitted_since: u64,
    high_free: usize,
    low_free: usize,
    /// Maximum age in sixteenths of an access.
    max_age: Option<u64>,
    autocommit: u64,
    autocommit_time: u64,
    group: usize,
    is_pmem: bool,
}

impl WriteCache {
    pub(crate) fn new(given: &[(String, String)], slots: u32) -> Self {
        let free = |name, default| {
            (slots as usize * (100 - value::<usize>(given, name, default)) + 50) / 100
        };
        let max_age: u64 = value(given, "max_age_s", 0);
        Self {
            entries: vec![],
            slots,
            next: 0,
            uncommitted: 0,
            uncommitted_since: 0,
            high_free: free("high_watermark", 50),
            low_free: free("low_watermark", 45),
            max_age: (max_age > 0).then(|| max_age * second(given) * 15),
            autocommit: value(given, "autocommit_blocks", 65536),
            autocommit_time: value(given, "autocommit_s", 1) * second(given),
            group: value(given, "group_pages", 256),
            is_pmem: value(given, "device", "ssd".to_owned()) == "pmem",
        }
    }

    fn free(&self) -> Vec<u32> {
        let is_free = |slot: &u32| self.entries.iter().all(|entry| entry.slot != *slot);
        (0..self.slots).filter(is_free).collect()
    }

    fn find(&self, page: u32) -> Option<usize> {
        self.entries.iter().position(|entry| entry.page == page)
    }

    fn commit(&mut self) {
        for entry in &mut self.entries {
            entry.is_committed = true;
        }
        self.uncommitted = 0;
    }

    fn commit_by_time(&mut self, now: u64) {
        if self.uncommitted > 0 && now >= self.uncommitted_since + self.autocommit_time {
            self.commit();
        }
    }

    fn insert(&mut self, page: u32, now: u64) {
        let free = self.free();
        let slot = *free.iter().find(|&&slot| slot >= self.next).unwrap_or(&free[0]);
        self.next = slot + 1;
        self.entries.push(Entry { page, slot, born: now, is_committed: false });
    }

    fn is_too_old(&self, now: u64) -> bool {
        let oldest = self.entries.first();
        self.max_age.is_some_and(|age| oldest.is_some_and(|entry| (now - entry.born) * 16 >= age))
    }

    fn write_back(&mut self, store: &mut Store) {
        while !self.entries.is_empty()
            && (self.free().len() <= self.low_free || self.is_too_old(store.now))
        {
            let first = self.entries[0];
            if !first.is_committed {
                self.commit();
            }
            let mut group = vec![first];
            while group.len() < self.group {
                let last = group[group.len() - 1];
                let next = self.find(last.page + 1).map(|place| self.entries[place]);
                let fits = |next: &Entry| {
                    next.is_committed && (self.is_pmem || next.slot == last.slot + 1)
                };
                let Some(next) = next.filter(fits) else { break };
                group.push(next);
            }
            for entry in group {
                store.clean(entry.page);
                store.forget(entry.page);
                if self.free().is_empty() {
                    self.next = entry.slot;
                }
                self.entries.retain(|known| known.page != entry.page);
            }
        }
    }
}

impl Device for WriteCache {
    fn read(&mut self, page: u32, store: &mut Store) -> u64 {
        self.commit_by_time(store.now);
        let version =
            if self.find(page).is_some() { store.read_flash(page) } else { store.read_disk(page) };
        if self.is_too_old(store.now) {
            self.write_back(store);
        }
        version
    }

    fn write(&mut self, page: u32, version: u64, _is_eviction: bool, store: &mut Store) {
        self.commit_by_time(store.now);
        match self.find(page) {
            None if self.free().is_empty() => {
                store.write_disk(page, version);
                return;
            }
            None => self.insert(page, store.now),
            Some(place) if self.is_pmem && self.entries[place].is_committed => {
                // The old copy's slot is free only when the new one is there.
                self.insert(page, store.now);
                self.entries.remove(place);
            }
            Some(_) => {}
        }
        store.write_flash(page, version);
        if self.uncommitted == 0 {
            self.uncommitted_since = store.now;
        }
        self.uncommitted += 1;
        if self.uncommitted >= self.autocommit {
            self.commit();
        }
        if self.free().len() <= self.high_free || self.is_too_old(store.now) {
            self.write_back(store);
        }
        assert!(self.entries.len() <= self.slots as usize, "entries fit");
    }

    fn dirty(&self) -> BTreeSet<u32> {
        self.entries.iter().map(|entry| entry.page).collect()
    }

    /// Page and slot of each entry, the one inserted first in front.
    fn state(&self) -> String {
        join(self.entries.iter().map(|entry| format!("{}@{}", entry.page, entry.slot)))
    }
}
