//! Trees whose values add up to a prediction.

use alloc::vec::Vec;

use super::growth::{Growth, Settings};
use super::{CLASSES, Samples};

/// A sum of regression trees over rows of `F` features.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forest<const F: usize> {
    /// The mean of all labels, which the trees correct.
    base: i32,
    /// The nodes of all trees; the two children of a node lie side by side.
    nodes: Vec<Node>,
    /// The root of each tree.
    roots: Vec<u32>,
}

/// A node of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// Rows whose feature has a class up to `limit` go to the node `below`, others to the one after it.
    Split { feature: u8, limit: u8, below: u32 },
    /// Value that the tree adds to a prediction.
    Leaf(i32),
}

const _: () = assert!(size_of::<Node>() == 8, "update the `State` line of the module header");

impl<const F: usize> Forest<F> {
    /// Create a forest that predicts 0.
    pub const fn empty() -> Self {
        Self { base: 0, nodes: Vec::new(), roots: Vec::new() }
    }

    /// Fits a forest to samples. Each tree is grown on what the trees before it leave unexplained.
    ///
    /// # Panics
    /// If there are 2^32 samples or more.
    pub fn grow(samples: &Samples<F>, settings: &Settings) -> Self {
        const { assert!(F < CLASSES, "a feature is numbered by a byte") };
        let mut forest = Self::empty();
        if samples.is_empty() {
            return forest;
        }
        let mut growth = Growth::new(samples, settings);
        forest.base = growth.base();
        for _ in 0..settings.trees {
            let root = forest.nodes.len();
            if !growth.add_tree(&mut forest.nodes) {
                break;
            }
            forest.roots.push(u32::try_from(root).expect("a tree has few nodes"));
        }
        forest.nodes.shrink_to_fit();
        forest
    }

    /// Return the label that the forest expects of a row; at least 0.
    #[inline]
    pub fn predict(&self, row: &[u8; F]) -> u32 {
        let corrections = self.roots.iter().map(|&root| i64::from(self.value(root, row)));
        let label = i64::from(self.base) + corrections.sum::<i64>();
        u32::try_from(label.max(0)).unwrap_or(u32::MAX)
    }

    /// Return the size of the heap memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.roots.capacity() * size_of::<u32>()
    }

    /// Return the number of trees.
    pub fn trees(&self) -> usize {
        self.roots.len()
    }

    /// Return the value that one tree adds.
    #[inline]
    fn value(&self, root: u32, row: &[u8; F]) -> i32 {
        let mut node = root;
        loop {
            match self.nodes[node as usize] {
                Node::Leaf(value) => return value,
                Node::Split { feature, limit, below } => {
                    node = below + u32::from(row[usize::from(feature)] > limit);
                }
            }
        }
    }
}
