//! A heap that need not be told when a key grows or a member leaves.
//!
//! Keys live with the user of the heap; the heap has a key for each member that is not greater. What
//! surfaces is compared with the truth: a key that has grown is put where it belongs, and what is no
//! member is dropped. So a change costs nothing until it matters, and no index of places must follow
//! the heap's exchanges.
//!
//! * State: 4 bytes plus the key for each entry, of which there are at most twice the members, or,
//!   sparse, 1.25 times.
//! * Cost: amortised O(log n) per push.

use alloc::collections::BinaryHeap;
use alloc::collections::binary_heap::PeekMut;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::Indexing;

/// Entries beyond the members' share, so that a small heap is not tidied at each step.
const MARGIN: usize = 64;

/// A time, or bits that order as a number, which aligns to 4 bytes: so an entry with a 32-bit id needs
/// no padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(Rust, packed(4))]
pub struct Stamp(pub u64);

const _: () = assert!(size_of::<((u32, Stamp), u32)>() == 16, "entries have no padding");

/// Ids ordered by keys that may grow unseen, least first.
#[derive(Clone, Debug)]
pub struct LazyHeap<K> {
    indexing: Indexing,
    /// For each member an entry with a key that is not greater than its own; other entries, too.
    heap: BinaryHeap<Reverse<(K, u32)>>,
}

impl<K: Ord + Copy> LazyHeap<K> {
    /// An empty heap; with sparse indexing it is tidied more often and takes no more memory than its
    /// entries.
    pub const fn new(indexing: Indexing) -> Self {
        Self { indexing, heap: BinaryHeap::new() }
    }

    /// Adds a member with its key. `members` is how many there are now, and `current` says what the
    /// key of an id is, or that it is no member.
    pub fn push(&mut self, id: u32, key: K, members: usize, current: impl Fn(u32) -> Option<K>) {
        let entries_max = match self.indexing {
            Indexing::Dense => 2 * members + MARGIN,
            Indexing::Sparse => {
                self.reserve_some();
                members + members / 4 + MARGIN
            }
        };
        self.heap.push(Reverse((key, id)));
        if self.heap.len() > entries_max {
            self.tidy(current);
        }
    }

    /// The member with the least key; `current` says what the key of an id is, or that it is no
    /// member.
    pub fn least(&mut self, current: impl Fn(u32) -> Option<K>) -> Option<(K, u32)> {
        loop {
            let mut top = self.heap.peek_mut()?;
            let Reverse((key, id)) = *top;
            match current(id) {
                Some(now) if now == key => return Some((key, id)),
                Some(now) if now > key => top.0.0 = now,
                // No member, or one that came back with a lower key, and an entry of its own.
                _ => drop(PeekMut::pop(top)),
            }
        }
    }

    /// A key that is not greater than that of any member, if there are members.
    #[inline]
    pub fn bound(&self) -> Option<K> {
        self.heap.peek().map(|Reverse((key, _))| *key)
    }

    /// Lowers the keys of all members at once, by a function that keeps their order.
    pub fn lower(&mut self, lowered: impl Fn(K) -> K) {
        let mut entries = core::mem::take(&mut self.heap).into_vec();
        for Reverse((key, _)) in &mut entries {
            *key = lowered(*key);
        }
        self.heap = entries.into();
    }

    /// Heap memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.heap.capacity() * size_of::<Reverse<(K, u32)>>()
    }

    /// Checks every invariant of the heap, for these members.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self, members: impl Iterator<Item = (u32, K)>) {
        let mut entries: Vec<(u32, K)> =
            self.heap.iter().map(|&Reverse((key, id))| (id, key)).collect();
        entries.sort_unstable();
        for (member, key) in members {
            let first = entries.partition_point(|&(id, _)| id < member);
            let entry = entries.get(first).filter(|&&(id, _)| id == member);
            assert!(entry.is_some_and(|&(_, known)| known <= key), "no member is overrated");
        }
    }

    /// Makes room for another entry, and for few more.
    fn reserve_some(&mut self) {
        if self.heap.len() == self.heap.capacity() {
            self.heap.reserve_exact(self.heap.len() / 32 + 1);
        }
    }

    /// Leaves one entry, with the true key, for each member.
    #[cold]
    fn tidy(&mut self, current: impl Fn(u32) -> Option<K>) {
        let mut entries = core::mem::take(&mut self.heap).into_vec();
        entries.retain_mut(|Reverse((key, id))| {
            let now = current(*id);
            *key = now.unwrap_or(*key);
            now.is_some()
        });
        entries.sort_unstable();
        entries.dedup();
        self.heap = entries.into();
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn matches_a_scan(
            steps in prop::collection::vec((0_u32..6, 0_usize..40, 0_u32..9), 0..900),
            indexing in prop_oneof![Just(Indexing::Dense), Just(Indexing::Sparse)],
        ) {
            let mut heap = LazyHeap::new(indexing);
            // The true keys, told apart by their ids as users tell them apart by time.
            let mut keys: Vec<Option<(u32, u32)>> = vec![None; 40];
            for (step, id, amount) in steps {
                let known = keys[id];
                let number = u32::try_from(id).unwrap();
                match (step, known) {
                    (0, _) => keys[id] = None,
                    (1 | 2, Some((key, _))) => keys[id] = Some((key + amount, number)),
                    (3 | 4, None) => {
                        keys[id] = Some((amount, number));
                        let members = keys.iter().flatten().count();
                        heap.push(number, (amount, number), members, |id| keys[id as usize]);
                    }
                    _ => {
                        let least = keys.iter().flatten().min().copied();
                        prop_assert!(least.is_none_or(|least| heap.bound().unwrap() <= least));
                        let found = heap.least(|id| keys[id as usize]);
                        prop_assert_eq!(found, least.map(|key| (key, key.1)));
                    }
                }
                let members = (0..).zip(&keys).filter_map(|(id, key)| Some((id, (*key)?)));
                heap.assert_invariants(members);
                prop_assert!(heap.heap.len() <= 2 * keys.len() + MARGIN, "it does not grow on");
            }
        }
    }
}
