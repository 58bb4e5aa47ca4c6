//! Workloads: which trace an experiment runs on.

use serde::Deserialize;
use thermocline_core::Nanos;
use thermocline_lab::LabError;
use thermocline_trace::generate::{Generator, Options, Pattern, Shift};
use thermocline_trace::{CompiledTrace, PageSize};

/// A trace of an experiment, and what its file says `about` it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workload<About> {
    /// Its name in the report.
    pub(crate) name: String,
    /// Source of the trace.
    pub(crate) trace: Source,
    /// Part of the trace that is taken.
    #[serde(default)]
    pub(crate) take: Take,
    /// `true` if it is the trace that the study is about, and no stand-in.
    #[serde(default)]
    pub(crate) is_original: bool,
    /// Description for this study's experiments.
    #[serde(default)]
    pub(crate) about: About,
}

/// A workload as a study's file has it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Wanted<'a> {
    /// Its name in the report.
    pub name: &'a str,
    /// Source of the trace.
    pub source: &'a Source,
    /// Part of the trace that is taken.
    pub take: &'a Take,
    /// `true` if it is the trace that the study is about, and no stand-in.
    pub is_original: bool,
}

/// Part of a trace's requests that is taken; all by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Take {
    /// For a recording: classes of files whose requests are taken.
    pub only: Vec<String>,
    /// Requests to these volumes only, such as the disks of a server.
    pub volumes: Vec<String>,
    /// The first requests only.
    pub first_requests: Option<u64>,
}

/// Source of a trace.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Files of a folder, by one of these names; the first that is found.
    Files(Vec<Named>),
    /// The trace that comes with the program.
    Bundled,
    /// Made on the spot.
    Zipf(Zipf),
}

/// The name of a trace's files. Case does not matter.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Named {
    /// The one file whose name begins with this and a dot.
    One(String),
    /// The files that one trace is spread over, one after the other.
    Many {
        /// Patterns of their names, in which `*` stands for any text. The files come in the order of
        /// the patterns, and those of one pattern in the order of the numbers in their names.
        parts: Vec<String>,
        /// Number of files of the whole trace, if it is known.
        count: Option<usize>,
    },
}

/// Requests for scattered pages by a Zipf distribution.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zipf {
    /// Skew of the distribution.
    pub alpha: f64,
    /// Pages to draw from.
    pub pages: u64,
    /// Number of requests.
    pub requests: u64,
    /// The share of them that write.
    pub write_share: f64,
    /// Time from one request to the next, in microseconds.
    pub interval_us: u64,
    /// Requests between two moves of the hot set; it stays if not given.
    #[serde(default)]
    pub shift_every: Option<u64>,
    /// Pages that each move displaces from the hot set.
    #[serde(default)]
    pub shift_pages: u64,
    /// The seed.
    pub seed: u64,
}

impl Zipf {
    /// Make the trace.
    ///
    /// # Errors
    /// If options are outside their ranges.
    pub fn trace(&self, page_size: PageSize) -> Result<CompiledTrace, LabError> {
        let options = Options {
            pattern: Pattern::Zipf { alpha: self.alpha },
            requests: self.requests,
            pages: self.pages,
            write_share: self.write_share,
            interarrival: Nanos(self.interval_us * 1000),
            scatter: true,
            shift: self
                .shift_every
                .map(|every_requests| Shift { every_requests, pages: self.shift_pages }),
            seed: self.seed,
        };
        let mut generator = Generator::new(options)?;
        Ok(CompiledTrace::compile(&mut generator, page_size)?)
    }
}
