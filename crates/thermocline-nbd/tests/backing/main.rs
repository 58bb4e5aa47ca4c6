//! Another server as the backing store: our own, which loses what was not flushed when it is killed,
//! and `nbdkit`, if it is installed.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stderr, reason = "a test says what it skips")]
#![expect(unsafe_code, reason = "the test fills the frames of operations before it starts them")]

mod away;
#[path = "../common/certificates.rs"]
mod certificates;
#[path = "../server/client.rs"]
mod client;
mod hosts;
mod load;
mod multi_conn;
mod nbdkit;
mod tls;
mod volatile;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thermocline_core::random::SplitMix64;
use thermocline_engine::driver::Driver;
use thermocline_engine::driver::files::{Caching, DeviceFile};
use thermocline_engine::driver::split::SplitDriver;
use thermocline_engine::driver::threads::ThreadDriver;
use thermocline_engine::driver::uring::UringDriver;
use thermocline_engine::{
    Device, Engine, FrameId, Frames, Operation, OperationId, OperationKind, OperationParts,
    Options, PolicyOptions, Request, RequestError, Shard, Storage as _, WriteMode,
};
use thermocline_nbd::backing::{Access, BackingError, NbdBacking, NbdDriver, NbdStorage};
use thermocline_nbd::protocol::{BlockSizes, transmission_flag as flag};
use thermocline_nbd::uri::NbdUri;

use self::load::{Load, Loss, PAGE};
use self::nbdkit::Nbdkit;
use self::volatile::{Face, Running, disk};

/// Pages of the disks.
const PAGES: usize = 400;
const BYTES: usize = PAGES << 12;

fn options(policy: &str, flash_pages: u32) -> Options {
    let policy = PolicyOptions::named(policy).unwrap();
    Options::new(PAGES as u64, 24, flash_pages, policy)
}

fn connect(uri: NbdUri) -> NbdBacking {
    NbdBacking::connect(uri, Access::ReadWrite).unwrap().with_grace(Duration::ZERO)
}

/// Return an engine of RAM alone.
fn of_ram(options: Options, uri: NbdUri) -> Engine<NbdDriver> {
    let shard = Shard::new(options).unwrap();
    let driver = NbdDriver::new(connect(uri), shard.frames()).unwrap();
    Engine::new(shard, driver)
}

/// Return the same, but what the server was asked is kept for that long while it is away.
fn of_ram_within(options: Options, uri: NbdUri, grace: Duration) -> Engine<NbdDriver> {
    let shard = Shard::new(options).unwrap();
    let driver = NbdDriver::new(connect(uri).with_grace(grace), shard.frames()).unwrap();
    Engine::new(shard, driver)
}

/// Return an engine of RAM and a flash file.
fn of_flash<F: Driver>(
    folder: &Path,
    uri: NbdUri,
    driver: impl Fn(&Arc<Frames>, DeviceFile) -> F,
) -> Engine<SplitDriver<F, NbdDriver>> {
    let shard = Shard::new(options("lru-exclusive", 60)).unwrap();
    let path = folder.join("flash");
    File::create(&path).unwrap().set_len(shard.flash_bytes() as u64).unwrap();
    let flash = driver(shard.frames(), DeviceFile::open(&path, Caching::Direct).unwrap());
    let backing = NbdDriver::new(connect(uri), shard.frames()).unwrap();
    Engine::new(shard, SplitDriver::new(flash, backing).unwrap())
}

fn threads(frames: &Arc<Frames>, flash: DeviceFile) -> ThreadDriver {
    ThreadDriver::of_flash(frames, flash, 2).unwrap()
}

/// Return an operation on frames from `first` on.
fn operation(
    pool: &Frames,
    id: u32,
    kind: OperationKind,
    page: usize,
    pages: usize,
    first: usize,
) -> Operation {
    let frame = |frame| FrameId(u32::try_from(frame).unwrap());
    let parts = OperationParts {
        id: OperationId(id),
        device: Device::Backing,
        kind,
        offset_bytes: page as u64 * PAGE,
        length_bytes: pages as u64 * PAGE,
        frames: (first..first + pages).map(frame).collect(),
        copies: thermocline_engine::Copies::Both,
        is_final: false,
    };
    // SAFETY: no shard has these frames, and a test starts one operation at a time on each.
    unsafe { Operation::new(parts, pool) }
}

