//! The conversation with a virtual machine's monitor, in a thread of its own.
//!
//! One monitor at a time; the next one waits. When the conversation ends, however it does, the requests
//! in flight are answered before the next monitor is listened to, because that may hand over the same
//! memory.

use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{MemfdFlags, OFlags};
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVirtioFeatures, VhostUserVringAddrFlags,
    VhostUserVringState,
};
use vhost::vhost_user::{
    BackendReqHandler, Error, GpuBackend, Result, VhostUserBackendReqHandlerMut,
};
use virtio_bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;
use vm_memory::{GuestAddress, GuestMemoryMmap, GuestRegionMmap};

use crate::block::{Device, QUEUES_MAX};
use crate::door::{Mailbox, Order, VhostDoor};
use crate::in_flight::{Area, area_bytes};
use crate::mapping;
use crate::ring::{Layout, Ring};
use thermocline_nbd::durability::{Durability, Note};

/// The longest ring.
const RING_SIZE_MAX: u16 = 1024;
/// Pause when the system refuses to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// A socket at which monitors of virtual machines connect, until this value is dropped.
#[derive(Debug)]
pub struct VhostUser {
    listener: Arc<UnixListener>,
    created: Option<PathBuf>,
    shared: Arc<Mutex<Shared>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    connection: Option<UnixStream>,
    /// Durability of the last monitor that connected.
    durability: Option<Arc<Durability>>,
    is_over: bool,
}

impl VhostUser {
    /// Listen for monitors; distribute rings to `shards` shards, and return their doors. `created`
    /// is the socket's file if it is to be removed in the end.
    ///
    /// # Errors
    /// If the system gives no more descriptors or threads.
    ///
    /// # Panics
    /// If there are no shards, or the device has more queues than [`QUEUES_MAX`].
    pub fn start(
        listener: UnixListener,
        created: Option<&Path>,
        device: Device,
        shards: usize,
    ) -> io::Result<(Self, Vec<VhostDoor>)> {
        assert!(shards > 0 && device.queues > 0 && device.queues <= QUEUES_MAX);
        let device = Arc::new(device);
        let doors: io::Result<Vec<_>> = (0..shards).map(|_| VhostDoor::new(&device)).collect();
        let (doors, mailboxes): (Vec<_>, Vec<_>) = doors?.into_iter().unzip();
        let listener = Arc::new(listener);
        let shared = Arc::new(Mutex::new(Shared::default()));
        // A number that no other server has, so that each knows its own notes.
        let random = RandomState::new().build_hasher().finish();
        let run = u32::try_from(random >> 32).expect("32 bits");
        let work = {
            let (listener, shared) = (Arc::clone(&listener), Arc::clone(&shared));
            let host = Host { device, mailboxes, shared, run };
            move || listen(&listener, &host)
        };
        let thread = std::thread::Builder::new().name("vhost-user".into()).spawn(work)?;
        let created = created.map(Path::to_owned);
        Ok((Self { listener, created, shared, thread: Some(thread) }, doors))
    }

    /// Notes for the next server that nothing was lost: everything that guests were answered is durable.
    pub fn settle(&self) {
        if let Some(durability) = &lock(&self.shared).durability {
            durability.settle();
        }
    }
}

