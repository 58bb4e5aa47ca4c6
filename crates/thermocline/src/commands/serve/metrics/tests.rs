//! Tests of the metrics: both formats, the table of the documentation, JSON.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use thermocline_engine::driver::memory::MemoryDriver;
use thermocline_engine::{Engine, Options, PolicyOptions, Request, Shard};

use super::super::exposition::{PREFIX, sample_name};
use super::super::mirrored::MirrorStatus;
use super::super::sharing_status::{ShareStatus, SharingStatus};
use super::super::status::{Figures, GaugeStatus};
use super::*;

const BEGIN: &str = "<!-- The table of figures: written by `cargo xtask golden` -->\n";
const END: &str = "<!-- The end of the table -->\n";

/// Everything that the documentation lists, with where JSON has it.
fn documented() -> Vec<(String, &'static About)> {
    let plain = |about: &'static About| (about.key.to_owned(), about);
    let below = |place: &'static str| {
        move |about: &'static About| (format!("{place}.{}", about.key), about)
    };
    let mut all: Vec<_> = [&ACCESSES, &COPIES, &REQUESTS, &FLUSHES].map(plain).into();
    all.extend(engine_figures().map(plain));
    all.extend([&READ_BYTES, &WRITTEN_BYTES].map(plain));
    all.extend(DEVICE_FIGURES.iter().map(|figure| &figure.about).map(below("flash")));
    all.extend(TRANSFER_FIGURES.iter().map(|figure| &figure.about).map(below("flash")));
    all.extend(SERVER_FIGURES.iter().map(|figure| &figure.about).map(plain));
    all.extend([&SHARE_MOVES, &POLICY, &ENGINE].map(plain));
    all.extend(RECORDING_FIGURES.iter().map(|figure| &figure.about).map(below("recording")));
    all.extend(SHADOW_FIGURES.iter().map(|figure| &figure.about).map(below("shadows")));
    all
}

fn table() -> String {
    let mut table = "| metric | in `/status` | meaning |\n| --- | --- | --- |\n".to_owned();
    for (key, about) in documented() {
        let labels = if about.labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", about.labels.join(","))
        };
        let details =
            if about.details.is_empty() { String::new() } else { format!(" {}", about.details) };
        let name = sample_name(about);
        writeln!(table, "| `{name}{labels}` | `{key}` | {}.{details} |", about.help).unwrap();
    }
    table
}

#[test]
fn the_documentation_has_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/engine.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page marks the table's beginning");
    let (written, after) = rest.split_once(END).expect("the page marks the table's end");
    let table = table();
    if std::env::var_os("THERMOCLINE_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}\n{table}\n{END}{after}")).unwrap();
        return;
    }
    assert_eq!(written.trim(), table.trim(), "write it by `cargo xtask golden`");
}

/// Return a status of an engine that has written and read, with a recording, a shadow and a gauge.
fn status() -> Arc<Status> {
    let policy = PolicyOptions::named("hat").unwrap();
    let shard = Shard::new(Options::new(64, 8, 16, policy)).unwrap();
    let driver = MemoryDriver::new(shard.frames(), shard.flash_bytes(), 64 << 12);
    let mut engine = Engine::new(shard, driver);
    for page in 0..32 {
        engine.submit(Request::write(page, page << 12, 4096), &[7; 4096]).unwrap();
        engine.wait_until_idle();
        let reply = engine.next_reply().unwrap();
        engine.release(reply);
    }
    let shard = engine.shard();
    let counters = shard.counters();
    let device = |transfers| DeviceStatus {
        read_bytes: vec![("policy".into(), 1)],
        written_bytes: vec![("policy".into(), 2)],
        queue_depth: 3,
        figures: Figures::read(TRANSFER_FIGURES, transfers),
    };
    let mut status = Status {
        policy: "hat".into(),
        write_mode: "back".into(),
        is_flash_configured: true,
        flash_rated_written_bytes: Some(600_000_000_000_000),
        flash: device(&counters.flash),
        backing: device(&counters.backing),
        gauges: vec![GaugeStatus { name: "hot".into(), tier: "ram".into(), value: 0.5 }],
        shadows: vec![ShadowStatus { name: "lru".into(), ..ShadowStatus::default() }],
        recording: Some(RecordingStatus::default()),
        sharing: SharingStatus { flash: Some(ShareStatus::default()), ram: None },
        flash_mirror: Some(MirrorStatus::default()),
        figures: Figures::read(COUNTER_FIGURES, counters).with(Figures::read(SHARD_FIGURES, shard)),
        ..Status::default()
    };
    status.latency.read.flash.record(std::time::Duration::from_millis(3));
    status.accesses.read.disk = 5;
    Arc::new(status)
}