/// Carry out operations, all at once, and return their results in the order of their numbers.
fn perform(
    driver: &mut NbdDriver,
    operations: Vec<Operation>,
) -> Vec<Result<(), std::io::ErrorKind>> {
    let count = operations.len();
    for operation in operations {
        driver.start(operation);
    }
    let mut done = vec![];
    while done.len() < count {
        driver.wait(&mut done);
    }
    done.sort_by_key(|(operation, _)| operation.id);
    done.into_iter().map(|(_, result)| result.map_err(|error| error.0)).collect()
}

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    (0..length).map(|_| random.bits().to_le_bytes()[0]).collect()
}

/// Check that the bytes are right with every server.
fn check_operations(uri: NbdUri, keeps_discarded: bool) {
    let frames = Frames::new(1024, 4096);
    let mut driver = NbdDriver::new(connect(uri), &frames).unwrap();
    let mut model = bytes(7, BYTES);
    let writes: Vec<Operation> = (0..10_u32)
        .map(|id| {
            operation(&frames, id, OperationKind::Write, id as usize * 40, 40, id as usize * 40)
        })
        .collect();
    for (write, bytes) in writes.iter().zip(model.chunks(40 << 12)) {
        // SAFETY: nothing is in flight.
        unsafe { write.scatter(&frames, 0, bytes) };
    }
    assert_eq!(perform(&mut driver, writes), [Ok(()); 10]);
    let zeroes =
        (0..64).map(|frame| operation(&frames, 0, OperationKind::Read, frame, 1, 1000 - frame));
    for zero in zeroes {
        // SAFETY: nothing is in flight.
        unsafe { zero.scatter(&frames, 0, &[0; 4096]) };
    }
    let blanks = vec![
        operation(&frames, 0, OperationKind::Zero, 3, 50, 940),
        operation(&frames, 1, OperationKind::Discard, 100, 30, 940),
        operation(&frames, 2, OperationKind::Sync, 0, 0, 0),
    ];
    assert_eq!(perform(&mut driver, blanks), [Ok(()); 3]);
    model[3 << 12..53 << 12].fill(0);
    let reads = || -> Vec<Operation> {
        let read = |id: u32| {
            let page = id as usize * 40;
            operation(&frames, id, OperationKind::Read, page, 40, 400 + page)
        };
        (0..10).map(read).collect()
    };
    assert_eq!(perform(&mut driver, reads()), [Ok(()); 10]);
    let mut found = vec![];
    for read in reads() {
        // SAFETY: nothing is in flight.
        unsafe { read.gather(&frames, 0..read.length_bytes, &mut found) };
    }
    if !keeps_discarded {
        model[100 << 12..130 << 12].fill(0);
    }
    assert!(found == model);
}

#[test]
fn operations_become_requests_that_the_server_takes() {
    for (minimum_bytes, maximum_bytes) in
        [(1, 32 << 20), (4096, 8192), (512, 70_000), (1, u32::MAX)]
    {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(BYTES);
        let block_sizes = BlockSizes { minimum_bytes, preferred_bytes: 4096, maximum_bytes };
        let face = Face { block_sizes, ..Face::default() };
        let running = Running::start(&disk, folder.path(), face);
        check_operations(running.uri(), false);
        let requests = disk.lock().unwrap().requests;
        // As few as the longest request allows; this server cuts them at multiples of 256 KiB itself.
        let longest = u64::from(maximum_bytes - maximum_bytes % minimum_bytes).min(160 << 10);
        let least = 10 * (160_u64 << 10).div_ceil(longest);
        assert!((least..=least + 10).contains(&requests[0]), "{requests:?} of {maximum_bytes}");
        assert!(requests[1] >= least && requests[3] == 1, "{requests:?}");
        assert!(requests[4] > 0 && requests[6] > 0, "{requests:?}");
    }
}

