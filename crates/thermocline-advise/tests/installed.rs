//! Settings and counters of recorded machines, and what happens with anything else.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod machine;

use std::io;

use proptest::prelude::*;
use thermocline_advise::installed::{
    BcacheMode, BcacheReplacement, Counted, DmCache, DmCacheMode, Found, InstalledCache,
    InstalledError, InstalledKind, OpenCasCleaning, OpenCasMode, OpenCasPromotion,
    SequentialPolicy, Setting, WritecacheMemory, bcache, lvmcache, open_cas, zfs,
};

use machine::{recorded, root};

fn lvm(recording: &str) -> Found {
    let mut machine = recorded(recording);
    lvmcache::read(&mut |program, arguments| machine.run(program, arguments)).unwrap()
}

fn cas(recording: &str) -> Found {
    let mut machine = recorded(recording);
    open_cas::read(&mut |program, arguments| machine.run(program, arguments)).unwrap()
}

fn zfs_of(recording: &str) -> Found {
    let mut machine = recorded(recording);
    let folder = root(&machine);
    zfs::read(folder.path(), &mut |program, arguments| machine.run(program, arguments)).unwrap()
}

fn values<const N: usize>(cache: &InstalledCache, counted: [Counted; N]) -> [Option<u64>; N] {
    counted.map(|counted| cache.counters.value(counted))
}

fn setting(name: &str, value: &str) -> Setting {
    Setting { name: name.into(), value: value.into() }
}

const HITS: [Counted; 4] =
    [Counted::ReadHits, Counted::ReadMisses, Counted::WriteHits, Counted::WriteMisses];

#[test]
fn dm_cache_of_lvm() {
    let found = lvm("lvm-2.03-linux-6.1.txt");
    let names: Vec<_> = found.caches.iter().map(|cache| cache.name.as_str()).collect();
    assert_eq!(names, ["vg0/data", "vg0/my-lv"]);
    let cache = found.named("vg0/data").unwrap();
    assert_eq!(cache.size_bytes, 50 << 30);
    let InstalledKind::DmCache { volume: Some(volume), settings } = &cache.kind else { panic!() };
    assert_eq!((volume.group.as_str(), volume.name.as_str()), ("vg0", "data"));
    let expected = DmCache {
        block_bytes: 64 << 10,
        mode: DmCacheMode::Writeback,
        policy: "smq".into(),
        migration_threshold_sectors: 4096,
    };
    assert_eq!(settings, &expected);
    assert_eq!(values(cache, HITS), [5_119_822, 812_345, 2_210_077, 190_311].map(Some));
    let moved = [Counted::Demotions, Counted::Promotions, Counted::Dirty, Counted::Used];
    assert_eq!(values(cache, moved), [40_211, 859_411, 1337, 819_200].map(Some));
    let other = [setting("metadata2", ""), setting("no_discard_passdown", "")];
    assert_eq!(cache.other_settings, other);
    assert_eq!(found.notes.len(), 2, "{:?}", found.notes);
    assert!(found.notes[0].contains("migration threshold 2048, the kernel runs 4096"));
    assert!(found.notes[1].contains("`lvchange --activate y vg0/archive`"));
}

#[test]
fn dm_writecache_of_lvm() {
    let found = lvm("lvm-2.03-linux-6.1.txt");
    let cache = found.named("vg0/my-lv").unwrap();
    assert_eq!(cache.size_bytes, 2_609_152 * 4096);
    let InstalledKind::DmWritecache { volume: Some(volume), settings } = &cache.kind else {
        panic!()
    };
    assert_eq!(volume.name, "my-lv");
    assert_eq!(settings.memory, WritecacheMemory::Ssd);
    assert_eq!((settings.high_watermark, settings.low_watermark), (60, 40));
    assert_eq!((settings.max_age_ms, settings.autocommit_blocks), (Some(60_000), 65_536));
    assert_eq!(values(cache, HITS), [4100, 86_110, 1911, 5_519_091].map(Some));
    assert_eq!(cache.counters.value(Counted::Bypassed), Some(3310));
    assert_eq!(cache.counters.value(Counted::Dirty), Some(1_565_491));
    assert_eq!(cache.other_settings, [setting("pause_writeback", "5000")]);
}

