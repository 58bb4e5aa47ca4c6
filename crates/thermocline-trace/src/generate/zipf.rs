//! Zipf-distributed ranks by rejection-inversion: constant time and memory for any number of pages.
//!
//! * Source: Hoermann and Derflinger, *Rejection-Inversion to Generate Variates from Monotone
//!   Discrete Distributions*, ACM TOMACS 6(3), 1996.
//! * With h(x) = x^-alpha, whose integral H(x) = (x^(1-alpha) - 1) / (1 - alpha), or ln x if alpha is
//!   1, a point under H is drawn uniformly and inverted; it is accepted if it lies in the part of
//!   its rank's bar that has the area h(rank).

use super::random::SplitMix64;

/// Ranks from 0 with probabilities proportional to 1 / (rank + 1)^alpha.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    alpha: f64,
    ranks: u64,
    /// H(1.5) - h(1) and H(ranks + 0.5): the bounds between which points are drawn.
    low: f64,
    high: f64,
    /// Points at most this far left of their rank are accepted without computing h.
    sure: f64,
}

impl Zipf {
    /// Return the distribution on `ranks` ranks, at most 2^53, with a skew of at least 0.
    pub(crate) fn new(ranks: u64, alpha: f64) -> Self {
        assert!(ranks > 0 && ranks <= 1 << 53, "ranks are exact in a float");
        assert!(alpha >= 0.0, "the distribution is monotone");
        let mut zipf = Self { alpha, ranks, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(ranks as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// Draws a rank; 0 is the most frequent.
    pub(crate) fn rank(&self, random: &mut SplitMix64) -> u64 {
        loop {
            let area = self.high + random.real() * (self.low - self.high);
            let point = self.inverse(area);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "casting saturates, and the result is clamped"
            )]
            let nearest = ((point + 0.5) as u64).clamp(1, self.ranks);
            let rank = nearest as f64;
            if rank - point <= self.sure || area >= self.integral(rank + 0.5) - self.density(rank) {
                return nearest - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        libm::exp(-self.alpha * libm::log(x))
    }

    /// Return H(x) = ln x * expm1(t) / t with t = (1 - alpha) ln x, which is smooth around alpha = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let t = (1.0 - self.alpha) * log;
        log * if t.abs() > 1e-8 { libm::expm1(t) / t } else { 1.0 + t * 0.5 * (1.0 + t / 3.0) }
    }

    /// Return the x for which H(x) = `area`: exp(area * ln(1 + t) / t) with t = area (1 - alpha).
    fn inverse(&self, area: f64) -> f64 {
        // Rounding may take t below -1, where H has no value.
        let t = (area * (1.0 - self.alpha)).max(-1.0);
        let ratio = if t.abs() > 1e-8 { libm::log1p(t) / t } else { 1.0 - t * (0.5 - t / 3.0) };
        libm::exp(area * ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares frequencies with probabilities, within five standard deviations.
    fn check(ranks: u32, alpha: f64) {
        const DRAWS: u64 = 200_000;
        let zipf = Zipf::new(u64::from(ranks), alpha);
        let mut random = SplitMix64::new(42);
        let mut counts = vec![0_u64; ranks as usize];
        for _ in 0..DRAWS {
            let rank = zipf.rank(&mut random);
            counts[usize::try_from(rank).unwrap()] += 1;
        }
        let weight = |rank: u32| libm::pow(f64::from(rank + 1), -alpha);
        let total: f64 = (0..ranks).map(weight).sum();
        for (rank, &count) in (0..).zip(&counts) {
            let probability = weight(rank) / total;
            let expected = probability * DRAWS as f64;
            let deviation = (expected * (1.0 - probability)).sqrt();
            let error = (count as f64 - expected).abs();
            assert!(
                error <= 5.0 * deviation + 1e-9,
                "{alpha}: rank {rank}: {count} for {expected}"
            );
        }
    }

    #[test]
    fn frequencies_follow_the_law() {
        for ranks in [1, 2, 3, 50] {
            for alpha in [0.0, 0.5, 0.99, 1.0, 1.000_000_001, 1.2, 3.0, 50.0] {
                check(ranks, alpha);
            }
        }
    }

    #[test]
    fn extreme_sizes_work() {
        let mut random = SplitMix64::new(1);
        for alpha in [0.0, 1.0, 2.0, 100.0] {
            let zipf = Zipf::new(1 << 53, alpha);
            assert!((0..1000).all(|_| zipf.rank(&mut random) < 1 << 53));
        }
    }
}
