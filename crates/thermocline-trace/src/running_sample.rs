//! A sample of requests that come one after the other, in bounded memory.
//!
//! Extents of some pages, 16 unless told otherwise, are in the sample with all their accesses or not at all, by a hash of their
//! place: policies that keep blocks of several pages find neighbours in it. Beside each request stands how
//! long the sequential run before it is, as far as all requests tell. When the sample is full
//! the rate is halved, and what is no longer in it is forgotten, as in SHARDS of fixed size
//! (Waldspurger, Park, Garthwaite, Ahmad, FAST 2015, section 4); so samples of different rates can be
//! [joined](RunningSample::join).
//!
//! A sample can be saved, as text compressed by zstd: a line of JSON that says what the sample is, then
//! a line per request, `time op volume first count before mean`, in nanoseconds and pages.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};
use thermocline_core::random::SplitMix64;
use thermocline_core::{Nanos, Op, Run};

use crate::RunDetector;
use crate::error::{Position, Reason, TraceError, excerpt};
use crate::request::{Extent, PageSize, Request, Requests};
use crate::text::{Fields, integer, pages};

/// Pages that are sampled together unless told otherwise: 64 KiB of pages of 4 KiB.
const EXTENT_PAGES: u64 = 16;

/// Requests, or parts of them, that a sample keeps unless told otherwise: 40 MiB of them.
const MOST_REQUESTS: usize = 1 << 20;

/// Room for requests grows by so many at least.
const LEAST_ROOM: usize = 1 << 12;

/// Accesses that a sample keeps, for each request that it may keep.
const ACCESSES_PER_REQUEST: u64 = 4;

/// The rate is never below a half to this power.
const HALVINGS_MAX: u32 = 40;

/// Changes when older programs could misunderstand a saved sample.
const VERSION: u32 = 2;

/// Requests handed over at once.
const BATCH_REQUESTS: usize = 4096;

const COMPRESSION_LEVEL: i32 = 3;

/// What all requests were, those that are not in the sample too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Totals {
    /// Requests.
    pub requests: u64,
    /// Page accesses.
    pub accesses: u64,
    /// Page accesses that write.
    pub writes: u64,
    /// When the first of them came, in nanoseconds.
    pub first_ns: u64,
    /// When the last of them came, in nanoseconds.
    pub last_ns: u64,
}

/// A sample of the requests so far.
///
/// ```
/// use thermocline_core::{Nanos, Op};
/// use thermocline_trace::{CompiledTrace, Extent, PageSize, Request, RunningSample};
///
/// let mut sample = RunningSample::new(PageSize::DEFAULT, 1);
/// let extent = Extent::Bytes { offset: 8192, length: 8192 };
/// sample.add(&Request { at: Nanos(0), op: Op::Read, volume: 0, extent });
/// assert_eq!((sample.rate(), sample.totals().accesses), (1.0, 2));
/// let trace = CompiledTrace::compile(&mut sample.requests("sdb".as_ref()), PageSize::DEFAULT)?;
/// assert_eq!(trace.len(), 2);
/// # Ok::<(), thermocline_trace::TraceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RunningSample {
    page_size: PageSize,
    extent_pages: u64,
    seed: u64,
    /// The rate is a half to this power.
    halvings: u32,
    most_requests: usize,
    requests: Vec<Kept>,
    runs: RunDetector,
    sampled_accesses: u64,
    totals: Totals,
    volume_names: Vec<String>,
}

/// A request of the sample, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Kept {
    request: Request,
    /// The sequential run before its first page.
    before: Run,
}

/// The first line of a saved sample.
#[derive(Deserialize, Serialize)]
struct Header {
    thermocline_sample: u32,
    page_size_bytes: u64,
    extent_pages: u64,
    seed: u64,
    halvings: u32,
    totals: Totals,
    volume_names: Vec<String>,
}