#[test]
fn older_kernels_say_less() {
    let found = lvm("lvm-2.02-linux-4.4.txt");
    let [bare, old, write] = found.caches.as_slice() else { panic!() };
    let InstalledKind::DmCache { volume: None, settings } = &bare.kind else { panic!() };
    assert_eq!((bare.name.as_str(), bare.size_bytes), ("ssd", 1 << 30));
    assert_eq!(settings.mode, DmCacheMode::Writethrough);
    // The table may say `default`; the status has the name.
    assert_eq!(settings.policy, "smq");
    let InstalledKind::DmCache { settings, .. } = &old.kind else { panic!() };
    assert_eq!((old.name.as_str(), old.size_bytes), ("tank/web", 2 << 30));
    assert_eq!((settings.policy.as_str(), settings.mode), ("mq", DmCacheMode::Writeback));
    assert_eq!(old.other_settings.len(), 6, "{:?}", old.other_settings);
    assert_eq!(old.other_settings[0], setting("prefetch", "1"));
    assert_eq!(old.other_settings[5], setting("write_promote_adjustment", "8"));
    assert!(found.notes.iter().any(|note| note.contains("`cache_check`")), "{:?}", found.notes);
    let InstalledKind::DmWritecache { settings, .. } = &write.kind else { panic!() };
    assert_eq!((settings.memory, settings.autocommit_blocks), (WritecacheMemory::Pmem, 64));
    assert_eq!(write.other_settings, [setting("nofua", "")]);
    assert_eq!(write.counters.value(Counted::Used), Some(144));
    assert_eq!(write.counters.value(Counted::ReadHits), None);
}

#[test]
fn without_lvm_caches_have_device_names() {
    let mut machine = recorded("lvm-2.03-linux-6.1.txt");
    machine.commands.retain(|command, _| !command.starts_with("lvs"));
    let found = lvmcache::read(&mut |program, arguments| machine.run(program, arguments)).unwrap();
    assert_eq!(found.caches[1].name, "vg0-my--lv");
    assert!(found.notes[0].contains("lvm is not installed"));
}

#[test]
fn bcache_of_linux() {
    let machine = recorded("bcache-linux-6.1.txt");
    let folder = root(&machine);
    let found = bcache::read(folder.path()).unwrap();
    let [cache] = found.caches.as_slice() else { panic!() };
    assert_eq!((cache.name.as_str(), cache.size_bytes), ("bcache0", 106_874 << 19));
    let InstalledKind::Bcache { set, settings } = &cache.kind else { panic!() };
    assert_eq!(set, "5bc072a8-ab17-446d-9744-e247949913c1");
    assert_eq!((settings.bucket_bytes, settings.block_bytes), (512 << 10, 4096));
    assert_eq!(
        (settings.mode, settings.replacement),
        (BcacheMode::Writeback, BcacheReplacement::Lru)
    );
    assert_eq!(settings.sequential_cutoff_bytes, 4 << 20);
    assert_eq!((settings.writeback_percent, settings.writeback_delay_s), (10, 30));
    assert_eq!((settings.congested_read_us, settings.congested_write_us), (2000, 0));
    let counted = [Counted::Hits, Counted::Misses, Counted::BypassHits, Counted::BypassMisses];
    assert_eq!(values(cache, counted), [4_127_005, 310_442, 219, 88_121].map(Some));
    let bytes = [Counted::Dirty, Counted::Bypassed, Counted::FlashWrites, Counted::MetadataWrites];
    // The journal wears the device, too: 1.5 TiB of data and 0.5 TiB of metadata.
    assert_eq!(
        values(cache, bytes),
        [(1909 << 20) / 2, (79 << 30) / 2, 2 << 40, 1 << 39].map(Some)
    );
    let other = [setting("readahead", "0"), setting("writeback_running", "1")];
    assert_eq!(cache.other_settings, other);
    assert!(found.notes[0].contains("bcache1 has no cache set"), "{:?}", found.notes);
}

/// A kernel's own words, as `cargo xtask guest` recorded them: the counters add up to its replay of 20,988
/// reads and 9,012 writes.
#[test]
fn a_real_kernel() {
    let found = lvm("dm-cache-linux-6.1.192.txt");
    let cache = found.named("ssd").unwrap();
    assert_eq!(values(cache, HITS), [11_047, 9941, 4716, 4296].map(Some));
    let moved = [Counted::Demotions, Counted::Promotions, Counted::Dirty, Counted::Used];
    assert_eq!(values(cache, moved), [582, 837, 91, 255].map(Some));
    let folder = root(&recorded("bcache-linux-6.1.192.txt"));
    let found = bcache::read(folder.path()).unwrap();
    let cache = found.named("bcache0").unwrap();
    assert_eq!(cache.size_bytes, 64 << 20);
    // Misses that collided with a write are misses again.
    let counted = [Counted::Hits, Counted::Misses, Counted::BypassHits, Counted::BypassMisses];
    assert_eq!(values(cache, counted), [16_090, 4901, 0, 0].map(Some));
    let InstalledKind::Bcache { settings, .. } = &cache.kind else { panic!() };
    assert_eq!((settings.mode, settings.writeback_percent), (BcacheMode::Writeback, 40));
    assert_eq!(settings.sequential_cutoff_bytes, 64 << 10);
}

