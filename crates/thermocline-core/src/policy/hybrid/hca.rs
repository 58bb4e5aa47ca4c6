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
//! * State: 12 bytes per page that exists, 20 bytes per page of flash, 56 bytes per page of RAM, 20
//!   bytes per SSD block that exists and 24 more while the buffer holds a page of it. Sparse, none per
//!   page of a device, 5 bytes more per page of flash and of RAM, and per page of the buffer what
//!   there is per SSD block.
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

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::blocks::Blocks;
use crate::queue::{IndexedHeap, Lists, Numbers, Slots};
use crate::{
    Access, Actions, BoxedPolicy, Ids, Op, PageId, Policy, Setup, Survivor, Tier, WriteMiss,
};

/// The parameters of HCA.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("buffer_pages", 0..=1 << 31, 16)
        .summary("pages of RAM that are the transient buffer; the rest is the first level")
        .source("the paper: 64 KiB, as pages of 4 KiB"),
    Parameter::integer("pages_per_block", 1..=1 << 16, 64)
        .summary("pages of an SSD block, by which pages are grouped")
        .source("the paper names no size; SSDsim's default geometry"),
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
    ram: Ram,
    flash: Flash,
    accesses: u64,
    write_miss: WriteMiss,
    disk: Tier,
    buffer_hits: u64,
    /// Block writes by the logarithm of their pages; see [`BLOCK_WRITE_GAUGES`].
    block_writes: [u64; BLOCK_WRITE_GAUGES.len()],
}

/// The first level, and the buffer.
#[derive(Debug)]
struct Ram {
    slots: Slots,
    /// Per slot: how often its page was referenced since it is cached.
    counts: Vec<u32>,
    /// The slots of the first level, the next victim least: count, then the access that it was last
    /// used by.
    level: IndexedHeap<(u32, u64)>,
    level_pages: u32,
    /// Numbers of the SSD blocks with pages in the buffer. What they number are blocks, not pages.
    numbers: Numbers,
    /// Per number of an SSD block: the slots of its pages in the buffer, the oldest at the front.
    buffer: Lists,
    /// Per slot of the buffer: the access by which it entered.
    entered: Vec<u64>,
    /// The blocks with pages in the buffer, the next to be written least.
    groups: IndexedHeap<(Reverse<u32>, u64)>,
    blocks: Blocks,
    buffer_pages: u32,
}

/// The pages on flash.
#[derive(Debug)]
struct Flash {
    slots: Slots,
    /// The slots, the oldest at the front, and how often the page of each was referenced since it is
    /// cached.
    order: Lists<u32>,
    pages: u32,
}

/// The only list of the pages on flash.
const ORDER: u32 = 0;

/// Its row in the registry.
pub const HCA: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("hca"),
    summary: "LFU in RAM, an exclusive flash, and a buffer between that writes it by the block",
    source: "Aldahlawi, El-Araby, Suboh, El-Ghazawi: Hybrid Caching Architecture (HCA), IJIEE 2012",
    module: module_path!(),
    capabilities: Capabilities { looks_at_neighbours: true, ..Capabilities::of(Depth::RamFlash) },
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// Builds the policy for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    let [buffer_pages, pages_per_block] =
        ["buffer_pages", "pages_per_block"].map(|name| values.integer_u32(name));
    Box::new(Hca {
        ram: Ram::new(setup, buffer_pages, Blocks::new(&setup.geometry, pages_per_block)),
        flash: Flash::new(setup.ids(), setup.capacity_pages[1]),
        accesses: 0,
        write_miss: setup.write_miss,
        disk: setup.disk(),
        buffer_hits: 0,
        block_writes: [0; BLOCK_WRITE_GAUGES.len()],
    })
}

impl Ram {
    fn new(setup: &Setup, buffer_pages: u32, blocks: Blocks) -> Self {
        let pages = setup.capacity_pages[0];
        let buffer_pages = buffer_pages.min(pages - 1);
        // A page more enters before a group leaves.
        let ids = setup.ids();
        let slots = Slots::new(ids, pages.saturating_add(1));
        let ids_of_blocks = Ids { pages: blocks.count(), ..ids };
        let numbers = Numbers::new(ids_of_blocks, buffer_pages.saturating_add(1));
        Self {
            counts: vec![0; slots.count() as usize],
            level: IndexedHeap::new(slots.count()),
            level_pages: pages - buffer_pages,
            buffer: Lists::new(slots.count(), numbers.count()),
            entered: vec![0; slots.count() as usize],
            groups: IndexedHeap::new(numbers.count()),
            numbers,
            blocks,
            buffer_pages,
            slots,
        }
    }

