//! Every write buffer does what its executable specification does, after every access.

use crate::models;
use crate::models::{
    ActiveFlush, Adaptation, Bpac, Bplru, BufferModel, Cfdc, Cflru, Counters, Fab, Hwb, LbClock,
    Lru, LruWsr, Predictor, Regions, Scale, Unbuffered, Window,
};
use proptest::prelude::*;
use thermocline_core::{
    Access, Action, Actions, Geometry, Ledger, Op, PageId, Setup, Tier, WriteMiss, registry,
};

const PAGES: u32 = 60;
const BUFFER: Tier = Tier(0);

/// Drives a buffer and its specification; both flush and hold the same after every access.
#[track_caller]
fn check(
    policy: &str,
    given: &[(&str, String)],
    capacity: u32,
    numbers: &[u64],
    model: &mut dyn BufferModel,
    accesses: &[Access],
) {
    let setup = Setup {
        write_miss: WriteMiss::Allocate,
        ..Setup::new(Geometry::table(numbers.into()), vec![capacity])
    };
    let given: Vec<(String, String)> =
        given.iter().map(|(name, text)| ((*name).to_owned(), text.clone())).collect();
    let entry = registry::find_buffer(policy).unwrap();
    let mut buffer = entry.build(&setup, &entry.values(&given).unwrap()).unwrap();
    let mut ledger = Ledger::new(PAGES, &[capacity]);
    let mut actions = Actions::new();
    for (index, &access) in accesses.iter().enumerate() {
        let number = numbers[access.page.index()];
        let before = model.state();
        let batches = model.access(number, access.op == Op::Write);
        actions.clear();
        buffer.access(access, &mut actions);
        ledger.access(access, &actions).unwrap();
        buffer.assert_invariants();
        let flushed = actions.as_slice().iter().filter_map(|action| match *action {
            Action::Copy { page, source: BUFFER, .. }
            | Action::Serve { page, op: Op::Write, tier: Tier(1), .. } => {
                Some(numbers[page.index()])
            }
            Action::Copy { .. } | Action::Serve { .. } | Action::Drop { .. } => None,
        });
        assert_eq!(
            flushed.collect::<Vec<_>>(),
            batches.concat(),
            "{policy} {given:?}, {capacity} pages, access {index} ({access:?} of {number}), before: {before}"
        );
        for page in (0..PAGES).map(PageId) {
            let number = numbers[page.index()];
            let is_held = ledger.holds(BUFFER, page);
            assert_eq!(is_held, model.contains(number), "{policy}, access {index}, page {number}");
        }
        let dirty = ledger.dirty_pages().map(|page| numbers[page.index()]);
        assert_eq!(dirty.collect::<std::collections::BTreeSet<_>>(), model.dirty(), "{policy}");
    }
}

/// Return a few pages written often, others in runs, some read.
fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let run = (0..PAGES, 1_u32..5, 0..5_u8).prop_map(|(first, pages, kind)| match kind {
        0 => vec![Access::read(first)],
        1 | 2 => vec![Access::write(first % 7)],
        _ => (first..(first + pages).min(PAGES)).map(Access::write).collect::<Vec<_>>(),
    });
    prop::collection::vec(run, 0..200).prop_map(|runs| runs.concat())
}

/// Return the page number of each id: the id itself, or ids in an order of their own.
fn numbers() -> impl Strategy<Value = Vec<u64>> {
    let linear: Vec<u64> = (0..u64::from(PAGES)).collect();
    prop_oneof![Just(linear.clone()), Just(linear).prop_shuffle()]
}

fn capacity() -> impl Strategy<Value = u32> {
    prop_oneof![1_u32..30, 5_u32..12]
}

fn share() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(0.25), Just(0.5), Just(0.9), Just(1.0)]
}

