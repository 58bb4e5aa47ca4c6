//! The configuration of an engine, as its file says it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde::de::{self, Deserializer};
use thermocline_core::registry::{Depth, PolicyEntry};
use thermocline_core::{Geometry, Indexing, Setup, WriteMiss};
use thermocline_engine::{PolicyOptions, WriteMode};
use thermocline_lab::spec::DriveSpec;
use thermocline_lab::{find_policy, find_ssd};
use thermocline_nbd::uri::{NbdUri, ServerAddress};

use super::block_device::UblkSection;
use super::cleaning::CleaningSection;
use super::listening::Nbd;
use super::virtual_machines::VhostUserSection;
use crate::backing::BackingLocation;
use crate::bytes::Bytes;

/// A commented configuration with every key.
pub(crate) const EXAMPLE: &str = include_str!("example.toml");

/// Bounds of `backing.timeout`, in seconds.
const TIMEOUT_MIN_S: f64 = 0.1;
const TIMEOUT_MAX_S: f64 = 86_400.0;
/// The default of `backing.grace`, in seconds.
const GRACE_S: f64 = 5.0;
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
    pub(crate) control: Option<super::control::ControlSection>,
    pub(crate) record: Option<Record>,
    #[serde(default)]
    pub(crate) log: Log,
}

/// What is cached.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Backing {
    pub(crate) path: Option<PathBuf>,
    #[serde(default, deserialize_with = "uri")]
    pub(crate) nbd: Option<NbdUri>,
    pub(crate) note: Option<PathBuf>,
    #[serde(default = "default_timeout")]
    timeout: f64,
    grace: Option<f64>,
}

/// Where it is cached.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Flash {
    pub(crate) path: PathBuf,
    pub(crate) size: Bytes,
    pub(crate) write_budget_gib_per_day: Option<f64>,
    /// What may be written to it in its life, as its data sheet says.
    rated_writes: Option<Bytes>,
    /// A drive of the lab that it is like.
    drive: Option<String>,
    /// Operations that may fail for good before the flash is given up.
    pub(crate) error_budget: Option<u32>,
}

/// The memory for pages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ram {
    pub(crate) size: Bytes,
}

/// Which policy decides.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Policy {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) write_miss: Miss,
    #[serde(default)]
    pub(crate) parameters: BTreeMap<String, toml::Value>,
}

/// What is bounded.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    pub(crate) undurable: Option<Bytes>,
    pub(crate) sequential_bypass: Option<Bytes>,
}

/// The longest time limit of NBD clients: a year, in seconds.
const NBD_TIMEOUT_MAX_S: u64 = 365 * 86_400;

/// How devices are driven.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Io {
    #[serde(default)]
    pub(crate) engine: IoEngine,
    #[serde(default = "default_direct")]
    pub(crate) direct: bool,
}

/// Which interface of the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum IoEngine {
    #[default]
    Auto,
    IoUring,
    Threads,
}

/// Metrics over HTTP.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metrics {
    #[serde(deserialize_with = "address")]
    pub(crate) listen: SocketAddr,
    #[serde(default)]
    pub(crate) remote: bool,
}

/// Where accesses are recorded.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub(crate) path: PathBuf,
    #[serde(default = "default_record_size")]
    pub(crate) size: Bytes,
    #[serde(default = "default_record_files")]
    pub(crate) files: u32,
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

/// How much is logged.
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

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// What happens to writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    #[default]
    Back,
    Through,
    Around,
    ReadOnly,
}

/// What a write miss does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Miss {
    #[default]
    Fetch,
    Allocate,
}

fn uri<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NbdUri>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(de::Error::custom)
}

fn shards<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NonZeroU16, D::Error> {
    let given = i64::deserialize(deserializer)?;
    let number = u16::try_from(given).ok().filter(|number| *number <= SHARDS_MAX);
    number.and_then(NonZeroU16::new).ok_or_else(|| {
        de::Error::custom(format!("`shards` is {given}: it must be from 1 to {SHARDS_MAX}"))
    })
}

