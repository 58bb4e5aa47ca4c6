//! Properties that hold on any trace.

use proptest::prelude::*;
use thermocline_core::policy::single::ALGORITHMS;
use thermocline_core::{Access, Op, Tier};

use crate::drive::Driven;
use crate::pairs::shared_accesses;

const PAGES: u32 = 16;

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let access = (0..PAGES, any::<bool>()).prop_map(|(page, is_write)| {
        if is_write { Access::write(page) } else { Access::read(page) }
    });
    prop::collection::vec(access, 0..200)
}

fn sizes() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(1_u32..6, 2..6)
}

/// Hits of one LRU.
fn lru_hits(size: u32, accesses: &[Access]) -> u64 {
    let mut lru = Driven::new("lru", &[], PAGES, &[size]);
    lru.run(accesses);
    lru.hits()[0]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn exclusive_policies_hold_a_page_once(sizes in sizes(), accesses in accesses()) {
        for policy in ["demote", "chain", "promote", "hint-k", "ulc"] {
            let mut driven = Driven::new(policy, &[], PAGES, &sizes);
            for &access in &accesses {
                driven.access(access);
                let mut pages = driven.held().concat();
                pages.sort_unstable();
                prop_assert!(pages.is_sorted_by(|one, next| one < next), "{policy}: {pages:?}");
            }
        }
    }

    /// All copies are clean, so each write goes to disk once and a flush has nothing to do.
    #[test]
    fn writes_go_through_and_placement_takes_them_for_reads(
        sizes in sizes(), accesses in accesses(),
    ) {
        let reads: Vec<Access> =
            accesses.iter().map(|access| Access { op: Op::Read, ..*access }).collect();
        let writes = accesses.iter().zip(&reads).filter(|(one, read)| one != read).count() as u64;
        for policy in ["lru-n-inclusive", "demote", "chain", "promote", "hint-k", "mq-n", "ulc"] {
            let [mut mixed, mut read] = [(); 2].map(|()| Driven::new(policy, &[], PAGES, &sizes));
            mixed.run(&accesses);
            read.run(&reads);
            prop_assert_eq!(mixed.hits(), read.hits(), "{}", policy);
            prop_assert_eq!(mixed.held(), read.held(), "{}", policy);
            let disk = Tier(u8::try_from(sizes.len()).unwrap());
            prop_assert_eq!(mixed.ledger.counts().page_writes(disk), writes, "{}", policy);
            prop_assert_eq!(mixed.ledger.dirty_pages().count(), 0, "{}", policy);
        }
    }

    #[test]
    fn demote_is_one_lru_of_all_tiers(sizes in sizes(), accesses in accesses()) {
        let mut demote = Driven::new("demote", &[], PAGES, &sizes);
        demote.run(&accesses);
        prop_assert_eq!(demote.hits().iter().sum::<u64>(), lru_hits(sizes.iter().sum(), &accesses));
        prop_assert_eq!(demote.hits()[0], lru_hits(sizes[0], &accesses));
    }

    #[test]
    fn a_chain_of_lru_is_demote(sizes in sizes(), (clients, accesses) in shared_accesses()) {
        let [mut chain, mut demote] =
            ["chain", "demote"].map(|policy| Driven::shared(policy, &[], PAGES, &sizes, clients));
        for &access in &accesses {
            prop_assert_eq!(chain.access(access), demote.access(access));
            prop_assert_eq!(chain.held(), demote.held());
            prop_assert_eq!(chain.moves, demote.moves);
        }
    }

    /// Any algorithms can be chained, also if they refuse pages.
    #[test]
    fn any_algorithms_can_be_chained(
        sizes in sizes(), (clients, accesses) in shared_accesses(),
        names in prop::collection::vec(0..ALGORITHMS.len(), 3),
    ) {
        let names = names.into_iter().map(|index| ALGORITHMS[index].name().to_owned());
        let given: Vec<_> = ["l1", "l2", "l3"].into_iter().zip(names).collect();
        let mut chain = Driven::shared("chain", &given, PAGES, &sizes, clients);
        for &access in &accesses {
            chain.access(access);
            chain.policy.assert_invariants();
        }
    }

    #[test]
    fn demote_to_the_eject_next_end_has_the_hits_of_exclusion(
        sizes in [1_u32..6, 1..6], accesses in accesses(),
    ) {
        let [remove, mru] = ["remove", "mru"].map(|mode| {
            let mut demote = Driven::new("demote", &[("mode", mode.to_owned())], PAGES, &sizes);
            demote.run(&accesses);
            demote.hits()
        });
        prop_assert_eq!(remove, mru);
    }

    #[test]
    fn promote_that_never_promotes_is_an_lru_of_the_lowest_tier(
        sizes in sizes(), accesses in accesses(),
    ) {
        let mut promote = Driven::new("promote", &[("promote_probability", "0".to_owned())], PAGES, &sizes);
        promote.run(&accesses);
        let lowest = *sizes.last().unwrap();
        prop_assert_eq!(promote.hits().last().copied(), Some(lru_hits(lowest, &accesses)));
        prop_assert_eq!(promote.moves, 0);
    }

    #[test]
    fn promote_that_always_promotes_is_an_lru_of_the_fastest_tier(
        sizes in sizes(), accesses in accesses(),
    ) {
        let mut promote = Driven::new("promote", &[("promote_probability", "1".to_owned())], PAGES, &sizes);
        promote.run(&accesses);
        prop_assert_eq!(promote.hits()[0], lru_hits(sizes[0], &accesses));
        prop_assert_eq!(promote.hits()[1..].iter().sum::<u64>(), 0);
    }

    #[test]
    fn hint_k_of_one_tier_is_an_lru(size in 1_u32..10, accesses in accesses()) {
        let mut hint_k = Driven::new("hint-k", &[], PAGES, &[size, 0, 0]);
        hint_k.run(&accesses);
        prop_assert_eq!(hint_k.hits(), [lru_hits(size, &accesses), 0, 0]);
    }

    #[test]
    fn every_inclusive_tier_holds_what_faster_ones_hold(
        sizes in sizes(), accesses in accesses(),
    ) {
        let mut inclusive = Driven::new("lru-n-inclusive", &[], PAGES, &sizes);
        for &access in &accesses {
            inclusive.access(access);
            for pair in inclusive.held().windows(2) {
                prop_assert!(pair[0].iter().all(|page| pair[1].contains(page)));
            }
        }
    }

    /// With one tier below, MQ of one queue is an LRU over the misses of the fastest tier.
    #[test]
    fn mq_of_one_queue_is_an_lru_of_misses(sizes in [1_u32..6, 1..10], accesses in accesses()) {
        let mut mq = Driven::new("mq-n", &[("queues", "1".to_owned())], PAGES, &sizes);
        let mut top = Driven::new("lru", &[], PAGES, &sizes[..1]);
        let missed: Vec<Access> =
            accesses.iter().copied().filter(|&access| top.access(access).found == 1).collect();
        mq.run(&accesses);
        prop_assert_eq!(mq.hits(), [top.hits()[0], lru_hits(sizes[1], &missed)]);
    }
}

