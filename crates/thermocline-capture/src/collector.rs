//! Gathers files and requests, and writes them as a recording: three files, or none.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use thermocline_core::Op;
use thermocline_trace::atomic::{Unfinished, persist, temporary};
use thermocline_trace::recording::{self, HEADER, TABLE_HEADER};
use thermocline_trace::{ADDRESS_BYTES_MAX, REQUEST_PAGES_MAX, TraceError, excerpt};

use super::class::{FileClass, Relation};
use super::counts::{CaptureCounts, UnknownLine};
use super::options::CaptureOptions;
use super::spool::{Spool, Spooled};
use crate::error::CaptureError;

/// No process has more memory to read into or to map to. A length beyond that, in a damaged line, would
/// only be cut into very many requests.
const REQUEST_BYTES_MAX: u64 = 1 << 47;

/// Reason for skipping a request that cannot be understood.
pub(super) const IMPOSSIBLE_REQUEST: &str =
    "the request is beyond 2^63 bytes, or longer than 2^47 bytes";

/// Maximum number of lines that cannot be parsed and are kept to be shown.
const SHOWN_MAX: usize = 10;

/// Bytes compressed better than this would take longer than the conversion.
const COMPRESSION_LEVEL: i32 = 3;

/// A recording that was written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Captured {
    /// Path of the recording.
    pub path: PathBuf,
    /// Requests in it.
    pub requests: u64,
    /// Pages read, counted once per request that reads them.
    pub read_pages: u64,
    /// Pages written, likewise.
    pub write_pages: u64,
    /// Files in its table.
    pub files: u64,
    /// Counts of everything else.
    pub counts: CaptureCounts,
    /// The first lines that were not understood.
    pub unknown: Vec<UnknownLine>,
}

/// Pages by direction, in `stats.json`.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Share {
    requests: u64,
    read_pages: u64,
    write_pages: u64,
}

impl Share {
    fn add(&mut self, op: Op, pages: u64) {
        self.requests += 1;
        match op {
            Op::Read => self.read_pages += pages,
            Op::Write => self.write_pages += pages,
        }
    }
}

/// Contents of `stats.json`.
#[derive(Serialize)]
struct StatsJson<'a> {
    page_size: u64,
    source: &'a str,
    files: usize,
    requests: u64,
    page_requests: u64,
    duration_s: f64,
    classes: BTreeMap<&'a str, Share>,
    processes: BTreeMap<String, Share>,
    converter: &'a CaptureCounts,
}

/// A file of the recorded system.
#[derive(Debug)]
struct File {
    path: Vec<u8>,
    /// End of its last request, in bytes; 0 if there was none.
    end: u64,
    /// `true` if it is wanted, once that was asked.
    is_taken: Option<bool>,
}

/// Files and requests so far.
pub(crate) struct Collector<'a> {
    pub(crate) counts: CaptureCounts,
    options: &'a CaptureOptions,
    output: &'a Path,
    files: Vec<File>,
    commands: Vec<String>,
    command_of: HashMap<Box<[u8]>, u32>,
    spool: Spool,
    unknown: Vec<UnknownLine>,
}

/// A row of the file table.
struct Entry {
    path: String,
    class: FileClass,
    share: Share,
    /// Pages of each fork; all but relations have the first only.
    fork_pages: [u64; Relation::FORKS],
    base_page: u64,
}

impl Entry {
    fn pages(&self) -> u64 {
        self.fork_pages.iter().sum()
    }
}

/// Position of a file in its entry.
#[derive(Clone, Copy)]
struct ForkPlace {
    entry: usize,
    fork: usize,
    first_page: u64,
}

impl<'a> Collector<'a> {
    /// Gathers what will be written to `output`.
    pub(crate) fn new(options: &'a CaptureOptions, output: &'a Path) -> Result<Self, TraceError> {
        let name = output.to_string_lossy();
        if [".gz", ".xz", ".bz2"].iter().any(|extension| name.ends_with(extension)) {
            let reason = "recordings are written plain, or compressed with zstd as NAME.zst";
            return Err(TraceError::Content { path: output.into(), reason: reason.into() });
        }
        let file = temporary(output)?.into_file();
        Ok(Self {
            counts: CaptureCounts::default(),
            options,
            output,
            files: vec![],
            commands: vec![],
            command_of: HashMap::new(),
            spool: Spool::new(file),
            unknown: vec![],
        })
    }

