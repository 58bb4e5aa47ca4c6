//! Random numbers that every platform draws alike.
//!
//! Policies that toss coins take a seed and draw from here, so that the same accesses give the same
//! actions everywhere. Tests give them scripted draws instead.

use core::fmt::Debug;

use crate::config::Parameter;

/// Start of a policy's draws.
pub(crate) const SEED: Parameter = Parameter::integer("seed", 0..=u64::MAX, 1)
    .summary("where the random numbers begin")
    .source("any");

/// Increment of the counter of [`SplitMix64`].
pub(crate) const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Return a permutation of 64-bit numbers in which each bit depends on all bits.
#[inline]
pub(crate) const fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// A source of numbers from 0 to below 1.
pub trait Draws: Debug {
    /// Return the next number, at least 0 and below 1.
    fn unit(&mut self) -> f64;
}

/// The generator of Steele, Lea and Flood, *Fast Splittable Pseudorandom Number Generators*, OOPSLA
/// 2014: a counter, mixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Return the stream of that seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Return the next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mixed(self.0)
    }

    /// Draw a number below `limit`, each nearly as likely as any other: by 2^-32 at worst. The
    /// upper bits of a product, as in Lemire, *Fast Random Integer Generation in an Interval*, ACM
    /// TOMACS 29(1), 2019, without the rejection.
    pub const fn below(&mut self, limit: u32) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "a 64-bit fraction of a u32 is a u32")]
        let number = ((self.bits() as u128 * limit as u128) >> 64) as u32;
        number
    }
}

impl Draws for SplitMix64 {
    /// Return the upper 53 bits as a fraction: all that a double holds.
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn the_stream_is_frozen() {
        let mut stream = SplitMix64::new(1_234_567);
        let bits = [(); 3].map(|()| stream.bits());
        let expected =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(bits, expected);
    }

    #[test]
    fn numbers_below_a_limit_are_spread_over_it() {
        let mut stream = SplitMix64::new(7);
        let mut counts = [0; 7];
        for _ in 0..7000 {
            counts[stream.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        assert_eq!([(); 3].map(|()| stream.below(1)), [0; 3]);
    }

    #[test]
    fn units_are_spread_over_the_unit_interval() {
        let mut stream = SplitMix64::new(7);
        let units: Vec<f64> = (0..10_000).map(|_| stream.unit()).collect();
        assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)));
        let counts = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
            .map(|start| units.iter().filter(|&&unit| unit >= start && unit < start + 0.1).count());
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
