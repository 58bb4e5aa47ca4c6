//! The engine behind the server, with devices in memory: what clients see of it.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use thermocline_core::Nanos;
use thermocline_core::random::SplitMix64;
use thermocline_engine::driver::files::{Caching, DeviceFile};
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::driver::threads::ThreadDriver;
#[cfg(target_os = "linux")]
use thermocline_engine::driver::uring::UringDriver;
use thermocline_engine::driver::{Allocation, Completion, Driver};
use thermocline_engine::{
    Engine, Flash, Layout, Operation, Options, PolicyOptions, Shard, Storage, Uuid, WriteMode,
};
use thermocline_nbd::cached::Cached;
use thermocline_nbd::protocol::{Command, Context, ErrorCode};
use thermocline_nbd::server::{Export, Settings};
use thermocline_nbd::service::{Piece, Reply, Service as _, Tag};

use super::Running;
use super::client::Client;
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

/// Return a cache over devices in memory.
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
    for delay_drives in [0, 3] {
        let memory = super::memory::Memory::new(2048 << 12).delayed(delay_drives);
        let backing = Running::start(memory, Settings::default());
        let folder = tempfile::tempdir().unwrap();
        verify(&cache_of(&backing, folder.path()));
    }
}

/// Return a cache of another server's export.
#[cfg(target_os = "linux")]
fn cache_of(backing: &Running, folder: &Path) -> Running {
    use thermocline_engine::driver::split::SplitDriver;
    use thermocline_nbd::backing::{Access, NbdBacking, NbdDriver};

    let shard = shard("hat", |_| ());
    let (flash, _) = files(folder, &shard);
    let flash = ThreadDriver::of_flash(shard.frames(), flash.unwrap(), 4).unwrap();
    let uri = backing.uri().parse().unwrap();
    let disk = NbdBacking::connect(uri, Access::ReadWrite).unwrap();
    let disk = NbdDriver::new(disk, shard.frames()).unwrap();
    serve(shard, SplitDriver::new(flash, disk).unwrap())
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
    client.write(50 * 4096 + 7, b"x").unwrap();
    let found = extents(&mut client, 4096, 100 * 4096);
    let page = 4096;
    assert_eq!(found, [(7 * page, 0), (page, 1), (41 * page, 0), (page, 5), (50 * page, 0)]);
}

/// Extents in the context that the client chose: lengths and statuses.
fn extents(client: &mut Client, offset_bytes: u64, length_bytes: usize) -> Vec<(u64, u32)> {
    let statuses = client.call(Command::BlockStatus, offset_bytes, length_bytes, &[]).unwrap();
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    statuses.chunks(8).map(|it| (number(&it[..4]).into(), number(&it[4..]))).collect()
}

/// Check that each reported hole reads as zeroes, and that holes are reported.
fn check_holes(running: &Running, seed: u64) {
    const BYTES: u64 = 2048 << 12;
    let mut random = SplitMix64::new(seed);
    let mut below = move |bound: u64| random.bits() % bound;
    let mut client =
        Client::connect_for(&running.socket(), "", Context::Allocation.name()).unwrap();
    let all = usize::try_from(BYTES).unwrap();
    assert_eq!(extents(&mut client, 0, all), [(BYTES, 3)], "an empty disk is a hole");
    let (mut holes, mut pieces) = (0, 0);
    for round in 0..600 {
        let (offset, length) = (below(BYTES - (64 << 10)), 1 + below(40 << 10));
        let length = usize::try_from(length).unwrap();
        match below(10) {
            0 => drop(client.call(Command::Flush, 0, 0, &[]).unwrap()),
            1 => drop(client.call(Command::Trim, offset, length, &[]).unwrap()),
            2 => drop(client.call(Command::WriteZeroes, offset, length, &[]).unwrap()),
            3 => drop(client.read(offset, length).unwrap()),
            _ => client.write(offset, &vec![1; length]).unwrap(),
        }
        if round % 6 > 0 {
            continue;
        }
        let mut at = below(BYTES);
        let range = usize::try_from((BYTES - at).min(1 << 20)).unwrap();
        for (length, status) in extents(&mut client, at, range) {
            pieces += 1;
            if status != 0 {
                assert_eq!(status, 3);
                holes += 1;
                let bytes = client.read(at, usize::try_from(length).unwrap()).unwrap();
                assert!(bytes.iter().all(|&byte| byte == 0), "{length} bytes at {at}: no hole");
            }
            at += length;
        }
    }
    assert!(holes > 100 && pieces > holes, "{holes} holes of {pieces} pieces");
    // Even while the newest bytes are on flash and on their way, nothing written is a hole.
    client.write(1 << 20, &vec![7; 1 << 16]).unwrap();
    assert_eq!(extents(&mut client, 1 << 20, 1 << 16), [(1 << 16, 0)]);
}

