//! The figures of a run that tables and charts show, and how they are written.

use std::borrow::Cow;

use crate::{BufferSummary, Summary, TierSsdSummary, TierSummary, default_latencies_ms};

/// The names of a hybrid cache's tiers.
const RAM: &str = "ram";
const FLASH: &str = "flash";

/// A figure of a run, whose results are an `S`.
#[derive(Clone, Debug)]
pub struct Metric<S = Summary> {
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
enum Value<S> {
    /// In all of them.
    Run(fn(&S) -> Option<f64>),
    /// In those of the tier at this place, fastest first.
    Tier(fn(&S, usize) -> Option<f64>, usize),
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
            Value::Tier(value, tier) => value(run, tier),
        }
    }

    /// Whether no rival, of at least two runs, has a better figure.
    pub fn is_best(&self, run: &S, rivals: &[&S]) -> bool {
        let Some(value) = self.value(run) else { return false };
        let is_better =
            |other: f64| if self.is_more_better { other > value } else { other < value };
        rivals.len() > 1 && !rivals.iter().filter_map(|other| self.value(other)).any(is_better)
    }
}

/// The weighted sum of all page transfers.
pub const IO_TIME: Metric =
    Metric::less("Total I/O time", "s", one_decimal, |summary| Some(summary.io_time_ms / 1000.0));

/// The mean access time of the tiers that accesses are found in.
pub const AVERAGE_RESPONSE: Metric =
    Metric::less("Average response", "ms", three_decimals, |summary| {
        Some(summary.average_response_ms)
    });

/// What an I/O per second costs, if prices were given.
pub const COST: Metric = Metric::less("Cost per I/O", "price per I/O/s", four_digits, |summary| {
    Some(summary.cost?.per_io)
});

/// The page transfers of flash and disk.
pub const TRAFFIC: [Metric; 4] = [
    Metric::less("Flash reads", "pages", whole, |summary| Some(flash(summary)?.page_reads as f64)),
    Metric::less("Flash writes", "pages", whole, |summary| {
        Some(flash(summary)?.page_writes as f64)
    }),
    Metric::less("Disk reads", "pages", whole, |summary| {
        Some(summary.tiers.last()?.page_reads as f64)
    }),
    Metric::less("Disk writes", "pages", whole, |summary| {
        Some(summary.tiers.last()?.page_writes as f64)
    }),
];

/// What moves between the cache tiers, and what the policy keeps besides the pages.
pub const MOVES: [Metric; 4] = [
    Metric::less("Demotions", "pages", whole, |summary| {
        Some(summary.demotions.iter().sum::<u64>() as f64)
    }),
    Metric::less("Promotions", "pages", whole, |summary| {
        Some(summary.promotions.iter().sum::<u64>() as f64)
    }),
    Metric::less("Metadata", "bytes", whole, |summary| Some(summary.metadata_bytes as f64)),
    Metric::less("Metadata share", "% of the caches", three_decimals, |summary| {
        Some(summary.metadata_share * 100.0)
    }),
];

/// How long requests took, if time was simulated.
pub const RESPONSES: [Metric; 4] = [
    Metric::less("Mean read response", "us", one_decimal, |summary| {
        Some(summary.timing.as_ref()?.response_us.read.mean)
    }),
    Metric::less("99 % of reads within", "us", one_decimal, |summary| {
        Some(summary.timing.as_ref()?.response_us.read.p99)
    }),
    Metric::less("Mean write response", "us", one_decimal, |summary| {
        Some(summary.timing.as_ref()?.response_us.write.mean)
    }),
    Metric::less("99 % of writes within", "us", one_decimal, |summary| {
        Some(summary.timing.as_ref()?.response_us.write.p99)
    }),
];

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
    let has_cost = summaries.iter().any(|summary| summary.cost.is_some());
    let mut columns = vec![leading(tiers)];
    if is_hybrid(tiers) && (has_cost || has_own_latencies(tiers)) {
        columns.push(AVERAGE_RESPONSE);
    }
    columns.extend(hit_ratios(tiers));
    columns.extend(if is_hybrid(tiers) { TRAFFIC } else { MOVES });
    if has_cost {
        columns.push(COST);
    }
    if summaries.iter().any(|summary| summary.timing.is_some()) {
        columns.extend(RESPONSES);
    }
    for (index, tier) in tiers.iter().enumerate() {
        if summaries.iter().any(|summary| drive(summary, index).is_some()) {
            columns.extend(wear(&tier.name, index));
        }
    }
    columns.retain(|metric| summaries.iter().any(|summary| metric.value(summary).is_some()));
    columns
}

