//! A device that loses what was not synced, in the ways that devices do.

use std::ops::Range;

use thermocline_core::random::SplitMix64;

/// One device: what it says now, what would be there after a power loss, and what is in between.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) now: Vec<u8>,
    durable: Vec<u8>,
    /// Writes that are complete and not synced: when, where, what.
    unsynced: Vec<(u64, usize, Vec<u8>)>,
    /// Size of an atomic write, in bytes.
    pub(crate) atom: usize,
    /// Writes so far, as a file system counts them by its clock.
    pub(crate) writes: u64,
}

impl Disk {
    pub(crate) fn new(bytes: usize, atom: usize) -> Self {
        Self { now: vec![0; bytes], durable: vec![0; bytes], unsynced: vec![], atom, writes: 0 }
    }

    pub(crate) fn write(&mut self, time: u64, offset: usize, bytes: &[u8]) {
        self.writes += 1;
        self.now[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.unsynced.push((time, offset, bytes.to_vec()));
    }

    /// Notes a write that the power failure cuts off: it may come through in part.
    pub(crate) fn cut_off(&mut self, time: u64, offset: usize, bytes: Vec<u8>) {
        self.unsynced.push((time, offset, bytes));
    }

    /// Makes durable what was complete before that time.
    pub(crate) fn sync(&mut self, time: u64) {
        let durable = &mut self.durable;
        self.unsynced.retain(|(written, offset, bytes)| {
            let is_covered = *written < time;
            if is_covered {
                durable[*offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            !is_covered
        });
    }

    /// Return `true` if a part of the range is written and not synced.
    pub(crate) fn is_unsynced(&self, range: &Range<usize>) -> bool {
        self.unsynced
            .iter()
            .any(|(_, start, bytes)| *start < range.end && range.start < start + bytes.len())
    }

    /// Changes bytes behind the engine's back.
    pub(crate) fn spoil(&mut self, range: Range<usize>, change: impl Fn(&mut u8)) {
        for place in range.clone() {
            change(&mut self.now[place]);
            self.durable[place] = self.now[place];
        }
        // A sync does not put right what rotted before it.
        self.show_in_unsynced(range);
    }

    /// Write as another program would, durably.
    pub(crate) fn write_alone(&mut self, offset: usize, bytes: &[u8]) {
        self.writes += 1;
        self.put(offset, bytes);
    }

    /// Puts bytes there durably, behind the engine's back.
    pub(crate) fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.now[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.durable[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.show_in_unsynced(offset..offset + bytes.len());
    }

    /// Copy the current bytes to the unsynced state, or the next sync would bring back older ones.
    fn show_in_unsynced(&mut self, range: Range<usize>) {
        for (_, start, bytes) in &mut self.unsynced {
            let end = *start + bytes.len();
            for place in range.start.max(*start)..range.end.min(end) {
                bytes[place - *start] = self.now[place];
            }
        }
    }

    /// Fail a sync. Writes since the last good one may be gone for good, whether or not
    /// the page cache still shows it.
    pub(crate) fn fail_sync(&mut self, random: &mut SplitMix64, still_shows: bool) {
        self.unsynced.retain(|_| random.bits().is_multiple_of(2));
        if !still_shows {
            self.show_what_it_has();
        }
    }

    /// Show the contents of the medium: the page cache no longer shows writes that a failed sync
    /// has dropped.
    pub(crate) fn show_what_it_has(&mut self) {
        self.now.copy_from_slice(&self.durable);
        for (_, offset, bytes) in &self.unsynced {
            self.now[*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Cut the power: of everything that is not durable, some atoms survive.
    pub(crate) fn crash(&mut self, random: &mut SplitMix64) {
        let share = [0, 50, 90, 100][(random.bits() % 4) as usize];
        for (_, offset, bytes) in std::mem::take(&mut self.unsynced) {
            for (index, atom) in bytes.chunks(self.atom).enumerate() {
                if random.bits() % 100 < share {
                    let start = offset + index * self.atom;
                    self.durable[start..start + atom.len()].copy_from_slice(atom);
                }
            }
        }
        self.now.copy_from_slice(&self.durable);
    }

    /// Adds bytes of zero at the end.
    pub(crate) fn grow(&mut self, bytes: usize) {
        let length = self.now.len() + bytes;
        self.now.resize(length, 0);
        self.durable.resize(length, 0);
    }
}
