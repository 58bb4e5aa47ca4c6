//! Mapping units of several pages: what a write of a part of one costs.

use thermocline_device::queueing::DeviceOp;
use thermocline_device::ssd::{Mapping, Placement, Precondition, SsdConfig, WriteCompletes};

use super::{Random, apply_all, assert_close, drain, drive, request, run, tiny, wide, write};

fn with_units(pages: u32, base: SsdConfig) -> SsdConfig {
    SsdConfig { mapping_unit_pages: pages, ..base }
}

/// A page of a unit costs its unit, and garbage collection goes as with pages that are as large as units.
#[test]
fn single_pages_cost_their_units() {
    // Collected only when a block is opened, and so never between the pages of a unit.
    let base = SsdConfig { gc_threshold: 0.0, ..tiny() };
    for unit in [2, 4, 16] {
        let mut one = drive(&with_units(unit, base.clone()));
        let whole = SsdConfig { pages_per_block: 16 / unit, ..base.clone() };
        if unit == 16 {
            // A block has at least two pages.
            one.precondition(&Precondition { fill: 1.0, overwrite: 0.0, seed: 0 }).unwrap();
            one.apply(write(5)).unwrap();
            assert_eq!((one.metrics().host_programs, one.metrics().unit_reads), (16, 15));
            continue;
        }
        let mut large = drive(&whole);
        assert_eq!(one.logical_pages(), large.logical_pages() * u64::from(unit));
        let mut random = Random(3);
        let units: Vec<u64> = (0..20_000).map(|_| random.below(large.logical_pages())).collect();
        for each in [&mut one, &mut large] {
            each.precondition(&Precondition { fill: 1.0, overwrite: 0.0, seed: 0 }).unwrap();
        }
        apply_all(&mut large, units.iter().map(|&page| write(page)));
        let within = |index: usize| index as u64 % u64::from(unit);
        let pages = units.iter().enumerate().map(|(at, page)| page * u64::from(unit) + within(at));
        apply_all(&mut one, pages.map(write));
        one.assert_invariants();
        let (one, large) = (one.metrics(), large.metrics());
        let unit = u64::from(unit);
        assert_eq!(one.host_writes, large.host_writes);
        assert_eq!(one.host_programs, unit * one.host_writes);
        assert_eq!(one.unit_reads, (unit - 1) * one.host_writes);
        assert_eq!((one.gc_copies, one.erase_count), (unit * large.gc_copies, large.erase_count));
        let expected = unit as f64 * large.write_amplification;
        assert_close(one.write_amplification, expected, 1e-12, "write amplification");
    }
}

/// Runs of r pages at any place touch (r - 1) / k + 1 units of k pages on average.
#[test]
fn runs_at_any_place_touch_one_unit_more_or_less() {
    let config = SsdConfig { blocks_per_plane: 256, ..tiny() };
    for (unit, pages) in [(4, 1), (4, 3), (4, 8), (16, 5)] {
        let mut one = drive(&with_units(unit, config.clone()));
        one.precondition(&Precondition { fill: 1.0, overwrite: 0.0, seed: 0 }).unwrap();
        let mut random = Random(9);
        let places = one.logical_pages() - u64::from(pages);
        let starts = (0..20_000).map(|_| random.below(places));
        apply_all(&mut one, starts.map(|first| request(DeviceOp::Write, first, pages)));
        let metrics = one.metrics();
        let found = metrics.host_programs as f64 / metrics.host_writes as f64;
        let (k, r) = (f64::from(unit), f64::from(pages));
        assert_close(found, (r - 1.0 + k) / r, 0.01, "programs per page");
    }
}

#[test]
fn whole_units_cost_nothing_more() {
    for base in [tiny(), wide()] {
        let base = SsdConfig { placement: Some(Placement::of(2)), over_provisioning: 0.5, ..base };
        let (mut single, mut units) = (drive(&base), drive(&with_units(8, base.clone())));
        let mut random = Random(4);
        let requests: Vec<_> = (0..4000)
            .map(|at| {
                let first = random.below(single.logical_pages() / 8) * 8;
                let op = if at % 7 == 0 { DeviceOp::Trim } else { DeviceOp::Write };
                (at * 1_000_000, request(op, first, 8))
            })
            .collect();
        assert_eq!(run(&mut single, &requests), run(&mut units, &requests));
        assert_eq!(single.metrics(), units.metrics());
        assert!(units.metrics().erase_count > 0);
    }
}

/// The rest is read, and then all is programmed: 3 reads of 11 us and 4 programs of 101 us.
#[test]
fn a_part_takes_its_reads_and_programs() {
    let mut one = drive(&with_units(4, tiny()));
    one.precondition(&Precondition { fill: 1.0, overwrite: 0.0, seed: 0 }).unwrap();
    assert_eq!(run(&mut one, &[(0, write(9))]), [(0, 437_000)]);
    // The unit of a page that was never written has nothing to read.
    let mut fresh = drive(&with_units(4, tiny()));
    assert_eq!(run(&mut fresh, &[(0, write(9))]), [(0, 404_000)]);
    assert!(fresh.flash_page_of(11).unwrap().is_some(), "all of it is written");
    assert!(fresh.flash_page_of(12).unwrap().is_none());
    // A trim of a part keeps the unit.
    fresh.apply(request(DeviceOp::Trim, 8, 3)).unwrap();
    assert!(fresh.flash_page_of(8).unwrap().is_some());
    fresh.apply(request(DeviceOp::Trim, 7, 5)).unwrap();
    assert!(fresh.flash_page_of(8).unwrap().is_none());
    assert_eq!(fresh.metrics().host_trims, 8);
    fresh.assert_invariants();
}

/// The buffer takes units, and has given them all back at the end.
#[test]
fn the_buffer_holds_whole_units() {
    let base = SsdConfig {
        write_completes: WriteCompletes::Buffer,
        write_buffer_bytes: 16 * 1000,
        ..tiny()
    };
    let mut one = drive(&with_units(8, base));
    one.precondition(&Precondition { fill: 1.0, overwrite: 0.0, seed: 0 }).unwrap();
    let mut random = Random(2);
    let requests: Vec<_> = (0..2000)
        .map(|at| {
            let first = random.below(one.logical_pages() - 20);
            let pages = 1 + u32::try_from(random.below(20)).unwrap();
            (at * 3_000_000, request(DeviceOp::Write, first, pages))
        })
        .collect();
    assert_eq!(run(&mut one, &requests).len(), 2000);
    assert_eq!(drain(&mut one), []);
    let metrics = one.metrics();
    assert!(metrics.host_programs > metrics.host_writes && metrics.unit_reads > 0);
}

#[test]
fn blocks_are_mapped_without_units() {
    let config = with_units(4, SsdConfig { mapping: Mapping::Block, ..tiny() });
    let error = config.validate().unwrap_err().to_string();
    assert!(error.contains("mapping_unit_pages") && error.contains("page mapping"), "{error}");
}
