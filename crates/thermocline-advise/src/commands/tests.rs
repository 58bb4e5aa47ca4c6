//! Whole scripts for each kind of cache, and what holds for all of them.

use std::process::Command;

use proptest::prelude::*;

use super::*;
use crate::installed::{
    BcacheMode, BcacheReplacement, CacheDevice, Core, Counters, DmCacheMode, OpenCasCleaning,
    OpenCasMode, OpenCasPromotion, SequentialPolicy, Volume, WritecacheMemory,
};

const GIB: u64 = 1 << 30;
const SET: &str = "5bc072a8-ab17-446d-9744-e247949913c1";

fn installed(name: &str, size_bytes: u64, kind: InstalledKind) -> InstalledCache {
    let counters = Counters::default();
    InstalledCache { name: name.into(), size_bytes, kind, counters, other_settings: vec![] }
}

fn lvm_volume() -> LvmVolume {
    LvmVolume {
        group: "vg".into(),
        volume: "main".into(),
        fast: "/dev/nvme0n1".into(),
        fast_volume: "fast".into(),
    }
}

fn volume() -> Volume {
    Volume { group: "vg".into(), name: "main".into() }
}

fn dm_cache(mode: DmCacheMode, block_kib: u64, threshold: u64) -> DmCache {
    DmCache {
        block_bytes: block_kib << 10,
        mode,
        policy: "smq".into(),
        migration_threshold_sectors: threshold,
    }
}

fn want_dm_cache(settings: DmCache) -> Recommended {
    Recommended::DmCache { volume: lvm_volume(), size_bytes: 50 * GIB, settings }
}

fn dm_writecache(high_watermark: u64, max_age_ms: Option<u64>) -> DmWritecache {
    DmWritecache {
        block_bytes: 4096,
        memory: WritecacheMemory::Ssd,
        high_watermark,
        low_watermark: 45,
        autocommit_blocks: 65_536,
        autocommit_ms: 1000,
        max_age_ms,
        writeback_jobs: None,
        cleaner: false,
    }
}

fn bcache(mode: BcacheMode, bucket_kib: u64, cutoff: u64, percent: u64) -> Bcache {
    Bcache {
        bucket_bytes: bucket_kib << 10,
        block_bytes: 4096,
        mode,
        replacement: BcacheReplacement::Lru,
        sequential_cutoff_bytes: cutoff,
        writeback_percent: percent,
        writeback_delay_s: 30,
        congested_read_us: 0,
        congested_write_us: 0,
    }
}

fn want_bcache(settings: Bcache) -> Recommended {
    Recommended::Bcache {
        device: "bcache0".into(),
        fast: "/dev/nvme0n1p4".into(),
        slow: "/dev/sda".into(),
        size_bytes: 50 * GIB,
        settings,
    }
}

fn has_bcache(settings: Bcache) -> InstalledCache {
    installed("bcache0", 50 * GIB, InstalledKind::Bcache { set: SET.into(), settings })
}

fn open_cas(mode: OpenCasMode, line_kib: u64) -> OpenCas {
    OpenCas {
        line_bytes: line_kib << 10,
        mode,
        promotion: OpenCasPromotion::Nhit { threshold: 3, trigger_percent: 80 },
        cleaning: OpenCasCleaning::Acp { wake_ms: 10, batch: 128 },
        sequential_policy: SequentialPolicy::Full,
        sequential_cutoff_bytes: 1 << 20,
    }
}

fn want_open_cas(settings: OpenCas) -> Recommended {
    Recommended::OpenCas {
        id: 1,
        fast: "/dev/disk/by-id/nvme-1".into(),
        slow: vec!["/dev/disk/by-id/ata-1".into()],
        size_bytes: 50 * GIB,
        settings,
    }
}

fn has_open_cas(settings: OpenCas) -> InstalledCache {
    let core = |id, device: &str| Core { id, device: device.into(), exported: String::new() };
    let cores = vec![core(1, "/dev/disk/by-id/ata-9"), core(3, "/dev/disk/by-id/ata-1")];
    let device = "/dev/nvme0n1".into();
    installed("1", 50 * GIB, InstalledKind::OpenCas { id: 1, device, cores, settings })
}

