//! `thermocline reproduce`: what is found, what is left out, and what is printed.

use std::process::{Command, Output};

/// Runs the command without any folder of traces but the one that is given.
fn reproduce(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thermocline"))
        .arg("reproduce")
        .args(words)
        .env_remove("THERMOCLINE_TRACES")
        .output()
        .unwrap()
}

#[test]
fn the_mbf_paper_is_reproduced_without_any_trace() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("mbf.html");
    let output = reproduce(&["mbf", "--report", report.to_str().unwrap()]);
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("PostgreSQL (bundled)") && printed.contains("holds"));
    assert!(String::from_utf8(output.stderr).unwrap().contains("skipped Financial1"));
    let html = std::fs::read_to_string(report).unwrap();
    assert!(html.contains("Figure 13 d") && html.contains("The traces really used"));
    assert!(html.contains("</html>"));
}

#[test]
fn a_list_says_what_is_found_and_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("financial1.spc"), "0,8,4096,w,0.5\n").unwrap();
    let output = reproduce(&["mbf", "--list", "--traces", folder.path().to_str().unwrap()]);
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    let line = |name: &str| printed.lines().find(|line| line.contains(name)).unwrap().to_owned();
    let found = line("| Financial1 ");
    assert!(found.contains("the paper's") && found.contains("financial1.spc"), "{found}");
    let missing = line("RealSSD");
    assert!(missing.contains("realssd.*") && missing.contains("missing"), "{missing}");
    let stands_in = line("PostgreSQL (bundled)");
    assert!(stands_in.contains("stands in") && stands_in.contains("with the program"));
}

#[test]
fn a_trace_that_cannot_be_read_leaves_its_workload_out() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Financial1.spc"), "this is no trace\n").unwrap();
    let report = folder.path().join("mbf.html");
    let traces = folder.path().to_str().unwrap();
    let output = reproduce(&["mbf", "--traces", traces, "--report", report.to_str().unwrap()]);
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{notes}");
    assert!(notes.contains("left out Financial1: ") && notes.contains("Financial1.spc"), "{notes}");
    assert!(std::fs::read_to_string(report).unwrap().contains("PostgreSQL (bundled)"));
}
