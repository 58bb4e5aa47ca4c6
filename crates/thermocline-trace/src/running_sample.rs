//! A sample of requests that come one after the other, in bounded memory.
//!
//! Extents of some pages, 16 unless told otherwise, are in the sample with all their accesses or not at all, by a hash of their
//! place: policies that keep blocks of several pages find neighbours in it. Beside each request stands how
//! long the sequential run before it is, as far as all requests tell. When the sample is full
//! the rate is halved, and what is no longer in it is forgotten, as in SHARDS of fixed size
//! (Waldspurger, Park, Garthwaite, Ahmad, FAST 2015, section 3.2); so samples of different rates can be
//! [joined](RunningSample::join).
//!
//! Each request also knows its [place](Place) among all requests: how many reads and writes came before
//! it. So what is found in a part of the sample can be compared with what all requests had there.
//!
//! A sample can be saved, as text compressed by zstd: a line of JSON that says what the sample is, then
//! a line per request, `time op volume first count run remembered mean accesses writes`, in nanoseconds
//! and pages.

mod extents;

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use thermocline_core::{Nanos, Op, Run};

use crate::RunDetector;
use crate::atomic;
use crate::error::{Position, Reason, TraceError, excerpt};
use crate::request::{PageSize, Request, Requests};
use crate::text::{Fields, integer, pages};

use extents::{Extents, HALVINGS_MAX, Kept};

/// Pages that are sampled together unless told otherwise: 64 KiB of pages of 4 KiB.
const EXTENT_PAGES: u64 = 16;

/// Requests, or parts of them, that a sample keeps unless told otherwise: 80 MiB of them.
const MOST_REQUESTS: usize = 1 << 20;

const _: () = assert!(size_of::<Kept>() == 80, "update the line on memory above");

/// Changes when older programs could misunderstand a saved sample.
const VERSION: u32 = 4;

/// Requests handed over at once.
const BATCH_REQUESTS: usize = 4096;

const COMPRESSION_LEVEL: i32 = 3;

/// Totals of all requests, those outside the sample included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Totals {
    /// Requests.
    pub requests: u64,
    /// Page accesses.
    pub accesses: u64,
    /// Page accesses that write.
    pub writes: u64,
    /// Time of the first one, in nanoseconds.
    pub first_ns: u64,
    /// Time of the last one, in nanoseconds.
    pub last_ns: u64,
}

/// Position of an access among all accesses, those outside the sample included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Page accesses before it.
    pub accesses: u64,
    /// Number of those that write.
    pub writes: u64,
}

impl Place {
    /// Return the place of the access that comes `pages` pages later in a request of this kind.
    const fn after(self, op: Op, pages: u64) -> Self {
        let writes = match op {
            Op::Read => 0,
            Op::Write => pages,
        };
        Self { accesses: self.accesses + pages, writes: self.writes + writes }
    }
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
    extents: Extents,
    runs: RunDetector,
    totals: Totals,
    volume_names: Vec<String>,
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
    /// Create a sample that takes everything until it is full.
    pub fn new(page_size: PageSize, seed: u64) -> Self {
        Self {
            extents: Extents::new(page_size, EXTENT_PAGES, seed, MOST_REQUESTS),
            runs: RunDetector::default(),
            totals: Totals::default(),
            volume_names: vec![],
        }
    }

    /// Set the maximum number of requests, at least one.
    #[must_use]
    pub fn with_most_requests(mut self, most_requests: usize) -> Self {
        self.extents.most_requests = most_requests.max(1);
        self.extents.thin_out();
        self
    }

    /// Set the size of extents in pages, at least one; only before the first request.
    ///
    /// # Panics
    /// If there was a request.
    #[must_use]
    pub fn with_extents(mut self, pages: u64) -> Self {
        assert_eq!(self.totals.requests, 0, "extents are not chosen anew");
        self.extents.extent_pages = pages.max(1);
        self
    }

    /// Return the same, no more of it than this share from the start; rounded down to a power of a
    /// half.
    #[must_use]
    pub fn with_rate_at_most(mut self, rate: f64) -> Self {
        while self.rate() > rate && self.extents.halvings < HALVINGS_MAX {
            self.extents.halve();
        }
        self
    }

    /// Return the share of the extents that is in the sample.
    pub fn rate(&self) -> f64 {
        self.extents.rate()
    }

    /// Return the number of pages that are sampled together.
    pub const fn extent_pages(&self) -> u64 {
        self.extents.extent_pages
    }

    /// Return the totals of all requests.
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Return the size of the pages.
    pub const fn page_size(&self) -> PageSize {
        self.extents.page_size
    }

