//! Sweeps: traces by policies by sizes by parameters, on all processors, resumable.
//!
//! A [`Sweep`] is read from a TOML file and is a list of [`SweepPoint`]s in a fixed order. Each point
//! has a key: a hash of everything that its result depends on, the bytes of the trace among it. A
//! finished point is written to a part beside the output at once, and read from there, or from the
//! output, when the sweep is run again; so a sweep that is killed goes on where it was, and a change of
//! the file or of a trace runs what it concerns. The output is in the order of the points.

mod file;
mod options;
pub(crate) mod places;
mod results;
mod run;
mod values;

use std::error::Error;
use std::iter;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use thermocline_core::WriteMiss;
use thermocline_trace::{
    CompiledTrace, Mapping, Objects, ReadOptions, Reader, TimeUnit, TraceError, VolumeOf,
    recording_files,
};

use crate::summary::parameters;
use crate::{Configuration, LabError, RunOptions, Summary, TierConfiguration, Watch, run};

pub(crate) use file::{Classes, Described, ObjectsWord, UnitWord, VolumesWord};
pub(crate) use results::labels;
pub use results::{Row, RowTier};
pub use run::{Outcome, Progress, Report, Running, check_output};

/// Traces, and the configurations that each is replayed with.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The traces, in the order of the file.
    pub traces: Vec<TraceSource>,
    /// The points: by trace, then by policy, parameters and sizes.
    pub points: Vec<SweepPoint>,
    /// Options of the runs.
    pub options: RunOptions,
}

/// A trace, and how it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSource {
    /// Name in the file.
    pub name: String,
    /// Line of the file and key by which a sweep names it; `None` outside sweeps.
    pub place: Option<String>,
    /// Path.
    pub path: PathBuf,
    /// Bytes per page; the trace's own or 4 KiB if none.
    pub page_size: Option<thermocline_trace::PageSize>,
    /// Format; `None` to detect it from the content.
    pub format: Option<thermocline_trace::FormatName>,
    /// The unit of time of formats that leave it open.
    pub time_unit: Option<TimeUnit>,
    /// `true` if a truncated file is taken for what it holds.
    pub allow_truncated: bool,
    /// Classes of files whose requests are taken from a recording; all if empty.
    pub only_classes: Vec<String>,
    /// Rule by which a recording's volumes are formed.
    pub volume_of: VolumeOf,
    /// Rule by which objects with sizes get pages.
    pub objects: Objects,
    /// Meaning of its columns, if it is of no known format.
    pub columns: Option<Arc<Mapping>>,
}

/// One run of a sweep.
#[derive(Clone, Debug)]
pub struct SweepPoint {
    /// Index of the trace.
    pub trace: usize,
    /// Configuration with which it is replayed.
    pub configuration: Configuration,
}

impl TraceSource {
    /// Reads and compiles the trace, unless the watch stops it. Two threads are of use, no more.
    ///
    /// # Errors
    /// If the file is invalid, with the place: [`LabError::BadTrace`] if it is of a sweep, else
    /// [`LabError::Trace`]; or [`LabError::Stopped`].
    pub fn open(&self, watch: &Watch, threads: usize) -> Result<CompiledTrace, LabError> {
        self.read(watch, threads).map_err(|error| {
            if let LabError::Trace(error) = error { self.bad(error) } else { error }
        })
    }

    fn read(&self, watch: &Watch, threads: usize) -> Result<CompiledTrace, LabError> {
        if CompiledTrace::is_saved(&self.path) {
            let is_as_it_is = self.page_size.is_none()
                && self.format.is_none()
                && self.only_classes.is_empty()
                && self.volume_of == VolumeOf::All
                && self.columns.is_none();
            if !is_as_it_is {
                let path = self.path.clone();
                let reason = "a compiled trace: its page size and format are fixed, and it has no file table";
                return Err(TraceError::Content { path, reason: reason.into() }.into());
            }
            return Ok(CompiledTrace::open(&self.path)?);
        }
        let options = ReadOptions {
            format: self.format,
            time_unit: self.time_unit,
            allow_truncated: self.allow_truncated,
            only_classes: self.only_classes.clone(),
            volume_of: self.volume_of,
            objects: self.objects,
            columns: self.columns.clone(),
            ..ReadOptions::default()
        };
        let reader = Reader::open(&self.path, &options)?;
        let own = reader.page_size().unwrap_or(thermocline_trace::PageSize::DEFAULT);
        watch.compile(reader, self.page_size.unwrap_or(own), threads)
    }

    /// Reads and compiles the trace as [`Self::open`] does, if its file has that SHA-256.
    ///
    /// # Errors
    /// As for [`Self::open`], or another file.
    pub fn open_verified(
        &self,
        sha256: &str,
        watch: &Watch,
        threads: usize,
    ) -> Result<CompiledTrace, LabError> {
        let found = self.sha256()?;
        if found != sha256 {
            let reason =
                format!("its SHA-256 is {found}, and {sha256} is expected: it is another file");
            return Err(LabError::file(&self.path, reason));
        }
        self.open(watch, threads)
    }

