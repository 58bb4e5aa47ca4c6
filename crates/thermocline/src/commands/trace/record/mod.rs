//! `thermocline trace record`: a command, or processes that run, under a recorder.

mod attach;
pub(crate) mod bpftrace;
pub(crate) mod processes;
mod strace;
pub(crate) mod watch;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::NamedTempFile;
use thermocline_capture::{CaptureOptions, Source};
use thermocline_trace::atomic::temporary;

use self::watch::Signals;
use super::capture;
use crate::arguments::{RecordOptions, Recorder};
use crate::output;

/// Accesses that no recorder of system calls sees.
const UNSEEN: &str = "accesses to mapped memory, requests by io_uring and libaio, the kernel's own read-ahead and write-back";

/// Command or processes to record.
#[derive(Debug)]
enum Target<'a> {
    /// A command, until it ends.
    Command(&'a [OsString]),
    /// Processes and what they begin, until they end or the recorder is interrupted.
    Processes(&'a [u32]),
}

/// A recorder of which all is known that must be before it begins.
#[derive(Debug)]
enum Ready {
    Strace(strace::Mode),
    Bpftrace,
}

/// Runs the command; the status is that of the recorded one.
pub(super) fn record(options: &RecordOptions) -> Result<(String, u8)> {
    let page_size = Some(options.page_size.as_str());
    // Processes that run are in folders of their own.
    let is_command = options.attach.is_empty();
    let folder = is_command.then(|| std::env::current_dir().ok()).flatten();
    let capture_options = CaptureOptions {
        folder: folder.map(|folder| bytes(folder.as_os_str())),
        ..capture::capture_options(&options.capture, page_size, None)?
    };
    let target = target(options)?;
    for path in options.keep_raw.iter().chain([&options.output]) {
        temporary(path)?;
    }
    let recorder = pick(options.with)?;
    let ready = match recorder {
        Recorder::Strace => Ready::Strace(strace::mode()?),
        Recorder::Bpftrace => Ready::Bpftrace,
    };
    // A signal ends this process until here, when there is no file that it would leave.
    let signals = Signals::new()?;
    let raw = raw_file(options)?;
    let status = match ready {
        Ready::Strace(mode) => strace::record(&target, mode, raw.path(), &signals)?,
        Ready::Bpftrace => bpftrace::record(&target, raw.path(), &signals)?,
    };
    let source = source(recorder);
    let kept = options.keep_raw.as_ref().map(|path| keep(&raw, path).map(|()| path));
    kept.transpose()?;
    let captured = match capture::convert(source, raw.path(), &options.output, &capture_options) {
        Ok(captured) => captured,
        Err(error) => return Err(with_raw(error, raw, options, source)),
    };
    let text = if options.json {
        capture::json(&captured)?
    } else {
        output::note(capture::sentence(&captured).trim_end());
        String::new()
    };
    Ok((text, status.map_or(0, exit_code)))
}

/// Return the target of the recording, as far as it exists.
fn target(options: &RecordOptions) -> Result<Target<'_>> {
    if options.attach.is_empty() {
        processes::find_program(&options.command[0])?;
        return Ok(Target::Command(&options.command));
    }
    processes::check(&options.attach)?;
    Ok(Target::Processes(&options.attach))
}

/// Says how many processes are recorded that were not named.
fn note_descendants(count: usize) {
    match count {
        0 => {}
        1 => output::note("note: 1 descendant is recorded too"),
        _ => output::note(&format!("note: {count} descendants are recorded too")),
    }
}

/// Return the recorder that is wanted, or the better one that is there; says which, and what it
/// misses.
fn pick(wanted: Option<Recorder>) -> Result<Recorder> {
    let mut reason = String::new();
    let recorder = match wanted {
        Some(recorder) => check(recorder).map(|()| recorder)?,
        None => match check(Recorder::Bpftrace) {
            Ok(()) => Recorder::Bpftrace,
            Err(no_bpftrace) => {
                if let Err(no_strace) = check(Recorder::Strace) {
                    bail!("nothing can record: {no_strace:#}; {no_bpftrace:#}");
                }
                reason = format!(", as {no_bpftrace:#}");
                Recorder::Strace
            }
        },
    };
    let name = source(recorder).name();
    output::note(&format!("recording with {name}{reason}; it does not see {UNSEEN}"));
    Ok(recorder)
}

/// Check that a recorder is there, and may be used.
fn check(recorder: Recorder) -> Result<()> {
    match recorder {
        Recorder::Strace => strace::check(),
        Recorder::Bpftrace => bpftrace::check(),
    }
}

/// Return the source of a recorder's recordings.
const fn source(recorder: Recorder) -> Source {
    match recorder {
        Recorder::Strace => Source::Strace,
        Recorder::Bpftrace => Source::Bpftrace,
    }
}

/// Create the file of the recorder: in the folder where it may stay.
fn raw_file(options: &RecordOptions) -> Result<NamedTempFile> {
    let place = options.keep_raw.as_ref().unwrap_or(&options.output);
    let folder = match place.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    tempfile::Builder::new()
        .prefix(".thermocline-raw-")
        .tempfile_in(folder)
        .with_context(|| format!("cannot write `{}`", place.display()))
}

/// Keeps the raw recording under another name.
fn keep(raw: &NamedTempFile, path: &Path) -> Result<()> {
    let context = || format!("cannot keep the raw recording as `{}`", path.display());
    let folder = raw.path().parent().unwrap_or(Path::new("."));
    let copy = tempfile::Builder::new().tempfile_in(folder).with_context(context)?;
    // A second name costs nothing; a file system without such gets a copy.
    std::fs::remove_file(copy.path()).with_context(context)?;
    std::fs::hard_link(raw.path(), copy.path())
        .or_else(|_| std::fs::copy(raw.path(), copy.path()).map(drop))
        .with_context(context)?;
    copy.persist(path).with_context(context)?;
    Ok(())
}

/// Keep a recording that cannot be converted: it may have taken hours.
fn with_raw(
    error: anyhow::Error,
    raw: NamedTempFile,
    options: &RecordOptions,
    source: Source,
) -> anyhow::Error {
    if options.keep_raw.is_some() {
        return error;
    }
    let mut name = options.output.as_os_str().to_owned();
    name.push(".");
    name.push(source.name());
    let path = PathBuf::from(name);
    match raw.persist(&path) {
        Ok(_) => error.context(format!(
            "the raw recording is kept as `{0}`; `thermocline trace convert --from {1} {0} -o {2}` converts it",
            path.display(),
            source.name(),
            options.output.display()
        )),
        Err(_) => error,
    }
}

/// Return the status of a command as shells tell it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn bytes(text: &std::ffi::OsStr) -> Vec<u8> {
    text.as_encoded_bytes().to_vec()
}

/// Check that a program is there, with the package to install if not.
pub(crate) fn installed(program: &str) -> Result<()> {
    ensure!(
        processes::find_program(program.as_ref()).is_ok(),
        "{program} is not installed (install the package `{program}`)"
    );
    Ok(())
}