impl Drop for VhostUser {
    /// Closes the connection, and removes the socket. The doors must be gone, or their threads still run.
    fn drop(&mut self) {
        {
            let mut shared = lock(&self.shared);
            // Before the sockets are shut down: the thread looks at this when `accept` returns.
            shared.is_over = true;
            // The monitor may have closed it.
            drop(shared.connection.as_ref().map(|stream| stream.shutdown(Shutdown::Both)));
        }
        let _ended = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        if let Some(path) = &self.created {
            drop(std::fs::remove_file(path));
        }
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State that all conversations share.
#[derive(Clone, Debug)]
struct Host {
    device: Arc<Device>,
    mailboxes: Vec<Mailbox>,
    shared: Arc<Mutex<Shared>>,
    /// This server's number.
    run: u32,
}

/// Talks to one monitor after the other.
fn listen(listener: &UnixListener, host: &Host) {
    loop {
        let stream = listener.accept().map(|(stream, _)| stream);
        if lock(&host.shared).is_over {
            return;
        }
        match stream {
            Ok(stream) => talk(stream, host),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!(%error, "a virtual machine failed to connect");
                std::thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

fn talk(stream: UnixStream, host: &Host) {
    let talk = Arc::new(Mutex::new(Talk::new(host.clone())));
    lock(&host.shared).connection = stream.try_clone().ok();
    tracing::info!("virtual machine connected");
    let mut handler = BackendReqHandler::from_stream(stream, Arc::clone(&talk));
    let end = loop {
        if let Err(error) = handler.handle_request() {
            break error;
        }
    };
    if matches!(end, Error::Disconnected | Error::PartialMessage | Error::SocketBroken(_)) {
        tracing::info!("virtual machine disconnected");
    } else {
        tracing::warn!(error = %end, "virtual machine disconnected by the server");
    }
    talk.lock().unwrap_or_else(PoisonError::into_inner).stop_all();
    lock(&host.shared).connection = None;
}

/// Read the durability of a virtual machine's writes from the notes of its monitor, for the server
/// of this number.
fn of_notes(area: Option<Area>, run: u32) -> Durability {
    let (writer, is_noted) = area.as_ref().map_or((run, false), Area::unflushed);
    if let Some(area) = &area {
        area.note_unflushed(run, is_noted);
    }
    let note = area.map(|area| Box::new(area) as Box<dyn Note>);
    Durability::new(note, is_noted, is_noted && writer != run)
}

/// Messages of a monitor about a ring.
#[derive(Debug, Default)]
struct Told {
    size: u16,
    next_available: u16,
    /// Descriptors, used and available ring, as addresses of the monitor.
    addresses: Option<[u64; 3]>,
    call: Option<File>,
    is_enabled: bool,
    /// `true` if the shard has it.
    is_started: bool,
}

/// A part of the guest's memory as the monitor sees it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    monitor: u64,
    guest: u64,
    bytes: u64,
}

/// One conversation.
#[derive(Debug)]
struct Talk {
    host: Host,
    features: u64,
    memory: Option<Arc<GuestMemoryMmap>>,
    seen: Vec<Seen>,
    rings: Vec<Told>,
    area: Option<Area>,
    durability: Arc<Durability>,
}

impl Talk {
    fn new(host: Host) -> Self {
        let queues = host.device.queues;
        Self {
            durability: Arc::new(Durability::new(None, false, false)),
            host,
            features: 0,
            memory: None,
            seen: vec![],
            rings: (0..queues).map(|_| Told::default()).collect(),
            area: None,
        }
    }

    /// Notes requests in flight there from now on.
    fn note_in(&mut self, area: Option<Area>) {
        self.durability = Arc::new(of_notes(area.clone(), self.host.run));
        lock(&self.host.shared).durability = Some(Arc::clone(&self.durability));
        self.area = area;
    }

    fn told(&mut self, index: u32) -> Result<&mut Told> {
        self.rings.get_mut(index as usize).ok_or(Error::InvalidParam)
    }

    /// Sends an order to the thread that has a ring, and waits for what becomes of it.
    fn order<T>(&self, queue: usize, order: impl FnOnce(SyncSender<T>) -> Order) -> Result<T> {
        let (done, answer) = sync_channel(1);
        let mailbox = &self.host.mailboxes[queue % self.host.mailboxes.len()];
        let gone = Error::BackendInternalError;
        if !mailbox.send(order(done)) {
            return Err(gone);
        }
        answer.recv().map_err(|_| gone)
    }

    fn in_guest(&self, monitor: u64) -> Result<GuestAddress> {
        let part = self.seen.iter().find(|part| {
            monitor.checked_sub(part.monitor).is_some_and(|offset| offset < part.bytes)
        });
        let address = part.and_then(|part| part.guest.checked_add(monitor - part.monitor));
        address.map(GuestAddress).ok_or(Error::InvalidParam)
    }

    /// Hands a ring to its shard.
    fn start(&mut self, queue: usize, kick: File) -> Result<()> {
        let memory = self.memory.clone().ok_or(Error::InvalidParam)?;
        let told = &self.rings[queue];
        let [descriptors, used, available] = told.addresses.ok_or(Error::InvalidParam)?;
        let layout = Layout {
            size: told.size,
            descriptors: self.in_guest(descriptors)?,
            used: self.in_guest(used)?,
            available: self.in_guest(available)?,
            next_available: told.next_available,
            has_event_index: self.features & (1 << VIRTIO_RING_F_EVENT_IDX) != 0,
        };
        let call = told.call.as_ref().map(File::try_clone).transpose();
        let call = call.map_err(Error::ReqHandlerError)?;
        let number = u16::try_from(queue).expect("the number of a ring");
        let notes = |used| match &self.area {
            Some(area) => area.ring(number, layout.size, used).map(Some),
            None => Some(None),
        };
        let notes = (notes, Arc::clone(&self.durability));
        let ring = Ring::new(layout, &memory, kick, call, notes).ok_or(Error::InvalidParam)?;
        let mut ring = Box::new(ring);
        ring.enable(told.is_enabled || !self.has_protocol());
        if !self.order(queue, |done| Order::Start { queue, ring, done })? {
            return Err(Error::InvalidParam);
        }
        self.rings[queue].is_started = true;
        Ok(())
    }

    /// Return `true` if the monitor has the feature of the protocol; without it, rings are enabled
    /// from the beginning.
    fn has_protocol(&self) -> bool {
        self.features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() != 0
    }

    /// Takes a ring back once its requests are answered; returns where it stopped.
    fn stop(&mut self, queue: usize) -> Result<Option<u16>> {
        if !std::mem::take(&mut self.rings[queue].is_started) {
            return Ok(None);
        }
        let stopped = self.order(queue, |done| Order::Stop { queue, done })?;
        if let Some(next) = stopped {
            self.rings[queue].next_available = next;
        }
        Ok(stopped)
    }

    fn stop_all(&mut self) {
        for queue in 0..self.rings.len() {
            if self.stop(queue).is_err() {
                // The thread of the shard has ended: nothing is in flight there.
                tracing::debug!(queue, "the ring's shard has ended");
            }
        }
    }
}

/// Return the parts of the guest's memory that files hold.
fn map(
    regions: &[VhostUserMemoryRegion],
    files: Vec<File>,
) -> Result<(GuestMemoryMmap, Vec<Seen>)> {
    let mut parts = vec![];
    for (region, file) in regions.iter().zip(files) {
        let VhostUserMemoryRegion { guest_phys_addr, memory_size, user_addr, mmap_offset } =
            *region;
        if memory_size == 0 {
            return Err(Error::InvalidParam);
        }
        let mapped =
            mapping::map(file, mmap_offset, memory_size).map_err(Error::ReqHandlerError)?;
        let part = GuestRegionMmap::new(mapped, GuestAddress(guest_phys_addr));
        let seen = Seen { monitor: user_addr, guest: guest_phys_addr, bytes: memory_size };
        parts.push((seen, part.ok_or(Error::InvalidParam)?));
    }
    parts.sort_by_key(|(seen, _)| seen.guest);
    let (seen, parts) = parts.into_iter().unzip();
    let memory = GuestMemoryMmap::from_regions(parts);
    let memory = memory.map_err(|error| Error::ReqHandlerError(io::Error::other(error)))?;
    Ok((memory, seen))
}

const UNSUPPORTED: Error = Error::InvalidOperation("the device does not offer this");

impl VhostUserBackendReqHandlerMut for Talk {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.stop_all();
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        self.stop_all();
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.host.device.features() | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        let offered = self.get_features()?;
        if features & !offered != 0 {
            return Err(Error::InvalidParam);
        }
        self.features = features;
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(self.host.device.queues.into())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy_listening: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        if regions.len() != files.len() {
            return Err(Error::InvalidParam);
        }
        let (memory, seen) = map(regions, files)?;
        let memory = Arc::new(memory);
        for shard in 0..self.host.mailboxes.len() {
            let memory = Arc::clone(&memory);
            self.order(shard, |done| Order::Memory { memory, done })?;
        }
        (self.memory, self.seen) = (Some(memory), seen);
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let told = self.told(index)?;
        let size = u16::try_from(num).map_err(|_| Error::InvalidParam)?;
        if !size.is_power_of_two() || size > RING_SIZE_MAX {
            return Err(Error::InvalidParam);
        }
        told.size = size;
        Ok(())
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        self.told(index)?.addresses = Some([descriptor, used, available]);
        Ok(())
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        self.told(index)?.next_available = base;
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        self.told(index)?;
        self.stop(index as usize)?;
        let base = self.told(index)?.next_available;
        Ok(VhostUserVringState::new(index, base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let queue = usize::from(index);
        self.told(index.into())?;
        // Without a descriptor, the ring would have to be looked at all the time.
        let kick = fd.ok_or(UNSUPPORTED)?;
        // A ring that runs already must not have two owners: its requests are answered first.
        self.stop(queue)?;
        self.start(queue, kick)
    }

    fn set_vring_call(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        if let Some(file) = &fd {
            // Whatever it is, telling the guest must not make the shard's thread wait.
            let flags = rustix::fs::fcntl_getfl(file).map_err(io::Error::from);
            let flags = flags.map_err(Error::ReqHandlerError)? | OFlags::NONBLOCK;
            let set = rustix::fs::fcntl_setfl(file, flags).map_err(io::Error::from);
            set.map_err(Error::ReqHandlerError)?;
        }
        let told = self.told(index.into())?;
        let call = fd.as_ref().map(File::try_clone).transpose().map_err(Error::ReqHandlerError)?;
        told.call = fd;
        if told.is_started {
            let queue = usize::from(index);
            self.order(queue, |done| Order::Call { queue, call, done })?;
        }
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, _fd: Option<File>) -> Result<()> {
        self.told(index.into()).map(drop)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        let told = self.told(index)?;
        told.is_enabled = enable;
        if told.is_started {
            let queue = index as usize;
            self.order(queue, |done| Order::Enable { queue, is_enabled: enable, done })?;
        }
        Ok(())
    }

    fn get_config(
        &mut self,
        offset: u32,
        size: u32,
        _flags: VhostUserConfigFlags,
    ) -> Result<Vec<u8>> {
        self.host.device.config(offset, size).ok_or(Error::InvalidParam)
    }

    fn set_config(
        &mut self,
        _offset: u32,
        _buf: &[u8],
        _flags: VhostUserConfigFlags,
    ) -> Result<()> {
        Err(UNSUPPORTED)
    }

    fn set_gpu_socket(&mut self, _gpu_backend: GpuBackend) -> Result<()> {
        Err(UNSUPPORTED)
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        Err(UNSUPPORTED)
    }

    fn get_inflight_fd(
        &mut self,
        inflight: &VhostUserInflight,
    ) -> Result<(VhostUserInflight, File)> {
        let VhostUserInflight { num_queues, queue_size, .. } = *inflight;
        if num_queues > self.host.device.queues || queue_size > RING_SIZE_MAX {
            return Err(Error::InvalidParam);
        }
        let bytes = area_bytes(num_queues, queue_size);
        let made = || -> io::Result<File> {
            let file = File::from(rustix::fs::memfd_create("in-flight", MemfdFlags::CLOEXEC)?);
            file.set_len(bytes)?;
            Ok(file)
        };
        let file = made().map_err(Error::ReqHandlerError)?;
        let again = file.try_clone().map_err(Error::ReqHandlerError)?;
        self.note_in(Area::new(again, 0, bytes, num_queues, queue_size));
        let made = VhostUserInflight { mmap_size: bytes, mmap_offset: 0, num_queues, queue_size };
        Ok((made, file))
    }

    fn set_inflight_fd(&mut self, inflight: &VhostUserInflight, file: File) -> Result<()> {
        let VhostUserInflight { mmap_size, mmap_offset, num_queues, queue_size } = *inflight;
        let area = Area::new(file, mmap_offset, mmap_size, num_queues, queue_size);
        self.note_in(Some(area.ok_or(Error::InvalidParam)?));
        Ok(())
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Err(UNSUPPORTED)
    }

    fn add_mem_region(
        &mut self,
        _region: &VhostUserSingleMemoryRegion,
        _fd: File,
        _postcopy_listening: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        Err(UNSUPPORTED)
    }

    fn remove_mem_region(&mut self, _region: &VhostUserSingleMemoryRegion) -> Result<()> {
        Err(UNSUPPORTED)
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _fd: File,
    ) -> Result<Option<File>> {
        Err(UNSUPPORTED)
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(UNSUPPORTED)
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(UNSUPPORTED)
    }

    fn set_log_base(
        &mut self,
        _log: &vhost::vhost_user::message::VhostUserLog,
        _file: File,
    ) -> Result<()> {
        Err(UNSUPPORTED)
    }
}
