//! The loops that turn bytes into requests, one for lines and one for fixed-size records.
//!
//! A format supplies only the meaning of one line or record; the loops are compiled once per
//! format, so that reading costs one dynamic call per batch.

use thermocline_core::{Nanos, Op};

use crate::error::{Position, Reason, TraceError, excerpt, hexadecimal};
use crate::input::Input;
use crate::objects::Objects;
use crate::request::{Extent, Request};
use crate::text;
use crate::volumes::Volumes;

/// Requests per batch, about.
pub(crate) const BATCH_REQUESTS: usize = 4096;

/// Plain records that are understood together, at least and at most.
const RUN_RECORDS_MIN: usize = 16;
const RUN_RECORDS_MAX: usize = 256;

/// Longer lines are refused, so that a binary file cannot eat memory.
const LINE_BYTES_MAX: usize = 64 << 10;

/// A line or record stands for at most this many requests.
pub(crate) const REPEATS_MAX: u64 = 1 << 24;

/// Meaning of a line or record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A request.
    Request(Request),
    /// Several requests, at most [`REPEATS_MAX`], each so many nanoseconds after the one before.
    Repeated { request: Request, times: u64, apart_ns: u64 },
    /// A request that is not replayed.
    Skipped(Skip),
    /// The names of the columns.
    Header,
    /// An event that is not a request of the kind wanted.
    OtherEvent,
    /// Part of a summary.
    Summary,
}

/// Reason why a request is not replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skip {
    /// It removes an object, which caches of pages do not do.
    Removal,
    /// The size of the object is unknown, for the cache missed when this was recorded.
    UnknownSize,
    /// No answer to it was seen, so it is not known what it did.
    Unanswered,
    /// The authors of the trace say that such records are to be dropped.
    Invalid,
}

/// The meaning of one line of a text format.
pub(crate) trait TextFormat: Send {
    /// Understands a line, which comes without its end and is neither blank nor a comment.
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason>;

    /// Looks at a comment; returns how many page accesses it says are missing in the trace.
    fn comment(&mut self, _comment: &[u8]) -> u64 {
        0
    }
}

/// The meaning of one record of a binary format.
pub(crate) trait RecordFormat: Send {
    /// Return the size of every record, which must not change.
    fn record_bytes(&self) -> usize;

    /// Return the number of bytes that are before the first record.
    fn header_bytes(&self) -> usize {
        0
    }

    /// `true` if each record is about one object, or none.
    const IS_OF_OBJECTS: bool = false;

    /// Understands a record of `record_bytes()` bytes.
    fn record(&mut self, record: &[u8], volumes: &mut Volumes) -> Result<Line, Reason>;

    /// `true` if [`plain`](Self::plain) knows any record.
    const HAS_PLAIN: bool = false;

    /// Understands a record that is one request, to a volume that [`record`](Self::record) has met:
    /// returns the request and `true`. Any other record has `false` beside a request without meaning, and
    /// is left to `record`.
    ///
    /// The loop calls it for many records in a row, so it should not branch on what they contain.
    fn plain(&self, _record: &[u8]) -> (Request, bool) {
        let extent = Extent::Pages { first: 0, count: 0 };
        (Request { at: Nanos(0), op: Op::Read, volume: 0, extent }, false)
    }
}

/// Counts of the contents besides requests: everything that is skipped is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ReadCounts {
    /// Requests, of length zero too.
    pub requests: u64,
    /// Requests that address nothing.
    pub zero_length_requests: u64,
    /// Lines with column names.
    pub header_lines: u64,
    /// Lines that begin with `#`.
    pub comment_lines: u64,
    /// Page accesses that the trace says it lacks; their lines count as comments too.
    pub missing_accesses: u64,
    /// Lines with nothing but blanks.
    pub blank_lines: u64,
    /// Lines of a summary, as at the end of `blkparse` text.
    pub summary_lines: u64,
    /// Requests that remove an object; they are not replayed, like those of the next three counts.
    pub removals: u64,
    /// Requests to objects whose size is unknown.
    pub unknown_sizes: u64,
    /// Requests without an answer, of which it is not known what they did.
    pub unanswered_requests: u64,
    /// Requests that contradict themselves in a way that the trace's authors know.
    pub invalid_requests: u64,
    /// Lines or records about something else: other actions, opened files, other commands.
    pub other_events: u64,
    /// Bytes of an incomplete last line or record that was dropped because truncation is allowed.
    pub torn_bytes: u64,
}

