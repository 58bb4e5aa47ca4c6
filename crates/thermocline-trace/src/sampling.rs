//! Spatial sampling: the accesses to some of the pages.
//!
//! A page is in the sample with all its accesses or not at all, so that distances between re-uses
//! shrink by the rate, and a cache that is smaller by the same rate misses as often (Waldspurger,
//! Park, Garthwaite, Ahmad, *Efficient MRC Construction with SHARDS*, FAST 2015, section 3).
//!
//! [`Choice::Hash`] makes the key a hash of the page's volume and number, as SHARDS does, and takes the
//! keys up to a threshold. [`Choice::Even`] takes pages evenly from the hot ones to the cold ones, so that
//! the sample has about as many accesses as it should, and samples differ less than those of a hash:
//! pages are counted in cells, of which each stratum gives one (`cells`). Neither asks for a table
//! of pages, so that a file can be sampled [while it is read](crate::SampledTrace).
//!
//! A sample of bounded size lowers its threshold as it grows, so it needs a key for each page. With
//! [`Choice::Even`] that is the fraction of a multiple of the golden ratio, the multiple being the page's
//! rank by how often it is accessed: of any successive ranks it takes nearly the share that it should
//! (Weyl's sequence; its discrepancy is O(log n / n)).
//!
//! A sample has no neighbours on disk unless it takes [whole extents](Sampling::of_extents), which are
//! chosen by their places on disk.

use std::sync::OnceLock;

use thermocline_core::random::SplitMix64;
use thermocline_core::{Op, PageId};

use crate::cells::{Cells, ChosenCells, cell_of, identity};
use crate::compiled::{CompiledTrace, Summary};
use crate::id_map::WRITE_BIT;

/// A page that is not in the sample.
const OUT: u32 = u32::MAX;
/// The fraction of the golden ratio, as a share of 2^64, odd.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Pages of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    choice: Choice,
    seed: u64,
    /// The greatest key that is taken.
    threshold: u64,
    extent_pages: u32,
}

/// Rule by which the pages of a sample are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Choice {
    /// Evenly among pages in the order of how often they are accessed.
    #[default]
    Even,
    /// A hash of the page's place on disk decides, as in SHARDS.
    Hash,
}

impl Choice {
    /// Every choice, with the word that users know it by.
    pub const WORDS: [(&str, Self); 2] = [("even", Self::Even), ("hash", Self::Hash)];

    /// Return the word that users know it by.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Hash => "hash",
        }
    }

    /// Return the key of a number, evenly spread over all numbers of 64 bits. Seeds give different
    /// keys.
    #[inline]
    pub const fn key(self, number: u64, seed: u64) -> u64 {
        match self {
            Self::Even => SplitMix64::new(seed).bits().wrapping_add(GOLDEN.wrapping_mul(number)),
            Self::Hash => SplitMix64::new(seed.rotate_left(32) ^ number).bits(),
        }
    }
}

impl Sampling {
    /// Return the share `rate` of the pages, above 0 and at most 1; samples by hash of the same
    /// seed contain each other. `None` if the rate is no such share.
    pub fn new(rate: f64, choice: Choice, seed: u64) -> Option<Self> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of 2^64, which saturates"
        )]
        let threshold = (rate * u64::MAX as f64) as u64;
        (rate > 0.0 && rate <= 1.0).then_some(Self { choice, seed, threshold, extent_pages: 1 })
    }

    /// Take the same share of the extents of `extent_pages` pages, with all their pages.
    ///
    /// # Panics
    /// If an extent has no page.
    #[must_use]
    pub const fn of_extents(self, extent_pages: u32) -> Self {
        assert!(extent_pages > 0, "an extent has a page");
        Self { extent_pages, ..self }
    }

    /// Return the rule by which the pages are chosen.
    pub const fn choice(&self) -> Choice {
        self.choice
    }

    /// Return the share of pages.
    pub const fn rate(&self) -> f64 {
        self.threshold as f64 / u64::MAX as f64
    }

    /// Return `true` if the key of a number is in the sample.
    #[inline]
    pub const fn takes(&self, number: u64) -> bool {
        self.choice.key(number, self.seed) <= self.threshold
    }

    /// Return the cells that are in the sample.
    pub(crate) fn chosen(&self, cells: &Cells) -> ChosenCells {
        cells.chosen(self.rate(), self.seed)
    }
}

