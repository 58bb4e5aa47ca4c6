//! Rules that every write buffer must keep, independent of its decisions.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod extremes;

use proptest::prelude::*;
use thermocline_core::registry::{self, BUFFERS, PolicyEntry};
use thermocline_core::{
    Access, Action, Actions, BoxedPolicy, ConfigError, Geometry, Ledger, Op, PageId, Setup,
    Survivor, Tier, WriteMiss,
};

const PAGES: u32 = 40;
const BUFFER: Tier = Tier(0);
const NAND: Tier = Tier(1);

fn setup(capacity_pages: u32, numbers: &[u64]) -> Setup {
    Setup {
        write_miss: WriteMiss::Allocate,
        ..Setup::new(Geometry::table(numbers.into()), vec![capacity_pages])
    }
}

fn linear() -> Vec<u64> {
    (0..u64::from(PAGES)).collect()
}

/// Return the policy with a block that the buffer has room for.
fn build(entry: &PolicyEntry, setup: &Setup, given: &[(&str, &str)]) -> (BoxedPolicy, Ledger) {
    let mut all = vec![];
    if entry.parameters.iter().any(|parameter| parameter.name == "pages_per_block") {
        all.push(("pages_per_block".to_owned(), setup.capacity_pages[0].min(4).to_string()));
    }
    all.extend(given.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())));
    let policy = entry.build(setup, &entry.values(&all).unwrap()).unwrap();
    (policy, Ledger::new(PAGES, &setup.capacity_pages))
}

