//! Statistics over many traces, as pure functions of numbers.
//!
//! The unit is the trace: each has one value per policy, and a value says how much less a policy
//! misses (or writes, or erases) than a baseline on that trace.
//!
//! * Sources: the reduction and its percentiles as in the scripts of S3-FIFO (SOSP 2023); ranks and
//!   their critical difference from Demsar, *Statistical Comparisons of Classifiers over Multiple Data
//!   Sets*, JMLR 2006; pairs by Wilcoxon's signed ranks with Holm's correction, as Benavoli, Corani
//!   and Mangili propose (JMLR 2016); intervals by the paired bootstrap, resampled within each data
//!   set.
//! * Random numbers come from splitmix64. Resample `i` has a generator of its own, seeded by the seed
//!   and `i`, so the number of threads changes nothing.

use std::f64::consts::{PI, SQRT_2};

use rayon::prelude::*;
use serde::Serialize;
use thermocline_core::random::SplitMix64;

/// The least number of traces for which an interval is given. With fewer, resamples repeat each other.
pub const INTERVAL_TRACES_MIN: usize = 5;
/// The number of pairs up to which the distribution of signed ranks is computed exactly, as in scipy.
const EXACT_PAIRS_MAX: usize = 50;

/// Return the relative reduction of a policy's figure against a baseline: `(f - m) / f` if it is
/// less, and `-(m - f) / m` if it is more, so that twice as much is as bad as half as much is good.
///
/// In \[-1, 1\]. `None` if neither has any, or if one of them is negative or not a number.
///
/// ```
/// use thermocline_lab::corpus::statistics::reduction;
/// assert_eq!(reduction(0.5, 0.25), Some(0.5));
/// assert_eq!(reduction(0.25, 0.5), Some(-0.5));
/// assert_eq!(reduction(0.0, 0.0), None);
/// ```
pub fn reduction(baseline: f64, value: f64) -> Option<f64> {
    let larger = baseline.max(value);
    let is_defined = baseline >= 0.0 && value >= 0.0 && larger > 0.0 && larger.is_finite();
    is_defined.then(|| (baseline - value) / larger)
}

/// Return the value below which a share `p` of the values lies: linear between the two that are
/// nearest to place `(n - 1) p`. The values must ascend; `None` if there are none.
pub fn percentile(ascending: &[f64], p: f64) -> Option<f64> {
    let last = ascending.len().checked_sub(1)?;
    let place = last as f64 * p.clamp(0.0, 1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the place is from 0 to the last index"
    )]
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    let (low, high) = (ascending[below], ascending[above]);
    Some(low + (high - low) * (place - below as f64))
}

/// Return the mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Return the median; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    percentile(&sorted(values), 0.5)
}

/// Return the values in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// Return the rank of each value: 1 for the greatest. Equal values share the mean of their ranks.
pub fn ranks_descending(values: &[f64]) -> Vec<f64> {
    let negated: Vec<f64> = values.iter().map(|value| -value).collect();
    ranks(&negated)
}

/// Return the rank of each value: 1 for the least. Equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for tied in order.chunk_by(|&one, &other| values[one].total_cmp(&values[other]).is_eq()) {
        let shared = before as f64 + (tied.len() + 1) as f64 / 2.0;
        for &place in tied {
            ranks[place] = shared;
        }
        before += tied.len();
    }
    ranks
}

/// Result of Friedman's test of `k` policies on `n` traces.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Friedman {
    /// The mean rank of each policy.
    pub mean_ranks: Vec<f64>,
    /// The statistic, corrected for ties.
    pub chi_squared: f64,
    /// The probability of a statistic as large if all policies were alike.
    pub p_value: f64,
}

