//! Descriptions and readers of an engine's figures.

/// Way in which a figure changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The figure only grows while the engine runs.
    Counter,
    /// The figure rises and falls.
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

/// Description of a figure wherever it is shown.
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
    /// Way in which it changes.
    pub kind: Kind,
    /// Its meaning in one line, without a full stop.
    pub help: &'static str,
    /// Addition to the documentation, as sentences in Markdown; may be empty.
    pub details: &'static str,
}

/// A figure that is read from an `S`.
#[derive(Debug)]
pub struct Figure<S: 'static> {
    /// Description of the figure.
    pub about: About,
    /// Reads it.
    pub value: fn(&S) -> Value,
}

impl<S> Figure<S> {
    /// Create a figure that only grows; its metric is called like its key.
    pub const fn counter(key: &'static str, help: &'static str, value: fn(&S) -> Value) -> Self {
        Self { about: About::new(key, Kind::Counter, help), value }
    }

    /// Create a figure that goes up and down; its metric is called like its key.
    pub const fn gauge(key: &'static str, help: &'static str, value: fn(&S) -> Value) -> Self {
        Self { about: About::new(key, Kind::Gauge, help), value }
    }

    /// Calls the metric something else than the key.
    #[must_use]
    pub const fn metric(mut self, metric: &'static str) -> Self {
        self.about.metric = metric;
        self
    }

    /// Set the names of the metric's labels.
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
    /// Create a figure without labels, whose metric is called like its key.
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
