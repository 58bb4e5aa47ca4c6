//! dm-pcache as segments of keys, the oldest first.

use std::collections::{BTreeSet, VecDeque};

use super::{Device, Store, second};
use crate::models::value;

#[derive(Debug, Default)]
struct Segment {
    /// The keys that have not left; none where the page was written again.
    keys: VecDeque<Option<u32>>,
    filled: usize,
}

pub(crate) struct Pcache {
    used: VecDeque<Segment>,
    dirty: BTreeSet<u32>,
    segment_pages: usize,
    segments: usize,
    gc_percent: usize,
    period: u64,
    next: u64,
}

impl Pcache {
    pub(crate) fn new(given: &[(String, String)], flash: u32) -> Self {
        let segment_pages = value(given, "segment_pages", super::region_pages(flash));
        let period = value(given, "writeback_s", 1) * second(given);
        Self {
            used: VecDeque::new(),
            dirty: BTreeSet::new(),
            segment_pages: segment_pages as usize,
            segments: (flash / segment_pages) as usize,
            gc_percent: value(given, "gc_percent", 70),
            period,
            next: period,
        }
    }

    fn holds(&self, page: u32) -> bool {
        self.used.iter().any(|segment| segment.keys.contains(&Some(page)))
    }

    /// Frees the segments in front whose keys have left.
    fn free(&mut self) {
        let is_free =
            |segment: &Segment| segment.keys.is_empty() && segment.filled == self.segment_pages;
        while self.used.front().is_some_and(is_free) {
            self.used.pop_front();
        }
    }

    fn drop_tail(&mut self, store: &mut Store) {
        let tail = self.used.iter_mut().find(|segment| !segment.keys.is_empty());
        if let Some(page) = tail.and_then(|segment| segment.keys.pop_front()).flatten() {
            store.forget(page);
        }
        self.free();
    }

    fn append(&mut self, page: u32, version: u64, is_dirty: bool, store: &mut Store) {
        for key in self.used.iter_mut().flat_map(|segment| &mut segment.keys) {
            *key = key.filter(|&known| known != page);
        }
        self.dirty.remove(&page);
        if self.used.back().is_none_or(|last| last.filled == self.segment_pages) {
            if self.used.len() == self.segments {
                self.write_back(store);
                while self.used.len() == self.segments {
                    self.drop_tail(store);
                }
            }
            self.used.push_back(Segment::default());
        }
        let last = self.used.back_mut().expect("a segment is open");
        last.keys.push_back(Some(page));
        last.filled += 1;
        if is_dirty {
            self.dirty.insert(page);
        }
        store.write_flash(page, version);
    }

    fn write_back(&mut self, store: &mut Store) {
        for page in std::mem::take(&mut self.dirty) {
            store.clean(page);
        }
    }

    fn settle(&mut self, store: &mut Store) {
        if store.now >= self.next {
            self.next = store.now + self.period;
            self.write_back(store);
        }
        while self.used.len() >= self.segments * self.gc_percent / 100 {
            let tail = self.used.iter().find_map(|segment| segment.keys.front());
            match tail {
                None => break,
                Some(Some(page)) if self.dirty.contains(page) => break,
                Some(_) => self.drop_tail(store),
            }
        }
    }
}

impl Device for Pcache {
    fn read(&mut self, page: u32, store: &mut Store) -> u64 {
        if self.segments == 0 {
            return store.read_disk(page);
        }
        let version = if self.holds(page) {
            store.read_flash(page)
        } else {
            let version = store.read_disk(page);
            self.append(page, version, false, store);
            version
        };
        self.settle(store);
        version
    }

    fn write(&mut self, page: u32, version: u64, _is_eviction: bool, store: &mut Store) {
        if self.segments == 0 {
            return store.write_disk(page, version);
        }
        self.append(page, version, true, store);
        self.settle(store);
    }

    fn dirty(&self) -> BTreeSet<u32> {
        self.dirty.clone()
    }

    /// Return the keys that have not left, `.` for one whose page was written again.
    fn state(&self) -> String {
        let keys = self.used.iter().flat_map(|segment| &segment.keys);
        let word = |key: &Option<u32>| key.map_or(".".to_owned(), |page| page.to_string());
        keys.map(word).collect::<Vec<_>>().join(" ")
    }
}