pub(super) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| {
        let wanted = &"an address with a port, as in \"127.0.0.1:9469\" or \"[::1]:9469\"";
        de::Error::invalid_value(de::Unexpected::Str(&text), wanted)
    })
}

const fn default_page_size() -> Bytes {
    Bytes(4096)
}

const fn default_shards() -> NonZeroU16 {
    NonZeroU16::MIN
}

const fn default_record_size() -> Bytes {
    Bytes(1 << 30)
}

const fn default_record_files() -> u32 {
    4
}

const fn default_shadow_sample() -> f64 {
    0.01
}

const fn default_timeout() -> f64 {
    30.0
}

const fn default_direct() -> bool {
    true
}

impl Default for Io {
    fn default() -> Self {
        Self { engine: IoEngine::Auto, direct: default_direct() }
    }
}

impl Config {
    /// Reads a configuration, and refuses what cannot work. Paths in it are relative to its file.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let context = || format!("in `{}`", path.display());
        let text = std::fs::read_to_string(path).with_context(context)?;
        let mut config = Self::parse(&text).with_context(context)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for path in config.paths() {
            *path = folder.join(&*path);
        }
        Ok(config)
    }

    /// The same, from its text; paths stay as they are.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let config: Self = toml::from_str(text)?;
        config.check()?;
        Ok(config)
    }

    fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let tls = self.nbd.tls.as_mut().into_iter().flat_map(|tls| {
            [Some(&mut tls.certificate), Some(&mut tls.key), tls.client_roots.as_mut()]
        });
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
            self.flash.as_mut().map(|flash| &mut flash.path),
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
        check_depth(entry, self.flash.is_some())?;
        self.policy_options()?;
        Ok(())
    }

    /// A size in whole pages, at least one.
    pub(crate) fn pages(&self, key: &str, size: Bytes) -> Result<u32> {
        let pages = u32::try_from(size.0 / self.page_size.0).ok();
        let pages = pages.filter(|&pages| pages < thermocline_core::registry::CAPACITY_PAGES_MAX);
        let pages = pages.with_context(|| format!("`{key}` is more pages than a tier can hold"))?;
        ensure!(pages > 0, "`{key}` is {} bytes: it must be at least a page", size.0);
        Ok(pages)
    }

    /// Pages of RAM and of flash.
    pub(crate) fn tier_pages(&self) -> Result<[u32; 2]> {
        let flash = self.flash.as_ref();
        let flash = flash.map(|flash| self.pages("flash.size", flash.size)).transpose()?;
        Ok([self.pages("ram.size", self.ram.size)?, flash.unwrap_or(0)])
    }

    /// Bytes that the flash is rated to be written in its life, if that is known. Of a drive of the lab
    /// each block bears its erases, and the drive itself writes little more than it is asked to.
    pub(crate) fn flash_rated_written_bytes(&self) -> Result<Option<u64>> {
        let Some(flash) = &self.flash else { return Ok(None) };
        match (flash.rated_writes, &flash.drive) {
            (Some(_), Some(_)) => {
                bail!("`flash.rated_writes` and `flash.drive` both say what it bears: give one")
            }
            (Some(bytes), None) => {
                ensure!(bytes.0 > 0, "`flash.rated_writes` is 0: leave it out if it is unknown");
                Ok(Some(bytes.0))
            }
            (None, Some(name)) => {
                let drive = find_ssd(&DriveSpec::Named(name.clone())).context("`flash.drive`")?;
                Ok(Some(drive.logical_bytes().saturating_mul(drive.erase_limit.into())))
            }
            (None, None) => Ok(None),
        }
    }

    /// The policy with its parameters.
    pub(crate) fn policy_options(&self) -> Result<PolicyOptions> {
        let entry = find_policy(&self.policy.name)?;
        let given: Vec<(String, String)> = self
            .policy
            .parameters
            .iter()
            .map(|(name, value)| {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                (name.clone(), text)
            })
            .collect();
        let named = PolicyOptions::named(&entry.name)?;
        Ok(PolicyOptions {
            values: entry.values(&given).context("`policy.parameters`")?,
            write_miss: self.policy.write_miss.into_core(),
            ..named
        })
    }

    /// Builds the policy once, as the start would: some parameters only fit some sizes.
    ///
    /// # Errors
    /// Why it cannot be built.
    pub(crate) fn try_policy(&self) -> Result<()> {
        let PolicyOptions { entry, values, write_miss, admission, costs } =
            self.policy_options()?;
        let [ram_pages, flash_pages] = self.tier_pages()?;
        let setup = Setup {
            costs,
            write_miss,
            admission,
            indexing: Indexing::Sparse,
            ..Setup::new(Geometry::linear(ram_pages), vec![ram_pages, flash_pages])
        };
        entry.build(&setup, &values).map(drop).context("`policy`")
    }
}

