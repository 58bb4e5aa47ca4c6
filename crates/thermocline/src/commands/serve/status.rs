//! Snapshots of a running engine, for metrics, JSON and `top`.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thermocline_core::Tier;
use thermocline_engine::figures::{Figure, Value};

use super::choosing_status::ChoosingStatus;
use super::mirrored::MirrorStatus;
use super::sharing_status::SharingStatus;

/// Upper bounds of the latency classes are powers of two of this many nanoseconds.
const LATENCY_BASE_NS: u64 = 1_000;
/// Latency classes: up to 1 us, 2 us, 4 us and so on to 8 s; longer ones are only in the count.
pub(crate) const LATENCY_CLASSES: usize = 24;

/// Everything that is shown of a running engine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Status {
    /// The program's version.
    pub(crate) version: String,
    /// The name of the export.
    #[serde(default)]
    pub(crate) export: String,
    /// Number of shards that serve the export. The figures are sums over them, the gauges of policies their
    /// means.
    #[serde(default = "one")]
    pub(crate) shards: u16,
    /// The policy's name.
    pub(crate) policy: String,
    /// Mode of writes.
    pub(crate) write_mode: String,
    /// Seconds since the start.
    pub(crate) uptime_s: f64,
    /// Bytes of a page.
    pub(crate) page_bytes: u64,
    /// Bytes of the export.
    pub(crate) size_bytes: u64,
    /// Capacity of RAM and flash in pages.
    pub(crate) capacity_pages: [u64; 2],
    /// `true` if a flash is in use.
    pub(crate) has_flash: bool,
    /// `true` if there was to be one.
    pub(crate) is_flash_configured: bool,
    /// The devices of a mirrored flash.
    #[serde(default)]
    pub(crate) flash_mirror: Option<MirrorStatus>,
    /// `true` if writes and flushes fail because the note of the backing store cannot be written.
    #[serde(default)]
    pub(crate) writes_held: bool,
    /// Page accesses by operation.
    pub(crate) accesses: PerOp<Found>,
    /// Time from a request to its answer, by operation and the slowest tier that it needed.
    pub(crate) latency: PerOp<PerTier<Latency>>,
    /// Time from a flush to its answer.
    pub(crate) flush_latency: Latency,
    /// Copies that the policy asked for, by source and target.
    #[serde(default)]
    pub(crate) copies: PerTier<PerTier<u64>>,
    /// The ranges whose newest bytes are lost.
    pub(crate) lost: Vec<Extent>,
    /// Activity of the flash.
    pub(crate) flash: DeviceStatus,
    /// Bytes that the flash is rated to be written, if the configuration says so.
    #[serde(default)]
    pub(crate) flash_rated_written_bytes: Option<u64>,
    /// Activity of the backing store.
    pub(crate) backing: DeviceStatus,
    /// Clients connected.
    pub(crate) clients: u64,
    /// Requests that waited because their client exceeded its rates.
    #[serde(default)]
    pub(crate) paced_requests: u64,
    /// Adaptive parameters of the policy.
    pub(crate) gauges: Vec<GaugeStatus>,
    /// Choices of the policy, if it lets one of several decide.
    #[serde(default)]
    pub(crate) choosing: Option<ChoosingStatus>,
    /// Shares and their changes, of what moves.
    #[serde(default)]
    pub(crate) sharing: SharingStatus,
    /// The share of pages that shadows see.
    pub(crate) shadow_sample: f64,
    /// When the shadows began, in seconds since the start.
    #[serde(default)]
    pub(crate) shadow_start_s: f64,
    /// Results of other policies.
    pub(crate) shadows: Vec<ShadowStatus>,
    /// Progress of the recording, if there is one.
    pub(crate) recording: Option<RecordingStatus>,
    /// The rows of [`COUNTER_FIGURES`](thermocline_engine::counters::COUNTER_FIGURES) and
    /// [`SHARD_FIGURES`](thermocline_engine::figures::SHARD_FIGURES).
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

const fn one() -> u16 {
    1
}

/// Figures of tables by their keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Figures(serde_json::Map<String, serde_json::Value>);

/// A range of the export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extent {
    pub(crate) offset_bytes: u64,
    pub(crate) length_bytes: u64,
}

