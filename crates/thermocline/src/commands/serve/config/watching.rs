//! `[metrics]`, `[record]`, `[log]` and `[control]`: what a server says of itself, and where it takes orders.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{self, Deserializer};

use crate::bytes::Bytes;

/// Metrics over HTTP.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metrics {
    #[serde(deserialize_with = "address")]
    pub(crate) listen: SocketAddr,
    #[serde(default)]
    pub(crate) remote: bool,
}

/// The recording of accesses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub(crate) path: PathBuf,
    #[serde(default = "default_record_size")]
    pub(crate) size: Bytes,
    #[serde(default = "default_record_files")]
    pub(crate) files: u32,
}

/// The control socket.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ControlSection {
    pub(crate) socket: PathBuf,
}

/// Logs.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    #[serde(default)]
    pub(crate) level: Level,
    #[serde(default)]
    pub(crate) format: LogFormat,
}

/// Level of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Level {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

pub(super) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        let wanted = &"an address with a port, as in \"127.0.0.1:9469\" or \"[::1]:9469\"";
        de::Error::invalid_value(de::Unexpected::Str(&text), wanted)
    })
}

const fn default_record_size() -> Bytes {
    Bytes(1 << 30)
}

const fn default_record_files() -> u32 {
    4
}
