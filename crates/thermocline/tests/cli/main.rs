//! The command line as a user meets it: results, contracts, and what bad input is answered with.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod actions;
mod advise;
mod artifact;
mod buffer;
mod command;
mod corpus;
#[cfg(target_os = "linux")]
mod endings;
mod explore;
mod formats;
mod help;
mod kv;
mod mrc;
mod over_time;
mod plan;
mod record;
mod reproduce;
mod sweep;
mod tiers;
mod two_tier;
mod wrong_files;

use std::path::Path;
use std::sync::LazyLock;

use serde_json::Value;

use self::command::{fails, json, text};

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/pgbench/pgbench.csv.zst");

/// A trace of a tenth of the bundled one, for commands that replay it many times.
static SHORT: LazyLock<String> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/short.csv");
    let size = ["--requests", "25000", "--pages", "5000", "--seed", "1"];
    text(&[&["trace", "generate", "--kind", "oltp", "-o", path][..], &size].concat());
    path.to_owned()
});

const SIZES: [&str; 6] = ["--page-size", "8KiB", "--tier", "ram=2%", "--tier", "flash=4x"];

fn simulate<'a>(trace: &'a str, policy: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["simulate", trace, "--policy", policy][..], &SIZES, more].concat()
}

#[test]
fn simulate_prints_the_contract() {
    let summary = json(&simulate(TRACE, "hat", &["--json", "--check"]));
    let trace = &summary["trace"];
    assert_eq!(trace["path"], TRACE);
    assert_eq!(trace["page_size_bytes"], 8192);
    assert_eq!(trace["requests"], 247_639);
    assert_eq!(trace["accesses"], 260_211);
    assert_eq!(trace["footprint_pages"], 38_899);
    let number = |value: &Value| value.as_u64().unwrap();
    assert_eq!(number(&trace["reads"]) + number(&trace["writes"]), 260_211);
    assert_eq!(summary["policy"]["name"], "hat");
    assert_eq!(summary["policy"]["parameters"]["nonhot_ratio"], 0.1);
    assert_eq!(summary["policy"]["parameters"]["early_brush"], false);
    let tiers = summary["tiers"].as_array().unwrap();
    let names: Vec<&str> = tiers.iter().map(|tier| tier["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ram", "flash", "disk"]);
    assert_eq!(tiers[0]["capacity_pages"], 777);
    assert_eq!(tiers[1]["capacity_pages"], 3108);
    assert_eq!(tiers[2]["capacity_pages"], Value::Null);
    assert_eq!(tiers.iter().map(|tier| number(&tier["hits"])).sum::<u64>(), 260_211);
    let mut io_time_ms = 0.0;
    for tier in tiers {
        assert_eq!(number(&tier["read_hits"]) + number(&tier["write_hits"]), number(&tier["hits"]));
        io_time_ms += number(&tier["page_reads"]) as f64 * tier["read_ms"].as_f64().unwrap();
        io_time_ms += number(&tier["page_writes"]) as f64 * tier["write_ms"].as_f64().unwrap();
    }
    assert!((summary["io_time_ms"].as_f64().unwrap() - io_time_ms).abs() < 1.0);
    assert!(summary["replay_seconds"].as_f64().unwrap() > 0.0);
    assert!(summary["accesses_per_second"].as_f64().unwrap() > 0.0);
}

#[test]
fn compare_is_an_array_of_simulations() {
    let words = ["compare", TRACE, "--policy", "hat,lru", "--json", "--page-size", "8KiB"];
    let tiers = ["--tier", "ram=1%,2%", "--tier", "flash=1x,4x"];
    let all = json(&[&words[..], &tiers].concat());
    assert_eq!(all.as_array().unwrap().len(), 8);
    let mut alone = json(&simulate(TRACE, "hat", &["--json"]));
    let mut same = all
        .as_array()
        .unwrap()
        .iter()
        .find(|summary| {
            summary["policy"]["name"] == "hat" && summary["tiers"][1]["capacity_pages"] == 3108
        })
        .unwrap()
        .clone();
    for summary in [&mut alone, &mut same] {
        summary["replay_seconds"] = Value::Null;
        summary["accesses_per_second"] = Value::Null;
    }
    assert_eq!(alone, same);
}

