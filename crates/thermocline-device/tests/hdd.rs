//! The hard disk against closed forms, published means, a naive scheduler and bad input.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use thermocline_core::Nanos;
use thermocline_device::hdd::{Hdd, HddConfig, HddError, Scheduling, WriteCache, Zone};
use thermocline_device::queueing::{Completion, DeviceOp, DeviceRequest, Ticket};

const PAGE_BYTES: u32 = 4096;

/// Numbers that look random and are the same everywhere (`SplitMix64`).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn preset(name: &str) -> HddConfig {
    HddConfig::preset(name).unwrap()
}

/// Return the mechanism alone: no cache, no overhead, first come first served.
fn bare(config: HddConfig) -> HddConfig {
    HddConfig {
        command_overhead_ms: 0.0,
        cache_bytes: 0,
        cache_segments: 0,
        read_ahead_bytes: 0,
        write_cache: WriteCache::WriteThrough,
        scheduling: Scheduling::Fcfs,
        ..config
    }
}

/// 2 heads, 400 + 400 cylinders of 64 and 32 sectors; tracks hold whole pages.
fn small() -> HddConfig {
    HddConfig {
        capacity_bytes: 2 * 400 * (64 + 32) * 512,
        zones: vec![
            Zone { cylinders: 400, sectors_per_track: 64 },
            Zone { cylinders: 400, sectors_per_track: 32 },
        ],
        ..preset("st380011a")
    }
}

fn disk(config: &HddConfig) -> Hdd {
    Hdd::new(config, PAGE_BYTES.into()).unwrap()
}

fn request(op: DeviceOp, page: u64, pages: u32) -> DeviceRequest {
    DeviceRequest { op, page, pages }
}

fn read(page: u64) -> DeviceRequest {
    request(DeviceOp::Read, page, 1)
}

fn drain(disk: &mut Hdd) -> Vec<Completion> {
    let mut completed = vec![];
    while let Some(at) = disk.next_event() {
        disk.advance(at, &mut completed);
    }
    disk.assert_invariants();
    completed
}

/// Keeps `depth` requests outstanding; the time from first arrival to last completion, in seconds.
fn closed_loop(
    disk: &mut Hdd,
    depth: usize,
    requests: impl IntoIterator<Item = DeviceRequest>,
) -> f64 {
    let mut requests = requests.into_iter();
    let mut completed = vec![];
    for request in requests.by_ref().take(depth) {
        disk.submit(Nanos(0), request).unwrap();
    }
    let mut last_ns = 0;
    while let Some(at) = disk.next_event() {
        disk.advance(at, &mut completed);
        for completion in completed.drain(..) {
            last_ns = completion.at.0;
            if let Some(request) = requests.next() {
                disk.submit(completion.at, request).unwrap();
            }
        }
    }
    disk.assert_invariants();
    last_ns as f64 / 1e9
}

fn random_reads(disk: &Hdd, count: usize) -> Vec<DeviceRequest> {
    let mut random = Random(7);
    (0..count).map(|_| read(random.below(disk.capacity_pages()))).collect()
}

#[track_caller]
fn assert_close(found: f64, expected: f64, tolerance: f64, what: &str) {
    let error = found / expected - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {found} instead of {expected} ({error:+.4})");
}

#[test]
fn a_random_read_takes_a_seek_half_a_turn_and_its_transfer() {
    for (name, sectors_per_track) in [("st380011a", 1046.0), ("exos-x18", 3492.0)] {
        let config = bare(preset(name));
        let mut disk = disk(&config);
        let reads = random_reads(&disk, 20_000);
        closed_loop(&mut disk, 1, reads);
        let metrics = disk.metrics();
        let turn_ms = 60e3 / f64::from(config.rotations_per_minute);
        let expected_ms =
            config.average_seek_ms + turn_ms / 2.0 + turn_ms * 8.0 / sectors_per_track;
        assert_close(metrics.read_response_us.mean / 1e3, expected_ms, 0.02, name);
        let mean_ms = |ns: u64| ns as f64 / 20_000.0 / 1e6;
        assert_close(mean_ms(metrics.rotation_ns), turn_ms / 2.0, 0.02, "rotation");
        assert_close(mean_ms(metrics.seek_ns), config.average_seek_ms, 0.03, "seek");
    }
}

