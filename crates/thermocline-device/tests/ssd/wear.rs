//! Wear: how it spreads, and how a drive ends; and streams, which save it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use thermocline_core::hotness::registry;
use thermocline_core::{Heat, Identifier, Nanos, PageId};
use thermocline_device::queueing::DeviceOp;
use thermocline_device::ssd::{
    GcBlocks, Mapping, Precondition, Ssd, SsdConfig, SsdError, SsdMetrics, Victim,
};

use super::gc::{greedy_amplification, skewed_writes};
use super::{
    apply_all, assert_close, drain, drive, read, request, tiny, uniform_writes, wide, write,
};

/// Return the metrics after nine tenths of the pages were written once, and the rest often.
fn worn(config: &SsdConfig) -> SsdMetrics {
    let mut drive = drive(config);
    drive.precondition(&Precondition { fill: 1.0, ..Precondition::FRESH }).unwrap();
    let hot = drive.logical_pages() / 10;
    apply_all(&mut drive, uniform_writes(hot, 100_000, 1));
    drive.assert_invariants();
    drive.metrics()
}

#[test]
fn static_wear_levelling_narrows_the_spread() {
    let never = worn(&tiny());
    let often = worn(&SsdConfig { static_wear_threshold: 10, ..tiny() });
    let seldom = worn(&SsdConfig { static_wear_threshold: 100, ..tiny() });
    assert_eq!((never.wear_copies, never.block_erases.min), (0, 0), "cold data stay: {never:?}");
    for (metrics, threshold) in [(&often, 10), (&seldom, 100)] {
        let erases = metrics.block_erases;
        assert!(erases.max - erases.min <= threshold + 2, "{metrics:?}");
        assert!(metrics.wear_copies > 0 && erases.stdev < never.block_erases.stdev / 2.0);
    }
    // Cold data come to lie in the most worn blocks, and stay there for a while.
    let cold = tiny().logical_pages() * 9 / 10;
    assert!(seldom.wear_copies < 2 * cold, "{seldom:?}");
    assert!(often.wear_copies > seldom.wear_copies);
    assert!(often.block_erases.stdev < seldom.block_erases.stdev);
    let erases = often.block_erases;
    let mean = often.erase_count as f64 / often.blocks as f64;
    assert!((erases.mean - mean).abs() < 1e-9);
    // No distribution between two ends is wider than half of it at each.
    assert!(erases.stdev > 0.0 && erases.stdev <= f64::from(erases.max - erases.min) / 2.0);
}

#[test]
fn cold_data_move_once_the_spread_exceeds_the_threshold() {
    for threshold in [2, 5, 20] {
        let mut drive = drive(&SsdConfig { static_wear_threshold: threshold, ..tiny() });
        // Every block is erased, and all alike.
        for _ in 0..5 {
            drive.precondition(&Precondition { fill: 1.0, ..Precondition::FRESH }).unwrap();
        }
        assert!(drive.metrics().block_erases.min > 0, "{:?}", drive.metrics());
        let mut spread = 0;
        for request in uniform_writes(drive.logical_pages() / 10, 100_000, 1) {
            drive.apply(request).unwrap();
            let metrics = drive.metrics();
            if metrics.wear_copies > 0 {
                break;
            }
            spread = metrics.block_erases.max - metrics.block_erases.min;
        }
        assert_eq!(spread, threshold, "with {threshold} nothing moved yet");
        drive.assert_invariants();
    }
}

#[test]
fn dynamic_wear_levelling_prefers_fresh_blocks() {
    // Hot blocks are worn equally if the least worn one is next.
    let spread = |dynamic_wear| {
        let config = SsdConfig { dynamic_wear, ..tiny() };
        let mut drive = drive(&config);
        let pages = drive.logical_pages();
        apply_all(&mut drive, uniform_writes(pages, 200_000, 1));
        drive.metrics().block_erases
    };
    let (with, without) = (spread(true), spread(false));
    assert!((with.mean - without.mean).abs() < 0.02 * with.mean, "{with:?} {without:?}");
    assert!(with.stdev < 0.8 * without.stdev, "{with:?} {without:?}");
}

