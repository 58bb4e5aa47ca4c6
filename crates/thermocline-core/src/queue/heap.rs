//! A binary heap of ids whose keys may change, least key first.
//!
//! * State: 4 bytes per id that exists, 4 bytes plus the key per member.
//! * Cost: O(log n) per change, O(1) to look at the least.

use alloc::vec;
use alloc::vec::Vec;

use crate::prefetch::prefetch;

/// The place of an id that is not a member.
const ABSENT: u32 = u32::MAX;

/// Ids ordered by a key that each of them carries.
#[derive(Clone, Debug)]
pub struct IndexedHeap<K> {
    /// Per id: its place in the heap, or [`ABSENT`].
    place_of: Vec<u32>,
    heap: Vec<(K, u32)>,
    /// Exchanges of two places so far, for tests of the cost.
    #[cfg(test)]
    pub(crate) steps: u64,
}

impl<K: Ord + Copy> IndexedHeap<K> {
    /// An empty heap for ids less than `ids`.
    pub fn new(ids: u32) -> Self {
        Self {
            place_of: vec![ABSENT; ids as usize],
            heap: Vec::new(),
            #[cfg(test)]
            steps: 0,
        }
    }

    /// Inserts `id`, or changes its key.
    pub fn set(&mut self, id: u32, key: K) {
        let place = match self.place_of[id as usize] {
            ABSENT => {
                self.heap.push((key, id));
                self.heap.len() - 1
            }
            place => {
                self.heap[place as usize].0 = key;
                place as usize
            }
        };
        let place = self.sift_up(place);
        self.sift_down(place);
    }

    /// Removes `id` if it is a member, and says whether it was.
    pub fn remove(&mut self, id: u32) -> bool {
        let place = core::mem::replace(&mut self.place_of[id as usize], ABSENT);
        if place == ABSENT {
            return false;
        }
        let place = place as usize;
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            let place = self.sift_up(place);
            self.sift_down(place);
        }
        true
    }

    /// The member with the least key.
    pub fn least(&self) -> Option<(K, u32)> {
        self.heap.first().copied()
    }

    /// The key of `id`, if it is a member.
    pub fn key(&self, id: u32) -> Option<K> {
        self.heap.get(self.place_of[id as usize] as usize).map(|&(key, _)| key)
    }

    /// Whether `id` is a member.
    pub fn contains(&self, id: u32) -> bool {
        self.place_of[id as usize] != ABSENT
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// All members with their keys, in no particular but the same order on every platform.
    pub fn iter(&self) -> impl Iterator<Item = (K, u32)> + '_ {
        self.heap.iter().copied()
    }

    /// Replaces every key, for changes that touch all of them.
    pub fn update_keys(&mut self, mut next: impl FnMut(K, u32) -> K) {
        for (key, id) in &mut self.heap {
            *key = next(*key, *id);
        }
        for place in (0..self.heap.len() / 2).rev() {
            self.sift_down(place);
        }
        for place in 0..self.heap.len() {
            self.note_place(place);
        }
    }

    /// Asks the processor for the place of an id.
    #[inline]
    pub fn prefetch(&self, id: u32) {
        prefetch(&self.place_of, id as usize);
    }

    /// Heap memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.place_of) + self.heap.capacity() * size_of::<(K, u32)>()
    }

    /// Checks every invariant of the heap.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        for (place, (key, id)) in self.heap.iter().enumerate() {
            assert_eq!(self.place_of[*id as usize] as usize, place, "the index points back");
            assert!(self.heap[place.saturating_sub(1) / 2].0 <= *key, "a parent is not greater");
        }
        let members = self.place_of.iter().filter(|&&place| place != ABSENT).count();
        assert_eq!(members, self.heap.len(), "every member is indexed once");
    }

    /// Exchanges two places, of which the second one is final.
    fn swap(&mut self, place: usize, last: usize) {
        #[cfg(test)]
        {
            self.steps += 1;
        }
        self.heap.swap(place, last);
        self.note_place(last);
    }

    fn sift_up(&mut self, mut place: usize) -> usize {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent].0 <= self.heap[place].0 {
                break;
            }
            self.swap(parent, place);
            place = parent;
        }
        self.note_place(place);
        place
    }

    fn sift_down(&mut self, mut place: usize) {
        loop {
            let left = 2 * place + 1;
            let Some(mut child) = (left < self.heap.len()).then_some(left) else { break };
            if left + 1 < self.heap.len() && self.heap[left + 1].0 < self.heap[left].0 {
                child = left + 1;
            }
            if self.heap[place].0 <= self.heap[child].0 {
                break;
            }
            self.swap(child, place);
            place = child;
        }
        self.note_place(place);
    }

    fn note_place(&mut self, place: usize) {
        if let Some(&(_, id)) = self.heap.get(place) {
            #[expect(clippy::cast_possible_truncation, reason = "there are at most as many as ids")]
            let noted = place as u32;
            self.place_of[id as usize] = noted;
        }
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