#[test]
fn open_cas_of_several_releases() {
    let found = cas("open-cas-25.3.txt");
    let [cache] = found.caches.as_slice() else { panic!() };
    assert_eq!((cache.name.as_str(), cache.size_bytes), ("1", 2_548_928 * 4096));
    let InstalledKind::OpenCas { id: 1, device, cores, settings } = &cache.kind else { panic!() };
    assert_eq!(device, "/dev/disk/by-id/nvme-eui.0025385-part1");
    assert_eq!((cores.len(), cores[1].exported.as_str()), (2, "/dev/cas1-2"));
    assert_eq!((settings.line_bytes, settings.mode), (4096, OpenCasMode::WriteBack));
    let promotion = OpenCasPromotion::Nhit { threshold: 3, trigger_percent: 80 };
    assert_eq!(settings.promotion, promotion);
    let cleaning = OpenCasCleaning::Alru {
        wake_s: 20,
        staleness_s: 120,
        batch: 100,
        activity_ms: 10_000,
        dirty_ratio: 70,
        inertia_bytes: 128 << 20,
    };
    assert_eq!(settings.cleaning, cleaning);
    assert_eq!(settings.sequential_policy, SequentialPolicy::Full);
    assert_eq!(settings.sequential_cutoff_bytes, 1 << 20);
    assert_eq!(values(cache, HITS), [900_210, 44_410, 510_000, 80_121].map(Some));
    let bytes = [Counted::Used, Counted::Dirty, Counted::FlashWrites];
    assert_eq!(values(cache, bytes), [2_100_000, 12_300, 1_270_000].map(|it| Some(it * 4096)));
    assert_eq!(cache.other_settings, [setting("Burst mode", "off")]);
    assert!(found.notes[0].contains("core 2 has another sequential cutoff"), "{:?}", found.notes);
    assert!(found.notes[1].contains("cache 7 is 'Standby'"), "{:?}", found.notes);

    let found = cas("open-cas-20.3.txt");
    let [cache] = found.caches.as_slice() else { panic!() };
    let InstalledKind::OpenCas { id: 2, settings, .. } = &cache.kind else { panic!() };
    assert_eq!((settings.line_bytes, settings.mode), (64 << 10, OpenCasMode::WriteThrough));
    assert_eq!(settings.cleaning, OpenCasCleaning::Acp { wake_ms: 10, batch: 128 });
    let other = [setting("Eviction Policy", "lru"), setting("Metadata Mode", "normal")];
    assert_eq!(cache.other_settings, other);
}

#[test]
fn zfs_of_several_releases() {
    let found = zfs_of("zfs-2.1.txt");
    let [tank, old] = found.caches.as_slice() else { panic!() };
    let InstalledKind::Zfs { devices, settings } = &tank.kind else { panic!() };
    // The cache device that failed serves nothing.
    assert_eq!((devices.len(), tank.size_bytes), (1, 512_110_190_592));
    assert_eq!(devices[0].name, "/dev/nvme0n1p1");
    assert_eq!(settings.arc_max_bytes, 16_777_216_000);
    assert_eq!((settings.write_max_bytes, settings.write_boost_bytes), (8 << 20, Some(8 << 20)));
    assert_eq!((settings.headroom, settings.mfu_only, settings.dwpd_limit_percent), (2, 0, None));
    let counted = [Counted::ReadHits, Counted::ReadMisses, Counted::FlashWrites, Counted::RamHits];
    let expected = [573_868, 1_085_309, 28_267_747_788, 91_024_551];
    assert_eq!(values(tank, counted), expected.map(Some));
    let names: Vec<_> = tank.other_settings.iter().map(|it| it.name.as_str()).collect();
    let expected = [
        "l2arc_feed_again",
        "l2arc_feed_min_ms",
        "l2arc_norw",
        "l2arc_rebuild_enabled",
        "zfs_arc_min",
    ];
    assert_eq!(names, expected);
    assert_eq!((old.name.as_str(), old.size_bytes), ("old pool", 0));
    assert!(found.notes[0].contains("'/dev/nvme2n1p1' is FAULTED"), "{:?}", found.notes);
    assert!(found.notes[1].contains("'old pool' has no cache device"), "{:?}", found.notes);

    let found = zfs_of("zfs-2.4.99.txt");
    let [tank] = found.caches.as_slice() else { panic!() };
    let InstalledKind::Zfs { devices, settings } = &tank.kind else { panic!() };
    assert_eq!((devices[0].name.as_str(), tank.size_bytes), ("nvme0n1", 477 << 30));
    assert_eq!((settings.arc_max_bytes, settings.write_boost_bytes), (4 << 30, None));
    assert_eq!((settings.mfu_only, settings.dwpd_limit_percent), (2, Some(100)));
    assert_eq!((settings.ext_headroom_percent, settings.meta_cycles), (Some(25), Some(2)));
}