impl RunningSample {
    /// A sample that takes everything until it is full.
    pub fn new(page_size: PageSize, seed: u64) -> Self {
        Self {
            page_size,
            extent_pages: EXTENT_PAGES,
            seed,
            halvings: 0,
            most_requests: MOST_REQUESTS,
            requests: vec![],
            runs: RunDetector::default(),
            sampled_accesses: 0,
            totals: Totals::default(),
            volume_names: vec![],
        }
    }

    /// The same with room for so many requests, at least one.
    #[must_use]
    pub fn with_most_requests(mut self, most_requests: usize) -> Self {
        self.most_requests = most_requests.max(1);
        self.thin_out();
        self
    }

    /// The same in extents of so many pages, at least one; of a sample without requests.
    ///
    /// # Panics
    /// If there was a request.
    #[must_use]
    pub fn with_extents(self, pages: u64) -> Self {
        assert_eq!(self.totals.requests, 0, "extents are not chosen anew");
        Self { extent_pages: pages.max(1), ..self }
    }

    /// The same, no more of it than this share from the start; rounded down to a power of a half.
    #[must_use]
    pub fn with_rate_at_most(mut self, rate: f64) -> Self {
        while self.rate() > rate && self.halvings < HALVINGS_MAX {
            self.halve();
        }
        self
    }

    /// The share of the extents that is in the sample.
    pub fn rate(&self) -> f64 {
        1.0 / (1_u64 << self.halvings) as f64
    }

    /// Pages that are sampled together.
    pub const fn extent_pages(&self) -> u64 {
        self.extent_pages
    }

    /// What all requests were.
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The size of the pages.
    pub const fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Accesses in the sample.
    pub const fn sampled_accesses(&self) -> u64 {
        self.sampled_accesses
    }

    /// Names the volumes, those of later requests too; once known they keep their numbers.
    pub fn name_volumes(&mut self, names: &[String]) {
        if let Some(further) = names.get(self.volume_names.len()..) {
            self.volume_names.extend_from_slice(further);
        }
    }

    /// Adds a request.
    #[inline]
    pub fn add(&mut self, request: &Request) {
        let extent = request.extent.in_one_space(self.page_size);
        let request = &Request { extent, ..*request };
        let (first, count) = self.page_size.pages(extent);
        if count == 0 {
            return;
        }
        let totals = &mut self.totals;
        if totals.requests == 0 {
            (totals.first_ns, totals.last_ns) = (request.at.0, request.at.0);
        }
        totals.first_ns = totals.first_ns.min(request.at.0);
        totals.last_ns = totals.last_ns.max(request.at.0);
        totals.requests += 1;
        totals.accesses += count;
        totals.writes += if request.op == Op::Write { count } else { 0 };
        let before = self.runs.note(request.op, request.volume, first, count);
        self.add_pages(&Kept { request: *request, before }, first, count);
        if self.is_full() {
            self.thin_out();
        }
    }

    /// Adds what of a request is in the sample; neighbouring extents stay one request.
    fn add_pages(&mut self, kept: &Kept, first: u64, count: u64) {
        let end = first + count;
        let (mut from, mut page) = (first, first);
        while page < end {
            let extent = page / self.extent_pages;
            let next = (extent + 1).saturating_mul(self.extent_pages).min(end);
            if !self.takes(kept.request.volume, extent) {
                self.keep(kept, first, from..page);
                from = next;
            }
            page = next;
        }
        self.keep(kept, first, from..end);
    }

    /// Keeps some pages of a request whose first page is `first`.
    fn keep(&mut self, Kept { request, before }: &Kept, first: u64, pages: Range<u64>) {
        let Range { start: from, end } = pages;
        if from < end {
            self.sampled_accesses += end - from;
            // Twice the room each time would be up to twice as much as is ever needed.
            let kept = self.requests.len();
            if kept == self.requests.capacity() {
                let wanted = (2 * kept).min(self.most_requests.saturating_add(1));
                self.requests.reserve_exact(wanted.saturating_sub(kept).max(LEAST_ROOM));
            }
            let extent = Extent::Pages { first: from, count: end - from };
            let skipped = u32::try_from(from - first).unwrap_or(u32::MAX);
            let request = Request { extent, ..*request };
            let pages = before.pages.saturating_add(skipped);
            self.requests.push(Kept { request, before: Run { pages, ..*before } });
        }
    }

