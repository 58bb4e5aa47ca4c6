//! bcache as buckets of places, each of which holds a page or what is left of one.

use std::collections::{BTreeSet, VecDeque};

use thermocline_core::random::SplitMix64;

use super::{Device, Store, second, signed};
use crate::models::value;

#[derive(Clone, Debug)]
struct Bucket {
    /// Pages in the order in which they were written; `None` where a page is dead.
    pages: Vec<Option<u32>>,
    mark: char,
    used: i64,
    prio: i64,
    is_pinned: bool,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    next: u32,
    bytes: u64,
    until: u64,
}

pub(crate) struct Bcache {
    buckets: Vec<Bucket>,
    bucket_pages: usize,
    open: [Option<usize>; 2],
    free: VecDeque<usize>,
    dirty: BTreeSet<u32>,
    scan: u32,
    available: usize,
    min_prio: i64,
    rescale: i64,
    until_gc: i64,
    hand: usize,
    draws: SplitMix64,
    streams: Vec<Stream>,
    runs: [u64; 2],
    averages: [u64; 2],
    mode: String,
    replacement: String,
    cutoff: u64,
    stream_time: u64,
    writeback_limit: usize,
    in_use_limit: usize,
    rate: Option<Rate>,
}

/// The controller, in exact sectors: credit counts parts of a sector that are one access of a second.
struct Rate {
    integral: i64,
    sectors: i64,
    next: Option<u64>,
    last: u64,
    credit: i64,
    second: u64,
}

impl Bcache {
    pub(crate) fn new(given: &[(String, String)], flash: u32) -> Self {
        let mut bucket_pages = 128;
        while bucket_pages > 8 && flash / bucket_pages < 512 {
            bucket_pages /= 2;
        }
        let bucket_pages = value(given, "bucket_pages", bucket_pages);
        let count = (flash / bucket_pages) as usize;
        let empty = Bucket { pages: vec![], mark: 'f', used: 0, prio: 32768, is_pinned: false };
        let pages = count * bucket_pages as usize;
        let writeback_limit = pages * value::<usize>(given, "writeback_percent", 10) / 100;
        let is_pi = value(given, "control", "limit".to_owned()) == "pi";
        let rate = Rate {
            integral: 0,
            sectors: 1024,
            next: None,
            last: 0,
            credit: 0,
            second: second(given),
        };
        Self {
            buckets: vec![empty; count],
            bucket_pages: bucket_pages as usize,
            open: [None; 2],
            free: VecDeque::new(),
            dirty: BTreeSet::new(),
            scan: 0,
            available: count,
            min_prio: 32768,
            rescale: 0,
            until_gc: signed(pages * 8 / 16),
            hand: 0,
            draws: SplitMix64::new(value(given, "seed", 1)),
            streams: vec![],
            runs: [0; 2],
            averages: [0; 2],
            mode: value(given, "mode", "writethrough".to_owned()),
            replacement: value(given, "replacement", "lru".to_owned()),
            cutoff: value(given, "sequential_cutoff", 1024) * 4096,
            stream_time: 5 * second(given),
            writeback_limit,
            in_use_limit: if value(given, "sync_writes", false) { 70 } else { 40 },
            rate: (is_pi && writeback_limit > 0).then_some(rate),
        }
    }

    fn pages(&self) -> i64 {
        signed(self.buckets.len() * self.bucket_pages)
    }

    fn in_use(&self) -> usize {
        let count = self.buckets.len();
        (100 * (count - self.available)).checked_div(count).unwrap_or(100)
    }

    fn find(&self, page: u32) -> Option<usize> {
        self.buckets.iter().position(|bucket| bucket.pages.contains(&Some(page)))
    }

    fn kill(&mut self, page: u32) {
        for place in self.buckets.iter_mut().flat_map(|bucket| &mut bucket.pages) {
            *place = place.filter(|&known| known != page);
        }
    }

