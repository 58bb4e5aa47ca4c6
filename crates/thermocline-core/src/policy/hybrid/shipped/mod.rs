//! The caches that people run today, as policies.
//!
//! Those of the Linux kernel sit below the page cache, which is the RAM of the hierarchy, if it has any:
//! the module `stack` is what they share.

pub mod bcache;
pub mod dm_cache;
pub mod dm_pcache;
pub mod dm_writecache;
pub mod log;
pub mod open_cas;

mod extents;
mod free_slots;
mod stack;
mod time;

/// Pages of 16 MiB, the size of a region of a log.
const REGION_PAGES: u32 = 4096;
/// The least size of a region in a small cache.
const REGION_PAGES_MIN: u32 = 16;
/// A cache of fewer regions than this has smaller ones.
const REGIONS_MIN: u32 = 64;

/// Return the size of a log's region in a cache of `flash_pages`, in pages.
fn region_pages(flash_pages: u32) -> u32 {
    let mut pages = REGION_PAGES;
    while pages > REGION_PAGES_MIN && flash_pages / pages < REGIONS_MIN {
        pages /= 2;
    }
    pages
}
