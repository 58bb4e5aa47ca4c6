//! Statistics of a trace.

use serde::Serialize;
use thermocline_core::Nanos;

use crate::character::Character;
use crate::compiled::CompiledTrace;
use crate::id_map::WRITE_BIT;
use crate::lru_stack::LruStack;

/// Cache sizes for which LRU hit ratios are given, in percent of the footprint.
pub const LRU_PERCENTS: [u32; 4] = [1, 5, 10, 20];

/// An LRU cache's hit ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LruHitRatio {
    /// The size, in percent of the footprint.
    pub footprint_percent: u32,
    /// The size in pages, rounded up.
    pub capacity_pages: u32,
    /// Accesses that hit.
    pub hits: u64,
    /// Hits / accesses, in \[0, 1\].
    pub hit_ratio: f64,
}

/// A trace in numbers. Shares are in \[0, 1\].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Page size.
    pub page_size_bytes: u64,
    /// Volumes.
    pub volumes: usize,
    /// Requests that address something.
    pub requests: u64,
    /// Requests that write.
    pub write_requests: u64,
    /// Writing requests / requests.
    pub write_request_share: f64,
    /// Requests that address nothing; they are in no other number.
    pub zero_length_requests: u64,
    /// Bytes asked for by reads.
    pub read_bytes: u64,
    /// Bytes asked for by writes.
    pub write_bytes: u64,
    /// Distinct objects, if the requests are to objects with sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Page accesses.
    pub accesses: u64,
    /// Page accesses that read.
    pub reads: u64,
    /// Page accesses that write.
    pub writes: u64,
    /// Writing accesses / accesses.
    pub write_share: f64,
    /// Distinct pages.
    pub footprint_pages: u32,
    /// Distinct pages, in bytes; saturates at 2^64 - 1.
    pub footprint_bytes: u64,
    /// Pages from the first to the last page number, summed over the volumes; saturates.
    pub span_pages: u64,
    /// Requests that begin where the previous one to the same volume ended / requests.
    pub sequential_request_share: f64,
    /// Accesses to the page behind the previous access's page / accesses.
    pub sequential_access_share: f64,
    /// Pages accessed once / pages.
    pub touched_once_share: f64,
    /// Accesses / pages.
    pub mean_references_per_page: f64,
    /// `true` if the trace has times.
    pub is_timed: bool,
    /// Time from the earliest to the latest request, in nanoseconds.
    pub duration_ns: u64,
    /// Requests earlier than the one before them.
    pub time_reversals: u64,
    /// LRU hit ratios at [`LRU_PERCENTS`] of the footprint, all accesses counted.
    pub lru: Vec<LruHitRatio>,
    /// Character of its workload.
    pub character: Character,
}

impl Stats {
    /// Counts everything in several passes over the accesses.
    pub fn of(trace: &CompiledTrace) -> Self {
        let summary = trace.summary();
        let accesses = trace.len() as u64;
        let writes = trace.writes();
        let footprint_pages = trace.footprint_pages();
        let reuse = Reuse::of(trace);
        let ratio = |part: u64, whole: u64| part as f64 / whole as f64;
        Self {
            page_size_bytes: trace.page_size_bytes(),
            volumes: trace.volume_names().len(),
            requests: summary.requests,
            write_requests: summary.write_requests,
            write_request_share: ratio(summary.write_requests, summary.requests),
            zero_length_requests: summary.zero_length_requests,
            objects: Some(summary.objects).filter(|&objects| objects > 0),
            read_bytes: summary.read_bytes,
            write_bytes: summary.write_bytes,
            accesses,
            reads: accesses - writes,
            writes,
            write_share: ratio(writes, accesses),
            footprint_pages,
            footprint_bytes: u64::from(footprint_pages).saturating_mul(trace.page_size_bytes()),
            span_pages: span_pages(trace),
            sequential_request_share: ratio(summary.sequential_requests, summary.requests),
            sequential_access_share: ratio(reuse.sequential_accesses, accesses),
            touched_once_share: ratio(reuse.pages_touched_once, u64::from(footprint_pages)),
            mean_references_per_page: ratio(accesses, u64::from(footprint_pages)),
            is_timed: trace.is_timed(),
            duration_ns: summary.last_at.0 - summary.first_at.0,
            time_reversals: summary.time_reversals,
            lru: lru_hit_ratios(trace),
            character: Character::of(trace),
        }
    }

    /// Return the time from the earliest to the latest request.
    pub const fn duration(&self) -> Nanos {
        Nanos(self.duration_ns)
    }
}

