//! Compares real traces, if they are available, with their published or counted figures.
//!
//! They may not be redistributed. The tests look for them in the folder `THERMOCLINE_TRACES`, or
//! beside the checkout, and say so when they skip.

use std::path::{Path, PathBuf};

use thermocline_trace::{
    CompiledTrace, FormatName, PageSize, ReadCounts, ReadOptions, Reader, Stats,
};

/// Return the folder with the traces, if there is one.
fn folder(part: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let root = std::env::var_os("THERMOCLINE_TRACES").map_or_else(beside, PathBuf::from);
    let folder = root.join(part);
    if folder.is_dir() {
        return Some(folder);
    }
    skip(&folder);
    None
}

#[expect(clippy::print_stderr, reason = "what was not tested must be visible")]
fn skip(path: &Path) {
    eprintln!("skipped: {} is absent", path.display());
}

/// Known figures of a trace.
struct Known {
    file: &'static str,
    format: FormatName,
    requests: u64,
    /// Share of requests, in percent, rounded.
    write_percent: f64,
    accesses: Option<u64>,
    other_events: u64,
    blank_lines: u64,
}

const fn known(file: &'static str, format: FormatName, requests: u64, write_percent: f64) -> Known {
    Known { file, format, requests, write_percent, accesses: None, other_events: 0, blank_lines: 0 }
}

fn compile(path: &Path) -> (CompiledTrace, FormatName, ReadCounts, PageSize) {
    let mut reader = Reader::open(path, &ReadOptions::default()).expect("its format is recognised");
    let page_size = reader.page_size().unwrap_or_default();
    let trace = CompiledTrace::compile(&mut reader, page_size).expect("it is well-formed");
    (trace, reader.format(), reader.counts(), page_size)
}

fn check(folder: &Path, known: &Known) {
    let path = folder.join(known.file);
    if !path.is_file() {
        skip(&path);
        return;
    }
    let (trace, format, counts, _) = compile(&path);
    let file = known.file;
    assert_eq!(format, known.format, "{file}");
    assert_eq!(counts.requests, known.requests, "{file}");
    assert_eq!(counts.other_events, known.other_events, "{file}: {counts:?}");
    assert_eq!(counts.blank_lines, known.blank_lines, "{file}: {counts:?}");
    let writes = trace.summary().write_requests as f64 / known.requests as f64;
    assert!((writes * 100.0 - known.write_percent).abs() <= 0.5, "{file}: {writes}");
    if let Some(accesses) = known.accesses {
        assert_eq!(trace.len() as u64, accesses, "{file}");
    }
    let stats = Stats::of(&trace);
    let ratios: Vec<f64> = stats.lru.iter().map(|lru| lru.hit_ratio).collect();
    assert!(ratios.is_sorted() && ratios[3] < 1.0, "{file}: {ratios:?}");
}

#[test]
fn published_traces_have_their_known_counts() {
    use FormatName::{Diskmon, Fiu, Lis, Mobibench, Mqsim, Msr, Pages, Spc, Ssdsim, Vscsi};
    let Some(folder) = folder("public") else { return };
    let tests = [
        known("financial1-head10k.ssdsim.xz", Ssdsim, 10_000, 59.0),
        known("financial1-head949.spc.xz", Spc, 949, 81.0),
        known("websearch1-head25k.mqsim.xz", Mqsim, 24_783, 0.0),
        known("msr-hm_0-head1k.csv.xz", Msr, 1000, 49.0),
        known("fiu-home1-head1k.blkparse.xz", Fiu, 1000, 100.0),
        known("msn-sfs-head150k.disksim-ms.xz", Ssdsim, 149_999, 13.0),
        known("tpcc-head7k.mqsim.xz", Mqsim, 6999, 37.0),
        known("cloudphysics-head114k.vscsi.xz", Vscsi, 113_872, 59.0),
        known("pc-mayun2.diskmon.xz", Diskmon, 87_160, 58.0),
        known("pc-mayun4.diskmon.xz", Diskmon, 17_428, 63.0),
        Known { blank_lines: 1, ..known("pcmark.disksim-ms.xz", Ssdsim, 56_088, 25.0) },
        Known {
            other_events: 446 + 212 + 479 + 97,
            ..known("mobibench-twitter.mobibench.xz", Mobibench, 10_945, 49.0)
        },
        Known { accesses: Some(914_145), ..known("arc-OLTP.lis.zst", Lis, 914_145, 0.0) },
        Known { accesses: Some(3_912_296), ..known("arc-P3.lis.zst", Lis, 238_578, 0.0) },
        Known { accesses: Some(12_672_123), ..known("arc-P6.lis.zst", Lis, 519_711, 0.0) },
        Known { other_events: 2, ..known("lirs-2_pools.txt.gz", Pages, 100_000, 0.0) },
        known("lirs-cpp.txt.gz", Pages, 9047, 0.0),
        Known { other_events: 2, ..known("lirs-cs.txt.gz", Pages, 6781, 0.0) },
        Known { blank_lines: 1, ..known("lirs-gli.txt.gz", Pages, 6015, 0.0) },
        known("lirs-multi1.txt.gz", Pages, 15_858, 0.0),
        known("lirs-multi2.txt.gz", Pages, 26_311, 0.0),
        known("lirs-sprite.txt.gz", Pages, 133_996, 0.0),
    ];
    for test in &tests {
        check(&folder, test);
    }
}

/// Unique pages, page accesses and writes of the recordings, in thousandths.
#[test]
fn recordings_have_their_known_counts() {
    let Some(folder) = folder("captured") else { return };
    let tests = [
        ("tpcb", 8192, 802_784, 1_125_514, 637.0, 286_453),
        ("tpcb_logical", 8192, 878_385, 878_385, 200.0, 53_263),
        ("tatp", 8192, 307_005, 328_072, 323.0, 86_308),
        ("tpch", 8192, 2_793_630, 2_793_680, 5.0, 212_558),
        ("mlk", 4096, 1_475_012, 3_193_633, 20.0, 55_361),
    ];
    for (name, page_size_bytes, requests, accesses, write_permille, footprint_pages) in tests {
        let path = folder.join(format!("{name}.csv.zst"));
        if !path.is_file() {
            skip(&path);
            continue;
        }
        let (trace, format, counts, page_size) = compile(&path);
        assert_eq!(format, FormatName::Recording, "{name}");
        assert_eq!(page_size.bytes(), page_size_bytes, "{name}");
        assert_eq!((counts.requests, trace.len() as u64), (requests, accesses), "{name}");
        assert_eq!(trace.footprint_pages(), footprint_pages, "{name}");
        let writes = trace.writes() as f64 / trace.len() as f64;
        assert!((writes * 1000.0 - write_permille).abs() <= 0.5, "{name}: {writes}");
    }
}
