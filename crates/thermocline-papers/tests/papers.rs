//! Every study on a small trace: its file is read, its experiments run, and its claims are judged.

use std::sync::atomic::{AtomicUsize, Ordering};

use thermocline_papers::{STUDIES, Source, Verdict, Zipf, find};

const SMALL: Zipf = Zipf {
    alpha: 0.9,
    pages: 2000,
    requests: 6000,
    write_share: 0.5,
    interval_us: 1000,
    shift_every: None,
    shift_pages: 0,
    seed: 1,
};

#[test]
fn every_study_runs_and_is_judged() {
    for entry in STUDIES {
        let mut study = entry.reproduction().unwrap();
        let is_from_files = |source: &Source| matches!(source, Source::Files(_));
        let first =
            study.workloads().iter().position(|wanted| is_from_files(wanted.source)).unwrap();
        let trace = SMALL.trace(study.page_size(None).unwrap()).unwrap();
        let alone = study.runs(&[]);
        let done = AtomicUsize::new(0);
        let count = || {
            done.fetch_add(1, Ordering::Relaxed);
        };
        study.run(first, &trace, &count).unwrap();
        assert_eq!(alone + done.into_inner(), study.runs(&[first]), "{}", entry.name);
        for claim in study.claims() {
            let text = format!("{}: {}: {}", entry.name, claim.claim, claim.measured);
            assert!(!text.contains(['{', '}']), "{text}");
            assert_eq!(claim.verdict == Verdict::NotRun, text.contains("not run"), "{text}");
        }
        let judged = study.claims().iter().filter(|claim| claim.verdict != Verdict::NotRun).count();
        assert!(judged > 1, "{} of the claims of {}", judged, entry.name);
        let html = study.report("version", None).to_html();
        assert!(html.contains(&format!("thermocline reproduce {} ", entry.name)));
        assert!(html.contains(" claims could be judged (holds: "), "{}", entry.name);
        let json: serde_json::Value = serde_json::from_str(&study.json().unwrap()).unwrap();
        assert_eq!(json["claims"].as_array().unwrap().len(), study.claims().len());
        assert_eq!(study.tables().last().unwrap().rows.len(), study.claims().len());
    }
}

/// Pages that hardly ever return tell nothing of caches, and say so.
#[test]
fn a_trace_without_reuse_judges_nothing() {
    let mut study = find("hfa").unwrap().reproduction().unwrap();
    let scan = Zipf { alpha: 0.01, pages: 10_000_000, ..SMALL };
    let trace = scan.trace(study.page_size(None).unwrap()).unwrap();
    study.run(0, &trace, &|| ()).unwrap();
    let claims = study.claims();
    assert!(claims.iter().all(|claim| claim.verdict == Verdict::CannotBeJudged), "{claims:?}");
}

#[test]
fn nothing_is_judged_that_was_not_run() {
    for entry in STUDIES {
        let claims = entry.reproduction().unwrap().claims();
        assert!(claims.iter().all(|claim| claim.verdict == Verdict::NotRun), "{claims:?}");
    }
    assert!(find("nobody").is_none());
}
