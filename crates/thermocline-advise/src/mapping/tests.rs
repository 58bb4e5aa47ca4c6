//! Each kind of cache as its policy, and policies that take what they are given.

use thermocline_core::registry;

use super::*;
use crate::installed::{
    BcacheMode, BcacheReplacement, CacheDevice, Counters, DmCacheMode, OpenCasMode,
    SequentialPolicy, Setting,
};

const PAGE: u64 = 4096;

fn cache(kind: InstalledKind, size_bytes: u64) -> InstalledCache {
    let counters = Counters::default();
    InstalledCache { name: "a".into(), size_bytes, kind, counters, other_settings: vec![] }
}

fn dm_cache(policy: &str, block_bytes: u64) -> InstalledCache {
    let settings = DmCache {
        block_bytes,
        mode: DmCacheMode::Writeback,
        policy: policy.into(),
        migration_threshold_sectors: 2048,
    };
    cache(InstalledKind::DmCache { volume: None, settings }, 50 << 30)
}

fn dm_writecache(block_bytes: u64, max_age_ms: Option<u64>, cleaner: bool) -> InstalledCache {
    let settings = DmWritecache {
        block_bytes,
        memory: WritecacheMemory::Pmem,
        high_watermark: 60,
        low_watermark: 40,
        autocommit_blocks: 64,
        autocommit_ms: 1500,
        max_age_ms,
        writeback_jobs: Some(9),
        cleaner,
    };
    cache(InstalledKind::DmWritecache { volume: None, settings }, 1 << 30)
}

fn bcache(sequential_cutoff_bytes: u64) -> InstalledCache {
    let settings = Bcache {
        bucket_bytes: 512 << 10,
        block_bytes: 4096,
        mode: BcacheMode::Writearound,
        replacement: BcacheReplacement::Fifo,
        sequential_cutoff_bytes,
        writeback_percent: 20,
        writeback_delay_s: 30,
        congested_read_us: 2000,
        congested_write_us: 0,
    };
    cache(InstalledKind::Bcache { set: "s".into(), settings }, 1 << 30)
}

fn open_cas(promotion: OpenCasPromotion, cleaning: OpenCasCleaning) -> InstalledCache {
    let settings = OpenCas {
        line_bytes: 64 << 10,
        mode: OpenCasMode::WriteBack,
        promotion,
        cleaning,
        sequential_policy: SequentialPolicy::Never,
        sequential_cutoff_bytes: 1 << 20,
    };
    let (device, cores) = ("/dev/a".into(), vec![]);
    cache(InstalledKind::OpenCas { id: 1, device, cores, settings }, 1 << 30)
}

fn zfs(headroom: u64, feed_s: u64, dwpd_limit_percent: Option<u64>) -> InstalledCache {
    let settings = Zfs {
        arc_max_bytes: 16 << 30,
        write_max_bytes: 32 << 20,
        write_boost_bytes: None,
        headroom,
        headroom_boost_percent: 200,
        feed_s,
        no_prefetch: true,
        mfu_only: 0,
        meta_percent: 33,
        dwpd_limit_percent,
        ext_headroom_percent: dwpd_limit_percent.map(|_| 25),
        meta_cycles: dwpd_limit_percent.map(|_| 2),
    };
    let devices = vec![CacheDevice { name: "a".into(), size_bytes: 400 << 30 }];
    cache(InstalledKind::Zfs { devices, settings }, 400 << 30)
}

fn all() -> Vec<InstalledCache> {
    let nhit = OpenCasPromotion::Nhit { threshold: 4, trigger_percent: 70 };
    let alru = OpenCasCleaning::Alru {
        wake_s: 20,
        staleness_s: 120,
        batch: 100,
        activity_ms: 10_000,
        dirty_ratio: 70,
        inertia_bytes: 128 << 20,
    };
    vec![
        dm_cache("smq", 64 << 10),
        dm_writecache(4096, Some(60_000), false),
        bcache(4 << 20),
        open_cas(nhit, alru),
        open_cas(OpenCasPromotion::Always, OpenCasCleaning::Acp { wake_ms: 10, batch: 128 }),
        open_cas(OpenCasPromotion::Always, OpenCasCleaning::Nop),
        zfs(2, 1, None),
        zfs(8, 1, Some(50)),
    ]
}

/// Return the parameters, as `name=value`.
fn parameters(cache: &InstalledCache) -> String {
    let modelled = model(cache, PAGE).unwrap();
    let pairs: Vec<_> =
        modelled.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{} {}", modelled.policy, pairs.join(" "))
}

