//! Verdicts in a few sentences, of which the first is the answer: the best item, its advantage, the
//! sizes at which another wins, and the cost.
//!
//! Figures that differ by less than [`TIE_SHARE`] are called a tie: so small a difference says more
//! about the trace than about the policies.

mod buffers;
mod comparison;
mod identification;
mod miss_ratios;
mod plan;
mod prompt_plan;
mod prompts;
mod sweep;

pub use buffers::buffers;
pub use comparison::verdict;
pub use identification::identification;
pub use miss_ratios::miss_ratios;
pub use plan::plan;
pub use prompt_plan::prompt_plan;
pub use prompts::prompts;
pub use sweep::sweep;

use crate::metric::byte_size;

/// Figures whose difference is at most this share of the greater one are a tie.
pub const TIE_SHARE: f64 = 0.02;
/// Number of tied policies that are named.
const NAMED_MAX: usize = 4;

/// A run that is ranked among others.
trait Ranked {
    /// Return the name.
    fn name(&self) -> String;

    /// Return the sizes, as in `RAM 3 MiB and flash 49 MiB`.
    fn sizes(&self) -> String;
}

/// Runs of the same sizes with the figure that ranks them, of which less is better; the best first.
struct Ranking<'a, Run> {
    runs: Vec<(f64, &'a Run)>,
}

impl<'a, Run: Ranked> Ranking<'a, Run> {
    /// Ranks runs by a figure. Those without it are left out.
    fn new(runs: impl IntoIterator<Item = &'a Run>, figure: impl Fn(&Run) -> Option<f64>) -> Self {
        let with_figure =
            |run: &'a Run| Some((figure(run).filter(|figure| figure.is_finite())?, run));
        let mut runs: Vec<(f64, &Run)> = runs.into_iter().filter_map(with_figure).collect();
        runs.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        Self { runs }
    }

    /// Return `true` if there is something to choose from.
    fn is_choice(&self) -> bool {
        self.runs.len() > 1
    }

    /// Return the best run and its figure.
    ///
    /// # Panics
    /// If there is no run.
    fn best(&self) -> (f64, &'a Run) {
        self.runs[0]
    }

    /// Return the share by which the best figure is less than another.
    fn saved(&self, other: f64) -> f64 {
        if other > 0.0 { 1.0 - self.best().0 / other } else { 0.0 }
    }

    /// Return the runs that are as good as the best, itself included.
    fn tied(&self) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(|(figure, _)| self.saved(*figure) <= TIE_SHARE).map(|(_, run)| *run)
    }

    fn is_tied(&self, name: &str) -> bool {
        self.tied().any(|run| run.name() == name)
    }

    /// Return `true` if another run's figure is less, by however little.
    fn is_beaten(&self, name: &str) -> bool {
        let (least, _) = self.best();
        self.runs.iter().any(|(figure, run)| run.name() == name && *figure > least)
    }

    /// Return the best of the others.
    fn behind(&self) -> Option<(f64, &'a Run)> {
        self.runs.iter().copied().find(|(figure, _)| self.saved(*figure) > TIE_SHARE)
    }
}

/// Describe the sizes with which something else wins by more than a tie than with the last.
fn flips<Run: Ranked>(rankings: &[Ranking<'_, Run>]) -> Option<String> {
    let winner = rankings.last()?.best().1.name();
    let others = rankings.iter().filter(|ranking| !ranking.is_tied(&winner));
    let others: Vec<String> = others
        .map(|ranking| {
            let (_, best) = ranking.best();
            format!("{} with {}", best.name(), best.sizes())
        })
        .collect();
    (!others.is_empty()).then(|| format!("Best at other sizes: {}.", listed(&others)))
}

/// Describe the items that are as good as the best.
fn ties<Run: Ranked>(ranking: &Ranking<'_, Run>) -> Option<String> {
    let others: Vec<String> = ranking.tied().skip(1).map(Ranked::name).collect();
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

/// Return the words before the winner's figure: whether it is the best at all sizes, where it only
/// ties with the best, and the sizes that the figure is for, the greatest.
fn at_sizes<Run: Ranked>(rankings: &[Ranking<'_, Run>]) -> String {
    let Some(last) = rankings.last() else { return String::new() };
    let (_, best) = last.best();
    let name = best.name();
    let at = best.sizes();
    if rankings.len() == 1 || rankings.iter().any(|ranking| !ranking.is_tied(&name)) {
        return format!("with {at}: ");
    }
    let which = match rankings.len() {
        2 => String::from("at both sizes"),
        all => format!("at all {all} sizes"),
    };
    let ties = rankings.iter().filter(|ranking| ranking.is_beaten(&name)).count();
    let within = match ties {
        0 => String::new(),
        1 => format!(" (within {} at one of them)", share(TIE_SHARE)),
        ties => format!(" (within {} at {ties} of them)", share(TIE_SHARE)),
    };
    format!("{which}{within}: with {at}, ")
}

/// Caches with their sizes in bytes, as in `RAM 3 MiB and flash 49 MiB`.
fn sizes_in_words<'a>(caches: impl IntoIterator<Item = (&'a str, u64)>) -> String {
    let one = |(name, bytes): (&str, u64)| {
        format!("{} {}", if name == "ram" { "RAM" } else { name }, byte_size(bytes))
    };
    listed(&caches.into_iter().map(one).collect::<Vec<String>>())
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
