//! One ring that a guest shares with us: requests out of it, answers into it.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slab::Slab;
use thermocline_nbd::durability::Durability;
use thermocline_nbd::protocol::{Command, ErrorCode};
use thermocline_nbd::service::Piece;
use virtio_queue::{Queue, QueueOwnedT as _, QueueT as _};
use vm_memory::{GuestAddress, GuestMemoryMmap};

use crate::block::{Device, HEADER_BYTES, Status, Wish, understand};
use crate::chain::{self, Chain, Malformed, Segment, length_bytes};
use crate::in_flight::Notes;

/// Maximum number of bytes of a request other than a write: a range to be discarded or zeroed, and
/// a byte more, so that a longer request is not mistaken for one that fits.
const DATA_BYTES_MAX: usize = 17;

/// Location of a ring, and its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) size: u16,
    pub(crate) descriptors: GuestAddress,
    pub(crate) available: GuestAddress,
    pub(crate) used: GuestAddress,
    /// The index of the first request that was not taken.
    pub(crate) next_available: u16,
    /// `true` if both sides say from which index on they want to be told (`VIRTIO_RING_F_EVENT_IDX`).
    pub(crate) has_event_index: bool,
}

/// A request that was taken.
#[derive(Debug)]
struct Taken {
    head: u16,
    /// Command of the service; a read if it does nothing.
    command: Command,
    /// Writes that it covers if it is a flush.
    covered: u64,
    /// The memory as it was then, which must not go before the request is answered.
    memory: Arc<GuestMemoryMmap>,
    /// Room for what a read finds, and for the status as the last byte.
    writable: Vec<Segment>,
    /// Bytes that are in it for the guest when it succeeds, the status not counted.
    found_bytes: u64,
}

/// Use of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Disabled,
    Enabled,
    /// It contradicts itself, and is not looked at any more.
    Broken,
}

/// A ring at work.
#[derive(Debug)]
pub(crate) struct Ring {
    queue: Queue,
    memory: Arc<GuestMemoryMmap>,
    /// The guest raises this when it has put requests there.
    pub(crate) kick: File,
    /// We raise this when there are answers.
    pub(crate) call: Option<File>,
    notes: Option<Notes>,
    durability: Arc<Durability>,
    taken: Slab<Taken>,
    /// Requests that an earlier server left.
    again: VecDeque<u16>,
    state: State,
    has_answers: bool,
    /// `true` if the guest is asked to signal requests.
    is_told: bool,
}

impl Ring {
    /// Create a ring in existing memory; `None` if it does not lie within that. `notes` creates the
    /// notes of a ring from its used index.
    pub(crate) fn new(
        layout: Layout,
        memory: &Arc<GuestMemoryMmap>,
        kick: File,
        call: Option<File>,
        (notes, durability): (impl FnOnce(u16) -> Option<Option<Notes>>, Arc<Durability>),
    ) -> Option<Self> {
        let mut queue = Queue::new(layout.size).ok()?;
        queue.try_set_desc_table_address(layout.descriptors).ok()?;
        queue.try_set_avail_ring_address(layout.available).ok()?;
        queue.try_set_used_ring_address(layout.used).ok()?;
        queue.set_event_idx(layout.has_event_index);
        queue.set_ready(true);
        if !queue.is_valid(&**memory) {
            return None;
        }
        let used = queue.used_idx(&**memory, Ordering::Acquire).ok()?.0;
        queue.set_next_used(used);
        let notes = notes(used)?;
        let again: VecDeque<u16> = notes.iter().flat_map(Notes::left).collect();
        // With notes it is known what was taken; the monitor knows only what was answered.
        let left = u16::try_from(again.len()).expect("as many as a ring has descriptors");
        let next = if notes.is_some() { used.wrapping_add(left) } else { layout.next_available };
        queue.set_next_avail(next);
        Some(Self {
            queue,
            memory: Arc::clone(memory),
            kick,
            call,
            notes,
            durability,
            taken: Slab::new(),
            again,
            state: State::Disabled,
            has_answers: false,
            is_told: true,
        })
    }

    /// Looks into other memory from now on, in which the ring lies where it did.
    pub(crate) fn set_memory(&mut self, memory: &Arc<GuestMemoryMmap>) {
        self.memory = Arc::clone(memory);
        if !self.queue.is_valid(&**memory) {
            self.give_up("it does not lie in the guest's memory any more");
        }
    }

    /// Looks at it from now on, or does not.
    pub(crate) fn enable(&mut self, is_enabled: bool) {
        if self.state != State::Broken {
            self.state = if is_enabled { State::Enabled } else { State::Disabled };
        }
    }

