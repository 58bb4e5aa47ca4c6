//! A cache that a caller drives access by access, and asks at any time what it holds.
//!
//! A [`replay`](fn@crate::replay) knows all accesses before the first. Here they come one by one, so the
//! number of pages is that of the disk, or of a trace whose pages are meant, and policies that know the
//! future are driven along a trace.

use std::collections::HashMap;
use std::sync::Arc;

use thermocline_core::registry::Future;
use thermocline_core::{
    Access, Action, Actions, BoxedPolicy, Clients, Counts, Geometry, Indexing, Nanos, Op, PageId,
    Tier,
};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::{Configuration, LabError, TierSize, TracePages};

/// The pages of a disk whose size the caller leaves open: as many as there are page ids.
const PAGES_MAX: u32 = 1 << 31;
/// Mark of a write in the history, whose pages are below [`PAGES_MAX`].
const WRITE_BIT: u32 = 1 << 31;

/// The pages that a [`LiveCache`] may be asked for.
#[derive(Clone, Debug)]
pub enum LivePages {
    /// The ids of a trace.
    Trace(Arc<CompiledTrace>),
    /// The page numbers of a disk, from 0.
    Disk {
        /// Number of pages; if `None`, as many as there are ids.
        pages: Option<u32>,
        /// Bytes of a page.
        page_size: PageSize,
    },
}

/// A policy with the pages that it holds and the counts of what it did.
#[derive(Debug)]
pub struct LiveCache {
    configuration: Configuration,
    pages: LivePages,
    capacity_pages: Vec<u32>,
    policy: BoxedPolicy,
    counts: Counts,
    residents: Residents,
    /// Actions of the policy on its own before the last access.
    background: Actions,
    /// Actions of the last access.
    actions: Actions,
    /// The pages that the last access drove out of all tiers.
    evicted: Vec<PageId>,
    accesses: u64,
    /// `true` if accesses have times; not known before the first.
    is_timed: Option<bool>,
    /// All accesses so far, unless nobody wants them.
    history: Option<History>,
}

/// Accesses since a cache was empty, from which its state can be made again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Page and direction of each access.
    packed: Vec<u32>,
    /// The time of each access; empty if they have none.
    at: Vec<Nanos>,
}

/// Tiers that hold each page. It follows actions and does not check them.
#[derive(Debug)]
struct Residents {
    /// The pages of which a cache tier has a copy.
    copies: HashMap<PageId, Copies>,
    held_pages: Vec<u32>,
    disk: Tier,
}

/// The tiers that have a copy of a page, a bit for each.
#[derive(Clone, Copy, Debug)]
struct Copies {
    held: u16,
    /// Tiers among them whose copy is the newest version.
    current: u16,
}

impl LiveCache {
    /// Create an empty cache. `keeps_history` says whether it remembers accesses, in 4 bytes each.
    ///
    /// # Errors
    /// If the configuration has several clients or a policy that is not registered; if sizes are
    /// invalid; or if the policy needs a trace, or the size of the disk, which `pages` does not
    /// have.
    pub fn new(
        configuration: Configuration,
        pages: LivePages,
        keeps_history: bool,
    ) -> Result<Self, LabError> {
        let name = || configuration.policy.name.to_string();
        if configuration.clients != Clients::ONE || !configuration.policy.capabilities.is_tested {
            return Err(LabError::NotLive { policy: name() });
        }
        if let LivePages::Disk { pages: Some(pages), .. } = pages
            && !(1..=PAGES_MAX).contains(&pages)
        {
            return Err(LabError::DiskSize { pages, pages_max: PAGES_MAX });
        }
        let capacity_pages = match &pages {
            LivePages::Trace(trace) => configuration.capacity_pages(&**trace)?,
            LivePages::Disk { pages, page_size } => {
                if pages.is_none() && needs_disk_size(&configuration) {
                    return Err(LabError::NeedsDiskSize { policy: name() });
                }
                let footprint_pages = pages.unwrap_or(PAGES_MAX);
                let page_size_bytes = page_size.bytes();
                configuration.capacity_pages(TracePages { page_size_bytes, footprint_pages })?
            }
        };
        let policy = build(&configuration, &pages, &capacity_pages)?;
        Ok(Self {
            residents: Residents::new(capacity_pages.len()),
            history: keeps_history.then(History::default),
            configuration,
            pages,
            capacity_pages,
            policy,
            counts: Counts::new(),
            background: Actions::new(),
            actions: Actions::new(),
            evicted: vec![],
            accesses: 0,
            is_timed: None,
        })
    }

