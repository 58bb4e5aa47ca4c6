//! One candidate alone, handovers from each to each, and changes that phases bring about.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::random::SplitMix64;
use crate::{Action, Counts, Ledger, Op};

const PAGES: u32 = 200;

fn values(given: &[(&str, &str)]) -> Values {
    let owned = |&(name, text): &(&str, &str)| (name.to_owned(), text.to_owned());
    AUTO.values(&given.iter().map(owned).collect::<Vec<_>>()).unwrap()
}

fn build(setup: &Setup, given: &[(&str, &str)]) -> Auto {
    Auto::new(setup, &values(given))
}

/// Return the accesses to hot pages, of which a few are others; a third are writes.
fn accesses(count: usize, first_hot: u32, seed: u64) -> Vec<Access> {
    let mut random = SplitMix64::new(seed);
    let mut access = || {
        let page = match random.below(4) {
            0 => random.below(PAGES),
            1 => (first_hot + random.below(60)) % PAGES,
            _ => (first_hot + random.below(15)) % PAGES,
        };
        if random.below(3) == 0 { Access::write(page) } else { Access::read(page) }
    };
    (0..count).map(|_| access()).collect()
}

#[test]
fn one_candidate_alone_decides_as_ever() {
    let setup = Setup::hybrid(PAGES, 12, 40);
    for candidate in CANDIDATES {
        let mut auto = build(&setup, &[("candidates", candidate.word)]);
        let mut alone = candidate.build(&setup);
        let [mut actions, mut expected] = [Actions::new(), Actions::new()];
        for access in accesses(3000, 50, 1) {
            assert_eq!(auto.step(access, &mut actions), alone.step(access, &mut expected));
        }
        for log in [&mut actions, &mut expected] {
            log.clear();
        }
        auto.flush(&mut actions);
        alone.flush(&mut expected);
        assert_eq!(actions, expected, "{}", candidate.word);
        assert_eq!(auto.memory_bytes(), alone.memory_bytes(), "nothing is kept for a choice");
    }
}

/// Drives a policy, the contents that it is known to have, and the Ledger.
fn drive(policy: &mut BoxedPolicy, contents: &mut Contents, ledger: &mut Ledger, all: &[Access]) {
    let mut actions = Actions::new();
    for &access in all {
        let of_access = policy.step(access, &mut actions);
        contents.access(access.page, of_access);
        ledger.access(access, &actions).unwrap();
        contents.assert_invariants();
    }
}

#[test]
fn every_candidate_takes_over_from_every_other_one() {
    for (former, adopted, [memory_pages, flash_pages]) in CANDIDATES
        .iter()
        .flat_map(|former| CANDIDATES.iter().map(move |adopted| (former, adopted)))
        .flat_map(|(former, adopted)| {
            [[12, 40], [1, 1], [30, 7], [9, 0]].map(|sizes| (former, adopted, sizes))
        })
    {
        let setup = Setup::hybrid(PAGES, memory_pages, flash_pages);
        let mut ledger = Ledger::new(PAGES, &setup.capacity_pages);
        let mut contents = Contents::new(setup.ids(), memory_pages, flash_pages);
        let mut policy = former.build(&setup);
        let context = alloc::format!("{} to {}, {memory_pages}", former.word, adopted.word);
        let accesses = accesses(900, 50, 7);
        drive(&mut policy, &mut contents, &mut ledger, &accesses);
        let held = |ledger: &Ledger| -> Vec<bool> {
            let is_held = |page| {
                [Tier::RAM, Tier::FLASH].iter().any(|&tier| ledger.is_current(tier, PageId(page)))
            };
            (0..PAGES).map(is_held).collect()
        };
        let before = held(&ledger);
        let mut policy = adopted.build(&setup);
        let mut actions = Actions::new();
        contents.hand_over(&mut *policy, &mut actions);
        if let Err(violation) = ledger.between_accesses(&actions) {
            panic!("{context}: {violation}");
        }
        contents.assert_invariants();
        policy.assert_invariants();
        for action in actions.as_slice() {
            assert!(
                !matches!(action, Action::Serve { .. } | Action::Copy { source: Tier::DISK, .. }),
                "{context}: what is cached needs no disk: {action:?}"
            );
        }
        let kept = held(&ledger).iter().zip(&before).filter(|(now, _)| **now).count();
        assert!(held(&ledger).iter().zip(&before).all(|(now, before)| *before || !now));
        let had = before.iter().filter(|held| **held).count();
        assert!(kept > 0 && kept * 5 >= had, "{context}: {kept} of {had} pages are kept");
        drive(&mut policy, &mut contents, &mut ledger, &accesses);
        actions.clear();
        policy.flush(&mut actions);
        ledger.flush(&actions).unwrap();
    }
}