#[test]
fn what_a_server_does_not_offer_is_done_otherwise_or_not_at_all() {
    for (flags, keeps) in [
        (flag::SEND_FLUSH, true),
        (flag::SEND_FLUSH | flag::SEND_TRIM, false),
        (flag::SEND_FUA | flag::SEND_WRITE_ZEROES, true),
        (0, true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(BYTES);
        let running = Running::start(&disk, folder.path(), Face { flags, ..Face::default() });
        check_operations(running.uri(), keeps);
        let requests = disk.lock().unwrap().requests;
        assert_eq!(requests[3] > 0, flags & flag::SEND_FLUSH != 0);
        assert_eq!(requests[4] > 0, flags & flag::SEND_TRIM != 0);
        assert_eq!(requests[6] > 0, flags & flag::SEND_WRITE_ZEROES != 0);
    }
}

#[test]
fn servers_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = NbdBacking::connect(volatile::uri(folder.path()), Access::ReadWrite).unwrap_err();
    assert!(matches!(error, BackingError::Connect { .. }), "{error}");
    let disk = disk(BYTES);
    let face = Face { flags: flag::READ_ONLY, ..Face::default() };
    let running = Running::start(&disk, folder.path(), face);
    let error = NbdBacking::connect(running.uri(), Access::ReadWrite).unwrap_err();
    assert!(error.to_string().contains("write_mode"), "{error}");
    // An engine that does not write reads it.
    let read_only = Options { write_mode: WriteMode::ReadOnly, ..options("lru", 0) };
    let shard = Shard::new(read_only).unwrap();
    let backing = NbdBacking::connect(running.uri(), Access::ReadOnly).unwrap();
    assert_eq!(backing.size_bytes(), BYTES as u64);
    let mut driver = NbdDriver::new(backing, shard.frames()).unwrap();
    assert_eq!(
        perform(&mut driver, vec![operation(shard.frames(), 0, OperationKind::Read, 0, 1, 0)]),
        [Ok(())]
    );
    let mut unknown = running.uri();
    unknown.export = "other".into();
    let error = NbdBacking::connect(unknown, Access::ReadOnly).unwrap_err();
    assert!(matches!(error, BackingError::Refused { .. }), "{error}");
    drop(running);
    let block_sizes = BlockSizes { minimum_bytes: 8192, ..BlockSizes::default() };
    let running = Running::start(&disk, folder.path(), Face { block_sizes, ..Face::default() });
    let error = NbdDriver::new(connect(running.uri()), shard.frames()).unwrap_err();
    assert!(error.to_string().contains("page_size"), "{error}");
}

/// Wait until the server is there again.
fn wait_for(driver: &mut NbdDriver, is_connected: bool) {
    let start = Instant::now();
    while driver.is_connected() != is_connected {
        assert!(start.elapsed() < Duration::from_secs(20));
        driver.poll(&mut vec![]);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_sync_does_not_vouch_for_what_a_server_took_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(BYTES);
    let running = Running::start(&disk, folder.path(), Face::default());
    let frames = Frames::new(4, 4096);
    let mut driver = NbdDriver::new(connect(running.uri()), &frames).unwrap();
    let write = || operation(&frames, 0, OperationKind::Write, 0, 1, 0);
    let sync = || operation(&frames, 0, OperationKind::Sync, 0, 0, 0);
    assert_eq!(perform(&mut driver, vec![write()]), [Ok(())]);
    running.kill();
    wait_for(&mut driver, false);
    let gone = std::io::ErrorKind::NotConnected;
    assert_eq!(perform(&mut driver, vec![write()]), [Err(gone)]);
    let _running = Running::start(&disk, folder.path(), Face::default());
    wait_for(&mut driver, true);
    let lost = std::io::ErrorKind::ConnectionReset;
    assert_eq!(perform(&mut driver, vec![sync()]), [Err(lost)]);
    assert_eq!(perform(&mut driver, vec![sync()]), [Ok(())]);
}

#[test]
fn another_size_is_not_taken_for_the_same_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (first, other) = (disk(BYTES), disk(2 * BYTES));
    let running = Running::start(&first, folder.path(), Face::default());
    let mut driver = NbdDriver::new(connect(running.uri()), &Frames::new(4, 4096)).unwrap();
    running.kill();
    wait_for(&mut driver, false);
    let running = Running::start(&other, folder.path(), Face::default());
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        driver.poll(&mut vec![]);
        assert!(!driver.is_connected());
    }
    drop(running);
    let _running = Running::start(&first, folder.path(), Face::default());
    wait_for(&mut driver, true);
}