fn zfs(write_max: u64, dwpd_limit_percent: Option<u64>) -> Zfs {
    Zfs {
        arc_max_bytes: 16 * GIB,
        write_max_bytes: write_max,
        write_boost_bytes: None,
        headroom: 8,
        headroom_boost_percent: 200,
        feed_s: 1,
        no_prefetch: true,
        mfu_only: 0,
        meta_percent: 33,
        dwpd_limit_percent,
        ext_headroom_percent: dwpd_limit_percent.map(|_| 25),
        meta_cycles: dwpd_limit_percent.map(|_| 2),
    }
}

fn want_zfs(settings: Zfs) -> Recommended {
    let (pool, fast) = ("tank".into(), "/dev/nvme0n1p1".into());
    Recommended::Zfs { pool, fast, size_bytes: 400 * GIB, settings }
}

fn has_zfs(size_bytes: u64, settings: Zfs) -> InstalledCache {
    let name = "nvme0n1p2".into();
    let devices = if size_bytes > 0 { vec![CacheDevice { name, size_bytes }] } else { vec![] };
    installed("tank", size_bytes, InstalledKind::Zfs { devices, settings })
}

fn want_toml() -> Recommended {
    Recommended::Thermocline(CacheToml {
        file: "/etc/thermocline/cache.toml".into(),
        backing: "/dev/sda".into(),
        flash: "/dev/nvme0n1p3".into(),
        flash_bytes: 50 * GIB,
        write_budget_gib_per_day: Some(100.0),
        ram_bytes: GIB,
        page_bytes: 4096,
        write_mode: WriteMode::Back,
        policy: "hat".into(),
        parameters: vec![("nonhot_ratio".into(), Parameter::Real(0.2))],
        socket: "/run/thermocline/thermocline.sock".into(),
    })
}

/// Return the shell lines, and what they change.
fn lines(wanted: &Recommended, now: Option<&InstalledCache>) -> (Change, Vec<String>) {
    let commands = commands(wanted, now).unwrap();
    (commands.change, commands.lines().map(str::to_owned).collect())
}

#[test]
fn a_new_dm_cache() {
    let wanted = want_dm_cache(dm_cache(DmCacheMode::Writethrough, 64, 2048));
    let expected = [
        "lvcreate --type cache-pool -L 53687091200b --chunksize 64k -n fast vg /dev/nvme0n1",
        "lvconvert --type cache --cachepool vg/fast --cachemode writethrough --cachepolicy smq \
         --cachesettings migration_threshold=2048 vg/main",
        "lvs -o+cache_mode,chunksize,cache_policy,cache_settings,kernel_cache_settings vg/main",
    ];
    let (change, lines) = lines(&wanted, None);
    assert_eq!(change, Change::Create);
    assert_eq!(lines, expected);
}

#[test]
fn a_dm_cache_changes_in_place_but_for_its_chunks() {
    let settings = dm_cache(DmCacheMode::Writethrough, 64, 2048);
    // lvm rounds sizes to extents.
    let now = |settings| {
        let kind = InstalledKind::DmCache { volume: Some(volume()), settings };
        installed("vg/main", 50 * GIB - (64 << 20), kind)
    };
    let wanted = want_dm_cache(dm_cache(DmCacheMode::Writeback, 64, 4096));
    let (change, ran) = lines(&wanted, Some(&now(settings.clone())));
    assert_eq!(change, Change::InPlace);
    assert_eq!(ran[0], "lvchange --cachemode writeback vg/main");
    assert_eq!(ran[1], "lvchange --cachesettings migration_threshold=4096 vg/main");
    assert_eq!(ran.len(), 3);

    let (change, ran) = lines(&want_dm_cache(settings.clone()), Some(&now(settings.clone())));
    assert_eq!((change, ran.len()), (Change::None, 1));

    let wanted = want_dm_cache(dm_cache(DmCacheMode::Writethrough, 128, 2048));
    let (change, ran) = lines(&wanted, Some(&now(settings)));
    assert_eq!(change, Change::Rebuild);
    assert_eq!(ran[0], "lvconvert --uncache vg/main");
    assert!(ran[1].contains("--chunksize 128k"), "{ran:?}");
}