/// Run Friedman's test. Each row is a trace with one value per policy, of which a higher one is better.
///
/// `None` with fewer than two traces or policies, or if every trace has the same value for all.
///
/// # Panics
/// If the rows differ in length.
pub fn friedman(rows: &[Vec<f64>]) -> Option<Friedman> {
    let k = rows.first()?.len();
    let n = rows.len() as f64;
    if k < 2 || rows.len() < 2 {
        return None;
    }
    let mut sums = vec![0.0; k];
    let mut ties = 0.0;
    for row in rows {
        assert_eq!(row.len(), k, "every trace has a value for every policy");
        let ranks = ranks_descending(row);
        ties += tie_excess(&ranks);
        for (sum, rank) in sums.iter_mut().zip(ranks) {
            *sum += rank;
        }
    }
    let policies = k as f64;
    let squares: f64 = sums.iter().map(|sum| sum * sum).sum();
    let correction = 1.0 - ties / (policies * (policies * policies - 1.0) * n);
    if correction <= 0.0 {
        return None;
    }
    let statistic = 12.0 / (policies * n * (policies + 1.0)) * squares - 3.0 * n * (policies + 1.0);
    let chi_squared = (statistic / correction).max(0.0);
    Some(Friedman {
        mean_ranks: sums.iter().map(|sum| sum / n).collect(),
        chi_squared,
        p_value: chi_squared_above(chi_squared, policies - 1.0),
    })
}

/// Return the sum of `t^3 - t` over the groups of equal ranks, `t` being how many share one.
fn tie_excess(ranks: &[f64]) -> f64 {
    let sorted = sorted(ranks);
    let groups = sorted.chunk_by(|one, other| one.total_cmp(other).is_eq());
    groups.map(|group| (group.len() as f64).powi(3) - group.len() as f64).sum()
}

/// Return Nemenyi's critical difference of mean ranks at a level of 5 %, for `k` policies on `n` traces.
///
/// `None` with fewer than two policies, or no trace.
pub fn critical_difference(policies: usize, traces: usize) -> Option<f64> {
    if policies < 2 || traces == 0 {
        return None;
    }
    let k = policies as f64;
    let q = studentized_range(policies, 0.95) / SQRT_2;
    Some(q * (k * (k + 1.0) / (6.0 * traces as f64)).sqrt())
}

/// Return the range of `k` normal variables that a share `p` of draws does not exceed.
fn studentized_range(k: usize, p: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 20.0_f64);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if range_below(middle, k) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Return the probability that the range of `k` normal variables is below `q`, by Simpson's rule
/// over the place of the greatest.
fn range_below(q: f64, k: usize) -> f64 {
    const STEPS: u32 = 512;
    let (low, high) = (-8.0, 8.0);
    let width = (high - low) / f64::from(STEPS);
    let exponent = k as f64 - 1.0;
    let density = |z: f64| {
        let inside = (normal_below(z) - normal_below(z - q)).max(0.0);
        libm::exp(-z * z / 2.0) / (2.0 * PI).sqrt() * libm::pow(inside, exponent)
    };
    let weight = |step: u32| match step {
        0 | STEPS => 1.0,
        step if step % 2 == 1 => 4.0,
        _ => 2.0,
    };
    let sum: f64 =
        (0..=STEPS).map(|step| weight(step) * density(low + width * f64::from(step))).sum();
    k as f64 * sum * width / 3.0
}

/// Return the probability that a normal variable is below `z`.
fn normal_below(z: f64) -> f64 {
    let half = upper_gamma(0.5, z * z / 2.0) / 2.0;
    if z < 0.0 { half } else { 1.0 - half }
}

/// Return the probability that a chi-squared variable of some degrees of freedom is above `x`.
fn chi_squared_above(x: f64, degrees: f64) -> f64 {
    upper_gamma(degrees / 2.0, x / 2.0)
}

/// Return the regularised upper incomplete gamma function: a series below `a + 1`, a continued
/// fraction (Lentz's) above.
#[expect(clippy::many_single_char_names, reason = "the names of the formulas")]
fn upper_gamma(a: f64, x: f64) -> f64 {
    const TERMS_MAX: u32 = 1000;
    const SMALLEST: f64 = 1e-300;
    if x <= 0.0 {
        return 1.0;
    }
    let scale = libm::exp(a * libm::log(x) - x - ln_gamma(a));
    if x < a + 1.0 {
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for step in 1..TERMS_MAX {
            term *= x / (a + f64::from(step));
            sum += term;
            if term.abs() < sum.abs() * 1e-16 {
                break;
            }
        }
        return (1.0 - sum * scale).clamp(0.0, 1.0);
    }
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / SMALLEST;
    let mut d = 1.0 / b;
    let mut fraction = d;
    for step in 1..TERMS_MAX {
        let step = f64::from(step);
        let an = -step * (step - a);
        b += 2.0;
        d = 1.0 / nonzero(an * d + b);
        c = nonzero(b + an / c);
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-16 {
            break;
        }
    }
    (fraction * scale).clamp(0.0, 1.0)
}

