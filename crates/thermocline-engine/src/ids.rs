//! The ids by which policies know pages.
//!
//! Policies number pages with 32 bits. On a backing store of no more pages, the id of a page is its
//! number. On a larger one it is a hash of its number, so that it takes no memory, and a page that
//! comes back has the id that the policy may have kept a ghost of. Two pages may have the same hash;
//! [`Places`](crate::shard) gives one of them another id while the engine holds both.
//!
//! A policy that looks at neighbours knows whole units of neighbouring pages: the hash is that of the
//! unit, and pages keep their order within.

use thermocline_core::PageId;
use thermocline_core::random::SplitMix64;

use crate::options::Options;

/// Pages of a unit, as a power of two, for policies that look at neighbours: the extents of which a
/// shadow of such a policy sees a sample.
const NEIGHBOURS_SHIFT: u32 = 6;
/// Ids per page that the engine may hold, and the fewest ids, for policies whose memory grows with the
/// number of ids.
const IDS_PER_PLACE: u64 = 8;
const IDS_MIN: u64 = 1 << 20;

/// Space of the policy's ids, and the rule by which a page gets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdSpace {
    /// The number of the page, of which there are so many.
    Numbers(u32),
    /// A hash of its unit, of which there are so many, each of two to the power of `shift` pages.
    Hashes { units: u32, shift: u32 },
}

impl IdSpace {
    /// Return the ids for a policy with these options, while the engine holds up to `places` pages.
    pub(crate) fn of(options: &Options, places: usize) -> Self {
        if let Ok(pages) = u32::try_from(options.backing_pages) {
            return Self::Numbers(pages);
        }
        let capabilities = &options.policy.entry.capabilities;
        let memory = capabilities.sparse_memory;
        let is_bounded = memory.bytes_per_disk_page == 0 || memory.is_of_accessed_pages;
        let few = (places as u64 * IDS_PER_PLACE).max(IDS_MIN);
        let ids = if is_bounded { u64::MAX } else { few };
        Self::hashes(ids, if capabilities.looks_at_neighbours { NEIGHBOURS_SHIFT } else { 0 })
    }

    /// Create the ids of a sample of units of two to the power of `shift` pages, for caches of up
    /// to `pages` pages.
    pub(crate) fn of_sample(pages: u64, shift: u32) -> Self {
        let ids = pages.saturating_mul(IDS_PER_PLACE << NEIGHBOURS_SHIFT).max(IDS_MIN);
        Self::hashes(ids.checked_next_power_of_two().unwrap_or(u64::MAX), shift)
    }

    /// Create up to `ids` ids for units of two to the power of `shift` pages.
    pub(crate) fn hashes(ids: u64, shift: u32) -> Self {
        let units = u32::try_from(ids.min(u32::MAX.into()) >> shift);
        Self::Hashes { units: units.expect("ids have 32 bits"), shift }
    }

    /// Ids are below this.
    pub(crate) const fn count(self) -> u32 {
        match self {
            Self::Numbers(pages) => pages,
            Self::Hashes { units, shift } => units << shift,
        }
    }

    /// Return `true` if two pages may want the same id.
    pub(crate) const fn has_collisions(self) -> bool {
        matches!(self, Self::Hashes { .. })
    }

    /// Return the id that a page should have.
    #[inline]
    pub(crate) fn wanted(self, page: u64) -> PageId {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "page numbers have 32 bits, or become so many"
        )]
        let id = match self {
            Self::Numbers(_) => page as u32,
            Self::Hashes { units, shift } => {
                let unit = below(SplitMix64::new(page >> shift).bits(), units);
                unit << shift | (page & ((1 << shift) - 1)) as u32
            }
        };
        PageId(id)
    }

    /// Return the ids that a page may have if another one has that which it should have, in the
    /// order of their trial.
    pub(crate) fn others(self, page: u64) -> impl Iterator<Item = PageId> {
        let mut random = SplitMix64::new(!page);
        std::iter::repeat_with(move || PageId(below(random.bits(), self.count())))
    }
}

/// Return a number below a limit, made of random bits.
#[inline]
const fn below(bits: u64, limit: u32) -> u32 {
    (((bits >> 32) * limit as u64) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::PolicyOptions;

    fn space(policy: &str, backing_pages: u64, places: usize) -> IdSpace {
        let policy = PolicyOptions::named(policy).unwrap();
        IdSpace::of(&Options::new(backing_pages, 16, 64, policy), places)
    }

    #[test]
    fn ids_are_numbers_where_these_have_32_bits() {
        let most = u64::from(u32::MAX);
        for policy in ["lru", "tac", "hat"] {
            let numbers = space(policy, most, 100);
            assert_eq!((numbers.count(), numbers.has_collisions()), (u32::MAX, false));
            assert_eq!(numbers.wanted(most - 1), PageId(u32::MAX - 1));
            assert!(space(policy, most + 1, 100).has_collisions());
        }
    }

    #[test]
    fn hashes_are_ids() {
        for (policy, least) in [("lru", u32::MAX), ("hca", u32::MAX - 63), ("tac", 1 << 20)] {
            let space = space(policy, 1 << 48, 100);
            assert_eq!(space.count(), least, "{policy}");
            for page in [0, 1, (1 << 32) - 1, 1 << 32, (1 << 48) - 1] {
                let ids = std::iter::once(space.wanted(page)).chain(space.others(page).take(9));
                assert!(ids.into_iter().all(|id| id.0 < space.count()), "{policy}: {page}");
            }
        }
    }

    #[test]
    fn neighbours_stay_neighbours() {
        let space = space("lc", 1 << 38, 100);
        for first in [0, 64 << 20, (1 << 38) - 64] {
            let id = space.wanted(first);
            assert_eq!(id.0 % 64, 0);
            assert!((0..64).all(|page| space.wanted(first + u64::from(page)).0 == id.0 + page));
            assert_ne!(space.wanted(first + 64).0 / 64, id.0 / 64);
        }
    }
}
