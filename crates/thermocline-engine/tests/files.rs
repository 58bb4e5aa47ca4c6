//! The same over real files, by every driver: requests against a model, a restart, a drain; by one shard,
//! and by several at once, each in a thread of its own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::cast_possible_truncation, reason = "all numbers are small")]

use std::fs::File;
use std::num::{NonZeroU16, NonZeroUsize};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use thermocline_core::Nanos;
use thermocline_core::random::SplitMix64;
use thermocline_engine::driver::Driver;
use thermocline_engine::driver::files::{Caching, DeviceFile};
use thermocline_engine::driver::joint::{JointDriver, JointFile, JointSyncs};
use thermocline_engine::driver::threads::ThreadDriver;
use thermocline_engine::driver::uring::UringDriver;
use thermocline_engine::{
    Engine, FlashError, FlashSet, Frames, Layout, Options, PolicyOptions, Request, RequestKind,
    Shard, ShardMap, Share, Spanning, Storage as _, SubmitError, Uuid,
};

const PAGES: usize = 600;
const PAGE: usize = 4096;

fn options(policy: &str) -> Options {
    Options::new(PAGES as u64, 40, 120, PolicyOptions::named(policy).unwrap())
}

fn open(folder: &Path, name: &str, caching: Caching) -> DeviceFile {
    DeviceFile::open(&folder.join(name), caching).unwrap()
}

/// A shard on its devices, and which pages of the export it serves.
struct Served<D> {
    engine: Engine<D>,
    share: Share,
    /// Every byte of the export, as the shard sees it if it had all.
    model: Vec<u8>,
}

impl<D: Driver> Served<D> {
    /// Random requests, many at a time; what is read must be what was written before. Of each request, the
    /// shard is asked for its parts: shards that are given the same seed serve the same requests.
    fn work(&mut self, seed: u64) {
        let mut random = SplitMix64::new(seed);
        let mut below = |bound: usize| (random.bits() % bound as u64) as usize;
        let mut expected: Vec<(u64, Vec<u8>)> = vec![];
        let mut tags = 0..;
        for tag in 0..3000 {
            let start = below([PAGES, 60][tag as usize % 2]) * PAGE + below(3) / 2 * 512;
            let length = [512, 4096, 4096, 20_480][below(4)].min(self.model.len() - start);
            let range = start..start + length;
            // A range is asked for once at a time, so that the order of the answers does not matter.
            self.engine.wait();
            let mut whole = match below(20) {
                0..=9 => Request::read(tag, start as u64, length as u64),
                10 => Request::flush(tag),
                11 => Request {
                    kind: RequestKind::WriteZeroes,
                    ..Request::write(tag, start as u64, length as u64)
                },
                _ => Request::write(tag, start as u64, length as u64),
            };
            whole.is_durable = below(15) == 0;
            let mut payload = vec![];
            match whole.kind {
                RequestKind::Write => {
                    payload =
                        (0..length).map(|index| (tag as usize * 31 + index / 64) as u8).collect();
                    self.model[range].copy_from_slice(&payload);
                }
                RequestKind::WriteZeroes => self.model[range].fill(0),
                RequestKind::Read | RequestKind::Flush | RequestKind::Trim | RequestKind::Cache => {
                }
            }
            let mut spanning = Spanning::<()>::new(self.share.map, whole);
            while let Some(part) = spanning.next_part() {
                if part.shard != usize::from(self.share.index) {
                    continue;
                }
                let request = Request { tag: tags.next().unwrap(), ..part.request };
                if request.kind == RequestKind::Read {
                    let start = request.offset_bytes as usize;
                    let bytes = &self.model[start..start + request.length_bytes as usize];
                    expected.push((request.tag, bytes.to_vec()));
                }
                let bytes = part.payload(&whole, &payload);
                while self.engine.submit(request, bytes) == Err(SubmitError::Full) {
                    self.engine.wait();
                    take_replies(&mut self.engine, &mut expected);
                }
                take_replies(&mut self.engine, &mut expected);
            }
        }
        self.engine.wait_until_idle();
        take_replies(&mut self.engine, &mut expected);
        assert!(expected.is_empty(), "every request is answered");
        self.engine.shard().assert_invariants();
    }

