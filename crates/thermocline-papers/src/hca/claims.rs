//! Judges of the paper's claims.

use serde::Deserialize;

use super::{
    Cell, Experiment, Point, Results, SystemResult, SystemRun, SystemWorkload, TraceResult,
};
use crate::claim::{Claim, Measured, Stated, all, is_near};

/// Rule by which a claim is judged.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Judge {
    /// Claim about each workload of the file system.
    System(OfSystem),
    /// Claim about all traces.
    Traces(OfTraces),
}

/// Tables I to VIII.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OfSystem {
    /// Disk hits without an SSD and with one.
    DiskHits,
    /// A figure with an SSD, divided by that without.
    Factor(Figure),
    /// An SSD reduces a figure by the share that the paper states.
    Reduction(Figure),
    /// The hit ratio of ARC without an SSD and with one.
    ArcHits,
    /// Hours until the working set is on the SSD; only if the paper says.
    Migration,
    /// The mean difference of disk hits over all sizes.
    Cells,
    /// Disk hits fall with a larger SSD.
    FallsWithSsd,
    /// Disk hits rise with the working set.
    RisesWithWorkingSet,
}

/// A figure of Tables I and II.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Figure {
    Iops,
    StorageIops,
    Latency,
    CostPerIo,
}

/// Figures 23 to 28, with the transient buffer that is shown.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OfTraces {
    /// HCA has fewer disk hits than the baseline at every size.
    FewerDiskHits,
    /// HCA has slightly more hits in RAM at every size.
    SlightlyMoreRamHits,
    /// Hits in RAM grow with RAM on every trace.
    RamHitsGrow,
    /// A larger transient buffer lowers the I/Os per second of the SSD.
    BufferLowersXciops,
}

impl Figure {
    /// Return the paper's values: baseline, then hybrid.
    fn of_paper(self, workload: &SystemWorkload) -> [f64; 2] {
        match self {
            Self::Iops => workload.iops,
            Self::StorageIops => workload.storage_iops,
            Self::Latency => workload.latency_ms,
            Self::CostPerIo => workload.cost_per_io,
        }
    }

    fn of(self, run: &SystemRun) -> f64 {
        match self {
            Self::Iops => run.iops,
            Self::StorageIops => run.storage_iops,
            Self::Latency => run.latency_ms,
            Self::CostPerIo => run.cost_per_io,
        }
    }
}

impl Experiment {
    /// Return all claims: those about the file system one workload after the other, then the
    /// others.
    pub(super) fn judge_all(&self, stated: &[Stated<Judge>], results: &Results) -> Vec<Claim> {
        let mut claims = vec![];
        for (workload, result) in self.system.workloads.iter().zip(&results.system) {
            claims.extend(stated.iter().filter_map(|one| match one.judge {
                Judge::System(judge) => self.of_system(one, judge, workload, result),
                Judge::Traces(_) => None,
            }));
        }
        for one in stated {
            if let Judge::Traces(judge) = one.judge {
                claims.push(Claim::new(one.says(&[]), self.of_traces(judge, &results.traces)));
            }
        }
        claims
    }

    fn is_near_point(&self, ours: f64, paper: f64) -> bool {
        is_near(ours, paper, self.tolerance_points)
    }

    fn is_near_factor(&self, ours: f64, paper: f64) -> bool {
        (1.0 / self.tolerance_factor..=self.tolerance_factor).contains(&(ours / paper))
    }

    /// Return a claim about one workload of the file system; none if the paper says nothing about
    /// it.
    fn of_system(
        &self,
        stated: &Stated<Judge>,
        judge: OfSystem,
        workload: &SystemWorkload,
        result: &SystemResult,
    ) -> Option<Claim> {
        let SystemResult { workload: name, baseline, hybrid, cells } = result;
        let runs = [baseline, hybrid];
        let mut values = vec![("workload", name.clone())];
        let measured = match judge {
            OfSystem::DiskHits => {
                let [without, with] = runs.map(|run| run.hits.disk * 100.0);
                let paper = workload.hits_percent.map(|hits| hits[2]);
                values.push(("baseline", paper[0].to_string()));
                values.push(("hybrid", paper[1].to_string()));
                let is_near = [(without, paper[0]), (with, paper[1])];
                let is_near =
                    is_near.into_iter().all(|(ours, paper)| self.is_near_point(ours, paper));
                Some(Measured::one(format!("from {without:.2} to {with:.2} %"), is_near))
            }
            OfSystem::Factor(figure) => {
                let factor = |[before, after]: [f64; 2]| after / before;
                let [paper, ours] = [figure.of_paper(workload), runs.map(|run| figure.of(run))];
                values.push(("factor", format!("{:.2}", factor(paper))));
                let words = format!("{:.2} times: {:.1} to {:.1}", factor(ours), ours[0], ours[1]);
                Some(Measured::one(words, self.is_near_factor(factor(ours), factor(paper))))
            }
            OfSystem::Reduction(figure) => {
                // Tables I and II print the share of the hybrid's value in the sum of both, and
                // call it a reduction.
                let printed = |[before, after]: [f64; 2]| after / (before + after) * 100.0;
                let true_reduction = |[before, after]: [f64; 2]| (1.0 - after / before) * 100.0;
                let [paper, ours] = [figure.of_paper(workload), runs.map(|run| figure.of(run))];
                values.push(("printed", format!("{:.2}", printed(paper))));
                values.push(("reduction", format!("{:.1}", true_reduction(paper))));
                let words = format!(
                    "{:.2} % by the paper's formula, {:.1} % in truth",
                    printed(ours),
                    true_reduction(ours)
                );
                Some(Measured::one(
                    words,
                    self.is_near_point(true_reduction(ours), true_reduction(paper)),
                ))
            }
            OfSystem::ArcHits => {
                let [without, with] = runs.map(|run| run.hits.ram * 100.0);
                let words = format!("{without:.2} and {with:.2} %");
                Some(Measured::one(words, self.is_near_point(without, with)))
            }
            OfSystem::Migration => {
                let hours = workload.hours_to_migrate?;
                values.push(("hours", hours.to_string()));
                let ours = hybrid.migrated_after_s.map(|seconds| seconds as f64 / 3600.0);
                let after = |ours| format!("disk hits below 1 % after {ours:.1} hours");
                let words = ours.map_or_else(|| "not within the run".into(), after);
                Some(Measured::one(
                    words,
                    ours.is_some_and(|ours| self.is_near_factor(ours, hours)),
                ))
            }
            OfSystem::Cells => Some(self.mean_differences(cells)),
            OfSystem::FallsWithSsd => {
                let smaller = |one: &Cell, other: &Cell| {
                    one.working_set_gib == other.working_set_gib && one.ssd_gib < other.ssd_gib
                };
                pairs(cells, smaller, |one, other| other.run.hits.disk < one.run.hits.disk)
            }
            OfSystem::RisesWithWorkingSet => {
                let smaller = |one: &Cell, other: &Cell| {
                    one.ssd_gib == other.ssd_gib && one.working_set_gib < other.working_set_gib
                };
                pairs(cells, smaller, |one, other| other.run.hits.disk >= one.run.hits.disk)
            }
        };
        let values: Vec<(&str, &str)> =
            values.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Some(Claim::new(stated.says(&values), measured))
    }