    /// Return `true` if no request is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.taken.is_empty()
    }

    /// Return the index of the first request that was not taken.
    pub(crate) fn next_available(&self) -> u16 {
        self.queue.next_avail()
    }

    /// Takes the next request that the service is for: its number, and what it wants.
    pub(crate) fn next(&mut self, device: &Device, payload: &mut Vec<u8>) -> Option<(u32, Piece)> {
        // A guest that adds requests as fast as they are refused must not keep the thread.
        for _ in 0..self.queue.size() {
            if self.state != State::Enabled {
                return None;
            }
            let is_new = self.again.is_empty();
            let head = self.again.pop_front().or_else(|| self.pop())?;
            if head >= self.queue.size() {
                self.give_up("a request begins with a descriptor that is none");
                return None;
            }
            if self.taken.len() >= usize::from(self.queue.size()) {
                self.give_up("it has more requests in flight than descriptors");
                return None;
            }
            if is_new && let Some(notes) = &mut self.notes {
                notes.begin(head);
            }
            if let Some(found) = self.take(head, device, payload) {
                return Some(found);
            }
        }
        None
    }

    /// Return the head of the next request in the ring.
    fn pop(&mut self) -> Option<u16> {
        let memory = &*self.memory;
        let mut iter = match self.queue.iter(memory) {
            Ok(iter) => iter,
            Err(error) => {
                self.give_up(&error.to_string());
                return None;
            }
        };
        let head = iter.next()?.head_index();
        if std::mem::take(&mut self.is_told) && self.queue.disable_notification(memory).is_err() {
            self.give_up("it cannot be written");
        }
        Some(head)
    }

    /// Understands a request. Returns it if the service is to do it; others are answered.
    fn take(&mut self, head: u16, device: &Device, payload: &mut Vec<u8>) -> Option<(u32, Piece)> {
        let memory = Arc::clone(&self.memory);
        let table = GuestAddress(self.queue.desc_table());
        let (wish, writable) = match Chain::walk(&memory, table, self.queue.size(), head) {
            Ok(chain) => (wish(&memory, &chain, payload), chain.writable),
            Err(Malformed(chain)) => (Wish::Answer(Status::Failed), chain.writable),
        };
        let mut taken =
            Taken { head, command: Command::Read, covered: 0, memory, writable, found_bytes: 0 };
        match wish {
            Wish::Serve(piece) => {
                taken.command = piece.command;
                // Now, not at the end: writes that are answered while a flush is under way need not be
                // in it.
                taken.covered = self.durability.covered();
                if piece.command == Command::Read {
                    taken.found_bytes = piece.length_bytes.into();
                }
                let number = self.taken.insert(taken);
                return Some((u32::try_from(number).expect("a ring is short"), piece));
            }
            Wish::Id => {
                let id = device.id_bytes();
                let room = length_bytes(&taken.writable).saturating_sub(1);
                let shown = usize::try_from(room).unwrap_or(usize::MAX).min(id.len());
                let is_shown = chain::write(&taken.memory, &taken.writable, 0, &id[..shown]);
                taken.found_bytes = shown as u64;
                self.finish(&taken, if is_shown { Status::Done } else { Status::Failed });
            }
            Wish::Answer(status) => self.finish(&taken, status),
        }
        None
    }

    /// Takes bytes that a read found.
    pub(crate) fn give(&self, number: u32, start_bytes: u32, bytes: &[u8]) {
        let taken = &self.taken[number as usize];
        // Bytes for which the guest has no memory are lost; that is the guest's own fault.
        let is_there = chain::write(&taken.memory, &taken.writable, start_bytes.into(), bytes);
        if !is_there {
            tracing::debug!(head = taken.head, "a guest's read names memory that does not exist");
        }
    }

    /// Answers a request that the service did.
    pub(crate) fn answer(&mut self, number: u32, outcome: Result<(), ErrorCode>) {
        let taken = self.taken.remove(number as usize);
        let may_succeed = match taken.command {
            _ if outcome.is_err() => false,
            Command::Flush => self.durability.flushed(taken.covered),
            Command::Write | Command::WriteZeroes | Command::Trim => {
                // The note comes before the guest sees the answer.
                self.durability.wrote();
                true
            }
            Command::Read
            | Command::Cache
            | Command::BlockStatus
            | Command::Disconnect
            | Command::Attach
            | Command::Await
            | Command::Demote
            | Command::Release
            | Command::Tell => true,
        };
        let status = match outcome {
            Ok(()) if may_succeed => Status::Done,
            Err(ErrorCode::NotSupported) => Status::Unsupported,
            Ok(())
            | Err(
                ErrorCode::NotPermitted
                | ErrorCode::Io
                | ErrorCode::NoMemory
                | ErrorCode::Invalid
                | ErrorCode::NoSpace
                | ErrorCode::Overflow
                | ErrorCode::ShuttingDown,
            ) => Status::Failed,
        };
        self.finish(&taken, status);
    }

    fn finish(&mut self, taken: &Taken, status: Status) {
        let Taken { head, memory, writable, found_bytes, .. } = taken;
        let room = length_bytes(writable);
        // Before the used ring names the request: from then on the guest may use the memory for
        // something else.
        let has_status = room > 0 && chain::write(memory, writable, room - 1, &[status.byte()]);
        let found = if status == Status::Done { *found_bytes } else { 0 };
        let used_bytes = if has_status { u32::try_from(found + 1).unwrap_or(u32::MAX) } else { 0 };
        if let Some(notes) = &self.notes {
            // In this order around the used ring, a later server can tell an answer from a request that
            // is lost.
            notes.answering(*head);
        }
        if self.queue.add_used(&*self.memory, *head, used_bytes).is_err() {
            return self.give_up("it cannot be written");
        }
        if let Some(notes) = &self.notes {
            notes.answered(*head, self.queue.next_used());
        }
        self.has_answers = true;
    }

    /// Signal answers to the guest, if it wants that.
    pub(crate) fn tell(&mut self) {
        if !std::mem::take(&mut self.has_answers) {
            return;
        }
        match self.queue.needs_notification(&*self.memory) {
            Ok(true) => {
                if let Some(call) = &self.call {
                    // A full counter tells as well.
                    let _full = rustix::io::write(call, &1_u64.to_ne_bytes());
                }
            }
            Ok(false) => {}
            Err(error) => self.give_up(&error.to_string()),
        }
    }

    /// Ask the guest to signal requests. Returns `true` if there are none.
    pub(crate) fn wait(&mut self) -> bool {
        if self.state != State::Enabled {
            return true;
        }
        // Asked first, looked afterwards: a request that came in between would not be signalled.
        self.is_told = true;
        match self.queue.enable_notification(&*self.memory) {
            Ok(is_any) => !is_any && self.again.is_empty(),
            Err(error) => {
                self.give_up(&error.to_string());
                true
            }
        }
    }

    fn give_up(&mut self, reason: &str) {
        tracing::warn!(reason, "invalid ring of a guest: the server stops serving it");
        self.state = State::Broken;
    }
}