#[test]
fn a_dm_writecache() {
    let want = |settings| Recommended::DmWritecache {
        volume: lvm_volume(),
        size_bytes: 100 * GIB,
        settings,
    };
    let (change, ran) = lines(&want(dm_writecache(90, Some(60_000))), None);
    assert_eq!(change, Change::Create);
    assert_eq!(ran[0], "lvcreate -n fast -L 107374182400b vg /dev/nvme0n1");
    let expected = "lvconvert --type writecache --cachevol vg/fast --cachesettings \
                    'block_size=4096 high_watermark=90 max_age=60000' vg/main";
    assert_eq!(ran[1], expected);
    let now =
        InstalledKind::DmWritecache { volume: Some(volume()), settings: dm_writecache(50, None) };
    let now = installed("vg/main", 99_500 << 20, now);
    let (change, _) = lines(&want(dm_writecache(90, None)), Some(&now));
    // A size that differs by more than a hundredth.
    assert_eq!(change, Change::Rebuild);
    let now = InstalledCache { size_bytes: 100 * GIB, ..now };
    let (change, ran) = lines(&want(dm_writecache(90, None)), Some(&now));
    assert_eq!(change, Change::InPlace);
    assert_eq!(ran[0], "lvchange --cachesettings high_watermark=90 vg/main");
    // A limit can be set in place, but not unset.
    let kind = InstalledKind::DmWritecache {
        volume: Some(volume()),
        settings: dm_writecache(50, Some(60_000)),
    };
    let aged = InstalledCache { kind, ..now };
    let (change, ran) = lines(&want(dm_writecache(50, Some(9000))), Some(&aged));
    assert_eq!(
        (change, ran[0].as_str()),
        (Change::InPlace, "lvchange --cachesettings max_age=9000 vg/main")
    );
    let (change, ran) = lines(&want(dm_writecache(50, None)), Some(&aged));
    assert_eq!((change, ran[0].as_str()), (Change::Rebuild, "lvconvert --uncache vg/main"));
}

#[test]
fn a_new_bcache() {
    let (change, ran) = lines(&want_bcache(bcache(BcacheMode::Writeback, 512, 8 << 20, 20)), None);
    assert_eq!(change, Change::Create);
    let expected = [
        "make-bcache --bucket 512k --block 4k --cache_replacement_policy=lru --writeback -C \
         /dev/nvme0n1p4 -B /dev/sda",
        "until [ -e /sys/block/bcache0/bcache/cache ]; do sleep 1; done",
        "echo 8M > /sys/block/bcache0/bcache/sequential_cutoff",
        "echo 20 > /sys/block/bcache0/bcache/writeback_percent",
        "echo 0 > /sys/block/bcache0/bcache/cache/congested_read_threshold_us",
        "echo 0 > /sys/block/bcache0/bcache/cache/congested_write_threshold_us",
    ];
    assert_eq!(ran, expected);
}

#[test]
fn a_bcache_changes_in_place_but_for_its_buckets() {
    let now = has_bcache(bcache(BcacheMode::Writethrough, 512, 4 << 20, 10));
    let mut settings = bcache(BcacheMode::Writeback, 512, 0, 10);
    settings.replacement = BcacheReplacement::Fifo;
    let (change, ran) = lines(&want_bcache(settings), Some(&now));
    assert_eq!(change, Change::InPlace);
    let expected = [
        "echo writeback > /sys/block/bcache0/bcache/cache_mode".to_owned(),
        "echo 0 > /sys/block/bcache0/bcache/sequential_cutoff".to_owned(),
        format!("echo fifo > /sys/fs/bcache/{SET}/cache0/cache_replacement_policy"),
    ];
    assert_eq!(ran, expected);
    let same = bcache(BcacheMode::Writethrough, 512, 4 << 20, 10);
    assert_eq!(lines(&want_bcache(same), Some(&now)), (Change::None, vec![]));

    let (change, ran) =
        lines(&want_bcache(bcache(BcacheMode::Writeback, 1024, 4 << 20, 10)), Some(&now));
    assert_eq!(change, Change::Rebuild);
    assert_eq!(ran[0], "echo 1 > /sys/block/bcache0/bcache/detach");
    assert!(ran[1].starts_with("until [ "), "{ran:?}");
    assert_eq!(ran[2], format!("echo 1 > /sys/fs/bcache/{SET}/unregister"));
    assert_eq!(ran[3], format!("while [ -e /sys/fs/bcache/{SET} ]; do sleep 1; done"));
    assert_eq!(ran[4], "wipefs -a /dev/nvme0n1p4");
    // The backing device stays as it is, with its old mode.
    assert!(!ran.iter().any(|line| line.contains("--writeback")), "{ran:?}");
    assert_eq!(ran[8], "until [ -e /sys/block/bcache0/bcache/cache ]; do sleep 1; done");
    assert_eq!(ran[9], "echo writeback > /sys/block/bcache0/bcache/cache_mode");
    assert_eq!(ran[10], "echo 0 > /sys/block/bcache0/bcache/cache/congested_read_threshold_us");
    assert!(!ran.iter().any(|line| line.contains("-B")), "{ran:?}");
    assert!(ran[7].ends_with("> /sys/block/bcache0/bcache/attach"), "{ran:?}");
}

