//! A virtual machine without a processor: its memory, its rings, and the monitor's side of the
//! conversation. Requests are put into the rings by hand.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vhost::vhost_user::message::{VhostUserInflight, VhostUserProtocolFeatures as Protocol};
use vhost::vhost_user::{Frontend, VhostUserFrontend as _};
use vhost::{VhostBackend as _, VhostUserMemoryRegionInfo, VringConfigData};
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes as _, FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

pub(crate) const RING_SIZE: u16 = 16;
/// Bytes of the guest's memory.
const MEMORY_BYTES: usize = 16 << 20;
/// Address of this memory in the monitor; only the conversation uses such addresses.
const MONITOR: u64 = 0x7000_0000_0000;
/// A ring's place: descriptors, available and used ring, tables of 32 descriptors, headers and statuses.
const RING_BYTES: u64 = 0x1_0000;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
const TABLES: u64 = 0x4000;
const TABLE_BYTES: u64 = 512;
const HEADERS: u64 = 0x8000;
/// Address of data: a room of 256 KiB for each head of the first rings.
const DATA: u64 = 4 << 20;
pub(crate) const ROOM_BYTES: usize = 128 << 10;

/// The bit of `VIRTIO_RING_F_EVENT_IDX`.
pub(crate) const EVENT_INDEX: u64 = 1 << 29;

/// The kinds of requests.
pub(crate) const IN: u32 = 0;
pub(crate) const OUT: u32 = 1;
pub(crate) const FLUSH: u32 = 4;
pub(crate) const ID: u32 = 8;
pub(crate) const DISCARD: u32 = 11;
pub(crate) const ZEROES: u32 = 13;

/// Bits of a descriptor's flags.
pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;

/// Layout of a request in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// `true` if its descriptors are in a table of their own.
    pub(crate) is_indirect: bool,
    /// Into how many parts the data are cut.
    pub(crate) parts: usize,
}

/// A ring as the guest has it.
#[derive(Debug)]
struct Ring {
    kick: EventFd,
    call: EventFd,
    available: u16,
    used: u16,
}

/// The memory, which outlives the conversation.
#[derive(Clone)]
pub(crate) struct Machine {
    file: Arc<File>,
    pub(crate) memory: GuestMemoryMmap,
    /// Area in which requests in flight are noted, once the server has given it.
    area: Option<(VhostUserInflight, Arc<File>)>,
}

/// A machine that talks to a server.
pub(crate) struct Guest {
    pub(crate) machine: Machine,
    pub(crate) frontend: Frontend,
    rings: Vec<Ring>,
}

/// Answer of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) head: u16,
    pub(crate) status: u8,
    pub(crate) data: Vec<u8>,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MEMORY_BYTES as u64).unwrap();
        let offset = FileOffset::new(file.try_clone().unwrap(), 0);
        let ranges = [(GuestAddress(0), MEMORY_BYTES, Some(offset))];
        let memory = GuestMemoryMmap::from_ranges_with_files(ranges).unwrap();
        Self { file: Arc::new(file), memory, area: None }
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.file.metadata().unwrap().len()
    }

    pub(crate) fn handle(&self) -> std::os::fd::RawFd {
        self.file.as_raw_fd()
    }

    /// Connect with `rings` rings; they go on where they are.
    pub(crate) fn connect(mut self, socket: &Path, rings: u16, left_out: u64) -> Guest {
        let mut frontend = Frontend::connect(socket, 256).unwrap();
        frontend.set_owner().unwrap();
        let offered = frontend.get_features().unwrap();
        let protocol = frontend.get_protocol_features().unwrap();
        let wanted =
            Protocol::MQ | Protocol::CONFIG | Protocol::REPLY_ACK | Protocol::INFLIGHT_SHMFD;
        assert!(protocol.contains(wanted), "{protocol:?}");
        frontend.set_protocol_features(wanted).unwrap();
        frontend.set_hdr_flags(vhost::vhost_user::message::VhostUserHeaderFlag::NEED_REPLY);
        frontend.set_features(offered & !left_out).unwrap();
        match &self.area {
            Some((area, file)) => frontend.set_inflight_fd(area, file.as_raw_fd()).unwrap(),
            None => {
                let asked = VhostUserInflight {
                    mmap_size: 0,
                    mmap_offset: 0,
                    num_queues: rings,
                    queue_size: RING_SIZE,
                };
                let (area, file) = frontend.get_inflight_fd(&asked).unwrap();
                self.area = Some((area, Arc::new(file)));
            }
        }
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: MEMORY_BYTES as u64,
            userspace_addr: MONITOR,
            mmap_offset: 0,
            mmap_handle: self.file.as_raw_fd(),
        };
        frontend.set_mem_table(&[region]).unwrap();
        let mut guest = Guest { machine: self, frontend, rings: vec![] };
        (0..rings).for_each(|ring| guest.start(ring));
        guest
    }
}

