//! Choices of a policy that lets one of several decide, as snapshots and the file of the choices have them: those
//! of a shard, and those of several shards, each of which chooses for itself.

use serde::{Deserialize, Serialize};
use thermocline_core::{Choosing, Estimate, Switch};

use super::status::GaugeStatus;

/// Choices of a policy that lets one of several decide.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChoosingStatus {
    /// The candidate that decides now; `None` if that differs by shard.
    pub(crate) in_force: Option<String>,
    /// Page accesses that the figures are about.
    #[serde(default)]
    pub(crate) accesses: u64,
    /// Number of changes so far.
    pub(crate) switches: u64,
    /// I/O time that the best candidate would have saved if it had decided all along; negative if changing
    /// has paid. Each shard has a best candidate of its own.
    pub(crate) regret_ms_per_access: f64,
    pub(crate) candidates: Vec<CandidateStatus>,
    /// The last changes of each shard. They are in the order of the accesses that their shard had had before.
    pub(crate) recent: Vec<SwitchStatus>,
    /// The shards, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) shards: Vec<ShardChoosing>,
}

/// Choices of one of several shards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShardChoosing {
    /// Number of the shard, from 0.
    pub(crate) shard: u16,
    pub(crate) in_force: Option<String>,
    pub(crate) accesses: u64,
    pub(crate) switches: u64,
    pub(crate) regret_ms_per_access: f64,
    pub(crate) candidates: Vec<CandidateStatus>,
}

/// A candidate, and its estimated I/O time so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CandidateStatus {
    pub(crate) name: String,
    pub(crate) io_ms_per_access: f64,
    /// Of all accesses; older ones count less.
    pub(crate) recent_io_ms: f64,
}

/// A change from one candidate to another, with its reason: what both needed over the last accesses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SwitchStatus {
    /// Number of the shard, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shard: Option<u16>,
    pub(crate) number: u64,
    /// Accesses before the change.
    pub(crate) accesses: u64,
    pub(crate) former: String,
    pub(crate) adopted: String,
    pub(crate) over_accesses: u64,
    pub(crate) former_ms_per_access: f64,
    pub(crate) adopted_ms_per_access: f64,
}

impl ChoosingStatus {
    /// Combines the choices of the shards that have such a policy, each with its number. I/O times are means over
    /// all accesses.
    pub(super) fn of_shards(each: Vec<(u16, Self)>) -> Option<Self> {
        let (_, first) = each.first()?;
        let (in_force, mut candidates) = (first.in_force.clone(), first.candidates.clone());
        for one in &mut candidates {
            one.recent_io_ms = 0.0;
        }
        let mut all = Self { in_force, candidates, ..Self::default() };
        for (shard, one) in each {
            all.add(shard, one);
        }
        all.recent.sort_by_key(|switch| switch.accesses);
        Some(all)
    }

    fn add(&mut self, shard: u16, one: Self) {
        let accesses = self.accesses + one.accesses;
        let part = if accesses == 0 { 0.0 } else { one.accesses as f64 / accesses as f64 };
        let mix = |mean: &mut f64, other: f64| *mean += (other - *mean) * part;
        mix(&mut self.regret_ms_per_access, one.regret_ms_per_access);
        // After a reload, one shard has other candidates a moment earlier than the next.
        for candidate in &mut self.candidates {
            let same = one.candidates.iter().find(|other| other.name == candidate.name);
            if let Some(same) = same {
                mix(&mut candidate.io_ms_per_access, same.io_ms_per_access);
                candidate.recent_io_ms += same.recent_io_ms;
            }
        }
        self.in_force.take_if(|name| one.in_force.as_ref() != Some(name));
        self.accesses = accesses;
        self.switches += one.switches;
        let recent = one.recent.into_iter();
        self.recent.extend(recent.map(|switch| SwitchStatus { shard: Some(shard), ..switch }));
        self.shards.push(ShardChoosing {
            shard,
            in_force: one.in_force,
            accesses: one.accesses,
            switches: one.switches,
            regret_ms_per_access: one.regret_ms_per_access,
            candidates: one.candidates,
        });
    }

    /// Corrects gauges that are means over the shards: an index of a candidate has no mean, changes add up, and
    /// shards count by their accesses.
    pub(super) fn correct(&self, gauges: &mut Vec<GaugeStatus>) {
        gauges.retain(|gauge| gauge.name != "in_force" || self.in_force.is_some());
        for gauge in gauges {
            let of_candidate = self.candidates.iter().find(|one| one.name == gauge.name);
            gauge.value = match (&*gauge.name, of_candidate) {
                ("switches", None) => self.switches as f64,
                ("regret_ms", None) => self.regret_ms_per_access,
                (_, Some(candidate)) => candidate.io_ms_per_access,
                (_, None) => gauge.value,
            };
        }
    }
}

