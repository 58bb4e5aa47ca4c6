//! The policies that the tests of the engine run.

use thermocline_core::registry::{self, Future, PolicyEntry};
use thermocline_core::{Admission, PageCost, WriteMiss};
use thermocline_engine::PolicyOptions;

/// Return the policies that run on RAM and flash, and need not know the future.
pub(crate) fn entries() -> Vec<&'static PolicyEntry> {
    let runs = |entry: &&PolicyEntry| {
        entry.capabilities.depth.allows(2) && entry.capabilities.future == Future::Unknown
    };
    registry::entries().filter(runs).collect()
}

/// Parameters with which `auto` changes its candidate in the few accesses of a test; by default it
/// would not.
const EAGER: &[(&str, &str)] =
    &[("window", "8"), ("half_life", "1"), ("patience", "1"), ("margin", "0"), ("move_share", "0")];

/// Return one of them, with its default parameters, except those that would keep it from its work.
pub(crate) fn policy(entry: &PolicyEntry, write_miss: WriteMiss) -> PolicyOptions {
    let given = if entry.name == "auto" { EAGER } else { &[] };
    let owned = |&(name, text): &(&str, &str)| (name.to_owned(), text.to_owned());
    let given: Vec<_> = given.iter().map(owned).collect();
    PolicyOptions {
        entry: entry.clone(),
        values: entry.values(&given).unwrap(),
        write_miss,
        admission: Admission::ALL,
        costs: vec![
            PageCost::default(),
            PageCost { read_ms: 0.16, write_ms: 0.30 },
            PageCost { read_ms: 12.7, write_ms: 13.7 },
        ],
    }
}
