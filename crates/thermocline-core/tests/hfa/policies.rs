//! Every HFA policy does what its specification does, after every access, and loses nothing.

use proptest::prelude::*;
use thermocline_core::policy::multi::hfa::record_hints;
use thermocline_core::{
    Access, Action, Actions, Clients, HintLog, Ledger, Op, PageId, Setup, Survivor, Tier,
    WriteMiss, registry, registry::Future,
};

use crate::model::{Kind, Settings};
use crate::pair::{Pair, setup};
use crate::zipf;

const PAGES: u32 = 24;
const POLICIES: [&str; 4] = ["d-hfa", "p-hfa", "h-hfa", "oracle-hfa"];

fn accesses(length: usize) -> impl Strategy<Value = Vec<Access>> {
    (4..=PAGES).prop_flat_map(move |pages| {
        let access = (0..pages, 0..pages, 0_u8..4).prop_map(|(one, other, kind)| {
            let page = one.min(other);
            if kind == 0 { Access::write(page) } else { Access::read(page) }
        });
        prop::collection::vec(access, 0..length)
    })
}

fn capacities() -> impl Strategy<Value = Vec<u32>> {
    prop::sample::select(vec![2_usize, 2, 3, 5, 8])
        .prop_flat_map(|tiers| prop::collection::vec(1_u32..7, tiers))
}

