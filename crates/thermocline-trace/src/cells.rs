//! Accesses counted in cells: a table of fixed size in which pages find their place by a hash.
//!
//! It tells how often pages are accessed without knowing them: nearly each has a cell of its own while
//! there are fewer of them than cells, and where there are more, some share one. So pages can be chosen
//! by how often they are accessed with memory that is bounded, by threads that each see a part of the
//! trace, and in any order.
//!
//! Cells are chosen evenly: in the order of their accesses they are cut into strata of as many cells as
//! a chosen one stands for, and of each stratum one is taken whose accesses are nearest the stratum's
//! mean. So the sample has as many accesses as it should, the hot pages among it, too. A stratum of one
//! sample in a hundred has a hundred cells, so that the hottest pages of all, of which a single one is in
//! the sample, decide most about its error.
//!
//! Pages of a region have neighbouring cells, so that among cells that are accessed equally often those
//! of each stratum lie together on disk: pages that are accessed together are spread over the sample.

use std::cmp::Reverse;

use thermocline_core::prefetch;
use thermocline_core::random::SplitMix64;

use crate::waiting::Waiting;

/// Number of cells, as a power of two: 16 MiB of counts.
const CELLS_SHIFT: u32 = 22;
/// Pages of a region, as a power of two.
const REGION_SHIFT: u32 = 10;
/// Cells with fewer accesses are sorted by counting.
const FEW_ACCESSES: usize = 1 << 12;

/// Return the number that identifies a page among all volumes.
#[inline]
pub(crate) const fn identity(volume: u32, page: u64) -> u64 {
    page.wrapping_add((volume as u64).wrapping_mul(0xd6e8_feb8_6659_fd93))
}

/// Return the cell of a page.
#[inline]
pub(crate) const fn cell_of(volume: u32, page: u64) -> usize {
    let region = SplitMix64::new(identity(volume, page >> REGION_SHIFT)).bits();
    let within = page % (1 << REGION_SHIFT);
    #[expect(clippy::cast_possible_truncation, reason = "a number of a cell")]
    let cell = (region >> (64 - (CELLS_SHIFT - REGION_SHIFT)) << REGION_SHIFT | within) as usize;
    cell
}

/// Number of accesses to the pages of each cell; it saturates at 2^32 - 1.
#[derive(Debug)]
pub(crate) struct Cells(Vec<u32>);

/// Counts the accesses of a trace, one at a time.
#[derive(Debug)]
pub(crate) struct Counter {
    cells: Cells,
    /// Cells, and what is to be added to them.
    waiting: Waiting<(usize, u32)>,
}

/// Some of the cells.
#[derive(Debug)]
pub(crate) struct ChosenCells(Vec<u64>);

impl Cells {
    pub(crate) fn new() -> Self {
        Self(vec![0; 1 << CELLS_SHIFT])
    }

    /// Add `accesses` to the pages of a cell.
    #[inline]
    pub(crate) fn add(&mut self, cell: usize, accesses: u32) {
        self.0[cell] = self.0[cell].saturating_add(accesses);
    }

    /// Return the share `rate` of the cells that have accesses. The seed decides between cells that
    /// are equally near the mean of their stratum, or nearly so, and whether the last stratum has
    /// one if it is smaller than the others.
    pub(crate) fn chosen(&self, rate: f64, seed: u64) -> ChosenCells {
        let cells = self.by_accesses();
        let mut chosen = ChosenCells(vec![0; (1 << CELLS_SHIFT) / 64]);
        let (mut begin, mut strata) = (0, 0_u32);
        while begin < cells.len() {
            strata += 1;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a number of cells; what is beyond saturates"
            )]
            let end = ((f64::from(strata) / rate) as usize).max(begin + 1);
            let stratum = &cells[begin..end.min(cells.len())];
            let is_cut = end > cells.len();
            let lot = SplitMix64::new(seed).bits() as f64 / u64::MAX as f64;
            if !is_cut || lot < stratum.len() as f64 * rate {
                chosen.add(self.nearest_the_mean(stratum, seed));
            }
            begin = end;
        }
        chosen
    }

    /// Return the cells that have accesses, the most accessed first, ties by their numbers.
    fn by_accesses(&self) -> Vec<u32> {
        let mut often: Vec<(Reverse<u32>, u32)> = vec![];
        // For each number of accesses how many cells have it, and then where the next of these goes.
        let mut places = vec![0_usize; FEW_ACCESSES];
        for (cell, &accesses) in (0..).zip(&self.0) {
            match places.get_mut(accesses as usize) {
                Some(cells) => *cells += 1,
                None => often.push((Reverse(accesses), cell)),
            }
        }
        often.sort_unstable();
        let mut end = often.len();
        for place in places[1..].iter_mut().rev() {
            let cells = std::mem::replace(place, end);
            end += cells;
        }
        let mut sorted: Vec<u32> = often.into_iter().map(|(_, cell)| cell).collect();
        sorted.resize(end, 0);
        for (cell, &accesses) in (0..).zip(&self.0) {
            if accesses > 0
                && let Some(place) = places.get_mut(accesses as usize)
            {
                sorted[*place] = cell;
                *place += 1;
            }
        }
        sorted
    }

    /// Choose by the seed one of the cells whose accesses differ from the mean by at most a quarter
    /// more than the smallest difference.
    fn nearest_the_mean(&self, stratum: &[u32], seed: u64) -> u32 {
        let accesses = |cell: u32| u64::from(self.0[cell as usize]);
        let sum: u64 = stratum.iter().map(|&cell| accesses(cell)).sum();
        // Times the number of cells, so that it is a whole number.
        let off = |cell: u32| (accesses(cell) * stratum.len() as u64).abs_diff(sum);
        let least = stratum.iter().map(|&cell| off(cell)).min().expect("a stratum has a cell");
        let near = stratum.iter().copied().filter(|&cell| 4 * (off(cell) - least) <= least);
        let lot = |cell: &u32| SplitMix64::new(seed.rotate_left(32) ^ u64::from(*cell)).bits();
        near.min_by_key(lot).expect("one has the least")
    }
}

