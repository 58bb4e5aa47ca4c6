//! Policies of one cache tier over the disk.
//!
//! Each is a [`Replacement`]: it says which pages a cache keeps, and nothing else. [`one_tier`] makes a
//! policy of RAM over disk of it, and [`ALGORITHMS`] lists them, so that they can be tiers of a
//! hybrid.

use alloc::boxed::Box;
use core::fmt::Debug;

use crate::Setup;
use crate::config::{Kind, Parameter, Value, Values};
use crate::{BoxedPolicy, Ids, Op, PageId};

pub mod arc;
pub mod cacheus;
pub mod car;
pub mod clock;
pub mod clock_pro;
mod experts;
pub mod fifo;
pub mod hyperbolic;
pub mod le_car;
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
pub mod sieve;
pub mod slru;
pub mod tiny_lfu;
pub mod two_q;
pub mod w_tiny_lfu;

/// A replacement algorithm, as the registry lists it.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// Its name, by which users choose it.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Who published it, where.
    pub source: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Builds it, empty.
    pub build: fn(Space, &Values) -> Box<dyn Replacement + Send>,
    /// Its parameters as a policy of RAM over the disk.
    pub(crate) policy_parameters: &'static [Parameter],
    pub(crate) build_policy: fn(&Setup, &Values) -> BoxedPolicy,
}

/// All algorithms that may be a tier of a hybrid: those that need not know the future. The registry
/// has a policy of each.
pub const ALGORITHMS: &[Algorithm] = &[
    Algorithm::new::<two_q::TwoQ>(
        "2q",
        "a FIFO for new pages, an LRU for those that return after they left it; no flash",
        "Johnson, Shasha: 2Q, VLDB 1994",
        two_q::PARAMETERS,
    ),
    Algorithm::new::<arc::Arc>(
        "arc",
        "pages seen once and pages seen again, by a target that ghosts adapt; no flash",
        "Megiddo, Modha: ARC, FAST 2003",
        &[],
    ),
    Algorithm::new::<cacheus::Cacheus>(
        "cacheus",
        "SR-LRU and CR-LFU by weights that regret moves, at a rate that is learned; no flash",
        "Rodriguez et al.: Learning Cache Replacement with CACHEUS, FAST 2021",
        cacheus::PARAMETERS,
    ),
    Algorithm::new::<car::Car>(
        "car",
        "ARC with two clocks: a hit only sets a bit; no flash",
        "Bansal, Modha: CAR, Clock with Adaptive Replacement, FAST 2004",
        &[],
    ),
    Algorithm::new::<clock::Clock>(
        "clock",
        "first in, first out, with further chances for pages that were hit; no flash",
        "Corbato: A Paging Experiment with the Multics System, MIT 1968",
        clock::PARAMETERS,
    ),
    Algorithm::new::<clock_pro::ClockPro>(
        "clock-pro",
        "LIRS with clock hands, and a share of cold pages that adapts; no flash",
        "Jiang, Chen, Zhang: CLOCK-Pro, USENIX ATC 2005",
        clock_pro::PARAMETERS,
    ),
    Algorithm::new::<fifo::Fifo>("fifo", "first in, first out, no flash", "baseline", &[]),
    Algorithm::new::<hyperbolic::Hyperbolic>(
        "hyperbolic",
        "of a random sample, the page with the fewest references per time leaves; no flash",
        "Blankstein, Sen, Freedman: Hyperbolic Caching, USENIX ATC 2017",
        hyperbolic::PARAMETERS,
    ),
    Algorithm::new::<le_car::LeCaR>(
        "lecar",
        "LRU and LFU by weights that regret moves; no flash",
        "Vietri et al.: Driving Cache Replacement with ML-based LeCaR, HotStorage 2018",
        le_car::PARAMETERS,
    ),
    Algorithm::new::<lfu::Lfu>(
        "lfu",
        "least frequently used, write-through, no flash: the baseline of HCA",
        "baseline; aging: Arlitt et al.: LFU-DA, SIGMETRICS PER 27(4), 2000",
        lfu::PARAMETERS,
    )
    .with_policy_parameters(lfu::POLICY_PARAMETERS),
    Algorithm::new::<lirs::Lirs>(
        "lirs",
        "pages whose last two references were close together, by a stack with ghosts; no flash",
        "Jiang, Zhang: LIRS, SIGMETRICS 2002",
        lirs::PARAMETERS,
    ),
    Algorithm::new::<lrfu::Lrfu>(
        "lrfu",
        "every reference counts, the less the older it is: between LFU and LRU; no flash",
        "Lee et al.: LRFU, IEEE Trans. Computers 50(12), 2001",
        lrfu::PARAMETERS,
    ),
    Algorithm::new::<lru::Lru>("lru", "least recently used, write-back, no flash", "baseline", &[]),
    Algorithm::new::<lru_2::Lru2>(
        "lru-2",
        "the page whose reference before last is longest ago leaves; no flash",
        "O'Neil, O'Neil, Weikum: The LRU-K Page Replacement Algorithm, SIGMOD 1993",
        lru_2::PARAMETERS,
    ),
    Algorithm::new::<mq::Mq>(
        "mq",
        "queues by the logarithm of a page's frequency, where unused pages sink; no flash",
        "Zhou, Philbin, Li: Multi-Queue (MQ), USENIX 2001",
        mq::PARAMETERS,
    ),
    Algorithm::new::<mru::Mru>("mru", "most recently used leaves, no flash", "baseline", &[]),
    Algorithm::new::<random::Random>(
        "random",
        "a page drawn by lot leaves, no flash",
        "baseline",
        random::PARAMETERS,
    ),
    Algorithm::new::<s3_fifo::S3Fifo>(
        "s3-fifo",
        "a small FIFO filters pages that are referenced once out of a main one; no flash",
        "Yang et al.: FIFO Queues are All You Need for Cache Eviction (S3-FIFO), SOSP 2023",
        s3_fifo::PARAMETERS,
    ),
    Algorithm::new::<sieve::Sieve>(
        "sieve",
        "a hand moves over a FIFO, and evicts the first page that it finds unvisited; no flash",
        "Zhang et al.: SIEVE is Simpler than LRU, NSDI 2024",
        &[],
    ),
    Algorithm::new::<slru::Slru>(
        "slru",
        "LRU in segments; a hit brings a page to the next higher one; no flash",
        "Karedla, Love, Wherry: Caching Strategies, IEEE Computer 27(3), 1994",
        slru::PARAMETERS,
    ),
    Algorithm::new::<tiny_lfu::TinyLfuAdmission<lru::Lru>>(
        "tinylfu",
        "LRU that admits a page only if it is referenced more often than the victim; no flash",
        "Einziger, Friedman, Manes: TinyLFU, ACM Trans. Storage 13(4), 2017",
        tiny_lfu::PARAMETERS,
    ),
    Algorithm::new::<w_tiny_lfu::WTinyLfu>(
        "w-tinylfu",
        "a small LRU window before a segmented LRU that TinyLFU guards; no flash",
        "Einziger, Friedman, Manes: TinyLFU, ACM Trans. Storage 13(4), 2017",
        w_tiny_lfu::PARAMETERS,
    ),
];

