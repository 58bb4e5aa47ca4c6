//! Hot-data identification: which pages are written often, and lately.
//!
//! An [`Identifier`] is told a stream of page numbers, in the papers the writes that reach a flash
//! device, and says of each whether its page is hot with it. Like a policy it is a pure state
//! machine: the same pages in the same order give the same answers on every platform. Time is the
//! number of pages recorded.
//!
//! ```
//! use thermocline_core::{Heat, Identifier, PageId, hotness::registry};
//!
//! let mut mbf = registry::find("mbf")?.build_default(1 << 20)?; // page ids below 2^20
//! let heats: Vec<Heat> = (0..5).map(|_| mbf.record(PageId(4711))).collect();
//! assert_eq!(heats, [Heat::Cold, Heat::Cold, Heat::Hot, Heat::Hot, Heat::Hot]);
//! assert_eq!(mbf.memory_bits(), 8 * 1024);
//! # Ok::<(), thermocline_core::ConfigError>(())
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::Debug;

use crate::PageId;
use registry::IdentifierEntry;

mod classes;
pub mod count_min;
pub mod dam;
mod filters;
pub mod fms;
mod hash;
mod lanes;
pub mod mbf;
pub mod mhf;
pub mod registry;
pub mod tiny_lfu;
pub mod two_level_lru;
pub mod wdac;

pub use classes::{CLASSES_MAX, Classes};
pub use filters::{Filters, Packed, Separate};
pub use hash::PageHash;
pub use lanes::{Lanes, Place, WIDTH_BITS_MAX};

/// All identifiers, in the order in which they are listed.
pub const ENTRIES: &[IdentifierEntry] = &[
    mbf::MBF,
    mhf::MHF,
    dam::DAM,
    wdac::WDAC,
    two_level_lru::TWO_LEVEL_LRU,
    fms::FMS,
    count_min::COUNT_MIN,
];

/// An identifier that owns its state, ready to be driven.
pub type BoxedIdentifier = Box<dyn Identifier + Send>;

/// Distance, in pages, by which the state of an identifier is prefetched: enough to hide a memory
/// access.
const PREFETCH_PAGES: usize = 16;

/// Verdict of an identifier on a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Heat {
    /// The page is written seldom, or not lately.
    #[default]
    Cold = 0,
    /// The page is written often and lately.
    Hot = 1,
}

/// A hot-data identifier.
pub trait Identifier: Debug {
    /// Records one write of `page`, and returns whether that makes the page hot.
    fn record(&mut self, page: PageId) -> Heat;

    /// Records writes in order and appends the heat of each: [`record`](Self::record) for many,
    /// without a dynamic call for each, and with their state prefetched.
    fn record_all(&mut self, pages: &[PageId], heats: &mut Vec<Heat>) {
        heats.extend(pages.iter().enumerate().map(|(index, &page)| {
            if let Some(&coming) = pages.get(index + PREFETCH_PAGES) {
                self.prefetch(coming);
            }
            self.record(page)
        }));
    }

    /// Return the hot data index of a page as things stand: what is compared with the threshold.
    fn hotness(&self, page: PageId) -> f64;

    /// Return the hot data index from which on a page is hot.
    fn threshold(&self) -> f64;

    /// Return the heat that a page has now, without recording it.
    fn heat(&self, page: PageId) -> Heat {
        Heat::hot_if(self.hotness(page) >= self.threshold())
    }

    /// Return the number of writes that lie between two decays; `None` if the identifier forgets
    /// with every write.
    fn decay_writes(&self) -> Option<u64>;

    /// Forgets at once what it would forget at the next decay. Does nothing without decays.
    fn decay(&mut self);

    /// Forgets everything.
    fn reset(&mut self);

    /// Return the state in bits, as stored: what grows with the parameters or with the pages that
    /// exist.
    fn memory_bits(&self) -> u64;

    /// Asks the processor for the state of a page that will be recorded soon. No effect otherwise.
    #[inline]
    fn prefetch(&self, _page: PageId) {}

    /// Checks every invariant of the state.
    ///
    /// # Panics
    /// If one is violated, with its name.
    fn assert_invariants(&self);
}

impl Heat {
    /// Hot if so, else cold.
    #[inline]
    pub const fn hot_if(is_hot: bool) -> Self {
        if is_hot { Self::Hot } else { Self::Cold }
    }
}
