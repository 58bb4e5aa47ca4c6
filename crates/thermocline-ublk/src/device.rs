//! Begin, return and end of a device, in a thread of its own.
//!
//! The driver answers some commands only when the queues were served for a while: a start waits until all
//! threads have fetched requests and reads the partitions, and a stop writes back what the page cache has. So
//! no shard may wait for them.

use std::fmt::{self, Debug};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use thermocline_nbd::durability::Durability;

use crate::abi::{Control, FEATURES, INFO_BYTES, Info, Parameters, SECTOR_BYTES, State};
use crate::control::{Driver, Kernel, UblkError};
use crate::door::{Begin, UblkDoor};
use crate::note::NoteFile;
use crate::queue::Place;

/// The greatest number of requests in flight of a queue.
pub const DEPTH_MAX: u16 = crate::abi::QUEUE_DEPTH_MAX;
/// Devices have numbers below this; the driver takes as many.
pub const DEVICES_MAX: u32 = 1 << 20;
/// The longest read or write.
const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// Maximum time for the driver to notice that a server was killed, or that the last one closed its
/// files.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at a device that changes without an event.
const GLANCE: Duration = Duration::from_millis(20);
/// Maximum time for a device to go after its server has ended.
const END_LIMIT: Duration = Duration::from_secs(10);

/// A device, and what it is for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its number: `/dev/ublkbN`.
    pub id: u32,
    /// Requests in flight of a queue.
    pub depth: u16,
    /// Size in bytes; an incomplete sector of 512 bytes at the end is not used.
    pub size_bytes: u64,
    /// The length of requests that it likes, in bytes: a power of two.
    pub preferred_bytes: u32,
    /// `true` if it takes writes.
    pub may_write: bool,
    /// Number by which a later server recognises that the device belongs to the same backing store.
    pub owner: u64,
    /// File in which this server informs the next one that writes may be lost; in a file system in
    /// memory.
    pub note: PathBuf,
    /// `true` if the device waits for the next server, too, when this one ends in order.
    pub keeps_at_exit: bool,
}

impl Options {
    fn parameters(&self) -> Parameters {
        Parameters {
            sectors: self.size_bytes / SECTOR_BYTES,
            // The kernel takes no longer blocks than its pages.
            preferred_bytes: self.preferred_bytes.min(4096),
            may_write: self.may_write,
            transfer_bytes_max: TRANSFER_BYTES_MAX,
        }
    }

    fn info(&self, queues: usize) -> Info {
        Info {
            queues: u16::try_from(queues).unwrap_or(u16::MAX),
            depth: self.depth,
            state: State::Dead,
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            id: self.id,
            pid: 0,
            features: FEATURES,
            owner: self.owner,
        }
    }
}

/// State that the thread of the device and those of the shards share.
pub(crate) struct Shared {
    keeps: bool,
    state: Mutex<Progress>,
    changed: Condvar,
    on_failure: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Debug, Default)]
struct Progress {
    /// `true` if the device needs its queues served.
    is_served: bool,
    /// `true` if the shards end.
    is_closing: bool,
    /// `true` if the doors are gone.
    is_closed: bool,
    failure: Option<String>,
}

impl Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(keeps: bool) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self { keeps, state, changed, on_failure: OnceLock::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn wait(&self, until: impl Fn(&Progress) -> bool) {
        let waited = self.changed.wait_while(self.lock(), |progress| !until(progress));
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Return `true` if the device outlives this server.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps
    }

    /// Note that the shards end.
    pub(crate) fn close(&self) {
        self.change(|progress| progress.is_closing = true);
    }

    /// Return `true` if requests come until the device has stopped.
    pub(crate) fn is_stopping(&self) -> bool {
        !self.keeps && self.lock().is_served
    }

    /// Note that a tag of a queue ended.
    pub(crate) fn ended(&self, reason: i32) {
        let mut progress = self.lock();
        if !progress.is_closing && progress.is_served {
            progress.is_served = false;
            let error = io::Error::from_raw_os_error(-reason);
            tracing::warn!(%error, "ublk: another program stopped the device");
        }
    }

    /// Fail the device: it cannot be served, and the server ends.
    pub(crate) fn fail(&self, reason: String) {
        self.change(|progress| {
            progress.is_served = false;
            progress.failure.get_or_insert(reason);
        });
        if let Some(on_failure) = self.on_failure.get() {
            on_failure();
        }
    }
}