/// Results of DiskSim 4.0 for random 4 KiB reads, one at a time; its means of seek, rotation and
/// transfer, and of the whole, with controller and bus overhead as the rest.
struct DiskSim {
    name: &'static str,
    rotations_per_minute: u32,
    heads: u32,
    cylinders: u32,
    /// Single-track, average and full-stroke seek.
    seek_ms: [f64; 3],
    parts_ms: [f64; 3],
    mean_ms: f64,
}

#[test]
fn random_reads_take_as_long_as_in_disksim() {
    let drives = [
        DiskSim {
            name: "Cheetah 15K.5",
            rotations_per_minute: 15_020,
            heads: 4,
            cylinders: 72_170,
            seek_ms: [0.5525, 3.79, 6.91],
            parts_ms: [3.757, 2.002, 0.042],
            mean_ms: 5.80,
        },
        DiskSim {
            name: "Cheetah 9LP",
            rotations_per_minute: 10_045,
            heads: 12,
            cylinders: 6962,
            seek_ms: [0.831, 5.47, 10.63],
            parts_ms: [5.42, 2.99, 0.31],
            mean_ms: 9.64,
        },
        DiskSim {
            name: "Atlas 10K",
            rotations_per_minute: 10_025,
            heads: 6,
            cylinders: 10_042,
            seek_ms: [1.245, 5.60, 10.83],
            parts_ms: [5.56, 2.98, 0.19],
            mean_ms: 9.38,
        },
        DiskSim {
            name: "Barracuda ST32171W",
            rotations_per_minute: 7200,
            heads: 5,
            cylinders: 5172,
            seek_ms: [1.943, 9.33, 16.68],
            parts_ms: [9.09, 4.18, 0.48],
            mean_ms: 15.08,
        },
    ];
    for drive in drives {
        let config = drive.config();
        let mut disk = disk(&config);
        let reads = random_reads(&disk, 20_000);
        closed_loop(&mut disk, 1, reads);
        let metrics = disk.metrics();
        let found = [metrics.seek_ns, metrics.rotation_ns].map(|ns| ns as f64 / 20_000.0 / 1e6);
        for (found, expected) in found.iter().zip(drive.parts_ms) {
            assert_close(*found, expected, 0.05, drive.name);
        }
        assert_close(metrics.read_response_us.mean / 1e3, drive.mean_ms, 0.05, drive.name);
    }
}

impl DiskSim {
    /// Return a drive with two zones of equal width. The inner zone has 2/3 of the sectors, and the mean
    /// transfer rate is the drive's.
    fn config(&self) -> HddConfig {
        let turn_ms = 60e3 / f64::from(self.rotations_per_minute);
        let mean_sectors = 8.0 * turn_ms / self.parts_ms[2];
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a track has some hundreds of sectors"
        )]
        let [outer, inner] = [1.2, 0.8].map(|share| (mean_sectors * share) as u32);
        let zones = [outer, inner]
            .map(|sectors_per_track| Zone { cylinders: self.cylinders / 2, sectors_per_track });
        let half_tracks = u64::from(self.cylinders / 2 * self.heads);
        let [single, average, full] = self.seek_ms;
        HddConfig {
            capacity_bytes: half_tracks * u64::from(outer + inner) * 512,
            rotations_per_minute: self.rotations_per_minute,
            heads: self.heads,
            zones: zones.to_vec(),
            single_track_seek_ms: single,
            average_seek_ms: average,
            full_stroke_seek_ms: full,
            interface_mb_per_s: 1000.0,
            command_overhead_ms: (self.mean_ms - self.parts_ms.iter().sum::<f64>()).max(0.0),
            ..bare(preset("st380011a"))
        }
    }
}

/// MB/s of one read of `pages` from `page` on, less the time before its first sector.
fn sustained_mb_per_s(config: &HddConfig, page: u64, pages: u32) -> f64 {
    let mut disk = disk(&bare(config.clone()));
    disk.submit(Nanos(0), request(DeviceOp::Read, page, pages)).unwrap();
    drain(&mut disk);
    f64::from(pages) * f64::from(PAGE_BYTES) * 1e3 / disk.metrics().transfer_ns as f64
}

