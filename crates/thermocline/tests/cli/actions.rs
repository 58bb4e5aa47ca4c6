//! The action log: a run's counts can be found from it, and it appears whole or not at all.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use thermocline_trace::columns::ColumnReader;

use super::{SHORT, TRACE, fails, json, simulate, text};

/// One row of a log.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    access: u64,
    op: Option<String>,
    action: String,
    page: u64,
    source: String,
    target: Option<String>,
    found: Option<String>,
}

/// Return the metadata of a log, and its rows.
fn read(path: &Path) -> (Value, Vec<Row>) {
    let reader = ColumnReader::open(path).unwrap();
    let metadata = serde_json::from_str(&reader.metadata("thermocline_actions").unwrap()).unwrap();
    let mut rows = vec![];
    for group in 0..reader.groups() {
        let words = |name| reader.optional_text(group, name).unwrap().unwrap();
        let numbers = |name| reader.numbers(group, name).unwrap().unwrap();
        let (accesses, pages) = (numbers("access"), numbers("page"));
        let [ops, actions, sources, targets, found] =
            ["op", "action", "source", "target", "found"].map(words);
        for (row, &access) in accesses.iter().enumerate() {
            rows.push(Row {
                access,
                op: ops[row].clone(),
                action: actions[row].clone().unwrap(),
                page: pages[row],
                source: sources[row].clone().unwrap(),
                target: targets[row].clone(),
                found: found[row].clone(),
            });
        }
    }
    (metadata, rows)
}

/// Hits, reads and writes of each tier, from the rows after the warm-up.
fn figures(metadata: &Value, rows: &[Row]) -> BTreeMap<String, [u64; 3]> {
    let warm_up = metadata["warm_up_accesses"].as_u64().unwrap();
    let mut tiers: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.access >= warm_up) {
        let mut add =
            |tier: &str, figure: usize| tiers.entry(tier.into()).or_default()[figure] += 1;
        match row.action.as_str() {
            "serve" => {
                add(row.found.as_deref().unwrap(), 0);
                add(&row.source, if row.op.as_deref() == Some("read") { 1 } else { 2 });
            }
            "copy" => {
                let target = row.target.as_deref().unwrap();
                if target != row.source {
                    add(&row.source, 1);
                }
                add(target, 2);
            }
            other => assert_eq!(other, "drop"),
        }
    }
    tiers
}

/// Return the same, from the JSON of the run.
fn figures_of_run(summary: &Value) -> BTreeMap<String, [u64; 3]> {
    let tiers = summary["tiers"].as_array().unwrap().iter();
    let of_tier = |tier: &Value| {
        let figures = ["hits", "page_reads", "page_writes"].map(|key| tier[key].as_u64().unwrap());
        (tier["name"].as_str().unwrap().to_owned(), figures)
    };
    tiers.map(of_tier).filter(|(_, figures)| *figures != [0; 3]).collect()
}

