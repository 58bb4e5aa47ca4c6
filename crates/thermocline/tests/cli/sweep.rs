//! Sweeps: from a file to Parquet, killed in the middle and run on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use thermocline_lab::spec::HIERARCHY_OPTIONS;

use super::{TRACE, fails, json, text};

/// Points that take a while each.
const SWEEP: &str = r#"
policies = ["hat", "face-gsc", "lru"]
[[trace]]
path = "TRACE"
page_size = "8KiB"
[[tier]]
name = "ram"
sizes = { from = "1%", to = "8%", factor = 2 }
[[tier]]
name = "flash"
sizes = ["2x", "4x"]
[parameters]
hat.nonhot_ratio = [0.1, 0.2]
"#;
/// HAT has 16, FaCE and LRU 8 each.
const POINTS: usize = 32;

struct Place(tempfile::TempDir);

impl Place {
    fn new(text: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::write(place.path("sweep.toml"), text.replace("TRACE", TRACE)).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn word(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }
}

fn start(words: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thermocline"));
    command.args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn parts(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".parquet") && !name.starts_with('.')).count()
}

#[test]
fn a_killed_sweep_goes_on_where_it_was() {
    let place = Place::new(SWEEP);
    let [sweep, whole, out] = ["sweep.toml", "whole.parquet", "out.parquet"].map(|n| place.word(n));
    let undisturbed = json(&["sweep", &sweep, "-o", &whole, "--threads", "1", "--json"]);
    assert_eq!(undisturbed["ran_points"], POINTS);
    let mut child = start(&["sweep", &sweep, "-o", &out, "--threads", "2"]);
    let folder = place.path("out.parquet.parts");
    let limit = Instant::now() + Duration::from_mins(1);
    while parts(&folder) < 3 {
        assert!(Instant::now() < limit, "no part is written");
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let finished = parts(&folder);
    assert!(!place.path("out.parquet").exists(), "the output appears whole or not at all");
    let resumed = json(&["sweep", &sweep, "-o", &out, "--threads", "2", "--json"]);
    let reused = usize::try_from(resumed["reused_points"].as_u64().unwrap()).unwrap();
    let ran = usize::try_from(resumed["ran_points"].as_u64().unwrap()).unwrap();
    assert!(reused >= finished && ran > 0 && reused + ran == POINTS, "{reused} {ran}");
    assert_eq!(resumed["rows"], undisturbed["rows"]);
    assert_eq!(fs::read(&out).unwrap(), fs::read(&whole).unwrap());
    assert!(!folder.exists());
    let again = json(&["sweep", &sweep, "-o", &out, "--json"]);
    assert_eq!(again["ran_points"], 0);
}

#[test]
fn a_sweep_prints_its_rows_and_writes_a_report() {
    let place = Place::new(SWEEP);
    let [sweep, report] = ["sweep.toml", "report.html"].map(|name| place.word(name));
    let table = text(&["sweep", &sweep, "--report", &report]);
    assert!(table.contains("32 points: 32 run, 0 found finished"), "{table}");
    assert!(place.path("sweep.parquet").exists(), "it is named after the sweep");
    let html = fs::read_to_string(report).unwrap();
    assert!(html.contains("Miss ratio") && html.contains("hat nonhot_ratio=0.2, flash 4x"));
    let found = json(&["sweep", &sweep, "--json"]);
    let lru = found["rows"].as_array().unwrap().last().unwrap();
    let words = ["simulate", TRACE, "--page-size", "8KiB", "--policy", "lru", "--tier", "ram=8%"];
    let alone = json(&[&words[..], &["--json"]].concat());
    assert_eq!(lru["tiers"][0]["hits"], alone["tiers"][0]["hits"]);
    assert_eq!(lru["io_time_ms"], alone["io_time_ms"]);
}

#[test]
fn the_example_can_be_run_and_mistakes_are_named() {
    let example = text(&["sweep", "--example"]);
    for option in HIERARCHY_OPTIONS {
        assert!(example.contains(&format!("\n#{} = ", option.key)), "{example}");
    }
    let place = Place::new(&example.replace("trace.csv.zst", "TRACE"));
    let sweep = place.word("sweep.toml");
    assert_eq!(json(&["sweep", &sweep, "--json"])["points"], 20);
    fails(&["sweep", "no-such.toml"], &["no-such.toml"]);
    fails(&["sweep", &sweep, "--threads", "0"], &["threads"]);
    for (from, to, parts) in [
        ("policies", "policy", ["sweep.toml", "policy"]),
        ("TRACE", "no-such.csv", ["no-such.csv", "cannot"]),
        ("\"4x\"", "\"4y\"", ["sweep.toml", "64MiB"]),
        (
            "[parameters]",
            "[parameters]\nhat.colour = 3",
            ["line 13, key `parameters.hat.colour`", "nonhot_ratio"],
        ),
    ] {
        let place = Place::new(&SWEEP.replacen(from, to, 1));
        let sweep = place.word("sweep.toml");
        let parts = if from == "TRACE" { vec![parts[0]] } else { parts.to_vec() };
        fails(&["sweep", &sweep], &parts);
    }
}

#[test]
fn what_is_wrong_with_a_trace_names_the_file_and_its_keys() {
    let noise: Vec<u8> =
        (0..999_u32).map(|byte| (byte * byte / 7).to_le_bytes()[0] | 128).collect();
    let cases: [(&str, &[u8], &str, &str); 3] = [
        ("noise", &noise, "", "name it with the key `format`, one of: "),
        ("torn.oracleGeneral", &[1; 77], "", "the key `allow_truncated` takes what is there"),
        ("torn.oracleGeneral", &[1; 77], "format = \"spc\"", "torn.oracleGeneral"),
    ];
    for (name, content, keys, remedy) in cases {
        let place = Place::new(&SWEEP.replace("page_size = \"8KiB\"", keys));
        let sweep = place.word("sweep.toml");
        let text = fs::read_to_string(&sweep).unwrap().replace(TRACE, name);
        fs::write(&sweep, text).unwrap();
        fs::write(place.path(name), content).unwrap();
        let file = format!("in `{sweep}`: line 4, key `trace.path`: ");
        fails(&["sweep", &sweep], &[&file, name, remedy]);
    }
}
