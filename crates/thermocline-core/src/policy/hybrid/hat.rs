//! HAT: hot pages in memory, warm pages on flash, cold pages on disk; the place of a hit decides.
//!
//! A page reference queue keeps the ids of the pages referenced last, resident or not. Its newer
//! part is the hot region, its older part the warm region. A hit on the hot region makes a page
//! hot, a hit on the warm region makes it warm, a page not in the queue is cold. Hot pages live in
//! memory only, warm pages on flash (and in memory for a while), cold pages pass through a small
//! part of memory and return to disk.
//!
//! * Source: Lv, Cui, Chen, Li, *Hotness-aware buffer management for flash-based hybrid storage
//!   systems*, CIKM 2013 (section 3), and Frontiers of Computer Science 8(3), 2014.
//! * State: 4 bytes per page that exists (none where memory is saved), 20 bytes (13) per page in the queue,
//!   which holds at most `queue_ratio` times the pages of memory and flash together.
//! * Cost: amortised O(1) per access. All orders that the paper keeps in lists of their own (hot
//!   pages, non-hot pages in memory, pages on flash, the queue) are one order by last reference,
//!   restricted to a class; so one queue with classes serves them all, and a region is a boundary.
//! * Deviations: (1) the paper's lists of access scenarios and of quantity constraints are lost
//!   from its text; they are rebuilt from its prose: 6 scenarios, and the constraints that hot pages
//!   fit the hot zone, memory and flash fit their capacities. (2) The regions are brushed only after
//!   the hot zone, or flash, was full for the first time, since a brush presupposes a hot, or
//!   flash-resident, tail; `early_brush` does it from the first such page. (3) The brush of the warm
//!   region stops at any resident page, not only at one on flash, or the queue would forget a page
//!   in memory; the flash victim is the oldest page on flash. (4) The queue is bounded by
//!   `queue_ratio` times the pages of memory and flash: the oldest non-resident id leaves. (5) A warm page that is read
//!   into memory keeps its flash copy until it turns hot, so that its eviction costs no flash write.
//!   (6) Non-hot pages may use the hot zone while it is not full, unless `nonhot_zone` is fixed. (7) Without flash, a warm page
//!   that leaves memory becomes cold and goes to disk. (8) With a hot zone of no pages, a page that
//!   turns hot is degraded to warm at once. (9) After a restart, survivors of flash are warm and in
//!   the warm region.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use crate::action::Sink;
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::for_each;
use crate::queue::{Position, Recency};
use crate::{
    Access, Actions, BoxedPolicy, Counts, Op, PageId, Policy, Setup, Survivor, Tier, WriteMiss,
};

/// The parameters of HAT.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::real("nonhot_ratio", 0.0..=1.0, 0.1)
        .summary("share of memory reserved for pages that are not hot; at least one page")
        .source("the paper, section 3.4"),
    Parameter::switch("early_brush", false)
        .summary("brush the regions from the first hot or flash page on, not only when full")
        .source("reconstruction: the paper presupposes a hot tail"),
    Parameter::real("queue_ratio", 1.0..=16.0, 2.0)
        .summary("length of the page reference queue at most, as a multiple of memory and flash")
        .source("reconstruction: the paper says that it corresponds to memory and flash"),
    Parameter::choice("nonhot_zone", &["borrows", "fixed"], "borrows")
        .summary("whether pages that are not hot may use the hot zone while it is not full")
        .source("reconstruction: the paper's list of constraints is lost"),
];

/// State bit: hot, hence in memory.
const HOT: u8 = 1;
/// State bit: in memory and not hot.
const NONHOT: u8 = 1 << 1;
/// State bit: on flash, hence warm.
const FLASH: u8 = 1 << 2;
/// State bit: in the queue only.
const GHOST: u8 = 1 << 3;
/// State bit: warm.
const WARM: u8 = 1 << 4;
/// State bit: the copy in memory is newer than the disk's.
const DIRTY: u8 = 1 << 5;
/// State bit: the copy on flash is older than the one in memory.
const FLASH_STALE: u8 = 1 << 6;
/// State bit: the copy on flash is newer than the disk's.
const FLASH_DIRTY: u8 = 1 << 7;

