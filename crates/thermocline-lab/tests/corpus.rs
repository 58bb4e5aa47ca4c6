//! Corpora: a run goes on where it was, on any number of threads; statistics are those published.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use thermocline_core::PageCost;
use thermocline_core::config::Given;
use thermocline_lab::corpus::statistics::{
    Bootstrap, friedman, mean, percentile, ranks_descending, reduction, sorted,
};
use thermocline_lab::corpus::{Manifest, Outcome, Plan, Progress, Request, RunSettings, results};
use thermocline_lab::mrc::Rate;
use thermocline_lab::spec::{
    BufferSpec, DriveSpec, HierarchySpec, ParameterSpec, Selection, SsdSize, TierSpec,
};
use thermocline_lab::{CompiledCache, RunOptions, Watch};
use thermocline_trace::columns::ColumnReader;

/// Three synthetic traces in two data sets.
const MANIFEST: &str = r#"
[[dataset]]
name = "zipf"
licence = "ours"
class = "synthetic"
[[dataset.trace]]
name = "steep"
path = "steep.csv"
generate = { kind = "zipf", requests = 20000, pages = 3000, alpha = 1.1, write_share = 0.3 }
[[dataset.trace]]
name = "flat"
path = "flat.csv"
generate = { kind = "zipf", requests = 15000, pages = 3000, alpha = 0.7, write_share = 0.3, seed = 2 }
[[dataset]]
name = "loops"
licence = "ours"
class = "synthetic"
[[dataset.trace]]
name = "loop"
path = "loop.csv"
generate = { kind = "loop", requests = 9000, pages = 1500, write_share = 0.1 }
"#;

/// A folder with a manifest whose traces are there and hashed.
struct Corpus(tempfile::TempDir);

impl Corpus {
    fn new() -> Self {
        let corpus = Self(tempfile::tempdir().unwrap());
        fs::write(corpus.path("corpus.toml"), MANIFEST).unwrap();
        let manifest = corpus.manifest();
        for (_, entry) in manifest.entries() {
            thermocline_lab::corpus::fetch(&manifest, entry).unwrap();
        }
        let checked = manifest.check(&Watch::default(), || {}).unwrap();
        assert_eq!(manifest.fill(&checked).unwrap(), 3 * 4);
        let manifest = corpus.manifest();
        let checked = manifest.check(&Watch::default(), || {}).unwrap();
        assert!(checked.iter().all(|one| one.problems.is_empty()), "{checked:?}");
        corpus
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn manifest(&self) -> Manifest {
        Manifest::read(&self.path("corpus.toml"), None).unwrap()
    }
}

fn request(policies: &[&str]) -> Request {
    let tier = |text: &str| text.parse::<TierSpec>().unwrap();
    let spec = HierarchySpec {
        tiers: vec![tier("ram=1%,10%"), tier("flash=2x,0.01%")],
        ..HierarchySpec::default()
    };
    let names: Vec<String> = policies.iter().map(|&name| name.to_owned()).collect();
    Request {
        policies: Selection::new(&names),
        spec,
        buffers: Some(BufferSpec {
            policies: Selection::Named(vec!["lru".into(), "hwb".into()]),
            sizes: vec!["5%".parse().unwrap()],
            ssd: Some(DriveSpec::Named("slc-2008".into())),
            ssd_size: Some(SsdSize::Fit),
            precondition: None,
            placement: None,
            streams: None,
            flush_every: None,
            closed_loop: None,
            parameters: vec![],
            is_checked: false,
        }),
        options: RunOptions::default(),
        seeds: 2,
        split: None,
        datasets: vec![],
        sample: None,
        shard: None,
    }
}

const POLICIES: [&str; 5] = ["fifo", "lru", "hat", "lru-exclusive", "random"];

fn settings(threads: usize) -> RunSettings {
    RunSettings { threads, memory_bytes: 1 << 30, compiled: None }
}

fn run(corpus: &Corpus, request: &Request, output: &str, settings: &RunSettings) -> Outcome {
    let plan = Plan::new(Arc::new(corpus.manifest()), request, &[]).unwrap();
    plan.run(&corpus.path(output), settings, &Watch::default(), |_| {}).unwrap()
}

/// Return every file of a folder, by its path in it.
fn bytes(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                files.insert(name, fs::read(path).unwrap());
            }
        }
    }
    files
}

