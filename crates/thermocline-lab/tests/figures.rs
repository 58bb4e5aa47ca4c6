//! The table of figures: every row is found where it says, and no two rows have one column.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fmt::Write as _;
use std::io::Cursor;
use std::sync::Arc;

use serde_json::Value;
use thermocline_core::{Clients, Op};
use thermocline_lab::figure::{Figure, RUNS};
use thermocline_lab::spec::{
    DriveSpec, HierarchySpec, ModelSpec, TierSpec, TimingMode, TimingSpec,
};
use thermocline_lab::{RunOptions, Summary, TierSize, Watch, configurations, find_policy, run};
use thermocline_trace::generate::{Generator, Options};
use thermocline_trace::{
    CompiledTrace, Extent, PageSize, ReadOptions, Reader, Request, Requests as _,
};

/// Writes of objects of one page, some of which are smaller than it.
fn objects() -> Vec<u8> {
    let options = Options { requests: 20_000, pages: 2_000, ..Options::default() };
    let mut generator = Generator::new(options).unwrap();
    let mut batch: Vec<Request> = vec![];
    let mut lines = String::new();
    while generator.read_batch(&mut batch).unwrap() {
        for request in &batch {
            let Extent::Pages { first, .. } = request.extent else { panic!("pages are generated") };
            let op = if request.op == Op::Write { "write" } else { "read" };
            writeln!(lines, "{},{op},{first},{}", request.at.0 / 1000, 100 + first).unwrap();
        }
    }
    lines.into_bytes()
}

/// Return a run that has every figure: with prices, times, a solid-state drive that is worn, and
/// objects with sizes.
fn summary() -> Summary {
    let tiers = vec![
        TierSpec::new("ram", &[TierSize::Pages(20.0)]),
        TierSpec::new("flash", &[TierSize::Pages(400.0)]),
    ];
    let timing = TimingSpec { mode: TimingMode::Events, closed_loop: Some(4) };
    let mut spec = HierarchySpec { tiers, timing, ..HierarchySpec::default() };
    spec.tiers[0].device.price = Some(8.0);
    let drive = DriveSpec::Named("ssdsim".into());
    spec.tiers[1].device.model = Some(ModelSpec::Drive(drive));
    let policy = find_policy("face").unwrap();
    let configuration =
        configurations(&spec, std::slice::from_ref(policy), Clients::ONE).unwrap().remove(0);
    let columns = Some(Arc::new("time=1:us,op=2,key=3,size=4".parse().unwrap()));
    let options = ReadOptions { columns, ..ReadOptions::default() };
    let mut reader = Reader::from_read("t", Cursor::new(objects()), &options).unwrap();
    let trace = CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap();
    run(&trace, &configuration, RunOptions::default(), &Watch::default()).unwrap()
}

/// Return the value in the JSON at the path of a figure, for the tier at this place.
fn at<'a>(json: &'a Value, figure: &Figure, place: usize) -> &'a Value {
    figure.path().split('.').fold(json, |found, name| match name.strip_suffix("[]") {
        Some(name) => &found[name][place],
        None => &found[name],
    })
}

#[test]
fn every_figure_is_where_it_says() {
    let summary = summary();
    let json = serde_json::to_value(&summary).unwrap();
    for figure in RUNS {
        let places = if figure.is_of_tier() { summary.tiers.len() } else { 1 };
        let found = (0..places).map(|place| {
            let value = figure.value(&summary, place);
            assert_eq!(at(&json, figure, place).as_f64(), value, "{} of {place}", figure.path());
            value
        });
        assert!(found.flatten().count() > 0, "{} has no value", figure.path());
    }
}

#[test]
fn columns_have_one_figure_each() {
    let tiers = ["ram", "flash", "disk"];
    let mut columns: Vec<String> = RUNS
        .iter()
        .flat_map(|figure| {
            let tiers = if figure.is_of_tier() { &tiers[..] } else { &tiers[..1] };
            tiers.iter().map(|tier| figure.column(tier))
        })
        .collect();
    columns.sort_unstable();
    let count = columns.len();
    columns.dedup();
    assert_eq!(columns.len(), count);
    // Programs that add up the sizes of tiers would take these for sizes.
    assert!(columns.iter().all(|column| !column.ends_with("_pages")), "{columns:?}");
}

#[test]
fn every_figure_says_what_it_is() {
    for figure in RUNS {
        assert!(!figure.definition.is_empty() && !figure.definition.contains('|'));
        let is_key = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        assert!(figure.key.chars().all(|letter| is_key(letter) || letter == '_'), "{}", figure.key);
    }
}