impl Extent {
    /// Join pages, which are in order, to ranges.
    pub(crate) fn of_pages(pages: &[u64], page_bytes: u32) -> Vec<Self> {
        let runs = pages.chunk_by(|one, next| one + 1 == *next);
        let bytes = |pages: u64| pages * u64::from(page_bytes);
        runs.map(|run| Self { offset_bytes: bytes(run[0]), length_bytes: bytes(run.len() as u64) })
            .collect()
    }
}

/// A figure for reads and for writes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PerOp<T> {
    pub(crate) read: T,
    pub(crate) write: T,
}

/// A figure per tier.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PerTier<T> {
    pub(crate) ram: T,
    pub(crate) flash: T,
    pub(crate) disk: T,
}

impl<T> PerTier<T> {
    /// Adds figures, tier by tier.
    fn add(&mut self, other: &Self, add: impl Fn(&mut T, &T)) {
        add(&mut self.ram, &other.ram);
        add(&mut self.flash, &other.flash);
        add(&mut self.disk, &other.disk);
    }

    /// Return the figure of each tier.
    pub(crate) fn of(figure: impl Fn(Tier) -> T) -> Self {
        Self { ram: figure(Tier::RAM), flash: figure(Tier::FLASH), disk: figure(Tier::DISK) }
    }

    /// Return the figures with their names.
    pub(crate) fn named(&self) -> [(&'static str, &T); 3] {
        [("ram", &self.ram), ("flash", &self.flash), ("disk", &self.disk)]
    }
}

/// Where pages were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) ram: u64,
    pub(crate) flash: u64,
    pub(crate) disk: u64,
    pub(crate) bypass: u64,
}

/// Activity of a device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct DeviceStatus {
    /// Bytes read, by purpose.
    pub(crate) read_bytes: Vec<(String, u64)>,
    /// Bytes written, by purpose.
    pub(crate) written_bytes: Vec<(String, u64)>,
    /// Operations in flight.
    pub(crate) queue_depth: u64,
    /// The rows of [`TRANSFER_FIGURES`](thermocline_engine::counters::TRANSFER_FIGURES).
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

/// An adaptive parameter of a policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GaugeStatus {
    pub(crate) name: String,
    pub(crate) tier: String,
    pub(crate) value: f64,
}

/// Result of another policy.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ShadowStatus {
    pub(crate) name: String,
    pub(crate) accesses: u64,
    /// The share of pages that it sees.
    #[serde(default)]
    pub(crate) sample: f64,
    pub(crate) sampled_accesses: u64,
    pub(crate) ram_hit_ratio: f64,
    pub(crate) flash_hit_ratio: f64,
    pub(crate) flash_writes_per_access: f64,
    pub(crate) disk_transfers_per_access: f64,
    pub(crate) io_ms_per_access: f64,
    /// Steps that put it in force.
    #[serde(flatten)]
    pub(crate) adoption: Adoption,
}

/// Steps that put a shadow's policy and sizes in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Adoption {
    /// Step that puts the new configuration in force.
    #[serde(default)]
    pub(crate) takes: Takes,
    /// The sections of the configuration that change, in TOML.
    #[serde(default)]
    pub(crate) configuration: String,
}

/// Step that puts a configuration in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Takes {
    /// Nothing: this is what runs.
    #[default]
    Nothing,
    /// The server reads it again while it runs.
    Reload,
    /// Sizes change with a restart.
    Restart,
}

/// State of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordingStatus {
    /// The file.
    pub(crate) path: PathBuf,
    /// Page accesses seen, of which all but the missing ones are in the files or on their way there.
    pub(crate) accesses: u64,
    /// Page accesses that could not be recorded.
    pub(crate) missing_accesses: u64,
    /// Page accesses that no policy was asked about; they are not recorded.
    pub(crate) bypasses: u64,
    /// Bytes written to all files.
    pub(crate) written_bytes: u64,
    /// `true` if the file could not be written, so that nothing more is.
    pub(crate) has_failed: bool,
}

/// A distribution of times, in classes of powers of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) classes: [u64; LATENCY_CLASSES],
    pub(crate) count: u64,
    pub(crate) sum_ns: u64,
}