#[test]
fn a_run_gives_the_same_bytes_on_any_number_of_threads_and_after_any_stop() {
    let corpus = Corpus::new();
    let request = request(&POLICIES);
    let whole = run(&corpus, &request, "whole", &settings(1));
    // Of 3 traces: RAM alone 2 sizes for FIFO, LRU and 2 seeds of `random`; 2 x 2 sizes for two
    // hybrids, of which half have no page of flash; 2 buffers.
    assert_eq!((whole.rows, whole.ran_points), (3 * (8 + 4 + 2), 3 * (8 + 4 + 2)));
    assert_eq!((whole.left_out_points, whole.reused_points), (3 * 4, 0));
    let expected = bytes(&corpus.path("whole"));
    let names: BTreeSet<String> =
        expected.keys().map(|path| path.to_string_lossy().into_owned()).collect();
    let folders = ["dataset=loops/results.parquet", "dataset=zipf/results.parquet"];
    assert_eq!(names, folders.map(String::from).into());
    assert!(!corpus.path("whole.parts").exists(), "nothing is left beside it");

    // Little memory: one trace at a time.
    run(&corpus, &request, "narrow", &RunSettings { memory_bytes: 1, ..settings(3) });
    assert!(bytes(&corpus.path("narrow")) == expected);

    // Stopped again and again, each time a few points later.
    let manifest = Arc::new(corpus.manifest());
    let plan = Plan::new(Arc::clone(&manifest), &request, &[]).unwrap();
    let mut stops = 0;
    loop {
        let (watch, finished) = (Watch::default(), AtomicUsize::new(0));
        let ran = plan.run(&corpus.path("stopped"), &settings(2), &watch, |progress| {
            if matches!(progress, Progress::Finished(_))
                && finished.fetch_add(1, Ordering::Relaxed) == 7
            {
                watch.stop();
            }
        });
        match ran {
            Ok(outcome) => {
                assert!(outcome.reused_points > 0);
                break;
            }
            Err(error) => assert!(error.to_string().contains("stopped"), "{error}"),
        }
        assert!(!corpus.path("stopped").exists(), "no half of a result");
        stops += 1;
        assert!(stops < 40, "each run gets further");
    }
    assert!(stops > 0);
    assert!(bytes(&corpus.path("stopped")) == expected);

    // Compiled traces give the same, and a run again runs nothing.
    for (_, entry) in manifest.entries() {
        let folder = corpus.path("compiled");
        assert!(thermocline_lab::corpus::compile(entry, &folder, &Watch::default()).unwrap());
        assert!(!thermocline_lab::corpus::compile(entry, &folder, &Watch::default()).unwrap());
    }
    let compiled = RunSettings { compiled: Some(corpus.path("compiled")), ..settings(2) };
    run(&corpus, &request, "from-compiled", &compiled);
    assert!(bytes(&corpus.path("from-compiled")) == expected);
    let again = run(&corpus, &request, "whole", &settings(2));
    assert_eq!((again.ran_points, again.reused_points), (0, whole.rows));
    assert!(bytes(&corpus.path("whole")) == expected);
}

/// Return a value as another process receives it as JSON.
fn sent<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

/// Runs points elsewhere, as a cluster does, and gives up after `most` answers.
fn run_elsewhere(
    corpus: &Corpus,
    request: &Request,
    output: &Path,
    most: usize,
) -> Option<Outcome> {
    let plan = Plan::new(Arc::new(corpus.manifest()), request, &[]).unwrap();
    // Workers make their plan of what they are sent.
    let (text, path) =
        (fs::read_to_string(corpus.path("corpus.toml")).unwrap(), Path::new("x.toml"));
    let there = Manifest::parse(&text, path, Some(corpus.0.path())).unwrap();
    let worker = Plan::new(Arc::new(there), &sent(request), &[]).unwrap();
    let cache = CompiledCache::new(&corpus.path("cache"), 1 << 30).unwrap();
    let running = plan.begin(output).unwrap();
    let (mut answers, mut left_out) = (0, 0);
    // From the last trace to the first, and of each from the last points to the first.
    for unit in running.units().iter().rev() {
        for points in unit.points.rchunks(if plan.is_sampled() { usize::MAX } else { 3 }) {
            if answers == most {
                running.flush().unwrap();
                return None;
            }
            answers += 1;
            let (trace, _) = worker.open(unit.trace, None, &cache, &Watch::default()).unwrap();
            let rows = worker.run_points(unit.trace, points, &trace, &Watch::default()).unwrap();
            left_out += points.len() - rows.len();
            running.keep(sent(&rows)).unwrap();
        }
    }
    Some(running.finish(&plan, left_out).unwrap())
}

