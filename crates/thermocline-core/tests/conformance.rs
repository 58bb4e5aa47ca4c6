//! Rules that every registered policy must keep, independent of its decisions.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod extremes;

use std::sync::Arc;

use proptest::prelude::*;
use thermocline_core::hotness;
use thermocline_core::random::SplitMix64;
use thermocline_core::registry::{self, Depth, Future, PolicyEntry};
use thermocline_core::{
    Access, Action, Actions, Admission, BoxedPolicy, Clients, ConfigError, Counts, Foresight,
    Geometry, Heat, HintLog, Indexing, Inputs, Ledger, MissOrder, Nanos, Op, PageCost, PageId, Run,
    RunLengths, Setup, Survivor, Tier, WriteMiss,
};

const PAGES: u32 = 16;

fn setup(entry: &PolicyEntry, memory_pages: u32, flash_pages: u32) -> Setup {
    let capacities = [memory_pages, flash_pages];
    let tiers = if entry.capabilities.depth.allows(2) { 2 } else { 1 };
    Setup {
        costs: vec![
            PageCost::default(),
            PageCost { read_ms: 0.16, write_ms: 0.30 },
            PageCost { read_ms: 12.7, write_ms: 13.7 },
        ],
        ..Setup::new(Geometry::linear(PAGES), capacities[..tiers].to_vec())
    }
}

/// Builds a policy for these accesses.
fn build(entry: &PolicyEntry, setup: &Setup, to_come: &[Access]) -> (BoxedPolicy, Ledger) {
    let ledger = Ledger::of_clients(PAGES, &setup.capacity_pages, setup.clients);
    (build_with(entry, setup, &small(entry), to_come).unwrap(), ledger)
}

/// Parameters by which caches whose blocks are large find room in small tiers, and are dirty.
fn small(entry: &PolicyEntry) -> Vec<(String, String)> {
    let given: &[(&str, &str)] = match &*entry.name {
        "dm-cache" => {
            &[("block_pages", "2"), ("levels", "8"), ("hotspot_min", "4"), ("mode", "writeback")]
        }
        "bcache" => &[("bucket_pages", "2"), ("mode", "writeback"), ("sequential_cutoff", "3")],
        "dm-pcache" => &[("segment_pages", "2")],
        "cachelib" => &[("region_pages", "2"), ("reinsertion_hits", "1")],
        "foyer" => &[("region_pages", "2"), ("probation_percent", "60")],
        "auto" => &[
            ("window", "8"),
            ("half_life", "1"),
            ("patience", "1"),
            ("margin", "0"),
            ("move_share", "0"),
        ],
        "open-cas" => &[("line_pages", "2"), ("mode", "wb"), ("cleaning", "acp")],
        _ => &[],
    };
    given.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect()
}

/// Return the least memory of a policy.
fn at_least(entry: &PolicyEntry, memory_pages: u32) -> u32 {
    memory_pages.max(u32::from(!entry.capabilities.runs_without_memory))
}

/// Builds a policy, with a few hints for those that need some, and what is to come for oracles.
fn build_with(
    entry: &PolicyEntry,
    setup: &Setup,
    given: &[(String, String)],
    to_come: &[Access],
) -> Result<BoxedPolicy, ConfigError> {
    let pages = setup.geometry.pages();
    let hints: HintLog = (0..pages).map(|page| (Tier::RAM, PageId(page), 0, page)).collect();
    let foresight = Foresight::new(pages, to_come.iter().map(|access| access.page))?;
    let inputs = Inputs {
        hints: Some(Arc::new(hints)),
        foresight: Some(Arc::new(foresight)),
        ..setup.inputs.clone()
    };
    entry.build(&Setup { inputs, ..setup.clone() }, &entry.values(given)?)
}

/// Return the pages with runs of neighbours, so that adjacency matters.
fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let run = (0..PAGES, 1_u32..4, any::<bool>()).prop_map(|(first, pages, is_write)| {
        let access = if is_write { Access::write } else { Access::read };
        (first..(first + pages).min(PAGES)).map(access).collect::<Vec<_>>()
    });
    prop::collection::vec(run, 0..80).prop_map(|runs| runs.concat())
}

