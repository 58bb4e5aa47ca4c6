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
//! * State: 12 bytes per page that exists (8 if pages are those of a device), 10 bytes per page of
//!   flash, 44 bytes per page of RAM and up to 32 more if it was referenced again, 4 bytes per SSD
//!   block that exists, and up to 60 bytes per page of the buffer. Sparse, none per page of a device
//!   or per block; 16 per page of flash, 49 and 20 per page of RAM, 65 per page of the buffer.
//! * Cost: O(log n) per access, and per page written to flash.
//! * Deviations: (1) the paper gives the buffer a size of its own; here it is a part of the RAM tier,
//!   which is the first level and the buffer together, and a RAM too small for both leaves one page
//!   to the first level. (2) The paper names no replacement on flash: least recently used. It names
//!   no tie rule of LFU: least recently used too. (3) The paper does not say how long counts live. A
//!   page's count is forgotten when it leaves the first level, as in the baseline: only then do RAM
//!   hits rise slightly, by those in the buffer, as the paper finds. With `counts` kept, they live
//!   while a page is cached anywhere. (4) A hit in the buffer counts as one in RAM, as in the
//!   paper, and moves the page back up.
//!   (5) The paper searches the buffer last; as no page is in two places, the order is no matter.
//!   (6) Groups of equal size leave in the order in which they entered the buffer, and the pages of
//!   a group enter flash in the order in which they entered the buffer. (7) The paper does not treat
//!   writes: they load the page and go through to disk. (8) What survives a restart was referenced
//!   once.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::action::Sink;
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::blocks::Blocks;
use crate::policy::for_each;
use crate::prefetch::prefetch;
use crate::queue::{IndexedHeap, LazyHeap, Lists, Ring, Slots, Stamp};
use crate::{
    Access, Actions, BoxedPolicy, Counts, Ids, Op, PageId, Policy, Setup, Survivor, Tier, WriteMiss,
};

/// The parameters of HCA.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("buffer_pages", 0..=1 << 31, 16)
        .summary("pages of RAM that are the transient buffer; the rest is the first level")
        .source("the paper: 64 KiB, as pages of 4 KiB"),
    Parameter::integer("pages_per_block", 1..=1 << 16, 64)
        .summary("pages of an SSD block, by which pages are grouped")
        .source("the paper names no size; SSDsim's default geometry"),
    Parameter::choice("counts", &["forgotten", "kept"], "forgotten")
        .summary(
            "forgotten when a page leaves the first level, or kept while it is cached anywhere",
        )
        .source("the paper is silent; forgotten: RAM hits rise slightly, by those in the buffer"),
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
    /// `true` if a page's count lives on outside the first level.
    keeps_counts: bool,
    buffer_hits: u64,
    /// Block writes by the logarithm of their pages; see [`BLOCK_WRITE_GAUGES`].
    block_writes: [u64; BLOCK_WRITE_GAUGES.len()],
}

/// The first level, and the buffer.
#[derive(Debug)]
struct Ram {
    slots: Slots,
    /// Per slot.
    uses: Vec<Uses>,
    /// The slots of pages of the first level that were referenced once, and when, the oldest first; and
    /// of pages that were, before they were referenced again.
    once: VecDeque<(u32, Stamp)>,
    /// The slots of the other pages of the first level, the next victim least.
    often: LazyHeap<Rank>,
    /// Number of pages the first level has.
    level_len: u32,
    level_pages: u32,
    /// The SSD blocks with pages in the buffer, each of which is a group. A slot here has a block, not
    /// a page.
    groups: Slots,
    /// Per group: the slots of its pages in the buffer, the oldest at the front.
    buffer: Lists,
    /// The groups of a page that never had two, by when it entered the buffer, the oldest at the front.
    /// Most groups leave as they came where pages are scattered, and need no heap.
    singles: Lists,
    /// The other groups, the next to be written least.
    ranked: IndexedHeap<GroupRank>,
    blocks: Blocks,
    buffer_pages: u32,
}

