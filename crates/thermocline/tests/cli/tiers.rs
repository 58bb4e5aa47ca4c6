//! Hierarchies of any depth: tiers `l1` to `l8`, response times, traffic, prices.

use serde_json::Value;

use super::{TRACE, fails, json, text};

const THREE: [&str; 6] = ["--tier", "l1=1%", "--tier", "l2=2x", "--tier", "l3=2x"];

fn simulate<'a>(policy: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["simulate", TRACE, "--page-size", "8KiB", "--policy", policy], more].concat()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn every_policy_of_any_depth_runs_on_three_tiers() {
    let names = [
        "lru-n-inclusive",
        "demote",
        "promote",
        "hint-k",
        "mq-n",
        "ulc",
        "d-hfa",
        "p-hfa",
        "h-hfa",
        "oracle-hfa",
    ];
    for name in names {
        let summary = json(&simulate(name, &[&THREE[..], &["--json", "--check"]].concat()));
        let tiers = summary["tiers"].as_array().unwrap();
        let hits: Vec<f64> = tiers.iter().map(|tier| number(&tier["hits"])).collect();
        assert_eq!(hits.iter().sum::<f64>().to_bits(), 260_211_f64.to_bits(), "{name}");
        // Three tiers are 0.2, 2 and 6 ms away, the disk 10.
        let total: f64 = hits.iter().zip([0.2, 2.0, 6.0, 10.0]).map(|(hits, ms)| hits * ms).sum();
        let average = number(&summary["average_response_ms"]);
        assert!((average - total / 260_211.0).abs() < 1e-9, "{name}: {average}");
        for moves in ["demotions", "promotions"] {
            assert_eq!(summary[moves].as_array().unwrap().len(), 2, "{name}: pairs of caches");
        }
        assert!(summary["metadata_bytes"].is_u64(), "{name}");
    }
}

#[test]
fn demotions_and_promotions_are_counted_by_pair() {
    let summary = json(&simulate("demote", &[&THREE[..], &["--json"]].concat()));
    let sum = |name: &str, pair: usize| number(&summary[name][pair]);
    let hits = |tier: usize| number(&summary["tiers"][tier]["hits"]);
    // A page that is hit below the first tier goes all the way up.
    assert_eq!(sum("promotions", 0).to_bits(), (hits(1) + hits(2)).to_bits());
    assert_eq!(sum("promotions", 1).to_bits(), hits(2).to_bits());
    assert!(sum("demotions", 0) >= sum("demotions", 1) && sum("demotions", 1) > 0.0);
}

#[test]
fn hca_reports_its_papers_figures() {
    let tiers = ["--tier", "ram=2%", "--tier", "flash=4x"];
    let summary = json(&simulate("hca", &[&tiers[..], &["--json", "--check"]].concat()));
    let hca = &summary["hca"];
    let [rhr, shr, dhr] = ["rhr", "shr", "dhr"].map(|name| number(&hca[name]));
    assert!((rhr + shr + dhr - 1.0).abs() < 1e-9);
    assert!((number(&hca["xcrta_ms"]) - 0.16 * shr).abs() < 1e-9);
    assert!((number(&hca["hcdrta_ms"]) - 12.7 * dhr).abs() < 1e-9);
    assert!(number(&hca["bdrta_ms"]) > number(&hca["hcdrta_ms"]), "flash spares the disk");
    assert!(number(&hca["hcrta_printed_ms"]) < number(&hca["hcrta_ms"]));
    let other = json(&simulate("hat", &[&tiers[..], &["--json"]].concat()));
    assert!(other.get("hca").is_none() && other.get("cost").is_none());
    let words = ["--price", "ram=4", "--price", "flash=0.5", "--price", "disk=0.02"];
    let table = text(&simulate("arc-l2arc", &[&tiers[..], &words].concat()));
    assert!(table.contains("I/Os per second") && table.contains("average response"), "{table}");
}

#[test]
fn latencies_and_prices_are_what_is_asked_for() {
    let tiers = ["--tier", "l1=1%", "--tier", "l2=4x", "--json"];
    let summary = |more: &[&str]| json(&simulate("demote", &[&tiers[..], more].concat()));
    let [plain, far] = [summary(&[]), summary(&["--latency", "l2=7", "--latency", "disk=7"])];
    let average = |summary: &Value| number(&summary["average_response_ms"]);
    let first = number(&plain["tiers"][0]["hit_ratio"]);
    assert!((average(&far) - (0.2 * first + 7.0 * (1.0 - first))).abs() < 1e-9);
    let priced = summary(&["--price", "l1=1024"]);
    let pages = number(&priced["tiers"][0]["capacity_pages"]);
    let total = pages * 8192.0 / 1_048_576.0;
    assert!((number(&priced["cost"]["total"]) - total).abs() < 1e-9, "a MiB for 1");
}

#[test]
fn hierarchies_that_cannot_be_are_refused() {
    let two = ["--tier", "l1=1%", "--tier", "l2=4x"];
    let with = |more: &[&'static str]| [&two[..], more].concat();
    fails(&simulate("hat", &THREE), &["hat", "demote"]);
    fails(&simulate("demote", &THREE[..2]), &["two to eight", "demote"]);
    fails(&simulate("demote", &["--tier", "l2=1%"]), &["l1", "before"]);
    fails(&simulate("demote", &["--tier", "l1=1%", "--tier", "ram=1%"]), &["ram", "l1 to l8"]);
    fails(&simulate("demote", &with(&["--latency", "l2=-1"])), &["--latency l2=-1", "at least 0"]);
    fails(&simulate("demote", &with(&["--latency", "l3=1"])), &["l3", "l1, l2, disk"]);
    fails(&simulate("demote", &with(&["--price", "l2=dear"])), &["--price l2=dear", "per GiB"]);
    let nine: Vec<String> = (1..=9).map(|tier| format!("l{tier}=10p")).collect();
    let nine: Vec<&str> = nine.iter().flat_map(|tier| ["--tier", tier]).collect();
    fails(&simulate("demote", &nine), &["l9", "l8"]);
}