/// Load on a server that is killed and comes back, several times.
fn check_volatile<D: Driver>(
    mut engine: Engine<D>,
    seed: u64,
    disk: &volatile::Shared,
    start: impl Fn() -> Running,
    mut running: Running,
) -> [u64; 3] {
    let mut load = Load::new(PAGES, Loss::Unflushed, seed);
    for round in 0..6 {
        load.run(&mut engine, Duration::from_millis(150 + 20 * round));
        running.kill();
        if round % 2 == 0 {
            load.run(&mut engine, Duration::from_millis(60));
        }
        running = start();
    }
    load.finish(&mut engine);
    assert!(load.answers > 200, "{} answers", load.answers);
    load.check_disk(&disk.lock().unwrap().durable);
    drop(engine);
    load.failures
}

#[test]
fn what_was_flushed_survives_a_server_that_loses_its_cache() {
    let mut failures = [0; 3];
    let mut add = |more: [u64; 3]| {
        failures = std::array::from_fn(|kind| failures[kind] + more[kind]);
    };
    for seed in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(BYTES);
        let start = || Running::start(&disk, folder.path(), Face::default());
        let running = start();
        let engine = of_ram(options("lru", 0), running.uri());
        add(check_volatile(engine, seed, &disk, start, running));
        let start = || Running::start(&disk, folder.path(), Face::default());
        disk.lock().unwrap().now.fill(0);
        disk.lock().unwrap().durable.fill(0);
        let running = start();
        let engine = of_flash(folder.path(), running.uri(), threads);
        add(check_volatile(engine, seed, &disk, start, running));
    }
    assert!(failures[0] > 0 && failures[2] > 0, "{failures:?}: some reads and flushes fail");
}

/// Load on nbdkit with these filters; it is killed and started again so often.
fn check_nbdkit<D: Driver>(
    words: &[&str],
    kills: u32,
    engine: impl Fn(&Path, NbdUri) -> Engine<D>,
) -> Option<Load> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    File::create(&path).unwrap().set_len(BYTES as u64).unwrap();
    let file = format!("file={}", path.display());
    // Parameters stand behind the plugin.
    let place = words.iter().position(|word| !word.starts_with('-')).unwrap_or(words.len());
    let words = [&words[..place], &["file", &file], &words[place..]].concat();
    let mut nbdkit = Nbdkit::start(folder.path(), &words)?;
    let mut engine = engine(folder.path(), nbdkit.uri());
    let mut load = Load::new(PAGES, Loss::Nothing, 42);
    load.run(&mut engine, Duration::from_millis(500));
    for _ in 0..kills {
        drop(nbdkit);
        load.run(&mut engine, Duration::from_millis(50));
        nbdkit = Nbdkit::start(folder.path(), &words)?;
        load.run(&mut engine, Duration::from_millis(400));
    }
    load.finish(&mut engine);
    assert!(load.answers > 500, "{} answers", load.answers);
    drop(engine);
    load.check_disk(&std::fs::read(path).unwrap());
    Some(load)
}

#[test]
fn nbdkit_loses_nothing_that_was_acknowledged_however_often_it_is_killed() {
    let engine = |folder: &Path, uri| of_flash(folder, uri, threads);
    if let Some(load) = check_nbdkit(&[], 5, engine) {
        assert!(load.failures[0] > 0, "reads fail while it is gone");
    }
    let without_flash = |_: &Path, uri| of_ram(options("lru", 0), uri);
    check_nbdkit(&[], 5, without_flash);
    let around = Options { write_mode: WriteMode::Through, ..options("lru", 0) };
    let through = |_: &Path, uri| of_ram(around.clone(), uri);
    if let Some(load) = check_nbdkit(&[], 5, through) {
        assert!(load.failures[1] > 0, "writes through fail while it is gone");
    }
}

#[test]
fn slow_faulty_and_choosy_servers_are_served() {
    let engine = |folder: &Path, uri| of_flash(folder, uri, threads);
    let slow = ["--filter=delay", "rdelay=2ms", "wdelay=3ms"];
    check_nbdkit(&slow, 1, engine);
    let faulty = ["--filter=error", "error=EIO", "error-rate=10%"];
    if let Some(load) = check_nbdkit(&faulty, 0, engine) {
        assert!(load.failures[0] > 0, "{:?}", load.failures);
    }
    let choosy = [
        "--filter=blocksize-policy",
        "blocksize-minimum=4096",
        "blocksize-maximum=8192",
        "blocksize-error-policy=error",
    ];
    let alone: [&[&str]; 4] = [&slow, &choosy, &["--filter=nozero"], &["--filter=noparallel"]];
    for words in alone {
        if let Some(load) = check_nbdkit(words, 0, engine) {
            assert_eq!(load.failures, [0; 3], "{words:?}");
        }
    }
}

