//! Mapping of an installed cache to the policy that models it.
//!
//! Parameters are named as the policies `dm-cache`, `dm-writecache`, `bcache`, `open-cas` and
//! `arc-l2arc` of `thermocline-core` name them, and counted in pages.

use serde::Serialize;

use crate::installed::{
    Bcache, DmCache, DmWritecache, InstalledCache, InstalledKind, OpenCas, OpenCasCleaning,
    OpenCasPromotion, WritecacheMemory, Zfs,
};

/// A policy with parameters and sizes, as a run of the lab takes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Modelled {
    /// The policy's name in the registry.
    pub policy: &'static str,
    /// Names and values of its parameters, as text.
    pub parameters: Vec<(String, String)>,
    /// Pages of memory above the fast device that belong to the cache; none: it has no memory of its
    /// own, and what reaches it has passed the page cache.
    pub ram_pages: Option<u64>,
    /// Pages of the fast device.
    pub flash_pages: u64,
    /// Sentences about settings that the model leaves out.
    pub left_out: Vec<String>,
}

/// The reason why no policy models a cache.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MappingError {
    /// A block of the cache is not a number of pages.
    #[error(
        "a {what} of {bytes} bytes is not a multiple of the page size of {page_bytes} bytes; pass a \
         page size of {remedy}"
    )]
    Page {
        /// The block.
        what: &'static str,
        /// Its bytes.
        bytes: u64,
        /// Bytes of a page.
        page_bytes: u64,
        /// The page size to pass.
        remedy: String,
    },
    /// The cache does nothing that a policy models.
    #[error("{name} cannot be modelled: {reason}")]
    Unmodelled {
        /// The cache.
        name: String,
        /// The reason and the remedy.
        reason: String,
    },
}

/// Find the policy and parameters that model a cache, for pages of a size.
///
/// # Errors
/// If blocks of the cache are no whole number of pages, or no policy models what it does.
pub fn model(cache: &InstalledCache, page_bytes: u64) -> Result<Modelled, MappingError> {
    if page_bytes == 0 {
        let (bytes, remedy) = (4096, "4096".into());
        return Err(MappingError::Page { what: "block", bytes, page_bytes, remedy });
    }
    let pages = Pages(page_bytes);
    let mut modelled = match &cache.kind {
        InstalledKind::DmCache { settings, .. } => dm_cache(&cache.name, settings, pages)?,
        InstalledKind::DmWritecache { settings, .. } => {
            dm_writecache(&cache.name, settings, pages)?
        }
        InstalledKind::Bcache { settings, .. } => bcache(settings, pages)?,
        InstalledKind::OpenCas { settings, .. } => open_cas(settings, pages)?,
        InstalledKind::Zfs { settings, devices } => {
            if devices.is_empty() {
                let reason = "the pool has no cache device; model it with `arc`".into();
                return Err(MappingError::Unmodelled { name: cache.name.clone(), reason });
            }
            zfs(settings, pages)
        }
    };
    modelled.flash_pages = cache.size_bytes / page_bytes;
    for setting in &cache.other_settings {
        modelled.left_out.push(format!("{} = {:?} is not modelled", setting.name, setting.value));
    }
    Ok(modelled)
}

/// Pages of a size in bytes.
#[derive(Clone, Copy, Debug)]
struct Pages(u64);

impl Pages {
    /// Return the pages of a block, which must be whole.
    fn whole(self, what: &'static str, bytes: u64) -> Result<u64, MappingError> {
        if bytes == 0 || !bytes.is_multiple_of(self.0) {
            let remedy = match bytes {
                0 => "4096".into(),
                _ if bytes.is_multiple_of(4096) => "4096".into(),
                _ => bytes.to_string(),
            };
            return Err(MappingError::Page { what, bytes, page_bytes: self.0, remedy });
        }
        Ok(bytes / self.0)
    }

    /// Return the pages of a limit; a limit that is not 0 stays one.
    fn limit(self, bytes: u64) -> u64 {
        bytes.div_ceil(self.0)
    }
}

