//! Character of a trace's workload: its skew, burstiness, sequentiality and steadiness.
//!
//! * Popularity: a Zipf distribution over the pages in the order of their accesses, fitted by maximum
//!   likelihood (Clauset, Shalizi, Newman, *Power-law distributions in empirical data*, SIAM Review 2009,
//!   section 3, for ranks). Its error is the greatest distance between the two cumulative distributions.
//! * Burstiness: the index of dispersion of counts (Cox, Lewis, *The Statistical Analysis of Series of
//!   Events*, 1966): variance of the requests per second, divided by their mean. Poisson arrivals have 1.
//! * Drift: how much less the hottest tenth of one sixteenth of the accesses is asked for in the next one.
//! * Stationarity: the test of Mann (1945) and Kendall for a trend of the share of first accesses over the
//!   second half of sixteen parts; its p-value is that of the normal approximation with ties.

use serde::Serialize;
use thermocline_core::{Access, Op};

use crate::compiled::CompiledTrace;
use crate::run_detector::RunDetector;

/// Parts of a trace that are compared with each other.
const PARTS: usize = 16;
/// Accesses that a part needs to say anything.
const LEAST_PART: usize = 64;
/// Seconds of a window in which requests are counted.
const WINDOW_NS: u64 = 1_000_000_000;
/// Windows that a dispersion needs.
const LEAST_WINDOWS: u64 = 30;
/// Pages from which on a run is long: 64 KiB of pages of 4 KiB.
const LONG_RUN_PAGES: u32 = 16;
/// Ranks that are summed one by one; those behind are summed in groups.
const SINGLE_RANKS: u64 = 1024;
/// Ratio of each group of ranks' width to that of the group before.
const GROUP_RATIO: f64 = 1.01;
/// The fitted skew lies between 0 and this.
const SKEW_MAX: f64 = 4.0;

/// Character of a trace's workload. Shares are in \[0, 1\].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Character {
    /// Exponent of the Zipf distribution that fits best, from 0 (uniform) to 4.
    pub zipf_skew: f64,
    /// Greatest distance between the cumulative distributions of the trace and of the fit, from 0 to 1.
    pub zipf_error: f64,
    /// Reads of a page whose access before was a write / reads.
    pub read_after_write_share: f64,
    /// Writes of a page whose access before was a write / writes.
    pub write_after_write_share: f64,
    /// Accesses in sequential runs of 16 pages and more, of reads and writes together / accesses.
    pub long_run_share: f64,
    /// Mean length of a sequential run, in pages.
    pub mean_run_pages: f64,
    /// Variance of the requests per second / their mean; `None` if the trace is shorter than 30 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispersion: Option<f64>,
    /// Share of the accesses that the hottest tenth of the pages of one sixteenth of the trace loses in the
    /// next sixteenth, in the mean; 0 if what is hot stays hot. `None` if the trace is too short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub popularity_drift: Option<f64>,
    /// Distinct pages in a hundredth of the accesses, in the mean, / all pages.
    pub working_set_1_percent: f64,
    /// Distinct pages in a tenth of the accesses, in the mean, / all pages.
    pub working_set_10_percent: f64,
    /// Probability that a stationary workload shows as strong a trend of new pages as the second half of
    /// this trace does; below 0.05 the trace is likely to grow or to shrink. `None` if the trace is
    /// too short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stationarity_p: Option<f64>,
}

