//! Every policy's counts and action log on the bundled trace are unchanged.
//!
//! `cargo xtask golden` rewrites them; a change belongs into a commit that explains it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use thermocline_core::{
    Action, Actions, Admission, Clients, Heat, Ledger, Op, PageId, Tier, WriteMiss, hotness,
    registry,
};
use thermocline_device::Catalogue;
use thermocline_device::ssd::{Precondition, SsdConfig};
use thermocline_lab::figure::{BUFFERS, Figure, IDENTIFIERS, INTERVALS, PROMPTS, RUNS};
use thermocline_lab::report::{Axis, LineChart, Report, Series};
use thermocline_lab::{
    Arrivals, BufferConfiguration, BufferedSsd, Configuration, TierConfiguration, Watch,
    default_latencies_ms, run_buffers,
};
use thermocline_trace::{CompiledTrace, PageSize, ReadOptions, Reader};

/// Start value of FNV-1a.
const BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const HEADER: &str = "policy\tram_hits\tflash_hits\tdisk_hits\tflash_reads\tflash_writes\tdisk_reads\tdisk_writes\taction_log_hash\n";

#[test]
fn golden_results_hold() {
    let trace = bundled_trace();
    let mut text = HEADER.to_owned();
    for entry in registry::entries() {
        text += &result(&trace, &entry.name);
    }
    hold("hybrid.tsv", &text);
}

/// Every identifier's verdicts on the bundled trace's writes are unchanged.
#[test]
fn golden_identifications_hold() {
    let trace = bundled_trace();
    let writes: Vec<PageId> = trace
        .accesses()
        .filter(|access| access.op == Op::Write)
        .map(|access| access.page)
        .collect();
    let mut text = "identifier\thot\theat_log_hash\n".to_owned();
    for entry in hotness::registry::entries() {
        let mut identifier = entry.build_default(trace.footprint_pages()).unwrap();
        let mut heats = vec![];
        identifier.record_all(&writes, &mut heats);
        identifier.assert_invariants();
        let hot = heats.iter().filter(|&&heat| heat == Heat::Hot).count();
        let hash = heats.iter().fold(BASIS, |hash, &heat| fnv(hash, heat as u64));
        text += &format!("{}\t{hot}\t{hash:016x}\n", entry.name);
    }
    hold("identifiers.tsv", &text);
}

/// Every write buffer's counts, and what becomes of the drive behind it.
#[test]
fn golden_buffers_hold() {
    let trace = bundled_trace();
    let config = SsdConfig { gc_threshold: 0.05, ..SsdConfig::preset("ssdsim").unwrap() };
    let precondition = Some(Precondition { fill: 0.9, overwrite: 0.0, seed: 1 });
    let ssd = BufferedSsd { precondition, ..BufferedSsd::new(config).fitted(&trace, 0.9).unwrap() };
    let mut text = "buffer\tread_hits\twrite_hits\tflushes\tpages_flushed\tpages_resident\terases\tgc_copies\tread_ns\twrite_ns\n".to_owned();
    let configurations: Vec<BufferConfiguration> = registry::BUFFERS
        .iter()
        .map(|policy| BufferConfiguration {
            policy,
            parameters: vec![],
            size: "1000p".parse().unwrap(),
            ssd: Some(ssd.clone()),
            arrivals: Arrivals::Closed { requests: 4 },
        })
        .collect();
    for summary in run_buffers(&trace, &configurations, true, &Watch::default(), || ()).unwrap() {
        let drive = summary.ssd.unwrap().metrics;
        let response_us = summary.response_us.unwrap();
        let figures = [
            summary.read_hits,
            summary.write_hits,
            summary.flushes,
            summary.pages_flushed,
            summary.pages_resident,
            drive.erase_count,
            drive.gc_copies,
        ];
        let figures = figures.map(|figure| figure.to_string()).join("\t");
        let [read_ns, write_ns] =
            [response_us.read.mean, response_us.write.mean].map(|mean| mean * 1000.0);
        text += &format!("{}\t{figures}\t{read_ns:.0}\t{write_ns:.0}\n", summary.policy.name);
    }
    hold("buffers.tsv", &text);
}

/// A drawing of a chart stays as it is: its marks, its legend and where its texts are. The width of a text is
/// reckoned, not measured, so it is the same on machines with other fonts.
#[test]
fn a_golden_drawing_holds() {
    let series =
        |name: &str, values: [Option<f64>; 4]| Series { name: name.into(), values: values.into() };
    let mut report = Report::new("golden");
    report.chart(&LineChart {
        title: "Hit ratio".into(),
        x: Axis::sizes("RAM", &[1 << 20, 1 << 22, 1 << 24, 1 << 25]),
        y_title: "hits, %".into(),
        series: vec![
            series("lru", [Some(12.5), Some(40.0), Some(71.0), Some(80.0)]),
            series("hat", [Some(20.0), Some(48.5), Some(75.0), Some(82.25)]),
            series("two-tier <a & b>", [None, Some(45.0), None, Some(81.0)]),
        ],
        emphasised: vec![],
    });
    hold("chart.svg", &report.charts()[0].1.svg());
}

