//! Foresight over a trace: for each access, the index of the next access to its page.

use alloc::boxed::Box;
use alloc::vec;

use crate::PageId;
use crate::config::ConfigError;
use crate::prefetch::prefetch;

/// The index of the next access to a page that is not accessed again.
pub const NEVER: u32 = u32::MAX;

/// The most accesses: indices have 32 bits, and two mark absence.
pub const ACCESSES_MAX: u32 = NEVER - 1;

/// The accesses of a trace, in order, as an oracle sees them.
#[derive(Clone, Debug)]
pub struct Foresight {
    accesses: Box<[Step]>,
}

/// One access.
#[derive(Clone, Copy, Debug)]
struct Step {
    page: u32,
    /// The index of the next access to the page, or [`NEVER`].
    next: u32,
}

impl Foresight {
    /// Compute the future of a trace in one pass from its end.
    ///
    /// # Errors
    /// [`ConfigError::TooManyAccesses`] if there are more than [`ACCESSES_MAX`].
    ///
    /// # Panics
    /// If a page id is not below `pages`.
    pub fn new(
        pages: u32,
        accesses: impl ExactSizeIterator<Item = PageId>,
    ) -> Result<Self, ConfigError> {
        let count = accesses.len();
        if u32::try_from(count).is_ok_and(|count| count <= ACCESSES_MAX) {
            let mut steps: Box<[Step]> =
                accesses.map(|page| Step { page: page.0, next: NEVER }).collect();
            let mut next_of = vec![NEVER; pages as usize];
            for (index, step) in steps.iter_mut().enumerate().rev() {
                #[expect(clippy::cast_possible_truncation, reason = "counted just above")]
                let index = index as u32;
                step.next = core::mem::replace(&mut next_of[step.page as usize], index);
            }
            return Ok(Self { accesses: steps });
        }
        Err(ConfigError::TooManyAccesses { accesses: count as u64, accesses_max: ACCESSES_MAX })
    }

    /// Return the number of accesses.
    #[expect(clippy::len_without_is_empty, reason = "whether there are none is of no interest")]
    pub fn len(&self) -> usize {
        self.accesses.len()
    }

    /// Return the page of an access, and the index of the next access to it, or [`NEVER`].
    ///
    /// # Panics
    /// If `index` is not below the number of accesses.
    #[inline]
    pub fn access(&self, index: usize) -> (PageId, u32) {
        let Step { page, next } = self.accesses[index];
        (PageId(page), next)
    }

    /// Return the index of the next access to the page of an access, if there is such an access and
    /// it is not the page's last.
    #[inline]
    pub fn next(&self, index: usize) -> Option<u32> {
        self.accesses.get(index).map(|step| step.next).filter(|&next| next != NEVER)
    }

    /// Return the page of an access.
    ///
    /// # Panics
    /// If `index` is not below the number of accesses.
    #[inline]
    pub fn page(&self, index: usize) -> PageId {
        self.access(index).0
    }

    /// Asks the processor for an access that will be looked up soon.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        prefetch(&self.accesses, index);
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn every_access_knows_the_next_one_to_its_page() {
        let pages = [3, 1, 3, 3, 0, 1].map(PageId);
        let foresight = Foresight::new(4, pages.into_iter()).unwrap();
        let next: Vec<u32> = (0..foresight.len()).map(|index| foresight.access(index).1).collect();
        assert_eq!(next, [2, 5, 3, NEVER, NEVER, NEVER]);
        assert_eq!([0, 3, 6].map(|index| foresight.next(index)), [Some(2), None, None]);
        assert!((0..6).all(|index| foresight.page(index) == pages[index]));
    }

    #[test]
    fn more_accesses_than_indices_are_refused() {
        let accesses = core::iter::repeat_n(PageId(0), ACCESSES_MAX as usize + 1);
        let error = Foresight::new(1, accesses).unwrap_err().to_string();
        assert!(error.contains("4294967294"), "{error}");
    }
}
