//! Executable specifications: small, slow, and written from the papers, not from the policies.
//!
//! Tiers are vectors with the oldest page first: the first tier of each client, then those that all
//! share. Specifications know only tiers that can hold a page; the comparison puts the empty ones
//! back. A write is a read, as all copies are clean, after which other first tiers forget the page.

mod orders;
mod promote;
mod stacks;

pub(crate) use orders::{Chain, Demote, Inclusive, MqN};
pub(crate) use promote::Promote;
pub(crate) use stacks::{HintK, Ulc};

/// Outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The tier that held the page; one past the last cache is the disk.
    pub(crate) found: usize,
    /// The tier that answered.
    pub(crate) served: usize,
}

/// A specification that can be stepped.
pub(crate) trait Model {
    fn read(&mut self, client: usize, page: u32) -> Outcome;
    /// Forget the page, which another client writes.
    fn forget(&mut self, client: usize, page: u32);
    /// Return the pages of each tier, in any order.
    fn held(&self) -> Vec<Vec<u32>>;
    /// Copies from one cache to another so far.
    fn moves(&self) -> u64;
    /// Return the tiers from the fastest, each with its pages, the oldest first.
    fn state(&self) -> String {
        let tiers = self.held().into_iter().map(|pages| {
            let pages: Vec<String> = pages.iter().map(u32::to_string).collect();
            pages.join(" ")
        });
        tiers.collect::<Vec<_>>().join(" | ")
    }
}

/// Return the first tier that holds a page, or the number of tiers.
fn find(tiers: &[Vec<u32>], page: u32) -> usize {
    tiers.iter().position(|tier| tier.contains(&page)).unwrap_or(tiers.len())
}

/// Return the capacities of all tiers, of which each client has the first.
fn repeated(sizes: &[usize], clients: usize) -> Vec<usize> {
    std::iter::repeat_n(sizes[0], clients).chain(sizes[1..].iter().copied()).collect()
}

/// Return the tiers that a client sees, of so many.
fn path(client: usize, clients: usize, tiers: usize) -> Vec<usize> {
    std::iter::once(client).chain(clients..tiers).collect()
}

/// Return the first place of a path whose tier holds a page, or the path's length.
fn find_on(path: &[usize], tiers: &[Vec<u32>], page: u32) -> usize {
    path.iter().position(|&tier| tiers[tier].contains(&page)).unwrap_or(path.len())
}

/// Return the tier at a place of a path; one past the last tier is the disk.
fn tier_at(path: &[usize], place: usize, tiers: usize) -> usize {
    path.get(place).copied().unwrap_or(tiers)
}

/// Takes a page out of a list, if it is there.
fn take(list: &mut Vec<u32>, page: u32) {
    list.retain(|&listed| listed != page);
}
