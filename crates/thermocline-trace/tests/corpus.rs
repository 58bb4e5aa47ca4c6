//! Compares heads of public corpora, if they are available, with counts of other programs.
//!
//! The tests look for them in the folder `THERMOCLINE_TRACES`, or beside the checkout, and say so when
//! they skip.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_core::{Nanos, Op};
use thermocline_trace::{
    CompiledTrace, Extent, FormatName, Mapping, Objects, PageSize, ReadOptions, Reader, Request,
    Requests, TraceError,
};

fn sample(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let root = std::env::var_os("THERMOCLINE_TRACES").map_or_else(beside, PathBuf::from);
    let path = root.join("corpus").join(name);
    if path.is_file() {
        return Some(path);
    }
    skip(&path);
    None
}

#[expect(clippy::print_stderr, reason = "what was not tested must be visible")]
fn skip(path: &Path) {
    eprintln!("skipped: {} is absent", path.display());
}

fn all(path: &Path, options: &ReadOptions) -> Result<(Vec<Request>, Reader), TraceError> {
    let mut reader = Reader::open(path, options)?;
    let (mut all, mut batch) = (vec![], vec![]);
    while reader.read_batch(&mut batch)? {
        all.append(&mut batch);
    }
    Ok((all, reader))
}

fn named(format: FormatName) -> ReadOptions {
    ReadOptions { format: Some(format), ..ReadOptions::default() }
}

fn described(columns: &str) -> ReadOptions {
    let mapping: Mapping = columns.parse().expect("the mapping is well-formed");
    ReadOptions { columns: Some(Arc::new(mapping)), ..ReadOptions::default() }
}

/// Return the requests, objects, bytes requested, and the bytes of all objects at their first size.
fn figures(requests: &[Request]) -> (usize, usize, u64, u64) {
    let (mut sizes, mut bytes) = (HashMap::new(), 0);
    for request in requests {
        let Extent::Object { id, length, .. } = request.extent else { panic!("{request:?}") };
        sizes.entry(id).or_insert(length);
        bytes += length;
    }
    (requests.len(), sizes.len(), bytes, sizes.values().sum())
}

const SECOND_NS: u64 = 1_000_000_000;

/// The requests that all the constructed files hold, the last of which removes an object.
const SIX: [(u64, u64, u64, Op); 5] = [
    (0, 11, 4096, Op::Read),
    (0, 12, 512, Op::Write),
    (1, 11, 4096, Op::Read),
    (3, 13, 10_000, Op::Read),
    (3, 12, 512, Op::Read),
];

/// A worked example.
#[test]
fn all_versions_of_lcs_hold_the_same_requests() {
    for version in 1..=8 {
        let Some(path) = sample(&format!("constructed/six.v{version}.lcs")) else { continue };
        let (requests, reader) = all(&path, &ReadOptions::default()).unwrap();
        assert_eq!(reader.format(), FormatName::Lcs);
        let has_ops = version > 1;
        let expected: Vec<_> = SIX
            .iter()
            .map(|&(at, id, size, op)| (at, id, size, if has_ops { op } else { Op::Read }))
            .chain((!has_ops).then_some((9, 11, 4096, Op::Read)))
            .collect();
        let found: Vec<_> = requests
            .iter()
            .map(|request| {
                let Extent::Object { id, offset: 0, length } = request.extent else {
                    panic!("{request:?}");
                };
                (request.at.0 / SECOND_NS, id, length, request.op)
            })
            .collect();
        assert_eq!(found, expected, "version {version}");
        assert_eq!(reader.counts().removals, u64::from(has_ops));
        if has_ops {
            let tenants: Vec<&str> = requests
                .iter()
                .map(|request| reader.volume_names()[request.volume as usize].as_str())
                .collect();
            assert_eq!(tenants, ["1", "1", "1", "2", "1"], "version {version}");
        }
        let mut reader = Reader::open(&path, &ReadOptions::default()).unwrap();
        let trace = CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap();
        let accesses: Vec<usize> =
            trace.requests().map(|request| request.accesses.len()).take(5).collect();
        assert_eq!(accesses, [1, 1, 1, 3, 1], "version {version}");

        let bytes = std::fs::read(&path).unwrap();
        let cut = bytes[..bytes.len() - 1].to_vec();
        let mut reader =
            Reader::from_read("cut", std::io::Cursor::new(cut), &ReadOptions::default()).unwrap();
        let error =
            reader.read_batch(&mut vec![]).err().or_else(|| reader.read_batch(&mut vec![]).err());
        assert!(
            matches!(error, Some(TraceError::Truncated { .. })),
            "version {version}: {error:?}"
        );
    }
}

