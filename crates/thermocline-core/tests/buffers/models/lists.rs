//! Buffers of single pages: LRU, CFLRU, LRU-WSR and CFDC.
//!
//! With `hold_reads`, a read miss brings the page in clean and a read hit is a reference like a
//! write hit, but it makes nothing dirty. Evicting a clean page flushes nothing.
//!
//! Readings:
//!
//! 1. CFLRU's window, and CFDC's working region, are the share of the capacity rounded down.
//! 2. `w = 1` of the worked example is the share, so the window is the whole buffer: only then is the newest
//!    page the victim.
//! 3. LRU-WSR's `initial_cold` marks every page that comes in, read or written.
//! 4. CFDC evicts before it demotes, so that a page cannot be demoted and evicted by one access,
//!    except when the priority region is empty (a working share of 1): then the least recently used
//!    working page is demoted first.
//! 5. CFDC's priorities are stored and change when a page joins or leaves their cluster, as in the
//!    paper's queue; with `priority_at_eviction` they are those of the time of the eviction.
//! 6. In CFDC's sum the pages are in the order in which they joined the cluster.
//! 7. CFDC's global time advances after the demoted page has been placed.
//! 8. Clusters of equal priority go by the older timestamp, then by the lower cluster number.
//! 9. A frozen cluster stays so when pages join it; a page that leaves it by a hit ends that.

use std::collections::BTreeSet;

use super::{BufferModel, Unbuffered, join};

/// A page, whether it is dirty, and whether it is marked cold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    page: u64,
    is_dirty: bool,
    is_cold: bool,
}

/// Return the batches that flushing this page writes.
fn batch(entry: Entry) -> Vec<Vec<u64>> {
    if entry.is_dirty { vec![vec![entry.page]] } else { vec![] }
}

fn dirty_pages(list: &[Entry]) -> BTreeSet<u64> {
    list.iter().filter(|entry| entry.is_dirty).map(|entry| entry.page).collect()
}

/// One list by last reference, the most recent first, and what the three policies do with it.
#[derive(Debug)]
struct List {
    capacity: usize,
    hold_reads: bool,
    initial_cold: bool,
    entries: Vec<Entry>,
}

impl List {
    /// Process one access; `victim` says which place a full list gives up.
    fn access(
        &mut self,
        page: u64,
        write: bool,
        victim: impl FnOnce(&mut Vec<Entry>) -> usize,
    ) -> Vec<Vec<u64>> {
        if self.capacity == 0 {
            return Unbuffered.access(page, write);
        }
        if !write && !self.hold_reads {
            return vec![];
        }
        if let Some(place) = self.entries.iter().position(|entry| entry.page == page) {
            let held = self.entries.remove(place);
            let is_dirty = held.is_dirty || write;
            self.entries.insert(0, Entry { page, is_dirty, is_cold: false });
            return vec![];
        }
        let mut flushed = vec![];
        if self.entries.len() == self.capacity {
            let place = victim(&mut self.entries);
            flushed = batch(self.entries.remove(place));
        }
        self.entries.insert(0, Entry { page, is_dirty: write, is_cold: self.initial_cold });
        flushed
    }

    fn contains(&self, page: u64) -> bool {
        self.entries.iter().any(|entry| entry.page == page)
    }

    fn dirty(&self) -> BTreeSet<u64> {
        dirty_pages(&self.entries)
    }

    /// Return the pages, `d` after dirty ones.
    fn text(&self) -> String {
        let word =
            |entry: &Entry| format!("{}{}", entry.page, if entry.is_dirty { "d" } else { "" });
        join(self.entries.iter().map(word))
    }
}

/// Least recently used.
#[derive(Debug)]
pub(crate) struct Lru(List);

impl Lru {
    pub(crate) fn new(capacity: usize, hold_reads: bool) -> Self {
        Self(List { capacity, hold_reads, initial_cold: false, entries: vec![] })
    }
}

impl BufferModel for Lru {
    fn access(&mut self, page: u64, write: bool) -> Vec<Vec<u64>> {
        self.0.access(page, write, |entries| entries.len() - 1)
    }

    fn contains(&self, page: u64) -> bool {
        self.0.contains(page)
    }

    fn dirty(&self) -> BTreeSet<u64> {
        self.0.dirty()
    }

    fn state(&self) -> String {
        self.0.text()
    }
}

/// Clean pages first: within a window at the old end, clean pages go before dirty ones.
#[derive(Debug)]
pub(crate) struct Cflru {
    list: List,
    window_pages: usize,
}

