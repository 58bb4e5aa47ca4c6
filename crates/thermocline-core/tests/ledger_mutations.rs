//! The Ledger accepts a right action log and refuses every wrong one, with its place.

use thermocline_core::{Access, Action, Actions, Ledger, Op, PageId, Reason, Tier, Violation};

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

/// A run over memory of one page and flash of one page: each access with its actions.
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