#[test]
fn other_constructed_files_hold_them_too() {
    let of_ids = |requests: &[Request]| -> Vec<(u64, Op)> {
        let id = |request: &Request| {
            let Extent::Object { id, .. } = request.extent else { panic!("{request:?}") };
            (id, request.op)
        };
        requests.iter().map(id).collect()
    };
    let ids: Vec<(u64, Op)> = SIX.iter().map(|&(_, id, _, op)| (id, op)).collect();
    let files = [
        ("six.old.lcs", ReadOptions::default(), FormatName::Lcs),
        (
            "six.oracleGeneralOpNS",
            named(FormatName::OracleGeneralOpNs),
            FormatName::OracleGeneralOpNs,
        ),
        ("six.kosmo", named(FormatName::Kosmo), FormatName::Kosmo),
        ("six.cachesim.parquet", ReadOptions::default(), FormatName::CachesimParquet),
    ];
    for (name, options, format) in files {
        let Some(path) = sample(&format!("constructed/{name}")) else { continue };
        let (requests, reader) = all(&path, &options).unwrap();
        assert_eq!(reader.format(), format, "{name}");
        assert_eq!(of_ids(&requests), ids, "{name}");
        let sizes: u64 = figures(&requests).2;
        assert_eq!(sizes, SIX.iter().map(|row| row.2).sum::<u64>(), "{name}");
        if name != "six.kosmo" {
            let at: Vec<Nanos> = requests.iter().map(|request| request.at).collect();
            let first = at[0].0;
            let seconds: Vec<u64> = at.iter().map(|at| (at.0 - first) / SECOND_NS).collect();
            assert_eq!(seconds, SIX.map(|row| row.0), "{name}");
        }
    }
    let Some(path) = sample("constructed/six.oracleGeneral") else { return };
    let (requests, _) = all(&path, &named(FormatName::OracleGeneral)).unwrap();
    assert_eq!(requests.len(), 6);
}

/// Worked examples of two corpora: the reading of their files.
#[test]
fn objects_and_bytes_are_those_that_were_counted() {
    if let Some(path) = sample("libcachesim/cloudPhysicsIO.oracleGeneral.bin") {
        let (requests, reader) = all(&path, &ReadOptions::default()).unwrap();
        assert_eq!(reader.format(), FormatName::OracleGeneral);
        assert_eq!(figures(&requests), (113_872, 48_974, 4_368_040_448, 2_029_769_728));
        let mut reader = Reader::open(&path, &ReadOptions::default()).unwrap();
        let trace = CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap();
        assert_eq!(trace.summary().objects, 48_974);
        assert_eq!(trace.summary().read_bytes, 4_368_040_448);
        let bytes: u64 =
            trace.access_bytes().map_or(0, |all| all.iter().copied().map(u64::from).sum());
        assert!(bytes == 0 || bytes == 4_368_040_448);
        let one = ReadOptions { objects: Objects::One, ..ReadOptions::default() };
        let mut reader = Reader::open(&path, &one).unwrap();
        let trace = CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap();
        assert_eq!((trace.len(), trace.footprint_pages()), (113_872, 48_974));
    }
    if let Some(path) = sample("adaptsize/request.trace.xz") {
        let options = described("time=1:s, key=2, size=3");
        let (requests, _) = all(&path, &options).unwrap();
        assert_eq!(figures(&requests), (66_987, 36_815, 485_457_552, 278_854_232));
    }
}

