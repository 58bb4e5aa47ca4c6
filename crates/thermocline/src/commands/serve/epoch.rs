//! The end of a start: the epoch of the flash begins while reads are served.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use anyhow::{Context as _, Error, Result, anyhow};
use thermocline_engine::driver::flash::FlashDevice;
use thermocline_engine::driver::joint::JointFile;
use thermocline_engine::{Flash, FlashSet, MirrorStorage, Shard, SideFile, Storage};
use thermocline_nbd::server::Handle;
use tracing::info;

use super::kept_note::Note;
use super::shared_flash::JointLanes;
use crate::note::NotePlace;

/// The steps of a start between the first read and the first write.
#[derive(Debug)]
pub(crate) enum Beginning {
    /// A flash that was found begins an epoch; then the note says so.
    Flash(Box<FoundFlash>),
    /// A flash that was set up is in its first epoch: only the note is left to write.
    Note(Arc<Note>),
    /// There is no flash.
    Alone(FirstNote),
}

/// Content that the note needs before the first write. A start that fails before that leaves the note as the
/// last stop did, but for saying that a start began.
#[derive(Clone, Debug)]
pub(crate) struct FirstNote(pub(crate) Option<(NotePlace, SideFile)>);

impl FirstNote {
    /// Writes it, durably.
    ///
    /// # Errors
    /// If the note cannot be written.
    pub(crate) fn write(self) -> Result<()> {
        self.0.map_or(Ok(()), |(place, side_file)| Ok(place.store(side_file)?))
    }
}

/// A flash, or the region of a volume.
#[derive(Debug)]
pub(crate) enum FlashFile {
    /// Nobody else writes to the flash until the epoch has begun.
    Alone(FlashDevice),
    /// Other volumes write to the flash.
    Joint(JointFile),
    /// The same of a mirrored flash.
    JointPair(MirrorStorage<JointLanes>),
}

impl FlashFile {
    /// Return it as anything that can be read, written and synced.
    pub(crate) fn as_storage(&mut self) -> &mut dyn Storage {
        match self {
            Self::Alone(file) => file,
            Self::Joint(file) => file,
            Self::JointPair(pair) => pair,
        }
    }
}

/// A flash whose epoch has still to begin.
#[derive(Debug)]
pub(crate) struct FoundFlash {
    pub(crate) flash: FlashSet,
    pub(crate) file: FlashFile,
    pub(crate) note: Arc<Note>,
    /// The key of the configuration and the path, for errors.
    pub(crate) place: String,
}

impl FoundFlash {
    /// Takes the steps [`BeginEpoch`](thermocline_engine::Step::BeginEpoch) and
    /// [`WriteNote`](thermocline_engine::Step::WriteNote).
    fn begin(mut self) -> Result<FlashSet> {
        self.flash.take_over(self.file.as_storage()).context(self.place)?;
        // After the epoch is durable: a note that names a later epoch makes the flash look like an old
        // copy.
        self.note.begin()?;
        Ok(self.flash)
    }
}

impl Beginning {
    /// Takes the steps, and wakes the server at their end. If they may take long, a thread of their own
    /// takes them. Returns what each shard waits for.
    ///
    /// # Errors
    /// If the note cannot be written, or the system gives no thread.
    pub(crate) fn start(self, server: Handle, shards: usize) -> Result<Vec<Begins>> {
        let begun = || (0..shards).map(|_| Begins::default()).collect();
        let found = match self {
            Self::Flash(found) => found,
            Self::Note(note) => return note.begin().map(|()| begun()),
            Self::Alone(note) => return note.write().map(|()| begun()),
        };
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..shards).map(|_| channel()).unzip();
        // Another attempt to read the journal might find other pages than the first reads would show.
        let is_settled = found.flash.is_settled();
        let work = move || {
            // A server that takes nothing any more has ended.
            match found.begin() {
                Ok(flash) => {
                    for (sender, flash) in senders.iter().zip(flash.flashes()) {
                        drop(sender.send(Ok(flash.clone())));
                    }
                }
                // The first one says it for all.
                Err(error) => drop(senders[0].send(Err(error))),
            }
            drop(senders);
            server.wake();
        };
        if is_settled {
            std::thread::Builder::new()
                .name("epoch".into())
                .spawn(work)
                .context("cannot start the thread that begins the epoch of the flash")?;
        } else {
            work();
        }
        let begins = |receiver| Begins { thread: Some(receiver), failed: None };
        Ok(receivers.into_iter().map(begins).collect())
    }
}

/// An epoch that begins in the background for a shard, or has begun.
#[derive(Debug, Default)]
pub(crate) struct Begins {
    /// Result of the thread; `None` once it was taken, or without a thread.
    thread: Option<Receiver<Result<Flash>>>,
    failed: Option<Error>,
}

impl Begins {
    /// Has the shard write from now on if the epoch has begun since the last look. Stops the server if it
    /// cannot begin: nothing was written for a client.
    pub(crate) fn look(&mut self, shard: &mut Shard, server: &Handle) {
        let Some(thread) = &self.thread else { return };
        let begun = match thread.try_recv() {
            Ok(begun) => begun,
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => Err(thread_died()),
        };
        match self.has_begun(begun, shard) {
            // The next turn serves the writes that wait.
            Ok(()) => server.wake(),
            Err(error) => {
                self.failed = Some(error);
                server.stop();
            }
        }
    }

    /// Waits until the epoch has begun.
    ///
    /// # Errors
    /// If it cannot begin.
    pub(crate) fn finish(&mut self, shard: &mut Shard) -> Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let Some(thread) = &self.thread else { return Ok(()) };
        let begun = thread.recv().unwrap_or_else(|_| Err(thread_died()));
        self.has_begun(begun, shard)
    }

    fn has_begun(&mut self, begun: Result<Flash>, shard: &mut Shard) -> Result<()> {
        self.thread = None;
        shard.epoch_has_begun(&begun?);
        if shard.options().share.index == 0 {
            info!("the flash has begun a new epoch: serving writes");
        }
        Ok(())
    }
}

fn thread_died() -> Error {
    anyhow!("the thread that begins the epoch of the flash has died")
}
