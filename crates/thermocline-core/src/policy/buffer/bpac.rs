//! BPAC, reconstructed: a page region for pages written again soon, a block region for the rest.
//!
//! New pages enter the page region. Those that are not written again within a threshold, or that the
//! region has no room for, join the cluster of their flash block in the block region, which is
//! evicted a cluster at a time. A page of the block region that is written again soon goes back.
//!
//! * Source: Wu, Eckart, He, *BPAC: an adaptive write buffer management scheme for flash-based solid
//!   state drives*, MSST 2010; Wu, He, Eckart, *An adaptive write buffer management scheme for
//!   flash-based SSDs*, ACM Transactions on Storage 8(1), 2012. Reconstructed from both abstracts and
//!   from the HWB paper, section I, which names the two regions and the two thresholds.
//! * State: 25 bytes per page that exists, 24 per block that exists.
//! * Cost: amortised O(1) per access, plus sorting the pages that are evicted.
//! * Deviations: the papers' texts were not available, so every rule beyond the two regions and the
//!   two thresholds is a reconstruction: (1) the page region's size follows what happens: a page
//!   that comes back from the block region within the threshold adds one page, the eviction of a
//!   cluster of one page takes one away. (2) It begins with half of the buffer. (3) The thresholds
//!   are fixed: as many writes as the buffer has pages for a page, four times as many for a
//!   cluster. (4) A cluster's time is that of the last page that joined it or was written in it.
//!   (5) Reads change nothing: this is a write buffer. (6) The journal's mechanism that finds
//!   clusters of low spatial locality at run time is left out.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::frames::Frames;
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::blocks::{Blocks, PAGES_PER_BLOCK};
use crate::queue::Lists;
use crate::{Access, Actions, BoxedPolicy, Op, PageId, Policy, Setup, Survivor};

/// The parameters of BPAC.
pub const PARAMETERS: &[Parameter] = &[
    PAGES_PER_BLOCK,
    Parameter::integer_or_auto("page_threshold", 1..=u32::MAX as u64)
        .summary("a page not written again within so many writes leaves the page region (PIRD)")
        .source("reconstruction: the pages of the buffer"),
    Parameter::integer_or_auto("block_threshold", 1..=u32::MAX as u64)
        .summary("a cluster not written within so many writes is evicted (BIRD)")
        .source("reconstruction: four times the pages of the buffer"),
    Parameter::switch("adapt", true)
        .summary("the page region grows and shrinks")
        .source("the paper's adaptive partitioning"),
];

/// The list of the page region.
const PAGES: u32 = 0;
/// The list of the first cluster; the others follow.
const CLUSTERS: u32 = 1;
/// The only list of clusters.
const ORDER: u32 = 0;

/// Block-page adaptive cache.
#[derive(Debug)]
pub struct Bpac {
    frames: Frames,
    blocks: Blocks,
    /// The page region and each cluster, the newest page first.
    pages: Lists,
    /// The clusters, the newest first.
    order: Lists,
    /// Per page of the buffer: the number of its last write.
    page_time: Vec<u64>,
    /// Per cluster: the number of the write that last concerned it.
    cluster_time: Vec<u64>,
    /// Page writes so far.
    now: u64,
    page_region: u32,
    page_threshold: u64,
    block_threshold: u64,
    adapt: bool,
    victims: Vec<PageId>,
}

/// Its row in the registry.
pub const BPAC: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("bpac"),
    summary: "a page region for what is written again soon, a block region for the rest (reconstructed)",
    source: "Wu, Eckart, He: BPAC, MSST 2010, reconstructed from its abstract and the HWB paper",
    module: module_path!(),
    capabilities: Capabilities {
        whole_block: Some(&PAGES_PER_BLOCK),
        ..Capabilities::of(Depth::Buffer)
    },
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// Builds the policy for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    let frames = Frames::new(setup);
    let blocks = Blocks::new(&setup.geometry, values.integer_u32("pages_per_block"));
    let capacity = u64::from(frames.capacity());
    let threshold = |name, auto| values.integer_u32_or_auto(name).map_or(auto, u64::from);
    Box::new(Bpac {
        pages: Lists::new(setup.geometry.pages(), CLUSTERS + blocks.count()),
        order: Lists::new(blocks.count(), 1),
        page_time: vec![0; setup.geometry.pages() as usize],
        cluster_time: vec![0; blocks.count() as usize],
        now: 0,
        // Deviation (2): the abstracts name no first size, and adaptation soon moves it.
        page_region: (frames.capacity() / 2).max(1),
        page_threshold: threshold("page_threshold", capacity),
        block_threshold: threshold("block_threshold", 4 * capacity),
        adapt: values.switch("adapt"),
        victims: Vec::with_capacity(blocks.pages_per_block() as usize),
        frames,
        blocks,
    })
}

impl Bpac {
    /// Return the maximum of the page region: the block region keeps one page at least.
    fn page_region_max(&self) -> u32 {
        (self.frames.capacity() - 1).max(1)
    }

    /// Makes a page that is in no list the newest of the page region.
    fn enter(&mut self, page: PageId) {
        self.pages.push_front(PAGES, page.0);
    }

