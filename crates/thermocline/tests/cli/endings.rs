//! Commands that are ended while they write: nothing is left but what was there before.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::text;

/// Maximum time for a command to write, or to end.
const PATIENCE: Duration = Duration::from_mins(1);

/// Return `true` if a process has a file of a folder open, with a name or without.
pub(crate) fn writes_to(process: u32, folder: &Path) -> bool {
    let Ok(open) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    let mut files = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    files.any(|file| file.starts_with(folder))
}

#[track_caller]
fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Begins a command, sends it a signal once it writes to `folder`, and waits for its end. The signal is
/// not ignored, as a shell has it for what runs in the background.
fn ended(words: &[&str], folder: &Path, signal: &str) {
    let mut child: Child = Command::new("env")
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_thermocline")])
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let process = child.id();
    wait("it writes", || writes_to(process, folder));
    let kill = Command::new("kill").args(["-s", signal, &process.to_string()]).status().unwrap();
    assert!(kill.success());
    wait("it ends", || child.try_wait().unwrap().is_some());
    assert!(!child.wait().unwrap().success(), "{words:?} was through before {signal}");
}

#[test]
fn a_command_that_is_ended_leaves_no_temporary_file() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (trace, out) = (path("t.csv"), place.path().join("out"));
    std::fs::create_dir(&out).unwrap();
    text(&["trace", "generate", "--requests", "1000000", "-o", &trace]);
    let target = |name: &str| out.join(name).to_str().unwrap().to_owned();
    let kept = target("kept.csv.zst");
    std::fs::write(&kept, "as it was").unwrap();
    let (parquet, actions) = (target("t.parquet"), target("a.parquet"));
    for words in [
        &["trace", "generate", "--requests", "400000000", "-o", &kept][..],
        &["trace", "convert", &trace, "--to", "parquet", "-o", &parquet],
        &["simulate", &trace, "--policy", "lru", "--tier", "ram=10%", "--actions", &actions],
    ] {
        for signal in ["INT", "TERM", "KILL"] {
            ended(words, &out, signal);
            let left: Vec<_> =
                std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(left, ["kept.csv.zst"], "{words:?} after {signal}");
            assert_eq!(std::fs::read_to_string(&kept).unwrap(), "as it was");
        }
    }
}

#[test]
fn a_recording_that_is_ended_before_it_begins_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (out, programs) = (place.path().join("out"), place.path().join("programs"));
    for folder in [&out, &programs] {
        std::fs::create_dir(folder).unwrap();
    }
    let tried = place.path().join("tried");
    let strace = programs.join("strace");
    let paths = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let output = out.join("t.csv");
    // strace is tried twice before anything is recorded; it takes long the first time, or the second.
    for (times, signal) in
        [(1, "TERM"), (1, "INT"), (1, "KILL"), (2, "TERM"), (2, "INT"), (2, "KILL")]
    {
        let script = format!(
            "#!/bin/sh\necho >> {0}\n[ $(wc -l < {0}) -lt {times} ] || exec sleep 3\n",
            tried.display()
        );
        std::fs::write(&tried, "").unwrap();
        std::fs::write(&strace, script).unwrap();
        std::fs::set_permissions(&strace, Permissions::from_mode(0o755)).unwrap();
        let mut child = Command::new("env")
            .args(["--default-signal=INT", env!("CARGO_BIN_EXE_thermocline")])
            .args(["trace", "record", "--with", "strace", "-o"])
            .arg(&output)
            .args(["--", "true"])
            .env("PATH", &paths)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait("strace is tried", || {
            std::fs::read_to_string(&tried).is_ok_and(|lines| lines.len() == times)
        });
        let process = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &process]).status().unwrap().success());
        wait("it ends", || child.try_wait().unwrap().is_some());
        assert!(!child.wait().unwrap().success());
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0, "attempt {times}, {signal}");
    }
}