#[test]
fn an_open_cas() {
    let (change, ran) = lines(&want_open_cas(open_cas(OpenCasMode::WriteBack, 4)), None);
    assert_eq!(change, Change::Create);
    let expected = [
        "casadm -S -i 1 -d /dev/disk/by-id/nvme-1 -c wb -x 4",
        "casadm -A -i 1 -j 1 -d /dev/disk/by-id/ata-1",
        "casadm -X -n seq-cutoff -i 1 -p full -t 1024",
        "casadm -X -n promotion -i 1 -p nhit",
        "casadm -X -n promotion-nhit -i 1 -t 3 -o 80",
        "casadm -X -n cleaning -i 1 -p acp",
        "casadm -X -n cleaning-acp -i 1 -w 10 -b 128",
        "casadm -P -i 1",
    ];
    assert_eq!(ran, expected);
    let now = has_open_cas(open_cas(OpenCasMode::WriteBack, 4));
    let mut settings = open_cas(OpenCasMode::WriteThrough, 4);
    settings.cleaning = OpenCasCleaning::Alru {
        wake_s: 20,
        staleness_s: 120,
        batch: 100,
        activity_ms: 10_000,
        dirty_ratio: 100,
        inertia_bytes: 128 << 20,
    };
    let (change, ran) = lines(&want_open_cas(settings), Some(&now));
    assert_eq!(change, Change::InPlace);
    let expected = [
        "casadm -Q -i 1 -c wt -f yes",
        "casadm -X -n cleaning -i 1 -p alru",
        "casadm -X -n cleaning-alru -i 1 -w 20 -s 120 -b 100 -t 10000",
        "casadm -P -i 1",
    ];
    assert_eq!(ran, expected);
    let (change, ran) = lines(&want_open_cas(open_cas(OpenCasMode::WriteBack, 64)), Some(&now));
    assert_eq!(change, Change::Rebuild);
    assert_eq!(&ran[..2], ["casadm -F -i 1", "casadm -T -i 1"]);
    assert!(ran[2].ends_with("-c wb -x 64 -f"), "{ran:?}");
    // The slow device keeps its number, and so the name of its cached device.
    assert_eq!(ran[3], "casadm -A -i 1 -j 3 -d /dev/disk/by-id/ata-1");
}

#[test]
fn a_cache_of_zfs() {
    let (change, ran) =
        lines(&want_zfs(zfs(64 << 20, Some(50))), Some(&has_zfs(0, zfs(1, Some(0)))));
    assert_eq!(change, Change::Create);
    let expected = [
        "zpool add tank cache /dev/nvme0n1p1",
        "echo 67108864 > /sys/module/zfs/parameters/l2arc_write_max",
        "echo 50 > /sys/module/zfs/parameters/l2arc_dwpd_limit",
        "zpool list -v tank",
    ];
    assert_eq!(ran, expected);
    let now = has_zfs(400 * GIB, zfs(8 << 20, None));
    let script = commands(&want_zfs(zfs(64 << 20, Some(50))), Some(&now)).unwrap();
    assert_eq!(script.change, Change::InPlace);
    let text = script.to_string();
    assert!(text.contains("# This release of ZFS has no l2arc_dwpd_limit"), "{text}");
    assert!(text.contains("cat > /etc/modprobe.d/thermocline-zfs.conf <<'END'\noptions zfs "));
    assert!(text.contains(" l2arc_write_max=67108864 ") && !text.contains("l2arc_dwpd_limit="));
    let (change, ran) =
        lines(&want_zfs(zfs(8 << 20, None)), Some(&has_zfs(90 * GIB, zfs(8 << 20, None))));
    assert_eq!(change, Change::Rebuild);
    assert_eq!(&ran[..2], ["zpool remove tank nvme0n1p2", "zpool add tank cache /dev/nvme0n1p1"]);
    let same = lines(&want_zfs(zfs(8 << 20, None)), Some(&now));
    assert_eq!(same.0, Change::None);
}

