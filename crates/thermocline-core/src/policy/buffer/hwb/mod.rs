//! HWB: a hot and a warm region of pages, a cold region of blocks, and temperatures that decide.
//!
//! New pages enter the cold region, where the pages of a flash block stay together and leave
//! together. A page that is written again is compared with the last page of the region above, and
//! takes its place if it is hotter. The regions grow and shrink with the pages that move.
//!
//! The weight of the frequency in a temperature, sigma, adapts: after each period it moves a step
//! towards the term of Eq. 1 that told pages that were written again from pages that were evicted.
//!
//! * Source: Li, *A Hotness-aware Write Buffer Management Scheme for the Lifetime Extension of
//!   Flash-based Solid State Drives*, sections III-A to III-D: Eq. 1 to 3, replacement cases 1 to 5,
//!   flush cases 1 to 3.
//! * State: 29 bytes per page that exists, 16 per block that exists (64 with active flush), 72 per
//!   page of the buffer and per ghost.
//! * Cost: amortised O(1) per access, plus sorting the pages that are evicted.
//! * Deviations: the paper leaves much open. (1) Eq. 2 and 3 are read with an exponent,
//!   `2^lambda * D_last + beta`, as a product would predict nothing for pages that heat up (`prediction`);
//!   lambda has a cap. (2) Distances count page writes. (3) Beta is the error of the page's last
//!   prediction; predictions are at least 1. (4) A period is four times as many writes as the
//!   buffer has pages (`period`), and the last period is the one that is going on with the one
//!   before it; `frequency=run` counts the whole run. (5) What displaces a page of the hot or warm
//!   region moves it down; only the cold region writes to the NAND. (6) A region that has room
//!   takes pages without a comparison. (7) Each region keeps to its size from the start
//!   (`regions`). (8) H and L are one count per pair of regions, checked after each write; every
//!   promotion into a full region comes with a displacement, so sizes hardly move. (9) The paper
//!   adjusts sigma dynamically without a rule; ours compares means over a period, and
//!   `sigma_step=0` fixes sigma. (10) Case 1 writes the tail block back first, even if it is the
//!   block of the page that comes. (11) Active flush is off by default: of the two policies only
//!   the passive one is complete. It goes by the writes to all pages of a block, and takes the tail
//!   block only. (12) Reads change nothing.

mod sigma;
mod temperature;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use self::sigma::Sigma;
use self::temperature::{Frequencies, Frequency, History, Rules};
use super::frames::Frames;
use crate::capabilities::{Capabilities, Depth};
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::policy::blocks::{Blocks, PAGES_PER_BLOCK};
use crate::prefetch::prefetch;
use crate::queue::Lists;
use crate::{Access, Actions, BoxedPolicy, Op, PageId, Policy, Setup, Survivor};

