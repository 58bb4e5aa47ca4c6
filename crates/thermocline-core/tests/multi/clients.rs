//! Properties that hold when several clients, each with a first tier of its own, share the others.

use proptest::prelude::*;
use thermocline_core::{Access, Clients, Op, PageId, Tier, registry};

use crate::drive::Driven;
use crate::models::{Demote, HintK, Inclusive, Model, Outcome};
use crate::pairs::{self, shared_accesses};

const PAGES: u32 = 16;

/// Policies whose first tiers are LRUs that nothing below reaches into.
const LRU_ON_TOP: [(&str, &str, &str); 4] = [
    ("demote", "mode", "remove"),
    ("demote", "mode", "mru"),
    ("demote", "mode", "lru"),
    ("mq-n", "ghosts", "4"),
];

fn two() -> Clients {
    Clients::new(2).unwrap()
}

fn names() -> impl Iterator<Item = &'static str> {
    registry::entries().filter(|entry| entry.capabilities.takes_clients).map(|entry| &*entry.name)
}

fn sizes() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(1_u32..6, 2..5)
}

/// Return the accesses of one client, as if there were no other.
fn alone(accesses: &[Access], client: u8) -> Vec<Access> {
    let own = accesses.iter().filter(|access| access.client == client);
    own.map(|access| access.by(0)).collect()
}

/// Hits of an LRU.
fn lru_hits(size: u32, accesses: &[Access]) -> u64 {
    let mut lru = Driven::new("lru", &[], 2 * PAGES, &[size]);
    lru.run(accesses);
    lru.hits()[0]
}