    /// Return the SHA-256 of the file, in hexadecimal digits; of a recording, that of its files,
    /// one after the other.
    ///
    /// # Errors
    /// If one cannot be read, as [`Self::open`].
    pub fn sha256(&self) -> Result<String, LabError> {
        let mut hash = HashWriter(Sha256::new());
        for path in recording_files(&self.path) {
            let failed = |action| {
                let path = path.clone();
                move |source| self.bad(TraceError::Io { path, action, source })
            };
            let mut file = std::fs::File::open(&path).map_err(failed("open"))?;
            std::io::copy(&mut file, &mut hash).map_err(failed("read"))?;
        }
        Ok(hex(&hash.0.finalize()))
    }

    /// Return all that its accesses depend on: its bytes, and how they are read.
    pub(crate) fn identity(&self, sha256: &str) -> Value {
        json!([
            sha256,
            self.page_size.map(thermocline_trace::PageSize::bytes),
            format!("{:?} {:?} {}", self.format, self.time_unit, self.allow_truncated),
            self.only_classes,
            format!("{:?}", self.volume_of),
            format!("{:?} {:?}", self.objects, self.columns),
        ])
    }

    /// Create the error of the trace; in a sweep, with its place and the key that helps.
    pub(crate) fn bad(&self, error: TraceError) -> LabError {
        let Some(place) = self.place.clone() else { return error.into() };
        let causes = iter::successors(Some(&error as &dyn Error), |&error| error.source());
        let mut reason = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        if let Some(remedy) = error.remedy(|key| format!("the key `{key}`")) {
            reason = format!("{reason}; {remedy}");
        }
        LabError::BadTrace { place, reason }
    }
}

/// Writer that hashes its input.
pub(crate) struct HashWriter(pub(crate) Sha256);

impl std::io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl SweepPoint {
    /// Return a hash of everything that the result depends on: 32 hexadecimal digits.
    pub fn key(&self, source: &TraceSource, trace_sha256: &str, options: RunOptions) -> String {
        // Taken apart, so that no field is forgotten. A sweep has one client.
        let Configuration {
            policy,
            values,
            tiers,
            disk,
            write_miss,
            admission,
            latencies_ms,
            prices,
            timing,
            clients: _,
        } = &self.configuration;
        let tiers = tiers.iter().map(|tier| {
            let cost = tier.device.page_cost();
            json!([tier.name, tier.size.to_string(), tier.device.name, cost.read_ms, cost.write_ms])
        });
        let admission =
            admission.identifier().map(|(entry, values)| (entry.name, parameters(values)));
        let mut identity = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "trace": source.identity(trace_sha256),
            "policy": policy.name,
            "parameters": parameters(values),
            "tiers": tiers.collect::<Vec<_>>(),
            "disk": json!([disk.name, disk.read_ms, disk.write_ms]),
            "write_miss": *write_miss == WriteMiss::Fetch,
            "admission": admission,
            "latencies_ms": latencies_ms,
            "prices": format!("{prices:?}"),
            "timing": format!("{timing:?}"),
            "options": format!("{options:?}"),
        });
        if let Some(of_caller) = policy.identity() {
            identity["identity"] = of_caller.into();
        }
        hex(&Sha256::digest(identity.to_string()))[..32].to_owned()
    }

    /// Runs the point on its trace; `key` and `trace_sha256` are noted in the result.
    ///
    /// # Errors
    /// [`LabError::BadPoint`] that names the point, for what is an error of [`run()`].
    pub fn run(
        &self,
        trace: &CompiledTrace,
        options: RunOptions,
        source: &TraceSource,
        [key, trace_sha256]: [&str; 2],
        watch: &Watch,
    ) -> Result<Row, LabError> {
        let summary: Summary =
            run(trace, &self.configuration, options, watch).map_err(|error| {
                if matches!(error, LabError::Stopped) {
                    return error;
                }
                LabError::BadPoint { point: self.describe(source), source: Box::new(error) }
            })?;
        Ok(Row::of(&summary, [key, trace_sha256, &source.name]))
    }

    /// Return its policy, sizes and trace in words.
    pub fn describe(&self, source: &TraceSource) -> String {
        let size = |tier: &TierConfiguration| format!("{}={}", tier.name, tier.size);
        let sizes: Vec<String> = self.configuration.tiers.iter().map(size).collect();
        let (policy, trace) = (&self.configuration.policy.name, &source.name);
        format!("`{policy}` with {} on `{trace}`", sizes.join(", "))
    }
}

/// Return the bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
