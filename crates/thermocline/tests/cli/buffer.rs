//! `thermocline buffer`, the lists that go with it, and `reproduce hwb`.

use serde_json::Value;

use super::{SIZES, TRACE, fails, json, simulate, text};

const NAMES: [&str; 10] =
    ["none", "lru", "cflru", "cfdc", "lru-wsr", "fab", "bplru", "lb-clock", "bpac", "hwb"];

fn buffer<'a>(policy: &'a str, size: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["buffer", TRACE, "--page-size", "8KiB", "--policy", policy, "--size", size], more].concat()
}

/// Words for the first requests of the trace alone.
fn buffer_at_first<'a>(policy: &'a str, size: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    buffer(policy, size, &[&["--limit", "50000"], more].concat())
}

#[test]
fn buffer_prints_the_contract() {
    let words = ["--ssd", "ssdsim", "--closed-loop", "4", "--json", "--check"];
    let found = json(&buffer("hwb,lru", "2MiB,300p", &words));
    let found = found.as_array().unwrap();
    let names: Vec<&str> =
        found.iter().map(|one| one["policy"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["hwb", "lru", "hwb", "lru"]);
    for one in found {
        let count = |name: &str| one[name].as_u64().unwrap();
        assert_eq!(count("page_reads") + count("page_writes"), 260_211);
        assert_eq!(count("page_size_bytes"), 8192);
        let misses = count("page_writes") - count("write_hits");
        assert_eq!(misses, count("pages_flushed") + count("pages_resident"));
        assert!(count("flushes") <= count("pages_flushed") && count("read_hits") > 0);
        let ratio = one["write_hit_ratio"].as_f64().unwrap();
        let expected = count("write_hits") as f64 / count("page_writes") as f64;
        assert!((ratio - expected).abs() < 1e-12);
        assert!(one["write_amplification"].as_f64().unwrap() >= 1.0);
        for op in ["read", "write"] {
            let times = &one["response_us"][op];
            let figures = ["p50", "p95", "p99", "p999"].map(|name| times[name].as_f64().unwrap());
            assert!(figures.is_sorted() && times["mean"].as_f64().unwrap() > 0.0, "{times}");
        }
        assert!(one["policy"]["parameters"].is_object());
        assert!(one["erase_count"].is_u64());
    }
    let own = ["buffer", TRACE, "--policy", "lru", "--size", "2MiB"];
    let own = json(&[&own[..], &words].concat());
    assert_eq!(own[0]["page_size_bytes"], 2048, "the drive's, as the recording states none");
    assert_eq!(found[0]["buffer_pages"], 256);
    assert_eq!(found[2]["buffer_pages"], 300);
    assert_eq!(found[0]["policy"]["parameters"]["pages_per_block"], 16, "64 pages of 2 KiB");
}

#[test]
fn a_buffer_alone_needs_no_drive() {
    let found = json(&buffer_at_first("all", "300p", &["--json", "--param", "pages_per_block=64"]));
    let names: Vec<&str> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["policy"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, NAMES);
    let [none, lru] = [&found[0], &found[1]];
    assert_eq!(none["write_hits"], 0);
    assert_eq!(none["pages_flushed"], none["page_writes"]);
    assert_eq!(lru["pages_resident"], 300);
    assert_eq!(lru["erase_count"], Value::Null);
    assert_eq!(lru["lifetime_years"], Value::Null);
    let table = text(&buffer_at_first("all", "300p", &[]));
    assert!(NAMES.iter().all(|name| table.contains(name)) && !table.contains("Erases"), "{table}");
}

#[test]
fn the_drive_can_be_shaped() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("r.html");
    let report = report.to_str().unwrap();
    let drive = ["--ssd", "mlc-sata-2011", "--closed-loop", "8"];
    let found = |more: &[&str]| {
        let words = [&drive[..], more, &["--json"]].concat();
        json(&buffer_at_first("none", "300p", &words))[0].clone()
    };
    let whole = found(&[]);
    assert_eq!(whole["erase_count"], 0, "64 GB are not full after one trace");
    assert_eq!(whole["ssd"]["name"], "mlc-sata-2011");
    let fitted = found(&["--ssd-size", "fit", "--precondition", "fill=1,overwrite=1,seed=7"]);
    assert!(fitted["erase_count"].as_u64().unwrap() > 0);
    assert!(fitted["lifetime_years"].as_f64().unwrap() > 0.0);
    let streams = found(&["--ssd-size", "1GiB", "--streams", "mbf", "--param", "mbf.threshold=3"]);
    assert_eq!(streams["ssd"]["logical_pages"].as_u64().unwrap() >> 17, 1, "1 GiB of 8 KiB pages");
    let words = [&drive[..], &["--ssd-size", "fit", "--report", report]].concat();
    text(&buffer_at_first("lru,hwb", "1MiB,2MiB", &words));
    let html = std::fs::read_to_string(report).unwrap();
    for part in ["Erases over buffer size", "Sizes of flushes", "Wear", "--ssd-size fit", "</html>"]
    {
        assert!(html.contains(part), "{part}");
    }

    let own = folder.path().join("own.toml");
    let toml = "name = \"own\"\nchannels = 1\nchips_per_channel = 1\ndies_per_chip = 1\n\
        planes_per_die = 1\nblocks_per_plane = 4000\npages_per_block = 64\npage_bytes = 8192\n\
        over_provisioning = 0.1\nread_us = [20]\nprogram_us = [200]\nerase_us = 1500\n\
        command_ns = 100\nbus_ns_per_byte = 5.0\nqueue_depth = 8\ngc_threshold = 0.02\n\
        erase_limit = 1000\n";
    std::fs::write(&own, toml).unwrap();
    let own = own.to_str().unwrap();
    let words = ["--ssd", own, "--closed-loop", "1", "--json"];
    assert_eq!(json(&buffer_at_first("lru", "300p", &words))[0]["ssd"]["name"], "own");
    std::fs::write(own, toml.replace("channels = 1", "channels = 0")).unwrap();
    fails(&buffer_at_first("lru", "300p", &words), &["own.toml", "channels", "1 to 64"]);
    std::fs::write(own, toml.replace("over_provisioning = 0.1", "over_provisioning = 0")).unwrap();
    fails(&buffer_at_first("lru", "300p", &words), &["over_provisioning", "to 0.9"]);
    std::fs::write(own, toml.replace("blocks_per_plane = 4000", "blocks_per_plane = 100")).unwrap();
    fails(&buffer_at_first("lru", "300p", &words), &["17362 pages", "larger"]);
    std::fs::write(own, toml.replace("erase_limit = 1000", "erase_limit = 1")).unwrap();
    let small = ["--ssd", own, "--closed-loop", "1", "--ssd-size", "fit"];
    fails(&buffer_at_first("none", "300p", &small), &["worn out after"]);
}

