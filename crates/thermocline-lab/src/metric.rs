//! The figures of a run that tables and charts show, and how they are written.

use crate::{BufferSummary, Summary, TierSsdSummary, TierSummary};

/// A figure of a run, whose results are an `S`.
#[derive(Clone, Copy, Debug)]
pub struct Metric<S = Summary> {
    /// What it is.
    pub title: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The figure; none if the run has no such tier or device.
    pub value: fn(&S) -> Option<f64>,
    /// How it is written, without the unit.
    pub show: fn(f64) -> String,
    /// Whether more of it is better.
    pub is_more_better: bool,
}

/// The weighted sum of all page transfers.
pub const IO_TIME: Metric = Metric {
    title: "Total I/O time",
    unit: "s",
    value: |summary| Some(summary.io_time_ms / 1000.0),
    show: |value| format!("{value:.1}"),
    is_more_better: false,
};

/// The mean access time of the tiers that accesses are found in.
pub const AVERAGE_RESPONSE: Metric = Metric {
    title: "Average response",
    unit: "ms",
    value: |summary| Some(summary.average_response_ms),
    show: |value| format!("{value:.3}"),
    is_more_better: false,
};

/// The shares of accesses that a cache tier served.
pub const HIT_RATIOS: [Metric; 3] = [
    Metric {
        title: "Hits in RAM",
        unit: "%",
        value: |summary| summary.tiers.first().map(percent),
        show: two_decimals,
        is_more_better: true,
    },
    Metric {
        title: "Hits on flash",
        unit: "%",
        value: |summary| flash(summary).map(percent),
        show: two_decimals,
        is_more_better: true,
    },
    Metric {
        title: "Hits in RAM or on flash",
        unit: "%",
        value: |summary| summary.tiers.last().map(|disk| 100.0 - percent(disk)),
        show: two_decimals,
        is_more_better: true,
    },
];

/// The page transfers of flash and disk.
pub const TRAFFIC: [Metric; 4] = [
    Metric {
        title: "Flash reads",
        unit: "pages",
        value: |summary| flash(summary).map(|tier| tier.page_reads as f64),
        show: whole,
        is_more_better: false,
    },
    Metric {
        title: "Flash writes",
        unit: "pages",
        value: |summary| flash(summary).map(|tier| tier.page_writes as f64),
        show: whole,
        is_more_better: false,
    },
    Metric {
        title: "Disk reads",
        unit: "pages",
        value: |summary| summary.tiers.last().map(|tier| tier.page_reads as f64),
        show: whole,
        is_more_better: false,
    },
    Metric {
        title: "Disk writes",
        unit: "pages",
        value: |summary| summary.tiers.last().map(|tier| tier.page_writes as f64),
        show: whole,
        is_more_better: false,
    },
];

/// How long requests took, if time was simulated.
pub const RESPONSES: [Metric; 4] = [
    Metric {
        title: "Mean read response",
        unit: "us",
        value: |summary| Some(summary.timing.as_ref()?.response_us.read.mean),
        show: one_decimal,
        is_more_better: false,
    },
    Metric {
        title: "99 % of reads within",
        unit: "us",
        value: |summary| Some(summary.timing.as_ref()?.response_us.read.p99),
        show: one_decimal,
        is_more_better: false,
    },
    Metric {
        title: "Mean write response",
        unit: "us",
        value: |summary| Some(summary.timing.as_ref()?.response_us.write.mean),
        show: one_decimal,
        is_more_better: false,
    },
    Metric {
        title: "99 % of writes within",
        unit: "us",
        value: |summary| Some(summary.timing.as_ref()?.response_us.write.p99),
        show: one_decimal,
        is_more_better: false,
    },
];

/// What becomes of the flash tier's drive, if there is one.
pub const WEAR: [Metric; 3] = [
    Metric {
        title: "Flash erases",
        unit: "blocks per day",
        value: |summary| Some(flash_drive(summary)?.erases_per_day),
        show: whole,
        is_more_better: false,
    },
    Metric {
        title: "Flash write amplification",
        unit: "programs per page",
        value: |summary| Some(flash_drive(summary)?.metrics.write_amplification),
        show: two_decimals,
        is_more_better: false,
    },
    Metric {
        title: "Flash lifetime",
        unit: "years",
        value: |summary| flash_drive(summary)?.lifetime_years,
        show: one_decimal,
        is_more_better: true,
    },
];