impl CompiledTrace {
    /// Return for each page the number from which a choice makes its key in a sample of bounded
    /// size: its identity, or its rank by accesses, the least accessed first, ties by id.
    pub fn sampling_numbers(&self, choice: Choice) -> Vec<u64> {
        if choice == Choice::Hash {
            return self.places().map(|(volume, page)| identity(volume, page)).collect();
        }
        let accesses = self.accesses_of_pages();
        let mut by_accesses: Vec<u32> = (0..self.footprint_pages()).collect();
        by_accesses.sort_by_key(|&id| accesses[id as usize]);
        let mut ranks = vec![0; accesses.len()];
        for (rank, &id) in (0..).zip(&by_accesses) {
            ranks[id as usize] = rank;
        }
        ranks
    }

    /// Return, by page id, `true` if the page is in a sample.
    pub fn sampled_pages(&self, sampling: Sampling) -> Vec<bool> {
        if sampling.extent_pages > 1 {
            let extents =
                self.page_numbers.iter().map(|number| number / u64::from(sampling.extent_pages));
            return extents.map(|extent| sampling.takes(extent)).collect();
        }
        if sampling.choice == Choice::Hash {
            return self
                .places()
                .map(|(volume, page)| sampling.takes(identity(volume, page)))
                .collect();
        }
        let mut cells = Cells::new();
        for ((volume, page), accesses) in self.places().zip(self.accesses_of_pages()) {
            cells.add(cell_of(volume, page), accesses);
        }
        let chosen = sampling.chosen(&cells);
        self.places().map(|(volume, page)| chosen.has(cell_of(volume, page))).collect()
    }

    /// Return the volume of every page and its number within the volume, by id.
    fn places(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        (0..self.footprint_pages()).map(|id| self.location(PageId(id)))
    }

    /// Count the accesses to every page, by id, up to the largest count.
    fn accesses_of_pages(&self) -> Vec<u32> {
        let mut accesses = vec![0_u32; self.page_numbers.len()];
        for packed in &*self.packed {
            let count = &mut accesses[(packed & !WRITE_BIT) as usize];
            *count = count.saturating_add(1);
        }
        accesses
    }

    /// Return the accesses to the sampled pages, with ids of their own; times and page numbers
    /// stay. `None` if no page is in the sample.
    ///
    /// Requests keep their sampled accesses, and are left out if they have none. The times of the
    /// first and last request are those of the whole trace, which the sample stands for.
    #[expect(clippy::missing_panics_doc, reason = "a sample has no more pages than the trace")]
    pub fn sampled(&self, sampling: Sampling) -> Option<Self> {
        let mut sample = self.without_accesses();
        let mut page_numbers = vec![];
        let pages = self.sampled_pages(sampling).into_iter().zip(&*self.page_numbers);
        let ids = pages.map(|(is_sampled, &page_number)| {
            if !is_sampled {
                return OUT;
            }
            page_numbers.push(page_number);
            u32::try_from(page_numbers.len() - 1).expect("no more ids than the trace has")
        });
        // Both number pages by first appearance.
        let ids: Vec<u32> = ids.collect();
        let (mut packed, mut at_ns, mut counts) = (vec![], vec![], vec![]);
        let (mut access_clients, mut access_bytes) = (vec![], vec![]);
        let mut previous_at = self.summary.first_at;
        for request in self.requests() {
            let first = packed.len();
            for index in request.accesses {
                let access = self.access(index);
                let id = ids[access.page.index()];
                if id == OUT {
                    continue;
                }
                packed.push(id | if access.op == Op::Write { WRITE_BIT } else { 0 });
                if !self.access_clients.is_empty() {
                    access_clients.push(access.client);
                }
                if let Some(&bytes) = self.access_bytes.get(index) {
                    access_bytes.push(bytes);
                }
            }
            let count = packed.len() - first;
            if count == 0 {
                continue;
            }
            counts.push(u32::try_from(count).expect("no more than the request had"));
            if self.is_timed() {
                at_ns.push(request.at.0);
            }
            let is_write = packed[first] & WRITE_BIT != 0;
            sample.summary.requests += 1;
            sample.summary.write_requests += u64::from(is_write);
            let bytes = count as u64 * self.page_size_bytes();
            let total = &mut sample.summary;
            *if is_write { &mut total.write_bytes } else { &mut total.read_bytes } += bytes;
            total.time_reversals += u64::from(request.at < previous_at);
            previous_at = request.at;
        }
        (!packed.is_empty()).then(|| Self {
            packed: packed.into(),
            at_ns: at_ns.into(),
            counts: counts.into(),
            access_clients: access_clients.into(),
            access_bytes: access_bytes.into(),
            page_numbers: page_numbers.into(),
            ..sample
        })
    }

