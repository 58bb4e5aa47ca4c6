//! Turning requests into page accesses with dense page ids.
//!
//! One pass in bounded steps: a few batches of requests, groups of page keys, ids. It holds the columns
//! of the compiled trace and one table slot per distinct page, never the file.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::{iter, panic, thread};

use thermocline_core::{Clients, Nanos, Op};

use crate::compiled::{CompiledTrace, Summary};
use crate::error::TraceError;
use crate::id_map::{Full, GROUP_KEYS, IdMap, Key, WRITE_BIT};
use crate::objects::Planes;
use crate::request::{Extent, PageSize, REQUEST_PAGES_MAX, Request, Requests};

/// Number of batches that are read before they are asked for.
const BATCHES_AHEAD: usize = 4;

/// A compiled trace has at most this many distinct pages.
pub(crate) const FOOTPRINT_PAGES_MAX: u32 = 1 << 31;

const TOO_MANY_PAGES: &str = "more than 2^31 distinct pages";

/// Volumes begin at multiples of this many pages, so that no aligned group spans two of them.
const VOLUME_ALIGN_PAGES: u64 = 1 << 20;

impl CompiledTrace {
    /// Splits all requests of `source` into accesses to pages of `page_size`.
    ///
    /// Requests of length zero are counted in the [summary](CompiledTrace::summary) and have no
    /// accesses. Requests that number pages keep them whatever the page size is.
    ///
    /// # Errors
    /// If the source fails, no request addresses anything, a request is longer than 2^24 pages, or
    /// there are more than 2^31 distinct pages.
    pub fn compile<R: Requests + ?Sized>(
        source: &mut R,
        page_size: PageSize,
    ) -> Result<Self, TraceError> {
        Self::compile_limited(source, page_size, FOOTPRINT_PAGES_MAX)
    }

    /// Return the same while another thread reads ahead: sooner done where reading takes as long as
    /// the rest.
    ///
    /// # Errors
    /// As for [`compile`](Self::compile).
    pub fn compile_reading_ahead<R: Requests + Send>(
        source: &mut R,
        page_size: PageSize,
    ) -> Result<Self, TraceError> {
        Self::compile_telling(source, page_size, |_| ())
    }

    /// Compile as `compile` does, and report all accesses in order, in parts, as soon as their
    /// pages have ids: each is as in [`packed`](Self::packed).
    ///
    /// # Errors
    /// As for [`compile`](Self::compile).
    pub fn compile_telling<R: Requests + Send>(
        source: &mut R,
        page_size: PageSize,
        mut tell: impl FnMut(&[u32]),
    ) -> Result<Self, TraceError> {
        let mut told = 0;
        let mut compiler = Compiler::new(source.path(), page_size, FOOTPRINT_PAGES_MAX);
        let (send, batches) = mpsc::sync_channel(BATCHES_AHEAD);
        let (give_back, used) = mpsc::channel();
        // The channel is bounded, so a fast reader never has more than a few batches in memory.
        thread::scope(|scope| {
            let from: &mut R = source;
            let reader = scope.spawn(move || read_all(from, &send, &used));
            let done = batches.iter().try_for_each(|batch: Vec<Request>| {
                batch.iter().try_for_each(|request| compiler.request(request, 0))?;
                tell(&compiler.packed[told..]);
                told = compiler.packed.len();
                // A reader that has come to its end wants none.
                drop(give_back.send(batch));
                Ok(())
            });
            // A reader that goes on is told so by this.
            drop(batches);
            let read = reader.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
            done.and(read)
        })?;
        let trace = compiler.finish(source.volume_names(), Clients::ONE)?;
        tell(&trace.packed[told..]);
        Ok(trace)
    }

    fn compile_limited<R: Requests + ?Sized>(
        source: &mut R,
        page_size: PageSize,
        limit_pages: u32,
    ) -> Result<Self, TraceError> {
        let mut compiler = Compiler::new(source.path(), page_size, limit_pages);
        let mut batch = Vec::new();
        while source.read_batch(&mut batch)? {
            for request in &batch {
                compiler.request(request, 0)?;
            }
        }
        compiler.finish(source.volume_names(), Clients::ONE)
    }
}

/// Sends all batches of a source, in those that were used if there are any, as long as they are wanted.
fn read_all<R: Requests>(
    source: &mut R,
    send: &SyncSender<Vec<Request>>,
    used: &Receiver<Vec<Request>>,
) -> Result<(), TraceError> {
    loop {
        let mut batch = used.try_recv().unwrap_or_default();
        if !source.read_batch(&mut batch)? || send.send(batch).is_err() {
            return Ok(());
        }
    }
}