impl Backing {
    fn check(&self) -> Result<()> {
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

    /// How long a server may be away before requests that need it fail.
    pub(crate) fn grace(&self) -> Duration {
        Duration::from_secs_f64(self.grace.unwrap_or(GRACE_S))
    }

    /// How long a request may wait for devices.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout)
    }

    /// Where the backing store is.
    pub(crate) fn place(&self) -> BackingLocation {
        match (&self.path, &self.nbd) {
            (Some(path), _) => BackingLocation::File(path.clone()),
            (None, Some(uri)) => BackingLocation::Nbd(uri.clone()),
            (None, None) => unreachable!("a configuration was checked when it was read"),
        }
    }
}

/// Check that a policy runs with the tiers that there are.
pub(crate) fn check_depth(entry: &PolicyEntry, has_flash: bool) -> Result<()> {
    match entry.capabilities.depth {
        Depth::Ram => Ok(()),
        Depth::RamFlash | Depth::Tiers if has_flash => Ok(()),
        Depth::RamFlash | Depth::Tiers => {
            bail!("`policy.name`: `{}` takes a [flash] section", entry.name)
        }
        Depth::Buffer => bail!("`policy.name`: `{}` is a write buffer inside an SSD", entry.name),
    }
}

impl Miss {
    const fn into_core(self) -> WriteMiss {
        match self {
            Self::Fetch => WriteMiss::Fetch,
            Self::Allocate => WriteMiss::Allocate,
        }
    }
}

impl Mode {
    pub(crate) const fn into_engine(self) -> WriteMode {
        match self {
            Self::Back => WriteMode::Back,
            Self::Through => WriteMode::Through,
            Self::Around => WriteMode::Around,
            Self::ReadOnly => WriteMode::ReadOnly,
        }
    }
}

#[cfg(test)]
mod tests {
    use thermocline_core::Clients;
    use thermocline_core::registry::{self, Future, PolicyEntry};
    use thermocline_engine::Cleaning;
    use thermocline_lab::spec::{HierarchySpec, TierSpec};
    use thermocline_lab::{RunOptions, Summary, TierSize, Watch};

    use super::*;

    const SMALLEST: &str = r#"
        [backing]
        path = "disk.img"
        [flash]
        path = "flash.img"
        size = "256MiB"
        [ram]
        size = "64MiB"
        [policy]
        name = "hat"
        [nbd]
        socket = "thermocline.sock"
        [metrics]
        listen = "127.0.0.1:9469"
    "#;