/// The parameters of HWB.
pub const PARAMETERS: &[Parameter] = &[
    PAGES_PER_BLOCK,
    Parameter::real("sigma", 0.0..=1.0, 0.5)
        .summary(
            "the weight of the frequency in a temperature at first; the rest is the distance's",
        )
        .source("the paper's value at boot"),
    Parameter::real("sigma_step", 0.0..=0.5, 0.05)
        .summary("how far the weight moves after a period, within 0.1 to 0.9; 0 fixes it")
        .source("reconstruction: the paper adjusts the weight dynamically, without a rule"),
    Parameter::choice("prediction", &["power", "product"], "power")
        .summary("the factor of Eq. 2: two to the power of lambda, or two times lambda")
        .source("Eq. 2 prints a product, Eq. 3 an exponent in the same place"),
    Parameter::real("lambda_cap", 0.0..=64.0, 8.0)
        .summary("the greatest lambda")
        .source("reconstruction: keeps predictions finite"),
    Parameter::switch("residual", true)
        .summary("add the error of the last prediction (beta) to the next one")
        .source("Eq. 2"),
    Parameter::switch("aging", false)
        .summary("a page that is overdue counts with the time since its last write")
        .source("extension: the paper's temperatures never cool"),
    Parameter::integer_or_auto("period", 1..=u64::MAX)
        .summary("page writes per period; frequencies count this one and the last")
        .source("reconstruction: auto is four times the pages of the buffer"),
    Parameter::choice("frequency", &["periods", "run"], "periods")
        .summary("the writes that a frequency counts: those of the last periods, or all")
        .source("section III-B: the updated frequency in the last time period"),
    Parameter::choice("promotion", &["hotter", "always"], "hotter")
        .summary("a page moves up if it is hotter than the last page there, or always")
        .source("the paper compares; always leaves the predictor out"),
    Parameter::choice("regions", &["soft", "strict"], "soft")
        .summary("the cold region keeps to its size, or may use what the others leave")
        .source("the cases of section III-D are those of a full buffer; papers/hwb compares"),
    Parameter::switch("adapt", true)
        .summary("the regions grow and shrink with the pages that move")
        .source("section III-C"),
    Parameter::integer("move_threshold", 0..=u32::MAX as u64, 16)
        .summary("moves between two regions after which a page of room follows (A)")
        .source("reconstruction: the paper gives no value"),
    Parameter::integer_or_auto("ghosts", 0..=u32::MAX as u64)
        .summary("pages that left the buffer and are remembered")
        .source("reconstruction: auto is four times the pages of the buffer"),
    Parameter::switch("active_flush", false)
        .summary("write the tail block back as soon as it is overdue (Eq. 3)")
        .source("section III-D, flush case 1"),
];

/// The list of the hot region.
const HOT: u32 = 0;
/// The list of the warm region.
const WARM: u32 = 1;
/// The list of the ghosts.
const GHOSTS: u32 = 2;
/// The list of the first block of the cold region; the others follow.
const COLD: u32 = 3;
/// The only list of blocks.
const ORDER: u32 = 0;
/// No metadata.
const NONE: u32 = u32::MAX;

/// The regions, coldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Region {
    Cold = 0,
    Warm = 1,
    Hot = 2,
}

/// The moves that are counted.
const MOVES: [(Region, Region); 5] = [
    (Region::Cold, Region::Warm),
    (Region::Warm, Region::Hot),
    (Region::Warm, Region::Cold),
    (Region::Hot, Region::Warm),
    (Region::Hot, Region::Cold),
];

/// State of a page.
#[derive(Clone, Copy, Debug)]
struct Metadata {
    history: History,
    frequency: Frequency,
}

/// The hotness-aware write buffer.
#[derive(Debug)]
pub struct Hwb {
    frames: Frames,
    blocks: Blocks,
    /// The hot region, the warm one, the ghosts, and each block of the cold region.
    pages: Lists,
    /// The blocks of the cold region, the newest first.
    order: Lists,
    /// Per page: where its metadata are, or [`NONE`].
    slot_of: Vec<u32>,
    metadata: Vec<Metadata>,
    free_slots: Vec<u32>,
    /// Per block, if blocks are flushed actively.
    block_history: Vec<History>,
    frequencies: Frequencies,
    rules: Rules,
    sigma: Sigma,
    /// Page writes per period.
    period: u64,
    /// Page writes so far.
    now: u64,
    /// The sizes of the regions.
    sizes: [u32; 3],
    /// Pages in the cold region.
    cold_pages: u32,
    /// Moves from one region to another, since they last changed a size.
    moves: [u64; MOVES.len()],
    /// Moves that change a size; `None` if sizes are fixed.
    move_threshold: Option<u64>,
    ghosts: u32,
    is_strict: bool,
    is_always_promoted: bool,
    victims: Vec<PageId>,
}

/// Its row in the registry.
pub const HWB: PolicyEntry = PolicyEntry {
    name: Cow::Borrowed("hwb"),
    summary: "hot and warm regions of pages, a cold region of blocks, by predicted temperature",
    source: "Li: A Hotness-aware Write Buffer Management Scheme (HWB)",
    module: module_path!(),
    capabilities: Capabilities {
        whole_block: Some(&PAGES_PER_BLOCK),
        ..Capabilities::of(Depth::Buffer)
    },
    parameters: PARAMETERS,
    build: Build::Function(build),
};

