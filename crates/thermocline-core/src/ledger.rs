//! A tiny model of the truth: which tier holds which version of which page.
//!
//! Every write makes a new version of its page. The Ledger follows the actions of a policy, counts
//! them, and refuses the first one that could not happen or would lose data. Dirtiness is derived:
//! a copy is dirty if its version is newer than the disk's. State: one `u32` per page and tier and
//! one for the newest version.
//!
//! A client sees its own first tier and the shared ones. So that none is ever served an old copy,
//! every write must end with no old copy in another client's first tier, and with the newest version
//! in a tier that all of them see.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::policy::Survivor;
use crate::setup::tier_capacities_pages;
use crate::{Access, Action, Actions, Clients, Counts, Op, PageId, Tier};

/// The version of a copy that does not exist; the disk's first version of every page is 1.
const ABSENT: u32 = 0;

/// Follows a policy's actions and refuses a wrong one.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// Capacity of each cache tier in pages, fastest first; the disk holds every page.
    capacity_pages: Vec<u32>,
    clients: Clients,
    /// Per tier and page: the version of the copy, or [`ABSENT`].
    versions: Vec<Vec<u32>>,
    /// Per page: the newest version anywhere.
    newest: Vec<u32>,
    /// Per cache tier: how many pages it holds.
    held_pages: Vec<u32>,
    accesses: u64,
    counts: Counts,
}

/// Reason why an action was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The tier that serves, or is copied from, holds no copy of the page.
    Absent(Tier),
    /// The tier that serves a read holds an old version.
    Stale(Tier),
    /// Another tier than the one claimed was the fastest that held a current copy.
    FoundElsewhere {
        /// The tier that the action claims.
        claimed: Tier,
        /// The tier that the Ledger knows.
        actual: Tier,
    },
    /// The action serves another page or operation than the access.
    WrongAccess,
    /// An access must be served exactly once; it was served this often.
    ServedTimes(u32),
    /// A copy would replace a newer version by an older one.
    Overwrites(Tier),
    /// The dropped copy was the only one of the newest version.
    LastCurrentCopy(Tier),
    /// The tier holds more pages than its capacity after the last action.
    CapacityExceeded {
        /// The tier.
        tier: Tier,
        /// Pages that it holds.
        held_pages: u32,
        /// Pages that it may hold.
        capacity_pages: u32,
    },
    /// The tier that serves belongs to another client than the one that asks.
    NotSeen {
        /// The tier.
        tier: Tier,
        /// The client that asks.
        client: u8,
    },
    /// A copy between the first tiers of two clients: nothing connects them.
    NoPath {
        /// The tier that would be read.
        source: Tier,
        /// The tier that would be written.
        target: Tier,
    },
    /// The first tier of a client holds an old version after the last action.
    LeftStale(Tier),
    /// After the last action, only the first tier of one client holds the newest version.
    NotShared(Tier),
    /// The hierarchy has fewer clients than the access claims.
    NoSuchClient(u8),
    /// The action names a tier that the hierarchy does not have.
    NoSuchTier(Tier),
    /// The action names a page that does not exist.
    NoSuchPage,
    /// The disk holds every page; nothing can be dropped there.
    DropsFromDisk,
    /// After a flush, the disk still holds an old version of the page.
    NotFlushed,
}

/// A refused action: which one, at which access, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The access during which it happened, counted from 1.
    pub access_number: u64,
    /// The page concerned.
    pub page: PageId,
    /// The action refused; `None` for a check after the last action.
    pub action: Option<Action>,
    /// Fault of the action.
    pub reason: Reason,
}

impl Ledger {
    /// Create a hierarchy of empty cache tiers, fastest first, over a disk that holds `pages`
    /// pages.
    pub fn new(pages: u32, capacity_pages: &[u32]) -> Self {
        Self::of_clients(pages, capacity_pages, Clients::ONE)
    }

    /// Return the same for several clients, each with a first tier of its own, as in a
    /// [`Setup`](crate::Setup).
    pub fn of_clients(pages: u32, capacity_pages: &[u32], clients: Clients) -> Self {
        let capacity_pages: Vec<u32> = tier_capacities_pages(capacity_pages, clients).collect();
        let tiers = capacity_pages.len() + 1;
        let mut versions = vec![vec![ABSENT; pages as usize]; tiers];
        versions[tiers - 1].fill(1);
        Self {
            capacity_pages,
            clients,
            versions,
            newest: vec![1; pages as usize],
            held_pages: vec![0; tiers - 1],
            accesses: 0,
            counts: Counts::new(),
        }
    }

