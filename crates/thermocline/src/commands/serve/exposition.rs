//! Families of metrics as text, in either of the two formats that Prometheus reads.

use std::sync::Arc;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use thermocline_engine::figures::{About, Kind, Value};

use super::status::{Latency, Status};

/// Prefix of all metrics' names.
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

/// The labels that all samples have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Common {
    /// None: one backing store is served.
    Nothing,
    /// The volume that a sample is about.
    Volume,
}

/// Writes families in one format, each with the samples of all volumes.
#[derive(Debug)]
pub(super) struct Exposition<'e, 'a> {
    pub(super) encoder: DescriptorEncoder<'e>,
    pub(super) format: Format,
    pub(super) common: Common,
    /// One per volume.
    pub(super) statuses: &'a [Arc<Status>],
}

/// A family whose samples are being written.
#[derive(Debug)]
pub(super) struct Family<'a> {
    metric: MetricEncoder<'a>,
    kind: Kind,
    label_names: &'static [&'static str],
    format: Format,
    /// The volume that the next samples are about, if they say so.
    volume: Option<&'a str>,
}

impl Exposition<'_, '_> {
    /// Writes a family; `samples` writes what a volume has in it.
    pub(super) fn family(
        &mut self,
        about: &About,
        samples: impl Fn(&mut Family<'_>, &Status) -> Encoding,
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
        let mut family = Family {
            metric,
            kind: about.kind,
            label_names: about.labels,
            format: self.format,
            volume: None,
        };
        for status in self.statuses {
            family.volume = (self.common == Common::Volume).then_some(&status.export);
            samples(&mut family, status)?;
        }
        Ok(())
    }

    /// Writes a family of one sample per volume without labels of its own, if a volume has one.
    pub(super) fn single(&mut self, about: &About, value: impl Fn(&Status) -> Value) -> Encoding {
        if self.statuses.iter().all(|status| value(status) == Value::Absent) {
            return Ok(());
        }
        self.family(about, |family, status| match value(status) {
            Value::Absent => Ok(()),
            value @ (Value::Count(_) | Value::Real(_)) => family.sample([], value),
        })
    }
}

impl<'a> Family<'a> {
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
            Format::OpenMetrics => {
                let named = self.named(labels);
                self.metric.encode_info(&named)
            }
            Format::Prometheus => self.labelled(labels, |metric| metric.encode_gauge(&1_u32)),
        }
    }

    fn named<'l, const N: usize>(&self, values: [&'l str; N]) -> Vec<(&'static str, &'l str)>
    where
        'a: 'l,
    {
        let volume = self.volume.map(|volume| ("volume", volume));
        volume.into_iter().chain(self.label_names.iter().copied().zip(values)).collect()
    }

    fn labelled<const N: usize>(
        &mut self,
        values: [&str; N],
        write: impl FnOnce(&mut MetricEncoder<'_>) -> Encoding,
    ) -> Encoding {
        debug_assert_eq!(self.label_names.len(), N, "a value for each label");
        let named = self.named(values);
        if named.is_empty() {
            return write(&mut self.metric);
        }
        write(&mut self.metric.encode_family(&named)?)
    }
}

/// Return the name of a family's samples; those of a histogram have further suffixes.
pub(super) fn sample_name(about: &About) -> String {
    let ending = match about.kind {
        Kind::Counter => "_total",
        Kind::Info => "_info",
        Kind::Gauge | Kind::Histogram => "",
    };
    format!("{PREFIX}{}{ending}", about.metric)
}

/// Split a name from the unit at its end.
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
