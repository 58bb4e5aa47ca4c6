//! HCA: LFU in memory, an exclusive flash below it, and a buffer between that writes by the block.
//!
//! A page that is referenced moves to the first level, whose least frequently used page makes room:
//! it goes to the transient buffer. When that is over-full, the pages of it that share an SSD block
//! are written to flash together, the largest group first, so that the SSD sees few block writes.
//! No page is in two of the three places, and a directory knows where each is. Writes go through to
//! disk, so every cached page is clean and the least recently used one on flash is just forgotten.
//! The published baseline is the first level alone: `lfu`, see the module
//! [`lfu`](crate::policy::single::lfu).
//!
//! * Source: Aldahlawi, El-Araby, Suboh, El-Ghazawi, *An Empirical and Architectural Study of Using
//!   an SSD-Aware Hybrid Storage System*, Int. J. Information and Electronics Engineering, 2012,
//!   section IV.
//! * State: 32 bytes per page that exists, 24 bytes per page in the first level, 20 bytes per SSD
//!   block that exists and 24 more while the buffer holds a page of it.
//! * Cost: O(log n) per access, and per page written to flash.
//! * Deviations: (1) the paper gives the buffer a size of its own; here it is a part of the RAM tier,
//!   which is the first level and the buffer together, and a RAM too small for both leaves one page
//!   to the first level. (2) The paper names no replacement on flash: least recently used. It names
//!   no tie rule of LFU: least recently used too. (3) Counts live while a page is cached anywhere.
//!   (4) A hit in the buffer counts as one in RAM, as in the paper, and moves the page back up.
//!   (5) The paper searches the buffer last; as no page is in two places, the order is no matter.
//!   (6) Groups of equal size leave in the order in which they entered the buffer, and the pages of
//!   a group enter flash in the order in which they entered the buffer. (7) The paper does not treat
//!   writes: they load the page and go through to disk. (8) What survives a restart was referenced
//!   once.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::config::{Kind, Parameter, Value, Values};
use crate::policy::blocks::Blocks;
use crate::queue::{IndexedHeap, Lists};
use crate::{Access, Actions, BoxedPolicy, Op, PageId, Policy, Setup, Survivor, Tier, WriteMiss};

/// The parameters of HCA.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "buffer_pages",
        kind: Kind::Integer { min: 0, max: 1 << 31 },
        default: Value::Integer(16),
        summary: "pages of RAM that are the transient buffer; the rest is the first level",
        source: "the paper: 64 KiB, as pages of 4 KiB",
    },
    Parameter {
        name: "pages_per_block",
        kind: Kind::Integer { min: 1, max: 1 << 16 },
        default: Value::Integer(64),
        summary: "pages of an SSD block, by which pages are grouped",
        source: "the paper names no size; SSDsim's default geometry",
    },
];

/// Bytes of a directory entry: the page, its count and its location.
const DIRECTORY_ENTRY_BYTES: usize = 12;

/// Gauges of block writes by how many pages they wrote: up to 1, 2, 4, and so on.
const BLOCK_WRITE_GAUGES: [&str; 8] = [
    "block_writes_of_1",
    "block_writes_of_2",
    "block_writes_to_4",
    "block_writes_to_8",
    "block_writes_to_16",
    "block_writes_to_32",
    "block_writes_to_64",
    "block_writes_above_64",
];

/// The hybrid caching architecture.
#[derive(Debug)]
pub struct Hca {
    /// The first level, the next victim least: count, then the access that it was last used by.
    level: IndexedHeap<(u32, u64)>,
    /// Per page: how often it was referenced since it is cached; zero if it is not.
    counts: Vec<u32>,
    /// Per SSD block: its pages in the buffer. After them, in list [`Hca::on_flash`]: the pages on
    /// flash. The oldest is at the front.
    places: Lists,
    on_flash: u32,
    /// Per page of the buffer: the access by which it entered.
    entered: Vec<u64>,
    /// The blocks with pages in the buffer, the next to be written least.
    groups: IndexedHeap<(Reverse<u32>, u64)>,
    blocks: Blocks,
    level_pages: u32,
    buffer_pages: u32,
    flash_pages: u32,
    held_buffer_pages: u32,
    accesses: u64,
    write_miss: WriteMiss,
    disk: Tier,
    buffer_hits: u64,
    /// Block writes by the logarithm of their pages; see [`BLOCK_WRITE_GAUGES`].
    block_writes: [u64; BLOCK_WRITE_GAUGES.len()],
}

