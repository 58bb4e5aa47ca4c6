//! A server that records its accesses, is told to stop doing so, or is killed: what the lab makes of
//! the trace is what the server counted.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../thermocline-nbd/tests/server/client.rs"]
#[expect(dead_code, reason = "it can do more than is needed here")]
mod client;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use thermocline_trace::{PageSize, ReadOptions, Reader, Requests as _};

use self::client::Client;

const DISK_BYTES: u64 = 16 << 20;

/// A server, killed if the test ends before it.
struct Served {
    folder: TempDir,
    server: Child,
    metrics_port: u16,
}

impl Served {
    fn start(policy: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = std::fs::File::create(folder.path().join("disk.img")).unwrap();
        disk.set_len(DISK_BYTES).unwrap();
        // The system chooses a port that was free a moment ago.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let metrics_port = listener.local_addr().unwrap().port();
        drop(listener);
        write_config(folder.path(), policy, metrics_port, true);
        let server = Command::new(env!("CARGO_BIN_EXE_thermocline"))
            .arg("serve")
            .arg(folder.path().join("cache.toml"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { folder, server, metrics_port }
    }

    fn recording(&self) -> PathBuf {
        self.folder.path().join("accesses.csv.zst")
    }

    fn client(&self) -> Client {
        let socket = self.folder.path().join("cache.sock");
        wait_for("the server listens", || Client::connect(&socket, "").ok())
    }

    /// The status, as soon as it is as wanted.
    fn status(&self, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let uri = format!("http://127.0.0.1:{}/status", self.metrics_port);
        wait_for(what, || {
            let text = ureq::get(&uri).call().ok()?.body_mut().read_to_string().ok()?;
            serde_json::from_str(&text).ok().filter(&is_wanted)
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

fn write_config(folder: &Path, policy: &str, metrics_port: u16, has_record: bool) {
    let record = if has_record { "[record]\npath = \"accesses.csv.zst\"\n" } else { "" };
    let text = format!(
        "[backing]\npath = \"disk.img\"\n[flash]\npath = \"flash.img\"\nsize = \"1MiB\"\n\
         [ram]\nsize = \"256KiB\"\n[policy]\nname = \"{policy}\"\n[nbd]\nsocket = \"cache.sock\"\n\
         [metrics]\nlisten = \"127.0.0.1:{metrics_port}\"\n{record}"
    );
    std::fs::write(folder.join("cache.toml"), text).unwrap();
}

fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_mins(1), "{what}: waited for a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads and writes, some pages more often than others; returns how many pages they touch.
fn work(client: &mut Client, requests: u64) -> u64 {
    let mut accesses = 0;
    for number in 0..requests {
        let spread = number.wrapping_mul(0x9E37_79B9) % 4001;
        let page = spread * spread % (if number % 3 == 0 { 4000 } else { 150 });
        let pages = 1 + usize::from(number % 7 == 0);
        accesses += pages as u64;
        if number % 5 == 0 {
            client.write(page * 4096, &vec![7; pages * 4096]).unwrap();
        } else {
            client.read(page * 4096, pages * 4096).unwrap();
        }
    }
    accesses
}

/// What the lab says of the recording: per tier, the hits by operation and the writes.
fn simulate(recording: &Path, policy: &str) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_thermocline"))
        .args(["simulate", recording.to_str().unwrap(), "--policy", policy, "--json", "--check"])
        .args(["--tier", "ram=256KiB", "--tier", "flash=1MiB"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(!errors.contains("truncated") && !errors.contains("missing"), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Page accesses in a recording, as far as it is written.
fn recorded(path: &Path) -> u64 {
    let Ok(mut reader) = Reader::open(path, &ReadOptions::default()) else { return 0 };
    let (mut batch, mut pages) = (vec![], 0);
    while let Ok(true) = reader.read_batch(&mut batch) {
        pages += batch.iter().map(|one| PageSize::DEFAULT.pages(one.extent).1).sum::<u64>();
    }
    pages
}

#[track_caller]
fn assert_same(simulated: &Value, status: &Value) {
    for (tier, name) in ["ram", "flash", "disk"].iter().enumerate() {
        for op in ["read", "write"] {
            let hits = &simulated["tiers"][tier][format!("{op}_hits")];
            assert_eq!(*hits, status["accesses"][op][name], "{name} {op}: {status:#}");
        }
    }
}

fn all_accesses(status: &Value) -> u64 {
    let places = ["read", "write"].iter().flat_map(|op| {
        ["ram", "flash", "disk", "bypass"]
            .map(|found| status["accesses"][op][found].as_u64().unwrap())
    });
    places.sum()
}

#[test]
fn a_killed_server_leaves_a_trace_that_gives_its_counters() {
    for policy in ["hat", "face-gsc", "lru"] {
        let mut served = Served::start(policy);
        let accesses = work(&mut served.client(), 4000);
        served.status("all is counted", |status| all_accesses(status) == accesses);
        wait_for("all is written", || (recorded(&served.recording()) == accesses).then_some(()));
        let status = served.status("a status", |_| true);
        served.server.kill().unwrap();
        served.server.wait().unwrap();
        assert_eq!(status["recording"]["accesses"].as_u64(), Some(accesses));
        assert_eq!(status["recording"]["missing_accesses"], 0);
        let simulated = simulate(&served.recording(), policy);
        assert_eq!(simulated["trace"]["accesses"].as_u64(), Some(accesses));
        assert_same(&simulated, &status);
    }
}

#[test]
fn a_recording_ends_and_begins_when_the_configuration_says_so() {
    let served = Served::start("hat");
    let reload = |has_record| {
        write_config(served.folder.path(), "hat", served.metrics_port, has_record);
        let pid = served.server.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
        served.status("the configuration is read again", |status| {
            status["recording"].is_object() == has_record
        })
    };
    let mut client = served.client();
    let accesses = work(&mut client, 1000);
    let before = served.status("all is counted", |status| all_accesses(status) == accesses);
    reload(false);
    work(&mut client, 500);
    let simulated = simulate(&served.recording(), "hat");
    assert_eq!(simulated["trace"]["accesses"].as_u64(), Some(accesses));
    assert_same(&simulated, &before);
    let status = reload(true);
    assert_eq!(status["recording"]["accesses"], 0, "another recording");
    let older = served.folder.path().join("accesses.csv.zst.1");
    assert_same(&simulate(&older, "hat"), &before);
    let again = work(&mut client, 300);
    reload(false);
    assert_eq!(simulate(&served.recording(), "hat")["trace"]["accesses"].as_u64(), Some(again));
}
