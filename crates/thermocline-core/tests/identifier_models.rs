//! Identifiers against small executable specifications: naive, slow, and obviously right.
//!
//! The models know the papers' words only: sets of bits, windows of writes, one counter per page. They
//! hash as the identifiers do, by the plain formula of a position.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use thermocline_core::hotness::{PageHash, registry};
use thermocline_core::{Heat, PageId};

/// Return the position of a page's `index`-th hash value among `positions`.
fn position(page: u32, index: u32, positions: usize) -> usize {
    let value = u64::from(PageHash::of(PageId(page)).value(index));
    usize::try_from((value * positions as u64) >> 32).unwrap()
}

/// Return the number of positions of `bits` bits each, rounded up to whole words.
fn rounded(positions: usize, bits: usize) -> usize {
    positions.next_multiple_of(64 / bits)
}

fn positions(page: u32, hashes: u32, count: usize) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..hashes).map(|index| position(page, index, count)).collect();
    positions.sort_unstable();
    positions.dedup();
    positions
}

/// Records writes in a registered identifier; the heat of each, and the index after each.
fn run(name: &str, parameters: &[(&str, String)], writes: &[u32]) -> Vec<(bool, f64)> {
    let entry = registry::find(name).unwrap();
    let given: Vec<(String, String)> =
        parameters.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
    let mut identifier = entry.build(64, &entry.values(&given).unwrap()).unwrap();
    writes
        .iter()
        .map(|&page| {
            let heat = identifier.record(PageId(page));
            identifier.assert_invariants();
            (heat == Heat::Hot, identifier.hotness(PageId(page)))
        })
        .collect()
}

#[track_caller]
fn assert_equal(name: &str, measured: &[(bool, f64)], expected: &[(bool, f64)]) {
    for (step, (one, other)) in measured.iter().zip(expected).enumerate() {
        let is_near = (one.1 - other.1).abs() < 1e-9;
        assert!(one.0 == other.0 && is_near, "{name}, write {step}: {one:?}, model {other:?}");
    }
    assert_eq!(measured.len(), expected.len());
}

/// MBF: a vector of flags per filter.
fn mbf(
    writes: &[u32],
    filters: usize,
    bits: usize,
    hashes: u32,
    threshold: f64,
) -> Vec<(bool, f64)> {
    let period = bits / filters;
    let bits = rounded(bits, filters);
    let mut recorded = vec![vec![false; bits]; filters];
    let (mut turn, mut next) = (0, filters - 1);
    let mut results = vec![];
    for (number, &page) in (1..).zip(writes) {
        let places = positions(page, hashes, bits);
        let index = |recorded: &[Vec<bool>], next: usize| -> f64 {
            (0..filters)
                .filter(|&filter| places.iter().all(|&place| recorded[filter][place]))
                .map(|filter| {
                    let rank = ((filter + filters - next) % filters + 1) as f64;
                    let middle = (filters / 2) as f64;
                    1.0 + (rank - middle) / (filters as f64 - middle)
                })
                .sum()
        };
        let free = (0..filters)
            .map(|step| (turn + step) % filters)
            .find(|&filter| !places.iter().all(|&place| recorded[filter][place]));
        if let Some(filter) = free {
            for &place in &places {
                recorded[filter][place] = true;
            }
        }
        let is_hot = index(&recorded, next) >= threshold - 1e-9;
        turn = (turn + 1) % filters;
        if number % period == 0 {
            recorded[next].fill(false);
            next = (next + 1) % filters;
        }
        results.push((is_hot, index(&recorded, next)));
    }
    results
}

/// Sum the weights of the whole window again for every write, as WDAC defines.
fn wdac(writes: &[u32], window: usize, threshold: f64) -> Vec<(bool, f64)> {
    (1..=writes.len())
        .map(|end| {
            let page = writes[end - 1];
            let index: f64 = writes[..end]
                .iter()
                .rev()
                .take(window)
                .enumerate()
                .filter(|(_, other)| **other == page)
                .map(|(age, _)| 2.0 * (window - age) as f64 / window as f64)
                .sum();
            (index >= threshold - 1e-9, index)
        })
        .collect()
}

struct Counting {
    counters: usize,
    most: u64,
    hot: u64,
    hashes: u32,
    period: usize,
    halves_when_full: bool,
    raises_smallest: bool,
}

/// MHF: a plain array of counters.
fn mhf(writes: &[u32], how: &Counting) -> Vec<(bool, f64)> {
    let mut counters = vec![0_u64; how.counters];
    let mut results = vec![];
    for (number, &page) in writes.iter().enumerate() {
        if number > 0 && number % how.period == 0 {
            for counter in &mut counters {
                *counter /= 2;
            }
        }
        let places = positions(page, how.hashes, how.counters);
        if how.halves_when_full && places.iter().any(|&place| counters[place] == how.most) {
            for counter in &mut counters {
                *counter /= 2;
            }
        }
        let least = places.iter().map(|&place| counters[place]).min().unwrap();
        for &place in &places {
            if !how.raises_smallest || counters[place] == least {
                counters[place] = how.most.min(counters[place] + 1);
            }
        }
        let least = places.iter().map(|&place| counters[place]).min().unwrap();
        results.push((least >= how.hot, least as f64));
    }
    results
}