#[test]
fn write_misses_and_warm_up_do_what_they_say() {
    let fetch = json(&simulate(TRACE, "lru", &["--json"]));
    let allocate = json(&simulate(TRACE, "lru", &["--json", "--write-miss", "allocate"]));
    let reads = |summary: &Value| summary["tiers"][2]["page_reads"].as_u64().unwrap();
    let write_misses = fetch["tiers"][2]["write_hits"].as_u64().unwrap();
    assert!(write_misses > 0);
    assert_eq!(reads(&fetch) - reads(&allocate), write_misses);

    let half = json(&simulate(TRACE, "lru", &["--json", "--warm-up", "50%"]));
    assert_eq!(half["warm_up_accesses"], 130_105);
    let hits: u64 =
        half["tiers"].as_array().unwrap().iter().map(|tier| tier["hits"].as_u64().unwrap()).sum();
    assert_eq!(hits, 260_211 - 130_105);
}

#[test]
fn devices_change_the_time_and_nothing_else() {
    let plain = json(&simulate(TRACE, "lru-exclusive", &["--json"]));
    let costs = ["--json", "--cost", "flash=1/0", "--cost", "disk=0/0", "--device", "ram=memory"];
    let costly = json(&simulate(TRACE, "lru-exclusive", &costs));
    assert_eq!(plain["tiers"][1]["page_reads"], costly["tiers"][1]["page_reads"]);
    let reads = costly["tiers"][1]["page_reads"].as_f64().unwrap();
    assert!((costly["io_time_ms"].as_f64().unwrap() - reads).abs() < 0.5);
}

#[test]
fn lists_are_complete_in_both_forms() {
    let policies = json(&["policies", "--json"]);
    let plain = text(&["policies"]);
    for policy in policies.as_array().unwrap() {
        let name = policy["name"].as_str().unwrap();
        assert!(plain.contains(name));
        assert_eq!(json(&["policies", name, "--json"])["name"], name);
    }
    assert!(text(&["policies", "tac"]).contains("aging_interval"));
    let devices = json(&["devices", "--json"]);
    assert!(devices.as_array().unwrap().iter().any(|device| device["name"] == "nvme-ssd"));
    assert!(text(&["devices"]).contains("samsung-470"));
}

#[test]
fn traces_are_made_converted_and_described() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (csv, oracle, compiled) = (path("t.csv"), path("t.oracle"), path("t.parquet"));
    let kind = ["--requests", "3000", "--pages", "200", "--seed", "7"];
    text(&[&["trace", "generate", "-o", &csv][..], &kind].concat());
    let bytes = std::fs::read(&csv).unwrap();
    text(&[&["trace", "generate", "-o", &csv][..], &kind].concat());
    assert_eq!(std::fs::read(&csv).unwrap(), bytes, "the same seed makes the same trace");
    text(&["trace", "convert", &csv, "--to", "oracle-general", "-o", &oracle]);
    text(&["trace", "convert", &csv, "--to", "compiled", "-o", &compiled]);
    let mapped = path("t.tct");
    text(&["trace", "convert", &csv, "--to", "mapped", "-o", &mapped]);
    let info = json(&["trace", "info", &csv, "--json"]);
    assert_eq!(info["requests"], 3000);
    for other in [&oracle, &compiled, &mapped] {
        let words = ["simulate", other, "--policy", "lru", "--tier", "ram=50p", "--json"];
        let summary = json(&words);
        assert_eq!(summary["trace"]["accesses"], 3000);
        assert_eq!(summary["trace"]["footprint_pages"], info["footprint_pages"]);
    }
    let mut damaged = std::fs::read(&mapped).unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    std::fs::write(&mapped, &damaged).unwrap();
    fails(&["trace", "info", &mapped], &["t.tct", "damaged", "compile the trace again"]);
    damaged.pop();
    std::fs::write(&mapped, &damaged).unwrap();
    fails(&["simulate", &mapped, "--policy", "lru", "--tier", "ram=50p"], &["truncated"]);
    assert!(text(&["trace", "info", &csv]).contains("LRU hit ratio at 20 %"));
}

