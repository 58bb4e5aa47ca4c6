//! Instruments of an engine: latencies, shadows, a recording, and snapshots of them all.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use thermocline_core::{Op, Tier};
use thermocline_engine::counters::{COUNTER_FIGURES, PURPOSE_NAMES, TRANSFER_FIGURES, Transfers};
use thermocline_engine::figures::SHARD_FIGURES;
use thermocline_engine::shadow::{Estimate, Shadows};
use thermocline_engine::{
    Counters, Device, Engine, Event, Options, RequestKind, Shard, Share, WriteMode,
};
use thermocline_nbd::cached::Meter;
use tracing::{info, warn};

use super::choosing_status::ChoosingStatus;
use super::config::{Config, Record, Resource};
use super::devices::AnyDriver;
use super::kept_note::Note;
use super::mirrored::MirrorStatus;
use super::record::{Recorders, Recording};
use super::shadows::{Wanted, Watching};
use super::sharing_status::{ShareStatus, SharingStatus};
use super::status::{
    DeviceStatus, Extent, Figures, Found, GaugeStatus, Latency, PerOp, PerTier, Status,
};

/// An incident ends when nothing has failed for so long.
const INCIDENT_ENDS: Duration = Duration::from_mins(1);

/// Measurements of a running engine.
pub(crate) struct Instruments {
    latencies: Shared<Latencies>,
    observed: Shared<Observed>,
    recorders: Recorders,
    start: Instant,
    /// The name of the export.
    export: String,
    /// `true` if the configuration has one, whatever became of it.
    has_flash: bool,
    /// Bytes that it is rated to be written.
    flash_rated_written_bytes: Shared<Option<u64>>,
    flash_incident: Shared<Incident>,
    /// Number of changes of the candidate in force that were logged.
    switches_logged: Shared<u64>,
    /// Shares of what moves.
    sharing: Shared<SharingStatus>,
}

type Shared<T> = Arc<Mutex<T>>;

/// Times of requests.
#[derive(Clone, Copy, Debug, Default)]
struct Latencies {
    read: PerTier<Latency>,
    write: PerTier<Latency>,
    flush: Latency,
}

/// Observers of every access.
#[derive(Debug, Default)]
struct Observed {
    shadows: Option<Watching>,
    /// When they began.
    shadow_start: Option<Instant>,
    /// The policy in force with other sizes of each resource that moves.
    curves: [Option<Shadows>; 2],
    recording: Option<Recording>,
    note: Option<Arc<Note>>,
    /// The number of the shard.
    shard: usize,
}

/// Keeps the times of requests.
#[derive(Debug)]
struct LatencyMeter(Shared<Latencies>);

impl Meter for LatencyMeter {
    fn answered(&mut self, kind: RequestKind, found: Option<Tier>, time: Duration) {
        let mut latencies = lock(&self.0);
        let tiers = match kind {
            RequestKind::Read => &mut latencies.read,
            RequestKind::Write => &mut latencies.write,
            RequestKind::Flush => return latencies.flush.record(time),
            RequestKind::Trim | RequestKind::WriteZeroes | RequestKind::Cache => return,
        };
        match found {
            Some(Tier::RAM) | None => tiers.ram.record(time),
            Some(Tier::FLASH) => tiers.flash.record(time),
            Some(_) => tiers.disk.record(time),
        }
    }
}

/// Activity of the clients that use a shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientActivity {
    /// Number of those that are connected.
    pub(crate) clients: usize,
    /// Requests that waited because their client exceeded its rates.
    pub(crate) paced_requests: u64,
}