#[test]
fn an_order_is_handed_over_unchanged() {
    let setup = Setup::hybrid(PAGES, 12, 40);
    let exclusive = CANDIDATES.iter().find(|one| one.word == "lru-exclusive").unwrap();
    let mut ledger = Ledger::new(PAGES, &setup.capacity_pages);
    let mut contents = Contents::new(setup.ids(), 12, 40);
    let mut policy = exclusive.build(&setup);
    drive(&mut policy, &mut contents, &mut ledger, &accesses(900, 50, 7));
    let mut adopted = exclusive.build(&setup);
    let mut moves = Actions::new();
    contents.hand_over(&mut *adopted, &mut moves);
    assert_eq!(moves.as_slice(), [], "nothing has to move");
    let [mut expected, mut actions] = [Actions::new(), Actions::new()];
    for access in accesses(900, 90, 8) {
        assert_eq!(adopted.step(access, &mut actions), policy.step(access, &mut expected));
    }
}

/// Hot pages that fit, then a loop that LRU misses altogether, and so on.
fn phases() -> Vec<Access> {
    let mut all = vec![];
    for phase in 0..6 {
        if phase % 2 == 0 {
            all.extend(accesses(6000, phase * 30, phase.into()));
        } else {
            all.extend((0..6000).map(|step| Access::read(step % 80)));
        }
    }
    all
}

const EAGER: &[(&str, &str)] = &[
    ("candidates", "lru-exclusive+exclusive-w-tinylfu+hat"),
    ("window", "100"),
    ("patience", "2"),
    ("move_share", "0.1"),
];

#[test]
fn phases_change_the_candidate_in_force_and_it_pays() {
    let setup = Setup::hybrid(PAGES, 12, 40);
    let run = |given: &[(&str, &str)]| {
        let mut auto = build(&setup, given);
        let mut ledger = Ledger::new(PAGES, &setup.capacity_pages);
        let (mut actions, mut counts) = (Actions::new(), Counts::new());
        for access in phases() {
            counts.add(auto.step(access, &mut actions));
            ledger.access(access, &actions).unwrap();
            auto.assert_invariants();
        }
        let changes = auto.choosing().map_or_else(Vec::new, |choosing| choosing.recent);
        (counts.io_time_ms(&COSTS), changes, auto)
    };
    let (time_ms, changes, auto) = run(EAGER);
    assert!(changes.len() >= 2, "{changes:?}");
    for (number, change) in (1..).zip(&changes) {
        assert_eq!(change.number, number, "none is left out");
        assert!(change.adopted_ms_per_access < change.former_ms_per_access, "{change:?}");
    }
    for pair in changes.windows(2) {
        assert_eq!(pair[0].adopted, pair[1].former);
        assert!(pair[0].accesses + pair[1].over_accesses <= pair[1].accesses);
    }
    for single in ["lru-exclusive", "exclusive-w-tinylfu", "hat"] {
        let (single_ms, none, _) = run(&[("candidates", single)]);
        assert!(none.is_empty());
        assert!(time_ms < single_ms, "{single}: {single_ms}, auto: {time_ms}");
    }
    let mut gauges: Vec<(String, f64)> = vec![];
    auto.gauges(&mut |name, _, value| gauges.push((name.to_owned(), value)));
    let names: Vec<&str> = gauges.iter().map(|(name, _)| &**name).collect();
    let words = ["hat", "lru-exclusive", "exclusive-w-tinylfu"];
    assert_eq!(names, [&["in_force", "switches", "regret_ms"], &words[..]].concat());
    let in_force = &changes.last().unwrap().adopted;
    let place = words.iter().position(|word| *word == in_force).unwrap();
    assert_eq!((gauges[0].1, gauges[1].1), (place as f64 + 1.0, changes.len() as f64));
    assert!(gauges[2].1 < 0.0, "changing has paid: {gauges:?}");
}