/// Builds the policy for the registry.
pub fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    let flash_pages = setup.capacity_pages[1];
    let [buffer_pages, pages_per_block] =
        ["buffer_pages", "pages_per_block"].map(|name| values.integer_u32(name));
    Box::new(Hca::new(setup, buffer_pages, flash_pages, pages_per_block))
}

impl Hca {
    fn new(setup: &Setup, buffer_pages: u32, flash_pages: u32, pages_per_block: u32) -> Self {
        let pages = setup.geometry.pages();
        let blocks = Blocks::new(&setup.geometry, pages_per_block);
        let buffer_pages = buffer_pages.min(setup.capacity_pages[0] - 1);
        Self {
            level: IndexedHeap::new(pages),
            counts: vec![0; pages as usize],
            places: Lists::new(pages, blocks.count() + 1),
            on_flash: blocks.count(),
            entered: vec![0; pages as usize],
            groups: IndexedHeap::new(blocks.count()),
            blocks,
            level_pages: setup.capacity_pages[0] - buffer_pages,
            buffer_pages,
            flash_pages,
            held_buffer_pages: 0,
            accesses: 0,
            write_miss: setup.write_miss,
            disk: setup.disk(),
            buffer_hits: 0,
            block_writes: [0; BLOCK_WRITE_GAUGES.len()],
        }
    }

    /// Where the page is, outside the first level: flash, or its block's group in the buffer.
    fn place(&self, page: PageId) -> Option<u32> {
        self.places.list_of(page.0)
    }

    fn enter_buffer(&mut self, page: PageId) {
        self.entered[page.index()] = self.accesses;
        let block = self.blocks.of(page);
        self.places.push_back(block, page.0);
        self.held_buffer_pages += 1;
        self.rank(block);
    }

    fn leave_buffer(&mut self, page: PageId) {
        self.places.remove(page.0);
        self.held_buffer_pages -= 1;
        self.rank(self.blocks.of(page));
    }

    /// Gives a group its place among the groups: the largest, then the oldest, is next.
    fn rank(&mut self, block: u32) {
        match self.places.front(block) {
            Some(oldest) => {
                let key = (Reverse(self.places.len(block)), self.entered[oldest as usize]);
                self.groups.set(block, key);
            }
            None => {
                self.groups.remove(block);
            }
        }
    }

    /// Moves the least frequently used page of the first level to the buffer.
    fn evict_from_level(&mut self) {
        let (_, victim) = self.level.least().expect("a full level has a page");
        self.level.remove(victim);
        self.enter_buffer(PageId(victim));
    }

    /// Writes the largest group of the buffer to flash, or forgets it if there is no flash.
    fn flush_group(&mut self, out: &mut Actions) {
        let (_, block) = self.groups.least().expect("an over-full buffer has a group");
        let pages = self.places.len(block);
        while let Some(page) = self.places.front(block).map(PageId) {
            self.leave_buffer(page);
            if self.flash_pages == 0 {
                self.counts[page.index()] = 0;
            } else {
                out.copy(page, Tier::RAM, Tier::FLASH);
                self.enter_flash(page, out);
            }
            out.drop_copy(page, Tier::RAM);
        }
        if self.flash_pages > 0 {
            let logarithm = pages.next_power_of_two().trailing_zeros() as usize;
            self.block_writes[logarithm.min(BLOCK_WRITE_GAUGES.len() - 1)] += 1;
        }
    }

    /// Enters a page as the newest on flash; the oldest is forgotten if there is no room.
    fn enter_flash(&mut self, page: PageId, out: &mut Actions) {
        self.places.push_back(self.on_flash, page.0);
        if self.places.len(self.on_flash) > self.flash_pages {
            let oldest = self.places.front(self.on_flash).expect("an over-full flash has a page");
            self.places.remove(oldest);
            self.counts[oldest as usize] = 0;
            out.drop_copy(PageId(oldest), Tier::FLASH);
        }
    }
}

