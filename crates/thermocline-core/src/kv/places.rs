//! The places that blocks can be in: tiers, of which the first ones exist once for each engine.

use super::KvFound;
use super::settings::Matching;
use crate::{Clients, PageId, Tier};

/// Maximum number of places: each has a bit in the word of a block.
pub const PLACES_MAX: usize = 64;

/// Places by number: the first tier of every engine, the second tier of every engine and so on, then
/// the shared tiers. So the places that one engine sees are in the order of their tiers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    engines: u8,
    private_tiers: usize,
    tiers: usize,
}

impl Places {
    pub(super) fn new(engines: Clients, private_tiers: usize, tiers: usize) -> Self {
        Self { engines: engines.get(), private_tiers, tiers }
    }

    pub(super) const fn tiers(&self) -> usize {
        self.tiers
    }

    /// Return the place that a tier is for an engine.
    #[inline]
    pub(super) fn place(&self, engine: u8, tier: usize) -> usize {
        let engines = usize::from(self.engines);
        if tier < self.private_tiers {
            tier * engines + usize::from(engine)
        } else {
            self.private_tiers * engines + tier - self.private_tiers
        }
    }

    /// Return the tier that a place belongs to.
    #[inline]
    pub(super) fn tier(&self, place: usize) -> usize {
        let engines = usize::from(self.engines);
        match place.checked_sub(self.private_tiers * engines) {
            Some(shared) => self.private_tiers + shared,
            None => place / engines,
        }
    }

    /// Return all places.
    pub(super) fn all(&self) -> usize {
        self.private_tiers * usize::from(self.engines) + self.tiers - self.private_tiers
    }

    /// Return a bit for each place that an engine sees, in the order of the tiers.
    pub(super) fn seen_by(&self, engine: u8) -> u64 {
        (0..self.tiers).map(|tier| 1 << self.place(engine, tier)).sum()
    }

    /// Return the prefix rule: looks blocks up from the first on, until one is in no place that
    /// `engine` sees. `held` tells the places that hold a block, and `served` is left with the
    /// tiers of the hits.
    pub(super) fn look_up(
        &self,
        engine: u8,
        matching: Matching,
        chain: &[PageId],
        held: impl Fn(PageId) -> u64,
        served: &mut alloc::vec::Vec<u8>,
    ) -> KvFound {
        served.clear();
        let mut found = KvFound::default();
        let seen = self.seen_by(engine);
        let mut allowed = seen;
        for &page in chain {
            let places = held(page) & allowed;
            if places == 0 {
                break;
            }
            let place = places.trailing_zeros();
            let tier = self.tier(place as usize);
            if matching == Matching::Cascade {
                allowed &= u64::MAX << place;
            }
            found.hits[tier] += 1;
            #[expect(clippy::cast_possible_truncation, reason = "there are few tiers")]
            served.push(tier as u8);
        }
        let rest = chain[served.len()..].iter();
        let stranded = rest.filter(|&&page| held(page) & seen != 0).count();
        found.stranded =
            u32::try_from(stranded).expect("a chain has fewer blocks than there are ids");
        found
    }
}

/// Return a place as a tier of an [`Action`](crate::Action).
pub(super) fn numbered(place: usize) -> Tier {
    Tier(u8::try_from(place).expect("places are few"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_belongs_to_one_tier() {
        let places = Places::new(Clients::new(3).unwrap(), 2, 4);
        assert_eq!(places.all(), 8);
        for engine in 0..3 {
            for tier in 0..4 {
                assert_eq!(places.tier(places.place(engine, tier)), tier);
            }
        }
        assert_eq!(places.seen_by(1), 0b1101_0010);
    }
}
