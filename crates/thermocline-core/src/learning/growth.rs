//! Growth of a forest.
//!
//! Each leaf has a histogram: per feature and class, how many of its samples are there and what their
//! residuals add up to. The best split of a leaf follows from its histogram alone. A split scans the
//! smaller of the two new leaves; the other's histogram is the difference.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::forest::Node;
use super::{CLASSES, Samples};

/// Settings of a forest's growth.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Trees at most; fewer, if nothing is left to explain.
    pub trees: u32,
    /// Leaves of a tree at most.
    pub leaves: u32,
    /// Samples of a leaf at least.
    pub leaf_samples: u32,
    /// The share of a leaf's mean residual that its tree adds to predictions, in units of 2^-16; at most
    /// 2^16.
    pub learning_rate: u32,
}

/// Number and sum of the residuals of a leaf's samples that have one class of a feature.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    samples: u32,
    residuals: i64,
}

/// A leaf of the tree that grows.
#[derive(Clone, Debug)]
struct Leaf {
    /// Its node.
    node: usize,
    /// Its samples, as places in the order of samples.
    samples: Range<usize>,
    /// The sum of their residuals.
    residuals: i64,
    /// Its best split, if there is one.
    split: Option<Split>,
}

/// A way to split a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Split {
    /// Decrease of the sum of squared residuals, in units of 2^-16; at least 1.
    gain: u128,
    feature: u8,
    limit: u8,
    /// Samples on the lower side: their number and the sum of their residuals.
    below: (u32, i64),
}

/// The growth of a forest.
#[derive(Debug)]
pub(super) struct Growth<'a, const F: usize> {
    rows: &'a [[u8; F]],
    settings: &'a Settings,
    base: i32,
    /// Per sample: its label minus what the trees predict so far.
    residuals: Vec<i32>,
    /// The samples of each leaf, one leaf after the other.
    order: Vec<u32>,
    /// Per leaf: its histogram.
    histograms: Vec<[[Bucket; CLASSES]; F]>,
}

impl<'a, const F: usize> Growth<'a, F> {
    /// Create the state before the first tree, of at least one sample.
    pub(super) fn new(samples: &'a Samples<F>, settings: &'a Settings) -> Self {
        let labels = samples.labels();
        let count = u32::try_from(labels.len()).expect("samples are counted with 32 bits");
        let sum: u64 = labels.iter().map(|&label| u64::from(label)).sum();
        let base = whole(sum / u64::from(count));
        let residuals = labels.iter().map(|&label| whole(u64::from(label)) - base).collect();
        Self {
            rows: samples.rows(),
            settings,
            base,
            residuals,
            order: (0..count).collect(),
            histograms: Vec::new(),
        }
    }

    /// Return the mean of all labels.
    pub(super) fn base(&self) -> i32 {
        self.base
    }

    /// Appends the nodes of one more tree, unless no split is worth it.
    pub(super) fn add_tree(&mut self, nodes: &mut Vec<Node>) -> bool {
        let root = nodes.len();
        nodes.push(Node::Leaf(0));
        let samples = 0..self.order.len();
        let residuals = self.residuals.iter().map(|&residual| i64::from(residual)).sum();
        self.scan(0, samples.clone());
        let split = self.best_split(0, samples.len(), residuals);
        let mut leaves = vec![Leaf { node: root, samples, residuals, split }];
        // Growth leaf by leaf: the leaf with the greatest gain splits next, wherever it is in the
        // tree.
        while leaves.len() < self.settings.leaves as usize
            && let Some(widest) = widest(&leaves)
        {
            self.split(&mut leaves, widest, nodes);
        }
        if leaves.len() == 1 {
            nodes.truncate(root);
            return false;
        }
        for leaf in leaves {
            let value = self.value(&leaf);
            nodes[leaf.node] = Node::Leaf(value);
            for &sample in &self.order[leaf.samples] {
                // Gradient boosting of squared errors: the next tree fits the residuals that this
                // one leaves.
                self.residuals[sample as usize] -= value;
            }
        }
        true
    }

    /// Splits a leaf: it becomes the lower one, and the upper one is the last of all.
    fn split(&mut self, leaves: &mut Vec<Leaf>, lower_histogram: usize, nodes: &mut Vec<Node>) {
        let upper_histogram = leaves.len();
        let leaf = &mut leaves[lower_histogram];
        let Split { feature, limit, below, .. } = leaf.split.expect("it can be split");
        let first = nodes.len();
        nodes[leaf.node] = Node::Split {
            feature,
            limit,
            below: u32::try_from(first).expect("a forest has few nodes"),
        };
        nodes.extend([Node::Leaf(0); 2]);
        let middle = leaf.samples.start + below.0 as usize;
        self.partition(leaf.samples.clone(), usize::from(feature), limit);
        let mut upper = Leaf {
            node: first + 1,
            samples: middle..leaf.samples.end,
            residuals: leaf.residuals - below.1,
            split: None,
        };
        leaf.node = first;
        leaf.samples.end = middle;
        leaf.residuals = below.1;
        let is_lower_smaller = leaf.samples.len() < upper.samples.len();
        let smaller = if is_lower_smaller { &leaf.samples } else { &upper.samples };
        // Only the smaller side is scanned. The histogram of the larger one is the rest of the
        // leaf's.
        self.scan(upper_histogram, smaller.clone());
        self.subtract(lower_histogram, upper_histogram);
        if is_lower_smaller {
            self.histograms.swap(lower_histogram, upper_histogram);
        }
        leaf.split = self.best_split(lower_histogram, leaf.samples.len(), leaf.residuals);
        upper.split = self.best_split(upper_histogram, upper.samples.len(), upper.residuals);
        leaves.push(upper);
    }

