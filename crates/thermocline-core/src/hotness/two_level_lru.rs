//! Two-level LRU: hot is a page in the upper of two LRU lists, which a second write enters.
//!
//! A page first joins the candidate list; written again while it is there, it moves to the hot list.
//! Pages that leave the full hot list return to the candidates.
//!
//! * Source: Chang and Kuo, *An Adaptive Striping Architecture for Flash Memory Storage Systems of
//!   Embedded Systems*, RTAS 2002, as described by Park and Du, MSST 2011, section II-C.
//! * State: 4 bytes per page that exists, 20 bytes per page of both lists.
//! * Cost: amortised O(1) per write.
//! * Deviations: (1) the sizes of the lists are not given. (2) The write that moves a page to the hot
//!   list is still cold.

use super::registry::IdentifierEntry;
use super::{Heat, Identifier};
use crate::config::{Parameter, Values};
use crate::queue::Recency;
use crate::{Ids, PageId};
use alloc::boxed::Box;

/// State bit: in the hot list.
const HOT: u8 = 1;
/// State bit: in the candidate list.
const CANDIDATE: u8 = 2;

/// Classes of the queue, as indices into its masks.
const HOT_LIST: usize = 0;
const CANDIDATE_LIST: usize = 1;

/// Parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("hot_pages", 1..=1 << 24, 512)
        .summary("pages of the hot list")
        .source("not published"),
    Parameter::integer("candidate_pages", 1..=1 << 24, 1024)
        .summary("pages of the candidate list")
        .source("not published"),
];

/// Two LRU lists.
#[derive(Clone, Debug)]
pub struct TwoLevelLru {
    /// Both lists in one order: that in which pages came to the head of their list.
    queue: Recency<2>,
    pages: u32,
    capacities: [u32; 2],
    lengths: [u32; 2],
}

/// Room for both lists and one page more in each.
fn new_queue(pages: u32, [hot_pages, candidate_pages]: [u32; 2]) -> Recency<2> {
    Recency::new(Ids::dense(pages), hot_pages + candidate_pages + 2, [HOT, CANDIDATE])
}

/// Its row in the registry.
pub const TWO_LEVEL_LRU: IdentifierEntry = IdentifierEntry {
    name: "two-level-lru",
    summary: "two LRU lists; a page written again as a candidate becomes hot",
    source: "Chang, Kuo: An Adaptive Striping Architecture for Flash Memory, RTAS 2002",
    module: module_path!(),
    parameters: PARAMETERS,
    build: |pages, values| Ok(Box::new(TwoLevelLru::new(pages, values))),
};

impl TwoLevelLru {
    /// Create empty lists for page ids below `pages`, with parameters of [`PARAMETERS`].
    pub fn new(pages: u32, values: &Values) -> Self {
        let capacities = [values.integer_u32("hot_pages"), values.integer_u32("candidate_pages")];
        Self { queue: new_queue(pages, capacities), pages, capacities, lengths: [0; 2] }
    }

    fn shorten_hot_list(&mut self) {
        if self.lengths[HOT_LIST] > self.capacities[HOT_LIST] {
            let (position, _) = self.queue.oldest(HOT_LIST).expect("an over-full list has a page");
            // To the head of the candidates: it was written more often than those that wait there.
            self.queue.touch(self.queue.page(position), CANDIDATE);
            self.lengths[HOT_LIST] -= 1;
            self.lengths[CANDIDATE_LIST] += 1;
        }
    }

    fn shorten_candidate_list(&mut self) {
        if self.lengths[CANDIDATE_LIST] > self.capacities[CANDIDATE_LIST] {
            let oldest = self.queue.oldest(CANDIDATE_LIST);
            let (position, _) = oldest.expect("an over-full list has a page");
            self.queue.set_state(position, 0);
            self.lengths[CANDIDATE_LIST] -= 1;
        }
    }
}

impl Identifier for TwoLevelLru {
    #[inline]
    fn record(&mut self, page: PageId) -> Heat {
        let state = self.queue.state(page);
        self.queue.touch(page, if state == 0 { CANDIDATE } else { HOT });
        match state {
            HOT => {}
            CANDIDATE => {
                self.lengths[CANDIDATE_LIST] -= 1;
                self.lengths[HOT_LIST] += 1;
                self.shorten_hot_list();
            }
            _ => self.lengths[CANDIDATE_LIST] += 1,
        }
        self.shorten_candidate_list();
        // Park and Du, Section II-C: hot if the page was in the hot list already, before this
        // write.
        Heat::hot_if(state == HOT)
    }

    /// Return 1 in the hot list, one half in the candidate list, else 0.
    fn hotness(&self, page: PageId) -> f64 {
        match self.queue.state(page) {
            HOT => 1.0,
            CANDIDATE => 0.5,
            _ => 0.0,
        }
    }

    fn threshold(&self) -> f64 {
        1.0
    }

    fn decay_writes(&self) -> Option<u64> {
        None
    }

    fn decay(&mut self) {}

    fn reset(&mut self) {
        self.queue = new_queue(self.pages, self.capacities);
        self.lengths = [0; 2];
    }

    fn memory_bits(&self) -> u64 {
        self.queue.memory_bytes() as u64 * 8
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.queue.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.queue.assert_invariants();
        for (list, mask) in [(HOT_LIST, HOT), (CANDIDATE_LIST, CANDIDATE)] {
            let pages = self.queue.iter().filter(|entry| entry.2 == mask).count();
            assert_eq!(pages, self.lengths[list] as usize, "the pages of a list are counted");
            assert!(self.lengths[list] <= self.capacities[list], "a list fits its size");
        }
    }
}
