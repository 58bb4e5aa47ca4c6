//! Worked examples of the identifiers, step by step.
//!
//! Bloom filters and counters are made so large that hash values do not collide; that the pages used
//! here do not is asserted.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use thermocline_core::hotness::registry;
use thermocline_core::{BoxedIdentifier, Heat, PageId};

const PAGES: u32 = 64;
/// Number of bits or counters so large that no two hash values of the pages meet.
const ROOMY: (&str, &str) = ("filter_bits", "16777216");

fn identifier(name: &str, parameters: &[(&str, &str)]) -> BoxedIdentifier {
    let given: Vec<(String, String)> =
        parameters.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let entry = registry::find(name).unwrap();
    entry.build(PAGES, &entry.values(&given).unwrap()).unwrap()
}

fn error(name: &str, parameters: &[(&str, &str)]) -> String {
    let given: Vec<(String, String)> =
        parameters.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let entry = registry::find(name).unwrap();
    match entry.values(&given).and_then(|values| entry.build(PAGES, &values)) {
        Ok(_) => panic!("{name} with {parameters:?} is built"),
        Err(error) => error.to_string(),
    }
}

/// Records pages; returns whether each was hot, and the index of each after its write.
fn run(identifier: &mut BoxedIdentifier, pages: &[u32]) -> (Vec<bool>, Vec<f64>) {
    pages
        .iter()
        .map(|&page| {
            let is_hot = identifier.record(PageId(page)) == Heat::Hot;
            identifier.assert_invariants();
            (is_hot, identifier.hotness(PageId(page)))
        })
        .unzip()
}

#[track_caller]
fn assert_close(measured: &[f64], expected: &[f64]) {
    assert_eq!(measured.len(), expected.len());
    for (measured_one, expected_one) in measured.iter().zip(expected) {
        assert!((measured_one - expected_one).abs() < 1e-9, "{measured:?} is not {expected:?}");
    }
}

const FALSE: bool = false;
const TRUE: bool = true;

#[test]
fn mbf_1_one_page_fills_one_filter_after_the_other() {
    let mut mbf = identifier("mbf", &[ROOMY, ("decay_writes", "100")]);
    let (hot, index) = run(&mut mbf, &[7; 5]);
    assert_eq!(hot, [FALSE, FALSE, TRUE, TRUE, TRUE]);
    assert_close(&index, &[1.0, 2.5, 4.5, 5.0, 5.0]);
}

#[test]
fn mbf_2_a_filter_that_has_the_page_is_skipped() {
    let mut mbf = identifier("mbf", &[ROOMY, ("decay_writes", "100")]);
    let (hot, index) = run(&mut mbf, &[1, 2, 1, 1, 1]);
    assert_eq!(hot, [FALSE, FALSE, FALSE, FALSE, TRUE]);
    assert_close(&[index[0], index[2], index[3], index[4]], &[1.0, 3.0, 3.5, 5.0]);
    assert_close(&[index[1]], &[1.5]);
}

#[test]
fn mbf_3_resets_follow_the_decision() {
    let mut mbf = identifier("mbf", &[ROOMY, ("decay_writes", "2")]);
    let (hot, index) = run(&mut mbf, &[7; 5]);
    assert_eq!(hot, [FALSE, FALSE, FALSE, TRUE, TRUE]);
    assert_close(&index, &[1.0, 1.5, 3.0, 3.0, 5.0]);
}

/// The two youngest filters and one more make a page hot.
#[test]
fn mbf_4_hot_is_in_both_youngest_filters_and_an_older_one() {
    // Before the first reset the weights of the filters are 1, 1.5, 2 and 0.5. Page 0 is written
    // when it is the turn of a filter that is to have it, other pages when it is not.
    for set in 0..16_u32 {
        let mut mbf = identifier("mbf", &[ROOMY, ("decay_writes", "100")]);
        for filter in 0..4 {
            let page = if set >> filter & 1 == 1 { 0 } else { filter + 1 };
            mbf.record(PageId(page));
        }
        let weights = [1.0, 1.5, 2.0, 0.5];
        let sum: f64 = (0..4).filter(|filter| set >> filter & 1 == 1).map(|f| weights[f]).sum();
        assert_close(&[mbf.hotness(PageId(0))], &[sum]);
        let is_hot = set & 0b0110 == 0b0110 && set & 0b1001 != 0;
        assert_eq!(mbf.heat(PageId(0)) == Heat::Hot, is_hot, "{set:04b}");
    }
}

/// Return the weight of each filter, by rank: a page in that filter alone.
fn weights(filters: u32) -> Vec<f64> {
    let count = filters.to_string();
    let parameters = [ROOMY, ("decay_writes", "1000"), ("filters", &count), ("threshold", "1")];
    let mut mbf = identifier("mbf", &parameters);
    for page in 0..filters {
        mbf.record(PageId(page));
    }
    // The last filter is the first to be erased; so it has rank 1, and the first has rank 2.
    let mut weights: Vec<f64> = (0..filters).map(|page| mbf.hotness(PageId(page))).collect();
    weights.rotate_right(1);
    weights
}

