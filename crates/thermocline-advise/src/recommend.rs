//! From a policy with parameters, as a forecast is made of it, to the cache that is recommended: the
//! way back of [`mapping`](crate::mapping).
//!
//! What the parameters do not say is as it is installed, if that is a cache of the same kind, or the
//! default of its own program.

use crate::commands::{
    CacheToml, LvmVolume, Parameter, Recommended, WriteMode, lvm_chunk_bytes,
    lvm_migration_threshold_sectors,
};
use crate::installed::{
    Bcache, BcacheMode, BcacheReplacement, DmCache, DmCacheMode, DmWritecache, InstalledCache,
    InstalledKind, OpenCas, OpenCasCleaning, OpenCasMode, OpenCasPromotion, SequentialPolicy,
    WritecacheMemory, Zfs,
};

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

impl Choice<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        parameters.find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// A parameter that counts pages, in bytes.
    fn bytes(&self, name: &str) -> Option<u64> {
        self.number(name)?.checked_mul(self.page_bytes)
    }
}

/// Find the recommendation that a choice stands for. None if nobody ships its policy, and this
/// project's engine does not run it either.
pub fn recommended(
    choice: &Choice<'_>,
    devices: Devices<'_>,
    installed: Option<&InstalledCache>,
) -> Option<Recommended> {
    Some(match choice.policy {
        "dm-cache" => of_dm_cache(choice, devices, installed),
        "dm-writecache" => of_dm_writecache(choice, devices, installed),
        "bcache" => of_bcache(choice, devices, installed),
        "open-cas" => of_open_cas(choice, devices, installed),
        "arc-l2arc" => of_zfs(choice, devices, installed),
        _ if choice.ram_bytes > 0 => Recommended::Thermocline(engine(choice, devices)),
        _ => return None,
    })
}

fn of_dm_cache(
    choice: &Choice<'_>,
    devices: Devices<'_>,
    installed: Option<&InstalledCache>,
) -> Recommended {
    let (volume, settings) = match installed.map(|installed| &installed.kind) {
        Some(InstalledKind::DmCache { volume, settings }) => (volume.as_ref(), Some(settings)),
        _ => (None, None),
    };
    Recommended::DmCache {
        volume: lvm_volume(volume, devices),
        size_bytes: choice.flash_bytes,
        settings: dm_cache(choice, settings),
    }
}

fn of_dm_writecache(
    choice: &Choice<'_>,
    devices: Devices<'_>,
    installed: Option<&InstalledCache>,
) -> Recommended {
    let (volume, settings) = match installed.map(|installed| &installed.kind) {
        Some(InstalledKind::DmWritecache { volume, settings }) => (volume.as_ref(), Some(settings)),
        _ => (None, None),
    };
    Recommended::DmWritecache {
        volume: lvm_volume(volume, devices),
        size_bytes: choice.flash_bytes,
        settings: dm_writecache(choice, settings),
    }
}

fn of_bcache(
    choice: &Choice<'_>,
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
        size_bytes: choice.flash_bytes,
        settings: bcache(choice, of_kind.map(|(_, settings)| settings)),
    }
}

fn of_open_cas(
    choice: &Choice<'_>,
    devices: Devices<'_>,
    installed: Option<&InstalledCache>,
) -> Recommended {
    let size_bytes = choice.flash_bytes;
    match installed.map(|installed| &installed.kind) {
        Some(InstalledKind::OpenCas { id, device, cores, settings }) => Recommended::OpenCas {
            id: *id,
            fast: device.clone(),
            slow: cores.iter().map(|core| core.device.clone()).collect(),
            size_bytes,
            settings: open_cas(choice, Some(settings)),
        },
        _ => Recommended::OpenCas {
            id: 1,
            fast: devices.fast.into(),
            slow: vec![devices.slow.into()],
            size_bytes,
            settings: open_cas(choice, None),
        },
    }
}

fn of_zfs(
    choice: &Choice<'_>,
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
        size_bytes: choice.flash_bytes,
        settings: zfs(choice, of_kind.map(|(.., settings)| settings)),
    }
}

/// The engine's configuration.
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

