//! The file system, with pages large enough to run in a moment: theory, and what adds up.

use std::sync::LazyLock;

use super::*;
use crate::study::{File, parse};

const FILE: &str = include_str!("experiment.toml");

/// Return the paper's sizes in pages of 8 MiB: a working set of 10 GiB is 1,280 of them.
fn file() -> File<Experiment> {
    let mut file = parse::<Experiment>(FILE).unwrap();
    file.study.system.page_size_bytes = 8 << 20;
    file.study.system.duration_s = 600;
    file
}

/// Runs both workloads for that long.
fn run(duration_s: u64) -> [SystemResult; 2] {
    let mut file = file();
    file.study.system.duration_s = duration_s;
    file.study.system.run(None, &|| {}).unwrap().try_into().unwrap()
}

/// One run that several tests look at.
static RUN: LazyLock<[SystemResult; 2]> = LazyLock::new(|| run(600));

fn assert_near(ours: f64, theory: f64, tolerance: f64, what: &str) {
    assert!((ours - theory).abs() <= tolerance, "{what}: {ours} is not {theory}");
}

#[test]
fn uniform_reads_hit_as_much_as_fits() {
    let [random_read, oltp] = &*RUN;
    // ARC holds 2 of 10 GiB, and cannot do better on pages that are all alike.
    assert_near(random_read.baseline.hits.ram, 0.2, 0.01, "baseline");
    // One reader waits for the disk four times out of five: half a turn of 8.33 ms, a short seek and the
    // transfer. The paper's own disk took 9.54 ms.
    let latency_ms = random_read.baseline.latency_ms;
    let disk_ms = (latency_ms - file().study.system.ram_ms) / random_read.baseline.hits.disk;
    assert!((7.5..10.5).contains(&disk_ms), "{disk_ms}");
    assert_near(random_read.baseline.iops, 1000.0 / latency_ms, 2.0, "I/Os per second");
    // With an SSD for all of it, the disk is read about once per page.
    let last = random_read.hybrid.snapshots.last().unwrap();
    assert_eq!(last.hits.disk.to_bits(), 0.0_f64.to_bits());
    assert_near(last.hits.ssd, 0.8, 0.01, "SSD");
    assert!(random_read.hybrid.migrated_after_s.unwrap() <= 240);
    // Many readers queue, and the disk chooses among them: it serves more than one after the other.
    let disk_iops = 1000.0 / disk_ms;
    assert!(oltp.baseline.storage_iops > disk_iops * 1.2, "{}", oltp.baseline.storage_iops);
    assert!(oltp.baseline.latency_ms > 10.0 * disk_ms, "{}", oltp.baseline.latency_ms);
}

#[test]
fn shares_and_intervals_add_up() {
    for result in &*RUN {
        assert_eq!(result.cells.len(), 27);
        let cells = result.cells.iter().map(|cell| &cell.run);
        for one in [&result.baseline, &result.hybrid].into_iter().chain(cells) {
            let hits = one.hits;
            assert_near(hits.ram + hits.ssd + hits.disk, 1.0, 1e-9, "shares");
            assert_near(one.iops * (1.0 - hits.ram), one.storage_iops, 1e-6, "storage");
        }
        for one in [&result.baseline, &result.hybrid] {
            assert_eq!(one.snapshots.len(), 10);
            let mean = one.snapshots.iter().map(|snapshot| snapshot.iops).sum::<f64>() / 10.0;
            assert_near(mean, one.iops, 1e-6, "I/Os per second");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let file = file();
    let html = |system: &[SystemResult; 2]| {
        let results = Results { system: system.to_vec(), ..Results::default() };
        let claims = file.study.judge(&[], &file.claims, &results);
        assert!(claims.iter().all(|claim| !claim.claim.contains('{')), "{claims:?}");
        assert_eq!(claims.last().unwrap().verdict.words(), "not run");
        let mut report = Report::new("title");
        file.study.report(&results, &mut report);
        report.to_html()
    };
    assert_eq!(html(&run(60)), html(&run(60)));
    let first = html(&RUN);
    for part in ["75.66", "46.74", "57.89 / ", "Figures 8 and 17"] {
        assert!(first.contains(part), "{part}");
    }
}

/// The engine gives what the simulation gives, as far as its own writes to flash allow.
#[test]
fn the_engine_runs_the_same_experiments() {
    let mut file = file();
    file.study.system.page_size_bytes = 8192;
    file.study.system.duration_s = 10_800;
    file.study.system.ssd_gib_choices = vec![4];
    file.study.system.ram_gib_choices = vec![2];
    file.study.system.working_set_gib_choices = vec![10];
    let run = |scale| file.study.system.run(Some(scale), &|| {}).unwrap();
    let results = run(256);
    let [random_read, oltp] = &results[..] else { panic!("two workloads") };
    for one in [random_read, oltp] {
        assert_eq!(one.cells.len(), 1);
        // A fifth of the working set fits RAM.
        assert_near(one.baseline.hits.ram, 0.2, 0.03, "RAM");
        assert!(one.hybrid.hits.disk < one.baseline.hits.disk - 0.2, "{:?}", one.hybrid.hits);
        assert!(one.hybrid.iops > 1.5 * one.baseline.iops, "{} I/Os per second", one.hybrid.iops);
        assert!(one.cells[0].run.hits.disk > one.hybrid.hits.disk, "a smaller SSD hits less often");
    }
    assert!(oltp.baseline.iops > random_read.baseline.iops * 1.2, "the disk chooses among many");
    let text = |results: &[SystemResult]| serde_json::to_string(results).unwrap();
    assert_eq!(text(&run(256)), text(&results), "the clock is simulated");
}

#[test]
fn tables_of_other_sizes_are_refused() {
    let broken = FILE.replace("ssd_gib_choices = [4, 6, 8]", "ssd_gib_choices = [4, 6]");
    let error = parse::<Experiment>(&broken).err().unwrap();
    assert!(error.contains("2 rows of 9 cells"), "{error}");
    let huge = FILE.replace("working_set_gib = 10\n", "working_set_gib = 100000\n");
    let error = parse::<Experiment>(&huge).err().unwrap();
    assert!(error.contains("100000 GiB of 8192 bytes are too many pages"), "{error}");
}
