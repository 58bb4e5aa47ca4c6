//! A trace over time: how the footprint grows, and how often and how soon pages are used again.

use serde::Serialize;

use crate::compiled::CompiledTrace;
use crate::id_map::WRITE_BIT;
use crate::reuse_distance::ReuseDistance;

/// One interval of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FootprintPoint {
    /// Accesses from the beginning of the trace to the end of this interval.
    pub end_accesses: u64,
    /// Distinct pages from the beginning of the trace to the end of this interval.
    pub footprint_pages: u64,
    /// Distinct pages in this interval.
    pub interval_pages: u64,
    /// Accesses to pages that were accessed before / accesses of this interval.
    pub reuse_share: f64,
    /// Writing accesses / accesses of this interval.
    pub write_share: f64,
    /// Distinct pages between an access and the former one to its page, mean; `None` without
    /// re-use.
    pub mean_distance_pages: Option<f64>,
}

/// A trace, interval by interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Footprint {
    /// Accesses per interval; the last one may have fewer.
    pub interval_accesses: u64,
    /// The intervals.
    pub points: Vec<FootprintPoint>,
}

impl Footprint {
    /// Follows a trace in at most `points` intervals of equal length, in one pass.
    ///
    /// # Panics
    /// If there are to be no intervals.
    pub fn of(trace: &CompiledTrace, points: usize) -> Self {
        let interval_accesses = trace.len().div_ceil(points).max(1);
        let mut distances = ReuseDistance::new(trace.footprint_pages());
        let mut seen_in = vec![0_u32; trace.footprint_pages() as usize];
        let mut found: Vec<FootprintPoint> = vec![];
        let (mut end_accesses, mut footprint_pages) = (0, 0);
        for (interval, accesses) in (1..).zip(trace.packed().chunks(interval_accesses)) {
            let (mut reuses, mut writes, mut sum, mut interval_pages) = (0_u64, 0_u64, 0_u64, 0);
            for &packed in accesses {
                let page = packed & !WRITE_BIT;
                writes += u64::from(packed & WRITE_BIT != 0);
                let last = std::mem::replace(&mut seen_in[page as usize], interval);
                interval_pages += u64::from(last != interval);
                match distances.touch(page) {
                    Some(distance) => {
                        reuses += 1;
                        sum += u64::from(distance);
                    }
                    None => footprint_pages += 1,
                }
            }
            let all = accesses.len() as f64;
            end_accesses += accesses.len() as u64;
            found.push(FootprintPoint {
                end_accesses,
                footprint_pages,
                interval_pages,
                reuse_share: reuses as f64 / all,
                write_share: writes as f64 / all,
                mean_distance_pages: (reuses > 0).then(|| sum as f64 / reuses as f64),
            });
        }
        Self { interval_accesses: interval_accesses as u64, points: found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PageSize, ReadOptions, Reader};
    use std::io::Cursor;

    #[test]
    #[expect(clippy::float_cmp, reason = "ratios of small numbers are exact")]
    fn a_small_trace_by_hand() {
        let lines = Cursor::new("1\n2\n1\n3\n1\n1\n2\n");
        let mut reader = Reader::from_read("t", lines, &ReadOptions::default()).unwrap();
        let trace = CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap();
        let footprint = Footprint::of(&trace, 2);
        assert_eq!(footprint.interval_accesses, 4);
        let [first, second] = &footprint.points[..] else { panic!("{footprint:?}") };
        assert_eq!((first.footprint_pages, first.interval_pages, first.end_accesses), (3, 3, 4));
        assert_eq!((first.reuse_share, first.mean_distance_pages), (0.25, Some(1.0)));
        assert_eq!((second.footprint_pages, second.interval_pages, second.end_accesses), (3, 2, 7));
        assert_eq!((second.reuse_share, second.mean_distance_pages), (1.0, Some(1.0)));
        assert_eq!(second.write_share, 0.0);
    }
}