/// Drives a buffer and the Ledger, and checks both after every access.
#[track_caller]
fn drive(
    entry: &PolicyEntry,
    policy: &mut BoxedPolicy,
    ledger: &mut Ledger,
    accesses: &[Access],
) -> Vec<Action> {
    let mut actions = Actions::new();
    let mut log = vec![];
    for &access in accesses {
        actions.clear();
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

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let run = (0..PAGES, 1_u32..6, 0..3_u8).prop_map(|(first, pages, kind)| {
        let access = if kind == 0 { Access::read } else { Access::write };
        (first..(first + pages).min(PAGES)).map(access).collect::<Vec<_>>()
    });
    prop::collection::vec(run, 0..80).prop_map(|runs| runs.concat())
}

/// Page numbers with gaps, in an order of their own.
fn numbers() -> impl Strategy<Value = Vec<u64>> {
    let gapped: Vec<u64> = linear().iter().map(|number| number + 30 * (number / 7)).collect();
    prop_oneof![Just(linear()), Just(linear()).prop_shuffle(), Just(gapped).prop_shuffle()]
}

/// Return the number of pages that were written to the NAND to free their frames.
fn flushed(log: &[Action]) -> u64 {
    let is_flush =
        |action: &&Action| matches!(action, Action::Copy { source: BUFFER, target: NAND, .. });
    log.iter().filter(is_flush).count() as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_buffer_ever_loses_a_write(
        capacity_pages in 1_u32..14, numbers in numbers(), accesses in accesses(),
        more in accesses(),
    ) {
        let setup = setup(capacity_pages, &numbers);
        for entry in BUFFERS {
            let (mut policy, mut ledger) = build(entry, &setup, &[]);
            let log = drive(entry, &mut policy, &mut ledger, &accesses);
            flush(entry, &mut policy, &mut ledger);
            drive(entry, &mut policy, &mut ledger, &more);
            flush(entry, &mut policy, &mut ledger);

            let (mut twin, mut ledger) = build(entry, &setup, &[]);
            let again = drive(entry, &mut twin, &mut ledger, &accesses);
            prop_assert_eq!(log, again, "{}: same accesses, same actions", entry.name);
        }
    }

    /// A write that finds no page in the buffer makes one, which leaves it by a flush.
    #[test]
    fn misses_are_flushed_or_still_there(
        capacity_pages in 1_u32..14, numbers in numbers(), accesses in accesses(),
    ) {
        let setup = setup(capacity_pages, &numbers);
        for entry in BUFFERS.iter().filter(|entry| entry.name != "none") {
            let holds_reads = entry.parameters.iter().any(|parameter| parameter.name == "reads");
            let reads = if holds_reads { &[("reads", "touch")][..] } else { &[] };
            let (mut policy, mut ledger) = build(entry, &setup, reads);
            let log = drive(entry, &mut policy, &mut ledger, &accesses);
            let misses = ledger.counts().write_hits(NAND);
            let held = u64::from(ledger.held_pages(BUFFER));
            prop_assert_eq!(misses, flushed(&log) + held, "{}", entry.name);
            prop_assert_eq!(ledger.dirty_pages().count() as u64, held, "{}", entry.name);
        }
    }

    #[test]
    fn with_writes_alone_cflru_and_lru_wsr_are_lru(
        capacity_pages in 1_u32..14, accesses in accesses(), window in 0.0..=1.0,
    ) {
        let setup = setup(capacity_pages, &linear());
        let writes: Vec<Access> =
            accesses.into_iter().filter(|access| access.op == Op::Write).collect();
        let log = |name, given: &[(&str, &str)]| {
            let entry = registry::find_buffer(name).unwrap();
            let (mut policy, mut ledger) = build(entry, &setup, given);
            drive(entry, &mut policy, &mut ledger, &writes)
        };
        let lru = log("lru", &[]);
        prop_assert_eq!(&log("cflru", &[("window", &format!("{window}"))]), &lru);
        prop_assert_eq!(&log("lru-wsr", &[]), &lru);
    }

    #[test]
    fn a_buffer_that_outlives_a_restart_is_written_back(
        survivors in prop::collection::btree_map(0..PAGES, any::<bool>(), 0..5),
        accesses in accesses(),
    ) {
        let survivors: Vec<Survivor> = survivors
            .into_iter()
            .map(|(page, is_dirty)| Survivor { page: PageId(page), is_dirty })
            .collect();
        for entry in BUFFERS {
            let (mut policy, mut ledger) = build(entry, &setup(5, &linear()), &[]);
            let mut actions = Actions::new();
            policy.restore(&survivors, &mut actions);
            if let Err(violation) = ledger.restore(BUFFER, &survivors, &actions) {
                panic!("{}: restore: {violation}", entry.name);
            }
            prop_assert_eq!(ledger.dirty_pages().count(), 0);
            drive(entry, &mut policy, &mut ledger, &accesses);
            flush(entry, &mut policy, &mut ledger);
        }
    }
}

/// Every parameter at its least and its greatest value, one at a time.
#[test]
fn extremes_of_every_parameter_are_harmless() {
    let accesses: Vec<Access> = (0..600_u32)
        .map(|step| {
            let page = (step.wrapping_mul(2_654_435_761) >> 20) % PAGES;
            if step % 4 == 0 { Access::read(page) } else { Access::write(page) }
        })
        .collect();
    for entry in BUFFERS {
        for parameter in entry.parameters {
            for text in extremes::of(parameter) {
                let given = [(parameter.name.to_owned(), text.clone())];
                let values = entry.values(&given).unwrap();
                if parameter.name == "pages_per_block" && text != "1" {
                    let error = entry.build(&setup(7, &linear()), &values).unwrap_err();
                    assert!(matches!(error, ConfigError::BufferTooSmall { .. }), "{error}");
                    continue;
                }
                let (mut policy, mut ledger) =
                    build(entry, &setup(7, &linear()), &[(parameter.name, &text)]);
                drive(entry, &mut policy, &mut ledger, &accesses);
                flush(entry, &mut policy, &mut ledger);
            }
        }
    }
}

#[test]
fn buffers_that_cannot_be_are_refused() {
    for entry in BUFFERS {
        let error = entry.build_default(&setup(0, &linear())).unwrap_err();
        assert!(error.to_string().contains("at least one page"), "{error}");
        let two_tiers = Setup { capacity_pages: vec![9, 9], ..setup(9, &linear()) };
        let error = entry.build_default(&two_tiers).unwrap_err().to_string();
        assert!(error.contains("the buffer of an SSD"), "{error}");
    }
    let hwb = registry::find_buffer("hwb").unwrap();
    let error = hwb.build_default(&setup(63, &linear())).unwrap_err().to_string();
    assert!(error.contains("at least 64 pages") && error.contains("63"), "{error}");
    assert!(registry::find_buffer("hat").unwrap_err().to_string().contains("hat"));
}

#[test]
fn padding_writes_whole_blocks() {
    let entry = registry::find_buffer("bplru").unwrap();
    let (mut policy, mut ledger) = build(entry, &setup(4, &linear()), &[("padding", "true")]);
    let accesses = [1, 2, 9, 13, 17].map(Access::write);
    let log = drive(entry, &mut policy, &mut ledger, &accesses);
    let to_nand = |action: &Action| match action {
        Action::Copy { page, target: NAND, .. } => Some(page.0),
        Action::Copy { .. } | Action::Serve { .. } | Action::Drop { .. } => None,
    };
    let written: Vec<u32> = log.iter().filter_map(to_nand).collect();
    assert_eq!(written, [0, 1, 2, 3], "the pages that were missing are written with the others");
    assert_eq!(ledger.counts().page_reads(NAND), 2);
}

#[test]
fn a_block_written_in_sequence_goes_first() {
    for (name, given, first) in [
        ("bplru", &[][..], 4),
        ("bplru", &[("compensation", "false")][..], 0),
        ("lb-clock", &[][..], 4),
    ] {
        let entry = registry::find_buffer(name).unwrap();
        let (mut policy, mut ledger) = build(entry, &setup(6, &linear()), given);
        // Block 0 has two pages and is written before block 1, which is written in sequence.
        let accesses = [0, 1, 4, 5, 6, 7, 12].map(Access::write);
        let log = drive(entry, &mut policy, &mut ledger, &accesses);
        let evicted = log.iter().find_map(|action| match action {
            Action::Drop { page, .. } => Some(page.0),
            Action::Copy { .. } | Action::Serve { .. } => None,
        });
        assert_eq!(evicted, Some(first), "{name} {given:?}");
    }
}
