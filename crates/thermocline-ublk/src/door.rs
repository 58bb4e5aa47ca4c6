//! The queue of a shard, as a door to what it serves.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use thermocline_nbd::doors::{Asked, Door};
use thermocline_nbd::durability::Durability;
use thermocline_nbd::protocol::{Command, ErrorCode};

use crate::abi::result;
use crate::device::Shared;
use crate::queue::{DriverQueue, Place, Queue};

/// Request of a tag in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    command: Command,
    length_bytes: u32,
    /// Writes that were answered when a flush came.
    covered: u64,
    /// `true` if the bytes of a read could not be handed over.
    has_failed: bool,
}

/// Message of the device's thread to that of a shard.
#[derive(Debug)]
pub(crate) struct Begin {
    pub(crate) place: Place,
    pub(crate) durability: Arc<Durability>,
}

/// A shard's queue of a block device.
#[derive(Debug)]
pub struct UblkDoor {
    queue: Box<dyn Queue>,
    begins: Receiver<Begin>,
    durability: Option<Arc<Durability>>,
    shared: Arc<Shared>,
    taken: Vec<Option<Taken>>,
    is_closed: bool,
}

impl UblkDoor {
    pub(crate) fn new(depth: u16, shared: &Arc<Shared>) -> std::io::Result<(Self, Sender<Begin>)> {
        Ok(Self::with(Box::new(DriverQueue::new(depth)?), shared))
    }

    fn with(queue: Box<dyn Queue>, shared: &Arc<Shared>) -> (Self, Sender<Begin>) {
        let (sender, begins) = channel();
        let (shared, taken) = (Arc::clone(shared), vec![]);
        (Self { queue, begins, durability: None, shared, taken, is_closed: false }, sender)
    }

    /// Begins with a queue that has come.
    fn begin(&mut self) {
        let Ok(Begin { place, durability }) = self.begins.try_recv() else { return };
        self.taken = vec![None; place.depth.into()];
        self.durability = Some(durability);
        if let Err(error) = self.queue.begin(place) {
            self.shared.fail(format!("cannot map the requests of a ublk queue: {error}"));
        }
    }

    fn durability(&self) -> &Durability {
        self.durability.as_ref().expect("a queue that has requests has begun")
    }

    /// Interpret a tag's request, or answer it at once.
    fn understand(&mut self, tag: u16, payload: &mut Vec<u8>) -> Result<Asked, ErrorCode> {
        let piece = self.queue.request(tag).piece().ok_or(ErrorCode::NotSupported)?;
        let mut covered = 0;
        if piece.command == Command::Write {
            payload.resize(piece.length_bytes as usize, 0);
            if let Err(error) = self.queue.take(tag, payload) {
                payload.clear();
                tracing::error!(%error, "ublk: cannot take the bytes of a write");
                return Err(ErrorCode::Io);
            }
        } else if piece.command == Command::Flush {
            covered = self.durability().covered();
        }
        let (command, length_bytes) = (piece.command, piece.length_bytes);
        let taken = Taken { command, length_bytes, covered, has_failed: false };
        self.taken[usize::from(tag)] = Some(taken);
        Ok(Asked { ticket: tag.into(), piece })
    }

    /// Return the answer to a request that was done.
    fn done(&self, taken: &Taken) -> Result<u32, ErrorCode> {
        match taken.command {
            Command::Flush if !self.durability().flushed(taken.covered) => Err(ErrorCode::Io),
            Command::Read if taken.has_failed => Err(ErrorCode::Io),
            Command::Read => Ok(taken.length_bytes),
            Command::Write => {
                self.durability().wrote();
                Ok(taken.length_bytes)
            }
            Command::Trim | Command::WriteZeroes => {
                self.durability().wrote();
                Ok(0)
            }
            Command::Flush
            | Command::Disconnect
            | Command::Cache
            | Command::BlockStatus
            | Command::Attach
            | Command::Await
            | Command::Demote
            | Command::Release
            | Command::Tell => Ok(0),
        }
    }
}

fn tag_of(ticket: u64) -> u16 {
    u16::try_from(ticket).expect("a ticket is a tag")
}

impl Door for UblkDoor {
    fn descriptor(&self) -> RawFd {
        self.queue.descriptor()
    }

    fn next_request(&mut self, payload: &mut Vec<u8>) -> Option<Asked> {
        self.begin();
        if self.is_closed && self.shared.keeps() {
            // The kernel gives what came meanwhile to the next server.
            return None;
        }
        while let Some((tag, come)) = self.queue.next() {
            if let Err(reason) = come {
                self.shared.ended(reason);
                continue;
            }
            match self.understand(tag, payload) {
                Ok(asked) => return Some(asked),
                Err(error) => self.queue.commit(tag, result(Err(error))),
            }
        }
        None
    }

    fn give(&mut self, ticket: u64, start_bytes: u32, bytes: &[u8]) {
        let tag = tag_of(ticket);
        if let Err(error) = self.queue.give(tag, start_bytes, bytes) {
            tracing::error!(%error, "ublk: cannot pass the bytes of a read");
            let taken = self.taken[usize::from(tag)].as_mut();
            taken.expect("a request in flight was taken").has_failed = true;
        }
    }

    fn answer(&mut self, ticket: u64, outcome: Result<(), ErrorCode>) {
        let tag = tag_of(ticket);
        let taken = self.taken[usize::from(tag)].take();
        let taken = taken.expect("a request in flight was taken");
        let outcome = outcome.and_then(|()| self.done(&taken));
        self.queue.commit(tag, result(outcome));
    }

    fn end_turn(&mut self) {
        self.queue.submit();
    }

    fn may_sleep(&mut self) -> bool {
        self.begin();
        self.queue.submit();
        self.is_closed && self.shared.keeps() || self.queue.is_quiet()
    }

    fn close(&mut self) {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.shared.close();
        }
    }

    fn is_needed(&self) -> bool {
        self.shared.is_stopping()
    }
}

#[cfg(test)]
mod tests;
