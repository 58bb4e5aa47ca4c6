//! Mapping of a policy with parameters, as a forecast has it, to the recommended cache: the inverse
//! of [`mapping`](crate::mapping).
//!
//! Settings that no parameter covers keep their installed values if that is a cache of the same
//! kind, or take the default of its own program. Parameters that no command can set are listed, and
//! never dropped in silence.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::commands::{
    CacheToml, LvmVolume, Parameter, Recommended, WriteMode, lvm_chunk_bytes,
    lvm_migration_threshold_sectors,
};
use crate::installed::{
    Bcache, BcacheMode, BcacheReplacement, DmCache, DmCacheMode, DmWritecache, InstalledCache,
    InstalledKind, OpenCas, OpenCasCleaning, OpenCasMode, OpenCasPromotion, SequentialPolicy,
    WritecacheMemory, Zfs,
};
use crate::mapping::{HEADROOM_MAX, model};

/// The cache that is recommended, as the lab names it.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// The policy.
    pub policy: &'a str,
    /// Names and values of the parameters that differ from the policy's defaults.
    pub parameters: &'a [(String, String)],
    /// Bytes of the fast device.
    pub flash_bytes: u64,
    /// Bytes of memory that the cache has of its own.
    pub ram_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
}

/// The devices that commands name where nothing is installed; what is not known stands in capitals.
#[derive(Clone, Copy, Debug)]
pub struct Devices<'a> {
    /// The fast one.
    pub fast: &'a str,
    /// The slow one.
    pub slow: &'a str,
}

impl Default for Devices<'_> {
    fn default() -> Self {
        Self { fast: "/dev/FAST", slow: "/dev/SLOW" }
    }
}

/// A recommendation, and what its commands leave out.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// The cache.
    pub cache: Recommended,
    /// Names and values of the parameters that no command sets.
    pub unsaid: Vec<(String, String)>,
}

/// A choice of which is known what was asked for.
struct Asked<'a> {
    choice: &'a Choice<'a>,
    names: RefCell<BTreeSet<&'a str>>,
}

