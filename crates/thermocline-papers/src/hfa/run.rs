//! One workload through all experiments.

use rayon::prelude::*;
use thermocline_core::registry;
use thermocline_device::{Catalogue, Device};
use thermocline_trace::CompiledTrace;

use super::hints::{Hints, hints};
use super::{About, Experiment, Point, Stability, StudyPoint, WorkloadResult};
use crate::hierarchy::DISK;
use crate::study::Done;
use crate::workload::Workload;
use thermocline_lab::{
    Configuration, LabError, RunOptions, Summary, TierConfiguration, TierSize, TraceSummary,
    WarmUp, Watch, default_latencies_ms, run,
};

/// Parameters of a policy, as text.
type Given = Vec<(String, String)>;

/// The runs on one trace.
struct Runs<'a> {
    experiment: &'a Experiment,
    trace: &'a CompiledTrace,
    done: Done<'a>,
    watch: Watch,
}

impl Experiment {
    /// Runs all experiments on one trace.
    pub(super) fn run_workload(
        &self,
        workload: &Workload<About>,
        trace: &CompiledTrace,
        done: Done<'_>,
    ) -> Result<WorkloadResult, LabError> {
        let About { ratios, paper_requests } = &workload.about;
        let runs = Runs { experiment: self, trace, done, watch: Watch::default() };
        let fixed_shares = runs.swept(&self.q1_percent, |percent| {
            let share = percent as f64 / 100.0;
            vec![
                ("partition".to_owned(), "fixed".to_owned()),
                ("q1_share".to_owned(), share.to_string()),
            ]
        })?;
        let history = runs.swept(&self.k, |k| vec![("k".to_owned(), k.to_string())])?;
        Ok(WorkloadResult {
            workload: workload.name.clone(),
            trace: TraceSummary::of(trace).path,
            requests: trace.request_count() as u64,
            paper_requests: *paper_requests,
            ratios: ratios.clone(),
            hints: runs.hints()?,
            points: runs.points(ratios)?,
            over_time: runs.over_time()?,
            fixed_shares,
            history,
        })
    }
}

impl Runs<'_> {
    fn run(&self, configuration: &Configuration, options: RunOptions) -> Result<Summary, LabError> {
        let summary = run(self.trace, configuration, options, &self.watch);
        (self.done)();
        summary
    }

    fn when_warm(&self) -> RunOptions {
        let warm_up = WarmUp::Percent(self.experiment.warm_up_percent);
        RunOptions { warm_up, ..RunOptions::default() }
    }

    /// Every algorithm at every size.
    fn points(&self, ratios: &[u32]) -> Result<Vec<Point>, LabError> {
        let Experiment { aggregate_percent, .. } = self.experiment;
        let points = aggregate_percent.iter().flat_map(|&percent| {
            self.experiment.policies().into_iter().map(move |policy| (percent, policy))
        });
        let points: Vec<(f64, &str)> = points.collect();
        let point = |(aggregate_percent, policy): (f64, &str)| {
            let configuration = hierarchy(self.trace, policy, &[], ratios, aggregate_percent)?;
            let summary = self.run(&configuration, self.when_warm())?;
            Ok(Point { policy: policy.into(), aggregate_percent, summary })
        };
        points.into_par_iter().map(point).collect()
    }

    /// The levels of the study, with the algorithm as it is.
    fn study(&self, policy: &str, given: &[(String, String)]) -> Result<Configuration, LabError> {
        let Experiment { study_ratios, study_percent, .. } = self.experiment;
        hierarchy(self.trace, policy, given, study_ratios, *study_percent)
    }

    /// The same with a combined algorithm, whose period follows the first level as in the paper.
    fn combined_study(&self, policy: &str, mut given: Given) -> Result<Configuration, LabError> {
        let Experiment { study_ratios, study_percent, study_period_share, .. } = self.experiment;
        let first_pages = level_pages(self.trace, study_ratios, *study_percent)[0];
        let period = (study_period_share * first_pages).ceil().max(1.0);
        given.push(("t".to_owned(), period.to_string()));
        self.study(policy, &given)
    }

    fn combined(&self) -> impl Iterator<Item = &str> {
        self.experiment.pairs.iter().map(|pair| pair.combined.as_str())
    }

    fn over_time(&self) -> Result<Vec<Stability>, LabError> {
        let options = RunOptions { intervals: self.experiment.points, ..RunOptions::default() };
        let stability = |policy: &str| {
            let summary = self.run(&self.combined_study(policy, vec![])?, options)?;
            let over_time = summary.over_time.unwrap_or_default();
            Ok(Stability { policy: policy.into(), over_time })
        };
        self.combined().collect::<Vec<_>>().into_par_iter().map(stability).collect()
    }

    /// The combined algorithms with each of some values of a parameter.
    fn swept(
        &self,
        values: &[u64],
        given: impl Fn(u64) -> Given + Sync,
    ) -> Result<Vec<StudyPoint>, LabError> {
        let runs = values.iter().flat_map(|&at| self.combined().map(move |policy| (at, policy)));
        let point = |(at, policy): (u64, &str)| {
            let configuration = self.combined_study(policy, given(at))?;
            let summary = self.run(&configuration, self.when_warm())?;
            let hit_ratio = summary.aggregate_hit_ratio();
            Ok(StudyPoint { policy: policy.into(), at, hit_ratio })
        };
        runs.collect::<Vec<_>>().into_par_iter().map(point).collect()
    }

    fn hints(&self) -> Result<Vec<Hints>, LabError> {
        let observed = |policy: &String| {
            let found = hints(self.trace, &self.study(policy, &[])?);
            (self.done)();
            found
        };
        self.experiment.hints_of.par_iter().map(observed).collect()
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
    let pages = level_pages(trace, ratios, percent);
    let tier = |(index, (&pages, &latency_ms)): (usize, (&f64, &f64))| TierConfiguration {
        name: format!("l{}", index + 1),
        size: TierSize::Pages(pages),
        device: Device {
            name: format!("l{}", index + 1),
            summary: "its access time, per page".into(),
            read_ms: latency_ms,
            write_ms: latency_ms,
            source: String::new(),
        },
    };
    let tiers = pages.iter().zip(&latencies_ms).enumerate().map(tier).collect();
    Ok(Configuration::new(
        policy.clone(),
        policy.values(given)?,
        tiers,
        catalogue.find(DISK)?.clone(),
    ))
}

/// The pages of each level.
fn level_pages(trace: &CompiledTrace, ratios: &[u32], percent: f64) -> Vec<f64> {
    let aggregate = f64::from(trace.footprint_pages()) * percent / 100.0;
    let total: u32 = ratios.iter().sum();
    let pages = |&ratio: &u32| (aggregate * f64::from(ratio) / f64::from(total)).round().max(2.0);
    ratios.iter().map(pages).collect()
}
