//! Finds where a bubble sort would stop, in a queue that need not be sorted.
//!
//! A page is moved forward past all pages that are not hotter, until one that is. Its hotness may
//! have fallen since it took its place, so the queue is not sorted, and that page can be anywhere
//! ahead. A randomised search tree over the places, which knows the greatest hotness of each
//! subtree, finds it without looking at the pages between.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, section 3.2.3; the
//!   tree: Aragon, Seidel, *Randomized Search Trees*, FOCS 1989.
//! * State: 32 bytes per frame.
//! * Cost: expected O(log n) per operation, whatever the order of the pages.
//! * Deviations: none; the paper's bubble sort finds the same place in O(n).

use alloc::vec;
use alloc::vec::Vec;

use crate::prefetch::prefetch;
use crate::random::SplitMix64;

/// No node.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    ahead: u32,
    behind: u32,
    parent: u32,
    /// A parent's is not less than its children's.
    priority: u32,
    hotness: f64,
    /// The greatest hotness of the subtree.
    hottest: f64,
}

/// Several queues over one set of frames, a frame in at most one of them.
#[derive(Clone, Debug)]
pub(super) struct Bubble {
    nodes: Vec<Node>,
    roots: Vec<u32>,
    /// Nodes visited so far, for tests of the cost.
    steps: u64,
}

impl Bubble {
    /// Create `queues` empty queues over frames from 0 to `frames - 1`.
    pub(super) fn new(frames: u32, queues: usize) -> Self {
        // The seed is fixed, so runs repeat; priorities shape only the tree, never the order of
        // pages.
        let mut random = SplitMix64::new(0);
        let node = |_| Node {
            ahead: NONE,
            behind: NONE,
            parent: NONE,
            #[expect(clippy::cast_possible_truncation, reason = "the low bits are as random")]
            priority: random.bits() as u32,
            hotness: 0.0,
            hottest: 0.0,
        };
        Self { nodes: (0..frames).map(node).collect(), roots: vec![NONE; queues], steps: 0 }
    }

    /// Return the last frame of a queue that is hotter than `hotness`.
    pub(super) fn last_hotter(&mut self, queue: usize, hotness: f64) -> Option<u32> {
        let root = self.roots[queue];
        (root != NONE && self.node(root).hottest > hotness).then(|| self.descend(root, hotness))
    }

    /// Return the last frame ahead of `frame` that is hotter than `hotness`.
    pub(super) fn last_hotter_ahead(&mut self, frame: u32, hotness: f64) -> Option<u32> {
        let mut id = frame;
        loop {
            let ahead = self.node(id).ahead;
            if ahead != NONE && self.node(ahead).hottest > hotness {
                return Some(self.descend(ahead, hotness));
            }
            loop {
                self.steps += 1;
                let parent = self.node(id).parent;
                if parent == NONE {
                    return None;
                }
                let was_behind = self.node(parent).behind == id;
                id = parent;
                if was_behind {
                    break;
                }
            }
            if self.node(id).hotness > hotness {
                return Some(id);
            }
        }
    }

    /// Puts a frame that is in no queue right behind another, or at the head.
    pub(super) fn insert(&mut self, queue: usize, ahead: Option<u32>, frame: u32, hotness: f64) {
        *self.node_mut(frame) = Node {
            ahead: NONE,
            behind: NONE,
            parent: NONE,
            hotness,
            hottest: hotness,
            ..*self.node(frame)
        };
        let behind = ahead.map_or(self.roots[queue], |ahead| self.node(ahead).behind);
        match (behind, ahead) {
            (NONE, None) => self.roots[queue] = frame,
            (NONE, Some(ahead)) => {
                self.node_mut(ahead).behind = frame;
                self.node_mut(frame).parent = ahead;
            }
            (mut id, _) => {
                while self.node(id).ahead != NONE {
                    self.steps += 1;
                    id = self.node(id).ahead;
                }
                self.node_mut(id).ahead = frame;
                self.node_mut(frame).parent = id;
            }
        }
        while let parent = self.node(frame).parent
            && parent != NONE
            && self.node(parent).priority < self.node(frame).priority
        {
            self.rotate_up(queue, frame);
        }
        self.update_upwards(self.node(frame).parent);
    }

