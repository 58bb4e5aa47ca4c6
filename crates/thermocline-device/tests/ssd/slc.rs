//! A cache of one bit per cell: closed forms of the burst, of folding and of idle time, and what must hold.

use thermocline_core::Nanos;
use thermocline_device::queueing::{DeviceOp, DeviceRequest};
use thermocline_device::ssd::{
    Mapping, Placement, Precondition, SlcCache, Ssd, SsdConfig, WriteCompletes,
};

use super::{
    Random, apply_all, assert_close, closed_loop, drain, drive, read, request, run, tiny,
    uniform_writes, wide, write,
};

/// Add a pseudo-SLC cache of four blocks of 4 pages, which are read in 5 us and programmed in 20 us; three
/// can be filled.
fn cached(base: SsdConfig) -> SsdConfig {
    let cache = SlcCache {
        blocks_per_plane: 4,
        bits_per_cell: 4,
        read_us: 5.0,
        program_us: 20.0,
        fold_after_us: None,
    };
    SsdConfig { slc_cache: Some(cache), gc_threshold: 0.0, ..base }
}

#[test]
fn writes_are_fast_until_the_cache_is_full_and_then_pay_for_folding() {
    let config = cached(tiny());
    let mut one = drive(&config);
    let writes: Vec<_> = (0..20).map(|page| (0, write(page))).collect();
    let took: Vec<u64> = {
        let completed = run(&mut one, &writes);
        let times = completed.iter().map(|&(_, at)| at);
        times.clone().zip([0].into_iter().chain(times)).map(|(at, before)| at - before).collect()
    };
    // 1 us on the bus and 20 in the cells.
    assert_eq!(took[..12], [21_000; 12]);
    // Then a page is read (5 and 1), programmed (1 and 100) and makes room for the next (1 and 20).
    assert_eq!(took[12..15], [128_000; 3]);
    // The fourth ends a block, which is erased in 1 ms.
    assert_eq!(took[15], 1_128_000);
    assert_eq!(took[16..19], [128_000; 3]);
    let metrics = one.metrics();
    assert_eq!((metrics.slc_programs, metrics.slc_erases), (20, 2));
    assert_eq!((metrics.host_programs, metrics.erase_count), (8, 0));
    assert!((metrics.write_amplification - 8.0 / 20.0).abs() < 1e-9);
}

#[test]
fn bandwidth_drops_from_that_of_one_bit_to_that_of_folding() {
    // Sequential writes that fit, and many more than that, on 8 dies of two planes.
    let base = SsdConfig { multi_plane: false, queue_depth: 256, blocks_per_plane: 512, ..wide() };
    let config = cached(base);
    let planes = 16;
    let fit = planes * 12;
    let burst = closed_loop(&mut drive(&config), 64, (0..fit).map(write)) / fit as f64;
    assert_close(burst, 21_000.0 / 8.0, 0.05, "burst");
    let pages = planes * 2000;
    let took = closed_loop(&mut drive(&config), 64, (0..pages).map(write)) / pages as f64;
    // Each page is programmed, read and programmed again, and a quarter of an erase makes room for it.
    assert_close(took, (128_000.0 + 250_000.0) / 8.0, 0.05, "folding");
}

#[test]
fn what_is_written_again_in_the_cache_is_not_folded() {
    let config = cached(tiny());
    let mut one = drive(&config);
    apply_all(&mut one, (0..120).map(|turn| write(turn % 3)));
    one.assert_invariants();
    let metrics = one.metrics();
    assert_eq!((metrics.host_programs, metrics.slc_programs), (0, 120));
    apply_all(&mut one, [request(DeviceOp::Trim, 0, 3)]);
    apply_all(&mut one, (10..30).map(write));
    assert_eq!(one.metrics().host_programs, 8, "what was trimmed is not folded");
    assert_eq!(one.flash_page_of(1).unwrap(), None);
    let first_of_cache = 64 * 16;
    assert!(one.flash_page_of(10).unwrap().unwrap() < first_of_cache);
    assert!(one.flash_page_of(29).unwrap().unwrap() >= first_of_cache);
}

#[test]
fn reads_take_the_time_of_the_cells_that_have_the_page() {
    let mut one = drive(&cached(tiny()));
    apply_all(&mut one, (0..13).map(write));
    let completed = run(&mut one, &[(0, read(12)), (1_000_000, read(0)), (2_000_000, read(500))]);
    assert_eq!(completed, [(0, 6000), (1, 1_011_000), (2, 2_000_000)]);
    assert_eq!(one.metrics().unmapped_reads, 1);
}

