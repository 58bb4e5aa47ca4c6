//! A server that is killed under load while the driver keeps what it was asked (`backing.grace`).

use std::path::Path;
use std::time::Duration;

use thermocline_core::Nanos;
use thermocline_engine::{Options, WriteMode};

use super::load::{Load, Loss};
use super::volatile::{Face, Running, disk};
use super::{BYTES, PAGES, check_nbdkit, check_volatile, of_ram_within, options};

/// Modes of writing, which differ in who waits for the backing store.
const MODES: [WriteMode; 2] = [WriteMode::Back, WriteMode::Through];

#[test]
fn kills_under_load_cost_no_read_and_no_write_within_the_grace() {
    let grace = Duration::from_mins(1);
    for (seed, write_mode) in (0..).zip(MODES) {
        let options = Options { write_mode, ..options("lru", 0) };
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(BYTES);
        let start = || Running::start(&disk, folder.path(), Face::default());
        let running = start();
        let engine = of_ram_within(options.clone(), running.uri(), grace);
        // It checks what was flushed, too.
        let failures = check_volatile(engine, seed, &disk, start, running);
        assert_eq!(failures[..2], [0, 0], "{write_mode:?}: only flushes may fail");
        let engine = |_: &Path, uri| of_ram_within(options.clone(), uri, grace);
        if let Some(load) = check_nbdkit(&[], 5, engine) {
            assert_eq!(load.failures[..2], [0, 0], "{write_mode:?}: only flushes may fail");
        }
    }
}

#[test]
fn nothing_waits_longer_than_its_time_for_a_server_that_stays_away() {
    let timeout = Duration::from_secs(1);
    for (seed, write_mode) in (0..).zip(MODES) {
        let backing_timeout = Nanos(1_000_000_000);
        let options = Options { write_mode, backing_timeout, ..options("lru", 0) };
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(BYTES);
        let running = Running::start(&disk, folder.path(), Face::default());
        // The grace alone would keep requests for longer.
        let grace = Duration::from_mins(1);
        let mut engine = of_ram_within(options, running.uri(), grace);
        let mut load = Load::new(PAGES, Loss::Unflushed, seed);
        load.run(&mut engine, Duration::from_millis(300));
        running.kill();
        load.run(&mut engine, Duration::from_millis(300));
        let waited = load.settle(&mut engine);
        assert!(waited < timeout * 10, "{write_mode:?}: answered after {waited:?}");
        assert!(load.failures[0] > 0, "reads of the disk fail");
        let running = Running::start(&disk, folder.path(), Face::default());
        load.run(&mut engine, Duration::from_millis(300));
        load.finish(&mut engine);
        load.check_disk(&disk.lock().unwrap().durable);
        drop((engine, running));
    }
}
