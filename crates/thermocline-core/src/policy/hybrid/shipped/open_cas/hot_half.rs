//! Lists of which the first half is hot: what is hit there stays where it is.
//!
//! * Source: Open CAS Framework, `src/ocf_lru.c`, by a description of its rules.
//! * State: 16 bytes per entry.
//! * Cost: O(1).
//! * Deviations: one list in place of 32, without partitions.

use crate::queue::Lists;

/// Lists over the same entries, the one that came last in front.
#[derive(Clone, Debug)]
pub(super) struct HotHalves<const LISTS: usize> {
    /// `true` if each entry is in the hot half of its list.
    lists: Lists<bool>,
    halves: [Half; LISTS],
}

/// The first half of a list.
#[derive(Clone, Copy, Debug, Default)]
struct Half {
    len: u32,
    last: Option<u32>,
}

impl<const LISTS: usize> HotHalves<LISTS> {
    pub(super) fn new(entries: u32) -> Self {
        let lists = u32::try_from(LISTS).expect("lists are few");
        Self { lists: Lists::with_values(entries, lists, false), halves: [Half::default(); LISTS] }
    }

    /// Return the number of entries of a list.
    pub(super) fn len(&self, list: u32) -> u32 {
        self.lists.len(list)
    }

    /// Return the list of an entry.
    pub(super) fn list_of(&self, entry: u32) -> Option<u32> {
        self.lists.list_of(entry)
    }

    /// Return the entry that leaves first.
    pub(super) fn tail(&self, list: u32) -> Option<u32> {
        self.lists.back(list)
    }

    /// Return the entry before one, which leaves after it.
    pub(super) fn before(&self, entry: u32) -> Option<u32> {
        self.lists.before(entry)
    }

    /// Return the entries of a list, the one that leaves last in front.
    pub(super) fn iter(&self, list: u32) -> impl Iterator<Item = u32> + '_ {
        self.lists.iter(list)
    }

    /// Puts an entry at the head of a list.
    pub(super) fn push(&mut self, list: u32, entry: u32) {
        self.lists.push_front(list, entry);
        *self.lists.value_mut(entry) = true;
        let half = &mut self.halves[list as usize];
        half.len += 1;
        half.last = half.last.or(Some(entry));
        self.balance(list);
    }

    /// Takes an entry out of its list.
    pub(super) fn remove(&mut self, entry: u32) {
        let list = self.list_of(entry).expect("only an entry of a list is taken out");
        if *self.lists.value(entry) {
            let before = self.lists.before(entry);
            let half = &mut self.halves[list as usize];
            half.len -= 1;
            if half.last == Some(entry) {
                half.last = before;
            }
        }
        self.lists.remove(entry);
        self.balance(list);
    }

    /// Notes a hit: an entry of the cold half becomes the head.
    pub(super) fn hit(&mut self, entry: u32) {
        if !*self.lists.value(entry) {
            let list = self.list_of(entry).expect("only an entry of a list is hit");
            self.remove(entry);
            self.push(list, entry);
        }
    }

    /// Makes the first half of a list hot again, after one entry came or went.
    fn balance(&mut self, list: u32) {
        // One entry came or went, so the half is wrong by one entry at most.
        let target = self.lists.len(list) / 2;
        let Half { len, last: coldest } = self.halves[list as usize];
        if len > target {
            let coldest = coldest.expect("a hot half has a last entry");
            *self.lists.value_mut(coldest) = false;
            self.halves[list as usize] = Half { len: len - 1, last: self.lists.before(coldest) };
        } else if len < target {
            let next = match coldest {
                Some(coldest) => self.lists.after(coldest),
                None => self.lists.front(list),
            };
            let next = next.expect("a cold half follows");
            *self.lists.value_mut(next) = true;
            self.halves[list as usize] = Half { len: len + 1, last: Some(next) };
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.lists.memory_bytes()
    }

    pub(super) fn assert_invariants(&self) {
        self.lists.assert_invariants();
        for (list, half) in (0..).zip(&self.halves) {
            assert_eq!(half.len, self.len(list) / 2, "half of a list is hot");
            for (place, entry) in self.iter(list).enumerate() {
                let is_hot = place < half.len as usize;
                assert_eq!(*self.lists.value(entry), is_hot, "the first half is hot");
                assert!(place + 1 != half.len as usize || half.last == Some(entry));
            }
        }
    }
}
