//! Comparison of hot-data identifiers on a trace, write by write, with a baseline.
//!
//! * Source: Park and Du, MSST 2011, section IV-B: hot ratio, number of different identifications,
//!   false identification rate. The paper counts false hot and false cold together; here they are
//!   apart.

use std::str::FromStr;
use std::time::Instant;

use serde::Serialize;
use thermocline_core::config::Values;
use thermocline_core::hotness::registry::IdentifierEntry;
use thermocline_core::{Heat, Identifier, Op, PageId};
use thermocline_trace::CompiledTrace;

use crate::watch::CHUNK_ACCESSES;
use crate::{LabError, Watch, summary};

/// About how many intervals a run is cut into if nothing else is asked for.
const INTERVALS: u64 = 50;
/// Number of timings of an identifier's decay, and number of decays in each.
const DECAY_RUNS: u32 = 5;
const DECAYS_PER_RUN: u32 = 64;

/// Accesses that an identifier sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counted {
    /// Writes, as in the papers: reads do not wear flash.
    #[default]
    Writes,
    /// Reads.
    Reads,
    /// Both.
    ReadsAndWrites,
}

/// An identifier with its parameters.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Label in results: several may be one identifier with different parameters.
    pub label: String,
    /// The identifier.
    pub entry: &'static IdentifierEntry,
    /// Its parameters, all of them.
    pub values: Values,
}

/// The accesses that identifiers are told, in order.
#[derive(Clone, Debug)]
pub struct Stream {
    path: String,
    counted: Counted,
    footprint_pages: u32,
    pages: Vec<PageId>,
}

/// Results of a run. The JSON form of its fields has a stable schema.
#[derive(Clone, Debug, Serialize)]
pub struct Identification {
    /// The trace.
    pub trace: IdentifiedTrace,
    /// The identifier that the others are compared with.
    pub baseline: String,
    /// Accesses of each interval of `over_time`; the last may have fewer.
    pub interval_writes: u64,
    /// Distinct pages of each interval.
    pub unique_pages: Vec<u64>,
    /// The baseline and the others.
    pub identifiers: Vec<IdentifierSummary>,
}

/// The trace of a run.
#[derive(Clone, Debug, Serialize)]
pub struct IdentifiedTrace {
    /// Path of the trace.
    pub path: String,
    /// Page accesses that were counted: writes, unless `counted` says otherwise.
    pub writes: u64,
    /// Counted accesses: `writes`, `reads` or `reads,writes`.
    pub counted: &'static str,
    /// Distinct pages of the whole trace.
    pub footprint_pages: u64,
}

/// Verdicts of one identifier, summarised. Its JSON form has a stable schema.
#[derive(Clone, Debug)]
pub struct IdentifierSummary {
    /// Its name.
    pub name: String,
    /// Label in tables and charts.
    pub label: String,
    /// All its parameters.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// Accesses recorded.
    pub writes: u64,
    /// Number found hot.
    pub hot: u64,
    /// Number found hot that are cold to the baseline.
    pub false_hot: u64,
    /// Number found cold that are hot to the baseline.
    pub false_cold: u64,
    /// Its state in bits.
    pub memory_bits: u64,
    /// Wall-clock time to record one access and judge it, without the decays.
    pub check_ns: f64,
    /// Wall-clock time of one decay; `None` if it forgets with every access.
    pub decay_ns: Option<f64>,
    /// Accesses from one decay to the next.
    pub decay_writes: Option<u64>,
    /// The counts of each interval.
    pub over_time: Vec<Interval>,
}

/// The counts of one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// Accesses recorded.
    pub writes: u64,
    /// Number found hot.
    pub hot: u64,
    /// Number found hot that are cold to the baseline.
    pub false_hot: u64,
    /// Number found cold that are hot to the baseline.
    pub false_cold: u64,
}

/// Verdicts of one identifier on every access of a [`Stream`], and its run time.
#[derive(Debug)]
pub struct Recording {
    heats: Vec<Heat>,
    memory_bits: u64,
    /// Nanoseconds per access, without those of the decays.
    pub check_ns: f64,
    /// Nanoseconds per decay; `None` if the identifier forgets with every access.
    pub decay_ns: Option<f64>,
    /// Accesses from one decay to the next.
    pub decay_writes: Option<u64>,
}

