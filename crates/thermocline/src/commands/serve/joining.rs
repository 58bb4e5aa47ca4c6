//! A device that joins a mirrored flash while clients are served: it is copied beside them, in a thread of its own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use thermocline_engine::driver::files::DeviceFile;
use thermocline_engine::driver::flash::FileLanes;
use thermocline_engine::driver::identity::have_same_bytes;
use thermocline_engine::{
    FoundMember, Joining, Label, Lane, Left, MEMBER_HEAD_BYTES, Member, MirrorStorage,
    content_bytes,
};
use tracing::{error, info};

use super::devices::lock_flash;
use super::mirrored::{NOTE_INTERVAL, Open, content, name};
use crate::note::NotedMirror;

/// Bytes that are copied at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes per second, unless the order says otherwise.
const RATE_BYTES: u64 = 200 << 20;

/// Interval at which the log tells the progress.
const TOLD_INTERVAL: Duration = Duration::from_secs(5);

/// Pause before blocks are copied again to which a write was under way.
const AGAIN_PAUSE: Duration = Duration::from_millis(1);

/// A device that is to become a member: opened and locked.
#[derive(Debug)]
pub(super) struct NewMember {
    pub(super) file: DeviceFile,
    pub(super) path: PathBuf,
}

/// Order for a device to join.
#[derive(Debug)]
pub(super) struct JoinOrder<'a> {
    /// Path of the member that it replaces.
    pub(super) member: &'a Path,
    /// Path of the device.
    pub(super) flash: &'a Path,
    pub(super) forces_init: bool,
    /// Bytes per second to copy at most.
    pub(super) rate_bytes: Option<u64>,
}

/// The devices of a mirrored flash while a server runs.
pub(crate) struct Members {
    open: Open,
    pub(super) notes: NotedMirror,
    /// Paths of the members, in use or not.
    paths: Mutex<[PathBuf; 2]>,
    /// A device that joins as soon as clients are served.
    joins: Mutex<Option<NewMember>>,
    is_copying: AtomicBool,
}

/// Waits for the end of a copy.
pub(super) type Waits = mpsc::Receiver<Result<String>>;

impl Members {
    pub(super) fn new(
        open: Open,
        notes: NotedMirror,
        paths: [PathBuf; 2],
        joins: Option<NewMember>,
    ) -> Self {
        let (paths, joins) = (Mutex::new(paths), Mutex::new(joins));
        Self { open, notes, paths, joins, is_copying: AtomicBool::new(false) }
    }

    fn paths(&self) -> MutexGuard<'_, [PathBuf; 2]> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Return the member that a path leads to.
    pub(super) fn find(&self, path: &Path) -> Option<Member> {
        let paths = self.paths();
        let is_here = |member: &Member| {
            let known = &paths[*member as usize];
            known == path || have_same_bytes(known, path)
        };
        Member::EACH.into_iter().find(is_here)
    }