    /// Add a new file.
    pub(crate) fn add_file(&mut self, path: &[u8]) -> u32 {
        self.files.push(File { path: path.into(), end: 0, is_taken: None });
        u32::try_from(self.files.len() - 1).expect("files are limited by memory")
    }

    /// Return the current path of a file.
    pub(crate) fn path_of(&self, file: u32) -> &[u8] {
        &self.files[file as usize].path
    }

    /// Gives a file its new name.
    pub(crate) fn rename(&mut self, file: u32, path: &[u8]) {
        let old = &mut self.files[file as usize].path;
        old.clear();
        old.extend_from_slice(path);
    }

    /// Return the number of a command.
    pub(crate) fn command(&mut self, name: &[u8]) -> u32 {
        if let Some(&number) = self.command_of.get(name) {
            return number;
        }
        let number = u32::try_from(self.commands.len()).expect("commands are limited by memory");
        self.commands.push(shown(name));
        self.command_of.insert(name.into(), number);
        number
    }

    /// Takes a request; nothing earlier than `horizon_ns` follows. `false` if it is
    /// [`IMPOSSIBLE_REQUEST`].
    pub(crate) fn request(
        &mut self,
        request: Spooled,
        horizon_ns: u64,
    ) -> Result<bool, TraceError> {
        if request.length > REQUEST_BYTES_MAX {
            return Ok(false);
        }
        let end = request.offset.checked_add(request.length);
        let Some(end) = end.filter(|&end| end <= ADDRESS_BYTES_MAX) else { return Ok(false) };
        if request.length == 0 {
            return Ok(true);
        }
        let file = &mut self.files[request.file as usize];
        file.end = file.end.max(end);
        let pushed = self.spool.push(request, horizon_ns);
        pushed.map(|()| true).map_err(|error| self.cannot_write(error))
    }

    /// Notes a line or record that is not understood.
    pub(crate) fn not_understood(&mut self, number: u64, reason: &str, text: &[u8]) {
        self.counts.unknown += 1;
        if self.unknown.len() < SHOWN_MAX {
            let (reason, text) = (reason.to_owned(), excerpt(text));
            self.unknown.push(UnknownLine { number, reason, text });
        }
    }

    /// Writes the recording that was gathered from `path`.
    pub(crate) fn finish(mut self, path: &Path, source: &str) -> Result<Captured, CaptureError> {
        if self.counts.unknown > self.options.max_unknown {
            return Err(CaptureError::NotUnderstood {
                path: path.into(),
                lines: self.counts.unknown,
                limit: self.options.max_unknown,
                shown: self.unknown.iter().map(|line| format!("\n  {line}")).collect(),
            });
        }
        self.spool.settle().map_err(|error| self.cannot_write(error))?;
        self.counts.out_of_order = self.spool.late();
        let first_of = self.wanted_files()?;
        if first_of.iter().all(Option::is_none) {
            let reason = format!(
                "no request to a file that is wanted, among {} calls that read or write",
                self.counts.io_calls
            );
            return Err(TraceError::Content { path: path.into(), reason }.into());
        }
        let (mut entries, places) = self.entries(&first_of)?;
        self.write(source, &mut entries, &places)
    }

    /// Return the index of the first request to each wanted file, in order of these.
    fn wanted_files(&mut self) -> Result<Vec<Option<u64>>, TraceError> {
        let mut first_of = vec![None; self.files.len()];
        let (files, filter) = (&mut self.files, &self.options.files);
        let (mut number, mut filtered) = (0, 0);
        let read = self.spool.read(|request| {
            let index = request.file as usize;
            let file = &mut files[index];
            if *file.is_taken.get_or_insert_with(|| filter.takes(&shown(&file.path))) {
                first_of[index].get_or_insert(number);
                number += 1;
            } else {
                filtered += 1;
            }
            Ok(())
        });
        read.map_err(|error| self.cannot_write(error))?;
        self.counts.filtered_requests = filtered;
        Ok(first_of)
    }

