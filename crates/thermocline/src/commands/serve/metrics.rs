//! The metrics of a running engine: the tables of what only the server knows, and everything as text.

use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;
use thermocline_engine::counters::{COUNTER_FIGURES, TRANSFER_FIGURES};
use thermocline_engine::figures::{About, Figure, Kind, SHARD_FIGURES, Value};

use super::exposition::{Common, Encoding, Exposition, Format};
use super::status::{DeviceStatus, PerOp, RecordingStatus, ShadowStatus, Status};

/// Snapshots of volumes as text.
///
/// # Errors
/// None that a snapshot can cause; the writer is memory.
pub(crate) fn render(
    statuses: Vec<Arc<Status>>,
    common: Common,
    format: Format,
) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Snapshots { statuses, common, format }));
    let mut page = String::new();
    match format {
        Format::OpenMetrics => text::encode(&mut page, &registry)?,
        Format::Prometheus => text::encode_registry(&mut page, &registry)?,
    }
    Ok(page)
}

const ACCESSES: About = About {
    metric: "page_accesses",
    labels: &["op", "found"],
    details: "A miss is found on `disk`; an access that asks no policy is a `bypass`. The sum is every \
              page of every read, write, trim, zeroing and prefetch. The hit ratio of RAM is `ram` over \
              the sum.",
    ..About::new(
        "accesses",
        Kind::Counter,
        "Page accesses by operation and by where the page was found",
    )
};

const COPIES: About = About {
    metric: "policy_copies",
    labels: &["source", "target"],
    details: "The engine moves fewer bytes if it can: `device_read_bytes` and `device_written_bytes` \
              have these.",
    ..About::new("copies", Kind::Counter, "Pages that the policy copied from a tier to another")
};

const REQUESTS: About = About {
    metric: "request_seconds",
    labels: &["op", "tier"],
    details: "Buckets go from 1 us to 8.4 s, each twice the one before.",
    ..About::new(
        "latency",
        Kind::Histogram,
        "Time from a request to its answer, by operation and the slowest tier that it needed",
    )
};

const FLUSHES: About = About {
    metric: "flush_seconds",
    ..About::new("flush_latency", Kind::Histogram, "Time from a flush to its answer")
};

const READ_BYTES: About = About {
    metric: "device_read_bytes",
    labels: &["device", "purpose"],
    details: "Purposes: `policy` (the policy said so, or a request needs it), `durability` (pages that \
              only flushes wanted on flash: the cost of durability), `cleaning` (dirty pages that the \
              engine writes back), `journal` and `table` (the flash's own records), `bypass`.",
    ..About::new("flash.read_bytes", Kind::Counter, "Bytes read from a device, by purpose")
};

const WRITTEN_BYTES: About = About {
    metric: "device_written_bytes",
    labels: READ_BYTES.labels,
    details: "The purposes are those of bytes read.",
    ..About::new("flash.written_bytes", Kind::Counter, "Bytes written to a device, by purpose")
};

const SHARE_MOVES: About = About {
    metric: "share_moves",
    labels: &["tier"],
    details: "Absent unless `ram.size` or `flash.size` of the volume is `\"auto\"`.",
    ..About::new("sharing", Kind::Counter, "Changes of the share of RAM or flash")
};

const ENGINE: About = About {
    metric: "engine",
    labels: &["version", "policy", "write_mode"],
    ..About::new("version", Kind::Info, "Version, policy and write mode")
};

const POLICY: About = About {
    metric: "policy",
    labels: &["name", "tier"],
    details: "The names are those of `thermocline compare --over-time`.",
    ..About::new("gauges", Kind::Gauge, "Adaptive parameters of the policy")
};

