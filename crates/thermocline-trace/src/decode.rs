//! The loops that turn bytes into requests, one for lines and one for fixed-size records.
//!
//! A format supplies only the meaning of one line or record; the loops are compiled once per
//! format, so that reading costs one dynamic call per batch.

use crate::error::{Position, Reason, TraceError, excerpt, hexadecimal};
use crate::input::Input;
use crate::request::Request;
use crate::text;
use crate::volumes::Volumes;

/// Requests per batch, about.
pub(crate) const BATCH_REQUESTS: usize = 4096;

/// Longer lines are refused, so that a binary file cannot eat memory.
const LINE_BYTES_MAX: usize = 64 << 10;

/// What a line or record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A request.
    Request(Request),
    /// The names of the columns.
    Header,
    /// An event that is not a request of the kind wanted.
    OtherEvent,
    /// Part of a summary.
    Summary,
}

/// The meaning of one line of a text format.
pub(crate) trait TextFormat: Send {
    /// Understands a line, which comes without its end and is neither blank nor a comment.
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason>;

    /// Page accesses that are missing in the trace as a comment says.
    fn missing_accesses(&self, _comment: &[u8]) -> u64 {
        0
    }
}

/// The meaning of one record of a binary format.
pub(crate) trait RecordFormat: Send {
    /// The size of every record.
    const RECORD_BYTES: usize;

    /// The most pages that a record can ask for, whatever their size, if there is such a number.
    const RECORD_PAGES_MAX: Option<u64> = None;

    /// Understands a record of `RECORD_BYTES` bytes.
    fn record(&mut self, record: &[u8], volumes: &mut Volumes) -> Result<Line, Reason>;
}

/// What was seen so far besides requests: nothing is skipped without being counted.
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
        self.other_events += other.other_events;
        self.torn_bytes += other.torn_bytes;
    }

    #[inline]
    fn add(&mut self, line: Line, batch: &mut Vec<Request>) {
        match line {
            Line::Request(request) => {
                self.requests += 1;
                self.zero_length_requests += u64::from(request.extent.is_empty());
                batch.push(request);
            }
            Line::Header => self.header_lines += 1,
            Line::OtherEvent => self.other_events += 1,
            Line::Summary => self.summary_lines += 1,
        }
    }
}

/// What reading accumulates, whatever the format.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) volumes: Volumes,
    pub(crate) counts: ReadCounts,
    /// Lines or records understood so far.
    number: u64,
}

impl State {
    /// Before the record of this number, the first being 0.
    pub(crate) fn at_record(number: u64) -> Self {
        Self { number, ..Self::default() }
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

    /// The size of every record, if all are of one size, none depends on those before it, and the file is
    /// nothing but records: then a file can be read from the middle.
    fn record_bytes(&self) -> Option<usize> {
        None
    }

    /// The most pages that a record can ask for, whatever their size, if there is such a number.
    fn record_pages_max(&self) -> Option<u64> {
        None
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
        match line.first() {
            Some(b'#') => {
                state.counts.comment_lines += 1;
                state.counts.missing_accesses += self.0.missing_accesses(line);
            }
            None => state.counts.blank_lines += 1,
            Some(b' ' | b'\t') if text::is_blank_line(line) => state.counts.blank_lines += 1,
            Some(_) => state.counts.add(self.0.line(line, &mut state.volumes)?, batch),
        }
        Ok(())
    }

    /// What follows the last line end.
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
        Some(F::RECORD_BYTES)
    }

    fn record_pages_max(&self) -> Option<u64> {
        F::RECORD_PAGES_MAX
    }

    fn decode(
        &mut self,
        input: &mut Input,
        state: &mut State,
        batch: &mut Vec<Request>,
    ) -> Result<(), TraceError> {
        while batch.len() < BATCH_REQUESTS {
            let bytes = input.available();
            let whole_bytes = bytes.len() - bytes.len() % F::RECORD_BYTES;
            let wanted_bytes = (BATCH_REQUESTS - batch.len()) * F::RECORD_BYTES;
            let bytes = &bytes[..whole_bytes.min(wanted_bytes)];
            let mut failure = None;
            for record in bytes.chunks_exact(F::RECORD_BYTES) {
                state.number += 1;
                match self.0.record(record, &mut state.volumes) {
                    Ok(line) => state.counts.add(line, batch),
                    Err(reason) => {
                        failure = Some((reason, hexadecimal(record)));
                        break;
                    }
                }
            }
            let consumed_bytes = bytes.len();
            if let Some((reason, text)) = failure {
                return Err(malformed(input, record_position::<F>(state.number), reason, text));
            }
            input.consume(consumed_bytes);
            if consumed_bytes == 0 && !input.fill()? {
                return last_record::<F>(input, state);
            }
        }
        Ok(())
    }
}

/// What follows the last whole record.
fn last_record<F: RecordFormat>(input: &mut Input, state: &mut State) -> Result<(), TraceError> {
    let torn_bytes = input.available().len();
    if torn_bytes == 0 {
        return Ok(());
    }
    if !input.allows_truncated() {
        return Err(TraceError::Truncated {
            path: input.path().to_owned(),
            position: record_position::<F>(state.number + 1),
            reason: format!("the last record has {torn_bytes} of {} bytes", F::RECORD_BYTES),
        });
    }
    state.counts.torn_bytes += torn_bytes as u64;
    input.consume(torn_bytes);
    Ok(())
}

const fn record_position<F: RecordFormat>(number: u64) -> Position {
    Position::Record { number, offset_bytes: (number - 1) * F::RECORD_BYTES as u64 }
}

#[cold]
fn malformed(input: &Input, position: Position, reason: Reason, text: String) -> TraceError {
    TraceError::Malformed { path: input.path().to_owned(), position, reason, text }
}
