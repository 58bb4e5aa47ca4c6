//! Flash blocks of pages, by page number.
//!
//! * Source: none; what all policies that evict by block share.
//! * State: 4 bytes per page that exists, unless ids are page numbers.
//! * Cost: O(1) per page; sorting the pages of an eviction.
//! * Deviations: a block is `pages_per_block` consecutive logical pages. Which physical block they
//!   share is the translation layer's business.

use alloc::vec;
use alloc::vec::Vec;

use crate::config::Parameter;
use crate::prefetch::prefetch;
use crate::{Geometry, PageId};

/// The pages of a flash block, the unit of policies that evict by block.
pub(crate) const PAGES_PER_BLOCK: Parameter =
    Parameter::integer("pages_per_block", 1..=1 << 16, 64)
        .summary("pages of a flash block, by which pages are grouped")
        .source("SSDsim's default geometry, on which HWB was evaluated");

/// Numbers are marked where the last is at most this many times the pages, and sorted elsewhere.
const NUMBERS_PER_PAGE_MAX: u64 = 32;

/// The ranks of some numbers among them all, from a bit per number up to the last.
#[derive(Clone, Debug)]
pub(crate) struct Ranks {
    is_taken: Vec<u64>,
    /// Per word: the numbers before it that are taken.
    taken_before: Vec<u32>,
}

impl Ranks {
    /// Takes these numbers, none of which is greater than `last`.
    fn new(last: u32, numbers: impl Iterator<Item = u32>) -> Self {
        let mut is_taken = vec![0_u64; (last / u64::BITS) as usize + 1];
        for number in numbers {
            is_taken[(number / u64::BITS) as usize] |= 1 << (number % u64::BITS);
        }
        let mut count = 0;
        let mut taken_before = Vec::with_capacity(is_taken.len() + 1);
        taken_before.push(0);
        taken_before.extend(is_taken.iter().map(|word| {
            count += word.count_ones();
            count
        }));
        Self { is_taken, taken_before }
    }

    /// Return the number of numbers that are less than this one, which is not greater than the last.
    #[inline]
    fn of(&self, number: u32) -> u32 {
        let word = (number / u64::BITS) as usize;
        let lower = self.is_taken[word] & ((1 << (number % u64::BITS)) - 1);
        self.taken_before[word] + lower.count_ones()
    }

    /// Return the number of numbers that are taken.
    fn count(&self) -> u32 {
        self.taken_before.last().copied().unwrap_or(0)
    }
}

/// Return the last of some numbers, if marking all up to it takes little memory beside their pages.
fn last_if_close(pages: u32, last: Option<u64>) -> Option<u32> {
    let last = last.unwrap_or(0);
    let is_close = last / NUMBERS_PER_PAGE_MAX < u64::from(pages);
    u32::try_from(last).ok().filter(|_| is_close)
}

/// The pages that follow others in the address space.
#[derive(Clone, Debug)]
pub(crate) struct Successors(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// Page ids are page numbers.
    Linear { pages: u32 },
    /// The ranks of page numbers, and the pages in their order.
    Close { geometry: Geometry, ranks: Ranks, pages: Vec<u32> },
    /// Page numbers lie far apart. Per page: its successor, or [`NO_PAGE`].
    Far(Vec<u32>),
}

/// The successor of a page that has none.
const NO_PAGE: u32 = u32::MAX;