/// DAM: all counters halved in a sweep.
fn dam(writes: &[u32], period: usize, threshold: u64) -> Vec<(bool, f64)> {
    let mut counters: BTreeMap<u32, u64> = BTreeMap::new();
    let mut results = vec![];
    for (number, &page) in writes.iter().enumerate() {
        if number > 0 && number % period == 0 {
            for counter in counters.values_mut() {
                *counter /= 2;
            }
        }
        let counter = counters.entry(page).or_insert(0);
        *counter += 1;
        results.push((*counter >= threshold, *counter as f64));
    }
    results
}

/// Model two-level LRU by two queues, newest first.
fn two_level_lru(writes: &[u32], hot_pages: usize, candidate_pages: usize) -> Vec<(bool, f64)> {
    let (mut hot, mut candidates) = (VecDeque::new(), VecDeque::new());
    let take = |list: &mut VecDeque<u32>, page: u32| {
        let place = list.iter().position(|&other| other == page)?;
        list.remove(place)
    };
    let mut results = vec![];
    for &page in writes {
        let is_hot = take(&mut hot, page).is_some();
        if is_hot || take(&mut candidates, page).is_some() {
            hot.push_front(page);
        } else {
            candidates.push_front(page);
        }
        if hot.len() > hot_pages {
            candidates.push_front(hot.pop_back().unwrap());
        }
        candidates.truncate(candidate_pages);
        let index = if hot.contains(&page) {
            1.0
        } else if candidates.contains(&page) {
            0.5
        } else {
            0.0
        };
        results.push((is_hot, index));
    }
    results
}

/// FMS: looks back for the previous write.
fn fms(writes: &[u32], hot_writes: usize) -> Vec<(bool, f64)> {
    (0..writes.len())
        .map(|now| {
            let page = writes[now];
            let previous = writes[..now].iter().rposition(|&other| other == page);
            (previous.is_some_and(|previous| now - previous <= hot_writes), -1.0)
        })
        .collect()
}

struct Sketching {
    rows: u32,
    columns: usize,
    generations: usize,
    most: u64,
    period: usize,
    threshold: f64,
    has_recency: bool,
}

/// Count-min: a list of generations, newest first, each with its rows of counters.
fn count_min(writes: &[u32], how: &Sketching) -> Vec<(bool, f64)> {
    let empty = || vec![vec![0_u64; how.columns]; how.rows as usize];
    let mut generations: VecDeque<Vec<Vec<u64>>> = (0..how.generations).map(|_| empty()).collect();
    let mut results = vec![];
    for (number, &page) in writes.iter().enumerate() {
        if number > 0 && number % how.period == 0 {
            generations.pop_back();
            generations.push_front(empty());
        }
        let places: Vec<usize> =
            (0..how.rows).map(|row| position(page, row, how.columns)).collect();
        let least = |rows: &[Vec<u64>]| {
            rows.iter().zip(&places).map(|(row, &place)| row[place]).min().unwrap()
        };
        let before = least(&generations[0]);
        for (row, &place) in generations[0].iter_mut().zip(&places) {
            if row[place] == before {
                row[place] = how.most.min(before + 1);
            }
        }
        let estimate: f64 = generations
            .iter()
            .enumerate()
            .map(|(age, rows)| {
                let rank = (how.generations - age) as f64;
                let middle = (rank - 0.5) / how.generations as f64;
                let weight = if how.has_recency { 2.0 * middle } else { 1.0 };
                least(rows) as f64 * weight
            })
            .sum();
        results.push((estimate >= how.threshold - 1e-9, estimate));
    }
    results
}