impl Candidate {
    /// Create an identifier with the defaults, and those parameters given by name and text in their
    /// place.
    ///
    /// # Errors
    /// If parameters are not the identifier's, or contradict each other.
    pub fn new(
        label: &str,
        entry: &'static IdentifierEntry,
        given: &[(String, String)],
    ) -> Result<Self, LabError> {
        Self::with_values(label, entry, entry.values(given)?)
    }

    /// Create an identifier with these values of its parameters.
    ///
    /// # Errors
    /// If values contradict each other.
    pub fn with_values(
        label: &str,
        entry: &'static IdentifierEntry,
        values: Values,
    ) -> Result<Self, LabError> {
        // Values that cannot be built are refused before a trace is read.
        entry.build(1, &values)?;
        Ok(Self { label: label.into(), entry, values })
    }
}

impl Counted {
    /// Return the accesses in words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Writes => "writes",
            Self::Reads => "reads",
            Self::ReadsAndWrites => "reads,writes",
        }
    }

    const fn counts(self, op: Op) -> bool {
        match self {
            Self::Writes => matches!(op, Op::Write),
            Self::Reads => matches!(op, Op::Read),
            Self::ReadsAndWrites => true,
        }
    }
}

impl FromStr for Counted {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        match text {
            "writes" => Ok(Self::Writes),
            "reads" => Ok(Self::Reads),
            "reads,writes" | "writes,reads" => Ok(Self::ReadsAndWrites),
            _ => Err(LabError::BadCounted { text: text.into() }),
        }
    }
}

impl Stream {
    /// Return the accesses of a trace that are counted.
    ///
    /// # Errors
    /// [`LabError::NothingCounted`] if there is none.
    pub fn of(trace: &CompiledTrace, counted: Counted) -> Result<Self, LabError> {
        let pages: Vec<PageId> = trace
            .accesses()
            .filter(|access| counted.counts(access.op))
            .map(|access| access.page)
            .collect();
        let path = trace.path().display().to_string();
        if pages.is_empty() {
            return Err(LabError::NothingCounted { path, counted: counted.describe().into() });
        }
        Ok(Self { path, counted, footprint_pages: trace.footprint_pages(), pages })
    }

    /// Return the number of accesses that are counted; at least 1.
    pub fn count(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Return the intervals used if none are asked for: about fifty, of a round number of accesses.
    pub fn interval_writes(&self) -> u64 {
        round_interval(self.count())
    }

    /// Count the distinct pages of each run of `interval_writes` accesses; the last run may be
    /// shorter.
    ///
    /// # Panics
    /// If `interval_writes` is 0.
    pub fn unique_pages(&self, interval_writes: u64) -> Vec<u64> {
        let mut last_seen = vec![u32::MAX; self.footprint_pages as usize];
        (0_u32..)
            .zip(self.intervals(interval_writes))
            .map(|(interval, pages)| {
                let is_new = |page: &&PageId| {
                    std::mem::replace(&mut last_seen[page.index()], interval) != interval
                };
                pages.iter().filter(is_new).count() as u64
            })
            .collect()
    }

    fn intervals(&self, interval_writes: u64) -> std::slice::Chunks<'_, PageId> {
        self.pages.chunks(chunk(interval_writes))
    }

    /// Have an identifier record all accesses.
    ///
    /// # Errors
    /// If parameters contradict each other, or [`LabError::Stopped`].
    pub fn record(&self, candidate: &Candidate, watch: &Watch) -> Result<Recording, LabError> {
        let mut identifier = candidate.entry.build(self.footprint_pages, &candidate.values)?;
        let mut heats = Vec::with_capacity(self.pages.len());
        let start = Instant::now();
        for pages in self.pages.chunks(CHUNK_ACCESSES) {
            watch.check()?;
            identifier.record_all(pages, &mut heats);
            watch.advance(pages.len());
        }
        let total_ns = start.elapsed().as_nanos() as f64;
        let decay_writes = identifier.decay_writes();
        let decay_ns = decay_writes.map(|_| time_decay(&mut *identifier));
        let decays = decay_writes.map_or(0.0, |writes| (self.count() / writes) as f64);
        let check_ns = (total_ns - decays * decay_ns.unwrap_or(0.0)) / self.count() as f64;
        let memory_bits = identifier.memory_bits();
        Ok(Recording { heats, memory_bits, check_ns, decay_ns, decay_writes })
    }
}

