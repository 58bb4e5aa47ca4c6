//! Executable specifications: small, slow, and written from the sheets, not from the policies.
//!
//! Tiers are vectors with the oldest page first. Specifications know only tiers that can hold a
//! page; whoever compares puts the empty ones back. A write is a read, as all copies are clean.

mod orders;
mod promote;
mod stacks;

pub(crate) use orders::{Demote, Inclusive, MqN};
pub(crate) use promote::Promote;
pub(crate) use stacks::{HintK, Ulc};

/// What a read does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The tier that held the page; one past the last cache is the disk.
    pub(crate) found: usize,
    /// The tier that answered.
    pub(crate) served: usize,
}

/// A specification that can be stepped.
pub(crate) trait Model {
    fn read(&mut self, page: u32) -> Outcome;
    /// The pages of each tier, in any order.
    fn held(&self) -> Vec<Vec<u32>>;
    /// Copies from one cache to another so far.
    fn moves(&self) -> u64;
    /// The tiers from the fastest, each with its pages, the oldest first.
    fn state(&self) -> String {
        let tiers = self.held().into_iter().map(|pages| {
            let pages: Vec<String> = pages.iter().map(u32::to_string).collect();
            pages.join(" ")
        });
        tiers.collect::<Vec<_>>().join(" | ")
    }
}

/// The first tier that holds a page, or the number of tiers.
fn find(tiers: &[Vec<u32>], page: u32) -> usize {
    tiers.iter().position(|tier| tier.contains(&page)).unwrap_or(tiers.len())
}

/// Takes a page out of a list, if it is there.
fn take(list: &mut Vec<u32>, page: u32) {
    list.retain(|&listed| listed != page);
}