/// Builds the policy for the registry.
fn build(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(Hwb::new(setup, values))
}

impl Hwb {
    /// Create an empty buffer.
    ///
    /// # Panics
    /// If `values` are not those of [`PARAMETERS`].
    pub fn new(setup: &Setup, values: &Values) -> Self {
        let frames = Frames::new(setup);
        let blocks = Blocks::new(&setup.geometry, values.integer_u32("pages_per_block"));
        let pages = setup.geometry.pages();
        let third = frames.capacity() / 3;
        let ghosts = values.integer_u32_or_auto("ghosts");
        let ghosts = ghosts.unwrap_or_else(|| frames.capacity().saturating_mul(4));
        let is_active = values.switch("active_flush");
        let period = values.integer_or_auto("period");
        let period = period.unwrap_or_else(|| (4 * u64::from(frames.capacity())).max(1));
        let is_windowed = values.choice("frequency") == "periods";
        Self {
            pages: Lists::new(pages, COLD + blocks.count()),
            order: Lists::new(blocks.count(), 1),
            slot_of: vec![NONE; pages as usize],
            metadata: vec![],
            free_slots: vec![],
            block_history: vec![
                History::default();
                if is_active { blocks.count() as usize } else { 0 }
            ],
            frequencies: Frequencies::new(is_windowed.then_some(period), pages),
            rules: Rules::of(values),
            sigma: Sigma::of(values),
            period,
            now: 0,
            // Section III-C: equal regions at first. The remainder goes to the cold region.
            sizes: [frames.capacity() - 2 * third, third, third],
            cold_pages: 0,
            moves: [0; MOVES.len()],
            move_threshold: values.switch("adapt").then(|| values.integer("move_threshold")),
            ghosts,
            is_strict: values.choice("regions") == "strict",
            is_always_promoted: values.choice("promotion") == "always",
            victims: Vec::with_capacity(blocks.pages_per_block() as usize),
            frames,
            blocks,
        }
    }

    /// Return the pages that each region may hold: hot, warm and cold.
    pub fn region_sizes(&self) -> [u32; 3] {
        [Region::Hot, Region::Warm, Region::Cold].map(|region| self.sizes[region as usize])
    }

    /// Return the weight of the frequency in a temperature.
    pub fn sigma(&self) -> f64 {
        self.sigma.value()
    }

    /// Notes a write of a page in what is known of it.
    fn note(&mut self, page: PageId) {
        if self.sigma.adapts() {
            if self.slot_of[page.index()] != NONE {
                let terms = self.terms(page.0);
                self.sigma.rewritten(terms);
            }
            if self.now > 0 && self.now.is_multiple_of(self.period) {
                self.sigma.adjust();
            }
        }
        self.now += 1;
        let slot = &mut self.slot_of[page.index()];
        let known = (*slot != NONE).then(|| self.metadata[*slot as usize]);
        let frequency = self.frequencies.write(self.now, page, known.map(|known| known.frequency));
        let history = known.map_or(History::new(self.now), |known| {
            let mut history = known.history;
            history.write(self.now, &self.rules);
            history
        });
        let metadata = Metadata { history, frequency };
        if *slot != NONE {
            self.metadata[*slot as usize] = metadata;
        } else if let Some(free) = self.free_slots.pop() {
            *slot = free;
            self.metadata[free as usize] = metadata;
        } else {
            *slot = u32::try_from(self.metadata.len()).expect("pages can be counted");
            self.metadata.push(metadata);
        }
    }

    fn temperature(&self, page: u32) -> f64 {
        let [frequency, distance] = self.terms(page);
        self.sigma.weigh(frequency, distance)
    }

    /// Return the terms of a page's temperature.
    fn terms(&self, page: u32) -> [f64; 2] {
        let Metadata { history, frequency } = &self.metadata[self.slot_of[page as usize] as usize];
        self.rules.terms(self.now, history, frequency, &self.frequencies)
    }

