//! The tiers as multi-tier policies see them, and the moves that all of them make alike.
//!
//! A tier of no pages holds nothing and decides nothing, so policies pass over it. Writes go
//! through to disk at once, so that no cached copy is ever dirty and every victim is only dropped.
//!
//! Several clients may share all tiers but the first, of which each has its own. A client sees a
//! path: its first tier and the shared ones below. A page may be in the first tiers of several
//! clients; tiers are exclusive if no two of one path hold the same page. Before a write is made,
//! the copies in the first tiers of other clients are given up: distributed caches invalidate rather
//! than update, since a copy may not be read again, and telling its client costs less than a page.
//!
//! * Source: the papers on multi-tier caches replay reads alone; a write is taken as a read whose
//!   page then goes to disk.
//! * State: 4 bytes per tier.
//! * Cost: O(tiers) per access; a write also O(clients).
//! * Deviations: (1) after a restart the caches start empty: what flash still holds is cleaned and
//!   dropped.

use alloc::boxed::Box;

use crate::action::Sink;
use crate::{Access, Actions, Clients, Op, Setup, Survivor, Tier, WriteMiss};

/// The capacities, and what a write miss does.
#[derive(Clone, Debug)]
pub(super) struct Hierarchy {
    capacity_pages: Box<[u32]>,
    clients: Clients,
    /// A bit per tier: whether it can cache a page.
    caches: u32,
    write_miss: WriteMiss,
    disk: Tier,
}

/// Some tiers, from the fastest or from the slowest: a bit for each that is to come.
#[derive(Clone, Debug)]
pub(super) struct Caches(u32);

const _: () = assert!(crate::TIERS_MAX < u32::BITS as usize, "every tier has a bit");

impl Iterator for Caches {
    type Item = Tier;

    #[inline]
    fn next(&mut self) -> Option<Tier> {
        let rest = self.0.checked_sub(1)?;
        let tier = self.0.trailing_zeros();
        self.0 &= rest;
        Some(numbered(tier))
    }
}

impl DoubleEndedIterator for Caches {
    #[inline]
    fn next_back(&mut self) -> Option<Tier> {
        let tier = self.0.checked_ilog2()?;
        self.0 ^= 1 << tier;
        Some(numbered(tier))
    }
}

/// Return the bits of the tiers before one.
const fn before(tier: Tier) -> u32 {
    (1 << tier.0) - 1
}

/// Return the bits of a tier and those before it.
const fn up_to(tier: Tier) -> u32 {
    (2 << tier.0) - 1
}

#[expect(clippy::cast_possible_truncation, reason = "the number of a bit")]
const fn numbered(bit: u32) -> Tier {
    Tier(bit as u8)
}

impl Hierarchy {
    pub(super) fn new(setup: &Setup) -> Self {
        let mut capacity_pages: Box<[u32]> = setup.tier_capacities_pages().collect();
        if let Some(guest) = setup.clients.guest() {
            capacity_pages[usize::from(guest)] = 0;
        }
        let bits = (0..).zip(&capacity_pages).map(|(bit, &pages)| u32::from(pages > 0) << bit);
        Self {
            caches: bits.sum(),
            capacity_pages,
            clients: setup.clients,
            write_miss: setup.write_miss,
            disk: setup.disk(),
        }
    }

    /// Return the tier below all caches.
    pub(super) const fn disk(&self) -> Tier {
        self.disk
    }

    /// Return the number of pages a cache may hold.
    pub(super) fn capacity(&self, cache: Tier) -> u32 {
        self.capacity_pages[cache.index()]
    }

    /// Return the capacities of all caches, one after the other.
    pub(super) fn total_pages(&self) -> u64 {
        self.capacity_pages.iter().map(|&pages| u64::from(pages)).sum()
    }

    /// Return the first tier of a client.
    #[expect(clippy::unused_self, reason = "where the first tiers are is the hierarchy's to say")]
    pub(super) const fn top(&self, client: u8) -> Tier {
        Tier(client)
    }

    /// Return `true` if a tier is the first of a client.
    pub(super) const fn is_top(&self, tier: Tier) -> bool {
        self.clients.owns(tier)
    }

    /// Return the first tiers of all clients.
    pub(super) const fn tops(&self) -> Caches {
        Caches(before(self.first_shared()))
    }

    /// Return the first tiers of all clients but the one whose it is.
    pub(super) const fn other_tops(&self, top: Tier) -> Caches {
        Caches(before(self.first_shared()) & !(1 << top.0))
    }

