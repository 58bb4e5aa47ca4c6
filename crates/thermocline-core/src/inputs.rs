//! Knowledge of accesses to come that a policy receives when it is built.

use alloc::sync::Arc;

use crate::{Foresight, HintLog, MissOrder, RunLengths};

/// Knowledge of accesses to come. A policy takes what its
/// [capabilities](crate::registry::Capabilities::future) ask for, and no more.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The hints of an earlier run on the same accesses.
    pub hints: Option<Arc<HintLog>>,
    /// The accesses themselves.
    pub foresight: Option<Arc<Foresight>>,
    /// For a sample of accesses, for policies that
    /// [ask](crate::registry::Capabilities::asks_for_miss_order): the accesses that would follow
    /// the miss before them if none were left out.
    pub miss_order: Option<Arc<MissOrder>>,
    /// For a sample of accesses, for policies that
    /// [ask](crate::registry::Capabilities::asks_for_run_lengths): the sequential runs that they
    /// end.
    pub run_lengths: Option<Arc<RunLengths>>,
    /// For a sample of accesses: share of the pages that is in it, in (0, 1]. The capacities are
    /// smaller by this factor than those of the cache that is simulated.
    pub sample_rate: Option<f64>,
}

impl Inputs {
    /// No knowledge.
    pub const NONE: Self = Self {
        hints: None,
        foresight: None,
        miss_order: None,
        run_lengths: None,
        sample_rate: None,
    };
}

impl From<HintLog> for Inputs {
    fn from(hints: HintLog) -> Self {
        Self { hints: Some(Arc::new(hints)), ..Self::NONE }
    }
}

impl From<Arc<Foresight>> for Inputs {
    fn from(foresight: Arc<Foresight>) -> Self {
        Self { foresight: Some(foresight), ..Self::NONE }
    }
}