const IN_MEMORY: u8 = HOT | NONHOT;
const ON_FLASH: u8 = FLASH | FLASH_STALE | FLASH_DIRTY;

/// Classes of the queue, as indices into its masks.
const HOT_PAGES: usize = 0;
const NONHOT_PAGES: usize = 1;
const FLASH_PAGES: usize = 2;
const GHOSTS: usize = 3;
const ANY: usize = 4;
const MASKS: [u8; 5] = [HOT, NONHOT, FLASH, GHOST, u8::MAX];

/// Hotness-aware hit.
#[derive(Clone, Debug)]
pub struct Hat {
    /// The page reference queue; the boundary parts the hot region from the warm region.
    queue: Recency<5>,
    memory_pages: u32,
    flash_pages: u32,
    hot_pages_max: u32,
    nonhot_pages_max: u32,
    queue_pages_max: u32,
    early_brush: bool,
    write_miss: WriteMiss,
    hot_pages: u32,
    held_memory_pages: u32,
    held_flash_pages: u32,
    /// `true` if the hot zone was ever full.
    is_hot_region_brushed: bool,
    /// `true` if flash was ever full.
    is_warm_region_brushed: bool,
}

/// Its row in the registry.
pub const HAT: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("hat"),
    summary: "hot, warm and cold pages by hit position in one page reference queue",
    source: "Lv, Cui, Chen, Li: Hotness-Aware Hit (HAT), CIKM 2013; Front. Comput. Sci. 8(3), 2014",
    module: module_path!(),
    capabilities: Capabilities::of(Depth::RamFlash),
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// Builds the policy for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(Hat::new(setup, values))
}

/// Return the non-hot zone: a share of memory, rounded half to even, at least one page.
fn nonhot_pages(ratio: f64, memory_pages: u32) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share in [0, 1] of a u32 is a u32"
    )]
    let pages = libm::rint(ratio * f64::from(memory_pages)) as u32;
    // At least one page: a page that just came from disk is cold (HAT, Section 3), and must fit in
    // memory even with a ratio of 0.
    pages.clamp(1, memory_pages)
}

/// Return the bound of the queue. It is never less than the pages that can be resident.
fn queue_pages(ratio: f64, [memory_pages, flash_pages]: [u32; 2]) -> u32 {
    let resident_pages = memory_pages.saturating_add(flash_pages);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of pages is not negative, and saturates"
    )]
    let pages = (ratio * f64::from(resident_pages)) as u32;
    // A queue shorter than the resident pages would have to forget one of them, and with it the
    // page's place: `forget` finds only ghosts to drop.
    pages.max(resident_pages)
}

/// Return the state of a page after a reference to it; zero is that of a page that is not in the
/// queue.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a call costs as much as the work")]
fn status_after(state: u8, op: Op, is_behind_boundary: bool) -> u8 {
    let is_in_memory = state & IN_MEMORY != 0;
    let was_dirty = state & if is_in_memory { DIRTY } else { FLASH_DIRTY } != 0;
    // Only the newest copy can be dirty. It is the one in memory, if there is one.
    let dirty = if was_dirty || op == Op::Write { DIRTY } else { 0 };
    if state == 0 {
        // Scenario 6: a page not in the queue is cold.
        // Cold although its id enters the hot region: only a second reference while it is there
        // makes it hot (HAT, Section 3, "Cold page").
        return NONHOT | dirty;
    }
    if !is_behind_boundary {
        // Scenarios 1, 2 and 3: a hit on the hot region.
        // A ghost that is hit here becomes hot too: the place in the queue decides, not where the
        // bytes are. Flash bits go, since hot pages are in memory only.
        return HOT | dirty;
    }
    debug_assert_eq!(state & HOT, 0, "hot pages are in the hot region");
    // Scenarios 4 and 5: a hit on the warm region.
    // A write makes the flash copy old but keeps its slot (deviation 5): the eviction writes the
    // page there again and needs no victim.
    let is_stale = op == Op::Write && state & FLASH != 0;
    let flash_stale = if is_stale { FLASH_STALE } else { state & FLASH_STALE };
    NONHOT | WARM | dirty | state & (FLASH | FLASH_DIRTY) | flash_stale
}