    fn flush(&mut self) {
        self.engine.submit(Request::flush(u64::MAX), &[]).unwrap();
        self.engine.wait_until_idle();
        let flushed = self.engine.next_reply().unwrap();
        assert_eq!(flushed.result, Ok(()));
        self.engine.release(flushed);
    }
}

fn take_replies<D: Driver>(engine: &mut Engine<D>, expected: &mut Vec<(u64, Vec<u8>)>) {
    while let Some(reply) = engine.next_reply() {
        assert_eq!(reply.result, Ok(()));
        if reply.kind == RequestKind::Read {
            let place = expected.iter().position(|(tag, _)| *tag == reply.tag).unwrap();
            let (_, bytes) = expected.swap_remove(place);
            let read: Vec<u8> = engine.pieces(&reply).flatten().copied().collect();
            assert!(read == bytes, "request {}", reply.tag);
        }
        engine.release(reply);
    }
}

/// Flash and backing store of a test, in files.
struct Files {
    folder: tempfile::TempDir,
    caching: Caching,
    options: Vec<Options>,
    layout: Layout,
    map: ShardMap,
}

impl Files {
    fn new(policy: &str, shards: u16, caching: Caching) -> Self {
        let map = ShardMap::with_extents(NonZeroU16::new(shards).unwrap(), 8 * PAGE as u64);
        let options = options(policy).of_shards(map).unwrap();
        let layout = Layout::new(options[0].slots(), PAGE as u32);
        let files = Self { folder: tempfile::tempdir().unwrap(), caching, options, layout, map };
        files.create("disk", (PAGES * PAGE) as u64);
        files
    }

    fn create(&self, name: &str, bytes: u64) {
        File::create(self.folder.path().join(name)).unwrap().set_len(bytes).unwrap();
    }

    /// Closed again after use: a device is open once at a time.
    fn open(&self, name: &str) -> DeviceFile {
        open(self.folder.path(), name, self.caching)
    }

    /// Return an empty flash of the shards in a new file of just the bytes that it needs.
    fn set_up(&self, name: &str, cache: u128) -> FlashSet {
        self.create(name, FlashSet::bytes(&self.layout, &self.map));
        let (cache, bytes) = (Uuid::from_u128(cache), (PAGES * PAGE) as u64);
        FlashSet::initialise(&mut self.open(name), cache, self.layout, self.map, bytes).unwrap()
    }

    fn disk(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join("disk")).unwrap()
    }

    fn shards(&self, flash: &FlashSet) -> Vec<Shard> {
        let each = self.options.iter().zip(flash.flashes());
        each.map(|(options, flash)| Shard::open(options.clone(), flash).unwrap()).collect()
    }
}