#[test]
fn holes_of_the_disk_are_told_but_where_the_cache_is_newer() {
    let folder = tempfile::tempdir().unwrap();
    let shard_of = || shard("hat", |_| ());
    let shard = shard_of();
    let (flash, disk) = files(folder.path(), &shard);
    let driver = ThreadDriver::new(shard.frames(), flash, disk, 4).unwrap();
    check_holes(&serve(shard, driver), 1);
    #[cfg(target_os = "linux")]
    {
        let shard = shard_of();
        let (flash, disk) = files(folder.path(), &shard);
        match UringDriver::new(shard.frames(), flash, disk) {
            Ok(driver) => check_holes(&serve(shard, driver), 2),
            Err(error) => eprintln!("skipped: this system has no io_uring: {error}"),
        }
        for delay_drives in [0, 3] {
            let memory = super::memory::Memory::new(2048 << 12).delayed(delay_drives);
            let backing = Running::start(memory, Settings::default());
            check_holes(&cache_of(&backing, folder.path()), 3);
        }
    }
    // Devices that cannot tell have none.
    let running = start("hat", |_| ());
    let mut client =
        Client::connect_for(&running.socket(), "", Context::Allocation.name()).unwrap();
    assert_eq!(extents(&mut client, 4096, 1 << 20), [(1 << 20, 0)]);
}

#[test]
fn foreign_clients_copy_what_is_no_hole() {
    let folder = tempfile::tempdir().unwrap();
    let shard = shard("lru-inclusive", |_| ());
    let (flash, disk) = files(folder.path(), &shard);
    let driver = ThreadDriver::new(shard.frames(), flash, disk, 4).unwrap();
    let running = serve(shard, driver);
    let bytes: Vec<u8> = (0..300_000_u32).map(|place| place.to_le_bytes()[1] | 1).collect();
    running.client().write(5_000_001, &bytes).unwrap();
    let copy = folder.path().join("copy").display().to_string();
    if run("nbdcopy", &[&running.uri(), &copy]).is_some() {
        let copy = std::fs::read(copy).unwrap();
        assert!(copy[5_000_001..][..300_000] == bytes);
        assert!(copy[..5_000_001].iter().chain(&copy[5_300_001..]).all(|&byte| byte == 0));
        let map = run("nbdinfo", &["--map", "--totals", &running.uri()]).unwrap();
        assert!(map.contains("hole,zero") && map.contains("data"), "{map}");
    }
}

#[test]
fn a_read_only_engine_says_so() {
    let running = start("hat", |options| options.write_mode = WriteMode::ReadOnly);
    let mut client = running.client();
    assert_ne!(client.agreed.flags & 2, 0);
    assert_eq!(client.write(0, b"x"), Err(ErrorCode::NotPermitted));
    assert_eq!(client.read(0, 1), Ok(vec![0]));
}

/// Devices that hang, and a disk without data.
#[derive(Default)]
struct Empty(Vec<(u64, Vec<Allocation>)>);

impl Driver for Empty {
    fn start(&mut self, _operation: Operation) {}

    fn poll(&mut self, _done: &mut Vec<Completion>) {}

    fn wait(&mut self, _done: &mut Vec<Completion>) {}

    fn ask_allocation(&mut self, tag: u64, range: Range<u64>) -> bool {
        let length_bytes = range.end - range.start;
        self.0.push((tag, vec![Allocation { length_bytes, is_hole: true, is_zero: true }]));
        true
    }

    fn next_allocation(&mut self) -> Option<(u64, Vec<Allocation>)> {
        self.0.pop()
    }
}