/// The figure that ranks runs: hybrids by their I/O time, hierarchies of any depth by their average
/// response.
pub fn leading(tiers: &[TierSummary]) -> Metric {
    if is_hybrid(tiers) { IO_TIME } else { AVERAGE_RESPONSE }
}

/// The shares of accesses that each cache tier served, and all of them.
pub fn hit_ratios(tiers: &[TierSummary]) -> Vec<Metric> {
    let percent = |title: String, value, tier| Metric {
        title: Cow::Owned(title),
        unit: "%",
        value: Value::Tier(value, tier),
        show: two_decimals,
        is_more_better: true,
    };
    let hits = |summary: &Summary, tier: usize| Some(summary.tiers.get(tier)?.hit_ratio * 100.0);
    let caches = cache_names(tiers);
    let places = caches.iter().enumerate();
    let mut metrics: Vec<Metric> =
        places.map(|(tier, name)| percent(format!("Hits {}", within(name)), hits, tier)).collect();
    if caches.len() > 1 {
        let all = |summary: &Summary, _| Some(summary.aggregate_hit_ratio() * 100.0);
        metrics.push(percent(format!("Hits {}", within_any(&caches)), all, 0));
    }
    metrics
}

/// What becomes of a tier's drive.
fn wear(tier: &str, place: usize) -> [Metric; 3] {
    let mut name = tier.to_owned();
    if let Some(initial) = name.get_mut(..1) {
        initial.make_ascii_uppercase();
    }
    let metric = |title, unit, value, show, is_more_better| Metric {
        title: Cow::Owned(format!("{name} {title}")),
        unit,
        value: Value::Tier(value, place),
        show,
        is_more_better,
    };
    [
        metric(
            "erases",
            "blocks per day",
            |summary: &Summary, tier| Some(drive(summary, tier)?.erases_per_day),
            whole,
            false,
        ),
        metric(
            "write amplification",
            "programs per page",
            |summary, tier| Some(drive(summary, tier)?.metrics.write_amplification),
            two_decimals,
            false,
        ),
        metric(
            "lifetime",
            "years",
            |summary, tier| drive(summary, tier)?.lifetime_years,
            one_decimal,
            true,
        ),
    ]
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
    drive(summary, summary.tiers.iter().position(|tier| tier.name == FLASH)?)
}

/// What became of the drive of the tier at this place, if it is one of flash.
fn drive(summary: &Summary, tier: usize) -> Option<&TierSsdSummary> {
    summary.timing.as_ref()?.devices.get(tier)?.ssd.as_ref()
}

/// A number with its thousands apart: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in the greatest binary unit that keeps at least one before the point.
pub fn byte_size(number: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = number as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && value < 10.0 && value.fract() > 0.0);
    format!("{value:.decimals$} {}", units[unit])
}

/// At least four digits that tell something: prices may be of any size.
fn four_digits(value: f64) -> String {
    if value <= 0.0 {
        return "0".into();
    }
    let decimals = (0..12_u8).find(|&decimals| value * 10_f64.powi(decimals.into()) >= 1000.0);
    format!("{value:.0$}", usize::from(decimals.unwrap_or(12)))
}

fn three_decimals(value: f64) -> String {
    format!("{value:.3}")
}

fn two_decimals(value: f64) -> String {
    format!("{value:.2}")
}

fn one_decimal(value: f64) -> String {
    format!("{value:.1}")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the figure was a count before it became a number"
)]
fn whole(value: f64) -> String {
    grouped(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn prices_of_any_size_have_four_digits() {
        for (value, expected) in
            [(1234.6, "1235"), (12.346, "12.35"), (0.02, "0.02000"), (0.000_064_321, "0.00006432")]
        {
            assert_eq!(four_digits(value), expected);
        }
        assert_eq!(four_digits(0.0), "0");
    }

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(byte_size(1023), "1023 B");
        assert_eq!(byte_size(1536), "1.5 KiB");
        assert_eq!(byte_size(8192), "8 KiB");
        assert_eq!(byte_size(300 << 20), "300 MiB");
        assert_eq!(byte_size(u64::MAX), "16 EiB");
    }
}
