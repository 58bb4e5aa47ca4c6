//! Verdict on caches of keys and values: the one that leaves the least to compute, and its wear of
//! the drive beneath.

use super::{Ranked, Ranking, at_sizes, flips, sizes_in_words, ties};
use crate::kv::KvSummary;
use crate::numbers::{grouped, two_decimals};

impl Ranked for KvSummary {
    fn name(&self) -> String {
        self.policy.name.clone()
    }

    fn sizes(&self) -> String {
        let tiers = self.tiers.iter().map(|tier| (tier.name.as_str(), tier.capacity_blocks));
        match self.block_bytes {
            Some(bytes) => sizes_in_words(tiers.map(|(name, blocks)| (name, blocks * bytes))),
            None => {
                let words = tiers.map(|(name, blocks)| format!("{name} {}", grouped(blocks)));
                format!("{} blocks", words.collect::<Vec<String>>().join(", "))
            }
        }
    }
}

/// Says which cache leaves the fewest tokens to compute; none says nothing, and so do runs of one policy.
pub fn prompts(summaries: &[KvSummary]) -> Vec<String> {
    let missed = |run: &KvSummary| Some(1.0 - run.token_hit_ratio());
    let mut sizes: Vec<Vec<u64>> = summaries.iter().map(KvSummary::capacities).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let of_size = |size: Vec<u64>| {
        Ranking::new(summaries.iter().filter(|run| run.capacities() == size), missed)
    };
    let mut rankings: Vec<Ranking<'_, KvSummary>> = sizes.into_iter().map(of_size).collect();
    rankings.retain(Ranking::is_choice);
    let Some(last) = rankings.last() else { return vec![] };
    let (_, best) = last.best();
    let percent = |share: f64| two_decimals(share * 100.0);
    let mut answer = format!(
        "{} leaves the fewest tokens to compute {}{} % of them hit",
        best.policy.name,
        at_sizes(&rankings),
        percent(best.token_hit_ratio())
    );
    if let Some((_, rival)) = last.behind() {
        let hits = percent(rival.token_hit_ratio());
        answer += &format!(", {hits} % with {}", rival.policy.name);
    }
    let mut sentences = vec![answer + "."];
    sentences.extend(flips(&rankings));
    sentences.extend(ties(last));
    sentences.extend(wear(last));
    sentences
}

/// Describe how often the winner writes a drive that wears, beside the policy that writes it least.
fn wear(ranking: &Ranking<'_, KvSummary>) -> Option<String> {
    let (_, best) = ranking.best();
    let place = best.tiers.iter().rposition(|tier| tier.costs.rated_writes.is_some())?;
    let writes = best.drive_writes_per_day(place)?;
    let mut text =
        format!("It writes {} as a whole {writes:.1} times a day", best.tiers[place].name);
    let all = ranking.runs.iter();
    let all = all.filter_map(|(_, run)| Some((run.drive_writes_per_day(place)?, *run)));
    let (least, sparing) = all.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
    if sparing.policy.name != best.policy.name {
        let hits = two_decimals(sparing.token_hit_ratio() * 100.0);
        let name = &sparing.policy.name;
        text += &format!("; {name} does so {least:.1} times, and {hits} % hit");
    }
    Some(text + ".")
}