    /// Return the file table, in order of first requests, and where each file lies in it.
    fn entries(
        &self,
        first_of: &[Option<u64>],
    ) -> Result<(Vec<Entry>, Vec<Option<ForkPlace>>), TraceError> {
        let page_size = self.options.page_size.bytes();
        let mut order: Vec<usize> =
            (0..self.files.len()).filter(|&file| first_of[file].is_some()).collect();
        let generation = self.generations(&order);
        order.sort_by_key(|&file| first_of[file]);
        let mut entries: Vec<Entry> = vec![];
        let mut places = vec![None; self.files.len()];
        let mut entry_of = HashMap::new();
        for file in order {
            let File { path, end, .. } = &self.files[file];
            let (fork, segment, name, entry) = match Relation::of(path) {
                None => (0, 0, path.as_slice(), entries.len()),
                Some(relation) => {
                    let key = (relation.path, generation[&file]);
                    let entry = *entry_of.entry(key).or_insert(entries.len());
                    (relation.fork, relation.segment, relation.path, entry)
                }
            };
            if entry == entries.len() {
                entries.push(Entry {
                    path: shown(name),
                    class: FileClass::of(name),
                    share: Share::default(),
                    fork_pages: [0; Relation::FORKS],
                    base_page: 0,
                });
            }
            let first_page = segment * (Relation::SEGMENT_BYTES / page_size);
            let end_page = first_page + end.div_ceil(page_size);
            let fork_pages = &mut entries[entry].fork_pages[fork];
            *fork_pages = end_page.max(*fork_pages);
            places[file] = Some(ForkPlace { entry, fork, first_page });
        }
        let mut base_page = 0_u64;
        for entry in &mut entries {
            entry.base_page = base_page;
            base_page += entry.pages();
            if base_page > ADDRESS_BYTES_MAX / page_size {
                let reason = "the files side by side are larger than 2^63 bytes".into();
                return Err(TraceError::Limit { path: self.output.into(), reason });
            }
        }
        Ok((entries, places))
    }

    /// Count how often the relation of each file had been created before it: a relation whose
    /// number is used again is another one.
    fn generations(&self, order_of_creation: &[usize]) -> HashMap<usize, u32> {
        let mut latest: HashMap<&[u8], (u32, bool)> = HashMap::new();
        let mut generations = HashMap::new();
        for &file in order_of_creation {
            let Some(relation) = Relation::of(&self.files[file].path) else { continue };
            let (generation, has_main) = latest.entry(relation.path).or_default();
            if (relation.fork, relation.segment) == (0, 0) {
                *generation += u32::from(*has_main);
                *has_main = true;
            }
            generations.insert(file, *generation);
        }
        generations
    }

    fn write(
        mut self,
        source: &str,
        entries: &mut [Entry],
        places: &[Option<ForkPlace>],
    ) -> Result<Captured, CaptureError> {
        let mut processes = vec![Share::default(); self.commands.len()];
        let mut lines = Lines::default();
        let page_size = self.options.page_size.bytes();
        let spool = &mut self.spool;
        let csv = written(self.output, |writer| {
            writer.write_all(HEADER)?;
            writer.write_all(b"\n")?;
            spool.read(|request| {
                let Some(place) = places[request.file as usize] else { return Ok(()) };
                let entry = &mut entries[place.entry];
                let end = request.offset + request.length;
                let (first, last) = (request.offset / page_size, (end - 1) / page_size);
                let is_part =
                    !request.offset.is_multiple_of(page_size) || !end.is_multiple_of(page_size);
                let base: u64 = entry.fork_pages[..place.fork].iter().sum();
                let pages = last - first + 1;
                entry.share.add(request.op, pages);
                processes[request.command as usize].add(request.op, pages);
                lines.add(
                    &request,
                    &Line {
                        entry: place.entry,
                        first_page: base + place.first_page + first,
                        pages,
                        class: entry.class,
                        is_part,
                    },
                );
                lines.drain(writer)
            })?;
            writer.write_all(&lines.text)
        })?;
        let table_path = recording::table_path(self.output);
        let table = written(&table_path, |writer| write_table(writer, entries))?;
        let stats_path = recording::stats_path(self.output);
        let total = entries.iter().fold((0, 0), |total, entry| {
            (total.0 + entry.share.read_pages, total.1 + entry.share.write_pages)
        });
        let stats = self.stats(source, entries, &processes, &lines);
        let stats = written(&stats_path, |writer| {
            serde_json::to_writer_pretty(&mut *writer, &stats)?;
            writer.write_all(b"\n")
        })?;
        // The requests come last: without them there is no recording.
        persist(table, &table_path)?;
        persist(stats, &stats_path)?;
        persist(csv, self.output)?;
        Ok(Captured {
            path: self.output.into(),
            requests: lines.requests,
            read_pages: total.0,
            write_pages: total.1,
            files: entries.len() as u64,
            counts: self.counts,
            unknown: self.unknown,
        })
    }

