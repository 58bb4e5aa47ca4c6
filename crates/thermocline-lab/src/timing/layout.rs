//! Where pages lie on the devices of their tiers.

use std::collections::VecDeque;

use thermocline_core::{Geometry, PageId};

use crate::LabError;

/// No slot.
const NONE: u32 = u32::MAX;

/// The slots of a cache device: a page that enters takes the slot that is free longest.
///
/// A policy that drops its pages in the order in which it admitted them so writes one slot after the
/// other, round and round.
#[derive(Debug)]
pub(super) struct Slots {
    slot_of: Vec<u32>,
    free: VecDeque<u32>,
    /// How many slots are in use or free; between two accesses a tier may hold a few pages more than it has.
    used: u32,
}

/// Where the pages of the disk lie.
#[derive(Debug)]
pub(super) enum Placement {
    /// At their page numbers.
    AsNumbered(Geometry),
    /// In the order of their page numbers, without the gaps: the numbers exceed the disk.
    Squeezed(Vec<u32>),
}

impl Slots {
    /// Free slots for so many pages, for page ids below `pages`.
    pub(super) fn new(capacity_pages: u32, pages: u32) -> Self {
        let used = capacity_pages.min(pages);
        Self { slot_of: vec![NONE; pages as usize], free: (0..used).collect(), used }
    }

    /// The slot of a page, which takes one if it has none.
    pub(super) fn slot(&mut self, page: PageId) -> u64 {
        let slot = &mut self.slot_of[page.index()];
        if *slot == NONE {
            *slot = self.free.pop_front().unwrap_or_else(|| {
                self.used += 1;
                self.used - 1
            });
        }
        u64::from(*slot)
    }

    /// Frees the slot of a page, if it has one.
    pub(super) fn drop_page(&mut self, page: PageId) {
        let slot = std::mem::replace(&mut self.slot_of[page.index()], NONE);
        if slot != NONE {
            self.free.push_back(slot);
        }
    }
}

impl Placement {
    /// Pages at their numbers if the disk has so many, else side by side.
    ///
    /// # Errors
    /// [`LabError::DiskTooSmall`] if the disk has fewer pages than there are.
    pub(super) fn new(geometry: &Geometry, capacity_pages: u64) -> Result<Self, LabError> {
        let greatest = geometry.ids().map(|id| geometry.page_number(PageId(id))).max().unwrap_or(0);
        if greatest < capacity_pages {
            return Ok(Self::AsNumbered(geometry.clone()));
        }
        let pages = geometry.pages();
        if u64::from(pages) > capacity_pages {
            let footprint_pages = u64::from(pages);
            return Err(LabError::DiskTooSmall { footprint_pages, capacity_pages });
        }
        let mut places = vec![0; pages as usize];
        for (place, page) in (0_u32..).zip(geometry.ids_by_page_number()) {
            places[page.index()] = place;
        }
        Ok(Self::Squeezed(places))
    }

    /// Where a page lies.
    pub(super) fn address(&self, page: PageId) -> u64 {
        match self {
            Self::AsNumbered(geometry) => geometry.page_number(page),
            Self::Squeezed(places) => u64::from(places[page.index()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_go_round() {
        let mut slots = Slots::new(2, 10);
        assert_eq!([1, 2, 1].map(|page| slots.slot(PageId(page))), [0, 1, 0]);
        assert_eq!(slots.slot(PageId(3)), 2, "a few pages more for a moment");
        slots.drop_page(PageId(1));
        slots.drop_page(PageId(9));
        slots.drop_page(PageId(2));
        assert_eq!([4, 5].map(|page| slots.slot(PageId(page))), [0, 1]);
    }

    #[test]
    fn pages_are_squeezed_only_if_they_must_be() {
        let geometry = Geometry::table(vec![500, 7, 90].into());
        let address = |capacity_pages| {
            let placement = Placement::new(&geometry, capacity_pages).unwrap();
            [0, 1, 2].map(|page| placement.address(PageId(page)))
        };
        assert_eq!(address(501), [500, 7, 90]);
        assert_eq!(address(500), [2, 0, 1]);
        assert!(Placement::new(&geometry, 2).unwrap_err().to_string().contains("3 pages"));
    }
}
