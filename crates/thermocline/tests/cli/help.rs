//! Help, completions and man pages; outputs that are compressed; what tables say of models and algorithms.

use super::command::thermocline;
use super::{TRACE, fails, json, text};

#[test]
fn completions_and_man_pages_are_installed_below_a_folder() {
    let script = text(&["completions", "bash"]);
    assert!(script.contains("--min-lifetime-years"));
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("usr");
    let said = text(&["completions", "--install", prefix.to_str().unwrap()]);
    assert!(said.contains("man pages"), "{said}");
    let installed = prefix.join("share/bash-completion/completions/thermocline");
    assert_eq!(std::fs::read_to_string(installed).unwrap(), script);
    for file in ["man/man1/thermocline.1", "man/man1/thermocline-trace-info.1"] {
        assert!(prefix.join("share").join(file).is_file(), "{file}");
    }
    fails(&["completions"], &["<SHELL>"]);
    fails(&["completions", "tcsh"], &["possible values: bash"]);
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    fails(&["completions", "--install", file.to_str().unwrap()], &["cannot make the folder"]);
}

#[test]
fn helps_end_with_an_example() {
    for words in
        [&["plan", "--help"][..], &["trace", "convert", "--help"], &["help", "cache", "drain"]]
    {
        let help = text(words);
        assert!(help.contains("\nExample:\n  $ thermocline "), "{help}");
    }
}

#[test]
fn texts_are_compressed_as_their_names_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (plain, zst, gz) = (path("t.csv"), path("t.csv.zst"), path("t.csv.gz"));
    for target in [&plain, &zst, &gz] {
        text(&["trace", "generate", "--requests", "5000", "-o", target]);
    }
    let bytes = |path: &str| std::fs::read(path).unwrap();
    assert!(bytes(&zst).starts_with(&[0x28, 0xb5, 0x2f, 0xfd]), "zstd");
    assert!(bytes(&gz).starts_with(&[0x1f, 0x8b]), "gzip");
    assert!(bytes(&zst).len() < bytes(&plain).len() / 2);
    let info = |path: &str| json(&["trace", "info", path, "--json"])["accesses"].clone();
    assert_eq!(info(&zst), info(&plain));
    assert_eq!(info(&gz), info(&plain));
    let csv = path("curves.csv.gz");
    text(&["mrc", &plain, "--sizes", "1%,10%", "--csv", &csv]);
    assert!(bytes(&csv).starts_with(&[0x1f, 0x8b]));
    let parquet = path("t.parquet.zst");
    let convert = ["trace", "convert", &plain, "-o", &parquet, "--to", "parquet"];
    fails(&convert, &["t.parquet.zst", "without .gz or .zst"]);
}

#[test]
fn a_policy_of_one_tier_runs_once_for_all_sizes_of_flash() {
    let sizes = ["--tier", "ram=1%,2%", "--tier", "flash=1x,4x"];
    let prices = ["--price", "ram=4", "--price", "flash=0.4", "--json"];
    let words = ["compare", TRACE, "--page-size", "8KiB", "--policy", "lru,tac"];
    let all = json(&[&words[..], &sizes, &prices].concat());
    let of = |ram: u64, flash: u64| {
        let mut runs = all.as_array().unwrap().iter();
        let is_it = |run: &&serde_json::Value| {
            run["policy"]["name"] == "lru"
                && run["tiers"][0]["capacity_pages"] == ram
                && run["tiers"][1]["capacity_pages"] == flash
        };
        runs.find(is_it).unwrap()
    };
    let (small, large) = (of(388, 388), of(388, 1552));
    assert_eq!(small["replay_seconds"], large["replay_seconds"], "it is one run");
    assert_eq!(small["io_time_ms"], large["io_time_ms"]);
    assert_ne!(of(777, 777)["io_time_ms"], small["io_time_ms"]);
    // The cost of a size is that of a run with this size.
    let alone = ["simulate", TRACE, "--page-size", "8KiB", "--policy", "lru"];
    let sizes = ["--tier", "ram=388p", "--tier", "flash=1552p"];
    let alone = json(&[&alone[..], &sizes, &prices].concat());
    assert_eq!(alone["cost"], large["cost"]);
    assert_ne!(small["cost"], large["cost"]);
    assert_eq!(alone["metadata_share"], large["metadata_share"]);
}

#[test]
fn output_says_which_algorithms_and_which_model_of_time() {
    let sizes = ["--tier", "ram=1%", "--tier", "flash=4x"];
    let common = [TRACE, "--page-size", "8KiB", "--limit", "3000"];
    let hybrid = ["compare", "--ram-policy", "s3-fifo", "--flash-policy", "sieve"];
    let shown = text(&[&hybrid[..], &common, &sizes].concat());
    assert!(shown.contains("| two-tier (s3-fifo over sieve) |"), "{shown}");
    let timed = ["--policy", "lru", "--timing", "events"];
    for (more, model) in [
        (&[][..], "open loop (requests arrive at the trace's times)"),
        (&["--closed-loop", "4"], "closed loop (4 requests kept outstanding)"),
    ] {
        for command in ["simulate", "compare"] {
            let shown = text(&[&[command], &common[..], &sizes, &timed, more].concat());
            assert!(shown.contains(model) && shown.contains("cost model"), "{shown}");
            let is_open = more.is_empty();
            assert_eq!(shown.contains("do not keep pace"), is_open, "{shown}");
        }
    }
}

#[test]
fn tiers_and_ways_out_are_named() {
    let none = ["simulate", TRACE, "--policy", "lru", "--tier", "ram=0p"];
    fails(&none, &["`lru` needs at least one page", "`ram`"]);
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join("odd.txt");
    std::fs::write(&odd, "alpha beta\ngamma delta\n").unwrap();
    let words = ["trace", "info", odd.to_str().unwrap()];
    fails(&words, &["--format, one of", "--columns, as in"]);
    let limited =
        json(&["advise", TRACE, "--flash", "1GiB", "--limit", "5000", "--format", "json"]);
    assert_eq!(limited["seen"]["requests"], 5000);
    assert!(thermocline(&["--help"]).status.success());
}