impl ReadCounts {
    /// Adds what was seen in another part.
    pub(crate) const fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.zero_length_requests += other.zero_length_requests;
        self.header_lines += other.header_lines;
        self.comment_lines += other.comment_lines;
        self.missing_accesses += other.missing_accesses;
        self.blank_lines += other.blank_lines;
        self.summary_lines += other.summary_lines;
        self.removals += other.removals;
        self.unknown_sizes += other.unknown_sizes;
        self.unanswered_requests += other.unanswered_requests;
        self.invalid_requests += other.invalid_requests;
        self.other_events += other.other_events;
        self.torn_bytes += other.torn_bytes;
    }

    const fn skip(&mut self, skip: Skip) {
        let count = match skip {
            Skip::Removal => &mut self.removals,
            Skip::UnknownSize => &mut self.unknown_sizes,
            Skip::Unanswered => &mut self.unanswered_requests,
            Skip::Invalid => &mut self.invalid_requests,
        };
        *count += 1;
    }
}

/// State that reading accumulates in every format.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) volumes: Volumes,
    pub(crate) counts: ReadCounts,
    /// Lines or records understood so far.
    number: u64,
    objects: Objects,
    /// `true` if there was a request to an object with a size.
    has_objects: bool,
}

impl State {
    /// Create the state before the record of this number, the first being 0.
    pub(crate) fn at_record(number: u64, objects: Objects) -> Self {
        Self { number, objects, ..Self::default() }
    }

    /// Return the rule by which objects get pages.
    pub(crate) const fn objects(&self) -> Objects {
        self.objects
    }

    /// Return `true` if there was a request to an object with a size.
    pub(crate) const fn has_objects(&self) -> bool {
        self.has_objects
    }

    pub(crate) const fn volumes_mut(&mut self) -> &mut Volumes {
        &mut self.volumes
    }

    /// Return the number of lines, records or rows parsed so far.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Counts a row and adds its requests.
    #[inline]
    pub(crate) fn add_row(
        &mut self,
        line: Result<Line, Reason>,
        batch: &mut Vec<Request>,
    ) -> Result<(), Reason> {
        self.number += 1;
        self.add(line?, batch)
    }

    #[inline]
    fn add(&mut self, line: Line, batch: &mut Vec<Request>) -> Result<(), Reason> {
        match line {
            Line::Request(request) => {
                let request = self.request(request)?;
                self.counts.requests += 1;
                self.counts.zero_length_requests += u64::from(request.extent.is_empty());
                batch.push(request);
            }
            Line::Repeated { request, times, apart_ns } => {
                return self.add_repeated(request, times, apart_ns, batch);
            }
            Line::Skipped(skip) => self.counts.skip(skip),
            Line::Header => self.counts.header_lines += 1,
            Line::OtherEvent => self.counts.other_events += 1,
            Line::Summary => self.counts.summary_lines += 1,
        }
        Ok(())
    }

    #[inline(never)]
    fn add_repeated(
        &mut self,
        mut request: Request,
        times: u64,
        apart_ns: u64,
        batch: &mut Vec<Request>,
    ) -> Result<(), Reason> {
        if times == 0 || times > REPEATS_MAX {
            return Err(format!("the number of requests is not from 1 to {REPEATS_MAX}").into());
        }
        for _ in 0..times {
            self.add(Line::Request(request), batch)?;
            request.at.0 = request.at.0.saturating_add(apart_ns);
        }
        Ok(())
    }

    /// Adds the requests of the plain records with which `bytes` begin; returns how many there are.
    fn add_plain<F: RecordFormat, const AS_ONE_PAGE: bool>(
        &mut self,
        format: &F,
        bytes: &[u8],
        batch: &mut Vec<Request>,
    ) -> usize {
        let wanted = |record: &[u8]| {
            let (mut request, mut is_plain) = format.plain(record);
            if AS_ONE_PAGE && let Extent::Object { id, .. } = request.extent {
                is_plain &= id != u64::MAX;
                request.extent = Extent::Pages { first: id, count: 1 };
            }
            (request, is_plain)
        };
        let records = bytes.chunks_exact(format.record_bytes());
        let (count, before) = (records.len(), batch.len());
        let (mut are_plain, mut empty) = (true, 0);
        batch.extend(records.clone().map(|record| {
            let (request, is_plain) = wanted(record);
            are_plain &= is_plain;
            empty += u64::from(request.extent.is_empty());
            request
        }));
        if !are_plain {
            batch.truncate(before);
            let plain_bytes = records.take_while(|record| wanted(record).1).map(<[u8]>::len).sum();
            return match plain_bytes {
                0 => 0,
                _ => self.add_plain::<F, AS_ONE_PAGE>(format, &bytes[..plain_bytes], batch),
            };
        }
        self.number += count as u64;
        self.counts.requests += count as u64;
        self.counts.zero_length_requests += empty;
        self.has_objects |= F::IS_OF_OBJECTS;
        count
    }

