//! Policies of one cache tier over the disk.
//!
//! Each is a [`Replacement`]: it says which pages a cache keeps, and nothing else. [`one_tier`] makes a
//! policy of RAM over disk of it, and [`ALGORITHMS`] lists them, so that they can be tiers of a
//! hybrid.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use core::fmt::Debug;

use crate::capabilities::Capabilities;
use crate::config::{Parameter, Values};
use crate::entry::{Build, PolicyEntry};
use crate::{Geometry, Ids, Indexing, Inputs, Op, PageId};

pub mod arc;
pub mod cacheus;
mod candidates;
pub mod car;
pub mod clock;
pub mod clock_2q_plus;
pub mod clock_pro;
mod experts;
pub mod fifo;
pub mod hooked;
pub mod hyperbolic;
pub mod le_car;
mod learner;
pub mod lfu;
pub mod lirs;
pub mod lrfu;
pub mod lru;
pub mod lru_2;
pub mod mq;
pub mod mru;
pub mod one_tier;
pub mod opt;
pub mod random;
pub mod s3_fifo;
pub mod s4_fifo;
pub mod sieve;
pub mod slru;
pub mod three_l_cache;
mod three_queues;
pub mod tiny_lfu;
pub mod two_q;
pub mod w_tiny_lfu;

/// A replacement algorithm, and the policy of RAM over the disk that is made of it.
#[derive(Clone, Debug)]
pub struct Algorithm {
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Builds it, empty.
    pub build: fn(Space<'_>, &Values) -> Box<dyn Replacement + Send>,
    policy: PolicyEntry,
}

/// All algorithms that may be a tier of a hybrid: those that need not know the future. The registry
/// has a policy of each.
pub const ALGORITHMS: &[Algorithm] = &[
    two_q::TWO_Q,
    three_l_cache::THREE_L_CACHE,
    arc::ARC,
    cacheus::CACHEUS,
    car::CAR,
    clock::CLOCK,
    clock_2q_plus::CLOCK_2Q_PLUS,
    clock_pro::CLOCK_PRO,
    fifo::FIFO,
    hyperbolic::HYPERBOLIC,
    le_car::LE_CAR,
    lfu::LFU,
    lirs::LIRS,
    lrfu::LRFU,
    lru::LRU,
    lru_2::LRU_2,
    mq::MQ,
    mru::MRU,
    random::RANDOM,
    s3_fifo::S3_FIFO,
    s4_fifo::S4_FIFO,
    sieve::SIEVE,
    slru::SLRU,
    tiny_lfu::TINY_LFU,
    w_tiny_lfu::W_TINY_LFU,
];

/// The names of all algorithms, as choices of a parameter.
pub(crate) const NAMES: [&str; ALGORITHMS.len()] = {
    let mut names = [""; ALGORITHMS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = ALGORITHMS[index].name();
        index += 1;
    }
    names
};

/// Algorithms that know the future: they run on the trace that they were built for.
pub const ORACLES: &[Algorithm] = &[opt::OPT];

impl Algorithm {
    const fn new<R: Registered + Send + 'static>(
        name: &'static str,
        summary: &'static str,
        source: &'static str,
        module: &'static str,
        parameters: &'static [Parameter],
    ) -> Self {
        let build_policy = Build::Function(one_tier::build::<R>);
        let policy = PolicyEntry::of_ram(name, summary, source, module, parameters, build_policy);
        Self { parameters, build: boxed::<R>, policy }
    }

    /// Create an algorithm that is compiled for dense ids and for sparse ones apart: where little
    /// is done per access, the choice between them would show.
    const fn by_indexing<
        Dense: Registered + Send + 'static,
        Sparse: Registered + Send + 'static,
    >(
        name: &'static str,
        summary: &'static str,
        source: &'static str,
        module: &'static str,
        parameters: &'static [Parameter],
    ) -> Self {
        let build_policy = Build::Function(one_tier::build_by_indexing::<Dense, Sparse>);
        let policy = PolicyEntry::of_ram(name, summary, source, module, parameters, build_policy);
        Self { parameters, build: boxed_by_indexing::<Dense, Sparse>, policy }
    }

    /// Create an algorithm whose policy has more parameters, among them whether [writes go
    /// through](one_tier::WRITES_THROUGH).
    const fn with_writes<R: Registered + Send + 'static>(
        name: &'static str,
        summary: &'static str,
        source: &'static str,
        module: &'static str,
        parameters: &'static [Parameter],
        policy_parameters: &'static [Parameter],
    ) -> Self {
        let build_policy = Build::Function(one_tier::build_with_writes::<R>);
        let policy =
            PolicyEntry::of_ram(name, summary, source, module, policy_parameters, build_policy);
        Self { parameters, build: boxed::<R>, policy }
    }

    const fn with(mut self, capabilities: Capabilities) -> Self {
        self.policy.capabilities = capabilities;
        self
    }

    /// Return its row in the registry.
    pub const fn policy(&self) -> &PolicyEntry {
        &self.policy
    }

    /// Return its name, by which users choose it.
    pub const fn name(&self) -> &'static str {
        match self.policy.name {
            Cow::Borrowed(name) => name,
            Cow::Owned(_) => unreachable!(),
        }
    }
}