#[test]
fn a_long_read_has_the_media_rate_of_its_zone() {
    let config = preset("st380011a");
    let turn_s = 60.0 / f64::from(config.rotations_per_minute);
    let no_switch =
        HddConfig { head_switch_ms: 0.0, single_track_seek_ms: 0.001, ..config.clone() };
    let (mut first_sector, mut outer_rate) = (0, f64::INFINITY);
    for zone in &config.zones {
        let page = first_sector / 8 + 1;
        let media = f64::from(zone.sectors_per_track) * 512.0 / turn_s / 1e6;
        assert_close(sustained_mb_per_s(&no_switch, page, 16_384), media, 0.02, "media rate");
        let switches_s = (config.head_switch_ms + config.single_track_seek_ms) / 1e3;
        let expected = media * 2.0 * turn_s / (2.0 * turn_s + switches_s);
        let found = sustained_mb_per_s(&config, page, 16_384);
        assert_close(found, expected, 0.02, "with switches");
        assert!(found < outer_rate, "outer zones are faster");
        outer_rate = found;
        first_sector += 2 * u64::from(zone.cylinders) * u64::from(zone.sectors_per_track);
    }
}

#[test]
fn the_presets_have_the_rates_of_their_data_sheets() {
    let whole_disk = u32::try_from(156_301_488_u64 / 8).unwrap();
    let barracuda = preset("st380011a");
    assert_close(sustained_mb_per_s(&barracuda, 0, whole_disk), 58.0, 0.01, "average sustained");
    let outermost = f64::from(barracuda.zones[0].sectors_per_track) * 512.0 * 120.0 * 8.0 / 1e6;
    assert!(outermost < 683.0, "{outermost} Mbit/s");
    let gigabyte = 1_000_000_000 / PAGE_BYTES;
    assert_close(sustained_mb_per_s(&preset("exos-x18"), 0, gigabyte), 270.0, 0.01, "exos");
}

#[test]
fn reordering_gives_more_requests_per_second() {
    for name in ["st380011a", "exos-x18"] {
        let rate = |scheduling| {
            let mut disk = disk(&HddConfig { scheduling, ..bare(preset(name)) });
            let reads = random_reads(&disk, 5000);
            5000.0 / closed_loop(&mut disk, 16, reads)
        };
        let [fcfs, sstf, c_look] =
            [Scheduling::Fcfs, Scheduling::Sstf, Scheduling::CLook].map(rate);
        assert!(sstf > 1.2 * fcfs && c_look > 1.2 * fcfs, "{name}: {fcfs} {sstf} {c_look}");
    }
}

#[test]
fn the_elevator_leaves_nobody_waiting_as_long_as_the_nearest_first() {
    let longest_wait_us = |scheduling| {
        let mut disk = disk(&HddConfig { scheduling, ..bare(preset("st380011a")) });
        let (pages, mut random) = (disk.capacity_pages(), Random(3));
        let reads = (0..5000).map(|index| {
            let is_far = index % 50 == 0;
            read(if is_far { random.below(pages) } else { pages / 2 + random.below(pages / 50) })
        });
        closed_loop(&mut disk, 16, reads);
        disk.metrics().read_response_us.max
    };
    let [sstf, c_look] = [Scheduling::Sstf, Scheduling::CLook].map(longest_wait_us);
    assert!(2.0 * c_look < sstf, "{c_look} {sstf}");
}

#[test]
fn read_ahead_makes_small_sequential_reads_as_fast_as_the_medium() {
    for name in ["st380011a", "exos-x18"] {
        let with = preset(name);
        let without = HddConfig { read_ahead_bytes: 0, ..with.clone() };
        let count = 5000;
        let rate = |config: &HddConfig| {
            let mut disk = disk(config);
            let seconds = closed_loop(&mut disk, 1, (0..count).map(read));
            (count as f64 * f64::from(PAGE_BYTES) / 1e6 / seconds, disk.metrics())
        };
        let ((fast, metrics), (slow, _)) = (rate(&with), rate(&without));
        assert!(fast > 20.0 * slow, "{name}: {fast} {slow}");
        let hits = metrics.read_hits + metrics.read_ahead_hits;
        assert!(hits > count * 99 / 100, "{metrics:?}");
        // The interface and the command overhead limit an answer from the cache.
        let answer_s = with.command_overhead_ms / 1e3 + 4096e-6 / with.interface_mb_per_s;
        let limit = (4096e-6 / answer_s).min(sustained_mb_per_s(&with, 0, 5000));
        assert_close(fast, limit, 0.1, name);
    }
}

#[test]
fn a_reader_that_pauses_finds_what_was_read_ahead() {
    let mut disk = disk(&preset("st380011a"));
    let mut completed = vec![];
    for page in 0..500 {
        let at = Nanos(page * 2_000_000 + 50_000_000);
        disk.submit(at, read(page)).unwrap();
    }
    while let Some(at) = disk.next_event() {
        disk.advance(at, &mut completed);
    }
    let metrics = disk.metrics();
    assert!(metrics.read_hits > 490, "{metrics:?}");
    assert!(metrics.read_ahead_ns > 0 && metrics.busy_ns < 20_000_000, "{metrics:?}");
}

