//! BPAC as we reconstruct it: recent pages one by one, the rest by clusters.
//!
//! Readings:
//!
//! 1. The page region has half the capacity at first, rounded down, and always at least one page;
//!    it grows to one page less than the capacity at most.
//! 2. On a miss in a full buffer the tail cluster is flushed before the page comes in, even if it
//!    is the page's own. If there is no cluster, the tail page is demoted to be flushed.
//! 3. A cluster comes to the head when a page joins it and when a late hit refreshes it; BIRD counts
//!    from then. A page that leaves a cluster does not move it.
//! 4. A page's distance, and its age for PIRD, count from its last write.
//! 5. The limits hold at the end of each write: first pages older than PIRD are demoted, then
//!    clusters older than BIRD are flushed. With `limits_on_demand` ages alone move nothing: PIRD
//!    only decides what a hit in a cluster does, BIRD nothing.
//! 6. A one-page cluster shrinks the page region however it is evicted.

use std::collections::{BTreeMap, BTreeSet};

use super::{BlockList, BufferModel, Unbuffered, join, take};

#[derive(Debug)]
pub(crate) struct Bpac {
    capacity: usize,
    /// The largest inter-reference distances of pages and blocks, in writes.
    page_distance: u64,
    block_distance: u64,
    is_adaptive: bool,
    limits_on_demand: bool,
    page_capacity: usize,
    pages: Vec<u64>,
    clusters: BlockList,
    /// Time at which each page was written, and time at which each cluster came to the head.
    written_at: BTreeMap<u64, u64>,
    moved_at: BTreeMap<u64, u64>,
    now: u64,
    flushed: Vec<Vec<u64>>,
}

impl Bpac {
    /// Create the model with its documented limits: PIRD as many writes as there are pages, BIRD four
    /// times as many.
    pub(crate) fn new(capacity: usize, pages_per_block: u64, is_adaptive: bool) -> Self {
        let writes = capacity as u64;
        Self::with_limits(capacity, pages_per_block, is_adaptive, [writes, 4 * writes], false)
    }

    pub(crate) fn with_limits(
        capacity: usize,
        pages_per_block: u64,
        is_adaptive: bool,
        limits: [u64; 2],
        limits_on_demand: bool,
    ) -> Self {
        let [page_distance, block_distance] = limits;
        Self {
            capacity,
            page_distance,
            block_distance,
            is_adaptive,
            limits_on_demand,
            page_capacity: (capacity / 2).max(1),
            pages: vec![],
            clusters: BlockList::new(pages_per_block),
            written_at: BTreeMap::new(),
            moved_at: BTreeMap::new(),
            now: 0,
            flushed: vec![],
        }
    }

    pub(crate) fn page_capacity(&self) -> usize {
        self.page_capacity
    }

    fn grow(&mut self) {
        if self.is_adaptive && self.page_capacity + 1 < self.capacity {
            self.page_capacity += 1;
        }
    }

    fn touch_cluster(&mut self, page: u64) {
        self.clusters.touch(page);
        self.moved_at.insert(self.clusters.number_of(page), self.now);
    }

    fn demote(&mut self) {
        let page = self.pages.pop().expect("the page region has pages");
        self.touch_cluster(page);
    }

    fn flush(&mut self, cluster: u64) {
        let block = self.clusters.remove_block(cluster).expect("the cluster is there");
        if self.is_adaptive && block.pages.len() == 1 && self.page_capacity > 1 {
            self.page_capacity -= 1;
        }
        self.flushed.push(block.batch());
    }

    fn write(&mut self, page: u64) {
        self.now += 1;
        let distance = self.written_at.get(&page).map_or(0, |written_at| self.now - written_at);
        if take(&mut self.pages, page) {
            self.pages.insert(0, page);
        } else if self.clusters.contains(page) {
            if distance <= self.page_distance {
                self.clusters.remove_page(page);
                self.grow();
                self.pages.insert(0, page);
            } else {
                self.touch_cluster(page);
            }
        } else {
            if self.pages.len() + self.clusters.page_count() == self.capacity {
                if self.clusters.blocks().is_empty() {
                    self.demote();
                }
                let tail = self.clusters.tail_except(None).expect("there is a cluster");
                self.flush(tail);
            }
            self.pages.insert(0, page);
        }
        self.written_at.insert(page, self.now);
        while self.pages.len() > self.page_capacity {
            self.demote();
        }
        if !self.limits_on_demand {
            self.enforce_limits();
        }
    }

    fn enforce_limits(&mut self) {
        while let Some(tail) = self.pages.last()
            && self.now - self.written_at[tail] > self.page_distance
        {
            self.demote();
        }
        while let Some(tail) = self.clusters.tail_except(None)
            && self.now - self.moved_at[&tail] > self.block_distance
        {
            self.flush(tail);
        }
        // A flushed cluster may have shrunk the page region.
        while self.pages.len() > self.page_capacity {
            self.demote();
        }
    }
}

impl BufferModel for Bpac {
    fn access(&mut self, page: u64, write: bool) -> Vec<Vec<u64>> {
        if self.capacity == 0 {
            return Unbuffered.access(page, write);
        }
        if write {
            self.write(page);
        }
        std::mem::take(&mut self.flushed)
    }

    fn contains(&self, page: u64) -> bool {
        self.pages.contains(&page) || self.clusters.contains(page)
    }

    fn dirty(&self) -> BTreeSet<u64> {
        self.pages.iter().copied().chain(self.clusters.pages()).collect()
    }

    /// Page region, then clusters, each with the most recently used first.
    fn state(&self) -> String {
        format!("{} | {}", join(self.pages.iter().map(u64::to_string)), self.clusters.text())
    }
}