    /// Return the number of accesses in the sample.
    pub const fn sampled_accesses(&self) -> u64 {
        self.extents.sampled_accesses
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
        let page_size = self.page_size();
        let extent = request.extent.in_one_space(page_size);
        let request = &Request { extent, ..*request };
        let (first, count) = page_size.pages(extent);
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
        // Before the totals count it: a place says how many accesses came before.
        let place = Place { accesses: totals.accesses, writes: totals.writes };
        totals.accesses += count;
        totals.writes += if request.op == Op::Write { count } else { 0 };
        // For every request, also outside the sample: a sample alone cannot tell how long a run
        // was.
        let before = self.runs.note(request.op, request.volume, first, count);
        let kept = Kept { request: *request, before, place };
        self.extents.add(&kept, first, count);
        self.extents.thin_out();
    }

    /// Adds a sample of what came after, as of the next day; times of both are those of one clock.
    ///
    /// # Errors
    /// If pages, extents or seeds differ; neither is changed then.
    pub fn join(&mut self, other: &Self) -> Result<(), Reason> {
        if other.page_size() != self.page_size() {
            let [ours, theirs] = [&*self, other].map(|one| one.page_size().bytes());
            return Err(format!("pages of {theirs} B cannot join pages of {ours} B").into());
        }
        if other.extent_pages() != self.extent_pages() {
            let [ours, theirs] = [&*self, other].map(Self::extent_pages);
            return Err(format!("extents of {theirs} pages cannot join extents of {ours}").into());
        }
        if other.extents.seed != self.extents.seed {
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
        let Totals { accesses, writes, .. } = self.totals;
        self.extents.join(&other.extents, &numbers, Place { accesses, writes });
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
        self.extents.thin_out();
        Ok(())
    }

    /// Return the requests of the sample, from a source of this name.
    pub fn requests<'a>(&'a self, path: &'a Path) -> SampledRequests<'a> {
        let Extents { requests, .. } = &self.extents;
        SampledRequests { requests, volume_names: &self.volume_names, path, next: 0 }
    }

    /// Return the position of each access of the sample among all accesses, in order.
    pub fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.extents.requests.iter().flat_map(|kept| {
            let pages = self.page_size().pages(kept.request.extent).1;
            (0..pages).map(move |page| kept.place.after(kept.request.op, page))
        })
    }

    /// Return the sequential run that each access of the sample ends, in order.
    pub fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.extents.requests.iter().flat_map(|&Kept { request, before, .. }| {
            let pages = self.page_size().pages(request.extent).1;
            (1..=u32::try_from(pages).unwrap_or(u32::MAX)).map(move |page| before.after(page))
        })
    }

    /// Writes the sample to a file, which appears whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), TraceError> {
        let failed = |source| TraceError::Io { path: path.to_owned(), action: "write", source };
        let file = atomic::temporary(path)?;
        self.write(file.as_file()).map_err(failed)?;
        atomic::persist(file, path)
    }

    fn write(&self, file: &File) -> std::io::Result<()> {
        let encoder = zstd::Encoder::new(file, COMPRESSION_LEVEL)?;
        let mut writer = BufWriter::new(encoder);
        let header = Header {
            thermocline_sample: VERSION,
            page_size_bytes: self.page_size().bytes(),
            extent_pages: self.extents.extent_pages,
            seed: self.extents.seed,
            halvings: self.extents.halvings,
            totals: self.totals,
            volume_names: self.volume_names.clone(),
        };
        writeln!(writer, "{}", serde_json::to_string(&header)?)?;
        for line in self.extents.lines() {
            writer.write_all(line.as_bytes())?;
        }
        let encoder = writer.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        encoder.finish().map(drop)
    }

    /// Return `true` if a file begins as a saved sample does; no if it cannot be read.
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
        let mut sample = Self::new(PageSize::new(header.page_size_bytes)?, header.seed)
            .with_extents(header.extent_pages);
        sample.totals = header.totals;
        sample.volume_names = header.volume_names;
        sample.extents.halvings = header.halvings;
        for number in 2.. {
            line.clear();
            if lines.read_line(&mut line).map_err(failed)? == 0 {
                break;
            }
            let kept = sample
                .parsed(line.trim_end())
                .map_err(|reason| malformed(number, reason, &line))?;
            let of = &mut sample.extents;
            of.sampled_accesses += of.page_size.pages(kept.request.extent).1;
            of.requests.push(kept);
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
        let before = Run {
            pages: run("run")?,
            remembered_pages: run("remembered run")?,
            mean_pages: run("mean run")?,
        };
        let accesses = integer(fields.word("count of accesses")?, "count of accesses")?;
        let writes = integer(fields.word("count of writes")?, "count of writes")?;
        fields.end()?;
        if count == 0 {
            return Err("a request addresses a page at least".into());
        }
        let request = Request { at, op, volume, extent: pages(first, count)? };
        Ok(Kept { request, before, place: Place { accesses, writes } })
    }
}

