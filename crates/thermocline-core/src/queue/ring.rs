//! Pages in the order in which they were written, in slots that are filled and freed in turn.
//!
//! A page that leaves, from wherever, leaves a hole, which is freed when its turn comes.
//!
//! * State: 4 bytes per page that exists, or, sparse, 6 per slot; 4 bytes and the value per slot, rounded
//!   up to a multiple of 4.
//! * Cost: O(1) per change, amortised where holes are squeezed out.

use alloc::collections::VecDeque;

use super::directory::{ABSENT, Directory, Places};
use crate::Ids;
use crate::PageId;

/// Content of a slot whose page left.
const HOLE: u32 = u32::MAX;
/// Distance from the front at which [`Ring::coming`] looks. It may find a hole: no page has its
/// number.
const AHEAD_SLOTS: usize = 8;
/// Slots are numbered on and on, modulo this.
const NUMBERS: u32 = ABSENT;

/// Slots from front to rear: each holds a page with a value, or is a hole.
#[derive(Clone, Debug)]
pub struct Ring<T> {
    slots: VecDeque<Slot<T>>,
    /// The number of the slot at the front.
    front: u32,
    /// The number of each page's slot.
    numbers: Directory,
    held: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot<T> {
    /// Its page, or [`HOLE`].
    page: u32,
    value: T,
}

impl<T: Default> Ring<T> {
    /// Create a ring without slots, and with room for `slots` of them.
    pub fn new(ids: Ids, slots: u32) -> Self {
        Self {
            slots: VecDeque::with_capacity(slots as usize),
            front: 0,
            numbers: Directory::new(ids, slots as usize),
            held: 0,
        }
    }

    /// Return the number of slots, holes included.
    #[inline]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Return the number of slots that hold a page.
    #[inline]
    pub fn len(&self) -> u32 {
        self.held
    }

    /// Return `true` if no slot holds a page.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Return the slot of a page, counted from the front, if it has one.
    #[inline]
    pub fn find(&self, page: PageId) -> Option<usize> {
        let number = self.numbers.find(page.0, page_of(&self.slots, self.front));
        (number != ABSENT).then(|| slot_at(number, self.front))
    }

    /// Return the value of a slot, which is that of its page.
    #[inline]
    pub fn value_mut(&mut self, slot: usize) -> &mut T {
        &mut self.slots[slot].value
    }

    /// Writes a page that has no slot to a new one at the rear.
    #[inline]
    pub fn push(&mut self, page: PageId, value: T) {
        debug_assert_eq!(self.find(page), None, "a page has one slot at most");
        let number = number_at(self.slots.len(), self.front);
        self.numbers.put(page.0, number, page_of(&self.slots, self.front));
        self.slots.push_back(Slot { page: page.0, value });
        self.held += 1;
    }

    /// Frees the slot at the front: returns its page with its value, unless it is a hole.
    ///
    /// # Panics
    /// If there is no slot.
    #[inline]
    pub fn pop(&mut self) -> Option<(PageId, T)> {
        let page = self.slots.front().expect("a ring is popped when it has slots").page;
        if page != HOLE {
            self.numbers.remove(page, page_of(&self.slots, self.front));
            self.held -= 1;
        }
        let Slot { page, value } = self.slots.pop_front()?;
        // Slots keep their numbers when the front moves, so no page's number has to be changed.
        self.front = number_at(1, self.front);
        (page != HOLE).then_some((PageId(page), value))
    }

    /// Return `true` if the slot at the front holds a page whose value is such.
    pub fn is_front(&self, is_such: impl FnOnce(&T) -> bool) -> bool {
        self.slots.front().is_some_and(|slot| slot.page != HOLE && is_such(&slot.value))
    }

    /// Return the page of a slot that will be popped soon, if there is one, which the processor may
    /// be asked for.
    #[inline]
    pub fn coming(&self) -> Option<PageId> {
        self.slots.get(AHEAD_SLOTS).map(|slot| PageId(slot.page))
    }

    /// Makes a hole of a page's slot, if it has one, and returns `true` if it had.
    #[inline]
    pub fn remove(&mut self, page: PageId) -> bool {
        self.take(page).is_some()
    }

    /// Makes a hole of a page's slot, if it has one, and returns its value.
    #[inline]
    pub fn take(&mut self, page: PageId) -> Option<T> {
        let slot = self.find(page)?;
        self.numbers.remove(page.0, page_of(&self.slots, self.front));
        self.held -= 1;
        let slot = &mut self.slots[slot];
        slot.page = HOLE;
        Some(core::mem::take(&mut slot.value))
    }