#[test]
fn our_own_engine() {
    let script = commands(&want_toml(), None).unwrap().to_string();
    for part in [
        "# thermocline serve, checked against Thermocline ",
        "cat > /etc/thermocline/cache.toml <<'END'\npage_size = 4096\nwrite_mode = \"back\"\n",
        "[flash]\npath = \"/dev/nvme0n1p3\"\nsize = 53687091200\nwrite_budget_gib_per_day = 100.0\n",
        "[policy.parameters]\n\"nonhot_ratio\" = 0.2\n",
        "\nEND\n# Serves the cached device over NBD.\nthermocline serve /etc/thermocline/cache.toml\n",
    ] {
        assert!(script.contains(part), "{part} is not in\n{script}");
    }
}

#[test]
fn a_cache_of_another_name_is_not_the_same() {
    for (wanted, now) in all_kinds() {
        let Some(now) = now else { continue };
        let other = InstalledCache { name: "other".into(), ..now };
        assert_eq!(lines(&wanted, Some(&other)).0, Change::Rebuild, "{wanted:?}");
    }
}

#[test]
fn another_kind_is_removed_first_with_a_warning() {
    let kinds = all_kinds();
    for (number, (wanted, _)) in kinds.iter().enumerate() {
        for (other, (_, now)) in kinds.iter().enumerate() {
            let Some(now) = now else { continue };
            let script = commands(wanted, Some(now)).unwrap();
            let is_same = number == other;
            assert_eq!(script.change == Change::Rebuild, !is_same, "{number} {other}");
            let says =
                warnings(&script).first().is_some_and(|text| text.contains("flush and remove"));
            assert_eq!(says, !is_same, "{script}");
        }
    }
}

fn warnings(commands: &Commands) -> Vec<&str> {
    let steps = commands.steps.iter();
    let texts = steps.filter_map(|step| match step {
        Step::Warning { text } => Some(text.as_str()),
        Step::Run { .. } | Step::File { .. } | Step::Note { .. } => None,
    });
    texts.collect()
}

#[test]
fn a_lazy_mode_comes_with_a_warning() {
    let warns = |wanted: &Recommended, now: Option<&InstalledCache>| {
        let script = commands(wanted, now).unwrap();
        warnings(&script).iter().any(|text| text.contains("only copy"))
    };
    for (lazy, mode) in [(false, DmCacheMode::Writethrough), (true, DmCacheMode::Writeback)] {
        assert_eq!(warns(&want_dm_cache(dm_cache(mode, 64, 2048)), None), lazy);
    }
    for (lazy, mode) in [(false, BcacheMode::Writethrough), (true, BcacheMode::Writeback)] {
        let now = has_bcache(bcache(BcacheMode::Writearound, 512, 0, 10));
        assert_eq!(warns(&want_bcache(bcache(mode, 512, 0, 10)), Some(&now)), lazy);
        assert_eq!(warns(&want_bcache(bcache(mode, 512, 0, 10)), None), lazy);
    }
    for (lazy, mode) in [(false, OpenCasMode::WriteAround), (true, OpenCasMode::WriteOnly)] {
        let now = has_open_cas(open_cas(OpenCasMode::WriteThrough, 4));
        assert_eq!(warns(&want_open_cas(open_cas(mode, 4)), Some(&now)), lazy);
        assert_eq!(warns(&want_open_cas(open_cas(mode, 4)), None), lazy);
    }
    assert!(!warns(&want_zfs(zfs(1, None)), None));
}

/// Return each kind as it is recommended, and as it is installed with other settings.
fn all_kinds() -> Vec<(Recommended, Option<InstalledCache>)> {
    let settings = dm_cache(DmCacheMode::Writethrough, 64, 2048);
    let cached = InstalledKind::DmCache { volume: Some(volume()), settings };
    let settings = dm_writecache(50, None);
    let writecached = InstalledKind::DmWritecache { volume: Some(volume()), settings };
    vec![
        (
            want_dm_cache(dm_cache(DmCacheMode::Writeback, 64, 2048)),
            Some(installed("vg/main", 50 * GIB, cached)),
        ),
        (
            Recommended::DmWritecache {
                volume: lvm_volume(),
                size_bytes: 50 * GIB,
                settings: dm_writecache(90, None),
            },
            Some(installed("vg/main", 50 * GIB, writecached)),
        ),
        (
            want_bcache(bcache(BcacheMode::Writeback, 512, 0, 10)),
            Some(has_bcache(bcache(BcacheMode::None, 512, 0, 10))),
        ),
        (
            want_open_cas(open_cas(OpenCasMode::WriteBack, 4)),
            Some(has_open_cas(open_cas(OpenCasMode::WriteAround, 4))),
        ),
        (want_zfs(zfs(64 << 20, None)), Some(has_zfs(400 * GIB, zfs(8 << 20, None)))),
        (want_toml(), None),
    ]
}