#[test]
fn an_identifier_chooses_placement_handles() {
    let drive = ["--ssd", "slc-2008", "--closed-loop", "8", "--ssd-size", "fit", "--json"];
    let found = |more: &[&str]| {
        let words = [&drive[..], &["--placement"], more].concat();
        json(&buffer_at_first("none", "300p", &words))[0]["ssd"].clone()
    };
    let none = found(&["handles=4"]);
    assert_eq!(none["placement"]["streams"], "none");
    assert_eq!(none["placement"]["pages_written"].as_array().unwrap().len(), 4);
    let persistent = "handles=3,isolation=persistent,reclaim_unit_blocks=2";
    let dam = found(&[persistent, "--streams", "dam", "--param", "dam.threshold=3"]);
    assert_eq!(dam["placement"]["streams"], "dam");
    assert!(dam["placement"]["identifier_bytes"].as_u64().unwrap() > 0);
    let oracle = found(&["handles=8", "--streams", "oracle"]);
    let written = oracle["placement"]["pages_written"].as_array().unwrap();
    let used = written.iter().filter(|pages| pages.as_u64().unwrap() > 0).count();
    // Pages that live equally long are not parted.
    assert!((4..=8).contains(&used), "{written:?}");

    let with = |more: &[&'static str]| [&drive[..6], more].concat();
    let wrong = |text: &'static str, expected: &[&str]| {
        fails(&buffer_at_first("lru", "300p", &with(&["--placement", text])), expected);
    };
    wrong("handles=17", &["handles", "1 to 16"]);
    wrong("isolation=persistent", &["handles", "1 to 16"]);
    wrong("handles=2,isolation=none", &["--placement", "handles=8,isolation=persistent"]);
    wrong("8", &["--placement", "handles=8"]);
    fails(
        &buffer_at_first("lru", "300p", &with(&["--streams", "oracle"])),
        &["--placement: the drive has no placement handles", "handles=8"],
    );
    // Each file of this trace is a volume, and no table says of which class.
    let volume = found(&["handles=4", "--streams", "volume"]);
    let written = volume["placement"]["pages_written"].as_array().unwrap();
    assert!(written.iter().all(|pages| pages.as_u64().unwrap() > 0), "{written:?}");
    let class = with(&["--placement", "handles=4", "--streams", "class"]);
    fails(&buffer_at_first("lru", "300p", &class), &["only a recording", "take `volume`"]);
    let tier = with(&["--placement", "handles=4", "--streams", "tier"]);
    fails(&buffer_at_first("lru", "300p", &tier), &["--streams", "`tier` is for hierarchies"]);
    fails(&buffer_at_first("lru", "300p", &with(&["--streams", "orakel"])), &["orakel", "`class`"]);
    fails(
        &buffer_at_first("lru", "300p", &["--placement", "handles=2"]),
        &["--placement", "ssdsim"],
    );
}

