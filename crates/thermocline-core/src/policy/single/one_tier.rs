//! A replacement algorithm as a policy of RAM over the disk.
//!
//! Write-back: a dirty page is written to disk when it is evicted; or write-through, for a policy that
//! has the parameter `writes`: then every write goes to disk too, and pages are clean. A page that the algorithm refuses
//! passes through memory: it is read or written at the disk.
//!
//! * Source: none; the algorithm's.
//! * State: the algorithm's, and one bit per page that exists.
//! * Cost: the algorithm's.
//! * Deviations: (1) it may be set up above a flash tier, which it leaves empty: so it stands as
//!   the "no flash" line in a comparison over flash sizes.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::{Outcome, Replacement, Space};
use crate::config::{Kind, Parameter, Value, Values};
use crate::prefetch::prefetch;
use crate::{Access, Actions, BoxedPolicy, Op, PageId, Policy, Setup, Survivor, Tier, WriteMiss};

/// Whether writes go through to disk, for a policy that was published so.
pub(crate) const WRITES_THROUGH: Parameter = Parameter {
    name: "writes",
    kind: Kind::Choice(&["through", "back"]),
    default: Value::Choice("through"),
    summary: "whether a write goes to disk at once, or when its page leaves the cache",
    source: "the baseline of HCA writes through",
};

/// An algorithm over a disk.
#[derive(Clone, Debug)]
pub struct OneTier<R> {
    algorithm: R,
    /// Per page, a bit: whether memory's copy is newer than the disk's.
    dirty: Vec<u64>,
    capacity_pages: u32,
    write_miss: WriteMiss,
    writes_through: bool,
    disk: Tier,
    /// The tier that a restart finds pages in, if the hierarchy has one.
    flash: Option<Tier>,
}

/// Builds the policy for the registry.
pub fn build<R: Replacement + Send + 'static>(setup: &Setup, values: &Values) -> BoxedPolicy {
    let pages = setup.geometry.pages();
    let capacity_pages = setup.capacity_pages[0];
    Box::new(OneTier {
        algorithm: R::new(Space { pages, capacity_pages }, values),
        dirty: vec![0; pages.div_ceil(u64::BITS) as usize],
        capacity_pages,
        write_miss: setup.write_miss,
        writes_through: values.iter().any(|value| value == ("writes", Value::Choice("through"))),
        disk: setup.disk(),
        flash: (setup.capacity_pages.len() > 1).then_some(Tier::FLASH),
    })
}

impl<R> OneTier<R> {
    /// The page is dirty if this was a write. What comes next, a processor cannot guess; so there is no
    /// branch.
    #[inline]
    fn note_write(&mut self, page: PageId, op: Op) {
        self.dirty[page.index() / 64] |= u64::from(op == Op::Write) << (page.index() % 64);
    }

    /// Whether the page was dirty; it is clean now.
    #[inline]
    fn take_dirty(&mut self, page: PageId) -> bool {
        let word = &mut self.dirty[page.index() / 64];
        let bit = 1 << (page.index() % 64);
        let was_dirty = *word & bit != 0;
        *word &= !bit;
        was_dirty
    }
}

impl<R: Replacement> Policy for OneTier<R> {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "replays spend their time here")]
    fn access(&mut self, Access { page, op, .. }: Access, out: &mut Actions) {
        let evicted = match self.algorithm.refer(page, op) {
            Outcome::Hit => {
                out.serve(page, op, Tier::RAM, Tier::RAM);
                None
            }
            Outcome::Refused => {
                out.serve(page, op, self.disk, self.disk);
                return;
            }
            Outcome::Admitted { evicted } => {
                if self.write_miss == WriteMiss::Fetch || op == Op::Read {
                    out.copy(page, self.disk, Tier::RAM);
                }
                out.serve(page, op, self.disk, Tier::RAM);
                evicted
            }
        };
        if !self.writes_through {
            self.note_write(page, op);
        } else if op == Op::Write {
            out.copy(page, Tier::RAM, self.disk);
        }
        if let Some(victim) = evicted {
            if self.take_dirty(victim) {
                out.copy(victim, Tier::RAM, self.disk);
            }
            out.drop_copy(victim, Tier::RAM);
        }
    }

    fn flush(&mut self, out: &mut Actions) {
        for (index, word) in (0_u32..).zip(&mut self.dirty) {
            while *word != 0 {
                out.copy(PageId(index * 64 + word.trailing_zeros()), Tier::RAM, self.disk);
                *word &= *word - 1;
            }
        }
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
        self.algorithm.prefetch(page);
        prefetch(&self.dirty, page.index() / 64);
    }

    fn save_memory(&mut self) {
        self.algorithm.save_memory();
    }

    fn assert_invariants(&self) {
        self.algorithm.assert_invariants();
        let pages = (0_u32..).zip(&self.dirty).flat_map(|(index, word)| {
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| PageId(index * 64 + bit))
        });
        let mut dirty_pages = 0;
        for page in pages {
            assert!(self.algorithm.contains(page), "what is dirty is in memory");
            dirty_pages += 1;
        }
        assert!(dirty_pages <= self.capacity_pages, "the memory holds its capacity");
    }

    fn memory_bytes(&self) -> usize {
        self.algorithm.memory_bytes() + size_of_val(&*self.dirty)
    }

    fn metadata_bytes(&self) -> usize {
        self.algorithm.metadata_bytes()
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        self.algorithm.gauges(&mut |name, value| report(name, Tier::RAM, value));
    }
}
