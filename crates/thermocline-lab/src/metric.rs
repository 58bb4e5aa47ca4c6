//! The figures of a run that tables and charts show, and how they are written.

use std::borrow::Cow;

use crate::figure::{BUFFERS, Figure, IDENTIFIERS, INTERVALS, On, PROMPTS, RUNS, Shown, named};
use crate::kv::KvSummary;
use crate::{
    BufferSummary, IdentifierSummary, IntervalSummary, Summary, TierSsdSummary, TierSummary,
    default_latencies_ms,
};

pub use crate::numbers::{byte_size, grouped};

/// The names of a hybrid cache's tiers.
const RAM: &str = "ram";
const FLASH: &str = "flash";

/// A figure of a run as a column or a chart shows it. The results of the run are an `S`.
#[derive(Clone, Debug)]
pub struct Metric<S: 'static = Summary> {
    /// Title.
    pub title: Cow<'static, str>,
    /// Its unit.
    pub unit: &'static str,
    figure: &'static Figure<S>,
    /// The tier, if the figure is one of tiers.
    place: usize,
    /// Conversion from the unit of the figure to that of the metric.
    scale: fn(f64) -> f64,
    /// Formatter, without the unit.
    pub show: fn(f64) -> String,
    /// `true` if more of it is better.
    pub is_more_better: bool,
}

impl<S> Metric<S> {
    /// Create a figure as tables show it, of the tier at this place; `None` if they do not show it.
    fn of(figure: &'static Figure<S>, tiers: &[TierSummary], place: usize) -> Option<Self> {
        let title = title_of(figure.shown?.title, tiers, place);
        Self::titled(figure, place, title)
    }

    /// Create a figure under this title, of the tier at this place; `None` if tables do not show
    /// it.
    fn titled(figure: &'static Figure<S>, place: usize, title: Cow<'static, str>) -> Option<Self> {
        let Shown { unit, scale, show, is_more_better, .. } = figure.shown?;
        Some(Self { title, unit, figure, place, scale, show, is_more_better })
    }

    /// Return the value in the unit of the metric; `None` if the run has no such tier or device.
    pub fn value(&self, run: &S) -> Option<f64> {
        self.figure.value(run, self.place).map(self.scale)
    }

    /// Return the title of a column, with the unit where there is one.
    pub fn title_with_unit(&self) -> String {
        if self.unit.is_empty() {
            return self.title.to_string();
        }
        format!("{}, {}", self.title, self.unit)
    }

    /// Return the definition, in a sentence.
    pub fn definition(&self) -> &'static str {
        self.figure.definition
    }

    /// Return `true` if it shows the figure of this name.
    pub fn shows(&self, key: &str) -> bool {
        self.figure.key == key
    }

    /// Return `true` if no rival, of at least two runs, has a better figure.
    pub fn is_best(&self, run: &S, rivals: &[&S]) -> bool {
        let Some(value) = self.value(run) else { return false };
        let is_better =
            |other: f64| if self.is_more_better { other > value } else { other < value };
        rivals.len() > 1 && !rivals.iter().filter_map(|other| self.value(other)).any(is_better)
    }
}

/// Return a title with the names of tiers.
fn title_of(title: &'static str, tiers: &[TierSummary], place: usize) -> Cow<'static, str> {
    if !title.contains('{') {
        return Cow::Borrowed(title);
    }
    let name = tiers.get(place).map_or("", |tier| tier.name.as_str());
    let title = title.replace("{in}", &within(name)).replace("{Tier}", &capital(name));
    Cow::Owned(title.replace("{any}", &within_any(&cache_names(tiers))))
}

/// Return a name with a capital letter.
fn capital(name: &str) -> String {
    let mut capital = name.to_owned();
    if let Some(initial) = capital.get_mut(..1) {
        initial.make_ascii_uppercase();
    }
    capital
}

/// Return the figures that a table of these runs of prompts shows, those of tiers tier by tier. All
/// are runs on tiers of the same names.
pub fn prompt_columns(runs: &[KvSummary]) -> Vec<Metric<KvSummary>> {
    let names = runs.first().map_or(&[][..], |run| &run.tiers);
    let mut metrics = vec![];
    for figure in PROMPTS {
        let Some(shown) = figure.shown else { continue };
        let tiers = if figure.is_of_tier() { names } else { &names[..names.len().min(1)] };
        for (place, tier) in tiers.iter().enumerate() {
            let is_shown = if shown.on == On::BelowRam {
                tier.costs.rated_writes.is_some()
            } else {
                names.len() > 1 || !figure.is_of_tier()
            };
            let title = shown.title.replace("{Tier}", &capital(&tier.name));
            let title = Cow::Owned(title.replace("{tier}", &tier.name));
            metrics.extend(Metric::titled(figure, place, title).filter(|_| is_shown));
        }
    }
    metrics.retain(|metric| has_value(metric, runs));
    metrics
}

/// Return the figures that a table of these buffers shows.
pub fn buffer_columns<'a>(
    runs: impl IntoIterator<Item = &'a BufferSummary>,
) -> Vec<Metric<BufferSummary>> {
    let runs: Vec<&BufferSummary> = runs.into_iter().collect();
    let metrics = BUFFERS.iter().filter_map(|figure| Metric::of(figure, &[], 0));
    metrics.filter(|metric| has_value(metric, runs.iter().copied())).collect()
}

