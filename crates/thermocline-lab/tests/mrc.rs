//! Miss-ratio curves against replays of every size, and samples against definitions written out.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Cursor;

use thermocline_core::random::SplitMix64;
use thermocline_core::{PageId, registry};
use thermocline_lab::mrc::{
    CurveOptions, Method, Miniature, MissRatios, Rate, Sample, StackPass, curve_configurations,
    default_sizes_pages, miss_ratios,
};
use thermocline_lab::spec::HierarchySpec;
use thermocline_lab::{
    Configuration, LabError, RunOptions, Summary, TierSize, TierSummary, Watch, find_policy, run,
};
use thermocline_trace::generate::{Generator, Options, Pattern};
use thermocline_trace::{Choice, CompiledTrace, PageSize, ReadOptions, Reader, Sampling};

fn trace(requests: u64, pages: u64, alpha: f64, seed: u64) -> CompiledTrace {
    let pattern = Pattern::Zipf { alpha };
    let options = Options { pattern, requests, pages, seed, ..Options::default() };
    CompiledTrace::compile(&mut Generator::new(options).unwrap(), PageSize::DEFAULT).unwrap()
}

fn sizes(trace: &CompiledTrace, policy: &str, ram: &[&str], flash: &[&str]) -> Vec<Configuration> {
    let [ram, flash] = [ram, flash]
        .map(|sizes| sizes.iter().map(|size| size.parse().unwrap()).collect::<Vec<TierSize>>());
    let policy = find_policy(policy).unwrap();
    curve_configurations(trace, policy, &HierarchySpec::default(), [&ram, &flash]).unwrap()
}

fn find(
    trace: &CompiledTrace,
    configurations: Vec<Configuration>,
    sample: Sample,
    rate: Rate,
) -> MissRatios {
    let options = CurveOptions { sample, rate, is_checked: true };
    miss_ratios(trace, &[configurations], options, &Watch::default(), || ()).unwrap()
}

const SEEDED: Rate = Rate::Auto { seed: 1 };

/// Count the misses of LRU with `capacity` pages, its pages in a list; accesses that are not taken
/// are ignored.
fn misses_of_a_list(trace: &CompiledTrace, capacity: f64, taken: impl Fn(PageId) -> bool) -> u64 {
    let (mut list, mut misses): (Vec<PageId>, u64) = (vec![], 0);
    for page in trace.accesses().map(|access| access.page).filter(|&page| taken(page)) {
        let place = list.iter().position(|&other| other == page);
        misses += u64::from(place.is_none_or(|place| place as f64 >= capacity));
        list.retain(|&other| other != page);
        list.insert(0, page);
    }
    misses
}

#[test]
fn the_exact_curve_is_lru_at_every_size() {
    let trace = trace(6000, 500, 0.8, 3);
    let every: Vec<String> = (1..=520).step_by(7).map(|pages| format!("{pages}p")).collect();
    let every: Vec<&str> = every.iter().map(String::as_str).collect();
    let found = find(&trace, sizes(&trace, "lru", &every, &[]), Sample::All, SEEDED);
    let curve = &found.curves[0];
    assert_eq!(curve.method, Method::Exact);
    assert_eq!(curve.points.len(), every.len());
    assert_eq!(curve.max_absolute_error, Some(0.0), "{curve:?}");
    for point in curve.points.iter().step_by(9) {
        let misses = misses_of_a_list(&trace, point.capacity_pages[0] as f64, |_| true);
        assert!((point.miss_ratio - misses as f64 / 6000.0).abs() < 1e-12);
    }
}

#[test]
fn a_fixed_rate_is_lru_on_the_sample_at_scaled_sizes() {
    let trace = trace(20_000, 2000, 0.7, 5);
    for choice in [Choice::Even, Choice::Hash] {
        let is_sampled = trace.sampled_pages(Sampling::new(0.25, choice, 9).unwrap());
        let sample = Sample::Rate { rate: 0.25, choice, seed: 9 };
        let pass = StackPass::over(&trace, sample, &Watch::default()).unwrap();
        let expected_accesses = 20_000.0 * 0.25;
        for capacity in [1_u32, 3, 4, 40, 401, 1000, 5000] {
            let scaled = f64::from(capacity) * 0.25;
            let misses = misses_of_a_list(&trace, scaled, |page| is_sampled[page.index()]);
            let expected = (misses as f64 / expected_accesses).min(1.0);
            let found = pass.miss_ratio(capacity);
            assert!((found - expected).abs() < 1e-9, "{capacity}: {found} {expected}");
        }
    }
}