impl Counter {
    pub(crate) fn new() -> Self {
        Self { cells: Cells::new(), waiting: Waiting::new((0, 0)) }
    }

    /// Count one more access to the pages of a cell.
    #[inline]
    pub(crate) fn count(&mut self, cell: usize) {
        prefetch(&self.cells.0, cell);
        let (cell, accesses) = self.waiting.put((cell, 1));
        self.cells.add(cell, accesses);
    }

    /// Adds what another one counted.
    pub(crate) fn merge(&mut self, other: Self) {
        for (count, more) in self.cells.0.iter_mut().zip(other.finish().0) {
            *count = count.saturating_add(more);
        }
    }

    pub(crate) fn finish(self) -> Cells {
        let Self { mut cells, waiting } = self;
        waiting.into_items().for_each(|(cell, accesses)| cells.add(cell, accesses));
        cells
    }
}

impl ChosenCells {
    fn add(&mut self, cell: u32) {
        self.0[cell as usize / 64] |= 1 << (cell % 64);
    }

    /// Return `true` if a cell is among them.
    #[inline]
    pub(crate) fn has(&self, cell: usize) -> bool {
        self.0[cell / 64] >> (cell % 64) & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Cells with these accesses, in some order of their numbers.
    fn cells(accesses: &[u32]) -> (Cells, Vec<usize>) {
        let mut cells = Cells::new();
        let numbers: Vec<usize> =
            (0..accesses.len() as u64).map(|page| cell_of(0, page * 1031)).collect();
        for (&cell, &count) in numbers.iter().zip(accesses) {
            cells.add(cell, count);
        }
        (cells, numbers)
    }

    fn chosen(cells: &Cells, rate: f64, seed: u64) -> Vec<usize> {
        let chosen = cells.chosen(rate, seed);
        (0..1 << CELLS_SHIFT).filter(|&cell| chosen.has(cell)).collect()
    }

    proptest! {
        // Each case goes over all cells several times.
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn each_stratum_has_one_that_is_near_its_mean(
            accesses in prop::collection::vec(
                prop_oneof![1_u32..4, 1_u32..300, 1_u32..1_000_000], 1..400),
            rate in 0.02..1.0_f64,
            seed in any::<u64>(),
        ) {
            let (cells, numbers) = cells(&accesses);
            let found = chosen(&cells, rate, seed);
            let mut order: Vec<usize> = numbers;
            order.sort_unstable();
            order.dedup();
            order.sort_by_key(|&cell| Reverse(cells.0[cell]));
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a number of cells"
            )]
            let bound = |stratum: usize| (stratum as f64 / rate) as usize;
            let mut taken = 0;
            for stratum in 0.. {
                let begin = bound(stratum);
                let end = bound(stratum + 1).min(order.len());
                if begin >= order.len() {
                    break;
                }
                let of_stratum = &order[begin..end];
                let here: Vec<usize> = of_stratum.iter().copied().filter(|cell| found.contains(cell)).collect();
                let is_whole = end == bound(stratum + 1);
                prop_assert!(here.len() == 1 || here.is_empty() && !is_whole, "{stratum}: {here:?}");
                taken += here.len();
                let mean = of_stratum.iter().map(|&cell| f64::from(cells.0[cell])).sum::<f64>() / of_stratum.len() as f64;
                let off = |cell: usize| (f64::from(cells.0[cell]) - mean).abs();
                let least = of_stratum.iter().map(|&cell| off(cell)).fold(f64::INFINITY, f64::min);
                for cell in here {
                    prop_assert!(off(cell) <= 1.25 * least + 1e-6, "{stratum}: {} {least}", off(cell));
                }
            }
            prop_assert_eq!(taken, found.len());
        }
    }

    #[test]
    fn seeds_differ_and_the_whole_is_all() {
        let (cells, mut numbers) = cells(&vec![1; 5000]);
        let [one, other] = [1, 2].map(|seed| chosen(&cells, 0.01, seed));
        assert!(one != other && one.len().abs_diff(50) <= 1, "{} {}", one.len(), other.len());
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(chosen(&cells, 1.0, 3), numbers);
        // Less than a stratum is taken as often as its share of one.
        let rate = 0.3 / numbers.len() as f64;
        let taken: usize = (0..40).map(|seed| chosen(&cells, rate, seed).len()).sum();
        assert!((5..20).contains(&taken), "{taken}");
    }

    #[test]
    fn counts_add_up() {
        let numbers: Vec<usize> = (0..100).map(|page| cell_of(0, page * 1031)).collect();
        let counter = |times: usize| {
            let mut counter = Counter::new();
            numbers.iter().cycle().take(times).for_each(|&cell| counter.count(cell));
            counter
        };
        let mut one = counter(250);
        one.merge(counter(130));
        let counts = one.finish().0;
        for (place, cell) in numbers.iter().enumerate() {
            assert_eq!(counts[*cell], 3 + u32::from(place < 50) + u32::from(place < 30), "{place}");
        }
        assert_eq!(counts.iter().sum::<u32>(), 380);
        let mut full = Cells::new();
        full.add(3, u32::MAX);
        full.add(3, 7);
        assert_eq!(full.0[3], u32::MAX);
    }
}