impl Hat {
    fn new(setup: &Setup, values: &Values) -> Self {
        let [memory_pages, flash_pages] = [setup.capacity_pages[0], setup.capacity_pages[1]];
        let queue_pages_max = queue_pages(values.real("queue_ratio"), [memory_pages, flash_pages]);
        let nonhot_zone_pages = nonhot_pages(values.real("nonhot_ratio"), memory_pages);
        let hot_pages_max = memory_pages - nonhot_zone_pages;
        let is_fixed = values.choice("nonhot_zone") == "fixed";
        // Deviation (6): "borrows" bounds only memory as a whole; "fixed" reads the paper's sizes
        // of the two zones as strict.
        let nonhot_pages_max = if is_fixed { nonhot_zone_pages } else { memory_pages };
        Self {
            // One place more than the bound: the referenced page enters before `forget` drops an
            // id.
            queue: Recency::new(setup.ids(), queue_pages_max.saturating_add(1), MASKS),
            memory_pages,
            flash_pages,
            hot_pages_max,
            nonhot_pages_max,
            queue_pages_max,
            early_brush: values.switch("early_brush"),
            write_miss: setup.write_miss,
            hot_pages: 0,
            held_memory_pages: 0,
            held_flash_pages: 0,
            is_hot_region_brushed: false,
            is_warm_region_brushed: false,
        }
    }

    /// Process one page reference.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "replays spend their time here")]
    fn step(&mut self, access: Access, out: &mut impl Sink) {
        let is_fetched = self.refer(access, out);
        // Before the eviction: a hot page that degrades here becomes a candidate for it. HAT,
        // Section 3, calls the chain of constraints a cascade.
        self.brush_hot_region();
        // A hit in memory makes no page more, and none more that is not hot: where it makes a page
        // hot, one page leaves the hot zone at most.
        if is_fetched
            && (self.held_memory_pages > self.memory_pages
                || self.nonhot_pages() > self.nonhot_pages_max)
        {
            self.evict_from_memory(out);
        }
        // Last: the evictions before it may have left ghosts at the tail of the warm region.
        self.forget();
    }

    const fn nonhot_pages(&self) -> u32 {
        self.held_memory_pages - self.hot_pages
    }

    /// Fetches the page if need be, serves the access and gives the page its new status. Returns
    /// `true` if the page was not in memory.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs a part of the work")]
    fn refer(&mut self, Access { page, op, .. }: Access, out: &mut impl Sink) -> bool {
        let Self { queue, write_miss, hot_pages, held_memory_pages, held_flash_pages, .. } = self;
        let former = queue.touch_with(page, |state, is_behind_boundary| {
            let found = match state {
                _ if state & IN_MEMORY != 0 => Tier::RAM,
                _ if state & FLASH != 0 => Tier::FLASH,
                _ => Tier::DISK,
            };
            if found != Tier::RAM {
                *held_memory_pages += 1;
                let is_fetched = write_miss.fetches(op);
                out.copy_if(found == Tier::FLASH || is_fetched, page, found, Tier::RAM);
            }
            out.serve(page, op, found, Tier::RAM);
            let next = status_after(state, op, is_behind_boundary);
            if next & HOT != 0 {
                *hot_pages += u32::from(state & HOT == 0);
                if state & FLASH != 0 {
                    // Hot pages are in memory only: the flash copy is freed, which leaves memory
                    // with the newest version.
                    out.drop_copy(page, Tier::FLASH);
                    *held_flash_pages -= 1;
                }
            }
            next
        });
        former & IN_MEMORY == 0
    }

