//! Volumes of a run as its seed decides: their shards, policies and sizes.

use std::num::NonZeroU16;

use thermocline_core::random::SplitMix64;
use thermocline_engine::{Directory, FlashSet, Layout, Options, PolicyOptions, ShardMap};

use crate::{GUEST, MIB, PAGE, PAGES};

const POLICIES: [&str; 4] = ["lru-inclusive", "hat", "lru-exclusive", "face-gsc"];
/// Most shards of a volume.
const SHARDS_MAX: u64 = 4;

pub(crate) fn backing_bytes() -> u64 {
    PAGES * PAGE as u64
}

/// Return the shards of a volume, and their extents.
pub(crate) fn map(number: usize, seed: u64) -> ShardMap {
    let mut random = SplitMix64::new(seed * 3 + number as u64);
    let shards = 1 + random.bits() % SHARDS_MAX;
    let extent_pages = 1 + random.bits() % 3;
    let shards = NonZeroU16::new(shards as u16).expect("there is one at least");
    ShardMap::with_extents(shards, extent_pages * PAGE as u64)
}

/// Return the options of a volume's shards.
pub(crate) fn options(number: usize, seed: u64) -> Vec<Options> {
    let name = POLICIES[(seed as usize + number) % POLICIES.len()];
    let policy = PolicyOptions::named(name).unwrap();
    let mut options = Options::new(PAGES, 4 + number as u32 * 3, 12, policy);
    options.cleaning.dirty_ratio_target = 0.8;
    options.of_shards(map(number, seed)).unwrap()
}

/// Return the layout of the region of each of a volume's shards.
pub(crate) fn layout(number: usize, seed: u64) -> Layout {
    let options = &options(number, seed)[0];
    // In half of the runs the two have room that they can give back.
    let more = if number < GUEST && seed % 2 == 1 { 300 * (number as u32 + 1) } else { 0 };
    Layout { journal_blocks: 8, ..Layout::new(options.slots() + more, options.page_bytes) }
}

/// Return the number of bytes that a volume has on the flash when it begins.
pub(crate) fn set_bytes(number: usize, seed: u64) -> u64 {
    FlashSet::bytes(&layout(number, seed), &map(number, seed))
}

/// Return the size of the flash: there is room for all, and some to grow.
pub(crate) fn flash_bytes(seed: u64) -> u64 {
    let shards: usize = [0, 1].map(|number| map(number, seed).shards()).iter().sum();
    let more = (4 + shards as u64) * MIB;
    Directory::flash_bytes([0, 1, GUEST].map(|number| set_bytes(number, seed))) + more
}