#[test]
fn the_counts_of_a_run_are_those_of_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("actions.parquet");
    let file = log.to_str().unwrap();
    let levels = ["--tier", "l1=1%", "--tier", "l2=2x", "--tier", "l3=2x"];
    let events = ["--timing", "events", "--closed-loop", "4"];
    let deep = |policy| [&["simulate", &SHORT, "--policy", policy][..], &levels].concat();
    let runs = [
        simulate(&SHORT, "hat", &["--check", "--warm-up", "30%"]),
        simulate(&SHORT, "face-gsc", &[]),
        // It works between accesses, too.
        simulate(&SHORT, "arc-l2arc", &[]),
        simulate(&SHORT, "lc", &events),
        simulate(&SHORT, "lru", &[]),
        deep("d-hfa"),
    ];
    for words in runs {
        let plain = json(&[&words[..], &["--json"]].concat());
        let logged = json(&[&words[..], &["--json", "--actions", file]].concat());
        let (metadata, rows) = read(&log);
        assert_eq!(logged["tiers"], plain["tiers"], "{words:?}: a log changes nothing");
        assert_eq!(metadata["policy"], plain["policy"], "{words:?}");
        assert_eq!(figures(&metadata, &rows), figures_of_run(&plain), "{words:?}");
        let serves: Vec<&Row> = rows.iter().filter(|row| row.action == "serve").collect();
        assert_eq!(
            serves.len() as u64,
            plain["trace"]["accesses"],
            "each access is answered once, in the warm-up too"
        );
        assert!(serves.iter().zip(0..).all(|(row, access)| row.access == access));
        assert!(rows.is_sorted_by_key(|row| row.access), "{words:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn pages_are_those_of_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let [trace, log] = ["t.csv", "log.parquet"].map(|name| folder.path().join(name));
    // Two volumes, so that pages have the numbers that they have there.
    std::fs::write(&trace, "0,9000,512,r,0.0\n1,9000,512,w,0.1\n0,9000,512,r,0.2\n").unwrap();
    let [trace, file] = [&trace, &log].map(|path| path.to_str().unwrap());
    let words = ["simulate", trace, "--format", "spc", "--policy", "lru", "--tier", "ram=1p"];
    text(&[&words[..], &["--page-size", "512", "--actions", file]].concat());
    let (metadata, rows) = read(&log);
    assert!(rows.iter().all(|row| row.page == 9000), "{rows:?}");
    assert_eq!(metadata["volumes"].as_array().unwrap().len(), 2);
    let served: Vec<&str> = rows.iter().filter_map(|row| row.op.as_deref()).collect();
    assert!(served.starts_with(&["read"]) && served.contains(&"write"), "{served:?}");

    let shared = ["--clients", "2", "--tier", "l1=10p", "--tier", "l2=20p", "--actions", file];
    text(&[&["simulate", &SHORT, "--policy", "demote"][..], &shared].concat());
    let reader = ColumnReader::open(&log).unwrap();
    assert!(reader.optional_text(0, "client").unwrap().is_none(), "clients are numbers");
    let tiers = reader.optional_text(0, "source").unwrap().unwrap();
    assert!(tiers.contains(&Some("l1#0".into())) && tiers.contains(&Some("l1#1".into())));
}

#[test]
fn what_goes_wrong_is_said_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let with = |file: &str| -> Vec<String> {
        let words = simulate(TRACE, "lru", &["--actions", file]);
        words.into_iter().map(str::to_owned).collect()
    };
    let refused = |file: &str, parts: &[&str]| {
        let words = with(file);
        fails(&words.iter().map(String::as_str).collect::<Vec<_>>(), parts);
    };
    refused(&path("missing/actions.parquet"), &["--actions", "missing"]);
    refused(folder.path().to_str().unwrap(), &["--actions"]);
    refused("/dev/full", &["/dev/full"]);
    let file = path("several.parquet");
    let several = simulate(TRACE, "lru,hat", &["--actions", &file]);
    fails(&several, &["one policy", "compare"]);
    let warm = ["--warm-up", "999999999", "--actions", &file];
    fails(&simulate(TRACE, "lru", &warm), &["leaves nothing to count"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
#[cfg(target_os = "linux")]
fn an_interrupted_run_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let [trace, log] = ["t.csv", "out/log.parquet"].map(|name| folder.path().join(name));
    let [trace, file] = [&trace, &log].map(|path| path.to_str().unwrap());
    let kind = ["--requests", "1500000", "--pages", "150000"];
    text(&[&["trace", "generate", "-o", trace][..], &kind].concat());
    let words = ["simulate", trace, "--policy", "lru", "--tier", "ram=1%", "--actions", file];
    let mut child = Command::new(env!("CARGO_BIN_EXE_thermocline"))
        .args(words)
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !super::endings::writes_to(child.id(), &out) {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it was interrupted");
        assert!(begun.elapsed() < Duration::from_mins(2), "the log never begins");
        std::thread::sleep(Duration::from_millis(2));
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("stopped before its end"), "{errors}");
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0, "neither a log nor a part of it");
}
