//! `advise`: from traces, from samples that were saved, and from a machine whose recorders are scripts
//! here.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::command::{fails, json, text};
use super::record::blktrace_record;
use super::{SHORT, TRACE};

const ASKED: [&str; 6] = ["--flash", "64MiB", "--ram", "8MiB", "--page-size", "8KiB"];

fn advise<'a>(trace: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["advise", trace][..], &ASKED, more].concat()
}

#[test]
fn an_answer_is_sentences_a_table_and_commands() {
    let kinds = ["--kinds", "zfs,thermocline", "--min-lifetime-years", "0"];
    let answer = text(&advise(TRACE, &kinds));
    for part in [
        "Seen: 247,639 requests in",
        "The best setting of ZFS L2ARC of 64 MiB",
        ") of the accesses, and a read takes",
        "too short to know how the hours of a day differ",
        "| ZFS L2ARC",
        "Without a cache, a read takes",
        "| no cache",
        "More RAM ",
        "(twice the RAM)",
    ] {
        assert!(answer.contains(part), "{part:?} is not in: {answer}");
    }
    let found = json(&advise(TRACE, &[&kinds[..], &["--format", "json"]].concat()));
    assert_eq!(found["seen"]["requests"], 247_639);
    assert_eq!(found["seen"]["accesses"], 260_211);
    assert_eq!(found["seen"]["rate"], 1.0);
    let best = &found["kinds"][usize::try_from(found["recommended"].as_u64().unwrap()).unwrap()];
    for range in ["hit_ratio", "read_ms", "write_ms", "flash_writes_per_access"] {
        let number = |key: &str| best["forecast"][range][key].as_f64().unwrap();
        assert!(number("low") <= number("estimate") && number("estimate") <= number("high"));
    }
    let sizes = found["sizes"].as_array().unwrap();
    let bytes: Vec<u64> = sizes.iter().map(|one| one["flash_bytes"].as_u64().unwrap()).collect();
    assert_eq!(bytes, [16, 32, 64, 128, 256].map(|mib| mib << 20));
    let hits = |one: &Value| one["hit_ratio"]["estimate"].as_f64().unwrap();
    assert!(hits(&sizes[0]) < hits(&sizes[4]), "{sizes:?}");
    assert!(bytes.contains(&found["enough_flash_bytes"].as_u64().unwrap()));
    assert!(!found["commands"]["steps"].as_array().unwrap().is_empty());

    let shell = text(&advise(&SHORT, &[&kinds[..], &["--format", "shell"]].concat()));
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("set.sh");
    fs::write(&script, &shell).unwrap();
    let checked = Command::new("sh").arg("-n").arg(&script).status().unwrap();
    assert!(checked.success() && shell.starts_with("#!/bin/sh\n# Seen:"), "{shell}");
    let page = text(&advise(&SHORT, &[&kinds[..], &["--format", "html"]].concat()));
    assert!(page.contains("<!doctype html>") || page.contains("<!DOCTYPE html>"), "{page}");
    assert!(page.contains("What to type"));
}

#[test]
fn writes_take_as_long_as_the_devices_that_must_have_them() {
    let asked = ["--flash", "4MiB", "--kinds", "bcache,open-cas"];
    let more = ["--min-lifetime-years", "0"];
    let answer = text(&[&["advise", &SHORT][..], &asked, &more].concat());
    assert!(answer.contains("a read takes 12.40 ms, and a write 12.40 ms"), "{answer}");
    assert!(answer.contains(" write, ms "), "{answer}");
    let found = json(&[&["advise", &SHORT][..], &asked, &more, &["--format", "json"]].concat());
    assert_eq!(found["no_cache"]["write_ms"], 12.4);
    for kind in found["kinds"].as_array().unwrap() {
        let forecast = &kind["forecast"];
        let number = |key: &str| forecast["write_ms"][key].as_f64().unwrap();
        assert!(number("low") <= number("estimate") && number("estimate") <= number("high"));
        let keeps_writes =
            matches!(forecast["parameters"]["mode"].as_str().unwrap(), "wb" | "wo" | "writeback");
        // A write through takes as long as the disk; flash takes 0.05 ms.
        assert_eq!(number("estimate") < 12.0, keeps_writes, "{forecast}");
        assert!(number("low") >= 0.052 && number("high") <= 12.4, "{forecast}");
    }
}