#[test]
fn missing_programs_and_permissions_are_sentences() {
    let fail = |kind: io::ErrorKind| {
        let mut runner = move |_: &str, _: &[&str]| Err(kind.into());
        lvmcache::read(&mut runner).unwrap_err().to_string()
    };
    let missing = fail(io::ErrorKind::NotFound);
    assert!(
        missing.contains("dmsetup is not installed; install it with `apt install"),
        "{missing}"
    );
    assert!(fail(io::ErrorKind::PermissionDenied).contains("sudo"));
    let say = |message: &'static str| {
        let mut runner = move |_: &str, _: &[&str]| Err(io::Error::other(message));
        open_cas::read(&mut runner).unwrap_err().to_string()
    };
    assert!(say("/dev/mapper/control: open failed: Permission denied").contains("with sudo"));
    assert!(say("Must be run as root.").contains("with sudo"));
    assert!(say("Device does not exist").contains("`modprobe cas_cache`"));
    let folder = tempfile::tempdir().unwrap();
    let absent = bcache::read(folder.path()).unwrap_err().to_string();
    assert!(absent.contains("try `modprobe bcache`"), "{absent}");
    let mut runner = |_: &str, _: &[&str]| Ok(String::new());
    let absent = zfs::read(folder.path(), &mut runner).unwrap_err().to_string();
    assert!(absent.contains("try `modprobe zfs`"), "{absent}");
}

/// Replace text in a recording; the error of what is read then.
fn broken_lvm(old: &str, new: &str) -> String {
    let mut machine = recorded("lvm-2.03-linux-6.1.txt");
    let mut count = 0;
    for output in machine.commands.values_mut() {
        count += output.matches(old).count();
        *output = output.replace(old, new);
    }
    assert!(count > 0, "{old} is not in the recording");
    lvmcache::read(&mut |program, arguments| machine.run(program, arguments))
        .map_or_else(|error| error.to_string(), |_| "no error".into())
}

#[test]
fn what_is_not_understood_has_a_place_and_a_remedy() {
    for (old, new, expected) in [
        (
            "1741/10240 128",
            "1741/10240 x28",
            "(vg0-data, cache block size): expected a whole number, found 'x28'",
        ),
        ("819200/819200", "819200", "(vg0-data, cache blocks): expected USED/TOTAL"),
        (
            "2 migration_threshold 4096 smq 0 rw",
            "9 migration_threshold 4096",
            "words for 9 core arguments",
        ),
        (
            "2 migration_threshold 4096 smq 0 rw",
            "1 migration_threshold smq 0",
            "even number of core arguments",
        ),
        ("cache 8 1741/10240", "cache Fail", "expected a whole number, found 'Fail'"),
        ("writecache s", "writecache q", "expected one of s, p, found 'q'"),
        ("high_watermark 60", "high_watermark many", "(vg0-my--lv, high_watermark)"),
        ("2609152 1043661", "1043661 2609152", "2609152 of 1043661 blocks are free"),
        ("\"lv_name\":\"data\"", "\"lv\":\"data\"", "(lv_name): the field is missing"),
        (
            "\"chunk_size\":\"65536\"",
            "\"chunk_size\":\"small\"",
            "expected a chunk size, found 'small'",
        ),
        ("\"report\"", "\"rapport\"", "it has no list 'report'"),
    ] {
        let error = broken_lvm(old, new);
        assert!(error.contains(expected), "{old} -> {new}: {error}");
        assert!(error.contains("look at the output of `"), "{error}");
    }
    // The whole status of a cache that the kernel gave up.
    let mut machine = recorded("lvm-2.02-linux-4.4.txt");
    for (command, output) in &mut machine.commands {
        if command.starts_with("dmsetup status") {
            let other = output.lines().skip(1).collect::<Vec<_>>().join("\n");
            *output = format!("ssd: 0 41943040 cache Fail\n{other}");
        }
    }
    let mut runner = |program: &str, arguments: &[&str]| machine.run(program, arguments);
    let error = lvmcache::read(&mut runner).unwrap_err();
    assert!(matches!(error, InstalledError::NotUnderstood { .. }));
    assert!(error.to_string().contains("given the cache up (Fail)"), "{error}");
}