/// Uses of a page of RAM.
#[derive(Clone, Copy, Debug)]
struct Uses {
    /// The access by which it was last used, or by which it entered the buffer, if it is there.
    at: u64,
    /// Number of references since it has been cached.
    count: u32,
    is_in_level: bool,
}

/// The order of the first level's victims: count, then the access that a page was last used by.
type Rank = (u32, Stamp);

/// The order in which groups are written: the largest, then the one with the oldest page.
type GroupRank = (Reverse<u32>, u64);

/// The only list of the groups of a page.
const SINGLES: u32 = 0;

/// Uses of a slot without a page.
const UNUSED: Uses = Uses { at: 0, count: 0, is_in_level: false };

/// Distance from the next victim at which the tables prefetch their state of those to come.
const AHEAD_VICTIMS: usize = 4;

/// The pages on flash.
#[derive(Debug)]
struct Flash {
    /// The pages in the order in which they entered, each with how often it was referenced since it is
    /// cached. Those that left are holes, which are squeezed out.
    order: Ring<u32>,
    pages: u32,
}

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
        keeps_counts: values.choice("counts") == "kept",
        buffer_hits: 0,
        block_writes: [0; BLOCK_WRITE_GAUGES.len()],
    })
}

impl Ram {
    fn new(setup: &Setup, buffer_pages: u32, blocks: Blocks) -> Self {
        let pages = setup.capacity_pages[0];
        // The buffer is a part of RAM; the first level keeps one page at least.
        let buffer_pages = buffer_pages.min(pages - 1);
        // A page more enters before a group leaves.
        let ids = setup.ids();
        let slots = Slots::new(ids, pages.saturating_add(1));
        let block_ids = Ids { pages: blocks.count(), ..ids };
        let groups = Slots::new(block_ids, buffer_pages.saturating_add(1));
        let level_pages = pages - buffer_pages;
        Self {
            uses: vec![UNUSED; slots.count() as usize],
            once: VecDeque::with_capacity(level_pages.min(ids.pages) as usize),
            often: LazyHeap::new(ids.indexing),
            level_len: 0,
            level_pages,
            buffer: Lists::new(slots.count(), groups.count()),
            singles: Lists::new(groups.count(), 1),
            ranked: IndexedHeap::new(groups.count()),
            groups,
            blocks,
            buffer_pages,
            slots,
        }
    }

    fn buffered_pages(&self) -> u32 {
        self.slots.len() - self.level_len
    }

    fn block(&self, slot: u32) -> PageId {
        PageId(self.blocks.of(self.slots.page(slot)))
    }

    fn enter_buffer(&mut self, slot: u32, now: u64) {
        let uses = &mut self.uses[slot as usize];
        (uses.at, uses.is_in_level) = (now, false);
        let block = self.block(slot);
        match self.groups.find(block) {
            Some(group) => {
                self.buffer.push_back(group, slot);
                if self.singles.list_of(group).is_some() {
                    self.singles.remove(group);
                }
                self.rank(group);
            }
            None => {
                let group = self.groups.enter(block);
                self.buffer.push_back(group, slot);
                self.singles.push_back(SINGLES, group);
            }
        }
    }

    fn leave_buffer(&mut self, slot: u32) {
        let group = self.buffer.list_of(slot).expect("a slot of the buffer is in a group");
        self.buffer.remove(slot);
        if self.buffer.is_empty(group) {
            self.forget_group(group);
        } else {
            self.rank(group);
        }
    }

    /// Gives a group that has two pages, or had, its place among the groups.
    fn rank(&mut self, group: u32) {
        let rank = self.group_rank(group);
        self.ranked.set(group, rank);
    }

    fn group_rank(&self, group: u32) -> GroupRank {
        let oldest = self.buffer.front(group).expect("a group has a page");
        // Of equally large groups the one leaves whose page entered the buffer first.
        (Reverse(self.buffer.len(group)), self.uses[oldest as usize].at)
    }

