//! Corpora: from a manifest to a report, killed in the middle and run on.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::command::thermocline;
use super::{TRACE, fails, json, text};

/// A recording, and synthetic traces on either side of a split.
const MANIFEST: &str = r#"
[[dataset]]
name = "pgbench"
licence = "ours"
class = "block"
split = "hold-out"
[[dataset.trace]]
name = "pgbench"
path = "TRACE"
page_size = "8KiB"
ops = "yes"

[[dataset]]
name = "synthetic"
licence = "ours"
class = "synthetic"
split = "tune"
"#;

const SYNTHETIC: &str = r#"
[[dataset.trace]]
name = "zipf-NUMBER"
path = "made/NUMBER.csv"
generate = { kind = "zipf", requests = 100000, pages = 20000, alpha = 0.NUMBER, write_share = 0.3, seed = NUMBER }
"#;

struct Place(tempfile::TempDir);

impl Place {
    /// Create a folder with a manifest; the synthetic traces are not there yet.
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let mut manifest = MANIFEST.replace("TRACE", TRACE);
        for number in 4..=9 {
            manifest += &SYNTHETIC.replace("NUMBER", &number.to_string());
        }
        fs::write(place.path("corpus.toml"), manifest).unwrap();
        place
    }

    /// Return the same with all traces and hashes.
    fn ready() -> Self {
        let place = Self::new();
        text(&["corpus", "fetch", &place.word("corpus.toml")]);
        text(&["corpus", "check", "--write", &place.word("corpus.toml")]);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn word(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn edit(&self, from: &str, to: &str) {
        let path = self.path("corpus.toml");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from}: {text}");
        fs::write(path, text.replacen(from, to, 1)).unwrap();
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

/// Return the files of a data set of results, by data set.
fn results(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
    entries
        .map(|entry| (name(&entry), fs::read(entry.path().join("results.parquet")).unwrap()))
        .collect()
}

#[test]
fn a_manifest_is_filled_checked_and_fetched() {
    let place = Place::new();
    let manifest = place.word("corpus.toml");
    // Nothing is there but the recording, and the manifest has no hash.
    let output = thermocline(&["corpus", "check", &manifest]);
    let found = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(found.contains("7 traces: 7 wrong"), "{found}");
    assert!(found.contains("`corpus check --write` adds it"), "{found}");
    assert!(found.contains("`thermocline corpus fetch` brings it there"), "{found}");
    let fetched = text(&["corpus", "fetch", &manifest]);
    assert!(fetched.contains("generated synthetic/zipf-4") && fetched.contains("present pgbench"));
    let found = text(&["corpus", "check", "--write", &manifest]);
    assert!(found.contains("ok    pgbench/pgbench: 247,639 requests, 38,899 pages"), "{found}");
    assert!(found.contains("hold-out") && found.contains("7 traces: 0 wrong"), "{found}");
    let checked = json(&["corpus", "check", &manifest, "--json"]);
    assert_eq!(checked[0]["found"]["objects"], 38_899);
    assert_eq!(checked[0]["problems"].as_array().unwrap().len(), 0);
    assert!(text(&["corpus", "fetch", &manifest]).contains("present synthetic/zipf-9"));

    // A wrong number, and another file.
    place.edit("requests = 247639", "requests = 247640");
    fs::write(place.path("made/4.csv"), fs::read(place.path("made/5.csv")).unwrap()).unwrap();
    let output = thermocline(&["corpus", "check", &manifest]);
    let found = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(found.contains("`requests` is 247640 in the manifest, and 247639 in the file"));
    assert!(found.contains("WRONG synthetic/zipf-4") && found.contains("the file is another one"));
    fails(&["corpus", "fetch", &manifest], &["made/4.csv", "SHA-256", "remove it"]);

    // From an address.
    fs::rename(place.path("made/5.csv"), place.path("elsewhere.csv")).unwrap();
    let address =
        format!("url = \"file://{}\"\npath = \"made/5.csv\"", place.word("elsewhere.csv"));
    place.edit("path = \"made/5.csv\"", &address);
    place.edit("generate = { kind = \"zipf\", requests = 100000, pages = 20000, alpha = 0.5", "#");
    fs::remove_file(place.path("made/4.csv")).unwrap();
    assert!(text(&["corpus", "fetch", &manifest]).contains("copied synthetic/zipf-5"));
    fs::remove_file(place.path("made/5.csv")).unwrap();
    place.edit("file://", "ftp://host");
    let remedy = ["ftp://", "download the file", "corpus.toml", "key `dataset.trace.path`"];
    fails(&["corpus", "fetch", &manifest], &remedy);
    assert!(!place.path("made/5.csv").exists(), "nothing half-written is left");
    let server = serve_once(fs::read(place.path("elsewhere.csv")).unwrap());
    place.edit("ftp://host", &server);
    assert!(text(&["corpus", "fetch", &manifest]).contains("copied synthetic/zipf-5"));
    let [fetched, there] = ["made/5.csv", "elsewhere.csv"].map(|name| fs::read(place.path(name)));
    assert!(fetched.unwrap() == there.unwrap());
}

/// Return a web server that answers one request with this body; returns its address.
fn serve_once(body: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let head = BufReader::new(stream.try_clone().unwrap()).lines();
        head.map_while(Result::ok).find(String::is_empty);
        let modified = "last-modified: Wed, 25 Nov 2026 00:00:00 GMT";
        let length = body.len();
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n{modified}\r\n\r\n")
            .unwrap();
        stream.write_all(&body).unwrap();
    });
    address
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let place = Place::ready();
    let manifest = place.word("corpus.toml");
    let [whole, out] = ["whole", "out"].map(|name| place.word(name));
    let sizes = ["--tier", "ram=1%,4%", "--tier", "flash=4x,8x", "--json"];
    let policies = "fifo,lru,hat,face-gsc";
    let words = |output: &str, threads: &str| -> Vec<String> {
        let words = ["corpus", "run", &manifest, "--policy", policies, "--check"];
        let more = ["-o", output, "--threads", threads];
        [&words[..], &sizes, &more].concat().into_iter().map(str::to_owned).collect()
    };
    let run = |output: &str, threads: &str| {
        let words = words(output, threads);
        json(&words.iter().map(String::as_str).collect::<Vec<&str>>())
    };
    let undisturbed = run(&whole, "1");
    // Of 7 traces: 2 policies with 2 sizes, 2 with 4.
    assert_eq!(undisturbed["rows"], 7 * 12);
    let first = words(&out, "2");
    let mut child = start(&first.iter().map(String::as_str).collect::<Vec<&str>>());
    let folder = place.path("out.parts");
    let limit = Instant::now() + Duration::from_mins(4);
    while parts(&folder) < 1 {
        assert!(Instant::now() < limit, "no part is written");
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
        thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!place.path("out").exists(), "results appear whole or not at all");
    let resumed = run(&out, "2");
    assert!(resumed["reused_points"].as_u64().unwrap() > 0, "{resumed}");
    assert!(resumed["ran_points"].as_u64().unwrap() > 0, "{resumed}");
    assert_eq!(resumed["rows"], undisturbed["rows"]);
    assert!(results(&place.path("out")) == results(&place.path("whole")));
    assert!(!folder.exists());
    assert_eq!(run(&out, "2")["ran_points"], 0);
}

