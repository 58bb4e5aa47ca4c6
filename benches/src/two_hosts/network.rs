//! Two network namespaces with a wire between them.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Address of the server's end of the wire.
pub(super) const SERVER: &str = "10.77.0.1";
const CLIENT: &str = "10.77.0.2";
/// Name of each end of the wire.
const WIRE: &str = "wire";

/// The namespaces, until it is dropped.
pub(super) struct Network {
    pub(super) server: String,
    pub(super) client: String,
}

impl Network {
    /// Create both.
    pub(super) fn new() -> Result<Self> {
        let id = std::process::id();
        // From here on, drop removes what is there.
        let network =
            Self { server: format!("bench-server-{id}"), client: format!("bench-client-{id}") };
        let Self { server, client } = &network;
        for name in [server, client] {
            ip(&["netns", "add", name])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        let other_end = ["peer", "name", WIRE, "netns", client];
        ip(&[&["link", "add", WIRE, "netns", server, "type", "veth"], &other_end[..]].concat())?;
        for (name, address) in [(server, SERVER), (client, CLIENT)] {
            ip(&["-n", name, "address", "add", &format!("{address}/24"), "dev", WIRE])?;
            ip(&["-n", name, "link", "set", WIRE, "up"])?;
        }
        Ok(network)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.server, &self.client] {
            // One that was not created cannot be removed.
            drop(ip(&["netns", "delete", name]));
        }
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(arguments).output().context("cannot start `ip`")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`ip {}` failed: {}", arguments.join(" "), said.trim());
    Ok(())
}

/// Return the bytes that have crossed the wire so far, both ways, as a process in one of the namespaces
/// sees it.
pub(super) fn wire_bytes() -> Result<u64> {
    let bytes = |which: &str| -> Result<u64> {
        let path = format!("/sys/class/net/{WIRE}/statistics/{which}_bytes");
        let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        text.trim().parse().with_context(|| path)
    };
    Ok(bytes("rx")? + bytes("tx")?)
}