/// Drives a policy and the Ledger, and checks both after every access.
#[track_caller]
fn drive(
    entry: &PolicyEntry,
    policy: &mut BoxedPolicy,
    ledger: &mut Ledger,
    accesses: &[Access],
) -> Vec<Action> {
    let mut actions = Actions::new();
    let mut log = vec![];
    // The clock leaps, so that policies which keep time find work to do at any setting.
    for (now, &access) in (1..).map(|step| Nanos(step << 50)).zip(accesses) {
        actions.clear();
        if entry.capabilities.needs_clock {
            policy.background(now, &mut actions);
            if let Err(violation) = ledger.between_accesses(&actions) {
                panic!("{}: background: {violation}\nactions: {actions:?}", entry.name);
            }
            policy.assert_invariants();
            log.extend_from_slice(actions.as_slice());
            actions.clear();
        }
        policy.access(access, &mut actions);
        if let Err(violation) = ledger.access(access, &actions) {
            panic!("{}: {violation}\nactions: {actions:?}", entry.name);
        }
        policy.assert_invariants();
        log.extend_from_slice(actions.as_slice());
    }
    log
}

#[track_caller]
fn flush(entry: &PolicyEntry, policy: &mut BoxedPolicy, ledger: &mut Ledger) {
    let mut actions = Actions::new();
    policy.flush(&mut actions);
    if let Err(violation) = ledger.flush(&actions) {
        panic!("{}: flush: {violation}", entry.name);
    }
    policy.assert_invariants();
}