    /// Brings the samples of the lower side to the front of their leaf's.
    fn partition(&mut self, samples: Range<usize>, feature: usize, limit: u8) {
        let mut lower = samples.start;
        for place in samples {
            if self.rows[self.order[place] as usize][feature] <= limit {
                // Leaves are ranges of one order, so a split moves samples within its own range and
                // allocates nothing.
                self.order.swap(place, lower);
                lower += 1;
            }
        }
    }

    /// Makes the histogram of some samples.
    fn scan(&mut self, histogram: usize, samples: Range<usize>) {
        if histogram == self.histograms.len() {
            self.histograms.push([[Bucket::default(); CLASSES]; F]);
        } else {
            self.histograms[histogram] = [[Bucket::default(); CLASSES]; F];
        }
        let buckets = &mut self.histograms[histogram];
        for &sample in &self.order[samples] {
            let residual = i64::from(self.residuals[sample as usize]);
            for (feature, &class) in buckets.iter_mut().zip(&self.rows[sample as usize]) {
                let bucket = &mut feature[usize::from(class)];
                bucket.samples += 1;
                bucket.residuals += residual;
            }
        }
    }

    /// Takes what one histogram counts out of another.
    fn subtract(&mut self, histogram: usize, part: usize) {
        let [whole, part] = self
            .histograms
            .get_disjoint_mut([histogram, part])
            .expect("two leaves have two histograms");
        for (whole, part) in whole.as_flattened_mut().iter_mut().zip(part.as_flattened()) {
            whole.samples -= part.samples;
            whole.residuals -= part.residuals;
        }
    }

    /// Return the split with the greatest gain; of several, the first by feature and class.
    fn best_split(&self, histogram: usize, samples: usize, residuals: i64) -> Option<Split> {
        let samples = u32::try_from(samples).expect("samples are counted with 32 bits");
        let leaf_samples = self.settings.leaf_samples.max(1);
        let mut best: Option<Split> = None;
        for (feature, classes) in (0_u8..).zip(&self.histograms[histogram]) {
            let mut below = (0, 0);
            for (limit, bucket) in (0_u8..=u8::MAX).zip(classes).filter(|row| row.1.samples > 0) {
                below = (below.0 + bucket.samples, below.1 + bucket.residuals);
                let above = (samples - below.0, residuals - below.1);
                // All further limits leave even fewer samples above.
                if above.0 < leaf_samples {
                    break;
                }
                if below.0 < leaf_samples {
                    continue;
                }
                let gain = gain(below, above);
                if gain > best.map_or(0, |best| best.gain) {
                    best = Some(Split { gain, feature, limit, below });
                }
            }
        }
        best
    }

    /// Return the value that a leaf adds to predictions: a share of its mean residual.
    fn value(&self, leaf: &Leaf) -> i32 {
        let samples = i64::try_from(leaf.samples.len()).expect("there are few");
        // The learning rate shrinks each tree's step, as in Friedman's gradient boosting; in whole
        // numbers, so that runs repeat on every platform.
        let value = leaf.residuals * i64::from(self.settings.learning_rate) / (samples << 16);
        i32::try_from(value).expect("a mean of residuals is no greater than they are")
    }
}

/// Return the leaf whose split has the greatest gain; of several, the first.
fn widest(leaves: &[Leaf]) -> Option<usize> {
    let gains = leaves.iter().enumerate().filter_map(|(leaf, Leaf { split, .. })| {
        split.map(|split| (split.gain, usize::MAX - leaf))
    });
    gains.max().map(|(_, from_end)| usize::MAX - from_end)
}

/// Return the decrease of the sum of squared residuals if both sides have their own mean, in units
/// of 2^-16: the square of the difference of the means, times a b / (a + b) for sides of a and b
/// samples.
fn gain(below: (u32, i64), above: (u32, i64)) -> u128 {
    let samples = [below.0, above.0].map(u64::from);
    let weight = ((samples[0] * samples[1]) << 16) / (samples[0] + samples[1]);
    // Whole numbers make the forest the same on every platform; means are rounded towards 0.
    let distance = (below.1 / i64::from(below.0)).abs_diff(above.1 / i64::from(above.0));
    u128::from(weight) * u128::from(distance * distance)
}

/// Return a label or a mean of labels, which 22 bits hold.
fn whole(label: u64) -> i32 {
    i32::try_from(label).expect("labels are logarithms")
}
