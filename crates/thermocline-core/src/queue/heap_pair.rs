//! Two binary heaps over one set of ids, each id in one of them at most, in a room for all ids.
//!
//! One grows from the room's front, the other from its back: where ids pass from one to the other, no
//! room is kept for them in both.
//!
//! * State: 8 bytes plus the key per id that exists.
//! * Cost: O(log n) per change, O(1) to look at the least of each.

use alloc::vec;
use alloc::vec::Vec;

use super::heap::{ABSENT, Heap, assert_heap};

/// One of the two heaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The heap from the front.
    Front,
    /// The heap from the back.
    Back,
}

/// Ids ordered by a key that each of them carries, on two sides.
#[derive(Clone, Debug)]
pub struct HeapPair<K> {
    /// The members of the front from its first place on, those of the back from its last place on.
    room: Vec<(K, u32)>,
    /// Per id: its place in the room, or [`ABSENT`].
    place_of: Vec<u32>,
    front_len: usize,
    back_len: usize,
}

impl<K: Ord + Copy + Default> HeapPair<K> {
    /// Two empty heaps for ids less than `ids`.
    pub fn new(ids: u32) -> Self {
        Self {
            room: vec![(K::default(), ABSENT); ids as usize],
            place_of: vec![ABSENT; ids as usize],
            front_len: 0,
            back_len: 0,
        }
    }

    /// Puts `id`, wherever it is, on a side with a key.
    pub fn set(&mut self, side: Side, id: u32, key: K) {
        if self.side(id) != Some(side) {
            self.remove(id);
            self.heap(side).insert(id, key);
            *self.len_mut(side) += 1;
            return;
        }
        let place = self.place_of[id as usize] as usize;
        self.room[place].0 = key;
        let mut heap = self.heap(side);
        heap.restore(heap.turn(place));
    }

    /// Removes `id` if it is on a side, which is returned.
    pub fn remove(&mut self, id: u32) -> Option<Side> {
        let side = self.side(id)?;
        let place = self.place_of[id as usize] as usize;
        let mut heap = self.heap(side);
        heap.remove(heap.turn(place));
        *self.len_mut(side) -= 1;
        Some(side)
    }

    /// The side that `id` is on.
    #[inline]
    pub fn side(&self, id: u32) -> Option<Side> {
        match self.place_of[id as usize] {
            ABSENT => None,
            place if (place as usize) < self.front_len => Some(Side::Front),
            _ => Some(Side::Back),
        }
    }

    /// The key of `id`, if it is on a side.
    pub fn key(&self, id: u32) -> Option<K> {
        self.room.get(self.place_of[id as usize] as usize).map(|&(key, _)| key)
    }

    /// The member of a side with the least key.
    pub fn least(&self, side: Side) -> Option<(K, u32)> {
        match side {
            Side::Front => self.room[..self.front_len].first().copied(),
            Side::Back => self.room[self.room.len() - self.back_len..].last().copied(),
        }
    }

    /// How many members a side has.
    pub fn len(&self, side: Side) -> usize {
        match side {
            Side::Front => self.front_len,
            Side::Back => self.back_len,
        }
    }

    /// Heap memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.room) + size_of_val(&*self.place_of)
    }

    /// Checks every invariant of both heaps.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        let last = self.room.len().wrapping_sub(1);
        assert_heap(&self.room, &self.place_of, self.front_len, |place| place);
        assert_heap(&self.room, &self.place_of, self.back_len, |place| last - place);
        let members = self.place_of.iter().filter(|&&place| place != ABSENT).count();
        assert_eq!(members, self.front_len + self.back_len, "every member is indexed once");
    }

    fn len_mut(&mut self, side: Side) -> &mut usize {
        match side {
            Side::Front => &mut self.front_len,
            Side::Back => &mut self.back_len,
        }
    }

    fn heap(&mut self, side: Side) -> Heap<'_, K> {
        Heap {
            len: self.len(side),
            room: &mut self.room,
            place_of: &mut self.place_of,
            is_mirrored: side == Side::Back,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const IDS: u32 = 16;

    proptest! {
        #[test]
        fn each_side_is_ordered(steps in prop::collection::vec((0..IDS, 0_u32..40, 0..5), 0..300)) {
            let mut pair = HeapPair::new(IDS);
            let mut model = BTreeMap::new();
            for (id, key, action) in steps {
                let former = model.get(&id).map(|&(side, _)| side);
                prop_assert_eq!(pair.side(id), former);
                if action == 0 {
                    prop_assert_eq!(pair.remove(id), former);
                    model.remove(&id);
                } else {
                    let side = if action < 3 { Side::Front } else { Side::Back };
                    pair.set(side, id, key);
                    model.insert(id, (side, key));
                }
                pair.assert_invariants();
                prop_assert_eq!(pair.key(id), model.get(&id).map(|&(_, key)| key));
                for side in [Side::Front, Side::Back] {
                    let keys = model.values().filter(|entry| entry.0 == side).map(|entry| entry.1);
                    prop_assert_eq!(pair.len(side), keys.clone().count());
                    prop_assert_eq!(pair.least(side).map(|(key, _)| key), keys.min());
                }
            }
        }
    }
}