/// Those that know the future: they run on the trace that they were built for.
pub const ORACLES: &[Algorithm] = &[Algorithm::new::<opt::Opt>(
    "opt",
    "the page whose next reference is farthest away leaves: an oracle (Belady); no flash",
    "Belady: A Study of Replacement Algorithms, IBM Systems Journal 5(2), 1966",
    &[],
)];

/// Where an algorithm's draws begin.
pub(crate) const SEED: Parameter = Parameter {
    name: "seed",
    kind: Kind::Integer { min: 0, max: u64::MAX },
    default: Value::Integer(1),
    summary: "where the random numbers begin",
    source: "any",
};

impl Algorithm {
    const fn new<R: Replacement + Send + 'static>(
        name: &'static str,
        summary: &'static str,
        source: &'static str,
        parameters: &'static [Parameter],
    ) -> Self {
        Self {
            name,
            summary,
            source,
            parameters,
            build: boxed::<R>,
            policy_parameters: parameters,
            build_policy: one_tier::build::<R>,
        }
    }

    const fn with_policy_parameters(self, policy_parameters: &'static [Parameter]) -> Self {
        Self { policy_parameters, ..self }
    }
}

fn boxed<R: Replacement + Send + 'static>(
    space: Space,
    values: &Values,
) -> Box<dyn Replacement + Send> {
    Box::new(R::new(space, values))
}

/// A share of the pages of a cache, rounded down.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The page ids that may be referenced.
    pub ids: Ids,
    /// The pages that it may keep, at least one.
    pub capacity_pages: u32,
}

/// What a reference came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The page was in the cache, and still is.
    Hit,
    /// It was not, and is now; the page that left for it, if the cache was full.
    Admitted {
        /// The page that left.
        evicted: Option<PageId>,
    },
    /// It was not, and the cache is as it was: the page is not worth another's place.
    Refused,
}

/// Which pages a cache of one tier keeps: a replacement algorithm, with its admission if it has one.
///
/// It is told every reference, and holds at most its capacity after each. The same calls give the
/// same outcomes on every platform.
pub trait Replacement: Debug {
    /// An empty cache.
    fn new(space: Space, values: &Values) -> Self
    where
        Self: Sized;

    /// A reference to a page.
    fn refer(&mut self, page: PageId, op: Op) -> Outcome;

    /// Whether a page is in the cache.
    fn contains(&self, page: PageId) -> bool;

    /// Takes a page out of the cache if it is there, and forgets what is known of it.
    fn forget(&mut self, page: PageId);

    /// Asks the processor for what the next reference to `page` will read first.
    #[inline]
    fn prefetch(&self, _page: PageId) {}

    /// Checks every invariant of the state.
    ///
    /// # Panics
    /// If one is violated, with its name.
    fn assert_invariants(&self);

    /// Heap memory in bytes, as allocated.
    fn memory_bytes(&self) -> usize;

    /// What the published algorithm keeps of pages that are not in the cache, in bytes.
    fn metadata_bytes(&self) -> usize {
        0
    }

    /// Tells `report` what the algorithm adapts, as it stands: a name, the value.
    fn gauges(&self, _report: &mut dyn FnMut(&'static str, f64)) {}
}