/// Return the figure of write buffers of this name.
///
/// # Panics
/// If the table of figures does not show it.
pub fn of_buffers(key: &str) -> Metric<BufferSummary> {
    Metric::of(named(BUFFERS, key), &[], 0).expect("tables show the figure")
}

/// Return the figures that a table of identifiers shows: on the terminal, or where results are
/// repeatable.
pub fn identifier_columns(is_terminal: bool) -> Vec<Metric<IdentifierSummary>> {
    let is_shown = |shown: &Shown| is_terminal || shown.on != On::Terminal;
    let rows = IDENTIFIERS.iter().filter(|figure| figure.shown.as_ref().is_some_and(is_shown));
    rows.filter_map(|figure| Metric::of(figure, &[], 0)).collect()
}

/// Return the figures that charts over time show: of runs on these tiers, and of the first
/// `tiers_max` of these.
pub fn interval_columns(tiers: &[TierSummary], tiers_max: usize) -> Vec<Metric<IntervalSummary>> {
    let is_shown = |on| on == On::Everything || cache_names(tiers).len() > 1;
    let mut metrics = of_rows(INTERVALS, tiers, is_shown);
    metrics.retain(|metric| metric.place < tiers_max);
    metrics
}

/// Return the figures that a table of these runs shows, the one that ranks them first. All are runs
/// on tiers of the same names.
pub fn columns(summaries: &[Summary]) -> Vec<Metric> {
    let tiers = summaries.first().map_or(&[][..], |summary| &summary.tiers);
    let mut metrics = of_rows(RUNS, tiers, |on| is_shown_of_run(on, summaries));
    metrics.retain(|metric| has_value(metric, summaries));
    metrics
}

/// Return `true` if any of the runs has the figure.
fn has_value<'a, S>(metric: &Metric<S>, runs: impl IntoIterator<Item = &'a S>) -> bool {
    runs.into_iter().any(|run| metric.value(run).is_some())
}

/// Return the metrics of the rows of a table for these tiers, neighbouring rows of tiers that are
/// shown for the same tiers together, tier by tier.
fn of_rows<S>(
    rows: &'static [Figure<S>],
    tiers: &[TierSummary],
    is_shown_of_run: impl Fn(On) -> bool,
) -> Vec<Metric<S>> {
    let places = |figure: &Figure<S>| match figure.shown {
        Some(shown) if figure.is_of_tier() => {
            (0..tiers.len()).filter(|&place| is_shown_of_tier(shown.on, tiers, place)).collect()
        }
        Some(shown) if is_shown_of_run(shown.on) => vec![0],
        Some(_) | None => vec![],
    };
    let on = |figure: &Figure<S>| figure.shown.map(|shown| shown.on);
    let are_together = |one: &Figure<S>, next: &Figure<S>| {
        one.is_of_tier() && next.is_of_tier() && on(one) == on(next)
    };
    let blocks = rows.chunk_by(are_together);
    let metrics = blocks.flat_map(|block| {
        let places = places(&block[0]).into_iter();
        places.flat_map(|place| {
            block.iter().filter_map(move |figure| Metric::of(figure, tiers, place))
        })
    });
    metrics.collect()
}

/// Return `true` if a table of these runs shows what is shown on such runs.
fn is_shown_of_run(on: On, summaries: &[Summary]) -> bool {
    let tiers = summaries.first().map_or(&[][..], |summary| &summary.tiers);
    match on {
        On::Everything | On::Terminal => true,
        On::Hybrids | On::BelowRam => is_hybrid(tiers),
        On::Levels => !is_hybrid(tiers),
        On::Latencies => {
            let has_cost = summaries.iter().any(|summary| summary.cost.is_some());
            !is_hybrid(tiers) || has_cost || has_own_latencies(tiers)
        }
        On::Caches | On::SeveralCaches => cache_names(tiers).len() > 1,
    }
}