#[test]
fn an_idle_drive_folds_until_something_comes() {
    let mut config = cached(tiny());
    let cache = config.slc_cache.as_mut().unwrap();
    cache.fold_after_us = Some(1000.0);
    let mut one = drive(&config);
    let writes: Vec<_> = (0..3).map(|page| (0, write(page))).collect();
    for &(at, request) in &writes {
        one.submit(Nanos(at), request).unwrap();
    }
    let mut completed = vec![];
    one.advance(Nanos(63_000 + 999_999), &mut completed).unwrap();
    assert_eq!((completed.len(), one.metrics().host_programs), (3, 0));
    assert_eq!(one.next_event(), Some(Nanos(1_063_000)));
    // Each fold takes 107 us; the second is under way when a write comes, which waits for it.
    one.submit(Nanos(1_063_000 + 150_000), write(7)).unwrap();
    one.advance(Nanos(1_063_000 + 1_000_000), &mut completed).unwrap();
    assert_eq!(completed[3].at, Nanos(1_063_000 + 214_000 + 21_000));
    assert_eq!(one.metrics().host_programs, 2, "the time begins anew");
    drain(&mut one);
    assert_eq!((one.metrics().host_programs, one.next_event()), (4, None));
    let mut never = drive(&cached(tiny()));
    run(&mut never, &writes);
    assert_eq!(never.metrics().host_programs, 0);
}

#[test]
fn a_prepared_drive_has_an_empty_cache() {
    let config = cached(tiny());
    let mut one = drive(&config);
    one.precondition(&Precondition { fill: 1.0, overwrite: 2.0, seed: 3 }).unwrap();
    one.assert_invariants();
    let completed = run(&mut one, &(0..12).map(|page| (0, write(page))).collect::<Vec<_>>());
    assert_eq!(completed[11].1, 12 * 21_000);
}

/// All in all, behind a buffer or not, with physical pages of several pages or not.
#[test]
fn random_requests_complete_and_pages_stay_in_one_place() {
    for (pages_per_program, completes) in [
        (1, WriteCompletes::Program),
        (4, WriteCompletes::Program),
        (4, WriteCompletes::Buffer),
        (1, WriteCompletes::Transfer),
    ] {
        let is_buffered = completes == WriteCompletes::Buffer;
        let mut config = SsdConfig {
            pages_per_program,
            write_completes: completes,
            write_buffer_bytes: if is_buffered { 1_000_000 } else { 0 },
            cache_register: true,
            ..cached(SsdConfig { pages_per_block: 32, ..wide() })
        };
        for fold_after_us in [None, Some(200.0)] {
            if let Some(cache) = &mut config.slc_cache {
                cache.fold_after_us = fold_after_us;
            }
            let mut one = drive(&config);
            one.precondition(&Precondition::default()).unwrap();
            let (mut random, pages) = (Random(5), one.logical_pages());
            for at in 0..3000 {
                let page = random.below(pages - 5);
                let count = u32::try_from(1 + random.below(4)).unwrap();
                let op = match at % 8 {
                    0..5 => DeviceOp::Write,
                    5..7 => DeviceOp::Read,
                    _ => DeviceOp::Trim,
                };
                one.submit(Nanos(at * 40_000), request(op, page, count)).unwrap();
            }
            assert_eq!(drain(&mut one).len(), 3000);
        }
    }
}

#[test]
fn memory_stays_below_16_bytes_per_flash_page() {
    let config = cached(SsdConfig { blocks_per_plane: 512, pages_per_block: 256, ..wide() });
    let drive = drive(&config);
    let flash_pages = config.logical_pages() as f64 / (1.0 - config.over_provisioning);
    let bytes = drive.memory_bytes() as f64 / flash_pages;
    assert!(bytes < 16.0, "{bytes}");
}

#[test]
fn what_cannot_be_is_refused() {
    let good = cached(tiny());
    let cache = good.slc_cache.unwrap();
    let with = |cache: SlcCache| SsdConfig { slc_cache: Some(cache), ..good.clone() };
    for (wrong, expected) in [
        (with(SlcCache { blocks_per_plane: 1, ..cache }), "slc_cache.blocks_per_plane"),
        (with(SlcCache { bits_per_cell: 6, ..cache }), "slc_cache.bits_per_cell"),
        (with(SlcCache { read_us: -1.0, ..cache }), "slc_cache.read_us"),
        (with(SlcCache { program_us: f64::NAN, ..cache }), "slc_cache.program_us"),
        (with(SlcCache { fold_after_us: Some(-1.0), ..cache }), "slc_cache.fold_after_us"),
        (SsdConfig { pages_per_block: 2, ..good.clone() }, "pages_per_block"),
        (SsdConfig { read_us: vec![1.0; 16], ..good.clone() }, "read_us"),
        (SsdConfig { mapping: Mapping::Bast, ..good.clone() }, "slc_cache"),
        (SsdConfig { placement: Some(Placement::of(2)), ..good.clone() }, "slc_cache"),
    ] {
        let error = wrong.validate().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let text = toml::to_string(&good).unwrap();
    assert_eq!(SsdConfig::from_toml(&text).unwrap(), good);
    assert!(SsdConfig::presets().iter().all(|preset| preset.slc_cache.is_none()));
    let mut full: Ssd = drive(&SsdConfig { gc_threshold: 0.1, ..good });
    let pages = full.logical_pages();
    apply_all(&mut full, uniform_writes(pages, 20_000, 9).collect::<Vec<DeviceRequest>>());
    full.assert_invariants();
}