#[test]
fn what_was_read_is_read_again_from_the_cache_until_it_is_written() {
    let mut disk = disk(&HddConfig { write_cache: WriteCache::WriteThrough, ..small() });
    let mut at_ns = 0;
    let mut hits_after = |op| {
        disk.submit(Nanos(at_ns), request(op, 5, 2)).unwrap();
        drain(&mut disk);
        at_ns += 1_000_000_000;
        disk.advance(Nanos(at_ns), &mut vec![]);
        disk.metrics().read_hits
    };
    let ops = [DeviceOp::Read, DeviceOp::Read, DeviceOp::Trim, DeviceOp::Read, DeviceOp::Write];
    assert_eq!(ops.map(&mut hits_after), [0, 1, 1, 2, 2]);
    assert_eq!([DeviceOp::Read, DeviceOp::Read].map(hits_after), [2, 3]);
}

#[test]
fn the_write_cache_answers_at_once_until_its_bound_and_then_cleans() {
    let config = HddConfig { write_cache_bytes: 64 << 10, ..small() };
    let mut disk = disk(&config);
    let mut random = Random(1);
    // 16 pages fit; further ones wait until the medium took some.
    for _ in 0..20 {
        let page = random.below(disk.capacity_pages());
        disk.submit(Nanos(0), request(DeviceOp::Write, page, 1)).unwrap();
    }
    let mut completed = vec![];
    disk.advance(Nanos(1_000_000), &mut completed);
    assert_eq!(completed.len(), 16);
    disk.assert_invariants();
    assert_eq!(drain(&mut disk).len(), 4);
    let metrics = disk.metrics();
    assert_eq!((metrics.buffered_writes, metrics.cleanings), (20, 20));
    assert!(metrics.write_response_us.p50 < 1000.0 && metrics.write_response_us.max > 4000.0);

    let through = HddConfig { write_cache: WriteCache::WriteThrough, ..config };
    let mut through = self::disk(&through);
    through.submit(Nanos(0), request(DeviceOp::Write, 700, 1)).unwrap();
    drain(&mut through);
    assert_eq!(through.metrics().buffered_writes, 0);
    assert!(through.metrics().write_response_us.p50 > 1000.0);
}

#[test]
fn small_sequential_writes_reach_the_medium_together() {
    let config = preset("st380011a");
    let mut disk = disk(&config);
    let count = 10_000;
    let writes = (0..count).map(|page| request(DeviceOp::Write, page, 1));
    let seconds = closed_loop(&mut disk, 1, writes);
    // A command per 4 KiB is slower than the medium, so the host never waits for room.
    let answer_s = config.command_overhead_ms / 1e3 + 4096e-6 / config.interface_mb_per_s;
    assert_close(seconds, answer_s * count as f64, 0.1, "seconds");
    assert!(disk.metrics().cleanings < count / 10, "{:?}", disk.metrics());
}

#[test]
fn buffered_data_is_read_from_the_cache_and_long_writes_pass_it_by() {
    let mut disk = disk(&small());
    disk.submit(Nanos(0), request(DeviceOp::Write, 100, 4)).unwrap();
    disk.submit(Nanos(1_000_000), request(DeviceOp::Read, 101, 2)).unwrap();
    let long = (2 << 20) / PAGE_BYTES;
    disk.submit(Nanos(2_000_000), request(DeviceOp::Write, 0, long)).unwrap();
    assert_eq!(drain(&mut disk).len(), 3);
    let metrics = disk.metrics();
    assert_eq!((metrics.read_hits, metrics.buffered_writes), (1, 1));
    assert_eq!((metrics.pages_read, metrics.pages_written), (2, 4 + u64::from(long)));
}

#[test]
fn a_write_that_waits_for_room_gets_it_from_a_long_write_that_replaces_the_rest() {
    let mut disk = disk(&HddConfig { write_cache_bytes: 64 << 10, ..small() });
    // The head is busy, so that nothing is cleaned meanwhile.
    disk.submit(Nanos(0), request(DeviceOp::Read, 9000, 64)).unwrap();
    for (page, pages) in [(20, 16), (100, 16), (10, 40)] {
        disk.submit(Nanos(1000), request(DeviceOp::Write, page, pages)).unwrap();
    }
    assert_eq!(drain(&mut disk).len(), 4);
    assert_eq!(disk.metrics().cleanings, 2, "the second write, half a buffer at a time");
}