/// A worked example of a corpus without a header, with tabs. A time that is not an integer is an error.
#[test]
fn columns_that_are_described_are_those_that_were_counted() {
    let files = [
        ("3lcache/tencentBlock.ns1326.sample.csv", 50_350, 578_224_128),
        ("3lcache/tencentBlock.ns3906.sample.csv", 58_147, 1_219_718_656),
    ];
    for (name, objects, footprint_bytes) in files {
        let Some(path) = sample(name) else { continue };
        for key in ["key=2", "key=2:integer"] {
            let options = described(&format!("time=1:s, {key}, size=3"));
            let (requests, _) = all(&path, &options).unwrap();
            let (count, found, _, bytes) = figures(&requests);
            assert_eq!((count, found, bytes), (100_001, objects, footprint_bytes), "{name} {key}");
        }
    }
}

/// A worked example.
#[test]
fn heads_of_cachelibs_traces_have_their_known_counts() {
    let kv = [("cachelib/kv_traces_1.csv", 99, 691, 16), ("cachelib/kv_traces_2.csv", 99, 433, 14)];
    for (name, rows, op_count, unknown) in kv {
        let Some(path) = sample(name) else { continue };
        let (requests, reader) = all(&path, &ReadOptions::default()).unwrap();
        assert_eq!(reader.format(), FormatName::MetaKv, "{name}");
        let counts = reader.counts();
        assert!(counts.removals <= 2 && counts.unknown_sizes <= unknown, "{name}: {counts:?}");
        assert!(requests.len() as u64 <= op_count && requests.len() > rows / 2, "{name}");
    }
    let blocks =
        [("cachelib/block_traces_1.csv", 626, 1023), ("cachelib/block_traces_2.csv", 646, 1016)];
    for (name, objects, op_count) in blocks {
        let Some(path) = sample(name) else { continue };
        let (requests, reader) = all(&path, &ReadOptions::default()).unwrap();
        assert_eq!(reader.format(), FormatName::Tectonic, "{name}");
        assert_eq!(reader.page_size().map(PageSize::bytes), Some(128 << 10));
        assert_eq!((requests.len(), reader.counts().other_events), (op_count, 0), "{name}");
        let ids: HashSet<u64> = requests
            .iter()
            .map(|request| {
                let Extent::Object { id, .. } = request.extent else { panic!("{request:?}") };
                id
            })
            .collect();
        assert_eq!(ids.len(), objects, "{name}");
    }
}

/// A file with carriage returns and no line end at its end.
#[test]
fn a_file_with_windows_line_ends_is_read_to_its_end() {
    let files = [
        ("azure/AzureLLMInferenceTrace_code.csv", 8_819),
        ("azure/AzureLLMInferenceTrace_conv.csv", 19_366),
    ];
    for (name, rows) in files {
        let Some(path) = sample(name) else { continue };
        let options =
            described("time=TIMESTAMP:rfc3339, offset=ContextTokens, length=GeneratedTokens");
        let (requests, reader) = all(&path, &options).unwrap();
        assert_eq!(requests.len(), rows, "{name}");
        assert_eq!(reader.counts().header_lines, 1, "{name}");
    }
}

/// JSON lines of another kind, of which only scalars are taken.
#[test]
fn lines_of_json_are_read_by_name() {
    let Some(path) = sample("mooncake/synthetic_trace.jsonl") else { return };
    let options = described("time=timestamp:ms, offset=output_length, length=input_length");
    let (requests, _) = all(&path, &options).unwrap();
    assert_eq!(requests.len(), 3_993);
}
