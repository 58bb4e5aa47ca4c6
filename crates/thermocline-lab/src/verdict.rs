//! What a comparison says in a few sentences: which policy, by how much, at which sizes the answer is
//! another, what it costs in wear and in the worst case, and whether flash pays at all.
//!
//! Runs are ranked by the figure that [`leading`] names. Figures that differ by less than
//! [`TIE_SHARE`] are called a tie: so small a difference says more about the trace than about the
//! policies.

use crate::Summary;
use crate::metric::{Metric, by_sizes, byte_size, capacities, flash, is_hybrid, leading};

/// Figures whose difference is at most this share of the greater one are a tie.
pub const TIE_SHARE: f64 = 0.02;
/// How many tied policies are named.
const NAMED_MAX: usize = 4;

/// The runs of one hierarchy of sizes, the best first.
struct Ranking<'a> {
    runs: Vec<&'a Summary>,
    metric: Metric,
}

impl<'a> Ranking<'a> {
    fn new(mut runs: Vec<&'a Summary>) -> Self {
        let metric = leading(&runs[0].tiers);
        runs.retain(|run| metric.value(run).is_some_and(f64::is_finite));
        let figure = |run: &Summary| metric.value(run).unwrap_or(f64::INFINITY);
        runs.sort_by(|one, other| figure(one).total_cmp(&figure(other)));
        Self { runs, metric }
    }

    fn figure(&self, run: &Summary) -> f64 {
        self.metric.value(run).unwrap_or(f64::INFINITY)
    }

    /// By which share the best run's figure is less than that of another.
    fn saved(&self, other: &Summary) -> f64 {
        let (best, other) = (self.figure(self.runs[0]), self.figure(other));
        if other > 0.0 { 1.0 - best / other } else { 0.0 }
    }

    /// The runs that are as good as the best, itself included.
    fn tied(&self) -> Vec<&'a Summary> {
        self.runs.iter().copied().filter(|run| self.saved(run) <= TIE_SHARE).collect()
    }

    /// The best of the others.
    fn behind(&self) -> Option<&'a Summary> {
        self.runs.iter().copied().find(|run| self.saved(run) > TIE_SHARE)
    }

    /// The best run that leaves flash empty, if others use it.
    fn without_flash(&self) -> Option<&'a Summary> {
        let is_without = |run: &&&Summary| !uses_flash(run);
        let without = self.runs.iter().find(is_without).copied();
        without.filter(|_| self.runs.iter().any(|run| uses_flash(run)))
    }
}

fn uses_flash(run: &Summary) -> bool {
    flash(run).is_some_and(|tier| tier.page_writes > 0)
}

/// Says what a comparison found, in sentences of which the first is the answer. All runs are on tiers
/// of the same names; none says nothing.
pub fn verdict(summaries: &[Summary]) -> Vec<String> {
    let mut rankings: Vec<Ranking<'_>> =
        by_sizes(summaries).into_iter().map(Ranking::new).collect();
    rankings.retain(|ranking| ranking.runs.len() > 1);
    rankings.sort_by_key(|ranking| capacities(ranking.runs[0]).iter().sum::<u64>());
    let Some(last) = rankings.last() else { return vec![] };
    let mut sentences = vec![answer(&rankings)];
    sentences.extend(flips(&rankings));
    sentences.extend(ties(last));
    sentences.extend(wear(last));
    sentences.extend(worst_case(last));
    sentences.extend(empty_flash(&rankings));
    sentences
}

