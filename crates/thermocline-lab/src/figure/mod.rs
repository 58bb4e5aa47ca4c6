//! Figures: of replays, their intervals, write buffers, identifiers and prompts. Each is declared once, as a
//! row of a table. Tables, charts, JSON, Parquet files, the Python package and `docs/json.md` read
//! the row and know nothing else about the figure.

mod buffers;
mod identifiers;
mod intervals;
mod json;
mod prompts;
mod runs;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::Summary;

pub use buffers::BUFFERS;
pub use identifiers::IDENTIFIERS;
pub use intervals::INTERVALS;
pub use prompts::PROMPTS;
pub use runs::RUNS;

/// A figure of a run, whose results are an `S`.
#[derive(Clone, Debug)]
pub struct Figure<S: 'static = Summary> {
    /// Its name: the key in the JSON of a run or a tier, and the column of Parquet files and of
    /// tables in Python; the column of a figure of tiers is `TIER_key`.
    pub key: &'static str,
    /// Its unit in the JSON; empty for a share.
    pub unit: &'static str,
    /// Definition.
    pub definition: &'static str,
    /// Form in which tables and charts show it; `None` if only files have it.
    pub shown: Option<Shown>,
    /// Path in the JSON if it has no key of its own, names of objects separated by dots; `[]`
    /// follows an array that has an element per tier.
    inside: Option<&'static str>,
    value: Found<S>,
}

/// Form in which tables and charts show a figure.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Its title; `{in}` is where a tier is found (`in RAM`), `{Tier}` its name (`Flash`), and
    /// `{any}` where a page is in any cache (`in RAM or on flash`).
    pub title: &'static str,
    /// The unit that it is shown in.
    pub unit: &'static str,
    /// Conversion from the unit of the JSON to this one.
    pub scale: fn(f64) -> f64,
    /// Formatter, without the unit.
    pub show: fn(f64) -> String,
    /// `true` if more of it is better.
    pub is_more_better: bool,
    /// Tables that have it; of these only the ones in which a run has a value.
    pub on: On,
}

/// Tables in which a figure is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// Every hierarchy, and every tier.
    Everything,
    /// Hybrid caches: RAM, maybe flash, and the disk.
    Hybrids,
    /// Hierarchies of any depth.
    Levels,
    /// Hierarchies of any depth, and hybrids with prices or access times of their own.
    Latencies,
    /// Hierarchies with several caches.
    SeveralCaches,
    /// Cache tiers.
    Caches,
    /// Tiers below RAM of hybrid caches.
    BelowRam,
    /// The terminal only, because it differs from run to run.
    Terminal,
}

/// Getter of a figure from a run's results.
#[derive(Clone, Debug)]
enum Found<S> {
    /// A count, of the whole run.
    Count(fn(&S) -> Option<u64>),
    /// A number, of the whole run.
    Real(fn(&S) -> Option<f64>),
    /// A count of the tier at this place, fastest first.
    TierCount(fn(&S, usize) -> Option<u64>),
    /// A number of the tier at this place.
    TierReal(fn(&S, usize) -> Option<f64>),
}

/// A figure as a catalogue has it. Its JSON form has a stable schema.
#[derive(Clone, Debug, Serialize)]
pub struct ListedFigure {
    /// Its name.
    pub key: &'static str,
    /// Scope: a `run`, or each `tier`.
    pub scope: &'static str,
    /// Path in the JSON of a run, as by [`Figure::path`].
    pub path: String,
    /// Its unit there; empty for a share.
    pub unit: &'static str,
    /// Definition.
    pub definition: &'static str,
}

/// Return a figure of which less is better.
const fn less(on: On, title: &'static str, unit: &'static str, show: fn(f64) -> String) -> Shown {
    Shown { title, unit, scale: |value| value, show, is_more_better: false, on }
}

/// Return a figure of which more is better.
const fn more(on: On, title: &'static str, unit: &'static str, show: fn(f64) -> String) -> Shown {
    Shown { is_more_better: true, ..less(on, title, unit, show) }
}

/// Return a share that is shown in percent.
const fn percent(shown: Shown) -> Shown {
    Shown { scale: |share| share * 100.0, ..shown }
}

impl<S> Figure<S> {
    /// Create a count of the whole run.
    const fn count(
        key: &'static str,
        unit: &'static str,
        definition: &'static str,
        value: fn(&S) -> Option<u64>,
    ) -> Self {
        Self::new(key, unit, definition, Found::Count(value))
    }

    /// Create a number of the whole run.
    const fn real(
        key: &'static str,
        unit: &'static str,
        definition: &'static str,
        value: fn(&S) -> Option<f64>,
    ) -> Self {
        Self::new(key, unit, definition, Found::Real(value))
    }

    /// Create a count of each tier.
    const fn tier_count(
        key: &'static str,
        unit: &'static str,
        definition: &'static str,
        value: fn(&S, usize) -> Option<u64>,
    ) -> Self {
        Self::new(key, unit, definition, Found::TierCount(value))
    }

