//! CFDC: a working region, and behind it clean pages in a queue and dirty ones in clusters.
//!
//! A page that leaves the working region joins the clean queue or the cluster of its neighbours.
//! Clean pages are evicted first; then the pages of the cluster of lowest priority, that is, of a
//! large, sequential and old one, until it is empty.
//!
//! * Source: Ou, Haerder, Jin, *CFDC: a flash-aware buffer management algorithm for database
//!   systems*, ADBIS 2010 (and `DaMoN` 2009), section on the priority region.
//! * State: 37 bytes per page that exists, 40 per cluster that exists.
//! * Cost: O(1) per hit; an eviction from a new cluster costs O(k log n) for k different shapes of
//!   clusters, usually a few dozen.
//! * Deviations: (1) ages are at least 1, and the distance of a cluster of one page is 1, where the
//!   formula divides by 0 or gives 0. (2) Inter-page distances are taken in the order in which pages
//!   joined the cluster. (3) A cluster that is being evicted stays the next victim when pages join
//!   it, until a reference takes one of its pages out. (4) Of equal priorities the older, then the
//!   lower cluster goes first. (5) What reads do is a parameter, as for CFLRU.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use super::frames::Frames;
use super::page_list::{Reads, reads, share};
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::blocks::Blocks;
use crate::queue::Lists;
use crate::{Access, Actions, BoxedPolicy, Geometry, Op, PageId, Policy, Setup, Survivor};

/// The parameters of CFDC.
pub const PARAMETERS: &[Parameter] = &[
    reads("hold"),
    Parameter::real("working_region", 0.0..=1.0, 0.5)
        .summary("the share of the buffer that the working region takes")
        .source("implementations of the paper"),
    Parameter::integer("cluster_pages", 1..=1 << 12, 16)
        .summary("neighbouring pages that form a cluster")
        .source("implementations of the paper; 64 is in use too"),
];

/// The list of the working region.
const WORKING: u32 = 0;
/// The list of the clean queue.
const CLEAN: u32 = 1;
/// The list of the first cluster; the others follow.
const CLUSTERS: u32 = 2;

/// Parts of a cluster's priority except its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    /// The sum of the distances between one page and the next.
    distance: u64,
    pages: u32,
}

/// A cluster that has pages in the priority region.
#[derive(Clone, Copy, Debug, Default)]
struct Cluster {
    /// The sum of the distances between one page and the next.
    distance: u64,
    /// Time of the creation, or of the last reference to a page.
    timestamp: u64,
}

/// Clean first, dirty by clusters.
#[derive(Clone, Debug)]
pub struct Cfdc {
    frames: Frames,
    /// The working region, the clean queue, and each cluster, the newest page first.
    lists: Lists,
    working_pages: u32,
    reads: Reads,
    blocks: Blocks,
    geometry: Geometry,
    clusters: Vec<Cluster>,
    /// The clusters by shape, then by timestamp; the one that is being evicted is not here.
    by_shape: BTreeMap<Shape, BTreeSet<(u64, u32)>>,
    /// The cluster that is being evicted.
    frozen: Option<u32>,
    /// Dirty pages that left the working region.
    global_time: u64,
}

/// Its row in the registry.
pub const CFDC: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("cfdc"),
    summary: "clean pages first, then dirty pages by clusters of neighbours",
    source: "Ou, Haerder, Jin: CFDC, ADBIS 2010",
    module: module_path!(),
    capabilities: Capabilities::of(Depth::Buffer),
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// Builds the policy for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    let frames = Frames::new(setup);
    let working_pages = share(frames.capacity(), values.real("working_region"));
    let blocks = Blocks::new(&setup.geometry, values.integer_u32("cluster_pages"));
    Box::new(Cfdc {
        frames,
        lists: Lists::new(setup.geometry.pages(), CLUSTERS + blocks.count()),
        working_pages,
        reads: Reads::of(values),
        clusters: vec![Cluster::default(); blocks.count() as usize],
        blocks,
        geometry: setup.geometry.clone(),
        by_shape: BTreeMap::new(),
        frozen: None,
        global_time: 0,
    })
}

impl Cfdc {
    fn shape(&self, cluster: u32) -> Shape {
        let pages = self.lists.len(CLUSTERS + cluster);
        Shape { distance: self.clusters[cluster as usize].distance, pages }
    }

