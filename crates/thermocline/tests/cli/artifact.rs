//! `thermocline artifact`: the committed study, and studies whose results are wrong.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::command::thermocline;
use super::{fails, text};

const MANIFEST: &str = r#"
[[dataset]]
name = "made"
licence = "ours"
class = "synthetic"
[[dataset.trace]]
name = "one"
path = "made/one.csv"
generate = { kind = "zipf", requests = 5000, pages = 1000, alpha = 0.8, write_share = 0.3, seed = 1 }
[[dataset.trace]]
name = "two"
path = "made/two.csv"
generate = { kind = "zipf", requests = 5000, pages = 1000, alpha = 0.9, write_share = 0.3, seed = 2 }

[[dataset]]
name = "kept"
licence = "ours"
class = "block"
[[dataset.trace]]
name = "file"
path = "file.csv"
"#;

/// A study with results of `lru` and `arc` on three traces, of which two are generated.
struct Study(tempfile::TempDir);

impl Study {
    fn new() -> Self {
        let study = Self(tempfile::tempdir().unwrap());
        fs::write(study.path("corpus.toml"), MANIFEST).unwrap();
        let file = study.word("file.csv");
        let options = ["--kind", "zipf", "--requests", "4000", "--pages", "900", "--alpha", "0.7"];
        text(&[&["trace", "generate", "--output", &file], &options[..]].concat());
        let manifest = study.word("corpus.toml");
        text(&["corpus", "fetch", &manifest]);
        text(&["corpus", "check", "--write", &manifest]);
        let points = ["--policy", "lru,arc", "--tier", "ram=2%,10%"];
        let results = study.word("results");
        text(&[&["corpus", "run", &manifest, "-o", &results], &points[..]].concat());
        fs::remove_dir_all(study.path("made")).unwrap();
        study.describe(&points);
        study
    }

    /// Writes `study.toml` with these arguments.
    fn describe(&self, arguments: &[&str]) {
        let file = format!(
            "manifest = \"corpus.toml\"\nresults = \"results\"\narguments = {arguments:?}\n"
        );
        fs::write(self.path("study.toml"), file).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn word(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Runs the command; returns whether it succeeded, and what it printed.
    fn check(&self, more: &[&str]) -> (bool, String) {
        let folder = self.word("");
        let output = thermocline(&[&["artifact", &folder], more].concat());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!errors.contains("error"), "{errors}");
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    }
}

fn outcomes(json: &Value) -> Vec<(&str, u64)> {
    let traces = json["traces"].as_array().unwrap().iter();
    traces
        .map(|one| (one["outcome"].as_str().unwrap(), one["compared_points"].as_u64().unwrap()))
        .collect()
}

#[test]
fn results_that_are_right_agree_and_nothing_is_left_behind() {
    let study = Study::new();
    let (agrees, printed) = study.check(&[]);
    assert!(agrees, "{printed}");
    assert!(printed.contains("every figure is the same, for 12 of 12 points on 3 of 3 traces"));
    assert!(printed.contains("same     kept/file: 4 points"), "{printed}");
    assert!(!study.path("made").exists(), "generated traces are not kept");
    // The order of the traces and the threads change nothing.
    let one = study.check(&["--json", "--threads", "1"]);
    assert_eq!(one, study.check(&["--json", "--threads", "3", "--seed", "9"]));
    let json: Value = serde_json::from_str(&one.1).unwrap();
    assert_eq!(outcomes(&json), [("agrees", 4); 3]);
    assert_eq!(json["agrees"], true);
}

#[test]
fn points_of_one_side_a_trace_that_is_gone_and_one_that_is_damaged() {
    let study = Study::new();
    study.describe(&["--policy", "lru,sieve", "--tier", "ram=2%,10%"]);
    let (agrees, printed) = study.check(&[]);
    assert!(!agrees);
    assert!(printed.contains("12 points differ. Compared: 6 of 12 points on 3 of 3 traces."));
    let line = "`arc` with ram=10%: the results have it with {}, the run does not; 3 more points";
    assert!(printed.contains(line), "{printed}");

    study.describe(&["--policy", "lru,arc", "--tier", "ram=2%,10%"]);
    let file = fs::read_to_string(study.path("file.csv")).unwrap();
    fs::remove_file(study.path("file.csv")).unwrap();
    let (agrees, printed) = study.check(&[]);
    assert!(agrees, "a trace that nobody has is no fault of the results: {printed}");
    assert!(printed.contains("missing  kept/file"), "{printed}");
    assert!(printed.contains("not here: 1; name the folder that has them with --root"));

    fs::write(study.path("file.csv"), file.replacen('1', "2", 1)).unwrap();
    let (agrees, printed) = study.check(&[]);
    assert!(!agrees);
    assert!(printed.contains("UNUSABLE kept/file: "), "{printed}");
    assert!(printed.contains("file.csv") && printed.contains("SHA-256"), "{printed}");
}

#[test]
fn a_folder_that_is_no_study_is_refused() {
    let study = Study::new();
    let folder = study.word("");
    let check = ["artifact", &folder];
    study.describe(&["--policy", "lru", "--tier", "ram=2%", "--output", "elsewhere"]);
    fails(&check, &["study.toml", "`arguments` has --output: leave it out"]);
    study.describe(&["--policy", "lru", "--tiers", "ram=2%"]);
    fails(
        &check,
        &["study.toml", "`arguments` are not those of `thermocline corpus run`", "--tiers"],
    );
    study.describe(&["--policy", "lru", "--tier", "ram=2%"]);
    fs::remove_dir_all(study.path("results")).unwrap();
    fails(&check, &["results"]);
    fs::write(study.path("study.toml"), "manifest = 3\n").unwrap();
    fails(&check, &["study.toml", "manifest"]);
    fs::remove_file(study.path("study.toml")).unwrap();
    fails(&check, &["study.toml", "name a folder of a study, such as studies/hybrids"]);
}

#[test]
fn the_committed_study_agrees_on_its_synthetic_traces() {
    let study = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/hybrids");
    let elsewhere = tempfile::tempdir().unwrap();
    let root = elsewhere.path().to_str().unwrap();
    let output = thermocline(&["artifact", study, "--root", root, "--json"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    let json: Value = serde_json::from_str(&printed).unwrap();
    assert!(output.status.success(), "{printed}");
    assert_eq!(outcomes(&json).iter().filter(|one| **one == ("agrees", 27)).count(), 28);
    assert_eq!(json["compared_points"], 28 * 27);
}