    fn is_bypassed(&mut self, page: u32, is_write: bool, task: usize, now: u64) -> bool {
        if self.in_use() > 95 || self.mode == "none" || is_write && self.mode == "writearound" {
            return true;
        }
        if self.cutoff > 0 {
            let fits = |stream: &Stream| stream.next == page && now <= stream.until;
            let bytes = match self.streams.iter().rposition(fits) {
                Some(place) => self.streams.remove(place).bytes + 4096,
                None => {
                    if self.streams.len() == 128 {
                        self.streams.remove(0);
                    }
                    self.averages[task] = (7 * self.averages[task] + self.runs[task]) / 8;
                    4096
                }
            };
            self.streams.push(Stream { next: page + 1, bytes, until: now + self.stream_time });
            self.runs[task] = bytes;
            if bytes.max(self.averages[task]) >= self.cutoff {
                return true;
            }
        }
        self.rescale -= 8;
        if self.rescale < 0 {
            self.rescale += self.pages() * 8 / 1024;
            let mut least = None;
            for bucket in &mut self.buckets {
                if !bucket.is_pinned && bucket.prio > 0 {
                    bucket.prio -= 1;
                    least = Some(least.unwrap_or(bucket.prio).min(bucket.prio));
                }
            }
            self.min_prio = least.unwrap_or(self.min_prio);
        }
        false
    }

    fn collect(&mut self) {
        self.until_gc = self.pages() * 8 / 16;
        for bucket in &mut self.buckets {
            if !bucket.is_pinned {
                (bucket.used, bucket.mark) = (0, 'f');
            }
            for page in bucket.pages.iter().flatten() {
                bucket.used += 8;
                if self.dirty.contains(page) {
                    bucket.mark = 'd';
                } else if bucket.mark == 'f' {
                    bucket.mark = 'c';
                }
            }
        }
        let is_available = |bucket: &&Bucket| !bucket.is_pinned && bucket.mark != 'd';
        self.available = self.buckets.iter().filter(is_available).count();
    }

    fn can_leave(&self, number: usize) -> bool {
        !self.buckets[number].is_pinned && self.buckets[number].mark != 'd'
    }

    fn empty(&mut self, number: usize, store: &mut Store) {
        for page in self.buckets[number].pages.drain(..).flatten() {
            store.forget(page);
        }
        self.buckets[number].is_pinned = true;
        self.buckets[number].prio = 32768;
        self.free.push_back(number);
    }

    fn invalidate(&mut self, store: &mut Store) {
        let count = self.buckets.len();
        let batch = (count.next_power_of_two() / 256).max(1);
        match &*self.replacement {
            "lru" => {
                for _ in 0..batch {
                    let worth = |&number: &usize| {
                        let Bucket { prio, used, .. } = self.buckets[number];
                        (prio - self.min_prio + (32768 - self.min_prio).div_euclid(8)) * used
                    };
                    let least =
                        (0..count).filter(|&number| self.can_leave(number)).min_by_key(worth);
                    let Some(number) = least else { return };
                    self.empty(number, store);
                }
            }
            "fifo" => {
                for _ in 0..count {
                    if self.free.len() < batch {
                        let number = self.hand;
                        self.hand = (number + 1) % count;
                        if self.can_leave(number) {
                            self.empty(number, store);
                        }
                    }
                }
            }
            _ => {
                for _ in 0..count / 2 {
                    if self.free.len() < batch {
                        let count = u32::try_from(count).expect("buckets are few");
                        let number = self.draws.below(count) as usize;
                        if self.can_leave(number) {
                            self.empty(number, store);
                        }
                    }
                }
            }
        }
    }

    fn insert(&mut self, page: u32, is_dirty: bool, task: usize, store: &mut Store) -> bool {
        self.until_gc -= 8;
        if self.until_gc < 0 {
            self.collect();
        }
        self.kill(page);
        self.dirty.remove(&page);
        if self.open[task].is_none() {
            if self.free.is_empty() {
                self.invalidate(store);
            }
            if self.free.is_empty() {
                self.collect();
                self.invalidate(store);
            }
            if let Some(number) = self.free.pop_front() {
                let used = signed(self.bucket_pages * 8);
                self.buckets[number] =
                    Bucket { pages: vec![], mark: 'c', used, prio: 32768, is_pinned: true };
                self.available = self.available.saturating_sub(1);
                self.open[task] = Some(number);
            }
        }
        let Some(number) = self.open[task] else { return false };
        let bucket = &mut self.buckets[number];
        bucket.pages.push(Some(page));
        if is_dirty {
            bucket.mark = 'd';
            self.dirty.insert(page);
        }
        if bucket.pages.len() == self.bucket_pages {
            bucket.is_pinned = false;
            self.open[task] = None;
        }
        true
    }

