//! The worked examples of `testdata/conformance`, step by step, with the Ledger alongside.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use serde::Deserialize;
use thermocline_core::registry::{self, Depth};
use thermocline_core::{
    Access, Actions, Foresight, Geometry, Ledger, PageCost, PageId, Setup, Tier,
};

const PAGES: u32 = 16;
const EXAMPLES: [&str; 2] = [
    include_str!("../../../testdata/conformance/hybrid.toml"),
    include_str!("../../../testdata/conformance/one_tier.toml"),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Examples {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    policy: String,
    #[serde(default)]
    parameters: std::collections::BTreeMap<String, String>,
    memory: u32,
    flash: u32,
    steps: Vec<String>,
    counts: Counts,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Counts {
    memory_hits: u64,
    flash_hits: u64,
    disk_reads: u64,
    flash_reads: u64,
    flash_writes: u64,
    disk_writes: u64,
}

#[test]
fn worked_examples_hold() {
    let tables = EXAMPLES.map(|text| toml::from_str::<Examples>(text).unwrap());
    let cases: Vec<&Case> = tables.iter().flat_map(|examples| &examples.case).collect();
    assert!(cases.len() >= 60, "no example is lost");
    for case in &cases {
        check(case);
    }
    for entry in registry::entries().filter(|entry| entry.capabilities.depth != Depth::Tiers) {
        let is_shown = cases.iter().any(|case| case.policy == entry.name);
        assert!(is_shown || entry.name == "face-gr", "{} has a worked example", entry.name);
    }
}

fn check(case: &Case) {
    let accesses: Vec<Access> =
        case.steps.iter().map(|step| parse(step.split(':').next().unwrap().trim())).collect();
    let to_come = Foresight::new(PAGES, accesses.iter().map(|access| access.page)).unwrap();
    let setup = Setup {
        costs: vec![
            PageCost::default(),
            PageCost { read_ms: 0.16, write_ms: 0.30 },
            PageCost { read_ms: 12.7, write_ms: 13.7 },
        ],
        inputs: Arc::new(to_come).into(),
        ..Setup::new(Geometry::linear(PAGES), vec![case.memory, case.flash])
    };
    let entry = registry::find(&case.policy).unwrap();
    let given: Vec<(String, String)> = case.parameters.clone().into_iter().collect();
    let mut policy = entry.build(&setup, &entry.values(&given).unwrap()).unwrap();
    let mut ledger = Ledger::new(PAGES, &setup.capacity_pages);
    let mut actions = Actions::new();
    for (number, (step, &access)) in (1..).zip(case.steps.iter().zip(&accesses)) {
        let fields = step.split(':').skip(1).map(str::trim);
        actions.clear();
        policy.access(access, &mut actions);
        ledger
            .access(access, &actions)
            .unwrap_or_else(|violation| panic!("{}: {violation}", case.id));
        policy.assert_invariants();
        for (tier, expected) in [Tier::RAM, Tier::FLASH].into_iter().zip(fields) {
            let place = format!("{}, step {number} ({step}), tier {}", case.id, tier.0);
            assert_eq!(held(&ledger, tier), expected, "{place}");
        }
    }
    let counts = ledger.counts();
    let measured = Counts {
        memory_hits: counts.hits(Tier::RAM),
        flash_hits: counts.hits(Tier::FLASH),
        disk_reads: counts.page_reads(Tier::DISK),
        flash_reads: counts.page_reads(Tier::FLASH),
        flash_writes: counts.page_writes(Tier::FLASH),
        disk_writes: counts.page_writes(Tier::DISK),
    };
    assert_eq!(measured, case.counts, "{}", case.id);
}

fn parse(text: &str) -> Access {
    let (op, page) = text.split_at(1);
    let page = page.parse().unwrap();
    match op {
        "R" => Access::read(page),
        "W" => Access::write(page),
        _ => panic!("an access is R or W and a page, not {text}"),
    }
}

/// Return the pages that a tier holds, as the examples write them.
fn held(ledger: &Ledger, tier: Tier) -> String {
    let pages: Vec<String> = (0..PAGES)
        .filter(|&page| ledger.holds(tier, PageId(page)))
        .map(|page| page.to_string())
        .collect();
    if pages.is_empty() { "-".into() } else { pages.join(" ") }
}
