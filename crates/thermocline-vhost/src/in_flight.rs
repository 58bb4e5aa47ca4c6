//! Requests in flight, in memory that the monitor keeps while this process is away.
//!
//! For each descriptor there is a note that says whether a request that begins with it is in flight. A
//! server that comes after one that was killed takes these up again, in the order in which they came. So
//! no request is lost; one may be done twice, which for a disk is as good as once.
//!
//! Source: "Vhost-user Protocol", section "Inflight I/O tracking", the layout for split virtqueues.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use thermocline_nbd::durability::Note;
use vm_memory::{Bytes as _, MmapRegion, VolatileMemory as _, VolatileSlice};

use crate::mapping::map;

/// The first ring's features, which are zero for now and of which nobody else makes anything: the number of
/// the server that wrote them, and whether writes were answered that no flush covered.
const RUN: usize = 0;
const UNFLUSHED: usize = 4;
/// Size of the header before the notes of a ring: features, version, number of notes, head of the
/// list of those that were answered last, index of the used ring.
const HEADER_BYTES: usize = 16;
const VERSION: usize = 8;
const NOTES: usize = 10;
const LAST_BATCH: usize = 12;
const USED_INDEX: usize = 14;
/// A note: whether it is in flight, the next in the list, a number that grows from request to request.
const NOTE_BYTES: usize = 16;
const NEXT: usize = 6;
const COUNTER: usize = 8;
/// Rings begin at multiples of this.
const ALIGNMENT_BYTES: usize = 64;

/// Return the number of bytes of one ring's notes.
fn ring_bytes(size: u16) -> usize {
    (HEADER_BYTES + usize::from(size) * NOTE_BYTES).next_multiple_of(ALIGNMENT_BYTES)
}

/// Return the number of bytes for the notes of all rings.
pub(crate) fn area_bytes(rings: u16, size: u16) -> u64 {
    (usize::from(rings) * ring_bytes(size)) as u64
}

/// The notes of all rings.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    region: Arc<MmapRegion>,
    rings: u16,
    size: u16,
}

impl Area {
    /// Maps them; nothing if the file is too short for so many.
    pub(crate) fn new(file: File, offset: u64, bytes: u64, rings: u16, size: u16) -> Option<Self> {
        if rings == 0 || bytes < area_bytes(rings, size) {
            return None;
        }
        let region = map(file, offset, bytes);
        Some(Self { region: Arc::new(region.ok()?), rings, size })
    }

    /// Return the server that noted last that writes were answered that no flush covered, and
    /// `true` if there are any.
    pub(crate) fn unflushed(&self) -> (u32, bool) {
        let word = |place| self.header().load::<u32>(place, Ordering::Acquire);
        let (run, is_unflushed) = (word(RUN), word(UNFLUSHED));
        (run.expect("it lies within"), is_unflushed.expect("it lies within") != 0)
    }

    /// Notes that, as this server.
    pub(crate) fn note_unflushed(&self, run: u32, is_unflushed: bool) {
        self.set_unflushed(is_unflushed);
        self.header().store(run, RUN, Ordering::Release).expect("it lies within");
    }

    fn header(&self) -> VolatileSlice<'_> {
        self.region.get_slice(0, HEADER_BYTES).expect("the area has a ring at least")
    }

    /// Return the notes of one ring of this size, whose used ring has come to `used_index`.
    pub(crate) fn ring(&self, number: u16, size: u16, used_index: u16) -> Option<Notes> {
        if number >= self.rings || size > self.size {
            return None;
        }
        let start = usize::from(number) * ring_bytes(self.size);
        let mut notes = Notes { region: Arc::clone(&self.region), start, size, counter: 0 };
        notes.recover(used_index);
        Some(notes)
    }
}

impl Note for Area {
    fn set_unflushed(&self, is_unflushed: bool) {
        let word = u32::from(is_unflushed);
        self.header().store(word, UNFLUSHED, Ordering::Release).expect("it lies within");
    }
}

/// The notes of one ring.
#[derive(Debug)]
pub(crate) struct Notes {
    region: Arc<MmapRegion>,
    start: usize,
    size: u16,
    counter: u64,
}