    /// Takes a cluster out of the ranking, before it changes.
    fn unrank(&mut self, cluster: u32) {
        let shape = self.shape(cluster);
        let timestamp = self.clusters[cluster as usize].timestamp;
        if let Some(ranked) = self.by_shape.get_mut(&shape) {
            ranked.remove(&(timestamp, cluster));
            if ranked.is_empty() {
                self.by_shape.remove(&shape);
            }
        }
    }

    /// Puts a cluster back into the ranking, unless it is empty or being evicted.
    fn rank(&mut self, cluster: u32) {
        let shape = self.shape(cluster);
        let timestamp = self.clusters[cluster as usize].timestamp;
        if shape.pages > 0 && self.frozen != Some(cluster) {
            self.by_shape.entry(shape).or_default().insert((timestamp, cluster));
        }
    }

    fn distance(&self, one: u32, other: u32) -> u64 {
        let number = |page| self.geometry.page_number(PageId(page));
        number(one).abs_diff(number(other))
    }

    /// Takes a page of the buffer out of where it is.
    fn unlink(&mut self, page: PageId) {
        let list = self.lists.list_of(page.0).expect("a page of the buffer is in a list");
        let Some(cluster) = list.checked_sub(CLUSTERS) else {
            self.lists.remove(page.0);
            return;
        };
        // Before the distance changes: the ranking is searched by the shape it was entered with.
        self.unrank(cluster);
        let [newer, older] = [self.lists.before(page.0), self.lists.after(page.0)];
        let mut distance = self.clusters[cluster as usize].distance;
        for neighbour in [newer, older].into_iter().flatten() {
            distance -= self.distance(page.0, neighbour);
        }
        if let (Some(newer), Some(older)) = (newer, older) {
            distance += self.distance(newer, older);
        }
        self.clusters[cluster as usize].distance = distance;
        self.lists.remove(page.0);
    }

    /// Notes a reference to a page that was in a cluster.
    fn refresh(&mut self, cluster: u32) {
        if self.frozen == Some(cluster) {
            // Deviation (3): a reference shows that the cluster is in use, so it competes by its
            // priority again.
            self.frozen = None;
        }
        self.clusters[cluster as usize].timestamp = self.global_time;
    }

    /// Makes a page that is in no list the newest of the working region.
    fn link_newest(&mut self, page: PageId) {
        self.lists.push_front(WORKING, page.0);
        while self.lists.len(WORKING) > self.working_pages {
            self.demote_oldest();
        }
    }

    /// Moves the oldest page of the working region into the priority region.
    fn demote_oldest(&mut self) {
        let page = PageId(self.lists.back(WORKING).expect("the working region has a page"));
        self.lists.remove(page.0);
        // Only dirty pages are clustered, because only they are written.
        if !self.frames.is_dirty(page) {
            self.lists.push_front(CLEAN, page.0);
            return;
        }
        let cluster = self.blocks.of(page);
        self.unrank(cluster);
        match self.lists.front(CLUSTERS + cluster) {
            Some(newest) => {
                let distance = self.distance(page.0, newest);
                self.clusters[cluster as usize].distance += distance;
            }
            None => self.clusters[cluster as usize].timestamp = self.global_time,
        }
        self.lists.push_front(CLUSTERS + cluster, page.0);
        self.rank(cluster);
        // Time passes with the dirty pages that arrive here, not with references: a cluster ages
        // only as clusters gain pages.
        self.global_time += 1;
    }

    /// Evicts a page if the buffer is full.
    fn make_room(&mut self, out: &mut Actions) {
        if !self.frames.are_full() {
            return;
        }
        // Only the priority region has victims; a working region of the whole buffer must give it
        // one.
        if self.lists.len(WORKING) == self.frames.held() {
            self.demote_oldest();
        }
        // Clean first: a clean page leaves without a write.
        let victim = self.lists.back(CLEAN).unwrap_or_else(|| self.oldest_of_cluster());
        self.unlink(PageId(victim));
        if let Some(frozen) = self.frozen
            && self.lists.is_empty(CLUSTERS + frozen)
        {
            self.frozen = None;
        }
        self.frames.evict(PageId(victim), out);
    }

    /// Return the oldest page of the cluster to be evicted.
    fn oldest_of_cluster(&mut self) -> u32 {
        // The paper evicts a cluster to its end once it is chosen, so that its writes stay close
        // together.
        if self.frozen.is_none() {
            self.frozen = self.lowest();
            if let Some(cluster) = self.frozen {
                self.unrank(cluster);
            }
        }
        let cluster = self.frozen.expect("a priority region without clean pages has a cluster");
        self.lists.back(CLUSTERS + cluster).expect("a cluster has a page")
    }

