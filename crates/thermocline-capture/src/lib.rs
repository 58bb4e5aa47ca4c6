//! Recordings that other programs made of a workload, turned into ours: requests to pages of files,
//! beside a table of the files.
//!
//! strace sees system calls, so the converter follows processes, descriptors and names to learn
//! which bytes of which file a call moved. bpftrace tells files and offsets itself; blktrace,
//! blkparse and fio know devices and files only. All end in the same three files, which appear
//! whole or not at all: `NAME.csv`, `NAME.files.csv`, `NAME.stats.json`.
//!
//! ```
//! use thermocline_capture::{CaptureOptions, Source, convert_text};
//!
//! let lines = "7 1.5 openat(AT_FDCWD, \"/a/x.db\", O_RDONLY) = 3\n\
//!              7 1.6 pread64(3, \"\"..., 8192, 4096) = 8192\n";
//! let folder = tempfile::tempdir()?;
//! let output = folder.path().join("x.csv");
//! let captured = convert_text(Source::Strace, "x.strace", lines, &output, &CaptureOptions::default())?;
//! assert_eq!((captured.requests, captured.read_pages, captured.files), (1, 2, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blktrace;
mod blocks;
mod bpftrace;
mod class;
mod collector;
mod counts;
mod error;
mod files;
mod fio_iolog;
mod live;
mod options;
mod progress;
mod source;
mod spool;
mod strace;

use std::path::{Path, PathBuf};

use thermocline_trace::TraceError;

use self::source::Recorded;

pub use bpftrace::BPFTRACE_SCRIPT;
pub use collector::Captured;
pub use counts::{CaptureCounts, UnknownLine};
pub use error::CaptureError;
pub use live::{BLOCK_SCRIPT, Heard, Listener, NotARequest};
pub use options::{CaptureOptions, FileFilter, Identity, Mmap, Source};
pub use progress::{Progress, Unwatched};
pub use strace::AttachedTask;

/// Converts the recording in the file `path` to the files of the name `output`.
///
/// # Errors
/// If it cannot be read, has more lines beyond understanding than are allowed, has no request to a
/// wanted file, or the output cannot be written.
pub fn convert(
    source: Source,
    path: impl Into<PathBuf>,
    output: &Path,
    options: &CaptureOptions,
    progress: &mut dyn Progress,
) -> Result<Captured, CaptureError> {
    let path = path.into();
    if std::fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
        let reason = "a recording is read twice, so it must be a regular file".into();
        return Err(TraceError::Content { path, reason }.into());
    }
    convert_recorded(source, &Recorded::File(path), output, options, progress)
}

/// Converts a recording in memory; `name` stands for it in messages.
///
/// # Errors
/// As for [`convert`].
pub fn convert_text(
    source: Source,
    name: impl Into<PathBuf>,
    text: impl Into<Vec<u8>>,
    output: &Path,
    options: &CaptureOptions,
) -> Result<Captured, CaptureError> {
    let recorded = Recorded::Text(name.into(), text.into());
    convert_recorded(source, &recorded, output, options, &mut Unwatched)
}

fn convert_recorded(
    source: Source,
    recorded: &Recorded,
    output: &Path,
    options: &CaptureOptions,
    progress: &mut dyn Progress,
) -> Result<Captured, CaptureError> {
    match source {
        Source::Strace => strace::convert(recorded, output, options, progress),
        Source::Bpftrace => bpftrace::convert(recorded, output, options, progress),
        Source::Blkparse => blocks::convert_text(recorded, output, options, progress),
        Source::Blktrace => blocks::convert_binary(recorded, output, options, progress),
        Source::FioIolog => fio_iolog::convert(recorded, output, options, progress),
    }
}