#[test]
fn a_worn_out_drive_says_so_once_and_can_be_read() {
    for mapping in [Mapping::Page, Mapping::Block, Mapping::Bast] {
        let config = SsdConfig { mapping, erase_limit: 20, over_provisioning: 0.4, ..wide() };
        let mut drive = drive(&config);
        let mut writes = uniform_writes(drive.logical_pages(), usize::MAX, 5);
        let mut completed = vec![];
        let error = loop {
            let at = drive.next_event().unwrap_or(Nanos(0));
            if let Err(error) = drive.advance(at, &mut completed) {
                break error;
            }
            if drive.next_event().is_none_or(|next| next > at) {
                drive.submit(at, writes.next().unwrap()).unwrap();
            }
        };
        let SsdError::WornOut { erases, host_writes } = error else { panic!("{error}") };
        let text = format!("worn out after {erases} erases / {host_writes} host pages written");
        assert_eq!(error.to_string(), text);
        let metrics = drive.metrics();
        assert_eq!((metrics.erase_count, metrics.host_writes), (erases, host_writes));
        // Spare blocks were used up, 20 erases each.
        assert!(metrics.retired_blocks > 20, "{metrics:?}");
        assert!(erases >= u64::from(metrics.retired_blocks) * 20);
        assert_eq!(metrics.block_erases.max, 20);
        drive.assert_invariants();
        assert_eq!(drive.next_event(), None, "what was outstanding is dropped");
        drive.advance(Nanos(u64::MAX / 4), &mut completed).unwrap();
        assert_eq!(drive.submit(Nanos(u64::MAX / 4), write(0)), Err(error.clone()));
        assert_eq!(drive.apply(write(0)), Err(error.clone()));
        assert_eq!(drive.precondition(&Precondition::default()), Err(error));
        drive.submit(Nanos(u64::MAX / 4), read(0)).unwrap();
        assert_eq!(drain(&mut drive).len(), 1);
        drive.apply(request(DeviceOp::Trim, 0, 1)).unwrap();
    }
}

#[test]
fn bad_blocks_leave_less_to_wear() {
    let last = |initial_bad_blocks| {
        let config = SsdConfig { erase_limit: 30, initial_bad_blocks, ..tiny() };
        let mut drive = drive(&config);
        let retired = drive.metrics().retired_blocks;
        let mut writes = uniform_writes(drive.logical_pages(), usize::MAX, 5);
        loop {
            if let Err(error) = drive.apply(writes.next().unwrap()) {
                let SsdError::WornOut { host_writes, .. } = error else { panic!("{error}") };
                drive.assert_invariants();
                break (retired, host_writes);
            }
        }
    };
    let (whole, damaged) = (last(0.0), last(0.1));
    assert_eq!((whole.0, damaged.0), (0, 6));
    assert!(damaged.1 < whole.1 * 4 / 5, "{damaged:?} {whole:?}");
}

#[test]
fn a_projection_of_life_agrees_with_the_end() {
    let config = SsdConfig { erase_limit: 400, static_wear_threshold: 20, ..tiny() };
    let mut drive = drive(&config);
    let pages = drive.logical_pages();
    drive.precondition(&Precondition { fill: 1.0, overwrite: 2.0, seed: 3 }).unwrap();
    apply_all(&mut drive, uniform_writes(pages, 50_000, 1));
    let projected = drive.metrics().lifetime(50_000.0).unwrap();
    let mut writes = uniform_writes(pages, usize::MAX, 5);
    let error = loop {
        if let Err(error) = drive.apply(writes.next().unwrap()) {
            break error;
        }
    };
    let SsdError::WornOut { host_writes, .. } = error else { panic!("{error}") };
    // A page takes a second and has 1000 bytes.
    let found = projected.tbw * 1e9 / host_writes as f64;
    assert!((found - 1.0).abs() < 0.1, "{projected:?} against {host_writes}");
    assert!((projected.days * 86_400.0 / host_writes as f64 - found).abs() < 1e-6);
}

/// Knows which pages are hot: the first ones.
#[derive(Debug)]
struct Oracle {
    hot_pages: u32,
    resets: Arc<AtomicU32>,
}

impl Identifier for Oracle {
    fn record(&mut self, page: PageId) -> Heat {
        self.heat(page)
    }

    fn hotness(&self, page: PageId) -> f64 {
        f64::from(u8::from(page.0 < self.hot_pages))
    }

    fn threshold(&self) -> f64 {
        1.0
    }

    fn decay_writes(&self) -> Option<u64> {
        None
    }

    fn decay(&mut self) {}

    fn reset(&mut self) {
        self.resets.fetch_add(1, Ordering::Relaxed);
    }

    fn memory_bits(&self) -> u64 {
        32
    }

