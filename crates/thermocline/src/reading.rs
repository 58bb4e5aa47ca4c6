//! Opening a trace as the command line describes it.

use std::fs::File;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use thermocline_core::Clients;
use thermocline_lab::spec::ColumnsSpec;
use thermocline_lab::{
    Configuration, LabError, RunOptions, Summary, Watch, can_run_while_compiling,
    run_while_compiling,
};
use thermocline_papers::Take;
use thermocline_trace::{
    AddressSpace, CompiledTrace, FileTable, Mapping, Objects, OnlyVolumes, PageSize, Part,
    PartOptions, ReadCounts, ReadOptions, Reader, Request, Requests, SampledTrace, Sampling,
    Series, TraceError, VolumeOf, text_file,
};

use crate::arguments::{
    ClientOptions, ColumnOptions, ObjectsAre, PartOfTrace, Reading, Split, TencentUnit, TimeUnit,
    VolumesOf,
};
use crate::output;

/// Name of the standard input in place of a file.
const STANDARD_INPUT: &str = "-";

/// Reads and compiles a trace, with a progress bar on a terminal.
pub(crate) fn open(path: &Path, reading: &Reading) -> Result<CompiledTrace> {
    Ok(open_with_files(path, reading)?.0)
}

/// Reads and compiles what is taken of a trace in one or several files. `page_size` says the size of
/// pages for what the trace itself states.
pub(crate) fn open_taken<E: Into<anyhow::Error>>(
    paths: Vec<PathBuf>,
    take: &Take,
    page_size: impl FnOnce(Option<PageSize>) -> Result<PageSize, E>,
) -> Result<CompiledTrace> {
    if let Some(saved) = paths.iter().find(|path| CompiledTrace::is_saved(path)) {
        ensure!(
            paths.len() == 1 && take.only.is_empty() && take.volumes.is_empty(),
            "`{}` is a compiled trace, and some of its classes or volumes, or more than it, are wanted: give the trace that it was made from",
            saved.display()
        );
        let trace = CompiledTrace::open(saved)?;
        return Ok(match take.first_requests {
            Some(limit) => trace.part(PartOptions { limit, ..PartOptions::default() })?,
            None => trace,
        });
    }
    let options = ReadOptions { only_classes: take.only.clone(), ..ReadOptions::default() };
    let series = Series::open(paths, options)?;
    let page_size = page_size(series.page_size()).map_err(Into::into)?;
    let volumes = OnlyVolumes::new(series, take.volumes.clone());
    let limit = take.first_requests.unwrap_or(u64::MAX);
    let mut part = Part::new(volumes, PartOptions { limit, ..PartOptions::default() });
    Ok(CompiledTrace::compile_reading_ahead(&mut part, page_size)?)
}

/// Reads and compiles a trace; a recording comes with its file table.
pub(crate) fn open_with_files(
    path: &Path,
    reading: &Reading,
) -> Result<(CompiledTrace, Option<Arc<FileTable>>)> {
    if let Some(saved) = open_saved(path, reading)? {
        return Ok((part_of_saved(saved, reading)?, None));
    }
    let reader = open_reader(path, reading)?;
    let files = reader.file_table().cloned();
    let page_size = page_size(reading, &reader)?;
    let mut part = part(WithProgress::new(reader)?, reading);
    let trace = CompiledTrace::compile_reading_ahead(&mut part, page_size)?;
    part.into_source().finish();
    Ok((trace, files))
}

/// Opens a trace that is compiled already, if it is one.
fn open_saved(path: &Path, reading: &Reading) -> Result<Option<CompiledTrace>> {
    if !CompiledTrace::is_saved(path) {
        return Ok(None);
    }
    ensure!(
        reading.page_size.is_none()
            && reading.format.is_none()
            && reading.only.is_empty()
            && reading.volumes.is_none()
            && reading.columns.columns.is_none(),
        "`{}` is a compiled trace: its page size and format are fixed, and it has no file table",
        path.display()
    );
    check_times(reading)?;
    Ok(Some(CompiledTrace::open(path)?))
}

/// Return the requests of a compiled trace that are wanted.
fn part_of_saved(trace: CompiledTrace, reading: &Reading) -> Result<CompiledTrace> {
    if reading.part == PartOfTrace::default() {
        return Ok(trace);
    }
    Ok(trace.part(part_options(reading))?)
}