    /// The example with each key in force, but for one of each two that exclude each other.
    fn uncommented() -> String {
        let is_key = |line: &str| line.starts_with('#') && !line.starts_with("# ");
        EXAMPLE
            .lines()
            .map(|line| if is_key(line) { &line[1..] } else { line })
            .filter(|line| !line.starts_with("path = \"disk") && !line.starts_with("drive = "))
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn the_smallest_configuration_is_a_contract() {
        let config = Config::parse(SMALLEST).unwrap();
        assert_eq!(config.ram.size, Bytes(64 << 20));
        assert_eq!(config.flash.as_ref().unwrap().size, Bytes(256 << 20));
        assert_eq!(config.pages("ram.size", config.ram.size).unwrap(), 16_384);
        assert_eq!(config.cleaning.now(), Cleaning::default());
    }

    #[test]
    fn the_example_starts_from_the_best_single_policy_of_the_bundled_trace() {
        let config = Config::parse(EXAMPLE).unwrap();
        let flash = config.flash.as_ref().unwrap().size.0 as f64 / config.ram.size.0 as f64;
        let sizes =
            [("ram", TierSize::FootprintPercent(2.0)), ("flash", TierSize::TimesAbove(flash))];
        let tiers = sizes.map(|(name, size)| TierSpec::new(name, &[size])).to_vec();
        let spec = HierarchySpec { tiers, ..HierarchySpec::default() };
        let can_serve = |entry: &&PolicyEntry| {
            entry.capabilities.depth.allows(2)
                && entry.capabilities.future == Future::Unknown
                && entry.name != "auto"
        };
        let policies: Vec<_> = registry::entries().filter(can_serve).cloned().collect();
        let all = thermocline_lab::configurations(&spec, &policies, Clients::ONE).unwrap();
        let trace = thermocline_lab::bundled_trace().unwrap();
        let found =
            thermocline_lab::compare(&trace, &all, RunOptions::default(), &Watch::default(), || ());
        let found = found.unwrap();
        let by_time =
            |one: &&Summary, other: &&Summary| one.io_time_ms.total_cmp(&other.io_time_ms);
        assert_eq!(config.policy.name, found.iter().min_by(by_time).unwrap().policy.name);
    }

    #[test]
    fn the_example_shows_every_key_and_its_default() {
        let plain = Config::parse(EXAMPLE).unwrap();
        let full = Config::parse(&uncommented()).unwrap();
        assert_eq!(full.page_size, plain.page_size);
        assert_eq!(full.backing.timeout(), plain.backing.timeout());
        assert_eq!(full.backing.grace(), plain.backing.grace());
        assert_eq!(full.write_mode, plain.write_mode);
        assert_eq!(full.shadow_sample.to_bits(), plain.shadow_sample.to_bits());
        let [clean, default] = [full.cleaning.now(), plain.cleaning.now()];
        assert_eq!(clean.pages_per_second_max, default.pages_per_second_max);
        assert_eq!(clean.pages_in_flight_max, default.pages_in_flight_max);
        assert_eq!(full.cleaning.dirty_ratio, Some(Cleaning::default().dirty_ratio_target));
        assert!(clean.idle_after.is_some() && default.idle_after.is_none());
        assert_eq!(full.cleaning.drain_at_exit, plain.cleaning.drain_at_exit);
        assert!(!full.policy.parameters.is_empty());
        assert_eq!(full.io.engine, plain.io.engine);
        assert_eq!(full.io.direct, plain.io.direct);
        assert_eq!(full.log.level, plain.log.level);
        assert_eq!(full.log.format, plain.log.format);
        assert!(full.nbd.tls.is_some());
        let send_limit = thermocline_nbd::server::Settings::default().send_limit;
        assert_eq!(full.nbd.send_timeout, Some(send_limit.as_secs()));
        assert_eq!(full.nbd.idle_timeout, plain.nbd.idle_timeout);
        let path = full.record.as_ref().unwrap().path.clone();
        let text = format!("{SMALLEST}\n[record]\npath = {path:?}");
        assert_eq!(full.record, Config::parse(&text).unwrap().record);
    }

    #[test]
    fn time_limits_of_clients_are_a_year_at_most() {
        for name in ["send_timeout", "idle_timeout"] {
            let parse = |seconds: u64| {
                let text = SMALLEST.replace("[nbd]", &format!("[nbd]\n{name} = {seconds}"));
                Config::parse(&text)
            };
            parse(NBD_TIMEOUT_MAX_S).unwrap();
            for seconds in [NBD_TIMEOUT_MAX_S + 1, i64::MAX.unsigned_abs()] {
                let error = format!("{:#}", parse(seconds).unwrap_err());
                assert!(error.contains(&format!("`nbd.{name}` is {seconds} seconds")), "{error}");
            }
        }
    }

    #[test]
    fn virtual_machines_alone_may_be_served() {
        let only = "[vhost_user]\nsocket = \"vhost.sock\"";
        let text = SMALLEST.replace("[nbd]\n        socket = \"thermocline.sock\"", only);
        let config = Config::parse(&text).unwrap();
        assert_eq!(config.control_socket(), Some("vhost.sock.control".into()));
        let machines = "[vhost_user]\nsocket = \"a\"\nqueues = 0\n[nbd]";
        refuse("[nbd]", machines, "`vhost_user.queues` is 0");
    }

    #[test]
    fn metrics_are_served_to_other_machines_on_request() {
        let text = SMALLEST.replace("127.0.0.1:9469\"", "0.0.0.0:9469\"\nremote = true");
        assert!(Config::parse(&text).unwrap().metrics.unwrap().remote);
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.toml");
        std::fs::write(&path, SMALLEST).unwrap();
        let config = Config::read(&path).unwrap();
        assert_eq!(config.backing.path, Some(folder.path().join("disk.img")));
        assert_eq!(config.nbd.socket.unwrap(), folder.path().join("thermocline.sock"));
    }

    #[test]
    fn a_server_s_socket_and_note_are_relative_to_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.toml");
        let nbd =
            "nbd = \"nbds+unix:///?socket=disk.sock&tls-certificates=pki\"\nnote = \"disk.note\"";
        std::fs::write(&path, SMALLEST.replace("path = \"disk.img\"", nbd)).unwrap();
        let Backing { nbd, note, .. } = Config::read(&path).unwrap().backing;
        assert_eq!(note, Some(folder.path().join("disk.note")));
        let socket = folder.path().join("disk.sock");
        let nbd = nbd.unwrap();
        assert_eq!(nbd.server, ServerAddress::Unix(socket));
        assert_eq!(nbd.tls.unwrap().certificates, folder.path().join("pki"));
    }

