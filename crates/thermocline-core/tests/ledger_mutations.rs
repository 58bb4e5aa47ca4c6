//! The Ledger accepts a right action log and refuses every wrong one, with its place.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use thermocline_core::{
    Access, Action, Actions, Clients, Inputs, Ledger, Op, PageId, Reason, Tier, Violation,
};

const RAM: Tier = Tier::RAM;
const FLASH: Tier = Tier::FLASH;
const DISK: Tier = Tier::DISK;

fn serve(page: u32, op: Op, found: Tier, tier: Tier) -> Action {
    Action::Serve { page: PageId(page), op, found, tier }
}

fn copy(page: u32, source: Tier, target: Tier) -> Action {
    Action::Copy { page: PageId(page), source, target }
}

fn drop_copy(page: u32, tier: Tier) -> Action {
    Action::Drop { page: PageId(page), tier }
}

/// Return a run over memory of one page and flash of one page: each access with its actions.
fn right_log() -> Vec<(Access, Vec<Action>)> {
    vec![
        (Access::write(1), vec![copy(1, DISK, RAM), serve(1, Op::Write, DISK, RAM)]),
        (
            Access::read(2),
            vec![
                copy(2, DISK, RAM),
                serve(2, Op::Read, DISK, RAM),
                copy(1, RAM, FLASH),
                drop_copy(1, RAM),
            ],
        ),
        (
            Access::write(1),
            vec![copy(1, FLASH, RAM), serve(1, Op::Write, FLASH, RAM), drop_copy(2, RAM)],
        ),
        (Access::read(1), vec![serve(1, Op::Read, RAM, RAM)]),
    ]
}

fn run(log: &[(Access, Vec<Action>)]) -> Result<Ledger, Violation> {
    let mut ledger = Ledger::new(4, &[1, 1]);
    for (access, steps) in log {
        ledger.access(*access, &actions(steps))?;
    }
    Ok(ledger)
}

fn actions(steps: &[Action]) -> Actions {
    let mut actions = Actions::new();
    for step in steps {
        match *step {
            Action::Serve { page, op, found, tier } => actions.serve(page, op, found, tier),
            Action::Copy { page, source, target } => actions.copy(page, source, target),
            Action::Drop { page, tier } => actions.drop_copy(page, tier),
        }
    }
    actions
}

/// Replaces the actions of one access, and says why the Ledger refuses the log.
#[track_caller]
fn check(access_number: usize, mutated: Vec<Action>, page: u32, reason: &Reason) {
    let mut log = right_log();
    log[access_number - 1].1 = mutated;
    log.truncate(access_number);
    let violation = run(&log).expect_err("the log is wrong");
    assert_eq!(violation.reason, *reason);
    assert_eq!(violation.page, PageId(page));
    assert_eq!(violation.access_number, access_number as u64);
    let message = violation.to_string();
    assert!(message.contains(&format!("access {access_number}, page {page}")), "{message}");
    if let Some(action) = violation.action {
        assert!(message.contains(&format!("{action:?}")), "{message}");
    }
}

#[test]
fn a_right_log_is_accepted_and_counted() {
    let ledger = run(&right_log()).unwrap();
    assert_eq!([RAM, FLASH, DISK].map(|tier| ledger.counts().hits(tier)), [1, 1, 2]);
    assert_eq!([RAM, FLASH, DISK].map(|tier| ledger.counts().page_reads(tier)), [3, 1, 2]);
    assert_eq!([RAM, FLASH, DISK].map(|tier| ledger.counts().page_writes(tier)), [5, 1, 0]);
    assert_eq!(ledger.dirty_pages().collect::<Vec<_>>(), [PageId(1)]);
    assert!(ledger.is_current(RAM, PageId(1)) && !ledger.is_current(FLASH, PageId(1)));
    assert!(ledger.holds(FLASH, PageId(1)) && !ledger.holds(RAM, PageId(2)));
    assert_eq!((ledger.held_pages(RAM), ledger.held_pages(FLASH)), (1, 1));
}