#[test]
fn a_flush_costs_a_drive_without_protection() {
    let found = |ssd: &str, more: &[&str]| {
        let drive = ["--ssd", ssd, "--ssd-size", "fit", "--closed-loop", "1", "--json"];
        json(&buffer_at_first("none", "1p", &[&drive[..], more].concat()))[0].clone()
    };
    let mean = |found: &Value| found["response_us"]["write"]["mean"].as_f64().unwrap();
    let [never, each] = [&[][..], &["--flush-every", "1"]].map(|more| found("mlc-sata-2011", more));
    assert_eq!(never["ssd"]["host_flushes"], 0);
    assert!(each["ssd"]["host_flushes"].as_u64().unwrap() > 0);
    assert!(mean(&each) > 2.0 * mean(&never), "{} and {}", mean(&each), mean(&never));
    let [never, each] = [&[][..], &["--flush-every", "1"]].map(|more| found("tlc-nvme", more));
    assert!(mean(&each) < 2.5 * mean(&never), "{} and {}", mean(&each), mean(&never));
    let flush = each["ssd"]["flush_response_us"]["max"].as_f64().unwrap();
    assert!(flush < 100.0, "a protected drive has nothing to write out: {flush} us");
    fails(&buffer_at_first("none", "1p", &["--flush-every", "8"]), &["--flush-every", "ssdsim"]);
    let none = ["--ssd", "ssdsim", "--closed-loop", "1", "--flush-every", "0"];
    fails(&buffer_at_first("none", "1p", &none), &["--flush-every"]);
}

#[test]
fn what_cannot_be_says_what_could() {
    let drive = ["--ssd", "ssdsim", "--closed-loop", "4"];
    let with = |more: &[&'static str]| [&drive[..], more].concat();
    fails(&buffer("lrru", "300p", &[]), &["unknown write buffer `lrru`; did you mean `lru`?"]);
    fails(&buffer("hwb", "10p", &[]), &["at least 64 pages", "10"]);
    fails(&buffer("hwb", "0p", &[]), &["at least one page"]);
    fails(&buffer("lru", "many", &[]), &["many", "64MiB"]);
    fails(
        &buffer("lru", "300p", &["--ssd", "floppy"]),
        &["unknown drive `floppy`", "ends in .toml", "ssdsim"],
    );
    fails(&buffer("lru", "300p", &["--ssd", "nowhere.toml"]), &["nowhere.toml"]);
    fails(&buffer("lru", "300p", &["--closed-loop", "4"]), &["--closed-loop", "needs a drive"]);
    fails(
        &buffer("lru", "300p", &["--precondition", "fill=1"]),
        &["--precondition", "needs a drive"],
    );
    fails(&buffer("lru", "300p", &with(&["--precondition", "full"])), &["full", "fill=0.9"]);
    fails(&buffer("lru", "300p", &with(&["--precondition", "fill=2"])), &["fill", "0 to 1"]);
    fails(&buffer("lru", "300p", &with(&["--ssd-size", "5%"])), &["5%", "4GiB"]);
    fails(&buffer("lru", "300p", &with(&["--streams", "guess"])), &["guess", "mbf"]);
    let small = ["buffer", TRACE, "--page-size", "512", "--policy", "lru", "--size", "9p"];
    fails(&[&small[..], &drive].concat(), &["512", "--page-size 2048"]);
    fails(&buffer("lru", "300p", &["--param", "ghosts=4"]), &["ghosts", "lru.reads"]);
    fails(&buffer("hwb", "300p", &["--param", "sigma=2"]), &["sigma", "0 to 1"]);
}

#[test]
fn buffers_and_drives_are_listed() {
    let all = json(&["buffers", "--json"]);
    let names = all.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap());
    assert!(names.eq(NAMES));
    assert!(text(&["buffers", "hwb"]).contains("move_threshold"));
    fails(&["buffers", "hat"], &["hat", "hwb"]);
    let drives = json(&["drives", "--json"]);
    let names = |kind: &str| -> Vec<String> {
        let drives = drives[kind].as_array().unwrap().iter();
        drives.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let ssds = [
        "ssdsim",
        "slc-2008",
        "mlc-sata-2011",
        "tlc-nvme",
        "qlc-nvme",
        "tlc-nvme-2025",
        "qlc-nvme-2025",
    ];
    assert_eq!(names("ssd"), ssds);
    assert_eq!(names("hdd"), ["st380011a", "exos-x18"]);
    let table = text(&["drives"]);
    assert!(table.contains("3.6 GiB") && table.contains("7,200"), "{table}");
}

#[test]
fn flash_tiers_wear() {
    let events = [
        "--limit",
        "50000",
        "--timing",
        "events",
        "--closed-loop",
        "8",
        "--model",
        "flash=mlc-sata-2011",
    ];
    let summary = json(&simulate(TRACE, "face", &[&events[..], &["--json"]].concat()));
    let flash = &summary["devices"][1];
    let drive = &flash["ssd"];
    assert!(drive["erase_count"].as_u64().unwrap() > 0);
    assert!(drive["erases_per_day"].as_f64().unwrap() > 0.0);
    assert!(drive["lifetime_years"].as_f64().unwrap() > 0.0);
    let host_writes = drive["host_writes"].as_u64().unwrap();
    assert_eq!(host_writes, summary["tiers"][1]["page_writes"].as_u64().unwrap());
    assert!(summary["devices"][0].get("ssd").is_none());
    let words = [&["compare", TRACE, "--policy", "hat,face"][..], &SIZES, &events].concat();
    assert!(text(&words).contains("Flash erases"));
}
