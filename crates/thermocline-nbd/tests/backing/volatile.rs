//! A server that can be killed, and then has lost what was not flushed.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use thermocline_nbd::codec::server::TlsMode;
use thermocline_nbd::protocol::{
    BlockSizes, Command, Context, ErrorCode, ExportInfo, Extent, allocation,
    transmission_flag as flag,
};
use thermocline_nbd::server::tls::ServerTls;
use thermocline_nbd::server::{Export, Handle, Listen, Server, Settings};
use thermocline_nbd::service::{ExtentRange, Piece, Reply, Service, Tag};
use thermocline_nbd::uri::{NbdUri, ServerAddress};

/// The bytes of a disk with a cache of its own.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) now: Vec<u8>,
    pub(crate) durable: Vec<u8>,
    /// Requests that it was asked for, by command, in the order of the wire's numbers.
    pub(crate) requests: [u64; 8],
    is_dead: bool,
    /// `true` if it takes requests and answers none of them.
    pub(crate) is_silent: bool,
}

pub(crate) type Shared = Arc<Mutex<Disk>>;

/// Maximum time for clients to make a handshake of TLS.
const PATIENCE: Duration = Duration::from_secs(10);

/// Server of the disk.
struct Volatile {
    disk: Shared,
    waiting: VecDeque<(Tag, Piece)>,
    drives: u32,
}

impl Service for Volatile {
    fn submit(&mut self, tag: Tag, piece: &Piece, payload: &[u8]) {
        let mut disk = self.disk.lock().unwrap();
        disk.requests[usize::from(piece.command.to_wire())] += 1;
        if disk.is_dead {
            return;
        }
        let start = usize::try_from(piece.offset_bytes).unwrap();
        let range = start..start + piece.length_bytes as usize;
        match piece.command {
            Command::Write => disk.now[range].copy_from_slice(payload),
            Command::WriteZeroes | Command::Trim => disk.now[range].fill(0),
            Command::Read
            | Command::Disconnect
            | Command::Flush
            | Command::Cache
            | Command::Attach
            | Command::Await
            | Command::Demote
            | Command::Release
            | Command::Tell
            | Command::BlockStatus => {}
        }
        drop(disk);
        self.waiting.push_back((tag, *piece));
    }

    fn drive(&mut self) {
        self.drives += 1;
    }

    fn next_reply(&mut self) -> Option<Reply> {
        // Not at once, so that there is something in flight when it dies.
        let is_mute = {
            let disk = self.disk.lock().unwrap();
            disk.is_dead || disk.is_silent
        };
        if !self.drives.is_multiple_of(3) || is_mute {
            return None;
        }
        let (tag, piece) = self.waiting.pop_front()?;
        if piece.command == Command::Flush {
            let mut disk = self.disk.lock().unwrap();
            let Disk { now, durable, .. } = &mut *disk;
            durable.clone_from(now);
        }
        if piece.command == Command::Read {
            self.waiting.push_front((tag, piece));
        }
        Some(Reply { tag, outcome: Ok::<(), ErrorCode>(()) })
    }

    fn take_data(&mut self, tag: Tag, target: &mut Vec<u8>) {
        let (read, piece) = self.waiting.pop_front().unwrap();
        assert_eq!(read, tag);
        let start = usize::try_from(piece.offset_bytes).unwrap();
        let disk = self.disk.lock().unwrap();
        target.extend_from_slice(&disk.now[start..start + piece.length_bytes as usize]);
    }

    fn extents(&mut self, _context: Context, range: &ExtentRange, found: &mut Vec<Extent>) {
        let disk = self.disk.lock().unwrap();
        let start = usize::try_from(range.offset_bytes).unwrap();
        for block in disk.now[start..start + range.length_bytes as usize].chunks(4096) {
            let is_zero = block.iter().all(|&byte| byte == 0);
            let status = if is_zero { allocation::HOLE | allocation::ZERO } else { 0 };
            let length_bytes = u32::try_from(block.len()).unwrap();
            match found.last_mut() {
                Some(last) if last.status == status => last.length_bytes += length_bytes,
                _ => found.push(Extent { length_bytes, status }),
            }
        }
        found.truncate(range.count_max);
    }

    fn wait_limit(&self) -> Option<Duration> {
        let is_silent = self.disk.lock().unwrap().is_silent;
        let pause = Duration::from_millis(u64::from(is_silent));
        (!self.waiting.is_empty()).then_some(pause)
    }
}

/// A server of a disk, in a thread of its own.
pub(crate) struct Running {
    disk: Shared,
    socket: PathBuf,
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

/// Properties that an export presents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Face {
    pub(crate) flags: u16,
    pub(crate) block_sizes: BlockSizes,
}

impl Default for Face {
    fn default() -> Self {
        Self {
            flags: flag::SEND_FLUSH
                | flag::SEND_FUA
                | flag::SEND_TRIM
                | flag::SEND_WRITE_ZEROES
                | flag::CAN_MULTI_CONN,
            block_sizes: BlockSizes::default(),
        }
    }
}

pub(crate) fn disk(bytes: usize) -> Shared {
    let zeroes = || vec![0; bytes];
    let (now, durable) = (zeroes(), zeroes());
    Arc::new(Mutex::new(Disk { now, durable, requests: [0; 8], is_dead: false, is_silent: false }))
}

pub(crate) fn uri(socket: &Path) -> NbdUri {
    NbdUri { server: ServerAddress::Unix(socket.to_owned()), export: String::new(), tls: None }
}

impl Running {
    pub(crate) fn start(disk: &Shared, folder: &Path, face: Face) -> Self {
        Self::start_with(disk, folder, face, None)
    }

    /// Return the same with certificates, for clients that want TLS.
    pub(crate) fn start_with(
        disk: &Shared,
        folder: &Path,
        face: Face,
        tls: Option<ServerTls>,
    ) -> Self {
        let socket = folder.join("volatile.sock");
        let size_bytes = {
            let mut disk = disk.lock().unwrap();
            disk.is_dead = false;
            disk.now.len() as u64
        };
        let info = ExportInfo {
            name: String::new(),
            description: String::new(),
            size_bytes,
            flags: flag::HAS_FLAGS | face.flags,
            block_sizes: face.block_sizes,
            takes_cooperation: false,
        };
        let service = Volatile { disk: Arc::clone(disk), waiting: VecDeque::new(), drives: 0 };
        // Nobody waits for a server that dies.
        let settings = Settings {
            negotiation_limit: if tls.is_some() { PATIENCE } else { Duration::from_millis(1) },
            tls: tls.map(|tls| (tls, TlsMode::Required)),
            ..Settings::default()
        };
        let mut server = Server::new(settings, vec![Export { info, service }]).unwrap();
        server.listen(Listen::Unix(socket.clone())).unwrap();
        let handle = server.handle();
        let thread = std::thread::spawn(move || server.run(|_| ()).unwrap());
        Self { disk: Arc::clone(disk), socket, handle, thread: Some(thread) }
    }

    pub(crate) fn uri(&self) -> NbdUri {
        uri(&self.socket)
    }

    /// Kill the server: it answers nothing more, and loses everything that was not flushed.
    pub(crate) fn kill(self) {
        let mut disk = self.disk.lock().unwrap();
        disk.is_dead = true;
        let Disk { now, durable, .. } = &mut *disk;
        now.clone_from(durable);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}