impl Character {
    /// Looks at all accesses, in a few passes.
    pub fn of(trace: &CompiledTrace) -> Self {
        let (zipf_skew, zipf_error) = zipf_fit(&mut accesses_of_pages(trace));
        let order = Order::of(trace);
        let runs = Runs::of(trace);
        Self {
            zipf_skew,
            zipf_error,
            read_after_write_share: share(order.reads_after_writes, order.reads),
            write_after_write_share: share(order.writes_after_writes, order.writes),
            long_run_share: share(runs.long_accesses, trace.len() as u64),
            mean_run_pages: trace.len() as f64 / runs.runs as f64,
            dispersion: dispersion(trace),
            popularity_drift: popularity_drift(trace),
            working_set_1_percent: working_set(trace, 100),
            working_set_10_percent: working_set(trace, 10),
            stationarity_p: stationarity_p(trace),
        }
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

pub(crate) fn accesses_of_pages(trace: &CompiledTrace) -> Vec<u32> {
    let mut accesses = vec![0_u32; trace.footprint_pages() as usize];
    for Access { page, .. } in trace.accesses() {
        accesses[page.index()] = accesses[page.index()].saturating_add(1);
    }
    accesses
}

/// Ranks that stand together: the greatest of them, how many they are, and the logarithm of the middle.
struct Group {
    last: u64,
    ranks: f64,
    log_rank: f64,
}

/// Return all ranks from 1 to `ranks`: the first ones alone, the others in groups.
fn groups(ranks: u64) -> Vec<Group> {
    let mut groups = vec![];
    let mut first = 1;
    while first <= ranks {
        let last = if first <= SINGLE_RANKS {
            first
        } else {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a positive number below the number of pages"
            )]
            let last = (first as f64 * GROUP_RATIO) as u64;
            last.min(ranks)
        };
        let middle = 0.5 * (first as f64 + last as f64);
        groups.push(Group { last, ranks: (last - first + 1) as f64, log_rank: libm::log(middle) });
        first = last + 1;
    }
    groups
}

/// Fit a Zipf distribution to how often pages are accessed, which are sorted. Return its exponent, and the
/// greatest distance between the two cumulative distributions.
fn zipf_fit(accesses: &mut [u32]) -> (f64, f64) {
    accesses.sort_unstable_by(|one, other| other.cmp(one));
    let total: u64 = accesses.iter().map(|&count| u64::from(count)).sum();
    let groups = groups(accesses.len() as u64);
    let mut in_groups = Vec::with_capacity(groups.len());
    let mut first = 0;
    for group in &groups {
        let last = usize::try_from(group.last).expect("a rank of a page");
        let sum: u64 = accesses[first..last].iter().map(|&count| u64::from(count)).sum();
        in_groups.push(sum as f64 / total as f64);
        first = last;
    }
    let observed: f64 =
        groups.iter().zip(&in_groups).map(|(group, share)| share * group.log_rank).sum();
    // The likelihood is greatest where the mean logarithm of the rank is that of the trace; it falls as
    // the exponent grows.
    let (mut low, mut high) = (0.0, SKEW_MAX);
    for _ in 0..60 {
        let skew = 0.5 * (low + high);
        if mean_log_rank(&groups, skew) > observed { low = skew } else { high = skew }
    }
    let skew = 0.5 * (low + high);
    let weights: Vec<f64> = weights(&groups, skew).collect();
    let whole: f64 = weights.iter().sum();
    let (mut error, mut ours, mut theirs) = (0.0_f64, 0.0, 0.0);
    for (share, weight) in in_groups.iter().zip(&weights) {
        ours += share;
        theirs += weight / whole;
        error = error.max((ours - theirs).abs());
    }
    (skew, error)
}

fn weights(groups: &[Group], skew: f64) -> impl Iterator<Item = f64> {
    groups.iter().map(move |group| group.ranks * libm::exp(-skew * group.log_rank))
}

fn mean_log_rank(groups: &[Group], skew: f64) -> f64 {
    let (mut sum, mut whole) = (0.0, 0.0);
    for (group, weight) in groups.iter().zip(weights(groups, skew)) {
        sum += weight * group.log_rank;
        whole += weight;
    }
    sum / whole
}

/// Accesses that follow a write of their page.
#[derive(Default)]
struct Order {
    reads: u64,
    writes: u64,
    reads_after_writes: u64,
    writes_after_writes: u64,
}

impl Order {
    fn of(trace: &CompiledTrace) -> Self {
        let mut was_written = vec![false; trace.footprint_pages() as usize];
        let mut order = Self::default();
        for Access { page, op, .. } in trace.accesses() {
            let was_written = &mut was_written[page.index()];
            let is_write = op == Op::Write;
            let (all, after) = if is_write {
                (&mut order.writes, &mut order.writes_after_writes)
            } else {
                (&mut order.reads, &mut order.reads_after_writes)
            };
            *all += 1;
            *after += u64::from(*was_written);
            *was_written = is_write;
        }
        order
    }
}

