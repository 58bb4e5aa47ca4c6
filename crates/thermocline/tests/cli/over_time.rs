//! Figures over time, and the report of `compare` about hierarchies of any depth.

use serde_json::Value;

use super::{TRACE, fails, json, simulate, text};

const LEVELS: [&str; 8] =
    ["--page-size", "8KiB", "--tier", "l1=1%", "--tier", "l2=2x", "--tier", "l3=2x"];

fn compare<'a>(policies: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["compare", TRACE, "--policy", policies][..], more].concat()
}

fn counts(of: &Value) -> Vec<u64> {
    of.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).collect()
}

#[test]
fn intervals_add_up_to_the_run() {
    for policy in ["hat", "arc-l2arc", "lru"] {
        let summary = json(&simulate(TRACE, policy, &["--json", "--over-time", "7"]));
        let intervals = summary["over_time"]["intervals"].as_array().unwrap();
        assert_eq!(intervals.len(), 7);
        let mut hits = [0; 3];
        let mut moved = [0; 2];
        for interval in intervals {
            for (sum, hits) in hits.iter_mut().zip(counts(&interval["hits"])) {
                *sum += hits;
            }
            moved[0] += counts(&interval["demotions"])[0];
            moved[1] += counts(&interval["promotions"])[0];
        }
        let tiers = summary["tiers"].as_array().unwrap().iter();
        let totals: Vec<u64> = tiers.map(|tier| tier["hits"].as_u64().unwrap()).collect();
        assert_eq!(hits.to_vec(), totals, "{policy}");
        assert_eq!(moved[0], counts(&summary["demotions"])[0], "{policy}");
        assert_eq!(moved[1], counts(&summary["promotions"])[0], "{policy}");
        let last = &intervals[6];
        assert_eq!(last["end_accesses"], 260_211);
        assert_eq!(last["gauges"], summary["gauges"], "{policy}: at the end");
        assert_eq!(last["metadata_bytes"], summary["metadata_bytes"], "{policy}");
        assert!(last["end_s"].as_f64().unwrap() > intervals[0]["end_s"].as_f64().unwrap());
    }
}

#[test]
fn the_warm_up_is_part_of_the_curves_only() {
    let plain = json(&simulate(TRACE, "hat", &["--json"]));
    assert!(plain.get("over_time").is_none(), "what is not asked for is not told");
    let options = ["--json", "--over-time", "4", "--warm-up", "50%"];
    let warm = json(&simulate(TRACE, "hat", &options));
    let intervals = warm["over_time"]["intervals"].as_array().unwrap();
    let all: u64 = intervals.iter().map(|one| one["accesses"].as_u64().unwrap()).sum();
    assert_eq!(all, 260_211);
    let second_half: u64 = intervals[2..].iter().map(|one| counts(&one["hits"])[0]).sum();
    assert_eq!(warm["tiers"][0]["hits"].as_u64().unwrap(), second_half);
}

#[test]
fn traffic_is_in_pages_and_in_bytes() {
    let summary =
        json(&[&["simulate", TRACE, "--policy", "demote", "--json"], &LEVELS[..]].concat());
    for (pages, bytes) in [("demotions", "demoted_bytes"), ("promotions", "promoted_bytes")] {
        let pages = counts(&summary[pages]);
        assert_eq!(pages.len(), 2);
        let expected: Vec<u64> = pages.iter().map(|pages| pages * 8192).collect();
        assert_eq!(counts(&summary[bytes]), expected);
    }
    let summary = json(&[&["simulate", TRACE, "--policy", "mq-n", "--json"], &LEVELS[..]].concat());
    let pages: u64 =
        (0..3).map(|tier| summary["tiers"][tier]["capacity_pages"].as_u64().unwrap()).sum();
    let share = summary["metadata_bytes"].as_f64().unwrap() / (pages * 8192) as f64;
    assert!(share > 0.0);
    assert!((summary["metadata_share"].as_f64().unwrap() - share).abs() < 1e-12);
}