#[test]
fn a_large_disk_is_mapped_in_few_requests() {
    const BYTES: u64 = 64 << 40;
    let shard = shard("lru-inclusive", |options| options.backing_pages = BYTES >> 12);
    let running = serve(shard, Empty::default());
    let mut writer = running.client();
    let dirty: [u64; 3] = [5 << 30, (40 << 40) + 4096, BYTES - 4096];
    for offset in dirty {
        writer.write(offset, &[7; 4096]).unwrap();
    }
    for (context, others) in [(Context::Allocation, 3), (Context::Tier, 0)] {
        let mut client = Client::connect_for(&running.socket(), "", context.name()).unwrap();
        let (mut at, mut requests, mut found) = (0, 0, vec![]);
        while at < BYTES {
            let length = usize::try_from((BYTES - at).min((4 << 30) - 4096)).unwrap();
            requests += 1;
            for (length, status) in extents(&mut client, at, length) {
                if status != others {
                    found.push((at, length));
                }
                at += length;
            }
        }
        assert_eq!(found, dirty.map(|offset| (offset, 4096)));
        assert!(requests < 17_000, "{requests}");
    }
}

/// Devices that take operations and never answer.
struct Hung;

impl Driver for Hung {
    fn start(&mut self, _operation: Operation) {}

    fn poll(&mut self, _done: &mut Vec<Completion>) {}

    fn wait(&mut self, _done: &mut Vec<Completion>) {}
}

#[test]
fn requests_beyond_the_room_there_is_end_too_when_devices_hang() {
    let shard = shard("lru-inclusive", |options| options.backing_timeout = Nanos(200_000_000));
    let running = serve(shard, Hung);
    // Each of them takes more than half of the frames.
    let clients: Vec<_> = (0..4_u64)
        .map(|number| {
            let mut client = running.client();
            std::thread::spawn(move || {
                let read = client.read(number << 20, 1 << 20);
                let wrote = client.write(number << 20, &[1; 512]);
                (read.unwrap_err(), wrote.unwrap_err())
            })
        })
        .collect();
    for client in clients {
        assert_eq!(client.join().unwrap(), (ErrorCode::Io, ErrorCode::Io));
    }
}

/// A flash in memory.
struct Image(Vec<u8>);

impl Storage for Image {
    fn size_bytes(&mut self) -> std::io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        let start = usize::try_from(offset_bytes).unwrap();
        bytes.copy_from_slice(&self.0[start..start + bytes.len()]);
        Ok(())
    }

    fn write_at(&mut self, offset_bytes: u64, bytes: &[u8]) -> std::io::Result<()> {
        let start = usize::try_from(offset_bytes).unwrap();
        self.0[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn writes_wait_for_the_epoch_for_as_long_as_that_takes() {
    let timeout = Duration::from_secs(1);
    let mut options = Options::new(2048, 64, 256, PolicyOptions::named("lru").unwrap());
    options.backing_timeout = Nanos(timeout.as_nanos().try_into().unwrap());
    let layout = Layout::new(options.slots(), options.page_bytes);
    let mut image = Image(vec![0; usize::try_from(layout.flash_bytes()).unwrap()]);
    Flash::initialise(&mut image, Uuid::from_u128(1), layout, options.size_bytes()).unwrap();
    let mut flash = Flash::read(&mut image).unwrap();
    let shard = Shard::open_early(options, &flash).unwrap();
    let driver = MemoryDriver::new(shard.frames(), shard.flash_bytes(), 2048 << 12);
    let mut cached = Cached::new(Engine::new(shard, driver));
    let piece = |command, length_bytes| {
        let (offset_bytes, cooperator) = (0, None);
        Piece { command, flags: 0, offset_bytes, length_bytes, cooperator }
    };
    let answered = |tag| Some(Reply { tag: Tag(tag), outcome: Ok(()) });
    cached.submit(Tag(1), &piece(Command::Write, 4096), &[7; 4096]);
    cached.submit(Tag(2), &piece(Command::Flush, 0), &[]);
    let start = Instant::now();
    for tag in 3.. {
        cached.submit(Tag(tag), &piece(Command::Read, 4096), &[]);
        cached.drive();
        assert_eq!(cached.next_reply(), answered(tag));
        let mut bytes = vec![];
        cached.take_data(Tag(tag), &mut bytes);
        assert_eq!(bytes, [0; 4096], "the write has not happened");
        // Longer than a request may wait for a device.
        if start.elapsed() > timeout * 3 / 2 {
            break;
        }
    }
    flash.take_over(&mut image).unwrap();
    cached.engine_mut().shard_mut().epoch_has_begun(&flash);
    let mut replies = vec![];
    while replies.len() < 2 && start.elapsed() < timeout * 60 {
        cached.drive();
        replies.extend(cached.next_reply());
    }
    replies.sort_by_key(|reply| reply.tag.0);
    assert_eq!(replies, [answered(1).unwrap(), answered(2).unwrap()]);
}