#[test]
fn reports_are_whole_files() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("demo.html");
    let shown = text(&["demo", "--report", report.to_str().unwrap()]);
    assert!(shown.contains("hat") && shown.contains("lru-exclusive"));
    let html = std::fs::read_to_string(&report).unwrap();
    assert!(html.ends_with("</html>\n") && html.contains("<svg"));
    let (_, shipped) = html.split_once("Caches that systems ship").unwrap();
    assert!(["lvm cache", "Open CAS", "foyer"].iter().all(|label| shipped.contains(label)));
    assert_eq!(shipped.matches("<td>published").count(), 3);
    // The part before the script; the script is tried in a browser without a network.
    let (page, _) = html.split_once("\n<script>\n").unwrap();
    for outside in ["src=\"", "href=\"http", "url(http", "<link", "@import"] {
        assert!(!page.contains(outside), "the report opens offline");
    }
}

#[test]
fn reports_are_drawings_if_their_names_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("curves.svg");
    let report = report.to_str().unwrap();
    let words = ["mrc", TRACE, "--policy", "lru", "--report", report];
    text(&words);
    let mut files: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert!(files.len() > 1 && files.iter().any(|file| file == "curves.svg"), "{files:?}");
    assert!(files.iter().any(|file| file == "curves-re-use-distance.svg"), "{files:?}");
    for file in files {
        let drawing = std::fs::read_to_string(folder.path().join(&file)).unwrap();
        assert!(drawing.starts_with("<svg xmlns") && drawing.ends_with("</svg>\n"), "{file}");
    }
}

/// Compares the README's picture with the output of the README's command, or rewrites it for `cargo
/// xtask golden`.
#[test]
fn the_picture_of_the_readme_is_what_compare_draws() {
    let folder = tempfile::tempdir().unwrap();
    let drawing = folder.path().join("comparison.svg");
    let words = ["compare", TRACE, "--page-size", "8KiB", "--tier", "ram=2%"];
    let more = ["--tier", "flash=1x,2x,4x,8x", "--policy", "hat,face-gsc,tac,lc,lru", "--report"];
    text(&[&words[..], &more, &[drawing.to_str().unwrap()]].concat());
    let shown = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/images/comparison.svg");
    if std::env::var_os("THERMOCLINE_WRITE_GOLDEN").is_some() {
        std::fs::copy(&drawing, shown).unwrap();
    }
    let [drawn, shown] =
        [drawing.as_path(), shown.as_ref()].map(|path| std::fs::read(path).unwrap());
    assert!(drawn == shown, "`cargo xtask golden` draws it anew");
}

#[test]
fn where_no_file_can_be_written_is_told_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent");
    let (file, dir) = (absent.join("out").display().to_string(), folder.path().to_str().unwrap());
    // The trace is not there either, and would be told if it was looked for first.
    for words in [
        &["compare", "no-such.csv", "--policy", "lru", "--tier", "ram=1%", "--report"][..],
        &["mrc", "no-such.csv", "--csv"],
        &["mrc", "no-such.csv", "--report"],
        &["plan", "no-such.csv", "--budget", "1", "--price", "ram=1,flash=1,disk=1", "-o"],
        &["sweep", "no-such.toml", "--output"],
        &["sweep", "no-such.toml", "--report"],
        &["hot", "no-such.csv", "--report"],
        &["trace", "info", "no-such.csv", "--report"],
        &["trace", "convert", "no-such.csv", "-o"],
        &["demo", "--report"],
        &["reproduce", "hat", "--report"],
    ] {
        let option = words.last().unwrap();
        let with = |path| [words, &[path]].concat();
        fails(&with(&file), &[option, "absent`: there is no such folder: make it"]);
        fails(&with(dir), &[option, "it is a folder: name a file"]);
    }
    assert!(!absent.exists());
}