    /// Frees all holes.
    pub fn squeeze(&mut self) {
        self.slots.retain(|slot| slot.page != HOLE);
        let numbers = (0..).map(|slot| number_at(slot, self.front));
        self.numbers.refill(self.slots.iter().map(|slot| slot.page).zip(numbers));
    }

    /// Return the pages with their values, from front to rear.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (PageId, &mut T)> {
        let held = self.slots.iter_mut().filter(|slot| slot.page != HOLE);
        held.map(|slot| (PageId(slot.page), &mut slot.value))
    }

    /// Return the pages, from front to rear.
    pub fn iter(&self) -> impl Iterator<Item = PageId> + '_ {
        self.slots.iter().filter(|slot| slot.page != HOLE).map(|slot| PageId(slot.page))
    }

    /// Asks the processor for the slot of a page.
    #[inline]
    pub fn prefetch(&self, page: PageId) {
        self.numbers.prefetch(page.0);
    }

    /// Return the size of the heap memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<T>>() + self.numbers.memory_bytes()
    }

    /// Checks every invariant.
    ///
    /// # Panics
    /// If one is violated, with its name.
    pub fn assert_invariants(&self) {
        let mut held = 0;
        for (slot, &Slot { page, .. }) in self.slots.iter().enumerate() {
            if page != HOLE {
                held += 1;
                assert_eq!(self.find(PageId(page)), Some(slot), "the page points back");
            }
        }
        assert_eq!(held, self.held, "pages are counted");
        assert_eq!(self.numbers.count(), held as usize, "each page of the index has one slot");
    }
}

/// Counts a slot from the front.
#[inline]
const fn slot_at(number: u32, front: u32) -> usize {
    let slot = if number >= front { number - front } else { number + (NUMBERS - front) };
    slot as usize
}

/// Return the number of a slot that is counted from the front.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "numbers are below 2^32")]
const fn number_at(slot: usize, front: u32) -> u32 {
    // Slots are fewer than numbers.
    let number = front as u64 + slot as u64;
    (if number >= NUMBERS as u64 { number - NUMBERS as u64 } else { number }) as u32
}

/// Return the page of a slot, by its number.
#[inline]
fn page_of<T>(slots: &VecDeque<Slot<T>>, front: u32) -> impl Fn(u32) -> u32 + '_ {
    move |number| slots[slot_at(number, front)].page
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::Indexing;

    const PAGES: u32 = 12;

    proptest! {
        #[test]
        fn it_is_a_queue_with_holes(
            indexing in prop_oneof![Just(Indexing::Dense), Just(Indexing::Sparse)],
            front in prop_oneof![Just(0), NUMBERS - 20..NUMBERS],
            steps in prop::collection::vec((0..PAGES, 0_u8..8), 0..300),
        ) {
            let mut ring = Ring::new(Ids { pages: PAGES, indexing }, PAGES);
            ring.front = front;
            let mut model: VecDeque<Option<(PageId, u8)>> = VecDeque::new();
            for (page, action) in steps {
                let page = PageId(page);
                let slot = model.iter().position(|slot| slot.is_some_and(|slot| slot.0 == page));
                prop_assert_eq!(ring.find(page), slot);
                match action {
                    0 | 1 if !model.is_empty() => prop_assert_eq!(ring.pop(), model.pop_front().unwrap()),
                    2 => {
                        prop_assert_eq!(ring.remove(page), slot.is_some());
                        if let Some(slot) = slot {
                            model[slot] = None;
                        }
                    }
                    3 => {
                        ring.squeeze();
                        model.retain(Option::is_some);
                    }
                    _ => match slot {
                        Some(slot) => {
                            *ring.value_mut(slot) = action;
                            model[slot] = Some((page, action));
                        }
                        None => {
                            ring.push(page, action);
                            model.push_back(Some((page, action)));
                        }
                    },
                }
                ring.assert_invariants();
                prop_assert_eq!(ring.slots(), model.len());
                let held: Vec<_> = model.iter().flatten().copied().collect();
                prop_assert_eq!((ring.len() as usize, ring.is_empty()), (held.len(), held.is_empty()));
                prop_assert!(ring.iter().eq(held.iter().map(|slot| slot.0)));
                prop_assert!(ring.iter_mut().map(|(page, value)| (page, *value)).eq(held));
            }
        }
    }
}
