//! One workload through all experiments.

use rayon::prelude::*;
use thermocline_core::registry;
use thermocline_device::{Catalogue, Device};
use thermocline_trace::CompiledTrace;

use super::hints::{Hints, hints};
use super::stability::Stability;
use super::{
    About, Experiment, OriginalPoint, Point, Reading, ReadingPoint, StudyPoint, Timeline,
    WorkloadResult, protected_at_end,
};
use crate::hierarchy::DISK;
use crate::study::Done;
use crate::workload::Workload;
use thermocline_lab::{
    Configuration, LabError, RunOptions, Summary, TierConfiguration, TierSize, TraceSummary,
    WarmUp, Watch, run,
};

/// Parameters of a policy, as text.
type Given = Vec<(String, String)>;

fn given(name: &str, value: impl std::fmt::Display) -> (String, String) {
    (name.to_owned(), value.to_string())
}

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
        let About { ratios, paper_requests, is_long } = &workload.about;
        let runs = Runs { experiment: self, trace, done, watch: Watch::default() };
        let mut result = WorkloadResult {
            workload: workload.name.clone(),
            trace: TraceSummary::of(trace).path,
            requests: trace.request_count() as u64,
            paper_requests: *paper_requests,
            ratios: ratios.clone(),
            hints: runs.hints()?,
            points: runs.points(ratios)?,
            over_time: vec![],
            fixed_shares: vec![],
            history: vec![],
            originals: vec![],
            readings: vec![],
        };
        if *is_long {
            return Ok(result);
        }
        if !result.has_reuse(self) {
            // The remaining runs would judge nothing.
            (0..self.study_runs()).for_each(|_| done());
            return Ok(result);
        }
        result.over_time = runs.over_time()?;
        result.fixed_shares = runs.swept(&self.q1_percent, |percent| {
            let share = percent as f64 / 100.0;
            vec![given("partition", "fixed"), given("q1_share", share)]
        })?;
        result.history = runs.swept(&self.k, |k| vec![given("k", k)])?;
        result.originals = runs.originals()?;
        result.readings = runs.readings()?;
        Ok(result)
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

    /// Return every algorithm at every size.
    fn points(&self, ratios: &[u32]) -> Result<Vec<Point>, LabError> {
        let Experiment { aggregate_percent, .. } = self.experiment;
        let points = aggregate_percent.iter().flat_map(|&percent| {
            self.experiment.policies().into_iter().map(move |policy| (percent, policy))
        });
        let points: Vec<(f64, &str)> = points.collect();
        let point = |(aggregate_percent, policy): (f64, &str)| {
            let configuration = self.hierarchy(policy, &[], ratios, aggregate_percent)?;
            let summary = self.run(&configuration, self.when_warm())?;
            Ok(Point { policy: policy.into(), aggregate_percent, summary })
        };
        points.into_par_iter().map(point).collect()
    }

    /// Return the levels of the study, with the algorithm as it is.
    fn study(&self, policy: &str, given: &[(String, String)]) -> Result<Configuration, LabError> {
        let Experiment { study_ratios, study_percent, .. } = self.experiment;
        self.hierarchy(policy, given, study_ratios, *study_percent)
    }

    /// Return the same with a combined algorithm, whose period follows the first level as in the
    /// paper.
    fn combined_study(
        &self,
        policy: &str,
        mut parameters: Given,
    ) -> Result<Configuration, LabError> {
        // The paper's T is 1,000 accesses on a first level of about 4,169 pages. Q1 comes to rest
        // at the pages hit in a period, so the same share keeps its size comparable.
        parameters.push(given("t", self.period()));
        self.study(policy, &parameters)
    }

    /// Return the accesses of a period there.
    fn period(&self) -> f64 {
        let Experiment { study_ratios, study_percent, study_period_share, .. } = self.experiment;
        let first_pages = level_pages(self.trace, study_ratios, *study_percent)[0];
        (study_period_share * first_pages).ceil().max(1.0)
    }

    fn combined(&self) -> impl Iterator<Item = &str> {
        self.experiment.pairs.iter().map(|pair| pair.combined.as_str())
    }

    fn over_time(&self) -> Result<Vec<Timeline>, LabError> {
        let Experiment { points, periods, tolerance_points, .. } = *self.experiment;
        let cut = |policy: &str, intervals| {
            let options = RunOptions { intervals, ..self.when_warm() };
            let summary = self.run(&self.combined_study(policy, vec![])?, options)?;
            Ok::<_, LabError>((summary.warm_up_accesses, summary.over_time.unwrap_or_default()))
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not more periods than accesses, and not less than none"
        )]
        let all_periods = (self.trace.len() as f64 / self.period()).ceil() as usize;
        let timeline = |policy: &str| {
            let (_, over_time) = cut(policy, points)?;
            let (warm_up, by_period) = cut(policy, all_periods)?;
            let stability = Stability::of(&by_period, warm_up, periods, tolerance_points);
            Ok(Timeline { policy: policy.into(), over_time, stability })
        };
        self.combined().collect::<Vec<_>>().into_par_iter().map(timeline).collect()
    }

    /// Return the algorithms that HFA is combined with, on the levels of the study.
    fn originals(&self) -> Result<Vec<OriginalPoint>, LabError> {
        let original = |policy: &str| {
            let summary = self.run(&self.study(policy, &[])?, self.when_warm())?;
            Ok(OriginalPoint { policy: policy.into(), hit_ratio: summary.aggregate_hit_ratio() })
        };
        let all = self.experiment.pairs.iter().map(|pair| pair.original.as_str());
        all.collect::<Vec<_>>().into_par_iter().map(original).collect()
    }

    /// Return the combined algorithms under every reading.
    fn readings(&self) -> Result<Vec<ReadingPoint>, LabError> {
        let of_reading =
            |reading| self.experiment.policies_of(reading).map(move |policy| (reading, policy));
        let runs: Vec<(&Reading, &str)> =
            self.experiment.readings.iter().flat_map(of_reading).collect();
        let point = |(reading, policy): (&Reading, &str)| {
            let run = |further: Option<(String, String)>| {
                let parameters = reading.parameters.clone().into_iter().chain(further);
                let configuration = self.combined_study(policy, parameters.collect())?;
                self.run(&configuration, self.when_warm())
            };
            let summary = run(None)?;
            let without = reading.is_of_partition.then(|| run(Some(given("k", 0)))).transpose()?;
            Ok(ReadingPoint {
                reading: reading.name.clone(),
                policy: policy.into(),
                hit_ratio: summary.aggregate_hit_ratio(),
                without_history: without.map(|summary| summary.aggregate_hit_ratio()),
                q1_share: protected_at_end(&summary),
                metadata_share: summary.metadata_share,
            })
        };
        runs.into_par_iter().map(point).collect()
    }

    /// Return the combined algorithms with each of some values of a parameter.
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

    /// Create levels of these relative sizes that are together a percentage of the footprint.
    fn hierarchy(
        &self,
        name: &str,
        further: &[(String, String)],
        ratios: &[u32],
        percent: f64,
    ) -> Result<Configuration, LabError> {
        let Experiment { level_ms, disk_ms, .. } = self.experiment;
        let rival = self.experiment.rivals.iter().find(|rival| rival.name == name);
        let registered = rival.and_then(|rival| rival.policy.as_deref());
        let policy = registry::find(registered.unwrap_or(name))?;
        let own = rival.map(|rival| rival.parameters.clone()).unwrap_or_default();
        let parameters: Given = own.into_iter().chain(further.iter().cloned()).collect();
        let pages = level_pages(self.trace, ratios, percent);
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
        let tiers: Vec<_> = pages.iter().zip(level_ms).enumerate().map(tier).collect();
        let latencies_ms = level_ms.iter().copied().take(tiers.len()).chain([*disk_ms]).collect();
        let disk = Catalogue::default().find(DISK)?.clone();
        let values = policy.values(&parameters)?;
        Ok(Configuration {
            latencies_ms,
            ..Configuration::new(policy.clone(), values, tiers, disk)
        })
    }
}

/// Return the pages of each level.
fn level_pages(trace: &CompiledTrace, ratios: &[u32], percent: f64) -> Vec<f64> {
    let aggregate = f64::from(trace.footprint_pages()) * percent / 100.0;
    let total: u32 = ratios.iter().sum();
    // Two pages at least: one for each of HFA's queues.
    let pages = |&ratio: &u32| (aggregate * f64::from(ratio) / f64::from(total)).round().max(2.0);
    ratios.iter().map(pages).collect()
}