    /// Return the same sample with the extents that it left out cut out of the disk, so that as many
    /// pages lie in a stretch of the disk as in the whole trace. `rate` is the share of the extents that
    /// is in the sample. Without this, regions of many extents hold too few pages each.
    ///
    /// Extents keep their order. Each moves to its place times the rate, or behind the one before it if
    /// that place is taken.
    ///
    /// # Panics
    /// If an extent has no page.
    #[must_use]
    pub fn condensed(mut self, extent_pages: u32, rate: f64) -> Self {
        assert!(extent_pages > 0, "an extent has a page");
        let extent_pages = u64::from(extent_pages);
        let mut by_number: Vec<usize> = (0..self.page_numbers.len()).collect();
        by_number.sort_unstable_by_key(|&id| self.page_numbers[id]);
        let mut numbers = self.page_numbers.to_vec();
        let mut bases = vec![];
        let (mut before, mut place) = (None, 0);
        for id in by_number {
            let extent = self.page_numbers[id] / extent_pages;
            if before != Some(extent) {
                let first = extent * extent_pages;
                // No page of a volume may follow the last one of another: one extent stays empty.
                let begins = self.volume_bases.get(bases.len()).is_some_and(|&base| base <= first);
                let least = if before.is_none() { 0 } else { place + 1 + u64::from(begins) };
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a share of a number of an extent"
                )]
                let scaled = (extent as f64 * rate) as u64;
                place = scaled.max(least);
                while self.volume_bases.get(bases.len()).is_some_and(|&base| base <= first) {
                    bases.push(if bases.is_empty() { 0 } else { place * extent_pages });
                }
                before = Some(extent);
            }
            numbers[id] = place * extent_pages + self.page_numbers[id] % extent_pages;
        }
        // Volumes of which no page is in the sample lie behind all others.
        bases.resize(self.volume_bases.len(), (place + 1) * extent_pages);
        (self.page_numbers, self.volume_bases) = (numbers.into(), bases);
        self
    }

    /// Return the same trace before its first request.
    fn without_accesses(&self) -> Self {
        let Summary { first_at, last_at, .. } = self.summary;
        Self {
            path: self.path.clone(),
            page_size: self.page_size,
            packed: vec![].into(),
            at_ns: vec![].into(),
            counts: vec![].into(),
            access_clients: vec![].into(),
            access_bytes: vec![].into(),
            clients: self.clients,
            page_numbers: vec![].into(),
            volume_bases: self.volume_bases.clone(),
            volume_names: self.volume_names.clone(),
            summary: Summary { first_at, last_at, ..Summary::default() },
            foresight: OnceLock::new(),
            mapping: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;
    use crate::{PageSize, ReadOptions, Reader};

    fn trace(requests: &[(u64, u64, bool)]) -> CompiledTrace {
        let line = |(index, (page, pages, is_write)): (usize, &(u64, u64, bool))| {
            let op = if *is_write { 'w' } else { 'r' };
            format!("0,{page},{},{op},{index}.5\n", pages * 512)
        };
        let lines: String = requests.iter().enumerate().map(line).collect();
        let mut reader =
            Reader::from_read("t.spc", Cursor::new(lines.into_bytes()), &ReadOptions::default())
                .unwrap();
        CompiledTrace::compile(&mut reader, PageSize::new(512).unwrap()).unwrap()
    }

    proptest! {
        // Each case of an even sample goes over all cells.
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_sample_is_the_trace_without_other_pages(
            requests in prop::collection::vec((0_u64..60, 1_u64..5, any::<bool>()), 1..80),
            rate in 0.05..1.0_f64,
            seed in 0_u64..8,
            choice in prop::sample::select(&[Choice::Even, Choice::Hash]),
            extent_pages in prop::sample::select(&[1_u32, 4, 7]),
        ) {
            let trace = trace(&requests);
            let sampling = Sampling::new(rate, choice, seed).unwrap().of_extents(extent_pages);
            let mut cells = Cells::new();
            for access in trace.accesses() {
                cells.add(cell_of(0, trace.page_numbers()[access.page.index()]), 1);
            }
            let chosen = sampling.chosen(&cells);
            let takes = |page_number: u64| match choice {
                _ if extent_pages > 1 => sampling.takes(page_number / u64::from(extent_pages)),
                Choice::Hash => sampling.takes(page_number),
                Choice::Even => chosen.has(cell_of(0, page_number)),
            };
            let mut expected = vec![];
            for request in trace.requests() {
                let kept: Vec<_> = request
                    .accesses
                    .map(|index| trace.access(index))
                    .map(|access| (access, trace.page_numbers()[access.page.index()]))
                    .filter(|&(_, page_number)| takes(page_number))
                    .map(|(access, page_number)| (page_number, access.op))
                    .collect();
                if !kept.is_empty() {
                    expected.push((request.at, kept));
                }
            }
            let found = trace.sampled(sampling).map_or_else(Vec::new, |sample| {
                let of = |index| {
                    let access = sample.access(index);
                    (sample.page_numbers()[access.page.index()], access.op)
                };
                sample.requests().map(|one| (one.at, one.accesses.map(of).collect())).collect()
            });
            prop_assert_eq!(found, expected);
        }
    }

    proptest! {
        #[test]
        fn a_condensed_sample_keeps_the_order_of_its_pages_and_nearly_their_density(
            requests in prop::collection::vec((0_u64..4000, 1_u64..5, any::<bool>()), 200..400),
            rate in 0.2..1.0_f64,
            seed in any::<u64>(),
            extent_pages in prop::sample::select(&[1_u32, 4, 16]),
        ) {
            let trace = trace(&requests);
            let sampling = Sampling::new(rate, Choice::Hash, seed).unwrap().of_extents(extent_pages);
            let Some(sample) = trace.sampled(sampling) else { return Ok(()) };
            let condensed = sample.clone().condensed(extent_pages, rate);
            prop_assert!(condensed.accesses().eq(sample.accesses()));
            let mut pairs: Vec<(u64, u64)> = sample
                .page_numbers()
                .iter()
                .copied()
                .zip(condensed.page_numbers().iter().copied())
                .collect();
            pairs.sort_unstable();
            let pages = u64::from(extent_pages);
            for ((before, new), (later, newer)) in pairs.iter().zip(&pairs[1..]) {
                prop_assert!(new < newer && before % pages == new % pages);
                if before / pages == later / pages {
                    prop_assert_eq!(newer - new, later - before, "extents stay whole");
                }
            }
            let [last, new] = pairs.last().map(|&(old, new)| [old as f64, new as f64]).unwrap();
            // Extents that the sample holds many of in a row push later ones back a little.
            let limit = f64::from(extent_pages) * (2.0 + 8.0 * (4000.0 / f64::from(extent_pages)).sqrt());
            prop_assert!((new - last * rate).abs() < limit, "{last} {new}");
        }
    }

    #[test]
    fn rates_are_shares_and_samples_contain_each_other() {
        for choice in [Choice::Even, Choice::Hash] {
            for rate in [0.0, -0.5, 1.5, f64::NAN, f64::INFINITY] {
                assert_eq!(Sampling::new(rate, choice, 1), None);
            }
            let of = |rate| Sampling::new(rate, choice, 7).unwrap();
            let [small, large, all] = [0.1, 0.3, 1.0].map(of);
            let count = |one: Sampling| (0..100_000).filter(|&page| one.takes(page)).count();
            assert!((9_700..10_300).contains(&count(small)), "{}", count(small));
            assert!((29_500..30_500).contains(&count(large)), "{}", count(large));
            assert_eq!(count(all), 100_000);
            assert!((0..10_000).all(|page| !small.takes(page) || large.takes(page)));
            let other = Sampling::new(0.1, choice, 8).unwrap();
            assert!((0..1000).any(|page| small.takes(page) != other.takes(page)), "seeds differ");
        }
    }

    #[test]
    fn an_even_sample_has_its_share_of_any_successive_numbers() {
        for rate in [0.9, 0.5, 1.0 / 3.0, 0.1, 0.01, 1.0 / 1024.0] {
            let sampling = Sampling::new(rate, Choice::Even, 3).unwrap();
            // After each number: the lead of the count over the share.
            let (mut taken, mut ahead) = (0_u32, vec![0.0_f64]);
            for page in 0..30_000_u32 {
                taken += u32::from(sampling.takes(page.into()));
                ahead.push(f64::from(taken) - f64::from(page + 1) * rate);
            }
            let [most, least] = [f64::max, f64::min].map(|of| ahead.iter().copied().fold(0.0, of));
            assert!(most - least < 6.0, "{rate}: {} off in some stretch", most - least);
        }
    }
}
