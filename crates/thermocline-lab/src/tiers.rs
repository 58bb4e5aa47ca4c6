//! Measures of hierarchies of any depth: response time by hit, and traffic between tiers.

use serde::Serialize;
use thermocline_core::{Counts, Tier};

use crate::{Configuration, LabError};

/// Access times of first and second tier and of the disk, in milliseconds: those of fscachesim, on
/// which Demote, Hint-K and HFA were measured.
const FIRST_MS: f64 = 0.2;
const SECOND_MS: f64 = 2.0;
const DISK_MS: f64 = 10.0;

/// Prices per GiB of the tiers, the disk last.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices(Vec<f64>);

/// Cost of a hierarchy, and of each I/O of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// The price of the hierarchy.
    pub total: f64,
    /// I/Os per second, one after the other at the average response time.
    pub iops: f64,
    /// The price divided by the I/Os per second.
    pub per_io: f64,
}

impl Prices {
    /// Create one price per tier, the disk last, per GiB.
    ///
    /// # Errors
    /// [`LabError::BadPrice`] if one is negative or no number.
    pub fn new(per_gib: Vec<f64>) -> Result<Self, LabError> {
        match per_gib.iter().find(|price| !price.is_finite() || **price < 0.0) {
            Some(&price) => Err(LabError::BadPrice { price }),
            None => Ok(Self(per_gib)),
        }
    }

    /// Compute the cost of tiers of these sizes, and that of an I/O that takes
    /// `average_response_ms`.
    pub fn cost(&self, bytes: &[u64], average_response_ms: f64) -> Cost {
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let total = self.0.iter().zip(bytes).map(|(price, &bytes)| price * gib(bytes)).sum();
        let iops = 1000.0 / average_response_ms;
        Cost { total, iops, per_io: total / iops }
    }
}

/// Access times of so many cache tiers and of the disk, in milliseconds: 0.2, 2 and 10, and evenly
/// spaced between 2 and 10 for further tiers.
pub fn default_latencies_ms(cache_tiers: usize) -> Vec<f64> {
    let further = cache_tiers.saturating_sub(1).max(1) as f64;
    let caches = (0..cache_tiers).map(|tier| match tier {
        0 => FIRST_MS,
        tier => SECOND_MS + (DISK_MS - SECOND_MS) * (tier - 1) as f64 / further,
    });
    caches.chain([DISK_MS]).collect()
}

/// Return the mean over all accesses of the access time of the tier that each was found in.
pub(crate) fn average_response_ms(counts: &Counts, latencies_ms: &[f64]) -> f64 {
    let total: f64 = (0_u8..)
        .map(Tier)
        .zip(latencies_ms)
        .map(|(tier, latency_ms)| counts.hits(tier) as f64 * latency_ms)
        .sum();
    total / (counts.accesses() as f64).max(1.0)
}

/// Return the pages that crossed each pair of neighbouring cache tiers, from the top: downwards,
/// and upwards.
pub(crate) fn traffic(configuration: &Configuration, counts: &Counts) -> [Vec<u64>; 2] {
    let caches = u8::try_from(configuration.tiers.len()).expect("a hierarchy has few tiers");
    let crossing = |above: u8, is_down: bool| {
        let upper = || (0..=above).map(Tier);
        let lower = || (above + 1..caches).map(Tier);
        let pairs = upper().flat_map(|one| lower().map(move |other| (one, other)));
        pairs
            .map(|(one, other)| {
                let (source, target) = if is_down { (one, other) } else { (other, one) };
                counts.copies(source, target)
            })
            .sum()
    };
    [true, false].map(|is_down| {
        (0..caches.saturating_sub(1)).map(|above| crossing(above, is_down)).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_tiers_lie_between_the_second_and_the_disk() {
        assert_eq!(default_latencies_ms(1), [0.2, 10.0]);
        assert_eq!(default_latencies_ms(2), [0.2, 2.0, 10.0]);
        assert_eq!(default_latencies_ms(3), [0.2, 2.0, 6.0, 10.0]);
        assert_eq!(default_latencies_ms(5), [0.2, 2.0, 4.0, 6.0, 8.0, 10.0]);
    }

    #[test]
    fn costs_are_prices_of_what_is_there() {
        let prices = Prices::new(vec![8.0, 0.5]).unwrap();
        let cost = prices.cost(&[1 << 30, 4 << 30], 2.0);
        assert_eq!(cost, Cost { total: 10.0, iops: 500.0, per_io: 0.02 });
        assert!(Prices::new(vec![-1.0]).unwrap_err().to_string().contains("at least 0"));
    }
}
