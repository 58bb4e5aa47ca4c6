//! Running the experiments on one trace.

use rayon::prelude::*;
use thermocline_core::hotness::registry;
use thermocline_core::{Admission, registry as policies};
use thermocline_lab::{
    Candidate, Counted, LabError, Recording, RunOptions, Stream, Watch, identify, run, summarise,
};
use thermocline_trace::CompiledTrace;

use super::{
    AdmissionPoint, Experiment, PaperWorkload, Runtime, SweepPoint, UniquePages, WorkloadResult,
};
use crate::claim::median;
use crate::hierarchy::memory_and_flash;

/// A memory layout of MBF, and how it is labelled with the shortcut and without it.
pub(super) struct Build {
    layout: &'static str,
    pub(super) labels: [&'static str; 2],
}

/// The paper's layout of MBF, then ours.
pub(super) const BUILDS: [Build; 2] = [
    Build { layout: "separate", labels: ["MBF, separate", "MBF, separate, no shortcut"] },
    Build { layout: "packed", labels: ["MBF", "MBF, no shortcut"] },
];
/// The label of MHF.
pub(super) const MHF: &str = "MHF";

/// Table I: filters of MBF.
const FILTERS: u64 = 4;
/// Table I: bits of each of them.
const FILTER_BITS: u64 = 2048;

impl Experiment {
    /// Runs everything on one trace.
    pub(super) fn run_workload(
        &self,
        workload: &str,
        paper: Option<PaperWorkload>,
        trace: &CompiledTrace,
    ) -> Result<WorkloadResult, LabError> {
        let stream = Stream::of(trace, Counted::Writes)?;
        let contenders = self.contenders()?;
        let wdac = candidate("WDAC", "wdac", &[])?;
        let dam = candidate("DAM", "dam", &[])?;
        let against_wdac = identify(&stream, &wdac, &contenders, None, &Watch::default(), || ())?;
        let seeds: Vec<Candidate> =
            contenders.into_iter().filter(|one| ["MBF", "MHF"].contains(&&*one.label)).collect();
        let against_dam = identify(&stream, &dam, &seeds, None, &Watch::default(), || ())?;
        // Section IV-B: a false identification is a write that WDAC judges differently.
        let truth = stream.record(&wdac, &Watch::default())?;
        Ok(WorkloadResult {
            workload: workload.into(),
            trace: trace.path().display().to_string(),
            requests: trace.request_count() as u64,
            paper,
            unique_pages: self.unique_pages(&stream),
            against_wdac,
            against_dam,
            runtime: self.runtime(&stream)?,
            memory: sweep(&stream, &truth, self.memory_sweep()?)?,
            windows: sweep(&stream, &truth, self.window_sweep()?)?,
            filters: sweep(&stream, &truth, self.filter_sweep()?)?,
            admission: self.admission(trace)?,
        })
    }

    fn contenders(&self) -> Result<Vec<Candidate>, LabError> {
        self.contenders
            .iter()
            .map(|contender| {
                let given: Vec<(String, String)> =
                    contender.parameters.clone().into_iter().collect();
                let entry = registry::find(&contender.identifier)?;
                Candidate::new(&contender.label, entry, &given)
            })
            .collect()
    }

    /// Figure 6; units that the trace does not fill are left out.
    fn unique_pages(&self, stream: &Stream) -> Vec<UniquePages> {
        let of_unit = |&unit_writes: &u64| {
            let units = stream.count() / unit_writes;
            let whole = usize::try_from(units).unwrap_or(usize::MAX);
            // A last unit that is not full would lower the mean.
            let counts: Vec<u64> =
                stream.unique_pages(unit_writes).into_iter().take(whole).collect();
            let overflowing = counts.iter().filter(|&&count| count > self.table_entries).count();
            (units > 0).then(|| UniquePages {
                unit_writes,
                units,
                mean: counts.iter().sum::<u64>() as f64 / units as f64,
                overflowing: overflowing as f64 / units as f64,
            })
        };
        self.unit_writes.iter().filter_map(of_unit).collect()
    }

    /// Figure 12: medians, the identifiers in alternation.
    fn runtime(&self, stream: &Stream) -> Result<Vec<Runtime>, LabError> {
        let mut candidates = vec![];
        for Build { layout, labels } in BUILDS {
            for (label, shortcut) in labels.into_iter().zip(["true", "false"]) {
                let given = [("layout", layout), ("shortcut", shortcut)];
                candidates.push(candidate(label, "mbf", &given)?);
            }
        }
        candidates.push(candidate(MHF, "mhf", &[])?);
        let mut times = vec![(vec![], vec![], 0); candidates.len()];
        // In alternation: whatever slows the machine for a while slows all of them.
        for _ in 0..self.timed_runs.max(1) {
            for (candidate, (checks, decays, decay_writes)) in candidates.iter().zip(&mut times) {
                let recording = stream.record(candidate, &Watch::default())?;
                checks.push(recording.check_ns);
                decays.push(recording.decay_ns.unwrap_or(0.0));
                *decay_writes = recording.decay_writes.unwrap_or(0);
            }
        }
        let runtimes = candidates.iter().zip(times).map(|(candidate, mut time)| Runtime {
            label: candidate.label.clone(),
            check_ns: median(&mut time.0).unwrap_or(0.0),
            decay_ns: median(&mut time.1).unwrap_or(0.0),
            decay_writes: time.2,
        });
        Ok(runtimes.collect())
    }

