//! Spatial sampling: the accesses to some of the pages, chosen by a hash of their ids.
//!
//! A page is in the sample with all its accesses or not at all, so that distances between re-uses
//! shrink by the rate, and a cache that is smaller by the same rate misses as often (Waldspurger,
//! Park, Garthwaite, Ahmad, *Efficient MRC Construction with SHARDS*, FAST 2015, section 3). Ids are
//! numbered by first appearance, so a hash of them is as good as one of page numbers, and nearer.
//!
//! [`Sampling::new`] takes the pages whose hash is below a threshold, as SHARDS does.
//! [`Sampling::strata`] takes one of each so many successive ids, the hash saying which: hot pages
//! appear early, and pages of one scan one after the other, so that each kind has its share in the
//! sample, and samples differ less.

use std::sync::{Arc, OnceLock};

use thermocline_core::random::SplitMix64;
use thermocline_core::{Op, PageId};

use crate::compiled::{CompiledTrace, Summary};
use crate::id_map::WRITE_BIT;

/// A page that was not met yet.
const UNSEEN: u32 = u32::MAX;
/// A page that is not in the sample.
const OUT: u32 = u32::MAX - 1;

/// Which pages are in a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    rate: f64,
    seed: u64,
    choice: Choice,
}

/// How pages are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Choice {
    /// The greatest hash of a page that is taken.
    UpTo(u64),
    /// One page of each stratum.
    Strata,
}

impl Sampling {
    /// The pages whose hash is below the share `rate` of all hashes, above 0 and at most 1; samples of
    /// the same seed contain each other. None if the rate is no such share.
    pub fn new(rate: f64, seed: u64) -> Option<Self> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of 2^64, which saturates"
        )]
        let threshold = (rate * u64::MAX as f64) as u64;
        let choice = Choice::UpTo(threshold);
        (rate > 0.0 && rate <= 1.0).then_some(Self { rate, seed, choice })
    }

    /// One page of each `1 / rate` successive ids. None if the rate is not above 0 and at most 1.
    pub fn strata(rate: f64, seed: u64) -> Option<Self> {
        Some(Self { choice: Choice::Strata, ..Self::new(rate, seed)? })
    }

    /// The share of pages that is to be sampled.
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// Whether a page is in the sample.
    pub fn takes(&self, page: PageId) -> bool {
        match self.choice {
            Choice::UpTo(threshold) => Self::hash(page, self.seed) <= threshold,
            Choice::Strata => self.is_chosen(page.0),
        }
    }

    /// The hash of a page, evenly spread over all numbers of 64 bits.
    #[inline]
    pub const fn hash(page: PageId, seed: u64) -> u64 {
        SplitMix64::new(seed.rotate_left(32) ^ page.0 as u64).bits()
    }

    /// Whether a page is the one that its stratum is represented by.
    fn is_chosen(&self, page: u32) -> bool {
        let page = u64::from(page);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not more than there are pages, divided by the rate; what is beyond saturates"
        )]
        let floor = |number: f64| number as u64;
        let first = |stratum: u64| floor((stratum as f64 / self.rate).ceil());
        let mut stratum = floor(page as f64 * self.rate);
        // The product and the quotient are rounded, each for itself.
        while first(stratum) > page {
            stratum -= 1;
        }
        while first(stratum + 1) <= page {
            stratum += 1;
        }
        let pages = first(stratum + 1) - first(stratum);
        let hash = SplitMix64::new(self.seed.rotate_left(32) ^ stratum).bits();
        let chosen = (u128::from(hash) * u128::from(pages)) >> 64;
        u128::from(page - first(stratum)) == chosen
    }
}

