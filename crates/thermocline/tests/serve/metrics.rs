//! The metrics: that they balance, and that Prometheus reads them.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use thermocline_core::random::SplitMix64;
use thermocline_nbd::protocol::Command as NbdCommand;

use super::{Cache, Engine, run};

/// Return the sum of all samples of a metric that have this label.
pub(crate) fn samples(metrics: &str, name: &str, label: &str) -> f64 {
    let lines = metrics.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
            && line.contains(label)
    });
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

/// Return a file of the project that is installed with the program.
fn deployed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

/// Metrics after some work, with all there is to be seen.
fn busy(cache: &mut Cache) -> Engine {
    // A policy that adapts something.
    let recording = cache.file("accesses.csv.zst");
    cache
        .set("record.path", recording)
        .set("policy.name", "hca")
        .set("shadow", vec!["lru"])
        .set("flash.rated_writes", "600TB")
        .set("flash.write_budget_gib_per_day", 10.0);
    let engine = cache.start();
    let mut client = engine.client();
    for page in 0..600_u64 {
        client.write(page * 4096, &[1; 4096]).unwrap();
        client.read(page * 4096, 4096).unwrap();
    }
    super::flush(&mut client);
    engine.status();
    engine
}

#[test]
fn an_engine_without_a_flash_alarms_nobody() {
    let mut cache = Cache::new(8);
    let figure = |engine: &Engine| {
        engine.status();
        let metrics = engine.get("/metrics");
        let line = metrics.lines().find(|line| line.starts_with("thermocline_flash_in_use "));
        line.map(str::to_owned)
    };
    assert_eq!(figure(&cache.start()).as_deref(), Some("thermocline_flash_in_use 1.0"));
    cache.unset("flash").set("policy.name", "lru").set("backing.path", "other.img");
    std::fs::write(cache.path("other.img"), vec![0; 1 << 20]).unwrap();
    assert_eq!(figure(&cache.start()), None);
}

#[test]
fn a_long_stream_bypasses_a_cache_with_a_flash_unless_it_is_to_be_cached() {
    let mut cache = Cache::new(11);
    cache.set("policy.name", "lru-inclusive");
    for (is_default, beyond) in [(false, 0.0), (true, 7.0 * 256.0)] {
        if is_default {
            cache.unset("limits");
        }
        let engine = cache.start_with(&["--force-init"]);
        let mut client = engine.client();
        for piece in 0..64 {
            client.read(piece << 17, 1 << 17).unwrap();
        }
        engine.status();
        let bypassed =
            samples(&engine.get("/metrics"), "thermocline_page_accesses_total", "bypass");
        assert!((bypassed - beyond).abs() < 0.5, "{is_default}: {bypassed}");
        engine.stop();
    }
}

#[test]
fn every_access_is_counted_once() {
    let mut cache = Cache::new(16);
    cache.set("limits.sequential_bypass", "64KiB");
    for policy in ["hat", "lru", "face-gsc", "hca", "lru-exclusive"] {
        for mode in ["back", "through", "around"] {
            let engine = cache.set("policy.name", policy).set("write_mode", mode).start();
            let (mut client, mut random) = (engine.client(), SplitMix64::new(3));
            let mut pages = [0_u64; 2];
            for request in 0..400_u64 {
                let length = [512, 4096, 5000, 16_384][usize::try_from(random.bits() % 4).unwrap()];
                let place =
                    if request % 4 < 2 { random.bits() % (15 << 20) } else { request << 14 };
                let place = place / 512 * 512;
                let touched = (place + length as u64).div_ceil(4096) - place / 4096;
                let is_write = request % 2;
                pages[usize::try_from(is_write).unwrap()] += touched;
                let payload = vec![1; length];
                let command = match (is_write, request % 16) {
                    (0, 14) => NbdCommand::Cache,
                    (0, _) => NbdCommand::Read,
                    (_, 13) => NbdCommand::Trim,
                    (_, 15) => NbdCommand::WriteZeroes,
                    _ => NbdCommand::Write,
                };
                let payload = if command == NbdCommand::Write { &payload[..] } else { &[] };
                client.call(command, place, length, payload).unwrap();
            }
            // A stream, which goes around the caches.
            for piece in 0..64 {
                client.read(piece << 14, 1 << 14).unwrap();
                pages[0] += 4;
            }
            engine.status();
            let metrics = engine.get("/metrics");
            for (op, wanted) in [("read", pages[0]), ("write", pages[1])] {
                let label = format!("op=\"{op}\"");
                let counted = samples(&metrics, "thermocline_page_accesses_total", &label);
                assert!(
                    (counted - wanted as f64).abs() < 0.5,
                    "{policy} {mode} {op}: {counted} {wanted}"
                );
            }
            assert!(samples(&metrics, "thermocline_page_accesses_total", "bypass") > 0.0);
            engine.kill();
            std::fs::remove_file(cache.path("flash.img")).unwrap();
            std::fs::remove_file(cache.path("disk.img.thermocline")).unwrap();
        }
    }
}

#[test]
fn promtool_accepts_the_metrics_and_the_rules() {
    let mut cache = Cache::new(8);
    let engine = busy(&mut cache);
    let checker = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut checker) = checker else {
        eprintln!("skipped: `promtool` is not installed (Debian package prometheus)");
        return;
    };
    let metrics = engine.get("/metrics");
    checker.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = checker.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    let rules = deployed("prometheus/alerts.yml");
    run("promtool", "prometheus", &["check", "rules", rules.to_str().unwrap()]);
}