/// Turns requests into the columns of a compiled trace.
pub(crate) struct Compiler {
    path: PathBuf,
    page_size: PageSize,
    ids: IdMap,
    /// Keys that wait for their group to be full.
    group: Vec<Key>,
    packed: Vec<u32>,
    /// Arrival time of each request; empty while all came at 0.
    at_ns: Vec<u64>,
    /// Number of accesses each request has; empty while each has one.
    counts: Vec<u32>,
    /// Client that makes each access; empty while all are client 0's.
    access_clients: Vec<u8>,
    /// Number of bytes each access asks for, if the requests are to objects; else empty.
    access_bytes: Vec<u32>,
    /// The places of pages in objects, if the requests are to objects.
    planes: Option<Planes>,
    /// End of each volume's last request; `u64::MAX`, where none can begin, before that.
    ends: Vec<u64>,
    previous_at: Nanos,
    summary: Summary,
}

impl Compiler {
    pub(crate) fn new(path: &Path, page_size: PageSize, limit_pages: u32) -> Self {
        Self {
            path: path.to_owned(),
            page_size,
            ids: IdMap::new(limit_pages),
            group: Vec::with_capacity(GROUP_KEYS),
            packed: Vec::new(),
            at_ns: Vec::new(),
            counts: Vec::new(),
            access_clients: Vec::new(),
            access_bytes: Vec::new(),
            planes: None,
            ends: Vec::new(),
            previous_at: Nanos(0),
            summary: Summary::default(),
        }
    }