    /// Whether an extent is in the sample.
    fn takes(&self, volume: u32, extent: u64) -> bool {
        if self.halvings == 0 {
            return true;
        }
        let key = extent ^ u64::from(volume) << 40 ^ self.seed.rotate_left(32);
        SplitMix64::new(key).bits() >> (u64::BITS - self.halvings) == 0
    }

    const fn is_full(&self) -> bool {
        self.requests.len() > self.most_requests
            || self.sampled_accesses > ACCESSES_PER_REQUEST * self.most_requests as u64
    }

    fn thin_out(&mut self) {
        while self.is_full() && self.halvings < HALVINGS_MAX {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.halvings += 1;
        self.sampled_accesses = 0;
        let before = std::mem::take(&mut self.requests);
        self.requests.reserve_exact(before.len() / 2);
        for kept in before {
            let (first, count) = self.page_size.pages(kept.request.extent);
            self.add_pages(&kept, first, count);
        }
    }

    /// Adds a sample of what came after, as of the next day; times of both are those of one clock.
    ///
    /// # Errors
    /// If pages, extents or seeds differ; neither is changed then.
    pub fn join(&mut self, other: &Self) -> Result<(), Reason> {
        if other.page_size != self.page_size {
            let [ours, theirs] = [self, other].map(|one| one.page_size.bytes());
            return Err(format!("pages of {theirs} B cannot join pages of {ours} B").into());
        }
        if other.extent_pages != self.extent_pages {
            let [ours, theirs] = [self, other].map(|one| one.extent_pages);
            return Err(format!("extents of {theirs} pages cannot join extents of {ours}").into());
        }
        if other.seed != self.seed {
            return Err("samples of different seeds hold different extents".into());
        }
        let numbers: Vec<u32> = other
            .volume_names
            .iter()
            .map(|name| {
                let known = self.volume_names.iter().position(|known| known == name);
                let number = known.unwrap_or_else(|| {
                    self.volume_names.push(name.clone());
                    self.volume_names.len() - 1
                });
                u32::try_from(number).unwrap_or(u32::MAX)
            })
            .collect();
        while self.halvings < other.halvings {
            self.halve();
        }
        for &Kept { request, before } in &other.requests {
            let volume = numbers.get(request.volume as usize).copied().unwrap_or(request.volume);
            let (first, count) = self.page_size.pages(request.extent);
            let request = Request { volume, ..request };
            self.add_pages(&Kept { request, before }, first, count);
        }
        let (ours, theirs) = (&mut self.totals, &other.totals);
        if ours.requests == 0 {
            *ours = *theirs;
        } else if theirs.requests > 0 {
            ours.requests += theirs.requests;
            ours.accesses += theirs.accesses;
            ours.writes += theirs.writes;
            ours.first_ns = ours.first_ns.min(theirs.first_ns);
            ours.last_ns = ours.last_ns.max(theirs.last_ns);
        }
        self.thin_out();
        Ok(())
    }

    /// The requests of the sample, from a source of this name.
    pub fn requests<'a>(&'a self, path: &'a Path) -> SampledRequests<'a> {
        SampledRequests { sample: self, path, next: 0 }
    }

    /// For each access of the sample, in order: the sequential run that it ends.
    pub fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.requests.iter().flat_map(|&Kept { request, before }| {
            let pages = self.page_size.pages(request.extent).1;
            (1..=u32::try_from(pages).unwrap_or(u32::MAX))
                .map(move |page| Run { pages: before.pages.saturating_add(page), ..before })
        })
    }

