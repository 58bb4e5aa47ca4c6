//! One workload through all experiments.

use std::collections::BTreeMap;

use thermocline_core::config::Given;
use thermocline_core::registry;
use thermocline_trace::CompiledTrace;
use thermocline_trace::classes::{ClassOptions, Classes};

use super::{About, Contender, Drive, Experiment, Run, WorkloadResult};
use crate::study::Done;
use crate::workload::Workload;
use thermocline_lab::{
    Arrivals, BufferConfiguration, LabError, TierSize, TraceSummary, Watch, round_interval,
    run_buffers,
};

/// A buffer to run: label, policy and parameters.
type Asked<'a> = (&'a str, &'a str, &'a BTreeMap<String, String>);

impl Experiment {
    /// Runs all experiments on one trace.
    pub(super) fn run_workload(
        &self,
        workload: &Workload<About>,
        trace: &CompiledTrace,
        done: Done<'_>,
    ) -> Result<WorkloadResult, LabError> {
        let About { timed, paper } = workload.about;
        let short: TierSize = self.short_distance.parse()?;
        let footprint_pages = trace.footprint_pages();
        let short_distance_pages =
            short.pages("distance", trace.page_size_bytes(), footprint_pages, None)?;
        let class_options = ClassOptions {
            frequent_writes: self.frequent_writes,
            short_distance_pages: u64::from(short_distance_pages),
            interval_writes: round_interval(trace.writes()),
        };
        let contenders = |in_figures: bool| -> Vec<Asked<'_>> {
            let wanted = self.contenders.iter().filter(|one| one.in_figures == in_figures);
            wanted.map(Contender::asked).collect()
        };
        let (figures, others) = (contenders(true), contenders(false));
        let variants: Vec<Asked<'_>> =
            self.variants.iter().map(|one| (&*one.label, "hwb", &one.parameters)).collect();
        // Without the recording's times, a fixed number outstanding loads every buffer alike.
        let arrivals = if timed && trace.is_timed() {
            Arrivals::Trace
        } else {
            Arrivals::Closed { requests: self.closed_loop }
        };
        let on = |drive: &Drive, asked: &[Asked<'_>], sizes: &[String]| {
            runs(trace, (drive, arrivals), asked, sizes, done)
        };
        let text_size = std::slice::from_ref(&self.text_size);
        Ok(WorkloadResult {
            workload: workload.name.clone(),
            trace: TraceSummary::of(trace).path,
            requests: trace.request_count() as u64,
            paper,
            classes: Classes::of(trace, class_options),
            used_drive: [
                on(&self.used_drive, &figures, &self.sizes)?,
                on(&self.used_drive, &others, text_size)?,
            ]
            .concat(),
            paper_drive: on(&self.paper_drive, &figures, &self.sizes)?,
            variants: on(&self.used_drive, &variants, text_size)?,
        })
    }
}

impl Contender {
    fn asked(&self) -> Asked<'_> {
        (&self.label, &self.policy, &self.parameters)
    }
}

/// Runs every buffer at every size.
fn runs(
    trace: &CompiledTrace,
    (drive, arrivals): (&Drive, Arrivals),
    asked: &[Asked<'_>],
    sizes: &[String],
    done: Done<'_>,
) -> Result<Vec<Run>, LabError> {
    let ssd = drive.ssd(trace)?;
    let (mut names, mut configurations) = (vec![], vec![]);
    for size in sizes {
        for &(label, policy, parameters) in asked {
            names.push((label, size));
            configurations.push(BufferConfiguration {
                policy: registry::find_buffer(policy)?,
                parameters: parameters
                    .iter()
                    .map(|(name, text)| (name.clone(), Given::Text(text.clone())))
                    .collect(),
                size: size.parse()?,
                ssd: Some(ssd.clone()),
                arrivals,
            });
        }
    }
    let summaries = run_buffers(trace, &configurations, false, &Watch::default(), done)?;
    let runs = names.into_iter().zip(summaries);
    let run = |((label, size), summary): ((&str, &String), _)| Run {
        label: label.into(),
        size: size.clone(),
        summary,
    };
    Ok(runs.map(run).collect())
}
