//! Worked examples, on the executable specification and on the policy beside it.
//!
//! A state lists the tiers from the fastest, each with its oldest page first; Hint-K's pages carry
//! their values. Examples that follow from the paper come first, then our choices where it is silent.

use thermocline_core::{Access, Clients};

use crate::drive::Driven;
use crate::models::{Chain, Demote, HintK, Inclusive, Model, MqN, Outcome, Promote, Ulc};
use crate::pairs;

const PAGES: u32 = 16;

/// Pages read, and the state after the last of them.
type Step = (&'static [u32], &'static str);

#[track_caller]
fn check(mut driven: Driven, model: &mut dyn Model, sizes: &[u32], steps: &[Step]) -> Driven {
    for &(pages, state) in steps {
        let accesses: Vec<Access> = pages.iter().map(|&page| Access::read(page)).collect();
        pairs::check(&mut driven, model, sizes, &accesses);
        assert_eq!(model.state(), state, "after {pages:?}");
    }
    driven
}

#[track_caller]
fn check_demote(mode: &'static str, sizes: &[u32], steps: &[Step]) -> Driven {
    let mut model = Demote::new(&counted(sizes), 1, mode);
    let driven = Driven::new("demote", &[("mode", mode.to_owned())], PAGES, sizes);
    check(driven, &mut model, sizes, steps)
}

fn counted(sizes: &[u32]) -> Vec<usize> {
    sizes.iter().map(|&size| size as usize).collect()
}

/// A worked example.
#[test]
fn demote_over_two_tiers() {
    let steps: &[Step] = &[
        (&[1], "1 | "),
        (&[2], "1 2 | "),
        (&[3], "2 3 | 1"),
        (&[1], "3 1 | 2"),
        (&[2], "1 2 | 3"),
        (&[4], "2 4 | 3 1"),
        (&[5], "4 5 | 1 2"),
    ];
    let driven = check_demote("remove", &[2, 2], steps);
    assert_eq!(driven.hits(), [0, 2]);
    assert_eq!(driven.moves, 2 + 5, "two pages come up, five are demoted");
}

/// A worked example.
#[test]
fn demote_cascades() {
    check_demote("remove", &[1, 1, 1], &[(&[1, 2, 3], "3 | 2 | 1"), (&[1], "1 | 3 | 2")]);
}

/// A worked example.
#[test]
fn demote_leaves_copies_in_its_published_modes() {
    for mode in ["mru", "lru"] {
        check_demote(mode, &[2, 2], &[(&[1, 2, 3], "2 3 | 3 1")]);
    }
}

/// A hit leaves a hole in the FIFO of the middle tier, which the next demotion fills.
#[test]
fn a_chain_demotes_from_algorithm_to_algorithm() {
    let given = [("l2", "fifo".to_owned()), ("l3", "mru".to_owned())];
    let driven = Driven::new("chain", &given, PAGES, &[1, 2, 2]);
    let mut model = Chain::new(&[1, 2, 2], 1, &["lru", "fifo", "mru"]);
    let steps: &[Step] = &[
        (&[1, 2, 3, 4], "4 | 2 3 | 1"),
        (&[2], "2 | 3 4 | 1"),
        (&[5], "5 | 4 2 | 1 3"),
        (&[4], "4 | 2 5 | 1 3"),
        (&[6, 7], "7 | 4 6 | 1 5"),
    ];
    let driven = check(driven, &mut model, &[1, 2, 2], steps);
    assert_eq!(driven.hits(), [0, 2, 0]);
}

/// A tier below takes what the first tier refuses, and serves it.
#[test]
fn a_chain_passes_over_a_tier_that_refuses() {
    let given = [("l1", "tinylfu".to_owned()), ("l2", "lru".to_owned())];
    let mut driven = Driven::new("chain", &given, PAGES, &[1, 1]);
    let outcomes = [1, 2, 3, 1, 3, 3].map(|page| {
        let Outcome { found, served } = driven.access(Access::read(page));
        (found, served, driven.held())
    });
    let held = |first: u32, second: &[u32]| vec![vec![first], second.to_vec()];
    let expected = [
        (2, 0, held(1, &[])),
        (2, 1, held(1, &[2])),
        (2, 1, held(1, &[3])),
        (0, 0, held(1, &[3])),
        (1, 1, held(1, &[3])),
        (1, 0, held(3, &[1])),
    ];
    assert_eq!(outcomes, expected);
}