/// The requests of a sample, as a source of requests.
#[derive(Debug)]
pub struct SampledRequests<'a> {
    requests: &'a [Kept],
    volume_names: &'a [String],
    path: &'a Path,
    next: usize,
}

impl Requests for SampledRequests<'_> {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        batch.clear();
        let rest = &self.requests[self.next..];
        batch.extend(rest.iter().take(BATCH_REQUESTS).map(|kept| kept.request));
        self.next += batch.len();
        Ok(!batch.is_empty())
    }

    fn volume_names(&self) -> &[String] {
        self.volume_names
    }

    fn path(&self) -> &Path {
        self.path
    }
}

type Lines = BufReader<zstd::Decoder<'static, BufReader<File>>>;

fn open(path: &Path) -> std::io::Result<Lines> {
    Ok(BufReader::new(zstd::Decoder::new(File::open(path)?)?))
}

/// Maximum length of a header.
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
    use crate::request::Extent;

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

    /// Return the pages of requests one by one.
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

    fn kept_pages(sample: &Extents) -> Vec<(u64, Op, u32, u64)> {
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
            prop_assert!(!sample.extents.is_full());
            let mut place = Place::default();
            let (mut expected, mut places) = (vec![], vec![]);
            for (at, op, volume, page) in pages_of(&requests) {
                if sample.extents.takes(volume, page / EXTENT_PAGES) {
                    expected.push((at, op, volume, page));
                    places.push(place);
                }
                place.accesses += 1;
                place.writes += u64::from(op == Op::Write);
            }
            prop_assert_eq!(kept_pages(&sample.extents), expected);
            prop_assert_eq!(sample.places().collect::<Vec<_>>(), places);
            let mut detector = RunDetector::default();
            let runs: Vec<Run> = requests
                .iter()
                .flat_map(|request| {
                    let (first, count) = PageSize::DEFAULT.pages(request.extent);
                    let before = detector.note(request.op, request.volume, first, count);
                    let pages = (first..first + count).zip(1..);
                    pages.map(|(page, nth)| (request.volume, page, before.after(nth))).collect::<Vec<_>>()
                })
                .filter(|&(volume, page, _)| sample.extents.takes(volume, page / EXTENT_PAGES))
                .map(|(.., run)| run)
                .collect();
            prop_assert!(sample.runs().eq(runs));
            prop_assert_eq!(sample.sampled_accesses(), kept_pages(&sample.extents).len() as u64);
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
            prop_assert_eq!(kept_pages(&one.extents), kept_pages(&whole.extents));
            prop_assert!(one.places().eq(whole.places()));

            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("sample");
            sample.save(&path).unwrap();
            prop_assert!(RunningSample::is_saved(&path));
            let loaded = RunningSample::load(&path).unwrap();
            let loaded = loaded.with_most_requests(most);
            prop_assert_eq!(loaded.extents, sample.extents);
            prop_assert_eq!(loaded.totals, sample.totals);
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
        let found = sample.sampled_accesses() as f64 / sample.totals.accesses as f64;
        assert!((found / rate - 1.0).abs() < 0.2, "{found} of {rate}");
        let path = Path::new("t");
        let trace = CompiledTrace::compile(&mut sample.requests(path), PageSize::DEFAULT).unwrap();
        assert_eq!(trace.len() as u64, sample.sampled_accesses());
    }

    #[test]
    fn what_is_no_sample_is_an_error_with_a_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample");
        let mut sample = RunningSample::new(PageSize::DEFAULT, 1);
        sample.add(&read(5, 7, 1));
        sample.save(&path).unwrap();
        let text = String::from_utf8(zstd::decode_all(File::open(&path).unwrap()).unwrap());
        let text = text.unwrap();
        for (from, to, says) in [
            ("5 r 0 7 1 0 0 0 0 0", "5 r 0 7", "line 2: the count is missing"),
            ("5 r 0 7 1 0 0 0 0 0", "5 r 0 7 1 0", "line 2: the remembered run is missing"),
            ("5 r 0 7 1 0 0 0 0 0", "5 r 0 7 1 0 0", "line 2: the mean run is missing"),
            ("5 r 0 7 1 0 0 0 0 0", "5 r 0 7 1 0 0 0 0", "line 2: the count of writes is missing"),
            ("5 r 0 7 1", "5 x 0 7 1", "line 2: the op is neither R nor W"),
            ("5 r 0 7 1", "5 r 3 7 1", "line 2: the volume has no name"),
            ("7 1 0 0", "7 0 0 0", "line 2: a request addresses a page at least"),
            ("\"thermocline_sample\":4", "\"thermocline_sample\":9", "line 1: another version"),
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
