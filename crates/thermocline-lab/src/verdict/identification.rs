//! Verdict on hot-data identifiers: the one closest to the baseline, and its state.

use super::{Ranked, Ranking, share, ties};
use crate::metric::byte_size;
use crate::{Identification, IdentifierSummary};

impl Ranked for IdentifierSummary {
    fn name(&self) -> String {
        self.label.clone()
    }

    fn sizes(&self) -> String {
        format!("{} of state", byte_size(self.memory_bits.div_ceil(8)))
    }
}

/// Says which identifier differs least from the baseline; a baseline alone says nothing.
pub fn identification(found: &Identification) -> Vec<String> {
    let baseline = found.identifiers.iter().find(|one| one.name == found.baseline);
    let others = found.identifiers.iter().filter(|one| one.name != found.baseline);
    let differs = |one: &IdentifierSummary| {
        let different = one.false_hot + one.false_cold;
        (one.writes > 0).then(|| different as f64 / one.writes as f64)
    };
    let ranking = Ranking::new(others, differs);
    let (false, Some(baseline)) = (ranking.runs.is_empty(), baseline) else { return vec![] };
    let (figure, best) = ranking.best();
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let mut answer = format!(
        "{} is closest to {}: they differ on {} of the accesses",
        best.name(),
        baseline.name(),
        percent(figure)
    );
    if let Some((figure, rival)) = ranking.behind() {
        answer += &format!(", {} fewer than with {}", share(ranking.saved(figure)), rival.name());
    }
    let mut sentences = vec![answer + "."];
    sentences.extend(ties(&ranking));
    sentences.push(format!(
        "It takes {}; {} takes {}.",
        best.sizes(),
        baseline.name(),
        baseline.sizes()
    ));
    let hot = |one: &IdentifierSummary| percent(one.hot as f64 / one.writes.max(1) as f64);
    sentences.push(format!(
        "It finds {} of the accesses hot; {} finds {}.",
        hot(best),
        baseline.name(),
        hot(baseline)
    ));
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identification::IdentifiedTrace;

    fn one(
        name: &str,
        hot: u64,
        [false_hot, false_cold]: [u64; 2],
        bytes: u64,
    ) -> IdentifierSummary {
        IdentifierSummary {
            name: name.into(),
            label: name.into(),
            parameters: serde_json::Map::new(),
            writes: 1000,
            hot,
            false_hot,
            false_cold,
            memory_bits: bytes * 8,
            check_ns: 1.0,
            decay_ns: None,
            decay_writes: None,
            over_time: vec![],
        }
    }

    fn found(identifiers: Vec<IdentifierSummary>) -> Identification {
        Identification {
            trace: IdentifiedTrace {
                path: "t.csv".into(),
                writes: 1000,
                counted: "writes",
                footprint_pages: 100,
            },
            baseline: "wdac".into(),
            interval_writes: 1000,
            unique_pages: vec![100],
            identifiers,
        }
    }

    #[test]
    fn the_closest_is_named_with_its_state() {
        let wdac = one("wdac", 250, [0, 0], 1 << 20);
        let all =
            vec![wdac.clone(), one("mhf", 300, [60, 20], 2048), one("mbf", 240, [15, 25], 8192)];
        assert_eq!(
            identification(&found(all)),
            [
                "mbf is closest to wdac: they differ on 4.00 % of the accesses, 50 % fewer than with mhf.",
                "It takes 8 KiB of state; wdac takes 1 MiB of state.",
                "It finds 24.00 % of the accesses hot; wdac finds 25.00 %.",
            ]
        );
        assert_eq!(identification(&found(vec![wdac])), [""; 0]);
    }
}
