//! Keeps track of answered writes that no flush covered.
//!
//! Users of a door may go on when their server is killed, and take what was answered for kept until a flush
//! says otherwise. The content that the server had in memory only is gone then, and the next server's flush would vouch
//! for it. So each server notes, where the next one finds it, that there are such writes; a server that finds
//! the note of another one fails the first flush.

use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Note of a server that it answered writes which no flush covered.
pub trait Note: Debug + Send + Sync {
    /// Notes whether there are any.
    fn set_unflushed(&self, is_unflushed: bool);
}

/// Durability of the writes of a door's users.
#[derive(Debug)]
pub struct Durability {
    note: Option<Box<dyn Note>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Writes, zeroes and discards that were answered.
    answered: u64,
    /// `true` if the note says that some of them are not durable.
    is_noted: bool,
    /// `true` if a killed server may have lost some.
    is_doubtful: bool,
}

impl Durability {
    /// Start from the note (`is_noted`) and from the fact that a killed server may have lost writes
    /// (`is_doubtful`).
    pub fn new(note: Option<Box<dyn Note>>, is_noted: bool, is_doubtful: bool) -> Self {
        if is_doubtful {
            tracing::warn!(
                "a server was killed that had answered writes which no flush covered: they may be lost, and \
                 the next flush fails"
            );
        }
        Self { note, state: Mutex::new(State { answered: 0, is_noted, is_doubtful }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, state: &mut State, is_noted: bool) {
        if state.is_noted != is_noted {
            state.is_noted = is_noted;
            if let Some(note) = &self.note {
                note.set_unflushed(is_noted);
            }
        }
    }

    /// Note that a write is about to be answered.
    pub fn wrote(&self) {
        let mut state = self.lock();
        // The note before the answer: if the server is killed in between, the next one fails a flush
        // too many, not one too few.
        state.answered += 1;
        self.note(&mut state, true);
    }

    /// Return the number of writes that a flush taken now covers.
    pub fn covered(&self) -> u64 {
        self.lock().answered
    }

    /// Note that a flush that covers `covered` writes is about to be answered. Returns `true` if it
    /// may report that they are durable; if not, the next one may.
    pub fn flushed(&self, covered: u64) -> bool {
        let mut state = self.lock();
        let is_doubtful = std::mem::take(&mut state.is_doubtful);
        // Writes that were answered since the flush came are not covered, so the note stays for them.
        if state.answered == covered {
            self.note(&mut state, false);
        }
        !is_doubtful
    }

    /// Note that everything answered is durable: the server ends in order.
    pub fn settle(&self) {
        let mut state = self.lock();
        if !state.is_doubtful {
            self.note(&mut state, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[derive(Debug, Default)]
    struct Word(Arc<AtomicBool>);

    impl Note for Word {
        fn set_unflushed(&self, is_unflushed: bool) {
            self.0.store(is_unflushed, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_flush_covers_what_was_answered_before_it_was_taken() {
        let word = Word::default();
        let noted = Arc::clone(&word.0);
        let is_noted = || noted.load(Ordering::Relaxed);
        let durability = Durability::new(Some(Box::new(word)), false, false);
        durability.wrote();
        let covered = durability.covered();
        durability.wrote();
        assert!(durability.flushed(covered));
        assert!(is_noted(), "the second write came after the flush");
        let covered = durability.covered();
        assert!(durability.flushed(covered));
        assert!(!is_noted());
        durability.wrote();
        assert!(is_noted());
        durability.settle();
        assert!(!is_noted());
    }

    #[test]
    fn the_first_flush_after_a_kill_fails_and_the_second_does_not() {
        let word = Word(Arc::new(AtomicBool::new(true)));
        let noted = Arc::clone(&word.0);
        let durability = Durability::new(Some(Box::new(word)), true, true);
        durability.settle();
        assert!(noted.load(Ordering::Relaxed), "nobody was told yet");
        assert!(!durability.flushed(0));
        assert!(durability.flushed(0));
        assert!(!noted.load(Ordering::Relaxed));
    }
}
