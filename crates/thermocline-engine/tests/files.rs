//! The same over real files, by every driver: requests against a model, a restart, a drain.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::cast_possible_truncation, reason = "all numbers are small")]

use std::fs::File;
use std::path::Path;

use thermocline_core::random::SplitMix64;
use thermocline_engine::driver::Driver;
use thermocline_engine::driver::files::{Caching, DeviceFile};
use thermocline_engine::driver::threads::ThreadDriver;
use thermocline_engine::driver::uring::UringDriver;
use thermocline_engine::{
    Engine, Flash, Layout, Options, PolicyOptions, Request, RequestKind, Shard, SubmitError, Uuid,
};

const PAGES: usize = 600;
const PAGE: usize = 4096;

fn options(policy: &str) -> Options {
    Options::new(PAGES as u32, 40, 120, PolicyOptions::named(policy).unwrap())
}

fn open(folder: &Path, name: &str, caching: Caching) -> DeviceFile {
    DeviceFile::open(&folder.join(name), caching).unwrap()
}

/// Random requests, many at a time; what is read must be what was written before.
fn work<D: Driver>(engine: &mut Engine<D>, model: &mut [u8], seed: u64) {
    let mut random = SplitMix64::new(seed);
    let mut below = |bound: usize| (random.bits() % bound as u64) as usize;
    let mut expected: Vec<(u64, Vec<u8>)> = vec![];
    for tag in 0..3000 {
        let start = below([PAGES, 60][tag as usize % 2]) * PAGE + below(3) / 2 * 512;
        let length = [512, 4096, 4096, 20_480][below(4)].min(model.len() - start);
        let range = start..start + length;
        // A range is asked for once at a time, so that the order of the answers does not matter.
        engine.wait();
        let mut request = match below(20) {
            0..=9 => Request::read(tag, start as u64, length as u64),
            10 => Request::flush(tag),
            11 => Request {
                kind: RequestKind::WriteZeroes,
                ..Request::write(tag, start as u64, length as u64)
            },
            _ => Request::write(tag, start as u64, length as u64),
        };
        request.is_durable = below(15) == 0;
        let mut payload = vec![];
        match request.kind {
            RequestKind::Read => expected.push((tag, model[range.clone()].to_vec())),
            RequestKind::Write => {
                payload = (0..length).map(|index| (tag as usize * 31 + index / 64) as u8).collect();
                model[range].copy_from_slice(&payload);
            }
            RequestKind::WriteZeroes => model[range].fill(0),
            RequestKind::Flush | RequestKind::Trim | RequestKind::Cache => {}
        }
        while engine.submit(request, &payload) == Err(SubmitError::Full) {
            engine.wait();
            take_replies(engine, &mut expected);
        }
        take_replies(engine, &mut expected);
    }
    engine.wait_until_idle();
    take_replies(engine, &mut expected);
    assert!(expected.is_empty(), "every request is answered");
    engine.shard().assert_invariants();
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

fn check<D: Driver>(
    policy: &str,
    caching: Caching,
    driver: impl Fn(&Shard, DeviceFile, DeviceFile) -> D,
) {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(options(policy).slots(), PAGE as u32);
    File::create(folder.path().join("disk")).unwrap().set_len((PAGES * PAGE) as u64).unwrap();
    File::create(folder.path().join("flash")).unwrap().set_len(layout.flash_bytes()).unwrap();
    let bytes = (PAGES * PAGE) as u64;
    let mut flash = {
        // Closed again: a device is open once at a time.
        let mut storage = open(folder.path(), "flash", caching);
        Flash::initialise(&mut storage, Uuid::from_u128(7), layout, bytes).unwrap()
    };
    let mut model = vec![0; PAGES * PAGE];
    for round in 0..3 {
        let shard = Shard::open(options(policy), &flash).unwrap();
        let device = |name| open(folder.path(), name, caching);
        let driver = driver(&shard, device("flash"), device("disk"));
        let mut engine = Engine::new(shard, driver);
        work(&mut engine, &mut model, round);
        engine.submit(Request::flush(9999), &[]).unwrap();
        engine.wait_until_idle();
        let flushed = engine.next_reply().unwrap();
        assert_eq!(flushed.result, Ok(()));
        engine.release(flushed);
        if round == 2 {
            engine.shard_mut().drain();
            engine.wait_until_idle();
            assert_eq!(engine.shard().dirty_pages(), 0);
        }
        assert!(engine.shard().counters().balance());
        // It stops without another word, and the flash tells the next one.
        drop(engine);
        flash = Flash::recover(&mut open(folder.path(), "flash", caching)).unwrap();
    }
    let disk = std::fs::read(folder.path().join("disk")).unwrap();
    assert!(disk == model, "{policy}: after a drain the disk has everything");
}

#[test]
fn threads_serve_files() {
    for caching in [Caching::Direct, Caching::Buffered] {
        check("hat", caching, |shard, flash, disk| {
            ThreadDriver::new(shard.frames(), Some(flash), disk, 3).unwrap()
        });
    }
}

#[test]
fn io_uring_serves_files() {
    for policy in ["hat", "face-gsc", "lru-exclusive"] {
        check(policy, Caching::Direct, |shard, flash, disk| {
            UringDriver::new(shard.frames(), Some(flash), disk).unwrap()
        });
    }
}
