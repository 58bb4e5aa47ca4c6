//! The settings of each kind of cache, as they are installed and as they are recommended.

use serde::Serialize;

use crate::words::words;

words! {
    /// The cache mode of dm-cache.
    pub enum DmCacheMode {
        /// A write to a cached block goes to both devices.
        Writethrough = "writethrough",
        /// A write to a cached block goes to the fast device, and to the slow one later.
        Writeback = "writeback",
        /// Reads and writes go to the slow device.
        Passthrough = "passthrough",
    }
}

/// Settings of dm-cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DmCache {
    /// Bytes of a cache block, which lvm calls a chunk.
    pub block_bytes: u64,
    /// The handling of writes.
    pub mode: DmCacheMode,
    /// The policy's name in the kernel: `smq`, `mq` (another name of it), `cleaner`.
    pub policy: String,
    /// Sectors of 512 bytes that may be on their way between the devices at one time.
    pub migration_threshold_sectors: u64,
}

words! {
    /// The kind of fast device under dm-writecache.
    pub enum WritecacheMemory {
        /// A solid-state drive.
        Ssd = "s",
        /// Persistent memory.
        Pmem = "p",
    }
}

/// Settings of dm-writecache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DmWritecache {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// The kind of fast device.
    pub memory: WritecacheMemory,
    /// Percent of the blocks; writeback starts when as many are used.
    pub high_watermark: u64,
    /// Percent of the blocks; writeback stops when fewer are used.
    pub low_watermark: u64,
    /// Written blocks after which all are committed; by default 65536 on a drive, 64 in memory.
    pub autocommit_blocks: u64,
    /// Milliseconds after which a written block is committed.
    pub autocommit_ms: u64,
    /// Milliseconds after which a block is written back; none: never for its age.
    pub max_age_ms: Option<u64>,
    /// Blocks that are written back at one time; none: any number.
    pub writeback_jobs: Option<u64>,
    /// `true` if the cache takes nothing and writes everything back.
    pub cleaner: bool,
}

words! {
    /// The cache mode of bcache.
    pub enum BcacheMode {
        /// A write goes to both devices.
        Writethrough = "writethrough",
        /// A write goes to the fast device, and to the slow one later.
        Writeback = "writeback",
        /// A write goes to the slow device only.
        Writearound = "writearound",
        /// No access is cached.
        None = "none",
    }
}

words! {
    /// The order in which bcache invalidates buckets.
    pub enum BcacheReplacement {
        /// The one that was not used for longest.
        Lru = "lru",
        /// The one that was filled first.
        Fifo = "fifo",
        /// Any.
        Random = "random",
    }
}

/// Settings of bcache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bcache {
    /// Bytes of a bucket, which is filled and invalidated as a whole.
    pub bucket_bytes: u64,
    /// Bytes of the smallest write.
    pub block_bytes: u64,
    /// The handling of writes.
    pub mode: BcacheMode,
    /// The order in which buckets leave.
    pub replacement: BcacheReplacement,
    /// Bytes from which on a sequential run bypasses the cache; 0: never.
    pub sequential_cutoff_bytes: u64,
    /// Percent of the cache that may be dirty.
    pub writeback_percent: u64,
    /// Seconds before writeback starts.
    pub writeback_delay_s: u64,
    /// Microseconds of a read of the fast device above which requests bypass it; 0: never.
    pub congested_read_us: u64,
    /// Microseconds of a write, likewise.
    pub congested_write_us: u64,
}

words! {
    /// The cache mode of Open CAS.
    pub enum OpenCasMode {
        /// A write goes to both devices.
        WriteThrough = "wt",
        /// A write goes to the fast device, and to the slow one later.
        WriteBack = "wb",
        /// A write of what is not cached goes to the slow device only.
        WriteAround = "wa",
        /// As write-back, but reads cache nothing.
        WriteOnly = "wo",
        /// A write drops what is cached.
        WriteInvalidate = "wi",
        /// Every access goes to the slow device.
        PassThrough = "pt",
    }
}

impl OpenCasMode {
    /// Return `true` if the fast device may have newer bytes than the slow one.
    pub const fn is_lazy(self) -> bool {
        matches!(self, Self::WriteBack | Self::WriteOnly)
    }
}

words! {
    /// The condition under which sequential streams bypass Open CAS.
    pub enum SequentialPolicy {
        /// Bypass the cache while it is nearly full.
        Full = "full",
        /// Always.
        Always = "always",
        /// Never.
        Never = "never",
    }
}

/// The promotion policy of Open CAS, which decides the lines that enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "policy")]
pub enum OpenCasPromotion {
    /// Every line.
    Always,
    /// Lines that were asked for often enough.
    Nhit {
        /// The request by which a line enters.
        threshold: u64,
        /// Percent of the lines; while fewer are used, every line enters.
        trigger_percent: u64,
    },
}

/// The cleaning policy of Open CAS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "policy")]
pub enum OpenCasCleaning {
    /// Only when lines are needed.
    Nop,
    /// Lines that were not written for a while, when the device is idle.
    Alru {
        /// Seconds between two looks.
        wake_s: u64,
        /// Seconds since the last write of a line.
        staleness_s: u64,
        /// Lines at once.
        batch: u64,
        /// Milliseconds without requests before it works.
        activity_ms: u64,
        /// Percent of the lines; when as many are dirty, it works at once. 100: never.
        dirty_ratio: u64,
        /// Bytes by which it goes below `dirty_ratio`.
        inertia_bytes: u64,
    },
    /// The dirtiest regions, all the time.
    Acp {
        /// Milliseconds between two steps.
        wake_ms: u64,
        /// Lines in a step.
        batch: u64,
    },
}

/// Settings of Open CAS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenCas {
    /// Bytes of a cache line.
    pub line_bytes: u64,
    /// The handling of requests.
    pub mode: OpenCasMode,
    /// The promotion policy.
    pub promotion: OpenCasPromotion,
    /// The cleaning policy.
    pub cleaning: OpenCasCleaning,
    /// The condition under which sequential streams bypass the cache.
    pub sequential_policy: SequentialPolicy,
    /// Bytes from which on a stream does.
    pub sequential_cutoff_bytes: u64,
}

/// Settings of a ZFS pool's level 2 ARC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Zfs {
    /// The most that ARC may take of memory, in bytes.
    pub arc_max_bytes: u64,
    /// Bytes that a feed writes at most, per second of `feed_s`.
    pub write_max_bytes: u64,
    /// Bytes that it writes besides while ARC warms up; none: this release has no such setting.
    pub write_boost_bytes: Option<u64>,
    /// Factor of `write_max_bytes` that a feed scans in each list; 0: the whole list.
    pub headroom: u64,
    /// Percent of `headroom` that applies with compressed buffers.
    pub headroom_boost_percent: u64,
    /// Seconds between two feeds.
    pub feed_s: u64,
    /// `true` if prefetched buffers are not cached.
    pub no_prefetch: bool,
    /// 0: all buffers are cached, 1: those used more than once, 2: those and all metadata.
    pub mfu_only: u64,
    /// Percent of ARC that the headers of cached buffers may take.
    pub meta_percent: u64,
    /// Percent of the device that is written per day at most; none: this release has no such limit.
    pub dwpd_limit_percent: Option<u64>,
    /// Percent of a list that feeds scan before they begin at its tail again; none: likewise.
    pub ext_headroom_percent: Option<u64>,
    /// Feeds in a row that metadata may fill; none: likewise.
    pub meta_cycles: Option<u64>,
}
