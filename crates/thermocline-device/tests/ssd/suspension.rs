//! Programs and erases that stop for reads: closed forms, and what stays the same.

use thermocline_core::Nanos;
use thermocline_device::ssd::{Precondition, Scheduling, SsdConfig, SsdMetrics, Suspension};

use super::{Random, drain, drive, preset, read, run, tiny, write};

/// Return a drive that suspends a program in 5 us and an erase in 20 us.
fn interrupted(times: u32) -> SsdConfig {
    let suspension = Some(Suspension { program_us: 5.0, erase_us: 20.0, times });
    SsdConfig { scheduling: Scheduling::ReadFirst, suspension, ..tiny() }
}

/// Return the times at which a write and reads of another page complete, in microseconds after the write
/// arrived.
fn completions(config: &SsdConfig, reads_at_us: &[u64]) -> Vec<(u64, f64)> {
    let mut drive = drive(config);
    run(&mut drive, &[(0, write(0))]);
    let start = 1_000_000;
    let reads = reads_at_us.iter().map(|at_us| (start + at_us * 1000, read(0)));
    let requests: Vec<_> = [(start, write(1))].into_iter().chain(reads).collect();
    let completed = run(&mut drive, &requests);
    completed.into_iter().map(|(ticket, at)| (ticket, (at - start) as f64 / 1e3)).collect()
}

#[test]
fn a_program_stops_for_a_read_and_takes_what_it_had_left() {
    // The cells program from 1 to 101; they stop from 50 to 55, read to 65, and the bus has the page at 66.
    let once = interrupted(1);
    assert_eq!(completions(&once, &[50]), [(2, 66.0), (1, 66.0 + 51.0)]);
    let with_register = SsdConfig { cache_register: true, ..once.clone() };
    assert_eq!(completions(&with_register, &[50]), [(2, 66.0), (1, 65.0 + 51.0)]);
    // Reads that wait together are served together, one after the other.
    assert_eq!(completions(&once, &[50, 52]), [(2, 66.0), (3, 77.0), (1, 77.0 + 51.0)]);
    // It is done sooner than it would stop.
    assert_eq!(completions(&once, &[96]), [(1, 101.0), (2, 112.0)]);
    assert_eq!(completions(&once, &[95]), [(2, 111.0), (1, 117.0)]);
}

#[test]
fn a_program_is_interrupted_so_often() {
    assert_eq!(completions(&interrupted(1), &[50, 80]), [(2, 66.0), (1, 117.0), (3, 128.0)]);
    // Another stop at 80, with 37 left, and a read until 96.
    let twice = completions(&interrupted(2), &[50, 80]);
    assert_eq!(twice, [(2, 66.0), (3, 96.0), (1, 96.0 + 37.0)]);
    let each = completions(&interrupted(1), &[]);
    assert_eq!(each, [(1, 101.0)]);
}

#[test]
fn what_has_entered_behind_a_program_steps_aside() {
    let config = SsdConfig { cache_register: true, ..interrupted(1) };
    let mut drive = drive(&config);
    run(&mut drive, &[(0, write(0))]);
    let start = 1_000_000;
    let requests = [
        (start, write(1)),
        (start, write(2)),
        (start + 50_000, read(0)),
        (start + 150_000, read(0)),
    ];
    let completed = run(&mut drive, &requests);
    // The second program begins at 116, stops at 150 with 66 left, and goes on at 165.
    let expected = [(3, 66_000), (1, 116_000), (4, 166_000), (2, 165_000 + 66_000)];
    assert_eq!(completed, expected.map(|(ticket, at)| (ticket, start + at)));
}

fn mixed(config: &SsdConfig) -> SsdMetrics {
    let mut drive = drive(config);
    drive.precondition(&Precondition { fill: 1.0, overwrite: 2.0, seed: 1 }).unwrap();
    let mut random = Random(3);
    let last = drive.logical_pages();
    for at in 0..2000 {
        let page = random.below(last);
        let request = if at % 4 == 0 { write(page) } else { read(page) };
        drive.submit(Nanos(at * 300_000), request).unwrap();
        drive.assert_invariants();
    }
    drain(&mut drive);
    drive.metrics()
}

#[test]
fn no_read_waits_for_an_erase_and_the_map_stays_what_it_was() {
    let often = interrupted(100);
    let without = mixed(&SsdConfig { suspension: None, ..often.clone() });
    for cache_register in [false, true] {
        let with = mixed(&SsdConfig { cache_register, ..often.clone() });
        assert_eq!(with.erase_count, without.erase_count);
        assert_eq!(with.gc_copies, without.gc_copies);
        // A stop, and the operations of garbage collection under way: a read, or bytes on the bus.
        assert!(with.read_response_us.max < 20.0 + 4.0 * 11.0, "{:?}", with.read_response_us);
        assert!(without.read_response_us.max > 500.0, "{:?}", without.read_response_us);
    }
}

#[test]
fn a_latency_that_is_never_reached_changes_nothing() {
    let never = Suspension { program_us: 1e6, erase_us: 1e6, times: 1 };
    let with = SsdConfig { suspension: Some(never), ..interrupted(1) };
    let without = SsdConfig { suspension: None, ..with.clone() };
    assert_eq!(mixed(&with), mixed(&without));
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |suspension: Suspension, scheduling| {
        let suspension = Some(suspension);
        let config = SsdConfig { suspension, scheduling, ..interrupted(1) };
        config.validate().unwrap_err().to_string()
    };
    let good = Suspension { program_us: 5.0, erase_us: 20.0, times: 1 };
    for (wrong, name) in [
        (Suspension { program_us: -1.0, ..good }, "program_us"),
        (Suspension { erase_us: 1e7, ..good }, "erase_us"),
        (Suspension { times: 0, ..good }, "times"),
    ] {
        let error = refused(wrong, Scheduling::ReadFirst);
        assert!(error.contains(name), "{error}");
    }
    let error = refused(good, Scheduling::Fifo);
    assert!(error.contains("scheduling") && error.contains("read-first"), "{error}");
    let text = toml::to_string(&interrupted(3)).unwrap();
    assert_eq!(SsdConfig::from_toml(&text).unwrap(), interrupted(3));
    for name in ["ssdsim", "slc-2008", "mlc-sata-2011", "tlc-nvme", "qlc-nvme"] {
        assert!(preset(name).suspension.is_none(), "{name} is as it was");
    }
}