#[test]
fn what_arrives_together_is_scheduled_together() {
    for (scheduling, expected) in [
        (Scheduling::Fcfs, [0, 1, 2]),
        (Scheduling::Sstf, [2, 1, 0]),
        (Scheduling::CLook, [2, 1, 0]),
    ] {
        let mut disk = disk(&HddConfig { scheduling, ..bare(small()) });
        for page in [9000, 5000, 100] {
            disk.submit(Nanos(0), read(page)).unwrap();
        }
        let order: Vec<u64> = drain(&mut disk).iter().map(|done| done.ticket.0).collect();
        assert_eq!(order, expected, "{scheduling:?}");
    }
}

#[test]
fn the_next_track_costs_a_switch_of_heads_and_the_next_cylinder_a_seek() {
    let spent_ns = |pages: &[u64]| {
        let mut disk = disk(&bare(small()));
        closed_loop(&mut disk, 1, pages.iter().map(|&page| read(page)));
        let metrics = disk.metrics();
        (metrics.seek_ns, metrics.rotation_ns)
    };
    // The last page of a track and of a cylinder, then its neighbour, which comes without a wait.
    assert_eq!(spent_ns(&[7, 8]), (800_000, spent_ns(&[7]).1));
    assert_eq!(spent_ns(&[15, 16]), (1_800_000, spent_ns(&[15]).1));
}

#[test]
fn a_random_write_settles_longer_than_a_read() {
    let mut disk = disk(&bare(preset("st380011a")));
    let reads = random_reads(&disk, 20_000);
    closed_loop(&mut disk, 1, reads.clone());
    let mut written = self::disk(&bare(preset("st380011a")));
    let writes = reads.into_iter().map(|read| DeviceRequest { op: DeviceOp::Write, ..read });
    closed_loop(&mut written, 1, writes);
    let settle_us = written.metrics().write_response_us.mean - disk.metrics().read_response_us.mean;
    assert_close(settle_us, 1000.0, 0.1, "settle");
}

#[test]
fn what_read_ahead_promised_is_kept_when_another_request_arrives() {
    let mut disk = disk(&HddConfig { command_overhead_ms: 0.0, ..small() });
    disk.submit(Nanos(0), read(0)).unwrap();
    let mut completed = vec![];
    disk.advance(Nanos(20_000_000), &mut completed);
    // 47 pages are about 6 turns of this disk, of which 1 or 2 have been read ahead.
    disk.submit(Nanos(20_000_000), request(DeviceOp::Read, 1, 47)).unwrap();
    disk.submit(Nanos(21_000_000), read(9000)).unwrap();
    disk.advance(Nanos(21_000_000), &mut completed);
    disk.assert_invariants();
    completed.extend(drain(&mut disk));
    let order: Vec<u64> = completed.iter().map(|done| done.ticket.0).collect();
    assert_eq!(order, [0, 1, 2]);
    let metrics = disk.metrics();
    assert_eq!((metrics.read_hits, metrics.read_ahead_hits), (0, 1));
    assert!(completed[1].at.0 > 45_000_000, "{completed:?}");
}

#[test]
fn a_read_that_begins_in_a_segment_may_end_in_what_is_read_ahead() {
    let mut disk = disk(&small());
    disk.submit(Nanos(0), read(0)).unwrap();
    // Interrupts the read-ahead somewhere in a page.
    disk.submit(Nanos(21_234_567), read(9000)).unwrap();
    // A hit, after which the arm returns to read on.
    disk.submit(Nanos(300_000_000), read(1)).unwrap();
    disk.submit(Nanos(305_000_000), request(DeviceOp::Read, 2, 39)).unwrap();
    assert_eq!(drain(&mut disk).len(), 4);
    let metrics = disk.metrics();
    assert_eq!((metrics.read_hits, metrics.read_ahead_hits), (1, 1));
}

#[test]
fn a_flood_of_reads_does_not_starve_a_write_that_waits_for_room() {
    let mut disk = disk(&HddConfig { write_cache_bytes: 4096, ..small() });
    let reads = random_reads(&disk, 500);
    for read in reads {
        disk.submit(Nanos(0), read).unwrap();
    }
    for page in [100, 5000, 9000] {
        disk.submit(Nanos(0), request(DeviceOp::Write, page, 1)).unwrap();
    }
    drain(&mut disk);
    let metrics = disk.metrics();
    assert!(metrics.read_response_us.max > 4e6, "{metrics:?}");
    assert!(metrics.write_response_us.max < 2e5, "{metrics:?}");
}