/// Check two clients with first tiers of one page, over a shared tier of one page.
fn two_clients(log: &[(Access, Vec<Action>)]) -> Result<Ledger, Violation> {
    let mut ledger = Ledger::of_clients(4, &[1, 1], Clients::new(2).unwrap());
    for (access, steps) in log {
        ledger.access(*access, &actions(steps))?;
    }
    Ok(ledger)
}

const TOPS: [Tier; 2] = [Tier(0), Tier(1)];
const SHARED: Tier = Tier(2);
const DISK_OF_TWO: Tier = Tier(3);

/// Return accesses by which both clients read a page, one writes it, and the other reads it again.
fn right_log_of_two() -> Vec<(Access, Vec<Action>)> {
    let [one, other] = TOPS;
    vec![
        (
            Access::read(1),
            vec![
                copy(1, DISK_OF_TWO, SHARED),
                copy(1, SHARED, one),
                serve(1, Op::Read, DISK_OF_TWO, one),
            ],
        ),
        (Access::read(1).by(1), vec![copy(1, SHARED, other), serve(1, Op::Read, SHARED, other)]),
        (
            Access::write(1),
            vec![
                drop_copy(1, other),
                serve(1, Op::Write, one, one),
                copy(1, one, SHARED),
                copy(1, one, DISK_OF_TWO),
            ],
        ),
        (Access::read(1).by(1), vec![copy(1, SHARED, other), serve(1, Op::Read, SHARED, other)]),
    ]
}

#[test]
fn a_right_log_of_two_clients_is_accepted_and_counted() {
    let ledger = two_clients(&right_log_of_two()).unwrap();
    let tiers = [TOPS[0], TOPS[1], SHARED, DISK_OF_TWO];
    assert_eq!(tiers.map(|tier| ledger.counts().hits(tier)), [1, 0, 2, 1]);
    assert_eq!(tiers[..3].iter().map(|&tier| ledger.held_pages(tier)).sum::<u32>(), 3);
}

/// Replaces the actions of one access of the log of two clients.
#[track_caller]
fn check_two(access_number: usize, mutated: Vec<Action>, reason: &Reason) {
    let mut log = right_log_of_two();
    log[access_number - 1].1 = mutated;
    log.truncate(access_number);
    let violation = two_clients(&log).expect_err("the log is wrong");
    assert_eq!((&violation.reason, violation.page), (reason, PageId(1)));
    assert_eq!(violation.access_number, access_number as u64);
    assert!(!violation.to_string().is_empty());
}

#[test]
fn breaking_a_rule_of_several_clients() {
    let [one, other] = TOPS;
    let serves_other = serve(1, Op::Read, SHARED, one);
    check_two(2, vec![serves_other], &Reason::NotSeen { tier: one, client: 1 });
    let found_other = vec![copy(1, SHARED, other), serve(1, Op::Read, one, other)];
    check_two(2, found_other, &Reason::FoundElsewhere { claimed: one, actual: SHARED });
    let across = vec![copy(1, one, other), serve(1, Op::Read, SHARED, other)];
    check_two(2, across, &Reason::NoPath { source: one, target: other });
    let write = serve(1, Op::Write, one, one);
    let leaves_stale = vec![write, copy(1, one, SHARED), copy(1, one, DISK_OF_TWO)];
    check_two(3, leaves_stale, &Reason::LeftStale(other));
    check_two(3, vec![drop_copy(1, other), write], &Reason::NotShared(one));
    let renewed_by_path = vec![write, copy(1, one, SHARED), copy(1, SHARED, other)];
    let mut log = right_log_of_two();
    log[2].1 = renewed_by_path;
    log.truncate(3);
    assert!(two_clients(&log).is_ok(), "the other's copy may be renewed instead");
    let stranger = vec![(Access::read(1).by(2), vec![])];
    assert_eq!(two_clients(&stranger).unwrap_err().reason, Reason::NoSuchClient(2));
}

/// Work between accesses keeps the rules of several clients, too.
#[test]
fn an_old_version_is_not_brought_to_a_client() {
    let mut ledger = two_clients(&right_log_of_two()[..2]).unwrap();
    let [one, other] = TOPS;
    let steps = [drop_copy(1, other), serve(1, Op::Write, one, one), copy(1, one, SHARED)];
    ledger.access(Access::write(1), &actions(&steps)).unwrap();
    let violation = ledger.between_accesses(&actions(&[copy(1, DISK_OF_TWO, other)])).unwrap_err();
    assert_eq!(violation.reason, Reason::LeftStale(other));
}