#[test]
fn points_that_are_run_elsewhere_give_the_same_bytes() {
    let corpus = Corpus::new();
    for sample in [None, Some(Rate::Auto { seed: 3 }), Some(Rate::Fixed { rate: 0.3, seed: 1 })] {
        let mut request = Request { sample, ..request(&POLICIES) };
        request.spec.tiers[1].device.cost = Some(PageCost { read_ms: 0.1, write_ms: 1.0 / 3.0 });
        request.spec.parameters.push(ParameterSpec::new("hat.nonhot_ratio", Given::Real(0.1)));
        let name = format!("{sample:?}");
        let here = run(&corpus, &request, &name, &settings(2));
        let elsewhere = corpus.path("elsewhere").join(&name);
        fs::create_dir_all(elsewhere.parent().unwrap()).unwrap();
        assert_eq!(run_elsewhere(&corpus, &request, &elsewhere, usize::MAX), Some(here));
        let expected = bytes(&corpus.path(&name));
        assert!(bytes(&elsewhere) == expected, "{name}");
        // Kept results are not run again, here or elsewhere.
        let resumed = corpus.path("elsewhere").join("resumed");
        assert_eq!(run_elsewhere(&corpus, &request, &resumed, 2), None);
        let outcome = run_elsewhere(&corpus, &request, &resumed, usize::MAX).unwrap();
        assert!(outcome.reused_points > 0 && outcome.ran_points < here.ran_points);
        assert!(bytes(&resumed) == expected, "{name}");
        fs::remove_dir_all(&resumed).unwrap();
    }
}

#[test]
fn workers_without_a_trace_generate_it_and_keep_its_compiled_form_alone() {
    let corpus = Corpus::new();
    let request = request(&["lru"]);
    run(&corpus, &request, "whole", &settings(1));
    for name in ["steep.csv", "flat.csv", "loop.csv"] {
        fs::remove_file(corpus.path(name)).unwrap();
    }
    run_elsewhere(&corpus, &request, &corpus.path("elsewhere"), usize::MAX).unwrap();
    assert!(bytes(&corpus.path("elsewhere")) == bytes(&corpus.path("whole")));
    assert!(!corpus.path("steep.csv").exists());
}

#[test]
fn results_grow_by_policies_and_lose_what_is_of_no_trace_any_more() {
    let corpus = Corpus::new();
    let first = Request { buffers: None, ..request(&["fifo"]) };
    let more = Request { buffers: None, ..request(&["fifo", "lru"]) };
    assert_eq!(run(&corpus, &first, "grown", &settings(2)).rows, 6);
    let outcome = run(&corpus, &more, "grown", &settings(2));
    assert_eq!((outcome.rows, outcome.reused_points, outcome.ran_points), (12, 6, 6));
    run(&corpus, &more, "whole", &settings(2));
    assert!(bytes(&corpus.path("grown")) == bytes(&corpus.path("whole")));

    // Samples stand beside full simulations, with their rate.
    let sample = Some(Rate::Fixed { rate: 0.5, seed: 1 });
    let sampled = Request { sample, ..more };
    assert_eq!(run(&corpus, &sampled, "grown", &settings(2)).rows, 24);
    let rows = results::read(&corpus.path("grown")).unwrap();
    let rates: Vec<f64> = rows.iter().map(|row| row.rate).collect();
    assert_eq!(rates.iter().filter(|rate| (**rate - 0.5).abs() < 1e-9).count(), 12);

    // A trace that changed: its results go.
    fs::write(corpus.path("steep.csv"), fs::read(corpus.path("flat.csv")).unwrap()).unwrap();
    let manifest = Arc::new(corpus.manifest());
    let zipf = Request { datasets: vec!["zipf".into()], ..first.clone() };
    let plan = Plan::new(Arc::clone(&manifest), &zipf, &[]);
    let again = plan.unwrap().run(&corpus.path("other"), &settings(1), &Watch::default(), |_| {});
    let error = again.unwrap_err().to_string();
    assert!(error.contains("SHA-256") && error.contains("steep.csv"), "{error}");
    let text = fs::read_to_string(corpus.path("corpus.toml")).unwrap();
    let digits = manifest.datasets[0].traces[0].sha256.clone().unwrap();
    let new = manifest.entries().next().unwrap().1.source.sha256().unwrap();
    let text = text.replacen(&digits, &new, 1);
    fs::write(corpus.path("corpus.toml"), text).unwrap();
    let outcome = run(&corpus, &first, "grown", &settings(1));
    assert_eq!((outcome.dropped_results, outcome.ran_points), (8, 2));
    assert_eq!(outcome.rows, 16 + 2);
}

