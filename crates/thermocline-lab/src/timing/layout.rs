//! Locations of pages on the devices of their tiers.

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
pub(crate) struct Slots {
    slot_of: Vec<u32>,
    free: VecDeque<u32>,
    /// Number of slots that are in use or free; between two accesses a tier may hold a few pages more
    /// than it has.
    used: u32,
}

/// Placement of pages on the device that holds them all.
#[derive(Debug)]
pub(crate) enum Placement {
    /// At their page numbers.
    AsNumbered(Geometry),
    /// In the order of their page numbers, without the blocks that have no page.
    BlocksSqueezed(Vec<u32>),
    /// In the order of their page numbers, without any gap.
    PagesSqueezed(Vec<u32>),
}

impl Slots {
    /// Create free slots for `capacity_pages` pages, for page ids below `pages`.
    pub(crate) fn new(capacity_pages: u32, pages: u32) -> Self {
        let used = capacity_pages.min(pages);
        Self { slot_of: vec![NONE; pages as usize], free: (0..used).collect(), used }
    }

    /// Return the slot of a page, which takes one if it has none.
    pub(crate) fn slot(&mut self, page: PageId) -> u64 {
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
    pub(crate) fn drop_page(&mut self, page: PageId) {
        let slot = std::mem::replace(&mut self.slot_of[page.index()], NONE);
        if slot != NONE {
            self.free.push_back(slot);
        }
    }
}

impl Placement {
    /// Return the pages at their numbers if the device has so many; else without the blocks that no
    /// page belongs to; else side by side.
    ///
    /// # Errors
    /// [`LabError::DiskTooSmall`] if the device has fewer pages than there are.
    pub(crate) fn new(
        geometry: &Geometry,
        capacity_pages: u64,
        pages_per_block: u32,
    ) -> Result<Self, LabError> {
        let greatest = geometry.ids().map(|id| geometry.page_number(PageId(id))).max().unwrap_or(0);
        if greatest < capacity_pages {
            return Ok(Self::AsNumbered(geometry.clone()));
        }
        let block_pages = u64::from(pages_per_block);
        if Self::blocks(geometry, pages_per_block) * block_pages <= capacity_pages {
            return Ok(Self::BlocksSqueezed(squeeze(geometry, block_pages)));
        }
        let footprint_pages = u64::from(geometry.pages());
        if footprint_pages > capacity_pages {
            return Err(LabError::DiskTooSmall { footprint_pages, capacity_pages });
        }
        Ok(Self::PagesSqueezed(squeeze(geometry, 1)))
    }

    /// Return the number of blocks that have a page.
    pub(crate) fn blocks(geometry: &Geometry, pages_per_block: u32) -> u64 {
        let mut last = None;
        let pages = geometry.ids_by_page_number().into_iter();
        let blocks = pages.map(|page| geometry.page_number(page) / u64::from(pages_per_block));
        blocks.filter(|&block| last.replace(block) != Some(block)).count() as u64
    }

    /// Return the address of a page.
    pub(crate) fn address(&self, page: PageId) -> u64 {
        match self {
            Self::AsNumbered(geometry) => geometry.page_number(page),
            Self::BlocksSqueezed(places) | Self::PagesSqueezed(places) => {
                u64::from(places[page.index()])
            }
        }
    }

    /// Return its name, for reports.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::AsNumbered(_) => "as in the trace",
            Self::BlocksSqueezed(_) => "without the blocks that the trace leaves out",
            Self::PagesSqueezed(_) => "without the pages that the trace leaves out",
        }
    }
}

/// Return the place of each page if units without a page are left out.
fn squeeze(geometry: &Geometry, unit_pages: u64) -> Vec<u32> {
    let mut places = vec![0; geometry.pages() as usize];
    let (mut units, mut last) = (0_u64, None);
    for page in geometry.ids_by_page_number() {
        let number = geometry.page_number(page);
        let unit = number / unit_pages;
        units += u64::from(last.replace(unit) != Some(unit));
        let place = (units - 1) * unit_pages + number % unit_pages;
        places[page.index()] = u32::try_from(place).unwrap_or(u32::MAX);
    }
    places
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
            let placement = Placement::new(&geometry, capacity_pages, 4).unwrap();
            [0, 1, 2].map(|page| placement.address(PageId(page)))
        };
        assert_eq!(address(501), [500, 7, 90]);
        assert_eq!(address(500), [8, 3, 6], "500 = 125 x 4 + 0, 7 = 1 x 4 + 3, 90 = 22 x 4 + 2");
        assert_eq!(address(12), [8, 3, 6]);
        assert_eq!(address(11), [2, 0, 1]);
        assert!(Placement::new(&geometry, 2, 4).unwrap_err().to_string().contains("3 pages"));
    }
}
