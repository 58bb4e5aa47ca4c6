//! A volume's part in a replacement of the flash: the step under way, and the reports of the volume's threads.

// The tests run every order in which threads can enter the lock.
#[cfg(test)]
use loom::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;
#[cfg(not(test))]
use std::sync::{Mutex, MutexGuard};

use anyhow::Error;

/// Step of a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Leaving,
    Releasing,
    Taking,
}

/// Findings of a thread when it looked last.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// `true` if the thread is done with the step.
    pub(super) is_done: bool,
    pub(super) lost_pages: usize,
    /// Reason why it cannot take the step.
    pub(super) error: Option<Error>,
}

impl Report {
    /// Adds the findings of a thread, of which it takes the error. `None` if the thread has not reported yet.
    fn add(&mut self, thread: Option<&mut Self>) {
        let Some(thread) = thread else {
            self.is_done = false;
            return;
        };
        self.is_done &= thread.is_done;
        self.lost_pages += thread.lost_pages;
        self.error = self.error.take().or(thread.error.take());
    }
}

/// Step that a thread sees, and its report, all of one moment.
///
/// When the first thread ends the replacement, it forgets the reports, too. A thread that saw the step before and its
/// report afterwards would take the flash again.
#[derive(Debug)]
pub(super) struct Look<P> {
    pub(super) stage: Stage,
    /// The volume's part of the new flash.
    pub(super) part: P,
    /// `true` if the thread has reported of this step.
    pub(super) has_reported: bool,
}

/// A volume's part in a replacement, for all its threads. `P` is the volume's part of the new flash.
pub(super) struct Exchange<P>(Mutex<State<P>>);

struct State<P> {
    current: Option<(Stage, P)>,
    /// Per thread, since the step began.
    reports: Vec<Option<Report>>,
}

impl<P> State<P> {
    fn forget_reports(&mut self) {
        self.reports.iter_mut().for_each(|report| *report = None);
    }
}

impl<P: Clone> Exchange<P> {
    pub(super) fn new(threads: usize) -> Self {
        let reports = (0..threads).map(|_| None).collect();
        Self(Mutex::new(State { current: None, reports }))
    }

    fn lock(&self) -> MutexGuard<'_, State<P>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a replacement.
    pub(super) fn begin(&self, part: P) {
        let mut state = self.lock();
        state.current = Some((Stage::Leaving, part));
        state.forget_reports();
    }

    /// Begins the next step of the replacement. No thread sees an end of it in between.
    pub(super) fn advance(&self, next: Stage) {
        let mut state = self.lock();
        if let Some((stage, _)) = &mut state.current {
            *stage = next;
        }
        state.forget_reports();
    }

    /// Ends the replacement.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.current = None;
        state.forget_reports();
    }

    /// Returns the volume's part of the new flash while a replacement is under way.
    pub(super) fn part(&self) -> Option<P> {
        self.lock().current.as_ref().map(|(_, part)| part.clone())
    }

    /// Returns the step that `thread` has to do, if a replacement is under way.
    pub(super) fn look(&self, thread: usize) -> Option<Look<P>> {
        let now = self.lock();
        let (stage, part) = now.current.clone()?;
        Some(Look { stage, part, has_reported: now.reports[thread].is_some() })
    }

    /// Keeps the report of `thread` about `stage`. The step may be another one since the thread looked: the report says
    /// nothing of that, and is not kept.
    pub(super) fn report(&self, thread: usize, stage: Stage, report: Report) {
        let mut now = self.lock();
        if now.current.as_ref().is_some_and(|(current, _)| *current == stage) {
            now.reports[thread] = Some(report);
        }
    }

    /// Adds to `all` the findings of the threads since the step began.
    pub(super) fn add_reports(&self, all: &mut Report) {
        self.lock().reports.iter_mut().for_each(|report| all.add(report.as_mut()));
    }
}

#[cfg(test)]
mod tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// A shard's thread, as far as it looks at the exchange.
    struct Seat {
        exchange: Arc<Exchange<()>>,
        thread: usize,
        is_exchanging: bool,
        /// Times that it has taken the flash.
        taken: usize,
        /// Times that it saw a replacement end.
        ended: usize,
    }

    impl Seat {
        fn new(exchange: &Arc<Exchange<()>>, thread: usize) -> Self {
            let exchange = Arc::clone(exchange);
            Self { exchange, thread, is_exchanging: false, taken: 0, ended: 0 }
        }

        /// Takes one turn, as `Seat::exchange` of the server does.
        fn turn(&mut self) {
            let Some(Look { stage, has_reported, .. }) = self.exchange.look(self.thread) else {
                self.ended += usize::from(std::mem::take(&mut self.is_exchanging));
                return;
            };
            self.is_exchanging = true;
            if stage == Stage::Taking && has_reported {
                return;
            }
            self.taken += usize::from(stage == Stage::Taking);
            let report = Report { is_done: true, ..Report::default() };
            self.exchange.report(self.thread, stage, report);
        }
    }

    /// Takes the next step if all threads are done. Returns `false` once the replacement has ended.
    fn advance(exchange: &Exchange<()>, stage: &mut Stage) -> bool {
        let mut all = Report { is_done: true, ..Report::default() };
        exchange.add_reports(&mut all);
        if !all.is_done {
            return true;
        }
        *stage = match stage {
            Stage::Leaving => Stage::Releasing,
            Stage::Releasing => Stage::Taking,
            Stage::Taking => {
                exchange.end();
                return false;
            }
        };
        exchange.advance(*stage);
        true
    }

    /// Runs the first thread beside another one from `stage` on, in every order of their turns, and returns the most
    /// that the other one has taken the flash.
    fn in_every_order(from: Stage) -> usize {
        let most = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let seen = std::sync::Arc::clone(&most);
        loom::model(move || {
            let exchange = Arc::new(Exchange::new(2));
            exchange.begin(());
            exchange.advance(from);
            let mut other = Seat::new(&exchange, 1);
            let other = thread::spawn(move || {
                for _ in 0..3 {
                    other.turn();
                }
                other
            });
            let (mut first, mut stage, mut goes_on) = (Seat::new(&exchange, 0), from, true);
            for _ in 0..3 {
                first.turn();
                goes_on = goes_on && advance(&exchange, &mut stage);
            }
            let other = other.join().unwrap();
            for seat in [&first, &other] {
                assert!(
                    seat.taken <= 1,
                    "thread {} took the flash {} times",
                    seat.thread,
                    seat.taken
                );
                let has_ended = usize::from(!goes_on);
                assert!(seat.ended <= has_ended, "thread {} saw an end", seat.thread);
            }
            seen.fetch_max(other.taken, std::sync::atomic::Ordering::Relaxed);
        });
        most.load(std::sync::atomic::Ordering::Relaxed)
    }

    #[test]
    fn no_thread_takes_the_flash_twice() {
        assert_eq!(in_every_order(Stage::Taking), 1);
    }

    #[test]
    fn no_thread_sees_an_end_between_two_steps() {
        assert_eq!(in_every_order(Stage::Releasing), 1);
    }
}