/// Section 3.2 of the paper, word for word: a set of pages with their hashes, a threshold that falls,
/// counts that are multiplied by the ratio of the rates.
fn fixed_size_by_the_paper(trace: &CompiledTrace, pages: usize, seed: u64) -> (Vec<f64>, f64) {
    let rate_of = |threshold: u64| threshold as f64 / u64::MAX as f64;
    let mut threshold = u64::MAX;
    let mut set: BTreeSet<(u64, PageId)> = BTreeSet::new();
    let mut list: Vec<PageId> = vec![];
    let footprint = trace.footprint_pages() as usize;
    let numbers = trace.sampling_numbers(Choice::Hash);
    let mut counts = vec![0.0; footprint + 1];
    for page in trace.accesses().map(|access| access.page) {
        let hash = Choice::Hash.key(numbers[page.index()], seed);
        if hash >= threshold {
            continue;
        }
        if set.insert((hash, page)) && set.len() > pages {
            let (greatest, leaving) = set.pop_last().unwrap();
            for count in &mut counts {
                *count *= rate_of(greatest) / rate_of(threshold);
            }
            threshold = greatest;
            list.retain(|&other| other != leaving);
            if leaving == page {
                continue;
            }
        }
        let place = list.iter().position(|&other| other == page);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number of pages"
        )]
        let scaled = place.map(|place| (place as f64 / rate_of(threshold)) as usize);
        counts[scaled.map_or(footprint, |distance| distance.min(footprint - 1))] += 1.0;
        list.retain(|&other| other != page);
        list.insert(0, page);
    }
    (counts, rate_of(threshold))
}

#[test]
fn a_fixed_size_is_what_the_paper_says() {
    let trace = trace(20_000, 2000, 0.7, 6);
    let by_hash = |pages| Sample::Size { pages, choice: Choice::Hash, seed: 2 };
    let pass = StackPass::over(&trace, by_hash(150), &Watch::default()).unwrap();
    let (counts, rate) = fixed_size_by_the_paper(&trace, 150, 2);
    assert!((pass.rate() - rate).abs() < 1e-15 && rate < 0.2, "{rate}");
    for capacity in [1_u32, 10, 50, 200, 900, 1500, 4000] {
        let from = (capacity as usize).min(counts.len() - 1);
        let misses: f64 = counts[from..].iter().sum();
        let expected = (misses / (20_000.0 * rate)).min(1.0);
        let found = pass.miss_ratio(capacity);
        assert!((found - expected).abs() < 1e-9, "{capacity}: {found} {expected}");
    }
    let all = StackPass::over(&trace, by_hash(5000), &Watch::default()).unwrap();
    let exact = StackPass::over(&trace, Sample::All, &Watch::default()).unwrap();
    assert_eq!(all.miss_ratio(100).to_bits(), exact.miss_ratio(100).to_bits());
}

/// Return the mean error of a curve over four samples, with the truth replayed once.
fn mean_error(
    trace: &CompiledTrace,
    sizes: &[Configuration],
    of: impl Fn(u64) -> (Sample, Rate),
) -> f64 {
    let points = |sample, rate| {
        let options = CurveOptions { sample, rate, is_checked: false };
        let watch = Watch::default();
        let found = miss_ratios(trace, &[sizes.to_vec()], options, &watch, || ()).unwrap();
        let points = found.curves[0].points.clone();
        for point in &points {
            let sum = point.miss_ratio + point.hit_ratios.iter().sum::<f64>();
            assert!((sum - 1.0).abs() < 1e-9, "{point:?}");
        }
        points
    };
    let truth = points(Sample::All, Rate::Fixed { rate: 1.0, seed: 1 });
    let errors = (1..=4_u64).flat_map(|seed| {
        let (sample, rate) = of(seed);
        let found = points(sample, rate);
        assert_eq!(found.len(), truth.len());
        found.into_iter().zip(&truth).map(|(found, truth)| {
            assert_eq!(found.capacity_pages, truth.capacity_pages);
            (found.miss_ratio - truth.miss_ratio).abs()
        })
    });
    errors.sum::<f64>() / (4 * truth.len()) as f64
}