/// The sequential runs of a trace.
struct Runs {
    runs: u64,
    /// Accesses of runs that become long, those before included.
    long_accesses: u64,
}

impl Runs {
    fn of(trace: &CompiledTrace) -> Self {
        let numbers = trace.page_numbers();
        let mut detector = RunDetector::default();
        let mut found = Self { runs: 0, long_accesses: 0 };
        for Access { page, .. } in trace.accesses() {
            // A run may read and write: the disk moves on all the same.
            let pages = detector.note(Op::Read, 0, numbers[page.index()], 1).pages + 1;
            found.runs += u64::from(pages == 1);
            found.long_accesses += match pages {
                LONG_RUN_PAGES => u64::from(LONG_RUN_PAGES),
                pages => u64::from(pages > LONG_RUN_PAGES),
            };
        }
        found
    }
}

/// Return the variance of the requests in a second, divided by their mean.
fn dispersion(trace: &CompiledTrace) -> Option<f64> {
    if !trace.is_timed() {
        return None;
    }
    let (first, last) = (trace.summary().first_at.0, trace.summary().last_at.0);
    // The last window is cut short.
    let windows = (last - first) / WINDOW_NS;
    if windows < LEAST_WINDOWS {
        return None;
    }
    // Most windows of a long trace may be empty: only the others are kept.
    let mut times: Vec<u64> =
        trace.requests().map(|request| (request.at.0 - first) / WINDOW_NS).collect();
    times.sort_unstable();
    let (mut sum, mut squares) = (0.0, 0.0);
    for window in times.chunk_by(|one, other| one == other).filter(|window| window[0] < windows) {
        let count = window.len() as f64;
        sum += count;
        squares += count * count;
    }
    let mean = sum / windows as f64;
    (mean > 0.0).then(|| (squares / windows as f64 - mean * mean) / mean)
}

/// Return the accesses of each of sixteen parts, if they are long enough.
fn parts(trace: &CompiledTrace) -> Option<usize> {
    let part = trace.len() / PARTS;
    (part >= LEAST_PART).then_some(part)
}

/// Return the share of its accesses that the hottest tenth of a part loses in the next one.
fn popularity_drift(trace: &CompiledTrace) -> Option<f64> {
    let part = parts(trace)?;
    let mut counts = vec![0_u32; trace.footprint_pages() as usize];
    let mut is_hot = vec![false; counts.len()];
    let (mut before, mut lost): (Option<f64>, f64) = (None, 0.0);
    for number in 0..PARTS {
        let mut pages = vec![];
        let mut still_hot = 0_u64;
        for index in number * part..(number + 1) * part {
            let page = trace.access(index).page;
            still_hot += u64::from(is_hot[page.index()]);
            let count = &mut counts[page.index()];
            *count += 1;
            if *count == 1 {
                pages.push(page);
            }
        }
        if let Some(before) = before {
            lost += (1.0 - still_hot as f64 / before).max(0.0);
        }
        is_hot.fill(false);
        // Ties by id, which is the order of first appearance.
        pages.sort_unstable_by_key(|page| (core::cmp::Reverse(counts[page.index()]), page.0));
        let mut hot_accesses = 0_u64;
        for page in &pages[..pages.len().div_ceil(10)] {
            is_hot[page.index()] = true;
            hot_accesses += u64::from(counts[page.index()]);
        }
        before = Some(hot_accesses as f64);
        for page in pages {
            counts[page.index()] = 0;
        }
    }
    Some(lost / (PARTS - 1) as f64)
}

/// Distinct pages of a window of one in `windows` of the accesses, in the mean, as a share of all pages.
fn working_set(trace: &CompiledTrace, windows: usize) -> f64 {
    let window = trace.len().div_ceil(windows);
    let mut last_window = vec![usize::MAX; trace.footprint_pages() as usize];
    let (mut distinct, mut full) = (0_u64, 0_u64);
    // A last window that is cut short would have fewer pages.
    let whole = (trace.len() / window).max(1);
    for (index, Access { page, .. }) in trace.accesses().take(whole * window).enumerate() {
        let number = index / window;
        full = number as u64 + 1;
        if std::mem::replace(&mut last_window[page.index()], number) != number {
            distinct += 1;
        }
    }
    distinct as f64 / full as f64 / f64::from(trace.footprint_pages())
}