#[test]
fn bad_traces_are_refused_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    fails(&simulate("no-such-file.csv", "hat", &[]), &["no-such-file.csv"]);
    fails(&simulate(&write("empty", b""), "hat", &[]), &["empty"]);
    let bad = write("bad.spc", b"0,8,4096,r,0.5\n0,8,4096,x,0.6\n");
    fails(&simulate(&bad, "hat", &["--format", "spc"]), &["bad.spc", "2"]);
    let noise: Vec<u8> =
        (0..999_u32).map(|byte| (byte * byte / 7).to_le_bytes()[0] | 128).collect();
    fails(
        &simulate(&write("noise", &noise), "hat", &[]),
        &["noise", "name it with --format, one of: "],
    );
    fails(&simulate(TRACE, "hat", &["--format", "nonsense"]), &["nonsense", "spc"]);
    let torn = write("torn.oracleGeneral", &[1; 24 * 3 + 5]);
    fails(&simulate(&torn, "lru", &["--format", "oracle-general"]), &["--allow-truncated"]);
    let torn_words =
        ["--format", "oracle-general", "--allow-truncated", "--objects", "one", "--json"];
    let words = simulate(&torn, "lru", &torn_words);
    let words: Vec<&str> =
        words.into_iter().map(|word| if word == "ram=2%" { "ram=1p" } else { word }).collect();
    assert_eq!(json(&words)["trace"]["accesses"], 3);
    fails(&simulate(folder.path().to_str().unwrap(), "hat", &[]), &[]);
}

#[test]
fn what_is_read_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (trace, link, table) = (path("trace.csv"), path("link.csv"), path("table.csv"));
    text(&["trace", "generate", "-o", &trace, "--requests", "100", "--pages", "10"]);
    let before = std::fs::read(&trace).unwrap();
    std::os::unix::fs::symlink(&trace, &link).unwrap();
    let sizes = ["--tier", "ram=2p", "--policy", "lru"];
    for target in [&trace, &link] {
        let read = ["is what is read: name another file", target];
        for command in [
            &[&["compare", &trace, "--report", target][..], &sizes].concat()[..],
            &["mrc", &trace, "--csv", target],
            &["hot", &trace, "--identifier", "mbf", "--report", target],
            &["plan", &trace, "--budget", "1", "--price", "ram=1,flash=1,disk=1", "-o", target],
            &["trace", "info", &trace, "--report", target],
            &["trace", "classes", &trace, "--report", target],
            &["trace", "convert", &trace, "--to", "spc", "-o", target],
        ] {
            fails(command, &read);
        }
    }
    fails(&["mrc", &trace, "--csv", &table, "--report", &table], &["written twice", &table]);
    fails(&["trace", "convert", &trace, "--to", "spc", "-o", "/dev/null"], &["not a regular file"]);
    assert_eq!(std::fs::read(&trace).unwrap(), before);
    assert!(!Path::new(&table).exists());
}