/// Return the length of intervals that cut so many accesses into about fifty, a round number.
pub fn round_interval(accesses: u64) -> u64 {
    let least = accesses.div_ceil(INTERVALS).max(1);
    let magnitude = 10_u64.pow(least.ilog10());
    let round = [1, 2, 5, 10].map(|digit| digit * magnitude);
    round.into_iter().find(|&round| round >= least).unwrap_or(least)
}

/// Have the baseline and other identifiers record the same accesses, one identifier after the
/// other, and compare their verdicts. The baseline is among the results, first unless the others
/// name it. `done` is called after each; `watch` counts the accesses of all, and can stop them.
///
/// # Errors
/// If parameters of an identifier contradict each other, or [`LabError::Stopped`].
pub fn identify(
    stream: &Stream,
    baseline: &Candidate,
    others: &[Candidate],
    interval_writes: Option<u64>,
    watch: &Watch,
    done: impl Fn(),
) -> Result<Identification, LabError> {
    let interval_writes = interval_writes.unwrap_or_else(|| stream.interval_writes()).max(1);
    let truth = stream.record(baseline, watch)?;
    done();
    let names_baseline = others.iter().any(|other| other.entry.name == baseline.entry.name);
    let mut identifiers = vec![];
    if !names_baseline {
        identifiers.push(summarise(baseline, &truth, &truth, interval_writes));
    }
    for other in others {
        if other.entry.name == baseline.entry.name {
            identifiers.push(summarise(baseline, &truth, &truth, interval_writes));
        } else {
            let recording = stream.record(other, watch)?;
            done();
            identifiers.push(summarise(other, &recording, &truth, interval_writes));
        }
    }
    Ok(Identification {
        trace: IdentifiedTrace {
            path: stream.path.clone(),
            writes: stream.count(),
            counted: stream.counted.describe(),
            footprint_pages: u64::from(stream.footprint_pages),
        },
        baseline: baseline.entry.name.into(),
        interval_writes,
        unique_pages: stream.unique_pages(interval_writes),
        identifiers,
    })
}

/// Compare what an identifier said with what the baseline said, `truth`, in intervals of
/// `interval_writes`. Both recordings are of the same stream.
pub fn summarise(
    candidate: &Candidate,
    recording: &Recording,
    truth: &Recording,
    interval_writes: u64,
) -> IdentifierSummary {
    let chunk = chunk(interval_writes);
    let over_time: Vec<Interval> = recording
        .heats
        .chunks(chunk)
        .zip(truth.heats.chunks(chunk))
        .map(|(said, true_heats)| Interval::of(said, true_heats))
        .collect();
    let all = over_time.iter().fold(Interval::default(), Interval::add);
    IdentifierSummary {
        name: candidate.entry.name.into(),
        label: candidate.label.clone(),
        parameters: summary::parameters(&candidate.values),
        writes: all.writes,
        hot: all.hot,
        false_hot: all.false_hot,
        false_cold: all.false_cold,
        memory_bits: recording.memory_bits,
        check_ns: recording.check_ns,
        decay_ns: recording.decay_ns,
        decay_writes: recording.decay_writes,
        over_time,
    }
}

impl IdentifierSummary {
    /// Return the number of accesses found hot, divided by all; from 0 to 1.
    pub fn hot_ratio(&self) -> f64 {
        self.hot as f64 / self.writes as f64
    }

    /// Return the number of accesses that the baseline judges differently, divided by all; from 0
    /// to 1.
    pub fn false_identification_rate(&self) -> f64 {
        (self.false_hot + self.false_cold) as f64 / self.writes as f64
    }
}

impl Interval {
    fn of(said: &[Heat], truth: &[Heat]) -> Self {
        let mut interval = Self { writes: said.len() as u64, ..Self::default() };
        for (said, truth) in said.iter().zip(truth) {
            let [is_hot, is_truly_hot] = [said, truth].map(|&heat| u64::from(heat == Heat::Hot));
            interval.hot += is_hot;
            interval.false_hot += is_hot & !is_truly_hot;
            interval.false_cold += is_truly_hot & !is_hot;
        }
        interval
    }

