//! The caches that systems ship, below a page cache, written from their documentation and source code.

mod bcache;
mod dm_cache;
mod dm_pcache;
mod dm_writecache;
mod log_cache;
mod open_cas;

use std::collections::{BTreeMap, BTreeSet};

use thermocline_core::{Access, Op, Tier};

use super::{Counts, LruMemory, Model, value};

/// Return the specification of a shipped cache, if it is one of those below a page cache.
pub(crate) fn build(
    policy: &str,
    given: &[(String, String)],
    [memory, flash]: [u32; 2],
    pages: u32,
) -> Option<Box<dyn Model>> {
    let device: Box<dyn Device> = match policy {
        "cachelib" | "foyer" => {
            return Some(Box::new(log_cache::LogCache::new(policy, given, [memory, flash])));
        }
        "dm-pcache" => Box::new(dm_pcache::Pcache::new(given, flash)),
        "bcache" => Box::new(bcache::Bcache::new(given, flash)),
        "dm-writecache" => Box::new(dm_writecache::WriteCache::new(given, flash)),
        "open-cas" => Box::new(open_cas::OpenCas::new(given, flash, pages)),
        "dm-cache" => Box::new(dm_cache::DmCache::new(given, flash, pages)),
        _ => return None,
    };
    Some(Box::new(Stack {
        memory: LruMemory::default(),
        dirty: BTreeSet::new(),
        capacity: memory as usize,
        store: Store::default(),
        device,
    }))
}

/// Return the size of a region or segment in a cache of `flash` pages.
fn region_pages(flash: u32) -> u32 {
    let mut pages = 4096;
    while pages > 16 && flash / pages < 64 {
        pages /= 2;
    }
    pages
}

/// Return a count as a signed number.
fn signed(count: usize) -> i64 {
    i64::try_from(count).expect("counts of tests are small")
}

/// Return the number of accesses that make a second.
fn second(given: &[(String, String)]) -> u64 {
    value(given, "accesses_per_second", 100)
}

/// Flash and disk with the version of each page, and what was asked of them.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) flash: BTreeMap<u32, u64>,
    newest: BTreeMap<u32, u64>,
    disk: BTreeMap<u32, u64>,
    counts: Counts,
    /// Accesses so far.
    pub(crate) now: u64,
}

impl Store {
    fn newest(&self, page: u32) -> u64 {
        self.newest.get(&page).copied().unwrap_or(0)
    }

    fn on_disk(&self, page: u32) -> u64 {
        self.disk.get(&page).copied().unwrap_or(0)
    }

    pub(crate) fn read_flash(&mut self, page: u32) -> u64 {
        self.counts.flash_reads += 1;
        self.flash[&page]
    }

    pub(crate) fn read_disk(&mut self, page: u32) -> u64 {
        self.counts.disk_reads += 1;
        self.on_disk(page)
    }

    pub(crate) fn write_flash(&mut self, page: u32, version: u64) {
        self.counts.flash_writes += 1;
        self.flash.insert(page, version);
    }

    pub(crate) fn write_disk(&mut self, page: u32, version: u64) {
        assert!(version >= self.on_disk(page), "the disk never gets an older version");
        self.counts.disk_writes += 1;
        self.disk.insert(page, version);
    }

    /// Writes a page of flash to disk.
    pub(crate) fn clean(&mut self, page: u32) {
        let version = self.read_flash(page);
        self.write_disk(page, version);
    }

    pub(crate) fn forget(&mut self, page: u32) {
        self.flash.remove(&page);
    }
}

/// Device below the page cache.
pub(crate) trait Device {
    /// Return the version of a page, and all that follows.
    fn read(&mut self, page: u32, store: &mut Store) -> u64;
    /// Write a new version of a page, from memory or from above, with all that follows.
    fn write(&mut self, page: u32, version: u64, is_eviction: bool, store: &mut Store);
    /// Return the pages whose copy on flash is newer than the disk's, as the cache has it.
    fn dirty(&self) -> BTreeSet<u32>;
    fn state(&self) -> String;
}

/// A page cache above a device; without pages, accesses go to the device.
struct Stack {
    memory: LruMemory,
    /// The pages of memory that are newer than below.
    dirty: BTreeSet<u32>,
    capacity: usize,
    store: Store,
    device: Box<dyn Device>,
}

impl Stack {
    /// Counts a hit below memory where the newest version is.
    fn count_found(&mut self, page: u32) {
        let newest = self.store.newest(page);
        if self.store.flash.get(&page) == Some(&newest) {
            self.store.counts.flash_hits += 1;
        } else {
            self.store.counts.disk_hits += 1;
        }
    }

    fn read(&mut self, page: u32) -> u64 {
        let version = self.device.read(page, &mut self.store);
        assert_eq!(version, self.store.newest(page), "the newest version is read");
        version
    }

    fn new_version(&mut self, page: u32) -> u64 {
        let version = self.store.newest(page) + 1;
        self.store.newest.insert(page, version);
        version
    }
}

impl Model for Stack {
    fn access(&mut self, Access { page, op, .. }: Access) {
        let page = page.0;
        self.store.now += 1;
        if self.capacity == 0 {
            self.count_found(page);
            if op == Op::Read {
                self.read(page);
            } else {
                let version = self.new_version(page);
                self.device.write(page, version, false, &mut self.store);
            }
        } else {
            let version = match self.memory.remove(page) {
                Some(version) => {
                    self.store.counts.memory_hits += 1;
                    version
                }
                None => {
                    self.count_found(page);
                    self.read(page)
                }
            };
            let version = if op == Op::Write {
                self.dirty.insert(page);
                self.new_version(page)
            } else {
                version
            };
            self.memory.push(page, version);
            if let Some((victim, version)) = self.memory.overflow(self.capacity)
                && self.dirty.remove(&victim)
            {
                self.device.write(victim, version, true, &mut self.store);
            }
        }
        let dirty = self.device.dirty();
        for (&page, &version) in &self.store.flash {
            let is_clean = version == self.store.on_disk(page);
            assert!(is_clean || dirty.contains(&page), "a clean copy equals the disk's");
        }
    }

    fn counts(&self) -> Counts {
        self.store.counts.clone()
    }

    fn held(&self, tier: Tier) -> BTreeSet<u32> {
        if tier == Tier::RAM {
            self.memory.pages()
        } else {
            self.store.flash.keys().copied().collect()
        }
    }

    fn state(&self) -> String {
        self.device.state()
    }
}