#[test]
fn wear_and_measured_costs_are_part_of_the_price() {
    let setup = Setup { costs: vec![], ..Setup::hybrid(PAGES, 12, 40) };
    let of = |given: &[(&str, &str)]| costs(&setup, &values(given));
    assert_eq!(of(&[]), COSTS);
    let measured = of(&[("flash_write_ms", "0.5"), ("disk_read_ms", "7")]);
    assert_eq!((measured[1].read_ms, measured[1].write_ms), (0.16, 0.5));
    assert_eq!((measured[2].read_ms, measured[2].write_ms), (7.0, 13.7));
    let own = PageCost { read_ms: 1.0, write_ms: 2.0 };
    assert_eq!(costs(&Setup { costs: vec![own; 3], ..setup.clone() }, &values(&[])), [own; 3]);
    // Where a page written to flash counts as much as a seek, what writes least is adopted.
    let adopted = |wear_ms: &str| {
        let given =
            [&EAGER[1..], &[("candidates", "lru-exclusive+second-access"), ("wear_ms", wear_ms)]];
        let mut auto = build(&setup, &given.concat());
        let mut actions = Actions::new();
        for access in accesses(20_000, 50, 3) {
            auto.step(access, &mut actions);
        }
        let choosing = auto.choosing().unwrap();
        (choosing.in_force.into_owned(), choosing.switches)
    };
    assert_eq!(adopted("0"), ("lru-exclusive".to_owned(), 0));
    assert_eq!(adopted("20"), ("second-access".to_owned(), 1));
}

#[test]
fn a_sample_is_that_of_the_page_numbers() {
    let scattered: alloc::sync::Arc<[u64]> =
        (0..20_000).map(|id| (id * 7919 % 20_000) * 3 + (1 << 40)).collect();
    let setup = Setup {
        geometry: crate::Geometry::table(scattered.clone()),
        ..Setup::hybrid(20_000, 2048, 4096)
    };
    let sorted = crate::Geometry::table({
        let mut sorted = scattered.to_vec();
        sorted.sort_unstable();
        sorted.into()
    });
    let id_of = |number: u64| sorted.ids().find(|&id| sorted.page_number(PageId(id)) == number);
    let other = Setup { geometry: sorted.clone(), ..setup.clone() };
    let mut random = SplitMix64::new(5);
    let ids: Vec<u32> = (0..3000).map(|_| random.below(20_000)).collect();
    let run = |setup: &Setup, id: &dyn Fn(u32) -> u32| -> Vec<f64> {
        let mut auto = build(setup, &[]);
        let mut actions = Actions::new();
        for &page in &ids {
            let page = PageId(id(page));
            auto.access(Access { page, op: Op::Read, client: 0 }, &mut actions);
        }
        let mut times = vec![];
        auto.gauges(&mut |_, _, value| times.push(value));
        times
    };
    let here = run(&setup, &|id| id);
    assert!(here[3] > 1.0, "an eighth of the pages is enough to say something: {here:?}");
    let there = run(&other, &|id| id_of(scattered[id as usize]).unwrap());
    assert_eq!(here, there, "whatever ids pages have");
}
