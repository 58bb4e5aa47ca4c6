//! Heap use of policies with a sparse index, counted at the allocator.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod work;

use std::collections::HashSet;

use peak_alloc::PeakAlloc;
use thermocline_core::registry::{self, Depth, Future, PolicyEntry};
use thermocline_core::{Access, Actions, Indexing, Nanos, Setup};
use work::{Skew, accesses, setup};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const RAM_PAGES: u32 = 2048;
const FLASH_PAGES: u32 = 6144;

/// Ghosts per cached page, by the definitions of the policies that need them to keep to the bound.
const GHOSTS: &[(&str, f64)] = &[
    // As many pages as the cache has, and two.
    ("3l-cache", 1.0),
    // Two histories, each half as long as the cache.
    ("cacheus", 1.0),
    ("lecar", 1.0),
    // As many histories of pages in no cache as there are cached pages.
    ("hint-k", 1.0),
    // Records of 16 bytes that take 0.1 % of pages of 4 KiB.
    ("d-hfa", 0.256),
    ("p-hfa", 0.256),
    // Both.
    ("h-hfa", 1.256),
    // Four histories per page of a cache, in the hierarchy per page of a lower tier.
    ("mq", 4.0),
    ("mq-n", 3.0),
];

/// Return the caches of a policy.
fn capacity_pages(entry: &PolicyEntry) -> Vec<u32> {
    match entry.capabilities.depth {
        Depth::Ram => vec![RAM_PAGES + FLASH_PAGES],
        Depth::RamFlash | Depth::Tiers | Depth::Buffer => vec![RAM_PAGES, FLASH_PAGES],
    }
}

/// Return the most heap that a policy holds while it is accessed until its caches and ghosts are
/// full.
fn bytes_held(entry: &PolicyEntry, disk_pages: u32, accesses: &[Access]) -> usize {
    let capacity_pages = capacity_pages(entry);
    let setup = Setup { capacity_pages, ..setup(disk_pages, Indexing::Sparse) };
    let mut actions = Actions::new();
    let before = HEAP.current_usage();
    let mut policy = entry.build_default(&setup).unwrap();
    let mut most = 0;
    for (step, &access) in (1..).zip(accesses) {
        actions.clear();
        if entry.capabilities.needs_clock {
            policy.background(Nanos(step * 1_000_000), &mut actions);
        }
        policy.access(access, &mut actions);
        if step % 64 == 0 {
            most = most.max(HEAP.current_usage() - before);
        }
    }
    // The buffer has grown to the most actions of an access, and is not the policy's.
    drop(actions);
    let held = HEAP.current_usage() - before;
    let reported = policy.memory_bytes();
    let error = held.abs_diff(reported);
    assert!(error <= 16 << 10, "{}: {reported} bytes reported, {held} held", entry.name);
    most.max(held)
}

/// Return the number of bytes that a policy may keep for the pages of the disk.
fn of_disk_bytes(entry: &PolicyEntry, disk_pages: u32, accesses: &[Access]) -> f64 {
    let declared = entry.capabilities.sparse_memory;
    let pages = if declared.is_of_accessed_pages {
        accesses.iter().map(|access| access.page).collect::<HashSet<_>>().len()
    } else {
        disk_pages as usize
    };
    pages as f64 * f64::from(declared.bytes_per_disk_page)
}

/// Return the registry's policies, but for those that know the future, which no engine can serve.
fn served() -> impl Iterator<Item = &'static PolicyEntry> {
    registry::entries().filter(|entry| {
        entry.capabilities.future != Future::Accesses && entry.capabilities.future != Future::Hints
    })
}

/// One test, as others would allocate meanwhile.
#[test]
fn a_sparse_policy_holds_little_however_large_the_disk() {
    let cached_pages = RAM_PAGES + FLASH_PAGES;
    for entry in served() {
        let ghosts = GHOSTS.iter().find(|row| row.0 == entry.name).map_or(0.0, |row| row.1);
        let declared = entry.capabilities.sparse_memory;
        let mut is_small = true;
        for disk_pages in [cached_pages * 4, cached_pages * 64] {
            let tracked = (f64::from(cached_pages) * (1.0 + ghosts)).min(f64::from(disk_pages));
            for skew in [Skew::None, Skew::Strong] {
                let accesses = accesses(disk_pages, u64::from(cached_pages) * 12, 1, skew);
                let bytes = bytes_held(entry, disk_pages, &accesses) as f64;
                let of_disk = of_disk_bytes(entry, disk_pages, &accesses);
                assert!(
                    bytes <= f64::from(declared.bytes_per_page) * tracked + of_disk,
                    "{}: {:.1} bytes per page over a disk of {disk_pages}, and {of_disk} for the disk",
                    entry.name,
                    (bytes - of_disk) / tracked
                );
                is_small &= bytes <= 64.0 * tracked;
            }
        }
        assert_eq!(is_small, declared.reason.is_none(), "{}: declared as too large", entry.name);
    }
}