    /// Gives a frame another hotness, and leaves it where it is.
    pub(super) fn set_hotness(&mut self, frame: u32, hotness: f64) {
        self.node_mut(frame).hotness = hotness;
        self.update_upwards(frame);
    }

    /// Takes a frame out of its queue.
    pub(super) fn remove(&mut self, queue: usize, frame: u32) {
        loop {
            let Node { ahead, behind, .. } = *self.node(frame);
            let child = match (ahead, behind) {
                (NONE, NONE) => break,
                (NONE, only) | (only, NONE) => only,
                (one, other) if self.node(one).priority > self.node(other).priority => one,
                (_, other) => other,
            };
            self.rotate_up(queue, child);
        }
        let parent = self.node(frame).parent;
        self.replace_child(queue, parent, frame, NONE);
        self.node_mut(frame).parent = NONE;
        self.update_upwards(parent);
    }

    /// Asks the processor for the node of a frame.
    #[inline]
    pub(super) fn prefetch(&self, frame: u32) {
        prefetch(&self.nodes, frame as usize);
    }

    /// Return the size of the heap memory, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.nodes) + size_of_val(&*self.roots)
    }

    /// Checks that a queue holds these frames in this order, and that the tree is in order.
    pub(super) fn assert_invariants(
        &self,
        queue: usize,
        frames: impl Iterator<Item = u32>,
        hotness_of: impl Fn(u32) -> f64,
    ) {
        let mut order = vec![];
        let (mut id, mut path) = (self.roots[queue], vec![]);
        while id != NONE || !path.is_empty() {
            while id != NONE {
                path.push(id);
                id = self.node(id).ahead;
            }
            let next = path.pop().expect("the path is not empty");
            order.push(next);
            id = self.node(next).behind;
        }
        assert!(order.iter().copied().eq(frames), "the tree has the order of the queue");
        for &id in &order {
            let node = self.node(id);
            assert_eq!(node.hotness.to_bits(), hotness_of(id).to_bits(), "hotness is known");
            assert_eq!(node.hottest.to_bits(), self.hottest(id).to_bits(), "and the greatest");
            for child in [node.ahead, node.behind].into_iter().filter(|&child| child != NONE) {
                assert_eq!(self.node(child).parent, id, "links go both ways");
                assert!(self.node(child).priority <= node.priority, "a heap by priority");
            }
        }
    }

    fn node(&self, id: u32) -> &Node {
        &self.nodes[id as usize]
    }

    fn node_mut(&mut self, id: u32) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    /// Return the last hotter frame of a subtree that has one.
    fn descend(&mut self, mut id: u32, hotness: f64) -> u32 {
        loop {
            self.steps += 1;
            let Node { ahead, behind, hotness: own, .. } = *self.node(id);
            // The last hotter page is wanted, so the part nearest to the tail is searched first.
            if behind != NONE && self.node(behind).hottest > hotness {
                id = behind;
            } else if own > hotness {
                return id;
            } else {
                id = ahead;
            }
        }
    }

    /// Return the greatest hotness of a subtree, from its children's.
    fn hottest(&self, id: u32) -> f64 {
        let node = self.node(id);
        let children = [node.ahead, node.behind].into_iter().filter(|&child| child != NONE);
        children.fold(node.hotness, |hottest, child| hottest.max(self.node(child).hottest))
    }

    fn update_upwards(&mut self, mut id: u32) {
        while id != NONE {
            self.steps += 1;
            let hottest = self.hottest(id);
            let node = self.node_mut(id);
            // Nothing above can change either.
            if node.hottest.to_bits() == hottest.to_bits() {
                break;
            }
            node.hottest = hottest;
            id = node.parent;
        }
    }

    /// Exchanges a node and its parent, and keeps the order.
    fn rotate_up(&mut self, queue: usize, id: u32) {
        self.steps += 1;
        let parent = self.node(id).parent;
        let above = self.node(parent).parent;
        let moved = if self.node(parent).ahead == id {
            let moved = core::mem::replace(&mut self.node_mut(id).behind, parent);
            self.node_mut(parent).ahead = moved;
            moved
        } else {
            let moved = core::mem::replace(&mut self.node_mut(id).ahead, parent);
            self.node_mut(parent).behind = moved;
            moved
        };
        if moved != NONE {
            self.node_mut(moved).parent = parent;
        }
        self.replace_child(queue, above, parent, id);
        self.node_mut(id).parent = above;
        self.node_mut(parent).parent = id;
        self.node_mut(parent).hottest = self.hottest(parent);
        self.node_mut(id).hottest = self.hottest(id);
    }

    fn replace_child(&mut self, queue: usize, parent: u32, child: u32, next: u32) {
        if parent == NONE {
            self.roots[queue] = next;
        } else if self.node(parent).ahead == child {
            self.node_mut(parent).ahead = next;
        } else {
            self.node_mut(parent).behind = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Inserts at the place where a bubble sort from the tail would stop.
    fn bubble_in(bubble: &mut Bubble, frame: u32, hotness: f64) {
        let ahead = bubble.last_hotter(0, hotness);
        bubble.insert(0, ahead, frame, hotness);
    }

    proptest! {
        #[test]
        fn pages_stand_where_the_bubble_sort_puts_them(
            steps in prop::collection::vec((0_u32..12, 0_u8..6, any::<bool>()), 0..300),
        ) {
            let mut bubble = Bubble::new(12, 1);
            let mut model: Vec<(u32, f64)> = vec![];
            for (frame, hotness, is_hit) in steps {
                let hotness = f64::from(hotness);
                let place = model.iter().position(|entry| entry.0 == frame);
                let hotter = |entry: &(u32, f64)| entry.1 > hotness;
                match place {
                    None => {
                        bubble_in(&mut bubble, frame, hotness);
                        let place = model.iter().rposition(hotter).map_or(0, |place| place + 1);
                        model.insert(place, (frame, hotness));
                    }
                    Some(place) if is_hit => {
                        let ahead = bubble.last_hotter_ahead(frame, hotness);
                        if ahead == place.checked_sub(1).map(|before| model[before].0) {
                            bubble.set_hotness(frame, hotness);
                        } else {
                            bubble.remove(0, frame);
                            bubble.insert(0, ahead, frame, hotness);
                        }
                        model.remove(place);
                        let place = model[..place].iter().rposition(hotter);
                        model.insert(place.map_or(0, |place| place + 1), (frame, hotness));
                    }
                    Some(place) => {
                        bubble.remove(0, frame);
                        model.remove(place);
                    }
                }
                let hotness_of = |id| model.iter().find(|entry| entry.0 == id).unwrap().1;
                bubble.assert_invariants(0, model.iter().map(|entry| entry.0), hotness_of);
            }
        }
    }

    /// The worst case of the plain bubble sort: the coldest page of a sorted queue becomes the
    /// hottest, again and again, so that each hit passes all the others.
    #[test]
    fn the_worst_case_of_a_bubble_sort_takes_few_steps() {
        const PAGES: u32 = 1 << 14;
        let mut bubble = Bubble::new(PAGES, 1);
        let mut ahead = None;
        for frame in 0..PAGES {
            bubble.insert(0, ahead, frame, f64::from(PAGES - frame));
            ahead = Some(frame);
        }
        let before = bubble.steps;
        for hit in 0..PAGES {
            let frame = PAGES - 1 - hit;
            let hotness = f64::from(PAGES + 1 + hit);
            assert_eq!(bubble.last_hotter_ahead(frame, hotness), None, "it passes all others");
            bubble.remove(0, frame);
            bubble.insert(0, None, frame, hotness);
        }
        let steps = (bubble.steps - before) / u64::from(PAGES);
        assert!(steps < 8 * u64::from(PAGES.ilog2()), "{steps} steps per hit, not {PAGES}");
    }
}