fn modelled<const N: usize>(policy: &'static str, parameters: [(&str, String); N]) -> Modelled {
    Modelled {
        policy,
        parameters: parameters.map(|(name, value)| (name.into(), value)).into(),
        ram_pages: None,
        flash_pages: 0,
        left_out: vec![],
    }
}

fn dm_cache(name: &str, settings: &DmCache, pages: Pages) -> Result<Modelled, MappingError> {
    // The kernel has kept the old name, which stands for the same policy since 4.6.
    if !matches!(settings.policy.as_str(), "smq" | "mq" | "default") {
        let reason = format!(
            "its policy is {}; set one that caches with `lvchange --cachepolicy smq`",
            settings.policy
        );
        return Err(MappingError::Unmodelled { name: name.into(), reason });
    }
    let mut modelled = modelled(
        "dm-cache",
        [
            ("block_pages", pages.whole("cache block", settings.block_bytes)?.to_string()),
            ("mode", settings.mode.word().into()),
        ],
    );
    modelled.left_out.push(format!(
        "migration_threshold = {} only bounds what the kernel cleans while the device is idle",
        settings.migration_threshold_sectors
    ));
    Ok(modelled)
}

fn dm_writecache(
    name: &str,
    settings: &DmWritecache,
    pages: Pages,
) -> Result<Modelled, MappingError> {
    if settings.cleaner {
        let reason = "it only writes back what it holds (cleaner)".into();
        return Err(MappingError::Unmodelled { name: name.into(), reason });
    }
    if settings.block_bytes != pages.0 {
        let (bytes, page_bytes) = (settings.block_bytes, pages.0);
        let remedy = bytes.to_string();
        return Err(MappingError::Page { what: "writecache block", bytes, page_bytes, remedy });
    }
    let device = match settings.memory {
        WritecacheMemory::Ssd => "ssd",
        WritecacheMemory::Pmem => "pmem",
    };
    let mut modelled = modelled(
        "dm-writecache",
        [
            ("high_watermark", settings.high_watermark.to_string()),
            ("low_watermark", settings.low_watermark.to_string()),
            // An age of less than a second still is one.
            ("max_age_s", settings.max_age_ms.map_or(0, |ms| ms.div_ceil(1000).max(1)).to_string()),
            ("autocommit_blocks", settings.autocommit_blocks.max(1).to_string()),
            ("autocommit_s", settings.autocommit_ms.div_ceil(1000).to_string()),
            ("device", device.into()),
        ],
    );
    if let Some(jobs) = settings.writeback_jobs {
        modelled.left_out.push(format!("writeback_jobs = {jobs}: the model writes back at once"));
    }
    Ok(modelled)
}

fn bcache(settings: &Bcache, pages: Pages) -> Result<Modelled, MappingError> {
    let mut modelled = modelled(
        "bcache",
        [
            ("bucket_pages", pages.whole("bucket", settings.bucket_bytes)?.to_string()),
            ("mode", settings.mode.word().into()),
            ("replacement", settings.replacement.word().into()),
            ("sequential_cutoff", pages.limit(settings.sequential_cutoff_bytes).to_string()),
            ("writeback_percent", settings.writeback_percent.to_string()),
        ],
    );
    for (name, value) in [
        ("congested_read_threshold_us", settings.congested_read_us),
        ("congested_write_threshold_us", settings.congested_write_us),
    ] {
        if value != 0 {
            modelled.left_out.push(format!(
                "{name} = {value}: in the model, requests never bypass a busy fast device"
            ));
        }
    }
    Ok(modelled)
}