impl Cflru {
    pub(crate) fn new(capacity: usize, window_share: f64, hold_reads: bool) -> Self {
        Self {
            list: List { capacity, hold_reads, initial_cold: false, entries: vec![] },
            window_pages: share_of(capacity, window_share),
        }
    }
}

impl BufferModel for Cflru {
    fn access(&mut self, page: u64, write: bool) -> Vec<Vec<u64>> {
        let window_pages = self.window_pages;
        self.list.access(page, write, |entries| {
            let window = entries.len() - window_pages..entries.len();
            window.rev().find(|&place| !entries[place].is_dirty).unwrap_or(entries.len() - 1)
        })
    }

    fn contains(&self, page: u64) -> bool {
        self.list.contains(page)
    }

    fn dirty(&self) -> BTreeSet<u64> {
        self.list.dirty()
    }

    fn state(&self) -> String {
        self.list.text()
    }
}

/// Second chances for dirty pages that are not marked cold.
#[derive(Debug)]
pub(crate) struct LruWsr {
    list: List,
    second_chances: u64,
}

impl LruWsr {
    pub(crate) fn new(capacity: usize, initial_cold: bool, hold_reads: bool) -> Self {
        let list = List { capacity, hold_reads, initial_cold, entries: vec![] };
        Self { list, second_chances: 0 }
    }

    /// Count how often a dirty page got a second chance.
    pub(crate) fn second_chances(&self) -> u64 {
        self.second_chances
    }
}

impl BufferModel for LruWsr {
    fn access(&mut self, page: u64, write: bool) -> Vec<Vec<u64>> {
        let second_chances = &mut self.second_chances;
        self.list.access(page, write, |entries| {
            loop {
                let tail = entries[entries.len() - 1];
                if !tail.is_dirty || tail.is_cold {
                    return entries.len() - 1;
                }
                *second_chances += 1;
                entries.pop();
                entries.insert(0, Entry { is_cold: true, ..tail });
            }
        })
    }

    fn contains(&self, page: u64) -> bool {
        self.list.contains(page)
    }

    fn dirty(&self) -> BTreeSet<u64> {
        self.list.dirty()
    }

    /// Return the pages, `c` after those marked cold.
    fn state(&self) -> String {
        let word =
            |entry: &Entry| format!("{}{}", entry.page, if entry.is_cold { "c" } else { "" });
        join(self.list.entries.iter().map(word))
    }
}

#[derive(Debug)]
struct Cluster {
    number: u64,
    /// Pages in the order in which they joined.
    pages: Vec<u64>,
    timestamp: u64,
    priority: f64,
    is_frozen: bool,
}

impl Cluster {
    fn formula(&self, global_time: u64) -> f64 {
        let steps: u64 = self.pages.windows(2).map(|pair| pair[0].abs_diff(pair[1])).sum();
        let distance = if self.pages.len() == 1 { 1 } else { steps };
        let age = (global_time - self.timestamp).max(1);
        let count = self.pages.len() as u64;
        distance as f64 / (count * count * age) as f64
    }
}

/// Clean first, dirty clustered: a working region by last reference; what it gives up waits in a
/// queue of clean pages, or in clusters of neighbours.
#[derive(Debug)]
pub(crate) struct Cfdc {
    capacity: usize,
    working_pages: usize,
    cluster_pages: u64,
    hold_reads: bool,
    priority_at_eviction: bool,
    working: Vec<Entry>,
    /// The most recently demoted first.
    clean: Vec<u64>,
    clusters: Vec<Cluster>,
    global_time: u64,
}

impl Cfdc {
    pub(crate) fn new(
        capacity: usize,
        working_share: f64,
        cluster_pages: u64,
        hold_reads: bool,
        priority_at_eviction: bool,
    ) -> Self {
        Self {
            capacity,
            working_pages: share_of(capacity, working_share),
            cluster_pages,
            hold_reads,
            priority_at_eviction,
            working: vec![],
            clean: vec![],
            clusters: vec![],
            global_time: 0,
        }
    }

    fn page_count(&self) -> usize {
        let clustered: usize = self.clusters.iter().map(|cluster| cluster.pages.len()).sum();
        self.working.len() + self.clean.len() + clustered
    }