    /// Return the tiers that can cache a page, fastest first.
    pub(super) const fn all_caches(&self) -> Caches {
        Caches(self.caches)
    }

    /// Return the first tier that all clients share, even if it cannot cache a page.
    pub(super) const fn first_shared(&self) -> Tier {
        Tier(self.clients.get())
    }

    /// Return the caches that all clients share.
    pub(super) const fn shared_caches(&self) -> Caches {
        Caches(self.caches & !before(self.first_shared()))
    }

    /// Return the caches that a client sees.
    pub(super) const fn caches(&self, client: u8) -> Caches {
        Caches(self.shared_caches().0 | 1 << self.top(client).0)
    }

    /// Return the caches that a page found there passes on its way up to a client, the one that
    /// holds it among them.
    pub(super) fn caches_upwards(
        &self,
        client: u8,
        found: Tier,
    ) -> impl Iterator<Item = Tier> + use<> {
        Caches(self.caches(client).0 & up_to(found)).rev()
    }

    /// Return the next tier that can hold a page, towards the disk.
    pub(super) fn below(&self, cache: Tier) -> Tier {
        Caches(self.shared_caches().0 & !up_to(cache)).next().unwrap_or(self.disk)
    }

    /// Return the next tier that can cache a page, away from the disk, towards a client.
    pub(super) fn above(&self, client: u8, tier: Tier) -> Option<Tier> {
        Caches(self.caches(client).0 & before(tier)).next_back()
    }

    /// Return the caches of all paths that lead down to one: faster ones, those of all clients if
    /// it is shared.
    pub(super) const fn faster(&self, cache: Tier) -> Caches {
        Caches(if self.is_top(cache) { 0 } else { self.caches & before(cache) })
    }

    /// Return the first tiers whose copies an access makes old, to be given up before: those of the
    /// other clients, if it writes.
    #[inline]
    pub(super) const fn outdated_by(&self, access: Access) -> Caches {
        match access.op {
            Op::Read => Caches(0),
            Op::Write => self.other_tops(self.top(access.client)),
        }
    }

    /// Moves the page from where it was found to `tier`, which answers; a write goes on to disk.
    ///
    /// The page stays where it was found if that is `tier` or the disk, or else leaves it.
    pub(super) fn serve(&self, access: Access, found: Tier, tier: Tier, out: &mut impl Sink) {
        let Access { page, op, .. } = access;
        out.copy_if(found != tier && self.is_read(access, found), page, found, tier);
        out.serve(page, op, found, tier);
        if op == Op::Write && tier != self.disk {
            out.copy(page, tier, self.disk);
        }
        if found != tier && found != self.disk {
            out.drop_copy(page, found);
        }
    }

    /// Brings the page up from where it was found to the client's first tier, which answers, and
    /// leaves a copy in every cache on the way.
    ///
    /// A write is made on top and goes through to disk; on its way it renews the copies of all
    /// caches that it passes, those below the one where the page was found if `holds` says so.
    pub(super) fn serve_and_leave(
        &self,
        access: Access,
        found: Tier,
        holds: impl Fn(Tier) -> bool,
        out: &mut impl Sink,
    ) {
        let Access { page, op, client } = access;
        let top = self.top(client);
        if op == Op::Read {
            let mut source = found;
            for cache in self.caches_upwards(client, found).filter(|&cache| cache < found) {
                out.copy(page, source, cache);
                source = cache;
            }
            out.serve(page, op, found, top);
            return;
        }
        if found != top && self.is_read(access, found) {
            out.copy(page, found, top);
        }
        out.serve(page, op, found, top);
        for cache in self.shared_caches() {
            if cache <= found || holds(cache) {
                out.copy(page, top, cache);
            }
        }
        out.copy(page, top, self.disk);
    }

    /// Cleans and drops what flash, the first tier that all clients share, still holds after a
    /// restart.
    pub(super) fn surrender(&self, survivors: &[Survivor], out: &mut Actions) {
        let flash = self.first_shared();
        for survivor in survivors {
            if survivor.is_dirty {
                out.copy(survivor.page, flash, self.disk);
            }
            out.drop_copy(survivor.page, flash);
        }
    }

    /// Return `true` if the page is read where it was found: a write miss may do without.
    fn is_read(&self, access: Access, found: Tier) -> bool {
        found != self.disk || self.write_miss.fetches(access.op)
    }
}