/// Refuses a trace that cannot be opened, before it is read.
///
/// The standard input is not checked: it can be read only once.
pub(crate) fn check(path: &Path, reading: &Reading) -> Result<()> {
    if path == Path::new(STANDARD_INPUT) || open_saved(path, reading)?.is_some() {
        return Ok(());
    }
    page_size(reading, &open_reader(path, reading)?).map(drop)
}

/// Observer, from another thread, of the reading of a trace.
#[derive(Debug)]
pub(crate) struct Onlooker {
    /// Stops the reading.
    pub(crate) watch: Watch,
    /// The bytes that were read, of all if their number is known; it is never shown.
    pub(crate) bytes: ProgressBar,
}

impl Onlooker {
    pub(crate) fn new() -> Self {
        Self { watch: Watch::default(), bytes: ProgressBar::hidden() }
    }

    /// Reads and compiles the trace of a path as [`open_with_files`] does, and tells how many more accesses
    /// are compiled.
    pub(crate) fn open(
        &self,
        path: &Path,
        reading: &Reading,
        tell: impl FnMut(usize),
    ) -> Result<(CompiledTrace, Option<Arc<FileTable>>)> {
        match open_saved(path, reading)? {
            Some(saved) => Ok((part_of_saved(saved, reading)?, None)),
            None => self.compile(open_reader(path, reading)?, reading, tell),
        }
    }

    /// Open a file that has no name; `name` stands for it in messages.
    pub(crate) fn open_unnamed(
        &self,
        name: &str,
        file: File,
        reading: &Reading,
        tell: impl FnMut(usize),
    ) -> Result<(CompiledTrace, Option<Arc<FileTable>>)> {
        self.bytes.set_length(file.metadata()?.len());
        let reader = Reader::from_read(name, file, &read_options(reading)?)?;
        self.compile(reader, reading, tell)
    }

    fn compile(
        &self,
        reader: Reader,
        reading: &Reading,
        tell: impl FnMut(usize),
    ) -> Result<(CompiledTrace, Option<Arc<FileTable>>)> {
        let files = reader.file_table().cloned();
        let page_size = page_size(reading, &reader)?;
        if let (_, Some(bytes)) = reader.progress_bytes() {
            self.bytes.set_length(bytes);
        }
        let mut part = part(WithProgress { reader, bar: self.bytes.clone() }, reading);
        let trace = self.watch.compile_telling(&mut part, page_size, tell)?;
        part.into_source().finish();
        Ok((trace, files))
    }
}

/// Reads and compiles a trace while a policy replays it, if that can be.
pub(crate) fn open_running(
    path: &Path,
    reading: &Reading,
    configuration: &Configuration,
    options: RunOptions,
) -> Result<Option<(CompiledTrace, Result<Summary, LabError>)>> {
    // Only a file can be opened again.
    let is_whole = reading.part == PartOfTrace::default();
    if !is_whole || !path.is_file() || CompiledTrace::is_saved(path) {
        return Ok(None);
    }
    let reader = open_reader(path, reading)?;
    let accesses_max = reader.accesses_max();
    let can_run = |&max: &u64| can_run_while_compiling(configuration, options, max);
    let Some(accesses_max) = accesses_max.filter(can_run) else { return Ok(None) };
    let page_size = page_size(reading, &reader)?;
    let mut reader = WithProgress::new(reader)?;
    let done = run_while_compiling(&mut reader, page_size, accesses_max, configuration)?;
    reader.finish();
    Ok(Some(done))
}