#[test]
fn shards_share_the_traces_out() {
    let corpus = Corpus::new();
    let manifest = Arc::new(corpus.manifest());
    let of = |shard: &str| {
        let request = Request { shard: Some(shard.parse().unwrap()), ..request(&["lru"]) };
        Plan::new(Arc::clone(&manifest), &request, &[]).unwrap().trace_count()
    };
    assert_eq!((1..=4).map(|index| of(&format!("{index}/4"))).sum::<usize>(), 3);
    assert_eq!(of("1/1"), 3);
}

/// One trace of the published results: its policies' miss ratios by size, the smallest first.
type Published = BTreeMap<(String, String), BTreeMap<u64, BTreeMap<String, f64>>>;

const PUBLISHED_POLICIES: [&str; 14] = [
    "S3FIFO",
    "WTinyLFU-w0.01-SLRU",
    "WTinyLFU-w0.10-SLRU",
    "LIRS",
    "TwoQ",
    "S4LRU(25:25:25:25)",
    "ARC",
    "Cacheus",
    "LeCaR",
    "LHD",
    "FIFO_Merge_FREQUENCY",
    "Clock",
    "B-LRU",
    "LRU",
];

fn published() -> Option<Published> {
    let folder = std::env::var_os("THERMOCLINE_TRACES").map(PathBuf::from);
    let path = folder?.join("corpus/results/s3fifo-miss-ratios.parquet");
    path.is_file().then(|| {
        let reader = ColumnReader::open(&path).unwrap();
        let mut all = Published::new();
        for group in 0..reader.groups() {
            let text = |name: &str| reader.optional_text(group, name).unwrap().unwrap();
            let (datasets, traces, policies) = (text("dataset"), text("trace"), text("policy"));
            let objects = reader.optional_numbers(group, "objects").unwrap().unwrap();
            let ratios = reader.optional_numbers(group, "miss_e4").unwrap().unwrap();
            for row in 0..datasets.len() {
                let trace = (datasets[row].clone().unwrap(), traces[row].clone().unwrap());
                let ratio = ratios[row].unwrap() as f64 / 10_000.0;
                let sizes = all.entry(trace).or_default();
                let of_size = sizes.entry(objects[row].unwrap()).or_default();
                of_size.insert(policies[row].clone().unwrap(), ratio);
            }
        }
        all
    })
}

/// Return the reductions against FIFO of the traces that the filters leave, at the n-th of the
/// eight sizes.
fn reductions(all: &Published, place: usize) -> Vec<(String, Vec<f64>)> {
    let mut rows = vec![];
    for ((dataset, _), sizes) in all {
        if sizes.len() != 8 {
            continue;
        }
        let of_size: Vec<(&u64, &BTreeMap<String, f64>)> = sizes.iter().collect();
        let fifo = |place: usize| of_size[place].1.get("FIFO").copied();
        let (objects, policies) = of_size[place];
        let Some(base) = fifo(place) else { continue };
        let is_saturated = fifo(4) == fifo(5);
        if is_saturated || *objects < 1000 || base <= 0.0 || base >= 1.0 {
            continue;
        }
        let of = |policy: &&str| reduction(base, *policies.get(*policy)?);
        if let Some(row) = PUBLISHED_POLICIES.iter().map(of).collect() {
            rows.push((dataset.clone(), row));
        }
    }
    rows
}