    /// Return `true` if a page may enter the hot or the warm region.
    fn may_enter(&self, region: Region, page: PageId) -> bool {
        let has_room = self.pages.len(list_of(region)) < self.sizes[region as usize];
        has_room || self.is_always_promoted && self.sizes[region as usize] > 0 || {
            let last = self.pages.back(list_of(region));
            last.is_some_and(|last| self.temperature(page.0) > self.temperature(last))
        }
    }

    /// Puts a page that is in no list at the head of the hot or the warm region, and returns the page
    /// that has no room any more.
    fn enter(&mut self, region: Region, page: u32) -> Option<u32> {
        let list = list_of(region);
        // Deviation (6): a region with room displaces nobody.
        let is_full = self.pages.len(list) >= self.sizes[region as usize];
        let displaced = if is_full { self.pages.back(list) } else { None };
        if let Some(displaced) = displaced {
            self.pages.remove(displaced);
        }
        self.pages.push_front(list, page);
        displaced
    }

    fn count_move(&mut self, from: Region, to: Region) {
        let index = MOVES.iter().position(|&counted| counted == (from, to));
        self.moves[index.expect("every move is counted")] += 1;
    }

    /// Moves a page that left the warm region down (flush case 2).
    fn displace_from_warm(&mut self, page: u32, out: &mut Actions) {
        self.count_move(Region::Warm, Region::Cold);
        self.make_cold_room(out);
        self.enter_cold(PageId(page));
    }

    /// Moves a page that left the hot region down (flush case 3).
    fn displace_from_hot(&mut self, page: u32, out: &mut Actions) {
        let last_warm = self.pages.back(WARM);
        if last_warm.is_none_or(|last| self.temperature(page) > self.temperature(last)) {
            self.count_move(Region::Hot, Region::Warm);
            if let Some(displaced) = self.enter(Region::Warm, page) {
                self.displace_from_warm(displaced, out);
            }
        } else {
            self.count_move(Region::Hot, Region::Cold);
            self.make_cold_room(out);
            self.enter_cold(PageId(page));
        }
    }

    /// Puts a page that is in no list into its block, and the block at the head of the cold region.
    fn enter_cold(&mut self, page: PageId) {
        let block = self.blocks.of(page);
        self.pages.push_front(COLD + block, page.0);
        self.cold_pages += 1;
        self.refresh(block);
    }

    /// Makes a block the head of the cold region.
    fn refresh(&mut self, block: u32) {
        if self.order.contains(block) {
            self.order.remove(block);
        }
        self.order.push_front(ORDER, block);
    }

    /// Takes a page out of its block.
    fn leave_cold(&mut self, page: PageId) {
        let block = self.blocks.of(page);
        self.pages.remove(page.0);
        self.cold_pages -= 1;
        if self.pages.is_empty(COLD + block) {
            self.order.remove(block);
        }
    }

    /// Flushes blocks until the cold region has room for a page, if it keeps to its size.
    fn make_cold_room(&mut self, out: &mut Actions) {
        while self.is_strict && self.cold_pages >= self.sizes[Region::Cold as usize] {
            self.flush_tail(out);
        }
    }

    /// Flushes until the buffer has room for a page, if the cold region does not keep to its size.
    fn make_room(&mut self, out: &mut Actions) {
        while !self.is_strict && self.frames.are_full() {
            if self.order.is_empty(ORDER) {
                let last = self.pages.back(WARM).or_else(|| self.pages.back(HOT));
                let last = last.expect("a full buffer holds a page");
                self.pages.remove(last);
                self.enter_cold(PageId(last));
            }
            self.flush_tail(out);
        }
    }