#[test]
fn a_ring_and_a_server_are_waited_for_together() {
    let folder = tempfile::tempdir().unwrap();
    let Some(nbdkit) =
        Nbdkit::start(folder.path(), &["--filter=delay", "memory", "4M", "rdelay=1ms"])
    else {
        return;
    };
    let frames = Frames::new(1, 4096);
    let path = folder.path().join("probe");
    File::create(&path).unwrap().set_len(4096).unwrap();
    let probe = DeviceFile::open(&path, Caching::Direct).unwrap();
    if let Err(error) = UringDriver::of_flash(&frames, probe) {
        eprintln!("skipped: this system has no io_uring: {error}");
        return;
    }
    let mut engine = of_flash(folder.path(), nbdkit.uri(), |frames, flash| {
        UringDriver::of_flash(frames, flash).unwrap()
    });
    // Each wait ends with a completion, or it would last for ever.
    for page in 0..200 {
        engine.submit(Request::read(page, page * PAGE, PAGE), &[]).unwrap();
        engine.wait_until_idle();
        let reply = engine.next_reply().unwrap();
        assert_eq!(reply.result, Ok(()));
        engine.release(reply);
    }
    assert!(engine.shard().counters().flash.writes > 0);
}

#[test]
fn a_cache_at_rest_is_brought_home_over_nbd() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(BYTES);
    let running = Running::start(&disk, folder.path(), Face::default());
    let mut storage = NbdStorage::new(connect(running.uri()), 8192).unwrap();
    let given = bytes(3, 40_960);
    storage.write_at(81_920, &given).unwrap();
    storage.sync().unwrap();
    assert_eq!(storage.size_bytes().unwrap(), BYTES as u64);
    assert!(disk.lock().unwrap().durable[81_920..][..40_960] == given);
    let mut found = vec![0; 40_960];
    storage.read_at(81_920, &mut found).unwrap();
    assert!(found == given);
    running.kill();
    assert!(storage.read_at(0, &mut found).is_err());
}

/// Return a driver that waits for answers for a short time only.
fn impatient(uri: NbdUri, frames: &Arc<Frames>) -> NbdDriver {
    let backing = connect(uri).with_timeout(Duration::from_millis(200));
    NbdDriver::new(backing, frames).unwrap()
}

#[test]
fn a_silent_server_fails_what_it_was_asked_and_is_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(BYTES);
    let running = Running::start(&disk, folder.path(), Face::default());
    let frames = Frames::new(64, 4096);
    let mut driver = impatient(running.uri(), &frames);
    assert_eq!(
        perform(&mut driver, vec![operation(&frames, 0, OperationKind::Write, 0, 1, 0)]),
        [Ok(())]
    );
    disk.lock().unwrap().is_silent = true;
    let start = Instant::now();
    let asked = vec![
        operation(&frames, 0, OperationKind::Read, 1, 1, 1),
        operation(&frames, 1, OperationKind::Write, 2, 1, 2),
        operation(&frames, 2, OperationKind::Sync, 0, 0, 0),
    ];
    let results = perform(&mut driver, asked);
    assert!(results.iter().all(Result::is_err), "{results:?}");
    assert!(start.elapsed() >= Duration::from_millis(200), "{:?}", start.elapsed());
    disk.lock().unwrap().is_silent = false;
    wait_for(&mut driver, true);
    let asked = vec![operation(&frames, 0, OperationKind::Sync, 0, 0, 0)];
    assert!(perform(&mut driver, asked)[0].is_ok(), "the failed sync covered the write");
    assert_eq!(
        perform(&mut driver, vec![operation(&frames, 0, OperationKind::Read, 0, 1, 3)]),
        [Ok(())]
    );
}