/// Interpret the request in a chain; its bytes go to `payload`.
fn wish(memory: &GuestMemoryMmap, chain: &Chain, payload: &mut Vec<u8>) -> Wish {
    let (written, room) = (length_bytes(&chain.readable), length_bytes(&chain.writable));
    let mut header = [0; HEADER_BYTES];
    let failed = Wish::Answer(Status::Failed);
    // The last byte that may be written is for the status.
    let (Some(data_bytes), Some(room)) =
        (written.checked_sub(HEADER_BYTES as u64), room.checked_sub(1))
    else {
        return failed;
    };
    let skip = HEADER_BYTES as u64;
    let mut data = [0; DATA_BYTES_MAX];
    let shown = usize::try_from(data_bytes).unwrap_or(usize::MAX).min(DATA_BYTES_MAX);
    let data = &mut data[..shown];
    if !chain::read(memory, &chain.readable, 0, &mut header)
        || !chain::read(memory, &chain.readable, skip, data)
    {
        return failed;
    }
    let found = understand(header, data_bytes, data, room);
    if let Wish::Serve(Piece { command: Command::Write, length_bytes, .. }) = found {
        payload.resize(length_bytes as usize, 0);
        if !chain::read(memory, &chain.readable, skip, payload) {
            return failed;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_with_a_request_is_not_waited_for() {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x1_0000)]).unwrap();
        let memory = Arc::new(memory);
        let layout = Layout {
            size: 8,
            descriptors: GuestAddress(0x1000),
            available: GuestAddress(0x2000),
            used: GuestAddress(0x3000),
            ..Layout::default()
        };
        let kick = tempfile::tempfile().unwrap();
        let notes = (|_| Some(None), Arc::new(Durability::new(None, false, false)));
        let mut ring = Ring::new(layout, &memory, kick, None, notes).unwrap();
        ring.enable(true);
        assert!(ring.wait(), "there is nothing in it");
        // The guest puts a request there just before we sleep, and was not asked to tell.
        vm_memory::Bytes::write_obj(&*memory, 1_u16, GuestAddress(0x2002)).unwrap();
        assert!(!ring.wait());
        ring.enable(false);
        assert!(ring.wait(), "nobody looks at it");
    }
}