#[test]
fn a_forecast_is_the_run_that_it_stands_for() {
    // With room for the whole trace in memory, what misses is what comes first, in the steady half too.
    let found = json(&[
        "advise",
        TRACE,
        "--page-size",
        "8KiB",
        "--flash",
        "64MiB",
        "--ram",
        "1GiB",
        "--kinds",
        "thermocline",
        "--format",
        "json",
    ]);
    let simulated = json(&[
        "simulate",
        TRACE,
        "--page-size",
        "8KiB",
        "--policy",
        "two-tier",
        "--tier",
        "ram=1GiB",
        "--tier",
        "flash=64MiB",
        "--warm-up",
        "50%",
        "--json",
    ]);
    let hits = found["kinds"][0]["forecast"]["hit_ratio"]["estimate"].as_f64().unwrap();
    let exact = simulated["hit_ratio"].as_f64().unwrap();
    assert!((hits - exact).abs() < 0.002, "{hits} beside {exact}");
    let doubts = found["doubts"].to_string();
    assert!(
        doubts.contains("the cache was never full") || doubts.contains("too short"),
        "{doubts}"
    );
}

#[test]
fn a_sample_that_is_saved_says_the_same_and_can_be_joined() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("monday.sample");
    let saved = path.to_str().unwrap();
    let kinds = ["--kinds", "zfs", "--format", "json", "--most-requests", "100000"];
    let first = json(&advise(TRACE, &[&kinds[..], &["--save", saved]].concat()));
    assert_eq!(json(&advise(saved, &kinds)), first);
    assert!(first["seen"]["rate"].as_f64().unwrap() < 1.0, "it is a sample");
    let whole = json(&advise(TRACE, &["--kinds", "zfs", "--format", "json"]));
    let hits = |one: &Value| one["kinds"][0]["forecast"]["hit_ratio"].clone();
    let (exact, sampled) = (hits(&whole)["estimate"].as_f64().unwrap(), hits(&first));
    let end = |key: &str| sampled[key].as_f64().unwrap();
    assert!(end("low") <= exact && exact <= end("high"), "{exact} in {sampled}");

    let twice = json(&[&["advise", saved, saved][..], &ASKED, &kinds].concat());
    assert_eq!(twice["seen"]["requests"], 2 * 247_639);
    let other =
        [&["advise", saved, TRACE][..], &ASKED, &["--kinds", "zfs", "--seed", "2"]].concat();
    fails(&other, &["pgbench.csv.zst", "samples of different seeds"]);
    fails(&advise(TRACE, &["--kinds", "zfs", "--save", TRACE]), &["is what is read"]);
}

#[test]
fn what_cannot_be_answered_says_what_to_type() {
    fails(&["advise"], &["<TRACES>"]);
    fails(&["advise", TRACE], &["--have lvmcache:vg/lv", "--flash 100GiB"]);
    fails(&["advise", TRACE, "--flash", "5%"], &["--flash 5%", "100GiB"]);
    fails(&["advise", TRACE, "--flash", "0B"], &["--flash"]);
    fails(&["advise", TRACE, "--flash", "1GiB", "--kinds", "zfs"], &["ZFS L2ARC", "--ram 4GiB"]);
    fails(&["advise", TRACE, "--flash", "8KiB", "--ram", "1MiB", "--kinds", "zfs"], &["64 pages"]);
    fails(&["advise", TRACE, "--budget", "1"], &["--price"]);
    fails(&["advise", TRACE, "--budget", "0", "--price", "1"], &["--budget 0"]);
    fails(&["advise", TRACE, "--budget", "1", "--price", "0"], &["--price 0"]);
    fails(&["advise", TRACE, "--flash", "1GiB", "--endurance", "0"], &["--endurance 0"]);
    fails(&["advise", TRACE, "--flash", "1GiB", "--endurance", "1e308"], &["at most 10000000"]);
    fails(&["advise", TRACE, "--flash", "1GiB", "--have", "flashcache"], &["lvmcache:vg/lv"]);
    fails(&["advise", TRACE, "--flash", "1GiB", "--for", "1x"], &["90s, 30m, 24h or 7d"]);
    fails(&["advise", "no-such-trace", "--flash", "1GiB"], &["no-such-trace"]);
    fails(
        &["advise", "--device", "/dev/null", "--flash", "1GiB"],
        &["not a block device", "--path"],
    );
    fails(&["advise", "--device", "/dev/no-such", "--flash", "1GiB"], &["/dev/no-such"]);
    fails(&["advise", "--path", "/proc", "--flash", "1GiB"], &["/proc", "--device"]);
    fails(&["advise", "--pid", "4194305", "--flash", "1GiB"], &["no such process"]);
    fails(&["advise", TRACE, "--pid", "1", "--flash", "1GiB"], &["--pid"]);
    fails(&["advise", TRACE, "--with", "blktrace", "--flash", "1GiB"], &["--with"]);
    let blktrace_of_a_process = ["advise", "--pid", "1", "--with", "blktrace", "--flash", "1GiB"];
    fails(&blktrace_of_a_process, &["--pid needs bpftrace"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    fs::write(&path, "this is no trace\n").unwrap();
    fails(&["advise", path.to_str().unwrap(), "--flash", "1GiB"], &["--from"]);
}

/// Runs `advise` on a machine where bpftrace is a script; none, visibly, if that cannot be tried here.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn listened(script: &str, words: &[&str]) -> Option<Output> {
    if !rustix::process::geteuid().is_root()
        || !Path::new("/sys/kernel/btf/vmlinux").exists()
        || !Path::new("/sys/kernel/tracing/events/syscalls").exists()
    {
        eprintln!("skipped: only root on a kernel with BTF and tracefs can listen");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), "bpftrace", script);
    let pid = std::process::id().to_string();
    Some(advised(folder.path(), &[&["--pid", &pid], words].concat()))
}