const SERVER_FIGURES: &[Figure<Status>] = &[
    Figure::gauge("clients", "Clients connected", |status: &Status| status.clients.into()),
    Figure::counter(
        "paced_requests",
        "Requests that waited because their client exceeded its rates",
        |status: &Status| status.paced_requests.into(),
    )
    .metric("client_paced_requests")
    .details("See [rates of clients](#rates-of-clients)."),
    Figure::gauge("has_flash", "State of the flash", |status: &Status| {
        status.is_flash_configured.then(|| u64::from(status.has_flash)).into()
    })
    .metric("flash_in_use")
    .details("1 in use, 0 failed; absent if none is configured."),
    Figure::gauge(
        "flash_mirror.members",
        "Devices of a mirrored flash that are in use",
        |status: &Status| status.flash_mirror.map(|mirror| mirror.members).into(),
    )
    .metric("flash_mirror_members")
    .details("2, or 1 if the other one failed or is missing; absent if the flash is not mirrored."),
    Figure::gauge(
        "flash_rated_written_bytes",
        "Rated endurance of the flash in bytes written",
        |status: &Status| status.flash_rated_written_bytes.into(),
    )
    .details(
        "From `flash.rated_writes` or `flash.drive`; absent without them. Together with \
         `flash_lifetime_written_bytes` it shows how long the flash lasts.",
    ),
    Figure::gauge("writes_held", "State of writes and flushes", |status: &Status| {
        u64::from(status.writes_held).into()
    })
    .details(
        "1 if they fail because the note of the backing store cannot be written, otherwise 0.",
    ),
];

const DEVICE_FIGURES: &[Figure<DeviceStatus>] =
    &[Figure::gauge("queue_depth", "Operations in flight on a device", |device: &DeviceStatus| {
        device.queue_depth.into()
    })
    .metric("device_queue_depth")
    .labels(&["device"])];

const RECORDING_FIGURES: &[Figure<RecordingStatus>] = &[
    Figure::counter(
        "accesses",
        "Page accesses for the recording",
        |recording: &RecordingStatus| recording.accesses.into(),
    )
    .metric("recorded_accesses")
    .details("See [recording](#recording)."),
    Figure::counter(
        "missing_accesses",
        "Page accesses that could not be recorded",
        |recording: &RecordingStatus| recording.missing_accesses.into(),
    )
    .metric("recording_missing_accesses"),
    Figure::counter(
        "bypasses",
        "Page accesses that are not recorded because no policy was asked about them",
        |recording: &RecordingStatus| recording.bypasses.into(),
    )
    .metric("recording_bypasses"),
    Figure::counter("written_bytes", "Bytes of the recording", |recording: &RecordingStatus| {
        recording.written_bytes.into()
    })
    .metric("recording_written_bytes"),
    Figure::gauge("has_failed", "State of the recording", |recording: &RecordingStatus| {
        u64::from(recording.has_failed).into()
    })
    .metric("recording_failed")
    .details("1 if its file cannot be written, otherwise 0."),
];

const SHADOW_FIGURES: &[Figure<ShadowStatus>] = &[
    shadow(
        "ram_hit_ratio",
        "shadow_ram_hit_ratio",
        "Share of accesses that a shadow would serve from RAM",
        |shadow| shadow.ram_hit_ratio.into(),
    ),
    shadow(
        "flash_hit_ratio",
        "shadow_flash_hit_ratio",
        "Share of accesses that a shadow would serve from flash",
        |shadow| shadow.flash_hit_ratio.into(),
    ),
    shadow(
        "flash_writes_per_access",
        "shadow_flash_writes_per_access",
        "Pages that a shadow would write to flash, per access",
        |shadow| shadow.flash_writes_per_access.into(),
    ),
    shadow(
        "disk_transfers_per_access",
        "shadow_disk_transfers_per_access",
        "Pages that a shadow would read from and write to disk, per access",
        |shadow| shadow.disk_transfers_per_access.into(),
    ),
    shadow(
        "io_ms_per_access",
        "shadow_io_seconds_per_access",
        "Time of all transfers of a shadow by the cost model, per access",
        |shadow| (shadow.io_ms_per_access / 1e3).into(),
    ),
];

const fn shadow(
    key: &'static str,
    metric: &'static str,
    help: &'static str,
    value: fn(&ShadowStatus) -> Value,
) -> Figure<ShadowStatus> {
    Figure::gauge(key, help, value).metric(metric).labels(&["shadow"])
}

#[derive(Debug)]
struct Snapshots {
    statuses: Vec<Arc<Status>>,
    common: Common,
    format: Format,
}