fn open_cas(settings: &OpenCas, pages: Pages) -> Result<Modelled, MappingError> {
    let mut modelled = modelled(
        "open-cas",
        [
            ("line_pages", pages.whole("cache line", settings.line_bytes)?.to_string()),
            ("mode", settings.mode.word().into()),
            ("seq_policy", settings.sequential_policy.word().into()),
            ("seq_threshold", pages.limit(settings.sequential_cutoff_bytes).max(1).to_string()),
        ],
    );
    let mut set = |name: &str, value: String| modelled.parameters.push((name.into(), value));
    match settings.promotion {
        OpenCasPromotion::Always => set("promotion", "always".into()),
        OpenCasPromotion::Nhit { threshold, trigger_percent } => {
            set("promotion", "nhit".into());
            set("nhit_threshold", threshold.to_string());
            set("nhit_trigger", trigger_percent.to_string());
        }
    }
    match settings.cleaning {
        OpenCasCleaning::Nop => set("cleaning", "nop".into()),
        OpenCasCleaning::Alru {
            wake_s,
            staleness_s,
            batch,
            activity_ms,
            dirty_ratio,
            inertia_bytes,
        } => {
            set("cleaning", "alru".into());
            set("alru_wake_s", wake_s.to_string());
            set("alru_staleness_s", staleness_s.to_string());
            set("alru_batch", batch.to_string());
            set("alru_activity_s", activity_ms.div_ceil(1000).to_string());
            set("alru_dirty_ratio", dirty_ratio.to_string());
            set("alru_inertia_pages", pages.limit(inertia_bytes).to_string());
        }
        OpenCasCleaning::Acp { wake_ms, batch } => {
            set("cleaning", "acp".into());
            set("acp_wake_ms", wake_ms.max(1).to_string());
            set("acp_batch", batch.to_string());
            // The regions that it sweeps are not a setting.
            set("acp_chunk_pages", pages.limit(100 << 20).to_string());
        }
    }
    Ok(modelled)
}

/// The most that `arc-l2arc` takes for its headroom, which stands for no limit.
pub(crate) const HEADROOM_MAX: u64 = 1024;

fn zfs(settings: &Zfs, pages: Pages) -> Modelled {
    let per_feed = |bytes: u64| pages.limit(bytes.saturating_mul(settings.feed_s.max(1)));
    let write_boost = settings.write_boost_bytes.unwrap_or(0);
    let mut modelled = modelled(
        "arc-l2arc",
        [
            ("feed_ms", settings.feed_s.max(1).saturating_mul(1000).to_string()),
            ("write_max", per_feed(settings.write_max_bytes).max(1).to_string()),
            ("write_boost", per_feed(write_boost).to_string()),
            ("page_bytes", pages.0.to_string()),
        ],
    );
    modelled.ram_pages = Some(settings.arc_max_bytes / pages.0);
    let mut set = |name: &str, value: String| modelled.parameters.push((name.into(), value));
    // The boost applies wherever ARC is compressed, which is the default; 100 is none.
    let boost = settings.headroom_boost_percent.max(100);
    let bounded =
        |headroom: u64| if headroom == 0 { HEADROOM_MAX } else { headroom.min(HEADROOM_MAX) };
    if let Some(limit) = settings.dwpd_limit_percent {
        set("feed", "2026".into());
        set("headroom", bounded(settings.headroom).to_string());
        set("headroom_boost", boost.to_string());
        set("dwpd_limit", limit.to_string());
        if let Some(percent) = settings.ext_headroom_percent {
            set("ext_headroom_pct", percent.to_string());
        }
    } else {
        // The model of the older feed has no boost of its own.
        let headroom = settings.headroom.saturating_mul(boost).div_ceil(100);
        set("headroom", bounded(headroom).to_string());
    }
    let mut leave_out = |condition: bool, sentence: &str| {
        if condition {
            modelled.left_out.push(sentence.into());
        }
    };
    leave_out(settings.mfu_only != 0, "l2arc_mfuonly: the model also caches pages seen once");
    leave_out(settings.no_prefetch, "l2arc_noprefetch: a trace does not mark what was prefetched");
    leave_out(
        settings.meta_percent < 100,
        "l2arc_meta_percent: the model has no limit on headers in memory",
    );
    leave_out(
        settings.meta_cycles.is_some(),
        "l2arc_meta_cycles: the model does not separate metadata from data",
    );
    modelled
}

#[cfg(test)]
mod tests;
