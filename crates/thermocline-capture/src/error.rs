//! Errors of another program's recording.

use std::path::PathBuf;

use thermocline_trace::TraceError;

/// Reason why a recording cannot be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The recording cannot be read, or its conversion cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// More lines or records than allowed do not follow the recorder's format.
    #[error(
        "{}: {lines} lines were not understood, {limit} are allowed (max_unknown):{shown}",
        path.display()
    )]
    NotUnderstood {
        /// The recording.
        path: PathBuf,
        /// Number of such lines.
        lines: u64,
        /// Limit by [`CaptureOptions::max_unknown`](crate::CaptureOptions::max_unknown).
        limit: u64,
        /// The first of them, one per line.
        shown: String,
    },
    /// A pattern for file names is malformed.
    #[error("{reason}")]
    Pattern {
        /// Fault.
        reason: String,
    },
    /// No converter has this name.
    #[error(
        "unknown source of a recording '{name}'; expected one of: strace, bpftrace, blkparse, \
         blktrace, fio-iolog"
    )]
    NoSuchSource {
        /// The name given.
        name: String,
    },
}
