//! S4-FIFO: S3-FIFO with five settings, of which two are new.
//!
//! References to a page count only once a share of the small queue S has entered after it, so that a
//! burst of references to a new page counts as one. A ghost returns to the main queue M only if it
//! was referenced often enough in S. The published system chooses the settings for each workload by a
//! model; here the user does.
//!
//! * Source: Xia et al., *Learning-Augmented Heuristics: Simple yet Smart, Robust and Interpretable
//!   Cache Eviction*, OSDI '26, section 4 and table 2.
//! * State: 4 bytes per page that exists, about 22 bytes per cached page.
//! * Cost: amortised O(1) per reference.
//! * Deviations: (1) The settings are parameters and stay as they are; with the defaults of
//!   table 2 the policy is S3-FIFO. In the authors' system a classifier of boosted trees picks
//!   one of 18 settings after a first part of the trace. Its 73 to 75 inputs are published: 20
//!   classes of hit positions in each queue, the queues' shares of the hits, and ratios of
//!   these. Its trees are not described by a rule; they were trained on 4,140 production traces,
//!   most of which are not public. A small model (5 times 900 trees) exists as generated C in
//!   the authors' forks of libCacheSim and CacheLib, and the paper's (140,400 trees, 190 MB) as
//!   a file that they give on request. Neither is included: to use one means to copy it, and by
//!   its authors' account the small one chooses hardly better than chance. A sweep over the
//!   settings finds the best for a trace. (2) A ghost that may not return to M leaves the ghosts
//!   and enters S as a new page; in the authors' program it stays a ghost meanwhile. (3) While
//!   the cache fills up, pages enter M once S has its share, as in the authors' program. (4) An
//!   S of less than one page is one of a page. (5) The share that is skipped is rounded up to
//!   whole pages.

use super::Algorithm;
use super::three_queues::{COUNT_MAX, Rules, ThreeQueues, Variant, count};
use crate::config::{Parameter, Values};

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::real("small_share", 0.0..=1.0, 0.1)
        .summary("share of the small queue in the cache")
        .source("table 2: from 0.05 to 0.9"),
    Parameter::real("ghost_share", 0.0..=100.0, 0.9)
        .summary("number of ghosts as a share of the cache's pages")
        .source("table 2: from 0.9 to 6"),
    Parameter::real("skip_share", 0.0..=1.0, 0.0)
        .summary("share of the small queue, from its new end, in which hits do not count")
        .source("table 2: 0 or 0.25"),
    Parameter::integer("promote_at", 1..=COUNT_MAX as u64, 2)
        .summary("counted hits in the small queue that bring a page to the main one")
        .source("table 2: 1 or 2"),
    Parameter::integer("return_at", 0..=COUNT_MAX as u64, 0)
        .summary("counted hits in the small queue that let a ghost return to the main one")
        .source("table 2: 0 or 1"),
];

/// S3-FIFO with a share that is skipped and a threshold for ghosts.
#[derive(Clone, Copy, Debug)]
pub struct S4Fifo;

impl Variant for S4Fifo {
    fn rules(values: &Values) -> Rules {
        Rules {
            small_share: values.real("small_share"),
            ghost_share: values.real("ghost_share"),
            window_share: values.real("skip_share"),
            promote_at: count(values, "promote_at"),
            return_at: count(values, "return_at"),
            count_max: COUNT_MAX,
            fills_main: true,
        }
    }
}

/// Its row in the registry.
pub const S4_FIFO: Algorithm = Algorithm::new::<ThreeQueues<S4Fifo>>(
    "s4-fifo",
    "S3-FIFO that ignores hits on the newest pages and filters ghosts, by its settings; no flash",
    "Xia et al.: Learning-Augmented Heuristics (S4-FIFO), OSDI 2026",
    module_path!(),
    PARAMETERS,
);
