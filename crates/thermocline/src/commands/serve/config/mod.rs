//! The configuration of an engine, as its file says it.

mod backing;
mod clients;
mod cooperation;
mod flash;
mod io;
mod limits;
mod machines;
mod policy;
mod shares;
mod volumes;
mod watching;

use std::num::NonZeroU16;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde::de::{self, Deserializer};
use thermocline_lab::find_policy;
use thermocline_nbd::uri::ServerAddress;

pub(crate) use self::backing::Backing;
pub(crate) use self::clients::Nbd;
use self::cooperation::ClientsSection;
pub(crate) use self::flash::{Flash, Ram};
pub(crate) use self::io::{Io, IoEngine};
use self::limits::Limits;
pub(crate) use self::machines::{UblkSection, VhostUserSection};
pub(crate) use self::policy::{Mode, Policy, check_depth};
pub(crate) use self::shares::{Resource, WantedFlash};
use self::volumes::FlashShare;
pub(crate) use self::volumes::Volumes;
pub(crate) use self::watching::{ControlSection, Level, Log, LogFormat, Metrics, Record};
use super::cleaning::CleaningSection;
use crate::bytes::Bytes;

/// A commented configuration with every key.
pub(crate) const EXAMPLE: &str = include_str!("../example.toml");

/// More shards than this are refused.
const SHARDS_MAX: u16 = 64;

/// An engine's configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    #[serde(default = "default_page_size")]
    pub(crate) page_size: Bytes,
    #[serde(default = "default_shards", deserialize_with = "shards")]
    pub(crate) shards: NonZeroU16,
    #[serde(default)]
    pub(crate) write_mode: Mode,
    #[serde(default)]
    pub(crate) shadow: Vec<String>,
    #[serde(default = "default_shadow_sample")]
    pub(crate) shadow_sample: f64,
    pub(crate) state_dir: Option<PathBuf>,
    pub(crate) backing: Backing,
    pub(crate) flash: Option<Flash>,
    pub(crate) ram: Ram,
    pub(crate) policy: Policy,
    pub(crate) clients: Option<ClientsSection>,
    #[serde(default)]
    pub(crate) cleaning: CleaningSection,
    #[serde(default)]
    pub(crate) limits: Limits,
    #[serde(default)]
    pub(crate) nbd: Nbd,
    pub(crate) vhost_user: Option<VhostUserSection>,
    pub(crate) ublk: Option<UblkSection>,
    #[serde(default)]
    pub(crate) io: Io,
    pub(crate) metrics: Option<Metrics>,
    pub(crate) control: Option<ControlSection>,
    pub(crate) record: Option<Record>,
    #[serde(default)]
    pub(crate) log: Log,
}

/// The longest time limit of NBD clients: a year, in seconds.
const NBD_TIMEOUT_MAX_S: u64 = 365 * 86_400;

fn shards<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NonZeroU16, D::Error> {
    let given = i64::deserialize(deserializer)?;
    let number = u16::try_from(given).ok().filter(|number| *number <= SHARDS_MAX);
    number.and_then(NonZeroU16::new).ok_or_else(|| {
        de::Error::custom(format!("`shards` is {given}: it must be from 1 to {SHARDS_MAX}"))
    })
}

const fn default_page_size() -> Bytes {
    Bytes(4096)
}

const fn default_shards() -> NonZeroU16 {
    NonZeroU16::MIN
}

const fn default_shadow_sample() -> f64 {
    0.01
}

