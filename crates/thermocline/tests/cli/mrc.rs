//! Miss-ratio curves: exact, sampled and in miniature, and what they are written to.

use serde_json::Value;

use super::{TRACE, fails, json, text};

fn mrc<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["mrc", TRACE, "--page-size", "8KiB"], more].concat()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn the_curve_of_lru_is_what_simulations_find() {
    let found = json(&mrc(&["--sizes", "2%,100p,20%", "--check", "--json"]));
    assert_eq!(found["trace"]["accesses"], 260_211);
    let curve = &found["curves"][0];
    assert_eq!(curve["method"]["name"], "exact");
    assert_eq!(number(&curve["max_absolute_error"]).to_bits(), 0.0_f64.to_bits());
    let points = curve["points"].as_array().unwrap();
    let pages: Vec<&Value> = points.iter().map(|point| &point["capacity_pages"][0]).collect();
    assert_eq!(pages, [100, 777, 7779]);
    let words = ["simulate", TRACE, "--page-size", "8KiB", "--policy", "lru", "--tier", "ram=2%"];
    let alone = json(&[&words[..], &["--json"]].concat());
    let misses = number(&alone["tiers"][1]["hit_ratio"]);
    assert!((number(&points[1]["miss_ratio"]) - misses).abs() < 1e-12);
    let reuse = &found["reuse"];
    assert_eq!(reuse["first_uses"], 38_899);
    assert_eq!(reuse["distance_pages"]["count"], 260_211 - 38_899);
    assert!(reuse["inter_reference_ns"]["p99"].is_u64());
}

/// Return a file of fixed-size records, which need not be compiled first, and the same trace as
/// lines, which has to be.
fn records_and_lines(folder: &std::path::Path) -> [String; 2] {
    let [records, lines] = ["zipf.oracleGeneral", "zipf.csv"]
        .map(|name| folder.join(name).to_str().unwrap().to_owned());
    let words = ["--requests", "300000", "--pages", "40000", "--to", "oracle-general"];
    text(&[&["trace", "generate", "-o", &records][..], &words].concat());
    text(&["trace", "convert", &records, "--to", "csv", "-o", &lines]);
    [records, lines]
}

#[test]
fn what_is_found_while_a_file_is_read_is_what_compiling_gives() {
    let folder = tempfile::tempdir().unwrap();
    let [records, lines] = records_and_lines(folder.path());
    let both = |words: &[&str]| {
        [&records, &lines].map(|trace| {
            let mut found = json(&[&[words[0], trace, "--json"][..], &words[1..]].concat());
            found["trace"]["path"].take();
            for key in ["replay_seconds", "accesses_per_second"] {
                if let Some(seconds) = found.get_mut(key) {
                    seconds.take();
                }
            }
            found
        })
    };
    for by in ["even", "hash"] {
        let [read, compiled] = both(&["mrc", "--shards", "0.1", "--shards-by", by]);
        assert_eq!(read, compiled, "{by}");
        assert_eq!(read["trace"]["accesses"], 300_000);
    }
    let [read, compiled] =
        both(&["simulate", "--objects", "one", "--policy", "lru", "--tier", "ram=1000p"]);
    assert_eq!(read, compiled);
    // Errors are those of the compiler, with their places.
    let bytes = std::fs::read(&records).unwrap();
    std::fs::write(&records, &bytes[..bytes.len() - 1]).unwrap();
    for words in [
        &["mrc", &records, "--shards", "0.1"][..],
        &["simulate", &records, "--objects", "one", "--policy", "lru", "--tier", "ram=1000p"],
    ] {
        fails(words, &["truncated", "record 300000", "23 of 24 bytes", "--allow-truncated"]);
    }
}

#[test]
fn samples_say_how_far_they_are_off() {
    for (sample, name) in
        [(["--shards", "0.2"], "fixed-rate"), (["--shards-size", "8000"], "fixed-size")]
    {
        let words = [&["--sizes", "5%,20%,50%", "--check", "--json"][..], &sample].concat();
        let found = json(&mrc(&words));
        let curve = &found["curves"][0];
        assert_eq!(curve["method"]["name"], name);
        let error = number(&curve["mean_absolute_error"]);
        assert!(error > 0.0 && error < 0.05, "{name}: {error}");
        assert!(number(&found["reuse"]["rate"]) < 0.25);
    }
}

#[test]
fn hybrids_have_a_grid_and_every_form_of_output() {
    let folder = tempfile::tempdir().unwrap();
    let [csv, report] = ["points.csv", "mrc.html"].map(|name| folder.path().join(name));
    let words = [
        "--policy",
        "lru,face",
        "--sizes",
        "2%,4%",
        "--flash-sizes",
        "2x,4x,8x",
        "--rate",
        "0.2",
        "--json",
        "--csv",
        csv.to_str().unwrap(),
        "--report",
        report.to_str().unwrap(),
    ];
    let found = json(&mrc(&words));
    let face = &found["curves"][1];
    assert_eq!(face["tiers"], serde_json::json!(["ram", "flash"]));
    assert_eq!(face["method"]["name"], "miniature");
    let points = face["points"].as_array().unwrap();
    assert_eq!(points.len(), 6);
    assert_eq!(points[5]["capacity_pages"], serde_json::json!([1555, 12_440]));
    for point in points {
        let hits = point["hit_ratios"].as_array().unwrap();
        let sum = number(&point["miss_ratio"]) + number(&hits[0]) + number(&hits[1]);
        assert!((sum - 1.0).abs() < 1e-9, "{point}");
    }
    let csv = std::fs::read_to_string(&csv).unwrap();
    assert_eq!(csv.lines().count(), 1 + 2 + 6);
    assert!(csv.starts_with("policy,method,ram_pages"));
    let fields = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().all(|line| line.split(',').count() == fields));
    let report = std::fs::read_to_string(&report).unwrap();
    assert!(report.contains("Miss ratio of face") && report.contains("</html>"));
    let table = text(&mrc(&words[..8]));
    assert!(table.contains("miniature simulation") && table.contains("re-use distance"), "{table}");
}

#[test]
fn what_cannot_be_is_refused_with_what_would_be() {
    fails(&mrc(&["--shards", "0"]), &["--shards 0", "above 0"]);
    fails(&mrc(&["--shards", "1.5"]), &["at most 1"]);
    fails(&mrc(&["--rate", "nan"]), &["--rate"]);
    fails(&mrc(&["--shards-size", "0"]), &["--shards-size"]);
    fails(&mrc(&["--shards", "0.1", "--shards-size", "10"]), &["--shards-size"]);
    fails(&mrc(&["--policy", "lur"]), &["lur", "lru"]);
    fails(&mrc(&["--sizes", "64"]), &["64MiB"]);
    fails(&mrc(&["--sizes", "4x"]), &["first one"]);
    fails(&mrc(&["--flash-sizes", "4x"]), &["--flash-sizes", "face"]);
    fails(
        &mrc(&["--policy", "arc", "--sizes", "50p", "--rate", "0.001"]),
        &["`ram`", "at least 0.02"],
    );
    fails(&mrc(&["--policy", "face", "--param", "colour=1"]), &["colour"]);
    fails(&mrc(&["--csv", "no-such-folder/x.csv", "--sizes", "1%"]), &["no-such-folder"]);
}
