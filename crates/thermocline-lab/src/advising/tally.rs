//! Figures from the replay of a sample, and their extrapolation to all accesses.
//!
//! The numbers of reads and writes of all extents are known. If those of the sample had more than
//! their share, because one of them is hot, the figures of the sample are off by the effect of
//! these accesses. That is known too: the extents of the sample differ in their numbers of
//! requests, and so show the effect of one more access.
//!
//! * Source: the generalised regression estimator with reads and writes as auxiliary variables and extents
//!   as units (Sarndal, Swensson, Wretman, Model Assisted Survey Sampling, 1992, chapter 6).
//! * Deviations: the line goes through the origin, as an extent that is never asked for does nothing.

use std::sync::Arc;

use thermocline_core::{Action, Actions, PageCost, Tier};
use thermocline_trace::CompiledTrace;

use super::PARTS;
use super::sampled::{Index, Ops, STEADY};
use super::write_times::{WriteTimes, move_ms};
use crate::Recorder;

/// Figures from one replay of a sample.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    index: Arc<Index>,
    rate: f64,
    disk: Tier,
    flash: Tier,
    costs: Vec<PageCost>,
    hits: Figure,
    flash_writes: Figure,
    /// The time of the devices, of each extent.
    device_ms: Vec<f64>,
    pub(super) write_times: WriteTimes,
}

/// Figure that is counted.
#[derive(Clone, Debug)]
struct Figure {
    parts: [f64; PARTS],
    /// Counts of each extent, in the parts of the time from which a forecast is made.
    extents: Vec<f64>,
}

impl Tally {
    /// Create an empty tally for tiers of these costs, the disk last and flash before it.
    pub(super) fn new(index: &Arc<Index>, rate: f64, costs: Vec<PageCost>) -> Self {
        let extents = index.extents.len();
        let figure = Figure { parts: [0.0; PARTS], extents: vec![0.0; extents] };
        let tier = |above_disk| {
            let tier = costs.len().saturating_sub(above_disk);
            Tier(u8::try_from(tier).expect("a hierarchy has few tiers"))
        };
        Self {
            index: Arc::clone(index),
            rate,
            disk: tier(1),
            flash: tier(2),
            hits: figure.clone(),
            flash_writes: figure,
            device_ms: vec![0.0; extents],
            write_times: WriteTimes::new(costs.clone()),
            costs,
        }
    }

    /// Return the hits per access in each part of the time from which a forecast is made.
    pub(super) fn hit_ratios(&self) -> Vec<f64> {
        self.per_access(&self.hits)
    }

    /// Return the pages written to flash per access in each part of the time from which a forecast
    /// is made.
    pub(super) fn flash_writes(&self) -> Vec<f64> {
        self.per_access(&self.flash_writes)
    }

    /// Return the time of the devices for all transfers, per access, in milliseconds.
    pub(super) fn device_ms_per_access(&self) -> f64 {
        let Index { extents, all, sampled, .. } = &*self.index;
        let per_op =
            per_op(extents.iter().map(|asked| asked.ever).zip(self.device_ms.iter().copied()));
        let sum = |parts: &[Ops]| {
            parts.iter().fold([0.0; 2], |[reads, writes], part| [reads + part[0], writes + part[1]])
        };
        let found = self.device_ms.iter().sum();
        let (all, sampled) = (sum(all), sum(sampled));
        calibrated(found, sampled, all, self.rate, per_op) / (all[0] + all[1]).max(1.0)
    }

    fn per_access(&self, figure: &Figure) -> Vec<f64> {
        let Index { extents, all, sampled, .. } = &*self.index;
        let asked = extents.iter().map(|asked| asked.while_steady);
        let per_op = per_op(asked.zip(figure.extents.iter().copied()));
        let per_access = |part: usize| {
            let [reads, writes] = all[part];
            let found = calibrated(figure.parts[part], sampled[part], all[part], self.rate, per_op);
            found / (reads + writes).max(1.0)
        };
        STEADY.map(per_access).collect()
    }

    fn note(&mut self, index: usize, actions: &Actions) {
        let part = self.index.part(index);
        for &action in actions.as_slice() {
            let (page, is_hit, is_flash_write) = match action {
                Action::Serve { page, op, found, tier } => (
                    page,
                    found != self.disk,
                    tier == self.flash && op == thermocline_core::Op::Write,
                ),
                Action::Copy { page, target, .. } => (page, false, target == self.flash),
                Action::Drop { .. } => continue,
            };
            let extent = self.index.extent(page);
            self.device_ms[extent] += move_ms(&self.costs, action);
            for (is_counted, figure) in
                [(is_hit, &mut self.hits), (is_flash_write, &mut self.flash_writes)]
            {
                if is_counted {
                    figure.parts[part] += 1.0;
                    if STEADY.contains(&part) {
                        figure.extents[extent] += 1.0;
                    }
                }
            }
        }
    }
}

impl Recorder for Tally {
    fn access(&mut self, trace: &CompiledTrace, index: usize, actions: &Actions) {
        self.note(index, actions);
        self.write_times.note(trace.access(index).op, self.index.part(index), actions);
    }

    fn between_accesses(&mut self, _trace: &CompiledTrace, index: usize, actions: &Actions) {
        self.note(index, actions);
    }
}

/// Estimate the figure of all extents, if those of a sample have `found`, and one more read or
/// write adds `per_op`.
fn calibrated(found: f64, sampled: Ops, all: Ops, rate: f64, per_op: Ops) -> f64 {
    let missing = |op: usize| (all[op] - sampled[op] / rate) * per_op[op];
    found / rate + missing(0) + missing(1)
}

