//! Judges of the paper's claims.

use serde::Deserialize;

use super::{Sizes, WorkloadResult};
use crate::claim::{Claim, Measured, Stated, spread};
use crate::study::in_order;

/// Rule by which a claim is judged. `on` is the prefix of the names of its workloads; without it,
/// all count.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Judge {
    /// HAT takes less I/O time than a rival at all sizes.
    Saves { on: Option<String>, rival: String },
    /// HAT is slower than a rival with the least flash, and faster with more.
    Overtakes { on: Option<String>, rival: String },
    /// I/O time varies by this share at most over the non-hot ratios.
    VariesLittle { at_most: f64 },
}

pub(super) fn judge(stated: &Stated<Judge>, results: &[WorkloadResult]) -> Claim {
    let savings = |on: &Option<String>, rival: &str| {
        let is_meant = |result: &&WorkloadResult| {
            on.as_ref().is_none_or(|begin| result.workload.starts_with(begin))
        };
        savings(results.iter().filter(is_meant), rival)
    };
    let measured = match &stated.judge {
        Judge::Saves { on, rival } => saves(&savings(on, rival)),
        Judge::Overtakes { on, rival } => overtakes(&savings(on, rival), rival),
        Judge::VariesLittle { at_most } => varies_little(results, *at_most),
    };
    Claim::new(stated.says(&[]), measured)
}

/// The share of I/O time that HAT saves on a workload at these sizes.
type Saving<'a> = (&'a WorkloadResult, Sizes<'a>, f64);

/// Return the savings against a rival, at all sizes of every workload.
fn savings<'a>(results: impl Iterator<Item = &'a WorkloadResult>, rival: &str) -> Vec<Saving<'a>> {
    let savings = results.flat_map(|result| {
        let hats = result.points.iter().filter(|point| point.label == "HAT");
        hats.filter_map(move |hat| Some((result, hat.sizes(), hat.saving(&result.points, rival)?)))
    });
    savings.collect()
}

fn saves(savings: &[Saving<'_>]) -> Option<Measured> {
    let saved = savings.iter().filter(|(_, _, saving)| *saving > 0.0).count();
    let best = savings.iter().max_by(|one, other| one.2.total_cmp(&other.2))?;
    let (result, (memory, flash_ratio), _) = best;
    let percents = savings.iter().map(|(_, _, saving)| saving * 100.0);
    let spread = spread(&mut percents.collect::<Vec<f64>>(), " %")?;
    let words = format!(
        "faster at {saved} of {} points, {spread} ({}, memory {memory}, flash {flash_ratio}x memory)",
        savings.len(),
        result.workload,
    );
    Some(Measured::points(words, saved, savings.len()))
}

/// Measure at how many sizes of memory HAT is slower with the least flash, and faster with some
/// other.
fn overtakes(savings: &[Saving<'_>], rival: &str) -> Option<Measured> {
    let memories = in_order(savings.iter().map(|(_, (memory, _), _)| *memory));
    let of_memories = memories.iter().filter_map(|&memory| {
        let own = || savings.iter().filter(|(_, sizes, _)| sizes.0 == memory);
        let least_flash = own().min_by(|one, other| one.1.1.total_cmp(&other.1.1))?;
        let best = own().map(|saving| saving.2).fold(f64::NEG_INFINITY, f64::max);
        Some((memory, least_flash.2, best))
    });
    let of_memories: Vec<(&str, f64, f64)> = of_memories.collect();
    let holds = of_memories.iter().filter(|(_, least, best)| *least < 0.0 && *best > 0.0).count();
    let each = of_memories.iter().map(|(memory, least, best)| {
        format!("{:+.1} % and {:+.1} % with memory {memory}", least * 100.0, best * 100.0)
    });
    let words = format!(
        "HAT saves against {rival}, with the least flash and at most: {}",
        each.collect::<Vec<_>>().join(", ")
    );
    (!of_memories.is_empty()).then(|| Measured::points(words, holds, of_memories.len()))
}

fn varies_little(results: &[WorkloadResult], at_most: f64) -> Option<Measured> {
    let spreads = results.iter().filter_map(|result| {
        let times = result.nonhot.iter().map(|point| point.summary.io_time_ms);
        let (least, most) = times.fold((f64::INFINITY, 0.0_f64), |(least, most), time| {
            (least.min(time), most.max(time))
        });
        (most > 0.0).then(|| (most / least - 1.0, result))
    });
    let widest = spreads.max_by(|one, other| one.0.total_cmp(&other.0));
    widest.map(|(spread, result)| {
        let place = &result.workload;
        let words = format!("I/O time varies by {:.1} % at most ({place})", spread * 100.0);
        Measured::one(words, spread <= at_most)
    })
}
