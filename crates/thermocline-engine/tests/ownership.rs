//! Operations go to the driver of their shard and back to it, and nowhere else.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use thermocline_engine::driver::Driver;
use thermocline_engine::driver::files::{Caching, DeviceFile};
use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::driver::threads::ThreadDriver;
use thermocline_engine::{Device, Frames, Operation, Options, PolicyOptions, Request, Shard};

const PAGES: u32 = 16;
const BYTES: usize = (PAGES as usize) << 12;

fn shard() -> Shard {
    Shard::new(Options::new(PAGES.into(), 8, 0, PolicyOptions::named("lru").unwrap())).unwrap()
}

/// Return the first operation of a shard that is asked for a page.
fn fetch(shard: &mut Shard) -> Operation {
    shard.submit(Request::read(1, 0, 4096), &[]).unwrap();
    shard.next_operation().unwrap()
}

fn panics(work: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(work)).is_err()
}

#[test]
fn a_shard_takes_back_its_own_operations_only() {
    let (mut one, mut other) = (shard(), shard());
    let (of_one, of_other) = (fetch(&mut one), fetch(&mut other));
    // Both have the same number: the memory tells the shards apart.
    assert_eq!(of_one.id, of_other.id);
    assert!(panics(|| one.complete(of_other, Ok(()))));
    assert!(panics(|| one.complete(Operation::sync(Device::Backing), Ok(()))));
    assert!(one.next_reply().is_none());
    one.complete(of_one, Ok(()));
    let reply = one.next_reply().unwrap();
    assert_eq!((reply.tag, reply.result), (1, Ok(())));
    one.release(reply);
    one.assert_invariants();
}

/// Gives a driver an operation of another shard, and then a sync, which it must perform.
fn refuses_other_shards<D: Driver>(new: impl FnOnce(&std::sync::Arc<Frames>) -> D) {
    let (one, mut other) = (shard(), shard());
    let mut driver = new(one.frames());
    let operation = fetch(&mut other);
    assert!(panics(|| driver.start(operation)));
    driver.start(Operation::sync(Device::Backing));
    let mut done = vec![];
    driver.wait(&mut done);
    assert_eq!(done, [(Operation::sync(Device::Backing), Ok(()))]);
}

#[test]
fn drivers_take_the_operations_of_their_shard_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    std::fs::write(&path, vec![1; BYTES]).unwrap();
    let disk = || DeviceFile::open(&path, Caching::Buffered).unwrap();
    refuses_other_shards(|frames| MemoryDriver::new(frames, 0, BYTES));
    refuses_other_shards(|frames| ThreadDriver::new(frames, None, disk(), 1).unwrap());
    #[cfg(target_os = "linux")]
    {
        use thermocline_engine::driver::uring::UringDriver;
        if UringDriver::new(&Frames::new(1, 4096), None, disk()).is_ok() {
            refuses_other_shards(|frames| UringDriver::new(frames, None, disk()).unwrap());
        }
    }
}