    /// Takes the number back from a group whose pages have left.
    #[inline]
    fn forget_group(&mut self, group: u32) {
        if self.singles.list_of(group).is_some() {
            self.singles.remove(group);
        } else {
            self.ranked.remove(group);
        }
        self.groups.leave(group);
    }

    /// Return the group to be written next.
    #[inline]
    fn next_group(&self) -> Option<u32> {
        let single = self.singles.front(SINGLES);
        let ranked = self.ranked.least();
        match (single, ranked) {
            (Some(single), Some((rank, group))) => {
                Some(if self.group_rank(single) < rank { single } else { group })
            }
            (single, ranked) => single.or(ranked.map(|(_, group)| group)),
        }
    }

    /// Moves the least frequently used page to the buffer if the first level is full.
    fn make_room(&mut self, now: u64) {
        if self.level_len == self.level_pages {
            let victim = self.take_least();
            self.level_len -= 1;
            // Section IV: what L1 evicts goes to the transient buffer, never straight to the SSD.
            self.enter_buffer(victim, now);
        }
    }

    /// Return the least frequently used page of a full level.
    fn take_least(&mut self) -> u32 {
        // Pages that were referenced once have the least count. Of these, the oldest leaves first.
        while let Some((slot, at)) = self.once.pop_front() {
            // An entry is old if its page was used again, or left, since: the queue is not searched
            // on each use.
            if self.uses[slot as usize].rank_of_once() == Some(at) {
                return slot;
            }
        }
        let uses = &self.uses;
        let least = self.often.least(|slot| uses[slot as usize].rank_of_often());
        least.expect("a full level has a page").1
    }

    /// Notes a use of a page that is in the first level from now on, and has this count.
    #[inline]
    fn note(&mut self, slot: u32, count: u32, now: u64) {
        let uses = &mut self.uses[slot as usize];
        let was_often = uses.rank_of_often().is_some();
        self.level_len += u32::from(!uses.is_in_level);
        *uses = Uses { at: now, count, is_in_level: true };
        if count == 1 {
            self.once.push_back((slot, Stamp(now)));
        } else if !was_often {
            let uses = &self.uses;
            let current = |slot: u32| uses[slot as usize].rank_of_often();
            self.often.push(slot, (count, Stamp(now)), self.level_len as usize, current);
        }
    }

    /// Return the page of a victim to come.
    fn coming(&self) -> Option<PageId> {
        let &(slot, _) = self.once.get(AHEAD_VICTIMS)?;
        Some(self.slots.page(slot))
    }
}

impl Uses {
    /// Return the time of the last reference, if the page is in the first level and was referenced
    /// once.
    #[inline]
    fn rank_of_once(self) -> Option<Stamp> {
        (self.is_in_level && self.count == 1).then_some(Stamp(self.at))
    }

    /// Return the rank of a page of the first level that was referenced more than once.
    #[inline]
    fn rank_of_often(self) -> Option<Rank> {
        (self.is_in_level && self.count > 1).then_some((self.count, Stamp(self.at)))
    }
}

impl Flash {
    fn new(ids: Ids, flash_pages: u32) -> Self {
        let pages = flash_pages.min(ids.pages);
        // A page that is hit leaves its place as a hole; a quarter more slots than pages makes
        // squeezing rare.
        Self { order: Ring::new(ids, pages.saturating_add(holes_of(pages))), pages: flash_pages }
    }

    /// Takes a page as the newest. The oldest is forgotten if there is no room.
    fn enter(&mut self, page: PageId, count: u32, out: &mut impl Sink) {
        if let Some(coming) = self.order.coming() {
            self.order.prefetch(coming);
        }
        while self.order.len() == self.pages {
            if let Some((oldest, _)) = self.order.pop() {
                out.drop_copy(oldest, Tier::FLASH);
            }
        }
        let holes = self.order.slots() - self.order.len() as usize;
        if holes > holes_of(self.order.len()) as usize {
            self.order.squeeze();
        }
        self.order.push(page, count);
    }
}