#[test]
fn samples_are_near_the_truth_and_larger_ones_nearer() {
    let trace = trace(200_000, 20_000, 0.8, 4);
    let sizes = sizes(&trace, "lru", &["2%", "10%", "40%"], &[]);
    let errors = [Choice::Even, Choice::Hash].map(|choice| {
        let by_rate = [0.05, 0.4].map(|rate| {
            mean_error(&trace, &sizes, |seed| (Sample::Rate { rate, choice, seed }, SEEDED))
        });
        let by_size = [1000, 8000].map(|pages| {
            mean_error(&trace, &sizes, |seed| (Sample::Size { pages, choice, seed }, SEEDED))
        });
        [by_rate, by_size]
    });
    for [few, many] in errors.iter().flatten() {
        assert!(*many > 0.0 && many < few && *few < 0.05 && *many < 0.015, "{errors:?}");
    }
    let [even, hash] = errors.map(|[by_rate, by_size]| by_rate[0] + by_size[0]);
    assert!(even < hash * 0.7, "an even sample errs less: {even} {hash}");
}

#[test]
fn miniatures_are_near_the_truth_for_one_tier_and_for_two() {
    let trace = trace(200_000, 20_000, 0.8, 4);
    for (policy, flash) in
        [("arc", &[][..]), ("lru-exclusive", &["1x", "4x"]), ("face", &["10%", "20%"])]
    {
        let configurations = sizes(&trace, policy, &["2%", "10%"], flash);
        assert_eq!(configurations.len(), 2 * flash.len().max(1));
        let error = mean_error(&trace, &configurations, |seed| {
            (Sample::All, Rate::Fixed { rate: 0.1, seed })
        });
        assert!(error > 0.0 && error < 0.02, "{policy}: {error}");
    }
}

/// Scans of whole regions between skewed accesses, each access on its own or in runs of some pages, as
/// several programs leave them together; page numbers are spread over the disk. `times` makes all of it
/// larger, in the same time.
fn scans_and_random_accesses(seed: u64, times: u32) -> CompiledTrace {
    let mut random = SplitMix64::new(seed);
    let mut lines = String::new();
    let (mut scan, mut accesses) = (0_u64, 0_u32);
    let mut read = |page: u64| {
        let seconds = f64::from(accesses) / f64::from(100 * times);
        writeln!(lines, "0,{},4096,r,{seconds:.6}", 8 * page).unwrap();
        accesses += 1;
    };
    for _ in 0..4000 * times {
        let run = 8 + random.below(64);
        for _ in 0..run {
            read(u64::from(times) * 1_000_000 + scan % u64::from(times * 60_000));
            scan += 1;
        }
        for _ in 0..run {
            // The least of three numbers: some pages are much hotter than others.
            let page = [0; 3].map(|_| random.below(times * 30_000)).into_iter().min().unwrap();
            read(u64::from(page) * 37 % u64::from(times * 30_000 + 11) * 3);
        }
    }
    let mut reader =
        Reader::from_read("scans.spc", Cursor::new(lines.into_bytes()), &ReadOptions::default())
            .unwrap();
    CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap()
}

#[test]
fn miniatures_see_neighbours_where_the_policy_does() {
    // Queues of 64 levels need more blocks to fill their levels.
    let [small, large] = [1, 4].map(|times| scans_and_random_accesses(5, times));
    let looking = registry::entries().filter(|entry| entry.capabilities.looks_at_neighbours);
    let mut names = vec![];
    for entry in looking {
        let trace = if entry.capabilities.needs_clock { &large } else { &small };
        let configurations = sizes(trace, &entry.name, &["2%", "5%"], &["10%", "30%"]);
        let mean = mean_error(trace, &configurations, |seed| {
            (Sample::All, Rate::Fixed { rate: 0.25, seed })
        });
        names.push((entry.name.clone(), mean));
    }
    assert!(names.len() >= 10 && names.iter().all(|(_, mean)| *mean < 0.025), "{names:?}");
}