    /// Keeps hot pages within the hot zone, and the tail of the hot region hot.
    fn brush_hot_region(&mut self) {
        if self.hot_pages > self.hot_pages_max {
            let (tail, state) = self.oldest(HOT_PAGES);
            // The least recently referenced hot page degrades to warm. It stays in memory and in
            // the order of its last reference.
            self.queue.set_state(tail, NONHOT | WARM | state & DIRTY);
            self.hot_pages -= 1;
        }
        // Deviation (2): a brush presupposes a hot tail, which the first pages do not have.
        self.is_hot_region_brushed |= self.hot_pages >= self.quota(self.hot_pages_max);
        if self.is_hot_region_brushed {
            match self.queue.oldest(HOT_PAGES) {
                // A brush moves the boundary to the oldest hot page, so pages behind it, warm and cold
                // ones, are in the warm region now.
                Some((tail, _)) => self.queue.set_boundary(tail),
                // Deviation (8): without any hot page there is no tail to stop at, so the whole
                // queue is warm region.
                None => self.queue.set_boundary_to_newest(),
            }
        }
    }

    /// Keeps memory within its capacity: the oldest page that is not hot goes where its status says.
    fn evict_from_memory(&mut self, out: &mut impl Sink) {
        let (position, state) = self.oldest(NONHOT_PAGES);
        let page = self.queue.page(position);
        // Status alone decides: a warm page goes to flash, clean or dirty, and a cold page to disk.
        // Deviation (7): without flash, a warm page goes to disk too.
        let next = if state & WARM != 0 && self.flash_pages > 0 {
            // The victim may be referenced later than the page that displaces it: the paper says
            // only that the warm page with the largest recency on flash becomes cold.
            if state & FLASH == 0 && self.held_flash_pages == self.flash_pages {
                self.evict_from_flash(out);
            }
            self.held_flash_pages += u32::from(state & FLASH == 0);
            // Deviation (5): the flash copy was kept while the page was in memory. If it is the
            // same version, the eviction writes nothing.
            if state & FLASH == 0 || state & FLASH_STALE != 0 {
                out.copy(page, Tier::RAM, Tier::FLASH);
                WARM | FLASH | if state & DIRTY == 0 { 0 } else { FLASH_DIRTY }
            } else {
                WARM | FLASH | state & FLASH_DIRTY
            }
        } else {
            out.copy_if(state & DIRTY != 0, page, Tier::RAM, Tier::DISK);
            GHOST
        };
        out.drop_copy(page, Tier::RAM);
        self.held_memory_pages -= 1;
        self.queue.set_state(position, next);
    }

    /// Makes room on flash: the oldest page there becomes cold.
    fn evict_from_flash(&mut self, out: &mut impl Sink) {
        let (position, state) = self.oldest(FLASH_PAGES);
        let page = self.queue.page(position);
        let next = if state & IN_MEMORY != 0 {
            // It stays in memory as a cold page, and keeps its newest version there.
            // DIRTY stays: it says that memory is newer than the disk, which a lost flash copy does
            // not change.
            state & !(ON_FLASH | WARM)
        } else {
            out.copy_if(state & FLASH_DIRTY != 0, page, Tier::FLASH, Tier::DISK);
            GHOST
        };
        out.drop_copy(page, Tier::FLASH);
        self.held_flash_pages -= 1;
        self.queue.set_state(position, next);
    }

    /// Keeps the tail of the warm region resident, and the queue within its bound.
    fn forget(&mut self) {
        self.is_warm_region_brushed |= self.held_flash_pages >= self.quota(self.flash_pages);
        if self.is_warm_region_brushed {
            // Deviation (3): the brush stops at any resident page, or the queue would forget a page
            // in memory.
            while let Some((tail, state)) = self.queue.oldest(ANY)
                && state & GHOST != 0
                && self.queue.is_behind_boundary(tail)
            {
                self.queue.set_state(tail, 0);
            }
        }
        // Deviation (4): nothing else bounds a queue whose pages are never referenced again.
        if self.queue.len() > self.queue_pages_max {
            // Only an id without a copy may go. There is one: the bound is at least the number of
            // resident pages.
            let (oldest, _) = self.oldest(GHOSTS);
            self.queue.set_state(oldest, 0);
        }
    }

