//! The engine behind the server, with devices in memory: what clients see of it.

use std::path::Path;

use thermocline_engine::driver::Driver;
use thermocline_engine::driver::files::{Caching, DeviceFile};
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::driver::threads::ThreadDriver;
#[cfg(target_os = "linux")]
use thermocline_engine::driver::uring::UringDriver;
use thermocline_engine::{Engine, Options, PolicyOptions, Shard, WriteMode};
use thermocline_nbd::cached::Cached;
use thermocline_nbd::protocol::{Command, ErrorCode};
use thermocline_nbd::server::{Export, Settings};

use super::Running;
use super::foreign_clients::run;

/// 2048 pages on disk, 64 in RAM, 256 on flash.
fn shard(policy: &str, change: impl FnOnce(&mut Options)) -> Shard {
    let mut options = Options::new(2048, 64, 256, PolicyOptions::named(policy).unwrap());
    change(&mut options);
    Shard::new(options).unwrap()
}

fn serve<D: Driver + Send + 'static>(shard: Shard, driver: D) -> Running {
    let service = Cached::new(Engine::new(shard, driver));
    let info = service.info("", "a cache");
    Running::serve(vec![Export { info, service }], Settings::default(), false)
}

/// A cache over devices in memory.
fn start(policy: &str, change: impl FnOnce(&mut Options)) -> Running {
    let shard = shard(policy, change);
    let driver = MemoryDriver::new(shard.frames(), shard.flash_bytes(), 2048 << 12);
    serve(shard, driver)
}

/// Random writes and reads of many sizes, checked by fio; nothing if it is not installed.
fn verify(running: &Running) {
    let folder = tempfile::tempdir().unwrap();
    let state = format!("--aux-path={}", folder.path().display());
    let uri = format!("--uri={}", running.uri());
    let job = ["--name=verify", "--ioengine=nbd", &uri, &state, "--rw=randrw"];
    let sizes = ["--bsrange=512-128k", "--bs_unaligned=1", "--size=8M", "--io_size=24M"];
    let checks = ["--iodepth=16", "--verify=crc32c", "--verify_fatal=1", "--fsync=16"];
    run("fio", &[&job[..], &sizes, &checks].concat());
}

/// Empty files for flash and disk, opened.
fn files(folder: &Path, shard: &Shard) -> (Option<DeviceFile>, DeviceFile) {
    let open = |name: &str, size_bytes: u64| {
        let path = folder.join(name);
        std::fs::File::create(&path).unwrap().set_len(size_bytes).unwrap();
        DeviceFile::open(&path, Caching::Direct).unwrap()
    };
    (Some(open("flash", shard.flash_bytes() as u64)), open("disk", 2048 << 12))
}

#[test]
fn fio_verifies_through_a_cache_over_files() {
    let folder = tempfile::tempdir().unwrap();
    let shard = shard("hat", |_| ());
    let (flash, disk) = files(folder.path(), &shard);
    let driver = ThreadDriver::new(shard.frames(), flash, disk, 4).unwrap();
    verify(&serve(shard, driver));
}

#[cfg(target_os = "linux")]
#[test]
fn sockets_and_a_ring_are_waited_for_together() {
    let folder = tempfile::tempdir().unwrap();
    let shard = shard("hat", |_| ());
    let (flash, disk) = files(folder.path(), &shard);
    match UringDriver::new(shard.frames(), flash, disk) {
        Ok(driver) => verify(&serve(shard, driver)),
        Err(error) => eprintln!("skipped: this system has no io_uring: {error}"),
    }
}

#[cfg(target_os = "linux")]
#[test]
fn fio_verifies_through_a_cache_of_another_server() {
    use thermocline_engine::driver::split::SplitDriver;
    use thermocline_nbd::backing::{Access, NbdBacking, NbdDriver};

    for delay_drives in [0, 3] {
        let memory = super::memory::Memory::new(2048 << 12).delayed(delay_drives);
        let backing = Running::start(memory, Settings::default());
        let folder = tempfile::tempdir().unwrap();
        let shard = shard("hat", |_| ());
        let (flash, _) = files(folder.path(), &shard);
        let flash = ThreadDriver::of_flash(shard.frames(), flash.unwrap(), 4).unwrap();
        let uri = backing.uri().parse().unwrap();
        let disk = NbdBacking::connect(uri, Access::ReadWrite).unwrap();
        let disk = NbdDriver::new(disk, shard.frames()).unwrap();
        verify(&serve(shard, SplitDriver::new(flash, disk).unwrap()));
    }
}

#[test]
fn fio_verifies_through_the_cache() {
    for policy in ["lru-inclusive", "hat", "face-gsc"] {
        verify(&start(policy, |_| ()));
    }
}

#[test]
fn requests_longer_than_ram_are_served() {
    let running = start("hat", |_| ());
    let mut client = running.client();
    let bytes: Vec<u8> = (0..7_u32 << 20).map(|place| (place >> 7).to_le_bytes()[0]).collect();
    client.write(12_345, &bytes).unwrap();
    client.call(Command::Flush, 0, 0, &[]).unwrap();
    assert!(client.read(12_345, bytes.len()).unwrap() == bytes);
    client.call(Command::WriteZeroes, 0, 8 << 20, &[]).unwrap();
    assert!(client.read(0, 8 << 20).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn extents_tell_the_tiers() {
    let running = start("lru-inclusive", |_| ());
    let mut client = running.client();
    client.read(8 * 4096, 4096).unwrap();
    let statuses = client.call(Command::BlockStatus, 4096, 100 * 4096, &[]).unwrap();
    let numbers: Vec<_> =
        statuses.chunks(4).map(|it| u32::from_be_bytes(it.try_into().unwrap())).collect();
    assert_eq!(numbers, [7 * 4096, 0, 4096, 1, 92 * 4096, 0]);
}

#[test]
fn a_read_only_engine_says_so() {
    let running = start("hat", |options| options.write_mode = WriteMode::ReadOnly);
    let mut client = running.client();
    assert_ne!(client.agreed.flags & 2, 0);
    assert_eq!(client.write(0, b"x"), Err(ErrorCode::NotPermitted));
    assert_eq!(client.read(0, 1), Ok(vec![0]));
}
