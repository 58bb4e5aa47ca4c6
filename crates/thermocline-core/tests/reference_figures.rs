//! Figures that independent reference models found on a portable Zipf trace, to the last unit.
//!
//! The trace is 20,000 requests over 4,000 pages, Zipf 0.9, 30 % writes, from splitmix64 with seed
//! 42; memory holds 100 pages, flash 400. Policies that look at page numbers are left out: the
//! models scattered them, and the permutation is not known.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use thermocline_core::{
    Access, Actions, Counts, Geometry, Ledger, PageCost, Setup, Tier, WriteMiss, registry,
};

const PAGES: u32 = 4_000;

struct SplitMix64(u64);

impl SplitMix64 {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn zipf() -> Vec<Access> {
    let mut cumulated: Vec<f64> = (1..=PAGES)
        .scan(0.0, |sum, rank| {
            *sum += libm::pow(f64::from(rank), -0.9);
            Some(*sum)
        })
        .collect();
    let total = cumulated[cumulated.len() - 1];
    for value in &mut cumulated {
        *value /= total;
    }
    let mut random = SplitMix64(42);
    (0..20_000)
        .map(|_| {
            let draw = random.unit();
            let page = u32::try_from(cumulated.partition_point(|&value| value < draw)).unwrap();
            if random.unit() < 0.3 { Access::write(page) } else { Access::read(page) }
        })
        .collect()
}

fn run(policy: &str, capacity_pages: &[u32]) -> Counts {
    let setup = Setup {
        capacity_pages: capacity_pages.to_vec(),
        geometry: Geometry::linear(PAGES),
        costs: vec![
            PageCost::default(),
            PageCost { read_ms: 0.16, write_ms: 0.30 },
            PageCost { read_ms: 12.7, write_ms: 13.7 },
        ],
        write_miss: WriteMiss::Fetch,
    };
    let mut policy = registry::find(policy).unwrap().build_default(&setup).unwrap();
    let mut ledger = Ledger::new(PAGES, capacity_pages);
    let mut actions = Actions::new();
    for access in zipf() {
        actions.clear();
        policy.access(access, &mut actions);
        ledger.access(access, &actions).unwrap();
    }
    policy.assert_invariants();
    ledger.counts().clone()
}

/// Memory hits, flash hits, disk reads, flash reads, flash writes, disk writes.
#[track_caller]
fn check(policy: &str, expected: [u64; 5], expected_s: f64) {
    let counts = run(policy, &[100, 400]);
    let measured = [
        counts.hits(Tier::RAM),
        counts.hits(Tier::FLASH),
        counts.page_reads(Tier::DISK),
        counts.page_writes(Tier::FLASH),
        counts.page_writes(Tier::DISK),
    ];
    assert_eq!(measured, expected, "{policy}");
    let io_time_ms = counts.page_reads(Tier::FLASH) as f64 * 0.16
        + counts.page_writes(Tier::FLASH) as f64 * 0.30
        + counts.page_reads(Tier::DISK) as f64 * 12.7
        + counts.page_writes(Tier::DISK) as f64 * 13.7;
    assert!((io_time_ms / 1000.0 - expected_s).abs() < 0.05, "{policy}: {io_time_ms} ms");
}

#[test]
fn hat() {
    check("hat", [8199, 3925, 7876, 3672, 2344], 134.0);
}

#[test]
fn face() {
    check("face", [6525, 4098, 9377, 11307, 3560], 172.5);
}

#[test]
fn face_with_group_second_chance() {
    check("face-gsc", [6525, 4326, 9149, 13103, 3140], 164.3);
}

#[test]
fn lru_of_memory_alone_and_of_both_tiers_together() {
    assert_eq!(run("lru", &[100]).hits(Tier::RAM), 6525);
    assert_eq!(run("lru", &[500]).hits(Tier::RAM), 11245);
    let exclusive = run("lru-exclusive", &[100, 400]);
    assert_eq!(exclusive.hits(Tier::RAM), 6525);
    assert_eq!(exclusive.hits(Tier::FLASH), 11245 - 6525);
}

#[test]
fn every_policy_with_an_lru_memory_has_its_hits() {
    for policy in ["tac", "lc", "cw", "dw", "face-gr", "lru-inclusive"] {
        assert_eq!(run(policy, &[100, 400]).hits(Tier::RAM), 6525, "{policy}");
    }
}