    /// Makes a cluster the newest.
    fn refresh(&mut self, cluster: u32) {
        if self.order.contains(cluster) {
            self.order.remove(cluster);
        }
        self.order.push_front(ORDER, cluster);
        // Deviation (4): BIRD is measured from here, so a cluster that gains pages is not evicted
        // for the age of its oldest.
        self.cluster_time[cluster as usize] = self.now;
    }

    /// Moves the oldest page of the page region to its cluster.
    fn demote(&mut self) {
        let page = self.pages.back(PAGES).expect("a region that is too long has a page");
        self.pages.remove(page);
        let cluster = self.blocks.of(PageId(page));
        self.pages.push_front(CLUSTERS + cluster, page);
        self.refresh(cluster);
    }

    /// Evicts the oldest cluster, if there is one.
    fn evict_cluster(&mut self, out: &mut Actions) {
        let Some(cluster) = self.order.back(ORDER) else { return };
        // Evicting a single page wastes an erase: the block region should be larger, so that
        // clusters can grow.
        if self.adapt && self.pages.len(CLUSTERS + cluster) == 1 {
            self.page_region = (self.page_region - 1).max(1);
        }
        self.victims.clear();
        self.victims.extend(self.pages.iter(CLUSTERS + cluster).map(PageId));
        // In address order: the flash block is written as one sequential run.
        self.blocks.sort(&mut self.victims);
        for &page in &self.victims {
            self.pages.remove(page.0);
            self.frames.evict(page, out);
        }
        self.order.remove(cluster);
    }

    /// Moves pages that do not belong into the page region any more, and evicts old clusters.
    fn tidy(&mut self, out: &mut Actions) {
        self.shrink();
        // PIRD, the page threshold of the HWB paper, Section I. The list is in order of last write,
        // so the first page within the threshold ends the search.
        while let Some(oldest) = self.pages.back(PAGES)
            && self.now - self.page_time[oldest as usize] > self.page_threshold
        {
            self.demote();
        }
        // BIRD, the block threshold of the HWB paper, Section I.
        while let Some(oldest) = self.order.back(ORDER)
            && self.now - self.cluster_time[oldest as usize] > self.block_threshold
        {
            self.evict_cluster(out);
        }
        // The eviction of a cluster of one page may have made the page region smaller.
        self.shrink();
    }

    /// Moves pages down that the page region has no room for.
    fn shrink(&mut self) {
        while self.pages.len(PAGES) > self.page_region {
            self.demote();
        }
    }

    /// Notes a write of a page that a cluster holds.
    fn hit_in_cluster(&mut self, page: PageId, cluster: u32) {
        // A page that was rewritten only after a long time stays in its cluster.
        if self.now - self.page_time[page.index()] > self.page_threshold {
            self.refresh(cluster);
            return;
        }
        self.pages.remove(page.0);
        if self.pages.is_empty(CLUSTERS + cluster) {
            self.order.remove(cluster);
        }
        if self.adapt {
            // A page that returns soon left the page region too early, so that grows.
            self.page_region = (self.page_region + 1).min(self.page_region_max());
        }
        self.enter(page);
    }
}

impl Policy for Bpac {
    fn access(&mut self, Access { page, op, .. }: Access, out: &mut Actions) {
        if op == Op::Read {
            return self.frames.read(page, out);
        }
        self.now += 1;
        match self.pages.list_of(page.0) {
            Some(PAGES) => self.pages.move_to_front(page.0),
            Some(list) => self.hit_in_cluster(page, list - CLUSTERS),
            None => {
                if self.frames.are_full() {
                    // All pages are in the page region: one must become a cluster, since only
                    // clusters are evicted.
                    if self.order.is_empty(ORDER) {
                        self.demote();
                    }
                    self.evict_cluster(out);
                }
                self.enter(page);
            }
        }
        self.frames.write(page, out);
        // After `hit_in_cluster`, which compares with the write before this one.
        self.page_time[page.index()] = self.now;
        self.tidy(out);
    }

    fn flush(&mut self, out: &mut Actions) {
        self.frames.clean(out);
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        self.frames.surrender(survivors, out);
    }

    fn prefetch(&self, page: PageId) {
        self.frames.prefetch(page);
        self.pages.prefetch(page.0);
        self.blocks.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.frames.assert_invariants();
        self.pages.assert_invariants();
        self.order.assert_invariants();
        assert!(self.pages.len(PAGES) <= self.page_region, "the page region is bounded");
        let mut pages = self.pages.len(PAGES);
        for cluster in 0..self.blocks.count() {
            let held = self.pages.len(CLUSTERS + cluster);
            assert_eq!(self.order.contains(cluster), held > 0, "no cluster is empty");
            let mut members = self.pages.iter(CLUSTERS + cluster);
            assert!(members.all(|page| self.blocks.of(PageId(page)) == cluster), "pages are home");
            pages += held;
        }
        assert_eq!(pages, self.frames.held(), "every page is in one region");
    }

    fn memory_bytes(&self) -> usize {
        self.frames.memory_bytes()
            + self.blocks.memory_bytes()
            + self.pages.memory_bytes()
            + self.order.memory_bytes()
            + size_of_val(&*self.page_time)
            + size_of_val(&*self.cluster_time)
            + self.victims.capacity() * size_of::<PageId>()
    }
}
