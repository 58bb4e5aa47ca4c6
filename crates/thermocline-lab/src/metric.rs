//! The figures of a run that tables and charts show, and how they are written.

use std::borrow::Cow;

use crate::figure::{Figure, On, RUNS, Shown, run_figure};
use crate::numbers::{one_decimal, two_decimals, whole};
use crate::{BufferSummary, Summary, TierSsdSummary, TierSummary, default_latencies_ms};

pub use crate::numbers::{byte_size, grouped};

/// The names of a hybrid cache's tiers.
const RAM: &str = "ram";
const FLASH: &str = "flash";

/// A figure of a run as a column or a chart shows it. The results of the run are an `S`.
#[derive(Clone, Debug)]
pub struct Metric<S: 'static = Summary> {
    /// What it is.
    pub title: Cow<'static, str>,
    /// Its unit.
    pub unit: &'static str,
    value: Value<S>,
    /// How it is written, without the unit.
    pub show: fn(f64) -> String,
    /// Whether more of it is better.
    pub is_more_better: bool,
}

/// Where a figure is found in a run's results.
#[derive(Clone, Debug)]
enum Value<S: 'static> {
    /// By a function.
    Run(fn(&S) -> Option<f64>),
    /// By a row of the table of figures, of the tier at this place, in another unit.
    Figure(&'static Figure<S>, usize, fn(f64) -> f64),
}

impl<S> Metric<S> {
    /// A figure that is best if it is the greatest.
    const fn more(
        title: &'static str,
        unit: &'static str,
        show: fn(f64) -> String,
        value: fn(&S) -> Option<f64>,
    ) -> Self {
        let (title, value) = (Cow::Borrowed(title), Value::Run(value));
        Self { title, unit, value, show, is_more_better: true }
    }

    /// A figure that is best if it is the least.
    const fn less(
        title: &'static str,
        unit: &'static str,
        show: fn(f64) -> String,
        value: fn(&S) -> Option<f64>,
    ) -> Self {
        let (title, value) = (Cow::Borrowed(title), Value::Run(value));
        Self { title, unit, value, show, is_more_better: false }
    }

    /// The figure; none if the run has no such tier or device.
    pub fn value(&self, run: &S) -> Option<f64> {
        match self.value {
            Value::Run(value) => value(run),
            Value::Figure(figure, tier, scale) => figure.value(run, tier).map(scale),
        }
    }

    /// Whether it shows the figure of this name.
    pub fn shows(&self, key: &str) -> bool {
        matches!(self.value, Value::Figure(figure, ..) if figure.key == key)
    }

    /// Whether no rival, of at least two runs, has a better figure.
    pub fn is_best(&self, run: &S, rivals: &[&S]) -> bool {
        let Some(value) = self.value(run) else { return false };
        let is_better =
            |other: f64| if self.is_more_better { other > value } else { other < value };
        rivals.len() > 1 && !rivals.iter().filter_map(|other| self.value(other)).any(is_better)
    }
}

impl Metric {
    /// A figure as tables show it, of the tier at this place; none if they do not show it.
    fn of(figure: &'static Figure, tiers: &[TierSummary], place: usize) -> Option<Self> {
        let Shown { title, unit, scale, show, is_more_better, .. } = figure.shown?;
        let title = title_of(title, tiers, place);
        Some(Self { title, unit, value: Value::Figure(figure, place, scale), show, is_more_better })
    }
}