    /// Return a request in the wanted form.
    #[inline]
    fn request(&mut self, mut request: Request) -> Result<Request, Reason> {
        if let Extent::Object { id, .. } = request.extent {
            self.has_objects = true;
            if self.objects == Objects::One {
                request.extent = text::page_of_object(id)?;
            }
        }
        Ok(request)
    }
}

/// A format's loop.
pub(crate) trait Decoder: Send {
    /// Appends about `BATCH_REQUESTS` requests to `batch`; fewer at the end of the file only.
    fn decode(
        &mut self,
        input: &mut Input,
        state: &mut State,
        batch: &mut Vec<Request>,
    ) -> Result<(), TraceError>;

    /// Return the size of every record, if all are of one size, none depends on those before it,
    /// and the file is nothing but records: then a file can be read from the middle.
    fn record_bytes(&self) -> Option<usize> {
        None
    }

    /// Return `true` if each record is about one object, or none.
    fn is_of_objects(&self) -> bool {
        false
    }
}

/// The loop over lines.
pub(crate) struct Lines<F>(pub(crate) F);

impl<F: TextFormat> Decoder for Lines<F> {
    fn decode(
        &mut self,
        input: &mut Input,
        state: &mut State,
        batch: &mut Vec<Request>,
    ) -> Result<(), TraceError> {
        while batch.len() < BATCH_REQUESTS {
            let bytes = input.available();
            let mut begin = 0;
            let mut failure = None;
            while batch.len() < BATCH_REQUESTS
                && let Some(length) = memchr::memchr(b'\n', &bytes[begin..])
            {
                let line = &bytes[begin..begin + length];
                begin += length + 1;
                if let Err(reason) = self.one(line, state, batch) {
                    failure = Some((reason, excerpt(line)));
                    break;
                }
            }
            let left_bytes = bytes.len() - begin;
            input.consume(begin);
            if let Some((reason, text)) = failure {
                return Err(malformed(input, Position::Line(state.number), reason, text));
            }
            if batch.len() >= BATCH_REQUESTS {
                return Ok(());
            }
            if left_bytes > LINE_BYTES_MAX {
                let text = excerpt(input.available());
                let reason = "the line is longer than 64 KiB".into();
                return Err(malformed(input, Position::Line(state.number + 1), reason, text));
            }
            if !input.fill()? {
                return self.last(input, state, batch);
            }
        }
        Ok(())
    }
}

impl<F: TextFormat> Lines<F> {
    #[inline]
    fn one(
        &mut self,
        line: &[u8],
        state: &mut State,
        batch: &mut Vec<Request>,
    ) -> Result<(), Reason> {
        state.number += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = if state.number == 1 { text::without_byte_order_mark(line) } else { line };
        match line.first() {
            Some(b'#') => {
                state.counts.comment_lines += 1;
                state.counts.missing_accesses += self.0.comment(line);
            }
            None => state.counts.blank_lines += 1,
            Some(b' ' | b'\t') if text::is_blank_line(line) => state.counts.blank_lines += 1,
            Some(_) => {
                let line = self.0.line(line, &mut state.volumes)?;
                state.add(line, batch)?;
            }
        }
        Ok(())
    }

    /// Parse the text after the last line end.
    fn last(
        &mut self,
        input: &mut Input,
        state: &mut State,
        batch: &mut Vec<Request>,
    ) -> Result<(), TraceError> {
        let line = input.available();
        let length = line.len();
        if length > 0 && input.is_truncated() {
            state.counts.torn_bytes += length as u64;
        } else if length > 0
            && let Err(reason) = self.one(line, state, batch)
        {
            let text = excerpt(line);
            return Err(malformed(input, Position::Line(state.number), reason, text));
        }
        input.consume(length);
        Ok(())
    }
}

/// The loop over fixed-size records.
pub(crate) struct Records<F>(pub(crate) F);

