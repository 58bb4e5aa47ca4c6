//! Response times: recorded in nanoseconds, summarised in microseconds.
//!
//! * Source: Tene, *`HdrHistogram`*, by way of the crate of that name.
//! * State: a histogram that grows with the longest time; about 200 KiB for minutes.
//! * Cost: O(1) per time; a summary walks the histogram once per percentile.
//! * Deviations: (1) percentiles are upper ends of buckets, hence up to 0.1 % high; the mean and the
//!   longest time are exact.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Decimal digits that percentiles keep.
const SIGNIFICANT_DIGITS: u8 = 3;

/// The distribution of response times, in microseconds; all 0 if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ResponseUs {
    /// The arithmetic mean.
    pub mean: f64,
    /// Half of the requests took at most this long.
    pub p50: f64,
    /// 95 % of the requests took at most this long.
    pub p95: f64,
    /// 99 % of the requests took at most this long.
    pub p99: f64,
    /// 99.9 % of the requests took at most this long.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// Collects response times.
#[derive(Clone, Debug)]
pub struct ResponseTimes {
    histogram: Histogram<u64>,
    total_ns: u128,
    longest_ns: u64,
}

impl ResponseTimes {
    /// Create an empty distribution.
    ///
    /// # Panics
    /// Never: the number of digits is one that histograms take.
    pub fn new() -> Self {
        let histogram = Histogram::new(SIGNIFICANT_DIGITS).expect("three digits are supported");
        Self { histogram, total_ns: 0, longest_ns: 0 }
    }

    /// Adds a time in nanoseconds.
    ///
    /// # Panics
    /// Never: the histogram grows to any time.
    pub fn record(&mut self, response_ns: u64) {
        self.histogram.record(response_ns).expect("the histogram grows to any time");
        self.total_ns += u128::from(response_ns);
        self.longest_ns = self.longest_ns.max(response_ns);
    }

    /// Return their number.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Return the distribution of the response times.
    pub fn summary(&self) -> ResponseUs {
        if self.count() == 0 {
            return ResponseUs::default();
        }
        let us = |ns: u64| ns as f64 / 1e3;
        // A bucket's upper end may lie above the longest time in it.
        let quantile = |q| us(self.histogram.value_at_quantile(q).min(self.longest_ns));
        ResponseUs {
            mean: self.total_ns as f64 / self.count() as f64 / 1e3,
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: us(self.longest_ns),
        }
    }
}

impl Default for ResponseTimes {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_in_microseconds_and_close_to_the_true_percentiles() {
        let mut times = ResponseTimes::new();
        assert_eq!(times.summary(), ResponseUs::default());
        for us in 1..=100_000 {
            times.record(us * 1000);
        }
        let summary = times.summary();
        assert!((summary.mean - 50_000.5).abs() < 1e-6, "{summary:?}");
        let found = [summary.p50, summary.p95, summary.p99, summary.p999, summary.max];
        for (found, exact) in found.iter().zip([50e3, 95e3, 99e3, 99.9e3, 100e3]) {
            assert!((found / exact - 1.0).abs() < 1.1e-3, "{summary:?}");
        }
    }

    #[test]
    fn any_time_can_be_recorded() {
        let mut times = ResponseTimes::new();
        for ns in [0, u64::MAX, 1 << 62] {
            times.record(ns);
        }
        assert_eq!(times.count(), 3);
        assert!(times.summary().max > 1e16);
    }
}