#[test]
fn reads_and_writes_both_make_progress_when_both_want_the_medium() {
    let mut disk = disk(&HddConfig { write_cache_bytes: 4096, ..small() });
    let mut random = Random(9);
    let pages = disk.capacity_pages();
    let requests = (0..2000).map(|index| {
        let op = if index % 2 == 0 { DeviceOp::Read } else { DeviceOp::Write };
        request(op, random.below(pages), 1)
    });
    closed_loop(&mut disk, 32, requests);
    let metrics = disk.metrics();
    assert!(
        metrics.read_response_us.max < 2e6 && metrics.write_response_us.max < 2e6,
        "{metrics:?}"
    );
}

#[test]
fn metrics_are_a_flat_object_with_units() {
    let json = serde_json::to_value(disk(&small()).metrics()).unwrap();
    for key in ["requests", "read_hits", "busy_ns", "seek_ns", "rotation_ns", "transfer_ns"] {
        assert_eq!(json[key], 0, "{key}");
    }
    for key in ["mean", "p50", "p95", "p99", "p999", "max"] {
        assert!(json["read_response_us"][key].is_number(), "{key}");
    }
}

#[test]
fn presets_survive_toml() {
    for config in HddConfig::presets() {
        config.check().unwrap();
        assert!(!config.source.is_empty() && !config.summary.is_empty());
        let text = toml::to_string(config).unwrap();
        assert_eq!(HddConfig::from_toml(&text).unwrap(), *config);
    }
    let unknown = HddConfig::from_toml("colour = \"red\"").unwrap_err().to_string();
    assert!(unknown.contains("colour"), "{unknown}");
    assert!(matches!(HddConfig::from_toml("["), Err(HddError::BadFile { .. })));
    let nobody = HddConfig::preset("st1").unwrap_err().to_string();
    assert!(nobody.contains("st380011a, exos-x18"), "{nobody}");
}

#[test]
fn bad_settings_are_refused_with_the_permitted_range() {
    type Change = fn(&mut HddConfig);
    let changes: [(Change, &str); 24] = [
        (|c| c.sector_bytes = 0, "512, 1024, 2048 or 4096"),
        (|c| c.rotations_per_minute = 0, "600 to 60000"),
        (|c| c.heads = 0, "1 to 64"),
        (|c| c.zones.clear(), "1 to 256"),
        (|c| c.zones[0].cylinders = 0, "1 to 4000000"),
        (|c| c.zones[0].cylinders = u32::MAX, "1 to 4000000"),
        (|c| c.zones[0].sectors_per_track = 0, "1 to 1000000"),
        (|c| c.zones[1].sectors_per_track = 65, "at most 64"),
        (|c| c.zones.iter_mut().for_each(|zone| zone.cylinders = 2), "8 to 4000000"),
        (|c| c.capacity_bytes = 0, "512 to 39321600"),
        (|c| c.capacity_bytes = 1000, "multiple of the sector"),
        (|c| c.capacity_bytes = u64::MAX, "512 to 39321600"),
        (|c| c.single_track_seek_ms = 0.0, "0.000001 to 100"),
        (|c| c.single_track_seek_ms = f64::NAN, "0.000001 to 100"),
        (|c| c.full_stroke_seek_ms = 0.5, "1 to 1000"),
        (|c| c.average_seek_ms = 15.0, "single-track and full-stroke"),
        (|c| c.average_seek_ms = f64::INFINITY, "single-track and full-stroke"),
        (|c| c.head_switch_ms = -1.0, "0 to 100"),
        (|c| c.write_settle_ms = 1e9, "0 to 100"),
        (|c| c.command_overhead_ms = f64::NAN, "0 to 100"),
        (|c| c.interface_mb_per_s = 1.0, "3.93"),
        (|c| c.write_cache_bytes = 3 << 20, "512 to 2097152"),
        (|c| c.cache_segments = 4000, "0 to 3072"),
        (|c| c.read_ahead_bytes = 1 << 20, "0 to 393216"),
    ];
    for (index, (change, permitted)) in changes.iter().enumerate() {
        let mut config = small();
        change(&mut config);
        let error = Hdd::new(&config, PAGE_BYTES.into()).unwrap_err();
        assert!(matches!(error, HddError::BadSetting { .. }), "{index}: {error:?}");
        assert!(error.to_string().contains(permitted), "{index}: {error}");
    }
    for page_size_bytes in [0, 1, 700, 1 << 31, u64::MAX] {
        let error = Hdd::new(&small(), page_size_bytes).unwrap_err();
        assert!(error.to_string().contains("multiples of 512 up to 39321600"), "{error}");
    }
}

