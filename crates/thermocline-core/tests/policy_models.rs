//! Every policy does what its executable specification does, after every access.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod models;

use models::pair::Pair;
use models::single::histogram::Histogram;
use proptest::prelude::*;
use thermocline_core::config::Values;
use thermocline_core::hotness::tiny_lfu::{DOORKEEPER, MINIMAL_INCREMENT, SAMPLE_FACTOR, TinyLfu};
use thermocline_core::registry::{self, Depth, Future};
use thermocline_core::{Access, Action, Actions, Geometry, PageCost, PageId, Setup, Tier};

const PAGES: u32 = 24;

/// Drives a policy and its model; they count and hold the same after every access.
#[track_caller]
fn check(
    policy: &str,
    given: &[(&str, String)],
    sizes: [u32; 2],
    numbers: &[u64],
    accesses: &[Access],
) {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, text)| ((*name).to_owned(), text.clone())).collect();
    let mut pair = Pair::new(policy, &given, sizes, numbers);
    for &access in accesses {
        pair.access(access);
        pair.assert_same_contents();
    }
}

/// Runs of neighbours over few pages, so that there is re-use and adjacency.
fn accesses() -> impl Strategy<Value = Vec<Access>> {
    (4..=PAGES).prop_flat_map(|pages| {
        let run = (0..pages, 1_u32..4, 0_u8..3).prop_map(move |(first, length, kind)| {
            let access = if kind == 0 { Access::write } else { Access::read };
            (first..(first + length).min(pages)).map(access).collect::<Vec<_>>()
        });
        prop::collection::vec(run, 0..120).prop_map(|runs| runs.concat())
    })
}

/// Return the page number of each id: the id itself, or ids in an order of their own, as traces
/// give them.
fn numbers() -> impl Strategy<Value = Vec<u64>> {
    let linear: Vec<u64> = (0..u64::from(PAGES)).collect();
    prop_oneof![Just(linear.clone()), Just(linear).prop_shuffle()]
}

fn share() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(0.1), Just(0.34), Just(0.5), Just(0.99), Just(1.0)]
}

/// Generate the savings of a random and of a sequential miss, in milliseconds; `None` takes those
/// of the devices.
fn savings() -> impl Strategy<Value = Option<(f64, f64)>> {
    prop::option::of(prop::sample::select(vec![(10.0, 1.0), (8.0, 8.0), (1.0, 10.0), (1.0, 0.0)]))
}

