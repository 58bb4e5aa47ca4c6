//! Time to look for work before sleeping.
//!
//! Sleeping costs a switch to another thread and back, longer than a client on another core needs for
//! its next request. So the server looks again and again for a while before it sleeps, as long as
//! that pays: after a look that found nothing it sleeps at once for the next few times, twice as
//! many after each further look in vain. A client on the same core, which cannot run while the
//! server looks, thus costs one look in a thousand.

use std::time::Duration;

/// The most sleeps in a row without a look.
const SKIPS_MAX: u32 = 1024;

/// Decides if looking for work pays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spin {
    length: Duration,
    /// Sleeps that are still to come without a look.
    skips: u32,
    /// Looks in vain, one after the other, as the number of skips that they cost.
    penalty: u32,
}

impl Spin {
    /// Looks of a length; zero for none.
    pub(super) fn new(length: Duration) -> Self {
        Self { length, skips: 0, penalty: 0 }
    }

    /// Return the time to look before this sleep, if at all.
    pub(super) fn begin(&mut self) -> Option<Duration> {
        if self.length.is_zero() {
            return None;
        }
        if self.skips > 0 {
            self.skips -= 1;
            return None;
        }
        Some(self.length)
    }

    /// Record that polling found something.
    pub(super) fn succeeded(&mut self) {
        self.penalty = 0;
    }

    /// Record that polling found nothing.
    pub(super) fn failed(&mut self) {
        self.penalty = (self.penalty * 2).clamp(1, SKIPS_MAX);
        self.skips = self.penalty;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_in_vain_become_rare() {
        let mut spin = Spin::new(Duration::from_micros(50));
        let mut looks = 0;
        for _ in 0..100_000 {
            if spin.begin().is_some() {
                looks += 1;
                spin.failed();
            }
        }
        assert!((100..=110).contains(&looks), "{looks} looks");
    }

    #[test]
    fn one_success_makes_up_for_all_failures() {
        let mut spin = Spin::new(Duration::from_micros(50));
        for _ in 0..20 {
            while spin.begin().is_none() {}
            spin.failed();
        }
        while spin.begin().is_none() {}
        spin.succeeded();
        assert!(spin.begin().is_some());
        spin.failed();
        assert!(spin.begin().is_none());
        assert!(spin.begin().is_some());
    }

    #[test]
    fn without_a_length_it_never_looks() {
        assert_eq!(Spin::new(Duration::ZERO).begin(), None);
    }
}