    /// Flushes the block at the tail of the cold region (flush case 1); its pages become ghosts.
    fn flush_tail(&mut self, out: &mut Actions) {
        let block = self.order.back(ORDER).expect("a cold region with pages has a block");
        self.victims.clear();
        self.victims.extend(self.pages.iter(COLD + block).map(PageId));
        self.blocks.sort(&mut self.victims);
        let victims = core::mem::take(&mut self.victims);
        for &page in &victims {
            if self.sigma.adapts() {
                let terms = self.terms(page.0);
                self.sigma.evicted(terms);
            }
            // Only here does a page reach the NAND, with its block (deviation 5).
            self.frames.evict(page, out);
            self.pages.remove(page.0);
            self.pages.push_front(GHOSTS, page.0);
        }
        self.cold_pages -= u32::try_from(victims.len()).expect("a block has few pages");
        self.victims = victims;
        self.order.remove(block);
        while self.pages.len(GHOSTS) > self.ghosts {
            let oldest = self.pages.back(GHOSTS).expect("a list that is too long has a page");
            self.pages.remove(oldest);
            let slot = core::mem::replace(&mut self.slot_of[oldest as usize], NONE);
            self.free_slots.push(slot);
        }
    }

    /// Moves a page up that is in no list and already answered, or flushes for it first.
    fn promote(&mut self, from: Region, to: Region, page: PageId, out: &mut Actions) {
        self.count_move(from, to);
        match (self.enter(to, page.0), to) {
            (Some(displaced), Region::Hot) => self.displace_from_hot(displaced, out),
            (Some(displaced), _) => self.displace_from_warm(displaced, out),
            (None, _) => {}
        }
    }

    /// Write a page that is not in the buffer: cases 1 and 2.
    fn miss(&mut self, page: PageId, is_ghost: bool, out: &mut Actions) {
        self.make_room(out);
        // Case 1 is a new page, case 2 a page that was rewritten soon after it left.
        if is_ghost && self.may_enter(Region::Warm, page) {
            if let Some(displaced) = self.enter(Region::Warm, page.0) {
                self.displace_from_warm(displaced, out);
            }
        } else {
            self.make_cold_room(out);
            self.enter_cold(page);
        }
        self.frames.write(page, out);
    }

    /// Notes a write of a page in the history of its block, if blocks have one.
    fn note_block(&mut self, page: PageId) {
        if let Some(history) = self.block_history.get_mut(self.blocks.of(page) as usize) {
            if *history == History::default() {
                *history = History::new(self.now);
            } else {
                history.write(self.now, &self.rules);
            }
        }
    }

    /// Changes the sizes of regions as pages have moved, and moves what has no room any more.
    fn adapt(&mut self, out: &mut Actions) {
        let Some(threshold) = self.move_threshold else { return };
        let mut has_changed = false;
        for (&(from, to), moves) in MOVES.iter().zip(&mut self.moves) {
            if *moves > threshold {
                *moves = 0;
                // A region never vanishes.
                if self.sizes[from as usize] > 1 {
                    self.sizes[from as usize] -= 1;
                    self.sizes[to as usize] += 1;
                    has_changed = true;
                }
            }
        }
        if !has_changed {
            return;
        }
        while self.pages.len(HOT) > self.sizes[Region::Hot as usize] {
            let last = self.pages.back(HOT).expect("a list that is too long has a page");
            self.pages.remove(last);
            self.displace_from_hot(last, out);
        }
        while self.pages.len(WARM) > self.sizes[Region::Warm as usize] {
            let last = self.pages.back(WARM).expect("a list that is too long has a page");
            self.pages.remove(last);
            self.displace_from_warm(last, out);
        }
        while self.is_strict && self.cold_pages > self.sizes[Region::Cold as usize] {
            self.flush_tail(out);
        }
    }

    /// Flushes the tail block if its next write is overdue (Eq. 3).
    fn flush_actively(&mut self, out: &mut Actions) {
        let Some(block) = self.order.back(ORDER) else { return };
        let expected = self.block_history.get(block as usize).and_then(History::expected);
        if expected.is_some_and(|expected| expected < self.now as f64) {
            self.flush_tail(out);
        }
    }
}