    fn write_back(&mut self, store: &mut Store) {
        loop {
            let (dirty, target) = (self.dirty.len(), self.writeback_limit);
            let least = self.fragmentation();
            let is_due = match &mut self.rate {
                None => dirty > target,
                Some(rate) => rate.is_due(signed(dirty) * 8, signed(target) * 8, least, store.now),
            };
            if !is_due {
                return;
            }
            let next = self.dirty.range(self.scan..).next().or(self.dirty.first());
            let page = *next.expect("something is dirty");
            self.dirty.remove(&page);
            self.scan = page + 1;
            store.clean(page);
        }
    }

    /// Return the least summand of the rate, if the buckets in use could hold four times what is
    /// dirty.
    fn fragmentation(&self) -> Option<i64> {
        let (dirty, used) = (self.dirty.len(), self.buckets.len() - self.available);
        if dirty == 0 || used * self.bucket_pages < 4 * dirty {
            return None;
        }
        let per_bucket = signed(dirty * 8 / used);
        match signed(self.in_use()) {
            ..=50 => None,
            percent @ 51..=57 => Some(per_bucket * (percent - 50)),
            percent @ 58..=64 => Some(per_bucket * 10 * (percent - 57)),
            percent => Some(per_bucket * 1000 * (percent - 64)),
        }
    }
}

impl Rate {
    fn is_due(&mut self, dirty: i64, target: i64, least: Option<i64>, now: u64) -> bool {
        let next = *self.next.get_or_insert(now + 5 * self.second);
        self.credit += (now - self.last).cast_signed() * self.sectors;
        self.last = now;
        if now >= next {
            let error = dirty - target;
            if error > 0 || error < 0 && self.integral > 0 {
                self.integral += 5 * error;
            }
            let first = least.map_or(error / 40, |least| least.max(error / 40));
            self.sectors = (first + self.integral / 10000).max(8);
            self.next = Some(now + 5 * self.second);
        }
        if dirty == 0 {
            self.credit = 0;
        }
        let price = 8 * self.second.cast_signed();
        let is_due = dirty > 0 && self.credit >= price;
        if is_due {
            self.credit -= price;
        }
        is_due
    }
}

impl Device for Bcache {
    fn read(&mut self, page: u32, store: &mut Store) -> u64 {
        let is_bypassed = self.is_bypassed(page, false, 0, store.now);
        let version = if let Some(bucket) = self.find(page) {
            self.buckets[bucket].prio = 32768;
            store.read_flash(page)
        } else {
            let version = store.read_disk(page);
            if !is_bypassed && self.insert(page, false, 0, store) {
                store.write_flash(page, version);
            }
            version
        };
        self.write_back(store);
        version
    }

    fn write(&mut self, page: u32, version: u64, is_eviction: bool, store: &mut Store) {
        let task = usize::from(is_eviction);
        let is_bypassed = self.is_bypassed(page, true, task, store.now);
        let is_back =
            self.mode == "writeback" && !is_bypassed && self.in_use() <= self.in_use_limit;
        if !is_bypassed && self.insert(page, is_back, task, store) {
            store.write_flash(page, version);
            if !is_back {
                store.write_disk(page, version);
            }
        } else {
            self.kill(page);
            self.dirty.remove(&page);
            store.forget(page);
            store.write_disk(page, version);
        }
        self.write_back(store);
    }

    fn dirty(&self) -> BTreeSet<u32> {
        self.dirty.clone()
    }

    /// Return the buckets that have been written to, `*` after a dirty page, `.` for a dead one;
    /// then the percent in use, priorities less the first one, and the average of the reading task.
    fn state(&self) -> String {
        let written = self.buckets.iter().filter(|bucket| !bucket.pages.is_empty());
        let word = |place: &Option<u32>| match place {
            None => ".".to_owned(),
            Some(page) if self.dirty.contains(page) => format!("{page}*"),
            Some(page) => page.to_string(),
        };
        let buckets =
            written.map(|bucket| bucket.pages.iter().map(word).collect::<Vec<_>>().join(" "));
        let buckets: Vec<String> = buckets.collect();
        let prios: Vec<String> =
            self.buckets.iter().map(|bucket| (bucket.prio - 32768).to_string()).collect();
        let in_use = self.in_use();
        format!("{} | {in_use} | {} | {}", buckets.join(", "), prios.join(" "), self.averages[0])
    }
}