/// Return the number of holes that the order of this many pages may have.
const fn holes_of(pages: u32) -> u32 {
    pages / 4
}

impl Hca {
    /// Process one page reference.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "replays spend their time here")]
    fn step(&mut self, Access { page, op, .. }: Access, out: &mut impl Sink) {
        self.accesses += 1;
        let Self { ram, flash, accesses, write_miss, disk, keeps_counts, buffer_hits, .. } = self;
        let in_ram = ram.slots.find(page);
        // Exclusive: a page found on flash leaves it, and its count comes along.
        let on_flash = if in_ram.is_none() { flash.order.take(page) } else { None };
        let found = match (in_ram, on_flash) {
            (Some(_), _) => Tier::RAM,
            (None, Some(_)) => Tier::FLASH,
            (None, None) => *disk,
        };
        let is_fetched = write_miss.fetches(op);
        let is_copied = in_ram.is_none() && (on_flash.is_some() || is_fetched);
        out.copy_if(is_copied, page, found, Tier::RAM);
        out.serve(page, op, found, Tier::RAM);
        // Write-through: cached pages are always clean, so evictions from flash cost no write.
        out.copy_if(op == Op::Write, page, Tier::RAM, *disk);
        if on_flash.is_some() {
            out.drop_copy(page, Tier::FLASH);
        }
        let slot = in_ram.unwrap_or_else(|| {
            let slot = ram.slots.enter(page);
            ram.groups.prefetch(ram.block(slot));
            ram.uses[slot as usize] = Uses { count: on_flash.unwrap_or(0), ..UNUSED };
            slot
        });
        let Uses { count, is_in_level, .. } = ram.uses[slot as usize];
        let count = if is_in_level || *keeps_counts { count } else { 0 };
        if !is_in_level {
            if in_ram.is_some() {
                // A hit in the transient buffer counts as one of RAM, and the page returns to the
                // first level.
                ram.leave_buffer(slot);
                *buffer_hits += 1;
            }
            if let Some(coming) = ram.coming() {
                ram.blocks.prefetch(coming);
                ram.slots.prefetch(coming);
                flash.order.prefetch(coming);
            }
            // The victim is chosen before the page enters, so a new page is never its own victim.
            ram.make_room(*accesses);
        }
        ram.note(slot, count.saturating_add(1), *accesses);
        // The buffer gathers pages of one SSD block, and writes the largest group as one block
        // write.
        if ram.buffered_pages() > ram.buffer_pages {
            self.flush_group(out);
        }
    }

    /// Write the largest group of the buffer to flash, or drop it if there is no flash.
    fn flush_group(&mut self, out: &mut impl Sink) {
        let Self { ram, flash, .. } = self;
        let group = ram.next_group().expect("an over-full buffer has a group");
        let pages = ram.buffer.len(group);
        while let Some(slot) = ram.buffer.front(group) {
            ram.buffer.remove(slot);
            let page = ram.slots.leave(slot);
            if flash.pages > 0 {
                out.copy(page, Tier::RAM, Tier::FLASH);
                flash.enter(page, ram.uses[slot as usize].count, out);
            }
            out.drop_copy(page, Tier::RAM);
        }
        ram.forget_group(group);
        if flash.pages > 0 {
            let logarithm = pages.next_power_of_two().trailing_zeros() as usize;
            self.block_writes[logarithm.min(BLOCK_WRITE_GAUGES.len() - 1)] += 1;
        }
    }
}

impl Policy for Hca {
    fn access(&mut self, access: Access, out: &mut Actions) {
        self.step(access, out);
    }

    fn access_all(
        &mut self,
        accesses: &[Access],
        coming: &[Access],
        _actions: &mut Actions,
        counts: &mut Counts,
    ) {
        for_each(self, accesses, coming, |policy, access| policy.step(access, counts));
    }