#[test]
fn mbf_5_weights_of_other_numbers_of_filters() {
    assert_close(&weights(4), &[0.5, 1.0, 1.5, 2.0]);
    assert_close(&weights(8), &[0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]);
    assert_close(&weights(5), &[2.0 / 3.0, 1.0, 4.0 / 3.0, 5.0 / 3.0, 2.0]);
    assert_close(&weights(1), &[2.0]);
    assert_eq!(weights(16).len(), 16);
}

#[test]
fn mbf_refuses_what_cannot_be() {
    assert!(error("mbf", &[("filters", "0")]).contains("a whole number from 1 to 16"));
    assert!(error("mbf", &[("filters", "3")]).contains("take a multiple of 3"));
    assert!(error("mbf", &[("threshold", "5.5")]).contains("sum to 5;"));
    assert!(error("mbf", &[("threshold", "0")]).contains("a number above 0"));
    assert!(error("mbf", &[("filters", "2")]).contains("sum to 3;"));
    assert!(error("mbf", &[("decay_writes", "0")]).contains("or auto"));
    identifier("mbf", &[("threshold", "5")]);
    identifier("mbf", &[("filters", "3"), ("decay_writes", "512")]);
}

#[test]
fn mbf_takes_one_kibibyte() {
    assert_eq!(identifier("mbf", &[]).memory_bits(), 8 * 1024);
    assert_eq!(identifier("mbf", &[("filter_bits", "4096")]).memory_bits(), 8 * 2048);
    assert_eq!(identifier("mhf", &[]).memory_bits(), 8 * 2048);
    assert_eq!(identifier("count-min", &[]).memory_bits(), 8 * 2048);
}

/// Return the index of each of `pages` after each of `writes` from the `from`-th on.
fn wdac_figure(window: &str, writes: &[u32], from: usize, pages: &[u32]) -> Vec<Vec<f64>> {
    let mut wdac = identifier("wdac", &[("window_writes", window), ("threshold", "1")]);
    let mut rows = vec![];
    for (step, &page) in writes.iter().enumerate() {
        wdac.record(PageId(page));
        wdac.assert_invariants();
        if step >= from {
            rows.push(pages.iter().map(|&page| wdac.hotness(PageId(page))).collect());
        }
    }
    rows
}

#[test]
fn wdac_1_figure_7() {
    let writes = [11, 30, 5, 11, 24, 11, 30, 3, 11, 5, 10, 24, 3];
    let rows = wdac_figure("10", &writes, 9, &[11, 30, 5, 24, 3, 10]);
    assert_close(&rows[0], &[4.0, 1.8, 2.6, 1.0, 1.6, 0.0]);
    assert_close(&rows[1], &[3.2, 1.4, 2.2, 0.8, 1.4, 2.0]);
    assert_close(&rows[2], &[2.6, 1.0, 1.8, 2.6, 1.2, 1.8]);
    assert_close(&rows[3], &[2.0, 0.8, 1.4, 2.2, 3.0, 1.6]);
}

#[test]
fn wdac_2_and_3_small_windows() {
    let mut wdac = identifier("wdac", &[("window_writes", "4")]);
    let mut index = vec![];
    let mut hot = vec![];
    for page in [0, 1, 0, 0, 2] {
        hot.push(wdac.record(PageId(page)) == Heat::Hot);
        index.push(wdac.hotness(PageId(0)));
    }
    assert_close(&index, &[2.0, 1.5, 3.0, 4.0, 2.5]);
    assert_eq!(hot, [FALSE, FALSE, FALSE, TRUE, FALSE]);
    let mut wdac = identifier("wdac", &[("window_writes", "5")]);
    let (hot, index) = run(&mut wdac, &[9; 3]);
    assert_close(&index, &[2.0, 3.6, 4.8]);
    assert_eq!(hot, [FALSE, FALSE, TRUE]);
}

#[test]
fn wdac_refuses_what_cannot_be() {
    assert!(error("wdac", &[("window_writes", "0")]).contains("a whole number from 1 to 1048576"));
    assert!(error("wdac", &[("window_writes", "2")]).contains("sum to 3;"));
    identifier("wdac", &[("window_writes", "3")]);
}

const ROOMY_COUNTERS: (&str, &str) = ("counters", "16777216");

#[test]
fn mhf_1_counters_freeze() {
    let mut mhf = identifier("mhf", &[ROOMY_COUNTERS]);
    let (hot, count) = run(&mut mhf, &[7; 16]);
    assert_eq!(hot[..4], [FALSE, FALSE, FALSE, TRUE]);
    assert!(hot[4..].iter().all(|&is_hot| is_hot));
    assert_close(&count[14..], &[15.0, 15.0]);
}