/// Skewed pages.
fn writes() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(prop_oneof![2 => 0_u32..4, 3 => 0_u32..64], 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn mbf_is_its_model(
        writes in writes(), filters in 1_usize..=16, periods in 1_usize..40, hashes in 1_u32..5,
        strictness in 0.05_f64..0.99, has_shortcut in any::<bool>(),
        layout in prop::sample::select(vec!["packed", "separate"]),
    ) {
        let bits = filters * periods;
        let middle = filters / 2;
        let most: f64 = (1..=filters)
            .map(|rank| 1.0 + (rank as f64 - middle as f64) / (filters - middle) as f64)
            .sum();
        let threshold = (most * strictness * 4.0).round() / 4.0 + 0.125;
        prop_assume!(threshold <= most);
        let parameters = [
            ("filters", filters.to_string()),
            ("filter_bits", bits.to_string()),
            ("hashes", hashes.to_string()),
            ("threshold", threshold.to_string()),
            ("shortcut", has_shortcut.to_string()),
            ("layout", layout.to_owned()),
        ];
        let expected = mbf(&writes, filters, bits, hashes, threshold);
        assert_equal("mbf", &run("mbf", &parameters, &writes), &expected);
    }

    #[test]
    fn wdac_is_its_model(writes in writes(), window in 1_usize..80, share in 0.01_f64..1.0) {
        let threshold = (share * (window as f64 + 1.0) * 8.0).ceil() / 8.0;
        prop_assume!(threshold <= window as f64 + 1.0);
        let parameters =
            [("window_writes", window.to_string()), ("threshold", threshold.to_string())];
        assert_equal("wdac", &run("wdac", &parameters, &writes), &wdac(&writes, window, threshold));
    }

    #[test]
    fn mhf_is_its_model(
        writes in writes(), counters in 1_usize..200, counter_bits in 1_usize..=8,
        hot_bits in 1_usize..=8, hashes in 1_u32..5, period in 1_usize..90,
        halves_when_full in any::<bool>(), raises_smallest in any::<bool>(),
    ) {
        prop_assume!(hot_bits <= counter_bits);
        let how = Counting {
            counters: rounded(counters, counter_bits),
            most: (1 << counter_bits) - 1,
            hot: 1 << (counter_bits - hot_bits),
            hashes,
            period,
            halves_when_full,
            raises_smallest,
        };
        let parameters = [
            ("counters", counters.to_string()),
            ("counter_bits", counter_bits.to_string()),
            ("hot_bits", hot_bits.to_string()),
            ("hashes", hashes.to_string()),
            ("decay_writes", period.to_string()),
            ("overflow", if halves_when_full { "halve" } else { "freeze" }.into()),
            ("update", if raises_smallest { "smallest" } else { "all" }.into()),
        ];
        assert_equal("mhf", &run("mhf", &parameters, &writes), &mhf(&writes, &how));
    }

    #[test]
    fn dam_is_its_model(writes in writes(), period in 1_usize..90, threshold in 1_u64..9) {
        let parameters = [("decay_writes", period.to_string()), ("threshold", threshold.to_string())];
        assert_equal("dam", &run("dam", &parameters, &writes), &dam(&writes, period, threshold));
    }

    #[test]
    fn two_level_lru_is_its_model(writes in writes(), hot in 1_usize..9, candidates in 1_usize..9) {
        let parameters =
            [("hot_pages", hot.to_string()), ("candidate_pages", candidates.to_string())];
        let expected = two_level_lru(&writes, hot, candidates);
        assert_equal("two-level-lru", &run("two-level-lru", &parameters, &writes), &expected);
    }

    #[test]
    fn fms_is_its_model(writes in writes(), hot_writes in 1_usize..60) {
        let parameters = [("hot_writes", hot_writes.to_string())];
        assert_equal("fms", &run("fms", &parameters, &writes), &fms(&writes, hot_writes));
    }

    #[test]
    fn count_min_is_its_model(
        writes in writes(), rows in 1_u32..4, columns in 1_usize..80, generations in 1_usize..7,
        period in 1_usize..30, counter_bits in 2_usize..6, has_recency in any::<bool>(),
    ) {
        let threshold = 2.5;
        let how = Sketching {
            rows,
            columns: rounded(columns, generations * counter_bits),
            generations,
            most: (1 << counter_bits) - 1,
            period,
            threshold,
            has_recency,
        };
        let parameters = [
            ("rows", rows.to_string()),
            ("columns", columns.to_string()),
            ("generations", generations.to_string()),
            ("counter_bits", counter_bits.to_string()),
            ("window_writes", (period * generations).to_string()),
            ("threshold", threshold.to_string()),
            ("recency", has_recency.to_string()),
        ];
        assert_equal("count-min", &run("count-min", &parameters, &writes), &count_min(&writes, &how));
    }
}

/// With enough bits that none collide, MBF decides as exact sets would.
#[test]
fn a_roomy_bloom_filter_decides_as_exact_sets_do() {
    let writes: Vec<u32> = (0..4000_u32)
        .map(|step| (step.wrapping_mul(2_654_435_761) >> 16) % 61 * (step % 7) % 64)
        .collect();
    let exact = exact_mbf(&writes, 4, 100, 4.0);
    let parameters = [("filter_bits", (1 << 14).to_string()), ("decay_writes", "100".into())];
    let measured: Vec<bool> = run("mbf", &parameters, &writes).iter().map(|one| one.0).collect();
    assert_eq!(measured, exact);
    assert!(exact.contains(&true) && exact.contains(&false));
}

/// MBF with sets of pages in the place of bloom filters.
fn exact_mbf(writes: &[u32], filters: usize, period: usize, threshold: f64) -> Vec<bool> {
    let mut recorded: Vec<Vec<u32>> = vec![vec![]; filters];
    let (mut turn, mut next) = (0, filters - 1);
    let mut hot = vec![];
    for (number, page) in (1..).zip(writes) {
        let free = (0..filters).map(|step| (turn + step) % filters);
        if let Some(filter) = free.into_iter().find(|&filter| !recorded[filter].contains(page)) {
            recorded[filter].push(*page);
        }
        let index: f64 = (0..filters)
            .filter(|&filter| recorded[filter].contains(page))
            .map(|filter| 0.5 * ((filter + filters - next) % filters + 1) as f64)
            .sum();
        hot.push(index >= threshold);
        turn = (turn + 1) % filters;
        if number % period == 0 {
            recorded[next].clear();
            next = (next + 1) % filters;
        }
    }
    hot
}