fn nonzero(value: f64) -> f64 {
    if value.abs() < 1e-300 { 1e-300 } else { value }
}

/// Return the logarithm of the gamma function above 0, by Stirling's series after shifting up to
/// 10.
fn ln_gamma(mut x: f64) -> f64 {
    let mut shift = 0.0;
    while x < 10.0 {
        shift += libm::log(x);
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series =
        inverse / 12.0 * (1.0 - square / 30.0 * (1.0 - square * 2.0 / 7.0 * (1.0 - square * 0.75)));
    (x - 0.5) * libm::log(x) - x + libm::log(2.0 * PI) / 2.0 + series - shift
}

/// Return the probability, by Wilcoxon's signed-rank test, of differences as far from 0 if either
/// sign were as likely. Differences of 0 are left out; 1 if nothing is left.
///
/// Exact for up to 50 differences without ties or zeros, else by the normal approximation with the
/// correction for ties, both as scipy does it.
pub fn wilcoxon(differences: &[f64]) -> f64 {
    let nonzero: Vec<f64> =
        differences.iter().copied().filter(|difference| difference.abs() > 0.0).collect();
    if nonzero.is_empty() {
        return 1.0;
    }
    let sizes: Vec<f64> = nonzero.iter().map(|difference| difference.abs()).collect();
    let ranks = ranks(&sizes);
    let signed = nonzero.iter().zip(&ranks);
    let positive: f64 = signed.filter(|(value, _)| **value > 0.0).map(|(_, rank)| rank).sum();
    let n = nonzero.len() as f64;
    let total = n * (n + 1.0) / 2.0;
    let statistic = positive.min(total - positive);
    let ties = tie_excess(&ranks);
    let is_whole = ties <= 0.0 && nonzero.len() == differences.len();
    if is_whole && nonzero.len() <= EXACT_PAIRS_MAX {
        return exact_signed_ranks(nonzero.len(), statistic);
    }
    let variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - ties / 48.0;
    if variance <= 0.0 {
        return 1.0;
    }
    let z = (statistic - total / 2.0) / variance.sqrt();
    (2.0 * normal_below(z)).min(1.0)
}

/// Return the two-sided probability of a sum of ranks as small, over all signs of the ranks 1 to
/// `n`.
fn exact_signed_ranks(n: usize, statistic: f64) -> f64 {
    let total = n * (n + 1) / 2;
    let mut ways = vec![0.0_f64; total + 1];
    ways[0] = 1.0;
    for rank in 1..=n {
        for sum in (rank..=total).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    let below: f64 = ways
        .iter()
        .zip(0_u32..)
        .take_while(|(_, sum)| f64::from(*sum) <= statistic)
        .map(|(ways, _)| ways)
        .sum();
    let all: f64 = ways.iter().sum();
    (2.0 * below / all).min(1.0)
}

/// Return the probabilities of several tests together, by Holm's correction: each is comparable
/// with the level that all are to have.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&one, &other| p_values[one].total_cmp(&p_values[other]));
    let mut corrected = vec![0.0; p_values.len()];
    let mut so_far = 0.0_f64;
    for (step, &place) in order.iter().enumerate() {
        let factor = (p_values.len() - step) as f64;
        so_far = so_far.max((p_values[place] * factor).min(1.0));
        corrected[place] = so_far;
    }
    corrected
}

/// An interval that 95 % of resamples fall into.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The value of all traces.
    pub value: f64,
    /// The 2.5th percentile of the resamples.
    pub low: f64,
    /// The 97.5th percentile of the resamples.
    pub high: f64,
}

/// Resampled means of several policies, all policies of one resample on the same traces.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    /// Mean over all traces, for each policy.
    means: Vec<f64>,
    /// Mean of each policy, for each resample.
    resampled: Vec<Vec<f64>>,
}

