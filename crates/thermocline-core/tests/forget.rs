//! Pages that are taken out of a cache, as exclusive hierarchies do: no algorithm minds.

use std::collections::BTreeSet;

use proptest::prelude::*;
use thermocline_core::config::Values;
use thermocline_core::policy::single::{ALGORITHMS, Outcome, Space};
use thermocline_core::{Geometry, Ids, Inputs, Op, PageId};

const PAGES: u32 = 14;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// An outcome describes the cache after it. A page that was taken out is not there, and a cache
    /// that has room may still evict a page, but never holds too many. A sparse index changes none
    /// of this.
    #[test]
    fn outcomes_tell_what_a_cache_holds(
        capacity_pages in 1_u32..9,
        steps in prop::collection::vec((0..PAGES, 0..5_u8), 0..300),
    ) {
        for algorithm in ALGORITHMS {
            let values = Values::resolve(algorithm.name(), algorithm.parameters, &[]).unwrap();
            let (geometry, inputs) = (&Geometry::linear(PAGES), &Inputs::NONE);
            let [mut cache, mut sparse] = [Ids::dense(PAGES), Ids::sparse(PAGES)].map(|ids| {
                (algorithm.build)(Space { ids, capacity_pages, geometry, inputs }, &values)
            });
            let mut held = BTreeSet::new();
            for &(page, kind) in &steps {
                let page = PageId(page);
                if kind == 0 {
                    cache.forget(page);
                    sparse.forget(page);
                    held.remove(&page);
                } else {
                    let op = if kind == 1 { Op::Write } else { Op::Read };
                    let was_held = held.contains(&page);
                    let outcome = cache.refer(page, op);
                    prop_assert_eq!(sparse.refer(page, op), outcome, "{}", algorithm.name());
                    match outcome {
                        Outcome::Hit => prop_assert!(was_held, "{}", algorithm.name()),
                        Outcome::Refused => prop_assert!(!was_held, "{}", algorithm.name()),
                        Outcome::Admitted { evicted } => {
                            prop_assert!(!was_held, "{}", algorithm.name());
                            held.insert(page);
                            if let Some(evicted) = evicted {
                                prop_assert!(evicted != page && held.remove(&evicted));
                            }
                        }
                    }
                }
                cache.assert_invariants();
                sparse.assert_invariants();
                prop_assert!(held.len() <= capacity_pages as usize, "{}", algorithm.name());
                for page in (0..PAGES).map(PageId) {
                    let (is_held, name) = (held.contains(&page), algorithm.name());
                    prop_assert_eq!(cache.contains(page), is_held, "{}, page {}", name, page.0);
                    prop_assert_eq!(sparse.contains(page), is_held, "{}, page {}", name, page.0);
                }
            }
        }
    }
}
