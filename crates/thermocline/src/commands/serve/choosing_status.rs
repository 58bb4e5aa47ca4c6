//! Choices of a policy with several candidates, as `/status`, `/shadows` and the file of the choices have them.

use serde::{Deserialize, Serialize};
use thermocline_core::{Choosing, Estimate, Switch};

/// Choices of a policy that lets one of several decide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChoosingStatus {
    /// The candidate that decides now.
    pub(crate) in_force: String,
    /// Accesses over which candidates were compared.
    pub(crate) accesses: u64,
    /// Number of changes so far.
    pub(crate) switches: u64,
    /// I/O time that the best candidate would have saved if it had decided all along; negative if changing
    /// has paid.
    pub(crate) regret_ms_per_access: f64,
    pub(crate) candidates: Vec<CandidateStatus>,
    /// The last changes, oldest first.
    pub(crate) recent: Vec<SwitchStatus>,
}

/// A candidate, and its estimated I/O time so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CandidateStatus {
    pub(crate) name: String,
    pub(crate) io_ms_per_access: f64,
    /// Of all accesses; older ones count less.
    pub(crate) recent_io_ms: f64,
}

impl From<ChoosingStatus> for Choosing {
    fn from(status: ChoosingStatus) -> Self {
        let estimate = |candidate: CandidateStatus| Estimate {
            candidate: candidate.name.into(),
            ms_per_access: candidate.io_ms_per_access,
            recent_ms: candidate.recent_io_ms,
            window_ms: 0.0,
        };
        Self {
            in_force: status.in_force.into(),
            accesses: status.accesses,
            switches: status.switches,
            regret_ms_per_access: status.regret_ms_per_access,
            window_accesses: 0,
            candidates: status.candidates.into_iter().map(estimate).collect(),
            recent: status.recent.into_iter().map(Switch::from).collect(),
        }
    }
}

impl From<SwitchStatus> for Switch {
    fn from(status: SwitchStatus) -> Self {
        Self {
            number: status.number,
            accesses: status.accesses,
            former: status.former.into(),
            adopted: status.adopted.into(),
            over_accesses: status.over_accesses,
            former_ms_per_access: status.former_ms_per_access,
            adopted_ms_per_access: status.adopted_ms_per_access,
        }
    }
}

/// A change from one candidate to another, with its reason: what both needed over the last accesses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SwitchStatus {
    pub(crate) number: u64,
    /// Accesses before the change.
    pub(crate) accesses: u64,
    pub(crate) former: String,
    pub(crate) adopted: String,
    pub(crate) over_accesses: u64,
    pub(crate) former_ms_per_access: f64,
    pub(crate) adopted_ms_per_access: f64,
}

impl From<Choosing> for ChoosingStatus {
    fn from(choosing: Choosing) -> Self {
        let candidate = |estimate: Estimate| CandidateStatus {
            name: estimate.candidate.into_owned(),
            io_ms_per_access: estimate.ms_per_access,
            recent_io_ms: estimate.recent_ms,
        };
        Self {
            in_force: choosing.in_force.into_owned(),
            accesses: choosing.accesses,
            switches: choosing.switches,
            regret_ms_per_access: choosing.regret_ms_per_access,
            candidates: choosing.candidates.into_iter().map(candidate).collect(),
            recent: choosing.recent.into_iter().map(SwitchStatus::from).collect(),
        }
    }
}

impl From<Switch> for SwitchStatus {
    fn from(switch: Switch) -> Self {
        Self {
            number: switch.number,
            accesses: switch.accesses,
            former: switch.former.into_owned(),
            adopted: switch.adopted.into_owned(),
            over_accesses: switch.over_accesses,
            former_ms_per_access: switch.former_ms_per_access,
            adopted_ms_per_access: switch.adopted_ms_per_access,
        }
    }
}