impl Instruments {
    /// Watch a shard; the others of the volume have the same `recorders`. If its flash fails, this informs the
    /// note.
    ///
    /// # Errors
    /// A shadow that cannot be, or a file that cannot be written.
    pub(crate) fn new(
        config: &Config,
        shadows: Vec<Wanted>,
        note: Option<Arc<Note>>,
        recorders: &Recorders,
        shard: &mut Shard,
    ) -> Result<Self> {
        let shadows = Watching::new(shadows, config, shard.options())?;
        let number = shard.options().share.index.into();
        let observed = Observed { shadows, note, shard: number, ..Observed::default() };
        let observed = Shared::new(Mutex::new(observed));
        let instruments = Self {
            latencies: Shared::default(),
            observed: Arc::clone(&observed),
            recorders: recorders.clone(),
            start: Instant::now(),
            export: config.nbd.export.clone(),
            has_flash: config.flash.is_some(),
            flash_rated_written_bytes: Shared::new(Mutex::new(config.flash_rated_written_bytes()?)),
            flash_incident: Shared::default(),
            // The log of the last run has those that it begins with.
            switches_logged: Shared::new(Mutex::new(
                shard.choosing().map_or(0, |choosing| choosing.switches),
            )),
            sharing: Shared::default(),
        };
        instruments.set_recording(config.record.as_ref(), shard.options())?;
        shard.observe(Box::new(move |event| lock(&observed).see(event)));
        Ok(instruments)
    }

    /// Warns once per incident, not once per page.
    fn warn_of_flash(&self, shard: &Shard) {
        let failures = shard.flash_failures();
        if lock(&self.flash_incident).begins(failures, Instant::now()) {
            warn!(
                failures,
                error_budget = shard.options().flash_error_budget,
                retired_slots = shard.retired_slots(),
                lost_pages = shard.lost_pages().len(),
                "operations on the flash failed, or brought wrong bytes; with more than the budget the \
                 engine goes on without it: replace the device"
            );
        }
    }

    /// Logs the changes that the log does not have yet, each with its reason.
    fn log_switches(&self, choosing: Option<&ChoosingStatus>, own: Share) {
        let mut logged = lock(&self.switches_logged);
        // A policy that has just taken over counts from the beginning.
        *logged = choosing.map_or(0, |choosing| choosing.switches.min(*logged));
        let Some(choosing) = choosing else { return };
        let shard = (own.map.number().get() > 1).then_some(own.index);
        for switch in choosing.recent.iter().filter(|switch| switch.number > *logged) {
            info!(
                shard,
                number = switch.number,
                former = switch.former,
                adopted = switch.adopted,
                accesses = switch.accesses,
                over_accesses = switch.over_accesses,
                former_ms_per_access = switch.former_ms_per_access,
                adopted_ms_per_access = switch.adopted_ms_per_access,
                "another candidate takes over: it would have needed less I/O time over the last accesses"
            );
        }
        *logged = choosing.switches;
    }

    /// Return the meter that takes the times of requests.
    pub(crate) fn meter(&self) -> Box<dyn Meter> {
        Box::new(LatencyMeter(Arc::clone(&self.latencies)))
    }

    /// Goes on with these shadows: those that were there before keep what they found.
    pub(crate) fn set_shadows(&self, mut shadows: Option<Watching>) {
        let mut observed = lock(&self.observed);
        let former = observed.shadows.take();
        let all_stay = match (&mut shadows, former) {
            (Some(shadows), Some(former)) => shadows.take_over(former),
            _ => false,
        };
        observed.shadows = shadows;
        if !all_stay {
            observed.shadow_start = Some(Instant::now());
        }
    }

    /// Begins another live curve of a resource, or has none.
    pub(crate) fn set_curve(&self, resource: Resource, curve: Option<Shadows>) {
        lock(&self.observed).curves[resource as usize] = curve;
    }

    /// Return the number of accesses that the live curve of a resource has seen, and the I/O time in
    /// milliseconds that each of its sizes would have needed.
    pub(crate) fn curve_ms(&self, resource: Resource) -> Option<(u64, Vec<f64>)> {
        let estimates = lock(&self.observed).curves[resource as usize].as_ref()?.estimates();
        let accesses = estimates.first()?.accesses;
        let needed_ms = |one: &Estimate| one.io_ms_per_access * one.accesses as f64;
        Some((accesses, estimates.iter().map(needed_ms).collect()))
    }