    fn add(self, other: &Self) -> Self {
        Self {
            writes: self.writes + other.writes,
            hot: self.hot + other.hot,
            false_hot: self.false_hot + other.false_hot,
            false_cold: self.false_cold + other.false_cold,
        }
    }

    /// Count how often the identifier and the baseline disagree.
    pub const fn different(&self) -> u64 {
        self.false_hot + self.false_cold
    }
}

/// Return the wall-clock time of one decay: the least of several runs of many.
fn time_decay(identifier: &mut dyn Identifier) -> f64 {
    let run = |_| {
        let start = Instant::now();
        for _ in 0..DECAYS_PER_RUN {
            identifier.decay();
        }
        start.elapsed().as_nanos() as f64 / f64::from(DECAYS_PER_RUN)
    };
    (0..DECAY_RUNS).map(run).fold(f64::INFINITY, f64::min)
}

/// Return a length of intervals in memory; longer than any trace if it does not fit.
fn chunk(interval_writes: u64) -> usize {
    usize::try_from(interval_writes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use thermocline_core::hotness::registry;
    use thermocline_trace::generate::{Generator, Options, Pattern};
    use thermocline_trace::{CompiledTrace, PageSize};

    use super::*;

    fn stream(write_share: f64, counted: Counted) -> Result<Stream, LabError> {
        let options = Options {
            pattern: Pattern::Zipf { alpha: 0.9 },
            requests: 30_000,
            pages: 4_000,
            write_share,
            ..Options::default()
        };
        let mut generator = Generator::new(options).unwrap();
        Stream::of(&CompiledTrace::compile(&mut generator, PageSize::DEFAULT).unwrap(), counted)
    }

    fn candidate(name: &str) -> Candidate {
        Candidate::new(name, registry::find(name).unwrap(), &[]).unwrap()
    }

    #[test]
    fn counts_of_intervals_add_up_and_the_baseline_is_never_wrong() {
        let stream = stream(0.5, Counted::Writes).unwrap();
        let others = ["mbf", "mhf"].map(candidate);
        let found =
            identify(&stream, &candidate("wdac"), &others, Some(1000), &Watch::default(), || ())
                .unwrap();
        let names: Vec<&str> = found.identifiers.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["wdac", "mbf", "mhf"]);
        for one in &found.identifiers {
            assert_eq!(one.writes, stream.count());
            assert_eq!(one.over_time.iter().map(|part| part.hot).sum::<u64>(), one.hot);
            let truth = &found.identifiers[0];
            assert_eq!(one.hot + one.false_cold, truth.hot + one.false_hot, "{}", one.name);
            assert_eq!(one.over_time.len(), found.unique_pages.len());
        }
        assert_eq!(found.identifiers[0].false_hot + found.identifiers[0].false_cold, 0);
        assert!(found.identifiers[1].false_identification_rate() > 0.0);
    }

    #[test]
    fn a_baseline_that_is_named_keeps_its_place() {
        let stream = stream(0.5, Counted::ReadsAndWrites).unwrap();
        let others = ["mbf", "wdac"].map(candidate);
        let found =
            identify(&stream, &candidate("wdac"), &others, None, &Watch::default(), || ()).unwrap();
        let names: Vec<&str> = found.identifiers.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["mbf", "wdac"]);
        assert_eq!(found.interval_writes, 1000, "30,000 accesses in about fifty round intervals");
    }

    #[test]
    fn unique_pages_are_counted_per_interval() {
        let found = stream(1.0, Counted::Writes).unwrap();
        assert_eq!(found.unique_pages(1).iter().sum::<u64>(), found.count());
        let whole = found.unique_pages(u64::MAX);
        assert_eq!(whole, [u64::from(found.footprint_pages)]);
    }

    #[test]
    fn a_trace_without_writes_is_refused() {
        let error = stream(0.0, Counted::Writes).unwrap_err().to_string();
        assert!(error.contains("no writes"), "{error}");
        assert!(stream(0.0, Counted::Reads).is_ok());
        assert!("none".parse::<Counted>().is_err());
    }
}
