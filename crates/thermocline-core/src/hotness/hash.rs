//! The hash of a page number that bloom filters and sketches share.
//!
//! One 64-bit hash gives any number of positions by double hashing (Kirsch and Mitzenmacher, *Less
//! Hashing, Same Performance*, ESA 2006): the i-th is `low + i * (high | 1)` in 32 bits, scaled to
//! the size of the table. The papers name no hash functions; this one is frozen, and the same on
//! every platform.

use rapidhash::v3::{RapidSecrets, rapidhash_v3_nano_inline};

use crate::PageId;
use crate::random::{STEP, mixed};

/// The seed of all hashes here, so that runs can be repeated.
static SECRETS: RapidSecrets = RapidSecrets::seed_cpp(0);

/// The hash of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHash(u64);

impl PageHash {
    /// Hashes a page.
    #[inline]
    pub fn of(page: PageId) -> Self {
        Self(rapidhash_v3_nano_inline::<true, false>(&page.0.to_le_bytes(), &SECRETS))
    }

    /// Compute another hash of a page, in a fraction of the time: for structures that hash several
    /// pages per reference.
    #[inline]
    pub const fn quick(page: PageId) -> Self {
        Self(mixed((page.0 as u64).wrapping_add(1).wrapping_mul(STEP)))
    }

    /// Return the `index`-th of its hash values: 32 evenly distributed bits.
    #[inline]
    pub const fn value(self, index: u32) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "the halves of the hash are meant")]
        let [low, high] = [self.0 as u32, (self.0 >> 32) as u32 | 1];
        low.wrapping_add(high.wrapping_mul(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_frozen() {
        let values: [u32; 3] = [0, 1, 2].map(|index| PageHash::of(PageId(42)).value(index));
        assert_eq!(values, [3_594_057_636, 888_597_299, 2_478_104_258]);
    }

    #[test]
    fn values_are_spread_evenly() {
        const BUCKETS: usize = 64;
        for (index, hash) in (0..4).flat_map(|index| {
            [PageHash::of as fn(PageId) -> PageHash, PageHash::quick].map(|hash| (index, hash))
        }) {
            let mut counts = [0_u32; BUCKETS];
            for page in 0..64_000 {
                let value = hash(PageId(page)).value(index);
                counts[((u64::from(value) * BUCKETS as u64) >> 32) as usize] += 1;
            }
            let chi_squared: f64 =
                counts.iter().map(|&count| (f64::from(count) - 1000.0).powi(2) / 1000.0).sum();
            assert!(chi_squared < 110.0, "63 degrees of freedom, value {index}: {chi_squared}");
        }
    }
}