    /// Let shadows and live curves begin again, because the backing store has that many pages now. Those
    /// that cannot are no longer there.
    pub(crate) fn grow(&self, backing_pages: u64) {
        let mut observed = lock(&self.observed);
        let has_grown = |shadows: &mut Shadows| {
            let grown = shadows.grow(backing_pages);
            grown
                .inspect_err(|error| warn!(%error, "a shadow cannot follow the backing store"))
                .is_ok()
        };
        observed.shadows.take_if(|watching| !has_grown(&mut watching.shadows));
        for place in &mut observed.curves {
            place.take_if(|curve| !has_grown(curve));
        }
        observed.shadow_start = observed.shadows.is_some().then(Instant::now);
    }

    /// Shows how the share of a resource moves.
    pub(crate) fn set_sharing(&self, resource: Resource, share: ShareStatus) {
        *lock(&self.sharing).of(resource) = Some(share);
    }

    /// Judges the wear of the flash by another rating.
    pub(crate) fn set_flash_rating(&self, written_bytes: Option<u64>) {
        *lock(&self.flash_rated_written_bytes) = written_bytes;
    }

    /// Records from now on, elsewhere, or no longer; a recording that stays the same goes on.
    ///
    /// # Errors
    /// A file that cannot be written; then the recording that there was goes on, unless it had the same
    /// file.
    pub(crate) fn set_recording(&self, section: Option<&Record>, options: &Options) -> Result<()> {
        let mut observed = lock(&self.observed);
        let is_same = match (&observed.recording, section) {
            (Some(recording), Some(section)) => {
                recording.section() == section && !recording.status().has_failed
            }
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            // Two recordings in one file would rename each other's.
            let path = observed.recording.as_ref().map(|recording| &recording.section().path);
            if path == section.map(|section| &section.path) {
                observed.recording = None;
            }
            observed.recording = match section {
                Some(section) => Some(self.recorders.record(section, options)?),
                None => {
                    self.recorders.close();
                    None
                }
            };
        }
        Ok(())
    }

    /// Writes what was recorded, and records no longer.
    pub(crate) fn end_recording(&self) {
        self.recorders.close();
        lock(&self.observed).recording = None;
    }

    /// Take a snapshot.
    pub(crate) fn status(
        &self,
        engine: &mut Engine<AnyDriver>,
        activity: ClientActivity,
    ) -> Status {
        let shard = engine.shard();
        let (counters, options) = (shard.counters(), shard.options());
        let latencies = *lock(&self.latencies);
        let mut observed = lock(&self.observed);
        if let Some(recording) = &mut observed.recording {
            recording.hand_over();
        }
        let shadows = observed.shadows.as_ref();
        self.warn_of_flash(shard);
        let mut gauges = vec![];
        shard.policy_gauges(&mut |name, tier, value| {
            let tier = ["ram", "flash", "disk"][tier.index().min(2)].to_owned();
            gauges.push(GaugeStatus { name: name.to_owned(), tier, value });
        });
        let choosing = shard.choosing().map(ChoosingStatus::from);
        self.log_switches(choosing.as_ref(), options.share);
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            export: self.export.clone(),
            shards: options.share.map.number().get(),
            policy: options.policy.entry.name.to_string(),
            write_mode: mode(options.write_mode).into(),
            uptime_s: self.start.elapsed().as_secs_f64(),
            page_bytes: options.page_bytes.into(),
            size_bytes: options.size_bytes(),
            capacity_pages: [options.ram_pages.into(), options.flash_pages.into()],
            has_flash: shard.has_flash(),
            is_flash_configured: self.has_flash,
            flash_mirror: shard.mirror().map(MirrorStatus::of),
            writes_held: shard.write_hold().is_held(),
            accesses: PerOp { read: found(counters, Op::Read), write: found(counters, Op::Write) },
            latency: PerOp { read: latencies.read, write: latencies.write },
            flush_latency: latencies.flush,
            copies: PerTier::of(|source| {
                PerTier::of(|target| counters.policy.copies(source, target))
            }),
            lost: Extent::of_pages(&shard.lost_pages(), options.page_bytes),
            flash_rated_written_bytes: *lock(&self.flash_rated_written_bytes),
            flash: device(&counters.flash, shard.operations_in_flight(Device::Flash)),
            backing: device(&counters.backing, shard.operations_in_flight(Device::Backing)),
            clients: activity.clients as u64,
            paced_requests: activity.paced_requests,
            gauges,
            choosing,
            sharing: lock(&self.sharing).clone(),
            shadow_sample: shadows.map_or(0.0, |watching| watching.shadows.rate()),
            shadow_start_s: observed
                .shadow_start
                .map_or(0.0, |begun| begun.duration_since(self.start).as_secs_f64()),
            shadows: shadows.map_or_else(Vec::new, Watching::status),
            recording: observed.recording.as_ref().map(Recording::status),
            figures: Figures::read(COUNTER_FIGURES, counters)
                .with(Figures::read(SHARD_FIGURES, shard)),
        }
    }
}