/// Return the list of the hot or the warm region.
fn list_of(region: Region) -> u32 {
    if region == Region::Hot { HOT } else { WARM }
}

impl Policy for Hwb {
    fn access(&mut self, Access { page, op, .. }: Access, out: &mut Actions) {
        if op == Op::Read {
            return self.frames.read(page, out);
        }
        self.note(page);
        self.note_block(page);
        match self.pages.list_of(page.0) {
            Some(HOT) => {
                self.frames.write(page, out);
                self.pages.move_to_front(page.0);
            }
            // Case 4; case 5 is above, and case 3 below.
            Some(WARM) => {
                self.frames.write(page, out);
                if self.may_enter(Region::Hot, page) {
                    self.pages.remove(page.0);
                    self.promote(Region::Warm, Region::Hot, page, out);
                } else {
                    self.pages.move_to_front(page.0);
                }
            }
            Some(GHOSTS) => {
                self.pages.remove(page.0);
                self.miss(page, true, out);
            }
            Some(_) => {
                self.frames.write(page, out);
                if self.may_enter(Region::Warm, page) {
                    self.leave_cold(page);
                    self.promote(Region::Cold, Region::Warm, page, out);
                } else {
                    self.refresh(self.blocks.of(page));
                }
            }
            None => self.miss(page, false, out),
        }
        self.adapt(out);
        self.flush_actively(out);
    }

    fn flush(&mut self, out: &mut Actions) {
        self.frames.clean(out);
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        self.frames.surrender(survivors, out);
    }

    fn prefetch(&self, page: PageId) {
        self.frames.prefetch(page);
        self.pages.prefetch(page.0);
        prefetch(&self.slot_of, page.index());
    }

    fn assert_invariants(&self) {
        self.frames.assert_invariants();
        self.pages.assert_invariants();
        self.order.assert_invariants();
        let [cold, warm, hot] = self.sizes;
        assert_eq!(cold + warm + hot, self.frames.capacity(), "the regions share the buffer");
        let held = self.pages.len(HOT) + self.pages.len(WARM) + self.cold_pages;
        assert_eq!(held, self.frames.held(), "every page of the buffer is in one region");
        assert!(self.pages.len(HOT) <= hot && self.pages.len(WARM) <= warm, "regions are bounded");
        assert!(!self.is_strict || self.cold_pages <= cold, "the cold region is bounded");
        assert!(self.pages.len(GHOSTS) <= self.ghosts, "ghosts are bounded");
        let mut cold_pages = 0;
        for block in 0..self.blocks.count() {
            let pages = self.pages.len(COLD + block);
            cold_pages += pages;
            assert_eq!(self.order.contains(block), pages > 0, "no block is empty");
            let mut members = self.pages.iter(COLD + block);
            assert!(members.all(|page| self.blocks.of(PageId(page)) == block), "pages are home");
        }
        assert_eq!(cold_pages, self.cold_pages, "pages of the cold region are counted");
        let mut known = 0;
        for (page, &slot) in (0_u32..).zip(&self.slot_of) {
            let list = self.pages.list_of(page);
            assert_eq!(slot != NONE, list.is_some(), "what is kept is known, and nothing else");
            let is_held = list.is_some_and(|list| list != GHOSTS);
            assert_eq!(is_held, self.frames.hold(PageId(page)), "ghosts have no frame");
            known += usize::from(slot != NONE);
        }
        assert_eq!(known + self.free_slots.len(), self.metadata.len(), "no slot is lost");
    }

    fn memory_bytes(&self) -> usize {
        self.frames.memory_bytes()
            + self.blocks.memory_bytes()
            + self.pages.memory_bytes()
            + self.order.memory_bytes()
            + size_of_val(&*self.slot_of)
            + self.metadata.capacity() * size_of::<Metadata>()
            + self.free_slots.capacity() * size_of::<u32>()
            + size_of_val(&*self.block_history)
            + self.frequencies.memory_bytes()
            + self.victims.capacity() * size_of::<PageId>()
    }
}