/// Return a parameter without which a policy depends on the pages of first tiers that are never
/// used.
fn independent(policy: &str) -> Vec<(&'static str, String)> {
    match policy {
        "promote" | "p-hfa" => vec![("promote_probability", "0.5".to_owned())],
        "hint-k" | "h-hfa" => vec![("ghost_ratio", "1000".to_owned())],
        _ => vec![],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Idle clients change nothing, for any active client.
    #[test]
    fn one_of_several_clients_is_as_good_as_one(
        sizes in sizes(), (_, accesses) in shared_accesses(), client in 0_u8..3,
    ) {
        let accesses: Vec<Access> = accesses.iter().map(|access| access.by(0)).collect();
        let three = Clients::new(3).unwrap();
        for policy in names().filter(|&policy| policy != "oracle-hfa") {
            let given = independent(policy);
            let mut one = Driven::new(policy, &given, PAGES, &sizes);
            let mut of_three = Driven::shared(policy, &given, PAGES, &sizes, three);
            let tier_of = |tier: usize| if tier == 0 { client.into() } else { tier + 2 };
            for &access in &accesses {
                let Outcome { found, served } = one.access(access);
                let expected = Outcome { found: tier_of(found), served: tier_of(served) };
                prop_assert_eq!(of_three.access(access.by(client)), expected, "{}", policy);
                prop_assert_eq!(of_three.moves, one.moves, "{}", policy);
            }
            let held = of_three.held();
            for (tier, pages) in one.held().into_iter().enumerate() {
                prop_assert_eq!(&held[tier_of(tier)], &pages, "{}, tier {}", policy, tier);
            }
        }
    }

    /// A first tier is its client's alone: its hits are those of an LRU of what that client reads.
    #[test]
    fn first_tiers_do_not_feel_each_other(sizes in sizes(), (clients, accesses) in shared_accesses()) {
        let reads: Vec<Access> =
            accesses.iter().map(|access| Access { op: Op::Read, ..*access }).collect();
        for (policy, name, text) in LRU_ON_TOP {
            let given = [(name, text.to_owned())];
            let mut driven = Driven::shared(policy, &given, PAGES, &sizes, clients);
            driven.run(&reads);
            for client in 0..clients.get() {
                let expected = lru_hits(sizes[0], &alone(&reads, client));
                prop_assert_eq!(driven.hits()[usize::from(client)], expected, "{}", policy);
            }
        }
    }

    /// A shared LRU sees the misses of all first tiers, one after the other.
    #[test]
    fn a_shared_lru_serves_the_misses_of_all(
        sizes in [1_u32..6, 1..10], (clients, accesses) in shared_accesses(),
    ) {
        let reads: Vec<Access> =
            accesses.iter().map(|access| Access { op: Op::Read, ..*access }).collect();
        let mut tops: Vec<Driven> =
            (0..clients.get()).map(|_| Driven::new("lru", &[], PAGES, &sizes[..1])).collect();
        let misses = |access: &&Access| tops[usize::from(access.client)].access(access.by(0)).found == 1;
        let missed: Vec<Access> =
            reads.iter().filter(misses).map(|access| access.by(0)).collect();
        let mut mq = Driven::shared("mq-n", &[("queues", "1".to_owned())], PAGES, &sizes, clients);
        mq.run(&reads);
        prop_assert_eq!(mq.hits().last().copied(), Some(lru_hits(sizes[1], &missed)));
    }

    /// With room for everything below them, clients of different pages do not affect each other.
    #[test]
    fn clients_of_different_pages_are_alone_above_a_roomy_tier(
        size in 1_u32..6, (_, accesses) in shared_accesses(),
    ) {
        let two = two();
        let sizes = [size, 2 * PAGES];
        let apart = |access: &Access| {
            let client = access.client % 2;
            Access { page: PageId(2 * access.page.0 + u32::from(client)), client, ..*access }
        };
        let accesses: Vec<Access> = accesses.iter().map(apart).collect();
        for policy in ["lru-n-inclusive", "demote", "hint-k", "mq-n"] {
            let mut shared = Driven::shared(policy, &[], 2 * PAGES, &sizes, two);
            shared.run(&accesses);
            let mut lower = 0;
            for client in 0..2 {
                let mut own = Driven::new(policy, &[], 2 * PAGES, &sizes);
                own.run(&alone(&accesses, client));
                let tier = usize::from(client);
                prop_assert_eq!(shared.hits()[tier], own.hits()[0], "{}", policy);
                prop_assert_eq!(&shared.held()[tier], &own.held()[0], "{}", policy);
                lower += own.hits()[1];
            }
            prop_assert_eq!(shared.hits()[2], lower, "{}", policy);
        }
    }

    /// Clients that read the same, one right after the other, have the same in their first tiers.
    #[test]
    fn clients_in_step_hold_the_same(sizes in sizes(), (clients, accesses) in shared_accesses()) {
        for policy in ["lru-n-inclusive", "demote", "mq-n"] {
            let mut driven = Driven::shared(policy, &[], PAGES, &sizes, clients);
            for access in &accesses {
                for client in 0..clients.get() {
                    driven.access(Access::read(access.page.0).by(client));
                }
                let held = driven.held();
                let tops = usize::from(clients.get());
                let is_inclusive = policy == "lru-n-inclusive";
                if !is_inclusive || sizes[1..].iter().all(|&size| size >= PAGES) {
                    prop_assert!(held[..tops].iter().all(|top| top == &held[0]), "{}", policy);
                }
            }
        }
    }

    /// A page may be in the first tiers of several clients, but no path holds it twice.
    #[test]
    fn paths_of_exclusive_policies_hold_a_page_once(
        sizes in sizes(), (clients, accesses) in shared_accesses(),
    ) {
        for policy in ["demote", "hint-k", "d-hfa", "h-hfa"] {
            let mut driven = Driven::shared(policy, &[], PAGES, &sizes, clients);
            for &access in &accesses {
                driven.access(access);
                let held = driven.held();
                let (tops, shared) = held.split_at(clients.get().into());
                for top in tops {
                    let mut pages = [&top[..], &shared.concat()].concat();
                    pages.sort_unstable();
                    prop_assert!(pages.is_sorted_by(|one, next| one < next), "{policy}: {held:?}");
                }
            }
        }
    }
}

/// Clients, pages that each of them reads in turn, and the state after the last of them.
type Step = (u8, &'static [u32], &'static str);

#[track_caller]
fn check(
    policy: &str,
    given: &[(&str, String)],
    model: &mut dyn Model,
    sizes: &[u32],
    steps: &[Step],
) {
    let mut driven = Driven::shared(policy, given, PAGES, sizes, two());
    for &(client, pages, state) in steps {
        let reads: Vec<Access> = pages.iter().map(|&page| Access::read(page).by(client)).collect();
        pairs::check(&mut driven, model, sizes, &reads);
        assert_eq!(model.state(), state, "client {client} after {pages:?}");
    }
}

/// Exclusion is kept on every path: who has the page last demotes it.
#[test]
fn demote_drops_what_another_client_holds() {
    let steps: &[Step] = &[
        (0, &[1], "1 |  | "),
        (1, &[1], "1 | 1 | "),
        (0, &[2], "2 | 1 | "),
        (1, &[3], "2 | 3 | 1"),
        (0, &[1], "1 | 3 | 2"),
        (1, &[1], "1 | 1 | 2 3"),
    ];
    check("demote", &[], &mut Demote::new(&[1, 2], 2, "remove"), &[1, 2], steps);
}

/// In the authors' modes, a page that one client demotes is there for the other, even if someone
/// else holds it.
#[test]
fn demote_in_its_published_modes_fills_the_shared_tier() {
    let steps: &[Step] = &[
        (0, &[1], "1 |  | 1"),
        (1, &[1], "1 | 1 | 1"),
        (0, &[2], "2 | 1 | 2 1"),
        (1, &[2], "2 | 2 | 2 1"),
    ];
    let given = [("mode", "lru".to_owned())];
    check("demote", &given, &mut Demote::new(&[1, 2], 2, "lru"), &[1, 2], steps);
}

/// A victim of the shared tier leaves the first tiers of both clients.
#[test]
fn a_shared_inclusive_tier_takes_its_victims_from_all_clients() {
    let steps: &[Step] =
        &[(0, &[1], "1 |  | 1"), (1, &[1, 2], "1 | 1 2 | 1 2"), (1, &[3], " | 2 3 | 2 3")];
    check("lru-n-inclusive", &[], &mut Inclusive::new(&[2, 2], 2), &[2, 2], steps);
}

/// Moves on one path are known on all.
#[test]
fn hint_k_knows_the_moves_of_all_clients() {
    let steps: &[Step] = &[
        (0, &[1, 2], "2:0 |  | 1:1"),
        (1, &[3], "2:0 | 3:0 | 1:1"),
        (1, &[1], "2:0 | 1:2.5 | 3:1"),
        (0, &[3], "3:2.5 | 1:2.5 | 2:1"),
    ];
    let mut model = HintK::new(&[1, 2], 2, 3, 0.5, [2.0, 1.0], 1.0);
    check("hint-k", &[], &mut model, &[1, 2], steps);
}

/// The other clients' copies go before the write is made, and its path has the new version.
#[test]
fn a_write_invalidates_the_copies_of_other_clients() {
    for policy in names().filter(|&policy| policy != "oracle-hfa") {
        let given = independent(policy);
        let mut driven = Driven::shared(policy, &given, PAGES, &[2, 4], two());
        // Read often enough to be on top under any policy.
        for client in [0, 1].repeat(20) {
            driven.access(Access::read(7).by(client));
        }
        driven.access(Access::write(7).by(1));
        let page = PageId(7);
        assert!(!driven.ledger.holds(Tier(0), page), "{policy}");
        assert!(driven.ledger.is_current(Tier(3), page), "{policy}: written through");
        let Outcome { found, .. } = driven.access(Access::read(7));
        assert_ne!(found, 0, "{policy}");
    }
}