    /// Access a page, and return the fastest tier that held it. A time lets policies that need a clock
    /// work before the access; one that is never given a time counts accesses instead.
    ///
    /// # Errors
    /// If the page does not exist, if only some accesses have a time, or if it is not the next
    /// access of the trace along which the policy is driven. The cache is unchanged then.
    pub fn access(&mut self, page: u64, op: Op, at: Option<Nanos>) -> Result<Tier, LabError> {
        let access = self.checked(page, op)?;
        if *self.is_timed.get_or_insert(at.is_some()) != at.is_some() {
            return Err(LabError::SomeTimes);
        }
        self.background.clear();
        if let Some(now) = at.filter(|_| self.configuration.policy.capabilities.needs_clock) {
            self.policy.background(now, &mut self.background);
        }
        self.actions.clear();
        self.policy.access(access, &mut self.actions);
        self.accesses += 1;
        if let Some(history) = &mut self.history {
            history.packed.push(access.page.0 | if op == Op::Write { WRITE_BIT } else { 0 });
            history.at.extend(at);
        }
        self.evicted.clear();
        let mut found = self.residents.disk;
        for &action in self.background.as_slice().iter().chain(self.actions.as_slice()) {
            if let Action::Serve { found: tier, .. } = action {
                found = tier;
            }
            self.residents.apply(action, &mut self.evicted);
        }
        self.evicted.retain(|&page| !self.residents.copies.contains_key(&page));
        self.counts.add(self.background.as_slice());
        self.counts.add(self.actions.as_slice());
        Ok(found)
    }

    /// Return the actions of the last access, in order, after those of the policy on its own before
    /// it.
    pub fn actions(&self) -> impl Iterator<Item = Action> + '_ {
        self.background.as_slice().iter().chain(self.actions.as_slice()).copied()
    }

    /// Return the pages that the last access drove out of all cache tiers, in order.
    pub fn evicted(&self) -> &[PageId] {
        &self.evicted
    }

    /// Return the fastest tier that holds the newest version of a page; the disk for pages in no
    /// cache.
    pub fn tier_of(&self, page: PageId) -> Tier {
        self.residents.copies.get(&page).map_or(self.residents.disk, |copies| copies.fastest())
    }

    /// Return `true` if the disk's copy of a page is older than one in a cache.
    pub fn is_dirty(&self, page: PageId) -> bool {
        let copies = self.residents.copies.get(&page);
        copies.is_some_and(|copies| copies.current & bit(self.residents.disk) == 0)
    }

    /// Return the pages of which a tier holds a copy, or any cache tier if none is named, in order.
    pub fn resident_pages(&self, tier: Option<Tier>) -> Vec<PageId> {
        let wanted = tier.map_or(u16::MAX, bit) & !bit(self.residents.disk);
        let all = self.residents.copies.iter();
        let mut pages: Vec<PageId> =
            all.filter(|(_, copies)| copies.held & wanted != 0).map(|(&page, _)| page).collect();
        pages.sort_unstable();
        pages
    }

    /// Return the number of pages that have a copy in a cache.
    pub fn len(&self) -> usize {
        self.residents.copies.len()
    }

    /// Return `true` if the caches hold nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return the number of pages each cache tier holds.
    pub fn held_pages(&self) -> &[u32] {
        &self.residents.held_pages
    }

    /// Return the capacity of each cache tier.
    pub fn capacity_pages(&self) -> &[u32] {
        &self.capacity_pages
    }

    /// Return the number of pages to ask for: each is less than this.
    pub fn pages(&self) -> u32 {
        pages_of(&self.pages)
    }

    /// Return the tier below all caches.
    pub fn disk(&self) -> Tier {
        self.residents.disk
    }

    /// Return the configuration.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Return the counts since it was empty.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Return the policy, for its gauges and its memory.
    pub fn policy(&self) -> &(dyn thermocline_core::Policy + Send) {
        &*self.policy
    }

    /// Return all accesses since it was empty; `None` if it does not keep them.
    pub fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    /// Forget all pages, counts and accesses.
    ///
    /// # Errors
    /// Never: a policy that was built once can be built again.
    pub fn reset(&mut self) -> Result<(), LabError> {
        self.policy = build(&self.configuration, &self.pages, &self.capacity_pages)?;
        self.residents = Residents::new(self.capacity_pages.len());
        self.counts = Counts::new();
        self.accesses = 0;
        self.is_timed = None;
        self.background.clear();
        self.actions.clear();
        self.evicted.clear();
        if let Some(history) = &mut self.history {
            *history = History::default();
        }
        Ok(())
    }

    fn checked(&self, page: u64, op: Op) -> Result<Access, LabError> {
        let pages = self.pages();
        let Some(id) = u32::try_from(page).ok().filter(|&id| id < pages) else {
            return Err(LabError::NoSuchPage { page, pages });
        };
        let access = Access { page: PageId(id), op, client: 0 };
        if let LivePages::Trace(trace) = &self.pages
            && self.configuration.policy.capabilities.future != Future::Unknown
        {
            let index = usize::try_from(self.accesses).unwrap_or(usize::MAX);
            if index >= trace.len() || trace.access(index) != access {
                let policy = self.configuration.policy.name.to_string();
                return Err(LabError::OffTrace { policy, access: self.accesses });
            }
        }
        Ok(access)
    }
}