    /// Adds a request of a client.
    #[inline]
    pub(crate) fn request(&mut self, request: &Request, client: u8) -> Result<(), TraceError> {
        let (first, count) = self.page_size.pages(request.extent);
        if count == 0 {
            self.summary.zero_length_requests += 1;
            return Ok(());
        }
        let is_object = matches!(request.extent, Extent::Object { .. });
        if count > REQUEST_PAGES_MAX || is_object && first > REQUEST_PAGES_MAX - count {
            return Err(self.too_long());
        }
        let accesses = u32::try_from(count).expect("at most 2^24");
        self.summarize(request, accesses);
        // Most traces have one client: the column does not exist until another one comes, and is
        // then filled for all before it.
        if client != 0 || !self.access_clients.is_empty() {
            self.access_clients.resize(self.packed.len() + self.group.len(), 0);
            self.access_clients.extend(iter::repeat_n(client, accesses as usize));
        }
        let write_bit = match request.op {
            Op::Read => 0,
            Op::Write => WRITE_BIT,
        };
        if let Extent::Object { id, .. } = request.extent {
            return self.object(id, request, first..first + count, write_bit);
        }
        if self.planes.is_some() {
            return Err(self.limit("requests to objects and to addresses in one trace"));
        }
        for page in first..first + count {
            self.group.push(Key { page, volume: request.volume, write_bit });
            if self.group.len() == GROUP_KEYS {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Adds the accesses of a request to an object.
    fn object(
        &mut self,
        id: u64,
        request: &Request,
        pages: Range<u64>,
        write_bit: u32,
    ) -> Result<(), TraceError> {
        let begins = self.packed.len() + self.group.len();
        if self.access_bytes.len() < begins {
            return Err(self.limit("requests to objects and to addresses in one trace"));
        }
        let planes = self.planes.get_or_insert_default();
        for page in pages.clone() {
            let page = u32::try_from(page).expect("at most 2^24");
            let plane = planes.number(request.volume, page);
            self.group.push(Key { page: id, volume: plane, write_bit });
            if self.group.len() == GROUP_KEYS {
                let resolved = self.ids.resolve(&self.group, &mut self.packed);
                self.group.clear();
                resolved.map_err(|Full| limit(&self.path, TOO_MANY_PAGES))?;
            }
        }
        self.access_bytes.extend(pages.map(|page| bytes_of(request.extent, page, self.page_size)));
        Ok(())
    }

    /// Notes everything about a request but its accesses.
    #[inline]
    fn summarize(&mut self, request: &Request, count: u32) {
        let Request { at, op, volume, extent } = *request;
        let summary = &mut self.summary;
        let index = usize::try_from(summary.requests).expect("requests have accesses in memory");
        if index == 0 {
            (summary.first_at, summary.last_at) = (at, at);
        }
        if at.0 != 0 || !self.at_ns.is_empty() {
            self.at_ns.resize(index, 0);
            self.at_ns.push(at.0);
        }
        if count != 1 || !self.counts.is_empty() {
            self.counts.resize(index, 1);
            self.counts.push(count);
        }
        summary.requests += 1;
        summary.write_requests += u64::from(op == Op::Write);
        let length_bytes = match extent {
            Extent::Bytes { length, .. } | Extent::Object { length, .. } => length,
            Extent::Pages { .. } => u64::from(count) * self.page_size.bytes(),
        };
        match op {
            Op::Read => summary.read_bytes = summary.read_bytes.saturating_add(length_bytes),
            Op::Write => summary.write_bytes = summary.write_bytes.saturating_add(length_bytes),
        }
        summary.time_reversals += u64::from(at < self.previous_at);
        self.previous_at = at;
        // Not the first request's time: recordings may go back in time.
        summary.first_at = summary.first_at.min(at);
        summary.last_at = summary.last_at.max(at);
        let volume = volume as usize;
        if volume >= self.ends.len() {
            self.ends.resize(volume + 1, u64::MAX);
        }
        // Per volume: requests of several volumes come interleaved, and each may be a sequential
        // stream.
        summary.sequential_requests += u64::from(self.ends[volume] == extent.start());
        self.ends[volume] = extent.end();
    }

    fn flush(&mut self) -> Result<(), TraceError> {
        let resolved = self.ids.resolve(&self.group, &mut self.packed);
        self.group.clear();
        resolved.map_err(|Full| self.limit(TOO_MANY_PAGES))
    }

    /// Return the trace of all requests so far.
    pub(crate) fn finish(
        mut self,
        volume_names: &[String],
        clients: Clients,
    ) -> Result<CompiledTrace, TraceError> {
        self.flush()?;
        if self.packed.is_empty() {
            return Err(self.limit("no request addresses anything: all have length zero"));
        }
        let ids = std::mem::replace(&mut self.ids, IdMap::new(0));
        let (mut pages, mut volumes) = ids.into_columns();
        if let Some(planes) = &self.planes {
            let Some(objects) = planes.number_pages(&mut pages, &mut volumes) else {
                return Err(self.limit("more than 2^31 distinct objects"));
            };
            self.summary.objects = objects;
        }
        let page_bytes = self.page_size.bytes();
        // A column that says nothing is left empty, as in files; then byte hit ratios equal hit
        // ratios.
        if self.access_bytes.iter().all(|&bytes| u64::from(bytes) == page_bytes) {
            self.access_bytes = Vec::new();
        }
        let Some(volume_bases) = place(&mut pages, &volumes, volume_names.len()) else {
            return Err(self.limit("the volumes side by side need more than 2^64 pages"));
        };
        self.packed.shrink_to_fit();
        self.at_ns.shrink_to_fit();
        self.counts.shrink_to_fit();
        self.access_clients.shrink_to_fit();
        self.access_bytes.shrink_to_fit();
        Ok(CompiledTrace {
            path: self.path,
            page_size: self.page_size,
            packed: self.packed.into(),
            at_ns: self.at_ns.into(),
            counts: self.counts.into(),
            access_clients: self.access_clients.into(),
            access_bytes: self.access_bytes.into(),
            clients,
            page_numbers: pages.into(),
            volume_bases,
            volume_names: volume_names.to_vec(),
            summary: self.summary,
            foresight: OnceLock::new(),
            mapping: None,
        })
    }

    #[cold]
    fn too_long(&self) -> TraceError {
        TraceError::Request {
            path: self.path.clone(),
            request: self.summary.requests + self.summary.zero_length_requests + 1,
            reason: format!(
                "longer than 2^24 pages of {} B, or a part of an object that is",
                self.page_size.bytes()
            ),
        }
    }

    #[cold]
    fn limit(&self, reason: &str) -> TraceError {
        limit(&self.path, reason)
    }
}

#[cold]
fn limit(path: &Path, reason: &str) -> TraceError {
    TraceError::Limit { path: path.to_owned(), reason: reason.to_owned() }
}

/// Return the number of an extent's bytes that lie in one of its pages.
fn bytes_of(extent: Extent, page: u64, page_size: PageSize) -> u32 {
    let begin = page * page_size.bytes();
    let (Extent::Bytes { offset, length } | Extent::Object { offset, length, .. }) = extent else {
        return u32::try_from(page_size.bytes()).expect("at most 16 MiB");
    };
    let end = (offset + length).min(begin + page_size.bytes());
    u32::try_from(end - offset.max(begin)).expect("at most a page")
}

/// Puts volumes one after the other, aligned, with at least one page between them, and turns page
/// numbers within volumes into global ones. Returns where the volumes begin, or `None` if they do
/// not fit. A single volume stays where it is.
pub(crate) fn place(pages: &mut [u64], volumes: &[u32], volume_count: usize) -> Option<Vec<u64>> {
    let mut span_pages = vec![0_u64; volume_count.max(1)];
    for (index, &page) in pages.iter().enumerate() {
        let volume = volumes.get(index).map_or(0, |&volume| volume as usize);
        // The largest page number that can occur is 2^64 - 2.
        span_pages[volume] = span_pages[volume].max(page + 1);
    }
    let mut bases = vec![0_u64];
    for span in &span_pages[..span_pages.len() - 1] {
        let end = bases.last()?.checked_add(*span)?.checked_add(1)?;
        bases.push(end.checked_next_multiple_of(VOLUME_ALIGN_PAGES)?);
    }
    bases.last()?.checked_add(*span_pages.last()?)?;
    if !volumes.is_empty() {
        for (page, &volume) in pages.iter_mut().zip(volumes) {
            *page += bases[volume as usize];
        }
    }
    Some(bases)
}

#[cfg(test)]
pub(crate) mod tests;
