//! Training samples of a forest.

use alloc::vec::Vec;

use super::{CLASSES, class};

/// Rows of `F` features and the label of each.
#[derive(Clone, Debug, Default)]
pub struct Samples<const F: usize> {
    rows: Vec<[u8; F]>,
    labels: Vec<u32>,
}

impl<const F: usize> Samples<F> {
    /// The greatest label: the greatest [logarithm](super::log).
    pub const LABEL_MAX: u32 = super::log(u32::MAX);

    /// Create an empty set of samples.
    pub const fn new() -> Self {
        Self { rows: Vec::new(), labels: Vec::new() }
    }

    /// Return the features of a row, as the classes of their values.
    #[inline]
    pub fn row(values: [u32; F]) -> [u8; F] {
        const { assert!(CLASSES == 1 << u8::BITS, "a class is a byte") };
        values.map(class)
    }

    /// Adds a row with its label, at most [`LABEL_MAX`](Self::LABEL_MAX).
    pub fn push(&mut self, row: [u8; F], label: u32) {
        debug_assert!(label <= Self::LABEL_MAX, "a label is a logarithm");
        self.rows.push(row);
        self.labels.push(label);
    }

    /// Removes all samples and keeps their memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.labels.clear();
    }

    /// Return the number of samples.
    #[inline]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// `true` without samples.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Return the rows, in the order in which they were added.
    pub fn rows(&self) -> &[[u8; F]] {
        &self.rows
    }

    /// Return the label of each row.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Return the size of the heap memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<[u8; F]>() + self.labels.capacity() * size_of::<u32>()
    }
}
