//! A set of pages: a bit for each that exists.

use alloc::vec;
use alloc::vec::Vec;

use crate::PageId;
use crate::prefetch::prefetch;

/// Pages of a set.
#[derive(Clone, Debug)]
pub struct PageSet {
    /// 64 pages a word.
    words: Vec<u64>,
}

impl PageSet {
    /// None of so many pages.
    pub fn new(pages: u32) -> Self {
        Self { words: vec![0; pages.div_ceil(u64::BITS) as usize] }
    }

    /// Whether a page is in the set.
    #[inline]
    pub fn contains(&self, page: PageId) -> bool {
        self.words[page.index() / 64] >> (page.index() % 64) & 1 != 0
    }

    /// Puts a page into the set, if it is to be. There is no branch: often no processor can guess.
    #[inline]
    pub fn insert_if(&mut self, page: PageId, is_inserted: bool) {
        self.words[page.index() / 64] |= u64::from(is_inserted) << (page.index() % 64);
    }

    /// Takes a page out, and says whether it was there.
    #[inline]
    pub fn remove(&mut self, page: PageId) -> bool {
        let word = &mut self.words[page.index() / 64];
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
    }

    /// The pages of the set, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = PageId> + '_ {
        let words = (0_u32..).zip(&self.words).filter(|&(_, &word)| word != 0);
        words.flat_map(|(index, word)| {
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| PageId(index * 64 + bit))
        })
    }

    /// Asks the processor for what is known of a page.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        prefetch(&self.words, page.index() / 64);
    }

    /// Heap memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((0_u32..130, 0_u8..4), 0..200)) {
            let mut set = PageSet::new(130);
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
