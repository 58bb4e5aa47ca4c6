//! The policies that the tests of the engine run.

use std::sync::Arc;

use thermocline_core::policy::multi::hfa::HintLog;
use thermocline_core::registry::{self, Entry};
use thermocline_core::{Admission, PageCost, PageId, Tier, WriteMiss};
use thermocline_engine::PolicyOptions;

/// The policies that run on RAM and flash, but for oracles.
pub(crate) fn entries() -> Vec<&'static Entry> {
    let runs = |entry: &&Entry| entry.depth.allows(2) && !entry.needs_foresight();
    registry::entries().iter().filter(runs).collect()
}

/// One of them for so many pages, with hints for those that need some.
pub(crate) fn policy(entry: &'static Entry, pages: u32, write_miss: WriteMiss) -> PolicyOptions {
    let hints: HintLog = (0..pages).map(|page| (Tier::RAM, PageId(page), 0, page)).collect();
    PolicyOptions {
        entry,
        values: entry.values(&[]).unwrap().with_hints(Arc::new(hints)),
        write_miss,
        admission: Admission::ALL,
        costs: vec![
            PageCost::default(),
            PageCost { read_ms: 0.16, write_ms: 0.30 },
            PageCost { read_ms: 12.7, write_ms: 13.7 },
        ],
    }
}