    /// Puts the survivors of a restart into `tier`, and checks the actions of
    /// [`Policy::restore`](crate::Policy::restore).
    ///
    /// # Errors
    /// If an action could not happen or would lose data; the error is the first one.
    pub fn restore(
        &mut self,
        tier: Tier,
        survivors: &[Survivor],
        actions: &Actions,
    ) -> Result<(), Violation> {
        for survivor in survivors {
            let index = survivor.page.index();
            // A dirty survivor is the newest version, which the disk lacks: losing it would lose an
            // acknowledged write.
            self.newest[index] += u32::from(survivor.is_dirty);
            self.held_pages[tier.index()] +=
                u32::from(self.versions[tier.index()][index] == ABSENT);
            self.versions[tier.index()][index] = self.newest[index];
        }
        self.between_accesses(actions)
    }

    /// Checks and counts the actions of one access.
    ///
    /// # Errors
    /// If an action could not happen or would lose data; the error is the first one.
    pub fn access(&mut self, access: Access, actions: &Actions) -> Result<(), Violation> {
        self.accesses += 1;
        let no_such_page = self.violation(access.page, None, Reason::NoSuchPage);
        if access.client >= self.clients.get() {
            return Err(self.violation(access.page, None, Reason::NoSuchClient(access.client)));
        }
        // Before the actions: they move copies, and a policy must say where the page was when the
        // access came.
        let found = self.fastest_current(access).ok_or(no_such_page)?;
        let mut served = 0;
        for &action in actions.as_slice() {
            if let Action::Serve { page, op, found: claimed, tier } = action {
                served += 1;
                if !self.clients.sees(access.client, tier) {
                    let reason = Reason::NotSeen { tier, client: access.client };
                    return Err(self.violation(page, Some(action), reason));
                }
                if page != access.page || op != access.op {
                    return Err(self.violation(page, Some(action), Reason::WrongAccess));
                }
                if claimed != found {
                    let reason = Reason::FoundElsewhere { claimed, actual: found };
                    return Err(self.violation(page, Some(action), reason));
                }
            }
            self.apply(action)?;
        }
        // A page that is served twice would be counted twice, and one that is not served never
        // reached its user.
        if served != 1 {
            return Err(self.violation(access.page, None, Reason::ServedTimes(served)));
        }
        // Only after the last action: a policy may bring a page in before it evicts another.
        self.check_capacities(access.page)?;
        self.check_sharing(actions)?;
        self.counts.add(actions.as_slice());
        Ok(())
    }

    /// Checks and counts actions that no access caused: background work, restore.
    ///
    /// # Errors
    /// If an action could not happen or would lose data; the error is the first one.
    pub fn between_accesses(&mut self, actions: &Actions) -> Result<(), Violation> {
        for &action in actions.as_slice() {
            if let Action::Serve { page, .. } = action {
                return Err(self.violation(page, Some(action), Reason::WrongAccess));
            }
            self.apply(action)?;
        }
        self.check_capacities(PageId(0))?;
        self.check_sharing(actions)?;
        self.counts.add(actions.as_slice());
        Ok(())
    }

    /// Checks and counts the actions of a flush, after which the disk holds every newest version.
    ///
    /// # Errors
    /// If an action could not happen or would lose data, or a page is left dirty; the error is the
    /// first one.
    pub fn flush(&mut self, actions: &Actions) -> Result<(), Violation> {
        self.between_accesses(actions)?;
        match self.dirty_pages().next() {
            Some(page) => Err(self.violation(page, None, Reason::NotFlushed)),
            None => Ok(()),
        }
    }

    /// Return all counts so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Return the number of pages a cache tier holds.
    ///
    /// # Panics
    /// If `tier` is the disk or does not exist.
    pub fn held_pages(&self, tier: Tier) -> u32 {
        self.held_pages[tier.index()]
    }

    /// Return `true` if `tier` holds a copy of `page`, current or not.
    ///
    /// # Panics
    /// If the tier or the page does not exist.
    pub fn holds(&self, tier: Tier, page: PageId) -> bool {
        self.versions[tier.index()][page.index()] != ABSENT
    }