#[test]
fn mhf_2_counters_are_halved_before_the_write_after_a_period() {
    let mut mhf = identifier("mhf", &[ROOMY_COUNTERS, ("decay_writes", "4")]);
    let (hot, count) = run(&mut mhf, &[7; 6]);
    assert_close(&count, &[1.0, 2.0, 3.0, 4.0, 3.0, 4.0]);
    assert_eq!(hot, [FALSE, FALSE, FALSE, TRUE, FALSE, TRUE]);
}

#[test]
fn mhf_3_a_full_counter_halves_all() {
    let mut mhf = identifier("mhf", &[ROOMY_COUNTERS, ("overflow", "halve")]);
    mhf.record(PageId(1));
    let (hot, count) = run(&mut mhf, &[7; 16]);
    assert_close(&count[14..], &[15.0, 8.0]);
    assert!(hot[15]);
    assert_close(&[mhf.hotness(PageId(1))], &[0.0]);
}

#[test]
fn mhf_refuses_what_cannot_be() {
    assert!(error("mhf", &[("counter_bits", "9")]).contains("a whole number from 1 to 8"));
    assert!(error("mhf", &[("hot_bits", "5")]).contains("from 1 to 4"));
    assert!(error("mhf", &[("overflow", "wrap")]).contains("freeze or halve"));
    assert!(error("mhf", &[("bits", "4")]).contains("counter_bits"));
}

#[test]
fn dam_1_counts_are_halved_after_every_period() {
    let mut dam = identifier("dam", &[("decay_writes", "4")]);
    let (hot, count) = run(&mut dam, &[7; 6]);
    assert_close(&count, &[1.0, 2.0, 3.0, 4.0, 3.0, 4.0]);
    assert_eq!(hot, [FALSE, FALSE, FALSE, TRUE, FALSE, TRUE]);
    let mut forgotten = identifier("dam", &[("decay_writes", "1")]);
    run(&mut forgotten, &[7, 1, 1, 1]);
    assert_close(&[forgotten.hotness(PageId(7))], &[0.0]);
}

#[test]
fn two_level_lru_promotes_demotes_and_forgets() {
    let parameters = [("hot_pages", "1"), ("candidate_pages", "2")];
    let mut lists = identifier("two-level-lru", &parameters);
    // 1 becomes a candidate, moves up, and is hot only then. 2 pushes it back to the candidates,
    // where 3 and 4 are newer in the end.
    let (hot, _) = run(&mut lists, &[1, 1, 1, 2, 2, 2, 1, 1]);
    assert_eq!(hot, [FALSE, FALSE, TRUE, FALSE, FALSE, TRUE, FALSE, TRUE]);
    let standing = |lists: &BoxedIdentifier, pages: &[u32]| {
        pages.iter().map(|&page| lists.hotness(PageId(page))).collect::<Vec<f64>>()
    };
    assert_close(&standing(&lists, &[1, 2, 3]), &[1.0, 0.5, 0.0]);
    run(&mut lists, &[3, 4]);
    assert_close(&standing(&lists, &[1, 2, 3, 4]), &[1.0, 0.0, 0.5, 0.5]);
}

#[test]
fn fms_is_hot_when_the_previous_write_is_near() {
    let mut fms = identifier("fms", &[("hot_writes", "2")]);
    let (hot, _) = run(&mut fms, &[1, 2, 1, 3, 4, 1]);
    assert_eq!(hot, [FALSE, FALSE, TRUE, FALSE, FALSE, FALSE]);
    assert_eq!(fms.heat(PageId(1)), Heat::Hot);
    assert!(fms.hotness(PageId(9)).is_infinite());
}

#[test]
fn count_min_counts_a_window_by_generations() {
    let parameters = [("columns", "1048576"), ("generations", "2"), ("window_writes", "4")];
    let mut sketch = identifier("count-min", &parameters);
    // Weights 0.5 (older half) and 1.5: after four writes 2 * 0.5 + 2 * 1.5, and after every second
    // write the older half is forgotten.
    let (_, estimate) = run(&mut sketch, &[7; 5]);
    assert_close(&estimate, &[1.5, 3.0, 2.5, 4.0, 2.5]);
    let mut plain = identifier(
        "count-min",
        &[parameters[0], parameters[1], parameters[2], ("recency", "false")],
    );
    let (_, estimate) = run(&mut plain, &[7; 5]);
    assert_close(&estimate, &[1.0, 2.0, 3.0, 4.0, 3.0]);
}

#[test]
fn count_min_refuses_what_cannot_be() {
    assert!(error("count-min", &[("generations", "3")]).contains("take a multiple of 3"));
    let wide = [("generations", "16"), ("counter_bits", "8")];
    assert!(error("count-min", &wide).contains("1 to 8 generations"));
    assert!(
        error("count-min", &[("counter_bits", "1"), ("threshold", "9")]).contains("come to 2;")
    );
}
