//! Traces of objects, of described columns, parts of traces, and traces from a pipe.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::command::{fails, json, text};

/// Two objects of three pages and of one, with sizes that are no whole pages.
const TWITTER: &str = "0,a,1,9000,40,get,0\n1,b,1,20,9,set,3600\n2,a,1,9000,9,get,0\n\
    3,b,1,20,9,get,0\n4,c,1,0,9,get,0\n5,b,1,20,9,delete,0\n";

fn written(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

fn simulated(trace: &str, more: &[&str]) -> Value {
    let words = ["simulate", trace, "--policy", "lru", "--tier", "ram=4p", "--json"];
    json(&[&words[..], more].concat())
}

#[test]
fn an_object_is_its_pages_unless_it_is_to_be_one() {
    let folder = tempfile::tempdir().unwrap();
    let trace = written(folder.path(), "t.csv", TWITTER);
    let pages = simulated(&trace, &["--check"]);
    assert_eq!(pages["trace"]["accesses"], 8);
    assert_eq!(pages["trace"]["footprint_pages"], 4);
    assert_eq!(pages["trace"]["objects"], 2);
    assert_eq!(pages["hit_ratio"], 0.5);
    assert_eq!(pages["tiers"][0]["hit_bytes"], 9001 + 21);
    assert_eq!(pages["byte_hit_ratio"], 0.5);
    // A cache of three pages keeps the small object at most: the pages of the large one follow each other.
    let words = ["simulate", &trace, "--policy", "lru", "--tier", "ram=3p", "--json"];
    let small = json(&words);
    let [hits, bytes] = ["hit_ratio", "byte_hit_ratio"].map(|key| small[key].as_f64().unwrap());
    assert!(hits >= bytes, "{hits} {bytes}");
    let one = simulated(&trace, &["--objects", "one"]);
    assert_eq!(one["trace"]["accesses"], 4);
    assert_eq!(one["trace"]["footprint_pages"], 2);
    assert_eq!(one["byte_hit_ratio"], Value::Null);
}

#[test]
fn columns_are_described_in_options_or_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let trace =
        written(folder.path(), "t.csv", "at,verb,where,size\n1,LOAD,0,8192\n2,STORE,4096,4096\n");
    let columns = "time=at:us,op=verb,offset=where,length=size";
    let options = ["--columns", columns, "--ops", "LOAD=read,STORE=write"];
    let found = simulated(&trace, &options);
    assert_eq!([&found["trace"]["reads"], &found["trace"]["writes"]], [2, 1]);
    let file = format!("columns = \"{columns}\"\nops = \"LOAD=read,STORE=write\"\n");
    let file = written(folder.path(), "t.toml", &file);
    assert_eq!(simulated(&trace, &["--columns", &file])["trace"], found["trace"]);
    let shown = text(&["trace", "info", &trace, "--columns", &file]);
    assert!(
        shown.contains("time=at:us, op=verb, offset=where:bytes, length=size:bytes"),
        "{shown}"
    );
    let words = ["trace", "info", &trace, "--columns"];
    fails(&[&words[..], &["time=at,offset=x"]].concat(), &["`offset` needs a `length`"]);
    fails(&[&words[..], &["time=at:us,key=none"]].concat(), &["has no column `none`; it has"]);
    fails(&[&words[..], &[columns]].concat(), &["line 2: the op 'LOAD' is none of"]);
}

#[test]
fn a_part_of_a_trace_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String =
        (0..10).map(|second| format!("0,{},4096,r,{second}.5\n", second * 8)).collect();
    let trace = written(folder.path(), "t.spc", &lines);
    let requests = |more: &[&str]| simulated(&trace, more)["trace"]["requests"].as_u64().unwrap();
    assert_eq!(requests(&[]), 10);
    assert_eq!(requests(&["--skip", "2", "--limit", "5"]), 5);
    assert_eq!(requests(&["--skip", "8", "--limit", "5"]), 2);
    assert_eq!(requests(&["--from-time", "3s", "--to-time", "7000ms"]), 4);
    assert_eq!(requests(&["--from-time", "3s", "--skip", "1"]), 6);
    let words = ["simulate", &trace, "--policy", "lru", "--tier", "ram=4p"];
    fails(&[&words[..], &["--skip", "10"]].concat(), &["no request is in the part that is wanted"]);
    fails(&[&words[..], &["--from-time", "3"]].concat(), &["write a number and a unit"]);
}

#[test]
fn a_part_of_a_compiled_trace_is_that_of_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..400)
        .map(|second| {
            let op = if second % 3 == 0 { 'w' } else { 'r' };
            let [volume, page] = [second % 2, second * second % 31 + second / 50];
            format!("{volume},{},{},{op},{second}.5\n", page * 8, 4096 * (1 + second % 2))
        })
        .collect();
    let source = written(folder.path(), "t.spc", &lines);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let saved = [("mapped", path("t.tct")), ("compiled", path("t.parquet"))];
    for (form, path) in &saved {
        text(&["trace", "convert", &source, "--to", form, "-o", path]);
    }
    let parts: [&[&str]; 4] = [
        &["--limit", "150"],
        &["--skip", "20", "--limit", "1000"],
        &["--from-time", "50s", "--to-time", "90s"],
        &["--limit", "1"],
    ];
    let sizes = ["--policy", "lru,sieve", "--tier", "ram=4p", "--tier", "flash=12p", "--json"];
    let commands: [(&[&str], &[&str]); 5] = [
        (&["compare"], &sizes),
        (&["mrc"], &["--json"]),
        (&["hot"], &["--identifier", "mbf", "--json"]),
        (&["trace", "info"], &["--json"]),
        (&["trace", "classes"], &["--json"]),
    ];
    for part in parts {
        for (command, options) in commands {
            let found = |trace: &str| {
                let mut found = json(&[command, &[trace], part, options].concat());
                without_names_and_speed(&mut found);
                found
            };
            let expected = found(&source);
            for (form, path) in &saved {
                assert_eq!(found(path), expected, "{command:?} {part:?} {form}");
            }
        }
    }
    for (_, path) in &saved {
        let output = folder.path().join("out.csv");
        let words = ["trace", "convert", path, "--to", "csv", "-o", output.to_str().unwrap()];
        fails(&words, &["is a compiled trace", "give the trace that it was made from"]);
    }
    let [_, (_, compiled)] = &saved;
    fails(&["trace", "info", compiled, "--skip", "400"], &["no request is in the part"]);
    fails(
        &["trace", "info", compiled, "--from-time", "9s", "--to-time", "9s"],
        &["--to-time must be later"],
    );
}

/// Leaves out what differs from run to run, and what names the file.
fn without_names_and_speed(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| {
                !["path", "format", "trace_path", "name", "replay_seconds", "check_ns", "decay_ns"]
                    .contains(&&**name)
                    && !name.contains("per_second")
                    && !name.contains("elapsed")
            });
            fields.values_mut().for_each(without_names_and_speed);
        }
        Value::Array(items) => items.iter_mut().for_each(without_names_and_speed),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn a_trace_comes_through_a_pipe() {
    let program = env!("CARGO_BIN_EXE_thermocline");
    let words = ["simulate", "-", "--policy", "lru", "--tier", "ram=4p", "--json"];
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(TWITTER.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{notes}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["trace"]["accesses"], 8);
    for note in
        ["1 requests of `(standard input)` remove an object", "objects with sizes", "unknown size"]
    {
        assert!(notes.contains(note), "{notes}");
    }
}