/// Writes a script that stands for a program.
fn program(folder: &Path, name: &str, script: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs `advise` where the programs of a folder come first.
fn advised(folder: &Path, words: &[&str]) -> Output {
    let paths = std::env::var("PATH").unwrap();
    Command::new("timeout")
        .args(["60", env!("CARGO_BIN_EXE_thermocline"), "advise"])
        .args(words)
        .env("PATH", format!("{}:{paths}", folder.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

const LIVE: [&str; 8] = ["--flash", "1MiB", "--ram", "1MiB", "--kinds", "zfs", "--format", "json"];

#[test]
fn a_machine_is_listened_to_until_the_time_is_over() {
    // 20,000 requests to one file, half of them writes, and an offset that nobody knows.
    let script = "echo '# thermocline 1'; echo 'Lost 7 events'; echo 'R 1 2 1:2:3 -4096 4096 x'
        awk 'BEGIN { for (i = 0; i < 20000; i++)
            printf \"%s %.0f 7 1:2:3 %d 4096 x\\n\", i % 2 ? \"R\" : \"W\", i * 1000000, (i * 7919 % 1000) * 4096 }'
        exec sleep 100";
    let Some(output) = listened(script, &[&LIVE[..], &["--for", "2s"]].concat()) else { return };
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["seen"]["requests"], 20_000);
    assert_eq!(found["seen"]["write_share"], 0.5);
    assert!((found["seen"]["seconds"].as_f64().unwrap() - 20.0).abs() < 0.1, "{found}");
    assert!(errors.contains("lost 8 of the requests"), "{errors}");
}

#[test]
fn a_recorder_that_fails_or_hears_nothing_is_an_error() {
    for (script, says) in [
        ("echo 'ERROR: no probes' >&2; exit 1", "no probes"),
        ("echo '# thermocline 1'; exec sleep 100", "had no requests"),
        ("echo '# thermocline 1'; echo 'R 5 x'; exec sleep 100", "a line that is not a request"),
    ] {
        let Some(output) = listened(script, &[&LIVE[..], &["--for", "1s"]].concat()) else {
            return;
        };
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{script}");
        assert!(errors.contains(says) && !errors.contains("panicked"), "{errors}");
    }
}

/// Runs `advise --device` on a machine where blktrace is a script, and bpftrace fails; none, visibly, if
/// that cannot be tried here. The device is a link in the folder.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn heard_by_blktrace(stream: &[u8], script: &str, words: &[&str]) -> Option<(TempDir, Output)> {
    let devices = fs::read_dir("/sys/block").ok().into_iter().flatten().flatten();
    let mut nodes = devices.map(|device| Path::new("/dev").join(device.file_name()));
    let node = nodes.find(|node| node.exists());
    let (true, true, Some(node)) =
        (rustix::process::geteuid().is_root(), Path::new("/sys/kernel/debug/block").exists(), node)
    else {
        eprintln!("skipped: only root with debugfs and a block device can listen to it");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), "bpftrace", "echo 'ERROR: the kernel is locked' >&2; exit 1");
    program(folder.path(), "blktrace", script);
    fs::write(folder.path().join("stream"), stream).unwrap();
    let device = folder.path().join("device");
    std::os::unix::fs::symlink(node, &device).unwrap();
    let device = device.to_str().unwrap();
    let output = advised(folder.path(), &[&["--device", device], &LIVE[..], words].concat());
    Some((folder, output))
}

/// 20,000 requests within 20 s, of which every second is a write and comes late, and notes between them.
fn stream() -> Vec<u8> {
    let (queued, read, write, note) = (1, 1 << 16, 1 << 17, 1 << 26);
    let requests = (0..20_000).flat_map(|number: u64| {
        let number = number ^ 1;
        let action = if number.is_multiple_of(2) { queued | write } else { queued | read };
        let request =
            blktrace_record(true, number * 1_000_000, number * 7919 % 1000 * 16, action, b"");
        [request, blktrace_record(true, 0, 0, note, b"sh\0")]
    });
    requests.flatten().collect()
}

/// Prints the stream from the folder in which the script is.
const PLAY: &str = "cd \"${0%/*}\"; echo \"$@\" > arguments; cat stream";

#[test]
fn blktrace_is_heard_where_bpftrace_cannot_begin() {
    let script = format!(
        "{PLAY}; trap 'echo \"You have 5 (  0.1%) dropped events\" >&2' INT; sleep 100 & wait"
    );
    let Some((folder, output)) = heard_by_blktrace(&stream(), &script, &["--for", "2s"]) else {
        return;
    };
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["seen"]["requests"], 20_000);
    assert_eq!(found["seen"]["write_share"], 0.5);
    assert!((found["seen"]["seconds"].as_f64().unwrap() - 20.0).abs() < 0.1, "{found}");
    for part in ["the kernel is locked", "listening with blktrace", "lost 5 of the requests"] {
        assert!(errors.contains(part), "{part:?} is not in: {errors}");
    }
    let arguments = fs::read_to_string(folder.path().join("arguments")).unwrap();
    let device = folder.path().join("device");
    assert_eq!(arguments, format!("-d {} -o - -a queue -b 64 -n 32\n", device.display()));
}