/// Return the parameters of HWB, and what its specification makes of them.
fn hwb_setups() -> impl Strategy<Value = (Vec<(&'static str, String)>, models::Setup)> {
    let temperature = (
        prop::sample::select(vec![0.0, 0.3, 0.5, 1.0]),
        any::<bool>(),
        prop::sample::select(vec![0.0, 2.0, 8.0]),
        any::<bool>(),
        any::<bool>(),
        (3_u64..40, any::<bool>(), any::<bool>()),
    );
    let regions = (any::<bool>(), prop::option::of(0_u64..5), prop::option::of(0_u32..20));
    (temperature, regions, 1_u64..6, any::<bool>()).prop_map(
        |(temperature, (is_soft, threshold, ghosts), pages_per_block, is_active)| {
            let (sigma, is_product, lambda_cap, has_beta, has_ageing, window) = temperature;
            let (period, is_windowed, is_adaptive) = window;
            let auto = |value: Option<String>| value.unwrap_or_else(|| "auto".into());
            let given = vec![
                ("pages_per_block", pages_per_block.to_string()),
                ("sigma", sigma.to_string()),
                ("sigma_step", if is_adaptive { "0.05" } else { "0" }.into()),
                ("frequency", if is_windowed { "periods" } else { "run" }.into()),
                ("prediction", if is_product { "product" } else { "power" }.into()),
                ("lambda_cap", lambda_cap.to_string()),
                ("residual", has_beta.to_string()),
                ("aging", has_ageing.to_string()),
                ("period", period.to_string()),
                ("regions", if is_soft { "soft" } else { "strict" }.into()),
                ("adapt", threshold.is_some().to_string()),
                ("move_threshold", threshold.unwrap_or(0).to_string()),
                ("ghosts", auto(ghosts.map(|ghosts| ghosts.to_string()))),
                ("active_flush", is_active.to_string()),
            ];
            let scale = if is_product { Scale::Product } else { Scale::Power };
            let setup = models::Setup {
                pages_per_block,
                sigma,
                predictor: Some(Predictor { scale, lambda_cap, has_beta }),
                has_ageing,
                sigma_step: is_adaptive.then_some((0.05, period)),
                window: if is_windowed { Window::Periods(period) } else { Window::Forever },
                ghosts: ghosts.map(|ghosts| ghosts as usize),
                adaptation: threshold.map(|threshold| Adaptation {
                    threshold,
                    counters: Counters::Pairs,
                    minimum: 1,
                }),
                regions: if is_soft { Regions::Soft } else { Regions::Strict },
                active_flush: if is_active { ActiveFlush::Block } else { ActiveFlush::Off },
                ..Default::default()
            };
            (given, setup)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn page_lists(
        capacity in capacity(), numbers in numbers(), accesses in accesses(), share in share(),
        holds_reads in any::<bool>(), initial_cold in any::<bool>(), cluster_pages in 1_u64..6,
    ) {
        let size = capacity as usize;
        let reads = ("reads", if holds_reads { "hold" } else { "ignore" }.to_owned());
        let given = std::slice::from_ref(&reads);
        check("none", &[], capacity, &numbers, &mut Unbuffered, &accesses);
        check("lru", given, capacity, &numbers, &mut Lru::new(size, holds_reads), &accesses);
        let given = [reads.clone(), ("window", share.to_string())];
        let mut model = Cflru::new(size, share, holds_reads);
        check("cflru", &given, capacity, &numbers, &mut model, &accesses);
        let given = [reads.clone(), ("initial_cold", initial_cold.to_string())];
        let mut model = LruWsr::new(size, initial_cold, holds_reads);
        check("lru-wsr", &given, capacity, &numbers, &mut model, &accesses);
        let given = [
            reads,
            ("working_region", share.to_string()),
            ("cluster_pages", cluster_pages.to_string()),
        ];
        let mut model = Cfdc::new(size, share, cluster_pages, holds_reads, true);
        check("cfdc", &given, capacity, &numbers, &mut model, &accesses);
    }

    #[test]
    fn block_lists(
        capacity in capacity(), numbers in numbers(), accesses in accesses(),
        pages_per_block in 1_u32..6, is_compensated in any::<bool>(),
    ) {
        let pages_per_block = pages_per_block.min(capacity);
        let (size, pages) = (capacity as usize, u64::from(pages_per_block));
        let block = ("pages_per_block", pages.to_string());
        let given = std::slice::from_ref(&block);
        check("fab", given, capacity, &numbers, &mut Fab::new(size, pages), &accesses);
        let mut model = LbClock::new(size, pages, false);
        check("lb-clock", given, capacity, &numbers, &mut model, &accesses);
        let given = [block, ("compensation", is_compensated.to_string())];
        let mut model = Bplru::new(size, pages, is_compensated);
        check("bplru", &given, capacity, &numbers, &mut model, &accesses);
    }

    #[test]
    fn bpac(
        capacity in capacity(), numbers in numbers(), accesses in accesses(),
        pages_per_block in 1_u32..6, is_adaptive in any::<bool>(), limits in (1_u64..40, 1_u64..90),
    ) {
        let pages_per_block = pages_per_block.min(capacity);
        let (size, pages) = (capacity as usize, u64::from(pages_per_block));
        let given = [
            ("pages_per_block", pages.to_string()),
            ("adapt", is_adaptive.to_string()),
            ("page_threshold", limits.0.to_string()),
            ("block_threshold", limits.1.to_string()),
        ];
        let limits = [limits.0, limits.1];
        let mut model = Bpac::with_limits(size, pages, is_adaptive, limits, false);
        check("bpac", &given, capacity, &numbers, &mut model, &accesses);
        let mut model = Bpac::new(size, pages, is_adaptive);
        check("bpac", &given[..2], capacity, &numbers, &mut model, &accesses);
    }

    #[test]
    fn hwb(
        capacity in capacity(), numbers in numbers(), accesses in accesses(),
        (given, setup) in hwb_setups(),
    ) {
        let capacity = capacity.max(u32::try_from(setup.pages_per_block).unwrap());
        let mut model = Hwb::new(capacity as usize, setup);
        check("hwb", &given, capacity, &numbers, &mut model, &accesses);
    }
}