#[test]
fn a_report_compares_policies_over_traces() {
    let place = Place::ready();
    let manifest = place.word("corpus.toml");
    let [out, html] = ["out", "report.html"].map(|name| place.word(name));
    let run = |more: &[&str]| {
        let words = ["corpus", "run", &manifest, "--tier", "ram=10%", "-o", &out];
        text(&[&words[..], more].concat())
    };
    let said = run(&["--policy", "fifo,lru,arc,s3-fifo,random"]);
    // `random` has five seeds.
    assert!(said.contains("7 traces: 63 points run, 0 found finished; 63 results"), "{said}");
    let words = ["corpus", "report", &out, "--metric", "miss_ratio", "--resamples", "500"];
    let table = text(&[&words[..], &["--report", &html]].concat());
    assert!(table.contains("Reduction of misses against fifo in percent, ram=10%"), "{table}");
    assert!(table.contains("7 of 7 traces") && table.contains("all: 7 traces, ranks"), "{table}");
    let page = fs::read_to_string(&html).unwrap();
    assert!(page.contains("critical difference") && page.contains("s3-fifo"), "the diagram");
    let study = json(&[&words[..], &["--baseline", "lru", "--json"]].concat());
    let datasets = study["sections"][0]["datasets"].as_array().unwrap();
    let names: Vec<&str> = datasets.iter().map(|one| one["dataset"].as_str().unwrap()).collect();
    assert_eq!(names, ["pgbench", "synthetic", "all"]);
    assert_eq!(datasets[0]["policies"][0]["interval"], serde_json::Value::Null, "one trace");
    let best = &datasets[2]["policies"][0];
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    assert!(number(&best["interval"]["low"]) <= number(&best["mean"]));
    assert!(number(&best["mean"]) <= number(&best["interval"]["high"]));
    // The same figures as of single runs.
    let of = |policy: &str| {
        let words = ["simulate", TRACE, "--page-size", "8KiB", "--tier", "ram=10%", "--json"];
        number(&json(&[&words[..], &["--policy", policy]].concat())["tiers"][1]["hit_ratio"])
    };
    let of_arc = |one: &&serde_json::Value| one["policy"] == "arc";
    let arc = datasets[0]["policies"].as_array().unwrap().iter().find(of_arc).unwrap();
    let expected = (of("lru") - of("arc")) / of("lru").max(of("arc"));
    assert!((number(&arc["mean"]) - expected).abs() < 1e-12, "{arc} {expected}");

    // A split is enforced.
    let tuned = ["--policy", "2q", "--param", "in_share=0.2", "--param", "in_share=0.3"];
    let words = ["corpus", "run", &manifest, "--tier", "ram=10%", "-o", &out];
    fails(&[&words[..], &tuned].concat(), &["in_share", "held out", "--split tune"]);
    let tuned = run(&[&tuned[..], &["--split", "tune"]].concat());
    assert!(tuned.contains("6 traces: 12 points run"), "{tuned}");
    let only = text(&["corpus", "report", &out, "--split", "hold-out", "--metric", "miss_ratio"]);
    assert!(only.contains("pgbench: 1 traces") && !only.contains("synthetic"), "{only}");
}

