//! Clock2Q+: a small FIFO before a clock, which ignores hits on pages that have just come.
//!
//! A new page enters the small queue S. Until half of S has entered after it, it is in the correlation
//! window, where references do not set its reference bit. A page that leaves S with its bit set goes
//! on to the main queue M, a clock. Otherwise it leaves the cache, and the ghosts G remember it; if it
//! returns while they do, it enters M at once.
//!
//! * Source: Zhai et al., *Clock2Q+: A Simple and Efficient Replacement Algorithm for Metadata Cache in
//!   VMware vSAN*, arXiv 2511.21958, 2025, section 3.4.
//! * State: 4 bytes per page that exists, about 22 bytes per cached page.
//! * Cost: amortised O(1) per reference.
//! * Deviations: (1) The paper does not say what a page that enters M begins with: a clear bit here, and
//!   the place that the hand reaches last. (2) While the cache fills up, pages enter M once S has its
//!   share, as in the authors' program. (3) A page leaves S if that has its share or more, and M
//!   otherwise, as in S3-FIFO; the paper does not say. (4) The hand has no limit of steps. (5) No page
//!   is dirty, so none is passed over. (6) An S of less than one page is one of a page; the window is
//!   rounded up to whole pages.

use super::Algorithm;
use super::three_queues::{Rules, ThreeQueues, Variant};
use crate::config::{Parameter, Values};

/// The parameters.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::real("small_share", 0.0..=1.0, 0.1)
        .summary("share of the small queue in the cache")
        .source("section 3.4: 10 %"),
    Parameter::real("ghost_share", 0.0..=100.0, 0.5)
        .summary("number of ghosts as a share of the cache's pages")
        .source("section 3.4: 50 %"),
    Parameter::real("window_share", 0.0..=1.0, 0.5)
        .summary("share of the small queue, from its new end, in which hits set no bit")
        .source("section 3.4: 50 %"),
];

/// Three queues with a correlation window.
#[derive(Clone, Copy, Debug)]
pub struct Clock2QPlus;

impl Variant for Clock2QPlus {
    fn rules(values: &Values) -> Rules {
        Rules {
            small_share: values.real("small_share"),
            ghost_share: values.real("ghost_share"),
            window_share: values.real("window_share"),
            promote_at: 1,
            return_at: 0,
            count_max: 1,
            fills_main: true,
        }
    }
}

/// Its row in the registry.
pub const CLOCK_2Q_PLUS: Algorithm = Algorithm::new::<ThreeQueues<Clock2QPlus>>(
    "clock2q-plus",
    "a small FIFO before a clock, which ignores hits on pages that have just come; no flash",
    "Zhai et al.: Clock2Q+, arXiv 2511.21958, 2025",
    module_path!(),
    PARAMETERS,
);
