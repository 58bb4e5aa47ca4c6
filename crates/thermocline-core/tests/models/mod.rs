//! Executable specifications: small, slow, and written from the sheets, not from the policies.
//!
//! Every copy holds a version number, a write makes a new one, and each model asserts that what it
//! serves is the newest. Orders are vectors, searches are scans.

pub(crate) mod face;
pub(crate) mod hat;
pub(crate) mod lazy_cleaning;
pub(crate) mod lru;
pub(crate) mod tac;

use std::collections::BTreeMap;

use thermocline_core::{Access, Op};

/// What the sheets count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) memory_hits: u64,
    pub(crate) flash_hits: u64,
    pub(crate) disk_hits: u64,
    pub(crate) flash_reads: u64,
    pub(crate) flash_writes: u64,
    pub(crate) disk_reads: u64,
    pub(crate) disk_writes: u64,
}

/// A specification that can be stepped.
pub(crate) trait Model {
    fn access(&mut self, access: Access);
    fn counts(&self) -> Counts;
}

/// The newest version of each page, and the disk's.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    newest: BTreeMap<u32, u64>,
    disk: BTreeMap<u32, u64>,
}

impl Versions {
    pub(crate) fn newest(&self, page: u32) -> u64 {
        self.newest.get(&page).copied().unwrap_or(0)
    }

    pub(crate) fn on_disk(&self, page: u32) -> u64 {
        self.disk.get(&page).copied().unwrap_or(0)
    }

    pub(crate) fn write_to_disk(&mut self, page: u32, version: u64) {
        assert!(version > self.on_disk(page), "only what is dirty is written to disk");
        self.disk.insert(page, version);
    }

    /// The version after an access to a copy of `version`, which must be the newest.
    pub(crate) fn serve(&mut self, access: Access, version: u64) -> u64 {
        let page = access.page.0;
        assert_eq!(version, self.newest(page), "the newest version is served");
        if access.op == Op::Write {
            self.newest.insert(page, version + 1);
        }
        self.newest(page)
    }
}

/// Pages with their versions, the least recently used first.
#[derive(Debug, Default)]
pub(crate) struct LruMemory(Vec<(u32, u64)>);

impl LruMemory {
    pub(crate) fn remove(&mut self, page: u32) -> Option<u64> {
        let place = self.0.iter().position(|entry| entry.0 == page)?;
        Some(self.0.remove(place).1)
    }

    pub(crate) fn push(&mut self, page: u32, version: u64) {
        self.0.push((page, version));
    }

    /// Takes the least recently used page out if there are more than `capacity`.
    pub(crate) fn overflow(&mut self, capacity: usize) -> Option<(u32, u64)> {
        (self.0.len() > capacity).then(|| self.0.remove(0))
    }
}