    fn stats(
        &self,
        source: &'a str,
        entries: &[Entry],
        processes: &[Share],
        lines: &Lines,
    ) -> StatsJson<'_> {
        let mut classes: BTreeMap<&str, Share> = BTreeMap::new();
        let mut page_requests = 0;
        for Entry { class, share, .. } in entries {
            let all = classes.entry(class.name()).or_default();
            all.requests += share.requests;
            all.read_pages += share.read_pages;
            all.write_pages += share.write_pages;
            page_requests += share.read_pages + share.write_pages;
        }
        let names = self.commands.iter().cloned();
        StatsJson {
            page_size: self.options.page_size.bytes(),
            source,
            files: entries.len(),
            requests: lines.requests,
            page_requests,
            duration_s: lines.duration_ns() as f64 / 1e9,
            classes,
            processes: names
                .zip(processes.iter().copied())
                .filter(|(_, share)| share.requests > 0)
                .collect(),
            converter: &self.counts,
        }
    }

    fn cannot_write(&self, source: io::Error) -> TraceError {
        TraceError::Io { path: self.output.into(), action: "write", source }
    }
}

/// The lines of the requests.
#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    requests: u64,
    first_ns: Option<u64>,
    last_ns: u64,
}

/// Contents of a line besides the effect of its request.
struct Line {
    entry: usize,
    first_page: u64,
    pages: u64,
    class: FileClass,
    is_part: bool,
}

impl Lines {
    fn add(&mut self, request: &Spooled, line: &Line) {
        let first_ns = *self.first_ns.get_or_insert(request.at_ns);
        self.last_ns = self.last_ns.max(request.at_ns);
        let at_ns = request.at_ns.saturating_sub(first_ns);
        let (mut first_page, mut left) = (line.first_page, line.pages);
        while left > 0 {
            let pages = left.min(REQUEST_PAGES_MAX);
            self.requests += 1;
            number(&mut self.text, at_ns / 1000);
            if !at_ns.is_multiple_of(1000) {
                let fraction = (at_ns % 1000 + 1000).to_string();
                self.text.push(b'.');
                self.text.extend_from_slice(&fraction.as_bytes()[1..]);
            }
            self.text.extend_from_slice(if request.op == Op::Read { b",R," } else { b",W," });
            for value in [line.entry as u64, first_page, pages] {
                number(&mut self.text, value);
                self.text.push(b',');
            }
            self.text.extend_from_slice(line.class.flag());
            self.text.extend_from_slice(if line.is_part { b"p\n" } else { b"\n" });
            first_page += pages;
            left -= pages;
        }
    }

    fn drain(&mut self, writer: &mut dyn Write) -> io::Result<()> {
        if self.text.len() >= 1 << 16 {
            writer.write_all(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }

    fn duration_ns(&self) -> u64 {
        self.last_ns - self.first_ns.unwrap_or(self.last_ns)
    }
}

/// Appends a number in decimal.
fn number(text: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[at..]);
}

fn write_table(writer: &mut dyn Write, entries: &[Entry]) -> io::Result<()> {
    writer.write_all(TABLE_HEADER)?;
    writer.write_all(b"\n")?;
    for (id, entry) in entries.iter().enumerate() {
        let Share { read_pages, write_pages, .. } = entry.share;
        writeln!(
            writer,
            "{id},{},{},{},{read_pages},{write_pages},\"{}\"",
            entry.base_page,
            entry.pages(),
            entry.class.name(),
            entry.path.replace('"', "\"\"")
        )?;
    }
    Ok(())
}

/// Write a complete file that waits to be put in its place, compressed as its name says.
fn written(
    target: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<Unfinished, TraceError> {
    let file = temporary(target)?;
    let mut writer = io::BufWriter::with_capacity(1 << 18, file);
    let result = if target.extension().is_some_and(|extension| extension == "zst") {
        zstd::Encoder::new(&mut writer, COMPRESSION_LEVEL).and_then(|mut encoder| {
            write(&mut encoder)?;
            encoder.finish().map(drop)
        })
    } else {
        write(&mut writer)
    };
    let file = result.and_then(|()| writer.into_inner().map_err(io::IntoInnerError::into_error));
    file.map_err(|source| TraceError::Io { path: target.into(), action: "write", source })
}

/// Return the bytes as text that stays on its line: what is not printable, and the backslash, are
/// escaped.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || character == '\\' {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}
