//! HAT: the table of six scenarios, then the cascade of constraints, each a scan.

use std::collections::BTreeSet;

use thermocline_core::{Access, Tier};

use super::{Counts, Model, Versions, join};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Hot,
    Warm,
    Cold,
}

#[derive(Debug)]
struct Frame {
    page: u32,
    status: Status,
    memory: Option<u64>,
    flash: Option<u64>,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Hat {
    /// Head first.
    hot_region: Vec<Frame>,
    warm_region: Vec<Frame>,
    memory_pages: usize,
    flash_pages: usize,
    hot_max: usize,
    queue_max: usize,
    is_fixed: bool,
    is_early: bool,
    was_hot_full: bool,
    was_flash_full: bool,
    versions: Versions,
    counts: Counts,
}

impl Hat {
    pub(crate) fn new(
        memory_pages: u32,
        flash_pages: u32,
        nonhot_ratio: f64,
        queue_ratio: f64,
        [is_early, is_fixed]: [bool; 2],
    ) -> Self {
        let share = (nonhot_ratio * f64::from(memory_pages)).round_ties_even();
        let pages = memory_pages + flash_pages;
        let bound = queue_ratio * f64::from(pages);
        let queue_max = (pages..=16 * pages).rev().find(|&pages| f64::from(pages) <= bound);
        let queue_max = queue_max.expect("the ratio is at least 1") as usize;
        let nonhot = (1..=memory_pages).rev().find(|&pages| f64::from(pages) <= share).unwrap_or(1);
        Self {
            hot_region: vec![],
            warm_region: vec![],
            memory_pages: memory_pages as usize,
            flash_pages: flash_pages as usize,
            hot_max: (memory_pages - nonhot) as usize,
            queue_max,
            is_fixed,
            is_early,
            was_hot_full: false,
            was_flash_full: false,
            versions: Versions::default(),
            counts: Counts::default(),
        }
    }

    fn frames(&self) -> impl DoubleEndedIterator<Item = &Frame> {
        self.hot_region.iter().chain(&self.warm_region)
    }

    fn count(&self, is_counted: impl Fn(&Frame) -> bool) -> usize {
        self.frames().filter(|frame| is_counted(frame)).count()
    }

    /// Return the frame nearest the tail for which something holds.
    fn last(&mut self, is_meant: impl Fn(&Frame) -> bool) -> Option<&mut Frame> {
        self.hot_region.iter_mut().chain(&mut self.warm_region).rev().find(|frame| is_meant(frame))
    }