#[test]
fn serving_from_a_tier_without_a_current_copy() {
    check(4, vec![serve(1, Op::Read, RAM, FLASH)], 1, &Reason::Stale(FLASH));
    check(2, vec![serve(2, Op::Read, DISK, RAM)], 2, &Reason::Absent(RAM));
}

#[test]
fn claiming_a_hit_elsewhere() {
    let reason = Reason::FoundElsewhere { claimed: FLASH, actual: RAM };
    check(4, vec![serve(1, Op::Read, FLASH, RAM)], 1, &reason);
    let reason = Reason::FoundElsewhere { claimed: DISK, actual: FLASH };
    check(3, vec![copy(1, FLASH, RAM), serve(1, Op::Write, DISK, RAM)], 1, &reason);
}

#[test]
fn exceeding_a_capacity() {
    let reason = Reason::CapacityExceeded { tier: RAM, held_pages: 2, capacity_pages: 1 };
    check(2, vec![copy(2, DISK, RAM), serve(2, Op::Read, DISK, RAM)], 2, &reason);
}

#[test]
fn losing_the_only_current_copy() {
    let mutated = vec![copy(2, DISK, RAM), serve(2, Op::Read, DISK, RAM), drop_copy(1, RAM)];
    check(2, mutated, 1, &Reason::LastCurrentCopy(RAM));
}

#[test]
fn copying_from_an_absent_source() {
    let mutated = vec![copy(2, FLASH, RAM), serve(2, Op::Read, DISK, RAM)];
    check(2, mutated, 2, &Reason::Absent(FLASH));
}

#[test]
fn copying_an_old_version_over_a_newer_one() {
    let mutated = vec![serve(1, Op::Read, RAM, RAM), copy(1, FLASH, RAM)];
    check(4, mutated, 1, &Reason::Overwrites(RAM));
}

#[test]
fn serving_not_once() {
    check(4, vec![], 1, &Reason::ServedTimes(0));
    let twice = vec![serve(1, Op::Read, RAM, RAM), serve(1, Op::Read, RAM, RAM)];
    check(4, twice, 1, &Reason::ServedTimes(2));
}

#[test]
fn serving_what_was_not_asked_for() {
    check(4, vec![serve(1, Op::Write, RAM, RAM)], 1, &Reason::WrongAccess);
    check(4, vec![serve(2, Op::Read, RAM, RAM)], 2, &Reason::WrongAccess);
}

#[test]
fn dropping_what_is_not_there_or_from_disk() {
    let mutated = vec![serve(1, Op::Read, RAM, RAM), drop_copy(3, FLASH)];
    check(4, mutated, 3, &Reason::Absent(FLASH));
    let mutated = vec![serve(1, Op::Read, RAM, RAM), drop_copy(1, DISK)];
    check(4, mutated, 1, &Reason::DropsFromDisk);
}

#[test]
fn naming_a_tier_or_page_that_does_not_exist() {
    let mutated = vec![serve(1, Op::Read, RAM, RAM), copy(1, RAM, Tier(3))];
    check(4, mutated, 1, &Reason::NoSuchTier(Tier(3)));
    let mutated = vec![serve(1, Op::Read, RAM, RAM), copy(9, DISK, RAM)];
    check(4, mutated, 9, &Reason::NoSuchPage);
}

#[test]
fn flushing_leaves_nothing_dirty() {
    let mut ledger = run(&right_log()).unwrap();
    let forgotten = ledger.clone().flush(&Actions::new()).unwrap_err();
    assert_eq!((forgotten.page, forgotten.reason), (PageId(1), Reason::NotFlushed));
    let stale = ledger.clone().flush(&actions(&[copy(1, FLASH, DISK)])).unwrap_err();
    assert_eq!((stale.page, stale.reason), (PageId(1), Reason::NotFlushed));
    let serving = ledger.clone().flush(&actions(&[serve(1, Op::Read, RAM, RAM)])).unwrap_err();
    assert_eq!(serving.reason, Reason::WrongAccess);
    ledger.flush(&actions(&[copy(1, RAM, DISK)])).unwrap();
    assert_eq!(ledger.dirty_pages().count(), 0);
}