#[test]
fn what_was_heard_of_a_device_that_vanishes_is_kept() {
    let script = format!("{PLAY}; sleep 1; rm device; exec sleep 100");
    let Some((_folder, output)) = heard_by_blktrace(&stream(), &script, &["--with", "blktrace"])
    else {
        return;
    };
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && errors.contains("is gone"), "{errors}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["seen"]["requests"], 20_000);
}

#[test]
fn a_blktrace_that_fails_or_hears_nothing_is_an_error() {
    for (script, says) in [
        ("echo 'BLKTRACESETUP(2) /dev/x failed: 16/Device or resource busy' >&2; exit 1", "busy"),
        // The real one goes on without its threads.
        ("echo 'FAILED to start thread on CPU 0' >&2; exec sleep 100", "FAILED to start thread"),
        ("exec sleep 100", "had no requests"),
        ("exec seq 1000000", "0x65617407"),
    ] {
        let Some((_folder, output)) = heard_by_blktrace(&[], script, &["--for", "1s"]) else {
            return;
        };
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{script}");
        assert!(errors.contains(says) && !errors.contains("panicked"), "{says}: {errors}");
    }
}

#[test]
fn a_machine_without_recorders_says_what_to_install() {
    let empty = tempfile::tempdir().unwrap();
    let Some(device) =
        ["vda", "sda", "loop0"].into_iter().find(|name| Path::new("/dev").join(name).exists())
    else {
        eprintln!("skipped: no block device is known here");
        return;
    };
    let output = Command::new(env!("CARGO_BIN_EXE_thermocline"))
        .args(["advise", "--flash", "1GiB", "--device", &format!("/dev/{device}")])
        .env("PATH", empty.path())
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{errors}");
    for part in ["install the package `bpftrace`", "install the package `blktrace`"] {
        assert!(errors.contains(part), "{part:?} is not in: {errors}");
    }
}
