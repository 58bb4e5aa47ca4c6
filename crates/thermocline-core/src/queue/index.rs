//! Index of pages: a hash table of 32-bit places that stores no keys.
//!
//! The entry at a place already holds its page. So a bucket takes four bytes, and the caller says
//! which page a place belongs to.
//!
//! * State: 5 bytes per page that it was made for; it grows by half when seven eighths are taken.
//! * Cost: O(1) expected, with one question of a place's page per step.

use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use crate::prefetch::prefetch;

/// No place.
const EMPTY: u32 = u32::MAX;

/// The table: places by their pages. The greatest number is no place.
#[derive(Clone, Debug)]
pub struct Index {
    buckets: Vec<u32>,
    len: usize,
}

impl Index {
    /// Create an empty table with room for `pages` pages.
    pub fn with_capacity(pages: usize) -> Self {
        Self { buckets: vec![EMPTY; (pages + pages / 4).max(16)], len: 0 }
    }

    /// Return the place of a page.
    #[inline]
    pub fn find(&self, page: u32, page_of: impl Fn(u32) -> u32) -> Option<u32> {
        self.find_where(page, |place| page_of(place) == page)
    }

    /// Return the first place that `is_wanted` among those with this key. The key of a place is
    /// what it was put by: a page, or a part of what tells pages apart.
    #[inline]
    pub fn find_where(&self, key: u32, is_wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let mut bucket = self.home(key);
        loop {
            let place = self.buckets[bucket];
            if place == EMPTY {
                return None;
            }
            if is_wanted(place) {
                return Some(place);
            }
            bucket = self.next(bucket);
        }
    }

    /// Asks the processor for the bucket of a page.
    #[inline]
    pub fn prefetch(&self, page: u32) {
        prefetch(&self.buckets, self.home(page));
    }

    /// Return the place at which the search for a page begins, if there is one: mostly that of the
    /// page. For hints only.
    #[inline]
    pub fn guess(&self, page: u32) -> Option<u32> {
        let place = self.buckets[self.home(page)];
        (place != EMPTY).then_some(place)
    }

    /// Put a page at a place, and return its former place, if it had one.
    #[inline(never)]
    pub fn put(&mut self, page: u32, place: u32, page_of: impl Fn(u32) -> u32) -> Option<u32> {
        self.put_where(page, place, &page_of, |place| page_of(place) == page)
    }

    /// Put a place by a key. It replaces the place that `is_former`, if there is one, which is
    /// returned. `key_of` says by which key a place was put; several places may have the same.
    #[inline]
    pub fn put_where(
        &mut self,
        key: u32,
        place: u32,
        key_of: impl Fn(u32) -> u32,
        is_former: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        debug_assert_ne!(place, EMPTY, "the greatest number is no place");
        if (self.len + 1) * 8 > self.buckets.len() * 7 {
            self.grow(&key_of);
        }
        let mut bucket = self.home(key);
        while self.buckets[bucket] != EMPTY && !is_former(self.buckets[bucket]) {
            bucket = self.next(bucket);
        }
        let former = mem::replace(&mut self.buckets[bucket], place);
        self.len += usize::from(former == EMPTY);
        (former != EMPTY).then_some(former)
    }

    /// Takes a page out, and moves those up that stood behind it.
    #[inline(never)]
    pub fn remove(&mut self, page: u32, page_of: impl Fn(u32) -> u32) {
        self.remove_where(page, &page_of, |place| page_of(place) == page);
    }

    /// Takes the place out that `is_wanted`, if there is one with this key. `key_of` is as for
    /// [`put_where`](Self::put_where).
    #[inline]
    pub fn remove_where(
        &mut self,
        key: u32,
        key_of: impl Fn(u32) -> u32,
        is_wanted: impl Fn(u32) -> bool,
    ) {
        let mut hole = self.home(key);
        loop {
            let place = self.buckets[hole];
            if place == EMPTY {
                return;
            }
            if is_wanted(place) {
                break;
            }
            hole = self.next(hole);
        }
        self.len -= 1;
        let mut bucket = hole;
        loop {
            bucket = self.next(bucket);
            let place = self.buckets[bucket];
            if place == EMPTY {
                break;
            }
            let origin = self.home(key_of(place));
            // It may move into the hole unless its home lies between the hole and itself.
            let is_between = if hole < bucket {
                origin > hole && origin <= bucket
            } else {
                origin > hole || origin <= bucket
            };
            if !is_between {
                self.buckets[hole] = place;
                hole = bucket;
            }
        }
        self.buckets[hole] = EMPTY;
    }

    /// Return all places, in no order that means anything.
    pub fn places(&self) -> impl Iterator<Item = u32> + '_ {
        self.buckets.iter().copied().filter(|&place| place != EMPTY)
    }

    /// Return the number of pages in the table.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Return `true` if no page is in the table.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets all places, and takes these, of pages that differ.
    ///
    /// # Panics
    /// If they are more than the table has room for.
    pub fn refill(&mut self, places: impl Iterator<Item = (u32, u32)>) {
        self.buckets.fill(EMPTY);
        self.len = 0;
        for (page, place) in places {
            self.len += 1;
            assert!(self.len < self.buckets.len(), "a table is refilled with what it has room for");
            self.insert(page, place);
        }
    }

    /// Return the size of the heap memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<u32>()
    }

    #[inline]
    fn home(&self, page: u32) -> usize {
        let product = u64::from(mix(page)) * self.buckets.len() as u64;
        (product >> 32) as usize
    }

    #[inline]
    fn next(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    fn grow(&mut self, page_of: &impl Fn(u32) -> u32) {
        let larger = self.buckets.len() * 3 / 2 + 16;
        let places: Vec<u32> = self.places().collect();
        self.buckets = vec![EMPTY; larger];
        for place in places {
            self.insert(page_of(place), place);
        }
    }

    /// Puts a page that is not in the table at a place.
    fn insert(&mut self, page: u32, place: u32) {
        let mut bucket = self.home(page);
        while self.buckets[bucket] != EMPTY {
            bucket = self.next(bucket);
        }
        self.buckets[bucket] = place;
    }
}

/// Spreads page numbers over 32 bits; neighbours do not collide.
#[inline]
const fn mix(page: u32) -> u32 {
    let mut bits = (page as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits ^= bits >> 32;
    (bits.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Places are the page with a tag in the upper bits, so that a page can change its place.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0_u32..40, 0_u32..8), 0..400)) {
            let page_of = |place: u32| place & 0xFF;
            let mut index = Index::with_capacity(3);
            let mut model = BTreeMap::new();
            for (page, action) in steps {
                match action {
                    0 => {
                        index.remove(page, page_of);
                        model.remove(&page);
                    }
                    7 => {
                        model.retain(|other, _| other % 2 == page % 2);
                        index.refill(model.iter().map(|(&page, &place)| (page, place)));
                    }
                    _ => {
                        index.put(page, page | action << 8, page_of);
                        model.insert(page, page | action << 8);
                    }
                }
                prop_assert_eq!(index.is_empty(), model.is_empty());
                prop_assert_eq!(index.len(), model.len());
                for page in 0..40 {
                    prop_assert_eq!(index.find(page, page_of), model.get(&page).copied());
                }
            }
        }
    }
}
