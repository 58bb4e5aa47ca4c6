//! Specifications: the configurations that they come to, and the paths that errors name.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use thermocline_core::config::Given;
use thermocline_core::{Clients, PageCost, WriteMiss};
use thermocline_lab::spec::{
    BufferSpec, DriveSpec, HierarchySpec, HotSpec, ModelSpec, MrcSpec, ParameterSpec, Selection,
    Setting, SsdSize, TierSetting, TierSpec, TimingMode, TimingSpec,
};
use thermocline_lab::{Configuration, Counted, LabError, TierSize, configurations, find_policy};

fn spec() -> HierarchySpec {
    let tiers = vec![
        TierSpec::new("ram", &[TierSize::Pages(10.0)]),
        TierSpec::new("flash", &[TierSize::Pages(40.0), TierSize::TimesAbove(8.0)]),
    ];
    HierarchySpec { tiers, ..HierarchySpec::default() }
}

fn of(spec: &HierarchySpec, policy: &str) -> Result<Vec<Configuration>, LabError> {
    configurations(spec, &[find_policy(policy).unwrap().clone()], Clients::ONE)
}

/// Return the path and the reason of an error.
fn path<T>(found: Result<T, LabError>) -> (String, String) {
    let error = found.map(|_| ()).unwrap_err();
    let LabError::Spec { path, reason } = error else { panic!("no path: {error}") };
    (path.to_string(), reason)
}

#[test]
fn errors_name_the_path_of_what_is_wrong() {
    type Change = fn(&mut HierarchySpec);
    let cases: [(Change, &str, &str); 17] = [
        (|spec| spec.tiers[1].name = "tape".into(), "tiers[1].name", "ram, flash"),
        (|spec| spec.tiers[0].name = "flash".into(), "tiers[0].name", "`ram` must be given"),
        (|spec| spec.tiers[1].name = "ram".into(), "tiers[1].name", "twice"),
        (|spec| spec.tiers[1].sizes.clear(), "tiers[1].sizes", "at least one"),
        (|spec| spec.tiers[1].device.name = Some("x".into()), "tiers[1].device.name", "nvme-ssd"),
        (|spec| spec.disk.name = Some("x".into()), "disk.name", "nvme-ssd"),
        (
            |spec| spec.disk.cost = Some(PageCost { read_ms: -1.0, write_ms: 1.0 }),
            "disk.cost",
            "READ_MS/WRITE_MS",
        ),
        (|spec| spec.disk.latency_ms = Some(f64::NAN), "disk.latency_ms", "at least 0"),
        (|spec| spec.tiers[0].device.price = Some(-1.0), "tiers[0].device.price", "per GiB"),
        (
            |spec| spec.tiers[1].device.model = Some(ModelSpec::Server { servers: 1 }),
            "tiers[1].device.model",
            "`events`",
        ),
        (|spec| spec.timing.closed_loop = Some(1), "timing.closed_loop", "`events`"),
        (
            |spec| spec.timing = TimingSpec { mode: TimingMode::Events, closed_loop: Some(0) },
            "timing.closed_loop",
            "at least 1",
        ),
        (
            |spec| {
                spec.timing.mode = TimingMode::Events;
                spec.disk.model = Some(ModelSpec::Server { servers: 0 });
            },
            "disk.model",
            "server:8",
        ),
        (
            |spec| {
                spec.timing.mode = TimingMode::Events;
                spec.disk.model = Some(ModelSpec::Drive(DriveSpec::Named("x".into())));
            },
            "disk.model",
            "exos-x18",
        ),
        (|spec| spec.admit = Some("guess".into()), "admit", "mbf"),
        (
            |spec| {
                let right = ParameterSpec::new("nonhot_ratio", Given::Real(0.5));
                let wrong = ParameterSpec::new("colour", Given::Integer(1));
                spec.parameters = vec![right, wrong];
            },
            "parameters[1]",
            "hat.nonhot_ratio",
        ),
        (
            |spec| {
                let wrong = ParameterSpec::new("hat.nonhot_ratio", Given::Switch(true));
                spec.parameters = vec![wrong];
            },
            "parameters[0]",
            "from 0 to 1",
        ),
    ];
    assert_eq!(of(&spec(), "hat").unwrap().len(), 2);
    for (change, expected, part) in cases {
        let mut changed = spec();
        change(&mut changed);
        let (path, reason) = path(of(&changed, "hat"));
        assert_eq!(path, expected, "{reason}");
        assert!(reason.contains(part) && !reason.contains("--"), "{path}: {reason}");
    }
}