impl<F: RecordFormat> Decoder for Records<F> {
    fn record_bytes(&self) -> Option<usize> {
        (self.0.header_bytes() == 0).then(|| self.0.record_bytes())
    }

    fn is_of_objects(&self) -> bool {
        F::IS_OF_OBJECTS
    }

    fn decode(
        &mut self,
        input: &mut Input,
        state: &mut State,
        batch: &mut Vec<Request>,
    ) -> Result<(), TraceError> {
        let record_bytes = self.0.record_bytes();
        if state.number == 0 && self.0.header_bytes() > 0 {
            self.skip_header(input)?;
        }
        while batch.len() < BATCH_REQUESTS {
            let bytes = input.available();
            let whole_bytes = bytes.len() - bytes.len() % record_bytes;
            let wanted_bytes = (BATCH_REQUESTS - batch.len()) * record_bytes;
            let bytes = &bytes[..whole_bytes.min(wanted_bytes)];
            let consumed_bytes = bytes.len();
            if let Err((reason, text)) = self.records(bytes, state, batch) {
                return Err(malformed(input, self.position(state.number), reason, text));
            }
            input.consume(consumed_bytes);
            if consumed_bytes == 0 && !input.fill()? {
                return self.last(input, state);
            }
        }
        Ok(())
    }
}

impl<F: RecordFormat> Records<F> {
    /// Understands whole records: plain ones in runs, others one by one. A run that meets another record
    /// is decoded twice up to it, so runs begin short after one and grow from there.
    fn records(
        &mut self,
        bytes: &[u8],
        state: &mut State,
        batch: &mut Vec<Request>,
    ) -> Result<(), (Reason, String)> {
        let record_bytes = self.0.record_bytes();
        let (mut rest, mut run_records) = (bytes, RUN_RECORDS_MIN);
        while !rest.is_empty() {
            if F::HAS_PLAIN {
                let run = &rest[..rest.len().min(run_records * record_bytes)];
                let plain = match state.objects {
                    Objects::Pages => state.add_plain::<F, false>(&self.0, run, batch),
                    Objects::One => state.add_plain::<F, true>(&self.0, run, batch),
                };
                rest = &rest[plain * record_bytes..];
                if plain * record_bytes == run.len() {
                    run_records = RUN_RECORDS_MAX.min(2 * run_records);
                    continue;
                }
                run_records = RUN_RECORDS_MIN;
            }
            let slow_bytes = rest.len().min(RUN_RECORDS_MIN * record_bytes);
            let (slow, later) = rest.split_at(slow_bytes);
            for record in slow.chunks_exact(record_bytes) {
                state.number += 1;
                let line = self.0.record(record, &mut state.volumes);
                line.and_then(|line| state.add(line, batch))
                    .map_err(|reason| (reason, hexadecimal(record)))?;
            }
            rest = later;
        }
        Ok(())
    }

    /// Passes over the header, which the decoder was made of.
    fn skip_header(&self, input: &mut Input) -> Result<(), TraceError> {
        let header_bytes = self.0.header_bytes();
        if input.offset_bytes() > 0 {
            return Ok(());
        }
        input.fill_to(header_bytes)?;
        let found = input.available().len();
        if found < header_bytes {
            return Err(TraceError::Truncated {
                path: input.path().to_owned(),
                position: Position::Offset(found as u64),
                reason: format!("the header has {found} of {header_bytes} bytes"),
            });
        }
        input.consume(header_bytes);
        Ok(())
    }

    /// Parse the bytes after the last whole record.
    fn last(&self, input: &mut Input, state: &mut State) -> Result<(), TraceError> {
        let torn_bytes = input.available().len();
        if torn_bytes == 0 {
            return Ok(());
        }
        if !input.allows_truncated() {
            let record_bytes = self.0.record_bytes();
            return Err(TraceError::Truncated {
                path: input.path().to_owned(),
                position: self.position(state.number + 1),
                reason: format!("the last record has {torn_bytes} of {record_bytes} bytes"),
            });
        }
        state.counts.torn_bytes += torn_bytes as u64;
        input.consume(torn_bytes);
        Ok(())
    }

    fn position(&self, number: u64) -> Position {
        let offset_bytes =
            self.0.header_bytes() as u64 + (number - 1) * self.0.record_bytes() as u64;
        Position::Record { number, offset_bytes }
    }
}

#[cold]
fn malformed(input: &Input, position: Position, reason: Reason, text: String) -> TraceError {
    TraceError::Malformed { path: input.path().to_owned(), position, reason, text }
}
