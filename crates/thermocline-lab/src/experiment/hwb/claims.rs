//! The paper's claims, beside what was measured.

use super::{Experiment, Run, WorkloadResult};
use crate::BufferSummary;
use crate::experiment::Claim;
use crate::metric::{self, Metric};

/// How near a measured ratio of HWB to LRU must come to the paper's to confirm it.
const TOLERANCE: f64 = 0.1;

/// The figure of each of the paper's charts.
const HITS: &Metric<BufferSummary> = &metric::BUFFERS[0];
const ERASES: &Metric<BufferSummary> = &metric::BUFFERED_SSD[0];
const RESPONSE: &Metric<BufferSummary> = &metric::BUFFERED_SSD[2];

/// All claims of sections II and IV that a measurement can confirm or not.
pub fn claims(experiment: &Experiment, results: &[WorkloadResult]) -> Vec<Claim> {
    let mut claims = vec![];
    for result in results.iter().filter(|result| result.paper.is_some()) {
        claims.extend(papers_figures(experiment, result));
    }
    if claims.is_empty() {
        claims.push(Claim {
            claim: "at 32 MiB, HWB's misses are 0.56 to 0.95 of LRU's, its erases 0.57 to 0.92, its response time 0.68 to 0.86".into(),
            measured: Claim::not_run(),
            is_confirmed: None,
        });
    }
    let orders = [
        ("HWB hits more often than LRU, on all workloads", HITS, "HWB", "LRU"),
        ("HWB hits more often than LRU-WSR", HITS, "HWB", "LRU-WSR"),
        ("LRU-WSR hits more often than BPAC", HITS, "LRU-WSR", "BPAC"),
        ("HWB erases less than LRU, on all workloads", ERASES, "HWB", "LRU"),
        ("HWB erases less than BPAC", ERASES, "HWB", "BPAC"),
        ("BPAC erases less than LRU-WSR", ERASES, "BPAC", "LRU-WSR"),
        ("HWB answers writes sooner than BPAC", RESPONSE, "HWB", "BPAC"),
        ("BPAC answers writes sooner than LRU-WSR", RESPONSE, "BPAC", "LRU-WSR"),
    ];
    for (claim, metric, one, other) in orders {
        claims.push(everywhere(claim, results, metric, one, other));
    }
    claims.push(update_frequency(results));
    claims
}

/// The ratios of HWB to LRU on one of the paper's traces, on the paper's drive.
fn papers_figures(experiment: &Experiment, result: &WorkloadResult) -> Vec<Claim> {
    let Some(paper) = result.paper else { return vec![] };
    let find = |label: &str| {
        let mut runs = result.paper_drive.iter();
        runs.find(|run| run.label == label && run.size == experiment.text_size)
    };
    let (Some(lru), Some(hwb)) = (find("LRU"), find("HWB")) else { return vec![] };
    let misses = |run: &Run| 100.0 - HITS.value(&run.summary).unwrap_or(0.0);
    let figure =
        |metric: &Metric<BufferSummary>, run: &Run| metric.value(&run.summary).unwrap_or(f64::NAN);
    let paper_misses = paper.hits_percent.map(|hits| 100.0 - hits);
    let ratios = [
        ("misses", paper_misses, [misses(lru), misses(hwb)]),
        ("erases", paper.erases, [lru, hwb].map(|run| figure(ERASES, run))),
        ("mean write response", paper.response_us, [lru, hwb].map(|run| figure(RESPONSE, run))),
    ];
    let claim = |(what, [paper_lru, paper_hwb], [our_lru, our_hwb]): (&str, [f64; 2], [f64; 2])| {
        let [paper, ours] = [paper_hwb / paper_lru, our_hwb / our_lru];
        Claim {
            claim: format!(
                "{}, 32 MiB: HWB's {what} are {paper:.2} of LRU's ({paper_hwb} to {paper_lru})",
                result.workload
            ),
            measured: format!(
                "{ours:.2} ({our_hwb:.1} to {our_lru:.1}; {} requests)",
                metric::grouped(result.requests)
            ),
            is_confirmed: Some((ours - paper).abs() <= TOLERANCE),
        }
    };
    let mut claims: Vec<Claim> = ratios.map(claim).into();
    if let Some(shares) = paper.classes_percent {
        let ours = result.classes.classes.iter().map(|class| class.page_share * 100.0);
        let ours: Vec<f64> = ours.collect();
        let difference = ours.iter().zip(shares).map(|(one, other)| (one - other).abs());
        let words = |shares: &[f64]| {
            shares.iter().map(|share| format!("{share:.0}")).collect::<Vec<_>>().join("/")
        };
        claims.push(Claim {
            claim: format!(
                "{}: FS, FL, IS and IL are {} % of the pages",
                result.workload,
                words(&shares)
            ),
            measured: format!("{} %", words(&ours)),
            is_confirmed: Some(difference.fold(0.0, f64::max) <= 100.0 * TOLERANCE),
        });
    }
    claims
}

/// That one buffer has a better figure than another on every workload, at every size.
fn everywhere(
    claim: &str,
    results: &[WorkloadResult],
    metric: &Metric<BufferSummary>,
    one: &str,
    other: &str,
) -> Claim {
    let (mut better, mut equal, mut points) = (0, 0, 0);
    let mut gains = vec![];
    for result in results {
        for run in result.used_drive.iter().filter(|run| run.label == one) {
            let rival = result
                .used_drive
                .iter()
                .find(|rival| rival.label == other && rival.size == run.size);
            let Some(rival) = rival else { continue };
            let (Some(ours), Some(theirs)) =
                (metric.value(&run.summary), metric.value(&rival.summary))
            else {
                continue;
            };
            points += 1;
            equal += usize::from(ours.total_cmp(&theirs).is_eq());
            better +=
                usize::from(if metric.is_more_better { ours > theirs } else { ours < theirs });
            if theirs > 0.0 {
                gains.push((ours / theirs - 1.0) * 100.0);
            }
        }
    }
    gains.sort_by(f64::total_cmp);
    let range = match (gains.first(), gains.get(gains.len() / 2), gains.last()) {
        (Some(least), Some(median), Some(most)) => {
            format!("; {least:+.1} to {most:+.1} %, median {median:+.1} %")
        }
        _ => String::new(),
    };
    Claim {
        claim: claim.into(),
        measured: format!("at {better} of {points} points, equal at {equal}{range}"),
        is_confirmed: (points > 0).then_some(better == points),
    }
}

/// That pages of class FS are updated ten thousand times as often as infrequent ones, FL a hundred.
fn update_frequency(results: &[WorkloadResult]) -> Claim {
    let mut ratios = [vec![], vec![]];
    for result in results {
        let frequency = |class: usize| result.classes.classes[class].mean_writes_per_page;
        let infrequent = frequency(2).max(frequency(3));
        for (class, ratios) in ratios.iter_mut().enumerate() {
            if infrequent > 0.0 && frequency(class) > 0.0 {
                ratios.push(frequency(class) / infrequent);
            }
        }
    }
    let range = |ratios: &[f64]| {
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        if ratios.is_empty() { "none".into() } else { format!("{least:.0} to {most:.0} times") }
    };
    let is_confirmed =
        ratios[0].iter().all(|&ratio| ratio >= 1e4) && ratios[1].iter().all(|&ratio| ratio >= 1e2);
    Claim {
        claim: "pages of class FS are updated 10,000 times, of class FL 100 times as often as those of IS and IL".into(),
        measured: format!("FS {}, FL {}", range(&ratios[0]), range(&ratios[1])),
        is_confirmed: (!results.is_empty()).then_some(is_confirmed),
    }
}