impl Policy for Hca {
    fn access(&mut self, Access { page, op, .. }: Access, out: &mut Actions) {
        self.accesses += 1;
        let count = &mut self.counts[page.index()];
        *count = count.saturating_add(1);
        let key = (*count, self.accesses);
        let is_in_level = self.level.contains(page.0);
        let place = self.place(page);
        // Without a flash tier, the disk has the number that flash has otherwise.
        let is_on_flash = place == Some(self.on_flash);
        let is_in_buffer = place.is_some() && !is_on_flash;
        let found = match place {
            Some(_) if is_on_flash => Tier::FLASH,
            None if !is_in_level => self.disk,
            Some(_) | None => Tier::RAM,
        };
        let is_fetched = op == Op::Read || self.write_miss == WriteMiss::Fetch;
        if found != Tier::RAM && (is_on_flash || is_fetched) {
            out.copy(page, found, Tier::RAM);
        }
        out.serve(page, op, found, Tier::RAM);
        if op == Op::Write {
            out.copy(page, Tier::RAM, self.disk);
        }
        if !is_in_level {
            if is_on_flash {
                self.places.remove(page.0);
                out.drop_copy(page, Tier::FLASH);
            } else if is_in_buffer {
                self.leave_buffer(page);
                self.buffer_hits += 1;
            }
            if self.level.len() == self.level_pages as usize {
                self.evict_from_level();
            }
        }
        self.level.set(page.0, key);
        if self.held_buffer_pages > self.buffer_pages {
            self.flush_group(out);
        }
    }

    /// Every write went through to disk.
    fn flush(&mut self, _out: &mut Actions) {}

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        for &Survivor { page, is_dirty } in survivors {
            if is_dirty {
                out.copy(page, Tier::FLASH, self.disk);
            }
            if self.flash_pages == 0 {
                out.drop_copy(page, Tier::FLASH);
            } else {
                self.counts[page.index()] = 1;
                self.enter_flash(page, out);
            }
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.level.prefetch(page.0);
        self.places.prefetch(page.0);
    }

    fn assert_invariants(&self) {
        self.level.assert_invariants();
        self.places.assert_invariants();
        self.groups.assert_invariants();
        assert!(self.level.len() <= self.level_pages as usize, "the first level fits");
        assert!(self.held_buffer_pages <= self.buffer_pages, "the buffer fits");
        assert!(self.places.len(self.on_flash) <= self.flash_pages, "pages on flash fit it");
        let mut buffered = 0;
        for block in 0..self.blocks.count() {
            let len = self.places.len(block);
            buffered += len;
            assert_eq!(len > 0, self.groups.contains(block), "a block with pages is a group");
            for page in self.places.iter(block) {
                assert_eq!(self.blocks.of(PageId(page)), block, "a group is of one block");
            }
        }
        assert_eq!(buffered, self.held_buffer_pages, "pages of the buffer are counted");
        for ((Reverse(len), entered), block) in self.groups.iter() {
            let oldest = self.places.front(block).expect("a group has a page");
            assert_eq!(len, self.places.len(block), "a group is ranked by its length");
            assert_eq!(entered, self.entered[oldest as usize], "and by its oldest page");
        }
        for (page, &count) in (0_u32..).zip(&self.counts) {
            let places = [self.level.contains(page), self.places.contains(page)];
            assert_ne!(places, [true; 2], "no page is in two places");
            assert_eq!(count > 0, places.contains(&true), "cached pages have a count");
        }
        for ((count, _), page) in self.level.iter() {
            assert_eq!(count, self.counts[page as usize], "the level is ordered by the counts");
        }
    }

    fn memory_bytes(&self) -> usize {
        self.level.memory_bytes()
            + size_of_val(&*self.counts)
            + self.places.memory_bytes()
            + size_of_val(&*self.entered)
            + self.groups.memory_bytes()
            + self.blocks.memory_bytes()
    }