#[test]
fn bad_requests_are_refused_and_leave_no_trace() {
    let mut disk = disk(&small());
    let capacity_pages = disk.capacity_pages();
    disk.advance(Nanos(1000), &mut vec![]);
    let mut refusal = |at, page, pages| {
        let error = disk.submit(Nanos(at), request(DeviceOp::Read, page, pages)).unwrap_err();
        disk.assert_invariants();
        assert_eq!(disk.next_event(), None);
        error
    };
    assert_eq!(refusal(1000, 4, 0), HddError::EmptyRequest { page: 4 });
    for (page, pages) in [(capacity_pages, 1), (0, u32::MAX), (u64::MAX, 1), (u64::MAX, u32::MAX)] {
        let expected = HddError::BeyondDisk { page, pages, capacity_pages };
        assert_eq!(refusal(1000, page, pages), expected);
    }
    assert!(matches!(refusal(999, 0, 1), HddError::BadTime { least_ns: 1000, .. }));
    assert!(matches!(refusal(u64::MAX, 0, 1), HddError::BadTime { .. }));
    assert!(disk.cylinder_of(capacity_pages).is_err());
    assert_eq!(disk.submit(Nanos(1000), read(capacity_pages - 1)), Ok(Ticket(0)));
    assert_eq!(disk.cylinder_of(capacity_pages - 1), Ok(799));
}

/// A request and when it arrives, in microseconds.
type Arrival = (u64, DeviceRequest);

fn arrivals(pages: u64, most: usize) -> impl Strategy<Value = Vec<Arrival>> {
    let op = prop_oneof![
        5 => Just(DeviceOp::Read),
        5 => Just(DeviceOp::Write),
        1 => Just(DeviceOp::Trim)
    ];
    let page = prop_oneof![0..pages, (pages / 2)..(pages / 2 + 64)];
    let arrival = (0_u64..200_000, op, page, 1_u32..40).prop_map(move |(at, op, page, count)| {
        let count = u64::from(count).min(pages - page);
        (at, request(op, page, u32::try_from(count).unwrap()))
    });
    prop::collection::vec(arrival, 0..most)
}

fn schedulings() -> impl Strategy<Value = Scheduling> {
    prop_oneof![Just(Scheduling::Fcfs), Just(Scheduling::Sstf), Just(Scheduling::CLook)]
}

/// Submits everything up front and advances in steps; 0 for from event to event.
fn run(config: &HddConfig, arrivals: &[Arrival], step_us: u64) -> (Vec<Completion>, Hdd) {
    let mut disk = disk(config);
    for &(at_us, request) in arrivals {
        disk.submit(Nanos(at_us * 1000), request).unwrap();
    }
    let (mut completed, mut at_ns) = (vec![], 0);
    while let Some(next) = disk.next_event() {
        at_ns = if step_us == 0 { next.0 } else { at_ns + step_us * 1000 };
        disk.advance(Nanos(at_ns), &mut completed);
        disk.assert_invariants();
    }
    (completed, disk)
}