/// Treatment of the existing device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Add,
    /// One that was never started is given up first.
    Replace,
    Recover,
    /// Its server may just have been killed.
    Wait,
}

/// Decide the treatment of a device that may exist, for a server with the wanted properties.
fn plan(found: Option<&Info>, wanted: &Info) -> Result<Plan, UblkError> {
    let Some(found) = found else { return Ok(Plan::Add) };
    let id = wanted.id;
    if found.owner != wanted.owner {
        return Err(match found.state {
            State::Live => UblkError::InUse { id, pid: found.pid },
            State::Dead | State::Quiesced | State::Other(_) => UblkError::Foreign { id },
        });
    }
    match found.state {
        State::Live => return Ok(Plan::Wait),
        State::Dead => return Ok(Plan::Replace),
        State::Other(_) => return Err(UblkError::Foreign { id }),
        State::Quiesced => {}
    }
    let changed = |was: String, wanted: String| Err(UblkError::Changed { id, was, wanted });
    if found.depth != wanted.depth {
        let depth = |depth| format!("`queue_depth` = {depth}");
        return changed(depth(found.depth), depth(wanted.depth));
    }
    if found.queues > wanted.queues {
        let queues = |queues| format!("{queues} queues, one for each shard");
        return changed(queues(found.queues), queues(wanted.queues));
    }
    Ok(Plan::Recover)
}

fn is_errno(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// Commands for one device.
#[derive(Debug)]
struct Device {
    kernel: Box<dyn Kernel>,
    id: u32,
}

impl Device {
    fn command(&mut self, command: Control, buffer: &mut [u8], word: u64) -> Result<(), UblkError> {
        let what = format!("have `/dev/ublkb{}` do {command:?}", self.id);
        self.kernel.command(command, self.id, buffer, word).map_err(|error| {
            if is_errno(&error, Errno::PERM) || is_errno(&error, Errno::ACCESS) {
                return UblkError::NotAllowed;
            }
            UblkError::refused(what)(error)
        })
    }

    fn check_features(&mut self) -> Result<(), UblkError> {
        let mut bytes = [0; 8];
        let told = self.kernel.command(Control::Features, u32::MAX, &mut bytes, 0);
        match told {
            Ok(()) if u64::from_ne_bytes(bytes) & FEATURES == FEATURES => Ok(()),
            Err(error) if is_errno(&error, Errno::PERM) => Err(UblkError::NotAllowed),
            Ok(()) | Err(_) => Err(UblkError::TooOld),
        }
    }

    fn info(&mut self) -> Result<Option<Info>, UblkError> {
        let mut bytes = [0; INFO_BYTES];
        match self.kernel.command(Control::Info, self.id, &mut bytes, 0) {
            Ok(()) => Ok(Some(Info::from_bytes(&bytes))),
            Err(error) if is_errno(&error, Errno::NODEV) => Ok(None),
            Err(error) if is_errno(&error, Errno::PERM) => Err(UblkError::NotAllowed),
            Err(error) => Err(UblkError::refused("ask for the ublk device")(error)),
        }
    }

    /// Makes the device, or finds that the one of an earlier server is as it must be. Returns it, and whether
    /// it was there.
    fn prepare(&mut self, options: &Options, shards: usize) -> Result<(Info, bool), UblkError> {
        self.check_features()?;
        let wanted = options.info(shards);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.info()?;
            match (plan(found.as_ref(), &wanted)?, found) {
                (Plan::Recover, Some(found)) => {
                    self.check_parameters(options)?;
                    return Ok((found, true));
                }
                (Plan::Wait, Some(found)) if Instant::now() > deadline => {
                    return Err(UblkError::InUse { id: self.id, pid: found.pid });
                }
                (Plan::Wait, _) => std::thread::sleep(GLANCE),
                (Plan::Replace, _) => self.command(Control::Delete, &mut [], 0)?,
                (Plan::Add | Plan::Recover, _) => return Ok((self.add(options, wanted)?, false)),
            }
        }
    }

    fn add(&mut self, options: &Options, wanted: Info) -> Result<Info, UblkError> {
        let mut bytes = wanted.to_bytes();
        self.command(Control::Add, &mut bytes, 0)?;
        let mut parameters = options.parameters().to_bytes();
        if let Err(error) = self.command(Control::SetParameters, &mut parameters, 0) {
            self.delete();
            return Err(error);
        }
        Ok(Info::from_bytes(&bytes))
    }

    fn check_parameters(&mut self, options: &Options) -> Result<(), UblkError> {
        let wanted = options.parameters();
        let mut bytes = wanted.to_bytes();
        self.command(Control::Parameters, &mut bytes, 0)?;
        if wanted.are(&bytes) {
            return Ok(());
        }
        let sectors = Parameters::sectors_of(&bytes);
        let (was, wanted) = if sectors == wanted.sectors {
            ("another `page_size` or `write_mode`".to_owned(), "this one".to_owned())
        } else {
            let size = |sectors| format!("{} bytes", sectors * SECTOR_BYTES);
            (size(sectors), size(wanted.sectors))
        };
        Err(UblkError::Changed { id: self.id, was, wanted })
    }

    /// Gives the device up.
    fn delete(&mut self) {
        if let Err(error) = self.command(Control::Delete, &mut [], 0) {
            tracing::warn!(%error, "a ublk device remains");
        }
    }

    /// Tries something until the driver has seen that the last server is gone.
    fn insist<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Result<T, UblkError>,
        is_early: impl Fn(&io::Error) -> bool,
    ) -> Result<T, UblkError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match attempt(self) {
                Err(UblkError::Refused { source, .. })
                    if is_early(&source) && Instant::now() < deadline =>
                {
                    std::thread::sleep(GLANCE);
                }
                outcome => return outcome,
            }
        }
    }
}

