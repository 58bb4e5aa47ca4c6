//! Presets, sizes, and what is refused.

use thermocline_core::Nanos;
use thermocline_device::queueing::{DeviceOp, QueueingDevice, QueueingError};
use thermocline_device::ssd::{Mapping, Precondition, Ssd, SsdConfig, SsdError};

use super::{drive, preset, read, request, tiny, write};

#[test]
fn presets_are_whole_drives() {
    let gigabytes = [
        ("ssdsim", 3.87),
        ("slc-2008", 29.2),
        ("mlc-sata-2011", 64.0),
        ("tlc-nvme", 1000.4),
        ("qlc-nvme", 959.9),
        ("tlc-nvme-2025", 959.9),
        ("qlc-nvme-2025", 959.9),
    ];
    for (name, expected) in gigabytes {
        let found = preset(name).logical_bytes() as f64 / 1e9;
        assert!((found / expected - 1.0).abs() < 2e-3, "{name}: {found} GB");
    }
    for config in SsdConfig::presets() {
        assert_eq!(preset(&config.name), *config);
        let text = toml::to_string(config).unwrap();
        assert_eq!(SsdConfig::from_toml(&text).unwrap(), *config, "TOML goes both ways");
    }
    let error = SsdConfig::preset("floppy").unwrap_err().to_string();
    assert!(error.contains("ssdsim") && error.contains("qlc-nvme"), "{error}");
}

#[test]
fn a_size_is_reached_and_hardly_exceeded() {
    for config in SsdConfig::presets() {
        for pages in [1, 1000, 123_456, 5_000_000] {
            let sized = config.sized_for(pages).unwrap();
            sized.validate().unwrap();
            assert!(sized.logical_pages() >= pages, "{}", config.name);
            let fewer = SsdConfig { blocks_per_plane: sized.blocks_per_plane - 1, ..sized };
            assert!(fewer.validate().is_err() || fewer.logical_pages() < pages);
        }
        let error = config.sized_for(1 << 40).unwrap_err().to_string();
        assert!(error.contains("at most"), "{error}");
    }
}

#[test]
fn bad_settings_are_refused_with_the_range() {
    type Change = fn(&mut SsdConfig);
    let changes: [(Change, &str, &str); 24] = [
        (|c| c.channels = 0, "channels", "1 to 64"),
        (|c| c.chips_per_channel = 65, "chips_per_channel", "1 to 64"),
        (|c| c.dies_per_chip = 0, "dies_per_chip", "1 to 16"),
        (|c| c.planes_per_die = 9, "planes_per_die", "1 to 8"),
        (|c| c.blocks_per_plane = 7, "blocks_per_plane", "8 to 1048576"),
        (|c| c.pages_per_block = 1, "pages_per_block", "2 to 16384"),
        (|c| c.page_bytes = 0, "page_bytes", "256 to 1048576"),
        (|c| c.over_provisioning = 0.0, "over_provisioning", "0.0645 to 0.9"),
        (|c| c.over_provisioning = -1.0, "over_provisioning", "0.0645 to 0.9"),
        (|c| c.over_provisioning = f64::NAN, "over_provisioning", "0.0645 to 0.9"),
        (|c| c.over_provisioning = 0.06, "over_provisioning", "0.0645 to 0.9"),
        (|c| c.read_us = vec![], "read_us", "1 to 16"),
        (|c| c.program_us = vec![1.0, -1.0], "program_us", "0 to 1000000"),
        (|c| c.erase_us = f64::INFINITY, "erase_us", "0 to 1000000"),
        (|c| c.bus_ns_per_byte = f64::NAN, "bus_ns_per_byte", "0 to 1000"),
        (|c| c.queue_depth = 0, "queue_depth", "1 to 65536"),
        (|c| c.order = "CWDD".into(), "order", "as in CWDP"),
        (|c| c.gc_threshold = 1.0, "gc_threshold", "0 to 0.9"),
        (|c| c.mapping_unit_pages = 3, "mapping_unit_pages", "a power of two"),
        (|c| c.mapping_unit_pages = 32, "mapping_unit_pages", "1 to 16"),
        (|c| c.streams = 3, "streams", "1 to 2"),
        (|c| c.streams = 2, "streams", "1 without a hot-data identifier"),
        (|c| c.erase_limit = 0, "erase_limit", "1 to"),
        (|c| c.initial_bad_blocks = 0.6, "initial_bad_blocks", "0 to 0.5"),
    ];
    for (change, name, permitted) in changes {
        let mut config = tiny();
        change(&mut config);
        let error = Ssd::new(&config, None).unwrap_err().to_string();
        assert!(error.contains(&format!("`{name}`")) && error.contains(permitted), "{error}");
    }
    let less = SsdConfig { over_provisioning: 0.0630, ..tiny() };
    assert!(less.validate().is_err());
    assert!(SsdConfig { over_provisioning: 0.0645, ..tiny() }.validate().is_ok());
    let logs = SsdConfig { mapping: Mapping::Bast, log_blocks_per_plane: 62, ..tiny() };
    let error = logs.validate().unwrap_err().to_string();
    assert!(error.contains("bad or reserved"), "{error}");
}