impl Guest {
    fn base(ring: u16) -> u64 {
        u64::from(ring) * RING_BYTES
    }

    fn start(&mut self, ring: u16) {
        let (number, base) = (usize::from(ring), Self::base(ring));
        let index =
            |at: u64| self.machine.memory.read_obj::<u16>(GuestAddress(base + at + 2)).unwrap();
        let (available, used) = (index(AVAILABLE), index(USED));
        let [kick, call] = [(); 2].map(|()| EventFd::new(EFD_NONBLOCK).unwrap());
        let address = |at: u64| MONITOR + base + at;
        self.frontend.set_vring_num(number, RING_SIZE).unwrap();
        // What QEMU says of a ring whose server was killed.
        self.frontend.set_vring_base(number, used).unwrap();
        let layout = VringConfigData {
            queue_max_size: RING_SIZE,
            queue_size: RING_SIZE,
            flags: 0,
            desc_table_addr: address(0),
            used_ring_addr: address(USED),
            avail_ring_addr: address(AVAILABLE),
            log_addr: None,
        };
        self.frontend.set_vring_addr(number, &layout).unwrap();
        self.frontend.set_vring_call(number, &call).unwrap();
        self.frontend.set_vring_kick(number, &kick).unwrap();
        self.frontend.set_vring_enable(number, true).unwrap();
        // Requests may be there already.
        kick.write(1).unwrap();
        self.rings.push(Ring { kick, call, available, used });
    }

    pub(crate) fn put<T: vm_memory::ByteValued>(&self, value: T, address: u64) {
        self.machine.memory.write_obj(value, GuestAddress(address)).unwrap();
    }

    pub(crate) fn descriptor(&self, ring: u16, index: u16, descriptor: Descriptor) {
        self.put(descriptor, Self::base(ring) + u64::from(index) * 16);
    }

    fn room(ring: u16, head: u16) -> u64 {
        DATA + (u64::from(ring) * u64::from(RING_SIZE) + u64::from(head)) * ROOM_BYTES as u64
    }

    /// Puts a request into a ring: its kind, sector, what it brings, and bytes of room for what it finds.
    pub(crate) fn submit(
        &mut self,
        ring: u16,
        head: u16,
        (kind, sector): (u32, u64),
        data: &[u8],
        room: usize,
        style: Style,
    ) {
        let base = Self::base(ring);
        let header = base + HEADERS + u64::from(head) * 32;
        self.put(kind, header);
        self.put(sector, header + 8);
        self.put(0xff_u8, header + 16);
        let place = Self::room(ring, head);
        self.machine.memory.write_slice(data, GuestAddress(place)).unwrap();
        let mut parts = vec![(header, 16, 0)];
        let (bytes, flags) = if room > 0 { (room, WRITE) } else { (data.len(), 0) };
        let step = bytes.div_ceil(style.parts).max(1);
        for start in (0..bytes).step_by(step) {
            let length = u32::try_from(step.min(bytes - start)).unwrap();
            parts.push((place + start as u64, length, flags));
        }
        parts.push((header + 16, 1, WRITE));
        assert!(parts.len() <= 32, "a table has room for so many");
        let table = base + TABLES + u64::from(head) * TABLE_BYTES;
        let (at, first) = if style.is_indirect { (table, 0) } else { (base, head) };
        let count = u16::try_from(parts.len()).unwrap();
        for (index, (address, length, flags)) in (first..).zip(parts) {
            let is_last = index + 1 == first + count;
            let flags = if is_last { flags } else { flags | NEXT };
            let descriptor = Descriptor::new(address, length, flags, index + 1);
            self.put(descriptor, at + u64::from(index) * 16);
        }
        if style.is_indirect {
            let bytes = u32::from(count) * 16;
            self.descriptor(ring, head, Descriptor::new(table, bytes, INDIRECT, 0));
        }
        self.offer(ring, head);
    }

