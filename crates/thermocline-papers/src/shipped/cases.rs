//! Cases: one workload with one size of RAM and flash, and how all caches fare there.

use super::{Camp, Point, WorkloadResult};
use crate::study::in_order;

/// All caches on one workload at one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case<'a> {
    pub(super) result: &'a WorkloadResult,
    /// Points of the case, at least one.
    points: &'a [Point],
}

/// Results of one cache over several cases.
#[derive(Clone, Debug)]
pub(super) struct Standing<'a> {
    pub(super) label: &'a str,
    pub(super) camp: Camp,
    /// Its point in each case, and its time as a multiple of the least there.
    pub(super) points: Vec<(Case<'a>, &'a Point, f64)>,
}

/// Return the cases of the cost model.
pub(super) fn cases(results: &[WorkloadResult]) -> Vec<Case<'_>> {
    results.iter().flat_map(WorkloadResult::cases).collect()
}

/// Return the cases on simulated devices.
pub(super) fn simulated(results: &[WorkloadResult]) -> Vec<Case<'_>> {
    results.iter().map(|result| Case { result, points: &result.simulated }).collect()
}

/// Return the results of each cache, in the order in which they run.
pub(super) fn standings<'a>(cases: &[Case<'a>]) -> Vec<Standing<'a>> {
    let labels = in_order(cases.iter().flat_map(|case| case.points).map(|point| &*point.label));
    let standing = |label: &'a str| {
        let points = cases.iter().filter_map(|&case| {
            let point = case.of(label)?;
            Some((case, point, point.seconds() / case.least()))
        });
        let points: Vec<_> = points.collect();
        let camp = points.first()?.1.camp;
        Some(Standing { label, camp, points })
    };
    labels.into_iter().filter_map(standing).collect()
}

impl WorkloadResult {
    /// Return its cases of the cost model.
    fn cases(&self) -> impl Iterator<Item = Case<'_>> {
        let same_sizes = |one: &Point, other: &Point| one.sizes() == other.sizes();
        self.points.chunk_by(same_sizes).map(|points| Case { result: self, points })
    }
}

impl<'a> Case<'a> {
    /// Return the point of a cache.
    pub(super) fn of(self, label: &str) -> Option<&'a Point> {
        self.points.iter().find(|point| point.label == label)
    }

    /// Return the points of some camps.
    pub(super) fn camps(self, camps: &[Camp]) -> impl Iterator<Item = &'a Point> {
        self.points.iter().filter(move |point| camps.contains(&point.camp))
    }

    /// Return the point of some camps that takes the least time.
    pub(super) fn fastest(self, camps: &[Camp]) -> Option<&'a Point> {
        self.camps(camps).min_by(|one, other| one.seconds().total_cmp(&other.seconds()))
    }

    /// Return the least time of all, in seconds.
    fn least(self) -> f64 {
        self.points.iter().map(Point::seconds).fold(f64::INFINITY, f64::min)
    }

    /// Return the sizes of RAM and flash.
    pub(super) fn sizes(self) -> (&'a str, &'a str) {
        self.points[0].sizes()
    }

    /// Return its workload and sizes in words.
    pub(super) fn words(self) -> String {
        let (memory, flash) = self.sizes();
        format!("{}, RAM {memory}, flash {flash}", self.result.workload)
    }
}

impl Standing<'_> {
    /// Return its time as a multiple of the least of each case, in the geometric mean.
    pub(super) fn mean(&self) -> f64 {
        let logs = self.points.iter().map(|(_, _, times)| times.ln());
        (logs.sum::<f64>() / self.points.len() as f64).exp()
    }

    /// Return the case in which that multiple is the greatest, and the multiple.
    pub(super) fn worst(&self) -> (Case<'_>, f64) {
        let worst = self.points.iter().max_by(|one, other| one.2.total_cmp(&other.2));
        let (case, _, times) = worst.expect("a standing has a case at least");
        (*case, *times)
    }

    /// Return the mean of a figure over the cases.
    pub(super) fn mean_of(&self, figure: impl Fn(&Point) -> f64) -> f64 {
        let figures = self.points.iter().map(|(_, point, _)| figure(point));
        figures.sum::<f64>() / self.points.len() as f64
    }
}

impl Point {
    /// Return the sizes of RAM and flash.
    pub(super) const fn sizes(&self) -> (&str, &str) {
        (self.memory.as_str(), self.flash.as_str())
    }
}