/// Lets every shard work in a thread of its own, several times with restarts, and drains them at last.
fn check<D: Driver + Send>(
    files: &Files,
    drivers: impl Fn(&[Shard], &FlashSet, &DeviceFile, &DeviceFile) -> Vec<D>,
) {
    let mut flash = files.set_up("flash", 7);
    let mut model = vec![0; PAGES * PAGE];
    for round in 0..3 {
        let shards = files.shards(&flash);
        let devices = ["flash", "disk"].map(|name| files.open(name));
        let drivers = drivers(&shards, &flash, &devices[0], &devices[1]);
        drop(devices);
        let serve = |shard: Shard, driver: D, model: Vec<u8>| {
            let share = shard.options().share;
            let engine = Engine::new(shard, driver);
            let mut served = Served { engine, share, model };
            served.work(round);
            served.flush();
            if round == 2 {
                served.engine.shard_mut().drain();
                served.engine.wait_until_idle();
                assert_eq!(served.engine.shard().dirty_pages(), 0);
            }
            assert!(served.engine.shard().counters().balance());
            served.model
        };
        let models: Vec<Vec<u8>> = thread::scope(|scope| {
            let threads: Vec<_> = shards
                .into_iter()
                .zip(drivers)
                .map(|(shard, driver)| scope.spawn(|| serve(shard, driver, model.clone())))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        model.clone_from(&models[0]);
        // They stop without another word, and the flash tells the next ones.
        let mut storage = files.open("flash");
        flash = FlashSet::read(&mut storage).unwrap();
        flash.take_over(&mut storage).unwrap();
    }
    assert!(files.disk() == model, "after a drain the disk has everything");
}

#[test]
fn threads_serve_files() {
    for caching in [Caching::Direct, Caching::Buffered] {
        check(&Files::new("hat", 1, caching), |shards, _, flash, disk| {
            let [flash, disk] = [flash, disk].map(|file| file.try_clone().unwrap());
            vec![ThreadDriver::new(shards[0].frames(), Some(flash), disk, 3).unwrap()]
        });
    }
}

#[test]
fn io_uring_serves_files() {
    for policy in ["hat", "face-gsc", "lru-exclusive"] {
        check(&Files::new(policy, 1, Caching::Direct), |shards, _, flash, disk| {
            let [flash, disk] = [flash, disk].map(|file| file.try_clone().unwrap());
            vec![UringDriver::new(shards[0].frames(), Some(flash), disk).unwrap()]
        });
    }
}

/// Drivers of shards that share their syncs, each over a region of the flash.
fn joint<D: Driver>(
    shards: &[Shard],
    set: &FlashSet,
    [flash, disk]: [&DeviceFile; 2],
    driver: impl Fn(&Arc<Frames>, DeviceFile, DeviceFile) -> std::io::Result<D>,
) -> Vec<JointDriver<D>> {
    let [of_flash, of_disk] = [flash, disk].map(|file| JointSyncs::start(file).unwrap());
    let each = shards.iter().enumerate();
    each.map(|(number, shard)| {
        let region = flash.region(set.range(number)).unwrap();
        let inner = driver(shard.frames(), region, disk.try_clone().unwrap()).unwrap();
        let [of_flash, of_disk] = [&of_flash, &of_disk].map(|syncs| syncs.join().unwrap());
        JointDriver::new(inner, Some(of_flash), Some(of_disk)).unwrap()
    })
    .collect()
}

#[test]
fn several_shards_serve_one_pair_of_files() {
    for (policy, shards) in [("hat", 2), ("lru-exclusive", 3)] {
        let files = Files::new(policy, shards, Caching::Direct);
        check(&files, |shards, set, flash, disk| {
            joint(shards, set, [flash, disk], |frames, flash, disk| {
                UringDriver::new(frames, Some(flash), disk)
            })
        });
    }
    check(&Files::new("face-gsc", 4, Caching::Buffered), |shards, set, flash, disk| {
        joint(shards, set, [flash, disk], |frames, flash, disk| {
            ThreadDriver::new(frames, Some(flash), disk, 2)
        })
    });
}

#[test]
fn several_shards_take_another_flash() {
    let files = Files::new("lru-inclusive", 3, Caching::Direct);
    let set = files.set_up("flash", 7);
    let shards = files.shards(&set);
    let [flash, disk] = ["flash", "disk"].map(|name| files.open(name));
    let drivers = joint(&shards, &set, [&flash, &disk], |frames, flash, disk| {
        UringDriver::new(frames, Some(flash), disk)
    });
    let set = files.set_up("other", 8);
    let other = files.open("other");
    let syncs = JointSyncs::start(&other).unwrap();
    let mut models = vec![];
    for (number, (shard, driver)) in shards.into_iter().zip(drivers).enumerate() {
        let share = shard.options().share;
        let engine = Engine::new(shard, driver);
        let mut served = Served { engine, share, model: vec![0; PAGES * PAGE] };
        served.work(1);
        let engine = &mut served.engine;
        engine.shard_mut().leave_flash();
        until(engine, Shard::has_left_flash);
        engine.shard_mut().release_flash();
        until(engine, Shard::is_flash_released);
        engine.driver().inner_mut().set_flash(other.region(set.range(number)).unwrap());
        engine.driver().set_flash_syncs(syncs.join().unwrap()).unwrap();
        let (options, flash) = (&files.options[number], &set.flashes()[number]);
        let policy = options.policy.clone();
        engine.shard_mut().take_flash(options.flash_pages, policy, flash).unwrap();
        served.work(2);
        served.flush();
        assert!(served.engine.shard().counters().flash.syncs > 0);
        models.push(served.model);
    }
    drop((flash, disk, syncs));
    let model = models.swap_remove(0);
    drain_at_rest(&files, other);
    assert!(files.disk() == model, "the disk has everything");
}

#[test]
fn a_region_of_a_region_lies_within_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flash");
    std::fs::write(&path, vec![0; 16 * PAGE]).unwrap();
    let page = PAGE as u64;
    let file = DeviceFile::open(&path, Caching::Buffered).unwrap();
    let outer = file.region(4 * page..8 * page).unwrap();
    let mut inner = outer.region(page..3 * page).unwrap();
    assert_eq!([outer.size_bytes().unwrap(), inner.size_bytes().unwrap()], [4 * page, 2 * page]);
    inner.write_at(page, &vec![7; PAGE]).unwrap();
    assert!(inner.write_at(2 * page, &vec![7; PAGE]).is_err(), "the region ends before");
    let mut beyond = outer.region(3 * page..6 * page).unwrap();
    assert_eq!(beyond.size_bytes().unwrap(), page);
    assert!(beyond.write_at(page, &vec![7; PAGE]).is_err(), "the outer region ends before");
    let bytes = std::fs::read(&path).unwrap();
    let written: Vec<usize> = (0..16).filter(|at| bytes[at * PAGE] == 7).collect();
    assert_eq!(written, [6]);
}

#[test]
fn a_file_with_joint_syncs_is_told_of_its_own_syncs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flash");
    std::fs::write(&path, vec![0; 4 * PAGE]).unwrap();
    let file = DeviceFile::open(&path, Caching::Buffered).unwrap();
    let syncs = JointSyncs::start(&file).unwrap();
    thread::scope(|scope| {
        for number in 0..3 {
            let member = syncs.join().unwrap();
            let mut joint = JointFile::new(file.try_clone().unwrap(), member);
            scope.spawn(move || {
                for _ in 0..20 {
                    joint.write_at((number * PAGE) as u64, &vec![1; PAGE]).unwrap();
                    joint.sync().unwrap();
                }
            });
        }
    });
}

