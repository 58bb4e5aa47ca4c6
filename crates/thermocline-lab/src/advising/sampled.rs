//! A sample of the accesses, ready to be replayed, beside what all accesses were.

use std::ops::Range;
use std::sync::Arc;

use thermocline_core::{Op, PageId, Run};
use thermocline_trace::{Choice, CompiledTrace, Place, RunningSample, Sampling};

use super::{PARTS, STEADY_PARTS};
use crate::LabError;

/// Reads and writes, in this order.
pub(super) type Ops = [f64; 2];

/// Some of the extents with all their accesses.
#[derive(Clone, Debug)]
pub(super) struct Sampled {
    pub(super) trace: CompiledTrace,
    /// The share of the extents that is in it.
    pub(super) rate: f64,
    /// The sequential runs of all requests, for the accesses of the sample.
    pub(super) runs: Vec<Run>,
    pub(super) index: Arc<Index>,
    extent_pages: u32,
}

/// Times and extents of a sample's accesses.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// Part of the time in which each access came. Each part has as many accesses as the others,
    /// those outside the sample included.
    parts: Vec<u8>,
    /// Extent of each page by its id, numbered from 0.
    extent_of_page: Vec<u32>,
    /// Requests to each extent.
    pub(super) extents: Vec<Asked>,
    /// Requests to all extents in each part of the time, those outside the sample included.
    pub(super) all: [Ops; PARTS],
    /// Requests to the extents of the sample.
    pub(super) sampled: [Ops; PARTS],
}

/// Requests to an extent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    pub(super) ever: Ops,
    /// Requests in the parts of the time from which a forecast is made.
    pub(super) while_steady: Ops,
}

/// The parts of the time from which a forecast is made.
pub(super) const STEADY: Range<usize> = PARTS - STEADY_PARTS..PARTS;

impl Sampled {
    /// Return the accesses that a sample has.
    pub(super) fn new(sample: &RunningSample, name: &std::path::Path) -> Result<Self, LabError> {
        let trace = CompiledTrace::compile(&mut sample.requests(name), sample.page_size())?;
        let extent_pages = u32::try_from(sample.extent_pages()).unwrap_or(u32::MAX);
        let rate = sample.rate();
        let trace = if rate < 1.0 { trace.condensed(extent_pages, rate) } else { trace };
        let (accesses, writes) = (sample.totals().accesses, sample.totals().writes);
        let all = ops_of_parts(sample.places(), Place { accesses, writes });
        let parts = sample.places().map(|place| part_of(place, accesses)).collect();
        let index = Arc::new(Index::new(&trace, extent_pages, parts, all));
        Ok(Self { trace, rate, runs: sample.runs().collect(), index, extent_pages })
    }

    /// Return a sample of the sample; `None` if nothing would be in it.
    pub(super) fn share(&self, share: f64, seed: u64) -> Option<Self> {
        let Self { trace, rate, runs, index, extent_pages } = self;
        let sampling = Sampling::new(share, Choice::Hash, seed)?.of_extents(*extent_pages);
        let sampled = trace.sampled(sampling)?.condensed(*extent_pages, share);
        let is_sampled = trace.sampled_pages(sampling);
        let accesses = trace.accesses().map(|access| is_sampled[access.page.index()]);
        let of_sample = runs.iter().zip(&index.parts).zip(accesses).filter(|(_, is_in)| *is_in);
        let (runs, parts) = of_sample.map(|((&run, &part), _)| (run, part)).unzip();
        let index = Arc::new(Index::new(&sampled, *extent_pages, parts, index.all));
        Some(Self { trace: sampled, rate: rate * share, runs, index, extent_pages: *extent_pages })
    }
}

impl Index {
    fn new(trace: &CompiledTrace, extent_pages: u32, parts: Vec<u8>, all: [Ops; PARTS]) -> Self {
        let places = trace.page_numbers().iter().map(|number| number / u64::from(extent_pages));
        let places: Vec<u64> = places.collect();
        let mut known = places.clone();
        known.sort_unstable();
        known.dedup();
        let number = |place| u32::try_from(known.partition_point(|&one| one < place));
        let numbers = places.into_iter().map(number);
        let extent_of_page: Vec<u32> =
            numbers.collect::<Result<_, _>>().expect("there are no more extents than pages");
        let mut index = Self {
            parts,
            extent_of_page,
            extents: vec![Asked::default(); known.len()],
            all,
            sampled: [[0.0; 2]; PARTS],
        };
        for (place, access) in trace.accesses().enumerate() {
            let (part, op) = (index.part(place), access.op as usize);
            index.sampled[part][op] += 1.0;
            let extent = index.extent(access.page);
            index.extents[extent].ever[op] += 1.0;
            if STEADY.contains(&part) {
                index.extents[extent].while_steady[op] += 1.0;
            }
        }
        index
    }