/// Return the p-value of a trend of first accesses over the second half of the parts.
fn stationarity_p(trace: &CompiledTrace) -> Option<f64> {
    let part = parts(trace)?;
    let mut seen = vec![false; trace.footprint_pages() as usize];
    let mut firsts = [0_u64; PARTS];
    for (index, Access { page, .. }) in trace.accesses().take(part * PARTS).enumerate() {
        firsts[index / part] += u64::from(!std::mem::replace(&mut seen[page.index()], true));
    }
    // The first half fills the cache that any workload begins without.
    Some(trend_p(&firsts[PARTS / 2..]))
}

/// Return the two-sided p-value of Mann and Kendall's test for a trend.
fn trend_p(values: &[u64]) -> f64 {
    let mut score = 0.0_f64;
    for (index, one) in values.iter().enumerate() {
        for other in &values[index + 1..] {
            score += match other.cmp(one) {
                std::cmp::Ordering::Less => -1.0,
                std::cmp::Ordering::Equal => 0.0,
                std::cmp::Ordering::Greater => 1.0,
            };
        }
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let terms = |count: f64| count * (count - 1.0) * (2.0 * count + 5.0);
    let ties: f64 =
        sorted.chunk_by(|one, other| one == other).map(|tie| terms(tie.len() as f64)).sum();
    let variance = (terms(values.len() as f64) - ties) / 18.0;
    if variance <= 0.0 || score == 0.0 {
        return 1.0;
    }
    // One step less, as scores are whole numbers.
    let deviation = (score.abs() - 1.0) / libm::sqrt(variance);
    libm::erfc(deviation / std::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::io::Cursor;

    use thermocline_core::random::SplitMix64;

    use super::*;
    use crate::generate::{Generator, Options, Pattern};
    use crate::{PageSize, ReadOptions, Reader};

    fn of_lines(lines: String) -> Character {
        let mut reader =
            Reader::from_read("t.spc", Cursor::new(lines.into_bytes()), &ReadOptions::default())
                .unwrap();
        Character::of(&CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap())
    }

    fn generated(pattern: Pattern, requests: u64, pages: u64) -> Character {
        let options = Options { pattern, requests, pages, ..Options::default() };
        let mut generator = Generator::new(options).unwrap();
        Character::of(&CompiledTrace::compile(&mut generator, PageSize::DEFAULT).unwrap())
    }

    #[test]
    fn the_fit_finds_the_exponent_that_the_counts_were_made_with() {
        for skew in [0.3, 0.8, 1.0, 1.4] {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "positive numbers below 1e8"
            )]
            let mut counts: Vec<u32> = (1..=20_000_u32)
                .map(|rank| (1e8 * libm::pow(f64::from(rank), -skew)).round() as u32)
                .collect();
            let (found, error) = zipf_fit(&mut counts);
            assert!((found - skew).abs() < 0.002 && error < 0.002, "{skew}: {found} {error}");
        }
        let (skew, error) = zipf_fit(&mut [5; 1000]);
        assert!(skew < 1e-9 && error < 1e-9, "{skew} {error}");
        let (_, error) =
            zipf_fit(&mut (0..1000).map(|rank| if rank < 500 { 9 } else { 1 }).collect::<Vec<_>>());
        assert!(error > 0.1, "two levels are no Zipf distribution: {error}");
    }

    #[test]
    fn grouped_ranks_sum_up_to_what_single_ones_do() {
        for skew in [0.0, 0.5, 1.0, 2.0] {
            let exact: f64 = (1..=300_000_u32).map(|rank| libm::pow(f64::from(rank), -skew)).sum();
            let grouped: f64 = weights(&groups(300_000), skew).sum();
            assert!((grouped / exact - 1.0).abs() < 1e-4, "{skew}: {grouped} {exact}");
        }
    }

    #[test]
    fn what_is_read_and_written_again_is_counted_by_hand() {
        let ops = ["0 r", "0 w", "0 r", "0 r", "8 w", "8 w", "0 w", "8 r"];
        let mut lines = String::new();
        for (second, op) in ops.iter().enumerate() {
            let (lba, op) = op.split_once(' ').unwrap();
            writeln!(lines, "0,{},4096,{op},{second}", lba.parse::<u32>().unwrap() * 8).unwrap();
        }
        let found = of_lines(lines);
        assert!((found.read_after_write_share - 2.0 / 4.0).abs() < 1e-12, "{found:?}");
        assert!((found.write_after_write_share - 1.0 / 4.0).abs() < 1e-12, "{found:?}");
        assert_eq!(
            (found.dispersion, found.popularity_drift, found.stationarity_p),
            (None, None, None)
        );
    }

    #[test]
    fn runs_are_long_or_not() {
        let sequential = generated(Pattern::Sequential, 10_000, 20_000);
        assert!(
            sequential.long_run_share > 0.99 && sequential.mean_run_pages > 1000.0,
            "{sequential:?}"
        );
        let uniform = generated(Pattern::Uniform, 10_000, 20_000);
        assert!(uniform.long_run_share < 0.01 && uniform.mean_run_pages < 1.1, "{uniform:?}");
    }

    #[test]
    fn arrivals_by_chance_have_a_dispersion_of_one_and_bursts_have_more() {
        let mut random = SplitMix64::new(3);
        let mut lines = |per_burst: u32| {
            let mut lines = String::new();
            let mut microseconds = 0_u64;
            for _ in 0..40_000 / per_burst {
                // Exponential gaps of 10 ms per request in the mean.
                let uniform = (f64::from(random.below(1 << 30)) + 1.0) / f64::from(1 << 30);
                let gap = -libm::log(uniform) * 10_000.0 * f64::from(per_burst);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "some minutes, and not negative"
                )]
                let gap = gap as u64;
                microseconds += gap;
                for _ in 0..per_burst {
                    let seconds = microseconds as f64 / 1e6;
                    writeln!(lines, "0,{},4096,r,{seconds:.6}", 8 * random.below(1000)).unwrap();
                }
            }
            lines
        };
        let [single, bursts] = [1, 20].map(|per_burst| of_lines(lines(per_burst)));
        let [single, bursts] = [single, bursts].map(|found| found.dispersion.unwrap());
        assert!((0.8..1.2).contains(&single), "{single}");
        assert!((16.0..24.0).contains(&bursts), "bursts of 20 have 20: {bursts}");
    }

    #[test]
    fn what_is_hot_stays_or_moves() {
        let steady = generated(Pattern::Zipf { alpha: 0.9 }, 100_000, 5000);
        assert!(steady.popularity_drift.unwrap() < 0.15, "{steady:?}");
        let mut lines = String::new();
        let mut random = SplitMix64::new(4);
        for request in 0..64_000_u64 {
            // The hot pages are others after each sixteenth.
            let page = request / 4000 * 1000 + u64::from(random.below(100)).pow(2) / 100;
            writeln!(lines, "0,{},4096,r,{request}", 8 * page).unwrap();
        }
        let moving = of_lines(lines);
        assert!(moving.popularity_drift.unwrap() > 0.99, "{moving:?}");
    }

    #[test]
    fn trends_are_found_as_the_exact_test_finds_them() {
        // Of eight values in order, 28 pairs rise: z = 27 / sqrt(65.33).
        let rising: Vec<u64> = (0..8).collect();
        assert!((trend_p(&rising) - 0.000_837).abs() < 1e-5, "{}", trend_p(&rising));
        assert!((trend_p(&[5; 8]) - 1.0).abs() < 1e-12);
        assert!(trend_p(&[3, 1, 4, 1, 5, 2, 6, 5]) > 0.05);
        let uniform = generated(Pattern::Uniform, 200_000, 1000);
        assert!(uniform.stationarity_p.unwrap() > 0.05, "{uniform:?}");
    }

    #[test]
    fn working_sets_are_shares_of_all_pages() {
        let looping = generated(Pattern::Loop, 10_000, 100);
        assert!((looping.working_set_1_percent - 1.0).abs() < 1e-12, "{looping:?}");
        let sequential = generated(Pattern::Sequential, 10_000, 10_000);
        assert!((sequential.working_set_10_percent - 0.1).abs() < 1e-3, "{sequential:?}");
    }
}