/// Return the pages offered to flash twice within a while enter it.
fn second_offer() -> Admission {
    let mbf = hotness::registry::find("mbf").unwrap();
    let given = [("filter_bits", "64"), ("threshold", "1.5")];
    let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Admission::hot(mbf, mbf.values(&given).unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_policy_ever_loses_a_write(
        memory_pages in 0_u32..6, flash_pages in 0_u32..8, accesses in accesses(),
        more in accesses(), is_fetched in any::<bool>(), is_gated in any::<bool>(),
    ) {
        let to_come = [&accesses[..], &more].concat();
        for entry in registry::entries() {
            let write_miss = if is_fetched { WriteMiss::Fetch } else { WriteMiss::Allocate };
            let admission = if is_gated && entry.capabilities.takes_admission {
                second_offer()
            } else {
                Admission::ALL
            };
            let setup = Setup {
                write_miss, admission, ..setup(entry, at_least(entry, memory_pages), flash_pages)
            };
            let (mut policy, mut ledger) = build(entry, &setup, &to_come);
            let log = drive(entry, &mut policy, &mut ledger, &accesses);
            flush(entry, &mut policy, &mut ledger);
            drive(entry, &mut policy, &mut ledger, &more);
            flush(entry, &mut policy, &mut ledger);

            let (mut twin, mut ledger) = build(entry, &setup, &to_come);
            let again = drive(entry, &mut twin, &mut ledger, &accesses);
            prop_assert_eq!(log, again, "{}: same accesses, same actions", entry.name);
        }
    }

    /// A replay of many accesses at once counts what the actions of each say.
    #[test]
    fn accesses_at_once_are_counted_as_one_by_one(
        memory_pages in 1_u32..6, flash_pages in 0_u32..8, accesses in accesses(),
        is_fetched in any::<bool>(),
    ) {
        for entry in registry::entries() {
            let write_miss = if is_fetched { WriteMiss::Fetch } else { WriteMiss::Allocate };
            let setup = Setup { write_miss, ..setup(entry, memory_pages, flash_pages) };
            let (mut single, _) = build(entry, &setup, &accesses);
            let (mut expected, mut actions) = (Counts::new(), Actions::new());
            for &access in &accesses {
                actions.clear();
                single.access(access, &mut actions);
                expected.add(actions.as_slice());
            }
            let (mut together, _) = build(entry, &setup, &accesses);
            let mut counts = Counts::new();
            let coming = accesses.get(3..).unwrap_or_default();
            together.access_all(&accesses, coming, &mut actions, &mut counts);
            together.assert_invariants();
            prop_assert_eq!(counts, expected, "{}", entry.name);
        }
    }

    /// Without a flash tier the disk has the number that flash has otherwise.
    #[test]
    fn policies_of_memory_need_no_flash(memory_pages in 1_u32..6, accesses in accesses()) {
        for entry in registry::entries().filter(|entry| entry.capabilities.depth.allows(1)) {
            let capacity_pages = vec![memory_pages];
            let setup = Setup { capacity_pages, ..setup(entry, memory_pages, 0) };
            let (mut policy, mut ledger) = build(entry, &setup, &accesses);
            drive(entry, &mut policy, &mut ledger, &accesses);
            flush(entry, &mut policy, &mut ledger);
        }
    }

    #[test]
    fn a_sparse_index_changes_no_action(
        memory_pages in 0_u32..6, flash_pages in 0_u32..8, accesses in accesses(),
    ) {
        for entry in registry::entries() {
            let setup = setup(entry, at_least(entry, memory_pages), flash_pages);
            let [dense, sparse] = [Indexing::Dense, Indexing::Sparse].map(|indexing| {
                let setup = Setup { indexing, ..setup.clone() };
                let (mut policy, mut ledger) = build(entry, &setup, &accesses);
                drive(entry, &mut policy, &mut ledger, &accesses)
            });
            prop_assert_eq!(dense, sparse, "{}", entry.name);
        }
    }

    #[test]
    fn every_policy_takes_over_what_flash_still_holds(
        memory_pages in 0_u32..5, flash_pages in 0_u32..6,
        survivors in prop::collection::vec((0..PAGES, any::<bool>()), 0..12),
        accesses in accesses(),
    ) {
        let mut distinct: Vec<Survivor> = vec![];
        for (page, is_dirty) in survivors {
            if distinct.iter().all(|known| known.page.0 != page) {
                distinct.push(Survivor { page: PageId(page), is_dirty });
            }
        }
        for entry in registry::entries().filter(|entry| entry.capabilities.depth.allows(2)) {
            let setup = setup(entry, at_least(entry, memory_pages), flash_pages);
            let (mut policy, mut ledger) = build(entry, &setup, &accesses);
            let mut actions = Actions::new();
            policy.restore(&distinct, &mut actions);
            if let Err(violation) = ledger.restore(Tier::FLASH, &distinct, &actions) {
                panic!("{}: restore: {violation}", entry.name);
            }
            policy.assert_invariants();
            drive(entry, &mut policy, &mut ledger, &accesses);
            flush(entry, &mut policy, &mut ledger);
        }
    }
}

/// Return the policies that run on two to eight cache tiers.
fn deep_entries() -> impl Iterator<Item = &'static PolicyEntry> {
    registry::entries().filter(|entry| entry.capabilities.depth == Depth::Tiers)
}