    /// Begin the copy for the device that the start was given, if it was given one.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn begin_waiting(self: &Arc<Self>) -> Result<()> {
        let joins = self.joins.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(new) = joins else { return Ok(()) };
        self.is_copying.store(true, Ordering::SeqCst);
        // The member that is missing, whichever it is.
        self.start(new, Member::First, RATE_BYTES)?;
        Ok(())
    }

    /// Return `true` while a device joins.
    pub(super) fn is_copying(&self) -> bool {
        self.is_copying.load(Ordering::SeqCst)
    }

    /// Opens a device, and begins to copy what the flash holds to it, if `may_begin` says nothing against it.
    ///
    /// # Errors
    /// A device that cannot be used, or members of which another one must be replaced first.
    pub(super) fn begin(
        self: &Arc<Self>,
        order: &JoinOrder<'_>,
        may_begin: impl FnOnce() -> Result<()>,
    ) -> Result<Waits> {
        ensure!(
            !self.is_copying.swap(true, Ordering::SeqCst),
            "a device of the flash is being copied already: wait for that"
        );
        // A change of the flash's size says that it begins before it looks for a copy.
        let begun = may_begin().and_then(|()| self.open_new(order));
        let begun = begun.and_then(|(new, replaced)| {
            self.start(new, replaced, order.rate_bytes.unwrap_or(RATE_BYTES).max(1))
        });
        begun.inspect_err(|_| self.is_copying.store(false, Ordering::SeqCst))
    }

    /// Begin to copy what the flash holds to the second device, whatever that holds, of a pair whose first one is
    /// alone.
    ///
    /// # Errors
    /// A device that cannot be used.
    pub(super) fn begin_second(
        self: &Arc<Self>,
        device: &Path,
        rate_bytes: Option<u64>,
    ) -> Result<Waits> {
        let order = JoinOrder { member: device, flash: device, forces_init: true, rate_bytes };
        self.begin(&order, || Ok(()))
    }

    /// Opens and locks the device of an order. Returns the member that it replaces, too.
    fn open_new(&self, order: &JoinOrder<'_>) -> Result<(NewMember, Member)> {
        let JoinOrder { member, flash, .. } = *order;
        let replaced = self.find(member).with_context(|| {
            let paths = self.paths();
            let [first, second] = paths.each_ref().map(|path| path.display());
            format!(
                "`{}`: it is no device of the mirrored flash: name `{first}` or `{second}`",
                member.display()
            )
        })?;
        let now = self.open.mirror.in_use();
        let missing = Member::EACH.into_iter().find(|&member| now.lane_of(member).is_none());
        if let Some(missing) = missing.filter(|&missing| missing != replaced) {
            bail!(
                "`{}`: the other device, `{}`, is not in use: replace that one first",
                member.display(),
                self.paths()[missing as usize].display()
            );
        }
        let in_use = Member::EACH.into_iter().filter(|&member| now.lane_of(member).is_some());
        for member in in_use {
            ensure!(
                !have_same_bytes(&self.paths()[member as usize], flash),
                "`{}`: it is in use as the {} device of the flash: name another one",
                flash.display(),
                name(member)
            );
        }
        // One that failed may be tried again.
        self.close_unused();
        let in_flash = || format!("`{}`", flash.display());
        let mut file =
            lock_flash(flash, self.open.caching, [], || Ok(())).with_context(in_flash)?;
        self.check(FoundMember::look(&mut file), order.forces_init).with_context(in_flash)?;
        Ok((NewMember { file, path: flash.to_owned() }, replaced))
    }

    /// Refuse a device that holds something else.
    fn check(&self, found: FoundMember, forces_init: bool) -> Result<()> {
        match found {
            FoundMember::Absent(error) => Err(error).context("it cannot be read"),
            _ if forces_init => Ok(()),
            found if found.is_unused() => Ok(()),
            FoundMember::Labelled(label) if label.pair == self.open.pair => Ok(()),
            FoundMember::Labelled(_) => {
                bail!(
                    "it is a device of another mirrored flash: --force-init gives up what it holds"
                )
            }
            FoundMember::Blank
            | FoundMember::Foreign
            | FoundMember::Damaged
            | FoundMember::Format(_) => {
                bail!(
                    "it holds something else: check its path; --force-init gives up what it holds"
                )
            }
        }
    }

    /// Starts the thread that copies.
    fn start(self: &Arc<Self>, new: NewMember, replaced: Member, rate_bytes: u64) -> Result<Waits> {
        let (done, waits) = mpsc::channel();
        let members = Arc::clone(self);
        let work = move || {
            let path = new.path.clone();
            let joined = members.join(new, replaced, rate_bytes);
            if let Err(error) = &joined {
                error!(
                    device = %path.display(),
                    error = format!("{error:#}"),
                    "did not copy the flash to the device, which counts as blank"
                );
            }
            members.is_copying.store(false, Ordering::SeqCst);
            // Nobody waits if the command was interrupted; the log has it.
            drop(done.send(joined));
        };
        thread::Builder::new().name("copy".into()).spawn(work)?;
        Ok(waits)
    }

    /// Copies what the flash holds to a device, which then becomes a member.
    fn join(&self, mut new: NewMember, replaced: Member, rate_bytes: u64) -> Result<String> {
        let Open { mirror, lanes, joining, syncs, .. } = &self.open;
        let in_flash = |path: &Path| format!("`{}`", path.display());
        let mut source = MirrorStorage::new(lanes.clone(), Arc::clone(mirror), 0);
        let all_bytes = content_bytes(&mut source)?;
        let wanted_bytes = MEMBER_HEAD_BYTES + all_bytes;
        let file = &mut new.file;
        file.reserve(wanted_bytes).with_context(|| in_flash(&new.path))?;
        let found_bytes = file.size_bytes().with_context(|| in_flash(&new.path))?;
        ensure!(
            found_bytes >= wanted_bytes,
            "`{}`: it has {found_bytes} bytes, and the flash needs {wanted_bytes}: use a larger device",
            new.path.display()
        );
        // From here on it counts as blank, until everything is there.
        Label::erase(file).with_context(|| in_flash(&new.path))?;
        let lane = mirror.next_lane().context("too many devices joined: restart the server")?;
        let target = content(file)?;
        lanes.add(lane, target.try_clone()?);
        if let Some(syncs) = syncs {
            syncs.add(lane, &target)?;
        }
        joining.lock().unwrap_or_else(PoisonError::into_inner).insert(lane, file.try_clone()?);
        info!(device = %new.path.display(), bytes = all_bytes, "copying the mirrored flash to the device");
        // The lane has its file and its joint syncs before writers learn of it.
        ensure!(mirror.begin_join(lane, replaced), "another device joins");
        let copied = self.copy(&mut source, target, (lane, all_bytes), rate_bytes);
        let mut member = mirror.in_use().member_in(lane);
        // It failed when its label was due, and a note could not be written either.
        while let Some(failed) = member.filter(|_| copied.is_err()) {
            if mirror.fail(failed).is_err() {
                thread::sleep(NOTE_INTERVAL);
            }
            member = mirror.in_use().member_in(lane);
        }
        if let Some(member) = member {
            self.paths()[member as usize].clone_from(&new.path);
        }
        mirror.end_join(lane);
        self.close_unused();
        joining.lock().unwrap_or_else(PoisonError::into_inner).remove(&lane);
        let unreadable_bytes = copied.with_context(|| in_flash(&new.path))?;
        let member = member.context("it failed as soon as everything was there")?;
        info!(
            device = %new.path.display(),
            unreadable_bytes,
            "the flash is mirrored again: the configuration must name this device at the next start"
        );
        Ok(format!(
            "the {} device of the mirrored flash is `{}` now\nset `flash.path` and `flash.mirror` in the \
             configuration before the next start: a device that was replaced is refused\n",
            name(member),
            new.path.display()
        ))
    }

    /// Copies all, and has the device take its place. Returns how many bytes could not be read.
    fn copy(
        &self,
        source: &mut MirrorStorage<FileLanes>,
        mut target: DeviceFile,
        (lane, all_bytes): (Lane, u64),
        rate_bytes: u64,
    ) -> Result<u64> {
        let mut joining = Joining::new(&self.open.mirror, lane, all_bytes, PIECE_BYTES);
        let pace = Duration::from_secs_f64(PIECE_BYTES as f64 / rate_bytes as f64);
        let mut told = Instant::now();
        loop {
            let (begun, left) = (Instant::now(), joining.left());
            let ended = |error: io::Error| {
                let has_failed = error.kind() == io::ErrorKind::NotConnected;
                if has_failed { anyhow!("it failed a write or a sync") } else { error.into() }
            };
            match left {
                Left::Nothing if joining.finish(&mut target).map_err(ended)? => {
                    return Ok(joining.unreadable_bytes());
                }
                Left::Nothing => {}
                Left::Pieces | Left::Again => {
                    joining.read(source).map_err(ended)?;
                    joining.write(&mut target).map_err(ended)?;
                }
            }
            let took = begun.elapsed();
            // At least half of the time, clients have the devices for themselves.
            thread::sleep(match left {
                Left::Pieces => pace.saturating_sub(took).max(took),
                Left::Again | Left::Nothing => took.max(AGAIN_PAUSE),
            });
            if told.elapsed() > TOLD_INTERVAL
                && let Some([copied_bytes, all_bytes]) = self.open.mirror.join_progress()
            {
                told = Instant::now();
                info!(copied_bytes, all_bytes, "copying");
            }
        }
    }

    /// Close devices that are not used any more.
    fn close_unused(&self) {
        let Open { mirror, lanes, syncs, .. } = &self.open;
        lanes.close_unused(mirror);
        if let Some(syncs) = syncs {
            syncs.close_unused(mirror);
        }
    }
}