/// Build the algorithm of this name, one of [`NAMES`], with its default parameters.
pub(crate) fn build_named(name: &str, space: Space<'_>) -> Box<dyn Replacement + Send> {
    let known = ALGORITHMS.iter().find(|algorithm| algorithm.name() == name);
    let Algorithm { build, parameters, .. } = known.expect("a choice is one of these");
    let values = Values::resolve(name, parameters, &[]).expect("defaults go together");
    build(space, &values)
}

fn boxed<R: Registered + Send + 'static>(
    space: Space<'_>,
    values: &Values,
) -> Box<dyn Replacement + Send> {
    Box::new(R::new(space, values))
}

fn boxed_by_indexing<Dense: Registered + Send + 'static, Sparse: Registered + Send + 'static>(
    space: Space<'_>,
    values: &Values,
) -> Box<dyn Replacement + Send> {
    match space.ids.indexing {
        Indexing::Dense => boxed::<Dense>(space, values),
        Indexing::Sparse => boxed::<Sparse>(space, values),
    }
}

/// Return a share of the pages of a cache, rounded down.
fn share_of(capacity_pages: u32, share: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not less than none, and more than can be counted is as many as can"
    )]
    let pages = (f64::from(capacity_pages) * share) as u32;
    pages
}

/// The cache that an algorithm is built for.
#[derive(Clone, Copy, Debug)]
pub struct Space<'a> {
    /// The page ids that may be referenced.
    pub ids: Ids,
    /// The pages that it may keep, at least one.
    pub capacity_pages: u32,
    /// Map of the pages to the address space.
    pub geometry: &'a Geometry,
    /// Knowledge of future references.
    pub inputs: &'a Inputs,
}

/// Outcome of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The page was in the cache, and still is.
    Hit,
    /// The page was not in the cache, and is now; with the page that left for it, if the cache was
    /// full.
    Admitted {
        /// The page that left.
        evicted: Option<PageId>,
    },
    /// The page was not in the cache, which is unchanged: the page does not deserve another's
    /// place.
    Refused,
}

/// A replacement algorithm that a [space](Space) and parameters suffice to build, so that a table can
/// list it.
pub trait Registered: Replacement + Sized {
    /// Create an empty cache.
    fn new(space: Space<'_>, values: &Values) -> Self;
}

/// Replacement algorithm of a cache of one tier, with its admission if it has one.
///
/// It sees every reference, and holds at most its capacity after each. The same calls give the same
/// outcomes on every platform.
pub trait Replacement: Debug {
    /// Process a reference to a page.
    fn refer(&mut self, page: PageId, op: Op) -> Outcome;

    /// Return `true` if a page is in the cache.
    fn contains(&self, page: PageId) -> bool;

    /// Takes a page out of the cache if it is there, and forgets what is known of it.
    fn forget(&mut self, page: PageId);

    /// Prefetches the data that the next reference to `page` will read first.
    #[inline]
    fn prefetch(&self, _page: PageId) {}

    /// Checks every invariant of the state.
    ///
    /// # Panics
    /// If one is violated, with its name.
    fn assert_invariants(&self);

    /// Heap memory in bytes, as allocated.
    fn memory_bytes(&self) -> usize;

    /// Return the size, in bytes, of the data that the published algorithm keeps of pages outside
    /// the cache.
    fn metadata_bytes(&self) -> usize {
        0
    }

    /// Report the current values that the algorithm adapts: a name, the value.
    fn gauges(&self, _report: &mut dyn FnMut(&'static str, f64)) {}
}

impl<R: Replacement + ?Sized> Replacement for Box<R> {
    fn refer(&mut self, page: PageId, op: Op) -> Outcome {
        (**self).refer(page, op)
    }

    fn contains(&self, page: PageId) -> bool {
        (**self).contains(page)
    }

    fn forget(&mut self, page: PageId) {
        (**self).forget(page);
    }

    fn prefetch(&self, page: PageId) {
        (**self).prefetch(page);
    }

    fn assert_invariants(&self) {
        (**self).assert_invariants();
    }

    fn memory_bytes(&self) -> usize {
        (**self).memory_bytes()
    }

    fn metadata_bytes(&self) -> usize {
        (**self).metadata_bytes()
    }

    fn gauges(&self, report: &mut dyn FnMut(&'static str, f64)) {
        (**self).gauges(report);
    }
}
