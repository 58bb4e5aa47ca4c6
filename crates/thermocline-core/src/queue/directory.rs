//! Directory of the pages of a queue: a table by page, or a sparse index.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::mem;

use super::Index;
use crate::prefetch::prefetch;
use crate::{Ids, Indexing};

/// The place of a page that is not there, and of no other.
pub(super) const ABSENT: u32 = u32::MAX;

/// Places by pages. The queue knows the page of each place, and says so when it is asked by `page_of`.
pub trait Places: Clone + Debug + Send {
    /// Create an empty directory, for a queue of at most `capacity` pages.
    fn new(ids: Ids, capacity: usize) -> Self;

    /// Return the place of a page, or `u32::MAX`.
    fn find(&self, page: u32, page_of: impl Fn(u32) -> u32) -> u32;

    /// Puts a page at a place, and returns where it was, or `u32::MAX`.
    fn put(&mut self, page: u32, place: u32, page_of: impl Fn(u32) -> u32) -> u32;

    /// Forgets where a page is.
    fn remove(&mut self, page: u32, page_of: impl Fn(u32) -> u32);

    /// Return the number of pages that are there. Takes time in proportion to all pages of a table.
    fn count(&self) -> usize;

    /// Asks the processor for the place of a page.
    fn prefetch(&self, page: u32);

    /// Return the size of the heap memory, in bytes.
    fn memory_bytes(&self) -> usize;
}

/// Places in a table, for queues that are compiled for dense ids alone.
///
/// * State: 4 bytes per page that exists.
#[derive(Clone, Debug)]
pub struct Table(Vec<u32>);

/// Places in a table or an index, as the ids want it.
///
/// The check that a page lies within the table is also the choice between table and index, so that
/// the index costs little where there is a table.
///
/// * State: 4 bytes per page that exists; or 6 per page that the queue can hold.
#[derive(Clone, Debug)]
pub struct Directory {
    /// Per page: its place, or `u32::MAX`. Empty if there is an index.
    table: Vec<u32>,
    /// Places by a hash of their pages.
    index: Option<Index>,
}

impl Places for Table {
    fn new(ids: Ids, _capacity: usize) -> Self {
        debug_assert_eq!(ids.indexing, Indexing::Dense, "sparse ids have no table");
        Self(vec![ABSENT; ids.pages as usize])
    }

    #[inline]
    fn find(&self, page: u32, _page_of: impl Fn(u32) -> u32) -> u32 {
        self.0[page as usize]
    }

    #[inline]
    fn put(&mut self, page: u32, place: u32, _page_of: impl Fn(u32) -> u32) -> u32 {
        mem::replace(&mut self.0[page as usize], place)
    }

    #[inline]
    fn remove(&mut self, page: u32, _page_of: impl Fn(u32) -> u32) {
        self.0[page as usize] = ABSENT;
    }

    fn count(&self) -> usize {
        self.0.iter().filter(|&&place| place != ABSENT).count()
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        prefetch(&self.0, page as usize);
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

impl Places for Directory {
    fn new(ids: Ids, capacity: usize) -> Self {
        match ids.indexing {
            Indexing::Dense => Self { table: vec![ABSENT; ids.pages as usize], index: None },
            Indexing::Sparse => {
                let index = Index::with_capacity(capacity.min(ids.pages as usize));
                Self { table: vec![], index: Some(index) }
            }
        }
    }

    #[inline]
    fn find(&self, page: u32, page_of: impl Fn(u32) -> u32) -> u32 {
        match self.table.get(page as usize) {
            Some(&place) => place,
            None => self.find_sparse(page, page_of),
        }
    }

    #[inline]
    fn put(&mut self, page: u32, place: u32, page_of: impl Fn(u32) -> u32) -> u32 {
        match self.table.get_mut(page as usize) {
            Some(known) => mem::replace(known, place),
            None => self.put_sparse(page, place, page_of),
        }
    }

    #[inline]
    fn remove(&mut self, page: u32, page_of: impl Fn(u32) -> u32) {
        match self.table.get_mut(page as usize) {
            Some(known) => *known = ABSENT,
            None => self.remove_sparse(page, page_of),
        }
    }

    fn count(&self) -> usize {
        match &self.index {
            None => self.table.iter().filter(|&&place| place != ABSENT).count(),
            Some(index) => index.len(),
        }
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        match &self.index {
            None => prefetch(&self.table, page as usize),
            Some(index) => index.prefetch(page),
        }
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&*self.table) + self.index.as_ref().map_or(0, Index::memory_bytes)
    }
}

impl Directory {
    /// Return `true` if this is the sparse index.
    pub const fn is_sparse(&self) -> bool {
        self.index.is_some()
    }

    /// Return the place of a page in a table; `u32::MAX` if there is an index, or if the page has
    /// no place.
    #[inline]
    pub fn look_up(&self, page: u32) -> u32 {
        self.table.get(page as usize).copied().unwrap_or(ABSENT)
    }

    /// Set the places of all pages that are there.
    pub fn refill(&mut self, places: impl Iterator<Item = (u32, u32)>) {
        match &mut self.index {
            None => places.for_each(|(page, place)| self.table[page as usize] = place),
            Some(index) => index.refill(places),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_sparse(&self, page: u32, page_of: impl Fn(u32) -> u32) -> u32 {
        let index = self.index.as_ref().expect("a page without an index is in the table");
        index.find(page, page_of).unwrap_or(ABSENT)
    }

    #[cold]
    #[inline(never)]
    fn put_sparse(&mut self, page: u32, place: u32, page_of: impl Fn(u32) -> u32) -> u32 {
        let index = self.index.as_mut().expect("a page without an index is in the table");
        index.put(page, place, page_of).unwrap_or(ABSENT)
    }

    #[cold]
    #[inline(never)]
    fn remove_sparse(&mut self, page: u32, page_of: impl Fn(u32) -> u32) {
        let index = self.index.as_mut().expect("a page without an index is in the table");
        index.remove(page, page_of);
    }
}