fn rule() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["lru", "fifo", "mru"])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn hat(
        sizes in [1_u32..8, 0..8], ratio in share(), is_early in any::<bool>(),
        queue_ratio in 1.0_f64..4.0, zone in prop::sample::select(vec!["borrows", "fixed"]),
        numbers in numbers(), accesses in accesses(),
    ) {
        let given = [
            ("nonhot_ratio", ratio.to_string()),
            ("early_brush", is_early.to_string()),
            ("queue_ratio", queue_ratio.to_string()),
            ("nonhot_zone", zone.to_owned()),
        ];
        check("hat", &given, sizes, &numbers, &accesses);
    }

    #[test]
    fn tac(
        sizes in [1_u32..6, 0..8], extent in 1_u64..6, aging in 0_u64..20, savings in savings(),
        numbers in numbers(), accesses in accesses(),
    ) {
        let mut given =
            vec![("extent_pages", extent.to_string()), ("aging_interval", aging.to_string())];
        if let Some((random, sequential)) = savings {
            given.push(("random_saving_ms", random.to_string()));
            given.push(("sequential_saving_ms", sequential.to_string()));
        }
        check("tac", &given, sizes, &numbers, &accesses);
    }

    #[test]
    fn lazy_cleaning(
        sizes in [1_u32..6, 0..9], shares in [share(), share(), share()], alpha in 1_usize..5,
        numbers in numbers(), accesses in accesses(),
    ) {
        let given = [
            ("filling_threshold", shares[0].to_string()),
            ("dirty_threshold", shares[1].to_string()),
            ("low_mark", shares[2].to_string()),
            ("group_pages", alpha.to_string()),
        ];
        check("lc", &given, sizes, &numbers, &accesses);
        check("dw", &given[..1], sizes, &numbers, &accesses);
        check("cw", &given[..1], sizes, &numbers, &accesses);
    }

    #[test]
    fn face(
        sizes in [1_u32..6, 0..9], group in 1_usize..6, cache_clean in any::<bool>(),
        numbers in numbers(), accesses in accesses(),
    ) {
        let given = [("cache_clean", cache_clean.to_string()), ("group_pages", group.to_string())];
        check("face", &given[..1], sizes, &numbers, &accesses);
        check("face-gr", &given, sizes, &numbers, &accesses);
        check("face-gsc", &given, sizes, &numbers, &accesses);
    }

    #[test]
    fn hca(
        sizes in [1_u32..8, 0..9], buffer in 0_u32..6, block in 1_u32..6,
        counts in prop::sample::select(vec!["forgotten", "kept"]),
        numbers in numbers(), accesses in accesses(),
    ) {
        let given = [
            ("buffer_pages", buffer.to_string()),
            ("pages_per_block", block.to_string()),
            ("counts", counts.to_owned()),
        ];
        check("hca", &given, sizes, &numbers, &accesses);
    }

    #[test]
    fn arc_l2arc(
        sizes in [1_u32..9, 0..9], every in 1_usize..6, writes in [1_usize..4, 0..4],
        headroom in 1_usize..4, switches in any::<[bool; 2]>(), numbers in numbers(),
        accesses in accesses(),
    ) {
        let given = [
            ("feed_every", every.to_string()),
            ("write_max", writes[0].to_string()),
            ("write_boost", writes[1].to_string()),
            ("headroom", headroom.to_string()),
            ("warm_up", switches[0].to_string()),
            ("reuse_holes", switches[1].to_string()),
        ];
        check("arc-l2arc", &given, sizes, &numbers, &accesses);
        check("arc", &[], sizes, &numbers, &accesses);
    }

    #[test]
    fn queues_and_clocks(
        sizes in [1_u32..12, 0..3], bits in 1_u32..4, numbers in numbers(), accesses in accesses(),
    ) {
        for policy in ["fifo", "mru", "sieve"] {
            check(policy, &[], sizes, &numbers, &accesses);
        }
        check("clock", &[("bits", bits.to_string())], sizes, &numbers, &accesses);
    }

    #[test]
    fn segments_and_ghosts(
        sizes in [1_u32..12, 0..3], shares in [share(), share()], ghosts in 0.0..3.0_f64,
        segments in 2_u32..6, counts in [1_u32..4, 0..4], is_filled in any::<bool>(),
        numbers in numbers(), accesses in accesses(),
    ) {
        let [first, second] = shares.map(|share| share.to_string());
        let ghosts = ghosts.to_string();
        let slru = [
            ("segments", segments.to_string()),
            ("protected_share", first.clone()),
            ("fill_upwards", is_filled.to_string()),
        ];
        check("slru", &slru, sizes, &numbers, &accesses);
        let two_q = [("in_share", second), ("out_share", ghosts.clone())];
        check("2q", &two_q, sizes, &numbers, &accesses);
        let mut s3_fifo = vec![
            ("small_share", first),
            ("ghost_share", ghosts),
            ("promote_at", counts[0].to_string()),
            ("fill_main", is_filled.to_string()),
        ];
        check("s3-fifo", &s3_fifo, sizes, &numbers, &accesses);
        s3_fifo[3] = ("window_share", two_q[0].1.clone());
        s3_fifo.remove(2);
        check("clock2q-plus", &s3_fifo, sizes, &numbers, &accesses);
        s3_fifo[2].0 = "skip_share";
        s3_fifo.push(("promote_at", counts[0].to_string()));
        s3_fifo.push(("return_at", counts[1].to_string()));
        check("s4-fifo", &s3_fifo, sizes, &numbers, &accesses);
        for policy in ["slru", "2q", "s3-fifo", "s4-fifo", "clock2q-plus"] {
            check(policy, &[], sizes, &numbers, &accesses);
        }
    }

    #[test]
    fn frequencies(
        sizes in [1_u32..12, 0..3], switches in any::<[bool; 2]>(), times in [0_u64..8, 0..40],
        queues in 1_u32..6, ghosts in 0.0..3.0_f64, numbers in numbers(), accesses in accesses(),
    ) {
        let lfu = [
            ("aging", ["none", "dynamic"][usize::from(switches[0])].to_owned()),
            ("writes", ["through", "back"][usize::from(switches[1])].to_owned()),
        ];
        check("lfu", &lfu, sizes, &numbers, &accesses);
        let lru_2 = times.map(|time| time.to_string());
        let lru_2 = [("correlated", lru_2[0].clone()), ("retained", lru_2[1].clone())];
        check("lru-2", &lru_2, sizes, &numbers, &accesses);
        check("lru-2", &[], sizes, &numbers, &accesses);
        let mut mq = vec![("queues", queues.to_string()), ("ghosts", ghosts.to_string())];
        check("mq", &mq, sizes, &numbers, &accesses);
        mq.push(("life_time", times[1].to_string()));
        check("mq", &mq, sizes, &numbers, &accesses);
    }

    #[test]
    fn lots(
        sizes in [1_u32..12, 0..3], sample in 1_u32..9, seed in any::<u64>(), numbers in numbers(),
        accesses in accesses(),
    ) {
        let given = [("seed", seed.to_string()), ("sample", sample.to_string())];
        check("random", &given[..1], sizes, &numbers, &accesses);
        check("hyperbolic", &given, sizes, &numbers, &accesses);
    }

    #[test]
    fn two_tier(
        sizes in [1_u32..8, 0..9], rules in [rule(), rule()], numbers in numbers(),
        inclusion in prop::sample::select(vec!["lazy", "exclusive", "inclusive"]),
        writes in prop::sample::select(vec!["back", "through", "around"]),
        admission in prop::sample::select(vec!["all", "second-access"]),
        accesses in accesses(),
    ) {
        let given = [
            ("admission", admission.to_owned()),
            ("ram", rules[0].to_owned()),
            ("flash", rules[1].to_owned()),
            ("inclusion", inclusion.to_owned()),
            ("writes", writes.to_owned()),
        ];
        check("two-tier", &given, sizes, &numbers, &accesses);
    }

    #[test]
    fn lru(sizes in [1_u32..8, 0..9], numbers in numbers(), accesses in accesses()) {
        for policy in ["lru", "lru-inclusive", "lru-exclusive"] {
            check(policy, &[], sizes, &numbers, &accesses);
        }
    }
}