    /// Does nothing: every write went through to disk.
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
        self.flash.order.prefetch(page);
    }

    #[inline]
    fn prefetch_next(&self, page: PageId) {
        match self.ram.slots.find(page) {
            Some(slot) => prefetch(&self.ram.uses, slot as usize),
            // It may be the next to go to the buffer, as most pages that come are not used again.
            None => self.ram.blocks.prefetch(page),
        }
    }

    fn assert_invariants(&self) {
        let Self { ram, flash, .. } = self;
        ram.slots.assert_invariants();
        ram.groups.assert_invariants();
        let uses = || (0..).zip(&ram.uses);
        ram.often.assert_invariants(
            uses().filter_map(|(slot, uses)| Some((slot, uses.rank_of_often()?))),
        );
        ram.buffer.assert_invariants();
        ram.singles.assert_invariants();
        ram.ranked.assert_invariants();
        flash.order.assert_invariants();
        let in_level = ram.uses.iter().filter(|uses| uses.is_in_level).count();
        assert_eq!(in_level, ram.level_len as usize, "pages of the first level are counted");
        assert!(ram.level_len <= ram.level_pages, "the first level fits");
        assert!(ram.once.len() <= ram.level_len as usize, "what was referenced once is bounded");
        let once = ram
            .once
            .iter()
            .filter(|&&(slot, at)| ram.uses[slot as usize].rank_of_once() == Some(at));
        let expected = ram.uses.iter().filter(|uses| uses.rank_of_once().is_some()).count();
        assert_eq!(once.count(), expected, "pages that were referenced once are in order");
        assert!(ram.buffered_pages() <= ram.buffer_pages, "the buffer fits");
        assert!(flash.order.len() <= flash.pages, "pages on flash fit it");
        let mut buffered = 0;
        for group in 0..ram.groups.count() {
            let len = ram.buffer.len(group);
            buffered += len;
            let is_single = ram.singles.list_of(group).is_some();
            let rank = ram.ranked.key(group);
            assert_eq!(len > 0, is_single || rank.is_some(), "a block with pages is a group");
            assert!(!is_single || (len == 1 && rank.is_none()), "a single page is in one place");
            for slot in ram.buffer.iter(group) {
                assert_eq!(ram.block(slot), ram.groups.page(group), "a group is of one block");
                let Uses { count, is_in_level, .. } = ram.uses[slot as usize];
                assert!(!is_in_level, "no page is in two places");
                assert!(count > 0, "cached pages have a count");
            }
            if let Some(rank) = rank {
                assert_eq!(rank, ram.group_rank(group), "by its length and its oldest page");
            }
        }
        let ranks: Vec<_> = ram.singles.iter(SINGLES).map(|group| ram.group_rank(group)).collect();
        assert!(ranks.is_sorted(), "single pages are in the order of their entry");
        assert_eq!(buffered, ram.buffered_pages(), "each page in RAM is in one of two places");
        for page in flash.order.iter() {
            assert_eq!(ram.slots.find(page), None, "no page is in RAM and on flash");
        }
    }

    fn memory_bytes(&self) -> usize {
        let Self { ram, flash, .. } = self;
        ram.slots.memory_bytes()
            + size_of_val(&*ram.uses)
            + ram.once.capacity() * size_of::<(u32, Stamp)>()
            + ram.often.memory_bytes()
            + ram.groups.memory_bytes()
            + ram.buffer.memory_bytes()
            + ram.singles.memory_bytes()
            + ram.ranked.memory_bytes()
            + ram.blocks.memory_bytes()
            + flash.order.memory_bytes()
    }

    /// Return the directory.
    fn metadata_bytes(&self) -> usize {
        let pages = self.ram.slots.len() as usize + self.flash.order.len() as usize;
        pages * DIRECTORY_ENTRY_BYTES
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        report("level_pages", Tier::RAM, f64::from(self.ram.level_len));
        if self.ram.buffer_pages > 0 {
            report("buffer_pages", Tier::RAM, f64::from(self.ram.buffered_pages()));
            report("buffer_hits", Tier::RAM, self.buffer_hits as f64);
        }
        if self.flash.pages > 0 {
            report("flash_pages", Tier::FLASH, f64::from(self.flash.order.len()));
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