/// Failures of the flash that belong together: none is followed by a quiet minute.
#[derive(Debug, Default)]
struct Incident {
    failures: u64,
    last: Option<Instant>,
}

impl Incident {
    /// Notes how many operations have failed for good by now. Returns whether an incident begins.
    fn begins(&mut self, failures: u64, now: Instant) -> bool {
        if failures == self.failures {
            return false;
        }
        self.failures = failures;
        // Each failure prolongs the incident, so that one which goes on is reported once.
        let last = self.last.replace(now);
        last.is_none_or(|last| now.duration_since(last) >= INCIDENT_ENDS)
    }
}

impl Observed {
    fn see(&mut self, event: &Event<'_>) {
        if let (Event::FlashFailed { .. }, Some(note)) = (event, &self.note) {
            // At once: from here on no write may be acknowledged until the note says so.
            note.disown_flash(self.shard);
        }
        if let Some(recording) = &mut self.recording {
            recording.see(event);
        }
        let (now, first, op, pages) = match *event {
            Event::Access { now, page, op, .. } => (now, page, op, 1),
            Event::Bypass { now, page, op, pages } => (now, page, op, pages),
            Event::Request { .. } | Event::FlashFailed { .. } | Event::Background { .. } => return,
        };
        let watching = self.shadows.as_mut().map(|watching| &mut watching.shadows);
        for shadows in watching.into_iter().chain(self.curves.iter_mut().flatten()) {
            for page in first..first + pages {
                shadows.access(page, op, now);
            }
        }
    }
}

fn lock<T>(shared: &Shared<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

const fn mode(mode: WriteMode) -> &'static str {
    match mode {
        WriteMode::Back => "back",
        WriteMode::Through => "through",
        WriteMode::Around => "around",
        WriteMode::ReadOnly => "read-only",
    }
}

fn found(counters: &Counters, op: Op) -> Found {
    let hits = |tier| match op {
        Op::Read => counters.policy.read_hits(tier),
        Op::Write => counters.policy.write_hits(tier),
    };
    Found {
        ram: hits(Tier::RAM),
        flash: hits(Tier::FLASH),
        disk: hits(Tier::DISK),
        bypass: counters.bypasses[op as usize],
    }
}

fn device(transfers: &Transfers, queue_depth: usize) -> DeviceStatus {
    let by_purpose = |bytes: &[u64]| {
        let names = PURPOSE_NAMES.iter().map(|&name| name.to_owned());
        names.zip(bytes.iter().copied()).collect()
    };
    DeviceStatus {
        read_bytes: by_purpose(&transfers.read_bytes),
        written_bytes: by_purpose(&transfers.written_bytes),
        queue_depth: queue_depth as u64,
        figures: Figures::read(TRANSFER_FIGURES, transfers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incident_is_reported_once() {
        let mut incident = Incident::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!incident.begins(0, at(0)));
        assert!(incident.begins(3, at(1)));
        assert!(!incident.begins(3, at(2)));
        assert!(!incident.begins(9, at(50)), "it goes on");
        assert!(!incident.begins(10, at(100)), "and on");
        assert!(incident.begins(11, at(160)), "another one, after a quiet minute");
    }
}
