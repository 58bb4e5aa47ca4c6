//! Verdict of a sweep: the best policies by the number of cases of trace and sizes, and trace by
//! trace.

use super::{Ranked, Ranking, TIE_SHARE, at_sizes, flips, listed, share, sizes_in_words};
use crate::sweep::Row;

/// Maximum number of traces that are described one by one.
const TRACES_MAX: usize = 5;
/// Maximum number of policies that are described for all cases.
const NAMED: usize = 3;

/// A row with what it is called: its policy, with the parameters that are varied.
struct Named<'a> {
    name: &'a str,
    row: &'a Row,
}

impl Ranked for Named<'_> {
    fn name(&self) -> String {
        self.name.into()
    }

    fn sizes(&self) -> String {
        let Row { tiers, page_size_bytes, .. } = self.row;
        let caches = tiers
            .iter()
            .filter_map(|tier| Some((tier.name.as_str(), tier.capacity_pages? * page_size_bytes)));
        sizes_in_words(caches)
    }
}

/// Says what rows found, each given with what it is called. Cases with one row say nothing.
pub fn sweep(rows: &[(String, &Row)]) -> Vec<String> {
    let named: Vec<Named<'_>> = rows.iter().map(|(name, row)| Named { name, row }).collect();
    let mut traces: Vec<(&str, Vec<Ranking<'_, Named<'_>>>)> = vec![];
    for one in &named {
        if !traces.iter().any(|(trace, _)| *trace == one.row.trace) {
            traces.push((&one.row.trace, rankings(&named, &one.row.trace)));
        }
    }
    traces.retain(|(_, rankings)| !rankings.is_empty());
    let all: Vec<&Ranking<'_, Named<'_>>> = traces.iter().flat_map(|(_, all)| all).collect();
    let mut sentences: Vec<String> = of_all(&all).into_iter().collect();
    for (trace, rankings) in traces.iter().take(TRACES_MAX) {
        sentences.push(format!("On {trace}, {}", of_trace(rankings)));
        sentences.extend(flips(rankings));
    }
    if traces.len() > TRACES_MAX {
        sentences.push(format!("{} more traces are below.", traces.len() - TRACES_MAX));
    }
    sentences
}

/// Return the rows of a trace by their sizes, in the order of all sizes together.
fn rankings<'a>(all: &'a [Named<'a>], trace: &str) -> Vec<Ranking<'a, Named<'a>>> {
    let mut rows: Vec<&Named<'_>> = all.iter().filter(|one| one.row.trace == trace).collect();
    let capacities = |one: &Named<'_>| -> Vec<(String, u64)> {
        let tiers = one.row.tiers.iter();
        tiers.filter_map(|tier| Some((tier.name.clone(), tier.capacity_pages?))).collect()
    };
    rows.sort_by_cached_key(|one| {
        let all = capacities(one);
        (all.iter().map(|(_, pages)| pages).sum::<u64>(), all)
    });
    let of_sizes = rows.chunk_by(|one, next| capacities(one) == capacities(next));
    let rankings = of_sizes.map(|rows| {
        Ranking::new(rows.iter().copied(), |one: &Named<'_>| one.row.figure(column(one)))
    });
    rankings.filter(Ranking::is_choice).collect()
}

/// Return the column that ranks rows: I/O time where RAM comes first, as in comparisons.
fn column(one: &Named<'_>) -> &'static str {
    let is_hybrid = one.row.tiers.first().is_some_and(|tier| tier.name == "ram");
    if is_hybrid { "io_time_ms" } else { "average_response_ms" }
}

/// Describe the policies that are as good as any in most of several cases.
fn of_all(rankings: &[&Ranking<'_, Named<'_>>]) -> Option<String> {
    if rankings.len() < 2 {
        return None;
    }
    let mut wins: Vec<(String, usize)> = vec![];
    for one in rankings.iter().flat_map(|ranking| ranking.tied()) {
        match wins.iter_mut().find(|(name, _)| *name == one.name) {
            Some((_, count)) => *count += 1,
            None => wins.push((one.name.into(), 1)),
        }
    }
    wins.sort_by(|(one, wins), (other, more)| more.cmp(wins).then(one.cmp(other)));
    let counts = wins.iter().take(NAMED).map(|(name, count)| format!("{name} in {count}"));
    Some(format!(
        "Best, or within {} of the best, in {} cases of trace and sizes: {}.",
        share(TIE_SHARE),
        rankings.len(),
        listed(&counts.collect::<Vec<String>>())
    ))
}

/// Describe the winner on a trace at the greatest sizes.
fn of_trace(rankings: &[Ranking<'_, Named<'_>>]) -> String {
    let Some(last) = rankings.last() else { return String::new() };
    let (figure, best) = last.best();
    let (does, shown) = if column(best) == "io_time_ms" {
        ("needs the least I/O time", format!("{:.1} s", figure / 1000.0))
    } else {
        ("answers soonest on average", format!("{figure:.3} ms"))
    };
    let mut text = format!("{} {does} {}{shown}", best.name, at_sizes(rankings));
    if let Some((figure, rival)) = last.behind() {
        text += &format!(", {} less than {}", share(last.saved(figure)), rival.name);
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::summary;

    #[test]
    fn cases_are_counted_and_traces_told() {
        let row = |trace: &str, policy: &str, flash_pages, ms| {
            Row::of(&summary(policy, flash_pages, ms), ["key", "sum", trace])
        };
        let rows = [
            row("a", "hat", 20, 900.0),
            row("a", "lru", 20, 1800.0),
            row("a", "lru", 40, 1000.0),
            row("a", "hat", 40, 500.0),
            row("b", "hat", 20, 4000.0),
            row("b", "lru", 20, 3000.0),
            row("c", "lru", 20, 1.0),
        ];
        let named: Vec<(String, &Row)> = rows.iter().map(|row| (row.policy.clone(), row)).collect();
        assert_eq!(
            sweep(&named),
            [
                "Best, or within 2.0 % of the best, in 3 cases of trace and sizes: hat in 2 and lru in 1.",
                "On a, hat needs the least I/O time at both sizes: with RAM 40 KiB and flash 160 KiB, 0.5 s, 50 % less than lru.",
                "On b, lru needs the least I/O time with RAM 40 KiB and flash 80 KiB: 3.0 s, 25 % less than hat.",
            ]
        );
        assert_eq!(sweep(&named[6..]), [""; 0]);
        let of_b = sweep(&named[4..6]);
        assert_eq!(of_b.len(), 1, "one case is not counted: {of_b:?}");
    }
}
