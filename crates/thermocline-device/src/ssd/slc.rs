//! A cache of cells with one bit: writes go there first, and are folded into the other cells later.
//!
//! Some blocks of every plane hold one bit per cell, which are programmed faster. They are a ring: writes
//! fill one physical page of a plane after the other, and the oldest pages leave. A page that leaves and is
//! still valid is folded: read, and written to the other blocks as any write. Pages are folded when the ring has
//! less than a block of every plane left, or, if the drive does so, when it has had nothing to do for a while.
//!
//! * Source: Lee et al., *`FlexFS`: A Flexible Flash File System for MLC NAND Flash Memory*, USENIX ATC '09,
//!   for cells that are used with one bit and folded when idle.
//! * State: 4 bytes per page of the host, and 4 per page of the cache.
//! * Cost: O(1) amortised per page.
//! * Deviations: (1) the blocks of the cache are always the same ones, where drives may take more of them
//!   while they are empty. (2) They are never worn out. (3) No write goes past the cache.

use serde::{Deserialize, Serialize};

use super::check::{bad, within};
use super::config::{Mapping, SsdConfig};
use super::error::SsdError;
use super::geometry::{Geometry, NONE};

/// Cell times that pages of the other cells have, at most: the cache needs one of 16.
const LEVELS_MOST: usize = 15;

/// Blocks with one bit per cell that take writes first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlcCache {
    /// Blocks of each plane besides the others, 2 to 4096.
    pub blocks_per_plane: u32,
    /// Bits of the other cells, 2 to 5: a block of the cache has so many times fewer pages.
    pub bits_per_cell: u32,
    /// The cell time of a read, in microseconds, 0 to 10^6.
    pub read_us: f64,
    /// The cell time of a program, in microseconds, 0 to 10^6.
    pub program_us: f64,
    /// The drive folds when it has had nothing to do for so long, in microseconds, 0 to 10^12; only for
    /// want of room if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold_after_us: Option<f64>,
}

impl SlcCache {
    pub(crate) fn check(&self, drive: &SsdConfig) -> Result<(), SsdError> {
        within("slc_cache.blocks_per_plane", self.blocks_per_plane, 2, 4096)?;
        within("slc_cache.bits_per_cell", self.bits_per_cell, 2, 5)?;
        within("slc_cache.read_us", self.read_us, 0.0, 1e6)?;
        within("slc_cache.program_us", self.program_us, 0.0, 1e6)?;
        within("slc_cache.fold_after_us", self.fold_after_us.unwrap_or(0.0), 0.0, 1e12)?;
        within("read_us with slc_cache", drive.read_us.len(), 1, LEVELS_MOST)?;
        within("program_us with slc_cache", drive.program_us.len(), 1, LEVELS_MOST)?;
        let is_plain = drive.mapping == Mapping::Page
            && drive.mapping_unit_pages == 1
            && drive.streams == 1
            && drive.placement.is_none();
        if !is_plain {
            let permitted =
                "left out without page mapping, or with mapping units, streams or placement";
            return Err(bad("slc_cache", "given", permitted));
        }
        let of_block = self.pages_per_block(drive);
        if of_block == 0 {
            let least = self.bits_per_cell * drive.pages_per_program;
            let permitted = format!("at least {least} with slc_cache");
            return Err(bad("pages_per_block", drive.pages_per_block, permitted));
        }
        let pages = u64::from(drive.planes()) * u64::from(self.blocks_per_plane * of_block);
        let raw = u64::from(drive.planes()).saturating_mul(drive.raw_pages_per_plane());
        let most = u64::from(u32::MAX).saturating_sub(raw + 2);
        within("pages of slc_cache", pages, 1, most)
    }

    /// Return the number of whole physical pages of a block.
    fn pages_per_block(&self, drive: &SsdConfig) -> u32 {
        let pages = drive.pages_per_block / self.bits_per_cell;
        pages - pages % drive.pages_per_program
    }
}

/// The pages in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Slc {
    /// Per page of the host: its slot, or [`NONE`].
    slot_of: Box<[u32]>,
    /// Per slot: its page, or [`NONE`] if it is empty or no longer valid.
    page_in: Box<[u32]>,
    /// Slots that were ever filled, and that were ever given up.
    head: u64,
    tail: u64,
    /// Slots of a block of every plane.
    stripe: u64,
    /// The planes in the order of filling.
    order: Vec<u32>,
    /// Slots of a physical page.
    pages_per_program: u32,
    /// The number of slot 0 among the pages of the flash.
    first_page: u32,
    pub(crate) programs: u64,
    pub(crate) erases: u64,
}

/// A slot, as the flash has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) plane: u32,
    /// Its number among the pages of the flash.
    pub(crate) page: u32,
}

/// A physical page that the cache gives up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) plane: u32,
    /// `true` if it is the last one of a block of every plane, which are to be erased.
    pub(crate) ends_stripe: bool,
}