impl Successors {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        if geometry.is_linear() {
            return Self(Kind::Linear { pages: geometry.pages() });
        }
        let numbers = || geometry.ids().map(|page| geometry.page_number(PageId(page)));
        let Some(last) = last_if_close(geometry.pages(), numbers().max()) else {
            return Self(Kind::Far(far_successors(geometry)));
        };
        #[expect(clippy::cast_possible_truncation, reason = "it is at most the last number")]
        let numbers = || numbers().map(|number| number as u32);
        let ranks = Ranks::new(last, numbers());
        let mut pages = vec![0; geometry.pages() as usize];
        for (page, number) in geometry.ids().zip(numbers()) {
            pages[ranks.of(number) as usize] = page;
        }
        Self(Kind::Close { geometry: geometry.clone(), ranks, pages })
    }

    /// Return the page after one, if it exists.
    #[inline]
    pub(crate) fn after(&self, page: PageId) -> Option<PageId> {
        let after = match &self.0 {
            Kind::Linear { pages } => Some(page.0 + 1).filter(|after| after < pages),
            Kind::Close { geometry, ranks, pages } => {
                let number = geometry.page_number(page) + 1;
                #[expect(clippy::cast_possible_truncation, reason = "at most the last and one")]
                let number = number as u32;
                let word = ranks.is_taken.get((number / u64::BITS) as usize)?;
                let is_taken = word >> (number % u64::BITS) & 1 != 0;
                is_taken.then(|| pages[ranks.of(number) as usize])
            }
            Kind::Far(successor_of) => {
                Some(successor_of[page.index()]).filter(|&after| after != NO_PAGE)
            }
        };
        after.map(PageId)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.0 {
            Kind::Linear { .. } => 0,
            Kind::Close { ranks: Ranks { is_taken, taken_before }, pages, .. } => {
                size_of_val(&**is_taken) + size_of_val(&**taken_before) + size_of_val(&**pages)
            }
            Kind::Far(successor_of) => size_of_val(&**successor_of),
        }
    }
}

/// Return the successor of each page, by sorting, however far apart page numbers are.
fn far_successors(geometry: &Geometry) -> Vec<u32> {
    let mut successor_of = vec![NO_PAGE; geometry.pages() as usize];
    for pair in geometry.ids_by_page_number().windows(2) {
        if geometry.page_number(pair[0]).checked_add(1) == Some(geometry.page_number(pair[1])) {
            successor_of[pair[0].index()] = pair[1].0;
        }
    }
    successor_of
}

/// The blocks of the pages that exist, numbered without gaps in the order of their addresses.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    /// Per page: its block. Empty if ids are page numbers: then it is computed.
    homes: Vec<u32>,
    count: u32,
    geometry: Geometry,
    pages_per_block: u32,
}

impl Blocks {
    pub(crate) fn new(geometry: &Geometry, pages_per_block: u32) -> Self {
        if geometry.is_linear() {
            let count = geometry.pages().div_ceil(pages_per_block);
            return Self { homes: vec![], count, geometry: geometry.clone(), pages_per_block };
        }
        let last = geometry.ids().map(|page| geometry.page_number(PageId(page))).max();
        let last_block = last.map(|last| last / u64::from(pages_per_block));
        let (homes, count) = match last_if_close(geometry.pages(), last_block) {
            Some(last_block) => homes_of_close(geometry, pages_per_block, last_block),
            None => homes_of_far(geometry, pages_per_block),
        };
        Self { homes, count, geometry: geometry.clone(), pages_per_block }
    }

    /// Return the block of a page.
    #[inline]
    pub(crate) fn of(&self, page: PageId) -> u32 {
        if self.homes.is_empty() { page.0 / self.pages_per_block } else { self.homes[page.index()] }
    }

    /// Return the number of blocks: each is less than this.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn pages_per_block(&self) -> u32 {
        self.pages_per_block
    }

    /// Return the offset of a page in its block, in pages.
    pub(crate) fn offset(&self, page: PageId) -> u32 {
        let offset = self.geometry.page_number(page) % u64::from(self.pages_per_block);
        u32::try_from(offset).expect("an offset is less than the pages of a block")
    }

    /// Puts pages into the order of their addresses.
    pub(crate) fn sort(&self, pages: &mut [PageId]) {
        pages.sort_unstable_by_key(|&page| self.geometry.page_number(page));
    }

    /// Return all pages that exist, in the order of their addresses, each with its block.
    pub(crate) fn pages_by_address(&self) -> Vec<PageId> {
        self.geometry.ids_by_page_number()
    }

    pub(crate) fn prefetch(&self, page: PageId) {
        prefetch(&self.homes, page.index());
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.homes)
    }
}

/// Return the block of each page, and how many there are, by marking the block numbers up to the
/// last.
fn homes_of_close(geometry: &Geometry, pages_per_block: u32, last_block: u32) -> (Vec<u32>, u32) {
    let numbers = geometry.ids().map(|page| geometry.page_number(PageId(page)));
    #[expect(clippy::cast_possible_truncation, reason = "it is at most the last block")]
    let mut homes: Vec<u32> =
        numbers.map(|number| (number / u64::from(pages_per_block)) as u32).collect();
    let ranks = Ranks::new(last_block, homes.iter().copied());
    for home in &mut homes {
        *home = ranks.of(*home);
    }
    (homes, ranks.count())
}

