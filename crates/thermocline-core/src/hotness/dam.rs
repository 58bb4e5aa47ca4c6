//! DAM: one counter per page, all halved after every period. The exact baseline of MHF.
//!
//! Pages written in the same period are equally recent to it, which WDAC was made to improve.
//!
//! * Source: the direct address method of Hsieh, Kuo, Chang, ACM Transactions on Storage 2(1), 2006,
//!   as used by Park and Du, MSST 2011.
//! * State: 8 bytes per page that exists.
//! * Cost: O(1) per write and per decay: a counter is halved when it is next looked at.
//! * Deviations: (1) halves are rounded down, and a period's decay comes before the write that
//!   follows it, as in MHF. (2) A counter stays at 2^32 - 1.

use alloc::boxed::Box;
use alloc::vec;

use super::registry::IdentifierEntry;
use super::{Heat, Identifier};
use crate::config::{Parameter, Values};
use crate::{PageId, prefetch};

/// Parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("decay_writes", 1..=u32::MAX as u64, 4096)
        .summary("writes from one halving of all counters to the next")
        .source("Park and Du, MSST 2011, Table I"),
    Parameter::integer("threshold", 1..=u32::MAX as u64, 4)
        .summary("count from which on a page is hot")
        .source("Park and Du, MSST 2011, Table I"),
];

/// The direct address method.
#[derive(Clone, Debug)]
pub struct Dam {
    counters: Box<[Counter]>,
    /// Number of decays so far.
    decays: u32,
    decay_writes: u32,
    writes_left: u32,
    threshold: u32,
}

/// A page's count as of a decay.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    count: u32,
    decays: u32,
}

/// Its row in the registry.
pub const DAM: IdentifierEntry = IdentifierEntry {
    name: "dam",
    summary: "one counter per page, all halved after every period: the exact baseline of MHF",
    source: "Hsieh, Kuo, Chang: Efficient Identification of Hot Data, TOS 2(1), 2006",
    module: module_path!(),
    parameters: PARAMETERS,
    build: |pages, values| Ok(Box::new(Dam::new(pages, values))),
};

impl Counter {
    /// Return what is left of the count: halving `n` times is dividing by 2^n, rounded down.
    #[inline]
    fn count_after(self, decays: u32) -> u32 {
        self.count.checked_shr(decays.wrapping_sub(self.decays)).unwrap_or(0)
    }
}

impl Dam {
    /// Create a table for page ids below `pages`, with parameters of [`PARAMETERS`].
    pub fn new(pages: u32, values: &Values) -> Self {
        let decay_writes = values.integer_u32("decay_writes");
        Self {
            counters: vec![Counter::default(); pages as usize].into_boxed_slice(),
            decays: 0,
            decay_writes,
            writes_left: decay_writes,
            threshold: values.integer_u32("threshold"),
        }
    }
}

impl Identifier for Dam {
    #[inline]
    fn record(&mut self, page: PageId) -> Heat {
        // As in MHF, so that both decay between the same two writes and differ only by collisions
        // and full counters.
        if self.writes_left == 0 {
            self.decay();
        }
        self.writes_left -= 1;
        let counter = &mut self.counters[page.index()];
        // Lazy decay: halving every counter at once would touch the whole table in one write.
        let count = counter.count_after(self.decays).saturating_add(1);
        *counter = Counter { count, decays: self.decays };
        Heat::hot_if(count >= self.threshold)
    }

    fn hotness(&self, page: PageId) -> f64 {
        f64::from(self.counters[page.index()].count_after(self.decays))
    }

    fn threshold(&self) -> f64 {
        f64::from(self.threshold)
    }

    fn decay_writes(&self) -> Option<u64> {
        Some(u64::from(self.decay_writes))
    }

    fn decay(&mut self) {
        self.writes_left = self.decay_writes;
        self.decays = self.decays.wrapping_add(1);
        if self.decays == 0 {
            // The number of decays has come round: no counter may keep one from before.
            self.counters.fill(Counter::default());
        }
    }

    fn reset(&mut self) {
        self.counters.fill(Counter::default());
        self.decays = 0;
        self.writes_left = self.decay_writes;
    }

    fn memory_bits(&self) -> u64 {
        size_of_val(&*self.counters) as u64 * 8
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        prefetch(&self.counters, page.index());
    }

    fn assert_invariants(&self) {
        assert!(self.writes_left <= self.decay_writes, "a decay is due");
        assert!(
            self.counters.iter().all(|counter| counter.decays <= self.decays),
            "no counter is ahead of the decays"
        );
    }
}