impl DeviceStatus {
    /// Adds what another shard did with the device.
    fn add(&mut self, other: &Self) {
        for (one, other) in [
            (&mut self.read_bytes, &other.read_bytes),
            (&mut self.written_bytes, &other.written_bytes),
        ] {
            one.iter_mut().zip(other).for_each(|((_, one), (_, other))| *one += other);
        }
        self.queue_depth += other.queue_depth;
        self.figures.add(&other.figures);
    }

    /// Return the number of bytes read and written, for all purposes.
    pub(crate) fn transferred_bytes(&self) -> [u64; 2] {
        [&self.read_bytes, &self.written_bytes]
            .map(|purposes| purposes.iter().map(|(_, bytes)| bytes).sum())
    }
}

impl Latency {
    /// Adds other times.
    fn add(&mut self, other: &Self) {
        for (one, other) in self.classes.iter_mut().zip(other.classes) {
            *one += other;
        }
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Record one more time.
    #[inline]
    pub(crate) fn record(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let class = ns.div_ceil(LATENCY_BASE_NS).max(1).next_power_of_two().trailing_zeros();
        if let Some(class) = self.classes.get_mut(class as usize) {
            *class += 1;
        }
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Return the upper bound of the last class, in seconds.
    pub(crate) fn longest_s() -> f64 {
        Self::bound_s(LATENCY_CLASSES - 1)
    }

    /// Return the upper bound of a class, in seconds.
    pub(crate) fn bound_s(class: usize) -> f64 {
        (LATENCY_BASE_NS << class) as f64 / 1e9
    }

    /// Return the bound of the class that this share of all times reaches, in seconds, or `None` if there
    /// were none, or if it lies beyond all classes.
    pub(crate) fn quantile_s(&self, share: f64) -> Option<f64> {
        let wanted = share * self.count as f64;
        let mut seen = 0;
        let reached = self.classes.iter().position(|&class| {
            seen += class;
            seen as f64 >= wanted && seen > 0
        });
        reached.map(Self::bound_s)
    }

    /// Return the mean, in seconds, or `None` if there were none.
    pub(crate) fn mean_s(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / 1e9 / self.count as f64)
    }

    /// Return the difference to an earlier snapshot.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut classes = self.classes;
        for (class, before) in classes.iter_mut().zip(earlier.classes) {
            *class = class.saturating_sub(before);
        }
        Self {
            classes,
            count: self.count.saturating_sub(earlier.count),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
        }
    }
}

impl Found {
    /// Return the difference to an earlier snapshot.
    pub(crate) const fn since(&self, earlier: &Self) -> Self {
        Self {
            ram: self.ram.saturating_sub(earlier.ram),
            flash: self.flash.saturating_sub(earlier.flash),
            disk: self.disk.saturating_sub(earlier.disk),
            bypass: self.bypass.saturating_sub(earlier.bypass),
        }
    }

    /// Add figures to these.
    pub(crate) const fn and(&self, other: &Self) -> Self {
        Self {
            ram: self.ram + other.ram,
            flash: self.flash + other.flash,
            disk: self.disk + other.disk,
            bypass: self.bypass + other.bypass,
        }
    }

    /// Return the number of page accesses.
    pub(crate) const fn total(&self) -> u64 {
        self.ram + self.flash + self.disk + self.bypass
    }

    /// Return the figures with their names.
    pub(crate) const fn named(&self) -> [(&'static str, u64); 4] {
        [("ram", self.ram), ("flash", self.flash), ("disk", self.disk), ("bypass", self.bypass)]
    }
}

impl Figures {
    /// Reads the figures of a table.
    pub(crate) fn read<S>(table: &[Figure<S>], source: &S) -> Self {
        let rows = table.iter().map(|figure| {
            let value = match (figure.value)(source) {
                Value::Count(count) => count.into(),
                Value::Real(value) => value.into(),
                Value::Absent => serde_json::Value::Null,
            };
            (figure.about.key.to_owned(), value)
        });
        Self(rows.collect())
    }