/// A title with the names of tiers.
fn title_of(title: &'static str, tiers: &[TierSummary], place: usize) -> Cow<'static, str> {
    if !title.contains('{') {
        return Cow::Borrowed(title);
    }
    let name = tiers.get(place).map_or("", |tier| tier.name.as_str());
    let mut capital = name.to_owned();
    if let Some(initial) = capital.get_mut(..1) {
        initial.make_ascii_uppercase();
    }
    let title = title.replace("{in}", &within(name)).replace("{Tier}", &capital);
    Cow::Owned(title.replace("{any}", &within_any(&cache_names(tiers))))
}

/// What a write buffer does for the NAND.
pub const BUFFERS: [Metric<BufferSummary>; 5] = [
    Metric::more("Write hits", "%", two_decimals, |summary| Some(summary.write_hit_ratio * 100.0)),
    Metric::more("Read hits", "%", two_decimals, |summary| {
        (summary.page_reads > 0)
            .then(|| summary.read_hits as f64 / summary.page_reads as f64 * 100.0)
    }),
    Metric::less("Pages flushed", "pages", whole, |summary| Some(summary.pages_flushed as f64)),
    Metric::less("Flushes", "flushes", whole, |summary| Some(summary.flushes as f64)),
    Metric::more("Pages per flush", "pages", two_decimals, |summary| {
        let pages = summary.pages_flushed + summary.pages_padded;
        (summary.flushes > 0).then(|| pages as f64 / summary.flushes as f64)
    }),
];

/// What becomes of the SSD behind a write buffer.
pub const BUFFERED_SSD: [Metric<BufferSummary>; 7] = [
    Metric::less("Erases", "blocks", whole, |summary| Some(summary.erase_count? as f64)),
    Metric::less("Write amplification", "programs per page flushed", two_decimals, |summary| {
        summary.write_amplification
    }),
    Metric::less("Mean write response", "us", one_decimal, |summary| {
        Some(summary.response_us?.write.mean)
    }),
    Metric::less("99 % of writes within", "us", one_decimal, |summary| {
        Some(summary.response_us?.write.p99)
    }),
    Metric::less("Mean read response", "us", one_decimal, |summary| {
        Some(summary.response_us?.read.mean)
    }),
    Metric::less("99 % of reads within", "us", one_decimal, |summary| {
        Some(summary.response_us?.read.p99)
    }),
    Metric::more("Lifetime", "years", one_decimal, |summary| summary.lifetime_years),
];

/// The figures that a table of these buffers shows.
pub fn buffer_columns(summaries: &[BufferSummary]) -> Vec<Metric<BufferSummary>> {
    let mut columns = BUFFERS.to_vec();
    if summaries.iter().any(|summary| summary.ssd.is_some()) {
        columns.extend(BUFFERED_SSD);
    }
    columns
}

/// The figures that a table of these runs shows, the one that ranks them first. All are runs on tiers
/// of the same names.
pub fn columns(summaries: &[Summary]) -> Vec<Metric> {
    let tiers = summaries.first().map_or(&[][..], |summary| &summary.tiers);
    let places = |figure: &Figure| match figure.shown {
        Some(shown) if figure.is_of_tier() => {
            (0..tiers.len()).filter(|&place| is_shown_of_tier(shown.on, tiers, place)).collect()
        }
        Some(shown) if is_shown_of_run(shown.on, summaries) => vec![0],
        Some(_) | None => vec![],
    };
    let on = |figure: &Figure| figure.shown.map(|shown| shown.on);
    let are_together =
        |one: &Figure, next: &Figure| one.is_of_tier() && next.is_of_tier() && on(one) == on(next);
    let blocks = RUNS.chunk_by(are_together);
    let metrics = blocks.flat_map(|block| {
        let places = places(&block[0]).into_iter();
        places.flat_map(|place| {
            block.iter().filter_map(move |figure| Metric::of(figure, tiers, place))
        })
    });
    let has_value =
        |metric: &Metric| summaries.iter().any(|summary| metric.value(summary).is_some());
    metrics.filter(has_value).collect()
}

/// Whether a table of these runs shows what is shown on such runs.
fn is_shown_of_run(on: On, summaries: &[Summary]) -> bool {
    let tiers = summaries.first().map_or(&[][..], |summary| &summary.tiers);
    match on {
        On::Everything => true,
        On::Hybrids | On::BelowRam => is_hybrid(tiers),
        On::Levels => !is_hybrid(tiers),
        On::Latencies => {
            let has_cost = summaries.iter().any(|summary| summary.cost.is_some());
            !is_hybrid(tiers) || has_cost || has_own_latencies(tiers)
        }
        On::Caches | On::SeveralCaches => cache_names(tiers).len() > 1,
    }
}

/// Whether a table of runs on these tiers shows what is shown on such tiers of the one at this place.
fn is_shown_of_tier(on: On, tiers: &[TierSummary], place: usize) -> bool {
    match on {
        On::Everything | On::Latencies | On::SeveralCaches => true,
        On::Hybrids => is_hybrid(tiers),
        On::Levels => !is_hybrid(tiers),
        On::Caches => tiers[place].capacity_pages.is_some(),
        On::BelowRam => is_hybrid(tiers) && place > 0,
    }
}

/// The figure that ranks runs: hybrids by their I/O time, hierarchies of any depth by their average
/// response.
///
/// # Panics
/// If the table of figures hides one of them, which every comparison would notice.
pub fn leading(tiers: &[TierSummary]) -> Metric {
    let key = if is_hybrid(tiers) { "io_time_ms" } else { "average_response_ms" };
    Metric::of(run_figure(key), tiers, 0).expect("tables show what ranks runs")
}

/// The shares of accesses that each cache tier served, and all of them.
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

/// Whether these are the tiers of a hybrid cache: RAM, maybe flash, and the disk.
pub fn is_hybrid(tiers: &[TierSummary]) -> bool {
    tiers.first().is_some_and(|tier| tier.name == RAM)
}

/// Whether an access time of these tiers is other than by default.
fn has_own_latencies(tiers: &[TierSummary]) -> bool {
    let defaults = default_latencies_ms(tiers.len().saturating_sub(1));
    tiers.iter().zip(defaults).any(|(tier, default)| tier.latency_ms.to_bits() != default.to_bits())
}

/// The names of the cache tiers, fastest first.
fn cache_names(tiers: &[TierSummary]) -> Vec<&str> {
    let caches = tiers.iter().filter(|tier| tier.capacity_pages.is_some());
    caches.map(|tier| tier.name.as_str()).collect()
}

/// In a tier, as titles have it.
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

/// The capacities of the cache tiers in pages: runs with equal ones can be compared.
pub fn capacities(summary: &Summary) -> Vec<u64> {
    summary.tiers.iter().filter_map(|tier| tier.capacity_pages).collect()
}

/// The capacities of the cache tiers in words.
pub fn sizes_in_words(summary: &Summary) -> String {
    let sizes = summary
        .tiers
        .iter()
        .filter_map(|tier| Some(format!("{} {} pages", tier.name, grouped(tier.capacity_pages?))));
    sizes.collect::<Vec<_>>().join(", ")
}

/// The runs grouped by all their sizes, in order of first appearance.
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

/// The tier called flash, if there is one.
pub fn flash(summary: &Summary) -> Option<&TierSummary> {
    summary.tiers.iter().find(|tier| tier.name == FLASH)
}

/// What became of the drive of the tier called flash, if it is one of flash.
pub fn flash_drive(summary: &Summary) -> Option<&TierSsdSummary> {
    summary.drive(summary.tiers.iter().position(|tier| tier.name == FLASH)?)
}
