//! Detector of sequential runs of requests.
//!
//! A request continues a run if it begins where an earlier one of the same kind and volume ended, and
//! that one is still known. So it separates the runs of several programs. There are two rules for
//! the known ends: the last [`STREAMS`] runs that grew, or the last [`LONG_STREAMS`] long ones and
//! the last [`SHORT_STREAMS`] of the others. A log that is written between random accesses is one
//! run by the second rule only.
//!
//! * Source: the first rule, and the mean of runs, are those of Linux's bcache; the second rule is Open
//!   CAS's. Both by a description of their rules.

use std::collections::VecDeque;

use thermocline_core::{Access, Op, Run, RunLengths};

use crate::CompiledTrace;

/// Runs that are followed at the same time, by the first rule.
const STREAMS: usize = 128;
/// Runs that are followed at the same time, by the second rule.
const SHORT_STREAMS: usize = 64;
/// The same of long ones.
const LONG_STREAMS: usize = 128;
/// Pages of a long run, at least. Open CAS takes the threshold of its cutoff if that is less.
const LONG_PAGES: u32 = 8;
/// Parts of a page that the mean is counted in, so that it rounds as bcache's bytes do.
const PARTS: u64 = 4096;

/// The runs that grew last.
#[derive(Clone, Debug, Default)]
pub struct RunDetector {
    recent: Streams,
    short: Streams,
    long: Streams,
    /// Pages of the run that grew last.
    last_pages: u32,
    /// Mean length of the runs before, in parts of a page.
    mean: u64,
}

/// Runs, the one that grew last at the back.
#[derive(Clone, Debug, Default)]
struct Streams(VecDeque<Stream>);

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
        let before = Stream { op, volume, next: first, pages: 0 };
        let recent = self.recent.take(before).unwrap_or(before);
        self.recent.push(recent.after(count), STREAMS);
        let remembered = self.remembered(before, count);
        let grown = self.taken(before).after(count);
        if grown.pages >= LONG_PAGES {
            self.long.push(grown, LONG_STREAMS);
        } else {
            self.short.push(grown, SHORT_STREAMS);
        }
        if recent.pages == 0 {
            self.mean = (7 * self.mean + u64::from(self.last_pages) * PARTS) / 8;
        }
        self.last_pages = recent.after(count).pages;
        Run {
            pages: recent.pages,
            remembered_pages: remembered.pages,
            mean_pages: u32::try_from(self.mean / PARTS).unwrap_or(u32::MAX),
        }
    }

    /// Return the run that goes on as this one, by the second rule. Open CAS looks for a short one
    /// first, but lets a long one grow: where the end of a log is written again and again, a new
    /// run begins beside the old one. Of a request of several pages, that is the first one's matter
    /// only.
    fn remembered(&self, before: Stream, count: u64) -> Stream {
        let [first, second] =
            if count == 1 { [&self.short, &self.long] } else { [&self.long, &self.short] };
        first.find(before).or_else(|| second.find(before)).unwrap_or(before)
    }

    /// Takes out the run that grows by the second rule.
    fn taken(&mut self, before: Stream) -> Stream {
        let known = self.long.take(before).or_else(|| self.short.take(before));
        known.unwrap_or_else(|| {
            // Its first page needs a place among the short ones, however long its request is.
            self.short.make_room(SHORT_STREAMS);
            before
        })
    }
}

impl Stream {
    fn after(self, count: u64) -> Self {
        let pages = self.pages.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        Self { next: self.next.saturating_add(count), pages, ..self }
    }
}

impl Streams {
    /// Return the place of the run that goes on as this one, the one that grew last if there are
    /// several.
    fn place(&self, Stream { op, volume, next, .. }: Stream) -> Option<usize> {
        let continues =
            |stream: &Stream| stream.next == next && stream.volume == volume && stream.op == op;
        self.0.iter().rposition(continues)
    }

    fn find(&self, before: Stream) -> Option<Stream> {
        self.place(before).map(|place| self.0[place])
    }

    fn take(&mut self, before: Stream) -> Option<Stream> {
        self.place(before).and_then(|place| self.0.remove(place))
    }

    /// Forgets the run that grew longest ago, if there are as many as may be.
    fn make_room(&mut self, most: usize) {
        if self.0.len() == most {
            self.0.pop_front();
        }
    }

    fn push(&mut self, stream: Stream, most: usize) {
        self.make_room(most);
        self.0.push_back(stream);
    }
}

impl CompiledTrace {
    /// Return the sequential runs of this trace, for the accesses to pages that a sample has;
    /// `is_sampled` tells that of a page by its id.
    pub fn run_lengths(&self, is_sampled: &[bool]) -> RunLengths {
        let numbers = self.page_numbers();
        let mut detector = RunDetector::default();
        let mut lengths = vec![];
        for Access { page, op, .. } in self.accesses() {
            // Pages of different volumes are never adjacent.
            let before = detector.note(op, 0, numbers[page.index()], 1);
            if is_sampled[page.index()] {
                lengths.push(before.after(1));
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
    fn a_short_run_is_forgotten_for_others_and_a_long_one_for_long_ones_only() {
        for (pages, others, other_pages, expected) in [
            (7, SHORT_STREAMS - 1, 1, 7),
            (7, SHORT_STREAMS, 1, 0),
            // Each is among the short ones for its first page only.
            (7, SHORT_STREAMS, 8, 7),
            (8, 1000, 1, 8),
            (8, LONG_STREAMS - 1, 8, 8),
            (8, LONG_STREAMS, 8, 0),
        ] {
            let mut detector = RunDetector::default();
            detector.note(Op::Write, 0, 0, pages);
            for other in 0..others {
                detector.note(Op::Read, 0, 1000 * (other as u64 + 1), other_pages);
            }
            let found = detector.note(Op::Write, 0, pages, 1).remembered_pages;
            assert_eq!(found, expected, "{pages} pages, {others} others of {other_pages}");
        }
    }

    #[test]
    fn a_log_whose_end_is_written_again_goes_on_in_two_runs() {
        let mut detector = RunDetector::default();
        let mut note = |first, count| detector.note(Op::Write, 0, first, count).remembered_pages;
        assert_eq!([note(0, 20), note(20, 1)], [0, 20]);
        assert_eq!([note(20, 1), note(21, 1)], [0, 1], "the short run is found");
        assert_eq!(note(22, 1), 22, "the long one grew");
        assert_eq!([note(22, 1), note(23, 2)], [0, 23]);
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
            let found = detector.note(Op::Read, 0, 8, 1);
            prop_assert_eq!((found.pages, found.remembered_pages), (expected, 8));
        }
    }
}