/// Return the order in which a naive scheduler without cache serves requests, given when each ends.
fn naive_order(config: &HddConfig, arrivals: &[Arrival], ends: &[u64]) -> Vec<usize> {
    let disk = disk(config);
    let cylinder = |page| disk.cylinder_of(page).unwrap();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "overheads are small and positive"
    )]
    let overhead_ns = (config.command_overhead_ms * 1e6) as u64;
    let mut waiting: Vec<(u64, usize)> = (arrivals.iter().enumerate())
        .filter(|(_, (_, request))| request.op != DeviceOp::Trim)
        .map(|(index, (at_us, _))| (at_us * 1000 + overhead_ns, index))
        .collect();
    waiting.sort_unstable();
    let (mut order, mut now_ns, mut at_cylinder, mut at_page) = (vec![], 0, 0, 0);
    while let Some(&(first_ns, _)) = waiting.first() {
        now_ns = first_ns.max(now_ns);
        let ready = waiting.iter().take_while(|(ready_ns, _)| *ready_ns <= now_ns).enumerate();
        let page = |index: usize| arrivals[index].1.page;
        let next = match config.scheduling {
            Scheduling::Fcfs => 0,
            Scheduling::Sstf => {
                let key = |index: usize| {
                    let target: u64 = cylinder(page(index));
                    (target.abs_diff(at_cylinder), target)
                };
                ready.min_by_key(|(_, (_, index))| key(*index)).unwrap().0
            }
            Scheduling::CLook => {
                let key = |index: usize| (page(index) < at_page, page(index));
                ready.min_by_key(|(_, (_, index))| key(*index)).unwrap().0
            }
        };
        let (_, index) = waiting.remove(next);
        let DeviceRequest { page, pages, .. } = arrivals[index].1;
        at_page = page + u64::from(pages);
        at_cylinder = cylinder(at_page - 1);
        now_ns = ends[index];
        order.push(index);
    }
    order
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_request_completes_once_and_not_before_it_arrives(
        arrivals in arrivals(9600, 80),
        scheduling in schedulings(),
        write_cache_pages in 0_u64..64,
        cache_segments in 0_u32..4,
        read_ahead_pages in 0_u64..32,
    ) {
        let write_cache =
            if write_cache_pages == 0 { WriteCache::WriteThrough } else { WriteCache::WriteBack };
        let read_ahead_bytes = if cache_segments == 0 { 0 } else { read_ahead_pages * 4096 };
        let write_cache_bytes = write_cache_pages * 4096;
        let config = HddConfig {
            scheduling,
            write_cache,
            write_cache_bytes,
            cache_segments,
            read_ahead_bytes,
            cache_bytes: write_cache_bytes + u64::from(cache_segments) * 32 * 4096,
            ..small()
        };
        let (completed, disk) = run(&config, &arrivals, 0);
        let mut tickets: Vec<u64> = completed.iter().map(|done| done.ticket.0).collect();
        tickets.sort_unstable();
        prop_assert_eq!(tickets, (0..arrivals.len() as u64).collect::<Vec<_>>());
        prop_assert!(completed.is_sorted_by_key(|done| done.at));
        for done in &completed {
            let index = usize::try_from(done.ticket.0).unwrap();
            prop_assert!(done.at.0 >= arrivals[index].0 * 1000 + 100_000);
        }
        prop_assert_eq!(disk.metrics().requests, arrivals.len() as u64);

        let (again, same) = run(&config, &arrivals, 777);
        prop_assert_eq!(again, completed, "steps do not matter");
        prop_assert_eq!(same.metrics(), disk.metrics());
    }

    #[test]
    fn the_order_is_the_schedulers(arrivals in arrivals(9600, 60), scheduling in schedulings()) {
        let config =
            HddConfig { scheduling, command_overhead_ms: 0.1, ..bare(small()) };
        let (completed, _) = run(&config, &arrivals, 0);
        let mut ends = vec![0; arrivals.len()];
        let mut order = vec![];
        for done in &completed {
            let index = usize::try_from(done.ticket.0).unwrap();
            ends[index] = done.at.0;
            if arrivals[index].1.op != DeviceOp::Trim {
                order.push(index);
            }
        }
        prop_assert_eq!(naive_order(&config, &arrivals, &ends), order);
    }
}

/// A flush is answered when the medium has what the write cache held; writes wait for it meanwhile.
#[test]
fn a_flush_waits_for_the_medium() {
    let write = |page| request(DeviceOp::Write, page, 1);
    let config = preset("st380011a");
    let run = |requests: &[(u64, DeviceRequest)]| {
        let mut disk = disk(&config);
        for &(at, request) in requests {
            disk.submit(Nanos(at), request).unwrap();
        }
        let completed = drain(&mut disk);
        (completed, disk.metrics())
    };
    let (alone, metrics) = run(&[(0, write(5_000_000))]);
    assert_eq!((metrics.buffered_writes, metrics.cleanings), (1, 1));
    let cleaned_ns = alone[0].at.0 + metrics.busy_ns;
    let flush = (200_000, DeviceRequest::FLUSH);
    let (found, metrics) = run(&[(0, write(5_000_000)), flush, (300_000, write(1))]);
    let ticket = |completion: &Completion| completion.ticket.0;
    let by_ticket: Vec<u64> = found.iter().map(ticket).collect();
    assert_eq!(
        by_ticket,
        [0, 1, 2],
        "the later write does not enter the cache before the flush ends"
    );
    assert!(found[1].at.0.abs_diff(cleaned_ns) < 100_000, "{found:?}, {cleaned_ns}");
    assert_eq!(metrics.flushes, 1);
    let overhead = run(&[(0, DeviceRequest::FLUSH)]).0;
    assert_eq!(overhead[0].at, Nanos(100_000), "nothing is to be written");
}