    /// The directory.
    fn metadata_bytes(&self) -> usize {
        let below = self.held_buffer_pages + self.places.len(self.on_flash);
        (self.level.len() + below as usize) * DIRECTORY_ENTRY_BYTES
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        report("level_pages", Tier::RAM, self.level.len() as f64);
        if self.buffer_pages > 0 {
            report("buffer_pages", Tier::RAM, f64::from(self.held_buffer_pages));
            report("buffer_hits", Tier::RAM, self.buffer_hits as f64);
        }
        if self.flash_pages > 0 {
            report("flash_pages", Tier::FLASH, f64::from(self.places.len(self.on_flash)));
            report("block_writes", Tier::FLASH, self.block_writes.iter().sum::<u64>() as f64);
            for (name, &writes) in BLOCK_WRITE_GAUGES.into_iter().zip(&self.block_writes) {
                report(name, Tier::FLASH, writes as f64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::string::ToString;

    use super::*;
    use crate::{Admission, Clients, Geometry, registry};

    fn hca(sizes: [u32; 2], given: &[(&str, &str)]) -> BoxedPolicy {
        let setup = Setup {
            capacity_pages: sizes.to_vec(),
            geometry: Geometry::linear(64),
            costs: vec![],
            write_miss: WriteMiss::Fetch,
            admission: Admission::ALL,
            clients: Clients::ONE,
        };
        let entry = registry::find("hca").unwrap();
        let given: Vec<_> =
            given.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
        entry.build(&setup, &entry.values(&given).unwrap()).unwrap()
    }

    fn read(policy: &mut BoxedPolicy, pages: impl IntoIterator<Item = u32>) {
        for page in pages {
            policy.access(Access::read(page), &mut Actions::new());
        }
        policy.assert_invariants();
    }

    fn gauges(policy: &BoxedPolicy) -> BTreeMap<&'static str, u32> {
        let mut gauges = BTreeMap::new();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "small counts"
        )]
        policy.gauges(&mut |name, _, value| {
            assert_eq!(gauges.insert(name, value as u32), None, "{name} is reported once");
        });
        gauges
    }

    #[test]
    fn block_writes_are_counted_by_their_pages() {
        let mut policy = hca([9, 40], &[("buffer_pages", "8"), ("pages_per_block", "8")]);
        // Pages 0 to 8 leave the first level: the eight of block 0 are one write.
        read(&mut policy, 0..10);
        assert_eq!(gauges(&policy)["block_writes_to_8"], 1);
        // Pages 8 and 16 are read again while they are in the buffer; page 18 is one too many.
        read(&mut policy, (1..8).map(|block| block * 8).chain([16, 17, 18]));
        let gauges = gauges(&policy);
        assert_eq!((gauges["buffer_hits"], gauges["buffer_pages"]), (2, 7));
        assert_eq!((gauges["block_writes"], gauges["block_writes_of_1"]), (2, 0));
        assert_eq!(gauges["block_writes_of_2"], 1, "pages 8 and 9, before 16 and 17");
        assert_eq!(gauges["flash_pages"], 10);
        let cached: u32 =
            ["level_pages", "buffer_pages", "flash_pages"].map(|name| gauges[name]).iter().sum();
        assert_eq!(policy.metadata_bytes(), cached as usize * DIRECTORY_ENTRY_BYTES);
    }

    #[test]
    fn without_a_buffer_every_page_is_a_block_write() {
        let mut policy = hca([1, 40], &[("buffer_pages", "0")]);
        read(&mut policy, 0..20);
        let gauges = gauges(&policy);
        assert_eq!((gauges["block_writes"], gauges["block_writes_of_1"]), (19, 19));
        assert!(!gauges.contains_key("buffer_hits"));
    }

    /// A survivor counts one reference: it yields its place to a page that was referenced twice.
    #[test]
    fn survivors_are_on_flash_and_were_referenced_once() {
        let mut policy = hca([1, 2], &[]);
        let survivors = [1, 2, 3].map(|page| Survivor { page: PageId(page), is_dirty: page == 1 });
        let mut actions = Actions::new();
        policy.restore(&survivors, &mut actions);
        policy.assert_invariants();
        let mut expected = Actions::new();
        expected.copy(PageId(1), Tier::FLASH, Tier::DISK);
        expected.drop_copy(PageId(1), Tier::FLASH);
        assert_eq!(actions, expected);
        assert_eq!(policy.metadata_bytes(), 2 * DIRECTORY_ENTRY_BYTES);
    }
}