    fn buffered_pages(&self) -> usize {
        self.slots.len() as usize - self.level.len()
    }

    fn block(&self, slot: u32) -> PageId {
        PageId(self.blocks.of(self.slots.page(slot)))
    }

    fn enter_buffer(&mut self, slot: u32, now: u64) {
        self.entered[slot as usize] = now;
        let (block, buffer) = (self.block(slot), &self.buffer);
        let group = self.numbers.enter(block, |group, _| !buffer.is_empty(group));
        self.buffer.push_back(group, slot);
        self.rank(group);
    }

    fn leave_buffer(&mut self, slot: u32) {
        let group = self.buffer.list_of(slot).expect("a slot of the buffer is in a group");
        self.buffer.remove(slot);
        self.rank(group);
    }

    /// Gives a group its place among the groups: the largest, then the oldest, is next.
    fn rank(&mut self, group: u32) {
        match self.buffer.front(group) {
            Some(oldest) => {
                let key = (Reverse(self.buffer.len(group)), self.entered[oldest as usize]);
                self.groups.set(group, key);
            }
            None => {
                self.groups.remove(group);
            }
        }
    }

    /// Moves the least frequently used page to the buffer if the first level is full.
    fn make_room(&mut self, now: u64) {
        if self.level.len() == self.level_pages as usize {
            let (_, victim) = self.level.least().expect("a full level has a page");
            self.level.remove(victim);
            self.enter_buffer(victim, now);
        }
    }
}

impl Flash {
    fn new(ids: Ids, flash_pages: u32) -> Self {
        let slots = Slots::new(ids, flash_pages);
        Self { order: Lists::with_values(slots.count(), 1, 0), slots, pages: flash_pages }
    }

    /// Takes a page as the newest. The oldest is forgotten if there is no room.
    fn enter(&mut self, page: PageId, count: u32, out: &mut Actions) {
        if self.slots.len() == self.pages {
            let oldest = self.order.front(ORDER).expect("a full flash has a page");
            let (page, _) = self.leave(oldest);
            out.drop_copy(page, Tier::FLASH);
        }
        let slot = self.slots.enter(page);
        self.order.push_back(ORDER, slot);
        *self.order.value_mut(slot) = count;
    }

    /// Takes the page of a slot out, with its count.
    fn leave(&mut self, slot: u32) -> (PageId, u32) {
        self.order.remove(slot);
        (self.slots.leave(slot), *self.order.value(slot))
    }
}

impl Hca {
    /// Writes the largest group of the buffer to flash, or forgets it if there is no flash.
    fn flush_group(&mut self, out: &mut Actions) {
        let Self { ram, flash, .. } = self;
        let (_, group) = ram.groups.least().expect("an over-full buffer has a group");
        let pages = ram.buffer.len(group);
        while let Some(slot) = ram.buffer.front(group) {
            ram.leave_buffer(slot);
            let page = ram.slots.leave(slot);
            if flash.pages > 0 {
                out.copy(page, Tier::RAM, Tier::FLASH);
                flash.enter(page, ram.counts[slot as usize], out);
            }
            out.drop_copy(page, Tier::RAM);
        }
        if flash.pages > 0 {
            let logarithm = pages.next_power_of_two().trailing_zeros() as usize;
            self.block_writes[logarithm.min(BLOCK_WRITE_GAUGES.len() - 1)] += 1;
        }
    }
}