impl History {
    /// Create the accesses from their [`packed`](Self::packed) form and their [times](Self::at).
    pub fn new(packed: Vec<u32>, at: Vec<Nanos>) -> Self {
        Self { packed, at }
    }

    /// Return the page and direction of each access: the highest bit marks a write.
    pub fn packed(&self) -> &[u32] {
        &self.packed
    }

    /// Return the time of each access; empty if they have none.
    pub fn at(&self) -> &[Nanos] {
        &self.at
    }

    /// Return the accesses in order.
    pub fn accesses(&self) -> impl Iterator<Item = (u64, Op, Option<Nanos>)> + '_ {
        self.packed.iter().enumerate().map(|(index, packed)| {
            let op = if packed & WRITE_BIT == 0 { Op::Read } else { Op::Write };
            (u64::from(packed & !WRITE_BIT), op, self.at.get(index).copied())
        })
    }
}

impl Residents {
    fn new(cache_tiers: usize) -> Self {
        let disk = Tier(u8::try_from(cache_tiers).expect("a hierarchy has few tiers"));
        Self { copies: HashMap::new(), held_pages: vec![0; cache_tiers], disk }
    }

    /// Follow an action; pages of which a copy is dropped are added to `dropped`.
    fn apply(&mut self, action: Action, dropped: &mut Vec<PageId>) {
        match action {
            Action::Serve { op: Op::Read, .. } => {}
            Action::Serve { page, op: Op::Write, tier, .. } => {
                self.change(page, |copies| {
                    copies.held |= bit(tier);
                    copies.current = bit(tier);
                });
            }
            Action::Copy { page, source, target } => {
                self.change(page, |copies| {
                    copies.held |= bit(target);
                    if copies.current & bit(source) == 0 {
                        copies.current &= !bit(target);
                    } else {
                        copies.current |= bit(target);
                    }
                });
            }
            Action::Drop { page, tier } => {
                dropped.push(page);
                self.change(page, |copies| {
                    copies.held &= !bit(tier);
                    copies.current &= !bit(tier);
                });
            }
        }
    }

    fn change(&mut self, page: PageId, change: impl FnOnce(&mut Copies)) {
        let disk = bit(self.disk);
        let only_on_disk = Copies { held: disk, current: disk };
        let before = self.copies.get(&page).copied().unwrap_or(only_on_disk);
        let mut after = before;
        change(&mut after);
        for (tier, held) in (0..).map(Tier).zip(&mut self.held_pages) {
            match [before, after].map(|copies| copies.held & bit(tier) != 0) {
                [false, true] => *held += 1,
                [true, false] => *held -= 1,
                _ => {}
            }
        }
        if after.held == disk {
            self.copies.remove(&page);
        } else {
            self.copies.insert(page, after);
        }
    }
}

impl Copies {
    fn fastest(self) -> Tier {
        #[expect(clippy::cast_possible_truncation, reason = "there are 16 bits")]
        Tier(self.current.trailing_zeros() as u8)
    }
}

fn bit(tier: Tier) -> u16 {
    1 << tier.0
}

fn pages_of(pages: &LivePages) -> u32 {
    match pages {
        LivePages::Trace(trace) => trace.footprint_pages(),
        LivePages::Disk { pages, .. } => pages.unwrap_or(PAGES_MAX),
    }
}

/// Return `true` if the policy keeps something for each page of the disk, or a size is a share of them.
fn needs_disk_size(configuration: &Configuration) -> bool {
    let memory = configuration.policy.capabilities.sparse_memory;
    (memory.bytes_per_disk_page > 0 && !memory.is_of_accessed_pages)
        || configuration.admission.identifier().is_some()
        || configuration.tiers.iter().any(|tier| matches!(tier.size, TierSize::FootprintPercent(_)))
}

fn build(
    configuration: &Configuration,
    pages: &LivePages,
    capacity_pages: &[u32],
) -> Result<BoxedPolicy, LabError> {
    match pages {
        LivePages::Trace(trace) => configuration.build(trace),
        LivePages::Disk { .. } => {
            let policy = &configuration.policy;
            if policy.capabilities.future != Future::Unknown {
                return Err(LabError::NeedsTrace { policy: policy.name.to_string() });
            }
            let geometry = Geometry::linear(pages_of(pages));
            let mut setup = configuration.setup(geometry, capacity_pages.to_vec());
            // Tables would have an entry for each page of the disk.
            setup.indexing = Indexing::Sparse;
            Ok(policy.build(&setup, &configuration.values)?)
        }
    }
}