    /// Return the cluster of lowest priority.
    fn lowest(&self) -> Option<u32> {
        // Of clusters of one shape the oldest has the lowest priority, so one candidate per shape
        // is enough.
        let oldest = self.by_shape.iter().filter_map(|(&shape, ranked)| {
            let &(timestamp, cluster) = ranked.first()?;
            Some((shape, timestamp, cluster))
        });
        let priority = |(shape, timestamp, _): &(Shape, u64, u32)| {
            let distance = if shape.pages == 1 { 1 } else { shape.distance };
            let age = (self.global_time - timestamp).max(1);
            // The paper's priority: distance over pages^2 times age. It is compared as a fraction,
            // which needs no rounding.
            (u128::from(distance), u128::from(shape.pages).pow(2) * u128::from(age))
        };
        let lower = oldest.min_by(|one, other| {
            let [(dividend, divisor), (others, other_divisor)] = [one, other].map(priority);
            (dividend * other_divisor)
                .cmp(&(others * divisor))
                .then_with(|| (one.1, one.2).cmp(&(other.1, other.2)))
        });
        lower.map(|(.., cluster)| cluster)
    }
}

impl Policy for Cfdc {
    fn access(&mut self, Access { page, op, .. }: Access, out: &mut Actions) {
        let is_held = self.frames.hold(page);
        if op == Op::Read && self.reads.leave(is_held) {
            return self.frames.read(page, out);
        }
        if is_held {
            let cluster = self.lists.list_of(page.0).and_then(|list| list.checked_sub(CLUSTERS));
            self.unlink(page);
            if let Some(cluster) = cluster {
                self.refresh(cluster);
                self.rank(cluster);
            }
        } else {
            self.make_room(out);
        }
        self.frames.access(page, op, out);
        self.link_newest(page);
    }

    fn flush(&mut self, out: &mut Actions) {
        self.frames.clean(out);
        let clustered = |page: &u32| self.lists.list_of(*page).is_some_and(|list| list >= CLUSTERS);
        let pages: Vec<u32> = self.geometry.ids().filter(clustered).collect();
        for page in pages {
            self.lists.remove(page);
            self.lists.push_front(CLEAN, page);
        }
        self.by_shape.clear();
        self.clusters.fill(Cluster::default());
        self.frozen = None;
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        self.frames.surrender(survivors, out);
    }

    fn prefetch(&self, page: PageId) {
        self.frames.prefetch(page);
        self.lists.prefetch(page.0);
    }

    fn assert_invariants(&self) {
        self.frames.assert_invariants();
        self.lists.assert_invariants();
        assert!(self.lists.len(WORKING) <= self.working_pages, "the working region is bounded");
        let ranked = self.by_shape.values().map(BTreeSet::len).sum::<usize>();
        let mut clusters = 0;
        for cluster in 0..self.blocks.count() {
            let list = CLUSTERS + cluster;
            let mut pages = self.lists.iter(list);
            assert!(pages.all(|page| self.frames.is_dirty(PageId(page))), "clusters are dirty");
            let shape = self.shape(cluster);
            let pairs = self.lists.iter(list).zip(self.lists.iter(list).skip(1));
            let distance = pairs.map(|(one, other)| self.distance(one, other)).sum::<u64>();
            assert_eq!(distance, shape.distance, "the distances of a cluster add up");
            if shape.pages > 0 && self.frozen != Some(cluster) {
                clusters += 1;
                let place = (self.clusters[cluster as usize].timestamp, cluster);
                let is_ranked = self.by_shape.get(&shape).is_some_and(|set| set.contains(&place));
                assert!(is_ranked, "a cluster is ranked by what it is");
            }
        }
        assert_eq!(ranked, clusters, "each cluster is ranked once");
    }

    fn memory_bytes(&self) -> usize {
        let ranked = self.by_shape.values().map(BTreeSet::len).sum::<usize>();
        self.frames.memory_bytes()
            + self.lists.memory_bytes()
            + self.blocks.memory_bytes()
            + size_of_val(&*self.clusters)
            + ranked * size_of::<(u64, u32)>()
            + self.by_shape.len() * size_of::<(Shape, BTreeSet<(u64, u32)>)>()
    }
}
