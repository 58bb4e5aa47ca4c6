//! Helpers that the tests of all formats share: one way to read a few lines, one way to show their
//! meaning.

use std::io::Cursor;

use thermocline_core::random::SplitMix64;
use thermocline_core::{Nanos, Op};

use crate::decode::{Decoder as _, Line, RecordFormat, Records, State};
use crate::error::Reason;
use crate::volumes::Volumes;
use crate::{
    Extent, FormatName, Input, Objects, ReadCounts, ReadOptions, Reader, Request, Requests,
    TraceError,
};

pub(crate) const fn bytes(offset: u64, length: u64) -> Extent {
    Extent::Bytes { offset, length }
}

pub(crate) const fn pages(first: u64, count: u64) -> Extent {
    Extent::Pages { first, count }
}

pub(crate) const fn object(id: u64, offset: u64, length: u64) -> Extent {
    Extent::Object { id, offset, length }
}

/// Check that objects have the `expected` ids; those of keys get these in order of appearance.
#[track_caller]
pub(crate) fn check_keys(format: FormatName, lines: &str, expected: &[Request]) {
    let (mut all, _) = drain(format, lines.as_bytes()).unwrap();
    let mut known = vec![];
    for request in &mut all {
        let (Extent::Object { id, .. } | Extent::Pages { first: id, .. }) = &mut request.extent
        else {
            panic!("a request to an object: {request:?}");
        };
        let place = known.iter().position(|one| one == id).unwrap_or_else(|| {
            known.push(*id);
            known.len() - 1
        });
        *id = place as u64;
    }
    assert_eq!(all, expected);
    let reader = Reader::from_read("t", Cursor::new(lines.to_owned()), &ReadOptions::default());
    assert_eq!(reader.unwrap().format(), format, "the format is recognised");
}

pub(crate) const fn read(at_ns: u64, volume: u32, extent: Extent) -> Request {
    extent.at(at_ns, Op::Read, volume)
}

impl Extent {
    pub(crate) const fn at(self, at_ns: u64, op: Op, volume: u32) -> Request {
        Request { at: Nanos(at_ns), op, volume, extent: self }
    }
}

pub(crate) fn drain(
    format: FormatName,
    content: &[u8],
) -> Result<(Vec<Request>, Reader), TraceError> {
    let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
    let mut reader = Reader::from_read("test", Cursor::new(content.to_vec()), &options)?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.read_batch(&mut batch)? {
        all.append(&mut batch);
    }
    Ok((all, reader))
}

/// Check that the content means `expected`, and its format is recognised.
#[track_caller]
pub(crate) fn check_bytes(format: FormatName, content: &[u8], expected: &[Request]) {
    let (all, _) = drain(format, content).unwrap();
    assert_eq!(all, expected);
    let options = ReadOptions::default();
    let name = format!("test.{format}");
    let reader = Reader::from_read(name, Cursor::new(content.to_vec()), &options).unwrap();
    assert_eq!(reader.format(), format, "the format is recognised");
}

#[track_caller]
pub(crate) fn check(format: FormatName, lines: &str, expected: &[Request]) {
    check_bytes(format, lines.as_bytes(), expected);
}

/// Reading the content fails with a message that contains `expected`.
#[track_caller]
pub(crate) fn check_bytes_error(format: FormatName, content: &[u8], expected: &str) {
    let message = drain(format, content).unwrap_err().to_string();
    assert!(message.starts_with("test: ") && message.contains(expected), "{message}");
}

#[track_caller]
pub(crate) fn check_error(format: FormatName, lines: &str, expected: &str) {
    check_bytes_error(format, lines.as_bytes(), expected);
}

pub(crate) fn counts(format: FormatName, lines: &str) -> ReadCounts {
    drain(format, lines.as_bytes()).unwrap().1.counts()
}

pub(crate) fn volume_names(format: FormatName, lines: &str) -> Vec<String> {
    drain(format, lines.as_bytes()).unwrap().1.volume_names().to_vec()
}

/// A format without plain records.
struct OneByOne<F>(F);

impl<F: RecordFormat> RecordFormat for OneByOne<F> {
    fn record_bytes(&self) -> usize {
        self.0.record_bytes()
    }

    fn header_bytes(&self) -> usize {
        self.0.header_bytes()
    }

    fn record(&mut self, record: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        self.0.record(record, volumes)
    }
}

/// Checks that many records mean the same whether plain ones are understood together or not. They are
/// `samples` in turn, of which a few have a random byte in place of one of theirs.
#[track_caller]
pub(crate) fn check_plain<F: RecordFormat>(make: fn() -> F, samples: &[Vec<u8>]) {
    let mut requests = 0;
    for seed in 0..60 {
        let mut random = SplitMix64::new(seed);
        let mut records: Vec<u8> = vec![];
        for sample in samples.iter().cycle().take(3000) {
            let begin = records.len();
            records.extend(sample);
            // In a sixth of the files there is none, so that there are long runs of plain records.
            if seed % 6 > 0 && random.below(700) == 0 {
                let place = random.below(u32::try_from(sample.len()).unwrap());
                records[begin + usize::try_from(place).unwrap()] = random.bits().to_le_bytes()[0];
            }
        }
        for objects in [Objects::Pages, Objects::One] {
            let together = outcome(make(), &records, objects);
            assert_eq!(together, outcome(OneByOne(make()), &records, objects), "seed {seed}");
            requests += together.requests.len();
        }
    }
    assert!(requests > 30_000, "only {requests} requests were understood");
}

/// Meaning of records, and the error that ends them.
#[derive(Debug, PartialEq)]
struct Outcome {
    requests: Vec<Request>,
    counts: ReadCounts,
    volumes: Vec<String>,
    records: u64,
    has_objects: bool,
    error: Option<String>,
}

fn outcome<F: RecordFormat>(format: F, records: &[u8], objects: Objects) -> Outcome {
    let file = [&vec![0; format.header_bytes()], records].concat();
    let mut input = Input::new("test".as_ref(), Cursor::new(file)).unwrap();
    let (mut decoder, mut state) = (Records(format), State::at_record(0, objects));
    let (mut requests, mut batch) = (vec![], vec![]);
    let error = loop {
        batch.clear();
        let result = decoder.decode(&mut input, &mut state, &mut batch);
        requests.extend_from_slice(&batch);
        match result {
            Ok(()) if batch.is_empty() => break None,
            Ok(()) => {}
            Err(error) => break Some(error.to_string()),
        }
    };
    Outcome {
        requests,
        counts: state.counts,
        volumes: state.volumes.names().to_vec(),
        records: state.number(),
        has_objects: state.has_objects(),
        error,
    }
}
