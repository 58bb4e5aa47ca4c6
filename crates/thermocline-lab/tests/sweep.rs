//! Sweeps: the same output however they are run, and what is run again when something changes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use thermocline_lab::sweep::{Outcome, Progress, Running, Sweep};
use thermocline_lab::{LabError, RunOptions, Watch, run};
use thermocline_trace::PageSize;
use thermocline_trace::convert::{OutputFormat, convert};
use thermocline_trace::generate::{Generator, Options, Pattern};

const SWEEP: &str = r#"
    policies = ["lru", "face", "hat"]
    warm_up = "10%"
    price = ["ram=4", "flash=0.5"]
    [[trace]]
    path = "one.csv"
    [[trace]]
    path = "two.csv"
    [[tier]]
    name = "ram"
    sizes = ["1%", "5%"]
    [[tier]]
    name = "flash"
    sizes = ["2x", "4x"]
    [parameters]
    hat.nonhot_ratio = [0.1, 0.3]
"#;

/// Points: LRU 4, FaCE 4, HAT 8, on two traces.
const POINTS: usize = 32;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.generate("one.csv", 1);
        place.generate("two.csv", 2);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn generate(&self, name: &str, seed: u64) {
        let pattern = Pattern::Zipf { alpha: 0.9 };
        let options = Options { pattern, requests: 5000, pages: 800, seed, ..Options::default() };
        let mut generator = Generator::new(options).unwrap();
        let format: OutputFormat = "csv".parse().unwrap();
        convert(&mut generator, self.path(name), format, PageSize::DEFAULT).unwrap();
    }

    fn run(&self, text: &str, output: &str, threads: usize) -> Outcome {
        let sweep = Sweep::parse(text, self.0.path()).unwrap();
        sweep.run(&self.path(output), threads, &Watch::default(), |_| ()).unwrap()
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

#[test]
fn the_output_does_not_depend_on_threads() {
    let place = Place::new();
    let one = place.run(SWEEP, "one.parquet", 1);
    let two = place.run(SWEEP, "two.parquet", 3);
    assert_eq!((one.rows.len(), one.ran_points, one.reused_points), (POINTS, POINTS, 0));
    assert_eq!(one.rows, two.rows);
    assert_eq!(bytes(&place.path("one.parquet")), bytes(&place.path("two.parquet")));
    assert!(!place.path("one.parquet.parts").exists());
    let policies: Vec<&str> = one.rows.iter().take(16).map(|row| row.policy.as_str()).collect();
    assert_eq!(policies, [vec!["lru"; 4], vec!["face"; 4], vec!["hat"; 8]].concat());
    assert!(one.rows[..16].iter().all(|row| row.trace == "one.csv"));
}

#[test]
fn rows_are_what_a_run_alone_finds() {
    let place = Place::new();
    let sweep = Sweep::parse(SWEEP, place.0.path()).unwrap();
    let rows = place.run(SWEEP, "out.parquet", 2).rows;
    for (point, row) in sweep.points.iter().zip(&rows).step_by(5) {
        let trace = sweep.traces[point.trace].open(&Watch::default(), 1).unwrap();
        let warm_up = "10%".parse().unwrap();
        let options = RunOptions { warm_up, ..RunOptions::default() };
        let summary = run(&trace, &point.configuration, options, &Watch::default()).unwrap();
        assert_eq!(row.policy, summary.policy.name);
        assert_eq!(row.parameters, summary.policy.parameters);
        assert_eq!(row.figure("warm_up_accesses"), Some(500.0));
        assert_eq!(row.figure("io_time_ms"), Some(summary.io_time_ms));
        assert_eq!(row.figure("cost_per_io"), summary.cost.map(|cost| cost.per_io));
        for (ours, theirs) in row.tiers.iter().zip(&summary.tiers) {
            assert_eq!(ours.name, theirs.name);
            assert_eq!(ours.figure("hits"), Some(theirs.hits as f64));
            assert_eq!(ours.figure("page_writes"), Some(theirs.page_writes as f64));
        }
    }
}

#[test]
fn what_is_finished_is_not_run_again() {
    let place = Place::new();
    let whole = place.run(SWEEP, "whole.parquet", 1);
    // Stopped after some points, as a crash would: the parts are there, the output is not.
    let sweep = Sweep::parse(SWEEP, place.0.path()).unwrap();
    let output = place.path("out.parquet");
    let (finished, limit) = (Mutex::new(0), 9);
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        sweep.run(&output, 1, &Watch::default(), |progress| {
            if let Progress::Finished(points) = progress {
                let mut finished = finished.lock().unwrap();
                *finished += points;
                assert!(*finished < limit, "stopped here");
            }
        })
    }));
    assert!(stopped.is_err() && !output.exists());
    let finished = finished.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    assert!((limit..=POINTS).contains(&finished), "{finished}");
    let outcome = place.run(SWEEP, "out.parquet", 2);
    assert_eq!((outcome.ran_points, outcome.reused_points), (POINTS - finished, finished));
    assert_eq!(outcome.rows, whole.rows);
    assert_eq!(bytes(&output), bytes(&place.path("whole.parquet")));
    let again = place.run(SWEEP, "out.parquet", 2);
    assert_eq!((again.ran_points, again.reused_points), (0, POINTS));
    assert_eq!(bytes(&output), bytes(&place.path("whole.parquet")));
}