    /// Create a number of each tier.
    const fn tier_real(
        key: &'static str,
        unit: &'static str,
        definition: &'static str,
        value: fn(&S, usize) -> Option<f64>,
    ) -> Self {
        Self::new(key, unit, definition, Found::TierReal(value))
    }

    const fn new(
        key: &'static str,
        unit: &'static str,
        definition: &'static str,
        value: Found<S>,
    ) -> Self {
        Self { key, unit, definition, shown: None, inside: None, value }
    }

    /// Return the same in an object of the JSON that has a type of its own.
    const fn inside(mut self, path: &'static str) -> Self {
        self.inside = Some(path);
        self
    }

    /// Return the same shown in tables and charts.
    const fn shown(mut self, shown: Shown) -> Self {
        self.shown = Some(shown);
        self
    }

    /// Return `true` if it is of each tier, not of the whole run.
    pub const fn is_of_tier(&self) -> bool {
        matches!(self.value, Found::TierCount(_) | Found::TierReal(_))
    }

    /// Return `true` if it is a whole number.
    pub const fn is_count(&self) -> bool {
        matches!(self.value, Found::Count(_) | Found::TierCount(_))
    }

    /// Return the path in the JSON of a run: names separated by dots, `[]` after an array that has
    /// an element per tier.
    pub fn path(&self) -> String {
        match self.inside {
            Some(path) => path.into(),
            None if self.is_of_tier() => format!("tiers[].{}", self.key),
            None => self.key.into(),
        }
    }

    /// Return its column for a tier in Parquet files and tables; `tier` is of no account if it is
    /// of runs.
    pub fn column(&self, tier: &str) -> String {
        if self.is_of_tier() { format!("{tier}_{}", self.key) } else { self.key.into() }
    }

    /// Return its value for a tier, in the unit of the JSON; `None` if the run has no such figure.
    /// `tier` is of no account if it is of runs.
    pub fn value(&self, run: &S, tier: usize) -> Option<f64> {
        match self.value {
            Found::Count(value) => Some(value(run)? as f64),
            Found::Real(value) => value(run),
            Found::TierCount(value) => Some(value(run, tier)? as f64),
            Found::TierReal(value) => value(run, tier),
        }
    }

    /// Return its value as JSON.
    fn json(&self, run: &S, tier: usize) -> Option<Value> {
        Some(match self.value {
            Found::Count(value) => value(run)?.into(),
            Found::Real(value) => value(run)?.into(),
            Found::TierCount(value) => value(run, tier)?.into(),
            Found::TierReal(value) => value(run, tier)?.into(),
        })
    }
}

/// Return the figure of this name that is not one of tiers.
///
/// # Panics
/// If there is none.
pub fn named<S>(rows: &'static [Figure<S>], key: &str) -> &'static Figure<S> {
    let figure = rows.iter().find(|figure| !figure.is_of_tier() && figure.key == key);
    figure.expect("the table has every figure that the program names")
}

/// Return the rows of a table.
pub fn listed<S>(rows: &[Figure<S>]) -> Vec<ListedFigure> {
    let list = |figure: &Figure<S>| ListedFigure {
        key: figure.key,
        scope: if figure.is_of_tier() { "tier" } else { "run" },
        path: figure.path(),
        unit: figure.unit,
        definition: figure.definition,
    };
    rows.iter().map(list).collect()
}

/// Return the figures of a run that have keys of their own in its JSON; `missing` stands for one
/// that the run does not have.
pub(crate) fn of_run<S>(
    rows: &[Figure<S>],
    run: &S,
    missing: Option<&Value>,
) -> Map<String, Value> {
    let own = rows.iter().filter(|figure| !figure.is_of_tier() && figure.inside.is_none());
    let json = |figure: &Figure<S>| {
        Some((figure.key.to_owned(), figure.json(run, 0).or_else(|| missing.cloned())?))
    };
    own.filter_map(json).collect()
}

/// Return the figures that have keys of their own in the JSON of a tier.
pub(crate) fn of_tier<S>(rows: &[Figure<S>], run: &S, tier: usize) -> Map<String, Value> {
    let own = rows.iter().filter(|figure| figure.is_of_tier() && figure.inside.is_none());
    own.filter_map(|figure| Some((figure.key.to_owned(), figure.json(run, tier)?))).collect()
}

/// Return the further figures by their columns: those that the JSON of a run has inside other
/// objects. One that a solid-state drive lacks is null.
pub(crate) fn inside(run: &Summary) -> Map<String, Value> {
    let mut found = Map::new();
    for figure in RUNS.iter().filter(|figure| figure.inside.is_some()) {
        let tiers = if figure.is_of_tier() { run.tiers.as_slice() } else { &run.tiers[..1] };
        for (place, tier) in tiers.iter().enumerate() {
            let of_drive = figure.is_of_tier() && run.drive(place).is_some();
            let nothing = of_drive.then_some(Value::Null);
            if let Some(value) = figure.json(run, place).or(nothing) {
                found.insert(figure.column(&tier.name), value);
            }
        }
    }
    found
}