impl Notes {
    fn bytes(&self) -> VolatileSlice<'_> {
        let length = HEADER_BYTES + usize::from(self.size) * NOTE_BYTES;
        self.region.get_slice(self.start, length).expect("the area is long enough for its rings")
    }

    fn u16_at(&self, place: usize) -> u16 {
        self.bytes().load(place, Ordering::Relaxed).expect("it lies within")
    }

    fn put_u16(&self, place: usize, value: u16) {
        self.bytes().store(value, place, Ordering::Release).expect("it lies within");
    }

    fn place(head: u16) -> usize {
        HEADER_BYTES + usize::from(head) * NOTE_BYTES
    }

    fn is_in_flight(&self, head: u16) -> bool {
        self.bytes().load::<u8>(Self::place(head), Ordering::Relaxed).expect("it lies within") != 0
    }

    fn set(&self, head: u16, is_in_flight: bool) {
        let value = u8::from(is_in_flight);
        self.bytes().store(value, Self::place(head), Ordering::Release).expect("it lies within");
    }

    fn counter_of(&self, head: u16) -> u64 {
        self.bytes().load(Self::place(head) + COUNTER, Ordering::Relaxed).expect("it lies within")
    }

    /// Puts right what a server left that was killed between an answer and its note.
    fn recover(&mut self, used_index: u16) {
        if self.u16_at(VERSION) == 0 {
            self.put_u16(VERSION, 1);
            self.put_u16(NOTES, self.size);
        } else if self.u16_at(USED_INDEX) != used_index {
            let mut head = self.u16_at(LAST_BATCH);
            let answered = used_index.wrapping_sub(self.u16_at(USED_INDEX)).min(self.size);
            for _ in 0..answered {
                // The memory is the monitor's: it may hold anything.
                if head >= self.size {
                    break;
                }
                self.set(head, false);
                head = self.u16_at(Self::place(head) + NEXT);
            }
        }
        self.put_u16(USED_INDEX, used_index);
        self.counter = self.left().last().map_or(0, |&head| self.counter_of(head).wrapping_add(1));
    }

    /// Return the requests that were not answered, in the order in which they came.
    pub(crate) fn left(&self) -> Vec<u16> {
        let mut heads: Vec<u16> = (0..self.size).filter(|&head| self.is_in_flight(head)).collect();
        heads.sort_by_key(|&head| self.counter_of(head));
        heads
    }

    /// Note that a request was taken.
    pub(crate) fn begin(&mut self, head: u16) {
        // The number before the mark: a request that is marked with an old number would be taken up in
        // the wrong order.
        let place = Self::place(head) + COUNTER;
        self.bytes().store(self.counter, place, Ordering::Release).expect("it lies within");
        self.counter = self.counter.wrapping_add(1);
        self.set(head, true);
    }

    /// Note that a request is about to be answered.
    pub(crate) fn answering(&self, head: u16) {
        self.put_u16(Self::place(head) + NEXT, self.u16_at(LAST_BATCH));
        // The list is whole before the used ring moves (the fence): a later server walks along it.
        self.put_u16(LAST_BATCH, head);
        fence(Ordering::SeqCst);
    }

    /// Note that it was answered; the used ring has come to this index.
    pub(crate) fn answered(&self, head: u16, used_index: u16) {
        fence(Ordering::SeqCst);
        self.set(head, false);
        // Last: as long as it differs from the used ring's index, a later server looks at the list of
        // the last answers.
        self.put_u16(USED_INDEX, used_index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area() -> (File, Area) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(area_bytes(2, 8)).unwrap();
        let again = file.try_clone().unwrap();
        (file, Area::new(again, 0, area_bytes(2, 8), 2, 8).unwrap())
    }

    #[test]
    fn what_was_not_answered_is_found_again_in_its_order() {
        let (file, first) = area();
        let mut notes = first.ring(1, 8, 40).unwrap();
        for head in [5, 2, 7] {
            notes.begin(head);
        }
        notes.answering(2);
        notes.answered(2, 41);
        notes.begin(3);
        // Killed between the ring's index and the note.
        notes.answering(7);
        let again = Area::new(file, 0, area_bytes(2, 8), 2, 8).unwrap();
        let mut later = again.ring(1, 8, 42).unwrap();
        assert_eq!(later.left(), [5, 3]);
        later.begin(0);
        assert_eq!(later.left(), [5, 3, 0]);
        assert!(again.ring(0, 8, 7).unwrap().left().is_empty(), "the other ring has its own");
        // Killed before the ring's index: the request was not answered.
        later.answering(5);
        assert_eq!(again.ring(1, 8, 42).unwrap().left(), [5, 3, 0]);
    }

    #[test]
    fn areas_that_do_not_fit_are_refused() {
        let (file, area) = area();
        assert!(area.ring(2, 8, 0).is_none() && area.ring(0, 16, 0).is_none());
        let short = file.try_clone().unwrap();
        assert!(Area::new(short, 0, area_bytes(2, 8) - 1, 2, 8).is_none());
        assert!(Area::new(file, 0, 1 << 20, 2, 8).is_none(), "the file is shorter than that");
    }

    #[test]
    fn whatever_the_monitor_left_there_is_read() {
        let (file, area) = area();
        let mut text = vec![0xff; usize::try_from(area_bytes(2, 8)).unwrap()];
        text[LAST_BATCH] = 9;
        std::os::unix::fs::FileExt::write_all_at(&file, &text, 0).unwrap();
        let mut notes = area.ring(0, 8, 3).unwrap();
        assert_eq!(notes.left().len(), 8);
        notes.begin(1);
    }
}
