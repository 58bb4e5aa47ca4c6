//! A binary heap of ids whose keys may change, least key first.
//!
//! * State: 4 bytes per id that exists, 4 bytes plus the key per member.
//! * Cost: O(log n) per change, O(1) to look at the least.

use alloc::vec;
use alloc::vec::Vec;

use crate::prefetch::prefetch;

/// The place of an id that is not a member.
const ABSENT: u32 = u32::MAX;

/// A binary heap, with the index of its members.
#[derive(Debug)]
struct Heap<'a, K> {
    members: &'a mut [(K, u32)],
    /// Per id: its place, or [`ABSENT`].
    place_of: &'a mut [u32],
}

impl<K: Ord + Copy> Heap<'_, K> {
    fn key(&self, place: usize) -> K {
        self.members[place].0
    }

    /// Moves a member whose key is new to where it belongs; returns by how many exchanges.
    fn restore(&mut self, place: usize) -> u64 {
        let (place, rises) = self.sift_up(place);
        rises + self.sift_down(place)
    }

    fn sift_up(&mut self, mut place: usize) -> (usize, u64) {
        let mut exchanges = 0;
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.key(parent) <= self.key(place) {
                break;
            }
            self.exchange(parent, place);
            exchanges += 1;
            place = parent;
        }
        self.note(place);
        (place, exchanges)
    }

    fn sift_down(&mut self, mut place: usize) -> u64 {
        let mut exchanges = 0;
        loop {
            let left = 2 * place + 1;
            let Some(mut child) = (left < self.members.len()).then_some(left) else { break };
            if left + 1 < self.members.len() && self.key(left + 1) < self.key(left) {
                child = left + 1;
            }
            if self.key(place) <= self.key(child) {
                break;
            }
            self.exchange(child, place);
            exchanges += 1;
            place = child;
        }
        self.note(place);
        exchanges
    }

    /// Exchanges two places, of which the second one is final.
    fn exchange(&mut self, place: usize, last: usize) {
        self.members.swap(place, last);
        self.note(last);
    }

    /// Notes where a member is.
    #[expect(clippy::cast_possible_truncation, reason = "there are at most as many as ids")]
    fn note(&mut self, place: usize) {
        self.place_of[self.members[place].1 as usize] = place as u32;
    }
}

/// Makes a table as long as there are ids, with room for few more.
pub(crate) fn grow<T: Clone>(table: &mut Vec<T>, ids: u32, value: T) {
    let ids = ids as usize;
    if ids > table.capacity() {
        table.reserve_exact(ids - table.len() + ids / 8);
    }
    table.resize(ids, value);
}

/// Ids ordered by a key that each of them carries.
#[derive(Clone, Debug)]
pub struct IndexedHeap<K> {
    /// Per id: its place in the heap, or [`ABSENT`].
    place_of: Vec<u32>,
    heap: Vec<(K, u32)>,
    /// Exchanges of two places so far: what it cost.
    pub(crate) steps: u64,
}

impl<K: Ord + Copy> IndexedHeap<K> {
    /// Create an empty heap for ids less than `ids`.
    pub fn new(ids: u32) -> Self {
        Self { place_of: vec![ABSENT; ids as usize], heap: Vec::new(), steps: 0 }
    }

    /// Lets ids be less than `ids` from now on, which are more than before.
    pub fn grow(&mut self, ids: u32) {
        grow(&mut self.place_of, ids, ABSENT);
    }

    /// Inserts `id`, or changes its key.
    pub fn set(&mut self, id: u32, key: K) {
        let place = match self.place_of[id as usize] {
            ABSENT => {
                if self.heap.len() == self.heap.capacity() {
                    self.heap.reserve_exact(self.heap.len() / 8 + 4);
                }
                self.heap.push((key, id));
                self.heap.len() - 1
            }
            place => {
                self.heap[place as usize].0 = key;
                place as usize
            }
        };
        self.steps += self.heap().restore(place);
    }

    /// Removes `id` if it is a member, and returns `true` if it was.
    pub fn remove(&mut self, id: u32) -> bool {
        let place = core::mem::replace(&mut self.place_of[id as usize], ABSENT);
        if place == ABSENT {
            return false;
        }
        let last = self.heap.pop().expect("a member has a place");
        if let Some(hole) = self.heap.get_mut(place as usize) {
            *hole = last;
            self.steps += self.heap().restore(place as usize);
        }
        true
    }

    /// Return the member with the least key.
    pub fn least(&self) -> Option<(K, u32)> {
        self.heap.first().copied()
    }

    /// Return the key of `id`, if it is a member.
    pub fn key(&self, id: u32) -> Option<K> {
        self.heap.get(self.place_of[id as usize] as usize).map(|&(key, _)| key)
    }

    /// Return `true` if `id` is a member.
    pub fn contains(&self, id: u32) -> bool {
        self.place_of[id as usize] != ABSENT
    }

    /// Return the number of members.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Return `true` if there is no member.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Return all members with their keys, in no particular but the same order on every platform.
    pub fn iter(&self) -> impl Iterator<Item = (K, u32)> + '_ {
        self.heap.iter().copied()
    }

    /// Replaces every key, for changes that touch all of them.
    pub fn update_keys(&mut self, mut next: impl FnMut(K, u32) -> K) {
        for (key, id) in &mut self.heap {
            *key = next(*key, *id);
        }
        let mut heap = self.heap();
        let exchanges: u64 =
            (0..heap.members.len() / 2).rev().map(|place| heap.sift_down(place)).sum();
        for place in 0..heap.members.len() {
            heap.note(place);
        }
        self.steps += exchanges;
    }

    /// Asks the processor for the place of an id.
    #[inline]
    pub fn prefetch(&self, id: u32) {
        prefetch(&self.place_of, id as usize);
    }

    /// Return the size of the heap memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let places_bytes = self.place_of.capacity() * size_of::<u32>();
        places_bytes + self.heap.capacity() * size_of::<(K, u32)>()
    }

    /// Checks every invariant of the heap.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        for (place, &(key, id)) in self.heap.iter().enumerate() {
            assert_eq!(self.place_of[id as usize] as usize, place, "the index points back");
            assert!(self.heap[place.saturating_sub(1) / 2].0 <= key, "a parent is not greater");
        }
        let members = self.place_of.iter().filter(|&&place| place != ABSENT).count();
        assert_eq!(members, self.heap.len(), "every member is indexed once");
    }

    fn heap(&mut self) -> Heap<'_, K> {
        Heap { members: &mut self.heap, place_of: &mut self.place_of }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn matches_a_sorted_vector(steps in prop::collection::vec((0_u32..16, 0_u32..40), 0..300)) {
            let mut heap = IndexedHeap::new(16);
            let mut model: Vec<(u32, u32)> = vec![];
            for (id, key) in steps {
                let was_member = model.iter().any(|entry| entry.1 == id);
                model.retain(|entry| entry.1 != id);
                if key < 8 {
                    prop_assert_eq!(heap.remove(id), was_member);
                } else if key == 39 {
                    heap.update_keys(|key, id| key / 2 + id);
                    for entry in &mut model {
                        entry.0 = entry.0 / 2 + entry.1;
                    }
                    prop_assert_eq!(heap.remove(id), was_member);
                } else {
                    heap.set(id, key);
                    model.push((key, id));
                }
                heap.assert_invariants();
                prop_assert_eq!(heap.len(), model.len());
                let least = model.iter().map(|entry| entry.0).min();
                prop_assert_eq!(heap.least().map(|entry| entry.0), least);
            }
        }
    }
}