#[test]
fn tables_show_levels_and_curves() {
    let one = text(
        &[&["simulate", TRACE, "--policy", "d-hfa", "--over-time", "3"], &LEVELS[..]].concat(),
    );
    for part in [
        "| accesses |",
        "Hits in l3, %",
        "Hits in any cache, %",
        "l1 q1_pages",
        " 173,474 |",
        "iB) down",
    ] {
        assert!(one.contains(part), "{part}: {one}");
    }
    let prices = ["--price", "l1=4", "--price", "disk=0.02"];
    let table = text(&[&compare("demote,ulc", &LEVELS)[..], &prices].concat());
    for column in [
        "Average response, ms",
        "Hits in l1, %",
        "Hits in l3, %",
        "Hits in any cache, %",
        "Demotions, pages",
        "Promotions, pages",
        "Metadata, bytes",
        "Metadata share, % of the caches",
        "Cost per I/O",
        "l2 and l3",
    ] {
        assert!(table.contains(column), "{column}: {table}");
    }
    assert!(
        !table.contains("Flash") && !table.contains("I/O time") && !table.contains("over time")
    );
    let two = ["--page-size", "8KiB", "--tier", "l1=1%", "--tier", "l2=2x,4x", "--over-time", "2"];
    let table = text(&compare("demote,ulc", &two));
    for title in ["l1 388 pages, l2 776 pages", "l1 388 pages, l2 1,552 pages"] {
        assert!(table.contains(&format!("Hits in any cache over time, {title}\n")), "{table}");
    }
    assert!(table.contains("| accesses |  demote |     ulc |"), "{table}");
}

#[test]
fn reports_draw_what_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.html");
    let path = path.to_str().unwrap();
    let options = ["--over-time", "5", "--report", path];
    let page = |policies: &str, tiers: &[&str]| {
        text(&[&compare(policies, tiers)[..], &options].concat());
        std::fs::read_to_string(path).unwrap()
    };
    let levels = page("demote,d-hfa,promote,mq-n", &LEVELS);
    for title in [
        "Hits in any cache over time",
        "Hits in l3 over time",
        "Share of Q1 (l1) over time",
        "Promote probability (l2) over time",
        "MQ&#39;s life time (l2) over time",
    ] {
        assert!(levels.contains(&format!("data-name=\"{title}\"")), "{title}");
    }
    assert!(levels.contains("Traffic between the caches"));
    let hybrid = ["--page-size", "8KiB", "--tier", "ram=2%", "--tier", "flash=4x"];
    let hybrids = page("hat,arc-l2arc,hca", &hybrid);
    for title in ["Hits in RAM or on flash", "ARC&#39;s target p (ram)", "Pages held (flash)"] {
        assert!(hybrids.contains(&format!("data-name=\"{title} over time\"")), "{title}");
    }
    assert!(!hybrids.contains("Traffic between") && hybrids.contains("Flash writes"));
    assert_eq!(hybrids, page("hat,arc-l2arc,hca", &hybrid), "no dates, no speeds");
}

#[test]
fn numbers_of_intervals_that_cannot_be_are_refused() {
    for wrong in ["0", "100001"] {
        fails(&simulate(TRACE, "hat", &["--over-time", wrong]), &["--over-time", "1..=100000"]);
    }
    fails(&simulate(TRACE, "hat", &["--over-time", "many"]), &["--over-time", "many"]);
}

#[test]
fn a_short_trace_has_an_interval_per_access() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    std::fs::write(&path, "1\n2\n1\n").unwrap();
    let tiers = ["--tier", "l1=1p", "--tier", "l2=2p", "--over-time", "50", "--json"];
    let command = ["simulate", path.to_str().unwrap(), "--policy", "demote"];
    let summary = json(&[&command[..], &tiers].concat());
    let intervals = summary["over_time"]["intervals"].as_array().unwrap();
    let hits: Vec<Vec<u64>> = intervals.iter().map(|one| counts(&one["hits"])).collect();
    assert_eq!(hits, [[0, 0, 1], [0, 0, 1], [0, 1, 0]]);
    assert!(intervals[0].get("end_s").is_none(), "the trace has no times");
}
