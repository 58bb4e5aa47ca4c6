//! Hierarchies of any depth: tiers `l1` to `l8`, response times, traffic, prices, several clients.

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
    fails(&simulate("demote", &with(&["--price", "l2=dear"])), &["--price", "l2=dear", "per GiB"]);
    let nine: Vec<String> = (1..=9).map(|tier| format!("l{tier}=10p")).collect();
    let nine: Vec<&str> = nine.iter().flat_map(|tier| ["--tier", tier]).collect();
    fails(&simulate("demote", &nine), &["l9", "l8"]);
}

const TWO: [&str; 4] = ["--tier", "l1=1%", "--tier", "l2=4x"];

/// Return the command on one trace per client.
fn on<'a>(traces: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [&["simulate"], traces, &["--page-size", "8KiB"], &TWO, more].concat()
}

fn names_of_clients() -> Vec<String> {
    let all = json(&["policies", "--json"]);
    let all = all.as_array().unwrap().iter();
    let several = all.filter(|policy| policy["clients"] == "several");
    several.map(|policy| policy["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_policy_of_several_clients_runs_on_a_split_trace() {
    let names = names_of_clients();
    assert!(["demote", "promote", "d-hfa"].iter().all(|name| names.iter().any(|one| one == name)));
    assert!(!names.iter().any(|name| name == "ulc" || name == "hat"));
    for name in names {
        let options =
            ["--policy", &name, "--clients", "3", "--json", "--check", "--price", "l1=1024"];
        let summary = json(&on(&[TRACE], &options));
        let clients = summary["clients"].as_array().unwrap();
        assert_eq!(clients.len(), 3, "{name}");
        let tiers = summary["tiers"].as_array().unwrap();
        assert_eq!(tiers.len(), 3, "{name}: the first tiers are one row");
        for (tier, row) in tiers.iter().enumerate() {
            let hits: f64 = clients.iter().map(|client| number(&client["hits"][tier])).sum();
            assert_eq!(hits.to_bits(), number(&row["hits"]).to_bits(), "{name}, tier {tier}");
        }
        let mut response = 0.0;
        for client in clients {
            let [accesses, ratio] = ["accesses", "hit_ratio"].map(|name| number(&client[name]));
            let hits: Vec<f64> = (0..3).map(|tier| number(&client["hits"][tier])).collect();
            assert!((accesses - hits.iter().sum::<f64>()).abs() < 0.5, "{name}");
            assert!((ratio - (hits[0] + hits[1]) / accesses).abs() < 1e-9, "{name}");
            response += accesses * number(&client["average_response_ms"]);
        }
        let average = number(&summary["average_response_ms"]);
        assert!((average - response / 260_211.0).abs() < 1e-9, "{name}");
        let mib = number(&tiers[0]["capacity_pages"]) * 8192.0 / 1_048_576.0;
        let cost = number(&summary["cost"]["total"]);
        assert!((cost - 3.0 * mib).abs() < 1e-9, "{name}: each client has a first tier");
    }
}

/// One client is what it always was, with or without being told so.
#[test]
fn one_client_is_no_news() {
    let strip = |mut summary: Value| {
        for speed in ["replay_seconds", "accesses_per_second"] {
            summary.as_object_mut().unwrap().remove(speed);
        }
        summary
    };
    let options = ["--policy", "h-hfa", "--json"];
    let plain = strip(json(&on(&[TRACE], &options)));
    let told = strip(json(&on(&[TRACE], &[&options[..], &["--clients", "1"]].concat())));
    assert_eq!(plain, told);
    assert!(plain.get("clients").is_none());
    assert!(!text(&on(&[TRACE], &["--policy", "demote"])).contains("| client |"));
}

#[test]
fn clients_with_a_trace_each_share_pages_unless_they_are_private() {
    let footprint = |more: &[&'static str]| {
        let options = ["--policy", "mq-n", "--clients", "2", "--json"];
        let summary = json(&on(&[TRACE, TRACE], &[&options[..], more].concat()));
        assert_eq!(number(&summary["trace"]["accesses"]).to_bits(), 520_422_f64.to_bits());
        number(&summary["trace"]["footprint_pages"])
    };
    let [shared, private] = [footprint(&[]), footprint(&["--private"])];
    assert_eq!(private.to_bits(), (2.0 * shared).to_bits());
}

#[test]
fn a_trace_is_split_by_volume_or_in_turn() {
    let clients = |split: &'static str| {
        let options = ["--policy", "demote", "--clients", "2", "--json", "--split", split];
        json(&on(&[TRACE], &options))["clients"].clone()
    };
    let default = json(&on(&[TRACE], &["--policy", "demote", "--clients", "2", "--json"]));
    assert_eq!(default["clients"], clients("round-robin"));
    assert_ne!(default["clients"], clients("volume"));
    let table = text(&on(&[TRACE], &["--policy", "demote", "--clients", "2"]));
    assert!(table.contains(" each |") && table.contains("| client |"), "{table}");
}

/// Each client has a device of its own; all of them have the rest.
#[test]
fn several_clients_take_their_time() {
    let events = ["--timing", "events", "--model", "disk=server:64", "--check", "--json"];
    let options = [&["--policy", "demote", "--clients", "2"], &events[..]].concat();
    let summary = json(&on(&[TRACE], &options));
    let devices = summary["devices"].as_array().unwrap();
    let names: Vec<&str> = devices.iter().map(|device| device["tier"].as_str().unwrap()).collect();
    assert_eq!(names, ["l1#0", "l1#1", "l2", "disk"]);
    let untimed = json(&on(&[TRACE], &["--policy", "demote", "--clients", "2", "--json"]));
    assert_eq!(summary["clients"], untimed["clients"], "time changes no decision");
}

#[test]
fn compare_leaves_out_what_takes_one_client() {
    let tiers = ["--policy", "all", "--clients", "2", "--page-size", "8KiB", "--json"];
    let all = json(&[&["compare", TRACE], &TWO[..], &tiers[..]].concat());
    let names: Vec<&str> =
        all.as_array().unwrap().iter().map(|run| run["policy"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, names_of_clients());
}

#[test]
fn clients_that_do_not_match_their_traces_are_refused() {
    let demote = |more: &[&'static str]| [&["--policy", "demote"], more].concat();
    let two = [TRACE, TRACE];
    fails(&on(&two, &demote(&[])), &["2 traces", "1 client", "--clients 2"]);
    fails(&on(&two, &demote(&["--clients", "3"])), &["2 traces", "3 client", "--clients 2"]);
    fails(&on(&two, &demote(&["--clients", "2", "--split", "volume"])), &["--split", "one trace"]);
    fails(&on(&[TRACE], &demote(&["--split", "volume"])), &["--clients"]);
    fails(&on(&[TRACE], &demote(&["--clients", "2", "--private"])), &["--private", "one for each"]);
    fails(&on(&[TRACE], &demote(&["--clients", "0"])), &["0", "--clients"]);
    fails(&on(&[TRACE], &demote(&["--clients", "17"])), &["17", "16"]);
    let by_volume = demote(&["--clients", "16", "--split", "volume"]);
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, lines: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, lines).unwrap();
        path.display().to_string()
    };
    let header = "timestamp_us,op,volume,offset,length\n";
    let timed = make("timed.csv", &format!("{header}1,R,a,0,8192\n5,W,b,0,8192\n"));
    fails(&on(&[&timed], &by_volume), &["16 clients", "2 volume(s)", "round-robin"]);
    let untimed = make("untimed.lis", "0 1 0 0\n1 1 0 1\n");
    fails(
        &on(&[&timed, &untimed], &demote(&["--clients", "2"])),
        &["timed.csv", "untimed.lis", "none"],
    );
    let ulc = ["--policy", "ulc", "--clients", "2"];
    fails(&on(&[TRACE], &ulc), &["`ulc`", "2 were given", "demote", "d-hfa"]);
    let back = demote(&["--clients", "2"]);
    let back = [&["--policy", "d-hfa", "--param", "writes=back"], &back[2..]].concat();
    fails(&on(&[TRACE], &back), &["`writes`", "through"]);
    let compiled = folder.path().join("compiled.parquet").display().to_string();
    text(&["trace", "convert", &timed, "--to", "compiled", "-o", &compiled]);
    let merged = ["simulate", &timed, &compiled, "--policy", "demote", "--clients", "2"];
    fails(&[&merged[..], &TWO].concat(), &["compiled", "cannot be merged"]);
    // A recording states the size of its pages, other formats do not.
    let recording = make("r.csv", "timestamp_us,op,file_id,page_no,pages,flags\n1,R,0,0,1,\n");
    let table =
        "file_id,base_page,extent_pages,class,read_pages,write_pages,path\n0,0,4,t,1,0,/t\n";
    make("r.files.csv", table);
    make("r.stats.json", "{\"page_size\": 16384}");
    let sizes = ["simulate", &timed, &recording, "--policy", "demote", "--clients", "2"];
    let sizes = [&sizes[..], &TWO].concat();
    fails(&sizes, &["timed.csv", "4 KiB", "r.csv", "16 KiB", "--page-size 4096"]);
}

const PLACED: [&str; 10] = [
    "--tier",
    "ram=2%",
    "--tier",
    "flash=10%",
    "--timing",
    "events",
    "--closed-loop",
    "8",
    "--model",
    "flash=slc-2008",
];

#[test]
fn handles_of_the_flash_tier_are_chosen() {
    let with = |more: &[&'static str]| [&PLACED[..], more].concat();
    let handles = ["--placement", "handles=3,isolation=persistent"];
    for streams in ["tier", "client", "mbf", "oracle"] {
        let words = [&handles[..], &["--streams", streams, "--json"]].concat();
        let found = json(&simulate("face-gsc", &with(&words)));
        let ssd = &found["devices"][1]["ssd"];
        let placement = &ssd["placement"];
        assert_eq!(
            (placement["streams"].as_str(), number(&placement["handles"])),
            (Some(streams), 3.0)
        );
        let written: f64 = placement["pages_written"].as_array().unwrap().iter().map(number).sum();
        assert_eq!(written.to_bits(), number(&found["tiers"][1]["page_writes"]).to_bits());
        let [drive, policy, total] =
            ["write_amplification", "policy_write_amplification", "total_write_amplification"]
                .map(|name| number(&ssd[name]));
        assert!((drive * policy - total).abs() < 1e-9 && drive >= 1.0);
    }
    let shown =
        text(&simulate("face-gsc", &with(&["--placement", "handles=3", "--streams", "tier"])));
    assert!(
        shown.contains("together") && shown.contains("3 placement handles by `tier`"),
        "{shown}"
    );
    let clients = ["--clients", "2", "--placement", "handles=2", "--streams", "client"];
    let tiers = ["--tier", "l1=2%", "--tier", "l2=10%", "--timing", "events", "--closed-loop", "8"];
    let words = [&tiers[..], &["--model", "l2=slc-2008", "--json"], &clients].concat();
    let found = json(&simulate("demote", &words));
    let drive = found["devices"].as_array().unwrap().iter().find(|one| one["ssd"].is_object());
    let written = &drive.unwrap()["ssd"]["placement"]["pages_written"];
    assert!(written.as_array().unwrap().iter().all(|pages| number(pages) > 0.0), "{written}");
}

#[test]
fn placement_that_cannot_be_is_refused() {
    let with = |more: &[&'static str]| [&PLACED[..], more].concat();
    let refused =
        |more: &[&'static str], parts: &[&str]| fails(&simulate("hat", &with(more)), parts);
    refused(&["--placement", "handles=0"], &["--placement", "1 to 16"]);
    refused(&["--placement", "4"], &["--placement", "handles=8"]);
    refused(&["--streams", "mbf"], &["--streams", "handles=4"]);
    refused(&["--placement", "handles=2", "--streams", "mfb"], &["--streams", "mbf"]);
    refused(&["--placement", "handles=2", "--streams", "class"], &["only a recording"]);
    let cost = ["--placement", "handles=2"];
    fails(&simulate("hat", &[&PLACED[..4], &cost].concat()), &["--placement", "events"]);
    fails(&simulate("hat", &[&PLACED[..8], &cost].concat()), &["--placement", "flash=tlc-nvme"]);
}