#[test]
fn a_change_runs_what_it_concerns() {
    let place = Place::new();
    place.run(SWEEP, "out.parquet", 2);
    let more = SWEEP.replace("\"5%\"]", "\"5%\", \"7%\"]");
    let outcome = place.run(&more, "out.parquet", 2);
    assert_eq!((outcome.ran_points, outcome.reused_points), (POINTS / 2, POINTS));
    let fewer = SWEEP.replace("\"lru\", ", "");
    let outcome = place.run(&fewer, "out.parquet", 2);
    assert_eq!((outcome.ran_points, outcome.dropped_results), (0, POINTS / 2 + 8));
    place.generate("two.csv", 3);
    let outcome = place.run(&fewer, "out.parquet", 2);
    assert_eq!(outcome.ran_points, 12, "one of the two traces has changed");
    let outcome = place.run(&fewer.replace("10%", "11%"), "out.parquet", 2);
    assert_eq!(outcome.ran_points, 24, "every point has another warm-up");
}

/// Two files of data, which share no page number as volumes, and one log.
/// The requests of a recording.
const RECORDED: &str = "\
timestamp_us,op,file_id,page_no,pages,flags
0,R,0,0,2,
100000,R,1,0,2,
200000,W,2,0,1,l
";

/// Its file table.
const RECORDED_FILES: &str = "\
file_id,base_page,extent_pages,class,read_pages,write_pages,path
0,0,2,data,2,0,/d/one.db
1,2,2,data,2,0,/d/two.db
2,4,1,log,0,1,/d/one.db-wal
";

const OF_RECORDING: &str = r#"
    policies = ["lru"]
    [[trace]]
    path = "x.csv"
    only = "data"
    [[tier]]
    name = "ram"
    sizes = ["1p"]
"#;

