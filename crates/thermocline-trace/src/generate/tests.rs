//! Generated traces: golden hashes, shares, and options that are refused.

use super::*;
use crate::{CompiledTrace, PageSize};

/// FNV-1a over every field of every request.
fn hash(options: Options) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for request in Generator::new(options).unwrap() {
        let Extent::Pages { first, count } = request.extent else { panic!("pages") };
        let is_write = u64::from(request.op == Op::Write);
        for word in [request.at.0, is_write, u64::from(request.volume), first, count] {
            for byte in word.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    hash
}

const PATTERNS: [Pattern; 6] = [
    Pattern::Uniform,
    Pattern::Zipf { alpha: 0.9 },
    Pattern::Zipf { alpha: 1.0 },
    Pattern::Sequential,
    Pattern::Loop,
    Pattern::OLTP,
];

#[test]
fn the_bytes_never_change() {
    let hashes = PATTERNS.map(|pattern| {
        hash(Options { pattern, requests: 10_000, pages: 1000, ..Options::default() })
    });
    let expected = [
        0xbe38_0863_70cb_f7b9,
        0xa29b_5fcc_7b18_1292,
        0x4f17_12ae_ca7b_0f08,
        0xb8ec_46ef_7858_3068,
        0xe6f4_5a8d_ea0e_6488,
        0x7e69_4ba4_b4f7_5cc4,
    ];
    assert_eq!(hashes, expected, "{hashes:#x?}");
}

#[test]
fn seeds_matter() {
    let options = Options { requests: 1000, ..Options::default() };
    assert_ne!(hash(options), hash(Options { seed: 2, ..options }));
}

#[test]
fn shares_and_sizes_are_as_asked() {
    for pattern in PATTERNS {
        let options = Options { pattern, requests: 20_000, pages: 500, ..Options::default() };
        let mut generator = Generator::new(options).unwrap();
        let trace = CompiledTrace::compile(&mut generator, PageSize::DEFAULT).unwrap();
        assert_eq!(trace.request_count(), 20_000);
        let share = trace.summary().write_requests as f64 / 20_000.0;
        let expected = match pattern {
            Pattern::Oltp { scan_share, log_share, .. } => {
                log_share + (1.0 - log_share - scan_share) * 0.3
            }
            Pattern::Uniform | Pattern::Zipf { .. } | Pattern::Sequential | Pattern::Loop => 0.3,
        };
        assert!((share - expected).abs() < 0.02, "{pattern:?}: {share}");
        let footprint_pages = match pattern {
            Pattern::Sequential => 20_000..20_001,
            Pattern::Oltp { .. } => 3000..6000,
            Pattern::Uniform | Pattern::Zipf { .. } | Pattern::Loop => 400..501,
        };
        assert!(footprint_pages.contains(&trace.footprint_pages()), "{pattern:?}");
    }
}

#[test]
fn contradictory_options_are_refused() {
    let good = Options::default();
    let check = |options: Options, expected: &str| {
        let message = Generator::new(options).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    };
    check(Options { write_share: 1.1, ..good }, "write share 1.1");
    check(Options { write_share: f64::NAN, ..good }, "write share NaN");
    check(Options { pages: 0, ..good }, "at least one");
    check(Options { requests: 0, ..good }, "at least one");
    check(Options { pages: u64::MAX, ..good }, "2^53 pages");
    check(Options { interarrival: Nanos(u64::MAX), ..good }, "2^64 ns");
    check(Options { pattern: Pattern::Zipf { alpha: -1.0 }, ..good }, "skew -1");
    check(Options { pages: 9, pattern: Pattern::OLTP, ..good }, "scan of 64 pages");
    let shift = |every_requests, pages| Some(Shift { every_requests, pages });
    check(Options { shift: shift(0, 5), ..good }, "every 1 or more");
    check(Options { shift: shift(5, 0), ..good }, "a move of 0 pages");
    check(Options { pages: 9, shift: shift(5, 10), ..good }, "from 1 to 9");
    let pattern = Pattern::Oltp { alpha: 1.0, scan_share: 0.6, scan_pages: 1, log_share: 0.6 };
    check(Options { pattern, ..good }, "sum of scan and log share");
}

/// Count the accesses to each page by the requests of a range.
fn counts(options: Options, requests: std::ops::Range<usize>) -> Vec<u32> {
    let page_count = usize::try_from(options.pages).unwrap();
    let mut counts = vec![0; page_count];
    let taken = Generator::new(options).unwrap().skip(requests.start).take(requests.len());
    for request in taken {
        let Extent::Pages { first, .. } = request.extent else { panic!("pages") };
        counts[usize::try_from(first).unwrap()] += 1;
    }
    counts
}

#[test]
fn the_hot_set_moves_by_as_many_ranks_as_asked() {
    // Without scattering, the page number is the rank in the first period.
    let options = Options {
        pattern: Pattern::Zipf { alpha: 1.2 },
        pages: 50,
        requests: 30_000,
        scatter: false,
        shift: Some(Shift { every_requests: 10_000, pages: 20 }),
        ..Options::default()
    };
    for (period, hottest) in [(0, 0), (1, 20), (2, 40)] {
        let counts = counts(options, period * 10_000..(period + 1) * 10_000);
        let most = (0..50).max_by_key(|&page| counts[page]).unwrap();
        assert_eq!(most, hottest, "period {period}");
        let coldest_half = (0..25).map(|rank| counts[(hottest + 25 + rank) % 50]).sum::<u32>();
        assert!(coldest_half < 1500, "the rest stays in the order of ranks: {coldest_half}");
    }
    let still = Options { shift: None, ..options };
    assert_eq!(
        counts(options, 0..10_000),
        counts(still, 0..10_000),
        "the first period is the same"
    );
    assert_ne!(counts(options, 10_000..20_000), counts(still, 10_000..20_000));
}
