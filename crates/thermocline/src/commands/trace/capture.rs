//! Recordings of other programs, converted to ours.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use thermocline_capture::{
    self as capture, CaptureCounts, CaptureError, CaptureOptions, Captured, FileFilter, Progress,
    Source,
};
use thermocline_trace::PageSize;

use crate::arguments::{CaptureArguments, ConvertOptions, Identity, Mmap};
use crate::output;

/// Run `trace convert --from`.
pub(super) fn convert_recording(source: &str, options: &ConvertOptions) -> Result<String> {
    let source: Source = source.parse()?;
    let page_size = options.reading.page_size.as_deref();
    let folder = options.cwd.as_deref();
    let capture = capture_options(&options.capture, page_size, folder)?;
    let captured = convert(source, &options.trace, &options.output, &capture)?;
    if options.json {
        return json(&captured);
    }
    Ok(sentence(&captured))
}

/// Refuse the options of a conversion where there is none.
pub(super) fn refuse(options: &CaptureArguments) -> Result<()> {
    let CaptureArguments { include, exclude, identity, mmap, max_unknown } = options;
    let is_given = !include.is_empty()
        || !exclude.is_empty()
        || identity.is_some()
        || mmap.is_some()
        || max_unknown.is_some();
    ensure!(
        !is_given,
        "--include, --exclude, --identity, --mmap and --max-unknown go with --from, which names the program that made the recording"
    );
    Ok(())
}

/// Return the options of a conversion from the command line.
pub(super) fn capture_options(
    options: &CaptureArguments,
    page_size: Option<&str>,
    folder: Option<&Path>,
) -> Result<CaptureOptions> {
    Ok(CaptureOptions {
        page_size: page_size.map_or(Ok(PageSize::DEFAULT), str::parse)?,
        files: FileFilter::new(&options.include, &options.exclude)?,
        identity: match options.identity.unwrap_or_default() {
            Identity::Inode => capture::Identity::Inode,
            Identity::Path => capture::Identity::Path,
        },
        mmap: match options.mmap.unwrap_or_default() {
            Mmap::Ignore => capture::Mmap::Ignore,
            Mmap::Map => capture::Mmap::Map,
        },
        max_unknown: options.max_unknown.unwrap_or(0),
        folder: folder.map(|folder| folder.as_os_str().as_encoded_bytes().to_vec()),
    })
}

/// Converts a recording, with a progress bar on a terminal, and notes what it does not hold.
pub(super) fn convert(
    source: Source,
    path: &Path,
    target: &Path,
    options: &CaptureOptions,
) -> Result<Captured> {
    let mut bar = Bar::new()?;
    let captured = capture::convert(source, path, target, options, &mut bar);
    bar.0.finish_and_clear();
    let captured = captured.map_err(|error| {
        let is_strict = matches!(error, CaptureError::NotUnderstood { .. });
        let error = anyhow::Error::new(error);
        if is_strict { error.context("--max-unknown allows lines like these") } else { error }
    })?;
    for line in &captured.unknown {
        output::note(&format!("not understood: {line}"));
    }
    for note in notes(&captured.counts) {
        output::note(&format!("note: {note}"));
    }
    Ok(captured)
}

struct Bar(ProgressBar);

impl Bar {
    fn new() -> Result<Self> {
        let bar = ProgressBar::no_length();
        let style = "{bar:30} {bytes}/{total_bytes} read, {bytes_per_sec}";
        bar.set_style(ProgressStyle::with_template(style).context("the template is well-formed")?);
        Ok(Self(bar))
    }
}

impl Progress for Bar {
    fn at(&mut self, bytes: u64, of_bytes: Option<u64>) {
        if let Some(of_bytes) = of_bytes {
            self.0.set_length(of_bytes);
        }
        self.0.set_position(bytes);
    }
}

/// Describe the parts that a recording lacks, or has guessed.
fn notes(counts: &CaptureCounts) -> Vec<String> {
    let mapped = output::bytes(counts.mmap_bytes);
    let all = [
        (counts.unknown, "lines were not understood, and left out".to_owned()),
        (counts.lost, "events were lost by the recorder".into()),
        (
            counts.mmaps,
            format!(
                "mappings of files ({mapped}) whose accesses leave no line; --mmap map takes them whole"
            ),
        ),
        (counts.io_uring_calls, "calls of io_uring, whose requests leave no line".into()),
        (counts.libaio_calls, "calls of libaio, whose requests leave no line".into()),
        (
            counts.append_assumed,
            "appends to files whose size is not told; the least that it can be was taken".into(),
        ),
        (
            counts.position_assumed,
            "requests at a position that is not told; the beginning of the file was taken".into(),
        ),
        (
            counts.unknown_descriptor,
            "reads and writes of descriptors of which nothing is known; -y would tell".into(),
        ),
        (counts.never_resumed, "calls whose end is not recorded".into()),
        (counts.out_of_order, "requests stand behind later ones".into()),
    ];
    let some = all.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, text)| format!("{} {text}", output::count(count))).collect()
}

/// Report a conversion as JSON.
pub(super) fn json(captured: &Captured) -> Result<String> {
    #[derive(Serialize)]
    struct Json<'a> {
        path: String,
        requests: u64,
        read_pages: u64,
        write_pages: u64,
        files: u64,
        counts: &'a CaptureCounts,
    }
    let Captured { requests, read_pages, write_pages, files, counts, .. } = captured;
    output::json(&Json {
        path: captured.path.display().to_string(),
        requests: *requests,
        read_pages: *read_pages,
        write_pages: *write_pages,
        files: *files,
        counts,
    })
}

/// Report a conversion for people.
pub(super) fn sentence(captured: &Captured) -> String {
    format!(
        "{}: {} requests, {} pages read and {} written, of {} files\n",
        captured.path.display(),
        output::count(captured.requests),
        output::count(captured.read_pages),
        output::count(captured.write_pages),
        output::count(captured.files)
    )
}