#[test]
fn a_rate_of_one_is_the_simulation_and_auto_rates_follow_the_sizes() {
    let trace = trace(100_000, 20_000, 0.8, 8);
    let whole = Rate::Fixed { rate: 1.0, seed: 1 };
    let found = find(&trace, sizes(&trace, "arc", &["1%", "50%"], &[]), Sample::All, whole);
    assert_eq!(found.curves[0].max_absolute_error, Some(0.0));
    assert_eq!(found.curves[0].method, Method::Simulation);
    let sizes = sizes(&trace, "arc", &["1000p", "10p", "4000p"], &[]);
    let found = find(&trace, sizes, Sample::All, SEEDED);
    let rates: Vec<f64> = found.curves[0].points.iter().map(|point| point.rate).collect();
    assert_eq!(rates[0].to_bits(), 1.0_f64.to_bits(), "10 pages are not scaled down");
    assert!(rates[1] >= rates[2] && rates[2] < 1.0, "{rates:?}");
    let pages: Vec<u64> =
        found.curves[0].points.iter().map(|point| point.capacity_pages[0]).collect();
    assert_eq!(pages, [10, 1000, 4000], "sizes ascend");
}

#[test]
fn re_use_is_told_as_it_is() {
    // Pages in order 0 to 9, again and again: 9 others between two uses, 10 accesses, 10 x 100 us.
    let options = Options {
        pattern: Pattern::Loop,
        requests: 100,
        pages: 10,
        interarrival: thermocline_core::Nanos(100_000),
        ..Options::default()
    };
    let trace =
        CompiledTrace::compile(&mut Generator::new(options).unwrap(), PageSize::DEFAULT).unwrap();
    let reuse = StackPass::over(&trace, Sample::All, &Watch::default()).unwrap().into_reuse();
    assert_eq!((reuse.accesses, reuse.first_uses), (100, 10));
    let distance = &reuse.distance_pages;
    assert_eq!((distance.count, distance.p10, distance.p99, distance.max), (90, 9, 9, 9));
    assert_eq!(distance.buckets.len(), 1);
    assert_eq!((distance.buckets[0].from, distance.buckets[0].count), (8, 90));
    assert!((reuse.inter_reference_accesses.mean - 10.0).abs() < 1e-12);
    let times = reuse.inter_reference_ns.unwrap();
    assert!((times.mean - 1_000_000.0).abs() < 1e-6, "{times:?}");
}

#[test]
fn percentiles_are_those_of_a_sorted_list() {
    let trace = trace(60_000, 9000, 0.7, 11);
    let reuse = StackPass::over(&trace, Sample::All, &Watch::default()).unwrap().into_reuse();
    let (mut list, mut distances): (Vec<PageId>, Vec<u64>) = (vec![], vec![]);
    let (mut latest, mut gaps) = (std::collections::HashMap::new(), vec![]);
    for (now, access) in (0_u64..).zip(trace.accesses()) {
        if let Some(place) = list.iter().position(|&other| other == access.page) {
            distances.push(place as u64);
            list.remove(place);
        }
        list.insert(0, access.page);
        gaps.extend(latest.insert(access.page, now).map(|before| now - before));
    }
    for (found, mut all) in
        [(&reuse.distance_pages, distances), (&reuse.inter_reference_accesses, gaps)]
    {
        all.sort_unstable();
        let count = all.len();
        assert_eq!(found.count, count as u64);
        let mean = all.iter().sum::<u64>() as f64 / count as f64;
        assert!((found.mean - mean).abs() < 1e-6 * mean, "{} {mean}", found.mean);
        for (percent, value) in
            [(10, found.p10), (50, found.p50), (90, found.p90), (99, found.p99), (100, found.max)]
        {
            let expected = all[(count * percent).div_ceil(100) - 1];
            assert!(
                value.abs_diff(expected) <= expected / 500 + 1,
                "{percent} %: {value} {expected}"
            );
        }
        let buckets: u64 = found.buckets.iter().map(|bucket| bucket.count).sum();
        assert_eq!(buckets, count as u64);
    }
    let times = reuse.inter_reference_ns.unwrap();
    assert!(times.p50 > 1_000_000 && times.max >= times.p99 && times.p99 > times.p50, "{times:?}");
}