#[test]
fn each_kind_has_its_policy_and_counts_pages() {
    let expected = [
        "dm-cache block_pages=16 mode=writeback",
        "dm-writecache high_watermark=60 low_watermark=40 max_age_s=60 autocommit_blocks=64 \
         autocommit_s=2 device=pmem",
        "bcache bucket_pages=128 mode=writearound replacement=fifo sequential_cutoff=1024 \
         writeback_percent=20",
        "open-cas line_pages=16 mode=wb seq_policy=never seq_threshold=256 promotion=nhit \
         nhit_threshold=4 nhit_trigger=70 cleaning=alru alru_wake_s=20 alru_staleness_s=120 \
         alru_batch=100 alru_activity_s=10 alru_dirty_ratio=70 alru_inertia_pages=32768",
        "open-cas line_pages=16 mode=wb seq_policy=never seq_threshold=256 promotion=always \
         cleaning=acp acp_wake_ms=10 acp_batch=128 acp_chunk_pages=25600",
        "open-cas line_pages=16 mode=wb seq_policy=never seq_threshold=256 promotion=always \
         cleaning=nop",
        "arc-l2arc feed_ms=1000 write_max=8192 write_boost=0 page_bytes=4096 headroom=4",
        "arc-l2arc feed_ms=1000 write_max=8192 write_boost=0 page_bytes=4096 feed=2026 headroom=8 \
         headroom_boost=200 dwpd_limit=50 ext_headroom_pct=25",
    ];
    assert_eq!(all().len(), expected.len());
    for (cache, expected) in all().iter().zip(expected) {
        assert_eq!(parameters(cache), expected);
    }
    let modelled = model(&zfs(8, 1, None), PAGE).unwrap();
    assert_eq!((modelled.ram_pages, modelled.flash_pages), (Some(4 << 20), 100 << 20));
    assert_eq!(model(&dm_cache("mq", 64 << 10), PAGE).unwrap().ram_pages, None);
}

#[test]
fn policies_take_the_parameters() {
    for cache in all() {
        let modelled = model(&cache, PAGE).unwrap();
        let entry = registry::find(modelled.policy).unwrap();
        entry.values(&modelled.parameters).unwrap();
    }
}

#[test]
fn limits_of_zero_and_of_nothing_stay_so() {
    assert!(parameters(&bcache(0)).contains("sequential_cutoff=0"));
    assert!(parameters(&bcache(1)).contains("sequential_cutoff=1"));
    assert!(parameters(&dm_writecache(4096, None, false)).contains("max_age_s=0"));
    assert!(parameters(&dm_writecache(4096, Some(0), false)).contains("max_age_s=1"));
    assert!(parameters(&zfs(0, 1, None)).contains("headroom=1024"));
    assert!(parameters(&zfs(2, 5, None)).contains("feed_ms=5000 write_max=40960"));
}

#[test]
fn what_no_policy_models_is_an_error_with_a_remedy() {
    let say = |cache: &InstalledCache, page| model(cache, page).unwrap_err().to_string();
    let error = say(&dm_cache("cleaner", 64 << 10), PAGE);
    assert!(error.contains("`lvchange --cachepolicy smq`"), "{error}");
    let error = say(&dm_cache("smq", 32 << 10), 64 << 10);
    assert!(error.contains("pass a page size of 4096"), "{error}");
    let error = say(&dm_writecache(512, None, false), PAGE);
    assert!(error.contains("pass a page size of 512"), "{error}");
    assert!(say(&dm_writecache(4096, None, true), PAGE).contains("only writes back"));
    assert!(say(&bcache(0), 0).contains("pass a page size of 4096"));
    let mut empty = zfs(8, 1, None);
    let InstalledKind::Zfs { devices, .. } = &mut empty.kind else { unreachable!() };
    devices.clear();
    assert!(say(&empty, PAGE).contains("no cache device"));
}

#[test]
fn what_is_left_out_is_said() {
    let mut cache = bcache(0);
    cache.other_settings.push(Setting { name: "readahead".into(), value: "1.0M".into() });
    let left_out = model(&cache, PAGE).unwrap().left_out;
    assert_eq!(left_out.len(), 2, "{left_out:?}");
    assert!(left_out[0].starts_with("congested_read_threshold_us = 2000"));
    assert_eq!(left_out[1], "readahead = \"1.0M\" is not modelled");
}
