//! OPT has as few misses as any way of caching that loads what it misses.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use thermocline_core::policy::single::opt::Opt;
use thermocline_core::policy::single::{Outcome, Registered as _, Replacement as _, Space};
use thermocline_core::{
    Access, Actions, Foresight, Geometry, Ids, Inputs, Ledger, Op, PageCost, PageId, Setup, Tier,
    registry,
};

const PAGES: u32 = 10;

fn foresight(pages: &[u32]) -> Arc<Foresight> {
    Arc::new(Foresight::new(PAGES, pages.iter().map(|&page| PageId(page))).unwrap())
}

fn opt(capacity_pages: u32, pages: &[u32]) -> Opt {
    let values = registry::find("opt").unwrap().values(&[]).unwrap();
    let inputs = &Inputs::from(foresight(pages));
    let (ids, geometry) = (Ids::dense(PAGES), &Geometry::linear(PAGES));
    Opt::new(Space { ids, capacity_pages, geometry, inputs }, &values)
}

/// Return the misses of OPT, by the registry's policy, under the Ledger.
fn misses(capacity_pages: u32, pages: &[u32]) -> u64 {
    let setup = Setup {
        costs: vec![PageCost::default(); 2],
        inputs: foresight(pages).into(),
        ..Setup::new(Geometry::linear(PAGES), vec![capacity_pages])
    };
    let mut policy = registry::find("opt").unwrap().build_default(&setup).unwrap();
    let mut ledger = Ledger::new(PAGES, &setup.capacity_pages);
    let mut actions = Actions::new();
    for &page in pages {
        actions.clear();
        policy.access(Access::write(page), &mut actions);
        ledger.access(Access::write(page), &actions).unwrap();
        policy.assert_invariants();
    }
    ledger.counts().hits(Tier(1))
}

/// Return the fewest misses that any sequence of evictions leads to: every content that a cache can
/// have, with the fewest misses that led to it.
fn fewest_misses(capacity_pages: u32, pages: &[u32]) -> u64 {
    let mut contents = BTreeMap::from([(0_u32, 0_u64)]);
    for &page in pages {
        let mut next = BTreeMap::new();
        let mut reach = |content: u32, misses: u64| {
            let best = next.entry(content).or_insert(misses);
            *best = misses.min(*best);
        };
        for (&content, &misses) in &contents {
            if content >> page & 1 != 0 {
                reach(content, misses);
            } else if content.count_ones() < capacity_pages {
                reach(content | 1 << page, misses + 1);
            } else {
                for victim in (0..PAGES).filter(|victim| content >> victim & 1 != 0) {
                    reach((content & !(1 << victim)) | 1 << page, misses + 1);
                }
            }
        }
        contents = next;
    }
    contents.into_values().min().unwrap_or(0)
}

/// Belady's rule by scans; of pages that are not needed again the one referenced last leaves.
#[derive(Debug)]
struct Belady<'a> {
    capacity: usize,
    pages: &'a [u32],
    now: usize,
    /// The pages in the cache, the one referenced last at the end.
    held: Vec<u32>,
}

impl Belady<'_> {
    fn refer(&mut self) -> Option<u32> {
        let page = self.pages[self.now];
        let to_come = &self.pages[self.now + 1..];
        self.now += 1;
        let is_held = self.held.contains(&page);
        self.held.retain(|&held| held != page);
        let mut evicted = None;
        if !is_held && self.held.len() == self.capacity {
            let distance = |page: u32| to_come.iter().position(|&next| next == page);
            let key = |place: &usize| (distance(self.held[*place]).unwrap_or(usize::MAX), *place);
            let victim = (0..self.held.len()).max_by_key(key).unwrap();
            evicted = Some(self.held.remove(victim));
        }
        self.held.push(page);
        evicted
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_caching_has_fewer_misses(
        capacity_pages in 1_u32..6, pages in prop::collection::vec(0..PAGES, 0..60),
    ) {
        prop_assert_eq!(misses(capacity_pages, &pages), fewest_misses(capacity_pages, &pages));
    }

    #[test]
    fn it_is_beladys_rule_and_survives_pages_that_are_taken_out(
        capacity_pages in 1_u32..6, pages in prop::collection::vec(0..PAGES, 0..120),
        taken in prop::collection::vec((0..120_usize, 0..PAGES), 0..8),
    ) {
        let mut opt = opt(capacity_pages, &pages);
        let mut belady =
            Belady { capacity: capacity_pages as usize, pages: &pages, now: 0, held: vec![] };
        for (index, &page) in pages.iter().enumerate() {
            let was_held = belady.held.contains(&page);
            let evicted = belady.refer().map(PageId);
            let expected = if was_held { Outcome::Hit } else { Outcome::Admitted { evicted } };
            prop_assert_eq!(opt.refer(PageId(page), Op::Read), expected);
            for &(_, page) in taken.iter().filter(|(time, _)| *time == index) {
                opt.forget(PageId(page));
                belady.held.retain(|&held| held != page);
            }
            opt.assert_invariants();
            for page in 0..PAGES {
                prop_assert_eq!(opt.contains(PageId(page)), belady.held.contains(&page));
            }
        }
    }
}

#[test]
#[should_panic(expected = "driven along the trace")]
fn off_its_trace_it_stops() {
    opt(2, &[1, 2, 3]).refer(PageId(2), Op::Read);
}
