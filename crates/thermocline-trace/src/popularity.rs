//! Distribution of a trace's accesses over its pages, from the hottest page on.

use serde::Serialize;

use crate::character::accesses_of_pages;
use crate::compiled::CompiledTrace;

/// The hottest pages up to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PopularityPoint {
    /// Number of pages, from 1 to all.
    pub pages: u64,
    /// Their accesses / all accesses, in \[0, 1\].
    pub access_share: f64,
}

/// Share of the accesses that is to the hottest pages: of one page, and of more and more up to all.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Popularity {
    /// The points, from the hottest page to all pages, at ranks that grow by about the same factor.
    pub points: Vec<PopularityPoint>,
}

impl Popularity {
    /// Counts the accesses to each page, and sums them up at `points` ranks or less.
    ///
    /// # Panics
    /// If there are to be fewer than 2 points.
    pub fn of(trace: &CompiledTrace, points: u32) -> Self {
        assert!(points >= 2, "a curve has two ends");
        let mut accesses = accesses_of_pages(trace);
        accesses.sort_unstable_by(|one, other| other.cmp(one));
        let pages = accesses.len() as f64;
        let rank = |point: u32| {
            let exponent = f64::from(point) / f64::from(points - 1);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 1 and the number of pages"
            )]
            let rank = libm::round(libm::pow(pages, exponent)) as usize;
            rank.clamp(1, accesses.len())
        };
        let mut ranks: Vec<usize> = (0..points).map(rank).collect();
        // Small ranks round to the same number.
        ranks.dedup();
        let all = trace.len() as f64;
        let (mut begin, mut sum) = (0, 0_u64);
        let point = |end: usize| {
            sum += accesses[begin..end].iter().map(|&count| u64::from(count)).sum::<u64>();
            begin = end;
            PopularityPoint { pages: end as u64, access_share: sum as f64 / all }
        };
        Self { points: ranks.into_iter().map(point).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PageSize, ReadOptions, Reader};
    use std::io::Cursor;

    #[test]
    fn shares_of_the_hottest_pages_grow_to_all_accesses() {
        let check = |lines: &'static str, points, expected: &[(u64, f64)]| {
            let options = ReadOptions::default();
            let mut reader = Reader::from_read("t", Cursor::new(lines), &options).unwrap();
            let trace = CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap();
            let found = Popularity::of(&trace, points).points;
            let found: Vec<(u64, f64)> =
                found.iter().map(|point| (point.pages, point.access_share)).collect();
            assert_eq!(found, expected);
        };
        check("1\n2\n1\n3\n1\n1\n2\n4\n", 3, &[(1, 0.5), (2, 0.75), (4, 1.0)]);
        check("1\n2\n1\n3\n1\n1\n2\n4\n", 99, &[(1, 0.5), (2, 0.75), (3, 0.875), (4, 1.0)]);
        check("7\n7\n", 2, &[(1, 1.0)]);
    }
}