    /// Tables III to VIII.
    fn mean_differences(&self, cells: &[Cell]) -> Measured {
        let count = cells.len() as f64;
        let mean = |difference: fn(&Cell) -> f64| cells.iter().map(difference).sum::<f64>() / count;
        let disk = mean(|cell| (cell.run.hits.disk * 100.0 - cell.paper_disk_percent).abs());
        let ssd = mean(|cell| (cell.run.hits.ssd * 100.0 - cell.paper_ssd_percent).abs());
        let iops = mean(|cell| (cell.run.iops / cell.paper_iops - 1.0).abs() * 100.0);
        let near = cells
            .iter()
            .filter(|cell| self.is_near_point(cell.run.hits.disk * 100.0, cell.paper_disk_percent));
        let words = format!(
            "{disk:.1} and {ssd:.1} points and {iops:.0} % off on average; disk hits of {} of {} cells within {} points",
            near.count(),
            cells.len(),
            self.tolerance_points
        );
        Measured::one(words, disk <= self.tolerance_points)
    }

    fn of_traces(&self, judge: OfTraces, traces: &[TraceResult]) -> Option<Measured> {
        let points = || traces.iter().flat_map(|trace| self.shown(trace));
        let at_points = |so, points| format!("so at {so} of {points} points");
        match judge {
            OfTraces::FewerDiskHits => {
                // The baseline has no SSD: what RAM misses comes from the disk.
                all(points().map(|point| point.hca.dhr < 1.0 - point.baseline_rhr), at_points)
            }
            OfTraces::SlightlyMoreRamHits => {
                let gains = points().map(|point| point.hca.rhr - point.baseline_rhr);
                all(
                    gains.map(|gain| gain > 0.0 && gain * 100.0 <= self.tolerance_points),
                    at_points,
                )
            }
            OfTraces::RamHitsGrow => {
                let grows = |trace: &TraceResult| {
                    let mut points: Vec<&Point> = self.shown(trace).collect();
                    points.sort_by(|one, other| one.ram_per_ssd.total_cmp(&other.ram_per_ssd));
                    let ends = points.first().zip(points.last());
                    ends.is_some_and(|(least, most)| most.hca.rhr > least.hca.rhr)
                };
                all(traces.iter().map(grows), |grown, traces| {
                    format!("so on {grown} of {traces} traces")
                })
            }
            OfTraces::BufferLowersXciops => {
                all(traces.iter().flat_map(lowered), |lowered, steps| {
                    format!("so at {lowered} of {steps} steps")
                })
            }
        }
    }

    /// Return the points with the transient buffer that is shown.
    fn shown<'a>(&self, trace: &'a TraceResult) -> impl Iterator<Item = &'a Point> + use<'a> {
        let buffer_pages = self.architecture.shown_buffer_pages;
        trace.points.iter().filter(move |point| point.buffer_pages == buffer_pages)
    }
}

/// Measure whether a property holds for each pair of cells with equal RAM of which one is the
/// `smaller`.
fn pairs(
    cells: &[Cell],
    smaller: impl Fn(&Cell, &Cell) -> bool,
    is_so: impl Fn(&Cell, &Cell) -> bool,
) -> Option<Measured> {
    let pairs = cells.iter().flat_map(|one| cells.iter().map(move |other| (one, other)));
    let pairs = pairs.filter(|(one, other)| one.ram_gib == other.ram_gib && smaller(one, other));
    all(pairs.map(|(one, other)| is_so(one, other)), |so, pairs| {
        format!("so at {so} of {pairs} pairs of sizes")
    })
}

/// Return, for each size, `true` if the next larger transient buffer lowers the I/Os per second of
/// the SSD.
fn lowered(trace: &TraceResult) -> impl Iterator<Item = bool> {
    trace.points.iter().filter_map(|one| {
        let more = trace.points.iter().find(|other| {
            other.ram_per_ssd.to_bits() == one.ram_per_ssd.to_bits()
                && other.buffer_pages > one.buffer_pages
        })?;
        (one.hca.xciops > 0.0).then_some(more.hca.xciops < one.hca.xciops)
    })
}