#[test]
fn a_server_that_hangs_behind_a_unix_socket_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let Some(nbdkit) = Nbdkit::start(folder.path(), &["memory", "1638400"]) else { return };
    let shard = Shard::new(options("lru-exclusive", 60)).unwrap();
    let path = folder.path().join("flash");
    File::create(&path).unwrap().set_len(shard.flash_bytes() as u64).unwrap();
    let flash = threads(shard.frames(), DeviceFile::open(&path, Caching::Direct).unwrap());
    let backing = impatient(nbdkit.uri(), shard.frames());
    let mut engine = Engine::new(shard, SplitDriver::new(flash, backing).unwrap());
    let mut read = |tag: u64| {
        engine.submit(Request::read(tag, tag * PAGE, PAGE), &[]).unwrap();
        engine.wait_until_idle();
        let reply = engine.next_reply().unwrap();
        let result = reply.result;
        engine.release(reply);
        result
    };
    assert_eq!(read(1), Ok(()));
    nbdkit.stop();
    assert_eq!(read(2), Err(RequestError::Io));
    nbdkit.go_on();
    let start = Instant::now();
    let mut tag = 3;
    while read(tag).is_err() {
        assert!(start.elapsed() < Duration::from_mins(1), "it does not come back");
        std::thread::yield_now();
        tag = 3 + (tag + 1) % 300;
    }
}

#[test]
fn a_server_that_is_away_for_a_moment_costs_no_operation() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(BYTES);
    let running = Running::start(&disk, folder.path(), Face::default());
    let frames = Frames::new(64, 4096);
    let backing = connect(running.uri()).with_grace(Duration::from_mins(1));
    let mut driver = NbdDriver::new(backing, &frames).unwrap();
    let write = |id, page| {
        let write = operation(&frames, id, OperationKind::Write, page, 1, page);
        // SAFETY: the driver has not got the operation yet.
        unsafe { write.scatter(&frames, 0, &[u8::try_from(page).unwrap(); 4096]) };
        write
    };
    assert_eq!(perform(&mut driver, vec![write(0, 1)]), [Ok(())]);
    let mut done = vec![];
    disk.lock().unwrap().is_silent = true;
    // Sent, and never answered.
    driver.start(write(0, 2));
    driver.start(operation(&frames, 1, OperationKind::Read, 3, 1, 3));
    driver.start(operation(&frames, 2, OperationKind::Sync, 0, 0, 0));
    driver.poll(&mut done);
    running.kill();
    while driver.is_connected() {
        driver.wait(&mut done);
    }
    assert_eq!(
        done.iter().map(|(operation, _)| operation.id.0).collect::<Vec<_>>(),
        [2],
        "the sync fails at once"
    );
    assert!(done.pop().unwrap().1.is_err());
    // Asked for while nobody is there.
    driver.start(write(3, 4));
    driver.poll(&mut done);
    assert_eq!(done, []);
    disk.lock().unwrap().is_silent = false;
    let running = Running::start(&disk, folder.path(), Face::default());
    while done.len() < 3 {
        driver.wait(&mut done);
    }
    assert_eq!(done.iter().filter(|(_, result)| result.is_err()).count(), 0, "{done:?}");
    {
        let disk = disk.lock().unwrap();
        assert_eq!((disk.now[2 << 12], disk.now[4 << 12]), (2, 4));
    }
    drop(running);
}

#[test]
fn a_server_that_stays_away_fails_what_it_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(BYTES);
    let running = Running::start(&disk, folder.path(), Face::default());
    let frames = Frames::new(64, 4096);
    let backing = connect(running.uri()).with_grace(Duration::from_millis(300));
    let mut driver = NbdDriver::new(backing, &frames).unwrap();
    disk.lock().unwrap().is_silent = true;
    let start = Instant::now();
    driver.start(operation(&frames, 0, OperationKind::Read, 3, 1, 3));
    driver.poll(&mut vec![]);
    running.kill();
    let mut done = vec![];
    while done.is_empty() {
        driver.wait(&mut done);
    }
    assert!(done[0].1.is_err() && start.elapsed() >= Duration::from_millis(300));
    // From now on nothing is kept.
    driver.start(operation(&frames, 1, OperationKind::Write, 3, 1, 3));
    done.clear();
    driver.poll(&mut done);
    assert!(done[0].1.is_err(), "{done:?}");
}
