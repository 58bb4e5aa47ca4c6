//! Verdict of a comparison: the best policy, its advantage, the sizes at which another wins, its
//! wear and its worst case, and the value of flash.

use super::{Ranked, TIE_SHARE, at_sizes, flips, share, sizes_in_words, ties};
use crate::metric::{Metric, by_sizes, byte_size, capacities, flash, is_hybrid, leading};
use crate::{Summary, TierSummary};

type Ranking<'a> = super::Ranking<'a, Summary>;

impl Ranked for Summary {
    fn name(&self) -> String {
        self.policy.label()
    }

    fn sizes(&self) -> String {
        sizes(self, usize::MAX)
    }
}

impl<'a> Ranking<'a> {
    /// Return the best run that leaves flash empty, if others use it.
    fn without_flash(&self) -> Option<(f64, &'a Summary)> {
        let without = self.runs.iter().find(|(_, run)| !uses_flash(run)).copied();
        without.filter(|_| self.runs.iter().any(|(_, run)| uses_flash(run)))
    }
}

/// Return the sizes of the first `caches_max` caches of a run, in words.
fn sizes(run: &Summary, caches_max: usize) -> String {
    let page_bytes = run.trace.page_size_bytes;
    let bytes = |tier: &TierSummary| Some(tier.capacity_pages? * page_bytes);
    let caches = run.tiers.iter().filter_map(|tier| Some((tier.name.as_str(), bytes(tier)?)));
    sizes_in_words(caches.take(caches_max))
}

fn uses_flash(run: &Summary) -> bool {
    flash(run).is_some_and(|tier| tier.page_writes > 0)
}

/// Says what a comparison found. All runs are on tiers of the same names; none says nothing, and so do
/// runs of one policy.
pub fn verdict(summaries: &[Summary]) -> Vec<String> {
    let Some(first) = summaries.first() else { return vec![] };
    let metric = leading(&first.tiers);
    let rankings = by_sizes(summaries).into_iter();
    let rankings = rankings.map(|runs| Ranking::new(runs, |run| metric.value(run)));
    let mut rankings: Vec<Ranking<'_>> = rankings.filter(Ranking::is_choice).collect();
    rankings.sort_by_key(|ranking| capacities(ranking.best().1).iter().sum::<u64>());
    let Some(last) = rankings.last() else { return vec![] };
    let mut sentences = vec![answer(&rankings, last, &metric)];
    sentences.extend(flips(&rankings));
    sentences.extend(ties(last));
    sentences.extend(wear(last));
    sentences.extend(worst_case(last));
    sentences.extend(empty_flash(&rankings, last));
    sentences
}