/// A block device whose queues nobody serves yet. Dropping it deletes it, unless an earlier server made it.
#[derive(Debug)]
pub struct Ublk {
    device: Option<Device>,
    info: Info,
    was_there: bool,
    options: Options,
    durability: Arc<Durability>,
    begins: Vec<Sender<Begin>>,
    shared: Arc<Shared>,
}

impl Ublk {
    /// Create a device, or find that of an earlier server; distribute its queues to `shards`
    /// shards, and return their doors.
    ///
    /// # Errors
    /// If there is no driver, the device belongs to another backing store, or differs from the
    /// options.
    pub fn prepare(options: &Options, shards: usize) -> Result<(Self, Vec<UblkDoor>), UblkError> {
        Self::prepare_by(Box::new(Driver::open()?), options, shards)
    }

    fn prepare_by(
        kernel: Box<dyn Kernel>,
        options: &Options,
        shards: usize,
    ) -> Result<(Self, Vec<UblkDoor>), UblkError> {
        if options.size_bytes < SECTOR_BYTES {
            return Err(UblkError::TooSmall(options.size_bytes));
        }
        let shared = Arc::new(Shared::new(options.keeps_at_exit));
        let doors = (0..shards).map(|_| UblkDoor::new(options.depth, &shared));
        let doors: io::Result<Vec<_>> = doors.collect();
        let doors = doors.map_err(UblkError::refused("make an io_uring for a ublk queue"))?;
        let (doors, begins) = doors.into_iter().unzip();
        let mut device = Device { kernel, id: options.id };
        let (info, was_there) = device.prepare(options, shards)?;
        let noted = NoteFile::open(&options.note, !was_there);
        let what = || format!("open `{}`, the note of the ublk device", options.note.display());
        let (note, is_unflushed) = match noted {
            Ok(noted) => noted,
            Err(error) => {
                if !was_there {
                    device.delete();
                }
                return Err(UblkError::refused(what())(error));
            }
        };
        let durability = Durability::new(Some(Box::new(note)), is_unflushed, is_unflushed);
        let durability = Arc::new(durability);
        let (device, options) = (Some(device), options.clone());
        Ok((Self { device, info, was_there, options, durability, begins, shared }, doors))
    }

