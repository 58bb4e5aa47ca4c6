//! How the paper's claims are judged.

use serde::Deserialize;

use super::WorkloadResult;
use crate::claim::{Claim, Measured, Stated, spread};

/// How a claim is judged; `on` is how the names of its workloads begin, of all if it is absent.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Judge {
    /// HAT takes less I/O time than a rival at every flash size.
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

/// The share of I/O time that HAT saves on a workload, with a flash of this multiple of memory.
type Saving<'a> = (&'a WorkloadResult, f64, f64);

/// The savings against a rival, at every flash size of every workload.
fn savings<'a>(results: impl Iterator<Item = &'a WorkloadResult>, rival: &str) -> Vec<Saving<'a>> {
    let mut savings = vec![];
    for result in results {
        for hat in result.points.iter().filter(|point| point.label == "HAT") {
            let rival = result.points.iter().find(|point| {
                point.label == rival && point.flash_ratio.to_bits() == hat.flash_ratio.to_bits()
            });
            if let Some(rival) = rival {
                let saving = 1.0 - hat.summary.io_time_ms / rival.summary.io_time_ms;
                savings.push((result, hat.flash_ratio, saving));
            }
        }
    }
    savings
}

fn saves(savings: &[Saving<'_>]) -> Option<Measured> {
    let saved = savings.iter().filter(|(_, _, saving)| *saving > 0.0).count();
    let (result, flash_ratio, _) = savings.iter().max_by(|one, other| one.2.total_cmp(&other.2))?;
    let percents = savings.iter().map(|(_, _, saving)| saving * 100.0);
    let spread = spread(&mut percents.collect::<Vec<f64>>(), " %")?;
    let words = format!(
        "faster at {saved} of {} points, {spread} ({}, flash {flash_ratio}x memory)",
        savings.len(),
        result.workload,
    );
    Some(Measured::points(words, saved, savings.len()))
}

fn overtakes(savings: &[Saving<'_>], rival: &str) -> Option<Measured> {
    let smallest = savings.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    smallest.map(|(_, flash_ratio, saving)| {
        let at_most = savings.iter().map(|entry| entry.2).fold(f64::NEG_INFINITY, f64::max);
        let words = format!(
            "HAT saves {:.1} % against {rival} with flash {flash_ratio}x memory, and {:.1} % at most",
            saving * 100.0,
            at_most * 100.0
        );
        Measured::one(words, *saving < 0.0 && at_most > 0.0)
    })
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