#[test]
fn a_recording_is_swept_by_class_and_by_file() {
    let place = Place::new();
    fs::write(place.path("x.csv"), RECORDED).unwrap();
    fs::write(place.path("x.files.csv"), RECORDED_FILES).unwrap();
    fs::write(place.path("x.stats.json"), r#"{"page_size": 4096}"#).unwrap();
    let accesses =
        |text: &str| place.run(text, "out.parquet", 1).rows.iter().map(|row| row.accesses).sum();
    let check = |text: &str, expected: u64| {
        let found: u64 = accesses(text);
        assert_eq!(found, expected, "{text}");
    };
    check(OF_RECORDING, 4);
    check(&OF_RECORDING.replace("\"data\"", "[\"data\", \"log\"]"), 5);
    check(&OF_RECORDING.replace("only = \"data\"", "volumes = \"files\""), 5);
    let open = |text: &str| {
        let sweep = Sweep::parse(text, place.0.path()).unwrap();
        let trace = sweep.traces[0].open(&Watch::default(), 1);
        trace.map(|trace| trace.volume_names().len()).map_err(|error| error.to_string())
    };
    assert_eq!(open(&OF_RECORDING.replace("only = \"data\"", "volumes = \"files\"")), Ok(3));
    let error = open(&OF_RECORDING.replace("data", "logs")).unwrap_err();
    assert!(error.contains("'logs'") && error.contains("data, log"), "{error}");
    let error = open(&OF_RECORDING.replace("x.csv", "one.csv")).unwrap_err();
    assert!(error.contains("`only`"), "{error}");
    // The class of a file is part of what the result depends on.
    place.run(OF_RECORDING, "out.parquet", 1);
    assert_eq!(place.run(OF_RECORDING, "out.parquet", 1).ran_points, 0);
    let table = place.path("x.files.csv");
    let other = fs::read_to_string(&table).unwrap().replace(",log,", ",data,");
    fs::write(&table, other).unwrap();
    let outcome = place.run(OF_RECORDING, "out.parquet", 1);
    assert_eq!((outcome.ran_points, outcome.rows[0].accesses), (1, 5));
}

#[test]
fn what_is_in_the_way_is_not_written_over() {
    let place = Place::new();
    let sweep = Sweep::parse(SWEEP, place.0.path()).unwrap();
    fs::write(place.path("notes.parquet"), "not a Parquet file").unwrap();
    let error = sweep
        .run(&place.path("notes.parquet"), 1, &Watch::default(), |_| ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("no result of a sweep: take another name"), "{error}");
    assert_eq!(bytes(&place.path("notes.parquet")), b"not a Parquet file");
    let trace = sweep.traces[0].open(&Watch::default(), 1).unwrap();
    trace.save(place.path("trace.parquet")).unwrap();
    let error = sweep
        .run(&place.path("trace.parquet"), 1, &Watch::default(), |_| ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("no result of a sweep"), "{error}");
    fs::remove_file(place.path("two.csv")).unwrap();
    let error = sweep
        .run(&place.path("new.parquet"), 1, &Watch::default(), |_| ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("two.csv"), "{error}");
}

#[test]
fn a_sweep_that_runs_is_left_alone() {
    let place = Place::new();
    let sweep = Sweep::parse(SWEEP, place.0.path()).unwrap();
    let output = place.path("out.parquet");
    let seen = Mutex::new(None);
    sweep
        .run(&output, 1, &Watch::default(), |progress| {
            if let Progress::Reused(_) = progress {
                let error = sweep.run(&output, 1, &Watch::default(), |_| ()).unwrap_err();
                *seen.lock().unwrap() = Some(error.to_string());
            }
        })
        .unwrap();
    assert!(seen.into_inner().unwrap().unwrap().contains("another run"));
}

#[test]
fn points_that_run_elsewhere_give_the_same_output() {
    let place = Place::new();
    let sweep = Sweep::parse(SWEEP, place.0.path()).unwrap();
    place.run(SWEEP, "here.parquet", 2);
    let hashes = || sweep.traces.iter().map(|source| source.sha256().unwrap()).collect();
    let traces: Vec<_> =
        sweep.traces.iter().map(|source| source.open(&Watch::default(), 1).unwrap()).collect();
    let elsewhere = |running: &Running, point: usize| {
        let (one, names) = (&sweep.points[point], running.names(&sweep, point));
        one.run(
            &traces[one.trace],
            sweep.options,
            &sweep.traces[one.trace],
            names,
            &Watch::default(),
        )
        .unwrap()
    };
    let output = place.path("elsewhere.parquet");
    let first = Running::begin(&sweep, &output, hashes()).unwrap();
    assert_eq!(first.missing().len(), POINTS);
    for &point in first.missing().iter().rev().take(3) {
        first.keep(&[elsewhere(&first, point)]).unwrap();
    }
    first.keep(&[]).unwrap();
    assert!(Running::begin(&sweep, &output, hashes()).is_err(), "it is being written");
    drop(first);
    let second = Running::begin(&sweep, &output, hashes()).unwrap();
    assert_eq!(second.missing().len(), POINTS - 3, "what was kept is finished");
    let rows = second.missing().iter().rev().map(|&point| elsewhere(&second, point)).collect();
    let outcome = second.finish(rows).unwrap();
    assert_eq!((outcome.ran_points, outcome.reused_points), (POINTS - 3, 3));
    assert_eq!(bytes(&output), bytes(&place.path("here.parquet")));
}

#[test]
fn a_stopped_sweep_goes_on_later() {
    let place = Place::new();
    let watch = Watch::default();
    let sweep = Sweep::parse(SWEEP, place.0.path()).unwrap();
    let stop = |progress| {
        if matches!(progress, Progress::Finished(_)) {
            watch.stop();
        }
    };
    let output = place.path("out.parquet");
    let stopped = sweep.run(&output, 1, &watch, stop).unwrap_err();
    assert!(matches!(stopped, LabError::Stopped), "{stopped}");
    assert!(!output.exists());
    let outcome = sweep.run(&output, 1, &Watch::default(), |_| ()).unwrap();
    assert!(outcome.reused_points > 0 && outcome.ran_points > 0);
}

#[test]
fn a_sweep_without_a_result_leaves_nothing() {
    let place = Place::new();
    let sweep = Sweep::parse(SWEEP, place.0.path()).unwrap();
    let output = place.path("out.parquet");
    let left = || {
        let entries = fs::read_dir(place.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.retain(|name| name.starts_with("out"));
        names
    };
    let bad = Sweep::parse(&SWEEP.replace("10%", "99999"), place.0.path()).unwrap();
    bad.run(&output, 2, &Watch::default(), |_| ()).unwrap_err();
    assert_eq!(left(), [""; 0], "the first point cannot be");
    fs::write(&output, "not a Parquet file").unwrap();
    sweep.run(&output, 2, &Watch::default(), |_| ()).unwrap_err();
    assert_eq!(left(), ["out.parquet"], "something else is in the way");
    fs::remove_file(&output).unwrap();
    // The second trace is found wrong when all points of the first are finished.
    fs::write(place.path("two.csv"), "noise").unwrap();
    sweep.run(&output, 1, &Watch::default(), |_| ()).unwrap_err();
    assert_eq!(left(), ["out.parquet.parts"], "what is finished is kept");
    place.generate("two.csv", 2);
    assert_eq!(sweep.run(&output, 1, &Watch::default(), |_| ()).unwrap().reused_points, POINTS / 2);
    assert_eq!(left(), ["out.parquet"]);
}

#[test]
fn where_no_output_can_be_is_told_first() {
    let place = Place::new();
    let sweep = Sweep::parse(SWEEP, place.0.path()).unwrap();
    fs::remove_file(place.path("one.csv")).unwrap();
    for (output, expected) in [
        ("absent/deep/out.parquet", "absent/deep`: there is no such folder"),
        ("two.csv/out.parquet", "two.csv`: there is no such folder"),
        ("", "it is a folder"),
        ("/dev/null", "not a regular file"),
    ] {
        let error =
            sweep.run(&place.path(output), 1, &Watch::default(), |_| ()).unwrap_err().to_string();
        assert!(error.contains(expected), "{output}: {error}");
        let error = Running::begin(&sweep, &place.path(output), vec![String::new(); 2]);
        assert!(error.unwrap_err().to_string().contains(expected), "{output}");
    }
    assert!(!place.path("absent").exists());
}
