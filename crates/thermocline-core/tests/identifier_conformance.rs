//! Rules that every registered identifier must keep, independent of its decisions.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod extremes;

use proptest::prelude::*;
use thermocline_core::config::ConfigError;
use thermocline_core::hotness::registry::{self, IdentifierEntry};
use thermocline_core::{BoxedIdentifier, Heat, PageId};

const PAGES: u32 = 24;

/// Small tables and short periods, so that a few hundred writes reach every state.
const SMALL: &[(&str, &[(&str, &str)])] = &[
    ("mbf", &[("filter_bits", "128")]),
    ("mhf", &[("counters", "64"), ("decay_writes", "100")]),
    ("dam", &[("decay_writes", "40")]),
    ("wdac", &[("window_writes", "50")]),
    ("two-level-lru", &[("hot_pages", "3"), ("candidate_pages", "5")]),
    ("fms", &[("hot_writes", "20")]),
    ("count-min", &[("columns", "32"), ("window_writes", "60")]),
];

fn build(entry: &IdentifierEntry, parameters: &[(&str, &str)]) -> BoxedIdentifier {
    let given: Vec<(String, String)> =
        parameters.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    entry.build(PAGES, &entry.values(&given).unwrap()).unwrap()
}

/// Return every identifier with small and with default parameters.
fn all() -> impl Iterator<Item = (&'static IdentifierEntry, BoxedIdentifier)> {
    let small = SMALL.iter().map(|(name, parameters)| {
        let entry = registry::find(name).unwrap();
        (entry, build(entry, parameters))
    });
    small.chain(registry::entries().iter().map(|entry| (entry, build(entry, &[]))))
}

/// Skewed pages, so that some become hot.
fn writes() -> impl Strategy<Value = Vec<PageId>> {
    let page = prop_oneof![3 => 0_u32..3, 1 => 0..PAGES];
    prop::collection::vec(page.prop_map(PageId), 0..400)
}

fn standing(identifier: &BoxedIdentifier) -> Vec<(u64, Heat)> {
    (0..PAGES)
        .map(PageId)
        .map(|page| (identifier.hotness(page).to_bits(), identifier.heat(page)))
        .collect()
}

#[test]
fn every_identifier_is_tried_small() {
    for entry in registry::entries() {
        assert!(SMALL.iter().any(|(name, _)| *name == entry.name), "{} is not", entry.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn invariants_hold_and_runs_repeat(writes in writes()) {
        for ((entry, mut one), (_, mut other)) in all().zip(all()) {
            let fresh = standing(&one);
            prop_assert!(fresh.iter().all(|(_, heat)| *heat == Heat::Cold), "{}", entry.name);
            let memory_bits = one.memory_bits();
            let mut heats = vec![];
            for &page in &writes {
                heats.push(one.record(page));
                one.assert_invariants();
                let before = standing(&one);
                prop_assert_eq!(before, standing(&one), "{}: a look changes nothing", entry.name);
            }
            let mut together = vec![];
            other.record_all(&writes, &mut together);
            prop_assert_eq!(&heats, &together, "{}: one by one or together", entry.name);
            prop_assert_eq!(standing(&one), standing(&other), "{}", entry.name);
            prop_assert_eq!(one.memory_bits(), memory_bits, "{}: nothing grows", entry.name);

            one.reset();
            one.assert_invariants();
            prop_assert_eq!(standing(&one), fresh, "{}: a reset forgets all", entry.name);
            let mut again = vec![];
            one.record_all(&writes, &mut again);
            prop_assert_eq!(heats, again, "{}: a reset one is as new", entry.name);
        }
    }

    #[test]
    fn decays_only_forget(writes in writes()) {
        for (entry, mut identifier) in all() {
            identifier.record_all(&writes, &mut vec![]);
            let before: Vec<f64> = (0..PAGES).map(|page| identifier.hotness(PageId(page))).collect();
            identifier.decay();
            identifier.assert_invariants();
            for (page, before) in (0..PAGES).zip(before) {
                let after = identifier.hotness(PageId(page));
                prop_assert!(after <= before, "{}: {after} after {before}", entry.name);
            }
            if identifier.decay_writes().is_some() {
                for _ in 0..64 {
                    identifier.decay();
                }
                let is_zero = (0..PAGES).all(|page| identifier.hotness(PageId(page)).abs() < 1e-12);
                prop_assert!(is_zero, "{}: many decays forget all", entry.name);
            }
        }
    }

    /// A page that is written all the time is hot in the end (but for the moment after a counter that
    /// was full is forgotten), and one written once long ago is not.
    #[test]
    fn the_busy_are_hot_and_the_forgotten_are_cold(page in 0..PAGES, other in 0..PAGES) {
        prop_assume!(page != other);
        for (entry, mut identifier) in all() {
            identifier.record(PageId(other));
            let mut heats = vec![];
            identifier.record_all(&vec![PageId(page); 9000], &mut heats);
            let cold = heats[8900..].iter().filter(|&&heat| heat == Heat::Cold).count();
            prop_assert!(cold <= 5, "{}: cold {cold} times of 100", entry.name);
            if entry.name != "two-level-lru" {
                prop_assert_eq!(identifier.heat(PageId(other)), Heat::Cold, "{}", entry.name);
            }
        }
    }
}

/// Every parameter at its least and its greatest value, one at a time: built, or refused with words.
#[test]
fn extremes_of_every_parameter_are_harmless() {
    let writes: Vec<PageId> =
        (0..600_u32).map(|step| PageId((step.wrapping_mul(2_654_435_761) >> 20) % PAGES)).collect();
    for entry in registry::entries() {
        for parameter in entry.parameters {
            assert!(!parameter.summary.is_empty() && !parameter.source.is_empty());
            let text = parameter.default.to_string();
            assert_eq!(parameter.parse(&text).unwrap(), parameter.default, "{text}");
            for text in extremes::of(parameter) {
                let given = [(parameter.name.to_owned(), text)];
                match entry.build(PAGES, &entry.values(&given).unwrap()) {
                    Ok(mut identifier) => {
                        identifier.record_all(&writes, &mut vec![]);
                        identifier.assert_invariants();
                    }
                    Err(error) => assert!(
                        matches!(error, ConfigError::Contradiction { .. }),
                        "{} with {given:?}: {error}",
                        entry.name
                    ),
                }
            }
        }
    }
}

#[test]
fn unknown_names_are_refused_with_those_that_there_are() {
    let error = registry::find("mbv").unwrap_err().to_string();
    assert_eq!(error, "unknown identifier `mbv`; did you mean `mbf`?");
    let error = registry::find("nothing-like-it").unwrap_err().to_string();
    let known: Vec<&str> = registry::entries().iter().map(|entry| entry.name).collect();
    assert!(error.contains("`nothing-like-it`") && error.contains(&known.join(", ")), "{error}");
    let given = [("no_such_thing".to_owned(), "1".to_owned())];
    let error = registry::find("fms").unwrap().values(&given).unwrap_err().to_string();
    assert!(error.contains("hot_writes"), "{error}");
}
