//! LRU: evict the page whose last reference is longest ago. The baseline without flash.
//!
//! Write-back: a dirty page is written to disk when it is evicted.
//!
//! * Source: the classical algorithm; as the memory of all buffer-pool papers here.
//! * State: 4 bytes per page that exists, 20 bytes per cached page.
//! * Cost: amortised O(1) per access.
//! * Deviations: (1) it may be set up above a flash tier, which it leaves empty: so it stands as
//!   the "no flash" line in a comparison over flash sizes.

use alloc::boxed::Box;

use crate::config::Values;
use crate::queue::Recency;
use crate::{Access, Actions, BoxedPolicy, Op, PageId, Policy, Setup, Survivor, Tier, WriteMiss};

/// State bit: the page is in memory.
const RESIDENT: u8 = 1;
/// State bit: the page is newer than the disk's.
const DIRTY: u8 = 2;
/// The only class: every page of the queue.
const ANY: usize = 0;

/// Least recently used, over a disk.
#[derive(Clone, Debug)]
pub struct Lru {
    queue: Recency<1>,
    capacity_pages: u32,
    write_miss: WriteMiss,
    disk: Tier,
    /// The tier that a restart finds pages in, if the hierarchy has one.
    flash: Option<Tier>,
}

/// Builds the policy for the registry.
pub fn build(setup: &Setup, _values: &Values) -> BoxedPolicy {
    let capacity_pages = setup.capacity_pages[0];
    Box::new(Lru {
        queue: Recency::new(setup.geometry.pages(), capacity_pages.saturating_add(1), [u8::MAX]),
        capacity_pages,
        write_miss: setup.write_miss,
        disk: setup.disk(),
        flash: (setup.capacity_pages.len() > 1).then_some(Tier::FLASH),
    })
}

impl Policy for Lru {
    #[inline]
    fn access(&mut self, Access { page, op, .. }: Access, out: &mut Actions) {
        let dirty = if op == Op::Write { DIRTY } else { 0 };
        if let Some((_, state)) = self.queue.find(page) {
            self.queue.touch(page, state | dirty);
            out.serve(page, op, Tier::RAM, Tier::RAM);
            return;
        }
        if op == Op::Read || self.write_miss == WriteMiss::Fetch {
            out.copy(page, self.disk, Tier::RAM);
        }
        out.serve(page, op, self.disk, Tier::RAM);
        self.queue.touch(page, RESIDENT | dirty);
        if self.queue.len() > self.capacity_pages {
            let (position, state) = self.queue.oldest(ANY).expect("an over-full queue has a page");
            let victim = self.queue.page(position);
            if state & DIRTY != 0 {
                out.copy(victim, Tier::RAM, self.disk);
            }
            out.drop_copy(victim, Tier::RAM);
            self.queue.set_state(position, 0);
        }
    }

    fn flush(&mut self, out: &mut Actions) {
        self.queue.update_states(|page, state| {
            if state & DIRTY != 0 {
                out.copy(page, Tier::RAM, self.disk);
            }
            state & !DIRTY
        });
    }

    fn restore(&mut self, survivors: &[Survivor], out: &mut Actions) {
        for survivor in survivors {
            let flash = self.flash.expect("only a flash tier has survivors");
            if survivor.is_dirty {
                out.copy(survivor.page, flash, self.disk);
            }
            out.drop_copy(survivor.page, flash);
        }
    }

    #[inline]
    fn prefetch(&self, page: PageId) {
        self.queue.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.queue.assert_invariants();
        assert!(self.queue.len() <= self.capacity_pages, "the memory holds its capacity");
    }

    fn memory_bytes(&self) -> usize {
        self.queue.memory_bytes()
    }
}