/// Estimate the effect of one read and one write of an extent: the plane of least squares through
/// the origin.
fn per_op(extents: impl Iterator<Item = (Ops, f64)>) -> Ops {
    let (mut squares, mut product, mut with) = ([0.0; 2], 0.0, [0.0; 2]);
    for ([reads, writes], found) in extents {
        squares = [squares[0] + reads * reads, squares[1] + writes * writes];
        product += reads * writes;
        with = [with[0] + reads * found, with[1] + writes * found];
    }
    let determinant = squares[0] * squares[1] - product * product;
    if determinant > COLLINEAR * squares[0] * squares[1] {
        let reads = with[0] * squares[1] - with[1] * product;
        let writes = with[1] * squares[0] - with[0] * product;
        return [reads / determinant, writes / determinant];
    }
    // Reads and writes are not told apart: each is an access.
    let of_accesses = squares[0] + 2.0 * product + squares[1];
    let per_access = if of_accesses > 0.0 { (with[0] + with[1]) / of_accesses } else { 0.0 };
    [per_access; 2]
}

/// Share of the product of the squares below which reads count as a function of writes.
const COLLINEAR: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thermocline_core::random::SplitMix64;

    use super::*;

    fn sum(extents: impl Iterator<Item = (Ops, f64)>) -> (Ops, f64) {
        extents.fold(([0.0; 2], 0.0), |(ops, found), (more, of_more)| {
            ([ops[0] + more[0], ops[1] + more[1]], found + of_more)
        })
    }

    proptest! {
        #[test]
        fn what_follows_from_reads_and_writes_is_told_by_any_sample(
            extents in prop::collection::vec((0_u32..100, 0_u32..100, any::<bool>()), 1..30),
            [per_read, per_write] in [0.0..1.0_f64, 0.0..1.0],
            rate in 0.01..1.0_f64,
        ) {
            let extents = extents.into_iter().map(|(reads, writes, is_in)| {
                let ops = [f64::from(reads), f64::from(writes)];
                (ops, per_read * ops[0] + per_write * ops[1], is_in)
            });
            let extents: Vec<_> = extents.collect();
            let sample: Vec<(Ops, f64)> =
                extents.iter().filter(|(.., is_in)| *is_in).map(|&(ops, found, _)| (ops, found)).collect();
            // Two extents that differ in their share of writes tell what each is worth.
            let first = sample.first().map_or([0.0; 2], |one| one.0);
            let cross = |ops: Ops| (ops[0] * first[1] - ops[1] * first[0]).abs();
            prop_assume!(sample.iter().any(|&(ops, _)| cross(ops) > 100.0));
            let (all, truth) = sum(extents.iter().map(|&(ops, found, _)| (ops, found)));
            let (sampled, found) = sum(sample.iter().copied());
            let told = calibrated(found, sampled, all, rate, per_op(sample.into_iter()));
            prop_assert!((told - truth).abs() <= 1e-6 * truth.max(1.0), "{told} for {truth}");
        }

        #[test]
        fn a_whole_trace_is_not_corrected(
            extents in prop::collection::vec((0_u32..9, 0_u32..9, 0_u32..9), 0..9),
        ) {
            let extents = extents.into_iter().map(|(reads, writes, found)| {
                ([f64::from(reads), f64::from(writes)], f64::from(found))
            });
            let extents: Vec<_> = extents.collect();
            let (all, truth) = sum(extents.iter().copied());
            let told = calibrated(truth, all, all, 1.0, per_op(extents.into_iter()));
            prop_assert_eq!(told.to_bits(), truth.to_bits(), "{} for {}", told, truth);
        }
    }

    /// Extents of which few are hot. Those that are hot hit nearly always, and writes hit more seldom.
    #[test]
    fn samples_are_right_on_average_and_closer_than_their_sums() {
        let mut random = SplitMix64::new(3);
        let extents: Vec<(Ops, f64)> = (1..=2000)
            .map(|rank| {
                let accesses = 5.0 + 20_000.0 / f64::from(rank);
                let write_share = f64::from(random.below(100)) / 100.0;
                let ops = [accesses * (1.0 - write_share), accesses * write_share];
                let misses = f64::from(random.below(5));
                (ops, (ops[0] + 0.6 * ops[1] - misses).max(0.0))
            })
            .collect();
        let (all, truth) = sum(extents.iter().copied());
        let rate = 0.25;
        let (mut errors, mut errors_of_sums, mut errors_of_ratios) = (vec![], vec![], vec![]);
        for _ in 0..400 {
            let sample: Vec<(Ops, f64)> =
                extents.iter().copied().filter(|_| random.below(4) == 0).collect();
            let (sampled, found) = sum(sample.iter().copied());
            let told = calibrated(found, sampled, all, rate, per_op(sample.into_iter()));
            errors.push(told / truth - 1.0);
            errors_of_sums.push(found / rate / truth - 1.0);
            let share = (sampled[0] + sampled[1]) / (all[0] + all[1]);
            errors_of_ratios.push(found / share / truth - 1.0);
        }
        let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
        let size =
            |errors: &[f64]| mean(&errors.iter().map(|error| error.abs()).collect::<Vec<_>>());
        assert!(mean(&errors).abs() < 0.001, "{}", mean(&errors));
        let sizes = [&errors, &errors_of_sums, &errors_of_ratios].map(|errors| size(errors));
        assert!(4.0 * sizes[0] < sizes[1].min(sizes[2]), "{sizes:?}");
    }
}
