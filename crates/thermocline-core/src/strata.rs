//! A sample of the disk: the disk is cut into strata of neighbouring units, and one random unit of each
//! is in the sample.
//!
//! The sample takes close to the same share of any part of the disk. If each unit were sampled on
//! its own, the share would vary, and with it the misses.
//!
//! A page is in the sample with all its accesses or not at all, so that a cache that is smaller by the
//! rate misses as often (Waldspurger, Park, Garthwaite, Ahmad, *Efficient MRC Construction with SHARDS*,
//! FAST 2015, section 3; for policies of any kind, Waldspurger, Saemundsson, Ahmad, Park, *Cache
//! Modeling and Optimization using Miniature Simulations*, USENIX ATC 2017, section 3).

use crate::random::SplitMix64;

/// Units of the disk (pages, or extents of several) that are in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strata {
    /// Units of a stratum.
    units: u32,
    /// The reciprocal of `units`, as a share of 2^64 rounded up: its product with a number of 32 bits
    /// gives the quotient exactly (Lemire, Kaser, Kurz, *Faster Remainder by Direct Computation*,
    /// Software: Practice and Experience 49(6), 2019). 0 for a stratum of one unit.
    reciprocal: u64,
}

impl Strata {
    /// Create a sample of at least the share `rate` of the units, above 0 and at most 1.
    pub fn new(rate: f64) -> Self {
        // The reciprocal of a hundredth may be a little less than 100.
        let units = libm::floor(1.0 / rate + 1e-9);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a quotient of at least 1; what is beyond 32 bits becomes the greatest number"
        )]
        let units = units as u32;
        Self::one_of(units)
    }

    /// Describe a sample of one unit out of each `units`.
    ///
    /// # Panics
    /// If a stratum has no unit.
    pub const fn one_of(units: u32) -> Self {
        Self { units, reciprocal: (u64::MAX / units as u64).wrapping_add(1) }
    }

    /// Return the share of units that is sampled.
    pub fn rate(self) -> f64 {
        1.0 / f64::from(self.units)
    }

    /// Return the capacity that stands for one of so many pages in a cache smaller by the rate:
    /// none for none, and at least one page otherwise.
    pub fn scaled_pages(self, pages: u32) -> u32 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a number of pages"
        )]
        let scaled = libm::round(f64::from(pages) * self.rate()) as u32;
        scaled.max(pages.min(1))
    }

    /// Return the stratum of a unit, if the unit is the one that is sampled of it.
    #[inline]
    pub const fn sampled(self, unit: u64) -> Option<u64> {
        if self.units == 1 {
            return Some(unit);
        }
        let units = self.units as u64;
        let stratum = if unit <= u32::MAX as u64 {
            ((self.reciprocal as u128 * unit as u128) >> 64) as u64
        } else {
            unit / units
        };
        let place = unit - stratum * units;
        if place == ((SplitMix64::new(stratum).bits() >> 32) * units) >> 32 {
            Some(stratum)
        } else {
            None
        }
    }

    /// Return the number of units in the sample, of so many; the last one may be missing.
    pub const fn units_max(self, units: u32) -> u32 {
        units.div_ceil(self.units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_disk_is_sampled_alike() {
        for (rate, one_of) in [(1.0, 1), (0.7, 1), (0.5, 2), (0.031, 32), (0.01, 100), (1e-3, 1000)]
        {
            let strata = Strata::new(rate);
            assert_eq!(strata, Strata::one_of(one_of));
            let sampled = |units: core::ops::Range<u32>| {
                units.filter(|&unit| strata.sampled(unit.into()).is_some()).count()
            };
            for first in [0, one_of, one_of * 777, u32::MAX / one_of * one_of - one_of] {
                assert_eq!(sampled(first..first + one_of), 1, "one of {one_of} from {first}");
            }
            let some = u32::try_from(sampled(0..200_001)).unwrap();
            assert!(some <= strata.units_max(200_001) && some + 1 >= strata.units_max(200_001));
            // Where in its stratum a unit lies says nothing.
            for place in 0..one_of.min(32) {
                let is_here = |&stratum: &u32| {
                    strata.sampled((stratum * one_of + place).into()) == Some(stratum.into())
                };
                let here = (0..20_000).filter(is_here);
                let expected = 20_000.0 / f64::from(one_of);
                let difference = here.count() as f64 - expected;
                assert!(
                    libm::fabs(difference) <= 5.0 * libm::sqrt(expected),
                    "{one_of}, {place}: {difference}"
                );
            }
        }
    }

    #[test]
    fn units_beyond_32_bits_have_strata_too() {
        let strata = Strata::one_of(100);
        let first = 1_u64 << 40;
        let sampled = (first..first + 100_000).filter_map(|unit| strata.sampled(unit));
        let expected = first / 100..first / 100 + 1001;
        let (mut count, mut last) = (0, 0);
        for stratum in sampled {
            assert!(expected.contains(&stratum) && stratum > last, "each stratum once, in order");
            (count, last) = (count + 1, stratum);
        }
        assert!((999..=1001).contains(&count), "{count}");
    }

    #[test]
    fn a_tier_keeps_a_page_unless_it_has_none() {
        let strata = Strata::one_of(64);
        assert_eq!([0, 1, 64, 640, 700].map(|pages| strata.scaled_pages(pages)), [0, 1, 1, 10, 11]);
    }
}
