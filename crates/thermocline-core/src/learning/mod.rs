//! Gradient-boosted regression trees in whole numbers, for policies that learn from their accesses.
//!
//! A policy collects [`Samples`]: a row of features each, and the number that it wants to predict.
//! [`Forest::grow`] fits trees to them, and [`Forest::predict`] applies the trees to a new row.
//! Features are [classes](class) and labels are [logarithms](log), both in fixed point. All sums are
//! exact, so neither the order of the samples nor the machine changes a bit of the result.
//!
//! * Source: Friedman, *Greedy Function Approximation: A Gradient Boosting Machine*, Annals of
//!   Statistics 29(5), 2001, algorithm 2 (squared loss). Ke et al., *LightGBM: A Highly Efficient
//!   Gradient Boosting Decision Tree*, NIPS '17, algorithm 1 (histograms); its leaf-wise growth.
//! * State: a sample takes a byte per feature and 4 for its label; a tree takes 8 bytes per node.
//! * Cost: growing a tree of `n` samples with `f` features takes O(`n` `f` log leaves), and 256 `f`
//!   steps per leaf. A prediction takes one step per level of each tree.

mod forest;
mod growth;
mod logarithm;
mod samples;
#[cfg(test)]
mod tests;

pub use forest::Forest;
pub use growth::Settings;
pub use logarithm::{CLASSES, class, log, power};
pub use samples::Samples;
