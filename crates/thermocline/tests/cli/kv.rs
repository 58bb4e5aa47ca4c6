//! `thermocline kv`.

use std::fmt::Write as _;

use super::{fails, json, text};

/// Two conversations of three turns, one after the other.
fn trace(folder: &tempfile::TempDir) -> String {
    let mut lines = String::new();
    for turn in 0..6_u64 {
        let (session, blocks) = (turn % 2, 2 * (turn / 2 + 1));
        let ids: Vec<String> = (0..blocks).map(|id| (100 * session + id).to_string()).collect();
        let (at, tokens) = (60_000 * turn, 512 * blocks);
        let ids = ids.join(", ");
        writeln!(
            lines,
            r#"{{"timestamp": {at}, "input_length": {tokens}, "output_length": 7, "hash_ids": [{ids}]}}"#
        )
        .unwrap();
    }
    let path = folder.path().join("talk.jsonl");
    std::fs::write(&path, lines).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn kv_prints_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(&folder);
    let tiers = ["--tier", "l1=4p", "--tier", "l2=16p,100%"];
    let words = ["kv", &trace, "--policy", "lru,s3-fifo", "--check", "--json"];
    let found = json(&[&words[..], &tiers].concat());
    let found = found.as_array().unwrap();
    let runs: Vec<(&str, u64)> = found
        .iter()
        .map(|run| {
            let blocks = run["tiers"][1]["capacity_blocks"].as_u64().unwrap();
            (run["policy"]["name"].as_str().unwrap(), blocks)
        })
        .collect();
    assert_eq!(runs, [("lru", 16), ("s3-fifo", 16), ("lru", 12), ("s3-fifo", 12)]);
    let lru = &found[0];
    let count = |key: &str| lru[key].as_u64().unwrap();
    assert_eq!([count("requests"), count("tokens"), count("blocks")], [6, 12_288, 24]);
    // Every turn finds what was said before.
    assert_eq!([count("hit_tokens"), count("computed"), count("stranded")], [6144, 12, 0]);
    assert_eq!(lru["tiers"][0]["name"], "l1");
    let hits: u64 = (0..2).map(|tier| lru["tiers"][tier]["hits"].as_u64().unwrap()).sum();
    assert_eq!(hits, 12);
    assert_eq!(lru["tiers"][0]["writes"], 24 - lru["tiers"][0]["hits"].as_u64().unwrap());
    assert_eq!(lru["policy"]["settings"]["mode"], "exclusive");
    let of_system = ["kv", &trace, "--tier", "l1=4p", "--policy", "mooncake-lru", "--json"];
    let of_system = json(&of_system);
    assert_eq!(of_system[0]["policy"]["settings"]["mode"], "through");
    assert!(of_system[0]["policy"]["version"].as_str().unwrap().contains("2026"));
}

#[test]
fn a_model_gives_bytes_time_and_prices() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(&folder);
    let tiers = ["--tier", "hbm=640MiB", "--tier", "dram=4x", "--remote", "1TiB"];
    let words = ["kv", &trace, "--model", "llama-3-70b", "--policy", "vllm-offload"];
    let prices = ["--gpu-price", "16", "--price", "dram=4", "--rated-writes", "dram=1825"];
    let found = json(&[&words[..], &tiers, &prices, &["--json"]].concat());
    let run = &found[0];
    let capacities: Vec<u64> =
        (0..3).map(|tier| run["tiers"][tier]["capacity_blocks"].as_u64().unwrap()).collect();
    assert_eq!(capacities, [4, 16, 6553]);
    assert_eq!(run["tiers"][2]["name"], "remote");
    for key in ["saved_share", "prefill_s", "first_token_mean_s", "dollars_per_million_tokens"] {
        assert!(run[key].as_f64().unwrap() > 0.0, "{key}");
    }
    assert!(run["tiers"][1]["lifetime_years"].as_f64().unwrap() > 0.0);
    let shown = text(&[&words[..], &tiers, &prices].concat());
    for expected in
        ["Tokens that hit", "in dram", "Dram lasts", "Price of a million", "160 MiB each"]
    {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
}

#[test]
fn what_is_wrong_names_its_option() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(&folder);
    let kv =
        |more: &[&'static str]| [&["kv", trace.as_str(), "--tier", "l1=4p"][..], more].concat();
    fails(&kv(&["--policy", "lrv"]), &["no policy is called `lrv`", "`lru`"]);
    fails(&kv(&["--tier", "ssd=1TiB"]), &["--tier ssd=1", "how many bytes has a block"]);
    fails(&kv(&["--admit", "1,2,3"]), &["--admit", "for each tier"]);
    fails(&kv(&["--ttl", "ssd=5"]), &["--ttl", "no tier is called `ssd`"]);
    fails(&kv(&["--mode", "sideways"]), &["possible values: exclusive, back, through"]);
    fails(&kv(&["--block-tokens", "256"]), &["talk.jsonl", "row 1", "4 blocks", "--block-tokens"]);
    fails(&["kv", "/nowhere.jsonl", "--tier", "l1=4p"], &["/nowhere.jsonl", "cannot open"]);
}

#[test]
fn conversations_are_made_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (trace, report, other) = (path("made.jsonl.zst"), path("kv.html"), path("t"));
    let kind = ["trace", "generate", "--kind", "conversations", "--requests", "400"];
    text(&[&kind[..], &["--block-tokens", "64", "-o", &trace]].concat());
    let tiers = ["--tier", "l1=200p", "--tier", "l2=10%,50%", "--block-tokens", "64"];
    let words = ["kv", &trace, "--policy", "lru,mooncake-lru", "--report", &report];
    let shown = text(&[&words[..], &tiers].concat());
    assert!(shown.contains("leaves the fewest tokens to compute"), "{shown}");
    let html = std::fs::read_to_string(&report).unwrap();
    for expected in ["Tokens that hit", "How the tiers were filled", "Mooncake, August"] {
        assert!(html.contains(expected), "{expected}");
    }
    fails(&[&kind[..], &["--to", "csv", "-o", &other]].concat(), &["written as mooncake"]);
    fails(&[&kind[..], &["--next-turn", "2", "-o", &other]].concat(), &["from 0 to 1"]);
}