    /// Steps a and b: classify by status and position, fetch, serve, move to the head.
    fn refer(&mut self, access: Access) {
        let page = access.page.0;
        let in_hot = self.hot_region.iter().position(|frame| frame.page == page);
        let in_warm = self.warm_region.iter().position(|frame| frame.page == page);
        let mut frame = match (in_hot, in_warm) {
            (Some(place), _) => self.hot_region.remove(place),
            (_, Some(place)) => self.warm_region.remove(place),
            _ => Frame { page, status: Status::Cold, memory: None, flash: None },
        };
        let version = match (frame.memory, frame.flash) {
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
        frame.memory = Some(self.versions.serve(access, version));
        if in_hot.is_some() {
            frame.status = Status::Hot;
            frame.flash = None;
        } else if in_warm.is_some() {
            assert_ne!(frame.status, Status::Hot, "hot pages are in the hot region");
            frame.status = Status::Warm;
        }
        self.hot_region.insert(0, frame);
    }

    fn brush_hot_region(&mut self) {
        while self.count(|frame| frame.status == Status::Hot) > self.hot_max {
            // Without a brush yet, the tail need not be hot: take the last hot page down with what
            // is behind it.
            let place = self.hot_region.iter().rposition(|frame| frame.status == Status::Hot);
            let tail = self.hot_region.split_off(place.expect("more hot pages than none"));
            self.warm_region.splice(0..0, tail);
            self.warm_region[0].status = Status::Warm;
        }
        let hot = self.count(|frame| frame.status == Status::Hot);
        self.was_hot_full |= hot >= if self.is_early { self.hot_max.min(1) } else { self.hot_max };
        while self.was_hot_full
            && let Some(tail) = self.hot_region.pop_if(|tail| tail.status != Status::Hot)
        {
            self.warm_region.insert(0, tail);
        }
    }

    /// Q2: the page of memory that is not hot and nearest the tail leaves it.
    fn evict_from_memory(&mut self) {
        let is_meant = |frame: &Frame| frame.memory.is_some() && frame.status != Status::Hot;
        let flash_pages = self.flash_pages;
        let victim = self.last(is_meant).expect("an over-full memory has a page that is not hot");
        let (page, version) = (victim.page, victim.memory.expect("it is in memory"));
        if victim.status == Status::Warm && flash_pages > 0 {
            if victim.flash.is_none() && self.count(|frame| frame.flash.is_some()) == flash_pages {
                self.evict_from_flash();
            }
            let victim = self.last(|frame| frame.page == page).expect("it is in the queue");
            victim.memory = None;
            if victim.flash != Some(version) {
                victim.flash = Some(version);
                self.counts.flash_writes += 1;
            }
        } else {
            victim.memory = None;
            victim.status = Status::Cold;
            if version != self.versions.on_disk(page) {
                self.versions.write_to_disk(page, version);
                self.counts.disk_writes += 1;
            }
        }
    }

    /// Q3: the page of flash nearest the tail becomes cold.
    fn evict_from_flash(&mut self) {
        let victim = self.last(|frame| frame.flash.is_some()).expect("a full flash has a page");
        victim.status = Status::Cold;
        let (page, version) = (victim.page, victim.flash.take().expect("it is on flash"));
        if victim.memory.is_none() && version != self.versions.on_disk(page) {
            self.versions.write_to_disk(page, version);
            self.counts.flash_reads += 1;
            self.counts.disk_writes += 1;
        }
    }

    fn forget(&mut self) {
        let is_ghost = |frame: &Frame| frame.memory.is_none() && frame.flash.is_none();
        let on_flash = self.count(|frame| frame.flash.is_some());
        let quota = if self.is_early { self.flash_pages.min(1) } else { self.flash_pages };
        self.was_flash_full |= on_flash >= quota;
        while self.was_flash_full && self.warm_region.pop_if(|tail| is_ghost(tail)).is_some() {}
        if self.frames().count() > self.queue_max {
            let region = [&mut self.warm_region, &mut self.hot_region]
                .into_iter()
                .find(|region| region.iter().any(is_ghost))
                .expect("what is too long for two tiers has a ghost");
            let place = region.iter().rposition(is_ghost).expect("the region has a ghost");
            region.remove(place);
        }
    }
}

impl Model for Hat {
    fn access(&mut self, access: Access) {
        self.refer(access);
        self.brush_hot_region();
        let is_nonhot = |frame: &Frame| frame.memory.is_some() && frame.status != Status::Hot;
        while self.count(|frame| frame.memory.is_some()) > self.memory_pages
            || (self.is_fixed && self.count(is_nonhot) > self.memory_pages - self.hot_max)
        {
            self.evict_from_memory();
        }
        self.forget();
    }

    fn counts(&self) -> Counts {
        self.counts.clone()
    }

    fn held(&self, tier: Tier) -> BTreeSet<u32> {
        let is_held = |frame: &&Frame| {
            if tier == Tier::RAM { frame.memory.is_some() } else { frame.flash.is_some() }
        };
        self.frames().filter(is_held).map(|frame| frame.page).collect()
    }

    /// Hot region and warm region, head first, each page with its status.
    fn state(&self) -> String {
        let region = |frames: &[Frame]| {
            join(frames.iter().map(|frame| {
                let status = match frame.status {
                    Status::Hot => 'H',
                    Status::Warm => 'W',
                    Status::Cold => 'C',
                };
                format!("{}{status}", frame.page)
            }))
        };
        format!("{} | {}", region(&self.hot_region), region(&self.warm_region)).trim().to_owned()
    }
}
