//! The queue of smq: entries in levels, which change places on a hit, and are spread out again now and
//! then so that each level holds about as many.
//!
//! * Source: Linux, `dm-cache-policy-smq.c`, by a description of its rules.
//! * State: 12 bytes per entry, 20 per level.
//! * Cost: O(levels) to find an entry or to make room; spreading costs O(levels) per entry that moves.
//! * Deviations: none.

use alloc::vec;
use alloc::vec::Vec;

use crate::queue::Lists;

/// The two marks of a level that part its old entries from its new ones.
const SENTINELS: u32 = 2;

/// Entries in levels, the oldest of each level first.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    /// The entries, then the sentinels of each level.
    lists: Lists,
    entries: u32,
    height: u32,
    /// The number of real entries.
    len: u32,
    sentinels: Sentinels,
    /// Index of each level's newer sentinel.
    newer: u32,
    /// Number of entries that the highest levels share, and number of these levels.
    top: Top,
    /// Per level, how many entries it should hold.
    targets: Vec<u32>,
    /// The number of entries that the targets were made for.
    targets_of: Option<u32>,
}

/// Effect of sentinels on an entry that another displaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sentinels {
    /// No sentinels.
    None,
    /// The entry goes to the new end.
    Plain,
    /// The entry keeps its place among the sentinels.
    KeepPlace,
}

/// The levels that are to hold the hottest entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Top {
    pub(super) levels: u32,
    pub(super) entries: u32,
}

impl Top {
    pub(super) const NONE: Self = Self { levels: 0, entries: 0 };
}

impl Levels {
    pub(super) fn new(entries: u32, levels: u32, sentinels: Sentinels, top: Top) -> Self {
        let marks = if sentinels == Sentinels::None { 0 } else { SENTINELS * levels };
        let mut lists = Lists::new(entries + marks, levels);
        for mark in 0..marks {
            lists.push_back(mark / SENTINELS, entries + mark);
        }
        let targets = vec![0; levels as usize];
        Self {
            lists,
            entries,
            height: levels,
            len: 0,
            sentinels,
            newer: 1,
            top,
            targets,
            targets_of: None,
        }
    }

    /// Return the number of levels.
    pub(super) const fn levels(&self) -> u32 {
        self.height
    }