/// What a write buffer does for the NAND.
pub const BUFFERS: [Metric<BufferSummary>; 5] = [
    Metric {
        title: "Write hits",
        unit: "%",
        value: |summary| Some(summary.write_hit_ratio * 100.0),
        show: two_decimals,
        is_more_better: true,
    },
    Metric {
        title: "Read hits",
        unit: "%",
        value: |summary| {
            (summary.page_reads > 0)
                .then(|| summary.read_hits as f64 / summary.page_reads as f64 * 100.0)
        },
        show: two_decimals,
        is_more_better: true,
    },
    Metric {
        title: "Pages flushed",
        unit: "pages",
        value: |summary| Some(summary.pages_flushed as f64),
        show: whole,
        is_more_better: false,
    },
    Metric {
        title: "Flushes",
        unit: "flushes",
        value: |summary| Some(summary.flushes as f64),
        show: whole,
        is_more_better: false,
    },
    Metric {
        title: "Pages per flush",
        unit: "pages",
        value: |summary| {
            let pages = summary.pages_flushed + summary.pages_padded;
            (summary.flushes > 0).then(|| pages as f64 / summary.flushes as f64)
        },
        show: two_decimals,
        is_more_better: true,
    },
];

/// What becomes of the SSD behind a write buffer.
pub const BUFFERED_SSD: [Metric<BufferSummary>; 7] = [
    Metric {
        title: "Erases",
        unit: "blocks",
        value: |summary| summary.erase_count.map(|erases| erases as f64),
        show: whole,
        is_more_better: false,
    },
    Metric {
        title: "Write amplification",
        unit: "programs per page flushed",
        value: |summary| summary.write_amplification,
        show: two_decimals,
        is_more_better: false,
    },
    Metric {
        title: "Mean write response",
        unit: "us",
        value: |summary| Some(summary.response_us?.write.mean),
        show: one_decimal,
        is_more_better: false,
    },
    Metric {
        title: "99 % of writes within",
        unit: "us",
        value: |summary| Some(summary.response_us?.write.p99),
        show: one_decimal,
        is_more_better: false,
    },
    Metric {
        title: "Mean read response",
        unit: "us",
        value: |summary| Some(summary.response_us?.read.mean),
        show: one_decimal,
        is_more_better: false,
    },
    Metric {
        title: "99 % of reads within",
        unit: "us",
        value: |summary| Some(summary.response_us?.read.p99),
        show: one_decimal,
        is_more_better: false,
    },
    Metric {
        title: "Lifetime",
        unit: "years",
        value: |summary| summary.lifetime_years,
        show: one_decimal,
        is_more_better: true,
    },
];

/// The figures that a table of these buffers shows.
pub fn buffer_columns(summaries: &[BufferSummary]) -> Vec<Metric<BufferSummary>> {
    let mut columns = BUFFERS.to_vec();
    if summaries.iter().any(|summary| summary.ssd.is_some()) {
        columns.extend(BUFFERED_SSD);
    }
    columns
}

/// The figures that a table of these runs shows.
pub fn columns(summaries: &[Summary]) -> Vec<Metric> {
    let mut columns: Vec<Metric> = [IO_TIME].into_iter().chain(HIT_RATIOS).chain(TRAFFIC).collect();
    if summaries.iter().any(|summary| summary.timing.is_some()) {
        columns.extend(RESPONSES);
    }
    if summaries.iter().any(|summary| flash_drive(summary).is_some()) {
        columns.extend(WEAR);
    }
    columns
}

impl<S> Metric<S> {
    /// Whether no rival, of at least two runs, has a better figure.
    pub fn is_best(&self, summary: &S, rivals: &[&S]) -> bool {
        let Some(value) = (self.value)(summary) else { return false };
        let is_better =
            |other: f64| if self.is_more_better { other > value } else { other < value };
        rivals.len() > 1 && !rivals.iter().filter_map(|other| (self.value)(other)).any(is_better)
    }
}

/// The capacities of the cache tiers in pages: runs with equal ones can be compared.
pub fn capacities(summary: &Summary) -> Vec<u64> {
    summary.tiers.iter().filter_map(|tier| tier.capacity_pages).collect()
}

/// The tier between RAM and disk, if there is one.
pub fn flash(summary: &Summary) -> Option<&TierSummary> {
    match summary.tiers.as_slice() {
        [_, flash, _] => Some(flash),
        _ => None,
    }
}

/// What became of the drive between RAM and disk, if it is one of flash.
pub fn flash_drive(summary: &Summary) -> Option<&TierSsdSummary> {
    let [_, flash, _] = summary.timing.as_ref()?.devices.as_slice() else { return None };
    flash.ssd.as_ref()
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

fn percent(tier: &TierSummary) -> f64 {
    tier.hit_ratio * 100.0
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
    fn sizes_have_binary_units() {
        assert_eq!(byte_size(1023), "1023 B");
        assert_eq!(byte_size(1536), "1.5 KiB");
        assert_eq!(byte_size(8192), "8 KiB");
        assert_eq!(byte_size(300 << 20), "300 MiB");
        assert_eq!(byte_size(u64::MAX), "16 EiB");
    }
}