/// Samples a trace while it is read, if that can be: else it has to be compiled.
pub(crate) fn sample(
    path: &Path,
    reading: &Reading,
    sampling: Sampling,
) -> Result<Option<SampledTrace>> {
    if reading.part != PartOfTrace::default() || CompiledTrace::is_saved(path) {
        return Ok(None);
    }
    let page_size = match &reading.page_size {
        Some(text) => text.parse()?,
        None if path.is_file() => page_size(reading, &open_reader(path, reading)?)?,
        None => PageSize::DEFAULT,
    };
    let bar = progress_bar(None)?;
    let progress = |bytes, all| {
        bar.set_length(all);
        bar.inc(bytes);
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let options = read_options(reading)?;
    let sampled = SampledTrace::read(path, &options, page_size, sampling, threads, progress);
    bar.finish_and_clear();
    if let Some(sampled) = &sampled {
        note_counts(path, sampled.counts.torn_bytes > 0, sampled.counts);
    }
    Ok(sampled)
}

/// Return the number of clients.
///
/// Traces of which each is to be a client's must be as many as these.
pub(crate) fn clients(traces: &[PathBuf], options: &ClientOptions) -> Result<Clients> {
    let clients = options.clients.unwrap_or(1);
    match traces.len() {
        1 => ensure!(
            !options.private,
            "--private keeps the traces of several clients apart, and one trace was given: give one for each client"
        ),
        given => {
            ensure!(
                given == usize::from(clients),
                "{given} traces were given for {clients} client(s): give --clients {given}, one trace for each client, or one trace to be split among them"
            );
            ensure!(
                options.split.is_none(),
                "--split deals one trace to the clients, and {given} were given: each is a client's"
            );
        }
    }
    ensure!(
        options.split.is_none() || clients > 1,
        "--split deals a trace to several clients: say how many with --clients"
    );
    Clients::new(clients.into()).context("the number of clients is checked")
}

/// Reads and compiles the trace of one client, or of several: one for each, or one that is split.
pub(crate) fn open_shared(
    traces: &[PathBuf],
    reading: &Reading,
    options: &ClientOptions,
) -> Result<CompiledTrace> {
    let clients = clients(traces, options)?;
    let [trace] = traces else { return merge(traces, reading, options) };
    let trace = open(trace, reading)?;
    if clients == Clients::ONE {
        return Ok(trace);
    }
    Ok(trace.split(clients, options.split.unwrap_or(Split::RoundRobin).into_trace())?)
}

/// Reads and compiles one trace per client.
fn merge(traces: &[PathBuf], reading: &Reading, options: &ClientOptions) -> Result<CompiledTrace> {
    let mut readers = vec![];
    let mut page_sizes: Vec<PageSize> = vec![];
    for path in traces {
        ensure!(
            !CompiledTrace::is_saved(path),
            "`{}` is a compiled trace, which cannot be merged with others: give the trace that it was made from",
            path.display()
        );
        let reader = open_reader(path, reading)?;
        page_sizes.push(page_size(reading, &reader)?);
        // Several bars would write over each other.
        readers.push(part(WithProgress { reader, bar: ProgressBar::hidden() }, reading));
    }
    let first = page_sizes[0];
    if let Some(other) = page_sizes.iter().position(|&size| size != first) {
        let [one, another] = [first, page_sizes[other]].map(|size| output::bytes(size.bytes()));
        bail!(
            "`{}` has pages of {one}, `{}` of {another}: give the size for all, as in --page-size {}",
            traces[0].display(),
            traces[other].display(),
            first.bytes()
        );
    }
    let addresses = if options.private { AddressSpace::Private } else { AddressSpace::Shared };
    let trace = CompiledTrace::compile_clients(&mut readers, first, addresses)?;
    readers.into_iter().map(Part::into_source).for_each(WithProgress::finish);
    Ok(trace)
}

/// Opens a trace for reading.
pub(crate) fn open_reader(path: &Path, reading: &Reading) -> Result<Reader> {
    check_times(reading)?;
    ensure!(
        !CompiledTrace::is_saved(path),
        "`{}` is a compiled trace, which holds accesses to pages, not the requests that are needed here: give the trace that it was made from",
        path.display()
    );
    let options = read_options(reading)?;
    if path == Path::new(STANDARD_INPUT) {
        return Ok(Reader::from_read("(standard input)", io::stdin(), &options)?);
    }
    Ok(Reader::open(path, &options)?)
}

/// Refuses a part that ends before it begins.
fn check_times(reading: &Reading) -> Result<()> {
    let PartOfTrace { from_time, to_time, .. } = reading.part;
    if let (Some(from), Some(to)) = (from_time, to_time) {
        ensure!(from < to, "--to-time must be later than --from-time, or no request is left");
    }
    Ok(())
}

/// Return the requests of a trace that are wanted.
pub(crate) fn part<R: Requests>(source: R, reading: &Reading) -> Part<R> {
    Part::new(source, part_options(reading))
}

/// Return the selection of requests.
fn part_options(reading: &Reading) -> PartOptions {
    let PartOfTrace { skip, limit, from_time, to_time } = reading.part;
    PartOptions {
        skip: skip.unwrap_or(0),
        limit: limit.unwrap_or(u64::MAX),
        from_ns: from_time.unwrap_or(0),
        to_ns: to_time.unwrap_or(u64::MAX),
    }
}

/// Return the meaning of a trace's columns, if it is described.
pub(crate) fn mapping(options: &ColumnOptions) -> Result<Option<Mapping>> {
    let Some(columns) = &options.columns else { return Ok(None) };
    let mut spec = ColumnsSpec { columns: columns.clone(), ..ColumnsSpec::default() };
    if Path::new(columns).extension().is_some_and(|extension| extension == "toml") {
        let text = text_file::read(Path::new(columns))
            .with_context(|| format!("--columns {columns}: cannot read the file"))?;
        spec = toml::from_str(&text).with_context(|| format!("--columns {columns}"))?;
    }
    spec.ops = options.ops.clone().or(spec.ops);
    spec.delimiter = options.delimiter.clone().or(spec.delimiter);
    spec.header = options.header.or(spec.header);
    spec.layout = options.layout.clone().or(spec.layout);
    Ok(Some(spec.mapping().with_context(|| format!("--columns {columns}"))?))
}

/// Return the options for reading a trace.
fn read_options(reading: &Reading) -> Result<ReadOptions> {
    Ok(ReadOptions {
        format: reading.format.as_deref().map(str::parse).transpose()?,
        time_unit: reading.time_unit.map(TimeUnit::into_trace),
        allow_truncated: reading.allow_truncated,
        only_classes: reading.only.clone(),
        volume_of: match reading.volumes {
            Some(VolumesOf::Files) => VolumeOf::File,
            Some(VolumesOf::All) | None => VolumeOf::All,
        },
        objects: match reading.objects {
            Some(ObjectsAre::One) => Objects::One,
            Some(ObjectsAre::Pages) | None => Objects::Pages,
        },
        columns: mapping(&reading.columns)?.map(Arc::new),
        tencent_unit: match reading.tencent_unit {
            None | Some(TencentUnit::Sectors) => thermocline_trace::TencentUnit::Sectors,
            Some(TencentUnit::Bytes) => thermocline_trace::TencentUnit::Bytes,
            Some(TencentUnit::Mixed) => thermocline_trace::TencentUnit::Mixed,
        },
        ..ReadOptions::default()
    })
}

/// Return the page size asked for, else the one that the trace states, else 4 KiB.
pub(crate) fn page_size(reading: &Reading, reader: &Reader) -> Result<PageSize> {
    match &reading.page_size {
        Some(text) => Ok(text.parse()?),
        None => Ok(reader.page_size().unwrap_or(PageSize::DEFAULT)),
    }
}

/// Return the names of files without their folders.
pub(crate) fn file_names(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|path| file_name(path)).collect();
    names.join(" + ")
}

