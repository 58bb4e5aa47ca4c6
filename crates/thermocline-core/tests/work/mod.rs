//! Workloads with which the tests of indexing drive policies.

use thermocline_core::random::SplitMix64;
use thermocline_core::{Access, Geometry, Indexing, PageCost, Setup};

/// Skew of accesses over pages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Skew {
    /// All alike.
    None,
    /// Most accesses are to the first pages.
    Strong,
}

/// Return accesses to pages below `pages`, some of them in a row; a third are writes.
pub(crate) fn accesses(pages: u32, count: u64, seed: u64, skew: Skew) -> Vec<Access> {
    let mut random = SplitMix64::new(seed);
    let mut below = |bound: u32| u32::try_from(random.bits() % u64::from(bound)).unwrap();
    let mut last = 0;
    let mut access = || {
        let page = match (skew, below(8)) {
            (_, 0) => (last + 1) % pages,
            (Skew::None, _) | (_, 1 | 2) => below(pages),
            (Skew::Strong, 3 | 4) => below(pages.div_ceil(4)),
            (Skew::Strong, _) => below(pages.div_ceil(16)),
        };
        last = page;
        if below(3) == 0 { Access::write(page) } else { Access::read(page) }
    };
    (0..count).map(|_| access()).collect()
}

/// Return a hierarchy over a disk of `pages`, without caches yet.
pub(crate) fn setup(pages: u32, indexing: Indexing) -> Setup {
    let costs = [(0.0, 0.0), (0.16, 0.30), (12.7, 13.7), (12.7, 13.7)];
    Setup {
        costs: costs.map(|(read_ms, write_ms)| PageCost { read_ms, write_ms }).to_vec(),
        indexing,
        ..Setup::new(Geometry::linear(pages), vec![])
    }
}
