//! The figures of an engine: one row for each says how it is called, what it means and how to read it.
//!
//! Everything that shows figures takes them from these tables: metrics, JSON, terminals, documentation.

use crate::shard::Shard;

/// How a figure changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows while the engine runs.
    Counter,
    /// It goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
    /// Its labels are what it says.
    Info,
}

/// A figure at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// A real number.
    Real(f64),
    /// The engine has no such figure now.
    Absent,
}

/// What is said of a figure wherever it is shown.
///
/// The names end with the unit, if there is one: `_bytes` or `_seconds`.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Key in JSON.
    pub key: &'static str,
    /// Name of the metric, without the prefix that all have and without the ending of counters.
    pub metric: &'static str,
    /// Names of the metric's labels.
    pub labels: &'static [&'static str],
    /// How it changes.
    pub kind: Kind,
    /// Its meaning in one line, without a full stop.
    pub help: &'static str,
    /// What the documentation adds, as sentences in Markdown; may be empty.
    pub details: &'static str,
}

/// A figure that is read from an `S`.
#[derive(Debug)]
pub struct Figure<S: 'static> {
    /// What is said of it.
    pub about: About,
    /// Reads it.
    pub value: fn(&S) -> Value,
}

impl<S> Figure<S> {
    /// A figure that only grows; its metric is called like its key.
    pub const fn counter(key: &'static str, help: &'static str, value: fn(&S) -> Value) -> Self {
        Self { about: About::new(key, Kind::Counter, help), value }
    }

    /// A figure that goes up and down; its metric is called like its key.
    pub const fn gauge(key: &'static str, help: &'static str, value: fn(&S) -> Value) -> Self {
        Self { about: About::new(key, Kind::Gauge, help), value }
    }

    /// Calls the metric something else than the key.
    #[must_use]
    pub const fn metric(mut self, metric: &'static str) -> Self {
        self.about.metric = metric;
        self
    }

    /// Names the labels of the metric.
    #[must_use]
    pub const fn labels(mut self, labels: &'static [&'static str]) -> Self {
        self.about.labels = labels;
        self
    }

    /// Adds sentences to the documentation.
    #[must_use]
    pub const fn details(mut self, details: &'static str) -> Self {
        self.about.details = details;
        self
    }
}

impl About {
    /// A figure without labels, whose metric is called like its key.
    pub const fn new(key: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { key, metric: key, labels: &[], kind, help, details: "" }
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Into::into)
    }
}

/// The figures of the engine that a shard knows without counting.
pub const SHARD_FIGURES: &[Figure<Shard>] = &[
    Figure::gauge("dirty_pages", "Pages that are newer than the disk's", |shard: &Shard| {
        u64::from(shard.dirty_slots()).into()
    })
    .details("These are slots of the flash."),
    Figure::gauge("undurable_pages", "Pages whose newest bytes no device has", |shard: &Shard| {
        (shard.undurable_pages() as u64).into()
    })
    .details("The next flush has to write them."),
    Figure::gauge("lost_pages", "Pages whose newest bytes are lost", |shard: &Shard| {
        (shard.lost_pages().len() as u64).into()
    })
    .details("See [faults](#faults); `lost` in `/status` lists where they are."),
    Figure::counter(
        "flash_failures",
        "Flash operations that failed in spite of further tries",
        |shard: &Shard| shard.flash_failures().into(),
    )
    .metric("flash_errors")
    .details("Wrong checksums are included; see [faults](#faults)."),
    Figure::gauge(
        "flash_retired_slots",
        "Slots of the flash that failed and are not used again",
        |shard: &Shard| u64::from(shard.retired_slots()).into(),
    )
    .details("The next start tries them again; see [faults](#faults)."),
    Figure::counter(
        "flash_lifetime_written_bytes",
        "Bytes written to the flash since it was set up",
        |shard: &Shard| shard.flash_lifetime_written_bytes().into(),
    )
    .details("It goes on over all starts."),
    Figure::gauge(
        "write_budget_left_bytes",
        "Bytes that may be written to flash now",
        |shard: &Shard| shard.flash_budget_bytes().into(),
    )
    .metric("flash_write_budget_left_bytes")
    .details("Below zero it is overdrawn. Absent without a budget."),
    Figure::gauge("requests_in_flight", "Requests taken and not answered", |shard: &Shard| {
        (shard.requests_in_flight() as u64).into()
    }),
    Figure::gauge(
        "metadata_bytes",
        "Memory for what is known of pages, the pages themselves not",
        |shard: &Shard| (shard.memory_bytes() as u64).into(),
    )
    .details("What the policy needs is included."),
];