    /// Return the number of pages that must have filled a zone before its region is brushed.
    fn quota(&self, capacity_pages: u32) -> u32 {
        if self.early_brush { capacity_pages.min(1) } else { capacity_pages }
    }

    fn oldest(&mut self, class: usize) -> (Position, u8) {
        self.queue.oldest(class).expect("the class has a member: its count says so")
    }
}

impl Policy for Hat {
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

    fn flush(&mut self, out: &mut Actions) {
        self.queue.update_states(|page, state| {
            if state & DIRTY != 0 {
                out.copy(page, Tier::RAM, Tier::DISK);
            } else if state & FLASH_DIRTY != 0 {
                out.copy(page, Tier::FLASH, Tier::DISK);
            }
            state & !(DIRTY | FLASH_DIRTY)
        });
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        for survivor in survivors {
            if self.flash_pages == 0 {
                if survivor.is_dirty {
                    out.copy(survivor.page, Tier::FLASH, Tier::DISK);
                }
                out.drop_copy(survivor.page, Tier::FLASH);
                continue;
            }
            // More survivors than flash holds now: they come from the least to the most recently
            // written, so the oldest leave.
            if self.held_flash_pages == self.flash_pages {
                self.evict_from_flash(out);
            }
            let dirty = if survivor.is_dirty { FLASH_DIRTY } else { 0 };
            self.queue.touch(survivor.page, WARM | FLASH | dirty);
            self.held_flash_pages += 1;
        }
        // Deviation (9): after a restart a first hit makes a survivor warm, not hot. Nothing is
        // known of how often it was used before.
        self.queue.set_boundary_to_newest();
        self.forget();
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.queue.prefetch(page);
    }

    #[inline]
    fn prefetch_next(&self, page: PageId) {
        self.queue.prefetch_state(page);
    }

    fn assert_invariants(&self) {
        self.queue.assert_invariants();
        let (mut hot, mut nonhot, mut on_flash) = (0, 0, 0);
        let (mut oldest_hot, mut oldest_resident) = (None, None);
        for (position, _, state) in self.queue.iter() {
            let is_resident = state & (IN_MEMORY | FLASH) != 0;
            assert_ne!(is_resident, state & GHOST != 0, "a ghost is resident nowhere");
            if state & HOT != 0 {
                hot += 1;
                oldest_hot = oldest_hot.or(Some(position));
                assert!(!self.queue.is_behind_boundary(position), "hot: in the hot region");
                assert_eq!(state & !(HOT | DIRTY), 0, "hot: in memory only");
            }
            if is_resident {
                oldest_resident = oldest_resident.or(Some(position));
            }
            nonhot += u32::from(state & NONHOT != 0);
            on_flash += u32::from(state & FLASH != 0);
            assert!(state & FLASH == 0 || state & WARM != 0, "flash holds warm pages only");
            assert!(state & WARM == 0 || is_resident, "a warm page is resident");
            assert!(state & ON_FLASH == 0 || state & FLASH != 0, "flash bits mean a flash copy");
            assert!(state & DIRTY == 0 || state & IN_MEMORY != 0, "dirty bits mean a copy");
        }
        assert_eq!(hot, self.hot_pages, "hot pages are counted");
        assert_eq!(hot + nonhot, self.held_memory_pages, "pages in memory are counted");
        assert_eq!(on_flash, self.held_flash_pages, "pages on flash are counted");
        assert!(hot <= self.hot_pages_max, "hot pages fit the hot zone");
        assert!(self.held_memory_pages <= self.memory_pages, "pages in memory fit it");
        assert!(nonhot <= self.nonhot_pages_max, "pages that are not hot fit their zone");
        assert!(on_flash <= self.flash_pages, "pages on flash fit it");
        assert!(self.queue.len() <= self.queue_pages_max, "the queue is bounded");
        if self.is_hot_region_brushed {
            let tail = self.queue.iter().find(|entry| !self.queue.is_behind_boundary(entry.0));
            assert_eq!(tail.map(|entry| entry.0), oldest_hot, "the hot region's tail is hot");
        }
        if self.is_warm_region_brushed {
            let tail = self.queue.iter().next().map(|entry| entry.0);
            let is_ghost_behind = tail.is_some_and(|tail| self.queue.is_behind_boundary(tail));
            assert!(!is_ghost_behind || tail == oldest_resident, "the warm tail is resident");
        }
    }