fn dm_cache(choice: &Choice<'_>, installed: Option<&DmCache>) -> DmCache {
    // A chunk that is not given is the one that lvm chooses.
    let chunk_bytes = lvm_chunk_bytes(choice.flash_bytes, None).unwrap_or(64 << 10);
    let mut settings = installed.cloned().unwrap_or_else(|| DmCache {
        block_bytes: chunk_bytes,
        mode: DmCacheMode::Writethrough,
        policy: "smq".into(),
        migration_threshold_sectors: lvm_migration_threshold_sectors(chunk_bytes),
    });
    if let Some(bytes) = choice.bytes("block_pages") {
        settings.block_bytes = bytes.max(chunk_bytes);
        settings.migration_threshold_sectors = settings
            .migration_threshold_sectors
            .max(lvm_migration_threshold_sectors(settings.block_bytes));
    }
    if let Some(mode) = choice.text("mode").and_then(DmCacheMode::of) {
        settings.mode = mode;
    }
    settings
}

fn dm_writecache(choice: &Choice<'_>, installed: Option<&DmWritecache>) -> DmWritecache {
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
    if let Some(high) = choice.number("high_watermark") {
        settings.high_watermark = high;
        // The policy's low watermark stays where it is, unless the high one falls below it.
        settings.low_watermark = settings.low_watermark.min(high);
    }
    if let Some(low) = choice.number("low_watermark") {
        settings.low_watermark = low;
    }
    settings
}

fn bcache(choice: &Choice<'_>, installed: Option<&Bcache>) -> Bcache {
    let mut settings = installed.cloned().unwrap_or(Bcache {
        bucket_bytes: 512 << 10,
        block_bytes: 4096,
        mode: BcacheMode::Writethrough,
        replacement: BcacheReplacement::Lru,
        sequential_cutoff_bytes: 4 << 20,
        writeback_percent: 10,
        writeback_delay_s: 30,
        congested_read_us: 2000,
        congested_write_us: 20_000,
    });
    if let Some(mode) = choice.text("mode").and_then(BcacheMode::of) {
        settings.mode = mode;
    }
    if let Some(replacement) = choice.text("replacement").and_then(BcacheReplacement::of) {
        settings.replacement = replacement;
    }
    if let Some(bytes) = choice.bytes("sequential_cutoff") {
        settings.sequential_cutoff_bytes = bytes;
    }
    if let Some(percent) = choice.number("writeback_percent") {
        settings.writeback_percent = percent;
    }
    settings
}

fn open_cas(choice: &Choice<'_>, installed: Option<&OpenCas>) -> OpenCas {
    let mut settings = installed.cloned().unwrap_or(OpenCas {
        line_bytes: 4096,
        mode: OpenCasMode::WriteThrough,
        promotion: OpenCasPromotion::Always,
        cleaning: OpenCasCleaning::Alru {
            wake_s: 20,
            staleness_s: 120,
            batch: 100,
            activity_ms: 10_000,
            dirty_ratio: 100,
            inertia_bytes: 128 << 20,
        },
        sequential_policy: SequentialPolicy::Full,
        sequential_cutoff_bytes: 1 << 20,
    });
    if let Some(bytes) = choice.bytes("line_pages") {
        settings.line_bytes = bytes;
    }
    if let Some(mode) = choice.text("mode").and_then(OpenCasMode::of) {
        settings.mode = mode;
    }
    match choice.text("promotion") {
        Some("nhit") => {
            settings.promotion = OpenCasPromotion::Nhit {
                threshold: choice.number("nhit_threshold").unwrap_or(3),
                trigger_percent: choice.number("nhit_trigger").unwrap_or(80),
            };
        }
        Some("always") => settings.promotion = OpenCasPromotion::Always,
        _ => {}
    }
    if choice.text("cleaning") == Some("nop") {
        settings.cleaning = OpenCasCleaning::Nop;
    }
    settings
}

fn zfs(choice: &Choice<'_>, installed: Option<&Zfs>) -> Zfs {
    let mut settings = installed.cloned().unwrap_or(Zfs {
        arc_max_bytes: choice.ram_bytes,
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
    if choice.ram_bytes > 0 {
        settings.arc_max_bytes = choice.ram_bytes;
    }
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
        let recommended = recommended(&choice, Devices::default(), None).unwrap();
        commands(&recommended, None).unwrap().to_string()
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
    fn a_large_cache_has_the_chunk_that_lvm_demands() {
        let choice = Choice {
            policy: "dm-cache",
            parameters: &[("block_pages".into(), "16".into())],
            flash_bytes: 200 << 30,
            ram_bytes: 0,
            page_bytes: 4096,
        };
        let Some(Recommended::DmCache { settings, .. }) =
            recommended(&choice, Devices::default(), None)
        else {
            panic!("dm-cache is dm-cache");
        };
        assert_eq!(settings.block_bytes, 256 << 10);
        let unknown = Choice { policy: "nobody's", ..choice };
        assert!(recommended(&unknown, Devices::default(), None).is_none());
    }
}