#[test]
fn every_script_is_one_for_a_shell_and_json() {
    for (wanted, _) in all_kinds() {
        for (_, now) in all_kinds() {
            let script = commands(&wanted, now.as_ref()).unwrap();
            let json = serde_json::to_value(&script).unwrap();
            assert!(json["steps"].as_array().is_some_and(|steps| !steps.is_empty()), "{json}");
            assert!(json["checked_against"].is_string() && json["change"].is_string());
            let output = Command::new("sh").args(["-n", "-c", &script.to_string()]).output();
            let Ok(output) = output else {
                println!("skipped: there is no sh");
                return;
            };
            assert!(output.status.success(), "{script}\n{output:?}");
        }
    }
}

#[test]
fn what_a_program_would_refuse_is_an_error() {
    let refuse = |wanted: &Recommended| commands(wanted, None).unwrap_err().to_string();
    let error = refuse(&want_dm_cache(dm_cache(DmCacheMode::Writeback, 48, 2048)));
    assert_eq!(error, "a chunk size of 48k is not possible: give a multiple of 32k from 32k to 1g");
    assert!(
        refuse(&want_dm_cache(dm_cache(DmCacheMode::Writeback, 64, 1))).contains("lvm sets 2048")
    );
    assert!(refuse(&want_bcache(bcache(BcacheMode::None, 500, 0, 10))).contains("powers of two"));
    assert!(refuse(&want_bcache(bcache(BcacheMode::None, 512, 0, 41))).contains("0 to 40"));
    assert!(refuse(&want_open_cas(open_cas(OpenCasMode::WriteBack, 12))).contains("64k"));
    let Recommended::Zfs { fast, size_bytes, settings, .. } = want_zfs(zfs(1, None)) else {
        unreachable!()
    };
    for (pool, expected) in [("-f", "option"), ("", "empty"), ("a\0b", "NUL")] {
        let (fast, settings) = (fast.clone(), settings.clone());
        let wanted = Recommended::Zfs { pool: pool.into(), fast, size_bytes, settings };
        assert!(refuse(&wanted).contains(expected), "{pool:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The shell hands every program the names as they are.
    #[test]
    fn names_reach_programs_as_they_are(
        names in prop::collection::vec("[^\0-][^\0]{0,12}|[$`'\"\\\\ \n;&|<>*(){}#~=]{1,9}", 4),
    ) {
        let [group, main, fast, fast_volume] = <[String; 4]>::try_from(names).unwrap();
        let volume = LvmVolume {
            group: group.clone(),
            volume: main.clone(),
            fast: fast.clone(),
            fast_volume: fast_volume.clone(),
        };
        let settings = dm_cache(DmCacheMode::Writeback, 64, 2048);
        let wanted = Recommended::DmCache { volume, size_bytes: 50 * GIB, settings };
        let script = commands(&wanted, None).unwrap();
        let prelude = "lvcreate() { printf '%s\\0' \"$@\"; }\nlvconvert() { lvcreate \"$@\"; }\n\
                       lvs() { lvcreate \"$@\"; }\nPATH=/nowhere\n";
        let output = Command::new("sh").arg("-c").arg(format!("{prelude}{script}")).output();
        let Ok(output) = output else {
            println!("skipped: there is no sh");
            return Ok(());
        };
        prop_assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let words: Vec<_> = text.split('\0').collect();
        prop_assert_eq!(&words[7..10], [fast_volume.as_str(), &group, &fast]);
        prop_assert_eq!(words[13], format!("{group}/{fast_volume}"));
        let full_name = format!("{group}/{main}");
        prop_assert_eq!(words[words.len() - 2], full_name.as_str());
    }
}