/// Generate one to three clients, and the client of each access.
fn clients() -> impl Strategy<Value = (Clients, Vec<u8>)> {
    (1_u8..4).prop_flat_map(|clients| {
        let turns = prop::collection::vec(0..clients, 1..40);
        (Just(Clients::new(clients.into()).unwrap()), turns)
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    let kind = prop::sample::select(vec![Kind::D, Kind::P, Kind::H]);
    let time = (1_u64..24, 0_u64..5, 1_u64..12);
    let shares = (
        prop::sample::select(vec![0.0, 0.3, 0.5, 1.0]),
        prop::sample::select(vec![0.0, 0.001, 0.004, 0.01, 0.05, 1.0]),
        prop::sample::select(vec![0.0, 0.3, 0.5, 1.0]),
        prop::sample::select(vec![0.0, 0.5, 1.0, 3.0]),
    );
    let switches = any::<[bool; 6]>();
    let probability = prop::sample::select(vec![None, None, Some(0.0), Some(0.5), Some(1.0)]);
    let khv = (
        prop::sample::select(vec![[2.0, 1.0, 0.5], [1.0, 3.0, 0.9], [0.0, 1.0, 0.0]]),
        1_usize..5,
        prop::sample::select(vec![0.0, 0.3, 1.0, 100.0]),
    );
    let cold = prop::sample::select(vec!["recent", "period", "stay", "mean"]);
    (kind, time, cold, shares, switches, probability, khv).prop_map(
        |(kind, time, cold, shares, switches, promote_probability, khv)| {
            let ((t, k, samples), (khv, khv_steps, ghost_ratio)) = (time, khv);
            let (delta, t_out_share, q1_share, f_min) = shares;
            let [is_dynamic, is_strict, resort, d_overflow_demotes, miss_to_q1, by_hotness] =
                switches;
            Settings {
                t,
                k,
                delta,
                f_min,
                t_out_share,
                q1_share,
                is_dynamic,
                samples,
                cold,
                ghost_ratio,
                is_strict,
                resort,
                d_overflow_demotes,
                miss_to_q1,
                q2_by_hotness: by_hotness && kind == Kind::D,
                promote_probability,
                khv,
                khv_steps,
                ..Settings::new(kind)
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn policies_do_what_their_specification_does(
        settings in settings(), capacities in capacities(), accesses in accesses(160), seed in 0_u64..9,
        (clients, turns) in clients(),
    ) {
        let accesses: Vec<Access> = accesses
            .iter()
            .zip(turns.iter().cycle())
            .map(|(access, &client)| access.by(client))
            .collect();
        let mut pair = Pair::shared(&settings, &capacities, PAGES, seed, clients);
        for &access in &accesses {
            pair.access(access);
            pair.assert_same_contents();
        }
        if settings.kind == Kind::H {
            let setup = setup(PAGES, &capacities, clients);
            let recorded = record_hints(&setup, &pair.values, accesses.iter().copied());
            // The hints are those of a policy for all tiers, whose clock counts all accesses.
            let whole = Settings { is_whole: true, ..settings.clone() };
            let mut whole = Pair::shared(&whole, &capacities, PAGES, seed, clients).model;
            for &Access { page, op, client } in &accesses {
                whole.access(client.into(), page.0, op == Op::Write);
            }
            let expected: HintLog = whole
                .hints
                .iter()
                .map(|(&(level, page, slot), &times)| {
                    (Tier(u8::try_from(level).unwrap()), PageId(page), slot, times)
                })
                .collect();
            prop_assert_eq!(recorded, expected);
            let oracle = Settings { oracle: Some(whole.hints), ..settings };
            let mut pair = Pair::shared(&oracle, &capacities, PAGES, seed, clients);
            for &access in &accesses {
                pair.access(access);
                pair.assert_same_contents();
            }
        }
    }

    #[test]
    fn no_write_is_lost(
        capacities in capacities(), former in accesses(120), later in accesses(120),
        is_back in any::<bool>(), is_fetched in any::<bool>(), is_strict in any::<bool>(),
    ) {
        for name in POLICIES {
            let given = [
                ("t", "7"),
                ("writes", if is_back { "back" } else { "through" }),
                ("queues", if is_strict { "strict" } else { "borrowing" }),
            ];
            let write_miss = if is_fetched { WriteMiss::Fetch } else { WriteMiss::Allocate };
            let setup = Setup { write_miss, ..setup(PAGES, &capacities, Clients::ONE) };
            let log = run(name, &given, &setup, &[&former, &later]);
            prop_assert_eq!(log, run(name, &given, &setup, &[&former, &later]), "{}", name);
        }
    }

    #[test]
    fn survivors_are_cleaned_and_dropped(
        capacities in capacities(), are_dirty in prop::collection::vec(any::<bool>(), 0..6),
    ) {
        let survivors: Vec<Survivor> = (0..)
            .zip(are_dirty)
            .map(|(page, is_dirty)| Survivor { page: PageId(page), is_dirty })
            .collect();
        for name in POLICIES {
            let mut policy = build(name, &[], &setup(PAGES, &capacities, Clients::ONE));
            let mut ledger = Ledger::new(PAGES, &capacities);
            let mut actions = Actions::new();
            policy.restore(&survivors, &mut actions);
            ledger.restore(Tier::FLASH, &survivors, &actions).unwrap();
            prop_assert_eq!(ledger.held_pages(Tier::FLASH), 0);
            prop_assert_eq!(ledger.dirty_pages().count(), 0);
        }
    }
}

fn build(name: &str, given: &[(&str, &str)], setup: &Setup) -> thermocline_core::BoxedPolicy {
    let entry = registry::find(name).unwrap();
    let given: Vec<(String, String)> =
        given.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect();
    let some_hints = [(Tier(0), PageId(1), 0, 2), (Tier(1), PageId(2), 1, 1)];
    let hints: HintLog = some_hints.into_iter().collect();
    let setup = Setup { inputs: hints.into(), ..setup.clone() };
    entry.build(&setup, &entry.values(&given).unwrap()).unwrap()
}

/// Drives a policy with a flush after each part; no page is in two tiers.
fn run(name: &str, given: &[(&str, &str)], setup: &Setup, parts: &[&[Access]]) -> Vec<Action> {
    let mut policy = build(name, given, setup);
    let mut ledger = Ledger::new(PAGES, &setup.capacity_pages);
    let mut actions = Actions::new();
    let mut log = vec![];
    for part in parts {
        for &access in *part {
            actions.clear();
            policy.access(access, &mut actions);
            ledger.access(access, &actions).unwrap();
            policy.assert_invariants();
            log.extend_from_slice(actions.as_slice());
            for page in (0..PAGES).map(PageId) {
                let tiers = (0..).map(Tier).take(setup.capacity_pages.len());
                assert!(tiers.filter(|&tier| ledger.holds(tier, page)).count() <= 1, "{name}");
            }
        }
        actions.clear();
        policy.flush(&mut actions);
        ledger.flush(&actions).unwrap();
        log.extend_from_slice(actions.as_slice());
    }
    log
}

/// Tiers of hundreds of pages, with the documented defaults, for as long as several periods.
#[test]
fn defaults_hold_over_long_runs() {
    for (kind, capacities) in [
        (Kind::D, vec![100, 400]),
        (Kind::P, vec![100, 400]),
        (Kind::H, vec![100, 400]),
        (Kind::D, vec![40, 80, 160]),
        (Kind::P, vec![40, 80, 160]),
        (Kind::H, vec![40, 80, 160]),
    ] {
        let mut pair = Pair::new(&Settings::new(kind), &capacities, zipf::PAGES, 42);
        for (number, &access) in zipf::accesses().iter().enumerate() {
            pair.access(access);
            if number % 499 == 0 {
                pair.assert_same_contents();
            }
        }
        pair.assert_same_contents();
    }
}

#[test]
fn an_oracle_without_hints_is_refused() {
    let entry = registry::find("oracle-hfa").unwrap();
    assert_eq!(entry.capabilities.future, Future::Hints);
    assert_eq!(registry::find("h-hfa").unwrap().capabilities.future, Future::Unknown);
    let error = entry.build_default(&setup(PAGES, &[2, 2], Clients::ONE)).unwrap_err().to_string();
    assert!(error.contains("replay of a trace"), "{error}");
}

/// A page that leaves a tier is one hint; the parameters that both policies have count.
#[test]
fn hints_are_those_of_h_hfa() {
    let setup = setup(PAGES, &[1, 1], Clients::ONE);
    let hints = |given: &[(&str, &str)]| -> Vec<(Tier, PageId, u64, u32)> {
        let given: Vec<_> = given.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect();
        let values = registry::find("oracle-hfa").unwrap().values(&given).unwrap();
        record_hints(&setup, &values, (0..3).map(Access::read)).iter().collect()
    };
    assert_eq!(hints(&[]), [(Tier(0), PageId(0), 0, 1), (Tier(0), PageId(1), 0, 1)]);
    let short_periods = hints(&[("t", "1")]);
    assert_ne!(short_periods, hints(&[]));
    assert!(short_periods.iter().any(|hint| hint.2 > 0), "{short_periods:?}");
}

/// However many pages H-HFA meets, it keeps the moves of as many pages in no cache as are cached.
#[test]
fn histories_are_bounded() {
    const DISK_PAGES: u32 = 4000;
    let capacities = [10, 30];
    let cached = 40;
    for (ghost_ratio, ghosts_max) in [("0", 0), ("0.5", 20), ("1", 40), ("1000", 4000)] {
        let setup = setup(DISK_PAGES, &capacities, Clients::ONE);
        let given = [("ghost_ratio", ghost_ratio), ("k", "0"), ("q1_share", "0")];
        let mut policy = build("h-hfa", &given, &setup);
        let mut most = 0;
        for page in 0..DISK_PAGES {
            policy.access(Access::read(page), &mut Actions::new());
            most = most.max(policy.metadata_bytes());
        }
        let of_q1 = 36 * 2;
        let of_moves = 4 * cached + 8 * ghosts_max;
        assert!(most <= of_moves + of_q1, "{most} bytes with {ghost_ratio}");
        assert!(ghosts_max > 100 || most >= of_moves, "{most} bytes with {ghost_ratio}");
    }
}

/// With its defaults, H-HFA's data besides the pages is less than 2.6 % of the caches' size
/// (section 5.2.2).
#[test]
fn h_hfa_keeps_less_than_the_paper_says() {
    let (capacities, cached_bytes) = ([100, 400], 500.0 * 4096.0);
    let mut policy = build("h-hfa", &[], &setup(zipf::PAGES, &capacities, Clients::ONE));
    let mut most = 0;
    for access in zipf::accesses() {
        policy.access(access, &mut Actions::new());
        most = most.max(policy.metadata_bytes());
    }
    let share = f64::from(u32::try_from(most).unwrap()) / cached_bytes;
    assert!((0.005..0.026).contains(&share), "{share}");
}

/// The published scheme's own memory: records of the tables, histories of the first queues.
#[test]
fn metadata_is_what_the_paper_counts() {
    let mut policy = build("d-hfa", &[("t_out_share", "1")], &setup(PAGES, &[2, 2], Clients::ONE));
    for page in [0, 1, 1, 2, 3] {
        policy.access(Access::read(page), &mut Actions::new());
    }
    let mut gauges = vec![];
    policy.gauges(&mut |name, tier, value| gauges.push((name, tier.0, value as u32)));
    let expected = [("q1_pages", 0, 1), ("q2_pages", 0, 1), ("t_out_records", 0, 2)];
    assert_eq!(gauges[..3], expected);
    assert_eq!(policy.metadata_bytes(), 2 * 16 + 36);
}