/// Lets time pass until that is so.
fn until<D: Driver>(engine: &mut Engine<D>, is_so: fn(&Shard) -> bool) {
    for _ in 0..10_000 {
        if is_so(engine.shard()) {
            return;
        }
        let now = engine.shard().now().0;
        engine.shard_mut().tick(Nanos(now + 20_000_000));
        engine.wait();
    }
    panic!("it takes too long: {:?}", engine.shard());
}

/// Drains a flash of three shards region by region, once cut off after the first one.
fn drain_at_rest(files: &Files, mut storage: DeviceFile) {
    let dirty = |set: &FlashSet| -> Vec<u64> {
        set.each_contents().iter().map(|region| region.dirty_pages).collect()
    };
    let disk = files.open("disk");
    let drain = |set: &mut FlashSet, storage: &mut DeviceFile, regions: usize| {
        let (driven, last) = (storage.try_clone().unwrap(), set.range(regions - 1).start);
        let open = |region: Range<u64>, frames: &Arc<Frames>| {
            if region.start > last {
                return Err(FlashError::from(std::io::Error::other("cut off")));
            }
            let [flash, disk] = [driven.region(region)?, disk.try_clone()?];
            Ok(ThreadDriver::new(frames, Some(flash), disk, 2)?)
        };
        set.drain(storage, (PAGES * PAGE) as u64, NonZeroUsize::MIN, open, |_| {})
    };
    let mut set = FlashSet::read(&mut storage).unwrap();
    let before = dirty(&set);
    assert!(before.iter().all(|&pages| pages > 0), "{before:?}");
    drain(&mut set, &mut storage, 1).unwrap_err();
    set = FlashSet::read(&mut storage).unwrap();
    assert_eq!(dirty(&set), [0, before[1], before[2]]);
    let drained = drain(&mut set, &mut storage, 3).unwrap();
    assert_eq!(drained.written_pages, before[1] + before[2]);
    assert!(drained.lost_pages.is_empty());
    assert_eq!(dirty(&FlashSet::read(&mut storage).unwrap()), [0; 3]);
}
