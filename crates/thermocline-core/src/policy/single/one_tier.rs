//! A replacement algorithm as a policy of RAM over the disk.
//!
//! Write-back: a dirty page is written to disk when it is evicted; or write-through, for a policy that
//! has the parameter `writes`: then every write goes to disk too, and pages are clean. A page that the algorithm refuses
//! passes through memory: it is read or written at the disk.
//!
//! * Source: none; the algorithm's.
//! * State: the algorithm's, and one bit per page that exists; sparse, 6 bytes per cached page.
//! * Cost: the algorithm's.
//! * Deviations: (1) it may be set up above a flash tier, which it leaves empty: so it stands as
//!   the "no flash" line in a comparison over flash sizes.

use alloc::boxed::Box;

use super::{Outcome, Registered, Replacement, Space};
use crate::action::Sink;
use crate::config::{Parameter, Values};
use crate::policy::for_each;
use crate::queue::PageSet;
use crate::{
    Access, Actions, BoxedPolicy, Counts, Indexing, Op, PageId, Policy, Setup, Survivor, Tier,
    WriteMiss,
};

/// Write mode, for a policy that was published with writes through to disk.
pub(crate) const WRITES_THROUGH: Parameter =
    Parameter::choice("writes", &["through", "back"], "through")
        .summary("whether a write goes to disk at once, or when its page leaves the cache")
        .source("the baseline of HCA writes through");

/// An algorithm over a disk.
#[derive(Clone, Debug)]
pub struct OneTier<R> {
    algorithm: R,
    /// The pages whose copy in memory is newer than the disk's.
    dirty: PageSet,
    capacity_pages: u32,
    write_miss: WriteMiss,
    writes_through: bool,
    disk: Tier,
    /// The tier that a restart finds pages in, if the hierarchy has one.
    flash: Option<Tier>,
}

/// Builds the policy of an algorithm that writes back.
pub(super) fn build<R: Registered + Send + 'static>(setup: &Setup, values: &Values) -> BoxedPolicy {
    Box::new(OneTier::new(R::new(space(setup), values), setup))
}

/// Builds the policy of an algorithm that is compiled for dense ids and for sparse ones apart.
pub(super) fn build_by_indexing<
    Dense: Registered + Send + 'static,
    Sparse: Registered + Send + 'static,
>(
    setup: &Setup,
    values: &Values,
) -> BoxedPolicy {
    match setup.indexing {
        Indexing::Dense => build::<Dense>(setup, values),
        Indexing::Sparse => build::<Sparse>(setup, values),
    }
}

/// Builds the policy of an algorithm that has [`WRITES_THROUGH`] among its parameters.
pub(super) fn build_with_writes<R: Registered + Send + 'static>(
    setup: &Setup,
    values: &Values,
) -> BoxedPolicy {
    let writes_through = values.choice(WRITES_THROUGH.name) == "through";
    Box::new(OneTier { writes_through, ..OneTier::new(R::new(space(setup), values), setup) })
}

/// Build the policy of an algorithm that a caller has made for the [space] of a setup. It writes
/// back.
pub fn policy(algorithm: impl Replacement + Send + 'static, setup: &Setup) -> BoxedPolicy {
    Box::new(OneTier::new(algorithm, setup))
}

/// Return the cache that the algorithm of a setup's first tier is built for.
pub fn space(setup: &Setup) -> Space<'_> {
    Space {
        ids: setup.ids(),
        capacity_pages: setup.capacity_pages[0],
        geometry: &setup.geometry,
        inputs: &setup.inputs,
    }
}

impl<R: Replacement> OneTier<R> {
    /// Create a policy that writes back.
    fn new(algorithm: R, setup: &Setup) -> Self {
        let capacity_pages = setup.capacity_pages[0];
        Self {
            algorithm,
            dirty: PageSet::new(setup.ids(), capacity_pages.saturating_add(1)),
            capacity_pages,
            write_miss: setup.write_miss,
            writes_through: false,
            disk: setup.disk(),
            flash: (setup.capacity_pages.len() > 1).then_some(Tier::FLASH),
        }
    }

    /// Process one page reference.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "replays spend their time here")]
    fn step(&mut self, Access { page, op, .. }: Access, out: &mut impl Sink) {
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
                let is_fetched = self.write_miss.fetches(op);
                out.copy_if(is_fetched, page, self.disk, Tier::RAM);
                out.serve(page, op, self.disk, Tier::RAM);
                evicted
            }
        };
        if !self.writes_through {
            self.dirty.insert_if(page, op == Op::Write);
        } else if op == Op::Write {
            out.copy(page, Tier::RAM, self.disk);
        }
        if let Some(victim) = evicted {
            out.copy_if(self.dirty.remove(victim), victim, Tier::RAM, self.disk);
            out.drop_copy(victim, Tier::RAM);
        }
    }
}

impl<R: Replacement> Policy for OneTier<R> {
    fn access(&mut self, access: Access, out: &mut Actions) {
        self.step(access, out);
    }

    fn access_all(
        &mut self,
        accesses: &[Access],
        coming: &[Access],
        _actions: &mut Actions,
        counts: &mut Counts,
    ) {
        for_each(self, accesses, coming, |policy, access| policy.step(access, counts));
    }

    fn flush(&mut self, out: &mut Actions) {
        self.dirty.drain(|page| out.copy(page, Tier::RAM, self.disk));
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
        self.dirty.prefetch(page);
    }

    fn assert_invariants(&self) {
        self.algorithm.assert_invariants();
        let mut dirty_pages = 0;
        for page in self.dirty.iter() {
            assert!(self.algorithm.contains(page), "what is dirty is in memory");
            dirty_pages += 1;
        }
        assert!(dirty_pages <= self.capacity_pages, "the memory holds its capacity");
    }

    fn memory_bytes(&self) -> usize {
        self.algorithm.memory_bytes() + self.dirty.memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        self.algorithm.metadata_bytes()
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, Tier, f64)) {
        self.algorithm.gauges(&mut |name, value| report(name, Tier::RAM, value));
    }
}