/// Generate two, three, five or eight cache tiers; the fastest holds a page at least, the others
/// may not.
fn deep_sizes() -> impl Strategy<Value = Vec<u32>> {
    let lower = prop_oneof![Just(1_usize), Just(2), Just(4), Just(7)]
        .prop_flat_map(|tiers| prop::collection::vec(0_u32..6, tiers));
    prop_oneof![
        1 => prop_oneof![Just(2_usize), Just(3), Just(5)].prop_map(|tiers| vec![1; tiers]),
        6 => (1_u32..6, lower).prop_map(|(top, lower)| [&[top], &lower[..]].concat()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_policy_of_many_tiers_ever_loses_a_write(
        sizes in deep_sizes(), accesses in accesses(), more in accesses(),
        is_fetched in any::<bool>(),
    ) {
        for entry in deep_entries() {
            let write_miss = if is_fetched { WriteMiss::Fetch } else { WriteMiss::Allocate };
            let capacity_pages = sizes.clone();
            let setup = Setup { write_miss, capacity_pages, ..setup(entry, 1, 1) };
            let (mut policy, mut ledger) = build(entry, &setup, &accesses);
            let log = drive(entry, &mut policy, &mut ledger, &accesses);
            flush(entry, &mut policy, &mut ledger);
            drive(entry, &mut policy, &mut ledger, &more);
            flush(entry, &mut policy, &mut ledger);

            let (mut twin, mut ledger) = build(entry, &setup, &accesses);
            let again = drive(entry, &mut twin, &mut ledger, &accesses);
            prop_assert_eq!(log, again, "{}: same accesses, same actions", entry.name);
        }
    }
}

/// Generate two or three clients, or sixteen, and the client of each access.
fn clients() -> impl Strategy<Value = (Clients, Vec<u8>)> {
    prop_oneof![4 => 2_u8..4, 1 => Just(Clients::MAX)].prop_flat_map(|clients| {
        let turns = prop::collection::vec(0..clients, 1..40);
        (Just(Clients::new(clients.into()).unwrap()), turns)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// The Ledger refuses what would let one client see an old version that another has replaced.
    #[test]
    fn no_client_ever_sees_an_old_version(
        (clients, turns) in clients(), sizes in deep_sizes(), accesses in accesses(),
        is_fetched in any::<bool>(),
        survivors in prop::collection::vec(any::<bool>(), 0..6),
    ) {
        let turns = turns.iter().cycle();
        let accesses: Vec<Access> =
            accesses.iter().zip(turns).map(|(access, &client)| access.by(client)).collect();
        let survivors: Vec<Survivor> = (0..)
            .zip(survivors)
            .map(|(page, is_dirty)| Survivor { page: PageId(page), is_dirty })
            .collect();
        for entry in registry::entries().filter(|entry| entry.capabilities.takes_clients) {
            let write_miss = if is_fetched { WriteMiss::Fetch } else { WriteMiss::Allocate };
            let capacity_pages = sizes.clone();
            let setup = Setup { write_miss, capacity_pages, clients, ..setup(entry, 1, 1) };
            let (mut policy, mut ledger) = build(entry, &setup, &accesses);
            let mut actions = Actions::new();
            policy.restore(&survivors, &mut actions);
            if let Err(violation) = ledger.restore(Tier(clients.get()), &survivors, &actions) {
                panic!("{}: restore: {violation}", entry.name);
            }
            let log = drive(entry, &mut policy, &mut ledger, &accesses);
            flush(entry, &mut policy, &mut ledger);

            let (mut twin, mut ledger) = build(entry, &setup, &accesses);
            let again = drive(entry, &mut twin, &mut ledger, &accesses);
            prop_assert_eq!(log, again, "{}: same accesses, same actions", entry.name);
        }
    }
}

#[test]
fn policies_of_one_client_name_those_that_take_several() {
    let clients = Clients::new(2).unwrap();
    for entry in registry::entries() {
        let setup = Setup { clients, ..setup(entry, 3, 6) };
        match build_with(entry, &setup, &[], &[]) {
            Ok(_) => assert!(
                entry.capabilities.takes_clients && entry.capabilities.depth == Depth::Tiers
            ),
            Err(error) => {
                assert!(!entry.capabilities.takes_clients, "{}: {error}", entry.name);
                let error = error.to_string();
                assert!(
                    error.contains("2 were given")
                        && error.contains("demote")
                        && error.contains("promote")
                );
            }
        }
    }
    assert!(!registry::find("ulc").unwrap().capabilities.takes_clients);
    let demote = registry::find("demote").unwrap();
    let pages = Setup { geometry: Geometry::linear(1 << 30), clients, ..setup(demote, 3, 6) };
    assert!(demote.build_default(&pages).unwrap_err().to_string().contains("fewer clients"));
}

/// A write of one client goes through to the tier where the others read it.
#[test]
fn several_clients_write_through() {
    let clients = Clients::new(2).unwrap();
    let writing_back = registry::entries().filter(|entry| {
        entry.capabilities.takes_clients && entry.capabilities.write_back.is_some()
    });
    for entry in writing_back {
        let given = [("writes".to_owned(), "back".to_owned())];
        assert!(build_with(entry, &setup(entry, 3, 6), &given, &[]).is_ok());
        let error = build_with(entry, &Setup { clients, ..setup(entry, 3, 6) }, &given, &[]);
        assert!(error.unwrap_err().to_string().contains("must be `through`"));
    }
}

/// Every parameter at its least and its greatest value, one at a time.
#[test]
fn extremes_of_every_parameter_are_harmless() {
    let accesses: Vec<Access> = (0..400_u32)
        .map(|step| {
            let page = step.wrapping_mul(2_654_435_761) >> 20;
            if step % 3 == 0 { Access::write(page % PAGES) } else { Access::read(page % PAGES) }
        })
        .collect();
    let check = |entry: &PolicyEntry, setup: &Setup| {
        for parameter in entry.parameters {
            for text in extremes::of(parameter) {
                let given = [small(entry), vec![(parameter.name.to_owned(), text)]].concat();
                let mut policy = build_with(entry, setup, &given, &accesses).unwrap();
                let mut ledger = Ledger::new(PAGES, &setup.capacity_pages);
                drive(entry, &mut policy, &mut ledger, &accesses);
                flush(entry, &mut policy, &mut ledger);
            }
        }
    };
    for entry in registry::entries() {
        check(entry, &setup(entry, 3, 5));
    }
    for entry in deep_entries() {
        for sizes in [&[1, 1][..], &[3, 0, 5], &[1, 1, 1], &[2, 1, 3, 1, 4]] {
            check(entry, &Setup { capacity_pages: sizes.to_vec(), ..setup(entry, 1, 1) });
        }
    }
}

#[test]
fn memory_of_no_page_and_unknown_names_are_refused() {
    for entry in registry::entries() {
        match build_with(entry, &setup(entry, 0, 4), &[], &[]) {
            Ok(_) => assert!(entry.capabilities.runs_without_memory, "{}", entry.name),
            Err(error) => assert!(error.to_string().contains("at least one page"), "{error}"),
        }
        let deep = Setup { capacity_pages: vec![1; 9], ..setup(entry, 1, 1) };
        assert!(entry.build_default(&deep).unwrap_err().to_string().contains("runs on"));
        let given = [("no_such_thing".to_owned(), "1".to_owned())];
        let error = entry.values(&given).unwrap_err().to_string();
        assert!(error.contains("no_such_thing"), "{error}");
    }
    assert!(registry::find("hatt").unwrap_err().to_string().contains("hatt"));
}

#[test]
fn oracles_are_told_what_is_to_come_or_refused() {
    let mut oracles = vec![];
    for entry in registry::entries() {
        let inputs = Inputs::from(HintLog::new());
        match entry.build_default(&Setup { inputs, ..setup(entry, 3, 6) }) {
            Ok(_) => assert!(entry.capabilities.future != Future::Accesses, "{}", entry.name),
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("oracle") && error.contains("replay of a trace"), "{error}");
                oracles.push(&*entry.name);
            }
        }
    }
    assert_eq!(oracles, ["opt"]);
}

/// If flash and memory hold every page, each page is read from disk once, except by a cache that
/// reads a block again to promote it.
#[test]
fn what_fits_is_read_once() {
    let accesses: Vec<Access> =
        (0..PAGES).chain(0..PAGES).chain(0..PAGES).map(Access::read).collect();
    for entry in registry::entries() {
        let setup = setup(entry, PAGES, PAGES);
        let (mut policy, mut ledger) = build(entry, &setup, &accesses);
        drive(entry, &mut policy, &mut ledger, &accesses);
        let reads = ledger.counts().page_reads(setup.disk());
        let pages = u64::from(PAGES);
        assert!(reads == pages || entry.name == "dm-cache" && reads > pages, "{}", entry.name);
    }
}

/// Exclusive flash offers what leaves memory; what enters flash is what the identifier finds hot.
#[test]
fn only_hot_pages_enter_flash() {
    let accesses: Vec<Access> = (0..4000_u32)
        .map(|step| {
            let page = (step.wrapping_mul(2_654_435_761) >> 24) % PAGES;
            if step % 5 == 0 { Access::write(page / 3) } else { Access::read(page) }
        })
        .collect();
    let mut ever_refused = 0;
    for name in ["lru-exclusive", "face", "face-gr", "face-gsc"] {
        let entry = registry::find(name).unwrap();
        let setup = Setup { admission: second_offer(), ..setup(entry, 3, 6) };
        let (mut policy, mut ledger) = build(entry, &setup, &accesses);
        let (identifier, values) = setup.admission.identifier().unwrap();
        let mut twin = identifier.build(PAGES, values).unwrap();
        let mut on_flash = [false; PAGES as usize];
        for &access in &accesses {
            let actions = drive(entry, &mut policy, &mut ledger, &[access]);
            let was_on_flash = on_flash;
            let mut entered = vec![];
            for action in actions {
                match action {
                    Action::Copy { page, source: Tier::RAM, target: Tier::FLASH } => {
                        entered.push(page);
                    }
                    Action::Drop { page, tier: Tier::RAM } => {
                        let has_entered = entered.contains(&page);
                        if !was_on_flash[page.index()] {
                            let heat = twin.record(page);
                            assert_eq!(has_entered, heat == Heat::Hot, "{name}, page {}", page.0);
                            ever_refused += u32::from(!has_entered);
                        }
                        on_flash[page.index()] |= has_entered;
                    }
                    Action::Drop { page, tier: Tier::FLASH } if !entered.contains(&page) => {
                        on_flash[page.index()] = false;
                    }
                    Action::Drop { .. } | Action::Copy { .. } | Action::Serve { .. } => {}
                }
            }
        }
    }
    assert!(ever_refused > 100, "the identifier refused {ever_refused} pages");
}

#[test]
fn policies_with_an_admission_of_their_own_take_no_other() {
    for entry in registry::entries() {
        let setup = Setup { admission: second_offer(), ..setup(entry, 3, 6) };
        match build_with(entry, &setup, &[], &[]) {
            Ok(_) => assert!(entry.capabilities.takes_admission, "{}", entry.name),
            Err(error) => {
                assert!(!entry.capabilities.takes_admission, "{}: {error}", entry.name);
                assert!(error.to_string().contains("lru-inclusive"), "{error}");
            }
        }
    }
}

/// Pages of RAM in tests of neighbours.
const RAM_PAGES: u32 = 24;

/// Runs of pages below 256.
fn runs_of_pages() -> Vec<Access> {
    let mut random = SplitMix64::new(5);
    let mut below = |bound: u64| u32::try_from(random.bits() % bound).unwrap();
    let mut accesses = vec![];
    for _ in 0..1500 {
        let (first, pages, is_write) = (below(252), 1 + below(4), below(3) == 0);
        let access = if is_write { Access::write } else { Access::read };
        accesses.extend((first..first + pages).map(access));
    }
    accesses
}

/// Return the actions of a policy on runs of pages with these numbers on disk, built with these
/// inputs.
fn actions_on(entry: &PolicyEntry, geometry: Geometry, inputs: &Inputs) -> Vec<Action> {
    let mut setup = Setup { geometry, ..setup(entry, RAM_PAGES, 96) };
    setup.inputs = inputs.clone();
    actions_of(entry, &setup, &small(entry))
}

fn actions_of(entry: &PolicyEntry, setup: &Setup, given: &[(String, String)]) -> Vec<Action> {
    let accesses = runs_of_pages();
    let mut policy = build_with(entry, setup, given, &accesses).unwrap();
    let (mut log, mut actions) = (vec![], Actions::new());
    for access in accesses {
        actions.clear();
        policy.access(access, &mut actions);
        log.extend_from_slice(actions.as_slice());
    }
    log
}

#[test]
fn policies_that_look_at_neighbours_say_so_and_the_others_do_not_look() {
    let scattered: Arc<[u64]> = (0..256).map(|page| page * 97 % 256 * 3).collect();
    for entry in registry::entries() {
        let near = actions_on(entry, Geometry::linear(256), &Inputs::NONE);
        let far = actions_on(entry, Geometry::table(Arc::clone(&scattered)), &Inputs::NONE);
        assert_eq!(near != far, entry.capabilities.looks_at_neighbours, "{}", entry.name);
    }
}

/// Return the order of misses that an LRU memory of [`RAM_PAGES`] has, on a disk whose page numbers
/// are the ids.
fn order_of_misses() -> MissOrder {
    let (mut memory, mut last): (Vec<PageId>, Option<PageId>) = (vec![], None);
    let follows = runs_of_pages().into_iter().map(|Access { page, .. }| {
        let follows = last.is_some_and(|last| last.0 + 1 == page.0);
        if !memory.contains(&page) {
            last = Some(page);
        }
        memory.retain(|&other| other != page);
        memory.insert(0, page);
        memory.truncate(RAM_PAGES as usize);
        follows
    });
    follows.collect()
}

#[test]
fn policies_that_ask_for_the_order_of_misses_find_that_of_an_lru_memory() {
    let order = Arc::new(order_of_misses());
    let none_follows = Arc::new(MissOrder::default());
    let mut asking = 0;
    for entry in registry::entries() {
        let asks = entry.capabilities.asks_for_miss_order;
        let on = |miss_order: Option<&Arc<MissOrder>>| {
            let inputs = Inputs { miss_order: miss_order.cloned(), ..Inputs::NONE };
            actions_on(entry, Geometry::linear(256), &inputs)
        };
        let alone = on(None);
        assert!(on(Some(&order)) == alone, "{}: the order is not what it finds alone", entry.name);
        let heeds = on(Some(&none_follows)) != alone;
        assert!(asks || !heeds, "{} heeds an order that it does not ask for", entry.name);
        asking += u32::from(heeds);
    }
    // By default, TAC's extents warm alike by sequential and random misses.
    assert!(asking >= 3, "{asking} policies heed the order of misses");
}

/// Return the sequential runs that the accesses end, by op, as a policy finds them that sees all of
/// them.
fn lengths_of_runs() -> RunLengths {
    let mut streams: Vec<(Op, u32, u32)> = vec![];
    let run = |Access { page, op, .. }: Access| {
        let known = streams.iter().rposition(|&(of, next, _)| of == op && next == page.0);
        let pages = known.map_or(0, |place| streams.remove(place).2) + 1;
        streams.push((op, page.0 + 1, pages));
        Run { pages, remembered_pages: pages, mean_pages: 0 }
    };
    runs_of_pages().into_iter().map(run).collect()
}

#[test]
fn policies_that_ask_for_run_lengths_heed_them_and_the_others_do_not() {
    let lengths = Arc::new(lengths_of_runs());
    let all_short = Arc::new(RunLengths::default());
    let mut asking = 0;
    for entry in registry::entries() {
        let on = |run_lengths: Option<&Arc<RunLengths>>| {
            let cutoffs =
                [("sequential_cutoff", "3"), ("seq_threshold", "3"), ("seq_policy", "always")];
            let given = cutoffs.into_iter().filter(|(name, _)| {
                entry.parameters.iter().any(|parameter| parameter.name == *name)
            });
            let mut all = small(entry);
            all.extend(given.map(|(name, value)| (name.to_owned(), value.to_owned())));
            let mut setup =
                Setup { geometry: Geometry::linear(256), ..setup(entry, RAM_PAGES, 96) };
            if entry.capabilities.runs_without_memory {
                // Memory above answers a part of each run.
                setup.capacity_pages[0] = 0;
            }
            setup.inputs.run_lengths = run_lengths.cloned();
            actions_of(entry, &setup, &all)
        };
        let heeds = on(Some(&all_short)) != on(Some(&lengths));
        assert_eq!(heeds, entry.capabilities.asks_for_run_lengths, "{}", entry.name);
        asking += u32::from(heeds);
    }
    assert!(asking >= 2, "{asking} policies heed the lengths of runs");
}
