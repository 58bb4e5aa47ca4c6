//! `thermocline serve`, `cache` and `top` as processes, with clients that nobody here wrote, and with
//! one that knows what it was promised.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::print_stderr, reason = "a test says what it skips")]

mod at_rest;
mod block_devices;
mod certificates;
mod changing_volumes;
mod choosing;
#[path = "../../../thermocline-nbd/tests/server/client.rs"]
mod client;
#[path = "../cli/command.rs"]
mod command;
mod crashes;
mod engine;
mod faults;
mod file_systems;
mod foreign_clients;
mod growing_flash;
mod growing_mirror;
mod growth;
#[expect(dead_code, reason = "other tests need more of it")]
#[path = "../../../thermocline-vhost/tests/machine/guest.rs"]
mod guest;
mod hosts;
mod identity;
mod live;
mod memory;
mod metrics;
mod mirrored;
mod mirroring;
mod model;
mod moving_shares;
mod nbd_backing;
mod page;
mod ranges;
mod recording;
mod regions;
mod replacing;
mod shards;
mod start;
mod top;
mod upgrade;
mod virtual_machines;
mod volumes;

use std::process::Command;

use thermocline_nbd::protocol::Command as NbdCommand;

use self::client::Client;
use self::command::{fails, json, text, thermocline};
use self::engine::{Cache, Engine};

/// Runs a program and returns what it printed; nothing if it is not installed, which is said.
fn run(program: &str, package: &str, words: &[&str]) -> Option<String> {
    let output = match Command::new(program).args(words).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: `{program}` is not installed (Debian package {package})");
            return None;
        }
        output => output.unwrap(),
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {words:?}:\n{said}\n{complained}");
    Some(said + &complained)
}

/// Flush: all acknowledged writes are durable then.
fn flush(client: &mut Client) {
    client.call(NbdCommand::Flush, 0, 0, &[]).unwrap();
}