impl Policy for Hca {
    fn access(&mut self, Access { page, op, .. }: Access, out: &mut Actions) {
        self.accesses += 1;
        let in_ram = self.ram.slots.find(page);
        let on_flash = if in_ram.is_none() { self.flash.slots.find(page) } else { None };
        let found = match (in_ram, on_flash) {
            (Some(_), _) => Tier::RAM,
            (None, Some(_)) => Tier::FLASH,
            (None, None) => self.disk,
        };
        let is_fetched = op == Op::Read || self.write_miss == WriteMiss::Fetch;
        if in_ram.is_none() && (on_flash.is_some() || is_fetched) {
            out.copy(page, found, Tier::RAM);
        }
        out.serve(page, op, found, Tier::RAM);
        if op == Op::Write {
            out.copy(page, Tier::RAM, self.disk);
        }
        let former_count = on_flash.map_or(0, |slot| {
            out.drop_copy(page, Tier::FLASH);
            self.flash.leave(slot).1
        });
        let ram = &mut self.ram;
        let slot = in_ram.unwrap_or_else(|| {
            let slot = ram.slots.enter(page);
            ram.counts[slot as usize] = former_count;
            slot
        });
        let count = ram.counts[slot as usize].saturating_add(1);
        ram.counts[slot as usize] = count;
        if !ram.level.contains(slot) {
            if in_ram.is_some() {
                ram.leave_buffer(slot);
                self.buffer_hits += 1;
            }
            ram.make_room(self.accesses);
        }
        ram.level.set(slot, (count, self.accesses));
        if ram.buffered_pages() > ram.buffer_pages as usize {
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
            if self.flash.pages == 0 {
                out.drop_copy(page, Tier::FLASH);
            } else {
                self.flash.enter(page, 1, out);
            }
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.ram.slots.prefetch(page);
        self.flash.slots.prefetch(page);
    }

    fn assert_invariants(&self) {
        let Self { ram, flash, .. } = self;
        ram.slots.assert_invariants();
        ram.numbers.assert_invariants();
        ram.level.assert_invariants();
        ram.buffer.assert_invariants();
        ram.groups.assert_invariants();
        flash.slots.assert_invariants();
        flash.order.assert_invariants();
        assert!(ram.level.len() <= ram.level_pages as usize, "the first level fits");
        assert!(ram.buffered_pages() <= ram.buffer_pages as usize, "the buffer fits");
        assert!(flash.slots.len() <= flash.pages, "pages on flash fit it");
        assert_eq!(flash.slots.len(), flash.order.len(ORDER), "each page on flash is in order");
        let mut buffered = 0;
        for group in 0..ram.numbers.taken() {
            let len = ram.buffer.len(group);
            buffered += len as usize;
            assert_eq!(len > 0, ram.groups.contains(group), "a block with pages is a group");
            for slot in ram.buffer.iter(group) {
                assert_eq!(ram.block(slot), ram.numbers.page(group), "a group is of one block");
                assert!(!ram.level.contains(slot), "no page is in two places");
                assert!(ram.counts[slot as usize] > 0, "cached pages have a count");
            }
        }
        assert_eq!(buffered, ram.buffered_pages(), "each page in RAM is in one of two places");
        for ((Reverse(len), entered), group) in ram.groups.iter() {
            let oldest = ram.buffer.front(group).expect("a group has a page");
            assert_eq!(len, ram.buffer.len(group), "a group is ranked by its length");
            assert_eq!(entered, ram.entered[oldest as usize], "and by its oldest page");
        }
        for ((count, _), slot) in ram.level.iter() {
            assert_eq!(count, ram.counts[slot as usize], "the level is ordered by the counts");
        }
        for slot in flash.order.iter(ORDER) {
            let page = flash.slots.page(slot);
            assert_eq!(ram.slots.find(page), None, "no page is in RAM and on flash");
            assert!(*flash.order.value(slot) > 0, "cached pages have a count");
        }
    }

    fn memory_bytes(&self) -> usize {
        let Self { ram, flash, .. } = self;
        ram.slots.memory_bytes()
            + size_of_val(&*ram.counts)
            + ram.level.memory_bytes()
            + ram.numbers.memory_bytes()
            + ram.buffer.memory_bytes()
            + size_of_val(&*ram.entered)
            + ram.groups.memory_bytes()
            + ram.blocks.memory_bytes()
            + flash.slots.memory_bytes()
            + flash.order.memory_bytes()
    }

    /// The directory.
    fn metadata_bytes(&self) -> usize {
        let pages = self.ram.slots.len() as usize + self.flash.slots.len() as usize;
        pages * DIRECTORY_ENTRY_BYTES
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        report("level_pages", Tier::RAM, self.ram.level.len() as f64);
        if self.ram.buffer_pages > 0 {
            report("buffer_pages", Tier::RAM, self.ram.buffered_pages() as f64);
            report("buffer_hits", Tier::RAM, self.buffer_hits as f64);
        }
        if self.flash.pages > 0 {
            report("flash_pages", Tier::FLASH, f64::from(self.flash.slots.len()));
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
    use crate::{Geometry, registry};

    fn hca(sizes: [u32; 2], given: &[(&str, &str)]) -> BoxedPolicy {
        let setup = Setup::new(Geometry::linear(64), sizes.to_vec());
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
