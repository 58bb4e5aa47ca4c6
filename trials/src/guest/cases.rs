//! Cases of the guest: caches with their settings, and the traces of each.

use super::workload::{PAGE_BYTES, Workload};

const SECTORS_PER_PAGE: u32 = 8;
/// Sectors that make-bcache keeps in front of the data of the slow device.
const BCACHE_OFFSET_SECTORS: u32 = 16;

/// A cache with its settings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cache {
    DmCache { block_kib: u32, mode: &'static str, threshold_sectors: u32 },
    Bcache { bucket_kib: u32, mode: &'static str, cutoff_kib: u32, percent: u32 },
}

/// A cache on which a trace is replayed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case<'a> {
    pub(crate) cache: Cache,
    pub(crate) workload: &'a Workload,
    pub(crate) fast_pages: u32,
}

const DM_CACHE: Cache =
    Cache::DmCache { block_kib: 64, mode: "writeback", threshold_sectors: 2048 };

const CACHES: [Cache; 8] = [
    DM_CACHE,
    Cache::DmCache { block_kib: 64, mode: "writethrough", threshold_sectors: 2048 },
    Cache::DmCache { block_kib: 256, mode: "writeback", threshold_sectors: 4096 },
    Cache::DmCache { block_kib: 64, mode: "writeback", threshold_sectors: 204_800 },
    Cache::Bcache { bucket_kib: 64, mode: "writethrough", cutoff_kib: 0, percent: 10 },
    Cache::Bcache { bucket_kib: 64, mode: "writeback", cutoff_kib: 0, percent: 10 },
    Cache::Bcache { bucket_kib: 64, mode: "writethrough", cutoff_kib: 4096, percent: 10 },
    Cache::Bcache { bucket_kib: 64, mode: "writeback", cutoff_kib: 64, percent: 40 },
];

/// Lists the cases whose names contain a text.
pub(crate) fn all<'a>(workloads: &'a [Workload], filter: &str) -> Vec<Case<'a>> {
    let mut cases = vec![];
    for workload in workloads {
        for cache in CACHES {
            let fast_pages = match cache {
                Cache::DmCache { .. } => 4096,
                Cache::Bcache { .. } => 16_384,
            };
            let case = Case { cache, workload, fast_pages };
            if case.name().contains(filter) {
                cases.push(case);
            }
        }
    }
    cases
}

impl Case<'_> {
    /// Return a name without blanks.
    pub(crate) fn name(&self) -> String {
        format!("{}:{}", self.workload.name, self.cache.name())
    }

    /// Return the line of the guest's plan.
    pub(crate) fn plan(&self) -> String {
        let (slow, fast) =
            (self.workload.pages * SECTORS_PER_PAGE, self.fast_pages * SECTORS_PER_PAGE);
        let (name, trace) = (self.name(), self.workload.name);
        match self.cache {
            Cache::DmCache { block_kib, mode, threshold_sectors } => {
                let block = block_kib * 2;
                format!(
                    "dm_cache {name} {trace} {slow} {fast} {block} {mode} {threshold_sectors}\n"
                )
            }
            Cache::Bcache { bucket_kib, mode, cutoff_kib, percent } => {
                let slow = slow + BCACHE_OFFSET_SECTORS;
                let cutoff = u64::from(cutoff_kib) * 1024;
                format!(
                    "bcache {name} {trace} {slow} {fast} {bucket_kib} {mode} {cutoff} {percent}\n"
                )
            }
        }
    }
}

impl Cache {
    fn name(self) -> String {
        match self {
            Self::DmCache { block_kib, mode, threshold_sectors } => {
                format!("dm-cache,{block_kib}k,{mode},threshold={threshold_sectors}")
            }
            Self::Bcache { bucket_kib, mode, cutoff_kib, percent } => {
                format!("bcache,{bucket_kib}k,{mode},cutoff={cutoff_kib}k,dirty={percent}%")
            }
        }
    }

    /// Return the number of pages that move together.
    pub(crate) fn unit_pages(self) -> u64 {
        let (Self::DmCache { block_kib: kib, .. } | Self::Bcache { bucket_kib: kib, .. }) = self;
        u64::from(kib) * 1024 / PAGE_BYTES
    }
}
