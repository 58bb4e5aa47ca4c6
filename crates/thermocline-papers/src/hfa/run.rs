//! One workload through all experiments.

use rayon::prelude::*;
use thermocline_core::registry;
use thermocline_device::{Catalogue, Device};
use thermocline_trace::CompiledTrace;

use super::hints::hint_groups;
use super::{About, Experiment, Point, Stability, StudyPoint, WorkloadResult};
use crate::hierarchy::DISK;
use crate::study::Done;
use crate::workload::Workload;
use thermocline_lab::{
    Configuration, LabError, RunOptions, TierConfiguration, TierSize, TraceSummary, WarmUp, Watch,
    default_latencies_ms, run,
};

impl Experiment {
    /// Runs all experiments on one trace.
    pub(super) fn run_workload(
        &self,
        workload: &Workload<About>,
        trace: &CompiledTrace,
        done: Done<'_>,
    ) -> Result<WorkloadResult, LabError> {
        let About { ratios, paper_requests } = &workload.about;
        let watch = Watch::default();
        let study = |policy: &str, given: &[(String, String)]| {
            hierarchy(trace, policy, given, &self.study_ratios, self.study_percent)
        };
        let points: Vec<(f64, &str)> = self
            .aggregate_percent
            .iter()
            .flat_map(|&percent| self.policies().into_iter().map(move |policy| (percent, policy)))
            .collect();
        let warm_up = WarmUp::Percent(self.warm_up_percent);
        let options = RunOptions { warm_up, ..RunOptions::default() };
        let points: Result<Vec<Point>, LabError> = points
            .into_par_iter()
            .map(|(aggregate_percent, policy)| {
                let configuration = hierarchy(trace, policy, &[], ratios, aggregate_percent)?;
                let summary = run(trace, &configuration, options, &watch);
                done();
                Ok(Point { policy: policy.into(), aggregate_percent, summary: summary? })
            })
            .collect();
        let combined: Vec<&str> = self.pairs.iter().map(|pair| pair.combined.as_str()).collect();
        let over_time: Result<Vec<Stability>, LabError> = combined
            .par_iter()
            .map(|&policy| {
                let options = RunOptions { intervals: self.points, ..RunOptions::default() };
                let summary = run(trace, &study(policy, &[])?, options, &watch);
                done();
                let over_time = summary?.over_time.unwrap_or_default();
                Ok(Stability { policy: policy.into(), over_time })
            })
            .collect();
        let swept = |values: &[u64], given: &(dyn Fn(u64) -> Vec<(String, String)> + Sync)| {
            let runs =
                values.iter().flat_map(|&at| combined.iter().map(move |&policy| (at, policy)));
            let runs: Vec<(u64, &str)> = runs.collect();
            let points: Result<Vec<StudyPoint>, LabError> = runs
                .into_par_iter()
                .map(|(at, policy)| {
                    let summary = run(trace, &study(policy, &given(at))?, options, &watch);
                    done();
                    let hit_ratio = summary?.aggregate_hit_ratio();
                    Ok(StudyPoint { policy: policy.into(), at, hit_ratio })
                })
                .collect();
            points
        };
        let fixed_shares = swept(&self.q1_percent, &|percent| {
            let share = percent as f64 / 100.0;
            vec![
                ("partition".to_owned(), "fixed".to_owned()),
                ("q1_share".to_owned(), share.to_string()),
            ]
        })?;
        let history = swept(&self.k, &|k| vec![("k".to_owned(), k.to_string())])?;
        let first = self.pairs.first().map_or("demote", |pair| pair.original.as_str());
        let hint_groups = hint_groups(trace, &study(first, &[])?)?;
        done();
        Ok(WorkloadResult {
            workload: workload.name.clone(),
            trace: TraceSummary::of(trace).path,
            requests: trace.request_count() as u64,
            paper_requests: *paper_requests,
            ratios: ratios.clone(),
            hint_groups,
            points: points?,
            over_time: over_time?,
            fixed_shares,
            history,
        })
    }
}

/// Levels of these relative sizes that are together so many percent of the footprint.
fn hierarchy(
    trace: &CompiledTrace,
    policy: &str,
    given: &[(String, String)],
    ratios: &[u32],
    percent: f64,
) -> Result<Configuration, LabError> {
    let policy = registry::find(policy)?;
    let catalogue = Catalogue::default();
    let latencies_ms = default_latencies_ms(ratios.len());
    let aggregate = f64::from(trace.footprint_pages()) * percent / 100.0;
    let total: u32 = ratios.iter().sum();
    let tier = |(index, (&ratio, &latency_ms)): (usize, (&u32, &f64))| TierConfiguration {
        name: format!("l{}", index + 1),
        size: TierSize::Pages((aggregate * f64::from(ratio) / f64::from(total)).round().max(2.0)),
        device: Device {
            name: format!("l{}", index + 1),
            summary: "its access time, per page".into(),
            read_ms: latency_ms,
            write_ms: latency_ms,
            source: String::new(),
        },
    };
    let tiers = ratios.iter().zip(&latencies_ms).enumerate().map(tier).collect();
    Ok(Configuration::new(
        policy.clone(),
        policy.values(given)?,
        tiers,
        catalogue.find(DISK)?.clone(),
    ))
}
