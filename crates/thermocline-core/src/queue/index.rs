//! Index of pages: a hash table of 32-bit places that stores no keys.
//!
//! The entry at a place already holds its page. So a bucket takes four bytes and a tag of one, and the
//! caller says which page a place belongs to. A tag is eight bits of the page's hash. So a search reads
//! almost no place of another page, which would be a miss of the processor's cache.
//!
//! * State: 5.8 bytes per page that it was made for; it grows by half when seven eighths are taken.
//! * Cost: O(1) expected, with one question of a place's page, as a rule.

use alloc::vec;
use alloc::vec::Vec;

use crate::prefetch::prefetch;

/// Tag of a bucket without a place.
const EMPTY: u8 = 0;

/// The table: places by their pages.
#[derive(Clone, Debug)]
pub struct Index {
    tags: Vec<u8>,
    /// Per bucket: its place, if it has a tag.
    places: Vec<u32>,
    len: usize,
}

impl Index {
    /// Create an empty table with room for `pages` pages.
    pub fn with_capacity(pages: usize) -> Self {
        let buckets = (pages + pages.div_ceil(7)).max(16);
        Self { tags: vec![EMPTY; buckets], places: vec![0; buckets], len: 0 }
    }

    /// Return the place of a page.
    #[inline]
    pub fn find(&self, page: u32, page_of: impl Fn(u32) -> u32) -> Option<u32> {
        self.find_where(page, |place| page_of(place) == page)
    }

    /// Return the first place that `is_wanted` among those with this key. The key of a place is
    /// what it was put by: a page, or a part of what tells pages apart. `is_wanted` may be asked about a few
    /// places with other keys.
    #[inline]
    pub fn find_where(&self, key: u32, is_wanted: impl Fn(u32) -> bool) -> Option<u32> {
        self.search(key, is_wanted).ok().map(|bucket| self.places[bucket])
    }

    /// Asks the processor for the bucket of a page.
    #[inline]
    pub fn prefetch(&self, page: u32) {
        let (home, _) = self.home(page);
        prefetch(&self.tags, home);
        prefetch(&self.places, home);
    }

    /// Return a place that is almost always that of the page, if it has one. For hints only.
    #[inline]
    pub fn guess(&self, page: u32) -> Option<u32> {
        self.find_where(page, |_| true)
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
        // Linear probing needs free buckets to end a search; at seven eighths a miss still reads
        // few tags, which lie side by side.
        if (self.len + 1) * 8 > self.tags.len() * 7 {
            self.grow(&key_of);
        }
        match self.search(key, is_former) {
            Ok(bucket) => Some(core::mem::replace(&mut self.places[bucket], place)),
            Err((bucket, tag)) => {
                self.tags[bucket] = tag;
                self.places[bucket] = place;
                self.len += 1;
                None
            }
        }
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
        // Backward shift instead of a tombstone: pages come and go all the time, and tombstones
        // would only be removed by growing.
        let Ok(mut hole) = self.search(key, is_wanted) else { return };
        self.len -= 1;
        let mut bucket = hole;
        loop {
            bucket = self.next(bucket);
            if self.tags[bucket] == EMPTY {
                break;
            }
            let (origin, _) = self.home(key_of(self.places[bucket]));
            // It may move into the hole unless its home lies between the hole and itself.
            let is_between = if hole < bucket {
                origin > hole && origin <= bucket
            } else {
                origin > hole || origin <= bucket
            };
            if !is_between {
                self.tags[hole] = self.tags[bucket];
                self.places[hole] = self.places[bucket];
                hole = bucket;
            }
        }
        self.tags[hole] = EMPTY;
    }

    /// Return all places, in no order that means anything.
    pub fn places(&self) -> impl Iterator<Item = u32> + '_ {
        let taken = |(&tag, &place): (&u8, &u32)| (tag != EMPTY).then_some(place);
        self.tags.iter().zip(&self.places).filter_map(taken)
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
        self.tags.fill(EMPTY);
        self.len = 0;
        for (page, place) in places {
            self.len += 1;
            assert!(self.len < self.tags.len(), "a table is refilled with what it has room for");
            self.insert(page, place);
        }
    }

    /// Return the size of the heap memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.tags.capacity() + self.places.capacity() * size_of::<u32>()
    }

    /// Find the bucket with this key whose place `is_it`; otherwise return the empty bucket that ends the search,
    /// and the key's tag.
    #[inline]
    fn search(&self, key: u32, is_it: impl Fn(u32) -> bool) -> Result<usize, (usize, u8)> {
        let (mut bucket, wanted) = self.home(key);
        loop {
            let tag = self.tags[bucket];
            if tag == wanted && is_it(self.places[bucket]) {
                return Ok(bucket);
            }
            if tag == EMPTY {
                return Err((bucket, wanted));
            }
            bucket = self.next(bucket);
        }
    }

    /// Return the bucket at which the search for a page begins, and the page's tag.
    #[inline]
    fn home(&self, page: u32) -> (usize, u8) {
        let mixed = mix(page);
        let product = u64::from(mixed) * self.tags.len() as u64;
        // The home is a matter of the high bits.
        ((product >> 32) as usize, mixed.to_le_bytes()[0].max(1))
    }

    #[inline]
    fn next(&self, bucket: usize) -> usize {
        if bucket + 1 == self.tags.len() { 0 } else { bucket + 1 }
    }

    fn grow(&mut self, page_of: &impl Fn(u32) -> u32) {
        // By half and not to twice: the index is the greatest part of a sparse policy's memory.
        let larger = self.tags.len() * 3 / 2 + 16;
        let places: Vec<u32> = self.places().collect();
        self.tags = vec![EMPTY; larger];
        self.places = vec![0; larger];
        for place in places {
            self.insert(page_of(place), place);
        }
    }

    /// Puts a page that is not in the table at a place.
    fn insert(&mut self, page: u32, place: u32) {
        if let Err((bucket, tag)) = self.search(page, |_| false) {
            self.tags[bucket] = tag;
            self.places[bucket] = place;
        }
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
    use core::cell::Cell;

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

    #[test]
    fn a_search_reads_almost_no_place_of_another_page() {
        let itself = |place: u32| place;
        let mut index = Index::with_capacity(100_000);
        for page in 0..100_000 {
            index.put(page * 3, page * 3, itself);
        }
        let (asked, mut wrong_guesses) = (Cell::new(0_u32), 0);
        let page_of = |place: u32| {
            asked.set(asked.get() + 1);
            place
        };
        for page in 0..300_000 {
            let place = index.find(page, page_of);
            assert_eq!(place.is_some(), page % 3 == 0);
            wrong_guesses += u32::from(index.guess(page) != place);
        }
        let others = asked.get() - 100_000;
        assert!(others < 30_000, "{others} other pages in 300,000 searches");
        assert!(wrong_guesses < 30_000, "{wrong_guesses} of 300,000 guesses are wrong");
    }
}