    /// Return `true` if `tier` holds the newest version of `page`.
    ///
    /// # Panics
    /// If the tier or the page does not exist.
    pub fn is_current(&self, tier: Tier, page: PageId) -> bool {
        self.versions[tier.index()][page.index()] == self.newest[page.index()]
    }

    /// Return the pages whose newest version is not on disk, in order.
    pub fn dirty_pages(&self) -> impl Iterator<Item = PageId> + '_ {
        let disk = &self.versions[self.disk().index()];
        (0_u32..)
            .zip(self.newest.iter().zip(disk))
            .filter(|(_, (newest, on_disk))| newest != on_disk)
            .map(|(id, _)| PageId(id))
    }

    fn disk(&self) -> Tier {
        #[expect(clippy::cast_possible_truncation, reason = "a hierarchy has at most TIERS_MAX")]
        Tier(self.capacity_pages.len() as u8)
    }

    /// Return the fastest tier that the client sees and that holds the newest version.
    fn fastest_current(&self, Access { page, client, .. }: Access) -> Option<Tier> {
        let newest = *self.newest.get(page.index())?;
        (0_u8..)
            .map(Tier)
            .zip(&self.versions)
            .filter(|&(tier, _)| self.clients.sees(client, tier))
            .find(|(_, copies)| copies[page.index()] == newest)
            .map(|(tier, _)| tier)
    }

    fn apply(&mut self, action: Action) -> Result<(), Violation> {
        let (page, tiers) = match action {
            Action::Serve { page, tier, .. } | Action::Drop { page, tier } => (page, [tier, tier]),
            Action::Copy { page, source, target } => (page, [source, target]),
        };
        let refuse = |reason| Err(self.violation(page, Some(action), reason));
        if page.index() >= self.newest.len() {
            return refuse(Reason::NoSuchPage);
        }
        if let Some(&tier) = tiers.iter().find(|tier| tier.index() >= self.versions.len()) {
            return refuse(Reason::NoSuchTier(tier));
        }
        let result = match action {
            Action::Serve { op: Op::Read, tier, .. } => self.check_read(page, tier),
            Action::Serve { op: Op::Write, tier, .. } => {
                self.newest[page.index()] += 1;
                // A write makes every other copy old at once; what the policy does not renew or
                // drop is caught when it is read.
                self.put(page, tier, self.newest[page.index()]);
                Ok(())
            }
            Action::Copy { source, target, .. }
                if source != target
                    && [source, target].iter().all(|&tier| self.clients.owns(tier)) =>
            {
                Err(Reason::NoPath { source, target })
            }
            Action::Copy { source, target, .. } => self.copy(page, source, target),
            Action::Drop { tier, .. } => self.drop_copy(page, tier),
        };
        result.map_err(|reason| self.violation(page, Some(action), reason))
    }

    fn check_read(&self, page: PageId, tier: Tier) -> Result<(), Reason> {
        match self.versions[tier.index()][page.index()] {
            ABSENT => Err(Reason::Absent(tier)),
            version if version != self.newest[page.index()] => Err(Reason::Stale(tier)),
            _ => Ok(()),
        }
    }

    fn copy(&mut self, page: PageId, source: Tier, target: Tier) -> Result<(), Reason> {
        let version = self.versions[source.index()][page.index()];
        if version == ABSENT {
            return Err(Reason::Absent(source));
        }
        // An equal version is allowed: writing the same bytes again is a waste, but loses nothing.
        if self.versions[target.index()][page.index()] > version {
            return Err(Reason::Overwrites(target));
        }
        self.put(page, target, version);
        Ok(())
    }

    fn put(&mut self, page: PageId, tier: Tier, version: u32) {
        let copy = &mut self.versions[tier.index()][page.index()];
        if *copy == ABSENT {
            self.held_pages[tier.index()] += 1;
        }
        *copy = version;
    }

    fn drop_copy(&mut self, page: PageId, tier: Tier) -> Result<(), Reason> {
        if tier == self.disk() {
            return Err(Reason::DropsFromDisk);
        }
        let version = self.versions[tier.index()][page.index()];
        if version == ABSENT {
            return Err(Reason::Absent(tier));
        }
        let newest = self.newest[page.index()];
        let holders = self.versions.iter().filter(|copies| copies[page.index()] == newest).count();
        // The disk counts as a holder: what it has may be dropped anywhere.
        if version == newest && holders == 1 {
            return Err(Reason::LastCurrentCopy(tier));
        }
        self.versions[tier.index()][page.index()] = ABSENT;
        self.held_pages[tier.index()] -= 1;
        Ok(())
    }

    fn check_capacities(&self, page: PageId) -> Result<(), Violation> {
        for (tier, (&held_pages, &capacity_pages)) in
            (0_u8..).zip(self.held_pages.iter().zip(&self.capacity_pages))
        {
            if held_pages > capacity_pages {
                let tier = Tier(tier);
                let reason = Reason::CapacityExceeded { tier, held_pages, capacity_pages };
                return Err(self.violation(page, None, reason));
            }
        }
        Ok(())
    }

    /// Checks that no client holds an old version, or alone the newest one, of a page that moved.
    fn check_sharing(&self, actions: &Actions) -> Result<(), Violation> {
        if self.clients == Clients::ONE {
            return Ok(());
        }
        for action in actions.as_slice() {
            let (Action::Serve { page, .. }
            | Action::Copy { page, .. }
            | Action::Drop { page, .. }) = *action;
            let newest = self.newest[page.index()];
            let copies =
                || (0..).map(Tier).zip(self.versions.iter().map(|tier| tier[page.index()]));
            let firsts = || copies().take(usize::from(self.clients.get()));
            if let Some((tier, _)) =
                firsts().find(|&(_, version)| version != ABSENT && version != newest)
            {
                return Err(self.violation(page, None, Reason::LeftStale(tier)));
            }
            // Tiers are in order of speed with all first tiers in front, so the slowest holder is
            // shared if any is.
            let slowest = copies().filter(|&(_, version)| version == newest).last();
            if let Some((tier, _)) = slowest.filter(|&(tier, _)| self.clients.owns(tier)) {
                return Err(self.violation(page, None, Reason::NotShared(tier)));
            }
        }
        Ok(())
    }

    fn violation(&self, page: PageId, action: Option<Action>, reason: Reason) -> Violation {
        Violation { access_number: self.accesses, page, action, reason }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(tier) => write!(f, "tier {} holds no copy of the page", tier.0),
            Self::Stale(tier) => write!(f, "tier {} holds an old version of the page", tier.0),
            Self::FoundElsewhere { claimed, actual } => write!(
                f,
                "the fastest current copy was in tier {}, not in tier {}",
                actual.0, claimed.0
            ),
            Self::WrongAccess => f.write_str("no such access was made"),
            Self::ServedTimes(times) => write!(f, "the access was served {times} times, not once"),
            Self::Overwrites(tier) => {
                write!(f, "the copy in tier {} is newer than the one copied over it", tier.0)
            }
            Self::LastCurrentCopy(tier) => {
                write!(f, "the newest version exists in tier {} only and would be lost", tier.0)
            }
            Self::CapacityExceeded { tier, held_pages, capacity_pages } => write!(
                f,
                "tier {} holds {held_pages} pages, its capacity is {capacity_pages}",
                tier.0
            ),
            Self::NotSeen { tier, client } => {
                write!(f, "tier {} belongs to another client than {client}, which asks", tier.0)
            }
            Self::NoPath { source, target } => write!(
                f,
                "tiers {} and {} belong to different clients: nothing connects them",
                source.0, target.0
            ),
            Self::LeftStale(tier) => {
                write!(f, "tier {} is left with an old version, which its client would see", tier.0)
            }
            Self::NotShared(tier) => write!(
                f,
                "the newest version is left in tier {} only, which other clients do not see",
                tier.0
            ),
            Self::NoSuchClient(client) => write!(f, "no client has the number {client}"),
            Self::NoSuchTier(tier) => write!(f, "the hierarchy has no tier {}", tier.0),
            Self::NoSuchPage => f.write_str("no such page exists"),
            Self::DropsFromDisk => f.write_str("the disk holds every page"),
            Self::NotFlushed => f.write_str("the disk holds an old version after a flush"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "access {}, page {}", self.access_number, self.page.0)?;
        if let Some(action) = &self.action {
            write!(f, ", {action:?}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl core::error::Error for Violation {}
