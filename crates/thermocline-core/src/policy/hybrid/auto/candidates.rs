//! The policies among which `auto` chooses, each under a word.
//!
//! * Source: each policy's own.
//! * State: none.
//! * Cost: none but that of building one.
//! * Deviations: none.

use alloc::borrow::ToOwned as _;
use alloc::vec::Vec;

use crate::config::Values;
use crate::entry::PolicyEntry;
use crate::policy::hybrid::{face, hat, lru_two_tier, two_tier};
use crate::{BoxedPolicy, Setup};

/// A policy with parameters.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// The word by which users choose it.
    pub(super) word: &'static str,
    entry: PolicyEntry,
    /// Its parameters but those at their defaults.
    given: &'static [(&'static str, &'static str)],
}

/// All of them. The first one chosen is in force until another one is better: those that lost least on
/// most traces come first.
pub(super) const CANDIDATES: &[Candidate] = &[
    of("lazy-s3-fifo", two_tier::TWO_TIER, &[(two_tier::FLASH, "s3-fifo")]),
    of("hat", hat::HAT, &[]),
    of("lazy-w-tinylfu", two_tier::TWO_TIER, &[(two_tier::FLASH, "w-tinylfu")]),
    of("lazy-arc", two_tier::TWO_TIER, &[(two_tier::FLASH, "arc")]),
    of("lru-exclusive", lru_two_tier::LRU_EXCLUSIVE, &[]),
    of("exclusive-w-tinylfu", two_tier::TWO_TIER, EXCLUSIVE_W_TINY_LFU),
    of("face-gsc", face::FACE_GSC, &[]),
    of("lru-inclusive", lru_two_tier::LRU_INCLUSIVE, &[]),
    of("hat-nonhot-half", hat::HAT, &[("nonhot_ratio", "0.5")]),
    of("hat-queue-4", hat::HAT, &[("queue_ratio", "4")]),
    of("second-access", two_tier::TWO_TIER, SECOND_ACCESS),
];

/// Candidates that are chosen by default, as a mask: one of each kind.
pub(super) const BY_DEFAULT: u32 = 0b111_1111;

const EXCLUSIVE_W_TINY_LFU: &[(&str, &str)] = &[
    (two_tier::RAM, "w-tinylfu"),
    (two_tier::FLASH, "w-tinylfu"),
    (two_tier::INCLUSION, "exclusive"),
];
const SECOND_ACCESS: &[(&str, &str)] =
    &[(two_tier::INCLUSION, "exclusive"), (two_tier::ADMISSION, two_tier::SECOND_ACCESS)];

/// Their words, as choices of a parameter.
pub(super) const WORDS: [&str; CANDIDATES.len()] = {
    let mut words = [""; CANDIDATES.len()];
    let mut index = 0;
    while index < words.len() {
        words[index] = CANDIDATES[index].word;
        index += 1;
    }
    words
};

const fn of(
    word: &'static str,
    entry: PolicyEntry,
    given: &'static [(&'static str, &'static str)],
) -> Candidate {
    Candidate { word, entry, given }
}

impl Candidate {
    /// Builds the policy, empty; on a sample, with parameters that are smaller by its rate.
    pub(super) fn build(&self, setup: &Setup) -> BoxedPolicy {
        let values = match setup.inputs.sample_rate {
            Some(rate) => self.values().scaled(rate),
            None => self.values(),
        };
        self.entry.build(setup, &values).expect("a candidate runs wherever `auto` does")
    }

    fn values(&self) -> Values {
        let given: Vec<_> =
            self.given.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect();
        self.entry.values(&given).expect("the table of candidates names parameters that there are")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::{Depth, Future};

    /// `auto` needs of drivers no more than its candidates need: nothing.
    #[test]
    fn candidates_need_no_more_than_accesses() {
        for (index, candidate) in CANDIDATES.iter().enumerate() {
            let word = candidate.word;
            assert!(WORDS[..index].iter().all(|other| *other != word), "{word} is there once");
            let needs = &candidate.entry.capabilities;
            assert_eq!(needs.depth, Depth::RamFlash, "{word}");
            assert_eq!(needs.future, Future::Unknown, "{word}");
            assert!(!needs.needs_clock && !needs.asks_for_miss_order, "{word}");
            assert!(!needs.asks_for_run_lengths, "{word}");
            assert!(!needs.looks_at_neighbours && !needs.decides_by_extents, "{word}");
            for memory_pages in [1, 3] {
                for flash_pages in [0, 1, 9] {
                    let mut setup = Setup::hybrid(20, memory_pages, flash_pages);
                    candidate.build(&setup).assert_invariants();
                    setup.inputs.sample_rate = Some(0.5);
                    candidate.build(&setup).assert_invariants();
                }
            }
        }
    }
}
