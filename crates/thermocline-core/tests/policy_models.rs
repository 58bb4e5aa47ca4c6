//! Every policy counts what its executable specification counts, after every access.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod models;

use models::face::Face;
use models::hat::Hat;
use models::lazy_cleaning::{Design, LazyCleaning};
use models::lru::{Lru, TwoTier};
use models::tac::Tac;
use models::{Counts, Model};
use proptest::prelude::*;
use thermocline_core::{
    Access, Actions, Geometry, Ledger, PageCost, Setup, Tier, WriteMiss, registry,
};

const PAGES: u32 = 24;

/// Drives a policy, its model and the Ledger side by side.
#[track_caller]
fn check(
    policy: &str,
    parameters: &[(&str, String)],
    sizes: [u32; 2],
    model: &mut dyn Model,
    accesses: &[Access],
) {
    let pages = accesses.iter().map(|access| access.page.0 + 1).max().unwrap_or(1);
    let setup = Setup {
        capacity_pages: sizes.to_vec(),
        geometry: Geometry::linear(pages),
        costs: vec![
            PageCost::default(),
            PageCost { read_ms: 0.16, write_ms: 0.30 },
            PageCost { read_ms: 12.7, write_ms: 13.7 },
        ],
        write_miss: WriteMiss::Fetch,
    };
    let given: Vec<(String, String)> =
        parameters.iter().map(|(name, text)| ((*name).to_owned(), text.clone())).collect();
    let entry = registry::find(policy).unwrap();
    let mut driven = entry.build(&setup, &entry.values(&given).unwrap()).unwrap();
    let mut ledger = Ledger::new(pages, &sizes);
    let mut actions = Actions::new();
    for (number, &access) in (1..).zip(accesses) {
        actions.clear();
        driven.access(access, &mut actions);
        ledger.access(access, &actions).unwrap_or_else(|wrong| panic!("{policy}: {wrong}"));
        model.access(access);
        let place = || {
            let so_far = &accesses[..number];
            format!("{policy} {parameters:?} {sizes:?}, access {number} of {so_far:?}: {actions:?}")
        };
        assert_eq!(counts(&ledger), model.counts(), "{}", place());
    }
    driven.assert_invariants();
}

fn counts(ledger: &Ledger) -> Counts {
    let counts = ledger.counts();
    Counts {
        memory_hits: counts.hits(Tier::RAM),
        flash_hits: counts.hits(Tier::FLASH),
        disk_hits: counts.hits(Tier::DISK),
        flash_reads: counts.page_reads(Tier::FLASH),
        flash_writes: counts.page_writes(Tier::FLASH),
        disk_reads: counts.page_reads(Tier::DISK),
        disk_writes: counts.page_writes(Tier::DISK),
    }
}

/// Runs of neighbours over few pages, so that there is re-use and adjacency.
fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let run = (0..PAGES, 1_u32..4, 0_u8..3).prop_map(|(first, pages, kind)| {
        let access = if kind == 0 { Access::write } else { Access::read };
        (first..(first + pages).min(PAGES)).map(access).collect::<Vec<_>>()
    });
    prop::collection::vec(run, 0..120).prop_map(|runs| runs.concat())
}

fn share() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(0.1), Just(0.34), Just(0.5), Just(0.99), Just(1.0)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn hat(
        sizes in [1_u32..8, 0..8], ratio in share(), is_early in any::<bool>(), accesses in accesses(),
    ) {
        let parameters =
            [("nonhot_ratio", ratio.to_string()), ("early_brush", is_early.to_string())];
        let mut model = Hat::new(sizes[0], sizes[1], ratio, is_early);
        check("hat", &parameters, sizes, &mut model, &accesses);
    }

    #[test]
    fn tac(sizes in [1_u32..6, 0..8], extent in 1_u64..6, aging in 0_u64..20, accesses in accesses()) {
        let parameters =
            [("extent_pages", extent.to_string()), ("aging_interval", aging.to_string())];
        let mut model = Tac::new(sizes[0], sizes[1], extent, aging);
        check("tac", &parameters, sizes, &mut model, &accesses);
    }

    #[test]
    fn lazy_cleaning(
        sizes in [1_u32..6, 0..9], shares in [share(), share(), share()], alpha in 1_usize..5,
        accesses in accesses(),
    ) {
        let parameters = [
            ("filling_threshold", shares[0].to_string()),
            ("dirty_threshold", shares[1].to_string()),
            ("low_mark", shares[2].to_string()),
            ("group_pages", alpha.to_string()),
        ];
        for (policy, design, parameters) in [
            ("lc", Design::Lazy, &parameters[..]),
            ("dw", Design::Dual, &parameters[..1]),
            ("cw", Design::Clean, &parameters[..1]),
        ] {
            let mut model = LazyCleaning::new(design, sizes[0], sizes[1], shares, alpha);
            check(policy, parameters, sizes, &mut model, &accesses);
        }
    }

    #[test]
    fn face(
        sizes in [1_u32..6, 0..9], group in 1_usize..6, cache_clean in any::<bool>(),
        accesses in accesses(),
    ) {
        let parameters =
            [("cache_clean", cache_clean.to_string()), ("group_pages", group.to_string())];
        for (policy, group, has_second_chance, parameters) in [
            ("face", 1, false, &parameters[..1]),
            ("face-gr", group, false, &parameters[..]),
            ("face-gsc", group, true, &parameters[..]),
        ] {
            let mut model = Face::new(sizes[0], sizes[1], group, has_second_chance, cache_clean);
            check(policy, parameters, sizes, &mut model, &accesses);
        }
    }

    #[test]
    fn lru(sizes in [1_u32..8, 0..9], accesses in accesses()) {
        check("lru", &[], sizes, &mut Lru::new(sizes[0]), &accesses);
        for (policy, is_inclusive) in [("lru-inclusive", true), ("lru-exclusive", false)] {
            let mut model = TwoTier::new(is_inclusive, sizes[0], sizes[1]);
            check(policy, &[], sizes, &mut model, &accesses);
        }
    }
}

/// Long runs at the policies' defaults, with scans between skewed accesses.
#[test]
fn defaults_hold_over_long_runs() {
    let mut seed = 7_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    let mut accesses = vec![];
    while accesses.len() < 6_000 {
        let bits = 1 + random(9);
        let page = u32::try_from(random(1 << bits)).unwrap();
        let access = if random(3) == 0 { Access::write } else { Access::read };
        let length = if random(20) == 0 { 30 } else { 1 };
        accesses.extend((page..page + length).map(access));
    }
    let sizes = [40, 120];
    let lazy = |design| LazyCleaning::new(design, 40, 120, [0.95, 0.5, 0.99], 32);
    check("hat", &[], sizes, &mut Hat::new(40, 120, 0.1, false), &accesses);
    check("tac", &[], sizes, &mut Tac::new(40, 120, 32, 0), &accesses);
    check("lc", &[], sizes, &mut lazy(Design::Lazy), &accesses);
    check("dw", &[], sizes, &mut lazy(Design::Dual), &accesses);
    check("cw", &[], sizes, &mut lazy(Design::Clean), &accesses);
    check("face", &[], sizes, &mut Face::new(40, 120, 1, false, true), &accesses);
    check("face-gr", &[], sizes, &mut Face::new(40, 120, 16, false, true), &accesses);
    check("face-gsc", &[], sizes, &mut Face::new(40, 120, 16, true, true), &accesses);
    check("lru-inclusive", &[], sizes, &mut TwoTier::new(true, 40, 120), &accesses);
    check("lru-exclusive", &[], sizes, &mut TwoTier::new(false, 40, 120), &accesses);
}