impl<'a> Asked<'a> {
    fn text(&self, name: &'a str) -> Option<&'a str> {
        self.names.borrow_mut().insert(name);
        let mut parameters = self.choice.parameters.iter();
        parameters.find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &'a str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// Return a parameter that counts pages, in bytes.
    fn bytes(&self, name: &'a str) -> Option<u64> {
        self.number(name)?.checked_mul(self.choice.page_bytes)
    }

    /// Sets a number, if it is given.
    fn set(&self, setting: &mut u64, name: &'a str) {
        *setting = self.number(name).unwrap_or(*setting);
    }

    /// Return the parameters that nobody asked for, but for those that are as they are installed.
    fn unsaid(&self, installed: Option<&InstalledCache>) -> Vec<(String, String)> {
        let modelled = installed.and_then(|cache| model(cache, self.choice.page_bytes).ok());
        let modelled = modelled.filter(|modelled| modelled.policy == self.choice.policy);
        let is_installed = |parameter: &(String, String)| {
            modelled.as_ref().is_some_and(|modelled| modelled.parameters.contains(parameter))
        };
        let names = self.names.borrow();
        let parameters = self.choice.parameters.iter();
        parameters
            .filter(|parameter| !names.contains(parameter.0.as_str()) && !is_installed(parameter))
            .cloned()
            .collect()
    }
}

/// Find the recommendation that a choice stands for. None if nobody ships its policy, and this
/// project's engine does not run it either.
pub fn recommended(
    choice: &Choice<'_>,
    devices: Devices<'_>,
    installed: Option<&InstalledCache>,
) -> Option<Recommendation> {
    let asked = Asked { choice, names: RefCell::default() };
    let cache = match choice.policy {
        "dm-cache" => of_dm_cache(&asked, devices, installed),
        "dm-writecache" => of_dm_writecache(&asked, devices, installed),
        "bcache" => of_bcache(&asked, devices, installed),
        "open-cas" => of_open_cas(&asked, devices, installed),
        "arc-l2arc" => of_zfs(&asked, devices, installed),
        _ if choice.ram_bytes > 0 => {
            // Its file takes every parameter.
            let cache = Recommended::Thermocline(engine(choice, devices));
            return Some(Recommendation { cache, unsaid: vec![] });
        }
        _ => return None,
    };
    Some(Recommendation { cache, unsaid: asked.unsaid(installed) })
}

fn of_dm_cache(
    asked: &Asked<'_>,
    devices: Devices<'_>,
    installed: Option<&InstalledCache>,
) -> Recommended {
    let (volume, settings) = match installed.map(|installed| &installed.kind) {
        Some(InstalledKind::DmCache { volume, settings }) => (volume.as_ref(), Some(settings)),
        _ => (None, None),
    };
    Recommended::DmCache {
        volume: lvm_volume(volume, devices),
        size_bytes: asked.choice.flash_bytes,
        settings: dm_cache(asked, settings),
    }
}

fn of_dm_writecache(
    asked: &Asked<'_>,
    devices: Devices<'_>,
    installed: Option<&InstalledCache>,
) -> Recommended {
    let (volume, settings) = match installed.map(|installed| &installed.kind) {
        Some(InstalledKind::DmWritecache { volume, settings }) => (volume.as_ref(), Some(settings)),
        _ => (None, None),
    };
    Recommended::DmWritecache {
        volume: lvm_volume(volume, devices),
        size_bytes: asked.choice.flash_bytes,
        settings: dm_writecache(asked, settings),
    }
}

fn of_bcache(
    asked: &Asked<'_>,
    devices: Devices<'_>,
    installed: Option<&InstalledCache>,
) -> Recommended {
    let of_kind = match installed {
        Some(InstalledCache { name, kind: InstalledKind::Bcache { settings, .. }, .. }) => {
            Some((name, settings))
        }
        _ => None,
    };
    Recommended::Bcache {
        device: of_kind.map_or_else(|| "bcache0".into(), |(name, _)| name.clone()),
        fast: devices.fast.into(),
        slow: devices.slow.into(),
        size_bytes: asked.choice.flash_bytes,
        settings: bcache(asked, of_kind.map(|(_, settings)| settings)),
    }
}

fn of_open_cas(
    asked: &Asked<'_>,
    devices: Devices<'_>,
    installed: Option<&InstalledCache>,
) -> Recommended {
    let size_bytes = asked.choice.flash_bytes;
    match installed.map(|installed| &installed.kind) {
        Some(InstalledKind::OpenCas { id, device, cores, settings }) => Recommended::OpenCas {
            id: *id,
            fast: device.clone(),
            slow: cores.iter().map(|core| core.device.clone()).collect(),
            size_bytes,
            settings: open_cas(asked, Some(settings)),
        },
        _ => Recommended::OpenCas {
            id: 1,
            fast: devices.fast.into(),
            slow: vec![devices.slow.into()],
            size_bytes,
            settings: open_cas(asked, None),
        },
    }
}

fn of_zfs(
    asked: &Asked<'_>,
    devices: Devices<'_>,
    installed: Option<&InstalledCache>,
) -> Recommended {
    let of_kind = match installed {
        Some(InstalledCache { name, kind: InstalledKind::Zfs { devices, settings }, .. }) => {
            Some((name, devices, settings))
        }
        _ => None,
    };
    let fast = of_kind.and_then(|(_, devices, _)| devices.first());
    Recommended::Zfs {
        pool: of_kind.map_or_else(|| "POOL".into(), |(name, ..)| name.clone()),
        fast: fast.map_or_else(|| devices.fast.into(), |device| device.name.clone()),
        size_bytes: asked.choice.flash_bytes,
        settings: zfs(asked, of_kind.map(|(.., settings)| settings)),
    }
}

/// Return the engine's configuration.
fn engine(choice: &Choice<'_>, devices: Devices<'_>) -> CacheToml {
    let parameters = choice.parameters.iter();
    CacheToml {
        file: "cache.toml".into(),
        backing: devices.slow.into(),
        flash: devices.fast.into(),
        flash_bytes: choice.flash_bytes,
        write_budget_gib_per_day: None,
        ram_bytes: choice.ram_bytes,
        page_bytes: choice.page_bytes,
        write_mode: WriteMode::Back,
        policy: choice.policy.into(),
        parameters: parameters.map(|(name, value)| (name.clone(), parameter(value))).collect(),
        socket: "thermocline.sock".into(),
    }
}

fn parameter(value: &str) -> Parameter {
    let integer = value.parse().map(Parameter::Integer);
    integer
        .or_else(|_| value.parse().map(Parameter::Switch))
        .or_else(|_| value.parse().map(Parameter::Real))
        .unwrap_or_else(|_| Parameter::Word(value.into()))
}

fn lvm_volume(volume: Option<&crate::installed::Volume>, devices: Devices<'_>) -> LvmVolume {
    LvmVolume {
        group: volume.map_or_else(|| "vg".into(), |volume| volume.group.clone()),
        volume: volume.map_or_else(|| "lv".into(), |volume| volume.name.clone()),
        fast: devices.fast.into(),
        fast_volume: "fast".into(),
    }
}

fn dm_cache(asked: &Asked<'_>, installed: Option<&DmCache>) -> DmCache {
    // A chunk that is not given is the one that lvm chooses.
    let chunk_bytes = lvm_chunk_bytes(asked.choice.flash_bytes, None).unwrap_or(64 << 10);
    let mut settings = installed.cloned().unwrap_or_else(|| DmCache {
        block_bytes: chunk_bytes,
        mode: DmCacheMode::Writethrough,
        policy: "smq".into(),
        migration_threshold_sectors: lvm_migration_threshold_sectors(chunk_bytes),
    });
    if let Some(bytes) = asked.bytes("block_pages") {
        let size_bytes = asked.choice.flash_bytes;
        settings.block_bytes = lvm_chunk_bytes(size_bytes, Some(bytes)).unwrap_or(chunk_bytes);
        settings.migration_threshold_sectors = settings
            .migration_threshold_sectors
            .max(lvm_migration_threshold_sectors(settings.block_bytes));
    }
    if let Some(mode) = asked.text("mode").and_then(DmCacheMode::of) {
        settings.mode = mode;
    }
    settings
}

fn dm_writecache(asked: &Asked<'_>, installed: Option<&DmWritecache>) -> DmWritecache {
    let mut settings = installed.cloned().unwrap_or(DmWritecache {
        block_bytes: 4096,
        memory: WritecacheMemory::Ssd,
        high_watermark: 50,
        low_watermark: 45,
        autocommit_blocks: 65_536,
        autocommit_ms: 1000,
        max_age_ms: None,
        writeback_jobs: None,
        cleaner: false,
    });
    if let Some(high) = asked.number("high_watermark") {
        settings.high_watermark = high;
        // The policy's low watermark stays where it is, unless the high one falls below it.
        settings.low_watermark = settings.low_watermark.min(high);
    }
    asked.set(&mut settings.low_watermark, "low_watermark");
    asked.set(&mut settings.autocommit_blocks, "autocommit_blocks");
    if let Some(seconds) = asked.number("autocommit_s") {
        settings.autocommit_ms = seconds.saturating_mul(1000);
    }
    match asked.number("max_age_s") {
        Some(0) => settings.max_age_ms = None,
        Some(seconds) => settings.max_age_ms = Some(seconds.saturating_mul(1000)),
        None => {}
    }
    settings
}

fn bcache(asked: &Asked<'_>, installed: Option<&Bcache>) -> Bcache {
    let mut settings = installed.cloned().unwrap_or(Bcache {
        bucket_bytes: bucket_bytes(asked.choice.flash_bytes),
        block_bytes: 4096,
        mode: BcacheMode::Writethrough,
        replacement: BcacheReplacement::Lru,
        sequential_cutoff_bytes: 4 << 20,
        writeback_percent: 10,
        writeback_delay_s: 30,
        congested_read_us: 2000,
        congested_write_us: 20_000,
    });
    if let Some(mode) = asked.text("mode").and_then(BcacheMode::of) {
        settings.mode = mode;
    }
    if let Some(replacement) = asked.text("replacement").and_then(BcacheReplacement::of) {
        settings.replacement = replacement;
    }
    if let Some(bytes) = asked.bytes("sequential_cutoff") {
        settings.sequential_cutoff_bytes = bytes;
    }
    if let Some(bytes) = asked.bytes("bucket_pages") {
        settings.bucket_bytes = bytes;
    }
    asked.set(&mut settings.writeback_percent, "writeback_percent");
    settings
}

/// Return the bucket of a cache of this size, as the model has it: that of make-bcache, but smaller
/// where the kernel would refuse so few.
fn bucket_bytes(size_bytes: u64) -> u64 {
    let mut bytes = 512 << 10;
    while bytes > 32 << 10 && size_bytes / bytes <= 512 {
        bytes /= 2;
    }
    bytes
}

fn open_cas(asked: &Asked<'_>, installed: Option<&OpenCas>) -> OpenCas {
    let mut settings = installed.cloned().unwrap_or(OpenCas {
        line_bytes: 4096,
        mode: OpenCasMode::WriteThrough,
        promotion: OpenCasPromotion::Always,
        cleaning: ALRU,
        sequential_policy: SequentialPolicy::Full,
        sequential_cutoff_bytes: 1 << 20,
    });
    if let Some(bytes) = asked.bytes("line_pages") {
        settings.line_bytes = bytes;
    }
    if let Some(mode) = asked.text("mode").and_then(OpenCasMode::of) {
        settings.mode = mode;
    }
    if let Some(policy) = asked.text("seq_policy").and_then(SequentialPolicy::of) {
        settings.sequential_policy = policy;
    }
    if let Some(bytes) = asked.bytes("seq_threshold") {
        settings.sequential_cutoff_bytes = bytes;
    }
    settings.promotion = promotion(asked, settings.promotion);
    settings.cleaning = cleaning(asked, settings.cleaning);
    settings
}

fn promotion(asked: &Asked<'_>, installed: OpenCasPromotion) -> OpenCasPromotion {
    let (is_nhit, mut threshold, mut trigger_percent) = match installed {
        OpenCasPromotion::Nhit { threshold, trigger_percent } => (true, threshold, trigger_percent),
        OpenCasPromotion::Always => (false, 3, 80),
    };
    if !asked.text("promotion").map_or(is_nhit, |word| word == "nhit") {
        return OpenCasPromotion::Always;
    }
    asked.set(&mut threshold, "nhit_threshold");
    asked.set(&mut trigger_percent, "nhit_trigger");
    OpenCasPromotion::Nhit { threshold, trigger_percent }
}

/// Default settings of alru.
const ALRU: OpenCasCleaning = OpenCasCleaning::Alru {
    wake_s: 20,
    staleness_s: 120,
    batch: 100,
    activity_ms: 10_000,
    dirty_ratio: 100,
    inertia_bytes: 128 << 20,
};

fn cleaning(asked: &Asked<'_>, installed: OpenCasCleaning) -> OpenCasCleaning {
    let mut cleaning = match (asked.text("cleaning"), installed) {
        (Some("nop"), _) => OpenCasCleaning::Nop,
        (Some("alru"), OpenCasCleaning::Acp { .. } | OpenCasCleaning::Nop) => ALRU,
        (Some("acp"), OpenCasCleaning::Alru { .. } | OpenCasCleaning::Nop) => {
            OpenCasCleaning::Acp { wake_ms: 10, batch: 128 }
        }
        _ => installed,
    };
    match &mut cleaning {
        OpenCasCleaning::Alru {
            wake_s,
            staleness_s,
            batch,
            activity_ms,
            dirty_ratio,
            inertia_bytes,
        } => {
            asked.set(wake_s, "alru_wake_s");
            asked.set(staleness_s, "alru_staleness_s");
            asked.set(batch, "alru_batch");
            if let Some(seconds) = asked.number("alru_activity_s") {
                *activity_ms = seconds.saturating_mul(1000);
            }
            asked.set(dirty_ratio, "alru_dirty_ratio");
            if let Some(bytes) = asked.bytes("alru_inertia_pages") {
                *inertia_bytes = bytes;
            }
        }
        OpenCasCleaning::Acp { wake_ms, batch } => {
            asked.set(wake_ms, "acp_wake_ms");
            asked.set(batch, "acp_batch");
        }
        OpenCasCleaning::Nop => {}
    }
    cleaning
}

fn zfs(asked: &Asked<'_>, installed: Option<&Zfs>) -> Zfs {
    let mut settings = installed.cloned().unwrap_or(Zfs {
        arc_max_bytes: asked.choice.ram_bytes,
        write_max_bytes: 32 << 20,
        write_boost_bytes: None,
        headroom: 8,
        headroom_boost_percent: 200,
        feed_s: 1,
        no_prefetch: true,
        mfu_only: 0,
        meta_percent: 33,
        dwpd_limit_percent: None,
        ext_headroom_percent: None,
        meta_cycles: None,
    });
    if asked.choice.ram_bytes > 0 {
        settings.arc_max_bytes = asked.choice.ram_bytes;
    }
    if let Some(ms) = asked.number("feed_ms").filter(|&ms| ms > 0) {
        settings.feed_s = (ms / 1000).max(1);
    }
    let per_second = |bytes: u64| bytes / settings.feed_s.max(1);
    if let Some(bytes) = asked.bytes("write_max") {
        settings.write_max_bytes = per_second(bytes);
    }
    if let Some(bytes) = asked.bytes("write_boost") {
        settings.write_boost_bytes = Some(per_second(bytes));
    }
    asked.set(&mut settings.headroom_boost_percent, "headroom_boost");
    // The model of the older feed has no boost of its own, and a headroom that includes it.
    let boost = match asked.text("feed") {
        Some("2026") => 100,
        _ => settings.headroom_boost_percent.max(100),
    };
    match asked.number("headroom") {
        Some(HEADROOM_MAX) => settings.headroom = 0,
        Some(headroom) => settings.headroom = headroom.saturating_mul(100) / boost,
        None => {}
    }
    if let Some(percent) = asked.number("dwpd_limit") {
        settings.dwpd_limit_percent = Some(percent);
    }
    if let Some(percent) = asked.number("ext_headroom_pct") {
        settings.ext_headroom_percent = Some(percent);
    }
    // It is that of the requests.
    asked.text("page_bytes");
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::commands;

    fn shell(policy: &str, parameters: &[(&str, &str)]) -> String {
        let parameters: Vec<(String, String)> =
            parameters.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        let choice = Choice {
            policy,
            parameters: &parameters,
            flash_bytes: 100 << 30,
            ram_bytes: 4 << 30,
            page_bytes: 4096,
        };
        let found = recommended(&choice, Devices::default(), None).unwrap();
        assert_eq!(found.unsaid, []);
        commands(&found.cache, None).unwrap().to_string()
    }

    #[test]
    fn every_kind_has_commands_that_say_its_settings() {
        for (policy, parameters, says) in [
            (
                "dm-cache",
                &[("mode", "writeback"), ("block_pages", "64")][..],
                &["256k", "writeback"][..],
            ),
            ("dm-writecache", &[("high_watermark", "90")], &["high_watermark=90"]),
            ("bcache", &[("mode", "writearound"), ("sequential_cutoff", "0")], &["writearound"]),
            ("open-cas", &[("mode", "wb"), ("promotion", "nhit")], &["-c wb", "nhit"]),
            ("arc-l2arc", &[], &["zpool add"]),
            (
                "hat",
                &[("queue_ratio", "2")],
                &["thermocline serve", "\"queue_ratio\" = 2", "name = \"hat\""],
            ),
        ] {
            let text = shell(policy, parameters);
            for word in says {
                assert!(text.contains(word), "{policy}: {word} in\n{text}");
            }
        }
    }

    #[test]
    fn what_no_command_sets_is_listed_and_what_is_installed_is_not() {
        let parameters: Vec<(String, String)> = [("sync_writes", "true"), ("mode", "writeback")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        let choice = Choice {
            policy: "bcache",
            parameters: &parameters,
            flash_bytes: 1 << 30,
            ram_bytes: 0,
            page_bytes: 4096,
        };
        let found = recommended(&choice, Devices::default(), None).unwrap();
        assert_eq!(found.unsaid, [("sync_writes".into(), "true".into())]);
    }

    #[test]
    fn a_large_cache_has_the_chunk_that_lvm_demands() {
        let choice = Choice {
            policy: "dm-cache",
            parameters: &[("block_pages".into(), "16".into())],
            flash_bytes: 200 << 30,
            ram_bytes: 0,
            page_bytes: 4096,
        };
        let cache = recommended(&choice, Devices::default(), None).unwrap().cache;
        let Recommended::DmCache { settings, .. } = cache else {
            panic!("dm-cache is dm-cache");
        };
        assert_eq!(settings.block_bytes, 256 << 10);
        let unknown = Choice { policy: "nobody's", ..choice };
        assert!(recommended(&unknown, Devices::default(), None).is_none());
    }
}