    fn memory_bytes(&self) -> usize {
        self.queue.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::{Geometry, registry};

    fn hat(memory_pages: u32, flash_pages: u32) -> Hat {
        let setup = Setup::new(Geometry::linear(8), vec![memory_pages, flash_pages]);
        Hat::new(&setup, &registry::find("hat").unwrap().values(&[]).unwrap())
    }

    /// Makes an access, as `R1` or `W1`, and shows the two regions from head to tail.
    fn regions_after(hat: &mut Hat, access: &str) -> String {
        let page = access[1..].parse().unwrap();
        let access = if access.starts_with('W') { Access::write(page) } else { Access::read(page) };
        hat.access(access, &mut Actions::new());
        hat.assert_invariants();
        let show = |(_, page, state): (Position, PageId, u8)| {
            let status = match state {
                _ if state & HOT != 0 => 'H',
                _ if state & WARM != 0 => 'W',
                _ => 'C',
            };
            alloc::format!("{}{status}", page.0)
        };
        let entries: Vec<_> = hat.queue.iter().collect();
        let (warm, hot): (Vec<_>, Vec<_>) =
            entries.into_iter().rev().partition(|entry| hat.queue.is_behind_boundary(entry.0));
        let text = |region: Vec<_>| region.into_iter().map(show).collect::<Vec<_>>().join(" ");
        alloc::format!("{} | {}", text(hot), text(warm))
    }

    /// Worked example: the regions after each access.
    #[test]
    fn the_regions_follow_the_six_scenarios() {
        let mut hat = hat(3, 2);
        for (access, regions) in [
            ("R1", "1C | "),
            ("R2", "2C 1C | "),
            ("R3", "3C 2C 1C | "),
            ("R1", "1H 3C 2C | "),
            ("R2", "2H 1H | 3C"),
            ("R4", "4C 2H 1H | 3C"),
            ("R3", "3W 4C 2H 1H | "),
            ("R5", "5C 3W 4C 2H 1H | "),
            ("R3", "3H 5C 4C 2H | 1W"),
            ("R1", "1W 3H 5C 4C 2H | "),
            ("R2", "2H 1W 3H | 5C 4C"),
        ] {
            assert_eq!(regions_after(&mut hat, access), regions, "{access}");
        }
    }

    /// Worked examples: one hot page, one page of flash.
    #[test]
    fn the_regions_of_a_small_memory() {
        let mut small = hat(2, 1);
        for access in ["W1", "R1", "R2", "R3", "R1", "W2", "R3"] {
            regions_after(&mut small, access);
        }
        assert_eq!(regions_after(&mut small, "R4"), "4C 3W 2C 1H | ");

        let mut small = hat(2, 1);
        for access in ["W1", "R1", "R2"] {
            regions_after(&mut small, access);
        }
        for (access, regions) in
            [("R2", "2H | 1W"), ("R3", "3C 2H | 1W"), ("R1", "1W 3C 2H | "), ("R1", "1H | 3C 2W")]
        {
            assert_eq!(regions_after(&mut small, access), regions, "{access}");
        }
    }

    #[test]
    fn the_nonhot_zone_is_a_rounded_share_of_at_least_one_page() {
        assert_eq!(nonhot_pages(0.1, 3), 1);
        assert_eq!(nonhot_pages(0.1, 25), 2, "half rounds to even");
        assert_eq!(nonhot_pages(0.1, 36), 4);
        assert_eq!(nonhot_pages(1.0, 7), 7);
        assert_eq!(nonhot_pages(0.0, 7), 1);
    }
}
