//! A set of pages: a bit for each that exists, or a sparse index.

use alloc::vec;
use alloc::vec::Vec;

use super::Index;
use crate::PageId;
use crate::config::{Ids, Indexing};
use crate::prefetch::prefetch;

/// Pages of a set.
///
/// * State: a bit per page that exists; or, sparse, 5 bytes per page that the set can hold.
#[derive(Clone, Debug)]
pub struct PageSet(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// 64 pages a word.
    Bits(Vec<u64>),
    /// Each page is its own place.
    Index(Index),
}

impl PageSet {
    /// An empty set, with room for `capacity` pages; a sparse one grows if it holds more.
    pub fn new(ids: Ids, capacity: u32) -> Self {
        Self(match ids.indexing {
            Indexing::Dense => Kind::Bits(vec![0; ids.pages.div_ceil(u64::BITS) as usize]),
            Indexing::Sparse => Kind::Index(Index::with_capacity(capacity.min(ids.pages) as usize)),
        })
    }

    /// Whether a page is in the set.
    #[inline]
    pub fn contains(&self, page: PageId) -> bool {
        match &self.0 {
            Kind::Bits(words) => words[page.index() / 64] >> (page.index() % 64) & 1 != 0,
            Kind::Index(index) => index.find(page.0, itself).is_some(),
        }
    }

    /// Puts a page into the set, if it is to be. There is no branch on that: often no processor can
    /// guess.
    #[inline]
    pub fn insert_if(&mut self, page: PageId, is_inserted: bool) {
        match &mut self.0 {
            Kind::Bits(words) => {
                words[page.index() / 64] |= u64::from(is_inserted) << (page.index() % 64);
            }
            Kind::Index(index) => {
                if is_inserted {
                    index.put(page.0, page.0, itself);
                }
            }
        }
    }

    /// Takes a page out, and says whether it was there.
    #[inline]
    pub fn remove(&mut self, page: PageId) -> bool {
        match &mut self.0 {
            Kind::Bits(words) => {
                let word = &mut words[page.index() / 64];
                let bit = 1 << (page.index() % 64);
                let was_there = *word & bit != 0;
                *word &= !bit;
                was_there
            }
            Kind::Index(index) => {
                let len = index.len();
                index.remove(page.0, itself);
                index.len() < len
            }
        }
    }

    /// Takes all pages out, and gives them to `each` in the order of their ids.
    pub fn drain(&mut self, mut each: impl FnMut(PageId)) {
        match &mut self.0 {
            Kind::Bits(words) => {
                for (index, word) in (0_u32..).zip(words) {
                    while *word != 0 {
                        each(PageId(index * 64 + word.trailing_zeros()));
                        *word &= *word - 1;
                    }
                }
            }
            Kind::Index(index) => {
                sorted(index).into_iter().for_each(each);
                index.refill(core::iter::empty());
            }
        }
    }

    /// The pages of the set, in the order of their ids. A sparse set sorts them first.
    pub fn iter(&self) -> impl Iterator<Item = PageId> + '_ {
        let (words, pages) = match &self.0 {
            Kind::Bits(words) => (&words[..], vec![]),
            Kind::Index(index) => (&[][..], sorted(index)),
        };
        let words = (0_u32..).zip(words).filter(|&(_, &word)| word != 0);
        let bits = words.flat_map(|(index, word)| {
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| PageId(index * 64 + bit))
        });
        bits.chain(pages)
    }

    /// Asks the processor for what is known of a page.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        match &self.0 {
            Kind::Bits(words) => prefetch(words, page.index() / 64),
            Kind::Index(index) => index.prefetch(page.0),
        }
    }

    /// Heap memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        match &self.0 {
            Kind::Bits(words) => size_of_val(&**words),
            Kind::Index(index) => index.memory_bytes(),
        }
    }
}

/// The page of a place.
const fn itself(place: u32) -> u32 {
    place
}

/// The pages of a sparse set, in the order of their ids.
fn sorted(index: &Index) -> Vec<PageId> {
    let mut pages: Vec<PageId> = index.places().map(PageId).collect();
    pages.sort_unstable();
    pages
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
