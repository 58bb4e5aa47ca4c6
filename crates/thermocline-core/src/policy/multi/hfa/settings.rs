//! The parameters of the HFA policies.
//!
//! * Source: Meng et al., *A Hint Frequency Based Approach*, JCST 32(2), 2017, section 5.1.
//! * State: about 100 bytes per policy.
//! * Cost: none after construction.
//! * Deviations: see each parameter's source.

use alloc::vec::Vec;

use crate::config::{Parameter, Scaling, Values};
use crate::policy::multi::khv;
use crate::policy::multi::probabilities::PROMOTE_PROBABILITY;
use crate::random::SEED;

/// Source of an HFA policy's hints, and its treatment of victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::policy::multi) enum Strategy {
    /// D-HFA, Algorithm 4.
    Demote = 0,
    /// P-HFA, Algorithm 5.
    Promote = 1,
    /// H-HFA, Algorithm 6; also with the hints of a recorded run.
    Hint = 2,
}

impl Strategy {
    /// Return the one with this number, so that the code of each policy is compiled for it alone.
    pub(super) const fn of(number: u8) -> Self {
        match number {
            0 => Self::Demote,
            1 => Self::Promote,
            _ => Self::Hint,
        }
    }
}

const T: Parameter = Parameter::integer("t", 1..=u64::MAX, 1000)
    .summary("accesses per period (T)")
    .source("section 5.1")
    .scaling(Scaling::Proportional);
const K: Parameter = Parameter::integer("k", 0..=64, 6)
    .summary("periods whose hints count; 0 disables the tables")
    .source("section 3.2.2");
const DELTA: Parameter = Parameter::real("delta", 0.0..=1.0, 0.5)
    .summary("what a hint is worth compared with one of the next period")
    .source("section 5.1");
const F_MIN: Parameter = Parameter::real("f_min", 0.0..=f64::MAX, 1.0)
    .summary("a page with a greater hint frequency enters the first queue")
    .source("section 3.2.2");
const T_OUT_SHARE: Parameter = Parameter::real("t_out_share", 0.0..=1.0, 0.001)
    .summary("bytes of the hint table per byte of its tier; at least one record unless 0")
    .source("section 5.1; pages of 4 KiB, records of 16 bytes");
const Q1_SHARE: Parameter = Parameter::real("q1_share", 0.0..=1.0, 0.5)
    .summary("share of the first queue in a tier, at first; one page at least for either queue")
    .source("section 3.4");
const PARTITION: Parameter = Parameter::choice("partition", &["dynamic", "fixed"], "dynamic")
    .summary("whether the share of the first queue adapts, once per period")
    .source("section 3.4; fixed is Fig. 9");
const SAMPLES: Parameter = Parameter::integer("samples", 1..=u64::MAX, 10)
    .summary("how often per period cold and hot pages are counted for the partition")
    .source("reconstruction: the paper adds up durations");
/// The choices of [`COLD`].
const RECENT: &str = "recent";
const PERIOD: &str = "period";
const STAY: &str = "stay";
const MEAN: &str = "mean";
const COLD: Parameter = Parameter::choice("cold", &[RECENT, PERIOD, STAY, MEAN], RECENT)
    .summary(
        "for the partition, a page is cold without a hint that counts and without a hit: for T \
         accesses, in this period, or since it came; or if it is not hotter than the mean of its tier",
    )
    .source("section 3.4 calls H = 0 cold, but Eq. 3 never returns to 0 after a hit");
const QUEUES: Parameter = Parameter::choice("queues", &["borrowing", "strict"], "borrowing")
    .summary("whether the second queue may use what the first one leaves empty")
    .source("reconstruction: with k = 0 the paper's results are those of a whole tier");
const RESORT: Parameter = Parameter::switch("resort", false)
    .summary("sort the queues that are ordered by hotness anew, once per period")
    .source("extension: the paper's bubble sort moves pages forward only");
/// Write mode: through to disk, or back later.
pub(super) const WRITES: Parameter = Parameter::choice("writes", &["through", "back"], "through")
    .summary("whether a write goes to disk at once, or when its page leaves the caches")
    .source("reconstruction: the paper replays reads");
const D_OVERFLOW: Parameter = Parameter::choice("d_overflow", &["q2", "demote"], "q2")
    .summary("where the last page of a full first queue goes")
    .source("section 3.2.2 says the second queue, Algorithm 4 can be read as demotion");
const Q2_INSERTION: Parameter = Parameter::choice("q2_insertion", &["head", "hotness"], "head")
    .summary("where a page enters the second queue: at its head, or behind those that are as hot")
    .source("section 3.2.2: a block without records goes to the head (line 10); section 4.1 sorts by hotness");
const MISS_TO_Q1: Parameter = Parameter::switch("miss_to_q1", false)
    .summary("a page with many hints enters the first queue of the fastest tier")
    .source("Algorithm 1; Algorithm 4 uses the second queue always");