    /// Return the candidates of Figure 13 (d): four filters, or counters of four bits, per number
    /// of bytes.
    fn memory_sweep(&self) -> Result<Vec<(u64, Candidate)>, LabError> {
        let mut candidates = vec![];
        for &bytes in &self.memory_bytes {
            // Four filters of one bit, or counters of four bits (Table I): equal memory means
            // equally many positions.
            let entries = (bytes * 8 / FILTERS).to_string();
            candidates.push((bytes, candidate("MBF", "mbf", &[("filter_bits", &entries)])?));
            candidates.push((bytes, candidate("MHF", "mhf", &[("counters", &entries)])?));
        }
        Ok(candidates)
    }

    /// Figure 14.
    fn window_sweep(&self) -> Result<Vec<(u64, Candidate)>, LabError> {
        let mut candidates = vec![];
        for &writes in &self.window_writes {
            let text = writes.to_string();
            candidates.push((writes, candidate("WDAC", "wdac", &[("window_writes", &text)])?));
            candidates.push((writes, candidate("DAM", "dam", &[("decay_writes", &text)])?));
        }
        Ok(candidates)
    }

    /// Figure 15: equal memory, and filters of equal size; each with the threshold of Table I, where
    /// it can be reached, and with that share of all weights.
    fn filter_sweep(&self) -> Result<Vec<(u64, Candidate)>, LabError> {
        let mut candidates = vec![];
        for &filters in &self.filters {
            let middle = filters / 2;
            let weight =
                |rank: u64| 1.0 + (rank as f64 - middle as f64) / (filters - middle) as f64;
            // Section III-A: with other numbers of filters the weights sum to something else, so a
            // threshold of 4 is another rule.
            let all: f64 = (1..=filters).map(weight).sum();
            let thresholds = [("threshold 4", 4.0), ("scaled", all * self.threshold_share)];
            for (rule, threshold) in thresholds.into_iter().filter(|(_, least)| *least <= all) {
                // Section IV-C compares equal memory, where more filters are smaller ones; filters
                // of equal size show what their number alone is worth.
                for (memory, bits) in
                    [("1 KiB", FILTERS * FILTER_BITS / filters), ("2048 bits each", FILTER_BITS)]
                {
                    let given = [
                        ("filters", filters.to_string()),
                        ("filter_bits", bits.to_string()),
                        ("threshold", threshold.to_string()),
                    ];
                    let given = given.each_ref().map(|(name, value)| (*name, value.as_str()));
                    let label = format!("{memory}, {rule}");
                    candidates.push((filters, candidate(&label, "mbf", &given)?));
                }
            }
        }
        Ok(candidates)
    }

    /// Run the experiment of ours: policies that admit every page, and policies that admit those that MBF
    /// finds hot.
    fn admission(&self, trace: &CompiledTrace) -> Result<Vec<AdmissionPoint>, LabError> {
        let experiment = &self.admission;
        let mbf = registry::find("mbf")?;
        let mut rules = vec![("every page".to_owned(), Admission::ALL)];
        for &(filter_bits, threshold) in &experiment.gates {
            let given = [
                ("filter_bits".to_owned(), filter_bits.to_string()),
                ("threshold".to_owned(), threshold.to_string()),
            ];
            let kibibytes = filter_bits * FILTERS / 8 / 1024;
            let label = format!("MBF {kibibytes} KiB, threshold {threshold}");
            rules.push((label, Admission::hot(mbf, mbf.values(&given)?)?));
        }
        let mut configurations = vec![];
        for name in &experiment.policies {
            let policy = policies::find(name)?;
            for (label, admission) in &rules {
                let values = policy.values(&[])?;
                let ratio = experiment.flash_ratio;
                let mut configuration =
                    memory_and_flash(policy, values, &experiment.memory, ratio)?;
                configuration.admission = admission.clone();
                configurations.push((label, configuration));
            }
        }
        configurations
            .par_iter()
            .map(|(label, configuration)| {
                let summary = run(trace, configuration, RunOptions::default(), &Watch::default())?;
                Ok(AdmissionPoint { admission: (*label).clone(), summary })
            })
            .collect()
    }
}

fn candidate(label: &str, identifier: &str, given: &[(&str, &str)]) -> Result<Candidate, LabError> {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Candidate::new(label, registry::find(identifier)?, &given)
}

/// Compares every candidate with the truth, in parallel; the points keep their order.
fn sweep(
    stream: &Stream,
    truth: &Recording,
    candidates: Vec<(u64, Candidate)>,
) -> Result<Vec<SweepPoint>, LabError> {
    candidates
        .into_par_iter()
        .map(|(at, candidate)| {
            let recording = stream.record(&candidate, &Watch::default())?;
            let summary = summarise(&candidate, &recording, truth, stream.count());
            Ok(SweepPoint {
                series: candidate.label,
                at,
                hot_ratio: summary.hot_ratio(),
                false_identification_rate: summary.false_identification_rate(),
            })
        })
        .collect()
}
