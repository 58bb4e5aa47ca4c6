//! Changes to a large table that wait until the processor has the memory that they go to.
//!
//! A count that is spread over more memory than the processor's cache holds takes longer to reach than
//! to find. Its place is asked for when it is known, and changed when some others have come.

use std::mem;

/// Changes that wait together: enough to overlap all the misses a core can have.
const WAITING: usize = 32;

/// The changes that wait, the oldest of which goes when another comes.
#[derive(Debug)]
pub struct Waiting<T> {
    items: [T; WAITING],
    oldest: usize,
}

impl<T: Copy> Waiting<T> {
    /// Create a queue of the maximum number of changes, all of which change `nothing`.
    pub const fn new(nothing: T) -> Self {
        Self { items: [nothing; WAITING], oldest: 0 }
    }

    /// Queue a change whose memory was just prefetched; return the one that has waited longest.
    #[inline]
    pub const fn put(&mut self, item: T) -> T {
        let oldest = mem::replace(&mut self.items[self.oldest], item);
        self.oldest = (self.oldest + 1) % WAITING;
        oldest
    }

    /// Return the changes that still wait, the oldest first.
    pub fn into_items(self) -> impl Iterator<Item = T> {
        let (newer, older) = self.items.split_at(self.oldest);
        let items: Vec<T> = older.iter().chain(newer).copied().collect();
        items.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_changes_come_out_in_order() {
        for count in [0, 1, WAITING - 1, WAITING, 3 * WAITING + 5] {
            let mut waiting = Waiting::new(None);
            let mut out: Vec<usize> =
                (0..count).filter_map(|item| waiting.put(Some(item))).collect();
            out.extend(waiting.into_items().flatten());
            assert!(out.into_iter().eq(0..count), "{count}");
        }
    }
}
