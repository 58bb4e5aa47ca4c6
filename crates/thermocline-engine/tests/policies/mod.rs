//! The policies that the tests of the engine run.

use thermocline_core::registry::{self, Future, PolicyEntry};
use thermocline_core::{Admission, PageCost, WriteMiss};
use thermocline_engine::PolicyOptions;

/// The policies that run on RAM and flash, and need not know the future.
pub(crate) fn entries() -> Vec<&'static PolicyEntry> {
    let runs = |entry: &&PolicyEntry| {
        entry.capabilities.depth.allows(2) && entry.capabilities.future == Future::Unknown
    };
    registry::entries().filter(runs).collect()
}

/// One of them, with its default parameters.
pub(crate) fn policy(entry: &PolicyEntry, write_miss: WriteMiss) -> PolicyOptions {
    PolicyOptions {
        entry: entry.clone(),
        values: entry.values(&[]).unwrap(),
        write_miss,
        admission: Admission::ALL,
        costs: vec![
            PageCost::default(),
            PageCost { read_ms: 0.16, write_ms: 0.30 },
            PageCost { read_ms: 12.7, write_ms: 13.7 },
        ],
    }
}