#[test]
fn mistakes_name_their_place_and_a_remedy() {
    let place = Place::ready();
    let manifest = place.word("corpus.toml");
    let out = place.word("out");
    let run = |more: &[&str], parts: &[&str]| {
        let words = ["corpus", "run", &manifest, "-o", &out];
        fails(&[&words[..], more].concat(), parts);
    };
    run(&["--policy", "lruu", "--tier", "ram=1%"], &["did you mean `lru`?"]);
    run(&["--policy", "lru", "--tier", "ram=1"], &["64MiB"]);
    run(&["--policy", "lru", "--tier", "ram=1%", "--param", "w=1"], &["--param w=1"]);
    run(&["--policy", "lru", "--tier", "ram=1%", "--dataset", "x"], &["`x`", "pgbench, synthetic"]);
    run(&["--policy", "lru", "--tier", "ram=1%", "--sample", "2"], &["--sample 2", "0.01"]);
    run(&["--policy", "lru", "--tier", "ram=1%", "--shard", "3/2"], &["1/4"]);
    run(&["--policy", "lru", "--tier", "ram=1%", "--over-time", "3"], &["--over-time"]);
    assert!(!place.path("out").exists() && !place.path("out.parts").exists());
    fails(&["corpus", "report", &out], &["out"]);
    fs::create_dir(&out).unwrap();
    fails(&["corpus", "report", &out], &["no results", "corpus run -o"]);
    text(&["corpus", "run", &manifest, "--policy", "arc", "--tier", "ram=1%", "-o", &out]);
    fails(&["corpus", "report", &out], &["run a baseline"]);
    let words = ["corpus", "report", &out, "--baseline", "lru"];
    fails(&words, &["baseline `lru` has no result", "arc"]);
    fails(&["corpus", "report", &out, "--metric", "misses"], &["--metric misses", "miss_ratio"]);
    // A manifest of other data sets does not write over these.
    place.edit("name = \"synthetic\"", "name = \"other\"");
    run(&["--policy", "arc", "--tier", "ram=1%"], &["`synthetic`", "another folder"]);
    place.edit("licence", "license");
    fails(&["corpus", "check", &manifest], &["corpus.toml", "license"]);
}