/// Return the policy that wins at the greatest size, and by how much.
fn answer(rankings: &[Ranking<'_>], last: &Ranking<'_>, metric: &Metric) -> String {
    let (figure, best) = last.best();
    let does = if is_hybrid(&best.tiers) {
        "needs the least I/O time"
    } else {
        "answers soonest on average"
    };
    let shown = (metric.show)(figure);
    let mut text = format!("{} {does} {}{shown} {}", best.name(), at_sizes(rankings), metric.unit);
    let rival = last.behind();
    if let Some((figure, rival)) = rival {
        text += &format!(", {} less than {}", share(last.saved(figure)), rival.name());
    }
    let is_told = |alone: &Summary| rival.is_some_and(|(_, rival)| rival.name() == alone.name());
    let alone = last.without_flash().filter(|(_, alone)| uses_flash(best) && !is_told(alone));
    if let Some((figure, alone)) = alone {
        let saved = share(last.saved(figure));
        text += &format!(" and {saved} less than {} without flash", alone.name());
    }
    text + "."
}

/// Compare the winner's flash writes with those of the best policy that writes less than half of
/// them.
fn wear(ranking: &Ranking<'_>) -> Option<String> {
    let (figure, best) = ranking.best();
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
    let spares = |(_, run): &&(f64, &Summary)| uses_flash(run) && 2 * written(run) <= of_best;
    match ranking.runs.iter().find(spares) {
        Some((other_figure, other)) => {
            text += &format!(
                "; {} writes {} and needs {} more",
                other.name(),
                byte_size(written(other) * page_bytes),
                share(other_figure / figure - 1.0)
            );
        }
        None => text += "; no policy that uses flash writes half as little",
    }
    Some(text + ".")
}

/// Return the response times of reads that are slowest, where time was simulated.
fn worst_case(ranking: &Ranking<'_>) -> Option<String> {
    let p99_us = |run: &Summary| Some(run.timing.as_ref()?.response_us.read.p99);
    let of_best = p99_us(ranking.best().1)?;
    let least = ranking.runs.iter().filter_map(|(_, run)| Some((p99_us(run)?, *run)));
    let (least_us, least) = least.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
    let ms = |us: f64| format!("{:.1} ms", us / 1000.0);
    let mut text = format!("One read in a hundred waits longer than {}", ms(of_best));
    if least_us < of_best * (1.0 - TIE_SHARE) {
        text += &format!("; with {}, longer than {}", least.name(), ms(least_us));
    }
    Some(text + ".")
}

/// Judge whether flash pays, and whether more RAM would do as much.
fn empty_flash(rankings: &[Ranking<'_>], last: &Ranking<'_>) -> Option<String> {
    let (alone_figure, alone) = last.without_flash()?;
    let (figure, best) = last.best();
    if last.saved(alone_figure) <= TIE_SHARE {
        let alone = alone.name();
        return Some(format!("Flash saves nothing here: {alone} in RAM alone is as good."));
    }
    // RAM alone in a larger size, where that was run as well.
    let larger = rankings.iter().filter_map(|ranking| {
        let (alone_figure, alone) = ranking.without_flash()?;
        let has_more = capacities(alone).first() > capacities(best).first();
        (has_more && alone_figure <= figure * (1.0 + TIE_SHARE)).then_some(alone)
    });
    let alone = larger.min_by_key(|alone| capacities(alone).first().copied())?;
    Some(format!("More RAM does as much: {} with {} and no flash.", alone.name(), sizes(alone, 1)))
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
        assert_eq!(found[1], "Best at other sizes: hat with RAM 40 KiB and flash 80 KiB.");
        let found = verdict(&[at(80, 500.0, 400.0), at(20, 900.0, 700.0)].concat());
        assert!(
            found[0].starts_with("lc needs the least I/O time at both sizes: with"),
            "{found:?}"
        );
        assert!(!found.iter().any(|sentence| sentence.contains("another")), "{found:?}");
    }

    #[test]
    fn a_tie_does_not_count_as_the_least() {
        let at = |flash_pages: u64, hat: f64, lc: f64| {
            [("hat", hat), ("lc", lc)].map(|(policy, ms)| summary(policy, flash_pages, ms))
        };
        let answer = |runs: &[[Summary; 2]]| verdict(&runs.concat()).swap_remove(0);
        let wins = at(80, 500.0, 400.0);
        let (ties, ties_too) = (at(20, 699.0, 700.0), at(40, 590.0, 600.0));
        let begins = |found: &str, with: &str| {
            let with = format!("lc needs the least I/O time {with}");
            assert!(found.starts_with(&with), "{found} does not begin with {with}");
        };
        begins(&answer(std::slice::from_ref(&wins)), "with");
        let one = "at both sizes (within 2.0 % at one of them): with";
        begins(&answer(&[wins.clone(), ties.clone()]), one);
        let two = "at all 3 sizes (within 2.0 % at 2 of them): with";
        begins(&answer(&[wins.clone(), ties, ties_too]), two);
        // Equal figures are the least of both.
        begins(&answer(&[wins, at(20, 700.0, 700.0)]), "at both sizes: with");
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