/// Return the name of a file without its folder.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

impl TimeUnit {
    fn into_trace(self) -> thermocline_trace::TimeUnit {
        match self {
            Self::Ns => thermocline_trace::TimeUnit::Nanoseconds,
            Self::Us => thermocline_trace::TimeUnit::Microseconds,
            Self::Ms => thermocline_trace::TimeUnit::Milliseconds,
        }
    }
}

impl Split {
    fn into_trace(self) -> thermocline_trace::Split {
        match self {
            Self::RoundRobin => thermocline_trace::Split::RoundRobin,
            Self::Volume => thermocline_trace::Split::Volume,
        }
    }
}

/// A reader that shows how far it is.
pub(crate) struct WithProgress {
    reader: Reader,
    bar: ProgressBar,
}

impl WithProgress {
    /// Wraps a reader.
    pub(crate) fn new(reader: Reader) -> Result<Self> {
        let (_, size_bytes) = reader.progress_bytes();
        Ok(Self { reader, bar: progress_bar(size_bytes)? })
    }

    /// Removes the bar and says what a reader of the trace should know.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
        note_counts(self.reader.path(), self.reader.is_truncated(), self.reader.counts());
        if self.reader.has_objects() {
            let name = self.reader.path().display();
            let what = match self.reader.objects() {
                Objects::Pages => "an object is as many pages as its bytes need (--objects pages)",
                Objects::One => "an object is one page whatever its size (--objects one)",
            };
            output::note(&format!("note: `{name}` has objects with sizes: {what}"));
        }
    }
}

