//! S3-FIFO: a small FIFO filters pages that are referenced once out of the main one.
//!
//! New pages enter the small queue S. One that leaves it goes on to the main queue M if it was
//! referenced more than once there; otherwise it leaves the cache, and is remembered in a queue of
//! ghosts G. A page that returns while it is remembered enters M at once. M is a clock with a counter
//! of two bits.
//!
//! * Source: Yang et al., *FIFO Queues are All You Need for Cache Eviction*, SOSP '23, section 4,
//!   Algorithm 1.
//! * State: 4 bytes per page that exists, about 22 bytes per cached page.
//! * Cost: amortised O(1) per reference.
//! * Deviations: (1) A page that comes when the cache is full evicts one page. In Algorithm 1 a move
//!   from S to a full M evicts from M too, which would leave room for several; the authors' code does
//!   as here. (2) While the cache fills up, pages enter S beyond its share, as in Algorithm 1; with
//!   `fill_main` they enter M when S has its share, as in the authors' later code and in libCacheSim.
//!   (3) An S of less than one page is one of a page. libCacheSim 0.3.5 refuses every page if S is of
//!   one page, so its misses differ in caches of less than 20 pages.

use super::Algorithm;
use super::three_queues::{COUNT_MAX, Rules, ThreeQueues, Variant, count};
use crate::config::{Parameter, Values};

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::real("small_share", 0.0..=1.0, 0.1)
        .summary("share of the small queue in the cache")
        .source("the paper, section 4.1"),
    Parameter::real("ghost_share", 0.0..=100.0, 0.9)
        .summary("ghosts that are remembered, as a share of the cache's pages")
        .source("the paper, section 4.1: as many as M has pages"),
    Parameter::integer("promote_at", 1..=COUNT_MAX as u64, 2)
        .summary("hits in the small queue that bring a page to the main one")
        .source("the paper, Algorithm 1: a counter above 1"),
    Parameter::switch("fill_main", false)
        .summary(
            "while the cache fills up, pages enter the main queue once the small one has its share",
        )
        .source("the paper, Algorithm 1: no; libCacheSim: yes"),
];

/// Three static queues.
#[derive(Clone, Copy, Debug)]
pub struct S3Fifo;

impl Variant for S3Fifo {
    fn rules(values: &Values) -> Rules {
        Rules {
            small_share: values.real("small_share"),
            ghost_share: values.real("ghost_share"),
            window_share: 0.0,
            promote_at: count(values, "promote_at"),
            return_at: 0,
            count_max: COUNT_MAX,
            fills_main: values.switch("fill_main"),
        }
    }
}

/// Its row in the registry.
pub const S3_FIFO: Algorithm = Algorithm::new::<ThreeQueues<S3Fifo>>(
    "s3-fifo",
    "a small FIFO filters pages that are referenced once out of a main one; no flash",
    "Yang et al.: FIFO Queues are All You Need for Cache Eviction (S3-FIFO), SOSP 2023",
    module_path!(),
    PARAMETERS,
);
