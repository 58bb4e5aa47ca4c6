//! Figures of a reference model for a Zipf trace, a fastest tier of 100 pages and a slower one of 400.
//!
//! D-HFA has them to the last unit, and H-HFA nearly: the model counts the age of a look-up from the last
//! hit, the paper (section 3.2.3) from the look-up. P-HFA draws random numbers, whose seed the model does
//! not give, and Oracle HFA is sensitive: one hint more or less shifts all that follow.

use thermocline_core::policy::multi::hfa::record_hints;
use thermocline_core::{Actions, Clients, Counts, HintLog, Inputs, Ledger, Setup, Tier, registry};

use crate::pair::setup;
use crate::zipf;

const CAPACITIES: [u32; 2] = [100, 400];
const ACCESSES: f64 = 20_000.0;
/// The order of D-HFA's second queue of the reference model.
const BY_HOTNESS: (&str, &str) = ("q2_insertion", "hotness");
/// The reference model never forgets the moves of a page.
const FOR_EVER: (&str, &str) = ("ghost_ratio", "1000");

struct Run {
    counts: Counts,
}

impl Run {
    fn of(policy: &str, given: &[(&str, &str)], inputs: Inputs) -> Self {
        let entry = registry::find(policy).unwrap();
        let given: Vec<(String, String)> =
            given.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect();
        let setup = Setup { inputs, ..setup(zipf::PAGES, &CAPACITIES, Clients::ONE) };
        let mut policy = entry.build(&setup, &entry.values(&given).unwrap()).unwrap();
        let mut ledger = Ledger::new(zipf::PAGES, &CAPACITIES);
        let mut actions = Actions::new();
        for access in zipf::accesses() {
            actions.clear();
            policy.access(access, &mut actions);
            ledger.access(access, &actions).unwrap();
        }
        policy.assert_invariants();
        Self { counts: ledger.counts().clone() }
    }

    fn hits(&self) -> [u64; 2] {
        [Tier(0), Tier(1)].map(|tier| self.counts.hits(tier))
    }

    fn hit_ratio(&self) -> f64 {
        self.hits().iter().sum::<u64>() as f64 / ACCESSES
    }

    /// Return the mean time per access if accesses cost 0.2, 2 and 10 ms.
    fn mean_ms(&self) -> f64 {
        let [first, second] = self.hits().map(|hits| hits as f64);
        (first * 0.2 + second * 2.0 + (ACCESSES - first - second) * 10.0) / ACCESSES
    }
}

/// Return the hints of H-HFA.
fn hints() -> HintLog {
    let given = [("ghost_ratio".to_owned(), FOR_EVER.1.to_owned())];
    let values = registry::find("h-hfa").unwrap().values(&given).unwrap();
    record_hints(&setup(zipf::PAGES, &CAPACITIES, Clients::ONE), &values, zipf::accesses())
}

#[track_caller]
fn assert_near(measured: f64, expected: f64, tolerance: f64) {
    assert!((measured - expected).abs() <= tolerance, "{measured}, not {expected}");
}

#[test]
fn d_hfa() {
    let run = Run::of("d-hfa", &[BY_HOTNESS], Inputs::NONE);
    assert_eq!(run.hits(), [9180, 2720]);
    assert_near(run.hit_ratio(), 0.5950, 0.00005);
    assert_near(run.mean_ms(), 4.414, 0.0005);
    // Each page that enters the first tier but for the first 100 pushes one down; hits below move
    // up.
    let misses = 20_000 - 9180 - 2720;
    assert_eq!((misses + 2720 - 100) + 2720, 13_440);
}

#[test]
fn h_hfa() {
    let run = Run::of("h-hfa", &[FOR_EVER], Inputs::NONE);
    assert_eq!(run.hits(), [8412, 3833]);
    assert_near(run.hit_ratio(), 0.6121, 0.0002);
    assert_near(run.mean_ms(), 4.346, 0.002);
    assert_near(hints().hints() as f64, 7795.0, 10.0);
}

#[test]
fn p_hfa() {
    let seeds = ["0", "1", "2", "3", "42"];
    let ratios = seeds.map(|seed| Run::of("p-hfa", &[("seed", seed)], Inputs::NONE).hit_ratio());
    for ratio in ratios {
        assert_near(ratio, 0.5818, 0.017);
    }
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    assert_near(mean, 0.5818, 0.008);
}

#[test]
fn oracle_hfa() {
    let run = Run::of("oracle-hfa", &[FOR_EVER], hints().into());
    assert_near(run.hit_ratio(), 0.6227, 0.0005);
    assert_near(run.mean_ms(), 4.252, 0.008);
}

/// The options of the reference model: strict queues without hints, and demotion from Q1.
#[test]
fn options_shift_the_hit_ratio_as_the_sheets_say() {
    let base = [("k", "0"), ("d_overflow", "demote"), BY_HOTNESS];
    let borrowing = Run::of("d-hfa", &base, Inputs::NONE).hit_ratio();
    assert_near(borrowing, 0.567, 0.0015);
    let strict = [base[0], base[1], base[2], ("queues", "strict")];
    let strict = Run::of("d-hfa", &strict, Inputs::NONE).hit_ratio();
    assert_near(strict, 0.494, 0.0015);
    let lost = 0.5950 - Run::of("d-hfa", &[base[1], base[2]], Inputs::NONE).hit_ratio();
    assert!((0.013..0.020).contains(&lost), "{lost}");
}
