//! Many doubly linked lists over one set of ids.
//!
//! An id is a member of at most one list, so all lists share their links. Each list is a ring that
//! closes in a node of its own behind the ids; so no end is special.
//!
//! An id may carry a value, which lies beside its links: who follows a list to a member finds both in
//! one place.
//!
//! * State: 12 bytes per id, 16 bytes per list, and a value each.
//! * Cost: O(1) per change.

use alloc::vec;
use alloc::vec::Vec;

use crate::prefetch::prefetch;

/// Alignment to a line of the processor's cache, for types of a line's size that must not straddle
/// two.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct CacheLine;

/// The link of an id that is a member of no list.
const ABSENT: u32 = u32::MAX;

/// Lists over the ids from 0 to `ids - 1`, front to back. The state of an id is aligned like an `A`.
#[derive(Clone, Debug)]
pub struct Lists<T = (), A = ()> {
    /// Per id, then per list: its links, and the value of an id.
    nodes: Vec<Node<T, A>>,
    /// Per list: how many members it has.
    len: Vec<u32>,
    ids: u32,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    previous: u32,
    /// The list, or [`ABSENT`].
    list: u32,
}

/// The links of a member of no list.
const UNLINKED: Link = Link { next: ABSENT, previous: ABSENT, list: ABSENT };

/// Links first, so that what a value begins with is near them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Node<T, A> {
    alignment: [A; 0],
    link: Link,
    value: T,
}

impl Lists {
    /// Create `lists` empty lists over ids without values.
    ///
    /// # Panics
    /// If there are more than `u32::MAX` ids and lists together.
    pub fn new(ids: u32, lists: u32) -> Self {
        Self::with_values(ids, lists, ())
    }
}

impl<T, A> Lists<T, A> {
    /// Create `lists` empty lists over ids that each carry a value, initially `value`.
    ///
    /// # Panics
    /// If there are more than `u32::MAX` ids and lists together.
    pub fn with_values(ids: u32, lists: u32, value: T) -> Self
    where
        T: Clone,
        A: Clone,
    {
        let count = ids.checked_add(lists).expect("ids and lists can be counted");
        let mut nodes = vec![Node { alignment: [], link: UNLINKED, value }; count as usize];
        for list in 0..lists {
            let ring = ids + list;
            nodes[ring as usize].link = Link { next: ring, previous: ring, list };
        }
        Self { nodes, len: vec![0; lists as usize], ids }
    }

    /// Return the value that an id carries.
    #[inline]
    pub fn value(&self, id: u32) -> &T {
        &self.nodes[id as usize].value
    }

    /// Return the value that an id carries, for changes; its links are untouched.
    #[inline]
    pub fn value_mut(&mut self, id: u32) -> &mut T {
        &mut self.nodes[id as usize].value
    }

    /// Puts an id that is in no list at the front of one.
    #[inline]
    pub fn push_front(&mut self, list: u32, id: u32) {
        self.insert_behind(self.ids + list, list, id);
    }

    /// Puts an id that is in no list at the back of one.
    #[inline]
    pub fn push_back(&mut self, list: u32, id: u32) {
        self.insert_behind(self.link(self.ids + list).previous, list, id);
    }

    /// Puts an id that is in no list before a member, towards the front.
    #[inline]
    pub fn insert_before(&mut self, member: u32, id: u32) {
        let Link { previous, list, .. } = *self.link(member);
        debug_assert!(list != ABSENT, "the neighbour is a member");
        self.insert_behind(previous, list, id);
    }

    /// Puts an id that is in no list after a member, towards the back.
    #[inline]
    pub fn insert_after(&mut self, member: u32, id: u32) {
        let list = self.link(member).list;
        debug_assert!(list != ABSENT, "the neighbour is a member");
        self.insert_behind(member, list, id);
    }

    /// Takes a member out of its list.
    #[inline]
    pub fn remove(&mut self, id: u32) {
        let link = core::mem::replace(self.link_mut(id), UNLINKED);
        debug_assert!(link.list != ABSENT, "only a member can be taken out");
        self.link_mut(link.previous).next = link.next;
        self.link_mut(link.next).previous = link.previous;
        self.len[link.list as usize] -= 1;
    }

    /// Makes a member the front of its list.
    #[inline]
    pub fn move_to_front(&mut self, id: u32) {
        let list = self.link(id).list;
        self.remove(id);
        self.push_front(list, id);
    }

    /// Return the list that an id is in.
    #[inline]
    pub fn list_of(&self, id: u32) -> Option<u32> {
        Some(self.link(id).list).filter(|&list| list != ABSENT)
    }

    /// Return the first member of a list.
    #[inline]
    pub fn front(&self, list: u32) -> Option<u32> {
        self.member(self.link(self.ids + list).next)
    }

    /// Return the last member of a list.
    #[inline]
    pub fn back(&self, list: u32) -> Option<u32> {
        self.member(self.link(self.ids + list).previous)
    }