    /// Takes a page out of wherever it is; whether it was dirty.
    fn remove(&mut self, page: u64) -> Option<bool> {
        if let Some(place) = self.working.iter().position(|entry| entry.page == page) {
            return Some(self.working.remove(place).is_dirty);
        }
        if super::take(&mut self.clean, page) {
            return Some(false);
        }
        for cluster in &mut self.clusters {
            if super::take(&mut cluster.pages, page) {
                cluster.timestamp = self.global_time;
                cluster.is_frozen = false;
                if !cluster.pages.is_empty() {
                    cluster.priority = cluster.formula(self.global_time);
                }
                self.clusters.retain(|cluster| !cluster.pages.is_empty());
                return Some(true);
            }
        }
        None
    }

    fn demote(&mut self) {
        let Entry { page, is_dirty, .. } =
            self.working.pop().expect("the working region has pages");
        if !is_dirty {
            self.clean.insert(0, page);
            return;
        }
        let number = page / self.cluster_pages;
        if !self.clusters.iter().any(|cluster| cluster.number == number) {
            self.clusters.push(Cluster {
                number,
                pages: vec![],
                timestamp: self.global_time,
                priority: 0.0,
                is_frozen: false,
            });
        }
        let mut known = self.clusters.iter_mut();
        let cluster = known.find(|cluster| cluster.number == number).expect("it is there now");
        cluster.pages.push(page);
        if !cluster.is_frozen {
            cluster.priority = cluster.formula(self.global_time);
        }
        self.global_time += 1;
    }

    fn evict(&mut self) -> Vec<Vec<u64>> {
        if self.clean.is_empty() && self.clusters.is_empty() {
            self.demote();
        }
        if self.clean.pop().is_some() {
            return vec![];
        }
        let priority = |cluster: &Cluster| match (cluster.is_frozen, self.priority_at_eviction) {
            (true, _) => 0.0,
            (false, true) => cluster.formula(self.global_time),
            (false, false) => cluster.priority,
        };
        let place = (0..self.clusters.len())
            .min_by(|&one, &other| {
                let [one, other] = [&self.clusters[one], &self.clusters[other]];
                priority(one)
                    .total_cmp(&priority(other))
                    .then(one.timestamp.cmp(&other.timestamp))
                    .then(one.number.cmp(&other.number))
            })
            .expect("a full buffer without clean pages has a cluster");
        let cluster = &mut self.clusters[place];
        cluster.is_frozen = true;
        let page = cluster.pages.remove(0);
        if cluster.pages.is_empty() {
            self.clusters.remove(place);
        }
        vec![vec![page]]
    }
}

impl BufferModel for Cfdc {
    fn access(&mut self, page: u64, write: bool) -> Vec<Vec<u64>> {
        if self.capacity == 0 {
            return Unbuffered.access(page, write);
        }
        if !write && !self.hold_reads {
            return vec![];
        }
        let mut flushed = vec![];
        let held = self.remove(page);
        if held.is_none() && self.page_count() == self.capacity {
            flushed = self.evict();
        }
        let is_dirty = write || held == Some(true);
        self.working.insert(0, Entry { page, is_dirty, is_cold: false });
        while self.working.len() > self.working_pages {
            self.demote();
        }
        flushed
    }

    fn contains(&self, page: u64) -> bool {
        self.working.iter().any(|entry| entry.page == page)
            || self.clean.contains(&page)
            || self.clusters.iter().any(|cluster| cluster.pages.contains(&page))
    }

    fn dirty(&self) -> BTreeSet<u64> {
        let clustered = self.clusters.iter().flat_map(|cluster| cluster.pages.iter().copied());
        clustered.chain(dirty_pages(&self.working)).collect()
    }

    /// Working pages, `d` after dirty ones; clean queue; clusters in order of their creation, with
    /// pages in the order in which they joined, `f` after a frozen one.
    fn state(&self) -> String {
        let word =
            |entry: &Entry| format!("{}{}", entry.page, if entry.is_dirty { "d" } else { "" });
        let cluster = |cluster: &Cluster| {
            let pages = join(cluster.pages.iter().map(u64::to_string));
            format!("{}[{pages}]{}", cluster.number, if cluster.is_frozen { "f" } else { "" })
        };
        format!(
            "{} | {} | {}",
            join(self.working.iter().map(word)),
            join(self.clean.iter().map(u64::to_string)),
            join(self.clusters.iter().map(cluster))
        )
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is within 0..=1, so the product is a page count; rounding down is the reading"
)]
fn share_of(capacity: usize, share: f64) -> usize {
    (capacity as f64 * share) as usize
}