#[test]
fn only_programs_that_print_are_run() {
    /// All commands, by their first words, that readers may run.
    const READ_ONLY: [&str; 7] = [
        "dmsetup table",
        "dmsetup status --noflush",
        "lvs --reportformat json",
        "casadm -L ",
        "casadm -P ",
        "casadm -G ",
        "zpool list ",
    ];
    let mut ran = vec![];
    for recording in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata")).unwrap() {
        let name = recording.unwrap().file_name().into_string().unwrap();
        let mut machine = recorded(&name);
        let folder = root(&machine);
        let mut runner = |program: &str, arguments: &[&str]| machine.run(program, arguments);
        let found = [
            lvmcache::read(&mut runner),
            open_cas::read(&mut runner),
            zfs::read(folder.path(), &mut runner),
        ];
        assert!(
            name == "README.md" || name.starts_with("bcache") || found.iter().any(Result::is_ok)
        );
        ran.extend(machine.ran);
    }
    assert!(ran.len() > 12);
    for command in ran {
        assert!(READ_ONLY.iter().any(|words| command.starts_with(words)), "{command}");
    }
}

#[test]
fn found_caches_are_json() {
    let text = serde_json::to_value(lvm("lvm-2.03-linux-6.1.txt")).unwrap();
    let cache = &text["caches"][0];
    assert_eq!(cache["kind"], "dm-cache");
    assert_eq!(cache["settings"]["mode"], "writeback");
    assert_eq!(cache["counters"][0]["counted"], "read-hits");
    assert_eq!(cache["counters"][0]["value"], 5_119_822);
}

/// Change a text: nothing, a piece of it, or all of it.
fn damaged(text: &str, at: usize, length: usize, piece: &str) -> String {
    let mut characters: Vec<_> = text.chars().collect();
    let at = at.min(characters.len());
    let end = (at + length).min(characters.len());
    characters.splice(at..end, piece.chars());
    characters.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_output_gives_a_value_or_an_error(
        outputs in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 4),
    ) {
        let mut turn = 0;
        let mut runner = |_: &str, _: &[&str]| {
            turn += 1;
            Ok(String::from_utf8_lossy(&outputs[turn % 4]).into_owned())
        };
        drop(lvmcache::read(&mut runner));
        drop(open_cas::read(&mut runner));
    }

    #[test]
    fn any_damage_gives_a_value_or_an_error(
        which in 0..7_usize,
        at in 0..4000_usize,
        length in 0..40_usize,
        piece in "[0-9 ,/:\t\n.a-zA-Z\\[\\]\"-]{0,20}|\\PC{0,3}",
    ) {
        let recordings = [
            "lvm-2.03-linux-6.1.txt", "lvm-2.02-linux-4.4.txt", "open-cas-25.3.txt",
            "open-cas-20.3.txt", "zfs-2.1.txt", "zfs-2.4.99.txt", "bcache-linux-6.1.txt",
        ];
        let mut machine = recorded(recordings[which]);
        let mut left = at;
        let contents = machine.commands.values_mut().chain(machine.files.values_mut());
        for content in contents {
            let size = content.chars().count();
            if left <= size {
                *content = damaged(content, left, length, &piece);
                break;
            }
            left -= size;
        }
        let folder = (which > 3).then(|| root(&machine));
        let mut runner = |program: &str, arguments: &[&str]| machine.run(program, arguments);
        let found = match (&folder, which) {
            (Some(folder), 6) => bcache::read(folder.path()),
            (Some(folder), _) => zfs::read(folder.path(), &mut runner),
            (None, 2 | 3) => open_cas::read(&mut runner),
            (None, _) => lvmcache::read(&mut runner),
        };
        match found {
            // A cache that was read can be modelled, or a sentence says why not.
            Ok(found) => for cache in &found.caches {
                drop(thermocline_advise::mapping::model(cache, 4096));
            },
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
        }
    }
}
