//! Guests and monitors that write whatever they like.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use vhost::{VhostBackend as _, VhostUserMemoryRegionInfo, VringConfigData};
use virtio_queue::desc::split::Descriptor;
use vmm_sys_util::eventfd::EventFd;

use super::guest::{Guest, IN, NEXT, OUT, RING_SIZE, Style, WRITE};
use super::{Random, Running, SECTORS};

/// Check that the device serves others as before.
fn check_still_serves(running: &Running) {
    let mut guest = running.guest();
    assert_eq!(guest.write(800, &[9; 4096]), 0);
    assert_eq!(guest.read(800, 4096), [9; 4096]);
}

#[test]
fn requests_that_make_no_sense_fail_and_leave_others_alone() {
    let running = Running::start();
    let mut guest = running.guest();
    assert_eq!(guest.write(3, &[5; 512]), 0);
    for (request, data, room, status) in [
        ((IN, SECTORS), 0, 512, 1),
        ((IN, SECTORS - 1), 0, 1024, 1),
        ((IN, u64::MAX), 0, 512, 1),
        ((IN, u64::MAX / 512), 0, 512, 1),
        ((IN, 0), 0, 100, 1),
        ((OUT, SECTORS), 512, 0, 1),
        ((OUT, 0), 100, 0, 1),
        ((11, 0), 15, 0, 1),
        ((11, 0), 32, 0, 1),
        ((13, 0), 0, 0, 1),
        ((77, 0), 0, 512, 2),
        ((u32::MAX, 0), 0, 0, 2),
    ] {
        let answer = guest.call(request, &vec![0xff; data], room);
        assert_eq!(answer.status, status, "{request:?} {data} {room}");
    }
    assert_eq!(guest.read(3, 512), [5; 512]);
    // No room for a status: the request comes back, and the ring goes on.
    guest.descriptor(0, 0, Descriptor::new(0x8000, 16, 0, 0));
    guest.offer(0, 0);
    guest.kick(0);
    assert_eq!(guest.answer(0, |_| 0).head, 0);
    assert_eq!(guest.read(3, 512), [5; 512]);
}

#[test]
fn a_read_into_memory_that_is_not_there_harms_nobody() {
    let running = Running::start();
    let mut guest = running.guest();
    guest.submit(0, 0, (IN, 0), &[], 4096, Style { is_indirect: false, parts: 1 });
    guest.descriptor(0, 1, Descriptor::new(u64::MAX - 100, 4096, NEXT | WRITE, 2));
    guest.kick(0);
    guest.answer(0, |_| 0);
    assert_eq!(guest.write(0, &[1; 512]), 0);
}

#[test]
fn a_ring_with_a_wrong_index_is_left_alone() {
    for wrong in [RING_SIZE + 1, 40_000] {
        let running = Running::start();
        let mut guest = running.guest();
        // More requests than the ring has places.
        guest.put(wrong, 0x1002);
        guest.kick(0);
        // A head that is none.
        guest.offer(1, RING_SIZE);
        guest.kick(1);
        // The third ring is in order.
        guest.submit(2, 0, (OUT, 0), &[1; 512], 0, Style { is_indirect: true, parts: 1 });
        guest.kick(2);
        assert_eq!(guest.answer(2, |_| 0).status, 0);
        assert!(guest.take(0).is_none() && guest.take(1).is_none());
        drop(guest);
        check_still_serves(&running);
    }
}

#[test]
fn memory_full_of_nonsense_is_survived() {
    let running = Running::start();
    for seed in 0..40 {
        let mut random = Random(seed);
        let mut guest = running.guest();
        for _ in 0..30 {
            scribble(&mut guest, &mut random);
        }
        drop(guest);
    }
    check_still_serves(&running);
}

/// Descriptors with a little sense in them.
fn scribble(guest: &mut Guest, random: &mut Random) {
    let ring = u16::try_from(random.below(3)).unwrap();
    for index in 0..RING_SIZE {
        let address = match random.below(4) {
            0 => random.below(u64::MAX),
            // The rings themselves among them.
            1 => random.below(0x3_0000),
            _ => 0x8000 + random.below(512),
        };
        let length = match random.below(3) {
            0 => u32::try_from(random.below(1 << 32)).unwrap(),
            1 => 16 * u32::try_from(random.below(40)).unwrap(),
            _ => u32::try_from(random.below(5000)).unwrap(),
        };
        let flags = u16::try_from(random.below(8)).unwrap();
        let next = u16::try_from(random.below(18)).unwrap();
        guest.descriptor(ring, index, Descriptor::new(address, length, flags, next));
    }
    // A kind and a sector that may be right.
    guest.put(u32::try_from(random.below(15)).unwrap(), 0x8000);
    guest.put(random.below(SECTORS * 2), 0x8008);
    guest.offer(ring, u16::try_from(random.below(17)).unwrap());
    guest.kick(ring);
}

#[test]
fn messages_that_make_no_sense_cost_the_connection() {
    let running = Running::start();
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut stream = UnixStream::connect(running.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut message = vec![];
        // A request that may exist, the version, and a length that may fit.
        message.extend(random.word(50).to_le_bytes());
        message.extend((1 | random.word(2) << 3).to_le_bytes());
        message.extend(random.word(80).to_le_bytes());
        message.extend((0..random.below(200)).map(|_| random.word(256).to_le_bytes()[0]));
        // The server may have closed it before all was sent.
        drop(stream.write_all(&message));
        drop(stream.shutdown(std::net::Shutdown::Write));
        let mut rest = vec![];
        drop(stream.read_to_end(&mut rest));
    }
    check_still_serves(&running);
}

#[test]
fn monitors_that_promise_memory_which_is_not_there_are_refused() {
    let running = Running::start();
    let guest = running.guest();
    let bytes = guest.machine.file_bytes();
    for (guest_phys_addr, memory_size, mmap_offset) in [
        (0, bytes + 4096, 0),
        (0, bytes, 4096),
        (0, 4096, u64::MAX - 100),
        (0, u64::MAX, 0),
        (u64::MAX - 100, 4096, 0),
        // An offset that no page begins at.
        (0, 4096, 7),
    ] {
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr,
            memory_size,
            userspace_addr: 0,
            mmap_offset,
            mmap_handle: guest.machine.handle(),
        };
        let refused = guest.frontend.set_mem_table(&[region]);
        assert!(refused.is_err(), "{memory_size} bytes at {mmap_offset} for {guest_phys_addr}");
    }
    drop(guest);
    // Rings outside of the memory, of no size, and without number.
    let guest = running.guest();
    guest.frontend.get_vring_base(1).unwrap();
    let layout = VringConfigData {
        queue_max_size: RING_SIZE,
        queue_size: RING_SIZE,
        flags: 0,
        desc_table_addr: 0x1000,
        used_ring_addr: 0x2000,
        avail_ring_addr: 0x3000,
        log_addr: None,
    };
    let kick = EventFd::new(0).unwrap();
    guest.frontend.set_vring_addr(1, &layout).unwrap();
    assert!(guest.frontend.set_vring_kick(1, &kick).is_err());
    for size in [0, 3, 2048] {
        assert!(guest.frontend.set_vring_num(1, size).is_err(), "{size}");
    }
    assert!(guest.frontend.set_vring_num(200, 16).is_err());
    assert!(guest.frontend.set_vring_base(200, 0).is_err());
    drop(guest);
    check_still_serves(&running);
}
