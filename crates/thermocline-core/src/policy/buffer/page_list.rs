//! LRU, CFLRU and LRU-WSR: one list of pages by last reference, and three ways to pick a victim.
//!
//! LRU evicts the oldest page. CFLRU prefers clean pages among the oldest ones, as they cost no
//! program. LRU-WSR gives dirty pages that were referenced since they were last considered a second
//! chance.
//!
//! * Source: Park, Jung, Kang, Kim, Lee, *CFLRU: a replacement algorithm for flash memory*, CASES
//!   2006; Jung, Shim, Park, Kang, Cha, *LRU-WSR*, IEEE Trans. Consumer Electronics 54(3), 2008.
//! * State: 13 bytes per page that exists, 25 for CFLRU.
//! * Cost: O(1) per access; LRU-WSR amortised.
//! * Deviations: (1) what reads do is a parameter, since these are policies of general page caches:
//!   the write buffers of SSDs leave reads alone, while CFLRU and LRU-WSR are LRU as long as every
//!   page is dirty, so they hold what is read by default. (2) CFLRU's window is fixed; its dynamic
//!   variant has no published rule that could be followed. (3) A page of LRU-WSR may enter with its
//!   mark already set, so that only a reference earns the second chance (`initial_cold`): with
//!   writes alone, LRU-WSR proper is LRU.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use super::frames::Frames;
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::queue::Lists;
use crate::{Access, Actions, BoxedPolicy, Op, PageId, Policy, Setup, Survivor};

/// Return the parameter for the effect of reads, with its default.
pub(super) const fn reads(default: &'static str) -> Parameter {
    Parameter::choice("reads", &["ignore", "touch", "hold"], default)
        .summary(
            "a read changes nothing; refreshes a page of the buffer; or brings its page in too",
        )
        .source("write buffers leave reads alone, page caches hold what is read")
}

/// The parameters of LRU.
pub const LRU_PARAMETERS: &[Parameter] = &[reads("ignore")];

/// The parameters of CFLRU.
pub const CFLRU_PARAMETERS: &[Parameter] = &[
    reads("hold"),
    Parameter::real("window", 0.0..=1.0, 0.5)
        .summary("the share of the buffer, from the old end, in which clean pages go first")
        .source("implementations of the paper; it gives none"),
];

/// The parameters of LRU-WSR.
pub const LRU_WSR_PARAMETERS: &[Parameter] = &[
    reads("hold"),
    Parameter::switch("initial_cold", false)
        .summary("a page needs a reference before it earns a second chance")
        .source("the paper's pages enter unmarked"),
];

/// The list of the pages outside the window.
const WORKING: u32 = 0;
/// The list of the pages in the window, behind those outside.
const WINDOW: u32 = 1;
/// The only list of the clean pages in the window.
const CLEAN: u32 = 0;

/// Effect of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    Ignore,
    Touch,
    Hold,
}

/// A buffer of pages by last reference.
#[derive(Clone, Debug)]
pub struct PageList {
    frames: Frames,
    /// The newest pages, then those of the window.
    order: Lists,
    /// The clean pages of the window, in the same order; none if there is no window.
    clean: Lists,
    /// Number of pages that lie outside the window once the buffer is full.
    working_pages: u32,
    second_chance: Option<SecondChance>,
    reads: Reads,
}

/// The marks of LRU-WSR.
#[derive(Clone, Debug)]
struct SecondChance {
    /// Per page: whether it is marked cold.
    is_cold: Box<[bool]>,
    initial_cold: bool,
}

/// The row of `lru` in the registry.
pub const LRU: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("lru"),
    summary: "evict the page that was written longest ago",
    source: "baseline",
    module: module_path!(),
    capabilities: Capabilities::of(Depth::Buffer),
    parameters: LRU_PARAMETERS,
    build: Build::Function(build_lru),
};

/// The row of `cflru` in the registry.
pub const CFLRU: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("cflru"),
    summary: "clean pages first, among the oldest",
    source: "Park et al.: CFLRU, CASES 2006",
    module: module_path!(),
    capabilities: Capabilities::of(Depth::Buffer),
    parameters: CFLRU_PARAMETERS,
    build: Build::Function(build_cflru),
};

/// The row of `lru-wsr` in the registry.
pub const LRU_WSR: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("lru-wsr"),
    summary: "a second chance for dirty pages that were referenced",
    source: "Jung et al.: LRU-WSR, IEEE Trans. Consumer Electronics 54(3), 2008",
    module: module_path!(),
    capabilities: Capabilities::of(Depth::Buffer),
    parameters: LRU_WSR_PARAMETERS,
    build: Build::Function(build_lru_wsr),
};

/// Builds LRU for the registry.
fn build_lru(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(PageList::new(setup, values, 0))
}

/// Builds CFLRU for the registry.
fn build_cflru(setup: &Setup, values: &Values) -> BoxedPolicy {
    let window_pages = share(setup.capacity_pages[0], values.real("window"));
    Box::new(PageList::new(setup, values, window_pages))
}

/// Return a share, at most 1, of some pages, rounded down.
pub(super) fn share(pages: u32, share: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a u32 is a u32"
    )]
    let pages = (f64::from(pages) * share) as u32;
    pages
}

/// Builds LRU-WSR for the registry.
fn build_lru_wsr(setup: &Setup, values: &Values) -> BoxedPolicy {
    let is_cold = alloc::vec![false; setup.geometry.pages() as usize].into_boxed_slice();
    let initial_cold = values.switch("initial_cold");
    let second_chance = Some(SecondChance { is_cold, initial_cold });
    Box::new(PageList { second_chance, ..PageList::new(setup, values, 0) })
}

