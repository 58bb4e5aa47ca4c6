//! LC, DW and CW: frames with their last two accesses, a cleaner that looks for neighbours.

use std::collections::{BTreeMap, BTreeSet};

use thermocline_core::{Access, Op, Tier};

use super::{Counts, LruMemory, Model, Versions, join};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Design {
    Lazy,
    Dual,
    Clean,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    page: u32,
    version: u64,
    second_to_last: u64,
    last: u64,
}

pub(crate) struct LazyCleaning {
    design: Design,
    memory: LruMemory,
    /// Pages in memory, with `true` if they were fetched at random.
    random: BTreeMap<u32, bool>,
    frames: Vec<Frame>,
    memory_pages: usize,
    flash_pages: usize,
    tau: f64,
    lambda: f64,
    low_mark: f64,
    alpha: usize,
    time: u64,
    previous_miss: Option<u32>,
    versions: Versions,
    counts: Counts,
}

impl LazyCleaning {
    pub(crate) fn new(
        design: Design,
        memory_pages: u32,
        flash_pages: u32,
        shares: [f64; 3],
        alpha: usize,
    ) -> Self {
        let [tau, lambda, low_mark] = shares;
        Self {
            design,
            memory: LruMemory::default(),
            random: BTreeMap::new(),
            frames: vec![],
            memory_pages: memory_pages as usize,
            flash_pages: flash_pages as usize,
            tau,
            lambda,
            low_mark,
            alpha,
            time: 0,
            previous_miss: None,
            versions: Versions::default(),
            counts: Counts::default(),
        }
    }

    fn is_dirty(&self, frame: &Frame) -> bool {
        frame.version != self.versions.on_disk(frame.page)
    }

    /// Return the dirty, or clean, frame whose second-to-last access is oldest.
    fn oldest(&self, is_dirty: bool) -> Option<usize> {
        (0..self.frames.len())
            .filter(|&place| self.is_dirty(&self.frames[place]) == is_dirty)
            .min_by_key(|&place| (self.frames[place].second_to_last, self.frames[place].last))
    }

    fn clean(&mut self, place: usize) {
        let Frame { page, version, .. } = self.frames[place];
        self.versions.write_to_disk(page, version);
        self.counts.flash_reads += 1;
        self.counts.disk_writes += 1;
    }

    fn evict(&mut self, page: u32, version: u64) {
        let is_random = self.random.remove(&page).expect("it was in memory");
        if self.frames.iter().any(|frame| frame.page == page) {
            return;
        }
        let is_dirty = version != self.versions.on_disk(page);
        let is_filling = (self.frames.len() as f64) < self.tau * self.flash_pages as f64;
        let is_admitted = self.flash_pages > 0
            && (is_random || is_filling)
            && !(is_dirty && self.design == Design::Clean);
        if is_dirty && !(is_admitted && self.design == Design::Lazy) {
            self.versions.write_to_disk(page, version);
            self.counts.disk_writes += 1;
        }
        if !is_admitted {
            return;
        }
        if self.frames.len() == self.flash_pages {
            let victim = self.oldest(false).unwrap_or_else(|| {
                let dirty = self.oldest(true).expect("a full flash has a frame");
                self.clean(dirty);
                dirty
            });
            self.frames.remove(victim);
        }
        self.time += 1;
        self.counts.flash_writes += 1;
        self.frames.push(Frame { page, version, second_to_last: 0, last: self.time });
        self.run_cleaner();
    }

    fn run_cleaner(&mut self) {
        let dirty =
            |model: &Self| model.frames.iter().filter(|frame| model.is_dirty(frame)).count();
        let threshold = self.lambda * self.flash_pages as f64;
        if self.design != Design::Lazy || dirty(self) as f64 <= threshold {
            return;
        }
        while dirty(self) as f64 > self.low_mark * threshold {
            let first = self.frames[self.oldest(true).expect("some are dirty")].page;
            for page in (first..).take(self.alpha) {
                let place = self.frames.iter().position(|frame| frame.page == page);
                match place.filter(|&place| self.is_dirty(&self.frames[place])) {
                    Some(place) => self.clean(place),
                    None => break,
                }
            }
        }
    }
}

impl Model for LazyCleaning {
    fn access(&mut self, access: Access) {
        let page = access.page.0;
        let version = if let Some(version) = self.memory.remove(page) {
            self.counts.memory_hits += 1;
            version
        } else {
            self.random
                .insert(page, self.previous_miss.is_none_or(|previous| previous + 1 != page));
            self.previous_miss = Some(page);
            if let Some(frame) = self.frames.iter_mut().find(|frame| frame.page == page) {
                self.time += 1;
                (frame.second_to_last, frame.last) = (frame.last, self.time);
                self.counts.flash_hits += 1;
                self.counts.flash_reads += 1;
                frame.version
            } else {
                self.counts.disk_hits += 1;
                self.counts.disk_reads += 1;
                self.versions.on_disk(page)
            }
        };
        let version = self.versions.serve(access, version);
        if access.op == Op::Write {
            self.frames.retain(|frame| frame.page != page);
        }
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
        self.frames.iter().map(|frame| frame.page).collect()
    }

    /// Return the frames in order of admission, `d` after a dirty one.
    fn state(&self) -> String {
        join(self.frames.iter().map(|frame| {
            let dirty = if self.is_dirty(frame) { "d" } else { "" };
            format!("{}{dirty}", frame.page)
        }))
    }
}