impl Config {
    /// Parse the configuration of one export. Paths stay as they are.
    ///
    /// # Errors
    /// A value that is not permitted; the error names its key.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let config: Self = toml::from_str(text)?;
        config.check()?;
        Ok(config)
    }

    fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let tls = self.nbd.tls.as_mut().into_iter().flat_map(|tls| {
            [Some(&mut tls.certificate), Some(&mut tls.key), tls.client_roots.as_mut()]
        });
        let [flash, mirror] = match self.flash.as_mut() {
            Some(flash) => [Some(&mut flash.path), flash.mirror.as_mut()],
            None => [None, None],
        };
        let backing = &mut self.backing;
        let disk = backing.nbd.as_mut().into_iter().flat_map(|uri| {
            let socket = match &mut uri.server {
                ServerAddress::Unix(socket) => Some(socket),
                ServerAddress::Tcp { .. } => None,
            };
            [socket, uri.tls.as_mut().map(|files| &mut files.certificates)]
        });
        let others = [
            backing.path.as_mut(),
            backing.note.as_mut(),
            self.state_dir.as_mut(),
            flash,
            mirror,
            self.nbd.socket.as_mut(),
            self.vhost_user.as_mut().map(|section| &mut section.socket),
            self.ublk.as_mut().and_then(|section| section.note.as_mut()),
            self.control.as_mut().map(|control| &mut control.socket),
            self.record.as_mut().map(|record| &mut record.path),
        ];
        others.into_iter().chain(tls).chain(disk).flatten()
    }

    fn check(&self) -> Result<()> {
        let page = self.page_size.0;
        ensure!(
            page > 0 && page.is_multiple_of(4096) && page <= 1 << 20,
            "`page_size` is {page} bytes: it must be a multiple of 4KiB, up to 1MiB"
        );
        self.backing.check()?;
        self.check_shards()?;
        self.pages("ram.size", self.ram.size)?;
        if let Some(flash) = &self.flash {
            self.pages("flash.size", flash.size)?;
            if let Some(gib) = flash.write_budget_gib_per_day {
                ensure!(
                    gib > 0.0,
                    "`flash.write_budget_gib_per_day` is {gib}: it must be above 0; leave it out for no limit"
                );
            }
        }
        self.flash_rated_written_bytes()?;
        self.pinned_pages()?;
        let sample = self.shadow_sample;
        ensure!(
            sample > 0.0 && sample <= 1.0,
            "`shadow_sample` is {sample}: it must be above 0 and at most 1"
        );
        if let Some(record) = &self.record {
            ensure!(
                record.size.0 > 0 && record.files > 0,
                "[record]: `size` and `files` must be at least 1; leave the section out to record nothing"
            );
        }
        self.check_doors()?;
        self.nbd.check_rates(self.page_size)?;
        if let Some(Metrics { listen, remote }) = self.metrics {
            ensure!(
                remote || listen.ip().is_loopback(),
                "`metrics.listen`: {listen} can be reached from other machines; \
                 `metrics.remote = true` allows that"
            );
        }
        self.cleaning.check()?;
        let counts = [
            ("cleaning.pages_per_second", self.cleaning.pages_per_second.map(u64::from)),
            ("cleaning.pages_in_flight", self.cleaning.pages_in_flight.map(u64::from)),
            ("nbd.send_timeout", self.nbd.send_timeout),
            ("nbd.clients", self.nbd.clients.map(|clients| clients as u64)),
            ("nbd.client_in_flight", self.nbd.client_in_flight.map(|bytes| bytes.0)),
            ("nbd.in_flight", self.nbd.in_flight.map(|bytes| bytes.0)),
        ];
        for (key, count) in counts {
            ensure!(count != Some(0), "`{key}` is 0: it must be at least 1");
        }
        for (key, seconds) in [
            ("nbd.send_timeout", self.nbd.send_timeout),
            ("nbd.idle_timeout", Some(self.nbd.idle_timeout)),
        ] {
            ensure!(
                seconds.is_none_or(|seconds| seconds <= NBD_TIMEOUT_MAX_S),
                "`{key}` is {} seconds: it must be at most {NBD_TIMEOUT_MAX_S}, a year",
                seconds.unwrap_or_default()
            );
        }
        let entry = find_policy(&self.policy.name).context("`policy.name`")?;
        self.check_cooperation()?;
        if self.half()?.is_none() {
            check_depth(entry, self.flash.is_some())?;
        }
        self.policy_options()?;
        Ok(())
    }

    /// Convert a size to whole pages, at least one.
    pub(crate) fn pages(&self, key: &str, size: Bytes) -> Result<u32> {
        let pages = u32::try_from(size.0 / self.page_size.0).ok();
        let pages = pages.filter(|&pages| pages < thermocline_core::registry::CAPACITY_PAGES_MAX);
        let pages = pages.with_context(|| format!("`{key}` is more pages than a tier can hold"))?;
        ensure!(pages > 0, "`{key}` is {} bytes: it must be at least a page", size.0);
        Ok(pages)
    }
}

#[cfg(test)]
mod tests;