    #[test]
    fn a_flash_is_rated_by_its_data_sheet_or_like_a_drive_of_the_lab() {
        let rated = |line: &str| {
            let size = "size = \"256MiB\"";
            let text = SMALLEST.replace(size, &format!("{size}\n{line}"));
            Config::parse(&text).unwrap().flash_rated_written_bytes().unwrap()
        };
        assert_eq!(rated(""), None);
        assert_eq!(rated("rated_writes = \"600TB\""), Some(600_000_000_000_000));
        // 3,000 erases of a drive of 1 TB.
        let drive = rated("drive = \"tlc-nvme\"").unwrap();
        assert!((2.9e15..3.1e15).contains(&(drive as f64)), "{drive}");
    }

    #[track_caller]
    fn refuse(from: &str, to: &str, words: &str) {
        let text = SMALLEST.replace(from, to);
        assert_ne!(text, SMALLEST, "the replacement matches");
        let error = format!("{:#}", Config::parse(&text).unwrap_err());
        assert!(error.contains(words), "{error}");
    }

    #[test]
    fn what_cannot_work_is_refused_with_its_place() {
        refuse("64MiB", "64 parsecs", "a number of bytes");
        refuse("64MiB", "1KiB", "`ram.size` is 1024 bytes");
        refuse("64MiB", "5x", "a number of bytes");
        refuse("name = \"hat\"", "name = \"cap\"", "did you mean `car`?");
        refuse("name = \"hat\"", "name = \"nothing-like-it\"", "hat");
        refuse("name = \"hat\"", "name = \"hat\"\nparameters = { zz = 1 }", "`policy.parameters`");
        refuse("socket = \"thermocline.sock\"", "", "[nbd] takes a `socket`");
        let path = "path = \"disk.img\"";
        refuse(path, "", "either a `path` or `nbd`");
        refuse(path, "path = \"disk.img\"\nnbd = \"nbd://a/\"", "either a `path` or `nbd`");
        refuse(path, "path = \"disk.img\"\nnote = \"n\"", "`backing.note` is for `nbd`");
        for timeout in ["0", "-1", "nan", "inf"] {
            let text = format!("path = \"disk.img\"\ntimeout = {timeout}");
            refuse(path, &text, "`backing.timeout` is");
        }
        refuse(path, "path = \"disk.img\"\ngrace = 1", "`backing.grace` is for `nbd`");
        refuse(path, "nbd = \"nbd://a/\"\ngrace = -1", "`backing.grace` is -1");
        refuse(path, "nbd = \"nbd:disk.sock\"", "nbd+unix:///EXPORT?socket=PATH");
        refuse(path, "nbd = \"nbds://a/\"", "TLS needs tls-certificates=FOLDER");
        refuse("size = \"256MiB\"", "size = \"256MiB\"\nspeed = 3", "speed");
        refuse("[metrics]", "[record]\npath = \"a\"\nsize = 0\n[metrics]", "[record]: `size`");
        for key in ["nbd.clients", "nbd.in_flight", "nbd.client_in_flight", "nbd.send_timeout"] {
            let name = key.trim_start_matches("nbd.");
            refuse("[nbd]", &format!("[nbd]\n{name} = 0"), &format!("`{key}` is 0"));
        }
        refuse("[nbd]", "[cleaning]\npages_in_flight = 0\n[nbd]", "`cleaning.pages_in_flight`");
        refuse("[nbd]", "[cleaning]\npages_per_second = 0\n[nbd]", "`cleaning.pages_per_second`");
        refuse("127.0.0.1:9469", "localhost", "\"localhost\", expected an address with a port");
        refuse("127.0.0.1:9469", "0.0.0.0:9469", "`metrics.remote = true` allows that");
        refuse("[nbd]", "[nbd]\nlisten = \"10809\"", "\"10809\", expected an address");
        refuse("[metrics]", "[record]\n[metrics]", "missing field `path`");
    }

