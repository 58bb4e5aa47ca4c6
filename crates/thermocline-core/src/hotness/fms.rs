//! FMS: the time of every page's last write; hot is a page written again soon.
//!
//! * Source: Chiang, Lee, Chang, *Managing Flash Memory in Personal Communication Devices*, ISCE
//!   1997, as described by Park and Du, MSST 2011, section II-C.
//! * State: 8 bytes per page that exists.
//! * Cost: O(1) per write.
//! * Deviations: (1) the rule is not given: a write is hot if the page's previous one lies at most
//!   `hot_writes` writes back. (2) The third class, read-only, is that of pages never recorded; they
//!   are cold here, with a hot data index of minus infinity.

use alloc::boxed::Box;
use alloc::vec;

use super::registry::IdentifierEntry;
use super::{Heat, Identifier};
use crate::config::{Parameter, Values};
use crate::{PageId, prefetch};

/// Parameters.
pub const PARAMETERS: &[Parameter] = &[Parameter::integer("hot_writes", 1..=u32::MAX as u64, 4096)
    .summary("writes since the previous one up to which a page is hot")
    .source("the window of Park and Du, MSST 2011, Table I; the rule itself is not published")];

/// Last write times.
#[derive(Clone, Debug)]
pub struct Fms {
    /// The number of each page's last write; 0 for none.
    last_writes: Box<[u64]>,
    writes: u64,
    hot_writes: u32,
}

/// Its row in the registry.
pub const FMS: IdentifierEntry = IdentifierEntry {
    name: "fms",
    summary: "the time of every page's last write; hot if it is not long ago",
    source: "Chiang, Lee, Chang: Managing Flash Memory in Personal Communication Devices, ISCE 1997",
    module: module_path!(),
    parameters: PARAMETERS,
    build: |pages, values| Ok(Box::new(Fms::new(pages, values))),
};

impl Fms {
    /// Create a table for page ids below `pages`, with parameters of [`PARAMETERS`].
    pub fn new(pages: u32, values: &Values) -> Self {
        Self {
            last_writes: vec![0; pages as usize].into_boxed_slice(),
            writes: 0,
            hot_writes: values.integer_u32("hot_writes"),
        }
    }
}

impl Identifier for Fms {
    #[inline]
    fn record(&mut self, page: PageId) -> Heat {
        self.writes += 1;
        let last_write = &mut self.last_writes[page.index()];
        let is_hot = *last_write > 0 && self.writes - *last_write <= u64::from(self.hot_writes);
        *last_write = self.writes;
        Heat::hot_if(is_hot)
    }

    /// Minus the writes that a write of the page now would be apart from its last.
    fn hotness(&self, page: PageId) -> f64 {
        match self.last_writes[page.index()] {
            0 => f64::NEG_INFINITY,
            last_write => -((self.writes + 1 - last_write) as f64),
        }
    }

    fn threshold(&self) -> f64 {
        -f64::from(self.hot_writes)
    }

    fn decay_writes(&self) -> Option<u64> {
        None
    }

    fn decay(&mut self) {}

    fn reset(&mut self) {
        self.last_writes.fill(0);
        self.writes = 0;
    }

    fn memory_bits(&self) -> u64 {
        size_of_val(&*self.last_writes) as u64 * 8
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        prefetch(&self.last_writes, page.index());
    }

    fn assert_invariants(&self) {
        let latest = self.last_writes.iter().copied().max().unwrap_or(0);
        assert_eq!(latest, self.writes, "the last write is some page's last");
    }
}