impl Bootstrap {
    /// Resamples traces with replacement, within each stratum as many as it has.
    ///
    /// Each row is a trace with one value per policy; `strata` has the rows of each data set.
    ///
    /// # Panics
    /// If there is no row.
    pub fn new(rows: &[Vec<f64>], strata: &[Vec<usize>], resamples: u32, seed: u64) -> Self {
        let policies = rows.first().expect("there is a trace").len();
        let traces = strata.iter().map(Vec::len).sum::<usize>().max(1) as f64;
        let mean_of = |draw: &mut dyn FnMut(&[usize]) -> usize| {
            let mut sums = vec![0.0; policies];
            for stratum in strata {
                for _ in 0..stratum.len() {
                    for (sum, value) in sums.iter_mut().zip(&rows[draw(stratum)]) {
                        *sum += value;
                    }
                }
            }
            sums.iter().map(|sum| sum / traces).collect::<Vec<f64>>()
        };
        let draws = (0..u64::from(resamples)).into_par_iter().map(|number| {
            let mut random = stream(seed, number);
            mean_of(&mut |stratum| {
                let traces = u32::try_from(stratum.len()).expect("traces are files");
                stratum[random.below(traces) as usize]
            })
        });
        let draws = draws.collect();
        let mut next = 0;
        let in_order: Vec<usize> = strata.iter().flatten().copied().collect();
        let means = mean_of(&mut |_| {
            next += 1;
            in_order[next - 1]
        });
        Self { means, resampled: draws }
    }

    /// Return the mean of one policy's values.
    pub fn mean(&self, policy: usize) -> Estimate {
        self.estimate(|means| means[policy])
    }

    /// Return the mean difference of the values of two policies on the same traces.
    pub fn difference(&self, one: usize, other: usize) -> Estimate {
        self.estimate(|means| means[one] - means[other])
    }

    fn estimate(&self, of: impl Fn(&[f64]) -> f64) -> Estimate {
        let value = of(&self.means);
        let values: Vec<f64> = self.resampled.iter().map(|means| of(means)).collect();
        let values = sorted(&values);
        let at = |p| percentile(&values, p).unwrap_or(value);
        Estimate { value, low: at(0.025), high: at(0.975) }
    }
}

