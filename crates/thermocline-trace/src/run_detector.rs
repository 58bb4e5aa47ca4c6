//! Sequential runs of requests, found while they come.
//!
//! A request continues a run if it begins where an earlier one of the same kind and volume ended, and
//! that one is among the last [`STREAMS`] that grew. So runs of several programs are told apart.
//!
//! * Source: the detectors of Linux's bcache and of Open CAS, which differ in details only; the mean of
//!   runs is bcache's.

use std::collections::VecDeque;

use thermocline_core::{Access, Op, Run, RunLengths};

use crate::CompiledTrace;

/// Runs that are followed at the same time.
const STREAMS: usize = 128;
/// Parts of a page that the mean is counted in, so that it rounds as bcache's bytes do.
const PARTS: u64 = 4096;

/// The runs that grew last.
#[derive(Clone, Debug, Default)]
pub struct RunDetector {
    /// The run that grew last at the back.
    streams: VecDeque<Stream>,
    /// Pages of the run that grew last.
    last_pages: u32,
    /// Mean length of the runs before, in parts of a page.
    mean: u64,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    op: Op,
    volume: u32,
    next: u64,
    pages: u32,
}

impl RunDetector {
    /// Note a request for `count` pages from page `first` of a volume on. Return the run that it
    /// continues, of 0 pages if there is none.
    pub fn note(&mut self, op: Op, volume: u32, first: u64, count: u64) -> Run {
        let continues =
            |stream: &Stream| stream.next == first && stream.volume == volume && stream.op == op;
        let known = self.streams.iter().rposition(continues);
        let before = known.and_then(|place| self.streams.remove(place)).map_or(0, |run| run.pages);
        if self.streams.len() == STREAMS {
            self.streams.pop_front();
        }
        let pages = before.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        self.streams.push_back(Stream { op, volume, next: first.saturating_add(count), pages });
        if before == 0 {
            self.mean = (7 * self.mean + u64::from(self.last_pages) * PARTS) / 8;
        }
        self.last_pages = pages;
        Run { pages: before, mean_pages: u32::try_from(self.mean / PARTS).unwrap_or(u32::MAX) }
    }
}

impl CompiledTrace {
    /// The sequential runs of this trace, for the accesses to pages that a sample has; `is_sampled` tells
    /// that of a page by its id.
    pub fn run_lengths(&self, is_sampled: &[bool]) -> RunLengths {
        let numbers = self.page_numbers();
        let mut detector = RunDetector::default();
        let mut lengths = vec![];
        for Access { page, op, .. } in self.accesses() {
            // Pages of different volumes are never adjacent.
            let before = detector.note(op, 0, numbers[page.index()], 1);
            if is_sampled[page.index()] {
                lengths.push(Run { pages: before.pages.saturating_add(1), ..before });
            }
        }
        lengths.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn runs_of_several_programs_are_told_apart() {
        let mut detector = RunDetector::default();
        let mut note = |op, volume, first, count| detector.note(op, volume, first, count).pages;
        assert_eq!(note(Op::Read, 0, 10, 4), 0);
        assert_eq!(note(Op::Write, 0, 14, 1), 0, "another kind");
        assert_eq!(note(Op::Read, 1, 14, 1), 0, "another volume");
        assert_eq!(note(Op::Read, 0, 14, 2), 4);
        assert_eq!(note(Op::Read, 0, 14, 2), 0, "the run has gone on from there");
        assert_eq!(note(Op::Read, 0, 16, 1), 2, "the one that grew last");
        assert_eq!(note(Op::Read, 0, 16, 1), 6);
        assert_eq!(note(Op::Read, 0, u64::MAX, 7), 0, "the end of the numbers");
    }

    #[test]
    fn the_mean_is_of_runs_that_ended() {
        let mut detector = RunDetector::default();
        let mut mean = |first, count| detector.note(Op::Read, 0, first, count).mean_pages;
        assert_eq!((mean(0, 64), mean(64, 64)), (0, 0));
        assert_eq!(mean(1000, 1), 128 / 8);
        assert_eq!(mean(2000, 1), 14, "(7 x 16 + 1) / 8");
        assert_eq!(mean(2001, 1), 14);
    }

    proptest! {
        #[test]
        fn a_run_is_found_among_as_many_others_as_are_followed(others in 0_usize..200) {
            let mut detector = RunDetector::default();
            detector.note(Op::Read, 0, 0, 8);
            for other in 0..others {
                detector.note(Op::Read, 0, 1000 * (other as u64 + 1), 1);
            }
            let expected = if others < STREAMS { 8 } else { 0 };
            prop_assert_eq!(detector.note(Op::Read, 0, 8, 1).pages, expected);
        }
    }
}
