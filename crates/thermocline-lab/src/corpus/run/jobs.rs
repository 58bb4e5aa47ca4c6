//! Jobs on an open trace: caches in full or on samples, and write buffers.

use std::collections::VecDeque;
use std::sync::Arc;

use thermocline_trace::CompiledTrace;

use crate::corpus::plan::Plan;
use crate::corpus::results::Row;
use crate::mrc::Miniature;
use crate::{BufferConfiguration, Configuration, LabError, Watch, run, run_buffer};

/// Job on an open trace.
pub(super) enum Job {
    /// The cache of that point, in full.
    Cache(usize),
    /// The cache of that point, on a sample.
    Sample(usize, Arc<Miniature>),
    /// The write buffer of that point.
    Buffer(usize, Box<BufferConfiguration>),
}

impl Job {
    const fn point(&self) -> usize {
        let (Self::Cache(point) | Self::Sample(point, _) | Self::Buffer(point, _)) = self;
        *point
    }
}

impl Plan {
    /// Runs some points of an open trace, one after the other. Those that are left out, because a
    /// tier would have less than one page, have no row.
    ///
    /// # Errors
    /// If a point is invalid, or [`LabError::Stopped`].
    pub fn run_points(
        &self,
        trace: usize,
        points: &[usize],
        compiled: &CompiledTrace,
        watch: &Watch,
    ) -> Result<Vec<Row>, LabError> {
        let (jobs, _) = self.jobs(trace, points, compiled, watch)?;
        jobs.iter().map(|job| self.run_job(trace, compiled, job, watch)).collect()
    }

    /// Return the jobs on a trace, and the number of points that are left out for want of a page.
    pub(super) fn jobs(
        &self,
        trace: usize,
        points: &[usize],
        compiled: &CompiledTrace,
        watch: &Watch,
    ) -> Result<(VecDeque<Job>, usize), LabError> {
        let Self { caches, buffer_spec, sample, .. } = self;
        let (mut jobs, mut left_out) = (VecDeque::new(), 0);
        let mut sampled = vec![];
        for &point in points.iter().filter(|&&point| point < caches.len()) {
            let cache = &caches[point];
            let pages = cache.point.configuration.capacity_pages(compiled);
            let pages = pages.map_err(|error| self.at(trace, point, error))?;
            if cache.has_empty_tier(&pages) {
                left_out += 1;
            } else if sample.is_some() {
                sampled.push(point);
            } else {
                jobs.push_back(Job::Cache(point));
            }
        }
        if let Some(rate) = sample {
            let all: Vec<Configuration> =
                sampled.iter().map(|&point| caches[point].point.configuration.clone()).collect();
            for (miniature, places) in Miniature::for_each(compiled, &all, *rate, watch)? {
                let miniature = Arc::new(miniature);
                // A sample of everything is a full simulation.
                let job = |place: usize| match miniature.rate() {
                    rate if rate < 1.0 => Job::Sample(sampled[place], Arc::clone(&miniature)),
                    _ => Job::Cache(sampled[place]),
                };
                jobs.extend(places.into_iter().map(job));
            }
        }
        if let Some(spec) = buffer_spec {
            let configurations = spec.buffers()?.configurations(compiled)?;
            for (place, configuration) in configurations.into_iter().enumerate() {
                let point = caches.len() + place;
                if points.contains(&point) {
                    jobs.push_back(Job::Buffer(point, Box::new(configuration)));
                }
            }
        }
        Ok((jobs, left_out))
    }

    /// Runs one point.
    pub(super) fn run_job(
        &self,
        trace: usize,
        compiled: &CompiledTrace,
        job: &Job,
        watch: &Watch,
    ) -> Result<Row, LabError> {
        let point = job.point();
        let mut row = self.row(&self.traces[trace], point);
        row.add_trace(compiled);
        let added = self.add_figures(&mut row, compiled, job, watch);
        added.map_err(|error| self.at(trace, point, error))?;
        Ok(row)
    }

    fn add_figures(
        &self,
        row: &mut Row,
        trace: &CompiledTrace,
        job: &Job,
        watch: &Watch,
    ) -> Result<(), LabError> {
        let Self { caches, options, buffer_spec, .. } = self;
        match job {
            Job::Cache(point) => {
                let configuration = &caches[*point].point.configuration;
                row.add_run(&run(trace, configuration, *options, watch)?);
            }
            Job::Sample(point, miniature) => {
                let configuration = &caches[*point].point.configuration;
                let estimate = miniature.estimate(configuration, watch)?;
                let pages = configuration.capacity_pages(trace)?;
                let tiers = configuration.tiers.iter().zip(pages);
                let tiers: Vec<(String, u64)> =
                    tiers.map(|(tier, pages)| (tier.name.clone(), pages.into())).collect();
                row.rate = miniature.rate();
                row.add_estimate(
                    &estimate,
                    &tiers,
                    trace.len() as u64,
                    trace.footprint_pages().into(),
                );
            }
            Job::Buffer(_, configuration) => {
                let is_checked = buffer_spec.as_ref().is_some_and(|spec| spec.is_checked);
                row.add_buffer(&run_buffer(trace, configuration, is_checked, watch)?);
            }
        }
        Ok(())
    }

    /// Return an error of a point, with its name.
    fn at(&self, trace: usize, point: usize, error: LabError) -> LabError {
        if matches!(error, LabError::Stopped) {
            return error;
        }
        LabError::BadPoint { point: self.describe(trace, point), source: Box::new(error) }
    }

    /// `true` if a job takes a turn of the one thread that may run it.
    pub(super) fn is_hosted(&self, job: &Job) -> bool {
        match job {
            Job::Cache(point) | Job::Sample(point, _) => {
                self.caches[*point].point.configuration.policy.is_hosted()
            }
            Job::Buffer(..) => false,
        }
    }
}
