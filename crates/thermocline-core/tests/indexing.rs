//! Dense tables and sparse indices decide alike: the same actions for every policy, on disks much
//! larger than the caches, so that what a policy knows of a page is forgotten and found again.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod work;

use std::sync::Arc;

use thermocline_core::registry::{self, Depth, Future, PolicyEntry};
use thermocline_core::{
    Access, Actions, BoxedPolicy, Clients, Foresight, Geometry, Indexing, Inputs, Nanos, Op,
    PageId, Setup, Survivor, policy::multi::hfa::record_hints,
};
use work::{Skew, accesses, setup};

const STEPS: u64 = 6_000;

/// Return the capacities of the tiers of a policy, for each number of tiers that it is tested with.
fn capacities(entry: &PolicyEntry, ram_pages: u32, flash_pages: u32) -> Vec<Vec<u32>> {
    match entry.capabilities.depth {
        Depth::Ram => vec![vec![ram_pages]],
        Depth::RamFlash => vec![vec![ram_pages, flash_pages], vec![ram_pages, 0]],
        Depth::Tiers => {
            vec![vec![ram_pages, flash_pages], vec![ram_pages, flash_pages / 2, flash_pages]]
        }
        Depth::Buffer => unreachable!("the registry of caches has no write buffer"),
    }
}

fn build(
    entry: &PolicyEntry,
    setup: &Setup,
    given: &[(&str, &str)],
    to_come: &[Access],
) -> BoxedPolicy {
    let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    let given: Vec<_> = given.iter().map(owned).collect();
    let values = entry.values(&given).unwrap();
    let inputs = match entry.capabilities.future {
        Future::Unknown => Inputs::NONE,
        Future::Hints => record_hints(setup, &values, to_come.iter().copied()).into(),
        Future::Accesses => {
            let pages = to_come.iter().map(|access| access.page);
            Arc::new(Foresight::new(setup.geometry.pages(), pages).unwrap()).into()
        }
    };
    entry.build(&Setup { inputs, ..setup.clone() }, &values).unwrap()
}

/// Drives both and compares every action; flushes, and goes on.
fn compare(entry: &PolicyEntry, setup: &Setup, given: &[(&str, &str)], accesses: &[Access]) {
    let [mut dense, mut sparse] = [Indexing::Dense, Indexing::Sparse]
        .map(|indexing| build(entry, &Setup { indexing, ..setup.clone() }, given, accesses));
    let [mut expected, mut found] = [Actions::new(), Actions::new()];
    if setup.capacity_pages.get(1).is_some_and(|&pages| pages > 0) {
        let survivor = |page| Survivor { page: PageId(page * 3), is_dirty: page % 2 == 0 };
        let survivors: Vec<_> = (0..setup.capacity_pages[1].min(7)).map(survivor).collect();
        dense.restore(&survivors, &mut expected);
        sparse.restore(&survivors, &mut found);
        assert_eq!(expected.as_slice(), found.as_slice(), "{}: survivors", entry.name);
    }
    for (step, &access) in accesses.iter().enumerate() {
        for (policy, actions) in [(&mut dense, &mut expected), (&mut sparse, &mut found)] {
            actions.clear();
            if entry.capabilities.needs_clock {
                policy.background(Nanos(step as u64 * 400_000_000), actions);
            }
            policy.prefetch(access.page);
            policy.access(access, actions);
            if step % 1000 == 999 {
                policy.flush(actions);
                policy.assert_invariants();
            }
        }
        let context = format!("{} {given:?} at step {step}", entry.name);
        assert_eq!(expected.as_slice(), found.as_slice(), "{context}");
    }
    dense.flush(&mut expected);
    sparse.flush(&mut found);
    assert_eq!(expected.as_slice(), found.as_slice(), "{}: what is dirty", entry.name);
}