    /// Writes the sample to a file, which appears whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), TraceError> {
        let failed = |source| TraceError::Io { path: path.to_owned(), action: "write", source };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = tempfile::NamedTempFile::new_in(folder.unwrap_or_else(|| Path::new(".")));
        let file = file.map_err(failed)?;
        self.write(&file).map_err(failed)?;
        file.persist(path).map_err(|error| failed(error.error))?;
        Ok(())
    }

    fn write(&self, file: &tempfile::NamedTempFile) -> std::io::Result<()> {
        let mut encoder = zstd::Encoder::new(file, COMPRESSION_LEVEL)?;
        let header = Header {
            thermocline_sample: VERSION,
            page_size_bytes: self.page_size.bytes(),
            extent_pages: self.extent_pages,
            seed: self.seed,
            halvings: self.halvings,
            totals: self.totals,
            volume_names: self.volume_names.clone(),
        };
        let mut text = serde_json::to_string(&header)?;
        text.push('\n');
        for &Kept { request, before } in &self.requests {
            let (first, count) = self.page_size.pages(request.extent);
            let op = if request.op == Op::Write { 'w' } else { 'r' };
            let Request { at, volume, .. } = request;
            let Run { pages, mean_pages } = before;
            writeln!(text, "{} {op} {volume} {first} {count} {pages} {mean_pages}", at.0)
                .map_err(std::io::Error::other)?;
            if text.len() > 1 << 16 {
                encoder.write_all(text.as_bytes())?;
                text.clear();
            }
        }
        encoder.write_all(text.as_bytes())?;
        encoder.finish()?.as_file().sync_all()
    }

    /// Whether a file begins as a saved sample does; no if it cannot be read.
    pub fn is_saved(path: &Path) -> bool {
        first_line(path).is_ok_and(|line| serde_json::from_str::<Header>(&line).is_ok())
    }

    /// Reads a saved sample.
    ///
    /// # Errors
    /// If the file cannot be read, or is none.
    pub fn load(path: &Path) -> Result<Self, TraceError> {
        let failed = |source| TraceError::Io { path: path.to_owned(), action: "read", source };
        let mut lines = open(path).map_err(failed)?;
        let mut line = String::new();
        lines.read_line(&mut line).map_err(failed)?;
        let malformed = |number: u64, reason: Reason, text: &str| TraceError::Malformed {
            path: path.to_owned(),
            position: Position::Line(number),
            reason,
            text: excerpt(text.trim_end().as_bytes()),
        };
        let header: Header = serde_json::from_str(&line)
            .map_err(|error| malformed(1, error.to_string().into(), &line))?;
        if header.thermocline_sample != VERSION || header.halvings > HALVINGS_MAX {
            let reason = "another version of thermocline wrote this sample: listen again";
            return Err(malformed(1, reason.into(), &line));
        }
        let mut sample = Self {
            extent_pages: header.extent_pages.max(1),
            halvings: header.halvings,
            totals: header.totals,
            volume_names: header.volume_names,
            ..Self::new(PageSize::new(header.page_size_bytes)?, header.seed)
        };
        for number in 2.. {
            line.clear();
            if lines.read_line(&mut line).map_err(failed)? == 0 {
                break;
            }
            let kept = sample
                .parsed(line.trim_end())
                .map_err(|reason| malformed(number, reason, &line))?;
            sample.sampled_accesses += sample.page_size.pages(kept.request.extent).1;
            sample.requests.push(kept);
        }
        Ok(sample)
    }

    fn parsed(&self, line: &str) -> Result<Kept, Reason> {
        let mut fields = Fields::new(line.as_bytes());
        let at = Nanos(integer(fields.word("time")?, "time")?);
        let op = crate::text::letter_op(fields.word("op")?)?;
        let volume = integer(fields.word("volume")?, "volume")?;
        let volume = u32::try_from(volume)
            .ok()
            .filter(|&volume| {
                volume == 0 || usize::try_from(volume).unwrap_or(0) < self.volume_names.len()
            })
            .ok_or("the volume has no name")?;
        let first = integer(fields.word("page")?, "page")?;
        let count = integer(fields.word("count")?, "count")?;
        let mut run = |name| {
            let pages = integer(fields.word(name)?, name)?;
            u32::try_from(pages).map_err(|_| Reason::from("no run is that long"))
        };
        let before = Run { pages: run("run")?, mean_pages: run("mean run")? };
        fields.end()?;
        if count == 0 {
            return Err("a request addresses a page at least".into());
        }
        let request = Request { at, op, volume, extent: pages(first, count)? };
        Ok(Kept { request, before })
    }
}