// Algorithms of one tier.
proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn car(memory in 1_u32..9, numbers in numbers(), accesses in accesses()) {
        check("car", &[], [memory, 0], &numbers, &accesses);
    }

    #[test]
    fn clock_pro(
        memory in 1_u32..12, cold in prop::sample::select(vec![0.0, 0.2, 0.34, 0.5]),
        ghosts in 0.0..3.0_f64, numbers in numbers(), accesses in accesses(),
    ) {
        let given = [("cold_share", cold.to_string()), ("ghost_share", ghosts.to_string())];
        check("clock-pro", &given, [memory, 0], &numbers, &accesses);
        check("clock-pro", &given[..1], [memory, 0], &numbers, &accesses);
    }

    #[test]
    fn lirs(
        memory in 1_u32..12, hir in share(), stack in prop::sample::select(vec![1.0, 1.5, 2.0, 9.0]),
        numbers in numbers(), accesses in accesses(),
    ) {
        let given = [("hir_share", hir.to_string()), ("stack_factor", stack.to_string())];
        check("lirs", &given, [memory, 0], &numbers, &accesses);
    }

    #[test]
    fn lrfu(
        memory in 1_u32..9, lambda in prop::sample::select(vec![0.0, 0.001, 0.03, 0.2, 0.7, 1.0]),
        numbers in numbers(), accesses in accesses(),
    ) {
        check("lrfu", &[("lambda", lambda.to_string())], [memory, 0], &numbers, &accesses);
    }

    #[test]
    fn lecar_and_cacheus(
        memory in 1_u32..12, history in prop::sample::select(vec![0.0, 0.2, 0.5, 1.0, 3.0]),
        rate in 0.001_f64..=1.0, discount in 0.001_f64..=1.0, seed in any::<u64>(),
        ties in prop::sample::select(vec!["lowest-address", "oldest"]),
        numbers in numbers(), accesses in accesses(),
    ) {
        let given = [
            ("history_share", history.to_string()),
            ("seed", seed.to_string()),
            ("learning_rate", rate.to_string()),
            ("discount", discount.to_string()),
            ("ties", ties.to_owned()),
        ];
        check("lecar", &given, [memory, 0], &numbers, &accesses);
        check("cacheus", &given[..3], [memory, 0], &numbers, &accesses);
        check("cacheus", &given[..2], [memory, 0], &numbers, &accesses);
    }

    /// Models of few samples, so that there are many of them.
    #[test]
    fn learned(
        memory in 1_u32..12, batch in 1_u32..60, trees in 1_u32..5, leaves in 2_u32..5,
        leaf_samples in 1_u32..4, candidates in 1_u32..4, rate in 0.0..=1.0_f64,
        seed in any::<u64>(), numbers in numbers(), accesses in accesses(),
    ) {
        let given = [
            ("batch", batch.to_string()),
            ("trees", trees.to_string()),
            ("leaves", leaves.to_string()),
            ("leaf_samples", leaf_samples.to_string()),
            ("candidates", candidates.to_string()),
            ("learning_rate", rate.to_string()),
            ("seed", seed.to_string()),
        ];
        check("3l-cache", &given, [memory, 0], &numbers, &accesses);
        check("3l-cache", &given[..1], [memory, 0], &numbers, &accesses);
    }

    #[test]
    fn tiny_lfu(
        memory in 1_u32..12, sample in 1_u32..20, switches in any::<[bool; 3]>(),
        shares in [share(), share()], seed in any::<u64>(), accesses in accesses(),
    ) {
        // Ids are hashed, and the models know numbers only.
        let numbers: Vec<u64> = (0..u64::from(PAGES)).collect();
        let given = [
            ("sample_factor", sample.to_string()),
            ("doorkeeper", switches[0].to_string()),
            ("minimal_increment", switches[1].to_string()),
            ("window_share", shares[0].to_string()),
            ("protected_share", shares[1].to_string()),
            ("jitter", switches[2].to_string()),
            ("seed", seed.to_string()),
        ];
        check("tinylfu", &given[..3], [memory, 0], &numbers, &accesses);
        check("w-tinylfu", &given, [memory, 0], &numbers, &accesses);
    }

    /// TinyLFU's histogram, for caches large enough that pages share few counters.
    #[test]
    fn histogram(
        capacity in 1_u32..600, sample in 1_u32..20, switches in any::<[bool; 2]>(),
        pages in prop::collection::vec((0_u32..300, 1_usize..25), 0..200),
    ) {
        let given = [
            ("sample_factor".to_owned(), sample.to_string()),
            ("doorkeeper".to_owned(), switches[0].to_string()),
            ("minimal_increment".to_owned(), switches[1].to_string()),
        ];
        let parameters = [SAMPLE_FACTOR, DOORKEEPER, MINIMAL_INCREMENT];
        let values = Values::resolve("tinylfu", &parameters, &given).unwrap();
        let mut histogram = TinyLfu::new(capacity, &values);
        let mut model = Histogram::new(capacity as usize, sample as usize, switches[0], switches[1]);
        for (page, times) in pages {
            for _ in 0..times {
                histogram.record(PageId(page));
                model.record(page);
                histogram.assert_invariants();
            }
            for page in 0..300 {
                prop_assert_eq!(histogram.estimate(PageId(page)), model.estimate(page));
            }
        }
    }
}

