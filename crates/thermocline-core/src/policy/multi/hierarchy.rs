//! The tiers as multi-tier policies see them, and the moves that all of them make alike.
//!
//! A tier of no pages holds nothing and decides nothing, so policies pass over it. Writes go
//! through to disk at once, so that no cached copy is ever dirty and every victim is only dropped.
//!
//! * Source: the papers on multi-tier caches replay reads alone; a write is taken as a read whose
//!   page then goes to disk.
//! * State: 4 bytes per tier.
//! * Cost: O(tiers) per access.
//! * Deviations: (1) after a restart the caches start empty: what flash still holds is cleaned and
//!   dropped.

use alloc::boxed::Box;

use crate::{Access, Actions, Op, Setup, Survivor, Tier, WriteMiss};

/// The capacities, and what a write miss does.
#[derive(Clone, Debug)]
pub(super) struct Hierarchy {
    capacity_pages: Box<[u32]>,
    /// A bit per tier: whether it can cache a page.
    caches: u16,
    write_miss: WriteMiss,
    disk: Tier,
}

impl Hierarchy {
    pub(super) fn new(setup: &Setup) -> Self {
        let bits =
            (0..).zip(&setup.capacity_pages).map(|(bit, &pages)| u16::from(pages > 0) << bit);
        Self {
            capacity_pages: setup.capacity_pages.as_slice().into(),
            caches: bits.sum(),
            write_miss: setup.write_miss,
            disk: setup.disk(),
        }
    }

    /// The tier below all caches.
    pub(super) const fn disk(&self) -> Tier {
        self.disk
    }

    /// How many pages a cache may hold.
    pub(super) fn capacity(&self, cache: Tier) -> u32 {
        self.capacity_pages[cache.index()]
    }

    /// The capacities of all caches, one after the other.
    pub(super) fn total_pages(&self) -> u64 {
        self.capacity_pages.iter().map(|&pages| u64::from(pages)).sum()
    }

    /// The tiers that can cache a page, fastest first.
    pub(super) fn caches(&self) -> impl DoubleEndedIterator<Item = Tier> + use<> {
        let caches = self.caches;
        (0..self.disk.0).map(Tier).filter(move |cache| caches >> cache.0 & 1 != 0)
    }

    /// The caches that a page found there passes on its way up, the one that holds it among them.
    pub(super) fn caches_upwards(&self, found: Tier) -> impl Iterator<Item = Tier> + use<> {
        self.caches().rev().filter(move |&cache| cache <= found)
    }

    /// The next tier that can hold a page, towards the disk.
    pub(super) fn below(&self, cache: Tier) -> Tier {
        self.caches().find(|&below| below > cache).unwrap_or(self.disk)
    }

    /// The next tier that can cache a page, away from the disk.
    pub(super) fn above(&self, tier: Tier) -> Option<Tier> {
        self.caches().rev().find(|&above| above < tier)
    }

    /// Moves the page from where it was found to `tier`, which answers; a write goes on to disk.
    ///
    /// The page stays where it was found if that is `tier` or the disk, or else leaves it.
    pub(super) fn serve(&self, access: Access, found: Tier, tier: Tier, out: &mut Actions) {
        let Access { page, op } = access;
        if found != tier && self.is_read(access, found) {
            out.copy(page, found, tier);
        }
        out.serve(page, op, found, tier);
        if op == Op::Write && tier != self.disk {
            out.copy(page, tier, self.disk);
        }
        if found != tier && found != self.disk {
            out.drop_copy(page, found);
        }
    }

    /// Brings the page up from where it was found to the fastest tier, which answers, and leaves a
    /// copy in every cache on the way.
    ///
    /// A write is made on top and goes through to disk; on its way it renews the copies of all
    /// caches that it passes, those below the one where the page was found if `holds` says so.
    pub(super) fn serve_and_leave(
        &self,
        access: Access,
        found: Tier,
        holds: impl Fn(Tier) -> bool,
        out: &mut Actions,
    ) {
        let Access { page, op } = access;
        if op == Op::Read {
            let mut source = found;
            for cache in self.caches().rev().filter(|&cache| cache < found) {
                out.copy(page, source, cache);
                source = cache;
            }
            out.serve(page, op, found, Tier::RAM);
            return;
        }
        if found != Tier::RAM && self.is_read(access, found) {
            out.copy(page, found, Tier::RAM);
        }
        out.serve(page, op, found, Tier::RAM);
        for cache in self.caches().filter(|&cache| cache > Tier::RAM) {
            if cache <= found || holds(cache) {
                out.copy(page, Tier::RAM, cache);
            }
        }
        out.copy(page, Tier::RAM, self.disk);
    }

    /// Cleans and drops what flash still holds after a restart.
    pub(super) fn surrender(&self, survivors: &[Survivor], out: &mut Actions) {
        for survivor in survivors {
            if survivor.is_dirty {
                out.copy(survivor.page, Tier::FLASH, self.disk);
            }
            out.drop_copy(survivor.page, Tier::FLASH);
        }
    }

    /// Whether the page is read where it was found: a write miss may do without.
    fn is_read(&self, access: Access, found: Tier) -> bool {
        found != self.disk || access.op == Op::Read || self.write_miss == WriteMiss::Fetch
    }
}