#[test]
fn bad_options_are_refused_with_what_would_be_right() {
    fn run<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&["simulate", TRACE][..], more].concat()
    }
    let hat = ["--policy", "hat", "--tier", "ram=2%", "--tier", "flash=4x"];
    fails(
        &run(&["--policy", "hatt", "--tier", "ram=1%"]),
        &["unknown policy `hatt`; did you mean `hat`?"],
    );
    fails(&run(&["--policy", "hat", "--tier", "ram=64Q"]), &["64MiB", "5%", "100p"]);
    fails(&run(&["--policy", "lru", "--tier", "ram=4x"]), &["first one"]);
    fails(&run(&["--policy", "hat", "--tier", "ram=1%"]), &["runs on", "lru"]);
    fails(&run(&["--policy", "hat", "--tier", "flash=1%", "--tier", "ram=1%"]), &["ram"]);
    fails(&run(&["--policy", "hat", "--tier", "ssd=1%"]), &["ssd", "ram, flash"]);
    fails(&run(&["--policy", "hat", "--tier", "ram=0p", "--tier", "flash=9p"]), &["at least one"]);
    fails(
        &run(&["--policy", "hat", "--tier", "ram=9e99p", "--tier", "flash=9p"]),
        &["`ram`", "the number is too large"],
    );
    let with = |more: &[&'static str]| run(&[&hat[..], more].concat());
    fails(&with(&["--page-size", "0"]), &["page size"]);
    fails(&with(&["--page-size", "lots"]), &["4KiB"]);
    fails(&with(&["--param", "nonhot_ratio=2"]), &["--param nonhot_ratio=2", "from 0 to 1"]);
    fails(&with(&["--param", "hotness=2"]), &["hotness", "hat.nonhot_ratio"]);
    fails(&with(&["--param", "tac.aging_interval=2"]), &["tac"]);
    fails(&with(&["--param", "nonhot_ratio"]), &["nonhot_ratio=0.1"]);
    fails(&with(&["--device", "flash=floppy"]), &["--device flash=floppy", "nvme-ssd"]);
    fails(&with(&["--cost", "flash=cheap"]), &["READ_MS/WRITE_MS"]);
    fails(&with(&["--cost", "tape=1/1"]), &["--cost tape=1/1", "tape", "disk"]);
    fails(&with(&["--cost", "flash=-1/1"]), &["--cost flash=-1/1", "READ_MS/WRITE_MS"]);
    fails(&with(&["--device", "disk=floppy"]), &["--device disk=floppy", "nvme-ssd"]);
    fails(&with(&["--admit", "guess"]), &["--admit guess", "mbf"]);
    fails(&with(&["--model", "flash=tlc-nvme"]), &["--model flash=tlc-nvme", "`events`"]);
    fails(&with(&["--timing", "events", "--model", "disk=server:0"]), &["--model", "server:8"]);
    fails(&with(&["--devices", "no-such.toml"]), &["no-such.toml"]);
    fails(&with(&["--warm-up", "100%"]), &["nothing to count"]);
    fails(&with(&["--warm-up", "most"]), &["20%"]);
    fails(&["reproduce", "hat", "--traces", "no-such-folder"], &["no-such-folder"]);
    let unwritable = Path::new("no-such-folder").join("x.html").display().to_string();
    fails(&["demo", "--report", &unwritable], &["no-such-folder"]);
}

#[test]
fn hot_prints_the_contract() {
    let words = ["hot", TRACE, "--page-size", "8KiB", "--identifier", "mbf,mhf", "--json"];
    let found = json(&[&words[..], &["--param", "mbf.filter_bits=4096"]].concat());
    assert_eq!(found["trace"]["path"], TRACE);
    assert_eq!(found["trace"]["writes"], 101_977);
    assert_eq!(found["baseline"], "wdac");
    let identifiers = found["identifiers"].as_array().unwrap();
    let names: Vec<&str> = identifiers.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["wdac", "mbf", "mhf"]);
    for one in identifiers {
        let number = |name: &str| one[name].as_u64().unwrap();
        assert_eq!(number("writes"), 101_977);
        let share = |count: u64| count as f64 / 101_977.0;
        let is_near = |name: &str, expected: f64| {
            assert!((one[name].as_f64().unwrap() - expected).abs() < 1e-12, "{name}: {one}");
        };
        is_near("hot_ratio", share(number("hot")));
        let different = number("false_hot") + number("false_cold");
        is_near("false_identification_rate", share(different));
    }
    assert_eq!(identifiers[0]["false_hot"], 0);
    assert_eq!(identifiers[0]["parameters"]["window_writes"], 4096);
    assert_eq!(identifiers[1]["parameters"]["filter_bits"], 4096);
    assert_eq!(identifiers[1]["memory_bits"], 8 * 2048);
    let all = json(&[&words[..], &["--count", "reads,writes", "--baseline", "dam"]].concat());
    assert_eq!(all["trace"]["writes"], 260_211);
    assert_eq!(all["identifiers"][0]["name"], "dam");
}