/// Without a buffer, whatever flash holds, HCA's memory is that of LFU, and ZFS's that of ARC.
#[test]
fn hybrids_have_the_memory_of_their_baselines() {
    let accesses = skewed_accesses_and_scans();
    let numbers: Vec<u64> = (0..u64::from(LONG_RUN_PAGES)).collect();
    let no_buffer = [("buffer_pages".to_owned(), "0".to_owned())];
    for (baseline, hybrid, given, flash_pages) in
        [("lfu", "hca", &no_buffer[..], 400), ("arc", "arc-l2arc", &[], 400)]
    {
        let mut alone = Pair::new(baseline, &[], [100, 0], &numbers);
        let mut above = Pair::new(hybrid, given, [100, flash_pages], &numbers);
        for (number, &access) in accesses.iter().enumerate() {
            alone.access(access);
            above.access(access);
            assert_eq!(alone.counts().memory_hits, above.counts().memory_hits, "{hybrid}");
            assert_eq!(alone.counts().disk_writes, above.counts().disk_writes, "{hybrid}");
            if number % 499 == 0 {
                assert_eq!(alone.held(Tier::RAM), above.held(Tier::RAM), "{hybrid}");
            }
        }
    }
}

/// Two exclusive LRUs, one above the other, are one LRU cut in two.
#[test]
fn exclusive_lrus_are_one_order() {
    let numbers: Vec<u64> = (0..u64::from(LONG_RUN_PAGES)).collect();
    let given = [("inclusion".to_owned(), "exclusive".to_owned())];
    let mut one = Pair::new("lru-exclusive", &[], [100, 400], &numbers);
    let mut two = Pair::new("two-tier", &given, [100, 400], &numbers);
    for access in skewed_accesses_and_scans() {
        one.access(access);
        two.access(access);
        assert_eq!(one.counts(), two.counts());
    }
    assert_eq!(one.held(Tier::FLASH), two.held(Tier::FLASH));
}