/// Return a generator for one of many streams of a seed.
fn stream(seed: u64, number: u64) -> SplitMix64 {
    SplitMix64::new(SplitMix64::new(SplitMix64::new(seed).bits() ^ number).bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(found: f64, expected: f64, error: f64) {
        assert!((found - expected).abs() <= error, "{found} instead of {expected}");
    }

    /// A worked example.
    #[test]
    fn the_vectors_of_the_sheet_hold() {
        near(reduction(0.5, 0.4).unwrap(), 0.2, 1e-12);
        near(reduction(0.4, 0.5).unwrap(), -0.2, 1e-12);
        assert_eq!(reduction(0.3, 0.3), Some(0.0));
        let values = [-0.2, 0.0, 0.1, 0.3];
        for (p, expected) in [(0.1, -0.14), (0.25, -0.05), (0.5, 0.05), (0.75, 0.15), (0.9, 0.24)] {
            near(percentile(&values, p).unwrap(), expected, 1e-12);
        }
        assert_eq!(ranks_descending(&[0.3, 0.3, 0.1]), [1.5, 1.5, 3.0]);
        near(critical_difference(3, 100).unwrap(), 0.331, 0.0005);
    }

    #[test]
    fn what_has_no_value_is_none() {
        for (baseline, value) in
            [(0.0, 0.0), (-1.0, 1.0), (1.0, f64::NAN), (f64::NAN, 1.0), (1.0, f64::INFINITY)]
        {
            assert_eq!(reduction(baseline, value), None, "{baseline} {value}");
        }
        assert_eq!(reduction(0.0, 0.5), Some(-1.0));
        assert_eq!(reduction(0.5, 0.0), Some(1.0));
        assert_eq!((percentile(&[], 0.5), mean(&[])), (None, None));
        assert_eq!(percentile(&[7.0], 0.9), Some(7.0));
        assert_eq!(friedman(&[vec![1.0, 2.0]]), None);
        assert_eq!(friedman(&[vec![1.0, 1.0], vec![2.0, 2.0]]), None, "only ties");
        assert_eq!(critical_difference(1, 100), None);
        near(wilcoxon(&[0.0, 0.0]), 1.0, 0.0);
    }

    /// The constants are those that scipy 1.16 gives for the same numbers.
    #[test]
    fn tests_of_rank_agree_with_scipy() {
        let rows = [
            [0.12, 0.10, 0.05, -0.02],
            [0.30, 0.22, 0.22, 0.01],
            [0.05, 0.06, -0.01, -0.03],
            [0.41, 0.35, 0.20, 0.20],
            [0.18, 0.21, 0.07, 0.0],
            [-0.04, 0.02, 0.01, -0.10],
        ];
        let rows: Vec<Vec<f64>> = rows.iter().map(|row| row.to_vec()).collect();
        let found = friedman(&rows).unwrap();
        near(found.chi_squared, 13.603_448_275_862_075, 1e-9);
        near(found.p_value, 0.003_497_770_520_881_829_7, 1e-12);
        // Exact, and with ties and a zero.
        let differences = [0.3, -0.1, 0.25, 0.02, 0.4, -0.05, 0.11, 0.17];
        near(wilcoxon(&differences), 0.078_125, 1e-12);
        let differences = [0.3, -0.1, 0.3, 0.0, 0.4, -0.05, 0.1, 0.17, 0.1, -0.3];
        near(wilcoxon(&differences), 0.170_043_213_743_379_05, 1e-9);
        // More than are computed exactly.
        let many: Vec<f64> = (0..80_u32)
            .map(|i| (f64::from(i * 37 % 101) - 40.0) / 100.0 + 0.0001 * f64::from(i))
            .collect();
        near(wilcoxon(&many), 0.005_018_747_267_064_01, 1e-9);
        for (x, degrees, expected) in [
            (3.0, 1.0, 0.083_264_516_663_550_42),
            (12.5, 5.0, 0.028_543_123_326_167_485),
            (0.4, 7.0, 0.999_736_561_107_591_2),
        ] {
            near(chi_squared_above(x, degrees), expected, 1e-12);
        }
        near(chi_squared_above(200.0, 13.0) / 1.366_592_207_117_586_5e-35, 1.0, 1e-6);
        near(studentized_range(14, 0.95) / SQRT_2, 3.353_617_751_852_304_3, 1e-6);
    }

    /// The table of Demsar (2006) for a level of 5 %.
    #[test]
    fn the_quantiles_are_those_of_the_published_table() {
        let table = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164];
        for (policies, expected) in (2..).zip(table) {
            near(studentized_range(policies, 0.95) / SQRT_2, expected, 0.001);
        }
    }

    #[test]
    fn holm_corrects_from_the_smallest_on() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in corrected.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            near(*found, expected, 1e-12);
        }
    }

    #[test]
    fn a_bootstrap_depends_on_its_seed_alone() {
        let rows: Vec<Vec<f64>> =
            (0..40).map(|row| vec![f64::from(row) / 40.0, f64::from(row % 7) / 10.0]).collect();
        let strata = [(0..30).collect(), (30..40).collect::<Vec<usize>>()];
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| Bootstrap::new(&rows, &strata, 500, 7).difference(0, 1))
        };
        assert_eq!(on(1), on(3));
        let other = Bootstrap::new(&rows, &strata, 500, 8).difference(0, 1);
        assert!((other.low - on(1).low).abs() > 0.0, "another seed draws otherwise");
        near(other.value, 19.5 / 40.0 - rows.iter().map(|row| row[1]).sum::<f64>() / 40.0, 1e-12);
    }

    /// Resampled within strata, what differs between data sets only does not vary.
    #[test]
    fn strata_keep_their_sizes() {
        let rows = vec![vec![1.0], vec![1.0], vec![4.0]];
        let estimate = Bootstrap::new(&rows, &[vec![0, 1], vec![2]], 100, 1).mean(0);
        assert_eq!(estimate, Estimate { value: 2.0, low: 2.0, high: 2.0 });
    }
}