struct Reuse {
    sequential_accesses: u64,
    pages_touched_once: u64,
}

impl Reuse {
    fn of(trace: &CompiledTrace) -> Self {
        let mut references = vec![0_u8; trace.footprint_pages() as usize];
        let numbers = trace.page_numbers();
        let mut sequential_accesses = 0;
        // No page number is 2^64 - 1, so nothing follows the page before the first.
        let mut next_number = u64::MAX;
        for &packed in trace.packed() {
            let page = (packed & !WRITE_BIT) as usize;
            references[page] = references[page].saturating_add(1);
            sequential_accesses += u64::from(numbers[page] == next_number);
            next_number = numbers[page] + 1;
        }
        let pages_touched_once = references.iter().map(|&count| u64::from(count == 1)).sum();
        Self { sequential_accesses, pages_touched_once }
    }
}

fn span_pages(trace: &CompiledTrace) -> u64 {
    let mut spans: Vec<Option<(u64, u64)>> = vec![None; trace.volume_bases.len()];
    for &number in trace.page_numbers() {
        let volume = trace.volume_bases.partition_point(|&base| base <= number) - 1;
        let span = spans[volume].get_or_insert((number, number));
        *span = (span.0.min(number), span.1.max(number));
    }
    let lengths = spans.into_iter().flatten().map(|(first, last)| last - first + 1);
    lengths.fold(0, u64::saturating_add)
}

fn lru_hit_ratios(trace: &CompiledTrace) -> Vec<LruHitRatio> {
    let footprint_pages = trace.footprint_pages();
    let capacities = LRU_PERCENTS.map(|percent| {
        let pages = (u64::from(footprint_pages) * u64::from(percent)).div_ceil(100);
        u32::try_from(pages).expect("a part of the footprint")
    });
    let mut sizes_pages = capacities.to_vec();
    sizes_pages.dedup();
    let mut stack = LruStack::new(footprint_pages, sizes_pages.clone());
    for &packed in trace.packed() {
        stack.access(packed & !WRITE_BIT);
    }
    let hits = stack.hits();
    let of = |(footprint_percent, capacity_pages): (u32, u32)| {
        let size = sizes_pages.binary_search(&capacity_pages).expect("its size was simulated");
        let hit_ratio = hits[size] as f64 / trace.len() as f64;
        LruHitRatio { footprint_percent, capacity_pages, hits: hits[size], hit_ratio }
    };
    LRU_PERCENTS.into_iter().zip(capacities).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PageSize, ReadOptions, Reader};
    use std::io::Cursor;

    fn stats(lines: &'static str) -> Stats {
        let mut reader =
            Reader::from_read("t", Cursor::new(lines), &ReadOptions::default()).unwrap();
        Stats::of(&CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap())
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "ratios of small numbers are exact or identical")]
    fn a_small_trace_by_hand() {
        let stats =
            stats("0,0,8192,r,0.5\n0,16,4096,w,1\n1,800,512,w,0.75\n0,24,0,r,2\n0,0,4096,r,2.5\n");
        assert_eq!((stats.requests, stats.write_requests, stats.zero_length_requests), (4, 2, 1));
        assert_eq!((stats.accesses, stats.reads, stats.writes), (5, 3, 2));
        assert_eq!((stats.footprint_pages, stats.footprint_bytes, stats.volumes), (4, 16_384, 2));
        assert_eq!(stats.span_pages, 3 + 1);
        assert_eq!(stats.sequential_request_share, 0.25);
        assert_eq!(stats.sequential_access_share, 2.0 / 5.0);
        assert_eq!(stats.touched_once_share, 3.0 / 4.0);
        assert_eq!(stats.mean_references_per_page, 5.0 / 4.0);
        assert_eq!((stats.duration_ns, stats.time_reversals), (2_000_000_000, 1));
        assert_eq!((stats.read_bytes, stats.write_bytes), (12_288, 4608));
        assert_eq!(stats.lru.iter().map(|lru| lru.capacity_pages).collect::<Vec<_>>(), [1; 4]);
        assert!(stats.lru.iter().all(|lru| lru.hits == 0));
    }

    #[test]
    fn a_page_that_follows_itself_always_hits() {
        let stats = stats("7\n7\n7\n7\n");
        assert!(stats.lru.iter().all(|lru| lru.hits == 3 && lru.capacity_pages == 1));
        assert!(!stats.is_timed);
    }
}