#[test]
fn what_cannot_be_is_refused() {
    let trace = trace(1000, 300, 0.8, 1);
    for rate in [0.0, -1.0, 1.5, f64::NAN] {
        let sample = Sample::Rate { rate, choice: Choice::Even, seed: 1 };
        let refused = StackPass::over(&trace, sample, &Watch::default());
        assert!(matches!(refused, Err(LabError::BadRate { .. })), "{rate}");
    }
    let tiny = CurveOptions {
        sample: Sample::All,
        rate: Rate::Fixed { rate: 0.01, seed: 1 },
        is_checked: false,
    };
    let configurations = sizes(&trace, "arc", &["10p"], &[]);
    let error = miss_ratios(&trace, &[configurations], tiny, &Watch::default(), || ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("`ram`") && error.contains("at least 0.1"), "{error}");
    let defaults = default_sizes_pages(&trace, 1);
    assert!(defaults.is_sorted_by(|one, other| one < other) && defaults[0] >= 1);
    assert_eq!(defaults.last(), Some(&trace.footprint_pages()));
}

/// Everything that reports show of a run can be shown of a sample: figures, verdict and costs.
#[test]
fn a_summary_of_a_sample_stands_for_that_of_the_whole() {
    let trace = thermocline_lab::bundled_trace().unwrap();
    for (policy, points) in [
        ("lru", 1.0),
        ("arc", 1.0),
        ("s3-fifo", 1.0),
        ("hat", 1.0),
        ("lru-exclusive", 1.0),
        ("face-gsc", 2.0),
        ("tac", 2.0),
    ] {
        let sizes = sizes(&trace, policy, &["5%", "20%"], &["1x", "2x"]);
        let rate = Rate::Fixed { rate: 0.25, seed: 1 };
        let groups = Miniature::for_each(&trace, &sizes, rate, &Watch::default()).unwrap();
        for configuration in &sizes {
            let whole = run(&trace, configuration, RunOptions::default(), &Watch::default());
            let whole = whole.unwrap();
            let sampled = groups[0].0.summary(&trace, configuration, &Watch::default()).unwrap();
            let [one, other] = [&sampled, &whole].map(|run| run.aggregate_hit_ratio() * 100.0);
            assert!((one - other).abs() < points, "{policy}: {one} for {other}");
            let time = sampled.io_time_ms / whole.io_time_ms;
            assert!((0.9..1.1).contains(&time), "{policy}: {time} of the I/O time");
            let accesses = |run: &Summary| {
                let ops = |tier: &TierSummary| [tier.read_hits, tier.write_hits];
                run.tiers
                    .iter()
                    .map(ops)
                    .fold([0; 2], |sum, ops| [sum[0] + ops[0], sum[1] + ops[1]])
            };
            assert_eq!(accesses(&sampled), accesses(&whole), "{policy}: all accesses count");
            let pages = |run: &Summary| -> Vec<Option<u64>> {
                run.tiers.iter().map(|tier| tier.capacity_pages).collect()
            };
            assert_eq!(pages(&sampled), pages(&whole));
        }
        // A sample of all pages is the whole.
        let all = Rate::Fixed { rate: 1.0, seed: 1 };
        let groups = Miniature::for_each(&trace, &sizes[..1], all, &Watch::default()).unwrap();
        let sampled = groups[0].0.summary(&trace, &sizes[0], &Watch::default()).unwrap();
        let whole = run(&trace, &sizes[0], RunOptions::default(), &Watch::default()).unwrap();
        assert_eq!(sampled.counts, whole.counts, "{policy}");
        assert_eq!(sampled.io_time_ms.to_bits(), whole.io_time_ms.to_bits());
    }
}