/// A worked example from the published miss ratios of S3-FIFO.
#[test]
#[expect(clippy::too_many_lines, reason = "one published figure after the other")]
fn statistics_of_published_results_are_those_of_the_sheet() {
    let Some(all) = published() else {
        eprintln!(
            "skipped: corpus/results/s3fifo-miss-ratios.parquet is not in THERMOCLINE_TRACES"
        );
        return;
    };
    assert_eq!(all.len(), 7_749);
    let near = |found: f64, expected: f64, what: &str| {
        assert!((found - expected).abs() < 0.000_051, "{what}: {found} instead of {expected}");
    };
    for (place, traces) in [(0, 1_099), (2, 5_250), (4, 6_673)] {
        assert_eq!(reductions(&all, place).len(), traces);
    }
    let rows = reductions(&all, 4);
    let column = |policy: &str| {
        let place = PUBLISHED_POLICIES.iter().position(|name| *name == policy).unwrap();
        rows.iter().map(|(_, row)| row[place]).collect::<Vec<f64>>()
    };
    let values: Vec<Vec<f64>> = rows.iter().map(|(_, row)| row.clone()).collect();
    let ranks = friedman(&values).unwrap().mean_ranks;
    let mut datasets: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, (dataset, _)) in rows.iter().enumerate() {
        datasets.entry(dataset).or_default().push(place);
    }
    for (policy, expected) in [
        ("S3FIFO", [0.0137, 0.0572, 0.1164, 0.2094, 0.3358, 0.1444, -0.3176, 0.0448, 0.1721]),
        ("TwoQ", [0.0204, 0.0580, 0.1124, 0.1910, 0.2779, 0.1334, -0.2176, 0.0166, 0.1443]),
        ("ARC", [0.0146, 0.0487, 0.0922, 0.1709, 0.2981, 0.1248, -0.2168, 0.0303, 0.1504]),
        ("LIRS", [0.0008, 0.0449, 0.1012, 0.1847, 0.3125, 0.1281, -0.3762, 0.0865, 0.1579]),
        ("LHD", [0.0179, 0.0497, 0.0898, 0.1666, 0.2697, 0.1205, -0.0888, 0.0172, 0.1231]),
        ("LRU", [0.0049, 0.0256, 0.0576, 0.1089, 0.1868, 0.0807, -0.2307, 0.0292, 0.0933]),
    ] {
        let values = column(policy);
        let ascending = sorted(&values);
        let of_dataset = |places: &Vec<usize>| {
            mean(&places.iter().map(|&place| values[place]).collect::<Vec<f64>>()).unwrap()
        };
        let means: Vec<f64> = datasets.values().map(of_dataset).collect();
        let worse = values.iter().filter(|value| **value < 0.0).count() as f64;
        let at = |p| percentile(&ascending, p).unwrap();
        let found = [
            at(0.1),
            at(0.25),
            at(0.5),
            at(0.75),
            at(0.9),
            mean(&values).unwrap(),
            at(0.0),
            worse / values.len() as f64,
            mean(&means).unwrap(),
        ];
        assert_eq!(means.len(), 14);
        for (found, expected) in found.into_iter().zip(expected) {
            near(found, expected, policy);
        }
    }
    for (policy, expected) in [("S3FIFO", 4.106), ("TwoQ", 5.513), ("LRU", 9.736)] {
        let place = PUBLISHED_POLICIES.iter().position(|name| *name == policy).unwrap();
        assert!((ranks[place] - expected).abs() < 0.000_51, "{policy}: {}", ranks[place]);
    }
    assert_eq!(ranks_descending(&[1.0, 1.0]), [1.5, 1.5]);
    // S3-FIFO against ARC.
    let pair: Vec<Vec<f64>> = column("S3FIFO")
        .into_iter()
        .zip(column("ARC"))
        .map(|(one, other)| vec![one, other])
        .collect();
    let strata: Vec<Vec<usize>> = datasets.into_values().collect();
    let difference = Bootstrap::new(&pair, &strata, 2_000, 1).difference(0, 1);
    near(difference.value, 0.01959, "difference");
    for (found, expected) in [(difference.low, 0.0185), (difference.high, 0.0207)] {
        assert!((found - expected).abs() < 0.0002, "{found} instead of {expected}");
    }
}
