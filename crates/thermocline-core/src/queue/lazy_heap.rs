//! A heap that need not be told when a key grows or a member leaves.
//!
//! Keys live with the user of the heap; the heap has a key for each member that is not greater. The
//! top is compared with the truth: a key that has grown is put where it belongs, and a page that is not a
//! member is dropped. So a change costs nothing until it matters, and no index of places must follow
//! the heap's exchanges.
//!
//! The keys of two members differ, so entries are compared by their keys alone.
//!
//! * State: 4 bytes plus the key for each entry, of which there are at most twice the members, or,
//!   sparse, 1.25 times; a bit per id.
//! * Cost: amortised O(log n) per push.

use alloc::collections::BinaryHeap;
use alloc::collections::binary_heap::PeekMut;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};

use crate::Indexing;

/// Entries beyond the members' share, so that a small heap is not tidied at each step.
const MARGIN: usize = 64;

/// A time, or bits that order as a number, which aligns to 4 bytes: so an entry with a 32-bit id needs
/// no padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(Rust, packed(4))]
pub struct Stamp(pub u64);

/// A count, and among equal counts a time or the like. As a key, it is compared without branches, of
/// which a processor could not guess the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed(4))]
pub struct Rank {
    /// First part of the key to be compared.
    pub count: u32,
    /// Second part, compared where counts are equal.
    pub stamp: Stamp,
}

impl Rank {
    #[inline]
    const fn bits(self) -> u128 {
        let stamp = self.stamp;
        (self.count as u128) << u64::BITS | stamp.0 as u128
    }
}

impl Ord for Rank {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.bits().cmp(&other.bits())
    }
}

impl PartialOrd for Rank {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn lt(&self, other: &Self) -> bool {
        self.bits() < other.bits()
    }

    #[inline]
    fn le(&self, other: &Self) -> bool {
        self.bits() <= other.bits()
    }

    #[inline]
    fn gt(&self, other: &Self) -> bool {
        self.bits() > other.bits()
    }

    #[inline]
    fn ge(&self, other: &Self) -> bool {
        self.bits() >= other.bits()
    }
}

/// An id with a key, by which alone it is compared.
#[derive(Clone, Copy, Debug)]
pub struct Entry<K> {
    /// Key of the entry; not greater than the key of the id, if that is a member of the heap.
    pub key: K,
    /// The id.
    pub id: u32,
}

const _: () = assert!(size_of::<Entry<Rank>>() == 16, "entries have no padding");

impl<K: Ord> PartialEq for Entry<K> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<K: Ord> Eq for Entry<K> {}

impl<K: Ord> Ord for Entry<K> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl<K: Ord> PartialOrd for Entry<K> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn lt(&self, other: &Self) -> bool {
        self.key < other.key
    }

    #[inline]
    fn le(&self, other: &Self) -> bool {
        self.key <= other.key
    }

    #[inline]
    fn gt(&self, other: &Self) -> bool {
        self.key > other.key
    }

    #[inline]
    fn ge(&self, other: &Self) -> bool {
        self.key >= other.key
    }
}

/// Ids ordered by keys that may grow unseen, least first.
#[derive(Clone, Debug)]
pub struct LazyHeap<K> {
    indexing: Indexing,
    /// Heap that has for each member an entry with a key not greater than its own, and other
    /// entries.
    heap: BinaryHeap<Reverse<Entry<K>>>,
    /// A bit per id, all 0 but while the heap is tidied.
    seen: Vec<u64>,
}

impl<K: Ord + Copy> LazyHeap<K> {
    /// Create an empty heap; with sparse indexing it is tidied more often and takes no more memory
    /// than its entries.
    pub const fn new(indexing: Indexing) -> Self {
        Self { indexing, heap: BinaryHeap::new(), seen: Vec::new() }
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
        self.heap.push(Reverse(Entry { key, id }));
        if self.heap.len() > entries_max {
            self.tidy(current);
        }
    }

    /// Return the member with the least key; `current` says what the key of an id is, or that it is
    /// no member.
    pub fn least(&mut self, current: impl Fn(u32) -> Option<K>) -> Option<(K, u32)> {
        loop {
            let mut top = self.heap.peek_mut()?;
            let Reverse(Entry { key, id }) = *top;
            match current(id) {
                Some(now) if now == key => return Some((key, id)),
                // Sinking the top costs O(log n), but only where a grown key reaches the top at
                // all.
                Some(now) if now > key => top.0.key = now,
                // No member, or one that came back with a lower key, and an entry of its own.
                _ => drop(PeekMut::pop(top)),
            }
        }
    }

    /// Return a key that is not greater than that of any member, if there are members.
    #[inline]
    pub fn bound(&self) -> Option<K> {
        self.heap.peek().map(|Reverse(entry)| entry.key)
    }

    /// Lowers the keys of all members at once, by a function that keeps their order.
    pub fn lower(&mut self, lowered: impl Fn(K) -> K) {
        let mut entries = core::mem::take(&mut self.heap).into_vec();
        for Reverse(entry) in &mut entries {
            entry.key = lowered(entry.key);
        }
        // The order is kept, so building the heap again moves nothing.
        self.heap = entries.into();
    }

    /// Return the size of the heap memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let seen_bytes = self.seen.capacity() * size_of::<u64>();
        self.heap.capacity() * size_of::<Reverse<Entry<K>>>() + seen_bytes
    }

    /// Checks every invariant of the heap, for these members.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self, members: impl Iterator<Item = (u32, K)>) {
        let mut entries: Vec<(u32, K)> =
            self.heap.iter().map(|Reverse(entry)| (entry.id, entry.key)).collect();
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
        let words = entries.iter().map(|Reverse(entry)| entry.id as usize / 64 + 1).max();
        let words = words.unwrap_or(0);
        if self.seen.len() < words {
            self.seen.reserve_exact(words - self.seen.len());
            self.seen.resize(words, 0);
        }
        entries.retain_mut(|Reverse(entry)| {
            let Some(now) = current(entry.id) else { return false };
            entry.key = now;
            let (word, bit) = (&mut self.seen[entry.id as usize / 64], 1 << (entry.id % 64));
            let is_first = *word & bit == 0;
            *word |= bit;
            is_first
        });
        self.seen.fill(0);
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
