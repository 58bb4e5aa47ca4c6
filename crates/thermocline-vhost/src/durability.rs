//! Whether writes were answered that no flush covered.
//!
//! A guest goes on when its server is killed, and takes what was answered for kept until a flush says
//! otherwise. What the server had in memory only is gone then, and the next server's flush would vouch for
//! it. So each server notes, in the memory that the monitor keeps, that there are such writes; a server that
//! finds the note of another one fails the guest's first flush.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::in_flight::Area;

/// What is known of the writes of a virtual machine.
#[derive(Debug)]
pub(crate) struct Durability {
    area: Option<Area>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Writes, zeroes and discards that were answered.
    answered: u64,
    /// Whether the note says that some of them are not durable.
    is_noted: bool,
    /// Whether a killed server may have lost some.
    is_doubtful: bool,
}

impl Durability {
    /// Reads the note; `run` is this server's own number.
    pub(crate) fn new(area: Option<Area>, run: u32) -> Self {
        let noted = area.as_ref().map_or((run, false), Area::unflushed);
        let (writer, is_noted) = noted;
        let is_doubtful = is_noted && writer != run;
        if is_doubtful {
            tracing::warn!(
                "a server was killed that had answered writes which no flush covered: they may be lost, and \
                 the virtual machine's next flush fails"
            );
        }
        if let Some(area) = &area {
            area.note_unflushed(run, is_noted);
        }
        Self { area, state: Mutex::new(State { answered: 0, is_noted, is_doubtful }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, state: &mut State, is_noted: bool) {
        if state.is_noted != is_noted {
            state.is_noted = is_noted;
            if let Some(area) = &self.area {
                area.set_unflushed(is_noted);
            }
        }
    }

    /// A write is about to be answered.
    pub(crate) fn wrote(&self) {
        let mut state = self.lock();
        state.answered += 1;
        self.note(&mut state, true);
    }

    /// A flush was taken: it covers so many writes.
    pub(crate) fn covered(&self) -> u64 {
        self.lock().answered
    }

    /// A flush that covers so many writes is about to be answered. Returns whether it may say that they are
    /// durable; if not, the next one may.
    pub(crate) fn flushed(&self, covered: u64) -> bool {
        let mut state = self.lock();
        let is_doubtful = std::mem::take(&mut state.is_doubtful);
        if state.answered == covered {
            self.note(&mut state, false);
        }
        !is_doubtful
    }

    /// Everything that was answered is durable: the server ends in order.
    pub(crate) fn settle(&self) {
        let mut state = self.lock();
        if !state.is_doubtful {
            self.note(&mut state, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_flight::area_bytes;

    #[test]
    fn a_flush_covers_what_was_answered_before_it_was_taken() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(area_bytes(1, 8)).unwrap();
        let area = Area::new(file, 0, area_bytes(1, 8), 1, 8).unwrap();
        let durability = Durability::new(Some(area.clone()), 7);
        assert_eq!(area.unflushed(), (7, false));
        durability.wrote();
        let covered = durability.covered();
        durability.wrote();
        assert!(durability.flushed(covered));
        assert_eq!(area.unflushed(), (7, true), "the second write came after the flush");
        let covered = durability.covered();
        assert!(durability.flushed(covered));
        assert_eq!(area.unflushed(), (7, false));
        durability.wrote();
        durability.settle();
        assert_eq!(area.unflushed(), (7, false));
    }
}
