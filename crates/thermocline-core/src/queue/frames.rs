//! Pages in the numbered frames of a cache.
//!
//! * State: 4 bytes per page that exists, 4 bytes per frame.
//! * Cost: O(1) per change.

use alloc::vec;
use alloc::vec::Vec;

use crate::PageId;
use crate::prefetch::prefetch;

/// The frame of a page that has none; the page of a frame that is empty.
const NONE: u32 = u32::MAX;

/// Frames that hold a page each, or none.
#[derive(Clone, Debug)]
pub struct Frames {
    /// Per page: its frame, or [`NONE`].
    frame_of: Vec<u32>,
    /// Per frame: its page, or [`NONE`].
    pages: Vec<u32>,
}

impl Frames {
    /// So many empty frames for page ids below `pages`; no more of them than there are pages, but
    /// one at least.
    pub fn new(pages: u32, frames: u32) -> Self {
        let frames = frames.min(pages).max(1);
        Self { frame_of: vec![NONE; pages as usize], pages: vec![NONE; frames as usize] }
    }

    /// The frame of a page, if it has one.
    #[inline]
    pub fn find(&self, page: PageId) -> Option<u32> {
        Some(self.frame_of[page.index()]).filter(|&frame| frame != NONE)
    }

    /// The page of a frame, if it holds one.
    #[inline]
    pub fn page(&self, frame: u32) -> Option<PageId> {
        let page = self.pages[frame as usize];
        (page != NONE).then_some(PageId(page))
    }

    /// Puts a page that has no frame into one; returns the page that was there.
    #[inline]
    pub fn put(&mut self, frame: u32, page: PageId) -> Option<PageId> {
        debug_assert_eq!(self.frame_of[page.index()], NONE, "a page has one frame at most");
        self.frame_of[page.index()] = frame;
        let former = core::mem::replace(&mut self.pages[frame as usize], page.0);
        if former == NONE {
            return None;
        }
        self.frame_of[former as usize] = NONE;
        Some(PageId(former))
    }

    /// Takes a page out of its frame, which is returned.
    pub fn take(&mut self, page: PageId) -> Option<u32> {
        let frame = self.find(page)?;
        self.frame_of[page.index()] = NONE;
        self.pages[frame as usize] = NONE;
        Some(frame)
    }

    /// Takes a page out of its frame, which is returned, where the first `held` frames hold a page
    /// each: the page of the last of these takes its place.
    pub fn take_dense(&mut self, page: PageId, held: u32) -> Option<u32> {
        let frame = self.take(page)?;
        if let Some(last) = self.page(held - 1) {
            self.take(last);
            self.put(frame, last);
        }
        Some(frame)
    }

    /// The frame after this one; the first after the last.
    #[inline]
    pub fn following(&self, frame: u32) -> u32 {
        if frame as usize + 1 == self.pages.len() { 0 } else { frame + 1 }
    }

    /// How many frames there are.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "they were counted with u32")]
    pub fn count(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Asks the processor for the frame of a page.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        prefetch(&self.frame_of, page.index());
    }

    /// Asks the processor for what taking the page of a frame away will write.
    #[inline]
    pub fn prefetch_page_of(&self, frame: u32) {
        prefetch(&self.frame_of, self.pages[frame as usize] as usize);
    }

    /// Heap memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.frame_of) + size_of_val(&*self.pages)
    }

    /// Checks every invariant.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        let mut held = 0;
        for (frame, &page) in (0_u32..).zip(&self.pages).filter(|&(_, &page)| page != NONE) {
            assert_eq!(self.frame_of[page as usize], frame, "the index points back");
            held += 1;
        }
        let indexed = self.frame_of.iter().filter(|&&frame| frame != NONE).count();
        assert_eq!(held, indexed, "every page of the index has a frame");
    }
}