/// The requests of a sample, as a source of requests.
#[derive(Debug)]
pub struct SampledRequests<'a> {
    sample: &'a RunningSample,
    path: &'a Path,
    next: usize,
}

impl Requests for SampledRequests<'_> {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        batch.clear();
        let rest = &self.sample.requests[self.next..];
        batch.extend(rest.iter().take(BATCH_REQUESTS).map(|kept| kept.request));
        self.next += batch.len();
        Ok(!batch.is_empty())
    }

    fn volume_names(&self) -> &[String] {
        &self.sample.volume_names
    }

    fn path(&self) -> &Path {
        self.path
    }
}

type Lines = BufReader<zstd::Decoder<'static, BufReader<std::fs::File>>>;

fn open(path: &Path) -> std::io::Result<Lines> {
    Ok(BufReader::new(zstd::Decoder::new(std::fs::File::open(path)?)?))
}

/// As long as a header may be.
const HEADER_BYTES_MAX: u64 = 1 << 20;

fn first_line(path: &Path) -> std::io::Result<String> {
    let mut line = String::new();
    std::io::Read::take(open(path)?, HEADER_BYTES_MAX).read_line(&mut line)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::CompiledTrace;

    fn read(at: u64, first: u64, count: u64) -> Request {
        let extent = Extent::Pages { first, count };
        Request { at: Nanos(at), op: Op::Read, volume: 0, extent }
    }

    fn any_request() -> impl Strategy<Value = Request> {
        (0..1_000_000_u64, any::<bool>(), 0..3_u32, 0..20_000_u64, 1..200_u64).prop_map(
            |(at, is_write, volume, first, count)| Request {
                at: Nanos(at),
                op: if is_write { Op::Write } else { Op::Read },
                volume,
                extent: Extent::Pages { first, count },
            },
        )
    }

    /// The pages of requests one by one.
    fn pages_of(requests: &[Request]) -> Vec<(u64, Op, u32, u64)> {
        let mut all = vec![];
        for request in requests {
            let (first, count) = PageSize::DEFAULT.pages(request.extent);
            all.extend(
                (first..first + count).map(|page| (request.at.0, request.op, request.volume, page)),
            );
        }
        all
    }

    fn kept_pages(sample: &RunningSample) -> Vec<(u64, Op, u32, u64)> {
        pages_of(&sample.requests.iter().map(|kept| kept.request).collect::<Vec<_>>())
    }

    proptest! {
        #[test]
        fn a_sample_holds_whole_extents_however_it_came_to_its_rate(
            requests in prop::collection::vec(any_request(), 1..200),
            most in 1_usize..100,
            seed in any::<u64>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let names = ["a", "b", "c"].map(String::from);
            let begun = || {
                let mut sample = RunningSample::new(PageSize::DEFAULT, seed).with_most_requests(most);
                sample.name_volumes(&names);
                sample
            };
            let mut sample = begun();
            for request in &requests {
                sample.add(request);
            }
            prop_assert!(!sample.is_full());
            let expected: Vec<_> = pages_of(&requests)
                .into_iter()
                .filter(|&(.., volume, page)| sample.takes(volume, page / sample.extent_pages))
                .collect();
            prop_assert_eq!(kept_pages(&sample), &expected[..]);
            let mut detector = RunDetector::default();
            let runs: Vec<Run> = requests
                .iter()
                .flat_map(|request| {
                    let (first, count) = PageSize::DEFAULT.pages(request.extent);
                    let before = detector.note(request.op, request.volume, first, count);
                    let pages = (first..first + count).zip(before.pages + 1..);
                    let run = |pages| Run { pages, ..before };
                    pages.map(|(page, length)| (request.volume, page, run(length))).collect::<Vec<_>>()
                })
                .filter(|&(volume, page, _)| sample.takes(volume, page / sample.extent_pages))
                .map(|(.., run)| run)
                .collect();
            prop_assert!(sample.runs().eq(runs));
            prop_assert_eq!(sample.sampled_accesses, expected.len() as u64);
            prop_assert_eq!(sample.totals.accesses, pages_of(&requests).len() as u64);

            // Two halves joined hold what one sample of the same rate does.
            let cut = cut.index(requests.len());
            let (mut one, mut other) = (begun(), begun());
            for request in &requests[..cut] {
                one.add(request);
            }
            for request in &requests[cut..] {
                other.add(request);
            }
            one.join(&other).unwrap();
            prop_assert_eq!(one.totals, sample.totals);
            let whole = sample.clone().with_rate_at_most(one.rate());
            let one = one.with_rate_at_most(sample.rate());
            prop_assert_eq!(kept_pages(&one), kept_pages(&whole));

            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("sample");
            sample.save(&path).unwrap();
            prop_assert!(RunningSample::is_saved(&path));
            let loaded = RunningSample::load(&path).unwrap();
            prop_assert_eq!(loaded.requests, sample.requests);
            prop_assert_eq!(loaded.totals, sample.totals);
            prop_assert_eq!((loaded.halvings, loaded.seed), (sample.halvings, sample.seed));
        }
    }

    #[test]
    fn the_rate_halves_when_the_sample_is_full() {
        let mut sample = RunningSample::new(PageSize::DEFAULT, 1).with_most_requests(1000);
        for request in 0..100_000 {
            sample.add(&read(request, request * EXTENT_PAGES, 1));
        }
        let rate = sample.rate();
        assert!((1.0 / 256.0..=1.0 / 64.0).contains(&rate), "{rate}");
        let found = sample.sampled_accesses as f64 / sample.totals.accesses as f64;
        assert!((found / rate - 1.0).abs() < 0.2, "{found} of {rate}");
        let path = Path::new("t");
        let trace = CompiledTrace::compile(&mut sample.requests(path), PageSize::DEFAULT).unwrap();
        assert_eq!(trace.len() as u64, sample.sampled_accesses);
    }

    #[test]
    fn what_is_no_sample_is_an_error_with_a_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample");
        let mut sample = RunningSample::new(PageSize::DEFAULT, 1);
        sample.add(&read(5, 7, 1));
        sample.save(&path).unwrap();
        let text =
            String::from_utf8(zstd::decode_all(std::fs::File::open(&path).unwrap()).unwrap());
        let text = text.unwrap();
        for (from, to, says) in [
            ("5 r 0 7 1 0 0", "5 r 0 7", "line 2: the count is missing"),
            ("5 r 0 7 1 0 0", "5 r 0 7 1 0", "line 2: the mean run is missing"),
            ("5 r 0 7 1", "5 x 0 7 1", "line 2: the op is neither R nor W"),
            ("5 r 0 7 1", "5 r 3 7 1", "line 2: the volume has no name"),
            ("7 1 0 0", "7 0 0 0", "line 2: a request addresses a page at least"),
            ("\"thermocline_sample\":2", "\"thermocline_sample\":9", "line 1: another version"),
            ("{", "", "line 1:"),
        ] {
            assert!(text.contains(from), "{text}");
            let bytes = zstd::encode_all(text.replacen(from, to, 1).as_bytes(), 0).unwrap();
            std::fs::write(&path, bytes).unwrap();
            let error = RunningSample::load(&path).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        std::fs::write(&path, "text").unwrap();
        assert!(!RunningSample::is_saved(&path));
        assert!(RunningSample::load(&path).is_err());
        let mut other = RunningSample::new(PageSize::new(8192).unwrap(), 1);
        assert!(other.join(&sample).unwrap_err().contains("4096"));
        assert!(RunningSample::new(PageSize::DEFAULT, 2).join(&sample).is_err());
        assert!(other.totals().accesses == 0);
    }
}