    /// Return the number of entries.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn contains(&self, entry: u32) -> bool {
        self.lists.contains(entry)
    }

    /// Return the level of an entry.
    ///
    /// # Panics
    /// If it has none.
    pub(super) fn level(&self, entry: u32) -> u32 {
        self.lists.list_of(entry).expect("an entry of the queue has a level")
    }

    /// Appends a new entry to a level.
    pub(super) fn push(&mut self, level: u32, entry: u32) {
        self.lists.push_back(level, entry);
        self.len += 1;
    }

    /// Takes an entry out, and returns its level.
    pub(super) fn remove(&mut self, entry: u32) -> u32 {
        let level = self.level(entry);
        self.lists.remove(entry);
        self.len -= 1;
        level
    }

    /// Return the first entry of the lowest level below `below`. Unless sentinels are crossed, a
    /// level counts up to the first of them only.
    pub(super) fn peek(&self, below: u32, crosses_sentinels: bool) -> Option<u32> {
        (0..below).find_map(|level| {
            let first = self.lists.front(level)?;
            if crosses_sentinels {
                self.oldest(level)
            } else {
                self.is_real(first).then_some(first)
            }
        })
    }

    /// Moves an entry up after a hit. The oldest entry of the level where it arrives takes its place.
    pub(super) fn requeue(&mut self, entry: u32, extra: u32) {
        let level = self.level(entry);
        let target = (level + extra).min(self.height - 1);
        if target > level
            && let Some(displaced) = self.oldest(target)
        {
            let before = self.lists.iter(target).take_while(|&id| id != displaced).count();
            self.move_to(displaced, level);
            let newer = self.newer;
            let kept = match before {
                0 => Some(1 - newer),
                1 => Some(newer),
                _ => None,
            };
            if self.sentinels == Sentinels::KeepPlace
                && let Some(which) = kept
            {
                self.lists.remove(displaced);
                self.lists.insert_before(self.sentinel(level, which), displaced);
            }
        }
        self.move_to(entry, target);
    }

    /// Makes what is there now old: the older sentinel of each level goes to the new end.
    pub(super) fn age(&mut self) {
        self.newer = 1 - self.newer;
        for level in 0..self.height {
            let sentinel = self.sentinel(level, self.newer);
            self.move_to(sentinel, level);
        }
    }

    /// Spreads the entries over the levels.
    pub(super) fn redistribute(&mut self) {
        self.set_targets();
        // The lowest level that may hold entries above the one being filled.
        let mut source = 0;
        for level in 0..self.height - 1 {
            let target = self.targets[level as usize];
            source = source.max(level + 1);
            while self.len_of(level) < target {
                while source < self.height && self.len_of(source) == 0 {
                    source += 1;
                }
                if source == self.height {
                    break;
                }
                let entry = self.oldest(source).expect("a level with entries has an oldest one");
                self.move_to(entry, level);
            }
            while self.len_of(level) > target {
                let entry = self.newest(level).expect("a level with entries has a newest one");
                self.move_to(entry, level + 1);
                source = level + 1;
            }
        }
    }

    /// Return all entries, those of the lowest level first.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.height).flat_map(|level| self.lists.iter(level)).filter(|&id| self.is_real(id))
    }

    fn set_targets(&mut self) {
        if self.targets_of.replace(self.len) == Some(self.len) {
            return;
        }
        let (below, top) = self.targets.split_at_mut((self.height - self.top.levels) as usize);
        share(self.len.saturating_sub(self.top.entries), below);
        share(self.top.entries, top);
    }

    fn is_real(&self, id: u32) -> bool {
        id < self.entries
    }

    fn sentinel(&self, level: u32, which: u32) -> u32 {
        self.entries + level * SENTINELS + which
    }

    fn len_of(&self, level: u32) -> u32 {
        let marks = if self.sentinels == Sentinels::None { 0 } else { SENTINELS };
        self.lists.len(level) - marks
    }

    fn oldest(&self, level: u32) -> Option<u32> {
        self.lists.iter(level).find(|&id| self.is_real(id))
    }

    fn newest(&self, level: u32) -> Option<u32> {
        let mut id = self.lists.back(level)?;
        while !self.is_real(id) {
            id = self.lists.before(id)?;
        }
        Some(id)
    }

    fn move_to(&mut self, id: u32, level: u32) {
        self.lists.remove(id);
        self.lists.push_back(level, id);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.lists.memory_bytes() + size_of_val(&*self.targets)
    }

    pub(super) fn assert_invariants(&self) {
        self.lists.assert_invariants();
        assert_eq!(self.iter().count(), self.len as usize, "entries are counted");
        if self.sentinels != Sentinels::None {
            for level in 0..self.height {
                let marks: Vec<u32> =
                    self.lists.iter(level).filter(|&id| !self.is_real(id)).collect();
                let expected =
                    [1 - self.newer, self.newer].map(|which| self.sentinel(level, which));
                assert_eq!(marks, expected, "each level has its two sentinels, the older first");
            }
        }
    }
}

/// Shares entries among levels; the first ones get what is left over.
fn share(entries: u32, levels: &mut [u32]) {
    let Ok(count) = u32::try_from(levels.len()) else { return };
    for (level, target) in (0..).zip(levels) {
        *target = entries / count + u32::from(level < entries % count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worked example.
    #[test]
    fn entries_spread_over_the_levels() {
        let mut hotspots = Levels::new(200, 64, Sentinels::None, Top { levels: 8, entries: 16 });
        for entry in 0..130 {
            hotspots.push(0, entry);
        }
        hotspots.redistribute();
        let found: Vec<u32> = (0..64).map(|level| hotspots.len_of(level)).collect();
        assert_eq!(found, [vec![3; 2], vec![2; 62]].concat());
        hotspots.assert_invariants();
    }

    #[test]
    fn a_displaced_entry_keeps_its_place_among_the_sentinels() {
        for (sentinels, expected) in
            [(Sentinels::KeepPlace, [3, 2, 0]), (Sentinels::Plain, [3, 0, 2])]
        {
            let mut queue = Levels::new(5, 4, sentinels, Top::NONE);
            queue.push(1, 2);
            queue.push(0, 3);
            queue.age();
            queue.age();
            queue.push(0, 0);
            queue.push(0, 1);
            // 2 is older than both sentinels of level 1, and 1 newer than those of level 0.
            queue.requeue(1, 1);
            let level: Vec<u32> = queue.lists.iter(0).filter(|&id| id < 5).collect();
            assert_eq!(level, expected);
            assert_eq!((queue.level(1), queue.len()), (1, 4));
            queue.assert_invariants();
        }
    }
}