impl Reads {
    /// Return the effect that the parameter names.
    pub(super) fn of(values: &Values) -> Self {
        match values.choice("reads") {
            "touch" => Self::Touch,
            "hold" => Self::Hold,
            _ => Self::Ignore,
        }
    }

    /// Return `true` if a read leaves everything as it is.
    pub(super) fn leave(self, is_held: bool) -> bool {
        self == Self::Ignore || (self == Self::Touch && !is_held)
    }
}

impl PageList {
    fn new(setup: &Setup, values: &Values, window_pages: u32) -> Self {
        let pages = setup.geometry.pages();
        let frames = Frames::new(setup);
        Self {
            order: Lists::new(pages, 2),
            // Only CFLRU looks for clean pages, so the other two pay no memory for a list of them.
            clean: Lists::new(if window_pages > 0 { pages } else { 0 }, 1),
            working_pages: frames.capacity() - window_pages,
            frames,
            second_chance: None,
            reads: Reads::of(values),
        }
    }

    fn has_window(&self) -> bool {
        self.working_pages < self.frames.capacity()
    }

    /// Takes a page of the buffer out of the order.
    fn unlink(&mut self, page: PageId) {
        self.order.remove(page.0);
        if self.has_window() && self.clean.contains(page.0) {
            self.clean.remove(page.0);
        }
    }

    /// Makes a page that is not in the order the newest, and tops up the window.
    fn link_newest(&mut self, page: PageId) {
        self.order.push_front(WORKING, page.0);
        while self.order.len(WORKING) > self.working_pages {
            let oldest = self.order.back(WORKING).expect("a list that is too long has a page");
            self.order.remove(oldest);
            self.order.push_front(WINDOW, oldest);
            if !self.frames.is_dirty(PageId(oldest)) {
                self.clean.push_front(CLEAN, oldest);
            }
        }
    }

    /// Evicts a page if the buffer is full.
    fn make_room(&mut self, out: &mut Actions) {
        if !self.frames.are_full() {
            return;
        }
        // CFLRU: a clean page of the window leaves first, even if dirty pages are older.
        let oldest_clean = if self.has_window() { self.clean.back(CLEAN) } else { None };
        let victim = oldest_clean.unwrap_or_else(|| self.oldest());
        self.unlink(PageId(victim));
        self.frames.evict(PageId(victim), out);
    }

    /// Return the oldest page that has no second chance; those that have one take it.
    fn oldest(&mut self) -> u32 {
        loop {
            // Without a window, WINDOW stays empty and WORKING is the whole LRU list.
            let oldest = self.order.back(WINDOW).or_else(|| self.order.back(WORKING));
            let oldest = oldest.expect("a full buffer holds a page");
            let Some(second_chance) = &mut self.second_chance else { return oldest };
            let is_cold = &mut second_chance.is_cold[oldest as usize];
            // The loop ends after one round at the latest: by then every dirty page is marked.
            if *is_cold || !self.frames.is_dirty(PageId(oldest)) {
                return oldest;
            }
            // LRU-WSR: a dirty page is spared once, and marked cold. It leaves the next time unless
            // it was referenced meanwhile.
            *is_cold = true;
            self.order.move_to_front(oldest);
        }
    }

    /// Marks a page as one that was referenced, or that is new.
    fn mark(&mut self, page: PageId, is_new: bool) {
        if let Some(second_chance) = &mut self.second_chance {
            second_chance.is_cold[page.index()] = is_new && second_chance.initial_cold;
        }
    }
}

impl Policy for PageList {
    fn access(&mut self, Access { page, op, .. }: Access, out: &mut Actions) {
        let is_held = self.frames.hold(page);
        if op == Op::Read && self.reads.leave(is_held) {
            return self.frames.read(page, out);
        }
        if is_held {
            self.unlink(page);
        } else {
            self.make_room(out);
        }
        self.frames.access(page, op, out);
        self.mark(page, !is_held);
        self.link_newest(page);
    }

    fn flush(&mut self, out: &mut Actions) {
        self.frames.clean(out);
        if self.has_window() {
            for page in self.order.iter(WINDOW) {
                if self.clean.contains(page) {
                    self.clean.remove(page);
                }
                // From the newest to the oldest, so that the list of clean pages keeps the order of
                // the window.
                self.clean.push_back(CLEAN, page);
            }
        }
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        self.frames.surrender(survivors, out);
    }

    fn prefetch(&self, page: PageId) {
        self.frames.prefetch(page);
        self.order.prefetch(page.0);
    }

    fn assert_invariants(&self) {
        self.frames.assert_invariants();
        self.order.assert_invariants();
        self.clean.assert_invariants();
        let [working, window] = [WORKING, WINDOW].map(|list| self.order.len(list));
        assert_eq!(working + window, self.frames.held(), "every page of the buffer is in order");
        assert!(working <= self.working_pages, "the window holds what does not fit before it");
        if self.has_window() {
            let is_clean = |&page: &u32| !self.frames.is_dirty(PageId(page));
            let clean = self.order.iter(WINDOW).filter(is_clean);
            assert!(clean.eq(self.clean.iter(CLEAN)), "the clean pages of the window are listed");
        }
    }

    fn memory_bytes(&self) -> usize {
        let marks = self.second_chance.as_ref().map_or(0, |marks| marks.is_cold.len());
        self.frames.memory_bytes() + self.order.memory_bytes() + self.clean.memory_bytes() + marks
    }
}
