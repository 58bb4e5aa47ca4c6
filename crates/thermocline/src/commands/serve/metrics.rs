//! The metrics of an engine, for Prometheus.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::status::{DeviceStatus, Found, Latency, PerOp, PerTier, Status};

/// A snapshot as text, in the format that Prometheus reads.
///
/// # Errors
/// None that a snapshot can cause; the writer is memory.
pub(crate) fn render(status: &Status) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Snapshot(status.clone())));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

/// The same in the older text format, in which a family has the name of its samples, and an info is a
/// gauge.
pub(crate) fn plain(openmetrics: &str) -> String {
    let lines: Vec<&str> = openmetrics.lines().collect();
    let kind_of = |name: &str| {
        let kind = lines.iter().find_map(|line| line.strip_prefix("# TYPE ")?.strip_prefix(name));
        kind.map_or("", str::trim)
    };
    let mut text = String::new();
    for line in &lines {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let (suffix, kind) = match words[..] {
            ["#", "HELP" | "TYPE", name, _] => match kind_of(name) {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                kind => ("", kind),
            },
            ["#", ..] => continue,
            _ => {
                text += line;
                text.push('\n');
                continue;
            }
        };
        let rest = if words[1] == "TYPE" { kind } else { words[3] };
        text += &format!("# {} {}{suffix} {rest}\n", words[1], words[2]);
    }
    text
}

#[derive(Debug)]
struct Snapshot(Status);

type Encoding = Result<(), std::fmt::Error>;

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Encoding {
        let status = &self.0;
        let encoder = &mut encoder;
        accesses(encoder, &status.accesses)?;
        latencies(encoder, status)?;
        pages(encoder, status)?;
        devices(encoder, status)?;
        about(encoder, status)?;
        recording(encoder, status)?;
        shadows(encoder, status)
    }
}