    /// Starts the device in a thread of its own, once the shards serve. `wake` wakes them, and `on_failure`
    /// ends them.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub fn begin(
        mut self,
        wake: impl Fn() + Send + 'static,
        on_failure: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<UblkRun> {
        let shared = Arc::clone(&self.shared);
        // It is set once.
        drop(shared.on_failure.set(Box::new(on_failure)));
        shared.change(|progress| progress.is_served = true);
        let (durability, id) = (Arc::clone(&self.durability), self.info.id);
        let note = self.options.note.clone();
        let (sender, ended) = channel();
        let work = move || {
            let outcome = self.run(&wake);
            if let Err(error) = &outcome {
                self.shared.fail(error.to_string());
            }
            wake();
            self.leave(outcome.is_ok());
            // The receiver may have given up.
            drop(sender.send(outcome));
        };
        std::thread::Builder::new().name("ublk".into()).spawn(work)?;
        Ok(UblkRun { shared, durability, ended, id, note })
    }

    /// Serve the queues until the shards end.
    fn run(&mut self, wake: &impl Fn()) -> Result<(), UblkError> {
        let Self { device, info, was_there, options, durability, begins, shared } = self;
        let device = device.as_mut().expect("it has not ended");
        if *was_there {
            let start = |device: &mut Device| device.command(Control::StartRecovery, &mut [], 0);
            device.insist(start, |error| is_errno(error, Errno::BUSY))?;
        }
        let path = format!("/dev/ublkc{}", info.id);
        let open = |_: &mut Device| {
            let file = File::options().read(true).write(true).open(&path);
            file.map_err(UblkError::refused(format!("open `{path}`")))
        };
        // The system makes the file, and lets one server at a time have it.
        let is_early = |error: &io::Error| {
            error.kind() == io::ErrorKind::NotFound || is_errno(error, Errno::BUSY)
        };
        let file = Arc::new(device.insist(open, is_early)?);
        for (number, begins) in (0..info.queues).zip(&*begins) {
            let place = Place { file: Arc::clone(&file), number, depth: info.depth };
            // The thread of a shard that has ended fetches nothing.
            drop(begins.send(Begin { place, durability: Arc::clone(durability) }));
        }
        drop(file);
        wake();
        let begin = if *was_there { Control::EndRecovery } else { Control::Start };
        device.command(begin, &mut [], std::process::id().into())?;
        let place = format!("/dev/ublkb{}", info.id);
        tracing::info!(
            place,
            queues = info.queues,
            recovered = *was_there,
            "a block device is served"
        );
        shared.wait(|progress| progress.is_closing);
        if !options.keeps_at_exit {
            device.command(Control::Stop, &mut [], 0)?;
        }
        shared.change(|progress| progress.is_served = false);
        Ok(())
    }

    /// Lets the device go once the doors are gone, unless it is to wait for the next server.
    fn leave(&mut self, has_ended: bool) {
        let mut device = self.device.take();
        let waits = if has_ended { self.options.keeps_at_exit } else { self.was_there };
        if let Some(device) = device.as_mut().filter(|_| !waits) {
            self.shared.wait(|progress| progress.is_closed);
            device.delete();
        }
    }
}

impl Drop for Ublk {
    fn drop(&mut self) {
        if let Some(device) = self.device.as_mut().filter(|_| !self.was_there) {
            device.delete();
        }
    }
}

/// A device whose queues are served.
#[derive(Debug)]
pub struct UblkRun {
    shared: Arc<Shared>,
    durability: Arc<Durability>,
    ended: Receiver<Result<(), UblkError>>,
    id: u32,
    note: PathBuf,
}

impl UblkRun {
    /// Notes for the next server that nothing was lost: everything that was answered is durable.
    pub fn settle(&self) {
        self.durability.settle();
    }

    /// Wait until the device is gone, or waits for the next server. The doors must be gone.
    ///
    /// # Errors
    /// If the device could not be served, or does not go.
    pub fn end(self) -> Result<(), UblkError> {
        self.shared.change(|progress| (progress.is_closing, progress.is_closed) = (true, true));
        let failure = self.shared.lock().failure.take();
        let ended = self.ended.recv_timeout(END_LIMIT);
        if ended.is_ok() && !self.shared.keeps {
            // A device that comes later has nothing to do with it.
            drop(std::fs::remove_file(&self.note));
        }
        match (ended, failure) {
            (Ok(Err(error)), _) => Err(error),
            (_, Some(failure)) => {
                Err(UblkError::refused("serve the ublk device")(io::Error::other(failure)))
            }
            (Ok(Ok(())), None) => Ok(()),
            (Err(_), None) => Err(UblkError::DoesNotStop { id: self.id }),
        }
    }
}

#[cfg(test)]
mod tests;