    /// Adds the figures of another table.
    pub(crate) fn with(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Adds the figures of another shard; what one of them lacks is what the other says.
    fn add(&mut self, other: &Self) {
        for (key, value) in &mut self.0 {
            let Some(other) = other.0.get(key) else { continue };
            *value = match (value.as_u64(), other.as_u64()) {
                (Some(one), Some(other)) => (one + other).into(),
                _ => match (value.as_f64(), other.as_f64()) {
                    (Some(one), Some(other)) => (one + other).into(),
                    (Some(one), None) => one.into(),
                    (None, other) => other.into(),
                },
            };
        }
    }

    /// Return a figure that is a whole number; 0 if there is none with this key.
    pub(crate) fn count(&self, key: &str) -> u64 {
        match self.value(key) {
            Value::Count(count) => count,
            Value::Real(_) | Value::Absent => 0,
        }
    }

    /// Return a figure as a number, or `None` if there is none with this key.
    pub(crate) fn real(&self, key: &str) -> Option<f64> {
        match self.value(key) {
            Value::Count(count) => Some(count as f64),
            Value::Real(value) => Some(value),
            Value::Absent => None,
        }
    }

    /// Return a figure by its key.
    pub(crate) fn value(&self, key: &str) -> Value {
        let value = self.0.get(key);
        let count = value.and_then(serde_json::Value::as_u64).map(Value::Count);
        let real = || value.and_then(serde_json::Value::as_f64);
        count.unwrap_or_else(|| real().into())
    }
}

impl Status {
    /// Adds what another shard of the same export says.
    pub(crate) fn add(&mut self, other: &Self) {
        let sum = |one: &mut u64, other: u64| *one += other;
        for (one, other) in self.capacity_pages.iter_mut().zip(other.capacity_pages) {
            sum(one, other);
        }
        self.uptime_s = self.uptime_s.min(other.uptime_s);
        self.has_flash &= other.has_flash;
        self.writes_held |= other.writes_held;
        self.accesses.read = self.accesses.read.and(&other.accesses.read);
        self.accesses.write = self.accesses.write.and(&other.accesses.write);
        self.latency.read.add(&other.latency.read, Latency::add);
        self.latency.write.add(&other.latency.write, Latency::add);
        self.flush_latency.add(&other.flush_latency);
        self.copies.add(&other.copies, |one, other| one.add(other, |one, other| *one += other));
        self.lost.extend(&other.lost);
        self.lost.sort_unstable_by_key(|extent| extent.offset_bytes);
        self.flash.add(&other.flash);
        self.backing.add(&other.backing);
        self.clients += other.clients;
        self.paced_requests += other.paced_requests;
        for (one, other) in self.gauges.iter_mut().zip(&other.gauges) {
            one.value += other.value;
        }
        self.figures.add(&other.figures);
        if let (Some(one), Some(other)) = (&mut self.recording, &other.recording) {
            one.add(other);
        }
        self.shadow_sample = self.shadow_sample.max(other.shadow_sample);
        // After a reload, one shard has other shadows a moment earlier than the next.
        self.shadow_start_s = self.shadow_start_s.max(other.shadow_start_s);
        for (one, other) in self.shadows.iter_mut().zip(&other.shadows) {
            if one.name == other.name {
                one.add(other);
            }
        }
    }

    /// Combine the snapshots of an export's shards.
    pub(crate) fn of_shards(mut shards: impl Iterator<Item = Self>) -> Option<Self> {
        let mut all = shards.next()?;
        let mut number: u16 = 0;
        let mut choosing: Vec<_> =
            all.choosing.clone().map(|one| (number, one)).into_iter().collect();
        for other in shards {
            number += 1;
            all.add(&other);
            choosing.extend(other.choosing.map(|one| (number, one)));
        }
        for gauge in &mut all.gauges {
            gauge.value /= f64::from(number) + 1.0;
        }
        if number > 0 {
            all.choosing = ChoosingStatus::of_shards(choosing);
            if let Some(choosing) = &all.choosing {
                choosing.correct(&mut all.gauges);
            }
        }
        Some(all)
    }

    /// Return the shadow with the least I/O time, or `None` if none has seen accesses.
    pub(crate) fn best_shadow(&self) -> Option<&ShadowStatus> {
        let seen = self.shadows.iter().filter(|shadow| shadow.sampled_accesses > 0);
        seen.min_by(|one, other| one.io_ms_per_access.total_cmp(&other.io_ms_per_access))
    }