impl Collector for Snapshots {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Encoding {
        let Self { statuses, common, format } = self;
        let page = &mut Exposition { encoder, format: *format, common: *common, statuses };
        accesses(page)?;
        latencies(page)?;
        for figure in SERVER_FIGURES {
            page.single(&figure.about, figure.value)?;
        }
        for about in engine_figures() {
            page.single(about, |status| status.figures.value(about.key))?;
        }
        devices(page)?;
        if self.statuses.iter().any(|status| status.sharing.named().next().is_some()) {
            page.family(&SHARE_MOVES, |family, status| {
                let mut shares = status.sharing.named();
                shares.try_for_each(|(tier, share)| family.sample([tier], share.moves.into()))
            })?;
        }
        page.family(&ENGINE, |family, status| {
            family.info([&status.version, &status.policy, &status.write_mode])
        })?;
        page.family(&POLICY, |family, status| {
            let mut gauges = status.gauges.iter();
            gauges.try_for_each(|one| family.sample([&one.name, &one.tier], one.value.into()))
        })?;
        for figure in RECORDING_FIGURES {
            page.single(&figure.about, |status| {
                status
                    .recording
                    .as_ref()
                    .map_or(Value::Absent, |recording| (figure.value)(recording))
            })?;
        }
        SHADOW_FIGURES.iter().try_for_each(|figure| {
            page.family(&figure.about, |family, status| {
                let mut shadows = status.shadows.iter();
                shadows.try_for_each(|one| family.sample([&one.name], (figure.value)(one)))
            })
        })
    }
}

/// Return the rows of the engine's tables that are in [`Status::figures`].
pub(crate) fn engine_figures() -> impl Iterator<Item = &'static About> {
    let counted = COUNTER_FIGURES.iter().map(|figure| &figure.about);
    SHARD_FIGURES.iter().map(|figure| &figure.about).chain(counted)
}

fn accesses(page: &mut Exposition<'_, '_>) -> Encoding {
    page.family(&ACCESSES, |family, status| {
        let PerOp { read, write } = status.accesses;
        for (op, found) in [("read", read), ("write", write)] {
            for (place, count) in found.named() {
                family.sample([op, place], count.into())?;
            }
        }
        Ok(())
    })?;
    page.family(&COPIES, |family, status| {
        for (source, targets) in status.copies.named() {
            for (target, &count) in targets.named() {
                family.sample([source, target], count.into())?;
            }
        }
        Ok(())
    })
}

fn latencies(page: &mut Exposition<'_, '_>) -> Encoding {
    page.family(&REQUESTS, |family, status| {
        for (op, tiers) in [("read", &status.latency.read), ("write", &status.latency.write)] {
            for (tier, latency) in tiers.named() {
                family.distribution([op, tier], latency)?;
            }
        }
        Ok(())
    })?;
    page.family(&FLUSHES, |family, status| family.distribution([], &status.flush_latency))
}

fn devices(page: &mut Exposition<'_, '_>) -> Encoding {
    type Bytes = fn(&DeviceStatus) -> &Vec<(String, u64)>;
    fn of(status: &Status) -> [(&'static str, &DeviceStatus); 2] {
        [("flash", &status.flash), ("backing", &status.backing)]
    }
    let by_purpose: [(&About, Bytes); 2] = [
        (&READ_BYTES, |device| &device.read_bytes),
        (&WRITTEN_BYTES, |device| &device.written_bytes),
    ];
    for (about, bytes) in by_purpose {
        page.family(about, |family, status| {
            for (label, device) in of(status) {
                for (purpose, count) in bytes(device) {
                    family.sample([label, purpose], (*count).into())?;
                }
            }
            Ok(())
        })?;
    }
    for figure in DEVICE_FIGURES {
        page.family(&figure.about, |family, status| {
            let mut devices = of(status).into_iter();
            devices.try_for_each(|(label, device)| family.sample([label], (figure.value)(device)))
        })?;
    }
    for Figure { about, .. } in TRANSFER_FIGURES {
        page.family(about, |family, status| {
            let mut devices = of(status).into_iter();
            devices.try_for_each(|(label, device)| {
                family.sample([label], device.figures.value(about.key))
            })
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
