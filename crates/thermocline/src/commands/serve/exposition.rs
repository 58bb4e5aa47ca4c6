//! Families of metrics as text, in either of the two formats that Prometheus reads.

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use thermocline_engine::figures::{About, Kind, Value};

use super::status::Latency;

/// What all metrics' names begin with.
pub(super) const PREFIX: &str = "thermocline_";

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// A family's name lacks the ending that its samples have, and its unit has a line of its own.
    OpenMetrics,
    /// The older format: a family is called like its samples, and there are no infos.
    Prometheus,
}

pub(super) type Encoding = Result<(), std::fmt::Error>;

/// Writes families in one format.
#[derive(Debug)]
pub(super) struct Exposition<'a> {
    pub(super) encoder: DescriptorEncoder<'a>,
    pub(super) format: Format,
}

/// A family whose samples are being written.
#[derive(Debug)]
pub(super) struct Family<'a> {
    metric: MetricEncoder<'a>,
    kind: Kind,
    label_names: &'static [&'static str],
    format: Format,
}

impl Exposition<'_> {
    /// Writes a family; `samples` writes what is in it.
    pub(super) fn family(
        &mut self,
        about: &About,
        samples: impl FnOnce(&mut Family<'_>) -> Encoding,
    ) -> Encoding {
        let (name, unit, kind) = match self.format {
            Format::OpenMetrics => {
                let (name, unit) = without_unit(about.metric);
                (format!("{PREFIX}{name}"), unit, metric_type(about.kind))
            }
            Format::Prometheus => {
                let kind = if about.kind == Kind::Info {
                    MetricType::Gauge
                } else {
                    metric_type(about.kind)
                };
                (sample_name(about), None, kind)
            }
        };
        let metric = self.encoder.encode_descriptor(&name, about.help, unit.as_ref(), kind)?;
        samples(&mut Family {
            metric,
            kind: about.kind,
            label_names: about.labels,
            format: self.format,
        })
    }

    /// Writes a family of one sample without labels, if there is one.
    pub(super) fn single(&mut self, about: &About, value: Value) -> Encoding {
        if value == Value::Absent {
            return Ok(());
        }
        self.family(about, |family| family.sample([], value))
    }
}

impl Family<'_> {
    /// Writes the sample with these values of the family's labels.
    pub(super) fn sample<const N: usize>(&mut self, labels: [&str; N], value: Value) -> Encoding {
        let (kind, format) = (self.kind, self.format);
        self.labelled(labels, |metric| match (kind, format, value) {
            (Kind::Counter, Format::OpenMetrics, Value::Count(count)) => {
                metric.encode_counter::<NoLabelSet, _, f64>(&count, None)
            }
            // The ending of counters is in the family's name already.
            (Kind::Counter, Format::Prometheus, Value::Count(count)) => metric.encode_gauge(&count),
            (_, _, Value::Count(count)) => metric.encode_gauge(&(count as f64)),
            (_, _, Value::Real(value)) => metric.encode_gauge(&value),
            (_, _, Value::Absent) => Ok(()),
        })
    }

    /// Writes the distribution with these values of the family's labels.
    pub(super) fn distribution<const N: usize>(
        &mut self,
        labels: [&str; N],
        latency: &Latency,
    ) -> Encoding {
        let in_classes: u64 = latency.classes.iter().sum();
        let classes = latency.classes.iter().enumerate();
        let mut buckets: Vec<(f64, u64)> =
            classes.map(|(class, &count)| (Latency::bound_s(class), count)).collect();
        buckets.push((f64::MAX, latency.count - in_classes));
        let sum_s = latency.sum_ns as f64 / 1e9;
        self.labelled(labels, |metric| {
            metric.encode_histogram::<NoLabelSet>(sum_s, latency.count, &buckets, None)
        })
    }

    /// Writes an info, which is all in the values of its labels.
    pub(super) fn info<const N: usize>(&mut self, labels: [&str; N]) -> Encoding {
        match self.format {
            Format::OpenMetrics => self.metric.encode_info(&self.named(labels)),
            Format::Prometheus => self.labelled(labels, |metric| metric.encode_gauge(&1_u32)),
        }
    }

    fn named<'l, const N: usize>(&self, values: [&'l str; N]) -> Vec<(&'static str, &'l str)> {
        self.label_names.iter().copied().zip(values).collect()
    }

    fn labelled<const N: usize>(
        &mut self,
        values: [&str; N],
        write: impl FnOnce(&mut MetricEncoder<'_>) -> Encoding,
    ) -> Encoding {
        debug_assert_eq!(self.label_names.len(), N, "a value for each label");
        if N == 0 {
            return write(&mut self.metric);
        }
        write(&mut self.metric.encode_family(&self.named(values))?)
    }
}

/// What the samples of a family are called; those of a histogram have further endings.
pub(super) fn sample_name(about: &About) -> String {
    let ending = match about.kind {
        Kind::Counter => "_total",
        Kind::Info => "_info",
        Kind::Gauge | Kind::Histogram => "",
    };
    format!("{PREFIX}{}{ending}", about.metric)
}

/// A name and the unit that it ends with.
fn without_unit(name: &str) -> (&str, Option<Unit>) {
    let units = [("_bytes", Unit::Bytes), ("_seconds", Unit::Seconds)];
    let stripped =
        units.into_iter().find_map(|(ending, unit)| Some((name.strip_suffix(ending)?, unit)));
    stripped.map_or((name, None), |(name, unit)| (name, Some(unit)))
}

const fn metric_type(kind: Kind) -> MetricType {
    match kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
        Kind::Info => MetricType::Info,
    }
}