/// Seeds decide, and nothing else does.
#[test]
fn promote_repeats_with_its_seed() {
    let accesses: Vec<Access> =
        (0..400_u32).map(|step| Access::read(step.wrapping_mul(2_654_435_761) >> 28)).collect();
    let [one, same, other] = ["1", "1", "2"].map(|seed| {
        let mut driven = Driven::new("promote", &[("seed", seed.to_owned())], PAGES, &[3, 5]);
        accesses.iter().map(|&access| driven.access(access)).collect::<Vec<_>>()
    });
    assert_eq!(one, same);
    assert_ne!(one, other);
}

/// A loop longer than all caches: ULC keeps what it has, LRU has nothing.
#[test]
fn ulc_holds_on_to_a_loop() {
    let accesses: Vec<Access> = (0..10).flat_map(|_| (0..PAGES).map(Access::read)).collect();
    let mut ulc = Driven::new("ulc", &[], PAGES, &[4, 8]);
    ulc.run(&accesses);
    assert_eq!(ulc.hits().iter().sum::<u64>(), 9 * 12);
    assert_eq!(lru_hits(12, &accesses), 0);
}

#[test]
fn what_adapts_is_reported_per_tier() {
    let accesses: Vec<Access> =
        (0..400_u32).map(|step| Access::read(step.wrapping_mul(2_654_435_761) >> 28)).collect();
    // With this seed, no probability becomes too small for a number.
    let seed = [("seed", "0".to_owned())];
    let expected = [("promote", &seed[..], "promote_probability"), ("mq-n", &[], "life_time")];
    for (policy, given, gauge) in expected {
        let mut driven = Driven::new(policy, given, PAGES, &[2, 3, 4]);
        driven.run(&accesses);
        let mut reported = vec![];
        driven.policy.gauges(&mut |name, tier, value| reported.push((name, tier, value)));
        let names: Vec<_> = reported.iter().map(|&(name, tier, _)| (name, tier)).collect();
        assert_eq!(names, [(gauge, Tier(1)), (gauge, Tier(2))]);
        assert!(reported.iter().all(|&(_, _, value)| value > 0.0), "{reported:?}");
    }
}

/// Each history is counted once: ghosts with their page's number, the others without.
#[test]
fn metadata_grows_with_what_is_remembered() {
    let bytes = |policy: &str, given: &[(&str, String)], pages: &[u32]| {
        let mut driven = Driven::new(policy, given, PAGES, &[1, 2]);
        driven.run(&pages.iter().copied().map(Access::read).collect::<Vec<_>>());
        driven.policy.metadata_bytes()
    };
    assert_eq!(bytes("demote", &[], &[1, 2, 3, 4]), 0);
    assert_eq!(bytes("promote", &[("promote_probability", "0".into())], &[1, 2, 3, 4]), 2 * 8);
    assert_eq!(bytes("hint-k", &[], &[1, 2, 3, 4]), 3 * 4 + 8, "one page was demoted and dropped");
    assert_eq!(bytes("hint-k", &[("ghost_ratio", "0".into())], &[1, 2, 3, 4]), 3 * 4);
    assert_eq!(bytes("mq-n", &[], &[1, 2, 3]), 2 * 12 + 8);
    assert_eq!(bytes("ulc", &[], &[1, 2, 3, 4, 5]), 2 * 12, "two pages were let pass");
}