#[test]
fn values_of_any_type_come_to_the_same() {
    let value = |name: &str, policy: &str, given: Given| {
        let parameters = vec![ParameterSpec::new(name, given)];
        let found = of(&HierarchySpec { parameters, ..spec() }, policy).unwrap();
        let values: Vec<String> =
            found[0].values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        values.join(" ")
    };
    let of_hat = |given| value("nonhot_ratio", "hat", given);
    assert_eq!(of_hat(Given::Real(0.25)), of_hat("0.25".into()));
    assert_eq!(of_hat(Given::Integer(1)), of_hat("1.0".into()));
    assert_ne!(of_hat(Given::Real(0.25)), of_hat(Given::Real(0.5)));
    let of_face = |given| value("face.cache_clean", "face", given);
    assert_eq!(of_face(Given::Switch(true)), of_face("true".into()));
    assert_ne!(of_face(Given::Switch(true)), of_face(Given::Switch(false)));
}

#[test]
fn settings_are_of_one_tier_and_the_last_one_counts() {
    let mut one = spec();
    for text in ["flash=1/2", "disk=5/6", "flash=3/4"] {
        one.set(TierSetting::cost(text).unwrap()).unwrap();
    }
    one.set(TierSetting { tier: "ram".into(), setting: Setting::Price(2.0) }).unwrap();
    assert_eq!(one.tiers[1].device.cost, Some(PageCost { read_ms: 3.0, write_ms: 4.0 }));
    assert_eq!(one.disk.cost, Some(PageCost { read_ms: 5.0, write_ms: 6.0 }));
    let found = of(&one, "hat").unwrap();
    assert_eq!((found[0].tiers[1].device.read_ms, found[0].disk.write_ms), (3.0, 6.0));
    assert!(found[0].prices.is_some() && of(&spec(), "hat").unwrap()[0].prices.is_none());
    let refused = one.set(TierSetting::device("tape=dram").unwrap()).unwrap_err();
    assert_eq!(refused, "no tier `tape`; there are: ram, flash, disk");
    let alone = one.with_first_tiers(1);
    assert_eq!((alone.tiers.len(), &alone.disk), (1, &one.disk));
    assert_eq!(of(&alone, "lru").unwrap().len(), 1);
}

#[test]
fn studies_name_paths_too() {
    let mrc = MrcSpec {
        policies: Selection::new(&["lru".to_owned()]),
        sizes: vec![],
        flash_sizes: vec![],
        shards: None,
        shards_size: None,
        shards_by: thermocline_trace::Choice::default(),
        rate: None,
        seed: 1,
        is_checked: false,
        parameters: vec![],
        write_miss: WriteMiss::default(),
        admit: None,
    };
    let rate = MrcSpec { rate: Some(2.0), ..mrc.clone() };
    assert_eq!(path(rate.options()).0, "rate");
    let both = MrcSpec { shards: Some(0.5), shards_size: Some(4), ..mrc.clone() };
    assert_eq!(path(both.options()).0, "shards_size");
    let flash = MrcSpec { flash_sizes: vec![TierSize::TimesAbove(4.0)], ..mrc };
    assert_eq!(path(flash.policies(&[])).0, "flash_sizes");
    let buffer = BufferSpec {
        policies: Selection::All,
        sizes: vec![TierSize::Pages(64.0)],
        ssd: None,
        ssd_size: Some(SsdSize::Fit),
        precondition: None,
        placement: None,
        streams: None,
        flush_every: None,
        closed_loop: None,
        parameters: vec![],
        is_checked: false,
    };
    assert_eq!(path(buffer.buffers()).0, "ssd_size");
    let drive = Some(DriveSpec::Named("ssdsim".into()));
    let streams = BufferSpec { ssd: drive, streams: Some("guess".into()), ..buffer };
    assert_eq!(path(streams.buffers()).0, "streams");
    let hot = HotSpec {
        identifiers: Selection::new(&["mbf".to_owned()]),
        baseline: "wdac".into(),
        count: Counted::Writes,
        interval: None,
        parameters: vec![ParameterSpec::new("filters", Given::Integer(0))],
    };
    let (path, reason) = path(hot.candidates());
    assert!(path == "parameters[0]" && reason.contains("from 1 to 16"), "{path}: {reason}");
}