/// Return the same by sorting, however far apart page numbers are.
fn homes_of_far(geometry: &Geometry, pages_per_block: u32) -> (Vec<u32>, u32) {
    let mut homes = vec![0; geometry.pages() as usize];
    let (mut count, mut last) = (0, None);
    for page in geometry.ids_by_page_number() {
        let number = geometry.page_number(page) / u64::from(pages_per_block);
        count += u32::from(last.replace(number) != Some(number));
        homes[page.index()] = count - 1;
    }
    (homes, count)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Covers numbers up to the greatest, and those beyond the range that is tabulated.
        #[test]
        fn blocks_are_numbered_by_address(
            numbers in prop::collection::btree_set(prop_oneof![0_u64..500, 0_u64..20_000, any::<u64>()], 0..40),
            near in any::<bool>(),
            seed in any::<u64>(),
            pages_per_block in prop_oneof![1_u32..9, 1_u32..=u32::MAX],
        ) {
            let below = if near { 20_000 } else { u64::MAX };
            let mut numbers: Vec<u64> =
                numbers.into_iter().filter(|&number| number < below).collect();
            numbers.sort_unstable_by_key(|number| number.wrapping_mul(seed | 1));
            let of = |number: u64| number / u64::from(pages_per_block);
            let taken: BTreeSet<u64> = numbers.iter().map(|&number| of(number)).collect();
            let blocks = Blocks::new(&Geometry::table(numbers.clone().into()), pages_per_block);
            prop_assert_eq!(blocks.count() as usize, taken.len());
            for (page, &number) in (0..).zip(&numbers) {
                let home = taken.range(..of(number)).count();
                prop_assert_eq!(blocks.of(PageId(page)) as usize, home);
            }
        }
    }

    proptest! {
        #[test]
        fn successors_are_the_next_page_numbers(
            numbers in prop::collection::btree_set(prop_oneof![0_u64..40, 0_u64..500, (u64::MAX - 40)..=u64::MAX], 0..40),
            below in prop_oneof![Just(500), Just(u64::MAX)],
            seed in any::<u64>(),
        ) {
            let mut numbers: Vec<u64> =
                numbers.into_iter().filter(|&number| number < below).collect();
            numbers.sort_unstable_by_key(|number| number.wrapping_mul(seed | 1));
            let successors = Successors::new(&Geometry::table(numbers.clone().into()));
            for (page, &number) in (0..).zip(&numbers) {
                let after = number.checked_add(1);
                let expected = numbers.iter().position(|&known| Some(known) == after);
                let found = successors.after(PageId(page)).map(PageId::index);
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn successors_of_a_device_are_the_next_ids() {
        let successors = Successors::new(&Geometry::linear(3));
        let after = [0, 1, 2].map(|page| successors.after(PageId(page)));
        assert_eq!(after, [Some(PageId(1)), Some(PageId(2)), None]);
        assert_eq!(successors.memory_bytes(), 0);
    }

    #[test]
    fn neighbours_share_a_block() {
        let geometry = Geometry::table(vec![70, 3, 64, 0, 200].into());
        let blocks = Blocks::new(&geometry, 64);
        let of = [0, 1, 2, 3, 4].map(|page| blocks.of(PageId(page)));
        assert_eq!(of, [1, 0, 1, 0, 2]);
        assert_eq!((blocks.count(), blocks.offset(PageId(0))), (3, 6));
        let mut pages = [0, 1, 2, 3, 4].map(PageId);
        blocks.sort(&mut pages);
        assert_eq!(pages, [3, 1, 2, 0, 4].map(PageId));
    }

    #[test]
    fn a_device_needs_no_table() {
        for (pages, pages_per_block) in [(0, 4), (1, 4), (8, 4), (9, 4), (9, 1), (9, u32::MAX)] {
            let computed = Blocks::new(&Geometry::linear(pages), pages_per_block);
            let numbers = (0..u64::from(pages)).collect();
            let looked_up = Blocks::new(&Geometry::table(numbers), pages_per_block);
            assert_eq!(computed.memory_bytes(), 0);
            assert_eq!(computed.count(), looked_up.count(), "{pages}, {pages_per_block}");
            for page in (0..pages).map(PageId) {
                assert_eq!(computed.of(page), looked_up.of(page), "{pages}, {pages_per_block}");
            }
        }
    }
}