/// Real logs of every policy with one action wrong: each is refused, at the access concerned.
mod real_logs {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::sync::Arc;

    use thermocline_core::{Foresight, Geometry, PageCost, Setup, registry};

    use super::*;

    const PAGES: u32 = 12;
    const SIZES: [u32; 2] = [2, 4];

    /// Return the accesses that prefer some pages.
    fn accesses() -> Vec<Access> {
        let mut state = 1_u32;
        let accesses = (0..120).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let page = ((state >> 16) % PAGES).min((state >> 24) % PAGES);
            if state >> 30 == 0 { Access::write(page) } else { Access::read(page) }
        });
        accesses.collect()
    }

    /// Return the log of a policy, one vector of actions per access.
    fn log(entry: &registry::PolicyEntry) -> Vec<(Access, Vec<Action>)> {
        let accesses = accesses();
        let to_come = Foresight::new(PAGES, accesses.iter().map(|access| access.page)).unwrap();
        let foresight = Some(Arc::new(to_come));
        let inputs = Inputs { hints: Some(Arc::default()), foresight, ..Inputs::NONE };
        let setup = Setup {
            costs: vec![PageCost::default(); 3],
            inputs,
            ..Setup::new(Geometry::linear(PAGES), SIZES.to_vec())
        };
        let mut policy = entry.build_default(&setup).unwrap();
        let mut buffer = Actions::new();
        let mut log = vec![];
        for access in accesses {
            buffer.clear();
            policy.access(access, &mut buffer);
            log.push((access, buffer.as_slice().to_vec()));
        }
        log
    }

    /// Calls `visit` with each access, its actions, its number and the Ledger before it.
    fn replay(mut visit: impl FnMut(&str, usize, Access, &[Action], &Ledger)) {
        for entry in registry::entries() {
            let mut ledger = Ledger::new(PAGES, &SIZES);
            for (number, (access, steps)) in (1..).zip(log(entry)) {
                visit(&entry.name, number, access, &steps, &ledger);
                ledger.access(access, &actions(&steps)).unwrap();
            }
        }
    }

    /// Return the actions that are wrong in every state of the hierarchy, and the reasons.
    fn always_wrong(steps: &[Action], served: usize) -> Vec<(Vec<Action>, Reason)> {
        let Action::Serve { page, op, found, tier } = steps[served] else {
            panic!("the action serves")
        };
        let with = |action: Action| {
            let mut mutated = steps.to_vec();
            mutated[served] = action;
            mutated
        };
        let mut wrong = vec![];
        for claimed in [RAM, FLASH, DISK].into_iter().filter(|&claimed| claimed != found) {
            let reason = Reason::FoundElsewhere { claimed, actual: found };
            wrong.push((with(Action::Serve { page, op, found: claimed, tier }), reason));
        }
        let other_op = if op == Op::Read { Op::Write } else { Op::Read };
        let other_page = PageId((page.0 + 1) % PAGES);
        wrong.push((with(Action::Serve { page, op: other_op, found, tier }), Reason::WrongAccess));
        wrong
            .push((with(Action::Serve { page: other_page, op, found, tier }), Reason::WrongAccess));
        let none = Tier(3);
        wrong.push((with(Action::Serve { page, op, found, tier: none }), Reason::NoSuchTier(none)));
        let after = |action: Action| {
            let mut mutated = steps.to_vec();
            mutated.insert(served + 1, action);
            mutated
        };
        wrong.push((after(steps[served]), Reason::ServedTimes(2)));
        wrong.push((after(Action::Drop { page, tier: DISK }), Reason::DropsFromDisk));
        wrong.push((after(copy(PAGES, DISK, RAM)), Reason::NoSuchPage));
        wrong
    }

    #[test]
    fn a_wrong_serve_is_refused_wherever_it_stands() {
        replay(|policy, number, access, steps, ledger| {
            let is_serve = |action: &Action| matches!(action, Action::Serve { .. });
            let served = steps.iter().position(is_serve).unwrap();
            for (mutated, reason) in always_wrong(steps, served) {
                let violation = ledger.clone().access(access, &actions(&mutated)).unwrap_err();
                let message = format!("{policy}: {violation}; {mutated:?}");
                assert_eq!(violation.reason, reason, "{message}");
                assert_eq!(violation.access_number, number as u64, "{message}");
                let page = violation.page.0;
                let start = format!("access {number}, page {page}");
                assert!(violation.to_string().starts_with(&start), "{message}");
                if let Some(action) = violation.action {
                    assert!(mutated.contains(&action), "{message}");
                    assert!(violation.to_string().contains(&format!("{action:?}")), "{message}");
                }
            }
            let mut unserved = steps.to_vec();
            unserved.remove(served);
            assert!(ledger.clone().access(access, &actions(&unserved)).is_err(), "{policy}");
        });
    }

    /// A naive second opinion: versions per tier, and what must hold of them after an access.
    #[derive(Clone)]
    struct Versions([[Option<u32>; PAGES as usize]; 3]);

    impl Versions {
        /// Return `true` if an access is right: it serves the newest version, loses none, and
        /// overfills no tier.
        fn is_right(&mut self, access: Access, steps: &[Action]) -> bool {
            let mut is_right = true;
            for step in steps {
                match *step {
                    Action::Serve { page, op, tier, .. } => {
                        let newest = self.newest(page);
                        let copy = &mut self.0[tier.index()][page.index()];
                        is_right &= op == Op::Write || *copy == newest;
                        is_right &= page == access.page && op == access.op;
                        if op == Op::Write {
                            *copy = newest.map(|version| version + 1);
                        }
                    }
                    Action::Copy { page, source, target } => {
                        let version = self.0[source.index()][page.index()];
                        is_right &= version.is_some();
                        is_right &= version >= self.0[target.index()][page.index()];
                        self.0[target.index()][page.index()] = version;
                    }
                    Action::Drop { page, tier } => {
                        let newest = self.newest(page);
                        is_right &= self.0[tier.index()][page.index()].take().is_some();
                        is_right &= self.newest(page) == newest;
                    }
                }
            }
            let held = |tier: Tier| self.0[tier.index()].iter().flatten().count();
            is_right && held(RAM) <= SIZES[0] as usize && held(FLASH) <= SIZES[1] as usize
        }

        fn newest(&self, page: PageId) -> Option<u32> {
            self.0.iter().filter_map(|copies| copies[page.index()]).max()
        }
    }

    #[test]
    fn an_action_left_out_or_misdirected_is_refused_unless_it_is_harmless() {
        let mut verdicts = [0, 0];
        for entry in registry::entries() {
            let mut ledger = Ledger::new(PAGES, &SIZES);
            let mut versions = Versions([[None; 12], [None; 12], [Some(0); 12]]);
            for (access, steps) in log(entry) {
                let moves =
                    (0..steps.len()).filter(|&place| !matches!(steps[place], Action::Serve { .. }));
                for place in moves {
                    let mut left_out = steps.clone();
                    let step = left_out.remove(place);
                    let mut mutants = vec![left_out];
                    if let Action::Copy { page, source, target } = step {
                        for tier in [RAM, FLASH, DISK] {
                            for step in [copy(page.0, tier, target), copy(page.0, source, tier)] {
                                let mut misdirected = steps.clone();
                                misdirected[place] = step;
                                mutants.push(misdirected);
                            }
                        }
                    }
                    for mutated in mutants {
                        let is_accepted = ledger.clone().access(access, &actions(&mutated)).is_ok();
                        let is_right = versions.clone().is_right(access, &mutated);
                        assert_eq!(is_accepted, is_right, "{}: {access:?} {mutated:?}", entry.name);
                        verdicts[usize::from(is_accepted)] += 1;
                    }
                }
                ledger.access(access, &actions(&steps)).unwrap();
                assert!(versions.is_right(access, &steps));
            }
        }
        assert!(verdicts.iter().all(|&times| times > 100), "both verdicts occur: {verdicts:?}");
    }
}