#[test]
fn a_file_says_where_it_is_wrong() {
    let text = toml::to_string(&tiny()).unwrap();
    assert_eq!(SsdConfig::from_toml(&text).unwrap(), tiny());
    for wrong in [format!("{text}\ncolour = 1"), text.replace("channels = 1", ""), "x".into()] {
        let error = SsdConfig::from_toml(&wrong).unwrap_err();
        assert!(matches!(&error, SsdError::BadFile { reason } if reason.contains("line")));
    }
}

#[test]
fn requests_out_of_range_leave_no_trace() {
    let mut one = drive(&tiny());
    let last = one.logical_pages() - 1;
    assert_eq!(one.capacity_pages(), last + 1);
    let expected = format!("pages 0 to {last}");
    for (page, pages) in [(last + 1, 1), (last, 2), (u64::MAX, 1), (1 << 32, 1)] {
        let request = request(DeviceOp::Write, page, pages);
        for error in [one.submit(Nanos(0), request).unwrap_err(), one.apply(request).unwrap_err()] {
            assert!(error.to_string().contains(&expected), "{error}");
        }
    }
    let nothing = request(DeviceOp::Read, 1, 0);
    assert!(matches!(one.submit(Nanos(0), nothing), Err(SsdError::EmptyRequest { page: 1 })));
    one.advance(Nanos(10), &mut vec![]).unwrap();
    for at in [9, u64::MAX] {
        let error = one.submit(Nanos(at), read(0)).unwrap_err().to_string();
        assert!(error.contains("10 ns to"), "{error}");
    }
    let boxed: &mut dyn QueueingDevice = &mut one;
    assert!(matches!(boxed.submit(Nanos(9), write(0)), Err(QueueingError::Ssd(_))));
    assert_eq!((one.next_event(), one.metrics().host_writes), (None, 0));
    one.prefetch(u64::MAX);
    one.assert_invariants();
}

#[test]
fn a_state_of_use_has_a_range() {
    for (fill, overwrite, name) in [
        (1.1, 0.0, "fill"),
        (f64::NAN, 0.0, "fill"),
        (0.5, -1.0, "overwrite"),
        (0.5, 1e9, "overwrite"),
    ] {
        let wanted = Precondition { fill, overwrite, seed: 0 };
        let error = drive(&tiny()).precondition(&wanted).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("0 to"), "{error}");
    }
    let mut one = drive(&tiny());
    one.precondition(&Precondition { fill: 0.0, overwrite: 5.0, seed: 0 }).unwrap();
    assert_eq!(one.metrics().block_erases.max, 0, "nothing is written over if nothing is there");
    one.precondition(&Precondition { fill: 1.0, overwrite: 2.0, seed: 0 }).unwrap();
    let metrics = one.metrics();
    assert_eq!((metrics.host_writes, metrics.erase_count, metrics.gc_copies), (0, 0, 0));
    assert!(metrics.block_erases.mean > 1.0, "garbage collection ran: {metrics:?}");
    assert!((0..one.logical_pages()).all(|page| one.flash_page_of(page).unwrap().is_some()));
    one.assert_invariants();
}