fn lines(page: &str, are_comments: bool) -> Vec<&str> {
    page.lines().filter(|line| line.starts_with('#') == are_comments).collect()
}

#[test]
fn both_formats_have_the_same_samples() {
    let [open, plain] = [Format::OpenMetrics, Format::Prometheus]
        .map(|format| render(vec![status()], Common::Nothing, format).unwrap());
    let samples = lines(&plain, false);
    assert_eq!(lines(&open, false), samples);
    assert!(open.ends_with("# EOF\n") && !plain.contains("EOF") && !plain.contains("# UNIT"));
    for expected in [
        "thermocline_page_accesses_total{op=\"read\",found=\"disk\"} 5",
        "thermocline_device_read_bytes_total{device=\"flash\",purpose=\"policy\"} 1",
        "thermocline_device_queue_depth{device=\"backing\"} 3.0",
        "thermocline_engine_info{version=\"\",policy=\"hat\",write_mode=\"back\"} 1",
        "thermocline_flash_in_use 0.0",
        "thermocline_flushes_total 0",
        "thermocline_share_moves_total{tier=\"flash\"} 0",
        "thermocline_request_seconds_bucket{le=\"0.004096\",op=\"read\",tier=\"flash\"} 1",
        "thermocline_policy{name=\"hot\",tier=\"ram\"} 0.5",
    ] {
        assert!(samples.contains(&expected), "{expected}\n{plain}");
    }
    for (page, expected) in [
        (&open, "# TYPE thermocline_page_accesses counter"),
        (&plain, "# TYPE thermocline_page_accesses_total counter"),
        (&open, "# TYPE thermocline_engine info"),
        (&plain, "# TYPE thermocline_engine_info gauge"),
        (&open, "# UNIT thermocline_request_seconds seconds"),
        (&plain, "# TYPE thermocline_request_seconds histogram"),
    ] {
        assert!(lines(page, true).contains(&expected), "{expected}\n{page}");
    }
}

#[test]
fn every_metric_is_documented_and_served_once() {
    let page = render(vec![status()], Common::Nothing, Format::Prometheus).unwrap();
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let served: Vec<&str> = types.collect();
    let documented: BTreeSet<String> =
        documented().iter().map(|(_, about)| sample_name(about)).collect();
    // There is no write budget.
    assert_eq!(served.len() + 1, documented.len(), "{served:?}");
    let absent = format!("{PREFIX}flash_write_budget_left_bytes");
    for name in served {
        assert!(documented.contains(name) && name != absent, "{name}");
    }
}

#[test]
fn figures_survive_json() {
    let status = status();
    let text = serde_json::to_string(&*status).unwrap();
    let read: Status = serde_json::from_str(&text).unwrap();
    for about in engine_figures() {
        assert_eq!(read.figures.value(about.key), status.figures.value(about.key), "{}", about.key);
    }
    let writes = read.backing.figures.value("writes");
    assert!(matches!(writes, Value::Count(1..)), "{writes:?}");
    let keys: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(keys["write_budget_left_bytes"].is_null() && keys["flash"]["errors"] == 0);
}

#[test]
fn samples_of_volumes_say_of_which_and_lie_together() {
    let named = |name: &str, has_recording: bool| {
        let mut status = Arc::unwrap_or_clone(status());
        status.export = name.to_owned();
        if !has_recording {
            status.recording = None;
        }
        Arc::new(status)
    };
    let alone = render(vec![status()], Common::Nothing, Format::Prometheus).unwrap();
    for format in [Format::OpenMetrics, Format::Prometheus] {
        let volumes = vec![named("db", false), named("web", true)];
        let page = render(volumes, Common::Volume, format).unwrap();
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let labels = ["volume=\"db\"", "volume=\"web\""];
            assert!(labels.iter().any(|label| line.contains(label)), "{line}");
        }
        let heads = |page: &str| page.lines().filter(|line| line.starts_with("# HELP")).count();
        assert_eq!(heads(&page), heads(&alone), "a family is there once");
        assert!(!page.contains("recorded_accesses_total{volume=\"db\"}"), "only one is recorded");
    }
}