#[test]
fn every_policy_decides_alike_with_either_index() {
    for entry in registry::entries() {
        for (seed, (ram_pages, flash_pages, times)) in
            (1..).zip([(1, 1, 40), (3, 9, 4), (16, 48, 4), (24, 60, 64)])
        {
            let pages = (ram_pages + flash_pages) * times;
            for capacity_pages in capacities(entry, ram_pages, flash_pages) {
                let setup = Setup { capacity_pages, ..setup(pages, Indexing::Dense) };
                for skew in [Skew::None, Skew::Strong] {
                    compare(entry, &setup, &[], &accesses(pages, STEPS, seed, skew));
                }
            }
        }
    }
}

/// The parameters that change what is known of a page.
#[test]
fn parameters_do_not_change_that() {
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("lru-2", &[("retained", "50")]),
        ("lru-2", &[("retained", "0"), ("correlated", "4")]),
        ("mq", &[("ghosts", "0"), ("life_time", "20")]),
        ("mq-n", &[("ghosts", "0.5"), ("queues", "3")]),
        ("ulc", &[("ghosts", "0.5")]),
        ("hint-k", &[("ghost_ratio", "0")]),
        ("hint-k", &[("ghost_ratio", "3"), ("khv_steps", "16")]),
        ("promote", &[("promote_probability", "0.5")]),
        ("demote", &[("mode", "mru")]),
        ("demote", &[("mode", "lru")]),
        ("lecar", &[("history_share", "0")]),
        ("cacheus", &[("history_share", "2")]),
        ("lfu", &[("aging", "dynamic"), ("writes", "back")]),
        ("two-tier", &[("inclusion", "exclusive"), ("ram", "lfu"), ("flash", "lrfu")]),
        ("two-tier", &[("inclusion", "inclusive"), ("ram", "arc"), ("flash", "s3-fifo")]),
        ("two-tier", &[("writes", "around"), ("admission", "second-access")]),
        ("d-hfa", &[("writes", "back"), ("t", "100")]),
        ("p-hfa", &[("writes", "back"), ("t", "100")]),
        ("h-hfa", &[("writes", "back"), ("t", "100")]),
        ("h-hfa", &[("ghost_ratio", "0.2"), ("t", "100")]),
        ("hca", &[("buffer_pages", "6"), ("pages_per_block", "4")]),
    ];
    for &(name, given) in cases {
        let entry = registry::find(name).unwrap();
        for capacity_pages in capacities(entry, 16, 48) {
            let setup = Setup { capacity_pages, ..setup(1024, Indexing::Dense) };
            compare(entry, &setup, given, &accesses(1024, STEPS, 9, Skew::Strong));
        }
    }
}

/// Page ids that are not page numbers, as of a compiled trace.
#[test]
fn tables_of_page_numbers_do_not_change_that() {
    let numbers: Vec<u64> = (0..900_u64).map(|id| id * 7 % 900).collect();
    for entry in registry::entries().filter(|entry| entry.capabilities.looks_at_neighbours) {
        let geometry = Geometry::table(numbers.clone().into());
        let setup = Setup { capacity_pages: vec![12, 40], geometry, ..setup(900, Indexing::Dense) };
        compare(entry, &setup, &[], &accesses(900, STEPS, 5, Skew::Strong));
    }
}

#[test]
fn several_clients_do_not_change_that() {
    let clients = Clients::new(3).unwrap();
    for entry in registry::entries().filter(|entry| entry.capabilities.takes_clients) {
        let capacity_pages = vec![8, 30];
        let setup = Setup { capacity_pages, clients, ..setup(800, Indexing::Dense) };
        let of_client = |(client, access): (u8, Access)| Access { client, ..access };
        let accesses = accesses(800, STEPS, 3, Skew::Strong);
        let turns = (0..3).cycle().zip(accesses).map(of_client);
        compare(entry, &setup, &[], &turns.collect::<Vec<_>>());
    }
}

#[test]
fn the_work_has_what_it_should() {
    let some = accesses(1000, STEPS, 1, Skew::Strong);
    let writes = some.iter().filter(|access| access.op == Op::Write).count();
    assert!((1500..2500).contains(&writes), "a third are writes");
    let hot = some.iter().filter(|access| access.page.0 < 100).count();
    assert!(hot > some.len() / 2, "few pages are hot");
}