/// The policy that wins at the greatest size, and by how much.
fn answer(rankings: &[Ranking<'_>]) -> String {
    let last = &rankings[rankings.len() - 1];
    let best = last.runs[0];
    let does = if is_hybrid(&best.tiers) {
        "needs the least I/O time"
    } else {
        "answers soonest on average"
    };
    let (figure, unit) = ((last.metric.show)(last.figure(best)), last.metric.unit);
    let wins = rankings.iter().filter(|ranking| is_tied(ranking, &best.policy.name)).count();
    let at = sizes(best);
    let mut text = format!("{} {does} ", best.policy.name);
    text += &match rankings.len() {
        1 => format!("with {at}: {figure} {unit}"),
        2 if wins == 2 => format!("at both sizes: with {at}, {figure} {unit}"),
        all if all == wins => format!("at all {all} sizes: with {at}, {figure} {unit}"),
        _ => format!("with {at}: {figure} {unit}"),
    };
    let rival = last.behind();
    if let Some(rival) = rival {
        text += &format!(", {} less than {}", share(last.saved(rival)), rival.policy.name);
    }
    let is_told =
        |alone: &&Summary| rival.is_some_and(|rival| rival.policy.name == alone.policy.name);
    if let Some(alone) = last.without_flash().filter(|alone| uses_flash(best) && !is_told(alone)) {
        text += &format!(
            " and {} less than {} without flash",
            share(last.saved(alone)),
            alone.policy.name
        );
    }
    text + "."
}

fn is_tied(ranking: &Ranking<'_>, policy: &str) -> bool {
    ranking.tied().iter().any(|run| run.policy.name == policy)
}

/// At which other sizes another policy wins by more than a tie.
fn flips(rankings: &[Ranking<'_>]) -> Option<String> {
    let winner = &rankings[rankings.len() - 1].runs[0].policy.name;
    let others = rankings.iter().filter(|ranking| !is_tied(ranking, winner));
    let others: Vec<String> = others
        .map(|ranking| {
            let best = ranking.runs[0];
            format!("{} with {}", best.policy.name, sizes(best))
        })
        .collect();
    if others.is_empty() {
        return None;
    }
    Some(format!("At other sizes the answer is another: {}.", listed(&others)))
}

/// Which policies are as good.
fn ties(ranking: &Ranking<'_>) -> Option<String> {
    let tied = ranking.tied();
    let others: Vec<String> = tied.iter().skip(1).map(|run| run.policy.name.clone()).collect();
    let most = share(TIE_SHARE);
    match others.len() {
        0 => None,
        1..=NAMED_MAX => Some(format!("As good, within {most}: {}.", listed(&others))),
        all => {
            let named = listed(&others[..NAMED_MAX]);
            Some(format!("As good, within {most}, are {all} others, among them {named}."))
        }
    }
}

/// What the winner writes to flash, beside the best policy that writes less than half of it.
fn wear(ranking: &Ranking<'_>) -> Option<String> {
    let best = ranking.runs[0];
    let written = |run: &Summary| flash(run).map_or(0, |tier| tier.page_writes);
    let page_bytes = best.trace.page_size_bytes;
    let of_best = written(best);
    if of_best == 0 {
        return None;
    }
    let accesses = best.trace.accesses.saturating_sub(best.warm_up_accesses).max(1);
    let mut text = format!(
        "It writes {} to flash, {:.0} pages per 100 accesses",
        byte_size(of_best * page_bytes),
        100.0 * of_best as f64 / accesses as f64
    );
    let spares = |run: &&&Summary| uses_flash(run) && 2 * written(run) <= of_best;
    match ranking.runs.iter().find(spares) {
        Some(other) => {
            let more = ranking.figure(other) / ranking.figure(best) - 1.0;
            text += &format!(
                "; {} writes {} and needs {} more",
                other.policy.name,
                byte_size(written(other) * page_bytes),
                share(more)
            );
        }
        None => text += "; no policy that uses flash writes half as little",
    }
    Some(text + ".")
}

/// The response times of reads that are slowest, where time was simulated.
fn worst_case(ranking: &Ranking<'_>) -> Option<String> {
    let p99_us = |run: &Summary| Some(run.timing.as_ref()?.response_us.read.p99);
    let of_best = p99_us(ranking.runs[0])?;
    let least = ranking.runs.iter().filter_map(|run| Some((p99_us(run)?, *run)));
    let (least_us, least) = least.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
    let ms = |us: f64| format!("{:.1} ms", us / 1000.0);
    let mut text = format!("One read in a hundred waits longer than {}", ms(of_best));
    if least_us < of_best * (1.0 - TIE_SHARE) {
        text += &format!("; with {}, longer than {}", least.policy.name, ms(least_us));
    }
    Some(text + ".")
}

/// Whether flash pays, and whether more RAM would do as much.
fn empty_flash(rankings: &[Ranking<'_>]) -> Option<String> {
    let last = &rankings[rankings.len() - 1];
    let alone = last.without_flash()?;
    let best = last.runs[0];
    if last.saved(alone) <= TIE_SHARE {
        return Some(format!(
            "Flash saves nothing here: {} in RAM alone is as good.",
            alone.policy.name
        ));
    }
    // RAM alone in a larger size, where that was run as well.
    let figure = last.figure(best);
    let larger = rankings.iter().filter_map(|ranking| {
        let alone = ranking.without_flash()?;
        let has_more = capacities(alone).first() > capacities(best).first();
        (has_more && ranking.figure(alone) <= figure * (1.0 + TIE_SHARE)).then_some(alone)
    });
    let alone = larger.min_by_key(|alone| capacities(alone).first().copied())?;
    Some(format!(
        "More RAM does as much: {} with {} and no flash.",
        alone.policy.name,
        size(alone, 0)
    ))
}

/// The sizes of all caches, as in `RAM 3 MiB and flash 49 MiB`.
fn sizes(run: &Summary) -> String {
    let caches = run.tiers.iter().filter(|tier| tier.capacity_pages.is_some()).count();
    listed(&(0..caches).map(|place| size(run, place)).collect::<Vec<_>>())
}

fn size(run: &Summary, place: usize) -> String {
    let tier = &run.tiers[place];
    let bytes = tier.capacity_pages.unwrap_or(0) * run.trace.page_size_bytes;
    let name = if tier.name == "ram" { "RAM" } else { &tier.name };
    format!("{name} {}", byte_size(bytes))
}

fn share(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 10.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Things in a sentence: `a`, `a and b`, `a, b and c`.
fn listed(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::summary;

    fn writing(run: Summary, flash_page_writes: u64) -> Summary {
        let mut run = run;
        run.tiers[1].page_writes = flash_page_writes;
        run
    }

    #[test]
    fn one_size_has_a_winner_ties_and_a_price() {
        let found = verdict(&[
            writing(summary("hat", 20, 600.0), 80),
            writing(summary("lc", 20, 590.0), 90),
            writing(summary("tac", 20, 800.0), 40),
            summary("lru", 20, 1200.0),
        ]);
        assert_eq!(
            found,
            [
                "lc needs the least I/O time with RAM 40 KiB and flash 80 KiB: 0.6 s, 26 % less than tac and 51 % less than lru without flash.",
                "As good, within 2.0 %: hat.",
                "It writes 360 KiB to flash, 90 pages per 100 accesses; tac writes 160 KiB and needs 36 % more.",
            ]
        );
    }

    #[test]
    fn sizes_at_which_another_wins_are_named() {
        let at = |flash_pages: u64, hat: f64, lc: f64| {
            [("hat", hat), ("lc", lc)]
                .map(|(policy, ms)| writing(summary(policy, flash_pages, ms), 9))
        };
        // In any order of the sizes.
        let runs = [at(80, 500.0, 400.0), at(20, 700.0, 900.0), at(40, 600.0, 601.0)].concat();
        let found = verdict(&runs);
        assert!(found[0].starts_with("lc needs the least I/O time with RAM 40 KiB and flash 320 KiB: 0.4 s, 20 % less than hat"), "{found:?}");
        assert_eq!(
            found[1],
            "At other sizes the answer is another: hat with RAM 40 KiB and flash 80 KiB."
        );
        let found = verdict(&[at(80, 500.0, 400.0), at(20, 900.0, 700.0)].concat());
        assert!(
            found[0].starts_with("lc needs the least I/O time at both sizes: with"),
            "{found:?}"
        );
        assert!(!found.iter().any(|sentence| sentence.contains("another")), "{found:?}");
    }

    #[test]
    fn flash_that_saves_nothing_is_said_to() {
        let found = verdict(&[writing(summary("hat", 20, 595.0), 80), summary("lru", 20, 600.0)]);
        assert!(
            found.contains(&"Flash saves nothing here: lru in RAM alone is as good.".into()),
            "{found:?}"
        );
        let large = |mut run: Summary| {
            run.tiers[0].capacity_pages = Some(1000);
            run
        };
        let found = verdict(&[
            writing(summary("hat", 2000, 300.0), 80),
            summary("lru", 2000, 600.0),
            large(writing(summary("hat", 20, 290.0), 80)),
            large(summary("lru", 20, 303.0)),
        ]);
        assert_eq!(
            found.last().unwrap(),
            "More RAM does as much: lru with RAM 3.9 MiB and no flash."
        );
    }

    #[test]
    fn one_policy_alone_has_no_verdict() {
        assert!(verdict(&[]).is_empty());
        assert!(verdict(&[summary("hat", 20, 1.0), summary("hat", 40, 1.0)]).is_empty());
    }
}