/// A worked example.
#[test]
fn promote_tosses_a_coin_in_lower_tiers() {
    let draws = [0.9, 0.1, 0.1, 0.9];
    let driven = Driven::scripted(
        &[("promote_probability", "0.5".into())],
        &draws,
        PAGES,
        &[1, 1],
        Clients::ONE,
    );
    let mut model = Promote::new(&[1, 1], 1, Some(0.5), &draws);
    let steps: &[Step] = &[(&[1], " | 1"), (&[2], "2 | 1"), (&[1], "1 | "), (&[2], "1 | 2")];
    check(driven, &mut model, &[1, 1], steps);
}

/// A worked example.
#[test]
fn hint_k_keeps_what_moves() {
    let driven = Driven::new("hint-k", &[], PAGES, &[2, 2]);
    let mut model = HintK::new(&[2, 2], 1, 3, 0.5, [2.0, 1.0], 1.0);
    let steps: &[Step] = &[
        (&[1, 2, 3], "2:0 3:0 | 1:1"),
        (&[1], "3:0 1:2.5 | 2:1"),
        (&[2], "1:2.5 2:2.5 | 3:1"),
        (&[3], "1:2.5 2:2.5 | 3:1"),
        (&[4], "2:2.5 4:0 | 3:1 1:2.25"),
    ];
    check(driven, &mut model, &[2, 2], steps);
}

/// With three tiers, pages that pass the middle one stay there too; a victim that is above is
/// dropped.
#[test]
fn demote_leaves_copies_in_every_tier_on_the_way() {
    check_demote("lru", &[1, 1, 2], &[(&[1], "1 | 1 | 1"), (&[2], "2 | 1 | 1 2")]);
    check_demote("mru", &[1, 2, 2], &[(&[1, 2], "2 | 2 1 | 2 1"), (&[3], "3 | 1 2 | 3 1")]);
}

#[test]
fn an_inclusive_tier_takes_its_victims_from_above_too() {
    let driven = Driven::new("lru-n-inclusive", &[], PAGES, &[2, 3]);
    let mut model = Inclusive::new(&[2, 3], 1);
    // The hits of page 1 on top are unknown below, so its copy there is the oldest.
    let steps: &[Step] =
        &[(&[1, 2, 1, 3], "1 3 | 1 2 3"), (&[1, 4], "3 4 | 2 3 4"), (&[2], "4 2 | 3 4 2")];
    check(driven, &mut model, &[2, 3], steps);
}

#[test]
fn a_lower_tier_under_mq_keeps_what_returns() {
    let given = [("life_time", "100".to_owned())];
    let driven = Driven::new("mq-n", &given, PAGES, &[1, 2]);
    let mut model = MqN::new(&[1, 2], 1, 8, 4, 100);
    let steps: &[Step] = &[(&[1, 2, 1], "1 | 2 1"), (&[3], "3 | 3 1"), (&[4, 5], "5 | 5 1")];
    check(driven, &mut model, &[1, 2], steps);
}

/// Full tiers let new pages pass. A page that returns earlier than a yardstick gets its tier, and
/// the yardsticks move down.
#[test]
fn ulc_places_pages_by_their_yardsticks() {
    let driven = Driven::new("ulc", &[], PAGES, &[1, 2]);
    let mut model = Ulc::new(&[1, 2], None);
    let steps: &[Step] = &[
        (&[1, 2, 3], "1 | 2 3"),
        (&[4], "1 | 2 3"),
        (&[4], "4 | 1 3"),
        (&[2, 3], "4 | 2 3"),
        (&[1], "4 | 2 3"),
        (&[1], "1 | 4 3"),
    ];
    check(driven, &mut model, &[1, 2], steps);
}
