//! The page frames of a write buffer: which pages they hold, and which of those the NAND lacks.
//!
//! * Source: none; what all write buffers share.
//! * State: 1 byte per page that exists.
//! * Cost: O(1) per page.
//! * Deviations: pages are written whole, so a write miss reads nothing.

use alloc::vec;
use alloc::vec::Vec;

use crate::prefetch::prefetch;
use crate::{Actions, Op, PageId, Setup, Survivor, Tier};

/// The buffer, the faster of the two tiers.
pub(super) const BUFFER: Tier = Tier(0);

/// State bit: the page is in the buffer.
const HELD: u8 = 1;
/// State bit: the page is newer than the NAND's copy.
const DIRTY: u8 = 1 << 1;

/// The frames. Policies decide by page; frames turn that into actions.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    /// Per page: its bits; zero if it is not in the buffer.
    state: Vec<u8>,
    held: u32,
    capacity: u32,
    nand: Tier,
}

/// Empties a buffer that outlived a restart into the NAND.
pub(super) fn surrender(nand: Tier, survivors: &[Survivor], out: &mut Actions) {
    for survivor in survivors {
        if survivor.is_dirty {
            out.copy(survivor.page, BUFFER, nand);
        }
        out.drop_copy(survivor.page, BUFFER);
    }
}

impl Frames {
    /// Create empty frames.
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            state: vec![0; setup.geometry.pages() as usize],
            held: 0,
            capacity: setup.capacity_pages[0],
            nand: setup.disk(),
        }
    }

    /// Return the number of pages that fit.
    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Return the number of pages.
    pub(super) fn held(&self) -> u32 {
        self.held
    }

    /// Return `true` if another page needs room first.
    pub(super) fn are_full(&self) -> bool {
        self.held == self.capacity
    }

    /// Return `true` if a page is in the buffer.
    pub(super) fn hold(&self, page: PageId) -> bool {
        self.state[page.index()] != 0
    }

    /// Return `true` if a page is in the buffer, and newer than the NAND's copy.
    pub(super) fn is_dirty(&self, page: PageId) -> bool {
        self.state[page.index()] & DIRTY != 0
    }

    /// Answers a write from the buffer, where the page takes a frame if it has none.
    pub(super) fn write(&mut self, page: PageId, out: &mut Actions) {
        let found = if self.hold(page) { BUFFER } else { self.nand };
        self.held += u32::from(found != BUFFER);
        self.state[page.index()] = HELD | DIRTY;
        out.serve(page, Op::Write, found, BUFFER);
    }

    /// Answers a read from wherever the page is, and changes nothing.
    pub(super) fn read(&self, page: PageId, out: &mut Actions) {
        let tier = if self.hold(page) { BUFFER } else { self.nand };
        out.serve(page, Op::Read, tier, tier);
    }

    /// Answers a read of a page that takes a frame with it.
    fn read_into(&mut self, page: PageId, out: &mut Actions) {
        out.copy(page, self.nand, BUFFER);
        out.serve(page, Op::Read, self.nand, BUFFER);
        self.state[page.index()] = HELD;
        self.held += 1;
    }

    /// Answers an access from the buffer, where the page takes a frame if it has none.
    pub(super) fn access(&mut self, page: PageId, op: Op, out: &mut Actions) {
        match op {
            Op::Write => self.write(page, out),
            Op::Read if self.hold(page) => self.read(page, out),
            Op::Read => self.read_into(page, out),
        }
    }

    /// Reads a page that is not in the buffer, and writes it back with its block.
    pub(super) fn pad(&self, page: PageId, out: &mut Actions) {
        out.copy(page, self.nand, BUFFER);
        out.copy(page, BUFFER, self.nand);
        out.drop_copy(page, BUFFER);
    }

    /// Frees the frame of a page, which is written to the NAND if that lacks it.
    pub(super) fn evict(&mut self, page: PageId, out: &mut Actions) {
        debug_assert!(self.hold(page), "only what is in the buffer can leave it");
        if self.is_dirty(page) {
            out.copy(page, BUFFER, self.nand);
        }
        out.drop_copy(page, BUFFER);
        self.state[page.index()] = 0;
        self.held -= 1;
    }

    /// Writes every page that the NAND lacks to it; all stay in the buffer.
    pub(super) fn clean(&mut self, out: &mut Actions) {
        for (page, state) in (0_u32..).zip(&mut self.state) {
            if *state & DIRTY != 0 {
                out.copy(PageId(page), BUFFER, self.nand);
                *state &= !DIRTY;
            }
        }
    }

    /// See [`surrender`].
    pub(super) fn surrender(&self, survivors: &[Survivor], out: &mut Actions) {
        surrender(self.nand, survivors, out);
    }

    pub(super) fn prefetch(&self, page: PageId) {
        prefetch(&self.state, page.index());
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.state.len()
    }

    pub(super) fn assert_invariants(&self) {
        let held = self.state.iter().filter(|&&state| state != 0).count();
        assert_eq!(held, self.held as usize, "every frame in use is counted");
        assert!(self.held <= self.capacity, "the frames suffice");
        let states = [0, HELD, HELD | DIRTY];
        assert!(self.state.iter().all(|state| states.contains(state)), "only a held page is dirty");
    }
}