    /// Return the member before this one, towards the front.
    #[inline]
    pub fn before(&self, id: u32) -> Option<u32> {
        self.member(self.link(id).previous)
    }

    /// Return the member after this one, towards the back.
    #[inline]
    pub fn after(&self, id: u32) -> Option<u32> {
        self.member(self.link(id).next)
    }

    /// Return `true` if an id is in a list.
    #[inline]
    pub fn contains(&self, id: u32) -> bool {
        self.link(id).list != ABSENT
    }

    /// Return the number of members a list has.
    #[inline]
    pub fn len(&self, list: u32) -> u32 {
        self.len[list as usize]
    }

    /// Return `true` if a list has no member.
    #[inline]
    pub fn is_empty(&self, list: u32) -> bool {
        self.len(list) == 0
    }

    /// Return the members of a list, front to back.
    pub fn iter(&self, list: u32) -> impl Iterator<Item = u32> + '_ {
        core::iter::successors(self.front(list), |&id| self.after(id))
    }

    /// Asks the processor for the links of an id.
    #[inline]
    pub fn prefetch(&self, id: u32) {
        prefetch(&self.nodes, id as usize);
    }

    /// Return the size of the heap memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.nodes) + size_of_val(&*self.len)
    }

    /// Checks every invariant of the lists.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        let mut members = 0;
        for (list, &len) in (0_u32..).zip(&self.len) {
            let mut counted = 0;
            for id in self.iter(list) {
                let link = *self.link(id);
                assert_eq!(self.link(link.next).previous, id, "links go both ways");
                assert_eq!(link.list, list, "a member knows its list");
                assert!(counted < len, "a list is as long as it says, and closes");
                counted += 1;
            }
            assert_eq!(counted, len, "a list is as long as it says");
            members += counted as usize;
        }
        let linked = (0..self.ids).filter(|&id| self.contains(id)).count();
        assert_eq!(linked, members, "each member is in one list");
    }

    #[inline]
    fn insert_behind(&mut self, node: u32, list: u32, id: u32) {
        debug_assert!(!self.contains(id), "an id is in one list at most");
        let next = self.link(node).next;
        *self.link_mut(id) = Link { next, previous: node, list };
        self.link_mut(node).next = id;
        self.link_mut(next).previous = id;
        self.len[list as usize] += 1;
    }

    #[inline]
    fn link(&self, node: u32) -> &Link {
        &self.nodes[node as usize].link
    }

    #[inline]
    fn link_mut(&mut self, node: u32) -> &mut Link {
        &mut self.nodes[node as usize].link
    }

    /// Return the node, unless it is where a list closes.
    #[inline]
    fn member(&self, node: u32) -> Option<u32> {
        (node < self.ids).then_some(node)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lists_are_deques_that_share_their_members(
            steps in prop::collection::vec((0..6_u32, 0..3_u32, 0..8_u32), 0..200),
        ) {
            let mut lists = Lists::new(8, 3);
            let mut deques = [const { VecDeque::<u32>::new() }; 3];
            for (step, list, id) in steps {
                let home = (0_u32..).zip(&deques).find(|(_, deque)| deque.contains(&id));
                let home = home.map(|(home, _)| home);
                if let Some(home) = home {
                    deques[home as usize].retain(|&other| other != id);
                }
                match (step, home) {
                    (0, None) => {
                        lists.push_front(list, id);
                        deques[list as usize].push_front(id);
                    }
                    (1, None) => {
                        lists.push_back(list, id);
                        deques[list as usize].push_back(id);
                    }
                    (4 | 5, None) if !deques[list as usize].is_empty() => {
                        let deque = &mut deques[list as usize];
                        let index = id as usize % deque.len();
                        let member = deque[index];
                        if step == 4 {
                            lists.insert_before(member, id);
                            deque.insert(index, id);
                        } else {
                            lists.insert_after(member, id);
                            deque.insert(index + 1, id);
                        }
                    }
                    (2, Some(home)) => {
                        lists.move_to_front(id);
                        deques[home as usize].push_front(id);
                    }
                    (_, Some(_)) => lists.remove(id),
                    (_, None) => {}
                }
                lists.assert_invariants();
                for (list, deque) in (0_u32..).zip(&deques) {
                    prop_assert!(deque.iter().all(|&id| lists.list_of(id) == Some(list)));
                    prop_assert!(lists.iter(list).eq(deque.iter().copied()));
                    prop_assert_eq!(lists.front(list), deque.front().copied());
                    prop_assert_eq!(lists.back(list), deque.back().copied());
                    prop_assert_eq!(lists.len(list) as usize, deque.len());
                    for (index, &id) in deque.iter().enumerate() {
                        let before = index.checked_sub(1).map(|before| deque[before]);
                        prop_assert_eq!(lists.before(id), before);
                        prop_assert_eq!(lists.after(id), deque.get(index + 1).copied());
                    }
                }
            }
        }
    }
}