/// The tables of figures of `docs/json.md` are those of the program, each between its comments.
#[test]
fn the_figures_are_documented() {
    let path = root().join("docs/json.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = with_table(&text, "runs", RUNS);
    let text = with_table(&text, "intervals", INTERVALS);
    let text = with_table(&text, "buffers", BUFFERS);
    let text = with_table(&text, "identifiers", IDENTIFIERS);
    let text = with_table(&text, "prompts", PROMPTS);
    hold_file(&path, &text);
}

fn with_table<S>(text: &str, name: &str, rows: &[Figure<S>]) -> String {
    let row = |figure: &Figure<S>| {
        let of = if figure.is_of_tier() { "tier" } else { "run" };
        let (column, unit) = (figure.column("TIER"), figure.unit);
        format!("| `{}` | `{column}` | {of} | {unit} | {} |\n", figure.path(), figure.definition)
    };
    let rows: String = rows.iter().map(row).collect();
    let [begin, end] = [format!("<!-- figures of {name} -->\n"), "<!-- end -->".to_owned()];
    let (before, rest) = text.split_once(&begin).expect("the comment before the table");
    let (_, after) = rest.split_once(&end).expect("the comment after the table");
    let head =
        "| in the JSON | column | of each | unit | what it is |\n| --- | --- | --- | --- | --- |\n";
    format!("{before}{begin}\n{head}{rows}\n{end}{after}")
}

/// Compares with the golden file, or writes it.
#[track_caller]
fn hold(name: &str, text: &str) {
    hold_file(&root().join("testdata/golden").join(name), text);
}

#[track_caller]
fn hold_file(path: &Path, text: &str) {
    if std::env::var_os("THERMOCLINE_WRITE_GOLDEN").is_some() {
        std::fs::write(path, text).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(path).unwrap();
    assert_eq!(text, golden, "run `cargo xtask golden` if the change is meant");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn bundled_trace() -> CompiledTrace {
    let path = root().join("testdata/pgbench/pgbench.csv.zst");
    let mut reader = Reader::open(path, &ReadOptions::default()).unwrap();
    CompiledTrace::compile(&mut reader, PageSize::new(8192).unwrap()).unwrap()
}

/// Return one line: the counts of a policy, and a hash of everything that it did.
fn result(trace: &CompiledTrace, policy: &str) -> String {
    let catalogue = Catalogue::default();
    let tier = |name: &str, size: &str, device: &str| TierConfiguration {
        name: name.into(),
        size: size.parse().unwrap(),
        device: catalogue.find(device).unwrap().clone(),
    };
    let entry = registry::find(policy).unwrap();
    let configuration = Configuration {
        policy: entry.clone(),
        values: entry.values(&[]).unwrap(),
        tiers: vec![tier("ram", "2%", "memory"), tier("flash", "4x", "samsung-470")],
        disk: catalogue.find("st380011a").unwrap().clone(),
        write_miss: WriteMiss::Fetch,
        admission: Admission::ALL,
        clients: Clients::ONE,
        latencies_ms: default_latencies_ms(2),
        prices: None,
        timing: None,
    };
    let mut policy = configuration.build(trace).unwrap();
    let capacities = configuration.capacity_pages(trace).unwrap();
    let mut ledger = Ledger::new(trace.footprint_pages(), &capacities);
    let mut actions = Actions::new();
    let mut hash = BASIS;
    for access in trace.accesses() {
        actions.clear();
        policy.access(access, &mut actions);
        ledger.access(access, &actions).unwrap();
        hash = actions.as_slice().iter().fold(hash, |hash, action| mix(hash, *action));
    }
    policy.assert_invariants();
    let counts = ledger.counts();
    let figures = [
        counts.hits(Tier::RAM),
        counts.hits(Tier::FLASH),
        counts.hits(Tier::DISK),
        counts.page_reads(Tier::FLASH),
        counts.page_writes(Tier::FLASH),
        counts.page_reads(Tier::DISK),
        counts.page_writes(Tier::DISK),
    ];
    let figures: Vec<String> = figures.iter().map(u64::to_string).collect();
    format!("{}\t{}\t{hash:016x}\n", entry.name, figures.join("\t"))
}

/// FNV-1a over the parts of an action.
fn mix(hash: u64, action: Action) -> u64 {
    let (verb, page, parts) = match action {
        Action::Serve { page, op, found, tier } => (op as u8, page, [found.0, tier.0]),
        Action::Copy { page, source, target } => (2, page, [source.0, target.0]),
        Action::Drop { page, tier } => (3, page, [tier.0, 0]),
    };
    [u64::from(verb), u64::from(page.0), u64::from(parts[0]), u64::from(parts[1])]
        .iter()
        .fold(hash, |hash, &part| fnv(hash, part))
}

/// Compute one step of FNV-1a.
fn fnv(hash: u64, part: u64) -> u64 {
    (hash ^ part).wrapping_mul(0x0100_0000_01B3)
}