    /// Return the part of the time in which an access came.
    pub(super) fn part(&self, access: usize) -> usize {
        self.parts[access].into()
    }

    pub(super) fn extent(&self, page: PageId) -> usize {
        self.extent_of_page[page.index()] as usize
    }
}

/// Return the part of the time that an access is in, if there are so many.
fn part_of(Place { accesses: before, .. }: Place, accesses: u64) -> u8 {
    let part = ((before + 1) * PARTS as u64).div_ceil(accesses.max(1)) - 1;
    u8::try_from(part).expect("there are few parts")
}

/// Count the requests in each part of the time from the places of some of the accesses; `end` is
/// after the last one. Between two places, writes are spread evenly.
fn ops_of_parts(places: impl Iterator<Item = Place>, end: Place) -> [Ops; PARTS] {
    let mut ends = (1..=PARTS as u64).map(|part| part * end.accesses / PARTS as u64).peekable();
    let mut before = Place::default();
    let (mut accesses, mut writes) = (0, 0.0);
    let mut parts = vec![];
    for place in places.chain([end]) {
        while let Some(cut) = ends.next_if(|&cut| cut <= place.accesses) {
            let share = (cut - before.accesses) as f64
                / ((place.accesses - before.accesses) as f64).max(1.0);
            let written = before.writes as f64 + share * (place.writes - before.writes) as f64;
            let of_part = written - writes;
            parts.push([(cut - accesses) as f64 - of_part, of_part]);
            (accesses, writes) = (cut, written);
        }
        before = place;
    }
    parts.try_into().expect("all parts end with the last access")
}

/// The first is `Op::Read`, as in [`Ops`].
const _: () = assert!(Op::Read as usize == 0 && Op::Write as usize == 1);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thermocline_core::Nanos;
    use thermocline_trace::{Extent, PageSize, Request};

    use super::*;

    fn sum(parts: &[Ops]) -> Ops {
        parts.iter().fold([0.0; 2], |sum, part| [sum[0] + part[0], sum[1] + part[1]])
    }

    proptest! {
        #[test]
        fn parts_have_what_all_requests_had(
            requests in prop::collection::vec((any::<bool>(), 0_u64..4000, 1_u64..40), 1..200),
            rate in prop::sample::select(&[1.0, 0.5, 0.25]),
            seed in 0_u64..4,
        ) {
            let mut sample = RunningSample::new(PageSize::DEFAULT, seed).with_rate_at_most(rate);
            let mut ops = vec![];
            for (at, &(is_write, first, count)) in (0..).zip(&requests) {
                let op = if is_write { Op::Write } else { Op::Read };
                let extent = Extent::Pages { first, count };
                sample.add(&Request { at: Nanos(at), op, volume: 0, extent });
                ops.extend(std::iter::repeat_n(op, usize::try_from(count).unwrap()));
            }
            let Ok(sampled) = Sampled::new(&sample, "t".as_ref()) else { return Ok(()) };
            let Index { all, sampled: of_sample, extents, .. } = &*sampled.index;
            let count = |op: Op| ops.iter().filter(|&&one| one == op).count() as f64;
            let [reads, writes] = sum(all);
            prop_assert!((reads - count(Op::Read)).abs() < 1e-6, "{reads}");
            prop_assert!((writes - count(Op::Write)).abs() < 1e-6, "{writes}");
            for (part, [reads, writes]) in all.iter().enumerate() {
                let [begin, end] = [part, part + 1].map(|part| part * ops.len() / PARTS);
                prop_assert!((reads + writes - (end - begin) as f64).abs() < 1e-6);
                let written = ops[begin..end].iter().filter(|&&op| op == Op::Write).count();
                prop_assert!(rate < 1.0 || (writes - written as f64).abs() < 1e-6);
            }
            prop_assert!(rate < 1.0 || all == of_sample);
            let ever: Vec<Ops> = extents.iter().map(|asked| asked.ever).collect();
            let steady: Vec<Ops> = extents.iter().map(|asked| asked.while_steady).collect();
            prop_assert_eq!(sum(&ever).map(f64::to_bits), sum(of_sample).map(f64::to_bits));
            prop_assert_eq!(sum(&steady).map(f64::to_bits), sum(&of_sample[STEADY]).map(f64::to_bits));

            let Some(share) = sampled.share(0.5, seed) else { return Ok(()) };
            prop_assert_eq!(share.index.all, *all);
            prop_assert_eq!(share.runs.len(), share.trace.len());
            let parts = share.index.sampled.iter().zip(of_sample);
            prop_assert!(parts.flat_map(|(one, whole)| one.iter().zip(whole)).all(|(one, whole)| one <= whole));
        }
    }
}
