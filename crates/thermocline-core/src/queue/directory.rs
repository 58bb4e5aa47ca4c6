//! Where the pages of a queue are: a table by page, or a sparse index.

use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use super::Index;
use crate::config::{Ids, Indexing};
use crate::prefetch::prefetch;

/// Places by pages. The queue knows the page of each place, and says so when it is asked by `page_of`.
///
/// * State: 4 bytes per page that exists; or 5 per page that the queue can hold.
#[derive(Clone, Debug)]
pub enum Directory {
    /// Per page: its place, or [`ABSENT`](Directory::ABSENT).
    Table(Vec<u32>),
    /// Places by a hash of their pages.
    Index(Index),
}

impl Directory {
    /// The place of a page that is not there, and of no other.
    pub const ABSENT: u32 = u32::MAX;

    /// A directory without pages, for a queue of at most `capacity` of them.
    pub fn new(ids: Ids, capacity: usize) -> Self {
        match ids.indexing {
            Indexing::Dense => Self::Table(vec![Self::ABSENT; ids.pages as usize]),
            Indexing::Sparse => Self::Index(Index::with_capacity(capacity.min(ids.pages as usize))),
        }
    }

    /// Whether this is the sparse index.
    pub const fn is_sparse(&self) -> bool {
        matches!(self, Self::Index(_))
    }

    /// The place of a page, or [`ABSENT`](Self::ABSENT).
    #[inline]
    pub fn find(&self, page: u32, page_of: impl Fn(u32) -> u32) -> u32 {
        match self {
            Self::Table(places) => places[page as usize],
            Self::Index(index) => index.find(page, page_of).unwrap_or(Self::ABSENT),
        }
    }

    /// Puts a page at a place, and tells where it was, or [`ABSENT`](Self::ABSENT).
    #[inline]
    pub fn put(&mut self, page: u32, place: u32, page_of: impl Fn(u32) -> u32) -> u32 {
        match self {
            Self::Table(places) => mem::replace(&mut places[page as usize], place),
            Self::Index(index) => index.put(page, place, page_of).unwrap_or(Self::ABSENT),
        }
    }

    /// Forgets where a page is.
    #[inline]
    pub fn remove(&mut self, page: u32, page_of: impl Fn(u32) -> u32) {
        match self {
            Self::Table(places) => places[page as usize] = Self::ABSENT,
            Self::Index(index) => index.remove(page, page_of),
        }
    }

    /// The pages that are there, all of them, have these places now.
    pub fn refill(&mut self, places: impl Iterator<Item = (u32, u32)>) {
        match self {
            Self::Table(table) => places.for_each(|(page, place)| table[page as usize] = place),
            Self::Index(index) => index.refill(places),
        }
    }

    /// Pages that are there. Takes time in proportion to all pages.
    pub fn count(&self) -> usize {
        match self {
            Self::Table(places) => places.iter().filter(|&&place| place != Self::ABSENT).count(),
            Self::Index(index) => index.len(),
        }
    }

    /// Asks the processor for what a search for the page reads first.
    #[inline]
    pub fn prefetch(&self, page: u32) {
        match self {
            Self::Table(places) => prefetch(places, page as usize),
            Self::Index(index) => index.prefetch(page),
        }
    }

    /// Heap memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Table(places) => size_of_val(&**places),
            Self::Index(index) => index.memory_bytes(),
        }
    }
}
