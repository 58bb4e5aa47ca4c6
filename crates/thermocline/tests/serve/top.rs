//! `thermocline top`, in a terminal and without.

use std::process::{Command, Stdio};

use super::{Cache, fails, text};

#[test]
fn top_prints_the_figures_of_an_interval() {
    let cache = Cache::new(8);
    let engine = cache.start();
    engine.client().write(0, &[1; 4096]).unwrap();
    engine.status();
    let shown = text(&["top", "--once", "--interval", "0.1", "--engine", engine.metrics_address()]);
    assert!(shown.contains("hat, writes back"), "{shown}");
    assert!(shown.contains("flash") && shown.contains("backing"), "{shown}");
}

#[test]
fn top_names_the_engine_that_is_not_there() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = nobody.to_string();
    fails(&["top", "--once", "--engine", &address], &[&address, "no engine", "metrics.listen"]);
    // Something else that speaks HTTP.
    let cache = Cache::new(1);
    let engine = cache.start();
    let other = format!("{}/metrics?", engine.metrics_address());
    fails(&["top", "--once", "--engine", &other], &["no engine"]);
}

#[test]
fn top_draws_and_ends_by_a_key() {
    let cache = Cache::new(8);
    let engine = cache.start();
    engine.client().write(0, &[1; 4096]).unwrap();
    let binary = env!("CARGO_BIN_EXE_thermocline");
    let command = format!(
        "stty rows 50 cols 120; {binary} top --interval 0.1 --engine {}",
        engine.metrics_address()
    );
    let started = Command::new("timeout")
        .args(["20", "script", "-qec", &command, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut process = started.unwrap();
    let mut keys = process.stdin.take().unwrap();
    let mut screen = process.stdout.take().unwrap();
    let mut drawn = vec![];
    let mut buffer = [0; 4096];
    let mut is_asked = false;
    loop {
        use std::io::{Read as _, Write as _};
        let length = screen.read(&mut buffer).unwrap();
        if length == 0 {
            break;
        }
        drawn.extend_from_slice(&buffer[..length]);
        let text = String::from_utf8_lossy(&drawn);
        if !is_asked && text.contains("hat, writes back") && text.contains("backing") {
            keys.write_all(b"q").unwrap();
            is_asked = true;
        }
    }
    let status = process.wait().unwrap();
    let text = String::from_utf8_lossy(&drawn);
    if text.contains("not found") || status.code() == Some(127) {
        eprintln!("skipped: `script` is not installed (Debian package bsdutils)");
        return;
    }
    assert!(is_asked && status.success(), "{status}: {text}");
}