    #[test]
    fn a_door_that_anybody_may_use_needs_leave() {
        let key = "`nbd.allow_unauthenticated = true`";
        let open = "[nbd]\nlisten = \"0.0.0.0:10809\"\nremote = true";
        refuse("[nbd]", open, key);
        let tls = "[nbd.tls]\ncertificate=\"a\"\nkey=\"b\"\n[metrics]";
        let local = "[nbd]\nlisten = \"127.0.0.1:10809\"";
        let anybody = SMALLEST.replace("[nbd]", local).replace("[metrics]", tls);
        let error = Config::parse(&anybody).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains("client_roots"), "{error}");
        // With leave, or with certificates of clients, both are taken.
        let allow = |text: &str| text.replace("[nbd]", "[nbd]\nallow_unauthenticated = true");
        for text in [
            allow(&anybody),
            allow(&SMALLEST.replace("[nbd]", open)),
            anybody.replace("[nbd.tls]", "[nbd.tls]\nclient_roots = \"c\""),
            SMALLEST.replace("[nbd]", local),
        ] {
            assert!(Config::parse(&text).is_ok(), "{text}");
        }
        refuse("[metrics]", "[nbd.tls]\ncertificate=\"a\"\nkey=\"b\"\n[metrics]", "nbd.listen");
    }

    #[test]
    fn a_socket_and_a_flash_that_cannot_work_are_refused_with_their_place() {
        refuse("[nbd]", "[nbd]\nsocket_mode = \"0888\"", "permissions in octal");
        refuse("[nbd]", "[nbd]\nsocket_mode = \"01777\"", "permissions in octal");
        refuse("[nbd]", "[nbd]\nsocket_owner = -1", "a name, as in");
        for key in ["socket_mode", "socket_owner", "socket_group"] {
            let place = format!("listen = \"127.0.0.1:0\"\n{key} = \"0660\"");
            refuse("socket = \"thermocline.sock\"", &place, &format!("`nbd.{key}`"));
        }
        let size = "size = \"256MiB\"";
        refuse(size, &format!("{size}\nrated_writes = 0"), "`flash.rated_writes` is 0");
        refuse(size, &format!("{size}\ndrive = \"tlc\""), "tlc-nvme");
        let both = format!("{size}\ndrive = \"tlc-nvme\"\nrated_writes = \"600TB\"");
        refuse(size, &both, "give one");
        refuse(
            "size = \"256MiB\"",
            "size = \"256MiB\"\nwrite_budget_gib_per_day = 0.0",
            "must be above 0",
        );
        refuse(
            "[flash]\n        path = \"flash.img\"\n        size = \"256MiB\"",
            "",
            "[flash] section",
        );
    }
}
