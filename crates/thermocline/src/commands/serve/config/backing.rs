//! `[backing]`: what is cached.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Deserialize;
use serde::de::{self, Deserializer};
use thermocline_nbd::uri::NbdUri;

use crate::backing::BackingLocation;

/// Bounds of `backing.timeout`, in seconds.
const TIMEOUT_MIN_S: f64 = 0.1;
const TIMEOUT_MAX_S: f64 = 86_400.0;
/// The default of `backing.grace`, in seconds.
const GRACE_S: f64 = 5.0;

/// The backing store.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Backing {
    pub(crate) path: Option<PathBuf>,
    #[serde(default, deserialize_with = "uri")]
    pub(crate) nbd: Option<NbdUri>,
    pub(crate) note: Option<PathBuf>,
    #[serde(default)]
    pub(crate) cooperate: bool,
    #[serde(default = "default_timeout")]
    timeout: f64,
    grace: Option<f64>,
}

fn uri<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NbdUri>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(de::Error::custom)
}

const fn default_timeout() -> f64 {
    30.0
}

impl Backing {
    pub(super) fn check(&self) -> Result<()> {
        ensure!(
            self.path.is_some() != self.nbd.is_some(),
            "[backing] takes either a `path` or `nbd`, the address of an export"
        );
        ensure!(
            self.note.is_none() || self.nbd.is_some(),
            "`backing.note` is for `nbd`: the note of a `path` is beside it"
        );
        let timeout = self.timeout;
        ensure!(
            (TIMEOUT_MIN_S..=TIMEOUT_MAX_S).contains(&timeout),
            "`backing.timeout` is {timeout}: it must be from {TIMEOUT_MIN_S} to {TIMEOUT_MAX_S} seconds"
        );
        if let Some(grace) = self.grace {
            ensure!(self.nbd.is_some(), "`backing.grace` is for `nbd`: leave it out with a `path`");
            ensure!(
                (0.0..=TIMEOUT_MAX_S).contains(&grace),
                "`backing.grace` is {grace}: it must be from 0 to {TIMEOUT_MAX_S} seconds"
            );
        }
        Ok(())
    }

    /// Return the time that a server may be away before requests that need it fail.
    pub(crate) fn grace(&self) -> Duration {
        Duration::from_secs_f64(self.grace.unwrap_or(GRACE_S))
    }

    /// Return the time that a request may wait for devices.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout)
    }

    /// Return the location of the backing store.
    pub(crate) fn place(&self) -> BackingLocation {
        match (&self.path, &self.nbd) {
            (Some(path), _) => BackingLocation::File(path.clone()),
            (None, Some(uri)) => BackingLocation::Nbd(uri.clone()),
            (None, None) => unreachable!("a configuration was checked when it was read"),
        }
    }
}