    fn assert_invariants(&self) {}
}

/// Return the share of blocks in use that hold pages of both kinds.
fn mixed_share(drive: &Ssd, hot_pages: u64, pages_per_block: u64) -> f64 {
    let mut blocks: BTreeMap<u64, [bool; 2]> = BTreeMap::new();
    for page in 0..drive.logical_pages() {
        if let Some(place) = drive.flash_page_of(page).unwrap() {
            blocks.entry(place / pages_per_block).or_default()[usize::from(page < hot_pages)] =
                true;
        }
    }
    let mixed = blocks.values().filter(|kinds| **kinds == [true; 2]).count();
    mixed as f64 / blocks.len() as f64
}

#[test]
fn streams_save_copies_on_a_skewed_stream() {
    let base = SsdConfig {
        blocks_per_plane: 512,
        pages_per_block: 32,
        over_provisioning: 0.15,
        gc_threshold: 0.0,
        ..tiny()
    };
    let amplification = |gc_victim, gc_blocks, streams, seed| {
        let config = SsdConfig { streams, gc_blocks, gc_victim, ..base.clone() };
        let hot_pages = u32::try_from(config.logical_pages() / 10).unwrap();
        let resets = Arc::new(AtomicU32::new(0));
        let oracle = Oracle { hot_pages, resets: Arc::clone(&resets) };
        let mut drive = Ssd::new(&config, Some(Box::new(oracle))).unwrap();
        let pages = drive.logical_pages();
        drive.precondition(&Precondition { fill: 1.0, overwrite: 0.5, seed }).unwrap();
        assert_eq!(resets.load(Ordering::Relaxed), streams - 1, "it forgets, if it was asked");
        apply_all(&mut drive, skewed_writes(pages, 300_000, seed));
        drive.reset_metrics();
        apply_all(&mut drive, skewed_writes(pages, 200_000, !seed));
        drive.assert_invariants();
        if (streams, gc_blocks) == (2, GcBlocks::Shared) {
            // Copies lie among cold pages.
            let mixed = mixed_share(&drive, hot_pages.into(), 32);
            assert!(mixed < 0.3, "{gc_victim:?}: {mixed} of the blocks hold hot and cold pages");
        }
        drive.metrics().write_amplification
    };
    // Greedy collects hot and cold blocks at the same number of valid pages, so that, once they are
    // apart, it does no better than with uniform writes, but no worse either.
    let used = base.logical_pages() as f64 / 32.0 / (512.0 - 5.0);
    let uniform = greedy_amplification(used, 32.0);
    for seed in [1, 2, 3] {
        for (gc_victim, most) in [(Victim::Greedy, 0.98), (Victim::CostBenefit, 0.95)] {
            for gc_blocks in [GcBlocks::Shared, GcBlocks::Separate] {
                let [one, two] = [1, 2].map(|one| amplification(gc_victim, gc_blocks, one, seed));
                assert!(two < most * one, "{gc_victim:?}, {gc_blocks:?}: {two} against {one}");
                if gc_victim == Victim::Greedy {
                    // Fifty blocks are few for a mean field.
                    assert_close(two, uniform, 0.05, "greedy with both apart");
                }
            }
        }
    }
}

#[test]
fn every_identifier_can_drive_the_streams() {
    let config = SsdConfig { streams: 2, ..wide() };
    let pages = u32::try_from(config.logical_pages()).unwrap();
    for entry in registry::entries() {
        let identifier = entry.build_default(pages).unwrap();
        let mut drive = Ssd::new(&config, Some(identifier)).unwrap();
        drive.precondition(&Precondition::default()).unwrap();
        apply_all(&mut drive, skewed_writes(pages.into(), 20_000, 1));
        drive.assert_invariants();
        assert!(drive.metrics().write_amplification > 1.0);
    }
}

#[test]
fn a_drive_of_any_size_takes_at_most_sixteen_bytes_per_page() {
    for (name, pages) in [("tlc-nvme", 4_000_000), ("slc-2008", 2_000_000), ("ssdsim", 100_000)] {
        let config = super::preset(name).sized_for(pages).unwrap();
        let drive = drive(&config);
        let flash_pages = drive.logical_pages() as f64 / (1.0 - config.over_provisioning);
        let per_page = drive.memory_bytes() as f64 / flash_pages;
        assert!(per_page < 10.0, "{name}: {per_page} bytes per flash page");
    }
}