impl From<Choosing> for ChoosingStatus {
    fn from(choosing: Choosing) -> Self {
        let candidate = |estimate: Estimate| CandidateStatus {
            name: estimate.candidate.into_owned(),
            io_ms_per_access: estimate.ms_per_access,
            recent_io_ms: estimate.recent_ms,
        };
        Self {
            in_force: Some(choosing.in_force.into_owned()),
            accesses: choosing.accesses,
            switches: choosing.switches,
            regret_ms_per_access: choosing.regret_ms_per_access,
            candidates: choosing.candidates.into_iter().map(candidate).collect(),
            recent: choosing.recent.into_iter().map(SwitchStatus::from).collect(),
            shards: vec![],
        }
    }
}

impl From<Switch> for SwitchStatus {
    fn from(switch: Switch) -> Self {
        Self {
            shard: None,
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

impl From<ChoosingStatus> for Choosing {
    fn from(status: ChoosingStatus) -> Self {
        let estimate = |candidate: CandidateStatus| Estimate {
            candidate: candidate.name.into(),
            ms_per_access: candidate.io_ms_per_access,
            recent_ms: candidate.recent_io_ms,
            window_ms: 0.0,
        };
        Self {
            // No candidate has an empty name.
            in_force: status.in_force.unwrap_or_default().into(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(in_force: &str, accesses: u64, regret_ms: f64, times_ms: [f64; 2]) -> ChoosingStatus {
        let candidate = |(name, io_ms_per_access): (&str, f64)| CandidateStatus {
            name: name.to_owned(),
            io_ms_per_access,
            recent_io_ms: 10.0,
        };
        let switch = Switch {
            number: 1,
            accesses: accesses / 2,
            former: "one".into(),
            adopted: "two".into(),
            over_accesses: 10,
            former_ms_per_access: 2.0,
            adopted_ms_per_access: 1.0,
        };
        ChoosingStatus {
            in_force: Some(in_force.to_owned()),
            accesses,
            switches: 1,
            regret_ms_per_access: regret_ms,
            candidates: ["one", "two"].into_iter().zip(times_ms).map(candidate).collect(),
            recent: vec![switch.into()],
            shards: vec![],
        }
    }

    fn assert_near(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-12, "{one} {other}");
    }

    #[test]
    fn shards_count_by_their_accesses() {
        let shards = vec![
            (0, shard("two", 300, 0.2, [1.0, 2.0])),
            (1, shard("one", 100, 0.6, [5.0, 2.0])),
            (2, shard("one", 0, 0.0, [0.0, 0.0])),
        ];
        let all = ChoosingStatus::of_shards(shards).unwrap();
        assert_eq!((all.in_force.as_ref(), all.accesses, all.switches), (None, 400, 3));
        assert_near(all.regret_ms_per_access, 0.3);
        assert_near(all.candidates[0].io_ms_per_access, 2.0);
        assert_near(all.candidates[1].io_ms_per_access, 2.0);
        assert_near(all.candidates[1].recent_io_ms, 30.0);
        let of: Vec<_> = all.recent.iter().map(|switch| switch.shard).collect();
        assert_eq!(of, [Some(2), Some(1), Some(0)]);
        let numbers: Vec<_> = all.shards.iter().map(|one| (one.shard, one.accesses)).collect();
        assert_eq!(numbers, [(0, 300), (1, 100), (2, 0)]);

        let gauge =
            |name: &str, value| GaugeStatus { name: name.into(), tier: "ram".into(), value };
        let mut gauges = vec![
            gauge("in_force", 1.5),
            gauge("switches", 1.0),
            gauge("regret_ms", 0.4),
            gauge("one", 3.0),
            gauge("hot", 0.5),
        ];
        all.correct(&mut gauges);
        let [switches, regret, one, hot] = &gauges[..] else { panic!("{gauges:?}") };
        assert_near(switches.value, 3.0);
        assert_near(regret.value, 0.3);
        assert_near(one.value, 2.0);
        assert_near(hot.value, 0.5);
    }

    #[test]
    fn a_candidate_that_all_shards_have_is_in_force() {
        let shards = (0..3).map(|number| (number, shard("two", 10, 0.0, [1.0, 1.0]))).collect();
        let all = ChoosingStatus::of_shards(shards).unwrap();
        assert_eq!(all.in_force.as_deref(), Some("two"));
        assert_eq!(ChoosingStatus::of_shards(vec![]), None);
    }
}