#[test]
fn what_dashboards_and_rules_name_is_served() {
    let mut cache = Cache::new(8);
    cache.set("flash.mirror", "second.img");
    let engine = busy(&mut cache);
    let metrics = engine.get("/metrics");
    let mut names = BTreeSet::new();
    for file in ["grafana/thermocline.json", "prometheus/alerts.yml"] {
        let text = std::fs::read_to_string(deployed(file)).unwrap();
        let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
        names.extend(words.filter(|word| word.starts_with("thermocline_")).map(str::to_owned));
    }
    assert!(names.len() >= 15, "{names:?}");
    for name in names {
        let is_served = metrics
            .lines()
            .any(|line| line.strip_prefix(&name).is_some_and(|rest| rest.starts_with(['{', ' '])));
        assert!(is_served, "{name} is not in\n{metrics}");
    }
}

#[test]
fn every_panel_of_the_dashboard_says_what_it_shows() {
    let dashboard = std::fs::read_to_string(deployed("grafana/thermocline.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut taken = BTreeSet::new();
    for panel in panels {
        let words = panel["description"].as_str().unwrap_or_default();
        assert!(words.len() > 40 && words.ends_with('.'), "{}: {words}", panel["title"]);
        let [left, top, width, height] =
            ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        assert!(left + width <= 24, "{}", panel["title"]);
        for place in (0..width * height).map(|cell| (left + cell % width, top + cell / width)) {
            assert!(taken.insert(place), "{} covers another panel", panel["title"]);
        }
    }
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let shown = dashboard.to_string();
    for metric in ["device_errors", "checksum_errors", "flash_lifetime_written", "flash_rated"] {
        assert!(shown.contains(&format!("thermocline_{metric}")), "{metric}");
    }
}

/// A Prometheus that ends with its test.
struct Prometheus(Child, String);

impl Prometheus {
    /// Scrapes an engine; nothing if it is not installed.
    fn start(cache: &Cache, engine: &Engine) -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let config = format!(
            "global: {{ scrape_interval: 200ms, evaluation_interval: 200ms }}\n\
             rule_files: [ \"{}\" ]\n\
             scrape_configs: [ {{ job_name: thermocline, \
             static_configs: [ {{ targets: [ \"{}\" ] }} ] }} ]\n",
            deployed("prometheus/alerts.yml").display(),
            engine.metrics_address()
        );
        std::fs::write(cache.path("prometheus.yml"), config).unwrap();
        let started = Command::new("prometheus")
            .arg(format!("--config.file={}", cache.file("prometheus.yml")))
            .arg(format!("--storage.tsdb.path={}", cache.file("tsdb")))
            .arg(format!("--web.listen-address={free}"))
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(cache.path("prometheus.log")).unwrap())
            .spawn();
        let Ok(process) = started else {
            eprintln!("skipped: `prometheus` is not installed (Debian package prometheus)");
            return None;
        };
        Some(Self(process, free))
    }

    /// Return the value of an expression; none as long as there is none.
    fn value(&self, expression: &str) -> Option<f64> {
        let url = format!("http://{}/api/v1/query", self.1);
        let answer = ureq::get(&url).query("query", expression).call().ok()?;
        let answer: Value = answer.into_body().read_json().ok()?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn prometheus_scrapes_an_engine() {
    let mut cache = Cache::new(8);
    let engine = busy(&mut cache);
    let Some(prometheus) = Prometheus::start(&cache, &engine) else { return };
    let wait = |expression: &str| {
        engine.wait_for(expression, || {
            let value = prometheus.value(expression);
            if value.is_none() {
                std::thread::sleep(Duration::from_millis(50));
            }
            value
        })
    };
    assert!((wait("up{job=\"thermocline\"} == 1") - 1.0).abs() < 1e-9);
    assert!((wait("sum(thermocline_page_accesses_total)") - 1200.0).abs() < 1e-9);
    assert!(
        (wait("thermocline_engine_info{policy=\"hca\",write_mode=\"back\"}") - 1.0).abs() < 1e-9
    );
    assert!(wait("thermocline_flash_lifetime_written_bytes_total") >= 0.0);
    let writes = "thermocline_request_seconds_count{op=\"write\",tier=\"disk\"}";
    assert!(wait(writes) > 0.0);
    let mut client = engine.client();
    for page in 0..300_u64 {
        client.read(page * 4096, 4096).unwrap();
    }
    assert!((wait("sum(thermocline_page_accesses_total) == 1500") - 1500.0).abs() < 1e-9);
    assert!(wait("rate(thermocline_page_accesses_total{op=\"read\",found=\"ram\"}[1m])") >= 0.0);
    assert!(
        wait(
            "histogram_quantile(0.99, thermocline_request_seconds_bucket{op=\"write\",tier=\"disk\"})"
        ) > 0.0
    );
    // The rules are loaded, and none of them fires.
    let url = format!("http://{}/api/v1/rules", prometheus.1);
    let rules: Value = ureq::get(&url).call().unwrap().into_body().read_json().unwrap();
    let rules = rules["data"]["groups"][0]["rules"].as_array().unwrap().clone();
    assert!(rules.len() >= 5, "{rules:?}");
    for rule in rules {
        assert_ne!(rule["health"], "err", "{rule}");
        assert_ne!(rule["state"], "firing", "{rule}");
    }
}