/// The lottery admits about the configured share of offered pages to flash.
#[test]
fn a_share_of_what_is_offered_enters_flash() {
    let accesses = skewed_accesses_and_scans();
    let writes_with = |probability: &str| {
        let setup = Setup {
            costs: vec![PageCost::default(); 3],
            ..Setup::new(Geometry::linear(LONG_RUN_PAGES), vec![100, LONG_RUN_PAGES])
        };
        let entry = registry::find("two-tier").unwrap();
        // Reads of exclusive tiers: each page that leaves memory is offered.
        let given =
            [("probability", probability), ("inclusion", "exclusive"), ("writes", "through")]
                .map(|(name, text)| (name.to_owned(), text.to_owned()));
        let mut policy = entry.build(&setup, &entry.values(&given).unwrap()).unwrap();
        let mut actions = Actions::new();
        let mut writes = 0.0;
        for &Access { page, .. } in &accesses {
            actions.clear();
            policy.access(Access::read(page.0), &mut actions);
            let to_flash =
                |action: &&Action| matches!(action, Action::Copy { target: Tier::FLASH, .. });
            writes += actions.as_slice().iter().filter(to_flash).count() as f64;
        }
        writes
    };
    let all = writes_with("1.0");
    assert!(all > 3000.0 && writes_with("0.0") < f64::EPSILON);
    let share = writes_with("0.25") / all;
    assert!((0.2..0.3).contains(&share), "{share} of {all}");
}

/// Long runs at the defaults: skewed accesses with scans between them, ids as they first appear.
#[test]
fn defaults_hold_over_long_runs() {
    let accesses = skewed_accesses_and_scans();
    let mut numbers: Vec<u64> = vec![];
    let seen = accesses.iter().map(|access| u64::from(access.page.0));
    for number in seen.chain(0..u64::from(LONG_RUN_PAGES)) {
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    let linear: Vec<u64> = (0..u64::from(LONG_RUN_PAGES)).collect();
    // `auto` moves no page by rules of its own: its candidates have their models here, its controller
    // has one beside it.
    let entries = registry::entries().filter(|entry| entry.name != "auto");
    for entry in entries.filter(|entry| {
        entry.capabilities.depth != Depth::Tiers && entry.capabilities.future != Future::Accesses
    }) {
        // Models hash the same ids as the policies; no algorithm of one tier looks at numbers.
        let numbers = if entry.capabilities.depth == Depth::Ram { &linear } else { &numbers };
        let mut pair = Pair::new(&entry.name, &[], [100, 400], numbers);
        for (number, &access) in accesses.iter().enumerate() {
            pair.access(access);
            // The whole of both tiers after every access would take most of the suite's time.
            if number % 499 == 0 {
                pair.assert_same_contents();
            }
        }
        pair.assert_same_contents();
    }
}

const LONG_RUN_PAGES: u32 = 4096;

/// Page numbers spread evenly over their orders of magnitude, which is nearly Zipf's law.
fn skewed_accesses_and_scans() -> Vec<Access> {
    let mut state = 42_u64;
    let mut random = |below: u64| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ (bits >> 31)) % below
    };
    let mut accesses = vec![];
    while accesses.len() < 20_000 {
        let magnitude = 1 + random(12);
        let page = u32::try_from(random(1 << magnitude)).unwrap();
        let access = if random(10) < 3 { Access::write } else { Access::read };
        let length = if random(50) == 0 { 40 } else { 1 };
        accesses.extend((page..(page + length).min(LONG_RUN_PAGES)).map(access));
    }
    accesses
}
