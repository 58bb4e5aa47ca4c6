//! A set of pages: a bit for each that exists, or a sparse index.

use alloc::vec;
use alloc::vec::Vec;

use super::Index;
use crate::PageId;
use crate::prefetch::prefetch;
use crate::{Ids, Indexing};

/// Pages of a set.
///
/// The check that a page lies within the bits is also the choice between bits and index, so that the
/// index costs nothing where there are bits.
///
/// * State: a bit per page that exists; or, sparse, 6 bytes per page that the set can hold.
#[derive(Clone, Debug)]
pub struct PageSet {
    /// 64 pages a word. Empty if there is an index.
    words: Vec<u64>,
    /// Each page is its own place.
    index: Option<Index>,
}

impl PageSet {
    /// Create an empty set, with room for `capacity` pages; a sparse one grows if it holds more.
    pub fn new(ids: Ids, capacity: u32) -> Self {
        match ids.indexing {
            Indexing::Dense => {
                Self { words: vec![0; ids.pages.div_ceil(u64::BITS) as usize], index: None }
            }
            Indexing::Sparse => {
                let index = Index::with_capacity(capacity.min(ids.pages) as usize);
                Self { words: vec![], index: Some(index) }
            }
        }
    }

    /// Return `true` if a page is in the set.
    #[inline]
    pub fn contains(&self, page: PageId) -> bool {
        match self.words.get(page.index() / 64) {
            Some(word) => word >> (page.index() % 64) & 1 != 0,
            None => self.contains_sparse(page),
        }
    }

    /// Insert a page into the set if `is_inserted`, without a branch, which processors often
    /// mispredict.
    #[inline]
    pub fn insert_if(&mut self, page: PageId, is_inserted: bool) {
        match self.words.get_mut(page.index() / 64) {
            Some(word) => *word |= u64::from(is_inserted) << (page.index() % 64),
            None => self.insert_sparse(page, is_inserted),
        }
    }

    /// Takes a page out, and returns `true` if it was there.
    #[inline]
    pub fn remove(&mut self, page: PageId) -> bool {
        let Some(word) = self.words.get_mut(page.index() / 64) else {
            return self.remove_sparse(page);
        };
        let bit = 1 << (page.index() % 64);
        let was_there = *word & bit != 0;
        *word &= !bit;
        was_there
    }

    /// Takes all pages out, and gives them to `each` in the order of their ids.
    pub fn drain(&mut self, mut each: impl FnMut(PageId)) {
        for (index, word) in (0_u32..).zip(&mut self.words) {
            while *word != 0 {
                each(PageId(index * 64 + word.trailing_zeros()));
                *word &= *word - 1;
            }
        }
        self.sorted().into_iter().for_each(each);
        if let Some(index) = &mut self.index {
            index.refill(core::iter::empty());
        }
    }

    /// Return the pages of the set, in the order of their ids. A sparse set sorts them first.
    pub fn iter(&self) -> impl Iterator<Item = PageId> + '_ {
        let words = (0_u32..).zip(&self.words).filter(|&(_, &word)| word != 0);
        let bits = words.flat_map(|(index, word)| {
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| PageId(index * 64 + bit))
        });
        bits.chain(self.sorted())
    }

    /// Prefetches what is known of a page.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        match &self.index {
            None => prefetch(&self.words, page.index() / 64),
            Some(index) => index.prefetch(page.0),
        }
    }

    /// Return the size of the heap memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.words) + self.index.as_ref().map_or(0, Index::memory_bytes)
    }

    #[cold]
    #[inline(never)]
    fn contains_sparse(&self, page: PageId) -> bool {
        let index = self.index.as_ref().expect("a page without an index has a bit");
        index.find(page.0, itself).is_some()
    }

    #[cold]
    #[inline(never)]
    fn insert_sparse(&mut self, page: PageId, is_inserted: bool) {
        let index = self.index.as_mut().expect("a page without an index has a bit");
        if is_inserted {
            index.put(page.0, page.0, itself);
        }
    }

    #[cold]
    #[inline(never)]
    fn remove_sparse(&mut self, page: PageId) -> bool {
        let index = self.index.as_mut().expect("a page without an index has a bit");
        let len = index.len();
        index.remove(page.0, itself);
        index.len() < len
    }

    /// Return the pages of a sparse set, in the order of their ids.
    fn sorted(&self) -> Vec<PageId> {
        let mut pages: Vec<PageId> =
            self.index.iter().flat_map(Index::places).map(PageId).collect();
        pages.sort_unstable();
        pages
    }
}

/// Return the page of a place.
const fn itself(place: u32) -> u32 {
    place
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(
            steps in prop::collection::vec((0_u32..130, 0_u8..4), 0..200),
            indexing in prop_oneof![Just(Indexing::Dense), Just(Indexing::Sparse)],
        ) {
            let mut set = PageSet::new(Ids { pages: 130, indexing }, 20);
            let mut model = BTreeSet::new();
            for (page, action) in steps {
                let page = PageId(page);
                match action {
                    0 => prop_assert_eq!(set.remove(page), model.remove(&page)),
                    1 => set.insert_if(page, false),
                    _ => {
                        set.insert_if(page, true);
                        model.insert(page);
                    }
                }
                prop_assert_eq!(set.contains(page), model.contains(&page));
                prop_assert!(set.iter().eq(model.iter().copied()));
            }
            let mut drained = vec![];
            set.drain(|page| drained.push(page));
            prop_assert!(drained.into_iter().eq(model));
            prop_assert_eq!(set.iter().count(), 0);
        }
    }
}