impl CompiledTrace {
    /// The accesses to the sampled pages, with ids of their own; times and page numbers stay. None if
    /// no page is in the sample.
    ///
    /// Requests keep their sampled accesses, and are left out if they have none. The times of the
    /// first and last request are those of the whole trace, which the sample stands for.
    #[expect(clippy::missing_panics_doc, reason = "a sample has no more pages than the trace")]
    pub fn sampled(&self, sampling: Sampling) -> Option<Self> {
        let mut sample = self.without_accesses();
        let mut ids = vec![UNSEEN; self.page_numbers.len()];
        let mut numbers = vec![];
        let mut previous_at = self.summary.first_at;
        for request in self.requests() {
            let first = sample.packed.len();
            for index in request.accesses {
                let access = self.access(index);
                let id = &mut ids[access.page.index()];
                if *id == UNSEEN && sampling.takes(access.page) {
                    *id = u32::try_from(numbers.len()).expect("no more ids than the trace has");
                    numbers.push(self.page_numbers[access.page.index()]);
                } else if *id == UNSEEN {
                    *id = OUT;
                }
                if *id == OUT {
                    continue;
                }
                sample.packed.push(*id | if access.op == Op::Write { WRITE_BIT } else { 0 });
                if !self.access_clients.is_empty() {
                    sample.access_clients.push(access.client);
                }
            }
            let count = sample.packed.len() - first;
            if count == 0 {
                continue;
            }
            sample.counts.push(u32::try_from(count).expect("no more than the request had"));
            if self.is_timed() {
                sample.at_ns.push(request.at.0);
            }
            let is_write = sample.packed[first] & WRITE_BIT != 0;
            sample.summary.requests += 1;
            sample.summary.write_requests += u64::from(is_write);
            let bytes = count as u64 * self.page_size_bytes();
            let total = &mut sample.summary;
            *if is_write { &mut total.write_bytes } else { &mut total.read_bytes } += bytes;
            total.time_reversals += u64::from(request.at < previous_at);
            previous_at = request.at;
        }
        sample.page_numbers = Arc::from(numbers);
        (!sample.packed.is_empty()).then_some(sample)
    }

    /// The same trace before its first request.
    fn without_accesses(&self) -> Self {
        let Summary { first_at, last_at, .. } = self.summary;
        Self {
            path: self.path.clone(),
            page_size: self.page_size,
            packed: vec![],
            at_ns: vec![],
            counts: vec![],
            access_clients: vec![],
            clients: self.clients,
            page_numbers: Arc::from([]),
            volume_bases: self.volume_bases.clone(),
            volume_names: self.volume_names.clone(),
            summary: Summary { first_at, last_at, ..Summary::default() },
            foresight: OnceLock::new(),
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
        #[test]
        fn a_sample_is_the_trace_without_other_pages(
            requests in prop::collection::vec((0_u64..60, 1_u64..5, any::<bool>()), 1..80),
            rate in 0.05..1.0_f64,
            seed in 0_u64..8,
            in_strata in any::<bool>(),
        ) {
            let trace = trace(&requests);
            let choose = if in_strata { Sampling::strata } else { Sampling::new };
            let sampling = choose(rate, seed).unwrap();
            let mut expected = vec![];
            for request in trace.requests() {
                let kept: Vec<_> = request
                    .accesses
                    .map(|index| trace.access(index))
                    .filter(|access| sampling.takes(access.page))
                    .map(|access| (trace.page_numbers()[access.page.index()], access.op))
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

    #[test]
    fn rates_are_shares_and_samples_contain_each_other() {
        for rate in [0.0, -0.5, 1.5, f64::NAN, f64::INFINITY] {
            assert_eq!(Sampling::new(rate, 1), None);
        }
        let [small, large, all] = [0.1, 0.3, 1.0].map(|rate| Sampling::new(rate, 7).unwrap());
        let count = |one: Sampling| (0..100_000).filter(|&page| one.takes(PageId(page))).count();
        assert!((9_700..10_300).contains(&count(small)), "{}", count(small));
        assert!((29_500..30_500).contains(&count(large)), "{}", count(large));
        assert_eq!(count(all), 100_000);
        assert!((0..10_000).map(PageId).all(|page| !small.takes(page) || large.takes(page)));
    }

    #[test]
    fn each_stratum_has_one_page() {
        for rate in [1.0, 0.9, 0.5, 1.0 / 3.0, 0.3, 0.1, 1.0 / 1024.0, 0.001] {
            let sampling = Sampling::strata(rate, 3).unwrap();
            let (mut taken, mut deepest) = (0_u32, 0.0_f64);
            for page in 0..30_000_u32 {
                taken += u32::from(sampling.takes(PageId(page)));
                deepest = deepest.max((f64::from(taken) - f64::from(page + 1) * rate).abs());
            }
            assert!(deepest <= 1.0 + rate + 1e-9, "{rate}: {deepest} off after some page");
        }
        assert_eq!(Sampling::strata(0.0, 1), None);
        // Every place of a stratum is taken about as often, and seeds differ.
        let of = |seed| Sampling::strata(0.1, seed).unwrap();
        let mut places = [0; 10];
        for page in (0..100_000).filter(|&page| of(5).takes(PageId(page))) {
            places[page as usize % 10] += 1;
        }
        assert!(places.iter().all(|count| (850..1150).contains(count)), "{places:?}");
        assert!((0..1000).map(PageId).any(|page| of(5).takes(page) != of(6).takes(page)));
    }
}