fn accesses(encoder: &mut DescriptorEncoder<'_>, accesses: &PerOp<Found>) -> Encoding {
    let help = "Page accesses by operation and by where the page was found";
    let mut family =
        encoder.encode_descriptor("thermocline_page_accesses", help, None, MetricType::Counter)?;
    for (op, found) in [("read", accesses.read), ("write", accesses.write)] {
        for (place, count) in [
            ("ram", found.ram),
            ("flash", found.flash),
            ("disk", found.disk),
            ("bypass", found.bypass),
        ] {
            let labels = [("op", op), ("found", place)];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn latencies(encoder: &mut DescriptorEncoder<'_>, status: &Status) -> Encoding {
    let help =
        "Time from a request to its answer, by operation and the slowest tier that it needed";
    let mut family = encoder.encode_descriptor(
        "thermocline_request",
        help,
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    let PerOp { read, write } = status.latency;
    for (op, PerTier { ram, flash, disk }) in [("read", read), ("write", write)] {
        for (tier, latency) in [("ram", ram), ("flash", flash), ("disk", disk)] {
            let labels = [("op", op), ("tier", tier)];
            let mut metric = family.encode_family(&labels)?;
            histogram(&mut metric, &latency)?;
        }
    }
    let mut family = encoder.encode_descriptor(
        "thermocline_flush",
        "Time from a flush to its answer",
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    let labels: [(&str, &str); 0] = [];
    histogram(&mut family.encode_family(&labels)?, &status.flush_latency)
}

fn histogram(
    metric: &mut prometheus_client::encoding::MetricEncoder<'_>,
    latency: &Latency,
) -> Encoding {
    let in_classes: u64 = latency.classes.iter().sum();
    let classes = latency.classes.iter().enumerate();
    let mut buckets: Vec<(f64, u64)> =
        classes.map(|(class, &count)| (Latency::bound_s(class), count)).collect();
    buckets.push((f64::MAX, latency.count - in_classes));
    metric.encode_histogram::<NoLabelSet>(
        latency.sum_ns as f64 / 1e9,
        latency.count,
        &buckets,
        None,
    )
}

fn pages(encoder: &mut DescriptorEncoder<'_>, status: &Status) -> Encoding {
    let gauges = [
        ("thermocline_dirty_pages", "Pages that are newer than the disk's", status.dirty_pages),
        (
            "thermocline_flash_retired_slots",
            "Slots of the flash that failed and are not used again",
            status.flash_retired_slots,
        ),
        (
            "thermocline_undurable_pages",
            "Pages whose newest bytes no device has",
            status.undurable_pages,
        ),
        ("thermocline_lost_pages", "Pages whose newest bytes are lost", status.lost_pages),
        (
            "thermocline_requests_in_flight",
            "Requests taken and not answered",
            status.requests_in_flight,
        ),
        ("thermocline_clients", "Clients connected", status.clients),
    ];
    for (name, help, value) in gauges {
        gauge(encoder, name, help, None, value as f64)?;
    }
    let memory = "Memory for what is known of pages, the pages themselves not";
    gauge(
        encoder,
        "thermocline_metadata",
        memory,
        Some(&Unit::Bytes),
        status.metadata_bytes as f64,
    )?;
    let counters = [
        (
            "thermocline_checksum_errors",
            "Pages whose checksum did not match",
            status.checksum_errors,
        ),
        (
            "thermocline_flash_errors",
            "Flash operations that failed in spite of further tries",
            status.flash_failures,
        ),
        (
            "thermocline_budget_refusals",
            "Copies to flash that the write budget did not allow",
            status.budget_refusals,
        ),
        ("thermocline_journal_commits", "Commits of the journal", status.commits),
        ("thermocline_flushes", "Flushes and durable writes answered", status.flushes),
    ];
    for (name, help, value) in counters {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)?;
    }
    Ok(())
}

fn devices(encoder: &mut DescriptorEncoder<'_>, status: &Status) -> Encoding {
    let devices = [("flash", &status.flash), ("backing", &status.backing)];
    for (name, help, bytes) in [
        (
            "thermocline_device_read",
            "Bytes read from a device, by purpose",
            (|device| &device.read_bytes) as fn(&DeviceStatus) -> &Vec<(String, u64)>,
        ),
        ("thermocline_device_written", "Bytes written to a device, by purpose", |device| {
            &device.written_bytes
        }),
    ] {
        let mut family =
            encoder.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Counter)?;
        for (label, device) in devices {
            for (purpose, count) in bytes(device) {
                let labels = [("device", label), ("purpose", purpose.as_str())];
                ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
            }
        }
    }
    let help = "Operations in flight on a device";
    let mut family = encoder.encode_descriptor(
        "thermocline_device_queue_depth",
        help,
        None,
        MetricType::Gauge,
    )?;
    for (label, device) in devices {
        let labels = [("device", label)];
        ConstGauge::new(device.queue_depth as f64).encode(family.encode_family(&labels)?)?;
    }
    let help = "Operations of a device that failed";
    let mut family =
        encoder.encode_descriptor("thermocline_device_errors", help, None, MetricType::Counter)?;
    for (label, device) in devices {
        let labels = [("device", label)];
        ConstCounter::new(device.errors).encode(family.encode_family(&labels)?)?;
    }
    if let Some(left) = status.write_budget_left_bytes {
        let help = "Bytes that may be written to flash now";
        gauge(encoder, "thermocline_flash_write_budget_left", help, Some(&Unit::Bytes), left)?;
    }
    let metric = encoder.encode_descriptor(
        "thermocline_flash_lifetime_written",
        "Bytes written to the flash since it was set up",
        Some(&Unit::Bytes),
        MetricType::Counter,
    )?;
    ConstCounter::new(status.flash_lifetime_written_bytes).encode(metric)
}

fn about(encoder: &mut DescriptorEncoder<'_>, status: &Status) -> Encoding {
    let help = "What runs";
    let mut family =
        encoder.encode_descriptor("thermocline_engine", help, None, MetricType::Info)?;
    let labels = [
        ("version", status.version.as_str()),
        ("policy", status.policy.as_str()),
        ("write_mode", status.write_mode.as_str()),
    ];
    let none: [(&str, &str); 0] = [];
    family.encode_family(&none)?.encode_info(&labels)?;
    if status.is_flash_configured {
        gauge(
            encoder,
            "thermocline_flash_in_use",
            "Whether the flash is in use",
            None,
            f64::from(u8::from(status.has_flash)),
        )?;
    }
    gauge(
        encoder,
        "thermocline_writes_held",
        "Whether writes and flushes fail because the note of the backing store cannot be written",
        None,
        f64::from(u8::from(status.writes_held)),
    )?;
    let help = "What the policy adapts";
    let mut family =
        encoder.encode_descriptor("thermocline_policy", help, None, MetricType::Gauge)?;
    for one in &status.gauges {
        let labels = [("name", one.name.as_str()), ("tier", one.tier.as_str())];
        ConstGauge::new(one.value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn recording(encoder: &mut DescriptorEncoder<'_>, status: &Status) -> Encoding {
    let Some(recording) = &status.recording else { return Ok(()) };
    let bytes = Some(&Unit::Bytes);
    for (name, help, unit, value) in [
        ("thermocline_recorded_accesses", "Page accesses to be recorded", None, recording.accesses),
        (
            "thermocline_recording_missing_accesses",
            "Page accesses that could not be recorded",
            None,
            recording.missing_accesses,
        ),
        ("thermocline_recording_written", "Bytes of the recording", bytes, recording.written_bytes),
    ] {
        let metric = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)?;
    }
    let failed = f64::from(u8::from(recording.has_failed));
    gauge(
        encoder,
        "thermocline_recording_failed",
        "Whether the file cannot be written",
        None,
        failed,
    )
}

fn shadows(encoder: &mut DescriptorEncoder<'_>, status: &Status) -> Encoding {
    type Figure = fn(&super::status::ShadowStatus) -> f64;
    let figures: [(&str, &str, Figure); 5] = [
        (
            "thermocline_shadow_ram_hit_ratio",
            "Share of accesses that a shadow would serve from RAM",
            |shadow| shadow.ram_hit_ratio,
        ),
        (
            "thermocline_shadow_flash_hit_ratio",
            "Share of accesses that a shadow would serve from flash",
            |shadow| shadow.flash_hit_ratio,
        ),
        (
            "thermocline_shadow_flash_writes_per_access",
            "Pages that a shadow would write to flash, per access",
            |shadow| shadow.flash_writes_per_access,
        ),
        (
            "thermocline_shadow_disk_transfers_per_access",
            "Pages that a shadow would read from and write to disk, per access",
            |shadow| shadow.disk_transfers_per_access,
        ),
        (
            "thermocline_shadow_io_seconds_per_access",
            "Time of all transfers of a shadow by the cost model, per access",
            |shadow| shadow.io_ms_per_access / 1e3,
        ),
    ];
    for (name, help, figure) in figures {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for shadow in &status.shadows {
            let labels = [("shadow", shadow.name.as_str())];
            ConstGauge::new(figure(shadow)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    value: f64,
) -> Encoding {
    let metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}
