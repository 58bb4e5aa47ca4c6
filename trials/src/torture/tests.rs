//! Short runs, by rounds, of which a slow machine does as many as a fast one: one that must find nothing, and one whose backing store lies.

use super::*;

/// Return the server, built; nothing if FUSE does not work here, which is said.
fn program() -> Option<PathBuf> {
    let root = xtask::root().unwrap();
    let folder = tempfile::tempdir().unwrap();
    if let Err(error) = fuse::Mount::new(disk::Disk::new(0), folder.path()) {
        eprintln!("skipped: {error:#}");
        return None;
    }
    Some(xtask::tested_program(&root).unwrap())
}

#[test]
fn nothing_is_wrong_in_a_short_run() {
    let Some(program) = program() else { return };
    let work = Work { seed: 7, time: Duration::MAX, rounds: 4, only: None, sync: Sync::Honest };
    let report = torture(&program, work, &Arc::default()).unwrap();
    assert_eq!(report.violation, None);
    let total = report.total();
    assert!(total.rounds == 4 && total.checked_sectors > 100_000, "{total:?}");
}

#[test]
fn a_backing_store_that_lies_about_syncs_is_found_out() {
    let Some(program) = program() else { return };
    let work = Work { seed: 8, time: Duration::MAX, rounds: 30, only: None, sync: Sync::Lying };
    let report = torture(&program, work, &Arc::default()).unwrap();
    let violation = report.violation.expect("a lost write is noticed");
    assert!(violation.contains("sector"), "{violation}");
}