    /// Return the I/O time that the best shadow with the engine's own sizes would have saved, in milliseconds
    /// per access; `None` until the running policy is among the shadows that have seen accesses.
    pub(crate) fn regret_ms_per_access(&self) -> Option<f64> {
        let seen = self.shadows.iter().filter(|shadow| shadow.sampled_accesses > 0);
        let same_sizes = seen.filter(|shadow| shadow.adoption.takes != Takes::Restart);
        let own = same_sizes.clone().find(|shadow| shadow.adoption.takes == Takes::Nothing)?;
        let times_ms = same_sizes.map(|shadow| shadow.io_ms_per_access);
        Some(own.io_ms_per_access - times_ms.fold(f64::INFINITY, f64::min))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regret_is_beside_the_best_of_the_same_sizes() {
        let shadow = |takes, io_ms_per_access, sampled_accesses| ShadowStatus {
            io_ms_per_access,
            sampled_accesses,
            adoption: Adoption { takes, ..Adoption::default() },
            ..ShadowStatus::default()
        };
        let regret = |shadows: Vec<ShadowStatus>| {
            Status { shadows, ..Status::default() }.regret_ms_per_access()
        };
        let own = shadow(Takes::Nothing, 5.0, 10);
        let better = shadow(Takes::Reload, 3.5, 10);
        let larger = shadow(Takes::Restart, 1.0, 10);
        let unseen = shadow(Takes::Reload, 0.0, 0);
        let all = vec![larger, better.clone(), own.clone(), unseen];
        assert_eq!(regret(all), Some(1.5));
        assert_eq!(regret(vec![own, shadow(Takes::Reload, 7.0, 10)]), Some(0.0));
        assert_eq!(regret(vec![better, shadow(Takes::Nothing, 0.0, 0)]), None);
        assert_eq!(regret(vec![]), None);
    }

    #[test]
    fn a_shadow_of_several_shards_counts_their_accesses() {
        let of = |accesses, ratio| ShadowStatus {
            accesses,
            sampled_accesses: accesses / 2,
            ram_hit_ratio: ratio,
            io_ms_per_access: 10.0 * ratio,
            ..ShadowStatus::default()
        };
        let status = |shadow: ShadowStatus| Status { shadows: vec![shadow], ..Status::default() };
        let shards = [of(0, 0.0), of(300, 0.2), of(100, 0.6)].map(status);
        let all = Status::of_shards(shards.into_iter()).unwrap();
        let [shadow] = &all.shadows[..] else { panic!("{:?}", all.shadows) };
        assert_eq!((shadow.accesses, shadow.sampled_accesses), (400, 200));
        assert!((shadow.ram_hit_ratio - 0.3).abs() < 1e-12, "{shadow:?}");
        assert!((shadow.io_ms_per_access - 3.0).abs() < 1e-12, "{shadow:?}");
    }

    #[test]
    fn times_fall_into_powers_of_two() {
        let mut latency = Latency::default();
        for ns in [0, 1, 1_000, 1_001, 2_000, 2_001, 4_000_000_000, 60_000_000_000] {
            latency.record(Duration::from_nanos(ns));
        }
        assert_eq!(latency.classes[..3], [3, 2, 1]);
        assert_eq!(latency.classes[22], 1);
        assert_eq!(latency.count, 8);
        assert_eq!(latency.classes.iter().sum::<u64>(), 7);
        assert_eq!(latency.quantile_s(0.5), Some(2e-6));
        assert_eq!(latency.quantile_s(1.0), None);
        assert_eq!(Latency::default().quantile_s(0.5), None);
    }

    #[test]
    fn neighbours_are_one_range() {
        let extents = Extent::of_pages(&[0, 1, 5, 7, 8, 9], 4096);
        let pages: Vec<[u64; 2]> = extents
            .iter()
            .map(|one| [one.offset_bytes, one.length_bytes].map(|b| b / 4096))
            .collect();
        assert_eq!(pages, [[0, 2], [5, 1], [7, 3]]);
        assert_eq!(Extent::of_pages(&[], 4096), []);
    }

    #[test]
    fn a_difference_holds_what_came_since() {
        let mut latency = Latency::default();
        latency.record(Duration::from_micros(3));
        let before = latency;
        latency.record(Duration::from_micros(100));
        let since = latency.since(&before);
        assert_eq!((since.count, since.sum_ns), (1, 100_000));
        assert_eq!(since.quantile_s(0.99), Some(128e-6));
    }
}