/// The parameters of D-HFA.
pub const D_PARAMETERS: &[Parameter] = &[
    T,
    K,
    DELTA,
    F_MIN,
    T_OUT_SHARE,
    Q1_SHARE,
    PARTITION,
    SAMPLES,
    COLD,
    QUEUES,
    RESORT,
    WRITES,
    D_OVERFLOW,
    MISS_TO_Q1,
    Q2_INSERTION,
];

/// The parameters of P-HFA.
pub const P_PARAMETERS: &[Parameter] = &[
    T,
    K,
    DELTA,
    F_MIN,
    T_OUT_SHARE,
    Q1_SHARE,
    PARTITION,
    SAMPLES,
    COLD,
    QUEUES,
    RESORT,
    WRITES,
    PROMOTE_PROBABILITY,
    SEED,
];

/// The parameters of H-HFA.
pub const H_PARAMETERS: &[Parameter] = &[
    T,
    K,
    DELTA,
    T_OUT_SHARE,
    Q1_SHARE,
    PARTITION,
    SAMPLES,
    COLD,
    QUEUES,
    RESORT,
    WRITES,
    khv::STEPS,
    khv::PROMOTION,
    khv::DEMOTION,
    khv::DECAY,
    khv::GHOST_RATIO,
];

/// The parameters of Oracle HFA.
pub const ORACLE_PARAMETERS: &[Parameter] = &[
    T,
    K,
    DELTA,
    Q1_SHARE,
    PARTITION,
    SAMPLES,
    COLD,
    QUEUES,
    RESORT,
    WRITES,
    khv::STEPS,
    khv::PROMOTION,
    khv::DEMOTION,
    khv::DECAY,
    khv::GHOST_RATIO,
];

/// Pages that the partition treats as cold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cold {
    /// Pages without a hit for T accesses.
    Recent,
    /// Pages without a hit in this period.
    Period,
    /// Pages without a hit since they came to their tier.
    Stay,
    /// Pages that are not hotter than the mean of their tier.
    Mean,
}

/// The parameters, read.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of the published text")]
pub(super) struct Settings {
    pub(super) period: u64,
    pub(super) k: u32,
    /// Accesses for which a hint counts (kT); not 0.
    window: f64,
    /// Weight of a hint, by its age in periods.
    pub(super) weights: Vec<f64>,
    pub(super) f_min: f64,
    pub(super) t_out_share: f64,
    pub(super) q1_share: f64,
    pub(super) is_dynamic: bool,
    /// Accesses between two counts of cold and hot pages.
    pub(super) sample_interval: u64,
    pub(super) cold: Cold,
    pub(super) is_strict: bool,
    pub(super) resorts: bool,
    pub(super) writes_back: bool,
    pub(super) overflow_demotes: bool,
    pub(super) miss_to_q1: bool,
    /// D-HFA: whether the second queue is kept by hotness, and not by arrival.
    pub(super) sorts_q2: bool,
}

impl Settings {
    pub(super) fn new(values: &Values) -> Self {
        let has = |parameter: Parameter| values.iter().any(|(name, _)| name == parameter.name);
        let real = |parameter: Parameter, default| {
            if has(parameter) { values.real(parameter.name) } else { default }
        };
        let switch = |parameter: Parameter| has(parameter) && values.switch(parameter.name);
        let (period, k) = (values.integer(T.name), values.integer_u32(K.name));
        let delta = values.real(DELTA.name);
        Self {
            period,
            k,
            // Without periods there is no hint to be divided.
            window: f64::from(k.max(1)) * period as f64,
            // Eq. 2, deviation (1): the printed sum from j = 0 begins with delta^-1 and has k + 1
            // terms; these are k, the newest with weight 1.
            weights: (0..k).map(|ago| libm::pow(delta, f64::from(ago))).collect(),
            f_min: real(F_MIN, 0.0),
            t_out_share: real(T_OUT_SHARE, 0.0),
            q1_share: values.real(Q1_SHARE.name),
            is_dynamic: values.choice(PARTITION.name) == "dynamic",
            // At least one access, or a period shorter than its samples would never be sampled.
            sample_interval: (period / values.integer(SAMPLES.name)).max(1),
            cold: match values.choice(COLD.name) {
                PERIOD => Cold::Period,
                STAY => Cold::Stay,
                MEAN => Cold::Mean,
                _ => Cold::Recent,
            },
            is_strict: values.choice(QUEUES.name) == "strict",
            resorts: values.switch(RESORT.name),
            writes_back: values.choice(WRITES.name) == "back",
            overflow_demotes: has(D_OVERFLOW) && values.choice(D_OVERFLOW.name) == "demote",
            miss_to_q1: switch(MISS_TO_Q1),
            sorts_q2: has(Q2_INSERTION) && values.choice(Q2_INSERTION.name) == "hotness",
        }
    }

    /// Return the hint part of Eq. 3: F / (kT).
    #[inline]
    pub(super) fn hint_hotness(&self, frequency: f64) -> f64 {
        frequency / self.window
    }
}
