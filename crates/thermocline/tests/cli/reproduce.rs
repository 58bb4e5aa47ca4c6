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
    // The report names the missing traces and their sources.
    assert!(html.contains("Traces that are missing") && html.contains("UMass Trace Repository"));
}

#[test]
fn one_figure_is_reported_alone() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("mbf.html");
    let path = report.to_str().unwrap();
    let output = reproduce(&["mbf", "--figure", "14", "--report", path]);
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{notes}");
    assert!(notes.contains(" runs; next: PostgreSQL (bundled)"), "{notes}");
    let html = std::fs::read_to_string(&report).unwrap();
    assert!(html.contains("period of DAM (Figure 14)") && html.contains("--figure 14"));
    assert!(!html.contains("Figure 13 d") && !html.contains("The traces really used"));
    let output = reproduce(&["mbf", "--figure", "9", "--report", path]);
    assert!(output.status.success());
    let html = std::fs::read_to_string(&report).unwrap();
    assert!(html.contains("differ from those of WDAC (Figure 9)") && !html.contains("(Figure 8)"));
    let output = reproduce(&["mbf", "--figure", "99", "--report", path]);
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("`mbf` makes no Figure 99 again; it makes 6, 8, 9, 10, 11"), "{error}");
    assert!(!error.contains("runs;"), "before anything is run: {error}");
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
    assert!(found.contains("original") && found.contains("financial1.spc"), "{found}");
    let missing = line("RealSSD");
    assert!(missing.contains("realssd.*") && missing.contains("missing"), "{missing}");
    let stands_in = line("PostgreSQL (bundled)");
    assert!(stands_in.contains("stand-in") && stands_in.contains("with the program"));
    let figures = line("Figures of the paper");
    assert!(figures.contains("--figure N: 6, 8, 9, 10") && figures.contains("Nothing is run"));
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

/// The files of the papers' traces as their distributors call them, in folders as archives have them.
#[test]
fn original_names_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let hour = |first: u32| (0..6).map(move |ten| format!("{first:02}-{:02}", ten * 10 + 1));
    let names = [12, 1, 2, 3, 4, 5].into_iter().flat_map(hour);
    let mut names: Vec<String> = names
        .map(|at| format!("MSNStorageFileServer/Traces/MSNFS.2008-03-10.{at}.trace.csv.csv.gz"))
        .collect();
    names.extend((1..=20).map(|day| format!("FIU/homes/homes-110108-112108.{day}.blkparse")));
    names.extend(
        ["12-12-2007.02-39-PM", "12-13-2007.01-59-AM", "12-13-2007.12-44-AM"]
            .map(|at| format!("Exchange-Server-Traces/Exchange/Exchange.{at}.trace.csv.gz")),
    );
    names.extend(
        [
            "UMass/Financial1.spc.bz2",
            "UMass/WebSearch1.spc.bz2",
            "MSR-Cambridge/prxy_0.csv.gz",
            "TPC-C/W2K8.TPCC.trace.csv.bz2",
            "MSNStorageFileServer/MSNFS.ReadMe.txt",
        ]
        .map(String::from),
    );
    for name in &names {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    let listed = |paper: &str| {
        let output = reproduce(&[paper, "--list", "--traces", folder.path().to_str().unwrap()]);
        String::from_utf8(output.stdout).unwrap()
    };
    let shows = |list: &str, workload: &str, parts: &[&str]| {
        let line = list.lines().find(|line| line.starts_with(&format!("| {workload} "))).unwrap();
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    };
    let hfa = listed("hfa");
    shows(&hfa, "WebSearch", &["original", "UMass/WebSearch1.spc.bz2"]);
    let day = "homes-110108-112108";
    let last = format!("{day}.20.blkparse");
    shows(&hfa, "FIU homes", &["20 of 21 files", &format!("{day}.1.blkparse to {last}")]);
    shows(&hfa, "MSN-SFS", &["36 files", ".12-01.trace.csv.csv.gz to MSNFS.2008-03-10.05-51."]);
    shows(&hfa, "Microsoft Exchange", &["3 files", ".02-39-PM.trace.csv.gz to ", ".01-59-AM."]);
    shows(&hfa, "TPC-C", &["W2K8.TPCC.trace.csv.bz2"]);
    shows(&hfa, "TPC-E", &["original", "missing"]);
    shows(&listed("mbf"), "MSR prxy_0", &["MSR-Cambridge/prxy_0.csv.gz"]);
    shows(&listed("hca"), "Financial1", &["UMass/Financial1.spc.bz2"]);
}

/// Real requests under the original names are read as the paper's own traces.
#[test]
fn the_papers_own_files_are_run() {
    let Some(traces) = std::env::var_os("THERMOCLINE_TRACES").map(std::path::PathBuf::from) else {
        eprintln!("skipped: THERMOCLINE_TRACES is not set");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for (head, name) in [
        ("financial1-head949.spc.xz", "umass/Financial1.spc.bz2"),
        ("msr-hm_0-head1k.csv.xz", "MSR-Cambridge/prxy_0.csv.gz"),
    ] {
        let head = traces.join("public").join(head);
        if !head.is_file() {
            eprintln!("skipped: {} is absent", head.display());
            return;
        }
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::copy(head, path).unwrap();
    }
    let report = folder.path().join("mbf.html");
    let words = ["mbf", "--json", "--traces", folder.path().to_str().unwrap()];
    let output = reproduce(&[&words[..], &["--report", report.to_str().unwrap()]].concat());
    assert!(output.status.success());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let requests = |workload: &str| {
        let mut all = json["workloads"].as_array().unwrap().iter();
        all.find(|one| one["workload"] == workload).unwrap()["requests"].as_u64().unwrap()
    };
    assert_eq!((requests("Financial1"), requests("MSR prxy_0")), (949, 1000));
    let claim = json["claims"][0]["measured"].as_str().unwrap();
    assert!(claim.contains("949 requests, not 5334987"), "{claim}");
}

#[test]
fn the_hca_papers_experiments_run_on_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("hca.html");
    let report = report.to_str().unwrap();
    let output = reproduce(&["hca", "--engine", "--scale", "256", "--json", "--report", report]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["workloads"]["engine_scale"], 256);
    for workload in json["workloads"]["system"].as_array().unwrap() {
        assert_eq!(workload["cells"].as_array().unwrap().len(), 27);
    }
    let html = std::fs::read_to_string(report).unwrap();
    assert!(html.contains("on the engine with sizes and time divided by 256"));
    let refused = reproduce(&["hca", "--engine", "--scale", "4096", "--report", report]);
    assert!(!refused.status.success());
    assert!(String::from_utf8(refused.stderr).unwrap().contains("a scale of more than 256"));
    let refused = reproduce(&["mbf", "--engine", "--report", report]);
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success());
    assert!(message.contains("`mbf` has no experiments that run on the engine"), "{message}");
}