#[test]
fn hot_refuses_what_cannot_be_with_the_range() {
    let run = |more: &[&'static str]| {
        [&["hot", TRACE, "--page-size", "8KiB", "--identifier", "mbf,mhf"], more].concat()
    };
    fails(&run(&["--param", "mbf.filters=0"]), &["filters", "from 1 to 16"]);
    fails(&run(&["--param", "mbf.filters=3"]), &["not divisible", "multiple of 3"]);
    fails(&run(&["--param", "mbf.threshold=5.5"]), &["never be reached", "sum to 5"]);
    fails(&run(&["--param", "wdac.window_writes=0"]), &["from 1 to"]);
    fails(&run(&["--param", "mhf.counter_bits=9"]), &["from 1 to 8"]);
    fails(&run(&["--param", "dam.threshold=4"]), &["`dam` does not take part"]);
    fails(&run(&["--baseline", "wdca"]), &["unknown identifier `wdca`; did you mean `wdac`?"]);
    fails(&run(&["--baseline", "nothing-like-it"]), &["mbf, mhf, dam, wdac"]);
    fails(&run(&["--count", "erases"]), &["reads, writes or reads,writes"]);
    fails(&run(&["--interval", "0"]), &["interval"]);
}

#[test]
fn identifiers_are_listed_with_their_parameters() {
    let listed = json(&["identifiers", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 7);
    for one in listed.as_array().unwrap() {
        let name = one["name"].as_str().unwrap();
        assert!(text(&["identifiers"]).contains(name));
        assert!(text(&["identifiers", name]).contains("source of the default"), "{name}");
        assert!(one.get("tiers").is_none(), "an identifier has no tiers");
    }
    fails(&["identifiers", "mbv"], &["mbv", "mbf"]);
}

#[test]
fn admission_saves_flash_writes() {
    let every = json(&simulate(TRACE, "face", &["--json"]));
    let hot = json(&simulate(TRACE, "face", &["--json", "--check", "--admit", "mbf"]));
    let flash_writes = |summary: &Value| summary["tiers"][1]["page_writes"].as_u64().unwrap();
    assert!(flash_writes(&hot) * 10 < flash_writes(&every));
    assert!(every["policy"].get("admission").is_none());
    assert_eq!(hot["policy"]["admission"]["identifier"], "mbf");
    assert_eq!(hot["policy"]["admission"]["parameters"]["filters"], 4);
    fails(&simulate(TRACE, "hat", &["--admit", "mbf"]), &["`hat` decides by itself", "face"]);
    fails(&simulate(TRACE, "face", &["--admit", "mbv"]), &["mbv", "mbf"]);
}

#[test]
fn written_pages_are_classed() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("classes.html");
    let words = ["trace", "classes", TRACE, "--page-size", "8KiB"];
    let more = ["--frequent-writes", "3", "--short-distance", "1000p", "--json", "--report"];
    let found = json(&[&words[..], &more, &[report.to_str().unwrap()]].concat());
    assert_eq!(found["writes"], 101_977);
    assert_eq!(found["short_distance_pages"], 1000);
    let classes = found["classes"].as_array().unwrap();
    let names: Vec<&str> = classes.iter().map(|one| one["class"].as_str().unwrap()).collect();
    assert_eq!(names, ["FS", "FL", "IS", "IL"]);
    let sum = |name: &str| classes.iter().map(|one| one[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("writes"), 101_977);
    assert_eq!(sum("pages"), found["pages"].as_u64().unwrap());
    assert!(std::fs::read_to_string(report).unwrap().contains("Re-use distance over time"));
    fails(&[&words[..], &["--short-distance", "soon"]].concat(), &["soon", "64MiB"]);
}

#[test]
fn events_give_response_times() {
    let events = ["--timing", "events", "--closed-loop", "4", "--json", "--check"];
    let summary = json(&simulate(TRACE, "face", &events));
    for op in ["read", "write"] {
        let times = &summary["response_us"][op];
        let figures = ["p50", "p95", "p99", "p999"].map(|name| times[name].as_f64().unwrap());
        assert!(figures.is_sorted(), "{times}");
        assert!(times["mean"].as_f64().unwrap() > 0.0);
    }
    let models: Vec<&str> = summary["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["model"].as_str().unwrap())
        .collect();
    assert_eq!(models, ["memory", "samsung-470 (1 at a time)", "st380011a"]);
    let untimed = json(&simulate(TRACE, "face", &["--json"]));
    assert!(untimed.get("response_us").is_none());
    assert_eq!(summary["tiers"], untimed["tiers"], "the same pages are moved");
    let fast = ["--model", "disk=exos-x18", "--model", "flash=server:8"];
    json(&simulate(TRACE, "face", &[&events[..], &fast].concat()));
    let table = text(&simulate(TRACE, "face", &events[..4]));
    assert!(table.contains("p99.9") && table.contains("busy"), "{table}");

    let events = &events[..2];
    let with = |more: &[&'static str]| [events, more].concat();
    fails(&simulate(TRACE, "face", &with(&["--model", "disk=st38"])), &["st38", "st380011a"]);
    fails(
        &simulate(TRACE, "face", &with(&["--model", "tape=server"])),
        &["tape", "ram, flash, disk"],
    );
    fails(&simulate(TRACE, "face", &with(&["--model", "flash=server:0"])), &["server:8"]);
    fails(&simulate(TRACE, "face", &with(&["--closed-loop", "0"])), &["closed-loop"]);
    fails(&simulate(TRACE, "face", &["--closed-loop", "4"]), &["--closed-loop", "timing `events`"]);
}

#[test]
fn profiles_are_fitted_and_make_traces_like_the_original() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (csv, profile, like, half) =
        (path("t.csv"), path("t.profile"), path("like.csv"), path("half.csv"));
    let kind = ["--kind", "oltp", "--requests", "30000", "--pages", "3000", "--seed", "7"];
    text(&[&["trace", "generate", "-o", &csv][..], &kind].concat());
    let fitted = json(&["trace", "fit", &csv, "-o", &profile, "--json"]);
    let original = json(&["trace", "info", &csv, "--json"]);
    for count in ["accesses", "footprint_pages", "requests", "writes"] {
        assert_eq!(fitted[count], original[count], "{count}");
    }
    let bytes = std::fs::metadata(&profile).unwrap().len();
    assert_eq!(fitted["bytes"], bytes);
    assert!(bytes <= 16 << 10, "{bytes}");
    assert!(text(&["trace", "fit", &csv, "-o", &profile]).contains(" bytes for "));

    let generate = ["trace", "generate", "--profile", &profile, "-o"];
    text(&[&generate[..], &[&like]].concat());
    let made = std::fs::read(&like).unwrap();
    text(&[&generate[..], &[&like]].concat());
    assert_eq!(std::fs::read(&like).unwrap(), made, "the same seed makes the same trace");
    text(&[&generate[..], &[&like, "--seed", "2"]].concat());
    assert_ne!(std::fs::read(&like).unwrap(), made, "another seed makes another trace");
    let accesses = (original["accesses"].as_u64().unwrap() / 2).to_string();
    text(&[&generate[..], &[&half, "--accesses", &accesses]].concat());
    for (path, share) in [(&like, 1.0), (&half, 0.5)] {
        let found = json(&["trace", "info", path, "--json"]);
        for count in ["accesses", "footprint_pages"] {
            let ratio = found[count].as_f64().unwrap() / original[count].as_f64().unwrap();
            assert!((ratio / share - 1.0).abs() < 0.15, "{path}: {ratio} of {count}");
        }
    }

    let both = [&generate[..], &[&half, "--pages", "10"]].concat();
    fails(&both, &["--profile", "--pages"]);
    fails(&["trace", "generate", "-o", &half, "--accesses", "5"], &["--profile"]);
    fails(&["trace", "generate", "--profile", &csv, "-o", &half], &["t.csv", "trace fit"]);
    fails(&["trace", "generate", "--profile", &path("none"), "-o", &half], &["none"]);
    let kept = std::fs::read(&profile).unwrap();
    fails(&["trace", "fit", &csv, "-o", &csv], &["is what is read"]);
    fails(&["trace", "generate", "--profile", &profile, "-o", &profile], &["is what is read"]);
    assert_eq!(std::fs::read(&profile).unwrap(), kept);
}
