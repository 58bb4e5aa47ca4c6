//! Pages in the numbered frames of a cache.
//!
//! * State: 4 bytes per page that exists, or, sparse, 6 per frame; 4 bytes per frame.
//! * Cost: O(1) per change.

use alloc::vec;
use alloc::vec::Vec;

use super::directory::{ABSENT, Directory, Places};
use crate::Ids;
use crate::PageId;

/// The page of a frame that is empty.
const NONE: u32 = u32::MAX;

/// Frames that hold a page each, or none. `P` is how the frame of a page is found.
#[derive(Clone, Debug)]
pub struct Frames<P = Directory> {
    /// The frame of each page that has one.
    frame_of: P,
    /// Per frame: its page, or [`NONE`].
    pages: Vec<u32>,
}

impl<P: Places> Frames<P> {
    /// Create empty frames: `frames` of them, but no more than there are pages, and at least one.
    pub fn new(ids: Ids, frames: u32) -> Self {
        let frames = frames.min(ids.pages).max(1) as usize;
        Self { frame_of: P::new(ids, frames), pages: vec![NONE; frames] }
    }

    /// Return the frame of a page, if it has one.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs as much as the work")]
    pub fn find(&self, page: PageId) -> Option<u32> {
        let frame = self.frame_of.find(page.0, page_of(&self.pages));
        (frame != ABSENT).then_some(frame)
    }

    /// Return the page of a frame, if it holds one.
    #[inline]
    pub fn page(&self, frame: u32) -> Option<PageId> {
        let page = self.pages[frame as usize];
        (page != NONE).then_some(PageId(page))
    }

    /// Puts a page that has no frame into one; returns the page that was there.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs as much as the work")]
    pub fn put(&mut self, frame: u32, page: PageId) -> Option<PageId> {
        debug_assert_eq!(self.find(page), None, "a page has one frame at most");
        let former = self.page(frame);
        if let Some(former) = former {
            self.frame_of.remove(former.0, page_of(&self.pages));
        }
        self.pages[frame as usize] = page.0;
        self.frame_of.put(page.0, frame, page_of(&self.pages));
        former
    }

    /// Takes a page out of its frame, which is returned.
    pub fn take(&mut self, page: PageId) -> Option<u32> {
        let frame = self.find(page)?;
        self.frame_of.remove(page.0, page_of(&self.pages));
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

    /// Return the frame after this one; the first after the last.
    #[inline]
    pub fn following(&self, frame: u32) -> u32 {
        if frame as usize + 1 == self.pages.len() { 0 } else { frame + 1 }
    }

    /// Return the number of frames.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "they were counted with u32")]
    pub fn count(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Asks the processor for the frame of a page.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        self.frame_of.prefetch(page.0);
    }

    /// Prefetches what taking the page of a frame away will write.
    #[inline]
    pub fn prefetch_page_of(&self, frame: u32) {
        self.frame_of.prefetch(self.pages[frame as usize]);
    }

    /// Return the size of the heap memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.frame_of.memory_bytes() + size_of_val(&*self.pages)
    }

    /// Checks every invariant.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        let mut held = 0;
        for (frame, &page) in (0_u32..).zip(&self.pages).filter(|&(_, &page)| page != NONE) {
            assert_eq!(self.find(PageId(page)), Some(frame), "the index points back");
            held += 1;
        }
        assert_eq!(held, self.frame_of.count(), "every page of the index has a frame");
    }
}

/// Return the page of each frame.
#[inline]
fn page_of(pages: &[u32]) -> impl Fn(u32) -> u32 + '_ {
    |frame| pages[frame as usize]
}
