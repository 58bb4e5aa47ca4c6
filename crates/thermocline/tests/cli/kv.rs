//! `thermocline kv`.

use std::fmt::Write as _;

use super::{fails, json, text};

/// Return two conversations of three turns, one after the other.
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
    // Of the prices only that of the processors and that of `dram` were given.
    let price = |from: &serde_json::Value, key: &str| from[key].as_f64().unwrap_or(0.0);
    let of_tiers = (0..3).map(|tier| price(&run["tiers"][tier], "dollars_per_million_tokens"));
    let sum = price(run, "processor_dollars_per_million_tokens") + of_tiers.sum::<f64>();
    assert!((sum - price(run, "dollars_per_million_tokens")).abs() < 1e-9);
    let shown = text(&[&words[..], &tiers, &prices].concat());
    for expected in
        ["Tokens that hit", "in dram", "Dram lasts", "Price of a million", "160 MiB each"]
    {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
}

#[test]
fn a_drive_says_how_long_its_tier_lasts() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(&folder);
    let tiers = ["--tier", "hbm=2p", "--tier", "ssd=4p", "--policy", "vllm-offload"];
    let words = ["kv", &trace, "--model", "llama-3-70b", "--drive", "ssd=tlc-nvme", "--json"];
    let found = json(&[&words[..], &tiers].concat());
    let ssd = &found[0]["tiers"][1];
    assert_eq!(ssd["drive"]["name"], "tlc-nvme");
    // So few blocks leave the drive nothing to collect: 3,000 erases of its cells, of which it hides 11.8 %.
    assert!((ssd["write_amplification"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    let years = 3000.0 / 0.882 / ssd["drive_writes_per_day"].as_f64().unwrap() / 365.25;
    assert!((ssd["lifetime_years"].as_f64().unwrap() / years - 1.0).abs() < 1e-9, "{ssd}");
}

#[test]
fn what_is_wrong_names_its_option() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(&folder);
    let kv =
        |more: &[&'static str]| [&["kv", trace.as_str(), "--tier", "l1=4p"][..], more].concat();
    fails(&kv(&["--policy", "lrv"]), &["unknown policy `lrv`; did you mean `lru`?"]);
    fails(&kv(&["--policy", "LRU"]), &["unknown policy `LRU`; did you mean `lru`?\n"]);
    fails(&kv(&["--tier", "l2=99999999999999999999p"]), &["`l2`", "the number is too large"]);
    fails(&kv(&["--tier", "ssd=1TiB"]), &["--tier ssd=1", "how many bytes has a block"]);
    fails(&kv(&["--admit", "1,2,3"]), &["--admit", "for each tier"]);
    fails(&kv(&["--drive", "l1"]), &["--drive", "ssd=tlc-nvme"]);
    fails(&kv(&["--drive", "l1=tlc-nvme"]), &["--drive", "how many bytes"]);
    fails(
        &kv(&["--drive", "l1=tlcnvme"]),
        &["--drive: unknown drive `tlcnvme`", "did you mean `tlc-nvme`?"],
    );
    // A name that is not known would be a tier that loads in no time.
    let timed = |tier| kv(&["--tier", tier, "--model", "llama-3-70b"]);
    fails(&timed("drma=4p"), &["--bandwidth: tier `drma` needs one", "drma=7", "dram, l2, ssd"]);
    let free = json(&[&timed("drma=4p")[..], &["--bandwidth", "drma=0", "--json"]].concat());
    assert_eq!(free[0]["tiers"][1]["name"], "drma");
    fails(&kv(&["--ttl", "ssd=5"]), &["--ttl", "unknown tier `ssd`"]);
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

/// Return a plan for the prompts of [`trace`], of which all blocks take 12 x 160 MiB.
fn plan<'a>(trace: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let words = ["plan", trace, "--workload", "kv", "--model", "llama-3-70b"];
    [&words[..], more].concat()
}

#[test]
fn a_plan_buys_tiers_for_prompts() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(&folder);
    let prices = ["--price", "hbm=100,dram=4,ssd=0.1", "--policies", "lru,ulc,vllm-offload"];
    let found =
        |more: &[&'static str]| json(&plan(&trace, &[&prices[..], more, &["--json"]].concat()));
    let number = |choice: &serde_json::Value, key: &str| choice[key].as_f64();
    let cheap = found(&["--budget", "60", "--min-lifetime-years", "0"]);
    let dear = found(&["--budget", "400", "--min-lifetime-years", "0"]);
    for (plan, budget) in [(&cheap, 60.0), (&dear, 400.0)] {
        let front = plan["front"].as_array().unwrap();
        let costs: Vec<f64> = front.iter().filter_map(|one| number(one, "cost")).collect();
        assert!(costs.is_sorted() && costs.iter().all(|&cost| cost <= budget + 1e-9), "{costs:?}");
        for choice in front {
            let gib = choice["tiers"].as_array().unwrap().iter().map(|tier| {
                let price = match tier["name"].as_str().unwrap() {
                    "hbm" => 100.0,
                    "dram" => 4.0,
                    _ => 0.1,
                };
                number(tier, "capacity_blocks").unwrap() * 160.0 / 1024.0 * price
            });
            let cost = number(choice, "cost").unwrap();
            assert!((cost - gib.sum::<f64>()).abs() < 1e-9, "{choice}");
        }
    }
    let best = |plan: &serde_json::Value| {
        let chosen = &plan["front"][usize::try_from(plan["chosen"].as_u64().unwrap()).unwrap()];
        number(chosen, "first_token_mean_s").unwrap()
    };
    assert!(best(&dear) <= best(&cheap));
    // Tiers that hold all blocks hit what a cache without limits hits, and 400 buys them.
    let chosen = &dear["front"][usize::try_from(dear["chosen"].as_u64().unwrap()).unwrap()];
    assert!((number(chosen, "token_hit_ratio").unwrap() - 0.5).abs() < 1e-9, "{chosen}");
}

#[test]
fn a_plan_for_prompts_prices_drives_and_wear() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(&folder);
    let report = folder.path().join("plan.html");
    let report = report.to_str().unwrap();
    let words = [
        "--price",
        "hbm=0,ssd=0.1,qlc-nvme=0.05",
        "--tier",
        "hbm=2p",
        "--budget",
        "1",
        "--drive",
        "tlc-nvme-2025,qlc-nvme",
        "--policies",
        "vllm-offload",
        "--gpu-price",
        "16",
    ];
    let found = json(&plan(&trace, &[&words[..], &["--json"]].concat()));
    assert_eq!(found["objective"], "cost-per-token");
    let front = found["front"].as_array().unwrap();
    assert!(front.iter().all(|one| one["tiers"][0]["capacity_blocks"] == 2), "{found}");
    // The cheaper drive with an eighth of the erases is as good where time costs more than wear.
    assert!(front.iter().any(|one| one["drive"] == "qlc-nvme"), "{found}");
    let shown = text(&plan(&trace, &[&words[..], &["--report", report]].concat()));
    assert!(shown.contains("Buy ") && shown.contains("best by the price of a million"), "{shown}");
    let html = std::fs::read_to_string(report).unwrap();
    assert!(html.contains("What no other choice beats") && html.contains("qlc-nvme"));
    let lasting = ["--min-lifetime-years", "1e9", "--objective", "first-token"];
    let shown = text(&plan(&trace, &[&words[..], &lasting].concat()));
    assert!(shown.contains("sooner than 1000000000 years"), "{shown}");
}

#[test]
fn what_a_plan_for_prompts_cannot_do_names_its_option() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(&folder);
    let refused = |more: &[&str], parts: &[&str]| {
        let budget = ["--price", "hbm=100,ssd=0.1", "--budget", "100"];
        fails(&plan(&trace, &[&budget[..], more].concat()), parts);
    };
    refused(&["--output", "x.toml"], &["--output", "leave it out with --workload kv"]);
    refused(&["--objective", "io-time"], &["--objective", "first-token, p99 or cost-per-token"]);
    refused(&["--objective", "cost-per-token"], &["--gpu-price"]);
    refused(&["--drive", "floppy"], &["--drive", "unknown drive `floppy`"]);
    refused(&["--tier", "dram=1GiB"], &["--tier", "`dram` has no price"]);
    refused(&["--price", "nvme=1"], &["--price: the bandwidth of tier `nvme` is not known"]);
    refused(&["--policies", "LRU"], &["did you mean `lru`?"]);
    let words = ["plan", &trace, "--workload", "kv", "--budget", "1", "--price", "hbm=100"];
    fails(&words, &["--model", "llama-3-70b"]);
    let poor = ["--price", "hbm=100", "--budget", "1"];
    fails(&plan(&trace, &poor), &["--budget", "a block of `hbm` costs 15.6250"]);
    let pages = ["plan", &trace, "--budget", "1", "--price", "ram=1,flash=1,disk=1"];
    fails(&[&pages[..], &["--model", "llama-3-70b"]].concat(), &["--model", "add --workload kv"]);
}