/// Return `true` if a table of runs on these tiers shows what is shown on such tiers of the one at this
/// place.
fn is_shown_of_tier(on: On, tiers: &[TierSummary], place: usize) -> bool {
    match on {
        On::Everything | On::Latencies | On::SeveralCaches | On::Terminal => true,
        On::Hybrids => is_hybrid(tiers),
        On::Levels => !is_hybrid(tiers),
        On::Caches => tiers[place].capacity_pages.is_some(),
        On::BelowRam => is_hybrid(tiers) && place > 0,
    }
}

/// Return the figure that ranks runs: hybrids by their I/O time, hierarchies of any depth by their
/// average response.
///
/// # Panics
/// If the table of figures hides one of them, which every comparison would notice.
pub fn leading(tiers: &[TierSummary]) -> Metric {
    let key = if is_hybrid(tiers) { "io_time_ms" } else { "average_response_ms" };
    Metric::of(named(RUNS, key), tiers, 0).expect("tables show what ranks runs")
}

/// Return the shares of accesses that each cache tier served, and all of them.
pub fn hit_ratios(tiers: &[TierSummary]) -> Vec<Metric> {
    let caches = cache_names(tiers).len();
    let shares = RUNS.iter().filter(|figure| figure.key == "hit_ratio");
    let places = |figure: &Figure| match (figure.is_of_tier(), caches) {
        (true, _) => 0..caches,
        (false, 2..) => 0..1,
        (false, _) => 0..0,
    };
    let metrics = shares.flat_map(|figure| {
        places(figure).filter_map(move |place| Metric::of(figure, tiers, place))
    });
    metrics.collect()
}

/// Return `true` if these are the tiers of a hybrid cache: RAM, maybe flash, and the disk.
pub fn is_hybrid(tiers: &[TierSummary]) -> bool {
    tiers.first().is_some_and(|tier| tier.name == RAM)
}

/// Return `true` if an access time of these tiers is other than by default.
fn has_own_latencies(tiers: &[TierSummary]) -> bool {
    let defaults = default_latencies_ms(tiers.len().saturating_sub(1));
    tiers.iter().zip(defaults).any(|(tier, default)| tier.latency_ms.to_bits() != default.to_bits())
}

/// Return the names of the cache tiers, fastest first.
fn cache_names(tiers: &[TierSummary]) -> Vec<&str> {
    let caches = tiers.iter().filter(|tier| tier.capacity_pages.is_some());
    caches.map(|tier| tier.name.as_str()).collect()
}

/// Return the words "in a tier", as titles have them.
fn within(tier: &str) -> String {
    match tier {
        RAM => "in RAM".into(),
        FLASH => "on flash".into(),
        other => format!("in {other}"),
    }
}

fn within_any(tiers: &[&str]) -> String {
    match tiers {
        [RAM, FLASH] => "in RAM or on flash".into(),
        _ => "in any cache".into(),
    }
}

/// Return the capacities of the cache tiers in pages: runs with equal ones can be compared.
pub fn capacities(summary: &Summary) -> Vec<u64> {
    summary.tiers.iter().filter_map(|tier| tier.capacity_pages).collect()
}

/// Return the capacities of the cache tiers in words.
pub fn sizes_in_words(summary: &Summary) -> String {
    let sizes = summary
        .tiers
        .iter()
        .filter_map(|tier| Some(format!("{} {} pages", tier.name, grouped(tier.capacity_pages?))));
    sizes.collect::<Vec<_>>().join(", ")
}

/// Return the capacities of the cache tiers in bytes: `RAM 4 MiB, flash 16 MiB`.
pub fn sizes_in_bytes(summary: &Summary) -> String {
    let sizes = summary.tiers.iter().filter_map(|tier| {
        let bytes = tier.capacity_pages? * summary.trace.page_size_bytes;
        let name = if tier.name == RAM { "RAM" } else { &tier.name };
        Some(format!("{name} {}", byte_size(bytes)))
    });
    sizes.collect::<Vec<_>>().join(", ")
}

/// Return the runs grouped by all their sizes, in order of first appearance.
pub fn by_sizes(summaries: &[Summary]) -> Vec<Vec<&Summary>> {
    let mut groups: Vec<Vec<&Summary>> = vec![];
    for summary in summaries {
        match groups.iter_mut().find(|group| capacities(group[0]) == capacities(summary)) {
            Some(group) => group.push(summary),
            None => groups.push(vec![summary]),
        }
    }
    groups
}

/// Return the tier called flash, if there is one.
pub fn flash(summary: &Summary) -> Option<&TierSummary> {
    summary.tiers.iter().find(|tier| tier.name == FLASH)
}

/// Return the state of the drive of the tier called flash, if it is one of flash.
pub fn flash_drive(summary: &Summary) -> Option<&TierSsdSummary> {
    summary.drive(summary.tiers.iter().position(|tier| tier.name == FLASH)?)
}