    /// Return the number of requests the server has noted as taken and not answered.
    pub(crate) fn in_flight(&self) -> usize {
        use std::os::unix::fs::FileExt as _;

        let (area, file) = self.machine.area.as_ref().expect("the server has given it");
        let mut bytes = vec![0; usize::try_from(area.mmap_size).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let ring_bytes = bytes.len() / usize::from(area.num_queues);
        let notes = bytes.chunks(ring_bytes).flat_map(|ring| {
            ring[16..].chunks(16).take(usize::from(RING_SIZE)).map(|note| usize::from(note[0]))
        });
        notes.sum()
    }

    /// Puts a head into the available ring.
    pub(crate) fn offer(&mut self, ring: u16, head: u16) {
        let base = Self::base(ring) + AVAILABLE;
        let place = u64::from(self.rings[usize::from(ring)].available % RING_SIZE);
        self.put(head, base + 4 + place * 2);
        let available = &mut self.rings[usize::from(ring)].available;
        *available = available.wrapping_add(1);
        let index = *available;
        let memory = &self.machine.memory;
        memory.store(index, GuestAddress(base + 2), std::sync::atomic::Ordering::SeqCst).unwrap();
    }

    /// Signal requests to the server.
    pub(crate) fn kick(&self, ring: u16) {
        self.rings[usize::from(ring)].kick.write(1).unwrap();
    }

    /// Return `true` if a request of a ring is to be answered, or its answer to be taken.
    pub(crate) fn is_waiting(&self, ring: u16) -> bool {
        let Ring { available, used, .. } = self.rings[usize::from(ring)];
        available != used
    }

    /// Takes an answer, if there is one.
    pub(crate) fn take(&mut self, ring: u16) -> Option<(u16, u32)> {
        let base = Self::base(ring) + USED;
        let memory = &self.machine.memory;
        let order = std::sync::atomic::Ordering::SeqCst;
        let index: u16 = memory.load(GuestAddress(base + 2), order).unwrap();
        let used = &mut self.rings[usize::from(ring)].used;
        if index == *used {
            // From this answer on the guest wants to be told.
            let event = Self::base(ring) + AVAILABLE + 4 + u64::from(RING_SIZE) * 2;
            memory.store(*used, GuestAddress(event), order).unwrap();
            let index: u16 = memory.load(GuestAddress(base + 2), order).unwrap();
            if index == *used {
                return None;
            }
        }
        let place = u64::from(*used % RING_SIZE);
        *used = used.wrapping_add(1);
        let head: u32 = memory.read_obj(GuestAddress(base + 4 + place * 8)).unwrap();
        let bytes = memory.read_obj(GuestAddress(base + 8 + place * 8)).unwrap();
        Some((u16::try_from(head).unwrap(), bytes))
    }

    /// Wait for the next answer; `found` says how many bytes the request of a head has room for.
    pub(crate) fn answer(&mut self, ring: u16, found: impl Fn(u16) -> usize) -> Answer {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            if let Some((head, _)) = self.take(ring) {
                let header = Self::base(ring) + HEADERS + u64::from(head) * 32;
                let status = self.machine.memory.read_obj(GuestAddress(header + 16)).unwrap();
                let mut data = vec![0; found(head)];
                let place = GuestAddress(Self::room(ring, head));
                self.machine.memory.read_slice(&mut data, place).unwrap();
                return Answer { head, status, data };
            }
            assert!(Instant::now() < deadline, "no answer comes");
            self.wait_for_call(ring, Duration::from_secs(10));
        }
    }

    /// Wait until the server signals answers. A missing signal is an error under test: the time is
    /// long.
    fn wait_for_call(&self, ring: u16, limit: Duration) {
        let call = &self.rings[usize::from(ring)].call;
        let start = Instant::now();
        while call.read().is_err() {
            assert!(start.elapsed() < limit, "the server does not tell of answers");
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Make one request, and return its answer.
    pub(crate) fn call(&mut self, request: (u32, u64), data: &[u8], room: usize) -> Answer {
        self.submit(0, 0, request, data, room, Style { is_indirect: true, parts: 1 });
        self.kick(0);
        self.answer(0, |_| room)
    }

    pub(crate) fn write(&mut self, sector: u64, data: &[u8]) -> u8 {
        self.call((OUT, sector), data, 0).status
    }

    pub(crate) fn read(&mut self, sector: u64, bytes: usize) -> Vec<u8> {
        let answer = self.call((IN, sector), &[], bytes);
        assert_eq!(answer.status, 0, "a read of sector {sector}");
        answer.data
    }
}

/// Return the payload of a range to be discarded or zeroed.
pub(crate) fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
}
