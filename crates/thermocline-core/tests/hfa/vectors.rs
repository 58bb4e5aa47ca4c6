//! Worked examples, step by step: queues as written there, and the policy beside them.

use thermocline_core::Access;
use thermocline_core::random::{Draws, SplitMix64};

use crate::model::{Hfa, Kind, Settings};
use crate::pair::Pair;

/// Tables as large as need be, and a partition that stays.
fn fixed(kind: Kind) -> Settings {
    Settings { t_out_share: 1.0, is_dynamic: false, ..Settings::new(kind) }
}

/// Reads pages; after each, the state must be as given, or anything if it is `*`.
#[track_caller]
fn check(settings: &Settings, capacities: &[u32], seed: u64, steps: &[(u32, &str)]) -> Hfa {
    let mut pair = Pair::new(settings, capacities, 32, seed);
    for (number, &(page, expected)) in (1..).zip(steps) {
        pair.access(Access::read(page));
        pair.assert_same_contents();
        let state = pair.model.state();
        assert!(expected == "*" || state == expected, "step {number}: {state:?}, {expected:?}");
    }
    pair.model
}

/// Return a seed whose first draws fall below one half, or not, as given.
fn seed_of(are_below: &[bool]) -> u64 {
    let fits = |seed: &u64| {
        let mut random = SplitMix64::new(*seed);
        are_below.iter().all(|&is_below| (random.unit() < 0.5) == is_below)
    };
    (0..1 << 16).find(fits).unwrap()
}

#[test]
fn d_hfa_with_new_pages_at_the_head() {
    let steps = [
        (1, " | 1;  | "),
        (2, " | 2 1;  | "),
        (3, " | 3 2 1;  | "),
        (4, " | 4 3 2 1;  | "),
        (1, "1 | 4 3 2;  | "),
        (5, "1 | 5 4 3;  | 2"),
        (2, "1 | 2 5 4;  | 3"),
        (6, "1 | 6 2 5;  | 4 3"),
        (3, "1 | 3 6 2;  | 5 4"),
    ];
    let model = check(&fixed(Kind::D), &[4, 4], 0, &steps);
    assert_eq!(model.t_out(0), [2, 3, 4, 5].map(|page| (page, 0, 1)));
    assert_eq!(model.t_out(1), [2, 3].map(|page| (page, 0, 1)));
}

#[test]
fn d_hfa_1() {
    let settings = Settings { q2_by_hotness: true, ..fixed(Kind::D) };
    let steps = [
        (1, " | 1;  | "),
        (2, " | 2 1;  | "),
        (3, " | 3 2 1;  | "),
        (4, " | 4 3 2 1;  | "),
        (1, "1 | 4 3 2;  | "),
        (5, "1 | 5 4 3;  | 2"),
        (2, "1 | 2 5 4;  | 3"),
        (6, "1 | 2 6 5;  | 4 3"),
        (3, "1 | 3 2 6;  | 5 4"),
    ];
    let model = check(&settings, &[4, 4], 0, &steps);
    assert_eq!(model.t_out(0), [2, 3, 4, 5].map(|page| (page, 0, 1)));
    assert_eq!(model.t_out(1), [2, 3].map(|page| (page, 0, 1)));
}

/// Frequencies and hotness by Eq. 2 and 3.
#[test]
#[expect(clippy::float_cmp, reason = "sums of powers of two, and the same quotients")]
fn hfa_2() {
    let at = |k: u64, now: u64| {
        let mut model = Hfa::new(Settings { k, ..fixed(Kind::D) }, &[1, 1], 1, || 0.0);
        for time in 1..=now {
            model.access(0, 0, false);
            match time {
                10 | 20 | 1010 => model.record(1, 9),
                _ => {}
            }
        }
        model
    };
    let model = at(6, 1500);
    assert_eq!(model.t_out(1), [(9, 0, 2), (9, 1, 1)]);
    assert_eq!(model.f(1, 9), 2.0);
    assert_eq!(model.h(2.0, 0, 1), 2.0 / 6000.0);
    assert_eq!(model.h(2.0, 3, 600), 2.0 / 6000.0 + 3.0 / 600.0);
    assert_eq!(at(6, 6500).f(1, 9), 0.03125);
    assert_eq!(at(0, 1500).f(1, 9), 0.0);
}

/// A table of two records; the policy's own table is tested beside it.
#[test]
fn hfa_3() {
    let settings = Settings { t: 10, t_out_share: 2.0 / 256.0, ..fixed(Kind::D) };
    let mut model = Hfa::new(settings, &[1, 1], 1, || 0.0);
    for time in 1..=70 {
        model.access(0, 0, false);
        match time {
            1 | 2 => model.record(1, 1),
            3 => model.record(1, 2),
            10 => {
                model.record(1, 3);
                assert_eq!(model.t_out(1), [(1, 0, 2), (3, 1, 1)]);
            }
            70 => model.record(1, 4),
            _ => {}
        }
    }
    assert_eq!(model.t_out(1), [(4, 7, 1)]);
}

#[test]
fn hfa_4() {
    let settings = Settings { t: 10, samples: 1, is_dynamic: true, ..fixed(Kind::D) };
    let mut steps: Vec<(u32, &str)> = [1, 2, 1, 2].into_iter().map(|page| (page, "*")).collect();
    steps.extend((11..25).map(|page| (page, "*")));
    let before = "2 1 | 25 24;  | 23 22 21 20";
    let after = "2 | 1 26 25;  | 24 23 22 21";
    steps.extend([(25, before), (26, after)]);
    let model = check(&settings, &[4, 4], 0, &steps);
    assert_eq!(model.c1(0), 1);
}

#[test]
fn hfa_5() {
    let settings = Settings { promote_probability: Some(1.0), ..fixed(Kind::P) };
    let steps = [
        (1, " | 1;  | "),
        (2, " | 2 1;  | "),
        (3, " | 3 2 1;  | "),
        (1, "1 | 3 2;  | "),
        (2, "2 | 1 3;  | "),
        (4, "2 | 4 1;  | "),
        (4, "4 | 2 1;  | "),
    ];
    check(&settings, &[3, 3], 0, &steps);
}

#[test]
fn p_hfa_1() {
    let settings = Settings { promote_probability: Some(0.5), ..fixed(Kind::P) };
    let seed = seed_of(&[false, true, true, true]);
    let steps = [
        (1, " | ;  | 1"),
        (2, " | 2;  | 1"),
        (1, " | 1 2;  | "),
        (2, "2 | 1;  | "),
        (3, "2 | 3;  | "),
    ];
    check(&settings, &[2, 2], seed, &steps);
}

#[test]
fn h_hfa_1() {
    let steps = [(1, "*"), (2, "*"), (3, " | 3 2;  | 1"), (1, "1 | 3;  | 2"), (2, "2 | 3; 1 | ")];
    check(&fixed(Kind::H), &[2, 2], 0, &steps);
}

/// The parameters of the worked examples' partition are those of all policies.
#[test]
fn half_of_a_tier_is_rounded_down() {
    let model = Hfa::new(fixed(Kind::P), &[1, 2, 3, 4], 1, || 0.0);
    assert_eq!([0, 1, 2, 3].map(|level| model.c1(level)), [1, 1, 1, 2]);
}