impl Slc {
    /// Create an empty cache, from a configuration that was checked.
    pub(crate) fn new(
        cache: &SlcCache,
        drive: &SsdConfig,
        geometry: &Geometry,
        pages: u64,
    ) -> Self {
        let stripe = geometry.planes * cache.pages_per_block(drive);
        let slots = stripe * cache.blocks_per_plane;
        let none = |count: usize| vec![NONE; count].into_boxed_slice();
        Self {
            slot_of: none(usize::try_from(pages).unwrap_or(usize::MAX)),
            page_in: none(slots as usize),
            head: 0,
            tail: 0,
            stripe: stripe.into(),
            order: geometry.order.clone(),
            pages_per_program: drive.pages_per_program,
            first_page: geometry.blocks() * geometry.pages_per_block,
            programs: 0,
            erases: 0,
        }
    }

    fn slots(&self) -> u64 {
        self.page_in.len() as u64
    }

    fn slot(&self, position: u64) -> u32 {
        u32::try_from(position % self.slots()).expect("slots have numbers of 32 bits")
    }

    fn place(&self, slot: u32) -> Place {
        let planes = self.order.len();
        let plane = self.order[(slot / self.pages_per_program) as usize % planes];
        Place { plane, page: self.first_page + slot }
    }

    /// Return the slot of a page, or `None` if the cache does not have it.
    pub(crate) fn find(&self, page: u32) -> Option<Place> {
        let slot = self.slot_of[page as usize];
        (slot != NONE).then(|| self.place(slot))
    }

    /// Return `true` if a page of the flash is in a physical page that is not full yet.
    pub(crate) fn is_gathering(&self, place: Place) -> bool {
        let per = u64::from(self.pages_per_program);
        let open = self.slot(self.head) / self.pages_per_program;
        !self.head.is_multiple_of(per)
            && (place.page - self.first_page) / self.pages_per_program == open
    }

    /// Return `true` if a block of every plane is free, besides what the next page takes.
    pub(crate) fn has_room(&self) -> bool {
        // One stripe stays free: the blocks that are filled next must be erased, all of their pages
        // given up.
        self.head - self.tail < self.slots() - self.stripe
    }

    /// Return `true` if a physical page can be given up.
    pub(crate) fn is_foldable(&self) -> bool {
        self.head - self.tail >= u64::from(self.pages_per_program)
    }

    /// Give a page, or padding, the next slot; return the slot, and `true` if its physical page is now full.
    pub(crate) fn append(&mut self, page: Option<u32>) -> (Place, bool) {
        let slot = self.slot(self.head);
        if let Some(page) = page {
            self.forget(page);
            self.slot_of[page as usize] = slot;
            self.page_in[slot as usize] = page;
        }
        self.head += 1;
        self.programs += 1;
        (self.place(slot), self.head.is_multiple_of(self.pages_per_program.into()))
    }

    /// Return `true` if a physical page has begun and is not full.
    pub(crate) fn has_part(&self) -> bool {
        !self.head.is_multiple_of(self.pages_per_program.into())
    }

    /// Mark the cache's copy of a page as invalid.
    pub(crate) fn forget(&mut self, page: u32) {
        let slot = std::mem::replace(&mut self.slot_of[page as usize], NONE);
        if slot != NONE {
            self.page_in[slot as usize] = NONE;
        }
    }

    /// Gives up the oldest physical page, whose valid pages are appended to `pages`.
    pub(crate) fn give_up(&mut self, pages: &mut Vec<u32>) -> Given {
        let Place { plane, .. } = self.place(self.slot(self.tail));
        for _ in 0..self.pages_per_program {
            let slot = self.slot(self.tail);
            let page = self.page_in[slot as usize];
            if page != NONE {
                self.forget(page);
                pages.push(page);
            }
            self.tail += 1;
        }
        // A block can be erased only as a whole, when its last page has left.
        let ends_stripe = self.tail.is_multiple_of(self.stripe);
        if ends_stripe {
            self.erases += self.order.len() as u64;
        }
        Given { plane, ends_stripe }
    }

    pub(crate) fn reset_counts(&mut self) {
        (self.programs, self.erases) = (0, 0);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.slot_of) + size_of_val(&*self.page_in)
    }

    /// Checks that slots and pages agree, and that no page is in both kinds of cells.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn assert_invariants(&self, is_elsewhere: impl Fn(u32) -> bool) {
        let mut held = 0;
        for (page, &slot) in (0..).zip(&self.slot_of) {
            if slot != NONE {
                held += 1;
                assert_eq!(self.page_in[slot as usize], page, "a slot has the page that is in it");
                assert!(!is_elsewhere(page), "a page is in one kind of cells");
            }
        }
        let filled = self.page_in.iter().filter(|&&page| page != NONE).count();
        assert_eq!(filled, held, "a page is in one slot");
        assert!(self.head - self.tail <= self.slots(), "the ring holds what it has room for");
    }
}