/// Return a bar of bytes that are read.
fn progress_bar(size_bytes: Option<u64>) -> Result<ProgressBar> {
    let bar = size_bytes.map_or_else(ProgressBar::no_length, ProgressBar::new);
    let style = "{bar:30} {bytes}/{total_bytes} read, {bytes_per_sec}, {eta} left";
    bar.set_style(ProgressStyle::with_template(style).context("the template is well-formed")?);
    Ok(bar)
}

/// Says what a reader of a trace should know.
fn note_counts(path: &Path, is_truncated: bool, counts: ReadCounts) {
    let name = path.display();
    if is_truncated {
        output::note(&format!("note: `{name}` is truncated; what it holds was taken"));
    }
    if counts.zero_length_requests > 0 {
        let requests = output::count(counts.zero_length_requests);
        output::note(&format!(
            "note: {requests} requests of `{name}` have length 0 and touch no page"
        ));
    }
    let skipped = [
        (counts.removals, "remove an object"),
        (counts.unknown_sizes, "are to objects of unknown size"),
        (counts.unanswered_requests, "have no answer"),
        (counts.invalid_requests, "are invalid"),
    ];
    for (requests, what) in skipped.into_iter().filter(|(requests, _)| *requests > 0) {
        let requests = output::count(requests);
        output::note(&format!("note: {requests} requests of `{name}` {what} and are not replayed"));
    }
    if counts.missing_accesses > 0 {
        let accesses = output::count(counts.missing_accesses);
        output::note(&format!(
            "note: `{name}` says that {accesses} page accesses are missing in it; figures of a replay are not those of what was recorded"
        ));
    }
}

impl Requests for WithProgress {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        let result = self.reader.read_batch(batch);
        self.bar.set_position(self.reader.progress_bytes().0);
        result
    }

    fn volume_names(&self) -> &[String] {
        self.reader.volume_names()
    }

    fn path(&self) -> &Path {
        self.reader.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three requests to two disks, as the recorder of an Exchange server writes them.
    const ETW: &str = "BeginHeader\r
              DiskRead,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr,   ByteOffset,     IOSize, ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, I/O Pri,  VolSnap,         FileObject, FileName\r
EndHeader\r
              DiskRead,      10000,      store.exe (3012),       4411, 0xfffffa8001020010, 0x00001000, 0x00001000,         859,        4, 0x060043,         859,       0,  Unknown, 0xfffffa8002000020, \"Disk4\"\r
             CSwitch,      10500,       Idle (   0),          0\r
             DiskWrite,      20000,      store.exe (3012),       4411, 0xfffffa8001020010, 0x00002000, 0x00002000,         859,        5, 0x060043,         859,       0,  Unknown, 0xfffffa8002000020, \"Disk5\"\r
              DiskRead,      30000,      store.exe (3012),       4411, 0xfffffa8001020010, 0x00001000, 0x00001000,         859,        4, 0x060043,         859,       0,  Unknown, 0xfffffa8002000020, \"Disk4\"\r
";

    fn taken(files: usize, take: &Take) -> CompiledTrace {
        let folder = tempfile::tempdir().unwrap();
        let path = |number| folder.path().join(format!("MSNFS.{number}.trace.csv.csv"));
        let paths: Vec<PathBuf> = (0..files).map(path).collect();
        for path in &paths {
            std::fs::write(path, ETW).unwrap();
        }
        let page_size = |stated: Option<PageSize>| anyhow::Ok(stated.unwrap_or_default());
        open_taken(paths, take, page_size).unwrap()
    }

    #[test]
    fn files_are_one_trace_of_which_a_part_is_taken() {
        let all = taken(3, &Take::default());
        assert_eq!((all.request_count(), all.len(), all.footprint_pages()), (9, 12, 3));
        assert_eq!(all.summary().time_reversals, 0, "each file goes on where the one before ended");
        // The second file begins where the first one ended, 20 ms after its beginning.
        assert_eq!(all.summary().last_at.0 - all.summary().first_at.0, 60_000_000);
        let disk = taken(3, &Take { volumes: vec!["5".into()], ..Take::default() });
        assert_eq!((disk.request_count(), disk.writes()), (3, 6));
        let head = taken(3, &Take { first_requests: Some(5), ..Take::default() });
        assert_eq!(head.request_count(), 5);
    }
}
